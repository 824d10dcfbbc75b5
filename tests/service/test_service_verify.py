"""`index --verify`: what differs is said and mended, and nothing that is only away is lost."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counted_embedder import Counted, assert_vectors_are_true, serving, use

from vaultmem.index.lock import embedding_lock
from vaultmem.index.vectors import PassageVectors
from vaultmem.model.errors import UsageError
from vaultmem.service import indexing, verifying
from vaultmem.service.application import Memory, Progress
from vaultmem.service.mending import REBUILT
from vaultmem.service.operations.index import IndexReply, IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search

Open = Callable[..., Memory]
Compare = Callable[[Memory], None]

NOTES = {
    "Kiln.md": "# Kiln\n\nIt fires overnight, see [[Clay]].\n\n## Repairs\n\nThe door sticks.\n",
    "Clay.md": "Clay from the river bank, sieved twice.\n",
    "Glaze.md": "# Glaze\n\nAsh and quartz.\n\n# Colours\n\nCopper turns green.\n",
}
MINILM = {"VAULTMEM_EMBEDDER_NAME": "minilm"}


def verified(memory: Memory) -> IndexReply:
    reply = index(memory, IndexRequest(verify=True))
    assert reply.verified is not None
    assert reply.verified.differences >= len(reply.differences)
    return reply


def kinds(reply: IndexReply) -> set[tuple[str, str]]:
    return {(difference.path, difference.table) for difference in reply.differences}


def spoil(memory: Memory, statement: str) -> None:
    assert memory.sidecar is not None
    memory.sidecar.connection.execute("PRAGMA foreign_keys = OFF")
    memory.sidecar.connection.execute(statement)
    assert memory.sidecar.connection.changes() > 0


def test_a_true_index_is_said_to_be_true_and_stays_the_file_it_is(indexed: Open) -> None:
    memory = indexed(NOTES)
    before = os.stat(memory.folder / "index.db").st_ino
    reply = verified(memory)
    assert reply.verified is not None
    assert (reply.verified.files, reply.verified.differences) == (3, 0)
    assert reply.verified.rows > 15
    assert not reply.verified.repaired
    assert reply.differences == ()
    assert reply.degraded == ()
    assert os.stat(memory.folder / "index.db").st_ino == before
    assert not (memory.folder / "index.db.new").exists()


def test_a_row_that_no_note_makes_is_named_and_mended(
    indexed: Open, assert_equals_rebuild: Compare
) -> None:
    memory = indexed(NOTES)
    spoil(memory, "UPDATE note SET title = 'Oven' WHERE path = 'Kiln.md'")
    reply = verified(memory)
    assert kinds(reply) == {("Kiln.md", "note")}
    assert reply.verified is not None
    assert reply.verified.repaired
    assert_equals_rebuild(memory)
    assert verified(memory).differences == ()


def test_a_note_that_changed_unseen_is_named_and_taken_in(
    open_vault: Open, far_ahead: object, assert_equals_rebuild: Compare
) -> None:
    memory = open_vault(NOTES, clock=far_ahead)
    index(memory, IndexRequest())
    spoil(memory, "UPDATE note SET sha256 = 'that of other bytes' WHERE path = 'Clay.md'")
    assert index(memory, IndexRequest()).notes.changed == 0
    reply = verified(memory)
    assert kinds(reply) == {("Clay.md", "file")}
    assert reply.verified is not None
    assert reply.verified.repaired
    assert_equals_rebuild(memory)


def test_what_was_edited_since_the_last_run_is_no_difference(
    indexed: Open, assert_equals_rebuild: Compare
) -> None:
    memory = indexed(NOTES)
    (memory.vault / "Clay.md").write_text("Clay from the pit. [[New]]\n")
    (memory.vault / "New.md").write_text("A new one.\n")
    (memory.vault / "Glaze.md").unlink()
    reply = verified(memory)
    assert reply.differences == ()
    assert (reply.notes.added, reply.notes.changed, reply.notes.removed) == (1, 1, 1)
    assert_equals_rebuild(memory)


def test_where_there_is_no_index_one_is_made_and_verified(open_vault: Open) -> None:
    reply = verified(open_vault(NOTES))
    assert reply.notes.added == 3
    assert reply.differences == ()


def test_what_changes_while_it_works_is_left_out_and_taken_in_by_the_next_run(
    open_vault: Open, assert_equals_rebuild: Compare
) -> None:
    memory = open_vault(NOTES)
    index(memory, IndexRequest())
    runs: list[str] = []

    def edit_when_the_other_is_being_made(stage: str, done: int, total: int) -> None:
        if stage == "index" and done == 0 and not runs:
            runs.append(stage)
            (memory.vault / "Kiln.md").write_text("Another text about [[Glaze]] and fire.\n")

    memory.progress = Progress(edit_when_the_other_is_being_made)
    reply = verified(memory)
    assert runs
    assert reply.differences == ()
    assert reply.degraded == (
        "1 note changed meanwhile: not compared; the next run takes them in.",
    )
    index(memory, IndexRequest())
    assert_equals_rebuild(memory)


@pytest.fixture
def half_away(open_vault: Open) -> Memory:
    """An index of a vault of which so much is missing that it is kept."""
    notes = {f"n{number}.md": f"Kiln {number}, see [[n{number + 1}]].\n" for number in range(120)}
    memory = open_vault(notes)
    index(memory, IndexRequest())
    for number in range(60):
        (memory.vault / f"n{number}.md").unlink()
    return memory


def test_notes_that_are_away_are_kept_and_said_to_be_left_out(half_away: Memory) -> None:
    reply = verified(half_away)
    assert reply.differences == ()
    assert reply.degraded == (
        "60 notes missing from the vault and kept in the index: not compared.",
    )
    assert reply.notes.total == 120


def test_an_index_that_holds_what_is_away_is_not_replaced(half_away: Memory) -> None:
    index(half_away, IndexRequest())
    spoil(half_away, "UPDATE note SET title = 'Other' WHERE path = 'n100.md'")
    reply = verified(half_away)
    assert kinds(reply) == {("n100.md", "note")}
    assert reply.verified is not None
    assert not reply.verified.repaired
    assert "left as it is" in reply.degraded[-1]
    assert "--accept-deletions" in reply.degraded[-1]
    assert reply.notes.total == 120
    assert search(half_away, SearchRequest("kiln 7")).hits


def test_a_file_at_odds_with_itself_is_made_anew_and_that_is_said(
    indexed: Open, assert_equals_rebuild: Compare
) -> None:
    memory = indexed(NOTES)
    assert memory.sidecar is not None
    # An index that lacks an entry: nobody who reads by it would notice.
    db = memory.sidecar.connection
    root = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'note_by_title'").get
    db.execute("PRAGMA writable_schema = ON")
    db.execute(
        "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema "
        "WHERE name = 'note_by_name') WHERE name = 'note_by_title'"
    )
    assert root is not None
    memory.close()
    reply = verified(memory)
    assert REBUILT in reply.degraded
    assert_equals_rebuild(memory)


def test_verifying_and_rebuilding_are_asked_for_one_at_a_time(indexed: Open) -> None:
    with pytest.raises(UsageError):
        index(indexed(NOTES), IndexRequest(verify=True, rebuild=True))


def test_it_can_be_interrupted_and_leaves_what_there_was(indexed: Open) -> None:
    memory = indexed(NOTES)
    before = (memory.folder / "index.db").read_bytes()

    def interrupt(stage: str, done: int, total: int) -> None:
        if stage == "verify" and done == 3:
            raise KeyboardInterrupt

    memory.progress = Progress(interrupt)
    with pytest.raises(KeyboardInterrupt):
        verified(memory)
    assert not (memory.folder / "index.db.new").exists()
    memory.close()
    assert (memory.folder / "index.db").read_bytes() == before
    memory.progress = Progress()
    assert verified(memory).differences == ()


# Vectors


@pytest.fixture
def embedded(open_vault: Open) -> Memory:
    """An indexed vault whose passages have vectors."""
    memory = open_vault(NOTES, environment=MINILM)
    use(memory, Counted())
    index(memory, IndexRequest())
    return memory


def computed(memory: Memory) -> int:
    embedder = memory.embedders["minilm"]
    assert isinstance(embedder, Counted)
    return len(embedder.texts)


def test_true_vectors_are_looked_up_and_stay(embedded: Memory) -> None:
    reply = verified(embedded)
    assert reply.verified is not None
    assert reply.verified.vectors == 5
    assert reply.differences == ()
    assert reply.chunks.embedded == 0


def test_a_vector_of_another_text_is_taken_away_and_the_right_one_put_there(
    embedded: Memory,
) -> None:
    other = "(SELECT c.slot FROM chunk c JOIN note n ON n.id = c.note WHERE n.path = 'Clay.md')"
    spoil(embedded, f"UPDATE chunk SET slot = {other} WHERE trail LIKE '%Repairs%'")
    reply = verified(embedded)
    assert kinds(reply) == {("Kiln.md", "vector")} | {
        (path, "vector") for path, _ in kinds(reply) if path == "Clay.md"
    }
    assert reply.verified is not None
    assert reply.verified.repaired
    assert_vectors_are_true(embedded)
    assert verified(embedded).differences == ()


def test_a_file_of_vectors_that_is_not_that_of_the_cache_is_begun_anew(embedded: Memory) -> None:
    (path,) = embedded.folder.glob("vectors-*.i8")
    data = bytearray(path.read_bytes())
    data[5] ^= 0x11  # a code that could be true
    embedded.close()
    path.write_bytes(data)
    use(embedded, Counted())
    reply = verified(embedded)
    assert kinds(reply) == {("", "vectors")}
    assert_vectors_are_true(embedded)
    assert verified(embedded).differences == ()


def test_vectors_that_the_model_does_not_make_of_their_texts_are_computed_anew(
    embedded: Memory,
) -> None:
    assert embedded.sidecar is not None
    space = serving(embedded)
    assert space is not None
    cache = embedded.open_cache()
    assert cache is not None
    slot = PassageVectors(embedded.sidecar).slots()[0]
    codes = np.full(384, 3, np.int8).tobytes()
    cache.query("UPDATE vector SET codes = ? WHERE slot = ? RETURNING slot", (codes, slot))
    before = computed(embedded)
    reply = verified(embedded)
    assert {table for _, table in kinds(reply)} == {"vector", "vectors"}
    assert reply.chunks.embedded == 5
    assert computed(embedded) >= before + 5
    assert_vectors_are_true(embedded)
    assert verified(embedded).differences == ()


def test_the_control_an_ordinary_run_sees_none_of_it(embedded: Memory) -> None:
    spoil(embedded, "UPDATE note SET title = 'Oven' WHERE path = 'Kiln.md'")
    assert index(embedded, IndexRequest()).differences == ()
    assert embedded.sidecar is not None
    titles = embedded.sidecar.connection.execute("SELECT title FROM note ORDER BY path").fetchall()
    assert ("Oven",) in titles


def test_the_vaults_files_stay_as_they_are(indexed: Open, tmp_path: Path) -> None:
    memory = indexed(NOTES)
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in memory.vault.rglob("*")}
    spoil(memory, "DELETE FROM link")
    verified(memory)
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in memory.vault.rglob("*")} == before


def test_damaged_vectors_cost_no_note_that_is_only_away(half_away: Memory) -> None:
    index(half_away, IndexRequest())
    half_away.close()
    (half_away.folder / "embeddings.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 8192)
    reply = verified(half_away)
    assert REBUILT not in reply.degraded
    assert reply.notes.total == 120


def hide(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A folder that cannot be listed, also by root."""
    real = os.scandir

    def refuse(path: Any = ".") -> Any:
        if Path(os.fsdecode(path)) == folder:
            raise PermissionError(13, "Permission denied", str(folder))
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)


