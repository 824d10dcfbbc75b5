"""Measure how vaultmem's costs grow with a vault.

    python tests/benchmark/scale.py WORK_FOLDER --notes 1000 10000 100000
    python tests/benchmark/scale.py WORK_FOLDER --notes 100000 --vectors 300000 --verify

For each size a vault is made by ``generate_vault.py`` (and kept in WORK_FOLDER for the next run),
copied, and put through the life of an index: cold index, unchanged run, one edit, one rename, the
same edit and bursts of ten with `watch` running, `index --verify`, and searches in a process that
has the index open, by words and, with synthetic vectors, by words and vectors. Each command is a
process of its own, charged what ``os.wait4`` reports; a watcher is charged what ``/proc`` says.

Questions are drawn from the vault with a fixed seed: words of notes' titles; one word that few
notes hold, and one that many hold; two words of the middle; two common words and two rare ones;
sentences of six words. What is called common is among the hundred most frequent words that are no
stop words. Nothing is asked twice. Prints a table and one JSON line. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from watching import MEGABYTE, MeasureError, Place, Usage, furnished, watching

from vaultmem.index.lookup import Lookup
from vaultmem.retrieval.words import STOP_WORDS
from vaultmem.service.application import Memory
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.settings import find_sidecar_folder

SEED = 7
GENERATOR = Path(__file__).with_name("generate_vault.py")
ASK = "--ask"  # how the script starts itself to search
WATCHED_EDITS = 20


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process took."""

    cpu: float  # seconds, user and system
    wall: float  # seconds
    peak: float  # resident set, 10^6 bytes


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--notes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--searches", type=int, default=100, help="of each kind")
    parser.add_argument("--vectors", type=int, default=0, help="synthetic ones, for hybrid search")
    parser.add_argument("--verify", action="store_true", help="measure index --verify as well")
    parser.add_argument(ASK, dest="ask", nargs=2, metavar=("VAULT", "CACHE"), help="internal")
    options = parser.parse_args()
    if options.ask is not None:
        vault, cache = map(Path, options.ask)
        print(json.dumps(ask_all(vault, cache, options.searches, options.vectors)))
        return 0
    options.work.mkdir(parents=True, exist_ok=True)
    measured = {}
    for notes in options.notes:
        with tempfile.TemporaryDirectory(prefix="vaultmem-scale-") as scratch:
            place = furnished(Path(scratch).resolve(), generated(options.work, notes))
            measured[notes] = measure(place, options)
    print_table(measured)
    print(json.dumps(measured))
    return 0


def generated(work: Path, notes: int) -> Path:
    """The generated vault of that many notes, made where it is not there yet."""
    vault: Path = work / f"v{notes}"
    if not vault.exists():
        command = [sys.executable, str(GENERATOR), str(vault), "--notes", str(notes)]
        subprocess.run([*command, "--seed", str(SEED)], check=True, stdout=subprocess.DEVNULL)
    return vault


