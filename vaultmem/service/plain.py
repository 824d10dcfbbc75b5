"""Replies as dicts, lists, texts and numbers: dataclasses by their field names.

A field whose name in JSON is none in Python (`hit@1`) carries it as metadata, under "key".
"""

from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from pathlib import PurePath


def plain(value: object, *, lean: bool = False) -> object:
    """What JSON can say of a value. What every reply may hold comes behind what this one does.

    lean: fields that are None, False or empty are left out; it means the same and is shorter.
    """
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        named = sorted(fields(value), key=lambda field: bool(field.kw_only))
        parts = ((field, getattr(value, field.name)) for field in named)
        return {
            field.metadata.get("key", field.name): plain(part, lean=lean)
            for field, part in parts
            if not (lean and is_nothing(part))
        }
    if isinstance(value, dict):
        return {str(key): plain(part, lean=lean) for key, part in value.items()}
    if isinstance(value, list | tuple | frozenset | set):
        return [plain(part, lean=lean) for part in value]
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, date):
        return value.isoformat()
    return value


def is_nothing(value: object) -> bool:
    """Whether leaving a field of this value out says the same."""
    empty = (isinstance(value, str | tuple | list | dict) or is_dataclass(value)) and not value
    return value is None or value is False or empty
