"""Where each client keeps its servers, on each system, and how it is told that it is there."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from vaultmem.model.errors import UsageError
from vaultmem.service.clients import (
    CLIENTS,
    Computer,
    client_named,
    is_installed,
    replaced_text,
    this_computer,
)
from vaultmem.service.server_entry import ServerEntry

CLINE = "User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
MAC = "Library/Application Support"

# (client, platform) -> the file, below the home folder.
FILES = {
    ("claude-code", "linux"): ".claude.json",
    ("claude-code", "darwin"): ".claude.json",
    ("claude-code", "win32"): ".claude.json",
    ("claude-desktop", "linux"): ".config/Claude/claude_desktop_config.json",
    ("claude-desktop", "darwin"): f"{MAC}/Claude/claude_desktop_config.json",
    ("claude-desktop", "win32"): "AppData/Roaming/Claude/claude_desktop_config.json",
    ("cursor", "linux"): ".cursor/mcp.json",
    ("cursor", "darwin"): ".cursor/mcp.json",
    ("cursor", "win32"): ".cursor/mcp.json",
    ("vscode", "linux"): ".config/Code/User/mcp.json",
    ("vscode", "darwin"): f"{MAC}/Code/User/mcp.json",
    ("vscode", "win32"): "AppData/Roaming/Code/User/mcp.json",
    ("codex", "linux"): ".codex/config.toml",
    ("codex", "darwin"): ".codex/config.toml",
    ("codex", "win32"): ".codex/config.toml",
    ("gemini", "linux"): ".gemini/settings.json",
    ("gemini", "darwin"): ".gemini/settings.json",
    ("gemini", "win32"): ".gemini/settings.json",
    ("cline", "linux"): ".cline/data/settings/cline_mcp_settings.json",
    ("cline", "darwin"): ".cline/data/settings/cline_mcp_settings.json",
    ("cline", "win32"): ".cline/data/settings/cline_mcp_settings.json",
    ("windsurf", "linux"): ".codeium/windsurf/mcp_config.json",
    ("windsurf", "darwin"): ".codeium/windsurf/mcp_config.json",
    ("windsurf", "win32"): ".codeium/windsurf/mcp_config.json",
}


def computer(
    home: Path, platform: str = "linux", environment: Mapping[str, str] | None = None
) -> Computer:
    return Computer(home, environment or {}, platform, sys.executable, "vaultmem")


def files(name: str, at: Computer) -> list[str]:
    """The client's files; those below the home folder by their path in it."""
    return [
        os.path.relpath(file, at.home).replace(os.sep, "/")
        if file.is_relative_to(at.home)
        else str(file)
        for file in client_named(name).places(at).files
    ]


def make(file: Path) -> Path:
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    return file


@pytest.mark.parametrize(("client", "platform"), FILES)
def test_each_client_has_its_file_on_each_system(
    client: str, platform: str, tmp_path: Path
) -> None:
    assert files(client, computer(tmp_path, platform)) == [FILES[client, platform]]


def test_every_client_is_in_the_table_of_this_test() -> None:
    assert {name for name, _ in FILES} == {client.name for client in CLIENTS}


