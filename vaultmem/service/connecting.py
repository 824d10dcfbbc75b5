"""vaultmem's server in the configuration of clients: what would change, doing it, how it stands.

`plan_connection` reads and changes nothing; `carry_out` does what a plan says, and only where the
files are still what the plan was made of. What one client refuses never stops the others.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from vaultmem.model.errors import Refused, StateUnavailable
from vaultmem.service.client_config_file import (
    ConfigFile,
    check_writable,
    read_config_file,
    write_config_file,
)
from vaultmem.service.client_config_text import (
    ConfigForm,
    EditedConfig,
    servers,
    with_server,
    without_server,
)
from vaultmem.service.clients import (
    CLIENTS,
    Client,
    Computer,
    client_named,
    is_installed,
    this_computer,
)
from vaultmem.service.own_server import (
    DEFAULT_NAME,
    checked_name,
    entry_for,
    entry_problem,
    is_own,
    own_server,
    served_vault,
    serves,
)
from vaultmem.service.server_entry import ServerEntry
from vaultmem.service.settings import Settings
from vaultmem.service.state_file import put_state_file

BACKUPS = "backups"  # the folder, in the state folder of the vault


class Wish(StrEnum):
    """What a person wants of the clients."""

    CONNECT = "connect"
    REMOVE = "remove"


class Step(StrEnum):
    """What is to be done, or was done, to one file."""

    ADD = "add"
    UPDATE = "update"
    REMOVE = "remove"
    NOTHING = "nothing"  # it is as it is wished
    NOT_INSTALLED = "not installed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """What would be done to one file of one client."""

    client: str
    title: str
    path: Path  # where the client looks
    target: Path  # where a link leads; the path itself where there is none
    step: Step
    reason: str  # why nothing is done, or what else is to be known; "" for nothing
    diff: tuple[str, ...]  # hunks without any line of the file that is not ours
    before: str  # SHA-256 of the file, in hex; "" where there is none
    entry: ServerEntry | None  # what is put in


@dataclass(frozen=True, slots=True)
class ConnectionPlan:
    """What would be done; doing it is `carry_out`."""

    wish: Wish
    name: str  # of the server
    vault: Path
    backups: Path  # the folder that files are copied to first
    changes: tuple[PlannedChange, ...]
    notes: tuple[str, ...]

    @property
    def to_do(self) -> tuple[PlannedChange, ...]:
        """The changes that change a file."""
        return tuple(c for c in self.changes if c.step in (Step.ADD, Step.UPDATE, Step.REMOVE))


@dataclass(frozen=True, slots=True)
class Change:
    """What was done to one file."""

    client: str
    title: str
    path: Path
    step: Step
    reason: str  # why nothing was done, or what else is to be known; "" for nothing
    backup: str  # the path of the copy of what was there; "" for none


@dataclass(frozen=True, slots=True)
class ConnectionReply:
    """What was done."""

    wish: Wish
    name: str
    vault: Path
    changes: tuple[Change, ...]
    notes: tuple[str, ...]

    @property
    def done(self) -> bool:
        """Whether no client was refused."""
        return all(change.step is not Step.REFUSED for change in self.changes)


class ConnectionState(StrEnum):
    """How a client stands to this vault."""

    CONNECTED = "connected"
    OTHER_VAULT = "other vault"
    COMMAND_MISSING = "command missing"
    NOT_CONNECTED = "not connected"
    UNREADABLE = "unreadable"
    NOT_INSTALLED = "not installed"


@dataclass(frozen=True, slots=True)
class Connection:
    """How one file of one client stands."""

    client: str
    title: str
    path: Path
    state: ConnectionState
    name: str  # of the entry; "" for none
    detail: str  # what about it; "" for nothing


@dataclass(frozen=True, slots=True)
class ConnectionsReply:
    """How all of them stand."""

    vault: Path
    connections: tuple[Connection, ...]


def chosen_clients(names: Sequence[str], *, everyone: bool = False) -> tuple[Client, ...]:
    """The clients of these names, each once, or all. Raises UsageError for one that is unknown."""
    named = {client_named(name).name for name in names}
    return tuple(client for client in CLIENTS if everyone or client.name in named)


def plan_connection(
    settings: Settings,
    clients: Sequence[Client],
    *,
    wish: Wish = Wish.CONNECT,
    name: str = DEFAULT_NAME,
    computer: Computer | None = None,
) -> ConnectionPlan:
    """What would be done to the clients' files. Raises UsageError for a name that is none."""
    computer = computer or this_computer()
    checked_name(name)
    own = own_server(settings, computer)
    changes: list[PlannedChange] = []
    for client in clients:
        installed = is_installed(client, computer)
        for path in client.places(computer).files:
            changes.append(
                _planned(settings, client, path, wish, name, entry_for(client, own.entry))
                if installed
                else _absent(client, path, computer)
            )
    return ConnectionPlan(
        wish=wish,
        name=name,
        vault=settings.vault,
        backups=settings.state_folder / BACKUPS,
        changes=tuple(changes),
        notes=own.notes if wish is Wish.CONNECT else (),
    )


