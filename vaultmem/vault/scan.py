"""The walk over a vault: what is there, without reading a single note."""

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from pathlib import Path

from vaultmem.model.delta import FileState, Snapshot, within
from vaultmem.model.note import Problem
from vaultmem.security.hidden import shown
from vaultmem.vault.ignore import IgnoreRules
from vaultmem.vault.paths import is_hidden, is_searched, name_from_disk
from vaultmem.vault.read import is_elsewhere

# What no wikilink can hold, what is a path elsewhere, what steers a terminal.
_ODD_NAME = re.compile(r"[\x00-\x1f\x7f\\#^|]|\[\[|\]\]")
# The shortest limit of a system that notes are carried to (macOS), in bytes.
_LONG_PATH = 1024

# What stands in for a file that was not fetched: iCloud's, Nextcloud's, ownCloud's.
_STAND_INS = (".{}.icloud", "{}.nextcloud", "{}.owncloud")

# SQLite's integers are signed; some network file systems use all 64 bits.
_INODE_MASK = 0x7FFF_FFFF_FFFF_FFFF
# As nanoseconds they reach to the year 2262, and a disk keeps whatever time a file was given.
_LAST_NS = 0x7FFF_FFFF_FFFF_FFFF


def scan(
    vault: Path,
    rules: IgnoreRules,
    *,
    max_note_bytes: int,
    only: Collection[str] | None = None,
    time_is_up: Callable[[], bool] | None = None,
    first: Sequence[str] = (),
) -> Snapshot:
    """One walk. Dot folders, links and special files are left alone, and nothing raises.

    vault:          an absolute folder.
    max_note_bytes: a larger note is reported and not indexed.
    only:           paths below the vault, as the disk spells them: nothing but these, and what is
                    below them, is looked at.
    time_is_up:     asked before each folder but the first two; then the rest is left unlisted.
    first:          folders, as the disk spells them, whose turn it is: the rest of an earlier walk.
    A folder that cannot be listed becomes a problem and an entry of `Snapshot.unlisted`.
    """
    walk = _Walk(rules, max_note_bytes)
    region: set[str] | None = None
    pending = [(str(vault), "", "")]
    if only is not None:
        pending, region = walk.places(str(vault), only)
    listed: set[str] = set()
    spelt: set[str] = set()  # ... as the vault spells them
    turns: dict[str, str] = {}  # the same of those whose turn has not come, the next one first
    while pending:
        folder, disk_prefix, prefix = pending.pop()
        if disk_prefix in listed:
            continue
        # One besides the vault itself, or a walk after another would get nowhere.
        over = turns or (len(listed) > 1 and time_is_up is not None and time_is_up())
        # Where a folder is there in two spellings, which file of the two has the name is told by
        # both: both are looked at, or neither is.
        if over and prefix not in spelt:
            turns.setdefault(disk_prefix, prefix)
            continue
        pending += walk.folder(folder, disk_prefix, prefix)
        if not listed and first:
            pending += walk.folders(str(vault), first)
        listed.add(disk_prefix)
        spelt.add(prefix)
    for disk_prefix, prefix in turns.items():
        walk.not_listed(disk_prefix, prefix)
    rest = tuple(disk.rstrip("/") for disk in reversed(turns))
    return Snapshot(
        notes=dict(sorted(walk.notes.items())),
        files=frozenset(walk.files),
        excluded=walk.excluded,
        problems=tuple(sorted([*walk.problems, *walk.stand_ins(region)], key=lambda p: p.path)),
        unlisted=tuple(sorted(walk.unlisted)),
        away=walk.absent(region),
        region=None if region is None else frozenset(region),
        rest=rest,
        listed=walk.out_of_turn(spelt | listed) if rest else frozenset(),
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
        self.unlisted: set[str] = set()
        self.away: set[str] = set()
        self.region: set[str] | None = None  # while single places are looked at: what they are

    def places(
        self, vault: str, only: Collection[str]
    ) -> tuple[list[tuple[str, str, str]], set[str]]:
        """Look at single places. only: paths below the vault, as the disk spells them.

        Returns the folders among them, to be walked, and the vault paths of all of them. Of a
        place whose folder is gone, the folder is the place.
        """
        spelt = {path: _spelt(path) for path in only if _is_plain(path)}
        places = frozenset(spelt.values())
        wanted: dict[str, set[str]] = {}  # folder -> names in it, as the vault spells them
        region: set[str] = set()
        for path, place in spelt.items():
            above = place.rpartition("/")[0]
            if above and within(above, places):
                region.add(path)
                continue  # it is seen with that place, and must not be twice
            parts, parts_spelt = path.split("/"), place.split("/")
            reached = _reached(vault, parts[:-1])
            if reached is None:
                continue
            # Nothing below a name that is no text is seen.
            reached = next((n for n in range(reached) if not _is_text(parts[n])), reached)
            name = parts_spelt[reached]
            names = wanted.setdefault("/".join(parts_spelt[:reached]), set())
            names |= {name, _stood_in_for(name) or name}
            # What has another's name is known by its own spelling of it.
            region.add("/".join(parts[: reached + 1]))
            region.add("/".join((*parts_spelt[:reached], parts[reached])))
        below: list[tuple[str, str, str]] = []
        self.region = region
        for folder, names in sorted(wanted.items()):
            prefix = folder + "/" if folder else ""
            names |= {form.format(name) for name in names for form in _STAND_INS}
            region.update(prefix + name for name in names)
            for disk_prefix in _spellings(vault, folder):
                found = self.folder(f"{vault}/{disk_prefix}", disk_prefix, prefix, names)
                below = found + below  # whose turn comes from the end
        self.region = None
        return below, {_printable(path) for path in region}

    def folders(self, vault: str, given: Sequence[str]) -> list[tuple[str, str, str]]:
        """Those of these folders that are there, as (full, disk prefix, prefix)."""
        found: list[tuple[str, str, str]] = []
        for path in given:
            parts = path.split("/")
            if _reached(vault, parts) == len(parts) and not is_hidden(path):
                prefix = "".join(name_from_disk(part) + "/" for part in parts)
                found.append((os.path.join(vault, path), path + "/", prefix))
        return found

    def absent(self, region: Container[str] | None) -> frozenset[str]:
        """Notes whose text is elsewhere. A stand-in in the region may be of a note beyond it."""
        away = self.away - self.notes.keys()
        return frozenset(path for path in away if region is None or within(path, region))

    def stand_ins(self, region: Container[str] | None) -> list[Problem]:
        """What is to be said of notes whose text is elsewhere: a line for each folder.

        Of a folder that was looked at in parts, nothing: it would be another number each time.
        """
        folders = Counter(path.rpartition("/")[0] for path in self.absent(region))
        return [
            Problem(
                folder or ".",
                0,
                "not-here",
                f"{count:,} of its notes are not on this device, only a sync service's stand-ins "
                "for them. What was indexed of them is kept; download them to have the rest.",
            )
            for folder, count in sorted(folders.items())
            if region is None or within(folder, region)
        ]

    def folder(
        self, folder: str, disk_prefix: str, prefix: str, names: Container[str] | None = None
    ) -> list[tuple[str, str, str]]:
        """Take one folder in; returns the folders below it as (full, disk prefix, prefix).

        names: of what to look at in it, as the vault spells them; None for everything.
        """
        below: list[tuple[str, str, str]] = []
        try:
            with os.scandir(folder) as listing:
                chosen = [e for e in listing if names is None or name_from_disk(e.name) in names]
                # Sorted, so that two spellings of one name always meet in the same order.
                # The composed spelling comes first: it is the one that a vault path has.
                entries = sorted(chosen, key=lambda entry: (not _composed(entry.name), entry.name))
        except OSError as error:
            self.not_listed(disk_prefix, prefix)
            self._report(
                prefix.rstrip("/") or ".", "folder-unreadable", f"Cannot list it: {error.strerror}."
            )
            return below
        for entry in entries:
            name = entry.name
            if self.region is not None:
                self.region.update((prefix + name, disk_prefix + name))
            # (What is a path on Windows, `..\\x`, is no hidden file, and Windows has none such.)
            # What an office program locks a file with is no file either.
            if name.startswith((".", "~$")) and not name.startswith("..\\"):
                self._stand_in(name, prefix)
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
                if not gone:
                    self.not_listed(disk_prefix, prefix)
                self._report(prefix + name, "unreadable", f"Cannot look at it: {error.strerror}.")
        return below

    def not_listed(self, disk_prefix: str, prefix: str) -> None:
        """Absence below a folder proves nothing: below its path, and below its own spelling, which
        stands for a path where another file has that."""
        self.unlisted.update((prefix.rstrip("/"), disk_prefix.rstrip("/")))

    def out_of_turn(self, prefixes: Iterable[str]) -> frozenset[str]:
        """Those of the folders listed that lie below one that was not. prefixes: of all listed."""
        folders = {prefix.rstrip("/") for prefix in prefixes} - self.unlisted
        return frozenset(folder for folder in folders if within(folder, self.unlisted))

    def _file(self, entry: "os.DirEntry[str]", disk_prefix: str, prefix: str) -> None:
        name = self._spelling(entry.name, prefix)
        if name is None:
            return
        path = prefix + name
        if not is_searched(name):
            self.files.add(path)
            self._stand_in(name, prefix)
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
        if is_elsewhere(state):
            self.away.add(path)
            return
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
            _bounded(state.st_mtime_ns),
            _bounded(state.st_ctime_ns),
            state.st_ino & _INODE_MASK,
            disk_prefix + entry.name,
        )

    def _stand_in(self, name: str, prefix: str) -> None:
        """Take note of what a sync service leaves in place of a note that is elsewhere."""
        real = _stood_in_for(name)
        if real is None:
            return
        if is_searched(real) and (spelt := self._spelling(real, prefix)) is not None:
            self.away.add(prefix + spelt)

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
        if not _is_text(name):
            self._report(
                prefix + name,
                "name-not-text",
                "Its name is not valid UTF-8; rename it to index it.",
            )
            return None
        return name_from_disk(name)

    def _report(self, path: str, code: str, message: str) -> None:
        self.problems.append(Problem(_printable(path), 0, code, message))


