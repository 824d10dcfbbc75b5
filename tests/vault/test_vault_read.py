"""The one door through which a vault's files are read, and what does not pass it."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from vaultmem.vault.read import Door, Unread, _read_by_path, read_file

NOBODY = 65534

posix_only = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files and permissions")


class Hung(BaseException):
    """The call did not come back."""


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise Hung

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def put(vault: Path, path: str, data: bytes = b"text") -> Path:
    file = vault / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


def code(answer: bytes | Unread) -> str:
    assert isinstance(answer, Unread), answer
    assert answer.message.endswith(".")
    return answer.code


@pytest.mark.parametrize("data", [b"", b"text", b"\x00\xff\r\n", b"x" * 300_000])
def test_a_file_comes_back_byte_for_byte(tmp_path: Path, data: bytes) -> None:
    put(tmp_path, "a/b c/é.md", data)

    assert read_file(tmp_path, "a/b c/é.md", limit=1_000_000) == data


def test_a_file_of_exactly_the_limit_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    put(tmp_path, "fits.md", b"x" * 100)
    put(tmp_path, "large.md", b"x" * 101)

    assert read_file(tmp_path, "fits.md", limit=100) == b"x" * 100
    answer = read_file(tmp_path, "large.md", limit=100)

    assert code(answer) == "too-large"
    assert isinstance(answer, Unread)
    assert "101" in answer.message
    assert "100" in answer.message


@pytest.mark.parametrize("path", ["gone.md", "gone/a.md"])
def test_what_is_not_there_is_missing(tmp_path: Path, path: str) -> None:
    assert code(read_file(tmp_path, path, limit=100)) == "missing"


def test_a_vault_that_is_not_there_is_unreadable_not_empty(tmp_path: Path) -> None:
    assert code(read_file(tmp_path / "gone", "a.md", limit=100)) == "unreadable"


@posix_only
def test_a_link_at_the_end_of_the_way_is_refused(tmp_path: Path) -> None:
    secret = put(tmp_path, "outside.md", b"secret")
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "a.md").symlink_to(secret)

    assert code(read_file(vault, "a.md", limit=100)) == "linked"


@posix_only
def test_a_link_in_the_middle_of_the_way_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "outside/deep/a.md", b"secret")
    vault = tmp_path / "vault"
    (vault / "sub").mkdir(parents=True)
    (vault / "sub/linked").symlink_to(tmp_path / "outside", target_is_directory=True)

    assert code(read_file(vault, "sub/linked/deep/a.md", limit=100)) == "linked"
    assert code(read_file(vault, "sub/linked/a.md", limit=100)) == "linked"


@posix_only
def test_a_link_that_stays_inside_the_vault_is_refused_too(tmp_path: Path) -> None:
    put(tmp_path, "real/a.md")
    (tmp_path / "linked").symlink_to(tmp_path / "real", target_is_directory=True)

    assert code(read_file(tmp_path, "linked/a.md", limit=100)) == "linked"


@posix_only
def test_the_vault_itself_may_be_reached_by_a_link(tmp_path: Path) -> None:
    put(tmp_path, "real/a.md")
    (tmp_path / "vault").symlink_to(tmp_path / "real", target_is_directory=True)

    assert read_file(tmp_path / "vault", "a.md", limit=100) == b"text"


@pytest.mark.parametrize(
    "path",
    [
        "../outside.md",
        "sub/../../outside.md",
        "sub/../inside.md",
        "./../outside.md",
        "..",
        "sub/..",
    ],
)
def test_a_path_that_climbs_is_refused(tmp_path: Path, path: str) -> None:
    put(tmp_path, "outside.md", b"secret")
    put(tmp_path, "vault/inside.md")
    put(tmp_path, "vault/sub/a.md")

    answer = read_file(tmp_path / "vault", path, limit=100)

    assert isinstance(answer, Unread)
    assert answer.code != "missing"


@pytest.mark.parametrize("path", ["//etc/hostname", "/etc/hostname", "sub//a.md", "sub/a.md/"])
def test_a_path_that_is_not_plain_reads_nothing(tmp_path: Path, path: str) -> None:
    put(tmp_path, "sub/a.md")

    assert isinstance(read_file(tmp_path, path, limit=100), Unread)


def test_a_name_with_a_null_byte_is_an_answer_not_an_exception(tmp_path: Path) -> None:
    assert code(read_file(tmp_path, "a\0b.md", limit=100)) == "unreadable"
    assert code(read_file(tmp_path, "a\0b/c.md", limit=100)) == "unreadable"


@posix_only
def test_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")

    with at_most(5):
        answer = read_file(tmp_path, "pipe.md", limit=100)

    assert code(answer) == "not-a-file"


def test_a_folder_named_like_a_note_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder.md").mkdir()

    assert code(read_file(tmp_path, "folder.md", limit=100)) in ("not-a-file", "unreadable")


@posix_only
def test_a_device_is_no_file() -> None:
    with at_most(5):
        answer = read_file(Path("/dev"), "zero", limit=100)

    assert code(answer) == "not-a-file"


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file whose size is known to be wrong")
def test_a_file_that_holds_more_than_its_size_said_is_changing() -> None:
    """The kernel's status files claim no bytes and give some, as a file that grows does."""
    answer = read_file(Path("/proc"), f"{os.getpid()}/status", limit=100_000)

    assert code(answer) == "changing"


