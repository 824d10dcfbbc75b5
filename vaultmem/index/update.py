"""From a delta to rows: one transaction per note, its hash stamped in the same one."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from vaultmem.index.documents import (
    COLUMNS,
    Documents,
    Row,
    SearchedFields,
    documents,
    searched_fields,
)
from vaultmem.index.links import link_row
from vaultmem.index.schema import FULL_TEXT
from vaultmem.index.store import Sidecar
from vaultmem.index.vectors import embedded_hash, forget_centroid, speaks
from vaultmem.model.chunk import Chunk
from vaultmem.model.delta import FileState, StoredFile
from vaultmem.model.note import Item, Note, Problem
from vaultmem.vault.links import VaultNames
from vaultmem.vault.paths import fold, vault_path

# One encoder for all rows: making one anew costs three times what it then does.
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

# What a batch of commits counts as one note; a long note fills it faster.
NOTE_CHARS = 10_000


# Small tables with rows of a note, replaced whole.
_DETAILS = ("link", "tag", "alias", "field", "item", "arrow", "secret", "problem")


@dataclass(frozen=True, slots=True)
class Entry:
    """A note ready to be stored."""

    note: Note
    chunks: tuple[Chunk, ...]
    state: FileState
    sha256: str
    read_ns: int
    kind: str
    date: str | None  # ISO day
    undated: bool  # whether that is its file's, since it has none of its own
    stub: bool
    identity: str | None
    items: tuple[Item, ...] = ()
    apart: bool = False  # a template: its tags and links do not count
    known: bool = True  # whether the sidecar may hold it already
    replaces: str | None = None  # the path it had before, when it moved


@dataclass(frozen=True, slots=True)
class Written:
    """What storing one note changed."""

    chunks: int  # passages the note has now
    reused: int  # of which these were there before


def put_note(sidecar: Sidecar, entry: Entry, names: VaultNames) -> Written:
    """Store a note, replacing what was known of it. Links *to* it are `relink`'s affair.

    names: every file of the vault as it is now, to resolve the note's own links.
    """
    note = entry.note
    with sidecar.transaction(weight=1 + len(note.text) // NOTE_CHARS) as db:
        old = _load(db, entry.replaces or note.path) if entry.known else None
        fields = searched_fields(note)
        note_id = _put_row(db, entry, fields, old)
        new = documents(fields, entry.chunks)
        reused = _put_chunks(db, note_id, entry, new, old)
        _put_details(db, note_id, entry, names, fresh=old is None)
    return Written(len(entry.chunks), reused)


def touch(
    sidecar: Sidecar, path: str, state: FileState, read_ns: int, date: str | None = None
) -> None:
    """Remember the new look of a file whose bytes are the same."""
    with sidecar.transaction() as db:
        db.execute(
            "UPDATE note SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, disk_path = ?, "
            "read_ns = ?, date = coalesce(?, date) WHERE path = ?",
            (*state, read_ns, date, path),
        )


def is_undated(sidecar: Sidecar, path: str) -> bool:
    """Whether a note has its file's day, since it has none of its own."""
    value = sidecar.connection.execute("SELECT undated FROM note WHERE path = ?", (path,)).get
    return bool(value)


def move_days(sidecar: Sidecar, day: Callable[[int], str]) -> None:
    """Give every undated note the day of its file's time anew. day: nanoseconds -> ISO day."""
    with sidecar.transaction() as db:
        moved: list[tuple[str, int]] = []
        for note, mtime_ns, date in db.execute("SELECT id, mtime_ns, date FROM note WHERE undated"):
            now = day(mtime_ns)
            if now != date:
                moved.append((now, note))
        db.executemany("UPDATE note SET date = ? WHERE id = ?", moved)


def remove_note(sidecar: Sidecar, path: str) -> None:
    """Forget a note that is gone. Links that led to it are `relink`'s affair."""
    with sidecar.transaction() as db:
        old = _load(db, path)
        if old is None:
            return
        _delete_text(db, "note_text", [(old.id, old.documents.note)])
        _delete_text(
            db, "passage_text", list(zip(old.chunk_ids, old.documents.passages, strict=True))
        )
        _delete_text(
            db,
            "window_text",
            [
                (chunk_id, row)
                for chunk_id, row in zip(old.chunk_ids, old.documents.windows, strict=True)
                if row is not None
            ],
        )
        _forget_items(db, old.id)
        for table in (*_DETAILS, "chunk"):
            db.execute(f"DELETE FROM {table} WHERE note = ?", (old.id,))
        forget_centroid(db)
        db.execute("DELETE FROM note WHERE id = ?", (old.id,))