def _why_odd(sign: str) -> str:
    if sign == "\\":
        return "which parts folders on Windows"
    return "which no link can hold" if sign.isprintable() else "which is no part of a name"


def _printable(path: str) -> str:
    """A path that can be stored and shown, whatever bytes its names are."""
    return path.encode("utf-8", "backslashreplace").decode("utf-8")


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _is_plain(path: str) -> bool:
    """Whether a path leads to what is seen of a vault."""
    return bool(path) and {"", ".", ".."}.isdisjoint(path.split("/")) and not is_hidden(path)


def _spelt(path: str) -> str:
    return "/".join(map(name_from_disk, path.split("/")))


def _stood_in_for(name: str) -> str | None:
    """The file that a sync service's file stands in for."""
    for form in _STAND_INS:
        before, after = form.split("{}")
        if name.startswith(before) and name.endswith(after):
            return name[len(before) : -len(after)]
    return None


def _spellings(vault: str, folder: str) -> list[str]:
    """The folders that are one by their vault path, as disk prefixes, in the order of a walk."""
    found = [""]
    for part in folder.split("/") if folder else ():
        below: list[str] = []
        for prefix in found:
            try:
                below += [f"{prefix}{name}/" for name in _twins(f"{vault}/{prefix}", part)]
            except OSError:
                below.append(f"{prefix}{part}/")  # listing it says what is wrong
        found = below
    return found


