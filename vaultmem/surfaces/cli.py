"""The command line: arguments to a request, a reply to text or JSON, an error to one line."""

import gc
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from vaultmem import __version__

if TYPE_CHECKING:
    import argparse

    from vaultmem.model.operation import Reply
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
    # Parsing makes objects by the million and next to no cycles; looking for them less often
    # spares a fortieth of a first build.
    gc.set_threshold(100_000, 20, 20)
    try:
        return _ended(arguments)
    except BrokenPipeError:
        # The reader of our output has gone; there is nobody left to tell.
        _discard_output()
        return 0


def _ended(arguments: list[str]) -> int:
    """Run a command to its exit code, with everything it printed on its way."""
    _speak_utf8()
    try:
        if arguments == ["--version"]:
            # Before any import that costs: editors and scripts ask this at every start.
            _write(f"vaultmem {__version__}\n")
            return 0
        return _run(arguments)
    except KeyboardInterrupt:
        kept = " What was indexed and embedded is kept; run it again to go on."
        _say("Interrupted." + (kept if "index" in arguments else ""))
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - ours or foreseen, it ends in one exit code
        from vaultmem.model.errors import VaultmemError

        if not isinstance(error, VaultmemError):
            import traceback

            # Ours to mend: the last line is for the person, the rest for the report.
            if sys.stderr is not None:
                traceback.print_exc()
            _say(f"This is a fault of vaultmem's own ({type(error).__name__}); please report it.")
            return VaultmemError.exit_code
        _say(str(error))
        return error.exit_code


def _run(arguments: list[str]) -> int:
    try:
        parser = _parser()
        parsed, rest = parser.parse_known_args(arguments)
        words = getattr(parsed, "query", getattr(parsed, "client", None))
        if rest and words is not None and not any(word.startswith("-") for word in rest):
            words += rest  # words behind an option: `search sync -k 3 devices`
        elif rest:
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
    except SystemExit as done:  # --help and --version have printed
        _write("")
        return int(done.code or 0)
    command: Callable[[Any], int] = parsed.command
    return command(parsed)


