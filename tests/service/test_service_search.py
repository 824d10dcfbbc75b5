"""search: hits that say where they are, how sure they are, and whether they are current."""

import os
from collections.abc import Callable
from itertools import count

import pytest

from vaultmem.model.errors import UsageError, VaultEmpty
from vaultmem.service.application import Clock, Memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchReply, SearchRequest, search
from vaultmem.service.operations.status import StatusRequest, status

Open = Callable[..., Memory]
Find = Callable[..., list[str]]

NOTE = (
    "---\ntitle: The Kiln\n---\nBefore.\n\n# Use\n\nDaily.\n\n## Firing\n\nFire the kiln to 1200.\n"
)


def test_a_hit_says_where_it_is(indexed: Open) -> None:
    memory = indexed({"shed/kiln.md": NOTE, "b.md": "clay"}, name="My vault")
    (hit,) = search(memory, SearchRequest("fire 1200")).hits
    assert (hit.path, hit.title) == ("shed/kiln.md", "The Kiln")
    assert hit.heading == ("Use", "Firing")
    assert hit.lines == (10, 12)
    assert hit.snippet == "## Firing Fire the kiln to 1200."
    assert hit.kind == "note"
    assert (hit.weak, hit.stale) == (False, False)
    assert hit.uri == "obsidian://open?vault=My%20vault&file=shed%2Fkiln.md%23Firing"


def test_one_hit_a_note_unless_every_passage_is_asked_for(indexed: Open) -> None:
    memory = indexed({"a.md": "# A\n\nkiln\n\n# B\n\nkiln\n\n# C\n\nclay"})
    assert len(search(memory, SearchRequest("kiln")).hits) == 1
    hits = search(memory, SearchRequest("kiln", passages=True)).hits
    assert {hit.heading for hit in hits} == {("A",), ("B",), ("C",)}
    assert {hit.heading for hit in hits[:2]} == {("A",), ("B",)}


def test_the_number_of_hits_is_asked_for_or_set(open_vault: Open, find: Find) -> None:
    memory = open_vault(
        {f"n{i:02}.md": "kiln" for i in range(20)}, environment={"VAULTMEM_SEARCH_LIMIT": "4"}
    )
    assert len(find(memory, "kiln")) == 4
    assert len(find(memory, "kiln", limit=7)) == 7
    assert len(find(memory, "kiln", limit=10**9)) == 20


@pytest.mark.parametrize(
    "request_",
    [
        SearchRequest("kiln", limit=0),
        SearchRequest("kiln", limit=-1),
        SearchRequest("kiln", mode="fuzzy"),
        SearchRequest("kiln", after="tomorrow"),
        SearchRequest("kiln", before="2026-02-30"),
    ],
    ids=["zero", "negative", "mode", "after", "before"],
)
def test_a_request_that_makes_no_sense_is_named(request_: SearchRequest, indexed: Open) -> None:
    with pytest.raises(UsageError):
        search(indexed({"a.md": "kiln"}), request_)


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "graph"])
def test_a_mode_that_needs_vectors_says_that_there_are_none(mode: str, indexed: Open) -> None:
    reply = search(indexed({"a.md": "kiln"}), SearchRequest("kiln", mode=mode))
    assert reply.mode == "keyword"
    assert "embedder.name is none" in reply.degraded[-1]
    assert [hit.path for hit in reply.hits] == ["a.md"]


def test_evidence_names_channels_and_words(indexed: Open) -> None:
    memory = indexed({"a.md": "kiln and clay", "b.md": "glaze"})
    (hit,) = search(memory, SearchRequest("kiln clay copper")).hits
    assert hit.evidence.matched == ("kiln", "clay")
    assert hit.evidence.missing == ("copper",)
    assert 0 < hit.evidence.coverage < 1
    assert [channel.channel for channel in hit.evidence.channels] == ["passage", "window", "note"]
    assert hit.evidence.channels[0].rank == 1


def test_the_only_passage_of_a_note_lends_its_score_to_window_and_note(indexed: Open) -> None:
    memory = indexed({"one.md": "kiln", "more.md": "# A\n\nkiln\n\n# B\n\nclay"})
    lent = {
        hit.path: [channel.lent for channel in hit.evidence.channels]
        for hit in search(memory, SearchRequest("kiln")).hits
    }
    assert lent == {"one.md": [False, True, True], "more.md": [False, False, False]}


def test_a_hit_that_holds_little_of_the_question_is_weak(indexed: Open) -> None:
    memory = indexed({f"n{i}.md": "kiln" for i in range(5)} | {"rare.md": "kiln copper"})
    hits = search(memory, SearchRequest("kiln zinc lead tin")).hits
    assert hits
    assert all(hit.weak for hit in hits)
    assert not search(memory, SearchRequest("kiln copper")).hits[0].weak


def test_a_first_search_makes_the_index(open_vault: Open, find: Find) -> None:
    memory = open_vault({"a.md": "kiln"})
    assert find(memory, "kiln") == ["a.md"]


def test_a_search_in_an_empty_folder_says_so(open_vault: Open) -> None:
    with pytest.raises(VaultEmpty):
        search(open_vault({"pic.png": b"x"}), SearchRequest("kiln"))


