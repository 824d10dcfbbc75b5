"""What comes in the watcher's way: it goes on, says what is wrong once, and claims nothing untrue.

What no event tells of is an edit by another name that a note has outside the vault.
"""

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import pytest
from followed import Followed, Times

from vaultmem.index.lock import is_watched, watch_lock
from vaultmem.index.requests import ask_for
from vaultmem.index.update import stored_files
from vaultmem.index.watch_state import watch_state
from vaultmem.model.errors import SidecarBusy, SidecarDamaged
from vaultmem.model.watch_state import Watching, WatchState
from vaultmem.service.application import Memory
from vaultmem.service.embedding_thread import Embedded
from vaultmem.service.indexing import take_in
from vaultmem.service.settings import Settings, load_settings
from vaultmem.service.watching import (
    AGAIN_SECONDS,
    RECONCILE_SECONDS,
    Batch,
    SettingsRead,
    Started,
    Stopped,
    Trouble,
    Watcher,
    WatchEvent,
)

Open = Callable[..., Memory]
Load = Callable[[], Settings]

PATIENCE = 20.0  # seconds until what is to happen has happened
NOTES = {"a.md": "kiln [[b]]\n", "b.md": "glaze [[a]]\n", "one/c.md": "clay\n"}

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="events differ elsewhere")


@pytest.fixture
def memory(open_vault: Open) -> Memory:
    """The index as another process opens it."""
    return open_vault(NOTES)


@pytest.fixture
def load(memory: Memory, tmp_path: Path) -> Load:
    environment = {"VAULTMEM_EMBEDDER_NAME": "none", "VAULTMEM_STATE_DIR": str(tmp_path / "state")}
    return lambda: load_settings(memory.vault, memory.folder.parent, environment=environment)


@pytest.fixture
def load_embedding(memory: Memory, tmp_path: Path) -> Load:
    """Settings that leave the embedder to config.toml."""
    environment = {"VAULTMEM_STATE_DIR": str(tmp_path / "state")}
    return lambda: load_settings(memory.vault, memory.folder.parent, environment=environment)


@pytest.fixture
def followed(load: Load) -> Followed:
    return Followed(load, Times())


def batches(followed: Followed) -> list[str]:
    return [batch.cause for batch in followed.said(Batch)]


def next_batch(followed: Followed) -> Batch:
    before = len(followed.said(Batch))
    followed.until(lambda: len(followed.said(Batch)) > before)
    return followed.said(Batch)[before]


def edit(followed: Followed, note: Path, text: str) -> Batch:
    """Change a note, and wait until a batch is taken in."""
    note.write_text(text)
    return next_batch(followed)


def edit_unheard(note: Path, text: str) -> None:
    outside = note.parent.parent / f"another name of {note.name}"
    os.link(note, outside)
    outside.write_text(text)
    outside.unlink()


def replace_text(file: Path, text: str) -> None:
    """Another text, all at once."""
    beside = file.with_name("beside")
    beside.write_text(text)
    os.replace(beside, file)


