"""`vaultmem mcp`: the process around the MCP server."""

import gc
import logging
import os
import signal
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from vaultmem.model.errors import VaultmemError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from mcp.server.lowlevel.server import Server

    from vaultmem.service.dispatch import Dispatcher
    from vaultmem.service.settings import Settings

INTERRUPTED = 130


def mcp(arguments: "argparse.Namespace") -> int:
    """Serve over standard input and output until the input ends. Does not return."""
    from vaultmem.surfaces.mcp_stdio import serve, take_wire

    wire = take_wire()
    _log_to_stderr(arguments.log_level)
    server, dispatcher = _server(arguments, _loader(arguments))
    from vaultmem.surfaces.mcp import log_fault

    for name, code in (("SIGINT", INTERRUPTED), ("SIGTERM", 0), ("SIGHUP", 0)):
        if hasattr(signal, name):
            # What is being written to the index is safe at any moment: killed is what a server
            # may be any time.
            signal.signal(getattr(signal, name), partial(_end, code))
    code = 0
    try:
        serve(server, wire)
    except Exception as error:  # noqa: BLE001 - the log says what it was
        log_fault("the server", error)
        code = VaultmemError.exit_code
    # (Every line to the wire has been flushed, but for one that nobody reads.)
    with suppress(OSError, ValueError):
        if sys.stderr is not None:
            sys.stderr.flush()
    dispatcher.stop()
    os._exit(code)  # a thread that is still at work would keep the process alive


def mcp_over_http(arguments: "argparse.Namespace", say: "Callable[[str], None]") -> int:
    """Serve over HTTP on this computer alone, until interrupted; the exit code.

    say: tells the person something. Raises UsageError for a port that cannot be had, and
    StateUnavailable where the token cannot be kept.
    """
    from vaultmem.service.http_token import FILE_NAME, http_token

    _log_to_stderr(arguments.log_level)
    load = _loader(arguments)
    settings = load()  # a server that is started by hand may say at once that there is no vault
    token = http_token(settings.state_folder)
    server, dispatcher = _server(arguments, load)
    from vaultmem.surfaces.http_app import MCP_PATH, http_app
    from vaultmem.surfaces.http_listen import listen

    def listening(port: int) -> None:
        say(f"MCP for {settings.vault}: http://127.0.0.1:{port}{MCP_PATH}")
        say(
            f"Requests need the header Authorization: Bearer TOKEN, with the token that lies in "
            f"{settings.state_folder / FILE_NAME}. Ctrl-C ends it."
        )

    ended = listen(lambda port: http_app(server, token, port), arguments.port, listening=listening)
    dispatcher.stop()
    if not ended:
        os._exit(0)
    dispatcher.close()
    return 0


def _loader(arguments: "argparse.Namespace") -> "Callable[[], Settings]":
    vault, cache_dir = getattr(arguments, "vault", None), getattr(arguments, "cache_dir", None)

    def load() -> "Settings":
        from vaultmem.service.settings import load_settings

        return load_settings(vault, cache_dir)

    return load


def _server(
    arguments: "argparse.Namespace", load: "Callable[[], Settings]"
) -> "tuple[Server[Any], Dispatcher]":
    # The SDK's import makes objects by the hundred thousand, and none of them goes again.
    gc.disable()
    from vaultmem.service.dispatch import Dispatcher
    from vaultmem.service.operations import listed
    from vaultmem.surfaces.mcp import mcp_server

    gc.freeze()
    gc.enable()
    dispatcher = Dispatcher(load)
    return mcp_server(dispatcher, listed(everything=arguments.tools == "all")), dispatcher


def _end(code: int, *_: object) -> None:
    os._exit(code)


def _log_to_stderr(level: str) -> None:
    logging.captureWarnings(True)
    logging.basicConfig(
        stream=sys.stderr or open(os.devnull, "w"),  # noqa: SIM115 - for as long as we live
        level=level.upper(),
        format="vaultmem: %(levelname)s %(name)s: %(message)s",
        force=True,
    )
    # These would log whole messages, and with them text of notes.
    for name in ("mcp", "asyncio", "httpx2", "sse_starlette", "uvicorn"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
