"""The sidecar file: opening, fingerprint, transactions, and what its failures mean."""

import errno
import os
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from vaultmem.embedding.journal_mode import (
    Mode,
    Wish,
    begin_journal,
    has_no_room_to_share,
    holds_something,
    is_whole,
    journal_mode,
    lacks_shared_memory,
    opens_log,
    read_only_uri,
    synchronise,
    wal_is_safe,
)
from vaultmem.index.schema import LATE_INDEXES, VERSIONS, create_statements
from vaultmem.model.errors import (
    DiskFull,
    SidecarBusy,
    SidecarDamaged,
    SidecarUnavailable,
)

SIDECAR_NAME = "index.db"
_NEW_NAME = "index.db.new"  # until it is put in place
BUSY_TIMEOUT_MS = 10_000
_CHECKPOINT_MS = 100

# SQLite's companions of the file: they live and go with it.
_SUFFIXES = ("", "-wal", "-shm", "-journal")

# Read by backup programs: what lies here can be made again.
_CACHEDIR_TAG = (
    b"Signature: 8a477f597d28d172789f06886806bc55\n"
    b"# This folder holds vaultmem's rebuildable index. Deleting it costs time, never knowledge.\n"
)

# A file system that answers for every page: SQLite's checksum VFS, which apsw brings along.
_CHECKED = "cksmvfs"
_PLAIN = ("unix", "win32")
_CHECKSUM_BYTES = 8  # at the end of each page

# No mmap: it would read past the checksums, and a file that others cut short would end us.
_CACHE_KIBIBYTES = 32_768
_PRAGMAS = f"""
PRAGMA foreign_keys = ON;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -{_CACHE_KIBIBYTES};
PRAGMA journal_size_limit = 67108864;
PRAGMA trusted_schema = OFF;
PRAGMA secure_delete = ON;
"""


class Sidecar:
    """An open index.db. One connection, used by one thread at a time."""

    def __init__(
        self,
        path: Path,
        connection: apsw.Connection,
        opened_as: os.stat_result,
        *,
        read_only: bool = False,
    ) -> None:
        self.path = path
        self.connection = connection
        self.read_only = read_only  # the place where it lies cannot be written
        # Taken before it was opened: if another took its place meanwhile, it is the other's.
        self._opened_as = opened_as
        self._token = object()
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
        return self.still_there() and self.meta("fingerprint") == full_fingerprint(fingerprint)

    def still_there(self) -> bool:
        """Whether it is the file in the folder: it may be replaced at any time."""
        try:
            present = self.path.lstat()
        except OSError:
            return False
        if self.read_only and _look(present) != _look(self._opened_as):
            return False  # nothing but a new connection sees what others write
        return present.st_ino == self._opened_as.st_ino

    def state(self) -> tuple[object, object]:
        """Something that is another one once another process has changed the sidecar."""
        return self._token, self.connection.execute("PRAGMA data_version").get

    def set_meta(self, key: str, value: str | None) -> None:
        """Write a value of the `meta` table, None for none; inside or outside a transaction."""
        if value is None:
            self.connection.execute("DELETE FROM meta WHERE key = ?", (key,))
            return
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
        # Whoever reads is waited for, and whoever writes waits for us meanwhile.
        self.connection.set_busy_timeout(_CHECKPOINT_MS)
        try:
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except apsw.BusyError:
            return  # a reader is at work; SQLite does it at a later commit
        finally:
            self.connection.set_busy_timeout(BUSY_TIMEOUT_MS)

    def quick_check(self) -> str:
        """SQLite's own opinion of the file: "ok", or what is wrong."""
        return self._check("quick_check")

    def integrity_check(self) -> str:
        """SQLite's opinion after it has held every index, and the full text, against the rows."""
        return self._check("integrity_check")

    def _check(self, pragma: str) -> str:
        # By a connection of its own: in one that has searched, what others wrote since looks
        # corrupt to FTS5 (SQLite 3.54.1).
        other = _opened(self.path.parent, "wal")  # with the journal it has, as this one
        if other is None:
            return "ok"  # it is gone, or being replaced
        try:
            return str(other.connection.execute(f"PRAGMA {pragma}(1)").get)
        finally:
            other.close()


