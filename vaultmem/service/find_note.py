"""Which note a person means by a path, a name or an alias. Never a guess."""

import re
from pathlib import Path
from urllib.parse import unquote

from vaultmem.index.lookup import Lookup
from vaultmem.index.rows import FoundNote
from vaultmem.model.errors import NoteAmbiguous, NoteNotFound, Refused
from vaultmem.model.note import note_name
from vaultmem.security.hidden import as_written
from vaultmem.vault.composed import normal_form
from vaultmem.vault.paths import fold, is_hidden, vault_path
from vaultmem.vault.read import unfit

MAX_CANDIDATES = 8
# No system opens a longer path.
MAX_PATH_CHARS = 4096

# A path from the root of a disk or a server, a variable, the address of something.
_ELSEWHERE = re.compile(
    r"[/\\]|\$\{?[A-Za-z_]\w*\}?[/\\]|~[^/\\]*[/\\]|[A-Za-z]:[/\\]|[A-Za-z][A-Za-z0-9+.-]+:/"
)
# `..` is what leads up; more dots, a blank or a parameter behind it are ways to hide that.
_WIKILINK = re.compile(r"\s*!?\[\[([^\[\]|\n]+)(?:\|[^\[\]\n]*)?\]\]\s*")
_CLIMBS = re.compile(r"\.{2,}[ \t]*(?:;.*)?")
_DEVICES = frozenset(
    ("CON", "PRN", "AUX", "NUL", *(f"{kind}{n}" for kind in ("COM", "LPT") for n in range(1, 10)))
)


def find_note(lookup: Lookup, given: str, vault: Path) -> tuple[FoundNote, str]:
    """The note that `given` names, and the subpath behind its `#` ("" if none).

    given: a vault path with or without `.md`, a file name, an end of a path, or an alias; a
           `#Heading` or `#^block` may follow. What is hidden in it may be written as the escapes
           that it is shown as.
    vault: looked at only to say why what was named is no note; nothing in it is opened.
    Raises NoteNotFound (with what is near), NoteAmbiguous (with the candidates) and Refused.
    """
    given = given.encode("utf-8", "replace").decode()
    exact = lookup.note_at(given)
    if exact is None and (link := linked_name(given)):
        given = link
        exact = lookup.note_at(given)
    if exact is not None:
        return exact, ""  # also where it is spelt as no path should be
    written = as_written(given)
    if written != given:
        return find_note(lookup, written, vault)
    refuse_traversal(given)
    name, mark, subpath = given.partition("#")
    if mark:
        # The whole first, for a file may be called `x#y.md`; but what follows the `#` of a
        # subpath may be any text, and is no path to refuse.
        paths = _named(lookup, vault_path(given))
        if len(paths) == 1:
            return _at(lookup, paths[0]), ""
    # (`Con. law` is a name like any other where there is such a note.)
    found = _match(lookup, name) if name and not (is_device(name) and " " not in name) else None
    if found is not None:
        return found, mark + subpath
    refuse_unfit(name or given, vault)
    raise NoteNotFound(_not_found(lookup, name or given))


def linked_name(given: str) -> str:
    """What a wikilink names, as it stands in the text of a note; "" for what is none."""
    link = _WIKILINK.fullmatch(given)
    return link[1] if link else ""


def _match(lookup: Lookup, given: str) -> FoundNote | None:
    owners = lookup.alias_owners(given.strip())
    if len(owners) == 1 and is_hidden(vault_path(given)):
        return _at(lookup, owners[0])  # `.NET` is an alias, not a hidden file
    return _only(lookup, given, _named(lookup, _safe_path(given)) or owners)


def _named(lookup: Lookup, path: str) -> list[str]:
    """Notes at this path, else of this path in any case, else ending in it."""
    for spelling in (path, path + ".md"):
        if lookup.note_at(spelling) is not None:
            return [spelling]
    wanted = (fold(path), fold(path + ".md"))
    paths = lookup.all_paths()
    exact = [p for p in paths if fold(p) in wanted]
    return exact or [p for p in paths if fold(p).endswith(tuple("/" + w for w in wanted))]


