"""lint: links that lead nowhere or could mean several notes, orphans, notes with faults."""

from collections.abc import Iterator
from dataclasses import dataclass

from vaultmem.index.lookup import Lookup
from vaultmem.model.note import Problem, note_name
from vaultmem.service.application import Memory
from vaultmem.service.refresh import make_ready
from vaultmem.vault.frontmatter import read_frontmatter
from vaultmem.vault.links import VaultNames
from vaultmem.vault.linktext import markdown_link_text, wikilink_text
from vaultmem.vault.obsidian import ObsidianSettings, read_obsidian
from vaultmem.vault.parse import readable
from vaultmem.vault.paths import fold, vault_path
from vaultmem.vault.read import Door

MAX_SUGGESTIONS = 3


@dataclass(frozen=True, slots=True)
class LintRequest:
    """Nothing to choose yet."""


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A link that leads nowhere."""

    path: str
    line: int
    link: str
    suggestions: tuple[str, ...]  # paths: the notes whose alias it is, or of a similar name
    fix: str | None  # the link that Obsidian would write to the one suggestion there is


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A link whose text fits several files."""

    path: str
    line: int
    link: str
    resolved: str  # the one Obsidian opens
    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Orphan:
    """A note that no note links to, and that links to none."""

    path: str
    line: int = 1  # it is the whole note


@dataclass(frozen=True, slots=True)
class LintReply:
    """What a person may want to mend. Templates are left out: their links are to be filled in."""

    unresolved: tuple[Unresolved, ...]
    ambiguous: tuple[Ambiguous, ...]
    orphans: tuple[Orphan, ...]
    problems: tuple[Problem, ...]  # of properties, files, conflict copies, ids given twice
    degraded: tuple[str, ...]


def lint(memory: Memory, request: LintRequest) -> LintReply:
    """Everything that is amiss in the vault; changes nothing."""
    degraded = make_ready(memory)
    with memory.guarded():
        lookup = memory.lookup()
        names = VaultNames([*lookup.all_paths(), *lookup.all_files()])
        problems = [*lookup.problems(), *_identity_twins(memory, lookup)]
        return LintReply(
            unresolved=_unresolved(lookup, names, read_obsidian(memory.vault)),
            ambiguous=_ambiguous(lookup, names),
            orphans=tuple(Orphan(path) for path in lookup.orphans()),
            problems=tuple(sorted(problems, key=lambda p: (p.path, p.line, p.code))),
            degraded=degraded,
        )


def _unresolved(
    lookup: Lookup, names: VaultNames, obsidian: ObsidianSettings
) -> tuple[Unresolved, ...]:
    suggested = _Suggestions(lookup)
    unresolved: list[Unresolved] = []
    for link in lookup.unresolved_links():
        paths, by_alias = suggested.of(link.target)
        fix = None
        if len(paths) == 1 and not link.exact:
            shown = link.display or (link.target if by_alias else None)
            write = markdown_link_text if obsidian.markdown_links else wikilink_text
            fix = write(
                names,
                paths[0],
                link.path,
                obsidian.link_format,
                display=shown,
                subpath=link.subpath,
                embed=link.embed,
            )
        unresolved.append(Unresolved(link.path, link.line, link.target, paths, fix))
    return tuple(unresolved)


class _Suggestions:
    """Notes that a link to nowhere may mean: those of that alias, else of a similar name."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._names: dict[str, str] = {}
        self._alike: dict[tuple[str, int], list[str]] = {}
        self._known: dict[str, tuple[tuple[str, ...], bool]] = {}
        for path in lookup.all_paths():
            name = fold(note_name(path))
            if name and name not in self._names:
                self._names[name] = path
                self._alike.setdefault((name[0], len(name) // 4), []).append(name)

    def of(self, link: str) -> tuple[tuple[str, ...], bool]:
        """(paths, whether they carry the link's text as an alias)."""
        if link not in self._known:
            owners = self._lookup.alias_owners(vault_path(link))
            paths = owners[:MAX_SUGGESTIONS] or self._near(fold(note_name(vault_path(link))))
            self._known[link] = tuple(paths), bool(owners)
        return self._known[link]

    def _near(self, wanted: str) -> list[str]:
        from difflib import get_close_matches

        # Names of the same first letter and about the same length: all names take minutes.
        size = len(wanted) // 4
        pool = [
            name
            for length in (size - 1, size, size + 1)
            for name in self._alike.get((wanted[:1], length), ())
        ]
        near = get_close_matches(wanted, pool, MAX_SUGGESTIONS, cutoff=0.8)
        return [self._names[name] for name in near]


def _ambiguous(lookup: Lookup, names: VaultNames) -> tuple[Ambiguous, ...]:
    ambiguous: list[Ambiguous] = []
    for path, line, link, resolved in lookup.resolved_links():
        candidates = names.meanings(link) if link else []
        if len(candidates) > 1:
            ambiguous.append(Ambiguous(path, line, link, resolved, tuple(sorted(candidates))))
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
    limit = memory.settings["scan.max_note_bytes"]
    data = door.read(note.disk_path, limit=limit) if note is not None else None
    if not isinstance(data, bytes):
        return 1
    block, _ = read_frontmatter(path, readable(path, data))
    lines = block.text.split("\n")
    return next((n for n, line in enumerate(lines, 2) if line.startswith("id:")), 1)
