"""Runs that are killed, what must hold afterwards, and faults that this must find.

    python scenarios.py REQUESTS ANSWERS

plays the campaigns that REQUESTS (JSON) asks for in this process, which imports everything, opens
nothing and forks a child for each run, and writes what came of them to ANSWERS.
"""

import json
import os
import random
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import apsw
from canon import canon_lines
from killer import Ended, Steps, counted_in_child, in_child, prepare, record
from made_up_vectors import MadeUpEmbedder

from vaultmem.embedding import cache as embedding_cache
from vaultmem.embedding.wordpiece import fertility
from vaultmem.index import store
from vaultmem.index.update import Entry, Written, put_note
from vaultmem.service import allowed_secrets, embed, indexing
from vaultmem.service.application import Clock, Memory, open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.refresh import INCOMPLETE
from vaultmem.service.settings import load_settings
from vaultmem.service.vault_settings import remember_settings
from vaultmem.vault.links import VaultNames

# No file is young: size, times and inode decide who is read again, so a hash that was stamped too
# early is believed.
CLOCK = Clock(now_ns=lambda: 4 * 10**18, elapsed=lambda: 0.0)

QUERIES = ("kiln glaze", "tag:pottery wheel")
# How a rollback journal begins that has to be undone: https://sqlite.org/fileformat.html
_UNDOES = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"

# Every so many kills the run after it is killed as well.
TWICE = 5

Edit = Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run to kill."""

    edit: Edit  # what happens in the vault before it
    indexed: bool = True  # whether the vault was indexed before that
    rebuild: bool = False
    embeds: bool = False
    constants: tuple[tuple[Any, str, int], ...] = ()  # (module, name, value): for a small vault


@dataclass(frozen=True, slots=True)
class Request:
    """Which runs are killed, and where."""

    scenario: str
    journal: str  # "wal" or "delete"
    seed: int
    points: int  # spread over all kinds of steps; 0 for every call
    fault: str = ""  # a row of FAULTS, for a control
    among: str = ""  # only steps of kinds that begin so
    share: tuple[int, int] = (0, 1)  # (rest, divisor): of every call those with that rest


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a request."""

    request: Request
    steps: int  # of a whole run
    missed: Mapping[str, int]  # calls of that run that change something and were not counted
    kinds: Mapping[str, int]  # kind of step -> runs that were killed there
    killed: int
    bad: Mapping[int, list[str]]  # step -> what did not hold after a kill there
    seconds: float  # of processor time, the children's included


# The vault

_WORDS = (
    *("kiln", "glaze", "clay", "wheel", "cone", "slip", "ash", "bisque", "raku", "oxide"),
    *("cobalt", "shino", "tenmoku", "celadon", "wedge", "throw", "trim", "fire", "cool"),
    *("crack", "shelf", "cup", "bowl", "jar", "lid", "handle", "foot", "rim"),
)
_BOARD = {
    "nodes": [
        {"id": "1", "type": "text", "text": "# Card\n\nkiln [[Glaze 3]] #pottery\n"},
        {"id": "2", "type": "file", "file": "Note 0.md"},
        {"id": "3", "type": "file", "file": "Log/Firing 4.md"},
    ],
    "edges": [{"id": "e", "fromNode": "2", "toNode": "3", "label": "fired in"}],
}


def token(number: int) -> str:
    """What looks like a credential, and is nobody's; put together here, so that no file has one."""
    chance = random.Random(number)
    return "gh" + "p_" + "".join(chance.choices("abcdefghjkmnpqrstuvwxyz23456789ABCDEFGH", k=36))


