"""Offline: in the default configuration no command opens a socket, or starts a process."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType

import pytest
from command_line import MODULE, Ended, on_notes

# Runs before anything else in the child: writes down every event that leads out of the process,
# and forbids it.
WATCH = """
import os, sys
RECORD = os.open(os.environ["OFFLINE_RECORD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def watch(event, arguments):
    if event.startswith(("socket.", "subprocess.", "urllib.", "http.", "ftplib.", "smtplib.")) or (
        event in ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty")
    ):
        os.write(RECORD, f"{event}\\n".encode())
        raise ConnectionRefusedError(f"{event} is forbidden")
sys.addaudithook(watch)
"""

NOTES = {
    "Kiln.md": "# Kiln\n\nIt fires overnight, and cools until noon. See [[Clay]].\n",
    "Clay.md": "Clay from the river bank, sieved twice.\n",
    "Horno.md": "El horno se enciende por la noche y no se abre hasta el mediodía siguiente.\n",
}

DEFAULT = {"VAULTMEM_EMBEDDER_NAME": None}

COMMANDS: dict[str, tuple[str, ...]] = {
    "index": ("index",),
    "index again": ("index",),
    "index anew": ("index", "--rebuild"),
    "search": ("search", "an oven at night", "--explain"),
    "search by words": ("search", "river", "--mode", "keyword"),
    "search by meaning": ("search", "pottery", "--mode", "semantic", "--json"),
    "read": ("read", "Kiln"),
    "links": ("links", "Kiln"),
    "lint": ("lint",),
    "status": ("status",),
    "why": ("why", "Kiln"),
    "doctor": ("doctor",),
    "config": ("config",),
    "eval": ("eval", "QUESTIONS"),
    "demo": ("demo",),
}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Ended, list[str]]]:
    """Run a command under watch: how it ended, and what it did that leads out of the process."""
    scratch = tmp_path_factory.mktemp("offline")
    command_line = on_notes(scratch, NOTES)
    site, record = scratch / "site", scratch / "record"
    site.mkdir()
    (site / "sitecustomize.py").write_text(WATCH)
    questions = scratch / "questions.jsonl"
    questions.write_text(json.dumps({"query": "an oven at night", "relevant": ["Kiln.md"]}))

    def run(
        *arguments: str,
        environment: Mapping[str, str] = MappingProxyType({}),
        python: tuple[str, ...] = MODULE,
    ) -> tuple[Ended, list[str]]:
        record.write_text("")
        path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
        watching = {"PYTHONPATH": path, "OFFLINE_RECORD": str(record)}
        given = [str(questions) if a == "QUESTIONS" else a for a in arguments]
        ended = command_line.run(
            *given, environment={**DEFAULT, **watching, **environment}, python=python
        )
        return ended, record.read_text().split()

    return run


Run = Callable[..., tuple[Ended, list[str]]]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_opens_a_socket_in_the_default_configuration(watched: Run, name: str) -> None:
    ended, events = watched(*COMMANDS[name])
    # `doctor` starts the server as an assistant would, under the same watch.
    assert events == (["subprocess.Popen"] if name == "doctor" else [])
    assert "Traceback" not in ended.err
    assert ended.code == (1 if name in ("lint", "doctor") and ended.code else 0), ended
    assert ended.out


def test_the_vectors_were_there_and_answered(watched: Run) -> None:
    ended, events = watched("search", "pottery that is baked", "--mode", "semantic", "--json")
    assert ended.json()["mode"] == "semantic"
    assert ended.json()["hits"]
    assert events == []


# The watch itself


@pytest.mark.parametrize(
    ("code", "event"),
    [
        ("import socket; socket.socket()", "socket.__new__"),
        ("import socket; socket.getaddrinfo('localhost', 80)", "socket.getaddrinfo"),
        ("import socket; socket.gethostbyname('localhost')", "socket.gethostbyname"),
        ("import urllib.request as u; u.urlopen('http://127.0.0.1:9/')", "urllib.Request"),
        ("import subprocess; subprocess.run(['true'])", "subprocess.Popen"),
    ],
    ids=["socket", "name", "host", "page", "process"],
)
def test_the_watch_sees_and_forbids_what_leads_out(watched: Run, code: str, event: str) -> None:
    ended, events = watched(python=(sys.executable, "-c", code))
    assert events == [event]
    assert "is forbidden" in ended.err
    assert ended.code == 1


def test_the_watch_sees_a_server_that_was_asked_for(watched: Run) -> None:
    asked = {"VAULTMEM_EMBEDDER_NAME": "ollama", "VAULTMEM_EMBEDDER_HOST": "http://127.0.0.1:9"}
    ended, events = watched("index", environment=asked)
    assert [event for event in events if event.startswith("socket.")]
    assert ended.code == 15
