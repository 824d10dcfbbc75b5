"""A machine that goes to another time zone: days of notes without one of their own go with it."""

import os
from collections.abc import Callable

import pytest
from canon import canon_lines
from clock import at, living_in
from followed import Times

from vaultmem.service.application import Memory
from vaultmem.service.indexing import take_in
from vaultmem.service.operations.index import IndexRequest, index

Open = Callable[..., Memory]


def assert_as_made_here(memory: Memory, open_vault: Open, times: Times) -> None:
    index(memory, IndexRequest())
    fresh = open_vault(name=memory.vault.name, cache="fresh", clock=times.clock)
    index(fresh, IndexRequest(rebuild=True))
    assert canon_lines(memory) == canon_lines(fresh)


@pytest.mark.parametrize(
    ("first", "then", "moment"),
    [
        ("Europe/Berlin", "Asia/Tokyo", "2026-05-01T23:30:00+02:00"),
        # Today these tell the same days, and have one name; once they did not.
        ("America/Argentina/Buenos_Aires", "America/Sao_Paulo", "2018-01-15T02:30:00+00:00"),
        ("Asia/Riyadh", "Europe/Istanbul", "2015-01-15T21:30:00+00:00"),
    ],
)
def test_a_note_has_the_day_that_a_rebuild_would_give_it_after_a_journey(
    first: str, then: str, moment: str, open_vault: Open
) -> None:
    times, stamp = Times(), at(moment)
    with living_in(first):
        memory = open_vault({"a.md": "kiln\n", "2020-02-02.md": "dated\n"}, clock=times.clock)
        os.utime(memory.vault / "a.md", ns=(stamp, stamp))
        index(memory, IndexRequest())
    with living_in(then):
        assert_as_made_here(memory, open_vault, times)


def test_a_look_at_one_place_from_another_zone_leaves_no_wrong_day(open_vault: Open) -> None:
    times, stamp = Times(), at("2026-05-01T23:30:00+02:00")
    with living_in("Europe/Berlin"):
        memory = open_vault({"a.md": "kiln\n", "b.md": "clay\n"}, clock=times.clock)
        for name in ("a.md", "b.md"):
            os.utime(memory.vault / name, ns=(stamp, stamp))
        index(memory, IndexRequest())
    with living_in("Asia/Tokyo"):
        (memory.vault / "a.md").write_text("kiln again\n")
        os.utime(memory.vault / "a.md", ns=(stamp, stamp))
        take_in(memory, only=["a.md"])
    with living_in("Europe/Berlin"):
        assert_as_made_here(memory, open_vault, times)
