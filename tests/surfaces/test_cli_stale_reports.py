"""Failures that users of other tools reported of stale and deleted notes, step by step.

Each report that has a steps.jsonl is carried out on a copy of its vault with nothing running but a
process for each question, and most a second time beside a watcher. What a step expects is in it; a
watcher may take a moment to notice, but what `at_once` says has to hold of the first answer.
"""

import json
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest
from command_line import REPOSITORY, CommandLine, listing
from watcher_process import WatcherProcess, watched

REPORTS = sorted(file.parent for file in (REPOSITORY / "tests/data/reports").glob("*/steps.jsonl"))
# What a watcher makes of these is in tests/service/test_two_devices.py, where it costs less.
ALONE = ("44-same-name-size-and-time", "45-modified-for-ever", "46-temporary-files-of-saves")
DEADLINE_SECONDS = 20.0

Step = dict[str, Any]


def test_there_are_reports_to_carry_out() -> None:
    assert len(REPORTS) >= 12


class Carried:
    """A report on its way: a copy of its vault, and perhaps a watcher beside."""

    def __init__(self, scratch: Path, report: Path, running: ExitStack | None) -> None:
        copytree(report / "vault", scratch / "vault")
        self.shell = CommandLine(scratch, scratch / "vault")
        self._may_watch = running is not None
        self._running = running or ExitStack()
        self.watched()

    def file(self, step: Step, key: str = "path") -> Path:
        return self.shell.vault / str(step[key])

    # What happens to the vault

    def watched(self) -> None:
        if self._may_watch:
            watcher: WatcherProcess = self._running.enter_context(watched(self.shell))
            watcher.until(lambda: bool(watcher.said("batch")))
            self._running.callback(lambda: ended_well(watcher))

    def unwatched(self) -> None:
        self._running.close()

    def write(self, step: Step) -> None:
        file = self.file(step)
        before = file.stat() if file.exists() else None
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(step["text"].encode())
        if before is not None and step.get("keep_time"):
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
            after = file.stat()
            assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)

    def save(self, step: Step) -> None:
        """By way of a temporary file."""
        temporary = self.file(step).with_name(step["by"])
        temporary.write_bytes(step["text"].encode())
        temporary.replace(self.file(step))

    def replace(self, step: Step) -> None:
        """Another file takes its place."""
        before = self.file(step).stat()
        other = self.shell.elsewhere / "other"
        other.write_bytes(step["text"].encode())
        os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
        other.replace(self.file(step))

    def touch(self, step: Step) -> None:
        when = time.time() + step["seconds"]
        os.utime(self.file(step), (when, when))

    def move(self, step: Step) -> None:
        target = self.file(step, "to")
        target.parent.mkdir(parents=True, exist_ok=True)
        self.file(step).rename(target)
        if "text" in step:
            target.write_bytes(step["text"].encode())

    def delete(self, step: Step) -> None:
        file = self.file(step)
        rmtree(file) if file.is_dir() else file.unlink()

    # What is asked, and what of the answer is not as expected

    def search(self, step: Step) -> str:
        reply = self.shell.reply("search", step["query"], "-k", "50")
        stale = sorted(hit["path"] for hit in reply["hits"] if hit["stale"])
        found = {
            "paths": sorted(hit["path"] for hit in reply["hits"]),
            "stale": stale,
            "degraded": reply["degraded"],
        }
        expected = {"paths": step["paths"], "stale": step.get("stale", []), "degraded": []}
        if found != expected:
            return f"{found}"
        (first, *_) = reply["hits"] or [{"snippet": "", "lines": []}]
        if step.get("snippet", "") not in first["snippet"]:
            return f"{first['snippet']}"
        return "" if step.get("lines", first["lines"]) == first["lines"] else f"{first['lines']}"

    def read(self, step: Step) -> str:
        ended = self.shell.run("read", step["note"])
        as_expected = ended.code == step.get("code", 0) and step.get("text", "") in ended.out
        return "" if as_expected else f"{ended}"

    def links(self, step: Step) -> str:
        reply = self.shell.reply("links", step["note"])
        resolved = [link["resolved"] for link in reply["links"]]
        return "" if resolved == step["resolved"] else f"{resolved}"

    def why(self, step: Step) -> str:
        reply = self.shell.reply("why", step["note"])
        as_expected = reply["indexed"] is step["indexed"] and step["reason"] in reply["reasons"][0]
        return "" if as_expected else f"{reply}"

    def index(self, step: Step) -> str:
        reply = self.shell.reply("index")
        notes, codes = reply["notes"], [problem["code"] for problem in reply["problems"]]
        as_expected = notes["total"] == step["total"] and codes == step.get("problems", codes)
        if "unchanged" in step:
            as_expected = as_expected and notes["unchanged"] == step["unchanged"]
        return "" if as_expected else f"{reply}"


def ended_well(watcher: WatcherProcess) -> None:
    assert watcher.stop() == (0, "")


CHANGES = ("watched", "unwatched", "write", "save", "replace", "touch", "move", "delete")


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: str(report.name))
def test_a_report_of_a_stale_note_does_not_come_true(tmp_path: Path, report: Path) -> None:
    carry_out(Carried(tmp_path, report, None), report, patient=False)


@pytest.mark.parametrize(
    "report",
    [report for report in REPORTS if report.name not in ALONE],
    ids=lambda report: str(report.name),
)
def test_nor_does_it_beside_a_watcher(tmp_path: Path, report: Path) -> None:
    with ExitStack() as running:
        carry_out(Carried(tmp_path, report, running), report, patient=True)


def carry_out(carried: Carried, report: Path, *, patient: bool) -> None:
    """Do what a report says. patient: whether an answer may take a moment to be as expected."""
    for number, line in enumerate((report / "steps.jsonl").read_text("utf-8").splitlines(), 1):
        step: Step = json.loads(line)
        if step["do"] in CHANGES:
            getattr(carried, step["do"])(*([step] if len(step) > 1 else []))
            continue
        ask: Callable[[Step], str] = getattr(carried, step["do"])
        before = listing(carried.shell.vault)
        deadline = time.monotonic() + DEADLINE_SECONDS
        wrong = ask(step)
        while wrong and patient and not step.get("at_once") and time.monotonic() < deadline:
            wrong = ask(step)
        assert not wrong, f"step {number}: {step}: {wrong}"
        assert listing(carried.shell.vault) == before
