"""`vaultmem mcp` as a process: what is on its streams, when it begins to work, and how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest
from command_line import (
    MODULE,
    REPOSITORY,
    CommandLine,
    obeying_permissions,
    on_notes,
    on_sample,
    write_notes,
)
from mcp_process import DEADLINE_SECONDS, HANDSHAKE, McpProcess, Message, messages, serving
from ollama_server import Fault, OllamaServer

REPORT = REPOSITORY / "tests/data/reports/21-stdout-is-protocol"
REQUESTS = (REPORT / "request.jsonl").read_bytes()
# What a server that ends by itself may take for it, on a machine that does other things too.
SOON_SECONDS = 10.0
# A server that waits longer than a test does for answers that are still to come.
PATIENT_SECONDS = 30.0
PATIENT = (
    sys.executable,
    "-c",
    "import sys; from vaultmem.surfaces import cli, mcp_stdio; "
    f"mcp_stdio.LAST_ANSWERS_SECONDS = {2 * PATIENT_SECONDS}; sys.exit(cli.main())",
)
NOWHERE = "http://127.0.0.1:9"  # the discard port; nothing listens there
BUILT_IN: dict[str, str | None] = {"VAULTMEM_EMBEDDER_NAME": None}
FEW = {f"n{i}.md": f"# Note {i}\n\nkiln clay, number {i}" for i in range(5)}
TIMED = (sys.executable, "-X", "importtime", "-m", "vaultmem")
# Nothing that opens a vault, reads a note or compares vectors.
HEAVY = {
    "frontmatter",
    "markdown_it",
    "networkx",
    "numpy",
    "ollama",
    "onnxruntime",
    "re2",
    "sqlite_vec",
    "tokenizers",
    "watchdog",
    "yaml",
}

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals and modes")


def request(number: Any, method: str, **params: Any) -> Message:
    message: Message = {"jsonrpc": "2.0", "id": number, "method": method}
    return message | {"params": params} if params else message


def search_for(query: str, number: Any = 9, **arguments: Any) -> Message:
    return request(number, "tools/call", name="search", arguments={"query": query, **arguments})


def many(count: int) -> dict[str, str]:
    return {
        f"n{i:04}.md": f"# Note {i}\n\nkiln clay, number {i} {'glaze ' * 40}[[n{i * 7 % count:04}]]"
        for i in range(count)
    }


@pytest.fixture
def sample(tmp_path: Path) -> CommandLine:
    return on_sample(tmp_path)


@pytest.fixture
def indexed(sample: CommandLine) -> CommandLine:
    assert sample.run("index").code == 0
    return sample


# Nothing but the protocol on standard output


@dataclass(frozen=True)
class Trouble:
    """Something that makes a program talkative."""

    options: tuple[str, ...] = ()
    variables: Mapping[str, str | None] = field(default_factory=dict)
    prepare: Callable[[CommandLine], object] = lambda shell: None
    unprivileged: bool = False
    closes: int | None = None  # a descriptor that the server is started without
    answers: bool = True  # whether a search succeeds all the same
    speaks: bool = False  # whether there must be something on standard error


def damage(shell: CommandLine) -> None:
    assert shell.run("index").code == 0
    (sidecar,) = shell.cache.glob("*/index.db")
    sidecar.write_bytes(b"\xff not what was written \n" * 999)


def shut(shell: CommandLine) -> None:
    shell.cache.mkdir()
    shell.cache.chmod(0o555)


def spoil_settings(shell: CommandLine) -> None:
    write_notes(shell.vault, {".vaultmem/config.toml": "[search\nlimit = {\n"})


def empty(shell: CommandLine) -> None:
    rmtree(shell.vault)
    shell.vault.mkdir()


OLLAMA: Mapping[str, str | None] = {
    "VAULTMEM_EMBEDDER_NAME": "ollama",
    "VAULTMEM_EMBEDDER_HOST": NOWHERE,
}
TROUBLES = {
    "the most verbose log": Trouble(("--log-level", "debug"), {"PYTHONASYNCIODEBUG": "1"}),
    "an embedder that cannot be reached": Trouble(("--log-level", "debug"), OLLAMA),
    "every warning": Trouble(
        ("--log-level", "debug"), {"PYTHONWARNINGS": "always", "PYTHONDEVMODE": "1"}
    ),
    "a talkative interpreter": Trouble((), {"PYTHONVERBOSE": "1"}, speaks=True),
    "an index that is there": Trouble(prepare=lambda shell: shell.run("index")),
    "a damaged index": Trouble(("--log-level", "debug"), prepare=damage),
    "a cache folder that is not to be written": Trouble(
        ("--log-level", "debug"), prepare=shut, unprivileged=True, answers=False
    ),
    "a broken settings file": Trouble(prepare=spoil_settings, answers=False),
    "a variable that makes no sense": Trouble(
        variables={"VAULTMEM_SEARCH_LIMIT": "many"}, answers=False
    ),
    "a vault that is not there": Trouble(prepare=lambda s: rmtree(s.vault), answers=False),
    "a vault without a note": Trouble(prepare=empty, answers=False),
    "no standard error": Trouble(("--log-level", "debug"), closes=2),
}


@posix
@pytest.mark.parametrize("name", TROUBLES)
def test_report_21_every_line_on_standard_output_is_a_message(tmp_path: Path, name: str) -> None:
    trouble = TROUBLES[name]
    copytree(REPORT / "vault", tmp_path / "vault")
    shell = CommandLine(tmp_path, tmp_path / "vault")
    trouble.prepare(shell)
    steps = [obeying_permissions()] if trouble.unprivileged else []
    if trouble.closes is not None:
        steps.append(lambda: os.close(trouble.closes or 0))

    def before() -> None:
        for step in steps:
            if step is not None:
                step()

    options = {"environment": trouble.variables, "preexec_fn": before if steps else None}
    with serving(shell, *trouble.options, **options) as server:  # type: ignore[arg-type]
        server.send(REQUESTS, search_for("nowhere", 3), search_for("nowhere", 4, mode="keyword"))
        server.answer(4)
        served = server.close()
    answers = served.answers()  # each line was one message, or this fails
    assert (served.code, sorted(answers)) == (0, [1, 2, 3, 4])
    assert served.seconds < SOON_SECONDS
    assert len(answers[2]["result"]["tools"]) > 3
    for number in (3, 4):
        result = answers[number]["result"]
        assert result.get("isError", False) is not trouble.answers, result
        if trouble.answers:
            assert [h["path"] for h in result["structuredContent"]["content"]["hits"]] == [
                "warn.md"
            ]
    assert "Traceback" not in served.err
    assert bool(served.err) or not trouble.speaks


WRITERS = {
    "print": "print('stray')",
    "descriptor": "os.write(1, b'stray\\n')",
    "C": "import ctypes; c = ctypes.CDLL(None); c.puts(b'stray'); c.fflush(None)",
    "child": "subprocess.run(['echo', 'stray'], check=True)",
    "inherited": "subprocess.run(['echo', 'stray'], check=True, close_fds=False)",
    "original": "sys.__stdout__.write('stray\\n'); sys.__stdout__.flush()",
    "warning": "import warnings; warnings.warn('stray')",
    "fault": "import faulthandler; faulthandler.dump_traceback(2); os.write(2, b'stray')",
    "thread": "import threading; threading.Thread(target=lambda: print('stray')).start()",
}


@posix
@pytest.mark.parametrize("errors", ["open", "closed"])
@pytest.mark.parametrize("writer", WRITERS)
def test_what_others_write_never_gets_on_the_wire(writer: str, errors: str) -> None:
    code = f"""\
