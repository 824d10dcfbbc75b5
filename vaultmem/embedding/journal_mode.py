"""Which journal SQLite may keep in a folder, and which one a database has.

A write-ahead log lets readers and a writer work at once, by memory that all processes share
(https://sqlite.org/wal.html). Where that is not to be trusted, a rollback journal takes its place:
it asks for nothing but locks, and readers wait while a commit is written.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import apsw

from vaultmem.embedding.file_system import FileSystem, file_system

Mode = Literal["wal", "delete"]  # as SQLite calls them: a write-ahead log, a rollback journal
Wish = Literal["auto", "wal", "delete"]

# Until then two checkpoints close together could lose a commit: https://sqlite.org/wal.html#walresetbug
_MENDED = (3, 51, 3)
_MENDED_EARLIER = ((3, 50, 7), (3, 44, 6))  # ... and in these lines

# What SQLite says where memory cannot be mapped from a file; and where there is no room for one.
_NO_SHARED_MEMORY = (
    apsw.SQLITE_IOERR_SHMOPEN,
    apsw.SQLITE_IOERR_SHMLOCK,
    apsw.SQLITE_IOERR_SHMMAP,
)
_NO_ROOM_TO_SHARE = apsw.SQLITE_IOERR_SHMSIZE

# Between two attempts to be alone with a database: seconds.
_PAUSE = 0.01

_MAGIC = b"SQLite format 3\0"
_FORMATS: dict[bytes, Mode] = {b"\1\1": "delete", b"\2\2": "wal"}


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal for the databases of a folder."""

    mode: Mode
    why: str  # "" for the usual one


def journal(folder: Path, wish: Wish = "auto") -> Journal:
    """The journal that is safe in a folder, or the one that was wished for."""
    return safe_journal(apsw.sqlite_lib_version(), file_system(folder), wish)


def safe_journal(version: str, place: FileSystem, wish: Wish = "auto") -> Journal:
    """The journal for a version of SQLite on a file system.

    Where nothing is known of the file system it counts as local.
    """
    if wish != "auto":
        return Journal(wish, "the setting sidecar.journal asks for it")
    if not wal_is_safe(version):
        return Journal("delete", f"SQLite {version} could lose a commit in a write-ahead log")
    if place.local is False:
        why = f"the cache folder lies on {place.name}, where a write-ahead log is not safe"
        return Journal("delete", why)
    return Journal("wal", "")


def journal_mode(folder: Path, wish: Wish = "auto") -> Mode:
    """What `journal` says, without the reason."""
    return journal(folder, wish).mode


def wal_is_safe(version: str) -> bool:
    """Whether several processes may use a write-ahead log at once with this SQLite."""
    numbers = tuple(int(part) for part in version.split("."))
    earlier = any(line[:2] == numbers[:2] and numbers >= line for line in _MENDED_EARLIER)
    return earlier or numbers >= _MENDED


def made_with(path: Path) -> Mode | None:
    """The journal that a file says its database has; None when it is no database.

    https://sqlite.org/fileformat.html#file_format_version_numbers
    """
    plain = next((name for name in apsw.vfs_names() if name in ("unix", "win32")), "")
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
    try:
        # Through SQLite: a file that we opened and closed ourselves would take with it every lock
        # that connections of this process hold on it, fcntl(2).
        file = apsw.VFSFile(plain, str(path), [flags, 0])
    except (apsw.CantOpenError, apsw.PermissionsError):
        return None
    try:
        head = file.xRead(20, 0)
    except apsw.IOError:
        return None  # a folder, or a disk that is broken: opening the database says which
    finally:
        file.xClose()
    return _FORMATS.get(head[18:20]) if head.startswith(_MAGIC) else None


def opens_log(path: Path) -> bool:
    """Whether SQLite would use a write-ahead log if it opened this database."""
    return made_with(path) == "wal" or holds_something(path, "-wal")


def is_whole(path: Path) -> bool:
    """Whether a database with a write-ahead log is all there without the files beside it.

    With a log it would lack what only the log holds; with a rollback journal it is half changed.
    """
    return not holds_something(path, "-wal") and not holds_something(path, "-journal")


def read_only_uri(path: Path) -> str:
    """How to open a database where nothing can be written.

    Without a log it needs none of the memory that others share, and no lock; a database with a
    rollback journal is read under a lock as everywhere, and not at all while one has to be undone.
    """
    immutable = made_with(path) == "wal" and is_whole(path)
    return f"{path.as_uri()}?mode=ro{'&immutable=1' if immutable else ''}"


def begin_journal(connection: apsw.Connection, mode: Mode) -> None:
    """Give a new database its journal; where there can be no log it keeps a rollback journal."""
    # To the end: apsw stops at a statement that returns a row until that row is taken.
    connection.execute(f"PRAGMA journal_mode = {mode}").fetchall()


def synchronise(connection: apsw.Connection) -> None:
    """Have commits wait for the disk as long as the journal needs to stay whole.

    A log is whole without more. A rollback journal must be on the disk before the database
    changes: with NORMAL a power failure could leave pages of two states, each with a checksum
    that fits (https://sqlite.org/pragma.html#pragma_synchronous).
    """
    has_log = connection.execute("PRAGMA journal_mode").get == "wal"
    connection.execute(f"PRAGMA synchronous = {'NORMAL' if has_log else 'FULL'}")


def leave_log(path: Path, seconds: float) -> None:
    """Give a database with a write-ahead log a rollback journal, keeping what is in the log.

    seconds: to wait for others who have it open.

    Without memory that is shared: who takes the database for itself first keeps its notes on the
    log to itself (https://sqlite.org/wal.html#noshm).
    Raises BusyError while others have it open, and ReadOnlyError and CantOpenError where nothing
    can be written.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            _leave_log(path)
        except apsw.BusyError:
            # Two who want it for themselves would wait for each other: each lets go.
            if time.monotonic() >= until:
                raise
        else:
            return
        time.sleep(_PAUSE)


def _leave_log(path: Path) -> None:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        if connection.readonly("main"):
            raise apsw.ReadOnlyError("attempt to write a readonly database")
        connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    finally:
        connection.close()


def lacks_shared_memory(error: apsw.Error) -> bool:
    """Whether a write-ahead log failed because no memory could be shared."""
    return getattr(error, "extendedresult", 0) in _NO_SHARED_MEMORY


def has_no_room_to_share(error: apsw.Error) -> bool:
    """Whether a write-ahead log failed because there is no room for the memory that it shares.

    Reading alone can do without, as long as nothing is in the log: see `read_only_uri`.
    """
    return getattr(error, "extendedresult", 0) == _NO_ROOM_TO_SHARE


def holds_something(path: Path, suffix: str) -> bool:
    """Whether the file that SQLite keeps beside a database under this suffix is not empty."""
    try:
        return path.with_name(path.name + suffix).lstat().st_size > 0
    except OSError:
        return False  # most of them come and go
