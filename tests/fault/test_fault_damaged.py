"""Damage that tests/index/test_index_damaged.py leaves out: of vectors, in numbers; its control.

There are the seeded cases of index.db, its log and its shared memory, and what may lie in the place
of each file. Here the same is done to embeddings.db and to the file of vectors, by the hundred in
the slow lane, and to caches of other versions, dimensions and vaults; and what is promised of
index.db is asked of a program that does not look at checksums, which must be found out.
"""

import random
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import apsw
import numpy as np
import pytest
from canon import vector_lines
from lanes import SEED, by_lane
from made_up_vectors import MadeUpEmbedder

from vaultmem.embedding.cache import CACHE_NAME, CACHE_VERSION
from vaultmem.index import store
from vaultmem.index.store import SIDECAR_NAME, driver
from vaultmem.model.errors import VaultmemError
from vaultmem.service.application import Clock, Memory, open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.read import ReadRequest, read
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.operations.status import StatusRequest, status
from vaultmem.service.settings import load_settings

DRAWN = by_lane(fast=30, slow=600)
# Pages in each other's place, by which it was known where a text's vector lies, and another lay
# there: nobody searched by meaning again, and indexing saw nothing to do. (Of the seed 8.)
CASES = sorted({*range(DRAWN), 173})
CONTROLS = by_lane(fast=40, slow=200)
PAGE = 4096  # of embeddings.db; of index.db it is twice that

Violations = list[str]

_WORDS = "kiln glaze clay slip cone ash bisque shard wheel hearth flue ember".split()  # noqa: SIM905


def text_of(number: int) -> str:
    words = " ".join(_WORDS[(number * 5 + n * n) % 12] for n in range(20))
    return f"---\nrating: {number}\n---\n# Note {number}\n\nunique{number}x {words}.\n"


TEXTS = {f"Log/n{number:02}.md": text_of(number) for number in range(24)}


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


@dataclass(frozen=True, slots=True)
class Whole:
    """A vault, the folder of its index as it was written, and what is true of it."""

    vault: Path
    folder: Path
    vectors: list[str]  # as the canon has them
    order: list[str]  # of the hits of a question, best first


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    scratch = tmp_path_factory.mktemp("whole")
    vault = scratch / "vault"
    for path, text in TEXTS.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)
    memory = opened(vault, scratch / "cache")
    names = random.Random(SEED)
    with pytest.MonkeyPatch.context() as patch:
        # So that one seed damages the same bytes in every run.
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=names.getrandbits(128)))
        index(memory, IndexRequest())
    vectors, order = vector_lines(memory), found(memory)
    assert len(vectors) > 2 * len(TEXTS)
    memory.close()
    return Whole(vault, memory.folder, vectors, order)


def found(memory: Memory) -> list[str]:
    """The hits of a question that is answered by vectors alone."""
    reply = search(memory, SearchRequest("a kiln that cracked", mode="semantic", limit=50))
    return [hit.path for hit in reply.hits]


@pytest.fixture
def spoil(whole: Whole, tmp_path: Path) -> Iterator[Callable[..., Memory]]:
    """spoil(change): the vault with a copy of its index that was changed; change(folder)."""
    made: list[Memory] = []

    def spoilt(change: Callable[[Path], object]) -> Memory:
        cache = tmp_path / f"cache {len(made)}"
        memory = opened(whole.vault, cache)
        # In place, since a copy of the vectors counts as another file: it is taken over first.
        shutil.copytree(whole.folder, memory.folder)
        index(memory, IndexRequest())
        memory.close()
        change(memory.folder)
        memory.embedders["minilm"] = MadeUpEmbedder()
        made.append(memory)
        return memory

    yield spoilt
    for memory in made:
        memory.close()


Spoil = Callable[..., Memory]


# What is done to bytes


def used(data: bytearray, chance: random.Random) -> int:
    """Where a page begins that is not empty: most of a new file of vectors is room for more."""
    starts = range(0, len(data), PAGE)
    return chance.choice([start for start in starts if any(data[start : start + PAGE])])


def flip_bits(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 1, 3, 40))):
        start = used(data, chance)
        data[chance.randrange(start, min(len(data), start + PAGE))] ^= 1 << chance.randrange(8)


def flip_in_the_header(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(min(100, len(data)))] ^= 1 << chance.randrange(8)


def zero_a_page(data: bytearray, chance: random.Random) -> None:
    start = used(data, chance)
    data[start : start + PAGE] = bytes(len(data[start : start + PAGE]))


def garble_a_page(data: bytearray, chance: random.Random) -> None:
    start = used(data, chance)
    data[start : start + PAGE] = chance.randbytes(len(data[start : start + PAGE]))


def cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def swap_pages(data: bytearray, chance: random.Random) -> None:
    one, two = used(data, chance), used(data, chance)
    first, second = data[one : one + PAGE], data[two : two + PAGE]
    if len(first) == len(second):
        data[one : one + PAGE], data[two : two + PAGE] = second, first


