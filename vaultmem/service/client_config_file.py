"""The configuration files of clients on disk: read whole, and put in their place whole or not.

The one writer of files that belong to other programs. It follows a link to the file behind it,
keeps its mode and owner, and writes nothing over a file that is not what was read.
"""

import os
import re
import stat
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from vaultmem.model.errors import Refused
from vaultmem.service.state_file import is_running

MAX_BYTES = 50 * 1024 * 1024

# When it was written last (ns), how many bytes it has, and which file it is.
Mark = tuple[int, int, int]


class FileChanged(Refused):
    """Somebody else wrote the file after it was read."""

    def __init__(self) -> None:
        super().__init__("It was changed in the meantime. Nothing was written; repeat the command.")


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file as it was read."""

    path: Path  # where the client looks
    target: Path  # where that leads
    content: bytes | None  # None: there is no file
    mark: Mark | None = None  # as it was when the reading began; None for no file

    @property
    def digest(self) -> str:
        """SHA-256 in hex; "" for no file."""
        return "" if self.content is None else sha256(self.content).hexdigest()

    @property
    def text(self) -> str | None:
        """The content as text; a byte order mark stays. Raises Refused."""
        try:
            return None if self.content is None else self.content.decode()
        except UnicodeDecodeError as error:
            raise Refused(
                f"It is not UTF-8 (byte {error.start}). Save it as UTF-8 in an editor first."
            ) from None


def read_config_file(path: Path) -> ConfigFile:
    """The file, if there is one that can be read. Raises Refused with what is in the way."""
    target = Path(os.path.realpath(path))
    try:
        state = os.stat(target)
        if not stat.S_ISREG(state.st_mode):
            raise Refused("It is not a file. Move it away first.")
        if state.st_size > MAX_BYTES:
            raise Refused(f"It has {state.st_size:,} bytes, more than {MAX_BYTES:,}.")
        with target.open("rb") as opened:
            mark = _mark(os.fstat(opened.fileno()))
            return ConfigFile(path, target, opened.read(), mark)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise Refused(f"It is a link to {target}, which is not there.") from None
        return ConfigFile(path, target, None)
    except OSError as error:
        raise Refused(f"It cannot be read: {error.strerror}.") from None


def write_config_file(file: ConfigFile, content: bytes | None) -> tuple[Path, ...]:
    """Put new content in place of what was read, or take the file away (None).

    Returns the folders that were made for it. Raises FileChanged when the file is no longer what
    was read, Refused when its folder cannot be written; nothing is changed then.
    """
    check_writable(file)
    made: tuple[Path, ...] = ()
    try:
        if content is None:
            mark = _checked_mark(file)
            _check_mark(file, mark)
            file.target.unlink()
        else:
            made = _folders_to_make(file.target.parent)
            _put(file, content)
        _flush_folder(file.target.parent)
    except (OSError, Refused) as error:
        remove_folders(file, made)
        if isinstance(error, Refused):
            raise
        raise Refused(f"It cannot be written: {error.strerror}.") from None
    return made


def remove_folders(file: ConfigFile, made: Collection[Path]) -> tuple[Path, ...]:
    """Remove the folders of a file that is gone, as long as they are empty and among those made."""
    gone: list[Path] = []
    for folder in file.target.parents:
        if folder not in made:
            break
        try:
            folder.rmdir()
        except OSError:
            break  # something else lies in it by now, and it stays for that
        gone.append(folder)
    return tuple(gone)


def check_writable(file: ConfigFile) -> None:
    """Raise Refused for a file that its owner does not want changed, or whose folder cannot be.

    A file can be replaced although it is read-only, so that is asked about.
    """
    folder = file.target.parent
    if os.path.isdir(folder) and not os.access(folder, os.W_OK | os.X_OK):
        raise Refused(f"Its folder {folder} cannot be written.")
    if file.content is None:
        return
    try:
        state = os.stat(file.target)
    except OSError as error:
        raise Refused(f"It cannot be written: {error.strerror}.") from None
    if not state.st_mode & stat.S_IWUSR or not os.access(file.target, os.W_OK):
        raise Refused("It is read-only. Make it writable first.")
    if state.st_nlink > 1:
        raise Refused(
            "It has a second name (a hard link), under which the old text would stay. Change it by "
            "hand."
        )


def _put(file: ConfigFile, content: bytes) -> None:
    target = file.target
    new = target.with_name(f".{target.name}.vaultmem-{os.getpid()}")
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(target)
    try:
        new.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(new, flags, 0o600), "wb") as opened:
            if file.content is not None:
                _like(opened.fileno(), os.stat(target))
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        # Reading takes its time for a large file; what was read must still be there behind that.
        mark = _checked_mark(file)
        if file.content is not None:
            _check_mark(file, mark)
            new.replace(target)
        else:
            _create(new, target, content)
    finally:
        with suppress(OSError):  # it is there only when something else is to be said
            new.unlink(missing_ok=True)


def _like(descriptor: int, old: os.stat_result) -> None:
    """Give a new file the mode and the owner of the one whose place it takes."""
    if hasattr(os, "fchown"):
        made = os.fstat(descriptor)
        if (made.st_uid, made.st_gid) != (old.st_uid, old.st_gid):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _create(new: Path, target: Path, content: bytes) -> None:
    """Give a new file its name, unless there is one of that name by now."""
    try:
        target.hardlink_to(new)
    except FileExistsError:
        raise FileChanged from None
    except OSError:
        # A file system without hard links.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            descriptor = os.open(target, flags, 0o600)
        except FileExistsError:
            raise FileChanged from None
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())


def _checked_mark(file: ConfigFile) -> Mark | None:
    """The mark of the file that is there now and holds what was read. Raises FileChanged."""
    present = read_config_file(file.path)
    if (present.target, present.digest) != (file.target, file.digest):
        raise FileChanged
    return present.mark


def _check_mark(file: ConfigFile, mark: Mark | None) -> None:
    try:
        present = _mark(os.stat(file.target))
    except FileNotFoundError:
        present = None
    if present != mark:
        raise FileChanged


def _mark(state: os.stat_result) -> Mark:
    return state.st_mtime_ns, state.st_size, state.st_ino


def _folders_to_make(folder: Path) -> tuple[Path, ...]:
    """The folder and those above it that are not there."""
    missing: list[Path] = []
    for place in (folder, *folder.parents):
        if os.path.lexists(place):
            break
        missing.append(place)
    return tuple(missing)


def _remove_abandoned(target: Path) -> None:
    """Remove what processes that are gone have left beside the file."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.vaultmem-(\d+)")
    with suppress(OSError):  # the folder cannot be listed, or another process was first
        for name in os.listdir(target.parent):
            found = pattern.fullmatch(name)
            if found and not is_running(int(found[1])):
                target.with_name(name).unlink(missing_ok=True)


def _flush_folder(folder: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
