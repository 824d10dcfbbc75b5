"""Items: what a person marks in a note as a decision, an error, a lesson, a dated entry.

A field (`decision:: …`), a callout (`> [!decision] …`) or an entry of a log is found by itself,
with its kind, its day and its place. The text stays as it is.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from itertools import pairwise

from vaultmem.model.note import Block, Field, Item, Note
from vaultmem.vault.facts import KindRules, day_in
from vaultmem.vault.paths import is_canvas

EPISODE = "episode"

# A note that is no log by kind or name is one when it has this many dated entries of a rank, and
# they are at least half of the entries of that rank, and this share of the steps from each to the
# next goes one way in time: birthdays and sources come in another order.
LEAST_ENTRIES = 3
LEAST_SHARE = 0.5
LEAST_ORDER = 0.8

MAX_ITEM_CHARS = 300

# So many blocks may begin in one line; deeper ones are beyond any person's note.
MAX_NESTED = 64
# What is looked at of the line below a field that has no text itself: enough for what is shown.
_LINE_BELOW = 4 * MAX_ITEM_CHARS

_LOG_NAME = re.compile(
    r"(?:.*[ _-])?(?:change[ _-]?log|log(?:book)?|journal|release[ _-]notes"
    r"|logbuch|tagebuch|änderungs(?:protokoll|verlauf)|versionsverlauf)|history|changes"
    r"|.*(?:[变変更][更新](?:日志|记录|履歴)|日志|日記)",
    re.IGNORECASE,
)
_DAY = r"\d{4}-\d{2}-\d{2}(?!\d)"
# Begins with what is sure, so that searching a long text for it costs little.
_ANY_DAY = re.compile(r"-(?<=\d{4}-)[01]\d-[0-3]\d(?!\d)")
# A day at the beginning, behind symbols, in emphasis, brackets or a link of its own; or at the end,
# as behind a version.
_BEGINS = re.compile(rf"[^\w\[]{{0,8}}(?:\[?{_DAY}|\[\[{_DAY}(?=[\]|#]))")
_ENDS = re.compile(rf"(?<![\w-]){_DAY}[\])*_:\s]*(?:\[YANKED\])?$")
_VERSION = re.compile(r"\d\.\d")
# A task that is still open has not been done on that day.
_ENTRY = re.compile(
    rf"[ \t]*+(?:[-*+]|\d{{1,9}}[.)])?[ \t]*+(?:\[[^ ]\][ \t]+)?[(*_]*"
    rf"(?:\[?{_DAY}|\[\[{_DAY}(?=[\]|#]))"
)
# The day that an item gives itself: before its text, alone but for a word (`on …`), behind the
# text in brackets, or in a field `date::`. Any other is what the text is about: `postpone it to
# 2026-09-01`.
_OWN = re.compile(
    rf"^\W{{0,8}}{_DAY}|^\W{{0,8}}\w{{1,12}}\W{{1,3}}{_DAY}\W*$|\(\W{{0,8}}{_DAY}\W*$"
    rf"|(?<![\w:-])date::[ \t]*(?:\[\[)?{_DAY}",
    re.IGNORECASE,
)
_MARKER = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:\[.\][ \t]+)?")
_QUOTE = re.compile(r"(?:[ \t]*>)*[ \t]*")
_CALLOUT = re.compile(r"\[![^\]\n]+\]")
# A day that has its line to itself.
_ALONE = re.compile(rf"[\[(*_]*{_DAY}[\])*_:]*[ \t]*$")
_LINK_OR_DAY = re.compile(rf"\[\[[^\[\]\n]*+\]\]|\[[^\[\]\n]*+\]\([^)\n]{{0,300}}+\)|{_DAY}")
_SHOWN = re.compile(r"[^\W_]|[^\x00-\x7f]")
_SHOWN_IN_LINE = re.compile(r"\S")


def find_items(note: Note, rules: KindRules, kind: str) -> tuple[Item, ...]:
    """The items of a note, by line; an item within an entry has the entry's day.

    kind: the note's own.
    """
    if rules.templates_apart and rules.is_template(note.path):
        return ()
    entries = list(_entries(note, rules, kind))
    fields = [field for field in note.fields if field.key.lower() in rules.items]
    callouts = [callout for callout in note.callouts if callout.kind in rules.items]
    if not fields and not callouts:
        return tuple(entries)
    days = _Days(note, entries)
    found = [*entries]
    places = _Places(note)
    for field in fields:
        first, last = places.of(field)
        text = field.value
        if not text and field.line < last:
            at = note.line_starts[field.line]
            below = note.text[at : min(at + _LINE_BELOW, _line_end(note, field.line + 1))]
            text = _MARKER.sub("", below, count=1)  # what stands below it
        if text:
            day = days.of(field.line, text)
            found.append(Item(field.key.lower(), day, first, last, _short(text), "field"))
    for callout in callouts:
        last = places.quotation(callout.line)
        below = _quoted(note, callout.line, last)
        day = days.of(callout.line, callout.title, below)
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
        self._ends: dict[int, int] = {}
        self._firsts = [block.first for block in note.blocks]
        self._alone = {field.line for field in note.fields if field.alone}

    def of(self, field: Field) -> tuple[int, int]:
        """The list item or section that the field begins; else the paragraph or table it is in.

        Fields on lines of their own, one below the other, share a paragraph: each has its line and
        what follows up to the next.
        """
        note, row = self._note, field.line - 1
        at = bisect_right(note.headings, field.line, key=lambda heading: heading.line) - 1
        if at >= 0 and not 0 <= note.headings[at].body <= note.line_starts[row]:
            heading = note.headings[at]
            return heading.line, self._last_shown(heading.line - 1, _text_end(note, at))
        block = self._around(row)
        if block is None:
            return field.line, field.line
        last = self._last_shown(block.first, block.after)
        if block.kind == "item":
            return field.line, last
        if not field.alone:
            return block.first + 1, last
        after = field.line + 1
        while after <= last and after not in self._alone:
            after += 1
        return field.line, after - 1

    def _last_shown(self, row: int, after: int) -> int:
        """As the function says; a line with a thousand fields asks a thousand times."""
        if after not in self._ends:
            # A block begins in a row that is not blank, so no other row can end before it.
            self._ends[after] = _last_shown(self._note, row, after)
        return max(row + 1, self._ends[after])

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
                last = self._last_shown(block.first, block.after)
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
            own = _heading_day(heading.text)
            day = own.isoformat() if own else (above[-1][1] if above else None)
            above.append((heading.level, day))
            self._headings.append(day)

    def of(self, line: int, *texts: str) -> str | None:
        """The day that the texts give themselves, else the entry's, else of the heading above."""
        for own in filter(None, map(_OWN.search, texts)):
            day = day_in(own.group())
            if day is not None:
                return day.isoformat()
        at = bisect_right(self._entries, line, key=lambda entry: entry.first) - 1
        if at >= 0 and line <= self._entries[at].last:
            return self._entries[at].date
        heading = bisect_right(self._lines, line) - 1
        return self._headings[heading] if heading >= 0 else None


