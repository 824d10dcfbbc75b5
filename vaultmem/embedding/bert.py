"""The encoder of all-MiniLM-L6-v2 in numpy: six layers of BERT, its matrices from int8 weights.

Tokens of several texts go through the linear layers as one matrix, without padding; attention
looks at one text at a time. Whatever is not a matrix product works in place, on as many rows as
the processor's cache holds: written plainly, those steps took half of the time.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vaultmem.embedding.weights import NotWeights, Tensors

Floats = NDArray[np.float32]
Ids = NDArray[np.intp]

LAYERS = 6
HEADS = 12
WIDTH = 384
HEAD_WIDTH = WIDTH // HEADS
INNER_WIDTH = 1536
EPSILON = np.float32(1e-12)

# Rows of [384] and of [1536] on which steps between two products work: 200 and 400 kB.
NARROW_ROWS = 128
WIDE_ROWS = 32

# Attention weights that are held at once: half a megabyte, as many heads as go into it.
SCORES = 131_072

# exp of larger values, summed over a window, could leave the range of float32.
LARGEST_EXPONENT = 60.0

# GELU as x / 2 * (1 + tanh(A x + B x³)), the two numbers fitted for the smallest largest error:
# 2.8e-4 where the well-known ones of the same form have 4.7e-4.
_GELU_LINEAR = 0.80015703
_GELU_CUBIC = 0.03470091
# With x in units of B^(-1/3) the cubic needs no factor, and one step less.
_GELU_UNIT = _GELU_CUBIC ** (1 / 3)


@dataclass(frozen=True, slots=True)
class Norm:
    """Scale and shift after a normalisation, [384] each."""

    scale: Floats
    shift: Floats


@dataclass(frozen=True, slots=True)
class Linear:
    """x @ weight + bias."""

    weight: Floats  # [in, out]
    bias: Floats  # [out]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the encoder. Constant factors of its formula are part of the matrices."""

    attend: Linear  # to queries, which carry the 1/√32 of attention; then to keys, then to values
    gather: Linear
    gathered: Norm
    widen: Linear  # to units of GELU
    narrow: Linear  # from them, GELU's 1/2 included
    narrowed: Norm


class Workspace:
    """Memory for what lies between two layers, so that it is not asked for again and again.

    One thread at a time. Grows to the largest batch it has seen.
    """

    def __init__(self) -> None:
        self._blocks: dict[str, Floats] = {}

    def take(self, name: str, *shape: int) -> Floats:
        """An array of that shape with anything in it, the same memory for the same name."""
        size = math.prod(shape)
        block = self._blocks.get(name)
        if block is None or block.size < size:
            block = self._blocks[name] = np.empty(size, np.float32)
        return block[:size].reshape(shape)


@dataclass(frozen=True, slots=True)
class Bert:
    """The weights, ready for use: 43 MB of float32, and the table of words as it is in the file.

    Safe to use from several threads at once, each with its own workspace.
    """

    words: NDArray[np.int8]  # [30522, 384]
    word_scales: Floats  # [30522, 1]
    positions: Floats  # [512, 384], the type of every token already added
    embedded: Norm
    layers: tuple[Layer, ...]

    def encode(self, texts: Sequence[Ids], workspace: Workspace) -> Floats:
        """Last hidden states of every token of every text, one text after the other.

        texts: ids with their special tokens, 1 to 512 a text.
        Returns [tokens of all texts, 384], the caller's to keep.
        """
        ids = np.concatenate(texts)
        ends = np.cumsum([len(text) for text in texts]).tolist()
        spans = [slice(end - len(text), end) for text, end in zip(texts, ends, strict=True)]
        x = self.words[ids].astype(np.float32)
        x *= self.word_scales[ids]
        for span in spans:
            x[span] += self.positions[: span.stop - span.start]
        _normalise(x, self.embedded)
        for layer in self.layers:
            _run(layer, x, spans, workspace)
        return x


def _run(layer: Layer, x: Floats, spans: Sequence[slice], workspace: Workspace) -> None:
    """One layer over all tokens, in place."""
    tokens = len(x)
    attended = workspace.take("attended", tokens, 3 * WIDTH)
    np.matmul(x, layer.attend.weight, out=attended)
    attended += layer.attend.bias
    gathered = workspace.take("gathered", tokens, WIDTH)
    for span in spans:
        _attend(attended[span], gathered[span], workspace)

    between = workspace.take("between", tokens, WIDTH)
    np.matmul(gathered, layer.gather.weight, out=between)
    _add_and_normalise(between, layer.gather.bias, x, layer.gathered)

    wide = workspace.take("wide", tokens, INNER_WIDTH)
    np.matmul(between, layer.widen.weight, out=wide)
    for part in _blocks(wide, WIDE_ROWS):
        part += layer.widen.bias
        _gelu(part, workspace.take("inner", len(part), INNER_WIDTH))
    np.matmul(wide, layer.narrow.weight, out=x)
    _add_and_normalise(x, layer.narrow.bias, between, layer.narrowed)


