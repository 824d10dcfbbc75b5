"""The file beside the sidecar in which a watcher tells other processes how far it is."""

import json
import os
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path

from vaultmem.index.lock import is_watched
from vaultmem.model.watch_state import Watching, WatchState

_NAME = "watch.json"
_MOST_BYTES = 1 << 16

# A watcher that has said nothing for so long is not relied on: it may be stopped, or stuck.
SILENCE_NS = 6_000_000_000
# So often it says something, changed or not.
HEARTBEAT_NS = 2_000_000_000


def put_state(folder: Path, state: WatchState) -> None:
    """Say something. Raises OSError."""
    path = folder / _NAME
    temporary = folder / f"{_NAME}.new"  # there is one watcher; what a killed one left is used up
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(temporary, flags, 0o600)
    # All of it or an error: a disk that is nearly full takes a part without a word.
    with os.fdopen(descriptor, "wb") as file:
        file.write(json.dumps(asdict(state)).encode())
    try:
        os.replace(temporary, path)
    except PermissionError:
        # On Windows somebody reads it at this moment; the next state is not far.
        with suppress(OSError):
            temporary.unlink()


def remove_state(folder: Path) -> None:
    """Say nothing more."""
    with suppress(OSError):
        (folder / _NAME).unlink()


def watch_state(folder: Path) -> WatchState | None:
    """What the watcher last said; None when there is none that is alive."""
    try:
        descriptor = os.open(folder / _NAME, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    try:
        data = os.read(descriptor, _MOST_BYTES)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return _parsed(data) if is_watched(folder) else None


def _parsed(data: bytes) -> WatchState | None:
    try:
        values = json.loads(data)
        known = {field.name: field.type for field in fields(WatchState)}
        if not isinstance(values, dict) or values.keys() != known.keys():
            return None  # another version's: it is not for us to interpret
        return WatchState(**{**values, "state": Watching(values["state"])})
    except (TypeError, ValueError):
        return None


def says_it_is_fresh(state: WatchState, rules: str, now_ns: int) -> bool:
    """Whether an index can be relied on without looking at the vault again.

    rules: the fingerprint that the asker would index by. now_ns: nanoseconds since the epoch.
    """
    return (
        state.state is Watching.WATCHING
        and state.events
        and state.rules == rules
        and -SILENCE_NS < now_ns - state.said_ns < SILENCE_NS
    )
