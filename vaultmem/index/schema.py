"""The tables of index.db. There are no migrations: another fingerprint means a new file."""

from vaultmem.index.documents import COLUMNS, DOCUMENTS_VERSION
from vaultmem.index.text import TEXT_VERSION, TOKENIZER

SCHEMA_VERSION = 10

# Part of every fingerprint: rows made by another version of this code are not comparable.
VERSIONS = f"schema {SCHEMA_VERSION}, documents {DOCUMENTS_VERSION}, text {TEXT_VERSION}"

# What a match in a column is worth. The title stands in every passage's row already, so it needs
# no more; a path and properties hold many words that say little.
WEIGHTS = {
    "title": 1.0,
    "aliases": 1.0,
    "headings": 1.0,
    "tags": 1.0,
    "properties": 0.5,
    "path": 0.5,
    "body": 1.0,
}

TABLES = """
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE note (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    disk_path TEXT NOT NULL,
    title TEXT NOT NULL,
    folded_path TEXT NOT NULL,
    folded_name TEXT NOT NULL,
    folded_title TEXT NOT NULL,
    kind TEXT NOT NULL,
    date TEXT,
    undated INTEGER NOT NULL DEFAULT 0,
    stub INTEGER NOT NULL,
    apart INTEGER NOT NULL DEFAULT 0,
    screening INTEGER NOT NULL DEFAULT 0,
    sha256 TEXT NOT NULL,
    identity TEXT,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    read_ns INTEGER NOT NULL,
    passages INTEGER NOT NULL,
    properties TEXT NOT NULL,
    searched TEXT NOT NULL
) STRICT;
CREATE INDEX note_place ON note (id, path, passages);

CREATE TABLE chunk (
    id INTEGER PRIMARY KEY,
    note INTEGER NOT NULL REFERENCES note (id),
    ordinal INTEGER NOT NULL,
    key TEXT NOT NULL,
    trail TEXT NOT NULL,
    first_line INTEGER NOT NULL,
    last_line INTEGER NOT NULL,
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    body INTEGER NOT NULL,
    pieces INTEGER NOT NULL,
    lone INTEGER NOT NULL,
    text TEXT NOT NULL,
    text_hash BLOB NOT NULL,
    items INTEGER NOT NULL DEFAULT 0,
    date TEXT,
    speaks INTEGER NOT NULL DEFAULT 1,
    slot INTEGER
) STRICT;
CREATE INDEX chunk_of_note ON chunk (note, ordinal, speaks, slot);
CREATE INDEX chunk_place ON chunk (id, note, ordinal, lone, speaks, slot);

CREATE TABLE link (
    note INTEGER NOT NULL REFERENCES note (id),
    ordinal INTEGER NOT NULL,
    target TEXT NOT NULL,
    subpath TEXT NOT NULL,
    display TEXT,
    embed INTEGER NOT NULL,
    line INTEGER NOT NULL,
    property TEXT,
    key TEXT NOT NULL,
    exact INTEGER NOT NULL DEFAULT 0,
    resolved TEXT,
    PRIMARY KEY (note, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE tag (
    note INTEGER NOT NULL REFERENCES note (id),
    ordinal INTEGER NOT NULL,
    tag TEXT NOT NULL,
    folded TEXT NOT NULL,
    PRIMARY KEY (note, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE alias (
    note INTEGER NOT NULL REFERENCES note (id),
    ordinal INTEGER NOT NULL,
    alias TEXT NOT NULL,
    folded TEXT NOT NULL,
    PRIMARY KEY (note, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE field (
    note INTEGER NOT NULL REFERENCES note (id),
    ordinal INTEGER NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    line INTEGER NOT NULL,
    alone INTEGER NOT NULL,
    PRIMARY KEY (note, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE item (
    note INTEGER NOT NULL REFERENCES note (id),
    ordinal INTEGER NOT NULL,
    kind TEXT NOT NULL,
    date TEXT,
    first_line INTEGER NOT NULL,
    last_line INTEGER NOT NULL,
    text TEXT NOT NULL,
    origin TEXT NOT NULL,
    PRIMARY KEY (note, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE chunk_item (
    chunk INTEGER NOT NULL REFERENCES chunk (id),
    ordinal INTEGER NOT NULL,
    kind TEXT NOT NULL,
    date TEXT,
    PRIMARY KEY (chunk, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE arrow (
    note INTEGER NOT NULL REFERENCES note (id),
    ordinal INTEGER NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    folded_source TEXT NOT NULL,
    folded_target TEXT NOT NULL,
    label TEXT NOT NULL,
    line INTEGER NOT NULL,
    PRIMARY KEY (note, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE secret (
    note INTEGER NOT NULL REFERENCES note (id),
    ordinal INTEGER NOT NULL,
    line INTEGER NOT NULL,
    kind TEXT NOT NULL,
    shown TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    allowed INTEGER NOT NULL,
    PRIMARY KEY (note, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE problem (
    note INTEGER NOT NULL REFERENCES note (id),
    ordinal INTEGER NOT NULL,
    line INTEGER NOT NULL,
    code TEXT NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (note, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE file (
    path TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE request (
    path TEXT PRIMARY KEY,
    asked_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE scan_problem (
    ordinal INTEGER PRIMARY KEY,
    path TEXT NOT NULL,
    line INTEGER NOT NULL,
    code TEXT NOT NULL,
    message TEXT NOT NULL
) STRICT;
"""

