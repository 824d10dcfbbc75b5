"""Links, tags, block ids, tasks and callouts: one pass over the source, code masked.

Hand scanners where a regular expression would have to guess: nothing here is worse than linear.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

from vaultmem.model.note import BlockId, Callout, Field, Link, Task
from vaultmem.vault.paths import fold

_BACKTICKS = re.compile(r"`+")
_TAG = re.compile(r"#(?<!\S#)([^\s!\"#$%&'()*+,.:;<=>?@\[\\\]^`{|}~\u2000-\u206f\u2e00-\u2e7f]+)")
_BLOCK_ID = re.compile(r"\^(?<!\S\^)([A-Za-z0-9-]+)[ \t]*$", re.MULTILINE)
_TASK = re.compile(
    r"^[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]{1,4}\[([^\n])\](?:[ \t]+(.*))?$", re.MULTILINE
)
_ITEM = r"(?:[-*+]|\d{1,9}[.)])"  # the mark of a list item
# No task without one; looking for it costs a fraction of trying every line.
_BOX = re.compile(r"\[[^\n]\](?:[ \t]|$)", re.MULTILINE)
_CALLOUT = re.compile(
    rf"^[ \t]*(?:{_ITEM}[ \t]+|>[ \t]*)*>[ \t]*"
    r"\[!([^\]|\n]+)(?:\|[^\]\n]*)?\][+-]?[ \t]*(.*)$",
    re.MULTILINE,
)
# Behind `](`: a destination in angle brackets, or one without blanks and with balanced brackets.
_DESTINATION = re.compile(
    r"\]\([ \t]*+(?:<([^<>\n]*)>|([^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)*))"
    r"(?:[ \t]++(?:\"[^\"\n]*\"|'[^'\n]*'))?[ \t]*+\)"
)
# What is stored of a note is cut at these, never refused: rows and replies are for people, and each
# link of a list of links repeats its texts. No system opens a longer path than the first, and a tag
# or a name that is longer is a line that lost its blanks.
MAX_TARGET_CHARS = 4096
MAX_SUBPATH_CHARS = 1000
MAX_DISPLAY_CHARS = 1000
MAX_TAG_CHARS = 300
MAX_VALUE_CHARS = 4000

# What stands in place of code and of links: no blank, so that no tag begins behind it, and no
# letter of any word, tag or key.
MASK = "\u2060"
# A key is a few words: no sentence, no path, no code, no formula.
_NO_KEY = rf"\[\](){{}}<>:|`\"#*~=$%.,;?!，。、；！？\\{MASK}"
_KEY = rf"[^\s{_NO_KEY}_-][^\n{_NO_KEY}]{{0,58}}?"
# What may follow the colons; names in a program are ASCII.
_BEHIND = r"(?=[ \t]|\[\[|[^\W\x00-\x7f])"
# `key:: value` alone on a line, behind marks of a comment, a list, a task or a quotation, and any
# emphasis.
_FIELD = re.compile(
    r"[ \t]*(%%[ \t]*)?"
    rf"((?:>[ \t]*)*(?:{_ITEM}[ \t]+(?:\[[^\n]\][ \t]+)?)?)[*_~=]{{0,3}}"
    rf"({_KEY})[*_~= \t]{{0,5}}::(?:{_BEHIND}|(?=[\n*_~]|$))[*_~]{{0,3}}([^\n]*)"
)
# `[key:: value]` and `(key:: value)` within a line.
_INLINE_FIELD = re.compile(rf"[\[(][*_~=]{{0,3}}({_KEY})[*_~= \t]{{0,5}}::{_BEHIND}")
_BLOCK_ID_BEHIND = re.compile(r"\^[A-Za-z0-9-]+$")
_CLOSER = {"[": "]", "(": ")"}
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_BRACKET = re.compile(r"\\[\[\]\\]|[\[\]]|\n(?=[ \t]*\n)")


def mask_code(
    text: str,
    line_starts: Sequence[int],
    code: Sequence[tuple[int, int]],
    inline: Sequence[tuple[int, int]],
) -> str:
    """The text with the characters of code blocks and code spans masked.

    Same length, so offsets hold; line ends inside a masked block go too, except the last.
    """
    holes: list[tuple[int, int]] = []
    for first, after in code:
        end = line_starts[after] - 1 if after < len(line_starts) else len(text)
        holes.append((line_starts[first], end))
    if "`" in text:
        holes += _code_spans(text, line_starts, inline)
    return _masked(text, sorted(holes)) if holes else text


def _masked(text: str, holes: Iterable[tuple[int, int]]) -> str:
    """The text with these stretches masked; one that begins within another is part of it."""
    parts: list[str] = []
    at = 0
    for start, end in holes:
        if start < at:
            continue
        parts += (text[at:start], MASK * (end - start))
        at = end
    parts.append(text[at:])
    return "".join(parts)


def _code_spans(
    text: str, line_starts: Sequence[int], inline: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Code spans of each run of inline text: a backtick run closed by the next of its length."""
    spans: list[tuple[int, int]] = []
    # The cells of a table row share its lines.
    for first, after in dict.fromkeys(inline):
        start = line_starts[first]
        end = line_starts[after] if after < len(line_starts) else len(text)
        if text.find("`", start, end) < 0:
            continue
        runs = [(m.start(), m.end()) for m in _BACKTICKS.finditer(text, start, end)]
        # For each run, the next one of the same length; found from the back in one sweep.
        following: list[int | None] = [None] * len(runs)
        openers = [0] * len(runs)
        latest: dict[int, int] = {}
        for index in range(len(runs) - 1, -1, -1):
            begin, behind = runs[index]
            # An escaped backtick is text, and those behind it open a span; within one, nothing is
            # escaped, so that a run closes as a whole.
            openers[index] = begin + _escaped(text, begin)
            following[index] = latest.get(behind - openers[index])
            latest[behind - begin] = index
        index = 0
        while index < len(runs):
            closing = following[index]
            if closing is None:
                index += 1
                continue
            spans.append((openers[index], runs[closing][1]))
            index = closing + 1
    return spans


