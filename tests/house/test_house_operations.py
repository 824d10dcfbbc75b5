"""One table of operations, every one of them reachable from the command line."""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from vaultmem.service.application import open_memory
from vaultmem.service.operations import OPERATIONS
from vaultmem.service.settings import load_settings
from vaultmem.surfaces.json_reply import to_json

REPOSITORY = Path(__file__).resolve().parents[2]

QUESTIONS = REPOSITORY / "tests" / "data" / "sample_questions.jsonl"

# Each operation: the command line that reaches it, and the request this is.
REACHED: dict[str, tuple[list[str], dict[str, Any]]] = {
    "search": (["search", "pooling"], {"query": "pooling"}),
    "read": (["read", "Home"], {"note": "Home"}),
    "related": (["links", "Home"], {"note": "Home"}),
    "status": (["status"], {}),
    "index": (["index"], {}),
    "inspect": (["why", "Home"], {"note": "Home"}),
    "lint": (["lint"], {}),
    "secrets": (["secrets"], {}),
    "evaluate": (
        ["eval", str(QUESTIONS)],
        {"questions": QUESTIONS.read_text("utf-8"), "source": str(QUESTIONS)},
    ),
}

# Each further field of a request: the arguments that set it, and to what.
FIELDS: dict[tuple[str, str], tuple[list[str], object]] = {
    ("search", "limit"): (["-k", "3"], 3),
    ("search", "mode"): (["--mode", "semantic"], "semantic"),
    ("search", "tags"): (["--tag", "people", "--tag", "error"], ("people", "error")),
    ("search", "paths"): (["--path", "Projects"], ("Projects",)),
    ("search", "kinds"): (["--kind", "meeting"], ("meeting",)),
    ("search", "after"): (["--after", "2026-06"], "2026-06"),
    ("search", "before"): (["--before", "2026-03"], "2026-03"),
    ("search", "passages"): (["--passages"], True),
    ("search", "detail"): (["--detail", "index"], "index"),
    ("search", "without"): (["--without", "note", "--without", "window"], ("note", "window")),
    ("evaluate", "mode"): (["--mode", "semantic"], "semantic"),
    ("evaluate", "compare"): (["--no-compare"], False),
    ("index", "rebuild"): (["--rebuild"], True),
}

# Fields of every request, with tests of their own.
ROOM = {"max_tokens", "cursor"}

# Fields with a test of their own.
ELSEWHERE = {
    *(("index", "embed"), ("index", "accept_deletions"), ("index", "verify")),
    ("status", "assistants"),
}

# Operations with a test of their own: the sample vault holds no secret to allow.
ALONE = {"allow_secret"}

# Whole commands of their own, not options.
COMMANDS: dict[tuple[str, str], tuple[list[str], dict[str, Any]]] = {
    ("status", "checks"): (["doctor"], {"checks": True, "assistants": True}),
    ("status", "settings"): (["config"], {"settings": True}),
}


class Asked:
    """A sample vault to ask on the command line and through the table."""

    def __init__(
        self, cache: Path, embedder: str = "none", vault: Path = REPOSITORY / "sample_vault"
    ) -> None:
        self.cache = cache
        self.environment = {"VAULTMEM_EMBEDDER_NAME": embedder}
        self.vault = vault

    def command_line(self, arguments: list[str]) -> Any:
        """The JSON of a command; `lint` and `doctor` may end with 1."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("VAULTMEM_")}
        environment |= self.environment
        place = ["--vault", str(self.vault), "--cache-dir", str(self.cache)]
        ended = subprocess.run(
            [sys.executable, "-m", "vaultmem", *place, "--json", *arguments],
            env=environment,
            capture_output=True,
            check=False,
        )
        assert ended.returncode in (0, 1), ended.stderr
        return timeless(json.loads(ended.stdout))

    def table(self, name: str, request: dict[str, Any]) -> Any:
        """The reply of an operation, as a surface would give it."""
        (operation,) = [operation for operation in OPERATIONS if operation.name == name]
        memory = open_memory(load_settings(self.vault, self.cache, environment=self.environment))
        try:
            reply = operation.run(memory, operation.request(**request))
        finally:
            memory.close()
        assert type(reply) is operation.reply
        return timeless(json.loads(to_json(reply)))


def timeless(reply: Any) -> Any:
    """A reply without what differs from run to run."""
    reply.pop("seconds", None)
    reply.pop("last_indexed", None)
    for check in reply.get("checks", []):
        if check["id"] == "mcp-handshake":
            check.pop("detail")  # it says how long that took
    for setting in reply.get("settings", []):
        # Both name the cache folder, one by a flag and one by an argument.
        setting.pop("source")
    return reply


@pytest.fixture(scope="module")
def as_it_comes(asked: Asked) -> Callable[[str], Any]:
    """The JSON of an operation's command without options, which is asked once."""
    return functools.cache(lambda name: asked.command_line(REACHED[name][0]))


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    asked = Asked(tmp_path_factory.mktemp("operations"))
    asked.command_line(["index"])
    return asked


