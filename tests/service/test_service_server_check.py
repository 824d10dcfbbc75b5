"""What `doctor` finds out about the server, by starting it as a client would."""

import json
import sys
from pathlib import Path

import pytest

from vaultmem.service.application import open_memory
from vaultmem.service.clients import Computer
from vaultmem.service.doctor import run_checks
from vaultmem.service.own_server import own_server
from vaultmem.service.server_check import schema_tokens, try_server
from vaultmem.service.server_entry import ServerEntry
from vaultmem.service.settings import load_settings


def script(tmp_path: Path, code: str) -> ServerEntry:
    path = tmp_path / "server.py"
    path.write_text(code, "utf-8")
    return ServerEntry(sys.executable, (str(path),), {})


def test_the_server_of_a_vault_greets_and_lists_its_tools(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("clay")
    settings = load_settings(tmp_path, tmp_path / "cache", environment={})
    computer = Computer(tmp_path, {}, sys.platform, sys.executable, "vaultmem")
    seen = try_server(own_server(settings, computer).entry)
    assert seen.problem == ""
    assert {"search", "read", "related", "status"} <= set(seen.tools)
    assert 0 < seen.seconds < 30
    assert 300 < seen.tokens < 1_500


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import sys; sys.exit('no such thing')", "no such thing"),
        ("print('Welcome!')", "something other than messages"),
        ("print('[]')", "something other than messages"),
        ("print('{\"id\": 2}')", "does not list its tools"),
        ("", "ended without an answer"),
    ],
)
def test_a_server_that_does_not_serve_is_told_why(code: str, problem: str, tmp_path: Path) -> None:
    seen = try_server(script(tmp_path, code))
    assert problem in seen.problem
    assert seen.tools == ()


def test_a_server_that_says_much_is_heard_out(tmp_path: Path) -> None:
    code = "import sys; sys.stderr.write('x' * 300_000 + ' the end'); sys.stderr.flush()"
    assert "the end" in try_server(script(tmp_path, code)).problem


def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "vaultmem")
    assert missing in try_server(ServerEntry(missing, (), {})).problem


def test_tokens_are_characters_of_compact_json_by_four() -> None:
    tool = {"name": "a", "description": "é", "inputSchema": {}, "outputSchema": {"x": 1}}
    text = '{"name":"a","description":"é","inputSchema":{}}'
    assert json.loads(text) == {key: tool[key] for key in ("name", "description", "inputSchema")}
    assert schema_tokens(tool) == -(-len(text) // 4)


def test_the_checks_tell_of_the_server_and_of_a_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / ".cursor").mkdir(parents=True)
    entry = {"command": str(tmp_path / "gone/vaultmem"), "args": ["--vault", str(tmp_path), "mcp"]}
    (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"vaultmem": entry}}))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    (tmp_path / "a.md").write_text("clay")
    environment = {"VAULTMEM_EMBEDDER_NAME": "none"}
    memory = open_memory(load_settings(tmp_path, tmp_path / "cache", environment=environment))
    try:
        checks = {check.id: check for check in run_checks(memory, assistants=True)}
    finally:
        memory.close()
    for name in ("mcp-start", "mcp-handshake", "mcp-tools", "mcp-schema"):
        assert checks[name].ok, checks[name]
    assert "search" in checks["mcp-tools"].detail
    assert not checks["client-cursor"].ok
    assert "vaultmem connect cursor" in checks["client-cursor"].fix
