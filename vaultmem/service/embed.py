"""Embedding: the passages that have no vector yet get one, the most wanted first.

The vault is searchable by words before this begins. Nothing here holds a transaction while a model
works: texts are read, vectors computed, and then both databases are written for a moment. A killed
run loses the vectors that were being computed, none that were kept.
"""

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass

from vaultmem.embedding.cache import EmbeddingCache, Row, StoredSpace
from vaultmem.embedding.embedder import Embedded, Embedder, Languages
from vaultmem.index.lock import embedding_lock
from vaultmem.index.store import Sidecar
from vaultmem.index.vectors import PassageVectors, Waiting
from vaultmem.model.errors import (
    EmbedderUnavailable,
    SidecarBusy,
    SidecarDamaged,
    SidecarUnavailable,
)
from vaultmem.service.application import Memory
from vaultmem.service.embedders import (
    RULES,
    WISH,
    advice,
    chosen_name,
    end_outage,
    open_embedder,
    remember_outage,
    serving_name,
    serving_space,
    wish,
)

# Texts of one call to the model: what an interruption may cost.
BATCH_TEXTS = 16
# Texts whose order is turned to one by length: batches then hold texts of equal length, which
# encode faster, and the most wanted passages still come first.
GROUP_TEXTS = 256
# So few are embedded at once, whoever else wants the processor.
QUICK_TEXTS = 32
NICENESS = 15
# Vectors between two refreshes of what searches read in place of the databases.
SETTLE_VECTORS = 2048
# Vectors of texts that are no more are kept, for undone edits and switched branches, until there
# are more of them than of living ones, and than this.
SPARE_VECTORS = 1000


@dataclass(frozen=True, slots=True)
class EmbedderState:
    """What makes, or made, the vectors that answer questions."""

    name: str  # of the model
    dim: int
    provider: str


@dataclass(slots=True)
class EmbedReply:
    """What embedding did."""

    embedder: EmbedderState | None = None
    embedded: int = 0  # vectors computed
    waiting: int = 0  # texts still without one
    advice: str = ""  # what would serve this vault better; "" for nothing
    problem: str = ""  # why texts are left without one; "" when nothing went wrong
    code: str = ""  # the kind of error that the problem is, as docs/exit-codes.md has it
    failed: int = 0  # texts that the model refuses
    truncated: int = 0  # texts that the model saw only a part of


@dataclass(slots=True)
class _Work:
    """One run's state."""

    memory: Memory
    embedder: Embedder
    cache: EmbeddingCache
    space: StoredSpace
    reply: EmbedReply
    unsettled: int = 0
    gentle: bool = False


def embed_waiting(
    memory: Memory,
    *,
    most: int | None = None,
    patience: float = 0.0,
    share: int | None = None,
    gentle: bool = False,
) -> EmbedReply:
    """Give passages their vectors; do nothing, not even open a model, when all have theirs.

    most:     do nothing either when more texts than this are waiting.
    patience: seconds to wait for another process that is embedding.
    share:    end after so many texts, the most wanted; for who has something else to do between.
    gentle:   leave the processor to others, but for the few texts of a note that was just edited.
    Interrupted, it keeps every vector that was computed. A model or server that cannot be used is
    a reply with a `problem`, not an error: search by words goes on.
    """
    sidecar = memory.open_sidecar()
    if sidecar is None or memory.settings["embedder.name"] == "none":
        return EmbedReply()
    wanted = wish(memory.settings)
    serving = serving_space(memory, sidecar)
    unasked = most is not None or not _may_be_another(memory, sidecar)
    if unasked and _all_there(memory, sidecar, wanted):
        return EmbedReply(_state(serving))
    # Where no space serves, as after a rebuild, it goes on: what is known costs nothing.
    if most is not None and serving is not None:
        switching = sidecar.meta(WISH) != wanted
        if switching or PassageVectors(sidecar).waiting_count() > most:
            return EmbedReply(_state(serving))
    try:
        with embedding_lock(memory.folder, patience=patience):
            try:
                return _embed(memory, sidecar, wanted, most, share, gentle=gentle)
            except SidecarDamaged:  # the broken cache has been removed
                return _embed(memory, sidecar, wanted, most, share, gentle=gentle)
    except SidecarBusy as error:
        return EmbedReply(
            _state(serving_space(memory, sidecar)),
            waiting=PassageVectors(sidecar).waiting_count(),
            problem=str(error),
            code=error.code,
        )


