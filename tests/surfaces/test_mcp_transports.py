"""The server by the SDK's own client: over stdio and HTTP, in both eras of the protocol.

A real process each time, and the same answers everywhere.
"""

import re
import subprocess
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from command_line import MODULE, CommandLine, on_notes
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

REPORTS = Path(__file__).resolve().parents[1] / "data" / "reports"
LOG = (REPORTS / "10-non-ascii-heading/vault/Bitácora.md").read_text("utf-8")
HEADINGS = [line.removeprefix("## ") for line in LOG.splitlines() if line.startswith("## ")]

# Report 11; written here, since some of these names cannot lie in a checkout on Windows.
WORDS = {
    "Area 51/Test Note.md": "alpha",
    "Area 51/Café.md": "beta",
    "Area 51/50% plan.md": "gamma",
    "Area 51/a%20b.md": "delta",
    "Area 51/a b.md": "epsilon",
    "Area 51/x#y?z.md": "zeta",
}
URIS = {
    "Area 51/Test Note.md": "Area 51/Test Note.md",
    "Area%2051/Test%20Note.md": "Area 51/Test Note.md",
    "Area%2051/Caf%C3%A9.md": "Area 51/Café.md",
    "Area 51/50% plan.md": "Area 51/50% plan.md",
    "Area%2051/50%25%20plan.md": "Area 51/50% plan.md",
    "Area%2051/a%2520b.md": "Area 51/a%20b.md",
    "Area%2051/a%20b.md": "Area 51/a b.md",
    "Area 51/x#y?z.md": "Area 51/x#y?z.md",
    "Area%2051/x%23y%3Fz.md": "Area 51/x#y?z.md",
}

Era = Literal["auto", "legacy"]
Transport = Literal["stdio", "http"]
Use = Callable[[Client], Awaitable[Any]]

QUICK = {"VAULTMEM_EMBEDDER_NAME": "none"}


@dataclass(frozen=True, slots=True)
class Reached:
    """A vault with a server over HTTP, and how to start one over stdio."""

    shell: CommandLine
    url: str
    token: str

    def ask(self, transport: Transport, era: Era, use: Use) -> Any:
        """What comes of it with a client of this kind."""

        async def run() -> Any:
            async with self.connected(transport, era) as client:
                return await use(client)

        return anyio.run(run)

    @asynccontextmanager
    async def connected(self, transport: Transport, era: Era) -> AsyncIterator[Client]:
        if transport == "stdio":
            given = StdioServerParameters(
                command=MODULE[0],
                args=[*MODULE[1:], "mcp", "--tools", "all"],
                env=self.shell.environment(QUICK),
                cwd=self.shell.elsewhere,
            )
            async with Client(given, mode=era) as client:
                yield client
        else:
            headers = {"Authorization": f"Bearer {self.token}"}
            async with create_mcp_http_client(headers=headers) as http_client:
                stream = streamable_http_client(self.url, http_client=http_client)
                async with Client(stream, mode=era) as client:
                    yield client


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reached]:
    scratch = tmp_path_factory.mktemp("transports")
    shell = on_notes(scratch, {**WORDS, "Bitácora.md": LOG, "hub.md": "[[a b]] and [[Café]]\n"})
    with subprocess.Popen(
        [*MODULE, "mcp", "--http", "--port", "0", "--tools", "all"],
        cwd=shell.elsewhere,
        env=shell.environment({**QUICK, "VAULTMEM_STATE_DIR": str(scratch / "state")}),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline() + process.stderr.readline()
            url = re.search(r"http://\S+/mcp", said)
            place = re.search(r"lies in (.+http-token)", said)
            assert url is not None, said
            assert place is not None, said
            yield Reached(shell, url[0], Path(place[1]).read_text().strip())
        finally:
            process.kill()


@pytest.fixture(params=["stdio auto", "stdio legacy", "http auto", "http legacy"])
def ask(request: pytest.FixtureRequest, reached: Reached) -> Callable[[Use], Any]:
    transport, era = request.param.split()
    return lambda use: reached.ask(transport, era, use)


async def content(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content["content"]


def test_every_tool_is_listed_and_called(ask: Callable[[Use], Any]) -> None:
    arguments: dict[str, dict[str, Any]] = {
        "search": {"query": "epsilon"},
        "read": {"note": "hub"},
        "related": {"note": "hub"},
        "inspect": {"note": "hub"},
        "evaluate": {"questions": '{"query": "epsilon", "relevant": ["a b"]}', "compare": False},
    }

    async def use(client: Client) -> None:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert {"search", "read", "related", "status", "index", "lint", "secrets"} <= set(tools)
        for tool in tools:
            result = await client.call_tool(tool, arguments.get(tool, {}))
            if tool == "allow_secret":  # nothing was given, and this client cannot ask a person
                assert result.is_error
            else:
                assert not result.is_error, (tool, result.content)

    ask(use)


def test_answers_are_the_same_over_each_way(reached: Reached) -> None:
    async def use(client: Client) -> Any:
        found = await content(client, "search", query="epsilon")
        note = await content(client, "read", note="hub")
        links = await content(client, "related", note="hub")
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        prompt = await client.get_prompt("recall", {"task": "glaze"})
        missing = await client.call_tool("read", {"note": "hubb"})
        assert missing.is_error
        return found, note, links, prompts, prompt.messages[0].content

    transports: list[Transport] = ["stdio", "http"]
    eras: list[Era] = ["auto", "legacy"]
    answers = [reached.ask(transport, era, use) for transport in transports for era in eras]
    assert answers[0][0]["hits"][0]["path"] == "Area 51/a b.md"
    assert all(answer == answers[0] for answer in answers[1:])


def test_report_10_a_heading_of_any_letters_names_its_section(ask: Callable[[Use], Any]) -> None:
    async def use(client: Client) -> None:
        for heading in HEADINGS:
            for form in ("NFC", "NFD"):
                spelt = unicodedata.normalize(form, f"Bitácora#{heading}")
                read = await content(client, "read", note=spelt)
                assert read["path"] == "Bitácora.md"
                assert read["text"].startswith(f"## {heading}\n")
                assert read["text"].count("## ") == 1

    assert len(HEADINGS) == 3
    ask(use)


def test_report_11_a_path_is_literal_and_an_address_decoded_once(
    ask: Callable[[Use], Any],
) -> None:
    async def use(client: Client) -> None:
        for path, word in WORDS.items():
            assert (await content(client, "read", note=path))["text"] == word
        for uri, path in URIS.items():
            (read,) = (await client.read_resource(f"vault://note/{uri}")).contents
            others = set(WORDS.values()) - {WORDS[path]}
            text = getattr(read, "text", "")
            assert WORDS[path] in text, uri
            assert not any(word in text for word in others), uri
        with pytest.raises(MCPError):
            await client.read_resource("vault://note/../Notes/hub.md")

    ask(use)
