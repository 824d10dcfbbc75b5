"""What the vector channel needs for one question, or why it cannot answer."""

from typing import TYPE_CHECKING

from vaultmem.embedding.cache import EmbeddingCache, StoredSpace
from vaultmem.embedding.embedder import Embedder
from vaultmem.index.lookup import Lookup
from vaultmem.index.store import sidecar_errors
from vaultmem.index.vectors import PassageVectors
from vaultmem.model.errors import (
    DiskFull,
    EmbedderUnavailable,
    QuestionRefused,
    SidecarBusy,
    SidecarDamaged,
    SidecarUnavailable,
)
from vaultmem.retrieval.meaning import Meaning, Question
from vaultmem.security.mask import mask
from vaultmem.security.secrets import find_secrets
from vaultmem.service.application import Memory
from vaultmem.service.embedders import (
    embedder_of,
    let_go,
    recent_outage,
    remember_outage,
    serving_name,
    serving_space,
)

if TYPE_CHECKING:
    from vaultmem.embedding.embedder import Vectors
    from vaultmem.embedding.matrix import Matrix

# Of a longer question, such as a pasted log, the beginning is embedded, in half a second at worst;
# a megabyte would take four. Words are not looked for much further down either.
QUESTION_CHARACTERS = 2_000

_BY_WORDS = "Searched by words."


def open_meaning(
    memory: Memory, lookup: Lookup, text: str, *, alone: bool = False
) -> tuple[Meaning | None, tuple[str, ...]]:
    """The vector channel for a question, and what is to be said about it.

    alone: whether no other channel answers beside it.

    None, with the reason, where no passage has a vector or the model or the vectors cannot be
    used: words answer then.
    """
    if memory.settings["embedder.name"] == "none":
        return None, (f"The setting embedder.name is none. {_BY_WORDS}",)
    total, embedded = lookup.chunk_count(), lookup.vector_count()
    try:
        with sidecar_errors(memory.folder):
            question = _question(memory, text, embedded=embedded)
    except EmbedderUnavailable as error:
        return None, (f"{error} {_BY_WORDS}",)
    except SidecarBusy:
        reason = f"The vectors in {memory.folder} are locked by another program."
        return None, (f"{reason} {_BY_WORDS}",)
    except (SidecarDamaged, SidecarUnavailable, DiskFull) as error:
        return None, (f"{error} {_BY_WORDS}",)
    if question is None:
        return None, (f"No passage is embedded yet; `vaultmem index` does it. {_BY_WORDS}",)
    reasons: tuple[str, ...] = ()
    if embedded < total:
        missing = f"{total - embedded:,} of {total:,} passages are not embedded yet and are found "
        missing += "by their words only" if not alone else "by no meaning"
        reasons = (f"{missing}; `vaultmem index` embeds them.",)
    return Meaning(question, lookup), reasons


def _question(memory: Memory, text: str, *, embedded: int) -> Question | None:
    """Everything that answering takes; None where there is no vector to compare with.

    Raises EmbedderUnavailable, and what a cache that cannot be read raises.
    """
    sidecar, cache = memory.sidecar, memory.open_cache()
    assert sidecar is not None
    space = serving_space(memory, sidecar)
    if cache is None or space is None or not embedded:
        return None
    if space.space.provider == "ollama" and memory.settings["embedder.name"] == "auto":
        raise EmbedderUnavailable(
            "The vectors were made by an Ollama server, which the settings name no longer. "
            "`vaultmem index` embeds the vault with the built-in model."
        )
    # Nothing is held open while a model works: others could not tidy their log meanwhile.
    sidecar.end_reading()
    try:
        embedder = embedder_of(memory, space.space)
        asked = text[:QUESTION_CHARACTERS]
        if space.space.provider == "ollama" and memory.settings["secrets.scan"] == "mask":
            # A pasted log goes no further with its credentials than a note does.
            asked = mask(asked, find_secrets(asked))
        vector = _asked(memory, embedder, asked)
    finally:
        sidecar.begin_reading()
    now = serving_space(memory, sidecar)
    if now is None or now.space != space.space:
        return None  # another model's vectors answer by now
    space = now
    import numpy as np

    matrix = _matrix(memory, cache, space)
    vectors = PassageVectors(sidecar)
    kept = vectors.centroid()
    centroid = matrix.centroid(vectors.slots()) if kept is None else np.asarray(kept)
    return Question(vector, matrix, cache, space, centroid.astype(np.float32), embedder.languages)


def _asked(memory: Memory, embedder: Embedder, text: str) -> "Vectors":
    """The question's vector. Raises EmbedderUnavailable, at once while an outage lasts."""
    name = embedder.space.provider
    down = recent_outage(memory, name)
    if down is not None:
        raise EmbedderUnavailable(down)
    try:
        return embedder.embed_query(text)
    except QuestionRefused:
        raise
    except EmbedderUnavailable as error:
        # It is opened anew when it is asked again: it may have other weights by then.
        let_go(memory, embedder)
        remember_outage(memory, name, str(error))
        raise


def _matrix(memory: Memory, cache: EmbeddingCache, space: StoredSpace) -> "Matrix":
    """The matrix of a space, kept while it stays as it is."""
    from vaultmem.embedding.matrix import open_matrix

    key = f"{serving_name(cache, space)}:{space.slots}"
    if memory.matrix is None or memory.matrix[0] != key:
        memory.matrix = (key, open_matrix(cache, space))
    return memory.matrix[1]
