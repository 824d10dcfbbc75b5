"""What this process does to databases, step by step: told before each, to whoever counts them."""

import os
from collections.abc import Callable
from typing import Any

import apsw

Step = Callable[[str], None]

_NAME = "told"


def tell_steps(step: Step) -> apsw.VFS:
    """Have every statement, and every change of a database's files, told before it happens.

    step: called with what comes next, such as "COMMIT" or "write index.db-wal".

    Holds for the connections that are opened from here on, until the process ends; keep what is
    returned as long.
    """

    def before(cursor: object, statement: str, bindings: object) -> bool:
        words = statement.split(None, 1)
        if words:
            step(words[0].rstrip(";").upper())
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = before

    apsw.connection_hooks.append(watch)
    # Above whatever is in front now; pages have their checksums by a layer below.
    return _Told(step, apsw.vfs_names()[0])


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
