"""Let many MCP servers answer on one vault while it is watched and edited.

    python tests/benchmark/mcp_many.py VAULT --servers 8 --calls 2000

On a copy of the vault: one `vaultmem watch`, an editor that changes a note every 50 ms in the
mean (a temporary file, renamed; now and then it removes a note, or puts one back), and so many
`vaultmem mcp` over stdio, each with a client of its own that keeps several requests in flight:
search by words and by both, read, related, status, drawn by a seed over the names of the notes.

Some notes are left alone, and each is given a made-up word before all is indexed. Every request
has to be answered once, and:

- what is read of a note left alone is the text of its file, and a search for its word finds it
  first;
- what is read of an edited note is a text it had between the request and the answer;
- an answer is an error only about a note that was removed at that time, or less than --grace
  seconds before, and names that note;
- a note that was away all the time is not read;
- every server ends by itself, with 0, when its input does;
- the index equals one made anew in the end.

Latencies are wall seconds from the sending of a request to the end of the line of its answer, and
so include the wait for those before it. What answers said they could not do as asked is counted,
not judged. Without --vectors nothing is embedded, and searching by both is searching by words.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shlex
import sys
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_child import Answer, Ended, McpError, Server, percentile, positive
from watching import (
    SAVES,
    SPREAD_HEADER,
    MeasureError,
    Outcome,
    Place,
    differences,
    editable,
    file_hashes,
    made_up_word,
    options_parser,
    run,
    spread,
    spread_row,
    taken_in,
    watching,
    workplace,
)

from vaultmem.security.hidden import shown
from vaultmem.service.application import Memory
from vaultmem.service.operations.secrets import SecretsRequest, secrets

KNOWN_NOTES = 60  # left alone
EDITED_NOTES = 120
MOST_CHARACTERS = 2_000  # of these notes: their text is never too long for an answer
REMOVED_SHARE = 0.15  # of the edits, while there is a note to remove; as many put one back
MOST_REMOVED = 20
SHOWN_FAILURES = 12
START_SECONDS = 120.0

# How often each kind of call is made, in a hundred.
SHARES = {
    "search, a known word": 15,
    "search, keyword": 20,
    "search, hybrid": 15,
    "read, left alone": 20,
    "read, edited": 15,
    "related, left alone": 5,
    "related, edited": 5,
    "status": 5,
}
_MARK = re.compile(r"^Edited for the (\d+)\. time\.$", re.MULTILINE)
_WORD = re.compile(r"[^\W\d_]{3,}")
_NUMBER = re.compile(r"\d[\d,.]*")


# The notes


@dataclass(frozen=True, slots=True)
class Known:
    """A note that nobody touches."""

    path: str
    word: str  # that no other note holds
    text: str  # its file, without properties


@dataclass(frozen=True, slots=True)
class State:
    """What an edit made of a note: the number it wrote, or None for a note that is away.

    The edit was made at some time between `began` and `ended` (``time.perf_counter``).
    """

    number: int | None
    began: float
    ended: float


@dataclass(slots=True)
class Edited:
    """A note that is edited, and all it was, oldest first."""

    path: str
    text: str  # without the line that tells the edit
    states: list[State]

    def possible(self, sent: float, answered: float) -> set[int | None]:
        """What one who looks at the file once between two times may have seen."""
        first = max(0, bisect_right(self.states, sent, key=lambda state: state.ended) - 1)
        last = bisect_right(self.states, answered, key=lambda state: state.began)
        return {state.number for state in self.states[first:last]}


def body(text: str) -> str:
    """The text behind the frontmatter, without blank lines around it."""
    if text.startswith("---\n") and "\n---\n" in text:
        text = text.partition("\n---\n")[2]
    return text.strip()


def plain(file: Path) -> str | None:
    """The text of a note that is shown as it is, and is short; else None."""
    try:
        text = file.read_bytes().decode()
    except UnicodeDecodeError:
        return None
    fit = "\r" not in text and shown(text) == text and 0 < len(text) <= MOST_CHARACTERS
    return text if fit and "%%" not in text and "```" not in text else None


def choose(place: Place, memory: Memory, chance: random.Random) -> tuple[list[Known], list[Edited]]:
    """Draw the notes to leave alone, which get their words, and those to edit."""
    paths = editable(place, memory)
    names = Counter(Path(path).name.casefold() for path in paths)
    masked = {secret.path for secret in secrets(memory, SecretsRequest()).secrets}
    fit = [path for path in paths if names[Path(path).name.casefold()] == 1 and path not in masked]
    chance.shuffle(fit)
    texts: dict[str, str] = {}
    for path in fit:
        text = plain(place.vault / path)
        if text is not None and body(text):
            texts[path] = text
        if len(texts) == KNOWN_NOTES + EDITED_NOTES:
            break
    if len(texts) < 10:
        raise MeasureError(f"Only {len(texts)} notes are short and plain; 10 are needed.")
    chosen = list(texts)
    share = len(chosen) * KNOWN_NOTES // (KNOWN_NOTES + EDITED_NOTES)
    known = []
    for path in chosen[:share]:
        word = made_up_word(chance)
        text = texts[path].rstrip("\n") + f"\n\nThe {word} stands by the mill.\n"
        (place.vault / path).write_bytes(text.encode())
        known.append(Known(path, word, body(text)))
    edited = []
    for path in chosen[share:]:
        note = Edited(path, texts[path].rstrip("\n"), [])
        (place.vault / path).write_bytes(edited_text(note, 0))
        note.states.append(State(0, 0.0, 0.0))
        edited.append(note)
    return known, edited


def edited_text(note: Edited, number: int) -> bytes:
    """The file of an edited note after so many edits."""
    return f"{note.text}\n\nEdited for the {number}. time.\n".encode()


class Editor:
    """Edits notes in a thread of its own until it is stopped."""

    def __init__(self, vault: Path, notes: list[Edited], gap_seconds: float, seed: int) -> None:
        self.edits = 0
        self.removals = 0
        self.error: OSError | None = None
        self._vault = vault
        self._notes = notes
        self._gap = gap_seconds
        self._chance = random.Random(seed)
        self._away: list[Edited] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Edit meanwhile; in the end everything that was removed is put back."""
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._chance.expovariate(1 / self._gap)):
                self._edit()
            while self._away:
                self._write(self._away.pop())
        except OSError as error:
            self.error = error

    def _edit(self) -> None:
        drawn = self._chance.random()
        if self._away and (drawn < REMOVED_SHARE or len(self._away) == MOST_REMOVED):
            self._write(self._away.pop(self._chance.randrange(len(self._away))))
            return
        note = self._chance.choice(self._notes)
        if note in self._away:
            self._away.remove(note)
            self._write(note)
        elif drawn > 1 - REMOVED_SHARE:
            self.removals += 1
            self._away.append(note)
            began = time.perf_counter()
            (self._vault / note.path).unlink()
            note.states.append(State(None, began, time.perf_counter()))
        else:
            self._write(note)

    def _write(self, note: Edited) -> None:
        self.edits += 1
        began = time.perf_counter()
        data = edited_text(note, self.edits)
        SAVES["temporary, rename"](self._vault / note.path, data, self._chance)
        note.states.append(State(self.edits, began, time.perf_counter()))


