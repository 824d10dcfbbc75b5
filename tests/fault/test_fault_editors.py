"""A note that is looked at while an editor saves it is never taken for the saved one for ever."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest
from canon import canon_lines
from edited_vault import differences
from editors import EDITORS, Saving, tick, ticking
from followed import DEADLINE_SECONDS, Followed, Times
from lanes import SEED, by_lane

from vaultmem.index.watch_state import watch_state
from vaultmem.service import indexing, watching
from vaultmem.service.application import Clock, Memory, open_memory
from vaultmem.service.indexing import Bounds, Taken
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.settings import Settings, load_settings

SAVES = by_lane(fast=20, slow=500)
# So soon a saved text is found, and a note that is there again.
SOON_SECONDS = 5.0

# A word of every text, of the last one and of the one before.
ALWAYS = "celadon"
WORDS = ("tenmoku", "shino")
FILLING = ("kiln ", "# Firing\n\n", "clay and glaze\n", "[[Other]] ", "äöü ", "cone 10.\n\n")


def text_of(number: int, before: bytes, random: Random, *, appended: bool) -> bytes:
    """A text with the word of its turn, of any length, often that of the one before."""
    if appended and len(before) < 4_000:
        return before + f"\n{WORDS[number % 2]}{number}\n".encode()
    body = "".join(random.choices(FILLING, k=random.randint(0, 60)))
    text = f"{ALWAYS} {WORDS[number % 2]}{number}\n{body}".encode()
    if random.random() < 0.4 and len(before) > 40:
        return text[: len(before)].ljust(len(before), b"x")
    return text


@dataclass
class Desk:
    """A vault with a note that is edited, and whoever indexes it meanwhile."""

    folder: Path
    random: Random
    editor: str
    old: bytes = b""
    new: bytes = b""
    saving: Saving = field(default_factory=lambda: iter(()))
    over: bool = True
    countdown: int = -1  # of looks at the clock, until the editor goes on
    number: int = 0

    def __post_init__(self) -> None:
        self.vault = self.folder / "vault"
        self.vault.mkdir()
        self.note = self.vault / "Note.md"
        self.new = text_of(0, b"", self.random, appended=False)
        self.note.write_bytes(self.new)
        (self.vault / "Other.md").write_text("Another note: [[Note]]\n")
        self.violations: list[str] = []

    def load(self) -> Settings:
        environment = {
            "VAULTMEM_EMBEDDER_NAME": "none",
            "VAULTMEM_STATE_DIR": str(self.folder / "state"),
        }
        return load_settings(self.vault, self.folder / "cache", environment=environment)

    def opened(self, now_ns: Callable[[], int] = time.time_ns) -> Memory:
        clock = Clock(now_ns=lambda: self.look_at(now_ns), elapsed=lambda: 0.0)
        return open_memory(self.load(), clock=clock)

    def look_at(self, now_ns: Callable[[], int]) -> int:
        """The clock, which is looked at before a note is read: meanwhile the editor goes on."""
        if self.countdown >= 0:
            self.countdown -= 1
            if self.countdown < 0:
                self.step()
        return now_ns()

    def begin(self, *, ticks: bool) -> None:
        """Save the note once more."""
        self.number += 1
        self.old = self.new
        appended = self.editor == "append"
        self.new = text_of(self.number, self.old, self.random, appended=appended)
        save = EDITORS[self.editor]
        if appended and not self.new.startswith(self.old):
            save = EDITORS["in_place"]  # it has got long enough
        self.saving = save(self.note, self.new)
        if ticks:
            tick(self.folder / "ticks")
            self.saving = ticking(self.folder / "ticks", self.saving)
        self.over = False

    def step(self) -> None:
        if next(self.saving, None) is None:
            self.over = True

    def is_whole(self) -> bool:
        """Whether the note has its old text, or its new one, and not a part of them."""
        try:
            return self.note.read_bytes() in (self.old, self.new)
        except FileNotFoundError:
            return False

    @property
    def word(self) -> str:
        return f"{WORDS[self.number % 2]}{self.number}"

    def finds(self, memory: Memory, word: str) -> bool:
        return "Note.md" in [hit.path for hit in search(memory, SearchRequest(word)).hits]

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.violations.append(f"save {self.number} by {self.editor}: {what}")

    def compare(self, memory: Memory) -> None:
        """At rest the index is that of a rebuild."""
        rebuilt = open_memory(
            load_settings(
                self.vault, self.folder / "fresh", environment={"VAULTMEM_EMBEDDER_NAME": "none"}
            )
        )
        try:
            index(rebuilt, IndexRequest(rebuild=True))
            found = differences(canon_lines(memory), canon_lines(rebuilt))
            self.expect(not found, "\n".join(["not as a rebuild", *found[:6]]))
        finally:
            rebuilt.close()


def saved_while_indexed(folder: Path, editor: str, saves: int) -> list[str]:
    """Save a note again and again while two processes index and search; what went wrong."""
    desk = Desk(folder, Random(f"{editor} {SEED}"), editor)
    memories = [desk.opened(), desk.opened()]
    index(memories[0], IndexRequest())
    try:
        for _ in range(saves):
            desk.begin(ticks=False)
            while not desk.over:
                memory = memories[desk.random.randrange(2)]
                what = desk.random.choice(("step", "step", "index", "search", "meanwhile"))
                if what == "step":
                    desk.step()
                elif what == "index":
                    index(memory, IndexRequest())
                elif what == "search":
                    # (Asked whether it is whole before: nothing is saved while it is searched.)
                    whole = desk.is_whole()
                    desk.expect(desk.finds(memory, ALWAYS) or not whole, "vanished")
                else:
                    desk.countdown = desk.random.randrange(8)
                    index(memory, IndexRequest())
                    desk.countdown = -1
            memory = memories[desk.random.randrange(2)]
            desk.expect(desk.finds(memory, desk.word), "what was saved is not found")
            desk.expect(desk.finds(memory, ALWAYS), "vanished in the end")
            index(memory, IndexRequest())
            desk.compare(memory)
        return desk.violations
    finally:
        for memory in memories:
            memory.close()


@pytest.mark.parametrize("editor", EDITORS)
def test_a_note_that_is_indexed_while_it_is_saved_is_right_in_the_end(
    editor: str, tmp_path: Path
) -> None:
    assert saved_while_indexed(tmp_path, editor, SAVES) == []


def test_a_hash_of_other_bytes_than_were_read_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note is opened once to be read, and once more to be hashed."""
    real = indexing.Run._take_in

    def take_in(run: Any, read: Any, names: Any) -> bool:
        run.memory.clock.now_ns()  # whoever saves gets a turn between the two
        again = run._read(read.path)
        hashed = sha256(again).hexdigest() if isinstance(again, bytes) else ""
        with monkeypatch.context() as patch:
            patch.setattr(indexing, "sha256", lambda data: _Said(hashed))
            return real(run, read, names)

    monkeypatch.setattr(indexing.Run, "_take_in", take_in)
    violations: list[str] = []
    for editor in by_lane(fast=("in_place", "append"), slow=tuple(EDITORS)):
        (tmp_path / editor).mkdir()
        violations += saved_while_indexed(tmp_path / editor, editor, 20)
    assert any("not as a rebuild" in violation for violation in violations)


