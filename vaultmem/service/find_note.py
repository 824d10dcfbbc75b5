"""Which note a person means by a path, a name or an alias. Never a guess."""

from vaultmem.index.lookup import Lookup
from vaultmem.index.rows import FoundNote
from vaultmem.model.errors import NoteAmbiguous, NoteNotFound, Refused
from vaultmem.model.note import note_name
from vaultmem.vault.paths import fold, is_hidden, vault_path

MAX_CANDIDATES = 8


def find_note(lookup: Lookup, given: str) -> tuple[FoundNote, str]:
    """The note that `given` names, and the subpath behind its `#` ("" if none).

    given: a vault path with or without `.md`, a file name, an end of a path, or an alias; a
           `#Heading` or `#^block` may follow.
    Raises NoteNotFound (with what is near), NoteAmbiguous (with the candidates) and Refused.
    """
    given = given.encode("utf-8", "replace").decode()
    if not given.strip():
        raise NoteNotFound("No note was named. Give a path in the vault, or a note's name.")
    name, mark, subpath = given.partition("#")
    if mark:
        # The whole first, for a file may be called `x#y.md`; but what follows the `#` of a
        # subpath may be any text, and is no path to refuse.
        paths = _named(lookup, vault_path(given))
        if len(paths) == 1:
            return _at(lookup, paths[0]), ""
    found = _match(lookup, name) if name else None
    if found is not None:
        return found, mark + subpath
    raise NoteNotFound(_not_found(lookup, name or given))


def _match(lookup: Lookup, given: str) -> FoundNote | None:
    owners = lookup.alias_owners(given.strip())
    if len(owners) == 1 and is_hidden(vault_path(given)):
        return _at(lookup, owners[0])  # `.NET` is an alias, not a hidden file
    return _only(lookup, given, _named(lookup, safe_path(given)) or owners)


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


def safe_path(given: str) -> str:
    """The vault path of what was typed; refuses what leads out of the vault or into hiding."""
    refuse_traversal(given)
    path = vault_path(given)
    if is_hidden(path):
        raise Refused(f"{given} is hidden; vaultmem and Obsidian leave such files alone.")
    return path


def refuse_traversal(given: str) -> None:
    """Raise Refused for a path that leads out of the vault."""
    if "\0" in given:
        raise Refused("A path cannot hold a NUL character.")
    slashed = given.replace("\\", "/")
    if ".." in slashed.split("/") or slashed.startswith("~/"):
        raise Refused(f"{given} leads out of the vault. Give a path inside it.")


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