def _escaped(text: str, at: int) -> bool:
    """Whether an odd number of backslashes stands before offset `at`."""
    count = 0
    while at - count > 0 and text[at - count - 1] == "\\":
        count += 1
    return count % 2 == 1


def find_links(
    masked: str, line_starts: Sequence[int], start: int, source: str | None = None
) -> tuple[list[Link], str]:
    """Links and embeds from offset `start` on, in source order, and the text without them.

    masked: the source with code masked.
    source: the text as it is, where that is another: a link may show code.
    The second value has the links masked too, so that a subpath is not taken for a tag.
    """
    source = masked if source is None else source
    found: list[tuple[int, int, Link]] = []
    if "]]" in masked:
        _wikilinks(masked, source, line_starts, start, found)
    if "](" in masked:
        _markdown_links(masked, source, line_starts, start, found)
        found.sort(key=lambda entry: entry[0])
    if not found:
        return [], masked
    return [link for _, _, link in found], _masked(masked, [(b, e) for b, e, _ in found])


def _wikilinks(
    text: str,
    source: str,
    line_starts: Sequence[int],
    start: int,
    found: list[tuple[int, int, Link]],
) -> None:
    at = start
    while True:
        end = text.find("]]", at)
        if end < 0:
            return
        # The last opener before the closer: in `[[a [[b]] c]]` only the inner link counts.
        begin = text.rfind("[[", at, end)
        if begin >= 0:
            footnote = text.rfind("#[^", begin, end)
            if (
                footnote >= 0
                and text.startswith("]", end + 2)
                and text.find("]", footnote, end) < 0
            ):
                end += 1  # the bracket of a footnote's name: `[[Note#[^1]]]`
            inner = source[begin + 2 : end]
            if inner.strip() and "\n" not in inner and not _escaped(text, begin):
                embed = begin > 0 and text[begin - 1] == "!" and not _escaped(text, begin - 1)
                line = bisect_right(line_starts, begin)
                found.append((begin - embed, end + 2, wikilink(inner, embed=embed, line=line)))
        at = end + 2


def wikilink(inner: str, *, embed: bool, line: int, key: str | None = None) -> Link:
    """The link written as `[[inner]]`; a bar inside a table cell is escaped."""
    target, bar, display = inner.partition("|")
    if bar and target.endswith("\\"):
        target = target[:-1]
    path, mark, subpath = target.partition("#")
    return Link(
        target=path.strip()[:MAX_TARGET_CHARS],
        subpath=(mark + subpath).rstrip()[:MAX_SUBPATH_CHARS] if mark else "",
        display=display[:MAX_DISPLAY_CHARS] if bar else None,
        embed=embed,
        line=line,
        key=key,
    )


def _markdown_links(
    text: str,
    source: str,
    line_starts: Sequence[int],
    start: int,
    found: list[tuple[int, int, Link]],
) -> None:
    opening: dict[int, int] | None = None
    # In `[[a]](b)` the wikilink ends at its `]]`, and what follows is text.
    taken = {end - 1 for _, end, _ in found}
    for match in _DESTINATION.finditer(text, start):
        if match.start() in taken:
            continue
        destination = source[slice(*match.span(1 if match.group(1) is not None else 2))]
        if not destination or _SCHEME.match(destination):
            continue  # leads out of the vault, as most do
        if opening is None:
            opening = _opening_brackets(text, start)
        begin = opening.get(match.start())
        if begin is None:
            continue
        embed = begin > 0 and text[begin - 1] == "!" and not _escaped(text, begin - 1)
        link = markdown_link(
            destination,
            source[begin + 1 : match.start()],
            embed=embed,
            line=bisect_right(line_starts, begin),
        )
        if link is not None:
            found.append((begin - embed, match.end(), link))


