"""Indexing runs on a disk that fails, and what must hold after each of them."""

import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import apsw
import numpy as np
from canon import canon_lines
from failing_vfs import Failure
from numpy.typing import NDArray

from vaultmem.embedding.embedder import Embedded, Languages, Space
from vaultmem.index.store import Sidecar
from vaultmem.model.errors import DiskFull, SidecarUnavailable, VaultmemError, all_errors
from vaultmem.service.application import Clock, Memory, open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.settings import load_settings

# Long after: no file is young, so size, times and inode decide who is read again, and a hash that
# was stamped too early is believed.
FAR_AHEAD = Clock(now_ns=lambda: 4 * 10**18, elapsed=lambda: 0.0)

NOTES = {
    "a.md": "---\ntags: [pottery]\naliases: [Alpha]\n---\n# A\n\nkiln [[b]]\n",
    "b.md": "# B\n\nclay ![[plan.png]] [[c]]\n\n## More\n\nglaze and ash\n",
    "one/c.md": "- [ ] fire the kiln\n\n[[Alpha]]\n",
    "one/d.md": "slip and [[gone]]\n",
    "plan.png": "no note",
}


def write_notes(vault: Path, notes: Mapping[str, str]) -> None:
    """Write files: path below the vault -> text."""
    for path, text in notes.items():
        file = vault / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())


def edit(vault: Path) -> None:
    """Add, edit, delete and rename a note."""
    write_notes(vault, {"new.md": "# New\n\nceladon [[a]]\n", "b.md": "# B\n\nstoneware [[new]]\n"})
    (vault / "one" / "d.md").unlink()
    (vault / "one" / "c.md").rename(vault / "moved.md")


def leave(vault: Path) -> None:
    """Change nothing."""


class Hashed:
    """An embedder whose vectors follow from the letters of a text; it keeps what it embedded."""

    space = Space("minilm", "hashed", "0", 8)
    languages = Languages.MANY
    parallel = 1

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> Embedded:
        """A unit vector for each."""
        self.texts += texts
        return Embedded(np.array([self.embed_query(text) for text in texts], np.float32))

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """A unit vector."""
        drawn = np.frombuffer(sha256(text.encode()).digest()[:8], np.uint8).astype(np.float32) + 1
        return (drawn / np.linalg.norm(drawn)).astype(np.float32)

    def close(self) -> None:
        """There is nothing to let go of."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run: what was indexed before it, what was done to the vault since, and how it is made."""

    name: str
    before: Mapping[str, str] | None = None  # None for a first index
    change: Callable[[Path], None] = leave
    rebuild: bool = False
    vectors: bool = False
    vectors_before: bool = False

    @property
    def request(self) -> IndexRequest:
        """What is asked of `index`."""
        return IndexRequest(rebuild=self.rebuild, embed=self.vectors)


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("first"),
        Scenario("delta", NOTES, edit),
        Scenario("rebuild", NOTES, rebuild=True),
        Scenario("embed", NOTES, vectors=True),
        Scenario("embed more", NOTES, edit, vectors=True, vectors_before=True),
    )
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    code: str = ""  # of vaultmem's error; "" when it reported none
    exit_code: int = 0
    message: str = ""
    strange: str = ""  # an error that is not vaultmem's, as text


