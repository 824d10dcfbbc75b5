"""One server put into, or taken out of, a document of TOML: as a table of its own at the end.

Nothing but the table changes, to the byte, and taking out what was put in gives the text that was
there before. Nothing is remembered for that: how the table is written says what stood there.

- Behind a text that ends with a newline, the table comes behind an empty line and ends with one.
- Behind a text without, it comes behind an empty line as well, and ends without.
- Where there was no text, it stands alone and ends without; where there was no file, with one.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from vaultmem.model.errors import Refused
from vaultmem.service.client_config_veil import VEIL, is_shown
from vaultmem.service.server_entry import Put, ServerEntry, merged
from vaultmem.service.text_splices import Splice, spliced

_KEY_PART = re.compile(r"[ \t]*(?P<key>[A-Za-z0-9_-]+|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*')[ \t]*")
_VALUE_PART = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[\]{}\n]",
    re.DOTALL,
)
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|#[^\r\n]*"
    r"|[\[\]{},=]"
    r"|[^\s\[\]{},=#\"']+",
    re.DOTALL,
)
_NEWLINE = re.compile(r"(?:\r?\n)?")
_BLANKS = re.compile(r"[ \t]*")
_EQUALS = re.compile(r"[ \t]*=")
_BARE = re.compile("[A-Za-z0-9_-]+")
_OURS = ("command", "args", "env")


@dataclass(frozen=True, slots=True)
class _Statement:
    start: int  # of its line
    end: int  # behind its newline, or of the text
    table: tuple[str, ...] | None  # the table that it opens, if it is a header
    key: tuple[str, ...]  # what it sets, within its table


@dataclass(frozen=True, slots=True)
class _Document:
    text: str
    loaded: dict[str, object]
    statements: tuple[_Statement, ...]


def toml_servers(text: str, container: str) -> dict[str, object]:
    """The servers that the text names: name -> entry. Raises Refused."""
    return dict(_servers(_read(text).loaded, container))


def toml_with_server(text: str | None, container: str, name: str, put: Put) -> tuple[Splice, ...]:
    """The splices that name the server; () when it is named already. text: None for no file.

    Raises Refused.
    """
    entry = replace(put.entry, type="")  # Codex tells by the command
    if text is None:
        return (Splice(0, 0, _table(container, name, entry, "\n") + "\n"),)
    document = _read(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    old = _servers(document.loaded, container).get(name)
    if old is None:
        written = _table(container, name, entry, newline)
        if not text.removeprefix("\ufeff"):
            new = written
        elif text.endswith("\n"):
            new = newline + written + newline
        else:
            new = newline + newline + written
        splices: tuple[Splice, ...] = (Splice(len(text), len(text), new),)
        value: object = entry.written()
    else:
        value = merged(old, replace(put, entry=entry))
        if value == old:
            return ()
        gone = {str(key) for key in old if key not in value} if isinstance(old, dict) else set()
        splices = _replaced(document, container, name, value, newline, gone=gone)
    _check(document, splices, container, {name: value})
    return splices


def toml_without_server(text: str, container: str, name: str) -> tuple[Splice, ...] | None:
    """The splices that take the server out; () when it is not there, None when the file goes.

    Raises Refused.
    """
    document = _read(text)
    if name not in _servers(document.loaded, container):
        return ()
    stretches = _stretches(document, (container, name))
    start, end = stretches[0]
    if (start, end) == (0, len(text)) and text.endswith("\n"):
        return None
    # Without a newline at its end it was written behind a text that has none either.
    newlines = 1 if text.endswith("\n") or stretches[-1][1] < len(text) else 2
    first = _before_newlines(text, start, newlines)
    if first == start and not text[:start].removeprefix("\ufeff"):
        # What was put in behind it, at the beginning of the text, brought an empty line along.
        end += len(_NEWLINE.match(text, end)[0])  # type: ignore[index]
    stretches[0] = (first, end)
    cuts = tuple(Splice(first, last, "") for first, last in stretches)
    _check(document, cuts, container, {}, without=name)
    return cuts


def toml_veils(text: str, container: str, name: str, *, foreign: bool) -> tuple[Splice, ...]:
    """What is not shown of the server of that name; () where there is none. Raises Refused."""
    document = _read(text)
    path = (container, name)
    veils: list[Splice] = []
    table: tuple[str, ...] = ()
    behind = 0  # what was seen of the entry
    for statement in document.statements:
        within: tuple[str, ...] = ()
        at = statement.start + len(_BLANKS.match(text, statement.start)[0])  # type: ignore[index]
        if statement.table is not None:
            table = statement.table
            _, at = _key(text, at + (2 if statement.key else 1))
        else:
            within = statement.key
            _, at = _key(text, at)
        whole_path = (*table, *within)
        if whole_path[: len(path)] != path:
            behind = 0
            continue
        if behind:
            veils += _comment_veils(text, behind, statement.start)
        veils += _value_veils(text, at, statement.end, whole_path[len(path) :], foreign)
        behind = statement.end
    return tuple(veils)


def _comment_veils(text: str, start: int, end: int) -> Iterator[Splice]:
    for match in re.compile(r"#[^\r\n]*").finditer(text, start, end):
        yield Splice(*match.span(), f"# {VEIL}")


def _value_veils(
    text: str, start: int, end: int, path: tuple[str, ...], foreign: bool
) -> Iterator[Splice]:
    """What is not shown of a setting, from behind its key. path: its keys within the entry."""
    tables: list[tuple[str, ...]] = []
    current = path
    for match in _TOKEN.finditer(text, start, end):
        token = match[0]
        if token.startswith("#"):
            yield Splice(*match.span(), "# " + VEIL)
        elif token == "{":
            tables.append(current)
        elif token == "}":
            current = tables.pop() if tables else path
        elif token in "[],=":
            continue
        elif tables and _EQUALS.match(text, match.end()):
            parts, _ = _key(text, match.start())
            current = (*tables[-1], *parts)
        elif not _is_token_shown(token, current, foreign=foreign):
            yield Splice(*match.span(), f'"{VEIL}"')


def _is_token_shown(token: str, path: tuple[str, ...], *, foreign: bool) -> bool:
    if token[0] in "\"'":
        return is_shown(path, tomllib.loads(f"x = {token}")["x"], foreign=foreign)
    return token in ("true", "false") or len(path) <= 1


# Reading


def _read(text: str) -> _Document:
    plain = text.removeprefix("\ufeff")
    try:
        loaded = tomllib.loads(plain, parse_float=str)  # two that are no number are not equal
    except RecursionError:
        raise Refused("It is not TOML that can be read: it nests too deep.") from None
    except ValueError as error:  # TOMLDecodeError, and a number without end
        raise Refused(f"It is not TOML that can be read: {error}. Mend it first.") from None
    offset = len(text) - len(plain)
    return _Document(text, loaded, tuple(_statements(text, offset)))


def _servers(loaded: dict[str, object], container: str) -> dict[str, object]:
    servers = loaded.get(container, {})
    if not isinstance(servers, dict):
        raise Refused(f"Its {container} is no table. Mend it first.")
    return servers


def _statements(text: str, at: int) -> Iterator[_Statement]:
    """The headers and settings of a text that is known to be valid. at: where it begins."""
    begin = at
    while at < len(text):
        start = max(begin, text.rfind("\n", 0, at) + 1)
        if text[at] in " \t\r\n":
            at += 1
        elif text[at] == "#":
            at = _line_end(text, at)
        elif text[at] == "[":
            array = text.startswith("[[", at)
            path, _ = _key(text, at + (2 if array else 1))
            at = _line_end(text, at)
            yield _Statement(start, at, path, ("",) if array else ())
        else:
            path, behind = _key(text, at)
            at = _value_end(text, behind)
            yield _Statement(start, at, None, path)


def _key(text: str, at: int) -> tuple[tuple[str, ...], int]:
    parts: list[str] = []
    while match := _KEY_PART.match(text, at):
        key = match["key"]
        parts.append(key if key[0] not in "\"'" else next(iter(tomllib.loads(f"{key} = 0"))))
        at = match.end()
        if not text.startswith(".", at):
            break
        at += 1
    return tuple(parts), at


def _value_end(text: str, at: int) -> int:
    """Behind the newline that ends a setting."""
    depth = 0
    for match in _VALUE_PART.finditer(text, at):
        if match[0] in "[{":
            depth += 1
        elif match[0] in "]}":
            depth -= 1
        elif match[0] == "\n" and depth == 0:
            return match.end()
    return len(text)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _stretches(document: _Document, path: tuple[str, ...]) -> list[tuple[int, int]]:
    """Where a table and those within it stand, from header to last setting. Raises Refused.

    Comments behind the last setting belong to what follows.
    """
    stretches: list[tuple[int, int]] = []
    ours = False
    headers: set[tuple[str, ...]] = set()
    for statement in document.statements:
        if statement.table is not None:
            ours = statement.table[: len(path)] == path
            if ours:
                if statement.key:
                    raise _elsewhere(path)
                headers.add(statement.table)
                between = document.text[stretches[-1][1] : statement.start] if stretches else "x"
                if between.strip():
                    stretches.append((statement.start, statement.end))
                    continue
        if ours:
            stretches[-1] = (stretches[-1][0], statement.end)
    if path not in headers:
        raise _elsewhere(path)
    return stretches


def _elsewhere(path: tuple[str, ...]) -> Refused:
    return Refused(
        f"It sets {'.'.join(path)} in another way than by a table [{'.'.join(path)}]. Change it by "
        "hand."
    )


# Writing


def _table(container: str, name: str, entry: ServerEntry, newline: str) -> str:
    key = name if _BARE.fullmatch(name) else _toml(name)
    return newline.join([f"[{container}.{key}]", *_settings(entry.written())])


def _settings(value: object) -> list[str]:
    assert isinstance(value, dict)
    return [f"{key} = {_toml(value[key])}" for key in _OURS if key in value]


def _toml(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_toml(key)} = {_toml(part)}' for key, part in value.items())} }}"
    if not isinstance(value, str):
        raise Refused("It has variables that are no texts. Change it by hand.")
    # What JSON writes of a text is what TOML reads as the same one, but for one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _replaced(
    document: _Document,
    container: str,
    name: str,
    value: object,
    newline: str,
    *,
    gone: set[str],
) -> tuple[Splice, ...]:
    """New settings behind the header, and what they take the place of taken out.

    gone: keys of the entry that it has no more.
    """
    text, path = document.text, (container, name)
    _stretches(document, path)
    cuts: list[Splice] = []
    table: tuple[str, ...] = ()
    header_end = 0
    for statement in document.statements:
        if statement.table is not None:
            table = statement.table
            header_end = statement.end if table == path else header_end
        inside = table[: len(path)] == path
        within = (*table, *statement.key)[len(path) :] if inside else ()
        if within and (within[0] in _OURS or within[0] in gone):
            cuts.append(Splice(statement.start, statement.end, ""))
    lines = newline.join(_settings(value)) + newline
    if not text[:header_end].endswith("\n"):
        lines = newline + lines
    at_end = header_end
    for cut in cuts:
        at_end = cut.end if not text[at_end : cut.start].strip() else at_end
    if at_end == len(text) and not text.endswith("\n"):
        lines = lines.removesuffix(newline)
    return tuple(sorted([Splice(header_end, header_end, lines), *cuts], key=lambda c: c.start))


def _before_newlines(text: str, at: int, count: int) -> int:
    """Ahead of the empty line that parts the table from what comes before it."""
    if (
        count == 1
        and not text[:at].endswith(("\n\n", "\n\r\n"))
        and text[:at] not in ("\n", "\r\n")
    ):
        return at
    for _ in range(count):
        if text[:at].endswith("\n"):
            at -= 2 if text[:at].endswith("\r\n") else 1
    return at


def _check(
    document: _Document,
    splices: tuple[Splice, ...],
    container: str,
    put: dict[str, object],
    *,
    without: str | None = None,
) -> None:
    """Raise Refused unless the new text says what the old one did, but for the one entry."""
    servers = _servers(document.loaded, container)
    kept = {key: value for key, value in servers.items() if key != without} | put
    expected = {key: value for key, value in document.loaded.items() if key != container}
    try:
        new = _read(spliced(document.text, splices)).loaded
    except Refused:
        raise Refused(
            f"Its {container} is written as an inline table or with dotted keys, so that no table "
            "can be added to it or taken from it. Change it by hand."
        ) from None
    if (
        _servers(new, container) != kept
        or {k: v for k, v in new.items() if k != container} != expected
    ):
        raise Refused("It is written in a way in which it cannot be changed safely.")