def carry_out(
    plan: ConnectionPlan, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> ConnectionReply:
    """Do what the plan says. A file that has changed since is left as it is, and that is said.

    now: the present time, for the names of the copies.
    """
    return ConnectionReply(
        wish=plan.wish,
        name=plan.name,
        vault=plan.vault,
        changes=tuple(_done(plan, change, now) for change in plan.changes),
        notes=plan.notes,
    )


def connections(
    settings: Settings, *, name: str = DEFAULT_NAME, computer: Computer | None = None
) -> tuple[Connection, ...]:
    """How every client stands to this vault, whatever its entry is called; reads, and no more."""
    computer = computer or this_computer()
    own = own_server(settings, computer)
    found: list[Connection] = []
    for client in CLIENTS:
        places = client.places(computer)
        if not is_installed(client, computer):
            state = ConnectionState.NOT_INSTALLED
            found.append(Connection(client.name, client.title, places.files[0], state, "", ""))
            continue
        entry = entry_for(client, own.entry)
        found += [
            _connection(settings, client, path, name, entry, computer) for path in places.files
        ]
    return tuple(found)


# Plans


def _absent(client: Client, path: Path, computer: Computer) -> PlannedChange:
    places = client.places(computer)
    commands = "".join(f", and no command {command}" for command in places.commands)
    reason = f"{client.title} was not found: there is no {places.signs[0]}{commands}."
    return _change(client, ConfigFile(path, path, None), Step.NOT_INSTALLED, reason)


def _change(
    client: Client,
    file: ConfigFile,
    step: Step,
    reason: str = "",
    *,
    diff: tuple[str, ...] = (),
    entry: ServerEntry | None = None,
) -> PlannedChange:
    return PlannedChange(
        client=client.name,
        title=client.title,
        path=file.path,
        target=file.target,
        step=step,
        reason=reason,
        diff=diff,
        before=file.digest,
        entry=entry,
    )


def _planned(
    settings: Settings, client: Client, path: Path, wish: Wish, name: str, entry: ServerEntry
) -> PlannedChange:
    file = ConfigFile(path, path, None)
    try:
        file = read_config_file(path)
        old = servers(file.text, client.shape)
        if wish is Wish.REMOVE:
            return _removal(settings, client, file, name, old)
        return _addition(settings, client, file, name, old, entry)
    except Refused as error:
        return _change(client, file, Step.REFUSED, str(error))


def _addition(
    settings: Settings,
    client: Client,
    file: ConfigFile,
    name: str,
    old: dict[str, ServerEntry | None],
    entry: ServerEntry,
) -> PlannedChange:
    if problem := entry_problem(client, entry):
        raise Refused(problem)
    present = old.get(name)
    if name in old and not is_own(present):
        raise Refused(
            f"Its server {name} is not vaultmem. Choose another name for this one with --name."
        )
    if name not in old and (called := _ours(old, settings.vault)):
        reason = f"Already connected, as {called}; --name {called} brings it up to date."
        return _change(client, file, Step.NOTHING, reason)
    other = "" if present is None else _other_vault(present, settings.vault)
    if other and os.path.isdir(other):
        raise Refused(
            f"Its server {name} serves another vault, {other}. Give this one a name of its own "
            "with --name."
        )
    edited = with_server(file.text, client.shape, name, entry)
    if not edited.changed:
        return _change(client, file, Step.NOTHING, "Already connected.")
    _check_place(settings, file)
    return _change(
        client,
        file,
        Step.ADD if present is None else Step.UPDATE,
        f"It served {other}, which is not there any more." if other else "",
        diff=edited.diff,
        entry=entry,
    )


def _removal(
    settings: Settings,
    client: Client,
    file: ConfigFile,
    name: str,
    old: dict[str, ServerEntry | None],
) -> PlannedChange:
    if name not in old:
        called = _ours(old, settings.vault)
        reason = (
            f" by this name; as {called} it is, and --name {called} removes it" if called else ""
        )
        return _change(client, file, Step.NOTHING, f"Not connected{reason}.")
    present = old[name]
    if present is None or not is_own(present):
        raise Refused(f"Its server {name} is not vaultmem, and stays.")
    other = _other_vault(present, settings.vault)
    if other and os.path.isdir(other):
        raise Refused(
            f"Its server {name} serves another vault, {other}, and stays. To take it away, name "
            "that one with --vault."
        )
    edited = without_server(file.text, client.shape, name)
    _check_place(settings, file)
    reason = "The file holds nothing else and goes." if edited.text is None else ""
    return _change(client, file, Step.REMOVE, reason, diff=edited.diff)


def _ours(found: dict[str, ServerEntry | None], vault: Path) -> str:
    """The name of the first server of this vault; "" for none."""
    return next((name for name, entry in found.items() if _serves(entry, vault)), "")


def _other_vault(entry: ServerEntry, vault: Path) -> str:
    """The vault that an entry serves, if it is not this one; "" where it names none."""
    served = served_vault(entry)
    return "" if not served or serves(entry, vault) else os.path.expanduser(served)


def _check_place(settings: Settings, file: ConfigFile) -> None:
    if file.target.is_relative_to(settings.vault):
        raise Refused(
            f"It lies inside the vault {settings.vault}, where vaultmem writes nothing of its own. "
            "`vaultmem connect --print` shows what to write there."
        )
    check_writable(file)


# Doing it


def _done(plan: ConnectionPlan, change: PlannedChange, now: Callable[[], datetime]) -> Change:
    backup = ""
    step, reason = change.step, change.reason
    if change in plan.to_do:
        try:
            backup = _carried_out(plan, change, now)
        except (Refused, StateUnavailable) as error:
            step, reason = Step.REFUSED, str(error)
    return Change(change.client, change.title, change.path, step, reason, backup)


def _carried_out(plan: ConnectionPlan, change: PlannedChange, now: Callable[[], datetime]) -> str:
    """Change one file; returns the path of the copy of what was there, "" for none."""
    file = read_config_file(change.path)
    if file.digest != change.before:
        raise Refused(
            "It was changed since this was shown. Nothing was written; repeat the command."
        )
    edited = _edited(plan, change, file)
    backup = "" if file.content is None else _backup(plan, change, file.content, now)
    content = None if edited.text is None else edited.text.encode()
    if content is None and file.path != file.target and file.path.is_symlink():
        content = b"{}\n" if client_named(change.client).shape.form is ConfigForm.JSON else b""
    write_config_file(file, content)
    return backup


def _edited(plan: ConnectionPlan, change: PlannedChange, file: ConfigFile) -> EditedConfig:
    shape = client_named(change.client).shape
    if change.entry is not None:
        return with_server(file.text, shape, plan.name, change.entry)
    return without_server(file.text, shape, plan.name)


def _backup(
    plan: ConnectionPlan, change: PlannedChange, content: bytes, now: Callable[[], datetime]
) -> str:
    stamp = f"{change.client}-{now():%Y%m%dT%H%M%SZ}"
    name = f"{stamp}-{change.target.name}"
    number = 2
    while os.path.lexists(plan.backups / name):
        name = f"{stamp}-{number}-{change.target.name}"
        number += 1
    put_state_file(plan.backups, name, content, replace=False)
    return str(plan.backups / name)


# How it stands


def _connection(
    settings: Settings,
    client: Client,
    path: Path,
    name: str,
    entry: ServerEntry,
    computer: Computer,
) -> Connection:
    def standing(state: ConnectionState, name: str = "", detail: str = "") -> Connection:
        return Connection(client.name, client.title, path, state, name, detail)

    try:
        text = read_config_file(path).text
        found = servers(text, client.shape)
    except Refused as error:
        return standing(ConnectionState.UNREADABLE, detail=str(error))
    called = name if _serves(found.get(name), settings.vault) else _ours(found, settings.vault)
    present = found.get(called or name)
    if present is None or not is_own(present):
        return standing(ConnectionState.NOT_CONNECTED)
    if not called:
        served = served_vault(present) or "the one that it finds by itself"
        beside = f"`vaultmem connect {client.name} --name NAME` adds this one beside it."
        detail = f"It serves another vault, {served}. {beside}"
        return standing(ConnectionState.OTHER_VAULT, name, detail)
    again = f"vaultmem connect {client.name}"
    again += "" if called == DEFAULT_NAME else f" --name {called}"
    if shutil.which(present.command, path=computer.environment.get("PATH", "")) is None:
        missing = f"{present.command} is not there. `{again}` writes the entry anew."
        return standing(ConnectionState.COMMAND_MISSING, called, missing)
    try:
        current = not with_server(text, client.shape, called, entry).changed
    except Refused:
        current = True  # an entry that is written in another way is its owner's business
    return standing(
        ConnectionState.CONNECTED,
        called,
        "" if current else f"`{again}` would bring it up to date.",
    )


def _serves(entry: ServerEntry | None, vault: Path) -> bool:
    return entry is not None and is_own(entry) and serves(entry, vault)
