"""What an embedder is: the protocol, the identity of its vector space, and its answer.

A new embedder is one module that satisfies `Embedder` and one row in `providers.py`; the shared
contract test in tests/embedding runs over every row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Vectors = NDArray[numpy.float32]


class Languages(StrEnum):
    """What texts a model understands; a model of English alone is trusted less with others."""

    ENGLISH = "english"
    MANY = "many"


@dataclass(frozen=True, slots=True)
class Space:
    """What makes two vectors comparable. Vectors of unequal spaces are never mixed."""

    provider: str  # a row of providers.py
    model: str
    digest: str  # of the weights: what was computed by other weights is another space
    dimension: int
    query_prefix: str = ""
    document_prefix: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """What a person may choose about an embedder; each provider takes what concerns it."""

    model: str = ""  # Ollama's name of the model; "" for the provider's default
    model_path: str = ""  # a copy of the weights to use instead of the installed one
    host: str = ""  # of an Ollama server; "" for OLLAMA_HOST or the default
    host_from_vault: bool = False  # whether a file of the vault named it, which may be a stranger's
    dimension: int = 0  # shorter vectors, where the model can; 0 for its own
    keep_alive: str = ""  # how long Ollama keeps the model loaded; "" for the server's default
    timeout: float = 120.0  # seconds to wait for one answer, a cold model's loading included
    query_prefix: str | None = None  # None for the one the model is known to want
    document_prefix: str | None = None


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of some texts, row by row."""

    vectors: "Vectors"  # [texts, dimension], float32, unit length; rows in `failed` are zero
    failed: Mapping[int, str] = field(default_factory=dict)  # row -> why it has no vector
    truncated: frozenset[int] = frozenset()  # rows of whose text the model saw only a part


class Embedder(Protocol):
    """Turns texts into unit vectors. Safe to call from several threads at once.

    Every method raises EmbedderUnavailable, with a message that says what to do, when the model
    or its server cannot be used; what concerns one text alone is a value (`Embedded.failed`).
    """

    @property
    def space(self) -> Space:
        """The identity of its vectors."""
        ...

    @property
    def languages(self) -> Languages:
        """What texts it understands."""
        ...

    @property
    def parallel(self) -> int:
        """How many calls at once are worth making on this machine."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Embedded:
        """Vectors of passages. A text longer than the model's window is never cut in silence:
        it is encoded in pieces and averaged, or its row stands in `truncated`."""
        ...

    def embed_query(self, text: str) -> "Vectors":
        """The vector of a question, [dimension], float32, unit length."""
        ...

    def close(self) -> None:
        """Let go of connections and memory; safe to call twice."""
        ...
