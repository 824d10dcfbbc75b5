r"""Measure what the command line of vaultmem costs, beside a peer if one is given.

    python tests/benchmark/costs.py VAULT --runs 3
    python tests/benchmark/costs.py VAULT --peer "hvk --vault {vault} scan" \
        --peer-search "hvk --vault {vault} --json search {query}"

Each step is a whole child process, as a user starts it, and is charged what ``os.wait4`` reports
for the process and the descendants it waited for: CPU seconds (user and system) and the peak
resident set. Wall time is printed too, but on a shared machine it measures the neighbours as
well. ``os.wait4`` and process groups exist on Unix only, and so does this script.

The vault is copied first and never written to. One run is the life of an index: cold index,
unchanged index, one edit, one rename, cold search (a new process; the files it reads may well be
in the page cache), warm search (``warm_search.py``: the index stays open). In every step but the
last our tool and the peer take turns, so that a slow minute of the machine falls on both, and
ratios are taken pair by pair. Our tool gets a fresh cache folder in every run, the peer a fresh
``HOME``.

Linux carries the resident set of this script over to the child at its start, so a peak below
``peak_floor_mb`` (printed) means only "no more than that".
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import NoReturn

MEGABYTE = 1_000_000

COLD, UNCHANGED, EDIT, RENAME, SEARCH = (
    "cold index",
    "unchanged index",
    "one edit",
    "one rename",
    "cold search",
)
INDEX_COUNTS = ("added", "changed", "renamed", "removed", "unchanged")
APPENDED = "\nA line appended by the benchmark.\n"
MOVED_FOLDER = "moved-by-benchmark"


class CostsError(Exception):
    """A measurement cannot be made; the message says why in one line."""


class ReportError(Exception):
    """The tool's report is not what its contract promises."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The cost of one child process."""

    cpu: float
    """User and system seconds."""
    wall: float
    """Seconds."""
    peak: float
    """Peak resident set, in units of 10^6 bytes."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A command line to measure.

    In the arguments ``{vault}``, ``{state}`` and ``{query}`` stand for the vault, a folder for
    whatever the tool keeps, and the search query.
    """

    name: str
    index: tuple[str, ...]
    search: tuple[str, ...]
    """Empty if searching is not measured."""
    state_is_home: bool
    """The tool has no option for its state, so ``HOME`` is moved there."""


@dataclass(slots=True)
class Measurements:
    """What the runs have shown so far; lists hold one entry per run."""

    samples: dict[str, dict[str, list[Sample]]] = field(default_factory=dict)
    """By step, then by the name of the tool."""
    sidecar: dict[str, list[float]] = field(default_factory=dict)
    """Size of the state after the cold index by tool, in units of 10^6 bytes."""
    warm: list[dict[str, float]] = field(default_factory=list)
    """CPU milliseconds of a search with the index open: median_ms and p95_ms, one a run."""
    notes: int = 0
    hits: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, step: str, tool: Tool, sample: Sample) -> None:
        """Record one sample."""
        self.samples.setdefault(step, {}).setdefault(tool.name, []).append(sample)


def our_tool(command: str) -> Tool:
    """Return the tool under test, started by ``command`` (a shell-like command line)."""
    common = (*shlex.split(command), "--vault", "{vault}", "--cache-dir", "{state}")
    return Tool(
        "ours",
        index=(*common, "index", "--json"),
        search=(*common, "search", "{query}", "--json"),
        state_is_home=False,
    )


def peer_tool(index: str, search: str | None) -> Tool:
    """Return the peer, given its command lines as templates."""
    return Tool(
        "peer",
        index=tuple(shlex.split(index)),
        search=tuple(shlex.split(search or "")),
        state_is_home=True,
    )


def fill(template: Sequence[str], vault: Path, state: Path, query: str) -> list[str]:
    """Put values into the arguments of a template.

    Arguments are split before they are filled, so a blank in a path or query does no harm.
    """
    return [
        part.replace("{vault}", str(vault)).replace("{state}", str(state)).replace("{query}", query)
        for part in template
    ]


