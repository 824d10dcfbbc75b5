"""SQLite's own file layer, which fails at the n-th call that changes anything on the disk.

It lies above whatever file layer is the usual one by then, so above the one that checks pages, and
goes by the numbers that SQLite itself would give: https://sqlite.org/rescode.html.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

import apsw

from vaultmem.index.store import driver


class Failure(Enum):
    """What the disk says."""

    FULL = "full"
    BROKEN = "broken"


# What SQLite makes of a broken disk at each call, and what of a full one where it is not FULL.
_BROKEN = {
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "delete": apsw.SQLITE_IOERR_DELETE,
    "open": apsw.SQLITE_CANTOPEN,
}
_FULL = {"open": apsw.SQLITE_CANTOPEN}


@dataclass(slots=True)
class Disk:
    """The disk that SQLite writes to; in order until it is told to fail."""

    failure: Failure = Failure.FULL
    sticky: bool = False  # whether every call after the one that failed fails too
    at: int = 0  # the call that fails, counted from 1; 0 for none
    calls: int = 0
    refused: int = 0
    nameless: int = 0  # of these, those whose error does not tell a full disk from a broken one

    @contextmanager
    def failing(self, at: int, failure: Failure, *, sticky: bool) -> Iterator[None]:
        """Fail at the call of that number, counted from here."""
        self.failure, self.sticky, self.at = failure, sticky, at
        self.calls = self.refused = self.nameless = 0
        try:
            yield
        finally:
            self.at = 0

    def asked(self, call: str) -> None:
        """Raise what SQLite is to be told of a call, or let it pass."""
        if not self.at:
            return
        self.calls += 1
        if self.calls != self.at and not (self.sticky and self.calls > self.at):
            return
        self.refused += 1
        code = _BROKEN[call]
        if self.failure is Failure.FULL:
            code = _FULL.get(call, apsw.SQLITE_FULL)
        self.nameless += code == apsw.SQLITE_CANTOPEN
        raise apsw.exception_for(code)


def _layer(name: str, base: str, disk: Disk, *, default: bool) -> apsw.VFS:
    class File(apsw.VFSFile):
        def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
            disk.asked("write")
            super().xWrite(data, offset)

        def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
            disk.asked("sync")  # (nobody cuts the power: what was written is there without it)

        def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
            disk.asked("truncate")
            super().xTruncate(newsize)

    class Layer(apsw.VFS):
        def __init__(self) -> None:
            super().__init__(name, base=base, makedefault=default)

        def xOpen(  # noqa: N802 - SQLite's name
            self, name: str | apsw.URIFilename | None, flags: list[int]
        ) -> apsw.VFSFile:
            if flags[0] & apsw.SQLITE_OPEN_CREATE:
                disk.asked("open")
            return File(base, name, flags)

        def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's name
            disk.asked("delete")
            super().xDelete(filename, syncdir)

    return Layer()


@contextmanager
def failing_disk() -> Iterator[Disk]:
    """A disk below every database that is opened meanwhile; close them all before it ends."""
    disk = Disk()
    driver()  # from here on the file layer that checks pages is there
    usual = apsw.vfs_names()[0]
    layer = _layer("failing", usual, disk, default=True)
    try:
        yield disk
    finally:
        layer.unregister()
