"""Several processes on one index: killed at random, they spoil nothing and keep nobody waiting.

The fast lane goes by rounds, in each of which notes are edited, an index is made anew, two servers
are asked and one of the four processes is killed. FAULT_LANE=slow lets it go on for five times a
minute. tests/benchmark/watch_storm.py does the like with `index`
and readers that have the index open themselves.
"""

import errno
import http.client
import itertools
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest
from canon import canon_lines
from command_line import MODULE, CommandLine, assert_one_line_error, on_notes
from lanes import SEED, by_lane
from mcp_process import VERSION, McpProcess
from watching import SAVES, made_up_word, spread

from vaultmem.index import lock as locks
from vaultmem.index.lock import writer_lock
from vaultmem.model.errors import SidecarBusy, SidecarUnavailable
from vaultmem.service.application import Memory, open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.settings import load_settings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")

WORKER = Path(__file__).with_name("worker.py")
NOTES = 60
ROUNDS, STORMS = by_lane(fast=6, slow=1_000_000), by_lane(fast=1, slow=5)
STORM_SECONDS = by_lane(fast=math.inf, slow=60.0)  # after which no round is begun
QUESTIONS = 8  # of each server, a round
EDITS = 4  # a round
DEADLINE_SECONDS = 60.0
# What a reader waits at p99 is promised to be under a second, which the fast lane, where other
# programs share the machine and there are few answers, does not hold it to.
MOST_P99 = by_lane(fast=5.0, slow=1.0)
# Within which one is answered that has to be started first.
MOST_SECONDS = 5.0

_TROUBLE = re.compile(r"\b(?:locked|busy)\b|Traceback", re.IGNORECASE)

Violations = list[str]


# A child of any kind


def worker(*arguments: str) -> list[str]:
    """A command of worker.py; which fault it has goes by the environment."""
    return [sys.executable, str(WORKER), *arguments]


class Gone(Exception):
    """A server was killed while it was asked."""


