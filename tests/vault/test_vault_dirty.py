"""What was marked is looked at: when it has been quiet, together in a burst, and always in time."""

import math
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vaultmem.vault.dirty import (
    BURST_PATHS,
    BURST_PATIENCE,
    BURST_QUIET,
    MOST_PATHS,
    PATIENCE,
    QUIET,
    DirtyPaths,
    Due,
)

# Sums of such numbers are rounded.
HAIR = 1e-9


def at_once(dirty: DirtyPaths, now: float) -> Due:
    """What is due at the very moment that it is said to be, and not a hair before."""
    wait = dirty.due_in(now)
    assert wait is not None
    if wait > HAIR:
        assert dirty.take(now + wait - HAIR) is None
    due = dirty.take(now + wait + HAIR)
    assert due is not None
    return due


def test_nothing_marked_is_never_due() -> None:
    dirty = DirtyPaths()
    assert (dirty.due_in(5.0), dirty.take(5.0), dirty.age(5.0), len(dirty)) == (None, None, 0.0, 0)


def test_a_path_is_due_when_it_has_been_quiet_and_not_before() -> None:
    dirty = DirtyPaths()
    dirty.mark("a.md", 10.0)
    dirty.mark("a.md", 10.1)
    assert math.isclose(dirty.due_in(10.1) or 0, QUIET)
    assert dirty.take(10.1 + QUIET - 0.01) is None
    assert dirty.take(10.1 + QUIET + 0.01) == Due(frozenset({"a.md"}), 1)
    assert (dirty.take(99.0), len(dirty)) == (None, 0)


def test_a_path_that_is_never_quiet_is_due_all_the_same() -> None:
    dirty = DirtyPaths()
    taken: list[float] = []
    for tick in range(100):
        now = tick * QUIET / 2
        dirty.mark("log.md", now)
        if dirty.take(now) is not None:
            taken.append(now)
    assert taken
    assert max(after - before for before, after in pairwise([0.0, *taken])) <= PATIENCE + QUIET


def test_a_quiet_path_does_not_wait_for_a_busy_one() -> None:
    dirty = DirtyPaths()
    dirty.mark("quiet.md", 0.0)
    dirty.mark("busy.md", 0.0)
    dirty.mark("busy.md", QUIET)
    assert at_once(dirty, QUIET) == Due(frozenset({"quiet.md"}), 1)
    assert at_once(dirty, QUIET) == Due(frozenset({"busy.md"}), 1)


def test_a_burst_is_one_batch_when_all_of_it_is_quiet() -> None:
    dirty = DirtyPaths()
    paths = {f"{n}.md" for n in range(BURST_PATHS + 1)}
    for n, path in enumerate(sorted(paths)):
        dirty.mark(path, n * 0.1)
    last = BURST_PATHS * 0.1
    assert dirty.take(last + BURST_QUIET - 0.01) is None
    assert dirty.take(last + BURST_QUIET + 0.01) == Due(frozenset(paths), len(paths))


def test_one_path_fewer_is_no_burst() -> None:
    dirty = DirtyPaths()
    for n in range(BURST_PATHS):
        dirty.mark(f"{n}.md", n * 0.1)
    due = dirty.take(QUIET + 0.05)
    assert due == Due(frozenset({"0.md"}), 1)


def test_a_burst_without_an_end_comes_in_portions() -> None:
    dirty = DirtyPaths()
    paths = frozenset(f"{n}.md" for n in range(BURST_PATHS + 1))
    taken = [0.0]
    for tick in range(400):
        now = tick * 0.1
        for path in paths:
            dirty.mark(path, now)
        due = dirty.take(now)
        if due is not None:
            assert due.paths == paths
            taken.append(now)
    gaps = [after - before for before, after in pairwise(taken)]
    assert len(gaps) >= 3
    assert all(BURST_PATIENCE - 0.2 < gap < BURST_PATIENCE + 0.3 for gap in gaps)


def test_more_paths_than_are_worth_telling_apart_are_everything() -> None:
    dirty = DirtyPaths()
    for n in range(MOST_PATHS):
        dirty.mark(f"{n}.md", 0.0)
    due = at_once(dirty, 0.0)
    assert due.paths is not None
    assert len(due.paths) == due.marked == MOST_PATHS
    for n in range(MOST_PATHS + 1):
        dirty.mark(f"{n}.md", 100.0)
    assert at_once(dirty, 100.0) == Due(None, MOST_PATHS + 1)
    assert (len(dirty), dirty.due_in(200.0)) == (0, None)


