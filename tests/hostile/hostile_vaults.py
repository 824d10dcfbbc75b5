"""Hostile vaults, made and asked everything in child processes.

The first seed is gone through row by row, as a user to whom permissions apply; the second under an
audit hook, as whoever runs the tests. HOSTILE_SEEDS=3,4 has others asked as that user, unwatched.
"""

import functools
import json
import os
import stat
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import hostile
import pytest
from watch import Event

if sys.platform == "win32":
    pytest.skip("these names, links and pipes are POSIX's", allow_module_level=True)

HERE = Path(__file__).resolve().parent
NOBODY = 65534
FIRST_SEED = 20261129
# Stands in the environment of the children, which one of the links leads to.
ENVIRONMENT_MARK = "ENVIRONMENT-OF-THE-PROCESS-4c1d"
# A file of 3 GiB on paper has its only block at the beginning; no other note is so large.
MOST_READ = 1 << 23
# Files below a row's path that hold its text, where the path is not itself the file.
FILES_OF = {
    "sp-dir-md": "special/folder.md/inner.md",
    "sp-ro-dir": "special/ro-dir/in.md",
    "sp-same-stat": "special/same-a.md",
}

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Variant:
    """How one of the vaults is made and asked."""

    seed: int
    unprivileged: bool = False
    watched: bool = False
    thorough: bool = False  # every note is read, and the clock stands still


VARIANTS = {
    "first": Variant(FIRST_SEED, unprivileged=True, thorough=True),
    "watched": Variant(2, watched=True),
    **{
        f"seed {number}": Variant(int(number))
        for number in filter(None, os.environ.get("HOSTILE_SEEDS", "").split(","))
    },
}


# Failures show what they are about; all the answers would fill the screen.
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Asked:
    """A hostile vault, and everything that was answered about it."""

    child: "Child"
    rows: tuple[Row, ...]
    not_written: tuple[str, ...]
    answers: Mapping[str, Any]
    printed: str  # on stdout and stderr of the process
    events: tuple[Event, ...]
    before: Mapping[str, tuple[object, ...]]
    after: Mapping[str, tuple[object, ...]]
    reads_everything: bool  # whether it is root that asked

    @property
    def out(self) -> Path:
        """What the generator wrote."""
        return self.child.scratch / "out"

    @property
    def vault(self) -> Path:
        """The vault's folder."""
        return self.out / "vault"

    @property
    def cache(self) -> Path:
        """The folder for sidecars."""
        return self.child.scratch / "cache"

    def spelled(self, path: str) -> str:
        """A path of the manifest as vaultmem spells it.

        That is NFC, but for a file whose twin has that name already.
        """
        escaped = shown(path)
        texts = self.answers["texts"]
        return escaped if escaped in texts else unicodedata.normalize("NFC", escaped)

    def problems(self, path: str) -> list[str]:
        """The problem lines of the index reply that name a file."""
        return [p["message"] for p in self.answers["index"]["problems"] if p["path"] == path]

    def everything_said(self) -> str:
        """Every answer, and all that was printed."""
        return json.dumps(self.answers, ensure_ascii=False) + self.printed


def shown(path: str) -> str:
    """A path of the manifest, bytes that are no text escaped."""
    return path.encode("utf-8", "backslashreplace").decode()


def note_of(row: Row) -> str:
    """The path of the note that holds a row's text."""
    return FILES_OF.get(row["id"], shown(row["path"]))


