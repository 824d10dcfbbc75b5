"""Channels on one scale, summed. Pure: numbers in, numbers out.

Each lexical channel is divided by its best score for this query. A passage without context lends
its own evidence to the context channels (the lone rule): its words would otherwise count against
windows and notes many times its length, or be counted three times over.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from vaultmem.model.hit import ChannelScore

# Measured flat: from 1 to 1.5 each moves recall by about .01, so they stay equal.
WEIGHTS: Mapping[str, float] = {"passage": 1.0, "window": 1.0, "note": 1.0}

# Words are never AND-ed to nothing; holding all of them is worth this much on top of a sum of 1.
ALL_WORDS_BONUS = 0.12

# A question that is a note's name, title or alias and nothing else asks for that note.
NAME_BONUS = 1.0


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
class Scored:
    """A candidate with its score and where it comes from."""

    candidate: Candidate
    score: float  # 0 to 1
    channels: tuple[ChannelScore, ...]
    boosts: Mapping[str, float]  # what was added, by name; 0 where it does not apply


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


@dataclass(frozen=True, slots=True)
class Channel:
    """One ranked list: id -> raw score, larger is better."""

    name: str
    scores: Mapping[int, float]

    def ranks(self) -> dict[int, int]:
        """1-based place of each id, by score."""
        places: dict[float, int] = {}
        for place, score in enumerate(sorted(self.scores.values(), reverse=True), 1):
            places.setdefault(score, place)  # equals share a place, so that it never depends on ids
        return {key: places[score] for key, score in self.scores.items()}

    def best(self) -> float:
        """The largest score, or 0."""
        return max(self.scores.values(), default=0.0)


def fuse(
    candidates: list[Candidate],
    passage: Channel,
    window: Channel,
    note: Channel,
    *,
    complete: Complete,
    named: frozenset[int] = frozenset(),
) -> list[Scored]:
    """Rank passages, best first; ties by path and place, so that the order never depends on ids.

    passage, window: scores by chunk id.
    note:            scores by note id, given to each passage of the note.
    complete:        who holds all of the query's words.
    named:           ids of the notes whose name the whole query is.
    """
    ranks = {channel.name: channel.ranks() for channel in (passage, window, note)}
    tops = {channel.name: channel.best() for channel in (passage, window, note)}
    total = sum(WEIGHTS.values())
    most = 1 + ALL_WORDS_BONUS + (NAME_BONUS if named else 0.0)
    scored: list[Scored] = []
    for candidate in candidates:
        own = _score(passage, candidate.chunk, ranks, tops)
        around = _score(window, candidate.chunk, ranks, tops)
        whole = _score(note, candidate.note, ranks, tops)
        if candidate.lone:
            around = _lent(around, own)
        if candidate.only:
            whole = _lent(whole, own)
        channels = (own, around, whole)
        score = sum(WEIGHTS[channel.channel] * channel.scaled for channel in channels) / total
        boosts = {
            "all words": ALL_WORDS_BONUS * complete.share(candidate),
            "name": NAME_BONUS if candidate.note in named else 0.0,
        }
        scored.append(Scored(candidate, (score + sum(boosts.values())) / most, channels, boosts))
    scored.sort(key=lambda s: (-s.score, s.candidate.path, s.candidate.ordinal))
    return scored


def _score(
    channel: Channel, key: int, ranks: Mapping[str, Mapping[int, int]], tops: Mapping[str, float]
) -> ChannelScore:
    raw = channel.scores.get(key, 0.0)
    top = tops[channel.name]
    return ChannelScore(
        channel=channel.name,
        rank=ranks[channel.name].get(key),
        raw=raw,
        scaled=raw / top if top > 0 else 0.0,
    )


def _lent(channel: ChannelScore, own: ChannelScore) -> ChannelScore:
    return ChannelScore(channel.channel, channel.rank, channel.raw, own.scaled, lent=True)
