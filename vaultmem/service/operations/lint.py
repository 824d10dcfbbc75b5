"""lint: links that lead nowhere or could mean several notes, orphans, notes with faults."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vaultmem.index.lookup import Lookup
from vaultmem.index.rows import UnresolvedLink
from vaultmem.model.note import FoundSecret, Problem, note_name
from vaultmem.model.operation import Reply, Request
from vaultmem.security.hidden import shown as escaped
from vaultmem.service.application import Memory
from vaultmem.service.budget import fitted
from vaultmem.service.mending import mended
from vaultmem.service.note_text import read_note, shown_text
from vaultmem.service.operations.related import lines_of
from vaultmem.service.refresh import make_ready
from vaultmem.vault.blocks import block_structure
from vaultmem.vault.frontmatter import read_frontmatter
from vaultmem.vault.inline import MAX_DISPLAY_CHARS
from vaultmem.vault.lines import line_offsets
from vaultmem.vault.links import VaultNames
from vaultmem.vault.linktext import markdown_link_text, wikilink_text
from vaultmem.vault.obsidian import ObsidianSettings
from vaultmem.vault.paths import fold, vault_path
from vaultmem.vault.read import Door

MAX_SUGGESTIONS = 3
# Of each list in a reply. One generated note can hold a hundred thousand links to nowhere.
MAX_ENTRIES = 10_000
# Of the files that a link's text fits; a name such as README may have thousands.
MAX_CANDIDATES = 20
# Looking for similar names goes through many of the vault's names for each text.
MAX_LOOKED_FOR = 2_000
# No file system has longer names.
MAX_NAME_CHARS = 255

_ATTACHMENT = re.compile(r"\.(?=\d*[a-z])[a-z0-9]{2,4}$")
_NUMBER = re.compile(r"\d+")
_WIKILINK = re.compile(r"\[\[[^\[\]\n]*+\]\]")


@dataclass(frozen=True, slots=True)
class LintRequest(Request):
    """Nothing to choose yet."""


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A link that leads nowhere."""

    path: str
    line: int
    link: str
    suggestions: tuple[str, ...]  # paths: the notes whose alias it is, or of a similar name
    fix: str | None  # for an alias of one note: the link that Obsidian would write to it


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A link whose text fits several files."""

    path: str
    line: int
    link: str
    resolved: str  # the one Obsidian opens
    candidates: tuple[str, ...]  # MAX_CANDIDATES at most, the resolved one among them


@dataclass(frozen=True, slots=True)
class Orphan:
    """A note that no note links to, and that links to none."""

    path: str
    line: int = 1  # it is the whole note


@dataclass(frozen=True, slots=True)
class LintReply(Reply):
    """What a person may want to mend. Templates are left out: their links are to be filled in."""

    unresolved: tuple[Unresolved, ...]
    ambiguous: tuple[Ambiguous, ...]
    orphans: tuple[Orphan, ...]
    problems: tuple[Problem, ...]  # of properties, files, conflict copies, ids given twice
    secrets: tuple[FoundSecret, ...]  # credentials that are not allowed


@fitted
@mended
def lint(memory: Memory, request: LintRequest) -> LintReply:
    """Everything that is amiss in the vault; changes nothing."""
    degraded = make_ready(memory)
    with memory.guarded():
        lookup = memory.lookup()
        names = VaultNames([*lookup.all_paths(), *lookup.all_files()])
        problems = [*lookup.problems(), *_identity_twins(memory, lookup)]
        problems.sort(key=lambda p: (p.path, p.line, p.code))
        links = lookup.unresolved_links()
        suggested = _Suggestions(lookup)
        unresolved = _unresolved(memory, lookup, names, links[:MAX_ENTRIES], suggested)
        ambiguous = _ambiguous(lookup, names)
        if max(len(links), len(problems)) > MAX_ENTRIES or len(ambiguous) == MAX_ENTRIES:
            degraded += (f"No more than {MAX_ENTRIES:,} findings of a kind are given.",)
        if suggested.exhausted:
            degraded += (
                f"Similar names were looked for on behalf of {MAX_LOOKED_FOR:,} links only.",
            )
        return LintReply(
            unresolved=unresolved,
            ambiguous=ambiguous,
            orphans=tuple(Orphan(path) for path in lookup.orphans()),
            problems=tuple(problems[:MAX_ENTRIES]),
            secrets=tuple(secret for secret in lookup.secrets() if not secret.allowed),
            degraded=degraded,
        )


def _unresolved(
    memory: Memory,
    lookup: Lookup,
    names: VaultNames,
    links: Sequence[UnresolvedLink],
    suggested: "_Suggestions",
) -> tuple[Unresolved, ...]:
    obsidian = memory.obsidian
    unresolved: list[Unresolved] = []
    at, rows = "", set[int]()
    with Door(memory.vault) as door:
        for link in links:
            owners = () if link.exact else suggested.owners(link.target)
            fix = None
            # A text that was cut for storing is not the one that the link shows.
            if len(owners) == 1 and len(link.display or "") < MAX_DISPLAY_CHARS:
                if link.path != at:
                    at, rows = link.path, _table_rows(lines_of(memory, lookup, door, link.path))
                in_table = link.line - 1 in rows
                fix = _written(names, link, owners[0], obsidian, in_table=in_table)
            paths = owners or suggested.near(link.target, link.path)
            unresolved.append(Unresolved(link.path, link.line, escaped(link.target), paths, fix))
    return tuple(unresolved)


def _table_rows(lines: Sequence[str]) -> set[int]:
    """The rows (0-based) of a note's tables; their lines need not begin with a bar."""
    if not any("|" in _WIKILINK.sub("", line) for line in lines):
        return set()
    text = "\n".join(lines)
    starts = line_offsets(text)
    skip = read_frontmatter("", text)[0].lines
    blocks = block_structure(text, starts, skip).blocks
    tables = [block for block in blocks if block.kind == "table"]
    return {row for table in tables for row in range(table.first, table.after)}


