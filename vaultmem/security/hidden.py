"""Characters that nobody sees: what they are, and how to show them.

Whoever hides text in a note means a program to read it and a person not to. What is of use in
writing stays as it is: joiners between letters of scripts that join, the selectors and joiners of
emoji, the tags of flags.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

# Within words of letters that do not join, this many are no accident of copying from a web page.
MANY_ZERO_WIDTH = 3

_BIDI = "\u202a-\u202e\u2066-\u2069"
_TAGS = "\U000e0000-\U000e007f"
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_ZERO_WIDTH = "\u200b-\u200d\u2060-\u2064\ufeff\u180e"
_LATIN = "A-Za-z\u00c0-\u024f"

# In RE2's syntax, for the one look at every text. (Letters beyond ASCII double its cost, and a word
# with characters hidden in it has others.)
HIDDEN_SIGN = rf"[{_BIDI}{_TAGS}]|[{_SELECTORS}][{_SELECTORS}]|[{_ZERO_WIDTH}][A-Za-z]"

# A flag of a part of a country: a black flag, its letters as tags, and the end of tags.
# Only flags that there are: tags spell any word else.
_FLAG = "\U0001f3f4(?:{})\U000e007f".format(
    "|".join(
        "".join(chr(0xE0000 + ord(sign)) for sign in region)
        for region in ("gbeng", "gbsct", "gbwls", "gbnir", "usca", "ustx")
    )
)
# A number as address books copy it: marked to run from left to right, which it does anyway.
_NUMBER = "[\u202a\u202d\u2066\u2068][+0-9()./ \u00a0-]{1,40}[\u202c\u2069]"
_HIDDEN = re.compile(
    f"(?P<flag>{_FLAG}|{_NUMBER})|(?P<bidi>[{_BIDI}]+)|(?P<tags>[{_TAGS}]+)"
    f"|(?P<selectors>[{_SELECTORS}]{{2,}})"
    f"|(?<=[{_LATIN}])(?P<zero>[{_ZERO_WIDTH}]+)(?=[{_LATIN}])"
)
_ESCAPE = re.compile(r"\\u\{([0-9a-f]{4,5})\}")
_NAMES = {
    "bidi": "marks that turn the direction of text around",
    "tags": "invisible tag characters",
    "selectors": "variation selectors that select nothing",
    "zero": "invisible characters within words",
}


class Hidden(NamedTuple):
    """What is hidden in a text."""

    start: int  # offset of the first
    characters: int
    what: str  # in words


def find_hidden(text: str) -> Hidden | None:
    """What is hidden in a text; None for what may stand in any."""
    counts: Counter[str] = Counter()
    first: dict[str, int] = {}
    for match in _hidden(text):
        kind = str(match.lastgroup)
        counts[kind] += len(match.group())
        first.setdefault(kind, match.start())
    if counts["zero"] < MANY_ZERO_WIDTH:
        del counts["zero"]
    if not counts:
        return None
    what = " and ".join(_NAMES[kind] for kind in _NAMES if counts[kind])
    return Hidden(min(first[kind] for kind in counts), counts.total(), what)


def shown(text: str) -> str:
    """The text with what is hidden in it as escapes: `\\u{e0041}`."""
    if text.isascii():
        return text
    return _HIDDEN.sub(_escaped, text)


def as_written(text: str) -> str:
    """The text that `shown` gives as this one; the text itself where there is no other."""
    if "\\u{" not in text:
        return text
    written = _ESCAPE.sub(lambda match: chr(int(match.group(1), 16)), text)
    return written if shown(written) == text else text


def shown_in(value: object) -> object:
    """The same for every text in a list or a mapping, names included."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict):
        return {shown_in(key): shown_in(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(shown_in(part) for part in value)
    return value


def _escaped(match: re.Match[str]) -> str:
    if match.lastgroup == "flag":
        return match.group()
    return "".join(f"\\u{{{ord(sign):x}}}" for sign in match.group())


def _hidden(text: str) -> Iterator[re.Match[str]]:
    return (match for match in _HIDDEN.finditer(text) if match.lastgroup != "flag")
