"""One MCP server as the configuration of a client names it."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """How a client starts a server that speaks over stdin and stdout."""

    command: str
    args: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)  # variables it is started with
    type: str = ""  # "stdio" for the clients that want it said

    def written(self) -> dict[str, object]:
        """The entry as it stands in a file; what is empty is left out."""
        parts: dict[str, object] = {"type": self.type} if self.type else {}
        parts |= {"command": self.command, "args": list(self.args)}
        return parts | ({"env": dict(self.env)} if self.env else {})


@dataclass(frozen=True, slots=True)
class PresentServer:
    """A server as a client's file has it."""

    entry: ServerEntry | None  # how it is started; None for one that is not
    url: str  # where it is reached instead; "" for one that is started
    off: bool  # whether it is switched off


@dataclass(frozen=True, slots=True)
class Put:
    """An entry on its way into a file, and what becomes of an older one of its name."""

    entry: ServerEntry
    unset: Collection[str] = ()  # variables that an older one loses
    whole: bool = False  # whether nothing of an older one stays, but that it is switched off


_SWITCHES = ("disabled", "enabled")
_ADDRESSES = ("url", "httpUrl", "serverUrl")
_NESTED = "transport"  # below which Cline may put command, args and env


def merged(old: object, put: Put) -> dict[str, object]:
    """The entry put over an older one of its name: what else a person or the client wrote stays.

    That is, timeouts, approvals, switches, further variables, options ahead of the server's
    command, and what stands behind that. An entry that starts no program, such as one with an
    address, is replaced; no server that is switched off is switched on by it.
    """
    entry = put.entry
    if not isinstance(old, Mapping):
        return entry.written()
    nested = old.get(_NESTED)
    if not put.whole and isinstance(nested, Mapping) and isinstance(nested.get("command"), str):
        return dict(old) | {_NESTED: merged(nested, put)}
    if put.whole or not isinstance(old.get("command"), str):
        return entry.written() | {key: old[key] for key in _SWITCHES if key in old}
    rest = {key: value for key, value in old.items() if key not in ("command", "args", "env")}
    if entry.type or rest.get("type") != "stdio":
        rest.pop("type", None)
    variables = old.get("env")
    kept = variables if isinstance(variables, Mapping) else {}
    env = {name: text for name, text in kept.items() if name not in put.unset} | entry.env
    new = entry.written() | {"args": _arguments(old, entry)}
    return new | ({"env": env} if env else {}) | rest


def _arguments(old: Mapping[str, object], entry: ServerEntry) -> list[object]:
    """The arguments of the entry with a person's own out of an older one."""
    args = old.get("args")
    if not isinstance(args, list) or not entry.args or entry.args[-1] not in args:
        return list(entry.args)
    verb = len(args) - 1 - args[::-1].index(entry.args[-1])
    own = _options(args[_runner_end(str(old["command"]), args[:verb]) : verb], entry)
    # Options behind the verb count as those ahead of it do, and the last of two wins. Over HTTP it
    # would not speak to who starts it.
    behind = [part for part in _options(args[verb + 1 :], entry, "--port") if part != "--http"]
    return [*entry.args[:-1], *own, entry.args[-1], *behind]


def _options(parts: list[object], entry: ServerEntry, *more: str) -> list[object]:
    """The options that the entry does not set itself, and none of the others that take a value."""
    settles = {"--vault", *more, *(part for part in entry.args if part.startswith("--"))}
    own: list[object] = []
    at = 0
    while at < len(parts):
        name, equals, _ = str(parts[at]).partition("=")
        if name not in settles:
            own.append(parts[at])
        elif not equals:
            at += 1  # and its value
        at += 1
    return own


def is_program(command: str) -> bool:
    """Whether the command is vaultmem itself, wherever it lies."""
    return _PROGRAM.fullmatch(program_name(command)) is not None


def program_name(command: str) -> str:
    """What a command is called, without its folder."""
    return re.split(r"[\\/]", command)[-1]


def names_vaultmem(part: str) -> bool:
    """Whether a runner of Python programs is told by this to run vaultmem."""
    return _REQUIREMENT.fullmatch(part) is not None


_PROGRAM = re.compile(r"vaultmem(?:\.exe|\.cmd)?", re.IGNORECASE)
_REQUIREMENT = re.compile(r"vaultmem(?:[\[=<>~!@ ].*)?")


def _runner_end(command: str, parts: list[object]) -> int:
    """Where vaultmem's own options begin: behind what Python, uvx or pipx are told to run."""
    if is_program(command):
        return 0
    texts = [str(part) for part in parts]
    options = (
        i for i, part in enumerate(texts) if re.fullmatch("--vault(?:=.*)?", part, re.DOTALL)
    )
    head = texts[: next(options, len(texts))]
    return max((i + 1 for i, part in enumerate(head) if names_vaultmem(part)), default=len(head))


def read_server(value: object) -> PresentServer:
    """The server that a file holds under some name."""
    outer = value if isinstance(value, Mapping) else {}
    nested = outer.get(_NESTED)
    inner = nested if isinstance(nested, Mapping) else outer
    off = any(
        part.get("disabled") is True or part.get("enabled") is False for part in (outer, inner)
    )
    entry = _read_entry(inner)
    address = next((inner[key] for key in _ADDRESSES if isinstance(inner.get(key), str)), "")
    return PresentServer(entry, "" if entry else str(address), off)


def _read_entry(value: Mapping[str, object]) -> ServerEntry | None:
    """How it is started; None where it is not."""
    command, args, env = value.get("command"), value.get("args", []), value.get("env", {})
    if not isinstance(command, str) or not isinstance(args, list) or not isinstance(env, Mapping):
        return None
    return ServerEntry(
        command=command,
        args=tuple(str(part) for part in args),
        env={str(name): str(text) for name, text in env.items()},
        type=str(value.get("type", "")),
    )


_UNWRITABLE = re.compile("[\ud800-\udfff]")


def unwritable(entry: ServerEntry) -> str:
    """The first text of the entry that no file in UTF-8 can hold; "" when all can be."""
    texts = (entry.command, *entry.args, *entry.env.values())
    return next((text for text in texts if _UNWRITABLE.search(text)), "")
