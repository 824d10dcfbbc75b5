"""Many notes changed at once: quick, and what is gone leaves the disk all the same."""

from collections.abc import Callable
from pathlib import Path

import pytest

from vaultmem.index.update import must_erase
from vaultmem.service import indexing
from vaultmem.service.application import Memory, Progress
from vaultmem.service.indexing import take_in

Open = Callable[..., Memory]

GONE = "quetzalcoatl"  # which is its own stem


def notes(word: str, count: int = 12) -> dict[str, str]:
    return {
        f"n{i}.md": f"# Note {i}\n\nThe {word} and clay number {i}. [[n{i + 1}]]\n"
        for i in range(count)
    }


@pytest.fixture(autouse=True)
def _small_bursts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "MANY_REWRITTEN", 5)
    monkeypatch.setattr(indexing, "FEW_NOTES", 5)  # in one batch: nothing is merged by the way


def bytes_of(memory: Memory) -> bytes:
    return b"".join(file.read_bytes() for file in memory.folder.glob("index.db*"))


def rewrite(memory: Memory, word: str) -> None:
    for path, text in notes(word).items():
        (memory.vault / path).write_text(text)


@pytest.mark.parametrize("how", ["changed", "removed"])
def test_the_words_of_a_burst_leave_the_disk(
    how: str, indexed: Open, assert_equals_rebuild: Callable[[Memory], None]
) -> None:
    memory = indexed({**notes(GONE), "stays.md": "a kiln"})
    assert GONE.encode() in bytes_of(memory)
    if how == "changed":
        rewrite(memory, "pterosaur")
    else:
        for path in notes(GONE):
            (memory.vault / path).unlink()
    taken = take_in(memory)
    assert getattr(taken.notes, how) == 12
    assert GONE.encode() not in bytes_of(memory)
    assert memory.sidecar is not None
    assert not must_erase(memory.sidecar)
    assert_equals_rebuild(memory)


def test_a_burst_that_is_interrupted_erases_in_the_next_run(
    open_vault: Open, assert_equals_rebuild: Callable[[Memory], None], tmp_path: Path
) -> None:
    def interrupt(stage: str, done: int, total: int) -> None:
        if armed and done == 7:
            raise KeyboardInterrupt

    armed = False
    memory = open_vault(notes(GONE), progress=Progress(interrupt))
    take_in(memory)
    rewrite(memory, "pterosaur")
    armed = True
    with pytest.raises(KeyboardInterrupt):
        take_in(memory)
    armed = False
    assert memory.sidecar is not None
    assert must_erase(memory.sidecar)
    take_in(memory)
    assert not must_erase(memory.sidecar)
    assert GONE.encode() not in bytes_of(memory)
    assert_equals_rebuild(memory)


def test_after_a_burst_single_words_leave_the_disk_again(indexed: Open) -> None:
    memory = indexed(notes("kiln"))
    rewrite(memory, GONE)
    take_in(memory)
    (memory.vault / "n3.md").write_text("Nothing.")
    take_in(memory)
    assert GONE.encode() in bytes_of(memory)  # the other notes have it
    for path in notes(GONE):
        (memory.vault / path).write_text("Nothing.")
        take_in(memory)
    assert GONE.encode() not in bytes_of(memory)
