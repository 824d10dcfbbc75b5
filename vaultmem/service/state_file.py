"""Files of the user's state folder: for its owner alone, in their place whole or not at all."""

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

from vaultmem.model.errors import StateUnavailable

# A file that is being written, with the number of the process that does so.
_UNFINISHED = re.compile(r".+\.(\d+)\.new")


def put_state_file(folder: Path, name: str, content: bytes, *, replace: bool) -> None:
    """Write a file of mode 0600. folder: the vault's state folder, made if it is not there.

    replace: whether one may be there already; otherwise the file of whoever was first stays, and
    reading it tells which one that is. Raises StateUnavailable.
    """
    new = folder / f"{name}.{os.getpid()}.new"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        discard_unfinished_state(folder)
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace or not _linked(new, folder / name):
            new.replace(folder / name)
        else:
            new.unlink()
    except OSError as error:
        with suppress(OSError):  # what matters is said below
            new.unlink(missing_ok=True)
        raise StateUnavailable(
            f"The state folder {folder} cannot be written: {error.strerror}. Choose another one "
            "with VAULTMEM_STATE_DIR."
        ) from None


def discard_unfinished_state(folder: Path) -> None:
    """Remove what processes that were killed left unfinished in a state folder.

    One of them may hold a key. What cannot be removed stays: it does no harm to who reads.
    """
    with suppress(OSError):
        for name in os.listdir(folder):
            match = _UNFINISHED.fullmatch(name)
            if match is not None and not is_running(int(match[1])):
                (folder / name).unlink(missing_ok=True)


def is_running(pid: int) -> bool:
    """Whether there is such a process, or one that has its number by now, or nobody can tell."""
    if sys.platform == "win32":
        return True  # asking there may end a process; what was left stays
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _linked(new: Path, path: Path) -> bool:
    """Whether the file has its name, or another was there first; no link replaces a file."""
    try:
        path.hardlink_to(new)
    except FileExistsError:
        return True
    except OSError:
        return False  # a file system without hard links
    return True
