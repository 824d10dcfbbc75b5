"""The promises that `selftest` tries, each with a product that breaks it."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from vaultmem.model.errors import DiskFull, SidecarUnavailable, UsageError
from vaultmem.service import indexing, selftest, selftest_promises
from vaultmem.service.application import Progress
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.selftest import PROMISES, SelftestReply, SelftestRequest, run_selftest
from vaultmem.service.selftest_bench import Place, folder_errors, index_faults
from vaultmem.service.selftest_child import Task
from vaultmem.service.selftest_children import START, Child, Nursery
from vaultmem.service.selftest_edits import Hand, make_vault, names, seen
from vaultmem.service.selftest_promises import (
    Ground,
    Promise,
    edited_as_new,
    killed_anywhere,
    processes_at_once,
)

SEED = 7

# Faults of a child, put into it before it begins.
COMMIT_EACH_STATEMENT = """
from contextlib import contextmanager
from vaultmem.index.store import Sidecar
@contextmanager
def transaction(self, *, weight=1):
    yield self.connection
@contextmanager
def batch(self, size):
    yield
Sidecar.transaction, Sidecar.batch = transaction, batch
"""
STAY_ALIVE = """
from vaultmem.service import selftest_child
selftest_child._Steps.end = lambda self, before: None
"""
READ_AN_OLD_STATE = """
from vaultmem.index.store import Sidecar
Sidecar.end_reading = lambda self: None
"""
CRASH = """
import os
from vaultmem.service import selftest_child
selftest_child.index = lambda memory, request: os._exit(3)
"""
WRITE_INTO_THE_VAULT = """
from vaultmem.service import selftest_child
real = selftest_child.index
def index(memory, request):
    (memory.vault / "Home.md").write_text("Mine now.")
    return real(memory, request)
selftest_child.index = index
"""


def with_fault(fault: str) -> str:
    """What a child begins with."""
    return f"{START}; exec({fault!r})"


def broken(promise: Promise, folder: Path, cases: int, fault: str = "") -> list[str]:
    """What a promise says is broken."""
    folder.mkdir(exist_ok=True)
    with Nursery(folder, start=with_fault(fault), ahead=0) as nursery:
        ground = Ground(folder / "tried", SEED, nursery)
        return [line for case in promise(ground, cases) for line in case.broken]


def selftest_of(monkeypatch: pytest.MonkeyPatch, **promises: tuple[Promise, int]) -> None:
    """Have `selftest` try only these."""
    monkeypatch.setattr(selftest, "PROMISES", promises)


def forget_to_remove(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have indexing leave notes that are gone in the index."""
    monkeypatch.setattr(indexing, "remove_note", lambda sidecar, path: None)


# Kept


def test_each_promise_is_told_as_it_was_tried_and_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    selftest_of(monkeypatch, kill=(killed_anywhere, 20), edits=(edited_as_new, 30))
    base = tmp_path / "not there" / "yet"
    told: list[str] = []
    reply = run_selftest(
        SelftestRequest(base, seed=SEED, times=0.1),
        began=lambda ground: told.append(ground.folder),
        tried=lambda check: told.append(check.name),
    )
    assert [check.broken for check in reply.checks] == [(), ()]
    assert [(c.name, c.cases, c.kept) for c in reply.checks] == [
        ("kill", 2, 2),
        ("edits", 3, 3),
    ]
    assert told == [str(base), "kill", "edits"]
    assert (reply.kept, reply.left, reply.seed, reply.journal) == (True, None, SEED, "wal")
    assert all(check.seconds > 0 for check in reply.checks)
    assert reply.seconds >= sum(check.seconds for check in reply.checks)
    assert list(tmp_path.iterdir()) == []


def test_it_is_as_many_cases_as_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    selftest_of(monkeypatch, edits=(edited_as_new, 1))
    counted: list[tuple[str, int, int]] = []
    progress = Progress(lambda *told: counted.append(told))
    reply = run_selftest(SelftestRequest(tmp_path, times=3), progress=progress)
    assert [check.cases for check in reply.checks] == [3]
    assert counted == [("selftest", done, 3) for done in range(4)]
    assert 0 <= reply.seed < 1_000_000


@pytest.mark.parametrize("times", [0.0, -1.0, float("nan")])
def test_no_cases_at_all_is_no_request(times: float, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--cases"):
        run_selftest(SelftestRequest(tmp_path, times=times))
    assert list(tmp_path.iterdir()) == []


# Broken


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("remove_note", lambda sidecar, path: None),
        ("relink", lambda sidecar, moved, names: None),
        ("put_files", lambda sidecar, known, present: None),
    ],
    ids=["gone notes stay", "links lead where they led", "attachments are not noted"],
)
def test_an_index_that_does_not_follow_an_edit_is_noticed(
    name: str, fault: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, name, fault)
    wrong = broken(edited_as_new, tmp_path, 12)
    assert wrong
    assert all(line.startswith("case ") and ", after " in line for line in wrong)


