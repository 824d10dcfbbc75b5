"""The texts of configuration files: one server put in or taken out, all else as it was.

Pure: text to splices. Every change is read again before it is given out, and must say what the old
text did, but for the one entry; else it is refused.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from vaultmem.model.errors import Refused
from vaultmem.service.client_config_json import (
    json_servers,
    json_with_server,
    json_without_server,
)
from vaultmem.service.client_config_toml import (
    toml_servers,
    toml_with_server,
    toml_without_server,
)
from vaultmem.service.server_entry import ServerEntry, read_entry
from vaultmem.service.text_splices import Splice, changed_lines, spliced


class ConfigForm(StrEnum):
    """What a file is written in."""

    JSON = "json"  # with comments and trailing commas, if a person put them there
    TOML = "toml"


@dataclass(frozen=True, slots=True)
class ConfigShape:
    """Where in a file a client looks for its servers."""

    form: ConfigForm
    container: str  # the key, at the top, of the table of servers


@dataclass(frozen=True, slots=True)
class EditedConfig:
    """What a file would hold."""

    text: str | None  # None: there would be no file
    diff: tuple[str, ...]  # hunks that show this one server and nothing else of the file
    changed: bool


def with_server(
    text: str | None, shape: ConfigShape, name: str, entry: ServerEntry
) -> EditedConfig:
    """The text with the server in it. text: None where there is no file.

    What else a person or the client wrote into an entry of that name stays. Raises Refused, with
    a message that says what about the file is in the way.
    """
    try:
        match shape.form:
            case ConfigForm.JSON:
                splices = json_with_server(text, shape.container, name, entry)
            case ConfigForm.TOML:
                splices = toml_with_server(text, shape.container, name, entry)
            case _:
                assert_never(shape.form)
    except RecursionError:
        raise _too_deep() from None
    return _edited(text, shape, splices)


def without_server(text: str | None, shape: ConfigShape, name: str) -> EditedConfig:
    """The text without the server; what `with_server` put in leaves no byte behind.

    Raises Refused.
    """
    if text is None:
        return EditedConfig(None, (), False)
    try:
        match shape.form:
            case ConfigForm.JSON:
                splices = json_without_server(text, shape.container, name)
            case ConfigForm.TOML:
                splices = toml_without_server(text, shape.container, name)
            case _:
                assert_never(shape.form)
    except RecursionError:
        raise _too_deep() from None
    return _edited(text, shape, splices)


def servers(text: str | None, shape: ConfigShape) -> dict[str, ServerEntry | None]:
    """The servers of the text: name -> entry; None for one that starts no program.

    Raises Refused.
    """
    if text is None:
        return {}
    read = json_servers if shape.form is ConfigForm.JSON else toml_servers
    return {name: read_entry(value) for name, value in read(text, shape.container).items()}


def _edited(
    text: str | None, shape: ConfigShape, splices: tuple[Splice, ...] | None
) -> EditedConfig:
    old = text or ""
    if splices is None:
        whole = (Splice(0, len(old), ""),)
        return EditedConfig(None, changed_lines(old, whole), True)
    new = spliced(old, splices)
    try:
        new.encode()
    except UnicodeEncodeError:
        raise Refused("It would hold characters that are none in UTF-8.") from None
    return EditedConfig(new, changed_lines(old, splices, shape.container), new != old)


def _too_deep() -> Refused:
    return Refused("It nests too deep to be changed safely.")
