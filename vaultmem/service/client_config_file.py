"""The configuration files of clients on disk: read whole, and put in their place whole or not.

The one writer of files that belong to other programs. It follows a link to the file behind it,
keeps its mode and owner, and writes nothing over a file that is not what was read.
"""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from vaultmem.model.errors import Refused

MAX_BYTES = 50 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file as it was read."""

    path: Path  # where the client looks
    target: Path  # where that leads
    content: bytes | None  # None: there is no file

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
        return ConfigFile(path, target, target.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise Refused(f"It is a link to {target}, which is not there.") from None
        return ConfigFile(path, target, None)
    except OSError as error:
        raise Refused(f"It cannot be read: {error.strerror}.") from None


def write_config_file(file: ConfigFile, content: bytes | None) -> None:
    """Put new content in place of what was read, or take the file away (None).

    Raises Refused, with nothing changed, when the file is no longer what was read or its folder
    cannot be written.
    """
    check_writable(file)
    try:
        if content is None:
            _check_unchanged(file)
            file.target.unlink()
        else:
            _put(file, content)
        _flush_folder(file.target.parent)
    except OSError as error:
        raise Refused(f"It cannot be written: {error.strerror}.") from None


def check_writable(file: ConfigFile) -> None:
    """Raise Refused for a file that its owner does not want changed, or whose folder cannot be.

    A file can be replaced although it is read-only, so that is asked about.
    """
    folder = file.target.parent
    if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
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
    try:
        new.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(new, flags, 0o600), "wb") as opened:
            if file.content is not None:
                _like(opened.fileno(), os.stat(target))
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        _check_unchanged(file)
        if file.content is not None:
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
        raise _changed() from None
    except OSError:
        # A file system without hard links.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            descriptor = os.open(target, flags, 0o600)
        except FileExistsError:
            raise _changed() from None
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())


def _check_unchanged(file: ConfigFile) -> None:
    if read_config_file(file.path).digest != file.digest:
        raise _changed()


def _changed() -> Refused:
    return Refused("It was changed in the meantime. Nothing was written; repeat the command.")


def _flush_folder(folder: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
