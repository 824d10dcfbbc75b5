"""Where the HTTP server listens, and how it ends."""

import errno
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from http_raw import Answer, Connection, ask, head
from http_server_process import DEADLINE_SECONDS, GUARDED, ServerProcess, serving

from vaultmem.model.errors import UsageError
from vaultmem.surfaces.http_listen import listen, open_sockets

TOKEN = "a-token-of-these-tests" * 2
# Three seconds are promised; the rest is for a machine that is busy with other tests.
STOPPED_SECONDS = 20.0  # it waits three, on a machine that does nothing else

needs_ipv6 = pytest.mark.skipif(
    not socket.has_ipv6 or not Path("/proc/net/if_inet6").is_file(), reason="there is no ::1 here"
)
needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with serving(GUARDED, TOKEN) as running:
        yield running


def status(server: ServerProcess, host: str, named: str) -> int:
    fields = [("Host", f"{named}:{server.port}"), ("Authorization", f"Bearer {TOKEN}")]
    return ask(server.port, head("GET", "/v1/status", fields), host=host).status


# Where it listens


@needs_ipv6
def test_both_loopback_addresses_answer(server: ServerProcess) -> None:
    for host in ("127.0.0.1", "::1"):
        for named in ("127.0.0.1", "localhost", "[::1]"):
            assert status(server, host, named) == 200
        assert status(server, host, "[::ffff:127.0.0.1]") == 421


def listening(process: int) -> set[tuple[str, int]]:
    """Address in hexadecimal and port of each socket that a process listens on."""
    inodes: set[str] = set()
    for link in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed by now, as the one that lists them
            inodes.add(os.readlink(link).removeprefix("socket:[").rstrip("]"))
    found: set[tuple[str, int]] = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, _, port = fields[1].rpartition(":")
                found.add((address, int(port, 16)))
    return found


@pytest.mark.skipif(not Path("/proc/net/tcp").is_file(), reason="only Linux says so")
@needs_ipv6
def test_it_listens_on_the_loopback_interface_alone(server: ServerProcess) -> None:
    assert listening(server.process.pid) == {
        ("0100007F", server.port),
        ("00000000000000000000000001000000", server.port),
    }
    # The table shows what listens elsewhere, too.
    with socket.socket() as everywhere:
        everywhere.bind(("", 0))
        everywhere.listen()
        assert ("00000000", everywhere.getsockname()[1]) in listening(os.getpid())


