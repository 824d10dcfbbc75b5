"""One indexing run: a look at the vault, what differs from what is known, and that taken in."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import NamedTuple

from vaultmem.index.links import announce_relink, must_relink, relink
from vaultmem.index.lock import writer_lock
from vaultmem.index.lookup import Lookup
from vaultmem.index.requests import requested, settle_requests
from vaultmem.index.store import (
    Sidecar,
    create,
    discard_unfinished,
    lies_in,
    made_aside,
    make_folder,
    put_in_place,
    stored_paths,
    unwritable,
)
from vaultmem.index.update import (
    Entry,
    erase_later,
    erase_now,
    is_undated,
    move_days,
    must_erase,
    put_files,
    put_note,
    put_scan_problems,
    remove_note,
    stored_files,
    touch,
)
from vaultmem.model.delta import Delta, Snapshot, Suspects
from vaultmem.model.errors import SidecarDamaged, SidecarUnavailable, VaultEmpty, VaultUnreadable
from vaultmem.model.note import Problem
from vaultmem.security.mask import key_name
from vaultmem.service.application import Memory
from vaultmem.service.state_file import discard_unfinished_state
from vaultmem.service.vault_settings import remember_settings
from vaultmem.vault.chunk import chunk_note
from vaultmem.vault.delta import (
    decide,
    first_look,
    match_renames,
    standing_files,
    was_young,
)
from vaultmem.vault.facts import is_stub, note_date, note_identity, note_kind
from vaultmem.vault.ignore import compile_rules
from vaultmem.vault.items import find_items
from vaultmem.vault.links import VaultNames
from vaultmem.vault.parse import parse, screened_file
from vaultmem.vault.paths import is_canvas
from vaultmem.vault.read import Door, Unread
from vaultmem.vault.scan import scan
from vaultmem.vault.screen import Screened

# A commit per note took a third of a first build (10.2 CPU-s against 5.9 on 6,571 notes), nearly
# all of it writing the same few pages of the full-text index again and again. So a burst commits
# about this many notes together, a second's work; a note's rows and its hash still
# stand or fall as one.
BATCH_NOTES = 1024
# So few are committed one by one.
FEW_NOTES = 100

# Erasing words one by one costs 5 CPU-ms a note; writing the whole full-text index anew, which
# erases all that is out of date at once, costs 0.3 CPU-ms for each note of the vault.
MANY_REWRITTEN = 200
MANY_REWRITTEN_SHARE = 0.06

# Read and screened together; however long they are, no more than a note or two at a time.
AHEAD_NOTES = 64
AHEAD_BYTES = 1 << 20

# Set once a run has taken in everything it saw; until then notes are missing from the index.
COMPLETE = "complete"

# The time zone that undated notes have their days by: a journey changes them, and no file.
_ZONE = "zone"

# Folders that the last look had no time for, so that the next begins with them.
_REST = "look_rest"

# How many notes there were when the first of those was missed that are kept. New ones would make
# the share of the missing look smaller, as where another vault has taken this one's place.
_WHOLE = "notes_when_whole"

# So long a run waits for another process to end its own, in seconds.
LOCK_SECONDS = 60.0

# Where more notes than this, and than this share of all, are gone at once, it is rather the disk
# that is: they are kept until a person says that they are gone.
MANY_MISSING = 50
MANY_MISSING_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a run may go."""

    lock_seconds: float = LOCK_SECONDS  # to wait while another process indexes
    seconds: float | None = None  # to look and take in; what is left then is the next run's
    accept_deletions: bool = False  # however many notes are gone, they are gone
    # Which of the notes that are gone may be forgotten now; None for all.
    confirmed: Callable[[frozenset[str]], frozenset[str]] | None = None


@dataclass(frozen=True, slots=True)
class NoteCounts:
    """What became of the notes."""

    total: int
    added: int
    changed: int
    renamed: int
    removed: int
    unchanged: int

    @property
    def touched(self) -> int:
        """How many of them are not as they were."""
        return self.added + self.changed + self.renamed + self.removed


