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
    lines = [f"Vault: {reply.vault}"]
    for connection in reply.connections:
        lines.append(
            f"  {connection.state.value:<15}  {connection.title:<{width}}  {_where(connection)}"
        )
        if connection.detail:
            lines.append(f"  {'':<15}  ! {connection.detail}")
    apart = {ConnectionState.NOT_CONNECTED, ConnectionState.COMMAND_MISSING}
    waiting = dict.fromkeys(c.client for c in reply.connections if c.state in apart)
    if waiting:
        lines.append(
            f"`vaultmem connect {' '.join(waiting)}` connects what is found and is not yet."
        )
    if any(c.state is ConnectionState.CONNECTED for c in reply.connections):
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
            f"{change.title}: {plan.name} {_WOULD[change.step]} {_led(change)}",
            *_diff(change),
        ]
        if change.reason:
            lines.append(f"! {change.reason}")
    lines += _left(plan.changes)
    if any("…" in line for change in plan.to_do for line in change.diff):
        lines.append("… stands for text of the file that stays as it is and is not shown.")
    if any(change.before for change in plan.to_do):
        lines.append(f"What is there now would be copied to {plan.backups} first.")
    lines += [f"! {note}" for note in plan.notes]
    return _joined(lines)


def _led(change: PlannedChange) -> str:
    link = "" if change.path == change.target else f" (a link to {change.target})"
    return f"{change.path}{link}"


def _diff(change: PlannedChange) -> Iterable[str]:
    yield f"--- {change.target if change.before else '/dev/null'}"
    yield f"+++ {change.target}"
    yield from change.diff


def render_connection_reply(reply: ConnectionReply) -> str:
    """What was done, and where the copies are."""
    lines: list[str] = []
    changed = [change for change in reply.changes if change.step in _DONE]
    for change in changed:
        lines.append(f"{change.title} {_DONE[change.step]}: {change.path}")
        if change.reason:
            lines.append(f"  {change.reason}")
        if change.backup:
            lines.append(f"  what was there before: {change.backup}")
    lines += _left(reply.changes)
    if changed:
        lines.append("A client that runs notices when it is started again.")
        if reply.wish is Wish.CONNECT:
            lines.append("`vaultmem doctor` checks what was connected.")
    lines += [f"! {note}" for note in reply.notes]
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
