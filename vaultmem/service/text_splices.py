"""Changes of a text as splices, and what a person is shown of them.

The files hold other programs' keys and passwords, so the diff shows what is put in or taken out
and nothing else: no lines around it, and of a line that is changed in part, only that part. What is
to stay unseen of the change itself, the caller says.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Splice:
    """text[start:end] gives way to `new`. Offsets are those of the old text."""

    start: int
    end: int
    new: str


def spliced(text: str, splices: Sequence[Splice]) -> str:
    """The text with the splices applied; they are in order and do not overlap."""
    parts: list[str] = []
    at = 0
    for splice in splices:
        parts += [text[at : splice.start], splice.new]
        at = splice.end
    return "".join([*parts, text[at:]])


@dataclass(frozen=True, slots=True)
class Veils:
    """What is shown otherwise than it is written, as splices of the old text and of the new."""

    old: Sequence[Splice] = ()
    new: Sequence[Splice] = ()


def changed_lines(
    text: str, splices: Sequence[Splice], shown: str = "", veils: Veils | None = None
) -> tuple[str, ...]:
    """The hunks of a unified diff without context.

    shown: text of the file that is shown where it stands beside a change, such as the name of the
    table; all else but brackets and commas is shown as `…`.
    veils: what is not shown of the change itself.
    """
    lines: list[str] = []
    grown = 0
    pairs = dict(zip(splices, _shown(text, splices, veils or Veils()), strict=True))
    for group in _by_lines(text, splices):
        first = _line_start(text, group[0].start)
        last = _line_end(text, group[-1].end)
        old, new = _masked(text, first, last, [(s, *pairs[s]) for s in group], shown)
        number = text.count("\n", 0, first)
        while old and new and old[0] == new[0]:
            old, new, number = old[1:], new[1:], number + 1
        while old and new and old[-1] == new[-1]:
            old, new = old[:-1], new[:-1]
        if old or new:
            was, becomes = _range(number, len(old)), _range(number + grown, len(new))
            lines.append(f"@@ -{was} +{becomes} @@")
            lines += [f"-{line}" for line in old] + [f"+{line}" for line in new]
        grown += len(new) - len(old)
    return tuple(lines)


def _shown(text: str, splices: Sequence[Splice], veils: Veils) -> list[tuple[str, str]]:
    """What is shown of each splice: the text that goes and the one that comes."""
    pairs: list[tuple[str, str]] = []
    new_text = spliced(text, splices)
    longer = 0
    for splice in splices:
        start = splice.start + longer
        end = start + len(splice.new)
        pairs.append(
            (
                _veiled(text, splice.start, splice.end, veils.old),
                _veiled(new_text, start, end, veils.new),
            )
        )
        longer += len(splice.new) - (splice.end - splice.start)
    return pairs


def _veiled(text: str, start: int, end: int, veils: Sequence[Splice]) -> str:
    inside = [veil for veil in veils if start <= veil.start and veil.end <= end]
    moved = [Splice(veil.start - start, veil.end - start, veil.new) for veil in inside]
    return spliced(text[start:end], moved)


def _range(before: int, count: int) -> str:
    """Lines of a hunk. before: how many there are ahead of it."""
    start = before + 1 if count else before
    return str(start) if count == 1 else f"{start},{count}"


def _by_lines(text: str, splices: Sequence[Splice]) -> list[list[Splice]]:
    """The splices, those that touch one line together."""
    groups: list[list[Splice]] = []
    for splice in splices:
        if groups and _line_start(text, splice.start) < _line_end(text, groups[-1][-1].end):
            groups[-1].append(splice)
        else:
            groups.append([splice])
    return groups


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _masked(
    text: str, first: int, last: int, group: Sequence[tuple[Splice, str, str]], shown: str
) -> tuple[list[str], list[str]]:
    old: list[str] = []
    new: list[str] = []
    at = first
    for splice, gone, come in group:
        kept = _mask(text[at : splice.start], shown)
        old += [kept, gone]
        new += [kept, come]
        at = splice.end
    kept = _mask(text[at:last], shown)
    return _lines("".join([*old, kept])), _lines("".join([*new, kept]))


def _lines(text: str) -> list[str]:
    shown = text.removeprefix("\ufeff").replace("……", "…")  # what is hidden on both sides
    lines = [line.removesuffix("\r") for line in shown.split("\n")]
    return lines if lines[-1] else lines[:-1]


def _mask(text: str, shown: str) -> str:
    """The text of a file beside a change, without anything it says."""
    plain = re.compile(
        rf'(?:[\s{{}}\[\],:\ufeff]|"?{re.escape(shown)}"?)*' if shown else r"[\s{}\[\],:\ufeff]*"
    )
    parts: list[str] = []
    for line in re.split("(\r?\n)", text):
        if plain.fullmatch(line):
            parts.append(line)
        else:
            stripped = line.strip()
            before = line[: line.index(stripped)]
            parts.append(f"{before}…{line[len(before) + len(stripped) :]}")
    return "".join(parts)
