"""The MCP server as a client meets it: started, greeted, asked for its tools."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

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


def client_environment() -> dict[str, str]:
    """What a program that is started from a desktop sees of the environment, and no shell's."""
    kept = (
        *("HOME", "USERPROFILE", "HOMEDRIVE", "HOMEPATH", "PATH", "LANG", "TMPDIR", "TEMP", "TMP"),
        *("SYSTEMROOT", "APPDATA", "LOCALAPPDATA", "PATHEXT", "COMSPEC"),
    )
    return {name: os.environ[name] for name in kept if name in os.environ}


def try_server(entry: ServerEntry, environment: Mapping[str, str] | None = None) -> ServerSeen:
    """Start the server, greet it, have its tools listed, and end it.

    environment: what it sees besides what its entry says; None for what this process sees.
    """
    began = time.perf_counter()
    try:
        server = subprocess.Popen(
            [entry.command, *entry.args],
            env={**(os.environ if environment is None else environment), **entry.env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return _unseen(f"{entry.command} cannot be started: {error.strerror}.")
    said, heard = _Lines(server.stdout), _Lines(server.stderr)
    try:
        return _spoken_to(server, began, said, heard)
    finally:
        _end(server)
        for lines in (said, heard):
            lines.close()


def _end(server: "subprocess.Popen[str]") -> None:
    """End the server, and what it started where the system can tell."""
    assert server.stdin is not None
    with suppress(OSError):
        server.stdin.close()
    if sys.platform != "win32":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(server.pid, signal.SIGKILL)
    server.kill()
    server.wait()


class _Lines(threading.Thread):
    """Reads what the server writes, which would else fill up and stop it."""

    def __init__(self, pipe: IO[str] | None) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.end = ""  # the last of it
        self.start()

    def run(self) -> None:
        with suppress(OSError, ValueError):
            for line in self._pipe or ():
                self.end = (self.end + line)[-_MOST_SAID:]
                self._lines.put(line)
        self._lines.put(None)

    def next(self, seconds: float) -> str | None:
        """The next line; None where there is none, or not in time."""
        try:
            return self._lines.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return None

    def close(self) -> None:
        self.join(1.0)
        if self._pipe is not None and not self.is_alive():
            self._pipe.close()  # (else somebody unknown still writes to it)


def _spoken_to(
    server: "subprocess.Popen[str]", began: float, said: _Lines, heard: _Lines
) -> ServerSeen:
    assert server.stdin is not None
    with suppress(OSError):  # it has ended already; what it said tells why
        server.stdin.write("".join(json.dumps(request) + "\n" for request in _REQUESTS))
        server.stdin.flush()
    greeted = 0.0
    while (line := said.next(began + _LONGEST_SECONDS - time.perf_counter())) is not None:
        message = _message(line)
        if message is None:
            return _unseen("It writes something other than messages to its standard output.")
        if message.get("id") == 1:
            greeted = time.perf_counter() - began
        if message.get("id") == 2:
            result = message.get("result")
            tools = result.get("tools") if isinstance(result, dict) else None
            if not isinstance(tools, list):
                return _unseen("It does not list its tools.")
            listed = [tool for tool in tools if isinstance(tool, dict)]
            names = tuple(str(tool.get("name")) for tool in listed)
            return ServerSeen("", round(greeted, 3), names, sum(map(schema_tokens, listed)))
    if server.poll() is None and said.is_alive():
        return _unseen(f"It did not answer within {_LONGEST_SECONDS:.0f} s.")
    heard.join(1.0)
    why = " ".join(heard.end.split())
    return _unseen(f"It ended without an answer. {why}".strip())


def _message(line: str) -> dict[str, Any] | None:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def schema_tokens(tool: dict[str, Any]) -> int:
    """What a tool costs in every session: its JSON, four characters a token."""
    told = {name: tool.get(name) for name in ("name", "description", "inputSchema")}
    return -(-len(json.dumps(told, ensure_ascii=False, separators=(",", ":"))) // 4)


def _unseen(problem: str) -> ServerSeen:
    return ServerSeen(problem, 0.0, (), 0)
