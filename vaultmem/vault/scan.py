"""The walk over a vault: what is there, without reading a single note."""

import os
import re
import stat
from pathlib import Path

from vaultmem.model.delta import FileState, Snapshot
from vaultmem.model.note import Problem
from vaultmem.security.hidden import shown
from vaultmem.vault.ignore import IgnoreRules
from vaultmem.vault.paths import is_searched, name_from_disk

# What no wikilink can hold, what is a path elsewhere, what steers a terminal.
_ODD_NAME = re.compile(r"[\x00-\x1f\x7f\\#^|]|\[\[|\]\]")
# The shortest limit of a system that notes are carried to (macOS), in bytes.
_LONG_PATH = 1024

# SQLite's integers are signed; some network file systems use all 64 bits.
_INODE_MASK = 0x7FFF_FFFF_FFFF_FFFF


def scan(vault: Path, rules: IgnoreRules, *, max_note_bytes: int) -> Snapshot:
    """One walk. Dot folders, links and special files are left alone, and nothing raises.

    vault:          an absolute folder.
    max_note_bytes: a larger note is reported and not indexed.
    A folder that cannot be listed becomes a problem and an entry of `Snapshot.unlisted`.
    """
    walk = _Walk(rules, max_note_bytes)
    pending = [(str(vault), "", "")]
    while pending:
        folder, disk_prefix, prefix = pending.pop()
        pending += walk.folder(folder, disk_prefix, prefix)
    return Snapshot(
        notes=dict(sorted(walk.notes.items())),
        files=frozenset(walk.files),
        excluded=walk.excluded,
        problems=tuple(sorted(walk.problems, key=lambda problem: problem.path)),
        unlisted=tuple(sorted(walk.unlisted)),
    )


