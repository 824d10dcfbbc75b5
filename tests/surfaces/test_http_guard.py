"""Hostile requests over HTTP: none of them gets past the guard, on any route there is."""

import asyncio
import json
import select
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_hostile import HOSTILE, MANY_AT_ONCE, MCP, WITHOUT_TOKEN, Asked, misses, put, wanted
from http_raw import Answer, Connection, ask, head
from http_server_process import (
    GUARDED,
    OPEN_PATHS,
    SDK,
    UNGUARDED,
    ServerProcess,
    route_table,
    serving,
)
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from vaultmem.surfaces.http_guard import BODY_BYTES, HEAD_BYTES, Guard

TESTS = Path(__file__).resolve().parents[1]
TOKEN = "a-token-of-these-tests" * 2
CALLS = 37
FROM_OBSIDIAN = {"ok-obsidian", "preflight-obsidian"}


def found_routes() -> list[Asked]:
    """Every route of the application, by walking its table."""
    found: list[Asked] = []
    for route in route_table().routes:
        assert isinstance(route, Route)
        path = route.path.replace("{path:path}", "Folder/A%20note.md")
        if route.methods is None:  # the SDK's, which judges methods itself
            assert path == MCP.path
            found.append(MCP)
        else:
            (method,) = route.methods - {"HEAD"}
            body = '{"q": "x"}' if method == "POST" else ""
            found.append(Asked(path, method, body, is_open=path in OPEN_PATHS))
    return [asked for asked in found if asked.path != "/v1/broken"]


ROUTES = found_routes()


def headers(server: ServerProcess, **more: str) -> list[tuple[str, str]]:
    """What a proper client sends; a value of "" leaves a header out."""
    every = {
        "Host": f"127.0.0.1:{server.port}",
        "Authorization": f"Bearer {server.token}",
    } | {name.replace("_", "-"): value for name, value in more.items()}
    return [(name, value) for name, value in every.items() if value]


def get(server: ServerProcess, path: str, **more: str) -> Answer:
    return ask(server.port, head("GET", path, headers(server, **more)))


def post(server: ServerProcess, path: str, body: bytes, **more: str) -> Answer:
    kind = {"Content_Type": "application/json", "Content_Length": str(len(body))}
    return ask(server.port, head("POST", path, headers(server, **{**kind, **more})), body)


def times(server: ServerProcess) -> int:
    """How often any route or tool did something."""
    told: int = json.loads(get(server, "/v1/status").body)["times"]
    return told


def code_of(answer: Answer) -> str:
    """The code of an error, whose body is as every error's is."""
    error = json.loads(answer.body)
    assert set(error) == {"error"}
    assert set(error["error"]) == {"code", "message"}
    assert answer.header("content-type") == "application/json"
    code: str = error["error"]["code"]
    return code


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with serving(GUARDED, TOKEN) as running:
        yield running


# The hostile requests


def test_the_hostile_requests_and_the_routes_are_all_there() -> None:
    assert len({call["id"] for call in HOSTILE}) == len(HOSTILE) == CALLS
    assert {asked.path for asked in ROUTES} > {"/mcp", "/v1/search", "/", "/static/app.js"}
    assert sum(asked.is_open for asked in ROUTES) == len(OPEN_PATHS)
    assert len(ROUTES) == 7


@pytest.mark.parametrize("asked", ROUTES, ids=lambda asked: f"{asked.method} {asked.path}")
@pytest.mark.parametrize(
    "call",
    [call for call in HOSTILE if call["id"] != MANY_AT_ONCE],
    ids=lambda call: str(call["id"]),
)
def test_a_hostile_request_is_answered_as_listed(
    call: dict[str, Any], asked: Asked, server: ServerProcess
) -> None:
    before = times(server)
    answer = put(call, asked, port=server.port, token=server.token)
    assert answer.status in wanted(call, asked), answer
    # Nothing happens, nothing is told, and no page of another origin may read that.
    assert times(server) == before or answer.status == 200
    if answer.status >= 400:
        code_of(answer)
    said = answer.body + repr(answer.headers).encode()
    for secret in (TOKEN.encode(), b"Traceback", str(TESTS).encode(), b"site-packages"):
        assert secret not in said
    if call["id"] in FROM_OBSIDIAN:
        assert answer.header("access-control-allow-origin") == "app://obsidian.md"
        assert answer.header("vary") == "Origin"
    else:
        assert answer.foreign_headers() == []


