"""The sidecar file: opening, fingerprint, transactions, and what its failures mean."""

import errno
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from vaultmem.index.schema import LATE_INDEXES, VERSIONS, create_statements
from vaultmem.model.errors import (
    DiskFull,
    SidecarBusy,
    SidecarDamaged,
    SidecarUnavailable,
)

SIDECAR_NAME = "index.db"
BUSY_TIMEOUT_MS = 10_000

# Read by backup programs: what lies here can be made again.
_CACHEDIR_TAG = (
    b"Signature: 8a477f597d28d172789f06886806bc55\n"
    b"# This folder holds vaultmem's rebuildable index. Deleting it costs time, never knowledge.\n"
)

_PRAGMAS = """
PRAGMA page_size = 8192;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA foreign_keys = ON;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -32768;
PRAGMA mmap_size = 268435456;
PRAGMA journal_size_limit = 67108864;
PRAGMA trusted_schema = OFF;
PRAGMA secure_delete = ON;
"""


class Sidecar:
    """An open index.db. One connection, used by one thread at a time."""

    def __init__(self, path: Path, connection: apsw.Connection) -> None:
        self.path = path
        self.connection = connection
        self.inode = path.stat().st_ino
        self._batch_size = 1
        self._waiting = 0  # weight that the next commit makes durable

    @contextmanager
    def transaction(self, *, weight: int = 1) -> Iterator[apsw.Connection]:
        """All or nothing. IMMEDIATE, since a read snapshot cannot be promoted to a writer.

        weight: how much of a batch it fills.

        Inside `batch` it becomes durable with the others of its batch, and fails with them: a
        savepoint would make the full-text index write itself out each time, which is the very
        cost that batches avoid.
        """
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield self.connection
        except BaseException:
            # SQLite may have rolled back by itself when the disk was full.
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            self._waiting = 0
            raise
        self._waiting += weight
        if self._waiting >= self._batch_size:
            self._commit()

    @contextmanager
    def batch(self, size: int) -> Iterator[None]:
        """Commit transactions of `size` weight together; those that are whole survive any exit."""
        self._batch_size = size
        try:
            yield
        finally:
            self._batch_size = 1
            if self.connection.in_transaction:
                self._commit()

    def _commit(self) -> None:
        self._waiting = 0
        try:
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    def begin_reading(self) -> None:
        """From here to `end_reading` every statement sees one state of the index."""
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN")

    def end_reading(self) -> None:
        """Let go of that state: an open one keeps the write-ahead log from being reset."""
        if self.connection.in_transaction:
            self.connection.execute("COMMIT")

    def meta(self, key: str) -> str | None:
        """A value of the `meta` table."""
        value = self.connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).get
        return value if isinstance(value, str) else None

    def made_by(self, fingerprint: str) -> bool:
        """Whether these rules made it, and it is still the file in the folder."""
        try:
            present = self.path.stat()
        except OSError:
            return False
        return present.st_ino == self.inode and self.meta("fingerprint") == full_fingerprint(
            fingerprint
        )

    def set_meta(self, key: str, value: str) -> None:
        """Write a value of the `meta` table; inside or outside a transaction."""
        self.connection.execute(
            "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value)
        )

    def finish_indexes(self) -> None:
        """Make the indexes that a first build went without; quick when they are there."""
        with self.transaction():
            self.connection.execute(LATE_INDEXES)

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self.connection.close()

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file, so that deleted words leave the disk too."""
        try:
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except apsw.BusyError:
            return  # a reader is at work; SQLite does it at a later commit

    def quick_check(self) -> str:
        """SQLite's own opinion of the file: "ok", or what is wrong."""
        return str(self.connection.execute("PRAGMA quick_check(1)").get)


def open_existing(folder: Path, fingerprint: str) -> Sidecar | None:
    """The sidecar in `folder`; None when there is none, or it was made under other rules."""
    sidecar = _opened(folder)
    if sidecar is None or sidecar.meta("fingerprint") == full_fingerprint(fingerprint):
        return sidecar
    sidecar.close()
    return None


def stored_meta(folder: Path, key: str) -> str | None:
    """A value of the `meta` table of whatever sidecar lies in `folder`, under any rules."""
    sidecar = _opened(folder)
    if sidecar is None:
        return None
    try:
        return sidecar.meta(key)
    finally:
        sidecar.close()


