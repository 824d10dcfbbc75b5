"""Runs that end early: whole notes stay, and the next run finishes what was begun."""

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from vaultmem.index.store import SIDECAR_NAME, driver
from vaultmem.model.errors import DiskFull
from vaultmem.service.application import Memory, Progress
from vaultmem.service.indexing import BATCH_NOTES
from vaultmem.service.operations.index import IndexReply, IndexRequest, index

Open = Callable[..., Memory]
Run = Callable[[Memory], IndexReply]
Compare = Callable[[Memory], None]
Links = Callable[[Memory], list[tuple[str, str, str | None]]]

QUIET = Progress()
FEW, MANY = 12, BATCH_NOTES + 60  # many are committed in batches, few one by one


def notes(count: int) -> dict[str, str]:
    """Notes of two passages and two links each."""
    return {
        f"n{i:04}.md": f"# N{i}\n\nkiln [[n{i * 7 % count:04}]] [[n{i + 1:04}]]\n\n# More\n\nclay"
        for i in range(count)
    }


def whole_notes(memory: Memory) -> int:
    """How many notes are stored, each with all of its rows."""
    sidecar = memory.open_sidecar()
    if sidecar is None:
        return 0
    db = sidecar.connection
    stored = db.execute("SELECT count(*) FROM note").get
    assert isinstance(stored, int)
    for table in ("chunk", "link"):
        assert db.execute(f"SELECT count(*) FROM {table}").get == 2 * stored
    assert db.execute("SELECT count(*) FROM note_text('kiln')").get == stored
    assert db.execute("SELECT count(*) FROM passage_text('clay')").get == stored
    return stored


def stop_at(note: int) -> Progress:
    def report(stage: str, done: int, total: int) -> None:
        if done == note:
            raise KeyboardInterrupt

    return Progress(report)


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("at", [0, 1, 7, -1])
def test_an_interrupted_first_run_keeps_whole_notes_and_the_next_one_finishes(
    at: int, count: int, open_vault: Open, run_index: Run, assert_equals_rebuild: Compare
) -> None:
    done = at if at >= 0 else count - 1
    memory = open_vault(notes(count), progress=stop_at(done))
    with pytest.raises(KeyboardInterrupt):
        run_index(memory)
    assert whole_notes(memory) == done
    memory.progress = QUIET
    counts = run_index(memory).notes
    assert (counts.added, counts.unchanged) == (count - done, done)
    assert_equals_rebuild(memory)


@pytest.mark.parametrize("at", [2, 3, 5, 7])
def test_an_interrupted_update_is_finished_by_the_next_run(
    at: int, open_vault: Open, run_index: Run, assert_equals_rebuild: Compare
) -> None:
    memory = open_vault(notes(FEW))
    run_index(memory)
    for number in (0, 1):
        (memory.vault / f"n{number:04}.md").unlink()
    for number in (2, 3):
        (memory.vault / f"n{number:04}.md").rename(memory.vault / f"moved{number}.md")
    for number in (4, 5):
        (memory.vault / f"n{number:04}.md").write_text("changed [[n0001]] [[moved2]]")
    for number in (6, 7):
        (memory.vault / f"new{number}.md").write_text("new [[moved3]]")
    memory.progress = stop_at(at)
    with pytest.raises(KeyboardInterrupt):
        run_index(memory)
    memory.progress = QUIET
    run_index(memory)
    assert_equals_rebuild(memory)


def test_a_note_deleted_before_an_interrupted_run_took_it_in_leaves_no_link_to_it(
    open_vault: Open, run_index: Run, links: Links, assert_equals_rebuild: Compare
) -> None:
    memory = open_vault({"a.md": "[[z]]", "m.md": "kiln", "z.md": "clay"}, progress=stop_at(1))
    with pytest.raises(KeyboardInterrupt):
        run_index(memory)
    (memory.vault / "z.md").unlink()
    memory.progress = QUIET
    run_index(memory)
    assert links(memory) == [("a.md", "z", None)]
    assert_equals_rebuild(memory)


def test_a_note_that_vanishes_between_the_look_and_the_reading_leaves_no_link_to_it(
    open_vault: Open, run_index: Run, links: Links, assert_equals_rebuild: Compare
) -> None:
    memory = open_vault({"a.md": "[[z]]", "m.md": "kiln", "z.md": "clay"})
    vanishing = memory.vault / "z.md"
    memory.progress = Progress(lambda stage, done, total: vanishing.unlink(missing_ok=True))
    assert run_index(memory).notes.added == 2
    memory.progress = QUIET
    run_index(memory)
    assert links(memory) == [("a.md", "z", None)]
    assert_equals_rebuild(memory)


