"""The watcher's loop, step by step: what makes it look, what it says, and how it ends."""

import json
import os
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from followed import Followed, Times

from vaultmem.index.requests import ask_for, requested
from vaultmem.index.watch_state import watch_state
from vaultmem.model.errors import SidecarBusy
from vaultmem.model.watch_state import Watching
from vaultmem.service import watching
from vaultmem.service.application import Memory, Progress
from vaultmem.service.indexing import take_in
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.operations.status import StatusRequest, status
from vaultmem.service.settings import Settings, load_settings
from vaultmem.service.watching import Batch, SettingsRead, Trouble, Watcher
from vaultmem.vault.watch import FolderWatch

Open = Callable[..., Memory]

NOTES = {"Gate.md": "The gate is green.\n", "Shed/Kiln.md": "The kiln is hot.\n"}


class Deaf:
    """Stands in for the system where it reports nothing, as on many network drives."""

    def __init__(self, *arguments: Any, **callbacks: Any) -> None:
        pass

    def hears(self) -> bool:
        return True

    def unheard(self) -> str:
        return ""

    def close(self) -> None:
        pass


@pytest.fixture
def memory(open_vault: Open) -> Memory:
    return open_vault(NOTES)


@pytest.fixture
def loaded(memory: Memory, tmp_path: Path) -> Callable[[], Settings]:
    environment = {"VAULTMEM_EMBEDDER_NAME": "none", "VAULTMEM_STATE_DIR": str(tmp_path / "state")}
    folder = memory.folder.parent
    return lambda: load_settings(memory.vault, folder, environment=environment)


@pytest.fixture
def followed(loaded: Callable[[], Settings]) -> Followed:
    return Followed(loaded, Times())


def found(memory: Memory, query: str) -> list[str]:
    reply = search(memory, SearchRequest(query))
    assert reply.degraded == ()
    return [hit.path for hit in reply.hits]


def batches(followed: Followed) -> list[str]:
    return [batch.cause for batch in followed.said(Batch)]


def test_it_looks_at_everything_at_the_start(followed: Followed, memory: Memory) -> None:
    with followed.running():
        (batch,) = followed.said(Batch)
        assert (batch.cause, batch.notes.added, batch.notes.total) == ("start", 2, 2)
        assert found(memory, "kiln") == ["Shed/Kiln.md"]


def test_an_edit_is_one_batch_of_what_changed(followed: Followed, memory: Memory) -> None:
    with followed.running():
        (memory.vault / "Gate.md").write_text("The gate is a portcullis.\n")
        followed.until(lambda: len(followed.said(Batch)) == 2)
        batch = followed.said(Batch)[-1]
        assert (batch.cause, batch.notes.changed, batch.marked) == ("events", 1, 1)
        assert found(memory, "portcullis") == ["Gate.md"]


def test_what_no_event_told_of_is_found_within_the_minute(
    followed: Followed, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "FolderWatch", Deaf)
    with followed.running():
        (memory.vault / "Gate.md").write_text("The gate is a portcullis.\n")
        followed.pass_by(50)
        assert batches(followed) == ["start"]
        followed.pass_by(20)
        assert batches(followed) == ["start", "reconcile"]
        assert found(memory, "portcullis") == ["Gate.md"]


