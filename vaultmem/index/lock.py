"""Operating-system locks, which die with their owner: one indexer, one embedder, one watcher."""

import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vaultmem.model.errors import SidecarBusy, SidecarUnavailable

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int, *, shared: bool = False) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # which knows no shared ones

else:
    import fcntl

    def _lock(descriptor: int, *, shared: bool = False) -> None:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


WATCH_LOCK = "watch.lock"

# Between two attempts at a lock that another process holds: seconds, growing from one to the other.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.05
# Where a lock cannot be shared, whoever else asks lets go of it at once.
_ASKED = 4 if sys.platform == "win32" else 1
# What a file system says that has no locks.
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


@contextmanager
def writer_lock(
    folder: Path, *, patience: float = 0.0, waiting: Callable[[], None] | None = None
) -> Iterator[None]:
    """Hold the right to change the sidecar in `folder`.

    patience: seconds to wait for another process that holds it.
    waiting:  called between two attempts; what it raises ends the waiting.

    Raises SidecarBusy when it was not to be had in that time, SidecarUnavailable where the file
    system knows no locks, and OSError when the file cannot be made.
    """
    with _held(folder / "writer.lock", "indexing", patience, waiting):
        yield


@contextmanager
def embedding_lock(folder: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Hold the right to compute vectors; words can be indexed meanwhile.

    patience: seconds to wait for another process that holds it. Raises as `writer_lock` does.
    """
    with _held(folder / "embedding.lock", "embedding", patience, None):
        yield


@contextmanager
def watch_lock(folder: Path) -> Iterator[Callable[[], bool]]:
    """Be the one process that watches the vault, for as long as it does. Raises as above.

    Yields what tells whether others still see that: the folder may be deleted at any time.
    """
    path = folder / WATCH_LOCK
    # Whoever asks whether it is held holds it for a moment.
    with _held(path, "watching", 1.0, None) as descriptor:
        own = os.fstat(descriptor)

        def is_seen() -> bool:
            try:
                there = os.lstat(path)
            except OSError:
                return False
            return (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)

        yield is_seen


def is_watched(folder: Path) -> bool:
    """Whether a process that watches the vault is alive."""
    try:
        descriptor = os.open(folder / WATCH_LOCK, os.O_RDWR | _FLAGS)
    except OSError:
        return False  # none has been here, or nothing can be written here
    try:
        for _ in range(_ASKED):
            try:
                _lock(descriptor, shared=True)  # so that two who ask do not take each other for one
            except OSError:
                time.sleep(_FIRST_PAUSE)
            else:
                return False
    finally:
        os.close(descriptor)
    return True


_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def _held(
    path: Path, doing: str, patience: float, waiting: Callable[[], None] | None
) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
    try:
        if not _acquired(descriptor, path, patience, waiting):
            raise SidecarBusy(
                f"Another vaultmem process is {doing} this vault (lock {path}). "
                "Wait for it to end and try again."
            )
        yield descriptor
    finally:
        os.close(descriptor)


def _acquired(
    descriptor: int, path: Path, patience: float, waiting: Callable[[], None] | None
) -> bool:
    until = time.monotonic() + patience
    pause = _FIRST_PAUSE
    while True:
        try:
            _lock(descriptor)
        except (BlockingIOError, PermissionError):
            if time.monotonic() >= until:
                return False
        except OSError as error:
            if error.errno in _NO_LOCKS:
                raise SidecarUnavailable(
                    f"The file system of {path.parent} has no locks, so that two processes could "
                    "spoil each other's work there. Choose another place with --cache-dir or "
                    "VAULTMEM_CACHE_DIR."
                ) from None
            raise
        else:
            return True
        if waiting is not None:
            waiting()
        time.sleep(min(pause, max(0.0, until - time.monotonic())))
        pause = min(2 * pause, _LONGEST_PAUSE)
