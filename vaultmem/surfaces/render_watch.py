"""What `vaultmem watch` says, for people."""

from vaultmem.service.background import (
    BackgroundAction,
    BackgroundKind,
    BackgroundPlan,
    BackgroundReply,
    Presence,
    shown,
)
from vaultmem.service.embedding_thread import Embedded
from vaultmem.service.watching import (
    Batch,
    Reachable,
    SettingsRead,
    Started,
    Trouble,
    Unreachable,
    WatchEvent,
)
from vaultmem.surfaces.text import visible_line

_SERVICES = {
    BackgroundKind.SYSTEMD: "systemd user service",
    BackgroundKind.LAUNCHD: "launchd agent",
    BackgroundKind.TASK_SCHEDULER: "scheduled task",
}


def render_background(reply: BackgroundPlan | BackgroundReply) -> str:
    """The preview of an installation, or what installing or removing did."""
    if isinstance(reply, BackgroundPlan):
        return _installation(reply)
    if reply.action is BackgroundAction.INSTALL:
        return _installed(reply)
    return _removed(reply)


def render_background_removal(plan: BackgroundPlan) -> str:
    """The preview of a removal."""
    if plan.present is Presence.FOREIGN:
        return _joined([_foreign(plan)])
    lines = [f"vaultmem would no longer watch {plan.vault} in the background ({_service(plan)})."]
    if plan.present is Presence.ABSENT:
        lines.append(f"There is no file {plan.path}; what else is left of it would be taken away:")
    else:
        lines.append(f"These commands would be run, and {plan.path} be deleted:")
    lines += [f"  {shown(plan.kind, argv)}" for argv in (*plan.remove, *plan.after_deletion)]
    return _joined(lines)


def _installation(plan: BackgroundPlan) -> str:
    if plan.present is Presence.FOREIGN:
        return _joined([_foreign(plan)])
    lines = [
        f"vaultmem would watch {plan.vault} in the background, from now on and from every login on "
        f"({_service(plan)}).",
        {
            Presence.ABSENT: f"This file would be written: {plan.path}",
            Presence.CURRENT: f"This file is there already and would stay: {plan.path}",
            Presence.OUTDATED: f"This would be written over vaultmem's own older file {plan.path}",
        }[plan.present],
        *(f"  | {line}".rstrip() for line in plan.text.rstrip("\n").split("\n")),
        "These commands would be run:",
        *(f"  {shown(plan.kind, argv)}" for argv in plan.install),
        *(f"! {note}" for note in plan.notes),
        "`vaultmem watch --uninstall` takes all of it away again.",
    ]
    return _joined(lines)


def _installed(reply: BackgroundReply) -> str:
    lines = []
    if reply.done:
        lines.append(f"The watcher is started, now and at every login ({_service(reply)}).")
    else:
        lines.append(f"! The watcher was not started: {reply.problem}")
    lines.append(f"File: {reply.path}" + ("" if reply.changed else " (was there already)"))
    if reply.log:
        lines.append(f"What it says: {reply.log}")
    return _joined([*lines, *(f"! {note}" for note in reply.notes)])


def _removed(reply: BackgroundReply) -> str:
    if reply.problem:
        return _joined([f"! {reply.problem}"])
    if reply.changed:
        return _joined([f"The watcher is stopped and starts no more; {reply.path} is deleted."])
    return _joined([f"No file {reply.path}: the watcher of this vault is not installed."])


def _foreign(plan: BackgroundPlan) -> str:
    return f"! {plan.path} is not a file that vaultmem made, and would be left as it is."


def _service(what: BackgroundPlan | BackgroundReply) -> str:
    return f"{_SERVICES[what.kind]} {what.name}"


def _joined(lines: list[str]) -> str:
    return "\n".join(visible_line(line) for line in lines)


def render_event(event: WatchEvent) -> str:
    """A line on one event; "" for what is none of a person's business."""
    if isinstance(event, Started):
        return visible_line(f"Watching {event.vault}. Ctrl-C ends it.")
    if isinstance(event, Batch):
        return visible_line(_batch(event))
    if isinstance(event, Embedded):
        rest = f", {event.waiting:,} to go" if event.waiting else ""
        problem = f" {event.problem}" if event.problem else ""
        done = f"{event.embedded:,} passages embedded{rest} ({event.seconds:.1f} s)"
        return visible_line((done if event.embedded else "! Not embedded.") + problem)
    if isinstance(event, Unreachable):
        return visible_line(f"! {event.reason}")
    if isinstance(event, Reachable):
        return "The vault is back."
    if isinstance(event, SettingsRead):
        wrong = f"! {event.problem} Those before go on." if event.problem else ""
        return visible_line(wrong or "The settings have changed and are in force.")
    if isinstance(event, Trouble):
        return visible_line(f"! {event.problem}")
    return "Stopped."


def _batch(event: Batch) -> str:
    words = ("added", "changed", "renamed", "removed")
    numbers = [getattr(event.notes, w) + getattr(event.canvases, w) for w in words]
    done = ", ".join(f"{n:,} {w}" for n, w in zip(numbers, words, strict=True) if n)
    missing = f"; {event.missing:,} missing, kept for now" if event.missing else ""
    total = f"{event.notes.total:,} notes"
    return f"{event.at[11:19]}  {total}: {done or 'up to date'}{missing} ({event.seconds:.1f} s)"