def notes() -> dict[str, str]:
    """25 notes in four folders, one canvas, two attachments."""
    chance = random.Random(25)
    written: dict[str, str] = {}
    for number in range(24):
        words = [" ".join(chance.choices(_WORDS, k=12)) for _ in range(1 + number % 3)]
        kind = ("Note", "Glaze", "Firing")[number % 3]
        folder = ("", "Recipes/", "Log/", "Old/Deep/")[number % 4]
        head = (
            f"---\naliases: [{kind.lower()} no {number}]\ntags: [pottery, n{number % 3}]\n"
            f"cone: {number}\ndate: 2026-03-{number + 1:02}\n---\n"
        )
        body = "\n\n".join(f"## Part {n}\n\n{text}." for n, text in enumerate(words))
        links = f"[[Note {number * 5 % 24}]] and [[Nowhere {number % 5}]] ![[pot.png]]"
        written[f"{folder}{kind} {number}.md"] = (
            f"{head if number % 4 else ''}# {kind} {number}\n\n{body}\n\n{links}\n\n"
            f"- decision:: cone {number}\n- [ ] wash up (due:: 2026-04-0{number % 9 + 1})\n"
        )
    written["Log/Kept.md"] = f"# Kept\n\nThe door of the kiln room: {token(1)}\n"
    written["Recipes/Board.canvas"] = json.dumps(_BOARD)
    written["pot.png"] = "no note"
    written["Log/plan.pdf"] = "no note"
    return written


def put(vault: Path, files: Mapping[str, str]) -> None:
    """Write files: path below the vault -> text."""
    for path, text in files.items():
        file = vault / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())


def leave(vault: Path) -> None:
    """Change nothing."""


def edit_all_ways(vault: Path) -> None:
    """Add, edit, delete, rename, move, duplicate and swap notes, and remove a folder."""
    put(vault, {"New.md": f"# New\n\ncrackle [[Glaze 1]] [[Moved]] {token(2)}\n#fresh\n"})
    edited = vault / "Recipes/Glaze 1.md"
    edited.write_bytes(edited.read_bytes().replace(b"## Part 0", b"## Part none\n\nporcelain"))
    (vault / "Note 0.md").unlink()
    (vault / "Log/Firing 2.md").rename(vault / "Log/Renamed.md")
    (vault / "Elsewhere").mkdir()
    (vault / "Recipes/Firing 5.md").rename(vault / "Elsewhere/Moved.md")
    shutil.copyfile(vault / "Note 12.md", vault / "Recipes/Copy of 12.md")
    one, other, spare = (vault / n for n in ("Glaze 4.md", "Log/Glaze 10.md", "Log/spare"))
    one.rename(spare)
    other.rename(one)
    spare.rename(other)
    shutil.rmtree(vault / "Old")
    (vault / "pot.png").rename(vault / "Recipes/pot.png")
    board = json.loads(json.dumps(_BOARD).replace("Note 0.md", "Glaze 4.md"))
    put(vault, {"Recipes/Board.canvas": json.dumps(board)})


def rewrite_most(vault: Path) -> None:
    """What a burst is: most notes have another text, some are gone, a folder is another."""
    for number, file in enumerate(sorted(vault.rglob("*.md"))):
        if number % 5 == 4:
            file.unlink()
        else:
            file.write_bytes(file.read_bytes().replace(b"Part", b"Piece").replace(b"sh", b"zh"))
    (vault / "Old").rename(vault / "Older")


_SMALL = (
    (indexing, "MANY_REWRITTEN", 3),
    (indexing, "FEW_NOTES", 4),
    (indexing, "BATCH_NOTES", 6),
    (indexing, "AHEAD_NOTES", 4),
)
_FEW_VECTORS = (
    (embed, "SPARE_VECTORS", -30),
    (embed, "BATCH_TEXTS", 5),
    (embed, "GROUP_TEXTS", 20),
    (embed, "SETTLE_VECTORS", 15),
)

SCENARIOS: dict[str, Scenario] = {
    "first": Scenario(leave, indexed=False),
    "delta": Scenario(edit_all_ways),
    "rebuild": Scenario(edit_all_ways, rebuild=True),
    "burst": Scenario(rewrite_most, constants=_SMALL),
    "vectors first": Scenario(leave, indexed=False, embeds=True, constants=_FEW_VECTORS),
    "vectors later": Scenario(rewrite_most, embeds=True, constants=_FEW_VECTORS),
}


# Faults: what the checks below must find


@contextmanager
def _commit_each_statement(sidecar: store.Sidecar, *, weight: int = 1) -> Iterator[apsw.Connection]:
    yield sidecar.connection


@contextmanager
def _one_batch_of_none(sidecar: store.Sidecar, size: int) -> Iterator[None]:
    yield