# Set while words that are gone may still be in the file.
_ERASE = "erase"


def erase_later(sidecar: Sidecar) -> None:
    """From here to `erase_now`, words that go are marked as gone and stay in the file."""
    with sidecar.transaction() as db:
        sidecar.set_meta(_ERASE, "yes")
        for table in FULL_TEXT:
            db.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('secure-delete', 0)")


def must_erase(sidecar: Sidecar) -> bool:
    """Whether words that are gone may still be in the file."""
    return sidecar.meta(_ERASE) is not None


def erase_now(sidecar: Sidecar) -> None:
    """Write the full-text index anew, without what is gone, if that is due."""
    if not must_erase(sidecar):
        return
    for table in FULL_TEXT:
        with sidecar.transaction() as db:
            db.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('secure-delete', 1)")
            db.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
    with sidecar.transaction() as db:
        db.execute("DELETE FROM meta WHERE key = ?", (_ERASE,))


def put_files(sidecar: Sidecar, known: frozenset[str], files: frozenset[str]) -> None:
    """Bring the list of other files up to date; attachments are what embeds resolve to."""
    gone, come = known - files, files - known
    if not gone and not come:
        return
    with sidecar.transaction() as db:
        db.executemany("DELETE FROM file WHERE path = ?", [(path,) for path in sorted(gone)])
        db.executemany("INSERT INTO file (path) VALUES (?)", [(path,) for path in sorted(come)])


def put_scan_problems(
    sidecar: Sidecar, problems: Iterable[Problem], stands: Callable[[str], bool] | None = None
) -> None:
    """Replace the list of files that could not be indexed, if it is another one.

    stands: whether what is known of a path is none of this run's business, and stays; None where
            everything was looked at.
    """
    known = list(
        sidecar.connection.execute(
            "SELECT path, line, code, message FROM scan_problem ORDER BY ordinal"
        )
    )
    wanted = {(p.path, p.line, p.code, p.message) for p in problems}
    if stands is not None:
        wanted |= {row for row in known if stands(row[0])}
    rows = sorted(wanted)
    if known == rows:
        return
    with sidecar.transaction() as db:
        db.execute("DELETE FROM scan_problem")
        db.executemany(
            "INSERT INTO scan_problem (ordinal, path, line, code, message) VALUES (?, ?, ?, ?, ?)",
            [(ordinal, *row) for ordinal, row in enumerate(rows)],
        )


def is_at_or_below(column: str) -> str:
    """The condition that a column of paths, or of tags, is a place or below it; by an index."""
    return f"({column} = ? OR ({column} > ? AND {column} < ?))"


# Of a column `path`.
AT_OR_BELOW = is_at_or_below("path")


def at_or_below(place: str) -> tuple[str, str, str]:
    """What that condition asks of a place. ("0" is what follows "/".)"""
    return place, place + "/", place + "0"


def stored_files(sidecar: Sidecar, region: Iterable[str] | None = None) -> dict[str, StoredFile]:
    """What the sidecar knows of every note's file; of a region, those at and below its paths."""
    columns = "SELECT path, size, mtime_ns, ctime_ns, inode, disk_path, sha256, read_ns, identity"
    db = sidecar.connection
    if region is None:
        return dict(map(_stored_file, db.execute(f"{columns} FROM note")))
    found: dict[str, StoredFile] = {}
    for place in region:
        rows = db.execute(f"{columns} FROM note WHERE {AT_OR_BELOW}", at_or_below(place))
        found.update(map(_stored_file, rows))
    return found


def _stored_file(row: tuple[Any, ...]) -> tuple[str, StoredFile]:
    path, size, mtime_ns, ctime_ns, inode, disk_path, sha256, read_ns, identity = row
    state = FileState(size, mtime_ns, ctime_ns, inode, disk_path)
    return path, StoredFile(state, sha256, read_ns, identity)


@dataclass(frozen=True, slots=True)
class _Stored:
    """What is in the sidecar about a note, as far as replacing it needs."""

    id: int
    chunk_ids: tuple[int, ...]
    chunks: tuple[Chunk, ...]
    documents: Documents


def _load(db: apsw.Connection, path: str) -> _Stored | None:
    row = db.execute("SELECT id, searched FROM note WHERE path = ?", (path,)).fetchone()
    if row is None:
        return None
    note_id, searched = row
    ids: list[int] = []
    chunks: list[Chunk] = []
    for chunk_id, key, trail, first, last, start, end, text, body, pieces in db.execute(
        "SELECT id, key, trail, first_line, last_line, start, end, text, body, pieces "
        "FROM chunk WHERE note = ? ORDER BY ordinal",
        (note_id,),
    ):
        ids.append(chunk_id)
        chunks.append(
            Chunk(key, tuple(json.loads(trail)), first, last, start, end, text, body, pieces)
        )
    fields = SearchedFields(**json.loads(searched))
    return _Stored(note_id, tuple(ids), tuple(chunks), documents(fields, chunks))


