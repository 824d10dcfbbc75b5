"""Incremental indexing equals a rebuild: edits that once made a difference.

Whole lives of a vault, with every edit there is: tests/fault/test_fault_machine.py.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from edited_texts import QUERIES

from vaultmem.service.application import Memory, open_memory
from vaultmem.service.operations.index import IndexReply, IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.settings import load_settings

Open = Callable[..., Memory]
Canon = Callable[[Memory], list[str]]


def answers(memory: Memory) -> list[list[tuple[str, float]]]:
    replies = [search(memory, SearchRequest(query)) for query in QUERIES]
    return [[(hit.path, hit.score) for hit in reply.hits] for reply in replies]


def compare_with_a_rebuild(memory: Memory, cache: Path, canon: Canon) -> None:
    """The sidecar and its answers are those of an index made from nothing."""
    fresh = open_memory(
        load_settings(memory.vault, cache, environment={"VAULTMEM_EMBEDDER_NAME": "none"}),
        clock=memory.clock,
    )
    try:
        index(fresh, IndexRequest(rebuild=True))
        assert canon(memory) == canon(fresh)
        assert answers(memory) == answers(fresh)
    finally:
        fresh.close()


Index = Callable[[Memory], IndexReply]


def test_a_touched_note_without_a_date_takes_the_day_of_its_new_time(
    open_vault: Open, run_index: Index, tmp_path: Path, canon: Canon
) -> None:
    memory = open_vault({"undated.md": "kiln"})
    os.utime(memory.vault / "undated.md", (1.5e9, 1.5e9))
    run_index(memory)
    os.utime(memory.vault / "undated.md", (1.7e9, 1.7e9))
    run_index(memory)
    compare_with_a_rebuild(memory, tmp_path / "fresh", canon)


def test_a_note_with_a_final_sigma_resolves_the_links_that_waited_for_it(
    open_vault: Open, run_index: Index, tmp_path: Path, canon: Canon
) -> None:
    memory = open_vault({"road.md": "[[ΟΔΟΣ]]"})
    run_index(memory)
    (memory.vault / "ΟΔΟΣ.md").write_text("the road")
    run_index(memory)
    compare_with_a_rebuild(memory, tmp_path / "fresh", canon)


def test_equal_notes_beyond_the_cut_rank_by_path_however_they_came(
    open_vault: Open, run_index: Index, tmp_path: Path, canon: Canon
) -> None:
    memory = open_vault({f"m{i:04}.md": "kiln" for i in range(1100)})
    run_index(memory)
    (memory.vault / "a.md").write_text("kiln")
    run_index(memory)
    compare_with_a_rebuild(memory, tmp_path / "fresh", canon)


@pytest.mark.parametrize("rule_file", ["app.json", "templates.json"])
def test_a_changed_rule_of_obsidians_own_settings_is_taken_in(
    rule_file: str, open_vault: Open, run_index: Index, tmp_path: Path, canon: Canon
) -> None:
    notes = {"Drafts/d.md": "kiln [[k]]", "k.md": "glaze [[d]]"}
    memory = open_vault(notes)
    run_index(memory)
    rules = {
        "app.json": '{"userIgnoreFilters": ["Drafts/"]}',
        "templates.json": '{"folder": "Drafts"}',
    }
    (memory.vault / ".obsidian").mkdir()
    (memory.vault / ".obsidian" / rule_file).write_text(rules[rule_file])
    run_index(memory)
    compare_with_a_rebuild(memory, tmp_path / "fresh", canon)
    (memory.vault / ".obsidian" / rule_file).unlink()
    run_index(memory)
    compare_with_a_rebuild(memory, tmp_path / "fresh", canon)
