"""The edited vault: a person changes notes in every way there is, and it is indexed in every way.

After each run that looked at everything that changed, the index is compared with one made from
nothing: every row, every word, every vector, and the answers to questions.
"""

import itertools
import os
import shutil
import signal
import time
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import apsw
from canon import canon_lines
from edited_texts import (
    ATTACHMENTS,
    CONFIGS,
    FOLDERS,
    HALF_WRITTEN,
    NAMESAKES,
    OBSIDIAN,
    PLACES,
    QUERIES,
    TEXTS,
    nfd,
)
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from lanes import by_lane
from made_up_vectors import MadeUpEmbedder

from vaultmem.index.requests import ask_for
from vaultmem.index.update import stored_files
from vaultmem.model.errors import VaultEmpty, VaultUnreadable
from vaultmem.service import indexing
from vaultmem.service.application import Clock, Memory, Progress, open_memory
from vaultmem.service.embed import embed_waiting
from vaultmem.service.indexing import Bounds, take_in
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchReply, SearchRequest, search
from vaultmem.service.operations.secrets import AllowRequest, allow_secret
from vaultmem.service.settings import CONFIG_PATH, load_settings

# Where the clock stands: it is wrong, it is right, or no file is young by it any more.
DAY_NS = 86_400 * 10**9
LONG_AGO_NS = 1_000_000_000 * 10**9
FAR_AHEAD_NS = 47_847 * DAY_NS  # in 2101
CLOCKS = {"1969": -DAY_NS, "2001": LONG_AGO_NS, "right": None, "2101": FAR_AHEAD_NS}
# When files say they were changed: days since 1970.
FILE_DAYS = (-365, -1, 0, 18_262, 20_000, 20_001, 47_482)

# So low that a handful of notes is a burst, and takes several portions and commits.
BURSTS = {
    "MANY_REWRITTEN": 2,
    "MANY_REWRITTEN_SHARE": 0.0,
    "FEW_NOTES": 1,
    "BATCH_NOTES": 3,
    "AHEAD_NOTES": 2,
}
# Runs in small shares that go on for longer than this do not get anywhere.
MOST_SHARES = 300
MOST_SHOWN = 20

ANCHOR = "anchor.md"

places = st.sampled_from(PLACES)
texts = st.sampled_from(TEXTS)
folders = st.sampled_from(FOLDERS)
picks = st.integers(0, 40)
who = st.integers(0, 1)
# What follows upon a run that did not get everywhere: nothing, or one that does.
nexts = st.sampled_from(["", "index", "index", "heard", "search", "shares"])
few_queries = st.lists(st.sampled_from(QUERIES), min_size=2, max_size=3, unique=True)

# What a file system reports changes of: path -> size, times and inode.
Listing = dict[str, tuple[int, ...]]
# What an edit is made of, where it is drawn before it is known what there will be to edit.
EDITS = ("write", "append", "delete", "rename", "swap", "move_folder")
Edit = tuple[str, int, int, str, str, str]
edits = st.tuples(st.sampled_from(EDITS), picks, picks, places, texts, folders)


def differences(kept: Sequence[str], fresh: Sequence[str]) -> list[str]:
    """What stands in one of two canons alone, more often than in the other."""
    a, b = Counter(kept), Counter(fresh)
    return [
        *(f"kept only: {line}" for line in sorted((a - b).elements())),
        *(f"anew only: {line}" for line in sorted((b - a).elements())),
    ]


def answer(memory: Memory, query: str) -> tuple[object, ...]:
    """All that is said in answer to a question, but for how the vault is reached."""
    reply = search(memory, SearchRequest(query))
    return reply.hits, reply.repaired, reply.left_out, reply.mode


