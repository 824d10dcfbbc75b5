"""Places that cannot be written: asking works, writing says why, and no other place is taken.

tests/surfaces/test_cli_read_only.py has each command on a vault, and on a cache, that is mounted
read-only or of mode 0555; here are the processes that last, and the places besides those two.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from command_line import (
    MODULE,
    CommandLine,
    assert_one_line_error,
    listing,
    obeying_permissions,
    on_notes,
)
from lanes import SLOW
from mcp_process import serving
from watcher_process import watched

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows folders have no permission bits to take away"
)

WORKER = (sys.executable, str(Path(__file__).with_name("worker.py")), "run")
# Put together here, so that no file of ours holds what looks like one.
KEY = "AKIA" + "Q3EXK2V7" + "T5LZ4WPB"
NOTES = {
    "Harbour/Berth.md": "The ferry lies at the berth. [[Pier]]\n",
    "Harbour/Pier.md": "The pier is closed in winter.\n",
    "Keys.md": f"The harbour master's key is {KEY} for now.\n",
}
ASKING = (("search", "ferry"), ("read", "Berth"), ("links", "Pier"), ("why", "Berth"), ("status",))

Obey = Callable[[], None] | None


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    return on_notes(tmp_path, NOTES)


@contextmanager
def frozen(folder: Path) -> Iterator[Obey]:
    """A folder and all below it that nobody may write; what a child has to do to obey that."""
    obey = obeying_permissions()
    modes = {path: path.stat().st_mode for path in (folder, *folder.rglob("*"))}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    try:
        assert may_not_be_written(folder, obey)
        yield obey
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def unmountable(why: str) -> NoReturn:
    """Skip; but fail in the slow lane, whose runs are to have tried everything."""
    if SLOW:
        pytest.fail(f"In the slow lane nothing may be left out: {why}.")
    pytest.skip(why)


@contextmanager
def mounted(folder: Path) -> Iterator[Obey]:
    """A folder on a file system of its own that is mounted read-only."""
    mount = shutil.which("mount")
    if sys.platform != "linux" or os.geteuid() != 0 or mount is None:
        unmountable("only root on Linux can mount a file system")
    aside = folder.rename(folder.with_name(folder.name + " aside"))
    folder.mkdir()
    made = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=16m", "vaultmem-test", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        unmountable(f"a tmpfs cannot be mounted here: {made.stderr.strip()}")
    try:
        shutil.copytree(aside, folder, dirs_exist_ok=True)
        subprocess.run([mount, "-o", "remount,ro", str(folder)], check=True)
        assert may_not_be_written(folder, None)
        yield None
    finally:
        # (Whoever still has a file open there keeps it from no other test.)
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def may_not_be_written(folder: Path, obey: Obey) -> bool:
    """Whether a child fails to make a file there: without that a test would prove nothing."""
    ended = subprocess.run(
        [sys.executable, "-c", "import sys; open(sys.argv[1], 'x')", str(folder / "probe")],
        preexec_fn=obey,
        capture_output=True,
        text=True,
        check=False,
    )
    return "OSError" in ended.stderr or "PermissionError" in ended.stderr


WAYS = pytest.mark.parametrize("way", [mounted, frozen], ids=["mounted read-only", "mode 0555"])
Way = Callable[[Path], AbstractContextManager[Obey]]


# Processes that last


@WAYS
def test_a_vault_that_cannot_be_written_is_watched_and_served(way: Way, shell: CommandLine) -> None:
    with way(shell.vault) as obey:
        before = listing(shell.vault)
        with watched(shell, preexec_fn=obey) as watcher, serving(shell, preexec_fn=obey) as server:
            (batch,) = watcher.said("batch")
            assert batch["notes"]["total"] == len(NOTES)
            server.shake_hands()
            assert server.paths("ferry") == ["Harbour/Berth.md"]
            assert server.call("read", note="Berth")["text"] == NOTES["Harbour/Berth.md"]
            assert (server.close().code, server.err) == (0, "")
            assert watcher.stop() == (0, "")
        assert listing(shell.vault) == before


@WAYS
def test_a_server_answers_from_a_cache_that_cannot_be_written_and_indexing_says_why(
    way: Way, shell: CommandLine
) -> None:
    assert shell.run("index").code == 0
    with way(shell.cache) as obey:
        before = listing(shell.cache), listing(shell.home), listing(shell.temporary)
        with serving(shell, "--tools", "all", preexec_fn=obey) as server:
            server.shake_hands()
            reply = server.call("search", query="ferry")
            assert [hit["path"] for hit in reply["hits"]] == ["Harbour/Berth.md"]
            assert not reply.get("degraded")
            (shell.vault / "Harbour/Pier.md").write_text("The pier is open, says the ferry.\n")
            reply = server.call("search", query="pier")
            stale = {hit["path"]: bool(hit.get("stale")) for hit in reply["hits"]}
            assert stale == {"Harbour/Pier.md": True, "Harbour/Berth.md": False}
            assert "1 note has changed" in reply["degraded"][0]
            assert "cannot be written" in reply["degraded"][0]
            said = server.fails("index")
            assert str(shell.cache) in said or "cache folder" in said
            assert "cannot be used" in said
            assert "--cache-dir" in said
            assert (server.close().code, server.err) == (0, "")
        assert (listing(shell.cache), listing(shell.home), listing(shell.temporary)) == before


# Folders that cannot be made


def wrong_without_a_cache(
    shell: CommandLine,
    folder: Path,
    obey: Obey,
    *,
    environment: dict[str, str | None],
    python: Sequence[str] = MODULE,
) -> list[str]:
    """What commands do otherwise than they should where there is no place for the cache.

    folder: that cannot be made, or not be written.
    """
    wrong: list[str] = []
    kept = (shell.vault, shell.home, shell.temporary, shell.elsewhere)
    before = [listing(place) for place in kept]
    commands = [("index",), ("index", "--rebuild"), ("search", "ferry")]
    # (One that falls back does not end.)
    commands += [("watch",)] if python is MODULE else []
    for arguments in commands:
        ended = shell.run(
            *arguments, environment=environment, preexec_fn=obey, python=tuple(python)
        )
        lines = ended.err.splitlines()
        if (ended.code, ended.out, len(lines)) != (10, "", 1):
            wrong.append(f"{arguments} ended as {ended}")
        wrong += [
            f"{arguments} does not name {part}: {ended.err}"
            for part in (str(folder), "--cache-dir", "VAULTMEM_CACHE_DIR")
            if part not in ended.err
        ]
    for place, listed in zip(kept, before, strict=True):
        if listing(place) != listed:
            wrong.append(f"something was written in {place}")
    return wrong


NowhereElse = Callable[[CommandLine], tuple[Path, Path, dict[str, str | None]]]


def below_a_folder_of_others(shell: CommandLine) -> tuple[Path, Path, dict[str, str | None]]:
    """The one that is named would have to be made in a folder that may not be written."""
    above = shell.cache.with_name("of others")
    above.mkdir()
    folder = above / "deep" / "down"
    return above, folder, {"VAULTMEM_CACHE_DIR": str(folder)}


def in_a_home_of_others(shell: CommandLine) -> tuple[Path, Path, dict[str, str | None]]:
    """None is named, and the one of the platform cannot be made."""
    return shell.home, shell.home, {"VAULTMEM_CACHE_DIR": None}


PLACES = pytest.mark.parametrize("place", [below_a_folder_of_others, in_a_home_of_others])


@WAYS
@PLACES
def test_where_the_cache_cannot_be_made_that_is_said_and_no_other_place_is_taken(
    place: NowhereElse, way: Way, shell: CommandLine
) -> None:
    above, folder, environment = place(shell)
    with way(above) as obey:
        assert wrong_without_a_cache(shell, folder, obey, environment=environment) == []


@PLACES
def test_control_of_that_a_place_that_is_taken_instead_is_noticed(
    place: NowhereElse, shell: CommandLine
) -> None:
    above, folder, environment = place(shell)
    environment |= {"FAULT_WORKER": "fall_back"}
    with frozen(above) as obey:
        wrong = wrong_without_a_cache(shell, folder, obey, environment=environment, python=WORKER)
    assert f"something was written in {shell.temporary}" in wrong


# The state folder


@pytest.mark.parametrize("there", [True, False], ids=["of others", "that cannot be made"])
def test_without_a_state_folder_all_is_found_no_secret_is_told_and_deciding_says_why(
    there: bool, shell: CommandLine, tmp_path: Path
) -> None:
    state = tmp_path / "of others" / ("" if there else "state")
    (tmp_path / "of others").mkdir()
    chosen: dict[str, str | None] = {"VAULTMEM_STATE_DIR": str(state)}
    with frozen(tmp_path / "of others") as obey:
        before = listing(tmp_path / "of others"), listing(shell.home), listing(shell.temporary)
        assert shell.run("index", environment=chosen, preexec_fn=obey).code == 0
        for asked in ASKING:
            ended = shell.run(*asked, environment=chosen, preexec_fn=obey)
            assert (ended.code, ended.err) == (0, ""), ended
        told = shell.run("read", "Keys", environment=chosen, preexec_fn=obey)
        assert told.code == 0
        assert KEY not in told.out
        for deciding in (("secrets", "allow", "0123456789ab"), ("mcp", "--http", "--port", "0")):
            ended = shell.run(*deciding, environment=chosen, preexec_fn=obey)
            assert_one_line_error(ended, 16, str(state), "VAULTMEM_STATE_DIR")
        after = listing(tmp_path / "of others"), listing(shell.home), listing(shell.temporary)
        assert after == before


def test_where_nothing_at_all_can_be_written_questions_are_answered(shell: CommandLine) -> None:
    folders = (shell.vault, shell.cache, shell.home, shell.temporary, shell.elsewhere)
    with ExitStack() as stack:
        # First, since a change of mode is a change for who may not look again.
        obeys = [stack.enter_context(frozen(shell.vault))]
        assert shell.run("index").code == 0
        expected = [shell.run(*asked, "--json") for asked in ASKING]
        obeys += [stack.enter_context(frozen(folder)) for folder in folders[1:]]
        before = [listing(folder) for folder in folders]
        answers = [shell.run(*asked, "--json", preexec_fn=obeys[0]) for asked in ASKING]
        for answer, wanted in zip(answers, expected, strict=True):
            assert answer.err == ""
            assert answer.json() == wanted.json()
        assert [listing(folder) for folder in folders] == before
