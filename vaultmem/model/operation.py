"""What an operation is: the one table every surface is a translation of."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any


class Changes(StrEnum):
    """What an operation is there to change; that an answer refreshes the sidecar is nothing."""

    NOTHING = "nothing"
    INDEX = "index"  # what is known of the vault, which can be made again
    STATE = "state"  # the user's own decisions, outside the vault; a person's to make
    JOURNAL = "journal"
    VAULT = "vault"


class Group(StrEnum):
    """Which set of operations it belongs to; assistants are shown the first three by default."""

    RECALL = "recall"
    WRITE = "write"
    LEARN = "learn"
    CARE = "care"
    TEAM = "team"


@dataclass(frozen=True, slots=True)
class About:
    """What a parameter means, for whoever fills it in; stands in `Annotated` beside its type."""

    text: str
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = ()  # of a text, or of each text in a list
    for_people: bool = False  # nothing that an assistant may ask for


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What may be said to every operation."""

    max_tokens: Annotated[int | None, About("Room for the reply, in tokens.", least=1)] = None
    cursor: Annotated[
        str | None, About("`next` of a reply, to get what it left out; other arguments as then.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What every operation may have to say about its answer."""

    degraded: tuple[str, ...] = ()  # what could not be done as asked, and why
    omitted: tuple[str, ...] = ()  # what had no room in it
    next: str | None = None  # the cursor that gets it


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing vaultmem can do, the same over every surface."""

    name: str
    summary: str  # for a reader who pays by the word
    request: type[Request]  # a frozen dataclass; its fields are the parameters
    reply: type[Reply]
    run: Callable[[Any, Any], Any]  # (Memory, request) -> reply
    changes: Changes
    group: Group
    # (Memory, request) -> what a person is asked before it is done, in words that are none of the
    # asker's; of operations that change STATE. Raises what is wrong with the request.
    question: Callable[[Any, Any], str] | None = None