@contextmanager
def _commit_each_vector(cache: embedding_cache.EmbeddingCache) -> Iterator[apsw.Connection]:
    yield cache._db


def _stamp_first(sidecar: store.Sidecar, entry: Entry, names: VaultNames) -> Written:
    """The hash in a transaction of its own, before the passages."""
    put_note(sidecar, replace(entry, chunks=(), items=()), names)
    return put_note(sidecar, replace(entry, known=True, replaces=None), names)


def _complete_first(sidecar: store.Sidecar, obsidian: Any) -> None:
    """An index is said to be complete before it has a note."""
    remember_settings(sidecar, obsidian)
    sidecar.set_meta(indexing.COMPLETE, "yes")


def _leave_it(folder: Path) -> None:
    """Remove nothing that a killed run left."""


# Name of the fault -> what is put in place of what: (owner, attribute, value).
FAULTS: dict[str, tuple[tuple[Any, str, Any], ...]] = {
    "no transactions": (
        (store.Sidecar, "transaction", _commit_each_statement),
        (store.Sidecar, "batch", _one_batch_of_none),
    ),
    "hash first": ((indexing, "put_note", _stamp_first),),
    "complete first": ((indexing, "remember_settings", _complete_first),),
    "leftovers": ((indexing, "discard_unfinished", _leave_it),),
    # A commit that is torn cannot be undone.
    "journal in memory": ((store, "_PRAGMAS", store._PRAGMAS + "PRAGMA journal_mode = MEMORY;\n"),),
    "loose vectors": ((embedding_cache.EmbeddingCache, "_transaction", _commit_each_vector),),
}


# A place to play in


class Place:
    """A vault with its cache and state folders, and how they were before the run."""

    def __init__(self, folder: Path, scenario: Scenario, journal: str) -> None:
        self.scenario = scenario
        self.vault = folder / "vault"
        self.cache = folder / "cache"
        self.state = folder / "state"
        self.kept = folder / "kept"
        # embeddings.db goes by its inode: a copy would be another cache.
        self.same_file = folder / "embeddings.db"
        self._environment = {
            "VAULTMEM_EMBEDDER_NAME": "minilm" if scenario.embeds else "none",
            "VAULTMEM_SIDECAR_JOURNAL": journal,
            "VAULTMEM_STATE_DIR": str(self.state),
        }

    def opened(self, **settings: str) -> Memory:
        environment = self._environment | settings
        settings_ = load_settings(self.vault, self.cache, environment=environment)
        memory = open_memory(settings_, clock=CLOCK)
        if self.scenario.embeds:
            memory.embedders["minilm"] = MadeUpEmbedder()
        return memory

    def make(self) -> None:
        """The vault as the run will find it, and what was indexed before."""
        put(self.vault, notes())
        if self.scenario.indexed:
            failed = in_child(self._index_before).error
            assert not failed, failed
        self.scenario.edit(self.vault)
        for name in ("cache", "state"):
            if (self.vault.parent / name).exists():
                shutil.copytree(self.vault.parent / name, self.kept / name)
        for database in self.cache.rglob("embeddings.db"):
            os.link(database, self.same_file)

    def _index_before(self) -> None:
        memory = self.opened()
        index(memory, IndexRequest())
        memory.close()

    def restore(self) -> None:
        """The cache and the state as they were before the run."""
        for name in ("cache", "state"):
            shutil.rmtree(self.vault.parent / name, ignore_errors=True)
            if (self.kept / name).exists():
                shutil.copytree(self.kept / name, self.vault.parent / name)
        for database in self.cache.rglob("embeddings.db"):
            self.same_file.write_bytes(database.read_bytes())
            database.unlink()
            os.link(self.same_file, database)

    def run(self) -> None:
        """The run that is killed."""
        memory = self.opened()
        index(memory, IndexRequest(rebuild=self.scenario.rebuild))
        memory.close()

    def notes(self) -> list[Path]:
        """What of the vault is indexed as notes."""
        return [path for path in self.vault.rglob("*") if path.suffix in (".md", ".canvas")]

    def vault_as_it_is(self) -> dict[str, tuple[object, ...]]:
        """Bytes and state of everything in the vault, all but the time of access."""
        seen: dict[str, tuple[object, ...]] = {}
        for path in sorted((self.vault, *self.vault.rglob("*"))):
            s = path.lstat()
            data = path.read_bytes() if path.is_file() else b""
            seen[str(path)] = (
                *(data, s.st_mode, s.st_uid, s.st_gid, s.st_ino, s.st_nlink),
                *(s.st_mtime_ns, s.st_ctime_ns),
            )
        return seen

    def listing(self) -> list[tuple[str, int, bytes]]:
        """Name, mode and, of what is no database, bytes of each file in the cache and the state."""
        found = []
        for folder in (self.cache, self.state):
            for path in sorted(folder.rglob("*")):
                name = str(path.relative_to(self.vault.parent))
                data = b""
                if name.endswith("-journal") and not path.read_bytes().startswith(_UNDOES):
                    continue  # SQLite's, and with nothing to undo: the next change removes it
                if path.suffix == ".i8":
                    # Its name is drawn by lot; its rows are in the canon.
                    name = re.sub("[0-9a-f]{32}", "…", name)
                elif path.is_file() and ".db" not in path.name:
                    data = path.read_bytes()
                found.append((name, path.lstat().st_mode, data))
        return sorted(found)


