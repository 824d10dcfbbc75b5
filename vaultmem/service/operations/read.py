"""read: a note, or the section or block behind a `#`, as it stands in the file now."""

from dataclasses import dataclass, field, replace
from typing import Annotated

from vaultmem.index.rows import FoundNote
from vaultmem.model.errors import NoteNotFound
from vaultmem.model.note import Field, Note
from vaultmem.model.operation import About, Reply, Request
from vaultmem.security.hidden import shown, shown_in
from vaultmem.service.application import Memory
from vaultmem.service.budget import CUT, fitted
from vaultmem.service.find_note import find_note
from vaultmem.service.mending import mended
from vaultmem.service.note_text import read_note, screen_for
from vaultmem.service.operations.related import Backlink, LinkOut, backlinks_of, links_of
from vaultmem.service.refresh import make_ready
from vaultmem.service.uri import obsidian_uri
from vaultmem.vault.parse import parse, readable
from vaultmem.vault.read import Door
from vaultmem.vault.screen import Screen
from vaultmem.vault.subpath import find_place


@dataclass(frozen=True, slots=True)
class ReadRequest(Request):
    """What to read."""

    note: Annotated[str, About("Path, name or alias; #Heading or #^block may follow.")]


@dataclass(frozen=True, slots=True)
class ReadReply(Reply):
    """A note's text with what belongs to it."""

    path: str
    title: str
    subpath: str
    lines: tuple[int, int]  # of the text given: 1-based, inclusive
    text: str = field(metadata={CUT: ("lines", "truncated")})
    frontmatter: dict[str, object]
    properties: dict[str, object]  # with the fields of the text; the frontmatter wins
    fields: tuple[Field, ...]  # `key:: value` in the text
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    backlinks: tuple[Backlink, ...]
    links: tuple[LinkOut, ...]
    truncated: bool
    uri: str


@fitted
@mended
def read(memory: Memory, request: ReadRequest) -> ReadReply:
    """Give a note in full.

    Raises NoteNotFound (also when the subpath leads nowhere, naming what is there), NoteAmbiguous
    and Refused.
    """
    degraded = make_ready(memory)
    with memory.guarded():
        lookup = memory.lookup()
        found, subpath = find_note(lookup, request.note, memory.vault)
        with Door(memory.vault) as door:
            data = _bytes(memory, door, found)
            screen = screen_for(memory, found, data)
            text, first, last = _place(found.path, data, screen, subpath=subpath)
            backlinks = backlinks_of(lookup, door, found.path, memory)
        frontmatter = {shown(name): shown_in(v) for name, v in lookup.properties(found.id).items()}
        fields = tuple(
            replace(field, key=shown(field.key), value=shown(field.value))
            for field in lookup.fields_of(found.id)
        )
        return ReadReply(
            path=found.path,
            title=shown(found.title),
            subpath=subpath,
            lines=(first, last),
            text=shown(text),
            frontmatter=frontmatter,
            properties=_properties(frontmatter, fields),
            fields=fields,
            tags=tuple(map(shown, lookup.tags_of(found.id))),
            aliases=tuple(map(shown, lookup.aliases_of(found.id))),
            backlinks=backlinks,
            links=links_of(lookup, found),
            truncated=False,
            degraded=degraded,
            uri=obsidian_uri(memory.vault, found.path),
        )


def _properties(frontmatter: dict[str, object], fields: tuple[Field, ...]) -> dict[str, object]:
    """Both kinds of properties by name; a field given several times is a list of its values."""
    given: dict[str, list[str]] = {}
    for one in fields:
        given.setdefault(one.key, []).append(one.value)
    taken = {name.lower() for name in frontmatter}
    written: dict[str, object] = {
        name: values[0] if len(values) == 1 else values
        for name, values in given.items()
        if name.lower() not in taken
    }
    return {**frontmatter, **written}


def _bytes(memory: Memory, door: Door, found: FoundNote) -> bytes:
    data = read_note(memory, door, found)
    if isinstance(data, bytes):
        return data
    raise NoteNotFound(f"{found.path} was indexed and cannot be read now. {data.message}")


def _place(path: str, data: bytes, screen: Screen | None, *, subpath: str) -> tuple[str, int, int]:
    """(text, first line, last line) of what was asked for."""
    if subpath:
        note = parse(path, data, screen)
        place = find_place(note, subpath)
        if place is None:
            raise NoteNotFound(f"{path} has no place {subpath}. {_places(note)}")
        lines = note.text.split("\n")
        last = place.last if place.last is not None else len(lines)
        first = place.first
        text = "\n".join(lines[first - 1 : last])
    else:
        text = readable(path, data, screen)
        first = 1
    return text, first, first + text.rstrip("\n").count("\n")


def _places(note: Note) -> str:
    """What a subpath could have named."""
    headings = [shown(heading.text) for heading in note.headings][:12]
    ids = [f"^{block.id}" for block in note.block_ids][:12]
    if not headings and not ids:
        return "It has no headings and no block ids."
    return f"It has: {', '.join(headings + ids)}."
