"""embeddings.db: a vector for each text and vector space, kept apart from the index.

Its key is the hash of the text that was embedded, so a rename, a move, a rebuild or a copy from
another machine costs no embedding. It may be deleted: that costs time.

Rows of a space are numbered from 0 without gaps (`slot`), in the order they came, so that a file
of vectors can be appended to and mapped into memory (matrix.py). Removing unused rows renumbers
them and starts a new generation. sqlite-vec's table is a copy of the rows for those who query by
SQL and for selective filters; where the extension cannot be loaded it falls behind and catches up
later.
"""

import json
import stat
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from vaultmem.embedding.embedder import Space
from vaultmem.embedding.journal_mode import (
    Mode,
    Wish,
    begin_journal,
    has_no_room_to_share,
    is_whole,
    journal_mode,
    lacks_shared_memory,
    leave_log,
    opens_log,
    read_only_uri,
    synchronise,
)
from vaultmem.model.errors import SidecarDamaged

if TYPE_CHECKING:
    from vaultmem.embedding.quantise import Codes

CACHE_NAME = "embeddings.db"
CACHE_VERSION = 1
_SUFFIXES = ("", "-wal", "-shm", "-journal")
BUSY_TIMEOUT_MS = 10_000
# So long a provider that did not answer is left alone.
OUTAGE_NS = 60 * 10**9
# sqlite-vec refuses to look for more.
MOST_NEIGHBOURS = 4096

_PRAGMAS = """
PRAGMA secure_delete = ON;
PRAGMA temp_store = MEMORY;
PRAGMA journal_size_limit = 67108864;
PRAGMA trusted_schema = OFF;
"""