def open_existing(
    folder: Path, fingerprint: str, *, check: bool = True, journal: Wish = "auto"
) -> Sidecar | None:
    """The sidecar in `folder`; None when there is none, or it was made under other rules.

    check:   whether each page has to have the checksum it was written with.
    journal: the setting sidecar.journal. A sidecar with a write-ahead log where there may be none
             counts as made under other rules; one without a log stays as it is.
    Raises SidecarDamaged for what is no sidecar, or one that is broken where it is read.
    """
    sidecar = _opened(folder, journal, check=check)
    if sidecar is None or sidecar.meta("fingerprint") == full_fingerprint(fingerprint):
        return sidecar
    sidecar.close()
    return None


def stored_meta(folder: Path, key: str, *, journal: Wish = "auto") -> str | None:
    """A value of the `meta` table of whatever sidecar lies in `folder`, under any rules.

    None also where it must not be opened with the journal it has.
    """
    sidecar = _opened(folder, journal)
    if sidecar is None:
        return None
    try:
        return sidecar.meta(key)
    finally:
        sidecar.close()


def stored_paths(folder: Path, *, journal: Wish = "auto") -> list[str]:
    """The notes in whatever sidecar lies in `folder`, under any rules; [] where no one can tell."""
    sidecar = _opened(folder, journal)
    if sidecar is None:
        return []
    try:
        if not (sidecar.meta("fingerprint") or "").startswith(full_fingerprint("")):
            return []  # made by other code, whose tables may be others
        return [path for (path,) in sidecar.connection.execute("SELECT path FROM note")]
    finally:
        sidecar.close()


def is_made_aside(folder: Path) -> bool:
    """Whether a sidecar is being made that is to take the place of the one there is."""
    return os.path.lexists(folder / _NEW_NAME)


def made_aside(folder: Path) -> Sidecar | None:
    """The sidecar made aside, where the one it was to replace is gone; None for none of use.

    A process that is killed while it puts one in place leaves that one alone, and whole.
    Hold the writer lock.
    """
    path = folder / _NEW_NAME
    try:
        if lies_in(folder) or not stat.S_ISREG(path.lstat().st_mode):
            return None
        return _connected(path, None)
    except (SidecarDamaged, OSError, apsw.Error):
        return None  # it was begun, and no more; what is wrong with the disk comes up again


def discard_unfinished(folder: Path) -> None:
    """Remove what a run that was ended left of a sidecar made aside. Hold the writer lock."""
    # Of one that was being removed, perhaps only what lay beside it.
    if any(os.path.lexists(folder / (_NEW_NAME + suffix)) for suffix in _SUFFIXES):
        _remove(folder, _NEW_NAME)


def lies_in(folder: Path) -> bool:
    """Whether there is anything at the sidecar's place."""
    return os.path.lexists(folder / SIDECAR_NAME)


def discard_damaged(folder: Path, known: Sidecar | None, *, journal: Wish = "auto") -> bool:
    """Remove a sidecar that turned out to be damaged; False when there is another one by now.

    Hold the writer lock. known: the one that did; None when it could not even be opened.
    """
    if known is None:
        try:
            present = _opened(folder, journal)
        except SidecarDamaged:
            present = None
        if present is not None:
            present.close()
            return False
    elif not known.still_there():
        return False
    _remove(folder)
    return True


