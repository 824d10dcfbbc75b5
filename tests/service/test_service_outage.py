"""When meaning cannot answer, words do, with the reason; and nobody waits for it twice."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import apsw
import pytest
from ollama_server import Fault, Model, OllamaServer

from vaultmem.embedding import cache
from vaultmem.embedding.cache import CACHE_NAME
from vaultmem.embedding.minilm import FILE_SIZE
from vaultmem.model.errors import SidecarDamaged
from vaultmem.service.application import Clock, Memory
from vaultmem.service.doctor import Check
from vaultmem.service.operations.index import IndexReply, IndexRequest, index
from vaultmem.service.operations.search import SearchReply, SearchRequest, search
from vaultmem.service.operations.status import StatusReply, StatusRequest, status

Open = Callable[..., Memory]

THINGS = (
    *("kiln", "wheel", "shed", "barn", "dog", "cat", "horse", "cow"),
    *("hen", "goat", "sheep", "pig", "cart", "well", "pump", "tree"),
)
NOTES: Mapping[str, str] = {
    f"{number:02}.md": f"The {thing} stands in the yard beside the gate.\n"
    for number, thing in enumerate(THINGS)
}
BY_WORDS = "Searched by words."
NOTHING = f"No passage is embedded yet; `vaultmem index` does it. {BY_WORDS}"
MODEL = "nomic-embed-text:latest"


def ask(memory: Memory, query: str = "kiln", mode: str = "hybrid") -> SearchReply:
    return search(memory, SearchRequest(query, mode=mode))


def by_words(memory: Memory, query: str = "kiln") -> SearchReply:
    reply = ask(memory, query, "keyword")
    assert reply.hits, "a question that words cannot answer shows nothing"
    assert (reply.mode, reply.degraded) == ("keyword", ())
    return reply


def assert_words_answer(memory: Memory, *named: str, query: str = "kiln") -> str:
    """Every mode that needs meaning gives what words give, and one reason; the reason."""
    expected = by_words(memory, query).hits
    reasons: set[str] = set()
    for mode in ("hybrid", "semantic"):
        reply = ask(memory, query, mode)
        assert reply.mode == "keyword"
        assert reply.hits == expected
        (reason,) = reply.degraded
        reasons.add(reason)
    (reason,) = reasons
    assert reason.endswith(f" {BY_WORDS}")
    for part in named:
        assert part in reason
    return reason


def assert_meaning_answers(memory: Memory, query: str = "kiln") -> None:
    reply = ask(memory, query)
    assert (reply.mode, reply.degraded) == ("hybrid", ())
    assert "vector" in [channel.channel for channel in reply.hits[0].evidence.channels]


def check(memory: Memory, name: str) -> Check:
    """One of the health checks."""
    (found,) = [c for c in status(memory, StatusRequest(checks=True)).checks if c.id == name]
    return found


# The reasons


@pytest.fixture
def yard(indexed: Open) -> Callable[..., Memory]:
    """The notes, indexed and embedded by the built-in model; yard(**settings)."""

    def open_yard(**settings: str) -> Memory:
        environment = {"VAULTMEM_EMBEDDER_NAME": "minilm", **settings}
        return indexed(NOTES, environment=environment)

    return open_yard


def test_all_is_well(yard: Open) -> None:
    assert_meaning_answers(yard())


def test_nothing_is_embedded_yet(open_vault: Open) -> None:
    memory = open_vault(NOTES, environment={"VAULTMEM_EMBEDDER_NAME": "minilm"})
    index(memory, IndexRequest(embed=False))
    assert assert_words_answer(memory) == NOTHING
    index(memory, IndexRequest())
    assert_meaning_answers(memory)


def test_the_embedder_is_switched_off(yard: Open, open_vault: Open) -> None:
    memory = yard()  # there are vectors, and they are not used
    memory.close()
    off = open_vault()
    assert assert_words_answer(off) == f"The setting embedder.name is none. {BY_WORDS}"
    reply = search(off, SearchRequest("kiln"))
    assert (reply.mode, reply.degraded) == ("keyword", ())  # nobody asked for more


def test_there_is_no_graph_yet_and_what_was_searched_is_said_truly(
    yard: Open, open_vault: Open
) -> None:
    memory = yard()
    reply = ask(memory, mode="graph")
    assert (reply.mode, reply.hits) == ("hybrid", ask(memory).hits)
    (reason,) = reply.degraded
    assert "no graph yet" in reason
    assert "words and meaning" in reason
    off = open_vault()
    reply = ask(off, mode="graph")
    assert (reply.mode, reply.hits) == ("keyword", by_words(off).hits)
    said = " ".join(reply.degraded)
    assert "no graph yet" in said
    assert "embedder.name is none" in said
    assert "and meaning" not in said


def missing(folder: Path) -> Path:
    return folder / "nowhere.onnx"


def another_file(folder: Path) -> Path:
    (folder / "other.onnx").write_bytes(b"weights")
    return folder / "other.onnx"


def same_size_other_bytes(folder: Path) -> Path:
    with (folder / "like.onnx").open("wb") as file:
        file.truncate(FILE_SIZE)
    return folder / "like.onnx"


@pytest.mark.parametrize("bad", [missing, another_file, same_size_other_bytes])
def test_a_model_that_cannot_be_used_is_named(
    yard: Open, open_vault: Open, tmp_path: Path, bad: Callable[[Path], Path]
) -> None:
    yard().close()
    path = bad(tmp_path)
    environment = {
        "VAULTMEM_EMBEDDER_NAME": "minilm",
        "VAULTMEM_EMBEDDER_MODEL_PATH": str(path),
    }
    memory = open_vault(environment=environment)
    assert_words_answer(memory, str(path), "embedder.model_path")
    found = check(memory, "embedder")
    assert not found.ok
    assert str(path) in found.detail
    assert found.fix
    memory.close()
    mended = open_vault(environment={"VAULTMEM_EMBEDDER_NAME": "minilm"})
    assert_meaning_answers(mended)


# The file of embeddings, which may be gone or broken at any time


def remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def spoil_its_head(path: Path) -> None:
    path.write_bytes(b"\0" * 100 + path.read_bytes()[100:])


def spoil_its_body(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xaa" * (len(whole) - 8192))


def cut_it_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty_it(path: Path) -> None:
    os.truncate(path, 0)


def put_a_folder_there(path: Path) -> None:
    remove(path)
    path.mkdir()


ACCIDENTS = [remove, spoil_its_head, spoil_its_body, cut_it_short, empty_it]


def after_accident(
    yard: Open, open_vault: Open, accident: Callable[[Path], None], **settings: str
) -> Memory:
    """A vault opened after something has happened to its embeddings."""
    memory = yard()
    file = memory.folder / CACHE_NAME
    memory.close()
    accident(file)
    environment = {"VAULTMEM_EMBEDDER_NAME": "minilm", **settings}
    return open_vault(environment=environment)


@pytest.mark.parametrize("refresh", ["auto", "never"])
@pytest.mark.parametrize("accident", [*ACCIDENTS, put_a_folder_there])
def test_without_its_embeddings_words_answer(
    yard: Open, open_vault: Open, accident: Callable[[Path], None], refresh: str
) -> None:
    memory = after_accident(yard, open_vault, accident, VAULTMEM_SEARCH_REFRESH=refresh)
    expected = ask(memory, mode="keyword").hits
    assert expected
    for mode in ("hybrid", "semantic", "hybrid"):
        reply = ask(memory, mode=mode)
        assert (reply.mode, reply.hits) == ("keyword", expected)
        assert reply.degraded
        assert reply.degraded[-1].endswith(BY_WORDS)


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_an_index_run_makes_lost_embeddings_anew(
    yard: Open, open_vault: Open, accident: Callable[[Path], None]
) -> None:
    memory = after_accident(yard, open_vault, accident)
    for _ in range(2):  # a damaged file may be found out only when it is read, and is then removed
        ended = index_or_none(memory)
    assert ended is not None
    assert ended.chunks.waiting == 0
    assert_meaning_answers(memory)
    assert check(memory, "vectors").ok


def index_or_none(memory: Memory) -> IndexReply | None:
    try:
        return index(memory, IndexRequest())
    except SidecarDamaged:
        return None


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_status_and_doctor_do_not_count_vectors_that_are_gone(
    yard: Open, open_vault: Open, accident: Callable[[Path], None]
) -> None:
    memory = after_accident(yard, open_vault, accident)
    found = check(memory, "vectors")
    assert not found.ok
    assert "index" in f"{found.detail} {found.fix}"
    reply: StatusReply = status(memory, StatusRequest())
    assert (reply.vectors, reply.embedder) == (0, None)
    assert reply.notes == len(NOTES)


def test_embeddings_removed_while_they_are_in_use(yard: Open) -> None:
    memory = yard()
    assert_meaning_answers(memory)
    remove(memory.folder / CACHE_NAME)
    assert_words_answer(memory)


def test_the_file_of_vectors_may_go_or_be_cut_and_nothing_changes(yard: Open) -> None:
    memory = yard()
    expected = ask(memory)
    for spoil in (lambda file: file.unlink(), lambda file: os.truncate(file, 1_000)):
        memory.close()
        for file in memory.folder.glob("vectors-*"):
            spoil(file)
        assert ask(memory) == expected
        assert expected.mode == "hybrid"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A locked database is waited for 20 ms, not 10 s."""
    monkeypatch.setattr(cache, "BUSY_TIMEOUT_MS", 20)