def test_after_a_broken_case_the_next_one_begins_with_a_whole_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter(range(1000))

    def not_always(memory: Any, anew: Any) -> list[str]:
        found = index_faults(memory, anew)
        return ["made up"] if next(calls) == 1 else found

    monkeypatch.setattr(selftest_promises, "index_faults", not_always)
    (line,) = broken(edited_as_new, tmp_path, 4)
    assert line.startswith("case 2, after ")
    assert line.endswith(": made up")


def test_a_run_without_transactions_is_noticed_when_it_is_killed(tmp_path: Path) -> None:
    wrong = broken(killed_anywhere, tmp_path, 3, COMMIT_EACH_STATEMENT)
    assert wrong
    assert all("killed before step " in line for line in wrong)


def test_a_run_that_writes_into_the_vault_is_noticed(tmp_path: Path) -> None:
    wrong = broken(killed_anywhere, tmp_path, 1, WRITE_INTO_THE_VAULT)
    assert any("the vault is not as it was" in line or "Home.md" in line for line in wrong), wrong


def test_what_a_killed_run_leaves_in_the_cache_folder_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = selftest_promises._Scene.kill

    def kill(scene: Any, chance: Any) -> tuple[str, list[str]]:
        answer = real(scene, chance)
        (next(scene.place.cache.iterdir()) / "index.db.tmp").write_bytes(b"left")
        return answer

    monkeypatch.setattr(selftest_promises._Scene, "kill", kill)
    (line,) = broken(killed_anywhere, tmp_path, 1)
    assert "cache folder" in line
    assert "index.db.tmp" in line


def test_a_process_that_does_not_die_is_no_kept_promise(tmp_path: Path) -> None:
    (line,) = broken(killed_anywhere, tmp_path, 1, STAY_ALIVE)
    assert "was to end itself, and did not" in line


def test_a_process_that_ends_by_itself_is_noticed(tmp_path: Path) -> None:
    wrong = broken(processes_at_once, tmp_path, 1, CRASH)
    assert any("index ended by itself" in line for line in wrong)


def test_a_process_that_does_not_see_the_last_edit_is_noticed(tmp_path: Path) -> None:
    # Rounds: whoever began to read after the edit of the first does not see that of the next.
    wrong = broken(processes_at_once, tmp_path, 4, READ_AN_OLD_STATE)
    assert any("search" in line for line in wrong)


def test_an_error_in_the_product_is_a_broken_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(memory: Any, anew: Any) -> list[str]:
        raise SidecarUnavailable("No such luck.")

    monkeypatch.setattr(selftest_promises, "index_faults", fail)
    (line,) = broken(edited_as_new, tmp_path, 1)
    assert line.endswith("SidecarUnavailable: No such luck.")


def test_of_a_broken_promise_a_few_cases_are_told_and_kept_if_that_is_wished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selftest_promises, "index_faults", lambda memory, anew: ["made up"])
    selftest_of(monkeypatch, edits=(edited_as_new, 5))
    reply = run_selftest(SelftestRequest(tmp_path, seed=SEED))
    (check,) = reply.checks
    assert (reply.kept, reply.left, check.kept, check.cases) == (False, None, 0, 5)
    assert len(check.broken) == 3
    assert list(tmp_path.iterdir()) == []
    kept: SelftestReply = run_selftest(SelftestRequest(tmp_path, seed=SEED, keep=True))
    assert [c.broken for c in kept.checks] == [check.broken]  # the same seed, the same edits
    (left,) = tmp_path.iterdir()
    assert kept.left == str(left)
    assert sorted(path.name for path in left.iterdir()) == ["edits 1", "edits 2", "edits 3"]
    for case in left.iterdir():
        assert (case / "vault" / "Home.md").is_file()
        assert list(case.glob("cache/*/index.db"))


# Ended early


@contextmanager
def watched_children(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Child]]:
    """Every child that is started meanwhile."""
    started: list[Child] = []
    real = Nursery.another

    def another(nursery: Nursery, *heard: Any) -> Child:
        started.append(real(nursery, *heard))
        return started[-1]

    monkeypatch.setattr(Nursery, "another", another)
    yield started