def test_the_table_here_names_every_operation_and_every_field() -> None:
    assert set(REACHED) | ALONE == {operation.name for operation in OPERATIONS}
    for operation in OPERATIONS:
        if operation.name in ALONE:
            continue
        there = {field.name for field in fields(operation.request)}
        base = set(REACHED[operation.name][1])
        further = {
            field for name, field in (*FIELDS, *COMMANDS, *ELSEWHERE) if name == operation.name
        }
        assert base | further | ROOM == there


@pytest.mark.parametrize("name", REACHED)
def test_an_operation_gives_the_command_line_its_whole_reply(
    asked: Asked, as_it_comes: Callable[[str], Any], name: str
) -> None:
    assert as_it_comes(name) == asked.table(name, REACHED[name][1])


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_an_option_reaches_the_operation_and_changes_its_reply(
    asked: Asked, as_it_comes: Callable[[str], Any], name: str, field: str
) -> None:
    arguments, request = REACHED[name]
    option, value = FIELDS[name, field]
    with_it = asked.command_line([*arguments, *option])
    assert with_it == asked.table(name, {**request, field: value})
    assert with_it != as_it_comes(name)


def test_no_embed_reaches_the_operation_and_changes_its_reply(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "note.md").write_text("One passage is enough.")
    asked = Asked(tmp_path / "cache", "minilm", vault)
    asked.command_line(["index", "--no-embed"])
    without = asked.command_line(["index", "--no-embed"])
    assert without == asked.table("index", {"embed": False})
    assert without["chunks"]["waiting"] == 1
    embedded = asked.command_line(["index"])["chunks"]
    assert (embedded["embedded"], embedded["waiting"]) == (1, 0)


@pytest.mark.parametrize(("name", "field"), COMMANDS)
def test_a_command_of_its_own_reaches_the_operation(asked: Asked, name: str, field: str) -> None:
    arguments, request = COMMANDS[name, field]
    assert field in request
    assert asked.command_line(arguments) == asked.table(name, request)


def test_every_operation_says_in_few_words_what_it_does() -> None:
    for operation in OPERATIONS:
        assert 3 <= len(operation.summary.split()) <= 60
        assert operation.summary.endswith(".")


def test_names_of_operations_are_unique_and_fit_a_route() -> None:
    names = [operation.name for operation in OPERATIONS]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() and name.islower() for name in names)


def test_accept_deletions_reaches_the_operation_and_changes_its_reply(tmp_path: Path) -> None:
    vault = tmp_path / "Notes"
    vault.mkdir()
    for number in range(80):
        (vault / f"n{number}.md").write_text("clay\n")
    asked = Asked(tmp_path / "cache", vault=vault)
    asked.command_line(["index", "--no-embed"])
    for number in range(60):
        (vault / f"n{number}.md").unlink()
    kept = asked.command_line(["index", "--no-embed"])
    assert kept["notes"]["total"] == 80
    assert [problem["code"] for problem in kept["problems"]] == ["notes-missing"]
    gone = asked.command_line(["index", "--no-embed", "--accept-deletions"])
    assert (gone["notes"]["removed"], gone["notes"]["total"]) == (60, 20)
    assert gone["problems"] == []
