"""Measure search on labelled sets.

    python tests/benchmark/retrieval.py --data DIR --sets locomo,xquad-zh,promdocs
    python tests/benchmark/retrieval.py --data DIR --sets locomo --mode keyword,semantic,hybrid
    python tests/benchmark/retrieval.py --longmemeval FILE.json --hotpotqa FILE.json
    python tests/benchmark/retrieval.py --questions FILE.jsonl VAULT --searcher bm25
    python tests/benchmark/retrieval.py --compare before.json after.json

Each set is written as vaults into a temporary folder, indexed and embedded, asked and removed;
with --work the vaults and caches stay, and the next run embeds nothing. Several modes are asked
of one index, query by query, and compared. Figures are means over queries; "even" and "odd" are
the halves by the query's place in its part, from 0 (tune on even, report odd). Results go to
stdout, progress to stderr. Exit code 2 for wrong usage, missing data or a search that ended with
an error. Needs vaultmem installed, whose own measures these are.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from retrieval_published import hotpotqa, longmemeval
from retrieval_reports import (
    TYPO,
    Changes,
    Report,
    Row,
    UsageError,
    changes_json,
    changes_table,
    compare,
    load,
    save,
    side_by_side,
    summary,
    table,
    ways_table,
)
from retrieval_searchers import (
    Answer,
    Bm25,
    Opener,
    Searcher,
    SearchError,
    Way,
    cli_opener,
    open_bm25,
    python_opener,
)
from retrieval_sets import SETS, DataError, Part, Query, Task, questions, with_typos

from vaultmem.retrieval.metrics import DEPTH, measured

# A unit longer than a passage gives several hits, so more are asked for than places count.
PASSAGE_LIMIT = 4 * DEPTH
QUESTIONS = "questions"
BASELINE = "questions (whole-note BM25)"
LONGMEMEVAL = "longmemeval-s"
HOTPOTQA = "hotpotqa"
MODES = ("hybrid", "keyword", "semantic", "graph")


# Running.


def run_set(
    name: str,
    parts: Iterable[Part],
    opener: Opener,
    *,
    ways: Sequence[Way],
    folder: Path,
    keep: bool,
    typo: bool,
) -> list[Report]:
    """Reports of a set: one a task and way, each followed by the one with typing errors if asked.

    On questions about real vaults, a whole-note BM25 report follows for comparison.
    """
    reports: dict[str, Report] = {}
    total = f"/{len(parts)}" if isinstance(parts, Sized) else ""
    for number, part in enumerate(parts, 1):
        print(f"{name} {part.name} ({number}{total})", file=sys.stderr)
        place = folder / name / part.name
        write_vault(part.files, place / "vault")
        with opener(place / "vault", place / "cache") as searcher:
            for way in ways:
                run_part(name, part, Asked(searcher, way), reports=reports, typo=typo)
        if name == QUESTIONS and opener is not open_bm25:
            run_part(BASELINE, part, Asked(Bm25(part.files), Way("")), reports=reports, typo=typo)
        if not keep:
            shutil.rmtree(place)
    return list(reports.values())


@dataclass(slots=True)
class Asked:
    """A searcher asked in one way. Each question is asked once, however many tasks have it."""

    searcher: Searcher
    way: Way
    _answers: dict[tuple[str, bool], tuple[Answer, float]] = field(default_factory=dict)

    def answer(self, query: Query, task: Task) -> tuple[Answer, float]:
        """The answer, deep enough for every measure, and the milliseconds it took."""
        asked = (query.text, task.passages)
        if asked not in self._answers:
            limit = PASSAGE_LIMIT if task.passages else DEPTH
            start = time.perf_counter()
            answer = self.searcher.search(query.text, limit, task.passages, self.way)
            self._answers[asked] = answer, (time.perf_counter() - start) * 1000
        return self._answers[asked]


def run_part(
    name: str, part: Part, asked: Asked, *, reports: dict[str, Report], typo: bool
) -> None:
    """Ask the queries of a part's tasks and add their figures to `reports`.

    A report is titled by `name` and its task, with TYPO behind for the misspelt queries.
    """

    def report_of(title: str, task: Task) -> Report:
        report = Report(title, task.measures, asked.way.name)
        return reports.setdefault(report.name, report)

    for task in part.tasks:
        title = f"{name} {task.name}".strip()
        run_task(task, part, asked, report_of(title, task))
        if typo:
            misspelt = report_of(title + TYPO, task)
            wrong = with_typos(task)
            pairs = zip(task.queries, wrong.queries, strict=True)
            misspelt.changed += sum(query.text != other.text for query, other in pairs)
            run_task(wrong, part, asked, misspelt)


def run_task(task: Task, part: Part, asked: Asked, report: Report) -> None:
    """Ask the queries of one task and append their figures to `report`."""
    for place, query in enumerate(task.queries, part.start):
        answer, took = asked.answer(query, task)
        report.search_ms.append(took)
        if answer.instead:
            report.instead.append(answer.instead)
        found = ranking(answer, task)
        if task.judge is not None:
            values = task.judge(query, found)
        else:
            values = measured(found, query.relevant, names=task.measures)
        report.rows.append(Row(f"{part.name}:{place}", query.groups, values))


def ranking(answer: Answer, task: Task) -> list[str]:
    """Distinct keys of the hits, best first; a key counts where it is first found."""
    return list(dict.fromkeys(task.key(hit) for hit in answer.hits))


def write_vault(files: Mapping[str, str], vault: Path) -> None:
    """Write the notes below `vault`, leaving files that are equal already.

    Raises UsageError if the folder holds a note that is not of this set: such a note would
    change the figures, and deleting what somebody put there is not for a benchmark to do.
    """
    expected = {vault / path for path in files}
    strange = sorted(set(vault.rglob("*.md")) - expected)
    if strange:
        raise UsageError(f"{strange[0]} is not of this set. Remove it or name another --work.")
    vault.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        file = vault / path
        content = text.encode("utf-8")
        if not file.is_file() or file.read_bytes() != content:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


@contextmanager
def work_folder(kept: Path | None) -> Iterator[Path]:
    """The folder for vaults and caches: `kept`, or a temporary one that is removed."""
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="vaultmem-benchmark-") as name:
        yield Path(name)


def first_queries(parts: Iterable[Part], count: int) -> Iterator[Part]:
    """The parts with at most `count` queries a task, and of a numbered set the first `count`."""
    for part in parts:
        if part.start >= count:
            return
        left = count - part.start
        yield replace(
            part, tasks=tuple(replace(task, queries=task.queries[:left]) for task in part.tasks)
        )


# Command line.


@dataclass(slots=True)
class Arguments(argparse.Namespace):
    """The command line, parsed."""

    data: Path | None = None
    sets: str = ""
    questions: list[list[Path]] = field(default_factory=list)
    longmemeval: Path | None = None
    hotpotqa: Path | None = None
    mode: str = ""
    without: list[str] = field(default_factory=list)
    embedder: str | None = None
    typo: bool = False
    searcher: str = "python"
    command: str = "vaultmem"
    first: int | None = None
    work: Path | None = None
    save: Path | None = None
    compare: list[Path] | None = None
    json: bool = False


SEARCHERS = ("python", "cli", "bm25")


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    parser = argparse.ArgumentParser(description="Measure search on labelled sets.")
    add = parser.add_argument
    add("--data", type=Path, metavar="DIR", help="folder of the data files")
    add("--sets", default="", help="comma-separated: " + ", ".join(SETS))
    add(
        "--questions",
        nargs=2,
        type=Path,
        action="append",
        default=[],
        metavar=("FILE", "VAULT"),
        help="questions on a real vault, copied first; may be repeated",
    )
    add("--longmemeval", type=Path, metavar="FILE", help="longmemeval_s_cleaned.json")
    add("--hotpotqa", type=Path, metavar="FILE", help="hotpot_dev_distractor_v1.json")
    add("--mode", default="", help="comma-separated, side by side: " + ", ".join(MODES))
    add(
        "--without",
        action="append",
        default=[],
        metavar="CHANNEL",
        help="also with this channel left out (passage, window, note, vector; several with +); "
        "may be repeated",
    )
    add(
        "--embedder",
        metavar="NAME",
        help="what makes vectors; none for words only (default: minilm, or none where every "
        "mode is keyword)",
    )
    add("--typo", action="store_true", help="also with one wrong letter a query")
    add("--searcher", choices=SEARCHERS, default="python")
    add("--command", default="vaultmem", help="what --searcher cli starts (default: vaultmem)")
    add("--first", type=int, metavar="N", help="only the first N queries of each part")
    add("--work", type=Path, metavar="DIR", help="keep vaults and caches here between runs")
    add("--save", type=Path, metavar="FILE", help="write the figures of every query")
    add("--compare", nargs=2, type=Path, metavar="RUN", help="second saved run minus the first")
    add("--json", action="store_true", help="JSON on stdout")
    return parser


def chosen_ways(arguments: Arguments) -> Sequence[Way]:
    """The ways of asking: each mode, and each mode with each channel left out.

    Raises UsageError for an unknown mode, and for BM25, which has one way only.
    """
    named = [mode for mode in arguments.mode.split(",") if mode]
    unknown = [mode for mode in named if mode not in MODES]
    if unknown:
        raise UsageError(f"There is no mode {unknown[0]}. There are: {', '.join(MODES)}.")
    if arguments.searcher == "bm25" and (named or arguments.without):
        raise UsageError("--searcher bm25 has no modes and no channels.")
    modes: list[str | None] = [*named] or [None]
    ways = []
    for mode in modes:
        ways.append(Way(mode or "all channels", mode))
        for channels in arguments.without:
            name = f"{mode} without {channels}" if mode else f"without {channels}"
            ways.append(Way(name, mode, tuple(channels.split("+"))))
    return ways if len(ways) > 1 else (replace(ways[0], name=""),)


def chosen_embedder(arguments: Arguments, ways: Sequence[Way]) -> str:
    """The embedder asked for; else the built-in one where any way uses vectors."""
    if arguments.embedder is not None:
        return str(arguments.embedder)
    return "none" if all(way.mode == "keyword" for way in ways) else "minilm"


def chosen_sets(arguments: Arguments) -> dict[str, Callable[[], Iterable[Part]]]:
    """Name -> what builds the parts of each set asked for.

    Raises UsageError for an unknown set, for sets without --data, and for nothing to do.
    """
    names = [name for name in arguments.sets.split(",") if name]
    unknown = [name for name in names if name not in SETS]
    if unknown:
        raise UsageError(f"There is no set {unknown[0]}. There are: {', '.join(SETS)}.")
    if names and arguments.data is None:
        raise UsageError("--sets needs --data DIR, the folder of the data files.")
    chosen: dict[str, Callable[[], Iterable[Part]]] = {}
    if arguments.data is not None:
        chosen = {name: partial(SETS[name], arguments.data) for name in names}
    if arguments.questions:
        pairs = [(file, vault) for file, vault in arguments.questions]
        chosen[QUESTIONS] = partial(questions, pairs)
    if arguments.longmemeval is not None:
        chosen[LONGMEMEVAL] = partial(longmemeval, arguments.longmemeval)
    if arguments.hotpotqa is not None:
        chosen[HOTPOTQA] = partial(hotpotqa, arguments.hotpotqa)
    if not chosen:
        raise UsageError(
            "Nothing to do: give --sets, --questions, --longmemeval, --hotpotqa or --compare."
        )
    return chosen


def evaluate(arguments: Arguments) -> list[Report]:
    """Run what the command line asks for; a text report is printed as soon as it is there."""
    ways = chosen_ways(arguments)
    embedder = chosen_embedder(arguments, ways)
    openers = {
        "python": python_opener(embedder),
        "cli": cli_opener(arguments.command, embedder),
        "bm25": open_bm25,
    }
    reports = []
    with work_folder(arguments.work) as folder:
        for name, build in chosen_sets(arguments).items():
            parts = build()
            if arguments.first is not None:
                parts = first_queries(parts, arguments.first)
            found = run_set(
                name,
                parts,
                openers[arguments.searcher],
                ways=ways,
                folder=folder,
                keep=arguments.work is not None,
                typo=arguments.typo,
            )
            if not arguments.json:
                print("\n\n".join(map(table, found)), end="\n\n", flush=True)
            reports += found
    return reports


def told(found: Mapping[str, Changes], *, as_json: bool) -> str:
    """Changes as they are printed."""
    if as_json:
        return json.dumps({name: changes_json(change) for name, change in found.items()}, indent=2)
    return "\n".join(changes_table(name, change) for name, change in found.items())


def main() -> int:
    """Exit code: 0 done, 2 if it could not be."""
    arguments = parser().parse_args(namespace=Arguments())
    try:
        if arguments.compare:
            first, second = arguments.compare
            print(told(compare(load(first), load(second)), as_json=arguments.json))
            return 0
        reports = evaluate(arguments)
        between = side_by_side(reports)
        if arguments.json:
            found = [summary(report) for report in reports]
            found += [
                {"name": name, "changes": changes_json(change)} for name, change in between.items()
            ]
            print(json.dumps(found, indent=2))
        elif between:
            print(ways_table(reports), told(between, as_json=False), sep="\n\n")
        if arguments.save is not None:
            save(reports, arguments.save, searcher=arguments.searcher)
    except (UsageError, DataError, SearchError) as problem:
        print(f"retrieval.py: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
