"""Operations for whoever stays: a server that answers for as long as its clients wish.

Requests come from any thread and wait in one of two lanes, so that a search never waits for an
index run. A lane holds one opened vault, with its connection and its model, for as long as the
settings stay what they are. A vault that was never indexed is indexed in the background, and what
is there so far answers.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vaultmem.model.errors import SidecarDamaged, VaultmemError
from vaultmem.model.operation import Group, Operation, Reply, Request
from vaultmem.service.application import Clock, Memory, Progress, open_memory
from vaultmem.service.embedders import serving_space
from vaultmem.service.embedding_thread import Embedded, EmbeddingThread
from vaultmem.service.indexing import COMPLETE
from vaultmem.service.meaning import open_meaning
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.refresh import BUSY, INCOMPLETE, relied_on
from vaultmem.service.settings import Settings

log = logging.getLogger("vaultmem.dispatch")

if TYPE_CHECKING:
    from vaultmem.service.listening import Listening

# Without a word on it a reply has this many tokens at most: below what clients warn of,
REPLY_TOKENS = 6_000
# ... and never more than this: below what they cut off.
MOST_REPLY_TOKENS = 12_000
# So long an answer waits for the first index: seconds. Some thousand notes take longer.
FIRST_SECONDS = 3.0
# After so long behind another request, such as one that waits for a server, a request is served
# beside it: seconds.
PATIENCE_SECONDS = 1.0
# What nobody has asked for so long is let go of, the model first of all: seconds.
IDLE_SECONDS = 600.0
# Between two words on how far that is: seconds.
_SAY_SECONDS = 0.1

Report = Callable[[str, int, int], None]
"""Told how far something is: what it is, how much of it is done, and how much there is."""


def to_nobody(stage: str, done: int, total: int) -> None:
    """The report of a caller who does not want to know."""


class Dispatcher:
    """Runs operations on one vault. Close it when done."""

    def __init__(
        self,
        load: Callable[[], Settings],
        *,
        clock: Clock | None = None,
        first_seconds: float = FIRST_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """Open nothing yet.

        load: reads the settings; called for each request, so that a change counts at once.
        first_seconds: how long answers wait for an index that is made for the first time.
        idle_seconds: how long what was opened for one answer is kept for the next.
        """
        self._load = load
        self._clock = clock or Clock()
        self._closed = threading.Event()
        self._lanes = {care: _Lane(self._clock) for care in (False, True)}
        self._first = _FirstIndex(self._clock, first_seconds, self._closed.is_set)
        self._starting = threading.Lock()
        self._settings: Settings | None = None  # of the last request
        self._warm: threading.Thread | None = None
        self._warmed: Settings | None = None  # what it has been done for
        self._states: dict[bool, object] = {}  # of the index, as each lane last met it
        self._news = False  # it was another one than before: passages may wait for vectors
        self._embedding: EmbeddingThread | None = None
        self._listening: Listening | None = None
        self._idle_seconds = idle_seconds
        self._used = 0.0  # when the last answer was given
        self._tidying: threading.Timer | None = None

    def run(self, operation: Operation, request: Request, report: Report = to_nobody) -> Reply:
        """The operation's reply, within the room that clients have.

        Raises VaultmemError for every failure that is foreseen. What `report` raises ends it
        between two notes.
        """
        settings = self._settings = self._load()
        care = operation.group is Group.CARE
        lane = self._lanes[care]
        # Whoever cares for the index waits for it, and wants to know what came of it.
        told = () if care else self._first.look(lane, settings, report)
        with lane.memory(settings, report) as memory:
            reply: Reply = operation.run(memory, within_room(request))
            state = _state(memory)
        if state != self._states.get(care):
            self._states[care] = state
            self._news = True
        if told:
            # Said with numbers, it need not be said in general.
            others = [reason for reason in reply.degraded if reason not in (BUSY, INCOMPLETE)]
            reply = replace(reply, degraded=(*told, *others))
        return reply

    def question(self, operation: Operation, request: Request, report: Report = to_nobody) -> str:
        """What a person is asked before this is done. Raises what is wrong with the request."""
        assert operation.question is not None
        settings = self._load()
        with self._lanes[operation.group is Group.CARE].memory(settings, report) as memory:
            return operation.question(memory, request)

    def warm_up(self) -> None:
        """Load aside what answers by meaning take, and give passages their vectors.

        Called when an answer has been given, which may have taken notes in. The first is done once
        for the settings as they are, as soon as there is an index.
        """
        with self._starting:
            self._used = self._clock.elapsed()
            settings = self._settings
            at_it = self._warm is not None and self._warm.is_alive()
            if settings is None or self._closed.is_set():
                return
            self._tidy_later()
            if self._news and self._embedding is not None:
                self._news = False
                self._embed(settings)
            if settings == self._warmed or at_it:
                return
            self._warm = threading.Thread(
                target=self._warm_up, args=(settings,), name="warm-up", daemon=True
            )
            self._warm.start()

    def _warm_up(self, settings: Settings) -> None:
        with suppress(VaultmemError):  # the next request meets it too, and says so
            self._first.wait()
            if self._closed.is_set():
                return
            embeds = settings["embedder.name"] != "none"
            if embeds:
                self._embed(settings)
            with self._lanes[False].memory(settings, to_nobody) as memory:
                if not _is_complete(memory):
                    return  # the next answer sees to it
                asks_a_server = _asks_a_server(memory)
            self._listen(settings)
            self._warmed = settings
            if embeds and not asks_a_server:
                with self._lanes[False].memory(settings, to_nobody) as memory, memory.guarded():
                    open_meaning(memory, memory.lookup(), "Is anybody there?", alone=False)

    def _embed(self, settings: Settings) -> None:
        """Have passages given their vectors, in a thread."""
        if self._embedding is None or not self._embedding.is_alive():
            if self._embedding is not None and self._embedding.failure is not None:
                # (Its message may hold text of a note.)
                log.error("embedding ended: %s", type(self._embedding.failure).__name__)
            self._embedding = EmbeddingThread(settings, self._clock, _unsaid, self._closed.is_set)
            self._embedding.start()
        self._embedding.use(settings)

    def _listen(self, settings: Settings) -> None:
        """Hear of changes, so that answers need not look for them; a watcher does it better."""
        with self._lanes[False].memory(settings, to_nobody) as memory:
            if settings["search.refresh"] != "auto" or relied_on(memory) is not None:
                return
        from vaultmem.service.listening import Listening

        if self._listening is not None:
            if self._listening.vault == settings.vault and self._listening.marks() is not None:
                return
            self._listening.close()
        listening = self._listening = Listening(settings.vault)
        for lane in self._lanes.values():
            lane.hear(settings.vault, listening.marks)

    def _tidy_later(self) -> None:
        if self._tidying is None:
            self._tidying = threading.Timer(self._idle_seconds, self._tidy)
            self._tidying.daemon = True
            self._tidying.start()

    def _tidy(self) -> None:
        """Let go of what was opened, if nobody has asked for anything in a while."""
        with self._starting:
            self._tidying = None
            if self._closed.is_set():
                return
            if self._clock.elapsed() - self._used < self._idle_seconds:
                self._tidy_later()
                return
        for lane in self._lanes.values():
            lane.close()

    def stop(self) -> None:
        """Begin nothing more; what is being computed ends at the next note or batch."""
        self._closed.set()

    def close(self) -> None:
        """Answer no more. What is being computed ends at the next note or batch."""
        self._closed.set()
        with self._starting:
            if self._tidying is not None:
                self._tidying.cancel()
        for lane in self._lanes.values():
            lane.close()
        if self._embedding is not None:
            self._embedding.end()
        if self._listening is not None:
            self._listening.close()


def within_room(request: Request) -> Request:
    """The request with a bound on its reply that no client cuts off."""
    room = request.max_tokens
    if isinstance(room, int) and room > MOST_REPLY_TOKENS:
        room = MOST_REPLY_TOKENS
    return replace(request, max_tokens=REPLY_TOKENS if room is None else room)


def _unsaid(event: Embedded) -> None:
    """There is nobody to tell; `status` counts the vectors."""


class _Lane:
    """A vault that serves one request after another, and one beside a request that takes long."""

    def __init__(self, clock: Clock) -> None:
        self._usual, self._spare = _Seat(clock), _Seat(clock)
        self._turn = threading.Condition()
        self._heard: tuple[Path, Callable[[], int | None]] | None = None

    def hear(self, vault: Path, marks: Callable[[], int | None]) -> None:
        """From the next request on, `marks` tells how many changes in the vault were heard of."""
        self._heard = (vault, marks)

    @contextmanager
    def memory(self, settings: Settings, report: Report) -> Iterator[Memory]:
        """The vault, opened by these settings, for this request alone."""
        seat = self._take()
        try:
            memory = seat.opened(settings)
            memory.notices.clear()
            if self._heard is not None and self._heard[0] == settings.vault:
                memory.marks = self._heard[1]
            memory.progress = Progress(report)
            try:
                yield memory
            except VaultmemError:
                raise
            except BaseException:
                seat.let_go()  # nobody knows what state it is in
                raise
            finally:
                memory.progress = Progress()
        finally:
            self._free(seat)

    def close(self) -> None:
        """Let go of the vault, unless a request is being answered: then with the process."""
        with self._turn:
            idle = [seat for seat in (self._usual, self._spare) if not seat.taken]
            for seat in idle:
                seat.taken = True
        for seat in idle:
            seat.let_go()
            self._free(seat)

    def _take(self) -> "_Seat":
        """The usual seat; after a while the spare one, if that is free sooner."""
        patient_until = time.monotonic() + PATIENCE_SECONDS
        with self._turn:
            while True:
                left = patient_until - time.monotonic()
                free = [seat for seat in (self._usual, self._spare) if not seat.taken]
                if free and (free[0] is self._usual or left <= 0):
                    free[0].taken = True
                    return free[0]
                self._turn.wait(left if left > 0 else None)

    def _free(self, seat: "_Seat") -> None:
        with self._turn:
            seat.taken = False
            self._turn.notify_all()


class _Seat:
    """An opened vault with its connection and its model, for who has taken it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.taken = False
        self._memory: Memory | None = None

    def opened(self, settings: Settings) -> Memory:
        """The vault, opened anew where the settings are others than before."""
        if self._memory is not None and self._memory.settings != settings:
            self.let_go()
        if self._memory is None:
            self._memory = open_memory(settings, clock=self._clock)
        return self._memory

    def let_go(self) -> None:
        """Close it."""
        if self._memory is not None:
            self._memory.close()
            self._memory = None