@dataclass(frozen=True, slots=True)
class Taken:
    """What a run did."""

    notes: NoteCounts
    canvases: NoteCounts
    reused: int  # passages of changed notes that stayed as they were
    left: int = 0  # notes that differ, and that time did not suffice for
    cut_short: bool = False  # time did not suffice to look everywhere
    waited: float = 0.0  # seconds, for another process to end its run
    missing: Mapping[str, str] = field(default_factory=dict)  # gone, and kept: path -> as on disk
    # Notes whose bytes were other ones while nothing of their files' looks had told so.
    unseen: frozenset[str] = frozenset()

    @property
    def changed_something(self) -> bool:
        """Whether any note or canvas is another one now."""
        return bool(self.notes.touched or self.canvases.touched)


_UNBOUNDED = Bounds()


def take_in(
    memory: Memory,
    *,
    rebuild: bool = False,
    only: Collection[str] | None = None,
    bounds: Bounds = _UNBOUNDED,
) -> Taken:
    """Bring the sidecar up to date with the vault. Doing it twice equals doing it once.

    rebuild: start from nothing.
    only:    paths below the vault, as the disk spells them, that may have changed; the rest is not
             looked at. Where there is no complete index yet, everything is.

    Raises VaultEmpty and VaultUnreadable (keeping what is known), SidecarBusy,
    SidecarUnavailable and DiskFull. Interrupted, it leaves whole notes only; the next run goes on.
    """
    with memory.guarded():
        if not memory.folder.exists():
            look(memory)  # a vault that cannot be indexed leaves no folder behind
        make_folder(memory.folder)

        waited = False
        asked_at = memory.clock.elapsed()

        def waiting() -> None:
            nonlocal waited
            waited = True
            memory.progress.report("wait", 0, 1)

        with ExitStack() as held:
            try:
                held.enter_context(
                    writer_lock(memory.folder, patience=bounds.lock_seconds, waiting=waiting)
                )
            finally:
                if waited:
                    memory.progress.report("wait", 1, 1)
            # Under the lock: what another process took in meanwhile must not look like gone.
            began = memory.clock.elapsed()
            _settle_killed(memory)

            def time_is_up() -> bool:
                return (
                    bounds.seconds is not None and memory.clock.elapsed() - began >= bounds.seconds
                )

            obsidian = memory.obsidian  # while the sidecar that remembers them is there
            present = None if rebuild else memory.open_sidecar_to_write()
            asked = requested(present) if present is not None else []
            complete = present is not None and present.meta(COMPLETE) is not None
            if present is None or not complete or must_relink(present):
                only = None
            if only is not None:
                only = {*only, *(path for path, _ in asked)}
            first: Sequence[str] = ()
            if present is not None and only is None and bounds.seconds is not None:
                first = json.loads(present.meta(_REST) or "[]")
            # A first build is not cut short: there would be next to nothing to answer from.
            snapshot = look(
                memory, only=only, time_is_up=time_is_up if complete else None, first=first
            )
            if present is None and not rebuild and not bounds.accept_deletions:
                _refuse_to_lose(memory, snapshot)
            aside = rebuild and _answers(memory)
            sidecar = _ready(memory, rebuild=rebuild, aside=aside)
            if snapshot.rest or (first and only is None):
                sidecar.set_meta(_REST, json.dumps(snapshot.rest))
            try:
                remember_settings(sidecar, obsidian)
                with Door(memory.vault) as door:
                    run = Run(memory, sidecar, snapshot, door, bounds, time_is_up)
                    taken = run.carry_out()
                if aside:
                    memory.sidecar = memory.names = None  # it is closed before it is put in place
                    sidecar = memory.sidecar = put_in_place(
                        sidecar, journal=memory.settings["sidecar.journal"]
                    )
            except BaseException:
                if aside:
                    memory.close_sidecar()
                    # The one before is whole, and stays; where it is gone already, the new one is.
                    with suppress(OSError, SidecarUnavailable):  # what ended the run is raised
                        if lies_in(memory.folder):
                            discard_unfinished(memory.folder)
                raise
            if asked and not taken.left and not taken.cut_short and not taken.missing:
                settle_requests(sidecar, asked)
            return replace(taken, waited=began - asked_at)


def _settle_killed(memory: Memory) -> None:
    """End what a run that was killed had begun beside the sidecar; the writer lock is held."""
    aside = made_aside(memory.folder)
    if aside is not None:
        if aside.meta(COMPLETE) is not None:  # it was about to be put in place
            put_in_place(aside, journal=memory.settings["sidecar.journal"]).close()
        else:
            aside.close()
    discard_unfinished(memory.folder)
    discard_unfinished_state(memory.settings.state_folder)


