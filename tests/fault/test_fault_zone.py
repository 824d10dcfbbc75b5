"""A machine that goes to another time zone: the days of notes go with it."""

import os
from collections.abc import Callable

from canon import canon_lines
from clock import at, living_in
from followed import Times

from vaultmem.service.application import Memory
from vaultmem.service.operations.index import IndexRequest, index


def test_a_note_has_the_day_that_a_rebuild_would_give_it_after_a_journey(
    open_vault: Callable[..., Memory],
) -> None:
    times, stamp = Times(), at("2026-05-01T23:30:00+02:00")
    with living_in("Europe/Berlin"):
        memory = open_vault({"a.md": "kiln\n"}, cache="kept", clock=times.clock)
        os.utime(memory.vault / "a.md", ns=(stamp, stamp))
        index(memory, IndexRequest())
    with living_in("Asia/Tokyo"):
        index(memory, IndexRequest())
        fresh = open_vault(cache="fresh", clock=times.clock)
        index(fresh, IndexRequest())
        assert canon_lines(memory) == canon_lines(fresh)
