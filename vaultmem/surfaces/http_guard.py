"""What every request over HTTP has to pass, whatever route it asks for.

A browser sends requests to this computer for any page that asks it to, so who asks is judged here,
in one place and before any route is looked for: a check in each route is one that a route forgets.
"""

import asyncio
import hmac
import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEAD_BYTES = 16 * 1024
BODY_BYTES = 1 << 20
BODY_SECONDS = 10.0
# A client that sends everything before it reads would miss an answer given any sooner, since
# closing on unread bytes resets the connection.
_REST_BYTES = 64 << 20
_REST_SECONDS = 1.0

# Where Obsidian's plugins run: on a computer, on an iPhone or iPad. On Android that is
# http://localhost, which any other server of this computer may be as well.
APP_ORIGINS = frozenset({b"app://obsidian.md", b"capacitor://localhost"})

# Which of two is meant is a matter of who reads them, so neither is.
_ONCE = (
    b"host",
    b"origin",
    b"authorization",
    b"content-type",
    b"content-length",
    b"sec-fetch-site",
)
_NOT_IN_PATHS = (b"%2f", b"%5c", b"%2e", b"%00", b"\\")
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_READING = frozenset({"GET", "HEAD"})

_PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, POST, DELETE"),
    (
        b"access-control-allow-headers",
        b"Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Protocol-Version, "
        b"Mcp-Session-Id",
    ),
    (b"access-control-max-age", b"600"),
)
_ALWAYS = (
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        b"object-src 'none'",
    ),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request goes no further: an HTTP status, a code for programs, a sentence for people."""

    status: int
    code: str
    message: str


HEAD_TOO_LARGE = Refusal(
    431, "head-too-large", f"The request's head is larger than {HEAD_BYTES // 1024} KiB."
)
BAD_PATH = Refusal(
    400,
    "bad-path",
    "The path has to begin with one slash, without dots as a part of it, backslashes, or encoded "
    "slashes, dots or NULs.",
)
TWO_LENGTHS = Refusal(
    400, "bad-request", "The request has both a Content-Length and a Transfer-Encoding."
)
NO_HOST = Refusal(400, "bad-request", "The request has no Host header.")
WRONG_HOST = Refusal(
    421,
    "wrong-host",
    "This server answers to 127.0.0.1, localhost and [::1] with its own port, and no other host.",
)
FOREIGN_ORIGIN = Refusal(
    403, "foreign-origin", "Pages of other origins may not ask this server anything."
)
NO_TOKEN = Refusal(
    401,
    "no-token",
    "The request needs the header `Authorization: Bearer` with the token of this vault.",
)
BODY_TOO_LARGE = Refusal(
    413, "body-too-large", f"The request's body is larger than {BODY_BYTES >> 20} MiB."
)
BODY_TOO_SLOW = Refusal(408, "too-slow", "The request's body did not come in time.")
NOT_JSON = Refusal(415, "not-json", "The body has to be of the Content-Type application/json.")
BAD_JSON = Refusal(400, "bad-json", "The body is not JSON, in UTF-8, of reasonable depth.")


@dataclass(frozen=True, slots=True)
class Head:
    """A request before its body, as it came: nothing in it is decoded or normalised."""

    method: str
    path: bytes
    bytes_in_all: int
    fields: dict[bytes, list[bytes]]  # lower-case name -> values

    def value(self, name: bytes) -> bytes | None:
        """The header's value; None where it is missing."""
        values = self.fields.get(name)
        return values[0] if values else None

    @property
    def has_body(self) -> bool:
        """Whether bytes may follow."""
        return self.value(b"content-length") not in (None, b"0") or (
            b"transfer-encoding" in self.fields
        )

    @property
    def app_origin(self) -> bytes | None:
        """The Origin, if it is Obsidian's."""
        origins = self.fields.get(b"origin", [])
        return origins[0] if len(origins) == 1 and origins[0] in APP_ORIGINS else None


def head_of(scope: "Scope") -> Head:
    """The head of an ASGI request."""
    path = scope.get("raw_path") or scope["path"].encode()
    fields: dict[bytes, list[bytes]] = {}
    size = len(scope["method"]) + len(path) + len(scope["query_string"])
    for name, value in scope["headers"]:
        fields.setdefault(name.lower(), []).append(value)
        size += len(name) + len(value) + len(b": \r\n")
    return Head(scope["method"], path, size, fields)


