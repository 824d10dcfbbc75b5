"""A disk of a few megabytes that is really full: nothing is made up but its size."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw
import pytest
from failing_vfs import Failure
from io_runs import SCENARIOS, Bench, Outcome
from lanes import SEED, SLOW, by_lane

from vaultmem.index.store import Sidecar
from vaultmem.model.errors import DiskFull
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search

MEGABYTE = 1 << 20
RUNS = by_lane(fast=2, slow=20)


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[None]:
    """A file system of `size` bytes at a folder.

    Skips where none can be mounted; fails there in the slow lane.
    """
    missing = pytest.fail if SLOW else pytest.skip
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if sys.platform != "linux" or os.geteuid() != 0 or mount is None or unmount is None:
        missing("only root on Linux can mount a small file system")
    folder.mkdir(exist_ok=True)
    options = ["-t", "tmpfs", "-o", f"size={size}", "vaultmem-test", str(folder)]
    mounted = subprocess.run([mount, *options], capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        missing(f"a tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run([unmount, "--lazy", str(folder)], check=True)


def fill(folder: Path, *, leave: int) -> Path:
    """Take all of a disk but so many bytes; the file that does."""
    ballast = folder / "ballast"
    with ballast.open("wb") as file:
        file.write(bytes(max(0, shutil.disk_usage(folder).free - leave)))
    return ballast


def filled(bench: Bench, leave: int) -> tuple[Outcome, list[str]]:
    """How the scenario ends with so little room, and what is not as promised once there is more."""
    bench.reset()
    ballast = fill(bench.folder / "cache", leave=leave)
    ended = bench.attempt()
    ballast.unlink()
    found = bench.violations(ended, Failure.FULL)
    return ended, [f"with room for {leave:,} bytes: {said}" for said in found]


@pytest.mark.parametrize("run", range(RUNS))
def test_a_disk_that_is_full_is_named_and_what_was_begun_is_finished_when_there_is_room(
    run: int, tmp_path: Path
) -> None:
    drawn = random.Random(SEED + run)
    scenario = drawn.choice([s for s in SCENARIOS.values() if s.name != "embed"])
    bench = Bench(tmp_path, scenario, drawn.choice(["wal", "delete"]))
    with small_disk(tmp_path / "cache", drawn.randrange(5, 9) * MEGABYTE):
        # From nothing at all to about what the run needs.
        room = sorted(drawn.randrange(MEGABYTE) for _ in range(6))
        ends = [filled(bench, leave) for leave in (0, *room)]
    assert [said for _, found in ends for said in found] == []
    assert ends[0][0].code == DiskFull.code


def test_an_index_answers_on_a_disk_that_is_full_to_the_last_byte(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SCENARIOS["delta"], "wal")
    with small_disk(tmp_path / "cache", 4 * MEGABYTE):
        bench.reset()
        ballast = fill(tmp_path / "cache", leave=0)
        memory = bench.memory()
        reply = search(memory, SearchRequest("glaze"))
        assert [hit.path for hit in reply.hits] == ["b.md"]
        assert any("cannot be written" in reason for reason in reply.degraded)
        with pytest.raises(DiskFull):
            index(memory, IndexRequest(embed=False))
        # The same process goes on, once there is room.
        ballast.unlink()
        reply = search(memory, SearchRequest("stoneware"))
        assert ([hit.path for hit in reply.hits], reply.degraded) == (["b.md"], ())
        memory.close()


# A fault that this check must find


def test_an_index_that_takes_no_notice_of_a_full_disk_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, SCENARIOS["delta"], "wal")
    commit: Callable[[Sidecar], None] = Sidecar._commit

    def commit_or_not(sidecar: Sidecar) -> None:
        with suppress(apsw.Error):
            commit(sidecar)

    found: list[str] = []
    with small_disk(tmp_path / "cache", 5 * MEGABYTE):
        for leave in (20_000, 60_000, 100_000, 140_000):
            bench.reset()
            ballast = fill(tmp_path / "cache", leave=leave)
            with monkeypatch.context() as fault:
                fault.setattr(Sidecar, "_commit", commit_or_not)
                ended = bench.attempt()
            ballast.unlink()
            found += bench.violations(ended, Failure.FULL)
    assert any("by half" in said for said in found)
