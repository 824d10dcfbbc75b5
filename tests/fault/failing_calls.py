"""Python's own calls that write or read files, of which the n-th below a folder fails.

A write that fails has written the first half of what it was given, as on a disk that fills up
meanwhile. SQLite writes without these: its file layer is failing_vfs.
"""

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from failing_vfs import Failure

ERRNO = {Failure.FULL: errno.ENOSPC, Failure.BROKEN: errno.EIO}

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass(slots=True)
class Calls:
    """The calls of this process; in order until they are told to fail."""

    below: str  # the folder that they are about
    reading: bool = False  # whether it is reading that fails, in place of writing
    failure: Failure = Failure.FULL
    sticky: bool = False  # whether every call after the one that failed fails too
    at: int = 0  # the call that fails, counted from 1; 0 for none
    calls: int = 0
    refused: int = 0
    nameless: int = 0  # of these, those whose error tells no full disk from a broken one: none
    made: list[tuple[str, str]] = field(default_factory=list)  # calls of a stretch, and their paths
    paths: dict[int, str] = field(default_factory=dict)  # of the descriptors that are open

    @contextmanager
    def failing(self, at: int, failure: Failure, *, sticky: bool) -> Iterator[None]:
        """Fail at the call of that number, counted from here."""
        self.failure, self.sticky, self.at = failure, sticky, at
        self.calls = self.refused = 0
        self.made.clear()
        try:
            yield
        finally:
            self.at = 0

    def fails(self, path: object, name: str) -> bool:
        """Count a call, if it is about the folder; whether it is to fail."""
        where = self.path(path)
        if not self.at or not (where + os.sep).startswith(self.below + os.sep):
            return False
        self.calls += 1
        self.made.append((name, where))
        if self.calls != self.at and not (self.sticky and self.calls > self.at):
            return False
        self.refused += 1
        return True

    def error(self, path: object) -> OSError:
        """What the system says of it."""
        number = ERRNO[self.failure]
        return OSError(number, os.strerror(number), self.path(path))

    def path(self, of: object) -> str:
        """The path of a descriptor, or of what names one."""
        if isinstance(of, int):
            return self.paths.get(of, "")
        return os.fsdecode(of) if isinstance(of, str | bytes | os.PathLike) else ""


class _File:
    """A file that is written to, each part of which may fail."""

    def __init__(self, inner: Any, calls: Calls, path: str) -> None:
        self._inner, self._calls, self._path = inner, calls, path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __enter__(self) -> "_File":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, content: Any) -> int:
        if self._calls.fails(self._path, "write"):
            self._inner.write(content[: len(content) // 2])
            self._inner.flush()
            raise self._calls.error(self._path)
        return int(self._inner.write(content))

    def flush(self) -> None:
        if self._calls.fails(self._path, "flush"):
            raise self._calls.error(self._path)
        self._inner.flush()

    def close(self) -> None:
        if not self._inner.closed:
            self._calls.paths.pop(self._inner.fileno(), None)
        self._inner.close()


@contextmanager
def failing_calls(below: Path, *, reading: bool = False) -> Iterator[Calls]:
    """Calls that may fail, of this process, about what lies in a folder."""
    calls = Calls(os.path.realpath(below), reading)
    with pytest.MonkeyPatch.context() as patch:
        _patch_descriptors(patch, calls)
        if not reading:
            _patch_files(patch, calls)
            for name in ("replace", "rename", "link", "unlink", "remove", "mkdir", "rmdir"):
                _patch_by_path(patch, calls, name)
        yield calls


def _patch_descriptors(patch: pytest.MonkeyPatch, calls: Calls) -> None:
    real_open, real_close, real_dup = os.open, os.close, os.dup

    def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        where = os.fsdecode(path)
        if dir_fd is not None:
            where = os.path.join(calls.path(dir_fd), where)
        if bool(flags & _WRITING) != calls.reading and calls.fails(where, "open"):
            raise calls.error(where)
        descriptor = real_open(path, flags, mode, dir_fd=dir_fd)
        calls.paths[descriptor] = where
        return descriptor

    def closed(descriptor: int) -> None:
        calls.paths.pop(descriptor, None)
        real_close(descriptor)

    def doubled(descriptor: int) -> int:
        calls.paths[double := real_dup(descriptor)] = calls.path(descriptor)
        return double

    patch.setattr(os, "open", opened)
    # (os.fwalk and the like ask for the function itself whether it takes dir_fd.)
    patch.setattr(os, "supports_dir_fd", os.supports_dir_fd | {opened})
    patch.setattr(os, "close", closed)
    patch.setattr(os, "dup", doubled)
    if calls.reading:
        _patch_by_descriptor(patch, calls, "read")
        return
    real_write = os.write

    def written(descriptor: int, content: bytes) -> int:
        if calls.fails(descriptor, "write"):
            # As Linux has it: what there was room for is written, and the next call fails.
            if len(content) > 1 and not calls.sticky:
                return real_write(descriptor, content[: len(content) // 2])
            raise calls.error(descriptor)
        return real_write(descriptor, content)

    patch.setattr(os, "write", written)
    for name in ("fsync", "ftruncate", "fchmod"):
        _patch_by_descriptor(patch, calls, name)


def _patch_by_descriptor(patch: pytest.MonkeyPatch, calls: Calls, name: str) -> None:
    real: Callable[..., Any] = getattr(os, name)

    def called(descriptor: int, *arguments: Any) -> Any:
        if calls.fails(descriptor, name):
            raise calls.error(descriptor)
        return real(descriptor, *arguments)

    patch.setattr(os, name, called)


def _patch_by_path(patch: pytest.MonkeyPatch, calls: Calls, name: str) -> None:
    real: Callable[..., Any] = getattr(os, name)

    def called(path: Any, *arguments: Any, **named: Any) -> Any:
        if calls.fails(path, name):
            raise calls.error(path)
        return real(path, *arguments, **named)

    patch.setattr(os, name, called)


def _patch_files(patch: pytest.MonkeyPatch, calls: Calls) -> None:
    real = io.open

    def opened(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        if not set(mode) & set("wax+"):
            return real(file, mode, *arguments, **named)
        path = calls.path(file)
        if not isinstance(file, int) and calls.fails(path, "open"):
            raise calls.error(path)
        made = real(file, mode, *arguments, **named)
        calls.paths[made.fileno()] = path  # for what is done to its descriptor: fsync
        return _File(made, calls, path)

    patch.setattr(io, "open", opened)
    patch.setattr(builtins, "open", opened)