@pytest.mark.parametrize(
    "family", [socket.AF_INET, pytest.param(socket.AF_INET6, marks=needs_ipv6)]
)
def test_a_port_in_use_is_named_with_what_to_do(family: socket.AddressFamily) -> None:
    address = "127.0.0.1" if family == socket.AF_INET else "::1"
    with socket.socket(family) as taken:
        taken.bind((address, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"Port {port} of {address} is in use .* 0 takes a"):
            open_sockets(port)
    # Nothing is held after that.
    for one in open_sockets(port)[1]:
        one.close()


def test_a_second_server_on_the_port_does_not_start(server: ServerProcess) -> None:
    with pytest.raises(UsageError, match=f"Port {server.port} "):
        listen(lambda port: pytest.fail("it was built"), server.port)
    assert status(server, "127.0.0.1", "127.0.0.1") == 200


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_number_that_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(UsageError, match=f"not {port}"):
        open_sockets(port)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems let anybody have low ports")
def test_a_port_that_may_not_be_had_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(one: socket.socket, address: tuple[str, int]) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    # Whether this process may have port 80 depends on the machine.
    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(UsageError, match=r"Port 80 of 127.0.0.1 cannot .* Permission denied"):
        open_sockets(80)


def test_without_ipv6_there_is_one_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_ipv6", False)
    port, sockets = open_sockets(0)
    assert [one.getsockname() for one in sockets] == [("127.0.0.1", port)]
    sockets[0].close()


@needs_ipv6
def test_a_free_port_is_free_on_both_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    # The first port that the system gives is taken on ::1.
    with socket.socket(socket.AF_INET6) as taken:
        taken.bind(("::1", 0))
        taken.listen()
        first = taken.getsockname()[1]
        given: list[int] = []
        bind = socket.socket.bind

        def bind_first(one: socket.socket, address: tuple[str, int]) -> None:
            if address == ("127.0.0.1", 0) and not given:
                address = ("127.0.0.1", first)
            bind(one, address)
            given.append(one.getsockname()[1])

        monkeypatch.setattr(socket.socket, "bind", bind_first)
        port, sockets = open_sockets(0)
    assert given[0] == first
    assert {one.getsockname()[1] for one in sockets} == {port}
    assert len(sockets) == 2
    assert port != first
    for one in sockets:
        one.close()


def test_an_application_that_does_not_start_is_a_fault() -> None:
    async def broken(scope: object, receive: object, send: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(RuntimeError, match="could not be started"):
        listen(lambda port: broken, 0, listening=lambda port: pytest.fail("it listens"))


# How it ends


def rpc(method: str, number: int | None = 1, **params: object) -> bytes:
    call = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(call if number is None else call | {"id": number}).encode()


class Session:
    """A session of MCP, as clients before 2026 have one."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.more: list[tuple[str, str]] = []
        client = {"name": "raw", "version": "1"}
        opened = self.post(
            rpc("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        )
        assert opened.status == 200
        number = opened.header("mcp-session-id")
        assert number is not None
        self.more = [("Mcp-Session-Id", number), ("Mcp-Protocol-Version", "2025-06-18")]
        assert self.post(rpc("notifications/initialized", None)).status == 202

    def fields(self, **more: str) -> list[tuple[str, str]]:
        return [
            ("Host", f"127.0.0.1:{self.server.port}"),
            ("Authorization", f"Bearer {self.server.token}"),
            ("Accept", "application/json, text/event-stream"),
            *self.more,
            *((name.replace("_", "-"), value) for name, value in more.items()),
        ]

    def post_head(self, body: bytes) -> bytes:
        kind = {"Content_Type": "application/json", "Content_Length": str(len(body))}
        return head("POST", "/mcp", self.fields(**kind))

    def post(self, body: bytes) -> Answer:
        return ask(self.server.port, self.post_head(body), body)

    def stream(self) -> Connection:
        """The stream of events, opened."""
        connection = Connection(self.server.port)
        answer = connection.ask(head("GET", "/mcp", self.fields()), until=b"")
        assert (answer.status, answer.header("content-type")) == (200, "text/event-stream")
        return connection


def test_a_session_streams_and_ends_when_its_client_says_so(server: ServerProcess) -> None:
    session = Session(server)
    with session.stream() as stream:
        called = session.post(rpc("tools/call", 2, name="double", arguments={"number": 21}))
        assert called.status == 200
        assert b'"42"' in called.body
        ended = ask(server.port, head("DELETE", "/mcp", session.fields()))
        assert ended.status == 200
        assert stream.ask(until=b"0\r\n\r\n").status == 200
    assert session.post(rpc("ping", 3)).status == 404


def test_a_stream_whose_reader_has_gone_is_let_go(server: ServerProcess) -> None:
    session = Session(server)
    session.stream().socket.close()
    # A session has one stream; another is refused until it is known that nobody reads the first.
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        asking = head("GET", "/mcp", session.fields())
        if ask(server.port, asking, until=b"").status == 200:
            return
    pytest.fail("the first stream is still held")


@needs_signals
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_it_in_time_with_streams_open(name: str) -> None:
    number = getattr(signal, name)
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("whoever runs these tests has it ignored, as nohup does")
    with serving(GUARDED, TOKEN) as running:
        with Session(running).stream(), Session(running).stream() as read:
            half = Connection(running.port)
            half.socket.send(b"GET /v1/st")
            start = time.monotonic()
            assert running.stop(number) == (0, "")
            assert time.monotonic() - start < STOPPED_SECONDS
            read.until_ended()
            half.socket.close()
        for one in open_sockets(running.port)[1]:  # nobody is left behind on it
            one.close()


@needs_signals
def test_a_call_that_does_not_end_is_not_waited_for() -> None:
    with serving(GUARDED, TOKEN) as running:
        session = Session(running)
        body = rpc("tools/call", 2, name="never", arguments={})
        with Connection(running.port) as waiting:
            waiting.socket.send(session.post_head(body) + body)
            fields = session.fields()
            while b'"times":0' in ask(running.port, head("GET", "/v1/status", fields)).body:
                pass
            start = time.monotonic()
            code, errors = running.stop(signal.SIGTERM)
            assert time.monotonic() - start < STOPPED_SECONDS
            # The caller was told that something hangs, and left.
            assert (code, errors) == (7, "")


def test_sockets_name_their_protocol_or_answers_would_wait_for_acknowledgements() -> None:
    _, sockets = open_sockets(0)
    try:
        assert {one.proto for one in sockets} == {socket.IPPROTO_TCP}
    finally:
        for one in sockets:
            one.close()
