"""An Ollama server for tests: its protocol, on a loopback port, without any model.

Shapes, statuses and error texts are those of ollama's server/routes.go of August 2026. Vectors
are made of hashed words, so texts that share words are near. What goes wrong is set at run time,
in `faults` by path, and in the attributes; every request is kept in `requests`.
"""

import json
import re
import select
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar

import numpy
from numpy.typing import NDArray

NOW = "2026-11-29T12:00:00.000000000Z"
BUSY = "server busy, please try again.  maximum pending requests exceeded"
TOO_LONG = "the input length exceeds the context length"
NOT_A_NUMBER = "embedding contains NaN or Inf values"
GATEWAY = "<html>\n<head><title>502 Bad Gateway</title></head>\n<body>nginx</body>\n</html>\n"


class Fault(Enum):
    """What a path does instead of its work."""

    SLOW = auto()  # reads the request and answers nothing until the client gives up
    HUNG = auto()  # the same before it has read the request
    DROPPED = auto()  # breaks off in the middle of the body
    SHUT = auto()  # closes the connection without a word
    GATEWAY_502 = auto()  # a proxy's page of HTML
    ERROR_LIST = auto()  # an error whose body is a JSON list
    REDIRECT = auto()  # 307 to `redirect_to`
    FORBIDDEN = auto()  # 403, as for a strange Host header
    PAGE = auto()  # 200 with a page of HTML
    JSON_LIST = auto()  # 200 with a JSON list
    NO_EMBEDDINGS = auto()  # 200 without the vectors
    STRINGS = auto()  # 200 with words for numbers
    ONE_LESS = auto()  # a vector too few
    ONE_MORE = auto()  # a vector too many
    OTHER_LENGTH = auto()  # vectors of another dimension
    ALL_NAN = auto()  # NaN inside of a 200
    ALL_INFINITE = auto()  # a number too large for a float, inside of a 200
    ALL_ZERO = auto()  # vectors of zeros
    NO_MEMORY = auto()  # 500: the model does not fit
    NO_EMBEDDER = auto()  # 501: the model is none for embeddings


@dataclass
class Model:
    """A model that the server has."""

    dimension: int = 768
    context: int = 2048  # what it was trained on
    num_ctx: int = 0  # what its Modelfile sets; 0 for nothing
    architecture: str = "nomic-bert"
    capabilities: tuple[str, ...] = ("embedding",)
    digest: str = "0a109f422b47e3a30ba2b10eca18548e944e8a23073ee3f3e947efcf3c45e59f"
    shows_dimension: bool = True


@dataclass(frozen=True)
class Request:
    """One request as it came in."""

    method: str
    path: str
    headers: Mapping[str, str]  # names in lower case
    body: Any  # parsed; None if there was none

    @property
    def texts(self) -> list[str]:
        """The texts to be embedded."""
        given = self.body["input"]
        return [given] if isinstance(given, str) else list(given)


def default_models() -> dict[str, Model]:
    return {
        "nomic-embed-text:latest": Model(),
        "all-minilm:latest": Model(384, 512, 256, "bert", digest="1b226e2802dbb772b5fc"),
        "bge-m3:latest": Model(1024, 8192, 0, "bert", digest="7907646426070047a772"),
        "llama3.2:latest": Model(
            3072, 131072, 0, "llama", ("completion", "tools"), digest="a80c4f17acd55265feec"
        ),
    }