def _put_row(db: apsw.Connection, entry: Entry, fields: SearchedFields, old: _Stored | None) -> int:
    note, state = entry.note, entry.state
    values = (
        note.path,
        state.disk_path,
        note.title,
        fold(note.path),
        fold(note.name),
        fold(note.title),
        entry.kind,
        entry.date,
        int(entry.undated),
        int(entry.stub),
        int(entry.apart),
        int(note.screening),
        entry.sha256,
        entry.identity,
        state.size,
        state.mtime_ns,
        state.ctime_ns,
        state.inode,
        entry.read_ns,
        len(entry.chunks),
        _json(note.frontmatter.properties),
        _json({name: getattr(fields, name) for name in SearchedFields.__slots__}),
    )
    if old is not None:
        db.execute(
            "UPDATE note SET path = ?, disk_path = ?, title = ?, folded_path = ?, folded_name = ?, "
            "folded_title = ?, kind = ?, date = ?, undated = ?, stub = ?, apart = ?, "
            "screening = ?, sha256 = ?, identity = ?, size = ?, mtime_ns = ?, ctime_ns = ?, "
            "inode = ?, read_ns = ?, passages = ?, properties = ?, searched = ? WHERE id = ?",
            (*values, old.id),
        )
        return old.id
    db.execute(
        "INSERT INTO note (path, disk_path, title, folded_path, folded_name, folded_title, kind, "
        "date, undated, stub, apart, screening, sha256, identity, size, "
        "mtime_ns, ctime_ns, inode, read_ns, passages, properties, searched) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        values,
    )
    return db.last_insert_rowid()


def _put_chunks(
    db: apsw.Connection, note_id: int, entry: Entry, new: Documents, old: _Stored | None
) -> int:
    """Write passages and full text, leaving alone what stays the same; returns how many did."""
    old_ids = dict(zip((c.key for c in old.chunks), old.chunk_ids, strict=True)) if old else {}
    keys = {chunk.key for chunk in entry.chunks}
    if old is not None:
        _forget_items(db, note_id)
    gone = [chunk_id for key, chunk_id in old_ids.items() if key not in keys]
    if gone:
        db.executemany("DELETE FROM chunk WHERE id = ?", [(chunk_id,) for chunk_id in gone])
        forget_centroid(db)
    next_id = _next_chunk_id(db) if len(keys) > len(old_ids.keys() & keys) else 0
    ids: list[int] = []
    fresh: list[tuple[object, ...]] = []
    of_items: list[tuple[object, ...]] = []
    for ordinal, (chunk, window) in enumerate(zip(entry.chunks, new.windows, strict=True)):
        place = (
            ordinal,
            chunk.first_line,
            chunk.last_line,
            chunk.start,
            chunk.end,
            chunk.body,
            chunk.pieces,
            int(window is None),
            len(chunk.items),
            chunk.items[0][1] if chunk.items else None,
        )
        chunk_id = old_ids.get(chunk.key)
        if chunk_id is not None:
            db.execute(
                "UPDATE chunk SET ordinal = ?, first_line = ?, last_line = ?, start = ?, end = ?, "
                "body = ?, pieces = ?, lone = ?, items = ?, date = ? WHERE id = ?",
                (*place, chunk_id),
            )
        else:
            chunk_id = next_id
            next_id += 1
            trail = _json(chunk.trail)
            fresh.append(
                (
                    *(chunk_id, note_id, *place, chunk.key, trail, chunk.text),
                    *(embedded_hash(chunk), int(speaks(chunk))),
                )
            )
        ids.append(chunk_id)
        of_items += [(chunk_id, n, *item) for n, item in enumerate(chunk.items)]
    if fresh:
        db.executemany(
            "INSERT INTO chunk (id, note, ordinal, first_line, last_line, start, end, body, "
            "pieces, lone, items, date, key, trail, text, text_hash, speaks) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            fresh,
        )
    if of_items:
        db.executemany(
            "INSERT INTO chunk_item (chunk, ordinal, kind, date) VALUES (?, ?, ?, ?)", of_items
        )
    was = old.documents if old else None
    was_ids = old.chunk_ids if old else ()
    _swap_text(
        db,
        "passage_text",
        dict(zip(was_ids, was.passages, strict=True)) if was else {},
        dict(zip(ids, new.passages, strict=True)),
    )
    _swap_text(
        db,
        "window_text",
        _rows(was_ids, was.windows) if was else {},
        _rows(ids, new.windows),
    )
    _swap_text(db, "note_text", {note_id: was.note} if was else {}, {note_id: new.note})
    return sum(chunk.key in old_ids for chunk in entry.chunks)


