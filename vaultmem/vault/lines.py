"""Where the lines of a text begin."""

from itertools import accumulate


def line_offsets(text: str) -> tuple[int, ...]:
    """Offset of the first character of each line."""
    lengths = map(len, text.split("\n"))
    starts = list(accumulate(lengths, lambda at, length: at + length + 1, initial=0))
    starts.pop()
    return tuple(starts)
