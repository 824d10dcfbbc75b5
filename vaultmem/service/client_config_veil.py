"""What a person is shown of an entry: keys and switches, and no value that may be a secret.

A person's own variables, the headers of a request and comments are none of vaultmem's business, and
a preview is copied into reports.
"""

import re
from collections.abc import Sequence

from vaultmem.service.own_variables import OWN_VARIABLES

VEIL = "…"

_ADDRESSES = ("url", "httpUrl", "serverUrl")
# A variable that is set, an address with a password, or one with a query.
_SECRET_ARGUMENT = re.compile(r"[A-Za-z_]\w*=|.*://[^/]*@|.*://.*\?", re.DOTALL)


def is_shown(path: Sequence[str], value: object, *, foreign: bool) -> bool:
    """Whether a value of an entry is shown. path: its keys within the entry.

    foreign: whether the entry is not vaultmem's, so that its arguments may hold anything.
    """
    first, *rest = path[1:] if path[:1] in (("transport",), ["transport"]) else path or ("",)
    if value is None or isinstance(value, bool):
        return True
    if not isinstance(value, str):
        return not rest
    if first in ("command", "type"):
        return not rest
    if first == "args":
        return not (foreign or _SECRET_ARGUMENT.match(value))
    if first == "env":
        return len(rest) == 1 and rest[0] in OWN_VARIABLES and "@" not in value
    return first in _ADDRESSES and not set("?@#") & set(value)
