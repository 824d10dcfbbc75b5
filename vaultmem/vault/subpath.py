"""What stands behind the `#` of a link: a heading's section, a block or a footnote."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from vaultmem.model.note import Block, Note, Part
from vaultmem.vault.blocks import block_structure
from vaultmem.vault.composed import normal_form
from vaultmem.vault.paths import fold

# Obsidian compares headings with these turned into blanks, on both sides.
_HEADING_PUNCTUATION = re.compile(r"[!\"#$%&()*+,.:;<=>?@^`{|}~/\[\]\\\r\n]+")
_BLANKS = re.compile(r"\s+")
# The last bracket is missing where `[[Note#[^1]]]` was read up to its first `]]`.
_FOOTNOTE = re.compile(r"#\[\^([^\[\]\s]+)\]?\s*$")
_DEFINITION = re.compile(r"[ \t]*\[\^([^\[\]\s]+)\]:")
_QUOTE_MARKS = re.compile(r"(?:[ \t]*>)*")


@dataclass(frozen=True, slots=True)
class Place:
    """The lines a subpath names: 1-based, inclusive; `last` is None for the end of the file."""

    kind: str  # "heading", "block" or "footnote"
    first: int
    last: int | None


def comparable_heading(text: str) -> str:
    """A heading as Obsidian compares it, case aside."""
    # Composed first: taken apart, the mark of `≠` would be left of an `=` that is replaced.
    text = normal_form("NFC", text)
    return _BLANKS.sub(" ", _HEADING_PUNCTUATION.sub(" ", text)).strip()


def find_place(note: Note, subpath: str) -> Place | None:
    """Where `subpath` ("#Heading", "#A#B", "#^block", "#[^1]") leads in the note, or None."""
    footnote = _FOOTNOTE.search(subpath)
    if footnote is not None:
        return _footnote(note, footnote.group(1))
    parts = [part for part in subpath.split("#") if part.strip()]
    if not parts:
        return None
    if parts[-1].startswith("^"):
        return _block(note, parts[-1][1:].strip())
    # A heading may hold a `#` itself.
    return _section(note, parts) or _section(note, [subpath.lstrip("#")])


def _section(note: Note, parts: Sequence[str]) -> Place | None:
    wanted = [fold(comparable_heading(part)) for part in parts]
    at = 0
    level = 0
    for index, heading in enumerate(note.headings):
        if heading.level > level and fold(comparable_heading(heading.text)) == wanted[at]:
            at += 1
            level = heading.level
            if at == len(wanted):
                return Place("heading", heading.line, _section_end(note, index))
    return None


def _section_end(note: Note, index: int) -> int | None:
    """The last line before the next heading of the same or a higher rank; None: no such line."""
    heading = note.headings[index]
    _, after = _part_of(note, heading.line - 1)
    for other in note.headings[index + 1 :]:
        if other.line > after:
            break
        if other.level <= heading.level:
            return other.line - 1
    return after if after < len(note.line_starts) else None


def _part_of(note: Note, row: int) -> tuple[int, int]:
    """The rows, half-open, of the part that a row stands in: of a canvas, its card."""
    at = note.line_starts[row]
    for part in note.parts:
        if part.start <= at < part.end:
            return _rows(note, part)
    return 0, len(note.line_starts)


def _rows(note: Note, part: Part) -> tuple[int, int]:
    first = bisect_left(note.line_starts, part.start)
    # A last line without a character is one of the file too.
    whole = part.end == len(note.text)
    return first, len(note.line_starts) if whole else bisect_left(note.line_starts, part.end)


def _block(note: Note, wanted: str) -> Place | None:
    for block_id in note.block_ids:
        if block_id.id.lower() != wanted.lower():
            continue
        row = block_id.line - 1
        lines = note.text.split("\n")
        holders = [
            block for block in note.blocks if block.kind in ("paragraph", "item", "table", "fence")
        ]
        inside = [block for block in holders if block.first <= row < block.after]
        alone = lines[row].strip() == f"^{block_id.id}" and all(
            block.first == row and _last_line(block, lines) == row + 1 for block in inside
        )
        if alone:
            above = _above(note, row, lines)
            if above is not None:
                return above
        if inside:
            inner = [block for block in inside if block.kind == "item"] or inside
            return _lines_of(max(inner, key=lambda block: block.depth), lines)
        return Place("block", block_id.line, block_id.line)
    return None


def _above(note: Note, row: int, lines: Sequence[str]) -> Place | None:
    """What an id that is alone on row `row` names: the structured block or the heading above."""
    begin, _ = _part_of(note, row)
    blocks = [block for block in note.blocks if block.depth == 0 and begin <= block.first]
    block = max(
        (block for block in blocks if block.after <= row),
        key=lambda block: block.after,
        default=None,
    )
    headings = [heading for heading in note.headings if begin < heading.line <= row]
    if headings and (block is None or headings[-1].line > block.first):
        heading = headings[-1]
        return Place("block", heading.line, bisect_left(note.line_starts, heading.body))
    return None if block is None else _lines_of(block, lines)


def _lines_of(block: Block, lines: Sequence[str]) -> Place:
    return Place("block", block.first + 1, _last_line(block, lines))


def _last_line(block: Block, lines: Sequence[str]) -> int:
    """The block's last line, 1-based, without the blank ones that end it."""
    last = block.after
    while last - 1 > block.first and not lines[last - 1].strip():
        last -= 1
    return last