def _all_there(memory: Memory, sidecar: Sidecar, wanted: str) -> bool:
    vectors = PassageVectors(sidecar)
    space, cache = serving_space(memory, sidecar), memory.open_cache()
    return (
        sidecar.meta(WISH) == wanted
        and space is not None
        and cache is not None
        and not vectors.waiting_count()
        and vectors.centroid() is not None
        # A Python without the extension leaves sqlite-vec's copy behind.
        and (space.indexed == space.slots or not cache.vector_extension)
    )


def _may_be_another(memory: Memory, sidecar: Sidecar) -> bool:
    """Whether the same settings may mean another model by now: a server's, or a language's."""
    name = chosen_name(memory, sidecar)
    serving = serving_space(memory, sidecar)
    return name == "ollama" or (serving is not None and serving.space.provider != name)


def _state(space: StoredSpace | None) -> EmbedderState | None:
    if space is None:
        return None
    return EmbedderState(space.space.model, space.space.dimension, space.space.provider)


def _embed(
    memory: Memory,
    sidecar: Sidecar,
    wanted: str,
    most: int | None,
    share: int | None,
    *,
    gentle: bool,
) -> EmbedReply:
    from vaultmem.embedding.matrix import remove_strange_files

    reply = EmbedReply()
    serving = serving_space(memory, sidecar)
    cache = memory.open_cache(create=True)
    if cache is None:
        raise SidecarUnavailable(
            f"The vectors in {memory.folder} were removed while they were opened. Try again."
        )
    vectors = PassageVectors(sidecar)
    # A search adds to the vectors that answer it; only `index` goes over to another model.
    added_to = serving if most is not None else None
    if serving is None:
        serving = _most_known(cache, vectors)
        if serving is not None:
            _serve(cache, serving, vectors)
    else:
        # What is known costs nothing, whichever space is to come.
        _attach_known(cache, serving, vectors)
    reply.embedder = _state(serving)
    name = added_to.space.provider if added_to is not None else chosen_name(memory, sidecar)
    assert name is not None
    try:
        if most is None:
            reply.advice = advice(memory, sidecar)
            _let_go_of_server(memory, name)
        embedder = open_embedder(memory, name, ask_again=most is None)
        end_outage(memory, name)
        space = cache.add(embedder.space, RULES)
        if serving is None:
            _serve(cache, space, vectors)
        adding = added_to is not None and added_to.id == space.id
        hashes = vectors.unattached() if adding else vectors.hashes()
        waiting = set(hashes) - cache.known(space.id, hashes).keys()
        if most is not None and len(waiting) > most:
            _settle(memory)
            return reply
        reply.embedder = _state(space)
        reply.waiting = len(waiting)
        work = _Work(memory, embedder, cache, space, reply, gentle=gentle)
        urgent = vectors.urgent_first(waiting) if waiting else []
        _run(work, urgent if share is None else urgent[:share])
    except EmbedderUnavailable as error:
        _let_go_of_server(memory, name)
        remember_outage(memory, name, str(error))
        current = memory.open_sidecar()
        if current is None or not _all_there(memory, current, wanted):
            reply.problem, reply.code = str(error), error.code
            if current is not None:
                reply.waiting = reply.waiting or PassageVectors(current).waiting_count()
        _settle(memory)
        return reply
    current = memory.open_sidecar()
    if current is None or not cache.still_there():
        reply.code = SidecarUnavailable.code
        reply.problem = (
            f"Files in {memory.folder} were removed while vectors were computed for them. "
            "Run `vaultmem index` again."
        )
        return reply
    if reply.failed * 2 > len(hashes):
        # Such a model is none to go over to: the vectors there are go on answering.
        reply.code = EmbedderUnavailable.code
        reply.problem = (
            f"The model refuses {reply.failed:,} of {len(hashes):,} passages. "
            "Choose another one with embedder.name or embedder.model."
        )
    elif reply.waiting == reply.failed:
        _switch(cache, space.id, PassageVectors(current))
        with current.transaction():
            current.set_meta(WISH, wanted)
        if hashes and serving_space(memory, current) is None:
            cache.check()  # it knows a vector of each text, and has another one where that lies
    _tidy(cache, PassageVectors(current))
    remove_strange_files(cache)
    _settle(memory)
    return reply


