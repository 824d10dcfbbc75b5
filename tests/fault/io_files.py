"""The small files that vaultmem writes: who writes them, and whether what lies there is whole."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from vaultmem.index.store import make_folder, sidecar_errors
from vaultmem.index.watch_state import put_state
from vaultmem.model.errors import VaultmemError
from vaultmem.model.watch_state import Watching, WatchState
from vaultmem.service.allowed_secrets import read_allowed, write_allowed
from vaultmem.service.clients import Computer
from vaultmem.service.connecting import Step, Wish, carry_out, chosen_clients, plan_connection
from vaultmem.service.http_token import http_token
from vaultmem.service.settings import load_settings

_KEY = "5a" * 32
_NOON = datetime(2026, 5, 4, 12, 30, 15, tzinfo=UTC)
_OTHERS = (
    '{\n  // mine\n  "mcpServers": {\n    "files": {"command": "npx", "args": ["-y"]},\n  },\n}\n'
)
_STATES = [WatchState(7, "2026-05-04", Watching.WATCHING, said, "rules") for said in (1, 2)]


@dataclass(frozen=True, slots=True)
class Failed:
    """What a writer said that could not write."""

    message: str
    exit_code: int | None  # None where it is the caller's affair


@dataclass(frozen=True, slots=True)
class Writer:
    """Something that writes a file below a folder."""

    name: str
    before: Callable[[Path], object]  # makes what is there already
    write: Callable[[Path], Failed | None]
    whole: Callable[[Path], object]  # raises or is false where a file is neither old nor new
    done: Callable[[Path], bool]  # whether what was to be written is there
    exit_code: int | None  # of its error


def _raised(write: Callable[[Path], object]) -> Callable[[Path], Failed | None]:
    def run(folder: Path) -> Failed | None:
        try:
            write(folder)
        except VaultmemError as error:
            return Failed(str(error), error.exit_code)
        except OSError as error:
            return Failed(str(error), None)
        return None

    return run


# What a person allowed


def _allowed(folder: Path) -> frozenset[str]:
    known = read_allowed(folder)
    assert known.key == bytes.fromhex(_KEY)
    return known.fingerprints


def _put_allowed(folder: Path) -> None:
    folder.mkdir()
    (folder / "secrets.json").write_text(json.dumps({"key": _KEY, "allowed": ["a"]}))


# The token


def _token(folder: Path) -> bool:
    file = folder / "http-token"
    return not file.exists() or bool(re.fullmatch(r"[\w-]{43}\n", file.read_text()))


# The state of a watcher


def _watch(folder: Path) -> int:
    return int(json.loads((folder / "watch.json").read_bytes())["said_ns"])


def _put_watch(folder: Path) -> None:
    folder.mkdir()
    put_state(folder, _STATES[0])


# The mark of a cache


def _mark(folder: Path) -> None:
    with sidecar_errors(folder):
        make_folder(folder)


def _marked(folder: Path) -> bool:
    file = folder / "CACHEDIR.TAG"
    return file.exists() and file.read_text().endswith("costs time, never knowledge.\n")


# The files of clients


def _connect(wish: Wish) -> Callable[[Path], Failed | None]:
    def run(folder: Path) -> Failed | None:
        settings = load_settings(
            folder / "vault", environment={"VAULTMEM_STATE_DIR": str(folder / "state")}
        )
        plan = plan_connection(
            settings,
            chosen_clients(("cursor", "codex"), everyone=False),
            wish=wish,
            name="vaultmem",
            replace=False,
            computer=Computer(
                folder / "home", {}, "linux", str(folder / "bin" / "python"), "vaultmem"
            ),
        )
        try:
            reply = carry_out(plan, now=lambda: _NOON)
        except VaultmemError as error:
            return Failed(str(error), error.exit_code)
        said = [f"{c.path}: {c.reason}" for c in reply.changes if c.step is Step.REFUSED]
        return Failed(" ".join(said), 1) if said else None

    return run


def _desk(folder: Path) -> None:
    for name in ("vault", "bin", "home/.cursor", "home/.codex"):
        (folder / name).mkdir(parents=True)
    for name in ("python", "vaultmem"):
        (folder / "bin" / name).touch(mode=0o755)
    (folder / "home" / ".cursor" / "mcp.json").write_text(_OTHERS)


def _connected_desk(folder: Path) -> None:
    _desk(folder)
    failed = _connect(Wish.CONNECT)(folder)
    assert failed is None, failed


_CONFIGURATIONS = ("home/.cursor/mcp.json", "home/.codex/config.toml")


def _texts(folder: Path) -> tuple[str | None, str | None]:
    """The text of each client's file, None for no file, with "@" for the folder."""
    first, second = (folder / name for name in _CONFIGURATIONS)
    return _text(first, folder), _text(second, folder)


