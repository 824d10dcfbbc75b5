"""Items: what a person marks in a note as a decision, an error, a lesson, a dated entry.

A field (`decision:: …`), a callout (`> [!decision] …`) or an entry of a log is found by itself,
with its kind, its day and its place. The text stays as it is.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from datetime import date

from vaultmem.model.note import Block, Field, Item, Note
from vaultmem.vault.facts import KindRules, day_in
from vaultmem.vault.paths import is_canvas

EPISODE = "episode"

# A note that is no log by kind or name is one when it has this many dated entries of a rank, and
# they are at least half of the entries of that rank.
LEAST_ENTRIES = 3
LEAST_SHARE = 0.5

MAX_ITEM_CHARS = 300

# So many blocks may begin in one line; deeper ones are beyond any person's note.
MAX_NESTED = 64

_LOG_NAME = re.compile(
    r"(?:.*[ _-])?(?:change[ _-]?log|log(?:book)?|journal|release[ _-]notes)|history", re.IGNORECASE
)
_DAY = r"\d{4}-\d{2}-\d{2}(?!\d)"
# Begins with what is sure, so that searching a long text for it costs little.
_ANY_DAY = re.compile(r"-(?<=\d{4}-)[01]\d-[0-3]\d(?!\d)")
# A day at the beginning, in emphasis, brackets or a link of its own; or at the end, as behind a
# version.
_BEGINS = re.compile(rf"[(*_\s]*(?:\[?{_DAY}|\[\[{_DAY}(?=[\]|#]))")
_ENDS = re.compile(rf"(?<![\w-]){_DAY}[\])*_\s]*(?:\[YANKED\])?$")
# A task that is still open has not been done on that day.
_ENTRY = re.compile(
    rf"[ \t]*(?:[-*+]|\d{{1,9}}[.)])?[ \t]*(?:\[[^ ]\][ \t]+)?[(*_]*"
    rf"(?:\[?{_DAY}|\[\[{_DAY}(?=[\]|#]))"
)
_QUOTE = re.compile(r"(?:[ \t]*>)*[ \t]*")
_CALLOUT = re.compile(r"\[![^\]\n]+\]")
_LINK = re.compile(r"\[\[[^\]\n]*\]\]")
_LETTER = re.compile(r"[^\W\d_]")


def find_items(note: Note, rules: KindRules, kind: str) -> tuple[Item, ...]:
    """The items of a note, by line; an item within an entry has the entry's day.

    kind: the note's own.
    """
    if rules.templates_apart and rules.is_template(note.path):
        return ()
    entries = list(_entries(note, rules, kind))
    fields = [f for f in note.fields if f.value and f.key.lower() in rules.items]
    callouts = [callout for callout in note.callouts if callout.kind in rules.items]
    if not fields and not callouts:
        return tuple(entries)
    days = _Days(note, entries)
    found = [*entries]
    places = _Places(note)
    for field in fields:
        first, last = places.of(field)
        day = days.of(field.value, field.line)
        found.append(Item(field.key.lower(), day, first, last, _short(field.value), "field"))
    for callout in callouts:
        last = places.quotation(callout.line)
        below = _quoted(note, callout.line, last)
        day = days.of(f"{callout.title} {below}", callout.line)
        text = _short(callout.title or below)
        found.append(Item(callout.kind, day, callout.line, last, text, "callout"))
    return tuple(sorted(found, key=lambda item: (item.first, -item.last, item.kind)))


def _quoted(note: Note, line: int, last: int) -> str:
    """The beginning of what a callout says below its first line."""
    parts: list[str] = []
    length = 0
    for row in range(line, last):
        text = _QUOTE.sub("", _line(note, row), count=1)
        if _CALLOUT.match(text):
            break  # one within it speaks for itself
        parts.append(text)
        length += len(text)
        if length > MAX_ITEM_CHARS:
            break
    return " ".join(parts)


class _Places:
    """Which lines of a note a field or a callout stands for."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._firsts = [block.first for block in note.blocks]
        self._alone = {field.line for field in note.fields if field.alone}

    def of(self, field: Field) -> tuple[int, int]:
        """The list item whose first line the field is; else the paragraph or table it is in.

        Fields on lines of their own, one below the other, share a paragraph: each has its line and
        what follows up to the next.
        """
        note, row = self._note, field.line - 1
        block = self._around(row)
        if block is None:
            return field.line, field.line
        last = _last_shown(note, block.first, block.after)
        if block.kind == "item":
            return field.line, last
        if not field.alone:
            return block.first + 1, last
        after = field.line + 1
        while after <= last and after not in self._alone:
            after += 1
        return field.line, after - 1

    def _around(self, row: int) -> Block | None:
        """The list item that begins in a row, else the innermost paragraph or table over it."""
        at = bisect_left(self._firsts, row)
        here = self._note.blocks[at : at + MAX_NESTED]
        item = next((b for b in here if b.kind == "item" and b.first == row), None)
        if item is not None:
            return item
        after = bisect_right(self._firsts, row)
        for block in reversed(self._note.blocks[max(0, after - MAX_NESTED) : after]):
            if block.kind in ("paragraph", "table") and row < block.after:
                return block
        return None

    def quotation(self, line: int) -> int:
        """The last line of the innermost quotation that begins in a line."""
        at = bisect_left(self._firsts, line - 1)
        last = line
        for block in self._note.blocks[at : at + MAX_NESTED]:
            if block.first == line - 1 and block.kind == "quote":
                last = _last_shown(self._note, block.first, block.after)
        return last


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
    blocks = list(_dated_blocks(note, is_log=is_log))
    by_level: dict[int, list[tuple[int, date]]] = {}
    for index, heading in enumerate(note.headings):
        dated = _BEGINS.match(heading.text) or _ENDS.search(heading.text)
        day = day_in(dated.group()) if dated else None
        if day is not None:
            by_level.setdefault(heading.level, []).append((index, day))
    ranked = sorted(by_level.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    for level, found in ranked:
        if [index for index, _ in found] == [0] and (len(ranked) > 1 or blocks):
            continue  # the title of the whole, with the day of its last change
        rank = sum(heading.level == level for heading in note.headings)
        if is_log or (len(found) >= LEAST_ENTRIES and len(found) >= LEAST_SHARE * rank):
            for index, day in found:
                heading = note.headings[index]
                last = _section_end(note, index)
                text = _short(heading.text)
                yield Item(EPISODE, day.isoformat(), heading.line, last, text, "entry")
            return
    yield from blocks


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
    """List items of the first rank, or paragraphs with what follows, that begin with a day."""
    lists = [block for block in note.blocks if block.kind == "item" and block.depth == 1]
    plain = [block for block in note.blocks if block.kind == "paragraph" and block.depth == 0]
    headings = [heading.line - 1 for heading in note.headings]
    for blocks in (lists, plain):
        dated = [(block, day) for block in blocks if (day := _entry_day(note, block)) is not None]
        enough = len(dated) >= LEAST_ENTRIES and len(dated) >= LEAST_SHARE * len(blocks)
        if not dated or not (is_log or enough):
            continue
        starts = [block.first for block, _ in dated]
        entries: list[tuple[Block, date, int]] = []
        for number, (block, day) in enumerate(dated):
            after = block.after
            if blocks is plain:
                # A day, or a sentence with one, and what stands below it.
                following = bisect_right(headings, block.first)
                after = headings[following] if following < len(headings) else len(note.line_starts)
                after = min([after, *starts[number + 1 : number + 2]])
            entries.append((block, day, _last_shown(note, block.first, after)))
        # A list of nothing but links to notes that are named for a day is no log.
        if is_log or any(_says_something(note, block, last) for block, _, last in entries):
            for block, day, last in entries:
                text = _short(_line(note, block.first))
                yield Item(EPISODE, day.isoformat(), block.first + 1, last, text, "entry")
            return


def _says_something(note: Note, block: Block, last: int) -> bool:
    text = note.text[note.line_starts[block.first] : _line_end(note, last)]
    return _LETTER.search(_LINK.sub("", text)) is not None


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
