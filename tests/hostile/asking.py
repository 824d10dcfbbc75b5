"""Ask everything of a hostile vault, in a process of its own.

    python asking.py JOB

JOB is a JSON file: what to do (`task`), on which vault, and where the result goes. A failure is a
result too, foreseen or not.
"""

import gc
import io
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import hostile

from vaultmem.model.errors import VaultmemError
from vaultmem.service.application import Clock, Memory, open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.inspect import InspectRequest, inspect
from vaultmem.service.operations.lint import LintRequest, lint
from vaultmem.service.operations.read import ReadRequest, read
from vaultmem.service.operations.related import RelatedRequest, related
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.operations.status import StatusRequest, status
from vaultmem.service.settings import load_settings
from vaultmem.surfaces.cli import main
from vaultmem.surfaces.json_reply import to_json
from vaultmem.vault.parse import parse

# No file is young then, so a second look has nothing to read.
FAR_AHEAD_NS = int(datetime(2101, 1, 1, tzinfo=UTC).timestamp()) * 10**9
# What is asked here is about the index as it stands.
SETTINGS = {"VAULTMEM_EMBEDDER_NAME": "none", "VAULTMEM_SEARCH_REFRESH": "never"}

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("index",),
    ("index", "--json"),
    ("search", "needle"),
    ("search", "--json", "hostname", "environ"),
    ("search", "--mode", "keyword", "--explain", "ignore previous instructions"),
    ("read", "special/real.md"),
    ("read", "--json", "encoding/enc-ansi.md"),
    ("read", "encoding/enc-ansi.md"),
    ("links", "markdown/md-wikilink-escape.md"),
    ("lint",),
    ("status",),
    ("why", "special/real.md"),
    ("why", "names/note.sync-conflict-20260102-030405-ABCDEFG.md"),
    ("doctor",),
    ("config",),
)


def answer(run: Callable[[], object]) -> Any:
    """A reply as a surface would give it, or the failure that came instead."""
    try:
        return json.loads(to_json(run()))
    except VaultmemError as error:
        kind = type(error)
        return {
            "error": kind.__name__,
            "message": str(error),
            "exit_code": kind.exit_code,
            "http_status": kind.http_status,
        }
    except Exception as error:  # noqa: BLE001 - the test says of which call it came
        return {"error": type(error).__name__, "message": str(error)}


