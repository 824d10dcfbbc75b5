"""Two sidecars are held against each other, row by row: nothing that differs is overlooked."""

from collections.abc import Callable, Mapping

import pytest

from vaultmem.index.compare import COMPARED, NOT_COMPARED, Difference, differences, rows_in
from vaultmem.index.schema import FULL_TEXT
from vaultmem.index.store import Sidecar
from vaultmem.service.application import Memory

Indexed = Callable[..., Memory]

CARD = (
    '{"nodes": [{"id": "1", "type": "file", "file": "Kiln.md"}, {"id": "2", "type": "file", '
    '"file": "Clay.md"}], "edges": [{"id": "e", "fromNode": "1", "toNode": "2", "label": "of"}]}'
)
NOTES: Mapping[str, str] = {
    "Kiln.md": "---\naliases: [oven]\ntags: [heat]\nrating: 4\n---\n# Kiln\n\nFired [[Clay]].\n",
    "Clay.md": "# Clay\n\nheat:: cone 6\n\ndecision:: buy it\n\n"
    + "\n\n".join(f"## Part {n}\n\n{'slip glaze ' * 80}" for n in range(4)),
    "Log/Broken.md": "---\nbad: [yaml\n---\nA body, and [[Nowhere]].\n",
    "Key.md": "the key is AKIA" + "Q3EGRVNZ5KTL" + "7XWA here\n",
    "Map.canvas": CARD,
    "pot.png": "PNG",
}

# A change to a row of each table that is compared.
CHANGES = {
    "note": "UPDATE note SET title = 'Other' WHERE path = 'Kiln.md'",
    "chunk": "UPDATE chunk SET pieces = pieces + 1 WHERE id = (SELECT max(id) FROM chunk)",
    "chunk_item": "UPDATE chunk_item SET kind = 'error'",
    "link": "UPDATE link SET resolved = NULL WHERE resolved = 'Clay.md'",
    "tag": "UPDATE tag SET tag = 'cold'",
    "alias": "DELETE FROM alias",
    "field": "UPDATE field SET value = 'cone 7'",
    "item": "UPDATE item SET text = 'sell it'",
    "arrow": "UPDATE arrow SET label = 'off'",
    "secret": "UPDATE secret SET allowed = 1",
    "problem": "DELETE FROM problem",
    "file": "DELETE FROM file",
}


@pytest.fixture
def pair(indexed: Indexed) -> tuple[Sidecar, Sidecar]:
    """Two indexes of one vault whose rows have other numbers."""
    first = dict(list(NOTES.items())[2:])
    kept = indexed(first)
    for path, text in NOTES.items():
        (kept.vault / path).write_text(text)
    kept = indexed(NOTES)
    made = indexed(cache="other")
    assert kept.sidecar is not None
    assert made.sidecar is not None
    numbers = [
        dict(sidecar.connection.execute("SELECT path, id FROM note"))
        for sidecar in (kept.sidecar, made.sidecar)
    ]
    assert numbers[0] != numbers[1]
    return kept.sidecar, made.sidecar


def found(kept: Sidecar, made: Sidecar) -> set[tuple[str, str]]:
    return {(difference.path, difference.table) for difference in differences(kept, made)}


def test_every_table_is_compared_or_said_not_to_be(pair: tuple[Sidecar, Sidecar]) -> None:
    tables = {
        name
        for (name,) in pair[0].connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        )
        if not any(name.startswith(f"{table}_") for table in FULL_TEXT)
    }
    assert tables - {"vocabulary"} == {*COMPARED, *NOT_COMPARED}
    assert set(CHANGES) == set(COMPARED) - set(FULL_TEXT)


def test_two_indexes_of_one_vault_do_not_differ_whatever_their_rows_numbers(
    pair: tuple[Sidecar, Sidecar],
) -> None:
    assert list(differences(*pair)) == []
    assert rows_in(pair[0]) == rows_in(pair[1]) > 40


@pytest.mark.parametrize("table", CHANGES)
def test_a_changed_row_is_found_in_each_table(table: str, pair: tuple[Sidecar, Sidecar]) -> None:
    kept, made = pair
    kept.connection.execute("PRAGMA foreign_keys = OFF")
    kept.connection.execute(CHANGES[table])
    assert kept.connection.changes() > 0
    assert table in {difference.table for difference in differences(kept, made)}
    assert table in {difference.table for difference in differences(made, kept)}


