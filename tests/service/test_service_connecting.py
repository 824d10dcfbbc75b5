"""Connecting: what is planned, what is written, and what is left alone."""

import json
import os
import re
import stat
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from vaultmem.model.errors import UsageError
from vaultmem.service import client_config_file
from vaultmem.service.by_hand import snippets
from vaultmem.service.client_config_file import (
    MAX_BYTES,
    FileChanged,
    read_config_file,
    write_config_file,
)
from vaultmem.service.clients import CLIENTS, Computer, client_named
from vaultmem.service.connecting import (
    ConnectionPlan,
    ConnectionReply,
    ConnectionState,
    Step,
    Wish,
    carry_out,
    chosen_clients,
    configured,
    connections,
    plan_connection,
)
from vaultmem.service.own_server import is_own, own_server, served_vault, starts_directly
from vaultmem.service.server_entry import ServerEntry
from vaultmem.service.setting_up import find_settings_anyhow
from vaultmem.service.settings import Settings, load_settings

NOON = datetime(2026, 5, 4, 12, 30, 15, tzinfo=UTC)
CURSOR = """\
{
  // mine
  "mcpServers": {
    "files": {"command": "npx", "env": {"KEY": "a-secret"}},
  },
}
"""

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")


@dataclass(frozen=True)
class Desk:
    """A home folder and vaults, and a program to connect."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def computer(self, environment: Mapping[str, str] | None = None) -> Computer:
        python = self.folder / "venv" / "bin" / "python"
        script = python.with_name("vaultmem")
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text("")
        script.chmod(0o755)
        return Computer(self.home, environment or {}, "linux", str(python), "vaultmem")

    def settings(
        self,
        name: str = "notes",
        environment: Mapping[str, str] | None = None,
        cache: Path | None = None,
    ) -> Settings:
        vault = self.folder / name
        vault.mkdir(exist_ok=True)
        chosen = {"VAULTMEM_STATE_DIR": str(self.folder / "state"), **(environment or {})}
        return load_settings(vault, cache, environment=chosen)

    def plan(
        self,
        *names: str,
        settings: Settings | None = None,
        wish: Wish = Wish.CONNECT,
        name: str | None = "vaultmem",
        replace: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> ConnectionPlan:
        return plan_connection(
            settings or self.settings(),
            chosen_clients(names, everyone=not names),
            wish=wish,
            name=name,
            replace=replace,
            computer=self.computer(environment),
        )

    def connect(self, *names: str, **options: object) -> ConnectionReply:
        plan = self.plan(*names, **options)  # type: ignore[arg-type]
        return carry_out(plan, now=lambda: NOON)

    def write(self, path: str, text: str | bytes) -> Path:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "home").mkdir()
    return Desk(tmp_path)


def steps(changed: ConnectionPlan | ConnectionReply) -> dict[str, Step]:
    return {change.client: change.step for change in changed.changes}


def states(desk: Desk, settings: Settings | None = None) -> dict[str, tuple[ConnectionState, str]]:
    found = connections(settings or desk.settings(), computer=desk.computer())
    return {connection.client: (connection.state, connection.name) for connection in found}


# The entry


def test_the_program_is_the_script_beside_python_by_its_absolute_path(desk: Desk) -> None:
    entry = own_server(desk.settings(), desk.computer()).entry
    script = desk.folder / "venv" / "bin" / "vaultmem"
    assert entry == ServerEntry(str(script), ("--vault", str(desk.folder / "notes"), "mcp"))


def test_without_a_script_beside_python_it_is_the_one_that_was_called(desk: Desk) -> None:
    called = desk.folder / "elsewhere" / "vaultmem"
    called.parent.mkdir()
    called.write_text("")
    computer = replace(desk.computer(), python="/nowhere/python", program=str(called))
    assert own_server(desk.settings(), computer).entry.command == str(called)


def test_without_any_script_python_runs_the_module(desk: Desk) -> None:
    computer = replace(desk.computer(), python="/nowhere/python", program="/x/vaultmem/__main__.py")
    entry = own_server(desk.settings(), computer).entry
    assert entry.command == os.path.abspath("/nowhere/python")
    assert entry.args[:3] == ("-P", "-m", "vaultmem")
    assert is_own(entry)


def test_scripts_of_windows_lie_in_a_folder_of_their_own(desk: Desk) -> None:
    script = desk.folder / "Python" / "Scripts" / "vaultmem.exe"
    script.parent.mkdir(parents=True)
    script.write_text("")
    computer = replace(
        desk.computer(), platform="win32", python=str(desk.folder / "Python" / "python.exe")
    )
    assert own_server(desk.settings(), computer).entry.command == str(script)


def test_a_process_that_knows_no_program_says_so(desk: Desk) -> None:
    with pytest.raises(UsageError, match="does not know its own path"):
        own_server(desk.settings(), replace(desk.computer(), python="", program="-c"))


def test_the_cache_goes_with_it_only_when_somebody_chose_it(desk: Desk) -> None:
    cache = desk.folder / "my cache"
    entry = own_server(desk.settings(cache=cache), desk.computer()).entry
    assert entry.args[2:4] == ("--cache-dir", str(cache))


def test_the_variables_that_vaultmem_reads_go_with_it(desk: Desk) -> None:
    environment = {
        "VAULTMEM_EMBEDDER_NAME": "none",
        "VAULTMEM_EMBEDDER_MODEL_PATH": "~/model",
        "VAULTMEM_STATE_DIR": str(desk.folder / "state"),
        "VAULTMEM_VAULT": "/elsewhere",
        "VAULTMEM_NOTHING": "x",
        "XDG_CACHE_HOME": "/caches",
        "XDG_STATE_HOME": "relative",
        "OLLAMA_HOST": "http://me:word@host:1",
        "API_KEY": "a-secret",
    }
    own = own_server(desk.settings(), desk.computer(environment))
    assert own.entry.env == {
        "VAULTMEM_EMBEDDER_MODEL_PATH": os.path.expanduser("~/model"),
        "VAULTMEM_EMBEDDER_NAME": "none",
        "VAULTMEM_STATE_DIR": str(desk.folder / "state"),
        "XDG_CACHE_HOME": "/caches",
    }
    assert ["OLLAMA_HOST" in note for note in own.notes] == [True]


def test_a_program_in_a_folder_that_uv_clears_is_told_of(desk: Desk) -> None:
    script = desk.folder / "uv" / "archive-v0" / "abc" / "bin" / "vaultmem"
    script.parent.mkdir(parents=True)
    script.write_text("")
    computer = replace(desk.computer(), python=str(script.with_name("python")))
    assert "uv tool install" in own_server(desk.settings(), computer).notes[0]


@pytest.mark.parametrize(
    ("folder", "passing"),
    [
        (".cache/pipx/0123456789abcde/bin", True),
        (".local/pipx/.cache/0123456789abcde/bin", True),
        ("pipx/pipx/Cache/fedcba987654321/Scripts", True),
        (".local/share/pipx/venvs/vaultmem/bin", False),
        (".local/pipx/venvs/vaultmem/bin", False),
    ],
)
def test_a_program_in_a_folder_that_pipx_clears_is_told_of(
    folder: str, passing: bool, desk: Desk
) -> None:
    script = desk.folder / folder / "vaultmem"
    script.parent.mkdir(parents=True)
    script.write_text("")
    computer = replace(desk.computer(), python=str(script.with_name("python")))
    notes = own_server(desk.settings(), computer).notes
    assert any("`pipx install vaultmem`" in note for note in notes) is passing


@pytest.mark.parametrize(
    ("entry", "own"),
    [
        (ServerEntry("docker", ("run", "vaultmem", "mcp")), False),
        (ServerEntry("/usr/bin/python3.12", ("-P", "-m", "vaultmem", "mcp")), True),
        (ServerEntry("python", ("-m", "x", "vaultmem", "mcp")), False),
        (ServerEntry("uv", ("tool", "run", "vaultmem", "mcp")), True),
        (ServerEntry("pipx", ("run", "vaultmem", "mcp")), True),
        (ServerEntry("/x/vaultmem", ("mcp",)), True),
        (ServerEntry("C:\\x\\vaultmem.exe", ("--vault", "C:\\n", "mcp", "--tools", "all")), True),
        (ServerEntry("uvx", ("vaultmem", "mcp")), True),
        (ServerEntry("uvx", ("vaultmem[multilingual]==1.0", "mcp")), True),
        (ServerEntry("/x/vaultmem", ("watch",)), False),
        (ServerEntry("npx", ("vaultmem-server", "mcp")), False),
        (None, False),
    ],
)
def test_its_own_server_is_recognised(entry: ServerEntry | None, own: bool) -> None:
    assert is_own(entry) is own


def test_the_vault_of_an_entry_is_found_however_it_is_named() -> None:
    assert served_vault(ServerEntry("v", ("--vault", "/a b", "mcp"))) == "/a b"
    assert served_vault(ServerEntry("v", ("--vault=/a", "mcp"))) == "/a"
    assert served_vault(ServerEntry("v", ("mcp",), {"VAULTMEM_VAULT": "/e"})) == "/e"
    assert served_vault(ServerEntry("v", ("mcp", "--vault"))) == ""


# Connecting


def test_every_client_that_is_there_is_connected_and_the_rest_left(desk: Desk) -> None:
    for client in CLIENTS[1:]:
        file = client.places(desk.computer()).files[0]
        file.parent.mkdir(parents=True)
    reply = desk.connect()
    assert steps(reply) == {
        client.name: Step.NOT_INSTALLED if client is CLIENTS[0] else Step.ADD for client in CLIENTS
    }
    assert reply.done
    for client in CLIENTS[1:]:
        text = client.places(desk.computer()).files[0].read_text()
        loaded = tomllib.loads(text) if client.name == "codex" else json.loads(text)
        entry = loaded[client.shape.container]["vaultmem"]
        assert entry["command"] == str(desk.folder / "venv/bin/vaultmem")
        assert entry["args"] == ["--vault", str(desk.folder / "notes"), "mcp"]
        assert ("type" in entry) is (client.name == "vscode")
    assert {state for state, _ in states(desk).values()} == {
        ConnectionState.CONNECTED,
        ConnectionState.NOT_INSTALLED,
    }


def test_a_plan_writes_nothing(desk: Desk) -> None:
    file = desk.write(".cursor/mcp.json", CURSOR)
    plan = desk.plan()
    assert steps(plan)["cursor"] is Step.ADD
    assert file.read_text() == CURSOR
    assert not (desk.folder / "state").exists()


def test_what_was_there_is_copied_first_for_its_owner_alone(desk: Desk) -> None:
    desk.write(".cursor/mcp.json", CURSOR)
    (change,) = desk.connect("cursor").changes
    backup = Path(change.backup)
    assert backup.read_text() == CURSOR
    assert re.fullmatch(r"cursor-[0-9a-f]{8}-20260504T123015Z-mcp\.json", backup.name)
    assert backup.parent == desk.settings().state_folder / "backups"
    if sys.platform != "win32":
        assert stat.S_IMODE(backup.stat().st_mode) == 0o600
        assert stat.S_IMODE(backup.parent.stat().st_mode) == 0o700
    (change,) = desk.connect("cursor", wish=Wish.REMOVE).changes
    assert change.backup == str(backup).replace("Z-mcp", "Z-2-mcp")
    assert backup.read_text() == CURSOR


def test_connecting_twice_writes_once(desk: Desk) -> None:
    file = desk.write(".cursor/mcp.json", CURSOR)
    desk.connect("cursor")
    before = (file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_ino)
    reply = desk.connect("cursor")
    assert steps(reply) == {"cursor": Step.NOTHING}
    assert (file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_ino) == before
    assert len(list((desk.settings().state_folder / "backups").iterdir())) == 1


def test_taking_out_gives_the_bytes_that_were_there(desk: Desk) -> None:
    texts = {
        "cursor": (".cursor/mcp.json", CURSOR.replace("\n", "\r\n")),
        "codex": (".codex/config.toml", 'a = 1\n\n[mcp_servers.x]\ncommand = "y" # z'),
        "gemini": (".gemini/settings.json", "{}"),
        "claude-code": (".claude.json", '{"mcpServers": {}}'),
        "windsurf": (".codeium/windsurf/mcp_config.json", ""),
    }
    written = {name: desk.write(path, text) for name, (path, text) in texts.items()}
    assert set(steps(desk.connect(*texts)).values()) == {Step.ADD}
    assert set(steps(desk.connect(*texts, wish=Wish.REMOVE)).values()) == {Step.REMOVE}
    for name, (_, text) in texts.items():
        assert written[name].read_bytes() == text.encode()


def test_a_file_that_was_made_is_deleted_again(desk: Desk) -> None:
    (desk.home / ".cursor").mkdir()
    file = desk.home / ".cursor/mcp.json"
    desk.connect("cursor")
    assert file.exists()
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (change,) = desk.connect("cursor", wish=Wish.REMOVE).changes
    assert not file.exists()
    assert json.loads(Path(change.backup).read_text())["mcpServers"]["vaultmem"]


def test_taking_out_what_is_not_there_does_nothing(desk: Desk) -> None:
    file = desk.write(".cursor/mcp.json", CURSOR)
    (desk.home / ".gemini").mkdir()
    reply = desk.connect("cursor", "gemini", wish=Wish.REMOVE)
    assert set(steps(reply).values()) == {Step.NOTHING}
    assert file.read_text() == CURSOR
    assert not (desk.home / ".gemini/settings.json").exists()


def test_a_second_vault_has_a_name_of_its_own(desk: Desk) -> None:
    file = desk.write(".cursor/mcp.json", CURSOR)
    desk.connect("cursor")
    second = desk.settings("work notes")
    (refused,) = desk.plan("cursor", settings=second).changes
    assert (refused.step, "--name" in refused.reason) == (Step.REFUSED, True)
    assert states(desk, second)["cursor"] == (ConnectionState.OTHER_VAULT, "vaultmem")
    assert steps(desk.connect("cursor", settings=second, name="work")) == {"cursor": Step.ADD}
    assert states(desk, second)["cursor"] == (ConnectionState.CONNECTED, "work")
    assert states(desk)["cursor"] == (ConnectionState.CONNECTED, "vaultmem")
    (kept,) = desk.plan("cursor", settings=second, wish=Wish.REMOVE).changes
    assert (kept.step, "serves another vault" in kept.reason) == (Step.REFUSED, True)
    (named,) = desk.plan("cursor", settings=second, name="third").changes
    assert (named.step, "as work" in named.reason) == (Step.NOTHING, True)
    desk.connect("cursor", settings=second, wish=Wish.REMOVE, name="work")
    desk.connect("cursor", wish=Wish.REMOVE)
    assert file.read_text() == CURSOR


def test_a_server_of_a_vault_that_is_not_there_now_gives_way_to_none_that_does_not_say_so(
    desk: Desk,
) -> None:
    (desk.home / ".cursor").mkdir()
    desk.connect("cursor")
    (desk.folder / "notes").rename(desk.folder / "unplugged")
    second = desk.settings("second")
    for wish, way in ((Wish.CONNECT, "--name"), (Wish.REMOVE, "--vault")):
        (change,) = desk.plan("cursor", settings=second, wish=wish).changes
        assert change.step is Step.REFUSED
        assert f"{desk.folder / 'notes'}, which is not there now" in change.reason
        assert way in change.reason
        assert "--replace" in change.reason
    assert states(desk, second)["cursor"] == (ConnectionState.VAULT_GONE, "vaultmem")
    (done,) = desk.connect("cursor", settings=second, replace=True).changes
    assert (done.step, str(desk.folder / "notes") in done.reason) == (Step.UPDATE, True)
    assert states(desk, second)["cursor"] == (ConnectionState.CONNECTED, "vaultmem")
    third = desk.settings("third")
    (done,) = desk.connect("cursor", settings=third, wish=Wish.REMOVE, replace=True).changes
    assert done.step is Step.REMOVE


WRAPPED = {"command": "docker", "args": ["run", "img", "vaultmem", "--vault", "/n", "mcp"]}


@pytest.mark.parametrize(
    "entry",
    [
        WRAPPED,
        {"command": "C:\\Windows\\wsl.exe", "args": ["-e", "vaultmem", "mcp"]},
        {"command": "python3", "args": ["-m", "other", "vaultmem", "mcp"]},
        {"url": "https://example.org/mcp"},
    ],
)
def test_what_is_not_started_as_vaultmem_is_changed_only_if_that_is_wished(
    entry: dict[str, object], desk: Desk
) -> None:
    text = json.dumps({"mcpServers": {"vaultmem": {**entry, "disabled": True}}})
    file = desk.write(".cursor/mcp.json", text)
    assert states(desk)["cursor"] == (ConnectionState.NAME_TAKEN, "vaultmem")
    for wish in Wish:
        (change,) = desk.connect("cursor", wish=wish).changes
        assert change.step is Step.REFUSED
        assert "--replace" in change.reason
    assert file.read_text() == text
    assert steps(desk.connect("cursor", replace=True)) == {"cursor": Step.UPDATE}
    written = json.loads(file.read_text())["mcpServers"]["vaultmem"]
    own = own_server(desk.settings(), desk.computer()).entry
    assert written == own.written() | {"disabled": True}
    file.write_text(text)
    reply = desk.connect("cursor", wish=Wish.REMOVE, replace=True)
    assert steps(reply) == {"cursor": Step.REMOVE}


def test_a_server_that_is_switched_off_is_brought_up_to_date_and_stays_off(desk: Desk) -> None:
    transport = {
        "type": "stdio",
        "command": "/old/vaultmem",
        "args": ["--vault", str(desk.folder / "notes"), "mcp", "--tools", "all"],
    }
    beside = {"disabled": True, "autoApprove": ["search"]}
    text = json.dumps({"mcpServers": {"vaultmem": {"transport": transport, **beside}}})
    file = desk.write(".cline/data/settings/cline_mcp_settings.json", text)
    codex = desk.write(".codex/config.toml", "")
    desk.connect("codex")
    codex.write_text(codex.read_text() + "\nenabled = false\n")
    assert states(desk)["cline"] == (ConnectionState.DISABLED, "vaultmem")
    assert states(desk)["codex"] == (ConnectionState.DISABLED, "vaultmem")
    (change,) = desk.connect("cline").changes
    assert (change.step, "stays so" in change.reason) == (Step.UPDATE, True)
    written = json.loads(file.read_text())["mcpServers"]["vaultmem"]
    own = own_server(desk.settings(), desk.computer()).entry
    assert written == {
        "transport": {
            "type": "stdio",
            "command": own.command,
            "args": [*own.args, "--tools", "all"],
        },
        **beside,
    }
    (again,) = desk.plan("cline").changes
    assert (again.step, "switched off" in again.reason) == (Step.NOTHING, True)


@pytest.mark.parametrize("key", ["url", "httpUrl", "serverUrl"])
@pytest.mark.parametrize("host", ["127.0.0.1:27125", "localhost:1", "[::1]:8080"])
def test_a_server_that_is_reached_over_http_is_left_and_can_be_taken_out(
    key: str, host: str, desk: Desk
) -> None:
    address = f"http://{host}/mcp"
    server = {key: address, "headers": {"Authorization": "Bearer a-secret"}}
    file = desk.write(".cursor/mcp.json", json.dumps({"mcpServers": {"vaultmem": server}}))
    before = file.read_text()
    assert states(desk)["cursor"] == (ConnectionState.OVER_HTTP, "vaultmem")
    (change,) = desk.connect("cursor").changes
    assert (change.step, f"over HTTP, at {address}" in change.reason) == (Step.NOTHING, True)
    assert file.read_text() == before
    plan = desk.plan("cursor", wish=Wish.REMOVE, name=None)
    assert "a-secret" not in "".join(plan.changes[0].diff)
    assert steps(carry_out(plan)) == {"cursor": Step.REMOVE}
    assert json.loads(file.read_text()) == {"mcpServers": {}}
    file.write_text(before)
    assert steps(desk.connect("cursor", replace=True)) == {"cursor": Step.UPDATE}
    assert states(desk)["cursor"] == (ConnectionState.CONNECTED, "vaultmem")


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/mcp",
        "http://127.0.0.1/other",
        "http://127.0.0.1.example.org/mcp",
        "http://me@example.org/mcp",
        "http://[::1/mcp",
        "http://127.0.0.1:port/mcp",
    ],
)
def test_an_address_that_is_not_of_this_computer_is_not_vaultmem(url: str, desk: Desk) -> None:
    desk.write(".cursor/mcp.json", json.dumps({"mcpServers": {"vaultmem": {"url": url}}}))
    assert states(desk)["cursor"] == (ConnectionState.NAME_TAKEN, "vaultmem")


def test_without_a_name_all_servers_of_the_vault_are_taken_out_and_no_other(desk: Desk) -> None:
    file = desk.write(".cursor/mcp.json", "{}")
    other = desk.settings("other")
    desk.connect("cursor", settings=other)
    foreign = json.loads(file.read_text())["mcpServers"]["vaultmem"]
    entry = own_server(desk.settings(), desk.computer()).entry.written()
    servers = {"one": entry, "files": {"command": "npx"}, "two": entry, "vaultmem": foreign}
    file.write_text(json.dumps({"mcpServers": servers}, indent=2))
    plan = desk.plan("cursor", wish=Wish.REMOVE, name=None)
    assert plan.changes[0].names == ("one", "two")
    assert sum(line.startswith("@@") for line in plan.changes[0].diff) == 2
    assert steps(carry_out(plan)) == {"cursor": Step.REMOVE}
    assert list(json.loads(file.read_text())["mcpServers"]) == ["files", "vaultmem"]
    (left,) = desk.plan("cursor", wish=Wish.REMOVE, name=None).changes
    assert (left.step, "--replace" in left.reason) == (Step.REFUSED, True)


def test_each_server_of_a_vault_that_is_gone_is_told_of_whatever_it_is_called(desk: Desk) -> None:
    (desk.home / ".cursor").mkdir()
    desk.connect("cursor")
    desk.connect("cursor", settings=desk.settings("drive"), name="d")
    (desk.folder / "drive").rmdir()
    found = [
        (connection.state, connection.name)
        for connection in connections(desk.settings(), computer=desk.computer())
        if connection.client == "cursor"
    ]
    assert found == [(ConnectionState.CONNECTED, "vaultmem"), (ConnectionState.VAULT_GONE, "d")]


def test_a_vault_that_is_gone_can_be_disconnected(desk: Desk) -> None:
    file = desk.write(".cursor/mcp.json", CURSOR)
    desk.connect("cursor")
    (desk.folder / "notes").rmdir()
    environment = {"VAULTMEM_STATE_DIR": str(desk.folder / "state")}
    gone = find_settings_anyhow(desk.folder / "notes", None, desk.computer(environment))
    assert gone.state_folder.parent == desk.folder / "state"
    assert states(desk, gone)["cursor"] == (ConnectionState.VAULT_GONE, "vaultmem")
    assert steps(desk.connect("cursor", settings=gone, wish=Wish.REMOVE, name=None)) == {
        "cursor": Step.REMOVE
    }
    assert file.read_text() == CURSOR


def test_each_entry_is_known_as_it_is_written(desk: Desk) -> None:
    text = (
        '{"mcpServers": {"vaultmem": {"command": "uvx", "args": ["vaultmem", "mcp"], "env": {}}}}'
    )
    desk.write(".cursor/mcp.json", text.replace("{}", '{"KEY": "mine"}'))
    found = {
        connection.client: (connection.state, entry)
        for connection, entry in configured(desk.settings(), computer=desk.computer())
    }
    assert found["cursor"] == (
        ConnectionState.OTHER_VAULT,
        ServerEntry("uvx", ("vaultmem", "mcp"), {"KEY": "mine"}),
    )
    assert found["codex"] == (ConnectionState.NOT_INSTALLED, None)


def test_a_variable_that_is_set_no_more_is_taken_out_of_the_entry(desk: Desk) -> None:
    file = desk.write(".cursor/mcp.json", "{}")
    was = {
        "VAULTMEM_EMBEDDER_NAME": "none",
        "XDG_CACHE_HOME": "/caches",
        "OLLAMA_HOST": "host:1",
    }
    desk.connect("cursor", environment=was)
    loaded = json.loads(file.read_text())
    loaded["mcpServers"]["vaultmem"]["env"] |= {"MINE": "1", "VAULTMEM_CACHE_DIR": "/c"}
    file.write_text(json.dumps(loaded, indent=2))
    # One that is set now, but not written since it holds a password, says nothing about that.
    now = {"OLLAMA_HOST": "http://me:word@host:1"}
    plan = desk.plan("cursor", environment=now)
    assert steps(plan) == {"cursor": Step.UPDATE}
    assert any("/caches" in line for line in plan.changes[0].diff if line.startswith("-"))
    carry_out(plan)
    assert json.loads(file.read_text())["mcpServers"]["vaultmem"]["env"] == {
        "OLLAMA_HOST": "host:1",
        "MINE": "1",
        "VAULTMEM_CACHE_DIR": "/c",
    }
    assert steps(desk.plan("cursor", environment=now)) == {"cursor": Step.NOTHING}


def test_options_that_a_person_gave_the_server_stay(desk: Desk) -> None:
    file = desk.write(".cursor/mcp.json", "{}")
    desk.connect("cursor")
    loaded = json.loads(file.read_text())
    loaded["mcpServers"]["vaultmem"]["args"] += ["--tools", "all"]
    file.write_text(json.dumps(loaded))
    assert steps(desk.plan("cursor")) == {"cursor": Step.NOTHING}
    update = {"VAULTMEM_EMBEDDER_NAME": "none"}
    assert steps(desk.connect("cursor", environment=update)) == {"cursor": Step.UPDATE}
    entry = json.loads(file.read_text())["mcpServers"]["vaultmem"]
    assert entry["args"][-3:] == ["mcp", "--tools", "all"]
    assert entry["env"] == update


def test_a_server_of_that_name_that_is_not_vaultmem_stays(desk: Desk) -> None:
    text = '{"mcpServers": {"vaultmem": {"url": "https://example.org"}}}'
    file = desk.write(".cursor/mcp.json", text)
    for wish in Wish:
        assert steps(desk.connect("cursor", wish=wish)) == {"cursor": Step.REFUSED}
    assert file.read_text() == text


@pytest.mark.parametrize("name", ["", "a b", "-x", "é", "a.b", "x" * 65, "a\n"])
def test_a_name_that_a_client_may_not_take_is_refused(name: str, desk: Desk) -> None:
    with pytest.raises(UsageError, match="--name"):
        desk.plan("cursor", name=name)


# Refusals


def test_what_one_client_refuses_does_not_stop_the_others(desk: Desk) -> None:
    broken = desk.write(".cursor/mcp.json", '{"mcpServers": ')
    desk.write(".codex/config.toml", "mcp_servers = { }\n")
    desk.write(".gemini/settings.json", b"\xff\xfe{\x00}\x00")
    (desk.home / ".claude.json").mkdir()
    desk.write(".codeium/windsurf/mcp_config.json", "{}")
    reply = desk.connect("cursor", "codex", "gemini", "claude-code", "windsurf")
    assert steps(reply) == {
        "claude-code": Step.REFUSED,
        "cursor": Step.REFUSED,
        "codex": Step.REFUSED,
        "gemini": Step.REFUSED,
        "windsurf": Step.ADD,
    }
    assert not reply.done
    reasons = {change.client: change.reason for change in reply.changes}
    assert "not a file" in reasons["claude-code"]
    assert "line 1" in reasons["cursor"]
    assert "inline table" in reasons["codex"]
    assert "UTF-8" in reasons["gemini"]
    assert broken.read_text() == '{"mcpServers": '
    assert states(desk)["cursor"] == (ConnectionState.UNREADABLE, "")


def test_a_file_that_takes_another_change_than_was_shown_is_left_as_it_is(desk: Desk) -> None:
    file = desk.write(".cursor/mcp.json", CURSOR)
    plan = desk.plan("cursor")
    other = '{"mcpServers": {"vaultmem": {"command": "x"}}}'
    file.write_text(other)
    reply = carry_out(plan, now=lambda: NOON)
    assert steps(reply) == {"cursor": Step.REFUSED}
    assert "changed since" in reply.changes[0].reason
    assert file.read_text() == other
    assert not (desk.folder / "state").exists()


@pytest.mark.parametrize("wish", Wish)
def test_a_file_that_takes_the_change_that_was_shown_all_the_same_is_changed(
    wish: Wish, desk: Desk
) -> None:
    file = desk.write(".cursor/mcp.json", CURSOR)
    if wish is Wish.REMOVE:
        desk.connect("cursor")
    plan = desk.plan("cursor", wish=wish)
    later = "\n\n" + file.read_text().replace("npx", "bunx")
    file.write_text(later)
    (change,) = carry_out(plan, now=lambda: NOON).changes
    assert change.step in (Step.ADD, Step.REMOVE)
    assert Path(change.backup).read_text() == later
    assert "bunx" in file.read_text()
    assert ("vaultmem" in file.read_text()) is (wish is Wish.CONNECT)
    assert steps(carry_out(plan)) == {"cursor": Step.NOTHING}


def test_a_client_that_writes_as_its_file_is_changed_is_waited_for_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = desk.write(".cursor/mcp.json", CURSOR)
    plan = desk.plan("cursor")
    flush = os.fsync
    writes = iter(["one", "two", "three"])
    limit = 1

    def edit_in_between(descriptor: int) -> None:
        flush(descriptor)
        made = os.readlink(f"/proc/self/fd/{descriptor}") if sys.platform == "linux" else ""
        if ".vaultmem-" in made and limit > len(done):
            done.append(next(writes))
            file.write_text(CURSOR.replace("npx", done[-1]))

    done: list[str] = []
    if sys.platform != "linux":
        pytest.skip("which file is flushed is asked of Linux")
    monkeypatch.setattr(os, "fsync", edit_in_between)
    assert steps(carry_out(plan)) == {"cursor": Step.ADD}
    assert '"one"' in file.read_text()
    assert '"vaultmem"' in file.read_text()
    file.write_text(CURSOR)
    limit = 3
    assert steps(carry_out(plan)) == {"cursor": Step.REFUSED}
    monkeypatch.undo()
    assert file.read_text() == CURSOR.replace("npx", "three")
    assert [entry.name for entry in file.parent.iterdir()] == ["mcp.json"]


@pytest.mark.parametrize("content", [b"new", None])
def test_a_file_that_changes_behind_the_last_reading_is_not_overwritten(
    content: bytes | None, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another program writes what has the same length while the last reading is compared.
    file = desk.write(".cursor/mcp.json", CURSOR)
    read = read_config_file(file)
    digest = read.digest
    theirs = CURSOR.replace("npx", "bun")

    def edit_meanwhile(data: bytes) -> object:
        if file.read_text() != theirs:
            os.replace(desk.write("new.json", theirs), file)
        return sha256(data)

    monkeypatch.setattr("vaultmem.service.client_config_file.sha256", edit_meanwhile)
    with pytest.raises(FileChanged):
        write_config_file(read, content)
    monkeypatch.undo()
    assert digest
    assert file.read_text() == theirs


def test_a_file_that_came_after_it_was_shown_is_not_overwritten(desk: Desk) -> None:
    (desk.home / ".cursor").mkdir()
    plan = desk.plan("cursor")
    file = desk.write(".cursor/mcp.json", CURSOR)
    assert steps(carry_out(plan)) == {"cursor": Step.REFUSED}
    assert file.read_text() == CURSOR


def test_a_file_that_changes_at_the_last_moment_is_not_overwritten(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another program writes while the new file is on its way to the disk.
    file = desk.write(".cursor/mcp.json", CURSOR)
    flush = os.fsync

    def edit_in_between(descriptor: int) -> None:
        flush(descriptor)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            file.write_text("{}")

    read = read_config_file(file)
    monkeypatch.setattr(os, "fsync", edit_in_between)
    with pytest.raises(Exception, match="changed in the meantime"):
        write_config_file(read, b"new")
    monkeypatch.undo()
    assert file.read_text() == "{}"
    assert [entry.name for entry in file.parent.iterdir()] == ["mcp.json"]


def test_a_file_made_at_the_last_moment_is_not_overwritten(desk: Desk) -> None:
    file = desk.home / ".cursor" / "mcp.json"
    read = read_config_file(file)
    file.parent.mkdir()
    new = file.with_name("new")
    new.write_text("ours")
    file.write_text("theirs")
    with pytest.raises(Exception, match="changed in the meantime"):
        client_config_file._create(new, file, b"ours")
    with pytest.raises(Exception, match="changed in the meantime"):
        write_config_file(read, b"ours")
    assert file.read_text() == "theirs"


def test_a_file_without_hard_links_is_made_all_the_same(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(path: Path, target: Path) -> None:
        raise PermissionError(1, "no hard links here")

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    file = desk.home / "file.json"
    write_config_file(read_config_file(file), b"ours")
    assert file.read_bytes() == b"ours"
    assert [entry.name for entry in desk.home.iterdir()] == ["file.json"]


def test_a_file_over_the_limit_is_refused(desk: Desk) -> None:
    file = desk.write(".cursor/mcp.json", CURSOR)
    os.truncate(file, MAX_BYTES + 1)
    (change,) = desk.plan("cursor").changes
    assert (change.step, "52,428,801 bytes" in change.reason) == (Step.REFUSED, True)


@posix
def test_a_link_is_followed_to_the_file_and_stays_a_link(desk: Desk) -> None:
    dotfiles = desk.folder / "dotfiles" / "cursor.json"
    dotfiles.parent.mkdir()
    dotfiles.write_text(CURSOR)
    link = desk.home / ".cursor" / "mcp.json"
    link.parent.mkdir()
    link.symlink_to("../../dotfiles/cursor.json")
    plan = desk.plan("cursor")
    assert (plan.changes[0].path, plan.changes[0].target) == (link, dotfiles)
    carry_out(plan)
    assert link.is_symlink()
    assert "vaultmem" in dotfiles.read_text()
    desk.connect("cursor", wish=Wish.REMOVE)
    assert link.is_symlink()
    assert dotfiles.read_text() == CURSOR
    dotfiles.unlink()
    (change,) = desk.plan("cursor").changes
    assert (change.step, "not there" in change.reason) == (Step.REFUSED, True)


@posix
def test_a_file_behind_a_link_is_emptied_and_not_deleted(desk: Desk) -> None:
    (desk.home / ".cursor").mkdir()
    desk.connect("cursor")
    link = desk.home / ".cursor" / "mcp.json"
    moved = desk.folder / "moved.json"
    link.rename(moved)
    link.symlink_to(moved)
    desk.connect("cursor", wish=Wish.REMOVE)
    assert link.is_symlink()
    assert moved.read_text() == "{}\n"


@posix
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664])
def test_a_file_keeps_its_mode(mode: int, desk: Desk) -> None:
    file = desk.write(".cursor/mcp.json", CURSOR)
    file.chmod(mode)
    desk.connect("cursor")
    assert stat.S_IMODE(file.stat().st_mode) == mode


@posix
def test_a_read_only_file_and_one_of_two_names_are_left_as_they_are(desk: Desk) -> None:
    file = desk.write(".cursor/mcp.json", CURSOR)
    file.chmod(0o444)
    (change,) = desk.connect("cursor").changes
    assert (change.step, "read-only" in change.reason) == (Step.REFUSED, True)
    file.chmod(0o644)
    (desk.home / "second").hardlink_to(file)
    (change,) = desk.connect("cursor").changes
    assert (change.step, "hard link" in change.reason) == (Step.REFUSED, True)
    assert file.read_text() == CURSOR


@posix
def test_what_a_client_would_replace_in_a_name_is_refused_for_that_client(desk: Desk) -> None:
    for path in (".cursor", ".codex", ".gemini"):
        (desk.home / path).mkdir()
    settings = desk.settings("notes ${HOME}")
    assert steps(desk.plan("cursor", "codex", settings=settings)) == {
        "cursor": Step.REFUSED,
        "codex": Step.ADD,
    }
    settings = desk.settings("notes $HOME")
    assert steps(desk.plan("cursor", "gemini", settings=settings)) == {
        "cursor": Step.ADD,
        "gemini": Step.REFUSED,
    }


@posix
@pytest.mark.parametrize(
    "name", ["two  words", 'say "hi"', "back\\slash", "Größe 日本語", "$x {y} %z%", "it's\tso"]
)
def test_a_vault_of_any_name_is_written_as_it_is(name: str, desk: Desk) -> None:
    (desk.home / ".claude").mkdir()
    for client in CLIENTS[1:]:
        client.places(desk.computer()).files[0].parent.mkdir(parents=True, exist_ok=True)
    settings = desk.settings(name)
    for change in desk.connect(settings=settings).changes:
        if change.step is Step.REFUSED:
            assert (change.client, "$x" in name) == ("gemini", True)
            continue
        text = change.path.read_text()
        shape = client_named(change.client).shape
        loaded = tomllib.loads(text) if change.client == "codex" else json.loads(text)
        served = loaded[shape.container]["vaultmem"]["args"][1]
        assert served == str(desk.folder / name)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_vault_whose_name_is_no_text_is_refused(desk: Desk) -> None:
    (desk.home / ".cursor").mkdir()
    vault = os.fsencode(desk.folder) + b"/caf\xe9"
    os.mkdir(vault)
    settings = load_settings(
        os.fsdecode(vault), environment={"VAULTMEM_STATE_DIR": str(desk.folder / "state")}
    )
    (change,) = desk.plan("cursor", settings=settings).changes
    assert (change.step, "UTF-8" in change.reason) == (Step.REFUSED, True)
    (snippet,) = snippets(settings, [client_named("cursor")], computer=desk.computer()).snippets
    assert "UTF-8" in snippet.problem


def test_a_file_inside_the_vault_is_left_as_it_is(desk: Desk) -> None:
    file = desk.write(".cursor/mcp.json", CURSOR)
    settings = load_settings(
        desk.home, environment={"VAULTMEM_STATE_DIR": str(desk.folder / "state")}
    )
    (change,) = desk.connect("cursor", settings=settings).changes
    assert (change.step, "inside the vault" in change.reason) == (Step.REFUSED, True)
    assert file.read_text() == CURSOR


def test_copies_that_would_lie_in_the_vault_are_not_made(desk: Desk) -> None:
    file = desk.write(".cursor/mcp.json", CURSOR)
    vault = desk.folder / "notes"
    link = desk.folder / "link"
    vault.mkdir()
    if sys.platform != "win32":
        link.symlink_to(vault)
    for place in (vault / "state", link / "state") if link.exists() else (vault / "state",):
        settings = desk.settings(environment={"VAULTMEM_STATE_DIR": str(place)})
        (change,) = desk.connect("cursor", settings=settings).changes
        assert (change.step, "VAULTMEM_STATE_DIR" in change.reason) == (Step.REFUSED, True)
    assert file.read_text() == CURSOR
    assert list(vault.iterdir()) == []


def test_few_copies_of_each_file_are_kept(desk: Desk) -> None:
    computer = desk.computer()
    for folder in ("Code", "Code - Insiders"):
        desk.write(f".config/{folder}/User/mcp.json", "{}")
    clients = [client_named("vscode")]
    for minute in range(4):
        for wish in Wish:
            plan = plan_connection(desk.settings(), clients, wish=wish, computer=computer)
            reply = carry_out(plan, now=lambda m=minute: NOON.replace(minute=m))  # type: ignore[misc]
            assert all(Path(change.backup).exists() for change in reply.changes)
    kept = sorted(path.name for path in (desk.settings().state_folder / "backups").iterdir())
    times: dict[str, list[str]] = {}
    for name in kept:
        _, file, rest = name.split("-", 2)
        times.setdefault(file, []).append(rest)
    copied = [f"20260504T120{n // 2}15Z-{n + 1}" for n in range(8)]
    expected = copied[-5:]
    assert len(times) == 2
    for found in times.values():
        assert sorted(found) == sorted(f"{stamp}-mcp.json" for stamp in expected)


def test_a_folder_that_was_made_goes_with_its_file(desk: Desk) -> None:
    programs = desk.folder / "programs"
    programs.mkdir()
    program = programs / ("codex.exe" if sys.platform == "win32" else "codex")
    program.write_text("")
    program.chmod(0o755)
    environment = {"PATH": str(programs)}
    folder = desk.home / ".codex"
    desk.connect("codex", environment=environment)
    assert (folder / "config.toml").exists()
    desk.connect("codex", environment=environment, wish=Wish.REMOVE)
    assert not folder.exists()
    desk.connect("codex", environment=environment)
    (folder / "auth.json").write_text("{}")
    desk.connect("codex", environment=environment, wish=Wish.REMOVE)
    assert [path.name for path in folder.iterdir()] == ["auth.json"]
    (folder / "auth.json").unlink()
    desk.connect("codex", environment={})
    desk.connect("codex", environment={}, wish=Wish.REMOVE)
    assert not folder.exists()
    folder.mkdir()  # this time by somebody else
    desk.connect("codex", environment={})
    desk.connect("codex", environment={}, wish=Wish.REMOVE)
    assert folder.exists()


@posix
def test_what_a_process_that_is_gone_left_beside_the_file_is_removed(desk: Desk) -> None:
    file = desk.write(".cursor/mcp.json", CURSOR)
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    left = [
        file.with_name(f".mcp.json.vaultmem-{pid}") for pid in (ended.pid, os.getppid(), 10**20)
    ]
    others = [file.with_name(".mcp.json.vaultmem-x"), file.with_name(f".a.vaultmem-{ended.pid}")]
    for path in (*left, *others):
        path.write_text("half")
    desk.connect("cursor")
    assert [path.exists() for path in left] == [False, True, True]
    assert all(path.exists() for path in others)


def test_a_copy_that_cannot_be_made_leaves_the_file_as_it_is(desk: Desk) -> None:
    file = desk.write(".cursor/mcp.json", CURSOR)
    (desk.folder / "state").write_text("in the way")
    (change,) = desk.connect("cursor").changes
    assert (change.step, "VAULTMEM_STATE_DIR" in change.reason) == (Step.REFUSED, True)
    assert file.read_text() == CURSOR


# How it stands


def test_a_program_that_is_gone_is_told_of(desk: Desk) -> None:
    (desk.home / ".cursor").mkdir()
    desk.connect("cursor")
    computer = desk.computer()
    Path(computer.python).with_name("vaultmem").unlink()
    (cursor,) = [
        connection
        for connection in connections(desk.settings(), computer=computer)
        if connection.client == "cursor"
    ]
    assert cursor.state is ConnectionState.COMMAND_MISSING
    assert "vaultmem connect cursor" in cursor.detail


def test_an_entry_that_connecting_would_change_is_told_of(desk: Desk) -> None:
    (desk.home / ".cursor").mkdir()
    desk.connect("cursor", environment={"VAULTMEM_EMBEDDER_NAME": "minilm"})
    changed = desk.computer({"VAULTMEM_EMBEDDER_NAME": "none"})
    details = {c.client: c.detail for c in connections(desk.settings(), computer=changed)}
    assert "bring it up to date" in details["cursor"]
    details = {c.client: c.detail for c in connections(desk.settings(), computer=desk.computer())}
    assert details["cursor"] == ""


def test_what_is_written_by_hand_works(desk: Desk) -> None:
    settings = desk.settings("my notes")
    for snippet in snippets(settings, CLIENTS, computer=desk.computer()).snippets:
        assert snippet.problem == ""
        for path in snippet.paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(snippet.text)
    for client, (state, name) in states(desk, settings).items():
        assert (client, state, name) == (client, ConnectionState.CONNECTED, "vaultmem")


def test_the_command_of_a_client_does_the_same(desk: Desk) -> None:
    import shlex

    settings = desk.settings("it's mine")
    environment = {"VAULTMEM_EMBEDDER_NAME": "none"}
    by_client = {
        snippet.client: snippet.command
        for snippet in snippets(
            settings, CLIENTS, name="mine", computer=desk.computer(environment)
        ).snippets
    }
    claude = shlex.split(by_client["claude-code"])
    assert claude[:6] == ["claude", "mcp", "add-json", "--scope", "user", "mine"]
    entry = own_server(settings, desk.computer(environment)).entry
    assert json.loads(claude[6]) == replace(entry, type="stdio").written()
    assert shlex.split(by_client["codex"]) == [
        *("codex", "mcp", "add", "mine", "--env", "VAULTMEM_EMBEDDER_NAME=none", "--"),
        *(entry.command, *entry.args),
    ]
    windows = replace(desk.computer(environment), platform="win32")
    (claude_there,) = snippets(settings, [client_named("claude-code")], computer=windows).snippets
    # Another option stands between the variables and the name, which would be taken for one.
    assert "--env VAULTMEM_EMBEDDER_NAME=none --scope user vaultmem -- " in claude_there.command


@pytest.mark.parametrize(
    ("command", "args", "certain"),
    [
        ("/opt/bin/vaultmem", ["--vault", "/n", "mcp"], True),
        ("/usr/bin/python3", ["-P", "-m", "vaultmem", "mcp"], True),
        ("/usr/bin/python3", ["-I", "-u", "-m", "vaultmem", "--vault", "/n", "mcp"], True),
        ("vaultmem", ["mcp"], False),
        ("./vaultmem", ["mcp"], False),
        ("/opt/bin/vaultmem", ["index"], False),
        ("/usr/bin/python3", ["-m", "vaultmem", "mcp"], False),
        ("/usr/bin/python3", ["-P", "-c", "evil", "-m", "vaultmem", "mcp"], False),
        ("/usr/bin/python3", ["-P", "evil.py", "-m", "vaultmem", "mcp"], False),
        ("/usr/bin/uvx", ["--with", "vaultmem", "evil", "mcp"], False),
        ("/usr/bin/docker", ["run", "vaultmem", "mcp"], False),
    ],
)
def test_only_what_is_certain_to_be_vaultmem_is_started_to_check_it(
    command: str, args: list[str], certain: bool
) -> None:
    assert starts_directly(ServerEntry(command, tuple(args))) is certain


def test_the_last_vault_that_an_entry_names_is_the_one_it_serves() -> None:
    entry = ServerEntry("vaultmem", ("--vault", "/a", "mcp", "--vault", "/b"))
    assert served_vault(entry) == "/b"


def test_a_program_whose_folder_cannot_be_looked_at_is_no_fault(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, tmp_path / "cache", environment={})
    python = f"/{'a' * 300}/python3"
    computer = Computer(tmp_path, {}, "linux", python, "vaultmem")
    entry = own_server(settings, computer).entry
    assert entry.command == python
    assert entry.args[:3] == ("-P", "-m", "vaultmem")