def _parser() -> "argparse.ArgumentParser":
    import argparse

    from vaultmem.model.errors import UsageError

    class Parser(argparse.ArgumentParser):
        """One line for a mistake, like every other error; --help shows the usage."""

        def error(self, message: str) -> NoReturn:
            raise UsageError(f"{message}. `{self.prog} --help` shows how.")

        def _print_message(self, message: str, file: Any = None) -> None:
            _write(message)

    common = Parser(add_help=False)
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
    parser = Parser(
        prog="vaultmem",
        description="Makes an Obsidian vault the memory of a person and their AI assistants.",
        epilog=_EPILOG + _error_codes(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"vaultmem {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    room = Parser(add_help=False)
    room.add_argument(
        "--max-tokens", type=_number, metavar="N", help="room for the reply; says what has none"
    )
    room.add_argument("--cursor", help="`next` of a reply in JSON, to get what it left out")

    def add(
        name: str, run: Callable[[Any], int], about: str, *, long: bool = False
    ) -> "argparse.ArgumentParser":
        parents = [common, room] if long else [common]
        command = commands.add_parser(
            name, help=about, description=about, parents=parents, allow_abbrev=False
        )
        command.set_defaults(command=run)
        return command

    index = add("index", _index, "bring the index up to date with the vault", long=True)
    index.add_argument("--rebuild", action="store_true", help="start from nothing")
    index.add_argument(
        "--verify",
        action="store_true",
        help="read every note again, compare with an index made anew beside it, and repair",
    )
    index.add_argument(
        "--accept-deletions",
        action="store_true",
        help="forget missing notes, even if they are so many that the disk may be at fault",
    )
    index.add_argument(
        "--no-embed", action="store_true", help="by words only; vectors are made another time"
    )

    search = add("search", _search, "find passages by words, meaning and filters", long=True)
    search.add_argument("query", nargs="*", help="words; put -- before one that begins with a dash")
    search.add_argument("-k", type=_number, metavar="N", help="hits at most")
    search.add_argument("--mode", choices=["hybrid", "keyword", "semantic", "graph"])
    search.add_argument("--explain", action="store_true", help="show what each hit's score is from")
    search.add_argument("--tag", action="append", default=[], help="a tag; parents match children")
    search.add_argument("--path", action="append", default=[], help="a folder, note or glob")
    search.add_argument("--kind", action="append", default=[], help="a kind of note")
    search.add_argument("--after", metavar="DATE", help="dated on or after, e.g. 2026-05")
    search.add_argument("--before", metavar="DATE", help="dated on or before")
    search.add_argument(
        "--without",
        action="append",
        default=[],
        choices=["passage", "window", "note", "vector"],
        help="leave a channel out, to see what it does",
    )
    search.add_argument("--passages", action="store_true", help="every passage, not one a note")
    search.add_argument("--detail", choices=["index", "full"], help="index: a line for each hit")

    read = add("read", _read, "show a note, or the section or block behind a #", long=True)
    read.add_argument("note", help="path, name or alias; #Heading or #^block may follow")

    links = add("links", _links, "show where a note's links lead, and what links to it", long=True)
    links.add_argument("note", help="path, name or alias")

    lint = "list broken and ambiguous links, orphans, and notes with problems"
    add("lint", _lint, lint, long=True)
    secrets = add(
        "secrets",
        _secrets,
        "list credentials found in notes, and allow what only looks like one",
        long=True,
    )
    secrets.add_argument("action", nargs="?", choices=["list", "allow", "revoke"], default="list")
    secrets.add_argument("fingerprint", nargs="*", help="of the secret, as the list shows it")
    watch = add("watch", _watch, "keep the index up to date for as long as this runs")
    watch.add_argument(
        "--no-embed", action="store_true", help="by words only; vectors are made another time"
    )
    service = watch.add_mutually_exclusive_group()
    service.add_argument(
        "--install", action="store_true", help="run it in the background at every login"
    )
    service.add_argument("--uninstall", action="store_true", help="run it there no more")
    watch.add_argument("--yes", action="store_true", help="with these two: without asking")
    connect = add("connect", _connect, "connect assistants to this vault, or show how they stand")
    connect.add_argument(
        "client",
        nargs="*",
        metavar="CLIENT",
        help="claude-code, claude-desktop, cursor, vscode, codex, gemini, cline or windsurf",
    )
    connect.add_argument("--all", action="store_true", help="every one that is found")
    connect.add_argument(
        "--name", help="of the server in their files, for a second vault; else vaultmem"
    )
    connect.add_argument(
        "--print", action="store_true", help="show what to write by hand, and where"
    )
    connect.add_argument("--remove", action="store_true", help="take the server out again")
    connect.add_argument(
        "--replace",
        action="store_true",
        help="also where that name is another vault's, or not vaultmem's",
    )
    connect.add_argument("--yes", action="store_true", help="without asking")
    add("status", _status, "show counts, freshness and problems", long=True)
    why = add("why", _why, "tell why a note is, or is not, found", long=True)
    why.add_argument("note", metavar="PATH", help="path in the vault, or a note's name")
    add("doctor", _doctor, "check the installation, the vault and the index", long=True)
    measure = "measure search by questions whose notes are known"
    evaluation = add("eval", _eval, measure, long=True)
    evaluation.add_argument("file", metavar="QUESTIONS", help="a file with one JSON object a line")
    evaluation.add_argument("--mode", choices=["hybrid", "keyword", "semantic", "graph"])
    evaluation.add_argument(
        "--no-compare",
        action="store_true",
        help="not in the other modes too, nor with each channel left out",
    )
    add("config", _config, "list every setting, its value and where that comes from", long=True)
    add("demo", _demo, "show vaultmem at work on a sample vault")
    selftest = add(
        "selftest", _selftest, "try on this computer that kills, crowds and edits spoil no index"
    )
    selftest.add_argument(
        "--in", dest="folder", metavar="FOLDER", help="where it is tried (else where indexes lie)"
    )
    selftest.add_argument("--seed", type=_number, metavar="N", help="to try the same again")
    many = selftest.add_mutually_exclusive_group()
    many.add_argument(
        "--cases", default="1", metavar="N", help="N times as many cases, 0.1 for a glance"
    )
    many.add_argument("--long", action="store_true", help="ten times as many cases")
    selftest.add_argument(
        "--keep", action="store_true", help="keep the folders of cases that were broken"
    )
    setup = add("setup", _setup, "index the vault, connect the assistants found, check it all")
    setup.add_argument("--yes", action="store_true", help="without asking")
    mcp = add("mcp", _mcp, "serve assistants by the Model Context Protocol, on standard input")
    mcp.add_argument(
        "--tools",
        choices=["default", "all"],
        default="default",
        help="all: those for the care of the index and the vault as well",
    )
    mcp.add_argument(
        "--http", action="store_true", help="over HTTP instead, on this computer alone"
    )
    mcp.add_argument(
        "--port", type=_number, default=27125, metavar="N", help="with --http; 0 for a free one"
    )
    mcp.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default="warning",
        help="how much is said on standard error",
    )
    return parser


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{text!r} is no whole number") from None


def _error_codes() -> str:
    """The codes of the error kinds, one line each, from the tree itself."""
    from vaultmem.model.errors import all_errors

    kinds = [
        (kind.exit_code, kind.code, (kind.__doc__ or "").split("\n")[0]) for kind in all_errors()
    ]
    lines = [f"  {code:2}  {name}: {about}" for code, name, about in kinds]
    return "\n".join([*lines, f" {INTERRUPTED}  interrupted"])


def _index(arguments: "argparse.Namespace") -> int:
    from vaultmem.model.errors import all_errors
    from vaultmem.service.mending import REBUILT
    from vaultmem.service.operations.index import IndexReply, IndexRequest, index
    from vaultmem.surfaces.render import render_index

    def verdict(reply: IndexReply) -> int:
        if reply.verified is not None and (reply.verified.differences or REBUILT in reply.degraded):
            return 1
        if reply.embedder is None or not reply.embedder.problem:
            return 0
        _say(reply.embedder.problem)
        return next(kind.exit_code for kind in all_errors() if kind.code == reply.embedder.code)

    request = IndexRequest(
        rebuild=arguments.rebuild,
        embed=not arguments.no_embed,
        accept_deletions=arguments.accept_deletions,
        verify=arguments.verify,
        **_room(arguments),
    )
    return _answer(arguments, lambda memory: index(memory, request), render_index, verdict)


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
        without=tuple(arguments.without),
        detail=arguments.detail,
        **_room(arguments),
    )
    return _answer(
        arguments,
        lambda memory: search(memory, request),
        lambda reply: render_search(reply, explain=arguments.explain),
    )


