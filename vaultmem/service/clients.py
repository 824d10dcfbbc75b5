"""The assistants that can be connected: where each keeps its servers, and whether it is installed.

Checked in November 2026 against each program's own documentation, source or issue threads:

- Claude Code reads user-wide servers from `.claude.json` in the home folder, or in the folder that
  CLAUDE_CONFIG_DIR names; a `.config.json` in its configuration folder comes first where there is
  one. Strict JSON. `${VAR}` and `${VAR:-default}` are replaced in entries.
- Claude Desktop: the folder that Electron gives it. On Windows it has been a package since February
  2026, which reads from its own copy below %LOCALAPPDATA%\\Packages; what lies in %APPDATA% is then
  ignored, though its "Edit Config" opens that. Nothing is replaced in entries.
- Cursor: `~/.cursor/mcp.json` on every system; `${env:NAME}`, `${userHome}` and the like.
- VS Code: `mcp.json` in the `User` folder of the default profile, with the key `servers`;
  `${input:…}`, `${env:…}` and more. Other profiles and portable installations are not looked for.
- Codex: `config.toml` in `~/.codex` or CODEX_HOME; CLI, editor extension and app share it. Nothing
  is replaced; of the environment only a few variables reach a server, hence `env`.
- Gemini CLI: `.gemini/settings.json` in the home folder or GEMINI_CLI_HOME; every text of it has
  `$NAME` and `${NAME}` replaced where such a variable is set.
- Cline: from version 4 on, editor and command line share one file, which CLINE_MCP_SETTINGS_PATH,
  CLINE_DATA_DIR or CLINE_DIR may move; version 3 keeps its own below VS Code's globalStorage, from
  where 4 fetches what it lacks. `${env:NAME}`.
- Windsurf became Devin Desktop in June 2026. Its Cascade agent still reads Windsurf's file; the
  agent that is new reads `mcp_config.json` in Devin's folder. `${env:NAME}` and `${file:…}`.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from vaultmem.model.errors import UsageError
from vaultmem.service.client_config_text import ConfigForm, ConfigShape
from vaultmem.service.server_entry import ServerEntry


@dataclass(frozen=True, slots=True)
class Computer:
    """What the places depend on, and how this process was started."""

    home: Path
    environment: Mapping[str, str]
    platform: str  # as sys.platform
    python: str  # the interpreter
    program: str  # what was called, as sys.argv[0]

    def variable_path(self, name: str, *default: str) -> Path:
        """The folder or file that a variable names, else one below the home folder."""
        given = self.environment.get(name)
        if given:
            return Path(os.path.abspath(os.path.expanduser(given)))
        return self.home.joinpath(*default)

    @property
    def application_data(self) -> Path:
        """Where desktop programs keep what is their own."""
        if self.platform == "win32":
            return self.variable_path("APPDATA", "AppData", "Roaming")
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        return self.configuration

    @property
    def configuration(self) -> Path:
        """Where Linux programs keep it, and some on macOS too."""
        if self.platform == "win32":
            return self.variable_path("APPDATA", "AppData", "Roaming")
        given = self.environment.get("XDG_CONFIG_HOME", "")
        return Path(given) if os.path.isabs(given) else self.home / ".config"


def this_computer() -> Computer:
    """The one that this process runs on."""
    return Computer(Path.home(), os.environ, sys.platform, sys.executable, sys.argv[0])


@dataclass(frozen=True, slots=True)
class Places:
    """Where a client keeps its servers on one computer."""

    files: tuple[Path, ...]  # that it reads, there or not; mostly one
    signs: tuple[Path, ...]  # one of these is there where the client is installed
    commands: tuple[str, ...]  # or one of these is on the PATH


@dataclass(frozen=True, slots=True)
class Client:
    """A program that starts MCP servers."""

    name: str  # what a person types
    title: str  # what it is called
    shape: ConfigShape
    typed: bool  # whether an entry says that it is of type stdio
    replaced: str  # a pattern of what it puts something else in place of; "" nothing
    places: Callable[[Computer], Places]


def client_named(name: str) -> Client:
    """The client. Raises UsageError, which names all of them."""
    for client in CLIENTS:
        if client.name == name:
            return client
    *others, last = (client.name for client in CLIENTS)
    raise UsageError(
        f"{name} is no client that is known. Known are {', '.join(others)} and {last}."
    )


def is_installed(client: Client, computer: Computer) -> bool:
    """Whether there is a trace of the client."""
    places = client.places(computer)
    path = computer.environment.get("PATH", "")
    return any(os.path.lexists(place) for place in (*places.files, *places.signs)) or any(
        shutil.which(command, path=path) for command in places.commands
    )


def replaced_text(client: Client, entry: ServerEntry) -> str:
    """What the client would put something else in place of; "" when it takes all as it is.

    No client documents a way to write it so that it is left alone.
    """
    if not client.replaced:
        return ""
    for text in (entry.command, *entry.args, *entry.env.values()):
        if found := re.search(client.replaced, text):
            return found[0]
    return ""


def _claude_code(computer: Computer) -> Places:
    folder = computer.variable_path("CLAUDE_CONFIG_DIR", ".claude")
    file = folder / ".config.json"
    if not os.path.lexists(file):
        file = computer.variable_path("CLAUDE_CONFIG_DIR") / ".claude.json"
    return Places((file,), (folder,), ("claude",))


def _claude_desktop(computer: Computer) -> Places:
    name = "claude_desktop_config.json"
    folder = computer.application_data / "Claude"
    if computer.platform != "win32":
        return Places((folder / name,), (folder,), ())
    local = computer.variable_path("LOCALAPPDATA", "AppData", "Local")
    packages = tuple(
        package / "LocalCache" / "Roaming" / "Claude"
        for package in sorted(local.glob("Packages/Claude_*"))
        if os.path.isdir(package / "LocalCache" / "Roaming")
    )
    folders = (*packages, folder) if os.path.isdir(folder) or not packages else packages
    signs = (*packages, folder, local / "AnthropicClaude")
    return Places(tuple(place / name for place in folders), signs, ())


def _cursor(computer: Computer) -> Places:
    folder = computer.home / ".cursor"
    return Places((folder / "mcp.json",), (folder,), ("cursor", "cursor-agent"))


def _vscode(computer: Computer) -> Places:
    folders = [computer.application_data / name for name in ("Code", "Code - Insiders")]
    there = [folder for folder in folders if os.path.isdir(folder)] or folders[:1]
    files = tuple(folder / "User" / "mcp.json" for folder in there)
    return Places(files, tuple(folders), ("code", "code-insiders"))


def _codex(computer: Computer) -> Places:
    folder = computer.variable_path("CODEX_HOME", ".codex")
    return Places((folder / "config.toml",), (folder,), ("codex",))


def _gemini(computer: Computer) -> Places:
    folder = computer.variable_path("GEMINI_CLI_HOME") / ".gemini"
    return Places((folder / "settings.json",), (folder,), ("gemini",))


def _cline(computer: Computer) -> Places:
    name = "cline_mcp_settings.json"
    folder = computer.variable_path("CLINE_DIR", ".cline")
    data = folder / "data"
    if computer.environment.get("CLINE_DATA_DIR"):
        data = computer.variable_path("CLINE_DATA_DIR")
    shared = data / "settings" / name
    if computer.environment.get("CLINE_MCP_SETTINGS_PATH"):
        shared = computer.variable_path("CLINE_MCP_SETTINGS_PATH")
    storage = computer.application_data / "Code" / "User" / "globalStorage"
    extension = storage / "saoudrizwan.claude-dev"
    own = extension / "settings" / name
    files = (shared, own) if os.path.isdir(own.parent) else (shared,)
    return Places(files, (folder, extension), ("cline",))


def _windsurf(computer: Computer) -> Places:
    name = "mcp_config.json"
    windsurf = computer.home / ".codeium" / "windsurf"
    devin = computer.configuration / "devin"
    folders = [folder for folder in (windsurf, devin) if os.path.isdir(folder)] or [windsurf]
    return Places(
        tuple(folder / name for folder in folders), (windsurf, devin), ("windsurf", "devin")
    )


_MCP_SERVERS = ConfigShape(ConfigForm.JSON, "mcpServers")
_BRACED = r"\$\{[^}]*\}"

CLIENTS: tuple[Client, ...] = (
    Client("claude-code", "Claude Code", _MCP_SERVERS, True, _BRACED, _claude_code),
    Client("claude-desktop", "Claude Desktop", _MCP_SERVERS, False, "", _claude_desktop),
    Client("cursor", "Cursor", _MCP_SERVERS, False, _BRACED, _cursor),
    Client("vscode", "VS Code", ConfigShape(ConfigForm.JSON, "servers"), True, _BRACED, _vscode),
    Client("codex", "Codex", ConfigShape(ConfigForm.TOML, "mcp_servers"), False, "", _codex),
    Client("gemini", "Gemini CLI", _MCP_SERVERS, False, rf"{_BRACED}|\$[A-Za-z_]\w*", _gemini),
    Client("cline", "Cline", _MCP_SERVERS, False, _BRACED, _cline),
    Client("windsurf", "Windsurf (Devin Desktop)", _MCP_SERVERS, False, _BRACED, _windsurf),
)
