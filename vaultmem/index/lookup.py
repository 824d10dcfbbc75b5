"""Questions to the sidecar: full text under filters, vocabulary, and what rows say of a note.

User text never reaches MATCH as it is: every term is quoted, in match.py.
"""

import fnmatch
import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import apsw

from vaultmem.index.match import match_any, narrowed
from vaultmem.index.rows import NoteRows
from vaultmem.index.store import Sidecar
from vaultmem.index.text import TOKENIZER_ARGUMENTS
from vaultmem.index.update import at_or_below, is_at_or_below
from vaultmem.model.query import Filters, Word
from vaultmem.vault.items import EPISODE
from vaultmem.vault.paths import fold, vault_path

# No path is longer.
MAX_GLOB_CHARS = 4096
_NEGATED = re.compile(r"\[(\^?\]?[^\]]*+)\]")


@dataclass(frozen=True, slots=True)
class Scope:
    """Which passages may answer, as queries for ids and their parameters."""

    notes: str  # selects the ids of notes that have such a passage
    passages: str  # selects the ids of the passages
    parameters: tuple[object, ...]  # of either
    whole: bool = True  # every passage of such a note may answer
    day: str = "coalesce(c.date, n.date)"  # of a passage, as what was asked for
    day_parameters: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Where a passage belongs."""

    id: int
    note: int
    ordinal: int
    lone: bool  # its window is the passage itself


def glob_expression(glob: str) -> re.Pattern[str]:
    """What SQLite's GLOB matches: `*` and `?`, slashes too, and `[a-z]`, `[^a-z]`."""
    glob = _NEGATED.sub(_negated, glob[:MAX_GLOB_CHARS])
    # Python makes every star but the last an atomic group, so that none is tried again.
    return re.compile(fnmatch.translate(glob))


def _negated(match: re.Match[str]) -> str:
    # Python's mark is another one, which is plain in SQLite.
    inside = match.group(1)
    if inside.startswith("^"):
        return f"[!{inside[1:]}]"
    return f"[{inside[1:]}!]" if len(inside) > 1 and inside[0] == "!" else match.group()


class Ranks(Protocol):
    """Asks for the best rows of a full-text table: at most so many, best first."""

    def __call__(self, limit: int, /) -> list[tuple[int, float]]:
        """(row id, FTS5's rank, smaller for better)."""
        ...


def _cut(ranked: Ranks, limit: int) -> list[tuple[int, float]]:
    """The best `limit`, or somewhat fewer: a cut through equals would keep the older rows, and a
    rebuilt index has others. Where more than half of them are equals, all of these are kept."""
    asked = limit + 1
    while True:
        rows = ranked(asked)
        if len(rows) < asked:
            break
        last = rows[-1][1]
        better = [row for row in rows if row[1] < last]
        if len(better) >= limit // 2:
            rows = better
            break
        asked *= 8
    return [(rowid, -rank) for rowid, rank in rows]


# The day of an item that passage `c` is part of; what follows tells which.
_ITEM_DAY = "SELECT i.date FROM chunk_item i WHERE i.chunk = c.id AND"


def _by_kind_and_day(filters: Filters, notes: str, parameters: tuple[object, ...]) -> Scope:
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

    plain = f"SELECT n.id FROM note n WHERE {among}{of_kind}{in_time('n.date')}"
    # For the kind of its note, a passage has the day of an entry, and of no other item.
    entry = f"coalesce(({_ITEM_DAY} i.kind = '{EPISODE}' ORDER BY i.ordinal LIMIT 1), n.date)"
    own = entry if kinds else "coalesce(c.date, n.date)"
    items = [
        f"FROM chunk c JOIN note n ON n.id = c.note WHERE c.items > 0 AND {among}{of_kind}"
        + in_time(own)
    ]
    day = own
    if kinds:
        asked = f"i.kind IN ({marks}) ORDER BY i.ordinal LIMIT 1"
        day = (
            "CASE WHEN c.items = 0 THEN n.date "
            f"WHEN EXISTS ({_ITEM_DAY} {asked}) THEN coalesce(({_ITEM_DAY} {asked}), n.date) "
            f"ELSE {entry} END"
        )
        items.append(
            "FROM chunk_item i CROSS JOIN chunk c ON c.id = i.chunk JOIN note n ON n.id = c.note "
            f"WHERE i.kind IN ({marks}) AND {among}" + in_time("coalesce(i.date, n.date)")
        )
    dates = tuple(day for day, _ in given)
    every = (*parameters, *kinds, *dates)
    of_items = (*kinds, *parameters, *dates) if kinds else ()
    return Scope(
        " UNION ALL ".join([plain, *[f"SELECT c.note {rows}" for rows in items]]),
        " UNION ALL ".join(
            [
                f"SELECT id FROM chunk WHERE note IN ({plain}) "
                "AND id NOT IN (SELECT id FROM chunk WHERE items > 0)",
                *[f"SELECT c.id {rows}" for rows in items],
            ]
        ),
        (*every, *every, *of_items),
        whole=False,
        day=day,
        day_parameters=(*kinds, *kinds),
    )