def test_everything_takes_the_paths_with_it() -> None:
    dirty = DirtyPaths()
    dirty.mark("a.md", 0.0)
    dirty.mark_everything(0.1)
    assert len(dirty) == 2
    assert at_once(dirty, 0.1) == Due(None, 2)
    assert (len(dirty), dirty.take(50.0)) == (0, None)


def test_everything_waits_for_quiet_and_no_longer_than_a_burst() -> None:
    dirty = DirtyPaths()
    dirty.mark_everything(0.0)
    dirty.mark("a.md", 0.5)
    assert math.isclose(dirty.due_in(0.5) or 0, BURST_QUIET)
    now = 0.5
    while dirty.take(now) is None:
        now += 0.1
        dirty.mark("a.md", now)
        assert now < BURST_PATIENCE + 0.2
    assert now > BURST_PATIENCE - 0.2


def test_what_is_to_settle_is_left_alone_for_so_long() -> None:
    dirty = DirtyPaths()
    dirty.mark("emptied.md", 0.0, quiet=1.5)
    assert math.isclose(dirty.due_in(0.0) or 0, 1.5 + QUIET)
    assert dirty.take(1.5) is None
    assert dirty.take(1.5 + QUIET + 0.01) == Due(frozenset({"emptied.md"}), 1)
    dirty.mark("later.md", 10.0, quiet=5.0)
    assert dirty.take(10.0 + PATIENCE + 0.5) is None
    assert dirty.take(15.0 + QUIET + 0.01) == Due(frozenset({"later.md"}), 1)


def test_a_change_ends_the_waiting_for_something_to_settle() -> None:
    dirty = DirtyPaths()
    dirty.mark("emptied.md", 0.0, quiet=1.5)
    dirty.mark("emptied.md", 0.3)
    assert dirty.take(0.3 + QUIET + 0.01) == Due(frozenset({"emptied.md"}), 1)


def test_what_is_tried_again_later_does_not_keep_others_waiting() -> None:
    dirty = DirtyPaths()
    dirty.mark("failed.md", 0.0, quiet=5.0)
    dirty.mark("edited.md", 0.1)
    assert dirty.take(0.1 + QUIET + 0.01) == Due(frozenset({"edited.md"}), 1)


def test_a_burst_that_is_tried_again_later_waits_as_a_whole() -> None:
    dirty = DirtyPaths()
    for n in range(BURST_PATHS + 1):
        dirty.mark(f"{n}.md", 0.0, quiet=5.0)
    assert dirty.take(5.0) is None
    due = dirty.take(5.0 + BURST_QUIET + 0.01)
    assert due is not None
    assert due.marked == BURST_PATHS + 1


def test_everything_that_is_tried_again_later_waits_for_so_long() -> None:
    dirty = DirtyPaths()
    dirty.mark_everything(0.0, quiet=5.0)
    assert dirty.take(5.0) is None
    assert dirty.take(5.0 + BURST_QUIET + 0.01) == Due(None, 1)


def test_age_is_that_of_the_eldest_change_not_looked_at() -> None:
    dirty = DirtyPaths()
    dirty.mark("a.md", 1.0)
    dirty.mark("b.md", 1.1)
    dirty.mark("a.md", 1.15)
    assert math.isclose(dirty.age(1.2), 0.2)
    assert dirty.take(1.31) == Due(frozenset({"b.md"}), 1)
    assert math.isclose(dirty.age(1.31), 0.31)
    assert dirty.take(1.4) is not None
    assert dirty.age(9.0) == 0.0


def test_age_is_never_negative_where_clocks_of_threads_disagree() -> None:
    dirty = DirtyPaths()
    dirty.mark("a.md", 1.0)
    assert dirty.age(0.9) == 0.0


# Any order of marks and looks

# Seconds that may be waited for something to settle, in the watcher.
LONGEST_QUIET = 5.0


