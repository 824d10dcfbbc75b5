"""index: files -> snapshot -> delta -> notes -> passages -> rows -> vectors."""

from dataclasses import dataclass
from typing import Annotated

from vaultmem.index.compare import Difference
from vaultmem.index.lookup import Lookup
from vaultmem.index.store import sidecar_errors
from vaultmem.index.vectors import PassageVectors
from vaultmem.model.errors import (
    DiskFull,
    SidecarBusy,
    SidecarDamaged,
    SidecarUnavailable,
    UsageError,
)
from vaultmem.model.note import Problem
from vaultmem.model.operation import About, Reply, Request
from vaultmem.service.application import Memory
from vaultmem.service.budget import fitted
from vaultmem.service.embed import EmbedReply, embed_waiting
from vaultmem.service.indexing import LOCK_SECONDS, Bounds, NoteCounts, take_in
from vaultmem.service.mending import mended
from vaultmem.service.verifying import Verified, verify


@dataclass(frozen=True, slots=True)
class IndexRequest(Request):
    """How to index."""

    rebuild: Annotated[bool, About("Start from nothing instead of from what is known.")] = False
    embed: Annotated[bool, About("Give passages their vectors afterwards; takes long.")] = True
    accept_deletions: Annotated[bool, About("Forget missing notes, however many.")] = False
    verify: Annotated[
        bool, About("Read everything again, compare with an index made anew, repair. Takes long.")
    ] = False


@dataclass(frozen=True, slots=True)
class ChunkCounts:
    """What became of the passages."""

    total: int
    embedded: int  # vectors computed in this run
    reused: int  # passages of changed notes that stayed as they were
    waiting: int  # passages that have no vector


@dataclass(frozen=True, slots=True)
class EmbedderUse:
    """What makes the vectors, and what is to be said about it."""

    name: str | None  # the model; None when none could be used
    dim: int
    provider: str
    problem: str  # why passages are left without a vector; "" when nothing went wrong
    code: str  # the kind of error that the problem is, as docs/exit-codes.md has it
    advice: str  # what would serve this vault better; "" for nothing
    failed: int  # texts that the model refuses
    truncated: int  # texts of which the model saw only a part


@dataclass(frozen=True, slots=True)
class IndexReply(Reply):
    """What indexing did."""

    vault: str
    notes: NoteCounts
    canvases: NoteCounts
    chunks: ChunkCounts
    embedder: EmbedderUse | None  # None when no vectors were asked for
    problems: tuple[Problem, ...]
    seconds: float
    verified: Verified | None = None  # when that was asked for
    differences: tuple[Difference, ...] = ()  # that verifying found, the first of them


@fitted
@mended
def index(memory: Memory, request: IndexRequest) -> IndexReply:
    """Bring the sidecar up to date with the vault. Doing it twice equals doing it once.

    Raises VaultEmpty and VaultUnreadable (keeping what is known), SidecarBusy,
    SidecarUnavailable and DiskFull. Interrupted, it leaves whole notes only; the next run goes on.
    """
    started = memory.clock.elapsed()
    bounds = Bounds(accept_deletions=request.accept_deletions)
    verified: Verified | None = None
    differences: tuple[Difference, ...] = ()
    left_out: tuple[str, ...] = ()
    if request.verify:
        if request.rebuild:
            raise UsageError("Verifying compares with a rebuild already. Ask for one of the two.")
        embeds = request.embed and memory.settings["embedder.name"] != "none"
        taken, verified, differences, left_out = verify(memory, bounds, embeds=embeds)
    else:
        taken = take_in(memory, rebuild=request.rebuild, bounds=bounds)
    with memory.guarded():
        # The vault is searchable by words from here on; other processes may index meanwhile.
        embedder, embedded = _embed(memory) if request.embed else (None, 0)
        # It may have been rebuilt meanwhile, or removed.
        current = memory.open_sidecar()
        if current is None:
            raise SidecarUnavailable(
                f"The index in {memory.folder} was removed while vectors were computed for it. "
                "Run `vaultmem index` again."
            )
        lookup = Lookup(current)
        return IndexReply(
            vault=str(memory.vault),
            notes=taken.notes,
            canvases=taken.canvases,
            chunks=ChunkCounts(
                lookup.chunk_count(),
                embedded,
                taken.reused,
                PassageVectors(current).waiting_count(),
            ),
            embedder=embedder,
            problems=tuple(lookup.problems()),
            seconds=round(memory.clock.elapsed() - started, 3),
            verified=verified,
            differences=differences,
            degraded=left_out,
        )


def _embed(memory: Memory) -> tuple[EmbedderUse | None, int]:
    """Give passages their vectors; what made them, and how many were made."""
    name = memory.settings["embedder.name"]
    if name == "none":
        return None, 0
    try:
        with sidecar_errors(memory.folder):
            reply = embed_waiting(memory, patience=LOCK_SECONDS)
    except (SidecarBusy, SidecarDamaged, SidecarUnavailable, DiskFull) as error:
        # The words are in; what was done is told all the same.
        reply = EmbedReply(problem=str(error), code=error.code)
    state = reply.embedder
    use = EmbedderUse(
        name=state.name if state else None,
        dim=state.dim if state else 0,
        provider=state.provider if state else name,
        problem=reply.problem,
        code=reply.code,
        advice=reply.advice,
        failed=reply.failed,
        truncated=reply.truncated,
    )
    return use, reply.embedded