def test_each_column_that_is_of_the_vault_counts(pair: tuple[Sidecar, Sidecar]) -> None:
    kept, made = pair
    kept.connection.execute("PRAGMA foreign_keys = OFF")
    numbers = {"id", "note", "chunk"}  # which rows of another note would have
    own = {"slot", "read_ns", "mtime_ns", "ctime_ns", "inode"}
    for table in CHANGES:
        for row in kept.connection.execute(f"PRAGMA table_info({table})").fetchall():
            column, kind = str(row[1]), str(row[2])
            if column in numbers:
                continue
            other = "'~' || coalesce({}, '')" if kind == "TEXT" else "coalesce({}, 0) + 77"
            other = "x'00'" if kind == "BLOB" else other.format(column)
            kept.connection.execute("BEGIN")
            kept.connection.execute(f"UPDATE {table} SET {column} = {other}")
            noticed = any(d.table == table for d in differences(kept, made))
            kept.connection.execute("ROLLBACK")
            assert noticed is (column not in own), f"{table}.{column}"


@pytest.mark.parametrize("table", FULL_TEXT)
def test_a_full_text_row_that_is_gone_is_found_with_the_name_of_its_note(
    table: str, pair: tuple[Sidecar, Sidecar]
) -> None:
    kept, made = pair
    owner = "id" if table == "note_text" else "note"
    source = "note" if table == "note_text" else "chunk"
    row = kept.connection.execute(
        f"SELECT max(t.id) FROM {source} t JOIN note n ON n.id = t.{owner} "
        "WHERE n.path = 'Clay.md' " + ("AND t.lone = 0" if table == "window_text" else "")
    ).get
    assert isinstance(row, int)
    # Only one word of it: the rest of the row stays.
    kept.connection.execute(
        f"INSERT INTO {table} ({table}, rowid, body) VALUES ('delete', ?, 'glaze')", (row,)
    )
    assert ("Clay.md", table) in found(kept, made)
    assert ("Clay.md", table) in found(made, kept)


@pytest.mark.parametrize("table", FULL_TEXT)
def test_words_of_no_note_are_found(table: str, pair: tuple[Sidecar, Sidecar]) -> None:
    kept, made = pair
    kept.connection.execute(f"INSERT INTO {table} (rowid, body) VALUES (99999, 'stray kiln')")
    assert ("", table) in found(kept, made)


def test_the_same_words_in_another_order_are_found(pair: tuple[Sidecar, Sidecar]) -> None:
    kept, made = pair
    for sidecar, text in ((kept, "one two"), (made, "two one")):
        note = sidecar.connection.execute("SELECT id FROM note WHERE path = 'Kiln.md'").get
        sidecar.connection.execute(
            "INSERT INTO note_text (rowid, body) VALUES (?, ?)", (note, text)
        )
    assert found(kept, made) == {("Kiln.md", "note_text")}


def test_rows_of_a_note_that_is_not_there_are_found(pair: tuple[Sidecar, Sidecar]) -> None:
    kept, made = pair
    kept.connection.execute("PRAGMA foreign_keys = OFF")
    kept.connection.execute("INSERT INTO tag VALUES (777, 0, 'stray', 'stray')")
    assert found(kept, made) == {("", "tag")}


def test_nothing_is_said_of_a_note_that_is_left_out(pair: tuple[Sidecar, Sidecar]) -> None:
    kept, made = pair
    kept.connection.execute("UPDATE note SET title = 'Other'")
    rest = {difference.path for difference in differences(kept, made, left_out={"Kiln.md"})}
    assert rest == {path for path in NOTES if not path.endswith(".png")} - {"Kiln.md"}


def test_a_link_to_a_note_that_is_left_out_may_lead_elsewhere(
    pair: tuple[Sidecar, Sidecar],
) -> None:
    kept, made = pair
    made.connection.execute("UPDATE link SET resolved = NULL WHERE resolved = 'Clay.md'")
    assert found(kept, made) == {("Kiln.md", "link"), ("Map.canvas", "link")}
    assert list(differences(kept, made, left_out={"Clay.md"})) == []


def test_both_stay_as_they_are(pair: tuple[Sidecar, Sidecar]) -> None:
    before = [sidecar.connection.total_changes() for sidecar in pair]
    states = [sidecar.connection.execute("PRAGMA main.schema_version").get for sidecar in pair]
    assert list(differences(*pair)) == []
    after = [
        [name for (name,) in sidecar.connection.execute("SELECT name FROM temp.sqlite_schema")]
        for sidecar in pair
    ]
    assert after == [[], []]
    assert [s.connection.execute("PRAGMA main.schema_version").get for s in pair] == states
    assert len(before) == 2


def test_a_difference_names_what_is_wrong(pair: tuple[Sidecar, Sidecar]) -> None:
    kept, made = pair
    kept.connection.execute("UPDATE tag SET tag = 'cold'")
    assert list(differences(kept, made)) == [
        Difference("Kiln.md", "tag", "not as it is made from the file")
    ]
