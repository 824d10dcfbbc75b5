"""How text is prepared for the full-text index; documents and queries go through the same door.

FTS5's `porter unicode61` splits on punctuation and folds accents. What it does not do is here:
scripts without blanks between words become overlapping character pairs, and CamelCase names are
followed by their parts, so that an identifier is found whole and by its words.
"""

import re
from functools import lru_cache

from vaultmem.vault.composed import normal_form

# Bump when prepared text changes, so that sidecars are rebuilt.
TEXT_VERSION = 4

# Letters and marks of every script are word characters, so that vowel signs do not split words.
TOKENIZER = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
TOKENIZER_ARGUMENTS = ["unicode61", "remove_diacritics", "2", "categories", "L* N* Co Mn Mc"]

# Scripts written without blanks: kana, Han, Hangul, Thai, Lao, Myanmar, Khmer.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u309f\u30a1-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
# Symbols newer than the tokenizer's Unicode table count as letters there; and the selector behind
# an emoji is a mark.
_SYMBOLS = re.compile("[\u2000-\u206f\u2190-\u2bff\ufe00-\ufe0f\U0001f000-\U0001fbff]")
# From the place where a CamelCase name gives itself away to its end; a word in capitals does the
# same, and turns out to have one part.
# (Begins with the capital: few characters are one, and only there the expression is tried.)
_CAMEL_REST = re.compile(r"[A-Z](?<=[A-Za-z0-9][A-Z])[A-Za-z0-9]*")
# `PDFs` is one part, `HTTPServer` two.
_CAMEL_PART = re.compile(r"[A-Z]{2,}s(?![A-Za-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
# Language names that lose their mark to the tokenizer, and the word people use instead.
_MARKED = re.compile(r"(?<![A-Za-z0-9])([CFcf])(\+\+|#)(?![#+])")
_MARKS = ("++", "C#", "c#", "F#", "f#")
_MARKED_WORDS = {"c++": "cpp", "c#": "csharp", "f#": "fsharp"}


def normalize(text: str) -> str:
    """Compatibility-composed Unicode: full-width letters, ligatures and NFD become plain."""
    return normal_form("NFKC", text)


def prepare(text: str) -> str:
    """The text as the full-text index sees it: folded, and followed by the parts of its names."""
    plain = prepare_plain(text)
    parts = name_parts(text)
    return f"{plain}\n{parts}" if parts else plain


def prepare_plain(text: str) -> str:
    """The words of a text in their order, for documents and for phrases alike."""
    text = normalize(text)
    if not text.isascii():
        text = _SYMBOLS.sub(" ", text)
    if ("#" in text or "++" in text) and any(mark in text for mark in _MARKS):
        text = _MARKED.sub(_with_word, text)
    if not text.isascii():
        text = _UNSPACED.sub(_pairs, text)
    return text


def name_parts(text: str) -> str:
    """What a text is also found by: the parts of CamelCase names, the last signs of CJK runs.

    They stand behind the text, so that phrases find the words of the text side by side.
    """
    text = normalize(text)
    found = [
        parts
        for match in _CAMEL_REST.finditer(text)
        if (parts := _parts_of(text[_word_start(text, match.start()) : match.end()]))
    ]
    if not text.isascii():
        # With pairs alone a single character is found as the first of a pair, never as the last.
        found += [run[-1] for run in _UNSPACED.findall(text) if len(run) > 1]
    return "\n".join(found)


# Longer ones are no names, and would stay in memory for as long as the program runs.
_LONGEST_NAME = 64


def _parts_of(word: str) -> str:
    return (_joined_parts if len(word) <= _LONGEST_NAME else _joined_parts.__wrapped__)(word)


@lru_cache(maxsize=1 << 14)
def _joined_parts(word: str) -> str:
    """The parts of a name side by side; "" when it has but one. The same names come up often."""
    parts = _CAMEL_PART.findall(word)
    return " ".join(parts) if len(parts) > 1 else ""


def _word_start(text: str, at: int) -> int:
    # Walking back by hand is cheaper than letting the expression try every word's beginning.
    while at > 0 and text[at - 1].isalnum() and text[at - 1] < "\x80":
        at -= 1
    return at


def camel_parts(word: str) -> list[str]:
    """The words of a CamelCase name; empty when it is not one."""
    if not (word.isascii() and word.isalnum() and _CAMEL_REST.search(word)):
        return []
    parts = _CAMEL_PART.findall(word)
    return parts if len(parts) > 1 else []


def unspaced_runs(text: str) -> list[str]:
    """The runs of `text` in scripts written without blanks."""
    return [] if text.isascii() else _UNSPACED.findall(text)


def spaced_pieces(text: str) -> list[str]:
    """What stands before, between and behind those runs."""
    return [text] if text.isascii() else _UNSPACED.split(text)


def _with_word(match: re.Match[str]) -> str:
    return f"{match.group()} {_MARKED_WORDS[match.group().lower()]} "


def _pairs(match: re.Match[str]) -> str:
    run = match.group()
    if len(run) == 1:
        return f" {run} "
    return f" {' '.join(run[i : i + 2] for i in range(len(run) - 1))} "
