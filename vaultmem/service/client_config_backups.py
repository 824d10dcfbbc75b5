"""What is kept of clients' files before they are changed, in the state folder of the vault.

A copy holds whatever the file held, keys and passwords of other servers included, so it is for its
owner alone, and few are kept.
"""

import json
import os
import re
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from vaultmem.service.state_file import put_state_file

KEPT = 5  # copies of each file

_MADE = "made-folders.json"


def back_up(folder: Path, client: str, file: Path, content: bytes, now: datetime) -> Path:
    """Copy a file that is about to change, and let go of the oldest copies of it.

    folder: of the copies. Returns the path of the copy. Raises StateUnavailable.
    """
    # A client may have two files of one name.
    which = f"{client}-{sha256(os.fsencode(file)).hexdigest()[:8]}"
    # Counted, since a clock may go back: the time is for people, the number tells the order.
    number = 1 + max((copy[0] for copy in _copies(folder, which, file.name)), default=0)
    counted = f"-{number}" if number > 1 else ""
    name = f"{which}-{now:%Y%m%dT%H%M%SZ}{counted}-{file.name}"
    put_state_file(folder, name, content, replace=False)
    _let_go(folder, which, file.name)
    return folder / name


def _copies(folder: Path, which: str, file_name: str) -> list[tuple[int, str, str]]:
    """(number, time, name) of the copies of a file; the number is 1 where it has none."""
    pattern = re.compile(
        rf"{re.escape(which)}-(\d{{8}}T\d{{6}}Z)(?:-(\d+))?-{re.escape(file_name)}"
    )
    try:
        names = os.listdir(folder)
    except OSError:
        return []  # none was made yet; or making one says what is wrong
    found = [match for name in names if (match := pattern.fullmatch(name))]
    return [(int(match[2] or 1), match[1], match[0]) for match in found]


def _let_go(folder: Path, which: str, file_name: str) -> None:
    with suppress(OSError):  # one copy too many is no reason to leave a client unconnected
        for *_, name in sorted(_copies(folder, which, file_name))[:-KEPT]:
            (folder / name).unlink(missing_ok=True)


def made_folders(folder: Path) -> tuple[Path, ...]:
    """The folders that were made for files of clients and are not removed yet."""
    try:
        told = json.loads((folder / _MADE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return ()  # none, or nobody knows; a folder too many is left then
    listed = told if isinstance(told, list) else ()
    return tuple(Path(path) for path in listed if isinstance(path, str))


def remember_folders(folder: Path, made: Collection[Path]) -> None:
    """Write down which folders were made, in place of what was. Raises StateUnavailable."""
    written = json.dumps(sorted(map(str, made)), indent=2)
    put_state_file(folder, _MADE, written.encode(), replace=True)
