"""Measure what `vaultmem watch` costs while nothing happens.

    python tests/benchmark/watch_idle.py VAULT --minutes 5

On a copy of the vault, which is indexed first. CPU seconds are those of the watcher's process
from its first instruction on; its start ends with its first run. Wake-ups are its voluntary
context switches. Linux only (``/proc``).
"""

from __future__ import annotations

import argparse
import sys
import time

from watching import Outcome, Usage, options_parser, run, watching, workplace


def measure(options: argparse.Namespace) -> Outcome:
    """Let it watch, and read what it used."""
    seconds = options.minutes * 60
    with workplace(options) as place:
        place.index()
        with watching(place) as watcher:
            began, started = time.monotonic(), Usage.of(watcher.pid)
            known = len(watcher.said("batch"))
            watcher.listen_until(lambda: False, seconds)
            took, ended = time.monotonic() - began, Usage.of(watcher.pid)
            batches = len(watcher.said("batch")) - known
            code = watcher.stop()
    failures = [f"the watcher ended with {code}: {watcher.complaint}"] if code != 0 else []
    if batches:
        failures.append(f"{batches} batches although nothing changed")
    figures: dict[str, float] = {
        "seconds": round(took, 1),
        "cpu_start": round(started.cpu, 3),
        "cpu_idle": round(ended.cpu - started.cpu, 3),
        "cpu_in_all": round(ended.cpu, 3),
        "resident_mb_start": round(started.resident, 1),
        "resident_mb_end": round(ended.resident, 1),
        "wake_ups_per_second": round((ended.waits - started.waits) / took, 2),
        "batches": batches,
    }
    lines = [f"{name.replace('_', ' ')}: {value}" for name, value in figures.items()]
    return Outcome(dict(figures), lines, failures)


def main() -> int:
    """Run the command."""
    parser = options_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    return run(measure, parser)


if __name__ == "__main__":
    sys.exit(main())
