"""`vaultmem connect`: vaultmem's server in the configuration of assistants."""

from typing import TYPE_CHECKING

from vaultmem.model.errors import UsageError
from vaultmem.service.by_hand import snippets
from vaultmem.service.connecting import (
    Change,
    ConnectionPlan,
    ConnectionsReply,
    PlannedChange,
    Step,
    Wish,
    carry_out,
    chosen_clients,
    connections,
    plan_connection,
)
from vaultmem.service.own_server import DEFAULT_NAME, checked_name
from vaultmem.service.setting_up import find_settings, find_settings_anyhow
from vaultmem.surfaces.consent import agreed
from vaultmem.surfaces.json_reply import to_json
from vaultmem.surfaces.render_connect import (
    render_connection_plan,
    render_connection_reply,
    render_connections,
    render_snippets,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence


def connect(arguments: "argparse.Namespace", write: "Callable[[str], None]") -> int:
    """Show how the clients stand, what would change, or change it; returns the exit code.

    write: prints on standard output.
    """
    clients = chosen_clients(arguments.client, everyone=arguments.all)
    name: str | None = arguments.name  # None: it was not given
    shown_name = checked_name(DEFAULT_NAME if name is None else name)
    if arguments.print and arguments.remove:
        raise UsageError(
            "--print shows what to write by hand, and --remove takes it out. Choose one of them."
        )
    vault, cache_dir = getattr(arguments, "vault", None), getattr(arguments, "cache_dir", None)
    as_json, replace = getattr(arguments, "json", False), getattr(arguments, "replace", False)
    if arguments.print:
        settings, _ = find_settings(vault, cache_dir)
        clients = clients or chosen_clients((), everyone=True)
        found = snippets(settings, clients, name=shown_name)
        write((to_json(found) if as_json else render_snippets(found)) + "\n")
        return 0
    if clients and not arguments.remove:
        settings, _ = find_settings(vault, cache_dir)
    else:
        settings = find_settings_anyhow(vault, cache_dir)
    if clients:
        plan = plan_connection(
            settings,
            clients,
            wish=Wish.REMOVE if arguments.remove else Wish.CONNECT,
            name=name,
            replace=replace,
        )
        return _change(arguments, plan, write, as_json=as_json)
    if arguments.remove or arguments.yes or replace:
        raise UsageError("No client was named. Name some, or --all for those that are found.")
    standing = ConnectionsReply(settings.vault, connections(settings, name=shown_name))
    write((to_json(standing) if as_json else render_connections(standing)) + "\n")
    return 0


def _change(
    arguments: "argparse.Namespace",
    plan: ConnectionPlan,
    write: "Callable[[str], None]",
    *,
    as_json: bool,
) -> int:
    """Show what would be done, and do it when that is wished.

    JSON is one value: the plan, or what was done, either with the diffs.
    """
    if not as_json:
        write(render_connection_plan(plan) + "\n")
    elif not arguments.yes:
        write(to_json(plan) + "\n")
    wished = arguments.yes or (plan.to_do and agreed(write, as_json=as_json))
    if not wished or not (plan.to_do or as_json):
        return _verdict(plan.changes, arguments.client)
    reply = carry_out(plan)
    write((to_json(reply) if as_json else render_connection_reply(reply, plan)) + "\n")
    return _verdict(reply.changes, arguments.client)


def _verdict(changes: "Sequence[PlannedChange | Change]", named: "Sequence[str]") -> int:
    """1 where a file was left as it is, or a client is not there that was named."""
    return int(
        any(
            change.step is Step.REFUSED
            or (change.step is Step.NOT_INSTALLED and change.client in named)
            for change in changes
        )
    )