@dataclass(slots=True)
class Bench:
    """One scenario with one journal: the vault, the cache as it was before, and the truth."""

    folder: Path
    scenario: Scenario
    journal: str
    vault: Path = field(init=False)
    golden: list[str] = field(init=False)
    known: frozenset[str] = field(init=False)  # texts that have a vector before the run
    notes: dict[str, str] = field(init=False)  # path -> SHA-256 of each note that the run finds
    same: dict[str, str] = field(init=False)  # those that are as they were
    _listing: dict[str, object] = field(init=False)
    _embedder: Hashed = field(init=False, default_factory=Hashed)  # of the last attempt

    def __post_init__(self) -> None:
        self.vault = self.folder / "vault"
        write_notes(self.vault, NOTES)
        embedder = Hashed()
        if self.scenario.before is not None:
            memory = self.memory("before", embedder)
            index(memory, IndexRequest(embed=self.scenario.vectors_before))
            memory.close()
        self.known = frozenset(embedder.texts)
        before = notes_of(self.vault) if self.scenario.before is not None else {}
        self.scenario.change(self.vault)
        self.notes = notes_of(self.vault)
        self.same = {p: digest for p, digest in self.notes.items() if before.get(p) == digest}
        memory = self.memory("golden", Hashed())
        index(memory, IndexRequest(embed=self.scenario.vectors))
        self.golden = canon_lines(memory)
        memory.close()
        self._listing = listing(self.vault)

    def memory(self, cache: str = "cache", embedder: Hashed | None = None) -> Memory:
        """The vault, opened with a cache folder of that name."""
        settings = load_settings(
            self.vault,
            self.folder / cache,
            environment={
                "VAULTMEM_STATE_DIR": str(self.folder / "state"),
                "VAULTMEM_SIDECAR_JOURNAL": self.journal,
                "VAULTMEM_EMBEDDER_NAME": "minilm" if self.scenario.vectors else "none",
            },
        )
        memory = open_memory(settings, clock=FAR_AHEAD)
        if embedder is not None:
            memory.embedders["minilm"] = embedder
        return memory

    def reset(self) -> None:
        """Put the cache back to what it was before the run."""
        cache = self.folder / "cache"
        shutil.rmtree(cache, ignore_errors=True)  # (where a disk is mounted there, it stays)
        if self.scenario.before is not None:
            shutil.copytree(self.folder / "before", cache, dirs_exist_ok=True)

    def attempt(self) -> Outcome:
        """The run of the scenario, from the cache as it is now to everything closed."""
        self._embedder = Hashed()
        memory = self.memory(embedder=self._embedder)
        try:
            return outcome(memory, self.scenario.request)
        finally:
            _close(memory)

    def violations(
        self, ended: Outcome, refused: Failure | None, *, nameless: bool = False
    ) -> list[str]:
        """What is not as promised after a run. Runs again, with the disk in order.

        refused: as what the disk refused something, None where it refused nothing. nameless:
        whether the error there does not tell a full disk from a broken one.
        """
        found: list[str] = []
        if ended.strange:
            found.append(f"an error of another kind: {ended.strange}")
        if ended.code and refused is None:
            found.append(f"an error without a reason: {ended.message}")
        if ended.code and ended.code not in (DiskFull.code, SidecarUnavailable.code):
            found.append(f"the error is {ended.code}: {ended.message}")
        if ended.code == DiskFull.code and refused is Failure.BROKEN:
            found.append(f"a broken disk is called full: {ended.message}")
        # (sqlite-vec has one name for all that goes wrong.)
        unnamed = nameless or self.scenario.vectors
        if ended.code == SidecarUnavailable.code and refused is Failure.FULL and not unnamed:
            found.append(f"a full disk is called broken: {ended.message}")
        if ended.code and str(self.folder / "cache") not in ended.message:
            found.append(f"the message names no path: {ended.message}")
        found += self._untouched("the run")
        found += self._sound()
        found += self._kept(done=not ended.code and not ended.strange)
        found += self.healed()
        return found

    def _untouched(self, by: str) -> list[str]:
        return [] if listing(self.vault) == self._listing else [f"the vault was changed by {by}"]

    def _sound(self) -> list[str]:
        """What SQLite has to say of the databases, as whoever opens them next finds them."""
        found: list[str] = []
        for path in sorted((self.folder / "cache").rglob("*.db")):
            connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                verdict = connection.execute("PRAGMA integrity_check(3)").fetchall()
                if verdict != [("ok",)]:
                    found.append(f"{path.name} is damaged: {verdict}")
            except apsw.Error as error:
                found.append(f"{path.name} is damaged: {error!r}")
            finally:
                connection.close()
        return found

    def _kept(self, *, done: bool) -> list[str]:
        """Whether what was known before is known still, and all of it where the run says so."""
        memory = self.memory()
        try:
            sidecar = memory.open_sidecar()
            if done and sidecar is None:
                return ["the run was through, and there is no index"]
            if done:
                return [] if canon_lines(memory) == self.golden else ["the run was through by half"]
            if self.scenario.before is None:
                return []
            if sidecar is None:
                return ["the index there was is gone"]
            lost = self.same.items() - _stored(sidecar).items()
            return [f"no longer indexed: {sorted(lost)}"] if lost else []
        except (VaultmemError, apsw.Error, LookupError) as error:
            return [f"what is left cannot be read: {error!r}"]
        finally:
            memory.close()

    def stored(self) -> dict[str, str]:
        """Path -> SHA-256 of each note that is indexed."""
        memory = self.memory()
        try:
            sidecar = memory.open_sidecar()
            return _stored(sidecar) if sidecar is not None else {}
        finally:
            memory.close()

    def healed(self) -> list[str]:
        """Run again: it must end with what a fresh index has, computing no vector twice."""
        embedder = Hashed()
        memory = self.memory(embedder=embedder)
        found: list[str] = []
        try:
            ended = outcome(memory, IndexRequest(embed=self.scenario.vectors))
            if ended.code or ended.strange:
                return [f"the next run fails: {ended.message}{ended.strange}"]
            if memory.notices:
                found.append(f"the next run says: {memory.notices}")
            try:
                same = canon_lines(memory) == self.golden
            except (apsw.Error, LookupError):  # rows that contradict each other
                same = False
            if not same:
                found.append("the next run does not end with what a fresh index has")
            again = self.known & {*self._embedder.texts, *embedder.texts}
            if again:
                found.append(f"vectors were lost: {sorted(again)}")
        finally:
            memory.close()
        kept = sorted(file.name for file in memory.folder.iterdir())
        strange = [n for n in kept if n.endswith((".new", "-wal"))]
        if strange:
            found.append(f"left behind: {strange}")
        return found + self._untouched("the next run")


