"""Incremental indexing equals a rebuild after any sequence of edits."""

import itertools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from vaultmem.service.application import Clock, Memory, open_memory
from vaultmem.service.operations.index import IndexReply, IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.settings import load_settings

Open = Callable[..., Memory]
Canon = Callable[[Memory], list[str]]

PLACES = (
    "alpha.md",
    "beta.md",
    "Beta.md",
    "one/alpha.md",
    "one/gamma.md",
    "two/gamma.md",
    "two/deep/delta.md",
    "two/ΟΔΟΣ.md",
    "2026-03-04 trip.md",
    "two/board.canvas",
)
ATTACHMENTS = ("pot.png", "one/pot.png", "two/alpha.pdf", "gamma")
CANVAS = json.dumps(
    {
        "nodes": [
            {"id": "1", "type": "text", "text": "# Card\n\nkiln [[gamma]] #ceramics\n"},
            {"id": "2", "type": "file", "file": "alpha.md"},
            {"id": "3", "type": "file", "file": "one/gamma.md", "subpath": "#B"},
        ],
        "edges": [{"id": "e", "fromNode": "2", "toNode": "3", "label": "glazed like"}],
    }
)
TEXTS = (
    "",
    "plain words about kilns and clay\n",
    "# Firing\n\nThe kiln of [[alpha]] and [[one/gamma|the other]].\n",
    "See [[Beta]], [[gamma]], ![[pot.png]] and [up](../alpha.md).\n\n#ceramics/raku\n",
    "---\naliases: [Clay, 京都]\ntags: [ceramics]\nrelated: '[[delta]]'\n---\nGlaze recipe 7.\n",
    "---\nid: note-one\n---\nIts own identity: [[ΟΔΟΣ]] [[./gamma]] [[two/alpha.pdf]].\n",
    "---\nid: note-one\n---\nThe same identity, other words: wheel, kiln.\n",
    "---\ntype: recipe\ndate: 2025-01-02\ntitle: Stoneware\n---\n# Clay\n\nkiln\n\n# Clay\n\nkiln",
    "---\nbroken: [yaml\n---\nA body of the broken note about [[nowhere]] and [[gamma.md]].\n",
    "# Long\n\n"
    + "\n\n".join(f"Paragraph {n} about throwing on the wheel." * 4 for n in range(12)),
    "# A\n\nfirst kiln\n\n# B\n\nsecond glaze\n\n# C\n\nthird clay [[#A]] [[alpha#B]]\n",
    "京都の窯で焼いた器 [[alpha|器]]\n",
    "# Kiln log\n\n## 2025-03-04\n\ncracked glaze\n\ndecision:: slower cooling\nas of now\n\n"
    "## 2026-01-02\n\n> [!error] Fuse\n> blew at cone 6\n\n- lesson:: test tiles\n  first\n",
    "state:: drying\nkiln:: [[gamma]]\n\nA pot with [error:: warped] and (due:: 2026-02-03).\n",
    CANVAS,
)
SEARCHES = (
    "kiln",
    "kilns clay",
    '"the kiln"',
    "glaze -recipe",
    "wheel throwing",
    "tag:ceramics glaze",
    "path:two kiln gamma",
    "京都",
    "stonewear",
    "alpha after:2025-01-01",
    "kind:decision",
    "kind:episode glaze after:2025-06",
    "error kind:error",
    "kind:canvas kiln",
)

texts = st.sampled_from(TEXTS)
places = st.sampled_from(PLACES)
picks = st.integers(min_value=0, max_value=50)


def answers(memory: Memory) -> list[list[tuple[str, float]]]:
    replies = [search(memory, SearchRequest(query)) for query in SEARCHES]
    return [[(hit.path, hit.score) for hit in reply.hits] for reply in replies]


def compare_with_a_rebuild(memory: Memory, cache: Path, canon: Canon) -> None:
    """The sidecar and its answers are those of an index made from nothing."""
    fresh = open_memory(
        load_settings(memory.vault, cache, environment={"VAULTMEM_EMBEDDER_NAME": "none"}),
        clock=memory.clock,
    )
    try:
        index(fresh, IndexRequest(rebuild=True))
        assert canon(memory) == canon(fresh)
        assert answers(memory) == answers(fresh)
    finally:
        fresh.close()


