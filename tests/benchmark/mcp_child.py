"""What the mcp_*.py scripts share: a child that speaks MCP over its standard streams.

The standard library only, and little of it: Linux carries the resident set of a script over to
its children at their start, so what is imported here is a lower bound of what can be measured of
them. The wire is the same for every server: one JSON object a line, in UTF-8.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import select
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Self

MEGABYTE = 1_000_000
PROTOCOL = "2025-06-18"
ANSWER_SECONDS = 120.0
EXIT_SECONDS = 30.0
CHUNK = 65_536
NO_SUCH_METHOD = {"code": -32601, "message": "This client answers ping alone."}
COMPACT = (",", ":")


class McpError(Exception):
    """The server does not keep to the protocol, or does not answer; the message says how."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response of the server, and when its line was complete (``time.perf_counter``)."""

    at: float
    message: dict[str, Any]
    size: int  # of its line, in characters

    @property
    def result(self) -> dict[str, Any]:
        """The result. McpError when the server answered with an error."""
        if not isinstance(self.message.get("result"), dict):
            raise McpError(f"answered {self.message.get('error')}")
        result: dict[str, Any] = self.message["result"]
        return result


@dataclass(frozen=True, slots=True)
class Ended:
    """How a server ended, and what its whole life cost."""

    exit_code: int
    cpu: float  # seconds, user and system, with the descendants it waited for
    peak: float  # peak resident set, 10^6 bytes
    seconds: float  # from the closing of its standard input to its end
    killed: bool  # it did not end by itself
    unasked: int  # responses that came after the closing, or with an id nobody waits for


