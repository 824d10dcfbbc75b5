"""What `doctor` finds out about the server, by starting it as a client would."""

import json
import sys
import time
from pathlib import Path

import pytest

from vaultmem.service import server_check
from vaultmem.service.application import open_memory
from vaultmem.service.clients import Computer
from vaultmem.service.doctor import run_checks
from vaultmem.service.own_server import own_server
from vaultmem.service.server_check import client_environment, schema_tokens, try_server
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


def test_an_entry_whose_server_does_not_start_is_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault, home = tmp_path / "vault", tmp_path / "home"
    vault.mkdir()
    (vault / "a.md").write_text("clay")
    (home / ".cursor").mkdir(parents=True)
    (home / ".codeium" / "windsurf").mkdir(parents=True)
    program = tmp_path / "bin" / "vaultmem"  # as after an update that took its Python away
    program.parent.mkdir()
    program.write_text("#!/no/such/python\n")
    program.chmod(0o755)
    args = ["--vault", str(vault), "mcp"]
    broken = {"command": str(program), "args": args}
    works = {"command": sys.executable, "args": ["-P", "-m", "vaultmem", *args]}
    (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"vaultmem": broken}}))
    place = home / ".codeium/windsurf/mcp_config.json"
    place.write_text(json.dumps({"mcpServers": {"vaultmem": works}}))
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("PATH", "")
    environment = {"VAULTMEM_EMBEDDER_NAME": "none"}
    memory = open_memory(load_settings(vault, tmp_path / "cache", environment=environment))
    try:
        checks = {check.id: check for check in run_checks(memory, assistants=True)}
    finally:
        memory.close()
    assert not checks["client-cursor"].ok
    assert "does not start" in checks["client-cursor"].detail
    assert "vaultmem connect cursor" in checks["client-cursor"].fix
    assert checks["client-windsurf"].ok, checks["client-windsurf"]


def test_a_client_does_not_see_the_variables_of_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VAULTMEM_VAULT", "/somewhere")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    assert {"VAULTMEM_VAULT", "PYTHONPATH"} & set(client_environment()) == set()


@pytest.mark.skipif(sys.platform == "win32", reason="a script of the shell")
def test_a_wrapper_that_stays_does_not_keep_the_check(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("clay")
    wrapper = tmp_path / "vaultmem"
    place = f"--vault '{tmp_path}' --cache-dir '{tmp_path}/cache'"
    wrapper.write_text(f"#!/bin/sh\n'{sys.executable}' -P -m vaultmem {place} mcp\nsleep 60\n")
    wrapper.chmod(0o755)
    began = time.monotonic()
    seen = try_server(ServerEntry(str(wrapper), ()))
    assert seen.problem == ""
    assert "search" in seen.tools
    assert time.monotonic() - began < 50  # the wrapper stays for longer


def test_a_server_that_says_nothing_is_not_waited_for_longer_than_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_check, "_LONGEST_SECONDS", 0.5)
    code = "import time\nwhile True: time.sleep(60)"
    assert "did not answer" in try_server(script(tmp_path, code)).problem
