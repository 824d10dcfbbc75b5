"""Two sidecars of one vault, row by row: what is in one and not in the other.

Row numbers and what is read from a clock differ between any two of them; a note is known by its
path, a passage by its note and its place there.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import apsw

from vaultmem.index.schema import FULL_TEXT
from vaultmem.index.store import Sidecar

# Row numbers, and when a file was looked at or written: nothing that the vault's text decides.
_OWN = frozenset({"id", "note", "chunk", "slot", "read_ns", "mtime_ns", "ctime_ns", "inode"})
# Tables whose rows belong to a note, and how to get from the note `n` to them.
_OF_A_NOTE = {
    "chunk": "CROSS JOIN chunk t ON t.note = n.id",
    "chunk_item": "CROSS JOIN chunk c ON c.note = n.id CROSS JOIN chunk_item t ON t.chunk = c.id",
} | {
    table: f"CROSS JOIN {table} t ON t.note = n.id"
    for table in ("link", "tag", "alias", "field", "item", "arrow", "secret", "problem")
}
# In the order in which they are looked at.
COMPARED = ("note", *_OF_A_NOTE, "file", *FULL_TEXT)
# A queue, what a run says of itself, and what it met that is no note.
NOT_COMPARED = ("request", "meta", "scan_problem")

Report = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Difference:
    """A place where what is kept is not what is made from the vault."""

    path: str  # of the note or file; "" for what is no note's
    table: str
    found: str  # what is wrong with it, in a few words


MISSING = "missing"
TOO_MUCH = "not of this vault"
OTHER = "not as it is made from the file"


def differences(
    kept: Sidecar, made: Sidecar, *, left_out: Collection[str] = (), report: Report | None = None
) -> Iterator[Difference]:
    """Where `kept` is not as `made`, one for each note and table.

    left_out: notes of which nothing is said: one of the two could not see them as the other did.
    report:   told (tables done, tables in all).

    Both stay as they are. Raises SQLite's errors where one cannot be read (see sidecar_errors).
    """
    wrong: set[str] = set()
    for done, table in enumerate(COMPARED):
        if report is not None:
            report(done, len(COMPARED))
        if table in FULL_TEXT:
            found = _text_differences(table, kept, made, {*left_out, *wrong})
        else:
            # A link that led to a note left out leads elsewhere in the other, or nowhere.
            without = {"resolved"} if left_out else set()
            found = _row_differences(table, kept.connection, made.connection, without)
        for difference in found:
            if difference.path not in left_out:
                wrong.add(difference.path)
                yield difference
    if report is not None:
        report(len(COMPARED), len(COMPARED))


def rows_in(sidecar: Sidecar) -> int:
    """How many rows of a sidecar are compared, those of the full-text index among them."""
    counts = [
        sidecar.connection.execute(
            f"SELECT count(*) FROM {table}{'_docsize' if table in FULL_TEXT else ''}"
        ).get
        for table in COMPARED
    ]
    return sum(count for count in counts if isinstance(count, int))


def _row_differences(
    table: str, kept: apsw.Connection, made: apsw.Connection, without: Collection[str]
) -> Iterator[Difference]:
    columns = [str(row[1]) for row in made.execute(f"PRAGMA table_info({table})")]
    wanted = ", ".join(f"t.{name}" for name in columns if name not in {*_OWN, *without})
    if table in _OF_A_NOTE:
        order = "n.path, c.ordinal, t.ordinal" if table == "chunk_item" else "n.path, t.ordinal"
        source = f"SELECT n.path, {wanted} FROM note n {_OF_A_NOTE[table]} ORDER BY {order}"
    else:
        source = f"SELECT t.path, {wanted} FROM {table} t ORDER BY t.path"
    ours, theirs = _Notes(kept, source), _Notes(made, source)
    while ours.path is not None or theirs.path is not None:
        if theirs.path is None or (ours.path is not None and ours.path < theirs.path):
            assert ours.path is not None
            yield Difference(ours.path, table, TOO_MUCH)
            ours.advance()
        elif ours.path is None or theirs.path < ours.path:
            yield Difference(theirs.path, table, MISSING)
            theirs.advance()
        else:
            if ours.rows != theirs.rows:
                yield Difference(ours.path, table, OTHER)
            ours.advance()
            theirs.advance()
    # Rows of no note at all are met from no note.
    if kept.execute(f"SELECT count(*) FROM {table}").get != ours.count:
        yield Difference("", table, TOO_MUCH)


class _Notes:
    """A table's rows, note by note in the order of their paths."""

    def __init__(self, db: apsw.Connection, statement: str) -> None:
        self.count = 0
        self.path: str | None = None
        self.rows: list[tuple[Any, ...]] = []
        self._groups = groupby(db.execute(statement), key=lambda row: str(row[0]))
        self.advance()

    def advance(self) -> None:
        self.path, rows = next(self._groups, (None, ()))
        self.rows = list(rows)
        self.count += len(self.rows)


