"""Runs vaultmem the way a shell does: as a child process, with its own home and cache."""

import ctypes
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from warm_start import Process, WarmProcess, may_start_warm, run_warm

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLE = REPOSITORY / "sample_vault"
MODULE = (sys.executable, "-m", "vaultmem")
# The same with a clock that goes a hundred times as fast while it waits for a lock that nobody lets
# go of.
IMPATIENT = (
    sys.executable,
    "-c",
    """
import sys, time
from types import SimpleNamespace
from vaultmem.index import lock
from vaultmem.surfaces.cli import main

lock.time = SimpleNamespace(
    monotonic=lambda: 100 * time.monotonic(), sleep=lambda seconds: time.sleep(seconds / 100)
)
sys.exit(main())
""",
)
SECONDS = 120.0

# Commands that answer about a vault, each with arguments that fit the sample vault.
VAULT_COMMANDS: dict[str, tuple[str, ...]] = {
    "index": ("index",),
    "search": ("search", "too", "many", "clients"),
    "read": ("read", "Decisions/ADR-0007 Transaction pooling with PgBouncer.md"),
    "links": ("links", "Projects/Tern/Tern.md"),
    "lint": ("lint",),
    "status": ("status",),
    "why": ("why", "Inbox/Call with the UPS vendor.md"),
    "doctor": ("doctor",),
    "config": ("config",),
    "eval": ("eval", str(REPOSITORY / "tests" / "data" / "sample_questions.jsonl")),
}

_DAC_OVERRIDE, _DAC_READ_SEARCH = 1, 2  # linux/capability.h
_PR_CAPBSET_DROP = 24  # linux/prctl.h


@dataclass(frozen=True, slots=True)
class Ended:
    """A child process that has come to its end."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """The one JSON value on stdout; fails when there is anything else."""
        return json.loads(self.out)


class CommandLine:
    """A vault, and a shell whose home, cache and temporary folder lie in one scratch folder."""

    def __init__(self, scratch: Path, vault: Path) -> None:
        self.vault = vault
        self.home = scratch / "home"
        self.cache = scratch / "cache"
        self.temporary = scratch / "temporary"
        self.elsewhere = scratch / "elsewhere"
        for folder in (self.home, self.temporary, self.elsewhere):
            folder.mkdir(parents=True)

    def environment(self, changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
        """The caller's environment without what steers vaultmem or Python's output."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("VAULTMEM_", "XDG_", "LC_"))
            and name not in ("PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONUTF8", "LANG")
        }
        wanted: dict[str, str | None] = {
            "HOME": str(self.home),
            "USERPROFILE": str(self.home),
            "LOCALAPPDATA": str(self.home),
            "TMPDIR": str(self.temporary),
            "TEMP": str(self.temporary),
            "TMP": str(self.temporary),
            "VAULTMEM_VAULT": str(self.vault),
            "VAULTMEM_CACHE_DIR": str(self.cache),
            # Vectors only where a test is about them: embedding the sample vault takes seconds.
            "VAULTMEM_EMBEDDER_NAME": "none",
            **(changes or {}),
        }
        kept = {name: value for name, value in kept.items() if name not in wanted}
        return kept | {name: value for name, value in wanted.items() if value is not None}

    def run(
        self,
        *arguments: str | bytes,
        environment: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
        stdout: int = subprocess.PIPE,
        preexec_fn: Callable[[], None] | None = None,
        python: tuple[str, ...] | None = None,
    ) -> Ended:
        """Run one command. stdout and stderr must be UTF-8, whatever the locale.

        python: what is started, if it matters how; by default a process that has a warm start.
        """
        place, variables = cwd or self.elsewhere, self.environment(environment)
        if python is None and preexec_fn is None and may_start_warm(variables):
            ended = run_warm(
                arguments, cwd=place, environment=variables, stdout=stdout, seconds=SECONDS
            )
        else:
            ended = subprocess.run(
                [*(python or MODULE), *arguments],
                cwd=place,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
                preexec_fn=preexec_fn,
                timeout=SECONDS,
                check=False,
            )
        out = ended.stdout.decode("utf-8") if ended.stdout is not None else ""
        return Ended(ended.returncode, _newlines(out), _newlines(ended.stderr.decode("utf-8")))

    @contextmanager
    def started(
        self,
        *arguments: str,
        environment: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        stderr: int = subprocess.PIPE,
        encoding: str | None = None,
        preexec_fn: Callable[[], None] | None = None,
        python: Sequence[str] | None = None,
    ) -> Iterator[Process]:
        """Start a command that runs beside the test, with stdout to be read from a pipe.

        python: as for `run`. encoding: of the pipes; None for bytes.
        """
        place, variables = cwd or self.elsewhere, self.environment(environment)
        process: WarmProcess | subprocess.Popen[Any]
        if python is None and preexec_fn is None and may_start_warm(variables):
            process = WarmProcess(
                arguments,
                cwd=place,
                environment=variables,
                stdin=stdin,
                stderr=stderr,
                encoding=encoding,
            )
        else:
            process = subprocess.Popen(
                [*(python or MODULE), *arguments],
                cwd=place,
                env=variables,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                encoding=encoding,
                preexec_fn=preexec_fn,
            )
        with process:
            yield process

    def reply(self, *arguments: str, **options: Any) -> Any:
        """Run one command with --json and give its value; lint and doctor may end with 1."""
        ended = self.run(*arguments, "--json", **options)
        assert ended.code in (0, 1), ended
        return ended.json()

    def paths(self, *arguments: str, **options: Any) -> list[str]:
        """The paths that a search finds, best first."""
        return [hit["path"] for hit in self.reply("search", *arguments, **options)["hits"]]


