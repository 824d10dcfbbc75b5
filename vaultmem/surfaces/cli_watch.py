"""`vaultmem watch`: a line for each event, and the service that runs it in the background."""

import os
import signal
from typing import TYPE_CHECKING

from vaultmem.service.application import Progress
from vaultmem.service.background import (
    install_background,
    plan_background,
    remove_background,
)
from vaultmem.service.settings import Settings, load_settings
from vaultmem.service.watching import Watcher, WatchEvent
from vaultmem.surfaces.consent import agreed
from vaultmem.surfaces.json_reply import to_json, to_json_line
from vaultmem.surfaces.render_watch import (
    render_background,
    render_background_removal,
    render_event,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable


def watch(
    arguments: "argparse.Namespace",
    write: "Callable[[str], None]",
    progress: "Callable[[str, int, int], None]",
) -> int:
    """Run until interrupted, or see to the background service; returns the exit code.

    write: prints on standard output. progress: shows how far a long piece of work is.
    """
    cache_dir = getattr(arguments, "cache_dir", None)
    settings = load_settings(getattr(arguments, "vault", None), cache_dir)
    as_json = getattr(arguments, "json", False)
    if arguments.install or arguments.uninstall:
        return _background(arguments, settings, write, as_json=as_json)

    def say(event: WatchEvent) -> None:
        line = to_json_line(event) if as_json else render_event(event)
        if line:
            write(line + "\n")

    def load() -> Settings:
        return load_settings(settings.vault, cache_dir)

    watcher = Watcher(load, say, progress=Progress(progress), embed=not arguments.no_embed)
    stops = [name for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]
    for name in stops:
        number = getattr(signal, name)
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: watcher.stop())
    watcher.run()
    if watcher.hangs:
        # Python would wait for it, and whoever stops a service kills it before that.
        os._exit(0)
    return 0


def _background(
    arguments: "argparse.Namespace",
    settings: Settings,
    write: "Callable[[str], None]",
    *,
    as_json: bool,
) -> int:
    """Show what would be done, and do it when that is wished."""
    plan = plan_background(settings, embed=not arguments.no_embed)
    if not arguments.yes:
        preview = render_background if arguments.install else render_background_removal
        write((to_json(plan) if as_json else preview(plan)) + "\n")
        if not agreed(write, as_json=as_json):
            return 0
    reply = install_background(plan) if arguments.install else remove_background(plan)
    write((to_json(reply) if as_json else render_background(reply)) + "\n")
    return 0 if reply.done else 1
