"""Talking to an Ollama server: where it is, what it is asked, and what its trouble means.

Everything that can go wrong between us and the server comes out of here as one of three
exceptions: EmbedderUnavailable with a message for a person, `Busy`, or `InputRefused`. A server's
error may repeat the text it was given, so of what it says about a note only known phrases are
passed on, never its words.
"""

import re
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeVar

from vaultmem.embedding.ollama_host import Host
from vaultmem.embedding.ollama_models import with_tag
from vaultmem.model.errors import EmbedderUnavailable

if TYPE_CHECKING:
    import httpx
    import ollama

Answer = TypeVar("Answer")

CONNECT_SECONDS = 2.0
# A person waits for a question's answer; a cold model takes longer only on slow disks.
QUESTION_SECONDS = 30.0

_TOO_LONG = ("context length", "context size", "too large", "batch size")
_NOT_A_NUMBER = re.compile(r"\b(nan|inf)\b")
_RUNNER_DIED = ("eof", "runner", "terminated", "connection reset", "connection refused", "forcibly")


class Busy(Exception):
    """The server has too much to do just now (HTTP 503 or 429)."""


class InputRefused(Exception):
    """The server refused the texts it was given; one of them may be the cause."""

    def __init__(self, reason: str, *, too_long: bool = False, said: str = "") -> None:
        super().__init__(reason)
        self.reason = reason  # free of the note's words
        self.too_long = too_long
        self.said = said  # the server's words: to be shown only if they cannot repeat a note


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as the server describes it."""

    name: str  # with its tag
    digest: str
    dimension: int  # 0 if it does not say
    window: int  # tokens; 0 if it does not say


@dataclass(frozen=True, slots=True)
class Returned:
    """The server's vectors of some texts, as it sent them."""

    rows: Sequence[Sequence[float]]
    tokens: int  # of all texts together, after any cut; 0 if it does not say