def test_without_the_guard_the_same_requests_get_through() -> None:
    (search,) = [asked for asked in ROUTES if asked.path == "/v1/search"]
    (status,) = [asked for asked in ROUTES if asked.path == "/v1/status"]
    with serving(UNGUARDED, TOKEN) as running:
        assert misses(status, port=running.port, token=TOKEN) >= {
            *WITHOUT_TOKEN,
            *("host-evil", "host-suffix", "host-userinfo", "host-zero"),
            *("origin-evil", "origin-lookalike", "origin-other-port", "origin-https-local"),
            *("csrf-img", "sec-fetch-cross"),
        }
        assert misses(search, port=running.port, token=TOKEN) >= {
            *("origin-null", "csrf-form", "csrf-text", "preflight-obsidian"),
            *("body-huge", "body-chunked-endless", "body-not-json", "body-deep-json", "body-nan"),
        }
        assert len(misses(MCP, port=running.port, token=TOKEN)) > 15


def test_the_checks_of_the_sdk_alone_let_some_of_them_through() -> None:
    with serving(SDK, TOKEN) as running:
        assert misses(MCP, port=running.port, token=TOKEN) >= {
            "no-token",
            "host-userinfo",
            "sec-fetch-cross",
        }


def test_nothing_of_the_hostile_requests_is_logged() -> None:
    with serving(GUARDED, TOKEN) as running:
        assert misses(MCP, port=running.port, token=TOKEN) == set()
        assert get(running, "/v1/broken").status == 500
        _, errors = running.stop(15)
    assert TOKEN not in errors
    # What is ours to mend is, and nothing else.
    assert errors.count("Traceback") == errors.count("ZeroDivisionError: of ") == 1


# Slow clients


def test_slow_clients_are_answered_in_time_and_hold_up_nobody() -> None:
    patience = 4.0  # if slow clients held others up, it would be for as long
    with serving(GUARDED, TOKEN, head_seconds=patience) as running:
        slow = [Connection(running.port) for _ in range(200)]
        start = time.monotonic()
        for one in slow:
            one.socket.send(b"GET /v1/status HTTP/1.1\r\nX-Slow: ")
        waits: list[float] = []
        while not all(one.ended for one in slow):
            assert time.monotonic() - start < 10 * patience
            before = time.monotonic()
            assert get(running, "/v1/status").status == 200
            waits.append(time.monotonic() - before)
            going_on = [one for one in slow if not one.ended]
            readable, writable, _ = select.select(
                [one.socket for one in going_on], [one.socket for one in going_on], [], 0.1
            )
            for one in going_on:
                if one.socket in readable:
                    one.read()
                elif one.socket in writable:
                    one.socket.send(b"a")
        assert max(waits) < patience
        for one in slow:
            said = one.until_ended()
            assert said.startswith(b"HTTP/1.1 408 ")
            assert b'"code": "too-slow"' in said
            one.socket.close()


def test_a_connection_on_which_nothing_is_asked_is_closed_without_a_word() -> None:
    with serving(GUARDED, TOKEN, head_seconds=0.3) as running:
        with Connection(running.port) as silent:
            assert silent.until_ended() == b""
        with Connection(running.port) as kept:
            asking = head("GET", "/v1/status", headers(running))
            assert kept.ask(asking).status == 200
            assert kept.ask(asking).status == 200
            assert kept.until_ended() == b""
        with Connection(running.port) as slow_later:
            assert slow_later.ask(asking, b"GET /v1/st").status == 200
            assert slow_later.until_ended().startswith(b"HTTP/1.1 408 ")


async def asked_of(guard: Guard, scope: Scope, receive: Receive) -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await guard(scope, receive, send)
    return sent


