"""Questions to the sidecar: full text under filters, vocabulary, and what rows say of a note.

User text never reaches MATCH as it is: every term is quoted here.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import apsw

from vaultmem.index.store import Sidecar
from vaultmem.index.text import TOKENIZER_ARGUMENTS
from vaultmem.model.note import Problem
from vaultmem.model.query import Filters, Word
from vaultmem.vault.paths import fold, vault_path


@dataclass(frozen=True, slots=True)
class Scope:
    """Which notes may answer, as a condition on `note.id` and its parameters."""

    condition: str
    parameters: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Where a passage belongs."""

    id: int
    note: int
    ordinal: int
    lone: bool  # its window is the passage itself
    only: bool  # the note has no other passage


@dataclass(frozen=True, slots=True)
class FoundNote:
    """A note's row, as far as a hit shows it."""

    id: int
    path: str
    disk_path: str
    title: str
    kind: str
    date: str | None
    stub: bool
    sha256: str


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """A passage's row, as far as a hit shows it."""

    id: int
    note: int
    ordinal: int
    trail: tuple[str, ...]
    first_line: int
    last_line: int
    start: int
    end: int
    text: str


def match_any(words: Iterable[Word]) -> str:
    """The FTS5 expression that any of the words satisfies."""
    return " OR ".join(quote(form) for word in words for form in word.forms)


def match_all(words: Iterable[Word]) -> str:
    """The FTS5 expression that only a row with every one of the words satisfies."""
    return " AND ".join(f"({match_any([word])})" for word in words)


def quote(form: str) -> str:
    """A run of tokens to be found in sequence. A trailing `*` asks for a prefix."""
    if form.endswith("*"):
        return '"' + form[:-1].replace('"', '""') + '" *'
    return '"' + form.replace('"', '""') + '"'


def _cut(ranked: Iterable[tuple[int, float]], limit: int) -> list[tuple[int, float]]:
    """The best `limit`, and those that score as the last of them: a cut through equals would
    keep the older rows, and a rebuilt index has others."""
    kept: list[tuple[int, float]] = []
    for rowid, rank in ranked:
        if len(kept) >= limit and -rank < kept[-1][1]:
            break
        kept.append((rowid, -rank))
    return kept


