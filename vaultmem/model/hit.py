"""An answer to a query, and why it was given."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChannelScore:
    """How one channel saw a passage."""

    channel: str  # "passage", "vector", "window", "note"; later "graph", …
    rank: int | None  # 1-based place in the channel's list; None when it was not in it
    raw: float  # the channel's own score, larger is better
    scaled: float  # 0 to 1, on the scale the channels share
    weight: float = 1.0  # what `scaled` counts for in this query
    lent: bool = False  # not its own: the lone rule gave it the passage's score


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that went into a hit's score."""

    channels: tuple[ChannelScore, ...]
    matched: tuple[str, ...]  # query words the note holds
    missing: tuple[str, ...]  # query words it does not
    coverage: float  # 0 to 1: share of the query's information that the note holds
    boosts: Mapping[str, float]  # name -> what it added

    def __bool__(self) -> bool:
        return bool(self.channels)


NO_EVIDENCE = Evidence((), (), (), 0.0, {})


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage worth reading."""

    path: str
    title: str
    heading: tuple[str, ...]  # trail, outermost first
    lines: tuple[int, int]  # 1-based, inclusive
    snippet: str
    score: float  # 0 to 1 within this query; not comparable between queries
    kind: str  # the item's, where the passage is one, else the note's
    date: str | None  # ISO day, likewise
    item: bool  # the passage is an item of the note: a decision, an entry of a log …
    weak: bool  # matches too little of the question to be trusted
    stub: bool  # the note has next to no text
    stale: bool  # the file has changed since it was indexed
    uri: str  # opens the place in Obsidian; "" in an index
    evidence: Evidence  # nothing in an index