async def unreachable(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError(f"the guard let {scope['type']} through")


def a_scope(**more: Any) -> Scope:
    fields = [(b"host", b"127.0.0.1:9"), (b"authorization", b"Bearer " + TOKEN.encode())]
    return {
        "type": "http",
        "method": "POST",
        "path": "/x",
        "raw_path": b"/x",
        "query_string": b"",
        "headers": fields,
        **more,
    }


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    guard = Guard(unreachable, TOKEN, 9, body_seconds=0.01)
    sent = asyncio.run(asked_of(guard, a_scope(), receive))
    assert sent[0]["status"] == 408


def test_a_client_that_leaves_while_it_sends_gets_no_answer() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    assert asyncio.run(asked_of(Guard(unreachable, TOKEN, 9), a_scope(), receive)) == []


def test_a_websocket_is_closed_before_it_opens() -> None:
    async def receive() -> Message:
        return {"type": "websocket.connect"}

    scope = a_scope(type="websocket")
    sent = asyncio.run(asked_of(Guard(unreachable, TOKEN, 9), scope, receive))
    assert sent == [{"type": "websocket.close", "code": 1008}]


# Each rule by itself


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/status", 200),
        ("/v1/status?a=..%2F..", 200),
        ("/v1/notes/a%20b.md", 200),
        ("/v1/notes/..a/b...md", 200),
        ("/v1/status/", 404),
        ("/v1/nosuch", 404),
        ("//v1/status", 400),
        ("/static/../v1/status", 400),
        ("/static/./app.js", 400),
        ("/v1/notes/..", 400),
        ("/v1/notes/a%2fb", 400),
        ("/v1/notes/a%5Cb", 400),
        ("/v1/notes/%2E%2e/b", 400),
        ("/v1/notes/a%00", 400),
        ("/v1/notes/a\\b", 400),
        ("http://127.0.0.1/v1/status", 400),
        ("*", 400),
        ("v1/status", 400),
    ],
)
def test_a_path_means_what_it_says_or_nothing(
    path: str, status: int, server: ServerProcess
) -> None:
    answer = get(server, path)
    assert answer.status == status
    if status >= 400:
        assert code_of(answer) == {400: "bad-path", 404: "not-found"}[status]


@pytest.mark.parametrize(
    "path", ["/static/../v1/status", "/static/app.js/", "/static/app%2ejs", "/static/other.js"]
)
def test_only_the_very_paths_that_are_open_need_no_token(path: str, server: ServerProcess) -> None:
    assert get(server, "/static/app.js", Authorization="").status == 200
    assert get(server, path, Authorization="").status in (400, 401)


def test_an_open_path_is_open_for_reading_alone(server: ServerProcess) -> None:
    assert post(server, "/static/app.js", b"{}", Authorization="").status == 401
    assert get(server, "/", Authorization="", Host="evil.example.test").status == 421
    assert get(server, "/", Authorization="", Origin="http://127.0.0.1:9").status == 403


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{PORT}", 200),
        ("localhost:{PORT}", 200),
        ("LocalHost:{PORT}", 200),
        ("[::1]:{PORT}", 200),
        ("127.0.0.1", 421),
        ("localhost", 421),
        ("127.0.0.1:1", 421),
        ("localhost.:{PORT}", 421),
        ("[::ffff:127.0.0.1]:{PORT}", 421),
        ("2130706433:{PORT}", 421),
        ("127.1:{PORT}", 421),
        ("127.0.0.1:0{PORT}", 421),
        ("user@127.0.0.1:{PORT}", 421),
    ],
)
def test_a_host_is_one_of_ours_or_it_is_another(
    host: str, status: int, server: ServerProcess
) -> None:
    answer = get(server, "/v1/status", Host=host.replace("{PORT}", str(server.port)))
    assert answer.status == status


@pytest.mark.parametrize(
    ("origin", "status", "may_read"),
    [
        ("app://obsidian.md", 200, True),
        ("capacitor://localhost", 200, True),
        ("http://127.0.0.1:{PORT}", 200, False),
        ("http://localhost:{PORT}", 403, False),  # another name than the Host's
        ("https://127.0.0.1:{PORT}", 403, False),
        ("http://localhost", 403, False),
        ("app://obsidian.md.evil.example.test", 403, False),
        ("APP://OBSIDIAN.MD", 403, False),
        ("app://obsidian.md app://obsidian.md", 403, False),
    ],
)
def test_an_origin_is_obsidians_or_our_own(
    origin: str, status: int, may_read: bool, server: ServerProcess
) -> None:
    given = origin.replace("{PORT}", str(server.port))
    # Obsidian's is cross-site by nature.
    answer = get(server, "/v1/status", Origin=given, Sec_Fetch_Site="cross-site")
    assert answer.status == status
    assert answer.header("access-control-allow-origin") == (given if may_read else None)