def _opened(folder: Path) -> Sidecar | None:
    """What lies in `folder`, made under any rules.

    A file that is no database, or not ours, counts as none: it is rebuilt, never trusted.
    """
    path = folder / SIDECAR_NAME
    if not path.is_file():
        return None
    connection: apsw.Connection | None = None
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        sidecar = Sidecar(path, _prepared(connection))
        sidecar.meta("fingerprint")  # fails where there is no such table
    except (apsw.NotADBError, apsw.CorruptError, apsw.SQLError):
        if connection is not None:
            connection.close()
        return None
    return sidecar


def create(folder: Path, fingerprint: str) -> Sidecar:
    """A new, empty sidecar in `folder`; an older one is removed first. Hold the writer lock."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        (folder / (SIDECAR_NAME + suffix)).unlink(missing_ok=True)
    path = folder / SIDECAR_NAME
    connection = apsw.Connection(str(path))
    sidecar = Sidecar(path, _prepared(connection))
    with sidecar.transaction():
        for statement in create_statements():
            connection.execute(statement)
        sidecar.set_meta("fingerprint", full_fingerprint(fingerprint))
    return sidecar


def full_fingerprint(rules: str) -> str:
    """What a sidecar must have been made with: this code, SQLite, Unicode's tables, the rules."""
    # A row is taken out by making it again, so whatever makes rows has to be the same.
    return (
        f"{VERSIONS}; SQLite {apsw.sqlite_lib_version()}; "
        f"Unicode {unicodedata.unidata_version}; {rules}"
    )


def _prepared(connection: apsw.Connection) -> apsw.Connection:
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    # To the end: apsw stops at a statement that returns a row until that row is taken.
    connection.execute(_PRAGMAS).fetchall()
    return connection


def make_folder(folder: Path) -> None:
    """Create the sidecar's folder and mark it as a cache."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)  # it holds the notes' text
    tag = folder / "CACHEDIR.TAG"
    if not tag.exists():
        tag.write_bytes(_CACHEDIR_TAG)


@contextmanager
def sidecar_errors(folder: Path) -> Iterator[None]:
    """Turn the failures of SQLite and of the file system into vaultmem's own errors."""
    try:
        yield
    except apsw.FullError:
        raise _full(folder) from None
    except apsw.IOError as error:
        if _no_space(folder):
            raise _full(folder) from None
        raise SidecarUnavailable(
            f"The sidecar in {folder} cannot be read or written ({error}). Check the disk, or put "
            "it elsewhere with --cache-dir."
        ) from None
    except (apsw.BusyError, apsw.LockedError):
        raise SidecarBusy(
            f"The sidecar in {folder} was busy for {BUSY_TIMEOUT_MS // 1000} s. Try again."
        ) from None
    except (apsw.NotADBError, apsw.CorruptError, apsw.SQLError):
        raise SidecarDamaged(
            f"The sidecar in {folder} is damaged. `vaultmem index --rebuild` makes it anew; "
            "no note is affected."
        ) from None
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError):
        raise _unavailable(folder, "it cannot be opened for writing") from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(folder) from None
        raise _unavailable(folder, error.strerror or type(error).__name__) from None


def _full(folder: Path) -> DiskFull:
    return DiskFull(
        f"The disk is full: the sidecar in {folder} could not grow. What was indexed so far is "
        "kept. Free some room, or choose another place with --cache-dir, and run it again."
    )


def _unavailable(folder: Path, reason: str) -> SidecarUnavailable:
    return SidecarUnavailable(
        f"The cache folder {folder} cannot be used: {reason}. Choose another one with --cache-dir "
        "or VAULTMEM_CACHE_DIR."
    )


def _no_space(folder: Path) -> bool:
    """Whether the file system has next to nothing left (an I/O error may hide a full disk)."""
    import shutil

    try:
        return shutil.disk_usage(folder).free < 1 << 16
    except OSError:
        return False


def driver() -> tuple[str, bool, bool]:
    """(SQLite's version, whether it has FTS5, whether WAL is safe with several processes).

    Before 3.51.3 two checkpoints close together could lose a commit.
    """
    version = apsw.sqlite_lib_version()
    numbers = tuple(int(part) for part in version.split("."))
    return version, "ENABLE_FTS5" in apsw.compile_options, numbers >= (3, 51, 3)
