"""The server the Ollama tests run against speaks Ollama's protocol, by Ollama's own client."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy
import ollama
import pytest
from ollama_server import BUSY, Fault, OllamaServer, tokens_of


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as running:
        yield running


@pytest.fixture
def client(server: OllamaServer) -> Iterator[ollama.Client]:
    with ollama.Client(server.url, timeout=10, trust_env=False) as opened:
        yield opened


@pytest.fixture
def http(server: OllamaServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=10, trust_env=False) as opened:
        yield opened


def refusal(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(ollama.ResponseError) as caught:
        call()
    return caught.value.status_code, caught.value.error


def test_it_says_that_it_runs(http: httpx.Client) -> None:
    answer = http.get("/")
    assert (answer.status_code, answer.text) == (200, "Ollama is running")
    head = http.head("/")
    assert (head.status_code, head.text) == (200, "")
    assert http.get("/api/version").json()["version"]
    assert http.get("/api/nothing").status_code == 404


def test_it_lists_and_shows_its_models(server: OllamaServer, client: ollama.Client) -> None:
    listed = {model.model: model for model in client.list().models}
    assert set(listed) == set(server.models)
    assert listed["all-minilm:latest"].digest == "1b226e2802dbb772b5fc"
    details = listed["all-minilm:latest"].details
    assert details is not None
    assert details.family == "bert"
    shown = client.show("all-minilm")
    assert shown.modelinfo is not None
    assert shown.modelinfo["bert.embedding_length"] == 384
    assert shown.modelinfo["bert.context_length"] == 512
    assert shown.parameters == "num_ctx                        256"
    assert shown.capabilities == ["embedding"]


def test_it_knows_what_is_loaded(client: ollama.Client) -> None:
    assert client.ps().models == []
    assert client.embed("nomic-embed-text", "").embeddings == []
    (running,) = client.ps().models
    assert running.model == "nomic-embed-text:latest"
    assert running.context_length == 2048


def test_it_embeds_one_text_or_several(client: ollama.Client) -> None:
    one = client.embed("nomic-embed-text", "the kiln fires")
    several = client.embed("nomic-embed-text", ["the kiln fires", "a tax, due"])
    assert one.model == "nomic-embed-text"
    assert one.prompt_eval_count == tokens_of("the kiln fires") == 5
    assert several.prompt_eval_count == 5 + tokens_of("a tax, due")
    assert len(several.embeddings) == 2
    assert list(several.embeddings[0]) == list(one.embeddings[0])
    norms = numpy.linalg.norm(numpy.asarray(several.embeddings), axis=1)
    numpy.testing.assert_allclose(norms, 1, atol=1e-6)


def test_it_cuts_what_is_too_long_or_refuses_it(
    server: OllamaServer, client: ollama.Client
) -> None:
    text = "word " * 400
    assert client.embed("all-minilm", text).prompt_eval_count == 256
    too_long = (400, "the input length exceeds the context length")
    assert refusal(lambda: client.embed("all-minilm", text, truncate=False)) == too_long
    server.refuses_long = True
    assert refusal(lambda: client.embed("all-minilm", text, truncate=True)) == too_long
    server.refuses_long, server.hidden_cut = False, 64
    assert client.embed("all-minilm", text).prompt_eval_count == 64


def test_it_shortens_vectors(client: ollama.Client) -> None:
    whole = numpy.asarray(client.embed("nomic-embed-text", "kiln").embeddings[0])
    short = numpy.asarray(client.embed("nomic-embed-text", "kiln", dimensions=64).embeddings[0])
    expected = whole[:64] / numpy.linalg.norm(whole[:64])
    numpy.testing.assert_allclose(short, expected, atol=1e-6)
    longer = client.embed("nomic-embed-text", "kiln", dimensions=4096).embeddings[0]
    assert len(longer) == 768


def test_its_refusals_are_ollamas(
    server: OllamaServer, client: ollama.Client, http: httpx.Client
) -> None:
    assert refusal(lambda: client.embed("nothing", "kiln")) == (404, "model 'nothing' not found")
    assert refusal(lambda: client.show("nothing")) == (404, "model 'nothing' not found")
    assert refusal(lambda: client.chat("nothing", [])) == (404, "model 'nothing' not found")
    messages = [{"role": "user", "content": "Hello"}]
    assert refusal(lambda: client.chat("bge-m3", messages)) == (
        400,
        '"bge-m3" does not support chat',
    )
    empty = http.post("/api/embed")
    assert (empty.status_code, empty.json()) == (400, {"error": "missing request body"})
    for given in ([1], {"a": 1}, 7):
        answer = http.post("/api/embed", json={"model": "bge-m3", "input": given})
        assert (answer.status_code, answer.json()) == (400, {"error": "invalid input type"})
    server.busy = 1
    assert refusal(lambda: client.embed("bge-m3", "kiln")) == (503, BUSY)
    assert len(client.embed("bge-m3", "kiln").embeddings) == 1


def test_one_bad_text_fails_its_batch(server: OllamaServer, client: ollama.Client) -> None:
    server.poison = "bad"
    texts = ["good", "bad", "good"]
    assert refusal(lambda: client.embed("bge-m3", texts)) == (
        400,
        "embedding contains NaN or Inf values",
    )
    server.poison_status = 500
    assert refusal(lambda: client.embed("bge-m3", texts)) == (
        500,
        "failed to encode response: json: unsupported value: NaN",
    )
    server.poison_in_answer = True
    vectors = numpy.asarray(client.embed("bge-m3", texts).embeddings)
    assert numpy.isnan(vectors).all(axis=1).tolist() == [False, True, False]


def test_the_old_endpoint_is_there_and_its_calls_are_kept(
    server: OllamaServer, client: ollama.Client
) -> None:
    vector = client.embeddings("nomic-embed-text", "kiln").embedding
    assert float(numpy.linalg.norm(vector)) > 2
    assert [request.body["prompt"] for request in server.asked("/api/embeddings")] == ["kiln"]


def test_it_chats(server: OllamaServer, client: ollama.Client) -> None:
    server.replies = ['{"people": []}', "All is well."]
    messages = [{"role": "user", "content": "Who is there?"}]
    whole = client.chat("llama3.2", messages, format={"type": "object"}, options={"seed": 1})
    assert whole.message.content == '{"people": []}'
    assert (whole.done, whole.done_reason) == (True, "stop")
    parts = list(client.chat("llama3.2", messages, stream=True))
    assert "".join(part.message.content or "" for part in parts) == "All is well."
    assert [part.done for part in parts] == [False, False, False, True]
    assert server.asked("/api/chat")[0].body["format"] == {"type": "object"}


def test_chatting_about_nothing_loads_and_unloads(
    server: OllamaServer, client: ollama.Client
) -> None:
    assert client.chat("llama3.2", [], keep_alive="10m").done_reason == "load"
    assert server.loaded == {"llama3.2:latest": "10m"}
    assert client.chat("llama3.2", [], keep_alive=0).done_reason == "unload"
    assert server.loaded == {}


def test_it_pulls(server: OllamaServer, client: ollama.Client) -> None:
    said = [step.status for step in client.pull("mxbai-embed-large", stream=True)]
    assert said[0] == "pulling manifest"
    assert said[-3:] == ["verifying sha256 digest", "writing manifest", "success"]
    assert "mxbai-embed-large:latest" in server.models
    assert client.pull("bge-m3").status == "success"


def test_an_error_in_the_middle_of_a_stream(server: OllamaServer, client: ollama.Client) -> None:
    server.stream_error = "unexpected EOF"

    def pull() -> list[Any]:
        return list(client.pull("bge-m3", stream=True))

    def chat() -> list[Any]:
        messages = [{"role": "user", "content": "Who is there?"}]
        return list(client.chat("llama3.2", messages, stream=True))

    assert refusal(pull) == (-1, "unexpected EOF")
    assert refusal(chat) == (-1, "unexpected EOF")


@pytest.mark.parametrize(
    ("fault", "raised"),
    [
        (Fault.SLOW, httpx.ReadTimeout),
        (Fault.HUNG, httpx.ReadTimeout),
        (Fault.DROPPED, httpx.RemoteProtocolError),
        (Fault.SHUT, httpx.RemoteProtocolError),
        (Fault.GATEWAY_502, ollama.ResponseError),
        (Fault.ERROR_LIST, AttributeError),
        (Fault.JSON_LIST, TypeError),
        (Fault.PAGE, ValueError),
        (Fault.NO_EMBEDDINGS, ValueError),
        (Fault.STRINGS, ValueError),
    ],
)
def test_what_its_faults_make_of_ollamas_client(
    server: OllamaServer, fault: Fault, raised: type[Exception]
) -> None:
    # The reasons for the exceptions that the embedder expects; a newer client may differ.
    server.faults["/api/embed"] = fault
    with (
        ollama.Client(server.url, timeout=0.2, trust_env=False) as client,
        pytest.raises(raised),
    ):
        client.embed("nomic-embed-text", ["kiln"])
