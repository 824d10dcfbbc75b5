"""Everything that is served over HTTP, behind the one guard."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response

from vaultmem.surfaces.http_guard import BODY_BYTES, Guard, error_body

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.requests import Request
    from starlette.routing import BaseRoute

MCP_PATH = "/mcp"
# One client has one session, and one that does not end it leaves it behind for half an hour.
MOST_SESSIONS = 2048

_CODES = {404: "not-found", 405: "wrong-method"}


class McpServer(Protocol):
    """What is needed of a server of MCP; both kinds that the SDK has are one."""

    def streamable_http_app(
        self,
        *,
        streamable_http_path: str,
        transport_security: TransportSecuritySettings | None,
        max_request_body_size: int,
        max_sessions: int | None,
    ) -> Starlette:
        """An application with a route at the path."""

    @property
    def session_manager(self) -> "StreamableHTTPSessionManager":
        """What has to run while that route is served."""


def http_app(
    mcp_server: McpServer,
    token: str,
    port: int,
    *,
    routes: "Sequence[BaseRoute]" = (),
    open_paths: Collection[str] = frozenset(),
) -> Guard:
    """The application to listen with: MCP at /mcp and the routes besides, all guarded.

    token, port, open_paths: as `Guard` takes them.
    """
    return Guard(unguarded_app(mcp_server, routes), token, port, open_paths)


def unguarded_app(mcp_server: McpServer, routes: "Sequence[BaseRoute]" = ()) -> Starlette:
    """The application that the guard stands before; never to be listened with by itself."""
    # The SDK's own checks let pages on other ports pass and keep Obsidian out; ours come first.
    off = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    served = mcp_server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        transport_security=off,
        max_request_body_size=BODY_BYTES,
        max_sessions=MOST_SESSIONS,
    )

    @asynccontextmanager
    async def sessions(_: Starlette) -> AsyncIterator[None]:
        async with mcp_server.session_manager.run():
            yield

    app = Starlette(
        routes=[*routes, *served.routes],
        lifespan=sessions,
        exception_handlers={HTTPException: _refused, Exception: _failed},
    )
    # A redirect names a place of the client's choosing, and loses the body on its way.
    app.router.redirect_slashes = False
    return app


async def _refused(_: "Request", error: Exception) -> Response:
    """No such route, or not by this method."""
    if not isinstance(error, HTTPException):
        raise error
    message = "No such route." if error.status_code == 404 else f"{error.detail}."
    return Response(
        error_body(_CODES.get(error.status_code, "refused"), message),
        error.status_code,
        headers=error.headers,
        media_type="application/json",
    )


async def _failed(_: "Request", error: Exception) -> Response:
    """A fault of ours: what it is goes to the log, which Starlette sees to."""
    message = f"This is a fault of vaultmem's own ({type(error).__name__}); please report it."
    return Response(error_body("internal", message), 500, media_type="application/json")
