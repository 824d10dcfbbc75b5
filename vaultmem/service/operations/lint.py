"""lint: links that lead nowhere or could mean several notes, orphans, notes with faults."""

from dataclasses import dataclass

from vaultmem.index.lookup import Lookup
from vaultmem.model.note import Problem, note_name
from vaultmem.service.application import Memory
from vaultmem.service.refresh import make_ready
from vaultmem.vault.links import VaultNames
from vaultmem.vault.paths import fold, vault_path

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
    suggestions: tuple[str, ...]  # paths: the note whose alias it is, or of a similar name


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A link by a name that several files have."""

    path: str
    line: int
    link: str
    resolved: str  # the one Obsidian opens
    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LintReply:
    """What a person may want to mend."""

    unresolved: tuple[Unresolved, ...]
    ambiguous: tuple[Ambiguous, ...]
    orphans: tuple[str, ...]
    problems: tuple[Problem, ...]
    degraded: tuple[str, ...]


def lint(memory: Memory, request: LintRequest) -> LintReply:
    """Everything that is amiss in the vault; changes nothing."""
    degraded = make_ready(memory)
    with memory.guarded():
        lookup = memory.lookup()
        names = VaultNames([*lookup.all_paths(), *lookup.all_files()])
        return LintReply(
            unresolved=_unresolved(lookup),
            ambiguous=_ambiguous(lookup, names),
            orphans=tuple(lookup.orphans()),
            problems=tuple(lookup.problems()),
            degraded=degraded,
        )


def _unresolved(lookup: Lookup) -> tuple[Unresolved, ...]:
    from difflib import get_close_matches

    names: dict[str, str] = {}
    alike: dict[tuple[str, int], list[str]] = {}
    for path in lookup.all_paths():
        name = fold(note_name(path))
        if name and name not in names:
            names[name] = path
            alike.setdefault((name[0], len(name) // 4), []).append(name)
    known: dict[str, tuple[str, ...]] = {}
    unresolved: list[Unresolved] = []
    for path, line, link in lookup.unresolved_links():
        if link not in known:
            owners = lookup.alias_owners(link)
            wanted = fold(note_name(vault_path(link)))
            # Names of the same first letter and about the same length: all names take minutes.
            size = len(wanted) // 4
            pool = [n for k in (size - 1, size, size + 1) for n in alike.get((wanted[:1], k), ())]
            near = [] if owners else get_close_matches(wanted, pool, MAX_SUGGESTIONS, cutoff=0.8)
            known[link] = tuple(owners[:MAX_SUGGESTIONS]) or tuple(names[name] for name in near)
        unresolved.append(Unresolved(path, line, link, known[link]))
    return tuple(unresolved)


def _ambiguous(lookup: Lookup, names: VaultNames) -> tuple[Ambiguous, ...]:
    ambiguous: list[Ambiguous] = []
    for path, line, link, resolved in lookup.resolved_links():
        if not link or "/" in link:
            continue
        candidates = names.candidates(vault_path(link))
        if len(candidates) > 1:
            ambiguous.append(Ambiguous(path, line, link, resolved, tuple(sorted(candidates))))
    return tuple(ambiguous)