def _opening_brackets(text: str, start: int) -> dict[int, int]:
    """For each `]` that closes a bracket, where its `[` stands; no pair spans a blank line."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for match in _BRACKET.finditer(text, start):
        mark = match.group()
        if mark == "[":
            opened.append(match.start())
        elif mark == "]":
            if opened:
                pairs[match.start()] = opened.pop()
        elif mark[0] == "\n":
            opened.clear()
    return pairs


def markdown_link(
    destination: str, display: str, *, embed: bool, line: int, key: str | None = None
) -> Link | None:
    """The link to `destination`, percent-decoded once; None when it leads out of the vault.

    destination: as it is written, with or without angle brackets.
    """
    if destination.startswith("<") and destination.endswith(">"):
        destination = destination[1:-1]
    if not destination or _SCHEME.match(destination) or destination.startswith("//"):
        return None
    path, mark, subpath = destination.partition("#")
    return Link(
        target=_decode(path)[:MAX_TARGET_CHARS],
        subpath=(mark + _decode(subpath))[:MAX_SUBPATH_CHARS] if mark else "",
        display=display[:MAX_DISPLAY_CHARS],
        embed=embed,
        line=line,
        key=key,
    )


def _decode(text: str) -> str:
    """Percent-decoded once; a sequence that is no UTF-8 stays as written."""
    if "%" not in text:
        return text
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text


def find_tags(text: str, start: int) -> list[str]:
    """Inline tags in source order, without `#`; a tag of digits alone is none."""
    if "#" not in text:
        return []
    return [tag[:MAX_TAG_CHARS] for tag in _TAG.findall(text, start) if not tag.isdigit()]


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Without repetitions in any case; the first spelling stays."""
    seen: dict[str, str] = {}
    for name in names:
        seen.setdefault(fold(name), name)
    return tuple(seen.values())


def find_block_ids(text: str, line_starts: Sequence[int], start: int) -> tuple[BlockId, ...]:
    """Block ids at line ends."""
    if "^" not in text:
        return ()
    return tuple(
        BlockId(match.group(1), bisect_right(line_starts, match.start()))
        for match in _BLOCK_ID.finditer(text, start)
    )


def find_tasks(text: str, line_starts: Sequence[int], start: int, source: str) -> tuple[Task, ...]:
    """List items with a check box of exactly one character. source: the text as it is."""
    if _BOX.search(text) is None:
        return ()
    return tuple(
        Task(
            bisect_right(line_starts, match.start()),
            match.group(1),
            _line_of(source, match.start(2), match.end(2)),
        )
        for match in _TASK.finditer(text, start)
    )


def find_callouts(
    text: str, line_starts: Sequence[int], start: int, source: str
) -> tuple[Callout, ...]:
    """Lines that open a callout if a quotation begins there. source: the text as it is."""
    if "[!" not in text:
        return ()
    return tuple(
        Callout(
            bisect_right(line_starts, match.start()),
            match.group(1).strip().lower(),
            _line_of(source, match.start(2), match.end(2)),
        )
        for match in _CALLOUT.finditer(text, start)
    )


def find_fields(
    text: str, line_starts: Sequence[int], start: int, source: str
) -> tuple[Field, ...]:
    """Fields as Dataview writes them: `key:: value` on a line, `[key:: value]` within one.

    A blank, a link or a letter beyond ASCII must follow the colons: `std::vector` is code that
    lost its backticks.
    source: the text as it is, of which values are part.
    """
    found: list[Field] = []
    at = text.find("::", start)
    while at >= 0:
        # By the lines of the source: a code span over several has lost its line ends.
        line = bisect_right(line_starts, at)
        begin = max(line_starts[line - 1], start)
        end = line_starts[line] - 1 if line < len(line_starts) else len(text)
        whole = _FIELD.match(text, begin, end)
        if whole is not None:
            value = _line_of(source, whole.start(4), whole.end(4))
            if whole.group(1):
                value = value.removesuffix("%%").rstrip()
            value = _without_block_id(value)[:MAX_VALUE_CHARS]
            alone = not whole.group(2) and text[begin] not in " \t"
            found.append(Field(_field_key(whole.group(3)), value, line, alone))
            begin = whole.start(4)
        found += _inline_fields(text, source, begin, end, line)
        at = text.find("::", end)
    return tuple(found)


def _inline_fields(text: str, source: str, begin: int, end: int, line: int) -> list[Field]:
    found: list[Field] = []
    while (match := _INLINE_FIELD.search(text, begin, end)) is not None:
        opener = match.group()[0]
        closer, depth = _CLOSER[opener], 1
        at = match.end()
        while at < end and depth:
            depth += (text[at] == opener) - (text[at] == closer)
            at += 1
        if depth:
            break  # never closed, and so neither is what follows within it
        value = _line_of(source, match.end(), at - 1)[:MAX_VALUE_CHARS]
        found.append(Field(_field_key(match.group(1)), value, line, alone=False))
        begin = at
    return found


def _line_of(source: str, start: int, end: int) -> str:
    """A stretch of the source without blanks around it; a code span in it may have a line end."""
    return source[start:end].replace("\n", " ").strip() if start >= 0 else ""


def _without_block_id(value: str) -> str:
    """The value without the id of its block, which stands behind a blank at its end."""
    at = value.rfind("^")
    named = at > 0 and value[at - 1] in " \t" and _BLOCK_ID_BEHIND.match(value, at)
    return value[:at].rstrip(" \t") if named else value


def _field_key(key: str) -> str:
    return " ".join(key.strip("*_~ \t").split())
