"""Whatever is done to a vault, and however it is indexed, the index is that of a rebuild."""

import itertools
import os
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import apsw
import pytest
from edited_vault import EditedVault
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from lanes import SEED, by_lane

from vaultmem.index import update
from vaultmem.index.links import relink
from vaultmem.index.store import Sidecar
from vaultmem.index.update import stored_files
from vaultmem.index.vectors import PassageVectors
from vaultmem.model.delta import Snapshot, StoredFile, Suspects
from vaultmem.service import indexing
from vaultmem.service.application import Clock, Memory
from vaultmem.service.indexing import Bounds, take_in
from vaultmem.vault.delta import first_look
from vaultmem.vault.links import VaultNames

Open = Callable[..., Memory]

# The same lives in every run, unless others are asked for.
OTHERS = "FAULT_SEED" in os.environ
FAST_LIVES, FAST_STEPS = 60, 30


def live(
    base: Path, lives: int, steps: int, *, embeds: bool = False, shrink: bool = True
) -> Counter[str]:
    """Go through lives of vaults; what was done in them.

    Raises AssertionError where an index is not that of a rebuild.
    shrink: whether the shortest such life is looked for.
    """

    class Machine(EditedVault):
        pass

    Machine.base = base
    Machine.embeds = embeds
    tally = Machine.tally = Counter[str]()
    Machine.numbers = itertools.count()
    how = settings(
        max_examples=lives,
        stateful_step_count=steps,
        deadline=None,
        derandomize=not OTHERS,
        database=None,
        report_multiple_bugs=False,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(seed(SEED)(Machine) if OTHERS else Machine, settings=how)
    finally:
        print(dict(tally))  # shown where it fails, and with -s
    return tally


def test_indexing_what_changed_equals_a_rebuild(tmp_path: Path) -> None:
    lives, steps = by_lane(fast=(FAST_LIVES, FAST_STEPS), slow=(300, 60))
    tally = live(tmp_path, lives, steps)
    assert tally["lives"] >= lives
    assert tally["comparisons"] > 4 * tally["lives"]
    ways = ("told runs", "searches that take in", "runs in shares", "secrets allowed", "unlisted")
    assert all(tally[way] for way in (*ways, "interrupted", "edited meanwhile", "bounded runs"))
    assert tally["killed"] or not hasattr(os, "fork")


def test_vectors_of_what_changed_equal_those_of_a_rebuild(tmp_path: Path) -> None:
    lives, steps = by_lane(fast=(10, FAST_STEPS), slow=(75, 60))
    tally = live(tmp_path, lives, steps, embeds=True)
    assert tally["lives"] >= lives
    assert tally["comparisons"] > 4 * tally["lives"]


# What the lives above have shown, by itself.


@pytest.fixture
def hurried(open_vault: Open) -> Callable[..., Memory]:
    """Open and index a vault by a clock on which each look at it takes a second."""

    def opened(files: dict[str, str]) -> Memory:
        seconds = itertools.count()
        clock = Clock(now_ns=lambda: 10**18, elapsed=lambda: float(next(seconds)))
        memory = open_vault(files, clock=clock)
        take_in(memory)
        return memory

    return opened


def notes_of(memory: Memory) -> dict[str, str]:
    """Path -> as the disk spells it."""
    assert memory.sidecar is not None
    return {path: known.state.disk_path for path, known in stored_files(memory.sidecar).items()}


@pytest.mark.skipif(sys.platform != "linux", reason="two such folders are one elsewhere")
@pytest.mark.parametrize("seconds", range(1, 6))
def test_a_short_look_at_one_of_two_spellings_of_a_folder_mistakes_no_note(
    seconds: int, hurried: Callable[..., Memory]
) -> None:
    composed, apart = "é", unicodedata.normalize("NFD", "é")
    files = {f"{composed}/n.md": "kiln", f"{apart}/n.md": "glaze", "one/n.md": "clay"}
    memory = hurried({**files, f"{composed}/in/n.md": "wheel", f"{apart}/in/n.md": "cone"})
    before = notes_of(memory)
    assert len(before) == 5
    for _ in range(8):
        taken = take_in(memory, bounds=Bounds(seconds=seconds))
        assert not taken.changed_something
        assert notes_of(memory) == before


@pytest.mark.parametrize("seconds", range(1, 6))
def test_short_looks_one_after_another_see_what_went_from_every_folder(
    seconds: int, hurried: Callable[..., Memory]
) -> None:
    folders = ("a", "one", "two", "two/deep", "two/deep/er")
    memory = hurried({"n.md": "kiln", **{f"{folder}/n.md": "kiln" for folder in folders}})
    for folder in folders:
        (memory.vault / folder / "n.md").unlink()
    for _ in range(12):
        take_in(memory, bounds=Bounds(seconds=seconds))
    assert notes_of(memory) == {"n.md": "n.md"}


# Faults that must be noticed within as many lives as there are in each run.


def notice(base: Path, *, embeds: bool = False) -> None:
    """Go through lives until one shows the fault."""
    with pytest.raises(AssertionError, match=r"(kept|anew) only: "):
        live(base, FAST_LIVES, FAST_STEPS, embeds=embeds, shrink=False)


def test_passages_that_stay_when_a_note_shrinks_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = update._put_chunks

    def keep_all(db: apsw.Connection, *arguments: Any) -> int:
        db.execute(
            "CREATE TEMP TRIGGER kept BEFORE DELETE ON main.chunk BEGIN SELECT RAISE(IGNORE); END"
        )
        try:
            return real(db, *arguments)
        finally:
            db.execute("DROP TRIGGER kept")

    monkeypatch.setattr(update, "_put_chunks", keep_all)
    notice(tmp_path)


def test_trust_in_size_and_time_alone_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = first_look

    def by_size_and_time(snapshot: Snapshot, stored: dict[str, StoredFile]) -> Suspects:
        trusted: dict[str, StoredFile] = {}
        for path, known in stored.items():
            now = snapshot.notes.get(path)
            if now is not None and now[:2] == known.state[:2]:
                known = known._replace(state=now, read_ns=2**62)
            trusted[path] = known
        return real(snapshot, trusted)

    monkeypatch.setattr(indexing, "first_look", by_size_and_time)
    notice(tmp_path)


def test_links_that_are_not_looked_up_again_for_a_namesake_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = relink

    def for_what_went(sidecar: Sidecar, paths: Iterable[str] | None, names: VaultNames) -> None:
        there = frozenset(names)
        real(sidecar, None if paths is None else set(paths) - there, names)

    monkeypatch.setattr(indexing, "relink", for_what_went)
    notice(tmp_path)


def test_vectors_of_other_texts_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = PassageVectors.attach

    def of_others(self: Any, name: str, slots: Iterable[tuple[bytes, int]]) -> int:
        pairs = list(slots)
        others = reversed([slot for _, slot in pairs])
        return real(self, name, zip((of for of, _ in pairs), others, strict=True))

    monkeypatch.setattr(PassageVectors, "attach", of_others)
    notice(tmp_path, embeds=True)
