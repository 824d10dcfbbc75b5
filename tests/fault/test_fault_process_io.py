"""A full disk and a broken one as the system itself tells of them, to whole processes.

What the file layer in Python cannot show is shown here: SQLite is told by the system's own error
numbers, keeps to itself what goes wrong at closing, and sqlite-vec has one name for all failures.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from failing_vfs import Failure
from io_files import WRITERS, connected, torn
from io_runs import SCENARIOS, Bench, Outcome
from io_survey import TURNS, How, Survey
from lanes import SEED, SLOW, by_lane
from preload import compiled, failing, in_front

from vaultmem.model.errors import all_errors

JOURNALS = ("wal", "delete")
NEVER = 1 << 30

# The run that puts an index in another's place, and the one whose vectors cost the most.
DEALT = {("rebuild", "wal"), ("embed more", "delete")}

CLI = "import sys; from vaultmem.surfaces.cli import main; sys.exit(main())"
# Deliberate: an index that takes no notice of a commit that failed.
SWALLOWED = """
from vaultmem.index.store import Sidecar
commit = Sidecar._commit
def commit_or_not(sidecar):
    try:
        commit(sidecar)
    except Exception:
        pass
Sidecar._commit = commit_or_not
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("shim"))


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The caller's, without what steers vaultmem, and with modules found where they are here."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("VAULTMEM_", "FAULT_AT"))}
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | dict(extra)


# Every point, in a process that tries one after the other


