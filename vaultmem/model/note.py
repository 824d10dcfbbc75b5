"""A note as vaultmem understands it: what parsing returns.

Lines are 1-based and inclusive, offsets are in characters of the decoded text, both counted in
the file as it is (frontmatter included), so that a person can go there in an editor.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

Properties = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something a person should know about a file; never a reason to stop."""

    path: str  # vault path, NFC, `/` between parts
    line: int  # 1-based; 0 when the whole file is meant
    code: str  # stable, for scripts: "frontmatter-invalid", "note-too-large", …
    message: str  # one sentence: what was found and what follows


class Screening(IntEnum):
    """How much of a file's text was kept out of everything."""

    NOTHING = 0
    PARTS = 1  # secrets and private spans: the text is not the file's
    WITHHELD = 2  # all of it: the note is known by its name only


@dataclass(frozen=True, slots=True)
class Finding:
    """A credential in a note. What it is and where, never the credential."""

    line: int
    kind: str  # the rule that found it: `github-pat`
    shown: str  # its beginning, of four characters at most
    fingerprint: str  # what it can be allowed by; "" where there is no key to make one with
    allowed: bool


@dataclass(frozen=True, slots=True)
class FoundSecret:
    """A credential that was found in the note at a path."""

    path: str
    line: int
    kind: str
    shown: str  # its beginning, of four characters at most
    fingerprint: str  # what it can be allowed by; "" where there is no key to make one with
    allowed: bool


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading that opens a section of the note."""

    level: int  # 1 to 6
    text: str  # the raw Markdown of the line, without its marks
    line: int
    start: int  # offset of the line
    body: int  # offset behind the heading, where its own text begins


@dataclass(frozen=True, slots=True)
class Link:
    """One link or embed as written, before anyone asks where it leads."""

    target: str  # the link text before the first `#`; "" for a place in the same note
    subpath: str  # "#Heading", "#A#B", "#^block", or ""
    display: str | None  # text behind the bar or between the brackets
    embed: bool
    line: int
    key: str | None = None  # dotted property name when the link stands in frontmatter
    exact: bool = False  # a vault path and nothing else, as a canvas names its files


@dataclass(frozen=True, slots=True)
class Task:
    """A list item with a check box."""

    line: int
    status: str  # the one character between the brackets; a blank means open
    text: str

    @property
    def done(self) -> bool:
        """Obsidian counts anything but a blank as done."""
        return self.status != " "


@dataclass(frozen=True, slots=True)
class Callout:
    """The opening line of a callout block."""

    line: int
    kind: str  # lower case, as written otherwise
    title: str


@dataclass(frozen=True, slots=True)
class BlockId:
    """A `^id` that a link can point at."""

    id: str
    line: int


@dataclass(frozen=True, slots=True)
class Field:
    """A `key:: value` written into the text: a property that stands where it belongs."""

    key: str
    value: str
    line: int
    alone: bool  # the whole of its line, and no item of a list: it speaks for the note


@dataclass(frozen=True, slots=True)
class Item:
    """A stretch of a note that is something of its own: a decision, an error, a dated entry."""

    kind: str
    date: str | None  # ISO day that it names itself or stands under; None for the note's
    first: int  # lines, 1-based and inclusive
    last: int
    text: str  # what a list of items shows, on one line
    origin: str  # what makes it one: "field", "callout" or "entry"


@dataclass(frozen=True, slots=True)
class Arrow:
    """An edge of a canvas between two of its files."""

    source: str  # vault paths as the canvas has them
    target: str
    label: str
    line: int


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """The properties block at the top of a note, if Obsidian would see one."""

    exists: bool  # an opening and a closing fence are there
    valid: bool  # and what stands between them is a mapping (or empty)
    properties: Properties  # empty when invalid
    text: str  # the raw block between the fences
    lines: int  # lines taken, both fences included; 0 when absent
    end: int  # offset of the first character behind the block


class Block(NamedTuple):
    """A piece of block structure that a passage may begin at (a tuple: a note has hundreds)."""

    kind: str  # "paragraph", "item", "quote", "fence", "table", "html", "hidden", "other"
    depth: int  # nesting: 0 at the top level
    first: int  # 0-based line where it begins
    after: int  # 0-based line behind its last


class Part(NamedTuple):
    """A stretch of the text that is searched; no heading reaches beyond the part it stands in."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Note:
    """Everything one file says, as values. Made from any bytes without ever raising."""

    path: str
    title: str  # frontmatter `title` when it is a text, else the file's name without `.md`
    text: str  # the decoded file: no BOM, line ends as `\n`; of a canvas, what its cards say
    line_starts: tuple[int, ...]  # offset of the first character of each line
    frontmatter: Frontmatter
    headings: tuple[Heading, ...]
    blocks: tuple[Block, ...]  # in source order, headings left out
    links: tuple[Link, ...]  # in source order, those of properties last
    tags: tuple[str, ...]  # without `#`; properties first, then the body; first spelling wins
    aliases: tuple[str, ...]
    block_ids: tuple[BlockId, ...]
    tasks: tuple[Task, ...]
    callouts: tuple[Callout, ...]
    fields: tuple[Field, ...]
    parts: tuple[Part, ...]  # in order, without overlap; what lies between them is not searched
    arrows: tuple[Arrow, ...]  # of a canvas
    problems: tuple[Problem, ...]
    findings: tuple[Finding, ...] = ()  # credentials, the allowed ones too
    screening: Screening = Screening.NOTHING  # what `text` lacks of the file

    @property
    def name(self) -> str:
        """The file's name without folder and `.md`: what a wikilink calls it."""
        return note_name(self.path)


def note_name(path: str) -> str:
    """The last part of a vault path, without the `.md` (any case) of a note."""
    last = path.rsplit("/", 1)[-1]
    return last[:-3] if last[-3:].lower() == ".md" else last
