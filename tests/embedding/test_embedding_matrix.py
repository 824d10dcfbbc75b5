"""Exact search: equal bits by every path, and a file that never passes for other rows."""

import os
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from vaultmem.embedding.cache import EmbeddingCache, Row, StoredSpace, open_cache
from vaultmem.embedding.embedder import Space
from vaultmem.embedding.matrix import Matrix, append_rows, open_matrix, remove_strange_files
from vaultmem.embedding.quantise import quantise

Floats = NDArray[np.float32]
Codes = NDArray[np.int8]
Open = Callable[[], EmbeddingCache]

DIMENSION = 24
ROW_BYTES = DIMENSION + 8
# Up to 1040 products are summed in float32, beyond that in float64.
DIMENSIONS = (DIMENSION, 384, 1500)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Open the cache in tmp_path."""
    caches: list[EmbeddingCache] = []

    def open_one() -> EmbeddingCache:
        cache = open_cache(tmp_path, create=True)
        assert cache is not None
        caches.append(cache)
        return cache

    yield open_one
    for cache in caches:
        cache.close()


def text(number: int) -> bytes:
    return number.to_bytes(16, "big")


def random_codes(count: int, dimension: int = DIMENSION, seed: int = 3) -> Codes:
    rows = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    codes: Codes = quantise(rows)
    return codes


def question(seed: int, dimension: int = DIMENSION) -> Floats:
    return np.random.default_rng(1000 + seed).standard_normal(dimension).astype(np.float32)


def put(
    cache: EmbeddingCache, space: StoredSpace, codes: Codes, first: int = 0, fertility: float = 1.5
) -> StoredSpace:
    """Keep these vectors as those of the texts from number `first` on; the space afterwards."""
    rows = [Row(text(first + n), row.tobytes(), fertility) for n, row in enumerate(codes)]
    cache.put(space.id, rows)
    return now(cache, space)


def now(cache: EmbeddingCache, space: StoredSpace) -> StoredSpace:
    current = cache.current(space.id)
    assert current is not None
    return current


def new_space(cache: EmbeddingCache, dimension: int = DIMENSION, rules: str = "") -> StoredSpace:
    return cache.add(Space("maker", "model", "digest", dimension), rules)


def files(cache: EmbeddingCache) -> list[Path]:
    return sorted(cache.path.parent.glob("vectors-*.i8"))


def only_file(cache: EmbeddingCache) -> Path:
    (file,) = files(cache)
    return file


def cosines(query: Floats, codes: Codes) -> list[float]:
    """By arithmetic that is not the program's: whole numbers, then one division."""
    asked = quantise(query[None])[0].astype(np.int64)
    whole = codes.astype(np.int64)
    lengths = np.sqrt((whole**2).sum(axis=1) * float((asked**2).sum()))
    found: list[float] = (whole @ asked / np.maximum(lengths, 1e-9)).tolist()
    return found


def assert_holds(matrix: Matrix, codes: Codes) -> None:
    """The matrix has these rows, in this order."""
    assert matrix.slots == len(codes)
    for seed in range(3):
        query = question(seed, codes.shape[1])
        found = matrix.similarities(query)
        assert found.dtype == np.float32
        assert found.tolist() == pytest.approx(cosines(query, codes), abs=1e-6)


