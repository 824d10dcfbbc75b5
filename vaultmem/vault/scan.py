"""The walk over a vault: what is there, without reading a single note."""

import os
import stat
from pathlib import Path

from vaultmem.model.delta import FileState, Snapshot
from vaultmem.model.note import Problem
from vaultmem.vault.ignore import IgnoreRules
from vaultmem.vault.paths import is_searched, name_from_disk

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
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            self.unlisted.append(prefix.rstrip("/"))
            self._report(
                prefix.rstrip("/") or ".", "folder-unreadable", f"Cannot list it: {error.strerror}."
            )
            return below
        for entry in entries:
            name = entry.name
            if name.startswith("."):
                continue
            try:
                if entry.is_symlink() or _is_junction(entry):
                    self._link(entry, prefix)
                elif entry.is_dir(follow_symlinks=False):
                    shown = self._spelling(name, prefix)
                    if shown is not None:
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
        if path in self.notes or path in self.files:
            self._report(
                path,
                "name-collision",
                "Two files differ only in how their names are encoded; the first is indexed.",
            )
            return
        if not is_searched(name):
            self.files.add(path)
            return
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

    def _link(self, entry: "os.DirEntry[str]", prefix: str) -> None:
        if is_searched(entry.name) or os.path.isdir(entry.path):
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


def _is_junction(entry: "os.DirEntry[str]") -> bool:
    """Windows' other kind of link; `DirEntry.is_junction` came only with Python 3.12."""
    if os.name != "nt":
        return False
    tag = getattr(entry.stat(follow_symlinks=False), "st_reparse_tag", 0)
    return bool(tag == getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", -1))