def replace_text(file: Path, data: bytes) -> None:
    """Write until the file system's clock has ticked: ctime is all that betrays some edits."""
    before = file.stat().st_ctime_ns if file.exists() else 0
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    while file.stat().st_ctime_ns == before:
        file.write_bytes(data)


# Written down once; a person who hunts takes derandomize away and raises the numbers.
@settings(
    max_examples=40,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
class EditedVault(RuleBasedStateMachine):
    """A person edits a small vault in every way there is, and indexes now and then."""

    base: Path
    canon: Canon
    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.folder = self.base / str(next(self.numbers))
        self.vault = self.folder / "vault"
        self.vault.mkdir(parents=True)
        (self.vault / "anchor.md").write_text("An anchor that is always there: [[alpha]]\n")
        self.now_ns = 10**18
        self.memory = self.opened("kept")
        index(self.memory, IndexRequest())

    def opened(self, cache: str) -> Memory:
        clock = Clock(now_ns=lambda: self.now_ns, elapsed=lambda: 0.0)
        settings_ = load_settings(
            self.vault, self.folder / cache, environment={"VAULTMEM_EMBEDDER_NAME": "none"}
        )
        return open_memory(settings_, clock=clock)

    def teardown(self) -> None:
        self.compare()
        self.memory.close()
        shutil.rmtree(self.folder)

    def note(self, pick: int) -> Path:
        notes = sorted(self.vault.rglob("*.md"))
        return notes[pick % len(notes)]

    def move(self, old: Path, new: Path) -> None:
        new.parent.mkdir(parents=True, exist_ok=True)
        if old != new and not new.exists():
            os.rename(old, new)

    @rule()
    def compare(self) -> None:
        index(self.memory, IndexRequest())
        compare_with_a_rebuild(self.memory, self.folder / "fresh", self.canon)

    @rule()
    def open_anew(self) -> None:
        self.memory.close()

    @rule()
    def let_time_pass(self) -> None:
        """From here on no file is young: size, times and inode decide who is read."""
        self.now_ns = 4 * 10**18

    @rule(place=places, text=texts)
    def write(self, place: str, text: str) -> None:
        replace_text(self.vault / place, text.encode())

    @rule(pick=picks, text=texts)
    def append(self, pick: int, text: str) -> None:
        file = self.note(pick)
        replace_text(file, file.read_bytes() + b"\nAppended.\n" + text.encode())

    @rule(pick=picks, share=st.integers(0, 9))
    def truncate(self, pick: int, share: int) -> None:
        file = self.note(pick)
        data = file.read_bytes()
        replace_text(file, data[: len(data) * share // 10])

    @rule(pick=picks)
    def delete(self, pick: int) -> None:
        file = self.note(pick)
        if file.name != "anchor.md":
            file.unlink()

    @rule(pick=picks, place=places)
    def rename(self, pick: int, place: str) -> None:
        file = self.note(pick)
        if file.name != "anchor.md":
            self.move(file, self.vault / place)

    @rule(pick=picks, place=places, text=texts)
    def rename_and_edit(self, pick: int, place: str, text: str) -> None:
        self.rename(pick, place)
        self.append(pick, text)

    @rule(pick=picks)
    def rename_by_case(self, pick: int) -> None:
        file = self.note(pick)
        if file.name != "anchor.md":
            self.move(file, file.with_name(file.stem.swapcase() + ".md"))

    @rule(
        names=st.sampled_from(
            [("one", "two"), ("two", "one"), ("two/deep", "three"), ("one", "One")]
        )
    )
    def move_folder(self, names: tuple[str, str]) -> None:
        old, new = (self.vault / name for name in names)
        if old.exists() and not new.exists():
            os.rename(old, new)

    @rule(first=picks, second=picks)
    def swap(self, first: int, second: int) -> None:
        a, b, spare = self.note(first), self.note(second), self.folder / "spare"
        if a != b:
            os.rename(a, spare)
            os.rename(b, a)
            os.rename(spare, b)

    @rule(pick=picks, days=st.integers(0, 900))
    def touch(self, pick: int, days: int) -> None:
        file = self.note(pick)
        os.utime(file, (1.7e9 + days * 86_400, 1.7e9 + days * 86_400))

    @rule(pick=picks)
    def edit_behind_the_clock(self, pick: int) -> None:
        """Another text of the same size, with the old time of modification put back."""
        file = self.note(pick)
        before = file.stat()
        replace_text(file, file.read_bytes().translate(bytes.maketrans(b"aeklz", b"eakzl")))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    @rule(name=st.sampled_from(ATTACHMENTS))
    def add_or_remove_attachment(self, name: str) -> None:
        file = self.vault / name
        if file.exists():
            file.unlink()
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"\x89PNG")

    @rule(source=st.sampled_from(["alpha.md", "two/gamma.md", "one/ΟΔΟΣ.md"]))
    def add_a_second_note_of_a_linked_name(self, source: str) -> None:
        replace_text(self.vault / "aa" / source, b"A namesake.\n")


def test_incremental_indexing_equals_a_rebuild_after_any_edits(
    tmp_path: Path, canon: Canon
) -> None:
    class Machine(EditedVault):
        base = tmp_path

    Machine.canon = staticmethod(canon)
    run_state_machine_as_test(Machine, settings=EditedVault.TestCase.settings)


Index = Callable[[Memory], IndexReply]


def test_a_touched_note_without_a_date_takes_the_day_of_its_new_time(
    open_vault: Open, run_index: Index, tmp_path: Path, canon: Canon
) -> None:
    memory = open_vault({"undated.md": "kiln"})
    os.utime(memory.vault / "undated.md", (1.5e9, 1.5e9))
    run_index(memory)
    os.utime(memory.vault / "undated.md", (1.7e9, 1.7e9))
    run_index(memory)
    compare_with_a_rebuild(memory, tmp_path / "fresh", canon)


def test_a_note_with_a_final_sigma_resolves_the_links_that_waited_for_it(
    open_vault: Open, run_index: Index, tmp_path: Path, canon: Canon
) -> None:
    memory = open_vault({"road.md": "[[ΟΔΟΣ]]"})
    run_index(memory)
    (memory.vault / "ΟΔΟΣ.md").write_text("the road")
    run_index(memory)
    compare_with_a_rebuild(memory, tmp_path / "fresh", canon)


def test_equal_notes_beyond_the_cut_rank_by_path_however_they_came(
    open_vault: Open, run_index: Index, tmp_path: Path, canon: Canon
) -> None:
    memory = open_vault({f"m{i:04}.md": "kiln" for i in range(1100)})
    run_index(memory)
    (memory.vault / "a.md").write_text("kiln")
    run_index(memory)
    compare_with_a_rebuild(memory, tmp_path / "fresh", canon)


@pytest.mark.parametrize("rule_file", ["app.json", "templates.json"])
def test_a_changed_rule_of_obsidians_own_settings_is_taken_in(
    rule_file: str, open_vault: Open, run_index: Index, tmp_path: Path, canon: Canon
) -> None:
    notes = {"Drafts/d.md": "kiln [[k]]", "k.md": "glaze [[d]]"}
    memory = open_vault(notes)
    run_index(memory)
    rules = {
        "app.json": '{"userIgnoreFilters": ["Drafts/"]}',
        "templates.json": '{"folder": "Drafts"}',
    }
    (memory.vault / ".obsidian").mkdir()
    (memory.vault / ".obsidian" / rule_file).write_text(rules[rule_file])
    run_index(memory)
    compare_with_a_rebuild(memory, tmp_path / "fresh", canon)
    (memory.vault / ".obsidian" / rule_file).unlink()
    run_index(memory)
    compare_with_a_rebuild(memory, tmp_path / "fresh", canon)
