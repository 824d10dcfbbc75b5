"""An unchanged vault is no work: a second look parses, cuts, embeds and writes nothing."""

import os
import pickle
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import hostile
import pytest
from audit import record_events
from generate_vault import generate
from hostile_vaults import listing, make_removable
from lanes import by_lane
from made_up_vectors import MadeUpEmbedder
from watch import Event

from vaultmem.embedding.embedder import Embedded
from vaultmem.service import indexing
from vaultmem.service.application import Clock, Memory, open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.settings import load_settings
from vaultmem.vault.read import Door

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="watched in a process of its own")

FAR_AHEAD_NS = 47_847 * 86_400 * 10**9  # in 2101: no file is young, so none is read again
LATER_NS = 3600 * 10**9

# Opened for writing and not written to: to hold it says that somebody is at work.
LOCKS = (".lock",)


@dataclass(slots=True)
class Work:
    """What a run did."""

    read: list[str] = field(default_factory=list)  # files, settings among them
    parsed: int = 0
    cut: int = 0  # into passages
    embedded: int = 0
    statements: list[str] = field(default_factory=list)  # of SQL, that write
    changed: list[str] = field(default_factory=list)  # what was, and attempts

    def done(self, *, but: Sequence[str] = ()) -> list[str]:
        """What was done, in words; [] for nothing. but: what is not asked about."""
        counts = {name: getattr(self, name) for name in ("parsed", "cut", "embedded")}
        said = [f"{name} {count}" for name, count in counts.items() if count]
        said += [] if "read" in but else [f"read {path}" for path in self.read if path[0] != "."]
        return said + ([] if "statements" in but else self.statements) + self.changed


def makes_nothing(event: Event) -> bool:
    """Whether it is an attempt to make what is there already, which ends in that being said."""
    return event.name == "os.mkdir" or (event.name == "open" and bool(event.flags & os.O_EXCL))


def kept_files(folder: Path) -> dict[str, tuple[object, ...]]:
    """The files of cache and state; what SQLite makes and takes away around them is no change."""
    return {
        path: state
        for path, state in listing(folder).items()
        if (folder / path).is_file() and not path.endswith(("-wal", "-shm"))
    }


class CountedEmbedder(MadeUpEmbedder):
    def __init__(self, work: Work) -> None:
        self._work = work

    def embed_documents(self, texts: Sequence[str]) -> Embedded:
        self._work.embedded += len(texts)
        return super().embed_documents(texts)


class Vault:
    """A vault, and a clock that tests set."""

    def __init__(self, vault: Path, folder: Path) -> None:
        self.vault, self.folder = vault, folder
        self.now_ns = 0

    def opened(self) -> Memory:
        environment = {
            "VAULTMEM_EMBEDDER_NAME": "minilm",
            "VAULTMEM_STATE_DIR": str(self.folder / "state"),
        }
        settings = load_settings(self.vault, self.folder / "cache", environment=environment)
        clock = Clock(now_ns=lambda: self.now_ns, elapsed=lambda: 0.0)
        return open_memory(settings, clock=clock)

    def run(self, now_ns: int, *, fault: Callable[[Memory], None] = lambda memory: None) -> Work:
        """Index in a process of its own, as a person does again and again.

        fault: what is wrong with the program, for the tests of this test.
        """
        self.now_ns = now_ns
        before = listing(self.vault) | kept_files(self.folder)
        work: Work = in_a_process(lambda: self._watched(fault))
        after = listing(self.vault) | kept_files(self.folder)
        work.changed += [
            f"changed {path}"
            for path in sorted(before.keys() | after.keys())
            if before.get(path) != after.get(path)
        ]
        return work

    def _watched(self, fault: Callable[[Memory], None]) -> Work:
        work = Work()
        count(work)
        memory = self.opened()
        memory.embedders["minilm"] = CountedEmbedder(work)
        fault(memory)
        there = {str(path) for path in self.folder.rglob("*")}
        events = record_events()
        index(memory, IndexRequest())
        memory.close()
        work.changed += [
            f"{event.name} {path}"
            for event in list(events)
            for path in event.paths
            if not (path in there and makes_nothing(event)) and not path.endswith(LOCKS)
        ]
        return work


def replace_in(owner: Any, name: str, around: Callable[[Any], Any]) -> None:
    """Put something around a part of the program, in a process that ends soon."""
    setattr(owner, name, around(getattr(owner, name)))


def count(work: Work) -> None:
    """Count from here on what this process does; it is one that ends soon."""

    def counted(name: str) -> Callable[[Any], Any]:
        def around(real: Any) -> Any:
            def call(*arguments: Any, **options: Any) -> Any:
                setattr(work, name, getattr(work, name) + 1)
                return real(*arguments, **options)

            return call

        return around

    replace_in(indexing, "parse", counted("parsed"))
    replace_in(indexing, "screened_file", counted("parsed"))
    replace_in(indexing, "chunk_note", counted("cut"))

    def listed(real: Any) -> Any:
        def read(door: Door, disk_path: str, *, limit: int) -> Any:
            work.read.append(disk_path)
            return real(door, disk_path, limit=limit)

        return read

    replace_in(Door, "read", listed)

    def trace(cursor: Any, statement: str, bindings: object) -> bool:
        if not cursor.is_readonly and not statement.lstrip().upper().startswith("PRAGMA"):
            work.statements.append(statement)
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = trace

    apsw.connection_hooks.append(watch)


