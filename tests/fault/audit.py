"""What this process opens for writing, changes on the disk and starts, by an audit hook.

For a process that ends when it is done with, as a fork does: a hook cannot be taken away again.
What counts, and what may be done where, is the table of tests/hostile/watch.py.
"""

import os
import sys

from watch import CHANGING, LEADING_OUT, WRITING, Event


def record_events() -> list[Event]:
    """The list that this process's events are added to from here on."""
    events: list[Event] = []
    two_paths = ("os.link", "os.rename", "os.symlink", "shutil.")

    def note(name: str, arguments: tuple[object, ...]) -> None:
        flags = 0
        given = arguments[: 2 if name.startswith(two_paths) else 1]
        if name == "open":
            flags = arguments[2] if isinstance(arguments[2], int) else 0
            # A number is a file that is open already.
            if not flags & WRITING or isinstance(arguments[0], int):
                return
        elif not name.startswith(LEADING_OUT) and name not in CHANGING:
            return
        paths = (os.fsdecode(a) if isinstance(a, str | bytes | os.PathLike) else a for a in given)
        events.append(Event(name, tuple(map(str, paths)), flags))

    sys.addaudithook(note)
    return events
