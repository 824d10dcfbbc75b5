"""How much is tried: a share of everything in each test run, all of it before a release.

FAULT_LANE=slow tries as much as the docs promise, which takes most of an hour; FAULT_SEED draws
other examples. An unknown lane ends the run, or a slip of the pen would test less than was meant.
"""

import os
from collections.abc import Mapping
from typing import Literal, TypeVar

Lane = Literal["fast", "slow"]
_LANES: dict[str, Lane] = {"fast": "fast", "slow": "slow"}


def lane_of(environment: Mapping[str, str]) -> Lane:
    """The lane that FAULT_LANE names. Raises ValueError for another word."""
    named = environment.get("FAULT_LANE") or "fast"
    if named not in _LANES:
        raise ValueError(f"FAULT_LANE is {named!r}; it has to be one of {', '.join(_LANES)}.")
    return _LANES[named]


def seed_of(environment: Mapping[str, str]) -> int:
    """The number that FAULT_SEED gives. Raises ValueError for what is no whole number."""
    named = environment.get("FAULT_SEED") or "8"
    try:
        return int(named)
    except ValueError:
        raise ValueError(f"FAULT_SEED is {named!r}; it has to be a whole number, as 8.") from None


LANE = lane_of(os.environ)
SLOW = LANE == "slow"
SEED = seed_of(os.environ)

T = TypeVar("T")


def by_lane(*, fast: T, slow: T) -> T:
    """What this lane wants of two: counts, seconds, or what to choose from."""
    return slow if SLOW else fast
