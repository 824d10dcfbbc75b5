"""A child process whose calls to write fail: the shim, compiled, and how it is loaded."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EIO, ENOSPC
from pathlib import Path

import pytest
from failing_vfs import Failure
from lanes import SLOW

_SOURCE = Path(__file__).with_name("shim.c")
ERRNO = {Failure.FULL: ENOSPC, Failure.BROKEN: EIO}


@contextmanager
def compiled() -> Iterator[Path]:
    """The shim as a library; skips where none can be made or loaded, fails in the slow lane."""
    missing = pytest.fail if SLOW else pytest.skip
    if sys.platform != "linux":
        missing("only Linux says by /proc/self/fd which file a call is about")
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        missing("there is no C compiler")
    # The loader splits LD_PRELOAD at spaces and colons, and there is no way to quote one.
    plain = "/tmp" if re.search(r"[\s:]", tempfile.gettempdir()) else None
    with tempfile.TemporaryDirectory(prefix="vaultmem-shim-", dir=plain) as folder:
        library = Path(folder) / "shim.so"
        made = subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", library, _SOURCE, "-ldl"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr
        yield library


def in_front(library: Path, below: Path, *, report: Path | None = None) -> dict[str, str]:
    """What a child process needs in its environment so that its calls may fail below a folder."""
    told = {"LD_PRELOAD": str(library), "FAULT_BELOW": os.path.realpath(below)}
    return told | ({"FAULT_REPORT": str(report)} if report is not None else {})


def failing(at: int, failure: Failure, *, sticky: bool) -> dict[str, str]:
    """... and so that the n-th of them does."""
    return {
        "FAULT_AT": str(at),
        "FAULT_ERRNO": str(ERRNO[failure]),
        "FAULT_STICKY": str(int(sticky)),
    }


class Shim:
    """The shim from within a process that it was loaded into."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.fault_arm.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_int)
        self._counters = tuple(
            getattr(self._library, f"fault_{name}") for name in ("calls", "refused", "nameless")
        )
        for counter in self._counters:
            counter.restype = ctypes.c_long

    @contextmanager
    def failing(self, at: int, failure: Failure, *, sticky: bool) -> Iterator[None]:
        """Fail at the call of that number, counted from here."""
        self._library.fault_arm(at, ERRNO[failure], int(sticky))
        try:
            yield
            # As they were, whatever is called below.
            self._counts = [int(counter()) for counter in self._counters]
        finally:
            self._library.fault_arm(0, 0, 0)

    @property
    def calls(self) -> int:
        """How many calls there were in the last stretch that could fail."""
        return self._counts[0]

    @property
    def refused(self) -> int:
        """How many of them failed."""
        return self._counts[1]

    @property
    def nameless(self) -> int:
        """Of these, those whose error does not tell a full disk from a broken one."""
        return self._counts[2]
