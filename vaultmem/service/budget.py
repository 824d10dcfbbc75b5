"""Replies that fit a number of tokens, and cursors that get what had no room.

Room is filled greedily, in the order of the reply's fields, with whole items: hits, links,
problems, and text up to the end of a paragraph. A cursor names how much of each field has been
given; it is good for the same request only, and for as long as the answer to that stays the same.

However small the room is, some text or one item is given, so that a cursor always leads on: for
that a reply may take up to LEAST_TOKENS. An item that no reply has room for is cut short, and so is
what is said of the reply as a whole; both are said in `omitted`, and more room shows more.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, wraps
from typing import Any, TypeVar, get_args, get_origin, get_type_hints
from zlib import crc32

from vaultmem.model.errors import UsageError
from vaultmem.model.operation import Reply, Request
from vaultmem.security.hidden import shown
from vaultmem.service.application import Memory
from vaultmem.service.plain import plain

Asked = TypeVar("Asked", bound=Request)
Answer = TypeVar("Answer", bound=Reply)

# Bytes of JSON that are taken for one token. English has some 4.5, Chinese 3, and a name of random
# letters 2; a low figure keeps a reply below what a client cuts off.
TOKEN_BYTES = 3
# What a reply about ordinary notes may take where it is given less room.
LEAST_TOKENS = 400
# Kept for what is said of the omissions, and for the cursor: bytes. Where it is not enough, the
# reply is made again with so much more.
_NOTICE_BYTES = 240
_ATTEMPTS = 4
# Given at least: bytes of a text, and of an item before it is cut short.
_LEAST_TEXT, _LEAST_ITEM = 80, 400
# Metadata of a field that holds text which may be cut between lines: the names of the fields with
# its first and last line, and of the one that says that it was cut.
CUT = "cut"
# Metadata of a field of an item that differs from one look at the same thing to the next.
VARIES = "varies"

# What is of no use when it is cut short: a name to ask with.
_WHOLE = frozenset({"path", "resolved", "alias_of", "via", "fingerprint", "fingerprints", "uri"})
_MARK = "…"
_CURSOR = re.compile(r"[a-z_]+:[0-9]{1,9}(?:,[a-z_]+:[0-9]{1,9})*~[0-9a-f]{8}~[0-9a-f]{8}")


def fitted(run: Callable[[Memory, Asked], Answer]) -> Callable[[Memory, Asked], Answer]:
    """An operation whose reply keeps to the room that its request gives it."""

    @wraps(run)
    def within_room(memory: Memory, request: Asked) -> Answer:
        room = request.max_tokens
        if room is not None and (not isinstance(room, int) or isinstance(room, bool) or room < 1):
            raise UsageError(f"The number of tokens is {room!r}; a whole number from 1 is needed.")
        key = _key(request)
        cursor = _own(request.cursor, key) if request.cursor is not None else None
        reply = run(memory, request)
        if room is None and cursor is None:
            return reply
        answer: Any = _within(reply, room, cursor, key)
        fit: Answer = answer
        return fit

    return within_room


def _key(request: Request) -> str:
    """What makes a request the same for a cursor: all but the room and the cursor."""
    asked = repr(replace(request, max_tokens=None, cursor=None))
    return f"{crc32(asked.encode('utf-8', 'replace')):08x}"


def _own(cursor: str, key: str) -> str:
    """The cursor without the request's key. Raises UsageError for another request's."""
    if not _CURSOR.fullmatch(cursor):
        raise UsageError(
            f"{cursor[:80]!r} is no cursor. Pass what a reply to the same request holds as next."
        )
    places, _, given = cursor.rpartition("~")
    if given != key:
        raise UsageError(
            "The cursor is of another request. Pass it with the arguments of the request whose "
            "reply held it."
        )
    return places


def tokens(value: object) -> int:
    """How many tokens a reply, or a part of it, is taken to have."""
    return -(-_size(value) // TOKEN_BYTES)


@dataclass(slots=True)
class _Part:
    """A field of which some may be given and some left out."""

    name: str
    value: Any  # a tuple, a dict or a text
    start: int  # how much of it an earlier reply gave; its length where that was all

    @property
    def is_text(self) -> bool:
        return isinstance(self.value, str)

    @property
    def length(self) -> int:
        return len(self.value)

    def items(self) -> Iterator[Any]:
        rest: Sequence[Any] = (
            list(self.value.items()) if isinstance(self.value, dict) else self.value
        )
        yield from rest[self.start :]

    def holding(self, items: Sequence[Any]) -> Any:
        if not isinstance(self.value, dict):
            return tuple(items)
        held: dict[str, Any] = {}
        for name, value in items:
            # Names that were cut short may be the same.
            number = 2
            free = name
            while free in held:
                free, number = f"{name}{number}", number + 1
            held[free] = value
        return held


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a reply gives of a field."""

    value: Any
    count: int  # items, or characters of a text
    size: int  # bytes
    short: int = 0  # items that are cut short