def _stored(sidecar: Sidecar) -> dict[str, str]:
    return dict(sidecar.connection.execute("SELECT path, sha256 FROM note"))


def _close(memory: Memory) -> None:
    """Close it, also where the disk goes on failing.

    SQLite itself tells nobody what goes wrong at closing; a file layer in Python does, once for
    each of the two databases.
    """
    for _ in range(2):
        with suppress(apsw.FullError, apsw.IOError):
            memory.close()
    memory.close()


def outcome(memory: Memory, request: IndexRequest) -> Outcome:
    """How `vaultmem index` would end: its error, or that of the vectors alone."""
    try:
        reply = index(memory, request)
    except VaultmemError as error:
        return Outcome(error.code, error.exit_code, str(error))
    except Exception as error:  # noqa: BLE001 - another kind of error is what is looked for
        return Outcome(strange=repr(error))
    use = reply.embedder
    if use is None or not use.problem:
        return Outcome()
    exit_code = next(kind.exit_code for kind in all_errors() if kind.code == use.code)
    return Outcome(use.code, exit_code, use.problem)


def notes_of(vault: Path) -> dict[str, str]:
    """Path below the vault -> SHA-256 of every note."""
    return {
        file.relative_to(vault).as_posix(): sha256(file.read_bytes()).hexdigest()
        for file in vault.rglob("*.md")
    }


def listing(folder: Path) -> dict[str, object]:
    """Bytes and lstat, all but the time of access, of everything in a folder."""
    seen: dict[str, object] = {}
    for root, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            path = os.path.join(root, name)
            state = os.lstat(path)
            content = Path(path).read_bytes() if stat.S_ISREG(state.st_mode) else b""
            seen[path] = content, [part for n, part in enumerate(state) if n != stat.ST_ATIME]
            seen[path + "/"] = state.st_mtime_ns, state.st_ctime_ns
    return seen
