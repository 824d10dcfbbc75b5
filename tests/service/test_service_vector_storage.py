"""Stored vectors in use: two ways to search with one answer, and every mishap got over."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from vaultmem.embedding.cache import (
    CACHE_NAME,
    EmbeddingCache,
    Row,
    StoredSpace,
    extension_version,
    open_cache,
)
from vaultmem.embedding.embedder import Languages, Space
from vaultmem.embedding.matrix import append_rows, open_matrix
from vaultmem.embedding.quantise import quantise
from vaultmem.index.lookup import Lookup
from vaultmem.index.scope import scope_of
from vaultmem.index.store import Sidecar, create
from vaultmem.index.vectors import PassageVectors
from vaultmem.model.errors import DiskFull, SidecarBusy
from vaultmem.model.query import Filters
from vaultmem.retrieval.meaning import SELECTIVE, Meaning, Question
from vaultmem.service.application import Memory
from vaultmem.service.embed import embed_waiting
from vaultmem.service.embedders import serving_space
from vaultmem.service.operations.index import IndexReply, IndexRequest, index
from vaultmem.service.operations.search import SearchReply, SearchRequest, search
from vaultmem.service.operations.status import StatusRequest, status

Open = Callable[..., Memory]
Canon = Callable[[Memory], list[str]]
Floats = NDArray[np.float32]

MINILM = {"VAULTMEM_EMBEDDER_NAME": "minilm"}
NOTES = {
    "kiln.md": "# Kiln\n\nIt is fired on Mondays.\n\n# Repairs\n\nThe door sticks when it rains.",
    "glaze.md": "Ash and quartz for the [[kiln]].",
    "work/shop.md": "The shop opens on Fridays at nine. #sale",
    "work/copy.md": "# Kiln\n\nIt is fired on Mondays.",
    "bread.md": "The sourdough rises overnight in the cold.",
}
REQUESTS = (
    SearchRequest("oven"),
    SearchRequest("kiln mondays", passages=True),
    SearchRequest("when are customers let in", mode="semantic"),
    SearchRequest("dough", mode="semantic", paths=("work",)),
    SearchRequest("path:work ceramics"),
    SearchRequest("tag:sale bargain"),
    SearchRequest("pottery -sourdough", limit=2),
)

with_extension = pytest.mark.skipif(
    extension_version() is None, reason="sqlite-vec cannot be loaded here"
)


@pytest.fixture
def open_minilm(open_vault: Open) -> Open:
    """Open a vault as `open_vault` does, with the built-in embedder."""

    def open_one(files: Mapping[str, str] | None = None, **options: str) -> Memory:
        return open_vault(files, environment=MINILM, **options)

    return open_one


def run(memory: Memory) -> IndexReply:
    return index(memory, IndexRequest())


def of(memory: Memory) -> PassageVectors:
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    return PassageVectors(sidecar)


def opened(memory: Memory) -> tuple[Sidecar, EmbeddingCache, StoredSpace]:
    """The sidecar, the cache and the space that answers."""
    sidecar, cache = memory.open_sidecar(), memory.open_cache()
    assert sidecar is not None
    assert cache is not None
    space = serving_space(memory, sidecar)
    assert space is not None
    return sidecar, cache, space


def replies(memory: Memory) -> str:
    """What every request is answered, to the last byte."""
    found = [search(memory, request) for request in REQUESTS]
    assert not any(reply.degraded for reply in found)
    assert any(reply.hits for reply in found)
    return json.dumps([asdict(reply) for reply in found], ensure_ascii=False)


def assert_slots_are_true(memory: Memory) -> None:
    """Every passage has a vector, which is kept under the hash of its own text."""
    sidecar, cache, space = opened(memory)
    rows = cache.query("SELECT slot, text_hash FROM vector WHERE space = ?", (space.id,))
    kept = {row[0]: row[1] for row in rows}
    passages = list(sidecar.connection.execute("SELECT slot, text_hash FROM chunk"))
    assert passages
    for slot, text_hash in passages:
        assert kept[slot] == text_hash
    assert [slot for slot, _, _ in cache.rows(space.id, 0)] == list(range(space.slots))


def centroid(memory: Memory) -> list[float]:
    """The mean of the vectors of all passages, as it is now."""
    _, cache, space = opened(memory)
    found: list[float] = open_matrix(cache, space).centroid(of(memory).slots()).tolist()
    return found


# sqlite-vec and numpy: one answer

SLOTS, NOTES_OF_WORLD, PER_NOTE, DIMENSION = 5200, 1500, 4, 16


class World(NamedTuple):
    """A sidecar of many passages with made-up vectors."""

    sidecar: Sidecar
    cache: EmbeddingCache
    space: StoredSpace
    asked: list[str]  # questions that sqlite-vec was asked
    slot_of: dict[int, int | None]  # by chunk
    note_of: dict[int, int]  # by chunk

    def __repr__(self) -> str:
        return "World()"  # a failure need not print six thousand passages


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Six thousand passages: some share a vector, some have none, some vectors have no passage."""
    folder = tmp_path_factory.mktemp("world")
    generator = np.random.default_rng(11)
    sidecar = create(folder, "rules")
    chunks = range(1, NOTES_OF_WORLD * PER_NOTE + 1)
    note_of = {chunk: (chunk - 1) // PER_NOTE + 1 for chunk in chunks}
    picks = generator.integers(0, SLOTS - 150, len(chunks)).tolist()
    without = generator.random(len(chunks)) < 0.1
    slot_of = {c: None if without[c - 1] else int(picks[c - 1]) for c in chunks}
    with sidecar.transaction() as db:
        db.executemany(
            "INSERT INTO note (id, path, disk_path, title, folded_path, folded_name, folded_title,"
            " kind, stub, sha256, size, mtime_ns, ctime_ns, inode, read_ns, passages, properties, "
            "searched) "
            "VALUES (?1, ?1 || '.md', '', '', '', '', '', '', 0, '', 0, 0, 0, 0, 0, ?2, '', '')",
            [(note, PER_NOTE) for note in range(1, NOTES_OF_WORLD + 1)],
        )
        db.executemany(
            "INSERT INTO chunk (id, note, ordinal, slot, text_hash, key, trail, first_line, "
            "last_line, start, end, body, pieces, lone, text) "
            "VALUES (?, ?, ?, ?, x'00', '', '', 1, 1, 0, 0, 0, 1, 0, '')",
            [(c, note_of[c], (c - 1) % PER_NOTE, slot_of[c]) for c in chunks],
        )
    sidecar.finish_indexes()
    asked: list[str] = []

    def note(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        if "MATCH vec" in sql:
            asked.append(sql)
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = note

    apsw.connection_hooks.append(watch)
    cache = open_cache(folder, create=True)
    apsw.connection_hooks.remove(watch)
    assert cache is not None
    space = cache.add(Space("maker", "model", "digest", DIMENSION), "rules")
    # Few different directions, so that many similarities are equal.
    codes = quantise(generator.integers(-2, 3, (SLOTS, DIMENSION)).astype(np.float32))
    codes[5] = 0
    rows = [Row(n.to_bytes(16, "big"), codes[n].tobytes(), None) for n in range(SLOTS)]
    cache.put(space.id, rows)
    current = cache.current(space.id)
    assert current is not None
    append_rows(cache, replace(current, slots=4000))  # the last ones come from the cache
    yield World(sidecar, cache, current, asked, slot_of, note_of)
    cache.close()
    sidecar.close()


def meaning(world: World, query: Floats, *, numpy_alone: bool) -> Meaning:
    """The vector channel for a question, as it is with the extension or without it."""
    space = replace(world.space, indexed=0) if numpy_alone else world.space
    middle = np.full(DIMENSION, 0.01, np.float32)
    matrix = open_matrix(world.cache, world.space)
    question = Question(query, matrix, world.cache, space, middle, Languages.MANY)
    return Meaning(question, Lookup(world.sidecar))


def expected_nearest(
    world: World, query: Floats, limit: int, inside: Callable[[int], bool]
) -> dict[int, float]:
    """By sorting everything: passages whose vectors are among the `limit` nearest, and equals."""
    similarities = open_matrix(world.cache, world.space).similarities(query)
    slots = {
        chunk: slot
        for chunk, slot in world.slot_of.items()
        if slot is not None and inside(world.note_of[chunk])
    }
    ranked = sorted((similarities[slot] for slot in set(slots.values())), reverse=True)[:limit]
    return {
        chunk: float(similarities[slot])
        for chunk, slot in slots.items()
        if similarities[slot] >= ranked[-1]
    }


@given(
    seed=st.integers(0, 10_000),
    limit=st.sampled_from([1, 3, 200, 1000, 6000]),
    first=st.integers(1, NOTES_OF_WORLD),
    notes=st.one_of(st.integers(0, 300), st.integers(300, NOTES_OF_WORLD)),
    step=st.integers(1, 4),
)
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
def test_sqlite_vec_and_numpy_find_the_same_in_any_scope(
    world: World, seed: int, limit: int, first: int, notes: int, step: int
) -> None:
    scope = scope_of(
        world.sidecar.connection,
        Filters(),
        ["id >= ?", "id < ?", "id % ? = 0"],
        (first, first + notes, step),
    )
    assert scope is not None
    query = np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)
    world.asked.clear()
    both, numpy_alone = (meaning(world, query, numpy_alone=alone) for alone in (False, True))
    found = both.nearest(scope, limit)
    slots = {
        world.slot_of[c]
        for c, n in world.note_of.items()
        if first <= n < first + notes and n % step == 0
    } - {None}
    if extension_version() is not None:
        assert bool(world.asked) == (0 < len(slots) <= SELECTIVE)
    assert numpy_alone.nearest(scope, limit) == found
    assert len(world.asked) <= 1
    assert numpy_alone.floor == both.floor
    expected = expected_nearest(
        world, query, limit, lambda n: first <= n < first + notes and n % step == 0
    )
    assert found == expected
    assert both.of(found) == found


@pytest.mark.parametrize("limit", [1, 200, 1000, 4000, 6000])
def test_vectors_whose_passages_are_gone_take_nobodys_place(limit: int, world: World) -> None:
    query = np.random.default_rng(limit).standard_normal(DIMENSION).astype(np.float32)
    living = [chunk for chunk, slot in world.slot_of.items() if slot is not None]
    # Nearly all are gone: notes of odd number, and beyond the first thousand.
    gone = [c for c in living if world.note_of[c] % 2 or world.note_of[c] > 1000]
    db = world.sidecar.connection
    db.execute("BEGIN")
    try:
        db.executemany("DELETE FROM chunk WHERE id = ?", [(chunk,) for chunk in gone])
        found = meaning(world, query, numpy_alone=True).nearest(None, limit)
    finally:
        db.execute("ROLLBACK")
    assert found == expected_nearest(world, query, limit, lambda n: not n % 2 and n <= 1000)
    everything = meaning(world, query, numpy_alone=True).nearest(None, limit)
    assert everything == expected_nearest(world, query, limit, lambda n: True)


IN_ANOTHER_PYTHON = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from vaultmem.embedding.cache import extension_version
from vaultmem.service.application import Clock, open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.operations.status import StatusRequest, status
from vaultmem.service.settings import load_settings
assert extension_version() is None
chosen = load_settings(Path(sys.argv[1]), Path(sys.argv[2]),
                       environment={"VAULTMEM_EMBEDDER_NAME": "minilm"})
memory = open_memory(chosen, clock=Clock(now_ns=lambda: int(sys.argv[3]), elapsed=lambda: 0.0))
embedded = index(memory, IndexRequest()).chunks.embedded
found = [asdict(search(memory, SearchRequest(**json.loads(line)))) for line in sys.stdin]
live = status(memory, StatusRequest()).embedder.search
memory.close()
print(json.dumps([embedded, live, json.dumps(found, ensure_ascii=False)]))
"""


def without_extension(memory: Memory) -> tuple[int, str, str]:
    """Index and search in a Python without sqlite-vec: what was embedded, what is live, replies."""
    memory.close()
    blocked = memory.folder.parent.parent / "blocked"
    blocked.mkdir(exist_ok=True)
    (blocked / "sqlite_vec.py").write_text("raise ImportError('not here')")
    arguments = [str(memory.vault), str(memory.folder.parent), str(memory.clock.now_ns())]
    done = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PYTHON, *arguments],
        input="\n".join(json.dumps(asdict(request)) for request in REQUESTS),
        env={**os.environ, "PYTHONPATH": str(blocked)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    embedded, live, found = json.loads(done.stdout)
    return embedded, live, found


@with_extension
def test_with_and_without_the_extension_a_vault_is_answered_for_to_the_byte(
    open_minilm: Open,
) -> None:
    memory = open_minilm(NOTES)
    embedded, live, theirs = without_extension(memory)
    assert (embedded, live) == (5, "numpy")
    assert replies(memory) == theirs
    assert run(memory).chunks.embedded == 0
    state = status(memory, StatusRequest()).embedder
    assert state is not None
    assert state.search == "numpy and sqlite-vec"
    assert replies(memory) == theirs
    (memory.vault / "new.md").write_text("Customers are let in from nine. #sale")
    embedded, live, theirs = without_extension(memory)
    assert (embedded, live) == (1, "numpy")
    assert run(memory).chunks.embedded == 0
    _, _, space = opened(memory)
    assert space.indexed == space.slots == 6
    assert replies(memory) == theirs
    assert_slots_are_true(memory)


# Incremental equals a rebuild

TEXTS = (
    "plain words about clay\n",
    "# Firing\n\nThe kiln of [[alpha]].\n\n# Rest\n\nIt cools for a day.\n",
    "See [[beta]] and [[gamma]]. #ceramics\n",
    "# Firing\n\nThe kiln of [[alpha]].\n",
    "A customer asked for a blue cup.\n",
    "",
)
PLACES = ("alpha.md", "beta.md", "work/gamma.md", "work/delta.md", "z.md")


def edit(vault: Path, chance: random.Random) -> None:
    """Change one note in some way; one always stays."""
    file = vault / chance.choice(PLACES)
    what = chance.choice(["write", "write", "append", "delete", "move"])
    file.parent.mkdir(exist_ok=True)
    if what == "write" or not file.exists():
        file.write_text(chance.choice(TEXTS))
    elif what == "append":
        file.write_text(f"{file.read_text()}\n# More\n\n{chance.choice(TEXTS)}")
    elif what == "delete":
        file.unlink()
    else:
        new = vault / chance.choice(PLACES)
        new.parent.mkdir(exist_ok=True)
        file.rename(new)


def rebuilt(memory: Memory, open_minilm: Open, cache: str, *, with_vectors: bool) -> Memory:
    """The same vault, indexed from nothing, with the vectors of its texts in another order, or
    without any."""
    fresh = open_minilm(cache=cache)
    if with_vectors:
        fresh.folder.mkdir(parents=True)
        _, kept, space = opened(memory)
        living = set(of(memory).hashes())
        hashes = {slot: h for h, slot in kept.known(space.id, living).items()}
        rows = [Row(hashes[s], c, f) for s, c, f in kept.rows(space.id, 0) if s in hashes]
        copy = open_cache(fresh.folder, create=True)
        assert copy is not None
        copy.put(copy.add(space.space, space.rules).id, rows[::-1])
        copy.close()
    made = run(fresh).chunks
    assert (made.embedded == 0) == with_vectors
    assert made.waiting == 0
    return fresh


def test_incremental_equals_a_rebuild_to_the_byte_after_random_edits(
    open_minilm: Open, canon: Canon
) -> None:
    """With the same vectors; computed anew in other batches, they differ in a rounding."""
    chance = random.Random(7)
    memory = open_minilm({"anchor.md": "An anchor about a kiln. [[alpha]] #sale", **NOTES})
    run(memory)
    embedded = 0
    for step in range(24):
        for _ in range(chance.randint(1, 3)):
            edit(memory.vault, chance)
        embedded += run(memory).chunks.embedded
        assert_slots_are_true(memory)
        if step % 6 == 5:
            same = rebuilt(memory, open_minilm, f"same {step}", with_vectors=True)
            assert_slots_are_true(same)
            assert of(memory).centroid() == of(same).centroid() == centroid(memory)
            assert replies(memory) == replies(same)
            ours = [line for line in canon(memory) if "'vectors'" not in line]
            assert ours == [line for line in canon(same) if "'vectors'" not in line]
    assert 0 < embedded < 40
    _, _, space = opened(memory)
    assert space.slots > len(of(memory).hashes())  # some vectors outlived their texts
    anew = rebuilt(memory, open_minilm, "anew", with_vectors=False)
    assert of(anew).centroid() == pytest.approx(of(memory).centroid(), abs=1e-3)
    for request in REQUESTS:
        old, new = (
            {(hit.path, hit.lines): hit.score for hit in search(one, request).hits}
            for one in (memory, anew)
        )
        assert old == pytest.approx(new, abs=2e-3)


def test_a_rebuilt_sidecar_takes_every_vector_from_the_cache(
    open_minilm: Open, canon: Canon
) -> None:
    memory = open_minilm(NOTES)
    assert run(memory).chunks.embedded == 5
    before, rows = replies(memory), canon(memory)
    reply = index(memory, IndexRequest(rebuild=True)).chunks
    assert (reply.embedded, reply.waiting, reply.total) == (0, 0, 6)
    assert_slots_are_true(memory)
    assert (replies(memory), canon(memory)) == (before, rows)


# Changes while vectors are attached


def test_a_change_between_any_two_statements_of_embedding_leaves_a_true_centroid(
    open_minilm: Open,
) -> None:
    """Another process indexes meanwhile; what is kept belongs to the passages there are."""
    memory, other = open_minilm(NOTES), open_minilm()
    run(memory)
    name = of(memory).serving
    assert name is not None
    spare = other.vault / "spare.md"
    spare.write_text("A spare note.")
    run(memory)

    def state(*, there: bool) -> None:
        if there:
            spare.write_text("A spare note.")
        else:
            spare.unlink(missing_ok=True)
        index(other, IndexRequest(embed=False))

    at, statements, changed = 0, 1, 0
    while at < statements:
        at += 1
        state(there=True)
        of(memory).serve("nobody")
        of(memory).serve(name)
        seen = 0

        def act(cursor: apsw.Cursor, sql: str, bindings: object, at: int = at) -> bool:
            nonlocal seen, changed
            seen += 1
            if seen == at:
                try:
                    state(there=False)
                except SidecarBusy:
                    return True  # the embedder writes at this very moment
                changed += 1
            return True

        sidecar = memory.open_sidecar()
        writer = other.open_sidecar()
        assert sidecar is not None
        assert writer is not None
        writer.connection.set_busy_timeout(0)
        sidecar.connection.exec_trace = act
        embed_waiting(memory)
        sidecar.connection.exec_trace = None
        statements = seen
        kept = of(memory).centroid()
        assert kept is None or kept == centroid(memory), at
        run(memory)
        assert of(memory).centroid() == centroid(memory)
        assert_slots_are_true(memory)
    assert changed > 10


# Files that go, come back, or are damaged


@contextmanager
def closed(memory: Memory) -> Iterator[Path]:
    """The cache's file, while nobody has it open."""
    memory.close()
    yield memory.folder / CACHE_NAME


def damage_pages(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[4096 * 4 :] = b"\xff" * (len(data) - 4096 * 4)
    file.write_bytes(data)


def damage_few_pages(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[4096 * 2 : 4096 * 3] = b"\xff" * 4096
    file.write_bytes(data)


def damage_header(file: Path) -> None:
    file.write_bytes(b"no database at all" * 500)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def remove(file: Path) -> None:
    file.unlink()


DAMAGES = [damage_pages, damage_few_pages, damage_header, empty, cut, remove]


@pytest.mark.parametrize("matrix", [True, False], ids=["with the matrix", "without it"])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_vectors_leave_search_by_words_and_are_computed_anew(
    damage: Callable[[Path], None], matrix: bool, open_minilm: Open
) -> None:
    memory = open_minilm(NOTES)
    run(memory)
    before = replies(memory)
    with closed(memory) as file:
        damage(file)
        for copy in [] if matrix else list(file.parent.glob("vectors-*")):
            copy.unlink()
    for request in REQUESTS:
        search(memory, request)
    assert "kiln.md" in [hit.path for hit in search(memory, SearchRequest("kiln")).hits]
    memory.close()
    run(memory)
    # Damage may lie where nothing looks as long as nothing changes; a rebuild looks everywhere.
    index(memory, IndexRequest(rebuild=True))
    assert_slots_are_true(memory)
    assert replies(memory) == before


def test_a_cache_of_vectors_deleted_under_an_open_vault_is_missed_and_made_anew(
    open_minilm: Open,
) -> None:
    memory = open_minilm(NOTES)
    run(memory)
    before = replies(memory)
    for file in memory.folder.glob("embeddings.db*"):
        file.unlink()
    old = list(memory.folder.glob("vectors-*"))
    reply: SearchReply = search(memory, SearchRequest("kiln", mode="semantic"))
    assert [hit.path for hit in reply.hits]
    assert run(memory).chunks.embedded in (0, 5)  # a search may have done it
    assert replies(memory) == before
    assert not any(file.exists() for file in old)
    assert len(list(memory.folder.glob("vectors-*"))) == 1


def copy_in_place(source: Path, target: Path) -> None:
    target.write_bytes(source.read_bytes())


def copy_by_renaming(source: Path, target: Path) -> None:
    new = target.with_name("incoming")
    shutil.copyfile(source, new)
    new.replace(target)


COPIES = [copy_in_place, copy_by_renaming]


@pytest.mark.parametrize("put_back", COPIES, ids=lambda how: how.__name__)
def test_an_older_copy_of_the_vectors_put_back_does_not_mix_them_up(
    put_back: Callable[[Path, Path], None], open_minilm: Open, tmp_path: Path
) -> None:
    memory = open_minilm(NOTES)
    run(memory)
    with closed(memory) as file:
        shutil.copyfile(file, tmp_path / "older.db")
    for number in range(3):
        (memory.vault / f"n{number}.md").write_text(f"A note about {number} blue cups.")
    run(memory)
    with closed(memory) as file:
        put_back(tmp_path / "older.db", file)
    (memory.vault / "n0.md").write_text("Another text about weather.")
    (memory.vault / "new.md").write_text("A bridge over the river.")
    search(memory, SearchRequest("cups"))
    run(memory)
    assert_slots_are_true(memory)
    assert of(memory).centroid() == centroid(memory)
    same = rebuilt(memory, open_minilm, "same", with_vectors=True)
    assert replies(memory) == replies(same)


def test_vectors_of_two_machines_that_began_with_one_copy_are_not_mixed_up(
    open_minilm: Open, tmp_path: Path
) -> None:
    """Each went on by itself, so that one slot is another text's on either."""
    here = open_minilm(NOTES, name="here", cache="here cache")
    run(here)
    there = open_minilm(NOTES, name="there", cache="there cache")
    with closed(here) as file:
        there.folder.mkdir(parents=True)
        shutil.copyfile(file, there.folder / CACHE_NAME)
    assert run(there).chunks.embedded == 0
    news = {f"n{n}.md": f"News number {n} about glass and sand." for n in range(4)}
    for number, (path, text) in enumerate(news.items()):
        (here.vault / path).write_text(text)
        (there.vault / list(news)[number ^ 1]).write_text(list(news.values())[number ^ 1])
        assert run(here).chunks.embedded == run(there).chunks.embedded == 1
    with closed(there) as theirs, closed(here) as ours:
        copy_by_renaming(theirs, ours)
    reply = search(here, SearchRequest("News number 2 about glass and sand", mode="semantic"))
    assert reply.hits[0].path == "n2.md"
    assert run(here).chunks.embedded == 0
    assert_slots_are_true(here)
    for request in REQUESTS:
        one_way, other_way = (
            [(hit.path, hit.score) for hit in search(one, request).hits] for one in (here, there)
        )
        assert one_way == other_way


# A full disk


@contextmanager
def no_room(memory: Memory) -> Iterator[None]:
    """The cache of vectors cannot grow, as SQLite itself has it."""
    cache = memory.open_cache(create=True)
    assert cache is not None
    ((pages,),) = cache.query("PRAGMA page_count", ())
    cache.query(f"PRAGMA max_page_count = {pages}", ())
    yield
    cache.query("PRAGMA max_page_count = 1073741823", ())


def test_a_disk_too_full_for_vectors_is_named_by_index_and_no_hindrance_to_search(
    open_minilm: Open,
) -> None:
    memory = open_minilm(NOTES)
    run(memory)
    more = {f"n{n}.md": f"Note number {n} about glass and sand." for n in range(6)}
    for path, text in more.items():
        (memory.vault / path).write_text(text)
    _, cache, space = opened(memory)
    # Fill the last page, so that not even one vector more has room.
    filler = cache.add(replace(space.space, model="filler"), "none")
    cache.put(filler.id, [Row(bytes([n]) * 16, bytes(384), None) for n in range(40)])
    with no_room(memory):
        reply = search(memory, SearchRequest("glass sand"))
        assert more.keys() <= {hit.path for hit in reply.hits}
        assert any("not embedded" in reason for reason in reply.degraded)
        use = run(memory).embedder  # a reply: the words are in
        assert use is not None
        assert use.code == DiskFull.code
        assert str(memory.folder) in use.problem
        assert of(memory).waiting_count() > 0
    memory.close()
    assert run(memory).chunks.waiting == 0
    assert_slots_are_true(memory)
    reply = search(memory, SearchRequest("glass sand"))
    assert (reply.mode, reply.degraded) == ("hybrid", ())


# Files that are left over


def test_files_of_other_caches_go_when_a_vault_is_embedded(open_minilm: Open) -> None:
    memory = open_minilm(NOTES)
    run(memory)
    mine = set(memory.folder.glob("vectors-*"))
    strange = memory.folder / "vectors-abcdef-1-1.i8"
    strange.write_bytes(b"\x01" * 4000)
    (memory.folder / "notes-of-mine.i8").write_bytes(b"kept")
    (memory.vault / "new.md").write_text("One text more.")
    run(memory)
    assert set(memory.folder.glob("vectors-*")) == mine
    assert (memory.folder / "notes-of-mine.i8").exists()
    assert_slots_are_true(memory)