class _FirstIndex:
    """Makes the index of a vault that has none, while questions are already answered."""

    def __init__(self, clock: Clock, seconds: float, closed: Callable[[], bool]) -> None:
        self._clock = clock
        self._seconds = seconds
        self._closed = closed
        self._starting = threading.Lock()
        self._run: _IndexRun | None = None

    def wait(self) -> None:
        """Wait for a run that has begun."""
        with self._starting:
            run = self._run
        if run is not None:
            run.join()

    def look(self, lane: _Lane, settings: Settings, report: Report) -> tuple[str, ...]:
        """See to an index; returns why the answer may lack something, empty when it does not.

        All who ask wait for the same run, and nobody keeps another from waiting. Of a failure
        that is foreseen, what it means for the answer says the operation.
        """
        try:
            with lane.memory(settings, to_nobody) as memory:
                if _is_complete(memory):
                    return ()
        except SidecarDamaged:
            return ()  # the operation makes it anew, and says so
        with self._starting:
            run = self._run
            if run is None or not run.is_alive():
                run = self._run = _IndexRun(settings, self._clock, self._closed)
                run.start()
        until = run.began + self._seconds
        # Something to answer from there must be, however long it takes.
        while run.is_alive() and (self._clock.elapsed() < until or not _is_there(lane, settings)):
            run.join(_SAY_SECONDS)
            report("index", run.done, run.total)
        if run.is_alive():
            if not run.total:
                return ()  # another process makes it; what that has come to says the operation
            return (
                f"The vault is being indexed: {run.done:,} of {run.total:,} notes are in. What is "
                "not found may be found in a moment.",
            )
        if run.failure is not None and not isinstance(run.failure, VaultmemError):
            raise run.failure
        return ()


