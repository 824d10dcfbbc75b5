"""Replies that fit a number of tokens, and cursors that get what had no room.

Room is filled greedily, in the order of the reply's fields, with whole items: hits, links,
problems, and text up to the end of a paragraph. A cursor names how much of each field has been
given; it is good for the same request only, and for as long as the answer to that stays the same.
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
from vaultmem.service.application import Memory
from vaultmem.service.plain import plain

Asked = TypeVar("Asked", bound=Request)
Answer = TypeVar("Answer", bound=Reply)

# Bytes of JSON that are taken for one token. English has some 4.5, Chinese 3, and a name of random
# letters 2; a low figure keeps a reply below what a client cuts off.
TOKEN_BYTES = 3
# Kept for what is said of the omissions, and for the cursor: bytes.
_NOTICE_BYTES = 240
# Metadata of a field that holds text which may be cut between lines: the names of the fields with
# its first and last line, and of the one that says that it was cut.
CUT = "cut"

_MARK = "…"
_CURSOR = re.compile(r"[a-z_]+:\d{1,9}(?:,[a-z_]+:\d{1,9})*~[0-9a-f]{8}")


def fitted(run: Callable[[Memory, Asked], Answer]) -> Callable[[Memory, Asked], Answer]:
    """An operation whose reply keeps to the room that its request gives it."""

    @wraps(run)
    def within_room(memory: Memory, request: Asked) -> Answer:
        room = request.max_tokens
        if room is not None and (not isinstance(room, int) or isinstance(room, bool) or room < 1):
            raise UsageError(f"The number of tokens is {room!r}; a whole number from 1 is needed.")
        reply = run(memory, request)
        if room is None and request.cursor is None:
            return reply
        answer: Any = _within(reply, room, request.cursor)
        fit: Answer = answer
        return fit

    return within_room


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

    def items(self) -> Iterator[Any]:
        rest: Sequence[Any] = (
            list(self.value.items()) if isinstance(self.value, dict) else self.value
        )
        yield from rest[self.start :]

    def holding(self, items: Sequence[Any]) -> Any:
        return dict(items) if isinstance(self.value, dict) else tuple(items)


def _within(reply: Reply, room: int | None, cursor: str | None) -> Reply:
    parts = [
        _Part(name, getattr(reply, name), 0)
        for name in _divisible(type(reply))  # type: ignore[arg-type] # (the hash of instances)
        if getattr(reply, name)
    ]
    changed = _set_starts(parts, cursor) if cursor is not None else ()
    limit = room * TOKEN_BYTES if room is not None else None
    longest = max(80, limit // 4) if limit is not None else None
    nothing: dict[str, Any] = {
        part.name: "" if part.is_text else part.holding(()) for part in parts
    }
    empty: Any = replace(reply, **nothing)
    if longest is not None:
        empty = _shortened(empty, longest)
    left = limit - _size(empty) - _NOTICE_BYTES if limit is not None else None
    given: dict[str, Any] = {}
    ends: dict[str, int] = {}
    for number, part in enumerate(parts):
        allowed = None
        if left is not None:
            # What comes behind is left a quarter, if it needs as much.
            allowed = max(0, left - _at_most(parts[number + 1 :], max(0, left) // 4))
        forced = not any(given.values())
        taken, used = _taken(part, allowed, longest, forced=forced)
        given[part.name] = taken
        ends[part.name] = part.start + len(taken)
        if left is not None:
            left -= used
    answer: Any = replace(empty, **given)
    for part in parts:
        answer = _with_lines(answer, part, ends[part.name])
    answer = replace(
        answer,
        degraded=(*changed, *answer.degraded),
        omitted=tuple(
            _omitted(part, ends[part.name]) for part in parts if ends[part.name] < len(part.value)
        ),
        next=_cursor(parts, ends),
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


def _taken(
    part: _Part, allowed: int | None, longest: int | None, *, forced: bool
) -> tuple[Any, int]:
    """As much of the part as there is room for, and the room that takes: bytes.

    allowed: bytes; None for as many as it takes.
    forced: something must be given, or a cursor would never get anywhere.
    """
    if part.is_text:
        rest = part.value[part.start :]
        text = rest if allowed is None else _cut(rest, max(allowed, 80 if forced else 0))
        return text, _size(text)
    items: list[Any] = []
    used = 0
    for item in part.items():
        kept = item if longest is None else _shortened(item, longest)
        size = _size(kept) + 1
        if allowed is not None and used + size > allowed and not (forced and not items):
            break
        items.append(kept)
        used += size
    return part.holding(items), used


def _cut(text: str, allowed: int) -> str:
    """The beginning of a text, to the end of a paragraph, else of a line, else anywhere.

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
    paragraph = text.rfind("\n\n", least // 2, least)
    if paragraph >= 0:
        return text[: paragraph + 2]
    line = text.rfind("\n", 0, least)
    return text[: line + 1] if line >= 0 else text[:least]


def _shortened(value: Any, longest: int) -> Any:
    """The same with every text in it no longer than so many characters."""
    if isinstance(value, str):
        return value if len(value) <= longest else value[: longest - 1] + _MARK
    if is_dataclass(value) and not isinstance(value, type):
        changed = {}
        for field in fields(value):
            part = getattr(value, field.name)
            short = _shortened(part, longest)
            if short is not part:
                changed[field.name] = short
        kept: Any = value
        return replace(kept, **changed) if changed else value
    if isinstance(value, dict):
        return {key: _shortened(part, longest) for key, part in value.items()}
    if isinstance(value, list | tuple) and value:
        return type(value)(_shortened(part, longest) for part in value)
    return value


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


def _cursor(parts: list[_Part], ends: dict[str, int]) -> str | None:
    """What gets the rest; None when there is none."""
    left = [part for part in parts if ends[part.name] < len(part.value)]
    if not left:
        return None
    places = ",".join(f"{part.name}:{ends[part.name]}" for part in left)
    return f"{places}~{_checksum(left)}"


def _set_starts(parts: list[_Part], cursor: str) -> tuple[str, ...]:
    """Have the parts begin where the cursor says; returns what is to be said about that."""
    if not _CURSOR.fullmatch(cursor):
        raise UsageError(
            f"{cursor[:80]!r} is no cursor. Pass what a reply to the same request holds as next."
        )
    places, _, checksum = cursor.partition("~")
    starts = {
        name: int(place) for name, _, place in (part.partition(":") for part in places.split(","))
    }
    named = [part for part in parts if part.name in starts]
    for part in parts:
        part.start = min(starts.get(part.name, len(part.value)), len(part.value))
    if _checksum(named) != checksum:
        return (
            "The answer is not what it was when the cursor was given; this is from the new one.",
        )
    return ()


def _checksum(parts: list[_Part]) -> str:
    return f"{crc32(_json([(part.name, part.value) for part in parts])):08x}"


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
    return len(_json(value))


def _json(value: object) -> bytes:
    text = json.dumps(plain(value, lean=True), ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")
