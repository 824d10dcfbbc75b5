"""`vaultmem selftest`: the promises, tried on this computer."""

import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from vaultmem.model.errors import UsageError
from vaultmem.service.application import Progress
from vaultmem.service.selftest import (
    SelftestCheck,
    SelftestGround,
    SelftestRequest,
    default_folder,
    run_selftest,
)
from vaultmem.surfaces.json_reply import to_json
from vaultmem.surfaces.render_selftest import render_check, render_ground, render_verdict

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

# Ten times as many cases, about three minutes.
_LONG = 10.0


def selftest(
    arguments: "argparse.Namespace", write: "Callable[[str], None]", progress: Progress
) -> int:
    """Try the promises; returns the exit code.

    write: prints on standard output.
    """
    as_json = getattr(arguments, "json", False)
    folder = Path(arguments.folder or default_folder(getattr(arguments, "cache_dir", None)))
    request = SelftestRequest(
        folder,
        seed=arguments.seed,
        times=_LONG if arguments.long else _times(arguments.cases),
        keep=arguments.keep,
    )

    def began(ground: SelftestGround) -> None:
        if not as_json:
            write(render_ground(ground) + "\n")

    def tried(check: SelftestCheck) -> None:
        if not as_json:
            write(render_check(check) + "\n")

    _end_as_by_ctrl_c()
    reply = run_selftest(request, began=began, tried=tried, progress=progress)
    text = to_json(reply) if as_json else render_verdict(reply, _again(arguments, reply.seed))
    write(text + "\n")
    return 0 if reply.kept else 1


def _times(cases: str) -> float:
    try:
        return float(cases)
    except ValueError:
        raise UsageError(
            f"--cases is {cases!r}; a number is needed, such as 0.1 or 2: so many times as many."
        ) from None


def _end_as_by_ctrl_c() -> None:
    """Whoever ends this process has it leave nothing behind."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for name in ("SIGTERM", "SIGHUP", "SIGBREAK"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)


def _again(arguments: "argparse.Namespace", seed: int) -> str:
    """The command that does the same again, and keeps what is broken."""
    words = ["vaultmem", "selftest", "--seed", str(seed), "--keep"]
    if arguments.long:
        words.append("--long")
    elif _times(arguments.cases) != 1:
        words += ["--cases", arguments.cases]
    if arguments.folder:
        words += ["--in", arguments.folder]
    elif getattr(arguments, "cache_dir", None):
        words += ["--cache-dir", arguments.cache_dir]
    return shlex.join(words)
