"""Whether anything changed in a folder since it was last asked, told by Linux at once.

A change is in the kernel's queue before whoever made it goes on, so an answer that finds the queue
empty is as fresh as one that looked at every file. What comes by way of threads is heard later, as
is what other systems report; there is nothing of this kind there.
"""

import ctypes
import errno
import itertools
import os
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# inotify(7), sys/inotify.h
_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = (
    *(0x40, 0x80, 0x100, 0x200),
    *(0x400, 0x800),
)
_ONLYDIR, _DONT_FOLLOW = 0x01000000, 0x02000000
_WANTED = (
    *(_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE),
    *(_DELETE, _DELETE_SELF, _MOVE_SELF, _ONLYDIR, _DONT_FOLLOW),
)
_MASK = sum(_WANTED)
# After these, other folders may have to be watched; the queue overflowed at the third.
_ISDIR, _UNMOUNT, _OVERFLOW = 0x40000000, 0x2000, 0x4000
_FOLDERS = _ISDIR | _UNMOUNT | _OVERFLOW | _DELETE_SELF | _MOVE_SELF
_EVENT = struct.Struct("iIII")
# No number is given twice in a process: who compares two may have them of different listeners.
_COUNTS = itertools.count(1)
# Obsidian writes these at every click; no note and no setting is in them.
_IDLE_FILES = (b"workspace.json", b"workspace-mobile.json")


class ChangeMarks:
    """Counts looks that found changes, until it is closed. For any thread."""

    def __init__(self, folder: Path) -> None:
        """Begin. Raises OSError where that cannot be, and where some folder cannot be watched."""
        if sys.platform != "linux":
            raise OSError("there is no inotify here")
        self._folder = os.fsencode(folder)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._counting = threading.Lock()
        self._count = next(_COUNTS)
        self._queue = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._queue < 0:
            raise OSError(ctypes.get_errno(), "the system reports no changes")
        try:
            self._watch_folders()
        except OSError:
            self.close()
            raise

    def marks(self) -> int | None:
        """Another number than before where something changed; None where that is not known."""
        with self._counting:
            if self._queue < 0:
                return None
            changed = folders = False
            with suppress(BlockingIOError):
                while data := os.read(self._queue, 1 << 16):
                    for mask, name in _events(data):
                        changed = changed or name not in _IDLE_FILES
                        folders = folders or bool(mask & _FOLDERS)
            if changed:
                self._count = next(_COUNTS)
            if folders:
                try:
                    self._watch_folders()
                except OSError:
                    self._close()
                    return None
            return self._count

    def close(self) -> None:
        """Count no more."""
        with self._counting:
            self._close()

    def _close(self) -> None:
        if self._queue >= 0:
            os.close(self._queue)
            self._queue = -1

    def _watch_folders(self) -> None:
        """Watch each folder; a folder that is watched already stays so."""
        waiting = [(self._folder, 0)]
        while waiting:
            folder, depth = waiting.pop()
            try:
                self._watch(folder)  # before it is listed: what comes between is heard of
                with os.scandir(folder) as entries:
                    below = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
            except FileNotFoundError:
                if folder == self._folder:
                    raise
                continue
            if depth and os.path.basename(folder).startswith(b"."):
                continue  # settings lie in such a folder, and never further down
            waiting += [
                (os.path.join(folder, name), depth + 1)
                for name in below
                if not depth or not name.startswith(b".")
            ]

    def _watch(self, folder: bytes) -> None:
        if self._libc.inotify_add_watch(self._queue, folder, _MASK) >= 0:
            return
        number = ctypes.get_errno()
        if number not in (errno.ENOTDIR, errno.ELOOP):  # it was replaced just now
            raise OSError(number, "the system watches no more folders", folder)


def _events(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The mask and the name of each event."""
    at = 0
    while at < len(data):
        _, mask, _, length = _EVENT.unpack_from(data, at)
        at += _EVENT.size
        yield mask, data[at : at + length].rstrip(b"\0")
        at += length