def surveyed(shim: Path, scratch: Path, name: str, journal: str, how: How) -> Survey:
    script = Path(__file__).with_name("io_survey.py")
    ended = subprocess.run(
        [sys.executable, script, scratch, name, journal, how],
        env=environment(in_front(shim, scratch / "cache")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return Survey(**json.loads(ended.stdout))


@pytest.mark.parametrize("journal", JOURNALS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_what_the_system_says_of_its_disk_is_reported_and_loses_nothing(
    name: str, journal: str, shim: Path, tmp_path: Path
) -> None:
    how: How = "every" if SLOW else "dealt" if (name, journal) in DEALT else "some"
    found = surveyed(shim, tmp_path, name, journal, how)
    assert found.violations == []
    assert found.points > 60
    assert found.reported > found.runs * 0.5  # the others failed where SQLite can do without


# The command line


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has come to its end."""

    code: int
    out: str
    err: str
    calls: int  # that could fail
    refused: tuple[str, ...]  # those that did, each with the path that it was about


@dataclass(frozen=True, slots=True)
class Command:
    """`vaultmem` with the shim in front."""

    shim: Path
    bench: Bench
    below: Path
    code: str = CLI

    def run(self, *arguments: str, fault: Mapping[str, str]) -> Ended:
        """Run it with the call failing that the fault says."""
        report = self.bench.folder / "report"
        report.unlink(missing_ok=True)
        told = {
            "HOME": str(self.bench.folder / "home"),
            "VAULTMEM_VAULT": str(self.bench.vault),
            "VAULTMEM_CACHE_DIR": str(self.bench.folder / "cache"),
            "VAULTMEM_STATE_DIR": str(self.bench.folder / "state"),
            "VAULTMEM_SIDECAR_JOURNAL": self.bench.journal,
            "VAULTMEM_EMBEDDER_NAME": "none",
        }
        ended = subprocess.run(
            [sys.executable, "-c", self.code, *arguments],
            cwd=self.bench.folder,
            env=environment(told | in_front(self.shim, self.below, report=report) | dict(fault)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        *refused, last = report.read_text().splitlines()
        return Ended(
            ended.returncode, ended.stdout, ended.stderr, int(last.split()[1]), tuple(refused)
        )


def command(shim: Path, scratch: Path, name: str, journal: str, code: str = CLI) -> Command:
    return Command(shim, Bench(scratch, SCENARIOS[name], journal), scratch / "cache", code)


def points(shell: Command) -> int:
    """How many calls of `vaultmem index` may fail."""
    shell.bench.reset()
    return shell.run("index", fault=failing(NEVER, Failure.FULL, sticky=False)).calls


def index_violations(
    shell: Command, at: int, turn: tuple[Failure, bool]
) -> tuple[Ended, list[str]]:
    """How `vaultmem index` ends with that call failing, and what is not as promised then."""
    shell.bench.reset()
    ended = shell.run("index", fault=failing(at, turn[0], sticky=turn[1]))
    code = next((kind.code for kind in all_errors() if kind.exit_code == ended.code), "")
    found: list[str] = []
    if ended.code and (ended.out or ended.err.count("\n") != 1 or not code):
        found.append(f"exit code {ended.code}, {ended.out!r}, {ended.err!r}")
    outcome = Outcome(code, ended.code, ended.err if ended.code else "")
    found += shell.bench.violations(outcome, refused=bool(ended.refused))
    return ended, [f"call {at}, {turn[0].value}, {turn[1]}: {said}" for said in found]


def drawn(count: int, most: int) -> Iterator[tuple[int, tuple[Failure, bool]]]:
    """Points to fail at, each in one of the four ways."""
    some = sorted(random.Random(SEED).sample(range(1, count + 1), min(count, most)))
    for number, at in enumerate(some):
        yield at, TURNS[(number + SEED) % len(TURNS)]


@pytest.mark.parametrize(
    ("name", "journal"), [("first", "wal"), ("delta", "wal"), ("delta", "delete")]
)
def test_index_ends_with_the_code_of_the_error_one_line_and_nothing_lost(
    name: str, journal: str, shim: Path, tmp_path: Path
) -> None:
    shell = command(shim, tmp_path, name, journal)
    codes: list[int] = []
    for at, turn in drawn(points(shell), by_lane(fast=4, slow=NEVER)):
        ended, found = index_violations(shell, at, turn)
        assert found == []
        assert ended.refused
        codes.append(ended.code)
    assert set(codes) <= {0, 10, 13}
    assert {10, 13} <= set(codes)


# The files of a person, and of other programs


@pytest.mark.parametrize("turn", by_lane(fast=TURNS[::3], slow=TURNS), ids=str)
def test_connect_on_a_bad_disk_leaves_a_clients_file_whole_and_says_so(
    turn: tuple[Failure, bool], shim: Path, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, SCENARIOS["first"], "wal")
    shell = Command(shim, bench, tmp_path / "home")
    file = tmp_path / "home" / ".cursor" / "mcp.json"
    file.parent.mkdir(parents=True)
    before = '{"mcpServers": {"files": {"command": "npx"}}}\n'
    at, refused = 0, True
    while refused:
        at += 1
        file.write_text(before)
        ended = shell.run("connect", "cursor", "--yes", fault=failing(at, turn[0], sticky=turn[1]))
        refused = bool(ended.refused)
        assert ended.code in ((1, 16) if refused else (0,)), ended
        assert not refused or str(file) in ended.out + ended.err
        text = file.read_text()
        assert text == before or connected(text), text
        assert "files" in json.loads(text)["mcpServers"]
    assert at > 2


# Faults that these checks must find


def test_an_index_that_takes_no_notice_of_a_failed_commit_is_found(
    shim: Path, tmp_path: Path
) -> None:
    shell = command(shim, tmp_path, "delta", "wal", SWALLOWED + CLI)
    found: list[str] = []
    for at, turn in drawn(points(shell), by_lane(fast=4, slow=40)):
        found += index_violations(shell, at, turn)[1]
    assert any("the run was through by half" in said for said in found)


def test_a_file_that_is_cut_short_is_found(tmp_path: Path) -> None:
    writer = WRITERS["connect"]
    folder = tmp_path / "place"
    writer.before(folder)
    file = folder / "home" / ".cursor" / "mcp.json"
    file.write_text(file.read_text()[:40])
    assert torn(writer, folder)
