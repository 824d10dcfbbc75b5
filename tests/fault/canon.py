"""The canon of a sidecar: all that it says of the vault, as sorted lines, and one hash of them.

Two sidecars are equal when their canons are. What is left out is what two runs over the same files
may differ in: row numbers (an id stands as the path or key of what it names), looks at clocks, and
the queue between processes. Of the vectors it holds what the passages lead to, not where they lie.
"""

from hashlib import sha256

import apsw
import numpy as np

from vaultmem.embedding.cache import EmbeddingCache, StoredSpace
from vaultmem.embedding.matrix import open_matrix
from vaultmem.index.schema import FULL_TEXT
from vaultmem.index.store import Sidecar
from vaultmem.service.application import Memory
from vaultmem.service.embedders import serving_space

# Of any table: when a file was looked at and where it lay, and where a row or a vector lies.
CLOCKS = frozenset({"id", "slot", "mtime_ns", "ctime_ns", "inode", "read_ns"})
# Of `meta`: the time of the last run, what it had no time for, how many notes there were before
# some were missed, and the number that embeddings.db goes by.
NOT_OF_THE_VAULT = frozenset({"last_indexed", "look_rest", "notes_when_whole", "vectors"})
# What one process asks of another.
QUEUES = frozenset({"request"})

_SHADOWS = ("data", "idx", "docsize", "config")
# Of a full-text table: the row of its _data that holds how many rows and words there are.
_TOTALS = 1


def canon(memory: Memory) -> str:
    """The SHA-256 of `canon_lines`."""
    digest = sha256()
    for line in canon_lines(memory):
        digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def canon_lines(memory: Memory) -> list[str]:
    """All that the sidecar and the vectors say of the vault, sorted.

    Raises apsw.CorruptError when the full-text index contradicts itself.
    """
    return sorted(index_lines(memory) + vector_lines(memory))


def index_lines(memory: Memory) -> list[str]:
    """The part of the canon that index.db holds, sorted."""
    db = _opened(memory).connection
    notes = dict(db.execute("SELECT id, path FROM note"))
    chunks = {
        chunk: f"{_named(notes, note)} {key}"
        for chunk, note, key in db.execute("SELECT id, note, key FROM chunk")
    }
    lines: list[str] = []
    for name, statement in db.execute("SELECT name, sql FROM sqlite_schema WHERE sql NOT NULL"):
        lines.append(f"schema {name} {statement}")
    for table in stored_tables(db):
        if table not in QUEUES:
            lines += _rows(db, table, {"note": notes, "chunk": chunks})
    for table in FULL_TEXT:
        lines += _words(db, table, notes if table == "note_text" else chunks)
    return sorted(lines)


def stored_tables(db: apsw.Connection) -> list[str]:
    """The tables that hold rows of ours: neither virtual ones nor what these are made of."""
    shadows = {f"{table}_{part}" for table in FULL_TEXT for part in _SHADOWS}
    tables = [
        str(name)
        for (name,) in db.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' "
            "AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
        )
    ]
    return [table for table in tables if table not in shadows]


def _rows(db: apsw.Connection, table: str, owners: dict[str, dict[int, str]]) -> list[str]:
    references = {
        str(column): owners[str(parent)]
        for _, _, parent, column, *_ in db.execute(f"PRAGMA foreign_key_list({table})")
    }
    label = "scan" if table == "scan_problem" else table
    lines: list[str] = []
    cursor = db.execute(f"SELECT * FROM {table}")
    for row in cursor:
        names = [column[0] for column in cursor.get_description()]
        fields = {k: v for k, v in zip(names, row, strict=True) if k not in CLOCKS}
        if table == "meta" and fields["key"] in NOT_OF_THE_VAULT:
            continue
        for column, paths in references.items():
            fields[column] = _named(paths, fields[column])
        lines.append(f"{label} {fields}")
    return lines


def _named(owners: dict[int, str], number: int) -> str:
    return owners.get(number, f"nobody, number {number}")


