"""What an operation is: the one table every surface is a translation of."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Changes(StrEnum):
    """What an operation may write, besides the sidecar."""

    NOTHING = "nothing"
    STATE = "state"  # the user's own decisions, outside the vault; a person's to make
    JOURNAL = "journal"
    VAULT = "vault"


class Group(StrEnum):
    """Which set of operations it belongs to; assistants are shown RECALL by default."""

    RECALL = "recall"
    WRITE = "write"
    LEARN = "learn"
    CARE = "care"
    TEAM = "team"


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing vaultmem can do, the same over every surface."""

    name: str
    summary: str  # for a reader who pays by the word
    request: type  # a frozen dataclass; its fields are the parameters
    reply: type
    run: Callable[[Any, Any], Any]  # (Memory, request) -> reply
    changes: Changes
    group: Group