class _Walk:
    """What has been seen so far."""

    def __init__(self, rules: IgnoreRules, max_note_bytes: int) -> None:
        self.rules = rules
        self.max_note_bytes = max_note_bytes
        self.notes: dict[str, FileState] = {}
        self.files: set[str] = set()
        self.excluded: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.unlisted: list[str] = []

    def folder(self, folder: str, disk_prefix: str, prefix: str) -> list[tuple[str, str, str]]:
        """Take one folder in; returns the folders below it as (full, disk prefix, prefix)."""
        below: list[tuple[str, str, str]] = []
        try:
            with os.scandir(folder) as listing:
                # Sorted, so that two spellings of one name always meet in the same order.
                # The composed spelling comes first: it is the one that a vault path has.
                entries = sorted(listing, key=lambda entry: (not _composed(entry.name), entry.name))
        except OSError as error:
            self.unlisted.append(prefix.rstrip("/"))
            self._report(
                prefix.rstrip("/") or ".", "folder-unreadable", f"Cannot list it: {error.strerror}."
            )
            return below
        for entry in entries:
            name = entry.name
            # (What is a path on Windows, `..\\x`, is no hidden file, and Windows has none such.)
            # What an office program locks a file with is no file either.
            if name.startswith((".", "~$")) and not name.startswith("..\\"):
                continue
            try:
                if entry.is_symlink() or _is_junction(entry):
                    self._link(entry, prefix)
                elif entry.is_dir(follow_symlinks=False):
                    shown = self._spelling(name, prefix)
                    if shown is not None:
                        self._name(name, prefix)
                        below.append((entry.path, f"{disk_prefix}{name}/", f"{prefix}{shown}/"))
                elif entry.is_file(follow_symlinks=False):
                    self._file(entry, disk_prefix, prefix)
                elif is_searched(name):
                    self._report(
                        prefix + name, "not-a-file", "It is not a regular file; it is left alone."
                    )
            except OSError as error:
                gone = isinstance(error, FileNotFoundError)
                if not gone and prefix.rstrip("/") not in self.unlisted:
                    self.unlisted.append(prefix.rstrip("/"))
                self._report(prefix + name, "unreadable", f"Cannot look at it: {error.strerror}.")
        return below

    def _file(self, entry: "os.DirEntry[str]", disk_prefix: str, prefix: str) -> None:
        name = self._spelling(entry.name, prefix)
        if name is None:
            return
        path = prefix + name
        if not is_searched(name):
            self.files.add(path)
            return
        if path in self.notes or path in self.excluded:
            path = self._second(path, disk_prefix + entry.name)
        self._name(entry.name, prefix)
        if len(os.fsencode(path)) > _LONG_PATH:
            self._report(
                path,
                "path-long",
                f"Its path has {len(os.fsencode(path)):,} bytes; other systems, and programs that "
                "sync, cannot open it.",
            )
        reason = self.rules.reason(path)
        if reason is not None:
            self.files.add(path)
            self.excluded[path] = reason
            if reason.startswith("conflict copy"):
                self._report(
                    path, "conflict-copy", "A sync service made this copy; it is not searched."
                )
            return
        state = entry.stat(follow_symlinks=False)
        if state.st_size > self.max_note_bytes:
            self.files.add(path)
            self.excluded[path] = "setting scan.max_note_bytes"
            self._report(
                path,
                "note-too-large",
                f"The note has {state.st_size:,} bytes, more than the limit of "
                f"{self.max_note_bytes:,} (setting scan.max_note_bytes); it is not indexed.",
            )
            return
        self.notes[path] = FileState(
            state.st_size,
            state.st_mtime_ns,
            state.st_ctime_ns,
            state.st_ino & _INODE_MASK,
            disk_prefix + entry.name,
        )

    def _second(self, path: str, disk_path: str) -> str:
        """The path of a file whose own spelling of it another file has, on other systems the same.

        Neither may be lost. The one that is spelt as vault paths are keeps the path; the other has
        its own spelling for one.
        """
        known = self.notes.get(path)
        if known is None or disk_path != path or known.disk_path == path:
            return disk_path
        self.notes[known.disk_path] = self.notes.pop(path)
        return path

    def _name(self, name: str, prefix: str) -> None:
        """Report a name that cannot be linked to, or that does not show what it is."""
        odd = _ODD_NAME.search(name)
        if odd is not None:
            sign = odd.group()
            shown_sign = sign if sign.isprintable() else f"\\x{ord(sign):02x}"
            self._report(
                prefix + name, "name-odd", f"Its name holds {shown_sign}, {_why_odd(sign)}."
            )
        elif not name.isascii() and shown(name) != name:
            message = f"Its name holds characters that nobody sees: {shown(name)}."
            self._report(prefix + name, "name-odd", message)

    def _link(self, entry: "os.DirEntry[str]", prefix: str) -> None:
        # Where it leads is not looked at: that is outside, and may be a server that is away.
        if is_searched(entry.name) or "." not in entry.name:
            self._report(
                prefix + entry.name, "linked", "It is a symbolic link; links are not followed."
            )

    def _spelling(self, name: str, prefix: str) -> str | None:
        """The vault spelling of a name; None, and a problem, for bytes that are no text."""
        if name.isascii():
            return name
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            shown = name.encode("utf-8", "backslashreplace").decode("utf-8")
            self._report(
                prefix + shown,
                "name-not-text",
                "Its name is not valid UTF-8; rename it to index it.",
            )
            return None
        return name_from_disk(name)

    def _report(self, path: str, code: str, message: str) -> None:
        shown = path.encode("utf-8", "backslashreplace").decode("utf-8")
        self.problems.append(Problem(shown, 0, code, message))


def _why_odd(sign: str) -> str:
    if sign == "\\":
        return "which parts folders on Windows"
    return "which no link can hold" if sign.isprintable() else "which is no part of a name"


def _composed(name: str) -> bool:
    return name.isascii() or name_from_disk(name) == name


def _is_junction(entry: "os.DirEntry[str]") -> bool:
    """Windows' other kind of link; `DirEntry.is_junction` came only with Python 3.12."""
    if os.name != "nt":
        return False
    tag = getattr(entry.stat(follow_symlinks=False), "st_reparse_tag", 0)
    return bool(tag == getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", -1))
