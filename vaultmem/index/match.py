"""Expressions for FTS5. What a person typed never stands in one but quoted.

A row is scored for each word that it holds, so a word that a tenth of a large vault holds makes a
search slow, though rows that hold it and no other word of the question rank low. Where there are
enough of the others, such rows are left aside: `narrowed`.
"""

from collections.abc import Iterable, Mapping, Sequence

from vaultmem.model.query import Word

# Notes that hold a word, up to which it brings all its rows.
FEW_HOLDERS = 4_000
# Notes that hold the words of a question, summed, up to which nothing is left aside: it costs more
# to ask several times than to score them all.
FEW_HOLDERS_IN_ALL = 12_000


def quote(form: str) -> str:
    """A run of tokens to be found in sequence. A trailing `*` asks for a prefix."""
    if form.endswith("*"):
        return '"' + form[:-1].replace('"', '""') + '" *'
    return '"' + form.replace('"', '""') + '"'


def match_any(words: Iterable[Word]) -> str:
    """The FTS5 expression that any of the words satisfies."""
    return " OR ".join(quote(form) for word in words for form in word.forms)


def match_all(words: Iterable[Word]) -> str:
    """The FTS5 expression that only a row with every one of the words satisfies."""
    return " AND ".join(f"({match_any([word])})" for word in words)


def narrowed(words: Sequence[Word], holders: Mapping[Word, int]) -> tuple[str, ...]:
    """Expressions for the rows that hold a rare word of the question, or two of its words.

    A row may satisfy several. Empty where it is as quick to score every row with any of the words.

    holders: how many notes hold each word.
    """
    if len(words) < 2 or sum(holders[word] for word in words) <= FEW_HOLDERS_IN_ALL:
        return ()
    ordered = sorted(words, key=lambda word: (holders[word], word.forms))
    rare = [word for word in ordered if holders[word] <= FEW_HOLDERS]
    common = ordered[len(rare) :]
    pairs = [
        f"({match_any([word])}) AND ({match_any(common[place + 1 :])})"
        for place, word in enumerate(common[:-1])
    ]
    # What is called by a word is about it, however many mention it.
    called = [f"{{title aliases}} : ({match_any(common)})"] if common else []
    return (*([match_any(rare)] if rare else ()), *pairs, *called)
