"""What the retrieval evaluation reports: figures by subset, side by side, and between runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from vaultmem.retrieval.metrics import Difference, mean, paired_differences, percentile

TYPO = " (typo)"
KEYWORD = "keyword"  # the way that others are compared with, if it was asked
DRAWS = 5000
SEED = 1


class UsageError(Exception):
    """What was asked for cannot be done; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one query."""

    id: str  # "part:place in the set or part"; no text, which may not be passed on
    groups: tuple[str, ...]
    values: Mapping[str, float]  # measure -> figure

    @property
    def odd(self) -> bool:
        """Whether the place is odd; the same with and without --first."""
        return int(self.id.rpartition(":")[2]) % 2 == 1


@dataclass(slots=True)
class Report:
    """The figures of one task, asked in one way, over all parts of a set."""

    title: str  # of the set and task
    measures: tuple[str, ...]
    way: str = ""  # "" where there was only one
    rows: list[Row] = field(default_factory=list)  # in the order of the set
    search_ms: list[float] = field(default_factory=list)  # wall time of each search
    changed: int = 0  # queries that differ from the clean ones
    instead: list[str] = field(default_factory=list)  # mode of each search that was not as asked

    @property
    def name(self) -> str:
        """Title and way."""
        return f"{self.title} [{self.way}]" if self.way else self.title

    def column(self, measure: str, places: Iterable[int]) -> list[float]:
        """One measure of the rows at these places."""
        return [self.rows[place].values[measure] for place in places]


# One report.


def subsets(rows: Sequence[Row]) -> dict[str, list[int]]:
    """Name -> places of rows: all, the halves by place, then each group in alphabetical order.

    Subsets without a row are left out.
    """
    places = range(len(rows))
    chosen = {
        "all": list(places),
        "even": [place for place in places if not rows[place].odd],
        "odd": [place for place in places if rows[place].odd],
    }
    for group in sorted({group for row in rows for group in row.groups}):
        chosen[group] = [place for place in places if group in rows[place].groups]
    return {name: found for name, found in chosen.items() if found}


def summary(report: Report) -> dict[str, object]:
    """What --json prints of a report: means by subset, search times in milliseconds."""
    return {
        "name": report.name,
        "changed": report.changed,
        "instead": len(report.instead),
        "search_ms": {
            "median": round(percentile(report.search_ms, 0.5), 3),
            "p95": round(percentile(report.search_ms, 0.95), 3),
        },
        "figures": {
            subset: {
                "n": len(places),
                **{name: round(mean(report.column(name, places)), 4) for name in report.measures},
            }
            for subset, places in subsets(report.rows).items()
        },
    }


def table(report: Report) -> str:
    """The report for people."""
    median, p95 = (percentile(report.search_ms, share) for share in (0.5, 0.95))
    changed = f", {report.changed} queries changed" if report.title.endswith(TYPO) else ""
    lines = [
        f"{report.name}: search {median:.1f} ms, p95 {p95:.1f} ms{changed}",
        f"  {'':24}{'n':>6}" + "".join(f"{name:>9}" for name in report.measures),
    ]
    if report.instead:
        used = " or ".join(sorted(set(report.instead)))
        lines.insert(1, f"  ! {len(report.instead)} searches were done in mode {used} instead")
    lines += [_figures(report, subset, places) for subset, places in subsets(report.rows).items()]
    return "\n".join(lines)


def _figures(report: Report, name: str, places: Sequence[int]) -> str:
    means = (mean(report.column(measure, places)) for measure in report.measures)
    return f"  {name:24}{len(places):6}" + "".join(f"{value:9.3f}" for value in means)


# Two reports.


Changes = dict[str, tuple[int, dict[str, Difference]]]  # subset -> (queries, measure -> change)


def changes(first: Report, second: Report) -> Changes:
    """What the second report changes, over the queries that both have."""
    place_of = {row.id: place for place, row in enumerate(second.rows)}
    shared = [place for place, row in enumerate(first.rows) if row.id in place_of]
    found: Changes = {}
    for subset, chosen in subsets([first.rows[place] for place in shared]).items():
        ours = [shared[place] for place in chosen]
        theirs = [place_of[first.rows[place].id] for place in ours]
        differences = paired_differences(
            {name: first.column(name, ours) for name in first.measures},
            {name: second.column(name, theirs) for name in first.measures},
            chance=Random(SEED),
            draws=DRAWS,
        )
        found[subset] = len(chosen), differences
    return found


def changes_json(found: Changes) -> dict[str, object]:
    """What --json prints of changes."""
    return {
        subset: {
            "n": count,
            **{
                measure: {
                    "first": change.first,
                    "second": change.second,
                    "change": change.change,
                    "interval": [change.low, change.high],
                }
                for measure, change in differences.items()
            },
        }
        for subset, (count, differences) in found.items()
    }


def changes_table(name: str, found: Changes) -> str:
    """Changes for people: second minus first, 95 % interval in brackets."""
    lines = [f"{name}: first, second, change [95 % interval]"]
    for subset, (count, differences) in found.items():
        for measure, change in differences.items():
            lines.append(
                f"  {subset:24}{count:6}  {measure:8}{change.first:7.3f}{change.second:7.3f}"
                f"{change.change:+8.3f} [{change.low:+.3f}, {change.high:+.3f}]"
            )
    return "\n".join(lines)


def ways_table(reports: Sequence[Report]) -> str:
    """Set by way, over all queries; sets that were asked in one way only are left out."""
    lines: list[str] = []
    for title, ways in _several(reports).items():
        heads = "".join(f"{name:>9}" for name in ways[0].measures)
        lines.append(f"{title:26}{'n':>6}{heads}")
        lines += [_figures(report, report.way, range(len(report.rows))) for report in ways]
    return "\n".join(lines)


def _several(reports: Sequence[Report]) -> dict[str, list[Report]]:
    """Title -> its reports, of the sets that were asked in several ways."""
    found: dict[str, list[Report]] = {}
    for report in reports:
        if report.way:
            found.setdefault(report.title, []).append(report)
    return {title: ways for title, ways in found.items() if len(ways) > 1}


def side_by_side(reports: Sequence[Report]) -> dict[str, Changes]:
    """Changes by "title: way - other way", for every set that was asked in several ways.

    The others are compared with "keyword", or with the first way where that was not asked.
    """
    found: dict[str, Changes] = {}
    for title, ways in _several(reports).items():
        base = next((report for report in ways if report.way == KEYWORD), ways[0])
        for report in ways:
            if report is not base:
                found[f"{title}: {report.way} - {base.way}"] = changes(base, report)
    return found


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
                rows=[
                    Row(row["id"], tuple(row["groups"]), dict(row["values"]))
                    for row in report["rows"]
                ],
            )
            for report in run["reports"]
        }
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise UsageError(f"{file} is not a run written by --save: {problem}") from problem


def compare(first: Mapping[str, Report], second: Mapping[str, Report]) -> dict[str, Changes]:
    """Report name -> changes, for the reports that both runs have."""
    return {name: changes(first[name], second[name]) for name in first if name in second}