def _let_go_of_server(memory: Memory, name: str) -> None:
    """Have a server asked anew what it has: under the same name it may be another model by now."""
    opened = memory.embedders.pop(name, None) if name == "ollama" else None
    if opened is not None:
        opened.close()


def _most_known(cache: EmbeddingCache, vectors: PassageVectors) -> StoredSpace | None:
    """The space, the newest of equals, that has most of the passages' vectors; None for none."""
    hashes = vectors.hashes()
    known = [(len(cache.known(space.id, hashes)), space.id, space) for space in cache.spaces()]
    count, _, space = max(known, default=(0, 0, None))
    return space if count else None


def _serve(cache: EmbeddingCache, space: StoredSpace, vectors: PassageVectors) -> None:
    """Let a space answer from now on, with all its vectors at once."""
    vectors.serve(serving_name(cache, space), cache.known(space.id, vectors.hashes()).items())


def _attach_known(cache: EmbeddingCache, space: StoredSpace, vectors: PassageVectors) -> None:
    unattached = vectors.unattached()
    if unattached:
        known = cache.known(space.id, unattached)
        vectors.attach(serving_name(cache, space), known.items())


def _run(work: _Work, hashes: Sequence[bytes]) -> None:
    """Embed these texts, several batches at once, and keep each batch as it is done."""
    total = len(hashes)
    report = work.memory.progress.report
    if total:
        report("embed", 0, total)
    workers = max(1, work.embedder.parallel)
    running: dict[Future[Embedded], list[Waiting]] = {}
    done = 0
    gentle = work.gentle and total > QUICK_TEXTS
    with ThreadPoolExecutor(
        workers, thread_name_prefix="embed", initializer=lower_priority if gentle else None
    ) as pool:
        try:
            for batch in _batches(work, hashes):
                texts = [waiting.text for waiting in batch]
                running[pool.submit(work.embedder.embed_documents, texts)] = batch
                if len(running) > workers:
                    done += _keep_done(work, running, all_of_them=False)
                    report("embed", min(done, total - 1), total)
            while running:
                done += _keep_done(work, running, all_of_them=False)
                report("embed", min(done, total - 1), total)
        except BaseException:
            for future in running:
                future.cancel()
            if work.space.space.provider == "ollama":
                work.embedder.close()  # whoever interrupts does not wait for a server
            running = {f: b for f, b in running.items() if not f.cancelled()}
            _keep_done(work, running, all_of_them=True)
            raise
    if total:
        report("embed", total, total)


