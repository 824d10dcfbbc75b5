"""Keyword search: three lexical channels under the query's filters, fused, best first."""

import math
from dataclasses import dataclass, replace

from vaultmem.index.lookup import Lookup, Scope, match_all, match_any
from vaultmem.model.hit import Evidence
from vaultmem.model.query import Query, Word
from vaultmem.retrieval.fusion import Candidate, Channel, Complete, Scored, fuse
from vaultmem.retrieval.repair import repair

# Early cuts cost real questions (hit@10 .025 on three vaults), and cutting late costs little.
PASSAGE_LIST = 1000
WINDOW_LIST = 1000
NOTE_LIST = 500

# A best hit that holds less of the question's information than this is called weak.
WEAK_COVERAGE = 0.5


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage worth showing, with its evidence."""

    chunk: int
    note: int
    score: float
    weak: bool
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Ranking:
    """The answer to one query, before anyone reads a file."""

    query: Query  # with repaired words
    hits: tuple[Ranked, ...]
    repaired: dict[str, str]  # word -> what it was also looked for as
    degraded: tuple[str, ...]  # what could not be done as asked, and what was done instead


def keyword_search(query: Query, lookup: Lookup, *, limit: int, passages: bool) -> Ranking:
    """Rank the passages that hold any of the query's words.

    limit:    hits at most.
    passages: every passage counts, not only the best of its note.
    """
    query, repaired = repair(query, lookup)
    scope = lookup.scope(query.filters, query.required, query.excluded)
    if not query.words:
        listed = _listed(lookup, scope, limit) if scope and query.filters else ()
        return Ranking(query, listed, repaired, ())
    degraded: tuple[str, ...] = ()
    if query.dropped:
        degraded = (f"The question was long: its last {query.dropped} words were left out.",)
    scored = _scored(query, lookup, scope)
    if not scored and query.required:
        phrases = ", ".join(f'"{word.text}"' for word in query.required)
        degraded += (f"No note holds {phrases} as written; its words were searched instead.",)
        query = replace(query, words=_loosened(query.words))
        scored = _scored(query, lookup, lookup.scope(query.filters, (), query.excluded))
    if not passages:
        scored = _best_per_note(scored)
    return Ranking(query, _with_evidence(scored[:limit], query, lookup), repaired, degraded)


def _listed(lookup: Lookup, scope: Scope, limit: int) -> tuple[Ranked, ...]:
    """What filters alone select: every note in scope by its opening passage, newest first."""
    notes = lookup.newest_in(scope, limit)
    first = lookup.first_passages(notes)
    evidence = Evidence(channels=(), matched=(), missing=(), coverage=1.0, boosts={})
    return tuple(Ranked(first[n].id, n, 0.0, weak=False, evidence=evidence) for n in notes)


def _scored(query: Query, lookup: Lookup, scope: Scope | None) -> list[Scored]:
    match = match_any(query.words)
    passage = dict(lookup.passages(match, scope, PASSAGE_LIST))
    window = dict(lookup.windows(match, scope, WINDOW_LIST))
    note = dict(lookup.notes(match, scope, NOTE_LIST))
    named = lookup.named(query.name, scope)
    places = lookup.places(passage.keys() | window.keys())
    covered = {place.note for place in places.values()}
    # A note found as a whole whose passages all fell to the cuts still has its opening to show.
    for first in lookup.first_passages((note.keys() | named) - covered).values():
        places[first.id] = first
    paths = lookup.note_paths({place.note for place in places.values()})
    candidates = [
        Candidate(p.id, p.note, p.ordinal, paths[p.note], p.lone, p.only) for p in places.values()
    ]
    return fuse(
        candidates,
        Channel("passage", passage),
        Channel("window", window),
        Channel("note", note),
        complete=_complete(query, lookup, scope),
        named=frozenset(named),
    )


def _complete(query: Query, lookup: Lookup, scope: Scope | None) -> Complete:
    if len(query.words) < 2:
        return Complete(frozenset(), frozenset(), frozenset())
    match = match_all(query.words)
    passages, windows = lookup.chunks_holding(match, scope)
    return Complete(
        frozenset(passages), frozenset(windows), frozenset(lookup.notes_matching(match))
    )


def _loosened(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Quoted phrases turned into their words."""
    loose: dict[str, Word] = {}
    for word in words:
        pieces = [Word(p, (p,)) for f in word.forms for p in f.split()] if word.phrase else [word]
        for piece in pieces:
            loose.setdefault(piece.forms[0].lower(), piece)
    return tuple(loose.values())


def _best_per_note(scored: list[Scored]) -> list[Scored]:
    best: dict[int, Scored] = {}
    for entry in scored:
        best.setdefault(entry.candidate.note, entry)
    return list(best.values())


def _with_evidence(scored: list[Scored], query: Query, lookup: Lookup) -> tuple[Ranked, ...]:
    notes = {entry.candidate.note for entry in scored}
    total = lookup.note_count()
    information: dict[Word, float] = {}
    holders: dict[Word, set[int]] = {}
    for word in query.words:
        count = lookup.document_frequency(word)
        # A compound's words are counted one by one; whole, it only says that they stand together.
        counts = not word.compound or len(query.words) == 1
        information[word] = math.log(1 + total / (1 + count)) if counts else 0.0
        holders[word] = lookup.notes_holding(word, notes) if count else set()
    everything = sum(information.values()) or 1.0
    ranked: list[Ranked] = []
    for entry in scored:
        note = entry.candidate.note
        matched = [word for word in query.words if note in holders[word]]
        coverage = sum(information[word] for word in matched) / everything
        ranked.append(
            Ranked(
                chunk=entry.candidate.chunk,
                note=note,
                score=entry.score,
                weak=coverage < WEAK_COVERAGE,
                evidence=Evidence(
                    channels=entry.channels,
                    matched=tuple(word.text for word in matched),
                    missing=tuple(w.text for w in query.words if note not in holders[w]),
                    coverage=coverage,
                    boosts={name: round(value, 6) for name, value in entry.boosts.items() if value},
                ),
            )
        )
    return tuple(ranked)