class Lookup(NoteRows):
    """Questions to one state of a sidecar. Every answer is bounded and in a deterministic order."""

    def __init__(self, sidecar: Sidecar) -> None:
        super().__init__(sidecar)
        self._frequencies: dict[Word, int] = {}

    # Full text

    def passages(
        self, words: Sequence[Word], scope: Scope | None, limit: int
    ) -> list[tuple[int, float]]:
        """(chunk id, score) of the best passages with any of the words; larger is better."""
        return self._best("passage_text", words, scope, limit)

    def windows(
        self, words: Sequence[Word], scope: Scope | None, limit: int
    ) -> list[tuple[int, float]]:
        """(chunk id, score) of passages by their window; lone passages have none."""
        return self._best("window_text", words, scope, limit)

    def notes(
        self, words: Sequence[Word], scope: Scope | None, limit: int
    ) -> list[tuple[int, float]]:
        """(note id, score) of the best notes."""
        return self._best("note_text", words, scope, limit)

    def _best(
        self, table: str, words: Sequence[Word], scope: Scope | None, limit: int
    ) -> list[tuple[int, float]]:
        condition = ""
        parameters: tuple[object, ...] = ()
        if scope is not None:
            allowed = scope.notes if table == "note_text" else scope.passages
            # The unary plus keeps SQLite from asking FTS5 once for every allowed row.
            condition, parameters = f"AND +rowid IN ({allowed})", scope.parameters
        found = narrowed(words, {word: self.document_frequency(word) for word in words})
        if found:
            # To look for the words costs next to nothing; scoring is what takes long.
            one = f"SELECT rowid FROM {table} WHERE {table} MATCH ?"
            which = " UNION ALL ".join([one] * len(found))
            rows = self._ranked(
                table, words, f"AND +rowid IN ({which}) {condition}", (*found, *parameters), limit
            )
            if len(rows) >= limit // 2:
                return rows
        return self._ranked(table, words, condition, parameters, limit)

    def _ranked(
        self,
        table: str,
        words: Sequence[Word],
        condition: str,
        parameters: tuple[object, ...],
        limit: int,
    ) -> list[tuple[int, float]]:
        # The plus before rank has SQLite keep the best as it goes. FTS5 itself would sort all rows,
        # which takes as long again as scoring them.
        statement = (
            f"SELECT rowid, rank FROM {table} WHERE {table} MATCH ? {condition} "
            "ORDER BY +rank LIMIT ?"
        )
        match = match_any(words)
        return _cut(
            lambda most: list(self._db.execute(statement, (match, *parameters, most))), limit
        )

    def holding(self, table: str, match: str, ids: Collection[int]) -> set[int]:
        """Which of these rows of a full-text table satisfy `match`.

        table: passage_text or window_text, whose rows are chunks, or note_text.
        """
        if not ids:
            return set()
        return {
            rowid
            for (rowid,) in self._db.execute(
                f"SELECT rowid FROM {table} WHERE {table} MATCH ? "
                "AND +rowid IN (SELECT value FROM json_each(?))",
                (match, json.dumps(list(ids))),
            )
        }

    def named(self, name: str, scope: Scope | None) -> set[int]:
        """Ids of the notes in scope whose name, path, title or alias is `name`, in any case."""
        condition = f"WHERE id IN ({scope.notes})" if scope is not None else ""
        folded = fold(vault_path(name))
        bare = folded.removesuffix(".md")
        return {
            note
            for (note,) in self._db.execute(
                "SELECT id FROM (SELECT id FROM note WHERE folded_name = ? OR folded_title = ? "
                f"OR folded_path = ? UNION SELECT note FROM alias WHERE folded = ?) {condition}",
                (bare, folded, folded, folded, *(scope.parameters if scope else ())),
            )
        }

    def scope(
        self, filters: Filters, required: Sequence[Word], excluded: Sequence[Word]
    ) -> Scope | None:
        """The passages that satisfy every condition; None when there is no condition."""
        conditions: list[str] = []
        parameters: list[object] = []
        for tag in filters.tags:
            folded = fold(tag.removeprefix("#"))
            conditions.append(
                f"apart = 0 AND id IN (SELECT note FROM tag WHERE {is_at_or_below('folded')})"
            )
            parameters += at_or_below(folded)
        for path in filters.paths:
            # Both sides folded: `path:projects` means the folder Projects too.
            folded = fold(vault_path(path))
            condition = f"folded_path = ? OR {is_at_or_below('folded_path')}"
            parameters += [folded + ".md", *at_or_below(folded)]
            if any(mark in folded for mark in "*?["):
                condition += " OR id IN (SELECT value FROM json_each(?))"
                parameters.append(json.dumps(self._notes_like(folded)))
            conditions.append(f"({condition})")
        for word in required:
            conditions.append("id IN (SELECT rowid FROM note_text WHERE note_text MATCH ?)")
            parameters.append(match_any([word]))
        if excluded:
            conditions.append("id NOT IN (SELECT rowid FROM note_text WHERE note_text MATCH ?)")
            parameters.append(match_any(excluded))
        notes = f"SELECT id FROM note WHERE {' AND '.join(conditions)}" if conditions else ""
        if not (filters.kinds or filters.after or filters.before):
            passages = f"SELECT id FROM chunk WHERE note IN ({notes})"
            return Scope(notes, passages, tuple(parameters)) if notes else None
        return _by_kind_and_day(filters, notes, tuple(parameters))

    def _notes_like(self, glob: str) -> list[int]:
        """Ids of the notes whose folded path fits.

        SQLite's GLOB refuses long patterns, and tries each star again for each one before it.
        """
        matches = glob_expression(glob).match
        rows = self._db.execute("SELECT id, folded_path FROM note")
        return [note for note, path in rows if matches(path)]

    def newest_in(self, scope: Scope, *, passages: bool) -> list[tuple[int, int]]:
        """(chunk id, note id) of what filters alone select: newest first, then by path.

        passages: every passage, not only the first of each note.
        """
        found: dict[int, tuple[int, int]] = {}
        for chunk, note in self._db.execute(
            "SELECT c.id, c.note FROM chunk c JOIN note n ON n.id = c.note "
            f"WHERE c.id IN ({scope.passages}) "
            + ("" if passages or not scope.whole else "AND c.ordinal = 0 ")
            + f"ORDER BY {scope.day} DESC, n.path, c.ordinal",
            (*scope.parameters, *scope.day_parameters),
        ):
            found.setdefault(chunk if passages else note, (chunk, note))
        return list(found.values())

    def notes_holding(self, word: Word, notes: Iterable[int]) -> set[int]:
        """Those of `notes` that hold the word anywhere, title and properties included."""
        match = match_any([word])
        return {
            note
            for note in notes
            if self._db.execute(
                "SELECT 1 FROM note_text WHERE note_text MATCH ? AND rowid = ?", (match, note)
            ).get
        }

    def document_frequency(self, word: Word) -> int:
        """How many notes hold the word."""
        if word not in self._frequencies:
            self._frequencies[word] = self._count(
                "SELECT count(*) FROM note_text WHERE note_text MATCH ?", match_any([word])
            )
        return self._frequencies[word]

    def scan_messages(self, code: str) -> list[str]:
        """What the last look had to say of one kind."""
        return [
            message
            for (message,) in self._db.execute(
                "SELECT message FROM scan_problem WHERE code = ? ORDER BY ordinal", (code,)
            )
        ]

    # Vocabulary

    @cached_property
    def _tokenizer(self) -> apsw.FTS5Tokenizer:
        return self._db.fts5_tokenizer("porter", TOKENIZER_ARGUMENTS)

    def terms(self, text: str) -> list[str]:
        """The index terms (folded, stemmed) of a prepared text."""
        found = self._tokenizer(
            text.encode("utf-8", "replace"),
            apsw.FTS5_TOKENIZE_DOCUMENT,
            None,
            include_offsets=False,
            include_colocated=False,
        )
        return [term for term in found if isinstance(term, str)]

    def is_term(self, term: str) -> bool:
        """Whether the index holds this term."""
        return self._db.execute("SELECT 1 FROM vocabulary WHERE term = ?", (term,)).get is not None

    def terms_between(
        self, low: str, high: str, *, shortest: int, longest: int
    ) -> list[tuple[str, int]]:
        """(term, notes that hold it) of the vocabulary from `low` to before `high`."""
        return [
            (term, count)
            for term, count in self._db.execute(
                "SELECT term, doc FROM vocabulary WHERE term >= ? AND term < ? "
                "AND length(term) BETWEEN ? AND ?",
                (low, high, shortest, longest),
            )
        ]

    # Rows

    def places(self, chunk_ids: Iterable[int]) -> dict[int, ChunkPlace]:
        """Where each passage belongs."""
        return {
            chunk_id: ChunkPlace(chunk_id, note, ordinal, bool(lone))
            for chunk_id, note, ordinal, lone in self._db.execute(
                "SELECT c.id, c.note, c.ordinal, c.lone FROM json_each(?) AS wanted "
                "CROSS JOIN chunk c INDEXED BY chunk_place ON c.id = wanted.value",
                (json.dumps(list(chunk_ids)),),
            )
        }

    def first_passages(
        self, notes: Iterable[int], scope: Scope | None = None
    ) -> dict[int, ChunkPlace]:
        """The first passage of each note that may answer, by note id."""
        place = "AND c.ordinal = 0"
        parameters: tuple[object, ...] = ()
        if scope is not None and not scope.whole:
            # The unary plus keeps SQLite from going through the scope once for every note.
            place, parameters = f"AND +c.id IN ({scope.passages})", scope.parameters
        found: dict[int, ChunkPlace] = {}
        for chunk_id, note, ordinal, lone in self._db.execute(
            "SELECT c.id, c.note, c.ordinal, c.lone "
            f"FROM json_each(?) AS wanted CROSS JOIN chunk c ON c.note = wanted.value {place} "
            "ORDER BY c.note, c.ordinal",
            (json.dumps(list(notes)), *parameters),
        ):
            found.setdefault(note, ChunkPlace(chunk_id, note, ordinal, bool(lone)))
        return found

    def note_places(self, notes: Iterable[int]) -> dict[int, tuple[str, int]]:
        """(path, number of passages) of each note, by note id."""
        return {
            note: (path, passages)
            for note, path, passages in self._db.execute(
                "SELECT n.id, n.path, n.passages FROM json_each(?) AS wanted "
                "CROSS JOIN note n INDEXED BY note_place ON n.id = wanted.value",
                (json.dumps(list(notes)),),
            )
        }

    def slots_of(self, chunk_ids: Iterable[int]) -> dict[int, int]:
        """chunk id -> slot of its vector, for those that have one, and words of their own."""
        return dict(
            self._db.execute(
                "SELECT c.id, c.slot FROM json_each(?) AS wanted "
                "CROSS JOIN chunk c INDEXED BY chunk_place ON c.id = wanted.value "
                "WHERE c.slot IS NOT NULL AND c.speaks",
                (json.dumps(list(chunk_ids)),),
            )
        )

    def slots_in(self, scope: Scope) -> list[int]:
        """Slots of the passages in scope that have words of their own."""
        return [
            slot
            for (slot,) in self._db.execute(
                "SELECT DISTINCT slot FROM chunk INDEXED BY chunk_place "
                "WHERE slot IS NOT NULL AND speaks "
                f"AND id IN ({scope.passages})",
                scope.parameters,
            )
        ]

    def chunks_at(self, slots: Iterable[int], scope: Scope | None) -> list[tuple[int, int]]:
        """(chunk id, slot) of the passages in scope with one of these vectors, and with words."""
        condition = f"AND c.id IN ({scope.passages})" if scope is not None else ""
        return list(
            self._db.execute(
                "SELECT c.id, c.slot FROM json_each(?) AS wanted CROSS JOIN chunk c "
                f"ON c.slot = wanted.value WHERE c.speaks {condition}",
                (json.dumps(list(slots)), *(scope.parameters if scope is not None else ())),
            )
        )
