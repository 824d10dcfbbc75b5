"""A server to be asked, in a process of its own: a few routes and MCP, guarded or not.

    python http_server_process.py GUARDED|UNGUARDED|SDK TOKEN [PORT [HEAD_SECONDS]]

Prints its port when it listens. Everything a route does is counted, and /v1/status tells.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from mcp.server import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from vaultmem.surfaces.http_app import http_app, unguarded_app
from vaultmem.surfaces.http_listen import HEAD_SECONDS, listen

GUARDED, UNGUARDED, SDK = "guarded", "unguarded", "sdk"
OPEN_PATHS = frozenset({"/", "/static/app.js"})
DEADLINE_SECONDS = 30.0
# A tool waits on this, which never comes.
_NEVER = threading.Event()


class Counted:
    """How often anything was done."""

    def __init__(self) -> None:
        self.times = 0


def mcp_server(counted: Counted) -> "MCPServer[Any]":
    server: MCPServer[Any] = MCPServer("stand-in", version="1", log_level="ERROR")

    @server.tool()
    def double(number: int) -> int:
        """Twice the number."""
        counted.times += 1
        return 2 * number

    @server.tool()
    def never() -> str:
        """Does not end."""
        counted.times += 1
        _NEVER.wait()
        return "never"

    return server


def routes(counted: Counted) -> list[Route]:
    async def done(request: Request) -> Response:
        counted.times += 1
        # What a route says of CORS is not for it to say.
        return JSONResponse({"ok": True}, headers={"Access-Control-Allow-Origin": "*"})

    async def status(request: Request) -> Response:
        return JSONResponse({"times": counted.times})

    async def page(request: Request) -> Response:
        return PlainTextResponse("shell")

    async def broken(request: Request) -> NoReturn:
        raise ZeroDivisionError(f"of {__file__}")

    return [
        Route("/", page, methods=["GET"]),
        Route("/static/app.js", page, methods=["GET"]),
        Route("/v1/status", status, methods=["GET"]),
        Route("/v1/search", done, methods=["POST"]),
        Route("/v1/remember", done, methods=["POST"]),
        Route("/v1/notes/{path:path}", done, methods=["GET"]),
        Route("/v1/broken", broken, methods=["GET"]),
    ]


def application(kind: str, token: str, port: int) -> ASGIApp:
    counted = Counted()
    server = mcp_server(counted)
    if kind == GUARDED:
        return http_app(server, token, port, routes=routes(counted), open_paths=OPEN_PATHS)
    if kind == UNGUARDED:
        return unguarded_app(server, routes(counted))
    return server.streamable_http_app()


def route_table() -> Starlette:
    """The application whose routes are served."""
    counted = Counted()
    return unguarded_app(mcp_server(counted), routes(counted))


class ServerProcess:
    """The process, and where it listens."""

    def __init__(self, process: "subprocess.Popen[str]", token: str) -> None:
        self.process = process
        self.token = token
        assert process.stdout is not None
        self.port = int(process.stdout.readline() or -1)

    def stop(self, signal_number: int) -> tuple[int, str]:
        """Send a signal; the exit code, and what was written to standard error."""
        self.process.send_signal(signal_number)
        _, errors = self.process.communicate(timeout=DEADLINE_SECONDS)
        return self.process.returncode, errors


@contextmanager
def serving(
    kind: str,
    token: str,
    *,
    port: int = 0,
    head_seconds: float = HEAD_SECONDS,
    environment: Mapping[str, str] | None = None,
) -> Iterator[ServerProcess]:
    """A server that runs beside a test."""
    process = subprocess.Popen(
        [sys.executable, __file__, kind, token, str(port), str(head_seconds)],
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield ServerProcess(process, token)
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE_SECONDS)


def main(kind: str, token: str, port: str = "0", head_seconds: str = str(HEAD_SECONDS)) -> None:
    def say(port: int) -> None:
        sys.stdout.write(json.dumps(port) + "\n")
        sys.stdout.flush()

    ended = listen(
        lambda port: application(kind, token, port),
        int(port),
        listening=say,
        head_seconds=float(head_seconds),
    )
    if not ended:
        os._exit(7)


if __name__ == "__main__":
    main(*sys.argv[1:])