class Connection:
    """One model of one server. Safe to use from several threads."""

    def __init__(
        self,
        host: Host,
        model: str,
        timeout: float,
        keep_alive: str = "",
        *,
        host_from_vault: bool = False,
    ) -> None:
        self._host = host
        self._host_from_vault = host_from_vault
        self._model = model
        self._timeout = timeout
        self._keep_alive = _duration(keep_alive)
        self._clients: dict[float, ollama.Client] = {}
        self._opened = ExitStack()
        self._lock = threading.Lock()
        self._closed = False

    def model(self) -> ServedModel:
        """What the server says of the model. Raises EmbedderUnavailable, Busy."""
        name, digest = self._listed()
        shown = self._ask(lambda client: client.show(name), question=True)
        dimension, window = _sizes(shown.modelinfo or {}, shown.parameters or "")
        return ServedModel(name, digest, dimension, window)

    def digest(self) -> str:
        """The digest of the model's weights now. Raises EmbedderUnavailable, Busy."""
        return self._listed()[1]

    def embed(
        self, texts: Sequence[str], *, dimension: int = 0, question: bool = False
    ) -> Returned:
        """Vectors of texts, as many as there are texts.

        dimension: shorter vectors than the model's own; 0 for its own.
        question:  a person waits: the shorter time-out.
        Raises EmbedderUnavailable, Busy, InputRefused.
        """
        answer = self._ask(
            lambda client: client.embed(
                self._model,
                list(texts),
                truncate=True,
                keep_alive=self._keep_alive,
                dimensions=dimension or None,
            ),
            question=question,
        )
        if len(answer.embeddings) != len(texts):
            raise InputRefused("the server returned another number of vectors than texts")
        return Returned(answer.embeddings, answer.prompt_eval_count or 0)

    def unavailable(self, found: str, todo: str) -> EmbedderUnavailable:
        """The exception that says so: one line with the server, the model, and what to do."""
        return EmbedderUnavailable(
            f"Ollama at {self._host.name} (model {self._model}) {found}. {todo}"
        )

    def close(self) -> None:
        """Close what is open; later calls raise EmbedderUnavailable."""
        with self._lock:
            self._closed = True
            opened = self._opened.pop_all()
        opened.close()

    def _listed(self) -> tuple[str, str]:
        wanted = with_tag(self._model).casefold()
        for row in self._ask(lambda client: client.list(), question=True).models:
            if row.model and with_tag(row.model).casefold() == wanted:
                if not row.digest:
                    raise self._not_ollama()
                return with_tag(row.model), row.digest
        raise self._missing()

    def _ask(self, call: "Callable[[ollama.Client], Answer]", *, question: bool) -> Answer:
        seconds = min(self._timeout, QUESTION_SECONDS) if question else self._timeout
        client = self._client(seconds)
        import httpx
        import ollama

        # "from None": what was caught may hold the server's words, and so a note's.
        try:
            return call(client)
        except ollama.ResponseError as error:
            self._refused(error.status_code, str(error.error or ""))
        except (ConnectionError, httpx.ConnectError) as error:
            raise self._not_connected(error) from None
        except httpx.ConnectTimeout:
            raise self.unavailable(
                f"could not be reached within {CONNECT_SECONDS:g} s",
                "Start it, or correct embedder.host.",
            ) from None
        except httpx.TimeoutException:
            raise self.unavailable(
                f"gave no answer within {seconds:g} s",
                "Raise embedder.timeout if the model is slow, or restart Ollama."
                if seconds == self._timeout
                else "Ask again: the model may still be loading. If it stays so, restart Ollama.",
            ) from None
        except httpx.HTTPError:
            raise self.unavailable(
                "broke the connection off before its answer was complete",
                "Look into Ollama's log, and try again.",
            ) from None
        except (ValueError, TypeError, AttributeError, RecursionError, httpx.InvalidURL):
            # The client trusts the answer's shape and stumbles over any other.
            raise self._not_ollama() from None
        except RuntimeError:
            raise self._is_closed() from None

    def _client(self, seconds: float) -> "ollama.Client":
        with self._lock:
            if self._closed:
                raise self._is_closed()
            client = self._clients.get(seconds)
            if client is None:
                client = self._clients[seconds] = self._connect(seconds)
                self._opened.enter_context(client)
            return client

    def _connect(self, seconds: float) -> "ollama.Client":
        try:
            import httpx
        except ModuleNotFoundError:
            raise self._not_installed() from None
        # Importing the package makes a client of its own, from whatever the environment says.
        try:
            import ollama

            return ollama.Client(
                self._host.url,
                timeout=(min(CONNECT_SECONDS, seconds), seconds, seconds, seconds),
                # Notes go where the person said and nowhere else.
                follow_redirects=False,
                # No proxy stands between us and this machine.
                trust_env=not self._host.loopback,
                auth=self._authorised,
            )
        except ModuleNotFoundError:
            raise self._not_installed() from None
        except (ImportError, ValueError, OSError, httpx.InvalidURL) as error:
            raise self.unavailable(
                f"cannot be called with this environment ({type(error).__name__})",
                "Check OLLAMA_HOST, SSL_CERT_FILE and the proxy variables; a SOCKS proxy needs "
                "`pip install 'httpx[socks]'`.",
            ) from None

    def _authorised(self, request: "httpx.Request") -> "httpx.Request":
        # The client sends OLLAMA_API_KEY to any host it is given. Over a network it must not be
        # readable, so it goes over TLS or stays on this machine; and never to a host that only a
        # file of the vault names: a downloaded vault could collect keys.
        readable = request.url.scheme != "https"
        if not self._host.loopback and (readable or self._host_from_vault):
            request.headers.pop("Authorization", None)
        return request

    def _refused(self, status: int, said: str) -> NoReturn:
        folded = said.casefold()
        if status in (429, 503):
            raise Busy from None
        if status == 404 and "model" in folded and "not found" in folded:
            raise self._missing() from None
        if "not support embedding" in folded or status == 501:
            raise self.unavailable(
                "makes no embeddings with this model", "Choose an embedding model."
            ) from None
        if status in (400, 500):
            raise _input_refused(status, said) from None
        if status in (401, 403):
            raise self.unavailable(
                f"refused access (HTTP {status})",
                "Set OLLAMA_API_KEY, which is sent over https and to this machine only.",
            ) from None
        if 300 <= status < 400:
            raise self.unavailable(
                f"sends its callers elsewhere (HTTP {status})",
                "Set embedder.host to the address it really has.",
            ) from None
        if status in (404, 405):
            raise self._not_ollama() from None
        raise self.unavailable(
            f"does not answer; HTTP {status} came back instead",
            "If a proxy stands before it, look there; else look into Ollama's log.",
        ) from None

    def _not_connected(self, error: BaseException) -> EmbedderUnavailable:
        causes = list(_causes(error))
        if any(isinstance(cause, socket.gaierror) for cause in causes):
            return self.unavailable("has a host name that is not known", "Correct embedder.host.")
        if any(isinstance(cause, ssl.SSLError) for cause in causes):
            return self.unavailable(
                "could not be trusted: TLS failed",
                "Check its certificate, or https in its address.",
            )
        return self.unavailable(
            "does not answer: no connection", "Start it with `ollama serve`, or set embedder.host."
        )

    def _missing(self) -> EmbedderUnavailable:
        return self.unavailable("does not have the model", f"Run `ollama pull {self._model}`.")

    def _not_ollama(self) -> EmbedderUnavailable:
        return self.unavailable(
            "answered with something that is not Ollama's",
            "Check embedder.host: another program may listen there, or Ollama is too old.",
        )

    def _not_installed(self) -> EmbedderUnavailable:
        return self.unavailable("needs a Python package", "Run `pip install ollama`.")

    def _is_closed(self) -> EmbedderUnavailable:
        return self.unavailable("was closed", "Open it again.")


def _input_refused(status: int, said: str) -> InputRefused:
    folded = said.casefold()
    if any(phrase in folded for phrase in _TOO_LONG):
        return InputRefused("too long for the model", too_long=True, said=said)
    if _NOT_A_NUMBER.search(folded):
        return InputRefused("the model's vector holds no numbers (NaN)", said=said)
    if "memory" in folded:
        return InputRefused("the server has not enough memory", said=said)
    if any(phrase in folded for phrase in _RUNNER_DIED):
        return InputRefused("the model broke down over it", said=said)
    return InputRefused(f"the server refused it (HTTP {status})", said=said)


def _causes(error: BaseException | None) -> "list[BaseException]":
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        # The client hides what it translates behind "from None"; it is still there.
        error = error.__cause__ or error.__context__
    return found


def _sizes(facts: Mapping[str, object], parameters: str) -> tuple[int, int]:
    """Dimension and window by what /api/show says; 0 for what it does not."""
    kind = facts.get("general.architecture")
    dimension, trained = (
        value if isinstance(value := facts.get(f"{kind}.{name}"), int) and value > 0 else 0
        for name in ("embedding_length", "context_length")
    )
    chosen = re.search(r"^num_ctx\s+(\d+)", parameters, re.MULTILINE)
    windows = [size for size in (trained, int(chosen[1]) if chosen else 0) if size > 0]
    return dimension, min(windows, default=0)


def _duration(text: str) -> str | float | None:
    # A bare number means seconds, and the server takes those as a number only.
    return float(text) if re.fullmatch(r"-?\d+(\.\d+)?", text) else text or None