def look(
    memory: Memory,
    *,
    only: Collection[str] | None = None,
    time_is_up: Callable[[], bool] | None = None,
    first: Sequence[str] = (),
) -> Snapshot:
    """Walk the vault, or what is at and below some paths of it; see `scan`.

    Raises VaultUnreadable or VaultEmpty where the walk proves nothing.
    """
    rules, problems = compile_rules(memory.obsidian, memory.settings["scan.ignore"])
    snapshot = scan(
        memory.vault,
        rules,
        max_note_bytes=memory.settings["scan.max_note_bytes"],
        only=only,
        time_is_up=time_is_up,
        first=first,
    )
    if "" in snapshot.unlisted:
        raise VaultUnreadable(
            f"The folder {memory.vault} cannot be listed. Check its permissions, or whether its "
            "disk is there. What was indexed before is kept."
        )
    if only is None and not snapshot.notes and not snapshot.excluded and not snapshot.cut_short:
        if snapshot.away:
            raise VaultUnreadable(
                f"None of the notes in {memory.vault} is on this device: a sync service keeps "
                f"stand-ins for {len(snapshot.away):,} of them. Download them. What was indexed "
                "before is kept."
            )
        raise VaultEmpty(
            f"There is no Markdown note in {memory.vault}. Is it the right folder? "
            "What was indexed before is kept."
        )
    return replace(snapshot, problems=problems + snapshot.problems)


def _refuse_to_lose(memory: Memory, snapshot: Snapshot) -> None:
    """Make no index anew because the rules have changed where much of what it holds is missing.

    Settings lie in the vault: where another is in its place, or a part of it, the rules change.
    A note that may have moved is not missing.
    Raises VaultUnreadable.
    """
    known = stored_paths(memory.folder, journal=memory.settings["sidecar.journal"])
    there = {path.rpartition("/")[2] for path in snapshot.notes.keys() | snapshot.excluded.keys()}
    missing = [
        path
        for path in known
        if path.rpartition("/")[2] not in there
        and path not in snapshot.away
        and snapshot.speaks_of(path)
    ]
    if _are_many(len(missing), len(known)):
        raise VaultUnreadable(
            f"{len(missing):,} of {len(known):,} notes are missing from {memory.vault}, and its "
            "settings are not those it was indexed by, as where another vault has taken its place. "
            "What was indexed before is kept. Where the notes are gone for good, run "
            "`vaultmem index --accept-deletions`."
        )


def _are_many(missing: int, known: int) -> bool:
    """Whether so many are missing that it is rather the disk that is."""
    return missing > max(MANY_MISSING, MANY_MISSING_SHARE * known)


def _answers(memory: Memory) -> bool:
    """Whether there is an index that can answer while another is made."""
    try:
        sidecar = memory.open_sidecar()
        return sidecar is not None and not sidecar.read_only and sidecar.meta(COMPLETE) is not None
    except SidecarDamaged:
        return False


def _ready(memory: Memory, *, rebuild: bool, aside: bool) -> Sidecar:
    """The sidecar to write to: the one there is, or a new one.

    aside: that is made beside the one there is, which answers until it is complete.
    """
    sidecar = None if rebuild else memory.open_sidecar()
    if sidecar is not None and sidecar.read_only:
        raise unwritable(memory.folder)
    if sidecar is None:
        memory.close_sidecar()
        wish = memory.settings["sidecar.journal"]
        sidecar = memory.sidecar = create(
            memory.folder, memory.fingerprint, journal=wish, aside=aside
        )
    return sidecar


class _Read(NamedTuple):
    """A note as it was read."""

    path: str
    replaces: str | None  # the path it had before, when it moved
    read_ns: int
    data: bytes | Unread
    clean: Screened | None = None  # what may be indexed of it; None where parsing finds that out