@pytest.mark.parametrize(
    ("site", "status"),
    [("none", 200), ("same-origin", 200), ("same-site", 403), ("cross-site", 403), ("x", 403)],
)
def test_a_page_on_another_port_is_of_another_site(
    site: str, status: int, server: ServerProcess
) -> None:
    assert get(server, "/v1/status", Sec_Fetch_Site=site).status == status


@pytest.mark.parametrize(
    "name",
    ["Host", "Origin", "Authorization", "Content-Type", "Content-Length", "Sec-Fetch-Site"],
)
def test_a_header_that_decides_may_stand_once(name: str, server: ServerProcess) -> None:
    given = dict(headers(server)) | {
        "Origin": f"http://127.0.0.1:{server.port}",
        "Content-Type": "application/json",
        "Content-Length": "2",
        "Sec-Fetch-Site": "same-origin",
    }
    once = list(given.items())
    assert ask(server.port, head("POST", "/v1/search", once), b"{}").status == 200
    twice = [*once, (name.lower(), "3" if name == "Content-Length" else given[name])]
    answer = ask(server.port, head("POST", "/v1/search", twice), b"{}")
    assert answer.status == 400
    assert code_of(answer) == "bad-request"


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("Bearer {TOKEN}", 200),
        ("bearer {TOKEN}", 200),
        ("Bearer {TOKEN}x", 401),
        ("Bearer x{TOKEN}", 401),
        ("{TOKEN}", 401),
        ("Basic {TOKEN}", 401),
        ("Bearer", 401),
        ("Bearer \u00e9", 401),
    ],
)
def test_the_token_is_whole_or_it_is_none(
    authorization: str, status: int, server: ServerProcess
) -> None:
    given = authorization.replace("{TOKEN}", TOKEN)
    answer = get(server, "/v1/status", Authorization=given)
    assert answer.status == status
    assert answer.header("www-authenticate") == ("Bearer" if status == 401 else None)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("", 415),
        ("text/plain", 415),
        ("application/jsonp", 415),
        ("text/plain, application/json", 415),
        ("application/x-www-form-urlencoded", 415),
    ],
)
def test_a_body_is_json_by_its_type(kind: str, status: int, server: ServerProcess) -> None:
    assert post(server, "/v1/search", b'{"q": "x"}', Content_Type=kind).status == status


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{}", 200),
        ('"漢字"'.encode(), 200),
        (b"", 400),
        (b"\xef\xbb\xbf{}", 400),
        ("{}".encode("utf-16"), 400),
        (b'"\xff"', 400),
        (b"NaN", 400),
        (b"[-Infinity]", 400),
        (b"[1]]", 400),
        (b"9" * 5000, 400),
        (b'{"a":' * 50_000, 400),
    ],
)
def test_a_body_is_json_all_through(body: bytes, status: int, server: ServerProcess) -> None:
    answer = post(server, "/v1/search", body)
    assert answer.status == status
    if status == 400:
        assert code_of(answer) == "bad-json"


def test_heads_and_bodies_are_taken_up_to_their_limits(server: ServerProcess) -> None:
    room = HEAD_BYTES - 500
    assert get(server, "/v1/status", X_A="a" * room).status == 200
    assert get(server, "/v1/status?" + "a" * room).status == 200
    for answer in (
        get(server, "/v1/status", X_A="a" * HEAD_BYTES),
        get(server, "/v1/status?" + "a" * HEAD_BYTES),
        ask(server.port, b"GET /v1/status HTTP/1.1\r\nX-A: " + b"a" * 4 * HEAD_BYTES),
    ):
        assert answer.status == 431
        assert code_of(answer) == "head-too-large"
    body = b'"' + b"a" * (BODY_BYTES - 2) + b'"'
    assert post(server, "/v1/search", body).status == 200
    assert post(server, "/v1/search", body + b" ").status == 413


def test_a_refused_body_is_read_so_that_the_answer_arrives(server: ServerProcess) -> None:
    # A client that reads once it has sent everything, as many do.
    body = b'"' + b"a" * (8 << 20) + b'"'
    given = headers(server, Content_Type="application/json", Content_Length=str(len(body)))
    with Connection(server.port) as connection:
        connection.socket.setblocking(True)
        connection.socket.sendall(head("POST", "/v1/search", given) + body)
        assert connection.until_ended().startswith(b"HTTP/1.1 413 ")