# A number for each occurrence of a term that depends on the passage's or note's number, the column
# and the place; the sum of all does not depend on the order in which they are met. Columns are
# told apart by their first letter and their length.
_OCCURRENCE = "(m.number * 1000003 + (unicode(w.col) * 16 + length(w.col)) * 8191 + w.offset * 131)"
_SUM = f"sum(({_OCCURRENCE} % 2147483647) * ({_OCCURRENCE} % 65521 + 1) % 2147483647)"


def _text_differences(
    table: str, kept: Sidecar, made: Sidecar, known: Collection[str]
) -> Iterator[Difference]:
    """What the full-text index of the one holds and that of the other does not.

    known: notes that are not looked at: their rows are different anyway.
    """
    databases = (kept.connection, made.connection)
    by_note = table == "note_text"
    try:
        for db in databases:
            _number(db, table, known)
        ours, theirs = (
            (
                (str(term), count, total, strange)
                for term, count, total, strange in db.execute(
                    f"SELECT w.term, count(*), {_SUM}, sum(m.id IS NULL) "
                    "FROM temp.compared_words w LEFT JOIN temp.compared m ON m.id = w.doc "
                    "WHERE m.number IS NULL OR m.number >= 0 GROUP BY w.term"
                )
            )
            for db in databases
        )
        wrong: set[str] = set()
        for term, strange in _unequal_terms(ours, theirs):
            if strange:
                wrong.add("")
            for path in _holders(term, databases, by_note=by_note):
                wrong.add(path)
        for path in sorted(wrong):
            yield Difference(path, table, OTHER if path else TOO_MUCH)
        for strays in databases[0].execute(
            f"SELECT count(*) FROM {table}_docsize WHERE id NOT IN "
            f"(SELECT id FROM {'note' if by_note else 'chunk'})"
        ):
            if strays[0] and "" not in wrong:
                yield Difference("", table, TOO_MUCH)
    finally:
        for db in databases:
            db.execute("DROP TABLE IF EXISTS temp.compared_words")
            db.execute("DROP TABLE IF EXISTS temp.compared")


def _number(db: apsw.Connection, table: str, known: Collection[str]) -> None:
    """Number the rows that both have alike; those that are not looked at get -1."""
    db.execute("CREATE TEMP TABLE compared (id INTEGER PRIMARY KEY, number INTEGER)")
    rows = "SELECT n.id, n.path FROM note n ORDER BY n.path"
    if table != "note_text":
        rows = (
            "SELECT c.id, n.path FROM note n CROSS JOIN chunk c ON c.note = n.id "
            "ORDER BY n.path, c.ordinal"
        )
    number = 0
    numbered: list[tuple[int, int]] = []
    found: list[tuple[int, str]] = list(db.execute(rows))
    for row_id, path in found:
        if path in known:
            numbered.append((row_id, -1))
        else:
            numbered.append((row_id, number))
            number += 1
    with db:
        db.executemany("INSERT INTO temp.compared (id, number) VALUES (?, ?)", numbered)
    db.execute(f"CREATE VIRTUAL TABLE temp.compared_words USING fts5vocab(main, {table}, instance)")


def _unequal_terms(
    ours: Iterator[tuple[str, int, int, int]], theirs: Iterator[tuple[str, int, int, int]]
) -> Iterator[tuple[str, bool]]:
    """(term, whether rows of nothing hold it) where the two do not say the same; both in order.

    Both are lists of one sort order, SQLite's: bytes of UTF-8.
    """
    a, b = next(ours, None), next(theirs, None)
    while a is not None or b is not None:
        if a is not None and b is not None and a[0] == b[0]:
            if a != b:
                yield a[0], bool(a[3])
            a, b = next(ours, None), next(theirs, None)
        elif b is None or (a is not None and _bytes(a[0]) < _bytes(b[0])):
            assert a is not None
            yield a[0], bool(a[3])
            a = next(ours, None)
        else:
            yield b[0], False
            b = next(theirs, None)


def _bytes(term: str) -> bytes:
    return term.encode("utf-8", "surrogatepass")


def _holders(
    term: str, databases: tuple[apsw.Connection, apsw.Connection], *, by_note: bool
) -> Iterator[str]:
    """Paths of the notes in which the one has the term where the other has it not."""
    found = [
        {
            (number, col, offset): row
            for number, col, offset, row in db.execute(
                "SELECT m.number, w.col, w.offset, m.id FROM temp.compared_words w "
                "JOIN temp.compared m ON m.id = w.doc WHERE w.term = ? AND m.number >= 0",
                (term,),
            )
        }
        for db in databases
    ]
    for db, here, there in zip(databases, found, reversed(found), strict=True):
        for row in {here[place] for place in here.keys() - there.keys()}:
            owner = (
                "SELECT path FROM note WHERE id = ?"
                if by_note
                else "SELECT path FROM note WHERE id = (SELECT note FROM chunk WHERE id = ?)"
            )
            path = db.execute(owner, (row,)).get
            yield str(path) if path is not None else ""
