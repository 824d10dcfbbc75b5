"""Folders that travel with the program: the sample vault and the templates."""

from pathlib import Path

import vaultmem


def shipped_folder(name: str) -> Path:
    """The folder `name` as installed, or as it lies in a checkout.

    Raises FileNotFoundError when the installation is incomplete.
    """
    package = Path(vaultmem.__file__).resolve().parent
    for folder in (package / "shipped" / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"This installation of vaultmem lacks its {name} folder; reinstall it.")
