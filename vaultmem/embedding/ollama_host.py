"""Where the Ollama server is: read as its client reads it, and made safe to call."""

import os
import urllib.parse
from dataclasses import dataclass
from ipaddress import ip_address

from vaultmem.model.errors import EmbedderUnavailable

DEFAULT_HOST = "http://127.0.0.1:11434"

_PORTS = {"http": 80, "https": 443}
_PORT = 11434  # of an address without a scheme


@dataclass(frozen=True, slots=True)
class Host:
    """Where the server is."""

    url: str  # as the client takes it: scheme, host, port, perhaps a path
    name: str  # for messages: host and port, never a password
    loopback: bool  # what is said to it does not leave this machine


def read_host(given: str) -> Host:
    """The server's address: as given, by OLLAMA_HOST, or the default; read as its client does.

    An address to listen on (0.0.0.0, ::) means this machine. Raises EmbedderUnavailable.
    """
    source = "embedder.host" if given.strip() else "OLLAMA_HOST"
    text = (given.strip() or os.environ.get("OLLAMA_HOST", "")).strip().strip("\"'")
    scheme, found, rest = (text or DEFAULT_HOST).partition("://")
    if not found:
        scheme, rest = "http", text
    scheme = scheme.lower()
    usual = _PORTS.get(scheme, 0) if found else _PORT
    try:
        if _is_ipv6(rest):
            rest = f"[{rest}]"
        split = urllib.parse.urlsplit(f"{scheme}://{rest}")
        name, port = split.hostname or "127.0.0.1", split.port or usual
    except ValueError:
        name, port = "", 0
    if not name or scheme not in _PORTS:
        raise EmbedderUnavailable(
            f"{source} is not the address of a server: {text.rpartition('@')[2]!r}. "
            "Write it like http://127.0.0.1:11434."
        )
    loopback = name == "localhost" or name.endswith(".localhost")
    try:
        address = ip_address(name)
    except ValueError:
        pass  # a name, which is looked up when it is called
    else:
        if address.is_unspecified:
            address = ip_address("127.0.0.1" if address.version == 4 else "::1")
        loopback = address.is_loopback
        name = f"[{address}]" if address.version == 6 else str(address)
    path = "/" + split.path.strip("/") if split.path.strip("/") else ""
    return Host(f"{scheme}://{name}:{port}{path}", f"{name}:{port}", loopback)


def _is_ipv6(text: str) -> bool:
    try:
        return ip_address(text).version == 6
    except ValueError:
        return False