def lower_priority() -> None:
    """Where a thread can have a priority of its own, which is on Linux."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def _batches(work: _Work, hashes: Sequence[bytes]) -> Iterator[list[Waiting]]:
    """Batches of texts of like length, in about the order of `hashes`."""
    for first in range(0, len(hashes), GROUP_TEXTS):
        sidecar = work.memory.open_sidecar()
        if sidecar is None:
            return  # it was removed: there is nothing to embed for
        group = hashes[first : first + GROUP_TEXTS]
        texts = PassageVectors(sidecar).texts(group)
        work.reply.waiting -= len(group) - len(texts)  # gone since they were listed
        texts.sort(key=lambda waiting: (-waiting.pieces, waiting.text_hash))
        for start in range(0, len(texts), BATCH_TEXTS):
            if not work.cache.still_there():
                return  # there is nowhere to keep it
            yield texts[start : start + BATCH_TEXTS]


def _keep_done(
    work: _Work, running: dict[Future[Embedded], list[Waiting]], *, all_of_them: bool
) -> int:
    """Keep the batches that are done, one at least; how many texts these were."""
    failure: EmbedderUnavailable | None = None
    finished, _ = wait(running, return_when="ALL_COMPLETED" if all_of_them else FIRST_COMPLETED)
    texts = 0
    for future in finished:
        batch = running[future]
        try:
            _keep(work, batch, future.result())
        except EmbedderUnavailable as error:
            failure = error
        # Only now: an interruption in the middle of keeping finds it still to be kept.
        del running[future]
        texts += len(batch)
    if failure is not None and not all_of_them:
        raise failure
    return texts


def _keep(work: _Work, batch: Sequence[Waiting], embedded: Embedded) -> None:
    """Write a batch's vectors, leaving out texts that no passage has any more."""
    from vaultmem.embedding.quantise import quantise
    from vaultmem.embedding.wordpiece import fertility

    work.reply.truncated += len(embedded.truncated)
    sidecar = work.memory.open_sidecar()
    if sidecar is None or not work.cache.still_there():
        return
    vectors = PassageVectors(sidecar)
    there = vectors.still_there(waiting.text_hash for waiting in batch)
    limited = work.embedder.languages is Languages.ENGLISH
    codes = quantise(embedded.vectors)
    rows = [
        Row(waiting.text_hash, codes[n].tobytes(), fertility(waiting.text) if limited else None)
        for n, waiting in enumerate(batch)
        if waiting.text_hash in there and n not in embedded.failed
    ]
    work.reply.failed += sum(batch[n].text_hash in there for n in embedded.failed)
    placed = work.cache.put(work.space.id, rows)
    vectors.attach(serving_name(work.cache, work.space), placed.items())
    work.reply.embedded += len(rows)
    work.reply.waiting -= len(rows) + sum(w.text_hash not in there for w in batch)
    work.unsettled += len(rows)
    if work.unsettled >= SETTLE_VECTORS:
        work.unsettled = 0
        _settle(work.memory)


def _switch(cache: EmbeddingCache, space_id: int, vectors: PassageVectors) -> None:
    """Let a space that is complete answer from now on; of the others keep the one before it."""
    space = cache.current(space_id)
    assert space is not None
    before = vectors.serving
    if before == serving_name(cache, space):
        return
    _serve(cache, space, vectors)
    for other in cache.spaces():
        if other.id != space_id and serving_name(cache, other) != before:
            cache.forget(other.id)


def _tidy(cache: EmbeddingCache, vectors: PassageVectors) -> None:
    """Drop the vectors of texts that are no more, when they are many."""
    serving = vectors.serving
    living = vectors.count()
    for space in cache.spaces():
        if serving_name(cache, space) == serving and space.slots > 2 * living + SPARE_VECTORS:
            cache.compact(space.id, vectors.hashes())
            renumbered = cache.current(space.id)
            assert renumbered is not None
            _serve(cache, renumbered, vectors)


def _settle(memory: Memory) -> None:
    """Bring up to date what searches read: the file of vectors, sqlite-vec's copy, the centroid."""
    from vaultmem.embedding.matrix import append_rows, open_matrix

    sidecar = memory.open_sidecar()
    cache = memory.open_cache()
    if sidecar is None or cache is None:
        return
    space = serving_space(memory, sidecar)
    if space is None:
        return
    append_rows(cache, space)
    cache.catch_up(space.id)
    vectors = PassageVectors(sidecar)
    slots = vectors.slots()
    vectors.put_centroid(open_matrix(cache, space).centroid(slots).tolist(), slots)
