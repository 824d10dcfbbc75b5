"""What every embedder keeps, whoever makes the vectors.

A test module subclasses EmbedderContract and provides three fixtures:

open_embedder   Callable[[], Embedder]: opens one that works
embedder        Embedder: one of them, which the tests share and none closes
open_broken     Callable[[], Embedder]: opens one whose model is not there; either that or its
                first text raises EmbedderUnavailable
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from vaultmem.embedding.embedder import Embedder
from vaultmem.model.errors import EmbedderUnavailable

Floats = NDArray[np.float32]
Open = Callable[[], Embedder]

# No two of them mean the same, and their lengths are mixed.
TEXTS = (
    "The kiln fires overnight and the vases cool until noon.",
    "rain",
    "We restore the backup of the orders database every first Monday, and write down how long it "
    "took, who did it and what was missing, since a backup that nobody restores is none.",
    "¿Dónde guardé las fotografías del viaje a Cuenca?",
    "Die Straßenbahn fährt sonntags nur alle zwanzig Minuten.",
    "备份每天凌晨三点开始，大约需要四十分钟。",
    "find . -name '*.log' -mtime +30 -print0 | xargs -0 gzip -9",
)

ODD_TEXTS = (
    "",
    " \n\t ",
    "\x00",
    "a\ufffdb\x1b[31m",
    "\ud800 half a pair \udc00",
    "👩‍🚀🏳️‍🌈",
    "\u200b\ufeff\u202e",
    "e\u0301\u0323\u0327" * 40,
    "İ ẞ ﬁ ½ 𝔘",
    "한국어 ไทย עברית हिन्दी",
    "x" * 5_000,
    "[CLS] [SEP] <s> </s> ▁",
)


def vectors_of(embedder: Embedder, texts: Sequence[str]) -> Floats:
    embedded = embedder.embed_documents(texts)
    assert embedded.failed == {}
    vectors: Floats = embedded.vectors
    return vectors


def smallest_cosine(one: Any, other: Any) -> float:
    return float((one.astype(np.float64) * other.astype(np.float64)).sum(axis=-1).min())


class EmbedderContract:
    """The tests; see above for the fixtures they need."""

    def test_vectors_are_unit_rows_of_float32_in_the_dimension_of_the_space(
        self, embedder: Embedder
    ) -> None:
        vectors = vectors_of(embedder, TEXTS)
        assert vectors.shape == (len(TEXTS), embedder.space.dimension)
        assert vectors.dtype == np.float32
        assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5

    def test_a_question_is_one_unit_vector(self, embedder: Embedder) -> None:
        vector = embedder.embed_query("when do the vases cool?")
        assert vector.shape == (embedder.space.dimension,)
        assert vector.dtype == np.float32
        assert abs(float(np.linalg.norm(vector)) - 1) < 1e-5

    def test_different_texts_have_different_vectors(self, embedder: Embedder) -> None:
        vectors = vectors_of(embedder, TEXTS)
        between = vectors @ vectors.T - np.eye(len(TEXTS), dtype=np.float32)
        assert between.max() < 0.9

    def test_the_same_texts_have_the_same_vectors(self, embedder: Embedder) -> None:
        assert np.array_equal(vectors_of(embedder, TEXTS), vectors_of(embedder, TEXTS))

    def test_a_batch_gives_what_its_texts_give_alone_in_their_order(
        self, embedder: Embedder
    ) -> None:
        alone = np.concatenate([vectors_of(embedder, [text]) for text in TEXTS])
        assert smallest_cosine(vectors_of(embedder, TEXTS), alone) >= 0.99999
        backwards = vectors_of(embedder, TEXTS[::-1])[::-1]
        assert smallest_cosine(backwards, alone) >= 0.99999

    def test_no_texts_have_no_vectors(self, embedder: Embedder) -> None:
        embedded = embedder.embed_documents([])
        assert embedded.vectors.shape == (0, embedder.space.dimension)
        assert embedded.vectors.dtype == np.float32
        assert (dict(embedded.failed), embedded.truncated) == ({}, frozenset())

    @pytest.mark.parametrize("text", ODD_TEXTS, ids=range(len(ODD_TEXTS)))
    def test_any_string_has_a_vector_or_a_reason_and_harms_no_other(
        self, embedder: Embedder, text: str
    ) -> None:
        embedded = embedder.embed_documents([TEXTS[0], text, TEXTS[2]])
        lengths = np.linalg.norm(embedded.vectors, axis=1)
        if embedded.failed:
            assert list(embedded.failed) == [1]
            assert embedded.failed[1]
            assert lengths[1] == 0
        else:
            assert abs(lengths[1] - 1) < 1e-5
        alone = vectors_of(embedder, [TEXTS[0], TEXTS[2]])
        assert smallest_cosine(embedded.vectors[[0, 2]], alone) >= 0.99999

    def test_a_huge_text_has_a_vector(self, embedder: Embedder) -> None:
        huge = "The kiln fires overnight. " * 12_000
        embedded = embedder.embed_documents([TEXTS[1], huge])
        assert embedded.truncated <= {1}
        assert embedded.failed == {}
        assert np.abs(np.linalg.norm(embedded.vectors, axis=1) - 1).max() < 1e-5
        near, far = vectors_of(embedder, ["The kiln fires overnight.", TEXTS[3]])
        assert embedded.vectors[1] @ near > embedded.vectors[1] @ far

    def test_threads_get_what_one_caller_gets(self, open_embedder: Open) -> None:
        embedder = open_embedder()
        try:
            # The very first texts come from all of them at once, when nothing is loaded yet.
            with ThreadPoolExecutor(4) as pool:
                found = list(pool.map(lambda _: vectors_of(embedder, TEXTS), range(8)))
            expected = np.concatenate([vectors_of(embedder, [text]) for text in TEXTS])
        finally:
            embedder.close()
        assert len(found) == 8
        for vectors in found:
            assert smallest_cosine(vectors, expected) >= 0.99999

    def test_two_of_a_kind_are_in_one_space_and_agree(
        self, embedder: Embedder, open_embedder: Open
    ) -> None:
        other = open_embedder()
        try:
            assert other.space == embedder.space
            assert other.languages == embedder.languages
            vectors = vectors_of(other, TEXTS)
        finally:
            other.close()
        assert smallest_cosine(vectors, vectors_of(embedder, TEXTS)) >= 0.99999

    def test_the_space_says_whose_it_is(self, embedder: Embedder) -> None:
        space = embedder.space
        assert space.provider
        assert space.model
        assert space.digest
        assert space.dimension > 0

    def test_at_least_one_call_at_a_time_is_worth_making(self, embedder: Embedder) -> None:
        assert embedder.parallel >= 1

    def test_closing_twice_is_no_harm(self, open_embedder: Open) -> None:
        embedder = open_embedder()
        vectors_of(embedder, TEXTS[:1])
        embedder.close()
        embedder.close()
        # Nor does it harm others.
        other = open_embedder()
        assert len(vectors_of(other, TEXTS[:1])) == 1
        other.close()

    def test_a_model_that_is_not_there_is_said_in_one_line(self, open_broken: Open) -> None:
        with pytest.raises(EmbedderUnavailable) as caught:
            open_broken().embed_query("kiln")
        assert caught.value.exit_code == 15
        said = str(caught.value)
        assert said.endswith(".")
        assert "\n" not in said
        assert "kiln" not in said