def _last_shown(note: Note, row: int, after: int) -> int:
    """The last line (1-based) of rows [row, after) that is not blank; at least the first."""
    while after > row + 1 and _is_blank(note, after - 1):
        after -= 1
    return after


def _is_blank(note: Note, row: int) -> bool:
    # Without taking the line out of the text: it may be a megabyte long.
    end = _line_end(note, row + 1)
    shown = _SHOWN_IN_LINE.search(note.text, note.line_starts[row], end)
    return shown is None


def _entries(note: Note, rules: KindRules, kind: str) -> Iterator[Item]:
    """The dated entries of a log, each from its heading or first line to before the next."""
    # Most notes name no day at all, and need not be looked through.
    if is_canvas(note.path) or not _ANY_DAY.search(note.text, note.frontmatter.end):
        return
    is_log = kind in rules.logs or _LOG_NAME.fullmatch(note.name) is not None
    blocks = list(_dated_blocks(note, is_log=is_log))
    days: dict[int, date] = {}
    for index, heading in enumerate(note.headings):
        day = _heading_day(heading.text)
        if day is not None:
            days[index] = day
    if 0 in days and _is_title(note, days, blocks):
        del days[0]
    if not is_log:
        days = _rank_of_a_log(note, days)
    for index, day in days.items():
        heading = note.headings[index]
        last = _section_end(note, index, days)
        yield Item(EPISODE, day.isoformat(), heading.line, last, _short(heading.text), "entry")
    if not days:
        yield from blocks


def _heading_day(text: str) -> date | None:
    dated = _BEGINS.match(text) or _ENDS.search(text)
    return day_in(dated.group()) if dated else None


def _is_title(note: Note, days: Mapping[int, date], blocks: Sequence[Item]) -> bool:
    """Whether the first heading is the log's own, with the day of its last change."""
    first = note.headings[0]
    return (
        (len(days) > 1 or bool(blocks))
        and _VERSION.search(first.text) is None
        and all(heading.level > first.level for heading in note.headings[1:])
    )


