"""Replies as JSON: dataclasses by their field names, nothing added, nothing left out.

A field whose name in JSON is none in Python (`hit@1`) carries it as metadata, under "key".
"""

import json
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from pathlib import PurePath


def plain(value: object) -> object:
    """A reply as dicts, lists, texts and numbers."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.metadata.get("key", field.name): plain(getattr(value, field.name))
            for field in fields(value)
        }
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | frozenset | set):
        return [plain(part) for part in value]
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, date):
        return value.isoformat()
    return value


def to_json(value: object) -> str:
    """One JSON value; any script stays readable."""
    return json.dumps(plain(value), ensure_ascii=False, indent=2, allow_nan=False)


def to_json_line(value: object) -> str:
    """The same on a line of its own, for a stream of them."""
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
