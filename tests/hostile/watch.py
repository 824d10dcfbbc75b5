"""Write down what a process opens, changes, starts and calls, by an audit hook.

    python watch.py RECORD SCRIPT [ARGUMENT ...]

An audit hook cannot be taken away again, so what is watched is a process of its own. RECORD gets a
line of JSON an event. The script may set marks between its steps with `sys.audit("mark", name)`.
SQLite opens its files in C, below every hook: what it may touch is the sidecar's folder, and tests
compare the folders around it by their listings.
"""

import json
import os
import runpy
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

MARK = "mark"
LISTING = ("os.listdir", "os.scandir", "os.walk", "os.fwalk", "glob.glob", "glob.glob/2")
CHANGING = (
    "os.chflags", "os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.removexattr",
    "os.rename", "os.rmdir", "os.setxattr", "os.symlink", "os.truncate", "os.utime",
    "shutil.chown", "shutil.copyfile", "shutil.copymode", "shutil.copystat", "shutil.copytree",
    "shutil.move", "shutil.rmtree", "tempfile.mkdtemp", "tempfile.mkstemp",
)  # fmt: skip
LEADING_OUT = (
    "ftplib.", "http.client.", "imaplib.", "nntplib.", "os.exec", "os.fork", "os.posix_spawn",
    "os.spawn", "os.startfile", "os.system", "poplib.", "pty.spawn", "smtplib.", "socket.",
    "subprocess.", "telnetlib.", "urllib.", "webbrowser.",
)  # fmt: skip

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True, slots=True)
class Event:
    """Something a process did."""

    name: str
    paths: tuple[str, ...]  # for what leads out: its arguments
    flags: int  # of an open


@dataclass(frozen=True, slots=True)
class Places:
    """What a process may touch. A folder stands for everything below it."""

    vault: Path  # to be read and listed, no part of a path being a link
    written: tuple[Path, ...]  # folders of its own
    read: tuple[Path, ...]  # folders and files of the installation and of the system

    def breach(self, event: Event) -> str | None:
        """What is wrong with an event, in words; None when nothing is."""
        if event.name.startswith(LEADING_OUT):
            return f"{event.name} {event.paths}"
        for path in event.paths:
            if event.name in CHANGING:
                allowed = _below(path, self.written)
            elif event.name == "open" and event.flags & WRITING:
                allowed = _below(path, self.written) or path == os.devnull
            elif not os.path.isabs(path):
                # Relative to a folder that is open already: a plain name, not followed.
                plain = "/" not in path and path not in ("", ".", "..")
                allowed = event.name == "open" and plain and bool(event.flags & NO_FOLLOW)
            else:
                straight = os.path.realpath(path) == path and _below(path, (self.vault,))
                allowed = straight or _below(path, (*self.written, *self.read))
            if not allowed:
                return f"{event.name} {path} {event.flags:#o}"
        return None

    def breaches(self, events: Iterable[Event]) -> list[str]:
        """What is wrong with events, each thing once."""
        found = (self.breach(event) for event in set(events))
        return sorted({breach for breach in found if breach is not None})


def _below(path: str, places: Sequence[Path]) -> bool:
    spelled = Path(os.path.normpath(path))
    return any(spelled.is_relative_to(place) for place in places)


def read_record(record: Path) -> list[Event]:
    """The events of a record, in their order."""
    events = []
    for line in record.read_text("utf-8").splitlines():
        name, paths, flags = json.loads(line)
        events.append(Event(name, tuple(paths), flags))
    return events


def write_record(record: str) -> None:
    """Write down what this process does from here on."""
    into = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    # What a reader of the record wants is the path; 0 where a call names no second one.
    two_paths = ("os.link", "os.rename", "os.symlink", "shutil.")

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            given, flags = arguments[:1], arguments[2]
            # A number is a file that is open already; that opening has its own line.
            if isinstance(given[0], int):
                return
        elif event == MARK or event.startswith(LEADING_OUT):
            given, flags = arguments, 0
        elif event in CHANGING or event in LISTING:
            given, flags = arguments[: 2 if event.startswith(two_paths) else 1], 0
        else:
            return
        paths = [
            os.fsdecode(a) if isinstance(a, str | bytes | os.PathLike) else str(a) for a in given
        ]
        line = json.dumps([event, paths, flags if isinstance(flags, int) else 0])
        os.write(into, line.encode() + b"\n")

    sys.addaudithook(note)


if __name__ == "__main__":
    write_record(sys.argv[1])
    sys.argv = sys.argv[2:]
    sys.path[0] = os.path.dirname(sys.argv[0])
    runpy.run_path(sys.argv[0], run_name="__main__")