@pytest.mark.usefixtures("impatient")
def test_embeddings_that_another_program_has_locked(yard: Open, open_vault: Open) -> None:
    memory = yard()
    memory.close()
    other = apsw.Connection(str(memory.folder / CACHE_NAME))
    other.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    other.execute("BEGIN EXCLUSIVE")
    try:
        locked = open_vault(environment={"VAULTMEM_EMBEDDER_NAME": "minilm"})
        assert_words_answer(locked, str(locked.folder), "locked")
        (locked.vault / "new.md").write_text("A kiln of another kind.\n")
        assert len(assert_words_answer(locked, "locked")) > 0
        locked.close()
    finally:
        other.execute("ROLLBACK")
        other.close()
    assert_meaning_answers(open_vault(environment={"VAULTMEM_EMBEDDER_NAME": "minilm"}))


@pytest.mark.usefixtures("impatient")
def test_embeddings_that_another_program_is_writing_are_still_read(
    yard: Open, open_vault: Open
) -> None:
    memory = yard()
    memory.close()
    other = apsw.Connection(str(memory.folder / CACHE_NAME))
    other.execute("BEGIN IMMEDIATE")
    try:
        reader = open_vault(environment={"VAULTMEM_EMBEDDER_NAME": "minilm"})
        assert_meaning_answers(reader)
        (reader.vault / "new.md").write_text("A kiln of another kind.\n")
        reply = ask(reader)
        assert reply.mode == "hybrid"
        assert "new.md" in [hit.path for hit in reply.hits]
        assert ["1 of 17 passages are not embedded yet" in r for r in reply.degraded] == [True]
        reader.close()
    finally:
        other.execute("ROLLBACK")
        other.close()
    assert_meaning_answers(open_vault(environment={"VAULTMEM_EMBEDDER_NAME": "minilm"}))


