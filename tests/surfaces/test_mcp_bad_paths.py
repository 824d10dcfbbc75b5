"""Paths, queries and numbers that are made to harm, through every tool that takes one."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest
from command_line import REPOSITORY
from mcp.types import INVALID_PARAMS
from mcp_hostile_calls import RESOURCE, TOOLS, tool_of
from mcp_in_memory import MODES, Mode, Served

if sys.platform == "win32":
    pytest.skip("these names, links and pipes are POSIX's", allow_module_level=True)

HOSTILE = REPOSITORY / "tests" / "hostile"
SEED = 20261129
BAD_PATHS = 40
GOOD_PATHS = 5
QUERIES = 65

# What leads up or home; of a filter, the rest selects no note and opens nothing.
CLIMBS = re.compile(r"\.\.|%2e|\u2025|^~/", re.IGNORECASE)
# They are hidden or there, and `inspect` tells why they are let alone.
EXPLAINED = {
    ".obsidian/app.json",
    ".git/config",
    ".vaultmem/index.db",
    "special/link-file.md",
    "special/fifo.md",
    "special/dangling.md",
    "special/self.md",
}
# What every answer may read of a vault, whatever it is asked about.
SETTINGS_FILES = re.compile(r"\.[a-z]+|config\.toml|[a-z-]+\.json")
MOUNTS = "/proc/self/mountinfo"  # on what kind of disk the index is
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the generator writes of names and of files that are none."""
    out = tmp_path_factory.mktemp("hostile") / "out"
    subprocess.run(
        [
            *(sys.executable, str(HOSTILE / "hostile.py"), str(out)),
            *("--seed", str(SEED), "--only", "names,special"),
        ],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    yield out
    for root, folders, _ in os.walk(out):
        for name in folders:
            if not os.path.islink(os.path.join(root, name)):
                os.chmod(os.path.join(root, name), 0o700)
    rmtree(out)


@pytest.fixture(scope="module")
def calls(hostile: Path) -> dict[str, Any]:
    """The lists of arguments."""
    lists: dict[str, Any] = json.loads((hostile / "calls.json").read_text("utf-8"))
    return lists


@dataclass(frozen=True, slots=True, repr=False)
class Called:
    """What came of the calls, and what the process did."""

    scratch: Path
    vault: Path
    answers: dict[str, Any]
    events: list[tuple[str, list[str], int]]

    def opened(self, call: str) -> list[str]:
        """Paths that were opened during a call; nothing was opened for writing."""
        began = [n for n, (name, paths, _) in enumerate(self.events)
                 if name == "mark" and paths == [call]]  # fmt: skip
        paths: list[str] = []
        for name, given, flags in self.events[began[-1] + 1 :]:
            if name == "mark":
                break
            if name == "open" and not given[0].startswith(str(self.scratch)):
                assert not flags & WRITING
                paths += given
        return paths


@pytest.fixture(scope="module", params=MODES)
def called(
    hostile: Path,
    calls: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Called:
    """All of the calls, made in one process under an audit hook."""
    scratch = tmp_path_factory.mktemp("called")
    vault = hostile / "vault"
    job, record, result = (scratch / name for name in ("job", "record", "result"))
    wanted = {
        "vault": str(vault),
        "scratch": str(scratch),
        "mode": request.param,
        "result": str(result),
        "bad_paths": calls["bad_paths"],
        "ok_paths": calls["ok_paths"],
    }
    job.write_text(json.dumps(wanted), "utf-8")
    script = Path(__file__).with_name("mcp_hostile_calls.py")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VAULTMEM_")}
    ended = subprocess.run(
        [sys.executable, str(HOSTILE / "watch.py"), str(record), str(script), str(job)],
        cwd=scratch,
        env=kept | {"PYTHONPATH": os.pathsep.join((str(REPOSITORY),)), "HOME": str(scratch)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout.decode("utf-8", "replace")[-3_000:]
    events = [json.loads(line) for line in record.read_text("utf-8").splitlines()]
    return Called(scratch, vault, json.loads(result.read_text("utf-8")), events)


def foreign_paths(called: Called, said: str, given: str) -> list[str]:
    """Absolute paths of this machine in what was said, beside what was given."""
    for spelled in (json.dumps(given)[1:-1], given):
        said = said.replace(spelled, "") if given.strip("./ ") else said
    named = [path for path in (str(called.scratch), str(called.vault), str(Path.home()))
             if len(path) > 1 and path in said]  # fmt: skip
    return named + re.findall(r"/(?:etc|home|proc|root|tmp|usr|var|Users|private)/\S+", said)


@pytest.mark.parametrize("number", range(BAD_PATHS))
@pytest.mark.parametrize("name", [*TOOLS, RESOURCE])
def test_a_bad_path_is_refused(
    called: Called, calls: dict[str, Any], name: str, number: int
) -> None:
    path = calls["bad_paths"][number]
    answer = called.answers[f"{name} {path}"]
    said = json.dumps(answer, ensure_ascii=False)
    if name == RESOURCE:
        assert answer["code"] == INVALID_PARAMS
    elif name == "inspect" and path in EXPLAINED:
        assert not answer["failed"]
        assert "indexed" not in answer
    elif name == "search by words" or (name == "search" and not CLIMBS.search(path)):
        assert not answer["failed"]
        assert "hits" not in answer or name == "search by words"
    elif name == "evaluate":
        # It is a note that there is not; the line is told of and left out.
        assert (answer["failed"], answer["code"]) == (True, "usage")
    elif name == "read a section" and not path:
        # A section of no note: such a file there might be.
        assert (answer["failed"], answer["code"]) == (True, "note-not-found")
    else:
        assert (answer["failed"], answer["code"]) == (True, "refused")
    if "error" in answer:
        assert answer["error"].rstrip().endswith(".")
        assert len(answer["error"].encode()) < 12_000
        assert "fault of vaultmem" not in answer["error"]
    # (Its own uri names the vault, as Obsidian needs it.)
    assert foreign_paths(called, said, path) == []


@pytest.mark.parametrize("number", range(BAD_PATHS))
def test_nothing_is_opened_for_a_bad_path(
    called: Called, calls: dict[str, Any], number: int
) -> None:
    path = calls["bad_paths"][number]
    for name in (*TOOLS, RESOURCE):
        strange = [
            opened
            for opened in called.opened(f"{name} {path}")
            if opened not in (str(called.vault), MOUNTS)
            and SETTINGS_FILES.fullmatch(opened) is None
            and not opened.endswith((".py", ".pyc"))
            # A search by words alone finds notes, and reads them.
            and not (name == "search by words" and "/" not in opened)
        ]
        assert (name, strange) == (name, [])


def test_an_opening_is_recorded(called: Called, calls: dict[str, Any]) -> None:
    for path in calls["ok_paths"]:
        file = path.rpartition("/")[2]
        for name in ("read", RESOURCE):
            assert file in called.opened(f"{name} {path}")


@pytest.mark.parametrize("number", range(GOOD_PATHS))
def test_an_odd_path_that_is_good_works(called: Called, calls: dict[str, Any], number: int) -> None:
    path = calls["ok_paths"][number]
    answers = {name: called.answers[f"{name} {path}"] for name in (*TOOLS, RESOURCE)}
    for tool in ("read", "related", "inspect"):
        assert answers[tool]["path"] == path
    assert answers["read"]["text"].startswith("needle-nm-")
    assert answers["inspect"]["indexed"] is True
    assert [hit["path"] for hit in answers["search"]["hits"]] == [path]
    assert "needle-nm-" in answers[RESOURCE]["text"]
    assert answers["evaluate"]["n"] == 1


def test_no_answer_holds_what_lies_outside(called: Called, hostile: Path) -> None:
    said = json.dumps(called.answers, ensure_ascii=False)
    canaries = {
        line
        for folder in ("outside", "vault-evil")
        for file in (hostile / folder).rglob("*")
        if file.is_file()
        for line in re.findall(r"[A-Z0-9][A-Z0-9-]{9,}", file.read_text("utf-8", "replace"))
    }
    assert canaries
    assert [canary for canary in canaries if canary in said] == []


def test_there_is_a_tool_here_for_every_argument_that_is_a_path(calls: dict[str, Any]) -> None:
    from dataclasses import fields

    from vaultmem.service.operations import OPERATIONS

    taking = {
        operation.name
        for operation in OPERATIONS
        for field in fields(operation.request)
        if field.name in ("note", "notes", "path", "paths", "questions")
    }
    assert taking == {tool_of(name) for name in TOOLS}
    assert (len(calls["bad_paths"]), len(calls["ok_paths"])) == (BAD_PATHS, GOOD_PATHS)


# Queries


@pytest.fixture(scope="module")
def queried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    scratch = tmp_path_factory.mktemp("queried")
    copytree(REPOSITORY / "tests/data/reports/05-punctuated-queries/vault", scratch / "vault")
    served = Served(scratch)
    yield served
    served.close()


FIRST = {
    "00-index.md": "00-index.md",
    "current.md": "current.md",
    "Debian 13.2": "current.md",
    "C++23": "current.md",
    "--no-verify": "current.md",
}
REPORTED = (REPOSITORY / "tests/data/reports/05-punctuated-queries/queries.txt").read_text("utf-8")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("query", [*REPORTED.splitlines(), ""])
def test_report_05_any_line_gets_an_answer(queried: Served, query: str, mode: Mode) -> None:
    for search_mode in ("keyword", "hybrid", "semantic", None):
        result = queried.call("search", {"query": query, "mode": search_mode}, mode)
        assert not result.is_error
        assert result.structured_content is not None
        hits = result.structured_content["content"].get("hits", [])
        if query in FIRST:
            assert hits[0]["path"] == FIRST[query]
        if not re.search(r"\w", query):
            assert hits == []


@pytest.mark.parametrize("mode", MODES)
def test_every_hostile_query_gets_an_answer(
    queried: Served, calls: dict[str, Any], mode: Mode
) -> None:
    # (JSON can carry no half of a pair.)
    queries = [query for query in calls["fts"] if query.isprintable() or query != "\ud800"]
    assert QUERIES - 1 <= len(queries) <= QUERIES
    results = queried.calls([("search", {"query": query}) for query in queries], mode)
    for query, result in zip(queries, results, strict=True):
        assert not result.is_error, query[:60]


@pytest.mark.parametrize("tool", ["search", "read"])
def test_a_hostile_number_is_clamped_or_refused(
    queried: Served, calls: dict[str, Any], tool: str
) -> None:
    base = {"query": "index"} if tool == "search" else {"note": "current"}
    for name in ("limit", "max_tokens") if tool == "search" else ("max_tokens",):
        for value in calls["numbers"]["limit"]:
            result = queried.call(tool, {**base, name: value})
            whole = isinstance(value, float) and value.is_integer()  # JSON has one kind of number
            taken = value is None or (
                (str(value).isdigit() or whole) and int(value) >= 1 and value is not True
            )
            assert result.is_error is not taken, (name, value)
            if result.is_error:
                assert name in str(result.content[0])