def measure(place: Place, options: argparse.Namespace) -> dict[str, float]:
    """The life of one index; figure -> value."""
    figures: dict[str, float] = {}
    total = sum(path.stat().st_size for path in place.vault.rglob("*.md"))
    figures["vault_mb"] = total / MEGABYTE
    peaks: list[float] = []

    def run(name: str, *arguments: str) -> Cost:
        cost = charged(place.command(*arguments), place.environment)
        print(f"{name}: {cost.cpu:.2f} CPU s, {cost.peak:.0f} MB", file=sys.stderr)
        peaks.append(cost.peak)
        return cost

    cold = run("cold index", "index", "--no-embed")
    notes = sum(1 for _ in place.vault.rglob("*.md"))
    figures |= {"cold_cpu": cold.cpu, "cold_ms_per_note": cold.cpu / notes * 1000}
    figures["sidecar_mb"] = size_of(place) / MEGABYTE
    run("settling", "index", "--no-embed")
    unchanged = [run("unchanged", "index", "--no-embed").cpu for _ in range(3)]
    figures["unchanged_cpu"] = statistics.median(unchanged)
    chosen = random.Random(SEED).sample(sorted(place.vault.rglob("*.md")), WATCHED_EDITS + 20)
    edits = []
    for path in chosen[:3]:
        append(path)
        edits.append(run("one edit", "index", "--no-embed").cpu)
    figures["edit_cpu"] = statistics.median(edits)
    figures["edit_beyond_scan_cpu"] = figures["edit_cpu"] - figures["unchanged_cpu"]
    chosen[3].rename(chosen[3].with_name("Renamed by the benchmark.md"))
    figures["rename_cpu"] = run("one rename", "index", "--no-embed").cpu
    figures |= watched(place, chosen[4 : 4 + WATCHED_EDITS])
    if options.verify:
        verify = run("verify", "index", "--no-embed", "--verify")
        figures |= {"verify_cpu": verify.cpu, "verify_wall": verify.wall}
    cold_search = run("cold search", "search", "sync vault devices", "--mode", "keyword")
    figures |= {"cold_search_cpu": cold_search.cpu}
    asked, cost = replied(
        [
            *(sys.executable, __file__, str(options.work), ASK, str(place.vault), str(place.cache)),
            *("--searches", str(options.searches), "--vectors", str(options.vectors)),
        ],
        place.environment | {"VAULTMEM_SEARCH_REFRESH": "never"},
    )
    peaks.append(cost.peak)
    figures |= asked
    figures["peak_mb"] = max(peaks)
    return {name: round(value, 4) for name, value in figures.items()}


def watched(place: Place, paths: Sequence[Path]) -> dict[str, float]:
    """What a watcher spends on an edit, the edits being apart from each other."""
    with watching(place) as watcher:
        before = Usage.of(watcher.pid).cpu
        for path in paths:
            known = len(watcher.said("batch"))
            append(path)
            if not watcher.listen_until(partial(more_than, watcher.said, known), 60):
                raise MeasureError(f"The watcher did not hear of {path}.")
        used = Usage.of(watcher.pid)
        watcher.stop()
    return {"watched_edit_cpu": (used.cpu - before) / len(paths), "watcher_mb": used.resident}


def more_than(said: Callable[[str], Sequence[object]], known: int) -> bool:
    """Whether another batch was told of."""
    return len(said("batch")) > known


def append(path: Path) -> None:
    """Edit a note at its end."""
    with path.open("a", encoding="utf-8") as stream:
        stream.write("\nA line appended by the benchmark.\n")


def size_of(place: Place) -> int:
    """Bytes of the sidecar's folder."""
    folder, _ = find_sidecar_folder(place.vault, place.cache, {})
    return sum(path.stat().st_size for path in folder.iterdir())


def charged(command: Sequence[str], environment: dict[str, str]) -> Cost:
    """Run a command to its end; its standard output is thrown away."""
    return replied(command, environment)[1]