INDEX_AND_COUNT = """
import sys
from vaultmem.service.application import Progress, open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.settings import load_settings
progress = Progress(lambda stage, done, total: print(done, flush=True))
settings = load_settings(sys.argv[1], sys.argv[2], environment={"VAULTMEM_EMBEDDER_NAME": "none"})
index(open_memory(settings, progress=progress), IndexRequest())
"""


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_killed_run_leaves_a_sidecar_that_the_next_run_repairs(
    seed: int, open_vault: Open, run_index: Run, tmp_path: Path, assert_equals_rebuild: Compare
) -> None:
    memory = open_vault(notes(MANY))
    command = [sys.executable, "-c", INDEX_AND_COUNT, str(memory.vault), str(tmp_path / "cache")]
    last = random.Random(seed).randrange(MANY)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= last:
                break
        process.kill()
    kept = whole_notes(memory)
    assert kept <= MANY
    counts = run_index(memory).notes
    assert (counts.added, counts.unchanged) == (MANY - kept, kept)
    assert memory.sidecar is not None
    assert memory.sidecar.quick_check() == "ok"
    assert_equals_rebuild(memory)


class NarrowDisk:
    """How many more writes of SQLite the disk has room for."""

    def __init__(self) -> None:
        self.written = 0
        self.room: int | None = None


@contextmanager
def narrow_disk() -> Iterator[NarrowDisk]:
    """SQLite's own file layer, which counts writes and refuses them when the disk is full."""
    disk = NarrowDisk()
    driver()  # the layer lies above the one that checks pages, which is there from here on
    beneath = apsw.vfs_names()[0]

    class File(apsw.VFSFile):
        def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
            if disk.room is not None and disk.written >= disk.room:
                raise apsw.FullError("no room")
            disk.written += 1
            super().xWrite(data, offset)

    class Layer(apsw.VFS):
        def __init__(self) -> None:
            super().__init__("narrow", base=beneath, makedefault=True)

        def xOpen(  # noqa: N802 - SQLite's name
            self, name: str | apsw.URIFilename | None, flags: list[int]
        ) -> apsw.VFSFile:
            return File(beneath, name, flags)

    layer = Layer()
    try:
        yield disk
    finally:
        layer.unregister()


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("share", [0.0, 0.4, 0.7, 0.95])
def test_a_full_disk_is_named_keeps_what_was_committed_and_is_got_over(
    share: float, count: int, open_vault: Open, run_index: Run, assert_equals_rebuild: Compare
) -> None:
    with narrow_disk() as disk:
        measured = open_vault(notes(count), cache="measured")
        run_index(measured)
        measured.close()
        needed, disk.written = disk.written, 0
        disk.room = int(needed * share)
        memory = open_vault()
        with pytest.raises(DiskFull) as caught:
            run_index(memory)
        assert caught.value.exit_code == 13
        assert str(memory.folder) in str(caught.value)
        disk.room = None
        memory.close()
        kept = whole_notes(memory) if share else 0
        if share < 0.5:
            assert kept < count
        if count == FEW and share >= 0.4:
            assert kept > 0
        counts = run_index(memory).notes
        assert (counts.added, counts.unchanged) == (count - kept, kept)
        assert memory.sidecar is not None
        assert memory.sidecar.quick_check() == "ok"
        assert_equals_rebuild(memory)
        memory.close()


def test_a_disk_that_fills_during_an_update_keeps_the_old_answers(
    open_vault: Open, run_index: Run, find: Callable[..., list[str]]
) -> None:
    with narrow_disk() as disk:
        memory = open_vault({"a.md": "kiln", "b.md": "clay"})
        run_index(memory)
        (memory.vault / "c.md").write_text("kiln and clay")
        disk.room = disk.written
        assert find(memory, "kiln") == ["a.md"]
        disk.room = None
        assert sorted(find(memory, "kiln")) == ["a.md", "c.md"]
        memory.close()


def test_a_file_system_without_a_sidecar_after_a_failed_creation_starts_anew(
    open_vault: Open, run_index: Run
) -> None:
    with narrow_disk() as disk:
        memory = open_vault({"a.md": "kiln"})
        disk.room = 3
        with pytest.raises(DiskFull):
            index(memory, IndexRequest(rebuild=True))
        assert not (memory.folder / SIDECAR_NAME).exists()  # no half of one
        disk.room = None
        assert run_index(memory).notes.added == 1
        memory.close()
