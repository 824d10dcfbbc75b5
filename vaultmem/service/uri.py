"""Addresses that open a place in Obsidian."""

import re
from pathlib import Path
from urllib.parse import quote

_NOT_IN_LINKS = re.compile(r"[:#|^\\]|%%|\[\[|\]\]")


def obsidian_uri(vault: Path, path: str, trail: tuple[str, ...] = ()) -> str:
    """`obsidian://open` for a note, at its innermost heading where there is one."""
    # What a link to a heading leaves out (Obsidian's own rule for writing one).
    heading = " ".join(_NOT_IN_LINKS.sub(" ", trail[-1]).split()) if trail else ""
    place = path + (f"#{heading}" if heading else "")
    # The folder may have a name that is not UTF-8: its bytes are what Obsidian would be given.
    name = quote(vault.name, safe="", errors="surrogateescape")
    return f"obsidian://open?vault={name}&file={quote(place, safe='')}"
