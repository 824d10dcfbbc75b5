"""`vaultmem selftest` as a person runs it."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import (
    MODULE,
    CommandLine,
    assert_one_line_error,
    misfits,
    obeying_permissions,
)

# One case of each promise, in a couple of seconds.
FEW = ("--cases", "0.02")

REPLY = {
    "folder": str,
    "file_system": str,
    "journal": str,
    "seed": int,
    "checks": [{"name": str, "cases": int, "kept": int, "seconds": float, "broken": [str]}],
    "kept": bool,
    "seconds": float,
    "left": (str, None),
}

# The command line, with a product that leaves notes that are gone in the index; and of the
# promises the one that this breaks.
BROKEN = """
import sys
from vaultmem.service import indexing, selftest
from vaultmem.surfaces.cli import main
indexing.remove_note = lambda sidecar, path: None
selftest.PROMISES = {"edits": selftest.PROMISES["edits"]}
sys.exit(main())
"""


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    # No vault is there, nor are settings that could be used.
    return CommandLine(tmp_path, tmp_path / "no vault")


UNUSABLE = {"VAULTMEM_CHUNK_MAX_PIECES": "no number", "VAULTMEM_EMBEDDER_NAME": "no model"}


def test_it_says_where_it_tries_what_and_that_all_was_kept(shell: CommandLine) -> None:
    shell.cache.mkdir()
    ended = shell.run("selftest", *FEW, "--seed", "7", environment=UNUSABLE)
    assert (ended.code, ended.err) == (0, "")
    where, seed, head, *rows, verdict = ended.out.splitlines()
    assert re.fullmatch(
        rf"Where: {re.escape(str(shell.cache))} \(.+, (write-ahead log|rollback journal)\b.*\)",
        where,
    )
    assert seed == "Seed: 7"
    assert head.split() == ["promise", "cases", "kept", "seconds"]
    assert [re.sub(r" +1 +1 +\d+\.\d$", "", row) for row in rows] == [
        "Killed anywhere, the next run repairs the index",
        "Processes at once do not get into each other's way",
        "The index of an edited vault is that of a new one",
    ]
    assert verdict == "All promises kept."
    assert {len(row) for row in (head, *rows)} == {len(head)}
    assert list(shell.cache.iterdir()) == []
    assert list(shell.home.rglob("*")) == []
    assert list(shell.temporary.iterdir()) == []


def test_as_json_it_is_one_value_of_the_same(shell: CommandLine, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere" / "a disk"
    reply = shell.reply("selftest", *FEW, "--in", str(place), environment=UNUSABLE)
    assert misfits(reply, REPLY) == []
    assert reply.keys() == REPLY.keys()
    assert [check.keys() for check in reply["checks"]] == [REPLY["checks"][0].keys()] * 3  # type: ignore[index]
    assert reply["folder"] == str(place)
    assert reply["journal"] in ("wal", "delete")
    assert [(c["name"], c["cases"], c["kept"]) for c in reply["checks"]] == [
        ("kill", 1, 1),
        ("processes", 1, 1),
        ("edits", 1, 1),
    ]
    assert (reply["kept"], reply["left"]) == (True, None)
    assert not place.exists()
    assert not shell.cache.exists()


def test_a_broken_promise_is_named_with_the_way_to_break_it_again(
    shell: CommandLine, tmp_path: Path
) -> None:
    place = tmp_path / "a disk"
    python = (sys.executable, "-c", BROKEN)
    asked = ("selftest", "--seed", "7", "--cases", "0.2", "--keep", "--in", str(place))
    ended = shell.run(*asked, python=python)
    assert ended.code == 1
    assert ended.err == ""
    lines = ended.out.splitlines()
    assert "All promises kept." not in lines
    assert "Broken: The index of an edited vault is that of a new one." in lines
    told = [line for line in lines if line.startswith("  case ")]
    assert told
    assert all(" after " in line and "not of this vault" in line for line in told)
    (left,) = place.iterdir()
    assert f"The folders of broken cases are kept in {left}." in lines
    assert len(list(left.iterdir())) == len(told)
    (again,) = [line for line in lines if line.startswith("To try the same again: ")]
    assert again.endswith(f": vaultmem selftest --seed 7 --keep --cases 0.2 --in '{place}'")
    reply = shell.run(*asked, "--json", python=python)
    assert reply.code == 1
    assert reply.json()["kept"] is False
    assert reply.json()["checks"][0]["broken"] == [line.strip() for line in told]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_interrupted_it_leaves_nothing_behind(
    number: signal.Signals, shell: CommandLine, tmp_path: Path
) -> None:
    place = tmp_path / "a disk"
    with subprocess.Popen(
        [*MODULE, "selftest", "--in", str(place)],
        env=shell.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(f"Where: {place} ")
            assert len(list(place.iterdir())) == 1
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, err) == (130, "vaultmem: Interrupted.\n")
    assert not place.exists()


def test_a_folder_that_cannot_be_written_is_named(shell: CommandLine, tmp_path: Path) -> None:
    place = tmp_path / "read-only"
    place.mkdir(mode=0o500)
    obedient = obeying_permissions()
    ended = shell.run("selftest", "--in", str(place), preexec_fn=obedient)
    assert_one_line_error(ended, 10, str(place), "Permission denied", "--in")
    below = shell.run("selftest", "--in", str(place / "below"), preexec_fn=obedient)
    assert_one_line_error(below, 10, str(place / "below"), "Permission denied")
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--cases", "0"), "--cases"),
        (("--cases", "-1"), "--cases"),
        (("--cases", "many"), "'many'"),
        (("--cases", "nan"), "--cases"),
        (("--cases", "inf"), "--cases"),
        (("--seed", "x"), "'x' is no whole number"),
        (("--long", "--cases", "2"), "--cases"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_no_number_of_cases_is_a_usage_error(
    options: tuple[str, ...], named: str, shell: CommandLine
) -> None:
    ended = shell.run("selftest", *options)
    assert_one_line_error(ended, 2, named)
    assert not shell.cache.exists()
