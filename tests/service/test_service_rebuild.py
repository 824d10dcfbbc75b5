"""A rebuild takes no answer away: it is made beside the index, and put in its place at the end."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vaultmem.service.application import Memory, Progress
from vaultmem.service.indexing import take_in
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search

Open = Callable[..., Memory]

NOTES = {f"n{i}.md": f"# Note {i}\n\nA kiln.\n" for i in range(200)}


def all_found(memory: Memory) -> bool:
    reply = search(memory, SearchRequest("kiln", limit=500))
    assert not any("not complete" in reason for reason in reply.degraded)
    return len(reply.hits) == len(NOTES)


def test_answers_are_whole_while_the_index_is_rebuilt(open_vault: Open) -> None:
    asked: list[bool] = []

    def ask(stage: str, done: int, total: int) -> None:
        if stage == "index" and done in (0, 70, 199) and armed:
            asked.append(all_found(reader))

    armed = False
    memory = open_vault(NOTES, progress=Progress(ask))
    reader = open_vault(environment={"VAULTMEM_SEARCH_REFRESH": "never"})
    index(memory, IndexRequest())
    assert all_found(reader)
    armed = True
    assert index(memory, IndexRequest(rebuild=True)).notes.added == len(NOTES)
    assert asked == [True, True, True]
    assert all_found(reader)
    assert not (memory.folder / "index.db.new").exists()


def test_a_rebuild_that_is_interrupted_leaves_the_index_as_it_was(open_vault: Open) -> None:
    def interrupt(stage: str, done: int, total: int) -> None:
        if armed and done == 100:
            raise KeyboardInterrupt

    armed = False
    memory = open_vault(NOTES, progress=Progress(interrupt))
    index(memory, IndexRequest())
    before = (memory.folder / "index.db").stat().st_ino
    armed = True
    with pytest.raises(KeyboardInterrupt):
        index(memory, IndexRequest(rebuild=True))
    armed = False
    assert (memory.folder / "index.db").stat().st_ino == before
    assert all_found(memory)
    assert not take_in(memory).changed_something
    index(memory, IndexRequest(rebuild=True))
    assert [file.name for file in memory.folder.glob("index.db.new*")] == []


def test_a_rebuild_that_is_killed_leaves_nothing_but_a_file_that_the_next_replaces(
    open_vault: Open, tmp_path: Path
) -> None:
    memory = open_vault(NOTES)
    index(memory, IndexRequest())
    program = (
        "import os, signal, sys\n"
        "from vaultmem.service.application import Progress, open_memory\n"
        "from vaultmem.service.operations.index import IndexRequest, index\n"
        "from vaultmem.service.settings import load_settings\n"
        "def kill(stage, done, total):\n"
        "    if done == 100:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "memory = open_memory(load_settings(sys.argv[1], sys.argv[2]), progress=Progress(kill))\n"
        "index(memory, IndexRequest(rebuild=True, embed=False))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(memory.vault), str(memory.folder.parent)],
        capture_output=True,
        check=False,
    )
    assert ended.returncode == -9, ended.stderr
    assert (memory.folder / "index.db.new").exists()
    assert all_found(memory)
    index(memory, IndexRequest(rebuild=True))
    assert all_found(memory)
    assert [file.name for file in memory.folder.glob("index.db.new*")] == []
