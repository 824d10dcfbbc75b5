"""A client that sends bytes as they are, and reads while it sends.

A server that refuses a long body answers before it has read it; who only then begins to read finds
the connection reset.
"""

import select
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PATIENCE_SECONDS = 30.0
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; the body of a stream as far as it was read."""

    status: int
    headers: tuple[tuple[str, str], ...]  # names in lower case
    body: bytes

    def header(self, name: str) -> str | None:
        """The only header of a name; None where there is none."""
        values = [v for n, v in self.headers if n == name]
        assert len(values) < 2
        return values[0] if values else None

    def foreign_headers(self) -> list[str]:
        """The headers that let a page read the answer."""
        return [name for name, _ in self.headers if name.startswith("access-control-")]


class Connection:
    """One connection to a server of this computer."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection((host, port), PATIENCE_SECONDS)
        self.socket.setblocking(False)
        self._read = b""
        self.ended = False

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, *pieces: bytes | Iterable[bytes], until: bytes | None = None) -> Answer:
        """Send the pieces and read one answer; of a stream up to certain bytes."""
        left = _flat(pieces)
        waiting = next(left, b"")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self._answer(until)
            if answer is not None:
                return answer
            assert not self.ended, f"the connection ended after {self._read[:200]!r}"
            remaining = deadline - time.monotonic()
            assert remaining > 0, f"no answer after {self._read[:200]!r}"
            readable, writable, _ = select.select(
                [self.socket], [self.socket] if waiting else [], [], remaining
            )
            if writable and not readable:
                waiting = waiting[self._send(waiting) :] or next(left, b"")
            if readable:
                self.read()

    def read(self) -> None:
        """Take what has come."""
        try:
            piece = self.socket.recv(_PIECE)
        except ConnectionResetError:
            piece = b""
        self.ended = self.ended or not piece
        self._read += piece

    def until_ended(self) -> bytes:
        """Everything that comes until the server closes."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.ended:
            remaining = deadline - time.monotonic()
            assert remaining > 0, f"still open after {self._read[:200]!r}"
            if select.select([self.socket], [], [], remaining)[0]:
                self.read()
        return self._read

    def _send(self, waiting: bytes) -> int:
        try:
            return self.socket.send(waiting[:_PIECE])
        except (BrokenPipeError, ConnectionResetError):
            return len(waiting)  # it has answered, or the reading says that it has not

    def _answer(self, until: bytes | None) -> Answer | None:
        head, gap, rest = self._read.partition(b"\r\n\r\n")
        if not gap:
            return None
        line, *fields = head.decode("latin-1").split("\r\n")
        status = int(line.split()[1])
        if status < 200:
            self._read = rest
            return self._answer(until)
        headers = tuple(
            (name.lower(), value.strip()) for name, _, value in (f.partition(":") for f in fields)
        )
        body = self._body(status, dict(headers), rest, until)
        return None if body is None else Answer(status, headers, body)

    def _body(
        self, status: int, headers: Mapping[str, str], rest: bytes, until: bytes | None
    ) -> bytes | None:
        """The body, or None where not all of it is there."""
        if until is not None:
            return rest if until in rest else None
        if status in (204, 304):
            length = 0
        elif headers.get("transfer-encoding") == "chunked":
            return self._chunks(rest)
        elif "content-length" in headers:
            length = int(headers["content-length"])
        else:
            return rest if self.ended else None
        if len(rest) < length:
            return None
        self._read = rest[length:]
        return rest[:length]

    def _chunks(self, rest: bytes) -> bytes | None:
        body = b""
        while True:
            size, gap, rest = rest.partition(b"\r\n")
            if not gap or len(rest) < int(size, 16) + 2:
                return None
            body, last = body + rest[: int(size, 16)], int(size, 16) == 0
            rest = rest[int(size, 16) + 2 :]
            if last:
                self._read = rest
                return body


def ask(
    port: int,
    *pieces: bytes | Iterable[bytes],
    host: str = "127.0.0.1",
    until: bytes | None = None,
) -> Answer:
    """Send the pieces over a connection of their own, and read the answer."""
    with Connection(port, host) as connection:
        return connection.ask(*pieces, until=until)


def head(method: str, path: str, headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """A request's head, in order and with nothing added."""
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1")


def call_pieces(
    call: Mapping[str, Any], *, path: str, port: int, token: str
) -> list[bytes | Iterable[bytes]]:
    """The bytes of one of the hostile calls, asked of a path."""

    def filled(text: str) -> str:
        texts = {"{PORT}": str(port), "{TOKEN}": token, "{TOKEN8}": token[:8]}
        for name, value in texts.items():
            text = text.replace(name, value)
        return text

    headers = [("Host", filled(host)) for host in call.get("raw_hosts", ())]
    headers += [(name, filled(value)) for name, value in call["headers"].items()]
    body: bytes | Iterable[bytes] = call.get("body", "").encode()
    if "body_bytes" in call:
        headers.append(("Content-Length", str(call["body_bytes"])))
        body = _filler(call["body_bytes"])
    elif "body_chunked_bytes" in call:
        headers.append(("Transfer-Encoding", "chunked"))
        body = _chunked(_filler(call["body_chunked_bytes"]))
    elif body:
        headers.append(("Content-Length", str(len(call["body"]))))
    return [head(call["method"], filled(path), headers), body]


def _filler(size: int) -> Iterator[bytes]:
    for start in range(0, size, _PIECE):
        yield b"a" * min(_PIECE, size - start)


def _chunked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


def _flat(pieces: Iterable[bytes | Iterable[bytes]]) -> Iterator[bytes]:
    for piece in pieces:
        if isinstance(piece, bytes):
            if piece:
                yield piece
        else:
            yield from piece
