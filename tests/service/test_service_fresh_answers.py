"""Answers that are neither stale nor thinned out, whoever else is at work."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from followed import Followed, Times

from vaultmem.embedding.file_system import FileSystem
from vaultmem.index.watch_state import put_state, watch_state
from vaultmem.model.errors import NoteNotFound
from vaultmem.model.watch_state import Watching
from vaultmem.service import listening
from vaultmem.service.application import Clock, Memory, Progress
from vaultmem.service.indexing import COMPLETE, Bounds, take_in
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.related import RelatedRequest, related
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.refresh import relied_on
from vaultmem.service.settings import Settings, load_settings
from vaultmem.service.watching import Batch

Open = Callable[..., Memory]
NEVER = {"VAULTMEM_SEARCH_REFRESH": "never"}


@pytest.fixture
def load(open_vault: Open, tmp_path: Path) -> Callable[[], Settings]:
    memory = open_vault({"Gate.md": "The gate is green.\n"})
    environment = {"VAULTMEM_EMBEDDER_NAME": "none", "VAULTMEM_STATE_DIR": str(tmp_path / "state")}
    return lambda: load_settings(memory.vault, memory.folder.parent, environment=environment)


def test_however_many_notes_are_gone_those_that_stay_are_found(indexed: Open) -> None:
    notes = {f"n{i:03}.md": "kiln kiln kiln\n" for i in range(60)}
    memory = indexed({**notes, "stays.md": "of a kiln and much else besides\n"}, environment=NEVER)
    for path in notes:
        (memory.vault / path).unlink()
    reply = search(memory, SearchRequest("kiln", limit=3))
    assert [hit.path for hit in reply.hits] == ["stays.md"]


def test_a_hit_that_changed_since_the_look_is_taken_in_and_asked_for_again(
    open_vault: Open,
) -> None:
    memory = open_vault({"a.md": "the kiln is red\n", "b.md": "a kiln\n"})
    index(memory, IndexRequest())
    armed = True

    def meddle(stage: str, done: int, total: int) -> None:
        nonlocal armed
        if armed and stage == "index" and done == total:
            armed = False
            (memory.vault / "a.md").write_text("the kiln is blue\n")

    late = open_vault(progress=Progress(meddle))
    (memory.vault / "c.md").write_text("clay\n")  # so that the search before it answers takes in
    reply = search(late, SearchRequest("kiln"))
    assert not armed
    (hit,) = [hit for hit in reply.hits if hit.path == "a.md"]
    assert (hit.snippet, hit.stale) == ("the kiln is blue", False)


def test_a_look_that_was_cut_short_makes_no_index_complete(open_vault: Open) -> None:
    ticks = count()
    armed = True

    def interrupt(stage: str, done: int, total: int) -> None:
        if armed and done == 3:
            raise KeyboardInterrupt

    memory = open_vault(
        {f"{folder}/n.md": "kiln\n" for folder in "abcdefgh"},
        clock=Clock(now_ns=lambda: 10**18, elapsed=lambda: float(next(ticks))),
        progress=Progress(interrupt),
    )
    with pytest.raises(KeyboardInterrupt):
        take_in(memory)
    armed = False
    take_in(memory, bounds=Bounds(seconds=0.5))
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    assert sidecar.meta(COMPLETE) is not None
    assert len(search(memory, SearchRequest("kiln", limit=50)).hits) == 8


def test_a_watcher_that_loses_sight_while_it_is_waited_for_is_not_believed(
    load: Callable[[], Settings], open_vault: Open
) -> None:
    followed = Followed(load, Times())
    with followed.running():
        followed.step()
        reader = open_vault(clock=followed.times.clock)
        (reader.vault / "Gate.md").write_text("The gate is a portcullis.\n")
        state = watch_state(followed.folder)
        assert state is not None
        assert relied_on(reader) is not None
        put_state(followed.folder, replace(state, state=Watching.UNREACHABLE, behind=1))
        assert [hit.path for hit in search(reader, SearchRequest("portcullis")).hits] == ["Gate.md"]


def test_a_watcher_that_leaves_out_less_is_not_relied_on(
    load: Callable[[], Settings], open_vault: Open
) -> None:
    followed = Followed(load, Times())
    with followed.running():
        followed.step()
        clock = followed.times.clock
        assert relied_on(open_vault(clock=clock)) is not None
        stricter = open_vault(clock=clock, environment={"VAULTMEM_SCAN_IGNORE": "Gate.md"})
        assert relied_on(stricter) is None
        with pytest.raises(NoteNotFound):
            related(stricter, RelatedRequest("Gate"))


def test_on_a_network_drive_an_answer_looks_itself(
    load: Callable[[], Settings], open_vault: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "file_system", lambda folder: FileSystem("nfs4", False))
    followed = Followed(load, Times())
    with followed.running():
        followed.step()
        state = watch_state(followed.folder)
        assert state is not None
        assert state.events is False
        assert relied_on(open_vault(clock=followed.times.clock)) is None


def test_a_run_that_takes_over_a_minute_is_no_sleep(
    load: Callable[[], Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = Followed(load, Times())
    runs: list[float] = []

    def slow(*arguments: Any, **options: Any) -> Any:
        runs.append(followed.times.seconds)
        followed.times.seconds += 90
        return take_in(*arguments, **options)

    monkeypatch.setattr("vaultmem.service.watching.take_in", slow)
    with followed.running():
        followed.pass_by(300)
    assert len(runs) <= 2  # the start's, and the minute's
    assert [batch.cause for batch in followed.said(Batch)] == ["start"]


def test_no_backlink_stands_in_a_note_that_is_gone_or_has_changed(indexed: Open) -> None:
    memory = indexed(
        {
            "a.md": "clay\n",
            "gone.md": "see [[a]]\n",
            "changed.md": "see [[a]]\n",
            "is.md": "[[a]]\n",
        },
        environment=NEVER,
    )
    (memory.vault / "gone.md").unlink()
    (memory.vault / "changed.md").write_text("nothing of the kind\n")
    backlinks = related(memory, RelatedRequest("a")).backlinks
    assert [(link.path, link.text) for link in backlinks] == [
        ("changed.md", ""),
        ("is.md", "[[a]]"),
    ]
    (memory.vault / "a.md").unlink()
    with pytest.raises(NoteNotFound, match="gone"):
        related(memory, RelatedRequest("a"))
