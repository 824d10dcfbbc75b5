"""Arguments as JSON has them -> a typed request; what does not fit is said, never dropped."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from vaultmem.model.errors import UsageError
from vaultmem.model.operation import Operation, Request
from vaultmem.surfaces.schema import about_of

# Digits of a number written as text; no argument has more.
_MAX_DIGITS = 18


def read_request(
    operation: Operation, arguments: Mapping[str, Any], *, for_people: bool = True
) -> Request:
    """The operation's request.

    for_people: with the arguments that an assistant may not give.

    Models write numbers as texts and a list of one as a text: these are taken for what they mean.
    Raises UsageError for an argument that there is not, that is missing, or of another kind.
    """
    hints = get_type_hints(operation.request, include_extras=True)
    known = {
        field.name: field
        for field in fields(operation.request)
        if for_people or not ((about := about_of(hints[field.name])) and about.for_people)
    }
    for name in arguments:
        if name not in known:
            raise UsageError(
                f"{operation.name} has no argument {name[:80]!r}; it has {', '.join(known)}."
            )
    given: dict[str, Any] = {}
    for name, field in known.items():
        value = arguments.get(name)
        # (Models write "" for what they leave open.)
        if value is None or (value == "" and field.default is None):
            if field.default is MISSING:
                raise UsageError(f"{operation.name} needs the argument {name}.")
            continue
        given[name] = _converted(operation.name, name, hints[name], value)
    return operation.request(**given)


def _converted(operation: str, name: str, hint: Any, value: Any) -> Any:
    about = about_of(hint)
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, UnionType):
        (hint,) = [part for part in get_args(hint) if part is not NoneType]
    where = f"The argument {name} of {operation}"
    if hint is bool:
        return _truth(where, value)
    if hint is int:
        number = _number(where, value)
        if about is not None and about.least is not None and number < about.least:
            raise UsageError(f"{where} is {number}; it must be at least {about.least}.")
        if about is not None and about.most is not None:
            number = min(number, about.most)
        return number
    texts = _texts(where, value) if get_origin(hint) is tuple else (_text(where, value),)
    for text in texts:
        if about is not None and about.choices and text not in about.choices:
            raise UsageError(f"{where} is {text[:80]!r}; use {', '.join(about.choices)}.")
    return texts if get_origin(hint) is tuple else texts[0]


def _truth(where: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise UsageError(f"{where} is {_shown(value)}; true or false is needed.")


def _number(where: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and len(value) <= _MAX_DIGITS:
        try:
            return int(value)
        except ValueError:
            pass  # said below, as for any other value
    raise UsageError(f"{where} is {_shown(value)}; a whole number is needed.")


def _text(where: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    raise UsageError(f"{where} is {_shown(value)}; a text is needed.")


def _texts(where: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        listed = _json_list(value)
        if listed is None:
            return (value,)
        value = listed
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        return tuple(value)
    raise UsageError(f"{where} is {_shown(value)}; a list of texts is needed.")


def _json_list(text: str) -> list[Any] | None:
    if not text.startswith("["):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    texts = isinstance(value, list) and all(isinstance(part, str) for part in value)
    return value if texts else None  # `[2026]` is the name of a folder


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"