def replied(command: Sequence[str], environment: dict[str, str]) -> tuple[dict[str, Any], Cost]:
    """Run a command to its end; the JSON of its last line, if it is any, and what it cost."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, env=environment, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise MeasureError(f"{command} ended with {process.returncode}.")
        output.seek(0)
        lines = output.read().decode("utf-8").strip().split("\n")
    cpu = usage.ru_utime + usage.ru_stime
    cost = Cost(cpu, time.monotonic() - started, usage.ru_maxrss * 1024 / MEGABYTE)
    return (json.loads(lines[-1]) if lines[-1].startswith("{") else {}), cost


# Searches, in a process of their own


def ask_all(vault: Path, cache: Path, searches: int, vectors: int) -> dict[str, float]:
    """Milliseconds of searches by kind: figure -> value."""
    from warm_hybrid import open_warm, put_vectors

    memory = open_warm(vault, cache)
    found: dict[str, float] = {}
    try:
        assert memory.open_sidecar() is not None
        kinds = questions(memory, searches)
        for kind, texts in kinds.items():
            found |= timed(f"keyword {kind}", texts, partial(asked, memory, "keyword"))
        if vectors:
            found["vectors"] = put_vectors(memory, most=vectors)
            some = kinds["title words"][: searches // 2] + kinds["common and rare"][: searches // 2]
            for name, filters in (
                ("unfiltered", ""),
                ("path", " path:Projects"),
                ("tag", " tag:" + frequent_tag(memory)),
                ("date", " after:2022-01-01"),
            ):
                texts = [text + filters for text in some]
                found |= timed(f"hybrid {name}", texts, partial(asked, memory, "hybrid"))
    finally:
        memory.close()
    return found


def asked(memory: Memory, mode: str, text: str) -> None:
    """One search."""
    search(memory, SearchRequest(text, mode=mode))


def frequent_tag(memory: Memory) -> str:
    """The tag that most notes have."""
    assert memory.sidecar is not None
    statement = "SELECT folded FROM tag GROUP BY folded ORDER BY count(*) DESC, folded LIMIT 1"
    return str(memory.sidecar.connection.execute(statement).get)


def questions(memory: Memory, count: int) -> dict[str, list[str]]:
    """Questions by kind, the same ones for the same vault."""
    assert memory.sidecar is not None
    lookup = Lookup(memory.sidecar)
    chance = random.Random(SEED)
    titles = [
        str(title)
        for (title,) in memory.sidecar.connection.execute("SELECT title FROM note ORDER BY path")
    ]
    words = list(frequent_words(memory))
    notes = lookup.note_count()
    common, middle = words[:100], words[100:2000]
    rare = [word for word in words[2000:] if len(word) > 5] or middle

    def drawn(make: Callable[[], str]) -> list[str]:
        return [make() for _ in range(count + 1)]

    assert notes
    return {
        "title words": drawn(lambda: " ".join(chance.choice(titles).split()[:3])),
        "one rare word": drawn(lambda: chance.choice(rare)),
        "one common word": drawn(lambda: chance.choice(common)),
        "two words": drawn(lambda: " ".join(chance.sample(middle, 2))),
        "common and rare": drawn(
            lambda: " ".join([*chance.sample(common, 2), *chance.sample(rare, 2)])
        ),
        "sentence": drawn(
            lambda: (
                f"how do we {' '.join(chance.sample(common, 2))} with the "
                f"{' '.join(chance.sample(middle, 3))} and {chance.choice(rare)} this week?"
            )
        ),
    }


def frequent_words(memory: Memory) -> Iterator[str]:
    """Words as they stand in notes, the most frequent first, without stop words.

    The index's own terms are stems, which nobody types.
    """
    assert memory.sidecar is not None
    counts: dict[str, int] = {}
    step = max(1, Lookup(memory.sidecar).chunk_count() // 20_000)
    for (text,) in memory.sidecar.connection.execute(
        "SELECT text FROM chunk WHERE id % ? = 0", (step,)
    ):
        for word in {word.lower() for word in str(text).split() if word.isalpha()}:
            counts[word] = counts.get(word, 0) + 1
    kept = [
        word for word, n in counts.items() if len(word) > 3 and word not in STOP_WORDS and n > 1
    ]
    yield from sorted(kept, key=lambda word: (-counts[word], word))


def timed(name: str, texts: Sequence[str], run: Callable[[str], None]) -> dict[str, float]:
    """Milliseconds of one call, CPU and wall, at the median and the 95th percentile."""
    run(texts[0])
    cpu: list[float] = []
    wall: list[float] = []
    for text in texts[1:]:
        cpu_before, wall_before = time.process_time(), time.perf_counter()
        run(text)
        cpu.append((time.process_time() - cpu_before) * 1000)
        wall.append((time.perf_counter() - wall_before) * 1000)
    return {
        f"{name}: {unit} {share}": sorted(values)[int(len(values) * part)]
        for unit, values in (("cpu", cpu), ("wall", wall))
        for share, part in (("p50", 0.5), ("p95", 0.95))
    }


def print_table(measured: dict[int, dict[str, float]]) -> None:
    """The figures, a column for each size."""
    names = list(dict.fromkeys(name for figures in measured.values() for name in figures))
    print(f"{'':44}" + "".join(f"{notes:>12,}" for notes in measured))
    for name in names:
        values = (figures.get(name) for figures in measured.values())
        print(f"{name:44}" + "".join(f"{'' if v is None else f'{v:.3f}':>12}" for v in values))


if __name__ == "__main__":
    sys.exit(main())
