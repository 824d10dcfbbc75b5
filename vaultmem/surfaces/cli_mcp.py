"""`vaultmem mcp`: the process around the MCP server."""

import gc
import logging
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from vaultmem.service.settings import Settings

LOG_LEVELS = ("debug", "info", "warning", "error")


def mcp(arguments: "argparse.Namespace") -> int:
    """Serve until standard input ends, or, over HTTP, until interrupted; the exit code."""
    from vaultmem.surfaces.mcp_stdio import serve, take_wire

    wire = take_wire()
    _log_to_stderr(arguments.log_level)
    # The SDK's import makes objects by the hundred thousand, and none of them goes again.
    gc.disable()
    from vaultmem.service.dispatch import Dispatcher
    from vaultmem.service.operations import listed
    from vaultmem.surfaces.mcp import log_fault, mcp_server

    gc.freeze()
    gc.enable()
    cache_dir = getattr(arguments, "cache_dir", None)
    vault = getattr(arguments, "vault", None)

    def load() -> "Settings":
        from vaultmem.service.settings import load_settings

        return load_settings(vault, cache_dir)

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_: os._exit(0))
    code = 0
    try:
        serve(mcp_server(Dispatcher(load), listed(everything=arguments.tools == "all")), wire)
    except Exception as error:  # noqa: BLE001 - the log says what it was
        log_fault("the server", error)
        code = 70
    with suppress(OSError, ValueError):
        wire.write.flush()
        if sys.stderr is not None:
            sys.stderr.flush()
    # A thread that is still at work, or reads a pipe, would keep the process alive. What it
    # writes is safe at any moment: killed is what it may be any time.
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
