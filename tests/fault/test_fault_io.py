"""A full disk and a broken one are reported and lose nothing, wherever they strike.

Indexing is tried with SQLite's file layer failing at each of its calls, and with Python's own; the
small files that vaultmem writes with Python's own. Whatever fails, the vault is as it was, what was
known is known still, and the next run ends where a fresh index does.
"""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import apsw
import pytest
from failing_calls import Calls, failing_calls
from failing_vfs import Disk, Failure, failing_disk
from io_files import WRITERS, Writer, file_violations
from io_runs import SCENARIOS, Bench
from io_survey import SOME, TURNS, How, survey
from lanes import SLOW

from vaultmem.embedding.cache import EmbeddingCache
from vaultmem.index import store
from vaultmem.index.store import Sidecar, sidecar_errors
from vaultmem.model.errors import DiskFull, SidecarUnavailable, VaultmemError
from vaultmem.service import (
    allowed_secrets,
    application,
    client_config_file,
    http_token,
    indexing,
    state_file,
)
from vaultmem.service.application import Memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.vault.read import Door, Unread

JOURNALS = ("wal", "delete")
DELTA = SCENARIOS["delta"]

# Small files that hold what nobody could make anew.
FLUSHED = ("secrets allow", "http token", "connect", "connect --remove")

# The journal nearly everybody has, and the runs nearly all are: each point in each way, always.
ALWAYS_EVERY = {("first", "wal"), ("delta", "wal")}


def lane(scenario: str, journal: str) -> How:
    """How much of a scenario is tried."""
    return "every" if SLOW or (scenario, journal) in ALWAYS_EVERY else "some"


@pytest.fixture
def disk() -> Iterator[Disk]:
    with failing_disk() as failing:
        yield failing


# The databases


@pytest.mark.parametrize("journal", JOURNALS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_disk_that_fails_a_database_is_reported_and_loses_nothing(
    name: str, journal: str, disk: Disk, tmp_path: Path
) -> None:
    how = lane(name, journal)
    found = survey(Bench(tmp_path, SCENARIOS[name], journal), disk, how)
    assert found.violations == []
    # The two that are always tried at each point have 120 points and more between them.
    assert found.points > 60
    # (More than three of the four ways' worth: a run or two may have a call less.)
    assert found.runs > (found.points * (len(TURNS) - 1) if how == "every" else SOME - 1)
    assert found.reported > found.runs * 0.6  # the others failed where SQLite can do without


# The other files of the cache folder: locks, its mark, the file of vectors, and the swap of indexes


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_disk_that_fails_another_file_of_the_cache_is_reported_and_loses_nothing(
    name: str, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, SCENARIOS[name], "wal")
    with failing_calls(tmp_path / "cache") as calls:
        # (The index is swapped and the locks are taken alike where there are vectors.)
        found = survey(bench, calls, "dealt" if "embed" in name and not SLOW else "every")
    gone = [said for said in found.violations if said.endswith(": the index there was is gone")]
    assert found.violations == gone
    # One call is between the old index and the new one, the rename: a name that has neither for a
    # moment is what keeps whoever opens it just then from mixing the two. A disk that cannot rename
    # costs the index there was, so time, and the next run makes it anew.
    assert len(gone) == (len(TURNS) if name == "rebuild" else 0)
    assert found.reported > 0


# Small files


@pytest.mark.parametrize("name", WRITERS)
def test_a_disk_that_fails_leaves_each_small_file_as_it_was_or_as_it_was_to_be(
    name: str, tmp_path: Path
) -> None:
    found, reported = written(WRITERS[name], tmp_path)
    assert found == []
    assert reported >= len(TURNS)


def written(writer: Writer, scratch: Path) -> tuple[list[str], int]:
    """What went wrong at any point and in any way, and how often the writer said that it failed."""
    found: list[str] = []
    reported = number = 0
    for failure, sticky in TURNS:
        at, refused = 0, True
        while refused:
            at, number = at + 1, number + 1
            folder = scratch / str(number) / "place"
            folder.parent.mkdir()
            writer.before(folder)
            with failing_calls(folder) as calls, calls.failing(at, failure, sticky=sticky):
                failed = writer.write(folder)
            refused = calls.refused > 0
            reported += failed is not None
            found += [
                f"call {at}, {failure.value}{' from there on' if sticky else ''}: {said}"
                for said in file_violations(writer, folder, failed)
            ]
    return found, reported


# What a power failure may cost: nothing that has its name

NEVER = 1 << 30


def unflushed(calls: Calls) -> list[str]:
    """Files that got their name, or were left, before what they hold was on the disk."""
    waiting: set[str] = set()
    found: list[str] = []
    for name, path in calls.made:
        if name in ("write", "flush"):
            waiting.add(path)
        elif name in ("fsync", "unlink"):
            waiting.discard(path)
        elif name in ("replace", "rename", "link") and path in waiting:
            found.append(f"{path} is put in its place before it is on the disk")
    return found + [f"{path} is not on the disk" for path in sorted(waiting)]


def flushing(name: str, folder: Path) -> tuple[list[str], int]:
    """What a writer leaves to chance, and how many files it flushes."""
    WRITERS[name].before(folder)
    with failing_calls(folder) as calls, calls.failing(NEVER, Failure.FULL, sticky=False):
        assert WRITERS[name].write(folder) is None
    return unflushed(calls), sum(call == "fsync" for call, _ in calls.made)


@pytest.mark.parametrize("name", FLUSHED)
def test_a_small_file_is_on_the_disk_before_it_has_its_name(name: str, tmp_path: Path) -> None:
    found, flushed = flushing(name, tmp_path / "place")
    assert found == []
    assert flushed > 0


def test_the_file_of_vectors_is_on_the_disk_before_it_is_believed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SCENARIOS["embed"], "wal")
    bench.reset()
    with (
        failing_calls(tmp_path / "cache") as calls,
        calls.failing(NEVER, Failure.FULL, sticky=False),
    ):
        assert not bench.attempt().code
    flushed = [path for call, path in calls.made if call == "fsync" and path.endswith(".i8")]
    assert len(flushed) == 1
    assert [said for said in unflushed(calls) if ".i8" in said] == []


