"""Kill a process at any one of the calls by which it changes what is on the disk.

A process with everything imported and nothing open forks; the child counts its calls and ends
itself with SIGKILL at the one it was told. Counted are the functions of `os` and of files that
change something, each statement of SQL that is no question, each commit, and below SQLite each
write, sync, truncation, creation and removal: most of them before, after, and a write also when
half of it is done. What is between two of these steps changes nothing on the disk.
"""

import builtins
import io
import os
import pickle
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import apsw
from audit import record_events
from watch import WRITING, Event

CHANGING = (
    "chmod", "fsync", "ftruncate", "link", "mkdir", "remove", "rename", "replace", "rmdir",
    "symlink", "truncate", "unlink", "utime", "write",
)  # fmt: skip

T = TypeVar("T")


class Steps:
    """The steps of one process, counted from 1."""

    def __init__(self, kill_at: int = 0) -> None:
        self.kinds: list[str] = []
        self._kill_at = kill_at  # 0 for never

    def reached(self, kind: str) -> bool:
        """Count a step; whether it is the one to end at."""
        self.kinds.append(kind)
        return len(self.kinds) == self._kill_at

    def step(self, kind: str) -> None:
        """Count a step, and end if it is the one."""
        if self.reached(kind):
            end()


def end() -> None:
    """Be gone, as by a power cut for this process alone."""
    os.kill(os.getpid(), signal.SIGKILL)


# Those of this process; there are none in the one that forks.
_steps: Steps | None = None


def _step(kind: str) -> None:
    if _steps is not None:
        _steps.step(kind)


# Functions of `os`, and files


def _counted(name: str, call: Callable[..., T]) -> Callable[..., T]:
    def counted(*arguments: Any, **named: Any) -> T:
        _step(f"os.{name} before")
        answer = call(*arguments, **named)
        _step(f"os.{name} after")
        return answer

    return counted


class _File:
    """A file open for writing, whose writes are counted."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        _step("file write before")
        if _steps is not None and _steps.reached("file write half"):
            self._file.write(data[: len(data) // 2])
            self._file.flush()
            end()
        written = int(self._file.write(data))
        self._file.flush()
        _step("file write after")
        return written

    def __enter__(self) -> "_File":
        self._file.__enter__()
        return self

    def __exit__(self, *what: object) -> None:
        self._file.__exit__(*what)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _unneeded(descriptor: object) -> None:
    """What a process wrote outlives it without; only a machine's end would tell."""