def _within(reply: Reply, room: int | None, cursor: str | None, key: str) -> Reply:
    parts = [
        _Part(name, getattr(reply, name), 0)
        for name in _divisible(type(reply))  # type: ignore[arg-type] # (the hash of instances)
        if getattr(reply, name)
    ]
    changed = _set_starts(parts, cursor) if cursor is not None else ()
    if room is None:
        return _filled(reply, parts, None, 0, changed, key)
    limit, spare = room * TOKEN_BYTES, _NOTICE_BYTES
    if cursor is None and _size(reply) <= limit:
        return reply
    for _ in range(_ATTEMPTS):
        answer = _filled(reply, parts, limit, spare, changed, key)
        over = _size(answer) - limit
        if over <= 0:
            break
        spare += over + 16  # what is left out is told in more digits
    return answer


def _filled(
    reply: Reply,
    parts: "list[_Part]",
    limit: int | None,
    spare: int,
    changed: tuple[str, ...],
    key: str,
) -> Reply:
    """The reply with as much of its parts as there is room for.

    limit, spare: bytes of the whole, and of them those that are kept for what is said of it.
    """
    nothing: dict[str, Any] = {
        part.name: "" if part.is_text else part.holding(()) for part in parts
    }
    empty: Any = replace(reply, **nothing)
    fixed = empty
    if limit is not None:
        longest = max(_LEAST_TEXT, limit // 2)
        while _size(empty) > max(limit // 2, _LEAST_ITEM) and longest > _LEAST_TEXT:
            longest = max(_LEAST_TEXT, longest // 2)
            empty = _shortened(fixed, longest)
    short = [
        f"{field.name}: cut short"
        for field in fields(empty)
        if getattr(empty, field.name) is not getattr(fixed, field.name)
    ]
    left = limit - _size(empty) - spare if limit is not None else None
    given: dict[str, Any] = {}
    ends: dict[str, int] = {}
    for number, part in enumerate(parts):
        allowed = None
        if left is not None:
            # What comes behind is left a quarter, if it needs as much.
            allowed = max(0, left - _at_most(parts[number + 1 :], max(0, left) // 4))
        # Something must be given, or a cursor would never get anywhere.
        most = left if left is not None and not any(given.values()) else None
        taken = _taken(part, allowed, most)
        given[part.name] = taken.value
        ends[part.name] = part.start + taken.count
        if taken.short:
            short.append(f"{part.name}: {taken.short:,} cut short")
        if left is not None:
            left -= taken.size
    answer: Any = replace(empty, **given)
    for part in parts:
        answer = _with_lines(answer, part, ends[part.name])
    omitted = [_omitted(part, ends[part.name]) for part in parts if ends[part.name] < part.length]
    answer = replace(
        answer,
        degraded=(*changed, *answer.degraded),
        omitted=(*omitted, *short),
        next=_cursor(parts, ends, key),
    )
    fit: Reply = answer
    return fit


@cache
def _divisible(kind: type) -> tuple[str, ...]:
    """The fields of which a part can be given: lists of any length, mappings, text to be cut."""
    hints = get_type_hints(kind)
    names = []
    for field in fields(kind):
        if field.kw_only:
            continue  # what is said of the reply itself
        hint = hints[field.name]
        items = get_origin(hint) is tuple and get_args(hint)[-1:] == (Ellipsis,)
        if items or get_origin(hint) is dict or CUT in field.metadata:
            names.append(field.name)
    return tuple(names)


def _taken(part: _Part, allowed: int | None, most: int | None) -> _Taken:
    """As much of the part as there is room for.

    allowed: bytes; None for as many as it takes.
    most: bytes that the first item may take, being cut short if it takes more; None where nothing
          need be given.
    """
    if part.is_text:
        rest = part.value[part.start :]
        if allowed is not None:
            rest = _cut(rest, allowed if most is None else max(allowed, _LEAST_TEXT))
        return _Taken(rest, len(rest), _size(rest))
    items: list[Any] = []
    used = short = 0
    for item in part.items():
        size = _size(item) + 1
        if allowed is not None and used + size > allowed:
            if items or most is None:
                break
            kept = _squeezed(item, max(most, _LEAST_ITEM))
            short, size = int(kept is not item), _size(kept) + 1
            item = kept
        items.append(item)
        used += size
    return _Taken(part.holding(items), len(items), used, short)


def _cut(text: str, allowed: int) -> str:
    """The beginning of a text, to the end of a paragraph, a line or a word, else anywhere.

    A short paragraph before a long one is no reason to give no more than it.

    allowed: bytes of JSON.
    """
    if len(text) <= allowed and _size(text) <= allowed:
        return text
    least, most = 0, min(len(text), allowed)
    while least < most:
        middle = (least + most + 1) // 2
        if _size(text[:middle]) <= allowed:
            least = middle
        else:
            most = middle - 1
    for end in ("\n\n", "\n", " "):
        found = text.rfind(end, least // 2, least)
        if found >= 0:
            return text[: found + len(end)]
    return text[:least]


def _squeezed(value: Any, allowed: int) -> Any:
    """The same with texts, lists and mappings in it so short that it takes no more bytes."""
    kept, longest = value, allowed
    while _size(kept) > allowed and longest > 1:
        longest //= 2
        kept = _shortened(value, longest, most=longest // 8 + 1)
    return kept


def _shortened(value: Any, longest: int, most: int | None = None) -> Any:
    """The same with every text in it no longer than so many characters.

    most: values in each list and mapping; None for any number. What needs no change is the same
    object as before.
    """
    if isinstance(value, str):
        return value if len(value) <= longest else value[: max(0, longest - 1)] + _MARK
    if is_dataclass(value) and not isinstance(value, type):
        changed = {}
        for field in fields(value):
            if field.name in _WHOLE:
                continue
            part = getattr(value, field.name)
            # A pair of lines is no list that could lose one.
            short = _shortened(part, longest, None if _is_fixed(part) else most)
            if short is not part:
                changed[field.name] = short
        kept: Any = value
        return replace(kept, **changed) if changed else value
    if isinstance(value, dict):
        pairs = list(value.items())
        fit = [_pair(pair, longest, most) for pair in pairs[:most]]
        same = len(fit) == len(pairs) and all(a is b for a, b in zip(fit, pairs, strict=True))
        return value if same else dict(fit)
    if isinstance(value, list | tuple) and value:
        cut = value[:most] if not (isinstance(value, tuple) and _is_fixed(value)) else value
        parts = [_shortened(part, longest, most) for part in cut]
        same = len(parts) == len(value) and all(a is b for a, b in zip(parts, value, strict=True))
        return value if same else type(value)(parts)
    return value


def _pair(pair: tuple[str, Any], longest: int, most: int | None) -> tuple[str, Any]:
    """A name and its value, shortened; the same object where neither needs it."""
    name, value = (_shortened(part, longest, most) for part in pair)
    return pair if name is pair[0] and value is pair[1] else (name, value)


def _is_fixed(value: object) -> bool:
    """Whether it is a pair, of lines or of a name and a value, and no list."""
    return isinstance(value, tuple) and len(value) == 2


def _with_lines(reply: Any, part: _Part, end: int) -> Any:
    """The reply, its line numbers those of the text that it holds."""
    (field,) = [field for field in fields(reply) if field.name == part.name]
    if CUT not in field.metadata:
        return reply
    lines, cut = field.metadata[CUT]
    first = getattr(reply, lines)[0] + part.value.count("\n", 0, part.start)
    given = part.value[part.start : end]
    last = first + given.rstrip("\n").count("\n")
    changed = {lines: (first, last), cut: end < len(part.value) or getattr(reply, cut)}
    return replace(reply, **changed)


def _omitted(part: _Part, end: int) -> str:
    if part.is_text:
        lines = part.value.rstrip("\n").count("\n", end) + 1
        return f"{part.name}: {lines:,} more line{'' if lines == 1 else 's'}"
    return f"{part.name}: {len(part.value) - end:,} more"


def _cursor(parts: list[_Part], ends: dict[str, int], key: str) -> str | None:
    """What gets the rest; None when there is none."""
    left = [part for part in parts if ends[part.name] < len(part.value)]
    if not left:
        return None
    places = ",".join(f"{part.name}:{ends[part.name]}" for part in left)
    return f"{places}~{_checksum(left)}~{key}"


def _set_starts(parts: list[_Part], cursor: str) -> tuple[str, ...]:
    """Have the parts begin where the cursor says; returns what is to be said about that."""
    places, _, checksum = cursor.partition("~")
    starts = {
        name: int(place) for name, _, place in (part.partition(":") for part in places.split(","))
    }
    same = _checksum([part for part in parts if part.name in starts]) == checksum
    if not same and all(starts.get(p.name, p.length) >= p.length for p in parts):
        return (
            "The answer is not what it was when the cursor was given, and shorter; this is the "
            "new one, from its beginning.",
        )
    for part in parts:
        part.start = min(starts.get(part.name, part.length), part.length)
    if same:
        return ()
    return (
        "The answer is not what it was when the cursor was given; this goes on at the same place "
        "of the new one. Ask without the cursor to miss nothing.",
    )


def _checksum(parts: list[_Part]) -> str:
    steady = [(part.name, _steady(part.value)) for part in parts]
    return f"{crc32(_json(steady).encode('utf-8', 'surrogatepass')):08x}"


def _steady(value: Any) -> Any:
    """The same without what varies."""
    if not isinstance(value, tuple) or not value or not is_dataclass(value[0]):
        return value
    named = [field.name for field in fields(value[0])]
    varying = {field.name for field in fields(value[0]) if VARIES in field.metadata}
    if not varying:
        return value
    return [[getattr(item, name) for name in named if name not in varying] for item in value]


def _at_most(parts: list[_Part], limit: int) -> int:
    """What is left of these parts takes so many bytes, or more than the limit."""
    used = 0
    for part in parts:
        if part.is_text:
            used += _size(part.value[part.start : part.start + limit])
        else:
            for item in part.items():
                used += _size(item) + 1
                if used >= limit:
                    break
        if used >= limit:
            return limit
    return used


def _size(value: object) -> int:
    """Bytes of JSON, hidden characters counted as the escapes that they become."""
    text = _json(value)
    if text.isascii():
        return len(text)
    escaped = shown(text)
    # Each has a backslash, which JSON escapes once more.
    more = escaped.count("\\u{") - text.count("\\u{") if escaped is not text else 0
    return len(escaped.encode("utf-8", "surrogatepass")) + more


def _json(value: object) -> str:
    return json.dumps(plain(value, lean=True), ensure_ascii=False, separators=(",", ":"))
