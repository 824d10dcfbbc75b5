"""The sidecar is disposable: delete it, index again, and nothing is lost."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from lanes import SEED, by_lane
from lives import DECK, Life, lost
from made_up_vectors import MadeUpEmbedder
from scenarios import put

from vaultmem.service.allowed_secrets import read_allowed
from vaultmem.service.application import Memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search

LIVES = by_lane(fast=1, slow=200)


def count_uses(memory: Memory) -> None:
    """A fault: what was learnt is kept in the sidecar alone."""
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    sidecar.end_reading()
    sidecar.set_meta("uses", str(int(sidecar.meta("uses") or "0") + 1))


def mark_found(memory: Memory) -> None:
    """A fault: a column says what no note does."""
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    sidecar.end_reading()
    sidecar.connection.execute(
        "UPDATE note SET kind = 'useful' WHERE id = (SELECT min(id) FROM note)"
    )


@pytest.mark.parametrize("seed", range(SEED, SEED + LIVES))
def test_a_sidecar_deleted_after_a_life_of_sixty_steps_comes_back_as_it_was(
    seed: int, tmp_path: Path
) -> None:
    life = Life(tmp_path, seed)
    steps = life.live()
    assert len(steps) == 60
    assert Counter(steps) == DECK
    assert lost(life) == []
    life.memory.close()


@pytest.mark.parametrize("learn", [count_uses, mark_found])
def test_what_is_kept_in_the_sidecar_alone_is_missed(
    learn: Callable[[Memory], None], tmp_path: Path
) -> None:
    life = Life(tmp_path, SEED)
    life.live()
    life.known()
    learn(life.memory)
    assert lost(life)
    life.memory.close()


def test_what_a_person_allowed_outlives_the_sidecar(tmp_path: Path) -> None:
    life = Life(tmp_path, SEED)
    life.known()
    life.take("allow")
    folder = life.memory.settings.state_folder
    allowed = read_allowed(folder)
    assert len(allowed.fingerprints) == 1
    life.delete_sidecar()
    assert read_allowed(folder) == allowed
    assert any(line.startswith("secret") and "allowed=True" in line for line in life.known())
    life.memory.close()


def test_the_same_passages_tell_whether_a_model_is_believed_however_they_came(
    open_vault: Callable[..., Memory],
) -> None:
    """Of passages with equal scores more than are asked: half of them is no English at all."""
    english = {f"b{n:02}.md": f"kiln and clay {n:02}\n" for n in range(30)}
    other = {f"a{n:02}.md": f"kiln zxqv wvqk {n:02}\n" for n in range(30)}
    found = []
    for name, first, second in (("one", english, other), ("two", other, english)):
        memory = open_vault(
            first,
            name=name,
            environment={"VAULTMEM_EMBEDDER_NAME": "minilm"},
        )
        memory.embedders["minilm"] = MadeUpEmbedder()
        index(memory, IndexRequest())
        put(memory.vault, second)
        index(memory, IndexRequest())
        reply = search(memory, SearchRequest("kiln", limit=20))
        found.append([(hit.path, hit.score) for hit in reply.hits])
    assert found[0] == found[1]


def test_a_filter_that_leaves_most_passages_gives_each_its_own_similarity(
    open_vault: Callable[..., Memory],
) -> None:
    """A filter that every note satisfies changes no vector's score, whoever chose the nearest."""
    environment = {"VAULTMEM_EMBEDDER_NAME": "minilm"}
    memory = open_vault(
        {f"n{n:02}.md": f"kiln number {n} #pottery\n" for n in range(20)}, environment=environment
    )
    memory.embedders["minilm"] = MadeUpEmbedder()
    index(memory, IndexRequest())

    def similarities(*tags: str) -> dict[str, float]:
        reply = search(memory, SearchRequest("glaze", mode="semantic", limit=20, tags=tags))
        return {
            hit.path: hit.evidence.channels[0].raw for hit in reply.hits if hit.evidence is not None
        }

    assert len(similarities()) == 20
    assert similarities("pottery") == similarities()
