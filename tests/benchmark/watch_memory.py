"""Measure whether `vaultmem watch` keeps its size over many edits.

    python tests/benchmark/watch_memory.py --notes 2000 --edits 20000

A generated vault (generate_vault.py) is indexed and watched. In each round some notes get another
last line of the same length; the next round begins when all of them are indexed as they are. The
watcher's resident set is read each 1,000 edits. It is flat when the mean of the last third of the
readings is within 5 % of the middle third's. At the end the index has to equal one made anew.
Linux only (``/proc``).
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from watching import (
    SAVES,
    Child,
    MeasureError,
    Outcome,
    Place,
    Usage,
    behind,
    differences,
    editable,
    file_hashes,
    made_up_word,
    options_parser,
    run,
    slope,
    taken_in,
    watching,
    workplace,
)

from vaultmem.service.application import Memory

GENERATOR = Path(__file__).with_name("generate_vault.py")
FLAT = 0.05
LINE = "\n\nSeen by the {word} near the mill today.\n"
# Those that do not pause: as fast as the watcher follows.
QUICK = ("in place", "temporary, rename", "delete, create", "backup, write")


def edit_all(
    place: Place, watcher: Child, memory: Memory, options: argparse.Namespace
) -> list[tuple[float, float]]:
    """Edit in rounds. (edits so far, resident set in 10^6 bytes) now and then."""
    chance = random.Random(options.seed)
    notes = editable(place, memory)
    texts = {path: (place.vault / path).read_bytes() for path in notes}
    readings: list[tuple[float, float]] = []
    done, due = 0, 0
    while done < options.edits:
        chosen = chance.sample(notes, min(options.round, len(notes), options.edits - done))
        for path in chosen:
            line = LINE.format(word=made_up_word(chance)).encode()
            SAVES[QUICK[done % len(QUICK)]](place.vault / path, texts[path] + line, chance)
            done += 1
        expected = file_hashes(place.vault, chosen)
        if not taken_in(watcher, memory, expected):
            late = behind(memory, expected)
            raise MeasureError(f"After {done} edits {len(late)} notes are not indexed: {late[:3]}")
        if done >= due:
            readings.append((done, Usage.of(watcher.pid).resident))
            due += options.every
    return readings


def measure(options: argparse.Namespace) -> Outcome:
    """Edit and read the watcher's size."""
    with tempfile.TemporaryDirectory(prefix="vaultmem-generated-") as folder:
        source = Path(folder) / "vault"
        size = ("--notes", str(options.notes), "--seed", str(options.seed))
        subprocess.run(
            [sys.executable, str(GENERATOR), str(source), *size],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        with workplace(options, source) as place:
            place.index()
            memory = place.memory()
            with watching(place) as watcher:
                began, before = time.monotonic(), Usage.of(watcher.pid)
                readings = edit_all(place, watcher, memory, options)
                took, after = time.monotonic() - began, Usage.of(watcher.pid)
                code = watcher.stop()
            memory.close()
            wrong = differences(place)
    third = len(readings) // 3
    if not third:
        raise MeasureError(
            f"{len(readings)} readings are too few; take more edits, or --every less."
        )
    middle, last = (
        statistics.fmean(resident for _, resident in part)
        for part in (readings[-2 * third : -third], readings[-third:])
    )
    flat = abs(last - middle) <= FLAT * middle
    failures = [f"differs from an index made anew: {line}" for line in wrong]
    if not flat:
        failures.append(f"not flat: {middle:.1f} MB in the middle third, {last:.1f} in the last")
    if code != 0:
        failures.append(f"the watcher ended with {code}: {watcher.complaint}")
    figures: dict[str, object] = {
        "edits": options.edits,
        "edits_per_second": round(options.edits / took, 1),
        "watcher_cpu_per_edit": round((after.cpu - before.cpu) / options.edits, 5),
        "resident_mb": {f"{edits:.0f}": round(size, 1) for edits, size in readings},
        "middle_third_mb": round(middle, 2),
        "last_third_mb": round(last, 2),
        "kb_per_1000_edits": round(slope(readings[third:]) * 1e6, 1),
        "flat": flat,
        "equals_rebuild": not wrong,
    }
    lines = [f"{name.replace('_', ' ')}: {value}" for name, value in figures.items()]
    return Outcome(figures, lines, failures)


def main() -> int:
    """Run the command."""
    parser = options_parser(__doc__, vault=False)
    parser.add_argument("--notes", type=int, default=2000, help="of the generated vault")
    parser.add_argument("--edits", type=int, default=20_000)
    parser.add_argument(
        "--round", type=int, default=100, help="edits before the watcher is waited for"
    )
    parser.add_argument("--every", type=int, default=1000, help="edits between two readings")
    return run(measure, parser)


if __name__ == "__main__":
    sys.exit(main())
