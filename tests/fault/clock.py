"""Clocks that go wrong: jumps of the wall clock, times that files may bear, zones to live in.

Time that is counted (`Clock.elapsed`) goes on evenly throughout, as the system's own does; a
jump is one of the wall clock alone.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from followed import Times

SECOND_NS = 10**9
HOUR = 3600.0
DAY = 24 * HOUR


def at(text: str) -> int:
    """Nanoseconds since the epoch of a time in ISO 8601, which is UTC where it names no zone."""
    when = datetime.fromisoformat(text)
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def set_wall(times: Times, now_ns: int) -> None:
    """Set the wall clock, as a person or a time server does."""
    times.sleep((now_ns - times.now_ns()) / 1e9)


# What a jump makes of the time, both in nanoseconds since the epoch.
JUMPS: Mapping[str, Callable[[int], int]] = {
    "a second back": lambda now: now - SECOND_NS,
    "an hour back": lambda now: now - int(HOUR) * SECOND_NS,
    "an hour forward": lambda now: now + int(HOUR) * SECOND_NS,
    "a day back": lambda now: now - int(DAY) * SECOND_NS,
    "back to 1970": lambda now: 0,
    "before 1970": lambda now: at("1969-07-20T20:17:40"),
    "ten years forward": lambda now: now + 3652 * int(DAY) * SECOND_NS,
    "to a leap day": lambda now: at("2028-02-29T12:00:00"),
}

# Times that a file may bear: nanoseconds since the epoch, and the day that this is in UTC.
STAMPS: Mapping[str, tuple[int, str]] = {
    "1969": (at("1969-12-31T23:59:59"), "1969-12-31"),
    "the epoch": (0, "1970-01-01"),
    "a moment before it": (-1, "1969-12-31"),
    "a leap day": (at("2024-02-29T23:59:59"), "2024-02-29"),
    "1901": (at("1901-12-14T00:00:00"), "1901-12-14"),
    "2038": (at("2038-01-19T03:14:08"), "2038-01-19"),
    "2100": (at("2100-03-01T00:00:00"), "2100-03-01"),
}
# Beyond what SQLite's integers hold; a disk may have other bounds, and keeps what is nearest.
EXTREMES: Mapping[str, int] = {
    "2300": at("2300-01-01T00:00:00"),
    "2446": at("2446-01-01T00:00:00"),
    "3000": at("3000-01-01T00:00:00"),
    "the last there is": (2**62) * SECOND_NS,
    "the first there is": -(2**62) * SECOND_NS,
    "a float's last": int(2.0**53) * SECOND_NS,
}


@contextmanager
def living_in(zone: str) -> Iterator[None]:
    """Have local time be that of a zone, such as Europe/Berlin."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = zone
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()
