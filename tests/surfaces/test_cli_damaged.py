"""A damaged sidecar on the command line: a line that says so, an answer, and nothing else."""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from command_line import (
    IMPATIENT,
    CommandLine,
    assert_one_line_error,
    listing,
    obeying_permissions,
    on_notes,
    on_sample,
)

ASKED: dict[str, tuple[str, ...]] = {
    "index": ("index",),
    "search": ("search", "ledger", "pooling", "-k", "20"),
    "read": ("read", "Home"),
    "links": ("links", "Home"),
    "lint": ("lint",),
    "why": ("why", "Home"),
    "status": ("status",),
    "doctor": ("doctor",),
}
PAGE = 8192
REBUILT = "The sidecar was damaged and has been rebuilt"
REMOVED = "The sidecar was damaged and has been removed"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """The sample vault, indexed once; each test damages a copy of its cache."""
    command_line = on_sample(tmp_path_factory.mktemp("damaged"))
    assert command_line.run("index").code == 0
    return command_line


@pytest.fixture(scope="module")
def answers(whole: CommandLine) -> dict[str, Any]:
    return {name: timeless(whole.reply(*asked)) for name, asked in ASKED.items()}


@pytest.fixture
def damaged(whole: CommandLine, tmp_path: Path) -> Iterator[CommandLine]:
    """The same vault with a cache of its own."""
    command_line = CommandLine(tmp_path, whole.vault)
    copytree(whole.cache, command_line.cache)
    before = listing(whole.vault)
    yield command_line
    assert listing(whole.vault) == before


def timeless(reply: Any) -> Any:
    """A reply without what differs from run to run, and from cache to cache."""
    for name in ("seconds", "last_indexed", "sidecar", "degraded", "checks"):
        reply.pop(name, None)
    return reply


def sidecar_of(command_line: CommandLine) -> Path:
    (sidecar,) = command_line.cache.rglob("index.db")
    return sidecar


def garble(file: Path) -> None:
    """Leave a database in name only: every page but the first two is rubbish."""
    data = file.read_bytes()
    file.write_bytes(data[: 2 * PAGE] + b"\xee" * (len(data) - 2 * PAGE))


def flip_a_bit_on_each_page(file: Path) -> None:
    data = bytearray(file.read_bytes())
    chance = random.Random(5)
    for at in range(PAGE, len(data), PAGE):
        data[at + chance.randrange(PAGE)] ^= 1 << chance.randrange(8)
    file.write_bytes(bytes(data))


