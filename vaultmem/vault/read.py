"""The one door through which files of a vault are opened for reading.

Nothing is followed out of the vault: no part of the path may be a link, the end must be a regular
file, and its size is known before a byte is read.
"""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

# Obsidian's own settings files are small; anything larger is not one of them.
OBSIDIAN_FILE_BYTES = 1 << 20

# Windows knows none of these, and has no FIFOs to hang on.
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
# FILE_ATTRIBUTE_OFFLINE, _RECALL_ON_OPEN, _RECALL_ON_DATA_ACCESS (winnt.h); sys/stat.h of macOS.
_RECALLED = 0x1000 | 0x40000 | 0x400000
_SF_DATALESS = 0x40000000

_FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_RELATIVE = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that could not be had, and why: an expected outcome, not an exception."""

    # "missing", "linked", "not-a-file", "too-large", "unreadable", "changing", "elsewhere"
    code: str
    message: str


class Door:
    """The way into one vault.

    Where the system can open a file relative to a folder (everywhere but on Windows), each folder
    on the way is opened without following links and the last one is kept for its other files.
    """

    def __init__(self, vault: Path) -> None:
        self._vault = vault
        self._folder: str | None = None
        self._descriptor = -1

    def read(self, disk_path: str, *, limit: int) -> bytes | Unread:
        """The bytes of one file; see `read_file`."""
        if not _RELATIVE:
            return _read_by_path(self._vault, disk_path, limit)
        folder, _, name = disk_path.rpartition("/")
        if folder != self._folder:
            self.close()
            opened = _open_folder(self._vault, folder)
            if isinstance(opened, Unread):
                return opened
            self._folder, self._descriptor = folder, opened
        answer = _read_once(name, self._descriptor, limit)
        if isinstance(answer, Unread) and answer.code == "changing":
            answer = _read_once(name, self._descriptor, limit)
        return answer

    def close(self) -> None:
        """Let go of the folder that was kept open."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._folder, self._descriptor = None, -1

    def __enter__(self) -> "Door":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_file(vault: Path, disk_path: str, *, limit: int) -> bytes | Unread:
    """The bytes of one file.

    vault:     an absolute folder.
    disk_path: below it, as the disk spells it.
    limit:     bytes; a larger file is not read.
    Returns `Unread` for a file that is missing, linked, special, too large, unreadable, elsewhere,
    or that grew or shrank while it was read twice over.
    """
    with Door(vault) as door:
        return door.read(disk_path, limit=limit)


def hidden_folders(vault: Path) -> tuple[str, ...]:
    """Names of the vault's own dot folders, sorted; none where it cannot be listed."""
    try:
        with os.scandir(vault) as listing:
            return tuple(
                sorted(
                    e.name for e in listing if e.name[0] == "." and e.is_dir(follow_symlinks=False)
                )
            )
    except OSError:
        return ()  # the walk reports a vault that cannot be listed


def is_bare(vault: Path) -> bool:
    """Whether nothing of the vault is there, or it cannot be listed: as when its disk is away.

    What hidden files other programs leave at a mount point (`.DS_Store`) is nothing of it.
    """
    try:
        with os.scandir(vault) as listing:
            return all(e.name[0] == "." and not e.is_dir(follow_symlinks=False) for e in listing)
    except OSError:
        return True


def is_elsewhere(state: os.stat_result) -> bool:
    """Whether reading the file would make its sync service fetch it first."""
    attributes = getattr(state, "st_file_attributes", 0)  # Windows: OneDrive, iCloud, Dropbox
    flags = getattr(state, "st_flags", 0)  # macOS: the same, since they are file providers
    return bool(attributes & _RECALLED or flags & _SF_DATALESS)


def unfit(vault: Path, disk_path: str) -> str | None:
    """Why what is at a path is no file to read, in a sentence; None when it is one, or nothing.

    Looks, and opens nothing.
    """
    linked = _linked_part(vault, disk_path)
    if linked:
        return "A part of the path is a symbolic link; links are not followed."
    try:
        mode = os.lstat(vault / disk_path).st_mode
    except (OSError, ValueError):
        return None
    return None if stat.S_ISREG(mode) else "It is not a regular file."


def _open_folder(vault: Path, folder: str) -> int | Unread:
    """A descriptor of a folder below the vault, no part of the way being a link."""
    try:
        descriptor = os.open(vault, _FOLDER_FLAGS)
    except OSError as error:
        return Unread("unreadable", f"The vault cannot be opened: {error.strerror}.")
    for part in folder.split("/") if folder else ():
        try:
            if part in ("", ".", ".."):
                raise NotADirectoryError(errno.ENOTDIR, "not a plain folder name")
            below = os.open(part, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=descriptor)
        except FileNotFoundError:
            return Unread("missing", "The file is not there.")
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in (errno.ELOOP, errno.ENOTDIR):
                return Unread("linked", f"{part} is a symbolic link; links are not followed.")
            reason = error.strerror if isinstance(error, OSError) else str(error)
            return Unread("unreadable", f"The folder {part} cannot be opened: {reason}.")
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _read_by_path(vault: Path, disk_path: str, limit: int) -> bytes | Unread:
    """For systems without folder descriptors: look at each part first, then open by path."""
    linked = _linked_part(vault, disk_path)
    if linked:
        return Unread("linked", f"{linked} is a symbolic link; links are not followed.")
    answer = _read_once(vault / disk_path, None, limit)
    if isinstance(answer, Unread) and answer.code == "changing":
        answer = _read_once(vault / disk_path, None, limit)
    return answer


def _linked_part(vault: Path, disk_path: str) -> str | None:
    """The first part of the path that is a link, or that climbs out."""
    parts = disk_path.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        return disk_path
    folder = str(vault)
    for part in parts:
        folder = os.path.join(folder, part)
        try:
            if stat.S_ISLNK(os.lstat(folder).st_mode):
                return part
        except (OSError, ValueError):
            return None  # the open that follows says what is wrong
    return None


def _read_once(path: "str | Path", folder: int | None, limit: int) -> bytes | Unread:
    try:
        # (Opening is enough for some services to fetch it.)
        if is_elsewhere(os.stat(path, dir_fd=folder, follow_symlinks=False)):
            return Unread("elsewhere", "Its text is not on this device; nothing was fetched.")
        descriptor = os.open(path, _FLAGS, dir_fd=folder)
    except FileNotFoundError:
        return Unread("missing", "The file is not there.")
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            return Unread("linked", "It is a symbolic link; links are not followed.")
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return Unread("unreadable", f"The file cannot be opened: {reason}.")
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            return Unread("not-a-file", "It is not a regular file.")
        if before.st_size > limit:
            return Unread(
                "too-large",
                f"The file has {before.st_size:,} bytes, more than the limit of {limit:,} "
                "(setting scan.max_note_bytes).",
            )
        data = _read_all(descriptor, before.st_size)
        after = os.fstat(descriptor)
    except OSError as error:
        return Unread("unreadable", f"The file cannot be read: {error.strerror}.")
    finally:
        os.close(descriptor)
    same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    if len(data) != before.st_size or not same:
        return Unread("changing", "The file changed while it was read; the next run takes it.")
    return data


def _read_all(descriptor: int, size: int) -> bytes:
    """The file's bytes; more or fewer than `size` when it changed meanwhile."""
    data = os.read(descriptor, size + 1)
    while len(data) < size:
        more = os.read(descriptor, size + 1 - len(data))
        if not more:
            break
        data += more
    return data