_TABLES = """
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE space (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    identity TEXT NOT NULL UNIQUE,
    generation INTEGER NOT NULL,
    slots INTEGER NOT NULL,
    indexed INTEGER NOT NULL
) STRICT;

CREATE TABLE vector (
    space INTEGER NOT NULL REFERENCES space (id),
    slot INTEGER NOT NULL,
    text_hash BLOB NOT NULL,
    fertility REAL,
    codes BLOB NOT NULL,
    PRIMARY KEY (space, slot)
) STRICT;
CREATE UNIQUE INDEX vector_of_text ON vector (space, text_hash);

CREATE TABLE outage (
    provider TEXT PRIMARY KEY,
    until_ns INTEGER NOT NULL,
    reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class StoredSpace:
    """A vector space as the cache knows it."""

    id: int
    space: Space
    rules: str  # how texts and vectors were made, besides the space: quantisation, chunker
    generation: int  # changes when slots are numbered anew
    slots: int  # rows, numbered from 0
    indexed: int  # of these, rows that sqlite-vec's table holds


@dataclass(frozen=True, slots=True)
class Row:
    """A vector to be kept."""

    text_hash: bytes
    codes: bytes  # int8 [dimension]
    fertility: float | None  # word pieces per word, where the model's languages are limited


# What a file leads to that is not as it was written: SQLite's own words for it, and rows that hold
# other values than they can.
_DAMAGE = (
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.SQLError,
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.TooBigError,
    TypeError,
    ValueError,
    LookupError,
)


class EmbeddingCache:
    """An open embeddings.db. One connection, used by one thread at a time.

    Its methods raise SidecarDamaged when the file turns out to be broken, and remove it: nothing
    is in it that could not be computed again, and it would be as broken the next time.
    """

    def __init__(self, path: Path, connection: apsw.Connection) -> None:
        self.path = path
        self._inode = path.lstat().st_ino
        self._broken = False
        self._db = connection
        self.vector_extension = _load_extension(connection)
        made_as = connection.execute("SELECT value FROM meta WHERE key = 'id'").get
        # Two copies of one file number their rows independently from then on; a copy is a new file.
        self.id = f"{made_as}.{self._inode:x}"

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._db.close()

    def still_there(self) -> bool:
        """Whether it is still the file in the folder: it may be deleted at any time."""
        try:
            return not self._broken and self.path.lstat().st_ino == self._inode
        except OSError:
            return False

    @contextmanager
    def _sound(self) -> Iterator[apsw.Connection]:
        """The connection, for as long as the file is what was written."""
        try:
            yield self._db
        except _DAMAGE:
            raise self.damaged() from None

    def damaged(self) -> SidecarDamaged:
        """Remove the file, whose rows are not as they were written; the error to raise."""
        self._db.close()
        # On Windows, as long as another process has it open; or where nothing can be written.
        with suppress(OSError):
            if self.still_there():
                _remove(self.path)
        # Also where it had to stay: this connection is closed, and another finds it anew.
        self._broken = True
        return SidecarDamaged(
            f"The vectors kept in {self.path} are damaged. `vaultmem index` computes them "
            "anew; no note is affected."
        )

    @contextmanager
    def _transaction(self) -> Iterator[apsw.Connection]:
        with self._sound() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                # SQLite may have rolled back by itself when the disk was full.
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def query(self, statement: str, parameters: tuple[object, ...]) -> list[tuple[object, ...]]:
        """The rows of a question in SQL, with sqlite-vec's functions where it is there."""
        with self._sound() as db:
            return list(db.execute(statement, parameters))

    # Spaces

    def spaces(self) -> tuple[StoredSpace, ...]:
        """Every space there are rows for, oldest first."""
        with self._sound() as db:
            return tuple(
                StoredSpace(space_id, *_parsed(identity), generation, slots, indexed)
                for space_id, identity, generation, slots, indexed in db.execute(
                    "SELECT id, identity, generation, slots, indexed FROM space ORDER BY id"
                )
            )

    def find(self, space: Space, rules: str) -> StoredSpace | None:
        """The space of that identity, if it is known."""
        return next((s for s in self.spaces() if s.space == space and s.rules == rules), None)

    def add(self, space: Space, rules: str) -> StoredSpace:
        """The space of that identity, made if it is new."""
        with self._transaction() as db:
            db.execute(
                "INSERT OR IGNORE INTO space (identity, generation, slots, indexed) "
                "VALUES (?, 1, 0, 0)",
                (_identity(space, rules),),
            )
        found = self.find(space, rules)
        assert found is not None
        return found

    def current(self, space_id: int) -> StoredSpace | None:
        """The space as it is now; None when it is gone."""
        return next((s for s in self.spaces() if s.id == space_id), None)

    def forget(self, space_id: int) -> None:
        """Drop a space with all its rows."""
        with self._transaction() as db:
            db.execute("DELETE FROM vector WHERE space = ?", (space_id,))
            db.execute("DELETE FROM space WHERE id = ?", (space_id,))
            db.execute("DELETE FROM meta WHERE key = ?", (_file_key(space_id),))
            self._drop_strangers(db)

    # Rows

    def known(self, space_id: int, hashes: Iterable[bytes]) -> dict[bytes, int]:
        """text hash -> slot of those texts that have a vector."""
        wanted = [digest.hex() for digest in hashes]
        # CROSS, so that SQLite looks each wanted one up; else it scans all for each of all.
        with self._sound() as db:
            return dict(
                db.execute(
                    "SELECT v.text_hash, v.slot FROM json_each(?) AS wanted "
                    "CROSS JOIN vector v ON v.space = ? AND v.text_hash = unhex(wanted.value)",
                    (json.dumps(wanted), space_id),
                )
            )

    def check(self) -> None:
        """Have SQLite look at every page. Raises SidecarDamaged, and removes what is damaged."""
        with self._sound() as db:
            verdict = db.execute("PRAGMA integrity_check(1)").get
        if verdict != "ok":
            raise self.damaged()

    def text_hashes(self, space_id: int) -> dict[int, bytes]:
        """slot -> hash of the text whose vector lies there."""
        with self._sound() as db:
            return dict(
                db.execute("SELECT slot, text_hash FROM vector WHERE space = ?", (space_id,))
            )

    def codes_at(self, space_id: int, slot: int) -> bytes | None:
        """The codes in a slot: int8 [dimension]."""
        with self._sound() as db:
            value = db.execute(
                "SELECT codes FROM vector WHERE space = ? AND slot = ?", (space_id, slot)
            ).get
        return value if isinstance(value, bytes) else None

    def text_hash_at(self, space_id: int, slot: int) -> bytes | None:
        """The hash of the text whose vector lies in a slot."""
        with self._sound() as db:
            value = db.execute(
                "SELECT text_hash FROM vector WHERE space = ? AND slot = ?", (space_id, slot)
            ).get
        return value if isinstance(value, bytes) else None

    def put(self, space_id: int, rows: Sequence[Row]) -> dict[bytes, int]:
        """Keep vectors; text hash -> slot of each. A text that has one keeps the one it has."""
        placed: dict[bytes, int] = {}
        with self._transaction() as db:
            slots = db.execute("SELECT slots FROM space WHERE id = ?", (space_id,)).get
            if not isinstance(slots, int):
                return {}  # the space was dropped meanwhile
            for row in rows:
                there = db.execute(
                    "SELECT slot FROM vector WHERE space = ? AND text_hash = ?",
                    (space_id, row.text_hash),
                ).get
                if isinstance(there, int):
                    placed[row.text_hash] = there
                    continue
                db.execute(
                    "INSERT INTO vector (space, slot, text_hash, fertility, codes) "
                    "VALUES (?, ?, ?, ?, ?)",
                    (space_id, slots, row.text_hash, row.fertility, row.codes),
                )
                placed[row.text_hash] = slots
                slots += 1
            db.execute("UPDATE space SET slots = ? WHERE id = ?", (slots, space_id))
            self._catch_up(db, space_id)
        return placed

    def rows(
        self, space_id: int, first: int, generation: int | None = None
    ) -> Iterator[tuple[int, bytes, float | None]]:
        """(slot, codes, fertility) from slot `first` on, in order.

        generation: of the slots; none of them when they have been numbered anew.
        """
        with self._sound() as db:
            yield from db.execute(
                "SELECT v.slot, v.codes, v.fertility FROM space s JOIN vector v ON v.space = s.id "
                "WHERE s.id = ? AND v.slot >= ? AND s.generation = coalesce(?, s.generation) "
                "ORDER BY v.slot",
                (space_id, first, generation),
            )

    def compact(self, space_id: int, used: Iterable[bytes]) -> None:
        """Drop rows whose text is not in `used` and number the others anew."""
        with self._transaction() as db:
            # A rollback takes it along; dropped by force, it would hide what went wrong.
            db.execute("CREATE TEMP TABLE used (text_hash BLOB PRIMARY KEY) WITHOUT ROWID")
            db.executemany("INSERT OR IGNORE INTO used VALUES (?)", [(h,) for h in used])
            db.execute(
                "DELETE FROM vector WHERE space = ? AND text_hash NOT IN "
                "(SELECT text_hash FROM used)",
                (space_id,),
            )
            db.execute("DROP TABLE used")
            slots = [
                slot
                for (slot,) in db.execute(
                    "SELECT slot FROM vector WHERE space = ? ORDER BY slot", (space_id,)
                )
            ]
            # In ascending order every new number is free by the time it is given.
            db.executemany(
                "UPDATE vector SET slot = ? WHERE space = ? AND slot = ?",
                [(new, space_id, old) for new, old in enumerate(slots) if new != old],
            )
            db.execute(
                "UPDATE space SET slots = ?, generation = generation + 1, indexed = 0 WHERE id = ?",
                (len(slots), space_id),
            )
            db.execute("DELETE FROM meta WHERE key = ?", (_file_key(space_id),))
            self._drop_strangers(db)
            self._catch_up(db, space_id)

    # The file of vectors (matrix.py)

    def file(self, space: StoredSpace) -> tuple[str, int] | None:
        """The name of the file that holds a copy of the rows, and how many of them."""
        with self._sound() as db:
            value = db.execute("SELECT value FROM meta WHERE key = ?", (_file_key(space.id),)).get
        if not isinstance(value, str):
            return None
        generation, rows, name = value.split(" ", 2)
        return (name, int(rows)) if int(generation) == space.generation else None

    def put_file(self, space: StoredSpace, name: str, rows: int) -> None:
        """Vouch for a file: its first `rows` rows are those of this space and generation."""
        with self._transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO meta (key, value) SELECT ?, ? FROM space "
                "WHERE id = ? AND generation = ?",
                (
                    _file_key(space.id),
                    f"{space.generation} {rows} {name}",
                    space.id,
                    space.generation,
                ),
            )

    def drop_file(self, space: StoredSpace) -> None:
        """No longer vouch for the file: another one is begun."""
        with self._transaction() as db:
            db.execute("DELETE FROM meta WHERE key = ?", (_file_key(space.id),))

    # sqlite-vec

    def nearest(self, space: StoredSpace, query: "Codes", slots: Sequence[int]) -> list[int] | None:
        """Those of `slots` that sqlite-vec finds nearest to the question, best first.

        query: int8 [dimension]. Returns None where the extension, or its copy, cannot answer.
        """
        if not self.vector_extension or space.indexed < space.slots:
            return None
        if not 0 < len(slots) <= MOST_NEIGHBOURS:
            return None
        statement = (
            f"SELECT slot FROM {_table(space.id, space.generation)} "
            "WHERE embedding MATCH vec_int8(?) AND k = ? "
            "AND slot IN (SELECT value FROM json_each(?)) ORDER BY distance"
        )
        parameters = (query.tobytes(), len(slots), json.dumps(list(slots)))
        try:
            return [slot for (slot,) in self._db.execute(statement, parameters)]
        except (apsw.SQLError, apsw.CorruptError):
            return None  # numbered anew meanwhile, or a copy that is broken: numpy knows as well

    def catch_up(self, space_id: int) -> None:
        """Bring sqlite-vec's copy up to date, if the extension is there."""
        space = self.current(space_id)
        if self.vector_extension and space is not None and space.indexed < space.slots:
            with self._transaction() as db:
                self._catch_up(db, space_id)

    def _catch_up(self, db: apsw.Connection, space_id: int) -> None:
        if not self.vector_extension:
            return
        row = db.execute(
            "SELECT identity, generation, slots, indexed FROM space WHERE id = ?", (space_id,)
        ).fetchone()
        if row is None:
            return
        db.execute("SAVEPOINT copying")
        try:
            self._copy(db, space_id, *row)
        except apsw.SQLError as error:
            # sqlite-vec has this one name for every failure, a full disk among them. Its table is
            # a copy: it is made anew another time, and what is broken besides tells so by itself.
            if not db.in_transaction:  # SQLite gave up all of it
                raise apsw.IOError(str(error)) from None
            db.execute("ROLLBACK TO copying")
            db.execute("UPDATE space SET indexed = 0 WHERE id = ?", (space_id,))
        db.execute("RELEASE copying")

    def _copy(
        self,
        db: apsw.Connection,
        space_id: int,
        identity: str,
        generation: int,
        slots: int,
        indexed: int,
    ) -> None:
        table = _table(space_id, generation)
        space, _ = _parsed(identity)
        if not indexed:
            # What was left by those who could not drop it may even be of this name.
            self._drop_strangers(db)
            db.execute(f"DROP TABLE IF EXISTS {table}")
            db.execute(
                f"CREATE VIRTUAL TABLE {table} USING vec0(slot INTEGER PRIMARY KEY, "
                f"embedding int8[{space.dimension}] distance_metric=cosine)"
            )
        db.executemany(
            f"INSERT INTO {table} (slot, embedding) VALUES (?, vec_int8(?))",
            db.execute(
                "SELECT slot, codes FROM vector WHERE space = ? AND slot >= ? ORDER BY slot",
                (space_id, indexed),
            ).fetchall(),
        )
        db.execute("UPDATE space SET indexed = ? WHERE id = ?", (slots, space_id))

    def _drop_strangers(self, db: apsw.Connection) -> None:
        """Drop sqlite-vec's tables of spaces and generations that are no more.

        Without the extension they can neither be read nor dropped; they wait for one who has it.
        """
        if not self.vector_extension:
            return
        wanted = {
            _table(space_id, generation)
            for space_id, generation in db.execute("SELECT id, generation FROM space")
        }
        there = [
            str(name)
            for (name,) in db.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' "
                "AND sql LIKE 'CREATE VIRTUAL TABLE%' AND name GLOB 'passage_vector_*'"
            )
        ]
        for name in there:
            if name not in wanted:
                # Once the disk was too full to drop one, a connection never can: it waits as well.
                with suppress(apsw.SQLError):
                    db.execute(f"DROP TABLE {name}")

    # Outages

    def outage(self, provider: str, now_ns: int) -> str | None:
        """Why this provider need not be tried again yet; None when it may be.

        An outage that would last longer than any was written by another clock, and means nothing.
        """
        with self._sound() as db:
            row = db.execute(
                "SELECT until_ns, reason FROM outage WHERE provider = ?", (provider,)
            ).fetchone()
        lasts = row is not None and now_ns < row[0] <= now_ns + OUTAGE_NS
        return str(row[1]) if row is not None and lasts else None

    def put_outage(self, provider: str, until_ns: int, reason: str) -> None:
        """Remember that a provider does not answer."""
        with self._transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO outage (provider, until_ns, reason) VALUES (?, ?, ?)",
                (provider, until_ns, reason),
            )

    def end_outage(self, provider: str) -> None:
        """Forget an outage: the provider has answered."""
        with self._sound() as db:
            down = db.execute("SELECT 1 FROM outage WHERE provider = ?", (provider,)).get
        if down:
            with self._transaction() as db:
                db.execute("DELETE FROM outage WHERE provider = ?", (provider,))