def _count_calls() -> None:
    """Count what this process does from here on; there is no way back."""
    for name in CHANGING:
        call = _unneeded if name == "fsync" else getattr(os, name)
        setattr(os, name, _counted(name, call))
    open_descriptor, open_file = os.open, io.open

    def counted_descriptor(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if not flags & WRITING:
            return open_descriptor(path, flags, *more, **named)
        _step("os.open before")
        descriptor = open_descriptor(path, flags, *more, **named)
        _step("os.open after")
        return descriptor

    def counted_file(file: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
        if not set(mode) & set("wax+"):
            return open_file(file, mode, *more, **named)
        kind = "fdopen" if isinstance(file, int) else "open"
        _step(f"{kind} before")
        opened = _File(open_file(file, mode, *more, **named))
        _step(f"{kind} after")
        return opened

    os.open = counted_descriptor
    io.open = counted_file
    builtins.open = counted_file


# SQL


def _count_statements(connection: apsw.Connection) -> None:
    """Count the statements of a connection, as apsw's hook for new ones calls it."""
    if _steps is None:
        return

    def before(cursor: object, statement: str, bindings: object) -> bool:
        if _steps is not None and _changes(statement):
            verb = _verb(statement)
            _steps.step(f"sql {verb} before")
            if _steps.reached(f"sql {verb} after"):
                end_after(statement)
        return True

    def end_after(statement: str) -> None:
        def after(event: dict[str, Any]) -> None:
            # (The full-text index runs statements of its own.)
            if event["sql"].strip() == statement.strip():
                end()

        # Only now: that is called for each of the full-text index's own statements too.
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, after)

    def commit() -> bool:
        _step("sql commit before")
        return False

    connection.exec_trace = before
    connection.set_commit_hook(commit)


def _verb(statement: str) -> str:
    return statement.split(None, 1)[0].rstrip(";").upper()


def _changes(statement: str) -> bool:
    return bool(statement.strip()) and _verb(statement) not in ("SELECT", "WITH")


# What SQLite does to its files

_NAMES = {
    apsw.SQLITE_OPEN_MAIN_DB: "db",
    apsw.SQLITE_OPEN_WAL: "wal",
    apsw.SQLITE_OPEN_MAIN_JOURNAL: "journal",
}


class _DiskFile(apsw.VFSFile):
    def __init__(self, name: "str | apsw.URIFilename | None", flags: list[int]) -> None:
        self._kind = next((n for flag, n in _NAMES.items() if flags[0] & flag), "other")
        super().__init__(_BASE, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        _step(f"{self._kind} write before")
        if _steps is not None and _steps.reached(f"{self._kind} write half"):
            super().xWrite(data[: len(data) // 2], offset)
            end()
        super().xWrite(data, offset)
        _step(f"{self._kind} write after")

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        # Not done, as os.fsync is not: the tests take half the time.
        _step(f"{self._kind} sync before")

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        _step(f"{self._kind} truncate before")
        super().xTruncate(newsize)
        _step(f"{self._kind} truncate after")


class _Disk(apsw.VFS):
    def __init__(self) -> None:
        super().__init__("counted", base=_BASE, makedefault=True)

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: "str | apsw.URIFilename | None", flags: list[int]
    ) -> apsw.VFSFile:
        creates = bool(flags[0] & apsw.SQLITE_OPEN_CREATE)
        if creates:
            _step("disk open before")
        file = _DiskFile(name, flags)
        if creates:
            _step("disk open after")
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's name
        _step("disk delete before")
        super().xDelete(filename, syncdir)
        _step("disk delete after")


_BASE = "unix"
_kept: list[apsw.VFS] = []


def prepare() -> None:
    """Make this process one that can fork children whose calls are counted.

    The layer that counts lies below the one that checks pages, where a write is what it is on the
    disk, checksum and all; so it has to be there first.
    """
    assert apsw.vfs_names()[0] == _BASE, "another file layer is in front already"
    _kept.append(_Disk())
    apsw.connection_hooks.append(_count_statements)
    connection = apsw.Connection(":memory:")
    try:
        connection.enable_load_extension(True)
        connection.load_extension(
            str(Path(apsw.__file__).with_name("sqlite_extra_binaries") / "cksumvfs")
        )
    finally:
        connection.close()
    assert apsw.vfs_names()[0] == "cksmvfs"


# Forking


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended."""

    killed: bool
    answer: Any = None  # what the work returned; None when it was killed, or raised
    error: str = ""  # what it raised


def in_child(work: Callable[[], object]) -> Ended:
    """Do something in a fork of this process, uncounted."""
    return _forked(work, None)


def counted_in_child(work: Callable[[], object], steps: Steps) -> Ended:
    """Do something in a fork whose steps are counted."""
    return _forked(work, steps)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A whole run's steps."""

    kinds: list[str]
    heard: int  # changes that an audit hook heard of
    missed: dict[str, int]  # what of these nobody counted -> how often


def record(work: Callable[[], object]) -> Recorded:
    """The steps that some work takes, in their order.

    Raises RuntimeError when the work fails, and when the audit hook that the count is held
    against hears of nothing.
    """

    def counted() -> Recorded:
        events = record_events()
        work()
        assert _steps is not None
        return Recorded(_steps.kinds, len(events), _missed(events, _steps.kinds))

    ended = _forked(counted, Steps())
    if ended.error:
        raise RuntimeError(ended.error)
    recorded: Recorded = ended.answer
    if not recorded.heard:
        raise RuntimeError("The audit hook heard of no change, so it would not hear of any.")
    return recorded


# By the names of the audit events.
_HEARD = {
    "open": ("open", "os.open"),
    "os.remove": ("os.remove", "os.unlink"),
    "os.rename": ("os.rename", "os.replace"),
}


def _missed(events: list[Event], kinds: list[str]) -> dict[str, int]:
    counted = Counter(kind.removesuffix(" before") for kind in kinds)
    heard = Counter(event.name for event in events)
    known = {name: sum(counted[one] for one in _HEARD.get(name, (name,))) for name in heard}
    return {name: heard[name] - known[name] for name in heard if heard[name] != known[name]}


def _forked(work: Callable[[], object], steps: Steps | None) -> Ended:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work_in_child(work, steps, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return Ended(killed=os.WTERMSIG(status) == signal.SIGKILL, error=f"ended by {status}")
    answer, error = pickle.loads(said)
    return Ended(killed=False, answer=answer, error=error)


def _work_in_child(work: Callable[[], object], steps: Steps | None, writing: int) -> None:
    """Never returns: what comes after the fork is the parent's."""
    global _steps
    write, leave = os.write, os._exit
    answer: object = None
    error = ""
    try:
        if steps is not None:
            _count_calls()
            _steps = steps
        answer = work()
    except BaseException:  # noqa: BLE001 - it is told to the parent, which says so
        import traceback

        error = traceback.format_exc()
    try:
        said = pickle.dumps((answer, error))
        while said:
            said = said[write(writing, said) :]
    finally:
        leave(0)
