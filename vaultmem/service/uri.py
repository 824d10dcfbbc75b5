"""Addresses that open a place in Obsidian."""

from pathlib import Path
from urllib.parse import quote


def obsidian_uri(vault: Path, path: str, trail: tuple[str, ...] = ()) -> str:
    """`obsidian://open` for a note, at its innermost heading where there is one."""
    place = path + (f"#{trail[-1]}" if trail else "")
    return f"obsidian://open?vault={quote(vault.name, safe='')}&file={quote(place, safe='')}"
