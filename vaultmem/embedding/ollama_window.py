"""Whether a text fits into a model's window, and cutting it where it does not.

The server counts in tokens of a vocabulary we do not have, and cuts what is too long without a
word. So tokens are estimated from above: for MiniLM's WordPiece the estimate is 1.3 times the
tokens of English notes and 1.0 to 1.2 times those of hashes, base64, German, Russian, Arabic and
Korean; in stretches of 600 characters it was never more than 5 % too low.
"""

import re
from collections.abc import Iterator

# Kept free of the window: what the estimate may be too low by, and the marks of begin and end.
_MARGIN = 0.06
_MARKS = 2
# A prefix must not eat the window of a model it was not made for.
_LEAST_BUDGET = 32

_RUN = re.compile(
    r"[A-Z]?[a-z]+|[A-Z]+|[\x00-\x08\x0e-\x1f!-@\[-`{-\x7f]+|\s{2,}|\n"
    r"|[\uac00-\ud7af]+|[^\x00-\x7f\uac00-\ud7af]+",
    re.ASCII,
)
_WORD = re.compile(r"\S+\s*|\s+")
_LETTERS_OF_A_WORD = 12


def most_tokens(text: str) -> float:
    """An estimate from above of the tokens of `text`."""
    return sum(_cost(run) for run in _RUN.findall(text))


def _cost(run: str) -> float:
    size = len(run)
    if not run.isascii():
        # A Korean syllable falls into its three letters; else a token holds two bytes at least.
        return (
            3 * size if "\uac00" <= run[0] <= "\ud7af" else len(run.encode("utf-8", "replace")) / 2
        )
    if run[0].isspace():
        return 1
    if run[-1].islower():
        if size <= _LETTERS_OF_A_WORD:
            return -(-size // 4)
        return 3 + -(-(size - _LETTERS_OF_A_WORD) // 2)
    if run[0].isupper():
        return -(-2 * size // 3)
    return size  # digits and punctuation


def budget(window: int, prefix: str) -> float:
    """Tokens, by estimate, that a text behind `prefix` may have in a window of so many tokens."""
    return max(window * (1 - _MARGIN) - _MARKS - most_tokens(prefix), _LEAST_BUDGET)


def pieces(text: str, most: float) -> list[str]:
    """The text itself if it has `most` tokens at most, else pieces of it that do.

    Cut at blanks; a run without any is cut where it is full. Nothing but blanks is left out.
    """
    # No tokenizer makes more tokens than there are bytes.
    if len(text) * 4 <= most or most_tokens(text) <= most:
        return [text]
    found: list[str] = []
    start, here, used = 0, 0, 0.0
    for word in _words(text, most):
        cost = most_tokens(word)
        if here > start and used + cost > most:
            found.append(text[start:here])
            start, used = here, 0.0
        here += len(word)
        used += cost
    found.append(text[start:])
    return [piece for piece in found if not piece.isspace()] or [text]


def _words(text: str, most: float) -> Iterator[str]:
    for match in _WORD.finditer(text):
        word = match.group()
        while most_tokens(word) > most:
            # Three tokens a character is the worst there is.
            size = max(int(most / 3), 1)
            while size * 2 < len(word) and most_tokens(word[: size * 2]) <= most:
                size *= 2
            yield word[:size]
            word = word[size:]
        if word:
            yield word


def halves(text: str) -> tuple[str, str]:
    """The text in two, at the blank nearest to its middle, or in its middle if it has none.

    One of them is empty only if the text has one character or none.
    """
    middle = len(text) // 2
    places = [text.rfind(blank, 1, middle) for blank in " \n"]
    places += [text.find(blank, middle, -1) for blank in " \n"]
    blanks = [place + 1 for place in places if place > 0]
    cut = min(blanks, key=lambda place: abs(place - middle), default=middle)
    return text[:cut], text[cut:]
