"""Notes are opened through one door: nothing outside the vault is opened, nothing inside written.

An audit hook records what the process does while everything is asked of a hostile vault.
"""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import hostile
import pytest
from hostile_vaults import HERE, Asked
from watch import CHANGING, Event, Places, read_record

import vaultmem
from vaultmem.vault.read import Door, Unread, read_file

pytest_plugins = ["hostile_fixtures"]

# What vaultmem and Python read of the system, beside their own files. This test's own look at the
# memory it took is the first; SQLite's journal goes by what kind of disk the index is on.
SYSTEM = (
    *(Path("/proc/self/status"), Path("/proc/self/mountinfo")),
    *(Path("/etc/localtime"), Path("/usr/share/zoneinfo")),
)


def installation() -> tuple[Path, ...]:
    """Python's own files, the packages', vaultmem's, and the scripts of these tests."""
    named = {
        *sysconfig.get_paths().values(),
        sys.prefix,
        sys.base_prefix,
        os.path.dirname(vaultmem.__file__),
        str(HERE),
        *(path for path in sys.path if path and "site-packages" in path),
    }
    return tuple(Path(spelled) for path in named for spelled in (path, os.path.realpath(path)))


def places_of(asked: Asked) -> Places:
    """What a process that was asked about a vault may touch."""
    return Places(
        vault=asked.vault,
        written=(asked.cache, asked.child.scratch / "home"),
        read=(*installation(), *SYSTEM),
    )


@pytest.fixture(scope="module")
def watched(hostile_vault: Callable[[str], Asked]) -> Asked:
    """The vault that was asked under the hook."""
    return hostile_vault("watched")


def between_marks(events: tuple[Event, ...]) -> list[Event]:
    """What was done from the beginning of the task to its end."""
    marks = [
        number for number, event in enumerate(events) if event.paths[:1] in (("begin",), ("end",))
    ]
    begin, end = marks
    return [event for event in events[begin:end] if event.name != "mark"]


def test_nothing_is_touched_but_the_vault_and_the_sidecar(watched: Asked) -> None:
    events = between_marks(watched.events)
    assert len(events) > 10_000
    breaches = places_of(watched).breaches(events)
    # `doctor` starts the server as an assistant would; nothing else is started.
    (started,) = [breach for breach in breaches if breach.startswith("subprocess.Popen ")]
    assert f"'--vault', '{watched.vault}'" in started
    assert "'mcp']" in started
    assert breaches == [started]


def test_the_record_holds_what_was_read_and_written(watched: Asked) -> None:
    events = between_marks(watched.events)
    opened = {path for event in events if event.name == "open" for path in event.paths}
    assert {str(watched.vault), "real.md", "leaf.md", "six-mb.md"} <= opened
    listed = {path for event in events if event.name == "os.scandir" for path in event.paths}
    assert str(watched.vault / "special") in listed
    assert any(
        event.name in CHANGING and event.paths[0].startswith(str(watched.cache)) for event in events
    )


def test_no_link_is_opened_by_any_name(watched: Asked) -> None:
    links = {"link-file.md", "link-rel.md", "etc.md", "proc.md", "zero.md", "stdin.md", "fifo.md"}
    special = watched.vault / "special"
    assert all(not (special / name).is_file() or (special / name).is_symlink() for name in links)
    opened = [
        path
        for event in between_marks(watched.events)
        if event.name == "open"
        for path in event.paths
        if os.path.basename(path) in links or path in ("link-dir", "link-prefix", "loop")
    ]
    assert opened == []


# The watch itself: each of these is caught

