"""What a person writes into a client's configuration by hand, or types in a terminal instead."""

import json
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vaultmem.service.client_config_text import with_server
from vaultmem.service.clients import Client, Computer, this_computer
from vaultmem.service.own_server import (
    DEFAULT_NAME,
    checked_name,
    entry_for,
    entry_problem,
    own_server,
)
from vaultmem.service.server_entry import Put, ServerEntry, unwritable
from vaultmem.service.settings import Settings


@dataclass(frozen=True, slots=True)
class Snippet:
    """What a person writes into one client's configuration by hand."""

    client: str
    title: str
    paths: tuple[Path, ...]  # the files, each of which gets it
    container: str  # the key of the table that it belongs to
    text: str  # all of a file that holds nothing else
    command: str  # what does the same in a terminal; "" for none
    problem: str  # why it would not work; "" when it would


@dataclass(frozen=True, slots=True)
class SnippetsReply:
    """What to write by hand, and where."""

    name: str
    vault: Path
    snippets: tuple[Snippet, ...]
    notes: tuple[str, ...]


def snippets(
    settings: Settings,
    clients: Sequence[Client],
    *,
    name: str = DEFAULT_NAME,
    computer: Computer | None = None,
) -> SnippetsReply:
    """What to write by hand. Raises UsageError for a name that is none."""
    computer = computer or this_computer()
    checked_name(name)
    own = own_server(settings, computer)
    return SnippetsReply(
        name=name,
        vault=settings.vault,
        snippets=tuple(_snippet(client, name, own.entry, computer) for client in clients),
        notes=own.notes,
    )


def _snippet(client: Client, name: str, entry: ServerEntry, computer: Computer) -> Snippet:
    wanted = entry_for(client, entry)
    problem = entry_problem(client, wanted)
    if unwritable(wanted):
        wanted = ServerEntry(ascii(wanted.command), tuple(map(ascii, wanted.args)))
    return Snippet(
        client=client.name,
        title=client.title,
        paths=client.places(computer).files,
        container=client.shape.container,
        text=with_server(None, client.shape, name, Put(wanted)).text or "",
        command=_terminal_command(client, name, wanted, computer.platform),
        problem=problem,
    )


def _terminal_command(client: Client, name: str, entry: ServerEntry, platform: str) -> str:
    """What does the same in a terminal, for the clients whose own command is known."""
    env = [part for pair in entry.env.items() for part in ("--env", "=".join(pair))]
    started = ["--", entry.command, *entry.args]
    match client.name:
        case "claude-code" if platform != "win32":
            written = json.dumps(entry.written(), ensure_ascii=False)
            argv = ["claude", "mcp", "add-json", "--scope", "user", name, written]
        case "claude-code":
            argv = ["claude", "mcp", "add", *env, "--scope", "user", name, *started]
        case "codex":
            argv = ["codex", "mcp", "add", name, *env, *started]
        case _:
            return ""
    return subprocess.list2cmdline(argv) if platform == "win32" else shlex.join(argv)