class Server:
    """A server of the stdio transport, from its start to its end.

    One thread at a time may use it. Requests of the server are answered at once (a ping as such,
    all others as unknown), notifications are counted.
    """

    def __init__(
        self, command: Sequence[str], errors: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start it. `errors` is the file its standard error goes to. OSError if it cannot start."""
        self.notices = 0
        self._errors = errors
        self._buffer = bytearray()
        self._answers: deque[Answer] = deque()
        self._next_id = 1
        self._open: set[int] = set()  # ids that wait for an answer
        self._unasked = 0
        self._ended: Ended | None = None
        self._closed_output = False
        with errors.open("ab") as stream:
            self.started = time.perf_counter()
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                bufsize=0,
                process_group=0,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._ended is None:
            os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
        self._input.close()
        self._output.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def complaint(self) -> str:
        """The last of what it wrote to standard error."""
        return self._errors.read_text("utf-8", "replace").strip()[-500:]

    def cpu(self) -> float:
        """User and system seconds so far, in steps of a hundredth, with those of waited children.

        OSError where there is no /proc (proc(5)), or when it has ended.
        """
        stat = Path(f"/proc/{self.pid}/stat").read_text("utf-8", "replace")
        # Behind the name, which may hold anything: utime, stime, cutime, cstime.
        ticks = stat.rpartition(")")[2].split()[11:15]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def ask(self, method: str, params: Mapping[str, object] | None = None) -> int:
        """Send a request and do not wait; its id."""
        number = self._next_id
        self._next_id += 1
        self._open.add(number)
        self._send({"id": number, "method": method, "params": dict(params or {})})
        return number

    def tell(self, method: str) -> None:
        """Send a notification."""
        self._send({"method": method})

    def answer(self, seconds: float = ANSWER_SECONDS) -> Answer:
        """The next response to anything asked. McpError if none comes in time."""
        until = time.perf_counter() + seconds
        while not self._answers:
            self._listen(until)
            if self._closed_output and not self._answers:
                raise McpError(f"ended while {len(self._open)} requests waited: {self.complaint}")
        return self._answers.popleft()

    def request(self, method: str, params: Mapping[str, object] | None = None) -> Answer:
        """Ask one thing and wait for its answer; nothing else may be waiting."""
        number = self.ask(method, params)
        answer = self.answer()
        if answer.message["id"] != number:
            raise McpError(f"answered {answer.message['id']} when {number} was asked")
        return answer

    def initialize(self, protocol: str = PROTOCOL) -> Answer:
        """Shake hands; the answer to initialize."""
        params = {
            "protocolVersion": protocol,
            "capabilities": {},
            "clientInfo": {"name": "vaultmem-benchmark", "version": "1"},
        }
        answer = self.request("initialize", params)
        if "protocolVersion" not in answer.result:
            raise McpError("named no protocol version")
        self.tell("notifications/initialized")
        return answer

    def tools(self) -> tuple[list[dict[str, Any]], Answer]:
        """All tools, and the answer to the last tools/list."""
        tools: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            answer = self.request("tools/list", {} if cursor is None else {"cursor": cursor})
            tools += answer.result["tools"]
            cursor = answer.result.get("nextCursor")
            if cursor is None:
                return tools, answer

    def finish(self, seconds: float = EXIT_SECONDS) -> Ended:
        """Close its standard input and wait for its end; after so many seconds it is killed."""
        closed = time.perf_counter()
        self._input.close()
        # A signal by number: Popen's own would reap the child, and its usage would be lost.
        killer = threading.Timer(seconds, os.killpg, (self.pid, signal.SIGKILL))
        killer.start()
        try:
            late = self._open.copy()
            while not self._closed_output:
                self._listen(math.inf)
            _, status, usage = os.wait4(self.pid, 0)
            killed = not killer.is_alive()
        finally:
            killer.cancel()
            killer.join()
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._ended = Ended(
            exit_code=self._process.returncode,
            cpu=usage.ru_utime + usage.ru_stime,
            peak=megabytes(usage.ru_maxrss),
            seconds=time.perf_counter() - closed,
            killed=killed,
            unasked=self._unasked + len(late - self._open),
        )
        return self._ended

    def _send(self, message: Mapping[str, object]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, separators=COMPACT) + "\n"
        data = memoryview(line.encode())
        try:
            while data:
                data = data[self._input.write(data) :]
        except BrokenPipeError:
            raise McpError(f"does not read any more: {self.complaint}") from None

    def _listen(self, until: float) -> None:
        """Take in what it says next. McpError when it says nothing until then."""
        left = None if until == math.inf else max(0.0, until - time.perf_counter())
        if not select.select([self._output], [], [], left)[0]:
            raise McpError(f"did not answer in time; {len(self._open)} requests wait")
        data = os.read(self._output.fileno(), CHUNK)
        if not data:
            self._closed_output = True
            if self._buffer:
                raise McpError(f"ended within a line: {bytes(self._buffer[:80])!r}")
            return
        at = time.perf_counter()
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._buffer += line
            self._hear(bytes(self._buffer), at)
            self._buffer.clear()
        self._buffer += rest

    def _hear(self, line: bytes, at: float) -> None:
        try:
            text = line.decode()
            message = json.loads(text)
        except ValueError:
            raise McpError(f"wrote what is no JSON to standard output: {line[:80]!r}") from None
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise McpError(f"wrote what is no JSON-RPC: {line[:80]!r}")
        number = message.get("id")
        if "method" in message:
            if number is None:
                self.notices += 1
            else:
                pong = {"result": {}} if message["method"] == "ping" else {"error": NO_SUCH_METHOD}
                self._send({"id": number, **pong})
        elif number in self._open:
            self._open.remove(number)
            self._answers.append(Answer(at, message, len(text)))
        else:
            self._unasked += 1


@dataclass(slots=True)
class Contestant:
    """A server to measure: what it is called, how it is started, and what is asked of it."""

    name: str
    command: tuple[str, ...]
    tool: str = "search"
    argument: str = "query"  # where the query goes; "" when `extra` says so
    extra: dict[str, object] | None = None


class AddContestant(argparse.Action):
    """`--server NAME COMMAND`: the options behind it are about it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Start another one."""
        assert isinstance(values, list)
        name, command = values
        words = tuple(shlex.split(command))
        if not words:
            parser.error(f"the command of {name} is empty")
        if any(name == known.name for known in namespace.servers):
            parser.error(f"two servers are called {name}")
        namespace.servers.append(Contestant(name, words))


class OfContestant(argparse.Action):
    """An option about the server named before it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Say so of the last one."""
        if not namespace.servers:
            parser.error(f"{option_string} stands behind the --server that it is about")
        setattr(namespace.servers[-1], self.dest, values)


def contestants_parser(doc: str | None) -> argparse.ArgumentParser:
    """The options that the scripts about several servers share."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.set_defaults(servers=[])
    parser.add_argument(
        "--server",
        nargs=2,
        action=AddContestant,
        metavar=("NAME", "COMMAND"),
        help="a server to measure, and how it is started; may be given several times",
    )
    parser.add_argument("--protocol", default=PROTOCOL, help="version to ask for")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def environment() -> dict[str, str]:
    """The caller's, without a ban on bytecode files.

    With it a fresh installation would compile its modules at every start.
    """
    kept = dict(os.environ)
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept


def megabytes(maximum_resident_set: int) -> float:
    """Convert ``ru_maxrss``, which is in bytes on macOS and in KiB elsewhere."""
    unit = 1 if sys.platform == "darwin" else 1024
    return maximum_resident_set * unit / MEGABYTE


def peak_floor() -> float:
    """The peak resident set of this process, 10^6 bytes; children start with it."""
    return megabytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def positive(text: str) -> int:
    """Parse a positive integer. ValueError otherwise, which argparse reports."""
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def summary(values: Sequence[float]) -> dict[str, float]:
    """The median and the ends."""
    return {
        "median": round(statistics.median(values), 4),
        "min": round(min(values), 4),
        "max": round(max(values), 4),
    }


def percentile(values: Sequence[float], share: float) -> float:
    """By nearest rank."""
    return sorted(values)[max(1, math.ceil(share * len(values))) - 1]


def median_ratio(values: Sequence[float], base: Sequence[float]) -> float | None:
    """The median of the ratios within one round each; None without a base."""
    ratios = [value / first for value, first in zip(values, base, strict=True) if first > 0]
    return round(statistics.median(ratios), 3) if ratios else None


@contextmanager
def errors_folder() -> Iterator[Path]:
    """A folder for what servers write to standard error; gone afterwards."""
    signal.signal(signal.SIGTERM, _stop)
    with tempfile.TemporaryDirectory(prefix="vaultmem-mcp-") as folder:
        yield Path(folder)


def _stop(signum: int, frame: FrameType | None) -> NoReturn:
    """End on a termination signal as on Ctrl-C, so that no child is left behind."""
    raise KeyboardInterrupt


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a script found."""

    figures: dict[str, Any]  # for --json
    table: list[str]
    failures: list[str]  # what does not hold; [] when all does


def run(measure: Callable[[argparse.Namespace], Outcome], options: argparse.Namespace) -> int:
    """Measure and print.

    Returns 0; 1 if something does not hold (the figures are printed all the same); 2 if the
    measurement cannot be made; 130 after Ctrl-C.
    """
    name = Path(sys.argv[0]).stem
    try:
        outcome = measure(options)
    except (McpError, OSError) as error:
        sys.stderr.write(f"{name}: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write(f"{name}: interrupted\n")
        return 130
    if options.json:
        figures = {**outcome.figures, "failures": outcome.failures}
        print(json.dumps(figures, indent=2, ensure_ascii=False))
    else:
        print("\n".join(outcome.table))
    for failure in outcome.failures:
        sys.stderr.write(f"CHECK FAILED: {failure}\n")
    return 1 if outcome.failures else 0
