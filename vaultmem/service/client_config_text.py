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
    json_veils,
    json_with_server,
    json_without_server,
)
from vaultmem.service.client_config_toml import (
    toml_servers,
    toml_veils,
    toml_with_server,
    toml_without_server,
)
from vaultmem.service.server_entry import PresentServer, Put, read_server
from vaultmem.service.text_splices import Splice, Veils, changed_lines, spliced


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


def with_server(text: str | None, shape: ConfigShape, name: str, put: Put) -> EditedConfig:
    """The text with the server in it. text: None where there is no file.

    What else a person or the client wrote into an entry of that name stays, unless it gives way as
    a whole. Raises Refused, with a message that says what about the file is in the way.
    """
    try:
        match shape.form:
            case ConfigForm.JSON:
                splices = json_with_server(text, shape.container, name, put)
            case ConfigForm.TOML:
                splices = toml_with_server(text, shape.container, name, put)
            case _:
                assert_never(shape.form)
    except RecursionError:
        raise _too_deep() from None
    return _edited(text, shape, name, splices, foreign=put.whole)


def without_server(
    text: str | None, shape: ConfigShape, name: str, *, foreign: bool = False
) -> EditedConfig:
    """The text without the server; what `with_server` put in leaves no byte behind.

    foreign: whether the server is not vaultmem's, so that the diff shows less of it. Raises
    Refused.
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
    return _edited(text, shape, name, splices, foreign=foreign)


def servers(text: str | None, shape: ConfigShape) -> dict[str, PresentServer]:
    """The servers of the text, by name. Raises Refused."""
    if text is None:
        return {}
    read = json_servers if shape.form is ConfigForm.JSON else toml_servers
    return {name: read_server(value) for name, value in read(text, shape.container).items()}


def _edited(
    text: str | None,
    shape: ConfigShape,
    name: str,
    splices: tuple[Splice, ...] | None,
    *,
    foreign: bool,
) -> EditedConfig:
    old = text or ""
    gone = splices is None
    splices = (Splice(0, len(old), ""),) if splices is None else splices
    if not splices:
        return EditedConfig(text, (), False)
    new = spliced(old, splices)
    try:
        new.encode()
    except UnicodeEncodeError:
        raise Refused("It would hold characters that are none in UTF-8.") from None
    veils = Veils(
        _veils(text, shape, name, foreign=foreign),
        _veils(None if gone else new, shape, name, foreign=False),
    )
    shown = "" if gone else shape.container
    lines = changed_lines(old, splices, shown, veils)
    return EditedConfig(None if gone else new, lines, gone or new != old)


def _veils(text: str | None, shape: ConfigShape, name: str, *, foreign: bool) -> tuple[Splice, ...]:
    """What is not shown of the server of that name, if there is one."""
    if text is None:
        return ()
    veil = json_veils if shape.form is ConfigForm.JSON else toml_veils
    return veil(text, shape.container, name, foreign=foreign)


def _too_deep() -> Refused:
    return Refused("It nests too deep to be changed safely.")
