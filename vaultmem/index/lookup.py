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
from vaultmem.index.scope import Scope, scope_of
from vaultmem.index.store import Sidecar
from vaultmem.index.text import TOKENIZER_ARGUMENTS
from vaultmem.index.update import at_or_below, is_at_or_below
from vaultmem.model.query import Filters, Word
from vaultmem.vault.paths import fold, vault_path

# No path is longer.
MAX_GLOB_CHARS = 4096
_NEGATED = re.compile(r"\[(\^?\]?[^\]]*+)\]")


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
        if scope is not None:
            # The unary plus keeps SQLite from asking FTS5 once for every allowed row.
            admits = scope.admits_note if table == "note_text" else scope.admits_passage
            condition = f"AND {admits(f'+{table}.rowid')}"
        found = narrowed(words, {word: self.document_frequency(word) for word in words})
        if found:
            # To look for the words costs next to nothing; scoring is what takes long.
            one = f"SELECT rowid FROM {table} WHERE {table} MATCH ?"
            which = " UNION ALL ".join([one] * len(found))
            rows = self._ranked(table, words, f"AND +rowid IN ({which}) {condition}", found, limit)
            if len(rows) >= limit // 2:
                return rows
        return self._ranked(table, words, condition, (), limit)

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
        # (The plus keeps SQLite from going through the scope.)
        condition = f"WHERE {scope.admits_note('+id')}" if scope is not None else ""
        folded = fold(vault_path(name))
        bare = folded.removesuffix(".md")
        return {
            note
            for (note,) in self._db.execute(
                "SELECT id FROM (SELECT id FROM note WHERE folded_name = ? OR folded_title = ? "
                f"OR folded_path = ? UNION SELECT note FROM alias WHERE folded = ?) {condition}",
                (bare, folded, folded, folded),
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
        return scope_of(self._db, filters, conditions, parameters)

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
            "SELECT c.id, c.note FROM note n CROSS JOIN chunk c ON c.note = n.id "
            f"WHERE {scope.admits_note('n.id')} AND {scope.admits_passage('c.id', 'c.note')} "
            + ("" if passages or not scope.whole else "AND c.ordinal = 0 ")
            + f"ORDER BY {scope.day} DESC, n.path, c.ordinal",
            scope.day_parameters,
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
        if scope is not None and not scope.whole:
            place = f"AND {scope.admits_passage('c.id', 'c.note')}"
        found: dict[int, ChunkPlace] = {}
        for chunk_id, note, ordinal, lone in self._db.execute(
            "SELECT c.id, c.note, c.ordinal, c.lone "
            f"FROM json_each(?) AS wanted CROSS JOIN chunk c ON c.note = wanted.value {place} "
            "ORDER BY c.note, c.ordinal",
            (json.dumps(list(notes)),),
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

    def slots_in(self, scope: Scope) -> str:
        """Slots of the passages in scope that have words of their own, with commas between them.

        One text: so many rows would take five times as long. Passages may share a slot.
        """
        listed = self._db.execute(
            "SELECT group_concat(c.slot) FROM temp.scoped_note s "
            "CROSS JOIN chunk c INDEXED BY chunk_of_note ON c.note = s.id "
            f"WHERE c.slot IS NOT NULL AND c.speaks AND {scope.admits_passage('c.id', 'c.note')}"
        ).get
        return str(listed or "")

    def chunks_at(self, slots: Iterable[int], scope: Scope | None) -> list[tuple[int, int]]:
        """(chunk id, slot) of the passages in scope with one of these vectors, and with words."""
        condition = f"AND {scope.admits_passage('c.id')}" if scope is not None else ""
        return list(
            self._db.execute(
                "SELECT c.id, c.slot FROM json_each(?) AS wanted CROSS JOIN chunk c "
                f"ON c.slot = wanted.value WHERE c.speaks {condition}",
                (json.dumps(list(slots)),),
            )
        )