def _attend(attended: Floats, out: Floats, workspace: Workspace) -> None:
    """Attention within one text: queries, keys and values [tokens, 3 * 384] -> [tokens, 384]."""
    tokens = len(attended)
    parts = attended.reshape(tokens, 3, HEADS, HEAD_WIDTH)
    query, key, value = parts.transpose(1, 2, 0, 3)
    key = key.transpose(0, 2, 1)
    by_head = out.reshape(tokens, HEADS, HEAD_WIDTH).transpose(1, 0, 2)
    # No product is larger than that of the longest query and the longest key of its head. Nearly
    # always that is small enough for exp as it is, and saves looking for each row's maximum.
    squares = np.vecdot(parts[:, :2], parts[:, :2]).max(axis=0)
    shift = float((squares[0] * squares[1]).max()) > LARGEST_EXPONENT**2
    ones = np.ones((tokens, 1), np.float32)
    together = max(1, min(HEADS, SCORES // tokens**2))
    for first in range(0, HEADS, together):
        heads = slice(first, min(first + together, HEADS))
        scores = workspace.take("scores", heads.stop - first, tokens, tokens)
        np.matmul(query[heads], key[heads], out=scores)
        if shift:
            scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        np.matmul(scores, value[heads], out=by_head[heads])
        by_head[heads] /= scores @ ones  # a sum as a product: five times faster


def _add_and_normalise(x: Floats, bias: Floats, before: Floats, norm: Norm) -> None:
    for part, past in zip(_blocks(x, NARROW_ROWS), _blocks(before, NARROW_ROWS), strict=True):
        part += bias
        part += past
        _normalise(part, norm)


def _normalise(x: Floats, norm: Norm) -> None:
    """Each row to mean 0 and variance 1, then scaled and shifted, in place."""
    share = np.full((WIDTH, 1), 1 / WIDTH, np.float32)
    x -= x @ share  # a mean as a product: four times faster
    spread = np.vecdot(x, x)[:, None]
    spread *= share[0]
    spread += EPSILON
    np.sqrt(spread, out=spread)
    np.reciprocal(spread, out=spread)
    x *= spread
    x *= norm.scale
    x += norm.shift


def _gelu(x: Floats, inner: Floats) -> None:
    """GELU in place, but for the factors that the matrices before and after it carry."""
    np.multiply(x, x, out=inner)
    inner += np.float32(_GELU_LINEAR / _GELU_UNIT)
    inner *= x
    np.tanh(inner, out=inner)
    inner += np.float32(1)
    x *= inner


def _blocks(rows: Floats, size: int) -> Iterator[Floats]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def bert(tensors: Tensors) -> Bert:
    """The encoder from the initialisers of its ONNX file; copies all but the table of words.

    Raises NotWeights when they are not those of this model.
    """
    # The matrices are named by the exporter's running numbers alone; they come in order of use.
    quantised = [name for name in tensors if name.startswith("val_") and name.endswith("_q")]
    if len(quantised) != LAYERS * 6:
        raise NotWeights(f"{len(quantised)} matrices where {LAYERS * 6} belong")
    try:
        matrices = (_dequantised(tensors, name.removesuffix("_q")) for name in quantised)
        positions = _dequantised(tensors, "inner.embeddings.position_embeddings.weight")
        positions += tensors["inner.embeddings.token_type_embeddings.weight"][0]
        return Bert(
            words=tensors["inner.embeddings.word_embeddings.weight_q"],
            word_scales=_copy(tensors, "inner.embeddings.word_embeddings.weight_scale"),
            positions=positions,
            embedded=_norm(tensors, "inner.embeddings.LayerNorm"),
            layers=tuple(
                _layer(tensors, f"inner.encoder.layer.{number}.", matrices)
                for number in range(LAYERS)
            ),
        )
    except KeyError as absent:
        raise NotWeights(f"there is no tensor {absent}") from absent


def _layer(tensors: Tensors, place: str, matrices: Iterator[Floats]) -> Layer:
    query, key, value, gather, widen, narrow = (next(matrices) for _ in range(6))
    biases = [
        _copy(tensors, f"{place}attention.self.{part}.bias") for part in ("query", "key", "value")
    ]
    widen_bias = _copy(tensors, f"{place}intermediate.dense.bias")
    for of_query in (query, biases[0]):
        of_query /= np.float32(math.sqrt(HEAD_WIDTH))
    for of_gelu in (widen, widen_bias):
        of_gelu *= np.float32(_GELU_UNIT)
    narrow *= np.float32(0.5 / _GELU_UNIT)
    return Layer(
        attend=Linear(np.concatenate((query, key, value), axis=1), np.concatenate(biases)),
        gather=Linear(gather, _copy(tensors, f"{place}attention.output.dense.bias")),
        gathered=_norm(tensors, f"{place}attention.output.LayerNorm"),
        widen=Linear(widen, widen_bias),
        narrow=Linear(narrow, _copy(tensors, f"{place}output.dense.bias")),
        narrowed=_norm(tensors, f"{place}output.LayerNorm"),
    )


def _norm(tensors: Tensors, place: str) -> Norm:
    return Norm(_copy(tensors, f"{place}.weight"), _copy(tensors, f"{place}.bias"))


def _copy(tensors: Tensors, name: str) -> Floats:
    # In the file a tensor starts at any byte, and numpy is slow on floats that straddle words.
    return np.array(tensors[name], np.float32)


def _dequantised(tensors: Tensors, name: str) -> Floats:
    whole: Floats = np.multiply(tensors[f"{name}_q"], tensors[f"{name}_scale"], dtype=np.float32)
    return whole