# The calls


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call, and what is known of its answer."""

    kind: str
    tool: str
    arguments: dict[str, object]
    known: Known | None = None
    edited: Edited | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """What came of a call."""

    call: Call
    sent: float
    answered: float
    refusal: str | None  # what an error says
    number: int | None  # of the edit, in what was read of an edited note
    wrong: str | None  # what is not right about an answer on a note left alone
    degraded: tuple[str, ...]


@dataclass(slots=True)
class Session:
    """What one client has seen."""

    observed: list[Observed] = field(default_factory=list)
    ended: Ended | None = None
    broken: str | None = None  # why it could not go on


def draw_calls(
    known: Sequence[Known], edited: Sequence[Edited], names: Sequence[str], calls: int, seed: int
) -> list[Call]:
    """The calls of one client."""
    chance = random.Random(seed)
    words = sorted({word.lower() for name in names for word in _WORD.findall(name)})
    kinds = chance.choices(list(SHARES), list(SHARES.values()), k=calls)
    return [draw_call(kind, known, edited, words, chance) for kind in kinds]


def draw_call(
    kind: str,
    known: Sequence[Known],
    edited: Sequence[Edited],
    words: Sequence[str],
    chance: random.Random,
) -> Call:
    """One call of a kind."""
    tool, _, what = kind.partition(", ")
    if what == "a known word":
        note = chance.choice(known)
        return Call(kind, tool, {"query": note.word, "mode": "keyword"}, known=note)
    if what == "left alone":
        note = chance.choice(known)
        return Call(kind, tool, {"note": note.path}, known=note)
    if what == "edited":
        one = chance.choice(edited)
        return Call(kind, tool, {"note": one.path}, edited=one)
    if tool == "search":
        query = " ".join(chance.choices(words, k=chance.randint(1, 3)))
        return Call(kind, tool, {"query": query, "mode": what})
    return Call(kind, tool, {})


def texts_in(value: object) -> Iterator[str]:
    """Every text in a JSON value."""
    match value:
        case str():
            yield value
        case list():
            for part in value:
                yield from texts_in(part)
        case dict():
            for part in value.values():
                yield from texts_in(part)


def observe(call: Call, sent: float, answer: Answer) -> Observed:
    """Judge an answer as far as that needs no history. McpError if it is no result."""
    result = answer.result
    spoken = "\n".join(block.get("text", "") for block in result.get("content", []))
    if result.get("isError"):
        return Observed(call, sent, answer.at, spoken or "(no words)", None, None, ())
    reply = within_fence(result.get("structuredContent"))
    told = reply.get("degraded", []) if isinstance(reply, dict) else []
    texts = list(texts_in(reply)) if reply is not None else [spoken]
    number: int | None = None
    wrong: str | None = None
    if call.known is not None:
        wrong = fault(call, call.known, reply, texts)
    elif call.edited is not None and call.tool == "read":
        marks = {int(mark) for text in texts for mark in _MARK.findall(text)}
        if len(marks) == 1 and any(body(call.edited.text) in text for text in texts):
            number = marks.pop()
        else:
            wrong = f"is not the text of {call.edited.path} (edits {sorted(marks)})"
    return Observed(call, sent, answer.at, None, number, wrong, tuple(told))


def within_fence(structured: object) -> object:
    """The reply, which may stand in an envelope that marks it as data."""
    if isinstance(structured, dict) and isinstance(structured.get("content"), dict):
        return structured["content"]
    return structured


def fault(call: Call, known: Known, reply: object, texts: list[str]) -> str | None:
    """What is not right about an answer on a note left alone; None if all is."""
    if call.tool == "read" and not any(known.text in text for text in texts):
        return f"is not the text of {known.path}"
    if call.tool == "search":
        hits = reply.get("hits") if isinstance(reply, dict) else None
        if not hits:
            return f"finds nothing for {known.word} of {known.path}"
        if known.path not in set(texts_in(hits[0])):
            return f"finds another note first for {known.word} of {known.path}"
    if call.tool == "related" and not any(known.path in text for text in texts):
        return f"does not tell of {known.path}"
    return None


def drive(
    server: Server, calls: list[Call], window: int, together: threading.Barrier, seen: Session
) -> None:
    """Make the calls, several in flight, and end the server; for a thread of its own."""
    try:
        server.initialize()
        offered = {tool["name"] for tool in server.tools()[0]}
        missing = {call.tool for call in calls} - offered
        if missing:
            raise McpError(f"has no tool {', '.join(sorted(missing))}")  # noqa: TRY301
        together.wait(START_SECONDS)
        waiting: dict[int, tuple[Call, float]] = {}
        for call in calls:
            if len(waiting) == window:
                take(server, waiting, seen)
            sent = time.perf_counter()
            params = {"name": call.tool, "arguments": call.arguments}
            waiting[server.ask("tools/call", params)] = (call, sent)
        while waiting:
            take(server, waiting, seen)
        seen.ended = server.finish()
    except (McpError, OSError, threading.BrokenBarrierError) as error:
        seen.broken = str(error) or "it waited for others that could not start"
        together.abort()


def take(server: Server, waiting: dict[int, tuple[Call, float]], seen: Session) -> None:
    """Take the next answer."""
    answer = server.answer()
    call, sent = waiting.pop(answer.message["id"])
    try:
        seen.observed.append(observe(call, sent, answer))
    except McpError as error:
        raise McpError(f"{call.tool} {json.dumps(call.arguments)}: {error}") from error


# Judgement


def judge(one: Observed, grace: float) -> str | None:
    """What is not right, now that all edits are known; None if all is."""
    asked = f"{one.call.kind} {json.dumps(one.call.arguments, ensure_ascii=False)}"
    note = one.call.edited
    if one.refusal is not None:
        lately = note.possible(one.sent - grace, one.answered) if note is not None else set()
        if note is not None and None in lately and note.path in one.refusal:
            return None
        return f"{asked} is refused: {one.refusal[:300]}"
    if one.wrong is not None:
        return f"{asked}: the answer {one.wrong}"
    if note is not None and one.call.tool == "read":
        possible = note.possible(one.sent, one.answered)
        if one.number not in possible:
            return f"{asked}: the answer has edit {one.number}, the file had {possible}"
    return None


def measure(options: argparse.Namespace) -> Outcome:
    """Edit, watch, ask, compare."""
    chance = random.Random(options.seed)
    with workplace(options) as place:
        place.index()
        memory = place.memory()
        known, edited = choose(place, memory, chance)
        place.index()
        names = [Path(path).stem for path in editable(place, memory)]
        sessions = [Session() for _ in range(options.servers)]
        editor = Editor(place.vault, edited, options.pause / 1000, options.seed)
        with watching(place) as watcher:
            before = len(watcher.said("batch"))
            with editor.at_work():
                started, ended = converse(place, known, edited, names, sessions, options)
            paths = [*(note.path for note in known), *(note.path for note in edited)]
            settled = taken_in(watcher, memory, file_hashes(place.vault, paths))
            batches = len(watcher.said("batch")) - before
            code = watcher.stop()
        memory.close()
        wrong = differences(place)
    failures = faults(sessions, options)
    if editor.error is not None:
        failures.append(f"the editor could not go on: {editor.error}")
    if not settled:
        failures.append("the watcher had not taken everything in in the end")
    if code != 0:
        failures.append(f"the watcher ended with {code}: {watcher.complaint}")
    failures += [f"differs from an index made anew: {line}" for line in wrong]
    observed = [one for session in sessions for one in session.observed]
    ends = [session.ended for session in sessions if session.ended is not None]
    figures: dict[str, Any] = {
        "servers": options.servers,
        "calls": len(observed),
        "wanted": options.servers * options.calls,
        "window": options.window,
        "seconds": round(ended - started, 2),
        "calls_per_second": round(len(observed) / (ended - started), 1),
        "latency": latencies(observed),
        "foreseen_errors": sum(
            one.refusal is not None and judge(one, options.grace) is None for one in observed
        ),
        "edits": editor.edits,
        "removals": editor.removals,
        "batches": batches,
        "degraded": dict(
            Counter(_NUMBER.sub("N", reason) for one in observed for reason in one.degraded)
        ),
        "cpu_of_servers": round(sum(end.cpu for end in ends), 1),
        "peak_mb": round(max((end.peak for end in ends), default=0.0), 1),
        "exit_seconds": round(percentile([end.seconds for end in ends], 1.0), 2) if ends else None,
        "equals_rebuild": not wrong,
    }
    return Outcome(figures, table_of(figures), failures)


def converse(
    place: Place,
    known: Sequence[Known],
    edited: Sequence[Edited],
    names: Sequence[str],
    sessions: Sequence[Session],
    options: argparse.Namespace,
) -> tuple[float, float]:
    """Let every client have its session; when the calls began, and when all had ended."""
    command = place.command("mcp")
    if options.server:
        words = shlex.split(options.server)
        command = [word.format(vault=place.vault, cache=place.cache) for word in words]
    began: list[float] = []
    together = threading.Barrier(len(sessions), lambda: began.append(time.perf_counter()))
    servers: list[Server] = []
    threads = []
    try:
        for number, session in enumerate(sessions):
            errors = place.scratch / f"server-{number}.err"
            server = Server(command, errors, place.environment)
            servers.append(server)
            seed = options.seed * 1000 + number
            calls = draw_calls(known, edited, names, options.calls, seed)
            arguments = (server, calls, options.window, together, session)
            threads.append(threading.Thread(target=drive, args=arguments))
            threads[-1].start()
    finally:
        if len(servers) < len(sessions):
            together.abort()
        for thread in threads:
            thread.join()
        for server in servers:
            server.__exit__()
    ended = max((one.answered for s in sessions for one in s.observed[-1:]), default=0.0)
    if not began:
        broken = next((session.broken for session in sessions if session.broken), "")
        raise MeasureError(f"The servers did not start: {broken}")
    return began[0], max(ended, began[0] + 1e-9)


def faults(sessions: Sequence[Session], options: argparse.Namespace) -> list[str]:
    """All that is not right about the sessions; of answers no more than can be read."""
    found: list[str] = []
    for number, session in enumerate(sessions):
        if session.broken is not None:
            found.append(f"server {number} {session.broken}")
        if len(session.observed) < options.calls:
            found.append(f"server {number} answered {len(session.observed)} of {options.calls}")
        end = session.ended
        if end is not None and end.killed:
            found.append(f"server {number} did not end when its input did")
        elif end is not None and end.exit_code != 0:
            found.append(f"server {number} ended with {end.exit_code}")
        if end is not None and end.unasked:
            found.append(f"server {number} answered {end.unasked} times unasked")
    answers = [
        wrong
        for session in sessions
        for one in session.observed
        if (wrong := judge(one, options.grace)) is not None
    ]
    found += answers[:SHOWN_FAILURES]
    if len(answers) > SHOWN_FAILURES:
        found.append(f"and {len(answers) - SHOWN_FAILURES:,} more answers are not right")
    return found


def latencies(observed: Sequence[Observed]) -> dict[str, dict[str, float]]:
    """By kind of call, and of all: percentiles of the seconds it took."""
    taken: dict[str, list[float]] = {"all": [], **{kind: [] for kind in SHARES}}
    for one in observed:
        taken["all"].append(one.answered - one.sent)
        taken[one.call.kind].append(one.answered - one.sent)
    return {kind: spread(seconds) for kind, seconds in taken.items() if seconds}


def table_of(figures: dict[str, Any]) -> list[str]:
    """The result as text for people."""
    lines = [
        f"{figures['servers']} servers, {figures['calls']:,} of {figures['wanted']:,} calls,"
        f" {figures['window']} in flight at each; seconds",
        SPREAD_HEADER,
        *(spread_row(kind, row) for kind, row in figures["latency"].items()),
    ]
    lines += [
        f"{name.replace('_', ' ')}: {value}"
        for name, value in figures.items()
        if not isinstance(value, dict)
    ]
    lines += [
        f"degraded {count:,} times: {reason}" for reason, count in figures["degraded"].items()
    ]
    return lines


def main() -> int:
    """Run the command."""
    parser = options_parser(__doc__)
    parser.add_argument("--servers", type=positive, default=8)
    parser.add_argument("--calls", type=positive, default=2_000, help="of each server")
    parser.add_argument("--window", type=positive, default=4, help="requests in flight at each")
    parser.add_argument("--pause", type=float, default=50.0, help="between edits, mean, ms")
    parser.add_argument(
        "--grace",
        type=float,
        default=5.0,
        help="seconds for which a note that was put back may still be said not to be there",
    )
    parser.add_argument(
        "--server",
        default="",
        metavar="COMMAND",
        help="a server to measure instead of `vaultmem mcp`; {vault} and {cache} are filled in",
    )
    return run(measure, parser)


if __name__ == "__main__":
    sys.exit(main())