# A search looks up where some two thousand passages belong. Their rows, and those of their notes,
# lie all over the file; `chunk_place` and `note_place` hold what is asked in a thirtieth of the
# pages. `note.passages` is how many a note has.
#
# `request` is a queue, and the only table that no run fills: see requests.py.
# `note.apart` marks templates, whose tags and links do not count. `note.screening` says how much of
# the file's text was kept out (model.Screening); `secret` names what was found, allowed or not, and
# never holds it. `chunk.items` is how
# many items a passage is part of, innermost first in chunk_item, and `chunk.date` the innermost's
# day, NULL for the note's. `link.exact` is a path and no name, as a canvas has it; an arrow of a
# canvas leads from one of its files to another.
#
# `chunk.slot` is the number of the passage's vector in the cache of embeddings, in the space that
# the meta value `vectors` names; NULL until there is one (vectors.py). `chunk.speaks` says whether
# it has words below its headings: the vector of a bare heading, or of nothing, is near everything
# that is short.

# Made when a first build is done: sorting once is cheaper than inserting in order.
LATE_INDEXES = """
CREATE INDEX IF NOT EXISTS note_by_name ON note (folded_name);
CREATE INDEX IF NOT EXISTS note_by_title ON note (folded_title);
CREATE INDEX IF NOT EXISTS note_by_folded_path ON note (folded_path);
CREATE INDEX IF NOT EXISTS link_by_key ON link (key);
CREATE INDEX IF NOT EXISTS link_by_resolved ON link (resolved);
CREATE INDEX IF NOT EXISTS tag_by_folded ON tag (folded);
CREATE INDEX IF NOT EXISTS chunk_of_items ON chunk (note, date) WHERE items > 0;
CREATE INDEX IF NOT EXISTS chunk_item_by_kind ON chunk_item (kind, date);
CREATE INDEX IF NOT EXISTS arrow_by_source ON arrow (folded_source);
CREATE INDEX IF NOT EXISTS arrow_by_target ON arrow (folded_target);
CREATE INDEX IF NOT EXISTS alias_by_folded ON alias (folded);
CREATE INDEX IF NOT EXISTS chunk_by_hash ON chunk (text_hash);
CREATE INDEX IF NOT EXISTS chunk_by_slot ON chunk (slot, speaks);
CREATE INDEX IF NOT EXISTS note_by_date ON note (date);
CREATE INDEX IF NOT EXISTS note_by_kind ON note (kind, date);
"""

# Contentless, so that the sidecar holds the text once.
FULL_TEXT = ("passage_text", "window_text", "note_text")


def create_statements() -> list[str]:
    """Every statement that makes an empty sidecar."""
    statements = [TABLES]
    tokenizer = TOKENIZER.replace("'", "''")
    weights = ", ".join(str(WEIGHTS[column]) for column in COLUMNS)
    for table in FULL_TEXT:
        statements += [
            f"CREATE VIRTUAL TABLE {table} USING fts5("
            f"{', '.join(COLUMNS)}, content='', tokenize='{tokenizer}')",
            # Deleted words leave the file at once, not at the next merge.
            f"INSERT INTO {table} ({table}, rank) VALUES ('secure-delete', 1)",
            f"INSERT INTO {table} ({table}, rank) VALUES ('rank', 'bm25({weights})')",
        ]
    statements.append("CREATE VIRTUAL TABLE vocabulary USING fts5vocab('note_text', 'row')")
    return statements
