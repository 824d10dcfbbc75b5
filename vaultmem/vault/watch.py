"""Changes below a vault as the system reports them: paths that may have changed, and no more.

What has become of them is for the disk to say: events come late, twice, out of order or not at all,
and editors save in ways that look like deletion.
"""

import logging
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vaultmem.vault.paths import is_hidden

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent
    from watchdog.observers.api import BaseObserver
    from watchdog.utils import BaseThread

# How the names end of what stands in for a file that was not fetched; see scan.py.
STAND_INS = (".icloud", ".nextcloud", ".owncloud")
# What editors and sync services leave for a moment: never a note, and no reason to look.
_PASSING = ("~", ".tmp", ".swp", ".swx", ".part", ".crdownload", "/4913")


class FolderWatch:
    """Hears of changes below one folder, until it is closed."""

    def __init__(
        self,
        vault: Path,
        *,
        changed: Callable[[str], None],
        lost: Callable[[], None],
        settings: Callable[[], None],
        is_settings: Callable[[str], bool],
    ) -> None:
        """Begin to listen. The callbacks are called from threads of their own.

        changed:     a path below the vault, as the disk spells it, "" for the vault itself.
        lost:        changes went by unheard.
        settings:    one of the files that settings come from may have changed.
        is_settings: whether a path below the vault is one.
        Raises OSError where the system reports no changes here.
        """
        from watchdog.events import (
            DirCreatedEvent,
            DirDeletedEvent,
            DirMovedEvent,
            FileClosedEvent,
            FileCreatedEvent,
            FileDeletedEvent,
            FileModifiedEvent,
            FileMovedEvent,
            FileSystemEventHandler,
        )
        from watchdog.observers import Observer

        self._root = os.path.join(os.fspath(vault), "")
        self._changed, self._settings = changed, settings
        self._is_settings = is_settings
        heard = self._heard

        class Handler(FileSystemEventHandler):
            def dispatch(self, event: "FileSystemEvent") -> None:
                heard(event)

        _hasten_moves()
        # A folder that was moved away and comes back is warned of, and watched as it should be.
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"watchdog\.")
        self._overflow = _Overflow(lost)
        self._logger = logging.getLogger("watchdog")
        self._logger.addHandler(self._overflow)
        self._logger.propagate = False
        self._observer: BaseObserver | None = None
        try:
            self._observer = Observer()
            self._observer.schedule(
                Handler(),
                os.fspath(vault),
                recursive=True,
                # Not opening and reading, which is what we do ourselves all the time.
                event_filter=[
                    *(FileCreatedEvent, FileModifiedEvent, FileClosedEvent),
                    *(FileMovedEvent, FileDeletedEvent),
                    *(DirCreatedEvent, DirMovedEvent, DirDeletedEvent),
                ],
            )
            self._observer.start()
        except BaseException:
            self.close()
            raise

    def hears(self) -> bool:
        """Whether it still does: it ends when the vault's folder goes away.

        So does watchdog's reading thread on Linux when folders that left the vault are deleted
        elsewhere, where another of the name had come and gone meanwhile.
        """
        observer = self._observer
        if observer is None:
            return False
        reader = _reader(observer)
        threads = [observer, *observer.emitters, *([reader] if reader is not None else [])]
        return all(thread.is_alive() for thread in threads)

    def unheard(self) -> str:
        """Why changes in a part of the vault go unheard, in a sentence; "" where none does.

        The system watches folders in a limited number, which all programs of a person share, and
        watchdog passes over those beyond it without a word.
        """
        if sys.platform != "linux":
            return ""
        for _ in range(2):  # a folder may come while they are counted
            watched, folders = _watched_folders(), _count_folders(self._root)
            if watched >= folders:
                return ""
        return (
            f"The system reports changes in {watched:,} of {folders:,} folders only, which is all "
            "that fs.inotify.max_user_watches leaves; the vault is looked at from time to time "
            "instead."
        )

    def close(self) -> None:
        """Listen no more."""
        observer, self._observer = self._observer, None
        if observer is not None:
            try:
                observer.stop()
                if observer.ident is not None:
                    observer.join(5.0)
            except KeyError:  # of a folder that left the vault: see `hears`
                if (reader := _reader(observer)) is not None:
                    reader.stop()
        self._logger.removeHandler(self._overflow)

    def _heard(self, event: "FileSystemEvent") -> None:
        for path in (event.src_path, event.dest_path):
            below = self._below(os.fsdecode(path)) if path else None
            if below is None:
                continue
            folder = event.is_directory
            # Of what was in a folder that leaves, nothing else is reported.
            left = folder and event.event_type == "deleted" and "/" not in below
            if self._is_settings(below) or (left and is_hidden(below)):
                self._settings()
            elif below.endswith(STAND_INS):
                above = below.rpartition("/")[0]
                if not is_hidden(above):
                    self._changed(above)  # so that what is said of a folder is said of all of it
            elif not is_hidden(below) and (folder or not f"/{below}".endswith(_PASSING)):
                self._changed(below)

    def _below(self, path: str) -> str | None:
        """A path as seen from the vault; None for one that is not below it."""
        if path + os.sep == self._root or path == self._root:
            return ""
        if not path.startswith(self._root):
            return None
        below = path[len(self._root) :]
        return below.replace(os.sep, "/") if os.sep != "/" else below


def _reader(observer: "BaseObserver") -> "BaseThread | None":
    """The thread that reads what inotify reports; None on other systems, or in other versions."""
    return getattr(observer, "_inotify_fd", None)


def _watched_folders() -> int:
    """How many folders this process has the system watch (Linux; see proc(5), fdinfo)."""
    watched = 0
    for name in os.listdir("/proc/self/fdinfo"):
        with suppress(OSError):  # closed meanwhile
            descriptor = os.open(f"/proc/self/fdinfo/{name}", os.O_RDONLY)
            with os.fdopen(descriptor) as lines:
                watched += sum(line.startswith("inotify wd:") for line in lines)
    return watched


def _count_folders(root: str) -> int:
    """Folders at and below one, as far as they can be listed."""
    return sum(1 for _ in os.walk(root))


class _Overflow(logging.Handler):
    """watchdog reports lost events in its log alone; nothing of the log goes anywhere else."""

    def __init__(self, lost: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self._lost = lost

    def emit(self, record: logging.LogRecord) -> None:
        self._lost()


def _hasten_moves() -> None:
    """Have the two halves of a move wait less for each other.

    The system reports them together. watchdog holds back a first half for half a second, and all
    that comes behind it, so that every editor that saves by renaming would be heard late.
    """
    try:
        from watchdog.observers.inotify_move_event_grouper import InotifyMoveEventGrouper
    except ImportError:
        return  # another system, or another version: heard late, and heard all the same
    InotifyMoveEventGrouper.delay = 0.05