def edited(memory: Memory) -> SearchReply:
    (memory.vault / "a.md").write_text("The kiln is cold and another line follows.")
    (memory.vault / "new.md").write_text("a new kiln")
    return search(memory, SearchRequest("kiln"))


def test_a_search_takes_in_what_changed(indexed: Open) -> None:
    reply = edited(indexed({"a.md": "kiln"}))
    assert [hit.path for hit in reply.hits] == ["new.md", "a.md"]
    assert reply.degraded == ()
    assert not any(hit.stale for hit in reply.hits)


def test_a_search_that_may_not_look_says_so_and_marks_stale_hits(indexed: Open) -> None:
    memory = indexed(
        {"a.md": "kiln", "b.md": "kiln"}, environment={"VAULTMEM_SEARCH_REFRESH": "never"}
    )
    reply = edited(memory)
    assert [(hit.path, hit.stale) for hit in reply.hits] == [("a.md", True), ("b.md", False)]
    assert "search.refresh" in reply.degraded[0]
    assert reply.hits[0].snippet == "kiln"


def test_a_note_whose_file_is_gone_is_no_hit_and_leaves_its_place_to_the_next(
    indexed: Open, find: Find
) -> None:
    memory = indexed(
        {"a.md": "kiln kiln kiln", "b.md": "a kiln and more", "c.md": "a kiln and other things"},
        environment={"VAULTMEM_SEARCH_REFRESH": "never"},
    )
    assert find(memory, "kiln", limit=2) == ["a.md", "b.md"]
    (memory.vault / "a.md").unlink()
    assert find(memory, "kiln", limit=2) == ["b.md", "c.md"]


def test_a_touched_file_with_the_same_bytes_is_not_stale(indexed: Open) -> None:
    memory = indexed({"a.md": "kiln"}, environment={"VAULTMEM_SEARCH_REFRESH": "never"})
    os.utime(memory.vault / "a.md", (1, 1))
    assert not search(memory, SearchRequest("kiln")).hits[0].stale


def slow_clock() -> Clock:
    """A clock by which everything takes a second."""
    ticks = count()
    return Clock(now_ns=lambda: 10**18, elapsed=lambda: float(next(ticks)))


def test_a_look_before_a_search_is_bounded_and_says_so(open_vault: Open) -> None:
    memory = open_vault({"a.md": "kiln", "x/b.md": "clay", "y/c.md": "clay"}, clock=slow_clock())
    index(memory, IndexRequest())
    (memory.vault / "x/new.md").write_text("a new kiln")
    reply = search(memory, SearchRequest("kiln"))
    assert [hit.path for hit in reply.hits] == ["a.md"]
    assert "Not all of the vault was looked at" in reply.degraded[0]
    assert "vaultmem index" in reply.degraded[0]


def test_looks_that_are_cut_short_come_round_to_every_folder(open_vault: Open) -> None:
    folders = [f"{letter}/{number}" for letter in "abc" for number in range(3)]
    memory = open_vault({f"{folder}/old.md": "clay" for folder in folders}, clock=slow_clock())
    index(memory, IndexRequest())
    for folder in folders:
        (memory.vault / folder / "new.md").write_text("a kiln")
    seen: set[str] = set()
    for _ in range(2 * len(folders)):
        reply = search(memory, SearchRequest("kiln", limit=50))
        seen |= {hit.path for hit in reply.hits}
    assert len(seen) == len(folders)


def test_what_there_is_no_time_to_take_in_is_counted(open_vault: Open) -> None:
    memory = open_vault({"a.md": "kiln"}, clock=slow_clock())
    index(memory, IndexRequest())
    for number in range(200):
        (memory.vault / f"new {number}.md").write_text("a new kiln")
    reply = search(memory, SearchRequest("kiln", limit=500))
    assert 1 < len(reply.hits) < 201
    assert f"{201 - len(reply.hits)} changed notes are not taken in yet" in reply.degraded[0]
    index(memory, IndexRequest())
    assert len(search(memory, SearchRequest("kiln", limit=500)).hits) == 201


def test_a_slow_vault_is_looked_at_when_the_setting_says_always(open_vault: Open) -> None:
    memory = open_vault(
        {"a.md": "kiln"}, clock=slow_clock(), environment={"VAULTMEM_SEARCH_REFRESH": "always"}
    )
    index(memory, IndexRequest())
    reply = edited(memory)
    assert {hit.path for hit in reply.hits} == {"a.md", "new.md"}
    assert reply.degraded == ()


def test_a_vault_that_has_vanished_is_searched_from_what_is_known(indexed: Open) -> None:
    memory = indexed({"a.md": "kiln"})
    (memory.vault / "a.md").unlink()
    reply = search(memory, SearchRequest("kiln"))
    assert [(hit.path, hit.stale) for hit in reply.hits] == [("a.md", True)]
    assert "no Markdown note" in reply.degraded[0]
    assert status(memory, StatusRequest()).notes == 1


def test_filters_alone_list_notes_newest_first(indexed: Open, find: Find) -> None:
    memory = indexed(
        {
            "2026-01-02.md": "one #log",
            "2026-03-04.md": "two #log",
            "other.md": "three",
        }
    )
    assert find(memory, "tag:log") == ["2026-03-04.md", "2026-01-02.md"]
    assert find(memory, "", tags=("log",)) == ["2026-03-04.md", "2026-01-02.md"]
    assert find(memory, "") == []
