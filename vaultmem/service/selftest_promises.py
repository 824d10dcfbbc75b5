"""The promises that `selftest` tries, each case by case."""

import queue
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from vaultmem.model.errors import DiskFull
from vaultmem.service.application import Memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.selftest_bench import (
    Place,
    index_faults,
    left_behind,
    not_found,
    strange_answers,
)
from vaultmem.service.selftest_child import Task
from vaultmem.service.selftest_children import Child, Heard, Nursery, next_heard
from vaultmem.service.selftest_edits import (
    QUERIES,
    Hand,
    copy,
    make_vault,
    names,
    remove,
    seen,
)


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a promise is tried, and by what chance."""

    folder: Path
    seed: int
    nursery: Nursery

    def chance(self, *about: object) -> random.Random:
        """The same for the same seed, whatever else is tried, and how often."""
        return random.Random(" ".join(map(str, (self.seed, self.folder.name, *about))))

    def place(self, name: str) -> tuple[Place, Hand]:
        """A new vault, and a hand to edit it."""
        chance = self.chance(name)
        place = Place(self.folder / name)
        make_vault(place.vault, chance)
        return place, Hand(place.vault, place.spare, chance)


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a promise."""

    broken: tuple[str, ...]  # what did not hold, and when; () where all did
    place: Place  # as it is now


Promise = Callable[[Ground, int], Iterator[Case]]
"""Tries a promise so many times."""


def _tried(check: Callable[[], list[str]]) -> list[str]:
    """What a check finds wrong; that it ends in an error is one thing more."""
    try:
        return check()
    except DiskFull:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the promise is broken, and it is told
        return [f"{type(error).__name__}: {error}"]


def _case(place: Place, when: str, wrong: list[str]) -> Case:
    return Case(tuple(f"{when}: {line}" for line in wrong), place)


# Killed anywhere


@dataclass(frozen=True, slots=True)
class _Run:
    """A run that is killed."""

    name: str
    do: str  # as a Task has it
    edits: int  # since the run before; -1 where there was none


_RUNS = (
    _Run("an update", "index", 8),
    _Run("a first index", "index", -1),
    _Run("a rebuild", "rebuild", 5),
    _Run("a small update", "index", 1),
)
# After each kill the index is searched before the next run, by each of these in turn.
_ASKED = (None, "never", "auto")
# One in so many is killed a second time, in the run after.
_TWICE = 4


class _Scene:
    """A vault that was edited since it was indexed, and the index that a run makes of it."""

    def __init__(self, ground: Ground, run: _Run) -> None:
        self.ground = ground
        self.run = run
        self.place, hand = ground.place(run.name)
        self._kept = self.place.folder / "kept"
        if run.edits >= 0:
            _indexed(self.place)
            copy(self.place.cache, self._kept)
            hand.edit(run.edits)
        self.marked = hand.mark(0)
        self._before = seen(self.place.vault)
        # What such a run does when nobody kills it.
        self.restore()
        child = ground.nursery.child()
        told = child.result(self._task(0))
        self.faults = list(told.get("errors", [f"a process ended by itself. {child.said()}"]))
        self._steps = int(told.get("ended", 1))
        child.close()
        self._files = names(self.place.cache)
        self.restore()

    def restore(self) -> None:
        """The cache folder as it was before the run."""
        copy(self._kept, self.place.cache)

    def _task(self, kill_at: int) -> Task:
        return Task(str(self.place.folder), self.run.do, kill_at=kill_at)

    def kill(self, chance: random.Random) -> tuple[str, list[str]]:
        """Have a process end itself in the midst of a run; where, and what is wrong with that."""
        at = chance.randrange(1, self._steps + 1)
        child = self.ground.nursery.child()
        told = child.result(self._task(at))
        wrong: list[str] = []
        if "killed" not in told or not child.was_killed():
            wrong.append(f"a process was to end itself, and did not. {child.said()}")
        child.close()
        return f"killed before step {at} of {self._steps}, {told.get('killed')}", wrong

    def aftermath(self, anew: Memory, asked: str | None) -> list[str]:
        """What does not hold after a kill."""
        wrong: list[str] = []
        if asked is not None:
            memory = self.place.opened(refresh=asked)
            try:
                wrong += strange_answers(memory, QUERIES)
                wrong += not_found(memory, *self.marked) if asked == "auto" else []
            finally:
                memory.close()
        memory = self.place.opened()
        try:
            wrong += index_faults(memory, anew)
        finally:
            memory.close()
        wrong += left_behind(self.place.cache, self._files)
        if seen(self.place.vault) != self._before:
            wrong.append("the vault is not as it was")
        return wrong


def _indexed(place: Place) -> None:
    memory = place.opened()
    try:
        index(memory, IndexRequest())
    finally:
        memory.close()


def killed_anywhere(ground: Ground, cases: int) -> Iterator[Case]:
    """A run that is killed leaves a vault as it was and an index that the next run repairs."""
    with ExitStack() as held:
        scenes: dict[str, tuple[_Scene, Memory]] = {}
        for number in range(cases):
            run = _RUNS[number % len(_RUNS)]
            if run.name not in scenes:
                made = _Scene(ground, run)
                scenes[run.name] = made, held.enter_context(made.place.indexed_anew())
            scene, anew = scenes[run.name]
            chance = ground.chance(number)
            scene.restore()
            wrong, when = list(scene.faults), f"case {number + 1}, {run.name}"
            for _ in range(1 if (number + 1) % _TWICE else 2):
                where, odd = scene.kill(chance)
                when, wrong = f"{when}, {where}", wrong + odd
            asked = _ASKED[number % len(_ASKED)]
            wrong += _tried(lambda s=scene, a=anew, q=asked: s.aftermath(a, q))  # type: ignore[misc]
            yield _case(scene.place, when, wrong)


