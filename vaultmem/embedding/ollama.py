"""Embeddings by a model of an Ollama server.

The server sees to its own parallel work, so one call at a time is worth making. What it does
badly is made good here: it adds no prefixes, fails a whole batch for one bad text, cuts long texts
in silence, and swaps the weights under a name while we run.
"""

import time
from collections.abc import Callable, Sequence

import numpy
from numpy.typing import NDArray

from vaultmem.embedding.embedder import Embedded, Embedder, Languages, Options, Space
from vaultmem.embedding.ollama_batches import (
    BATCH_TEXTS,
    DOCUMENT_WAITS,
    QUESTION_WAITS,
    Documents,
    PatientServer,
    Row,
    Sleep,
    average,
    unit_rows,
)
from vaultmem.embedding.ollama_connection import Connection, InputRefused, Returned
from vaultmem.embedding.ollama_host import read_host
from vaultmem.embedding.ollama_models import (
    DEFAULT_MODEL,
    MOST_TOKENS,
    UNKNOWN_WINDOW,
    KnownModel,
    known_model,
)
from vaultmem.embedding.ollama_window import budget, pieces
from vaultmem.model.errors import QuestionRefused

Seconds = Callable[[], float]

# A text is embedded in so many pieces at most; of what comes after them it is said.
MOST_PIECES = 64
_MOST_CHARACTERS = 1_000_000

# A question trusts that the weights are the same for so long before it looks again.
TRUST_SECONDS = 60.0


def open_ollama(
    options: Options, *, sleep: Sleep = time.sleep, clock: Seconds = time.monotonic
) -> Embedder:
    """The embedder of the model that `options` name, on the server they name.

    Asks for the model's weights, dimension and window; loads no model unless the server does not
    know the dimension. sleep and clock are for tests. Raises EmbedderUnavailable.
    """
    name = options.model.strip() or DEFAULT_MODEL
    connection = Connection(
        read_host(options.host),
        name,
        options.timeout,
        options.keep_alive.strip(),
        host_from_vault=options.host_from_vault,
    )
    server = PatientServer(connection, sleep)
    try:
        served = server.ask(connection.model, QUESTION_WAITS)
        known = known_model(served.name)
        own = served.dimension or (known.dimension if known else 0) or server.probe()
        space = Space(
            provider="ollama",
            model=served.name,
            digest=served.digest,
            dimension=_dimension(options.dimension, own, known, connection),
            query_prefix=_prefix(options.query_prefix, known.query_prefix if known else ""),
            document_prefix=_prefix(
                options.document_prefix, known.document_prefix if known else ""
            ),
        )
    except BaseException:
        connection.close()
        raise
    return OllamaEmbedder(
        server,
        space,
        # Who names a model of their own choice knows what it reads; English is taken for granted of
        # those alone that are known for it.
        known.languages if known else Languages.MANY,
        window=min(
            known.window if known else UNKNOWN_WINDOW, served.window or MOST_TOKENS, MOST_TOKENS
        ),
        shortened=space.dimension != own,
        clock=clock,
    )


def _prefix(chosen: str | None, known: str) -> str:
    return known if chosen is None else chosen


def _dimension(asked: int, own: int, known: KnownModel | None, connection: Connection) -> int:
    if asked in (0, own):
        return own
    if 0 < asked < own and (known is None or asked in known.shorter):
        return asked
    shorter = known.shorter if known else range(1, own)
    if isinstance(shorter, range) and shorter:
        choices = f"{shorter.start} to {own}"
    else:
        choices = ", ".join(str(n) for n in range(own, 0, -1) if n == own or n in shorter)
    raise connection.unavailable(
        f"makes no vectors of {asked} numbers", f"Set embedder.dimension to 0 or to {choices}."
    )


