"""How much is tried: a share of everything in each test run, all of it before a release.

FAULT_LANE=slow tries as much as the docs promise, which takes most of an hour; FAULT_SEED draws
other examples. An unknown lane ends the run, or a slip of the pen would test less than was meant.
"""

import os
from typing import Literal, TypeVar

Lane = Literal["fast", "slow"]
_LANES: dict[str, Lane] = {"fast": "fast", "slow": "slow"}

LANE: Lane = _LANES[os.environ.get("FAULT_LANE", "fast")]
SLOW = LANE == "slow"
SEED = int(os.environ.get("FAULT_SEED", "8"))

T = TypeVar("T")


def by_lane(*, fast: T, slow: T) -> T:
    """What this lane wants of two: counts, seconds, or what to choose from."""
    return slow if SLOW else fast