def _rank_of_a_log(note: Note, days: Mapping[int, date]) -> dict[int, date]:
    """The dated headings of the rank that makes the note a log; of several, the fullest."""
    ranks: dict[int, dict[int, date]] = {}
    for index, day in days.items():
        ranks.setdefault(note.headings[index].level, {})[index] = day
    for level, found in sorted(ranks.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        rank = sum(heading.level == level for heading in note.headings)
        if _are_log(list(found.values()), rank):
            return found
    return {}


def _are_log(days: Sequence[date], rank: int) -> bool:
    """Whether dated entries, as they come, are those of a log.

    rank: how many entries there are that could have been dated.
    """
    if len(days) < LEAST_ENTRIES or len(days) < LEAST_SHARE * rank:
        return False
    forth = sum(a <= b for a, b in pairwise(days))
    back = sum(a >= b for a, b in pairwise(days))
    return max(forth, back) >= LEAST_ORDER * (len(days) - 1)


def _text_end(note: Note, index: int) -> int:
    """The row behind a heading's own text, before any other heading or part of the note."""
    heading = note.headings[index]
    after = len(note.line_starts)
    if index + 1 < len(note.headings):
        after = note.headings[index + 1].line - 1
    part = bisect_right(note.parts, heading.start, key=lambda part: part.start) - 1
    if part >= 0 and heading.start < note.parts[part].end:
        after = min(after, bisect_left(note.line_starts, note.parts[part].end))
    return after


def _section_end(note: Note, index: int, days: Mapping[int, date]) -> int:
    """The last line of a section; a deeper heading of another day ends it too."""
    heading, day = note.headings[index], days[index]
    following = index + 1
    while (
        following < len(note.headings)
        and note.headings[following].level > heading.level
        and days.get(following, day) == day
    ):
        following += 1
    if following < len(note.headings):
        after = note.headings[following].line - 1
    else:
        after = len(note.line_starts)
    return _last_shown(note, heading.line - 1, after)


def _dated_blocks(note: Note, *, is_log: bool) -> Iterator[Item]:
    """List items of the first rank, or paragraphs with what follows, that begin with a day."""
    lists = [block for block in note.blocks if block.kind == "item" and block.depth == 1]
    paragraphs = [block for block in note.blocks if block.kind == "paragraph" and block.depth == 0]
    plain = (
        [part for block in paragraphs for part in _by_day(note, block)] if is_log else paragraphs
    )
    headings = [heading.line - 1 for heading in note.headings]
    for blocks in (lists, plain):
        dated = [(block, day) for block in blocks if (day := _entry_day(note, block)) is not None]
        starts = [block.first for block, _ in dated]
        entries: list[tuple[Block, date, int]] = []
        for number, (block, day) in enumerate(dated):
            after = block.after
            if blocks is plain:
                # A day, or a sentence with one, and what stands below it.
                following = bisect_right(headings, block.first)
                after = headings[following] if following < len(headings) else len(note.line_starts)
                after = min([after, *starts[number + 1 : number + 2]])
            last = _last_shown(note, block.first, after)
            # A link to a note that is named for a day tells nothing itself.
            if _says_something(note, block, last):
                entries.append((block, day, last))
        # A day with a line to itself is as good as a heading, whatever stands between two of them.
        alone = blocks is plain and all(_ALONE.match(_line(note, b.first)) for b, _, _ in entries)
        rank = len(entries) if alone else len(lists) + len(plain)
        if entries and (is_log or _are_log([day for _, day, _ in entries], rank)):
            for block, day, last in entries:
                text = _short(_line(note, block.first))
                yield Item(EPISODE, day.isoformat(), block.first + 1, last, text, "entry")
            return


def _by_day(note: Note, block: Block) -> Iterator[Block]:
    """A paragraph cut before each of its lines that begins with a day: one line for each day."""
    rows = range(block.first + 1, block.after)
    starts = [row for row in rows if _day_of_line(_line(note, row)) is not None]
    for first, after in pairwise((block.first, *starts, block.after)):
        yield Block(block.kind, block.depth, first, after)


def _says_something(note: Note, block: Block, last: int) -> bool:
    text = note.text[note.line_starts[block.first] : _line_end(note, last)]
    return _SHOWN.search(_LINK_OR_DAY.sub("", _MARKER.sub("", text, count=1))) is not None


def _entry_day(note: Note, block: Block) -> date | None:
    return _day_of_line(_line(note, block.first))


def _day_of_line(line: str) -> date | None:
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
