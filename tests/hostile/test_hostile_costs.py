"""No input takes long or much memory, and an unchanged vault makes no work at all."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_vaults import FIRST_SEED, Asked, Child, Row, run_generator

pytest_plugins = ["hostile_fixtures"]

FILE_SECONDS = 5
VAULT_SECONDS = 120
PEAK_BYTES = 500 << 20

# Small, and odd enough to take long all the same.
ODD = {
    "fm-billion-laughs", "fm-quadratic", "fm-recursive-anchor", "fm-recursive-map", "fm-deep-flow",
    "fm-deep-flow-map", "fm-big-int", "fm-huge", "fm-merge-bomb", "fm-control", "enc-combining",
    "enc-emoji-zwj", "enc-cjk", "enc-nul", "enc-binary-md", "enc-invalid-utf8", "sz-hub",
    "md-wikilink-nest", "md-embed-self", "md-callouts",
}  # fmt: skip


def test_a_second_pass_over_an_unchanged_vault_does_nothing(each: Asked) -> None:
    first, again = (each.answers[name] for name in ("index", "again"))
    assert first["notes"]["added"] > 700
    done = {name: again["notes"][name] for name in ("added", "changed", "renamed", "removed")}
    assert done == {"added": 0, "changed": 0, "renamed": 0, "removed": 0}
    assert again["notes"]["total"] == again["notes"]["unchanged"] == first["notes"]["total"]
    assert again["problems"] == first["problems"]
    assert each.answers["again_parsed"] == []


def test_a_second_pass_writes_nothing_to_the_index(first: Asked) -> None:
    # The clock stands still: on a running one, files just written are looked at once more.
    assert first.answers["again_changes"] == 0
    assert first.answers["again_same_bytes"]


def test_the_whole_vault_is_indexed_in_time_and_memory(each: Asked) -> None:
    assert 0 < each.answers["index_cpu"] < VAULT_SECONDS
    assert 0 < each.answers["index_peak"] < PEAK_BYTES


def test_all_that_can_be_asked_is_answered_in_time_and_memory(each: Asked) -> None:
    assert each.answers["index_cpu"] < each.answers["cpu"] < VAULT_SECONDS
    assert each.answers["index_peak"] <= each.answers["peak"] < PEAK_BYTES


def test_no_command_ends_in_a_traceback(each: Asked) -> None:
    commands = each.answers["commands"]
    assert len(commands) == 15
    ended = {name: reply["code"] for name, reply in commands.items() if reply["code"]}
    # Both found what they were asked to look for.
    assert ended == {"lint": 1, "doctor": 1}
    assert "Traceback" not in json.dumps(commands) + each.printed


@pytest.fixture(scope="module")
def alone(scratch_folder: Callable[[], Path]) -> dict[str, float]:
    """CPU seconds of each of the largest and oddest notes, in a vault of its own."""
    child = Child(scratch_folder())
    out = child.scratch / "out"
    run_generator(out, FIRST_SEED)
    rows = json.loads((out / "manifest.json").read_text("utf-8"))["rows"]

    def size(row: Row) -> int:
        return os.path.getsize(out / "vault" / row["path"])

    notes = [
        row
        for row in rows
        if row["group"] in ("frontmatter", "markdown", "encoding", "size")
        and row["path"].endswith(".md")
    ]
    odd = [row for row in notes if row["id"] in ODD]
    assert len(odd) == len(ODD)
    others = sorted((row for row in notes if row["id"] not in ODD), key=size)
    result, _ = child.run("alone", paths=[row["path"] for row in odd + others[-40:]])
    assert result["peak"] < PEAK_BYTES
    seconds: dict[str, float] = result["seconds"]
    return seconds


def test_no_note_takes_long_by_itself(alone: dict[str, float]) -> None:
    assert len(alone) == 60
    assert {path: spent for path, spent in alone.items() if spent >= FILE_SECONDS} == {}
    assert all(spent > 0 for spent in alone.values())
