"""How many word pieces a text will be, estimated without a vocabulary.

Counting exactly costs as much as the rest of indexing together; a passage that turns out longer
than an embedder's window is split by the embedder, never cut off.
"""

import re

# Least-squares fit to the WordPiece vocabulary of MiniLM over English notes, documentation and
# prose (mean error under 10 % in each, 9 % spread): what one character of a kind costs.
_LETTER = 0.154  # blanks count as letters
_PUNCTUATION = 1.284
# No character costs less.
LEAST_PIECES = _LETTER
_DIGIT = 0.686
# That vocabulary knows no German or Spanish words: twice the pieces a letter.
_ACCENTED_LETTER = 0.30
_ACCENTED_SHARE = 0.005
# And it spells other alphabets almost letter by letter.
_OTHER_LETTER = 0.8

_LETTERS_AND_BLANKS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ \t\n"
_DIGITS = b"0123456789"

_CJK = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)
_OTHER = re.compile("[\u0370-\u1aff\u1c00-\u1dff\ua000-\uabff\U00010000-\U0001ffff]")


def estimate_pieces(text: str) -> int:
    """Estimated word pieces of `text`, at least 1."""
    return int(measure_pieces(text)) + 1


def measure_pieces(text: str) -> float:
    """The same before rounding: what two texts cost together is what each costs, summed."""
    plain = text.encode("ascii", "ignore")
    marks = plain.translate(None, _LETTERS_AND_BLANKS)
    punctuation = len(marks.translate(None, _DIGITS))
    digits = len(marks) - punctuation
    letters = len(plain) - len(marks)
    pieces = punctuation * _PUNCTUATION + digits * _DIGIT
    foreign = len(text) - len(plain)
    if not foreign:
        return pieces + letters * _LETTER
    cjk = len(_CJK.findall(text))
    other = len(_OTHER.findall(text))
    accented = foreign - cjk - other
    letter = _ACCENTED_LETTER if accented > _ACCENTED_SHARE * letters else _LETTER
    return pieces + letters * letter + accented + cjk + other * _OTHER_LETTER
