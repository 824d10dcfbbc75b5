"""The token of the HTTP server: one for a vault, and nobody else's to know."""

import base64
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from vaultmem.model.errors import StateUnavailable
from vaultmem.service.http_token import FILE_NAME, http_token

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps no modes")
HELD = "A" * 43


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "vault"


def put(folder: Path, content: str, mode: int = 0o600) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE_NAME
    path.write_text(content)
    path.chmod(mode)
    return path


def test_a_token_is_made_once_and_kept(folder: Path) -> None:
    token = http_token(folder)
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", token)
    assert len(base64.urlsafe_b64decode(token + "=")) == 32
    assert http_token(folder) == token
    assert [path.name for path in folder.iterdir()] == [FILE_NAME]


def test_each_vault_has_a_token_of_its_own(tmp_path: Path) -> None:
    assert len({http_token(tmp_path / str(number)) for number in range(20)}) == 20


def test_what_is_in_the_file_is_the_token(folder: Path) -> None:
    put(folder, HELD + "\n")
    assert http_token(folder) == HELD
    put(folder, HELD)
    assert http_token(folder) == HELD


@posix
def test_only_its_owner_may_read_it_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0)
    try:
        http_token(folder)
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / FILE_NAME).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_processes_that_ask_at_once_get_the_same_token(folder: Path) -> None:
    # Each says that it is ready, and asks when it is told to.
    script = (
        "import sys; from pathlib import Path; from vaultmem.service.http_token import http_token;"
        "print('ready', flush=True); sys.stdin.readline(); print(http_token(Path(sys.argv[1])))"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("now\n")
        process.stdin.flush()
    tokens = {process.communicate(timeout=60)[0].strip() for process in started}
    assert tokens == {(folder / FILE_NAME).read_text().strip()}
    assert [path.name for path in folder.iterdir()] == [FILE_NAME]


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_token_that_others_may_know_is_refused_with_what_to_do(folder: Path, mode: int) -> None:
    path = put(folder, HELD, mode)
    with pytest.raises(StateUnavailable, match=rf"mode 0{mode:o}\b.* Remove it .* chmod 600 "):
        http_token(folder)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == (HELD, mode)
    path.chmod(0o600)
    assert http_token(folder) == HELD


@posix
@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="needs root")
def test_a_token_of_another_user_is_refused(folder: Path) -> None:
    os.chown(put(folder, HELD), 65534, 65534)
    with pytest.raises(StateUnavailable, match=r"belongs to another user \(uid 65534\)"):
        http_token(folder)


@pytest.mark.parametrize(
    "content",
    [
        *("", "\n", HELD[:-1], HELD + "A", HELD + "\n\n", HELD[:-1] + "\u00e9"),
        *(f"{HELD} ", f" {HELD}", "A" * 500, HELD[:-1] + "/"),
    ],
)
def test_what_is_no_token_is_refused_and_left(folder: Path, content: str) -> None:
    path = put(folder, content)
    with pytest.raises(StateUnavailable, match=r"is not what vaultmem wrote\. Remove it"):
        http_token(folder)
    assert path.read_text() == content
    path.unlink()
    assert http_token(folder) != HELD


@posix
def test_a_link_a_folder_and_a_pipe_are_refused(folder: Path, tmp_path: Path) -> None:
    elsewhere = put(tmp_path / "elsewhere", HELD)
    folder.mkdir(parents=True)
    path = folder / FILE_NAME

    def refused() -> None:
        with pytest.raises(StateUnavailable, match=re.escape(str(path))):
            http_token(folder)

    for target in (elsewhere, tmp_path / "nosuch"):
        path.symlink_to(target)
        refused()
        path.unlink()
    path.mkdir()
    refused()
    path.rmdir()
    os.mkfifo(path, 0o600)
    refused()


def test_a_folder_that_cannot_be_made_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StateUnavailable, match="VAULTMEM_STATE_DIR"):
        http_token(tmp_path / "file" / "vault")


@posix
def test_no_message_holds_the_token(folder: Path) -> None:
    for content, mode in ((HELD, 0o644), (HELD + "A", 0o600)):
        put(folder, content, mode)
        with pytest.raises(StateUnavailable) as raised:
            http_token(folder)
        assert HELD[:8] not in str(raised.value)
