"""Measure how `vaultmem watch` takes a change of branch.

    python tests/benchmark/watch_burst.py VAULT --notes 3000

A copy of the vault becomes a git repository with a second branch in which so many notes, drawn by
chance, differ. The vault is indexed and watched, then the second branch is checked out, and after
that the first one again. Printed for each way: how many batches the watcher needed, seconds from
the end of the checkout to the last batch that took notes in, and the watcher's CPU seconds. In the
end of each way every changed note has to be indexed as it is, and at the very end the index has to
equal one made anew.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time

from watching import (
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
    taken_in,
    watching,
    workplace,
)

from vaultmem.service.application import Memory

QUIET_SECONDS = 3.0  # without a batch: it has settled
WORK = ("added", "changed", "renamed", "removed")


def git(place: Place, *arguments: str) -> str:
    """Run git in the vault, by its defaults. MeasureError when it fails."""
    named = ("-c", "user.name=vaultmem", "-c", "user.email=vaultmem@localhost", "-c", "gc.auto=0")
    nothing = os.devnull
    ended = subprocess.run(
        ["git", *named, *arguments],
        cwd=place.vault,
        env={**os.environ, "GIT_CONFIG_GLOBAL": nothing, "GIT_CONFIG_SYSTEM": nothing},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if ended.returncode != 0:
        raise MeasureError(f"git {arguments[0]} failed: {ended.stderr.strip()[-300:]}")
    return ended.stdout


def make_branches(place: Place, options: argparse.Namespace, notes: list[str]) -> list[str]:
    """Commit the vault as `one`, and as `two` with some of the notes changed; which ones."""
    chance = random.Random(options.seed)
    git(place, "init", "--quiet", "--initial-branch=one")
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "--message=one")
    git(place, "checkout", "--quiet", "-b", "two")
    tracked = set(git(place, "ls-files", "-z").split("\0"))
    known = [path for path in notes if path in tracked]
    chosen = sorted(chance.sample(known, min(options.notes, len(known))))
    for path in chosen:
        with (place.vault / path).open("ab") as stream:
            stream.write(f"\n\nThe {made_up_word(chance)} is on the second branch.\n".encode())
    git(place, "commit", "--quiet", "--all", "--message=two")
    git(place, "checkout", "--quiet", "one")
    return chosen


def check_out(
    place: Place, watcher: Child, memory: Memory, branch: str, chosen: list[str]
) -> tuple[dict[str, float], list[str]]:
    """Check a branch out and wait until the watcher has settled: figures, and what is wrong."""
    before, known = Usage.of(watcher.pid), len(watcher.lines)
    began = time.monotonic()
    git(place, "checkout", "--quiet", branch)
    ended = time.monotonic()
    expected = file_hashes(place.vault, chosen)
    failures = []
    if not taken_in(watcher, memory, expected, 300):
        late = behind(memory, expected)
        failures.append(f"{branch}: {len(late)} notes are not indexed as they are: {late[:3]}")
    while _speaks(watcher):
        pass
    batches = watcher.said("batch", known)
    worked = [line.at for line in batches if any(line.said["notes"][name] for name in WORK)]
    if not worked:
        failures.append(f"{branch}: the watcher told of no notes taken in")
    figures: dict[str, float] = {
        "checkout_seconds": round(ended - began, 3),
        "seconds_until_complete": round(max(worked, default=ended) - ended, 3),
        "batches": len(batches),
        "notes_taken_in": sum(line.said["notes"][n] for line in batches for n in WORK),
        "watcher_cpu": round(Usage.of(watcher.pid).cpu - before.cpu, 2),
    }
    return figures, failures


def _speaks(watcher: Child) -> bool:
    """Whether it says anything before it has been quiet for a while."""
    heard = len(watcher.lines)
    return watcher.listen_until(lambda: len(watcher.lines) > heard, QUIET_SECONDS)


def measure(options: argparse.Namespace) -> Outcome:
    """Check out there and back."""
    figures: dict[str, object] = {}
    lines, failures = [], []
    with workplace(options) as place:
        place.index()
        memory = place.memory()
        chosen = make_branches(place, options, editable(place, memory))
        figures["notes_that_differ"] = len(chosen)
        with watching(place) as watcher:
            for branch in ("two", "one"):
                figures[branch], amiss = check_out(place, watcher, memory, branch, chosen)
                failures += amiss
            code = watcher.stop()
        memory.close()
        wrong = differences(place)
    failures += [f"differs from an index made anew: {line}" for line in wrong]
    if code != 0:
        failures.append(f"the watcher ended with {code}: {watcher.complaint}")
    figures["equals_rebuild"] = not wrong
    for name, row in figures.items():
        cells = row.items() if isinstance(row, dict) else ()
        shown = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in cells) or row
        lines.append(f"{name.replace('_', ' ')}: {shown}")
    return Outcome(figures, lines, failures)


def main() -> int:
    """Run the command."""
    parser = options_parser(__doc__)
    parser.add_argument("--notes", type=int, default=3000, help="how many differ")
    return run(measure, parser)


if __name__ == "__main__":
    sys.exit(main())
