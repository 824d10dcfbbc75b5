"""Block structure of a note: headings, paragraphs, list items, fences, tables, with exact lines.

markdown-it-py without its inline rule; nesting 100, since its preset of 20 drops deep text.
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from vaultmem.model.note import Block, Heading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

    Rule = Callable[[StateBlock, int, int, bool], bool]

_KINDS = {
    "paragraph_open": "paragraph",
    "list_item_open": "item",
    "fence": "fence",
    "code_block": "fence",
    "table_open": "table",
    "html_block": "html",
    "blockquote_open": "quote",
    "bullet_list_open": "other",
    "ordered_list_open": "other",
    "hr": "other",
}

# A comment or a formula spans lines only when its opener starts a line (a quote mark may precede).
_OPENER = re.compile(r"^[ \t>]*(%%|\$\$)")


# Each line costs the parser one step per level of quotation that is open above it. Twenty levels
# are beyond any person's note; deeper marks are blanked for block structure only.
_DEEP_QUOTE = re.compile(r"^((?:[ \t]*>){20})([ \t>]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Structure:
    """What block parsing found. Line numbers are 0-based, ranges half-open."""

    headings: tuple[Heading, ...]  # those of the top level, which open sections
    blocks: tuple[Block, ...]
    code: tuple[tuple[int, int], ...]  # lines of fences and indented code
    inline: tuple[tuple[int, int], ...]  # lines of each run of inline text


def block_structure(text: str, line_starts: "Sequence[int]", skip_lines: int) -> Structure:
    """Parse a note's blocks.

    line_starts: offset of each line of `text`.
    skip_lines:  lines of frontmatter at the top, which are no Markdown.
    """
    source = text
    if skip_lines:
        at = line_starts[skip_lines] if skip_lines < len(line_starts) else len(text)
        source = "\n" * skip_lines + text[at:]
    if source.count(">") >= 20 and _DEEP_QUOTE.search(source):
        source = _DEEP_QUOTE.sub(_flattened, source)
    if not source.endswith("\n"):
        source += "\n"  # without it some quotations make the library fall over
    structure = _collect(_markdown().parse(source), line_starts)
    if _opens_hidden_block(source):
        lines = source.split("\n")
        hidden = _hide_comments_and_math(lines, structure.code)
        if hidden:
            shown = _collect(_markdown().parse("\n".join(lines)), line_starts)
            structure = _with_hidden_code(shown, structure, lines)
            blocks = sorted([*structure.blocks, *hidden], key=lambda block: block.first)
            structure = replace(structure, blocks=tuple(blocks))
    return structure


@cache
def _markdown() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"maxNesting": 100}).enable("table")
    # Line ends are plain already, and what is inline is not asked for.
    markdown.core.ruler.disable(["normalize", "inline", "text_join"])
    # Definitions of reference links stay visible text here, and are slow to parse by the thousand.
    markdown.block.ruler.disable(["reference"])
    markdown.block.ruler.before("table", "plain_paragraph", _plain_paragraph)
    ends = ["paragraph", "reference", "blockquote", "list"]
    markdown.block.ruler.at("blockquote", _quotation, {"alt": ends})
    return markdown


# Lines without a quote mark may go on with a quotation, so the library looks from each quotation to
# the next blank line. Where quotations end at once all the same (`> # a` and a line of text, again
# and again), that is the square of the lines. Looking in vain is free up to this many times all the
# lines of a text (and for so many in a short one), and beyond that ends after so many lines.
_LOOKS_IN_VAIN = 8
_LEAST_IN_VAIN = 10_000
_LINES_AHEAD = 32
# Most notes have fewer, and are not worth the table.
_FREE_QUOTATIONS = 16


def _quotation(state: "StateBlock", first: int, last: int, silent: bool) -> bool:
    """A quotation by the library's own rule, which is kept from looking too far."""
    if not state.src.startswith(">", state.bMarks[first] + state.tShift[first]):
        return False
    blockquote = _quotation_rule()
    if silent:
        return blockquote(state, first, last, silent)
    number = state.env["quotations"] = state.env.get("quotations", 0) + 1
    if number <= _FREE_QUOTATIONS:
        return blockquote(state, first, last, silent)
    looked = state.env.get("looked")
    if looked is None:
        looked = state.env["looked"] = _Looked(state.src)
    if looked.in_vain > max(_LEAST_IN_VAIN, _LOOKS_IN_VAIN * len(looked.blank_after)):
        last = min(last, first + _LINES_AHEAD)
    found = blockquote(state, first, last, silent)
    if found:
        looked.in_vain += max(0, min(last, looked.blank_after[first]) - state.line)
    return found


class _Looked:
    """How many lines quotations have looked at that were not theirs."""

    def __init__(self, source: str) -> None:
        lines = source.split("\n")
        self.in_vain = 0
        self.blank_after = [len(lines)] * (len(lines) + 1)  # of each line: the next blank one
        for number in range(len(lines) - 1, -1, -1):
            blank = not lines[number].strip()
            self.blank_after[number] = number if blank else self.blank_after[number + 1]


# What may begin another block, underline a heading or rule a table off.
_TELLING = frozenset("#>-*+_~`<=|:0123456789")


# Behind the mark of an item these may make it a rule, or that of a table.
_RULED = frozenset(("-", "*", "_", ":", "|", " ", "\t", "\n", ""))


