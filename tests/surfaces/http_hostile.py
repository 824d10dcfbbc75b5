"""The hostile requests of the hostile set, and how they are asked of a route."""

import importlib.util
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from http_raw import Answer, ask, call_pieces

TESTS = Path(__file__).resolve().parents[1]
# They bring none or a wrong one; what is open needs none.
WITHOUT_TOKEN = {
    *("no-token", "wrong-token", "empty-token"),
    *("token-in-query", "token-prefix", "token-cookie"),
}
# What they ask for is part of them.
OF_THEIR_OWN_PATH = {"get-writes", "error-leak", "redirect", "path-enc"}
# These are to be answered, by whatever method the route has.
ANSWERED = {"ok", "ok-obsidian"}
MANY_AT_ONCE = "slowloris"

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A route, and a request that it answers with 200."""

    path: str
    method: str
    body: str = ""
    is_open: bool = False  # to be read without a token


def hostile_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hostile", TESTS / "hostile/hostile.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hostile_calls() -> list[dict[str, Any]]:
    hostile = hostile_module()
    with tempfile.TemporaryDirectory(prefix="calls-") as out:
        hostile.calls(hostile.Vault(out, 1, {"none"}))
        calls: list[dict[str, Any]] = json.loads(Path(out, "calls.json").read_text("utf-8"))["http"]
    return calls


HOSTILE = hostile_calls()


MCP = Asked("/mcp", "POST", json.dumps(INITIALIZE))


def with_method(call: dict[str, Any], asked: Asked) -> dict[str, Any]:
    """A call that is to be answered, as the route answers it."""
    if call["id"] not in ANSWERED:
        return call
    headers = dict(call["headers"])
    if asked.body:
        headers |= {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
    return call | {"method": asked.method, "headers": headers, "body": asked.body}


def path_of(call: dict[str, Any], asked: Asked) -> str:
    if call["id"] == "token-in-query":
        return asked.path + "?q=x&token={TOKEN}"
    path: str = call["path"] if call["id"] in OF_THEIR_OWN_PATH else asked.path
    return path


def wanted(call: dict[str, Any], asked: Asked) -> set[int]:
    if asked.is_open and call["id"] in WITHOUT_TOKEN:
        return {200}
    return {call["expect"], *call.get("accept", ())}


def put(call: dict[str, Any], asked: Asked, *, port: int, token: str) -> Answer:
    pieces = call_pieces(
        with_method(call, asked), path=path_of(call, asked), port=port, token=token
    )
    return ask(port, *pieces)


def misses(asked: Asked, *, port: int, token: str) -> set[str]:
    """The calls that a server answers otherwise than listed on a route."""
    return {
        call["id"]
        for call in HOSTILE
        if call["id"] != MANY_AT_ONCE
        and put(call, asked, port=port, token=token).status not in wanted(call, asked)
    }