def _twins(folder: str, name: str) -> list[str]:
    """The folders in a folder that the vault spells alike, as the disk spells them."""
    if name.isascii() and " " not in name:
        try:
            return [name] if stat.S_ISDIR(os.lstat(os.path.join(folder, name)).st_mode) else []
        except FileNotFoundError:
            return []
    with os.scandir(folder) as listing:
        names = [
            entry.name
            for entry in listing
            if name_from_disk(entry.name) == name and entry.is_dir(follow_symlinks=False)
        ]
    return sorted(names, key=lambda name: (not _composed(name), name), reverse=True)


def _reached(vault: str, folders: Sequence[str]) -> int | None:
    """How many of these folders, one below the other, are there; None where one is a link."""
    path = vault
    for count, name in enumerate(folders):
        path = os.path.join(path, name)
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return count
        except (OSError, ValueError):
            return len(folders)  # listing it says what is wrong
        if not stat.S_ISDIR(mode):
            return None if stat.S_ISLNK(mode) else count
    return len(folders)


def _bounded(time_ns: int) -> int:
    """The time, or the nearest that can be stored."""
    return min(max(time_ns, -_LAST_NS), _LAST_NS)


def _composed(name: str) -> bool:
    return name.isascii() or name_from_disk(name) == name


def _is_junction(entry: "os.DirEntry[str]") -> bool:
    """Windows' other kind of link; `DirEntry.is_junction` came only with Python 3.12."""
    if os.name != "nt":
        return False
    tag = getattr(entry.stat(follow_symlinks=False), "st_reparse_tag", 0)
    return bool(tag == getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", -1))
