"""Find credentials in a text. Finds what they are and where they stand; keeps none of them.

Every text is looked through once for the words and shapes that announce a secret; only what is
announced is looked for. Nothing is judged by its entropy alone: a vault is full of hashes.
"""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import NamedTuple

from vaultmem.security.engine import Engine, Expression, Hints, best_engine
from vaultmem.security.hidden import HIDDEN_SIGN
from vaultmem.security.rulebook import ASSIGNMENT_TAIL, Allowance, Rule, Rulebook, rulebook

# Kinds that are told in sentences, and what then stands behind them.
_TOLD = frozenset(("password", "netrc-password"))
_STOPS = b".,;:!?"

# Endings of credentials that vendors print in their documentation.
_EXAMPLE = ("EXAMPLE", "EXAMPLEKEY")
# What stands where a person shall put a secret, or where a program finds it.
_STAND_INS = ("op://", "vault:", "env:", "secret://", "keyring:", "file:")
_FILLED = ("<", "${", "{{", "$(", "%(", "...", "…", "***", "[secret:", "•••")


class Secret(NamedTuple):
    """Where a credential stands in a text."""

    start: int  # offsets in characters, half-open
    end: int
    kind: str  # the rule's


class Look(NamedTuple):
    """What a first look at a text found worth a second one."""

    text: str
    data: bytes  # the text in UTF-8
    present: frozenset[int]  # numbers of hints; most texts hold few
    signs: frozenset[str]  # which of SIGNS


# What else the one look is for, besides secrets: expressions in any case.
SIGNS = {
    "hidden": HIDDEN_SIGN,
    "private": r"</?private[\s>]",
    "markers": r"vaultmem:(?:begin|end)",
}


def look_at(text: str) -> Look:
    """Look a text through once, for whatever would have to be looked at more closely."""
    return _scanner().look_at(text)


def find_secrets(seen: Look | str) -> tuple[Secret, ...]:
    """The credentials in a text, in order and without overlap."""
    scanner = _scanner()
    seen = scanner.look_at(seen) if isinstance(seen, str) else seen
    found = scanner.find(seen)
    if "\\_" not in seen.text:
        return found
    # Whoever turned a page into Markdown wrote a backslash before each of these.
    plain, removed = _unescaped(seen.text)
    return apart([*found, *(_moved(s, removed) for s in scanner.find(scanner.look_at(plain)))])


class Scanner:
    """The rules, compiled as they are needed."""

    def __init__(self, book: Rulebook, engine: Engine) -> None:
        self.engine = engine
        self._book = book
        hints = sorted(
            {hint for rule in book.rules for hint in (*rule.hints, rule.required)} - {""}
        )
        numbers = {hint: n for n, hint in enumerate(hints)}
        self._hints: Hints = engine.hints([*hints, *SIGNS.values()], _first(book))
        self._signs = dict(enumerate(SIGNS, len(hints)))
        # Which rules a hint announces: most notes hold few hints, and there are many rules.
        self._announced: list[list[int]] = [[] for _ in hints]
        for place, rule in enumerate(book.rules):
            for hint in rule.hints:
                self._announced[numbers[hint]].append(place)
        self._required = [numbers.get(rule.required) for rule in book.rules]
        self._compiled: dict[str, Expression] = {}

    def look_at(self, text: str) -> Look:
        """See look_at."""
        data = text.encode("utf-8", "replace")
        present = self._hints.present(data)
        if not present:
            return Look(text, data, present, frozenset())
        signs = frozenset(self._signs[n] for n in present if n in self._signs)
        return Look(text, data, present, signs)

    def find(self, seen: Look) -> tuple[Secret, ...]:
        """See find_secrets."""
        data, present = seen.data, seen.present
        announced: dict[int, list[int]] = {}
        for hint in present:
            if hint not in self._signs:
                for place in self._announced[hint]:
                    announced.setdefault(place, []).append(hint)
        found: list[tuple[int, int, str]] = []
        for place in sorted(announced):
            required = self._required[place]
            if required is None or required in present:
                within = self._hints.stretches(data, announced[place])
                found += self._matches(self._book.rules[place], data, within)
        return _in_characters(seen.text, data, _apart(found)) if found else ()

    def _matches(
        self, rule: Rule, data: bytes, within: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[int, int, str]]:
        for spans in self._expression(rule.expression).found(data, within):
            start, end = _of_secret(spans, rule.group)
            if rule.kind in _TOLD:
                while end > start and data[end - 1] in _STOPS:
                    end -= 1
            secret = data[start:end].decode("utf-8", "replace")
            if rule.entropy and entropy(secret) < rule.entropy:
                continue
            if not all(_MIXED[kind](secret) for kind in rule.mixed) or is_stand_in(secret):
                continue
            allowances = (self._book.allowance, *rule.allowances)
            if not any(self._allows(a, data, spans[0], (start, end), secret) for a in allowances):
                yield start, end, rule.kind

    def _allows(
        self,
        allowance: Allowance,
        data: bytes,
        match: tuple[int, int],
        place: tuple[int, int],
        secret: str,
    ) -> bool:
        lowered = secret.lower()
        if any(word in lowered for word in allowance.words):
            return True
        if not allowance.expressions:
            return False
        target = data[slice(*place)]
        if allowance.target == "match":
            target = data[slice(*match)]
        elif allowance.target == "line":
            line = data.rfind(b"\n", 0, match[0]) + 1
            end = data.find(b"\n", match[1])
            target = data[line : end if end >= 0 else len(data)][:_LINE_BYTES]
        together = "|".join(f"(?:{source})" for source in allowance.expressions)
        return next(self._expression(together).found(target, ()), None) is not None

    def _expression(self, source: str) -> Expression:
        compiled = self._compiled.get(source)
        if compiled is None:
            compiled = self._compiled[source] = self.engine.compile(source)
        return compiled


