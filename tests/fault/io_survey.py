"""One scenario at every point at which the disk may fail, and what went wrong at any of them.

    python io_survey.py FOLDER SCENARIO JOURNAL HOW

does so in a process into which the shim was loaded, and prints what came of it as JSON.
"""

import json
import random
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from failing_vfs import Failure
from io_runs import SCENARIOS, Bench
from lanes import SEED
from preload import Shim

TURNS = tuple((failure, sticky) for failure in Failure for sticky in (False, True))
_NEVER = 1 << 30

# Each point in each way; each point in one way, in turn; or a dozen of them.
How = Literal["every", "dealt", "some"]
SOME = 12


class Faults(Protocol):
    """What can be told to fail at its n-th call."""

    @property
    def calls(self) -> int:
        """How many there were in the last stretch that could fail."""
        ...

    @property
    def refused(self) -> int:
        """How many of them failed."""
        ...

    @property
    def nameless(self) -> int:
        """Of these, those whose error does not tell a full disk from a broken one."""
        ...

    def failing(self, at: int, failure: Failure, *, sticky: bool) -> AbstractContextManager[None]:
        """A stretch in which the call of that number fails."""
        ...


@dataclass(slots=True)
class Survey:
    """What came of it."""

    points: int = 0  # calls that may fail
    runs: int = 0  # in which one did
    reported: int = 0  # of these, runs that ended with an error
    violations: list[str] = field(default_factory=list)


def survey(bench: Bench, faults: Faults, how: How = "every") -> Survey:
    """Run a scenario once for each point and way."""
    found = Survey()
    bench.reset()
    with faults.failing(_NEVER, Failure.FULL, sticky=False):
        bench.attempt()
    found.points = faults.calls
    for at, failure, sticky in _cases(found.points, how):
        bench.reset()
        with faults.failing(at, failure, sticky=sticky):
            ended = bench.attempt()
        refused = failure if faults.refused else None
        found.runs += refused is not None
        found.reported += bool(ended.code or ended.strange)
        where = f"{bench.scenario.name}, {bench.journal}: call {at} of {found.points}, "
        where += f"{failure.value}{' from there on' if sticky else ''}: "
        said = bench.violations(ended, refused, nameless=faults.nameless > 0)
        found.violations += [where + each for each in said]
    return found


def _cases(points: int, how: How) -> Iterator[tuple[int, Failure, bool]]:
    chosen = range(1, points + 1)
    match how:
        case "every":
            yield from ((at, *turn) for at in chosen for turn in TURNS)
        case "dealt":
            yield from ((at, *TURNS[(at + SEED) % len(TURNS)]) for at in chosen)
        case "some":
            some = random.Random(SEED).sample(chosen, min(SOME, points))
            yield from ((at, *TURNS[n % len(TURNS)]) for n, at in enumerate(some))


if __name__ == "__main__":
    place, scenario, journal, how = sys.argv[1:]
    made = Bench(Path(place), SCENARIOS[scenario], journal)
    print(json.dumps(asdict(survey(made, Shim(), how))))  # type: ignore[arg-type]
