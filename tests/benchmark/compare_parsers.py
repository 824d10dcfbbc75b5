"""Compare what vaultmem and headless-vault-kit read out of the same vaults.

    python tests/benchmark/compare_parsers.py VAULT [VAULT ...]
    python tests/benchmark/compare_parsers.py VAULT --list FILE.jsonl --draw 10 --seed 1

Prints a table of counts, one row for each vault and reader. A disagreement is one note and one
question: which links its text has ("links"), which its properties have ("properties"), where a
link that both see leads to ("resolution"), which tags it has ("tags"), or whether it is read at
all ("note"). --list writes all of them as JSON lines. --draw prints some, drawn by --seed; since
headless-vault-kit reads no links in properties at all, "properties" stays out of the draw.
Neither reader is the judge: who is right has to be looked up. Links and tags in the output are
text of the vault.

The package headless-vault-kit must be installed beside vaultmem. Its index is built in a
temporary folder; the vaults are never written to. Exit code 2 if it or a vault is not there.

Like is compared with like:
- notes are files that end in `.md`; those that Obsidian's excluded files keep out of search are
  left out for both;
- a link is line, target, subpath, and whether it embeds. Their Markdown links, kept as written,
  are percent-decoded once, as ours are; both targets get the spelling of vault paths (NFC, `/`
  between parts, none at the ends); their backslash before the bar of a table cell is dropped.
  External links, which only they keep, are left out. Case is compared;
- "ambiguous" is a link without a folder whose name several files have, by each reader's own
  candidates;
- tags are compared in lower case, once a note; a tag use is a tag in a note.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from vaultmem.vault.ignore import compile_rules
from vaultmem.vault.links import VaultNames
from vaultmem.vault.obsidian import read_obsidian
from vaultmem.vault.parse import parse
from vaultmem.vault.paths import fold, is_note, vault_path
from vaultmem.vault.scan import scan

MAX_NOTE_BYTES = 64 << 20

OURS, THEIRS = "vaultmem", "headless-vault-kit"


class ComparisonError(Exception):
    """Nothing can be compared; the message says why in one line."""


class SeenLink(NamedTuple):
    """A link or embed as both readers can report it."""

    line: int
    target: str
    subpath: str
    embed: bool
    key: str | None = None
    """The property it stands in."""


@dataclass(frozen=True, slots=True)
class SeenNote:
    """What one reader says about one note."""

    links: Counter[SeenLink]
    leads_to: Mapping[SeenLink, str | None]
    ambiguous: frozenset[SeenLink]
    tags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one reader says about a vault."""

    notes: Mapping[str, SeenNote]
    slowest: tuple[float, str] = (0.0, "")
    """CPU seconds and path of the note that took longest to parse, where that is known."""


class Disagreement(NamedTuple):
    """One note, one question, two answers."""

    vault: str
    note: str
    question: str
    ours: tuple[object, ...]
    theirs: tuple[object, ...]

    def json(self) -> str:
        """As one line of JSON."""
        values = {
            "vault": self.vault,
            "note": self.note,
            "question": self.question,
            "ours": self.ours,
            "theirs": self.theirs,
        }
        return json.dumps(values, ensure_ascii=False)


def read_ours(vault: Path) -> tuple[Reading, frozenset[str]]:
    """What vaultmem sees, and the notes that Obsidian's settings exclude."""
    rules, _ = compile_rules(read_obsidian(vault), ())
    snapshot = scan(vault, rules, max_note_bytes=MAX_NOTE_BYTES)
    names = VaultNames(sorted({*snapshot.notes, *snapshot.files}))
    notes: dict[str, SeenNote] = {}
    slowest = (0.0, "")
    for path, state in snapshot.notes.items():
        if not is_note(path):
            continue
        data = (vault / state.disk_path).read_bytes()
        began = time.process_time()
        note = parse(path, data)
        slowest = max(slowest, (time.process_time() - began, path))
        links: Counter[SeenLink] = Counter()
        leads_to: dict[SeenLink, str | None] = {}
        ambiguous: set[SeenLink] = set()
        for link in note.links:
            target = vault_path(link.target)
            seen = SeenLink(link.line, target, link.subpath, link.embed, link.key)
            links[seen] += 1
            leads_to[seen] = names.resolve(link.target, path)
            if target and "/" not in target and len(names.candidates(target)) > 1:
                ambiguous.add(seen)
        notes[path] = SeenNote(links, leads_to, frozenset(ambiguous), _folded(note.tags))
    return Reading(notes, slowest), frozenset(snapshot.excluded)


