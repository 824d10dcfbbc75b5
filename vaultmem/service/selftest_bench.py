"""Where `selftest` plays: a temporary folder, vaults in it, and what an index is held to."""

import errno
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from vaultmem.index.compare import differences
from vaultmem.index.store import SIDECAR_NAME
from vaultmem.model.errors import DiskFull, SidecarUnavailable
from vaultmem.service.application import Memory, open_memory
from vaultmem.service.mending import REBUILT, REMOVED
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchReply, SearchRequest, search
from vaultmem.service.selftest_edits import names, remove
from vaultmem.service.settings import load_settings

# Hidden, should somebody have it made inside a vault.
_PREFIX = ".vaultmem-selftest-"
# Of one case; the first tell enough.
_MOST_DIFFERENCES = 3


@contextmanager
def temporary_folder(base: Path) -> Iterator[Path]:
    """A new folder below `base`, which is made as well; gone afterwards, and with it what was made.

    Who is to keep it takes it away before the end. Raises SidecarUnavailable and DiskFull.
    """
    made: list[Path] = []
    with folder_errors(base):
        for above in (base, *base.parents):
            if above.exists():
                break
            made.append(above)
        try:
            base.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        except OSError:
            _remove_empty(made)
            raise
    try:
        with folder_errors(base):
            yield folder
    finally:
        remove(folder)
        _remove_empty(made)


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return  # somebody else has put something there meanwhile, or it was never made


@contextmanager
def folder_errors(folder: Path) -> Iterator[None]:
    """Failures of the file system inside become vaultmem's own errors."""
    try:
        yield
    except BrokenPipeError:
        raise  # of our own output
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(
                f"The disk of {folder} is full. Free 20 MB of room, or name another folder "
                "with --in."
            ) from None
        raise SidecarUnavailable(
            f"The folder {folder} cannot be used: {error.strerror or error}. "
            "Name another one with --in."
        ) from None


@dataclass(frozen=True, slots=True)
class Place:
    """A vault, its index, and what a person decided about it: nobody's real ones."""

    folder: Path

    @property
    def vault(self) -> Path:
        """The notes."""
        return self.folder / "vault"

    @property
    def cache(self) -> Path:
        """Where the index under test lies."""
        return self.folder / "cache"

    @property
    def spare(self) -> Path:
        """For files on their way into the vault."""
        return self.folder / "spare"

    def opened(self, cache: Path | None = None, *, refresh: str = "auto") -> Memory:
        """The vault, with settings that nobody's configuration or environment touches.

        cache:   another place for the index than `cache`.
        refresh: the setting search.refresh.
        """
        environment = {
            "VAULTMEM_EMBEDDER_NAME": "none",
            "VAULTMEM_STATE_DIR": str(self.folder / "state"),
            "VAULTMEM_SEARCH_REFRESH": refresh,
        }
        return open_memory(load_settings(self.vault, cache or self.cache, environment=environment))

    @contextmanager
    def indexed_anew(self) -> Iterator[Memory]:
        """An index of the vault made from nothing, as long as it is looked at."""
        cache = self.folder / "anew"
        memory = self.opened(cache)
        try:
            index(memory, IndexRequest())
            yield memory
        finally:
            memory.close()
            remove(cache)


def ask(memory: Memory, query: str) -> SearchReply:
    """Search by words."""
    return search(memory, SearchRequest(query, limit=5, mode="keyword"))


def strange_answers(
    memory: Memory, queries: Sequence[str], *, files_come_and_go: bool = False
) -> list[str]:
    """What is wrong with the answers to some questions.

    They name files that are not there, or say that the index was damaged.
    """
    wrong: list[str] = []
    for query in queries:
        reply = ask(memory, query)
        wrong += [said for said in reply.degraded if said in (REBUILT, REMOVED)]
        gone = [hit.path for hit in reply.hits if not (memory.vault / hit.path).is_file()]
        if gone and not files_come_and_go:
            wrong.append(f"a search for {query} finds {', '.join(gone)}, which is not there")
    return wrong


def not_found(memory: Memory, place: str, word: str) -> list[str]:
    """What is wrong where a word that one note alone says does not lead to it."""
    found = [hit.path for hit in ask(memory, word).hits]
    if [path.casefold() for path in found] == [place.casefold()]:
        return []
    return [f"{word}, just written to {place}, is found in {', '.join(found) or 'nothing'}"]


def index_faults(memory: Memory, anew: Memory) -> list[str]:
    """What is wrong with an index once it has been brought up to date; [] where nothing is.

    anew: one made from nothing.
    """
    reply = index(memory, IndexRequest())
    wrong = [f"indexing said: {said}" for said in reply.degraded]
    with memory.guarded(), anew.guarded():
        kept, made = memory.open_sidecar(), anew.open_sidecar()
        if kept is None or made is None:
            return [*wrong, "there is no index after indexing"]
        found = kept.integrity_check()
        if found != "ok":
            wrong.append(f"SQLite finds: {found}")
        for difference in islice(differences(kept, made), _MOST_DIFFERENCES):
            wrong.append(f"{difference.path or 'no note'}, {difference.table}: {difference.found}")
    return wrong


def left_behind(cache: Path, usual: Sequence[str]) -> list[str]:
    """What is wrong with the files of a closed index: some are too many, or missing."""
    odd = set(names(cache)) ^ set(usual)
    # A rollback journal that was not yet written out undoes nothing, and goes at the next commit.
    odd = {name for name in odd if not name.endswith(f"{SIDECAR_NAME}-journal")}
    return [f"too many or missing in the cache folder: {', '.join(sorted(odd))}"] if odd else []