@dataclass(frozen=True, slots=True)
class _Said:
    """Stands for a hash whose bytes are others."""

    text: str

    def hexdigest(self) -> str:
        return self.text


# While a watcher follows


def saved_while_watched(
    folder: Path, editor: str, saves: int, *, patience: float = DEADLINE_SECONDS
) -> list[str]:
    """Save a note again and again while it is watched and searched; what went wrong.

    patience: seconds of true time that each search may be tried again for.
    """
    desk = Desk(folder, Random(f"watched {editor} {SEED}"), editor)
    times = Times()
    followed = Followed(desk.load, times)
    memory = desk.opened(times.now_ns)
    with followed.running():
        for _ in range(saves):
            desk.begin(ticks=True)
            while not desk.over:
                what = desk.random.choice(("step", "step", "watch", "wait", "search"))
                if what == "step":
                    desk.step()
                elif what == "watch":
                    followed.pass_by(desk.random.choice((0.05, 0.25, 0.7)))
                elif what == "wait":
                    followed.pass_by(desk.random.choice((1.0, 2.5)))
                if desk.is_whole() and desk.random.random() < 0.3:
                    seconds = until_found(desk, followed, memory, ALWAYS, patience)
                    desk.expect(seconds <= SOON_SECONDS, f"vanished for {seconds:.1f} s")
            seconds = until_found(desk, followed, memory, desk.word, patience)
            desk.expect(seconds <= SOON_SECONDS, f"found after {seconds:.1f} s")
            desk.expect(desk.finds(memory, ALWAYS), "vanished in the end")
            followed.pass_by(3)
            desk.compare(memory)
    memory.close()
    return desk.violations


def until_found(
    desk: Desk, followed: Followed, memory: Memory, word: str, patience: float
) -> float:
    """Seconds of the watcher's clock until the note is found.

    That clock stands still as long as the watcher has not heard of anything.
    """
    began = followed.times.seconds
    deadline = time.monotonic() + patience
    while not desk.finds(memory, word):
        followed.step()
        state = watch_state(followed.folder)
        if state is not None and state.behind:
            followed.times.seconds += 0.02
        else:
            time.sleep(0.001)  # the system's threads take real time to tell
        if time.monotonic() > deadline or followed.times.seconds - began > 2 * SOON_SECONDS:
            return 2 * SOON_SECONDS
    return followed.times.seconds - began


@pytest.mark.parametrize("editor", EDITORS)
def test_a_note_that_is_saved_while_it_is_watched_is_found_again_soon(
    editor: str, tmp_path: Path
) -> None:
    assert saved_while_watched(tmp_path, editor, SAVES) == []


def test_control_of_that_a_watcher_that_looks_where_nothing_changed_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not with each editor: a search whose hit has another text by now takes that in itself."""
    real = vars(watching)["take_in"]

    def elsewhere(memory: Memory, *, only: frozenset[str] | None, bounds: Bounds) -> Taken:
        taken: Taken = real(memory, only=only and frozenset({"Other.md"}), bounds=bounds)
        return taken

    monkeypatch.setattr(watching, "take_in", elsewhere)
    violations: list[str] = []
    for editor in EDITORS:
        (tmp_path / editor).mkdir()
        violations += saved_while_watched(tmp_path / editor, editor, 2, patience=0.3)
    assert any("found after" in violation for violation in violations)
