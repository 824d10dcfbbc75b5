"""Embedders that keep a record of what they were asked, and vaults that are looked into.

The vectors are the real models', which are loaded once for all tests of a process.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vaultmem.embedding.cache import EmbeddingCache, StoredSpace
from vaultmem.embedding.embedder import Embedded, Embedder, Languages, Options, Space
from vaultmem.embedding.providers import provider
from vaultmem.embedding.quantise import quantise
from vaultmem.index.store import Sidecar
from vaultmem.index.vectors import PassageVectors
from vaultmem.service.application import Memory
from vaultmem.service.embedders import serving_space

Codes = NDArray[np.int8]


@cache
def real(name: str) -> Embedder:
    """The embedder of a provider, with its model loaded."""
    embedder = provider(name).make(Options())
    embedder.embed_query("")
    return embedder


class Counted:
    """A real embedder that notes every text it embeds."""

    def __init__(
        self,
        name: str = "minilm",
        *,
        refuses: str = "",
        cuts: str = "",
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        self._inner = real(name)
        self._refuses = refuses  # a text that holds this gets no vector
        self._cuts = cuts  # of a text that holds this a part is said to be left out
        self._meanwhile = [meanwhile] if meanwhile is not None else []  # done once, at work
        self.texts: list[str] = []

    @property
    def space(self) -> Space:
        return self._inner.space

    @property
    def languages(self) -> Languages:
        return self._inner.languages

    @property
    def parallel(self) -> int:
        return 2  # so that what an interruption stops does not depend on the machine

    def embed_documents(self, texts: Sequence[str]) -> Embedded:
        self.texts += texts
        embedded = self._inner.embed_documents(texts)
        if self._meanwhile:
            self._meanwhile.pop()()
        refused = [n for n, text in enumerate(texts) if self._refuses and self._refuses in text]
        cut = [n for n, text in enumerate(texts) if self._cuts and self._cuts in text]
        embedded.vectors[refused] = 0.0
        return replace(
            embedded, failed=dict.fromkeys(refused, "no numbers"), truncated=frozenset(cut)
        )

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return self._inner.embed_query(text)

    def close(self) -> None:
        """It is the others' model, too."""


def use(memory: Memory, embedder: Counted) -> Counted:
    """Let a vault be embedded by this one."""
    memory.embedders[embedder.space.provider] = embedder
    return embedder


def opened(memory: Memory) -> tuple[Sidecar, EmbeddingCache]:
    sidecar, kept = memory.open_sidecar(), memory.open_cache()
    assert sidecar is not None
    assert kept is not None
    return sidecar, kept


def serving(memory: Memory) -> StoredSpace:
    """The space that answers questions."""
    space = serving_space(memory, opened(memory)[0])
    assert space is not None
    return space


def distinct_texts(memory: Memory) -> int:
    """How many texts the passages have."""
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    count = sidecar.connection.execute("SELECT count(DISTINCT text_hash) FROM chunk").get
    assert isinstance(count, int)
    return count


def without_vector(memory: Memory) -> int:
    """How many passages have none."""
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    count = sidecar.connection.execute("SELECT count(*) FROM chunk WHERE slot IS NULL").get
    assert isinstance(count, int)
    return count


def kept_texts(memory: Memory) -> set[bytes]:
    """Hashes of the texts that embeddings.db holds a vector of, in whichever space."""
    rows = opened(memory)[1].query("SELECT text_hash FROM vector", ())
    return {text_hash for (text_hash,) in rows if isinstance(text_hash, bytes)}


def vectors(memory: Memory) -> dict[bytes, Codes]:
    """Hash of what is embedded -> codes of its vector, of every passage that has one.

    Fails where a passage has a slot that the serving space has no row for.
    """
    sidecar, kept = opened(memory)
    codes = {s: np.frombuffer(code, np.int8) for s, code, _ in kept.rows(serving(memory).id, 0)}
    rows = sidecar.connection.execute("SELECT text_hash, slot FROM chunk WHERE slot IS NOT NULL")
    return {text_hash: codes[slot] for text_hash, slot in rows}


def assert_vectors_are_true(memory: Memory) -> None:
    """Every passage has a vector, and it is the one the serving space's model makes of it."""
    assert without_vector(memory) == 0
    found = vectors(memory)
    waiting = PassageVectors(opened(memory)[0]).texts(list(found))
    made = real(serving(memory).space.provider).embed_documents([w.text for w in waiting])
    hashes = [w.text_hash for w in waiting]
    assert_alike(found, dict(zip(hashes, quantise(made.vectors), strict=True)))


def assert_alike(found: dict[bytes, Codes], expected: dict[bytes, Codes]) -> None:
    """The same texts with the same vectors, but for the last bit: batches differ in a rounding."""
    assert found.keys() == expected.keys()
    for text_hash, codes in found.items():
        assert np.abs(codes.astype(int) - expected[text_hash]).max() <= 1


def kept_files(memory: Memory) -> dict[str, tuple[int, bytes]]:
    """Time and bytes of the files in the vault's cache, without SQLite's companions."""
    return {
        path.name: (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(Path(memory.folder).iterdir())
        if not path.name.endswith(("-wal", "-shm"))
    }
