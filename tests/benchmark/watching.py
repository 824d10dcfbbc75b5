"""What the watch_*.py scripts share: a private copy of a vault, children that talk, editors.

The scripts measure `vaultmem watch` on a copy of a vault; what they are given is only read. Times
are those of ``time.monotonic``, which processes share on Linux; what a process costs is read from
``/proc``. A child's standard output is one JSON object a line, stamped when it arrives.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import random
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Self

from vaultmem.index.update import stored_files
from vaultmem.service.application import Memory, open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.settings import find_sidecar_folder, load_settings

MEGABYTE = 1_000_000
MODULE = (sys.executable, "-m", "vaultmem")
READER = Path(__file__).with_name("watch_reader.py")
START_SECONDS = 600  # until a watcher has taken in what changed before its start
SETTLE_SECONDS = 60
SHOWN_DIFFERENCES = 8
SHOWN_CHARACTERS = 160

# Rows of `meta` that tell of vectors: how the space is called, and a mean that rounding decides.
_OF_VECTORS = re.compile(r"meta \{'key': '(?:vectors|centroid|wish)'")


class MeasureError(Exception):
    """A measurement cannot be made; the message says why."""


# The place


@dataclass(frozen=True, slots=True)
class Place:
    """A copy of a vault with a cache and a state folder of its own."""

    scratch: Path
    vectors: bool
    watcher: str  # how to start another watcher: a template; "" for our own

    @property
    def vault(self) -> Path:
        """The copy."""
        return self.scratch / "vault"

    @property
    def cache(self) -> Path:
        """What is given as --cache-dir."""
        return self.scratch / "cache"

    @property
    def environment(self) -> dict[str, str]:
        """The caller's environment without settings of vaultmem, and with the place's own."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith("VAULTMEM_")}
        kept["VAULTMEM_STATE_DIR"] = str(self.scratch / "state")
        if not self.vectors:
            kept["VAULTMEM_EMBEDDER_NAME"] = "none"
        return kept

    def command(self, *arguments: str, cache: Path | None = None) -> list[str]:
        """The command line of one of vaultmem's commands."""
        folder = str(cache or self.cache)
        return [*MODULE, "--vault", str(self.vault), "--cache-dir", folder, *arguments]

    def watch_command(self) -> list[str]:
        """The command line of the watcher."""
        if not self.watcher:
            return self.command("watch", "--json")
        words = shlex.split(self.watcher)
        return [word.format(vault=self.vault, cache=self.cache) for word in words]

    def reply(self, *arguments: str) -> dict[str, Any]:
        """Run one command to its end and give its answer. MeasureError if it fails."""
        ended = subprocess.run(
            [*self.command(*arguments), "--json"],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if ended.returncode != 0:
            raise MeasureError(f"{arguments} ended with {ended.returncode}: {ended.stderr.strip()}")
        answer: dict[str, Any] = json.loads(ended.stdout)
        return answer

    def index(self) -> None:
        """Take everything in, and embed it where that is asked for."""
        self.reply("index", *(() if self.vectors else ("--no-embed",)))

    def memory(self, cache: Path | None = None) -> Memory:
        """The index, opened in this process, which leaves looking at the vault to others."""
        settings = load_settings(
            self.vault,
            cache or self.cache,
            environment={**self.environment, "VAULTMEM_SEARCH_REFRESH": "never"},
        )
        return open_memory(settings)


@contextmanager
def workplace(options: argparse.Namespace, source: Path | None = None) -> Iterator[Place]:
    """A place with a copy of the vault; gone afterwards, also after Ctrl-C and SIGTERM."""
    signal.signal(signal.SIGTERM, _stop)
    scratch = Path(tempfile.mkdtemp(prefix="vaultmem-watch-")).resolve()
    try:
        yield furnished(
            scratch,
            source or options.vault,
            cache=options.cache,
            vectors=options.vectors,
            watcher=options.watcher,
        )
    finally:
        shutil.rmtree(scratch)


def furnished(
    scratch: Path,
    source: Path,
    *,
    cache: Path | None = None,
    vectors: bool = False,
    watcher: str = "",
) -> Place:
    """Copy a vault, and what a cache folder holds of it, which then counts as of the copy."""
    place = Place(scratch, vectors, watcher)
    # Version control is no part of a vault, and may be large. Modification times are kept.
    shutil.copytree(source, place.vault, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    if cache is not None:
        known, _ = find_sidecar_folder(source.resolve(), cache, {})
        if not known.is_dir():
            raise MeasureError(f"{cache} holds nothing of {source}: there is no folder {known}")
        # The name of the folder tells the vault's path; nothing in it does.
        shutil.copytree(known, find_sidecar_folder(place.vault, place.cache, {})[0])
    return place


def _stop(signum: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


# Children


@dataclass(frozen=True, slots=True)
class Line:
    """What a child said, and when it was heard."""

    at: float
    said: dict[str, Any]


class Child:
    """A child process that prints JSON lines, and hears some if it likes."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], errors: Path):
        self.lines: list[Line] = []
        self._silent = False  # it has closed its output
        self._errors = errors
        self._heard = threading.Condition()
        with errors.open("ab") as stream:
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                encoding="utf-8",
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._listener.join()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    def said(self, event: str, since: int = 0) -> list[Line]:
        """The lines that tell of one kind of event, from a given line on."""
        return [line for line in self.lines[since:] if line.said.get("event") == event]

    def tell(self, message: Mapping[str, object]) -> None:
        """Send a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def listen_until(
        self, holds: Callable[[], bool], seconds: float, *, look: float = 60.0
    ) -> bool:
        """Wait until a condition holds, asked after each line and every `look` seconds.

        False when it does not in that time. MeasureError when the child ends before.
        """
        until = time.monotonic() + seconds
        while True:
            with self._heard:
                known, silent = len(self.lines), self._silent
            if holds():
                return True
            if silent:
                self.process.wait(10)
                raise MeasureError(
                    f"A child ended with {self.process.returncode}: {self.complaint}"
                )
            left = until - time.monotonic()
            if left <= 0:
                return False
            with self._heard:
                if len(self.lines) == known and not self._silent:
                    self._heard.wait(min(look, left))

    @property
    def complaint(self) -> str:
        """The last of what it wrote to standard error."""
        return self._errors.read_text("utf-8", "replace").strip()[-500:]

    def finish(self, seconds: float) -> int:
        """Close its input and wait for its end; its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(seconds)
        self._listener.join(seconds)
        return code

    def stop(self, seconds: float = 30.0) -> int:
        """Ask it to end (SIGTERM); its exit code, or that of SIGKILL if it does not."""
        self.process.terminate()
        try:
            return self.finish(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            at = time.monotonic()
            try:
                said = json.loads(text)
            except ValueError:
                said = {"event": "no JSON"}
            with self._heard:
                self.lines.append(Line(at, said))
                self._heard.notify_all()
        with self._heard:
            self._silent = True
            self._heard.notify_all()


@contextmanager
def watching(place: Place) -> Iterator[Child]:
    """A watcher that has taken in what there was at its start; killed if it is not stopped."""
    errors = place.scratch / "watcher.err"
    with Child(place.watch_command(), place.environment, errors) as watcher:
        if not watcher.listen_until(lambda: bool(watcher.said("batch")), START_SECONDS):
            raise MeasureError(f"The watcher took nothing in for {START_SECONDS} s.")
        yield watcher


def reader(place: Place, *arguments: str) -> Child:
    """A process that asks the index and does not look at the vault (watch_reader.py)."""
    command = [sys.executable, str(READER), *arguments, str(place.vault), str(place.cache)]
    return Child(command, place.environment, place.scratch / "reader.err")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used so far (proc(5))."""

    cpu: float  # seconds, user and system, with those of children it waited for
    resident: float  # 10^6 bytes
    waits: int  # voluntary context switches of its threads

    @classmethod
    def of(cls, pid: int) -> Usage:
        """Read it. OSError when the process is gone, or where there is no /proc."""
        folder = Path("/proc") / str(pid)
        # Behind the name, which may hold anything: utime, stime, cutime, cstime.
        ticks = folder.joinpath("stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        cpu = sum(map(int, ticks[11:15])) / os.sysconf("SC_CLK_TCK")
        pages = int(folder.joinpath("statm").read_text("utf-8").split()[1])
        resident = pages * os.sysconf("SC_PAGE_SIZE") / MEGABYTE
        waits = 0
        for status in folder.glob("task/*/status"):
            found = re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status.read_text(), re.M)
            waits += int(found[1]) if found else 0
        return cls(cpu, resident, waits)


# Editors

Save = Callable[[Path, bytes, random.Random], float]


def _save_in_place(path: Path, data: bytes, chance: random.Random) -> float:
    with path.open("r+b") as stream:
        stream.write(data)
        stream.truncate()
    return time.monotonic()


def _truncate_and_write(path: Path, data: bytes, chance: random.Random) -> float:
    with path.open("wb") as stream:
        stream.write(data[: len(data) // 2])
        stream.flush()
        time.sleep(chance.uniform(0.2, 0.6))
        stream.write(data[len(data) // 2 :])
    return time.monotonic()


def _write_and_rename(path: Path, data: bytes, chance: random.Random) -> float:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(data)
    temporary.replace(path)
    return time.monotonic()


def _delete_and_create(path: Path, data: bytes, chance: random.Random) -> float:
    path.unlink()
    time.sleep(chance.uniform(0.0, 0.05))
    path.write_bytes(data)
    return time.monotonic()


def _backup_and_write(path: Path, data: bytes, chance: random.Random) -> float:
    backup = path.with_name(path.name + "~")
    path.rename(backup)
    path.write_bytes(data)
    saved = time.monotonic()
    backup.unlink()
    return saved


def _append(path: Path, data: bytes, chance: random.Random) -> float:
    with path.open("ab") as stream:
        stream.write(data[stream.tell() :])
    return time.monotonic()


# How editors save, by name: each makes the file hold the data, which begins with what it held, and
# returns the time at which it did.
SAVES: dict[str, Save] = {
    "in place": _save_in_place,
    "truncate, pause": _truncate_and_write,
    "temporary, rename": _write_and_rename,
    "delete, create": _delete_and_create,
    "backup, write": _backup_and_write,
    "append": _append,
}


def made_up_word(chance: random.Random) -> str:
    """Twelve letters that can be spoken: none of 10^11 others is the same, and no secret's like."""
    return "".join(chance.choice("bdfgklmnprstvz") + chance.choice("aeiou") for _ in range(6))


def editable(place: Place, memory: Memory) -> list[str]:
    """The indexed notes, by path, which the disk spells as the index does."""
    paths = [
        path
        for path, state in stored_hashes(memory).items()
        if path.endswith(".md") and state and (place.vault / path).is_file()
    ]
    if not paths:
        raise MeasureError("There is no note to edit.")
    return sorted(paths)


# Whether the index is right


def stored_hashes(memory: Memory) -> dict[str, str]:
    """Vault path -> SHA-256 of the bytes that were indexed."""
    with memory.guarded():
        sidecar = memory.open_sidecar()
        if sidecar is None:
            return {}
        return {path: file.sha256 for path, file in stored_files(sidecar).items()}


def file_hashes(vault: Path, paths: Iterable[str]) -> dict[str, str]:
    """Path -> SHA-256 of the file."""
    return {path: sha256((vault / path).read_bytes()).hexdigest() for path in paths}


def behind(memory: Memory, expected: Mapping[str, str]) -> list[str]:
    """The notes that are not indexed as they are."""
    stored = stored_hashes(memory)
    return [path for path, digest in expected.items() if stored.get(path) != digest]


def taken_in(
    watcher: Child, memory: Memory, expected: Mapping[str, str], seconds: float = SETTLE_SECONDS
) -> bool:
    """Wait until the notes are indexed as they are; False if they are not in that time.

    The index is asked when the watcher speaks, and every half second.
    """
    return watcher.listen_until(lambda: not behind(memory, expected), seconds, look=0.5)


def differences(place: Place) -> list[str]:
    """How the index differs from one made anew; [] when it does not. Nobody may be writing."""
    fresh_cache = place.scratch / "fresh"
    if place.vectors:
        shutil.copytree(place.cache, fresh_cache)  # so that nothing is embedded twice
    kept, fresh = place.memory(), place.memory(fresh_cache)
    try:
        index(fresh, IndexRequest(rebuild=True, embed=place.vectors))
        rows = Counter(_rows(kept))
        rows.subtract(_rows(fresh))
    finally:
        kept.close()
        fresh.close()
    found = sorted((row, count) for row, count in rows.items() if count)
    lines = [
        f"{'kept' if count > 0 else 'anew'}: {row[:SHOWN_CHARACTERS]}"
        for row, count in found[:SHOWN_DIFFERENCES]
    ]
    if len(found) > SHOWN_DIFFERENCES:
        lines.append(f"and {len(found) - SHOWN_DIFFERENCES:,} more rows")
    return lines


def _rows(memory: Memory) -> list[str]:
    """The rows as the tests compare them (tests/fault/canon.py)."""
    fault = str(Path(__file__).resolve().parents[1] / "fault")
    if fault not in sys.path:
        sys.path.append(fault)
    rows: list[str] = importlib.import_module("canon").index_lines(memory)
    return [row for row in rows if _OF_VECTORS.match(row) is None]


# Figures


def spread(values: Sequence[float]) -> dict[str, float]:
    """Percentiles by nearest rank, rounded to a tenth of a thousandth."""
    ordered = sorted(values)
    figures: dict[str, float] = {"n": len(ordered)}
    if ordered:
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)):
            figures[name] = round(ordered[math.ceil(share * len(ordered)) - 1], 4)
    return figures


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the line of least squares through points (x, y)."""
    line = statistics.linear_regression([x for x, _ in points], [y for _, y in points])
    return line.slope


def spread_row(name: str, figures: Mapping[str, float]) -> str:
    """A line of a table of spreads."""
    cells = "".join(f"{figures.get(column, math.nan):9.3f}" for column in SPREAD_COLUMNS)
    return f"{name:20}{figures['n']:7.0f}{cells}"


SPREAD_COLUMNS = ("p50", "p95", "p99", "max")
SPREAD_HEADER = f"{'':20}{'n':>7}" + "".join(f"{column:>9}" for column in SPREAD_COLUMNS)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a script found."""

    figures: dict[str, Any]  # for --json
    table: list[str]
    failures: list[str]  # what does not hold; [] when all does


def options_parser(doc: str | None, *, vault: bool = True) -> argparse.ArgumentParser:
    """The options that the scripts share."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if vault:
        parser.add_argument("vault", type=Path, help="vault to copy; nothing is written to it")
    parser.add_argument("--seed", type=int, default=7, help="of all that is left to chance")
    parser.add_argument(
        "--vectors", action="store_true", help="embed passages; without it words alone are indexed"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        help="a cache folder that holds an index of the vault, to copy instead of indexing and "
        "embedding anew; nobody may be writing to it",
    )
    parser.add_argument(
        "--watcher",
        default="",
        metavar="COMMAND",
        help="a watcher to measure instead of `vaultmem watch --json`; {vault} and {cache} are "
        "filled in",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def run(measure: Callable[[argparse.Namespace], Outcome], parser: argparse.ArgumentParser) -> int:
    """Measure and print.

    Returns 0; 1 if something does not hold (the figures are printed all the same); 2 if the
    measurement cannot be made; 130 after Ctrl-C.
    """
    options = parser.parse_args()
    name = Path(sys.argv[0]).stem
    if not getattr(options, "vault", Path()).is_dir():
        parser.error(f"{options.vault} is not a folder")
    try:
        outcome = measure(options)
    except (MeasureError, OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"{name}: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write(f"{name}: interrupted\n")
        return 130
    if options.json:
        print(json.dumps({**outcome.figures, "failures": outcome.failures}, indent=2))
    else:
        print("\n".join(outcome.table))
    for failure in outcome.failures:
        sys.stderr.write(f"CHECK FAILED: {failure}\n")
    return 1 if outcome.failures else 0