def _forget_items(db: apsw.Connection, note_id: int) -> None:
    db.execute(
        "DELETE FROM chunk_item WHERE chunk IN (SELECT id FROM chunk WHERE note = ? AND items > 0)",
        (note_id,),
    )


def _next_chunk_id(db: apsw.Connection) -> int:
    largest = db.execute("SELECT max(id) FROM chunk").get
    return largest + 1 if isinstance(largest, int) else 1


def _rows(ids: Sequence[int], rows: Sequence[Row | None]) -> dict[int, Row]:
    return {rowid: row for rowid, row in zip(ids, rows, strict=True) if row is not None}


def _swap_text(db: apsw.Connection, table: str, old: dict[int, Row], new: dict[int, Row]) -> None:
    """Replace full-text rows, touching only those that differ."""
    _delete_text(db, table, [(k, row) for k, row in old.items() if new.get(k) != row])
    rows = [(k, *row) for k, row in new.items() if old.get(k) != row]
    if rows:
        marks = ", ".join("?" * (len(COLUMNS) + 1))
        db.executemany(
            f"INSERT INTO {table} (rowid, {', '.join(COLUMNS)}) VALUES ({marks})",
            rows,
        )


def _delete_text(db: apsw.Connection, table: str, rows: Sequence[tuple[int, Row]]) -> None:
    """Take rows out of a contentless table, which needs to be told their text."""
    if rows:
        marks = ", ".join("?" * (len(COLUMNS) + 1))
        db.executemany(
            f"INSERT INTO {table} ({table}, rowid, {', '.join(COLUMNS)}) "
            f"VALUES ('delete', {marks})",
            [(rowid, *row) for rowid, row in rows],
        )


def _put_details(
    db: apsw.Connection, note_id: int, entry: Entry, names: VaultNames, *, fresh: bool
) -> None:
    """Links, tags, aliases, fields, items, arrows and problems: small tables, replaced whole."""
    note = entry.note
    if not fresh:
        for table in _DETAILS:
            db.execute(f"DELETE FROM {table} WHERE note = ?", (note_id,))
    if note.links:
        db.executemany(
            "INSERT INTO link (note, ordinal, target, subpath, display, embed, line, property, "
            "key, exact, resolved) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                link_row(note_id, ordinal, link, note.path, names)
                for ordinal, link in enumerate(note.links)
            ],
        )
    for table, values in (("tag", note.tags), ("alias", note.aliases)):
        if values:
            db.executemany(
                f"INSERT INTO {table} (note, ordinal, {table}, folded) VALUES (?, ?, ?, ?)",
                [(note_id, n, value, fold(value)) for n, value in enumerate(values)],
            )
    if note.fields:
        db.executemany(
            "INSERT INTO field (note, ordinal, name, value, line, alone) VALUES (?, ?, ?, ?, ?, ?)",
            [(note_id, n, f.key, f.value, f.line, int(f.alone)) for n, f in enumerate(note.fields)],
        )
    if entry.items:
        db.executemany(
            "INSERT INTO item (note, ordinal, kind, date, first_line, last_line, text, origin) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (note_id, n, i.kind, i.date, i.first, i.last, i.text, i.origin)
                for n, i in enumerate(entry.items)
            ],
        )
    if note.arrows:
        db.executemany(
            "INSERT INTO arrow (note, ordinal, source, target, folded_source, folded_target, "
            "label, line) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    *(note_id, n, a.source, a.target),
                    *(fold(vault_path(a.source)), fold(vault_path(a.target))),
                    *(a.label, a.line),
                )
                for n, a in enumerate(note.arrows)
            ],
        )
    if note.findings:
        db.executemany(
            "INSERT INTO secret (note, ordinal, line, kind, shown, fingerprint, allowed) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (note_id, n, f.line, f.kind, f.shown, f.fingerprint, int(f.allowed))
                for n, f in enumerate(note.findings)
            ],
        )
    if note.problems:
        db.executemany(
            "INSERT INTO problem (note, ordinal, line, code, message) VALUES (?, ?, ?, ?, ?)",
            [(note_id, n, p.line, p.code, p.message) for n, p in enumerate(note.problems)],
        )
