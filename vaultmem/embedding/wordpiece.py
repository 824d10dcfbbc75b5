"""BERT's uncased WordPiece: from text to the ids of word pieces.

Text is cleaned (control characters go, every kind of space becomes one), CJK characters stand
alone, accents are stripped (canonical decomposition without its marks), letters lower-cased and
punctuation split off. Each word is then cut greedily into the longest pieces of the vocabulary.
The names of special tokens are text like any other, so no note can smuggle in a separator.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib.resources import files

# Words longer than this, counted in normalised characters, are one unknown piece.
LONGEST_WORD = 100

# Notes repeat their words, so most need no second cutting. Long strings are seldom seen twice.
CACHED_WORDS = 8_192
LONGEST_CACHED = 32

# So many distinct characters are remembered; a hostile text could otherwise name a million.
REMEMBERED_CHARACTERS = 4_096

# Fewer words than this say nothing about the language of a text.
FEWEST_WORDS = 3

# What separates words once control characters are gone. `str.split` knows other ones.
_WORDS = re.compile("[^\t\n\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_ASCII_PARTS = re.compile(r"[!-/:-@\[-`{-~]|[0-9a-z]+")
_ASCII_UNUSED = re.compile("[\x00-\x1f\x7f]")
_LETTERS = re.compile(r"[^\W\d_]+")

_CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class _Characters(dict[int, str]):
    """A table for `str.translate` that works out a character when it is first seen."""

    def __missing__(self, code: int) -> str:
        found = self.replacement(chr(code))
        if len(self) < REMEMBERED_CHARACTERS:
            self[code] = found
        return found

    def replacement(self, character: str) -> str:
        raise NotImplementedError


class _Cleaned(_Characters):
    """Before decomposition: without control characters, all spaces alike."""

    def replacement(self, character: str) -> str:
        if character in "\t\n\r":
            return " "
        category = unicodedata.category(character)
        if character == "\ufffd" or category in ("Cc", "Cf", "Co", "Cs"):
            return ""
        return " " if category in ("Zs", "Zl", "Zp") else character


class _CleanedAndSpaced(_Cleaned):
    """The same, and CJK characters stand alone."""

    def replacement(self, character: str) -> str:
        cleaned = super().replacement(character)
        if any(first <= ord(character) <= last for first, last in _CJK):
            return f" {cleaned} "
        return cleaned


class _Folded(_Characters):
    """After decomposition: no marks, lower case letter by letter (sigma has one form here)."""

    def replacement(self, character: str) -> str:
        return "" if unicodedata.category(character) == "Mn" else character.lower()


class _FoldedAndSplit(_Folded):
    """The same, and punctuation stands alone."""

    def replacement(self, character: str) -> str:
        if character in "$+<=>^`|~" or unicodedata.category(character).startswith("P"):
            return f" {character} "
        return super().replacement(character)


class WordPiece:
    """A vocabulary at work. Safe to use from several threads at once."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._starts = {piece: id for id, piece in enumerate(vocabulary)}
        self._rests = {
            piece[2:]: id for id, piece in enumerate(vocabulary) if piece.startswith("##")
        }
        self.continues = bytes(piece.startswith("##") for piece in vocabulary)  # by id
        self.unknown = self._starts["[UNK]"]
        self.first = self._starts["[CLS]"]
        self.last = self._starts["[SEP]"]
        self._longest = max(map(len, vocabulary))
        self._cleaned_and_spaced = _CleanedAndSpaced()
        self._cleaned = _Cleaned()
        self._folded_and_split = _FoldedAndSplit()
        self._folded = _Folded()
        self._of_short = lru_cache(CACHED_WORDS)(self._of_raw_word)
        self._of_cut = lru_cache(CACHED_WORDS)(self._cut)

    def knows(self, word: str) -> bool:
        """Whether the word, in any case, is one piece: a common English word or name."""
        return word.lower() in self._starts

    def encode(self, text: str) -> list[int]:
        """Ids of the text's word pieces, without special tokens. Any string will do."""
        ids: list[int] = []
        for word in _WORDS.findall(text):
            if len(word) <= LONGEST_CACHED:
                ids += self._of_short(word)
            else:
                ids += self._of_raw_word(word)
        return ids

    def fertility(self, text: str) -> float | None:
        """Word pieces per word, a measure of how foreign a text is to the vocabulary.

        A word is a run of letters; digits and punctuation do not count. Text in a script that is
        written without spaces has long words of one piece a character. A word of which the
        vocabulary knows nothing counts its letters. None for fewer than three words.
        """
        cleaned = unicodedata.normalize("NFD", text.translate(self._cleaned))
        words = _LETTERS.findall(cleaned.translate(self._folded))
        if len(words) < FEWEST_WORDS:
            return None
        return sum(map(self._cost, words)) / len(words)

    def _cost(self, word: str) -> int:
        pieces = self._of_short(word) if len(word) <= LONGEST_CACHED else self._of_raw_word(word)
        return len(word) if pieces == (self.unknown,) else len(pieces)

    def _of_raw_word(self, word: str) -> tuple[int, ...]:
        """Pieces of what stands between two spaces."""
        return tuple(
            id
            for part in self._parts(word)
            for id in (self._of_cut(part) if len(part) <= LONGEST_CACHED else self._cut(part))
        )

    def _parts(self, word: str) -> list[str]:
        """Words and punctuation in what stands between two spaces, normalised."""
        if word.isascii():
            return _ASCII_PARTS.findall(_ASCII_UNUSED.sub("", word).lower())
        cleaned = unicodedata.normalize("NFD", word.translate(self._cleaned_and_spaced))
        return cleaned.translate(self._folded_and_split).split()

    def _cut(self, word: str) -> tuple[int, ...]:
        """The longest known piece first, then the longest known continuation of it, and so on."""
        whole = self._starts.get(word)
        if whole is not None:
            return (whole,)
        if len(word) > LONGEST_WORD:
            return (self.unknown,)
        pieces = tuple(self._greedy(word))
        return pieces if pieces[-1] >= 0 else (self.unknown,)

    def _greedy(self, word: str) -> Iterator[int]:
        start, known = 0, self._starts
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                piece = known.get(word[start:end])
                if piece is not None:
                    yield piece
                    start, known = end, self._rests
                    break
            else:
                yield -1
                return


@cache
def minilm_wordpiece() -> WordPiece:
    """The vocabulary of all-MiniLM-L6-v2, read at the first call."""
    listed = files("vaultmem.embedding").joinpath("minilm-vocabulary", "vocab.txt")
    return WordPiece(listed.read_text("utf-8").rstrip("\n").split("\n"))


def is_common_word(word: str) -> bool:
    """Whether the vocabulary of the built-in model holds this word whole."""
    return minilm_wordpiece().knows(word)


def fertility(text: str) -> float | None:
    """Word pieces per word in the vocabulary of the built-in model: about 1.2 for English prose,
    more the less English it is. None for a text of fewer than three words."""
    return minilm_wordpiece().fertility(text)
