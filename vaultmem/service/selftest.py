"""`selftest`: the promises about killing, processes at once and edits, tried on this computer.

All of it happens in a temporary folder on the file system that is asked about. No vault, model,
setting or network is needed or touched.
"""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vaultmem.embedding.file_system import file_system
from vaultmem.embedding.journal_mode import Mode, journal, made_with
from vaultmem.index.store import SIDECAR_NAME
from vaultmem.model.errors import UsageError
from vaultmem.service.application import Clock, Progress
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.selftest_bench import Place, folder_errors, temporary_folder
from vaultmem.service.selftest_children import START, Nursery
from vaultmem.service.selftest_edits import copy, make_vault
from vaultmem.service.selftest_promises import (
    Ground,
    Promise,
    edited_as_new,
    killed_anywhere,
    processes_at_once,
)
from vaultmem.service.settings import find_sidecar_folder

# Seeds that are drawn stay short enough to be typed again.
_SEEDS = 1_000_000
_MOST_TIMES = 10_000
# Broken cases of a promise that are told, and whose folders are kept.
_MOST_TOLD = 3

# Name -> the promise, and how often it is tried: about a quarter of a minute in all.
PROMISES: dict[str, tuple[Promise, int]] = {
    "kill": (killed_anywhere, 40),
    "processes": (processes_at_once, 10),
    "edits": (edited_as_new, 60),
}


@dataclass(frozen=True, slots=True)
class SelftestRequest:
    """How to try."""

    folder: Path  # below which everything is made
    seed: int | None = None  # None to have it drawn
    times: float = 1.0  # so many times as many cases
    keep: bool = False  # the folders of broken cases


@dataclass(frozen=True, slots=True)
class SelftestGround:
    """What the promises are tried on."""

    folder: str
    file_system: str  # as the operating system calls it; "" where it does not say
    journal: Mode  # that SQLite keeps there: wal or delete
    why: str  # it is not the usual one; "" where it is
    seed: int


@dataclass(frozen=True, slots=True)
class SelftestCheck:
    """One promise, tried."""

    name: str
    cases: int
    kept: int  # in so many of them
    seconds: float
    broken: tuple[str, ...]  # when it was not, and how; the first few


@dataclass(frozen=True, slots=True)
class SelftestReply:
    """What was tried, and what came of it."""

    folder: str
    file_system: str
    journal: Mode
    seed: int
    checks: tuple[SelftestCheck, ...]
    kept: bool  # every promise, in every case
    seconds: float
    left: str | None  # where the folders of broken cases are, if they were to be kept


def default_folder(cache_dir: str | Path | None = None) -> Path:
    """Where this user's indexes lie, by --cache-dir, VAULTMEM_CACHE_DIR or the platform."""
    return find_sidecar_folder(Path("selftest"), cache_dir, os.environ)[0].parent


def run_selftest(
    request: SelftestRequest,
    *,
    began: Callable[[SelftestGround], None] = lambda ground: None,
    tried: Callable[[SelftestCheck], None] = lambda check: None,
    progress: Progress | None = None,
    clock: Clock | None = None,
    start: str = START,
) -> SelftestReply:
    """Try each promise, and leave nothing behind but what is to be kept.

    began, tried: told where it happens, and each promise once it was tried.
    start:        what the processes begin with, as Nursery has it.

    Raises SidecarUnavailable where the folder cannot be used, DiskFull, UsageError.
    """
    if not 0 < request.times <= _MOST_TIMES:
        raise UsageError(
            f"--cases is how many times as many cases are tried: above 0, {_MOST_TIMES:,} at most."
        )
    clock, progress = clock or Clock(), progress or Progress()
    seed = random.randrange(_SEEDS) if request.seed is None else request.seed
    base = Path(os.path.abspath(request.folder.expanduser()))
    started = clock.elapsed()
    with temporary_folder(base) as folder, Nursery(folder, start=start) as nursery:
        ground = _looked_at(base, folder, seed)
        began(ground)
        wanted = {name: max(1, round(n * request.times)) for name, (_, n) in PROMISES.items()}
        running = _Running(clock, progress, request.keep, folder / "broken", sum(wanted.values()))
        checks: list[SelftestCheck] = []
        for name, cases in wanted.items():
            promise, _ = PROMISES[name]
            checks.append(running.tried(name, promise, Ground(folder / name, seed, nursery), cases))
            tried(checks[-1])
        progress.report("selftest", running.total, running.total)
        left = _taken_away(folder / "broken", base / f"selftest-{seed}-broken")
    return SelftestReply(
        ground.folder,
        ground.file_system,
        ground.journal,
        seed,
        tuple(checks),
        all(check.kept == check.cases for check in checks),
        round(clock.elapsed() - started, 3),
        left,
    )


def _looked_at(base: Path, folder: Path, seed: int) -> SelftestGround:
    """Index a vault there; what it is kept by."""
    place = Place(folder / "first")
    make_vault(place.vault, random.Random(seed))
    memory = place.opened()
    try:
        index(memory, IndexRequest())
        mode = made_with(memory.folder / SIDECAR_NAME) or "delete"
    finally:
        memory.close()
    usual = journal(folder)
    why = usual.why if usual.mode == mode else "processes cannot share memory there"
    return SelftestGround(str(base), file_system(folder).name, mode, why, seed)


class _Running:
    """How far the cases of all promises are."""

    def __init__(
        self, clock: Clock, progress: Progress, keep: bool, broken: Path, total: int
    ) -> None:
        self._clock = clock
        self._progress = progress
        self._keep = keep
        self._broken = broken
        self.total = total
        self._done = 0

    def tried(self, name: str, promise: Promise, ground: Ground, cases: int) -> SelftestCheck:
        started = self._clock.elapsed()
        kept = 0
        broken: list[str] = []
        self._progress.report("selftest", self._done, self.total)
        for case in promise(ground, cases):
            if not case.broken:
                kept += 1
            elif len(broken) < _MOST_TOLD:
                broken.append("; ".join(case.broken))
                if self._keep:
                    copy(case.place.folder, self._broken / f"{name} {len(broken)}")
            self._done += 1
            if self._done < self.total:
                self._progress.report("selftest", self._done, self.total)
        seconds = round(self._clock.elapsed() - started, 3)
        return SelftestCheck(name, cases, kept, seconds, tuple(broken))


def _taken_away(broken: Path, to: Path) -> str | None:
    """Put the folders of broken cases where they stay; None where there are none."""
    if not broken.exists():
        return None
    with folder_errors(to.parent):
        copy(broken, to)
    return str(to)
