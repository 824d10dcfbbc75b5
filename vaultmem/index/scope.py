"""Which passages may answer a question with filters.

What a filter selects is looked up once and put into temporary tables, which live in memory and
belong to the connection: a search asks for it half a dozen times. A passage is held against them
by its note, so that no list of all passages has to be made.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import apsw

from vaultmem.model.query import Filters
from vaultmem.vault.items import EPISODE

# scoped_note:  notes with a passage that may answer
# scoped_plain: of a filter by kind or day, notes whose passages may answer that are no items
# scoped_item:  of such a filter, passages that are items and may answer
# any_item:     of such a filter, all passages that are items
_TABLES = ("scoped_note", "scoped_plain", "scoped_item", "any_item")

# The day of an item that passage `c` is part of; what follows tells which.
_ITEM_DAY = "SELECT i.date FROM chunk_item i WHERE i.chunk = c.id AND"


@dataclass(frozen=True, slots=True)
class Scope:
    """Which passages may answer: the last that `scope_of` was asked for on this connection."""

    whole: bool = True  # every passage of a note with one may answer
    day: str = "coalesce(c.date, n.date)"  # of a passage, as what was asked for
    day_parameters: tuple[object, ...] = ()

    def admits_note(self, note: str) -> str:
        """The condition that a note has such a passage. note: SQL for its id."""
        return f"{note} IN (SELECT id FROM temp.scoped_note)"

    def admits_passage(self, passage: str, note: str = "") -> str:
        """The condition that a passage may answer.

        passage: SQL for its id. note: SQL for the id of its note, where the row is at hand.
        """
        note = note or f"(SELECT p.note FROM chunk p INDEXED BY chunk_place WHERE p.id = {passage})"
        if self.whole:
            return f"{note} IN (SELECT id FROM temp.scoped_note)"
        return (
            f"({note} IN (SELECT id FROM temp.scoped_plain) "
            f"AND {passage} NOT IN (SELECT id FROM temp.any_item) "
            f"OR {passage} IN (SELECT id FROM temp.scoped_item))"
        )


def scope_of(
    db: apsw.Connection,
    filters: Filters,
    conditions: Sequence[str],
    parameters: Sequence[object],
) -> Scope | None:
    """Look up what satisfies every condition; None where there is none.

    conditions: on rows of `note`, with their parameters; those on kinds and days are in `filters`.
    """
    by_item = bool(filters.kinds or filters.after or filters.before)
    if not conditions and not by_item:
        return None
    for table in _TABLES:
        db.execute(f"CREATE TEMP TABLE IF NOT EXISTS {table} (id INTEGER PRIMARY KEY)")
        db.execute(f"DELETE FROM temp.{table}")
    notes = f"SELECT id FROM note WHERE {' AND '.join(conditions)}" if conditions else ""
    if not by_item:
        _fill(db, "scoped_note", notes, parameters)
        return Scope()
    return _by_kind_and_day(db, filters, notes, tuple(parameters))


def _fill(
    db: apsw.Connection, table: str, selected: str, parameters: Sequence[object] = ()
) -> None:
    db.execute(f"INSERT OR IGNORE INTO temp.{table} (id) {selected}", tuple(parameters))


def _by_kind_and_day(
    db: apsw.Connection, filters: Filters, notes: str, parameters: tuple[object, ...]
) -> Scope:
    """The scope of a filter that passages answer for themselves where they are items.

    A passage of an item has a kind besides the note's, and a day of its own; one within two items
    answers for either. Few passages are items, and an index of their own holds them; the others
    need no look at their rows.
    notes: selects the notes that satisfy every other condition; "" for all.
    """
    kinds = tuple(kind.lower() for kind in filters.kinds)
    days = [(filters.after, ">="), (filters.before, "<=")]
    given = [(day.isoformat(), order) for day, order in days if day is not None]
    among = f"n.id IN ({notes})" if notes else "1"
    marks = ", ".join("?" * len(kinds))
    of_kind = f" AND n.kind IN ({marks})" if kinds else ""

    def in_time(day: str) -> str:
        return "".join(f" AND {day} {order} ?" for _, order in given)

    dates = tuple(day for day, _ in given)
    every = (*parameters, *kinds, *dates)
    plain = f"SELECT n.id FROM note n WHERE {among}{of_kind}{in_time('n.date')}"
    _fill(db, "scoped_plain", plain, every)
    # For the kind of its note, a passage has the day of an entry, and of no other item.
    entry = f"coalesce(({_ITEM_DAY} i.kind = '{EPISODE}' ORDER BY i.ordinal LIMIT 1), n.date)"
    own = entry if kinds else "coalesce(c.date, n.date)"
    _fill(
        db,
        "scoped_item",
        "SELECT c.id FROM chunk c JOIN note n ON n.id = c.note "
        f"WHERE c.items > 0 AND {among}{of_kind}{in_time(own)}",
        every,
    )
    day = own
    if kinds:
        asked = f"i.kind IN ({marks}) ORDER BY i.ordinal LIMIT 1"
        day = (
            "CASE WHEN c.items = 0 THEN n.date "
            f"WHEN EXISTS ({_ITEM_DAY} {asked}) THEN coalesce(({_ITEM_DAY} {asked}), n.date) "
            f"ELSE {entry} END"
        )
        _fill(
            db,
            "scoped_item",
            "SELECT c.id FROM chunk_item i CROSS JOIN chunk c ON c.id = i.chunk "
            f"JOIN note n ON n.id = c.note WHERE i.kind IN ({marks}) AND {among}"
            + in_time("coalesce(i.date, n.date)"),
            (*kinds, *parameters, *dates),
        )
    _fill(db, "any_item", "SELECT id FROM chunk WHERE items > 0")
    _fill(db, "scoped_note", "SELECT id FROM temp.scoped_plain")
    _fill(
        db,
        "scoped_note",
        "SELECT note FROM chunk WHERE id IN (SELECT id FROM temp.scoped_item)",
    )
    return Scope(whole=False, day=day, day_parameters=(*kinds, *kinds))
