"""A `vaultmem mcp` that runs beside a test, asked by lines of JSON over its standard streams."""

import itertools
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command_line import CommandLine
from warm_start import Process

DEADLINE_SECONDS = 60.0
VERSION = "2025-06-18"
HANDSHAKE: tuple[dict[str, Any], ...] = (
    {
        "jsonrpc": "2.0",
        "id": "handshake",
        "method": "initialize",
        "params": {
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "0"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
)

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Served:
    """A server that has come to its end."""

    code: int
    messages: list[Message]  # what it wrote to standard output, line by line
    err: str
    seconds: float  # from the end of its input to its own

    def answers(self) -> dict[Any, Message]:
        """Id -> the answer; fails where two have the same."""
        found = [message for message in self.messages if "id" in message]
        ids = [message["id"] for message in found]
        assert len(set(ids)) == len(ids), ids
        return dict(zip(ids, found, strict=True))


class McpProcess:
    """The process; threads read what it writes, whole lines in order."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.lines: list[bytes] = []  # of standard output, with their ends
        self.errors: list[bytes] = []  # of standard error
        self._heard = threading.Condition()
        self._read_up_to = 0
        self._answers: dict[Any, Message] = {}
        self._ids = itertools.count(1)
        self._listeners = [
            threading.Thread(target=self._listen, args=(stream, kept), daemon=True)
            for stream, kept in ((process.stdout, self.lines), (process.stderr, self.errors))
            if stream is not None
        ]
        for listener in self._listeners:
            listener.start()

    @property
    def err(self) -> str:
        """What it has written to standard error so far."""
        return b"".join(list(self.errors)).decode("utf-8", "replace")

    def send(self, *messages: Message | bytes) -> None:
        """Write messages, or bytes as they are, all at once."""
        data = b"".join(
            message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
            for message in messages
        )
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Send a request; gives its id."""
        number = next(self._ids)
        message: Message = {"jsonrpc": "2.0", "id": number, "method": method}
        self.send(message if params is None else message | {"params": dict(params)})
        return number

    def answer(self, number: Any) -> Message:
        """Wait for the answer that has this id; True and 1 are not the same one."""
        self.until(lambda: number in self._known())
        return self._known()[number]

    def result(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """What a request results in; fails when that is an error of the protocol."""
        answer = self.answer(self.ask(method, params))
        assert "result" in answer, answer
        return answer["result"]

    def call(self, tool: str, **arguments: Any) -> Any:
        """What a tool answers, as data, out of its fence; fails when that is an error."""
        result = self.result("tools/call", {"name": tool, "arguments": arguments})
        assert not result.get("isError"), result
        return result["structuredContent"]["content"]

    def fails(self, tool: str, **arguments: Any) -> str:
        """The text of a tool's answer that says what went wrong."""
        result = self.result("tools/call", {"name": tool, "arguments": arguments})
        assert result.get("isError") is True, result
        (content,) = result["content"]
        return str(content["text"])

    def paths(self, query: str, **arguments: Any) -> list[str]:
        """The paths that a search finds, best first."""
        found = self.call("search", query=query, **arguments)
        return [hit["path"] for hit in found.get("hits", ())]

    def shake_hands(self) -> Message:
        """Do what every client of the handshake eras begins with; gives the server's greeting."""
        self.send(*HANDSHAKE)
        return self.answer("handshake")

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, asked whenever it writes, and now and then."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            ended = self.process.poll() is not None
            if ended:
                self._join()
            if holds():
                return
            assert not ended, (self.process.returncode, self.err)
            assert time.monotonic() < deadline, (self.lines[-3:], self.err)
            with self._heard:
                self._heard.wait(0.02)

    def close(self) -> Served:
        """End its input, and wait for its own end."""
        began = time.monotonic()
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        return self.ended(began)

    def ended(self, began: float | None = None) -> Served:
        """Wait for its end, which must come by itself."""
        began = time.monotonic() if began is None else began
        code = self.process.wait(DEADLINE_SECONDS)
        seconds = time.monotonic() - began
        self._join()
        return Served(code, messages(self.lines), self.err, seconds)

    def _known(self) -> dict[Any, Message]:
        for line in self.lines[self._read_up_to :]:
            message = json.loads(line)
            self._read_up_to += 1
            if "id" in message and "method" not in message:
                self._answers[message["id"]] = message
        return self._answers

    def _join(self) -> None:
        for listener in self._listeners:
            listener.join(DEADLINE_SECONDS)

    def _listen(self, stream: Any, kept: list[bytes]) -> None:
        for line in stream:
            with self._heard:
                kept.append(line)
                self._heard.notify_all()


def messages(lines: Sequence[bytes]) -> list[Message]:
    """The messages; fails where a line is not one JSON-RPC message, and nothing besides."""
    found = []
    for line in lines:
        assert line.endswith(b"\n"), line
        message = json.loads(line.decode("utf-8"))
        assert isinstance(message, dict), line
        assert message["jsonrpc"] == "2.0", line
        kinds = [kind for kind in ("method", "result", "error") if kind in message]
        assert len(kinds) == 1, line
        assert "id" in message or kinds == ["method"], line
        found.append(message)
    return found


@contextmanager
def serving(
    shell: CommandLine,
    *options: str,
    arguments: Sequence[str] | None = None,
    environment: Mapping[str, str | None] | None = None,
    cwd: Path | None = None,
    python: Sequence[str] | None = None,
    preexec_fn: Callable[[], None] | None = None,
    errors: int = subprocess.PIPE,
) -> Iterator[McpProcess]:
    """A server of the shell's vault; it is killed if it has not ended with the block.

    options: those of `mcp`.
    arguments: those before `mcp`, if not the shell's vault and cache.
    """
    given = ("--vault", str(shell.vault), "--cache-dir", str(shell.cache))
    with shell.started(
        *(given if arguments is None else arguments), "mcp", *options,
        environment=environment, cwd=cwd, stdin=subprocess.PIPE, stderr=errors,
        preexec_fn=preexec_fn, python=python,
    ) as process:  # fmt: skip
        try:
            yield McpProcess(process)
        finally:
            if process.poll() is None:
                process.kill()
