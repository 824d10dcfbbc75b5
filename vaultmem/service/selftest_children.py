"""The processes that `selftest` starts: given tasks, listened to, ended."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from vaultmem.model.errors import UsageError
from vaultmem.service.selftest_child import Task

# Nothing that a child is told takes a hundredth of it.
PATIENCE_SECONDS = 120.0
# Of what a child writes to standard error, where it should write nothing.
_MOST_SAID = 400

# A child has the very modules that this process has, however it was started.
START = "import sys; sys.path[:] = sys.argv[1:]; from vaultmem.service.selftest_child import main"


@dataclass(frozen=True, slots=True)
class Heard:
    """A line of a child, or that there are no more."""

    child: "Child"
    line: dict[str, Any] | None

    @property
    def is_last(self) -> bool:
        """Whether its task is over, one way or the other."""
        return self.line is None or "ended" in self.line or "killed" in self.line


class Child:
    """One process that serves tasks."""

    def __init__(
        self, command: Sequence[str], log: Path, heard: "queue.SimpleQueue[Heard] | None" = None
    ) -> None:
        self._log = log
        self.heard = heard or queue.SimpleQueue()
        quiet = {name: v for name, v in os.environ.items() if not name.startswith("VAULTMEM_")}
        with log.open("ab") as errors:
            try:
                self._process = subprocess.Popen(
                    command,
                    # What it compiles would look like a change of files.
                    env={**quiet, "PYTHONDONTWRITEBYTECODE": "1"},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    encoding="utf-8",
                )
            except OSError as error:
                raise UsageError(
                    f"{command[0]}, which runs vaultmem, cannot be started: {error.strerror}."
                ) from None
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        with suppress(OSError, ValueError):  # its end, seen from here
            for line in self._process.stdout or ():
                said = json.loads(line)
                if "ready" not in said:
                    self.heard.put(Heard(self, said))
        self.heard.put(Heard(self, None))

    def tell(self, task: Task) -> None:
        """Give it a task. What came of it is heard."""
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended already; that is heard too
            self._process.stdin.write(task.line())
            self._process.stdin.flush()

    def result(self, task: Task) -> dict[str, Any]:
        """Have it do a task to the end; its last line, {} where it ended without one."""
        self.tell(task)
        while True:
            heard = next_heard(self.heard)
            if heard is None:
                return {}
            if heard.child is self and heard.is_last:
                return heard.line or {}

    def was_killed(self) -> bool:
        """Whether it ended by its own hand; waits for that."""
        with suppress(subprocess.TimeoutExpired):
            code = self._process.wait(PATIENCE_SECONDS)
            # (Windows gives the number of the signal as exit code.)
            return code == (-signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
        return False

    def said(self) -> str:
        """The end of what it wrote to standard error."""
        return self._log.read_text("utf-8", "replace").strip()[-_MOST_SAID:]

    def close(self) -> None:
        """End it, however it is."""
        self._process.kill()
        self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError, ValueError):
                    pipe.close()


def next_heard(heard: "queue.SimpleQueue[Heard]") -> Heard | None:
    """What is said next; None where all is silent for too long."""
    try:
        return heard.get(timeout=PATIENCE_SECONDS)
    except queue.Empty:
        return None


class Nursery:
    """Children that are started before they are needed; closes all it has started.

    start: Python code that a child begins with; it defines `main`.
    ahead: how many wait, ready.
    """

    def __init__(self, folder: Path, *, start: str = START, ahead: int = 2) -> None:
        if not sys.executable:
            raise UsageError("The Python that runs vaultmem does not know its own path.")
        self._folder = folder
        path = [os.path.abspath(entry) for entry in sys.path]
        self._command = (sys.executable, "-P", "-c", f"{start}; main()", *path)
        self._ahead = ahead
        self._ready: deque[Child] = deque()
        self._started: list[Child] = []

    def child(self) -> Child:
        """One that has done nothing yet."""
        while len(self._ready) <= self._ahead:
            self._ready.append(self.another())
        return self._ready.popleft()

    def another(self, heard: "queue.SimpleQueue[Heard] | None" = None) -> Child:
        """One that is started now; heard: where what it says is heard with what others say."""
        log = self._folder / f"child {len(self._started)}.log"
        child = Child(self._command, log, heard)
        self._started.append(child)
        return child

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *what: object) -> None:
        for child in self._started:
            child.close()
