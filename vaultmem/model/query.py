"""A question, taken apart."""

from dataclasses import dataclass
from datetime import date
from enum import StrEnum


class Mode(StrEnum):
    """Which channels may answer."""

    HYBRID = "hybrid"
    KEYWORD = "keyword"
    SEMANTIC = "semantic"
    GRAPH = "graph"


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on the note; all of them must hold. Applied inside the query, not afterwards."""

    tags: tuple[str, ...] = ()  # without `#`; a parent matches its children
    paths: tuple[str, ...] = ()  # a folder, a note, or a glob
    kinds: tuple[str, ...] = ()
    after: date | None = None  # the note's date is on or after
    before: date | None = None  # the note's date is on or before

    def __bool__(self) -> bool:
        return bool(self.tags or self.paths or self.kinds or self.after or self.before)


@dataclass(frozen=True, slots=True)
class Word:
    """One thing to look for: a word, an identifier or a phrase."""

    text: str  # as typed, for people
    forms: tuple[str, ...]  # each a run of tokens to be matched in sequence; any may match
    phrase: bool = False  # quoted by the asker
    compound: bool = False  # several tokens in one, which are looked for one by one as well


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed question."""

    text: str  # as typed
    words: tuple[Word, ...]  # what to look for, stop words dropped where others remain
    excluded: tuple[Word, ...]  # a hit must not hold these
    filters: Filters
    name: str = ""  # all that was asked, filters and quotes aside: it may be a note's name
    asked: str = ""  # the question in its own words, without filters, quotes and exclusions
    dropped: int = 0  # words beyond what one question may hold

    @property
    def required(self) -> tuple[Word, ...]:
        """Quoted phrases, of which a hit must hold every one."""
        return tuple(word for word in self.words if word.phrase)
