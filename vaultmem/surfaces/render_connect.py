"""What `vaultmem connect` says, for people."""

from collections.abc import Iterable, Sequence

from vaultmem.service.by_hand import SnippetsReply
from vaultmem.service.connecting import (
    Change,
    Connection,
    ConnectionPlan,
    ConnectionReply,
    ConnectionsReply,
    ConnectionState,
    PlannedChange,
    Step,
    Wish,
)
from vaultmem.service.own_server import DEFAULT_NAME
from vaultmem.surfaces.text import visible, visible_line

_MANY = 3  # clients that are not there: more are named in one line

_WOULD = {
    Step.ADD: "would be added to",
    Step.UPDATE: "would be brought up to date in",
    Step.REMOVE: "would be taken out of",
}
_DONE = {
    Step.ADD: "is connected",
    Step.UPDATE: "is connected, its entry brought up to date",
    Step.REMOVE: "is no longer connected",
}


def render_connections(reply: ConnectionsReply) -> str:
    """How each client stands, and what to type."""
    width = max(len(connection.title) for connection in reply.connections)
    wide = max(len(connection.state.value) for connection in reply.connections)
    lines = [f"Vault: {reply.vault}"]
    for connection in reply.connections:
        lines.append(
            f"  {connection.state.value:<{wide}}  {connection.title:<{width}}  {_where(connection)}"
        )
        if connection.detail:
            lines.append(f"  {'':<{wide}}  ! {connection.detail}")
    apart = {ConnectionState.NOT_CONNECTED, ConnectionState.COMMAND_MISSING}
    waiting = dict.fromkeys(c.client for c in reply.connections if c.state in apart)
    if waiting:
        lines.append(
            f"`vaultmem connect {' '.join(waiting)}` connects what is found and is not yet."
        )
    connected = {
        ConnectionState.CONNECTED,
        ConnectionState.DISABLED,
        ConnectionState.OVER_HTTP,
        ConnectionState.COMMAND_MISSING,
    }
    if any(c.state in connected for c in reply.connections):
        lines.append("`vaultmem connect --all --remove` takes all of it away again.")
    lines.append("Each shows first what it would change. --print shows what to write by hand.")
    return _joined(lines)


def _where(connection: Connection) -> str:
    if connection.state is ConnectionState.NOT_INSTALLED:
        return f"({connection.client})"
    name = f", as {connection.name}" if connection.name not in ("", DEFAULT_NAME) else ""
    return f"{connection.path}{name}"


def render_connection_plan(plan: ConnectionPlan) -> str:
    """The preview: of each file what would change, and nothing else that is in it."""
    lines: list[str] = []
    for change in plan.to_do:
        lines += [
            f"{change.title}: {_named(change)} {_WOULD[change.step]} {_led(change)}",
            *_diff(change),
        ]
        if change.reason:
            lines.append(f"! {change.reason}")
    lines += _left(plan.changes)
    if any("…" in line for change in plan.to_do for line in change.diff):
        lines.append("… stands for text of the file that is not shown.")
    if any(change.before for change in plan.to_do):
        lines.append(f"What is there now would be copied to {plan.backups} first.")
    lines += [f"! {note}" for note in plan.notes]
    return _joined(lines)


def _named(change: PlannedChange) -> str:
    *others, last = change.names
    return f"{', '.join(others)} and {last}" if others else last


def _led(change: PlannedChange) -> str:
    link = "" if change.path == change.target else f" (a link to {change.target})"
    return f"{change.path}{link}"


def _diff(change: PlannedChange) -> Iterable[str]:
    yield f"--- {change.target if change.before else '/dev/null'}"
    yield f"+++ {change.target}"
    yield from change.diff


def render_connection_reply(reply: ConnectionReply, plan: ConnectionPlan) -> str:
    """What was done, and where the copies are; what the plan that was shown said already is not
    said again.
    """
    lines: list[str] = []
    changed = [change for change in reply.changes if change.step in _DONE]
    for change in changed:
        lines.append(f"{change.title} {_DONE[change.step]}: {change.path}")
        if change.backup:
            lines.append(f"  what was there before: {change.backup}")
    said = {(change.path, change.step) for change in plan.changes}
    lines += _left([change for change in reply.changes if (change.path, change.step) not in said])
    if changed:
        lines.append("A client that runs notices when it is started again.")
        if reply.wish is Wish.CONNECT:
            lines.append("`vaultmem doctor` checks what was connected.")
    return _joined(lines)


def _left(changes: Sequence[PlannedChange | Change]) -> list[str]:
    """A line for each file that is left as it is."""
    lines = [
        f"{change.title}, {change.path}: {change.reason}"
        for change in changes
        if change.step is Step.NOTHING
    ]
    lines += [
        f"! {change.title}, {change.path} is left as it is. {change.reason}"
        for change in changes
        if change.step is Step.REFUSED
    ]
    absent = [change for change in changes if change.step is Step.NOT_INSTALLED]
    titles = dict.fromkeys(change.title for change in absent)
    if len(titles) > _MANY:
        return [*lines, f"Not found on this computer: {', '.join(titles)}."]
    return lines + list(dict.fromkeys(change.reason for change in absent))


def render_snippets(reply: SnippetsReply) -> str:
    """What to write by hand, and where; nothing is written."""
    blocks: list[str] = []
    for snippet in reply.snippets:
        lines = [_joined([f"# {snippet.title}: {' and '.join(map(str, snippet.paths))}"])]
        if snippet.problem:
            lines.append(_joined([f"! {snippet.problem}"]))
        if snippet.command:
            lines += [_joined([snippet.command]), "# or"]
        lines.append(visible(snippet.text.rstrip("\n")))
        blocks.append("\n".join(lines))
    notes = [_joined([f"! {note}"]) for note in reply.notes]
    return "\n\n".join([*blocks, *notes])


def _joined(lines: Iterable[str]) -> str:
    """One text of lines, none of which begins another; a file's own tabs stay tabs."""
    diff = ("+", "-")
    return "\n".join(
        visible(line.replace("\n", "\\n")) if line.startswith(diff) else visible_line(line)
        for line in lines
    )
