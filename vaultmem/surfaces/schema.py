"""Requests and replies as JSON schemas, made from their dataclasses.

Short, for a model pays for every word: no titles, no unions with null, and of a reply no list of
what is required, since fields that are None, False or empty are left out.
"""

from dataclasses import MISSING, fields, is_dataclass
from datetime import date
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from vaultmem.model.operation import About, Request

Schema = dict[str, Any]

_SIMPLE: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def request_schema(kind: type[Request], *, for_people: bool = True) -> Schema:
    """What arguments there are; the frozen dataclass's fields with what `About` says of them.

    for_people: with those that an assistant may not give.
    """
    hints = get_type_hints(kind, include_extras=True)
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for field in sorted(fields(kind), key=lambda field: bool(field.kw_only)):
        hint = hints[field.name]
        about = about_of(hint)
        if about is not None and about.for_people and not for_people:
            continue
        schema = _of(_bare(hint))
        if about is not None:
            bounded: Schema = schema
            if about.choices:
                bounded = schema["items"] if schema["type"] == "array" else schema
                bounded["enum"] = [str(choice) for choice in about.choices]
            if about.least is not None:
                schema["minimum"] = about.least
            if about.most is not None:
                schema["maximum"] = about.most
            schema["description"] = about.text
        if field.default is MISSING:
            required.append(field.name)
        elif field.default not in (None, (), False):
            schema["default"] = field.default
        properties[field.name] = schema
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def reply_schema(kind: type) -> Schema:
    """What a reply may hold."""
    return _of(kind)


def fenced_schema(content: Schema) -> Schema:
    """The schema of content between its marks (service/fence.py)."""
    return {
        "type": "object",
        "properties": {
            "trust": {"const": "untrusted"},
            "fence": {"type": "string"},
            "content": content,
            "end": {"type": "string"},
        },
        "required": ["trust", "fence", "content", "end"],
    }


def about_of(hint: Any) -> About | None:
    """What stands beside a parameter's type."""
    if get_origin(hint) is Annotated:
        return next((part for part in get_args(hint) if isinstance(part, About)), None)
    return None


def _bare(hint: Any) -> Any:
    """A type without what stands beside it, and without the None that means absent."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, UnionType):
        (hint,) = [part for part in get_args(hint) if part is not NoneType]
    return hint


def _of(hint: Any) -> Schema:
    if hint in _SIMPLE:
        return {"type": _SIMPLE[hint]}
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _of(parts[0])
    if origin in (Union, UnionType):
        kinds = [_of(part) for part in parts if part is not NoneType]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (tuple, list, frozenset, set):
        return {"type": "array", "items": _of(parts[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of(parts[1])}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    if hint is date:
        return {"type": "string"}
    if is_dataclass(hint):
        assert isinstance(hint, type)
        hints = get_type_hints(hint, include_extras=True)
        named = sorted(fields(hint), key=lambda field: bool(field.kw_only))
        return {
            "type": "object",
            "properties": {
                field.metadata.get("key", field.name): _of(hints[field.name]) for field in named
            },
        }
    return {}  # `object`: anything JSON can say
