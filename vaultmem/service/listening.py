"""Hearing of changes in a vault, for who only wants to know whether there were any.

A server that hears of none need not look at thousands of files before each answer. It is no
watcher: it takes nothing in, holds no lock, and looks all the same once a minute.
"""

import threading
from pathlib import Path

from vaultmem.embedding.file_system import file_system
from vaultmem.service.settings import CONFIG_PATH
from vaultmem.vault.obsidian import is_settings_file
from vaultmem.vault.watch import FolderWatch


class Listening:
    """Counts what is heard of changes in a vault, until it is closed."""

    def __init__(self, vault: Path) -> None:
        """Begin to listen, where all changes can be heard."""
        self._counting = threading.Lock()
        self._count = 0
        self._watch: FolderWatch | None = None
        if others_unheard(vault):
            return
        try:
            self._watch = FolderWatch(
                vault,
                changed=lambda path: self._mark(),
                lost=self._mark,
                settings=self._mark,
                is_settings=settings_path,
            )
        except OSError:
            return  # the system reports no changes there: each answer looks for itself
        if self._watch.unheard():
            self.close()

    def marks(self) -> int | None:
        """How many changes have been heard of; None where some may go unheard."""
        watch = self._watch
        return self._count if watch is not None and watch.hears() else None

    def close(self) -> None:
        """Listen no more."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def _mark(self) -> None:
        with self._counting:
            self._count += 1


def settings_path(path: str) -> bool:
    """Whether settings come from this file below the vault."""
    return path == CONFIG_PATH or is_settings_file(path)


def others_unheard(vault: Path) -> str:
    """Why changes by other machines go unheard, in a sentence; "" on a disk of this one."""
    if file_system(vault).local is not False:
        return ""
    return (
        f"{vault} is on a network drive, where changes that others make are not reported; it is "
        "looked at from time to time as well."
    )