def _opened(folder: Path, journal: Wish, *, check: bool = True) -> Sidecar | None:
    """What lies in `folder`, made under any rules; None when there is nothing that may be opened.

    Raises SidecarDamaged for what is not ours or is broken: it is rebuilt, never trusted.
    """
    path = folder / SIDECAR_NAME
    if not _regular(folder):
        return None
    before = _inode(path)
    vfs = None
    if _pages_checked() and not check:
        vfs = _plain_vfs()
    # Made on another disk, or by another SQLite, with a log that is not safe here.
    unsafe = journal_mode(folder, journal) == "delete" and opens_log(path)
    if unsafe and (os.access(folder, os.W_OK) or not is_whole(path)):
        return None
    try:
        sidecar = _connected_read_only(path, vfs) if unsafe else _connected(path, vfs)
    except FileNotFoundError:
        return None  # removed since it was looked for
    except SidecarDamaged:
        if before == _inode(path):
            raise
        return _opened(folder, journal, check=check)  # replaced meanwhile: read half and half
    except apsw.IOError as error:
        if lacks_shared_memory(error):
            return None  # the same, where nothing told so beforehand
        if before != _inode(path):
            return _opened(folder, journal, check=check)  # its log was taken away beside it
        if not has_no_room_to_share(error) or not is_whole(path):
            raise
        sidecar = _connected_read_only(path, vfs)  # on a full disk it answers all the same
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError):
        if not os.access(path, os.R_OK):
            if os.access(folder, os.W_OK):
                raise damaged(folder) from None  # it can be replaced, if not read
            raise
        sidecar = _connected_read_only(path, vfs)
    if sidecar.still_there():
        return sidecar
    sidecar.close()  # it was replaced while it was opened, and may be half the other one
    return _opened(folder, journal, check=check)


def _inode(path: Path) -> int | None:
    try:
        return path.lstat().st_ino
    except OSError:
        return None


def _connected(path: Path, vfs: str | None) -> Sidecar:
    before = path.lstat()
    if vfs is None and holds_something(path, "-journal"):
        _undo(path)
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    # SQLite opens a file that may only be read without a word.
    return _examined(path, connection, before, read_only=connection.readonly("main"))


def _undo(path: Path) -> None:
    """Undo what a killed process left half done, to the very bytes that its journal has.

    The checksum VFS would give a page that was damaged in the journal a checksum that fits.
    """
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=_plain_vfs())
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.execute("PRAGMA schema_version").fetchall()  # whoever reads undoes it
    except _DAMAGE:
        return  # whoever opens it next says so
    finally:
        connection.close()


def _plain_vfs() -> str:
    return next(name for name in apsw.vfs_names() if name in _PLAIN)


def _connected_read_only(path: Path, vfs: str | None) -> Sidecar:
    """The sidecar where nothing can be written: no log, and no memory shared with others."""
    before = path.lstat()
    connection = apsw.Connection(
        read_only_uri(path), flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI, vfs=vfs
    )
    return _examined(path, connection, before, read_only=True)


def _examined(
    path: Path, connection: apsw.Connection, before: os.stat_result, *, read_only: bool
) -> Sidecar:
    """The sidecar behind a connection, which is closed when it is none."""
    sound = False
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.execute(_PRAGMAS).fetchall()
        connection.execute(f"PRAGMA cache_size = -{_cache_kibibytes(before.st_size)}")
        synchronise(connection)
        sidecar = Sidecar(path, connection, before, read_only=read_only)
        if sidecar.meta("fingerprint") is None:
            raise damaged(path.parent)
        sound = True
    except (*_DAMAGE, apsw.IOError) as error:
        if _is_damage(error):
            raise damaged(path.parent) from None
        raise
    finally:
        if not sound:
            connection.close()
    return sidecar


def _cache_kibibytes(size: int) -> int:
    """How much of a file of `size` bytes a connection may hold in memory: an eighth, in bounds.

    Each page that is not held is read and its checksum computed again. With 32 MiB of a sidecar of
    a gigabyte, which is one of 100,000 notes, a search took a fifth longer than with 128 MiB.
    """
    return min(max(_CACHE_KIBIBYTES, size >> 13), 4 * _CACHE_KIBIBYTES)


def _regular(folder: Path) -> bool:
    """Whether there is a sidecar's file. Nothing is followed, nor written through.

    Raises SidecarDamaged where a link, a folder or a device stands in place of one of its files.
    """
    there = False
    for suffix in _SUFFIXES:
        try:
            mode = (folder / (SIDECAR_NAME + suffix)).lstat().st_mode
        except FileNotFoundError:
            continue  # most of them come and go
        if not stat.S_ISREG(mode):
            raise damaged(folder)
        there = there or not suffix
    return there


def _look(state: os.stat_result) -> tuple[int, int, int]:
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns


