"""The promises of `watch` in small: what tests/benchmark measures in full, with real processes."""

import shutil
from argparse import Namespace
from pathlib import Path

import pytest
import watch_burst
import watch_latency
from watch_storm import storm
from watching import SAVES, Outcome, furnished

SAMPLE = Path(__file__).resolve().parents[2] / "sample_vault"


def options(**others: object) -> Namespace:
    shared = {"vault": SAMPLE, "seed": 7, "vectors": False, "cache": None, "watcher": ""}
    return Namespace(**{**shared, **others})


def assert_held(outcome: Outcome) -> None:
    assert outcome.failures == [], "\n".join(outcome.table)


def test_an_edit_is_found_however_an_editor_saves() -> None:
    outcome = watch_latency.measure(options(edits=12, patterns=list(SAVES)))
    assert_held(outcome)
    assert outcome.figures["edits"] == 12
    assert outcome.figures["never_found"] == 0
    assert outcome.figures["equals_rebuild"] is True
    # A machine that tests are run on has other work to do; in full, measurements.md has it.
    assert outcome.figures["latency"]["all"]["max"] < 5


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_git_checkout_is_one_batch() -> None:
    outcome = watch_burst.measure(options(notes=60))
    assert_held(outcome)
    # On the way back a note of the sample is emptied, which is waited for.
    for branch, batches in (("two", 1), ("one", 2)):
        assert outcome.figures[branch]["batches"] <= batches
        assert outcome.figures[branch]["notes_taken_in"] == outcome.figures["notes_that_differ"]


def test_processes_that_are_killed_spoil_nothing_for_the_others(tmp_path: Path) -> None:
    outcome = storm(furnished(tmp_path, SAMPLE), seconds=12, seed=7)
    assert_held(outcome)
    assert sum(outcome.figures["edits"].values()) > 30
    assert sum(role.get("killed", 0) for role in outcome.figures["roles"].values()) > 2
    # A machine that tests are run on has other work to do; in full, measurements.md has it.
    assert outcome.figures["reader_seconds"]["all"]["p99"] < 8
