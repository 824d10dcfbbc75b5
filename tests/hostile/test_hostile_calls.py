"""Arguments that are made to harm: paths, full-text queries and numbers."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hostile_vaults import FIRST_SEED, HERE, Asked, run_generator
from watch import WRITING, Event, read_record

pytest_plugins = ["hostile_fixtures"]

REFUSED, ANSWERED, MISUSED = 9, 0, 2
QUERY_SECONDS = 1

BAD_PATHS = 40
GOOD_PATHS = 5
QUERIES = 65
LIMITS = 13

OPERATIONS = ("read", "related", "inspect", "search")
COMMANDS = {"read": "read", "related": "links", "inspect": "why", "search": "search"}

# Hidden files are not searched, and that is just what `why` is there to say.
CLIMBS = re.compile(r"\.\.|%2e|\u2025|^~/", re.IGNORECASE)
EXPLAINED = {
    ".obsidian/app.json",
    ".git/config",
    ".vaultmem/index.db",
    # They are there, and it is told why they are let alone.
    "special/link-file.md",
    "special/fifo.md",
    "special/dangling.md",
    "special/self.md",
}

# What every answer may read of a vault, whatever it is asked about.
SETTINGS_FILES = re.compile(r"\.[a-z]+|config\.toml|[a-z-]+\.json")


@dataclass(frozen=True, slots=True, repr=False)
class Called:
    """What came of all the calls."""

    asked: Asked
    answers: dict[str, Any]
    events: list[Event]

    def opened(self, mark: str) -> list[str]:
        """Paths that were opened during a call."""
        (begin,) = [n for n, e in enumerate(self.events) if e.name == "mark" and e.paths == (mark,)]
        own = (str(self.asked.cache), str(self.asked.child.scratch / "home"))
        paths: list[str] = []
        for event in self.events[begin + 1 :]:
            if event.name == "mark":
                break
            if event.name == "open" and not event.paths[0].startswith(own):
                assert not event.flags & WRITING
                paths += event.paths
        return paths


@pytest.fixture(scope="session")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The lists of arguments."""
    out = tmp_path_factory.mktemp("calls") / "out"
    run_generator(out, FIRST_SEED)
    lists: dict[str, Any] = json.loads((out / "calls.json").read_text("utf-8"))
    return lists


@pytest.fixture(scope="session")
def called(hostile_vault: Callable[[str], Asked], calls: dict[str, Any]) -> Called:
    """All of the calls, made in one process under the audit hook."""
    asked = hostile_vault("watched")
    record = asked.child.scratch / "jobs" / "record of calls"
    answers, printed = asked.child.run("hostile_calls", record=record, calls=calls)
    assert printed == ""
    events = read_record(record)
    return Called(asked, answers, events)


@pytest.mark.parametrize("number", range(BAD_PATHS))
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_bad_path_is_refused(
    called: Called, calls: dict[str, Any], operation: str, number: int
) -> None:
    given = calls["bad_paths"][number]
    reply = called.answers[f"bad_paths {operation} {given}"]
    command = called.answers[f"command {COMMANDS[operation]} {given}"]
    if operation == "inspect" and given in EXPLAINED:
        assert reply["indexed"] is False
        assert (command["code"], command["err"]) == (ANSWERED, "")
    elif operation == "search" and not CLIMBS.search(given):
        # A filter opens nothing: what no note's path begins with selects none.
        assert reply["hits"] == []
        assert command["code"] == ANSWERED
    else:
        assert reply.get("error", "an answer") == "Refused"
        assert (reply["exit_code"], reply["http_status"]) == (REFUSED, 403)
        assert command["code"] == REFUSED
        assert command["out"] == ""
        assert command["err"].startswith("vaultmem: ")
        assert command["err"].count("\n") == 1
    for said in (json.dumps(reply), command["out"], command["err"]):
        assert machine_paths(called, said, given) == []


def machine_paths(called: Called, said: str, given: str) -> list[str]:
    """Absolute paths of this machine in what was said, beside what was given."""
    for spelled in (json.dumps(given)[1:-1], given):
        said = said.replace(spelled, "") if given.strip("./ ") else said
    own = (str(called.asked.child.scratch), str(HERE.parents[1]), str(Path.home()))
    named = [path for path in own if len(path) > 1 and path in said]
    return named + re.findall(r"/(?:etc|home|proc|root|tmp|usr|var|Users|private)/\S+", said)


