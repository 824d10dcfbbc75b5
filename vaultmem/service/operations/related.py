"""related: where a note's links lead, and which notes lead to it."""

from dataclasses import dataclass

from vaultmem.index.lookup import Lookup
from vaultmem.index.rows import FoundNote
from vaultmem.service.application import Memory
from vaultmem.service.find_note import find_note
from vaultmem.service.refresh import make_ready
from vaultmem.vault.parse import readable
from vaultmem.vault.read import Door

MAX_LINE_CHARS = 300


@dataclass(frozen=True, slots=True)
class RelatedRequest:
    """Whose links to give."""

    note: str  # path, name or alias


@dataclass(frozen=True, slots=True)
class LinkOut:
    """A link of the note."""

    link: str  # as written, before the `#`
    display: str | None
    subpath: str
    embed: bool
    line: int
    property: str | None  # dotted name, when it stands in the frontmatter
    resolved: str | None  # the file it leads to
    alias_of: str | None  # for a link that leads nowhere: the note whose alias it is
    via: str | None = None  # the canvas that draws this link as an arrow


@dataclass(frozen=True, slots=True)
class Backlink:
    """A line of another note that links here."""

    path: str
    line: int
    text: str
    arrow_from: str | None = None  # for an arrow of a canvas: the file it comes from


@dataclass(frozen=True, slots=True)
class RelatedReply:
    """A note's links in both directions."""

    path: str
    links: tuple[LinkOut, ...]
    backlinks: tuple[Backlink, ...]
    degraded: tuple[str, ...]


def related(memory: Memory, request: RelatedRequest) -> RelatedReply:
    """Links and backlinks of a note. Raises NoteNotFound, NoteAmbiguous and Refused."""
    degraded = make_ready(memory)
    with memory.guarded():
        lookup = memory.lookup()
        found, _ = find_note(lookup, request.note)
        with Door(memory.vault) as door:
            backlinks = backlinks_of(lookup, door, found.path, memory)
        return RelatedReply(found.path, links_of(lookup, found), backlinks, degraded)


def links_of(lookup: Lookup, note: FoundNote) -> tuple[LinkOut, ...]:
    """The note's links in source order; those of properties behind them, arrows last."""
    links: list[LinkOut] = []
    for target, subpath, display, embed, line, prop, resolved in lookup.links_from(note.id):
        owners = lookup.alias_owners(target) if resolved is None and target else []
        alias_of = owners[0] if len(owners) == 1 else None
        links.append(LinkOut(target, display, subpath, embed, line, prop, resolved, alias_of))
    for canvas, target, label, line, resolved in lookup.arrows_from(note.path):
        links.append(
            LinkOut(target, label or None, "", False, line, None, resolved, None, via=canvas)
        )
    return tuple(links)


def backlinks_of(lookup: Lookup, door: Door, path: str, memory: Memory) -> tuple[Backlink, ...]:
    """Lines of other notes that link to `path`, with their text as it stands now."""
    backlinks: list[Backlink] = []
    lines: list[str] = []
    at: str | None = None
    for source, line, arrow_from in lookup.links_to(path):
        if source != at:
            at, lines = source, lines_of(memory, lookup, door, source)
        text = lines[line - 1].strip()[:MAX_LINE_CHARS] if line <= len(lines) else ""
        backlinks.append(Backlink(source, line, text, arrow_from))
    return tuple(backlinks)


def lines_of(memory: Memory, lookup: Lookup, door: Door, path: str) -> list[str]:
    """A note's lines as they stand now; none where it cannot be read."""
    note = lookup.note_at(path)
    if note is None:
        return []
    data = door.read(note.disk_path, limit=memory.settings["scan.max_note_bytes"])
    return readable(path, data).split("\n") if isinstance(data, bytes) else []