class OllamaEmbedder:
    """See `open_ollama`."""

    parallel = 1

    def __init__(
        self,
        server: PatientServer,
        space: Space,
        languages: Languages,
        *,
        window: int,
        shortened: bool,
        clock: Seconds,
    ) -> None:
        self._server = server
        self._space = space
        self._languages = languages
        self._window = window
        self._dimensions = space.dimension if shortened else 0
        self._clock = clock
        self._confirmed = clock()

    @property
    def space(self) -> Space:
        """The identity of its vectors."""
        return self._space

    @property
    def languages(self) -> Languages:
        """What texts it understands."""
        return self._languages

    def embed_documents(self, texts: Sequence[str]) -> Embedded:
        """Vectors of passages. A long one is encoded in pieces, and their vectors averaged."""
        vectors = numpy.zeros((len(texts), self._space.dimension), numpy.float32)
        failed: dict[int, str] = {}
        truncated: set[int] = set()
        if not texts:
            return Embedded(vectors)
        most = budget(self._window, self._space.document_prefix)
        cut = [pieces(_encodable(text[:_MOST_CHARACTERS]), most) for text in texts]
        for index, found in enumerate(cut):
            if len(found) > MOST_PIECES or len(texts[index]) > _MOST_CHARACTERS:
                truncated.add(index)
        call = Documents(self._documents, self._rule_out_the_server, self._window)
        for index, row in call.rows([found[:MOST_PIECES] for found in cut]):
            if row.vector is None:
                failed[index] = row.reason
                truncated.discard(index)
                continue
            vectors[index] = row.vector
            if row.truncated:
                truncated.add(index)
        self._confirm_weights(0.0)
        return Embedded(vectors, failed, frozenset(truncated))

    def embed_query(self, text: str) -> NDArray[numpy.float32]:
        """The vector of a question; tried once, so that nobody waits long."""
        prefix = self._space.query_prefix
        found = pieces(_encodable(text[:_MOST_CHARACTERS]), budget(self._window, prefix))
        found = found[:BATCH_TEXTS]  # one request, however much was pasted
        try:
            returned = self._embed([prefix + piece for piece in found], question=True)
        except InputRefused as refused:
            row = Row(None, refused.reason)
        else:
            row = average(found, self._checked(returned))
        if row.vector is None:
            told = self._server.connection.unavailable(
                f"has no vector for this question: {row.reason}", "Ask in other words."
            )
            raise QuestionRefused(str(told))
        self._confirm_weights(TRUST_SECONDS)
        return row.vector.astype(numpy.float32)

    def close(self) -> None:
        """Close its connections."""
        self._server.connection.close()

    def _documents(self, texts: Sequence[str]) -> tuple[list[Row], int]:
        prefix = self._space.document_prefix
        returned = self._embed([prefix + text for text in texts], question=False)
        return self._checked(returned), returned.tokens

    def _embed(self, texts: Sequence[str], *, question: bool) -> Returned:
        return self._server.ask(
            lambda: self._server.connection.embed(
                texts, dimension=self._dimensions, question=question
            ),
            QUESTION_WAITS if question else DOCUMENT_WAITS,
        )

    def _rule_out_the_server(self) -> None:
        self._server.probe(self._space.document_prefix)

    def _checked(self, returned: Returned) -> list[Row]:
        for row in returned.rows:
            if len(row) != self._space.dimension:
                raise self._server.connection.unavailable(
                    f"returned {len(row)} numbers where {self._space.dimension} were expected",
                    "Update Ollama, or set embedder.dimension to 0.",
                )
        return unit_rows(returned)

    def _confirm_weights(self, trust_seconds: float) -> None:
        # Looked at after the vectors came: they are then known to be of the space they claim.
        now = self._clock()
        if now - self._confirmed < trust_seconds:
            return
        digest = self._server.ask(self._server.connection.digest, QUESTION_WAITS)
        if digest != self._space.digest:
            raise self._server.connection.unavailable(
                "has other weights under this name than when it was opened",
                "Start again: the notes will be embedded anew.",
            )
        self._confirmed = now


def _encodable(text: str) -> str:
    # A lone half of a surrogate pair cannot be sent.
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text
