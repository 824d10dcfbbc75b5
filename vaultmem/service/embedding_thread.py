"""Embedding in the background, beside something that must not wait for it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from vaultmem.model.errors import VaultmemError
from vaultmem.service.application import Clock, Memory, Progress, open_memory
from vaultmem.service.embed import EmbedReply, embed_waiting
from vaultmem.service.settings import Settings

# Texts between two looks at what is wanted most: a note that was just edited comes next.
SHARE_TEXTS = 256
# A model that had nothing to do for so long is let go of: seconds.
IDLE_SECONDS = 120.0
# ... and what could not be used is tried again after so long.
AGAIN_SECONDS = 60.0
# Between two words about work that takes long: seconds.
SAY_SECONDS = 10.0

# A batch takes about a second; what takes longer than this is a server: seconds.
END_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Embedded:
    """Passages were given their vectors, or could not be."""

    embedded: int
    waiting: int  # that still have none
    seconds: float
    problem: str  # why they have none; "" when nothing went wrong
    event: Literal["embedded"] = "embedded"


class EmbeddingThread(threading.Thread):
    """Gives passages their vectors whenever it is told that some may have none."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        say: Callable[[Embedded], None],
        stopped: Callable[[], bool],
    ) -> None:
        super().__init__(name="embedding", daemon=True)
        self._settings = settings
        self._clock = clock
        self._say = say
        self._stopped = stopped
        self._go = threading.Event()
        self._memory: Memory | None = None
        self._embedded = 0  # since it was last said
        self._waiting = 0  # when it was last said
        self.failure: Exception | None = None  # that ended it, for who started it to raise
        self._began = clock.elapsed()

    def look(self) -> None:
        """See whether passages are without a vector."""
        self._go.set()

    def use(self, settings: Settings) -> None:
        """Go by other settings from now on."""
        self._settings = settings
        self._go.set()

    def end(self) -> bool:
        """End with the batch that is being computed, once `stopped` says so.

        False where it hangs at a server that does not answer, which is not waited for.
        """
        self._go.set()
        self.join(END_SECONDS)
        return not self.is_alive()

    def run(self) -> None:
        """What the thread does."""
        pause: float | None = None
        try:
            while not self._stopped():
                if not self._go.wait(pause if pause is not None else IDLE_SECONDS):
                    if pause is None:
                        self._let_go()
                        self._go.wait()
                    self._go.set()
                self._go.clear()
                if self._stopped():
                    return
                pause = self._embed_some()
        except KeyboardInterrupt:
            return  # by `_unless_stopped`
        except Exception as error:  # noqa: BLE001 - raised by the thread that started this one
            self.failure = error
        finally:
            self._let_go()

    def _embed_some(self) -> float | None:
        """Embed a share; returns the seconds to wait before trying again, None for no need to."""
        if self._memory is None or self._memory.settings != self._settings:
            self._let_go()
            self._memory = open_memory(
                self._settings, clock=self._clock, progress=Progress(self._unless_stopped)
            )
        if not self._embedded:
            self._began = self._clock.elapsed()
        try:
            with self._memory.guarded():
                reply = embed_waiting(self._memory, share=SHARE_TEXTS, gentle=True)
        except VaultmemError as error:
            reply = EmbedReply(problem=str(error), code=error.code)
        self._embedded += reply.embedded
        going_on = not reply.problem and reply.embedded > 0 and reply.waiting > reply.failed
        seconds = self._clock.elapsed() - self._began
        # Others may have done it: how many wait is told even where nothing was done here.
        news = self._embedded or reply.problem or reply.waiting != self._waiting
        if news and (not going_on or seconds > SAY_SECONDS):
            self._waiting = reply.waiting
            self._say(Embedded(self._embedded, reply.waiting, round(seconds, 3), reply.problem))
            self._embedded = 0
        if going_on:
            self._go.set()
        return AGAIN_SECONDS if reply.problem else None

    def _let_go(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def _unless_stopped(self, stage: str, done: int, total: int) -> None:
        if self._stopped():
            raise KeyboardInterrupt
