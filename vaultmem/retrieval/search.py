"""Search: channels under the query's filters, fused, best first."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from vaultmem.embedding.embedder import Languages
from vaultmem.embedding.wordpiece import is_common_word
from vaultmem.index.lookup import Lookup
from vaultmem.index.match import match_all
from vaultmem.index.scope import Scope
from vaultmem.model.hit import Evidence
from vaultmem.model.query import Query, Word
from vaultmem.retrieval.fusion import Candidate, Channel, Complete, Fusion, Scored, fuse
from vaultmem.retrieval.meaning import Meaning
from vaultmem.retrieval.query import MAX_WORDS
from vaultmem.retrieval.repair import repair

# Early cuts cost real questions (hit@10 .025 on three vaults), and cutting late costs little.
PASSAGE_LIST = 1000
WINDOW_LIST = 1000
NOTE_LIST = 500
# Passages found by words get their similarity however low it ranks; beyond this place a passage
# without any of the words has no chance.
VECTOR_LIST = 200

# A hit is called weak when it holds less of the question's information than this, and does not
# come this far from the similarity that any passage has towards that of the question itself. Such
# a share does not depend on the range of a model's cosines. On 125 questions that two vaults
# answer and 299 that they do not: of the right notes without the question's words 8 of 30 are
# called weak, of wrong ones 240 of 261 (a model whose cosines lie from .7 to .9: 16 of 19, 127 of
# 133; the multilingual one: 26 of 29, 244 of 267).
WEAK_COVERAGE = 0.5
WEAK_NEARNESS = 0.3

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
    left_out: int = 0  # of a listing by filters alone: what else they select


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
    known = 1.0
    if means.words:
        asked = query
        # A word that is spelt right and that no note holds is answered by meaning: `bread` is not
        # a slip for `break`.
        query, repaired = (
            repair(asked, lookup, is_common_word) if means.meaning else repair(asked, lookup)
        )
        if means.meaning is not None:
            known = _known_share(asked, lookup, repaired)
    scope = lookup.scope(query.filters, query.required, query.excluded)
    if not query.words and (means.meaning is None or not query.asked):
        listed = _listed(lookup, scope, passages=passages) if scope and query.filters else ()
        left_out = max(0, len(listed) - limit)
        return Ranking(query, listed[:limit], repaired, (), left_out)
    degraded: tuple[str, ...] = ()
    if query.dropped:
        degraded = (
            f"The question was long: its last {query.dropped} words were left out "
            f"(it may have {MAX_WORDS}).",
        )
    scored = _scored(query, lookup, scope, means, known)
    if not scored and query.required:
        degraded += (_no_phrase(query, lookup),)
        query = replace(query, words=_loosened(query.words))
        scope = lookup.scope(query.filters, (), query.excluded)
        scored = _scored(query, lookup, scope, means, known)
    if not passages:
        scored = _best_per_note(scored)
    finer = scope is not None and not scope.whole
    hits = _with_evidence(scored[:limit], query, lookup, means.meaning, finer=finer)
    return Ranking(query, hits, repaired, degraded)


def _no_phrase(query: Query, lookup: Lookup) -> str:
    """Which of the quoted phrases no note holds, or that none holds all of them in scope."""
    absent = [word for word in query.required if not lookup.document_frequency(word)]
    phrases = ", ".join(f'"{word.text}"' for word in absent or query.required)
    if absent:
        return f"No note holds {phrases} as written; its words were searched instead."
    where = " within these filters" if query.filters else " together"
    return f"No note holds {phrases} as written{where}; its words were searched instead."


def _listed(lookup: Lookup, scope: Scope, *, passages: bool) -> tuple[Ranked, ...]:
    """What filters alone select, newest first: each note in scope by its first passage there."""
    evidence = Evidence(channels=(), matched=(), missing=(), coverage=1.0, boosts={})
    return tuple(
        Ranked(chunk, note, 0.0, weak=False, evidence=evidence)
        for chunk, note in lookup.newest_in(scope, passages=passages)
    )


def _known_share(query: Query, lookup: Lookup, repaired: Mapping[str, str]) -> float:
    """The share of the question's words that the index holds as they are written.

    1 where every other word can be mended: they are slips, and not of another language (measured
    on XQuAD: one word in six with a slip is still taken for foreign where it was nearly each, and
    of Spanish questions 73 % are recognised as before).
    """
    words = [word for word in query.words if not word.phrase and not word.compound]
    unknown = [word for word in words if not lookup.document_frequency(word)]
    if all(word.text in repaired for word in unknown):
        return 1.0
    return 1.0 - len(unknown) / len(words)


def _scored(
    query: Query, lookup: Lookup, scope: Scope | None, means: Means, known: float
) -> list[Scored]:
    words = query.words if means.words else ()
    passage = dict(lookup.passages(words, scope, PASSAGE_LIST)) if words else {}
    window = dict(lookup.windows(words, scope, WINDOW_LIST)) if words else {}
    note = dict(lookup.notes(words, scope, NOTE_LIST)) if words else {}
    near: dict[int, float] = {}
    if means.meaning is not None and "vector" not in means.without:
        near = means.meaning.nearest(scope, VECTOR_LIST)
    named = lookup.named(query.name, scope) if means.words else set()
    places = lookup.places(passage.keys() | window.keys() | near.keys())
    covered = {place.note for place in places.values()}
    # A note found as a whole whose passages all fell to the cuts still has its opening to show.
    for first in lookup.first_passages((note.keys() | named) - covered, scope).values():
        places[first.id] = first
    notes = lookup.note_places({place.note for place in places.values()})
    candidates = [
        Candidate(p.id, p.note, p.ordinal, notes[p.note][0], p.lone, notes[p.note][1] == 1)
        for p in places.values()
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
        # Of equals the first by path: their numbers are others after a rebuild.
        found = [place for place in places.values() if place.id in passage] if means.words else []
        found.sort(key=lambda p: (-passage[p.id], notes[p.note][0], p.ordinal))
        best = [place.id for place in found]
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
        complete=_complete(query, lookup, candidates) if words else _NOBODY,
        named=frozenset(named),
        fusion=means.fusion,
    )


def _asked_in_another_language(means: Means, known: float) -> bool:
    meaning = means.meaning
    return meaning is not None and meaning.languages is Languages.MANY and known < KNOWN_WORDS


_NOBODY = Complete(frozenset(), frozenset(), frozenset())


def _complete(query: Query, lookup: Lookup, candidates: Sequence[Candidate]) -> Complete:
    match = match_all(query.words)
    chunks = {candidate.chunk for candidate in candidates}
    notes = {candidate.note for candidate in candidates}
    return Complete(
        frozenset(lookup.holding("passage_text", match, chunks)),
        frozenset(lookup.holding("window_text", match, chunks)),
        frozenset(lookup.holding("note_text", match, notes)),
    )


def _loosened(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Quoted phrases turned into their words."""
    loose: dict[str, Word] = {}
    for word in words:
        pieces = [Word(p, (p,)) for f in word.forms for p in f.split()] if word.phrase else [word]
        for piece in pieces:
            loose.setdefault(piece.forms[0].lower(), piece)
    return tuple(loose.values())[:MAX_WORDS]