def cut_in_half(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def put_text_there(file: Path) -> None:
    file.write_text("This was never a database.\n" * 100)


SPOILERS = (garble, flip_a_bit_on_each_page, cut_in_half, put_text_there)


MENDING = [
    *((name, garble) for name in ASKED if name != "doctor"),
    *(("search", spoil) for spoil in SPOILERS[1:]),
]


@pytest.mark.parametrize(
    ("name", "spoil"), MENDING, ids=[f"{name}-{spoil.__name__}" for name, spoil in MENDING]
)
def test_every_command_mends_a_damaged_sidecar_and_says_so(
    name: str,
    spoil: Callable[[Path], None],
    damaged: CommandLine,
    answers: dict[str, Any],
) -> None:
    spoil(sidecar_of(damaged))
    ended = damaged.run(*ASKED[name], "--json")
    assert ended.code in (0, 1), ended
    reply = ended.json()
    told = [*reply.get("degraded", ()), *ended.err.removeprefix("vaultmem: ").splitlines()]
    assert len([line for line in told if line.startswith((REBUILT, REMOVED))]) == 1, ended
    assert len(told) == 1, ended
    if name == "index":
        assert reply["notes"]["added"] == reply["notes"]["total"]
    if name not in ("index", "status", "why"):
        assert timeless(reply) == answers[name]
    if name in ("status", "why"):
        damaged.run("search", "ledger")
    again = damaged.run(*ASKED[name], "--json")
    assert (timeless(again.json()), again.err) == (answers[name], "")


@pytest.mark.parametrize("spoil", SPOILERS[1:3], ids=lambda spoil: spoil.__name__)
def test_the_doctor_names_the_damage_without_a_fault(
    spoil: Callable[[Path], None], damaged: CommandLine
) -> None:
    spoil(sidecar_of(damaged))
    ended = damaged.run("doctor", "--json")
    assert ended.code == 1, ended
    (check,) = [check for check in ended.json()["checks"] if check["id"] == "sidecar"]
    assert not check["ok"]
    assert "vaultmem index" in check["fix"]


def test_a_person_reads_of_it_in_one_line(damaged: CommandLine) -> None:
    garble(sidecar_of(damaged))
    searched = damaged.run("search", "ledger")
    assert searched.out.startswith(f"! {REBUILT}")
    garble(sidecar_of(damaged))
    indexed = damaged.run("index")
    assert indexed.out.startswith(f"! {REBUILT}; no note is affected.\n")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
@pytest.mark.parametrize("name", ["index", "search"])
def test_a_sidecar_that_may_not_be_read_is_replaced(
    name: str, damaged: CommandLine, answers: dict[str, Any]
) -> None:
    obey = obeying_permissions()
    sidecar_of(damaged).chmod(0o000)
    ended = damaged.run(*ASKED[name], "--json", preexec_fn=obey)
    assert ended.code == 0, ended
    assert REBUILT in ended.out + ended.err
    assert timeless(damaged.reply(*ASKED["search"], preexec_fn=obey)) == answers["search"]


@pytest.mark.skipif(sys.platform == "win32", reason="the lock is taken with flock")
@pytest.mark.parametrize("name", ["index", "search", "why", "status"])
def test_while_another_process_holds_the_lock_the_damage_is_left_to_it(
    name: str, damaged: CommandLine
) -> None:
    import fcntl

    garble(sidecar_of(damaged))
    before = sidecar_of(damaged).read_bytes()
    (lock,) = damaged.cache.rglob("writer.lock")
    with lock.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ended = damaged.run(*ASKED[name], python=IMPATIENT)
    assert_one_line_error(ended, 11, "Another", "try again")
    assert sidecar_of(damaged).read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="making a link needs a privilege on Windows")
@pytest.mark.parametrize(
    ("file", "target"),
    [
        ("index.db", "letter.txt"),
        ("index.db", "nowhere"),
        ("writer.lock", "nowhere"),
        ("CACHEDIR.TAG", "nowhere"),
    ],
)
def test_a_link_in_the_cache_is_never_written_through(
    file: str, target: str, damaged: CommandLine, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "letter.txt").write_text("Dear reader,")
    linked = sidecar_of(damaged).with_name(file)
    linked.unlink(missing_ok=True)
    linked.symlink_to(outside / target)
    before = listing(outside)
    for command in (("search", "ledger"), ("index", "--rebuild")):
        ended = damaged.run(*command)
        assert ended.code in (0, 10), ended
        assert "Traceback" not in ended.err
    assert listing(outside) == before


SEARCH_TWICE = """
import sys
from vaultmem.service.application import open_memory
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.settings import load_settings
memory = open_memory(load_settings())
for line in sys.stdin:
    reply = search(memory, SearchRequest(line.strip()))
    print([hit.path for hit in reply.hits], flush=True)
"""


def test_a_process_that_has_the_sidecar_open_goes_on_while_another_replaces_it(
    damaged: CommandLine,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SEARCH_TWICE],
        env=damaged.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask() -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("ledger\n")
            process.stdin.flush()
            return process.stdout.readline()

        first = ask()
        assert "Ledger" in first
        sidecar_of(damaged).unlink()
        put_text_there(sidecar_of_folder(damaged))
        assert damaged.run("search", "ledger").code == 0
        assert ask() == first
        assert damaged.run("index", "--rebuild").code == 0
        assert ask() == first
        process.stdin.close()
    assert process.returncode == 0


def sidecar_of_folder(command_line: CommandLine) -> Path:
    (lock,) = command_line.cache.rglob("writer.lock")
    return lock.with_name("index.db")


def test_a_sidecar_is_rebuilt_from_the_notes_as_they_are_now(tmp_path: Path) -> None:
    command_line = on_notes(tmp_path, {"a.md": "A berth.\n", "b.md": "A pier.\n"})
    command_line.run("index")
    (command_line.vault / "a.md").write_text("A quay.\n")
    garble(sidecar_of(command_line))
    assert command_line.paths("quay") == ["a.md"]
    assert command_line.paths("berth") == []
