"""How a client starts vaultmem's own server for one vault, and how such an entry is recognised."""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from vaultmem.model.errors import UsageError
from vaultmem.service.clients import Client, Computer, replaced_text
from vaultmem.service.own_variables import FOLDERS, OLLAMA_HOST, OWN_VARIABLES, STATE_DIR
from vaultmem.service.server_entry import (
    PresentServer,
    ServerEntry,
    is_program,
    names_vaultmem,
    program_name,
    unwritable,
)
from vaultmem.service.settings import SETTINGS, Settings

DEFAULT_NAME = "vaultmem"

_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_PYTHON = re.compile(r"(?:python[0-9.]*w?|pythonw[0-9.]*|pyw?)(?:\.exe)?", re.IGNORECASE)
_RUNNER = re.compile(r"(?:uvx|uv|pipx)(?:\.exe)?", re.IGNORECASE)
# uv and pipx run programs that are not installed from folders which they may clear at any time.
_PASSING = {
    "uv": re.compile(r"[\\/](?:archive|builds|environments)-v\d+[\\/]"),
    "pipx": re.compile(r"[\\/]\.?pipx[\\/](?:.*[\\/])?(?:\.cache[\\/].*|[0-9a-f]{15}[\\/])"),
}
_INSTALLED_BY = {"uv": "uv tool install vaultmem", "pipx": "pipx install vaultmem"}


@dataclass(frozen=True, slots=True)
class OwnServer:
    """The entry, and what a person should know about it."""

    entry: ServerEntry
    unset: tuple[str, ...]  # variables that are set nowhere now, so that an older entry loses them
    notes: tuple[str, ...]


def checked_name(name: str) -> str:
    """The name, if every client takes it. Raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name of a server: letters, digits, hyphens and underscores, 64 at "
            "most. Choose another one for --name."
        )
    return name


def own_server(settings: Settings, computer: Computer) -> OwnServer:
    """What a client starts: a program by its absolute path, with the vault and `mcp`.

    A client sees neither the shell's variables nor its working folder, so those that vaultmem
    reads go with it. Raises UsageError where this process does not know its own program.
    """
    command, args = _program(computer)
    args += ["--vault", str(settings.vault)]
    if settings.sidecar_source != "default":
        args += ["--cache-dir", str(settings.sidecar_folder.parent)]
    env, notes = _variables(settings, computer)
    for tool, passing in _PASSING.items():
        if passing.search(command):
            notes.append(
                f"{command} lies in a folder that {tool} may clear. `{_INSTALLED_BY[tool]}` makes "
                "one that stays; connect again from there."
            )
    # One that is set, and not written for a reason, says nothing about what an entry should hold.
    unset = sorted(name for name in OWN_VARIABLES if not computer.environment.get(name))
    return OwnServer(ServerEntry(command, (*args, "mcp"), env), tuple(unset), tuple(notes))


def entry_for(client: Client, entry: ServerEntry) -> ServerEntry:
    """The entry as one client wants it."""
    return replace(entry, type="stdio") if client.typed else entry


def entry_problem(client: Client, entry: ServerEntry) -> str:
    """Why an entry would not reach the client as it is written; "" when it would."""
    if text := unwritable(entry):
        return f"{text!a} is a name that no file in UTF-8 can hold. Rename it first."
    if text := replaced_text(client, entry):
        whole = next(t for t in (entry.command, *entry.args, *entry.env.values()) if text in t)
        return (
            f"{client.title} would put something else in place of {text} in {whole}. Rename the "
            "folder first."
        )
    return ""


def is_own(entry: ServerEntry | None) -> bool:
    """Whether the entry starts vaultmem's server: by itself, by Python, uvx or pipx.

    What starts it in a container or another system is not among these: its paths mean something
    else, and no program of this computer can take its place.
    """
    if entry is None or "mcp" not in entry.args:
        return False
    program = program_name(entry.command)
    if _PYTHON.fullmatch(program):
        return ("-m", "vaultmem") in zip(entry.args, entry.args[1:], strict=False)
    if _RUNNER.fullmatch(program):
        return any(map(names_vaultmem, entry.args))
    return is_program(entry.command)


def own_address(server: PresentServer) -> str:
    """Where vaultmem's server is reached over HTTP; "" for one that is none, as far as that tells.

    Any server of this computer may answer there, so the name has to tell as well.
    """
    try:
        parts = urlsplit(server.url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return ""
    if parts.scheme != "http" or host not in ("127.0.0.1", "localhost", "::1"):
        return ""
    if parts.path.rstrip("/") != "/mcp":
        return ""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}{'' if port is None else f':{port}'}/mcp"


def served_vault(entry: ServerEntry) -> str:
    """The folder that the entry names as the vault, as it names it; "" for none."""
    served = entry.env.get("VAULTMEM_VAULT", "")
    for number, part in enumerate(entry.args):
        if part == "--vault" and number + 1 < len(entry.args):
            served = entry.args[number + 1]  # the last one counts
        if part.startswith("--vault="):
            served = part.removeprefix("--vault=")
    return served


def starts_directly(entry: ServerEntry) -> bool:
    """Whether it is certain that it starts vaultmem, and nothing else before.

    The program by its absolute path, or a Python by its own, which is told to run the module and
    nothing but how.
    """
    if not os.path.isabs(entry.command) or "mcp" not in entry.args:
        return False
    if is_program(entry.command):
        return True
    flags, module = 0, entry.args
    while flags < len(module) and re.fullmatch("-[IPEsSuBqO]+", module[flags]):
        flags += 1
    isolated = any("P" in flag or "I" in flag for flag in module[:flags])
    python = _PYTHON.fullmatch(program_name(entry.command)) is not None
    return python and isolated and tuple(module[flags : flags + 2]) == ("-m", "vaultmem")


def serves(entry: ServerEntry, vault: Path) -> bool:
    """Whether it is this vault's server."""
    served = served_vault(entry)
    try:
        return bool(served) and os.path.realpath(os.path.expanduser(served)) == str(vault)
    except ValueError:  # a name that no folder can have
        return False


