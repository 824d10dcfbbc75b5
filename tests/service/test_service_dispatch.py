"""Operations for whoever stays: what a server does between a client and the vault."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from vaultmem.index.lock import writer_lock
from vaultmem.index.store import make_folder
from vaultmem.model.errors import (
    SettingsInvalid,
    SidecarUnavailable,
    UsageError,
    VaultEmpty,
    VaultNotFound,
)
from vaultmem.model.operation import Operation, Reply, Request
from vaultmem.service.application import Progress, open_memory
from vaultmem.service.dispatch import (
    MOST_REPLY_TOKENS,
    REPLY_TOKENS,
    Dispatcher,
    Report,
    to_nobody,
    within_room,
)
from vaultmem.service.mending import REBUILT, REMOVED
from vaultmem.service.operations import OPERATIONS
from vaultmem.service.operations.index import IndexReply, IndexRequest, index
from vaultmem.service.operations.search import SearchReply, SearchRequest
from vaultmem.service.operations.status import StatusReply, StatusRequest
from vaultmem.service.refresh import INCOMPLETE
from vaultmem.service.settings import Settings, load_settings

Write = Callable[[Path, Mapping[str, str]], None]

BY_NAME: dict[str, Operation] = {operation.name: operation for operation in OPERATIONS}
DEADLINE_SECONDS = 30.0
FEW = {f"n{i}.md": f"# Note {i}\n\nkiln clay, number {i}" for i in range(5)}


def many(count: int) -> dict[str, str]:
    """So many notes that what is done with them takes a while."""
    return {
        f"n{i:04}.md": f"# Note {i}\n\nkiln clay, number {i} {'glaze ' * 40}[[n{i * 7 % count:04}]]"
        for i in range(count)
    }


class Served:
    """A vault that a dispatcher answers for."""

    def __init__(self, folder: Path) -> None:
        self.vault = folder / "vault"
        self.cache = folder / "cache"
        self.variables = {
            "VAULTMEM_EMBEDDER_NAME": "none",
            "VAULTMEM_STATE_DIR": str(folder / "state"),
        }
        self.opened: list[Dispatcher] = []

    def load(self) -> Settings:
        return load_settings(self.vault, self.cache, environment=self.variables)

    def dispatcher(self, **options: Any) -> Dispatcher:
        self.opened.append(Dispatcher(self.load, **options))
        return self.opened[-1]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    vault = Served(tmp_path)
    vault.vault.mkdir()
    yield vault
    for dispatcher in vault.opened:
        dispatcher.close()
    # What one of them began ends by itself before the folder goes.
    for thread in threading.enumerate():
        if thread.name in ("first index", "warm-up", "embedding"):
            thread.join(DEADLINE_SECONDS)
            assert not thread.is_alive(), thread.name


def search(dispatcher: Dispatcher, query: str = "kiln", **options: Any) -> SearchReply:
    reply = dispatcher.run(BY_NAME["search"], SearchRequest(query, **options))
    assert isinstance(reply, SearchReply)
    return reply


def status(dispatcher: Dispatcher) -> StatusReply:
    reply = dispatcher.run(BY_NAME["status"], StatusRequest())
    assert isinstance(reply, StatusReply)
    return reply


def paths(reply: SearchReply) -> set[str]:
    return {hit.path for hit in reply.hits}


class Aside(threading.Thread):
    """Something done in a thread of its own; what comes of it is asked for later."""

    def __init__(self, do: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._do = do
        self._value: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._value = self._do()
        except BaseException as error:  # noqa: BLE001 - raised where the value is asked for
            self.error = error

    def value(self) -> Any:
        self.join(DEADLINE_SECONDS)
        assert not self.is_alive(), "it takes too long"
        if self.error is not None:
            raise self.error
        return self._value


class Gate:
    """A report that stops whoever reports, until it is opened."""

    def __init__(self, stage: str = "index", after: int = -1) -> None:
        self._stage = stage
        self._after = after
        self.reached = threading.Event()
        self.opened = threading.Event()

    def report(self, stage: str, done: int, total: int) -> None:
        if stage == self._stage and done > self._after:
            self.reached.set()
            assert self.opened.wait(DEADLINE_SECONDS)

    def wait(self) -> None:
        assert self.reached.wait(DEADLINE_SECONDS)


# The first index


def test_nothing_is_done_before_the_first_request(served: Served, write: Write) -> None:
    write(served.vault, FEW)
    dispatcher = served.dispatcher()
    assert not served.cache.exists()
    assert paths(search(dispatcher)) == FEW.keys()


def test_the_first_answer_on_a_vault_never_indexed_is_whole_when_that_is_quick(
    served: Served, write: Write
) -> None:
    write(served.vault, FEW)
    reply = search(served.dispatcher())
    assert paths(reply) == FEW.keys()
    assert reply.degraded == ()


def test_a_first_answer_does_not_wait_for_the_whole_index_and_says_how_far_it_is(
    served: Served, write: Write
) -> None:
    write(served.vault, many(1500))
    dispatcher = served.dispatcher(first_seconds=0.0)
    reply = search(dispatcher)
    (said,) = reply.degraded
    assert said.startswith("The vault is being indexed: ")
    assert " of 1,500 notes are in." in said
    # Later answers lack nothing, and say nothing.
    while said:
        reply = search(dispatcher, "number 1499", limit=1)
        said = "".join(reply.degraded)
    assert paths(reply) == {"n1499.md"}
    assert status(dispatcher).notes == 1500


def test_who_waits_for_the_first_index_is_told_how_far_it_is(served: Served, write: Write) -> None:
    write(served.vault, many(600))
    told: list[tuple[str, int, int]] = []

    def report(stage: str, done: int, total: int) -> None:
        told.append((stage, done, total))

    reply = served.dispatcher(first_seconds=DEADLINE_SECONDS).run(
        BY_NAME["search"], SearchRequest("kiln"), report
    )
    assert reply.degraded == ()
    counts = [done for stage, done, total in told if (stage, total) == ("index", 600)]
    assert counts == sorted(counts)
    assert counts[-1] == 600


def test_several_first_requests_make_one_index(served: Served, write: Write) -> None:
    write(served.vault, many(300))
    dispatcher = served.dispatcher()
    asked = [Aside(lambda: search(dispatcher)) for _ in range(8)]
    assert all(len(one.value().hits) == 10 for one in asked)
    assert len({thread.name for thread in threading.enumerate()} & {"first index"}) == 0
    assert status(dispatcher).notes == 300


def test_an_index_that_another_process_makes_is_waited_for(served: Served, write: Write) -> None:
    write(served.vault, FEW)
    folder = served.load().sidecar_folder
    make_folder(folder)
    told = Gate("index")
    dispatcher = served.dispatcher(first_seconds=0.0)
    with writer_lock(folder):
        told.opened.set()
        asked = Aside(lambda: dispatcher.run(BY_NAME["search"], SearchRequest("kiln"), told.report))
        told.wait()
        assert asked.is_alive()
    assert paths(asked.value()) == FEW.keys()


def test_what_another_process_has_made_so_far_answers(served: Served, write: Write) -> None:
    write(served.vault, many(1500))
    gate = Gate(after=1100)
    memory = open_memory(served.load(), progress=Progress(gate.report))
    other = Aside(lambda: index(memory, IndexRequest()))
    gate.wait()
    reply = search(served.dispatcher(first_seconds=0.0))  # in this thread, with the gate shut
    assert reply.hits
    assert INCOMPLETE in reply.degraded
    gate.opened.set()
    other.value()
    memory.close()


def test_an_index_run_that_was_broken_off_is_gone_on_with(served: Served, write: Write) -> None:
    write(served.vault, many(1500))
    break_off(served, after=1100)
    dispatcher = served.dispatcher()
    assert paths(search(dispatcher, "number 1499", limit=1)) == {"n1499.md"}
    assert status(dispatcher).notes == 1500


def break_off(served: Served, *, after: int) -> None:
    """Have an index run end before it is done, with some of its notes in."""

    def stop(stage: str, done: int, total: int) -> None:
        if done > after:
            raise KeyboardInterrupt

    memory = open_memory(served.load(), progress=Progress(stop))
    with pytest.raises(KeyboardInterrupt):
        index(memory, IndexRequest())
    memory.close()


# Where there is no vault


def test_a_missing_vault_is_said_and_found_when_it_is_there(served: Served, write: Write) -> None:
    served.vault.rmdir()
    dispatcher = served.dispatcher()
    for _ in range(2):
        with pytest.raises(VaultNotFound):
            search(dispatcher)
    write(served.vault, FEW)
    assert paths(search(dispatcher)) == FEW.keys()


def test_an_empty_vault_is_said_and_answers_when_it_has_notes(served: Served, write: Write) -> None:
    dispatcher = served.dispatcher()
    for _ in range(2):
        with pytest.raises(VaultEmpty):
            search(dispatcher)
    write(served.vault, FEW)
    assert paths(search(dispatcher)) == FEW.keys()


def test_a_cache_folder_that_cannot_be_used_is_said_until_it_can(
    served: Served, write: Write
) -> None:
    write(served.vault, FEW)
    served.cache.write_text("a file in its place")
    dispatcher = served.dispatcher()
    for _ in range(2):
        with pytest.raises(SidecarUnavailable):
            search(dispatcher)
    served.cache.unlink()
    assert paths(search(dispatcher)) == FEW.keys()


def test_a_vault_that_is_emptied_later_is_answered_for_with_a_word_on_it(
    served: Served, write: Write
) -> None:
    write(served.vault, FEW)
    dispatcher = served.dispatcher()
    search(dispatcher)
    rmtree(served.vault)
    served.vault.mkdir()
    reply = search(dispatcher)
    assert any("no Markdown note" in reason for reason in reply.degraded)


def test_what_is_there_of_a_first_index_answers_when_the_vault_is_gone(
    served: Served, write: Write
) -> None:
    write(served.vault, many(1500))
    break_off(served, after=1100)
    rmtree(served.vault)
    served.vault.mkdir()
    reply = search(served.dispatcher())
    assert reply.hits
    assert any("no Markdown note" in reason for reason in reply.degraded)


# Settings


def test_settings_that_changed_count_at_the_next_request(served: Served, write: Write) -> None:
    write(served.vault, many(12))
    dispatcher = served.dispatcher()
    assert len(search(dispatcher).hits) == 10
    write(served.vault, {".vaultmem/config.toml": "[search]\nlimit = 3\n"})
    assert len(search(dispatcher).hits) == 3
    write(served.vault, {".vaultmem/config.toml": "[search\n"})
    with pytest.raises(SettingsInvalid):
        search(dispatcher)
    (served.vault / ".vaultmem/config.toml").unlink()
    assert len(search(dispatcher).hits) == 10


def test_a_setting_that_notes_are_indexed_by_has_the_index_made_anew(
    served: Served, write: Write
) -> None:
    write(served.vault, {**FEW, "drafts/d.md": "# Draft\n\nkiln"})
    dispatcher = served.dispatcher()
    assert "drafts/d.md" in paths(search(dispatcher))
    write(served.vault, {".vaultmem/config.toml": '[scan]\nignore = ["drafts/"]\n'})
    assert paths(search(dispatcher)) == FEW.keys()
    write(served.vault, {".vaultmem/config.toml": "[chunk]\nmax_pieces = 64\n"})
    reply = search(dispatcher)
    assert (paths(reply), reply.degraded) == ({*FEW, "drafts/d.md"}, ())


# Several at once


def test_requests_of_many_threads_are_all_answered(served: Served, write: Write) -> None:
    notes = many(200)
    write(served.vault, notes)
    dispatcher = served.dispatcher()

    def ask(thread: int) -> list[set[str]]:
        return [
            paths(search(dispatcher, f"number {number}", limit=1))
            for number in range(thread, 200, 8)
        ]

    asked = [Aside(partial(ask, thread)) for thread in range(8)]
    for thread, one in enumerate(asked):
        assert one.value() == [{f"n{number:04}.md"} for number in range(thread, 200, 8)]


def test_a_search_does_not_wait_for_the_care_of_the_index(served: Served, write: Write) -> None:
    write(served.vault, FEW)
    dispatcher = served.dispatcher()
    search(dispatcher)
    gate = Gate()
    running = Aside(
        lambda: dispatcher.run(BY_NAME["index"], IndexRequest(rebuild=True), gate.report)
    )
    gate.wait()
    assert paths(search(dispatcher)) == FEW.keys()  # in this thread, with the gate shut
    gate.opened.set()
    assert isinstance(running.value(), IndexReply)


def test_a_request_that_takes_long_is_passed_by_the_next_of_its_kind(served: Served) -> None:
    for name, text in FEW.items():
        (served.vault / name).write_text(text)
    dispatcher = served.dispatcher()
    search(dispatcher)
    begun, gate = threading.Event(), threading.Event()

    def hang(memory: Any, request: Request) -> Reply:
        begun.set()
        assert gate.wait(DEADLINE_SECONDS)
        return BY_NAME["status"].run(memory, StatusRequest())  # type: ignore[no-any-return]

    slow = replace(BY_NAME["status"], run=hang)
    waiting = Aside(lambda: dispatcher.run(slow, StatusRequest()))
    try:
        assert begun.wait(DEADLINE_SECONDS)
        assert paths(search(dispatcher)) == set(FEW)
    finally:
        gate.set()
    assert waiting.value().notes == len(FEW)


def test_a_first_request_to_the_other_lane_waits_for_the_same_first_index(
    served: Served, write: Write
) -> None:
    write(served.vault, FEW)
    dispatcher = served.dispatcher()
    asked = [Aside(lambda: search(dispatcher)), Aside(lambda: run(dispatcher, "lint"))]
    assert paths(asked[0].value()) == FEW.keys()
    assert {note.path for note in asked[1].value().orphans} == FEW.keys()


def run(dispatcher: Dispatcher, name: str, report: Report = to_nobody, **arguments: Any) -> Any:
    operation = BY_NAME[name]
    return dispatcher.run(operation, operation.request(**arguments), report)


# What goes wrong


def test_a_report_that_raises_ends_a_run_and_the_next_request_is_answered(
    served: Served, write: Write
) -> None:
    write(served.vault, many(300))
    dispatcher = served.dispatcher()

    def nobody_waits(stage: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(dispatcher, "index", nobody_waits, rebuild=True)
    with pytest.raises(KeyboardInterrupt):
        run(dispatcher, "index", nobody_waits, rebuild=True)
    assert run(dispatcher, "index").notes.total == 300
    assert status(dispatcher).fresh


def test_a_fault_of_our_own_spoils_nothing_for_the_next_request(
    served: Served, write: Write
) -> None:
    write(served.vault, FEW)
    dispatcher = served.dispatcher()
    known = search(dispatcher)

    def broken(memory: Any, request: Request) -> Reply:
        memory.open_sidecar().connection.close()
        raise ZeroDivisionError

    search_of = BY_NAME["search"]
    faulty = Operation(
        "faulty",
        search_of.summary,
        search_of.request,
        search_of.reply,
        broken,
        search_of.changes,
        search_of.group,
    )
    with pytest.raises(ZeroDivisionError):
        dispatcher.run(faulty, SearchRequest("kiln"))
    assert search(dispatcher) == known


def test_a_removed_sidecar_is_made_anew(served: Served, write: Write) -> None:
    write(served.vault, FEW)
    dispatcher = served.dispatcher()
    known = search(dispatcher)
    rmtree(served.cache)
    assert search(dispatcher) == known


@pytest.mark.parametrize("name", ["search", "status", "lint"])
def test_a_damaged_sidecar_is_made_anew_and_that_is_said(
    name: str, served: Served, write: Write
) -> None:
    write(served.vault, FEW)
    search(served.dispatcher())
    served.opened.pop().close()
    (sidecar,) = served.cache.glob("*/index.db")
    sidecar.write_bytes(b"not what was written" * 999)
    arguments: dict[str, Any] = {"query": "kiln"} if name == "search" else {}
    dispatcher = served.dispatcher()
    assert run(dispatcher, name, **arguments).degraded in ((REBUILT,), (REMOVED,))
    assert run(dispatcher, name, **arguments).degraded == ()
    assert paths(search(dispatcher)) == FEW.keys()


def test_closing_does_not_wait_for_what_is_being_done(served: Served, write: Write) -> None:
    write(served.vault, FEW)
    dispatcher = served.dispatcher()
    search(dispatcher)
    gate = Gate()
    running = Aside(
        lambda: dispatcher.run(BY_NAME["index"], IndexRequest(rebuild=True), gate.report)
    )
    gate.wait()
    Aside(dispatcher.close).value()  # while the gate is shut
    gate.opened.set()
    assert isinstance(running.value(), IndexReply)


def test_a_first_index_ends_when_the_dispatcher_is_closed(served: Served, write: Write) -> None:
    write(served.vault, many(3000))
    dispatcher = served.dispatcher(first_seconds=0.0)
    assert search(dispatcher).degraded
    dispatcher.close()
    for thread in threading.enumerate():
        if thread.name == "first index":
            thread.join(DEADLINE_SECONDS)
            assert not thread.is_alive()
    with open_memory(served.load()).guarded():
        assert status(served.dispatcher(first_seconds=0.0)).notes > 0


# Room


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (None, REPLY_TOKENS),
        (1, 1),
        (REPLY_TOKENS + 1, REPLY_TOKENS + 1),
        (MOST_REPLY_TOKENS, MOST_REPLY_TOKENS),
        (MOST_REPLY_TOKENS + 1, MOST_REPLY_TOKENS),
        (10**30, MOST_REPLY_TOKENS),
    ],
)
def test_a_reply_has_a_bound_that_no_client_cuts_off(asked: int | None, given: int) -> None:
    request = SearchRequest("kiln", max_tokens=asked)
    assert within_room(request) == SearchRequest("kiln", max_tokens=given)


@pytest.mark.parametrize("asked", [0, -1, True, 1.5, "9"])
def test_a_bound_that_is_none_is_refused(asked: Any, served: Served, write: Write) -> None:
    write(served.vault, FEW)
    with pytest.raises(UsageError):
        search(served.dispatcher(), max_tokens=asked)


def test_the_bound_holds_for_a_reply_that_would_be_long(served: Served, write: Write) -> None:
    write(served.vault, {"long.md": "# Long\n\n" + "kiln and clay\n\n" * 20_000})
    reply = run(served.dispatcher(), "read", note="long.md")
    assert len(reply.text) < REPLY_TOKENS * 4
    assert reply.omitted
    assert reply.next


def test_notes_that_come_during_a_session_get_their_vectors(served: Served) -> None:
    served.variables["VAULTMEM_EMBEDDER_NAME"] = "minilm"
    (served.vault / "first.md").write_text("# Clay\n\nIt is dug in autumn.\n")
    dispatcher = served.dispatcher()
    search(dispatcher)
    dispatcher.warm_up()
    assert soon(lambda: status(dispatcher).vectors == 1)
    many_sections = "".join(
        f"# Part {n}\n\nGlaze number {n} runs at cone {n}.\n" for n in range(30)
    )
    (served.vault / "second.md").write_text(many_sections)
    search(dispatcher, "glaze")
    dispatcher.warm_up()
    assert soon(lambda: status(dispatcher).vectors == status(dispatcher).chunks >= 31)


def test_what_nobody_asks_is_let_go_of_and_opened_again(served: Served) -> None:
    for name, text in FEW.items():
        (served.vault / name).write_text(text)
    dispatcher = served.dispatcher(idle_seconds=0.05)
    search(dispatcher)
    opened = open_files(served.cache)
    assert opened
    dispatcher.warm_up()
    assert soon(lambda: not open_files(served.cache))
    assert paths(search(dispatcher)) == set(FEW)


def test_requests_wait_for_the_same_first_index_and_not_for_each_other(served: Served) -> None:
    for name, text in many(300).items():
        (served.vault / name).write_text(text)
    dispatcher = served.dispatcher(first_seconds=DEADLINE_SECONDS)
    asked = [Aside(partial(search, dispatcher)) for _ in range(6)]
    for one in asked:
        assert one.value().degraded == ()


def soon(true: Callable[[], bool]) -> bool:
    """Whether it is so before the deadline."""
    until = time.monotonic() + DEADLINE_SECONDS
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def open_files(folder: Path) -> list[str]:
    """Files below it that this process has open."""
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("only Linux tells which files are open")
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            links.append(str(entry.readlink()))
    return [link for link in links if link.startswith(str(folder))]


def test_whoever_waits_takes_the_seat_that_is_free_first(served: Served) -> None:
    for name, text in FEW.items():
        (served.vault / name).write_text(text)
    dispatcher = served.dispatcher()
    search(dispatcher)
    begun = [threading.Event(), threading.Event()]
    gates = [threading.Event(), threading.Event()]

    def slow(number: int) -> Operation:
        def hang(memory: Any, request: Request) -> Reply:
            begun[number].set()
            assert gates[number].wait(DEADLINE_SECONDS)
            return BY_NAME["status"].run(memory, StatusRequest())  # type: ignore[no-any-return]

        return replace(BY_NAME["status"], run=hang)

    first = Aside(lambda: dispatcher.run(slow(0), StatusRequest()))
    assert begun[0].wait(DEADLINE_SECONDS)
    second = Aside(lambda: dispatcher.run(slow(1), StatusRequest()))
    assert begun[1].wait(DEADLINE_SECONDS), "it takes the spare seat"
    third = Aside(lambda: search(dispatcher))
    gates[0].set()  # the usual seat is free, the spare one is not
    assert paths(third.value()) == set(FEW)
    gates[1].set()
    assert first.value() is not None
    assert second.value() is not None
