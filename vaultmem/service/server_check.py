"""The MCP server as a client meets it: started, greeted, asked for its tools."""

import json
import os
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import Any

from vaultmem import __version__
from vaultmem.service.server_entry import ServerEntry

# The most impatient of the clients that are known wait so long for the first answer: seconds.
CLIENTS_WAIT_SECONDS = 10.0
# Whoever checks waits longer, to tell slow from broken.
_LONGEST_SECONDS = 30.0
# What is read of standard error, for the message where it does not start: characters.
_MOST_SAID = 400

_REQUESTS: tuple[dict[str, Any], ...] = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "vaultmem doctor", "version": __version__},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)


@dataclass(frozen=True, slots=True)
class ServerSeen:
    """How the server presented itself."""

    problem: str  # why it could not be spoken to; "" when it could
    seconds: float  # from its start to the answer of `initialize`
    tools: tuple[str, ...]
    tokens: int  # of their names, descriptions and input schemas: a running cost of each session


def try_server(entry: ServerEntry) -> ServerSeen:
    """Start the server, greet it, have its tools listed, and end it by closing its input."""
    began = time.perf_counter()
    try:
        server = subprocess.Popen(
            [entry.command, *entry.args],
            env={**os.environ, **entry.env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        return _unseen(f"{entry.command} cannot be started: {error.strerror}.")
    too_slow = threading.Timer(_LONGEST_SECONDS, server.kill)
    too_slow.start()
    try:
        return _spoken_to(server, began)
    finally:
        too_slow.cancel()
        server.kill()
        server.wait()
        for pipe in (server.stdin, server.stdout, server.stderr):
            if pipe is not None:
                pipe.close()


def _spoken_to(server: "subprocess.Popen[str]", began: float) -> ServerSeen:
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stderr is not None
    try:
        server.stdin.write("".join(json.dumps(request) + "\n" for request in _REQUESTS))
        server.stdin.flush()
    except OSError:
        return _unseen(_said(server))
    greeted = 0.0
    for line in server.stdout:
        try:
            message = json.loads(line)
        except ValueError:
            return _unseen("It writes something other than messages to its standard output.")
        if message.get("id") == 1:
            greeted = time.perf_counter() - began
        if message.get("id") == 2:
            tools = message.get("result", {}).get("tools", [])
            names = tuple(tool["name"] for tool in tools)
            return ServerSeen("", round(greeted, 3), names, sum(map(schema_tokens, tools)))
    return _unseen(_said(server))


def schema_tokens(tool: dict[str, Any]) -> int:
    """What a tool costs in every session: its JSON, four characters a token."""
    told = {name: tool.get(name) for name in ("name", "description", "inputSchema")}
    return -(-len(json.dumps(told, ensure_ascii=False, separators=(",", ":"))) // 4)


def _said(server: "subprocess.Popen[str]") -> str:
    assert server.stderr is not None
    server.kill()
    said = " ".join(server.stderr.read(_MOST_SAID).split())
    return f"It ended without an answer. {said}".strip()


def _unseen(problem: str) -> ServerSeen:
    return ServerSeen(problem, 0.0, (), 0)
