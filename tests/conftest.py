"""Fixtures: vaults of real files with real sidecars, and a clock that stands still."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from canon import index_lines
from hypothesis import settings

from vaultmem.index.update import stored_files
from vaultmem.service.application import Clock, Memory, Progress, open_memory
from vaultmem.service.operations.index import IndexReply, IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.settings import load_settings

# The same examples in every run; `--hypothesis-profile=default` draws others.
settings.register_profile("seeded", derandomize=True, database=None)
settings.load_profile("seeded")

# Long before any file of a test was written: every file is young, so every look reads its bytes.
LONG_AGO_NS = int(datetime(2001, 9, 9, tzinfo=UTC).timestamp()) * 10**9
# Long after: no file is young, so size, times and inode alone decide who is read.
FAR_AHEAD_NS = int(datetime(2101, 1, 1, tzinfo=UTC).timestamp()) * 10**9


@pytest.fixture
def long_ago() -> Clock:
    return Clock(now_ns=lambda: LONG_AGO_NS, elapsed=lambda: 0.0)


@pytest.fixture
def far_ahead() -> Clock:
    return Clock(now_ns=lambda: FAR_AHEAD_NS, elapsed=lambda: 0.0)


@pytest.fixture
def write() -> Callable[[Path, Mapping[str, str | bytes]], None]:
    """Write files below a folder: path -> text or bytes."""
    return write_files


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for path, content in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.fixture
def open_vault(tmp_path: Path, long_ago: Clock) -> Iterator[Callable[..., Memory]]:
    """Open a vault below tmp_path: open_vault(files, name=…, cache=…, clock=…, environment=…)."""
    opened: list[Memory] = []

    def open_one(
        files: Mapping[str, str | bytes] | None = None,
        *,
        name: str = "vault",
        cache: str = "cache",
        clock: Clock | None = None,
        progress: Progress | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Memory:
        vault = tmp_path / name
        vault.mkdir(exist_ok=True)
        write_files(vault, files or {})
        # Vectors only where a test is about them: embedding takes most of a second a note.
        chosen = {
            "VAULTMEM_EMBEDDER_NAME": "none",
            "VAULTMEM_STATE_DIR": str(tmp_path / "state"),
            **(environment or {}),
        }
        settings = load_settings(vault, tmp_path / cache, environment=chosen)
        memory = open_memory(settings, clock=clock or long_ago, progress=progress)
        opened.append(memory)
        return memory

    yield open_one
    for memory in opened:
        memory.close()


@pytest.fixture
def indexed(open_vault: Callable[..., Memory]) -> Callable[..., Memory]:
    """Open a vault as `open_vault` does, and index it."""

    def open_indexed(*arguments: Any, **options: Any) -> Memory:
        memory = open_vault(*arguments, **options)
        index(memory, IndexRequest())
        return memory

    return open_indexed


@pytest.fixture
def run_index() -> Callable[[Memory], IndexReply]:
    """Bring the index up to date."""
    return lambda memory: index(memory, IndexRequest())


@pytest.fixture
def find() -> Callable[..., list[str]]:
    """Paths of the hits of a search, best first: find(memory, query, tags=…, limit=…)."""
    return lambda memory, query, **options: [
        hit.path for hit in search(memory, SearchRequest(query, **options)).hits
    ]


@pytest.fixture
def note_rows() -> Callable[[Memory], dict[str, int]]:
    """Note path -> row id."""

    def rows(memory: Memory) -> dict[str, int]:
        assert memory.sidecar is not None
        assert stored_files(memory.sidecar)
        return dict(memory.sidecar.connection.execute("SELECT path, id FROM note"))

    return rows


@pytest.fixture
def links() -> Callable[[Memory], list[tuple[str, str, str | None]]]:
    """(path, link text, where it leads) of every link, sorted."""

    def rows(memory: Memory) -> list[tuple[str, str, str | None]]:
        assert memory.sidecar is not None
        return list(
            memory.sidecar.connection.execute(
                "SELECT note.path, link.target, link.resolved FROM link "
                "JOIN note ON note.id = link.note ORDER BY note.path, link.ordinal"
            )
        )

    return rows


@pytest.fixture
def canon() -> Callable[[Memory], list[str]]:
    """Every row of a sidecar as text: ids replaced by paths and keys, without clocks, sorted."""
    return index_lines


@pytest.fixture
def assert_equals_rebuild(open_vault: Callable[..., Memory]) -> Callable[[Memory], None]:
    """Compare a sidecar row by row with one made from nothing."""

    def compare(memory: Memory) -> None:
        fresh = open_vault(name=memory.vault.name, cache="fresh", clock=memory.clock)
        index(fresh, IndexRequest(rebuild=True))
        assert index_lines(memory) == index_lines(fresh)

    return compare
