"""What `vaultmem selftest` says, for people."""

from vaultmem.service.selftest import SelftestCheck, SelftestGround, SelftestReply
from vaultmem.surfaces.text import visible_line

_SENTENCES = {
    "kill": "Killed anywhere, the next run repairs the index",
    "processes": "Processes at once do not get into each other's way",
    "edits": "The index of an edited vault is that of a new one",
}
_WIDTH = max(len(sentence) for sentence in _SENTENCES.values())
_JOURNALS = {"wal": "write-ahead log", "delete": "rollback journal"}


def render_ground(ground: SelftestGround) -> str:
    """Where it happens, and the head of the table."""
    kind = ground.file_system or "a file system of unknown kind"
    why = f", since {ground.why}" if ground.why else ""
    return "\n".join(
        (
            visible_line(f"Where: {ground.folder} ({kind}, {_JOURNALS[ground.journal]}{why})"),
            f"Seed: {ground.seed}",
            f"{'promise':<{_WIDTH}}  {'cases':>5}  {'kept':>5}  {'seconds':>7}",
        )
    )


def render_check(check: SelftestCheck) -> str:
    """A line of the table."""
    return (
        f"{_SENTENCES[check.name]:<{_WIDTH}}  {check.cases:>5}  {check.kept:>5}  "
        f"{check.seconds:>7.1f}"
    )


def render_verdict(reply: SelftestReply, again: str) -> str:
    """Whether all promises were kept; else what was broken.

    again: the command that tries the same once more.
    """
    if reply.kept:
        return "All promises kept."
    lines: list[str] = []
    for check in reply.checks:
        if check.kept < check.cases:
            lines.append(f"Broken: {_SENTENCES[check.name]}.")
            lines += [f"  {line}" for line in check.broken]
    if reply.left is not None:
        lines.append(f"The folders of broken cases are kept in {reply.left}.")
    lines.append(f"To try the same again: {again}")
    lines.append("Please report this: a fault of vaultmem's own, or of the file system.")
    return "\n".join(visible_line(line) for line in lines)
