"""Hearing of changes in a vault, for who only wants to know whether there were any.

A server that hears of none need not look at thousands of files before each answer. It is no
watcher: it takes nothing in, holds no lock, and looks all the same once a minute.
"""

from contextlib import suppress
from pathlib import Path

from vaultmem.embedding.file_system import file_system
from vaultmem.service.settings import CONFIG_PATH
from vaultmem.vault.marks import ChangeMarks
from vaultmem.vault.obsidian import is_settings_file


class Listening:
    """Counts what is heard of changes in a vault, until it is closed."""

    def __init__(self, vault: Path) -> None:
        """Begin to listen, where all changes can be heard as soon as they are made."""
        self.vault = vault
        self._marks: ChangeMarks | None = None
        if not others_unheard(vault):
            with suppress(OSError):  # then each answer looks for itself
                self._marks = ChangeMarks(vault)

    def marks(self) -> int | None:
        """How many changes have been heard of; None where some may go unheard."""
        return self._marks.marks() if self._marks is not None else None

    def close(self) -> None:
        """Listen no more."""
        if self._marks is not None:
            self._marks.close()


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
