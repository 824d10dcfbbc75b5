"""Vectors of record: int8, scaled by the largest absolute value.

A quarter of the size at unchanged quality (R@5 .544 against .544 on 911 documentation sections).
Questions are quantised the same way: the product of two int8 vectors is a whole number that a
float holds exactly, so a similarity depends neither on the order of rows nor on who computes it.
"""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vaultmem.embedding.embedder import Vectors

    Codes = NDArray[np.int8]
    Wide = NDArray[np.float32] | NDArray[np.float64]

QUANTISATION = "int8 max-abs"

# Up to this dimension no sum of products is too large for float32 (127² * 1040 < 2**24).
_EXACT_IN_FLOAT32 = 1040


def quantise(vectors: "Vectors") -> "Codes":
    """Codes of vectors, row by row: [n, dimension] float32 -> [n, dimension] int8.

    A row of zeros, or one with a value that is no number, becomes zeros.
    """
    largest = np.abs(vectors).max(axis=-1, keepdims=True)
    usable = np.isfinite(largest) & (largest > 0)
    scaled = np.divide(vectors, largest, out=np.zeros_like(vectors), where=usable)
    codes: Codes = np.rint(scaled * 127).astype(np.int8)
    return codes


def widened(codes: "Codes") -> "Wide":
    """Codes as floats in which sums of their products are exact, in whatever order: [...]."""
    if codes.shape[-1] <= _EXACT_IN_FLOAT32:
        return codes.astype(np.float32)
    return codes.astype(np.float64)


def lengths(codes: "Codes") -> "Vectors":
    """Euclidean length of each row of codes: [n, dimension] int8 -> [n] float32."""
    wide = widened(codes)
    found: Vectors = np.sqrt(np.einsum("ij,ij->i", wide, wide)).astype(np.float32)
    return found