def _best_per_note(scored: list[Scored]) -> list[Scored]:
    best: dict[int, Scored] = {}
    for entry in scored:
        best.setdefault(entry.candidate.note, entry)
    return list(best.values())


def _nearness(entry: Scored, meaning: Meaning | None) -> float:
    """0 for what is no nearer to the question than any passage, 1 for the question itself."""
    vector = next((source for source in entry.sources if source.name == "vector"), None)
    if meaning is None or vector is None or vector.trust < 1:
        return 0.0
    floor = meaning.corpus_floor
    return (vector.scores.get(entry.candidate.chunk, floor) - floor) / (1 - floor)


def _elsewhere(entry: Scored) -> bool:
    """Whether the words stand in other passages of the note, and none of them nearby."""
    near = [s.name in ("passage", "window") for s in entry.sources]
    return any(near) and not any(part for part, by in zip(entry.parts, near, strict=True) if by)


def _with_evidence(
    scored: list[Scored], query: Query, lookup: Lookup, meaning: Meaning | None, *, finer: bool
) -> tuple[Ranked, ...]:
    """The best passages as hits.

    finer: passages were asked for, of an item or a day; the rest of a note speaks little for one.
    """
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
        little = coverage < WEAK_COVERAGE or (finer and _elsewhere(entry))
        ranked.append(
            Ranked(
                chunk=entry.candidate.chunk,
                note=note,
                score=entry.score,
                weak=little and _nearness(entry, meaning) < WEAK_NEARNESS,
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
