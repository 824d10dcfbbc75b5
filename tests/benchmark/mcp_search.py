r"""Measure warm searches over MCP (stdio), side by side.

    python tests/benchmark/mcp_search.py --vault V --queries 200 \
        --server keyword "vaultmem --vault V --cache-dir C mcp" --extra '{"mode": "keyword"}' \
        --server hybrid "vaultmem --vault V --cache-dir C mcp" --extra '{"mode": "hybrid"}' \
        --server qmd "env HOME=H node qmd.js mcp" --tool query --argument "" \
        --extra '{"searches": [{"type": "lex", "query": "{query}"}], "rerank": false}'

--tool, --argument and --extra are about the server before them: the tool to call, the argument
that takes the query, and what else is given, in which ``{query}`` stands for the query too.

Queries are the lines of a file (``q`` of each object: tests/benchmark/questions), or words drawn
by a seed from the names of a vault's notes: from --words of them, of one name. No query is asked
twice of a server. Every query is put to each server in turn before the next, so that a slow
minute of the machine falls on all; the first --warm-up ones are not counted.

Wall milliseconds run from the sending of the request to the end of the line of its answer, and
measure the neighbours as well on a shared machine. CPU milliseconds a call (``/proc``) are the
mean of the server's process from the first counted call on, with whatever it does besides. Sizes
are in characters: the text a model reads, and the whole line with structured content.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_child import (
    Answer,
    Contestant,
    McpError,
    OfContestant,
    Outcome,
    Server,
    contestants_parser,
    environment,
    errors_folder,
    median_ratio,
    percentile,
    positive,
    run,
    summary,
)

PLACE = "{query}"
SHORTEST_WORD = 3
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(slots=True)
class Calls:
    """What one server has shown so far; lists hold one entry per counted call."""

    milliseconds: list[float] = field(default_factory=list)
    text: list[int] = field(default_factory=list)
    line: list[int] = field(default_factory=list)
    cpu_ms: float | None = None  # a call in the mean; None where there is no /proc
    refusals: list[str] = field(default_factory=list)


def words_of_names(vault: Path, words: int, wanted: int, chance: random.Random) -> list[str]:
    """So many different queries of adjacent words of one note's name, in lower case.

    McpError if the names do not give as many.
    """
    found: dict[str, None] = {}
    for path in sorted(vault.rglob("*.md")):
        if any(part.startswith(".") for part in path.relative_to(vault).parts):
            continue
        name = [word.lower() for word in _WORD.findall(path.stem) if len(word) >= SHORTEST_WORD]
        for start in range(len(name) - words + 1):
            found[" ".join(name[start : start + words])] = None
    if len(found) < wanted:
        raise McpError(f"The names of the notes give {len(found)} queries, {wanted} are needed.")
    return chance.sample(list(found), wanted)


def questions_of(file: Path) -> list[str]:
    """The questions of a file, one JSON object a line. McpError if a line is none."""
    questions: dict[str, None] = {}
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        try:
            questions[str(json.loads(line)["q"])] = None
        except (ValueError, KeyError, TypeError):
            raise McpError(f"{file}:{number} is no JSON object with a q.") from None
    return list(questions)


def filled(template: Any, query: str) -> Any:
    """The template with the query in its place, at any depth."""
    match template:
        case str():
            return template.replace(PLACE, query)
        case list():
            return [filled(value, query) for value in template]
        case dict():
            return {name: filled(value, query) for name, value in template.items()}
        case _:
            return template


def arguments_of(contestant: Contestant, query: str) -> dict[str, object]:
    """The arguments of the call that searches for a query."""
    arguments: dict[str, object] = filled(contestant.extra or {}, query)
    return {contestant.argument: query, **arguments} if contestant.argument else arguments


def text_of(answer: Answer) -> str:
    """What a model reads of the result of a call."""
    blocks = answer.result.get("content", [])
    return "\n".join(block["text"] for block in blocks if block.get("type") == "text")


def call(server: Server, contestant: Contestant, query: str) -> tuple[float, Answer]:
    """Search once: the wall milliseconds, and the answer."""
    params = {"name": contestant.tool, "arguments": arguments_of(contestant, query)}
    sent = time.perf_counter()
    answer = server.request("tools/call", params)
    return (answer.at - sent) * 1000, answer


def cpu_of(server: Server) -> float | None:
    """CPU seconds so far; None where there is no /proc."""
    try:
        return server.cpu()
    except OSError:
        return None


def measure(options: argparse.Namespace) -> Outcome:
    """Start all servers, and put every query to each."""
    if options.questions is not None:
        queries = questions_of(options.questions)
    else:
        chance = random.Random(options.seed)
        wanted = options.queries + options.warm_up
        queries = words_of_names(options.vault, options.words, wanted, chance)
    if len(queries) <= options.warm_up:
        raise McpError(f"There are {len(queries)} queries, too few to warm up with.")
    seen = {contestant.name: Calls() for contestant in options.servers}
    before: dict[str, float | None] = {}
    peaks: dict[str, float] = {}
    failures: list[str] = []
    with errors_folder() as folder, ExitStack() as stack:
        servers: dict[str, Server] = {}
        for one in options.servers:
            errors = folder / f"{one.name}.err"
            servers[one.name] = stack.enter_context(Server(one.command, errors, environment()))
            servers[one.name].initialize(options.protocol)
        for number, query in enumerate(queries):
            for one in options.servers:
                if number == options.warm_up:
                    before[one.name] = cpu_of(servers[one.name])
                try:
                    milliseconds, answer = call(servers[one.name], one, query)
                    text = text_of(answer)
                except McpError as error:
                    raise McpError(f"{one.name}, asked for {query!r}: {error}") from error
                if number >= options.warm_up:
                    calls = seen[one.name]
                    calls.milliseconds.append(milliseconds)
                    calls.text.append(len(text))
                    calls.line.append(answer.size)
                    if answer.result.get("isError"):
                        calls.refusals.append(f"{query!r}: {text[:200]}")
        for name, calls in seen.items():
            started, ended = before[name], cpu_of(servers[name])
            if started is not None and ended is not None:
                calls.cpu_ms = (ended - started) * 1000 / len(calls.milliseconds)
            end = servers[name].finish()
            peaks[name] = end.peak
            if end.killed:
                failures.append(f"{name} did not end when its input did")
            if calls.refusals:
                failures.append(f"{name} refused {len(calls.refusals)}, first {calls.refusals[0]}")
    return Outcome(figures_of(seen, peaks, queries), table_of(seen, peaks, queries), failures)


def figures_of(
    seen: dict[str, Calls], peaks: dict[str, float], queries: list[str]
) -> dict[str, Any]:
    """Plain data for JSON; ratios are against the first server, query by query."""
    first = next(iter(seen.values()))
    return {
        "calls": len(first.milliseconds),
        "servers": {
            name: {
                "p50_ms": round(percentile(calls.milliseconds, 0.5), 2),
                "p95_ms": round(percentile(calls.milliseconds, 0.95), 2),
                "max_ms": round(max(calls.milliseconds), 2),
                "ratio": median_ratio(calls.milliseconds, first.milliseconds),
                "cpu_ms": None if calls.cpu_ms is None else round(calls.cpu_ms, 2),
                "text_characters": summary(calls.text),
                "line_characters": summary(calls.line),
                "peak_mb": round(peaks[name], 1),
                "refusals": calls.refusals,
            }
            for name, calls in seen.items()
        },
        "queries": queries,
    }


def table_of(seen: dict[str, Calls], peaks: dict[str, float], queries: list[str]) -> list[str]:
    """The result as text for people."""
    first_name, first = next(iter(seen.items()))
    lines = [
        f"{len(first.milliseconds)} calls each; wall ms; the ratio is to {first_name}, query by"
        " query; characters of text at the median and most, of the whole line at the median",
        f"{'server':16} {'p50':>8} {'p95':>8} {'max':>8} {'ratio':>7} {'CPU':>7}"
        f" {'text':>7} {'most':>7} {'line':>7} {'peak MB':>8}",
    ]
    for name, calls in seen.items():
        spent = calls.milliseconds
        ratio = median_ratio(spent, first.milliseconds)
        lines.append(
            f"{name:16} {percentile(spent, 0.5):8.2f} {percentile(spent, 0.95):8.2f}"
            f" {max(spent):8.2f} {'' if ratio is None else f'{ratio:.2f}':>7}"
            f" {'' if calls.cpu_ms is None else f'{calls.cpu_ms:.2f}':>7}"
            f" {percentile(calls.text, 0.5):7.0f} {max(calls.text):7.0f}"
            f" {percentile(calls.line, 0.5):7.0f} {peaks[name]:8.1f}"
        )
    lines.append(f"queries: {'; '.join(queries[-5:])} …")
    return lines


def json_object(text: str) -> dict[str, object]:
    """Parse a JSON object. ArgumentTypeError otherwise, which argparse reports."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text} is no JSON object")
    return value


def main() -> int:
    """Run the command."""
    parser = contestants_parser(__doc__)
    parser.add_argument("--tool", action=OfContestant, help="what to call (search)")
    parser.add_argument("--argument", action=OfContestant, help="what takes the query (query)")
    parser.add_argument("--extra", action=OfContestant, type=json_object, help="other arguments")
    parser.add_argument("--questions", type=Path, help="a file of queries, instead of --vault")
    parser.add_argument("--vault", type=Path, help="whose notes' names give the words")
    parser.add_argument("--queries", type=positive, default=200, help="how many are counted")
    parser.add_argument("--words", type=positive, default=1, help="in a query, of one name")
    parser.add_argument("--warm-up", type=positive, default=5, help="how many are not counted")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    if not options.servers:
        parser.error("no --server is given")
    if (options.questions is None) == (options.vault is None):
        parser.error("one of --questions and --vault is needed")
    return run(measure, options)


if __name__ == "__main__":
    sys.exit(main())
