"""What the sidecar's rows say of notes: their links, tags, fields, items and problems."""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from vaultmem.index.store import Sidecar
from vaultmem.index.update import AT_OR_BELOW, at_or_below
from vaultmem.model.note import Field, FoundSecret, Item, Problem, Screening
from vaultmem.vault.paths import fold, vault_path


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
    apart: bool  # a template, whose tags and links do not count
    screening: Screening  # how much of the file's text was kept out


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """A passage's row, as far as a hit shows it."""

    id: int
    note: int
    ordinal: int
    key: str
    trail: tuple[str, ...]
    first_line: int
    last_line: int
    start: int
    end: int
    text: str
    items: tuple[tuple[str, str | None], ...]  # (kind, day) of those it is part of, innermost first


@dataclass(frozen=True, slots=True)
class UnresolvedLink:
    """A link that leads nowhere, as it is written."""

    path: str  # of the note it stands in
    line: int
    target: str
    subpath: str
    display: str | None
    embed: bool
    exact: bool  # a path that a canvas gives


class NoteRows:
    """Reads the rows of one sidecar. Every answer is in a deterministic order."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._db = sidecar.connection

    def note_paths(self, notes: Iterable[int]) -> dict[int, str]:
        """Path of each note, by note id."""
        return dict(
            self._db.execute(
                "SELECT n.id, n.path FROM json_each(?) AS wanted "
                "CROSS JOIN note n INDEXED BY note_place ON n.id = wanted.value",
                (json.dumps(list(notes)),),
            )
        )

    def chunks(self, chunk_ids: Iterable[int]) -> dict[int, FoundChunk]:
        """Rows of passages, by id."""
        wanted = json.dumps(list(chunk_ids))
        items: dict[int, list[tuple[str, str | None]]] = {}
        for chunk, kind, day in self._db.execute(
            "SELECT i.chunk, i.kind, i.date FROM json_each(?) AS wanted "
            "CROSS JOIN chunk_item i ON i.chunk = wanted.value ORDER BY i.chunk, i.ordinal",
            (wanted,),
        ):
            items.setdefault(chunk, []).append((kind, day))
        return {
            chunk: FoundChunk(
                chunk,
                note,
                ordinal,
                key,
                tuple(json.loads(trail)),
                first,
                last,
                start,
                end,
                text,
                tuple(items.get(chunk, ())),
            )
            for chunk, note, ordinal, key, trail, first, last, start, end, text in self._db.execute(
                "SELECT c.id, c.note, c.ordinal, c.key, c.trail, c.first_line, c.last_line, "
                "c.start, c.end, c.text FROM json_each(?) AS wanted "
                "JOIN chunk c ON c.id = wanted.value",
                (wanted,),
            )
        }

    def found_notes(self, notes: Iterable[int]) -> dict[int, FoundNote]:
        """Rows of notes, by id."""
        return {
            row[0]: FoundNote(
                *(row[0], row[1], row[2], row[3], row[4], row[5]),
                stub=bool(row[6]),
                sha256=row[7],
                apart=bool(row[8]),
                screening=Screening(row[9]),
            )
            for row in self._db.execute(
                "SELECT n.id, n.path, n.disk_path, n.title, n.kind, n.date, n.stub, n.sha256, "
                "n.apart, n.screening "
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

    def paths_to_suggest(self) -> list[str]:
        """Paths of the notes that a person may mean, templates left out, sorted."""
        return [
            path
            for (path,) in self._db.execute("SELECT path FROM note WHERE NOT apart ORDER BY path")
        ]

    def all_files(self, region: Collection[str] | None = None) -> list[str]:
        """Every other file's path, sorted; of a region, those at and below its vault paths."""
        if region is None:
            return [path for (path,) in self._db.execute("SELECT path FROM file ORDER BY path")]
        found: set[str] = set()
        for place in region:
            found.update(
                path
                for (path,) in self._db.execute(
                    f"SELECT path FROM file WHERE {AT_OR_BELOW}", at_or_below(place)
                )
            )
        return sorted(found)

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

    def links_to(self, path: str) -> list[tuple[str, int, str | None]]:
        """(path, line, source) of every link or arrow that leads to `path` from another note.

        source: of an arrow, the file it comes from; `path` is then its canvas.
        What a template links to is what the notes made from it will link to.
        """
        return [
            (note, line, source)
            for note, line, source in self._db.execute(
                "SELECT note.path, link.line, NULL FROM link JOIN note ON note.id = link.note "
                "WHERE link.resolved = ?1 AND note.path <> ?1 AND NOT note.apart "
                "UNION SELECT note.path, arrow.line, arrow.source FROM arrow "
                "JOIN note ON note.id = arrow.note "
                "WHERE arrow.folded_target = ?2 AND note.path <> ?1 AND NOT note.apart "
                "ORDER BY 1, 2, 3",
                (path, fold(path)),
            )
        ]

    def arrows_from(self, path: str) -> list[tuple[str, str, str, int, str | None]]:
        """(canvas, target, label, line, resolved) of the arrows that come from a file."""
        return [
            (canvas, target, label, line, resolved)
            for canvas, target, label, line, resolved in self._db.execute(
                "SELECT note.path, arrow.target, arrow.label, arrow.line, coalesce("
                "(SELECT t.path FROM note t WHERE t.folded_path = arrow.folded_target), "
                "(SELECT f.path FROM file f WHERE f.path = arrow.target)) "
                "FROM arrow JOIN note ON note.id = arrow.note "
                "WHERE arrow.folded_source = ? AND NOT note.apart ORDER BY 1, 4, 2",
                (fold(path),),
            )
        ]

    def fields_of(self, note: int) -> list[Field]:
        """A note's `key:: value` fields in source order."""
        return [
            Field(name, value, line, bool(alone))
            for name, value, line, alone in self._db.execute(
                "SELECT name, value, line, alone FROM field WHERE note = ? ORDER BY ordinal",
                (note,),
            )
        ]

    def items_of(self, note: int) -> list[Item]:
        """A note's items in source order."""
        return [
            Item(*row)
            for row in self._db.execute(
                "SELECT kind, date, first_line, last_line, text, origin FROM item "
                "WHERE note = ? ORDER BY ordinal",
                (note,),
            )
        ]

    def identity_twins(self) -> list[tuple[str, str]]:
        """(identity, path) of notes whose frontmatter `id` another note has too."""
        return [
            (identity, path)
            for identity, path in self._db.execute(
                "SELECT identity, path FROM note WHERE NOT apart AND identity IN ("
                "SELECT identity FROM note WHERE identity IS NOT NULL AND NOT apart "
                "GROUP BY identity HAVING count(*) > 1) ORDER BY identity, path"
            )
        ]

    def alias_owners(self, alias: str) -> list[str]:
        """Paths of the notes that carry this alias, templates left out.

        alias: as a link may give it, so that `Nick.md` is the alias Nick too.
        """
        folded = fold(" ".join(vault_path(alias).split()))
        return [
            path
            for (path,) in self._db.execute(
                "SELECT DISTINCT note.path FROM alias JOIN note ON note.id = alias.note "
                "WHERE alias.folded IN (?, ?, ?) AND NOT note.apart ORDER BY note.path",
                (fold(alias), folded, folded.removesuffix(".md")),
            )
        ]

    def unresolved_links(self) -> list[UnresolvedLink]:
        """Links that lead nowhere, by path and in source order."""
        return [
            UnresolvedLink(path, line, target, subpath, display, bool(embed), bool(exact))
            for path, line, target, subpath, display, embed, exact in self._db.execute(
                "SELECT note.path, link.line, link.target, link.subpath, link.display, "
                "link.embed, link.exact FROM link JOIN note ON note.id = link.note "
                "WHERE link.resolved IS NULL AND NOT note.apart ORDER BY note.path, link.ordinal"
            )
        ]

    def resolved_links(self) -> list[tuple[str, int, str, str]]:
        """(path, line, link text, resolved path) of links that lead somewhere."""
        return [
            (path, line, target, resolved)
            for path, line, target, resolved in self._db.execute(
                "SELECT note.path, link.line, link.target, link.resolved FROM link "
                "JOIN note ON note.id = link.note "
                "WHERE link.resolved IS NOT NULL AND NOT link.exact AND NOT note.apart "
                "ORDER BY note.path, link.ordinal"
            )
        ]

    def orphans(self) -> list[str]:
        """Notes that no other note links to and that link to none; canvases are no notes."""
        return [
            path
            for (path,) in self._db.execute(
                "SELECT path FROM note WHERE NOT apart AND path NOT LIKE '%.canvas' "
                # The links of a private note are not known.
                f"AND screening <> {int(Screening.WITHHELD)} "
                "AND NOT EXISTS (SELECT 1 FROM link "
                "WHERE link.note = note.id AND link.resolved IS NOT NULL "
                "AND link.resolved <> note.path) "
                "AND NOT EXISTS (SELECT 1 FROM link JOIN note other ON other.id = link.note "
                "WHERE link.resolved = note.path AND link.note <> note.id AND NOT other.apart) "
                "ORDER BY path"
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

    def secrets(self) -> list[FoundSecret]:
        """The credentials in the notes, by path and line, the allowed ones too."""
        rows = self._db.execute(
            "SELECT note.path, secret.line, secret.kind, shown, fingerprint, allowed FROM secret "
            "JOIN note ON note.id = secret.note ORDER BY note.path, secret.ordinal"
        )
        return [FoundSecret(row[0], row[1], row[2], row[3], row[4], bool(row[5])) for row in rows]

    def note_count(self) -> int:
        """How many notes are indexed, canvases among them."""
        return self._count("SELECT count(*) FROM note")

    def canvas_count(self) -> int:
        """How many of them are canvases."""
        return self._count("SELECT count(*) FROM note WHERE path LIKE '%.canvas'")

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
