"""From what a person types to a Query. Any text is a query; none is an error.

Syntax: words, "phrases" (a hit must hold them), -excluded words, and the filters
`tag: path: kind: after: before:`. What does not fit its syntax is searched as words.
"""

import re
import unicodedata
from calendar import monthrange
from datetime import date

from vaultmem.index.text import (
    camel_parts,
    normalize,
    prepare_plain,
    spaced_pieces,
    unspaced_runs,
)
from vaultmem.model.query import Filters, Query, Word
from vaultmem.retrieval.words import PARTICLES, STOP_WORDS

# A pasted log is a query too; beyond this many words the rest adds cost and no answers. So many are
# excluded too, or asked for by a filter of one kind, and so many tokens may a phrase have.
MAX_WORDS = 64
# What of a word, and of the question as a whole, is taken: no word of a note is longer, and an
# embedder reads the beginning of a text.
MAX_WORD_CHARS = 400
MAX_ASKED_CHARS = 10_000

_DOUBLE_QUOTES = str.maketrans(dict.fromkeys("“”„‟«»＂", '"'))
_SINGLE_QUOTES = str.maketrans(dict.fromkeys("‘’ʼ", "'"))
_PHRASE = re.compile(r'(?<!\S)(-?)"([^"]+)"')
_FILTER = re.compile(r'(?<!\S)(tag|path|kind|after|before):(?:"([^"]+)"|(\S+))', re.IGNORECASE)
_PART = re.compile(r"[^\W_]+")


def _runs(text: str) -> list[str]:
    """The runs of letters, digits and their marks, as the tokenizer of the index sees them."""
    if text.isascii():
        return _PART.findall(text)
    spaced = "".join(
        c
        if unicodedata.category(c)[0] in "LN" or unicodedata.category(c) in ("Mn", "Mc", "Co")
        else " "
        for c in text
    )
    return spaced.split()


_APOSTROPHE_ENDINGS = frozenset(("s", "t", "re", "ll", "ve", "m", "d"))
_DAY = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")


def parse_query(text: str, filters: Filters | None = None) -> Query:
    """Take a question apart.

    filters: conditions given apart from the text; those in the text are added to them.
    """
    rest = text.translate(_DOUBLE_QUOTES)
    found = filters or Filters()
    rest, found, dropped = _take_filters(rest, found)
    name = " ".join(rest.replace('"', " ").split()).encode("utf-8", "replace").decode()
    rest = rest.translate(_SINGLE_QUOTES)
    words: list[Word] = []
    excluded: list[Word] = []

    def take_phrase(match: re.Match[str]) -> str:
        nonlocal dropped
        tokens = _runs(prepare_plain(match.group(2)))
        dropped += max(0, len(tokens) - MAX_WORDS)
        form = _form(tokens)
        if form:
            word = Word(match.group(2).strip()[:MAX_WORD_CHARS], (form,), phrase=True)
            (excluded if match.group(1) else words).append(word)
        return " "

    rest = _PHRASE.sub(take_phrase, rest)
    phrases = [word.text for word in words]
    tokens = rest.replace('"', " ").split()
    negative = [token for token in tokens if _is_exclusion(token)]
    if words or found or len(negative) < len(tokens):
        for token in negative:
            excluded += _whole(token[1:])
        tokens = [token for token in tokens if not _is_exclusion(token)]
    candidates = [word for token in tokens for word in _token_words(token)]
    meaningful = [word for word in candidates if not _is_stop(word)]
    words += meaningful if meaningful or words else candidates
    distinct = _distinct(words)
    unwanted = _distinct(excluded)
    asked = " ".join([*phrases, *tokens])
    if not distinct and not any(unicodedata.category(c) == "So" for c in asked):
        asked = ""  # punctuation alone has no meaning for a passage to be near to
    return Query(
        text,
        distinct[:MAX_WORDS],
        unwanted[:MAX_WORDS],
        found,
        name=name,
        asked=asked[:MAX_ASKED_CHARS],
        dropped=dropped + max(0, len(distinct) - MAX_WORDS) + max(0, len(unwanted) - MAX_WORDS),
    )