def _footnote(note: Note, wanted: str) -> Place | None:
    lines = note.text.split("\n")
    for part in note.parts:
        first, after = _rows(note, part)
        unread = _unread(note, first, after)
        for row in range(first, after):
            if "[^" not in lines[row] or row in unread:
                continue
            marks = _QUOTE_MARKS.match(lines[row])
            depth = marks.group().count(">") if marks else 0
            definition = _DEFINITION.match(_unquoted(lines[row], depth) or "")
            if definition is not None and fold(definition.group(1)) == fold(wanted):
                end = _footnote_end(lines[:after], row, depth, unread)
                return Place("footnote", row + 1, end)
    return None


def _unread(note: Note, first: int, after: int) -> set[int]:
    """Rows of code and HTML, where a line that looks like a definition is none.

    Blocks go before code spans: a definition may stand in a line that a span would reach over.
    """
    if first == after:
        return set()
    begin = note.line_starts[first]
    end = note.line_starts[after] if after < len(note.line_starts) else len(note.text)
    starts = [start - begin for start in note.line_starts[first:after]]
    structure = block_structure(note.text[begin:end], starts, 0)
    html = [(block.first, block.after) for block in structure.blocks if block.kind == "html"]
    return {first + row for a, b in (*structure.code, *html) for row in range(a, b)}


def _footnote_end(lines: Sequence[str], row: int, depth: int, unread: set[int]) -> int:
    """The last line, 1-based, of the definition on row `row`: those indented under it are its own.

    Blank lines belong to it when more of it follows.
    """
    least = _indent(_unquoted(lines[row], depth) or "") + 2
    last = row
    for at in range(row + 1, len(lines)):
        text = _unquoted(lines[at], depth)
        if text is None or (at not in unread and _DEFINITION.match(text)):
            break
        if text.strip():
            if _indent(text) < least:
                break
            last = at
    return last + 1


def _indent(text: str) -> int:
    spread = text.expandtabs(4)
    return len(spread) - len(spread.lstrip(" "))


def _unquoted(line: str, depth: int) -> str | None:
    """The line behind `depth` quote marks, or None if it has fewer."""
    if not depth:
        return line
    at = 0
    for _ in range(depth):
        mark = line.find(">", at)
        if mark < 0 or line[at:mark].strip(" \t"):
            return None
        at = mark + 1
    return line[at:].removeprefix(" ")