def damage(sidecar: Path) -> None:
    with sidecar.open("r+b") as stream:
        stream.write(b"no database at all" * (sidecar.stat().st_size // 20))


def state_of(folder: Path) -> WatchState:
    state = watch_state(folder)
    assert state is not None
    return state


def hashes(memory: Memory) -> dict[str, str]:
    """Path -> SHA-256 of what is indexed; {} for an index that is none."""
    with suppress(SidecarDamaged), memory.guarded():
        sidecar = memory.open_sidecar()
        if sidecar is None:
            return {}
        return {path: file.sha256 for path, file in stored_files(sidecar).items()}
    return {}


def is_as_on_disk(memory: Memory) -> bool:
    return hashes(memory) == {
        note.relative_to(memory.vault).as_posix(): sha256(note.read_bytes()).hexdigest()
        for note in memory.vault.rglob("*.md")
    }


def comes_true(condition: Callable[[], bool]) -> bool:
    """Whether something that nobody tells of becomes so in time."""
    until = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < until:
        threading.Event().wait(0.01)
    return condition()


@dataclass
class Running:
    """A watcher in a thread of its own, by the real clock."""

    load: Load
    embed: bool = False
    events: list[WatchEvent] = field(default_factory=list)
    ended_by: BaseException | None = None

    def run(self) -> None:
        try:
            self.watcher.run()
        except BaseException as error:  # noqa: BLE001 - whoever waits for the end looks at it
            self.ended_by = error

    @contextmanager
    def running(self) -> Iterator["Running"]:
        self.watcher = Watcher(self.load, self.events.append, embed=self.embed)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        try:
            assert comes_true(lambda: bool(self.said(Batch))), self.ended_by
            yield self
        finally:
            self.watcher.stop()
            self.thread.join(PATIENCE)
            assert not self.thread.is_alive(), "it does not end"

    def said(self, kind: type[WatchEvent]) -> list[WatchEvent]:
        return [event for event in self.events if isinstance(event, kind)]


# What no event tells of


@linux_only
def test_a_look_at_everything_finds_what_was_not_heard(followed: Followed, memory: Memory) -> None:
    with followed.running():
        edit_unheard(memory.vault / "b.md", "changed unheard\n")
        followed.pass_by(RECONCILE_SECONDS - 5)
        edit(followed, memory.vault / "a.md", "heard\n")
        assert not is_as_on_disk(memory)
        followed.pass_by(6)
        assert batches(followed) == ["start", "events", "reconcile"]
        assert is_as_on_disk(memory)


@linux_only
def test_what_others_ask_for_after_a_rebuild_is_looked_at(
    followed: Followed, memory: Memory
) -> None:
    with followed.running():
        take_in(memory, rebuild=True)
        edit_unheard(memory.vault / "b.md", "changed unheard\n")
        sidecar = memory.open_sidecar()
        assert sidecar is not None
        assert ask_for(sidecar, ["b.md"], time.time_ns())
        followed.pass_by(2)
        assert batches(followed) == ["start", "request"]
        assert is_as_on_disk(memory)


@linux_only
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_it_hears_again_when_the_thread_that_listens_has_died(
    followed: Followed, memory: Memory, tmp_path: Path
) -> None:
    """By a folder that left and was deleted elsewhere, after another one had come and gone."""
    folder = memory.vault / "one"

    def heard_of_a_note(name: str) -> None:
        edit(followed, memory.vault / name, "heard\n")

    with followed.running():
        folder.rename(tmp_path / "trash")
        heard_of_a_note("1.md")
        folder.mkdir()
        heard_of_a_note("2.md")
        folder.rmdir()
        heard_of_a_note("3.md")
        shutil.rmtree(tmp_path / "trash")
        edit_heard = memory.vault / "4.md"
        edit_heard.write_text("heard\n")
        followed.until(lambda: "4.md" in hashes(memory))
        assert followed.times.seconds < RECONCILE_SECONDS
        heard_of_a_note("5.md")
        assert "5.md" in hashes(memory)


@linux_only
def test_git_is_waited_for_without_going_round_and_round(
    followed: Followed, memory: Memory
) -> None:
    with followed.running():
        lock = memory.vault / ".git/index.lock"
        lock.parent.mkdir()
        lock.touch()
        (memory.vault / "a.md").write_text("by git\n")
        followed.until(lambda: state_of(followed.folder).behind > 0)
        followed.pass_by(2)
        assert batches(followed) == ["start"]
        assert followed.step() >= 0.02
        lock.unlink()
        assert next_batch(followed).notes.changed == 1


# Settings


def test_settings_that_are_being_written_are_not_gone_by(load: Load, memory: Memory) -> None:
    config = memory.vault / ".vaultmem/config.toml"
    config.parent.mkdir()
    config.write_text('[scan]\nignore = ["one"]\n')
    followed = Followed(load, Times())
    with followed.running():
        assert set(hashes(memory)) == {"a.md", "b.md"}
        with config.open("w") as stream:
            (memory.vault / "a.md").write_text("heard after that\n")
            followed.until(lambda: state_of(followed.folder).behind > 0)
            assert not followed.said(SettingsRead), "an emptied file is no settings"
            stream.write('[scan]\nignore = ["one", "b.md"]\n')
        followed.until(lambda: bool(followed.said(SettingsRead)))
        followed.until(lambda: followed.said(Batch)[-1].notes.total == 1)
        assert set(hashes(memory)) == {"a.md"}
        assert max(batch.notes.total for batch in followed.said(Batch)) == 2


def test_half_a_file_of_obsidian_s_is_not_said_to_be_in_force(
    followed: Followed, memory: Memory
) -> None:
    app = memory.vault / ".obsidian/app.json"
    app.parent.mkdir()
    app.write_text('{"userIgnoreFilters": ["one/"]}')
    with followed.running():
        app.write_text('{"userIgnoreFilters": ["on')
        followed.until(lambda: bool(followed.said(SettingsRead)))
        (read,) = followed.said(SettingsRead)
        assert "app.json" in read.problem
        (memory.vault / "one/d.md").write_text("kept out all the same\n")
        edit(followed, memory.vault / "a.md", "goes on\n")
        assert set(hashes(memory)) == {"a.md", "b.md"}
        app.write_text('{"userIgnoreFilters": []}')
        followed.until(lambda: followed.said(Batch)[-1].notes.total == 4)
        assert followed.said(SettingsRead)[-1].problem == ""


@linux_only
def test_settings_that_leave_with_their_folder_are_no_longer_in_force(
    load: Load, memory: Memory, tmp_path: Path
) -> None:
    config = memory.vault / ".vaultmem/config.toml"
    config.parent.mkdir()
    config.write_text('[scan]\nignore = ["one"]\n')
    followed = Followed(load, Times())
    with followed.running():
        assert followed.said(Batch)[-1].notes.total == 2
        config.parent.rename(tmp_path / "out")
        followed.until(lambda: followed.said(Batch)[-1].notes.total == 3)
        assert followed.times.seconds < RECONCILE_SECONDS


def test_the_same_problem_with_the_settings_is_said_once(
    followed: Followed, memory: Memory
) -> None:
    config = memory.vault / ".vaultmem/config.toml"
    config.parent.mkdir()
    with followed.running():
        replace_text(config, "[scan\n")
        followed.until(lambda: bool(followed.said(SettingsRead)))
        problem = state_of(followed.folder).problem
        assert "config.toml" in problem
        for name in ("a.md", "b.md"):
            replace_text(config, "[scan\n")
            edit(followed, memory.vault / name, "goes on\n")
        followed.pass_by(2 * RECONCILE_SECONDS)
        assert len(followed.said(SettingsRead)) == 1
        assert state_of(followed.folder).problem == problem
        replace_text(config, "")
        followed.until(lambda: state_of(followed.folder).problem == "")


def test_an_embedder_can_be_chosen_and_left_while_it_runs(
    load_embedding: Load, memory: Memory
) -> None:
    config = memory.vault / ".vaultmem/config.toml"
    config.parent.mkdir()
    config.write_text('[embedder]\nname = "none"\n')
    followed = Followed(load_embedding, Times(), embed=True)
    with followed.running():
        assert not state_of(followed.folder).embeds
        replace_text(config, '[embedder]\nname = "minilm"\n')
        followed.until(lambda: bool(followed.said(Embedded)))
        (embedded,) = followed.said(Embedded)
        assert (embedded.embedded, embedded.waiting, embedded.problem) == (3, 0, "")
        followed.until(lambda: state_of(followed.folder).embeds)
        replace_text(config, '[embedder]\nname = "none"\n')
        followed.until(lambda: not state_of(followed.folder).embeds)
        edit(followed, memory.vault / "a.md", "words alone\n")
        followed.pass_by(5)
        assert len(followed.said(Embedded)) == 1


# What it writes to


def test_a_cache_folder_that_cannot_be_used_is_said_once_and_tried_again(
    followed: Followed, memory: Memory
) -> None:
    with followed.running():
        folder = followed.folder
        away = folder.with_name("away")
        folder.rename(away)
        folder.write_bytes(b"a file in its place")
        (memory.vault / "a.md").write_text("cannot be taken in\n")
        followed.until(lambda: bool(followed.said(Trouble)))
        followed.pass_by(2)
        told = len(followed.said(Trouble))
        assert told <= 2  # of the index, and of what it says of itself
        for n in range(3):
            followed.pass_by(AGAIN_SECONDS + 1)
            (memory.vault / "b.md").write_text(f"cannot be taken in either, {n}\n")
        assert len(followed.said(Trouble)) == told, "the same again and again"
        folder.unlink()
        away.rename(folder)
        followed.until(lambda: is_as_on_disk(memory))
        followed.until(lambda: state_of(folder).problem == "")


def test_an_index_that_is_deleted_is_made_again_and_goes_on_being_watched(
    load: Load, memory: Memory
) -> None:
    """Its folder can be deleted at will, says the README."""
    with Running(load).running() as watcher:
        memory.folder.rename(memory.folder.with_name("deleted"))
        shutil.rmtree(memory.folder.with_name("deleted"))
        assert comes_true(lambda: is_as_on_disk(memory))
        assert comes_true(lambda: is_watched(memory.folder)), "nobody knows that it is watched"
        assert comes_true(lambda: watch_state(memory.folder) is not None)
        with pytest.raises(SidecarBusy, match="watching"):
            Watcher(load, lambda event: None, embed=False).run()
        (memory.vault / "a.md").write_text("after that\n")
        assert comes_true(lambda: is_as_on_disk(memory))
    assert watcher.ended_by is None
    assert not is_watched(memory.folder)
    assert watch_state(memory.folder) is None


def test_where_another_watcher_was_quicker_it_gives_way(load: Load, memory: Memory) -> None:
    running = Running(load)
    with running.running():
        memory.folder.rename(memory.folder.with_name("deleted"))
        memory.folder.mkdir()
        try:
            with watch_lock(memory.folder):
                assert comes_true(lambda: not running.thread.is_alive())
        except SidecarBusy:
            pytest.skip("it was quicker itself")
    assert isinstance(running.ended_by, SidecarBusy)
    assert not running.said(Stopped)


def test_a_damaged_index_is_made_again(followed: Followed, memory: Memory) -> None:
    with followed.running():
        memory.close()
        damage(followed.folder / "index.db")
        edit(followed, memory.vault / "a.md", "after that\n")
        assert is_as_on_disk(memory)


@pytest.mark.parametrize("when", ["before the start", "while it runs"])
def test_a_damaged_index_and_half_a_settings_file_at_once_do_not_end_it(
    load: Load, memory: Memory, when: str
) -> None:
    app = memory.vault / ".obsidian/app.json"
    app.parent.mkdir()
    app.write_text("{}")
    take_in(memory)
    memory.close()

    def spoil() -> None:
        damage(memory.folder / "index.db")
        app.write_text('{"userIgnoreFilters": ["on')

    if when == "before the start":
        spoil()
    followed = Followed(load, Times())
    with followed.running():
        if when == "while it runs":
            spoil()
        (memory.vault / "a.md").write_text("after that\n")
        followed.until(lambda: is_as_on_disk(memory))


@linux_only
def test_names_that_are_no_text_do_no_harm(followed: Followed, memory: Memory) -> None:
    name = os.fsdecode(b"caf\xe9")
    with followed.running():
        sidecar = (followed.folder / "index.db").stat().st_ino
        (memory.vault / f"{name}.md").write_bytes(b"")
        (memory.vault / name).mkdir()
        (memory.vault / name / "d.md").write_text("in a folder that is not seen\n")
        edit(followed, memory.vault / "a.md", "goes on\n")
        (memory.vault / f"{name}.md").write_text("x")
        (memory.vault / f"{name}.md").unlink()
        edit(followed, memory.vault / "b.md", "goes on\n")
        assert set(hashes(memory)) == set(NOTES)
        assert (followed.folder / "index.db").stat().st_ino == sidecar, "it was made anew"
        assert not followed.said(Trouble)


# What others are told


def test_asking_whether_one_runs_never_looks_like_one_however_many_ask(memory: Memory) -> None:
    memory.folder.mkdir(parents=True)
    with watch_lock(memory.folder):
        assert is_watched(memory.folder)
    answers: list[bool] = []
    threads = [
        threading.Thread(
            target=lambda: answers.extend(is_watched(memory.folder) for _ in range(300))
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(answers) == 2400
    assert not any(answers)


def test_a_file_that_is_waited_for_is_a_change_that_is_not_taken_in(
    followed: Followed, memory: Memory
) -> None:
    with followed.running():
        (memory.vault / "b.md").write_bytes(b"")
        (memory.vault / "a.md").write_text("another\n")
        next_batch(followed)
        state = state_of(followed.folder)
        assert (state.state, state.behind) == (Watching.WATCHING, 1)
        followed.pass_by(0.5)
        assert 0.4 < state_of(followed.folder).behind_seconds + 0.5 < 3
        followed.pass_by(3)
        assert state_of(followed.folder).behind == 0
        assert is_as_on_disk(memory)


def test_passages_without_a_vector_are_counted_until_they_have_theirs(
    load_embedding: Load, memory: Memory
) -> None:
    for n in range(20):
        (memory.vault / f"{n}.md").write_text(f"A kiln of the {n}th kind.\n")
    followed = Followed(load_embedding, Times(), embed=True)
    with followed.running():
        followed.until(lambda: bool(followed.said(Embedded)))
        (embedded,) = followed.said(Embedded)
        assert (embedded.embedded, embedded.waiting, embedded.problem) == (23, 0, "")
        followed.pass_by(1)
        assert state_of(followed.folder).waiting == 0
        assert state_of(followed.folder).embeds
        (memory.vault / "7.md").write_text("A hen.\n")
        followed.until(lambda: len(followed.said(Embedded)) == 2)
        embedded = followed.said(Embedded)[-1]
        assert (embedded.embedded, embedded.waiting) == (1, 0)


# Its end


def test_it_ends_in_the_middle_of_embedding_and_keeps_what_is_done(
    load_embedding: Load, memory: Memory
) -> None:
    for n in range(300):
        (memory.vault / f"{n}.md").write_text(f"{'Kilns and glazes of many kinds. ' * 15} {n}\n")
    running = Running(load_embedding, embed=True)
    with running.running():
        assert comes_true((memory.folder / "embeddings.db").exists)
        began = time.monotonic()
    assert time.monotonic() - began < 10
    assert running.ended_by is None
    assert [type(event) for event in running.events[:1]] == [Started]
    assert isinstance(running.events[-1], Stopped)
    assert not [event for event in running.events if isinstance(event, Embedded) and event.problem]


def test_its_state_is_a_file_that_is_whole_at_any_time(load: Load, memory: Memory) -> None:
    """Whoever reads it meets one state or the next."""
    states: set[str] = set()
    until = time.monotonic() + PATIENCE
    with Running(load).running() as running:
        path = memory.folder / "watch.json"
        ended = threading.Event()

        def edit_again_and_again() -> None:
            n = 0
            while not ended.wait(0.005):
                n += 1
                (memory.vault / "a.md").write_text(f"edit {n}\n")

        editing = threading.Thread(target=edit_again_and_again)
        editing.start()
        try:
            while len(states) < 5:
                assert time.monotonic() < until, states
                states.add(path.read_text())
        finally:
            ended.set()
            editing.join()
        assert running.thread.is_alive()
    assert {json.loads(state)["pid"] for state in states} == {os.getpid()}
    assert not list(memory.folder.glob("watch.json*"))
