"""The rows of the full-text index, as a pure function of what is stored about a note.

The same function makes the rows that go in and the rows that come out again: FTS5 without its own
copy of the text can forget a row only when told exactly what stood in it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vaultmem.index.text import name_parts, prepare, prepare_plain
from vaultmem.model.chunk import Chunk
from vaultmem.model.note import Note

# Bump when rows change, so that sidecars are rebuilt.
DOCUMENTS_VERSION = 4

# A window is the passage with its neighbours, while all of it stays within this many word pieces
# (150 words of prose; fewer where links and code make words long) and two neighbours a side.
WINDOW_PIECES = 220
WINDOW_REACH = 2

# Longer properties are searched by their beginning; derived fields are cut, never refused. They
# stand in the rows of the first passage, of its window and of the note: a block of properties has
# 64,000 characters at most, unless it is no YAML.
MAX_PROPERTY_CHARS = 100_000
# Each value has the names of all mappings around it before it.
MAX_NAME_CHARS = 200

COLUMNS = ("title", "aliases", "headings", "tags", "properties", "path", "body")

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SearchedFields:
    """What is searched of a note besides its passages."""

    path: str
    title: str  # the title, and the file's name where that differs
    aliases: str
    tags: str
    properties: str


@dataclass(frozen=True, slots=True)
class Documents:
    """The rows of one note, in the order of its passages."""

    passages: tuple[Row, ...]  # COLUMNS
    windows: tuple[Row | None, ...]  # COLUMNS; None where the window is the passage
    note: Row  # COLUMNS


def searched_fields(note: Note) -> SearchedFields:
    """What is searched of a note besides its passages."""
    title = note.title if note.title == note.name else f"{note.title}\n{note.name}"
    if note.frontmatter.valid:
        properties = "\n".join(_first(_property_texts(note), MAX_PROPERTY_CHARS))
    else:
        properties = note.frontmatter.text  # broken YAML is still text somebody remembers
    return SearchedFields(
        path=note.path,
        title=title,
        aliases="\n".join(note.aliases)[:MAX_PROPERTY_CHARS],
        tags=" ".join(note.tags)[:MAX_PROPERTY_CHARS],
        properties=properties[:MAX_PROPERTY_CHARS],
    )


def _first(texts: Iterable[str], size: int) -> Iterator[str]:
    """As many of the texts as it takes to have `size` characters."""
    for text in texts:
        yield text
        size -= len(text)
        if size < 0:
            return


_NUMBER = re.compile(r"(?<![\w.])[-+.]?\d[\w.+-]*")


def _property_texts(note: Note) -> Iterator[str]:
    """`key value` lines of everything that has no column of its own."""
    # What is a title, an alias or a tag has one; a value there that is none is text all the same.
    taken = {note.title, *note.aliases, *note.tags}
    numbers: set[str] = set()
    for name, value in _leaves(note.frontmatter.properties):
        named = isinstance(value, str) and name.lower() in ("title", "aliases", "tags")
        if named and {str(value).strip(), str(value).strip().lstrip("#")} & taken:
            continue
        yield f"{name} {value}"
        if isinstance(value, int | float) and not isinstance(value, bool):
            numbers.add(str(value))
    if numbers:
        written = _NUMBER.findall(note.frontmatter.text)
        if not numbers.issubset(written):
            # `01234` is a number to YAML and a postal code to the person who looks for it.
            yield " ".join(written)


def _leaves(properties: object, name: str = "") -> Iterator[tuple[str, object]]:
    """(dotted name, value) of everything that is no list and no mapping."""
    if isinstance(properties, dict):
        for key, value in properties.items():
            yield from _leaves(value, f"{name} {key}".strip()[:MAX_NAME_CHARS])
    elif isinstance(properties, list):
        for value in properties:
            yield from _leaves(value, name)
    elif properties is not None:
        yield name, properties


def documents(fields: SearchedFields, chunks: Sequence[Chunk]) -> Documents:
    """The full-text rows of a note.

    The first passage carries the note's aliases, tags, properties and path, as it does in the
    file: a note of one passage is then as findable by them as a note of many.
    """
    title = prepare(fields.title)
    about = (
        prepare(fields.aliases),
        prepare(fields.tags),
        prepare(fields.properties),
        prepare(fields.path),
    )
    texts = [chunk.text[chunk.body :] for chunk in chunks]
    bodies = [prepare_plain(text) for text in texts]
    parts = [name_parts(text) for text in texts]
    # Each heading stands in the trail of every passage below it: prepare it once.
    headings = {h: prepare(h) for h in {h for chunk in chunks for h in chunk.trail}}
    trails = [" ".join([headings[heading] for heading in chunk.trail]) for chunk in chunks]
    own = [headings[chunk.trail[-1]] if chunk.body and chunk.trail else "" for chunk in chunks]
    aliases, tags, properties, path = about
    passages = tuple(
        (title, aliases, trail, tags, properties, path, _body([body], [part]))
        if index == 0
        else (title, "", trail, "", "", "", _body([body], [part]))
        for index, (trail, body, part) in enumerate(zip(trails, bodies, parts, strict=True))
    )
    pieces = [chunk.pieces for chunk in chunks]
    windows: list[Row | None] = []
    for index in range(len(chunks)):
        first, after = _window(pieces, index)
        if after - first == 1:
            windows.append(None)
            continue
        around = [own[i] for i in range(first, after) if i != index and own[i]]
        nearby = " ".join([trails[index], *around])
        body = _body(bodies[first:after], parts[first:after])
        windows.append((*passages[index][:2], nearby, *passages[index][3:6], body))
    note = (title, aliases, "\n".join(h for h in own if h), tags, properties, path)
    return Documents(passages, tuple(windows), (*note, _body(bodies, parts)))


def _body(bodies: Sequence[str], parts: Sequence[str]) -> str:
    """Texts side by side, and behind all of them what they are also found by."""
    return "\n".join([*bodies, *filter(None, parts)])


def _window(pieces: Sequence[int], index: int) -> tuple[int, int]:
    """The (first, after) indexes of the passages around one, taken before and after in turn."""
    first, after = index, index + 1
    total = pieces[index]
    growing = {"before", "after"}
    turn = "before"
    while growing:
        if turn in growing:
            neighbour = first - 1 if turn == "before" else after
            near = index - WINDOW_REACH <= neighbour <= index + WINDOW_REACH
            if (
                not near
                or not 0 <= neighbour < len(pieces)
                or total + pieces[neighbour] > WINDOW_PIECES
            ):
                growing.discard(turn)
            else:
                total += pieces[neighbour]
                first, after = min(first, neighbour), max(after, neighbour + 1)
        turn = "after" if turn == "before" else "before"
    return first, after