# What must hold


@dataclass(frozen=True, slots=True)
class Golden:
    """A whole run's result."""

    rows: list[str]
    listing: list[tuple[str, int, bytes]]


def integrity(memory: Memory) -> list[str]:
    """What SQLite finds wrong with either database."""
    sidecar, cache = memory.open_sidecar(), memory.open_cache()
    assert sidecar is not None
    said = [str(row[0]) for row in sidecar.connection.execute("PRAGMA integrity_check")]
    if cache is not None:
        said += [str(row[0]) for row in cache.query("PRAGMA integrity_check", ())]
    return [line for line in said if line != "ok"]


def finish(place: Place) -> Golden:
    """Run to the end and say what is there."""
    memory = place.opened()
    index(memory, IndexRequest())
    rows = canon_lines(memory)
    broken = integrity(memory)
    assert not broken, broken
    memory.close()
    return Golden(rows, place.listing())


def ask(place: Place, refresh: str) -> list[str]:
    """What is wrong with the answers to questions just after the kill."""
    memory = place.opened(VAULTMEM_SEARCH_REFRESH=refresh)
    wrong: list[str] = []
    for query in QUERIES:
        reply = search(memory, SearchRequest(query))
        strange = [hit.path for hit in reply.hits if not (place.vault / hit.path).is_file()]
        if strange:
            wrong.append(f"search: {query!r} finds {strange}, which are not there")
        if refresh == "auto" and not reply.hits:
            wrong.append(f"search: {query!r} finds nothing")
        # (Where all was indexed before, what is new is not missing: it was not looked for.)
        if refresh == "never" and not place.scenario.indexed and INCOMPLETE not in reply.degraded:
            missing = len(place.notes()) - _count_notes(memory)
            if missing > 0:
                wrong.append(f"search: {query!r} does not say that {missing} notes are missing")
    memory.close()
    return wrong


def _count_notes(memory: Memory) -> int:
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    return int(sidecar.connection.execute("SELECT count(*) FROM note").get)


def aftermath(place: Place, golden: Golden, *, asked: str | None, again: int) -> list[str]:
    """What does not hold after a kill. The check that each control must not pass.

    asked: how searches before the next run look at the vault; None for no searches.
    again: the step at which the next run is killed as well; 0 for never.
    """
    wrong: list[str] = []
    if again:
        counted_in_child(partial(finish, place), Steps(again))
    if asked is not None:
        ended = in_child(partial(ask, place, asked))
        wrong += [f"search: {ended.error}"] if ended.error else ended.answer
    ended = in_child(partial(finish, place))
    if ended.error:
        return [*wrong, f"next run: {ended.error}"]
    found: Golden = ended.answer
    if found.rows != golden.rows:
        odd = set(found.rows) ^ set(golden.rows)
        wrong.append(f"canon: {len(odd)} rows differ, as {sorted(odd)[:2]}")
    if found.listing != golden.listing:
        names = {(name, data) for name, _, data in set(found.listing) ^ set(golden.listing)}
        wrong.append(f"files: {sorted(names) or 'another number'}")
    return wrong


