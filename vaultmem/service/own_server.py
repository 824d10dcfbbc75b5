"""How a client starts vaultmem's own server for one vault, and how such an entry is recognised."""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from vaultmem.model.errors import UsageError
from vaultmem.service.clients import Client, Computer, replaced_text
from vaultmem.service.server_entry import ServerEntry, unwritable
from vaultmem.service.settings import SETTINGS, Settings

DEFAULT_NAME = "vaultmem"

_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_PROGRAM = re.compile(r"vaultmem(?:\.exe|\.cmd)?")
_REQUIREMENT = re.compile(r"vaultmem(?:[\[=<>~!@ ].*)?")  # what uvx or pipx are told to run
# uv runs programs that are not installed from folders which it may clear at any time.
_PASSING = re.compile(r"[\\/](?:archive|builds|environments)-v\d+[\\/]")


@dataclass(frozen=True, slots=True)
class OwnServer:
    """The entry, and what a person should know about it."""

    entry: ServerEntry
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
    if _PASSING.search(command):
        notes.append(
            f"{command} is a folder that uv may clear. `uv tool install vaultmem` makes one that "
            "stays; connect again from there."
        )
    return OwnServer(ServerEntry(command, (*args, "mcp"), env), tuple(notes))


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
    """Whether the entry starts vaultmem's server, by whatever way."""
    if entry is None or "mcp" not in entry.args:
        return False
    program = re.split(r"[\\/]", entry.command)[-1]
    return _PROGRAM.fullmatch(program) is not None or any(
        _REQUIREMENT.fullmatch(part) for part in entry.args
    )


def served_vault(entry: ServerEntry) -> str:
    """The folder that the entry names as the vault, as it names it; "" for none."""
    for number, part in enumerate(entry.args):
        if part == "--vault" and number + 1 < len(entry.args):
            return entry.args[number + 1]
        if part.startswith("--vault="):
            return part.removeprefix("--vault=")
    return entry.env.get("VAULTMEM_VAULT", "")


def serves(entry: ServerEntry, vault: Path) -> bool:
    """Whether it is this vault's server."""
    served = served_vault(entry)
    return bool(served) and os.path.realpath(os.path.expanduser(served)) == str(vault)


def _program(computer: Computer) -> tuple[str, list[str]]:
    suffix = ".exe" if computer.platform == "win32" else ""
    if computer.python:
        folder = Path(os.path.abspath(computer.python)).parent
        for place in (folder, folder / "Scripts"):  # Windows keeps scripts apart from Python
            script = place / f"vaultmem{suffix}"
            if script.is_file():
                return str(script), []
    called = Path(os.path.abspath(computer.program))
    if _PROGRAM.fullmatch(called.name) and called.is_file():
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
    if computer.environment.get("VAULTMEM_STATE_DIR"):
        env["VAULTMEM_STATE_DIR"] = str(settings.state_folder.parent)
    if model := env.get("VAULTMEM_EMBEDDER_MODEL_PATH"):
        env["VAULTMEM_EMBEDDER_MODEL_PATH"] = os.path.abspath(os.path.expanduser(model))
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):  # where the index and the state lie
        if os.path.isabs(computer.environment.get(name, "")):
            env[name] = computer.environment[name]
    if computer.environment.get("OLLAMA_HOST"):
        env["OLLAMA_HOST"] = computer.environment["OLLAMA_HOST"]
    notes: list[str] = []
    for name in ("OLLAMA_HOST", "VAULTMEM_EMBEDDER_HOST"):
        if "@" in env.get(name, "").partition("//")[2] or "@" in env.get(name, "").split("/")[0]:
            del env[name]
            notes.append(
                f"{name} is not written down, since it holds a password. The server sees it only "
                "if it is set for your whole session."
            )
    return {name: env[name] for name in sorted(env)}, notes