def _program(computer: Computer) -> tuple[str, list[str]]:
    suffix = ".exe" if computer.platform == "win32" else ""
    if computer.python:
        folder = Path(os.path.abspath(computer.python)).parent
        for place in (folder, folder / "Scripts"):  # Windows keeps scripts apart from Python
            script = place / f"vaultmem{suffix}"
            if os.path.isfile(script):  # (False too where it may not be looked at)
                return str(script), []
    called = Path(os.path.abspath(computer.program))
    if is_program(called.name) and os.path.isfile(called):
        return str(called), []
    if not computer.python:
        raise UsageError(
            "The Python that runs vaultmem does not know its own path. Write the client's "
            "configuration by hand."
        )
    # -P: no file of the folder that a client works in is taken for a module.
    return os.path.abspath(computer.python), ["-P", "-m", "vaultmem"]


def _variables(settings: Settings, computer: Computer) -> tuple[dict[str, str], list[str]]:
    """What vaultmem reads of the environment, the vault and the cache aside; paths absolute."""
    names = {setting.variable for setting in SETTINGS}
    env = {name: text for name, text in computer.environment.items() if name in names}
    if computer.environment.get(STATE_DIR):
        env[STATE_DIR] = str(settings.state_folder.parent)
    if model := env.get("VAULTMEM_EMBEDDER_MODEL_PATH"):
        env["VAULTMEM_EMBEDDER_MODEL_PATH"] = os.path.abspath(os.path.expanduser(model))
    for name in FOLDERS:
        if os.path.isabs(computer.environment.get(name, "")):
            env[name] = computer.environment[name]
    if computer.environment.get(OLLAMA_HOST):
        env[OLLAMA_HOST] = computer.environment[OLLAMA_HOST]
    notes: list[str] = []
    for name in (OLLAMA_HOST, "VAULTMEM_EMBEDDER_HOST"):
        if "@" in env.get(name, "").partition("//")[2] or "@" in env.get(name, "").split("/")[0]:
            del env[name]
            notes.append(
                f"{name} is not written down, since it holds a password. The server sees it only "
                "if it is set for your whole session."
            )
    return {name: env[name] for name in sorted(env)}, notes