def _written(
    names: VaultNames,
    link: UnresolvedLink,
    target: str,
    obsidian: ObsidianSettings,
    *,
    in_table: bool,
) -> str:
    """The link to `target` as Obsidian would write it in the place of `link`."""
    write = markdown_link_text if obsidian.markdown_links else wikilink_text
    return write(
        names,
        target,
        link.path,
        obsidian.link_format,
        display=link.display or link.target.removesuffix(".md"),
        subpath=link.subpath,
        embed=link.embed,
        in_table=in_table,
    )


class _Suggestions:
    """Notes that a link to nowhere may mean."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._names: dict[str, str] = {}
        self._alike: dict[tuple[str, int], list[str]] = {}
        self._owners: dict[str, tuple[str, ...]] = {}
        self._near: dict[str, tuple[str, ...]] = {}
        self.exhausted = False  # whether similar names were asked for too often
        for path in lookup.paths_to_suggest():
            name = fold(note_name(path))
            if name and name not in self._names:
                self._names[name] = path
                self._alike.setdefault((name[0], len(name) // 4), []).append(name)

    def owners(self, link: str) -> tuple[str, ...]:
        """The notes whose alias the link's text is."""
        if link not in self._owners:
            self._owners[link] = tuple(self._lookup.alias_owners(link)[:MAX_SUGGESTIONS])
        return self._owners[link]

    def near(self, link: str, source: str) -> tuple[str, ...]:
        """Notes of a similar name, the one the link stands in left out.

        None for a link to a picture or a paper; and another number is another note: `2025-W17` is
        no slip for `2026-W17`.
        """
        if link not in self._near:
            name = fold(note_name(vault_path(link)))
            if len(name) > MAX_NAME_CHARS or _ATTACHMENT.search(name):
                self._near[link] = ()
            elif len(self._near) >= MAX_LOOKED_FOR:
                self.exhausted = True
                return ()
            else:
                self._near[link] = tuple(self._alike_to(name))
        return tuple(path for path in self._near[link] if path != source)

    def _alike_to(self, wanted: str) -> list[str]:
        from difflib import get_close_matches

        # Names of the same first letter and about the same length: all names take minutes.
        size, numbers = len(wanted) // 4, _NUMBER.findall(wanted)
        pool = [
            name
            for length in (size - 1, size, size + 1)
            for name in self._alike.get((wanted[:1], length), ())
            if _NUMBER.findall(name) == numbers
        ]
        near = get_close_matches(wanted, pool, MAX_SUGGESTIONS, cutoff=0.8)
        return [self._names[name] for name in near]


def _ambiguous(lookup: Lookup, names: VaultNames) -> tuple[Ambiguous, ...]:
    ambiguous: list[Ambiguous] = []
    meanings: dict[str, list[str]] = {}
    for path, line, link, resolved in lookup.resolved_links():
        if link and link not in meanings:
            meanings[link] = names.meanings(link)
        candidates = meanings[link] if link else []
        if len(candidates) > 1:
            shown = sorted(candidates)
            if len(shown) > MAX_CANDIDATES:
                others = [file for file in shown if file != resolved]
                shown = sorted([resolved, *others[: MAX_CANDIDATES - 1]])
            ambiguous.append(Ambiguous(path, line, escaped(link), resolved, tuple(shown)))
            if len(ambiguous) == MAX_ENTRIES:
                break
    return tuple(ambiguous)


def _identity_twins(memory: Memory, lookup: Lookup) -> Iterator[Problem]:
    """A problem for each note whose `id` another note has too: a rename could take either."""
    holders: dict[str, list[str]] = {}
    for identity, path in lookup.identity_twins():
        holders.setdefault(identity, []).append(path)
    with Door(memory.vault) as door:
        for paths in holders.values():
            for path in paths:
                other = next(twin for twin in paths if twin != path)
                more = f" and {len(paths) - 2} more" if len(paths) > 2 else ""
                message = f"Its id is that of {other}{more} too. Give it one of its own."
                line = _line_of_id(memory, lookup, door, path)
                yield Problem(path, line, "identity-duplicate", message)


def _line_of_id(memory: Memory, lookup: Lookup, door: Door, path: str) -> int:
    note = lookup.note_at(path)
    data = read_note(memory, door, note) if note is not None else None
    if note is None or not isinstance(data, bytes):
        return 1
    block, _ = read_frontmatter(path, shown_text(memory, note, data))
    lines = block.text.split("\n")
    return next((n for n, line in enumerate(lines, 2) if line.startswith("id:")), 1)