def read_theirs(vault: Path) -> Reading:
    """What headless-vault-kit stores about a vault. ComparisonError if it is not installed."""
    try:
        paths, scanner, database = (import_module(f"hvk.{n}") for n in ("paths", "scan", "db"))
    except ImportError as error:
        message = "the package headless-vault-kit is not installed in this environment"
        raise ComparisonError(message) from error
    with tempfile.TemporaryDirectory() as folder:
        place = paths.Locations(vault=vault, index_dir=Path(folder))
        scanner.scan(place, rebuild=True)
        connection = database.connect(place.db_path)
        try:
            notes = _their_notes(connection)
        finally:
            connection.close()
    return Reading(notes)


def _their_notes(connection: Any) -> dict[str, SeenNote]:
    paths: dict[int, str] = {}
    for row in connection.execute("SELECT id, path FROM files"):
        paths[row["id"]] = vault_path(row["path"])
    links: dict[int, Counter[SeenLink]] = {number: Counter() for number in paths}
    leads_to: dict[int, dict[SeenLink, str | None]] = {number: {} for number in paths}
    ambiguous: dict[int, set[SeenLink]] = {number: set() for number in paths}
    tags: dict[int, set[str]] = {number: set() for number in paths}
    for row in connection.execute("SELECT * FROM links WHERE kind != 'external'"):
        number, seen = row["file_id"], _their_link(row)
        links[number][seen] += 1
        leads_to[number][seen] = paths.get(row["target_file_id"])
        if seen.target and "/" not in seen.target and row["candidates"] > 1:
            ambiguous[number].add(seen)
    for row in connection.execute("SELECT file_id, tag FROM tags"):
        tags[row["file_id"]].add(row["tag"])
    return {
        path: SeenNote(
            links[number], leads_to[number], frozenset(ambiguous[number]), _folded(tags[number])
        )
        for number, path in paths.items()
        if is_note(path)
    }


def _their_link(row: Any) -> SeenLink:
    target, subpath = row["target_raw"], row["subpath"] or ""
    if row["kind"] == "markdown":
        target, subpath = _decoded(target), _decoded(subpath)
    elif subpath:
        subpath = subpath.removesuffix("\\")  # as in a target, where vault_path drops it
    return SeenLink(row["line"], vault_path(target), subpath, bool(row["embed"]))


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text


def _folded(tags: Iterable[str]) -> frozenset[str]:
    return frozenset(map(fold, tags))


def disagreements(
    vault: str, ours: Reading, theirs: Reading, excluded: frozenset[str]
) -> Iterator[Disagreement]:
    """Every question about a note of the vault that the two answer differently."""
    for path in sorted({*ours.notes, *theirs.notes} - excluded):
        mine, other = ours.notes.get(path), theirs.notes.get(path)
        if mine is None or other is None:
            yield Disagreement(vault, path, "note", (mine is not None,), (other is not None,))
            continue
        for question in ("links", "properties"):
            only_mine = _some(mine.links - other.links, question)
            only_theirs = _some(other.links - mine.links, question)
            if only_mine or only_theirs:
                yield Disagreement(vault, path, question, only_mine, only_theirs)
        differing = [
            link
            for link in sorted(mine.leads_to.keys() & other.leads_to.keys())
            if mine.leads_to[link] != other.leads_to[link]
        ]
        if differing:
            yield Disagreement(
                vault,
                path,
                "resolution",
                tuple((link.line, link.target, mine.leads_to[link]) for link in differing),
                tuple((link.line, link.target, other.leads_to[link]) for link in differing),
            )
        if mine.tags != other.tags:
            yield Disagreement(
                vault,
                path,
                "tags",
                tuple(sorted(mine.tags - other.tags)),
                tuple(sorted(other.tags - mine.tags)),
            )


