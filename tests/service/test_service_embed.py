"""Embedding a vault: what is computed, what never is again, and that every vector is true."""

import os
import random
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from counted_embedder import (
    Counted,
    assert_vectors_are_true,
    distinct_texts,
    kept_files,
    kept_texts,
    opened,
    serving,
    use,
    without_vector,
)

from vaultmem.embedding.embedder import Embedded
from vaultmem.index.lock import embedding_lock, writer_lock
from vaultmem.service.application import Memory, Progress
from vaultmem.service.operations.index import IndexReply, IndexRequest, index
from vaultmem.service.operations.lint import LintRequest, lint
from vaultmem.service.operations.read import ReadRequest, read
from vaultmem.service.operations.related import RelatedRequest, related
from vaultmem.service.operations.search import SearchRequest, search

Open = Callable[..., Memory]
Run = Callable[[Memory], IndexReply]

MINILM = {"VAULTMEM_EMBEDDER_NAME": "minilm"}
NOTES = {
    "Kiln.md": "# Kiln\n\nIt fires overnight.\n\n## Repairs\n\nThe door sticks when it rains.\n",
    "Clay.md": "Clay from the river bank, sieved twice.\n",
    "Glaze.md": "# Glaze\n\nAsh and quartz.\n\n# Colours\n\nCopper turns green.\n",
    "Work/Shop.md": "Open on Fridays. [[Kiln]] and [[Clay]] are shown.\n",
}
PASSAGES = 6


@pytest.fixture
def open_embedded(open_vault: Open) -> Open:
    """Open a vault as `open_vault` does, indexed by words, to be embedded by a counted model."""

    def open_one(files: Mapping[str, str | bytes] | None = None, **options: object) -> Memory:
        memory = open_vault(files, **{"environment": MINILM, **options})
        if files:
            index(memory, IndexRequest(embed=False))
        use(memory, Counted())
        return memory

    return open_one


class Instant(Counted):
    """Vectors without a model, where only their number is of interest."""

    def embed_documents(self, texts: Sequence[str]) -> Embedded:
        self.texts += texts
        return Embedded(np.eye(384, dtype=np.float32)[[len(text) % 384 for text in texts]])


@pytest.fixture
def pottery(open_embedded: Open) -> Memory:
    """A vault that is indexed and embedded, ready to be changed."""
    memory = open_embedded(NOTES)
    index(memory, IndexRequest())
    return memory


def computed(memory: Memory) -> list[str]:
    """The texts whose vectors were computed so far."""
    embedder = memory.embedders["minilm"]
    assert isinstance(embedder, Counted)
    return embedder.texts


def at_first_vector(act: Callable[[], object]) -> Progress:
    """Do something once, when embedding begins: words are indexed by then."""
    done: list[bool] = []

    def report(stage: str, so_far: int, total: int) -> None:
        if stage == "embed" and not done:
            done.append(True)
            act()

    return Progress(report)


# What an index counts


def test_every_passage_gets_its_vector_and_the_counts_are_true(open_embedded: Open) -> None:
    memory = open_embedded(NOTES)
    reply = index(memory, IndexRequest())
    counts = reply.chunks
    assert (counts.total, counts.embedded, counts.waiting) == (PASSAGES, PASSAGES, 0)
    assert len(computed(memory)) == PASSAGES
    assert_vectors_are_true(memory)
    assert reply.embedder is not None
    space = serving(memory).space
    assert (reply.embedder.name, reply.embedder.dim) == (space.model, 384)
    assert (reply.embedder.problem, reply.embedder.failed, reply.embedder.truncated) == ("", 0, 0)


def test_passages_of_one_text_share_one_vector(open_embedded: Open) -> None:
    memory = open_embedded({f"n{i}.md": "# Day\n\nNothing happened.\n" for i in range(30)})
    chunks = index(memory, IndexRequest()).chunks
    assert (chunks.total, chunks.embedded, chunks.waiting) == (30, 1, 0)
    assert len(kept_texts(memory)) == 1
    assert_vectors_are_true(memory)


def test_failed_and_shortened_texts_are_counted_and_keep_nobody_waiting(
    open_embedded: Open,
) -> None:
    memory = open_embedded(NOTES)
    use(memory, Counted(refuses="rains", cuts="quartz"))
    reply = index(memory, IndexRequest())
    assert reply.embedder is not None
    assert (reply.embedder.failed, reply.embedder.truncated) == (1, 1)
    assert (reply.chunks.embedded, reply.chunks.waiting) == (PASSAGES - 1, 1)
    assert reply.embedder.problem == ""
    assert search(memory, SearchRequest("a door in bad weather", mode="semantic")).hits


