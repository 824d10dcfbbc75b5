"""From a delta to rows: identity, links that follow, and nothing more work than needed."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from vaultmem.index.store import SIDECAR_NAME
from vaultmem.index.update import stored_files
from vaultmem.service.application import Clock, Memory
from vaultmem.service.operations.index import IndexReply, IndexRequest, index

Open = Callable[..., Memory]
Run = Callable[[Memory], IndexReply]
Find = Callable[..., list[str]]
Rows = Callable[[Memory], dict[str, int]]
Links = Callable[[Memory], list[tuple[str, str, str | None]]]
Write = Callable[[Path, Mapping[str, str | bytes]], None]


def count(memory: Memory, statement: str) -> int:
    assert memory.sidecar is not None
    value = memory.sidecar.connection.execute(statement).get
    assert isinstance(value, int)
    return value


def chunk_ids(memory: Memory) -> set[int]:
    assert memory.sidecar is not None
    return {row[0] for row in memory.sidecar.connection.execute("SELECT id FROM chunk")}


def test_a_first_run_adds_every_note_and_counts_passages(open_vault: Open, run_index: Run) -> None:
    reply = run_index(open_vault({"a.md": "# A\n\nkiln\n\n# B\n\nclay", "b/c.md": "glaze"}))
    assert (reply.notes.total, reply.notes.added, reply.chunks.total) == (2, 2, 3)
    assert reply.problems == ()


def test_a_second_run_over_an_unchanged_vault_writes_no_row(
    open_vault: Open, run_index: Run, far_ahead: Clock
) -> None:
    memory = open_vault({"a.md": "kiln [[b]]", "b.md": "clay", "pic.png": b"x"}, clock=far_ahead)
    run_index(memory)
    memory.close()
    file = memory.folder / SIDECAR_NAME
    before = (file.read_bytes(), file.stat().st_mtime_ns)
    memory.open_sidecar()
    assert memory.sidecar is not None
    changes = memory.sidecar.connection.total_changes()
    counts = run_index(memory).notes
    assert (counts.total, counts.unchanged) == (2, 2)
    assert (counts.added, counts.changed, counts.renamed, counts.removed) == (0, 0, 0, 0)
    assert memory.sidecar.connection.total_changes() == changes
    memory.close()
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before


def test_a_run_over_young_but_equal_files_writes_no_row_either(
    open_vault: Open, run_index: Run
) -> None:
    memory = open_vault({"a.md": "kiln", "bad.md": "---\nx: [\n---\n"})
    run_index(memory)
    assert memory.sidecar is not None
    changes = memory.sidecar.connection.total_changes()
    assert run_index(memory).notes.unchanged == 2
    assert memory.sidecar.connection.total_changes() == changes


def test_a_young_note_is_trusted_once_it_has_been_read_at_a_safe_distance(
    open_vault: Open, run_index: Run, far_ahead: Clock
) -> None:
    run_index(open_vault({"a.md": "kiln"}))
    later = open_vault(clock=far_ahead)
    run_index(later)
    assert later.sidecar is not None
    state = stored_files(later.sidecar)["a.md"]
    assert state.read_ns == far_ahead.now_ns()


INDEX_AND_NAME_MODULES = """
import sys
from vaultmem.service.application import open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.settings import load_settings
by_words = {"VAULTMEM_EMBEDDER_NAME": "none"}
memory = open_memory(load_settings(sys.argv[1], sys.argv[2], environment=by_words))
counts = index(memory, IndexRequest()).notes
memory.close()
print(counts.total, counts.unchanged, "markdown_it" in sys.modules, "yaml" in sys.modules)
"""


def test_a_second_run_in_a_new_process_loads_no_parser(open_vault: Open, tmp_path: Path) -> None:
    memory = open_vault({"a.md": "---\ntags: [x]\n---\n# A\n\nkiln", "b.md": "clay"})
    command = [sys.executable, "-c", INDEX_AND_NAME_MODULES, str(memory.vault), str(tmp_path)]
    runs = [subprocess.check_output(command, text=True).split() for _ in range(2)]
    assert runs == [["2", "0", "True", "True"], ["2", "2", "False", "False"]]


def test_one_changed_note_is_the_only_one_written(
    open_vault: Open, run_index: Run, note_rows: Rows
) -> None:
    memory = open_vault({f"n{i}.md": f"kiln {i} [[n{i + 1}]]" for i in range(9)})
    run_index(memory)
    rows = note_rows(memory)
    stages: list[tuple[int, int]] = []
    (memory.vault / "n4.md").write_text("glaze now")
    memory.progress = type(memory.progress)(lambda stage, done, total: stages.append((done, total)))
    counts = run_index(memory).notes
    assert (counts.changed, counts.unchanged) == (1, 8)
    assert stages == [(0, 1), (1, 1)]
    assert note_rows(memory) == rows


def test_an_edit_keeps_the_passages_it_does_not_touch(open_vault: Open, run_index: Run) -> None:
    sections = [f"# Section {i}\n\nText {i} about kilns." for i in range(8)]
    memory = open_vault({"a.md": "\n\n".join(sections)})
    run_index(memory)
    before = chunk_ids(memory)
    sections[3] = "# Section 3\n\nNow about glaze."
    (memory.vault / "a.md").write_text("\n\n".join(sections))
    reply = run_index(memory)
    assert (reply.chunks.total, reply.chunks.reused) == (8, 7)
    assert len(chunk_ids(memory) & before) == 7


def test_a_same_size_edit_with_its_old_time_put_back_is_noticed(
    open_vault: Open, run_index: Run, find: Find, far_ahead: Clock
) -> None:
    memory = open_vault({"a.md": "kiln one"}, clock=far_ahead)
    file = memory.vault / "a.md"
    run_index(memory)
    before = file.stat()
    while file.stat().st_ctime_ns == before.st_ctime_ns:
        file.write_text("clay two")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    assert run_index(memory).notes.changed == 1
    assert (find(memory, "clay"), find(memory, "kiln")) == (["a.md"], [])


def test_a_touched_note_counts_as_unchanged_and_is_remembered(
    open_vault: Open, run_index: Run, far_ahead: Clock
) -> None:
    memory = open_vault({"a.md": "kiln"}, clock=far_ahead)
    run_index(memory)
    os.utime(memory.vault / "a.md", (1.6e9, 1.6e9))
    assert run_index(memory).notes.unchanged == 1
    assert memory.sidecar is not None
    assert stored_files(memory.sidecar)["a.md"].state.mtime_ns == 1_600_000_000 * 10**9


def test_a_renamed_note_keeps_its_row_and_its_passages(
    open_vault: Open, run_index: Run, note_rows: Rows, find: Find
) -> None:
    memory = open_vault({"old name.md": "# One\n\nkiln\n\n# Two\n\nclay", "other.md": "glaze"})
    run_index(memory)
    row, chunks = note_rows(memory)["old name.md"], chunk_ids(memory)
    (memory.vault / "sub").mkdir()
    os.rename(memory.vault / "old name.md", memory.vault / "sub" / "fresh title.md")
    counts = run_index(memory).notes
    assert (counts.renamed, counts.added, counts.removed) == (1, 0, 0)
    assert note_rows(memory)["sub/fresh title.md"] == row
    assert "old name.md" not in note_rows(memory)
    assert chunk_ids(memory) == chunks
    assert find(memory, "fresh title")[0] == "sub/fresh title.md"
    assert find(memory, '"old name"') == []


def test_a_note_moved_and_edited_keeps_its_row_by_its_identity(
    open_vault: Open, run_index: Run, note_rows: Rows
) -> None:
    memory = open_vault({"a.md": "---\nid: 7f3a\n---\nkiln", "b.md": "clay"})
    run_index(memory)
    row = note_rows(memory)["a.md"]
    (memory.vault / "a.md").unlink()
    (memory.vault / "z.md").write_text("---\nid: 7f3a\n---\nother words altogether")
    assert run_index(memory).notes.renamed == 1
    assert note_rows(memory)["z.md"] == row


def test_a_note_moved_and_edited_without_identity_is_a_new_one(
    open_vault: Open, run_index: Run
) -> None:
    memory = open_vault({"a.md": "kiln", "b.md": "clay"})
    run_index(memory)
    (memory.vault / "a.md").unlink()
    (memory.vault / "z.md").write_text("other words altogether")
    counts = run_index(memory).notes
    assert (counts.added, counts.removed, counts.renamed) == (1, 1, 0)


def test_a_case_only_rename_keeps_the_row(
    open_vault: Open, run_index: Run, note_rows: Rows
) -> None:
    memory = open_vault({"kiln.md": "fired", "x.md": "[[Kiln]]"})
    run_index(memory)
    row = note_rows(memory)["kiln.md"]
    os.rename(memory.vault / "kiln.md", memory.vault / "Kiln.md")
    assert run_index(memory).notes.renamed == 1
    assert note_rows(memory)["Kiln.md"] == row


def test_two_swapped_files_swap_their_texts(open_vault: Open, run_index: Run, find: Find) -> None:
    memory = open_vault({"a.md": "kiln", "b.md": "clay"})
    run_index(memory)
    for old, new in (("a.md", "spare"), ("b.md", "a.md"), ("spare", "b.md")):
        os.rename(memory.vault / old, memory.vault / new)
    assert run_index(memory).notes.changed == 2
    assert (find(memory, "kiln"), find(memory, "clay")) == (["b.md"], ["a.md"])


def test_backlinks_follow_a_renamed_note_that_is_still_named_so(
    open_vault: Open, run_index: Run, links: Links
) -> None:
    memory = open_vault({"kiln.md": "fired", "x.md": "[[kiln]] and [[shed/kiln]]"})
    run_index(memory)
    assert links(memory) == [("x.md", "kiln", "kiln.md"), ("x.md", "shed/kiln", None)]
    (memory.vault / "shed").mkdir()
    os.rename(memory.vault / "kiln.md", memory.vault / "shed" / "kiln.md")
    assert run_index(memory).notes.renamed == 1
    assert links(memory) == [
        ("x.md", "kiln", "shed/kiln.md"),
        ("x.md", "shed/kiln", "shed/kiln.md"),
    ]


def test_links_to_a_note_renamed_away_become_unresolved(
    open_vault: Open, run_index: Run, links: Links
) -> None:
    memory = open_vault({"kiln.md": "fired", "x.md": "[[kiln]]"})
    run_index(memory)
    os.rename(memory.vault / "kiln.md", memory.vault / "oven.md")
    run_index(memory)
    assert links(memory) == [("x.md", "kiln", None)]


@pytest.mark.parametrize("target", ["kiln.md", "pot.png"])
def test_a_link_loses_its_target_and_finds_it_again_without_being_parsed(
    target: str, open_vault: Open, run_index: Run, links: Links
) -> None:
    written = target.removesuffix(".md")
    memory = open_vault({target: "fired", "x.md": f"[[{written}]]", "y.md": "clay"})
    run_index(memory)
    assert links(memory) == [("x.md", written, target)]
    (memory.vault / target).unlink()
    assert run_index(memory).notes.changed == 0
    assert links(memory) == [("x.md", written, None)]
    (memory.vault / target).write_text("back")
    assert run_index(memory).notes.changed == 0
    assert links(memory) == [("x.md", written, target)]


def test_a_second_note_of_the_name_takes_the_link_when_it_is_nearer(
    open_vault: Open, run_index: Run, links: Links
) -> None:
    memory = open_vault({"far/away/kiln.md": "fired", "here/x.md": "[[kiln]]"})
    run_index(memory)
    assert links(memory) == [("here/x.md", "kiln", "far/away/kiln.md")]
    (memory.vault / "here" / "kiln.md").write_text("nearer")
    assert run_index(memory).notes.added == 1
    assert links(memory) == [("here/x.md", "kiln", "here/kiln.md")]


def test_an_excluded_note_still_takes_links_and_leaves_search(
    open_vault: Open, run_index: Run, links: Links, find: Find
) -> None:
    memory = open_vault(
        {"old/kiln.md": "fired", "x.md": "[[kiln]]"},
        environment={"VAULTMEM_SCAN_IGNORE": "old"},
    )
    run_index(memory)
    assert links(memory) == [("x.md", "kiln", "old/kiln.md")]
    assert find(memory, "fired") == []


def test_removing_a_note_leaves_no_row_of_it(open_vault: Open, run_index: Run) -> None:
    text = "---\naliases: [k]\ntags: [t]\nbad: 1\n---\n# H\n\n[[x]] kiln"
    memory = open_vault({"a.md": text, "b.md": "---\nx: [\n---\n[[a]]"})
    run_index(memory)
    (memory.vault / "a.md").unlink()
    run_index(memory)
    for table in ("tag", "alias"):
        assert count(memory, f"SELECT count(*) FROM {table}") == 0
    for table in ("note", "chunk", "link", "problem"):
        assert count(memory, f"SELECT count(*) FROM {table}") == 1
    assert count(memory, "SELECT count(*) FROM note_text('kiln')") == 0


def test_a_passage_may_stand_in_a_note_twice(open_vault: Open, run_index: Run, find: Find) -> None:
    same = "# Log\n\nFired the kiln.\n\n"
    memory = open_vault({"a.md": same * 3, "b.md": "clay"})
    assert run_index(memory).chunks.total == 4
    (memory.vault / "a.md").write_text(same * 2)
    assert run_index(memory).chunks.total == 3
    assert len(find(memory, "kiln", passages=True)) == 2


def test_a_note_that_cannot_be_read_is_a_problem_and_stops_no_other(
    open_vault: Open, run_index: Run, find: Find
) -> None:
    memory = open_vault(
        {"big.md": "kiln " * 100, "small.md": "kiln"},
        environment={"VAULTMEM_SCAN_MAX_NOTE_BYTES": "100"},
    )
    reply = run_index(memory)
    assert [(p.path, p.code) for p in reply.problems] == [("big.md", "note-too-large")]
    assert find(memory, "kiln") == ["small.md"]


def test_a_problem_that_was_mended_is_gone(open_vault: Open, run_index: Run) -> None:
    memory = open_vault({"a.md": "---\nx: [\n---\n", "b.md": "fine", "c.md": b"\xff\xfe\xfd"})
    assert [p.path for p in run_index(memory).problems] == ["a.md", "c.md"]
    (memory.vault / "a.md").write_text("mended")
    (memory.vault / "c.md").write_text("mended")
    assert run_index(memory).problems == ()


def test_a_rebuild_starts_from_nothing(open_vault: Open, run_index: Run) -> None:
    memory = open_vault({"a.md": "kiln", "b.md": "clay"})
    run_index(memory)
    counts = index(memory, IndexRequest(rebuild=True)).notes
    assert (counts.added, counts.unchanged) == (2, 0)


def test_the_stored_hash_is_that_of_the_file(open_vault: Open, run_index: Run) -> None:
    data = b"\xef\xbb\xbfkiln\r\nclay\r\n"
    memory = open_vault({"a.md": data})
    run_index(memory)
    assert memory.sidecar is not None
    stored = stored_files(memory.sidecar)["a.md"]
    assert (stored.sha256, stored.state.size) == (hashlib.sha256(data).hexdigest(), len(data))


def test_when_it_last_took_something_in_is_remembered_in_utc(
    open_vault: Open, run_index: Run, far_ahead: Clock
) -> None:
    memory = open_vault({"a.md": "kiln"}, clock=far_ahead)
    run_index(memory)
    assert memory.sidecar is not None
    assert memory.sidecar.meta("last_indexed") == "2101-01-01T00:00:00+00:00"
