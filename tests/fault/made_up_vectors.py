"""An embedder whose vectors follow from the text alone, and cost nothing."""

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from vaultmem.embedding.embedder import Embedded, Languages, Space

DIMENSION = 8


class MadeUpEmbedder:
    """Stands for the built-in model: the settings name it, and its weights are not loaded."""

    space = Space(provider="minilm", model="made-up", digest="0", dimension=DIMENSION)
    languages = Languages.ENGLISH
    parallel = 1

    def embed_documents(self, texts: Sequence[str]) -> Embedded:
        rows = [self.embed_query(text) for text in texts]
        return Embedded(np.array(rows, dtype=np.float32).reshape(len(rows), DIMENSION))

    def embed_query(self, text: str) -> NDArray[np.float32]:
        digest = sha256(text.encode("utf-8", "surrogatepass")).digest()
        numbers = np.frombuffer(digest[:DIMENSION], np.int8).astype(np.float32) + 0.5
        vector: NDArray[np.float32] = numbers / np.linalg.norm(numbers)
        return vector

    def close(self) -> None:
        """There is nothing to let go of."""
