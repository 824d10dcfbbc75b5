"""Codes of vectors: how near they are, what has none, and that their products are exact."""

import numpy as np
import pytest
from numpy.typing import NDArray

from vaultmem.embedding.matrix import question_codes
from vaultmem.embedding.quantise import lengths, quantise, widened

# 1040 is the largest dimension in which float32 holds every sum of products of codes.
DIMENSIONS = (1, 2, 384, 768, 1024, 1040, 1041, 2560, 4096)


def vectors(rows: int, dimension: int, seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((rows, dimension)).astype(np.float32)


def test_the_largest_part_becomes_127_and_the_others_keep_their_share() -> None:
    codes = quantise(np.array([[0.5, -1.0, 0.25, 0.0], [-3.0, 1.5, 3.0, 0.01]], np.float32))
    assert codes.dtype == np.int8
    assert codes.tolist() == [[64, -127, 32, 0], [-127, 64, 127, 0]]


@pytest.mark.parametrize("dimension", [1, 3, 384, 1024])
def test_no_part_is_further_off_than_half_a_step(dimension: int) -> None:
    rows = vectors(200, dimension) * np.logspace(-30, 30, 200, dtype=np.float32)[:, None]
    largest = np.abs(rows).max(axis=1, keepdims=True).astype(np.float64)
    restored = quantise(rows) * largest / 127
    assert (np.abs(restored - rows) <= largest / 254 * 1.0001).all()


def test_a_vectors_length_and_batch_make_no_difference_to_its_codes() -> None:
    rows = vectors(50, 384)
    together = quantise(rows)
    assert np.array_equal(together, quantise(rows * np.float32(1024)))
    for number, row in enumerate(rows):
        assert np.array_equal(together[number], quantise(row[None])[0])
    assert np.array_equal(-together, quantise(-rows))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 2, 4])
def test_a_row_with_a_value_that_is_no_number_is_zero_and_alone_so(bad: float, place: int) -> None:
    rows = vectors(5, 8)
    expected = quantise(rows)
    expected[place] = 0
    rows[place, 3] = bad
    assert np.array_equal(quantise(rows), expected)


def test_a_row_of_zeros_is_zero_and_so_is_its_length() -> None:
    rows = vectors(3, 8)
    rows[1] = 0
    codes = quantise(rows)
    assert codes[1].tolist() == [0] * 8
    assert lengths(codes)[1] == 0
    assert (lengths(codes)[[0, 2]] > 0).all()


@pytest.mark.parametrize("scale", [1e-45, 1e-38, 3e38])
def test_the_smallest_and_the_largest_numbers_have_codes(scale: float) -> None:
    codes = quantise(np.array([[scale, -scale, 0.0]], np.float32))
    assert codes.tolist() == [[127, -127, 0]]


def test_no_rows_have_no_codes() -> None:
    assert quantise(np.empty((0, 384), np.float32)).shape == (0, 384)
    assert lengths(np.empty((0, 384), np.int8)).shape == (0,)


def test_a_question_is_quantised_as_a_passage_is() -> None:
    rows = vectors(4, 384)
    for row in rows:
        assert np.array_equal(question_codes(row), quantise(row[None])[0])
    assert question_codes(np.zeros(4, np.float32)).tolist() == [0] * 4


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_lengths_are_those_of_whole_numbers(dimension: int) -> None:
    codes = np.full((3, dimension), 127, np.int8)
    codes[1, 0] = -126
    codes[2] = quantise(vectors(1, dimension))[0]
    squares = [sum(int(code) ** 2 for code in row) for row in codes]
    assert lengths(codes).tolist() == np.sqrt(np.array(squares)).astype(np.float32).tolist()


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_products_are_whole_numbers_in_whatever_order_they_are_summed(dimension: int) -> None:
    """Also for codes as large as they can be, whose sums are the largest."""
    generator = np.random.default_rng(5)
    codes = quantise(vectors(64, dimension))
    codes[:8] = 127
    codes[1, ::2] = 126
    codes[2, 1::2] = -127
    question = np.full(dimension, 127, np.int8)
    question[dimension // 3 :: 7] = 125
    exact = (codes.astype(np.int64) @ question.astype(np.int64)).tolist()
    for _ in range(3):
        order = generator.permutation(dimension)
        for rows in (slice(0, 64), slice(5, 6), slice(1, 14)):
            products = widened(codes[rows][:, order]) @ widened(question[order])
            assert [int(product) for product in products] == exact[rows]
            assert (products == np.rint(products)).all()
