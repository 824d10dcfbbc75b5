r"""Measure what it costs to connect to MCP servers over stdio, side by side.

    python tests/benchmark/mcp_handshake.py --rounds 7 \
        --server ours "vaultmem --vault V --cache-dir C mcp" \
        --server theirs "env HOME=H hvk --vault V mcp"

In every round each server is started in turn, so that a slow minute of the machine falls on all:
initialize, the notice that it is done, tools/list until no cursor is left, end of input. A server
is a child process, started as a client starts it; a command may begin with ``env NAME=VALUE``.
One round before the first is not counted: a fresh installation compiles its modules then.

Wall seconds run from the start of the process to the answer, and measure the neighbours as well
on a shared machine. CPU seconds (user and system) are those of the process when tools/list is
answered (``/proc``, in steps of a hundredth), and of its whole life (``os.wait4``), in which it
may have done more than it was asked for. The peak of the resident set is of the whole life too;
one below ``peak_floor_mb`` means only "no more than that".

Schema tokens are the characters of compact JSON of name, description and input schema of all
tools, divided by four; list tokens those of the whole answers, output schemas included.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from mcp_child import (
    COMPACT,
    Contestant,
    McpError,
    Outcome,
    Server,
    contestants_parser,
    environment,
    errors_folder,
    median_ratio,
    peak_floor,
    positive,
    run,
    summary,
)

CHARACTERS_PER_TOKEN = 4
SHOWN_TO_MODELS = ("name", "description", "inputSchema")


@dataclass(frozen=True, slots=True)
class Sample:
    """One connection."""

    initialize_s: float  # wall, from the start of the process
    tools_list_s: float  # wall, from the start of the process
    cpu_listed_s: float  # CPU at the answer of tools/list; NaN where there is no /proc
    cpu_s: float  # CPU of the whole life
    peak_mb: float
    exit_s: float  # wall, from the end of input to the end of the process


@dataclass(frozen=True, slots=True)
class Offer:
    """What a server offers."""

    server: str  # name and version it gives itself
    protocol: str
    tools: tuple[str, ...]
    schema_tokens: int
    list_tokens: int
    instructions_tokens: int


def tokens(value: object) -> int:
    """A quarter of the characters of the compact JSON, or of a text."""
    text = (
        value
        if isinstance(value, str)
        else json.dumps(value, separators=COMPACT, ensure_ascii=False)
    )
    return round(len(text) / CHARACTERS_PER_TOKEN)


def offer_of(initialized: dict[str, Any], tools: list[dict[str, Any]]) -> Offer:
    """What stands in the answers."""
    info = initialized.get("serverInfo", {})
    shown = [{name: tool[name] for name in SHOWN_TO_MODELS if name in tool} for tool in tools]
    return Offer(
        server=f"{info.get('name')} {info.get('version')}",
        protocol=initialized["protocolVersion"],
        tools=tuple(tool["name"] for tool in tools),
        schema_tokens=tokens(shown),
        list_tokens=tokens(tools),
        instructions_tokens=tokens(initialized.get("instructions") or ""),
    )


def connect(contestant: Contestant, protocol: str, folder: Path) -> tuple[Sample, Offer, list[str]]:
    """Connect once: what it cost, what is offered, and what does not hold."""
    errors = folder / f"{contestant.name}.err"
    with Server(contestant.command, errors, environment()) as server:
        initialized = server.initialize(protocol)
        tools, listed = server.tools()
        try:
            cpu_listed = server.cpu()
        except OSError:
            cpu_listed = float("nan")
        ended = server.finish()
    sample = Sample(
        initialize_s=initialized.at - server.started,
        tools_list_s=listed.at - server.started,
        cpu_listed_s=cpu_listed,
        cpu_s=ended.cpu,
        peak_mb=ended.peak,
        exit_s=ended.seconds,
    )
    failures = []
    if ended.killed:
        failures.append(f"{contestant.name} did not end when its input did")
    elif ended.exit_code != 0:
        failures.append(f"{contestant.name} ended with {ended.exit_code}: {server.complaint}")
    if ended.unasked:
        failures.append(f"{contestant.name} answered {ended.unasked} times unasked")
    return sample, offer_of(initialized.result, tools), failures


def measure(options: Namespace) -> Outcome:
    """Connect to each server in every round."""
    samples: dict[str, list[Sample]] = {server.name: [] for server in options.servers}
    offers: dict[str, Offer] = {}
    failures: dict[str, None] = {}
    with errors_folder() as folder:
        for number in range(options.rounds + 1):
            for contestant in options.servers:
                try:
                    sample, offer, wrong = connect(contestant, options.protocol, folder)
                except McpError as error:
                    raise McpError(f"{contestant.name} {error}") from error
                failures.update(dict.fromkeys(wrong))
                if offers.setdefault(contestant.name, offer) != offer:
                    failures[f"{contestant.name} does not offer the same each time"] = None
                if number > 0:
                    samples[contestant.name].append(sample)
    return Outcome(
        figures=figures_of(samples, offers, options.rounds),
        table=table_of(samples, offers, options.rounds),
        failures=list(failures),
    )


def values_of(samples: list[Sample], measure: str) -> list[float]:
    """One value a round."""
    return [getattr(sample, measure) for sample in samples]


MEASURES = tuple(field.name for field in fields(Sample))


def figures_of(
    samples: dict[str, list[Sample]], offers: dict[str, Offer], rounds: int
) -> dict[str, Any]:
    """Plain data for JSON; ratios are against the first server, round by round."""
    first = next(iter(samples.values()))
    return {
        "rounds": rounds,
        "peak_floor_mb": round(peak_floor(), 1),
        "servers": {
            name: {
                "offer": {field.name: getattr(offers[name], field.name) for field in fields(Offer)},
                **{measure: summary(values_of(taken, measure)) for measure in MEASURES},
                "ratio": {
                    measure: median_ratio(values_of(taken, measure), values_of(first, measure))
                    for measure in MEASURES
                },
            }
            for name, taken in samples.items()
        },
    }


def table_of(samples: dict[str, list[Sample]], offers: dict[str, Offer], rounds: int) -> list[str]:
    """The result as text for people."""
    first_name, first = next(iter(samples.items()))
    lines = [
        f"{rounds} rounds; seconds; MB = 10^6 bytes; the ratio is to {first_name}, round by round",
        f"{'server':16} {'measure':14} {'median':>8} {'min':>8} {'max':>8} {'ratio':>8}",
    ]
    for name, taken in samples.items():
        for measure in MEASURES:
            values = values_of(taken, measure)
            spread = summary(values)
            ratio = median_ratio(values, values_of(first, measure))
            lines.append(
                f"{name:16} {measure:14} {spread['median']:8.3f} {spread['min']:8.3f}"
                f" {spread['max']:8.3f} {'' if ratio is None else f'{ratio:.2f}':>8}"
            )
    for name, offer in offers.items():
        lines += [
            f"{name}: {offer.server}, protocol {offer.protocol}, {len(offer.tools)} tools of"
            f" {offer.schema_tokens:,} schema tokens ({offer.list_tokens:,} for the whole list,"
            f" {offer.instructions_tokens:,} for instructions)",
            f"    {', '.join(offer.tools)}",
        ]
    lines.append(f"peaks below {peak_floor():.1f} MB are upper bounds")
    return lines


def main() -> int:
    """Run the command."""
    parser = contestants_parser(__doc__)
    parser.add_argument("--rounds", type=positive, default=7)
    options = parser.parse_args()
    if not options.servers:
        parser.error("no --server is given")
    return run(measure, options)


if __name__ == "__main__":
    sys.exit(main())
