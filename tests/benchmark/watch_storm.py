"""Let eight processes use one index while an editor saves and chance kills them.

    python tests/benchmark/watch_storm.py VAULT --seconds 60

On a copy of the vault, by words: one `vaultmem watch`, two that run `vaultmem index --no-embed`
over and over (one of them with --rebuild now and then), and five readers, each with the index open
and the settings a user has, that search and read at random. Meanwhile notes are saved the six ways
of editors, renamed, deleted and created. Every 1 to 3 seconds one of the eight is killed (SIGKILL)
and started again: all of them in an order by chance, then all again in another.

Then the editor and the indexers stop and the watcher is waited for, which has to say that it is
behind with nothing, while every note is indexed as it is. Nobody may have ended unasked or with an
error, nothing printed may tell of a lock or a traceback, the database has to be sound, and after a
last `vaultmem index` it has to equal one made anew. What the readers' answers said they could not
do is counted, not judged.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from watching import (
    READER,
    SAVES,
    SETTLE_SECONDS,
    SPREAD_HEADER,
    MeasureError,
    Outcome,
    Place,
    behind,
    differences,
    editable,
    file_hashes,
    made_up_word,
    options_parser,
    run,
    spread,
    spread_row,
    workplace,
)

READERS = 5
KILL_SECONDS = (1.0, 3.0)
AGE_SECONDS = (0.1, 0.6)  # of a process that is killed; drawn at each tick
EDIT_SECONDS = 0.15  # between two edits, in the mean
INDEX_SECONDS = (0.1, 0.5)  # between two runs of one indexer
REBUILD_EACH = 4  # runs of the second indexer
QUESTIONS = 200
END_SECONDS = 60  # until one that is asked to end has ended
TICK_SECONDS = 0.02

FORESEEN = ("killed", "done")

_KILLED = 1 if sys.platform == "win32" else -signal.SIGKILL
_TROUBLE = re.compile(r"\b(?:locked|busy)\b|Traceback", re.IGNORECASE)


# The eight


@dataclass(slots=True)
class Role:
    """One of the eight: a process that is started again when it ends."""

    name: str
    command: Callable[[int], list[str]]  # number of the run, from 0
    logs: Path  # folder; a file for each stream
    environment: dict[str, str]
    lasting: bool  # it ends only when it is told to
    process: subprocess.Popen[bytes] | None = None
    killed: bool = False
    due: float = 0.0  # when it may be started again, by time.monotonic
    started: float = 0.0
    runs: int = 0
    ended: Counter[str] = field(default_factory=Counter)

    def file(self, stream: str) -> Path:
        """What it printed to `out` or `err`, in all its runs."""
        return self.logs / f"{self.name}.{stream}"

    def start(self) -> None:
        """Start it."""
        with self.file("out").open("ab") as out, self.file("err").open("ab") as err:
            self.process = subprocess.Popen(
                self.command(self.runs),
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
            )
        self.started = time.monotonic()
        self.runs += 1
        self.killed = False

    def kill(self, age: float) -> bool:
        """Kill it if it has been running for so many seconds; whether it was killed."""
        if self.process is None or self.process.poll() is not None:
            return False
        if time.monotonic() < self.started + age:
            return False
        self.killed = True
        self.process.kill()
        return True

    def tend(self, chance: random.Random) -> None:
        """Take note of its end, and start it again in its time."""
        if self.process is not None and self.process.poll() is not None:
            self.note_end(asked=not self.lasting)
            # One that was killed comes back at once, into whatever it left behind.
            pause = 0.0 if self.lasting or self.killed else chance.uniform(*INDEX_SECONDS)
            self.due = time.monotonic() + pause
        if self.process is None and time.monotonic() >= self.due:
            self.start()

    def note_end(self, *, asked: bool) -> None:
        """Count how it ended. asked: whether it should have."""
        assert self.process is not None
        assert self.process.stdin is not None
        code = self.process.returncode
        if self.killed and code == _KILLED:
            self.ended["killed"] += 1
        elif code == 0:
            self.ended["done" if asked else "ended unasked"] += 1
        else:
            self.ended[f"exit code {code}"] += 1
        self.process.stdin.close()
        self.process = None

    def finish(self) -> None:
        """Let it come to its end: of its run, or by the end of its input."""
        if self.process is None:
            return
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.ended["would not end"] += 1
            self.process.kill()
            self.process.wait()
            self.process = None
        else:
            self.note_end(asked=True)


def cast(place: Place, seed: int) -> list[Role]:
    """The eight, not started yet."""
    logs = place.scratch / "logs"
    logs.mkdir()
    questions = place.scratch / "questions"

    def index(rebuild_each: int) -> Callable[[int], list[str]]:
        def command(number: int) -> list[str]:
            again = rebuild_each and number % rebuild_each == rebuild_each - 1
            return place.command("index", "--no-embed", *(("--rebuild",) if again else ()))

        return command

    def ask(which: int) -> Callable[[int], list[str]]:
        def command(number: int) -> list[str]:
            chance = str(seed + 1000 * which + number)
            options = ("--seed", chance, "--questions", str(questions))
            folders = (str(place.vault), str(place.cache))
            return [sys.executable, str(READER), "ask", *options, *folders]

        return command

    roles: list[tuple[str, Callable[[int], list[str]], bool]] = [
        ("watcher", lambda number: place.watch_command(), True),
        ("indexer", index(0), False),
        ("rebuilder", index(REBUILD_EACH), False),
        *((f"reader{number}", ask(number), True) for number in range(READERS)),
    ]
    return [
        Role(name, command, logs, place.environment, lasting) for name, command, lasting in roles
    ]


# The editor


class Editor(threading.Thread):
    """Saves, renames, deletes and creates notes until it is told to stop."""

    def __init__(self, vault: Path, notes: list[str], seed: int) -> None:
        super().__init__(daemon=True)
        self.vault = vault
        self.notes = list(notes)
        self.least = len(notes) // 2
        self.chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.error: Exception | None = None
        self._enough = threading.Event()

    def stop(self) -> None:
        """Stop it, after the edit it is at. Raises what it failed with."""
        self._enough.set()
        self.join()
        if self.error is not None:
            raise self.error

    def run(self) -> None:
        """Edit."""
        try:
            while not self._enough.wait(self.chance.expovariate(1 / EDIT_SECONDS)):
                self._edit()
        except OSError as error:
            self.error = error

    def _edit(self) -> None:
        kind = self.chance.choices(("save", "rename", "delete", "create"), (7, 1, 1, 1))[0]
        note = self.chance.choice(self.notes)
        file = self.vault / note
        line = f"\n\nSeen by the {made_up_word(self.chance)} near the mill today.\n".encode()
        if kind == "save":
            kind = self.chance.choice(list(SAVES))
            SAVES[kind](file, file.read_bytes() + line, self.chance)
        elif kind == "delete" and len(self.notes) > self.least:
            file.unlink()
            self.notes.remove(note)
        else:
            new = file.with_name(f"{made_up_word(self.chance)}.md")
            if kind == "rename":
                file.rename(new)
                self.notes.remove(note)
            else:
                kind = "create"
                new.write_bytes(b"# New" + line)
            self.notes.append(new.relative_to(self.vault).as_posix())
        self.done[kind] += 1


# The storm


@contextmanager
def on_stage(roles: list[Role]) -> Iterator[None]:
    """Whatever happens, none of them is left."""
    try:
        yield
    finally:
        for role in roles:
            if role.process is not None:
                role.process.kill()
                role.process.wait()


def storm(place: Place, *, seconds: float, seed: int) -> Outcome:
    """Let it blow in a place (`watching.furnished`) and judge what is left of the index."""
    chance = random.Random(seed)
    place.index()
    memory = place.memory()
    notes = editable(place, memory)
    _write_questions(place, notes, chance)
    editor = Editor(place.vault, notes, seed)
    roles = cast(place, seed)
    with on_stage(roles):
        editor.start()
        until = time.monotonic() + seconds
        strike = time.monotonic() + chance.uniform(*KILL_SECONDS)
        victims: list[Role] = []
        while time.monotonic() < until:
            for role in roles:
                role.tend(chance)
            if not victims:
                victims = chance.sample(roles, len(roles))
            # An indexer is caught at work: past its imports, in this run or in one of the next.
            if time.monotonic() >= strike and victims[-1].kill(chance.uniform(*AGE_SECONDS)):
                victims.pop()
                strike = time.monotonic() + chance.uniform(*KILL_SECONDS)
            time.sleep(TICK_SECONDS)
        editor.stop()
        watcher, *others = roles
        for role in others:
            role.finish()
        if watcher.killed and watcher.process is not None:
            watcher.process.wait()
        watcher.tend(chance)
        expected = file_hashes(place.vault, editor.notes)
        failures = _settle(place, lambda: behind(memory, expected))
        if watcher.process is not None:
            watcher.process.terminate()
        watcher.finish()
    last = place.reply("index", "--no-embed")["notes"]
    if last["added"] or last["changed"]:
        failures.append(f"the last index found what the watcher should have taken in: {last}")
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    sound = str(sidecar.connection.execute("PRAGMA integrity_check").get)
    memory.close()
    if sound != "ok":
        failures.append(f"the database is not sound: {sound}")
    failures += [f"differs from an index made anew: {line}" for line in differences(place)]
    return _outcome(roles, editor, last, failures)


def _write_questions(place: Place, notes: list[str], chance: random.Random) -> None:
    """Two or three words each that stand in one note."""
    questions: list[str] = []
    for path in chance.choices(notes, k=QUESTIONS):
        words = re.findall(r"[^\W\d_]{4,}", (place.vault / path).read_text("utf-8", "replace"))
        questions.append(" ".join(chance.sample(words, min(len(words), 3)) or ["note"]))
    (place.scratch / "questions").write_text("\n".join(questions), "utf-8")


def _settle(place: Place, late: Callable[[], list[str]]) -> list[str]:
    """Wait until the watcher is behind with nothing; what is wrong if that does not come."""
    until = time.monotonic() + SETTLE_SECONDS
    while True:
        status = place.reply("status")
        watcher = status.get("watcher") or {}
        unread = late()
        if status["watching"] and not watcher.get("behind") and not unread:
            return []
        if time.monotonic() > until:
            return [
                f"after {SETTLE_SECONDS} s of rest watching is {status['watching']}, the watcher "
                f"says {watcher}, and {len(unread)} notes are not indexed as they are: {unread[:3]}"
            ]
        time.sleep(0.5)


def _said(role: Role) -> Iterator[dict[str, Any]]:
    """The JSON lines it printed; one that a kill cut short is none."""
    for line in role.file("out").read_text("utf-8", "replace").splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if isinstance(said, dict):
            yield said


def _outcome(
    roles: list[Role], editor: Editor, last: dict[str, int], failures: list[str]
) -> Outcome:
    """Count everything, and find what should not have happened."""
    waits: dict[str, list[float]] = {"search": [], "read": []}
    degraded: Counter[str] = Counter()
    gone, errors = 0, Counter[str]()
    batches: Counter[str] = Counter()
    for role in roles:
        wrong = {name: count for name, count in role.ended.items() if name not in FORESEEN}
        if wrong:
            failures.append(f"{role.name} ended otherwise: {wrong}; {_tail(role.file('err'))}")
        # What the indexers print is of the notes, which may tell of anything.
        streams = ("err",) if "index" in " ".join(role.command(0)) else ("out", "err")
        text = "\n".join(role.file(stream).read_text("utf-8", "replace") for stream in streams)
        failures += [
            f"{role.name} printed: {line.strip()[:300]}"
            for line in list(dict.fromkeys(filter(_TROUBLE.search, text.splitlines())))[:3]
        ]
        for said in _said(role) if role.lasting else ():
            if "seconds" in said and "op" in said:
                waits[said["op"]].append(said["seconds"])
                degraded.update(said["degraded"])
            gone += said.get("op") == "gone"
            if "error" in said:
                errors[said["error"]] += 1
            if said.get("event") == "batch":
                batches[said["cause"]] += 1
    failures += [f"a reader failed ({count} times): {text}" for text, count in errors.items()]
    every = [*waits["search"], *waits["read"]]
    if not every:
        failures.append("no reader got an answer")
    figures: dict[str, Any] = {
        "reader_seconds": {"all": spread(every), **{op: spread(v) for op, v in waits.items()}},
        "answers_about_a_note_that_was_gone": gone,
        "degraded": dict(degraded.most_common()),
        "edits": dict(editor.done),
        "batches": dict(batches),
        "last_index": last,
        "roles": {role.name: {"started": role.runs, **role.ended} for role in roles},
    }
    return Outcome(figures, _table(figures), failures)


def _tail(file: Path) -> str:
    return file.read_text("utf-8", "replace").strip()[-300:]


def _table(figures: dict[str, Any]) -> list[str]:
    rows = figures["reader_seconds"]
    lines = ["readers' seconds", SPREAD_HEADER]
    lines += [spread_row(name, row) for name, row in rows.items()]
    for name, value in figures.items():
        if name not in ("reader_seconds", "roles", "degraded"):
            lines.append(f"{name.replace('_', ' ')}: {value}")
    lines += [f"{name}: {counts}" for name, counts in figures["roles"].items()]
    lines += [f"{count} times: {message}" for message, count in figures["degraded"].items()]
    return lines


def measure(options: argparse.Namespace) -> Outcome:
    """Make a place and let the storm blow there."""
    if options.vectors:
        raise MeasureError("The storm is by words; leave --vectors out.")
    with workplace(options) as place:
        return storm(place, seconds=options.seconds, seed=options.seed)


def main() -> int:
    """Run the command."""
    parser = options_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    return run(measure, parser)


if __name__ == "__main__":
    sys.exit(main())