def append_rubbish(data: bytearray, chance: random.Random) -> None:
    data += chance.randbytes(chance.randrange(1, 3 * PAGE))


KINDS = (
    flip_bits,
    flip_in_the_header,
    zero_a_page,
    garble_a_page,
    cut,
    swap_pages,
    append_rubbish,
)


def damage(case: int) -> Callable[[Path], str]:
    """What a case does to the vectors in a folder; says what that was."""
    chance = random.Random(SEED * 1_000_003 + case)
    kind = KINDS[case % len(KINDS)]

    def change(folder: Path) -> str:
        files = [folder / CACHE_NAME, *folder.glob("vectors-*.i8")]
        file = files[case // len(KINDS) % len(files)]
        if case // len(KINDS) % 3 == 2:
            file = with_a_log(folder, chance)
        data = bytearray(file.read_bytes())
        kind(data, chance)
        file.write_bytes(bytes(data))
        return f"{kind.__name__} in {file.name}"

    return change


def with_a_log(folder: Path, chance: random.Random) -> Path:
    """Leave a log or its index beside the vectors, as a killed process does; one of the two."""
    connection = apsw.Connection(str(folder / CACHE_NAME))
    connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('mark', hex(zeroblob(9000)))")
    copies = {
        name: (folder / name).read_bytes() for name in (f"{CACHE_NAME}-wal", f"{CACHE_NAME}-shm")
    }
    connection.close()
    for name, data in copies.items():
        (folder / name).write_bytes(data)
    return folder / chance.choice(sorted(copies))


# What may come of it


def untrue(memory: Memory, whole: Whole) -> Violations:
    """What a vault with damaged vectors says that it should not."""
    wrong: Violations = []
    for asked in ("unique7x", "kiln wheel", "a kiln that cracked"):
        reply = search(memory, SearchRequest(asked, limit=50))
        for hit in reply.hits:
            if hit.snippet.strip("…") not in " ".join(TEXTS[hit.path].split()):
                wrong.append(f"{hit.path}: {hit.snippet!r}")
    if search(memory, SearchRequest("unique7x")).hits[:1] == ():
        wrong.append("a word of a note is not found")
    if read(memory, ReadRequest("n07")).text != TEXTS["Log/n07.md"]:
        wrong.append("another text of a note")
    status(memory, StatusRequest(checks=True))
    return wrong


def faults(memory: Memory, whole: Whole, told: str) -> Violations:
    """Whether anything is wrong beside the order that damaged numbers give."""
    wrong: Violations = []
    for _ in range(2):
        try:
            wrong += untrue(memory, whole)
            reply = index(memory, IndexRequest())
        except VaultmemError as error:
            wrong.append(f"{told}: {error}")
            continue
        if reply.notes.total != len(TEXTS) or reply.chunks.waiting:
            wrong.append(f"{told}: {reply.notes}, {reply.chunks}")
        if reply.embedder is None or reply.embedder.problem:
            wrong.append(f"{told}: {reply.embedder}")
        by_meaning = search(memory, SearchRequest("a kiln that cracked", mode="semantic", limit=50))
        if by_meaning.degraded or len(by_meaning.hits) != len(TEXTS):
            wrong.append(f"{told}: {by_meaning.degraded}, {len(by_meaning.hits)} by meaning")
        if memory.notices:
            wrong.append(f"{told}: the index was thrown away with them: {memory.notices}")
        memory.close()
        memory.embedders["minilm"] = MadeUpEmbedder()
    return wrong


@pytest.mark.parametrize("case", CASES)
def test_whatever_happens_to_the_vectors_every_note_is_found_and_read_as_it_is(
    case: int, whole: Whole, spoil: Spoil
) -> None:
    told: list[str] = []
    memory = spoil(lambda folder: told.append(damage(case)(folder)))
    assert faults(memory, whole, told[0]) == []


def test_control_of_that_a_file_that_is_not_let_go_of_is_noticed(
    whole: Whole, spoil: Spoil, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vaultmem.embedding.cache._remove", lambda path: None)
    wrong: Violations = []
    for case in range(len(KINDS)):
        told: list[str] = []
        memory = spoil(lambda folder, case=case, told=told: told.append(damage(case)(folder)))
        wrong += faults(memory, whole, told[0])
    assert wrong


# Vectors that are whole, and not these


def of_another_dimension(folder: Path) -> None:
    """As a model that gives longer vectors leaves it, under the name of this one."""
    connection = apsw.Connection(str(folder / CACHE_NAME))
    longer = b"".join(bytes([n]) for n in range(1, 17))
    connection.execute("UPDATE vector SET codes = ?", (longer,))
    connection.execute("DELETE FROM meta WHERE key LIKE 'file %'")
    connection.close()
    for file in folder.glob("vectors-*.i8"):
        file.unlink()


def said_to_be_of_another_dimension(folder: Path) -> None:
    connection = apsw.Connection(str(folder / CACHE_NAME))
    connection.execute(
        "UPDATE space SET identity = json_set(identity, '$.dimension', 16), indexed = 0"
    )
    connection.close()


def codes_of_another_dimension(folder: Path) -> None:
    (file,) = folder.glob("vectors-*.i8")
    row = np.zeros(len(TEXTS) * 2, [("codes", np.int8, (16,)), ("length", "<f4"), ("f", "<f4")])
    row["codes"], row["length"] = 3, 12.0
    file.write_bytes(row.tobytes())


def made_by(version: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        connection = apsw.Connection(str(folder / CACHE_NAME))
        connection.execute("UPDATE meta SET value = ? WHERE key = 'version'", (version,))
        connection.close()

    return change


def without_a_table(folder: Path) -> None:
    connection = apsw.Connection(str(folder / CACHE_NAME))
    connection.execute("DROP TABLE vector")
    connection.close()


def gone(folder: Path) -> None:
    for file in [folder / CACHE_NAME, *folder.glob("vectors-*.i8")]:
        file.unlink()


def with_a_pickle_for_codes(folder: Path) -> None:
    (file,) = folder.glob("vectors-*.i8")
    file.write_bytes(b"cposix\nsystem\n(S'touch PWNED'\ntR.")


OTHERS: dict[str, Callable[[Path], None]] = {
    "of another dimension": of_another_dimension,
    "said to be of another dimension": said_to_be_of_another_dimension,
    "codes of another dimension": codes_of_another_dimension,
    "an older version": made_by(str(CACHE_VERSION - 1)),
    "a newer version": made_by(str(CACHE_VERSION + 1)),
    "no version": made_by(""),
    "a table less": without_a_table,
    "gone": gone,
    "a pickle": with_a_pickle_for_codes,
}


@pytest.mark.parametrize("other", OTHERS)
def test_vectors_that_are_not_these_are_computed_anew_and_are_the_same_again(
    other: str, whole: Whole, spoil: Spoil
) -> None:
    memory = spoil(OTHERS[other])
    assert faults(memory, whole, other) == []
    assert vector_lines(memory) == whole.vectors
    assert found(memory) == whole.order


def test_control_of_that_vectors_that_are_trusted_differ(whole: Whole, spoil: Spoil) -> None:
    """A vector that is whole and another text's: only a comparison tells."""

    def swap(folder: Path) -> None:
        connection = apsw.Connection(str(folder / CACHE_NAME))
        codes = dict(connection.execute("SELECT slot, codes FROM vector WHERE slot < 2"))
        for slot in (0, 1):
            connection.execute(
                "UPDATE vector SET codes = ? WHERE slot = ?", (codes[1 - slot], slot)
            )
        connection.close()

    memory = spoil(swap)
    assert faults(memory, whole, "swapped") == []
    assert vector_lines(memory) != whole.vectors


# The index, by a program that does not look at checksums


def letters(data: bytearray, chance: random.Random) -> None:
    """Another letter in a title, which stands behind the path of its note."""
    title = b".mdn%02d" % chance.randrange(len(TEXTS))
    start = data.find(title)
    while start >= 0:
        data[start + 3] ^= 1  # an o for an n
        start = data.find(title, start + 1)


def shown_wrong(whole: Whole, spoil: Spoil, cases: int) -> Violations:
    """What is shown of an index whose bytes have changed, and that no note says."""
    wrong: Violations = []
    for case in range(cases):
        chance = random.Random(SEED * 7_000_003 + case)
        kind = (letters, flip_bits, zero_a_page, swap_pages)[case % 4]

        def change(folder: Path, kind=kind, chance=chance) -> None:  # type: ignore[no-untyped-def]
            data = bytearray((folder / SIDECAR_NAME).read_bytes())
            kind(data, chance)
            (folder / SIDECAR_NAME).write_bytes(bytes(data))

        memory = spoil(change)
        try:
            for asked in ("note", f"unique{case % len(TEXTS)}x", "kiln"):
                for hit in search(memory, SearchRequest(asked, mode="keyword", limit=50)).hits:
                    title = hit.path[4:-3]
                    flat = " ".join(TEXTS.get(hit.path, "").split())
                    if hit.title != title or hit.snippet.strip("…") not in flat:
                        wrong.append(f"{kind.__name__}: {hit.path} {hit.title!r} {hit.snippet!r}")
        except (VaultmemError, apsw.Error, TypeError, ValueError, LookupError) as error:
            wrong.append(f"{kind.__name__}: {type(error).__name__}: {error}")
        memory.close()
    return wrong


@pytest.mark.skipif(not driver()[3], reason="this apsw checks no pages")
def test_what_is_shown_is_what_a_note_says_whatever_became_of_the_index(
    whole: Whole, spoil: Spoil
) -> None:
    assert shown_wrong(whole, spoil, CONTROLS) == []


def test_control_of_that_without_the_check_at_opening_wrong_text_is_shown(
    whole: Whole, spoil: Spoil, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = store._opened

    def unchecked(folder: Path, journal: str, *, check: bool = True) -> object:
        return real(folder, journal, check=False)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "_opened", unchecked)
    wrong = shown_wrong(whole, spoil, 8)
    assert any(line.startswith("letters") for line in wrong), wrong