@posix_only
def test_a_file_without_permission_is_unreadable() -> None:
    with tempfile.TemporaryDirectory() as folder:
        vault = Path(folder)
        vault.chmod(0o755)
        put(vault, "locked.md").chmod(0o000)
        put(vault, "shut/a.md")
        (vault / "shut").chmod(0o000)
        root = os.geteuid() == 0
        if root:
            os.seteuid(NOBODY)
        try:
            of_file = read_file(vault, "locked.md", limit=100)
            of_folder = read_file(vault, "shut/a.md", limit=100)
        finally:
            if root:
                os.seteuid(0)
            (vault / "shut").chmod(0o755)

    assert code(of_file) == "unreadable"
    assert code(of_folder) == "unreadable"


def test_a_door_reads_from_folder_after_folder(tmp_path: Path) -> None:
    paths = ["a/1.md", "a/2.md", "b/1.md", "top.md", "a/3.md"]
    for path in paths:
        put(tmp_path, path, path.encode())

    with Door(tmp_path) as door:
        answers = [door.read(path, limit=100) for path in paths]

    assert answers == [path.encode() for path in paths]


def test_a_door_goes_on_after_a_folder_that_is_not_there(tmp_path: Path) -> None:
    put(tmp_path, "a/1.md")

    with Door(tmp_path) as door:
        first = door.read("gone/1.md", limit=100)
        second = door.read("a/1.md", limit=100)

    assert code(first) == "missing"
    assert second == b"text"


@posix_only
def test_the_way_in_without_folder_descriptors_refuses_the_same(tmp_path: Path) -> None:
    """Windows has no other; what it refuses can be made only where links and FIFOs are."""
    put(tmp_path, "outside/a.md", b"secret")
    vault = tmp_path / "vault"
    put(vault, "sub/a.md")
    (vault / "linked").symlink_to(tmp_path / "outside", target_is_directory=True)
    (vault / "linked.md").symlink_to(tmp_path / "outside/a.md")
    os.mkfifo(vault / "pipe.md")

    def read(path: str, limit: int = 100) -> bytes | Unread:
        return _read_by_path(vault, path, limit)

    assert read("sub/a.md") == b"text"
    with at_most(5):
        assert code(read("pipe.md")) == "not-a-file"
    assert code(read("sub/a.md", 3)) == "too-large"
    assert code(read("linked/a.md")) == "linked"
    assert code(read("linked.md")) == "linked"
    assert code(read("sub/../sub/a.md")) == "linked"
    assert code(read("sub/gone.md")) == "missing"
    assert code(read("a\0b.md")) == "unreadable"
    for outside in (str(tmp_path / "outside/a.md"), "//" + str(tmp_path / "outside/a.md")):
        assert code(read(outside)) == "linked"
    found = read("linked/a.md")
    assert isinstance(found, Unread)
    assert str(tmp_path) not in found.message


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
def test_no_descriptor_stays_open_whatever_was_met(tmp_path: Path) -> None:
    put(tmp_path, "a/b/1.md")
    (tmp_path / "linked").symlink_to(tmp_path / "a", target_is_directory=True)
    os.mkfifo(tmp_path / "pipe.md")
    before = len(os.listdir("/proc/self/fd"))

    for path in ("a/b/1.md", "a/gone.md", "gone/1.md", "linked/b/1.md", "a/../x.md", "pipe.md"):
        read_file(tmp_path, path, limit=100)
        read_file(tmp_path, path, limit=1)

    assert len(os.listdir("/proc/self/fd")) == before


@posix_only
def test_reading_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = put(tmp_path, "a.md")
    before = file.stat()

    read_file(tmp_path, "a.md", limit=100)

    after = file.stat()
    assert (after.st_mtime_ns, after.st_ctime_ns, after.st_size) == (
        before.st_mtime_ns,
        before.st_ctime_ns,
        before.st_size,
    )
