"""One MCP server as the configuration of a client names it."""

import re
from collections.abc import Mapping
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


def merged(old: object, entry: ServerEntry) -> dict[str, object]:
    """The entry put over an older one of its name: what else a person or the client wrote stays.

    That is, timeouts, approvals, switches, further variables, and options behind the last of the
    arguments, which is the server's command. An entry that starts no program, such as one with an
    address, is replaced as a whole.
    """
    if not isinstance(old, Mapping) or not isinstance(old.get("command"), str):
        return entry.written()
    rest = {key: value for key, value in old.items() if key not in ("command", "args", "env")}
    if entry.type or rest.get("type") != "stdio":
        rest.pop("type", None)
    variables = old.get("env")
    env = {**(variables if isinstance(variables, Mapping) else {}), **entry.env}
    new = entry.written() | {"args": [*entry.args, *_options(old.get("args"), entry)]}
    return new | ({"env": env} if env else {}) | rest


def _options(args: object, entry: ServerEntry) -> list[object]:
    """What stands behind the server's command in an older entry."""
    if not isinstance(args, list) or not entry.args or entry.args[-1] not in args:
        return []
    return args[len(args) - args[::-1].index(entry.args[-1]) :]


def read_entry(value: object) -> ServerEntry | None:
    """The entry that a file holds; None for one that starts no program.

    Cline may put command, args and env one level deeper, below "transport".
    """
    if isinstance(value, Mapping) and isinstance(value.get("transport"), Mapping):
        value = value["transport"]
    if not isinstance(value, Mapping):
        return None
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
