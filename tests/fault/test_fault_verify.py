"""`index --verify` finds what no checksum tells of, in every place of the file, and mends it.

Pages that are whole and in each other's place; vectors that are another text's, and bytes that have
changed in the file of vectors. What is said of rows and of notes is in
tests/service/test_service_verify.py.
"""

import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import apsw
import pytest
from canon import canon_lines
from command_line import listing
from lanes import SEED, by_lane
from made_up_vectors import MadeUpEmbedder

from vaultmem.embedding.cache import CACHE_NAME
from vaultmem.index.store import SIDECAR_NAME
from vaultmem.model.errors import SidecarDamaged
from vaultmem.service.application import Clock, Memory, open_memory
from vaultmem.service.mending import REBUILT
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.settings import load_settings
from vaultmem.service.verifying import _Findings

PAGE = 8192
SWAPS = by_lane(fast=12, slow=200)

TEXTS = {
    f"Log/n{number:02}.md": (
        f"---\naliases: [alias {number}]\ntags: [pottery]\n---\n# Note {number}\n\n"
        f"unique{number}x kiln. See [[n{(number + 1) % 40:02}]] and [[Nowhere]].\n\n"
        + "\n\n".join(f"## Part {part}\n\n{'glaze ' * 90}{part}" for part in range(number % 4))
        + "\n"
    )
    for number in range(40)
}


def opened(vault: Path, cache: Path) -> Memory:
    """The vault, by a model that costs nothing."""
    environment = {
        "VAULTMEM_EMBEDDER_NAME": "minilm",
        "VAULTMEM_STATE_DIR": str(cache.with_name("state")),
    }
    # No file is young: nothing is read again merely because it is new.
    clock = Clock(now_ns=lambda: 4 * 10**18, elapsed=lambda: 0.0)
    memory = open_memory(load_settings(vault, cache, environment=environment), clock=clock)
    memory.embedders["minilm"] = MadeUpEmbedder()
    return memory


Golden = tuple[Path, Path, list[str]]


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    """A vault, the folder of its index as it was written, and the canon of that."""
    scratch = tmp_path_factory.mktemp("golden")
    for path, text in TEXTS.items():
        (scratch / "vault" / path).parent.mkdir(parents=True, exist_ok=True)
        (scratch / "vault" / path).write_text(text)
    memory = opened(scratch / "vault", scratch / "cache")
    index(memory, IndexRequest())
    lines = canon_lines(memory)
    memory.close()
    return scratch / "vault", memory.folder, lines


Change = Callable[[Path], object]
Spoil = Callable[[Change], Memory]

MENDED_SILENTLY = "mended without a word"


@pytest.fixture
def spoil(golden: Golden, tmp_path: Path) -> Iterator[Spoil]:
    """spoil(change): the vault with a copy of its index that was changed; change(folder)."""
    made: list[Memory] = []

    def spoilt(change: Callable[[Path], object]) -> Memory:
        memory = opened(golden[0], tmp_path / f"cache {len(made)}")
        shutil.copytree(golden[1], memory.folder)
        index(memory, IndexRequest())  # a copy of the vectors counts as another file
        memory.close()
        change(memory.folder)
        memory.embedders["minilm"] = MadeUpEmbedder()
        made.append(memory)
        return memory

    yield spoilt
    for memory in made:
        memory.close()


def swap_pages(chance: random.Random) -> Callable[[Path], None]:
    """Two pages of the index in each other's place, each with a checksum that fits."""

    def change(folder: Path) -> None:
        data = (folder / SIDECAR_NAME).read_bytes()
        pages = [data[start : start + PAGE] for start in range(0, len(data), PAGE)]
        one, two = chance.sample(range(1, len(pages)), 2)
        pages[one], pages[two] = pages[two], pages[one]
        (folder / SIDECAR_NAME).write_bytes(b"".join(pages))

    return change


BROKEN = (SidecarDamaged, apsw.Error, LookupError, AttributeError, TypeError)


def is_wrong(golden: Golden, memory: Memory) -> bool:
    """Whether the canon is another one, or there is none to be had."""
    try:
        return canon_lines(memory) != golden[2]
    except BROKEN:
        return True
    finally:
        memory.close()


