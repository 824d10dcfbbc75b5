"""Where links lead: their rows, and which are looked up again when files come and go."""

from collections.abc import Iterable

import apsw

from vaultmem.index.store import Sidecar
from vaultmem.model.note import Link
from vaultmem.vault.links import VaultNames, affected_keys, link_key

# Set while links may be out of date; found set at the start of a run, that run's predecessor died.
_RELINKING = "relinking"


def announce_relink(sidecar: Sidecar) -> bool:
    """Say that links are about to go out of date; True when they may be so already."""
    before = sidecar.meta(_RELINKING) is not None
    if not before:
        with sidecar.transaction():
            sidecar.set_meta(_RELINKING, "yes")
    return before


def must_relink(sidecar: Sidecar) -> bool:
    """Whether an earlier run ended before it had resolved the links that it affected."""
    return sidecar.meta(_RELINKING) is not None


def relink(sidecar: Sidecar, paths: Iterable[str] | None, names: VaultNames) -> None:
    """Resolve again the links whose meaning depends on whether these files exist.

    paths: files that came, went or moved; None for every link.
    """
    with sidecar.transaction() as db:
        if paths is None:
            keys = [key for (key,) in db.execute("SELECT DISTINCT key FROM link")]
        else:
            keys = sorted({key for path in paths for key in affected_keys(path)})
        for key in keys:
            _relink(db, key, names)
        db.execute("DELETE FROM meta WHERE key = ?", (_RELINKING,))


def link_row(
    note_id: int, ordinal: int, link: Link, source: str, names: VaultNames
) -> tuple[object, ...]:
    """A link as it is stored. source: path of the note it stands in."""
    return (
        note_id,
        ordinal,
        link.target,
        link.subpath,
        link.display,
        int(link.embed),
        link.line,
        link.key,
        link_key(link.target),
        int(link.exact),
        _resolve(names, link.target, source, exact=link.exact),
    )


def _resolve(names: VaultNames, target: str, source: str, *, exact: bool) -> str | None:
    # A leading slash asks for that very path, and for no other file of its name.
    return names.resolve(f"/{target}" if exact else target, source)


def _relink(db: apsw.Connection, key: str, names: VaultNames) -> None:
    rows = db.execute(
        "SELECT link.note, link.ordinal, link.target, link.exact, link.resolved, note.path "
        "FROM link JOIN note ON note.id = link.note WHERE link.key = ?",
        (key,),
    ).fetchall()
    changed = [
        (now, note_id, ordinal)
        for note_id, ordinal, target, exact, resolved, source in rows
        if (now := _resolve(names, str(target), str(source), exact=bool(exact))) != resolved
    ]
    db.executemany("UPDATE link SET resolved = ? WHERE note = ? AND ordinal = ?", changed)
