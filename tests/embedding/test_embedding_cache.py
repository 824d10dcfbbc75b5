"""embeddings.db: what is kept under which key, and what is left of it after every mishap."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import apsw
import numpy as np
import pytest
from numpy.typing import NDArray

from vaultmem.embedding.cache import (
    CACHE_NAME,
    CACHE_VERSION,
    MOST_NEIGHBOURS,
    EmbeddingCache,
    Row,
    StoredSpace,
    extension_version,
    open_cache,
)
from vaultmem.embedding.embedder import Space
from vaultmem.embedding.journal_mode import Wish
from vaultmem.embedding.quantise import quantise
from vaultmem.index.store import sidecar_errors
from vaultmem.model.errors import DiskFull, SidecarDamaged, SidecarUnavailable

Codes = NDArray[np.int8]

DIMENSION = 16
SPACE = Space("maker", "model", "digest", DIMENSION, "query: ", "document: ")
RULES = "int8; chunker 1"

Open = Callable[..., EmbeddingCache]

with_extension = pytest.mark.skipif(
    extension_version() is None, reason="sqlite-vec cannot be loaded here"
)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Open the cache in tmp_path, or in a folder below it, made where there is none."""
    caches: list[EmbeddingCache] = []

    def open_one(folder: str = ".", *, create: bool = True) -> EmbeddingCache:
        (tmp_path / folder).mkdir(exist_ok=True)
        cache = open_cache(tmp_path / folder, create=create)
        assert cache is not None
        caches.append(cache)
        return cache

    yield open_one
    for cache in caches:
        cache.close()


def text(number: int) -> bytes:
    return number.to_bytes(16, "big")


def codes_of(number: int) -> bytes:
    codes: bytes = question(number).tobytes()
    return codes


def question(seed: int) -> Codes:
    row = np.random.default_rng(seed).standard_normal((1, DIMENSION)).astype(np.float32)
    codes: Codes = quantise(row)[0]
    return codes


def rows(numbers: Iterable[int]) -> list[Row]:
    """The vectors of these texts, each as different as the text's number."""
    return [Row(text(n), codes_of(n), n / 8 if n % 2 else None) for n in numbers]


def now(cache: EmbeddingCache, space: StoredSpace) -> StoredSpace:
    current = cache.current(space.id)
    assert current is not None
    return current


def kept(cache: EmbeddingCache, space: StoredSpace) -> list[tuple[int, bytes, float | None]]:
    return list(cache.rows(space.id, 0))


def expected(numbers: Iterable[int]) -> list[tuple[int, bytes, float | None]]:
    return [(slot, row.codes, row.fertility) for slot, row in enumerate(rows(numbers))]


def vector_tables(cache: EmbeddingCache) -> set[object]:
    found = cache.query(
        "SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL TABLE%' ORDER BY name", ()
    )
    return {name for (name,) in found}


def by_numpy(query: Codes, numbers: Sequence[int]) -> list[float]:
    """Cosine of the question with each text's vector."""
    found = np.array([np.frombuffer(codes_of(n), np.int8) for n in numbers], np.float64)
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(query.astype(float))
    cosines: list[float] = (found @ query.astype(np.float64) / lengths).tolist()
    return cosines


# What is kept


def test_a_new_cache_is_empty_and_is_the_same_when_opened_again(opened: Open) -> None:
    cache = opened()
    assert (cache.spaces(), vector_tables(cache)) == ((), set())
    assert cache.path.name == CACHE_NAME
    cache.close()
    cache.close()
    again = opened(create=False)
    assert again.id == cache.id
    assert opened("other").id != cache.id


def test_a_reader_makes_no_cache(tmp_path: Path) -> None:
    assert open_cache(tmp_path, create=False) is None
    assert list(tmp_path.iterdir()) == []


def test_slots_are_numbered_without_a_gap_in_the_order_of_coming(opened: Open) -> None:
    cache = opened()
    space = cache.add(SPACE, RULES)
    assert cache.put(space.id, rows([7, 3])) == {text(7): 0, text(3): 1}
    assert cache.put(space.id, []) == {}
    assert cache.put(space.id, rows([5])) == {text(5): 2}
    assert kept(cache, space) == expected([7, 3, 5])
    assert now(cache, space).slots == 3