@pytest.mark.parametrize(("journal", "synchronous"), [("wal", 1), ("delete", 2)])  # NORMAL, FULL
def test_commits_wait_for_the_disk_as_the_journal_needs_it(
    journal: str, synchronous: int, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, SCENARIOS["first"], journal)
    memory = bench.memory()
    index(memory, IndexRequest(embed=False))
    assert memory.sidecar is not None
    assert memory.sidecar.connection.execute("PRAGMA journal_mode").get == journal
    assert memory.sidecar.connection.execute("PRAGMA synchronous").get == synchronous
    cache = memory.open_cache(create=True)
    assert cache is not None
    assert cache.query("PRAGMA synchronous", ()) == [(synchronous,)]
    memory.close()


# A note that cannot be read


def unread(bench: Bench, at: int, *, sticky: bool) -> tuple[set[str], list[str], bool]:
    """One run in which a call that reads the vault fails.

    Returns the notes that it says are unreadable, what is not as promised, and whether one failed.
    """
    bench.reset()
    memory = bench.memory()
    with (
        failing_calls(bench.vault, reading=True) as calls,
        calls.failing(at, Failure.BROKEN, sticky=sticky),
    ):
        reply = index(memory, IndexRequest(embed=False))
    memory.close()
    named = {problem.path for problem in reply.problems if problem.code == "unreadable"}
    stored = bench.stored()
    found: list[str] = []
    for path, digest in bench.notes.items():
        if stored.get(path) != digest and path not in named:
            found.append(f"{path} is not indexed, and nothing is said")
    if lost := bench.same.items() - stored.items():
        found.append(f"no longer indexed: {sorted(lost)}")
    return named, found + bench.healed(), calls.refused > 0


def unread_anywhere(bench: Bench, *, sticky: bool) -> tuple[set[str], list[str]]:
    """The notes that were said to be unreadable, and what went wrong, over all such calls."""
    named: set[str] = set()
    found: list[str] = []
    at, refused = 0, True
    while refused:
        at += 1
        said, wrong, refused = unread(bench, at, sticky=sticky)
        found += [f"call {at}: {each}" for each in wrong]
        named |= said
    return named, found


@pytest.mark.parametrize("sticky", [False, True], ids=["once", "from there on"])
@pytest.mark.parametrize("name", ["first", "delta"])
def test_a_note_that_cannot_be_read_is_named_kept_and_taken_in_later(
    name: str, sticky: bool, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, SCENARIOS[name], "wal")
    named, found = unread_anywhere(bench, sticky=sticky)
    assert found == []
    assert named >= set(bench.notes) - set(bench.same)


# Faults that these checks must find


def some(bench: Bench, disk: Disk) -> str:
    """What the check of the databases says, of a few points."""
    return "\n".join(survey(bench, disk, "some").violations)