WRONG = {
    "a write in the vault": "open(VAULT + '/new.md', 'w').close()",
    "a note opened for writing": "os.close(os.open(VAULT + '/note.md', os.O_RDWR))",
    "a note made through a folder": (
        "fd = os.open(VAULT, os.O_RDONLY); os.open('x.md', os.O_CREAT | os.O_WRONLY, dir_fd=fd)"
    ),
    "a rename in the vault": "os.rename(VAULT + '/note.md', VAULT + '/other.md')",
    "a new folder": "os.mkdir(VAULT + '/folder')",
    "a deletion": "os.remove(VAULT + '/note.md')",
    "other permissions": "os.chmod(VAULT + '/note.md', 0o600)",
    "another time": "os.utime(VAULT + '/note.md')",
    "a hard link": "os.link(VAULT + '/note.md', CACHE + '/note.md')",
    "a symbolic link": "os.symlink('note.md', VAULT + '/link')",
    "a cut": "os.truncate(VAULT + '/note.md', 0)",
    "a file outside": "open(VAULT + '/../outside/secret.md').close()",
    "a link to the outside": "open(VAULT + '/out.md').close()",
    "a way through a linked folder": "open(VAULT + '/out/secret.md').close()",
    "a followed name": (
        "fd = os.open(VAULT, os.O_RDONLY); os.open('note.md', os.O_RDONLY, dir_fd=fd)"
    ),
    "a step upwards": (
        "fd = os.open(VAULT, os.O_RDONLY);"
        "os.open('..', os.O_RDONLY | os.O_NOFOLLOW, dir_fd=fd)"
    ),
    "a listing outside": "os.listdir(VAULT + '/../outside')",
    "a listing through a link": "list(os.scandir(VAULT + '/out'))",
    "a system file": "open('/etc/passwd').close()",
    "a process": "subprocess.run([sys.executable, '-c', ''])",
    "a shell": "os.system('true')",
    "a fork": "pid = os.fork(); os._exit(0) if pid == 0 else os.waitpid(pid, 0)",
    "a socket": "socket.socket().close()",
}  # fmt: skip

RIGHT = """
fd = os.open(VAULT, os.O_RDONLY)
os.close(os.open('note.md', os.O_RDONLY | os.O_NOFOLLOW, dir_fd=fd))
list(os.scandir(VAULT))
open(CACHE + '/index.db', 'wb').close()
os.remove(CACHE + '/index.db')
import colorsys
"""


@pytest.fixture
def breaches(tmp_path: Path) -> Callable[[str], list[str]]:
    """What is wrong with what a script does, on a vault with a note and two links out of it."""
    vault, outside, cache = (tmp_path / name for name in ("vault", "outside", "cache"))
    for folder in (vault, outside, cache):
        folder.mkdir()
    (vault / "note.md").write_text("kiln")
    (outside / "secret.md").write_text(hostile.CANARY)
    (vault / "out.md").symlink_to(outside / "secret.md")
    (vault / "out").symlink_to(outside)
    script, record = tmp_path / "script.py", tmp_path / "record"

    def run(source: str) -> list[str]:
        script.write_text(
            "import os, socket, subprocess, sys\n"
            f"VAULT, CACHE = {str(vault)!r}, {str(cache)!r}\n"
            "sys.audit('mark', 'begin')\n"
            f"{source}\n"
            "sys.audit('mark', 'end')\n"
        )
        subprocess.run([sys.executable, HERE / "watch.py", record, script], check=True)
        return Places(vault, (cache,), installation()).breaches(
            between_marks(tuple(read_record(record)))
        )

    return run


@pytest.mark.parametrize("name", WRONG)
def test_the_watch_catches_what_is_not_allowed(
    breaches: Callable[[str], list[str]], name: str
) -> None:
    assert breaches(WRONG[name]) != []


def test_the_watch_lets_pass_what_is_allowed(breaches: Callable[[str], list[str]]) -> None:
    assert breaches(RIGHT) == []


# A folder that becomes a link between the look and the reading

SWAPPED = ["a", "a/b", "a/b/c", "a/b/c/note.md"]


@pytest.mark.parametrize("part", SWAPPED)
@pytest.mark.parametrize("kept_open", [False, True], ids=["new door", "open door"])
def test_a_part_that_was_swapped_for_a_link_is_not_followed(
    tmp_path: Path, part: str, kept_open: bool
) -> None:
    path = "a/b/c/note.md"
    vault, outside = tmp_path / "vault", tmp_path / "outside"
    for root, text in ((vault, "kiln"), (outside, hostile.CANARY)):
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text(text)
    (vault / "other.md").write_text("clay")
    with Door(vault) as door:
        assert door.read(path, limit=1000) == b"kiln"
        if not kept_open:
            assert door.read("other.md", limit=1000) == b"clay"  # lets go of the folder
        (vault / part).rename(vault / "was")
        (vault / part).symlink_to(outside / part)
        # The trap is set: whoever opens by path reads what is outside.
        assert (vault / path).read_text() == hostile.CANARY
        answer = door.read(path, limit=1000)
    if kept_open and part != path:
        assert answer == b"kiln"  # the folder that was opened is still the vault's
    else:
        assert isinstance(answer, Unread)
        assert answer.code == "linked"
    fresh = read_file(vault, path, limit=1000)
    assert isinstance(fresh, Unread)
    assert fresh.code == "linked"