@pytest.mark.parametrize(
    ("client", "variable", "file"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("codex", "CODEX_HOME", "config.toml"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("cline", "CLINE_DIR", "data/settings/cline_mcp_settings.json"),
        ("cline", "CLINE_DATA_DIR", "settings/cline_mcp_settings.json"),
        ("cline", "CLINE_MCP_SETTINGS_PATH", ""),
        ("claude-desktop", "XDG_CONFIG_HOME", "Claude/claude_desktop_config.json"),
        ("vscode", "XDG_CONFIG_HOME", "Code/User/mcp.json"),
    ],
)
def test_a_variable_moves_the_file(client: str, variable: str, file: str, tmp_path: Path) -> None:
    moved = tmp_path / "moved to"
    at = computer(tmp_path / "home", environment={variable: str(moved)})
    assert files(client, at) == [str(moved / file)]


def test_application_data_of_windows_may_lie_elsewhere(tmp_path: Path) -> None:
    at = computer(tmp_path / "home", "win32", {"APPDATA": str(tmp_path / "roaming")})
    assert files("vscode", at) == [str(tmp_path / "roaming" / "Code" / "User" / "mcp.json")]


def test_claude_code_reads_the_file_in_its_folder_first_where_there_is_one(tmp_path: Path) -> None:
    make(tmp_path / ".claude" / ".config.json")
    assert files("claude-code", computer(tmp_path)) == [".claude/.config.json"]


def test_claude_desktop_as_a_package_reads_a_copy_of_its_own(tmp_path: Path) -> None:
    at = computer(tmp_path, "win32")
    packaged = "AppData/Local/Packages/Claude_abc/LocalCache/Roaming"
    (tmp_path / packaged).mkdir(parents=True)
    own = f"{packaged}/Claude/claude_desktop_config.json"
    assert files("claude-desktop", at) == [own]
    (tmp_path / "AppData/Roaming/Claude").mkdir(parents=True)
    assert files("claude-desktop", at) == [
        own,
        "AppData/Roaming/Claude/claude_desktop_config.json",
    ]


def test_insiders_of_vs_code_are_told_as_well(tmp_path: Path) -> None:
    (tmp_path / ".config/Code - Insiders").mkdir(parents=True)
    assert files("vscode", computer(tmp_path)) == [".config/Code - Insiders/User/mcp.json"]
    (tmp_path / ".config/Code").mkdir()
    assert len(files("vscode", computer(tmp_path))) == 2


def test_cline_of_an_older_version_is_told_in_its_own_file_too(tmp_path: Path) -> None:
    (tmp_path / ".config/Code" / CLINE).parent.mkdir(parents=True)
    assert files("cline", computer(tmp_path)) == [
        FILES["cline", "linux"],
        f".config/Code/{CLINE}",
    ]


@pytest.mark.parametrize(
    ("platform", "folder"), [("linux", ".config/devin"), ("win32", "AppData/Roaming/devin")]
)
def test_what_windsurf_became_has_a_file_of_its_own(
    platform: str, folder: str, tmp_path: Path
) -> None:
    at = computer(tmp_path, platform)
    (tmp_path / folder).mkdir(parents=True)
    assert files("windsurf", at) == [f"{folder}/mcp_config.json"]
    (tmp_path / ".codeium/windsurf").mkdir(parents=True)
    assert len(files("windsurf", at)) == 2


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_is_there_by_its_file_its_folder_or_its_command(
    client: object, tmp_path: Path
) -> None:
    assert client in CLIENTS
    known = next(known for known in CLIENTS if known is client)
    for platform in ("linux", "darwin", "win32"):
        home = tmp_path / platform
        home.mkdir()
        assert not is_installed(known, computer(home, platform))
        places = known.places(computer(home, platform))
        for number, place in enumerate((*places.files, *places.signs)):
            other = tmp_path / f"{platform}{number}"
            (other / place.relative_to(home)).mkdir(parents=True)
            assert is_installed(known, computer(other, platform))
    programs = tmp_path / "programs"
    programs.mkdir()
    for command in known.places(computer(tmp_path)).commands:
        program = programs / (f"{command}.exe" if sys.platform == "win32" else command)
        program.write_text("")
        program.chmod(0o755)
        assert is_installed(known, computer(tmp_path / "no", environment={"PATH": str(programs)}))
        program.unlink()


def test_an_unknown_client_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(UsageError) as error:
        client_named("emacs")
    for client in CLIENTS:
        assert client.name in str(error.value)


@pytest.mark.parametrize(
    ("text", "clients"),
    [
        ("/notes/${HOME}", {"claude-code", "cursor", "vscode", "gemini", "cline", "windsurf"}),
        ("/notes/${env:X}", {"claude-code", "cursor", "vscode", "gemini", "cline", "windsurf"}),
        ("/notes/$HOME", {"gemini"}),
        ("/notes/US$100 {x} $ {y}", set()),
        ("/notes/%APPDATA%", set()),
    ],
)
def test_what_a_client_would_replace_is_known(text: str, clients: set[str]) -> None:
    for entry in (
        ServerEntry("v", ("--vault", text)),
        ServerEntry(text, ()),
        ServerEntry("v", (), {"A": text}),
    ):
        assert {c.name for c in CLIENTS if replaced_text(c, entry)} == clients


def test_this_computer_is_the_one_that_runs_this() -> None:
    here = this_computer()
    assert (here.python, here.platform) == (sys.executable, sys.platform)
