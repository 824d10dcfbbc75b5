"""The token that every request over HTTP has to bring, kept in the user's state folder.

Whoever holds it can read the vault, so it is refused rather than mended where others may know it,
and one that is not what was written is never replaced: clients are set up with it.
"""

import os
import re
import stat
import sys
from pathlib import Path
from secrets import token_urlsafe

from vaultmem.model.errors import StateUnavailable
from vaultmem.service.state_file import put_state_file

FILE_NAME = "http-token"
_TOKEN_BYTES = 32
_TOKEN = re.compile(rb"[A-Za-z0-9_-]{43}\n?")  # so many characters hold 32 bytes
_READ_BYTES = 64


def http_token(folder: Path) -> str:
    """The vault's token, made when it is first asked for: 43 characters, 32 random bytes.

    folder: the vault's state folder. Processes that ask at once get the same one. Raises
    StateUnavailable where the folder cannot be used, where others may know the token, and where
    the file holds none.
    """
    path = folder / FILE_NAME
    known = _read(path)
    if known is None:
        made = token_urlsafe(_TOKEN_BYTES) + "\n"
        put_state_file(folder, FILE_NAME, made.encode(), replace=False)
        known = _read(path)  # another process may have been first
    if known is None:
        raise StateUnavailable(f"{path} was removed while it was made. Try again.")
    return known


def _read(path: Path) -> str | None:
    """The token in the file; None where there is no file."""
    # A link could lead to a file of somebody else's choice, and a pipe would never answer.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StateUnavailable(f"{path} cannot be read: {error.strerror}.") from None
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise StateUnavailable(f"{path} is not a file. Remove it to get a new token.")
        if sys.platform != "win32":
            _check_privacy(path, state)
        content = os.read(descriptor, _READ_BYTES)
    finally:
        os.close(descriptor)
    if _TOKEN.fullmatch(content) is None:
        raise StateUnavailable(
            f"{path} is not what vaultmem wrote. Remove it to get a new token, and give that to "
            "every client."
        )
    return content.decode().rstrip("\n")


def _check_privacy(path: Path, state: os.stat_result) -> None:
    """Raise StateUnavailable unless the file is its owner's, and for nobody else."""
    if state.st_uid != os.geteuid():
        raise StateUnavailable(
            f"{path} belongs to another user (uid {state.st_uid}). Run vaultmem as that user, or "
            "choose another state folder with VAULTMEM_STATE_DIR."
        )
    mode = stat.S_IMODE(state.st_mode)
    if mode & 0o077:
        raise StateUnavailable(
            f"{path} is open to other users of this computer (mode {mode:04o}), who may know the "
            "token. Remove it to get a new one, and give that to every client; or, if there are no "
            "other users, chmod 600 it. On a disk that keeps no modes, choose another state folder "
            "with VAULTMEM_STATE_DIR."
        )
