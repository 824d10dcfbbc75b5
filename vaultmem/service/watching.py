"""watch: the index follows the vault for as long as this runs, and costs nothing in between.

Events only mark paths; the disk says what became of them. A look at the whole vault at the start,
after sleep and every now and then finds what no event told of.
"""

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from vaultmem.index.lock import watch_lock
from vaultmem.index.requests import requested
from vaultmem.index.store import full_fingerprint, make_folder, sidecar_errors, stored_meta
from vaultmem.index.update import stored_files
from vaultmem.index.vectors import PassageVectors
from vaultmem.index.watch_state import HEARTBEAT_NS, put_state, remove_state
from vaultmem.model.delta import within
from vaultmem.model.errors import (
    DiskFull,
    SettingsInvalid,
    SidecarBusy,
    SidecarDamaged,
    SidecarUnavailable,
    VaultEmpty,
    VaultNotFound,
    VaultUnreadable,
)
from vaultmem.model.watch_state import Watching, WatchState
from vaultmem.service.application import Clock, Memory, Progress, open_memory
from vaultmem.service.embedding_thread import Embedded, EmbeddingThread
from vaultmem.service.indexing import MANY_MISSING, Bounds, NoteCounts, Taken, take_in
from vaultmem.service.listening import others_unheard, settings_path
from vaultmem.service.mending import mended
from vaultmem.service.refresh import sight
from vaultmem.service.settings import Settings
from vaultmem.vault.dirty import BURST_PATIENCE, DirtyPaths, Due
from vaultmem.vault.obsidian import ObsidianSettings
from vaultmem.vault.paths import vault_path
from vaultmem.vault.read import is_bare
from vaultmem.vault.watch import FolderWatch

# Seconds between two looks at everything, at least; and the share of time that they may take.
RECONCILE_SECONDS = 60.0
RECONCILE_SHARE = 0.003
RECONCILE_MOST = 3600.0
# Where changes are not reported, looking is all there is.
LOOKING_SECONDS = 10.0
LOOKING_SHARE = 0.02

# A note that is gone is believed to be after so long, and a second look at everything.
GONE_SECONDS = 60.0
# So many of them are looked for with every change, since it may be one of them that was moved.
MOST_SOUGHT = 100
# A file that was emptied is more likely half written.
EMPTIED_SECONDS = 1.5
# So long a file of settings has to be left alone before it is gone by, beyond the usual.
SETTINGS_QUIET = 0.2
# How soon something that failed is tried again: seconds.
AGAIN_SECONDS = 5.0

# What the next run sees to, or says: a question beside one is not worth ending for.
_LATER = (SidecarBusy, SidecarDamaged, SidecarUnavailable, DiskFull)

# git holds its lock for as long as it changes files.
GIT_LOCK_NS = 60_000_000_000

# So few notes are still taken in when it is to stop.
MOST_TO_END = 32

# Between two looks at clock, queue and disk while nothing happens.
_TICK = 0.5
# More than a tick: the machine slept meanwhile.
_SLEPT = 10.0


@dataclass(frozen=True, slots=True)
class Started:
    """Changes are heard of from here on."""

    vault: str
    pid: int
    events: bool  # False where the system reports none, so that the vault is looked at in turn
    event: Literal["started"] = "started"


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes were taken in."""

    at: str  # UTC
    cause: str  # start, events, reconcile, request, settings, wake
    marked: int  # paths that were said to have changed
    notes: NoteCounts
    canvases: NoteCounts
    missing: int  # notes that are gone, and kept until that is certain
    seconds: float
    event: Literal["batch"] = "batch"


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The vault is away. Everything that is known of it is kept."""

    reason: str
    event: Literal["unreachable"] = "unreachable"


@dataclass(frozen=True, slots=True)
class Reachable:
    """The vault is back."""

    event: Literal["reachable"] = "reachable"