def _some(links: Counter[SeenLink], question: str) -> tuple[SeenLink, ...]:
    """The links of the text, or those of the properties, in order."""
    asked = (link for link in links.elements() if (link.key is None) == (question == "links"))
    # `key` is text or None, which have no order of their own.
    return tuple(sorted(asked, key=lambda link: (link[:4], link.key or "")))


COLUMNS = (
    "vault",
    "reader",
    "notes",
    "links and embeds",
    "resolved",
    "unresolved",
    "ambiguous",
    "distinct tags",
    "tag uses",
)


def counts(vault: str, reader: str, reading: Reading, excluded: frozenset[str]) -> tuple[str, ...]:
    """One row of the table."""
    notes = [note for path, note in reading.notes.items() if path not in excluded]
    links = sum(note.links.total() for note in notes)
    resolved = sum(
        number
        for note in notes
        for link, number in note.links.items()
        if note.leads_to[link] is not None
    )
    ambiguous = sum(note.links[link] for note in notes for link in note.ambiguous)
    distinct = len({tag for note in notes for tag in note.tags})
    uses = sum(len(note.tags) for note in notes)
    figures = (len(notes), links, resolved, links - resolved, ambiguous, distinct, uses)
    return (vault, reader, *(f"{figure:,}" for figure in figures))


def table(rows: Sequence[Sequence[str]]) -> str:
    """The rows as a Markdown table."""
    ruled = (COLUMNS, ("---",) * len(COLUMNS), *rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in ruled)


def compare(vaults: Sequence[Path]) -> tuple[list[Disagreement], list[str]]:
    """Read all vaults with both; the disagreements, and the lines of the report."""
    found: list[Disagreement] = []
    rows: list[tuple[str, ...]] = []
    remarks: list[str] = []
    for vault in vaults:
        if not vault.is_dir():
            raise ComparisonError(f"not a folder: {vault}")
        ours, excluded = read_ours(vault)
        theirs = read_theirs(vault)
        rows.append(counts(vault.name, OURS, ours, excluded))
        rows.append(counts(vault.name, THEIRS, theirs, excluded))
        differing = list(disagreements(vault.name, ours, theirs, excluded))
        found += differing
        asked = Counter(one.question for one in differing)
        remarks.append(
            f"{vault.name}: {', '.join(f'{n} {q}' for q, n in sorted(asked.items())) or 'none'} "
            f"differ; slowest note of ours {ours.slowest[0]:.2f} CPU s ({ours.slowest[1]})"
        )
    return found, [table(rows), "", *remarks]


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(description="Compare vaultmem with headless-vault-kit.")
    parser.add_argument("vaults", type=Path, nargs="+", metavar="VAULT")
    parser.add_argument("--list", type=Path, metavar="FILE", help="write all disagreements there")
    parser.add_argument("--draw", type=int, default=0, metavar="N", help="print N of them")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default 1)")
    options = parser.parse_args(arguments)
    try:
        found, report = compare([vault.resolve() for vault in options.vaults])
    except ComparisonError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    print("\n".join(report))
    if options.list is not None:
        options.list.write_text("".join(f"{one.json()}\n" for one in found), encoding="utf-8")
    pool = [one for one in found if one.question != "properties"]
    for one in random.Random(options.seed).sample(pool, min(options.draw, len(pool))):
        print(one.json())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