def _at(lookup: Lookup, path: str) -> FoundNote:
    found = lookup.note_at(path)
    if found is None:
        raise NoteNotFound(f"{path} is not in the index any more. Ask again.")
    return found


def _only(lookup: Lookup, given: str, paths: list[str]) -> FoundNote | None:
    if not paths:
        return None
    if len(paths) > 1:
        shown = ", ".join(paths[:MAX_CANDIDATES])
        more = f" and {len(paths) - MAX_CANDIDATES} more" if len(paths) > MAX_CANDIDATES else ""
        raise NoteAmbiguous(f"{given} could be {shown}{more}. Give the path of the one you mean.")
    return _at(lookup, paths[0])


def _safe_path(given: str) -> str:
    """The vault path of what was typed; refuses what is hidden."""
    path = vault_path(given)
    if is_hidden(path):
        raise Refused(f"{given} is hidden; vaultmem and Obsidian leave such files alone.")
    return path


def refuse_traversal(given: str) -> None:
    """Raise Refused for what leads out of the vault, however it is written, or names nothing."""
    refuse_outside(given)
    if "\0" in given:
        raise Refused("A path cannot hold a NUL character.")
    if not given.strip(" \t\r\n/\\."):
        raise Refused("No note was named. Give a path in the vault, or a note's name.")
    if len(given) > MAX_PATH_CHARS:
        raise Refused(
            f"The path has {len(given):,} characters; none in a vault has over {MAX_PATH_CHARS:,}."
        )


def refuse_outside(given: str) -> None:
    """Raise Refused for a path, or the beginning of one, that leads out of the vault."""
    path = given[:MAX_PATH_CHARS]
    decoded = unquote(path)
    # As other programs would read it: decoded once or twice, composed, with either slash.
    for spelling in {path, decoded, unquote(decoded), normal_form("NFKC", path)}:
        parts = spelling.replace("\\", "/").split("/")
        if (parts[0] == "~" and len(parts) > 1) or any(_CLIMBS.fullmatch(part) for part in parts):
            raise Refused(f"{given} leads out of the vault. Give a path inside it.")


def refuse_unfit(given: str, vault: Path) -> None:
    """Raise Refused for a path that is none in a vault, when no note answers to it."""
    path = given.strip()
    if _ELSEWHERE.match(path) or "::" in path:
        raise Refused(f"{given} leads out of the vault. Give a path inside it.")
    if any(ord(sign) < 32 or ord(sign) == 127 for sign in path):
        raise Refused("A path cannot hold control characters or line ends.")
    if path.endswith(("/", "\\")):
        raise Refused(f"{given} names a folder. Give the path of a note.")
    if is_device(path):
        raise Refused(f"{given} names a device on Windows. Give the note's path.")
    reason = unfit(vault, vault_path(path)) or unfit(vault, vault_path(path) + ".md")
    if reason is not None:
        raise Refused(f"{given} is left alone. {reason}")


def is_device(given: str) -> bool:
    """Whether this is what Windows calls a device, in any folder and with any ending."""
    return vault_path(given).rsplit("/", 1)[-1].split(".")[0].strip().upper() in _DEVICES


def _not_found(lookup: Lookup, given: str) -> str:
    from difflib import get_close_matches

    paths = lookup.all_paths()
    names: dict[str, str] = {}
    for path in paths:
        names.setdefault(fold(note_name(path)), path)
    near = get_close_matches(fold(note_name(vault_path(given))), names, n=3, cutoff=0.6)
    hint = f" Near: {', '.join(names[name] for name in near)}." if near else ""
    return (
        f"There is no note {given} in the index.{hint} "
        "`vaultmem why` tells whether a rule keeps it out."
    )
