"""The demonstration: every step a person would take, on a copy of the sample vault."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vaultmem.model.errors import DiskFull
from vaultmem.service.application import Clock, Memory, open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.lint import LintRequest, lint
from vaultmem.service.operations.read import ReadRequest, read
from vaultmem.service.operations.related import RelatedRequest, related
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.settings import load_settings
from vaultmem.service.shipped import shipped_folder


@dataclass(frozen=True, slots=True)
class DemoStep:
    """One step and how it went."""

    name: str
    passed: bool
    seconds: float
    detail: str


@dataclass(frozen=True, slots=True)
class DemoReply:
    """The whole demonstration."""

    notes: int
    steps: tuple[DemoStep, ...]
    next: str  # what to try on one's own vault

    @property
    def passed(self) -> bool:
        """Whether every step did."""
        return all(step.passed for step in self.steps)


def run_demo(clock: Clock | None = None) -> DemoReply:
    """Index, search, read and check a copy of the sample vault in a temporary folder."""
    clock = clock or Clock()
    with _sample_copy() as (vault, cache):
        # Words first: the vectors of the whole sample take half a minute on a slow machine.
        words_only = {"VAULTMEM_EMBEDDER_NAME": "none"}
        memory = open_memory(load_settings(vault, cache, environment=words_only), clock=clock)
        try:
            steps = tuple(_step(name, run, memory, clock) for name, run in _STEPS)
            notes = index(memory, IndexRequest()).notes.total
        finally:
            memory.close()
    return DemoReply(
        notes, steps, "vaultmem --vault PATH_TO_YOUR_NOTES search 'something you know'"
    )


@contextmanager
def _sample_copy() -> Iterator[tuple[Path, Path]]:
    with tempfile.TemporaryDirectory(prefix="vaultmem-demo-") as folder:
        vault = Path(folder, "Sample vault")
        try:
            shutil.copytree(shipped_folder("sample_vault"), vault)
        except shutil.Error:
            raise DiskFull(
                f"The sample vault could not be copied to {folder}; the disk seems full. "
                "Set TMPDIR to a folder with 5 MB of room."
            ) from None
        yield vault, Path(folder, "cache")


def _step(
    name: str, run: Callable[[Memory], tuple[bool, str]], memory: Memory, clock: Clock
) -> DemoStep:
    started = clock.elapsed()
    passed, detail = run(memory)
    return DemoStep(name, passed, round(clock.elapsed() - started, 3), detail)


def _index(memory: Memory) -> tuple[bool, str]:
    reply = index(memory, IndexRequest())
    detail = (
        f"{reply.notes.added} notes in {reply.chunks.total} passages, "
        f"{len(reply.problems)} with a problem"
    )
    return reply.notes.added == reply.notes.total > 0, detail


def _index_again(memory: Memory) -> tuple[bool, str]:
    counts = index(memory, IndexRequest()).notes
    work = counts.added + counts.changed + counts.renamed + counts.removed
    return work == 0 and counts.unchanged == counts.total, f"{counts.unchanged} unchanged, no work"


def _finds(query: str, path: str) -> Callable[[Memory], tuple[bool, str]]:
    def run(memory: Memory) -> tuple[bool, str]:
        hits = search(memory, SearchRequest(query, limit=3)).hits
        first = hits[0].path if hits else "nothing"
        return first == path, f"{query}  ->  {first}"

    return run


def _read(memory: Memory) -> tuple[bool, str]:
    reply = read(memory, ReadRequest("PostgreSQL - too many clients#Root cause"))
    return bool(reply.text), f"lines {reply.lines[0]} to {reply.lines[1]} of {reply.path}"


def _links(memory: Memory) -> tuple[bool, str]:
    reply = related(memory, RelatedRequest("Mara Lindqvist"))
    return bool(
        reply.backlinks
    ), f"{len(reply.backlinks)} lines of other notes link to {reply.path}"


def _meaning(memory: Memory) -> tuple[bool, str]:
    """A question in other words than the note's, on the folder of errors alone, embedded."""
    vault, cache = memory.vault / "Errors", memory.folder / "errors"
    errors = open_memory(load_settings(vault, cache, environment={}), clock=memory.clock)
    try:
        made = index(errors, IndexRequest()).chunks.embedded
        query = "the database refuses more connections"
        reply = search(errors, SearchRequest(query, limit=1, mode="semantic"))
    finally:
        errors.close()
    first = reply.hits[0].path if reply.hits else "nothing"
    passed = reply.mode == "semantic" and first == "PostgreSQL - too many clients.md"
    return passed, f"{made} passages embedded; {query}  ->  {first}"


def _lint(memory: Memory) -> tuple[bool, str]:
    reply = lint(memory, LintRequest())
    detail = (
        f"{len(reply.unresolved)} links to notes that do not exist, "
        f"{len(reply.problems)} note with broken properties"
    )
    return bool(reply.unresolved) and bool(reply.problems), detail


_STEPS: tuple[tuple[str, Callable[[Memory], tuple[bool, str]]], ...] = (
    ("index", _index),
    ("index again", _index_again),
    ("search words", _finds("too many clients", "Errors/PostgreSQL - too many clients.md")),
    ("search a typo", _finds("sourdogh", "Personal/Sourdough log.md")),
    ("search another script", _finds("京都 銭湯", "Personal/京都の春.md")),
    ("search by meaning", _meaning),
    ("read a section", _read),
    ("links", _links),
    ("lint", _lint),
)
