"""related: where a note's links lead, and which notes lead to it."""

from dataclasses import dataclass
from typing import Annotated

from vaultmem.index.lookup import Lookup
from vaultmem.index.rows import FoundNote
from vaultmem.model.errors import NoteNotFound
from vaultmem.model.operation import About, Reply, Request
from vaultmem.security.hidden import shown
from vaultmem.service.application import Memory
from vaultmem.service.budget import fitted
from vaultmem.service.find_note import find_note
from vaultmem.service.mending import mended
from vaultmem.service.note_text import NO_NOTE, is_indexed, read_note, shown_text
from vaultmem.service.refresh import gone_files, make_ready
from vaultmem.vault.read import Door, Unread

MAX_LINE_CHARS = 300
# Of a note, in either direction: a generated list may have more, and nobody reads them all.
MAX_LINKS = 10_000


@dataclass(frozen=True, slots=True)
class RelatedRequest(Request):
    """Whose links to give."""

    note: Annotated[str, About("Path, name or alias.")]


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
class RelatedReply(Reply):
    """A note's links in both directions."""

    path: str
    links: tuple[LinkOut, ...]
    backlinks: tuple[Backlink, ...]


@fitted
@mended
def related(memory: Memory, request: RelatedRequest) -> RelatedReply:
    """Links and backlinks of a note. Raises NoteNotFound, NoteAmbiguous and Refused."""
    degraded = make_ready(memory)
    with memory.guarded():
        lookup = memory.lookup()
        found, _ = find_note(lookup, request.note, memory.vault)
        with Door(memory.vault) as door:
            data = read_note(memory, door, found)
            if isinstance(data, Unread) and gone_files(memory, [found.disk_path]):
                raise NoteNotFound(f"{found.path} was indexed and is gone.")
            backlinks = backlinks_of(lookup, door, found.path, memory)
        links = links_of(lookup, found)
        if MAX_LINKS in (len(links), len(backlinks)):
            degraded += (f"No more than {MAX_LINKS:,} links in a direction are given.",)
        return RelatedReply(found.path, links, backlinks, degraded=degraded)


def links_of(lookup: Lookup, note: FoundNote) -> tuple[LinkOut, ...]:
    """The note's links in source order; those of properties behind them, arrows last.

    MAX_LINKS at most.
    """
    links: list[LinkOut] = []
    owners_of: dict[str, list[str]] = {}
    written = lookup.links_from(note.id)[:MAX_LINKS]
    for target, subpath, display, embed, line, prop, resolved in written:
        alias_of = None
        if resolved is None and target:
            if target not in owners_of:
                owners_of[target] = lookup.alias_owners(target)
            owners = owners_of[target]
            alias_of = owners[0] if len(owners) == 1 else None
        links.append(
            LinkOut(
                shown(target),
                shown(display) if display is not None else None,
                shown(subpath),
                embed,
                line,
                shown(prop) if prop is not None else None,
                resolved,
                alias_of,
            )
        )
    for canvas, target, label, line, resolved in lookup.arrows_from(note.path):
        links.append(
            LinkOut(target, shown(label) or None, "", False, line, None, resolved, None, via=canvas)
        )
    return tuple(links[:MAX_LINKS])


def backlinks_of(lookup: Lookup, door: Door, path: str, memory: Memory) -> tuple[Backlink, ...]:
    """Lines of other notes that link to `path`, with their text as it stands now.

    MAX_LINKS at most. What stands in a note that is gone is no backlink.
    """
    backlinks: list[Backlink] = []
    lines: list[str] | None = []
    at: str | None = None
    for source, line, arrow_from in lookup.links_to(path)[:MAX_LINKS]:
        if source != at:
            at, lines = source, _lines_now(memory, lookup, door, source)
        if lines is None:
            continue
        text = lines[line - 1].strip()[:MAX_LINE_CHARS] if line <= len(lines) else ""
        backlinks.append(Backlink(source, line, shown(text), arrow_from))
    return tuple(backlinks)


def _lines_now(memory: Memory, lookup: Lookup, door: Door, path: str) -> list[str] | None:
    """A note's lines as they stand now; None where it is gone, and none where it is unreadable."""
    note = lookup.note_at(path)
    if note is None:
        return []
    data = read_note(memory, door, note)
    if isinstance(data, bytes):
        # (Of another text than the indexed one, the line would be another.)
        return shown_text(memory, note, data).split("\n") if is_indexed(note, data) else []
    return None if data.code in NO_NOTE and gone_files(memory, [note.disk_path]) else []


def lines_of(memory: Memory, lookup: Lookup, door: Door, path: str) -> list[str]:
    """A note's lines as they stand now; none where it cannot be read."""
    note = lookup.note_at(path)
    if note is None:
        return []
    data = read_note(memory, door, note)
    return shown_text(memory, note, data).split("\n") if isinstance(data, bytes) else []
