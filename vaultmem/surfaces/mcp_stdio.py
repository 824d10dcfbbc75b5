"""MCP over standard input and output: a message a line, and nothing else on either.

The two descriptors are taken aside before anything is imported that might print, and the numbers
0 and 1 then lead elsewhere: what a library, a warning or a crash writes goes to standard error.
The SDK has a transport of its own for this; it drops the answers that are still being made when
standard input ends, and a script that pipes its requests in never saw them.
"""

import os
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

# So long answers that are being made when standard input ends may take: seconds.
LAST_ANSWERS_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Wire:
    """Where messages come from and go to."""

    read: BinaryIO
    write: BinaryIO


def take_wire() -> Wire:
    """Take standard input and output for messages alone. Call it first."""
    read, write = os.dup(0), os.dup(1)
    for descriptor in (read, write):
        os.set_inheritable(descriptor, False)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without standard error
        os.dup2(nowhere, 1)
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
    from mcp.shared.message import SessionMessage
    from mcp.types import JSONRPCError, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter

    lines: asyncio.Queue[bytes] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read_lines() -> None:
        try:
            for line in wire.read:
                loop.call_soon_threadsafe(lines.put_nowait, line)
        except (OSError, ValueError):
            pass  # as good as its end
        finally:
            loop.call_soon_threadsafe(lines.put_nowait, b"")

    inbound, to_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    from_server, outbound = anyio.create_memory_object_stream[SessionMessage](0)
    unanswered: set[str | int] = set()
    answered = asyncio.Event()

    async def receive() -> None:
        async with inbound:
            while line := await lines.get():
                if not line.strip():
                    continue
                message: SessionMessage | Exception
                try:
                    parsed = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError as error:
                    message = error
                else:
                    message = SessionMessage(parsed)
                    if isinstance(parsed, JSONRPCRequest):
                        unanswered.add(parsed.id)
                await inbound.send(message)
            with anyio.move_on_after(LAST_ANSWERS_SECONDS):
                while unanswered:
                    answered.clear()
                    await answered.wait()

    async def send() -> None:
        async with outbound:
            async for item in outbound:
                message = item.message
                text = message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    wire.write.write(text.encode("utf-8") + b"\n")
                    wire.write.flush()
                except OSError:
                    tasks.cancel_scope.cancel()  # nobody reads any more
                    return
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    unanswered.discard(message.id)
                    answered.set()

    threading.Thread(target=read_lines, name="input", daemon=True).start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        tasks.start_soon(send)
        await server.run(to_server, from_server, server.create_initialization_options())