def environment(tool: Tool, state: Path) -> dict[str, str]:
    """Return the environment of the child.

    For a tool whose state goes by ``HOME``, the XDG variables are dropped: they would point
    back to the real home. A ban on bytecode files is lifted: with it, a fresh installation
    would compile its modules in every run.
    """
    kept = dict(os.environ)
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    if not tool.state_is_home:
        return kept
    kept = {name: value for name, value in kept.items() if not name.startswith("XDG_")}
    return {**kept, "HOME": str(state)}


def peak_megabytes(maximum_resident_set: int) -> float:
    """Convert ``ru_maxrss``, which is in bytes on macOS and in KiB elsewhere."""
    unit = 1 if sys.platform == "darwin" else 1024
    return maximum_resident_set * unit / MEGABYTE


def peak_floor() -> float:
    """Return the peak resident set of this process, in units of 10^6 bytes."""
    return peak_megabytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def wait_for(child: subprocess.Popen[bytes]) -> resource.struct_rusage:
    """Wait for the child and return its resource usage.

    If the wait is broken off (Ctrl-C), the child and its descendants are killed and reaped
    first, so that nothing writes to the temporary folder while it is removed.
    """
    try:
        _, status, usage = os.wait4(child.pid, 0)
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage


def run_child(arguments: list[str], env: Mapping[str, str], scratch: Path) -> tuple[Sample, str]:
    """Run a command; return its cost and its standard output.

    ``CostsError`` if it cannot be started or does not exit with 0.
    """
    # Files, not pipes: a reader in this process would compete with the child for the processor.
    output, errors = scratch / "stdout", scratch / "stderr"
    with output.open("wb") as out, errors.open("wb") as err:
        started = time.perf_counter()
        try:
            child = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=env,
                process_group=0,
            )
        except OSError as error:
            raise CostsError(f"cannot start {arguments[0]}: {error.strerror}") from error
        usage = wait_for(child)
        wall = time.perf_counter() - started
    if child.returncode != 0:
        last = errors.read_text(errors="replace").strip().splitlines()[-1:] or ["no message"]
        raise CostsError(f"{shlex.join(arguments)} exited with {child.returncode}: {last[0]}")
    sample = Sample(usage.ru_utime + usage.ru_stime, wall, peak_megabytes(usage.ru_maxrss))
    return sample, output.read_text(errors="replace")


def notes_of_unique_size(vault: Path) -> list[Path]:
    """Return the notes whose size in bytes occurs once in the vault, in a fixed order.

    A size that occurs once proves a content that occurs once, at no cost. Hidden folders are
    left out, since tools skip them, and so are symbolic links, which could lead an edit out of
    the copy. One path is kept for each size, not for each note: the memory of this process
    limits from below what can be measured of its children.
    """
    by_size: dict[int, str] = {}
    repeated: set[int] = set()
    for folder, folders, files in os.walk(vault):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            path = f"{folder}/{name}"
            if name.endswith(".md") and not os.path.islink(path):
                size = os.path.getsize(path)
                repeated.update({size} & by_size.keys())
                by_size[size] = path
    return sorted(Path(path) for size, path in by_size.items() if size not in repeated)