@functools.cache
def all_rows() -> tuple[Row, ...]:
    """The rows of the first seed, to name tests by."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as scratch:
        out = Path(scratch, "out")
        run_generator(out, FIRST_SEED)
        rows = json.loads((out / "manifest.json").read_text("utf-8"))["rows"]
        make_removable(out)
    return tuple(rows)


def run_generator(out: Path, seed: int) -> None:
    """Write a hostile vault as the user who runs the tests."""
    subprocess.run(
        [sys.executable, hostile.__file__, str(out), "--seed", str(seed)],
        stdout=subprocess.DEVNULL,
        check=True,
    )


def make_removable(folder: Path) -> None:
    """Let the owner delete what lies in folders that are closed for writing."""
    for root, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(root, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)


class Child:
    """Runs tasks of asking.py, whose home, cache and temporary folder lie in one scratch folder."""

    def __init__(self, scratch: Path, user: int | None = None) -> None:
        self.scratch = scratch
        self.user = user
        for name in ("home", "temporary", "elsewhere", "jobs", "out"):
            (scratch / name).mkdir()
            if user is not None:
                os.chown(scratch / name, user, user)
        if user is not None:
            os.chown(scratch, user, user)

    def run(
        self, task: str, *, record: Path | None = None, **job: object
    ) -> tuple[dict[str, Any], str]:
        """Carry a task out; its result and what it printed. Fails where the process does."""
        job_file, result = (self.scratch / "jobs" / f"{task}.{x}" for x in ("job", "result"))
        out = self.scratch / "out"
        wanted = {
            "task": task,
            "user": self.user,
            "result": str(result),
            "scratch": str(self.scratch / "temporary"),
            "out": str(out),
            "vault": str(out / "vault"),
            "cache": str(self.scratch / "cache"),
            **job,
        }
        job_file.write_text(json.dumps(wanted), "utf-8")
        watch = [] if record is None else [str(HERE / "watch.py"), str(record)]
        ended = subprocess.run(
            [sys.executable, *watch, str(HERE / "asking.py"), str(job_file)],
            cwd=self.scratch / "elsewhere",
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,
            check=False,
        )
        printed = ended.stdout.decode("utf-8", "backslashreplace")
        assert ended.returncode == 0, printed
        return json.loads(result.read_text("utf-8")), printed

    def environment(self) -> dict[str, str]:
        """The caller's environment without what steers vaultmem, and with a mark to look for."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("VAULTMEM_", "XDG_", "LC_"))
        }
        return kept | {
            "HOME": str(self.scratch / "home"),
            "TMPDIR": str(self.scratch / "temporary"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "VAULTMEM_EMBEDDER_NAME": "none",
            "HOSTILE_MARK": ENVIRONMENT_MARK,
        }


def listing(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything about everything in a folder: bytes and lstat, all but the time of access."""
    seen: dict[str, tuple[object, ...]] = {}
    for root, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            path = os.path.join(root, name)
            state = os.lstat(path)
            seen[os.path.relpath(path, folder)] = (
                _digest(path, state),
                state.st_mode,
                state.st_ino,
                state.st_nlink,
                state.st_uid,
                state.st_gid,
                state.st_size,
                state.st_mtime_ns,
                state.st_ctime_ns,
            )
    return seen


def _digest(path: str, state: os.stat_result) -> str:
    if stat.S_ISLNK(state.st_mode):
        return os.readlink(path)
    if not stat.S_ISREG(state.st_mode):
        return ""
    try:
        with open(path, "rb") as file:
            return sha256(file.read(MOST_READ)).hexdigest()
    except PermissionError:
        return "closed"


def stored_texts(cache: Path) -> Iterator[str]:
    """Every value of every table, and every word of the full-text indexes."""
    (path,) = cache.glob("*/index.db")
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        tables = list(db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'"))
        assert len(tables) > 10
        for name, sql in tables:
            if "fts5vocab" in sql:
                continue
            if sql.startswith("CREATE VIRTUAL"):
                db.execute(f"CREATE VIRTUAL TABLE temp.words_of USING fts5vocab(main, {name}, row)")
                yield from (
                    term
                    for (term,) in db.execute(
                        "SELECT term FROM temp.words_of WHERE term IS NOT NULL"
                    )
                )
                db.execute("DROP TABLE temp.words_of")
                continue
            for row in db.execute(f"SELECT * FROM {name}"):
                for value in row:
                    if isinstance(value, bytes):
                        yield value.decode("utf-8", "replace")
                    elif isinstance(value, str):
                        yield value
    finally:
        db.close()


def bytes_below(folder: Path, most: int = -1) -> Iterator[tuple[Path, bytes]]:
    """Every file below a folder that can be read, with its first bytes or all of them."""
    for root, _, files in os.walk(folder):
        for name in files:
            path = Path(root, name)
            if stat.S_ISREG(path.lstat().st_mode) and os.access(path, os.R_OK):
                with path.open("rb") as file:
                    yield path, file.read(most)
