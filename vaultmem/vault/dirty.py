"""Which paths may have changed, and when it is time to look: pure bookkeeping, without a clock.

An editor saves in several steps, and a sync client or `git checkout` touches thousands of files. So
a path is looked at once it has been quiet for a moment, and of a burst all of it together.
"""

from collections.abc import Iterable
from dataclasses import dataclass

# A path that has been quiet for so long is looked at. Seconds, like all times here.
QUIET = 0.2
# ... and one that never is, after so long.
PATIENCE = 2.0
# More paths than this at once are a burst: it is taken when all of them are quiet for longer,
BURST_PATHS = 24
BURST_QUIET = 0.6
# ... and one without an end in portions.
BURST_PATIENCE = 10.0
# More paths than this are not worth being told apart: the whole vault is looked at.
MOST_PATHS = 512


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be looked at now."""

    paths: frozenset[str] | None  # below the vault, as the disk spells them; None for everything
    marked: int  # how many changes that stands for


class DirtyPaths:
    """Marks on paths, each with the time of its first and of its last change."""

    def __init__(self) -> None:
        self._marks: dict[str, tuple[float, float]] = {}
        self._everything: tuple[float, float] | None = None

    def mark(self, path: str, now: float, *, quiet: float = 0.0) -> None:
        """A path may have changed. quiet: seconds to wait beyond the usual for it to settle."""
        first, _ = self._marks.get(path, (now, now))
        self._marks[path] = first, now + quiet

    def mark_everything(self, now: float, *, quiet: float = 0.0) -> None:
        """Anything may have changed: changes were lost, or the settings are others."""
        first, _ = self._everything or (now, now)
        self._everything = first, now + quiet

    def __len__(self) -> int:
        return len(self._marks) + (self._everything is not None)

    def paths(self) -> frozenset[str]:
        """The paths that are marked and not due yet."""
        return frozenset(self._marks)

    def age(self, now: float) -> float:
        """Seconds since the eldest change that was not looked at; 0 for none."""
        firsts = [first for first, _ in self._all()]
        return max(0.0, now - min(firsts)) if firsts else 0.0

    def due_in(self, now: float) -> float | None:
        """Seconds until there is something to look at; None while nothing is marked."""
        whens = [self._when(*mark) for mark in self._all()]
        if not whens:
            return None
        when = max(whens) if self._is_burst() else min(whens)
        if self._is_burst():
            # (A mark may also lie ahead, where something is to be tried again.)
            eldest = min(first for first, _ in self._all())
            when = min(when, max(eldest + BURST_PATIENCE, min(last for _, last in self._all())))
        return max(0.0, when - now)

    def take(self, now: float) -> Due | None:
        """What is due, which counts as looked at from here on; None when nothing is."""
        wait = self.due_in(now)
        if wait is None or wait > 0:
            return None
        marked = len(self)
        if self._everything is not None or marked > MOST_PATHS:
            self._marks.clear()
            self._everything = None
            return Due(None, marked)
        burst = self._is_burst()
        ready = [path for path, mark in self._marks.items() if burst or self._when(*mark) <= now]
        for path in ready:
            del self._marks[path]
        return Due(frozenset(ready), len(ready))

    def _all(self) -> Iterable[tuple[float, float]]:
        return [*self._marks.values(), *([self._everything] if self._everything else [])]

    def _is_burst(self) -> bool:
        return self._everything is not None or len(self._marks) > BURST_PATHS

    def _when(self, first: float, last: float) -> float:
        if self._is_burst():
            return last + BURST_QUIET
        return min(last + QUIET, max(first + PATIENCE, last))
