"""A watcher that is driven step by step: the disk is real, the clock goes when a test lets it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from vaultmem.index.lock import watch_lock
from vaultmem.index.store import make_folder
from vaultmem.service.application import Clock, Progress
from vaultmem.service.settings import Settings
from vaultmem.service.watching import Batch, Watcher, WatchEvent

Event = TypeVar("Event")

# Until the system has reported what was done to the disk, and a thread has heard it.
DEADLINE_SECONDS = 20.0
# While that is waited for the watcher's clock goes on by this for every look at it.
_WAITING_STEP = 0.02


class Times:
    """A clock that a test moves. ahead: seconds that its wall clock is ahead of the true time."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.seconds = 0.0
        self._began = time.time_ns() + int(ahead * 1e9)

    @property
    def clock(self) -> Clock:
        return Clock(now_ns=self.now_ns, elapsed=lambda: self.seconds)

    def now_ns(self) -> int:
        return self._began + int(self.seconds * 1e9)

    def sleep(self, seconds: float) -> None:
        """The machine sleeps: the wall clock alone goes on."""
        self._began += int(seconds * 1e9)


class Followed:
    """A vault and the watcher that follows it; what the watcher says is kept in `events`."""

    def __init__(
        self,
        load: Callable[[], Settings],
        times: Times,
        *,
        embed: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self.times = times
        self.load = load
        self.events: list[WatchEvent] = []
        self._heard = threading.Condition()
        self._watcher = Watcher(load, self._hear, clock=times.clock, progress=progress, embed=embed)
        self.folder: Path = load().sidecar_folder

    @contextmanager
    def running(self) -> Iterator["Followed"]:
        """Between these it watches, and has looked at everything once."""
        make_folder(self.folder)
        with watch_lock(self.folder):
            try:
                self._watcher._begin()
                self.until(lambda: bool(self.said(Batch)) or len(self.events) > 1)
                yield self
            finally:
                self._watcher._end()

    def step(self) -> float:
        """What the watcher does when it wakes; seconds until it would wake by itself."""
        self._watcher._step()
        return self._watcher._pause()

    def pass_by(self, seconds: float) -> None:
        """Let so much time go by, the watcher waking as it does."""
        end = self.times.seconds + seconds
        while self.times.seconds < end:
            pause = self.step()
            self.times.seconds = min(end, self.times.seconds + max(pause, 0.001))
        self.step()

    def until(self, holds: Callable[[], bool]) -> None:
        """Let as little time go by as it takes until something holds, which it must do soon."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            self.step()
            if holds():
                return
            assert time.monotonic() < deadline, self.events[-3:]
            with self._heard:
                self._heard.wait(0.002)
            self.times.seconds += _WAITING_STEP

    def said(self, kind: type[Event], since: int = 0) -> list[Event]:
        """The events of a kind, from a given one on."""
        return [event for event in self.events[since:] if isinstance(event, kind)]

    def removed(self, since: int = 0) -> int:
        """How many notes were forgotten, from a given event on."""
        return sum(batch.notes.removed for batch in self.said(Batch, since))

    def missing(self) -> int:
        """How many notes it said are gone, and kept."""
        return self.said(Batch)[-1].missing

    def _hear(self, event: WatchEvent) -> None:
        with self._heard:
            self.events.append(event)
            self._heard.notify_all()