def _text(file: Path, folder: Path) -> str | None:
    return file.read_text().replace(str(folder), "@") if file.exists() else None


@cache
def _states() -> tuple[tuple[str | None, str | None], ...]:
    """What the files hold where nothing fails: as they were, with the server, and without it."""
    with TemporaryDirectory() as name:
        folder = Path(name) / "place"
        _connected_desk(folder)
        connected = _texts(folder)
        _connect(Wish.REMOVE)(folder)
        return (_OTHERS, None), connected, _texts(folder)


def connected(text: str) -> bool:
    """Whether the text of a client's file in JSON is whole and has the server."""
    return "vaultmem" in json.loads(text)["mcpServers"]


def _configured(folder: Path) -> tuple[str | None, str | None]:
    """What the clients' files hold; raises where one, or a copy, is of no state that it can be."""
    found = _texts(folder)
    for text, known in zip(found, zip(*_states(), strict=True), strict=True):
        assert text in known, text
    for kept in (folder / "state").rglob("backups/*"):
        if not re.search(r"\.\d+\.new\Z|made-folders", kept.name):  # not in its place yet
            texts = {text for state in _states() for text in state}
            assert _text(kept, folder) in texts, kept
    return found


WRITERS = {
    writer.name: writer
    for writer in (
        Writer(
            "secrets allow",
            _put_allowed,
            _raised(lambda folder: write_allowed(folder, ["a", "b"])),
            lambda folder: _allowed(folder) >= {"a"},
            lambda folder: _allowed(folder) == {"a", "b"},
            16,
        ),
        Writer(
            "http token",
            lambda folder: None,
            _raised(http_token),
            _token,
            lambda folder: (folder / "http-token").exists(),
            16,
        ),
        Writer(
            "watch.json",
            _put_watch,
            _raised(lambda folder: put_state(folder, _STATES[1])),
            _watch,
            lambda folder: _watch(folder) == 2,
            None,
        ),
        Writer("CACHEDIR.TAG", lambda folder: None, _raised(_mark), lambda f: True, _marked, 13),
        Writer(
            "connect",
            _desk,
            _connect(Wish.CONNECT),
            _configured,
            lambda folder: _configured(folder) == _states()[1],
            1,
        ),
        Writer(
            "connect --remove",
            _connected_desk,
            _connect(Wish.REMOVE),
            _configured,
            lambda folder: _configured(folder) == _states()[2],
            1,
        ),
    )
}


def torn(writer: Writer, folder: Path) -> list[str]:
    """What of a writer's files is neither what it was nor what it was to be."""
    try:
        if writer.whole(folder) is False:
            return [f"{writer.name}: a file is half written"]
    except (AssertionError, OSError, ValueError, LookupError, VaultmemError) as error:
        return [f"{writer.name}: {error!r}"]
    return []


def file_violations(writer: Writer, folder: Path, failed: Failed | None) -> list[str]:
    """What is not as promised after a writer had, or had not, to give up. Writes once more."""
    found = torn(writer, folder)
    if failed is not None:
        if str(folder) not in failed.message:
            found.append(f"the message names no path: {failed.message}")
        codes = {writer.exit_code, 10 if writer.exit_code == 13 else writer.exit_code}
        if failed.exit_code not in codes:
            found.append(f"exit code {failed.exit_code}: {failed.message}")
    elif not found and not writer.done(folder):
        found.append(f"{writer.name}: nothing was said, and it is not written")
    again = writer.write(folder)
    if again is not None:
        found.append(f"the next time it fails: {again.message}")
    elif torn(writer, folder) or not writer.done(folder):
        found.append(f"{writer.name}: not whole the next time either")
    return found
