"""A child process of the tests: vaultmem itself, or one thing that it does, with a fault on demand.

    python worker.py run ARGUMENT...  the command line
    python worker.py count TIMES      read a number in the sidecar and write the next, TIMES
    python worker.py ask NAME TIMES   ask for TIMES paths that begin with NAME
    python worker.py hold             hold every lock of the sidecar until the end of the input

Which vault is told by the variables that vaultmem reads. FAULT_WORKER names the fault, a function
of FAULTS below; nothing but this file reads it. Each prints JSON, a line when it is ready to begin,
which it does at the next line of its input, and one at its end; `run` prints what the command line
does.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count as count_from
from pathlib import Path
from typing import Any

import apsw

from vaultmem.index.lock import embedding_lock, watch_lock, writer_lock
from vaultmem.index.requests import ask_for
from vaultmem.index.store import Sidecar, sidecar_errors
from vaultmem.model.errors import VaultmemError
from vaultmem.service.application import Memory, open_memory
from vaultmem.service.indexing import NoteCounts, Taken
from vaultmem.service.settings import load_settings


def plain_begin() -> None:
    """Begin transactions as readers, which become writers when they write."""

    @contextmanager
    def transaction(self: Sidecar, *, weight: int = 1) -> Iterator[apsw.Connection]:
        self.connection.execute("BEGIN")
        try:
            yield self.connection
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    Sidecar.transaction = transaction  # type: ignore[method-assign]


def idle_watcher() -> None:
    """Have a watcher say that it has taken in what it never looked at."""
    from vaultmem.service import watching

    nothing = NoteCounts(0, 0, 0, 0, 0, 0)
    real: Callable[..., Taken] = vars(watching)["take_in"]
    looks = count_from(1)

    def take_in(memory: Memory, **options: Any) -> Taken:
        # Only the look at its start is one.
        return real(memory, **options) if next(looks) == 1 else Taken(nothing, nothing, 0)

    vars(watching)["take_in"] = take_in


def fall_back() -> None:
    """Take a folder of temporary files where the one that was chosen cannot be written."""
    from vaultmem.service import settings

    real = settings.find_sidecar_folder

    def find_sidecar_folder(vault: Path, *chosen: Any) -> tuple[Path, str]:
        folder, source = real(vault, *chosen)
        near = next(above for above in (folder, *folder.parents) if above.exists())
        if os.access(near, os.W_OK):
            return folder, source
        return Path(os.environ["TMPDIR"]) / folder.name, source

    vars(settings)["find_sidecar_folder"] = find_sidecar_folder


FAULTS: dict[str, Callable[[], None]] = {
    function.__name__: function for function in (plain_begin, idle_watcher, fall_back)
}


def opened() -> Sidecar:
    """The sidecar of the vault that the environment names."""
    sidecar = open_memory(load_settings()).open_sidecar()
    assert sidecar is not None
    return sidecar


def begin() -> None:
    """Say that all is ready, and wait for the others."""
    say(ready=True)
    sys.stdin.readline()


def say(**told: object) -> None:
    """Print a line of JSON."""
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def tried(sidecar: Sidecar, act: Callable[[int], bool], times: int) -> None:
    """Do something again and again; tell how often it was done, and what errors there were."""
    done, errors = 0, list[str]()
    begin()
    for number in range(times):
        try:
            with sidecar_errors(sidecar.path.parent):
                done += act(number)
        except VaultmemError as error:
            errors.append(f"{type(error).__name__}: {error}")
    say(done=done, errors=errors)


def count(times: int) -> None:
    """Read and write in one transaction, as whoever takes in a note does."""
    sidecar = opened()

    def act(_: int) -> bool:
        with sidecar.transaction():
            number = int(sidecar.meta("count") or "0")
            sidecar.set_meta("count", str(number + 1))
        return True

    tried(sidecar, act, times)


def ask(name: str, times: int) -> None:
    """Queue requests."""
    sidecar = opened()
    tried(sidecar, lambda number: ask_for(sidecar, [f"{name} {number}.md"], number), times)


def hold() -> None:
    """Hold the locks."""
    with ExitStack() as held:
        for lock in (writer_lock, embedding_lock, watch_lock):
            held.enter_context(lock(load_settings().sidecar_folder))
        begin()


def main(what: str, *arguments: str) -> int:
    """Do it."""
    if fault := os.environ.get("FAULT_WORKER"):
        FAULTS[fault]()
    match what, arguments:
        case "run", _:
            from vaultmem.surfaces.cli import main as run

            return run(list(arguments))
        case "count", (times,):
            count(int(times))
        case "ask", (name, times):
            ask(name, int(times))
        case "hold", ():
            hold()
        case _:
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
