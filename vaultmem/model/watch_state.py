"""What a process that watches a vault says of itself to the others."""

from dataclasses import dataclass
from enum import StrEnum


class Watching(StrEnum):
    """What a watcher is at."""

    STARTING = "starting"  # has not looked at everything yet
    WATCHING = "watching"
    UNREACHABLE = "unreachable"  # the vault is away: nothing is believed to be deleted


@dataclass(frozen=True, slots=True)
class WatchState:
    """A watcher as of the moment it last said something."""

    pid: int
    since: str  # UTC, ISO 8601
    state: Watching
    said_ns: int  # the clock when it said this, nanoseconds since the epoch
    rules: str  # fingerprint of the rules it indexes by
    behind: int = 0  # files and folders that changed and are not taken in yet
    behind_seconds: float = 0.0  # since the eldest of them changed
    missing: int = 0  # notes that are gone, and kept until that is certain
    waiting: int = 0  # passages that have no vector yet
    embeds: bool = True  # whether it gives passages their vectors
    events: bool = (
        True  # False where the system reports no changes and it only looks from time to time
    )
    problem: str = ""  # why the vault cannot be reached, or its settings not be read
