"""Unicode's normal forms in linear time.

`unicodedata` sorts a letter's accents by insertion: 100,000 of them on one letter take 8 seconds,
and a megabyte takes a quarter of an hour. No script puts more than a few on a letter.
"""

import re
import unicodedata
from itertools import pairwise
from typing import Literal

# Unicode's own bound for streams (UAX 15) is 30.
_AT_ONCE = 32
# Every accent is none of `\w`; so are emoji and punctuation, for which it makes no difference.
_LONG_RUN = re.compile(rf"[^\w\x00-\x7f]{{{_AT_ONCE + 1},}}")


def normal_form(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """The text in a normal form; of more than 32 accents in a row, the order stays in parts."""
    if text.isascii():
        return text
    if len(text) <= _AT_ONCE or _LONG_RUN.search(text) is None:
        return unicodedata.normalize(form, text)
    cuts = [0]
    for run in _LONG_RUN.finditer(text):
        # The first ones stay with the letter that they stand on.
        cuts += range(run.start() + _AT_ONCE, run.end(), _AT_ONCE)
    cuts.append(len(text))
    parts = (text[a:b] for a, b in pairwise(cuts))
    return "".join([unicodedata.normalize(form, part) for part in parts])
