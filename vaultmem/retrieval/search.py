"""Search: channels under the query's filters, fused, best first."""

import math
from dataclasses import dataclass, field, replace

from vaultmem.embedding.embedder import Languages
from vaultmem.index.lookup import Lookup, Scope, match_all, match_any
from vaultmem.model.hit import Evidence
from vaultmem.model.query import Query, Word
from vaultmem.retrieval.fusion import Candidate, Channel, Complete, Fusion, Scored, fuse
from vaultmem.retrieval.meaning import Meaning
from vaultmem.retrieval.repair import repair

# Early cuts cost real questions (hit@10 .025 on three vaults), and cutting late costs little.
PASSAGE_LIST = 1000
WINDOW_LIST = 1000
NOTE_LIST = 500
# Passages found by words get their similarity however low it ranks; beyond this place a passage
# without any of the words has no chance.
VECTOR_LIST = 200

# A best hit that holds less of the question's information than this is called weak.
WEAK_COVERAGE = 0.5

# A model of many languages is asked in one and answers in another: then hardly a word of the
# question is known to the index, and those that are (names) say little.
KNOWN_WORDS = 0.5
STRANGE_WORDS_TRUST = 0.3


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


@dataclass(frozen=True, slots=True)
class Means:
    """What a search may use."""

    meaning: Meaning | None = None  # the vector channel, where there is one
    words: bool = True  # the lexical channels
    without: frozenset[str] = field(default_factory=frozenset)  # channels left out
    fusion: Fusion = Fusion.SUM


def ranked_passages(
    query: Query, lookup: Lookup, means: Means, *, limit: int, passages: bool
) -> Ranking:
    """Rank the passages that hold any of the query's words, or come near its meaning.

    limit:    hits at most.
    passages: every passage counts, not only the best of its note.
    """
    repaired: dict[str, str] = {}
    known = _known_share(query, lookup) if means.meaning is not None else 1.0
    if means.words:
        query, repaired = repair(query, lookup)
    scope = lookup.scope(query.filters, query.required, query.excluded)
    if not query.words and (means.meaning is None or not query.asked):
        listed = _listed(lookup, scope, limit) if scope and query.filters else ()
        return Ranking(query, listed, repaired, ())
    degraded: tuple[str, ...] = ()
    if query.dropped:
        degraded = (f"The question was long: its last {query.dropped} words were left out.",)
    scored = _scored(query, lookup, scope, means, known)
    if not scored and query.required:
        phrases = ", ".join(f'"{word.text}"' for word in query.required)
        degraded += (f"No note holds {phrases} as written; its words were searched instead.",)
        query = replace(query, words=_loosened(query.words))
        scope = lookup.scope(query.filters, (), query.excluded)
        scored = _scored(query, lookup, scope, means, known)
    if not passages:
        scored = _best_per_note(scored)
    return Ranking(query, _with_evidence(scored[:limit], query, lookup), repaired, degraded)


def _listed(lookup: Lookup, scope: Scope, limit: int) -> tuple[Ranked, ...]:
    """What filters alone select: every note in scope by its opening passage, newest first."""
    notes = lookup.newest_in(scope, limit)
    first = lookup.first_passages(notes)
    evidence = Evidence(channels=(), matched=(), missing=(), coverage=1.0, boosts={})
    return tuple(Ranked(first[n].id, n, 0.0, weak=False, evidence=evidence) for n in notes)


def _known_share(query: Query, lookup: Lookup) -> float:
    """The share of the question's words that the index holds as they are written."""
    words = [word for word in query.words if not word.phrase and not word.compound]
    if not words:
        return 1.0
    return sum(lookup.document_frequency(word) > 0 for word in words) / len(words)


def _scored(
    query: Query, lookup: Lookup, scope: Scope | None, means: Means, known: float
) -> list[Scored]:
    match = match_any(query.words) if means.words and query.words else ""
    passage = dict(lookup.passages(match, scope, PASSAGE_LIST)) if match else {}
    window = dict(lookup.windows(match, scope, WINDOW_LIST)) if match else {}
    note = dict(lookup.notes(match, scope, NOTE_LIST)) if match else {}
    near: dict[int, float] = {}
    if means.meaning is not None and "vector" not in means.without:
        near = means.meaning.nearest(scope, VECTOR_LIST)
    named = lookup.named(query.name, scope) if means.words else set()
    places = lookup.places(passage.keys() | window.keys() | near.keys())
    covered = {place.note for place in places.values()}
    # A note found as a whole whose passages all fell to the cuts still has its opening to show.
    for first in lookup.first_passages((note.keys() | named) - covered).values():
        places[first.id] = first
    paths = lookup.note_paths({place.note for place in places.values()})
    candidates = [
        Candidate(p.id, p.note, p.ordinal, paths[p.note], p.lone, p.only) for p in places.values()
    ]
    channels: list[Channel] = []
    if means.words:
        trust = 1.0
        if near and _asked_in_another_language(means, known):
            trust = STRANGE_WORDS_TRUST
        channels += [
            Channel("passage", passage, trust=trust),
            Channel("window", window, trust=trust),
            Channel("note", note, trust=trust, by_note=True),
        ]
    if near and means.meaning is not None:
        best = sorted(passage, key=lambda chunk: -passage[chunk]) if means.words else []
        channels.insert(
            1 if means.words else 0,
            Channel(
                "vector",
                {**means.meaning.of(places.keys() - near.keys()), **near},
                floor=means.meaning.floor,
                trust=means.meaning.trust(best),
            ),
        )
    return fuse(
        candidates,
        [channel for channel in channels if channel.name not in means.without],
        complete=_complete(query, lookup, scope) if match else _NOBODY,
        named=frozenset(named),
        fusion=means.fusion,
    )


def _asked_in_another_language(means: Means, known: float) -> bool:
    meaning = means.meaning
    return meaning is not None and meaning.languages is Languages.MANY and known < KNOWN_WORDS


_NOBODY = Complete(frozenset(), frozenset(), frozenset())


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
