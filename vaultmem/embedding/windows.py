"""A long text in windows that a model can see: few, of nearly equal length, cut between words."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise


def windows(ids: Sequence[int], continues: bytes, *, room: int, most: int) -> list[slice]:
    """Where to cut word pieces so that no window has more than `room`, if words allow it.

    continues: by id, 1 for a piece that goes on with a word; no window starts with one.
    most:      so many windows at most; what comes after the last of them is left out.
    Returns at least one, for no pieces an empty one. As few as will do, and then the longest as
    short as can be. A word of more than `room` pieces has a window of its own.
    """
    if len(ids) <= room:
        return [slice(0, len(ids))]
    ends = [place for place in range(1, len(ids)) if not continues[ids[place]]]
    ends.append(len(ids))
    fewest = _fill(ends, room)[:most]
    ends = ends[: bisect_right(ends, fewest[-1])]
    too_little, enough = 0, room
    while enough - too_little > 1:
        middle = (too_little + enough) // 2
        if len(_fill(ends, middle)) <= len(fewest):
            enough = middle
        else:
            too_little = middle
    return [slice(start, end) for start, end in pairwise([0, *_fill(ends, enough)])]


def _fill(ends: Sequence[int], room: int) -> list[int]:
    """Ends of windows, each filled with as many words as go in; at least one."""
    filled: list[int] = []
    start = place = 0
    while place < len(ends):
        place = max(bisect_right(ends, start + room, place), place + 1)
        start = ends[place - 1]
        filled.append(start)
    return filled