class Guard:
    """An ASGI application that hands on to another what passes every rule.

    token: what `Authorization: Bearer` has to bring. port: where the server listens.
    open_paths: what is read without the token, each path as it stands in the request; a prefix
    would open what lies beside it as well.
    body_seconds: how long a body may take.
    """

    def __init__(
        self,
        app: "ASGIApp",
        token: str,
        port: int,
        open_paths: Collection[str] = frozenset(),
        *,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self._app = app
        self._token = token.encode()
        names = (b"127.0.0.1", b"localhost", b"[::1]")
        self._hosts = frozenset(b"%s:%d" % (name, port) for name in names)
        if port == 80:
            self._hosts |= frozenset(names)
        self._open_paths = frozenset(path.encode() for path in open_paths)
        self._body_seconds = body_seconds

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer one request, or hand on what is none."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            head = head_of(scope)
            await self._answer(head, scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, head: Head, scope: "Scope", receive: "Receive", send: "Send") -> None:
        refusal = self._who_asks(head)
        if refusal is None and _is_preflight(head):
            await _preflight(head, send)
            return
        send = _safe(send, head)
        if refusal is None:
            refusal = self._without_token(head)
        if refusal is not None:
            await _refuse(refusal, head, receive, send)
            return
        body = await self._body(receive)
        if body is None:
            return
        if isinstance(body, bytes):
            refusal = _what_is_sent(head, body)
            if refusal is None:
                await self._app(scope, _again(body, receive), send)
                return
            body = refusal
        await _refuse(body, head, receive, send)

    def _who_asks(self, head: Head) -> Refusal | None:
        """What is wrong with the head, whoever holds the token."""
        if head.bytes_in_all > HEAD_BYTES:
            return HEAD_TOO_LARGE
        for name in _ONCE:
            if len(head.fields.get(name, ())) > 1:
                title = name.decode().title()
                return Refusal(400, "bad-request", f"The request has more than one {title} header.")
        if _is_bad(head.path):
            return BAD_PATH
        if b"transfer-encoding" in head.fields and b"content-length" in head.fields:
            return TWO_LENGTHS
        host = head.value(b"host")
        if host is None:
            return NO_HOST
        if host.lower() not in self._hosts:
            return WRONG_HOST
        origin = head.value(b"origin")
        # Obsidian's origin is cross-site by nature, so this is asked of requests without one. A
        # page on another port of this computer is same-site.
        site = head.value(b"sec-fetch-site")
        allowed = (
            site in (None, b"none", b"same-origin")
            if origin is None
            else origin in APP_ORIGINS or origin == b"http://" + host
        )
        return None if allowed else FOREIGN_ORIGIN

    def _without_token(self, head: Head) -> Refusal | None:
        if head.method in _READING and head.path in self._open_paths:
            return None
        scheme, _, given = (head.value(b"authorization") or b"").partition(b" ")
        known = hmac.compare_digest(given.strip(b" "), self._token)
        return None if known and scheme.lower() == b"bearer" else NO_TOKEN

    async def _body(self, receive: "Receive") -> "bytes | Refusal | None":
        """The whole body, why it is refused, or None where the client has gone."""
        body = bytearray()
        try:
            async with asyncio.timeout(self._body_seconds):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None
                    body += message.get("body", b"")
                    if len(body) > BODY_BYTES:
                        return BODY_TOO_LARGE
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            return BODY_TOO_SLOW


def error_body(code: str, message: str) -> bytes:
    """How every error over HTTP reads."""
    return json.dumps({"error": {"code": code, "message": message}}).encode()


def _is_bad(path: bytes) -> bool:
    """Whether a path could mean another one to somebody who decodes or joins it."""
    lowered = path.lower()
    return (
        not path.startswith(b"/")
        or path.startswith(b"//")
        or any(part in lowered for part in _NOT_IN_PATHS)
        or any(part in (b".", b"..") for part in path.split(b"/"))
    )


def _is_preflight(head: Head) -> bool:
    return (
        head.method == "OPTIONS"
        and head.app_origin is not None
        and b"access-control-request-method" in head.fields
    )


async def _preflight(head: Head, send: "Send") -> None:
    headers = [*_PREFLIGHT, *_cors(head), *_ALWAYS]
    if head.value(b"access-control-request-private-network") == b"true":
        headers.append((b"access-control-allow-private-network", b"true"))
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body"})


def _cors(head: Head) -> list[tuple[bytes, bytes]]:
    """The headers that let Obsidian read an answer; none for anybody else."""
    if head.app_origin is None:
        return []
    return [
        (b"access-control-allow-origin", head.app_origin),
        (b"access-control-expose-headers", b"Mcp-Session-Id"),
        (b"vary", b"Origin"),
    ]


def _what_is_sent(head: Head, body: bytes) -> Refusal | None:
    """What is wrong with the body."""
    if head.method not in _WITH_BODY and (not body or head.method in _READING):
        return None
    # A form, plain text and an untyped Blob are what a page may send without asking first.
    kind = (head.value(b"content-type") or b"").partition(b";")[0]
    if kind.strip().lower() != b"application/json":
        return NOT_JSON
    try:
        json.loads(body.decode("utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError):
        return BAD_JSON
    return None


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def _again(body: bytes, receive: "Receive") -> "Receive":
    """Gives what was read already, then whatever comes: that the client has gone."""
    given = False

    async def again() -> "Message":
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _safe(send: "Send", head: Head) -> "Send":
    """Sends with the headers that every answer has; what a route says of CORS is left out."""

    async def send_safe(message: "Message") -> None:
        if message["type"] == "http.response.start":
            headers = [
                (name, value)
                for name, value in message.get("headers", ())
                if not name.lower().startswith(b"access-control-")
            ]
            present = {name.lower() for name, _ in headers}
            headers += [header for header in _ALWAYS if header[0] not in present]
            message = {**message, "headers": [*headers, *_cors(head)]}
        await send(message)

    return send_safe


async def _refuse(refusal: Refusal, head: Head, receive: "Receive", send: "Send") -> None:
    body = error_body(refusal.code, refusal.message)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
    ]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if head.has_body:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    # The answer is out, and ends the connection once what is on its way has been read.
    await send({"type": "http.response.body", "body": body, "more_body": head.has_body})
    if head.has_body:
        await _read_rest(receive)
        await send({"type": "http.response.body"})


async def _read_rest(receive: "Receive") -> None:
    """Read what the client still sends, within bounds, and keep none of it."""
    size = 0
    try:
        async with asyncio.timeout(_REST_SECONDS):
            while size < _REST_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        return
