"""Typo repair from the index's own vocabulary, so that it reaches titles, aliases and headings.

A word of four letters or more whose stem the index does not hold is also looked for as its nearest
known word: Damerau distance 1, or 2 from eight letters on, the same first letter preferred. A word
that the index knows only as a beginning is looked for as a prefix.
"""

import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import replace

from vaultmem.index.lookup import Lookup
from vaultmem.index.text import prepare
from vaultmem.model.query import Query, Word
from vaultmem.retrieval.words import STOP_WORDS

# A slip can take a letter from a word of five, so words of four are mended too, but only by one
# edit behind the first letter: short words have too many neighbours.
MIN_LETTERS = 4
ANY_FIRST_LETTER_FROM = 5
TWO_EDITS_FROM = 8
# `counk` may mean count or chunk: so many equally near words are looked for.
MOST_WORDS = 2
MIN_PREFIX = 3
MAX_REPAIRS = 12
# Longer ones are no words; comparing two takes the square of their length.
MAX_LETTERS = 64

# English endings that the stemmer takes off.
_ENDINGS = (
    "ations", "ation", "ments", "ities", "izing", "ings", "ment", "able", "ible", "tion", "ness",
    "ical", "ance", "ence", "ized", "ally", "ing", "ers", "ies", "ity", "ive", "ize", "ed", "er",
    "es", "ly", "al",
)  # fmt: skip


def repair(
    query: Query, lookup: Lookup, correct: Callable[[str], bool] = lambda word: False
) -> tuple[Query, dict[str, str]]:
    """The query with repaired words, and word -> what it is also looked for as.

    correct: says of a word that it needs no repair though no note holds it.
    """
    repaired: dict[str, str] = {}
    words: list[Word] = []
    unknown: list[Word] = []
    for word in query.words:
        better: tuple[str, ...] = ()
        if not word.phrase and not lookup.document_frequency(word):
            unknown.append(word)
            if len(unknown) <= MAX_REPAIRS:
                better = () if correct(word.forms[0]) else _repaired_forms(word, lookup)
        if better:
            repaired[word.text] = ", ".join(better)
        words.append(replace(word, forms=(*word.forms, *better)))
    mendable = [word for word in unknown if not word.compound]
    if len(unknown) == len(query.words) and len(repaired) < max(1, len(mendable)):
        return query, {}  # not one known word, and not all can be mended: more likely nonsense
    return replace(query, words=tuple(words)), repaired


def _repaired_forms(word: Word, lookup: Lookup) -> tuple[str, ...]:
    if len(word.forms[0]) > MAX_LETTERS:
        return ()
    form = _without_accents(word.forms[0].lower())
    if not form.isalpha() or len(form) < MIN_PREFIX or form in STOP_WORDS:
        return ()
    terms = lookup.terms(prepare(form))
    if len(terms) != 1 or lookup.is_term(terms[0]):
        return ()
    if len(form) >= MIN_LETTERS:
        nearest = _nearest(terms[0], form, lookup)
        if nearest:
            return nearest
    begins = lookup.terms_between(form, form + "\U0010ffff", shortest=len(form), longest=64)
    return (form + "*",) if begins else ()


def _without_accents(word: str) -> str:
    """The letters as the index's terms have them."""
    if word.isascii():
        return word
    letters = (c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))
    return unicodedata.normalize("NFC", "".join(letters))


def _nearest(stem: str, form: str, lookup: Lookup) -> tuple[str, ...]:
    """The known words with the fewest edits; the more frequent ones among equals."""
    near = _in_vocabulary(stem, form, lookup, most=1) or _with_other_ending(form, lookup)
    if not near and len(form) >= TWO_EDITS_FROM:
        near = _in_vocabulary(stem, form, lookup, most=2)
    return near


def _in_vocabulary(stem: str, form: str, lookup: Lookup, *, most: int) -> tuple[str, ...]:
    lengths = {"shortest": max(3, len(stem) - most - 1), "longest": len(form) + most}
    first = form[0]
    after_first = chr(ord(first) + 1)
    found = _best(stem, form, lookup, lookup.terms_between(first, after_first, **lengths), most)
    if not found and len(form) >= ANY_FIRST_LETTER_FROM:
        others = lookup.terms_between("", first, **lengths)
        others += lookup.terms_between(after_first, "\U0010ffff", **lengths)
        found = _best(stem, form, lookup, others, most)
    return found


def _best(
    stem: str, form: str, lookup: Lookup, terms: list[tuple[str, int]], most: int
) -> tuple[str, ...]:
    shared = _grams(stem)
    needed = max(1, len(shared) - 3 * most)
    nearest = most
    words: dict[str, int] = {}  # word -> notes that hold it
    for term, count in terms:
        if not term.isalpha() or len(shared & _grams(term)) < needed:
            continue
        for typed, spelling in _spellings(stem, form, term):
            distance = damerau(typed, spelling, most)
            if distance > nearest:
                continue
            word = _word_of(term, spelling, lookup)
            if word is None or word in STOP_WORDS:
                continue
            if distance < nearest:
                nearest, words = distance, {}
            words[word] = count
            break
    return tuple(sorted(words, key=lambda word: (-words[word], word))[:MOST_WORDS])


def _spellings(stem: str, form: str, term: str) -> Iterator[tuple[str, str]]:
    """Pairs to compare: stem with stem, and the word as typed with what the stem may stand for."""
    yield stem, term
    if form != stem:
        yield form, term
    yield form, term + "e"
    if term.endswith("i"):
        yield form, term[:-1] + "y"


def _word_of(term: str, spelling: str, lookup: Lookup) -> str | None:
    """A word that stems to `term`, `spelling` if it does: stemming a stem may give another one."""
    if spelling != term:
        return spelling if lookup.terms(spelling) == [term] else None
    candidates = [term, term + "e", term + "s", term + "ed", term + "ing", term + term[-1] + "ing"]
    if term.endswith("i"):
        candidates.insert(0, term[:-1] + "y")
    return next((word for word in candidates if lookup.terms(word) == [term]), None)


def _with_other_ending(form: str, lookup: Lookup) -> tuple[str, ...]:
    """The word with its ending mended, if the index then knows its stem.

    A slip in an ending hides it from the stemmer (`alertign`), which puts the word several edits
    away from the stem that the index holds.
    """
    best: tuple[int, str] | None = None
    for ending in _ENDINGS:
        for length in range(max(2, len(ending) - 1), min(len(ending) + 2, len(form) - 2)):
            distance = damerau(form[-length:], ending, 1)
            if distance > 1 or (best is not None and distance >= best[0]):
                continue
            mended = form[:-length] + ending
            terms = lookup.terms(mended)
            if len(terms) == 1 and lookup.is_term(terms[0]):
                best = (distance, mended)
    return (best[1],) if best else ()


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
    return min(above[-1], most + 1)