def _plain_paragraph(state: "StateBlock", first: int, end: int, silent: bool) -> bool:
    """A paragraph that is seen to be one by the first character of its lines.

    The library asks eleven rules at each line; for most lines one look is enough, which saves a
    tenth of indexing. Whatever is not plain is left to those rules.
    """
    if silent or state.is_code_block(first):
        return False
    source, marks, shifts, ends = state.src, state.bMarks, state.tShift, state.eMarks
    line, last = first, state.lineMax
    while line < last:
        at = marks[line] + shifts[line]
        if at >= ends[line]:
            break  # an empty line
        if source[at] in _TELLING:
            if line == first:
                return _plain_other(state, first, end, at)
            if not _opens_item(state, line, at):
                return False
            break
        line += 1
    state.line = line
    state.push("paragraph_open", "p", 1).map = [first, line]
    state.push("inline", "", 0).map = [first, line]  # nobody asks for a paragraph's content
    state.push("paragraph_close", "p", -1)
    return True


def _plain_other(state: "StateBlock", first: int, end: int, at: int) -> bool:
    """A list or a heading that is seen to be one: no other rule need be asked before its own."""
    sign = state.src[at]
    if sign == "#":
        return not _may_be_table(state, first) and _heading_rule()(state, first, end, False)
    return (
        sign in "-*+"
        and _opens_item(state, first, at)
        and not _may_be_table(state, first)
        and _list_rule()(state, first, end, False)
    )


@cache
def _heading_rule() -> "Rule":
    from markdown_it.rules_block import heading

    return heading


@cache
def _list_rule() -> "Rule":
    from markdown_it.rules_block import list_block

    return list_block


@cache
def _quotation_rule() -> "Rule":
    from markdown_it.rules_block import blockquote

    return blockquote


def _may_be_table(state: "StateBlock", line: int) -> bool:
    """Whether the next line may be the rule below the head of a table."""
    if line + 1 >= state.lineMax:
        return False
    at = state.bMarks[line + 1] + state.tShift[line + 1]
    sign, second = state.src[at : at + 1], state.src[at + 1 : at + 2]
    return sign in ("|", ":") or (sign == "-" and second not in (" ", "\t"))


def _opens_item(state: "StateBlock", line: int, at: int) -> bool:
    """Whether the line is surely the next item of a list: not far indented, and no rule."""
    if state.src[at] not in "-*+" or state.src[at + 1 : at + 2] != " ":
        return False
    indent = state.sCount[line]
    return (
        state.src[at + 2 : at + 3] not in _RULED
        and indent >= 0
        and indent - state.blkIndent <= 3
        and (state.listIndent < 0 or indent - state.listIndent < 4)
    )


def _collect(tokens: "Sequence[Token]", line_starts: "Sequence[int]") -> Structure:
    headings: list[Heading] = []
    blocks: list[Block] = []
    code: list[tuple[int, int]] = []
    inline: list[tuple[int, int]] = []
    last_line = len(line_starts)
    for index, token in enumerate(tokens):
        if token.map is None:
            continue
        first, after = token.map
        kind = _KINDS.get(token.type)
        if kind is not None:
            blocks.append(Block(kind, token.level, first, after))
            if kind == "fence":
                code.append((first, after))
        elif token.type == "inline":
            inline.append((first, after))
        elif token.type == "heading_open" and token.level == 0:
            body = line_starts[after] if after < last_line else -1
            headings.append(
                Heading(
                    level=int(token.tag[1]),
                    text=tokens[index + 1].content.strip(),
                    line=first + 1,
                    start=line_starts[first],
                    body=body,
                )
            )
    return Structure(tuple(headings), tuple(blocks), tuple(code), tuple(inline))


def _with_hidden_code(shown: Structure, whole: Structure, lines: list[str]) -> Structure:
    """Structure without comments, and the code inside them: links there do not count either."""

    def hidden(ranges: "Sequence[tuple[int, int]]") -> list[tuple[int, int]]:
        return [(a, b) for a, b in ranges if not any(lines[a : min(b, len(lines))])]

    return replace(
        shown,
        code=tuple(sorted({*shown.code, *hidden(whole.code)})),
        inline=(*shown.inline, *hidden(whole.inline)),
    )


def _flattened(match: re.Match[str]) -> str:
    return match.group(1) + " "


def _opens_hidden_block(source: str) -> bool:
    """Whether some line begins with `%%` or `$$` and does not close it again."""
    for mark in ("%%", "$$"):
        at = source.find(mark)
        while at >= 0:
            line = source.rfind("\n", 0, at) + 1
            end = source.find("\n", at)
            end = len(source) if end < 0 else end
            if not source[line:at].strip(" \t>") and source.find(mark, at + 2, end) < 0:
                return True
            at = source.find(mark, end)
    return False


def _hide_comments_and_math(lines: list[str], code: "Sequence[tuple[int, int]]") -> list[Block]:
    """Blank the lines inside `%%` and `$$` blocks; returns these blocks.

    Inside them a `#` line is no heading and ``` opens no fence. Links and tags in comments do
    count, so this is for block structure only.
    """
    in_code = [False] * len(lines)
    for first, after in code:
        for number in range(first, min(after, len(lines))):
            in_code[number] = True
    hidden: list[Block] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        marked = not in_code[number] and ("%%" in line or "$$" in line)
        opener = _OPENER.match(line) if marked else None
        if opener is None:
            number += 1
            continue
        mark = opener.group(1)
        if lines[number].find(mark, opener.end()) >= 0:
            number += 1  # closed on its own line
            continue
        closing = number + 1
        while closing < len(lines) and mark not in lines[closing]:
            closing += 1
        if closing == len(lines):
            number += 1  # never closed: the person's text, not a comment
            continue
        for inside in range(number, closing + 1):
            lines[inside] = ""
        # In a quotation or an item it is part of that block.
        depth = 0 if opener.start(1) == opener.start() else 1
        hidden.append(Block("hidden", depth, number, closing + 1))
        number = closing + 1
    return hidden
