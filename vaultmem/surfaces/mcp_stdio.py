"""MCP over standard input and output: a message a line, and nothing else on either.

The two descriptors are taken aside before anything is imported that might print, and the numbers
0 and 1 then lead elsewhere: what a library, a warning or a crash writes goes to standard error.
The SDK has a transport of its own for this; it drops the answers that are still being made when
standard input ends, and a script that pipes its requests in never saw them.
"""

import json
import os
import sys
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server
    from mcp.types import JSONRPCError, JSONRPCNotification

# So long the next of the answers that are being made when standard input ends may take: seconds.
LAST_ANSWERS_SECONDS = 5.0
# ... and so long what is written then may wait for somebody who reads it.
LAST_WRITE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Wire:
    """Where messages come from and go to."""

    read: BinaryIO
    write: BinaryIO


def take_wire() -> Wire:
    """Take standard input and output for messages alone. Call it first."""
    # Of the three numbers one may be free, where we were started without it; a copy of another
    # must not get it, or what is meant for standard error would go to the client.
    while (nowhere := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(nowhere, True)
    read, write = os.dup(0), os.dup(1)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)
    os.close(nowhere)
    sys.stdout = sys.stderr
    return Wire(os.fdopen(read, "rb", closefd=False), os.fdopen(write, "wb", closefd=False))


def serve(server: "Server[Any]", wire: Wire) -> None:
    """Answer until the input ends, or nobody reads what is written."""
    import anyio

    anyio.run(_serve, server, wire)


async def _serve(server: "Server[Any]", wire: Wire) -> None:
    import asyncio

    import anyio
    from anyio.to_thread import run_sync
    from mcp.shared.message import SessionMessage
    from mcp.types import (
        JSONRPCError,
        JSONRPCNotification,
        JSONRPCRequest,
        JSONRPCResponse,
        jsonrpc_message_adapter,
    )

    lines: asyncio.Queue[bytes] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()  # whatever came before may still be waiting

    def read_lines() -> None:
        try:
            for line in wire.read:
                loop.call_soon_threadsafe(lines.put_nowait, line)
        except (OSError, ValueError):
            pass  # as good as its end
        finally:
            with suppress(RuntimeError):  # the loop may have ended before
                loop.call_soon_threadsafe(lines.put_nowait, b"")
                loop.call_soon_threadsafe(ended.set)

    def write_line(line: bytes) -> None:
        wire.write.write(line)
        wire.write.flush()

    inbound, to_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    from_server, outbound = anyio.create_memory_object_stream[SessionMessage](0)
    complaints = from_server.clone()
    unanswered: Counter[str | int | None] = Counter()  # ids, which a client may use twice
    asked: set[str | int | None] = set()  # ids of questions to the client
    answered = asyncio.Event()
    receiving, writing = anyio.CancelScope(), anyio.CapacityLimiter(1)

    async def receive() -> None:
        async with inbound, complaints:
            with receiving:
                await take_lines()

    async def take_lines() -> None:
        while line := await lines.get():
            if not line.strip():
                continue
            try:
                parsed = jsonrpc_message_adapter.validate_json(_mended(line), by_name=False)
            except ValueError:
                with suppress(anyio.BrokenResourceError):  # nobody reads any more
                    await complaints.send(SessionMessage(_complaint(line)))
                continue
            if isinstance(parsed, JSONRPCRequest):
                unanswered[parsed.id] += 1
            elif isinstance(parsed, JSONRPCNotification):
                unanswered.pop(_cancelled(parsed), None)
            elif isinstance(parsed, JSONRPCResponse | JSONRPCError):
                asked.discard(parsed.id)
            await inbound.send(SessionMessage(parsed))
        # Who asked the client something gets no answer any more.
        while unanswered.total() > len(asked):
            answered.clear()
            await answered.wait()

    async def give_up() -> None:
        """End what does not end by itself once the input has."""
        await ended.wait()
        idle = False
        while not idle:
            answered.clear()
            with anyio.move_on_after(LAST_ANSWERS_SECONDS) as patience:
                await answered.wait()
            idle = patience.cancelled_caught
        receiving.cancel()
        await anyio.sleep(LAST_WRITE_SECONDS)
        tasks.cancel_scope.cancel()

    async def send() -> None:
        async with outbound:
            async for item in outbound:
                message = item.message
                text = message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    # Aside: whoever does not read what we write must not keep us from ending.
                    line = text.encode("utf-8") + b"\n"
                    await run_sync(write_line, line, abandon_on_cancel=True, limiter=writing)
                except OSError:
                    tasks.cancel_scope.cancel()  # nobody reads any more
                    return
                if isinstance(message, JSONRPCRequest):
                    asked.add(message.id)
                    answered.set()
                if isinstance(message, JSONRPCNotification):
                    asked.discard(_cancelled(message))  # whoever asked was cancelled itself
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    if unanswered[message.id] > 1:
                        unanswered[message.id] -= 1
                    else:
                        del unanswered[message.id]
                    answered.set()

    threading.Thread(target=read_lines, name="input", daemon=True).start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        async with anyio.create_task_group() as reading:
            reading.start_soon(receive)
            reading.start_soon(give_up)
            await server.run(to_server, from_server, server.create_initialization_options())
            reading.cancel_scope.cancel()
        tasks.cancel_scope.deadline = anyio.current_time() + LAST_WRITE_SECONDS


def _mended(line: bytes) -> bytes:
    """The line, half a pair of surrogates in it replaced.

    JavaScript clients send that where they cut a text within an emoji; the SDK's parser takes it
    for an error in the whole line.
    """
    if b"\\u" not in line:
        return line
    try:
        text = json.dumps(json.loads(line), ensure_ascii=False)
    except (ValueError, RecursionError):
        return line
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode("utf-8")


def _complaint(line: bytes) -> "JSONRPCError":
    """The answer to what is no message: whoever sent it may be waiting for one."""
    from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
    from pydantic_core import from_json

    number = None
    try:
        value = from_json(line)
    except ValueError:
        error = ErrorData(code=PARSE_ERROR, message="This line is no JSON.")
    else:
        error = ErrorData(
            code=INVALID_REQUEST,
            message="This is no JSON-RPC message; a line holds one, and no list of them.",
        )
        known = value.get("id") if isinstance(value, dict) and "method" in value else None
        if isinstance(known, str | int) and not isinstance(known, bool):
            number = known
    return JSONRPCError(jsonrpc="2.0", id=number, error=error)


def _cancelled(message: "JSONRPCNotification") -> str | int | None:
    """The id of the request that needs no answer any more; None for another notification."""
    if message.method != "notifications/cancelled":
        return None
    number = (message.params or {}).get("requestId")
    return number if isinstance(number, str | int) else None