def _pages_checked() -> bool:
    """Whether SQLite checks the pages it reads; from the first call on it does, if it can.

    Without that it notices a page that is no page, but not a changed letter.
    """
    names = apsw.vfs_names()
    if _CHECKED in names:
        return True
    if names[0] not in _PLAIN:
        return False  # put in front by somebody who may take it away again: nothing to build on
    connection = apsw.Connection(":memory:")
    try:
        connection.enable_load_extension(True)
        # Without its suffix, which SQLite knows for each platform.
        connection.load_extension(
            str(Path(apsw.__file__).with_name("sqlite_extra_binaries") / "cksumvfs")
        )
    except (AttributeError, apsw.Error, OSError):
        return False  # built without extensions, or without these
    finally:
        connection.close()
    return True


def create(
    folder: Path, fingerprint: str, *, journal: Wish = "auto", aside: bool = False
) -> Sidecar:
    """A new, empty sidecar in `folder`; an older one is removed then. Hold the writer lock.

    journal: the setting sidecar.journal.
    aside:   leave the older one, which answers until `put_in_place`.
    """
    mode = journal_mode(folder, journal)
    try:
        sidecar = _created(folder, fingerprint, mode)
    except apsw.IOError as error:
        if mode == "delete" or not lacks_shared_memory(error):
            raise
        sidecar = _created(folder, fingerprint, "delete")
    return sidecar if aside else put_in_place(sidecar, journal=journal)


def put_in_place(sidecar: Sidecar, *, journal: Wish = "auto") -> Sidecar:
    """Have a sidecar that was made aside be the one there is. Hold the writer lock.

    Whoever opens one at this moment meets the old one, none, or a whole new one.
    """
    folder = sidecar.path.parent
    # Its log goes into it. Closing would see to that as well, and tell nobody that it could not:
    # without its log it would take the other's place as a part of itself.
    try:
        sidecar.checkpoint()
    finally:
        sidecar.close()
    for suffix in _SUFFIXES[1:]:
        if holds_something(sidecar.path, suffix):
            raise _unavailable(folder, f"{_NEW_NAME}{suffix} cannot be taken in")
        (folder / (_NEW_NAME + suffix)).unlink(missing_ok=True)
    _remove(folder)
    sidecar.path.replace(folder / SIDECAR_NAME)
    placed = _opened(folder, journal)
    if placed is None:
        raise _unavailable(folder, "the index was removed as soon as it was made")
    return placed


def _created(folder: Path, fingerprint: str, mode: Mode) -> Sidecar:
    _remove(folder, _NEW_NAME)
    path = folder / _NEW_NAME
    checked = _pages_checked()
    connection = apsw.Connection(str(path))
    made = False
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        if checked:
            connection.reserve_bytes(reserve=_CHECKSUM_BYTES)
        connection.execute("PRAGMA page_size = 8192")
        begin_journal(connection, mode)
        # To the end: apsw stops at a statement that returns a row until that row is taken.
        connection.execute(_PRAGMAS).fetchall()
        synchronise(connection)
        sidecar = Sidecar(path, connection, path.lstat())
        with sidecar.transaction():
            for statement in create_statements():
                connection.execute(statement)
            sidecar.set_meta("fingerprint", full_fingerprint(fingerprint))
        made = True
    finally:
        if not made:
            connection.close()
    return sidecar


def _remove(folder: Path, name: str = SIDECAR_NAME) -> None:
    """Remove the sidecar's files, or what stands in their place; a folder only if it is empty."""
    for suffix in _SUFFIXES:
        path = folder / (name + suffix)
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue  # most of them come and go
        if not stat.S_ISDIR(mode):
            path.unlink(missing_ok=True)
            continue
        try:
            path.rmdir()
        except OSError:
            raise SidecarUnavailable(
                f"{path} is a folder, and not empty. Move it away: the sidecar is to lie there."
            ) from None


def full_fingerprint(rules: str) -> str:
    """What a sidecar must have been made with: this code, SQLite, Unicode's tables, the rules."""
    # A row is taken out by making it again, so whatever makes rows has to be the same.
    # Who does not know of the checksums would leave wrong ones behind.
    pages = "checked" if _pages_checked() else "plain"
    return (
        f"{VERSIONS}; SQLite {apsw.sqlite_lib_version()}; pages {pages}; "
        f"Unicode {unicodedata.unidata_version}; {rules}"
    )