class Vault:
    """The private copy of the vault and the changes made to it."""

    def __init__(self, path: Path, runs: int) -> None:
        """Choose the notes to edit and to move. ``CostsError`` if there are too few."""
        self.path = path
        notes = notes_of_unique_size(path)
        wanted = 2 * runs
        if len(notes) < wanted:
            raise CostsError(f"{runs} runs need {wanted} notes of unique sizes in the vault")
        # Spread over the vault, and different notes in every run.
        self._chosen = [notes[i * len(notes) // wanted] for i in range(wanted)]

    def edit(self, run: int) -> None:
        """Append a line to one note."""
        with self._chosen[2 * run].open("a", encoding="utf-8") as stream:
            stream.write(APPENDED)

    def rename(self, run: int) -> None:
        """Move one note to another folder, under its own name."""
        note = self._chosen[2 * run + 1]
        # A folder for each run: notes moved in different runs may share a name.
        folder = self.path / MOVED_FOLDER / str(run)
        folder.mkdir(parents=True)
        note.rename(folder / note.name)


def parse_object(text: str) -> dict[str, object]:
    """Parse a JSON object. ``ReportError`` if the text is anything else."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ReportError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ReportError("not a JSON object")
    return value


def index_counts(text: str) -> dict[str, int]:
    """Return the note counts of an index report. ``ReportError`` if one is missing."""
    notes = parse_object(text).get("notes")
    if not isinstance(notes, dict):
        raise ReportError("no counts of notes in the report")
    counts = {name: notes.get(name) for name in ("total", *INDEX_COUNTS)}
    whole = {name: value for name, value in counts.items() if isinstance(value, int)}
    if whole.keys() != counts.keys():
        raise ReportError(f"counts missing: {sorted(counts.keys() - whole.keys())}")
    return whole


def expected_counts(step: str, total: int) -> dict[str, int]:
    """Return the counts an index report must show after a step."""
    zero = dict.fromkeys(INDEX_COUNTS, 0)
    if step == COLD:
        return {**zero, "added": total}
    if step == UNCHANGED:
        return {**zero, "unchanged": total}
    one = {EDIT: "changed", RENAME: "renamed"}[step]
    return {**zero, one: 1, "unchanged": total - 1}


def check_index(step: str, text: str, seen: Measurements) -> None:
    """Compare an index report with what the step must do; note a failure in ``seen``."""
    try:
        counts = index_counts(text)
    except ReportError as error:
        seen.failures.append(f"{step}: unusable report: {error}")
        return
    seen.notes = counts["total"]
    if counts["total"] == 0:
        seen.failures.append(f"{step}: no notes indexed")
    for name, expected in expected_counts(step, counts["total"]).items():
        if counts[name] != expected:
            seen.failures.append(f"{step}: {name} is {counts[name]}, expected {expected}")


def check_search(step: str, text: str, seen: Measurements) -> None:
    """Count the hits. No hit is a failure: the step would measure an empty answer."""
    try:
        hits = parse_object(text).get("hits")
    except ReportError as error:
        seen.failures.append(f"{step}: unusable report: {error}")
        return
    if not isinstance(hits, list) or not hits:
        seen.failures.append(f"{step}: no hits; choose a --query that the vault answers")
        return
    seen.hits = len(hits)


def size_on_disk(folder: Path) -> float:
    """Return the sum of the file sizes under a folder, in units of 10^6 bytes."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files) / MEGABYTE


class Bench:
    """Runs the tools on one vault in turn and collects what they cost."""

    def __init__(self, tools: Sequence[Tool], vault: Vault, scratch: Path, query: str) -> None:
        """``scratch`` is a folder of this script's own, outside the vault."""
        self._tools = tools
        self._vault = vault
        self._scratch = scratch
        self._query = query
        self.seen = Measurements()

    def warm_up(self) -> None:
        """Let each tool index and search a vault of one note, unmeasured.

        A fresh installation compiles its modules and reads them from disk on the first start.
        """
        tiny = self._scratch / "tiny"
        tiny.mkdir()
        (tiny / "note.md").write_text("# Note\n\nOne note.\n", encoding="utf-8")
        for tool in self._tools:
            state = self._fresh_state(tool, "warm-up")
            for template in filter(None, (tool.index, tool.search)):
                arguments = fill(template, tiny, state, "note")
                run_child(arguments, environment(tool, state), self._scratch)

    def run(self, run: int) -> None:
        """Measure every step once, for every tool."""
        states = {tool.name: self._fresh_state(tool, str(run)) for tool in self._tools}
        self._index_step(COLD, states)
        for tool in self._tools:
            sizes = self.seen.sidecar.setdefault(tool.name, [])
            sizes.append(size_on_disk(states[tool.name]))
        self._index_step(UNCHANGED, states)
        self._vault.edit(run)
        self._index_step(EDIT, states)
        self._vault.rename(run)
        self._index_step(RENAME, states)
        self._cold_search_step(states)
        self._warm_search_step(states["ours"])
        for state in states.values():
            shutil.rmtree(state)

    def _fresh_state(self, tool: Tool, label: str) -> Path:
        state = self._scratch / f"{tool.name}-{label}"
        state.mkdir()
        return state

    def _index_step(self, step: str, states: Mapping[str, Path]) -> None:
        for tool in self._tools:
            self._measure(step, tool, tool.index, states[tool.name], check_index)

    def _cold_search_step(self, states: Mapping[str, Path]) -> None:
        for tool in self._tools:
            if tool.search:
                self._measure(SEARCH, tool, tool.search, states[tool.name], check_search)

    def _warm_search_step(self, state: Path) -> None:
        """Searches through the Python interface, in one process of this script's own Python."""
        script = Path(__file__).with_name("warm_search.py")
        arguments = [sys.executable, str(script), str(self._vault.path), str(state), self._query]
        _, output = run_child(arguments, dict(os.environ), self._scratch)
        answer = parse_object(output)
        self.seen.warm.append({name: float(str(answer[name])) for name in ("median_ms", "p95_ms")})

    def _measure(
        self,
        step: str,
        tool: Tool,
        template: Sequence[str],
        state: Path,
        check: Callable[[str, str, Measurements], None],
    ) -> None:
        """Run one step of one tool, record it, and check the report if it is ours."""
        arguments = fill(template, self._vault.path, state, self._query)
        sample, output = run_child(arguments, environment(tool, state), self._scratch)
        self.seen.add(step, tool, sample)
        # The reports of a peer are its own affair; only its exit code is looked at.
        if tool.name == "ours":
            check(step, output, self.seen)


def summary(values: Sequence[float]) -> dict[str, float]:
    """Return the least and the median value."""
    return {"min": round(min(values), 4), "median": round(statistics.median(values), 4)}


def tool_summary(samples: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Summarise the samples of one tool in one step; the peak is that of the largest run."""
    return {
        "cpu_s": summary([sample.cpu for sample in samples]),
        "wall_s": summary([sample.wall for sample in samples]),
        "peak_mb": {"max": round(max(sample.peak for sample in samples), 1)},
    }


def median_ratio(ours: Sequence[float], peer: Sequence[float]) -> float | None:
    """Return the median of the ratios ours/peer of one run each; ``None`` without a base."""
    ratios = [a / b for a, b in zip(ours, peer, strict=True) if b > 0]
    return round(statistics.median(ratios), 3) if ratios else None


def step_summary(by_tool: Mapping[str, Sequence[Sample]]) -> dict[str, object]:
    """Summarise one step for every tool, with ratios where the peer took part."""
    result: dict[str, object] = {name: tool_summary(samples) for name, samples in by_tool.items()}
    if "peer" in by_tool:
        ours, peer = by_tool["ours"], by_tool["peer"]
        result["ratio"] = {
            "cpu": median_ratio([s.cpu for s in ours], [s.cpu for s in peer]),
            "wall": median_ratio([s.wall for s in ours], [s.wall for s in peer]),
            "peak": median_ratio([s.peak for s in ours], [s.peak for s in peer]),
        }
    return result


def report(seen: Measurements, runs: int, query: str) -> dict[str, object]:
    """Return the result as plain data for JSON."""
    return {
        "notes": seen.notes,
        "runs": runs,
        "query": query,
        "hits": seen.hits,
        "steps": {step: step_summary(by_tool) for step, by_tool in seen.samples.items()},
        "sidecar_mb": {name: summary(sizes) for name, sizes in seen.sidecar.items()},
        "warm_search": seen.warm,
        "peak_floor_mb": round(peak_floor(), 1),
        "failures": list(dict.fromkeys(seen.failures)),
    }


def table_row(step: str, name: str, samples: Sequence[Sample], ratio: str) -> str:
    """Return one line of the table."""
    cpu = [sample.cpu for sample in samples]
    wall = [sample.wall for sample in samples]
    peak = max(sample.peak for sample in samples)
    return (
        f"{step:16} {name:5} {min(cpu):8.3f} {statistics.median(cpu):8.3f}"
        f" {min(wall):8.3f} {statistics.median(wall):8.3f} {peak:8.1f} {ratio:>9}"
    )


def table_rows(seen: Measurements) -> Iterator[str]:
    """Yield the lines of the table, the ratio of CPU seconds on our tool's line."""
    for step, by_tool in seen.samples.items():
        peer = by_tool.get("peer")
        for name, samples in by_tool.items():
            ratio = None
            if peer is not None and name == "ours":
                ratio = median_ratio([s.cpu for s in samples], [s.cpu for s in peer])
            yield table_row(step, name, samples, "" if ratio is None else f"{ratio:.3f}")


def table(seen: Measurements, runs: int) -> str:
    """Return the result as text for people."""
    lines = [
        f"{seen.notes} notes, {runs} runs; seconds; MB = 10^6 bytes; ratio of CPU ours/peer",
        f"{'step':16} {'tool':5} {'cpu min':>8} {'cpu med':>8}"
        f" {'wall min':>8} {'wall med':>8} {'peak MB':>8} {'cpu ratio':>9}",
        *table_rows(seen),
    ]
    for name, sizes in seen.sidecar.items():
        lines.append(f"sidecar of {name} after the cold index: {statistics.median(sizes):.2f} MB")
    lines.append(f"hits of the cold search: {seen.hits}")
    for figure in ("median_ms", "p95_ms"):
        value = statistics.median(warm[figure] for warm in seen.warm)
        lines.append(f"warm search of ours, {figure} of CPU: {value:.2f}")
    lines.append(f"peaks below {peak_floor():.1f} MB are upper bounds")
    return "\n".join(lines)


def stop(signum: int, frame: FrameType | None) -> NoReturn:
    """End on a termination signal as on Ctrl-C, so that the temporary folder is removed."""
    raise KeyboardInterrupt


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder that is gone afterwards, also after Ctrl-C, SIGTERM and SIGHUP."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    path = Path(tempfile.mkdtemp(prefix="vaultmem-costs-")).resolve()
    try:
        yield path
    finally:
        # A second, impatient Ctrl-C would leave half of the copy behind.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        shutil.rmtree(path)


def measure(source: Path, tools: Sequence[Tool], query: str, runs: int) -> Measurements:
    """Measure the tools on a copy of the vault. ``CostsError`` if that cannot be done."""
    with temporary_folder() as scratch:
        copy = scratch / "vault"
        # Modification times are kept. Version control is not part of the vault and may be large.
        shutil.copytree(source, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        bench = Bench(tools, Vault(copy, runs), scratch, query)
        bench.warm_up()
        for run in range(runs):
            bench.run(run)
        return bench.seen


def positive(text: str) -> int:
    """Parse a positive integer. ``ValueError`` otherwise, which argparse reports."""
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line. Exits with code 2 on a usage error, as argparse does."""
    parser = argparse.ArgumentParser(description="Measure the command line of vaultmem.")
    parser.add_argument("vault", type=Path, help="vault to copy and measure on; not written to")
    parser.add_argument("--command", default="vaultmem", help="how to start our tool")
    parser.add_argument("--peer", help="index command of a peer; {vault} is filled in")
    parser.add_argument("--peer-search", help="its search command; {vault}, {query} filled in")
    parser.add_argument("--runs", type=positive, default=3, help="how often each step is run")
    parser.add_argument("--query", default="sync vault devices", help="what to search for")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    if options.peer_search and not options.peer:
        parser.error("--peer-search needs --peer")
    if not options.vault.is_dir():
        parser.error(f"{options.vault} is not a folder")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns 0; 1 if a count does not hold (the figures are printed all the same); 2 if the
    measurement cannot be made; 130 after Ctrl-C.
    """
    options = parse_arguments(arguments)
    tools = [our_tool(options.command)]
    if options.peer:
        tools.append(peer_tool(options.peer, options.peer_search))
    try:
        seen = measure(options.vault, tools, options.query, options.runs)
    except (CostsError, OSError) as error:
        sys.stderr.write(f"costs: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("costs: interrupted\n")
        return 130
    if options.json:
        print(json.dumps(report(seen, options.runs, options.query), indent=2))
    else:
        print(table(seen, options.runs))
    for failure in dict.fromkeys(seen.failures):
        sys.stderr.write(f"CHECK FAILED: {failure}\n")
    return 1 if seen.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
