"""The weights of an ONNX file: its initialisers, read from protobuf's wire format.

Only what the file of the built-in model uses is understood: tensors with raw data in the types
below. Graph nodes are skipped; what they compute is written down in bert.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tensors = Mapping[str, NDArray[Any]]

# Field numbers of onnx.proto.
_MODEL_GRAPH = 7
_GRAPH_INITIALIZER = 5
_TENSOR_DIMS = 1
_TENSOR_DATA_TYPE = 2
_TENSOR_NAME = 8
_TENSOR_RAW_DATA = 9

_NUMPY_TYPES: Mapping[int, str] = {1: "<f4", 3: "i1", 6: "<i4", 7: "<i8", 9: "?"}

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10


class NotWeights(ValueError):
    """The bytes are no ONNX file of the kind that is understood here."""


def read_tensors(model: memoryview) -> Tensors:
    """Every initialiser by name. The arrays are views: they keep `model` alive and copy nothing.

    Raises NotWeights for bytes that are something else.
    """
    tensors: dict[str, NDArray[Any]] = {}
    for number, graph in _fields(model):
        if number == _MODEL_GRAPH and isinstance(graph, memoryview):
            for part, tensor in _fields(graph):
                if part == _GRAPH_INITIALIZER and isinstance(tensor, memoryview):
                    name, values = _tensor(tensor)
                    tensors[name] = values
    return tensors


def _tensor(message: memoryview) -> tuple[str, NDArray[Any]]:
    shape: list[int] = []
    name, kind = "", 0
    raw = memoryview(b"")
    for number, value in _fields(message):
        if isinstance(value, int):
            if number == _TENSOR_DIMS:
                shape.append(value)
            elif number == _TENSOR_DATA_TYPE:
                kind = value
        elif number == _TENSOR_DIMS:  # all of them in one field
            shape += _varints(value)
        elif number == _TENSOR_NAME:
            name = bytes(value).decode("utf-8", "replace")
        elif number == _TENSOR_RAW_DATA:
            raw = value
    if kind not in _NUMPY_TYPES:
        raise NotWeights(f"tensor {name} has the data type {kind}, which is not read here")
    if len(raw) % np.dtype(_NUMPY_TYPES[kind]).itemsize:
        raise NotWeights(
            f"tensor {name} holds {len(raw)} bytes, which is no whole number of values"
        )
    values = np.frombuffer(raw, _NUMPY_TYPES[kind])
    try:
        return name, values.reshape(shape)
    except (ValueError, OverflowError) as error:
        raise NotWeights(
            f"tensor {name} holds {values.size} values for a shape of {shape}"
        ) from error


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """(field number, value) of a message; a value with a length is a view of its bytes."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, place = _varint(message, place)
            yield number, value
            continue
        if wire == _BYTES:
            length, place = _varint(message, place)
        elif wire in (_FIXED32, _FIXED64):
            length = 4 if wire == _FIXED32 else 8
        else:
            raise NotWeights(f"a field of wire type {wire} at byte {place}")
        if place + length > len(message):
            raise NotWeights(f"a field of {length} bytes at byte {place} goes past the end")
        yield number, message[place : place + length]
        place += length


def _varints(packed: memoryview) -> Iterator[int]:
    place = 0
    while place < len(packed):
        value, place = _varint(packed, place)
        yield value


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """The number that starts at `place`, and the place after it."""
    value = 0
    for shift, byte in enumerate(message[place : place + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, place + shift + 1
    raise NotWeights(f"a number without an end at byte {place}")