class Run:
    """One indexing run; the writer lock is held.

    doubting: read every note, however much its file looks as it did.
    """

    def __init__(
        self,
        memory: Memory,
        sidecar: Sidecar,
        snapshot: Snapshot,
        door: Door,
        bounds: Bounds,
        time_is_up: Callable[[], bool],
        *,
        doubting: bool = False,
    ) -> None:
        self.door = door
        self.doubting = doubting
        self.memory = memory
        self.sidecar = sidecar
        self.snapshot = snapshot
        self.bounds = bounds
        self.time_is_up = time_is_up
        # What is known of what the snapshot speaks of.
        self.stored = stored_files(sidecar, snapshot.region)
        self.known_before = Lookup(sidecar).note_count()  # in the whole vault
        self.rules = memory.kind_rules
        self.screen = memory.screen
        self.problems = list(snapshot.problems)
        self.reused = 0
        # New notes that were there at the look: gone at the reading, and not to be read.
        self.vanished: set[str] = set()
        self.unread: set[str] = set()
        self.unseen: frozenset[str] = frozenset()
        self.limit: int = memory.settings["scan.max_note_bytes"]

    def carry_out(self) -> Taken:
        """Do what the delta asks for."""
        self._follow_zone()
        suspects = first_look(self.snapshot, self.stored)
        trusted: frozenset[str] = frozenset()
        if self.doubting:
            known = self.snapshot.notes.keys() & self.stored.keys()
            trusted = frozenset(known.difference(suspects.changed))
            suspects = replace(suspects, changed=tuple(sorted(known)), unchanged=0)
        reconsidered = self._reconsidered()
        suspects = replace(
            suspects,
            changed=tuple(sorted({*suspects.changed, *reconsidered})),
            unchanged=suspects.unchanged - len(reconsidered.difference(suspects.changed)),
        )
        delta, missing = self._spared(self._delta(suspects, reconsidered))
        self.unseen = trusted.intersection(delta.changed) - reconsidered
        known_files = frozenset(Lookup(self.sidecar).all_files(self.snapshot.region))
        files = standing_files(self.snapshot, known_files)
        files |= self.snapshot.away - self.stored.keys()
        # An earlier run may have ended when all its notes were in, but not yet their links.
        settled = (
            self.sidecar.meta(COMPLETE) is not None
            and not must_relink(self.sidecar)
            and not must_erase(self.sidecar)
        )
        busy = bool(delta.added or delta.changed or delta.renamed or delta.removed)
        if settled and self._nothing_readable(delta):
            busy, files = False, files | self.unread
        if settled and not busy and known_files == files:
            self._touch(delta.touched)
            self._put_problems()
            return self._taken(delta, (), missing)
        known_names, self.memory.names = self.memory.names, None
        # Notes and files of a folder that cannot be listed now are still there to link to.
        kept = self.stored.keys() - self.snapshot.notes.keys() - set(delta.removed)
        kept -= {old for old, _ in delta.renamed}
        names = self._names(known_names, known_files, kept, files)
        if self.known_before:
            self.sidecar.finish_indexes()
        unsure = announce_relink(self.sidecar)
        rewritten = len(delta.removed) + len(delta.renamed) + len(delta.changed)
        if rewritten > max(MANY_REWRITTEN, MANY_REWRITTEN_SHARE * self.known_before):
            erase_later(self.sidecar)
        total = sum(map(len, (delta.removed, delta.renamed, delta.changed, delta.added)))
        done = 0
        excluded = self.snapshot.excluded  # not to be found from here on: they come first
        first = sorted(delta.removed, key=lambda path: path not in excluded)
        delta = replace(delta, removed=tuple(first))
        for path in delta.removed:
            if done and settled and path not in excluded and self.time_is_up():
                break
            remove_note(self.sidecar, path)
            done += 1
        for path in delta.removed[done:]:
            names.add(path)  # known, and linked to, until the next run
        cut = done < len(delta.removed)
        delta = replace(delta, removed=delta.removed[:done])
        indexed: list[tuple[str, str]] = []  # (change, path)
        work: list[tuple[str, str, str | None]] = [
            ("renamed", new, old) for old, new in delta.renamed
        ]
        work += [("changed", path, None) for path in delta.changed]
        work += [("added", path, None) for path in delta.added]
        if done < total:
            self.memory.progress.report("index", done, total)
        handled: set[str] = set()
        with self.sidecar.batch(BATCH_NOTES if len(work) > FEW_NOTES else 1):
            for work_ahead in self._read_ahead(work):
                for change, read in work_ahead:
                    # Some are taken in, or a search after another would never get anywhere.
                    if indexed and settled and self.time_is_up():
                        cut = True
                        break
                    handled.add(read.path)
                    if self._take_in(read, names):
                        indexed.append((change, read.path))
                    done += 1
                    if done < total:
                        self.memory.progress.report("index", done, total)
                if cut:
                    break
        self.memory.progress.report("index", total, total)
        self.sidecar.finish_indexes()
        # Until it can be read, a note is a file like any other; it may go again as one.
        present = files | self.unread
        put_files(self.sidecar, known_files, present)
        moved = {*delta.removed, *delta.added, *(known_files ^ present)}
        for pair in delta.renamed:
            moved.update(pair)
        moved |= self.vanished
        for path in self.vanished:
            names.remove(path)
        stored = {path for _, path in indexed}
        for change, path, old in work:
            if change != "changed" and path not in handled:
                names.remove(path)  # there, and not known of before the next run
            if old is not None and path not in stored:
                names.add(old)  # it goes by its old path until then
        # A first build has resolved every link by the whole list of files already.
        if not self.known_before:
            moved = set(self.vanished)
        relink(self.sidecar, None if unsure and self.known_before else moved, names)
        erase_now(self.sidecar)
        self._touch(delta.touched)
        self._put_problems()
        self.memory.names = (self.sidecar.state(), names)
        changed = delta.removed or indexed or known_files != present
        if not settled or changed:  # else what looked new could not be read
            now = datetime.fromtimestamp(self.memory.clock.now_ns() / 1e9, UTC)
            self.sidecar.set_meta("last_indexed", now.isoformat(timespec="seconds"))
            if not cut:
                self.sidecar.set_meta(COMPLETE, "yes")
            self.sidecar.checkpoint()
        return self._taken(delta, indexed, missing, left=total - done)

    def _spared(self, delta: Delta) -> tuple[Delta, frozenset[str]]:
        """The delta without the removals that have to wait, and the notes that these are of.

        What the settings leave out of search is gone from there at once, and so is what its own
        file says; absence has to be believed first.
        """
        absent = frozenset(delta.removed) - self.snapshot.excluded.keys()
        if not absent:
            self._none_missing()
            return delta, absent
        believed = absent
        if self.bounds.confirmed is not None:
            believed = self.bounds.confirmed(absent)
        whole = self.sidecar.meta(_WHOLE)
        known = self.known_before if whole is None else min(self.known_before, int(whole))
        if not self.bounds.accept_deletions and _are_many(len(absent), known):
            believed = frozenset()
            self.problems.append(
                Problem(
                    ".",
                    0,
                    "notes-missing",
                    f"{len(absent):,} of {known:,} notes are missing, which may be the disk or a "
                    "sync service, so they are kept in the index. Where they are gone for good, "
                    "run `vaultmem index --accept-deletions`.",
                )
            )
        kept = absent - believed
        if not kept:
            self._none_missing()
        elif whole is None:
            self.sidecar.set_meta(_WHOLE, str(known))
        removed = tuple(path for path in delta.removed if path not in kept)
        return replace(delta, removed=removed), kept

    def _none_missing(self) -> None:
        """Forget how many notes there were before some were missed, once all were looked for."""
        everywhere = self.snapshot.region is None and not self.snapshot.unlisted
        if everywhere and self.sidecar.meta(_WHOLE) is not None:
            self.sidecar.set_meta(_WHOLE, None)

    def _names(
        self,
        known: "tuple[object, VaultNames] | None",
        known_files: frozenset[str],
        kept: Collection[str],
        files: frozenset[str],
    ) -> VaultNames:
        """Every file of the vault as it will be when the run is through."""
        present = {*self.snapshot.notes, *kept, *files}
        if self.snapshot.region is None:
            return VaultNames(sorted(present))
        if known is not None and known[0] == self.sidecar.state():
            names = known[1]
        else:
            lookup = Lookup(self.sidecar)
            names = VaultNames([*lookup.all_paths(), *lookup.all_files()])
        before = self.stored.keys() | known_files
        for path in sorted(before - present):
            names.remove(path)
        for path in sorted(present - before):
            names.add(path)
        return names

    def _put_problems(self) -> None:
        """Replace what is known of what could not be indexed, as far as this run looked."""
        speaks_of = self.snapshot.speaks_of

        folder = self.memory.obsidian.folder
        renewed = any(problem.path == "." for problem in self.problems)

        def stands(path: str) -> bool:
            if path.rpartition("/")[0] == folder:
                return False  # Obsidian's settings are read whatever is looked at
            if path == "." and self.snapshot.region is not None:
                return not renewed
            return not speaks_of(path)

        partial = self.snapshot.region is not None or self.snapshot.cut_short
        put_scan_problems(self.sidecar, self.problems, stands if partial else None)

    def _reconsidered(self) -> frozenset[str]:
        """Notes that were stored when other secrets were allowed, or with another key."""
        found = Lookup(self.sidecar).secrets()
        if not found:
            return frozenset()
        key = key_name(self.screen.key())
        return frozenset(
            secret.path
            for secret in found
            if secret.path in self.snapshot.notes
            and (
                not secret.fingerprint.startswith(key)
                or secret.allowed != (secret.fingerprint in self.screen.allowed)
            )
        )

    def _delta(self, suspects: Suspects, reconsidered: frozenset[str]) -> Delta:
        """Read the suspects as far as deciding needs it.

        reconsidered: those that are taken in anew even if their bytes are the same.
        """
        same = [
            path
            for path in suspects.changed
            if path not in reconsidered and self._hash(path) == self.stored[path].sha256
        ]
        renames: tuple[tuple[str, str], ...] = ()
        if suspects.missing and suspects.new:
            hashes = {path: self._hash(path) or "" for path in suspects.new}
            identities: dict[str, str] = {}
            if any(self.stored[path].identity for path in suspects.missing):
                identities = self._identities(suspects.new)
            renames = match_renames(suspects.missing, self.stored, hashes, identities)
        return decide(suspects, renames, same)

    def _hash(self, path: str) -> str | None:
        data = self._read(path)
        return sha256(data).hexdigest() if isinstance(data, bytes) else None

    def _identities(self, paths: Iterable[str]) -> dict[str, str]:
        identities: dict[str, str] = {}
        for path in paths:
            data = self._read(path)
            if not isinstance(data, bytes):
                continue
            identity = note_identity(parse(path, data, self.screen))
            if identity is not None:
                identities[path] = identity
        return identities

    def _read(self, path: str) -> bytes | Unread:
        return self.door.read(self.snapshot.notes[path].disk_path, limit=self.limit)

    def _nothing_readable(self, delta: Delta) -> bool:
        """Whether all there is to do is new notes that cannot be read, as in the run before."""
        if delta.changed or delta.renamed or delta.removed or not delta.added:
            return False
        answers: list[tuple[str, Unread]] = []
        for path in delta.added:
            data = self._read(path)
            if not isinstance(data, Unread):
                return False
            answers.append((path, data))
        for path, unread in answers:
            self._not_read(path, unread)
        return True

    def _not_read(self, path: str, answer: Unread) -> None:
        """Take note of a file that could not be had."""
        if answer.code != "missing":
            self.problems.append(Problem(path, 0, answer.code, answer.message))
        # A note that is stored stays so, and linked to, until a walk no longer sees it: an editor
        # that saves by making the file anew takes it away for a moment.
        if path not in self.stored:
            (self.vanished if answer.code == "missing" else self.unread).add(path)

    def _read_ahead(
        self, work: Iterable[tuple[str, str, str | None]]
    ) -> Iterator[list[tuple[str, _Read]]]:
        """(change, what was read) of every note, some at a time. work: (change, path, old path).

        They are screened together: what looks for secrets is quick as long as a processor's cache
        holds it, and parsing and storing drive it out of there.
        """
        ahead: list[tuple[str, _Read]] = []
        held = 0
        for change, path, replaces in work:
            read_ns = self.memory.clock.now_ns()
            data = self._read(path)
            ahead.append((change, _Read(path, replaces, read_ns, data)))
            held += len(data) if isinstance(data, bytes) else 0
            if len(ahead) >= AHEAD_NOTES or held >= AHEAD_BYTES:
                yield self._screened(ahead)
                ahead, held = [], 0
        if ahead:
            yield self._screened(ahead)

    def _screened(self, ahead: list[tuple[str, _Read]]) -> list[tuple[str, _Read]]:
        return [
            (change, read._replace(clean=screened_file(read.path, read.data, self.screen)))
            if isinstance(read.data, bytes)
            else (change, read)
            for change, read in ahead
        ]

    def _take_in(self, read: _Read, names: VaultNames) -> bool:
        """Parse, cut and store one note; False, and a problem, when it could not be read."""
        path, replaces, read_ns, data, clean = read
        if isinstance(data, Unread):
            self._not_read(path, data)
            return False
        state = self.snapshot.notes[path]
        note = parse(path, data, self.screen, clean=clean)
        kind = note_kind(note, self.rules)
        items = find_items(note, self.rules, kind)
        pieces = self.memory.settings["chunk.max_pieces"]
        chunks = chunk_note(note, max_pieces=pieces, items=items)
        own_day = note_date(note, self.rules)
        entry = Entry(
            note=note,
            chunks=chunks,
            state=state,
            sha256=sha256(data).hexdigest(),
            read_ns=read_ns,
            kind=kind,
            date=(own_day or self.memory.clock.day(state.mtime_ns)).isoformat(),
            undated=own_day is None,
            items=items,
            apart=self.rules.templates_apart and self.rules.is_template(path),
            stub=is_stub(note),
            identity=note_identity(note),
            known=path in self.stored or replaces is not None,
            replaces=replaces,
        )
        self.reused += put_note(self.sidecar, entry, names).reused
        return True

    def _touch(self, paths: Iterable[str]) -> None:
        for path in paths:
            state = self.snapshot.notes[path]
            known = self.stored[path]
            now = self.memory.clock.now_ns()
            if state != known.state or (
                was_young(state, known.read_ns) and not was_young(state, now)
            ):
                touch(self.sidecar, path, state, self.memory.clock.now_ns(), self._day(path))

    def _day(self, path: str) -> str | None:
        """The day of a touched note, if that may have become another one."""
        day = self.memory.clock.day
        modified = day(self.snapshot.notes[path].mtime_ns)
        if modified == day(self.stored[path].state.mtime_ns) or not is_undated(self.sidecar, path):
            return None
        return modified.isoformat()

    def _follow_zone(self) -> None:
        """Give notes without a day of their own the one that their file's time is, here and now."""
        here = self.memory.clock.zone()
        if self.sidecar.meta(_ZONE) != here:
            move_days(self.sidecar, lambda mtime_ns: self.memory.clock.day(mtime_ns).isoformat())
            self.sidecar.set_meta(_ZONE, here)

    def _taken(
        self,
        delta: Delta,
        indexed: Sequence[tuple[str, str]],
        missing: Collection[str],
        *,
        left: int = 0,
    ) -> Taken:
        """What became of the notes, and of the canvases. indexed: (change, path)."""
        lookup = Lookup(self.sidecar)
        done = Counter((change, is_canvas(path)) for change, path in indexed)
        removed = sum(map(is_canvas, delta.removed))
        canvases = lookup.canvas_count()
        handled = [*delta.added, *delta.changed, *(new for _, new in delta.renamed)]
        same = sum(map(is_canvas, self.snapshot.notes)) - sum(map(is_canvas, handled))

        def counts(total: int, gone: int, unchanged: int, *, canvas: bool) -> NoteCounts:
            added, changed, renamed = (
                done[change, canvas] for change in ("added", "changed", "renamed")
            )
            return NoteCounts(total, added, changed, renamed, gone, unchanged)

        notes = counts(
            lookup.note_count() - canvases,
            len(delta.removed) - removed,
            delta.unchanged - same,
            canvas=False,
        )
        drawn = counts(canvases, removed, same, canvas=True)
        if self.snapshot.region is not None:  # of all others nothing is known but their number
            notes = replace(notes, unchanged=notes.total - notes.added - notes.changed)
            drawn = replace(drawn, unchanged=drawn.total - drawn.added - drawn.changed)
            notes = replace(notes, unchanged=notes.unchanged - notes.renamed)
            drawn = replace(drawn, unchanged=drawn.unchanged - drawn.renamed)
        return Taken(
            notes,
            drawn,
            self.reused,
            left=left,
            cut_short=self.snapshot.cut_short,
            missing={path: self.stored[path].state.disk_path for path in missing},
            unseen=self.unseen,
        )
