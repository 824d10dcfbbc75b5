"""The marks of managed blocks: which are whole, and why a note's are not to be trusted.

A managed block stands between `%% vaultmem:begin ID %%` and `%% vaultmem:end ID %%`, each a line of
its own. A mark in code is a person's text.
"""

import re
from typing import NamedTuple

_MARK = re.compile(
    r"^[ \t]*%%[ \t]*vaultmem:(begin|end)(?:[ \t]+([^\s%]+))?[ \t]*%%[ \t]*$", re.MULTILINE
)


class Marker(NamedTuple):
    """One mark."""

    opens: bool
    id: str
    line: int


def find_markers(masked: str) -> tuple[Marker, ...]:
    """The marks of a note. masked: its text with code masked."""
    markers: list[Marker] = []
    at = line = 0
    for match in _MARK.finditer(masked):
        line += masked.count("\n", at, match.start())
        at = match.start()
        markers.append(Marker(match.group(1) == "begin", match.group(2) or "", line + 1))
    return tuple(markers)


def marker_fault(markers: tuple[Marker, ...]) -> tuple[int, str] | None:
    """(line, reason) of the first mark that makes a note's blocks ambiguous; None for none."""
    opened: Marker | None = None
    known: set[str] = set()
    for mark in markers:
        if mark.opens:
            if opened is not None:
                return mark.line, f"it begins within the block that begins in line {opened.line}"
            if mark.id in known:
                return mark.line, f"the block {mark.id} is there twice"
            opened = mark
            known.add(mark.id)
        elif opened is None:
            return mark.line, "it ends a block that did not begin"
        elif mark.id != opened.id:
            return mark.line, f"it ends another block than the one of line {opened.line}"
        else:
            opened = None
    return (opened.line, "the block never ends") if opened is not None else None
