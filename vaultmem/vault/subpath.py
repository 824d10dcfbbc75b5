"""What stands behind the `#` of a link: a heading's section or a block."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from vaultmem.model.note import Block, Heading, Note

# Obsidian compares headings with these turned into blanks, on both sides.
_HEADING_PUNCTUATION = re.compile(r"[!\"#$%&()*+,.:;<=>?@^`{|}~/\[\]\\\r\n]+")
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Place:
    """The lines a subpath names: 1-based, inclusive; `last` is None for the end of the file."""

    kind: str  # "heading" or "block"
    first: int
    last: int | None


def comparable_heading(text: str) -> str:
    """A heading as Obsidian compares it, case aside."""
    return _BLANKS.sub(" ", _HEADING_PUNCTUATION.sub(" ", text)).strip()


def find_place(note: Note, subpath: str) -> Place | None:
    """Where `subpath` ("#Heading", "#A#B", "#^block") leads in the note, or None."""
    parts = [part for part in subpath.split("#") if part.strip()]
    if not parts:
        return None
    if parts[-1].startswith("^"):
        return _block(note, parts[-1][1:].strip())
    # A heading may hold a `#` itself.
    return _section(note.headings, parts) or _section(note.headings, [subpath.lstrip("#")])


def _section(headings: Sequence[Heading], parts: Sequence[str]) -> Place | None:
    wanted = [comparable_heading(part).lower() for part in parts]
    at = 0
    level = 0
    for index, heading in enumerate(headings):
        if comparable_heading(heading.text).lower() == wanted[at] and heading.level > level:
            at += 1
            level = heading.level
            if at == len(wanted):
                following = next(
                    (other for other in headings[index + 1 :] if other.level <= heading.level),
                    None,
                )
                return Place("heading", heading.line, following.line - 1 if following else None)
    return None


def _block(note: Note, wanted: str) -> Place | None:
    for block_id in note.block_ids:
        if block_id.id.lower() != wanted.lower():
            continue
        row = block_id.line - 1
        lines = note.text.split("\n")
        alone = lines[row].strip() == f"^{block_id.id}"
        holders = [
            block for block in note.blocks if block.kind in ("paragraph", "item", "table", "fence")
        ]
        inside = [block for block in holders if block.first <= row < block.after]
        if alone and not any(block.first < row for block in inside):
            # An id on a line of its own names the structured block above it.
            above = [block for block in note.blocks if block.after <= row and block.depth == 0]
            if above:
                last = max(above, key=lambda block: block.after)
                return _trimmed(last, lines)
        if inside:
            inner = [block for block in inside if block.kind == "item"] or inside
            block = max(inner, key=lambda block: block.depth)
            return _trimmed(block, lines)
        return Place("block", block_id.line, block_id.line)
    return None


def _trimmed(block: Block, lines: Sequence[str]) -> Place:
    """The block's lines without the blank ones that end it."""
    last = block.after
    while last - 1 > block.first and not lines[last - 1].strip():
        last -= 1
    return Place("block", block.first + 1, last)