def on_sample(scratch: Path) -> CommandLine:
    """A command line on a copy of the sample vault."""
    vault = scratch / "Sample vault"
    copytree(SAMPLE, vault)
    return CommandLine(scratch, vault)


def on_notes(scratch: Path, notes: Mapping[str, str]) -> CommandLine:
    """A command line on a vault of these notes: path -> text."""
    vault = scratch / "Notes"
    write_notes(vault, notes)
    return CommandLine(scratch, vault)


def write_notes(vault: Path, notes: Mapping[str, str]) -> None:
    """Write notes, making the folders they need."""
    vault.mkdir(parents=True, exist_ok=True)
    for path, text in notes.items():
        file = vault / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode("utf-8"))


def listing(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything about everything in a folder: bytes and lstat, all but the time of access."""
    seen: dict[str, tuple[object, ...]] = {}
    for root, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            path = os.path.join(root, name)
            state = os.lstat(path)
            digest = ""
            if stat.S_ISREG(state.st_mode):
                digest = sha256(Path(path).read_bytes()).hexdigest()
            seen[os.path.relpath(path, folder)] = (
                digest,
                state.st_mode,
                state.st_ino,
                state.st_nlink,
                state.st_uid,
                state.st_gid,
                state.st_size,
                state.st_mtime_ns,
                state.st_ctime_ns,
            )
    return seen


def obeying_permissions() -> Callable[[], None] | None:
    """A `preexec_fn` under which file permissions hold for the child, even when root runs it.

    Another user id would do the same, but often cannot reach the Python that runs the tests; so
    root gives up its two capabilities to ignore permissions instead.
    """
    if sys.platform == "win32":
        pytest.skip("Windows folders have no permission bits to take away")
    if os.geteuid() != 0:
        return None
    if sys.platform != "linux":
        pytest.skip("root ignores permissions here, and cannot give that up for one child")
    libc = ctypes.CDLL(None, use_errno=True)

    def give_up() -> None:
        for capability in (_DAC_OVERRIDE, _DAC_READ_SEARCH):
            if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "cannot give up a capability")

    return give_up


def assert_one_line_error(ended: Ended, code: int, *named: str) -> None:
    """The command failed as it should: its own code, one line that names the thing, no answer."""
    assert "Traceback" not in ended.err, ended.err
    assert ended.code == code, ended
    assert ended.out == ""
    assert ended.err.startswith("vaultmem"), ended.err
    assert ended.err.endswith("\n"), ended.err
    assert ended.err.count("\n") == 1, ended.err
    for part in named:
        assert part in ended.err, ended.err


def misfits(value: object, shape: object, at: str = "reply") -> list[str]:
    """Where a JSON value departs from its shape; [] when it fits. Keys beyond those are fine.

    shape: a type, a tuple of alternatives (None among them), {key: shape}, or [shape of parts].
    """
    if isinstance(shape, tuple):
        answers = [misfits(value, alternative, at) for alternative in shape]
        return [] if [] in answers else answers[-1]
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return [f"{at} is no object"]
        wrong = [f"{at}.{key} is missing" for key in shape if key not in value]
        for key, part in shape.items():
            if key in value:
                wrong += misfits(value[key], part, f"{at}.{key}")
        return wrong
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{at} is no list"]
        return [
            wrong
            for number, part in enumerate(value)
            for wrong in misfits(part, shape[0], f"{at}[{number}]")
        ]
    fits = value is None if shape is None else type(value) is shape
    return [] if fits else [f"{at} is {value!r}, not {shape}"]


def _newlines(text: str) -> str:
    return text.replace("\r\n", "\n") if sys.platform == "win32" else text
