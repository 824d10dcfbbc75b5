"""`vaultmem setup`: the way from an install to a connected assistant."""

from typing import TYPE_CHECKING

from vaultmem.service.application import Progress, open_memory
from vaultmem.service.connecting import Step
from vaultmem.service.setting_up import (
    SetupPlan,
    SetupReply,
    SetupStep,
    carry_out_setup,
    find_settings,
    plan_setup,
)
from vaultmem.surfaces.consent import agreed
from vaultmem.surfaces.json_reply import to_json
from vaultmem.surfaces.render_connect import render_connection_plan
from vaultmem.surfaces.text import visible_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable


def setup(
    arguments: "argparse.Namespace", write: "Callable[[str], None]", progress: Progress
) -> int:
    """Show what would be done, ask, and do it; returns the exit code.

    write: prints on standard output.
    """
    cache_dir = getattr(arguments, "cache_dir", None)
    settings, source = find_settings(getattr(arguments, "vault", None), cache_dir)
    as_json = getattr(arguments, "json", False)
    memory = open_memory(settings, progress=progress)
    try:
        plan = plan_setup(memory, source)
        if not as_json:
            write(render_setup_plan(plan) + "\n")
        elif not arguments.yes:
            write(to_json(plan) + "\n")
        if not arguments.yes and not agreed(write, as_json=as_json):
            return 0
        if not as_json:
            write("\n")

        def say(step: SetupStep) -> None:
            if not as_json:
                write(visible_line(f"{step.state.value:<8} {step.id}: {step.detail}") + "\n")

        reply = carry_out_setup(memory, plan, say)
    finally:
        memory.close()
    write((to_json(reply) if as_json else render_next(reply)) + "\n")
    return 0 if reply.done else 1


def render_setup_plan(plan: SetupPlan) -> str:
    """The steps, then what would change in files that are not vaultmem's."""
    lines = [f"{number}. {step}" for number, step in enumerate(plan.steps, 1)]
    text = "\n".join(visible_line(line) for line in lines)
    left = [change for change in plan.connection.changes if change.step is Step.REFUSED]
    if plan.connection.to_do or left:
        text += "\n\n" + render_connection_plan(plan.connection)
    return text


def render_next(reply: SetupReply) -> str:
    """What a person may do next."""
    lines = ["", "Next:"]
    lines += [f"{number}. {step}" for number, step in enumerate(reply.next, 1)]
    return "\n".join(visible_line(line) for line in lines)