def test_where_looking_takes_long_it_is_done_less_often(
    followed: Followed, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    def slow(*arguments: Any, **options: Any) -> Any:
        looks.append(followed.times.seconds)
        followed.times.seconds += 1.2
        return take_in(*arguments, **options)

    monkeypatch.setattr(watching, "take_in", slow)
    with followed.running():
        followed.pass_by(2_000)
    gaps = [after - before for before, after in pairwise(looks[1:])]
    assert len(gaps) > 2
    assert all(390 < gap < 420 for gap in gaps), gaps  # 1.2 s are 0.3 % of 400


def test_after_sleep_everything_is_looked_at(
    followed: Followed, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "FolderWatch", Deaf)
    with followed.running():
        (memory.vault / "Gate.md").write_text("The gate is a portcullis.\n")
        followed.pass_by(5)
        assert batches(followed) == ["start"]
        followed.times.sleep(3600)
        followed.pass_by(2)
        assert batches(followed) == ["start", "wake"]


def test_lost_events_make_it_look_at_everything(
    followed: Followed, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[Callable[[], None]] = []

    class Lossy(Deaf):
        def __init__(self, *arguments: Any, **callbacks: Any) -> None:
            lost.append(callbacks["lost"])

    monkeypatch.setattr(watching, "FolderWatch", Lossy)
    with followed.running():
        (memory.vault / "Gate.md").write_text("The gate is a portcullis.\n")
        lost[0]()
        followed.pass_by(2)
        assert batches(followed) == ["start", "events"]


def test_settings_that_were_others_for_a_moment_cost_no_note(
    followed: Followed, memory: Memory
) -> None:
    config = memory.vault / ".vaultmem/config.toml"
    with followed.running():
        since = len(followed.said(Batch))
        config.parent.mkdir()
        config.write_text('[scan]\nignore = ["Shed"]\n')
        other = load_settings(memory.vault, memory.folder.parent, environment={})
        passing = Memory(other)
        take_in(passing)  # an answer by another process, between two looks of the watcher
        passing.close()
        config.unlink()
        followed.until(lambda: len(followed.said(Batch)) > since)
        assert followed.said(Batch)[-1].notes.added == 1
        assert followed.said(Batch)[-1].cause == "settings"
        assert found(memory, "kiln") == ["Shed/Kiln.md"]


def test_settings_are_in_force_without_a_new_start(followed: Followed, memory: Memory) -> None:
    config = memory.vault / ".vaultmem/config.toml"
    with followed.running():
        assert found(memory, "kiln") == ["Shed/Kiln.md"]
        config.parent.mkdir()
        config.write_text('[scan]\nignore = ["Shed"]\n')
        followed.until(lambda: bool(followed.said(SettingsRead)))
        followed.until(lambda: followed.said(Batch)[-1].notes.removed == 1)
        assert followed.said(Batch)[-1].cause == "settings"
        config.write_text('[scan]\nignore = "Shed"\n')
        followed.until(lambda: len(followed.said(SettingsRead)) == 2)
        assert "a list of texts" in followed.said(SettingsRead)[-1].problem
        state = watch_state(followed.folder)
        assert state is not None
        assert "a list of texts" in state.problem
        assert followed.said(Batch)[-1].notes.total == 1  # those before go on
        config.unlink()
        followed.until(lambda: followed.said(Batch)[-1].notes.total == 2)
        state = watch_state(followed.folder)
        assert state is not None
        assert state.problem == ""


def test_obsidians_excluded_files_are_in_force_at_once(followed: Followed, memory: Memory) -> None:
    (memory.vault / ".obsidian").mkdir()
    app = memory.vault / ".obsidian/app.json"
    app.write_text("{}")
    with followed.running():
        app.write_text(json.dumps({"userIgnoreFilters": ["Shed/"]}))
        followed.until(lambda: followed.said(Batch)[-1].notes.removed == 1)
        assert followed.times.seconds < 30


def test_what_others_ask_for_is_looked_at(
    followed: Followed, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "FolderWatch", Deaf)
    with followed.running():
        (memory.vault / "Gate.md").write_text("The gate is a portcullis.\n")
        sidecar = memory.open_sidecar()
        assert sidecar is not None
        assert ask_for(sidecar, ["Gate.md"], 1)
        followed.pass_by(2)
        assert batches(followed) == ["start", "request"]
        assert requested(sidecar) == []


def test_a_file_that_was_emptied_is_waited_for_and_then_believed(
    followed: Followed, memory: Memory
) -> None:
    with followed.running():
        note = memory.vault / "Gate.md"
        note.write_text("")
        followed.pass_by(1.0)
        assert batches(followed) == ["start"]
        note.write_text("The gate is a portcullis.\n")
        followed.until(lambda: len(followed.said(Batch)) == 2)
        assert found(memory, "portcullis") == ["Gate.md"]
        note.write_text("")
        before = followed.times.seconds
        followed.until(lambda: len(followed.said(Batch)) == 3)
        assert 1 < followed.times.seconds - before < 5
        assert found(memory, "portcullis") == []


def test_while_git_is_at_work_nothing_is_taken_in(followed: Followed, memory: Memory) -> None:
    with followed.running():
        lock = memory.vault / ".git/index.lock"
        lock.parent.mkdir()
        lock.touch()
        (memory.vault / "Gate.md").write_text("The gate is a portcullis.\n")
        followed.until(lambda: status(memory, StatusRequest()).watcher.behind > 0)  # type: ignore[union-attr]
        followed.pass_by(3)
        assert batches(followed) == ["start"]
        lock.unlink()
        followed.pass_by(1)
        assert batches(followed) == ["start", "events"]
        os.utime(lock.parent, None)
        lock.touch()
        os.utime(lock, (1, 1))  # left behind by a git that was killed
        (memory.vault / "Gate.md").write_text("The gate is shut.\n")
        followed.until(lambda: len(followed.said(Batch)) == 3)
        assert followed.times.seconds < 10


def test_trouble_is_said_once_and_got_over(
    followed: Followed, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = True

    def sometimes(*arguments: Any, **options: Any) -> Any:
        if broken:
            raise SidecarBusy("Somebody is in the way.")
        return take_in(*arguments, **options)

    with followed.running():
        monkeypatch.setattr(watching, "take_in", sometimes)
        (memory.vault / "Gate.md").write_text("The gate is a portcullis.\n")
        followed.until(lambda: bool(followed.said(Trouble)))
        followed.pass_by(30)
        assert [trouble.problem for trouble in followed.said(Trouble)] == [
            "Somebody is in the way."
        ]
        assert status(memory, StatusRequest()).watcher.problem  # type: ignore[union-attr]
        broken = False
        followed.pass_by(10)
        assert found(memory, "portcullis") == ["Gate.md"]
        assert not status(memory, StatusRequest()).watcher.problem  # type: ignore[union-attr]


def test_a_second_watcher_is_refused(followed: Followed, loaded: Callable[[], Settings]) -> None:
    with followed.running():
        with pytest.raises(SidecarBusy, match="is watching this vault"):
            Watcher(loaded, lambda event: None, embed=False).run()
        assert watch_state(followed.folder) is not None


def test_it_gives_way_to_other_rules_and_not_to_a_rebuild(
    followed: Followed, memory: Memory, open_vault: Open
) -> None:
    with followed.running():
        index(memory, IndexRequest(rebuild=True))
        (memory.vault / "Gate.md").write_text("The gate is a portcullis.\n")
        followed.until(lambda: len(followed.said(Batch)) == 2)
        other = open_vault(environment={"VAULTMEM_CHUNK_MAX_PIECES": "90"})
        index(other, IndexRequest())
        (memory.vault / "Gate.md").write_text("The gate is shut.\n")
        with pytest.raises(SidecarBusy, match="Another version of vaultmem"):
            followed.until(lambda: len(followed.said(Batch)) == 3)


def test_others_see_since_when_it_runs_and_how_far_behind_it_is(
    followed: Followed, memory: Memory
) -> None:
    assert status(memory, StatusRequest()).watching is False
    with followed.running():
        followed.step()
        reply = status(memory, StatusRequest())
        assert reply.watching is True
        assert reply.watcher is not None
        assert reply.watcher.state is Watching.WATCHING
        assert reply.watcher.pid == os.getpid()
        assert reply.watcher.since.endswith("+00:00")
        assert (reply.watcher.behind, reply.watcher.missing) == (0, 0)
        for number in range(3):
            (memory.vault / f"New {number}.md").write_text("clay\n")

        def behind() -> int:
            state = watch_state(followed.folder)
            return state.behind if state is not None else -1

        followed.until(lambda: behind() == 3)
        followed.until(lambda: behind() == 0)
    assert status(memory, StatusRequest()).watching is False
    assert watch_state(followed.folder) is None
    assert not (followed.folder / "watch.json").exists()


def test_a_watcher_that_falls_silent_is_not_relied_on(
    followed: Followed, memory: Memory, open_vault: Open
) -> None:
    with followed.running():
        followed.step()
        (memory.vault / "Gate.md").write_text("The gate is a portcullis.\n")
        # No step from here on: it is as good as stopped by a signal.
        at = followed.times
        reader = open_vault(clock=at.clock)
        reply = search(reader, SearchRequest("portcullis"))
        assert reply.hits == ()
        at.seconds += 30
        assert [hit.path for hit in search(reader, SearchRequest("portcullis")).hits] == ["Gate.md"]


def test_it_says_something_every_few_seconds(followed: Followed) -> None:
    with followed.running():
        said: set[int] = set()
        for _ in range(60):
            followed.pass_by(0.5)
            state = watch_state(followed.folder)
            assert state is not None
            said.add(state.said_ns)
    assert 12 <= len(said) <= 18


def test_it_can_be_stopped_in_the_middle_of_a_first_build(
    loaded: Callable[[], Settings], memory: Memory
) -> None:
    for number in range(200):
        (memory.vault / f"n{number}.md").write_text("clay\n")

    def report(stage: str, done: int, total: int) -> None:
        if done == 50:
            watcher.stop()

    watcher = Watcher(loaded, lambda event: None, progress=Progress(report), embed=False)
    watcher.run()
    assert watch_state(memory.folder) is None
    assert 0 < status(memory, StatusRequest()).notes < 202
    index(memory, IndexRequest())
    assert status(memory, StatusRequest()).notes == 202


def test_stopping_wakes_it(loaded: Callable[[], Settings], memory: Memory) -> None:
    said: list[object] = []
    watcher = Watcher(loaded, said.append, embed=False)
    thread = threading.Thread(target=watcher.run)
    thread.start()
    watcher.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert type(said[-1]).__name__ == "Stopped"


def test_the_listener_is_the_real_one() -> None:
    assert vars(watching)["FolderWatch"] is FolderWatch
