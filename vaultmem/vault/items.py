"""Items: what a person marks in a note as a decision, an error, a lesson, a dated entry.

A field (`decision:: …`), a callout (`> [!decision] …`) or an entry of a log is found by itself,
with its kind, its day and its place. The text stays as it is.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from datetime import date

from vaultmem.model.note import Block, Callout, Item, Note
from vaultmem.vault.facts import KindRules, day_in
from vaultmem.vault.paths import is_canvas

EPISODE = "episode"

# A note that is no log by kind or name is one when it has this many dated entries of a rank, and
# they are at least half of the entries of that rank.
LEAST_ENTRIES = 3
LEAST_SHARE = 0.5

MAX_ITEM_CHARS = 300

_LOG_NAME = re.compile(
    r"(?:.*[ _-])?(?:change[ _-]?log|log(?:book)?|journal|release[ _-]notes)|history", re.IGNORECASE
)
_DAY = r"\d{4}-\d{2}-\d{2}(?!\d)"
# Begins with what is sure, so that searching a long text for it costs little.
_ANY_DAY = re.compile(r"-(?<=\d{4}-)[01]\d-[0-3]\d(?!\d)")
# A day at the beginning, behind emphasis, brackets and links; or at the end, behind a version.
_BEGINS = re.compile(rf"[\[(*_\s]*{_DAY}")
_ENDS = re.compile(rf"(?<![\w-]){_DAY}[\])*_\s]*$")
_ENTRY = re.compile(rf"[ \t]*(?:[-*+]|\d{{1,9}}[.)])?[ \t]*(?:\[.\][ \t]+)?[\[(*_]*{_DAY}")
_QUOTE = re.compile(r"[ \t]*>")


def find_items(note: Note, rules: KindRules, kind: str) -> tuple[Item, ...]:
    """The items of a note, by line; an item within an entry has the entry's day.

    kind: the note's own.
    """
    if kind == "template" and rules.templates_apart:
        return ()
    entries = list(_entries(note, rules, kind))
    fields = [f for f in note.fields if f.value and f.key.lower() in rules.items]
    callouts = [callout for callout in note.callouts if callout.kind in rules.items]
    if not fields and not callouts:
        return tuple(entries)
    days = _Days(note, entries)
    found = [*entries]
    for field in fields:
        first, last = _block_at(note, field.line)
        day = days.of(field.value, field.line)
        found.append(Item(field.key.lower(), day, first, last, _short(field.value), "field"))
    for callout in callouts:
        last = _callout_end(note, callout)
        below = [_QUOTE.sub("", _line(note, row)) for row in range(callout.line, last)]
        day = days.of(" ".join([callout.title, *below[:1]]), callout.line)
        text = _short(callout.title or " ".join(below))
        found.append(Item(callout.kind, day, callout.line, last, text, "callout"))
    return tuple(sorted(found, key=lambda item: (item.first, -item.last, item.kind)))


class _Days:
    """Which day holds for a line of a note that names none itself."""

    def __init__(self, note: Note, entries: Sequence[Item]) -> None:
        self._entries = sorted(entries, key=lambda entry: entry.first)
        self._lines = [heading.line for heading in note.headings]
        self._headings: list[str | None] = []  # of each heading: its own day, or its parent's
        above: list[tuple[int, str | None]] = []
        for heading in note.headings:
            while above and above[-1][0] >= heading.level:
                above.pop()
            own = day_in(heading.text)
            day = own.isoformat() if own else (above[-1][1] if above else None)
            above.append((heading.level, day))
            self._headings.append(day)

    def of(self, text: str, line: int) -> str | None:
        """The day that `text` names, else that of the entry, else of the heading above."""
        own = day_in(text)
        if own is not None:
            return own.isoformat()
        at = bisect_right(self._entries, line, key=lambda entry: entry.first) - 1
        if at >= 0 and line <= self._entries[at].last:
            return self._entries[at].date
        heading = bisect_right(self._lines, line) - 1
        return self._headings[heading] if heading >= 0 else None


def _callout_end(note: Note, callout: Callout) -> int:
    """The last line of the quotation that a callout opens, or that it is nested in."""
    row = callout.line - 1
    depth = _quote_depth(_line(note, row))
    last = row
    while last + 1 < len(note.line_starts):
        line = _line(note, last + 1)
        if _quote_depth(line) < depth:
            break
        if "[!" in line and _quote_depth(line) == depth and _opens_callout(note, last + 2):
            break
        last += 1
    return last + 1


def _opens_callout(note: Note, line: int) -> bool:
    at = bisect_left(note.callouts, line, key=lambda callout: callout.line)
    return at < len(note.callouts) and note.callouts[at].line == line


def _quote_depth(line: str) -> int:
    depth = 0
    for character in line:
        if character == ">":
            depth += 1
        elif character not in " \t":
            break
    return depth


def _block_at(note: Note, line: int) -> tuple[int, int]:
    """Lines of the list item a field stands in, its continuation included; else its own line."""
    row = line - 1
    at = bisect_left(note.blocks, row, key=lambda block: block.first)
    while at < len(note.blocks) and note.blocks[at].first == row:
        if note.blocks[at].kind == "item":
            return line, _last_shown(note, row, note.blocks[at].after)
        at += 1
    return line, line


def _last_shown(note: Note, row: int, after: int) -> int:
    """The last line (1-based) of rows [row, after) that is not blank; at least the first."""
    while after > row + 1 and not _line(note, after - 1).strip():
        after -= 1
    return after


def _entries(note: Note, rules: KindRules, kind: str) -> Iterator[Item]:
    """The dated entries of a log, each from its heading or first line to before the next."""
    # Most notes name no day at all, and need not be looked through.
    if is_canvas(note.path) or not _ANY_DAY.search(note.text, note.frontmatter.end):
        return
    is_log = kind in rules.logs or _LOG_NAME.fullmatch(note.name) is not None
    by_level: dict[int, list[tuple[int, date]]] = {}
    for index, heading in enumerate(note.headings):
        dated = _BEGINS.match(heading.text) or _ENDS.search(heading.text)
        day = day_in(dated.group()) if dated else None
        if day is not None:
            by_level.setdefault(heading.level, []).append((index, day))
    for level, found in sorted(by_level.items()):
        rank = sum(heading.level == level for heading in note.headings)
        if is_log or (len(found) >= LEAST_ENTRIES and len(found) >= LEAST_SHARE * rank):
            for index, day in found:
                heading = note.headings[index]
                last = _section_end(note, index)
                text = _short(heading.text)
                yield Item(EPISODE, day.isoformat(), heading.line, last, text, "entry")
            return
    yield from _dated_blocks(note, is_log=is_log)


def _section_end(note: Note, index: int) -> int:
    heading = note.headings[index]
    following = index + 1
    while following < len(note.headings) and note.headings[following].level > heading.level:
        following += 1
    if following < len(note.headings):
        after = note.headings[following].line - 1
    else:
        after = len(note.line_starts)
    return _last_shown(note, heading.line - 1, after)


def _dated_blocks(note: Note, *, is_log: bool) -> Iterator[Item]:
    """List items of the first rank, or paragraphs, that begin with a day."""
    lists = [block for block in note.blocks if block.kind == "item" and block.depth == 1]
    plain = [block for block in note.blocks if block.kind == "paragraph" and block.depth == 0]
    for blocks in (lists, plain):
        dated = [(block, day) for block in blocks if (day := _entry_day(note, block)) is not None]
        enough = len(dated) >= LEAST_ENTRIES and len(dated) >= LEAST_SHARE * len(blocks)
        if dated and (is_log or enough):
            for block, day in dated:
                last = _last_shown(note, block.first, block.after)
                text = _short(_line(note, block.first))
                yield Item(EPISODE, day.isoformat(), block.first + 1, last, text, "entry")
            return


def _entry_day(note: Note, block: Block) -> date | None:
    line = _line(note, block.first)
    found = _ENTRY.match(line)
    return day_in(found.group()) if found else None


def _line(note: Note, row: int) -> str:
    return note.text[note.line_starts[row] : _line_end(note, row + 1)]


def _line_end(note: Note, line: int) -> int:
    """Offset behind the last character of a line (1-based)."""
    starts = note.line_starts
    return starts[line] - 1 if line < len(starts) else len(note.text)


def _short(text: str) -> str:
    return " ".join(text.split())[:MAX_ITEM_CHARS]