def open_cache(folder: Path, *, create: bool, journal: Wish = "auto") -> EmbeddingCache | None:
    """The cache in `folder`; None when there is none to be read.

    create:  make it where it is missing, or is not what this program can read.
    journal: the setting sidecar.journal. A cache with a write-ahead log where there may be none
             gives it up and keeps its rows.

    Raises BusyError when another process has it open with such a log.
    """
    path = folder / CACHE_NAME
    mode = journal_mode(folder, journal)
    if _regular(path):
        found = _opened(path, mode, create=create)
        if found is not None or not create:
            return found
    if not create:
        return None
    _remove(path)
    return _opened(path, mode, create=True)


def _opened(
    path: Path, mode: Mode, *, create: bool, read_only: bool = False
) -> EmbeddingCache | None:
    """The cache in that file; None when it is not one that this program can read.

    create:    an empty file, or none, becomes a new cache. Two who do so at once share it.
    read_only: nothing can be written where it lies.
    """
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    name = str(path)
    if read_only:
        if mode == "delete" and opens_log(path) and not is_whole(path):
            return None
        name = read_only_uri(path)
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection: apsw.Connection | None = None
    kept = False
    try:
        if mode == "delete" and not read_only and opens_log(path):
            # Made on another disk, or by another SQLite, with a log that is not safe here.
            leave_log(path, BUSY_TIMEOUT_MS / 1000 if create else 0.0)
        connection = apsw.Connection(name, flags=flags)
        if not read_only:
            _prepare(connection, mode, create=create)
        if create:
            _create_tables(connection)
        version = connection.execute("SELECT value FROM meta WHERE key = 'version'").get
        if version == str(CACHE_VERSION):
            cache = EmbeddingCache(path, connection)
            kept = True
            return cache
    except (*_DAMAGE, FileNotFoundError):
        pass  # not ours, damaged or just removed: nothing that could not be computed again
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        if create:
            raise
        return None if read_only else _opened(path, mode, create=False, read_only=True)
    except apsw.IOError as error:
        if has_no_room_to_share(error) and not create and not read_only and is_whole(path):
            return _opened(path, mode, create=False, read_only=True)
        if mode == "delete" or not lacks_shared_memory(error):
            raise
        assert connection is not None
        connection.close()  # it would keep the other from being alone
        return _opened(path, "delete", create=create, read_only=read_only)
    finally:
        if connection is not None and not kept:
            connection.close()
    return None


