"""The command line: arguments to a request, a reply to text or JSON, an error to one line."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from vaultmem import __version__

if TYPE_CHECKING:
    import argparse

    from vaultmem.service.application import Memory, Progress

INTERRUPTED = 130

_EPILOG = """\
exit codes:
   0  done
   1  done, and found the problems it was asked to look for (lint, doctor)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. What is printed on stdout is the answer alone."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        # Before any import that costs: editors and scripts ask this at every start.
        print(f"vaultmem {__version__}")
        return 0
    _speak_utf8()
    from vaultmem.model.errors import VaultmemError

    try:
        return _run(arguments)
    except VaultmemError as error:
        _say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        _say("Interrupted. Whole notes that were indexed are kept; run it again to go on.")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; there is nobody left to tell.
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(arguments: list[str]) -> int:
    parsed = _parser().parse_args(arguments)
    command: Callable[[Any], int] = parsed.command
    return command(parsed)


def _parser() -> "argparse.ArgumentParser":
    import argparse

    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--vault",
        metavar="PATH",
        default=argparse.SUPPRESS,
        help="the folder of notes (else VAULTMEM_VAULT, else the nearest with .obsidian)",
    )
    common.add_argument(
        "--cache-dir",
        metavar="PATH",
        default=argparse.SUPPRESS,
        help="where the rebuildable index lies (else VAULTMEM_CACHE_DIR, else the user cache)",
    )
    common.add_argument(
        "--json",
        action="store_true",
        default=argparse.SUPPRESS,
        help="print one JSON value instead of text",
    )
    parser = argparse.ArgumentParser(
        prog="vaultmem",
        description="Makes an Obsidian vault the memory of a person and their AI assistants.",
        epilog=_EPILOG + _error_codes(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"vaultmem {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, run: Callable[[Any], int], about: str) -> "argparse.ArgumentParser":
        command = commands.add_parser(
            name, help=about, description=about, parents=[common], allow_abbrev=False
        )
        command.set_defaults(command=run)
        return command

    index = add("index", _index, "bring the index up to date with the vault")
    index.add_argument("--rebuild", action="store_true", help="start from nothing")

    search = add("search", _search, "find passages by words, phrases and filters")
    search.add_argument("query", nargs="*", help="words; put -- before one that begins with a dash")
    search.add_argument("-k", type=int, metavar="N", help="hits at most")
    search.add_argument("--mode", choices=["hybrid", "keyword", "semantic", "graph"])
    search.add_argument("--explain", action="store_true", help="show what each hit's score is from")
    search.add_argument("--tag", action="append", default=[], help="a tag; parents match children")
    search.add_argument("--path", action="append", default=[], help="a folder, note or glob")
    search.add_argument("--kind", action="append", default=[], help="a kind of note")
    search.add_argument("--after", metavar="DATE", help="dated on or after, e.g. 2026-05")
    search.add_argument("--before", metavar="DATE", help="dated on or before")
    search.add_argument("--passages", action="store_true", help="every passage, not one a note")

    read = add("read", _read, "show a note, or the section or block behind a #")
    read.add_argument("note", help="path, name or alias; #Heading or #^block may follow")
    read.add_argument("--max-chars", type=int, metavar="N", help="cut longer text at a line end")

    links = add("links", _links, "show where a note's links lead, and what links to it")
    links.add_argument("note", help="path, name or alias")

    add("lint", _lint, "list broken and ambiguous links, orphans, and notes with problems")
    add("status", _status, "show counts, freshness and problems")
    why = add("why", _why, "tell why a note is, or is not, found")
    why.add_argument("note", metavar="PATH", help="path in the vault, or a note's name")
    add("doctor", _doctor, "check the installation, the vault and the index")
    add("config", _config, "list every setting, its value and where that comes from")
    add("demo", _demo, "show vaultmem at work on a sample vault")
    return parser


def _error_codes() -> str:
    """The codes of the error kinds, one line each, from the tree itself."""
    from vaultmem.model.errors import all_errors

    kinds = [
        (kind.exit_code, kind.code, (kind.__doc__ or "").split("\n")[0]) for kind in all_errors()
    ]
    lines = [f"  {code:2}  {name}: {about}" for code, name, about in kinds]
    return "\n".join([*lines, f" {INTERRUPTED}  interrupted"])


def _index(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.operations.index import IndexRequest, index
    from vaultmem.surfaces.render import render_index

    request = IndexRequest(rebuild=arguments.rebuild)
    return _answer(arguments, lambda memory: index(memory, request), render_index)


def _search(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.operations.search import SearchRequest, search
    from vaultmem.surfaces.render import render_search

    request = SearchRequest(
        query=" ".join(arguments.query),
        limit=arguments.k,
        mode=arguments.mode,
        tags=tuple(arguments.tag),
        paths=tuple(arguments.path),
        kinds=tuple(arguments.kind),
        after=arguments.after,
        before=arguments.before,
        passages=arguments.passages,
    )
    return _answer(
        arguments,
        lambda memory: search(memory, request),
        lambda reply: render_search(reply, explain=arguments.explain),
    )


def _read(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.operations.read import ReadRequest, read
    from vaultmem.surfaces.render import render_read

    request = ReadRequest(arguments.note, arguments.max_chars)
    return _answer(arguments, lambda memory: read(memory, request), render_read)


def _links(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.operations.related import RelatedRequest, related
    from vaultmem.surfaces.render import render_links

    request = RelatedRequest(arguments.note)
    return _answer(arguments, lambda memory: related(memory, request), render_links)


def _lint(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.operations.lint import LintReply, LintRequest, lint
    from vaultmem.surfaces.render import render_lint

    def verdict(reply: LintReply) -> int:
        return int(bool(reply.unresolved or reply.ambiguous or reply.problems))

    return _answer(arguments, lambda memory: lint(memory, LintRequest()), render_lint, verdict)


def _status(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.operations.status import StatusRequest, status
    from vaultmem.surfaces.render import render_status

    return _answer(arguments, lambda memory: status(memory, StatusRequest()), render_status)


def _doctor(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.operations.status import StatusReply, StatusRequest, status
    from vaultmem.surfaces.render import render_doctor

    def verdict(reply: StatusReply) -> int:
        return int(not all(check.ok for check in reply.checks))

    request = StatusRequest(checks=True)
    return _answer(arguments, lambda memory: status(memory, request), render_doctor, verdict)


def _config(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.operations.status import StatusRequest, status
    from vaultmem.surfaces.render import render_config

    request = StatusRequest(settings=True)
    return _answer(arguments, lambda memory: status(memory, request), render_config)


def _why(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.operations.inspect import InspectRequest, inspect
    from vaultmem.surfaces.render import render_why

    request = InspectRequest(arguments.note)
    return _answer(arguments, lambda memory: inspect(memory, request), render_why)


def _demo(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.demo import run_demo
    from vaultmem.surfaces.render import render_demo

    reply = run_demo()
    _print(reply, render_demo(reply), as_json=getattr(arguments, "json", False))
    return int(not reply.passed)


def _answer(
    arguments: "argparse.Namespace",
    run: "Callable[[Memory], Any]",
    render: Callable[[Any], str],
    verdict: Callable[[Any], int] = lambda reply: 0,
) -> int:
    """Open the vault, run, print, close; the exit code is the verdict's."""
    from vaultmem.service.application import open_memory
    from vaultmem.service.settings import load_settings

    settings = load_settings(
        getattr(arguments, "vault", None), getattr(arguments, "cache_dir", None)
    )
    memory = open_memory(settings, progress=_progress())
    try:
        reply = run(memory)
    finally:
        memory.close()
    as_json = getattr(arguments, "json", False)
    _print(reply, "" if as_json else render(reply), as_json=as_json)
    return verdict(reply)


def _print(reply: object, text: str, *, as_json: bool) -> None:
    if as_json:
        from vaultmem.surfaces.json_reply import to_json

        text = to_json(reply)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _progress() -> "Progress":
    """A counting line on a terminal; silence elsewhere."""
    from vaultmem.service.application import Progress

    if not sys.stderr.isatty():
        return Progress()
    shown_at = 0.0

    def report(stage: str, done: int, total: int) -> None:
        nonlocal shown_at
        import time

        now = time.monotonic()
        if total < 200 or (done < total and now - shown_at < 0.1):
            return
        shown_at = now
        end = "\r\033[K" if done >= total else ""
        sys.stderr.write(f"\r{stage}: {done:,} of {total:,} notes{end}")
        sys.stderr.flush()

    return Progress(report)


def _say(message: str) -> None:
    from vaultmem.surfaces.text import visible

    sys.stderr.write(f"vaultmem: {visible(message)}\n")


def _speak_utf8() -> None:
    """Notes are in every script, whatever the terminal's locale claims."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")