# A server that does not answer


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("OLLAMA_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as running:
        yield running


class Times:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 10**9

    def pass_by(self, seconds: float) -> None:
        self.seconds += int(seconds)

    @property
    def clock(self) -> Clock:
        return Clock(now_ns=lambda: self.seconds * 10**9, elapsed=lambda: 0.0)


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def process(open_vault: Open, server: OllamaServer, times: Times) -> Callable[..., Memory]:
    """The vault as a new process opens it, with an Ollama server for its vectors."""

    def open_process(**settings: str) -> Memory:
        environment = {
            "VAULTMEM_EMBEDDER_NAME": "ollama",
            "VAULTMEM_EMBEDDER_HOST": server.url,
            "VAULTMEM_EMBEDDER_TIMEOUT": "1",
            **settings,
        }
        return open_vault(NOTES, environment=environment, clock=times.clock)

    return open_process


@pytest.fixture
def served(process: Open) -> Memory:
    """A process that has embedded the vault and answered a question."""
    memory = process()
    index(memory, IndexRequest())
    assert_meaning_answers(memory)
    return memory


def break_down(server: OllamaServer, fault: Fault) -> None:
    for path in ("/api/tags", "/api/show", "/api/embed"):
        server.faults[path] = fault


# Faults that are told at once; each is one way of not answering.
SUDDEN = [Fault.SHUT, Fault.GATEWAY_502, Fault.PAGE, Fault.ERROR_LIST, Fault.DROPPED]


@pytest.mark.parametrize("fault", SUDDEN)
def test_while_a_server_is_out_of_order_words_answer_with_the_reason(
    served: Memory, server: OllamaServer, fault: Fault
) -> None:
    break_down(server, fault)
    assert_words_answer(served, f"127.0.0.1:{server.port}", "nomic-embed-text")


@pytest.mark.parametrize(
    "fault", [Fault.OTHER_LENGTH, Fault.ALL_NAN, Fault.NO_EMBEDDINGS, Fault.ONE_MORE]
)
def test_an_answer_that_is_no_vector_is_not_used(
    served: Memory, server: OllamaServer, fault: Fault
) -> None:
    server.faults["/api/embed"] = fault
    assert_words_answer(served, "nomic-embed-text")


def test_within_a_minute_the_server_is_not_asked_again_by_anybody(
    served: Memory, process: Open, server: OllamaServer, times: Times
) -> None:
    break_down(server, Fault.SHUT)
    reason = assert_words_answer(served)
    asked = len(server.requests)
    assert asked > 0
    server.faults.clear()  # nobody can know
    other = process()
    for _ in range(5):
        times.pass_by(11)
        for memory in (served, other, process()):
            assert assert_words_answer(memory) == reason
    assert len(server.requests) == asked


def test_after_a_minute_it_is_asked_again_however_often_it_was_searched(
    served: Memory, process: Open, server: OllamaServer, times: Times
) -> None:
    break_down(server, Fault.SHUT)
    assert_words_answer(served)
    server.faults.clear()
    for _ in range(4):
        times.pass_by(14)
        assert_words_answer(served)
        assert_words_answer(process())
    times.pass_by(5)
    assert_meaning_answers(served)
    assert_meaning_answers(process())


def test_a_server_that_is_still_down_after_a_minute_is_asked_once(
    served: Memory, server: OllamaServer, times: Times
) -> None:
    break_down(server, Fault.SHUT)
    assert_words_answer(served)
    times.pass_by(61)
    before = len(server.requests)
    assert_words_answer(served)
    after = len(server.requests)
    assert after > before
    assert_words_answer(served)
    assert len(server.requests) == after


def test_a_stopped_server_is_named_and_is_not_missed_when_it_is_back(
    open_vault: Open, times: Times
) -> None:
    def start(url: str) -> Memory:
        environment = {"VAULTMEM_EMBEDDER_NAME": "ollama", "VAULTMEM_EMBEDDER_HOST": url}
        return open_vault(NOTES, environment=environment, clock=times.clock)

    with OllamaServer() as server:
        memory = start(server.url)
        index(memory, IndexRequest())
        assert_meaning_answers(memory)
    assert_words_answer(memory, "does not answer", "ollama serve")
    assert_words_answer(start(server.url), "does not answer", "ollama serve")


@pytest.mark.parametrize("fault", [Fault.SLOW, Fault.HUNG])
def test_a_server_that_hangs_costs_one_time_out_and_no_more(
    served: Memory, process: Open, server: OllamaServer, fault: Fault
) -> None:
    server.faults["/api/embed"] = fault
    began = time.monotonic()
    reply = ask(served)
    assert time.monotonic() - began < 30  # the setting says 1 s; the rest is a busy machine's
    assert reply.hits == by_words(served).hits
    assert "no answer within 1 s" in reply.degraded[-1]
    asked = len(server.requests)
    assert_words_answer(served, "no answer within 1 s")
    assert_words_answer(process(), "no answer within 1 s")
    assert len(server.requests) == asked


def test_a_busy_server_is_asked_once_more_and_answers(served: Memory, server: OllamaServer) -> None:
    server.busy = 1
    assert_meaning_answers(served)
    assert server.busy == 0


def test_doctor_asks_at_once(served: Memory, process: Open, server: OllamaServer) -> None:
    break_down(server, Fault.SHUT)
    reason = assert_words_answer(served)
    found = check(process(), "embedder")
    assert (found.ok, bool(found.fix)) == (False, True)
    assert str(server.port) in found.detail
    server.faults.clear()
    before = len(server.requests)
    found = check(process(), "embedder")
    assert found.ok, reason
    assert len(server.requests) > before


def test_what_doctor_has_seen_answer_is_asked_again_by_searches(
    served: Memory, process: Open, server: OllamaServer
) -> None:
    break_down(server, Fault.SHUT)
    assert_words_answer(served)
    server.faults.clear()
    assert check(process(), "embedder").ok
    assert_meaning_answers(process())
    assert_meaning_answers(served)


def test_an_index_run_asks_at_once_and_ends_the_outage(
    served: Memory, process: Open, server: OllamaServer
) -> None:
    break_down(server, Fault.SHUT)
    assert_words_answer(served)
    server.faults.clear()
    other = process()
    (other.vault / "new.md").write_text("A kiln of another kind.\n")
    reply = index(other, IndexRequest())
    assert reply.embedder is not None
    assert (reply.embedder.problem, reply.chunks.waiting) == ("", 0)
    assert_meaning_answers(other)
    assert_meaning_answers(served)


def test_another_server_is_asked_though_the_first_is_out_of_order(
    served: Memory, process: Open, server: OllamaServer
) -> None:
    break_down(server, Fault.SHUT)
    assert_words_answer(served)
    with OllamaServer() as second:
        assert_meaning_answers(process(VAULTMEM_EMBEDDER_HOST=second.url))


def test_a_question_that_the_model_refuses_is_no_outage(
    served: Memory, server: OllamaServer
) -> None:
    server.poison = "hen"
    assert_words_answer(served, "this question", query="hen")
    assert_meaning_answers(served, "horse")


# Other weights under the same name


@pytest.fixture
def renewed(served: Memory, server: OllamaServer) -> Memory:
    """The process that embedded the vault; the server's model is another one by now."""
    server.models[MODEL] = Model(digest="f" * 64)
    return served


def test_vectors_are_never_compared_with_those_of_other_weights(
    renewed: Memory, process: Open, server: OllamaServer
) -> None:
    before = len(server.asked("/api/embed"))
    for _ in range(2):
        assert_words_answer(process(), MODEL, "vaultmem index")
    assert len(server.asked("/api/embed")) == before


def test_other_weights_are_told_by_doctor(renewed: Memory, process: Open) -> None:
    checks = status(process(), StatusRequest(checks=True)).checks
    told = [c for c in checks if not c.ok and "vaultmem index" in f"{c.detail} {c.fix}"]
    assert [c.id for c in told if c.id in ("embedder", "vectors")]


def test_an_index_run_embeds_anew_for_other_weights(
    renewed: Memory, process: Open, server: OllamaServer
) -> None:
    other = process()
    assert_words_answer(other, "vaultmem index")  # which then has to work at once
    reply = index(other, IndexRequest())
    assert reply.chunks.embedded == len(NOTES)
    assert_meaning_answers(other)
    assert_meaning_answers(process())
    assert len(index(process(), IndexRequest()).problems) == 0
    assert index(process(), IndexRequest()).chunks.embedded == 0


def test_a_process_that_knew_the_old_weights_learns_of_the_new(
    renewed: Memory, process: Open
) -> None:
    index(process(), IndexRequest())
    assert_meaning_answers(renewed)


# A search and documents


def test_a_search_sends_the_server_the_question_and_no_note(
    served: Memory, server: OllamaServer
) -> None:
    (served.vault / "new.md").write_text("A kiln of another kind.\n")
    before = len(server.asked("/api/embed"))
    reply = ask(served, "another kiln")
    assert "new.md" in [hit.path for hit in reply.hits]
    (question,) = server.asked("/api/embed")[before:]
    assert question.texts == ["search_query: another kiln"]
    (reason,) = reply.degraded
    assert reason.startswith("1 of 17 passages are not embedded yet")


def test_by_words_alone_the_server_is_not_asked(served: Memory, server: OllamaServer) -> None:
    before = len(server.requests)
    by_words(served)
    search(served, SearchRequest("kiln", without=("vector",)))
    search(served, SearchRequest("path:00.md"))
    assert len(server.requests) == before
