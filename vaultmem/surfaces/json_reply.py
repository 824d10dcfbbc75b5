"""Replies as JSON: nothing added, nothing left out."""

import json

from vaultmem.service.plain import plain


def to_json(value: object) -> str:
    """One JSON value; any script stays readable."""
    return json.dumps(plain(value), ensure_ascii=False, indent=2, allow_nan=False)


def to_json_line(value: object) -> str:
    """The same on a line of its own, for a stream of them."""
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
