"""Ask an index from a process of its own, as the watch_*.py scripts need it; they start this.

    python tests/benchmark/watch_reader.py seek [--vectors] VAULT CACHE_DIR
    python tests/benchmark/watch_reader.py ask [--seed N] --questions FILE VAULT CACHE_DIR

Both keep the index open, print JSON lines and end when their standard input does.

seek: hears {"word": w, "path": p} and looks for the word every 10 to 20 ms until the note of that
path is found, or 10 s have passed; then prints {"word": w, "words": t, "meaning": u}: when the
note was first found by its words, and with --vectors when the passage that holds the word had a
vector, by ``time.monotonic``; null for never. It does not look at the vault, so that nothing is
found but what another process took in. At the end it prints the seconds its searches took.

ask: searches for questions (lines of FILE) at random and reads some of what it finds, pausing a
tenth of a second in the mean, with the settings it is started with. Prints
{"op": "search" or "read", "seconds": s, "degraded": [...]} each time, {"op": "gone"} when a note
is not there any more, and {"error": "..."} for everything that should not happen.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import re
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vaultmem.model.errors import NoteAmbiguous, NoteNotFound, VaultmemError
from vaultmem.service.application import Memory, open_memory
from vaultmem.service.operations.read import ReadRequest, read
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.settings import load_settings

PATIENCE_SECONDS = 10.0
PAUSE_SECONDS = (0.010, 0.020)
LIMIT = 1000  # passages: all of a note
THINKING_SECONDS = 0.1
READ_SHARE = 0.25

_HAS_VECTOR = """
SELECT 1 FROM chunk JOIN note ON note.id = chunk.note
WHERE note.path = ? AND chunk.slot IS NOT NULL AND instr(chunk.text, ?)
"""


@dataclass(slots=True)
class Sought:
    """A word on its way into the index."""

    word: str
    path: str
    since: float
    words: float | None = None
    meaning: float | None = None


def heard() -> queue.SimpleQueue[dict[str, str] | None]:
    """The lines of standard input as they come; None at its end."""
    lines: queue.SimpleQueue[dict[str, str] | None] = queue.SimpleQueue()

    def listen() -> None:
        for text in sys.stdin:
            lines.put(json.loads(text))
        lines.put(None)

    threading.Thread(target=listen, daemon=True).start()
    return lines


def say(**message: object) -> None:
    """Print a JSON line at once."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


# Seeking


class Seeker:
    """Looks for words until their notes are found."""

    def __init__(self, memory: Memory, *, vectors: bool) -> None:
        self.memory = memory
        self.vectors = vectors
        self.sought: list[Sought] = []
        self.seconds: dict[str, list[float]] = {"keyword": [], "semantic": []}

    def found(self, sought: Sought, mode: str) -> float | None:
        """When the word's note is found now: after the search; None when it is not.

        A phrase has to be in the note, so nothing that is merely like it is found. In semantic
        mode those passages of it are that have a vector; the one that holds the word counts.
        """
        request = SearchRequest(f'"{sought.word}"', mode=mode, limit=LIMIT, passages=True)
        began = time.monotonic()
        reply = search(self.memory, request)
        ended = time.monotonic()
        self.seconds[mode].append(ended - began)
        there = any(hit.path == sought.path and sought.word in hit.snippet for hit in reply.hits)
        return ended if there and reply.mode == mode else None

    def has_vector(self, sought: Sought) -> bool:
        """Whether it is worth while to search by meaning.

        Such a search takes 50 ms on a large vault; asked all the time it would take the processor
        that is to compute the vector.
        """
        with self.memory.guarded():
            sidecar = self.memory.open_sidecar()
            if sidecar is None:
                return False
            row = sidecar.connection.execute(_HAS_VECTOR, (sought.path, sought.word))
            return row.get is not None

    def done(self, sought: Sought) -> bool:
        """Look for a word once more; whether there is nothing more to look for."""
        if sought.words is None:
            sought.words = self.found(sought, "keyword")
        if self.vectors and sought.words is not None and self.has_vector(sought):
            sought.meaning = self.found(sought, "semantic")
        if (sought.meaning if self.vectors else sought.words) is not None:
            return True
        return time.monotonic() > sought.since + PATIENCE_SECONDS

    def look(self) -> None:
        """Look for every word once, and tell of those that are done with."""
        for sought in list(self.sought):
            if self.done(sought):
                self.sought.remove(sought)
                say(word=sought.word, words=sought.words, meaning=sought.meaning)


def seek(options: argparse.Namespace) -> None:
    """Look for what is asked for until standard input ends and nothing is sought."""
    environment = {**os.environ, "VAULTMEM_SEARCH_REFRESH": "never"}
    memory = open_memory(load_settings(options.vault, options.cache, environment=environment))
    seeker = Seeker(memory, vectors=options.vectors)
    chance = random.Random(options.seed)
    for mode in seeker.seconds if options.vectors else ("keyword",):
        seeker.found(Sought("warm", "", 0.0), mode)
        seeker.seconds[mode].clear()
    say(event="ready")
    lines, more = heard(), True
    while more or seeker.sought:
        while more and (not seeker.sought or not lines.empty()):
            line = lines.get()
            if line is None:
                more = False
            else:
                seeker.sought.append(Sought(line["word"], line["path"], time.monotonic()))
        seeker.look()
        time.sleep(chance.uniform(*PAUSE_SECONDS))
    memory.close()
    say(event="searches", seconds=seeker.seconds)


# Asking


def ask(options: argparse.Namespace) -> None:
    """Ask at random until standard input ends."""
    questions = options.questions.read_text("utf-8").splitlines()
    chance = random.Random(options.seed)
    memory = open_memory(load_settings(options.vault, options.cache))
    lines = heard()
    known: list[str] = []
    while lines.empty():
        began = time.monotonic()
        try:
            if known and chance.random() < READ_SHARE:
                op, degraded = "read", read(memory, ReadRequest(chance.choice(known))).degraded
            else:
                reply = search(memory, SearchRequest(chance.choice(questions)))
                op, degraded = "search", reply.degraded
                known = [hit.path for hit in reply.hits] or known
        except (NoteNotFound, NoteAmbiguous):
            say(op="gone")
        except VaultmemError as error:
            say(error=f"{type(error).__name__}: {error}")
        else:
            say(op=op, seconds=time.monotonic() - began, degraded=list(kinds(degraded)))
        time.sleep(chance.expovariate(1 / THINKING_SECONDS))
    memory.close()


def kinds(degraded: tuple[str, ...]) -> Iterator[str]:
    """Messages without what makes each a different one: numbers, and what stands in brackets."""
    for message in degraded:
        yield re.sub(r"[\d.,]*\d", "N", re.sub(r" \([^)]*\)", "", message))


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=("seek", "ask"))
    parser.add_argument("vault", type=Path)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--vectors", action="store_true")
    parser.add_argument("--questions", type=Path)
    options = parser.parse_args()
    {"seek": seek, "ask": ask}[options.task](options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
