"""A process of `selftest`: indexes or searches as told, and ends itself at the step it is told.

Each line of its input is a task, each line of its output JSON: {"ready": true} at the start, for
each task {"done": how often so far} as it goes and {"ended": steps taken, "errors": [...]} at its
end, and {"killed": the step that would have come next, "after": steps taken} before it is gone.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vaultmem.index.steps import tell_steps
from vaultmem.service.application import Memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.selftest_bench import Place, not_found, strange_answers

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# What Python tells of that changes files or waits for others, besides opening.
_CHANGE_NAMES = """
    fcntl.flock fcntl.lockf msvcrt.locking os.chmod os.link os.mkdir os.remove os.rename os.rmdir
    os.symlink os.truncate os.utime
"""
_CHANGES = frozenset(_CHANGE_NAMES.split())


@dataclass(frozen=True, slots=True)
class Task:
    """What a child is to do."""

    folder: str  # of its Place
    do: str  # index, rebuild, search
    times: int = 1
    queries: tuple[str, ...] = ()
    marked: tuple[str, str] | None = None  # a note, and the word that leads to it alone
    kill_at: int = 0  # the step before which it ends itself, from 1; 0 for never

    def line(self) -> str:
        """As a line of the child's input."""
        return json.dumps(asdict(self)) + "\n"


def main() -> None:
    """Serve tasks until there are no more."""
    # Who started this one is interrupted as well, and sees to it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    steps = _Steps()
    sys.addaudithook(steps.hear)
    layer = tell_steps(steps.count)  # noqa: F841 - in use until the end
    _say(ready=True)
    memories: dict[str, Memory] = {}
    for line in sys.stdin:
        given: dict[str, Any] = json.loads(line)
        task = Task(**given)
        steps.begin(task.kill_at)
        errors = _done(task, memories)
        if task.kill_at:
            steps.end("the end of the process")
        taken = steps.taken
        steps.begin(0)
        _say(ended=taken, errors=errors)
    for memory in memories.values():
        memory.close()


def _done(task: Task, memories: dict[str, Memory]) -> list[str]:
    """Do it; what went wrong."""
    errors: list[str] = []
    work = _searches if task.do == "search" else _indexing
    try:
        for number, wrong in enumerate(work(task, memories), 1):
            errors += wrong
            _say(done=number)
    except Exception as error:  # noqa: BLE001 - whatever it is, the promise is broken, and it is told
        errors.append(f"{type(error).__name__}: {error}")
    return errors


def _indexing(task: Task, memories: dict[str, Memory]) -> Iterator[list[str]]:
    """Each time as a new command would."""
    for _ in range(task.times):
        memory = Place(Path(task.folder)).opened()
        try:
            reply = index(memory, IndexRequest(rebuild=task.do == "rebuild"))
        finally:
            memory.close()
        yield [f"indexing said: {said}" for said in reply.degraded]


def _searches(task: Task, memories: dict[str, Memory]) -> Iterator[list[str]]:
    """As a server does, which keeps the index open."""
    if task.folder not in memories:
        memories[task.folder] = Place(Path(task.folder)).opened()
    memory = memories[task.folder]
    for _ in range(task.times):
        # (Files come and go meanwhile: what an answer names may be gone when we look.)
        wrong = strange_answers(memory, task.queries, files_come_and_go=True)
        yield wrong + (not_found(memory, *task.marked) if task.marked else [])


class _Steps:
    """The steps of this process, and the one to end at."""

    def __init__(self) -> None:
        self.taken = 0
        self._kill_at = 0
        self._counting = False

    def begin(self, kill_at: int) -> None:
        self.taken = 0
        self._kill_at = kill_at
        self._counting = True

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _CHANGES:
            self.count(event)
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING:
            self.count(f"open {os.path.basename(str(arguments[0]))}")

    def count(self, what: str) -> None:
        if not self._counting:
            return
        self.taken += 1
        if self.taken == self._kill_at:
            self.end(what)

    def end(self, before: str) -> None:
        """Be gone at once: nothing is closed, rolled back or written out."""
        self._counting = False
        _say(killed=before, after=self.taken)
        # (On Windows os.kill ends a process just so, by any signal.)
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
        while True:
            time.sleep(1.0)  # until it has come


def _say(**told: object) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
