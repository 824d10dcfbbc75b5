"""Taking in what is said to have changed, and nothing else, equals a rebuild."""

import itertools
import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from vaultmem.index.requests import ask_for, requested
from vaultmem.index.store import Sidecar
from vaultmem.index.update import stored_files
from vaultmem.service.application import Clock, Memory, Progress, open_memory
from vaultmem.service.indexing import Bounds, Taken, take_in
from vaultmem.service.settings import load_settings
from vaultmem.vault.links import VaultNames

Open = Callable[..., Memory]
Canon = Callable[[Memory], list[str]]

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="other systems change or refuse such names themselves"
)


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


NOT_TEXT = os.fsdecode(b"caf\xe9")
NAMES = (
    *("alpha.md", "beta.md", "Beta.md", "gamma.md", "é.md", nfd("é.md"), "a b.md", "a\u00a0b.md"),
    *("gamma", "ΟΔΟΣ.md", "pot.png", "é.png", nfd("é.png"), "board.canvas", "odd#.md"),
    *("alpha (conflicted copy 2026-01-02).md", nfd("ö#.md"), f"{NOT_TEXT}.md", "alpha.md~"),
)
FOLDERS = ("", "one", "two", "two/deep", "é", nfd("é"), "private", "One", "gamma", NOT_TEXT)
LINKED = ("alpha", "beta", "gamma", "é", "a b", "ΟΔΟΣ", "pot.png", "é.png", "board.canvas", "odd#")
TEXTS = (
    "",
    "plain words about kilns\n",
    " ".join(f"[[{name}]]" for name in LINKED),
    "[[one/gamma]] [[two/deep/é]] ![[pot.png]] [up](../alpha.md) [[/beta]] [[./gamma]] [[é/é]]\n",
    "---\nid: note-one\naliases: [Clay]\ntags: [raku]\n---\n# Clay\n\n[[alpha]] [[private/beta]]\n",
    "---\nid: note-one\n---\nThe same identity, other words: wheel [[é]].\n",
    "---\nbroken: [yaml\n---\nA body [[nowhere]] [[gamma.md]]\n",
    "# A\n\nfirst kiln\n\n# B\n\nsecond glaze [[#A]] [[alpha#B]]\n" * 3,
    "x" * 3000,
)
MOST_BYTES = 2000

SETTINGS = {
    "VAULTMEM_EMBEDDER_NAME": "none",
    "VAULTMEM_SCAN_MAX_NOTE_BYTES": str(MOST_BYTES),
    "VAULTMEM_SCAN_IGNORE": "private",
}

names = st.sampled_from(NAMES)
folders = st.sampled_from(FOLDERS)
paths = st.tuples(folders, names).map(lambda pair: "/".join(filter(None, pair)))
texts = st.sampled_from(TEXTS)
picks = st.integers(0, 60)


def write(file: Path, data: bytes) -> None:
    """Write until the file system's clock has ticked: ctime is all that betrays some edits."""
    before = os.lstat(file).st_ctime_ns if os.path.lexists(file) else 0
    file.write_bytes(data)
    while os.lstat(file).st_ctime_ns == before:
        file.write_bytes(data)


def differences(kept: Iterable[str], fresh: Iterable[str]) -> list[str]:
    a, b = set(kept), set(fresh)
    return [*(f"kept only: {row}" for row in sorted(a - b)),
            *(f"anew only: {row}" for row in sorted(b - a))]  # fmt: skip


class StoppedInTheMidst(Exception):
    """Somebody ended a run."""


@settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
class ToldVault(RuleBasedStateMachine):
    """A vault is edited, and told of: by whoever does so, to one of two that index it."""

    base: Path
    canon: Canon
    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.folder = self.base / str(next(self.numbers))
        self.vault = self.folder / "vault"
        self.vault.mkdir(parents=True)
        (self.vault / "anchor.md").write_text(f"Always there: {TEXTS[2]}\n")
        self.now_ns = 10**18
        self.told: set[str] = set()
        self.memories = [self.opened("kept"), self.opened("kept")]
        take_in(self.memories[0])

    def opened(self, cache: str) -> Memory:
        clock = Clock(now_ns=lambda: self.now_ns, elapsed=lambda: 0.0)
        values = {**SETTINGS, "VAULTMEM_STATE_DIR": str(self.folder / "state")}
        chosen = load_settings(self.vault, self.folder / cache, environment=values)
        return open_memory(chosen, clock=clock)

    def teardown(self) -> None:
        self.take_in(0)
        self.compare()
        for memory in self.memories:
            memory.close()
        shutil.rmtree(self.folder)

    def compare(self) -> None:
        fresh = self.opened("fresh")
        try:
            take_in(fresh, rebuild=True)
            for memory in self.memories:
                assert differences(self.canon(memory), self.canon(fresh)) == []
                assert_names_are_those_of(memory)
        finally:
            fresh.close()

    # What is told

    def tell(self, *files: Path) -> None:
        self.told |= {"/".join(file.relative_to(self.vault).parts) for file in files}

    @rule(who=st.integers(0, 1))
    def take_in(self, who: int) -> None:
        taken = take_in(self.memories[who], only=frozenset(self.told))
        assert not taken.left
        assert not taken.missing
        self.told.clear()

    @precondition(lambda self: not self.told)
    @rule()
    def look_at_it(self) -> None:
        self.compare()

    @precondition(lambda self: self.told)
    @rule(who=st.integers(0, 1))
    def take_in_one_by_one(self, who: int) -> None:
        for path in sorted(self.told):
            take_in(self.memories[who], only={path})
        self.take_in(who)  # a look at one end of a move sees no move

    @rule(who=st.integers(0, 1))
    def take_in_in_a_hurry(self, who: int) -> None:
        """As a search does. What time did not suffice for is told again."""
        taken = take_in(self.memories[who], only=frozenset(self.told), bounds=Bounds(seconds=0.0))
        if not taken.left and not taken.cut_short:
            self.told.clear()

    @rule(who=st.integers(0, 1), after=st.integers(1, 4))
    def be_interrupted(self, who: int, after: int) -> None:
        reports = itertools.count(1)

        def report(stage: str, done: int, total: int) -> None:
            if next(reports) >= after:
                raise StoppedInTheMidst

        memory = self.memories[who]
        memory.progress = Progress(report)
        try:
            take_in(memory, only=frozenset(self.told))
            self.told.clear()
        except StoppedInTheMidst:
            pass
        finally:
            memory.progress = Progress()

    @rule(who=st.integers(0, 1))
    def look_at_everything(self, who: int) -> None:
        take_in(self.memories[who])
        self.told.clear()

    @rule(who=st.integers(0, 1))
    def open_anew(self, who: int) -> None:
        self.memories[who].close()

    @rule()
    def let_time_pass(self) -> None:
        """From here on no file is young: size, times and inode alone decide who is read."""
        self.now_ns = 4 * 10**18

    # What is done

    def file(self, pick: int) -> Path:
        found = sorted(
            file
            for file in self.vault.rglob("*")
            if file.name != "anchor.md" and not file.is_symlink() and file.is_file()
        )
        return found[pick % len(found)] if found else self.vault / "anchor.md"

    def room_for(self, file: Path) -> bool:
        """Make the folders of a file; False where something else is in the way."""
        for folder in reversed(file.relative_to(self.vault).parents):
            here = self.vault / folder
            if here.is_symlink() or (os.path.lexists(here) and not here.is_dir()):
                return False
            here.mkdir(exist_ok=True)
        return True

    @rule(path=paths, text=texts)
    def write(self, path: str, text: str) -> None:
        file = self.vault / path
        if self.room_for(file) and not file.is_dir() and not file.is_symlink():
            write(file, text.encode())
            self.tell(file)

    @rule(pick=picks, text=texts)
    def append(self, pick: int, text: str) -> None:
        file = self.file(pick)
        write(file, file.read_bytes() + b"\nAppended [[beta]].\n" + text.encode())
        self.tell(file)

    @rule(pick=picks, share=st.integers(0, 9))
    def truncate(self, pick: int, share: int) -> None:
        file = self.file(pick)
        data = file.read_bytes()
        write(file, data[: len(data) * share // 10])
        self.tell(file)

    @rule(pick=picks)
    def delete(self, pick: int) -> None:
        file = self.file(pick)
        if file.name != "anchor.md":
            file.unlink()
            self.tell(file)

    @rule(pick=picks, path=paths)
    def rename(self, pick: int, path: str) -> None:
        old, new = self.file(pick), self.vault / path
        if old.name != "anchor.md" and self.room_for(new) and not os.path.lexists(new):
            old.rename(new)
            self.tell(old, new)

    @rule(pick=picks, path=paths, text=texts)
    def rename_and_edit(self, pick: int, path: str, text: str) -> None:
        self.rename(pick, path)
        self.append(pick, text)

    @rule(pick=picks)
    def save_by_way_of_a_copy(self, pick: int) -> None:
        file = self.file(pick)
        spare = file.with_name(".spare")
        spare.write_bytes(file.read_bytes() + b"saved [[gamma]]\n")
        os.replace(spare, file)
        self.tell(file)

    @rule(pick=picks)
    def rename_by_case(self, pick: int) -> None:
        file = self.file(pick)
        new = file.with_name(file.stem.swapcase() + file.suffix)
        if file.name != "anchor.md" and not os.path.lexists(new):
            file.rename(new)
            self.tell(file, new)

    @rule(pick=picks)
    def spell_otherwise(self, pick: int) -> None:
        """The same name with its accents apart, or put together again."""
        file = self.file(pick)
        form = nfd(file.name)
        new = file.with_name(form if form != file.name else unicodedata.normalize("NFC", form))
        if not os.path.lexists(new):
            file.rename(new)
            self.tell(file, new)

    @rule(old=folders, new=folders)
    def move_folder(self, old: str, new: str) -> None:
        a, b = self.vault / old, self.vault / new
        movable = old and new and a.is_dir() and not a.is_symlink()
        if movable and not b.is_relative_to(a) and self.room_for(b) and not os.path.lexists(b):
            a.rename(b)
            self.tell(a, b)

    @rule(folder=folders)
    def take_folder_out(self, folder: str) -> None:
        place = self.vault / folder
        if folder and place.is_dir() and not place.is_symlink():
            shutil.rmtree(self.folder / "out", ignore_errors=True)
            place.rename(self.folder / "out")
            self.tell(place)

    @rule(folder=folders)
    def bring_folder_in(self, folder: str) -> None:
        out, place = self.folder / "out", self.vault / folder
        if folder and out.exists() and self.room_for(place) and not os.path.lexists(place):
            out.rename(place)
            # As is heard of it: the folder, and each thing in it.
            self.tell(place, *place.rglob("*"))

    @rule(first=picks, second=picks)
    def swap(self, first: int, second: int) -> None:
        a, b, spare = self.file(first), self.file(second), self.folder / "spare"
        if a != b and "anchor.md" not in (a.name, b.name):
            a.rename(spare)
            b.rename(a)
            spare.rename(b)
            self.tell(a, b)

    @rule(pick=picks, days=st.integers(0, 900))
    def touch(self, pick: int, days: int) -> None:
        file = self.file(pick)
        os.utime(file, (1.7e9 + days * 86_400, 1.7e9 + days * 86_400))
        self.tell(file)

    @rule(path=paths)
    def put_or_take_a_link(self, path: str) -> None:
        file = self.vault / path
        if file.is_symlink():
            file.unlink()
            self.tell(file)
        elif self.room_for(file) and not os.path.lexists(file):
            file.symlink_to(self.folder / "nowhere")
            self.tell(file)


def assert_names_are_those_of(memory: Memory) -> None:
    """What is remembered of the vault's files is what the index holds, where it is up to date."""
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    if memory.names is not None and memory.names[0] == sidecar.state():
        assert sorted(memory.names[1]) == sorted(all_paths(sidecar))


def all_paths(sidecar: Sidecar) -> list[str]:
    rows = sidecar.connection.execute("SELECT path FROM note UNION ALL SELECT path FROM file")
    return [str(path) for (path,) in rows]


def test_taking_in_what_was_told_equals_a_rebuild_after_any_edits(
    tmp_path: Path, canon: Canon
) -> None:
    class Machine(ToldVault):
        base = tmp_path

    Machine.canon = staticmethod(canon)
    run_state_machine_as_test(Machine, settings=ToldVault.TestCase.settings)


# One at a time


def told(memory: Memory, *paths: str, **options: object) -> Taken:
    return take_in(memory, only=paths, bounds=Bounds(**options))  # type: ignore[arg-type]


@pytest.fixture
def compare(canon: Canon, open_vault: Open) -> Callable[[Memory], None]:
    def with_a_rebuild(memory: Memory) -> None:
        fresh = open_vault(name=memory.vault.name, cache="fresh", clock=memory.clock)
        take_in(fresh, rebuild=True)
        assert differences(canon(memory), canon(fresh)) == []
        assert_names_are_those_of(memory)

    return with_a_rebuild


def test_nothing_but_what_was_told_is_looked_at(open_vault: Open) -> None:
    memory = open_vault({"a.md": "one", "b.md": "two"})
    take_in(memory)
    (memory.vault / "a.md").write_text("one more")
    (memory.vault / "b.md").unlink()
    taken = told(memory, "a.md")
    assert (taken.notes.changed, taken.notes.removed, taken.notes.total) == (1, 0, 2)
    taken = told(memory, "b.md")
    assert (taken.notes.changed, taken.notes.removed, taken.notes.total) == (0, 1, 1)


@pytest.mark.parametrize("interrupted", [False, True])
def test_without_a_whole_index_everything_is_looked_at(
    open_vault: Open, interrupted: bool, compare: Callable[[Memory], None]
) -> None:
    memory = open_vault({f"{n}.md": f"[[{n + 1}]]" for n in range(5)})
    if interrupted:

        def report(stage: str, done: int, total: int) -> None:
            if done == 2:
                raise StoppedInTheMidst

        memory.progress = Progress(report)
        with pytest.raises(StoppedInTheMidst):
            take_in(memory)
        memory.progress = Progress()
    told(memory, "0.md")
    compare(memory)


def test_names_that_another_process_made_stale_are_not_gone_by(
    open_vault: Open, compare: Callable[[Memory], None]
) -> None:
    first, second = open_vault({"a.md": "[[b]] [[c]] [[p.png]]"}), open_vault()
    take_in(first)
    assert first.names is not None
    (second.vault / "b.md").write_text("b")
    (second.vault / "p.png").write_text("p")
    told(second, "b.md", "p.png")
    (first.vault / "deep").mkdir()
    (first.vault / "deep/c.md").write_text("[[b]] ![[p.png]]")
    told(first, "deep/c.md")
    compare(first)
    (second.vault / "b.md").unlink()
    told(second, "b.md")
    compare(first)
    compare(second)


def test_what_time_did_not_suffice_for_is_not_known_of_yet(
    open_vault: Open, compare: Callable[[Memory], None]
) -> None:
    """Some notes are left; what is remembered of the vault's files must not hold them twice."""
    memory = open_vault({"a.md": " ".join(f"[[n{n}]] [[p{n}.png]]" for n in range(150))})
    take_in(memory)
    paths = [f"n{n}.md" for n in range(150)] + [f"p{n}.png" for n in range(150)]
    for path in paths:
        (memory.vault / path).write_text("[[a]] [[n7]]")
    left, runs = 150, 0
    while left:
        taken = told(memory, *paths, seconds=0.0)
        assert taken.left < left
        left, runs = taken.left, runs + 1
    assert runs > 1
    compare(memory)
    assert memory.names is not None
    assert memory.names[1].meanings("n149") == ["n149.md"]


def test_notes_that_were_left_and_are_gone_by_then_leave_nothing_behind(
    open_vault: Open, compare: Callable[[Memory], None]
) -> None:
    memory = open_vault({"a.md": " ".join(f"[[n{n}]]" for n in range(150))})
    take_in(memory)
    paths = [f"n{n}.md" for n in range(150)]
    for path in paths:
        (memory.vault / path).write_text("new")
    taken = told(memory, *paths, seconds=0.0)
    assert taken.left
    for path in paths:
        (memory.vault / path).unlink()
    told(memory, *paths, accept_deletions=True)
    compare(memory)
    (memory.vault / "n149.md").write_text("again")
    told(memory, "n149.md")
    compare(memory)


def test_moves_that_time_did_not_suffice_for_are_made_by_the_next_run(
    open_vault: Open, compare: Callable[[Memory], None]
) -> None:
    links = " ".join(f"[[n{n}]] [[m{n}]]" for n in range(150))
    memory = open_vault({"a.md": links, **{f"n{n}.md": f"text {n}" for n in range(150)}})
    take_in(memory)
    paths = [f"{letter}{n}.md" for n in range(150) for letter in "nm"]
    for n in range(150):
        (memory.vault / f"n{n}.md").rename(memory.vault / f"m{n}.md")
    taken = told(memory, *paths, seconds=0.0)
    assert taken.left
    assert taken.notes.renamed + taken.left == 150
    assert memory.sidecar is not None
    assert_names_are_those_of(memory)
    assert told(memory, *paths).notes.renamed == taken.left
    compare(memory)


@pytest.mark.parametrize("also", [(), ("one.md",)])
def test_a_note_that_moves_on_while_it_is_taken_in_is_found_by_the_next_run(
    open_vault: Open, compare: Callable[[Memory], None], also: tuple[str, ...]
) -> None:
    memory = open_vault({"one.md": "kiln", "links.md": "[[one]] [[two]] [[three]]"})
    take_in(memory)
    (memory.vault / "one.md").rename(memory.vault / "two.md")

    def report(stage: str, done: int, total: int) -> None:
        if (memory.vault / "two.md").exists():
            (memory.vault / "two.md").rename(memory.vault / "three.md")

    memory.progress = Progress(report)
    told(memory, "one.md", "two.md")
    memory.progress = Progress()
    assert_names_are_those_of(memory)
    told(memory, "two.md", "three.md", *also)
    told(memory, "one.md")
    compare(memory)


def test_a_move_is_seen_where_both_ends_are_told_of(
    open_vault: Open,
    compare: Callable[[Memory], None],
    note_rows: Callable[[Memory], dict[str, int]],
) -> None:
    memory = open_vault({"one/a.md": "kiln [[b]]", "b.md": "[[a]]"})
    take_in(memory)
    before = note_rows(memory)
    (memory.vault / "one").rename(memory.vault / "two")
    taken = told(memory, "one", "two")
    assert taken.notes.renamed == 1
    assert note_rows(memory) == {"two/a.md": before["one/a.md"], "b.md": before["b.md"]}
    compare(memory)


def test_problems_of_other_places_stand_and_those_of_this_one_are_renewed(
    open_vault: Open, compare: Callable[[Memory], None]
) -> None:
    memory = open_vault(
        {"a.md": "a", "odd#.md": "o", nfd("é#.md"): "n", "x/a (conflicted copy 2026-01-02).md": "c"}
    )
    (memory.vault / "link.md").symlink_to("a.md")
    (memory.vault / f"{NOT_TEXT}.md").write_text("bytes")
    take_in(memory)
    compare(memory)
    for path in (nfd("é#.md"), "odd#.md", "link.md", f"{NOT_TEXT}.md", "x"):
        place = memory.vault / path
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        told(memory, path)
        compare(memory)


def test_a_mended_rule_of_obsidians_is_no_longer_a_problem(
    open_vault: Open, compare: Callable[[Memory], None]
) -> None:
    app = '{"userIgnoreFilters": ["/(?=x)y/", "private/"]}'
    memory = open_vault({"a.md": "a", "private/b.md": "b", ".obsidian/app.json": app})
    take_in(memory)
    compare(memory)
    (memory.vault / ".obsidian/app.json").write_text('{"userIgnoreFilters": ["private/"]}')
    told(memory, "a.md")
    compare(memory)


def test_notes_that_others_asked_for_are_looked_at_too(
    open_vault: Open, compare: Callable[[Memory], None]
) -> None:
    memory, other = open_vault({"a.md": "a", "b.md": "b", "c.md": "c"}), open_vault()
    take_in(memory)
    sidecar = other.open_sidecar()
    assert sidecar is not None
    (other.vault / "b.md").unlink()
    assert ask_for(sidecar, ["b.md"], 5)
    assert told(memory, "a.md").notes.removed == 1
    assert memory.sidecar is not None
    assert requested(memory.sidecar) == []
    compare(memory)


def test_a_note_whose_text_a_sync_service_took_away_is_kept_until_it_is_back(
    open_vault: Open, compare: Callable[[Memory], None]
) -> None:
    memory = open_vault({"a.md": "kiln [[b]]", "b.md": "[[a]]"})
    take_in(memory)
    stand_in = memory.vault / "a.md.nextcloud"
    (memory.vault / "a.md").rename(stand_in)
    for paths in (["a.md", "a.md.nextcloud"], ["a.md"], ["a.md.nextcloud"]):
        taken = told(memory, *paths)
        assert (taken.notes.total, taken.notes.removed, dict(taken.missing)) == (2, 0, {})
        assert memory.sidecar is not None
        assert sorted(all_paths(memory.sidecar)) == ["a.md", "a.md.nextcloud", "b.md"]
        assert_names_are_those_of(memory)
    stand_in.rename(memory.vault / "a.md")
    told(memory, "a.md", "a.md.nextcloud")
    compare(memory)


def test_what_is_gone_is_kept_until_that_is_believed(
    open_vault: Open, compare: Callable[[Memory], None]
) -> None:
    memory = open_vault({"a.md": "kiln", "b.md": "[[a]]", "c.md": "c"})
    take_in(memory)
    (memory.vault / "a.md").unlink()
    asked: list[set[str]] = []

    def doubt(absent: frozenset[str]) -> frozenset[str]:
        asked.append(set(absent))
        return frozenset()

    taken = told(memory, "a.md", confirmed=doubt)
    assert (asked, dict(taken.missing)) == ([{"a.md"}], {"a.md": "a.md"})
    assert taken.notes.total == 3
    assert not taken.changed_something
    told(memory, "c.md", confirmed=doubt)
    assert memory.sidecar is not None
    assert "a.md" in stored_files(memory.sidecar)
    assert told(memory, "a.md", confirmed=lambda absent: absent).notes.removed == 1
    compare(memory)


def test_a_note_that_is_missing_and_comes_back_elsewhere_was_moved(
    open_vault: Open,
    compare: Callable[[Memory], None],
    note_rows: Callable[[Memory], dict[str, int]],
) -> None:
    memory = open_vault({"a.md": "kiln", "b.md": "[[a]]"})
    take_in(memory)
    before = note_rows(memory)
    (memory.vault / "a.md").rename(memory.vault.parent / "spare")
    assert told(memory, "a.md", confirmed=lambda absent: frozenset()).missing
    (memory.vault.parent / "spare").rename(memory.vault / "moved.md")
    taken = told(memory, "a.md", "moved.md", confirmed=lambda absent: frozenset())
    assert (taken.notes.renamed, dict(taken.missing)) == (1, {})
    assert note_rows(memory)["moved.md"] == before["a.md"]
    compare(memory)


# The names of a vault's files, as they come and go

NAME_PATHS = (
    *(
        "a.md",
        "A.md",
        "a",
        "x/a.md",
        "X/a.md",
        "x/y/a.md",
        "yy/a.md",
        "x/A.MD",
        "é.md",
        nfd("é.md"),
    ),
    *("ΟΔΟΣ.md", "οδος.md", "x/ΟΔΟΣ.md", "p.png", "x/p.png", "P.png", "a.md.md", "x/İ.md", "İ.md"),
)
TARGETS = (
    *("a", "A", "a.md", "x/a", "X/A", "/a", "./a", "../a", "y/a", "é", "ΟΔΟΣ", "οδοσ", "p.png"),
    *("x/p.png", "a.md.md", "i̇", "İ", "x/y/a", "gone", ""),
)
SOURCES = ("s.md", "x/s.md", "x/y/s.md", "X/s.md", "yy/s.md")


def answers(names: VaultNames) -> list[object]:
    """All that can be asked of the names."""
    return [
        sorted(names),
        [names.candidates(target) for target in TARGETS],
        [names.meanings(target) for target in TARGETS],
        [names.resolve(target, source) for target in TARGETS for source in SOURCES],
    ]


@settings(max_examples=100, stateful_step_count=30, deadline=None)
class Names(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.there = {"s.md", "x/a.md"}
        self.names = VaultNames(sorted(self.there))

    @rule(path=st.sampled_from(NAME_PATHS))
    def come_or_go(self, path: str) -> None:
        if path in self.there:
            self.there.remove(path)
            self.names.remove(path)
        else:
            self.there.add(path)
            self.names.add(path)

    @rule(link=st.sampled_from(TARGETS), source=st.sampled_from(SOURCES))
    def ask(self, link: str, source: str) -> None:
        """What is derived is made when it is asked for, and must not outlive a change."""
        self.names.resolve(link, source)

    @rule()
    def ask_everything(self) -> None:
        assert answers(self.names) == answers(VaultNames(sorted(self.there)))

    def teardown(self) -> None:
        self.ask_everything()


TestNames = Names.TestCase
