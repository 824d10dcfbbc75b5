"""Vault paths: NFC, `/` between parts, no leading slash. The one place that makes them."""

import re

from vaultmem.vault.composed import normal_form

_NO_BREAK_SPACES = str.maketrans({"\u00a0": " ", "\u202f": " "})
_SLASHES = re.compile(r"[\\/]+")


def vault_path(path: str) -> str:
    """The vault path of a path as a person, a link or another program spells it.

    Obsidian does the same: NFC, plain spaces for no-break ones, single forward slashes.
    """
    if not path.isascii():
        path = normal_form("NFC", path).translate(_NO_BREAK_SPACES)
    if "\\" in path or "//" in path:
        path = _SLASHES.sub("/", path)
    return path.strip("/")


def name_from_disk(name: str) -> str:
    """The vault spelling of one file or folder name as the disk gives it."""
    if name.isascii():
        return name
    return normal_form("NFC", name).translate(_NO_BREAK_SPACES)


def is_note(name: str) -> bool:
    """Whether a file of this name is a Markdown note: `N.MD` is, `.md` alone is not."""
    return len(name) > 3 and name[-3:].lower() == ".md" and name[-4] != "/"


def is_canvas(name: str) -> bool:
    """Whether a file of this name is a canvas, whose cards are searched as notes are."""
    return len(name) > 7 and name[-7:].lower() == ".canvas"


def is_searched(name: str) -> bool:
    """Whether a file of this name holds text that is searched: a note or a canvas."""
    return is_note(name) or is_canvas(name)


def is_hidden(path: str) -> bool:
    """Whether Obsidian never sees this path: one of its parts begins with a dot."""
    return path.startswith(".") or "/." in path


def fold(text: str) -> str:
    """The form in which names, tags and aliases are compared."""
    if text.isascii():
        return text.lower()
    # Some capitals are two characters, and their small letter is one.
    return normal_form("NFC", normal_form("NFC", text).lower())
