"""Typo repair from the index's own vocabulary, so that it reaches titles, aliases and headings.

A word of five letters or more whose stem the index does not hold is also looked for as its nearest
term: Damerau distance 1, or 2 from eight letters on, the same first letter preferred. A word the
index knows only by its beginning is looked for as a prefix.
"""

from dataclasses import replace

from vaultmem.index.lookup import Lookup
from vaultmem.index.text import prepare
from vaultmem.model.query import Query, Word

MIN_LETTERS = 5
MIN_PREFIX = 3
TWO_EDITS_FROM = 8


def repair(query: Query, lookup: Lookup) -> tuple[Query, dict[str, str]]:
    """The query with repaired words, and word -> what it is also looked for as."""
    repaired: dict[str, str] = {}
    words: list[Word] = []
    for word in query.words:
        better = None if word.phrase else _repaired_form(word, lookup)
        if better is not None:
            repaired[word.text] = better
            word = replace(word, forms=(*word.forms, better))  # noqa: PLW2901
        words.append(word)
    return replace(query, words=tuple(words)), repaired


def _repaired_form(word: Word, lookup: Lookup) -> str | None:
    if len(word.forms) != 1 or " " in word.forms[0]:
        return None
    form = word.forms[0].lower()
    if not form.isalpha() or len(form) < MIN_PREFIX:
        return None
    terms = lookup.terms(prepare(form))
    if len(terms) != 1 or lookup.is_term(terms[0]):
        return None
    if len(form) >= MIN_LETTERS:
        nearest = _nearest(terms[0], form, lookup)
        if nearest is not None:
            return nearest
    begins = lookup.terms_between(form, form + "\U0010ffff", shortest=len(form), longest=64)
    return form + "*" if begins else None


def _nearest(stem: str, form: str, lookup: Lookup) -> str | None:
    """The vocabulary's nearest term to a stem; the more frequent one among equals."""
    most = 2 if len(form) >= TWO_EDITS_FROM else 1
    lengths = {"shortest": max(3, len(stem) - most), "longest": len(stem) + most}
    first = stem[0]
    after_first = chr(ord(first) + 1)
    found = _best(stem, lookup.terms_between(first, after_first, **lengths), most)
    if found is not None:
        return found
    others = lookup.terms_between("", first, **lengths)
    others += lookup.terms_between(after_first, "\U0010ffff", **lengths)
    return _best(stem, others, most)


def _best(stem: str, terms: list[tuple[str, int]], most: int) -> str | None:
    shared = _grams(stem)
    needed = max(1, len(shared) - 3 * most)
    best: tuple[int, int, str] | None = None
    for term, count in terms:
        if not term.isalpha() or len(shared & _grams(term)) < needed:
            continue
        distance = damerau(stem, term, most)
        if distance <= most and (best is None or (distance, -count, term) < best):
            best = (distance, -count, term)
    return best[2] if best else None


def _grams(word: str) -> set[str]:
    """Letter pairs with the word's beginning marked; one edit spoils at most three."""
    marked = "^" + word
    return {marked[i : i + 2] for i in range(len(marked) - 1)}


def damerau(a: str, b: str, most: int) -> int:
    """Edits (insert, delete, replace, swap of neighbours) from `a` to `b`, or `most` + 1.

    Optimal string alignment: no piece is edited twice. Gives up once a row exceeds `most`.
    """
    if abs(len(a) - len(b)) > most:
        return most + 1
    before: list[int] = []
    above = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            cost = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
        before, above = above, row
    return above[-1]