@pytest.mark.parametrize(
    ("ended_by", "promise", "processes"),
    [(KeyboardInterrupt, processes_at_once, 4), (RuntimeError, edited_as_new, 0)],
    ids=["Ctrl-C", "an error"],
)
def test_ended_in_its_midst_it_leaves_no_file_and_no_process(
    ended_by: type[BaseException],
    promise: Promise,
    processes: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    selftest_of(monkeypatch, tried=(promise, 3))
    there: list[str] = []

    def report(stage: str, done: int, total: int) -> None:
        if done == 1:
            there.extend(names(tmp_path))
            raise ended_by

    with watched_children(monkeypatch) as started, pytest.raises(ended_by):
        run_selftest(SelftestRequest(tmp_path / "made", seed=SEED), progress=Progress(report))
    assert any(name.endswith("Home.md") for name in there)
    assert list(tmp_path.iterdir()) == []
    assert len(started) == processes
    assert all(child._process.poll() is not None for child in started)


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, DiskFull), (errno.EIO, SidecarUnavailable)]
)
def test_a_disk_that_fails_is_named_and_no_promise_is_said_to_be_broken(
    number: int, kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy(folder: Path, to: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(selftest_promises, "copy", copy)
    selftest_of(monkeypatch, kill=PROMISES["kill"])
    with pytest.raises(kind) as caught:
        run_selftest(SelftestRequest(tmp_path / "made", seed=SEED, times=0.05))
    assert str(tmp_path / "made") in str(caught.value)
    assert "--in" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_that_nobody_reads_what_is_said_is_no_fault_of_the_folder(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), folder_errors(tmp_path):
        raise BrokenPipeError


# What the promises are tried with


def test_a_child_counts_its_steps_and_ends_itself_before_the_one_it_is_told(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path / "place")
    with Nursery(tmp_path, ahead=0) as nursery:
        ground = Ground(tmp_path, SEED, nursery)
        place, hand = ground.place("place")
        first = nursery.child()
        whole = first.result(Task(str(place.folder), "index"))
        assert whole["errors"] == []
        # An update works on the index there is: it takes fewer steps than the first one.
        hand.edit(1)
        update = first.result(Task(str(place.folder), "index"))
        assert 0 < update["ended"] < whole["ended"]
        hand.edit(1)
        told = first.result(Task(str(place.folder), "index", kill_at=5))
        assert told.keys() == {"killed", "after"}
        assert told["after"] == 5
        assert first.was_killed()
        # Beyond the last step it ends at its end.
        late = nursery.child()
        told = late.result(Task(str(place.folder), "index", kill_at=1_000_000))
        assert told["killed"] == "the end of the process"
        assert late.was_killed()
        assert late.said() == ""


def test_a_child_indexes_by_the_rules_that_this_process_has(tmp_path: Path) -> None:
    with Nursery(tmp_path, ahead=0) as nursery:
        place, _ = Ground(tmp_path, SEED, nursery).place("place")
        assert nursery.child().result(Task(str(place.folder), "index"))["errors"] == []
    memory = place.opened()
    try:
        assert memory.open_sidecar() is not None  # of another fingerprint it would be none
        assert index(memory, IndexRequest()).notes.touched == 0
    finally:
        memory.close()


def test_the_hand_makes_every_kind_of_edit_and_never_empties_the_vault(tmp_path: Path) -> None:
    def edited(folder: Path, seed: int) -> tuple[list[str], dict[str, bytes]]:
        ground = Ground(folder, seed, None)  # type: ignore[arg-type]
        place, hand = ground.place("place")
        before = seen(place.vault)
        told = hand.edit(150)
        assert (place.vault / "Home.md").is_file()
        assert seen(place.vault) != before
        return told, {
            path.relative_to(place.vault).as_posix(): path.read_bytes()
            for path in place.vault.rglob("*")
            if path.is_file()
        }

    one, other, third = (edited(tmp_path / str(n) / "x", seed) for n, seed in enumerate((1, 1, 2)))
    assert one == other
    assert one != third
    told = "\n".join(one[0])
    for kind in ("write", "append", "shorten", "delete", "rename", "move", "swap", "save", "touch"):
        assert f"\n{kind} " in told
    assert "exclude" in told
    assert "change letters" in told
    assert "add pot.png" in told or "delete pot.png" in told


def test_the_vault_has_notes_canvases_and_names_in_several_scripts(tmp_path: Path) -> None:
    import random

    make_vault(tmp_path, random.Random(SEED))
    there = names(tmp_path)
    assert sum(name.endswith(".md") for name in there) >= 12
    assert any(name.endswith(".canvas") for name in there)
    assert not all(name.isascii() for name in there)
    path, word = Hand(tmp_path, tmp_path.parent / "spare", random.Random(SEED)).mark(0)
    assert word in (tmp_path / path).read_text("utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="a link needs a privilege there")
def test_a_file_in_the_folders_place_is_told_as_such(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")
    with pytest.raises(SidecarUnavailable, match="--in") as caught:
        run_selftest(SelftestRequest(file / "below"))
    assert str(file / "below") in str(caught.value)
    assert file.read_text() == "no folder"
