"""Asking before anything is done."""

import sys
from collections.abc import Callable


def agreed(write: Callable[[str], None], *, as_json: bool) -> bool:
    """Whether the person at the terminal says yes; else, and without one there, it says that
    nothing was done.

    write: prints on standard output.
    """
    if as_json or sys.stdin is None or not sys.stdin.isatty() or sys.stderr is None:
        if not as_json:
            write("Nothing was done. Add --yes to do it.\n")
        return False
    sys.stderr.write("Do this? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    write("Nothing was done.\n")
    return False
