"""index: files -> snapshot -> delta -> notes -> passages -> rows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import NamedTuple

from vaultmem.index.links import announce_relink, must_relink, relink
from vaultmem.index.lock import writer_lock
from vaultmem.index.lookup import Lookup
from vaultmem.index.store import Sidecar, create, make_folder, sidecar_errors, unwritable
from vaultmem.index.update import (
    Entry,
    put_files,
    put_note,
    put_scan_problems,
    remove_note,
    stored_files,
    touch,
)
from vaultmem.index.vectors import PassageVectors
from vaultmem.model.delta import Delta, Snapshot, Suspects
from vaultmem.model.errors import (
    DiskFull,
    SidecarBusy,
    SidecarDamaged,
    SidecarUnavailable,
    VaultEmpty,
    VaultUnreadable,
)
from vaultmem.model.note import Problem
from vaultmem.security.mask import key_name
from vaultmem.service.application import Memory
from vaultmem.service.embed import EmbedReply, embed_waiting
from vaultmem.service.mending import mended
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

# Read and screened together; however long they are, no more than a note or two at a time.
AHEAD_NOTES = 64
AHEAD_BYTES = 1 << 20

# Set once a run has taken in everything it saw; until then notes are missing from the index.
COMPLETE = "complete"

# Looking for changes takes as long as the last walk did; beyond this a search does not wait for it.
PATIENCE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """How to index."""

    rebuild: bool = False  # start from nothing instead of from what is known
    embed: bool = True  # give passages their vectors afterwards


@dataclass(frozen=True, slots=True)
class NoteCounts:
    """What became of the notes."""

    total: int
    added: int
    changed: int
    renamed: int
    removed: int
    unchanged: int


@dataclass(frozen=True, slots=True)
class ChunkCounts:
    """What became of the passages."""

    total: int
    embedded: int  # vectors computed in this run
    reused: int  # passages of changed notes that stayed as they were
    waiting: int  # passages that have no vector


@dataclass(frozen=True, slots=True)
class EmbedderUse:
    """What makes the vectors, and what is to be said about it."""

    name: str | None  # the model; None when none could be used
    dim: int
    provider: str
    problem: str  # why passages are left without a vector; "" when nothing went wrong
    code: str  # the kind of error that the problem is, as docs/exit-codes.md has it
    advice: str  # what would serve this vault better; "" for nothing
    failed: int  # texts that the model refuses
    truncated: int  # texts of which the model saw only a part


@dataclass(frozen=True, slots=True)
class IndexReply:
    """What indexing did."""

    vault: str
    notes: NoteCounts
    canvases: NoteCounts
    chunks: ChunkCounts
    embedder: EmbedderUse | None  # None when no vectors were asked for
    problems: tuple[Problem, ...]
    seconds: float


@mended
def index(memory: Memory, request: IndexRequest) -> IndexReply:
    """Bring the sidecar up to date with the vault. Doing it twice equals doing it once.

    Raises VaultEmpty and VaultUnreadable (keeping what is known), SidecarBusy,
    SidecarUnavailable and DiskFull. Interrupted, it leaves whole notes only; the next run goes on.
    """
    started = memory.clock.elapsed()
    with memory.guarded():
        if not memory.folder.exists():
            look(memory)  # a vault that cannot be indexed leaves no folder behind
        make_folder(memory.folder)
        with writer_lock(memory.folder):
            # Under the lock: what another process took in meanwhile must not look like gone.
            began = memory.clock.elapsed()
            snapshot = look(memory)
            looked = memory.clock.elapsed() - began
            obsidian = memory.obsidian  # while the sidecar that remembers them is there
            sidecar = _ready(memory, rebuild=request.rebuild)
            remember_settings(sidecar, obsidian)
            with Door(memory.vault) as door:
                (notes, canvases), reused = _Run(memory, sidecar, snapshot, door).carry_out(looked)
        # The vault is searchable by words from here on; other processes may index meanwhile.
        embedder, embedded = _embed(memory) if request.embed else (None, 0)
        # It may have been rebuilt meanwhile, or removed.
        current = memory.open_sidecar()
        if current is None:
            raise SidecarUnavailable(
                f"The index in {memory.folder} was removed while vectors were computed for it. "
                "Run `vaultmem index` again."
            )
        lookup = Lookup(current)
        return IndexReply(
            vault=str(memory.vault),
            notes=notes,
            canvases=canvases,
            chunks=ChunkCounts(
                lookup.chunk_count(), embedded, reused, PassageVectors(current).waiting_count()
            ),
            embedder=embedder,
            problems=tuple(lookup.problems()),
            seconds=round(memory.clock.elapsed() - started, 3),
        )


def _embed(memory: Memory) -> tuple[EmbedderUse | None, int]:
    """Give passages their vectors; what made them, and how many were made."""
    name = memory.settings["embedder.name"]
    if name == "none":
        return None, 0
    try:
        with sidecar_errors(memory.folder):
            reply = embed_waiting(memory)
    except (SidecarBusy, SidecarDamaged, SidecarUnavailable, DiskFull) as error:
        # The words are in; what was done is told all the same.
        reply = EmbedReply(problem=str(error), code=error.code)
    state = reply.embedder
    use = EmbedderUse(
        name=state.name if state else None,
        dim=state.dim if state else 0,
        provider=state.provider if state else name,
        problem=reply.problem,
        code=reply.code,
        advice=reply.advice,
        failed=reply.failed,
        truncated=reply.truncated,
    )
    return use, reply.embedded


def look(memory: Memory) -> Snapshot:
    """Walk the vault. Raises VaultUnreadable or VaultEmpty where the walk proves nothing."""
    rules, problems = compile_rules(memory.obsidian, memory.settings["scan.ignore"])
    snapshot = scan(memory.vault, rules, max_note_bytes=memory.settings["scan.max_note_bytes"])
    if "" in snapshot.unlisted:
        raise VaultUnreadable(
            f"The folder {memory.vault} cannot be listed. Check its permissions, or whether its "
            "disk is there. What was indexed before is kept."
        )
    if not snapshot.notes and not snapshot.excluded:
        raise VaultEmpty(
            f"There is no Markdown note in {memory.vault}. Is it the right folder? "
            "What was indexed before is kept."
        )
    return Snapshot(
        snapshot.notes,
        snapshot.files,
        snapshot.excluded,
        problems + snapshot.problems,
        snapshot.unlisted,
    )


def _ready(memory: Memory, *, rebuild: bool) -> Sidecar:
    """The sidecar to write to: the one there is, or a new one."""
    sidecar = None if rebuild else memory.open_sidecar()
    if sidecar is not None and sidecar.read_only:
        raise unwritable(memory.folder)
    if sidecar is None:
        memory.close_sidecar()
        sidecar = memory.sidecar = create(memory.folder, memory.fingerprint)
    return sidecar


class _Read(NamedTuple):
    """A note as it was read."""

    path: str
    replaces: str | None  # the path it had before, when it moved
    read_ns: int
    data: bytes | Unread
    clean: Screened | None = None  # what may be indexed of it; None where parsing finds that out


class _Run:
    """One indexing run; the writer lock is held."""

    def __init__(self, memory: Memory, sidecar: Sidecar, snapshot: Snapshot, door: Door) -> None:
        self.door = door
        self.memory = memory
        self.sidecar = sidecar
        self.snapshot = snapshot
        self.stored = stored_files(sidecar)
        self.rules = memory.kind_rules
        self.screen = memory.screen
        self.problems = list(snapshot.problems)
        self.reused = 0
        # New notes that were there at the look: gone at the reading, and not to be read.
        self.vanished: set[str] = set()
        self.unread: set[str] = set()
        self.limit: int = memory.settings["scan.max_note_bytes"]

    def carry_out(self, looked: float) -> tuple[tuple[NoteCounts, NoteCounts], int]:
        """Do what the delta asks for; returns the counts of notes and of canvases, and the
        passages that were reused.

        looked: seconds that walking the vault took; remembered, so that a search can tell
                whether it may do the same.
        """
        suspects = first_look(self.snapshot, self.stored)
        reconsidered = self._reconsidered()
        suspects = replace(
            suspects,
            changed=tuple(sorted({*suspects.changed, *reconsidered})),
            unchanged=suspects.unchanged - len(reconsidered.difference(suspects.changed)),
        )
        delta = self._delta(suspects, reconsidered)
        known_files = frozenset(Lookup(self.sidecar).all_files())
        files = standing_files(self.snapshot, known_files)
        busy = bool(delta.added or delta.changed or delta.renamed or delta.removed)
        # An earlier run may have ended when all its notes were in, but not yet their links.
        settled = self.sidecar.meta(COMPLETE) is not None and not must_relink(self.sidecar)
        if settled and self._nothing_readable(delta):
            busy, files = False, files | self.unread
        if settled and not busy and known_files == files:
            self._touch(delta.touched)
            put_scan_problems(self.sidecar, self.problems)
            self._remember_patience(looked)
            return self._counts(delta, ()), 0
        # Notes and files of a folder that cannot be listed now are still there to link to.
        kept = self.stored.keys() - self.snapshot.notes.keys() - set(suspects.missing)
        names = self._names(kept, files)
        if self.stored:
            self.sidecar.finish_indexes()
        unsure = announce_relink(self.sidecar)
        total = sum(map(len, (delta.removed, delta.renamed, delta.changed, delta.added)))
        done = 0
        for path in delta.removed:
            remove_note(self.sidecar, path)
            done += 1
        indexed: list[tuple[str, str]] = []  # (change, path)
        work: list[tuple[str, str, str | None]] = [
            ("renamed", new, old) for old, new in delta.renamed
        ]
        work += [("changed", path, None) for path in delta.changed]
        work += [("added", path, None) for path in delta.added]
        if done < total:
            self.memory.progress.report("index", done, total)
        with self.sidecar.batch(BATCH_NOTES if len(work) > BATCH_NOTES else 1):
            for work_ahead in self._read_ahead(work):
                for change, read in work_ahead:
                    if self._take_in(read, names):
                        indexed.append((change, read.path))
                    done += 1
                    if done < total:
                        self.memory.progress.report("index", done, total)
        self.memory.progress.report("index", done, total)
        self.sidecar.finish_indexes()
        # Until it can be read, a note is a file like any other; it may go again as one.
        present = files | self.unread
        put_files(self.sidecar, known_files, present)
        moved = {*delta.removed, *delta.added, *(known_files ^ present)}
        for pair in delta.renamed:
            moved.update(pair)
        moved |= self.vanished
        names = names if not self.vanished else self._names(kept, files)
        # A first build has resolved every link by the whole list of files already.
        if not self.stored:
            moved = set(self.vanished)
        relink(self.sidecar, None if unsure and self.stored else moved, names)
        self._touch(delta.touched)
        put_scan_problems(self.sidecar, self.problems)
        changed = delta.removed or indexed or known_files != present
        if settled and not changed:
            return self._counts(delta, ()), 0  # what looked new could not be read
        now = datetime.fromtimestamp(self.memory.clock.now_ns() / 1e9, UTC)
        self.sidecar.set_meta("last_indexed", now.isoformat(timespec="seconds"))
        self.sidecar.set_meta(COMPLETE, "yes")
        self.sidecar.set_meta("look_seconds", f"{looked:.3f}")
        self.sidecar.checkpoint()
        return self._counts(delta, indexed), self.reused

    def _names(self, kept: Iterable[str], files: Iterable[str]) -> VaultNames:
        notes = [path for path in self.snapshot.notes if path not in self.vanished]
        return VaultNames([*notes, *sorted(kept), *sorted(files)])

    def _remember_patience(self, looked: float) -> None:
        """Note how long looking took, when that changes whether a search may wait for it."""
        known = float(self.sidecar.meta("look_seconds") or 0.0)
        if (known > PATIENCE_SECONDS) != (looked > PATIENCE_SECONDS):
            self.sidecar.set_meta("look_seconds", f"{looked:.3f}")

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
        entry = Entry(
            note=note,
            chunks=chunks,
            state=state,
            sha256=sha256(data).hexdigest(),
            read_ns=read_ns,
            kind=kind,
            date=note_date(note, self.memory.clock.day(state.mtime_ns), self.rules).isoformat(),
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
        if modified == day(self.stored[path].state.mtime_ns):
            return None
        data = self._read(path)
        return (
            note_date(parse(path, data, self.screen), modified, self.rules).isoformat()
            if isinstance(data, bytes)
            else None
        )

    def _counts(
        self, delta: Delta, indexed: Sequence[tuple[str, str]]
    ) -> tuple[NoteCounts, NoteCounts]:
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

        return (
            counts(
                lookup.note_count() - canvases,
                len(delta.removed) - removed,
                delta.unchanged - same,
                canvas=False,
            ),
            counts(canvases, removed, same, canvas=True),
        )