@dataclass(frozen=True, slots=True)
class SettingsRead:
    """The settings have changed; or cannot be used, and those before go on."""

    problem: str
    event: Literal["settings"] = "settings"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something cannot be done now, and is tried again."""

    problem: str
    event: Literal["trouble"] = "trouble"


@dataclass(frozen=True, slots=True)
class Stopped:
    """It has ended, with everything closed."""

    event: Literal["stopped"] = "stopped"


WatchEvent = Started | Batch | Embedded | Unreachable | Reachable | SettingsRead | Trouble | Stopped


@dataclass(frozen=True, slots=True)
class _Run:
    only: frozenset[str] | None
    bounds: Bounds


@mended
def _take_in(memory: Memory, run: _Run) -> Taken:
    return take_in(memory, only=run.only, bounds=run.bounds)


class Watcher:
    """Follows one vault until it is stopped."""

    def __init__(
        self,
        load: Callable[[], Settings],
        say: Callable[[WatchEvent], None],
        *,
        clock: Clock | None = None,
        progress: Progress | None = None,
        embed: bool = True,
    ) -> None:
        """load: the settings as they are now, asked anew whenever they may have changed."""
        self._load = load
        self._say_it = say
        self._clock = clock or Clock()
        self._embed = embed
        self._report = (progress or Progress()).report
        self._stopped = False
        self.hangs = False  # at the end a thread still waits for a server that does not answer
        self._wake = threading.Event()
        self._speaking = threading.Lock()
        self._marking = threading.Lock()
        self._dirty = DirtyPaths()
        self._settings_marked = DirtyPaths()  # files of settings are saved in steps, too
        self._causes: set[str] = set()
        self._in_hand = 0  # marks that are being taken in
        self._missing: dict[str, float] = {}  # note -> when it was first seen to be gone
        self._missing_as: dict[str, str] = {}  # ... and its path as the disk spelt it
        self._memory = open_memory(
            load(), clock=self._clock, progress=Progress(self._report_unless_stopped)
        )
        self._listening: FolderWatch | None = None
        self._deaf = ""  # why changes are not reported
        self._root: tuple[int, int] | None = None
        self._reconciled = 0.0
        self._reconcile_in = 0.0
        self._looked_at_all = False
        self._rules = ""  # that the sidecar was last made by
        self._seen: object = None  # of the sidecar, when requests were last read
        self._ticked = (0, 0.0)
        self._rested = 0.0  # when the last step was over
        self._embedding: EmbeddingThread | None = None
        self._emptied: set[str] = set()  # that were waited for
        self._look_cost = 0.0  # seconds that looking at everything took last
        self._settings_problem = ""
        self._obsidian = self._read_obsidian()
        self._troubles: dict[str, str] = {}  # what it is about -> what was said of it
        self._locks = ExitStack()
        self._is_seen: Callable[[], bool] = lambda: True  # that it watches
        self._waiting = 0  # passages without a vector
        self._said: WatchState | None = None
        self._said_ns = 0
        self._state = WatchState(
            pid=os.getpid(),
            since=self._now(),
            state=Watching.STARTING,
            said_ns=0,
            rules="",
            embeds=self._embeds(),
        )

    def stop(self) -> None:
        """End soon; may be called from a signal handler."""
        # No lock, and so no Event: the thread that the handler interrupts may hold it.
        self._stopped = True

    def run(self) -> None:
        """Follow the vault until `stop`.

        Raises SidecarBusy when another process watches it already, or when a vaultmem with other
        rules has taken the index over; SidecarUnavailable and what else no waiting mends.
        """
        with self._locks:
            self._is_seen = self._lock()
            try:
                self._begin()
                while not self._stopped:
                    self._step()
                    self._wake.wait(self._pause())
                    self._wake.clear()
            except KeyboardInterrupt:
                if not self._stopped:
                    raise
            finally:
                self._end()
        self._say(Stopped())

    def _lock(self) -> Callable[[], bool]:
        """Become the vault's watcher. Raises SidecarBusy and SidecarUnavailable."""
        folder = self._memory.folder
        with sidecar_errors(folder):
            make_folder(folder)
            return self._locks.enter_context(watch_lock(folder))

    def _lock_again(self) -> None:
        """Where the folder was deleted, become the watcher of the one that takes its place."""
        if self._is_seen():
            return
        try:
            self._is_seen = self._lock()
        except (SidecarUnavailable, DiskFull) as error:
            self._trouble(str(error))
            return
        self._said = None
        self._everything()

    def _begin(self) -> None:
        self._ticked = self._clock.now_ns(), self._clock.elapsed()
        self._rested = self._ticked[1]
        self._publish()
        self._listen()
        self._say(Started(str(self._memory.vault), os.getpid(), events=not self._deaf))
        if self._deaf:
            self._say(Trouble(self._deaf))
        self._begin_embedding()
        self._everything("start")

    def _begin_embedding(self) -> None:
        if self._embedding is None and self._embeds():
            self._embedding = EmbeddingThread(
                self._memory.settings, self._clock, self._embedded, lambda: self._stopped
            )
            self._embedding.start()

    def _end(self) -> None:
        self._stopped = True
        remove_state(self._memory.folder)  # first: from here on nothing is taken in any more
        if self._listening is not None:
            self._listening.close()
        if self._embedding is not None:
            self.hangs = not self._embedding.end()
        self._memory.close()

    def _step(self) -> None:
        """Look at clock, settings, disk and queue, and take in what is due."""
        if self._embedding is not None and self._embedding.failure is not None:
            raise self._embedding.failure
        now = self._clock.elapsed()
        wall = self._clock.now_ns()
        before_wall, before = self._ticked
        self._ticked = wall, now
        # One clock stands still while the machine sleeps; or both go on, and we did not.
        asleep = abs((wall - before_wall) / 1e9 - (now - before)) > _SLEPT
        if asleep or now - self._rested > 6 * _SLEPT:  # (what a step itself takes is no sleep)
            self._everything("wake")
        self._lock_again()
        self._listen()
        with self._marking:
            settings_changed = self._settings_marked.take(now) is not None
        if settings_changed:
            self._read_settings()
            # They may be what they were, and have been others for a moment: in that an answer by
            # another process may have taken notes out.
            self._everything("settings")
        self._take_requests(now)
        if self._looked_at_all and now >= self._next_look():
            self._read_settings()
            self._reconciled = now  # marked once: marks without end would never be quiet
            self._everything("reconcile")
        with self._marking:
            due = None if self._git_is_at_work(now, wall) else self._dirty.take(now)
            causes, self._causes = (self._causes, set()) if due else (set(), self._causes)
            self._in_hand = due.marked if due else 0
        if due is not None:
            try:
                self._carry_out(due, causes)
            finally:
                self._in_hand = 0
        self._publish()
        self._rested = self._clock.elapsed()

    def _git_is_at_work(self, now: float, wall: int) -> bool:
        """Whether git is in the middle of changing files, which are one batch when it is done."""
        if not len(self._dirty) or self._dirty.age(now) > BURST_PATIENCE:
            return False
        try:
            lock = os.lstat(self._memory.vault / ".git" / "index.lock")
        except OSError:
            return False
        return abs(wall - lock.st_mtime_ns) < GIT_LOCK_NS  # an older one was left behind

    def _pause(self) -> float:
        """Seconds until the next step."""
        now = self._clock.elapsed()
        with self._marking:
            dues = [self._dirty.due_in(now), self._settings_marked.due_in(now)]
        # (What is due already waits for git, which tells nobody when it is done.)
        return min([_TICK, *(max(due, 0.02) for due in dues if due is not None)])

    def _next_look(self) -> float:
        """When everything is looked at next."""
        when = self._reconciled + self._reconcile_in
        certain = [since + GONE_SECONDS for since in self._missing.values()]
        # Those that were looked for long enough, and are kept all the same, are in no hurry.
        soonest = self._reconciled + max(LOOKING_SECONDS, self._look_cost / LOOKING_SHARE)
        return min([when, *(max(at, soonest) for at in certain if at > self._reconciled)])

    # Marks: from the threads that hear of changes, too.

    def _mark(self, path: str) -> None:
        with self._marking:
            idle = not len(self._dirty)
            if path:
                self._dirty.mark(path, self._clock.elapsed())
            else:
                self._dirty.mark_everything(self._clock.elapsed())
            self._causes.add("events")
        if idle:
            self._wake.set()

    def _everything(self, cause: str = "events") -> None:
        with self._marking:
            self._dirty.mark_everything(self._clock.elapsed())
            self._causes.add(cause)
        self._wake.set()

    def _mark_settings(self) -> None:
        with self._marking:
            self._settings_marked.mark("", self._clock.elapsed(), quiet=SETTINGS_QUIET)
        self._wake.set()

    def _take_requests(self, now: float) -> None:
        """Look at what other processes found out of date."""
        with suppress(*_LATER), self._memory.guarded():
            sidecar = self._memory.sidecar
            if sidecar is not None and not sidecar.still_there():
                sidecar = self._memory.open_sidecar()  # another process has made it anew
            if sidecar is None or self._seen == sidecar.state():
                return
            self._seen = sidecar.state()
            paths = [path for path, _ in requested(sidecar)]
            with self._marking:
                for path in paths:
                    self._dirty.mark(path, now)
                if paths:
                    self._causes.add("request")

    # The vault's folder, and hearing of what happens below it.

    def _listen(self) -> None:
        """Hear of changes in the folder that is the vault now; it may be another than before."""
        vault = self._memory.vault
        try:
            state = os.stat(vault)
            root = (state.st_dev, state.st_ino)
        except OSError:
            root = None
        hears = self._listening is not None and self._listening.hears()
        if root == self._root and (hears or (self._deaf and not self._listening) or root is None):
            return
        first = self._root is None and self._listening is None
        self._root = root
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        if root is not None:
            try:
                self._listening = FolderWatch(
                    vault,
                    changed=self._mark,
                    lost=self._everything,
                    settings=self._mark_settings,
                    is_settings=settings_path,
                )
                self._deaf = self._listening.unheard() or others_unheard(vault)
            except OSError as error:
                self._deaf = (
                    f"The system reports no changes in {vault} ({error.strerror}); it is looked "
                    "at from time to time instead."
                )
        if not first:
            if root is not None:
                self._mark_settings()  # they lie in the vault: what goes by them comes after
            self._everything()

    # Settings.

    def _read_settings(self) -> None:
        """Go by the settings as they are now; where they cannot be used, by those before."""
        if is_bare(self._memory.vault):
            return  # its settings are away with it
        try:
            settings = self._load()
        except VaultNotFound:
            return  # looking at it says so
        except SettingsInvalid as error:
            if str(error) != self._settings_problem:
                self._say(SettingsRead(str(error)))
            self._settings_problem = str(error)
            self._state = replace(self._state, problem=self._settings_problem)
            return
        if self._settings_problem:
            self._settings_problem = ""
            self._state = replace(self._state, problem="")
        before, self._obsidian = self._obsidian, self._read_obsidian()
        if settings == self._memory.settings and before == self._obsidian:
            return
        same = settings == self._memory.settings
        self._memory.close()
        self._memory.settings = settings
        if self._embedding is not None:
            self._embedding.use(settings)
        self._begin_embedding()
        problem = ""
        if same and self._obsidian is not None and self._obsidian.problems:
            problem = " ".join(problem.message for problem in self._obsidian.problems)
        self._say(SettingsRead(problem))
        self._everything("settings")

    def _read_obsidian(self) -> ObsidianSettings | None:
        """Obsidian's settings; None where what they last said is asked for in vain."""
        try:
            return self._memory.obsidian
        except _LATER:
            return None  # the next run mends it, or says so

    def _embeds(self) -> bool:
        return self._embed and self._memory.settings["embedder.name"] != "none"

    # Taking in.

    def _carry_out(self, due: Due, causes: set[str]) -> None:
        """Take in what is due; what cannot be now is marked again."""
        only = self._settled(due.paths)
        if only is not None and not only:
            return
        if self._state.state is not Watching.WATCHING:
            only = None  # what was missed meanwhile, nothing tells
        if only is not None and len(self._missing_as) <= MOST_SOUGHT:
            only |= frozenset(self._missing_as.values())  # what is new may be one of them, moved
        if only is not None:
            only |= self._other_halves()
        self._publish()
        began, missing = self._clock.elapsed(), len(self._missing)
        bounds = Bounds(confirmed=lambda absent: self._confirmed(absent, everywhere=only is None))
        self._refuse_other_rules()
        try:
            taken = _take_in(self._memory, _Run(only, bounds))
            self._rules = self._memory.fingerprint
        except (VaultEmpty, VaultUnreadable) as error:
            self._lost_sight(str(error))
            return
        except (SidecarBusy, SidecarUnavailable, DiskFull) as error:
            self._trouble(str(error))
            self._again(due)
            return
        now = self._clock.elapsed()
        self._tell_apart(taken.missing, only)
        if only is not None and missing > MANY_MISSING and not self._missing:
            self._everything()  # that so many were missing is no longer true
        if only is None:
            self._looked_at_everything(taken, now, now - began - taken.waited)
        elif 0 < taken.notes.total + taken.canvases.total <= len(self._missing):
            self._everything()  # nothing that is known is there: is the vault?
        self._trouble("")
        if self._embedding is None or only is None:
            self._count_waiting()
        if taken.changed_something or "start" in causes or missing != len(self._missing):
            self._say(self._batch(due, causes, taken, now - began))
        if self._embedding is not None and (taken.changed_something or only is None):
            self._embedding.look()

    def _settled(self, paths: frozenset[str] | None) -> frozenset[str] | None:
        """Those that are not in the middle of being written; the others are marked again.

        A file that was emptied is waited for once: whoever saves in place empties it first.
        """
        if paths is None:
            self._emptied.clear()
            return None
        emptied = {path for path in paths - self._emptied if self._is_emptied(path)}
        self._emptied = (self._emptied - paths) | emptied
        now = self._clock.elapsed()
        with self._marking:
            for path in emptied:
                self._dirty.mark(path, now, quiet=EMPTIED_SECONDS)
        return paths - emptied

    def _other_halves(self) -> frozenset[str]:
        """Marked paths that nothing is at, whose turn is not yet: what is new may come from there.

        Of some moves one half is reported later than the other.
        """
        with self._marking:
            marked = self._dirty.paths()
        return frozenset(path for path in marked if not os.path.lexists(self._memory.vault / path))

    def _is_emptied(self, path: str) -> bool:
        sidecar = self._memory.sidecar
        try:
            empty = os.lstat(self._memory.vault / path).st_size == 0
        except (OSError, ValueError):
            return False
        if not empty or sidecar is None:
            return False
        spelt = vault_path(path)
        # (No name that is no text is stored.)
        with suppress(*_LATER, UnicodeEncodeError), self._memory.guarded():
            known = stored_files(sidecar, [spelt]).get(spelt)
            return known is not None and known.state.size > 0
        return False

    def _confirmed(self, absent: frozenset[str], *, everywhere: bool) -> frozenset[str]:
        """Which of the notes that are not there may be forgotten: see GONE_SECONDS."""
        now = self._clock.elapsed()
        for path in absent:
            self._missing.setdefault(path, now)
        if not everywhere:
            return frozenset()
        return frozenset(path for path in absent if now - self._missing[path] >= GONE_SECONDS)

    def _tell_apart(self, missing: Mapping[str, str], only: frozenset[str] | None) -> None:
        """Remember since when notes are gone, and forget it of those that are back."""
        if only is None:
            stays = set(missing)
        else:
            looked_at = {vault_path(path) for path in only}
            stays = {p for p in self._missing if p in missing or not within(p, looked_at)}
        self._missing = {path: since for path, since in self._missing.items() if path in stays}
        known_as = {**self._missing_as, **missing}
        self._missing_as = {path: known_as[path] for path in self._missing if path in known_as}

    def _looked_at_everything(self, taken: Taken, now: float, cost: float) -> None:
        if self._state.state is Watching.UNREACHABLE:
            self._say(Reachable())
        self._state = replace(self._state, state=Watching.WATCHING)
        self._looked_at_all = True
        self._reconciled = now
        least, share = (
            (LOOKING_SECONDS, LOOKING_SHARE) if self._deaf else (RECONCILE_SECONDS, RECONCILE_SHARE)
        )
        if not taken.changed_something:
            self._look_cost = cost
        self._reconcile_in = min(max(least, self._look_cost / share), RECONCILE_MOST)

    def _lost_sight(self, reason: str) -> None:
        """The vault is away: everything is kept, and it is looked for again."""
        if self._state.state is not Watching.UNREACHABLE:
            self._say(Unreachable(reason))
        self._state = replace(self._state, state=Watching.UNREACHABLE, problem=reason)
        self._missing.clear()  # what was missed while it went proves nothing
        self._missing_as.clear()
        self._looked_at_all = True
        self._reconciled, self._reconcile_in = self._clock.elapsed(), AGAIN_SECONDS

    def _again(self, due: Due) -> None:
        now = self._clock.elapsed()
        with self._marking:
            if due.paths is None:
                self._dirty.mark_everything(now, quiet=AGAIN_SECONDS)
            for path in due.paths or ():
                self._dirty.mark(path, now, quiet=AGAIN_SECONDS)

    def _refuse_other_rules(self) -> None:
        """Give way to a vaultmem that indexes by other rules, as after an update.

        Making the index anew each in turn would help neither. Raises SidecarBusy.
        """
        memory = self._memory
        made_by: str | None = None
        with suppress(*_LATER), memory.guarded():
            if not self._rules or memory.fingerprint != self._rules:
                return
            if memory.open_sidecar() is None:
                made_by = stored_meta(memory.folder, "fingerprint")
        if made_by is not None and made_by != full_fingerprint(self._rules):
            raise SidecarBusy(
                f"Another version of vaultmem, or one with other settings, has made the index in "
                f"{memory.folder} anew. Start `vaultmem watch` again to go by the rules of today."
            )

    def _count_waiting(self) -> None:
        with suppress(*_LATER), self._memory.guarded():
            sidecar = self._memory.sidecar
            if sidecar is not None and self._memory.settings["embedder.name"] != "none":
                self._waiting = PassageVectors(sidecar).waiting_count()

    def _batch(self, due: Due, causes: set[str], taken: Taken, seconds: float) -> Batch:
        order = ("start", "wake", "settings", "events", "request", "reconcile")
        return Batch(
            at=self._now(),
            cause=next((cause for cause in order if cause in causes), "events"),
            marked=due.marked,
            notes=taken.notes,
            canvases=taken.canvases,
            missing=len(self._missing),
            seconds=round(seconds, 3),
        )

    # What others are told.

    def _say(self, event: WatchEvent) -> None:
        with self._speaking:
            self._say_it(event)

    def _trouble(self, problem: str, about: str = "index") -> None:
        """Say what cannot be done now, once; nothing when it can again."""
        if problem and problem != self._troubles.get(about):
            self._say(Trouble(problem))
        self._troubles[about] = problem
        problems = (*self._troubles.values(), self._settings_problem)
        self._state = replace(self._state, problem=next(filter(None, problems), ""))

    def _embedded(self, reply: Embedded) -> None:
        if reply.embedded or reply.problem:
            self._say(reply)
        self._waiting = reply.waiting
        self._wake.set()

    def _publish(self) -> None:
        """Write down how things stand, when that has changed or was not said for a while."""
        now, wall = self._clock.elapsed(), self._clock.now_ns()
        with self._marking:
            behind = len(self._dirty) + self._in_hand
            age = self._dirty.age(now)
        state = replace(
            self._state,
            said_ns=0,
            rules=self._rules and sight(self._memory.settings, self._rules),
            behind=behind,
            missing=len(self._missing),
            waiting=self._waiting,
            embeds=self._embeds(),
            events=not self._deaf,
        )
        if state == self._said and 0 <= wall - self._said_ns < HEARTBEAT_NS:
            return
        try:
            put_state(
                self._memory.folder, replace(state, said_ns=wall, behind_seconds=round(age, 3))
            )
        except OSError as error:
            folder = self._memory.folder
            self._trouble(f"{folder} cannot be written: {error.strerror}.", about="state")
            return
        if self._troubles.get("state"):
            self._trouble("", about="state")
        self._said, self._said_ns = state, wall

    def _report_unless_stopped(self, stage: str, done: int, total: int) -> None:
        # What is nearly through is brought to its end: nothing is left to the next start then.
        if self._stopped and (stage == "wait" or total - done > MOST_TO_END):
            raise KeyboardInterrupt
        self._report(stage, done, total)

    def _now(self) -> str:
        now = datetime.fromtimestamp(self._clock.now_ns() / 1e9, UTC)
        return now.isoformat(timespec="seconds")
