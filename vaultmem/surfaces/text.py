"""Text from notes on its way to a terminal."""

import re

# C0 and C1 controls but tab and newline, and what overrides the direction of text.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Text that cannot move a cursor, change a colour or turn a line around."""
    return _STEERING.sub(lambda match: f"\\x{ord(match.group()):02x}", text)


def visible_line(text: str) -> str:
    """The same for a name or a message: it cannot begin a line of its own either."""
    return visible(text.replace("\n", "\\n").replace("\t", " "))