def _state(memory: Memory) -> object:
    """Something that is another one once the index has changed, by whoever it was."""
    sidecar = memory.sidecar
    if sidecar is None:
        return None
    return id(sidecar), sidecar.state(), sidecar.connection.total_changes()


def _is_complete(memory: Memory) -> bool:
    with memory.guarded():
        sidecar = memory.open_sidecar()
        return sidecar is not None and sidecar.meta(COMPLETE) is not None


def _is_there(lane: _Lane, settings: Settings) -> bool:
    """Whether there is an index to answer from, complete or not."""
    try:
        with lane.memory(settings, to_nobody) as memory, memory.guarded():
            return memory.open_sidecar() is not None
    except SidecarDamaged:
        return False


def _asks_a_server(memory: Memory) -> bool:
    """Whether a question is embedded by a server: to wait for one would keep others waiting."""
    with memory.guarded():
        sidecar = memory.open_sidecar()
        space = serving_space(memory, sidecar) if sidecar is not None else None
        return space is not None and space.space.provider == "ollama"


class _IndexRun(threading.Thread):
    """One index run, by words; vectors come later."""

    def __init__(self, settings: Settings, clock: Clock, closed: Callable[[], bool]) -> None:
        super().__init__(name="first index", daemon=True)
        self._settings = settings
        self._clock = clock
        self._closed = closed
        self.began = clock.elapsed()
        self.done = self.total = 0
        self.failure: Exception | None = None  # for whoever waits to raise

    def run(self) -> None:
        """What the thread does."""
        memory = open_memory(self._settings, clock=self._clock, progress=Progress(self._report))
        try:
            index(memory, IndexRequest(embed=False))
        except KeyboardInterrupt:
            return  # by `_report`
        except Exception as error:  # noqa: BLE001 - raised by who waits for this
            self.failure = error
        finally:
            memory.close()

    def _report(self, stage: str, done: int, total: int) -> None:
        if self._closed():
            raise KeyboardInterrupt
        if stage == "index":
            self.done, self.total = done, total