class EditedVault(RuleBasedStateMachine):
    """One life of a small vault, and of two processes that index it into one sidecar."""

    base: ClassVar[Path]  # where vaults are made
    embeds: ClassVar[bool] = False  # whether passages get vectors, too
    tally: ClassVar[Counter[str]]  # what was done, over all lives
    numbers: ClassVar[Iterator[int]]

    def __init__(self) -> None:
        super().__init__()
        self.tally["lives"] += 1
        self.folder = self.base / f"{next(self.numbers)}"
        self.vault = self.folder / "vault"
        self.vault.mkdir(parents=True)
        (self.vault / ANCHOR).write_text("An anchor that is always there: [[alpha]] [[gamma]]\n")
        self.now_ns: int | None = None
        self.was_ahead = False
        self.elapsed, self.tick = 0.0, 0.0
        self.constants = {name: getattr(indexing, name) for name in BURSTS}
        self.wishes = {"VAULTMEM_SIDECAR_JOURNAL": "auto"}
        self.memories: list[Memory] = []
        # What was there when the index last knew of everything, and by which rules.
        self.known: Listing = {}
        self.known_rules: object = None
        # What was there at any time since, where somebody may have looked.
        self.passed: set[tuple[str, tuple[int, ...]]] = set()

    @initialize(
        clock=st.sampled_from(sorted(CLOCKS)),
        bursts=st.booleans(),
        journal=st.sampled_from(["auto", "auto", "delete"]),
        first=st.lists(st.tuples(places, texts), min_size=4, max_size=9),
    )
    def begin(self, clock: str, bursts: bool, journal: str, first: list[tuple[str, str]]) -> None:
        self.set_clock(clock)
        self.wishes["VAULTMEM_SIDECAR_JOURNAL"] = journal
        for name, value in BURSTS.items() if bursts else ():
            setattr(indexing, name, value)
        for place, text in first:
            self.write(place, text)
        self.memories = [self.opened(), self.opened()]
        self.run(0)

    def teardown(self) -> None:
        try:
            if self.memories:
                for number in (0, 1):
                    self.reload(number)
                    self.run(number)
                self.compare(0, by_lane(fast=QUERIES[self.tally["lives"] % 3 :: 3], slow=QUERIES))
        finally:
            for memory in self.memories:
                memory.close()
            for name, value in self.constants.items():
                setattr(indexing, name, value)
            shutil.rmtree(self.folder)

    # The vault's processes

    def opened(self) -> Memory:
        """A process that uses the vault by the settings of now."""
        environment = {
            "VAULTMEM_EMBEDDER_NAME": "minilm" if self.embeds else "none",
            "VAULTMEM_STATE_DIR": str(self.folder / "state"),
            **self.wishes,
        }
        settings = load_settings(self.vault, self.folder / "cache", environment=environment)
        memory = open_memory(settings, clock=Clock(now_ns=self.now, elapsed=self.time_that_passes))
        return self.equipped(memory)

    def equipped(self, memory: Memory) -> Memory:
        if self.embeds:
            memory.embedders.setdefault("minilm", MadeUpEmbedder())
        return memory

    def now(self) -> int:
        return time.time_ns() if self.now_ns is None else self.now_ns

    def time_that_passes(self) -> float:
        self.elapsed += self.tick
        return self.elapsed

    @contextmanager
    def hurry(self, questions: int) -> Iterator[Bounds]:
        """Bounds within which the time can be asked for so many times."""
        self.tick = 1.0
        try:
            yield Bounds(seconds=questions)
        finally:
            self.tick = 0.0

    def rules_of(self, memory: Memory) -> object:
        """All that decides, besides the notes, what the index of a process should hold."""
        state = memory.settings.state_folder / "secrets.json"
        return (
            memory.settings.values,
            [self.text_of(f".obsidian/{name}") for name in OBSIDIAN],
            state.read_text() if state.exists() else None,
        )

    def run(self, number: int, *, rebuild: bool = False) -> None:
        """Look at everything, and take it all in."""
        memory = self.equipped(self.memories[number])
        seen = self.listing()
        reply = index(memory, IndexRequest(rebuild=rebuild))
        assert reply.embedder is None or not reply.embedder.problem
        self.tally["runs"] += 1
        self.all_is_known(memory, seen)

    def all_is_known(self, memory: Memory, seen: Listing) -> None:
        self.known, self.known_rules = seen, self.rules_of(memory)
        self.passed = set(seen.items())

    def heard(self) -> frozenset[str]:
        """The paths at which something was changed since the index last knew of everything."""
        now, known = set(self.listing().items()), set(self.known.items())
        return frozenset(path for path, _ in (self.passed - known) | (known - now))

    def listing(self) -> Listing:
        """What a file system reports changes of: path -> size, times and inode."""
        found: Listing = {}
        for root, below, files in os.walk(self.vault):
            below[:] = [name for name in below if not name.startswith(".")]
            for name in files:
                path = os.path.join(root, name)
                state = os.lstat(path)
                found[os.path.relpath(path, self.vault)] = (
                    *(state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino),
                )
        self.passed |= set(found.items())
        return found

    # Comparing

    def compare(self, number: int, queries: Sequence[str]) -> None:
        """The sidecar and its answers are those of an index made from nothing."""
        memory = self.equipped(self.memories[number])
        settings = replace(memory.settings, sidecar_folder=self.folder / "fresh")
        fresh = self.equipped(open_memory(settings, clock=memory.clock))
        try:
            index(fresh, IndexRequest(rebuild=True))
            found = differences(canon_lines(memory), canon_lines(fresh))
            assert not found, "\n".join(found[:MOST_SHOWN])
            self.names_are_those_of(memory)
            for query in queries:
                kept, anew = answer(memory, query), answer(fresh, query)
                assert kept == anew, f"{query}\n{kept}\n{anew}"
        finally:
            fresh.close()
        self.tally["comparisons"] += 1
        self.tally["questions"] += len(queries)

    def names_are_those_of(self, memory: Memory) -> None:
        """What a process remembers of the vault's files is what the index holds."""
        sidecar = memory.open_sidecar()
        assert sidecar is not None
        if memory.names is not None and memory.names[0] == sidecar.state():
            rows = sidecar.connection.execute(
                "SELECT path FROM note UNION ALL SELECT path FROM file"
            )
            assert sorted(memory.names[1]) == sorted(path for (path,) in rows)

    def go_on(self, upcoming: str, number: int) -> None:
        """The next run, which mends what the one before left."""
        some = [QUERIES[self.tally["comparisons"] % len(QUERIES)]]
        if upcoming == "index":
            self.index_everything(number, some)
        elif upcoming == "heard":
            self.index_what_was_heard_of(number, some, False)
        elif upcoming == "search":
            self.search_which_takes_in(number, some)
        elif upcoming == "shares":
            self.index_in_small_shares(number, 2, some)

    # Ways to index

    @rule(number=who, queries=few_queries)
    def index_everything(self, number: int, queries: list[str]) -> None:
        self.run(number)
        self.compare(number, queries)

    @rule(number=who, queries=few_queries)
    def index_by_one_and_ask_the_other(self, number: int, queries: list[str]) -> None:
        self.run(number)
        if self.rules_of(self.memories[0]) == self.rules_of(self.memories[1]):
            self.compare(1 - number, queries)

    @rule(number=who, queries=few_queries, singly=st.booleans())
    def index_what_was_heard_of(self, number: int, queries: list[str], singly: bool) -> None:
        """As a watcher does. singly: each change by itself, and then all of them."""
        memory = self.memories[number]
        if self.known_rules != self.rules_of(memory):
            return self.index_everything(number, queries)  # as it does, too
        seen = self.listing()
        heard = self.heard()
        for path in sorted(heard) if singly else ():
            take_in(memory, only={path})
        taken = take_in(memory, only=heard)  # (a look at one end of a move sees no move)
        assert not taken.missing
        self.tally["told runs"] += 1
        self.embed(memory)
        self.all_is_known(memory, seen)
        return self.compare(number, queries)

    @rule(number=who, queries=few_queries)
    def search_which_takes_in(self, number: int, queries: list[str]) -> None:
        memory = self.equipped(self.memories[number])
        seen = self.listing()
        reply: SearchReply = search(memory, SearchRequest("kiln", mode="keyword"))
        assert reply.degraded == (), reply.degraded
        self.tally["searches that take in"] += 1
        self.all_is_known(memory, seen)
        self.embed(memory)
        self.compare(number, queries)

    def embed(self, memory: Memory) -> None:
        with self.equipped(memory).guarded():
            assert not embed_waiting(memory).problem

    @rule(number=who, questions=st.integers(0, 12), upcoming=nexts)
    def index_in_a_hurry(self, number: int, questions: int, upcoming: str) -> None:
        self.listing()
        with self.hurry(questions) as bounds:
            take_in(self.memories[number], bounds=bounds)
        self.tally["bounded runs"] += 1
        self.go_on(upcoming, number)

    @rule(number=who, questions=st.integers(0, 6), queries=few_queries)
    def index_in_small_shares(self, number: int, questions: int, queries: list[str]) -> None:
        """One bounded run after another gets everywhere, and then has nothing to do."""
        memory = self.memories[number]
        seen = self.listing()
        # Each folder has had its turn when so many runs have found nothing.
        enough = 3 + sum(1 for place in self.vault.rglob("*") if place.is_dir())
        idle = 0
        for share in itertools.count():
            with self.hurry(questions) as bounds:
                taken = take_in(memory, bounds=bounds)
            idle = 0 if taken.left or taken.changed_something else idle + 1
            if idle > enough:
                break
            assert share < MOST_SHARES, taken
        self.tally["runs in shares"] += 1
        self.embed(memory)
        self.all_is_known(memory, seen)
        self.compare(number, queries)

    @rule(number=who, statement=st.integers(1, 150), upcoming=nexts)
    def be_interrupted(self, number: int, statement: int, upcoming: str) -> None:
        """Somebody presses Ctrl-C before some statement of SQL."""
        self.listing()
        memory = self.memories[number]
        memory.close()
        statements = itertools.count(1)

        def stop(*_: object) -> bool:
            if next(statements) == statement:
                raise KeyboardInterrupt
            return True

        with statements_go_by(stop), suppress(KeyboardInterrupt):
            take_in(memory)
        memory.close()
        self.tally["interrupted"] += next(statements) > statement
        self.go_on(upcoming, number)

    @precondition(lambda self: hasattr(os, "fork"))
    @rule(number=who, statement=st.integers(1, 150), upcoming=nexts)
    def be_killed(self, number: int, statement: int, upcoming: str) -> None:
        """A process ends before some statement of SQL, and cleans nothing up."""
        self.listing()
        for memory in self.memories:
            memory.close()  # nothing of SQLite's goes along
        statements = itertools.count(1)

        def kill(*_: object) -> bool:
            if next(statements) == statement:
                os.kill(os.getpid(), signal.SIGKILL)
            return True

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
            child = os.fork()
        if child == 0:
            try:
                with statements_go_by(kill):
                    take_in(self.memories[number])
                os._exit(0)
            finally:
                os._exit(1)
        _, ended = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(ended)
        assert code in (0, -signal.SIGKILL)
        self.tally["killed"] += code != 0
        self.go_on(upcoming, number)

    @rule(number=who, edit=edits, report=st.integers(0, 6), upcoming=nexts)
    def be_edited_while_it_is_indexed(
        self, number: int, edit: Edit, report: int, upcoming: str
    ) -> None:
        memory = self.memories[number]
        reports = itertools.count()

        def meanwhile(stage: str, done: int, total: int) -> None:
            if next(reports) == report:
                self.edit(edit)
                self.listing()
                self.tally["edited meanwhile"] += 1

        self.listing()
        memory.progress = Progress(meanwhile)
        try:
            take_in(memory)
        finally:
            memory.progress = Progress()
        self.go_on(upcoming, number)

    @rule(number=who, pick=picks, upcoming=nexts)
    def index_while_a_folder_cannot_be_listed(self, number: int, pick: int, upcoming: str) -> None:
        """What is known of it stays, whatever else changes."""
        memory = self.memories[number]
        place = self.folder_of(pick)
        folder = str(place.relative_to(self.vault))
        before = self.stored_below(memory, folder)
        self.listing()
        with unlisted(place) as refused:
            take_in(memory)
        if before is not None:
            gone = before - (self.stored_below(memory, folder) or set())
            assert not (place.is_dir() and refused and gone)
        self.tally["unlisted"] += bool(refused)
        self.passed.add((folder, ()))  # of a change of its permissions is heard, too
        self.go_on(upcoming, number)

    def stored_below(self, memory: Memory, folder: str) -> set[str] | None:
        """Notes of a folder that the index holds; None where there is no index to go on with."""
        sidecar = memory.open_sidecar()
        if sidecar is None:
            return None
        return set(stored_files(sidecar, [unicodedata.normalize("NFC", folder)]))

    @rule(number=who, mount_point=st.booleans(), upcoming=nexts)
    def index_while_the_vault_is_away(self, number: int, mount_point: bool, upcoming: str) -> None:
        memory = self.memories[number]
        sidecar = memory.open_sidecar()
        before = None if sidecar is None else set(stored_files(sidecar))
        self.vault.rename(self.folder / "away")
        if mount_point:
            self.vault.mkdir()
        try:
            take_in(memory)
            raise AssertionError("An empty vault was taken for one.")
        except (VaultEmpty, VaultUnreadable):
            pass
        finally:
            if mount_point:
                self.vault.rmdir()
            (self.folder / "away").rename(self.vault)
        sidecar = memory.open_sidecar()
        assert before is None or (sidecar is not None and set(stored_files(sidecar)) == before)
        self.go_on(upcoming, number)

    @rule(number=who, pick=picks, upcoming=nexts)
    def index_while_a_service_keeps_a_note(self, number: int, pick: int, upcoming: str) -> None:
        file = self.note(pick)
        if file.name == ANCHOR:
            return
        stand_in = file.with_name(f"{file.name}.nextcloud")
        file.rename(stand_in)
        self.listing()
        take_in(self.memories[number])
        stand_in.rename(file)
        # What is said of a folder as a whole is renewed by a look at the whole of it.
        above = file.parent.relative_to(self.vault)
        if above.parts:
            self.passed.add((str(above), ()))
        else:
            self.known_rules = None
        self.go_on(upcoming, number)

    @rule(number=who, upcoming=nexts)
    def index_while_settings_are_half_written(self, number: int, upcoming: str) -> None:
        before = self.text_of(".obsidian/app.json")
        self.put(".obsidian/app.json", HALF_WRITTEN)
        take_in(self.memories[number])
        self.put(".obsidian/app.json", before)
        self.go_on(upcoming, number)

    @rule(number=who, pick=picks)
    def ask_for_a_note(self, number: int, pick: int) -> None:
        """As a search does that met a stale one."""
        memory = self.memories[number]
        sidecar = memory.open_sidecar()
        if sidecar is not None:
            path = str(self.note(pick).relative_to(self.vault))
            assert ask_for(sidecar, [path], self.now())

    @rule(number=who, queries=few_queries)
    def rebuild(self, number: int, queries: list[str]) -> None:
        self.run(number, rebuild=True)
        self.compare(number, queries)

    @rule(number=who)
    def open_anew(self, number: int) -> None:
        self.memories[number].close()

    @rule(number=who)
    def reload(self, number: int) -> None:
        """A process ends, and another one goes by the settings as they are now."""
        self.memories[number].close()
        self.memories[number] = self.opened()

    @rule(vectors_too=st.booleans())
    def lose_the_sidecar(self, vectors_too: bool) -> None:
        folder = self.memories[0].folder
        for file in folder.glob("*" if vectors_too else "index.db*"):
            file.unlink()
        self.known_rules = None

    @rule(clock=st.sampled_from(sorted(CLOCKS)))
    def set_clock(self, clock: str) -> None:
        self.now_ns = CLOCKS[clock]
        self.was_ahead |= clock == "2101"

    # What a person does

    def note(self, pick: int) -> Path:
        """One of the notes, canvases and drawings."""
        return self.one_of(pick, (".md", ".canvas"))

    def one_of(self, pick: int, endings: tuple[str, ...] = ("",)) -> Path:
        found = [self.vault / path for path in sorted(self.listing()) if path.endswith(endings)]
        return found[pick % len(found)]

    def folder_of(self, pick: int) -> Path:
        """One of the folders."""
        found = [self.vault / folder for folder in FOLDERS if (self.vault / folder).is_dir()]
        return found[pick % len(found)] if found else self.vault / "none"

    def put(self, path: str, text: str | None) -> None:
        """Write a file of settings; None for none."""
        file = self.vault / path
        if text is None:
            file.unlink(missing_ok=True)
        else:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)

    def text_of(self, path: str) -> str | None:
        file = self.vault / path
        return file.read_text() if file.exists() else None

    def save(self, file: Path, data: bytes) -> None:
        """Write a note.

        Where no file is young, by a clock that is ahead, until the file system's own clock has
        ticked: the time of the last change of state is all that betrays some edits then.
        """
        before = file.stat().st_ctime_ns if file.exists() else 0
        file.write_bytes(data)
        while self.was_ahead and file.stat().st_ctime_ns == before:
            file.write_bytes(data)

    def room_for(self, file: Path) -> bool:
        """Make the folders of a file; False where something else is in the way."""
        for folder in reversed(file.relative_to(self.vault).parents):
            here = self.vault / folder
            if here.exists() and not here.is_dir():
                return False
            here.mkdir(exist_ok=True)
        return not file.is_dir()

    def move(self, old: Path, new: Path) -> None:
        if old.name != ANCHOR and self.room_for(new) and not os.path.lexists(new):
            old.rename(new)

    def edit(self, edit: Edit) -> None:
        """One of EDITS; all have been drawn what any of them takes."""
        name, first, second, place, text, folder = edit
        if name == "write":
            self.write(place, text)
        elif name == "append":
            self.append(first, text)
        elif name == "delete":
            self.delete(first, False)
        elif name == "rename":
            self.rename(first, place)
        elif name == "swap":
            self.swap(first, second)
        else:
            self.move_folder(first, folder)

    @rule(place=places, text=texts)
    def write(self, place: str, text: str) -> None:
        file = self.vault / place
        if self.room_for(file):
            self.save(file, text.encode())

    @rule(pick=picks, text=texts)
    def append(self, pick: int, text: str) -> None:
        file = self.note(pick)
        self.save(file, file.read_bytes() + b"\nAppended.\n" + text.encode())

    @rule(pick=picks, share=st.integers(0, 9))
    def truncate(self, pick: int, share: int) -> None:
        file = self.note(pick)
        data = file.read_bytes()
        self.save(file, data[: len(data) * share // 10])

    @rule(pick=picks, trash=st.booleans())
    def delete(self, pick: int, trash: bool) -> None:
        """trash: as Obsidian does, into a hidden folder."""
        file = self.note(pick)
        if file.name == ANCHOR:
            return
        if trash:
            (self.vault / ".trash").mkdir(exist_ok=True)
            file.replace(self.vault / ".trash" / file.name)
        else:
            file.unlink()

    @rule(pick=picks, place=places)
    def restore(self, pick: int, place: str) -> None:
        thrown = sorted((self.vault / ".trash").glob("*"))
        if thrown:
            self.move(thrown[pick % len(thrown)], self.vault / place)

    @rule(pick=picks, place=places)
    def rename(self, pick: int, place: str) -> None:
        self.move(self.note(pick), self.vault / place)

    @rule(pick=picks, place=places, text=texts)
    def rename_and_edit(self, pick: int, place: str, text: str) -> None:
        self.rename(pick, place)
        self.append(pick, text)

    @rule(pick=picks, place=places)
    def copy(self, pick: int, place: str) -> None:
        file = self.vault / place
        if self.room_for(file):
            self.save(file, self.note(pick).read_bytes())

    @rule(pick=picks)
    def rename_by_case(self, pick: int) -> None:
        file = self.note(pick)
        self.move(file, file.with_name(file.stem.swapcase() + file.suffix))

    @rule(pick=picks)
    def compose_otherwise(self, pick: int) -> None:
        """The same name with its accents apart, or put together again."""
        file = self.note(pick)
        apart = nfd(file.name)
        name = apart if apart != file.name else unicodedata.normalize("NFC", apart)
        self.move(file, file.with_name(name))

    @rule(pick=picks, new=folders)
    def move_folder(self, pick: int, new: str) -> None:
        """To another name, or into the folder of that name."""
        a, b = self.folder_of(pick), self.vault / new
        b = b / a.name if b.is_dir() else b
        if a.is_dir() and not b.is_relative_to(a) and self.room_for(b):
            self.move(a, b)

    @rule(pick=picks)
    def rename_folder_by_case(self, pick: int) -> None:
        place = self.folder_of(pick)
        if place.is_dir():
            self.move(place, place.with_name(place.name.swapcase()))

    @rule(pick=picks)
    def empty_folder(self, pick: int) -> None:
        place = self.folder_of(pick)
        if place.is_dir():
            shutil.rmtree(place)
            place.mkdir()

    @rule(pick=picks)
    def take_folder_out(self, pick: int) -> None:
        place = self.folder_of(pick)
        if place.is_dir():
            shutil.rmtree(self.folder / "out", ignore_errors=True)
            place.rename(self.folder / "out")

    @rule(folder=folders)
    def bring_folder_in(self, folder: str) -> None:
        out, place = self.folder / "out", self.vault / folder
        if out.exists() and self.room_for(place) and not os.path.lexists(place):
            out.rename(place)

    @rule(first=picks, second=picks)
    def swap(self, first: int, second: int) -> None:
        a, b, spare = self.note(first), self.note(second), self.folder / "spare"
        if a != b and ANCHOR not in (a.name, b.name):
            a.rename(spare)
            b.rename(a)
            spare.rename(b)

    @rule(pick=picks, day=st.sampled_from(FILE_DAYS))
    def touch(self, pick: int, day: int) -> None:
        """A file says it was changed on another day; some say so of years that are none."""
        os.utime(self.note(pick), (day * 86_400 + 43_200,) * 2)

    @rule(pick=picks)
    def edit_behind_the_clock(self, pick: int) -> None:
        """Another text of the same size, with the old time of modification put back."""
        file = self.note(pick)
        before = file.stat()
        self.save(file, file.read_bytes().translate(bytes.maketrans(b"aeklz", b"eakzl")))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    @rule(pick=picks, place=places, text=texts)
    def write_over_by_rename(self, pick: int, place: str, text: str) -> None:
        """As most editors save: another file takes the note's place."""
        spare = self.folder / "spare"
        spare.write_text(text)
        spare.replace(self.note(pick))

    @rule(name=st.sampled_from(ATTACHMENTS))
    def add_or_remove_attachment(self, name: str) -> None:
        file = self.vault / name
        if file.is_file():
            file.unlink()
        elif self.room_for(file):
            file.write_bytes(b"\x89PNG")

    @rule(pick=picks, name=st.sampled_from(ATTACHMENTS))
    def make_a_note_an_attachment(self, pick: int, name: str) -> None:
        self.move(self.note(pick), self.vault / name)

    @rule(name=st.sampled_from(NAMESAKES), text=texts)
    def add_or_remove_a_namesake(self, name: str, text: str) -> None:
        file = self.vault / name
        if file.is_file():
            file.unlink()
        elif self.room_for(file):
            self.save(file, text.encode())

    # Settings

    @rule(config=st.sampled_from(CONFIGS))
    def change_settings(self, config: str) -> None:
        self.put(CONFIG_PATH, config)

    @rule(file=st.sampled_from(sorted(OBSIDIAN)), pick=picks)
    def change_obsidians_settings(self, file: str, pick: int) -> None:
        wanted = OBSIDIAN[file]
        self.put(f".obsidian/{file}", wanted[pick % len(wanted)])

    @rule(number=who, pick=picks, revoke=st.booleans(), queries=few_queries)
    def allow_a_secret(self, number: int, pick: int, revoke: bool, queries: list[str]) -> None:
        memory = self.equipped(self.memories[number])
        self.run(number)
        with memory.guarded():
            found = sorted({s.fingerprint for s in memory.lookup().secrets()} - {""})
        if found:
            allow_secret(memory, AllowRequest((found[pick % len(found)],), revoke=revoke))
            self.tally["secrets allowed"] += 1
            self.embed(memory)
            self.all_is_known(memory, self.listing())
            self.compare(number, queries)

    @rule()
    def lose_what_was_allowed(self) -> None:
        shutil.rmtree(self.folder / "state", ignore_errors=True)


@contextmanager
def statements_go_by(before: Callable[..., bool]) -> Iterator[None]:
    """Between these, `before` is called before each statement of every new connection."""

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = before

    apsw.connection_hooks.append(watch)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(watch)


@contextmanager
def unlisted(folder: Path) -> Iterator[list[str]]:
    """Between these, the system lists no such folder; a list of the refusals."""
    real, refused = os.scandir, []

    def scandir(path: str) -> Any:
        if os.fspath(path) == str(folder):
            refused.append(str(path))
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    os.scandir = scandir  # type: ignore[assignment]
    try:
        yield refused
    finally:
        os.scandir = real
