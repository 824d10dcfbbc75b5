"""Starts vaultmem by fork from a process that has its modules loaded, instead of an interpreter.

Most of the time of a short command is Python's start and imports, the same at each. A command that
is started here is a process all the same, with its own arguments, environment, folder, standard
streams, signals and exit; only what an import does is done once. What is about the start itself
runs `python -m vaultmem`, and VAULTMEM_TESTS_COLD=1 makes everything do so.

    python warm_start.py DESCRIPTOR

serves requests that come over the socket of that number, until it is closed.
"""

import atexit
import gc
import importlib
import io
import os
import pickle
import pkgutil
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, Self


class Request(NamedTuple):
    """What a command is started with; its three standard streams and a socket go beside this."""

    arguments: tuple[bytes, ...]
    cwd: str
    environment: dict[str, str]


# What steers the interpreter, or a library as it is loaded, has its effect on the parent.
_STEERING = ("PYTHON", "LC_", "LANG", "LD_", "OPENBLAS_", "OMP_", "TZ")
# And of these the parent sees none, as the commands do not.
_UNSEEN = ("PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONUTF8", "LC_", "LANG", "VAULTMEM_")


def may_start_warm(environment: Mapping[str, str]) -> bool:
    """Whether a process with this environment may be forked instead of started."""
    return (
        sys.platform == "linux"
        and "VAULTMEM_TESTS_COLD" not in os.environ
        and _steering(environment) == _steering(_of_parent())
    )


def _of_parent() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_UNSEEN)}


def _steering(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_STEERING)}


class Process(Protocol):
    """What the tests ask of a process that runs beside them; `subprocess.Popen` has it too."""

    pid: int
    returncode: Any
    stdin: IO[Any] | None
    stdout: IO[Any] | None
    stderr: IO[Any] | None

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, when it has ended. Raises TimeoutExpired."""

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless it has ended."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it."""


class WarmProcess:
    """A command that runs; it is waited for at the end of a `with` block, as a Popen is."""

    def __init__(
        self,
        arguments: Sequence[str | bytes],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        encoding: str | None = None,
    ) -> None:
        """Start `vaultmem` with arguments.

        stdin, stdout, stderr: a descriptor, PIPE or DEVNULL.
        encoding:              of what goes through the pipes; None for bytes.
        """
        self.args = list(arguments)
        self.returncode: int | None = None
        with ExitStack() as theirs:
            streams = []
            ours: list[IO[Any] | None] = []
            for given, mode in ((stdin, "w"), (stdout, "r"), (stderr, "r")):
                end, other = _stream(given, mode, encoding)
                theirs.callback(os.close, end)
                streams.append(end)
                ours.append(other)
            self.stdin, self.stdout, self.stderr = ours
            request = Request(tuple(map(os.fsencode, arguments)), os.fspath(cwd), dict(environment))
            self._status = _parent().start(request, streams)
        self.pid = int(self._status.recv(64))

    @property
    def pipes(self) -> tuple[IO[Any] | None, IO[Any] | None]:
        """What it writes to, where that is read here: stdout and stderr."""
        return self.stdout, self.stderr

    def poll(self) -> int | None:
        """Its exit code, once it has ended; minus the signal that ended it."""
        if self.returncode is None and select.select([self._status], [], [], 0.0)[0]:
            self._hear()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, when it has ended. Raises TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self._hear()
        assert self.returncode is not None
        return self.returncode

    def _hear(self) -> None:
        self.returncode = int(self._status.recv(64))
        self._status.close()

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        for stream in (self.stdout, self.stderr, self.stdin):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        self.wait()


def _stream(given: int, mode: str, encoding: str | None) -> tuple[int, IO[Any] | None]:
    """A descriptor for the process, and what is to be had of the other end of a pipe."""
    if given == subprocess.DEVNULL:
        return os.open(os.devnull, os.O_RDWR), None
    if given != subprocess.PIPE:
        return os.dup(given), None
    read, write = os.pipe()
    theirs, ours = (write, read) if mode == "r" else (read, write)
    return theirs, open(ours, mode if encoding else f"{mode}b", encoding=encoding)


def run_warm(
    arguments: Sequence[str | bytes],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    stdout: int = subprocess.PIPE,
    seconds: float,
) -> "subprocess.CompletedProcess[bytes]":
    """Run one command with no input, as `subprocess.run` does.

    stdout: a descriptor, or PIPE; stderr is a pipe always.
    Raises TimeoutExpired, after the command was killed.
    """
    with WarmProcess(arguments, cwd=cwd, environment=environment, stdout=stdout) as process:
        written = _drained(process, time.monotonic() + seconds)
        if written is None:
            raise subprocess.TimeoutExpired(process.args, seconds)
        code = process.wait()
    out, err = (None if stream is None else written[stream] for stream in process.pipes)
    return subprocess.CompletedProcess(process.args, code, out, err)


