"""Absence is not deletion, as a shell sees it: folders that may not be read, and disks that go.

How long what is kept, by a clock that is moved, is in tests/service/test_watch_absence.py.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, listing, obeying_permissions, on_notes, write_notes
from watcher_process import WatcherProcess, watched

NOTES = {
    "Gate.md": "The gate is painted green. See [[Kiln]].\n",
    "Shed/Kiln.md": "The kiln stands behind the gate.\n",
    "Shed/Wheel.md": "The wheel stands beside the gate.\n",
    "Yard/Barn.md": "The barn stands left of the gate.\n",
}
CONFIG = {".vaultmem/config.toml": '[scan]\nignore = ["Private"]\n[chunk]\nmax_pieces = 120\n'}


@pytest.fixture
def yard(tmp_path: Path) -> CommandLine:
    shell = on_notes(tmp_path, NOTES)
    assert shell.reply("index")["notes"]["added"] == len(NOTES)
    return shell


@pytest.fixture
def forbidden() -> Iterator[Callable[[Path], None]]:
    """Take the right to a folder away, and give it back when the test is over."""
    modes: list[tuple[Path, int]] = []

    def forbid(folder: Path) -> None:
        modes.append((folder, folder.stat().st_mode))
        folder.chmod(0)

    yield forbid
    for folder, mode in reversed(modes):
        folder.chmod(mode)


def hits(reply: Any) -> dict[str, bool]:
    """Path -> whether the hit is marked as stale."""
    return {hit["path"]: hit["stale"] for hit in reply["hits"]}


def test_a_vault_that_may_not_be_read_is_kept_and_said_to_be_unreachable(
    tmp_path: Path, forbidden: Callable[[Path], None]
) -> None:
    obey = obeying_permissions()
    shell = on_notes(tmp_path, NOTES | CONFIG)
    mode = shell.vault.stat().st_mode
    with watched(shell, preexec_fn=obey) as watcher:
        forbidden(shell.vault)
        # No event tells of that; whoever searches meets it, and then everybody knows.
        found = shell.reply("search", "gate", preexec_fn=obey)
        assert hits(found) == dict.fromkeys(NOTES, True)
        (reason,) = found["degraded"]
        assert str(shell.vault) in reason
        assert "cannot be listed" in reason
        watcher.until(lambda: bool(watcher.said("unreachable")))
        assert [event["reason"] for event in watcher.said("unreachable")] == [reason]

        assert shell.reply("search", "gate", preexec_fn=obey) == found
        reply = shell.reply("status", preexec_fn=obey)
        assert (reply["notes"], reply["fresh"]) == (len(NOTES), False)
        assert reply["watcher"]["state"] == "unreachable"
        assert "the vault is unreachable" in shell.run("status", preexec_fn=obey).out
        ended = shell.run("index", preexec_fn=obey)
        assert (ended.code, ended.out) == (6, "")
        assert "cannot be listed" in ended.err

        shell.vault.chmod(mode)
        watcher.until(lambda: bool(watcher.said("reachable")))
        found = shell.reply("search", "gate", preexec_fn=obey)
        assert (hits(found), found["degraded"]) == (dict.fromkeys(NOTES, False), [])
        assert [batch["notes"]["removed"] for batch in watcher.said("batch")] == [0]
        assert watcher.said("settings") == []
        assert watcher.stop() == (0, "")


def test_a_folder_that_may_not_be_read_is_kept_with_all_that_is_below_it(
    yard: CommandLine, forbidden: Callable[[Path], None]
) -> None:
    obey = obeying_permissions()
    forbidden(yard.vault / "Shed")
    below = {"Shed/Kiln.md", "Shed/Wheel.md"}
    with watched(yard, preexec_fn=obey) as watcher:
        watcher.until(lambda: bool(watcher.said("batch")))
        assert [batch["missing"] for batch in watcher.said("batch")] == [0]
        write_notes(yard.vault, {"Yard/New.md": "A new gate.\n"})
        watcher.until(lambda: watcher.said("batch")[-1]["notes"]["added"] == 1)
        found = hits(yard.reply("search", "gate", preexec_fn=obey))
        assert found == {path: path in below for path in [*NOTES, "Yard/New.md"]}
        for command in ("index", "lint"):
            problems = yard.reply(command, preexec_fn=obey)["problems"]
            assert [(p["path"], p["code"]) for p in problems] == [("Shed", "folder-unreadable")]
        reply = yard.reply("status", preexec_fn=obey)
        assert (reply["notes"], reply["missing"], reply["problems"]) == (5, 0, 1)
        (link,) = yard.reply("links", "Gate", preexec_fn=obey)["links"]
        assert link["resolved"] == "Shed/Kiln.md"
        assert all(batch["notes"]["removed"] == 0 for batch in watcher.said("batch"))
        assert watcher.stop() == (0, "")


def test_control_of_both_permissions_hold_for_the_child(
    yard: CommandLine, forbidden: Callable[[Path], None]
) -> None:
    obey = obeying_permissions()
    forbidden(yard.vault)
    ended = yard.run("-c", f"import os; os.listdir({str(yard.vault)!r})",
                     preexec_fn=obey, python=(sys.executable,))  # fmt: skip
    assert "PermissionError" in ended.err


def test_a_vault_that_is_unmounted_and_mounted_is_the_same_as_before(yard: CommandLine) -> None:
    aside = yard.vault.with_name("aside")
    with watched(yard) as watcher:
        watcher.until(lambda: bool(watcher.said("batch")))
        yard.vault.rename(aside)
        yard.vault.mkdir()
        watcher.until(lambda: bool(watcher.said("unreachable")))
        found = yard.reply("search", "gate")
        assert hits(found) == dict.fromkeys(NOTES, True)
        assert "There is no Markdown note" in found["degraded"][0]
        assert yard.reply("status")["notes"] == len(NOTES)
        ended = yard.run("index")
        assert (ended.code, ended.out) == (5, "")
        assert "kept" in ended.err
        yard.vault.rmdir()
        aside.rename(yard.vault)
        watcher.until(lambda: bool(watcher.said("reachable")))
        found = yard.reply("search", "gate")
        assert (hits(found), found["degraded"]) == (dict.fromkeys(NOTES, False), [])
        assert all(batch["notes"]["removed"] == 0 for batch in watcher.said("batch"))
        # A folder that goes and comes back is nothing to complain of on standard error.
        (yard.vault / "Shed").rename(aside)
        watcher.until(lambda: watcher.said("batch")[-1]["missing"] == 2)
        aside.rename(yard.vault / "Shed")
        watcher.until(lambda: watcher.said("batch")[-1]["missing"] == 0)
        assert watcher.stop() == (0, "")


def test_the_settings_of_a_vault_that_is_away_are_not_taken_for_none(tmp_path: Path) -> None:
    """They lie in the vault. An index that they made answers until they are back."""
    private = {"Private/Diary.md": "The gate of my heart.\n"}
    shell = on_notes(tmp_path, {**NOTES, **CONFIG, **private})
    shell.run("index")
    shell.vault.rename(tmp_path / "aside")
    shell.vault.mkdir()
    found = shell.reply("search", "gate")
    assert hits(found) == dict.fromkeys(NOTES, True)
    assert shell.reply("status")["notes"] == len(NOTES)
    shell.vault.rmdir()
    (tmp_path / "aside").rename(shell.vault)
    assert shell.reply("index")["notes"]["unchanged"] == len(NOTES)


# Two devices


def test_two_devices_and_their_watchers_leave_not_a_file_in_the_folder(tmp_path: Path) -> None:
    shells: list[CommandLine] = []
    for name in ("desk", "laptop"):
        vault = tmp_path / name / "Notes"
        write_notes(vault, {**NOTES, **CONFIG})
        shells.append(CommandLine(tmp_path / name / "scratch", vault))
    desk, laptop = shells
    with watched(desk) as first, watched(laptop) as second:
        both: list[tuple[CommandLine, WatcherProcess]] = [(desk, first), (laptop, second)]
        write_notes(desk.vault, {"Gate.md": "The gate is painted vermilion.\n"})
        write_notes(laptop.vault, {"Private/Diary.md": "A vermilion heart.\n"})
        carry(desk.vault, laptop.vault)
        carry(laptop.vault, desk.vault)
        before = [listing(shell.vault) for shell in shells]
        for shell, watcher in both:
            watcher.until(partial(finds, shell, "vermilion", ["Gate.md"]))
            for command in (("index",), ("read", "Gate"), ("lint",)):
                shell.run(*command)
        for _, watcher in both:
            assert watcher.stop() == (0, "")
        assert [listing(shell.vault) for shell in shells] == before
        assert sorted(before[0]) == sorted(before[1])


def finds(shell: CommandLine, query: str, paths: list[str]) -> bool:
    return shell.paths(query) == paths


def carry(source: Path, target: Path) -> None:
    """Copy what the other side has not, and what is newer; times come along."""
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        other = target / file.relative_to(source)
        if not other.exists() or other.stat().st_mtime_ns < file.stat().st_mtime_ns:
            other.parent.mkdir(parents=True, exist_ok=True)
            temporary = other.with_name(f".syncthing.{other.name}.tmp")
            temporary.write_bytes(file.read_bytes())
            temporary.replace(other)
