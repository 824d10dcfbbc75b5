"""Embedding that is interrupted, killed, or robbed of its files: no vector is lost or wrong."""

import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest
from counted_embedder import (
    Codes,
    Counted,
    assert_alike,
    assert_vectors_are_true,
    distinct_texts,
    kept_texts,
    opened,
    use,
    vectors,
    without_vector,
)

from vaultmem.model.errors import SidecarUnavailable
from vaultmem.service.application import Memory, Progress, open_memory
from vaultmem.service.operations.index import IndexReply, IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.settings import load_settings

Open = Callable[..., Memory]
Run = Callable[[Memory], IndexReply]

MINILM = {"VAULTMEM_EMBEDDER_NAME": "minilm"}
WORDS_ONLY = {"VAULTMEM_EMBEDDER_NAME": "none"}
MULTILINGUAL = {"VAULTMEM_EMBEDDER_NAME": "multilingual"}

QUIET = Progress()
SOME = 100  # several batches, on however many cores


def write_files(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)


def notes(count: int, *, seed: int = 0) -> dict[str, str]:
    """Notes of two passages; every third has a passage that others have, too."""
    chance = random.Random(seed)
    things = ("kiln", "clay", "glaze", "wheel", "vase", "bowl", "ash", "copper")
    return {
        f"n{i:04}.md": f"# Day {i}\n\n{' '.join(chance.choices(things, k=6))}\n\n"
        f"# {'Rest' if i % 3 == 0 else f'More {i}'}\n\n"
        f"{'Nothing.' if i % 3 == 0 else ' '.join(chance.choices(things, k=4))}\n"
        for i in range(count)
    }


def stop_at_report(number: int, stage: str = "embed") -> Progress:
    """Press Ctrl-C at the n-th report of embedding, from 0."""
    seen: list[int] = []

    def report(at: str, done: int, total: int) -> None:
        if at == stage:
            seen.append(done)
            if len(seen) > number:
                raise KeyboardInterrupt

    return Progress(report)


MANY = notes(200)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bytes, Codes]]:
    """Hash of a text -> codes, of a vault of MANY, embedded in one run."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    write_files(folder / "vault", MANY)
    memory = open_memory(load_settings(folder / "vault", folder / "cache", environment=MINILM))
    index(memory, IndexRequest())
    yield vectors(memory)
    memory.close()


@pytest.mark.parametrize("seed", range(5))
def test_ten_interruptions_at_random_compute_every_vector_once(
    seed: int, open_vault: Open, uninterrupted: dict[bytes, Codes]
) -> None:
    memory = open_vault(MANY, environment=MINILM)
    index(memory, IndexRequest(embed=False))
    embedder = use(memory, Counted())
    kept = 0
    # At the first report nothing is computed, at a later one three or four batches at most.
    moments = [0] * 4 + [1] * 5 + [2]
    random.Random(seed).shuffle(moments)
    for moment in moments:
        memory.progress = stop_at_report(moment)
        with pytest.raises(KeyboardInterrupt):
            index(memory, IndexRequest())
        assert kept <= len(kept_texts(memory)) == len(embedder.texts)
        kept = len(kept_texts(memory))
    assert 0 < kept < distinct_texts(memory)
    memory.progress = QUIET
    assert index(memory, IndexRequest()).chunks.embedded == distinct_texts(memory) - kept
    assert len(embedder.texts) == len(set(embedder.texts)) == distinct_texts(memory)
    assert_alike(vectors(memory), uninterrupted)


def test_an_interrupted_vault_is_searched_by_the_vectors_it_has(open_vault: Open) -> None:
    memory = open_vault(notes(SOME), environment=MINILM, progress=stop_at_report(1))
    with pytest.raises(KeyboardInterrupt):
        index(memory, IndexRequest())
    total, waiting = distinct_texts(memory), without_vector(memory)
    assert 0 < waiting < total
    memory.progress = QUIET
    reply = search(memory, SearchRequest("pottery", mode="semantic", limit=5))
    assert len(reply.hits) == 5
    assert any(f"{waiting} of " in reason for reason in reply.degraded)
    assert without_vector(memory) == waiting


INDEX_AND_COUNT = """
import sys
from vaultmem.service.application import Progress, open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.settings import load_settings
def report(stage, done, total):
    if stage == "embed":
        print(done, flush=True)
        sys.stdin.readline()