def test_a_refused_body_that_does_not_come_is_not_waited_for(server: ServerProcess) -> None:
    given = headers(server, Authorization="", Content_Length="100")
    with Connection(server.port) as connection:
        answer = connection.ask(head("POST", "/v1/search", given), b"{")
        assert (answer.status, answer.header("connection")) == (401, "close")
        connection.until_ended()


def test_a_client_that_asks_before_it_sends_is_told_at_once(server: ServerProcess) -> None:
    given = headers(server, Expect="100-continue", Content_Length="2", Content_Type="text/plain")
    with Connection(server.port) as connection:
        asking = head("POST", "/v1/search", given)
        assert connection.ask(asking, b"{}").status == 415
    refused = [field for field in given if field[0] != "Authorization"]
    with Connection(server.port) as connection:
        connection.socket.send(head("POST", "/v1/search", refused))
        assert connection.until_ended().startswith(b"HTTP/1.1 401 ")


def test_a_body_of_two_lengths_is_refused(server: ServerProcess) -> None:
    given = headers(
        server,
        Content_Type="application/json",
        Content_Length="2",
        Transfer_Encoding="chunked",
    )
    with Connection(server.port) as connection:
        answer = connection.ask(head("POST", "/v1/search", given), b"2\r\n{}\r\n0\r\n\r\n")
        assert answer.status == 400
        connection.until_ended()


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n",
        b"GET /v1/status HTTP/1.0\r\n\r\n",
        b"GET /v1/status\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /v1/status HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n",
    ],
)
def test_what_is_no_request_gets_no_more_than_that(
    request_bytes: bytes, server: ServerProcess
) -> None:
    answer = ask(server.port, request_bytes)
    assert answer.status == 400
    code_of(answer)


def test_a_preflight_of_obsidian_is_told_what_it_may_send(server: ServerProcess) -> None:
    asking = {"Authorization": "", "Origin": "app://obsidian.md"}
    method = {"Access_Control_Request_Method": "POST"}
    answer = ask(server.port, head("OPTIONS", "/mcp", headers(server, **asking, **method)))
    assert answer.status == 204
    assert answer.header("access-control-allow-methods") == "GET, POST, DELETE"
    assert answer.header("access-control-allow-headers") == (
        "Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Protocol-Version, "
        "Mcp-Session-Id"
    )
    assert answer.header("access-control-expose-headers") == "Mcp-Session-Id"
    assert answer.header("access-control-allow-private-network") is None
    private = {"Access_Control_Request_Private_Network": "true"}
    given = headers(server, **asking, **method, **private)
    answer = ask(server.port, head("OPTIONS", "/mcp", given))
    assert answer.header("access-control-allow-private-network") == "true"
    # What is no preflight is a request like any other.
    assert ask(server.port, head("OPTIONS", "/mcp", headers(server, **asking))).status == 401


def test_every_answer_says_what_a_page_may_do_with_it(server: ServerProcess) -> None:
    for answer in (
        get(server, "/v1/status"),
        get(server, "/v1/nosuch"),
        get(server, "/x", Host="y"),
    ):
        assert answer.header("x-content-type-options") == "nosniff"
        assert answer.header("cache-control") == "no-store"
        assert answer.header("cross-origin-resource-policy") == "same-origin"
        policy = answer.header("content-security-policy")
        assert policy is not None
        assert policy.startswith("default-src 'self'; ")
        assert answer.header("set-cookie") is None
        assert answer.header("server") is None
        assert answer.header("date") is not None


def test_a_refusal_leaves_the_connection_for_the_next_request(server: ServerProcess) -> None:
    with Connection(server.port) as connection:
        refused = head("GET", "/v1/status", headers(server, Authorization=""))
        assert connection.ask(refused).status == 401
        assert connection.ask(head("GET", "/v1/status", headers(server))).status == 200


def test_a_fault_of_ours_tells_what_kind_it_is_and_no_more(server: ServerProcess) -> None:
    answer = get(server, "/v1/broken")
    assert answer.status == 500
    assert code_of(answer) == "internal"
    assert b"ZeroDivisionError" in answer.body
    assert b".py" not in answer.body