def test_a_text_that_has_a_vector_keeps_it_and_its_slot(opened: Open) -> None:
    cache = opened()
    space = cache.add(SPACE, RULES)
    cache.put(space.id, rows([7, 3]))
    changed = [replace(row, codes=codes_of(99), fertility=9.0) for row in rows([3])]
    both = [*changed, *rows([5]), *rows([5]), *changed, *rows([7])]
    assert cache.put(space.id, both) == {text(3): 1, text(5): 2, text(7): 0}
    assert kept(cache, space) == expected([7, 3, 5])
    assert now(cache, space).slots == 3


def test_rows_come_in_order_from_any_slot_on(opened: Open) -> None:
    cache = opened()
    space = cache.add(SPACE, RULES)
    cache.put(space.id, rows(range(50, 0, -1)))
    assert list(cache.rows(space.id, 20)) == expected(range(50, 0, -1))[20:]
    assert list(cache.rows(space.id, 50)) == []
    assert list(cache.rows(space.id, 0, space.generation)) == kept(cache, space)
    assert list(cache.rows(space.id, 0, space.generation + 1)) == []


def test_known_names_the_slots_of_those_texts_that_have_one(opened: Open) -> None:
    cache = opened()
    space, other = cache.add(SPACE, RULES), cache.add(SPACE, "other rules")
    cache.put(space.id, rows(range(0, 1500, 3)))
    cache.put(other.id, rows([1]))
    asked = (text(n) for n in range(1500))
    assert cache.known(space.id, asked) == {text(3 * slot): slot for slot in range(500)}
    assert cache.known(other.id, [text(0), text(1)]) == {text(1): 0}
    assert cache.known(space.id, []) == {}


def test_any_byte_may_stand_in_a_texts_hash(opened: Open) -> None:
    cache = opened()
    space = cache.add(SPACE, RULES)
    hashes = [bytes([byte]) * 16 for byte in range(256)]
    placed = cache.put(space.id, [Row(h, codes_of(1), None) for h in hashes])
    assert cache.known(space.id, hashes) == placed == {h: n for n, h in enumerate(hashes)}


# Spaces


def different(space: Space, name: str) -> Space:
    """The space with another value in one field."""
    values = {field.name: getattr(space, field.name) for field in fields(Space)}
    values[name] = values[name] + 1 if isinstance(values[name], int) else f"{values[name]}!"
    return Space(**values)


@pytest.mark.parametrize("name", [*(field.name for field in fields(Space)), "rules"])
def test_whatever_differs_makes_another_space(name: str, opened: Open) -> None:
    cache = opened()
    first = cache.add(SPACE, RULES)
    space, rules = SPACE, f"{RULES}!"
    if name != "rules":
        space, rules = different(SPACE, name), RULES
    assert cache.find(space, rules) is None
    second = cache.add(space, rules)
    assert second.id != first.id
    assert (second.space, second.rules) == (space, rules)
    cache.put(first.id, rows([4, 2]))
    assert cache.known(second.id, [text(4), text(2)]) == {}
    if space.dimension == DIMENSION:
        cache.put(second.id, rows([2]))
        assert (kept(cache, first), kept(cache, second)) == (expected([4, 2]), expected([2]))


def test_the_same_space_is_found_again(opened: Open) -> None:
    cache = opened()
    first = cache.add(SPACE, RULES)
    cache.put(first.id, rows([1]))
    again = cache.add(
        Space(**{field.name: getattr(SPACE, field.name) for field in fields(Space)}), RULES
    )
    assert again == cache.find(SPACE, RULES) == cache.current(first.id) == now(cache, first)
    assert (again.id, again.slots) == (first.id, 1)
    assert [space.id for space in cache.spaces()] == [first.id]


@pytest.mark.parametrize("prefix", ["", "a\nb\t\"'\\", "日本語: ", "\x00", "\udcff", "{}", "🙂 "])
def test_a_prefix_may_hold_anything(prefix: str, opened: Open) -> None:
    cache = opened()
    space = cache.add(replace(SPACE, query_prefix=prefix), f"rules {prefix}")
    assert space.space.query_prefix == prefix
    assert cache.find(replace(SPACE, query_prefix=prefix), f"rules {prefix}") == space
    assert cache.find(replace(SPACE, document_prefix=prefix + "x"), RULES) is None