class Marks(RuleBasedStateMachine):
    """A watcher that looks every tenth of a second; a model remembers what was not looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.dirty = DirtyPaths()
        self.now = 1000.0
        # path ("" for everything) -> when it was first marked since it was looked at, and until
        # when it was to be left alone
        self.unseen: dict[str, tuple[float, float]] = {}

    def put(self, path: str, quiet: float = 0.0) -> None:
        if path:
            self.dirty.mark(path, self.now, quiet=quiet)
        else:
            self.dirty.mark_everything(self.now, quiet=quiet)
        first = self.unseen.get(path, (self.now, 0.0))[0]
        self.unseen[path] = first, self.now + quiet

    @rule(numbers=st.lists(st.integers(0, 60), min_size=1, max_size=30))
    def mark(self, numbers: list[int]) -> None:
        for number in numbers:
            self.put(f"{number}.md")

    @rule()
    def mark_everything(self) -> None:
        self.put("")

    @rule(count=st.sampled_from([MOST_PATHS - 60, MOST_PATHS + 1]))
    def mark_very_many(self, count: int) -> None:
        for number in range(count):
            self.put(f"{number}.md")

    @rule(ticks=st.sampled_from([0, 1, 3, 7, 19, 60]), offset=st.sampled_from([0.0, 0.01]))
    def wait(self, ticks: int, offset: float) -> None:
        self.now += offset
        for _ in range(ticks):
            self.now += 0.1
            self.taken(self.dirty.take(self.now))

    @precondition(lambda self: self.unseen)
    @rule(again=st.sampled_from([None, 1.5, LONGEST_QUIET]))
    def look_when_it_is_due(self, again: float | None) -> None:
        """And try it again later, if it failed."""
        wait = self.dirty.due_in(self.now)
        assert wait is not None
        self.now += wait
        due = self.dirty.take(self.now)
        if due is None:  # rounded down
            self.now += HAIR
            due = self.dirty.take(self.now)
        assert due is not None, "it was said to be due now"
        self.taken(due)
        if again is not None:
            for path in sorted(due.paths) if due.paths is not None else [""]:
                self.put(path, again)

    def taken(self, due: Due | None) -> None:
        if due is None:
            return
        looked_at = set(self.unseen) if due.paths is None else due.paths
        assert looked_at, "a look at nothing"
        assert looked_at <= self.unseen.keys(), "a look at what nobody marked"
        assert due.marked == len(looked_at)
        assert all(self.unseen[path][1] <= self.now + HAIR for path in looked_at), "not settled"
        if due.paths is None:
            assert "" in looked_at or len(looked_at) > MOST_PATHS
        for path in looked_at:
            del self.unseen[path]

    @invariant()
    def nothing_is_lost(self) -> None:
        assert len(self.dirty) == len(self.unseen)
        assert (self.dirty.due_in(self.now) is None) == (not self.unseen)

    @invariant()
    def nothing_is_starved(self) -> None:
        """Whatever is still to come, what is marked now is due within these times."""
        wait = self.dirty.due_in(self.now)
        if wait is None:
            return
        assert 0.0 <= wait <= LONGEST_QUIET + BURST_QUIET + HAIR
        eldest = min(first for first, _ in self.unseen.values())
        if "" in self.unseen or len(self.unseen) > BURST_PATHS:
            last = max(settled for _, settled in self.unseen.values())
            first_settled = min(settled for _, settled in self.unseen.values())
            bound = min(last + BURST_QUIET, max(eldest + BURST_PATIENCE, first_settled))
        else:
            bound = min(
                min(settled + QUIET, max(first + PATIENCE, settled))
                for first, settled in self.unseen.values()
            )
        assert self.now + wait <= max(self.now, bound) + HAIR

    @invariant()
    def age_is_known(self) -> None:
        firsts = [first for first, _ in self.unseen.values()]
        expected = self.now - min(firsts) if firsts else 0.0
        assert math.isclose(self.dirty.age(self.now), expected, abs_tol=HAIR)


TestMarks = Marks.TestCase
TestMarks.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@given(
    st.lists(
        st.tuples(st.integers(0, 80), st.floats(0.0, 0.4), st.sampled_from([0.0, 0.0, 1.5])),
        min_size=1,
        max_size=300,
    )
)
@settings(max_examples=60, deadline=None)
def test_every_mark_is_looked_at_in_time_however_they_come(
    marks: list[tuple[int, float, float]],
) -> None:
    """Looked at every 0.1 s, as the watcher does, no change waits longer than is promised."""
    dirty = DirtyPaths()
    waiting: dict[str, tuple[float, float]] = {}
    now = 0.0

    def look() -> None:
        due = dirty.take(now)
        if due is None:
            return
        assert due.paths is not None
        for path in due.paths:
            first, settled = waiting.pop(path)
            # A path may become part of a burst when its own patience is nearly through.
            longest = max(PATIENCE + BURST_PATIENCE, settled - first + BURST_QUIET)
            assert now - first <= longest + 0.5

    for number, pause, quiet in marks:
        for _ in range(int(pause * 10)):
            now += 0.1
            look()
        now += pause % 0.1
        path = f"{number}.md"
        dirty.mark(path, now, quiet=quiet)
        waiting[path] = waiting.get(path, (now, 0.0))[0], now + quiet
        look()
    for _ in range(200):
        now += 0.1
        look()
    assert not waiting
    assert len(dirty) == 0