# What kind of disk the index is on: SQLite's journal goes by that.
MOUNTS = "/proc/self/mountinfo"


@pytest.mark.parametrize("number", range(BAD_PATHS))
def test_nothing_is_opened_for_a_bad_path(
    called: Called, calls: dict[str, Any], number: int
) -> None:
    given = calls["bad_paths"][number]
    vault = str(called.asked.vault)
    for operation in OPERATIONS:
        for mark in (f"{operation} {given}", f"command {COMMANDS[operation]} {given}"):
            opened = called.opened(mark)
            strange = [
                path
                for path in opened
                if path not in (vault, MOUNTS)
                and SETTINGS_FILES.fullmatch(path) is None
                and not path.endswith((".py", ".pyc"))
            ]
            assert (mark, strange) == (mark, [])


def test_an_opening_is_recorded(called: Called, calls: dict[str, Any]) -> None:
    for given in calls["ok_paths"]:
        name = given.rpartition("/")[2]
        assert name in called.opened(f"read {given}")
        assert name in called.opened(f"command read {given}")


@pytest.mark.parametrize("number", range(GOOD_PATHS))
def test_an_odd_path_that_is_good_works(called: Called, calls: dict[str, Any], number: int) -> None:
    given = calls["ok_paths"][number]
    read, related, inspect, search = (
        called.answers[f"ok_paths {operation} {given}"] for operation in OPERATIONS
    )
    assert read["path"] == related["path"] == inspect["path"] == given
    assert read["text"].startswith("needle-nm-")
    assert inspect["indexed"]
    assert [hit["path"] for hit in search["hits"]] == [given]
    for command in COMMANDS.values():
        reply = called.answers[f"command {command} {given}"]
        assert (reply["code"], reply["err"]) == (ANSWERED, "")
        assert given in reply["out"] or command == "read"


@pytest.mark.parametrize("number", range(QUERIES))
def test_any_query_gets_an_answer_at_once(
    called: Called, calls: dict[str, Any], number: int
) -> None:
    query = calls["fts"][number]
    reply = called.answers[f"query {query}"]
    assert "error" not in reply, reply["message"]
    assert reply["mode"] == "keyword"
    assert isinstance(reply["hits"], list)
    assert reply["cpu"] < QUERY_SECONDS
    command = called.answers[f"command query {query}"]
    assert (command["code"], command["err"]) == (ANSWERED, "")
    assert command["out"]


def test_the_queries_that_hold_words_find_something(called: Called) -> None:
    for query in ("a*", "a -b", "漢字", ".net", "'; DROP TABLE chunks; --", "x' OR '1'='1"):
        assert called.answers[f"query {query}"]["hits"], query


@pytest.mark.parametrize("name", ["limit", "max_tokens"])
@pytest.mark.parametrize("number", range(LIMITS))
def test_a_number_is_clamped_or_refused(
    called: Called, calls: dict[str, Any], name: str, number: int
) -> None:
    value = calls["numbers"]["limit"][number]
    reply = called.answers[f"{name} {number}"]
    if isinstance(value, int) and not isinstance(value, bool):
        assert reply.get("error") == (None if value >= 1 else "UsageError")
    else:
        assert reply.get("error") in (None, "UsageError")
    if "error" not in reply:
        given = reply["hits"] if name == "limit" else reply["text"]
        assert 1 <= len(given) <= 1000
        assert name != "limit" or len(given) == 1 or value != 1


@pytest.mark.parametrize("option", ["-k", "--max-tokens"])
@pytest.mark.parametrize("number", range(LIMITS))
def test_a_number_on_the_command_line_is_clamped_or_refused(
    called: Called, calls: dict[str, Any], option: str, number: int
) -> None:
    value = calls["numbers"]["limit"][number]
    reply = called.answers[f"command {option} {number}"]
    digits = str(value).isdigit() and int(value) >= 1
    assert reply["code"] == (ANSWERED if digits else MISUSED)
    assert bool(reply["out"]) is digits
    assert reply["err"].count("\n") == (0 if digits else 1)


def test_no_call_changes_the_index_or_the_vault(called: Called, calls: dict[str, Any]) -> None:
    assert [len(calls[name]) for name in ("bad_paths", "ok_paths", "fts")] == [
        BAD_PATHS,
        GOOD_PATHS,
        QUERIES,
    ]
    assert len(calls["numbers"]["limit"]) == LIMITS
    assert called.answers["same_bytes"]