# Campaigns


def spread(kinds: list[str], count: int, chance: random.Random, *, among: str = "") -> list[int]:
    """So many steps, from 1, of as many kinds as there are. among: how the kinds begin."""
    of_kind: dict[str, list[int]] = {}
    for number, kind in enumerate(kinds, 1):
        if not kind.startswith(among):
            continue
        of_kind.setdefault(kind, []).append(number)
    queues = list(of_kind.values())
    chance.shuffle(queues)
    for queue in queues:
        chance.shuffle(queue)
    chosen: list[int] = []
    while len(chosen) < count and any(queues):
        chosen += [queue.pop() for queue in queues if queue]
    return sorted(chosen[:count])


def play(request: Request, folder: Path) -> Outcome:
    """Kill the scenario's run at the steps asked for, and look after each."""
    began = _processor_seconds()
    scenario = SCENARIOS[request.scenario]
    changes = (*scenario.constants, *(FAULTS[request.fault] if request.fault else ()))
    for owner, name, value in changes:
        setattr(owner, name, value)
    place = Place(folder, scenario, request.journal)
    place.make()
    vault = place.vault_as_it_is()
    place.restore()
    recorded = record(place.run)
    kinds = recorded.kinds
    # What comes out of a run that nobody ends is right by the other tests, if of right code.
    golden = in_child(partial(finish, place))
    assert not golden.error, golden.error
    chance = random.Random(f"{request.seed} {request.scenario} {request.journal}")
    steps = spread(kinds, request.points, chance, among=request.among)
    if not request.points:
        # Nothing changes on the disk after one call and before the next: each state is met once.
        calls = [number for number, kind in enumerate(kinds, 1) if kind.endswith("before")]
        rest, divisor = request.share
        steps = calls[rest::divisor]
    killed: dict[str, int] = {}
    bad: dict[int, list[str]] = {}
    for n, number in enumerate(steps):
        place.restore()
        ended = counted_in_child(place.run, Steps(number))
        if not ended.killed:
            bad[number] = [f"{kinds[number - 1]}: not killed: {ended.error}"]
            continue
        kind = kinds[number - 1]
        killed[kind] = killed.get(kind, 0) + 1
        asked = (None, "never", None, "auto")[n % 4]
        again = 0 if n % TWICE else chance.randint(1, len(kinds))
        wrong = aftermath(place, golden.answer, asked=asked, again=again)
        if place.vault_as_it_is() != vault:
            wrong.append("vault: another one")
        if wrong:
            bad[number] = [f"{kind}: {line}" for line in wrong]
    seconds = round(_processor_seconds() - began, 2)
    return Outcome(request, len(kinds), recorded.missed, killed, sum(killed.values()), bad, seconds)


def _processor_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def warm_up(folder: Path) -> None:
    """Import, compile and load whatever a run needs, and leave nothing open."""
    place = Place(folder, Scenario(edit_all_ways, embeds=True), "auto")
    put(place.vault, notes())
    place.run()
    place.scenario.edit(place.vault)
    ask(place, "auto")
    finish(place)
    fertility("kiln")


# Drawn by lot it would be another key, and so other fingerprints, in each run.
_NO_CHANCE = (allowed_secrets, "token_bytes", lambda count: bytes(range(count)))


def main(requests: Path, answers: Path) -> None:
    """Each request in a child of its own, so that no fault or constant outlives it."""
    prepare()
    setattr(*_NO_CHANCE)
    warm_up(requests.parent / "warm")
    outcomes = []
    for number, values in enumerate(json.loads(requests.read_text())):
        request = Request(**{**values, "share": tuple(values.get("share", (0, 1)))})
        folder = requests.parent / f"played {number}"
        ended: Ended = in_child(partial(play, request, folder))
        if ended.error:
            raise RuntimeError(ended.error)
        outcomes.append(asdict(ended.answer))
        shutil.rmtree(folder)
    answers.write_text(json.dumps(outcomes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
