"""Many servers on one vault, as many sessions of assistants have it; and vaults of odd names."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from command_line import REPOSITORY, CommandLine, on_notes, write_notes
from mcp_process import McpProcess, serving
from watcher_process import watched

SERVERS = 8
CALLS = 40
EDITS = 24
# A word that no other text holds stands in each note, and another one in each text it has had.
NOTES = {
    f"notes/n{i}.md": f"# Note {i}\n\nsubject{i} version{i}x0 [[n{(i + 1) % 20}]]"
    for i in range(20)
}


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    return on_notes(tmp_path, NOTES)


def start(shell: CommandLine, running: ExitStack, count: int) -> list[McpProcess]:
    """So many servers, which begin at the same time."""
    servers = [running.enter_context(serving(shell)) for _ in range(count)]
    for server in servers:
        server.shake_hands()
    return servers


def test_eight_servers_answer_beside_a_watcher_while_notes_change(shell: CommandLine) -> None:
    written: dict[int, int] = dict.fromkeys(range(20), 0)  # note -> its version on disk
    done = threading.Event()

    def edit() -> None:
        for number in range(EDITS):
            note, version = number % 20, number // 20 + 1
            text = f"# Note {note}\n\nsubject{note} version{note}x{version} [[n{note}]]"
            write_notes(shell.vault, {f"notes/n{note}.md": text})
            written[note] = version
            if done.wait(0.02):  # a person's pace, or nearly
                return

    def converse(server: McpProcess, seed: int) -> None:
        for number in range(CALLS):
            note = (number * 7 + seed) % 20
            path = f"notes/n{note}.md"
            match number % 5:
                case 0 | 1:
                    assert server.paths(f"subject{note}")[0] == path
                case 2:
                    before = written[note]
                    text = server.call("read", note=path)["text"]
                    versions = range(before, written[note] + 2)
                    assert any(f"version{note}x{version} " in text for version in versions), text
                case 3:
                    found = server.call("related", note=path)
                    assert found["links"][0]["resolved"].startswith("notes/n")
                case _:
                    assert server.call("status")["notes"] == 20

    with watched(shell), ExitStack() as running, ThreadPoolExecutor(SERVERS + 1) as pool:
        servers = start(shell, running, SERVERS)
        editing = pool.submit(edit)
        talks = [pool.submit(converse, server, seed) for seed, server in enumerate(servers)]
        for talk in talks:
            talk.result()
        editing.result()
        for server in servers:
            for note, version in written.items():
                word, path = f"version{note}x{version}", f"notes/n{note}.md"
                server.until(partial(finds, server, word, path))
        for server in servers:
            served = server.close()
            assert (served.code, served.err) == (0, "")
            assert not [message for message in served.messages if "error" in message]
            served.answers()  # one for each request
    assert_sound(shell, 20)


def finds(server: McpProcess, word: str, path: str) -> bool:
    return server.paths(word) == [path]


def assert_sound(shell: CommandLine, notes: int) -> None:
    """The index is what a new one would be, and nothing is wrong with it."""
    counts = shell.reply("index")["notes"]
    assert (counts["total"], counts["unchanged"]) == (notes, notes)
    checks = {check["id"]: check["ok"] for check in shell.reply("doctor")["checks"]}
    assert checks["sidecar"]
    assert shell.reply("status")["fresh"]


def test_servers_that_start_at_once_make_one_sound_index(tmp_path: Path) -> None:
    count = 400
    shell = on_notes(
        tmp_path,
        {f"n{i}.md": f"# Note {i}\n\nkiln unique{i}x {'glaze ' * 30}" for i in range(count)},
    )
    with ExitStack() as running, ThreadPoolExecutor(3) as pool:
        servers = start(shell, running, 3)
        assert not shell.cache.exists()
        asked = [pool.submit(server.paths, "unique399x") for server in servers]
        for answer in asked:
            assert answer.result() == ["n399.md"]
        for server in servers:
            assert server.call("status")["notes"] == count
            assert server.close().err == ""
    assert len(list(shell.cache.glob("*/index.db"))) == 1
    assert_sound(shell, count)


def test_an_edit_is_in_the_very_next_answer(shell: CommandLine) -> None:
    """However it is heard of: whoever asked for an edit asks about it at once."""
    with serving(shell) as server:
        server.shake_hands()
        server.paths("subject1")
        for number in range(60):
            path, word = f"notes/n{number % 20}.md", f"fresh{number}word"
            write_notes(shell.vault, {path: f"# Changed\n\n{word}"})
            assert server.paths(word) == [path]
        write_notes(shell.vault, {"new/made.md": "# Made\n\nbrandnewword"})
        assert server.paths("brandnewword") == ["new/made.md"]
        (shell.vault / "new/made.md").rename(shell.vault / "notes/moved.md")
        assert server.paths("brandnewword") == ["notes/moved.md"]
        (shell.vault / "notes/moved.md").unlink()
        assert server.paths("brandnewword") == []


# Report 12

REPORT = REPOSITORY / "tests/data/reports/12-vault-path-with-spaces"
(ODD,) = [entry.name for entry in REPORT.iterdir() if entry.is_dir()]


@pytest.fixture
def odd(tmp_path: Path) -> CommandLine:
    copytree(REPORT / ODD, tmp_path / ODD)
    (tmp_path / ODD / ".obsidian").mkdir()
    return CommandLine(tmp_path, tmp_path / ODD)


def as_argument(shell: CommandLine) -> dict[str, Any]:
    return {"arguments": ("--vault", str(shell.vault)), "environment": {"VAULTMEM_VAULT": None}}


def as_variable(shell: CommandLine) -> dict[str, Any]:
    return {"arguments": (), "environment": {"VAULTMEM_VAULT": str(shell.vault)}}


def as_working_folder(shell: CommandLine) -> dict[str, Any]:
    return {"arguments": (), "environment": {"VAULTMEM_VAULT": None}, "cwd": shell.vault / "Inbox"}


def with_slash(shell: CommandLine) -> dict[str, Any]:
    return as_argument(shell) | {"arguments": ("--vault", f"{shell.vault}{os.sep}")}


def through_link(shell: CommandLine) -> dict[str, Any]:
    link = shell.elsewhere / "plain"
    try:
        link.symlink_to(shell.vault, target_is_directory=True)
    except OSError:
        pytest.skip("links cannot be made here")
    return as_argument(shell) | {"arguments": ("--vault", str(link))}


@pytest.mark.parametrize(
    "given", [as_argument, as_variable, as_working_folder, with_slash, through_link]
)
def test_report_12_a_vault_of_an_odd_name_is_served_however_it_is_given(
    odd: CommandLine, given: Callable[[CommandLine], dict[str, Any]]
) -> None:
    with serving(odd, **given(odd)) as server:
        server.shake_hands()
        assert server.paths("harbour") == ["Inbox/Hello.md"]
        hello = server.call("read", note="Inbox/Hello.md")
        assert "harbour" in hello["text"].lower()
        write_notes(odd.vault, {"Inbox/Hello.md": "# Hello\n\nThe lighthouse.\n"})
        assert server.paths("lighthouse") == ["Inbox/Hello.md"]
        assert server.paths("harbour") == []
        served = server.close()
    assert (served.code, served.err) == (0, "")