class Lookup:
    """Reads one sidecar. Every answer is bounded and in a deterministic order."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._db = sidecar.connection

    # Full text

    def passages(self, match: str, scope: Scope | None, limit: int) -> list[tuple[int, float]]:
        """(chunk id, score) of the best passages; a larger score is better."""
        return self._chunks_matching("passage_text", match, scope, limit)

    def windows(self, match: str, scope: Scope | None, limit: int) -> list[tuple[int, float]]:
        """(chunk id, score) of passages by their window; lone passages have none."""
        return self._chunks_matching("window_text", match, scope, limit)

    def notes(self, match: str, scope: Scope | None, limit: int) -> list[tuple[int, float]]:
        """(note id, score) of the best notes."""
        condition = ""
        parameters: tuple[object, ...] = ()
        if scope is not None:
            condition, parameters = f"AND +rowid IN ({scope.condition})", scope.parameters
        return _cut(
            self._db.execute(
                f"SELECT rowid, rank FROM note_text WHERE note_text MATCH ? {condition} "
                "ORDER BY rank",
                (match, *parameters),
            ),
            limit,
        )

    def _chunks_matching(
        self, table: str, match: str, scope: Scope | None, limit: int
    ) -> list[tuple[int, float]]:
        condition = ""
        parameters: tuple[object, ...] = ()
        if scope is not None:
            # The unary plus keeps SQLite from asking FTS5 once for every allowed row.
            condition = f"AND +rowid IN (SELECT id FROM chunk WHERE note IN ({scope.condition}))"
            parameters = scope.parameters
        return _cut(
            self._db.execute(
                f"SELECT rowid, rank FROM {table} WHERE {table} MATCH ? {condition} ORDER BY rank",
                (match, *parameters),
            ),
            limit,
        )

    def chunks_holding(self, match: str, scope: Scope | None) -> tuple[set[int], set[int]]:
        """Chunk ids whose passage satisfies `match`, and those whose window does; no scores."""
        condition = ""
        parameters: tuple[object, ...] = ()
        if scope is not None:
            condition = f"AND +rowid IN (SELECT id FROM chunk WHERE note IN ({scope.condition}))"
            parameters = scope.parameters
        passages, windows = (
            {
                rowid
                for (rowid,) in self._db.execute(
                    f"SELECT rowid FROM {table} WHERE {table} MATCH ? {condition}",
                    (match, *parameters),
                )
            }
            for table in ("passage_text", "window_text")
        )
        return passages, windows

    def notes_matching(self, match: str) -> set[int]:
        """Ids of the notes that satisfy `match`; no scores."""
        return {
            rowid
            for (rowid,) in self._db.execute(
                "SELECT rowid FROM note_text WHERE note_text MATCH ?", (match,)
            )
        }

    def named(self, name: str, scope: Scope | None) -> set[int]:
        """Ids of the notes in scope whose name, path, title or alias is `name`, in any case."""
        condition = f"WHERE id IN ({scope.condition})" if scope is not None else ""
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
        """The notes that satisfy every condition; None when there is no condition."""
        conditions: list[str] = []
        parameters: list[object] = []
        for tag in filters.tags:
            folded = fold(tag.removeprefix("#"))
            conditions.append(
                "id IN (SELECT note FROM tag WHERE folded = ? OR substr(folded, 1, ?) = ?)"
            )
            parameters += [folded, len(folded) + 1, folded + "/"]
        for path in filters.paths:
            # Both sides folded: `path:projects` means the folder Projects too.
            folded = fold(vault_path(path))
            conditions.append(
                "(folded_path GLOB ? OR folded_path IN (?, ?) OR substr(folded_path, 1, ?) = ?)"
            )
            parameters += [folded, folded, folded + ".md", len(folded) + 1, folded + "/"]
        if filters.kinds:
            marks = ", ".join("?" * len(filters.kinds))
            conditions.append(f"kind IN ({marks})")
            parameters += [kind.lower() for kind in filters.kinds]
        if filters.after is not None:
            conditions.append("date >= ?")
            parameters.append(filters.after.isoformat())
        if filters.before is not None:
            conditions.append("date <= ?")
            parameters.append(filters.before.isoformat())
        for word in required:
            conditions.append("id IN (SELECT rowid FROM note_text WHERE note_text MATCH ?)")
            parameters.append(match_any([word]))
        if excluded:
            conditions.append("id NOT IN (SELECT rowid FROM note_text WHERE note_text MATCH ?)")
            parameters.append(match_any(excluded))
        if not conditions:
            return None
        return Scope(
            f"SELECT id FROM note WHERE {' AND '.join(conditions)}",
            tuple(parameters),
        )

    def newest_in(self, scope: Scope, limit: int) -> list[int]:
        """Ids of the notes in scope, newest date first, then by path."""
        return [
            note
            for (note,) in self._db.execute(
                f"SELECT id FROM note WHERE id IN ({scope.condition}) "
                "ORDER BY date DESC, path LIMIT ?",
                (*scope.parameters, limit),
            )
        ]

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
        return self._count(
            "SELECT count(*) FROM note_text WHERE note_text MATCH ?", match_any([word])
        )

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
            chunk_id: ChunkPlace(chunk_id, note, ordinal, bool(lone), bool(only))
            for chunk_id, note, ordinal, lone, only in self._db.execute(
                "SELECT c.id, c.note, c.ordinal, c.lone, NOT EXISTS ("
                "SELECT 1 FROM chunk o WHERE o.note = c.note AND o.ordinal = 1) "
                "FROM json_each(?) AS wanted JOIN chunk c ON c.id = wanted.value",
                (json.dumps(list(chunk_ids)),),
            )
        }

    def first_passages(self, notes: Iterable[int]) -> dict[int, ChunkPlace]:
        """The opening passage of each note, by note id."""
        return {
            note: ChunkPlace(chunk_id, note, 0, bool(lone), bool(only))
            for chunk_id, note, lone, only in self._db.execute(
                "SELECT c.id, c.note, c.lone, NOT EXISTS ("
                "SELECT 1 FROM chunk o WHERE o.note = c.note AND o.ordinal = 1) "
                "FROM json_each(?) AS wanted JOIN chunk c ON c.note = wanted.value "
                "AND c.ordinal = 0",
                (json.dumps(list(notes)),),
            )
        }

    def slots_of(self, chunk_ids: Iterable[int]) -> dict[int, int]:
        """chunk id -> slot of its vector, for those that have one, and words of their own."""
        return dict(
            self._db.execute(
                "SELECT c.id, c.slot FROM json_each(?) AS wanted CROSS JOIN chunk c "
                "ON c.id = wanted.value WHERE c.slot IS NOT NULL AND c.speaks",
                (json.dumps(list(chunk_ids)),),
            )
        )

    def slots_in(self, scope: Scope) -> list[int]:
        """Slots of the passages in scope that have words of their own."""
        return [
            slot
            for (slot,) in self._db.execute(
                "SELECT DISTINCT slot FROM chunk WHERE slot IS NOT NULL AND speaks "
                f"AND note IN ({scope.condition})",
                scope.parameters,
            )
        ]

    def chunks_at(self, slots: Iterable[int], scope: Scope | None) -> list[tuple[int, int]]:
        """(chunk id, slot) of the passages in scope with one of these vectors, and with words."""
        condition = f"AND c.note IN ({scope.condition})" if scope is not None else ""
        return list(
            self._db.execute(
                "SELECT c.id, c.slot FROM json_each(?) AS wanted CROSS JOIN chunk c "
                f"ON c.slot = wanted.value WHERE c.speaks {condition}",
                (json.dumps(list(slots)), *(scope.parameters if scope is not None else ())),
            )
        )

    def note_paths(self, notes: Iterable[int]) -> dict[int, str]:
        """Path of each note, by note id."""
        return dict(
            self._db.execute(
                "SELECT n.id, n.path FROM json_each(?) AS wanted "
                "JOIN note n ON n.id = wanted.value",
                (json.dumps(list(notes)),),
            )
        )

    def chunks(self, chunk_ids: Iterable[int]) -> dict[int, FoundChunk]:
        """Rows of passages, by id."""
        return {
            row[0]: FoundChunk(row[0], row[1], row[2], tuple(json.loads(row[3])), *row[4:])
            for row in self._db.execute(
                "SELECT c.id, c.note, c.ordinal, c.trail, c.first_line, c.last_line, c.start, "
                "c.end, c.text FROM json_each(?) AS wanted JOIN chunk c ON c.id = wanted.value",
                (json.dumps(list(chunk_ids)),),
            )
        }

    def found_notes(self, notes: Iterable[int]) -> dict[int, FoundNote]:
        """Rows of notes, by id."""
        return {
            row[0]: FoundNote(row[0], row[1], row[2], row[3], row[4], row[5], bool(row[6]), row[7])
            for row in self._db.execute(
                "SELECT n.id, n.path, n.disk_path, n.title, n.kind, n.date, n.stub, n.sha256 "
                "FROM json_each(?) AS wanted JOIN note n ON n.id = wanted.value",
                (json.dumps(list(notes)),),
            )
        }

    def note_at(self, path: str) -> FoundNote | None:
        """The note at a vault path."""
        note_id = self._db.execute("SELECT id FROM note WHERE path = ?", (path,)).get
        return self.found_notes([note_id])[note_id] if isinstance(note_id, int) else None

    def all_paths(self) -> list[str]:
        """Every note's path, sorted."""
        return [path for (path,) in self._db.execute("SELECT path FROM note ORDER BY path")]

    def all_files(self) -> list[str]:
        """Every other file's path, sorted."""
        return [path for (path,) in self._db.execute("SELECT path FROM file ORDER BY path")]

    def properties(self, note: int) -> dict[str, object]:
        """A note's frontmatter."""
        text = self._db.execute("SELECT properties FROM note WHERE id = ?", (note,)).get
        loaded = json.loads(str(text))
        return loaded if isinstance(loaded, dict) else {}

    def links_from(
        self, note: int
    ) -> list[tuple[str, str, str | None, bool, int, str | None, str | None]]:
        """(target, subpath, display, embed, line, property, resolved) in source order."""
        return [
            (target, subpath, display, bool(embed), line, prop, resolved)
            for target, subpath, display, embed, line, prop, resolved in self._db.execute(
                "SELECT target, subpath, display, embed, line, property, resolved FROM link "
                "WHERE note = ? ORDER BY ordinal",
                (note,),
            )
        ]

    def links_to(self, path: str) -> list[tuple[str, int]]:
        """(path, line) of every link that leads to `path`, those of the note itself left out."""
        return [
            (source, line)
            for source, line in self._db.execute(
                "SELECT DISTINCT note.path, link.line FROM link JOIN note ON note.id = link.note "
                "WHERE link.resolved = ? AND note.path <> ? ORDER BY note.path, link.line",
                (path, path),
            )
        ]

    def alias_owners(self, alias: str) -> list[str]:
        """Paths of the notes that carry this alias."""
        return [
            path
            for (path,) in self._db.execute(
                "SELECT DISTINCT note.path FROM alias JOIN note ON note.id = alias.note "
                "WHERE alias.folded = ? ORDER BY note.path",
                (fold(alias),),
            )
        ]

    def unresolved_links(self) -> list[tuple[str, int, str]]:
        """(path, line, link text) of links that lead nowhere."""
        return [
            (path, line, target)
            for path, line, target in self._db.execute(
                "SELECT note.path, link.line, link.target FROM link "
                "JOIN note ON note.id = link.note WHERE link.resolved IS NULL "
                "ORDER BY note.path, link.ordinal"
            )
        ]

    def resolved_links(self) -> list[tuple[str, int, str, str]]:
        """(path, line, link text, resolved path) of links that lead somewhere."""
        return [
            (path, line, target, resolved)
            for path, line, target, resolved in self._db.execute(
                "SELECT note.path, link.line, link.target, link.resolved FROM link "
                "JOIN note ON note.id = link.note WHERE link.resolved IS NOT NULL "
                "ORDER BY note.path, link.ordinal"
            )
        ]

    def orphans(self) -> list[str]:
        """Notes that no other note links to and that link to none."""
        return [
            path
            for (path,) in self._db.execute(
                "SELECT path FROM note WHERE NOT EXISTS (SELECT 1 FROM link "
                "WHERE link.note = note.id AND link.resolved IS NOT NULL "
                "AND link.resolved <> note.path) "
                "AND NOT EXISTS (SELECT 1 FROM link WHERE link.resolved = note.path "
                "AND link.note <> note.id) ORDER BY path"
            )
        ]

    def problems(self, path: str | None = None) -> list[Problem]:
        """Problems of every note and of the last scan, or of one path."""
        rows = self._db.execute(
            "SELECT note.path, problem.line, problem.code, problem.message FROM problem "
            "JOIN note ON note.id = problem.note "
            "UNION ALL SELECT path, line, code, message FROM scan_problem ORDER BY 1, 2, 3"
        )
        return [Problem(*row) for row in rows if path is None or row[0] == path]

    def note_count(self) -> int:
        """How many notes are indexed."""
        return self._count("SELECT count(*) FROM note")

    def chunk_count(self, note: int | None = None) -> int:
        """How many passages there are, in all or in one note."""
        if note is None:
            return self._count("SELECT count(*) FROM chunk")
        return self._count("SELECT count(*) FROM chunk WHERE note = ?", note)

    def vector_count(self, note: int | None = None) -> int:
        """How many passages have a vector, in all or in one note."""
        if note is None:
            return self._count("SELECT count(slot) FROM chunk")
        return self._count("SELECT count(slot) FROM chunk WHERE note = ?", note)

    def tags_of(self, note: int) -> list[str]:
        """A note's tags in source order."""
        return [
            tag
            for (tag,) in self._db.execute(
                "SELECT tag FROM tag WHERE note = ? ORDER BY ordinal", (note,)
            )
        ]

    def aliases_of(self, note: int) -> list[str]:
        """A note's aliases in source order."""
        return [
            alias
            for (alias,) in self._db.execute(
                "SELECT alias FROM alias WHERE note = ? ORDER BY ordinal", (note,)
            )
        ]

    def _count(self, statement: str, *parameters: object) -> int:
        value = self._db.execute(statement, parameters).get
        return value if isinstance(value, int) else 0