def _create_tables(connection: apsw.Connection) -> None:
    if connection.execute("SELECT count(*) FROM sqlite_schema").get:
        return
    connection.execute("BEGIN IMMEDIATE")
    if not connection.execute("SELECT count(*) FROM sqlite_schema").get:
        connection.execute(_TABLES)
        values = [("version", str(CACHE_VERSION)), ("id", uuid.uuid4().hex)]
        connection.executemany("INSERT INTO meta (key, value) VALUES (?, ?)", values)
    connection.execute("COMMIT")


def _regular(path: Path) -> bool:
    """Whether it is a file, as are those that SQLite keeps beside it. No link is followed."""
    there = False
    for suffix in _SUFFIXES:
        try:
            mode = path.with_name(path.name + suffix).lstat().st_mode
        except FileNotFoundError:
            continue  # most of them come and go
        if not stat.S_ISREG(mode):
            return False
        there = there or not suffix
    return there


def _remove(path: Path) -> None:
    """Remove the cache's files, or what stands in their place; a folder only if it is empty."""
    for suffix in _SUFFIXES:
        part = path.with_name(path.name + suffix)
        try:
            mode = part.lstat().st_mode
        except FileNotFoundError:
            continue  # most of them come and go
        if stat.S_ISDIR(mode):
            part.rmdir()
        else:
            part.unlink(missing_ok=True)


