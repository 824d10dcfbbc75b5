"""The vaults that Obsidian itself knows on this computer, for who does not name one.

Obsidian keeps `obsidian.json` in its configuration folder: `{"vaults": {id: {"path": …}}}`. The
places are those of its packages for macOS, Windows and Linux (deb, AppImage, Flatpak, Snap).
"""

import json
import os
from pathlib import Path

from vaultmem.service.clients import Computer
from vaultmem.vault.read import read_file

_FILE = "obsidian.json"
_MOST_BYTES = 1 << 20


def known_vaults(computer: Computer) -> tuple[Path, ...]:
    """Folders that are there, by name; none where Obsidian is not, or says something strange."""
    found: set[Path] = set()
    for folder in _folders(computer):
        data = read_file(folder, _FILE, limit=_MOST_BYTES) if os.path.isdir(folder) else None
        if not isinstance(data, bytes):
            continue
        try:
            told = json.loads(data.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            continue  # it is Obsidian's, and a guess at most; the person names the vault then
        vaults = told.get("vaults") if isinstance(told, dict) else None
        for vault in vaults.values() if isinstance(vaults, dict) else ():
            path = vault.get("path") if isinstance(vault, dict) else None
            # `os.path` takes a folder that cannot be asked about for none.
            if isinstance(path, str) and os.path.isabs(path) and os.path.isdir(path):
                found.add(Path(os.path.realpath(path)))
    return tuple(sorted(found))


def _folders(computer: Computer) -> tuple[Path, ...]:
    return (
        computer.application_data / "obsidian",
        computer.home / ".var/app/md.obsidian.Obsidian/config/obsidian",
        computer.home / "snap/obsidian/current/.config/obsidian",
    )
