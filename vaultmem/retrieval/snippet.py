"""The few lines of a passage that show why it was found."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence

from vaultmem.index.text import unspaced_runs
from vaultmem.model.query import Word

SNIPPET_CHARS = 240
_BLANKS = re.compile(r"\s+")
# Vowel signs and accents belong to the word they stand in; Python's `\w` leaves them out.
_WORD = re.compile(r"(?:[^\W_]|[\u0300-\u036f\u0590-\u07ff\u0900-\u0dff\u1a00-\u1aff])+")
# What a stemmed match must share with the word asked for, at least.
_STEM_SHARE = 0.7


def snippet(text: str, words: Sequence[Word], *, size: int = SNIPPET_CHARS) -> str:
    """A stretch of `text` of about `size` characters with most of the query's words.

    The text is shown as it is, accents and case included, with runs of blanks folded.
    """
    flat = _BLANKS.sub(" ", text).strip()
    if len(flat) <= size:
        return flat
    stems = {_stem(part) for word in words for form in word.forms for part in form.split()}
    asked = {_folded(part) for word in words for form in word.forms for part in form.split()}
    folded = _folded(flat)
    spots: list[tuple[int, str]] = []
    for match in _WORD.finditer(folded):
        word = match.group()
        spots += [(match.start(), stem) for stem in stems if word.startswith(stem)]
        if len(word) > 2:
            # `running` finds a note that says `run`.
            spots += [(match.start(), word) for whole in asked if whole.startswith(word)]
    for stem in stems:
        if unspaced_runs(stem):
            spots += [(match.start(), stem) for match in re.finditer(re.escape(stem), folded)]
    spots.sort()
    starts = [at for at, _ in spots]
    if not spots:
        return _cut(flat, 0, size)
    best_start, best_count = 0, -1
    for start, _ in spots[:200]:
        here = slice(bisect_left(starts, start), bisect_left(starts, start + size - 20))
        inside = {stem for _, stem in spots[here]}
        if len(inside) > best_count:
            best_start, best_count = start, len(inside)
    return _cut(flat, max(0, best_start - size // 6), size)


def _cut(text: str, start: int, size: int) -> str:
    start = min(start, max(0, len(text) - size))
    if start > 0:
        blank = text.find(" ", start, start + 30)
        start = blank + 1 if blank >= 0 else start
    end = min(len(text), start + size)
    if end < len(text):
        blank = text.rfind(" ", end - 30, end)
        end = blank if blank > start else end
    return ("…" if start > 0 else "") + text[start:end] + ("…" if end < len(text) else "")


def _stem(part: str) -> str:
    folded = _folded(part.rstrip("*"))
    return folded[: max(3, min(round(len(folded) * _STEM_SHARE), len(folded) - 3))]


def _folded(text: str) -> str:
    """Lower case without accents, character for character, so that offsets hold."""
    if text.isascii():
        return text.lower()
    folded = []
    for character in text:
        base = unicodedata.normalize("NFKD", character)[0].lower()
        folded.append(base if len(base) == 1 else character)
    return "".join(folded)
