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
    return f"obsidian://open?vault={quote(vault.name, safe='')}&file={quote(place, safe='')}"
