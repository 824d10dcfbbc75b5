"""A passage: the slice of a note that is searched and shown as one."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chunk:
    """A slice of a note's source; chunks of a note follow each other and overlap nowhere."""

    key: str  # stable within the note: the same text under the same headings keeps its key
    trail: tuple[str, ...]  # headings above it, outermost first
    first_line: int  # 1-based, inclusive
    last_line: int
    start: int  # offset in the decoded text
    end: int
    text: str  # exactly text[start:end] of the note, less surrounding blank lines
    body: int  # offset within `text` behind the heading line it opens with; 0 if it opens with none
    pieces: int  # estimated word pieces, trail included
    items: tuple[tuple[str, str | None], ...] = ()  # (kind, ISO day) of those it is part of,
    # innermost first; None for the note's own day