def _words(db: apsw.Connection, table: str, owners: dict[int, str]) -> list[str]:
    """Every word of a full-text table with its place, and the lengths that ranking goes by."""
    db.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('integrity-check', 0)")
    db.execute(f"CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, {table}, instance)")
    lines = [
        f"{table} {_named(owners, owner)} {column} {offset} {term}"
        for term, owner, column, offset in db.execute("SELECT * FROM temp.words")
    ]
    db.execute("DROP TABLE temp.words")
    lengths = db.execute(f"SELECT id, sz FROM {table}_docsize")
    lines += [f"{table} lengths {_named(owners, row)} {sizes.hex()}" for row, sizes in lengths]
    # A table that never held a word has no totals; one that no longer does has zeros.
    totals = db.execute(f"SELECT block FROM {table}_data WHERE id = ?", (_TOTALS,))
    lines += ["{} totals {}".format(table, block.rstrip(b"\0").hex()) for (block,) in totals]
    # FTS5's own version is another one once a word was erased.
    options = db.execute(f"SELECT k, v FROM {table}_config WHERE k <> 'version'")
    lines += [f"{table} option {key} {value}" for key, value in options]
    return lines


def vector_lines(memory: Memory) -> list[str]:
    """The part of the canon that embeddings.db and the file of vectors hold, sorted.

    Of each passage the vector that its slot leads to, in all three places where it is kept, and
    whose text it is; of each place how many rows it has for them. Vectors of texts that no passage
    has are a cache of what was, and left out.
    """
    sidecar = _opened(memory)
    cache, space = memory.open_cache(), serving_space(memory, sidecar)
    lines: list[str] = []
    if cache is None or space is None:
        carried = sidecar.connection.execute("SELECT count(slot) FROM chunk").get
        return [f"vectors of no space, {carried} passages with a slot"]
    lines = [f"vectors {space.space} {space.rules}"]
    kept = _kept(cache, space)
    copied = _copied(cache, space)
    mapped = open_matrix(cache, space)
    for path, key, text_hash, slot in sidecar.connection.execute(
        "SELECT note.path, chunk.key, chunk.text_hash, chunk.slot FROM chunk "
        "JOIN note ON note.id = chunk.note"
    ):
        of = f"vector of {path} {key}:"
        if slot is None:
            lines.append(f"{of} none")
            continue
        if slot not in kept:
            lines.append(f"{of} a slot that leads nowhere")
            continue
        owner, codes, fertility = kept[slot]
        lines.append(f"{of} {codes.hex()} {fertility}")
        if owner != text_hash:
            lines.append(f"{of} another text's, {owner.hex()}")
        if copied.get(slot) != codes:
            lines.append(f"{of} sqlite-vec has another one")
        # The file's copy through what questions ask of it: a vector is like itself and its
        # length is its own.
        itself = np.frombuffer(codes, np.int8).astype(np.float32)
        similarity = float(mapped.similarities_of(itself, [slot])[0])
        lines.append(f"{of} {similarity:.4f} like the file's, {mapped.fertilities([slot])}")
    return sorted(lines)


def _kept(cache: EmbeddingCache, space: StoredSpace) -> dict[int, tuple[bytes, bytes, object]]:
    rows = cache.query(
        "SELECT slot, text_hash, codes, fertility FROM vector WHERE space = ?", (space.id,)
    )
    found: dict[int, tuple[bytes, bytes, object]] = {}
    for slot, text_hash, codes, fertility in rows:
        assert isinstance(slot, int)
        assert isinstance(text_hash, bytes)
        assert isinstance(codes, bytes)
        found[slot] = (text_hash, codes, fertility)
    return found


def _copied(cache: EmbeddingCache, space: StoredSpace) -> dict[object, object]:
    table = f"passage_vector_{space.id}_{space.generation}"
    if not cache.vector_extension:
        return {slot: codes for slot, (_, codes, _) in _kept(cache, space).items()}
    if not space.indexed:
        return {}
    return dict(cache.query(f"SELECT slot, embedding FROM {table}", ()))  # type: ignore[arg-type]


def _opened(memory: Memory) -> Sidecar:
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    return sidecar
