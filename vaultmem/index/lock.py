"""One indexer at a time, by an operating-system lock that dies with its owner."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vaultmem.model.errors import SidecarBusy

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Hold the right to change the sidecar in `folder`.

    Raises SidecarBusy at once when another process holds it; OSError when the file cannot be made.
    """
    with _held(folder / "writer.lock", "indexing"):
        yield


@contextmanager
def embedding_lock(folder: Path) -> Iterator[None]:
    """Hold the right to compute vectors; words can be indexed meanwhile.

    Raises SidecarBusy at once when another process holds it; OSError when the file cannot be made.
    """
    with _held(folder / "embedding.lock", "embedding"):
        yield


@contextmanager
def _held(path: Path, doing: str) -> Iterator[None]:
    flags = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600)
    try:
        try:
            _lock(descriptor)
        except (BlockingIOError, PermissionError):
            raise SidecarBusy(
                f"Another vaultmem process is {doing} this vault (lock {path}). "
                "Wait for it to end and try again."
            ) from None
        yield
    finally:
        os.close(descriptor)