# Of a line, as far as an allowance looks at it.
_LINE_BYTES = 4096


@cache
def _scanner() -> Scanner:
    return Scanner(rulebook(), best_engine())


def _first(book: Rulebook) -> str:
    """What matches wherever a rule could, or one of SIGNS, by as few states as that takes."""
    named = sorted({hint for rule in book.rules if rule.required for hint in rule.hints})
    others = sorted({hint for rule in book.rules if not rule.required for hint in rule.hints})
    assigned = f"(?:{'|'.join(named)}){ASSIGNMENT_TAIL}"
    return "|".join([assigned, *others, *SIGNS.values()])


def _of_secret(spans: Sequence[tuple[int, int]], group: int) -> tuple[int, int]:
    """The secret within a match: the rule's group, else the first that took part, else all."""
    if group:
        return spans[group]
    return next((span for span in spans[1:] if span[1] > span[0]), spans[0])


def _apart(found: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Without overlap: what several rules found is one secret, of the first rule's kind."""
    rank = {entry: n for n, entry in reversed(list(enumerate(found)))}
    apart: list[tuple[int, int, str]] = []
    first = 0
    for entry in sorted(rank):
        start, end, kind = entry
        if apart and start < apart[-1][1]:
            begin, behind, known = apart[-1]
            kind = kind if rank[entry] < first else known
            first = min(first, rank[entry])
            apart[-1] = (begin, max(end, behind), kind)
        else:
            apart.append(entry)
            first = rank[entry]
    return apart


def _unescaped(text: str) -> tuple[str, list[int]]:
    """The text without the backslashes before `_`, and where in it each of them was."""
    parts = text.split("\\_")
    lengths = accumulate((len(part) for part in parts[:-1]), lambda at, size: at + 1 + size)
    return "_".join(parts), list(lengths)


def _moved(secret: Secret, removed: Sequence[int]) -> Secret:
    """A secret of the text without backslashes, where it is in the text with them."""
    start = secret.start + bisect_right(removed, secret.start - 1)
    return Secret(start, secret.end + bisect_right(removed, secret.end - 1), secret.kind)


def apart(secrets: Sequence[Secret]) -> tuple[Secret, ...]:
    """In order and without overlap; of two that overlap, the first, with the end of the later."""
    found: list[Secret] = []
    for secret in sorted(secrets):
        if found and secret.start < found[-1].end:
            found[-1] = found[-1]._replace(end=max(found[-1].end, secret.end))
        else:
            found.append(secret)
    return tuple(found)


def _in_characters(
    text: str, data: bytes, found: Sequence[tuple[int, int, str]]
) -> tuple[Secret, ...]:
    """From offsets in UTF-8 to offsets in the text."""
    if len(data) == len(text):
        return tuple(Secret(*entry) for entry in found)
    secrets: list[Secret] = []
    at = characters = 0
    for start, end, kind in found:
        begin = characters + _characters(data[at:start])
        characters = begin + _characters(data[start:end])
        at = end
        secrets.append(Secret(begin, characters, kind))
    return tuple(secrets)


def _characters(data: bytes) -> int:
    """How many characters these bytes are: those that continue one do not count."""
    return len(data.translate(None, _CONTINUATION))


_CONTINUATION = bytes(range(0x80, 0xC0))


def entropy(text: str) -> float:
    """Shannon's entropy in bits a character; 0 for an empty text."""
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values())


def is_stand_in(secret: str) -> bool:
    """Whether a text stands for a secret: an example, a reference, a row of one character."""
    if secret.endswith(_EXAMPLE) or secret.lower().startswith(_STAND_INS):
        return True
    if any(mark in secret for mark in _FILLED):
        return True
    longest = run = 1
    for before, sign in pairwise(secret):
        run = run + 1 if sign == before else 1
        longest = max(longest, run)
    return longest >= max(8, len(secret) // 2)


def _random(text: str) -> bool:
    """What a person would not write as a word: digits among letters, or capitals in and out.

    Names of programs that keep passwords, of algorithms and of fields of programs are no passwords.
    """
    if "://" in text or _NAME.search(text) is not None:
        return False
    digits = sum(sign.isdigit() for sign in text)
    cased = any(sign.islower() for sign in text) and any(sign.isupper() for sign in text)
    capitals = sum(a.islower() and b.isupper() for a, b in pairwise(text))
    if 2 <= digits < len(text) or (digits > 0 and cased) or capitals >= 3:
        return True
    # Without digits: parts that change case more often than words side by side do.
    changes = capitals + sum(a.isupper() and b.islower() for a, b in pairwise(text))
    return changes >= 4 and not text.isalnum()


# (`12-stellig`, `8-characters`; `sha256-hashed`; 1Password; `user.passwordHash`)
_NAME = re.compile(
    r"(?i)^\d{1,3}-?[a-z]+$|^(?:sha|md|aes|rsa|utf|base)-?\d|1password|keepass|^[a-z]+(?:\.[a-z]+)+$"
)
_ENCODED = re.compile(r"[A-Za-z0-9+/=]{40}")


_MIXED: Mapping[str, Callable[[str], bool]] = {
    "lower": lambda text: any(sign.islower() for sign in text),
    "upper": lambda text: any(sign.isupper() for sign in text),
    "digit": lambda text: any(sign.isdigit() for sign in text),
    "letter": lambda text: any(sign.isalpha() for sign in text),
    "odd": lambda text: not text.isalpha(),
    "random": _random,
    "digits": lambda text: sum(sign.isdigit() for sign in text) >= 2,
    "encoded": lambda text: _ENCODED.search(text) is not None,
}
