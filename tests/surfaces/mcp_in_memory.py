"""The MCP server in this process, and the SDK's own client to talk to it."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import anyio
from mcp import Client, MCPError
from mcp.types import CallToolResult, TextContent

from vaultmem.model.operation import Operation, Reply, Request
from vaultmem.security.hidden import shown_in
from vaultmem.service.application import Clock, open_memory
from vaultmem.service.dispatch import Dispatcher, within_room
from vaultmem.service.operations import listed
from vaultmem.service.plain import plain
from vaultmem.service.settings import Settings, load_settings
from vaultmem.surfaces.mcp import mcp_server

Mode = Literal["auto", "legacy"]
# The protocol without a handshake, and the one with it.
MODES: tuple[Mode, ...] = ("auto", "legacy")

T = TypeVar("T")
Use = Callable[[Client], Awaitable[T]]


class Served:
    """A vault below a scratch folder, with a server of its own. Close it when done."""

    def __init__(
        self,
        scratch: Path,
        files: Mapping[str, str | bytes] | None = None,
        *,
        vault: Path | None = None,
        operations: Sequence[Operation] = (),
        environment: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.scratch = scratch
        self.vault = vault or scratch / "vault"
        for path, content in (files or {}).items():
            file = self.vault / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        self.environment = {
            "VAULTMEM_EMBEDDER_NAME": "none",
            "VAULTMEM_STATE_DIR": str(scratch / "state"),
            **(environment or {}),
        }
        self.clock = clock
        self.dispatcher = Dispatcher(self.settings, clock=clock)
        self.server = mcp_server(self.dispatcher, operations or listed(everything=True))

    def settings(self) -> Settings:
        """Those of every request."""
        return load_settings(self.vault, self.scratch / "cache", environment=self.environment)

    def close(self) -> None:
        """Let go of the vault."""
        self.dispatcher.close()

    def ask(self, use: Use[T], mode: Mode = "auto", **options: Any) -> T:
        """What a client makes of the server. A failure of its requests is raised as it is."""

        async def connected() -> T | MCPError:
            async with Client(self.server, mode=mode, **options) as client:
                try:
                    return await use(client)
                except MCPError as error:
                    return error

        answer = anyio.run(connected)
        if isinstance(answer, MCPError):
            raise answer
        return answer

    def call(
        self, tool: str, arguments: Mapping[str, Any] | None = None, mode: Mode = "auto"
    ) -> CallToolResult:
        """The result of one call."""
        (result,) = self.calls([(tool, arguments or {})], mode)
        return result

    def calls(
        self, called: Sequence[tuple[str, Mapping[str, Any]]], mode: Mode = "auto"
    ) -> list[CallToolResult]:
        """The results of many calls, one after another over one connection."""

        async def use(client: Client) -> list[CallToolResult]:
            return [await client.call_tool(tool, dict(given)) for tool, given in called]

        return self.ask(use, mode)

    def content(self, tool: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """What stands between the marks of a call that succeeds."""
        result = self.call(tool, arguments)
        assert not result.is_error, text_of(result)
        assert result.structured_content is not None
        return result.structured_content["content"]

    def failure(
        self, tool: str, arguments: Mapping[str, Any] | None = None, mode: Mode = "auto"
    ) -> dict[str, str]:
        """What is said of a call that fails: `error` and `code`."""
        result = self.call(tool, arguments, mode)
        assert result.is_error, text_of(result)
        failed: dict[str, str] = json.loads(text_of(result))["content"]
        assert set(failed) == {"error", "code"}
        return failed

    def read(self, uri: str, mode: Mode = "auto") -> str:
        """The text of a resource."""

        async def use(client: Client) -> str:
            (content,) = (await client.read_resource(uri)).contents
            return str(getattr(content, "text", ""))

        return self.ask(use, mode)

    def from_the_table(self, operation: Operation, arguments: Mapping[str, Any]) -> Any:
        """What the operation itself replies to the same, as JSON has it between the marks."""
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in arguments.items()
        }
        request: Request = within_room(operation.request(**given))
        memory = open_memory(self.settings(), clock=self.clock)
        try:
            reply: Reply = operation.run(memory, replace(request))
        finally:
            memory.close()
        return shown_in(plain(reply, lean=True))


def text_of(result: CallToolResult) -> str:
    """The one text of a result."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text
