"""How many word pieces a text will be, estimated without a vocabulary.

Counting exactly costs as much as the rest of indexing together; a passage that turns out longer
than an embedder's window is split by the embedder, never cut off.
"""

import re

# Characters a word piece covers, by script. Latin Markdown prose lies between 3.3 (links, code)
# and 4.5 (plain prose); MiniLM's vocabulary spells other alphabets almost letter by letter.
_LATIN_CHARS = 4.0
_OTHER_CHARS = 1.6

_CJK = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)
_OTHER = re.compile("[\u0370-\u1aff\u1c00-\u1dff\ua000-\uabff\U00010000-\U0001ffff]")


def estimate_pieces(text: str) -> int:
    """Estimated word pieces of `text`; within about a third for the scripts tried."""
    length = len(text)
    if text.isascii():
        return int(length / _LATIN_CHARS) + 1
    cjk = len(_CJK.findall(text))
    other = len(_OTHER.findall(text))
    return int(cjk + other / _OTHER_CHARS + (length - cjk - other) / _LATIN_CHARS) + 1