def test_a_forgotten_space_leaves_nothing_and_the_others_everything(opened: Open) -> None:
    cache = opened()
    gone, stays = cache.add(SPACE, RULES), cache.add(SPACE, "other")
    cache.put(gone.id, rows(range(5)))
    cache.put(stays.id, rows(range(3, 9)))
    cache.forget(gone.id)
    assert cache.current(gone.id) is None
    assert cache.find(SPACE, RULES) is None
    assert kept(cache, gone) == []
    assert cache.known(gone.id, [text(1)]) == {}
    assert kept(cache, stays) == expected(range(3, 9))
    assert cache.query("SELECT count(*) FROM vector", ()) == [(6,)]
    assert all(f"_{stays.id}_" in str(name) for name in vector_tables(cache))


def test_what_is_put_into_a_forgotten_space_goes_nowhere(opened: Open) -> None:
    cache = opened()
    space = cache.add(SPACE, RULES)
    cache.put(space.id, rows([1]))
    cache.forget(space.id)
    assert cache.put(space.id, rows([2, 3])) == {}
    cache.compact(space.id, [text(2)])
    cache.catch_up(space.id)
    assert cache.query("SELECT count(*) FROM vector", ()) == [(0,)]
    assert cache.spaces() == ()


def test_the_number_of_a_forgotten_space_is_not_given_again(opened: Open) -> None:
    """A sidecar, or a file of vectors, may still speak of it."""
    cache = opened()
    first = cache.add(SPACE, RULES)
    cache.forget(first.id)
    cache.close()
    assert opened().add(SPACE, "other").id != first.id


# Compaction


def test_compaction_keeps_the_order_and_closes_the_gaps(opened: Open) -> None:
    cache = opened()
    space, other = cache.add(SPACE, RULES), cache.add(SPACE, "other")
    cache.put(space.id, rows(range(100, 0, -1)))
    cache.put(other.id, rows([1, 2]))
    used = [n for n in range(100, 0, -1) if n % 3 == 0]
    cache.compact(space.id, (text(n) for n in [*used[::-1], 5000]))
    after = now(cache, space)
    assert (after.slots, after.generation) == (len(used), space.generation + 1)
    assert kept(cache, space) == expected(used)
    assert cache.known(space.id, map(text, range(101))) == {text(n): i for i, n in enumerate(used)}
    assert kept(cache, other) == expected([1, 2])
    assert now(cache, other).generation == other.generation
    assert cache.put(space.id, rows([1])) == {text(1): len(used)}


def test_compaction_may_leave_nothing_or_everything(opened: Open) -> None:
    cache = opened()
    space = cache.add(SPACE, RULES)
    cache.put(space.id, rows(range(4)))
    cache.compact(space.id, map(text, range(4)))
    assert (kept(cache, space), now(cache, space).generation) == (expected(range(4)), 2)
    cache.compact(space.id, [])
    assert (kept(cache, space), now(cache, space).slots) == ([], 0)
    cache.put(space.id, rows([9]))
    assert kept(cache, space) == expected([9])


def test_rows_of_slots_that_are_numbered_anew_are_not_given_out(opened: Open) -> None:
    writer, reader = opened(), opened()
    space = writer.add(SPACE, RULES)
    writer.put(space.id, rows(range(4)))
    writer.compact(space.id, [text(3)])
    assert list(reader.rows(space.id, 0, space.generation)) == []
    assert list(reader.rows(space.id, 0, now(reader, space).generation)) == expected([3])


# sqlite-vec


@with_extension
@pytest.mark.parametrize("count", [1, 2, 300])
def test_sqlite_vec_ranks_the_asked_slots_as_numpy_does(count: int, opened: Open) -> None:
    cache = opened()
    space = cache.add(SPACE, RULES)
    numbers = list(range(400))
    cache.put(space.id, rows(numbers))
    space = now(cache, space)
    for seed in range(5):
        generator = np.random.default_rng(seed)
        asked = generator.choice(numbers, count, replace=False).tolist()
        found = cache.nearest(space, question(seed), asked)
        assert found is not None
        assert sorted(found) == sorted(asked)
        cosines = by_numpy(question(seed), found)
        assert all(b <= a + 1e-6 for a, b in pairwise(cosines))


