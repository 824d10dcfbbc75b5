"""A full disk and a broken one as the system itself tells of them, to whole processes.

What the file layer in Python cannot show is shown here: SQLite is told by the system's own error
numbers, keeps to itself what goes wrong at closing, and sqlite-vec has one name for all failures.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from failing_vfs import Failure
from io_files import connected
from io_runs import SCENARIOS, Bench, Outcome
from io_survey import SOME, TURNS, How, Survey
from lanes import SEED, SLOW, by_lane
from preload import compiled, failing, in_front

from vaultmem.model.errors import all_errors

JOURNALS = ("wal", "delete")
NEVER = 1 << 30

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
# Deliberate: a client's file that is cut before it is written.
IN_PLACE = """
from vaultmem.service import client_config_file
def put(file, content):
    with open(file.target, "wb") as opened:
        opened.write(content)
client_config_file._put = put
"""


@pytest.fixture(scope="module")
def shim() -> Iterator[Path]:
    with compiled() as library:
        yield library


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The caller's, without what steers vaultmem, and with modules found where they are here."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("VAULTMEM_", "FAULT_AT"))}
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | dict(extra)


# The shim itself

WRITE = "import os, sys; os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), b'0')"


def test_the_shim_strikes_below_its_folder_alone_wherever_temporary_files_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "a place"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    ended: list[int] = []
    with compiled() as library:
        for name in ("cache", "cache2"):
            file = tmp_path / name / "file"
            file.parent.mkdir()
            told = in_front(library, tmp_path / "cache") | failing(1, Failure.FULL, sticky=True)
            ended.append(
                subprocess.run(
                    [sys.executable, "-c", WRITE, str(file)],
                    env=environment(told),
                    capture_output=True,
                    check=False,
                ).returncode
            )
    assert ended == [1, 0]


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
    how: How = "every" if SLOW else "some"
    found = surveyed(shim, tmp_path, name, journal, how)
    assert found.violations == []
    assert found.points > 60
    assert found.runs >= (found.points if how == "every" else SOME)
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
    code: str

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
    refused = turn[0] if ended.refused else None
    # SQLite has a name of its own for a full disk only where a write met it, but to a log's index.
    nameless = any(
        "write" not in call.split()[0] or call.endswith("-shm") for call in ended.refused
    )
    found += shell.bench.violations(outcome, refused, nameless=nameless)
    return ended, [f"call {at}, {turn[0].value}, {turn[1]}: {said}" for said in found]


def drawn(count: int, most: int) -> Iterator[tuple[int, tuple[Failure, bool]]]:
    """Points to fail at, each in one of the four ways, in no order."""
    some = random.Random(SEED).sample(range(1, count + 1), min(count, most))
    for number, at in enumerate(some):
        yield at, TURNS[(number + SEED) % len(TURNS)]


@pytest.mark.parametrize(
    ("name", "journal"), [("first", "wal"), ("delta", "wal"), ("delta", "delete")]
)
def test_index_ends_with_the_code_of_the_error_one_line_and_nothing_lost(
    name: str, journal: str, shim: Path, tmp_path: Path
) -> None:
    shell = command(shim, tmp_path, name, journal)
    codes: set[int] = set()
    for at, turn in drawn(points(shell), by_lane(fast=40, slow=NEVER)):
        ended, found = index_violations(shell, at, turn)
        assert found == []
        assert ended.refused
        codes.add(ended.code)
        assert codes <= {0, 10, 13}
        if not SLOW and {10, 13} <= codes:
            break
    assert {10, 13} <= codes


# The files of a person, and of other programs

OTHERS = '{"mcpServers": {"files": {"command": "npx"}}}\n'


def home_command(shim: Path, scratch: Path, code: str = CLI) -> Command:
    """`vaultmem`, whose calls fail below the home folder."""
    return Command(shim, Bench(scratch, SCENARIOS["first"], "wal"), scratch / "home", code)


def connect_violations(
    shell: Command, at: int, turn: tuple[Failure, bool]
) -> tuple[bool, list[str]]:
    """Whether a call of `vaultmem connect` failed, and what is not as promised then."""
    file = shell.below / ".cursor" / "mcp.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(OTHERS)
    ended = shell.run("connect", "cursor", "--yes", fault=failing(at, turn[0], sticky=turn[1]))
    refused = bool(ended.refused)
    found: list[str] = []
    if ended.code not in ((1, 16) if refused else (0,)):
        found.append(f"exit code {ended.code}: {ended.err}")
    if refused and str(file) not in ended.out + ended.err:
        found.append(f"the message names no path: {ended.out}{ended.err}")
    text = file.read_text()
    try:
        whole = text == OTHERS or (connected(text) and "files" in json.loads(text)["mcpServers"])
    except (ValueError, LookupError):
        whole = False
    if not whole:
        found.append(f"a client's file is neither as it was nor as it was to be: {text!r}")
    return refused, [f"call {at}, {turn[0].value}, {turn[1]}: {said}" for said in found]


@pytest.mark.parametrize("turn", by_lane(fast=TURNS[::3], slow=TURNS), ids=str)
def test_connect_on_a_bad_disk_leaves_a_clients_file_whole_and_says_so(
    turn: tuple[Failure, bool], shim: Path, tmp_path: Path
) -> None:
    shell = home_command(shim, tmp_path)
    at, refused = 0, True
    while refused:
        at += 1
        refused, found = connect_violations(shell, at, turn)
        assert found == []
    assert at > 2


# Faults that these checks must find


def test_an_index_that_takes_no_notice_of_a_failed_commit_is_found(
    shim: Path, tmp_path: Path
) -> None:
    shell = command(shim, tmp_path, "delta", "wal", SWALLOWED + CLI)
    some = drawn(points(shell), 40)
    found = (said for at, turn in some for said in index_violations(shell, at, turn)[1])
    assert any("the run was through by half" in said for said in found)


def test_a_clients_file_that_is_written_in_place_is_found(shim: Path, tmp_path: Path) -> None:
    _, found = connect_violations(home_command(shim, tmp_path, IN_PLACE + CLI), 1, TURNS[0])
    assert any("neither as it was" in said for said in found)