def _drained(process: WarmProcess, deadline: float) -> dict[IO[bytes], bytes] | None:
    """All that is written to its pipes; None when it had to be killed."""
    written = {stream: bytearray() for stream in process.pipes if stream is not None}
    with selectors.DefaultSelector() as selector:
        for stream in written:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                process.kill()
                return None
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                written[key.fileobj] += data  # type: ignore[index]
                if not data:
                    selector.unregister(key.fileobj)
    return {stream: bytes(data) for stream, data in written.items()}


class _Parent:
    """The process that forks."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair()
        self._sending = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=_of_parent(),
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self.close)

    def start(self, request: Request, streams: Sequence[int]) -> socket.socket:
        """Start a command. Its process id comes over the socket, and then its exit code."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        data = pickle.dumps(request)
        with theirs, self._sending:
            size = len(data).to_bytes(8, "big")
            socket.send_fds(self._requests, [size], [*streams, theirs.fileno()])
            self._requests.sendall(data)
        return ours

    def close(self) -> None:
        self._requests.close()
        self._process.wait()


@cache
def _parent() -> _Parent:
    return _Parent()


# In the process that forks


def _serve(requests: socket.socket) -> None:
    """Fork for each request and tell how each ends; returns in the process of a command."""
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not requests:
                    selector.unregister(key.fd)
                    _tell_end(key.fd, *key.data)
                    continue
                size, descriptors, _, _ = socket.recv_fds(requests, 8, 4)
                if not size:
                    os._exit(0)
                *streams, status_descriptor = descriptors
                status = socket.socket(fileno=status_descriptor)
                request = pickle.loads(_received(requests, int.from_bytes(size, "big")))
                pid = os.fork()
                if pid == 0:
                    status.close()
                    _become(request, streams)
                    return
                for descriptor in streams:
                    os.close(descriptor)
                status.send(b"%d" % pid)
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, status))


def _received(requests: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        data += requests.recv(size - len(data))
    return bytes(data)


def _tell_end(descriptor: int, pid: int, status: socket.socket) -> None:
    os.close(descriptor)
    _, ended = os.waitpid(pid, 0)
    with status, suppress(BrokenPipeError):  # whoever asked may have gone
        status.send(b"%d" % os.waitstatus_to_exitcode(ended))


def _become(request: Request, streams: list[int]) -> None:
    """Take on what the process was started with."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # the sockets of others too
    os.chdir(request.cwd)
    os.environ.clear()
    os.environ.update(request.environment)
    main = Path(importlib.import_module("vaultmem").__file__ or "").with_name("__main__.py")
    sys.argv = [str(main), *map(os.fsdecode, request.arguments)]
    sys.path[0] = request.cwd
    sys.stdin = _text(0, "r", "surrogateescape")
    sys.stdout = _text(1, "w", "surrogateescape")
    sys.stderr = _text(2, "w", "backslashreplace")


def _text(descriptor: int, mode: str, errors: str) -> io.TextIOWrapper:
    """A standard stream as the interpreter makes it; stderr ends no line without writing it."""
    raw = io.FileIO(descriptor, mode, closefd=False)
    buffer = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    by_line = descriptor == 2 or raw.isatty()
    return io.TextIOWrapper(buffer, "utf-8", errors, line_buffering=by_line)


def _load() -> None:
    """Import all there is."""
    package = importlib.import_module("vaultmem")
    for module in pkgutil.walk_packages(package.__path__, "vaultmem."):
        if module.name.rpartition(".")[2] != "__main__":
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


class _Leaving:
    """The end of a command, as Python has it, but for the taking apart of all that was loaded."""

    code: object = 1  # of an exception that nobody expects

    def run(self) -> None:
        """Be `python -m vaultmem`."""
        try:
            self.code = importlib.import_module("vaultmem.surfaces.cli").main()
        except SystemExit as ended:
            self.code = ended.code

    def leave(self) -> None:
        """End the process, after everything else that is to be done at its end."""
        code = self.code if isinstance(self.code, int) else int(self.code is not None)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                code = code or 120
        os._exit(code)


if __name__ == "__main__":
    _leaving = _Leaving()
    atexit.register(_leaving.leave)  # before all that is loaded: what comes first is done last
    _load()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    _leaving.run()