@with_extension
def test_vectors_and_questions_of_zeros_are_answered_too(opened: Open) -> None:
    cache = opened()
    space = cache.add(SPACE, RULES)
    cache.put(space.id, [*rows([1]), Row(text(2), bytes(DIMENSION), None), *rows([3])])
    space = now(cache, space)
    for query in (question(1), np.zeros(DIMENSION, np.int8)):
        found = cache.nearest(space, query, [0, 1, 2])
        assert found is not None
        assert sorted(found) == [0, 1, 2]


@with_extension
def test_sqlite_vec_does_not_answer_what_it_cannot(opened: Open) -> None:
    cache = opened()
    space = cache.add(SPACE, RULES)
    assert cache.nearest(space, question(1), []) is None
    cache.put(space.id, rows([1, 2]))
    space = now(cache, space)
    assert cache.nearest(space, question(1), []) is None
    assert cache.nearest(space, question(1), range(MOST_NEIGHBOURS + 1)) is None
    assert cache.nearest(replace(space, slots=3), question(1), [0]) is None
    assert cache.nearest(replace(space, id=77), question(1), [0]) is None
    assert cache.nearest(space, question(1), range(MOST_NEIGHBOURS)) is not None


@with_extension
def test_a_reader_is_not_disturbed_by_slots_numbered_anew(opened: Open) -> None:
    writer, reader = opened(), opened(create=False)
    space = writer.add(SPACE, RULES)
    writer.put(space.id, rows(range(9)))
    before = now(reader, space)
    assert reader.nearest(before, question(1), [3, 4]) is not None
    writer.compact(space.id, map(text, range(4, 9)))
    assert reader.nearest(before, question(1), [3, 4]) is None
    assert reader.nearest(now(reader, space), question(1), [3, 4]) is not None
    writer.forget(space.id)
    assert reader.nearest(before, question(1), [3, 4]) is None


@with_extension
def test_there_is_one_table_for_each_space_and_none_of_earlier_numbers(opened: Open) -> None:
    cache = opened()
    first, second = cache.add(SPACE, RULES), cache.add(replace(SPACE, dimension=8), RULES)
    cache.put(first.id, rows(range(4)))
    cache.put(second.id, [Row(text(1), bytes(range(8)), None)])
    for _ in range(3):
        cache.compact(first.id, [text(2), text(3)])
    assert vector_tables(cache) == {
        f"passage_vector_{first.id}_4",
        f"passage_vector_{second.id}_1",
    }
    cache.forget(second.id)
    assert vector_tables(cache) == {f"passage_vector_{first.id}_4"}
    assert cache.query(f"SELECT slot FROM passage_vector_{first.id}_4 ORDER BY slot", ()) == [
        (0,),
        (1,),
    ]


@with_extension
def test_catching_up_twice_is_catching_up_once(opened: Open) -> None:
    cache = opened()
    space = cache.add(SPACE, RULES)
    cache.put(space.id, rows(range(4)))
    before = now(cache, space)
    cache.catch_up(space.id)
    assert now(cache, space) == before
    assert before.indexed == 4


# Without the extension: in a Python that does not have it

PUT_AND_COMPACT = """
import sys
from pathlib import Path
import apsw
{before}
from vaultmem.embedding.cache import Row, extension_version, open_cache
from vaultmem.embedding.embedder import Space
assert extension_version() is None
cache = open_cache(Path(sys.argv[1]), create=True)
assert not cache.vector_extension
space = cache.find(Space(**{space}), {rules!r}) or cache.add(Space(**{space}), {rules!r})
for line in sys.stdin:
    act, *numbers = line.split()
    hashes = [int(n).to_bytes(16, "big") for n in numbers]
    if act == "put":
        rows = [Row(h, bytes([int(n) % 100 + 1] * {dimension}), None)
                for h, n in zip(hashes, numbers)]
        cache.put(space.id, rows)
    elif act == "compact":
        cache.compact(space.id, hashes)
    elif act == "forget":
        cache.forget(space.id)
        space = cache.add(Space(**{space}), {rules!r})
cache.catch_up(space.id)
print(cache.nearest(cache.current(space.id), None, [0]), len(list(cache.rows(space.id, 0))))
"""