settings = load_settings(sys.argv[1], sys.argv[2], environment={"VAULTMEM_EMBEDDER_NAME": "minilm"})
index(open_memory(settings, progress=Progress(report)), IndexRequest())
"""


def kill(memory: Memory, cache: Path, *, at: int, by: int) -> int:
    """Index in a process of its own, and end it once so many vectors were reported.

    It waits to be told to go on at every report, and so never ends before it is ended.
    """
    command = [sys.executable, "-c", INDEX_AND_COUNT, str(memory.vault), str(cache)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            process.stdin.write("\n")
            process.stdin.flush()
            if int(line) >= at:
                process.send_signal(by)
                break
        else:
            pytest.fail(f"{at} vectors were never reported")
        process.wait(60)
    return process.returncode


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_processes_ended_at_random_lose_at_most_what_was_being_computed(
    by: int, open_vault: Open, tmp_path: Path, uninterrupted: dict[bytes, Codes]
) -> None:
    chance = random.Random(by)
    memory = open_vault(MANY, environment=MINILM)
    index(memory, IndexRequest(embed=False))
    kept = 0
    for _ in range(2):
        at = chance.randrange(0, 70)
        assert kill(memory, tmp_path / "cache", at=at, by=by) != 0
        sidecar = memory.open_sidecar()
        assert sidecar is not None
        assert sidecar.quick_check() == "ok"
        there = len(kept_texts(memory)) if memory.open_cache() is not None else 0
        assert there >= kept + at - at % 16
        kept = there
    total = distinct_texts(memory)
    assert 0 < kept < total
    embedder = use(memory, Counted())
    assert index(memory, IndexRequest()).chunks.embedded == total - kept
    assert len(embedder.texts) == total - kept
    assert_alike(vectors(memory), uninterrupted)
    _, cache = opened(memory)
    assert cache.query("PRAGMA quick_check", ()) == [("ok",)]


# At any statement


class AtStatement:
    """Does something just before the n-th statement of a connection that writes."""

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        self.number, self.act, self.seen = number, act, 0

    def __call__(self, cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        self.seen += 1
        if self.seen == self.number:
            self.act()
        return True


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("database", ["sidecar", "cache"])
def test_an_interruption_between_any_two_statements_leaves_true_vectors(
    database: str, open_vault: Open
) -> None:
    few = notes(3)
    memory = open_vault(few, environment=MINILM)
    index(memory, IndexRequest())
    chance = random.Random(3)
    number = 0
    ended = False
    while not ended:
        number += 1
        for name in chance.sample(sorted(few), 2):
            (memory.vault / name).write_text(f"# Day\n\nBatch {number} of {name}.\n")
        index(memory, IndexRequest(embed=False))
        use(memory, Counted())
        sidecar, cache = opened(memory)
        connection = sidecar.connection if database == "sidecar" else cache._db
        connection.exec_trace = AtStatement(number, interrupt)
        try:
            index(memory, IndexRequest())
            ended = True
        except (KeyboardInterrupt, apsw.ExecTraceAbort):
            pass
        finally:
            connection.exec_trace = None
        index(memory, IndexRequest())
        assert_vectors_are_true(memory)
    assert number > 5


# Files taken away

in_use = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows does not let go of a file that is in use"
)


@pytest.fixture
def half_done(open_vault: Open) -> Callable[[Callable[[], object]], Memory]:
    """A vault that is being embedded: at the second report something is done to it."""

    def embed(act: Callable[[], object]) -> Memory:
        reports: list[int] = []

        def report(stage: str, done: int, total: int) -> None:
            if stage == "embed":
                reports.append(done)
                if len(reports) == 2:
                    act()

        memory = open_vault(notes(SOME), environment=MINILM)
        index(memory, IndexRequest(embed=False))
        memory.progress = Progress(report)
        return memory

    return embed


@in_use
def test_a_cache_of_embeddings_that_is_deleted_meanwhile_is_made_anew_by_the_next_run(
    half_done: Callable[[Callable[[], object]], Memory],
) -> None:
    def delete() -> None:
        for path in memory.folder.glob("embeddings.db*"):
            path.unlink()

    memory = half_done(delete)
    embedder = use(memory, Counted())
    reply = index(memory, IndexRequest())
    assert reply.embedder is not None
    assert len(embedder.texts) < distinct_texts(memory), "nothing can be kept any more"
    memory.progress = QUIET
    assert index(memory, IndexRequest()).chunks.waiting == 0
    assert_vectors_are_true(memory)


@in_use
def test_a_sidecar_that_is_rebuilt_meanwhile_gets_the_vectors_that_are_there(
    half_done: Callable[[Callable[[], object]], Memory], open_vault: Open
) -> None:
    other = open_vault(environment=WORDS_ONLY)
    memory = half_done(lambda: index(other, IndexRequest(rebuild=True)))
    embedder = use(memory, Counted())
    index(memory, IndexRequest())
    memory.progress = QUIET
    index(memory, IndexRequest())
    assert len(set(embedder.texts)) == len(embedder.texts)
    assert_vectors_are_true(memory)


@in_use
def test_a_sidecar_that_is_deleted_meanwhile_is_named_and_made_anew(
    half_done: Callable[[Callable[[], object]], Memory],
) -> None:
    def delete() -> None:
        for path in memory.folder.glob("index.db*"):
            path.unlink()

    memory = half_done(delete)
    use(memory, Counted())
    with pytest.raises(SidecarUnavailable, match="removed"):
        index(memory, IndexRequest())
    memory.progress = QUIET
    assert index(memory, IndexRequest()).chunks.waiting == 0
    assert_vectors_are_true(memory)


@in_use
def test_a_whole_cache_folder_that_is_deleted_meanwhile_is_no_crash(
    half_done: Callable[[Callable[[], object]], Memory],
) -> None:
    memory = half_done(lambda: shutil.rmtree(memory.folder))
    use(memory, Counted())
    with pytest.raises(SidecarUnavailable):
        index(memory, IndexRequest())
    memory.progress = QUIET
    assert index(memory, IndexRequest()).chunks.waiting == 0
    assert_vectors_are_true(memory)


def test_matrix_files_that_are_deleted_or_cut_cost_nothing(open_vault: Open) -> None:
    memory = open_vault(notes(20), environment=MINILM)
    index(memory, IndexRequest())
    asked = SearchRequest("pottery", mode="semantic", limit=10)
    before = search(memory, asked).hits
    for damage in ("delete", "cut", "zero"):
        memory.close()
        (file,) = memory.folder.glob("vectors-*.i8")
        match damage:
            case "delete":
                file.unlink()
            case "cut":
                file.write_bytes(file.read_bytes()[:-1000])
            case "zero":
                file.write_bytes(bytes(file.stat().st_size))
        assert search(memory, asked).hits == before
        (memory.vault / "new.md").write_text(f"A new {damage}.")
        assert index(memory, IndexRequest()).chunks.embedded == 1
        (memory.vault / "new.md").unlink()
        index(memory, IndexRequest())
        assert search(memory, asked).hits == before
    assert_vectors_are_true(memory)


@pytest.mark.parametrize("where", [0.0, 0.3, 0.6, 0.9])
def test_a_damaged_cache_of_embeddings_leaves_search_by_words_and_is_got_over(
    where: float, open_vault: Open
) -> None:
    memory = open_vault(notes(60), environment=MINILM)
    index(memory, IndexRequest())
    memory.close()
    file = memory.folder / "embeddings.db"
    data = bytearray(file.read_bytes())
    at = int(len(data) * where)
    data[at : at + 8192] = b"\xa5" * 8192
    file.write_bytes(data)
    assert search(memory, SearchRequest("kiln clay")).hits
    (memory.vault / "new.md").write_text("A new kiln.")
    assert search(memory, SearchRequest("kiln clay")).hits
    index(memory, IndexRequest(rebuild=True))
    index(memory, IndexRequest())
    assert_vectors_are_true(memory)