def test_a_text_that_failed_is_tried_again_and_alone(open_embedded: Open) -> None:
    memory = open_embedded(NOTES)
    use(memory, Counted(refuses="rains"))
    index(memory, IndexRequest())
    better = use(memory, Counted())
    assert index(memory, IndexRequest()).chunks.embedded == 1
    assert [text for text in better.texts if "rains" not in text] == []
    assert_vectors_are_true(memory)


def test_without_embedding_nothing_is_computed_and_the_next_index_does_it(
    open_embedded: Open,
) -> None:
    memory = open_embedded(NOTES)
    reply = index(memory, IndexRequest(embed=False))
    assert (reply.embedder, reply.chunks.embedded, reply.chunks.waiting) == (None, 0, PASSAGES)
    assert computed(memory) == []
    assert index(memory, IndexRequest()).chunks.embedded == PASSAGES
    assert_vectors_are_true(memory)


ANSWERS: dict[str, Callable[[Memory], object]] = {
    "search by words": lambda m: search(m, SearchRequest("quartz", mode="keyword")),
    "search by filter": lambda m: search(m, SearchRequest("path:Work")),
    "read": lambda m: read(m, ReadRequest("Glaze")),
    "links": lambda m: related(m, RelatedRequest("Kiln")),
    "lint": lambda m: lint(m, LintRequest()),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_needs_no_vector_computes_none(answer: str, open_embedded: Open) -> None:
    """Loading the model takes longer than any of these answers."""
    memory = open_embedded(NOTES)
    ANSWERS[answer](memory)
    assert computed(memory) == []
    assert search(memory, SearchRequest("fire", mode="semantic")).mode == "semantic"
    assert len(computed(memory)) == PASSAGES


# What costs nothing


def test_a_second_run_computes_nothing_writes_nothing_and_opens_no_model(
    pottery: Memory, open_vault: Open
) -> None:
    pottery.close()
    before = kept_files(pottery)
    unusable = {**MINILM, "VAULTMEM_EMBEDDER_MODEL_PATH": "/nowhere/model.onnx"}
    again = open_vault(environment=unusable)
    reply = index(again, IndexRequest())
    assert reply.embedder is not None
    assert (reply.embedder.problem, reply.chunks.embedded, reply.chunks.waiting) == ("", 0, 0)
    assert reply.embedder.dim == 384
    assert again.embedders == {}
    again.close()
    usable = open_vault(environment=MINILM)
    index(usable, IndexRequest())
    assert usable.embedders == {}
    usable.close()
    assert kept_files(usable) == before
    assert {"index.db", "embeddings.db"} <= before.keys()


def _rename(vault: Path) -> None:
    (vault / "Kiln.md").rename(vault / "Oven.md")


def _move_a_folder(vault: Path) -> None:
    (vault / "Work").rename(vault / "Archive")


def _touch(vault: Path) -> None:
    os.utime(vault / "Kiln.md", ns=(1, 1))


def _copy(vault: Path) -> None:
    shutil.copy(vault / "Glaze.md", vault / "Glaze 2.md")


def _add_a_property(vault: Path) -> None:
    (vault / "Clay.md").write_text(f"---\ntags: [river]\n---\n{NOTES['Clay.md']}")


def _join_two_notes(vault: Path) -> None:
    (vault / "Glaze.md").write_text(f"{NOTES['Glaze.md']}\n{NOTES['Kiln.md']}")
    (vault / "Kiln.md").unlink()


@pytest.mark.parametrize(
    "change", [_rename, _move_a_folder, _touch, _copy, _add_a_property, _join_two_notes]
)
def test_what_leaves_the_texts_alone_costs_no_embedding(
    change: Callable[[Path], None], pottery: Memory, run_index: Run
) -> None:
    change(pottery.vault)
    assert run_index(pottery).chunks.embedded == 0
    assert len(computed(pottery)) == PASSAGES
    assert_vectors_are_true(pottery)


def test_a_rebuild_costs_no_embedding(pottery: Memory) -> None:
    chunks = index(pottery, IndexRequest(rebuild=True)).chunks
    assert (chunks.embedded, chunks.waiting, chunks.reused) == (0, 0, 0)
    assert_vectors_are_true(pottery)


def test_an_undone_edit_costs_no_embedding(pottery: Memory, run_index: Run) -> None:
    (pottery.vault / "Clay.md").write_text("Bought in town.")
    assert run_index(pottery).chunks.embedded == 1
    (pottery.vault / "Clay.md").write_text(NOTES["Clay.md"])
    assert run_index(pottery).chunks.embedded == 0
    assert_vectors_are_true(pottery)


def test_a_deleted_note_that_comes_back_costs_no_embedding(pottery: Memory, run_index: Run) -> None:
    (pottery.vault / "Glaze.md").unlink()
    run_index(pottery)
    (pottery.vault / "Glaze.md").write_text(NOTES["Glaze.md"])
    assert run_index(pottery).chunks.embedded == 0
    assert_vectors_are_true(pottery)


def test_embeddings_copied_from_another_machine_cost_no_embedding(
    pottery: Memory, open_embedded: Open
) -> None:
    pottery.close()
    other = open_embedded(cache="another machine")
    other.folder.mkdir(parents=True)
    shutil.copy(pottery.folder / "embeddings.db", other.folder)
    assert index(other, IndexRequest()).chunks.embedded == 0
    assert computed(other) == []
    assert_vectors_are_true(other)


def test_a_search_after_a_rebuild_by_words_finds_the_known_vectors(
    pottery: Memory, run_index: Run
) -> None:
    """As after an update of vaultmem, whose first command may well be a search."""
    many = {f"n{i}.md": f"The vase of batch {i} cracked.\n" for i in range(12)}
    for name, text in many.items():
        (pottery.vault / name).write_text(text)
    run_index(pottery)
    pottery.close()
    (pottery.folder / "index.db").unlink()
    reply = search(pottery, SearchRequest("an oven at night", mode="semantic"))
    assert (reply.mode, reply.degraded) == ("semantic", ())
    assert without_vector(pottery) == 0


@pytest.mark.parametrize("seed", range(2))
def test_an_edit_of_one_paragraph_embeds_three_passages_at_most(
    seed: int, open_embedded: Open
) -> None:
    chance = random.Random(seed)
    words = [f"{a}{b}" for a in ("kil", "cla", "gla", "pot", "was") for b in ("n", "y", "ze", "t")]

    def paragraph() -> str:
        return " ".join(chance.choices(words, k=chance.randrange(5, 60))).capitalize() + "."

    paragraphs = [paragraph() for _ in range(90)]
    for place in (20, 50, 70):
        paragraphs.insert(place, f"## Part {place}")
    memory = open_embedded({"long.md": "\n\n".join(paragraphs)})
    use(memory, Instant())
    assert index(memory, IndexRequest()).chunks.embedded > 15
    costs: list[int] = []
    while len(costs) < 60:
        place = chance.randrange(len(paragraphs))
        if paragraphs[place].startswith("#"):
            continue
        match chance.randrange(4):
            case 0:
                paragraphs[place] = paragraph()
            case 1:
                paragraphs[place] += f" And number {len(costs)}."
            case 2:
                paragraphs[place] = f"First of all {len(costs)}. {paragraphs[place]}"
            case _:
                paragraphs.insert(place, paragraph())
        (memory.vault / "long.md").write_text("\n\n".join(paragraphs))
        chunks = index(memory, IndexRequest()).chunks
        assert chunks.waiting == 0
        costs.append(chunks.embedded)
    assert min(costs) >= 1
    assert max(costs) <= 3, costs


def test_vectors_of_texts_long_gone_are_dropped_and_the_others_stay_true(
    open_embedded: Open, run_index: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vaultmem.service.embed.SPARE_VECTORS", 5)
    memory = open_embedded(NOTES)
    run_index(memory)
    generation = serving(memory).generation
    for edit in range(25):
        (memory.vault / "Clay.md").write_text(f"Delivery {edit}.")
        run_index(memory)
    assert serving(memory).generation > generation
    assert len(kept_texts(memory)) <= 2 * PASSAGES + 5 + 1
    assert_vectors_are_true(memory)
    (hit,) = search(memory, SearchRequest("Delivery 24", mode="semantic", limit=1)).hits
    assert hit.path == "Clay.md"


# Words at once


def test_words_are_found_and_notes_indexed_while_vectors_are_computed(
    open_embedded: Open, open_vault: Open
) -> None:
    other = open_vault(environment={"VAULTMEM_EMBEDDER_NAME": "none"})
    seen: dict[str, object] = {}

    def meanwhile() -> None:
        seen["vectors"] = without_vector(other)
        seen["first"] = [hit.path for hit in search(other, SearchRequest("quartz")).hits]
        (other.vault / "Clay.md").write_text("Bentonite from the quarry.")
        with writer_lock(other.folder):
            pass  # raises where somebody holds it
        seen["counts"] = index(other, IndexRequest(embed=False)).notes.changed
        seen["edited"] = [hit.path for hit in search(other, SearchRequest("bentonite")).hits]

    memory = open_embedded(NOTES, progress=at_first_vector(meanwhile))
    index(memory, IndexRequest())
    assert seen == {
        "vectors": PASSAGES,
        "first": ["Glaze.md"],
        "counts": 1,
        "edited": ["Clay.md"],
    }
    memory.progress = Progress()
    index(memory, IndexRequest())
    assert_vectors_are_true(memory)


def test_a_second_embedder_is_told_about_the_first_and_does_no_harm(
    open_embedded: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first waits for the second here, and not the other way round.
    monkeypatch.setattr(sys.modules[index.__module__], "LOCK_SECONDS", 0.0)
    second = open_embedded()
    replies: list[IndexReply] = []
    memory = open_embedded(
        NOTES, progress=at_first_vector(lambda: replies.append(index(second, IndexRequest())))
    )
    first = index(memory, IndexRequest())
    (other,) = replies
    assert other.embedder is not None
    assert "Another vaultmem process is embedding" in other.embedder.problem
    assert (other.chunks.embedded, other.chunks.waiting) == (0, PASSAGES)
    assert computed(second) == []
    assert first.embedder is not None
    assert (first.embedder.problem, first.chunks.embedded) == ("", PASSAGES)
    assert_vectors_are_true(memory)
    with embedding_lock(memory.folder):
        pass  # raises where it was not given back


def test_a_search_during_embedding_waits_for_nobody(open_embedded: Open) -> None:
    """Eight passages or fewer are embedded by a search itself: not while another one does it."""
    reader = open_embedded()
    found: list[str] = []

    def ask() -> None:
        reply = search(reader, SearchRequest("quartz"))
        found.extend([reply.mode, *(hit.path for hit in reply.hits)])

    index(open_embedded(NOTES, progress=at_first_vector(ask)), IndexRequest())
    assert found == ["keyword", "Glaze.md"]
    assert computed(reader) == []


def test_the_newest_and_most_linked_notes_come_first(open_embedded: Open) -> None:
    notes = {f"old{i:02}.md": f"---\ndate: 2019-01-{i + 1:02}\n---\nPot {i}.\n" for i in range(28)}
    notes |= {f"by{i:02}.md": f"---\ndate: 2020-01-{i + 1:02}\n---\n[[Hub]]\n" for i in range(28)}
    # Groups of 256 texts are sorted by length; only between groups does urgency show.
    notes |= {
        f"many{i:02}.md": "".join(f"# Part {j}\n\nShelf {i}, pot {j}.\n\n" for j in range(10))
        for i in range(28)
    }
    dated = {n: t for n, t in notes.items() if t.startswith("-")}
    notes = {n: f"---\ndate: 2001-01-01\n---\n{t}" for n, t in notes.items()} | dated
    notes["Hub.md"] = "---\ndate: 2024-01-01\n---\nWhere everything leads.\n"
    memory = open_embedded(notes)
    index(memory, IndexRequest())
    first = computed(memory)[:256]
    assert len(computed(memory)) > 300
    assert "Where everything leads." in first
    assert sum(text.startswith("Part") for text in first) < 256 - 28


# Notes that change while their vector is computed


def _hash_of(memory: Memory, words: str) -> bytes:
    sidecar, _ = opened(memory)
    (found,) = sidecar.connection.execute(
        "SELECT text_hash FROM chunk WHERE instr(text, ?)", (words,)
    )
    assert isinstance(found[0], bytes)
    return found[0]


@pytest.mark.parametrize("rewritten", [None, "Bought in town.\n"], ids=["deleted", "rewritten"])
def test_a_note_that_goes_while_its_vector_is_computed_leaves_no_trace(
    rewritten: str | None, open_embedded: Open, open_vault: Open
) -> None:
    other = open_vault(environment={"VAULTMEM_EMBEDDER_NAME": "none"})
    gone: list[bytes] = []

    def meanwhile() -> None:
        gone.append(_hash_of(other, "river bank"))
        if rewritten is None:
            (other.vault / "Clay.md").unlink()
        else:
            (other.vault / "Clay.md").write_text(rewritten)
        index(other, IndexRequest(embed=False))

    memory = open_embedded(NOTES)
    embedder = use(memory, Counted(meanwhile=meanwhile))
    reply = index(memory, IndexRequest())
    assert [text for text in embedder.texts if "river bank" in text]
    assert gone[0] not in kept_texts(memory)
    assert reply.chunks.embedded == PASSAGES - 1
    assert reply.chunks.waiting == (0 if rewritten is None else 1)
    again = index(memory, IndexRequest()).chunks
    assert (again.embedded, again.waiting) == (0 if rewritten is None else 1, 0)
    assert gone[0] not in kept_texts(memory)
    assert_vectors_are_true(memory)


def test_a_note_that_goes_before_its_turn_is_not_computed(
    open_embedded: Open, open_vault: Open
) -> None:
    other = open_vault(environment={"VAULTMEM_EMBEDDER_NAME": "none"})

    def meanwhile() -> None:
        (other.vault / "Clay.md").unlink()
        index(other, IndexRequest(embed=False))

    memory = open_embedded(NOTES, progress=at_first_vector(meanwhile))
    chunks = index(memory, IndexRequest()).chunks
    assert (chunks.total, chunks.embedded, chunks.waiting) == (PASSAGES - 1, PASSAGES - 1, 0)
    assert [text for text in computed(memory) if "river bank" in text] == []
    assert_vectors_are_true(memory)


def test_a_text_that_one_of_two_notes_still_has_keeps_its_vector(
    open_embedded: Open, open_vault: Open
) -> None:
    other = open_vault(environment={"VAULTMEM_EMBEDDER_NAME": "none"})

    def meanwhile() -> None:
        (other.vault / "Clay.md").unlink()
        index(other, IndexRequest(embed=False))

    memory = open_embedded({**NOTES, "Clay again.md": NOTES["Clay.md"]})
    use(memory, Counted(meanwhile=meanwhile))
    chunks = index(memory, IndexRequest()).chunks
    assert (chunks.embedded, chunks.waiting) == (PASSAGES, 0)
    assert_vectors_are_true(memory)


def test_a_refused_text_whose_note_is_gone_is_not_waited_for(
    open_embedded: Open, open_vault: Open
) -> None:
    other = open_vault(environment={"VAULTMEM_EMBEDDER_NAME": "none"})

    def meanwhile() -> None:
        (other.vault / "Clay.md").unlink()
        index(other, IndexRequest(embed=False))

    memory = open_embedded(NOTES)
    use(memory, Counted(refuses="river bank", meanwhile=meanwhile))
    reply = index(memory, IndexRequest())
    assert reply.embedder is not None
    assert (reply.embedder.failed, reply.chunks.waiting) == (0, 0)
    memory.close()
    unusable = {**MINILM, "VAULTMEM_EMBEDDER_MODEL_PATH": "/nowhere/model.onnx"}
    again = index(open_vault(environment=unusable), IndexRequest()).embedder
    assert again is not None
    assert again.problem == ""


# Odd notes


def test_a_vault_of_empty_notes_is_embedded_once_and_searched(open_embedded: Open) -> None:
    memory = open_embedded({"a.md": "", "b.md": "\n\n", "c.md": "---\ntags: [x]\n---\n"})
    chunks = index(memory, IndexRequest()).chunks
    assert chunks.waiting == 0
    assert index(memory, IndexRequest()).chunks.embedded == 0
    assert search(memory, SearchRequest("anything", mode="semantic")).mode == "semantic"


@pytest.mark.parametrize(
    "content",
    [
        b"caf\xe9 \xff\xfe kiln",
        b"half a pair \xed\xa0\x80 kiln",
        "\ufeffkiln\x00\x1b[31m".encode(),
        "kiln".encode("utf-16"),
        "\u202ekiln\u200b \U000e0041".encode(),
        b"\r\rkiln\r\n# kiln\r",
    ],
    ids=["latin-1", "surrogate", "control", "utf-16", "invisible", "returns"],
)
def test_text_that_is_hardly_text_is_embedded_like_any_other(
    content: bytes, open_embedded: Open
) -> None:
    memory = open_embedded({"odd.md": content, "plain.md": "kiln"})
    index(memory, IndexRequest())
    assert_vectors_are_true(memory)
    assert index(memory, IndexRequest()).chunks.embedded == 0


def test_a_megabyte_on_one_line_is_embedded_passage_by_passage(open_embedded: Open) -> None:
    # The same few words over and over make many passages of few texts.
    memory = open_embedded({"long.md": "The kiln is hot. " * 61_000})
    assert (memory.vault / "long.md").stat().st_size > 1_000_000
    chunks = index(memory, IndexRequest()).chunks
    assert chunks.total > 1000
    assert chunks.waiting == 0
    assert chunks.embedded == distinct_texts(memory)
    assert_vectors_are_true(memory)


def test_a_megabyte_without_a_blank_is_embedded_too(open_embedded: Open) -> None:
    memory = open_embedded({"long.md": "x" * 1_000_000})
    chunks = index(memory, IndexRequest()).chunks
    assert (chunks.waiting, chunks.embedded) == (0, distinct_texts(memory))
    assert chunks.total > 1000
    assert_vectors_are_true(memory)
