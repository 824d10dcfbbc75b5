"""What a scan saw, and how that differs from what the sidecar knows."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from vaultmem.model.note import Problem


class FileState(NamedTuple):
    """The first look at a file: cheap, and never the last word (its SHA-256 is)."""

    size: int  # bytes
    mtime_ns: int
    ctime_ns: int
    inode: int
    disk_path: str  # the spelling on disk, which may be NFD or hold no-break spaces


class StoredFile(NamedTuple):
    """What the sidecar remembers of a note's file."""

    state: FileState
    sha256: str  # hex, of the bytes that were indexed
    read_ns: int  # clock when those bytes were read, nanoseconds since the epoch
    identity: str | None  # frontmatter `id`, which outlives a change of path and text


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One walk over the vault. Paths are vault paths: NFC, `/` between parts."""

    notes: Mapping[str, FileState]  # to be indexed: notes and canvases
    files: frozenset[str]  # everything else a link can lead to, excluded notes among them
    excluded: Mapping[str, str]  # note path -> the rule that keeps it out of search
    problems: tuple[Problem, ...]  # what could not be looked at, and why
    unlisted: tuple[str, ...]  # folders that were not listed: absence below them proves nothing
    away: frozenset[str] = frozenset()  # notes whose text is elsewhere: a sync service's stand-ins
    region: frozenset[str] | None = None  # speaks of these and what is below; None: of all
    rest: tuple[str, ...] = ()  # folders, as on disk, whose turn had not come when time was up
    listed: frozenset[str] = frozenset()  # folders that were, though one above them was not

    @property
    def cut_short(self) -> bool:
        """Whether time was up before every folder had been listed."""
        return bool(self.rest)

    def speaks_of(self, path: str) -> bool:
        """Whether it says something about a vault path, if only that nothing is there."""
        if self.region is not None and not within(path, self.region):
            return False
        return not unseen(path, self.unlisted, self.listed)


def unseen(path: str, unlisted: Container[str], listed: Container[str]) -> bool:
    """Whether a vault path is below a folder that was not listed, so that absence proves nothing.

    unlisted, listed: of a snapshot. The nearest folder above it decides.
    """
    while path not in unlisted:
        if not path or path in listed:
            return False
        path = path.rpartition("/")[0]
    return True


def within(path: str, places: Container[str]) -> bool:
    """Whether a vault path is one of these places, or below one."""
    while path not in places:
        if not path:
            return False
        path = path.rpartition("/")[0]
    return True


@dataclass(frozen=True, slots=True)
class Suspects:
    """The outcome of the first look: whom to read."""

    new: tuple[str, ...]
    changed: tuple[str, ...]  # known, and looks different or is too young to trust
    missing: tuple[str, ...]
    unchanged: int


@dataclass(frozen=True, slots=True)
class Delta:
    """What indexing has to do. Sorted by path; every note is in one place at most."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...]  # (old path, new path)
    removed: tuple[str, ...]
    touched: tuple[str, ...]  # looks different, same bytes: remember the new look
    unchanged: int
