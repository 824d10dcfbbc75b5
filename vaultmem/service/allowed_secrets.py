"""The secrets that are none to their owner, kept by fingerprint in the user's state folder.

The file holds the key that fingerprints are made with, so it is for its owner's eyes only, and no
part of the vault: whoever has both could try likely passwords.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_bytes

from vaultmem.model.errors import StateUnavailable
from vaultmem.service.state_file import put_state_file

FILE_NAME = "secrets.json"
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class AllowedSecrets:
    """What the file says; an empty key where there is no file yet."""

    key: bytes
    fingerprints: frozenset[str]


def read_allowed(folder: Path) -> AllowedSecrets:
    """What is allowed. folder: the vault's state folder.

    Raises StateUnavailable for a file that cannot be read: what it allows is not known then, and
    making a new one would forget it.
    """
    path = folder / FILE_NAME
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return AllowedSecrets(b"", frozenset())
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or type(error).__name__
        raise StateUnavailable(f"{path} cannot be read: {reason}.") from None
    try:
        loaded = json.loads(text)
        key = bytes.fromhex(loaded["key"])
        fingerprints = frozenset(str(name) for name in loaded["allowed"])
    except (ValueError, KeyError, TypeError, RecursionError):
        key, fingerprints = b"", frozenset()
    if len(key) != _KEY_BYTES:
        raise StateUnavailable(
            f"{path} is not what vaultmem wrote. Remove it, and allow again what was allowed."
        )
    return AllowedSecrets(key, fingerprints)


class Key:
    """The key, made when it is first needed: a vault without secrets leaves no file behind."""

    def __init__(self, folder: Path, known: bytes) -> None:
        self._folder = folder
        self._known = known
        self._tried = False

    def __call__(self) -> bytes:
        """The key; empty where none can be kept, and then nothing can be allowed."""
        if not self._known and not self._tried:
            self._tried = True
            with suppress(StateUnavailable):  # said when somebody wants to allow something
                self._known = make_key(self._folder)
        return self._known


def make_key(folder: Path) -> bytes:
    """The folder's key, a new one if it has none. Raises StateUnavailable."""
    known = read_allowed(folder).key
    if known:
        return known
    key = token_bytes(_KEY_BYTES)
    _write(folder, AllowedSecrets(key, frozenset()), replace=False)
    return read_allowed(folder).key  # another process may have been first


def write_allowed(folder: Path, fingerprints: Iterable[str]) -> None:
    """Set what is allowed. Raises StateUnavailable."""
    _write(folder, AllowedSecrets(make_key(folder), frozenset(fingerprints)), replace=True)


def _write(folder: Path, allowed: AllowedSecrets, *, replace: bool) -> None:
    text = json.dumps({"key": allowed.key.hex(), "allowed": sorted(allowed.fingerprints)}, indent=1)
    put_state_file(folder, FILE_NAME, text.encode(), replace=replace)