import os, subprocess, sys
from vaultmem.surfaces.mcp_stdio import take_wire
wire = take_wire()
wire.write.write(b"before ")
wire.write.flush()
try:
    {WRITERS[writer]}
except AttributeError:  # there is no standard error to write to
    pass
wire.write.write(wire.read.read() + b" after")
wire.write.flush()
"""
    ended = subprocess.run(
        [sys.executable, "-c", code],
        input=b"given",
        capture_output=True,
        preexec_fn=(lambda: os.close(2)) if errors == "closed" else None,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, b"before given after")
    assert (b"stray" in ended.stderr) is (errors == "open")


@posix
@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)], ids=str)
def test_started_without_some_of_its_streams_it_ends_by_itself(
    indexed: CommandLine, closed: tuple[int, ...]
) -> None:
    """And what it reads from is not written to, as one stream may be both."""

    def close() -> None:
        for descriptor in closed:
            os.close(descriptor)

    with serving(indexed, preexec_fn=close) as server:
        if 0 not in closed:
            server.send(REQUESTS)
        served = server.close()
    assert served.code == 0
    assert served.err == ""
    assert sorted(served.answers()) == ([1, 2] if closed == (2,) else [])


@posix
def test_an_input_that_can_be_written_to_gets_nothing(indexed: CommandLine) -> None:
    """Some clients give both streams as sockets; what comes back on the wrong one is lost."""
    import socket

    ours, theirs = socket.socketpair()

    def without_output() -> None:
        os.close(1)
        os.close(2)

    with (
        ours,
        subprocess.Popen(
            [*MODULE, "--vault", str(indexed.vault), "mcp", "--log-level", "debug"],
            cwd=indexed.elsewhere,
            env=indexed.environment(),
            stdin=theirs.fileno(),
            preexec_fn=without_output,
        ) as process,
    ):
        theirs.close()
        ours.sendall(REQUESTS)
        ours.shutdown(socket.SHUT_WR)
        assert process.wait(DEADLINE_SECONDS) == 0
        assert ours.recv(1 << 16) == b""


# Start-up


def test_the_handshake_loads_and_opens_nothing(sample: CommandLine) -> None:
    with serving(sample, python=TIMED) as server:
        assert server.shake_hands()["result"]["serverInfo"]["name"] == "vaultmem"
        assert len(server.result("tools/list")["tools"]) > 3
        server.result("prompts/list")
        server.result("resources/templates/list")
        assert not sample.cache.exists()
        early = set(server.errors)
        server.call("search", query="sourdough")
        assert sample.cache.exists()
        served = server.close()
    assert imported(early) & HEAVY == set()
    assert "mcp" in imported(early)
    assert {"yaml", "markdown_it"} <= imported(served.err.encode().splitlines())
    assert served.code == 0


def imported(lines: Any) -> set[str]:
    """The top-level packages that `-X importtime` tells of."""
    named = (re.match(rb"import time:.*\| +([\w.]+)\s*$", line) for line in lines)
    return {match[1].decode().partition(".")[0] for match in named if match is not None}


def test_the_model_is_loaded_and_passages_embedded_after_the_first_answer(tmp_path: Path) -> None:
    shell = on_notes(tmp_path, FEW)
    with serving(shell, environment=BUILT_IN) as server:
        server.shake_hands()
        server.call("search", query="kiln", mode="keyword")
        server.until(lambda: vectors(server) == len(FEW))
        served = server.close()
    assert (served.code, served.err) == (0, "")


@pytest.mark.parametrize("first", ["no such tool", "no vault"])
def test_a_first_call_that_fails_does_not_spoil_the_warm_up(tmp_path: Path, first: str) -> None:
    shell = on_notes(tmp_path, FEW)
    away = shell.vault.with_name("away")
    with serving(shell, environment=BUILT_IN) as server:
        server.shake_hands()
        if first == "no vault":
            shell.vault.rename(away)
            assert "There is no folder" in server.fails("search", query="kiln")
            away.rename(shell.vault)
        else:
            assert "There is no tool" in server.fails("seek")
        server.result("ping")
        assert len(server.paths("kiln", mode="keyword")) == len(FEW)
        server.until(lambda: vectors(server) == len(FEW))


def vectors(server: McpProcess) -> int:
    return int(server.call("status")["vectors"])


def test_a_first_index_is_reported_as_it_goes(tmp_path: Path) -> None:
    shell = on_notes(tmp_path, many(2000))
    with serving(shell) as server:
        server.shake_hands()
        server.send(with_progress(search_for("kiln")))
        server.answer(9)
        served = server.close()
    told = [m["params"] for m in served.messages if m.get("method") == "notifications/progress"]
    assert told
    assert {one["progressToken"] for one in told} == {"told"}
    assert [one["progress"] for one in told] == sorted({one["progress"] for one in told})
    assert "of 2,000" in told[-1]["message"]


def with_progress(message: Message) -> Message:
    params = message["params"] | {"_meta": {"progressToken": "told"}}
    return message | {"params": params}


# The end


def test_requests_that_are_piped_in_at_once_are_all_answered(indexed: CommandLine) -> None:
    asked = [search_for(f"too many clients {number}", number) for number in range(200)]
    with serving(indexed) as server:
        server.send(*HANDSHAKE, *asked)
        served = server.close()
    answers = served.answers()
    assert set(answers) == {"handshake", *range(200)}
    for number in range(200):
        content = answers[number]["result"]["structuredContent"]["content"]
        assert content["query"] == f"too many clients {number}"
        assert content["hits"]
    assert (served.code, served.err) == (0, "")


def test_a_first_request_that_is_piped_in_is_answered(sample: CommandLine) -> None:
    with serving(sample) as server:
        server.send(*HANDSHAKE, search_for("sourdough"))
        served = server.close()
    hits = served.answers()[9]["result"]["structuredContent"]["content"]["hits"]
    assert hits[0]["path"] == "Personal/Sourdough log.md"


def test_an_id_that_is_used_twice_is_answered_twice(indexed: CommandLine) -> None:
    with serving(indexed) as server:
        server.send(*HANDSHAKE, *[search_for("sourdough")] * 3)
        served = server.close()
    answers = [message for message in served.messages if message.get("id") == 9]
    assert [sorted(answer) for answer in answers] == [["id", "jsonrpc", "result"]] * 3


def test_it_ends_in_the_middle_of_a_first_index(tmp_path: Path) -> None:
    shell = on_notes(tmp_path, many(3000))
    with serving(shell) as server:
        server.shake_hands()
        server.send(with_progress(search_for("kiln")))
        server.until(lambda: any(b"notifications/progress" in line for line in server.lines))
        served = server.close()
    assert served.answers()[9]["result"]["structuredContent"]["content"]["hits"]
    assert (served.code, served.err) == (0, "")
    assert served.seconds < SOON_SECONDS
    assert shell.reply("index")["notes"]["total"] == 3000
    assert shell.paths("-k", "1", "number", "2999") == ["n2999.md"]


def test_it_ends_while_passages_are_being_embedded(tmp_path: Path) -> None:
    shell = on_notes(tmp_path, many(400))
    with serving(shell, environment=BUILT_IN) as server:
        server.shake_hands()
        server.until(lambda: vectors(server) > 0)
        served = server.close()
    assert (served.code, served.err) == (0, "")
    assert served.seconds < SOON_SECONDS
    kept = shell.reply("status", environment=BUILT_IN)
    assert 0 < kept["vectors"] < kept["chunks"]


@contextmanager
def hung_ollama(shell: CommandLine) -> Iterator[tuple[OllamaServer, dict[str, str | None]]]:
    """A server that embedded the vault and then answers no more."""
    with OllamaServer() as ollama:
        variables: dict[str, str | None] = {
            "VAULTMEM_EMBEDDER_NAME": "ollama",
            "VAULTMEM_EMBEDDER_HOST": ollama.url,
        }
        assert shell.run("index", environment=variables).code == 0
        ollama.faults["/api/embed"] = Fault.SLOW
        ollama.requests.clear()
        yield ollama, variables


def test_it_ends_while_an_ollama_server_hangs_in_the_background(tmp_path: Path) -> None:
    shell = on_notes(tmp_path, FEW)
    with hung_ollama(shell) as (ollama, variables):
        write_notes(shell.vault, {"new.md": "# New\n\nkiln"})
        with serving(shell, environment=variables) as server:
            server.shake_hands()
            server.call("search", query="kiln", mode="keyword")
            server.until(lambda: bool(ollama.asked("/api/embed")))
            assert "new.md" in server.paths("kiln", mode="keyword")
            served = server.close()
    assert (served.code, served.err) == (0, "")
    assert served.seconds < SOON_SECONDS


def test_it_ends_while_an_answer_waits_for_an_ollama_server_that_hangs(tmp_path: Path) -> None:
    shell = on_notes(tmp_path, FEW)
    with (
        hung_ollama(shell) as (ollama, variables),
        serving(shell, environment=variables) as server,
    ):
        server.shake_hands()
        server.send(search_for("kiln", mode="hybrid"))
        server.until(lambda: bool(ollama.asked("/api/embed")))
        served = server.close()
    assert served.answers()[9]["error"]["message"] == "Connection closed"
    assert (served.code, served.err) == (0, "")
    assert served.seconds < SOON_SECONDS


def test_a_server_that_hangs_keeps_no_answer_by_words_waiting(tmp_path: Path) -> None:
    shell = on_notes(tmp_path, FEW)
    with (
        hung_ollama(shell) as (ollama, variables),
        serving(shell, environment=variables) as server,
    ):
        server.shake_hands()
        server.call("status")  # after which it warms up
        began = time.monotonic()
        for _ in range(20):
            assert len(server.paths("kiln", mode="keyword")) == len(FEW)
            server.call("status")
        assert time.monotonic() - began < SOON_SECONDS
        assert ollama.asked("/api/embed") == []


def test_a_call_that_was_cancelled_is_not_waited_for(tmp_path: Path) -> None:
    shell = on_notes(tmp_path, many(1500))
    with serving(shell, "--tools", "all", python=PATIENT) as server:
        server.shake_hands()
        server.call("status")
        number = server.ask("tools/call", {"name": "index", "arguments": {"rebuild": True}})
        cancelled = {"requestId": number, "reason": "not wanted any more"}
        server.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}},
            {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        )
        server.result("ping")
        served = server.close()
    assert number not in served.answers()
    assert served.code == 0
    assert served.seconds < PATIENT_SECONDS


@posix
def test_it_ends_when_nobody_reads_its_answers(indexed: CommandLine) -> None:
    command = [*MODULE, "--vault", str(indexed.vault), "--cache-dir", str(indexed.cache), "mcp"]
    with subprocess.Popen(
        command,
        cwd=indexed.elsewhere,
        env=indexed.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"".join(json.dumps(one).encode() + b"\n" for one in HANDSHAKE))
        process.stdin.flush()
        messages([process.stdout.readline()])
        process.stdout.close()
        process.stdin.write(json.dumps(request(1, "tools/list")).encode() + b"\n")
        process.stdin.flush()
        assert process.wait(DEADLINE_SECONDS) == 0  # though its input is still open
        assert process.stderr.read() == b""


@posix
def test_it_ends_when_its_answers_pile_up_unread_and_the_input_ends(indexed: CommandLine) -> None:
    command = [*MODULE, "--vault", str(indexed.vault), "--cache-dir", str(indexed.cache), "mcp"]
    asked = [*HANDSHAKE, *[request(number, "tools/list") for number in range(60)]]
    with subprocess.Popen(
        command,
        cwd=indexed.elsewhere,
        env=indexed.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"".join(json.dumps(one).encode() + b"\n" for one in asked))
        process.stdin.close()
        assert process.wait(DEADLINE_SECONDS) == 0  # nothing is read meanwhile


@posix
@pytest.mark.parametrize(
    ("number", "code"),
    [("SIGINT", 130), ("SIGTERM", 0), ("SIGHUP", 0)],
)
def test_a_signal_ends_it_at_once(tmp_path: Path, number: str, code: int) -> None:
    shell = on_notes(tmp_path, many(3000))
    with serving(shell) as server:
        server.shake_hands()
        server.send(with_progress(search_for("kiln")))
        server.until(lambda: any(b"notifications/progress" in line for line in server.lines))
        server.process.send_signal(getattr(signal, number))
        served = server.ended()
    assert (served.code, served.err) == (code, "")
    # It did not go on to the end first.
    assert shell.reply("status")["notes"] < 3000


# What a client may send

ODD_LINES: dict[str, bytes] = {
    "no JSON": b'{"jsonrpc":"2.0","id":100,"method":\n',
    "not UTF-8": b'{"jsonrpc":"2.0","id":101,"method":"\xff\xfe"}\n',
    "UTF-16": '{"jsonrpc":"2.0","id":1,"method":"ping"}\n'.encode("utf-16") + b"\n",
    "a NUL": b"\x00\n",
    "null": b"null\n",
    "a number": b"7\n",
    "a text": b'"ping"\n',
    "an empty list": b"[]\n",
    "a batch": b'[{"jsonrpc":"2.0","id":102,"method":"ping"}]\n',
    "deep": b"[" * 200_000 + b"\n",
    "deep params": b'{"jsonrpc":"2.0","id":103,"method":"x","params":' + b'{"a":' * 9999 + b"\n",
    "blank lines": b"\n\n  \n\t\r\n",
    "no version": b'{"id":104,"method":"ping"}\n',
    "another version": b'{"jsonrpc":"1.0","id":105,"method":"ping"}\n',
    "no id and no method": b'{"jsonrpc":"2.0"}\n',
    "an id that is null": b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n',
    "an id that is half": b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}\n',
    "an id that is true": b'{"jsonrpc":"2.0","id":true,"method":"ping"}\n',
    "an id that is a list": b'{"jsonrpc":"2.0","id":[1],"method":"ping"}\n',
    "a method that is a number": b'{"jsonrpc":"2.0","id":106,"method":7}\n',
    "params in a list": b'{"jsonrpc":"2.0","id":107,"method":"ping","params":[1]}\n',
    "half a character": b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}\n',
    "an answer to nothing": b'{"jsonrpc":"2.0","id":108,"result":{}}\n',
    "an error of nothing": b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"?"}}\n',
    "a strange notification": b'{"jsonrpc":"2.0","method":"notifications/elsewhere"}\n',
    "progress of nothing": b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}\n',
}


def test_what_is_no_message_does_no_harm(indexed: CommandLine) -> None:
    with serving(indexed, "--log-level", "debug") as server:
        server.shake_hands()
        for line in ODD_LINES.values():
            server.send(line)
            assert server.result("ping") == {}
        assert server.paths("sourdough")[0] == "Personal/Sourdough log.md"
        served = server.close()
    assert served.code == 0
    assert "Traceback" not in served.err


@pytest.mark.parametrize(
    ("name", "number", "code"),
    [
        ("no JSON", None, -32700),
        ("not UTF-8", None, -32700),
        ("a batch", None, -32600),
        ("another version", 105, -32600),
        ("params in a list", 107, -32600),
    ],
)
def test_whoever_sends_what_is_no_message_is_told(
    server: McpProcess, name: str, number: int | None, code: int
) -> None:
    before = len(server.lines)
    server.send(ODD_LINES[name])
    server.result("ping")
    answer, _ = messages(server.lines[before:])
    assert (answer["id"], answer["error"]["code"]) == (number, code)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpProcess]:
    """One server for tests that only ask."""
    shell = on_sample(tmp_path_factory.mktemp("server"))
    with serving(shell) as running:
        running.shake_hands()
        yield running


@pytest.mark.parametrize("number", ["a", "", "1", "ü" * 99, 0, -7, 2**53, 10**30])
def test_an_answer_has_the_id_of_its_request(server: McpProcess, number: Any) -> None:
    server.send(request(number, "ping"))
    assert server.answer(number) == {"jsonrpc": "2.0", "id": number, "result": {}}


def test_a_method_that_there_is_not_is_an_error(server: McpProcess) -> None:
    answer = server.answer(server.ask("vault/erase"))
    assert answer["error"]["code"] == -32601


def test_a_line_of_five_megabytes_is_read(server: McpProcess) -> None:
    server.send(search_for("sourdough " + "a" * 5_000_000, "long"))
    answer = server.answer("long")
    assert "result" in answer
    assert len(json.dumps(answer)) < 100_000


def test_before_the_handshake_only_that_is_answered(indexed: CommandLine) -> None:
    with serving(indexed) as early:
        early.send(request("a", "tools/list"), search_for("sourdough", "b"), request("c", "ping"))
        assert early.answer("a")["error"]["code"] == -32602
        assert "error" in early.answer("b")
        assert early.answer("c")["result"] == {}
        early.shake_hands()
        assert early.paths("sourdough")[0] == "Personal/Sourdough log.md"


@pytest.mark.parametrize(
    ("wanted", "given"),
    [("2024-11-05", "2024-11-05"), ("2025-11-25", "2025-11-25"), ("1999-01-01", "2025-11-25")],
)
def test_a_version_is_agreed_on(indexed: CommandLine, wanted: str, given: str) -> None:
    hello = HANDSHAKE[0] | {"params": HANDSHAKE[0]["params"] | {"protocolVersion": wanted}}
    with serving(indexed) as server:
        server.send(hello, HANDSHAKE[1])
        assert server.answer("handshake")["result"]["protocolVersion"] == given
        assert server.paths("sourdough")[0] == "Personal/Sourdough log.md"


def test_index_runs_that_wait_do_not_keep_a_search_waiting(tmp_path: Path) -> None:
    shell = on_notes(tmp_path, many(1000))
    assert shell.run("index").code == 0
    with serving(shell, "--tools", "all") as server:
        server.shake_hands()
        server.call("status")
        running = [
            server.ask("tools/call", {"name": "index", "arguments": {"rebuild": True}})
            for _ in range(50)
        ]
        assert server.paths("number 7")
        answered = {json.loads(line).get("id") for line in list(server.lines)}
        assert len(answered & set(running)) < 4
        for number in running:
            server.send(
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/cancelled",
                    "params": {"requestId": number},
                }
            )
        assert server.close().code == 0


@posix
def test_a_vault_whose_folder_has_no_name_in_unicode_is_served(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9 notes"
    try:
        os.mkdir(name)
    except OSError:
        pytest.skip("folders have names in Unicode here")
    shell = CommandLine(tmp_path, Path(os.fsdecode(name)))
    write_notes(shell.vault, {"Hello.md": "# Hello\n\nThe harbour."})
    with serving(shell) as server:
        server.shake_hands()
        assert server.paths("harbour") == ["Hello.md"]
        assert server.call("search", query="harbour", detail="full")["hits"]
        assert server.call("status")["notes"] == 1
        assert server.close().err == ""


def test_a_working_folder_that_goes_away_is_said(tmp_path: Path) -> None:
    shell = on_notes(tmp_path, FEW)
    folder = tmp_path / "gone"
    folder.mkdir()
    nothing: dict[str, str | None] = {"VAULTMEM_VAULT": None}
    with serving(shell, arguments=(), environment=nothing, cwd=folder) as server:
        server.shake_hands()
        if sys.platform != "win32":
            folder.rmdir()
        assert "VAULTMEM_VAULT" in server.fails("search", query="kiln")


@pytest.mark.parametrize(
    "line", [rb"cut emoji \ud83d", rb"\udc00 turned \ud83d around", rb"\ud800"]
)
def test_half_of_a_character_is_answered_by_its_id(server: McpProcess, line: bytes) -> None:
    """JavaScript sends one where it cuts a text within an emoji."""
    asked = search_for("WORDS", "half")
    server.send(json.dumps(asked).encode().replace(b"WORDS", line + b" sourdough") + b"\n")
    answer = server.answer("half")
    assert "isError" not in answer["result"] or not answer["result"]["isError"]


def test_a_question_that_the_person_leaves_open_does_not_keep_it_from_ending(
    tmp_path: Path,
) -> None:
    token = "ghp_" + "".join(f"{number:x}" for number in range(16, 34))
    shell = on_notes(tmp_path, {"login.md": f"the key is {token}\n"})
    asking = json.loads(json.dumps(HANDSHAKE[0]))
    asking["params"]["capabilities"] = {"elicitation": {}}
    with serving(shell, "--tools", "all", python=PATIENT) as server:
        server.send(asking, HANDSHAKE[1])
        server.answer("handshake")
        (secret,) = server.call("secrets")["secrets"]
        wanted = {"name": "allow_secret", "arguments": {"fingerprints": [secret["fingerprint"]]}}
        server.send({**request("open", "tools/call"), "params": wanted})
        server.until(lambda: any(b"elicitation/create" in line for line in server.lines))
        served = server.close()
    assert served.code == 0
    assert served.seconds < PATIENT_SECONDS
    assert "fault" not in served.err
    (question,) = [m for m in served.messages if m.get("method") == "elicitation/create"]
    assert "login.md, line 1" in question["params"]["message"]
    assert token not in question["params"]["message"]


def test_status_tells_of_a_vault_without_notes(tmp_path: Path) -> None:
    shell = on_notes(tmp_path, {})
    with serving(shell) as server:
        server.shake_hands()
        status = server.call("status")
        assert status["vault"] == str(shell.vault)
        assert "no Markdown note" in server.fails("search", query="kiln")
        (shell.vault / "kiln.md").write_text("kiln")
        assert server.paths("kiln") == ["kiln.md"]