def _read(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.operations.read import ReadRequest, read
    from vaultmem.surfaces.render import render_read

    request = ReadRequest(arguments.note, **_room(arguments))
    return _answer(arguments, lambda memory: read(memory, request), render_read)


def _links(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.operations.related import RelatedRequest, related
    from vaultmem.surfaces.render import render_links

    request = RelatedRequest(arguments.note, **_room(arguments))
    return _answer(arguments, lambda memory: related(memory, request), render_links)


def _lint(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.operations.lint import LintReply, LintRequest, lint
    from vaultmem.surfaces.render import render_lint

    def verdict(reply: LintReply) -> int:
        return int(bool(reply.unresolved or reply.ambiguous or reply.problems or reply.secrets))

    request = LintRequest(**_room(arguments))
    return _answer(arguments, lambda memory: lint(memory, request), render_lint, verdict)


def _secrets(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.operations.secrets import (
        AllowRequest,
        SecretsRequest,
        allow_secret,
        secrets,
    )
    from vaultmem.surfaces.render import render_allowed, render_secrets

    if arguments.action == "list":
        listing = SecretsRequest(**_room(arguments))
        return _answer(arguments, lambda memory: secrets(memory, listing), render_secrets)
    request = AllowRequest(
        tuple(arguments.fingerprint), revoke=arguments.action == "revoke", **_room(arguments)
    )
    return _answer(arguments, lambda memory: allow_secret(memory, request), render_allowed)


def _watch(arguments: "argparse.Namespace") -> int:
    from vaultmem.surfaces.cli_watch import watch

    return watch(arguments, _write, _progress().report)


def _connect(arguments: "argparse.Namespace") -> int:
    from vaultmem.surfaces.cli_connect import connect

    return connect(arguments, _write)


def _status(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.operations.status import StatusRequest, status
    from vaultmem.surfaces.render import render_status

    request = StatusRequest(**_room(arguments))
    return _answer(arguments, lambda memory: status(memory, request), render_status)


def _doctor(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.operations.status import StatusReply, StatusRequest, status
    from vaultmem.surfaces.render import render_doctor

    def verdict(reply: StatusReply) -> int:
        return int(not all(check.ok for check in reply.checks))

    request = StatusRequest(checks=True, assistants=True, **_room(arguments))
    return _answer(arguments, lambda memory: status(memory, request), render_doctor, verdict)


def _config(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.operations.status import StatusRequest, status
    from vaultmem.surfaces.render import render_config

    request = StatusRequest(settings=True, **_room(arguments))
    return _answer(arguments, lambda memory: status(memory, request), render_config)


def _why(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.operations.inspect import InspectRequest, inspect
    from vaultmem.surfaces.render import render_why

    request = InspectRequest(arguments.note, **_room(arguments))
    return _answer(arguments, lambda memory: inspect(memory, request), render_why)


def _eval(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.operations.evaluate import EvaluateRequest, evaluate, read_questions
    from vaultmem.surfaces.render_eval import render_eval

    request = EvaluateRequest(
        questions=read_questions(arguments.file),
        source=arguments.file,
        mode=arguments.mode,
        compare=not arguments.no_compare,
        **_room(arguments),
    )
    return _answer(arguments, lambda memory: evaluate(memory, request), render_eval)


def _demo(arguments: "argparse.Namespace") -> int:
    from vaultmem.service.demo import run_demo
    from vaultmem.surfaces.render import render_demo

    reply = run_demo()
    _print(reply, render_demo(reply), as_json=getattr(arguments, "json", False))
    return int(not reply.passed)


def _selftest(arguments: "argparse.Namespace") -> int:
    from vaultmem.surfaces.cli_selftest import selftest

    return selftest(arguments, _write, _progress())


def _room(arguments: "argparse.Namespace") -> dict[str, Any]:
    """What is said of the reply's size."""
    return {"max_tokens": arguments.max_tokens, "cursor": arguments.cursor}


def _setup(arguments: "argparse.Namespace") -> int:
    from vaultmem.surfaces.cli_setup import setup

    return setup(arguments, _write, _progress())


def _mcp(arguments: "argparse.Namespace") -> int:
    from vaultmem.surfaces.cli_mcp import mcp, mcp_over_http

    return mcp_over_http(arguments, _say) if arguments.http else mcp(arguments)


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
    _print(reply, "" if as_json else render(reply) + _left_out(reply), as_json=as_json)
    for notice in dict.fromkeys(memory.notices):
        if notice not in reply.degraded:
            _say(notice)
    return verdict(reply)


def _left_out(reply: "Reply") -> str:
    """What had no room, and how to get it."""
    if reply.next is None:
        return ""
    from vaultmem.surfaces.text import visible_line

    what = "; ".join(reply.omitted)
    return "\n" + visible_line(f"… left out: {what} (--cursor {reply.next})")


def _print(reply: object, text: str, *, as_json: bool) -> None:
    if as_json:
        from vaultmem.surfaces.json_reply import to_json

        text = to_json(reply)
    _write(text + "\n")


def _write(text: str) -> None:
    """Print, and know that it was printed. Raises OutputFailed and BrokenPipeError."""
    if sys.stdout is None:
        return  # started without one (`>&-`)
    _clear_counting()
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        from vaultmem.model.errors import OutputFailed

        _discard_output()
        raise OutputFailed(f"The answer could not be written: {error.strerror}.") from None


def _discard_output() -> None:
    """Give what is still buffered, and the flush at exit, somewhere to go."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _progress() -> "Progress":
    """A counting line on a terminal, and Ctrl-C taken between two notes, never inside one."""
    import signal

    from vaultmem.service.application import Progress

    terminal = _on_terminal()
    shown_at = began_at = 0.0
    counting = asked = False

    def interrupt(number: int, frame: object) -> None:
        nonlocal asked
        if not counting or asked:
            raise KeyboardInterrupt
        asked = True

    def report(stage: str, done: int, total: int) -> None:
        nonlocal shown_at, began_at, counting
        if asked:
            raise KeyboardInterrupt
        counting = done < total
        if not terminal:
            return
        import time

        now = time.monotonic()
        if done == 0:
            began_at = now
        if total < _WORTH_SHOWING.get(stage, 1) or (0 < done < total and now - shown_at < 0.1):
            return
        shown_at = now
        if done >= total:
            _clear_counting()
            return
        line = _progress_line(stage, done, total, now - began_at)
        sys.stderr.write(f"\r{line}\033[K")
        sys.stderr.flush()
        _counting_shown.set()

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    return Progress(report)


# Fewer are done before anybody has read that they are being done.
_WORTH_SHOWING = {"index": 200, "embed": 20}


def _progress_line(stage: str, done: int, total: int, seconds: float) -> str:
    """How far it is; for slow work also how fast, and how long it will take."""
    if stage == "wait":
        return "waiting for another vaultmem process that indexes this vault"
    if stage != "embed":
        noun = {"index": "notes", "verify": "tables", "selftest": "cases"}.get(stage, "searches")
        return f"{stage}: {done:,} of {total:,} {noun}"
    line = f"embed: {done:,} of {total:,} passages"
    if done and seconds > 0.3:
        rate = done / seconds
        minutes, rest = divmod(round((total - done) / rate), 60)
        line += f", {rate:.1f}/s, {minutes}:{rest:02} left"
    return line


_counting_shown = threading.Event()


def _clear_counting() -> None:
    """Take the counting line away, which has no end of its own, before anything else is said."""
    if _counting_shown.is_set() and sys.stderr is not None:
        _counting_shown.clear()
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()


def _on_terminal() -> bool:
    """Whether somebody watches what goes to standard error; it may not be there (`2>&-`)."""
    return sys.stderr is not None and sys.stderr.isatty()


def _say(message: str) -> None:
    if sys.stderr is None:
        return
    from vaultmem.surfaces.text import visible_line

    _clear_counting()
    sys.stderr.write(f"vaultmem: {visible_line(message)}\n")


def _speak_utf8() -> None:
    """Notes are in every script, whatever the terminal's locale claims."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")
