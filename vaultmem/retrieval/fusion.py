"""Channels on one scale, summed. Pure: numbers in, numbers out.

Each lexical channel is divided by its best score for this query. The vector channel is measured
from its floor, the question's similarity to the corpus as a whole, to its best: models whose
cosines all lie close together are then spread as far as the others. A passage without context
lends its own evidence to the context channels (the lone rule): its words would otherwise count
against windows and notes many times its length, or be counted three times over. A passage that has
no vector yet is judged by its words alone, as if there were no vectors.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from vaultmem.model.hit import ChannelScore

# Measured flat: a lexical weight from 1 to 1.5 moves recall by about .01, so they stay equal. The
# vector's was chosen on LoCoMo dialogues 1-5 and the even queries of the other sets (R@5 .681 at 1,
# .689 at 1.6; promdocs nDCG .579, .583; nl2bash .681, .690).
WEIGHTS: Mapping[str, float] = {"passage": 1.0, "vector": 1.5, "window": 1.0, "note": 1.0}

# Words are never AND-ed to nothing; holding all of them is worth this much on top of a sum of 1.
ALL_WORDS_BONUS = 0.12

# A question that is a note's name, title or alias and nothing else asks for that note.
NAME_BONUS = 1.0

# Reciprocal rank fusion adds 1 / (this + rank). With four channels 10 did better than the usual 60
# on LoCoMo (R@5 .657 against .626), and the sum of scores better than either (.670).
RRF_K = 10


class Fusion(StrEnum):
    """How channels are put together."""

    SUM = "sum"  # of scores on one scale
    RRF = "rrf"  # of reciprocal ranks


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that some channel found."""

    chunk: int
    note: int
    ordinal: int
    path: str
    lone: bool  # its window is itself
    only: bool  # its note has no other passage


@dataclass(frozen=True, slots=True)
class Complete:
    """Where all of the query's words stand together; empty for a query of one word."""

    passages: frozenset[int]  # chunk ids
    windows: frozenset[int]  # chunk ids
    notes: frozenset[int]  # note ids

    def share(self, candidate: Candidate) -> float:
        """1 for words within the passage, less the further apart they stand."""
        if candidate.chunk in self.passages:
            return 1.0
        if candidate.chunk in self.windows:
            return 0.75
        return 0.5 if candidate.note in self.notes else 0.0