def in_a_process(do: Callable[[], Any]) -> Any:
    """What a function returns that runs in a fork of this process."""
    receiving, sending = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
        child = os.fork()
    if child == 0:
        try:
            os.close(receiving)
            answer = pickle.dumps(do())
            with os.fdopen(sending, "wb") as pipe:
                pipe.write(answer)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - it must not go on as its parent
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(sending)
    with os.fdopen(receiving, "rb") as pipe:
        answer = pipe.read()
    _, ended = os.waitpid(child, 0)
    assert ended == 0, "the run failed; its trace is in the captured output"
    return pickle.loads(answer)


def hostile_vault(folder: Path) -> Path:
    subprocess.run(
        [sys.executable, hostile.__file__, str(folder / "h")],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return folder / "h" / "vault"


def generated_vault(folder: Path) -> Path:
    generate(folder / "vault", by_lane(fast=500, slow=10_000), 7)
    return folder / "vault"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[[Callable[[Path], Path]], Vault]]:
    """Make a vault below tmp_path, and a place for its index."""
    (tmp_path / "kept").mkdir()
    yield lambda make: Vault(make(tmp_path), tmp_path / "kept")
    make_removable(tmp_path)


Made = Callable[[Callable[[Path], Path]], Vault]


@pytest.fixture
def small(tmp_path: Path) -> Vault:
    (tmp_path / "kept").mkdir()
    (tmp_path / "vault").mkdir()
    for name in ("Gate", "Kiln"):
        (tmp_path / "vault" / f"{name}.md").write_text(f"The {name} is green.\n")
    return Vault(tmp_path / "vault", tmp_path / "kept")


@pytest.mark.parametrize("make", [hostile_vault, generated_vault])
def test_a_second_look_at_an_unchanged_vault_does_nothing(
    make: Callable[[Path], Path], made: Made
) -> None:
    vault = made(make)
    first = vault.run(FAR_AHEAD_NS)
    assert min(len(first.read), first.parsed, first.cut, first.embedded) > 400
    assert first.statements
    assert first.changed
    assert vault.run(FAR_AHEAD_NS).done() == []


@pytest.mark.parametrize(
    "make", by_lane(fast=[generated_vault], slow=[hostile_vault, generated_vault])
)
def test_files_that_are_young_are_read_again_and_nothing_else(
    make: Callable[[Path], Path], made: Made
) -> None:
    vault = made(make)
    now_ns = time.time_ns()
    assert vault.run(now_ns).parsed > 400
    again = vault.run(now_ns)
    assert len(again.read) > 400
    assert again.done(but=["read"]) == []
    # That they are not young any more is written down once, and from then on they are not read;
    # but for those that say they are of a day to come.
    grown = vault.run(now_ns + LATER_NS)
    assert {statement.split()[0] for statement in grown.statements} == {"BEGIN", "UPDATE"}
    last = vault.run(now_ns + LATER_NS)
    assert last.done(but=["read"]) == []
    assert sum(path[0] != "." for path in last.read) < 20


def test_a_clock_in_the_fingerprint_is_noticed(small: Vault) -> None:
    def fault(memory: Memory) -> None:
        def with_the_time(real: Any) -> Any:
            return property(lambda self: f"{real.fget(self)}; at {self.clock.now_ns()}")

        replace_in(Memory, "fingerprint", with_the_time)

    assert small.run(FAR_AHEAD_NS, fault=fault).parsed
    done = small.run(FAR_AHEAD_NS + LATER_NS, fault=fault).done()
    assert any(line.startswith("parsed") for line in done)


def test_a_clock_in_the_hash_is_noticed(small: Vault) -> None:
    def fault(memory: Memory) -> None:
        def with_the_time(real: Any) -> Any:
            return lambda data: real(data + str(memory.clock.now_ns()).encode())

        replace_in(indexing, "sha256", with_the_time)

    now_ns = time.time_ns()
    assert small.run(now_ns, fault=fault).parsed
    done = small.run(now_ns + 1, fault=fault).done(but=["read"])
    assert any(line.startswith("parsed") for line in done)


def each_time(do: Callable[[Memory, Any], object]) -> Callable[[Memory], None]:
    """A fault that does something in each run, with memory and sidecar."""

    def fault(memory: Memory) -> None:
        def around(real: Any) -> Any:
            def write(sidecar: Any, *arguments: Any) -> None:
                do(memory, sidecar)
                real(sidecar, *arguments)

            return write

        replace_in(indexing, "put_scan_problems", around)

    return fault


def test_a_row_that_is_written_again_as_it_was_is_noticed(small: Vault) -> None:
    def write(memory: Memory, sidecar: Any) -> None:
        with sidecar.transaction() as db:
            db.execute("UPDATE note SET title = title WHERE id = 1")

    assert small.run(FAR_AHEAD_NS).parsed
    done = small.run(FAR_AHEAD_NS, fault=each_time(write)).done()
    assert any("SET title" in line for line in done)


def test_a_file_that_is_written_in_the_vault_is_noticed(small: Vault) -> None:
    def write(memory: Memory, sidecar: Any) -> None:
        (memory.vault / "Daily.md").touch()

    assert small.run(FAR_AHEAD_NS).parsed
    done = small.run(FAR_AHEAD_NS, fault=each_time(write)).done()
    assert any("Daily.md" in line for line in done)


def test_a_file_that_is_opened_to_be_written_and_left_as_it_was_is_heard_of(small: Vault) -> None:
    """No listing shows it: who opens a file for writing is known by the audit hook alone."""

    def open_it(memory: Memory, sidecar: Any) -> None:
        (memory.vault / "Gate.md").open("r+b").close()

    assert small.run(FAR_AHEAD_NS).parsed
    done = small.run(FAR_AHEAD_NS, fault=each_time(open_it)).done()
    assert done == [f"open {small.vault / 'Gate.md'}"]
