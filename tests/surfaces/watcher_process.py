"""A `vaultmem watch --json` that runs beside a test, and what it says."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from command_line import CommandLine
from warm_start import Process

DEADLINE_SECONDS = 30.0


class WatcherProcess:
    """The process; its lines of JSON are read by a thread, in order."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []
        self._heard = threading.Condition()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def said(self, event: str, since: int = 0) -> list[dict[str, Any]]:
        """The events of a kind, from a given one on."""
        return [line for line in list(self.events)[since:] if line["event"] == event]

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, asked whenever it says something, and now and then."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, self.events[-3:]
            assert self.process.poll() is None, self.process.returncode
            with self._heard:
                self._heard.wait(0.05)

    def stop(self) -> tuple[int, str]:
        """Ask it to end; its exit code, and what it wrote to standard error."""
        self.process.terminate()
        assert self.process.stderr is not None
        errors = self.process.stderr.read()
        code = self.process.wait(DEADLINE_SECONDS)
        self._listener.join(DEADLINE_SECONDS)
        return code, errors

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._heard:
                self.events.append(json.loads(line))
                self._heard.notify_all()


@contextmanager
def watched(
    shell: CommandLine,
    *options: str,
    environment: Mapping[str, str | None] | None = None,
    preexec_fn: Callable[[], None] | None = None,
) -> Iterator[WatcherProcess]:
    """A watcher of the shell's vault that has begun; it is killed if it does not end."""
    with shell.started(
        "watch", "--json", *options,
        environment=environment, encoding="utf-8", preexec_fn=preexec_fn,
    ) as process:  # fmt: skip
        watcher = WatcherProcess(process)
        try:
            watcher.until(lambda: len(watcher.events) > 1)
            yield watcher
        finally:
            if process.poll() is None:
                process.kill()