def left_wrong(
    golden: Golden, spoil: Spoil, changes: Iterable[Change], *, verify: bool
) -> list[str]:
    """What of a canon is still wrong after each change once `index` has run, or was not said.

    The check that each control must not pass.
    """
    wrong: list[str] = []
    for number, change in enumerate(changes):
        memory = spoil(change)
        was_wrong = is_wrong(golden, memory)
        memory.embedders["minilm"] = MadeUpEmbedder()
        try:
            reply = index(memory, IndexRequest(verify=verify))
            ours = canon_lines(memory)
        except BROKEN as error:
            wrong.append(f"change {number}: {type(error).__name__}: {error}")
        else:
            lines = sorted(set(ours) ^ set(golden[2]))
            wrong += [f"change {number}: {line}" for line in lines[:3]]
            found = reply.verified.differences if reply.verified is not None else 0
            if was_wrong and not found and REBUILT not in (*reply.degraded, *memory.notices):
                wrong.append(f"change {number}: {MENDED_SILENTLY}")
        memory.close()
    return wrong


def swaps() -> Iterator[Change]:
    """So many swaps of two pages."""
    chance = random.Random(SEED)
    for _ in range(SWAPS):
        yield swap_pages(chance)


def test_pages_in_each_others_place_are_found_and_put_right(golden: Golden, spoil: Spoil) -> None:
    before = listing(golden[0])
    assert left_wrong(golden, spoil, swaps(), verify=True) == []
    assert listing(golden[0]) == before


def test_control_of_that_what_is_mended_and_not_said_is_missed(
    golden: Golden, spoil: Spoil, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Findings, "add", lambda self, difference: None)
    wrong = left_wrong(golden, spoil, VECTOR_CHANGES, verify=True)
    assert sum(MENDED_SILENTLY in line for line in wrong) == len(VECTOR_CHANGES)


def test_control_of_that_who_only_looks_for_changes_leaves_them(
    golden: Golden, spoil: Spoil
) -> None:
    assert left_wrong(golden, spoil, swaps(), verify=False)


# Vectors


def swap_vectors(folder: Path) -> None:
    """The vectors of two texts in each other's place."""
    connection = apsw.Connection(str(folder / CACHE_NAME))
    codes = dict(connection.execute("SELECT slot, codes FROM vector WHERE slot < 2"))
    for slot in (0, 1):
        connection.execute("UPDATE vector SET codes = ? WHERE slot = ?", (codes[1 - slot], slot))
    connection.close()


def swap_texts(folder: Path) -> None:
    """Two texts in each other's place."""
    connection = apsw.Connection(str(folder / CACHE_NAME))
    hashes = dict(connection.execute("SELECT slot, text_hash FROM vector WHERE slot < 2"))
    for slot, text_hash in ((0, b"0" * 16), (1, hashes[0]), (0, hashes[1])):
        connection.execute("UPDATE vector SET text_hash = ? WHERE slot = ?", (text_hash, slot))
    connection.close()


def flip_in_the_file(folder: Path) -> None:
    """One bit of one vector in the file of vectors."""
    (file,) = folder.glob("vectors-*.i8")
    data = bytearray(file.read_bytes())
    data[3] ^= 1
    file.write_bytes(bytes(data))


VECTOR_CHANGES: tuple[Change, ...] = (swap_vectors, swap_texts, flip_in_the_file)
VECTORS = pytest.mark.parametrize("change", VECTOR_CHANGES)


@VECTORS
def test_vectors_that_are_not_those_of_their_texts_are_found_and_put_right(
    change: Callable[[Path], None], golden: Golden, spoil: Spoil
) -> None:
    assert left_wrong(golden, spoil, [change], verify=True) == []
    memory = spoil(change)
    reply = index(memory, IndexRequest(verify=True))
    assert reply.verified is not None
    assert reply.verified.differences
    assert {difference.table for difference in reply.differences} <= {"vector", "vectors"}
    again = index(memory, IndexRequest(verify=True)).verified
    assert again is not None
    assert again.differences == 0


@VECTORS
def test_control_of_that_who_only_looks_for_changes_does_not_see_them(
    change: Callable[[Path], None], golden: Golden, spoil: Spoil
) -> None:
    assert left_wrong(golden, spoil, [change], verify=False)
