"""Regular expressions over text that anybody may have written: on RE2, in linear time.

google-re2 has no wheels for older versions of macOS, so it is no requirement there. Without it
Python's own engine looks at short stretches around what gives a rule away, and at no more of them
than the text is long.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import Protocol

# Of a stretch that Python's engine looks at.
_BEFORE, _BEHIND = 256, 4096
# Of a match that reaches beyond its stretch: keys have thousands of bytes.
_LONGEST = 1 << 16

# Bytes for RE2's states of all hints together. It starts afresh when they are used up; where not
# even a few of them had room it would find nothing, without a word.
_HINTS_MEMORY = 64 << 20

Span = tuple[int, int]


class Expression(Protocol):
    """A compiled expression over UTF-8 bytes."""

    def found(self, data: bytes, within: Sequence[Span]) -> Iterator[Sequence[Span]]:
        """The spans of each match and of its groups; (-1, -1) for a group that took no part.

        within: stretches that a match is looked for in, where the engine is not linear.
        """
        ...


class Hints(Protocol):
    """Many short expressions, looked for at once."""

    def present(self, data: bytes) -> frozenset[int]:
        """The numbers of those that occur."""
        ...

    def stretches(self, data: bytes, numbers: Iterable[int]) -> Sequence[Span]:
        """Where to look for what these announce; empty for everywhere."""
        ...


class Engine(Protocol):
    """What compiles."""

    name: str

    def compile(self, source: str) -> Expression:
        """An expression in RE2's syntax, or in what of it both engines know."""
        ...

    def hints(self, sources: Sequence[str], first: str) -> Hints:
        """Expressions without regard to case.

        first: one that matches wherever any of them matters, and few states.
        """
        ...


def engine_name() -> str:
    """Which engine this installation has: `re2`, or `re` where that is not installed."""
    return "re2" if find_spec("re2") is not None else "re"


def best_engine() -> Engine:
    """RE2 where it is installed."""
    return Re2Engine() if engine_name() == "re2" else PythonEngine()


class Re2Engine:
    """Google's RE2: linear whatever the expression and the text."""

    name = "re2"

    def compile(self, source: str) -> Expression:
        """See Engine."""
        import re2

        options = re2.Options()
        options.log_errors = False
        return _Re2Expression(re2.compile(source.encode(), options))

    def hints(self, sources: Sequence[str], first: str) -> Hints:
        """See Engine."""
        return _Re2Hints(sources, first)


class _Re2Expression:
    def __init__(self, compiled: "re.Pattern[bytes]") -> None:
        self._compiled = compiled

    def found(self, data: bytes, within: Sequence[Span]) -> Iterator[Sequence[Span]]:
        for match in self._compiled.finditer(data):
            yield [match.span(n) for n in range(self._compiled.groups + 1)]


class _Re2Hints:
    def __init__(self, sources: Sequence[str], first: str) -> None:
        import re2

        # A set has a state for each combination of what it has seen, which for all notes together
        # are more than a processor's cache holds; this has few, and nothing to say of most notes.
        once = re2.Options()
        once.case_sensitive = False
        once.never_capture = True
        once.log_errors = False
        self._first = re2.compile(first.encode(), once)
        options = re2.Options()
        options.case_sensitive = False
        options.log_errors = False
        options.max_mem = _HINTS_MEMORY
        self._set = re2.Set.SearchSet(options)
        for source in sources:
            self._set.Add(source.encode())
        self._set.Compile()

    def present(self, data: bytes) -> frozenset[int]:
        if self._first.search(data) is None:
            return frozenset()
        return frozenset(self._set.Match(data) or ())

    def stretches(self, data: bytes, numbers: Iterable[int]) -> Sequence[Span]:
        return ()


class PythonEngine:
    """Python's `re`, kept to stretches of a few thousand bytes."""

    name = "re"

    def compile(self, source: str) -> Expression:
        """See Engine."""
        return _PythonExpression(re.compile(_in_python(source).encode()))

    def hints(self, sources: Sequence[str], first: str) -> Hints:
        """See Engine."""
        return _PythonHints(sources)


class _PythonExpression:
    def __init__(self, compiled: re.Pattern[bytes]) -> None:
        self._compiled = compiled

    def found(self, data: bytes, within: Sequence[Span]) -> Iterator[Sequence[Span]]:
        at = 0
        for start, end in within or ((0, len(data)),):
            for cut in self._compiled.finditer(data, max(start, at), end):
                match: re.Match[bytes] | None = cut
                if cut.end() == end < len(data):
                    # `$` holds at the end of a stretch, and what repeats ends there.
                    match = self._compiled.match(data, cut.start(), cut.start() + _LONGEST)
                if match is not None:
                    at = max(at, match.end())
                    yield [match.span(n) for n in range(self._compiled.groups + 1)]


class _PythonHints:
    def __init__(self, sources: Sequence[str]) -> None:
        self._sources = [re.compile(source.encode(), re.IGNORECASE) for source in sources]
        self._any = re.compile(b"|".join(b"(?:%s)" % s.encode() for s in sources), re.IGNORECASE)

    def present(self, data: bytes) -> frozenset[int]:
        if self._any.search(data) is None:
            return frozenset()
        return frozenset(n for n, source in enumerate(self._sources) if source.search(data))

    def stretches(self, data: bytes, numbers: Iterable[int]) -> Sequence[Span]:
        places = sorted(match.start() for n in numbers for match in self._sources[n].finditer(data))
        found: list[Span] = []
        for place in places:
            start, end = max(0, place - _BEFORE), min(len(data), place + _BEHIND)
            # (A new one only where it reaches further: the end of the text is there once.)
            if not found or (place > found[-1][1] - _BEHIND // 2 and end > found[-1][1]):
                found.append((start, end))
        return found


def _in_python(source: str) -> str:
    """RE2's flags in the middle, its `\\z` and its POSIX names, as Python has them."""
    source = source.replace(r"\z", r"\Z").replace("[[:alnum:]]", "[A-Za-z0-9]")
    at = source.find("(?i)", 1)
    while at >= 0:
        end = _group_end(source, at)
        source = f"{source[:at]}(?i:{source[at + 4 : end]}){source[end:]}"
        at = source.find("(?i)", at + 1)
    return source


def _group_end(source: str, at: int) -> int:
    """Where the group ends that encloses offset `at`."""
    depth, in_class, position = 0, False, at
    while position < len(source):
        sign = source[position]
        if sign == "\\":
            position += 1
        elif in_class:
            in_class = sign != "]"
        elif sign == "[":
            in_class = True
            if source[position + 1 : position + 2] in ("]", "^"):
                position += 2 if source[position + 1 : position + 3] == "^]" else 1
        elif sign == "(":
            depth += 1
        elif sign == ")":
            if depth == 0:
                return position
            depth -= 1
        position += 1
    return len(source)
