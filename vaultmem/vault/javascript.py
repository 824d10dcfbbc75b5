"""A regular expression of JavaScript, as Obsidian's excluded files have them, run in linear time.

It comes with the vault, so an engine that goes back and tries again could be made to try for ever.
It runs on RE2, which knows no look-arounds and no references to groups. At the ends of an
alternative, where people put them (`^(?!Public/)`), look-arounds become expressions of their own
and stay exact. Whatever else RE2 does not know is dropped, so that the expression holds for more
than was meant and never for less.
"""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, Protocol

# A longer expression is no person's. RE2 keeps a program of a few bytes for each character.
MAX_CHARS = 20_000

_CLASS = r"\[\^?(?:[^\\\]]|\\[\s\S])*+\]"
_ESCAPE = r"\\(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|c[A-Za-z]|k<[^<>]*+>|[1-9][0-9]*+|[\s\S])"
_OPENER = r"\((?:\?(?:<?[=!]|<[^<>=!][^<>]*+>|[a-z-]*+:))?"
_REPEAT = r"(?:[*+?]|\{[0-9]++(?:,[0-9]*+)?\})\??"
_TOKEN = re.compile(
    rf"(?P<set>{_CLASS})|(?P<escape>{_ESCAPE})|(?P<opener>{_OPENER})|(?P<repeat>{_REPEAT})"
    r"|(?P<other>[\s\S])"
)
_SET_TOKEN = re.compile(rf"{_ESCAPE}|[\s\S]")
_CLASSES = frozenset((r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"))
_LOOKS = ("(?=", "(?!", "(?<=", "(?<!")
_ANYTHING = r"(?:[\s\S]*)"
# Blanks of JavaScript, of which RE2's `\s` has the first few.
_BLANKS = "\\s\x0b\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
# Where RE2 is not there, Python's engine gets no more repetitions than these in a row: its time
# for a path is then at most the square of its length.
_MOST_REPEATS = 2


class NoExpression(Exception):
    """The text is no regular expression in JavaScript either."""


class Searchable(Protocol):
    """What an engine makes of an expression."""

    def search(self, text: str, /) -> object:
        """Something true where it matches anywhere in the text."""
        ...


@dataclass(frozen=True, slots=True)
class Alternative:
    """One alternative of an expression."""

    matches: Searchable
    also: tuple[Searchable, ...] = ()  # look-arounds: must match too
    never: tuple[Searchable, ...] = ()  # must not

    def holds(self, text: str) -> bool:
        """Whether it matches anywhere in the text."""
        return (
            bool(self.matches.search(text))
            and all(expression.search(text) for expression in self.also)
            and not any(expression.search(text) for expression in self.never)
        )


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression."""

    alternatives: tuple[Alternative, ...]
    wider: str  # why it holds for more than was written; "" where it does not

    def holds(self, text: str) -> bool:
        """Whether it matches anywhere in the text, in any case of letters."""
        whole = text.encode("utf-8", "replace").decode()  # RE2 takes no halves of characters
        return any(alternative.holds(whole) for alternative in self.alternatives)


class _Atom(NamedTuple):
    text: str  # a character, an escape, a class or a whole group
    repeat: str = ""

    def looks(self, *openers: str) -> bool:
        return not self.repeat and self.text.startswith(openers)

    @property
    def inner(self) -> str:
        """What is in a group."""
        opener = re.match(_OPENER, self.text)
        return self.text[opener.end() if opener else 0 : -1]


@dataclass(slots=True)
class _Reading:
    """Why an expression became wider, and whether numbers of repetitions are kept."""

    counted: bool = True
    wider: dict[str, None] = field(default_factory=dict)


def compile_expression(source: str, *, linear: bool = True) -> Expression:
    """An expression that stands between slashes in JavaScript. Raises NoExpression.

    linear: on RE2, if it is installed; else on Python's engine, with what is harmless there.
    """
    if len(source) > MAX_CHARS:
        reason = f"it is longer than {MAX_CHARS:,} characters"
        return Expression((Alternative(re.compile("")),), reason)
    reading = _Reading()
    engine = _Engine(_re2_options() if linear else None)
    found = tuple(_alternative(atoms, engine, reading) for atoms in _alternatives(source))
    return Expression(found, " and ".join(reading.wider))


@cache
def _re2_options() -> object | None:
    """None where RE2 is not installed: there are no wheels of it for some older systems."""
    try:
        import re2
    except ImportError:
        return None
    options = re2.Options()
    options.case_sensitive = False
    options.dot_nl = True
    options.log_errors = False
    options.max_mem = 64 << 20
    made: object = options
    return made


class _Engine:
    def __init__(self, options: object | None) -> None:
        self._options = options

    def compile(self, before: str, source: str, behind: str, reading: _Reading) -> Searchable:
        """`source` between two parts of an expression; raises NoExpression.

        Adds to the reasons of `reading` whatever had to be dropped.
        """
        if self._options is None:
            return _python(
                before + _translated(_harmless(source, reading), reading) + behind, reading
            )
        import re2

        for counted in (True, False):
            reading.counted = counted
            try:
                compiled: Searchable = re2.compile(
                    before + _translated(source, reading) + behind, self._options
                )
            except re2.error:
                continue  # without numbers of repetitions it may be small enough
            return compiled
        # What Python takes is an expression, and too much for RE2 in some other way.
        _python(before + _translated(source, reading) + behind, reading)
        reading.wider["it nests too deep"] = None
        return re.compile("")


def _python(source: str, reading: _Reading) -> Searchable:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # JavaScript's classes read oddly in Python
            return re.compile(source, re.IGNORECASE | re.DOTALL)
    except re.error as error:
        raise NoExpression(str(error)) from None
    except (OverflowError, RecursionError):
        reading.wider["it nests too deep"] = None
        return re.compile("")


def _alternatives(source: str) -> list[list[_Atom]]:
    """The atoms of each alternative, a group with all that is in it as one."""
    found: list[list[_Atom]] = [[]]
    opened: list[int] = []
    for token in _TOKEN.finditer(source):
        text, begin = token.group(), token.start()
        if token.lastgroup == "opener":
            opened.append(begin)
            continue
        if token.lastgroup == "other" and text == ")":
            if not opened:
                raise NoExpression("a bracket was never opened")
            begin = opened.pop()
            text = source[begin : token.end()] if not opened else ""
        elif token.lastgroup == "other" and text in "[\\":
            raise NoExpression("a class or an escape never ends")
        if opened:
            continue
        if token.lastgroup == "repeat" and found[-1] and not found[-1][-1].repeat:
            found[-1][-1] = found[-1][-1]._replace(repeat=text)
        elif token.lastgroup == "repeat":
            raise NoExpression(f"there is nothing for {text} to repeat")
        elif text == "|":
            found.append([])
        else:
            found[-1].append(_Atom(text))
    if opened:
        raise NoExpression("a bracket is never closed")
    return found


def _alternative(atoms: list[_Atom], engine: _Engine, reading: _Reading) -> Alternative:
    """An alternative, compiled; look-arounds at its ends are exact."""
    inner = _tempered(atoms)
    if inner is not None:
        never = _exactly("", inner, "", engine)
        if never is not None:
            return Alternative(re.compile(""), never=(never,))
    also: list[Searchable] = []
    without: list[Searchable] = []
    kept = list(atoms)
    if kept[:1] == [_Atom("^")]:
        while len(kept) > 1 and kept[1].looks("(?=", "(?!"):
            look = kept.pop(1)
            if look.looks("(?="):
                also.append(engine.compile("^(?:", look.inner, ")", reading))
            else:
                _add(without, _exactly("^(?:", look.inner, ")", engine), reading)
    if kept[-1:] == [_Atom("$")]:
        while len(kept) > 1 and kept[-2].looks("(?<=", "(?<!"):
            look = kept.pop(-2)
            if look.looks("(?<="):
                also.append(engine.compile("(?:", look.inner, ")$", reading))
            else:
                _add(without, _exactly("(?:", look.inner, ")$", engine), reading)
    source = "".join(atom.text + atom.repeat for atom in kept)
    return Alternative(engine.compile("", source, "", reading), tuple(also), tuple(without))


def _tempered(atoms: Sequence[_Atom]) -> str | None:
    """x of `^((?!x).)*$`, which is how people write "without x"; None for all else."""
    if len(atoms) != 3 or atoms[0] != _Atom("^") or atoms[2] != _Atom("$"):
        return None
    group = atoms[1]
    if group.repeat not in ("*", "+") or not group.text.startswith("(") or group.looks(*_LOOKS):
        return None
    alternatives = _alternatives(group.inner)
    if len(alternatives) != 1 or len(alternatives[0]) != 2:
        return None
    look, dot = alternatives[0]
    return look.inner if look.looks("(?!") and dot == _Atom(".") else None


def _exactly(before: str, source: str, behind: str, engine: _Engine) -> Searchable | None:
    """What must not match: None where it would be wider, for then too little would be left."""
    own = _Reading()
    compiled = engine.compile(before, source, behind, own)
    return None if own.wider else compiled


def _add(expressions: list[Searchable], found: Searchable | None, reading: _Reading) -> None:
    if found is not None:
        expressions.append(found)
    else:
        reading.wider["it has look-arounds"] = None


def _harmless(source: str, reading: _Reading) -> str:
    """The beginning of each alternative up to where Python's engine could try for long.

    What begins a match matches too, wherever the whole does.
    """
    kept: list[str] = []
    for atoms in _alternatives(source):
        repeats = 0
        text = ""
        for atom in atoms:
            group = atom.text.startswith("(")
            repeats += bool(atom.repeat)
            refers = _refers(atom.text)
            many = repeats > _MOST_REPEATS or (group and (atom.repeat or _repeats(atom.inner)))
            if refers or many:
                reading.wider["google-re2 is not installed"] = None
                break
            text += atom.text + atom.repeat
        kept.append(text)
    return "|".join(kept)


def _refers(text: str) -> bool:
    """Whether an atom is a reference to a group."""
    return text.startswith("\\") and (text[1] in "123456789" or text.startswith("\\k<"))


def _repeats(source: str) -> bool:
    return any(token.lastgroup == "repeat" for token in _TOKEN.finditer(source))


def _translated(source: str, reading: _Reading) -> str:
    """The expression in what RE2 and Python's engine both know."""
    parts: list[str] = []
    depth = 0
    skipped: int | None = None  # the depth at which a look-around began
    for token in _TOKEN.finditer(source):
        text, kind = token.group(), token.lastgroup
        if kind == "opener":
            depth += 1
            if skipped is None and text in _LOOKS:
                skipped = depth
                reading.wider["it has look-arounds"] = None
                parts.append("(?:)")
            elif skipped is None:
                parts.append("(?:")
        elif kind == "other" and text == ")":
            if skipped is None:
                parts.append(")")
            elif skipped == depth:
                skipped = None
            depth -= 1
        elif skipped is None:
            parts.append(_token(text, kind, reading))
    return "".join(parts)


def _token(text: str, kind: str | None, reading: _Reading) -> str:
    if kind == "set":
        return _set(text, reading)
    if kind == "escape":
        if _refers(text):
            reading.wider["it refers to groups"] = None
            return _ANYTHING
        return (
            f"[{_BLANKS}]" if text == r"\s" else f"[^{_BLANKS}]" if text == r"\S" else _escape(text)
        )
    if kind == "repeat" and text[0] == "{" and not reading.counted:
        reading.wider["it counts too far"] = None
        return "*" if text.startswith("{0") else "+"
    # Plain characters; a bracket or brace that closes nothing is one as well.
    return "\\" + text if text in "]{}" else text


def _set(text: str, reading: _Reading) -> str:
    """A class of characters."""
    negated = text.startswith("[^")
    inside = text[1 + negated : -1]
    if not inside:
        return r"[\s\S]" if negated else r"[^\s\S]"
    if negated and inside == r"\S":
        return f"[{_BLANKS}]"
    parts: list[str] = []
    items = [token.group() for token in _SET_TOKEN.finditer(inside)]
    for at, item in enumerate(items):
        if item == r"\S" and negated:
            reading.wider["it has a class without \\S"] = None
            return r"[\s\S]"  # engines differ in what a blank is; this one means some of them
        if item == "-" and _CLASSES.intersection(items[max(0, at - 1) : at + 2]):
            parts.append(r"\-")  # what stands for many begins and ends no range
        elif item == r"\b":
            parts.append("\x08")
        elif item == r"\s":
            parts.append(_BLANKS)
        else:
            parts.append(_escape(item) if item[0] == "\\" else "\\[" if item == "[" else item)
    return f"[{'^' * negated}{''.join(parts)}]"


def _escape(text: str) -> str:
    """One escaped character, or a class that has a name."""
    what = text[1:]
    if what in ("d", "D", "w", "W", "b", "B", "S", "t", "n", "r", "f", "v"):
        return text
    if what == "0":
        return r"\x00"
    if len(what) > 1 and what[0] in "ux":
        return _quoted(chr(int(what[1:], 16)))
    if len(what) > 1 and what[0] == "c":
        return rf"\x{ord(what[1]) % 32:02x}"
    return _quoted(what[-1])


def _quoted(character: str) -> str:
    if "\ud800" <= character <= "\udfff":
        return "\ufffd"
    if character.isalnum() or character == "_" or character > "\x7f":
        return character
    return rf"\x{ord(character):02x}"
