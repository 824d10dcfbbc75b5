"""Listening on this computer alone, with uvicorn and h11.

uvicorn waits for a request's head for as long as its sender likes, and its other parser rewrites
what a request asks for before anyone can judge it; no application can mend either.
"""

import asyncio
import errno
import math
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from vaultmem.model.errors import UsageError
from vaultmem.surfaces.http_guard import HEAD_BYTES, HEAD_TOO_LARGE, Refusal, error_body

if TYPE_CHECKING:
    from starlette.types import ASGIApp

HEAD_SECONDS = 10.0
# Connections at once; more are told to come again.
CONNECTIONS = 512
# When it is to stop: how long requests may go on, and how long all of it may take.
GRACE_SECONDS = 1.0
STOP_SECONDS = 2.0

# Of a free port for IPv4, IPv6's may be taken.
_FREE_PORT_TRIES = 20

_HEAD_TOO_SLOW = Refusal(408, "too-slow", "The request's head did not come in time.")
_MALFORMED = Refusal(400, "bad-request", "That is no HTTP request.")


def listen(
    build: "Callable[[int], ASGIApp]",
    port: int,
    *,
    listening: Callable[[int], None] = lambda port: None,
    head_seconds: float = HEAD_SECONDS,
) -> bool:
    """Serve until SIGINT, SIGTERM or SIGHUP, on 127.0.0.1 and, where there is one, ::1.

    build: makes the application for the port that it is served on. port: 0 for a free one.
    listening: called with the port once requests are answered.
    head_seconds: how long a request's head may take, and how long a connection may be idle.
    Returns whether everything has ended; if not, a thread still works, which Python would wait
    for, so the process has to be left by `os._exit`. Stopping takes three seconds at most.
    Raises UsageError for a port that cannot be had.
    """
    port, sockets = open_sockets(port)
    config = uvicorn.Config(
        build(port),
        http=type("Protocol", (_TimedProtocol,), {"head_seconds": head_seconds}),
        ws="none",
        lifespan="on",
        workers=1,
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=math.ceil(head_seconds),
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    server = _Server(config, lambda: listening(port))
    runner = asyncio.Runner()
    try:
        runner.run(server.serve(sockets))
    except SystemExit:
        # Its reason is in the log; uvicorn's exit code means something else here.
        raise RuntimeError("The HTTP application could not be started.") from None
    finally:
        for one in sockets:
            one.close()
        if not server.hangs:  # closing would wait for what hangs
            runner.close()
    return not server.hangs


def open_sockets(port: int) -> tuple[int, list[socket.socket]]:
    """Sockets bound to the port on the loopback interface alone, and which port that is.

    port: 0 for a free one. Raises UsageError for one that cannot be had on either address:
    `localhost` may mean both, and whoever listens on the other would be sent the token.
    """
    if not 0 <= port <= 65535:
        raise UsageError(f"A port is a number from 0 to 65535, not {port}.")
    tries = 1 if port else _FREE_PORT_TRIES
    while True:
        tries -= 1
        sockets: list[socket.socket] = []
        try:
            sockets.append(_bound(socket.AF_INET, "127.0.0.1", port))
            chosen = sockets[0].getsockname()[1]
            if _has_ipv6():
                sockets.append(_bound(socket.AF_INET6, "::1", chosen))
        except OSError as error:
            for one in sockets:
                one.close()
            if tries and error.errno == errno.EADDRINUSE:
                continue
            raise UsageError(_cannot_be_had(port, error, second=bool(sockets))) from None
        return chosen, sockets


def _cannot_be_had(port: int, error: OSError, *, second: bool) -> str:
    where = f"Port {port} of {'::1' if second else '127.0.0.1'}" if port else "A free port"
    if error.errno == errno.EADDRINUSE:
        return (
            f"{where} is in use by another program, perhaps by vaultmem itself. End that one, or "
            "choose another port; 0 takes a free one."
        )
    return f"{where} cannot be listened on: {error.strerror}. Choose another port."


def _bound(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    # With its protocol named, or asyncio does not switch Nagle's algorithm off, and the second of
    # two answers on one connection waits 40 ms for the client's acknowledgement of the first.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform == "win32":
            # There another program could take over the port of one that lets it be reused.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((address, port))
        # From here on the port is taken, also for those who look before they bind.
        bound.listen()
    except OSError:
        bound.close()
        raise
    return bound


def _has_ipv6() -> bool:
    """Whether there is an IPv6 address of this computer to itself."""
    if not socket.has_ipv6:
        return False
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


class _Server(uvicorn.Server):
    """Says when it listens, stops in time, and leaves the exit code to its caller."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening
        self.hangs = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # A stream of events has no end of its own, and its reader need not read.
        hanging_up = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._hang_up)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await super().shutdown(sockets)
        except TimeoutError:
            self.hangs = True
        finally:
            hanging_up.cancel()

    def _hang_up(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, but a signal that was obeyed is not raised again afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        # Not uvicorn's own, which what writes streams of events looks for, to end them halfway.
        def obey(*_: object) -> None:
            self.force_exit = self.should_exit
            self.should_exit = True

        numbers = [
            getattr(signal, name)
            for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
            if hasattr(signal, name)
        ]
        before = {
            number: signal.signal(number, obey)
            for number in numbers
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class _TimedProtocol(H11Protocol):
    """Gives a head so long to come, from the connection's start or the last answer on."""

    head_seconds: ClassVar[float]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._time_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Called for what has come, and after an answer for what came meanwhile."""
        super().handle_events()
        self._time_head()

    def send_400_response(self, msg: str) -> None:
        """Answer what h11 does not take for a request, or for the rest of one."""
        waiting = self.cycle is None or self.cycle.response_complete
        large = waiting and len(self.conn.trailing_data[0]) > HEAD_BYTES
        self._end(HEAD_TOO_LARGE if large else _MALFORMED)

    def _time_head(self) -> None:
        if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
            self._stop_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_seconds, self._head_late)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_late(self) -> None:
        if self.transport.is_closing():
            return
        if self.conn.trailing_data[0]:
            self._end(_HEAD_TOO_SLOW)
        else:
            # Nothing was asked; an answer might be taken for one to what is asked next.
            self.transport.close()

    def _end(self, refusal: Refusal) -> None:
        """Answer, where an answer has not begun, and close."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = error_body(refusal.code, refusal.message)
            headers = [
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            for event in (
                h11.Response(status_code=refusal.status, headers=headers),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
