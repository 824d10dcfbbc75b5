"""`vaultmem mcp --http`, as it is started by a person and asked over the network."""

import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from command_line import MODULE, CommandLine, assert_one_line_error, on_notes
from http_hostile import MCP, misses
from http_raw import ask, head
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

NOTES = {"Gate.md": "The gate is green.\n"}
DEADLINE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Served:
    """The server, where it listens, and the token that it said where to find."""

    shell: CommandLine
    process: "subprocess.Popen[str]"
    port: int
    token_file: Path

    @property
    def token(self) -> str:
        return self.token_file.read_text().strip()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    scratch = tmp_path_factory.mktemp("served")
    shell = on_notes(scratch, NOTES)
    process = subprocess.Popen(
        [*MODULE, "mcp", "--http", "--port", "0"],
        cwd=shell.elsewhere,
        env=shell.environment({"VAULTMEM_STATE_DIR": str(scratch / "state")}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    where, how = process.stderr.readline(), process.stderr.readline()
    port = re.search(r"http://127\.0\.0\.1:(\d+)/mcp$", where)
    token_file = re.search(r"token that lies in (.+http-token)\.", how)
    assert port is not None, where
    assert token_file is not None, how
    yield Served(shell, process, int(port[1]), Path(token_file[1]))
    process.kill()
    process.communicate(timeout=DEADLINE_SECONDS)


def test_a_client_that_is_given_what_was_said_finds_a_note(served: Served) -> None:
    async def use() -> None:
        given = {"Authorization": f"Bearer {served.token}"}
        async with create_mcp_http_client(headers=given) as http_client:
            url = f"http://127.0.0.1:{served.port}/mcp"
            async with Client(streamable_http_client(url, http_client=http_client)) as client:
                found = await client.call_tool("search", {"query": "gate"})
                assert found.is_error is False
                assert "Gate.md" in repr(found.structured_content)

    anyio.run(use)


def test_hostile_requests_are_answered_as_listed(served: Served) -> None:
    assert misses(MCP, port=served.port, token=served.token) == set()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps no modes")
def test_the_token_is_for_its_owner_alone_and_out_of_the_vault(served: Served) -> None:
    assert stat.S_IMODE(served.token_file.stat().st_mode) == 0o600
    assert served.shell.vault not in served.token_file.parents
    assert sorted(os.listdir(served.shell.vault)) == ["Gate.md"]


def test_a_port_in_use_is_said_in_one_line(served: Served) -> None:
    state = {"VAULTMEM_STATE_DIR": str(served.token_file.parents[1])}
    port = str(served.port)
    ended = served.shell.run("mcp", "--http", "--port", port, environment=state)
    assert_one_line_error(ended, 2, f"Port {served.port} of 127.0.0.1 is in use")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
def test_it_says_nothing_more_and_ends_when_told_to(served: Served) -> None:
    token = served.token
    fields = [("Host", f"127.0.0.1:{served.port}"), ("Authorization", f"Bearer {token}")]
    assert ask(served.port, head("GET", "/nosuch", fields)).status == 404
    served.process.send_signal(signal.SIGTERM)
    out, err = served.process.communicate(timeout=DEADLINE_SECONDS)
    assert (served.process.returncode, out) == (0, "")
    assert token not in err
    assert err == ""
