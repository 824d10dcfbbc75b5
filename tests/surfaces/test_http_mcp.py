"""MCP over HTTP as its clients speak it, in both eras of the protocol."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Literal

import anyio
import httpx2
import pytest
from http_server_process import GUARDED, ServerProcess, serving
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

TOKEN = "a-token-of-these-tests" * 2
MODES: list[Literal["auto", "legacy"]] = ["auto", "legacy"]


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with serving(GUARDED, TOKEN) as running:
        yield running


@asynccontextmanager
async def client(
    server: ServerProcess, mode: Literal["auto", "legacy"], token: str = TOKEN, **headers: str
) -> AsyncIterator[Client]:
    """A client that is given the server's address and the token, and no more."""
    given = {"Authorization": f"Bearer {token}", **headers}
    async with create_mcp_http_client(headers=given) as http_client:
        url = f"http://127.0.0.1:{server.port}/mcp"
        transport = streamable_http_client(url, http_client=http_client)
        async with Client(transport, mode=mode) as connected:
            yield connected


@pytest.mark.parametrize("mode", MODES)
def test_a_client_lists_and_calls_tools(
    mode: Literal["auto", "legacy"], server: ServerProcess
) -> None:
    async def use() -> None:
        async with client(server, mode) as connected:
            tools = await connected.list_tools()
            assert [tool.name for tool in tools.tools] == ["double", "never"]
            for number in range(30):
                result = await connected.call_tool("double", {"number": number})
                assert result.structured_content == {"result": 2 * number}

    anyio.run(use)


@pytest.mark.parametrize("mode", MODES)
def test_many_clients_at_once_get_their_own_answers(
    mode: Literal["auto", "legacy"], server: ServerProcess
) -> None:
    async def use(number: int, answers: dict[int, object]) -> None:
        async with client(server, mode) as connected:
            result = await connected.call_tool("double", {"number": number})
            answers[number] = result.structured_content

    async def use_many() -> dict[int, object]:
        answers: dict[int, object] = {}
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(use, number, answers)
        return answers

    assert anyio.run(use_many) == {number: {"result": 2 * number} for number in range(8)}


@pytest.mark.parametrize("mode", MODES)
def test_a_client_within_obsidian_is_let_in(
    mode: Literal["auto", "legacy"], server: ServerProcess
) -> None:
    async def use() -> None:
        async with client(server, mode, Origin="app://obsidian.md") as connected:
            result = await connected.call_tool("double", {"number": 4})
            assert result.structured_content == {"result": 8}

    anyio.run(use)


@pytest.mark.parametrize("mode", MODES)
def test_a_client_without_the_token_is_not_let_in(
    mode: Literal["auto", "legacy"], server: ServerProcess
) -> None:
    async def use() -> None:
        async with client(server, mode, token=TOKEN[:-1]):
            pytest.fail("it was let in")

    with pytest.raises(BaseExceptionGroup) as raised:
        anyio.run(use)
    assert raised.group_contains((MCPError, httpx2.HTTPStatusError))
