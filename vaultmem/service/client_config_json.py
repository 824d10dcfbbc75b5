"""One server put into, or taken out of, JSON that may hold comments and trailing commas.

Nothing but the entry changes, to the byte, and taking out what was put in gives the text that was
there before. Nothing is remembered for that: how an entry is written says what stood there.

- Into a table with entries, the new one is written before the first: on lines of its own if that
  one is, behind the comment that may follow the brace; else before it on its line.
- Into an empty table it is attached to the brace; so it is to that of an empty document.
- Where there was no table, it is made, with the entry on lines of its own; it is taken out again
  with its last entry.
- Where there was no file, the document begins with its brace and ends with a newline; it is
  deleted again. In a file of blanks it begins behind a newline and ends with its brace.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from vaultmem.model.errors import Refused
from vaultmem.service.client_config_veil import VEIL, is_shown
from vaultmem.service.server_entry import Put, merged
from vaultmem.service.text_splices import Splice, spliced

_BLANKS = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r'"(?:[^"\\\r\n]|\\.)*"|//[^\r\n]*|/\*(?:.*?\*/)?', re.DOTALL)
# A string; a comma that stands behind nothing, which stays wrong; a trailing comma.
_COMMA = re.compile(
    r'"(?:[^"\\\r\n]|\\.)*"|[\[{,:][ \t\r\n]*,|(?P<trailing>,)(?=[ \t\r\n]*[}\]])', re.DOTALL
)
_UNIT = "  "


@dataclass(frozen=True, slots=True)
class _Member:
    key: str
    start: int  # of the key
    value: int  # start of the value
    end: int  # of the value


@dataclass(frozen=True, slots=True)
class _Table:
    start: int  # of the opening brace
    end: int  # behind the closing one
    members: tuple[_Member, ...]

    def find(self, key: str) -> _Member | None:
        return next((member for member in self.members if member.key == key), None)


@dataclass(frozen=True, slots=True)
class _Document:
    text: str
    bare: str  # the same without its comments, character by character
    plain: str  # without trailing commas either
    loaded: dict[str, object]
    root: _Table


def json_servers(text: str, container: str) -> dict[str, object]:
    """The servers that the text names: name -> entry. Raises Refused."""
    if _is_blank(text):
        return {}
    return dict(_servers(_read(text), container) or {})


def json_with_server(text: str | None, container: str, name: str, put: Put) -> tuple[Splice, ...]:
    """The splice that names the server; () when it is named already. text: None for no file.

    Raises Refused.
    """
    if text is None or _is_blank(text):
        kept = text or ""
        style = _Style(_UNIT, "\r\n" if "\r\n" in kept else "\n")
        table = style.table(container, name, put.entry.written(), _UNIT)
        document_text = f"{{{style.newline}{_UNIT}{table}{style.newline}}}"
        new = document_text + "\n" if text is None else style.newline + document_text
        return (Splice(len(kept), len(kept), new),)
    document = _read(text)
    style = _Style.of(document)
    table_there = _container(document, container)
    old = None if table_there is None else table_there.find(name)
    value = put.entry.written()
    if table_there is None:
        splice = _insertion(
            document,
            document.root,
            lambda indent: style.table(container, name, value, indent),
        )
    elif old is None:
        splice = _insertion(
            document,
            table_there,
            lambda indent: f"{_quoted(name)}: {style.value(value, indent)}",
        )
    else:
        present = json.loads(document.plain[old.value : old.end])
        value = merged(present, put)
        if value == present:
            return ()
        splice = Splice(old.value, old.end, style.value(value, _indent(text, old.start)))
    _check(document, (splice,), container, {name: value})
    return (splice,)


def json_without_server(text: str, container: str, name: str) -> tuple[Splice, ...] | None:
    """The splices that take the server out; () when it is not there, None when the file goes.

    Raises Refused.
    """
    if _is_blank(text):
        return ()
    document = _read(text)
    table = _container(document, container)
    member = None if table is None else table.find(name)
    if table is None or member is None:
        return ()
    if _made(document, table, member):
        holder = document.root.members[[m.key for m in document.root.members].index(container)]
        if _made(document, document.root, holder):
            start, end = document.root.start, document.root.end
            ahead, behind = text[:start], text[end:]
            if not ahead and behind == "\n":
                return None
            if ahead.endswith("\n") and not ahead.strip("\ufeff \t\r\n") and not behind:
                return (Splice(start - (2 if ahead.endswith("\r\n") else 1), end, ""),)
        cuts = _cuts(document, document.root, holder)
        gone: dict[str, object] | None = None
    else:
        cuts = _cuts(document, table, member)
        gone = {}
    try:
        _check(document, cuts, container, gone, without=name)
    except Refused:
        # A comment stands where it would swallow what follows: the entry alone, and no newline.
        cuts = _cuts(document, table, member, bare=True)
        _check(document, cuts, container, {}, without=name)
    return cuts


def json_veils(text: str, container: str, name: str, *, foreign: bool) -> tuple[Splice, ...]:
    """What is not shown of the server of that name; () where there is none. Raises Refused."""
    if _is_blank(text):
        return ()
    document = _read(text)
    table = _container(document, container)
    member = None if table is None else table.find(name)
    if member is None:
        return ()
    veils = list(_value_veils(document.plain, member.value, (), foreign))
    for match in _COMMENT.finditer(text, member.start, member.end):
        if match[0].startswith("//"):
            veils.append(Splice(*match.span(), f"// {VEIL}"))
        elif match[0].startswith("/*"):
            breaks = "\n" * match[0].count("\n")
            veils.append(Splice(*match.span(), f"/* {VEIL} {breaks}*/"))
    return tuple(sorted(veils, key=lambda veil: veil.start))


def _value_veils(plain: str, at: int, path: tuple[str, ...], foreign: bool) -> Iterator[Splice]:
    """What is not shown of the value that begins there. path: its keys within the entry."""
    decoder = json.JSONDecoder()
    if plain[at] == "{":
        for member in _table_at(plain, at).members:
            yield from _value_veils(plain, member.value, (*path, member.key), foreign)
    elif plain[at] == "[":
        at = _after_blanks(plain, at + 1)
        while plain[at] != "]":
            yield from _value_veils(plain, at, path, foreign)
            at = _after_blanks(plain, decoder.raw_decode(plain, at)[1])
            if plain[at] == ",":
                at = _after_blanks(plain, at + 1)
    else:
        value, end = decoder.raw_decode(plain, at)
        if not is_shown(path, value, foreign=foreign):
            yield Splice(at, end, f'"{VEIL}"')


# Reading


def _is_blank(text: str) -> bool:
    return not text.removeprefix("\ufeff").strip(" \t\r\n")


def _read(text: str) -> _Document:
    start = 1 if text.startswith("\ufeff") else 0
    bare = " " * start + _without_comments(text[start:])
    plain = _COMMA.sub(lambda match: " " if match["trailing"] else match[0], bare)
    try:
        loaded = json.loads(plain, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        reason = error.msg[:1].lower() + error.msg[1:]
        raise _unreadable(f"line {error.lineno}, {reason}") from None
    except RecursionError:
        raise _unreadable("it nests too deep") from None
    except ValueError:
        raise _unreadable("a number is too long") from None
    if not isinstance(loaded, dict):
        raise Refused("It holds JSON that is no object, so it is no configuration that is known.")
    root = _table_at(plain, _BLANKS.match(plain).end())  # type: ignore[union-attr]
    return _Document(text, bare, plain, loaded, root)


def _unreadable(reason: str) -> Refused:
    return Refused(f"It is not JSON that can be read: {reason}. Mend it first.")


def _no_number(constant: str) -> object:
    raise _unreadable(f"{constant} is no number of JSON")


def _without_comments(text: str) -> str:
    def blank(match: re.Match[str]) -> str:
        found = match[0]
        if found.startswith('"'):
            return found
        if found == "/*":
            line = text.count("\n", 0, match.start()) + 1
            raise _unreadable(f"line {line}, a comment begins that has no end")
        return re.sub(r"[^\r\n]", " ", found)

    return _COMMENT.sub(blank, text)


def _table_at(plain: str, start: int) -> _Table:
    """The members of the object that begins there; the text is known to be valid."""
    decoder = json.JSONDecoder()
    members: list[_Member] = []
    at = _after_blanks(plain, start + 1)
    while plain[at] != "}":
        key, end = decoder.raw_decode(plain, at)
        value = _after_blanks(plain, _after_blanks(plain, end) + 1)
        _, value_end = decoder.raw_decode(plain, value)
        if any(member.key == key for member in members):
            line = plain.count("\n", 0, at) + 1
            raise Refused(f"It names {json.dumps(key)} twice, again in line {line}. Mend it first.")
        members.append(_Member(key, at, value, value_end))
        at = _after_blanks(plain, value_end)
        if plain[at] == ",":
            at = _after_blanks(plain, at + 1)
    return _Table(start, at + 1, tuple(members))


def _after_blanks(plain: str, at: int) -> int:
    match = _BLANKS.match(plain, at)
    return match.end() if match else at


def _servers(document: _Document, container: str) -> dict[str, object] | None:
    servers = document.loaded.get(container)
    if container in document.loaded and not isinstance(servers, dict):
        raise Refused(f'Its "{container}" is no object. Mend it first.')
    return servers if isinstance(servers, dict) else None


def _container(document: _Document, container: str) -> _Table | None:
    _servers(document, container)
    member = document.root.find(container)
    return None if member is None else _table_at(document.plain, member.value)


# Writing


@dataclass(frozen=True, slots=True)
class _Style:
    """How a file is laid out."""

    unit: str  # what it indents by
    newline: str

    @classmethod
    def of(cls, document: _Document) -> "_Style":
        text = document.text
        at = text.find("\n")
        indents = (_indent(text, member.start) for member in document.root.members)
        return cls(
            unit=next((indent for indent in indents if indent), _UNIT),
            newline="\r\n" if at > 0 and text[at - 1] == "\r" else "\n",
        )

    def value(self, value: object, indent: str) -> str:
        """A value whose key stands behind this indent."""
        written = json.dumps(value, ensure_ascii=False, indent=self.unit)
        if any("\ud800" <= character <= "\udfff" for character in written):
            written = json.dumps(value, indent=self.unit)
        return written.replace("\n", self.newline + indent)

    def table(self, container: str, name: str, value: object, indent: str) -> str:
        """A table with one entry, as a member behind this indent."""
        inner = self.newline + indent + self.unit
        entry = f"{_quoted(name)}: {self.value(value, indent + self.unit)}"
        return f"{_quoted(container)}: {{{inner}{entry}{self.newline}{indent}}}"


def _insertion(document: _Document, table: _Table, member: Callable[[str], str]) -> Splice:
    """Where a member goes, and its text. member: indent -> text."""
    text = document.text
    if not table.members:
        at = table.start + 1
        return Splice(at, at, member(_indent(text, table.start)))
    first = table.members[0].start
    at = _line_break(text, table.start + 1, first)
    if at < 0:
        return Splice(first, first, member(_indent(text, first)) + ", ")
    newline = "\r\n" if text.startswith("\r\n", at) else "\n"
    return Splice(at, at, newline + _indent(text, first) + member(_indent(text, first)) + ",")


def _line_break(text: str, start: int, end: int) -> int:
    """The first line break between two tokens that is in no block comment; -1 for none."""
    at = start
    while at < end:
        if text.startswith("/*", at):
            at = text.index("*/", at + 2) + 2
        elif text.startswith("//", at):
            at = text.find("\n", at, end)
            if at < 0:
                return -1
            return at - 1 if text[at - 1] == "\r" else at
        elif text[at] == "\n":
            return at - 1 if at > start and text[at - 1] == "\r" else at
        else:
            at += 1
    return -1


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _indent(text: str, at: int) -> str:
    """The blanks that the line begins with."""
    line = text.rfind("\n", 0, at) + 1
    match = re.compile(r"[ \t]*").match(text, line, at)
    return match[0] if match else ""


# Taking out


def _cuts(
    document: _Document, table: _Table, member: _Member, *, bare: bool = False
) -> tuple[Splice, ...]:
    """What takes a member out, one of its commas included. bare: and no blanks."""
    text = document.text
    number = table.members.index(member)
    start = member.start
    line = text.rfind("\n", 0, start) + 1
    own_line = line > table.start and not text[line:start].strip(" \t")
    if own_line and not bare:
        start = line - 1
        if text[start - 1] == "\r":
            start -= 1
    last = number == len(table.members) - 1
    limit = table.end - 1 if last else table.members[number + 1].start
    comma = document.bare.find(",", member.end, limit)
    cuts = [Splice(start, member.end, "")]
    if comma >= 0:
        after = comma + 1
        if not (own_line or last or bare) and text.startswith(" ", after):
            after += 1
        cuts.append(Splice(comma, after, ""))
    elif number > 0:
        before = document.bare.index(",", table.members[number - 1].end)
        after = before + 1
        if not (own_line or bare) and text[after:start] == " ":
            after = start  # one of ours that was put ahead of it brought its blank along
        cuts.insert(0, Splice(before, after, ""))
    return tuple(_joined(cuts))


def _joined(cuts: list[Splice]) -> list[Splice]:
    joined: list[Splice] = []
    for cut in cuts:
        if joined and joined[-1].end == cut.start:
            joined[-1] = Splice(joined[-1].start, cut.end, "")
        else:
            joined.append(cut)
    return joined


def _made(document: _Document, table: _Table, member: _Member) -> bool:
    """Whether the table holds this member alone, and that on lines of its own."""
    text = document.text
    before, after = text[table.start + 1 : member.start], text[member.end : table.end - 1]
    return len(table.members) == 1 and "\n" in before and not before.strip() and not after.strip()


def _check(
    document: _Document,
    splices: tuple[Splice, ...],
    container: str,
    put: dict[str, object] | None,
    *,
    without: str | None = None,
) -> None:
    """Raise Refused unless the new text says what the old one did, but for the one entry.

    put: entries that come in; None where the table goes.
    """
    expected = dict(document.loaded)
    if put is None:
        del expected[container]
    else:
        servers = _servers(document, container) or {}
        expected[container] = {k: v for k, v in servers.items() if k != without} | put
    new = _read(spliced(document.text, splices))
    if new.loaded != expected or not (
        _in_order(document.loaded, new.loaded)
        and _in_order(_servers(document, container) or {}, _servers(new, container) or {})
    ):
        raise Refused("It is written in a way in which it cannot be changed safely.")


def _in_order(old: dict[str, object], new: dict[str, object]) -> bool:
    """Whether what is in both comes in the same order."""
    return [key for key in old if key in new] == [key for key in new if key in old]