def test_an_index_that_takes_no_notice_of_a_failed_commit_is_found(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Sidecar._commit

    def commit_or_not(sidecar: Sidecar) -> None:
        with suppress(apsw.Error):
            commit(sidecar)

    monkeypatch.setattr(Sidecar, "_commit", commit_or_not)
    assert "the run was through by half" in some(Bench(tmp_path, DELTA, "wal"), disk)


def test_an_index_that_commits_half_a_note_is_found(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def each_statement(sidecar: Sidecar, *, weight: int = 1) -> Iterator[apsw.Connection]:
        yield sidecar.connection

    monkeypatch.setattr(Sidecar, "transaction", each_statement)
    said = some(Bench(tmp_path, DELTA, "wal"), disk)
    assert "the next run does not end with what a fresh index has" in said


def test_an_error_that_is_not_vaultmems_own_is_found(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "sidecar_errors", lambda folder: nullcontext())
    said = some(Bench(tmp_path, DELTA, "wal"), disk)
    assert "an error of another kind: FullError" in said


def _mistaken(taken: type[VaultmemError], given: type[VaultmemError]) -> object:
    @contextmanager
    def errors(folder: Path) -> Iterator[None]:
        try:
            with sidecar_errors(folder):
                yield
        except taken as error:
            raise given(str(error)) from None

    return errors


@pytest.mark.parametrize(
    ("taken", "given", "said"),
    [
        (SidecarUnavailable, DiskFull, "a broken disk is called full"),
        (DiskFull, SidecarUnavailable, "a full disk is called broken"),
    ],
)
def test_an_error_that_is_taken_for_another_is_found(
    taken: type[VaultmemError],
    given: type[VaultmemError],
    said: str,
    disk: Disk,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(application, "sidecar_errors", _mistaken(taken, given))
    assert said in some(Bench(tmp_path, DELTA, "wal"), disk)


def test_a_message_that_names_no_path_is_found(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = store._full
    monkeypatch.setattr(store, "_full", lambda folder: full(Path("somewhere")))
    assert "the message names no path" in some(Bench(tmp_path, DELTA, "wal"), disk)


def test_a_run_that_leaves_what_was_begun_is_found(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "discard_unfinished", lambda folder: None)
    assert "left behind" in some(Bench(tmp_path, SCENARIOS["rebuild"], "wal"), disk)


def test_a_run_that_touches_a_note_is_found(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, DELTA, "wal")
    read = Door.read

    def touching(self: Door, disk_path: str, *, limit: int) -> bytes | Unread:
        if disk_path in bench.notes:
            os.utime(bench.vault / disk_path)
        return read(self, disk_path, limit=limit)

    monkeypatch.setattr(Door, "read", touching)
    assert "the vault was changed by the run" in some(bench, disk)


def test_a_cache_that_forgets_its_vectors_is_found(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, SCENARIOS["embed more"], "wal")
    opened = Memory.open_cache

    def forget(memory: Memory, *, create: bool = False) -> EmbeddingCache | None:
        cache = opened(memory, create=create)
        if cache is not None:
            with suppress(apsw.Error):
                cache._db.execute("DELETE FROM vector")
        return cache

    monkeypatch.setattr(Memory, "open_cache", forget)
    assert "vectors were lost" in some(bench, disk)


def test_an_index_without_a_journal_is_found(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        store, "synchronise", lambda db: db.execute("PRAGMA journal_mode = OFF").fetchall()
    )
    found = survey(Bench(tmp_path, DELTA, "delete"), disk, "dealt").violations
    assert any("index.db is damaged" in said for said in found)


class WithoutFlush:
    """The module os as it is, but that nothing is flushed."""

    def __getattr__(self, name: str) -> Any:
        return (lambda descriptor: None) if name == "fsync" else getattr(os, name)


@pytest.mark.parametrize("name", FLUSHED)
def test_a_small_file_that_is_not_flushed_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (state_file, client_config_file):
        monkeypatch.setattr(module, "os", WithoutFlush())
    found, _ = flushing(name, tmp_path / "place")
    assert any("before it is on the disk" in said for said in found)


def in_place(folder: Path, name: str, content: bytes, *, replace: bool) -> None:
    """A writer that cuts the file there is before it writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("wb") as file:
        file.write(content)


@pytest.mark.parametrize(
    ("name", "module"), [("secrets allow", allowed_secrets), ("http token", http_token)]
)
def test_a_writer_that_truncates_in_place_is_found(
    name: str, module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "put_state_file", in_place)
    found, _ = written(WRITERS[name], tmp_path)
    assert any(said.startswith("call") and name in said for said in found)


def test_a_clients_file_that_is_truncated_in_place_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(file: client_config_file.ConfigFile, content: bytes) -> None:
        in_place(file.target.parent, file.target.name, content, replace=True)

    monkeypatch.setattr(client_config_file, "_put", put)
    found, _ = written(WRITERS["connect"], tmp_path)
    assert any("AssertionError" in said for said in found)


def test_a_note_that_is_left_out_without_a_word_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = Door.read

    def missing(self: Door, disk_path: str, *, limit: int) -> bytes | Unread:
        answer = door(self, disk_path, limit=limit)
        return answer if isinstance(answer, bytes) else Unread("missing", answer.message)

    monkeypatch.setattr(Door, "read", missing)
    bench = Bench(tmp_path, SCENARIOS["first"], "wal")
    turns = itertools.takewhile(
        lambda turn: turn[2], (unread(bench, at, sticky=False) for at in itertools.count(1))
    )
    assert any("nothing is said" in said for _, found, _ in turns for said in found)
