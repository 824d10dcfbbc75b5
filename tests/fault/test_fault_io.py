"""A full disk and a broken one are reported and lose nothing, wherever they strike.

Indexing is tried with SQLite's file layer failing at each of its calls, and with Python's own; the
small files that vaultmem writes with Python's own. Whatever fails, the vault is as it was, what was
known is known still, and the next run ends where a fresh index does.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import ModuleType

import apsw
import pytest
from failing_calls import failing_calls
from failing_vfs import Disk, Failure, failing_disk
from io_files import WRITERS, Writer, file_violations
from io_runs import SCENARIOS, Bench
from io_survey import TURNS, How, survey
from lanes import SLOW

from vaultmem.index.store import Sidecar
from vaultmem.service import allowed_secrets, application, client_config_file, http_token
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.vault.read import Door, Unread

JOURNALS = ("wal", "delete")
DELTA = SCENARIOS["delta"]

# The journal nearly everybody has, and the runs nearly all are: each point in each way, always.
ALWAYS_EVERY = {("first", "wal"), ("delta", "wal")}
ALWAYS_ALL = {("delta", "delete")}


def lane(scenario: str, journal: str) -> How:
    """How much of a scenario is tried."""
    if SLOW or (scenario, journal) in ALWAYS_EVERY:
        return "every"
    return "dealt" if (scenario, journal) in ALWAYS_ALL else "some"


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
    found = survey(Bench(tmp_path, SCENARIOS[name], journal), disk, lane(name, journal))
    assert found.violations == []
    assert found.points > 60
    assert found.reported > found.runs * 0.6  # the others failed where SQLite can do without


# The other files of the cache folder: locks, its mark, the file of vectors, and the swap of indexes


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_disk_that_fails_another_file_of_the_cache_is_reported_and_loses_nothing(
    name: str, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, SCENARIOS[name], "wal")
    with failing_calls(tmp_path / "cache") as calls:
        found = survey(bench, calls, "every")
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
    _, found = unread_anywhere(Bench(tmp_path, SCENARIOS["first"], "wal"), sticky=False)
    assert any("nothing is said" in said for said in found)