def command(*arguments: str) -> dict[str, object]:
    """What a command prints, and its exit code."""
    out, err = (io.TextIOWrapper(io.BytesIO()) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return {"code": code, "out": texts[0], "err": texts[1]}


@contextmanager
def opened(vault: str, cache: str, *, clock: Clock | None = None) -> Iterator[Memory]:
    """A vault in use."""
    memory = open_memory(load_settings(vault, cache, environment=SETTINGS), clock=clock)
    try:
        yield memory
    finally:
        memory.close()


def peak_bytes() -> int:
    """The most memory this program has held, not counting what its parent held at the fork."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@contextmanager
def counted_parses() -> Iterator[list[str]]:
    """Paths of the notes that are parsed inside."""
    parsed: list[str] = []

    def watch(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code is parse.__code__:
            parsed.append(str(frame.f_locals["path"]))

    sys.setprofile(watch)
    try:
        yield parsed
    finally:
        sys.setprofile(None)


def everything(job: dict[str, Any]) -> dict[str, object]:
    """Index a vault twice, then ask of it whatever can be asked."""
    vault, cache = job["vault"], job["cache"]
    rows = job["rows"]
    clock = Clock(now_ns=lambda: FAR_AHEAD_NS) if job["far_ahead"] else None
    result: dict[str, object] = {}
    with opened(vault, cache, clock=clock) as memory:
        began = time.process_time()
        result["index"] = answer(lambda: index(memory, IndexRequest()))
        result["index_cpu"] = time.process_time() - began
        result["index_peak"] = peak_bytes()
    before = sidecar_files(cache)
    with opened(vault, cache, clock=clock) as memory, counted_parses() as parsed:
        sidecar = memory.open_sidecar()
        assert sidecar is not None
        changes = sidecar.connection.total_changes()
        result["again"] = answer(lambda: index(memory, IndexRequest()))
        result["again_changes"] = sidecar.connection.total_changes() - changes
        result["again_parsed"] = parsed
    result["again_same_bytes"] = before == sidecar_files(cache)
    with opened(vault, cache, clock=clock) as memory:
        sidecar = memory.open_sidecar()
        assert sidecar is not None
        # Characters of the passages of each note.
        texts = dict(
            sidecar.connection.execute(
                "SELECT note.path, coalesce(sum(length(trim(chunk.text))), 0) FROM note "
                "LEFT JOIN chunk ON chunk.note = note.id GROUP BY note.id"
            )
        )
        result["texts"] = texts
        result["found"] = {
            row["id"]: [
                [hit["path"], hit["evidence"]["missing"]]
                for hit in ask(memory, f'"{row["needle"]}"')["hits"]
            ]
            for row in rows
            if "needle" in row
        }
        result["asked"] = {
            row["id"]: ask(memory, row["id"].partition("-")[2].replace("-", " "), row["path"])
            for row in rows
            if row["group"] in ("secrets", "injection")
        }
        result["spelled"] = {
            word: [hit["path"] for hit in ask(memory, word)["hits"]]
            for word in ("caf\u00e9", "cafe\u0301")
        }
        readable = [
            row["path"]
            for row in rows
            if row["path"] in texts
            and (job["thorough"] or row["group"] in ("encoding", "secrets", "special"))
        ]
        result["read"] = {
            path: answer(partial(read, memory, ReadRequest(path))) for path in readable
        }
        result["related"] = {
            path: answer(partial(related, memory, RelatedRequest(path))) for path in readable
        }
        groups = ("names", "special") if job["thorough"] else ("special",)
        asked_why = [row["path"] for row in rows if row["group"] in groups]
        result["why"] = {
            path: answer(partial(inspect, memory, InspectRequest(path))) for path in asked_why
        }
        result["lint"] = answer(lambda: lint(memory, LintRequest()))
        result["status"] = answer(lambda: status(memory, StatusRequest(checks=True, settings=True)))
    place = ("--vault", vault, "--cache-dir", cache)
    result["commands"] = {
        " ".join(arguments): command(*place, *arguments) for arguments in COMMANDS
    }
    result["cpu"] = time.process_time()
    result["peak"] = peak_bytes()
    return result


def ask(memory: Memory, query: str, path: str | None = None) -> Any:
    """The answer to a question by words."""
    paths = () if path is None else (path,)
    return answer(lambda: search(memory, SearchRequest(query, mode="keyword", paths=paths)))


def sidecar_files(cache: str) -> dict[str, bytes]:
    """The bytes of the index as it lies on the disk."""
    return {
        str(f): f.read_bytes() for f in Path(cache).glob("*/index.db*") if f.suffix != ".db-shm"
    }


def alone(job: dict[str, Any]) -> dict[str, object]:
    """Index each of some files in a vault of its own; CPU seconds by path."""
    seconds: dict[str, float] = {}
    for path in job["paths"]:
        with tempfile.TemporaryDirectory(dir=job["scratch"]) as scratch:
            vault = Path(scratch, "vault")
            vault.mkdir()
            (vault / "note.md").write_bytes(Path(job["vault"], path).read_bytes())
            with opened(str(vault), str(Path(scratch, "cache"))) as memory:
                began = time.process_time()
                index(memory, IndexRequest())
                ask(memory, "needle")
                seconds[path] = time.process_time() - began
        gc.collect()
    return {"seconds": seconds, "peak": peak_bytes()}


def hostile_calls(job: dict[str, Any]) -> dict[str, object]:
    """Give every operation and command arguments that are made to harm."""
    vault, cache, calls = job["vault"], job["cache"], job["calls"]
    place = ("--vault", vault, "--cache-dir", cache)
    before = sidecar_files(cache)
    os.environ.update(SETTINGS)  # for the commands
    result: dict[str, object] = {}
    with opened(vault, cache) as memory:
        ask(memory, "needle")  # whatever is imported or opened once
        operations: dict[str, Callable[[str], object]] = {
            "read": lambda given: read(memory, ReadRequest(given)),
            "related": lambda given: related(memory, RelatedRequest(given)),
            "inspect": lambda given: inspect(memory, InspectRequest(given)),
            "search": lambda given: search(memory, SearchRequest("needle", paths=(given,))),
        }
        for name, operation in operations.items():
            answer(partial(operation, "special/real.md"))
            answer(partial(operation, "nowhere at all"))
            for kind in ("bad_paths", "ok_paths"):
                for given in calls[kind]:
                    sys.audit("mark", f"{name} {given}")
                    result[f"{kind} {name} {given}"] = answer(partial(operation, given))
        sys.audit("mark", "commands")
        for given in (*calls["bad_paths"], *calls["ok_paths"]):
            for verb in (("read",), ("links",), ("why",), ("search", "needle", "--path")):
                sys.audit("mark", f"command {verb[0]} {given}")
                result[f"command {verb[0]} {given}"] = command(*place, *verb, given)
        sys.audit("mark", "queries")
        for query in calls["fts"]:
            began = time.process_time()
            reply = ask(memory, query)
            result[f"query {query}"] = {**reply, "cpu": time.process_time() - began}
        for query in calls["fts"]:
            result[f"command query {query}"] = command(
                *place, "search", "--mode", "keyword", "--", query
            )
        for number, value in enumerate(calls["numbers"]["limit"]):
            result[f"limit {number}"] = answer(
                partial(search, memory, SearchRequest("needle", limit=value))
            )
            result[f"max_tokens {number}"] = answer(
                partial(read, memory, ReadRequest("special/real.md", max_tokens=value))
            )
            result[f"command -k {number}"] = command(*place, "search", "needle", "-k", str(value))
            result[f"command --max-tokens {number}"] = command(
                *place, "read", "special/real.md", "--max-tokens", str(value)
            )
    result["same_bytes"] = before == sidecar_files(cache)
    return result


def generate(job: dict[str, Any]) -> dict[str, object]:
    """Write a hostile vault."""
    sys.argv = ["hostile.py", job["out"], "--seed", str(job["seed"]), "--only", job["only"]]
    with redirect_stdout(io.StringIO()):
        hostile.main()
    return {}


TASKS = {
    "everything": everything,
    "alone": alone,
    "hostile_calls": hostile_calls,
    "generate": generate,
}


def become(user: int, *, warm: bool) -> None:
    """Go on as a user to whom permissions apply.

    That user may not be able to reach the Python that runs here, so all that vaultmem imports on
    its way is imported first.
    """
    with tempfile.TemporaryDirectory() as scratch:
        small = {
            "out": str(Path(scratch, "out")),
            "vault": str(Path(scratch, "out", "vault")),
            "cache": str(Path(scratch, "cache")),
            "seed": 0,
            "only": "encoding,frontmatter,secrets,special",
            "far_ahead": False,
            "thorough": False,
        }
        generate(small)
        if warm:
            rows = json.loads(Path(scratch, "out", "manifest.json").read_text())["rows"]
            everything({**small, "rows": rows})
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)


def carry_out(job_file: str) -> None:
    job = json.loads(Path(job_file).read_text("utf-8"))
    if job["user"] is not None:
        become(job["user"], warm=job["task"] != "generate")
    sys.audit("mark", "begin")
    result = TASKS[job["task"]](job)
    sys.audit("mark", "end")
    Path(job["result"]).write_text(json.dumps(result), "utf-8")


if __name__ == "__main__":
    carry_out(sys.argv[1])