NO_MODULE = ("raise ImportError('not here')", "")
NO_LIBRARY = ("def loadable_path():\n    return __file__", "")
NO_SUCH_THING = ("", "")
NO_LOADING = (
    "def loadable_path():\n    return 'unused'",
    """
class Bare(apsw.Connection):
    @property
    def enable_load_extension(self):
        raise AttributeError("built without extensions")
apsw.Connection = Bare
""",
)
WITHOUT = {
    "no module": NO_MODULE,
    "a library that is none": NO_LIBRARY,
    "another module of that name": NO_SUCH_THING,
    "a SQLite that loads nothing": NO_LOADING,
}


def without_extension(folder: Path, how: tuple[str, str], lines: Sequence[str]) -> str:
    """Do these things in a Python that cannot load sqlite-vec; what it prints."""
    module, before = how
    blocked = folder / "blocked"
    blocked.mkdir(exist_ok=True)
    (blocked / "sqlite_vec.py").write_text(module)
    space = {field.name: getattr(SPACE, field.name) for field in fields(Space)}
    script = PUT_AND_COMPACT.format(before=before, space=space, rules=RULES, dimension=DIMENSION)
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        input="\n".join(lines),
        env={**os.environ, "PYTHONPATH": str(blocked)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("how", WITHOUT)
def test_without_the_extension_all_but_its_own_table_works(
    how: str, tmp_path: Path, opened: Open
) -> None:
    lines = ["put 1 2 3 4", "compact 2 3 4", "put 5"]
    assert without_extension(tmp_path, WITHOUT[how], lines) == "None 4"
    cache = opened(create=False)
    (space,) = cache.spaces()
    assert (space.slots, space.indexed, space.generation) == (4, 0, 2)
    assert [codes[0] for _, codes, _ in kept(cache, space)] == [3, 4, 5, 6]


@with_extension
@pytest.mark.parametrize(
    "lines",
    [
        ["put 11 12"],
        ["compact 2 3"],
        ["put 11", "compact 3 11", "put 12"],
        ["forget", "put 3 11"],
        ["forget"],
        ["compact 1", "compact"],
    ],
    ids=", ".join,
)
def test_with_the_extension_back_its_table_catches_up(
    lines: list[str], tmp_path: Path, opened: Open
) -> None:
    cache = opened()
    cache.put(cache.add(SPACE, RULES).id, rows(range(1, 5)))
    cache.close()
    without_extension(tmp_path, NO_MODULE, lines)
    cache = opened()
    (space,) = cache.spaces()
    cache.catch_up(space.id)
    cache.put(space.id, rows([20]))
    space = now(cache, space)
    assert space.indexed == space.slots >= 1
    assert vector_tables(cache) == {f"passage_vector_{space.id}_{space.generation}"}
    table = cache.query(
        f"SELECT slot, embedding FROM passage_vector_{space.id}_{space.generation} ORDER BY slot",
        (),
    )
    assert table == [(slot, codes) for slot, codes, _ in kept(cache, space)]


# Files that are not what they should be


def spoil_with_text(file: Path) -> None:
    file.write_text("This was never a database.\n" * 50)


def spoil_with_nothing(file: Path) -> None:
    file.write_bytes(b"")


def spoil_with_zeros(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def spoil_by_cutting(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def spoil_by_cutting_within_the_header(file: Path) -> None:
    os.truncate(file, 60)


def spoil_the_schema(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[100:4096] = b"\x5a" * 3996
    file.write_bytes(data)


def spoil_as_another_database(file: Path) -> None:
    file.unlink()
    connection = apsw.Connection(str(file))
    connection.execute("CREATE TABLE meta (something, other)")
    connection.close()


def spoil_by_another_version(file: Path) -> None:
    connection = apsw.Connection(str(file))
    connection.execute("UPDATE meta SET value = ? WHERE key = 'version'", (str(CACHE_VERSION + 1),))
    connection.close()


def spoil_without_a_version(file: Path) -> None:
    connection = apsw.Connection(str(file))
    connection.execute("DELETE FROM meta WHERE key = 'version'")
    connection.close()


SPOILERS = [
    spoil_with_text,
    spoil_with_nothing,
    spoil_with_zeros,
    spoil_by_cutting,
    spoil_by_cutting_within_the_header,
    spoil_the_schema,
    spoil_as_another_database,
    spoil_by_another_version,
    spoil_without_a_version,
]


@pytest.mark.parametrize("spoil", SPOILERS, ids=lambda spoil: spoil.__name__)
def test_a_file_that_is_no_cache_is_none_for_a_reader_and_new_for_a_writer(
    spoil: Callable[[Path], None], tmp_path: Path, opened: Open
) -> None:
    cache = opened()
    cache.put(cache.add(SPACE, RULES).id, rows(range(200)))
    cache.close()
    spoil(cache.path)
    assert open_cache(tmp_path, create=False) is None
    new = opened()
    assert (new.id == cache.id, new.spaces()) == (False, ())
    space = new.add(SPACE, RULES)
    new.put(space.id, rows([5]))
    new.close()
    again = opened(create=False)
    assert kept(again, space) == expected([5])
    assert again.query("PRAGMA integrity_check", ()) == [("ok",)]


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_junk_beside_the_file_is_no_part_of_it(suffix: str, tmp_path: Path, opened: Open) -> None:
    cache = opened()
    space = cache.add(SPACE, RULES)
    cache.put(space.id, rows(range(20)))
    cache.close()
    cache.path.with_name(CACHE_NAME + suffix).write_bytes(b"\x37\x7f\x06\x82" + b"junk" * 999)
    assert kept(opened(), space) == expected(range(20))


def test_a_log_that_cannot_be_opened_is_none_for_a_reader(tmp_path: Path, opened: Open) -> None:
    cache = opened()
    cache.close()
    cache.path.with_name(CACHE_NAME + "-wal").mkdir()
    assert open_cache(tmp_path, create=False) is None


def test_a_folder_in_place_of_the_file_is_none_for_a_reader_and_kept(tmp_path: Path) -> None:
    (tmp_path / CACHE_NAME).mkdir()
    (tmp_path / CACHE_NAME / "mine.txt").write_text("kept")
    assert open_cache(tmp_path, create=False) is None
    with pytest.raises(SidecarUnavailable), sidecar_errors(tmp_path):
        open_cache(tmp_path, create=True)
    assert (tmp_path / CACHE_NAME / "mine.txt").read_text() == "kept"


BROKEN_READS: dict[str, Callable[[EmbeddingCache, int], object]] = {
    "known": lambda cache, space: cache.known(space, map(text, range(1, 400))),
    "rows": lambda cache, space: list(cache.rows(space, 0)),
    "put": lambda cache, space: cache.put(space, rows(range(500, 900))),
    "compact": lambda cache, space: cache.compact(space, [text(1)]),
    "forget": lambda cache, space: cache.forget(space),
}


@pytest.mark.parametrize("read", BROKEN_READS)
def test_damage_that_shows_later_is_named_and_ends_the_file(
    read: str, tmp_path: Path, opened: Open
) -> None:
    cache = opened()
    space = cache.add(SPACE, RULES)
    cache.put(space.id, rows(range(400)))
    cache.close()
    data = bytearray(cache.path.read_bytes())
    data[4 * 4096 :] = b"\xff" * (len(data) - 4 * 4096)
    cache.path.write_bytes(data)
    broken = opened(create=False)
    with pytest.raises(SidecarDamaged) as caught:
        BROKEN_READS[read](broken, space.id)
    assert str(broken.path) in str(caught.value)
    assert not broken.still_there()
    assert open_cache(tmp_path, create=False) is None
    new = opened()
    assert new.spaces() == ()
    new.put(new.add(SPACE, RULES).id, rows([1]))


def test_a_deleted_file_is_noticed(opened: Open) -> None:
    cache = opened()
    assert cache.still_there()
    cache.path.unlink()
    assert not cache.still_there()
    new = opened()
    assert (new.still_there(), cache.still_there()) == (True, False)
    assert new.id != cache.id


def test_a_replaced_file_is_noticed_and_is_another_cache(tmp_path: Path, opened: Open) -> None:
    """A copy goes on by itself: with the same slots for other texts."""
    cache = opened()
    space = cache.add(SPACE, RULES)
    cache.put(space.id, rows(range(5)))
    cache.close()
    copy = tmp_path / "copy.db"
    copy.write_bytes(cache.path.read_bytes())
    cache = opened()
    cache.put(space.id, rows([10]))
    cache.close()
    cache = opened()
    copy.replace(cache.path)
    assert not cache.still_there()
    other = opened()
    assert other.id != cache.id
    assert other.put(space.id, rows([11])) == {text(11): 5}
    assert kept(other, space) == expected([*range(5), 11])


# Several at once

PUT_MANY = """
import sys
from pathlib import Path
from vaultmem.embedding.cache import Row, open_cache
from vaultmem.embedding.embedder import Space
folder, mine = Path(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
cache = open_cache(folder, create=True)
space = cache.add(Space("maker", "model", "digest", 16), "rules")
for first in range(0, 120, 4):
    numbers = [n if n % 4 == 0 else mine * 1000 + n for n in range(first, first + 4)]
    cache.put(space.id, [Row(n.to_bytes(16, "big"), bytes([n % 100 + 1] * 16), None)
                         for n in numbers])
print(cache.id, flush=True)
"""


def test_processes_that_put_at_once_share_a_new_cache_and_lose_nothing(
    tmp_path: Path, opened: Open
) -> None:
    command = [sys.executable, "-c", PUT_MANY, str(tmp_path)]
    processes = [
        subprocess.Popen(
            [*command, str(mine)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for mine in (1, 2, 3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    cache = opened(create=False)
    assert said == [f"{cache.id}\n"] * 3
    (space,) = cache.spaces()
    shared = [n for n in range(120) if n % 4 == 0]
    own = [mine * 1000 + n for mine in (1, 2, 3) for n in range(120) if n % 4]
    placed = cache.known(space.id, map(text, [*shared, *own]))
    assert sorted(placed.values()) == list(range(space.slots))
    assert space.slots == len(shared) + len(own)
    if cache.vector_extension:
        assert space.indexed == space.slots


def test_a_cache_that_is_not_ready_for_several_is_opened_while_another_reads_it(
    opened: Open,
) -> None:
    """Its journal is changed to the one for several only while nobody else is there."""
    cache = opened()
    space = cache.add(SPACE, RULES)
    cache.put(space.id, rows([1]))
    cache.close()
    other = apsw.Connection(str(cache.path))
    assert other.execute("PRAGMA journal_mode = DELETE").get == "delete"
    other.execute("BEGIN")
    assert other.execute("SELECT count(*) FROM vector").get == 1
    cache = opened()
    assert kept(cache, space) == expected([1])
    other.close()
    cache.put(space.id, rows([2]))
    cache.close()
    cache = opened()
    assert kept(cache, space) == expected([1, 2])
    assert cache.query("PRAGMA journal_mode", ()) == [("wal",)]


def test_a_writer_that_finds_the_cache_busy_waits_for_the_other(opened: Open) -> None:
    one, two = opened(), opened()
    space = one.add(SPACE, RULES)
    two.query("PRAGMA busy_timeout = 1", ())
    one.query("BEGIN IMMEDIATE", ())
    with pytest.raises(apsw.BusyError):
        two.put(space.id, rows([1]))
    assert now(two, space).slots == 0
    one.query("COMMIT", ())
    assert two.put(space.id, rows([1])) == {text(1): 0}


# A full disk


class NarrowDisk:
    """How many more writes of SQLite the disk has room for."""

    def __init__(self) -> None:
        self.room: int | None = None
        self.refused = 0


@contextmanager
def narrow_disk() -> Iterator[NarrowDisk]:
    """SQLite's own file layer, which refuses writes when the disk is full."""
    disk = NarrowDisk()
    beneath = apsw.vfs_names()[0]

    class File(apsw.VFSFile):
        def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
            if disk.room is not None:
                if disk.room <= 0:
                    disk.refused += 1
                    raise apsw.FullError("no room")
                disk.room -= 1
            super().xWrite(data, offset)

    class Layer(apsw.VFS):
        def __init__(self) -> None:
            super().__init__("narrow", base=beneath, makedefault=True)

        def xOpen(  # noqa: N802 - SQLite's name
            self, name: str | apsw.URIFilename | None, flags: list[int]
        ) -> apsw.VFSFile:
            return File(beneath, name, flags)

    layer = Layer()
    try:
        yield disk
    finally:
        layer.unregister()


WRITES: dict[str, Callable[[EmbeddingCache, int], object]] = {
    "add": lambda cache, space: cache.add(SPACE, "other"),
    "put": lambda cache, space: cache.put(space, rows(range(300, 340))),
    "compact": lambda cache, space: cache.compact(space, [text(n) for n in range(0, 300, 2)]),
    "forget": lambda cache, space: cache.forget(space),
    "outage": lambda cache, space: cache.put_outage("ollama", 5, "down " * 2000),
}


def contents(cache: EmbeddingCache) -> list[object]:
    asked = (
        "SELECT id, identity, generation, slots, indexed FROM space",
        "SELECT * FROM vector",
        "SELECT * FROM outage",
        "SELECT name FROM sqlite_schema",
    )
    return [cache.query(statement, ()) for statement in asked]


@pytest.mark.parametrize("journal", ["wal", "delete"])
@pytest.mark.parametrize("write", WRITES)
def test_a_full_disk_is_named_keeps_what_was_there_and_is_got_over(
    write: str, journal: Wish, tmp_path: Path
) -> None:
    """However much of the change there was room for."""
    act = WRITES[write]
    with narrow_disk() as disk:
        cache = open_cache(tmp_path, create=True, journal=journal)
        assert cache is not None
        space = cache.add(SPACE, RULES)
        cache.put(space.id, rows(range(300)))
        before = contents(cache)
        failed = 0
        for room in range(400):
            disk.room = room
            try:
                with sidecar_errors(tmp_path):
                    act(cache, space.id)
            except DiskFull:
                failed += 1
            else:
                break
            finally:
                disk.room = None
            assert contents(cache) == before
        # Without a log there may be no room either to undo what was written by then.
        assert 0 < failed <= disk.refused <= 2 * failed
        assert contents(cache) != before
        assert cache.query("PRAGMA integrity_check", ()) == [("ok",)]
        cache.close()


def test_a_disk_that_is_full_from_the_start_leaves_no_cache_that_is_half_made(
    tmp_path: Path,
) -> None:
    with narrow_disk() as disk:
        failed = 0
        for room in range(100):
            disk.room = room
            cache = None
            try:
                with sidecar_errors(tmp_path):
                    cache = open_cache(tmp_path, create=True)
            except DiskFull:
                failed += 1
            finally:
                disk.room = None
            if cache is not None:
                break
            assert open_cache(tmp_path, create=False) is None
        assert failed > 0
        assert cache is not None
        assert cache.put(cache.add(SPACE, RULES).id, rows([1])) == {text(1): 0}
        cache.close()


# Outages


def test_an_outage_lasts_until_its_time_and_is_its_providers_alone(opened: Open) -> None:
    cache = opened()
    assert cache.outage("ollama", 0) is None
    cache.put_outage("ollama", 1_000, "It does not answer.")
    cache.close()
    cache = opened(create=False)
    assert [cache.outage("ollama", now_ns) for now_ns in (0, 999, 1_000, 1_001)] == [
        "It does not answer.",
        "It does not answer.",
        None,
        None,
    ]
    assert cache.outage("other", 0) is None


def test_a_later_outage_takes_the_place_of_the_one_before(opened: Open) -> None:
    cache = opened()
    cache.put_outage("ollama", 1_000, "first")
    cache.put_outage("ollama", 2_000, "second")
    assert cache.outage("ollama", 1_500) == "second"
    assert cache.query("SELECT count(*) FROM outage", ()) == [(1,)]


def test_an_outage_ends_when_the_provider_answers(opened: Open) -> None:
    cache = opened()
    cache.end_outage("ollama")
    cache.put_outage("ollama", 1_000, "down")
    cache.put_outage("other", 1_000, "down too")
    cache.end_outage("ollama")
    assert cache.outage("ollama", 0) is None
    assert cache.outage("other", 0) == "down too"