def extension_version() -> str | None:
    """sqlite-vec's version; None where it cannot be loaded."""
    connection = apsw.Connection(":memory:")
    try:
        if not _load_extension(connection):
            return None
        return str(connection.execute("SELECT vec_version()").get)
    finally:
        connection.close()


def _prepare(connection: apsw.Connection, mode: Mode, *, create: bool) -> None:
    # Without waiting: who is busy with the file at its making says the same. Whoever is going to
    # write gives a log to a cache from elsewhere as well: SQLite does so in one transaction, alone
    # with the file.
    if mode == "wal" and create:
        with suppress(apsw.BusyError):
            begin_journal(connection, mode)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.execute(_PRAGMAS).fetchall()
    synchronise(connection)


def _load_extension(connection: apsw.Connection) -> bool:
    # Its package imports numpy, which takes longer than a search by words.
    package = find_spec("sqlite_vec")
    if package is None or package.origin is None:
        return False
    try:
        connection.enable_load_extension(True)
        try:
            connection.load_extension(str(Path(package.origin).with_name("vec0")))
        finally:
            connection.enable_load_extension(False)
    except (AttributeError, apsw.Error, OSError):
        return False  # built without extensions, or no library for this platform
    return True


def _file_key(space_id: int) -> str:
    return f"file {space_id}"


def _table(space_id: int, generation: int) -> str:
    return f"passage_vector_{space_id}_{generation}"


def _identity(space: Space, rules: str) -> str:
    return json.dumps({**asdict(space), "rules": rules}, sort_keys=True)


def _parsed(identity: str) -> tuple[Space, str]:
    values = json.loads(identity)
    rules = str(values.pop("rules"))
    return Space(**values), rules
