"""vaultmem's server in the configuration of clients: what would change, doing it, how it stands.

`plan_connection` reads and changes nothing; `carry_out` does what a plan says, and only where the
files still take the very change that was shown. What one client refuses never stops the others.
"""

import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from vaultmem.model.errors import Refused, StateUnavailable
from vaultmem.service.client_config_backups import back_up, made_folders, remember_folders
from vaultmem.service.client_config_file import (
    ConfigFile,
    FileChanged,
    check_writable,
    read_config_file,
    remove_folders,
    write_config_file,
)
from vaultmem.service.client_config_text import (
    ConfigForm,
    ConfigShape,
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
    OwnServer,
    checked_name,
    entry_for,
    entry_problem,
    is_own,
    own_address,
    own_server,
    served_vault,
    serves,
)
from vaultmem.service.server_entry import PresentServer, Put, ServerEntry, program_name
from vaultmem.service.settings import Settings

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
    names: tuple[str, ...]  # of the servers that it is about
    put: Put | None  # what is put in; None for nothing
    foreign: bool  # whether what goes is not vaultmem's own


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
    names: tuple[str, ...]  # of the servers that it is about
    diff: tuple[str, ...]  # as it was planned
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
    OVER_HTTP = "connected over HTTP"  # to which vault, no entry says
    DISABLED = "disabled"  # it is switched off in the client
    OTHER_VAULT = "other vault"
    VAULT_GONE = "vault gone"  # it serves one that is not there
    NAME_TAKEN = "name taken"  # by a server that is not vaultmem
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
    name: str | None = DEFAULT_NAME,
    replace: bool = False,
    computer: Computer | None = None,
) -> ConnectionPlan:
    """What would be done to the clients' files.

    name: of the server; None: the usual one, and for a removal whatever serves this vault.
    replace: whether a server of that name gives way that serves another vault, or is not vaultmem.
    Raises UsageError for a name that is none.
    """
    computer = computer or this_computer()
    wanted = _Wanted(
        settings=settings,
        name=checked_name(DEFAULT_NAME if name is None else name),
        any_name=name is None,
        replace=replace,
        own=own_server(settings, computer) if wish is Wish.CONNECT else None,
    )
    changes: list[PlannedChange] = []
    for client in clients:
        installed = is_installed(client, computer)
        for path in client.places(computer).files:
            changes.append(
                _planned(wanted, client, path) if installed else _absent(client, path, computer)
            )
    return ConnectionPlan(
        wish=wish,
        name=wanted.name,
        vault=settings.vault,
        backups=settings.state_folder / BACKUPS,
        changes=tuple(changes),
        notes=wanted.own.notes if wanted.own is not None else (),
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
    return tuple(found for found, _ in configured(settings, name=name, computer=computer))


def configured(
    settings: Settings, *, name: str = DEFAULT_NAME, computer: Computer | None = None
) -> tuple[tuple[Connection, ServerEntry | None], ...]:
    """How every client stands, each with the entry as it is written; None where none is started.

    The entry holds a person's own variables too: it is to be started, and not to be shown.
    """
    computer = computer or this_computer()
    own = own_server(settings, computer).entry
    found: list[tuple[Connection, ServerEntry | None]] = []
    for client in CLIENTS:
        places = client.places(computer)
        if not is_installed(client, computer):
            state = ConnectionState.NOT_INSTALLED
            absent = Connection(client.name, client.title, places.files[0], state, "", "")
            found.append((absent, None))
            continue
        for path in places.files:
            found += _standing(settings, client, path, name, entry_for(client, own), computer)
    return tuple(found)


# Plans


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a plan is made for."""

    settings: Settings
    name: str
    any_name: bool  # whether nobody named it
    replace: bool
    own: OwnServer | None  # what is put in; None for a removal

    @property
    def vault(self) -> Path:
        return self.settings.vault


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
    names: tuple[str, ...] = (),
    diff: tuple[str, ...] = (),
    put: Put | None = None,
    foreign: bool = False,
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
        names=names,
        put=put,
        foreign=foreign,
    )


def _planned(wanted: _Wanted, client: Client, path: Path) -> PlannedChange:
    file = ConfigFile(path, path, None)
    try:
        file = read_config_file(path)
        old = servers(file.text, client.shape)
        if wanted.own is None:
            return _removal(wanted, client, file, old)
        return _addition(wanted, client, file, old, wanted.own)
    except Refused as error:
        return _change(client, file, Step.REFUSED, str(error), names=(wanted.name,))


def _addition(
    wanted: _Wanted,
    client: Client,
    file: ConfigFile,
    old: Mapping[str, PresentServer],
    own: OwnServer,
) -> PlannedChange:
    name, entry = wanted.name, entry_for(client, own.entry)
    if problem := entry_problem(client, entry):
        raise Refused(problem)
    present = old.get(name)
    if present is None and (called := _of_vault(old, wanted.vault)):
        reason = f"Already connected, as {called[0]}; --name {called[0]} brings it up to date."
        return _change(client, file, Step.NOTHING, reason, names=called[:1])
    if present is not None and not wanted.replace:
        if address := own_address(present):
            reason = (
                f"Connected over HTTP, at {address}; which vault is served there, its entry does "
                "not say. --replace has the client start a server instead."
            )
            return _change(client, file, Step.NOTHING, reason, names=(name,))
        if problem := _in_the_way(name, present, wanted.vault):
            raise Refused(
                f"{problem}. Give this one a name of its own with --name, or put it in that one's "
                "place with --replace."
            )
    foreign = present is not None and not is_own(present.entry)
    older = present.entry.env if present is not None and present.entry is not None else {}
    put = Put(entry, tuple(sorted(set(own.unset) & set(older))), foreign)
    edited = with_server(file.text, client.shape, name, put)
    off = present is not None and present.off
    if not edited.changed:
        reason = "Already connected, and switched off in the client." if off else ""
        return _change(client, file, Step.NOTHING, reason or "Already connected.", names=(name,))
    _check_place(wanted.settings, file)
    reasons = [_lost(present, wanted.vault)] if present is not None else []
    reasons += ["It is switched off in the client, and stays so."] if off else []
    return _change(
        client,
        file,
        Step.ADD if present is None else Step.UPDATE,
        " ".join(filter(None, reasons)),
        names=(name,),
        diff=edited.diff,
        put=put,
        foreign=foreign,
    )


def _removal(
    wanted: _Wanted, client: Client, file: ConfigFile, old: Mapping[str, PresentServer]
) -> PlannedChange:
    name, called = wanted.name, _of_vault(old, wanted.vault)
    names = called if wanted.any_name and called else tuple({name} & set(old))
    if not names:
        reason = "Not connected"
        if called:
            reason += f" by this name; as {called[0]} it is, and --name {called[0]} removes it"
        return _change(client, file, Step.NOTHING, f"{reason}.", names=(name,))
    reasons: list[str] = []
    foreign = False
    for each in names:
        problem = _in_the_way(each, old[each], wanted.vault)
        if address := own_address(old[each]):
            reasons.append(
                f"{each} is reached at {address}; which vault is served there, its entry does not "
                "say."
            )
        elif problem and not wanted.replace:
            other = _other_vault(old[each].entry, wanted.vault)
            way = f"name that vault with --vault {shlex.quote(other)}, or " if other else ""
            raise Refused(
                f"{problem}, and stays. To take it away all the same, {way}add --replace."
            )
        elif problem:
            foreign = not is_own(old[each].entry)
            reasons.append(f"{problem}.")
    edited = _without(file.text, client.shape, names, foreign=foreign)
    _check_place(wanted.settings, file)
    reasons += ["The file holds nothing else and goes."] if edited.text is None else []
    return _change(
        client,
        file,
        Step.REMOVE,
        " ".join(reasons),
        names=names,
        diff=edited.diff,
        foreign=foreign,
    )


def _without(
    text: str | None, shape: ConfigShape, names: Sequence[str], *, foreign: bool
) -> EditedConfig:
    """The text without several servers. From the last on, so that each hunk counts lines right."""
    diff: tuple[str, ...] = ()
    changed = False
    for name in reversed(names):
        edited = without_server(text, shape, name, foreign=foreign)
        text, diff, changed = edited.text, (*edited.diff, *diff), changed or edited.changed
    return EditedConfig(text, diff, changed)


def _of_vault(found: Mapping[str, PresentServer], vault: Path) -> tuple[str, ...]:
    """The names of the servers that are started for this vault, in their order."""
    return tuple(name for name, server in found.items() if _serves(server, vault))


def _serves(server: PresentServer | None, vault: Path) -> bool:
    entry = server.entry if server is not None else None
    return entry is not None and is_own(entry) and serves(entry, vault)


def _other_vault(entry: ServerEntry | None, vault: Path) -> str:
    """The vault that an entry serves, if it is not this one; "" where it names none."""
    served = served_vault(entry) if entry is not None and is_own(entry) else ""
    return "" if not served or _is_vault(served, vault) else os.path.expanduser(served)


def _is_vault(served: str, vault: Path) -> bool:
    return serves(ServerEntry("", ("--vault", served)), vault)


def _in_the_way(name: str, present: PresentServer, vault: Path) -> str:
    """Why a server of that name is not this vault's own, a sentence without its end; "" if it is.

    A vault that is not there may lie on a drive that comes back.
    """
    if not is_own(present.entry):
        program = program_name(present.entry.command) if present.entry is not None else ""
        through = f" but started by {program}" if program else ""
        return f"Its server {name} is not vaultmem's own{through}"
    other = _other_vault(present.entry, vault)
    if not other:
        return ""
    there = "" if os.path.isdir(other) else ", which is not there now"
    return f"Its server {name} serves another vault, {other}{there}"


def _lost(present: PresentServer, vault: Path) -> str:
    """What an entry that gives way was; "" for one of this vault."""
    if not is_own(present.entry):
        return "What stood under this name goes, as a whole."
    other = _other_vault(present.entry, vault)
    return f"It served {other}." if other else ""


def _check_place(settings: Settings, file: ConfigFile) -> None:
    if file.target.is_relative_to(settings.vault):
        raise Refused(
            f"It lies inside the vault {settings.vault}, where vaultmem writes nothing of its own. "
            "`vaultmem connect --print` shows what to write there."
        )
    state = Path(os.path.realpath(settings.state_folder))
    if state.is_relative_to(settings.vault):
        raise Refused(
            f"Copies of it would go to the state folder {state}, inside the vault, and be "
            "synchronised with whatever keys it holds. Choose a folder elsewhere with "
            "VAULTMEM_STATE_DIR."
        )
    check_writable(file)


# Doing it


def _done(plan: ConnectionPlan, change: PlannedChange, now: Callable[[], datetime]) -> Change:
    if change not in plan.to_do:
        return _outcome(change, change.step, change.reason)
    try:
        try:
            return _carried_out(plan, change, now)
        except FileChanged:
            return _carried_out(plan, change, now)  # a client writes its own file as it runs
    except (Refused, StateUnavailable) as error:
        return _outcome(change, Step.REFUSED, str(error))


def _outcome(change: PlannedChange, step: Step, reason: str, backup: str = "") -> Change:
    return Change(
        client=change.client,
        title=change.title,
        path=change.path,
        step=step,
        reason=reason,
        names=change.names,
        diff=change.diff,
        backup=backup,
    )


def _carried_out(
    plan: ConnectionPlan, change: PlannedChange, now: Callable[[], datetime]
) -> Change:
    """Change one file. Raises Refused where another change would come of it than was shown."""
    file = read_config_file(change.path)
    shape = client_named(change.client).shape
    if change.put is not None:
        edited = with_server(file.text, shape, change.names[0], change.put)
    else:
        edited = _without(file.text, shape, change.names, foreign=change.foreign)
    if file.digest != change.before:
        if not edited.changed:
            return _outcome(change, Step.NOTHING, "It was done in the meantime.")
        if file.target != change.target or _lines(edited.diff) != _lines(change.diff):
            raise Refused(
                "It was changed since this was shown, and something else would come of it now. "
                "Nothing was written; repeat the command."
            )
    backup = ""
    if file.content is not None:
        backup = str(back_up(plan.backups, change.client, file.target, file.content, now()))
    content = None if edited.text is None else edited.text.encode()
    if content is None and file.path != file.target and file.path.is_symlink():
        content = b"{}\n" if shape.form is ConfigForm.JSON else b""
    made = write_config_file(file, content)
    _keep_account(plan.backups, file, made, gone=content is None)
    return _outcome(change, change.step, change.reason, backup)


def _lines(diff: Sequence[str]) -> list[str]:
    """What a diff takes out and puts in, wherever in the file that is."""
    return [line for line in diff if not line.startswith("@@")]


def _keep_account(folder: Path, file: ConfigFile, made: tuple[Path, ...], *, gone: bool) -> None:
    """Write down the folders that were made, and remove those whose file is gone."""
    known = set(made_folders(folder)) if made or gone else set()
    account = known | set(made)
    if gone:
        account -= set(remove_folders(file, known))
    if account != known:
        try:
            remember_folders(folder, account)
        except StateUnavailable:
            return  # what was wished is done; an empty folder may be left in the end


# How it stands


def _standing(
    settings: Settings,
    client: Client,
    path: Path,
    name: str,
    entry: ServerEntry,
    computer: Computer,
) -> Iterator[tuple[Connection, ServerEntry | None]]:
    """How one file stands to this vault, and each server in it whose vault is gone."""

    def row(state: ConnectionState, name: str = "", detail: str = "") -> Connection:
        return Connection(client.name, client.title, path, state, name, detail)

    try:
        text = read_config_file(path).text
        found = servers(text, client.shape)
    except Refused as error:
        yield row(ConnectionState.UNREADABLE, detail=str(error)), None
        return
    called = sorted(_of_vault(found, settings.vault), key=lambda known: known != name)
    for known in called:
        present = found[known].entry
        assert present is not None
        state, detail = _own_state(settings, client, found[known], known, text, entry, computer)
        yield row(state, known, detail), present
    if not called:
        there = found.get(name)
        if there is None:
            yield row(ConnectionState.NOT_CONNECTED), None
        else:
            state, detail = _other_state(settings, client, there, name)
            yield row(state, name, detail), there.entry
    for known, server in found.items():
        other = _other_vault(server.entry, settings.vault)
        if other and not os.path.isdir(other) and (called or known != name):
            yield row(ConnectionState.VAULT_GONE, known, _gone(client, other, known)), server.entry


def _gone(client: Client, vault: str, name: str) -> str:
    return (
        f"It serves {vault}, which is not there. If that is gone for good, `vaultmem --vault "
        f"{shlex.quote(vault)} connect {client.name} --remove --name {name}` takes it out."
    )


def _own_state(
    settings: Settings,
    client: Client,
    server: PresentServer,
    name: str,
    text: str | None,
    entry: ServerEntry,
    computer: Computer,
) -> tuple[ConnectionState, str]:
    """How a server of this vault stands."""
    assert server.entry is not None
    if not os.path.isdir(settings.vault):
        return ConnectionState.VAULT_GONE, _gone(client, str(settings.vault), name)
    if server.off:
        return ConnectionState.DISABLED, f"It is switched off in {client.title}."
    again = f"vaultmem connect {client.name}"
    again += "" if name == DEFAULT_NAME else f" --name {name}"
    if shutil.which(server.entry.command, path=computer.environment.get("PATH", "")) is None:
        missing = f"{server.entry.command} is not there. `{again}` writes the entry anew."
        return ConnectionState.COMMAND_MISSING, missing
    try:
        # Variables that are unset here may be set where it was connected; only `connect` asks.
        current = not with_server(text, client.shape, name, Put(entry)).changed
    except Refused:
        current = True  # an entry that is written in another way is its owner's business
    return ConnectionState.CONNECTED, "" if current else f"`{again}` would bring it up to date."


def _other_state(
    settings: Settings, client: Client, server: PresentServer, name: str
) -> tuple[ConnectionState, str]:
    """How a server of the name stands that is not started for this vault."""
    if address := own_address(server):
        detail = f"At {address}; which vault is served there, its entry does not say."
        state = ConnectionState.DISABLED if server.off else ConnectionState.OVER_HTTP
        return state, detail
    beside = f"`vaultmem connect {client.name} --name NAME` adds this one beside it."
    if not is_own(server.entry):
        problem = _in_the_way(name, server, settings.vault)
        return ConnectionState.NAME_TAKEN, f"{problem}. {beside}"
    other = _other_vault(server.entry, settings.vault)
    if other and not os.path.isdir(other):
        return ConnectionState.VAULT_GONE, _gone(client, other, name)
    served = other or "the one that it finds by itself"
    return ConnectionState.OTHER_VAULT, f"It serves another vault, {served}. {beside}"
