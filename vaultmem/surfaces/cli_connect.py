"""`vaultmem connect`: vaultmem's server in the configuration of assistants."""

from typing import TYPE_CHECKING

from vaultmem.model.errors import UsageError
from vaultmem.service.by_hand import snippets
from vaultmem.service.connecting import (
    ConnectionPlan,
    ConnectionsReply,
    Step,
    Wish,
    carry_out,
    chosen_clients,
    connections,
    plan_connection,
)
from vaultmem.service.own_server import checked_name
from vaultmem.service.setting_up import find_settings
from vaultmem.service.settings import Settings
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
    from collections.abc import Callable


def connect(arguments: "argparse.Namespace", write: "Callable[[str], None]") -> int:
    """Show how the clients stand, what would change, or change it; returns the exit code.

    write: prints on standard output.
    """
    clients = chosen_clients(arguments.client, everyone=arguments.all)
    checked_name(arguments.name)
    settings, _ = find_settings(
        getattr(arguments, "vault", None), getattr(arguments, "cache_dir", None)
    )
    as_json = getattr(arguments, "json", False)
    if arguments.print:
        clients = clients or chosen_clients((), everyone=True)
        found = snippets(settings, clients, name=arguments.name)
        write((to_json(found) if as_json else render_snippets(found)) + "\n")
        return 0
    if clients:
        return _change(arguments, settings, write, as_json=as_json)
    if arguments.remove or arguments.yes:
        raise UsageError("No client was named. Name some, or --all for those that are found.")
    standing = ConnectionsReply(settings.vault, connections(settings, name=arguments.name))
    write((to_json(standing) if as_json else render_connections(standing)) + "\n")
    return 0


def _change(
    arguments: "argparse.Namespace",
    settings: Settings,
    write: "Callable[[str], None]",
    *,
    as_json: bool,
) -> int:
    """Show what would be done, and do it when that is wished."""
    plan = plan_connection(
        settings,
        chosen_clients(arguments.client, everyone=arguments.all),
        wish=Wish.REMOVE if arguments.remove else Wish.CONNECT,
        name=arguments.name,
    )
    if not arguments.yes:
        write((to_json(plan) if as_json else render_connection_plan(plan)) + "\n")
        if not plan.to_do or not agreed(write, as_json=as_json):
            return _verdict(plan)
    reply = carry_out(plan)
    write((to_json(reply) if as_json else render_connection_reply(reply)) + "\n")
    return 0 if reply.done else 1


def _verdict(plan: ConnectionPlan) -> int:
    return int(any(change.step is Step.REFUSED for change in plan.changes))