# Processes at once

# What each of them does in a round, and how often.
_STATIONS = {"index": 3, "rebuild": 2, "search": 8, "search too": 8}
_EDITS = 6  # in a round, besides the first


class _Crowd:
    """Processes on one vault and cache, each of which is there again when it was killed."""

    def __init__(self, ground: Ground, place: Place) -> None:
        self._nursery = ground.nursery
        self._place = place
        self._heard: queue.SimpleQueue[Heard] = queue.SimpleQueue()
        self._children: dict[str, Child] = {}
        self._steps = dict.fromkeys(_STATIONS, 100)  # that each took in its last round

    def round(self, chance: random.Random, hand: Hand) -> tuple[str, list[str]]:
        """All at work while notes are edited, and one is killed; which, and what went wrong."""
        victim = chance.choice(list(_STATIONS))
        hand.edit(1)
        for name, times in _STATIONS.items():
            if name not in self._children:
                self._children[name] = self._nursery.another(self._heard)
            at = chance.randrange(1, self._steps[name] + 1) if name == victim else 0
            self._children[name].tell(self._task(name, times=times, kill_at=at))
        wrong, when = self._listened(victim, hand)
        return when, wrong

    def _listened(self, victim: str, hand: Hand) -> tuple[list[str], str]:
        wrong: list[str] = []
        when = f"{victim} was not killed"
        at_work = {child: name for name, child in self._children.items()}
        edits = _EDITS
        while at_work:
            heard = next_heard(self._heard)
            if heard is None:
                wrong.append(f"nothing was heard any more of {', '.join(at_work.values())}")
                self.close()
                break
            if heard.child not in at_work:
                continue  # the end of one that was killed
            if not heard.is_last:
                edits -= len(hand.edit(min(edits, 1)))
                continue
            name, line = at_work.pop(heard.child), heard.line or {}
            wrong += [f"{name}: {error}" for error in line.get("errors", ())]
            if "ended" in line:
                self._steps[name] = max(int(line["ended"]), 1)
                continue
            if "killed" in line and heard.child.was_killed():
                when = f"{name} was killed before {line['killed']}, step {line['after']}"
            else:
                wrong.append(f"{name} ended by itself. {heard.child.said()}")
            self._children.pop(name).close()
        return wrong, when

    def asked(self, marked: tuple[str, str]) -> list[str]:
        """What those who search do not find."""
        wrong: list[str] = []
        for name, child in self._children.items():
            if name.startswith("search"):
                told = child.result(self._task(name, marked=marked))
                wrong += told.get("errors", [f"it ended by itself. {child.said()}"])
        return [f"search: {line}" for line in wrong]

    def close(self) -> None:
        """End them all."""
        while self._children:
            self._children.popitem()[1].close()

    def _task(self, name: str, **how: object) -> Task:
        do = name.partition(" ")[0]
        return Task(str(self._place.folder), do, queries=QUERIES[:3], **how)  # type: ignore[arg-type]


def processes_at_once(ground: Ground, cases: int) -> Iterator[Case]:
    """Processes that index, rebuild and search at once, one of which is killed, spoil nothing."""
    place, hand = ground.place("processes")
    _indexed(place)
    crowd = _Crowd(ground, place)
    try:
        for number in range(cases):
            when, wrong = crowd.round(ground.chance(number), hand)
            marked = hand.mark(number)

            def settled(marked: tuple[str, str] = marked) -> list[str]:
                memory = place.opened()
                try:
                    with place.indexed_anew() as anew:
                        found = index_faults(memory, anew)
                    return found + not_found(memory, *marked)
                finally:
                    memory.close()

            wrong += _tried(settled) + crowd.asked(marked)
            yield _case(place, f"round {number + 1}, {when}", wrong)
            if wrong:
                crowd.close()
                remove(place.cache)
                _indexed(place)
    finally:
        crowd.close()


# Edited, and indexed after


def edited_as_new(ground: Ground, cases: int) -> Iterator[Case]:
    """An index that followed any edits is the one that is made from nothing."""
    place, hand = ground.place("edits")
    _indexed(place)
    memory = place.opened()
    try:
        for number in range(cases):
            if number % 5 == 4:  # as another command would find it
                memory.close()
                memory = place.opened()
            edits = hand.edit(ground.chance(number).randrange(1, 5))
            marked = hand.mark(number)

            def compared(memory: Memory = memory, marked: tuple[str, str] = marked) -> list[str]:
                with place.indexed_anew() as anew:
                    found = index_faults(memory, anew)
                return found + not_found(memory, *marked)

            wrong = _tried(compared)
            yield _case(place, f"case {number + 1}, after {'; '.join(edits)}", wrong)
            if wrong:
                memory.close()
                remove(place.cache)
                memory = place.opened()
    finally:
        memory.close()
