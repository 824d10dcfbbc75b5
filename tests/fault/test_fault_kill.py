"""A run of the index killed anywhere leaves what the next run finishes, and loses nothing."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
from killer import record
from lanes import SEED, SLOW, by_lane
from scenarios import FAULTS, SCENARIOS, Outcome, Request

from vaultmem.index.store import SIDECAR_NAME
from vaultmem.service.application import Memory
from vaultmem.service.operations.index import IndexRequest, index

HERE = Path(__file__).parent
JOURNALS = ("wal", "delete")
WHOLE = ("first", "delta", "rebuild")  # the scenarios that the slow lane kills at every call

# Kills of each scenario, with either journal; short runs cost least.
FAST = {
    "first": (75, 60),
    "delta": (30, 25),
    "rebuild": (20, 20),
    "burst": (32, 28),
    "vectors first": (3, 2),
    "vectors later": (3, 2),
}
MANY = 300

# Fault, and where it is looked for: (scenario, journal, kinds of steps), with the least share of
# the kills there that must be caught.
CONTROLS = {
    "no transactions": ("delta", "wal", "", 0.3),
    "hash first": ("first", "wal", "sql INSERT", 0.2),
    "complete first": ("first", "wal", "sql INSERT", 0.1),
    "leftovers": ("rebuild", "wal", "", 0.3),
    "journal in memory": ("delta", "delete", "db write", 0.15),
    "loose vectors": ("vectors later", "wal", "sql UPDATE", 0.1),
}


def played(folder: Path, requests: Sequence[Request]) -> list[Outcome]:
    """What came of campaigns, each played in a process that has nothing open."""
    # Half of them in another process, in the slow lane: they take long enough for two.
    parts = [requests[0::2], requests[1::2]] if SLOW else [requests]
    running = []
    for number, part in enumerate(parts):
        place = folder / str(number)
        place.mkdir()
        (place / "requests").write_text(json.dumps([asdict(request) for request in part]))
        script = (HERE / "scenarios.py", place / "requests", place / "answers")
        command = [sys.executable, *map(str, script)]
        more = os.environ.get("PYTHONPATH", "")
        paths = os.pathsep.join([str(HERE), str(HERE.parent / "hostile"), *filter(None, [more])])
        environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
        running.append((place, subprocess.Popen(command, env=environment)))
    outcomes: list[Outcome] = []
    for place, process in running:
        assert process.wait() == 0
        for values in json.loads((place / "answers").read_text()):
            request = Request(**values.pop("request"))
            outcomes.append(Outcome(request=request, **values))
    return outcomes


def sampled() -> list[Request]:
    """So many kills of each scenario, spread over the kinds of steps."""
    return [
        Request(scenario, journal, SEED, points=by_lane(fast=points, slow=MANY))
        for scenario, of_journals in FAST.items()
        for journal, points in zip(JOURNALS, of_journals, strict=True)
    ]


def every_call() -> list[Request]:
    """Each call of three scenarios, in halves for two processes."""
    return [
        Request(scenario, "wal", SEED, points=0, share=(half, 2))
        for scenario in WHOLE
        for half in (0, 1)
    ]


def violations(outcomes: Sequence[Outcome]) -> list[str]:
    """What did not hold, and where."""
    return [
        f"{outcome.request.scenario}, {outcome.request.journal}, step {step}: {line}"
        for outcome in outcomes
        for step, lines in outcome.bad.items()
        for line in lines
    ]


def is_caught(lines: Sequence[str]) -> bool:
    """Whether something did not hold after a kill, besides that there was none."""
    return any("not killed" not in line for line in lines)


def test_a_run_killed_anywhere_is_finished_by_the_next_and_loses_nothing(tmp_path: Path) -> None:
    requests = [*sampled(), *by_lane(fast=[], slow=every_call())]
    outcomes = played(tmp_path, requests)
    assert violations(outcomes) == []
    asked = sum(request.points for request in requests)
    assert asked == by_lane(fast=300, slow=MANY * len(SCENARIOS) * len(JOURNALS))
    assert sum(outcome.killed for outcome in outcomes) >= asked
    # Spread: within files, SQL and SQLite's own files; before, in the middle of and after a call.
    kinds: Counter[str] = Counter()
    for outcome in outcomes:
        assert outcome.missed == {}  # an audit hook heard of nothing that was not counted
        kinds.update(outcome.kinds)
    for part in ("os.", "open", "sql ", "db ", "wal ", "journal ", "disk "):
        assert any(kind.startswith(part) for kind in kinds), part
    for moment in ("before", "half", "after"):
        assert sum(n for kind, n in kinds.items() if kind.endswith(moment)) > asked / 20, moment
    if SLOW:
        whole = [o for o in outcomes if not o.request.points]
        assert sum(outcome.killed for outcome in whole) > 5_000


def test_the_check_finds_each_fault_that_a_kill_brings_out(tmp_path: Path) -> None:
    points = by_lane(fast=8, slow=100)
    requests = [
        Request(scenario, journal, SEED, points, fault, among)
        for fault, (scenario, journal, among, _) in CONTROLS.items()
    ]
    caught = {
        outcome.request.fault: sum(map(is_caught, outcome.bad.values())) / points
        for outcome in played(tmp_path, requests)
    }
    assert caught.keys() == FAULTS.keys()
    missed = {fault for fault, (*_, least) in CONTROLS.items() if caught[fault] < least}
    assert not missed, caught


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forking beside threads
def test_control_of_the_count_that_a_call_which_nobody_counts_is_heard_of(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    uncounted = os.link  # as it is before calls are counted
    counted = record(lambda: os.link(tmp_path / "file", tmp_path / "one"))
    assert (counted.kinds, counted.missed) == (["os.link before", "os.link after"], {})
    assert record(lambda: uncounted(tmp_path / "file", tmp_path / "two")).missed == {"os.link": 1}
    # Who hears of nothing at all has not listened.
    with pytest.raises(RuntimeError, match="heard of no change"):
        record(lambda: None)


def test_an_index_that_was_about_to_be_put_in_place_is_put_there_by_the_next_run(
    open_vault: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_vault({"a.md": "kiln [[b]]", "b.md": "clay"})
    index(memory, IndexRequest())

    def interrupted(file: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index(memory, IndexRequest(rebuild=True))
    memory.close()
    assert not (memory.folder / SIDECAR_NAME).exists()
    counts = index(memory, IndexRequest()).notes
    assert (counts.added, counts.unchanged) == (0, 2)


def test_what_lies_beside_a_sidecar_that_was_being_removed_goes_with_the_next_run(
    open_vault: Callable[..., Memory],
) -> None:
    memory = open_vault({"a.md": "kiln"})
    index(memory, IndexRequest())
    left = memory.folder / f"{SIDECAR_NAME}.new-wal"
    left.write_bytes(b"of a run that was killed while it removed its own")
    index(memory, IndexRequest())
    assert not left.exists()