def test_files_of_a_folder_that_cannot_be_listed_are_linked_to_as_before(
    indexed: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = indexed({**NOTES, "att/pot.png": b"PNG", "Pot.md": "See ![[pot.png]].\n"})
    hide(monkeypatch, memory.vault / "att")
    reply = verified(memory)
    assert reply.differences == ()
    assert reply.degraded == ("1 file in folders that cannot be listed: not compared.",)
    spoil(memory, "UPDATE note SET title = 'Oven' WHERE path = 'Kiln.md'")
    reply = verified(memory)
    assert kinds(reply) == {("Kiln.md", "note")}
    assert reply.verified is not None
    assert not reply.verified.repaired
    assert memory.sidecar is not None
    leads = memory.sidecar.connection.execute(
        "SELECT resolved FROM link WHERE target = 'pot.png'"
    ).get
    assert leads == "att/pot.png"


def test_a_note_edited_between_the_walk_and_the_reading_did_not_change_unseen(
    open_vault: Open, far_ahead: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_vault(NOTES, clock=far_ahead)
    index(memory, IndexRequest())
    real = indexing.look
    looks: list[Any] = []

    def look_then_edit(*arguments: Any, **options: Any) -> Any:
        snapshot = real(*arguments, **options)
        if not looks:
            (memory.vault / "Clay.md").write_text("Clay from the pit, sieved three times over.\n")
        looks.append(snapshot)
        return snapshot

    monkeypatch.setattr(verifying, "look", look_then_edit)
    assert verified(memory).differences == ()


def test_an_index_that_cannot_be_put_in_place_is_not_thrown_away(
    indexed: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = indexed(NOTES)
    spoil(memory, "DELETE FROM link")
    real = Path.replace

    def interrupted(self: Path, target: Any) -> Any:
        if self.name == "index.db.new":
            raise KeyboardInterrupt
        return real(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        verified(memory)
    monkeypatch.undo()
    assert (memory.folder / "index.db.new").exists()
    assert index(memory, IndexRequest()).notes.added == 0  # the next run takes it
    assert search(memory, SearchRequest("river")).hits


def test_while_another_process_embeds_what_was_found_is_told(embedded: Memory) -> None:
    spoil(embedded, "UPDATE note SET title = 'Oven' WHERE path = 'Kiln.md'")
    with embedding_lock(embedded.folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(verifying, "LOCK_SECONDS", 0.0)
        patch.setattr(sys.modules[IndexRequest.__module__], "LOCK_SECONDS", 0.0)
        reply = verified(embedded)
    assert kinds(reply) == {("Kiln.md", "note")}
    assert any("not compared" in reason for reason in reply.degraded)


def test_wrong_rows_do_not_hide_wrong_vectors(embedded: Memory) -> None:
    spoil(embedded, "UPDATE note SET title = 'Oven' WHERE path = 'Glaze.md'")
    assert embedded.sidecar is not None
    slot = PassageVectors(embedded.sidecar).slots()[0]
    cache = embedded.open_cache()
    assert cache is not None
    codes = np.full(384, 3, np.int8).tobytes()
    cache.query("UPDATE vector SET codes = ? WHERE slot = ? RETURNING slot", (codes, slot))
    reply = verified(embedded)
    assert {table for _, table in kinds(reply)} == {"note", "vector", "vectors"}
    assert_vectors_are_true(embedded)
    assert verified(embedded).differences == ()


@pytest.mark.parametrize("how", ["no embedding", "no embedder"])
def test_where_nothing_is_to_be_embedded_no_vector_is_taken_away(
    how: str, embedded: Memory, open_vault: Open
) -> None:
    other = "(SELECT c.slot FROM chunk c JOIN note n ON n.id = c.note WHERE n.path = 'Clay.md')"
    spoil(embedded, f"UPDATE chunk SET slot = {other} WHERE trail LIKE '%Repairs%'")
    if how == "no embedding":
        reply = index(embedded, IndexRequest(verify=True, embed=False))
    else:
        embedded.close()
        wordy = open_vault(name=embedded.vault.name)
        reply = index(wordy, IndexRequest(verify=True))
        assert wordy.embedders == {}
    assert ("Kiln.md", "vector") in kinds(reply)
    assert reply.verified is not None
    assert not reply.verified.repaired
    assert embedded.open_sidecar() is not None
    assert embedded.sidecar is not None
    assert PassageVectors(embedded.sidecar).count() == 5


@pytest.mark.parametrize("embed", [True, False])
def test_vectors_that_are_gone_are_missed(embed: bool, embedded: Memory) -> None:
    embedded.close()
    (embedded.folder / "embeddings.db").unlink()
    use(embedded, Counted())
    reply = index(embedded, IndexRequest(verify=True, embed=embed))
    assert kinds(reply) == {("", "vectors")}
    assert reply.verified is not None
    assert reply.verified.repaired is embed
    if embed:
        assert_vectors_are_true(embedded)