@dataclass(frozen=True)
class Channel:
    """One ranked list: id -> raw score, larger is better."""

    name: str
    scores: Mapping[int, float]
    floor: float = 0.0  # the raw score that is worth nothing
    trust: float = 1.0  # what its weight is multiplied with for this query
    by_note: bool = False  # ids are those of notes, whose score each passage gets

    @cached_property
    def ranks(self) -> Mapping[int, int]:
        """1-based place of each id, by score."""
        places: dict[float, int] = {}
        for place, score in enumerate(sorted(self.scores.values(), reverse=True), 1):
            places.setdefault(score, place)  # equals share a place, so that it never depends on ids
        return {key: places[score] for key, score in self.scores.items()}

    @cached_property
    def scaled(self) -> Mapping[int, float]:
        """Scores from 0 at the floor to 1 at the best of this query."""
        reach = max(self.scores.values(), default=self.floor) - self.floor
        if reach <= 0:
            return dict.fromkeys(self.scores, 0.0)
        floor = self.floor
        return {key: max(0.0, (raw - floor) / reach) for key, raw in self.scores.items()}

    @cached_property
    def by_rank(self) -> Mapping[int, float]:
        """1 at the first place, falling with the rank as reciprocal rank fusion has it."""
        return {key: (RRF_K + 1) / (RRF_K + rank) for key, rank in self.ranks.items()}

    @property
    def weight(self) -> float:
        """What it counts for in this query."""
        return WEIGHTS[self.name] * self.trust


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate with its score and where it comes from."""

    candidate: Candidate
    score: float  # 0 to 1
    parts: tuple[float, ...]  # the scaled score of each channel, in their order
    share: float  # how near the query's words stand together, 0 to 1
    named: bool  # whether the whole query is the note's name
    sources: tuple[Channel, ...] = field(repr=False)

    @property
    def boosts(self) -> Mapping[str, float]:
        """What was added, by name; 0 where it does not apply."""
        return {
            "all words": ALL_WORDS_BONUS * self.share,
            "name": NAME_BONUS if self.named else 0.0,
        }

    @property
    def channels(self) -> tuple[ChannelScore, ...]:
        """How each channel saw the passage; made on demand, since few are shown of many."""
        shown: list[ChannelScore] = []
        lends = any(
            source.name == "passage"
            or (source.name == "vector" and self.candidate.chunk in source.scores)
            for source in self.sources
        )
        for source, scaled in zip(self.sources, self.parts, strict=True):
            key = self.candidate.note if source.by_note else self.candidate.chunk
            alone = self.candidate.lone if source.name == "window" else self.candidate.only
            shown.append(
                ChannelScore(
                    channel=source.name,
                    rank=source.ranks.get(key),
                    raw=source.scores.get(key, 0.0),
                    scaled=scaled,
                    weight=source.weight,
                    lent=lends and alone and source.name not in _OWN,
                )
            )
        return tuple(shown)


# What a passage has of its own, to be lent to the other channels where it stands alone.
_OWN = ("passage", "vector")


def fuse(
    candidates: Sequence[Candidate],
    channels: Sequence[Channel],
    *,
    complete: Complete,
    named: frozenset[int] = frozenset(),
    fusion: Fusion = Fusion.SUM,
) -> list[Scored]:
    """Rank passages, best first; ties by nearness, then by path and place, never by ids.

    channels: any of passage, vector, window and note; a channel left out counts for nothing. Where
              the vector channel lacks a passage, it counts for nothing in that passage's score:
              while a vault is being embedded, a quarter of its vectors would else give worse
              answers than none (MRR .59 against .63 on 65 questions; so it is .64).
    complete: who holds all of the query's words.
    named:    ids of the notes whose name the whole query is.
    """
    sources = tuple(channels)
    weights = [source.weight for source in sources]
    vector = next((source for source in sources if source.name == "vector"), None)
    words = sum(source.weight for source in sources if source is not vector)
    unseen: set[int] = set()
    if vector is not None and words:
        unseen = {c.chunk for c in candidates if c.chunk not in vector.scores}
    columns: list[list[float]] = []
    for source in sources:
        scale = source.by_rank if fusion is Fusion.RRF else source.scaled
        keys = [c.note for c in candidates] if source.by_note else [c.chunk for c in candidates]
        columns.append([scale.get(key, 0.0) for key in keys])
    _lend(candidates, sources, columns, unseen)
    sums = [0.0] * len(candidates)
    for weight, column in zip(weights, columns, strict=True):
        sums = [total + weight * part for total, part in zip(sums, column, strict=True)]
    full = sum(weights) or 1.0
    most = 1 + ALL_WORDS_BONUS + (NAME_BONUS if named else 0.0)
    scored: list[Scored] = []
    for place, (candidate, *parts) in enumerate(zip(candidates, *columns, strict=True)):
        share = complete.share(candidate)
        is_named = candidate.note in named
        mean = sums[place] / (words if candidate.chunk in unseen else full)
        score = mean + ALL_WORDS_BONUS * share + NAME_BONUS * is_named
        scored.append(Scored(candidate, score / most, tuple(parts), share, is_named, sources))
    # Below its floor the vector channel is worth nothing, and still knows what is nearer.
    near: Mapping[int, float] = vector.scores if vector is not None else {}
    scored.sort(
        key=lambda s: (
            -s.score,
            -near.get(s.candidate.chunk, -1.0),
            s.candidate.path,
            s.candidate.ordinal,
        )
    )
    return scored


def _lend(
    candidates: Sequence[Candidate],
    sources: Sequence[Channel],
    columns: list[list[float]],
    unseen: Collection[int],
) -> None:
    """The lone rule: a passage's own evidence in place of that of the context it does not have.

    unseen: chunk ids of which the vector channel knows nothing.
    """
    own = {s.name: column for s, column in zip(sources, columns, strict=True) if s.name in _OWN}
    weights = {source.name: source.weight for source in sources}
    passage, vector = own.get("passage"), own.get("vector")
    if passage is None or vector is None:
        mixed = passage if vector is None else vector
    else:
        # The vector lends no more than the passage: a neighbour without the word would else beat
        # the one short note that holds it (25 of 300 words that a single note holds).
        b, d = weights["passage"], weights["vector"]
        d *= min(1.0, WEIGHTS["passage"] / WEIGHTS["vector"])
        mixed = [(b * x + d * y) / (b + d) for x, y in zip(passage, vector, strict=True)]
    for source, column in zip(sources, columns, strict=True):
        if source.name in _OWN:
            continue
        for place, candidate in enumerate(candidates):
            if candidate.only if source.by_note else candidate.lone:
                lent = passage if candidate.chunk in unseen else mixed
                if lent is not None:
                    column[place] = lent[place]