@dataclass
class OllamaServer:
    """`with OllamaServer() as server:` listens until the block ends."""

    models: dict[str, Model] = field(default_factory=default_models)
    faults: dict[str, Fault] = field(default_factory=dict)  # by path
    busy: int = 0  # so many of the next inferences are refused
    poison: str = ""  # a text that holds this has no numbers in its vector
    poison_status: int = 400  # 500 in older servers, with another error text
    poison_in_answer: bool = False  # instead of an error: NaN within the answer
    poison_echoed: bool = False  # the error repeats the text
    refuses_long: bool = False  # ollama issue 14186: an error even with truncate=true
    hidden_cut: int = 0  # ollama issue 14259: the true window, whatever is said
    says_tokens: int = 0  # what prompt_eval_count claims; 0 for the truth
    after_embed: Callable[[], None] = lambda: None  # called when an embedding was answered
    replies: list[str] = field(default_factory=list)  # what the model says in chats
    stream_error: str = ""  # said after the first line of a stream
    redirect_to: str = ""
    requests: list[Request] = field(default_factory=list)
    loaded: dict[str, Any] = field(default_factory=dict)  # model -> its keep_alive

    def __enter__(self) -> "OllamaServer":
        server = self

        class Bound(_Handler):
            ollama = server

        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
        self._http.daemon_threads = False  # so that closing waits for them
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.shutdown()
        self._thread.join()
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):  # the client may have closed it already
                    connection.shutdown(socket.SHUT_RDWR)
        self._http.server_close()

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def asked(self, path: str) -> list[Request]:
        """The requests of one path, in order."""
        return [request for request in self.requests if request.path == path]

    def find(self, name: str) -> str | None:
        """The full name of a model, in whatever case it is asked for."""
        wanted = (name if ":" in name.rpartition("/")[2] else name + ":latest").lower()
        return next((known for known in self.models if known.lower() == wanted), None)

    def embed(self, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and answer of POST /api/embed."""
        named = str(body.get("model") or "")
        given = body.get("input")
        texts = ([given] if given else []) if isinstance(given, str) else given or []
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            return 400, {"error": "invalid input type"}
        name = self.find(named)
        if name is None:
            return 404, {"error": f"model '{named}' not found"}
        try:
            keep_alive = _seconds(body.get("keep_alive"))
        except ValueError as error:
            return 400, {"error": str(error)}
        if self.busy > 0:
            self.busy -= 1
            return 503, {"error": BUSY}
        self.loaded[name] = keep_alive
        if not texts:
            return 200, {"model": named, "embeddings": []}
        model = self.models[name]
        window = min(n for n in (model.context, model.num_ctx, self.hidden_cut) if n > 0)
        vectors: list[list[float]] = []
        total = 0
        for text in texts:
            tokens = _tokens(text)
            if len(tokens) + 2 > window and (self.refuses_long or body.get("truncate") is False):
                return 400, {"error": TOO_LONG}
            tokens = tokens[: window - 2]
            bad = bool(self.poison) and self.poison in text
            if bad and self.poison_echoed:
                return self.poison_status, {"error": f"cannot process {text!r}"}
            if bad and not self.poison_in_answer:
                said = "failed to encode response: json: unsupported value: NaN"
                return self.poison_status, {
                    "error": NOT_A_NUMBER if self.poison_status == 400 else said
                }
            vector = vector_of(tokens, model.dimension)
            length = int(body.get("dimensions") or 0)
            if 0 < length < len(vector):
                vector = vector[:length] / numpy.linalg.norm(vector[:length])
            vectors.append([float("nan") if bad else round(float(x), 8) for x in vector])
            total += len(tokens) + 2
        return 200, {
            "model": named,
            "embeddings": vectors,
            "total_duration": 14143917,
            "load_duration": 1019500,
            "prompt_eval_count": self.says_tokens or total,
        }

    def tags(self) -> dict[str, Any]:
        """The answer of GET /api/tags."""
        return {
            "models": [
                {
                    "name": name,
                    "model": name,
                    "modified_at": NOW,
                    "size": 274302450,
                    "digest": model.digest,
                    "details": _details(model),
                }
                for name, model in self.models.items()
            ]
        }

    def running(self) -> dict[str, Any]:
        """The answer of GET /api/ps."""
        return {
            "models": [
                {
                    "name": name,
                    "model": name,
                    "size": 274302450,
                    "digest": self.models[name].digest,
                    "details": _details(self.models[name]),
                    "expires_at": NOW,
                    "size_vram": 0,
                    "context_length": self.models[name].context,
                }
                for name in self.loaded
            ]
        }

    def show(self, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and answer of POST /api/show."""
        named = str(body.get("model") or body.get("name") or "")
        if not named:
            return 400, {"error": "model is required"}
        name = self.find(named)
        if name is None:
            return 404, {"error": f"model '{named.removesuffix(':latest')}' not found"}
        model = self.models[name]
        kind = model.architecture
        facts: dict[str, Any] = {
            "general.architecture": kind,
            "general.parameter_count": 136727040,
            f"{kind}.context_length": model.context,
            "tokenizer.ggml.tokens": None,
        }
        if model.shows_dimension:
            facts[f"{kind}.embedding_length"] = model.dimension
        return 200, {
            "modelfile": f'# Modelfile generated by "ollama show"\nFROM {name}\n',
            "parameters": f"{'num_ctx':30} {model.num_ctx}" if model.num_ctx else "",
            "template": "{{ .Prompt }}",
            "details": _details(model),
            "model_info": facts,
            "capabilities": list(model.capabilities),
            "modified_at": NOW,
        }

    def chat(self, body: Mapping[str, Any]) -> tuple[int, list[dict[str, Any]]]:
        """Status and lines of POST /api/chat; without streaming the last one is the answer."""
        named = str(body.get("model") or "")
        if not named:
            return 400, [{"error": "model is required"}]
        name = self.find(named)
        if name is None:
            return 404, [{"error": f"model '{named}' not found"}]
        if "completion" not in self.models[name].capabilities:
            return 400, [{"error": f'"{named}" does not support chat'}]
        if self.busy > 0:
            self.busy -= 1
            return 503, [{"error": BUSY}]
        base = {"model": named, "created_at": NOW}
        keep_alive = _seconds(body.get("keep_alive"))
        if not body.get("messages"):
            unloads = keep_alive == 0
            self.loaded.pop(name, None)
            if not unloads:
                self.loaded[name] = keep_alive
            said = {"role": "assistant", "content": ""}
            reason = "unload" if unloads else "load"
            return 200, [{**base, "message": said, "done": True, "done_reason": reason}]
        self.loaded[name] = keep_alive
        reply = self.replies.pop(0) if self.replies else "Hello."
        end = {
            "done": True,
            "done_reason": "stop",
            "total_duration": 4883583458,
            "load_duration": 1334875,
            "prompt_eval_count": 26,
            "prompt_eval_duration": 342546000,
            "eval_count": 282,
            "eval_duration": 4535599000,
        }
        if body.get("stream") is False:
            return 200, [{**base, "message": {"role": "assistant", "content": reply}, **end}]
        parts = re.findall(r"\S+\s*", reply) or [reply]
        lines: list[dict[str, Any]] = [
            {**base, "message": {"role": "assistant", "content": part}, "done": False}
            for part in parts
        ]
        return 200, [*lines, {**base, "message": {"role": "assistant", "content": ""}, **end}]

    def pull(self, body: Mapping[str, Any]) -> tuple[int, list[dict[str, Any]]]:
        """Status and lines of POST /api/pull; without streaming the last one is the answer."""
        named = str(body.get("model") or body.get("name") or "")
        if not named:
            return 400, [{"error": "invalid model name"}]
        name = self.find(named) or (named if ":" in named else named + ":latest")
        self.models.setdefault(name, Model())
        layer = "sha256:" + "97" * 32
        return 200, [
            {"status": "pulling manifest"},
            {"status": f"pulling {layer[7:19]}", "digest": layer, "total": 274290656},
            {
                "status": f"pulling {layer[7:19]}",
                "digest": layer,
                "total": 274290656,
                "completed": 274290656,
            },
            {"status": "verifying sha256 digest"},
            {"status": "writing manifest"},
            {"status": "success"},
        ]

    def opened(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.add(connection)

    def closed(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.discard(connection)


def _details(model: Model) -> dict[str, Any]:
    return {
        "parent_model": "",
        "format": "gguf",
        "family": model.architecture,
        "families": [model.architecture],
        "parameter_size": "137M",
        "quantization_level": "F16",
        "context_length": model.context,
        "embedding_length": model.dimension,
    }


_DURATION = re.compile(r"[-+]?(0|(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))+")


def _seconds(value: object) -> object:
    """A keep_alive as the server reads it. Raises ValueError with the server's words."""
    if isinstance(value, str) and not _DURATION.fullmatch(value):
        bare = re.fullmatch(r"[-+]?\d+(\.\d+)?", value)
        raise ValueError(f'time: {"missing unit in" if bare else "invalid"} duration "{value}"')
    return value


def _tokens(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


def tokens_of(text: str) -> int:
    """What prompt_eval_count says of a text that is not cut."""
    return len(_tokens(text)) + 2


def vector_of(tokens: list[str], dimension: int) -> NDArray[numpy.float64]:
    """A unit vector, nearer to another the more words they share."""
    total = 0.1 * _direction("[CLS]", dimension)
    for token in tokens:
        total = total + _direction(token.lower(), dimension)
    unit: NDArray[numpy.float64] = total / numpy.linalg.norm(total)
    return unit


@lru_cache(maxsize=4096)
def _direction(word: str, dimension: int) -> NDArray[numpy.float64]:
    seed = int.from_bytes(blake2b(word.encode(), digest_size=8).digest())
    return numpy.random.default_rng(seed).standard_normal(dimension)


class _Handler(BaseHTTPRequestHandler):
    ollama: ClassVar[OllamaServer]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.ollama.opened(self.connection)

    def finish(self) -> None:
        self.ollama.closed(self.connection)
        super().finish()

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing: what was asked is in `requests`."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (ConnectionError, ValueError):
            self.close_connection = True  # the client went away

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if not self._received(None):
            return
        if self.path == "/":
            self._send(200, "text/plain; charset=utf-8", b"Ollama is running")
        elif self.path == "/api/version":
            self._json(200, {"version": "0.34.2"})
        elif self.path == "/api/tags":
            self._json(200, self.ollama.tags())
        elif self.path == "/api/ps":
            self._json(200, self.ollama.running())
        else:
            self._unknown()

    def do_POST(self) -> None:
        if self.ollama.faults.get(self.path) is Fault.HUNG:
            self._wait_until_the_client_gives_up()
            return
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            body = None
        if not self._received(body):
            return
        known = ("/api/show", "/api/embed", "/api/embeddings", "/api/chat", "/api/pull")
        if self.path not in known:
            self._unknown()
        elif not raw:
            self._json(400, {"error": "missing request body"})
        elif not isinstance(body, dict):
            self._json(400, {"error": "invalid character looking for beginning of value"})
        elif self.path == "/api/show":
            self._json(*self.ollama.show(body))
        elif self.path == "/api/embed":
            self._json(*self.ollama.embed(body))
            self.ollama.after_embed()
        elif self.path == "/api/embeddings":
            self._old_embeddings(body)
        elif self.path == "/api/chat":
            self._lines(*self.ollama.chat(body), stream=body.get("stream") is not False)
        else:
            self._lines(*self.ollama.pull(body), stream=body.get("stream") is not False)

    def _received(self, body: Any) -> bool:
        """Keep the request; False if a fault has dealt with it."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.ollama.requests.append(Request(self.command, self.path, headers, body))
        fault = self.ollama.faults.get(self.path)
        if fault is not None:
            self._fail(fault, body)
        return fault is None

    def _fail(self, fault: Fault, body: Any) -> None:
        match fault:
            case Fault.SLOW | Fault.HUNG:
                self._wait_until_the_client_gives_up()
            case Fault.SHUT:
                self.close_connection = True
            case Fault.DROPPED:
                self._send(200, "application/json; charset=utf-8", b'{"model": "no', promised=4096)
                self.close_connection = True
            case Fault.GATEWAY_502:
                self._send(502, "text/html", GATEWAY.encode())
            case Fault.ERROR_LIST:
                self._json(500, ["out of order"])
            case Fault.REDIRECT:
                self._send(307, "text/plain", b"", Location=self.ollama.redirect_to + self.path)
            case Fault.FORBIDDEN:
                self._send(403, "text/plain", b"")
            case Fault.PAGE:
                self._send(200, "text/html", b"<html><body>It works!</body></html>")
            case Fault.JSON_LIST:
                self._json(200, [1, 2, 3])
            case Fault.NO_EMBEDDINGS:
                self._json(200, {"model": "nomic-embed-text"})
            case Fault.STRINGS:
                self._json(200, {"model": "nomic-embed-text", "embeddings": [["one", "two"]]})
            case Fault.NO_MEMORY:
                said = "model requires more system memory (5.6 GiB) than is available (3.1 GiB)"
                self._json(500, {"error": said})
            case Fault.NO_EMBEDDER:
                said = "This server does not support embeddings. Start it with `--embeddings`"
                self._json(501, {"error": said})
            case _:
                status, answer = self.ollama.embed(body)
                if status == 200:
                    answer["embeddings"] = _spoilt(fault, answer["embeddings"])
                self._json(status, answer)

    def _old_embeddings(self, body: Mapping[str, Any]) -> None:
        named = str(body.get("model") or "")
        name = self.ollama.find(named)
        if name is None:
            said = f'model "{named}" not found, try pulling it first'
            self._json(404, {"error": said})
            return
        text = str(body.get("prompt") or "")
        vector = vector_of(_tokens(text), self.ollama.models[name].dimension) * 20
        self._json(200, {"embedding": [float(x) for x in vector] if text else []})

    def _lines(self, status: int, lines: list[dict[str, Any]], *, stream: bool) -> None:
        if status != 200 or not stream:
            self._json(status, lines[-1])
            return
        if self.ollama.stream_error:
            lines = [lines[0], {"error": self.ollama.stream_error}]
        whole = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        self._send(200, "application/x-ndjson", whole)

    def _unknown(self) -> None:
        self._send(404, "text/plain", b"404 page not found")

    def _json(self, status: int, answer: object) -> None:
        body = json.dumps(answer, ensure_ascii=False).encode()
        self._send(status, "application/json; charset=utf-8", body)

    def _send(
        self, status: int, kind: str, body: bytes, *, promised: int = 0, **headers: str
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(promised or len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _wait_until_the_client_gives_up(self) -> None:
        # What it still sends is thrown away; an empty read is the end of its patience.
        while select.select([self.connection], [], []) and self.connection.recv(1 << 16):
            continue
        self.close_connection = True


def _spoilt(fault: Fault, vectors: list[list[float]]) -> list[list[float]]:
    match fault:
        case Fault.ONE_LESS:
            return vectors[:-1]
        case Fault.ONE_MORE:
            return [*vectors, vectors[-1]]
        case Fault.OTHER_LENGTH:
            return [vector[:-1] for vector in vectors]
        case Fault.ALL_NAN:
            return [[float("nan"), *vector[1:]] for vector in vectors]
        case Fault.ALL_INFINITE:
            return [[1e300, *vector[1:]] for vector in vectors]
        case Fault.ALL_ZERO:
            return [[0.0] * len(vector) for vector in vectors]
        case _:
            raise ValueError(fault)
