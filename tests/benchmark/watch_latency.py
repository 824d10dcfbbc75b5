"""Measure how soon `vaultmem watch` makes an edit searchable.

    python tests/benchmark/watch_latency.py VAULT --edits 500
    python tests/benchmark/watch_latency.py VAULT --edits 200 --vectors --cache CACHE_DIR

On a copy of the vault, which is indexed first, notes drawn by chance are edited one at a time at
random instants (exponential gaps), saved the six ways of editors: written in place; truncated,
then written in two parts 0.2 to 0.6 s apart; written beside and renamed; deleted and created;
renamed to `note.md~` and written anew; appended to. Each edit adds a made-up word at the note's
end. A process that keeps the index open looks for the words every 10 to 20 ms and leaves looking
at the vault to the watcher. A latency is from the end of the save (its last close or rename) to
the end of the first search that finds the note by the word; with --vectors also to that of the
first search by meaning that finds the passage with it, which has its vector then.

In the end the index has to equal one made anew. An edit that is not found within 10 s is one
never found, and a failure, unless the index made anew does not find it either (the note keeps its
end out of search).
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import dataclass

from watching import (
    SAVES,
    SPREAD_HEADER,
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
    reader,
    run,
    spread,
    spread_row,
    taken_in,
    watching,
    workplace,
)

from vaultmem.service.operations.search import SearchRequest, search

GAP_SECONDS = 0.4  # in the mean


@dataclass(frozen=True, slots=True)
class Edit:
    """A word saved in a note."""

    pattern: str
    path: str
    saved: float


def edit(
    place: Place, seeker: Child, paths: list[str], options: argparse.Namespace
) -> dict[str, Edit]:
    """Save at random and have the words looked for. Word -> its edit."""
    chance = random.Random(options.seed)
    edits: dict[str, Edit] = {}
    for number in range(options.edits):
        time.sleep(chance.expovariate(1 / GAP_SECONDS))
        pattern = options.patterns[number % len(options.patterns)]
        path, word = chance.choice(paths), made_up_word(chance)
        file = place.vault / path
        data = file.read_bytes() + f"\n\nSeen by the {word} near the mill today.\n".encode()
        saved = SAVES[pattern](file, data, chance)
        seeker.tell({"word": word, "path": path})
        edits[word] = Edit(pattern, path, saved)
    return edits


def measure(options: argparse.Namespace) -> Outcome:
    """Edit, look, compare."""
    with workplace(options) as place:
        place.index()
        memory = place.memory()
        paths = editable(place, memory)
        with watching(place) as watcher:
            flags = ("--vectors",) if options.vectors else ()
            with reader(place, "seek", *flags) as seeker:
                seeker.listen_until(lambda: bool(seeker.said("ready")), 60)
                before, batches = Usage.of(watcher.pid), len(watcher.said("batch"))
                edits = edit(place, seeker, paths, options)
                seeker.finish(60)
            settled = taken_in(watcher, memory, file_hashes(place.vault, paths))
            late = [] if settled else behind(memory, file_hashes(place.vault, paths))
            after = Usage.of(watcher.pid)
            batches = len(watcher.said("batch")) - batches
            code = watcher.stop()
        memory.close()
        wrong = differences(place)
        answers = {line.said["word"]: line.said for line in seeker.lines if "word" in line.said}
        lost = [word for word, said in answers.items() if _when(said, options.vectors) is None]
        hidden = [word for word in lost if not _findable(place, word, edits[word].path)]
    if answers.keys() != edits.keys():
        raise MeasureError(f"The reader told of {len(answers)} of {len(edits)} edits.")
    (searches,) = seeker.said("searches")
    failures = [
        f"never found: {edits[w].pattern}, {edits[w].path}" for w in lost if w not in hidden
    ]
    failures += [f"at the end not indexed as it is: {path}" for path in late[:5]]
    failures += [f"differs from an index made anew: {line}" for line in wrong]
    if code != 0:
        failures.append(f"the watcher ended with {code}: {watcher.complaint}")
    figures: dict[str, object] = {
        "notes": len(paths),
        "edits": len(edits),
        "latency": _latencies(edits, answers, "words"),
        "never_found": len(lost) - len(hidden),
        "kept_out_of_search": len(hidden),
        "batches": batches,
        "watcher_cpu_per_edit": round((after.cpu - before.cpu) / len(edits), 4),
        "watcher_resident_mb": round(after.resident, 1),
        "equals_rebuild": not wrong,
        "search_seconds": spread(searches.said["seconds"]["keyword"]),
    }
    if options.vectors:
        figures["latency_of_vectors"] = _latencies(edits, answers, "meaning")
        figures["semantic_search_seconds"] = spread(searches.said["seconds"]["semantic"])
    return Outcome(figures, _table(figures), failures)


def _when(said: dict[str, float | None], vectors: bool) -> float | None:
    return said["meaning" if vectors else "words"]


def _findable(place: Place, word: str, path: str) -> bool:
    """Whether the index made anew finds the word in its note."""
    memory = place.memory(place.scratch / "fresh")
    try:
        hits = search(memory, SearchRequest(f'"{word}"', mode="keyword")).hits
        return path in {hit.path for hit in hits}
    finally:
        memory.close()


def _latencies(
    edits: dict[str, Edit], answers: dict[str, dict[str, float | None]], channel: str
) -> dict[str, dict[str, float]]:
    """By pattern, and of all: percentiles of the seconds it took."""
    taken: dict[str, list[float]] = {"all": []}
    for word, made in edits.items():
        found = answers[word][channel]
        if found is not None:
            taken["all"].append(found - made.saved)
            taken.setdefault(made.pattern, []).append(found - made.saved)
    return {name: spread(seconds) for name, seconds in taken.items()}


def _table(figures: dict[str, object]) -> list[str]:
    lines = [f"{figures['notes']} notes, {figures['edits']} edits; seconds"]
    for name in ("latency", "latency_of_vectors"):
        rows = figures.get(name)
        if isinstance(rows, dict):
            lines += [name.replace("_", " "), SPREAD_HEADER]
            lines += [spread_row(pattern, row) for pattern, row in rows.items()]
    lines += ["searches of the reader", SPREAD_HEADER]
    for name in ("search_seconds", "semantic_search_seconds"):
        row = figures.get(name)
        if isinstance(row, dict):
            lines.append(spread_row(name.removesuffix("_seconds").replace("_", " "), row))
    lines += [
        f"{name.replace('_', ' ')}: {value}"
        for name, value in figures.items()
        if not isinstance(value, dict)
    ]
    return lines


def main() -> int:
    """Run the command."""
    parser = options_parser(__doc__)
    parser.add_argument("--edits", type=int, default=500)
    parser.add_argument(
        "--patterns",
        type=_patterns,
        default=list(SAVES),
        help=f"how notes are saved, in turn, separated by semicolons: {'; '.join(SAVES)}",
    )
    return run(measure, parser)


def _patterns(text: str) -> list[str]:
    names = [name.strip() for name in text.split(";")]
    for name in names:
        if name not in SAVES:
            raise argparse.ArgumentTypeError(f"there is no pattern {name!r}")
    return names


if __name__ == "__main__":
    sys.exit(main())
