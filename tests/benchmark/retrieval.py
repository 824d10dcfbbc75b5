"""Measure search on labelled sets.

    python tests/benchmark/retrieval.py --data DIR --sets locomo,xquad-zh,promdocs
    python tests/benchmark/retrieval.py --questions FILE.jsonl VAULT --searcher bm25
    python tests/benchmark/retrieval.py --compare before.json after.json

Each set is written as vaults into a temporary folder, indexed, asked and removed. Figures
are means over queries; "even" and "odd" are the halves by the query's place in its part,
from 0 (tune on even, report odd). Results go to stdout, progress to stderr. Exit code 2 for
wrong usage, missing data or a search that ended with an error.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from retrieval_metrics import (
    DEPTH,
    Difference,
    mean,
    measured,
    paired_differences,
    percentile,
)
from retrieval_searchers import (
    Bm25,
    Opener,
    Searcher,
    SearchError,
    cli_opener,
    open_bm25,
    open_python,
)
from retrieval_sets import SETS, DataError, Part, Query, Task, questions, with_typos

# A unit longer than a passage gives several hits, so more are asked for than places count.
PASSAGE_LIMIT = 4 * DEPTH
TYPO = " (typo)"
QUESTIONS = "questions"
BASELINE = "questions (whole-note BM25)"


class UsageError(Exception):
    """What was asked for cannot be done; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one query."""

    id: str  # "part:place in the part"; no text, which may not be passed on
    groups: tuple[str, ...]
    values: Mapping[str, float]  # measure -> figure

    @property
    def odd(self) -> bool:
        """Whether the place in the part is odd; the same with and without --first."""
        return int(self.id.rpartition(":")[2]) % 2 == 1


@dataclass(slots=True)
class Report:
    """The figures of one task over all parts of a set."""

    name: str
    measures: tuple[str, ...]
    rows: list[Row] = field(default_factory=list)  # in the order of the set
    search_ms: list[float] = field(default_factory=list)  # wall time of each search
    changed: int = 0  # queries that differ from the clean ones


# Running.


def run_set(
    name: str, parts: Sequence[Part], opener: Opener, *, folder: Path, typo: bool
) -> list[Report]:
    """Reports of a set, one a task, each followed by the one with typing errors if asked.

    On questions about real vaults, a whole-note BM25 report follows for comparison.
    """
    reports: dict[str, Report] = {}
    for number, part in enumerate(parts, 1):
        print(f"{name} {part.name} ({number}/{len(parts)})", file=sys.stderr)
        place = folder / name / part.name
        write_vault(part.files, place / "vault")
        with opener(place / "vault", place / "cache") as searcher:
            run_part(name, part, searcher, reports=reports, typo=typo)
        if name == QUESTIONS and opener is not open_bm25:
            run_part(BASELINE, part, Bm25(part.files), reports=reports, typo=typo)
    return list(reports.values())


def run_part(
    name: str, part: Part, searcher: Searcher, *, reports: dict[str, Report], typo: bool
) -> None:
    """Ask the queries of a part's tasks and add their figures to `reports`.

    A report is named by `name` and its task, with TYPO behind for the misspelt queries.
    """
    for task in part.tasks:
        title = f"{name} {task.name}".strip()
        run_task(task, part, searcher, reports.setdefault(title, Report(title, task.measures)))
        if typo:
            misspelt = reports.setdefault(title + TYPO, Report(title + TYPO, task.measures))
            wrong = with_typos(task)
            pairs = zip(task.queries, wrong.queries, strict=True)
            misspelt.changed += sum(query.text != other.text for query, other in pairs)
            run_task(wrong, part, searcher, misspelt)


def run_task(task: Task, part: Part, searcher: Searcher, report: Report) -> None:
    """Ask the queries of one task and append their figures to `report`."""
    for place, query in enumerate(task.queries):
        start = time.perf_counter()
        found = ranking(query, task, searcher)
        report.search_ms.append((time.perf_counter() - start) * 1000)
        values = measured(found, query.relevant, names=task.measures)
        report.rows.append(Row(f"{part.name}:{place}", query.groups, values))


def ranking(query: Query, task: Task, searcher: Searcher) -> list[str]:
    """Distinct keys of the hits, best first; a key counts where it is first found."""
    limit = PASSAGE_LIMIT if task.passages else DEPTH
    hits = searcher.search(query.text, limit, task.passages)
    return list(dict.fromkeys(task.key(hit) for hit in hits))


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


def first_queries(parts: Iterable[Part], count: int) -> list[Part]:
    """The parts with at most `count` queries a task."""
    return [
        replace(
            part,
            tasks=tuple(replace(task, queries=task.queries[:count]) for task in part.tasks),
        )
        for part in parts
    ]


# Reporting.


def subsets(rows: Sequence[Row]) -> dict[str, Sequence[Row]]:
    """Name -> rows: all, the halves by place, then each group in alphabetical order."""
    groups = sorted({group for row in rows for group in row.groups})
    return {
        "all": rows,
        "even": [row for row in rows if not row.odd],
        "odd": [row for row in rows if row.odd],
        **{group: [row for row in rows if group in row.groups] for group in groups},
    }


def summary(report: Report) -> dict[str, object]:
    """What --json prints of a report: means by subset, search times in milliseconds."""
    return {
        "name": report.name,
        "changed": report.changed,
        "search_ms": {
            "median": round(percentile(report.search_ms, 0.5), 3),
            "p95": round(percentile(report.search_ms, 0.95), 3),
        },
        "figures": {
            subset: {
                "n": len(rows),
                **{name: round(mean(column(rows, name)), 4) for name in report.measures},
            }
            for subset, rows in subsets(report.rows).items()
        },
    }


def column(rows: Iterable[Row], measure: str) -> list[float]:
    """One measure of every row."""
    return [row.values[measure] for row in rows]


def table(report: Report) -> str:
    """The report for people."""
    median, p95 = (percentile(report.search_ms, share) for share in (0.5, 0.95))
    changed = f", {report.changed} queries changed" if report.name.endswith(TYPO) else ""
    lines = [
        f"{report.name}: search {median:.1f} ms, p95 {p95:.1f} ms{changed}",
        f"  {'':24}{'n':>6}" + "".join(f"{name:>9}" for name in report.measures),
    ]
    for subset, rows in subsets(report.rows).items():
        figures = "".join(f"{mean(column(rows, name)):9.3f}" for name in report.measures)
        lines.append(f"  {subset:24}{len(rows):6}{figures}")
    return "\n".join(lines)


# Saved runs.


def save(reports: Iterable[Report], file: Path, *, searcher: str) -> None:
    """Write the figures of every query as JSON, for --compare."""
    run = {
        "searcher": searcher,
        "reports": [
            {
                "name": report.name,
                "measures": report.measures,
                "rows": [
                    {"id": row.id, "groups": row.groups, "values": row.values}
                    for row in report.rows
                ],
            }
            for report in reports
        ],
    }
    file.write_text(json.dumps(run) + "\n", "utf-8")


def load(file: Path) -> dict[str, Report]:
    """Name -> report of a saved run, without search times.

    Raises UsageError if the file is not one.
    """
    try:
        run = json.loads(file.read_text("utf-8"))
        return {
            report["name"]: Report(
                report["name"],
                tuple(report["measures"]),
                [
                    Row(row["id"], tuple(row["groups"]), dict(row["values"]))
                    for row in report["rows"]
                ],
            )
            for report in run["reports"]
        }
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise UsageError(f"{file} is not a run written by --save: {problem}") from problem


Comparison = dict[str, dict[str, tuple[int, dict[str, Difference]]]]


def compare(first: Mapping[str, Report], second: Mapping[str, Report]) -> Comparison:
    """Report name -> subset -> (number of queries, measure -> difference).

    Covers the reports and queries that both runs have, and the halves by place.
    """
    return {
        name: {
            subset: (len(pairs), _differences(pairs, report.measures))
            for subset, pairs in _halves(_paired(report, second[name])).items()
        }
        for name, report in first.items()
        if name in second
    }


Pairs = list[tuple[Row, Row]]


def _paired(first: Report, second: Report) -> Pairs:
    """Rows of equal id, in the order of the first run."""
    others = {row.id: row for row in second.rows}
    return [(row, others[row.id]) for row in first.rows if row.id in others]


def _halves(pairs: Pairs) -> dict[str, Pairs]:
    return {
        "all": pairs,
        "even": [pair for pair in pairs if not pair[0].odd],
        "odd": [pair for pair in pairs if pair[0].odd],
    }


def _differences(pairs: Pairs, measures: Sequence[str]) -> dict[str, Difference]:
    return paired_differences(
        {name: column((row for row, _ in pairs), name) for name in measures},
        {name: column((row for _, row in pairs), name) for name in measures},
    )


def comparison_table(comparison: Comparison) -> str:
    """The comparison for people: second run minus first, 95 % interval in brackets."""
    lines = []
    for name, by_subset in comparison.items():
        lines.append(f"{name}: first run, second run, change [95 % interval]")
        for subset, (count, differences) in by_subset.items():
            for measure, found in differences.items():
                lines.append(
                    f"  {subset:5}{count:6}  {measure:8}{found.first:7.3f}{found.second:7.3f}"
                    f"{found.change:+8.3f} [{found.low:+.3f}, {found.high:+.3f}]"
                )
    return "\n".join(lines)


def comparison_json(comparison: Comparison) -> dict[str, object]:
    """What --json prints of a comparison."""
    return {
        name: {
            subset: {
                "n": count,
                **{
                    measure: {
                        "first": found.first,
                        "second": found.second,
                        "change": found.change,
                        "interval": [found.low, found.high],
                    }
                    for measure, found in differences.items()
                },
            }
            for subset, (count, differences) in by_subset.items()
        }
        for name, by_subset in comparison.items()
    }


# Command line.


@dataclass(slots=True)
class Arguments(argparse.Namespace):
    """The command line, parsed."""

    data: Path | None = None
    sets: str = ""
    questions: list[list[Path]] = field(default_factory=list)
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
    add("--typo", action="store_true", help="also with one wrong letter a query")
    add("--searcher", choices=SEARCHERS, default="python")
    add("--command", default="vaultmem", help="what --searcher cli starts (default: vaultmem)")
    add("--first", type=int, metavar="N", help="only the first N queries of each part")
    add("--work", type=Path, metavar="DIR", help="keep vaults and caches here between runs")
    add("--save", type=Path, metavar="FILE", help="write the figures of every query")
    add("--compare", nargs=2, type=Path, metavar="RUN", help="second saved run minus the first")
    add("--json", action="store_true", help="JSON on stdout")
    return parser


def chosen_sets(arguments: Arguments) -> dict[str, Callable[[], list[Part]]]:
    """Name -> what builds the parts of each set asked for.

    Raises UsageError for an unknown set, for sets without --data, and for nothing to do.
    """
    names = [name for name in arguments.sets.split(",") if name]
    unknown = [name for name in names if name not in SETS]
    if unknown:
        raise UsageError(f"There is no set {unknown[0]}. There are: {', '.join(SETS)}.")
    if names and arguments.data is None:
        raise UsageError("--sets needs --data DIR, the folder of the data files.")
    chosen: dict[str, Callable[[], list[Part]]] = {}
    if arguments.data is not None:
        chosen = {name: partial(SETS[name], arguments.data) for name in names}
    if arguments.questions:
        pairs = [(file, vault) for file, vault in arguments.questions]
        chosen[QUESTIONS] = partial(questions, pairs)
    if not chosen:
        raise UsageError("Nothing to do: give --sets, --questions or --compare.")
    return chosen


def evaluate(arguments: Arguments) -> list[Report]:
    """Run what the command line asks for; a text report is printed as soon as it is there."""
    openers = {
        "python": open_python,
        "cli": cli_opener(arguments.command),
        "bm25": open_bm25,
    }
    reports = []
    with work_folder(arguments.work) as folder:
        for name, build in chosen_sets(arguments).items():
            parts = build()
            if arguments.first is not None:
                parts = first_queries(parts, arguments.first)
            opener = openers[arguments.searcher]
            found = run_set(name, parts, opener, folder=folder, typo=arguments.typo)
            if not arguments.json:
                print("\n\n".join(map(table, found)), end="\n\n", flush=True)
            reports += found
    return reports


def main() -> int:
    """Exit code: 0 done, 2 if it could not be."""
    arguments = parser().parse_args(namespace=Arguments())
    try:
        if arguments.compare:
            first, second = arguments.compare
            comparison = compare(load(first), load(second))
            text = json.dumps(comparison_json(comparison), indent=2)
            print(text if arguments.json else comparison_table(comparison))
            return 0
        reports = evaluate(arguments)
        if arguments.json:
            print(json.dumps([summary(report) for report in reports], indent=2))
        if arguments.save is not None:
            save(reports, arguments.save, searcher=arguments.searcher)
    except (UsageError, DataError, SearchError) as problem:
        print(f"retrieval.py: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