# Similarities


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_similarities_have_equal_bits_by_every_path(
    dimension: int, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All or some, from the file or the cache or both, in any order and in blocks of any size."""
    codes = random_codes(300, dimension)
    codes[::50] = 127  # the largest products there are
    codes[7] = 0
    cache = opened()
    space = put(cache, new_space(cache, dimension), codes[:200])
    query = question(1, dimension)
    query[: dimension // 2] = 9
    ways: dict[str, Floats] = {"cache": open_matrix(cache, space).similarities(query)}
    append_rows(cache, space)
    ways["file"] = open_matrix(cache, space).similarities(query)
    space = put(cache, space, codes[200:], first=200)
    both = open_matrix(cache, space)
    expected = both.similarities(query)
    assert expected.tolist() == pytest.approx(cosines(query, codes), abs=1e-6)
    assert expected[7] == 0
    for way, found in ways.items():
        assert found.tobytes() == expected[:200].tobytes(), way
    generator = np.random.default_rng(1)
    for block in (1, 7, 64, 100_000):
        monkeypatch.setattr("vaultmem.embedding.matrix._BLOCK", block)
        matrix = open_matrix(cache, space)
        assert matrix.similarities(query).tobytes() == expected.tobytes()
        for count in (1, 13, 300):
            chosen = generator.choice(300, count, replace=False)
            some = matrix.similarities_of(query, chosen.tolist())
            assert some.tobytes() == expected[chosen].tobytes()
    order = generator.permutation(300)
    other = put(cache, new_space(cache, dimension, "turned"), codes[order])
    turned = open_matrix(cache, other).similarities(query)
    assert turned.tobytes() == expected[order].tobytes()


def test_a_similarity_of_some_may_be_asked_for_twice_or_for_none(opened: Open) -> None:
    codes = random_codes(10)
    cache = opened()
    matrix = open_matrix(cache, put(cache, new_space(cache), codes))
    every = matrix.similarities(question(1))
    assert matrix.similarities_of(question(1), [3, 3, 0]).tolist() == every[[3, 3, 0]].tolist()
    assert matrix.similarities_of(question(1), []).tolist() == []


def test_a_vector_compared_with_itself_is_one_and_with_its_opposite_minus_one(
    opened: Open,
) -> None:
    query = question(1)
    codes = quantise(np.stack([query, -query, 3 * query]))
    cache = opened()
    matrix = open_matrix(cache, put(cache, new_space(cache), codes))
    assert matrix.similarities(query).tolist() == pytest.approx([1, -1, 1])


def test_a_question_of_zeros_is_near_nothing(opened: Open) -> None:
    cache = opened()
    matrix = open_matrix(cache, put(cache, new_space(cache), random_codes(5)))
    zeros = np.zeros(DIMENSION, np.float32)
    assert matrix.similarities(zeros).tolist() == [0] * 5
    assert matrix.similarities_of(zeros, [1]).tolist() == [0]
    assert matrix.similarity(zeros, question(1)) == 0


def test_the_similarity_to_the_centroid_is_on_the_same_scale(opened: Open) -> None:
    codes = random_codes(40)
    cache = opened()
    matrix = open_matrix(cache, put(cache, new_space(cache), codes))
    query = question(2)
    floor = matrix.similarity(query, matrix.centroid(range(40)).astype(np.float32))
    assert floor == pytest.approx(float(matrix.similarities(query).mean()), abs=1e-6)


def test_an_empty_space_has_an_empty_matrix(opened: Open) -> None:
    cache = opened()
    space = new_space(cache)
    append_rows(cache, space)
    matrix = open_matrix(cache, now(cache, space))
    assert matrix.slots == 0
    assert matrix.similarities(question(1)).shape == (0,)
    assert matrix.similarities_of(question(1), []).shape == (0,)
    assert matrix.best(matrix.similarities(question(1)), 10) == {}
    assert matrix.centroid([]).tolist() == [0] * DIMENSION
    assert matrix.fertilities([]) == []
    assert [file.stat().st_size for file in files(cache)] in ([], [0])


# The best


@pytest.fixture
def any_matrix() -> Matrix:
    return Matrix([], DIMENSION)


def values(*numbers: float) -> Floats:
    return np.array(numbers, np.float32)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (1, [(1, 0.75)]),
        (2, [(1, 0.75), (0, 0.5), (3, 0.5), (4, 0.5)]),
        (3, [(1, 0.75), (0, 0.5), (3, 0.5), (4, 0.5)]),
        (4, [(1, 0.75), (0, 0.5), (3, 0.5), (4, 0.5)]),
        (5, [(1, 0.75), (0, 0.5), (3, 0.5), (4, 0.5), (2, 0.25)]),
        (6, [(1, 0.75), (0, 0.5), (3, 0.5), (4, 0.5), (2, 0.25), (5, -0.5)]),
        (99, [(1, 0.75), (0, 0.5), (3, 0.5), (4, 0.5), (2, 0.25), (5, -0.5)]),
    ],
)
def test_the_best_come_first_and_with_the_last_all_its_equals(
    limit: int, expected: list[tuple[int, float]], any_matrix: Matrix
) -> None:
    found = any_matrix.best(values(0.5, 0.75, 0.25, 0.5, 0.5, -0.5), limit)
    assert list(found.items()) == expected


def test_the_best_of_some_slots_go_by_their_own_numbers(any_matrix: Matrix) -> None:
    found = any_matrix.best(values(0.1, 0.9, 0.9, 0.2), 2, [40, 7, 30, 20])
    assert list(found) == [7, 30]
    assert list(found.values()) == pytest.approx([0.9, 0.9])


@pytest.mark.parametrize("limit", [1, 5])
def test_the_best_of_none_are_none(limit: int, any_matrix: Matrix) -> None:
    assert any_matrix.best(values(), limit) == {}
    assert any_matrix.best(values(), limit, []) == {}


def test_the_best_are_those_of_a_full_sort(any_matrix: Matrix) -> None:
    generator = np.random.default_rng(2)
    for _ in range(50):
        count = int(generator.integers(1, 60))
        numbers = (generator.integers(-9, 9, count) / 10).astype(np.float32)
        limit = int(generator.integers(1, 70))
        ranked = sorted(range(count), key=lambda slot: (-numbers[slot], slot))
        least = numbers[ranked[min(limit, count) - 1]]
        expected = [slot for slot in ranked if numbers[slot] >= least]
        assert list(any_matrix.best(numbers, limit)) == expected


# Centroid and fertility


def test_the_centroid_is_the_mean_of_unit_vectors_each_as_often_as_it_is_named(
    opened: Open,
) -> None:
    codes = random_codes(30)
    codes[4] = 0
    cache = opened()
    matrix = open_matrix(cache, put(cache, new_space(cache), codes))
    named = [3, 4, 5, 5, 29]
    whole = codes[named].astype(np.float64)
    unit = whole / np.maximum(np.linalg.norm(whole, axis=1, keepdims=True), 1e-9)
    assert matrix.centroid(named) == pytest.approx(unit.mean(axis=0), abs=1e-7)


def test_the_centroid_has_equal_bits_in_whatever_order_the_rows_are(opened: Open) -> None:
    codes = random_codes(3000)
    cache = opened()
    space = put(cache, new_space(cache), codes[:1700])
    append_rows(cache, space)
    matrix = open_matrix(cache, put(cache, space, codes[1700:], first=1700))
    generator = np.random.default_rng(4)
    expected = matrix.centroid(range(3000)).tobytes()
    for number in range(5):
        order = generator.permutation(3000)
        assert matrix.centroid(order.tolist()).tobytes() == expected
        turned = new_space(cache, rules=str(number))
        put(cache, turned, codes[order])
        assert open_matrix(cache, now(cache, turned)).centroid(range(3000)).tobytes() == expected


def test_a_slot_that_the_matrix_lacks_is_left_out_of_the_centroid(opened: Open) -> None:
    cache = opened()
    matrix = open_matrix(cache, put(cache, new_space(cache), random_codes(3)))
    assert matrix.centroid([0, 2, 3, 500]).tolist() == matrix.centroid([0, 2]).tolist()
    assert matrix.centroid([3]).tolist() == [0] * DIMENSION


def test_fertility_is_told_where_it_is_known(opened: Open) -> None:
    cache = opened()
    space = new_space(cache)
    kinds = [None, 1.25, None, 2.5]
    cache.put(
        space.id, [Row(text(n), bytes([n + 1] * DIMENSION), kind) for n, kind in enumerate(kinds)]
    )
    space = now(cache, space)
    for _ in range(2):
        matrix = open_matrix(cache, space)
        assert matrix.fertilities([3, 0, 1, 2]) == [2.5, 1.25]
        append_rows(cache, space)


# The file


def test_the_file_holds_every_row_and_is_what_is_read(opened: Open) -> None:
    codes = random_codes(60)
    cache = opened()
    space = put(cache, new_space(cache), codes)
    assert files(cache) == []
    append_rows(cache, space)
    file = only_file(cache)
    assert file.stat().st_size == 60 * ROW_BYTES
    assert_holds(open_matrix(cache, space), codes)
    data = bytearray(file.read_bytes())
    data[10 * ROW_BYTES : 10 * ROW_BYTES + DIMENSION] = codes[3].tobytes()
    file.write_bytes(data)
    codes[10] = codes[3]
    assert open_matrix(cache, space).similarities_of(question(0), [10]).tolist() == pytest.approx(
        cosines(question(0), codes[10:11]), abs=0.2
    )


def test_the_file_is_appended_to_and_unchanged_when_there_is_nothing_new(opened: Open) -> None:
    codes = random_codes(90)
    cache = opened()
    space = put(cache, new_space(cache), codes[:40])
    append_rows(cache, space)
    file = only_file(cache)
    before = (file.stat().st_ino, file.read_bytes())
    os.utime(file, ns=(5, 5))
    append_rows(cache, now(cache, space))
    assert (file.stat().st_mtime_ns, file.read_bytes()) == (5, before[1])
    space = put(cache, space, codes[40:], first=40)
    assert_holds(open_matrix(cache, space), codes)  # the tail comes from the cache
    append_rows(cache, space)
    assert only_file(cache).stat().st_ino == before[0]
    assert only_file(cache).read_bytes()[: len(before[1])] == before[1]
    assert only_file(cache).stat().st_size == 90 * ROW_BYTES
    assert_holds(open_matrix(cache, space), codes)


def cut_within_a_row(file: Path) -> None:
    os.truncate(file, 300 * ROW_BYTES + 11)


def cut_to_nothing(file: Path) -> None:
    os.truncate(file, 0)


def cut_to_half_a_row(file: Path) -> None:
    os.truncate(file, ROW_BYTES // 2)


def remove(file: Path) -> None:
    file.unlink()


def make_longer(file: Path) -> None:
    with file.open("ab") as grown:
        grown.write(b"\x05" * (3 * ROW_BYTES + 5))


def zeros(first: int, after: int) -> Callable[[Path], None]:
    """What a power failure leaves of blocks that never reached the disk."""

    def gap(file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[first:after] = bytes(len(data[first:after]))
        file.write_bytes(data)

    return gap


SPOILERS: dict[str, Callable[[Path], None]] = {
    "cut within a row": cut_within_a_row,
    "cut to nothing": cut_to_nothing,
    "cut to half a row": cut_to_half_a_row,
    "removed": remove,
    "longer": make_longer,
    "zeros at the start": zeros(0, 4096),
    "zeros in between": zeros(4096, 8192),
    "zeros at the end": zeros(8192, 99_999),
    "nothing but zeros": zeros(0, 99_999),
}


@pytest.mark.parametrize("spoil", SPOILERS)
def test_a_file_that_lost_something_is_made_good_from_the_cache(spoil: str, opened: Open) -> None:
    codes = random_codes(450)
    cache = opened()
    space = put(cache, new_space(cache), codes[:400])
    append_rows(cache, space)
    SPOILERS[spoil](only_file(cache))
    assert_holds(open_matrix(cache, space), codes[:400])
    space = put(cache, space, codes[400:], first=400)
    assert_holds(open_matrix(cache, space), codes)
    append_rows(cache, space)
    assert only_file(cache).stat().st_size >= 450 * ROW_BYTES
    assert_holds(open_matrix(cache, space), codes)
    data = only_file(cache).read_bytes()
    assert [data[n * ROW_BYTES : n * ROW_BYTES + DIMENSION] for n in range(450)] == [
        row.tobytes() for row in codes
    ]


@pytest.mark.parametrize("spoil", ["cut within a row", "longer", "zeros in between", "removed"])
def test_a_file_that_others_have_mapped_is_never_cut_short(spoil: str, opened: Open) -> None:
    """On POSIX that would end their process, on Windows the attempt would fail."""
    codes = random_codes(450)
    cache = opened()
    space = put(cache, new_space(cache), codes[:400])
    append_rows(cache, space)
    file = only_file(cache)
    SPOILERS[spoil](file)
    size = file.stat().st_size if file.exists() else 0
    whole = size // ROW_BYTES
    theirs = np.memmap(file, np.uint8, "r", shape=(whole * ROW_BYTES,)) if size else None
    before = None if theirs is None else theirs.tobytes()
    append_rows(cache, put(cache, space, codes[400:], first=400))
    if file.exists():
        assert file.stat().st_size >= size
    if theirs is not None:
        changed = np.frombuffer(before or b"", np.uint8) != theirs
        assert not changed[: 400 * ROW_BYTES].any()


def test_a_matrix_that_is_open_goes_on_while_the_file_grows(opened: Open) -> None:
    codes = random_codes(500)
    writer, reader = opened(), opened()
    space = put(writer, new_space(writer), codes[:100])
    append_rows(writer, space)
    matrices = [open_matrix(reader, now(reader, space))]
    for first in range(100, 500, 100):
        append_rows(writer, put(writer, space, codes[first : first + 100], first=first))
        matrices.append(open_matrix(reader, now(reader, space)))
    for number, matrix in enumerate(matrices, start=1):
        assert_holds(matrix, codes[: number * 100])


@pytest.mark.parametrize("appended", [True, False])
def test_rows_of_a_cache_that_went_back_in_time_do_not_pass_for_new_ones(
    appended: bool, opened: Open
) -> None:
    """An older copy was put back, or a power failure took the last commits and not the file."""
    codes = random_codes(120)
    cache = opened()
    space = put(cache, new_space(cache), codes[:50])
    if appended:
        append_rows(cache, space)
    cache.close()
    older = cache.path.read_bytes()
    cache = opened()
    append_rows(cache, put(cache, space, codes[50:80], first=50))
    cache.close()
    cache.path.write_bytes(older)
    cache = opened()
    expected = np.concatenate([codes[:50], codes[80:]])
    assert_holds(open_matrix(cache, now(cache, space)), expected[:50])
    space = put(cache, space, codes[80:], first=80)
    assert_holds(open_matrix(cache, space), expected)
    append_rows(cache, space)
    assert_holds(open_matrix(cache, space), expected)


def test_each_space_and_generation_has_a_file_of_its_own(opened: Open) -> None:
    codes = random_codes(60)
    cache = opened()
    first = put(cache, new_space(cache), codes[:20])
    second = put(cache, new_space(cache, rules="other"), codes[20:40])
    append_rows(cache, first)
    append_rows(cache, second)
    assert len(files(cache)) == 2
    assert_holds(open_matrix(cache, first), codes[:20])
    assert_holds(open_matrix(cache, second), codes[20:40])
    cache.compact(first.id, map(text, range(5, 20)))
    renumbered = now(cache, first)
    assert_holds(open_matrix(cache, renumbered), codes[5:20])
    append_rows(cache, renumbered)
    assert_holds(open_matrix(cache, renumbered), codes[5:20])
    assert_holds(open_matrix(cache, second), codes[20:40])
    assert len(files(cache)) == 2
    cache.forget(first.id)
    remove_strange_files(cache)
    assert len(files(cache)) == 1
    third = put(cache, new_space(cache, rules="third"), codes[40:])
    append_rows(cache, third)
    assert_holds(open_matrix(cache, third), codes[40:])


def test_a_matrix_of_slots_that_were_numbered_anew_has_no_rows_of_other_slots(
    opened: Open,
) -> None:
    codes = random_codes(60)
    writer, reader = opened(), opened()
    space = put(writer, new_space(writer), codes[:40])
    append_rows(writer, space)
    space = put(writer, space, codes[40:], first=40)
    before = now(reader, space)
    writer.compact(space.id, map(text, range(30, 60)))
    matrix = open_matrix(reader, before)
    assert matrix.slots in (0, 40)
    assert_holds(matrix, codes[: matrix.slots])
    append_rows(reader, before)  # too late: it must not vouch for anything
    assert_holds(open_matrix(reader, now(reader, space)), codes[30:])


def test_the_files_of_a_cache_that_is_gone_are_not_used_and_go(opened: Open) -> None:
    codes = random_codes(40)
    cache = opened()
    append_rows(cache, put(cache, new_space(cache), codes[:20]))
    gone = only_file(cache)
    cache.close()
    cache.path.unlink()
    cache = opened()
    space = put(cache, new_space(cache), codes[20:])
    assert_holds(open_matrix(cache, space), codes[20:])
    append_rows(cache, space)
    assert_holds(open_matrix(cache, space), codes[20:])
    remove_strange_files(cache)
    assert only_file(cache) != gone


def test_strange_files_go_and_all_others_stay(tmp_path: Path, opened: Open) -> None:
    codes = random_codes(20)
    cache = opened()
    space = put(cache, new_space(cache), codes)
    append_rows(cache, space)
    mine = only_file(cache)
    strange = ["vectors-abc-1-1.i8", "vectors-1-0.i8", f"vectors-{space.id}-{'0' * 32}.i8"]
    others = ["vectors.i8", "my-vectors-1.i8", "vectors-1.txt", "note.md"]
    for name in [*strange, *others]:
        (tmp_path / name).write_bytes(b"\x01" * 20 * ROW_BYTES)
    assert_holds(open_matrix(cache, space), codes)
    remove_strange_files(cache)
    assert files(cache) == [mine]
    assert all((tmp_path / name).exists() for name in others)
    assert_holds(open_matrix(cache, space), codes)


# Memory

MANY, WIDE = 20_000, 384
MOST_BYTES = 16 * 2**20  # all of them as float32 would be 31 million


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddingCache, StoredSpace]]:
    cache = open_cache(tmp_path_factory.mktemp("many"), create=True)
    assert cache is not None
    space = put(cache, new_space(cache, WIDE), random_codes(MANY, WIDE))
    append_rows(cache, space)
    yield cache, space
    cache.close()


SCANS: dict[str, Callable[[Matrix, Floats, Sequence[int]], object]] = {
    "all": lambda matrix, query, slots: matrix.best(matrix.similarities(query), 10),
    "some": lambda matrix, query, slots: matrix.similarities_of(query, slots),
    "centroid": lambda matrix, query, slots: matrix.centroid(slots),
}


@pytest.mark.parametrize("scan", SCANS)
def test_scanning_many_vectors_takes_bounded_memory(
    scan: str, many: tuple[EmbeddingCache, StoredSpace]
) -> None:
    matrix, slots = open_matrix(*many), range(MANY)
    assert matrix.slots == MANY
    query = question(1, WIDE)
    SCANS[scan](matrix, query, range(10))
    tracemalloc.start()
    try:
        SCANS[scan](matrix, query, slots)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 2048 * WIDE < peak < MOST_BYTES


def test_writing_the_file_takes_bounded_memory(
    many: tuple[EmbeddingCache, StoredSpace],
) -> None:
    cache, space = many
    for file in files(cache):
        file.unlink()
    tracemalloc.start()
    try:
        append_rows(cache, space)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert only_file(cache).stat().st_size == MANY * (WIDE + 8)
    assert peak < MOST_BYTES
