"""`index --verify`: nothing is believed that can be looked up.

Every note is read again, however its file looks; what is kept is compared row by row with an index
made beside it from nothing, and replaced by that where they differ; and vectors are compared with
the texts they are of.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from vaultmem.embedding.cache import EmbeddingCache, StoredSpace
from vaultmem.index.compare import Difference, differences, rows_in
from vaultmem.index.lock import embedding_lock, writer_lock
from vaultmem.index.lookup import Lookup
from vaultmem.index.store import Sidecar, create, damaged, discard_unfinished, lies_in, put_in_place
from vaultmem.index.update import stored_files
from vaultmem.index.vectors import PassageVectors, Waiting
from vaultmem.model.delta import Snapshot
from vaultmem.model.errors import (
    EmbedderUnavailable,
    SidecarBusy,
    SidecarDamaged,
    SidecarUnavailable,
)
from vaultmem.service.application import Memory
from vaultmem.service.embedders import open_embedder, serving_name, serving_space
from vaultmem.service.indexing import LOCK_SECONDS, Bounds, Run, Taken, look, take_in
from vaultmem.service.vault_settings import remember_settings
from vaultmem.vault.read import Door

# More are counted, and not listed.
MOST_LISTED = 1000
# Vectors computed anew, to see whether the kept ones are those of their texts.
SAMPLE_VECTORS = 64
# A vector computed on another machine differs in its last digits; one of another text is further
# off than this, as cosine.
SAME_VECTOR = 0.98

_DAY_NS = 86_400 * 10**9

UNSEEN = "changed, and neither its size nor its times told"


@dataclass(frozen=True, slots=True)
class Verified:
    """What verifying looked at and found."""

    files: int  # read and hashed
    rows: int  # compared with those of an index made anew
    vectors: int  # whose text was looked up
    differences: int  # of which the first are listed
    repaired: bool  # nothing is left of them


@dataclass(slots=True)
class _Findings:
    """The first differences, and how many there are."""

    listed: list[Difference]
    count: int = 0

    def add(self, difference: Difference) -> None:
        self.count += 1
        if len(self.listed) < MOST_LISTED:
            self.listed.append(difference)


def verify(
    memory: Memory, bounds: Bounds, *, embeds: bool
) -> tuple[Taken, Verified, tuple[Difference, ...], tuple[str, ...]]:
    """Compare the index with what the vault makes of it, and repair it.

    embeds: whether vectors are computed afterwards; else wrong ones are told of, and stay.

    Returns what the run before took in, what was found, and what was left out and why.

    Raises what `take_in` raises, and SidecarDamaged where SQLite finds the file at odds with
    itself.
    """
    taken = take_in(memory, bounds=bounds)
    found = _Findings([])
    with memory.guarded():
        with writer_lock(memory.folder, patience=bounds.lock_seconds):
            sidecar = memory.open_sidecar()
            if sidecar is None:
                raise SidecarUnavailable(
                    f"The index in {memory.folder} was removed while it was verified. "
                    "Run `vaultmem index` again."
                )
            _check_whole(memory, sidecar)
            snapshot = look(memory)
            files = len(snapshot.notes)
            again = _run(memory, sidecar, snapshot, doubting=True)
            for path in _still_looking_the_same(memory, snapshot, again.unseen):
                found.add(Difference(path, "file", UNSEEN))
            rows = rows_in(sidecar)
            left_out, repaired = _compare(memory, sidecar, snapshot, found)
        vectors = 0
        try:
            before = found.count
            vectors = _verify_vectors(memory, found, embeds=embeds)
            repaired = repaired and (embeds or found.count == before)
        except SidecarBusy as error:
            left_out += (f"The vectors were not compared: {error}",)
        except SidecarDamaged:
            # (What SQLite says of the sidecar itself is no SidecarDamaged before `guarded` ends.)
            anew = "they are computed anew" if embeds else "`vaultmem index` computes them anew"
            found.add(Difference("", "vectors", f"embeddings.db is damaged; {anew}"))
            repaired = repaired and embeds
    verified = Verified(files, rows, vectors, found.count, repaired=repaired and bool(found.count))
    return taken, verified, tuple(found.listed), left_out


def _run(memory: Memory, sidecar: Sidecar, snapshot: Snapshot, *, doubting: bool = False) -> Taken:
    never: Callable[[], bool] = lambda: False  # noqa: E731 - has a type of its own
    remember_settings(sidecar, memory.obsidian)
    with Door(memory.vault) as door:
        run = Run(memory, sidecar, snapshot, door, Bounds(), never, doubting=doubting)
        return run.carry_out()


def _still_looking_the_same(
    memory: Memory, snapshot: Snapshot, paths: Collection[str]
) -> list[str]:
    """Those that look as they did at the walk: else they were edited between it and the reading."""
    if not paths:
        return []
    now = look(memory, only=[snapshot.notes[path].disk_path for path in paths])
    return sorted(path for path in paths if now.notes.get(path) == snapshot.notes[path])


def _check_whole(memory: Memory, sidecar: Sidecar) -> None:
    """Ask SQLite whether tables, their indexes and the full text agree. Raises SidecarDamaged."""
    if sidecar.integrity_check() != "ok":
        raise damaged(memory.folder)


def _compare(
    memory: Memory, sidecar: Sidecar, snapshot: Snapshot, found: _Findings
) -> tuple[tuple[str, ...], bool]:
    """Make the index anew beside the kept one, compare them, and let the better one stand.

    Returns what had to be left out, and whether nothing is left of the differences.
    """
    wish = memory.settings["sidecar.journal"]
    made = create(memory.folder, memory.fingerprint, journal=wish, aside=True)
    placed = False
    try:
        _run(memory, made, snapshot)
        memory.names = None
        kept_files, made_files = stored_files(sidecar), stored_files(made)
        absent = kept_files.keys() - made_files.keys() - snapshot.notes.keys()
        unread = (kept_files.keys() ^ made_files.keys()) & snapshot.notes.keys()
        changed = {
            path
            for path in kept_files.keys() & made_files.keys()
            if kept_files[path].sha256 != made_files[path].sha256
        }
        # Other files of a folder that cannot be listed are linked to all the same.
        hidden = {
            path
            for path in Lookup(sidecar).all_files()
            if path not in snapshot.files and not snapshot.speaks_of(path)
        }
        left_out = tuple(
            f"{len(paths):,} {noun if len(paths) == 1 else noun + 's'} {why}"
            for paths, noun, why in (
                (hidden, "file", "in folders that cannot be listed: not compared."),
                (absent, "note", "missing from the vault and kept in the index: not compared."),
                (unread, "note", "could not be read: not compared."),
                (changed, "note", "changed meanwhile: not compared; the next run takes them in."),
            )
            if paths
        )
        before = found.count
        for difference in differences(
            sidecar,
            made,
            left_out=absent | unread | changed | hidden,
            report=lambda done, total: memory.progress.report("verify", done, total),
        ):
            found.add(difference)
        if found.count == before:
            return left_out, True
        if absent or unread or hidden:
            # What is away would be lost with the index that still has it.
            advice = (
                "The index was left as it is, since it holds what cannot be seen. Make that "
                "readable, or forget it with --accept-deletions, and verify again."
            )
            return (*left_out, advice), False
        _keep_vectors(memory, sidecar, made)
        memory.close_sidecar()
        memory.sidecar = put_in_place(made, journal=wish)
        placed = True
        return left_out, True
    finally:
        if not placed:
            made.close()
            # Where the kept one is gone already, this one is all there is: the next run takes it.
            if lies_in(memory.folder):
                discard_unfinished(memory.folder)


def _keep_vectors(memory: Memory, kept: Sidecar, made: Sidecar) -> None:
    """Give the passages of the index made anew the vectors that the cache has of their texts."""
    try:
        cache = memory.open_cache()
        space = serving_space(memory, kept)
        if cache is None or space is None:
            return
        vectors = PassageVectors(made)
        known = cache.known(space.id, vectors.hashes())
    except SidecarDamaged:
        return  # verifying the vectors says so
    vectors.serve(serving_name(cache, space), known.items())


def _verify_vectors(memory: Memory, found: _Findings, *, embeds: bool) -> int:
    """Look up whose vector each passage has; how many were looked at.

    What is wrong is taken away: embedding, which comes next, puts the right one there. Whether a
    vector is what the model makes of its text is seen on a sample.
    """
    sidecar, cache = memory.open_sidecar(), memory.open_cache()
    if sidecar is None or sidecar.read_only:
        return 0
    if cache is None:
        return _without_vectors(sidecar, found)
    with embedding_lock(memory.folder, patience=LOCK_SECONDS):
        cache.check()
        space = serving_space(memory, sidecar)
        if space is None:
            return _without_vectors(sidecar, found)
        vectors = PassageVectors(sidecar)
        attached = vectors.attached()
        known = cache.text_hashes(space.id)
        doubtful: set[bytes] = set()
        for slot, text_hash in attached:
            if known.get(slot) == text_hash:
                continue
            for path in vectors.paths_with(slot):
                found.add(Difference(path, "vector", "that of another text"))
            # Which of the two it is of, nobody can tell any more.
            doubtful.update({text_hash, known.get(slot, text_hash)})
        if doubtful and not embeds:
            return len(attached)
        if doubtful:
            cache.compact(space.id, set(known.values()) - doubtful)
            return len(attached)  # with slots numbered anew, and a file begun anew
        if not _file_is_true(cache, space):
            found.add(Difference("", "vectors", "the file is not what embeddings.db holds"))
            _begin_file_anew(memory, cache, space)
        if memory.settings["embedder.name"] == "none":
            return len(attached)  # no model is to be asked
        wrong = _not_as_computed(memory, cache, space, vectors)
        if wrong:
            for path in wrong:
                found.add(Difference(path, "vector", "not what the model makes of its text"))
            # Where some are wrong, others are: all are computed anew.
            if embeds:
                cache.forget(space.id)
    return len(attached)


def _without_vectors(sidecar: Sidecar, found: _Findings) -> int:
    """There is nothing to look vectors up in: no passage may have one. How many have."""
    attached = len(PassageVectors(sidecar).attached())
    if attached:
        found.add(Difference("", "vectors", "those of the passages are not in embeddings.db"))
    return attached


def _file_is_true(cache: EmbeddingCache, space: StoredSpace) -> bool:
    from vaultmem.embedding.matrix import file_is_true

    return file_is_true(cache, space)


def _begin_file_anew(memory: Memory, cache: EmbeddingCache, space: StoredSpace) -> None:
    from vaultmem.embedding.matrix import append_rows

    memory.matrix = None
    cache.drop_file(space)
    append_rows(cache, space)


def _not_as_computed(
    memory: Memory, cache: EmbeddingCache, space: StoredSpace, vectors: PassageVectors
) -> list[str]:
    """Paths of notes with a passage whose vector the model does not make; of a sample.

    Nothing where the model cannot be used.
    """
    import numpy as np

    from vaultmem.embedding.quantise import lengths, quantise

    # Others on another day, so that in time all are looked at.
    ordered = sorted(vectors.attached(), key=lambda pair: pair[1])
    first = memory.clock.now_ns() // _DAY_NS * SAMPLE_VECTORS % max(1, len(ordered))
    sampled = (ordered[first:] + ordered[:first])[:SAMPLE_VECTORS]
    slots = {text_hash: slot for slot, text_hash in sampled}
    texts: list[Waiting] = vectors.texts(list(slots))
    try:
        embedder = open_embedder(memory, space.space.provider)
        if not texts or embedder.space != space.space:
            return []
        made = embedder.embed_documents([waiting.text for waiting in texts])
    except EmbedderUnavailable:
        return []
    wrong: list[str] = []
    for n, (waiting, codes) in enumerate(zip(texts, quantise(made.vectors), strict=True)):
        kept = cache.codes_at(space.id, slots[waiting.text_hash])
        if kept is None or n in made.failed or n in made.truncated:
            continue
        pair = np.stack([np.frombuffer(kept, np.int8), codes])
        size = lengths(pair)
        product = float(np.dot(pair[0].astype(np.float64), pair[1].astype(np.float64)))
        if product < SAME_VECTOR * float(size[0]) * float(size[1]):
            wrong += vectors.paths_with(slots[waiting.text_hash])
    return wrong
