"""The Ollama embedder, through Ollama's own client, against a server of its protocol."""

import math
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx
import numpy
import pytest
from ollama_server import Fault, Model, OllamaServer, Request, tokens_of, vector_of

from vaultmem.embedding import ollama_connection
from vaultmem.embedding.embedder import Embedder, Languages, Options, Space
from vaultmem.embedding.ollama import MOST_PIECES, TRUST_SECONDS, open_ollama
from vaultmem.embedding.ollama_batches import (
    BATCH_CHARACTERS,
    BATCH_TEXTS,
    DOCUMENT_WAITS,
    QUESTION_WAITS,
)
from vaultmem.embedding.ollama_connection import Connection
from vaultmem.embedding.ollama_host import read_host
from vaultmem.model.errors import EmbedderUnavailable

Open = Callable[..., Embedder]

SECRET = "periwinkle"  # stands for what is in a note and must not leave it


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("OLLAMA_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as running:
        yield running


class Times:
    """A clock that moves only while somebody sleeps by it."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.later = 0.0

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def now(self) -> float:
        return sum(self.slept) + self.later


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def open_one(server: OllamaServer, times: Times) -> Iterator[Open]:
    """open_one(model=…, …) opens an embedder on the server; options as in Options."""
    opened: list[Embedder] = []

    def open_it(**chosen: Any) -> Embedder:
        options = Options(**{"host": server.url, "timeout": 20.0, **chosen})
        embedder = open_ollama(options, sleep=times.sleep, clock=times.now)
        opened.append(embedder)
        return embedder

    yield open_it
    for embedder in opened:
        embedder.close()


def complaint(call: Callable[[], object], server: OllamaServer | None = None) -> str:
    """What EmbedderUnavailable says of a call: one line that names what it should."""
    with pytest.raises(EmbedderUnavailable) as caught:
        call()
    said = str(caught.value)
    assert "\n" not in said
    assert len(said) < 320
    assert SECRET not in said
    assert said.endswith(".")
    if server is not None:
        assert f"127.0.0.1:{server.port}" in said
        assert "nomic-embed-text" in said
    return said


def sent(server: OllamaServer) -> list[str]:
    return [text for request in server.asked("/api/embed") for text in request.texts]


def as_float32(vector: Any) -> Any:
    return numpy.asarray(vector, numpy.float32)


def words(count: int, start: int = 0) -> str:
    return " ".join(f"word{n}" for n in range(start, start + count))


# Opening


def test_the_space_names_model_weights_dimension_and_prefixes(
    server: OllamaServer, open_one: Open
) -> None:
    digest = server.models["nomic-embed-text:latest"].digest
    embedder = open_one()
    assert embedder.space == Space(
        "ollama",
        "nomic-embed-text:latest",
        digest,
        768,
        "search_query: ",
        "search_document: ",
    )
    assert embedder.languages is Languages.ENGLISH
    assert embedder.parallel == 1


def test_opening_asks_for_the_model_and_does_not_load_it(
    server: OllamaServer, open_one: Open
) -> None:
    open_one()
    assert [request.path for request in server.requests] == ["/api/tags", "/api/show"]
    assert server.loaded == {}


@pytest.mark.parametrize("name", ["BGE-M3", "bge-m3:latest", " bge-m3 "])
def test_a_model_is_found_in_any_case_with_or_without_its_tag(open_one: Open, name: str) -> None:
    embedder = open_one(model=name)
    assert embedder.space.model == "bge-m3:latest"
    assert embedder.space.dimension == 1024
    assert embedder.languages is Languages.MANY


def test_a_name_in_capitals_on_the_server_is_found_and_kept(
    server: OllamaServer, open_one: Open
) -> None:
    server.models["hf.co/Somebody/Embedder-GGUF:Q8_0"] = Model(96)
    space = open_one(model="hf.co/somebody/embedder-gguf:q8_0").space
    assert space.model == "hf.co/Somebody/Embedder-GGUF:Q8_0"


def test_a_tag_has_the_prefixes_of_its_family_and_its_own_dimension(
    server: OllamaServer, open_one: Open
) -> None:
    server.models["qwen3-embedding:0.6b"] = Model(1024, 32768, 0, "qwen3")
    space = open_one(model="qwen3-embedding:0.6b").space
    assert (space.model, space.dimension) == ("qwen3-embedding:0.6b", 1024)
    assert space.query_prefix.endswith("answer the query\nQuery:")
    assert space.document_prefix == ""


def test_a_tag_may_have_a_row_of_its_own(server: OllamaServer, open_one: Open) -> None:
    server.models["granite-embedding:30m"] = Model(384, 512, 0, "bert")
    server.models["granite-embedding:278m"] = Model(768, 512, 0, "bert")
    assert open_one(model="granite-embedding:30m").languages is Languages.ENGLISH
    assert open_one(model="granite-embedding:278m").languages is Languages.MANY


def test_a_model_that_is_not_in_the_table_gets_no_prefixes(
    server: OllamaServer, open_one: Open
) -> None:
    server.models["somebody/embedder:q8"] = Model(96, 512, 0, "bert")
    embedder = open_one(model="somebody/embedder:q8")
    assert embedder.space.dimension == 96
    embedder.embed_documents(["kiln"])
    embedder.embed_query("clay")
    assert sent(server) == ["kiln", "clay"]


def test_a_dimension_the_server_does_not_tell_is_that_of_a_vector(
    server: OllamaServer, open_one: Open
) -> None:
    server.models["unknown:latest"] = Model(48, shows_dimension=False)
    assert open_one(model="unknown").space.dimension == 48
    assert sent(server) == ["vaultmem"]


def test_a_dimension_the_server_does_not_tell_may_be_known_anyway(
    server: OllamaServer, open_one: Open
) -> None:
    server.models["bge-m3:latest"].shows_dimension = False
    assert open_one(model="bge-m3").space.dimension == 1024
    assert sent(server) == []


def test_the_server_is_found_by_its_variable(
    server: OllamaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As a server on all interfaces is told to listen.
    monkeypatch.setenv("OLLAMA_HOST", f"0.0.0.0:{server.port}")
    embedder = open_ollama(Options())
    embedder.close()
    assert server.requests[0].headers["host"] == f"127.0.0.1:{server.port}"


def test_neither_the_package_nor_its_client_is_loaded_before_it_is_needed() -> None:
    script = (
        "import sys, vaultmem.embedding.ollama, vaultmem.embedding.providers;"
        "print(sorted({'ollama', 'httpx', 'pydantic'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("[]\n", "")


# Vectors


def test_texts_that_share_words_are_near(open_one: Open) -> None:
    embedder = open_one()
    embedded = embedder.embed_documents(
        ["the kiln fires the clay", "a kiln full of clay", "taxes are due in spring"]
    )
    assert embedded.vectors.dtype == numpy.float32
    assert embedded.vectors.shape == (3, 768)
    assert (embedded.failed, embedded.truncated) == ({}, frozenset())
    numpy.testing.assert_allclose(numpy.linalg.norm(embedded.vectors, axis=1), 1, atol=1e-6)
    query = embedder.embed_query("kiln clay")
    assert query.dtype == numpy.float32
    assert query.shape == (768,)
    first, second, third = embedded.vectors @ query
    assert min(first, second) > third + 0.2


def test_each_side_gets_its_prefix_once(server: OllamaServer, open_one: Open) -> None:
    embedder = open_one()
    embedder.embed_documents(["search_document: is what a prefix looks like", "kiln"])
    embedder.embed_query("clay")
    assert sent(server) == [
        "search_document: search_document: is what a prefix looks like",
        "search_document: kiln",
        "search_query: clay",
    ]


def test_prefixes_may_be_chosen_and_chosen_to_be_empty(
    server: OllamaServer, open_one: Open
) -> None:
    embedder = open_one(query_prefix="ask: ", document_prefix="")
    embedder.embed_documents(["kiln"])
    embedder.embed_query("clay")
    assert sent(server) == ["kiln", "ask: clay"]
    assert (embedder.space.query_prefix, embedder.space.document_prefix) == ("ask: ", "")


def test_requests_ask_to_truncate_and_say_nothing_that_was_not_chosen(
    server: OllamaServer, open_one: Open
) -> None:
    open_one().embed_documents(["kiln"])
    assert server.asked("/api/embed")[0].body == {
        "model": "nomic-embed-text",
        "input": ["search_document: kiln"],
        "truncate": True,
    }


def test_the_old_endpoint_is_never_called(server: OllamaServer, open_one: Open) -> None:
    embedder = open_one()
    embedder.embed_documents(["kiln", "clay"])
    embedder.embed_query("clay")
    assert {request.path for request in server.requests} == {"/api/tags", "/api/show", "/api/embed"}


@pytest.mark.parametrize(("chosen", "arrives"), [("10m", "10m"), ("300", 300.0), ("-1", -1.0)])
def test_keep_alive_arrives_as_the_server_can_read_it(
    server: OllamaServer, open_one: Open, chosen: str, arrives: object
) -> None:
    embedder = open_one(keep_alive=chosen)
    embedder.embed_documents(["kiln"])
    embedder.embed_query("kiln")
    assert [r.body["keep_alive"] for r in server.asked("/api/embed")] == [arrives, arrives]
    assert server.loaded == {"nomic-embed-text:latest": arrives}


def test_a_keep_alive_the_server_cannot_read_is_told_in_its_words(
    server: OllamaServer, open_one: Open
) -> None:
    embedder = open_one(keep_alive="for ever")
    said = complaint(lambda: embedder.embed_documents([SECRET] * 3), server)
    assert 'refuses every text (time: invalid duration "for ever")' in said


def test_shorter_vectors_are_the_models_own_cut_and_normalised(
    server: OllamaServer, open_one: Open
) -> None:
    whole, short = open_one(), open_one(dimension=256)
    assert short.space == replace(whole.space, dimension=256)
    long_one = whole.embed_documents(["kiln"]).vectors[0]
    short_one = short.embed_documents(["kiln"]).vectors[0]
    expected = long_one[:256] / numpy.linalg.norm(long_one[:256])
    numpy.testing.assert_allclose(short_one, expected, atol=1e-6)
    assert short.embed_query("kiln").shape == (256,)
    asked = [request.body.get("dimensions") for request in server.asked("/api/embed")]
    assert asked == [None, 256, 256]


def test_its_own_dimension_is_not_asked_for(server: OllamaServer, open_one: Open) -> None:
    open_one(dimension=768).embed_documents(["kiln"])
    assert "dimensions" not in server.asked("/api/embed")[0].body


@pytest.mark.parametrize(
    ("model", "dimension", "advice"),
    [
        ("nomic-embed-text", 300, "to 0 or to 768, 512, 256, 128, 64."),
        ("nomic-embed-text", 1024, "to 0 or to 768, 512, 256, 128, 64."),
        ("nomic-embed-text", -1, "to 0 or to 768, 512, 256, 128, 64."),
        ("all-minilm", 128, "to 0 or to 384."),
        ("qwen3-embedding", 16, "to 0 or to 32 to 1024."),
        ("unknown", 49, "to 0 or to 1 to 48."),
    ],
)
def test_a_dimension_the_model_does_not_have_is_refused_with_those_it_has(
    server: OllamaServer, open_one: Open, model: str, dimension: int, advice: str
) -> None:
    server.models["qwen3-embedding:latest"] = Model(1024, 32768, 0, "qwen3")
    server.models["unknown:latest"] = Model(48)
    said = complaint(lambda: open_one(model=model, dimension=dimension))
    assert said.endswith(advice)


def test_a_model_that_is_not_in_the_table_may_be_shortened_at_will(
    server: OllamaServer, open_one: Open
) -> None:
    server.models["unknown:latest"] = Model(48)
    assert open_one(model="unknown", dimension=20).embed_query("kiln").shape == (20,)


def test_no_texts_make_no_request(server: OllamaServer, open_one: Open) -> None:
    embedder = open_one()
    before = len(server.requests)
    embedded = embedder.embed_documents([])
    assert embedded.vectors.shape == (0, 768)
    assert len(server.requests) == before


def test_what_cannot_be_sent_is_replaced(server: OllamaServer, open_one: Open) -> None:
    embedder = open_one()
    texts = ["half a \ud83d pair", "NUL \0 and é and 漢字 and 🎉", ""]
    embedded = embedder.embed_documents(texts)
    assert embedded.failed == {}
    assert sent(server) == [
        "search_document: half a ? pair",
        "search_document: NUL \0 and é and 漢字 and 🎉",
        "search_document: ",
    ]
    assert embedder.embed_query("half a \ud83d pair").shape == (768,)


def test_several_threads_may_embed_at_once(open_one: Open) -> None:
    embedder = open_one()
    texts = [f"kiln number {n}" for n in range(40)]
    expected = embedder.embed_documents(texts).vectors
    found: dict[int, Any] = {}

    def embed(which: int) -> None:
        found[which] = (embedder.embed_documents(texts).vectors, embedder.embed_query("kiln"))

    threads = [threading.Thread(target=embed, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 2, 3]
    for vectors, query in found.values():
        numpy.testing.assert_array_equal(vectors, expected)
        numpy.testing.assert_array_equal(query, found[0][1])


def test_after_closing_it_says_so(server: OllamaServer, open_one: Open) -> None:
    embedder = open_one()
    embedder.embed_query("kiln")
    embedder.close()
    embedder.close()
    assert "was closed" in complaint(lambda: embedder.embed_query("kiln"), server)


# Batches and the texts that spoil them


def test_batches_are_bounded_by_count_and_by_characters(
    server: OllamaServer, open_one: Open
) -> None:
    embedder = open_one(model="bge-m3")
    embedder.embed_documents(["kiln"] * (2 * BATCH_TEXTS + 1))
    sizes = [len(request.texts) for request in server.asked("/api/embed")]
    assert sizes == [BATCH_TEXTS, BATCH_TEXTS, 1]
    server.requests.clear()
    long_text = "kiln " * (BATCH_CHARACTERS // 20)
    embedder.embed_documents([long_text] * 10)
    batches = [request.texts for request in server.asked("/api/embed")]
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert all(sum(map(len, batch)) <= BATCH_CHARACTERS for batch in batches)


@pytest.mark.parametrize(
    ("status", "in_answer", "echoed", "reason"),
    [
        (400, False, False, "the model's vector holds no numbers (NaN)"),
        (500, False, False, "the model's vector holds no numbers (NaN)"),
        (400, True, False, "the model's vector holds no numbers (NaN)"),
        (400, False, True, "the server refused it (HTTP 400)"),
        (500, False, True, "the server refused it (HTTP 500)"),
    ],
)
def test_a_bad_text_fails_alone(
    server: OllamaServer, open_one: Open, status: int, in_answer: bool, echoed: bool, reason: str
) -> None:
    server.poison, server.poison_status = SECRET, status
    server.poison_in_answer, server.poison_echoed = in_answer, echoed
    embedder = open_one()
    texts = [f"kiln number {n}" for n in range(40)]
    for bad in (0, 17, 18, 39):
        texts[bad] += f" {SECRET}"
    embedded = embedder.embed_documents(texts)
    assert embedded.failed == dict.fromkeys((0, 17, 18, 39), reason)
    assert embedded.truncated == frozenset()
    good = [n for n in range(40) if n not in embedded.failed]
    assert not embedded.vectors[list(embedded.failed)].any()
    numpy.testing.assert_allclose(numpy.linalg.norm(embedded.vectors[good], axis=1), 1, atol=1e-6)
    alone = embedder.embed_documents([texts[16]]).vectors[0]
    numpy.testing.assert_array_equal(embedded.vectors[16], alone)
    # Halving: about two requests for each doubling and bad text, and one to try the server.
    assert len(server.asked("/api/embed")) <= 40
    assert sent(server).count("search_document: vaultmem") == 1


def test_without_a_bad_text_the_server_is_not_put_to_the_proof(
    server: OllamaServer, open_one: Open
) -> None:
    open_one().embed_documents(["kiln", "clay"])
    assert sent(server) == ["search_document: kiln", "search_document: clay"]


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (Fault.NO_MEMORY, "refuses every text (model requires more system memory (5.6 GiB)"),
        (Fault.NO_EMBEDDER, "makes no embeddings with this model. Choose an embedding model."),
        (Fault.ONE_LESS, "another number of vectors than texts"),
        (Fault.ONE_MORE, "another number of vectors than texts"),
        (Fault.OTHER_LENGTH, "returned 767 numbers where 768 were expected"),
        (Fault.ALL_NAN, "fails on every text: the model's vector holds no numbers (NaN)"),
        (Fault.ALL_INFINITE, "fails on every text: the model's vector holds no numbers (NaN)"),
        (Fault.ALL_ZERO, "fails on every text: the model's vector is zero"),
    ],
)
def test_a_server_that_fails_on_every_text_is_blamed_and_soon(
    server: OllamaServer, open_one: Open, fault: Fault, found: str
) -> None:
    embedder = open_one()
    server.faults["/api/embed"] = fault
    said = complaint(lambda: embedder.embed_documents([f"{SECRET} {n}" for n in range(16)]), server)
    assert found in said
    assert len(server.asked("/api/embed")) <= 2


# Long texts


def test_a_long_text_is_encoded_in_pieces_and_averaged_by_length(
    server: OllamaServer, open_one: Open
) -> None:
    embedder = open_one(model="all-minilm")
    text = words(400)
    embedded = embedder.embed_documents(["kiln", text])
    assert (embedded.failed, embedded.truncated) == ({}, frozenset())
    parts = sent(server)[1:]
    assert len(parts) > 2
    assert "".join(parts) == text
    assert all(tokens_of(part) < 256 for part in parts)
    total = sum(len(part) * vector_of(part.split(), 384) for part in parts)
    numpy.testing.assert_allclose(
        embedded.vectors[1], as_float32(total / numpy.linalg.norm(total)), atol=1e-5
    )


def test_every_piece_has_the_prefix(server: OllamaServer, open_one: Open) -> None:
    open_one().embed_documents([words(3000)])
    parts = sent(server)
    assert len(parts) > 2
    assert all(part.count("search_document: ") == 1 for part in parts)
    assert "".join(part.removeprefix("search_document: ") for part in parts) == words(3000)


def test_a_huge_text_is_embedded_as_far_as_is_reasonable_and_reported(
    server: OllamaServer, open_one: Open
) -> None:
    embedder = open_one(model="all-minilm")
    embedded = embedder.embed_documents(["kiln", words(60_000), words(400)])
    assert (embedded.failed, embedded.truncated) == ({}, frozenset({1}))
    assert embedded.vectors[1].any()
    assert len([text for text in sent(server) if text.startswith("word0 ")]) == 2
    assert MOST_PIECES < len(sent(server)) < MOST_PIECES + 10


def test_a_huge_question_is_one_request_still(server: OllamaServer, open_one: Open) -> None:
    assert open_one(model="all-minilm").embed_query(words(60_000)).any()
    (request,) = server.asked("/api/embed")
    assert len(request.texts) == BATCH_TEXTS


def test_a_window_the_server_tells_is_heeded(server: OllamaServer, open_one: Open) -> None:
    server.models["nomic-embed-text:latest"].num_ctx = 128
    embedded = open_one().embed_documents([words(300)])
    assert embedded.truncated == frozenset()
    assert len(sent(server)) > 2
    assert all(tokens_of(text) < 128 for text in sent(server))


def test_a_long_question_is_asked_in_one_request(server: OllamaServer, open_one: Open) -> None:
    vector = open_one(model="all-minilm").embed_query(words(400))
    (request,) = server.asked("/api/embed")
    assert "".join(request.texts) == words(400)
    assert len(request.texts) > 2
    assert math.isclose(float(numpy.linalg.norm(vector)), 1, abs_tol=1e-6)


def test_what_the_server_finds_too_long_is_halved_and_nothing_is_lost(
    server: OllamaServer, open_one: Open
) -> None:
    # Since 0.13.5 some servers do not truncate, and this one's window is smaller than it says.
    server.refuses_long, server.hidden_cut = True, 100
    embedder = open_one()
    embedded = embedder.embed_documents(["kiln", words(300), "clay"])
    assert (embedded.failed, embedded.truncated) == ({}, frozenset())
    taken = [text for text in sent(server) if tokens_of(text) <= 100]
    halves = [text.removeprefix("search_document: ") for text in taken if "word" in text]
    assert "".join(halves) == words(300)
    total = sum(
        len(half) * vector_of(["search_document", ":", *half.split()], 768) for half in halves
    )
    numpy.testing.assert_allclose(
        embedded.vectors[1], as_float32(total / numpy.linalg.norm(total)), atol=1e-4
    )


def test_a_text_that_fits_in_no_size_fails_alone(server: OllamaServer, open_one: Open) -> None:
    server.refuses_long, server.hidden_cut = True, 10
    embedded = open_one().embed_documents(["kiln", "." * 1500, "clay"])
    assert embedded.failed == {1: "too long for the model"}
    assert len(server.asked("/api/embed")) < 40


def test_a_text_that_was_cut_in_silence_is_halved(server: OllamaServer, open_one: Open) -> None:
    server.hidden_cut = 256
    embedded = open_one().embed_documents([words(400)])
    assert (embedded.failed, embedded.truncated) == ({}, frozenset())
    seen = [text.removeprefix("search_document: ") for text in sent(server)]
    assert "".join(text for text in seen if tokens_of(text) < 256) == words(400)


def test_a_text_that_is_cut_however_short_is_reported(server: OllamaServer, open_one: Open) -> None:
    server.says_tokens = 512
    embedded = open_one().embed_documents([words(200)])
    assert (embedded.failed, embedded.truncated) == ({}, frozenset({0}))
    assert math.isclose(float(numpy.linalg.norm(embedded.vectors[0])), 1, abs_tol=1e-6)
    assert len(server.asked("/api/embed")) < 40


def test_a_text_with_one_bad_piece_keeps_the_others_and_is_reported(
    server: OllamaServer, open_one: Open
) -> None:
    server.poison = SECRET
    embedded = open_one(model="all-minilm").embed_documents([f"{words(300)} {SECRET} {words(300)}"])
    assert (embedded.failed, embedded.truncated) == ({}, frozenset({0}))
    assert embedded.vectors[0].any()


# Weights that change under a name


def test_weights_replaced_before_a_call_are_noticed(server: OllamaServer, open_one: Open) -> None:
    embedder = open_one()
    server.models["nomic-embed-text:latest"].digest = "feedface"
    said = complaint(lambda: embedder.embed_documents([SECRET]), server)
    assert "has other weights under this name" in said


def test_weights_replaced_between_two_batches_are_noticed(
    server: OllamaServer, open_one: Open
) -> None:
    embedder = open_one()

    def replace_weights() -> None:
        server.models["nomic-embed-text:latest"].digest = "feedface"

    server.after_embed = replace_weights
    said = complaint(lambda: embedder.embed_documents(["kiln"] * 2 * BATCH_TEXTS), server)
    assert "has other weights under this name" in said


def test_a_question_looks_at_the_weights_again_after_a_while(
    server: OllamaServer, open_one: Open, times: Times
) -> None:
    embedder = open_one()
    times.later = TRUST_SECONDS
    for _ in range(3):
        embedder.embed_query("kiln")
    assert len(server.asked("/api/tags")) == 2  # on opening, and once since
    server.models["nomic-embed-text:latest"].digest = "feedface"
    embedder.embed_query("kiln")
    times.later = 2 * TRUST_SECONDS
    said = complaint(lambda: embedder.embed_query("kiln"), server)
    assert "has other weights under this name" in said


# A busy server


def test_a_busy_server_is_asked_again_after_growing_waits(
    server: OllamaServer, open_one: Open, times: Times
) -> None:
    embedder = open_one()
    server.busy = 3
    embedded = embedder.embed_documents(["kiln"])
    assert embedded.failed == {}
    assert times.slept == list(DOCUMENT_WAITS[:3])
    assert list(DOCUMENT_WAITS) == sorted(DOCUMENT_WAITS)


def test_a_server_that_stays_busy_is_given_up_in_the_end(
    server: OllamaServer, open_one: Open, times: Times
) -> None:
    embedder = open_one()
    server.busy = 1000
    said = complaint(lambda: embedder.embed_documents([SECRET] * 5), server)
    assert "is busy and stayed so for 30.5 s" in said
    assert times.slept == list(DOCUMENT_WAITS)


def test_a_question_waits_for_a_busy_server_a_second_at_most(
    server: OllamaServer, open_one: Open, times: Times
) -> None:
    embedder = open_one()
    server.busy = len(QUESTION_WAITS)
    assert embedder.embed_query("kiln").any()
    server.busy = 1000
    assert "is busy" in complaint(lambda: embedder.embed_query(SECRET), server)
    assert times.slept == [*QUESTION_WAITS, *QUESTION_WAITS]
    assert sum(QUESTION_WAITS) <= 1


# Trouble on the way

ON_THE_WAY = [
    (Fault.SLOW, "gave no answer within 0.4 s. Raise embedder.timeout"),
    (Fault.HUNG, "gave no answer within 0.4 s. Raise embedder.timeout"),
    (Fault.DROPPED, "broke the connection off before its answer was complete"),
    (Fault.SHUT, "broke the connection off before its answer was complete"),
    (Fault.GATEWAY_502, "does not answer; HTTP 502 came back instead"),
    (Fault.ERROR_LIST, "answered with something that is not Ollama's"),
    (Fault.REDIRECT, "sends its callers elsewhere (HTTP 307)"),
    (Fault.FORBIDDEN, "refused access (HTTP 403)"),
    (Fault.PAGE, "answered with something that is not Ollama's"),
    (Fault.JSON_LIST, "answered with something that is not Ollama's"),
    (Fault.NO_EMBEDDINGS, "answered with something that is not Ollama's"),
    (Fault.STRINGS, "answered with something that is not Ollama's"),
]


def patience(fault: Fault) -> float:
    return 0.4 if fault in (Fault.SLOW, Fault.HUNG) else 20.0


@pytest.mark.parametrize("path", ["/api/tags", "/api/show"])
@pytest.mark.parametrize(("fault", "found"), ON_THE_WAY)
def test_trouble_on_opening(
    server: OllamaServer, open_one: Open, path: str, fault: Fault, found: str
) -> None:
    server.faults[path] = fault
    assert found in complaint(lambda: open_one(timeout=patience(fault)), server)


@pytest.mark.parametrize(("fault", "found"), ON_THE_WAY)
def test_trouble_on_embedding(
    server: OllamaServer, open_one: Open, fault: Fault, found: str
) -> None:
    embedder = open_one(timeout=patience(fault))
    server.faults["/api/embed"] = fault
    assert found in complaint(lambda: embedder.embed_documents([SECRET, "kiln"]), server)
    assert found in complaint(lambda: embedder.embed_query(SECRET), server)
    # None of this is a text's fault, so nothing was halved.
    assert len(server.asked("/api/embed")) <= 2
    del server.faults["/api/embed"]
    assert embedder.embed_documents(["kiln"]).failed == {}


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (Fault.OTHER_LENGTH, "returned 767 numbers where 768 were expected"),
        (Fault.ONE_LESS, "has no vector for this question: the server returned another number"),
        (Fault.ALL_NAN, "has no vector for this question: the model's vector holds no numbers"),
        (Fault.ALL_ZERO, "has no vector for this question: the model's vector is zero"),
        (Fault.NO_MEMORY, "has no vector for this question: the server has not enough memory"),
        (Fault.NO_EMBEDDER, "makes no embeddings with this model"),
    ],
)
def test_a_question_without_a_usable_vector(
    server: OllamaServer, open_one: Open, fault: Fault, found: str
) -> None:
    embedder = open_one()
    server.faults["/api/embed"] = fault
    assert found in complaint(lambda: embedder.embed_query(SECRET), server)
    assert len(server.asked("/api/embed")) == 1


def test_a_question_the_server_repeats_in_its_error_stays_out_of_ours(
    server: OllamaServer, open_one: Open
) -> None:
    embedder = open_one()
    server.poison, server.poison_echoed = SECRET, True
    said = complaint(lambda: embedder.embed_query(f"what is {SECRET}"), server)
    assert "the server refused it (HTTP 400)" in said


def test_a_question_waits_no_longer_than_a_person_would(
    server: OllamaServer, open_one: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ollama_connection, "QUESTION_SECONDS", 0.4)
    embedder = open_one(timeout=60.0)
    server.faults["/api/embed"] = Fault.SLOW
    said = complaint(lambda: embedder.embed_query(SECRET), server)
    assert "within 0.4 s. Ask again: the model may still be loading." in said


def test_every_request_has_all_of_its_time_outs(
    server: OllamaServer, open_one: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, dict[str, float]]] = []
    send = httpx.Client.send

    def watch(client: httpx.Client, request: httpx.Request, **more: Any) -> httpx.Response:
        seen.append((request.url.path, dict(request.extensions["timeout"])))
        return send(client, request, **more)

    monkeypatch.setattr(httpx.Client, "send", watch)
    embedder = open_one(timeout=90.0)
    embedder.embed_documents(["kiln"])
    embedder.embed_query("kiln")
    asked = {"connect": 2.0, "read": 30.0, "write": 30.0, "pool": 30.0}
    embedded = {"connect": 2.0, "read": 90.0, "write": 90.0, "pool": 90.0}
    assert seen == [
        ("/api/tags", asked),
        ("/api/show", asked),
        ("/api/embed", embedded),
        ("/api/tags", asked),
        ("/api/embed", asked),
    ]


def test_a_model_the_server_does_not_have_is_to_be_pulled(
    server: OllamaServer, open_one: Open
) -> None:
    del server.models["nomic-embed-text:latest"]
    said = complaint(open_one, server)
    assert said.endswith("does not have the model. Run `ollama pull nomic-embed-text`.")


def test_a_model_removed_later_is_to_be_pulled(server: OllamaServer, open_one: Open) -> None:
    embedder = open_one()
    del server.models["nomic-embed-text:latest"]
    for call in (lambda: embedder.embed_query(SECRET), lambda: embedder.embed_documents([SECRET])):
        assert complaint(call, server).endswith("Run `ollama pull nomic-embed-text`.")


def test_a_port_without_a_server(server: OllamaServer) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        host = f"127.0.0.1:{taken.getsockname()[1]}"
        said = complaint(lambda: open_ollama(Options(host=host)))
    assert f"Ollama at {host} (model nomic-embed-text) does not answer: no connection." in said
    assert "`ollama serve`" in said


def test_a_server_that_goes_away(server: OllamaServer) -> None:
    with OllamaServer() as other:
        embedder = open_ollama(Options(host=other.url))
        embedder.embed_query("kiln")
    said = complaint(lambda: embedder.embed_documents([SECRET]), other)
    assert "does not answer: no connection" in said
    embedder.close()


def test_a_host_that_no_name_server_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    said = complaint(lambda: open_ollama(Options(host="http://nas.example:11434")))
    assert "Ollama at nas.example:11434" in said
    assert "has a host name that is not known. Correct embedder.host." in said


def test_tls_with_a_server_that_speaks_none(server: OllamaServer) -> None:
    said = complaint(lambda: open_ollama(Options(host=f"https://127.0.0.1:{server.port}")))
    assert "could not be trusted: TLS failed" in said


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALL_PROXY", "socks5://user:hunter2@127.0.0.1:9"),
        ("OLLAMA_HOST", "http://x:port"),
        ("OLLAMA_HOST", "http://x\x01y"),
    ],
)
def test_an_environment_the_client_cannot_be_loaded_in(variable: str, value: str) -> None:
    script = (
        "from vaultmem.embedding.embedder import Options\n"
        "from vaultmem.embedding.ollama import open_ollama\n"
        "from vaultmem.model.errors import EmbedderUnavailable\n"
        "try:\n    open_ollama(Options(host='http://127.0.0.1:9'))\n"
        "except EmbedderUnavailable as error:\n    print(error)\n"
    )
    environment = {**os.environ, variable: value}
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment
    )
    assert ended.stderr == ""
    assert "cannot be called with this environment" in ended.stdout
    assert "hunter2" not in ended.stdout


# Where notes and keys go


def test_this_machine_is_never_called_through_a_proxy(
    server: OllamaServer, open_one: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    embedder = open_one()
    assert embedder.embed_documents(["kiln"]).failed == {}
    assert embedder.embed_query("kiln").any()


def test_a_key_goes_to_this_machine(
    server: OllamaServer, open_one: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", "hunter2")
    open_one().embed_documents(["kiln"])
    assert {r.headers.get("authorization") for r in server.requests} == {"Bearer hunter2"}


def test_a_key_does_not_go_over_a_network_in_the_open(
    server: OllamaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", "hunter2")
    # The server stands in for a proxy and sees what would go to a host elsewhere.
    monkeypatch.setenv("HTTP_PROXY", server.url)
    complaint(lambda: open_ollama(Options(host="http://192.0.2.7:11434")))
    (request,) = server.requests
    assert request.path == "http://192.0.2.7:11434/api/tags"
    assert "authorization" not in request.headers


@pytest.mark.parametrize("from_vault", [False, True])
def test_a_key_goes_to_no_host_that_only_the_vault_names(from_vault: bool) -> None:
    host = read_host("https://collector.example")
    connection = Connection(host, "m", 1.0, host_from_vault=from_vault)
    asked = httpx.Request(
        "GET", "https://collector.example/api/tags", headers={"Authorization": "Bearer hunter2"}
    )
    assert ("authorization" in connection._authorised(asked).headers) is not from_vault


def test_notes_follow_no_redirect(server: OllamaServer, open_one: Open) -> None:
    embedder = open_one()
    with OllamaServer() as elsewhere:
        server.faults["/api/embed"], server.redirect_to = Fault.REDIRECT, elsewhere.url
        complaint(lambda: embedder.embed_documents([SECRET]), server)
        complaint(lambda: embedder.embed_query(SECRET), server)
        assert elsewhere.requests == []


def test_requests_are_kept_as_they_came(server: OllamaServer, open_one: Open) -> None:
    # The checks above lean on this.
    open_one()
    first: Request = server.requests[0]
    assert (first.method, first.path, first.body) == ("GET", "/api/tags", None)
    assert first.headers["user-agent"].startswith("ollama-python/")