def parse_day(text: str, *, last: bool) -> date | None:
    """A day from `2026-05-03`, `2026-05` or `2026`; None when it is none of these.

    last: for a month or a year, its last day instead of its first.
    """
    match = _DAY.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day = match.groups()
    try:
        if day:
            return date(int(year), int(month), int(day))
        if month:
            first = date(int(year), int(month), 1)
            if not last:
                return first
            return first.replace(day=monthrange(first.year, first.month)[1])
        return date(int(year), 12, 31) if last else date(int(year), 1, 1)
    except ValueError:
        return None


def _take_filters(text: str, filters: Filters) -> tuple[str, Filters, int]:
    """The text without its filters, all filters, and how many were too many."""
    tags, paths, kinds = list(filters.tags), list(filters.paths), list(filters.kinds)
    after, before = filters.after, filters.before

    def take(match: re.Match[str]) -> str:
        nonlocal after, before
        name = match.group(1).lower()
        value = match.group(2) or match.group(3)
        if name in ("after", "before"):
            day = parse_day(value, last=name == "before")
            if day is None:
                return match.group()  # no date: they are words
            if name == "after":
                after = day
            else:
                before = day
        else:
            {"tag": tags, "path": paths, "kind": kinds}[name].append(value)
        return " "

    rest = _FILTER.sub(take, text)
    distinct = [_distinct_texts(values) for values in (tags, paths, kinds)]
    dropped = sum(max(0, len(values) - MAX_WORDS) for values in distinct)
    few = [values[:MAX_WORDS] for values in distinct]
    return rest, Filters(few[0], few[1], few[2], after, before), dropped


def _distinct_texts(values: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(v.encode("utf-8", "replace").decode() for v in values))


def _form(tokens: list[str]) -> str:
    """Tokens to be found in sequence."""
    return " ".join(token[:MAX_WORD_CHARS] for token in tokens[:MAX_WORDS])


def _is_exclusion(token: str) -> bool:
    """`-word` excludes; `--option`, `-` and a dash inside a word do not."""
    return len(token) > 1 and token[0] == "-" and token[1].isalnum()


def _token_words(token: str) -> list[Word]:
    """What to look for on behalf of one blank-separated piece of the question."""
    token = normalize(token).strip("-–—")
    runs = unspaced_runs(token)
    if runs:
        return [word for run in runs for word in _pairs(run)] + [
            word for piece in spaced_pieces(token) for word in _token_words(piece)
        ]
    pieces = token.split("'")
    if len(pieces) > 1 and pieces[-1].lower() in _APOSTROPHE_ENDINGS:
        pieces.pop()
    parts = _runs(prepare_plain("'".join(pieces)))
    if not parts:
        return []
    if len(parts) == 1:
        return [_name(parts[0]), *_parts(camel_parts(parts[0]))]
    return [Word(token[:MAX_WORD_CHARS], (_form(parts),), compound=True), *_parts(parts)]


def _name(part: str) -> Word:
    """A word; a CamelCase name is also found where its parts are written apart."""
    camel = camel_parts(part)
    form = part[:MAX_WORD_CHARS]
    return Word(form, (form, _form(camel))) if camel else Word(form, (form,))


def _whole(token: str) -> list[Word]:
    """A token to be excluded: all of it in sequence, not any of its parts."""
    words = _token_words(token)
    if len(words) > 1 and unspaced_runs(normalize(token)):
        return [Word(token[:MAX_WORD_CHARS], (_form(_runs(prepare_plain(token))),))]
    return words[:1]


def _parts(parts: list[str]) -> list[Word]:
    """The words of a compound, less those that would match anything."""
    return [_name(part) for part in parts if len(part) > 1 and part.lower() not in STOP_WORDS]


def _pairs(run: str) -> list[Word]:
    """Overlapping character pairs of a run written without blanks."""
    if len(run) == 1:
        return [Word(run, (run, run + "*"))]
    pairs = [run[i : i + 2] for i in range(len(run) - 1)]
    telling = [pair for pair in pairs if not PARTICLES.issuperset(pair)]
    return [Word(pair, (pair,)) for pair in telling or pairs]


def _is_stop(word: Word) -> bool:
    return all(form.lower() in STOP_WORDS for form in word.forms) or (
        len(word.text) == 1 and word.text in PARTICLES
    )


def _distinct(words: list[Word]) -> tuple[Word, ...]:
    seen: dict[tuple[str, ...], Word] = {}
    for word in words:
        seen.setdefault(tuple(form.lower() for form in word.forms), word)
    return tuple(seen.values())