@dataclass
class Station:
    """One of the processes, started again whenever it was killed."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path  # of its standard error
    process: "subprocess.Popen[bytes] | None" = None
    killed: bool = False
    deaths: int = 0
    ended: Violations = field(default_factory=list)

    def start(self) -> None:
        """Start it."""
        self.killed = False
        with self.log.open("ab") as errors:
            self.process = subprocess.Popen(
                self.command,
                env=dict(self.environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def kill(self) -> bool:
        """Kill it, if it has not ended by itself."""
        assert self.process is not None
        if self.process.poll() is not None:
            return False
        self.killed = True
        self.deaths += 1
        self.process.send_signal(signal.SIGKILL)
        return True

    def wait(self) -> int:
        """Wait for its end and close what was between us; its exit code."""
        assert self.process is not None
        code = self.process.wait(DEADLINE_SECONDS)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        if self.killed and code not in (-signal.SIGKILL, 0):
            self.ended.append(f"{self.name} ended with {code} when it was killed")
        if not self.killed and code != 0:
            self.ended.append(f"{self.name} ended with {code}")
        return code

    def complaints(self) -> Violations:
        """What it said that it should not have, in all its lives."""
        said = self.log.read_text("utf-8", "replace") if self.log.exists() else ""
        if self.name in ("watch", "rebuild") and said:
            return [f"{self.name} said: {said.strip()[:500]}"]
        return [
            f"{self.name} said: {line[:300]}" for line in said.splitlines() if _TROUBLE.search(line)
        ]


class Watch(Station):
    """`vaultmem watch`."""

    def start(self) -> None:
        """Start it, and have what it prints read."""
        super().start()
        assert self.process is not None
        threading.Thread(target=_drained, args=(self.process.stdout,), daemon=True).start()


def _drained(stream: IO[bytes]) -> None:
    with suppress(ValueError):  # closed under us, when it was killed
        while stream.read1(1 << 16):  # type: ignore[attr-defined]
            pass


class Server(Station):
    """A server; `call` gives what a tool answers. Raises Gone when it was killed."""

    def call(self, tool: str, **arguments: Any) -> Any:
        """Ask it."""
        raise NotImplementedError


class StdioServer(Server):
    """`vaultmem mcp`."""

    def start(self) -> None:
        """Start it and shake hands."""
        super().start()
        assert self.process is not None
        self.talk = McpProcess(self.process)
        self.talk.shake_hands()

    def call(self, tool: str, **arguments: Any) -> Any:
        """Ask it, and wait."""
        try:
            asked = {"name": tool, "arguments": arguments}
            answer = self.talk.answer(self.talk.ask("tools/call", asked))
        except (AssertionError, OSError, ValueError):
            if self.killed:
                raise Gone from None
            raise
        return answer


class HttpServer(Server):
    """`vaultmem mcp --http`."""

    _ids = itertools.count(1)

    def start(self) -> None:
        """Start it, and wait until it says where it listens."""
        known = self.log.stat().st_size if self.log.exists() else 0
        super().start()
        deadline = time.monotonic() + DEADLINE_SECONDS
        found: list[re.Match[str]] = []
        while not found:
            assert time.monotonic() < deadline, self.log.read_text()
            said = self.log.read_bytes()[known:].decode()
            match = re.search(r"http://127\.0\.0\.1:(\d+)/mcp\n.+lies in (.+http-token)\.", said)
            found = [match] if match else []
            time.sleep(0.01)
        self.port, self.token = int(found[0][1]), Path(found[0][2]).read_text().strip()
        self.session = ""
        about = {"name": "test", "version": "0"}
        first = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": about}
        self._asked("initialize", first)
        self._asked("notifications/initialized", None)

    def call(self, tool: str, **arguments: Any) -> Any:
        """Ask it, over a connection of its own."""
        try:
            return self._asked("tools/call", {"name": tool, "arguments": arguments})
        except (OSError, http.client.HTTPException, LookupError):
            if self.killed:
                raise Gone from None
            raise

    def _asked(self, method: str, params: Mapping[str, Any] | None) -> Any:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message |= {"id": next(self._ids), "params": params}
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            **({"Mcp-Session-Id": self.session} if self.session else {}),
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        try:
            connection.request("POST", "/mcp", json.dumps(message), headers)
            answer = connection.getresponse()
            body = answer.read().decode()
        finally:
            connection.close()
        self.session = answer.headers.get("Mcp-Session-Id") or self.session
        if params is None:
            return None
        lines = [line[5:] for line in body.splitlines() if line.startswith("data:")] or [body]
        messages = [json.loads(line) for line in lines if line.strip()]
        return next(said for said in messages if "id" in said)


# The storm


@dataclass
class Storm:
    """Four processes on one vault, a hand that edits it, and what went wrong."""

    shell: CommandLine
    chance: random.Random
    watch: Watch
    rebuild: Station
    servers: tuple[Server, ...]
    words: dict[str, str]  # note -> the word that stands in it alone
    wrong: Violations = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    degraded: int = 0
    recent: tuple[frozenset[str], ...] = ()  # what the last edits were of, and those before
    gone: int = 0  # answers that there is no such note, of what was just edited

    @property
    def stations(self) -> tuple[Station, ...]:
        return (self.watch, self.rebuild, *self.servers)

    def edit(self) -> None:
        """Give a few notes other words, as editors save."""
        paths = self.chance.sample(sorted(self.words), EDITS)
        self.recent = (frozenset(paths), *self.recent[:1])
        for path in paths:
            word = made_up_word(self.chance)
            file = self.shell.vault / path
            save = SAVES[self.chance.choice(sorted(SAVES.keys() - {"truncate, pause", "append"}))]
            save(file, f"# {path}\n\nOf {word} and the mill.\n".encode(), self.chance)
            self.words[path] = word

    def answer(self, server: Server, tool: str, **arguments: Any) -> Any:
        """Ask a server, and hold its answer to what is promised. Raises Gone."""
        began = time.monotonic()
        said = server.call(tool, **arguments)
        self.waits.append(time.monotonic() - began)
        result = said.get("result", {})
        missing = (
            result.get("isError") and '"code":"note-not-found"' in result["content"][0]["text"]
        )
        if missing and any(arguments.get("note") in edited for edited in self.recent):
            self.gone += 1  # true at that moment: some editors delete a note to save it
            return {}
        if "error" in said or result.get("isError"):
            self.wrong.append(f"{server.name} {tool}: {json.dumps(said)[:400]}")
            return {}
        content = result["structuredContent"]["content"]
        text = " ".join(content.get("degraded", ()))
        self.degraded += bool(text)
        if re.search(r"\b(locked|damaged)\b", text):
            self.wrong.append(f"{server.name} {tool} was degraded: {text}")
        return content

    def converse(self, server: Server, seed: int) -> None:
        """Ask a server this and that until it is killed."""
        chance = random.Random(seed)
        with suppress(Gone):
            for _ in range(QUESTIONS):
                path = chance.choice(sorted(self.words))
                match chance.randrange(4):
                    case 0:
                        self.answer(server, "read", note=path)
                    case 1:
                        self.answer(server, "related", note=path)
                    case _:
                        self.answer(server, "search", query=f"{self.words[path]} mill")

    def round(self, victim: Station) -> None:
        """Edit, ask, make anew and kill, all at once; then start what is gone again."""
        self.rebuild.start()
        with ThreadPoolExecutor(len(self.servers) + 1) as pool:
            talks = [
                pool.submit(self.converse, server, self.chance.getrandbits(32))
                for server in self.servers
            ]
            editing = pool.submit(self.edit)
            # (When it dies is what is left to chance here.)
            with suppress(subprocess.TimeoutExpired):
                assert self.rebuild.process is not None
                self.rebuild.process.wait(self.chance.uniform(0.05, 0.9))
            victim.kill()
            for done in (editing, *talks):
                done.result()
        self.rebuild.wait()
        if victim is not self.rebuild and victim.killed:
            victim.wait()
            victim.start()

    def lost(self, patience: float) -> Violations:
        """The edits that are not found within so many seconds, by whom."""
        wrong: Violations = []
        deadline = time.monotonic() + patience
        for server in self.servers:
            for path, word in sorted(self.words.items()):
                while True:
                    found = self.answer(server, "search", query=word).get("hits", ())
                    if [hit["path"] for hit in found] == [path]:
                        break
                    if time.monotonic() > deadline:
                        wrong.append(f"{server.name} finds {word} of {path} in {found}")
                        break
                if len(wrong) > 3:
                    return wrong
        return wrong


@contextmanager
def storm(scratch: Path, seed: int, watch: Sequence[str] = (), **faults: str) -> Iterator[Storm]:
    """A vault that is indexed, watched and served; watch: how to start another watcher."""
    chance = random.Random(seed)
    words = {f"notes/n{number:02}.md": made_up_word(chance) for number in range(NOTES)}
    texts = {path: f"# {path}\n\nOf {word} and the mill.\n" for path, word in words.items()}
    shell = on_notes(scratch, texts)
    assert shell.run("index").code == 0
    environment = shell.environment({"VAULTMEM_STATE_DIR": str(scratch / "state")})

    def station(kind: Callable[..., Any], name: str, *arguments: str, command: Any = MODULE) -> Any:
        log = scratch / f"{name}.err"
        return kind(name, [*command, *arguments], environment | faults, log)

    blowing = Storm(
        shell,
        chance,
        station(Watch, "watch", "watch", "--json", command=watch or MODULE),
        station(Station, "rebuild", "index", "--rebuild"),
        (
            station(StdioServer, "stdio", "mcp"),
            station(HttpServer, "http", "mcp", "--http", "--port", "0"),
        ),
        words,
    )
    try:
        for started in (blowing.watch, *blowing.servers):
            started.start()
        yield blowing
    finally:
        for left in blowing.stations:
            if left.process is not None and left.process.poll() is None:
                left.process.kill()
                left.process.wait()


def blown(
    blowing: Storm, rounds: int, seconds: float, *, patience: float = DEADLINE_SECONDS
) -> Violations:
    """Let it blow; what is wrong when it has.

    patience: seconds that an edit may take until it is found.
    """
    until = time.monotonic() + seconds
    victims: list[Station] = []
    for _ in range(rounds):
        if time.monotonic() >= until:
            break
        victims = victims or blowing.chance.sample(blowing.stations, len(blowing.stations))
        blowing.round(victims.pop())
    wrong = blowing.lost(patience)
    wrong += left_behind(blowing)
    for station in blowing.stations:
        wrong += station.ended + station.complaints()
    return wrong + blowing.wrong


def left_behind(blowing: Storm) -> Violations:
    """What is wrong with the index once everybody has ended."""
    wrong: Violations = []
    watch = blowing.watch
    assert watch.process is not None
    if watch.process.poll() is not None:
        wrong.append(f"watch ended by itself with {watch.process.returncode}")
    watch.process.terminate()
    watch.wait()
    for server in blowing.servers:
        server.kill()
        server.wait()
    kept, fresh = opened(blowing.shell), opened(blowing.shell, "fresh")
    try:
        counts = index(kept, IndexRequest()).notes
        if counts.touched:
            wrong.append(f"who indexes finds what the watcher should have taken in: {counts}")
        sidecar = kept.open_sidecar()
        assert sidecar is not None
        sound = sidecar.connection.execute("PRAGMA integrity_check").get
        if sound != "ok":
            wrong.append(f"the index is not sound: {sound}")
        index(fresh, IndexRequest(rebuild=True))
        ours, theirs = set(canon_lines(kept)), set(canon_lines(fresh))
        wrong += [f"not as made anew: {line}" for line in sorted(ours ^ theirs)[:5]]
        names = {path.name for path in kept.folder.iterdir()}
    finally:
        kept.close()
        fresh.close()
    known = {"index.db", "index.db-wal", "index.db-shm", "CACHEDIR.TAG", "watch.json.new"}
    wrong += [f"{name} is left" for name in sorted(names - known) if not name.endswith(".lock")]
    return wrong


def opened(shell: CommandLine, cache: str = "") -> Memory:
    """The vault, as this process has it."""
    folder = shell.cache.with_name(cache) if cache else shell.cache
    environment = {
        "VAULTMEM_EMBEDDER_NAME": "none",
        "VAULTMEM_STATE_DIR": str(shell.cache.with_name("state")),
    }
    return open_memory(load_settings(shell.vault, folder, environment=environment))


@pytest.mark.parametrize("number", range(STORMS))
def test_processes_that_are_killed_lose_nothing_and_nobody_hears_of_a_lock(
    number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with storm(tmp_path, SEED + number) as blowing:
        assert blown(blowing, ROUNDS, STORM_SECONDS) == []
        deaths = {station.name: station.deaths for station in blowing.stations}
        assert sum(deaths.values()) >= 4
        waited = spread(blowing.waits)
        assert waited["n"] >= 2 * NOTES
        assert waited["p99"] < MOST_P99
    with capsys.disabled():
        print(f"\nstorm {SEED + number}: {deaths}, seconds {waited}, degraded {blowing.degraded}")


def test_control_of_that_a_watcher_that_loses_edits_is_noticed(tmp_path: Path) -> None:
    watch = worker("run")
    with storm(tmp_path, SEED, watch, FAULT_WORKER="idle_watcher") as blowing:
        blowing.edit()
        wrong = blown(blowing, 0, 0.0, patience=5.0)
    assert any("finds" in line for line in wrong)


# A transaction that reads before it writes


def counted_wrong(shell: CommandLine, fault: str, times: int = 120) -> Violations:
    """What goes wrong when three processes count in one sidecar, and two queue requests."""
    environment = shell.environment({"FAULT_WORKER": fault})
    asked = by_lane(fast=40, slow=200)
    commands = [worker("count", str(times)) for _ in range(3)]
    commands += [worker("ask", f"asker {n}", str(asked)) for n in range(2)]
    children = [
        subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for command in commands
    ]
    for child in children:
        assert child.stdout is not None
        assert json.loads(child.stdout.readline()) == {"ready": True}
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    told = [json.loads(child.communicate(timeout=DEADLINE_SECONDS)[0]) for child in children]
    memory = opened(shell)
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    stored = int(sidecar.meta("count") or "0")
    queued = sidecar.connection.execute("SELECT count(*) FROM request").get
    memory.close()
    wrong = [error for said in told for error in said["errors"]]
    if stored != sum(said["done"] for said in told[:3]):
        wrong.append(f"{stored} is stored of {[said['done'] for said in told[:3]]}")
    if queued != sum(said["done"] for said in told[3:]):
        wrong.append(f"{queued} are queued of {[said['done'] for said in told[3:]]}")
    if not all(said["done"] for said in told):
        wrong.append(f"one of them did nothing: {told}")
    return wrong


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    shell = on_notes(tmp_path, {"Gate.md": "The gate is green.\n", "Kiln.md": "It is hot.\n"})
    assert shell.run("index").code == 0
    return shell


def test_processes_that_write_at_once_all_do_and_lose_no_count(shell: CommandLine) -> None:
    assert counted_wrong(shell, "") == []


def test_control_of_that_who_begins_as_a_reader_is_locked_out(shell: CommandLine) -> None:
    wrong = counted_wrong(shell, "plain_begin")
    assert any("busy" in line for line in wrong)


# Locks


def folder_of(shell: CommandLine) -> Path:
    return next(shell.cache.glob("*/index.db")).parent


@contextmanager
def holder(shell: CommandLine) -> Iterator["subprocess.Popen[str]"]:
    """A process that holds every lock."""
    command = worker("hold")
    with subprocess.Popen(
        command, env=shell.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"ready": True}
        try:
            yield process
        finally:
            process.kill()


def locked_out(folder: Path) -> Violations:
    """The locks that are not to be had at once."""
    wrong: Violations = []
    for lock in (locks.writer_lock, locks.embedding_lock, locks.watch_lock):
        try:
            with lock(folder):
                pass
        except SidecarBusy as error:
            wrong.append(str(error))
    if locks.is_watched(folder):
        wrong.append("it counts as watched")
    return wrong


def test_the_locks_of_a_process_that_is_dead_are_taken_over_at_once(shell: CommandLine) -> None:
    folder = folder_of(shell)
    with holder(shell) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE_SECONDS)
        assert locked_out(folder) == []
        assert shell.run("index").code == 0


@pytest.mark.parametrize("number", [signal.SIGCONT, signal.SIGSTOP], ids=["alive", "stopped"])
def test_control_of_that_those_of_one_that_lives_are_not(
    number: signal.Signals, shell: CommandLine
) -> None:
    folder = folder_of(shell)
    with holder(shell) as process:
        process.send_signal(number)
        wrong = locked_out(folder)
        assert len(wrong) == 4
        assert all("Wait for it to end" in line for line in wrong[:3])
        # Who asks is answered all the same.
        (shell.vault / "Gate.md").write_text("The gate is scarlet.\n")
        began = time.monotonic()
        reply = shell.reply("search", "gate")
        assert time.monotonic() - began < MOST_SECONDS
        assert [hit["path"] for hit in reply["hits"]] == ["Gate.md"]
        assert "locked" not in " ".join(reply["degraded"])


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_where_a_file_system_has_no_locks_that_is_said_and_nothing_written(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = on_notes(tmp_path, {"Gate.md": "The gate is green.\n"})

    def flock(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", flock)
    memory = opened(shell)
    with pytest.raises(SidecarUnavailable) as caught:
        index(memory, IndexRequest())
    for part in (str(memory.folder), "no locks", "--cache-dir", "VAULTMEM_CACHE_DIR"):
        assert part in str(caught.value)
    assert {path.name for path in memory.folder.iterdir()} <= {"writer.lock", "CACHEDIR.TAG"}
    memory.close()


def test_while_another_indexes_a_second_says_so_in_one_line_and_in_time(
    shell: CommandLine,
) -> None:
    """What a person reads of it names the lock, never SQLite's word."""
    with holder(shell):
        ended = shell.run("watch")
    assert_one_line_error(ended, 11, "Another vaultmem process is watching", "watch.lock")
    with writer_lock(folder_of(shell)):
        pass