def make_folder(folder: Path) -> None:
    """Create the sidecar's folder and mark it as a cache."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)  # it holds the notes' text
    tag = folder / "CACHEDIR.TAG"
    if os.path.lexists(tag):
        return
    # Under another name first: half of one, on a disk that is full, would stay for good.
    new = folder / "CACHEDIR.TAG.new"
    try:
        new.unlink(missing_ok=True)
        with new.open("xb") as file:
            file.write(_CACHEDIR_TAG)
        new.replace(tag)
    except (FileExistsError, FileNotFoundError):
        return  # another process is at it


# What SQLite says of a file that is not as it was written. A constraint that fails, a length out
# of bounds, a statement for a column that is not there: each is a row or a schema gone wrong.
_DAMAGE = (
    apsw.NotADBError,
    apsw.CorruptError,
    apsw.SQLError,
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.TooBigError,
    apsw.RangeError,
    apsw.FormatError,
    apsw.InternalError,
    apsw.NotFoundError,
    apsw.SchemaChangeError,
)
_DAMAGED_PAGE = (apsw.SQLITE_IOERR_DATA, apsw.SQLITE_IOERR_CORRUPTFS)


def _is_damage(error: apsw.Error) -> bool:
    """Whether it tells of the file's bytes, and not of the disk or of another process."""
    code = getattr(error, "extendedresult", 0)
    if isinstance(error, apsw.IOError):
        return code in _DAMAGED_PAGE
    # There are no triggers whose constraints could fail.
    return isinstance(error, _DAMAGE) and code != apsw.SQLITE_CONSTRAINT_TRIGGER


@contextmanager
def sidecar_errors(folder: Path) -> Iterator[None]:
    """Turn the failures of SQLite and of the file system into vaultmem's own errors."""
    try:
        yield
    except apsw.FullError:
        raise _full(folder) from None
    except apsw.IOError as error:
        if _is_damage(error):
            raise damaged(folder) from None
        if _no_space(folder):
            raise _full(folder) from None
        raise SidecarUnavailable(
            f"The sidecar in {folder} cannot be read or written ({error}). Check the disk, or put "
            "it elsewhere with --cache-dir."
        ) from None
    except (apsw.BusyError, apsw.LockedError, apsw.ProtocolError):
        raise SidecarBusy(
            f"The sidecar in {folder} was busy for {BUSY_TIMEOUT_MS // 1000} s. Try again."
        ) from None
    except _DAMAGE as error:
        if _is_damage(error):
            raise damaged(folder) from None
        raise
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError):
        if _no_space(folder):
            raise _full(folder) from None
        raise _unavailable(folder, "it cannot be opened for writing") from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(folder) from None
        raise _unavailable(folder, error.strerror or type(error).__name__) from None


def damaged(folder: Path) -> SidecarDamaged:
    """The error to raise for a sidecar that is not what was written."""
    return SidecarDamaged(
        f"The sidecar in {folder} is damaged. `vaultmem index --rebuild` makes it anew; "
        "no note is affected."
    )


def _full(folder: Path) -> DiskFull:
    return DiskFull(
        f"The disk is full: the sidecar in {folder} could not grow. What was indexed so far is "
        "kept. Free some room, or choose another place with --cache-dir, and run it again."
    )


def unwritable(folder: Path) -> DiskFull | SidecarUnavailable:
    """The error to raise for a sidecar that can be read and nothing more."""
    if _no_space(folder):
        return _full(folder)
    return _unavailable(folder, "what lies in it can only be read")


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


def driver() -> tuple[str, bool, bool, bool]:
    """(SQLite's version, whether it has FTS5, whether WAL is safe with several processes, and
    whether it checks every page it reads)."""
    version = apsw.sqlite_lib_version()
    has_fts5 = "ENABLE_FTS5" in apsw.compile_options
    return version, has_fts5, wal_is_safe(version), _pages_checked()
