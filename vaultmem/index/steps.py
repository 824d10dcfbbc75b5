"""What this process does to databases, step by step: told before each, to whoever counts them."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

Step = Callable[[str], None]

_NAME = "told"
_PLAIN = ("unix", "win32")
_READS = ("SELECT", "WITH")


def tell_steps(step: Step) -> apsw.VFS:
    """Have statements that may change something, and each write to a file, told before.

    step: called with what comes next, such as "COMMIT" or "write index.db-wal".

    Holds for the connections that are opened from here on, until the process ends; keep what is
    returned as long. Nothing may have opened one yet.
    """

    def before(cursor: object, statement: str, bindings: object) -> bool:
        words = statement.split(None, 1)
        verb = words[0].rstrip(";").upper() if words else ""
        if verb and verb not in _READS:
            step(verb)
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = before

    apsw.connection_hooks.append(watch)
    layer = _Told(step, next(name for name in apsw.vfs_names() if name in _PLAIN))
    _check_pages_above()
    return layer


def _check_pages_above() -> None:
    """Put the layer that gives pages their checksums above ours, as the store does elsewhere.

    It puts them into SQLite's own copy of a page, which no layer in between may copy.
    """
    connection = apsw.Connection(":memory:")
    try:
        # Where there are no extensions, the store has no such layer either.
        with suppress(AttributeError, apsw.Error, OSError):
            connection.enable_load_extension(True)
            folder = Path(apsw.__file__).with_name("sqlite_extra_binaries")
            connection.load_extension(str(folder / "cksumvfs"))
    finally:
        connection.close()


class _Told(apsw.VFS):
    """The file layer there is, with each change told before."""

    def __init__(self, step: Step, base: str) -> None:
        self._step, self._base = step, base
        super().__init__(_NAME, base=base, makedefault=True)

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: "str | apsw.URIFilename | None", flags: list[int]
    ) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        short = os.path.basename(path or "a temporary file")
        if flags[0] & apsw.SQLITE_OPEN_CREATE:
            self._step(f"open {short}")
        return _ToldFile(self._step, short, self._base, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's name
        self._step(f"delete {os.path.basename(filename)}")
        super().xDelete(filename, syncdir)


class _ToldFile(apsw.VFSFile):
    def __init__(self, step: Step, short: str, *opened: Any) -> None:
        self._step, self._short = step, short
        super().__init__(*opened)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        self._step(f"write {self._short}")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        self._step(f"sync {self._short}")
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        self._step(f"truncate {self._short}")
        super().xTruncate(newsize)
