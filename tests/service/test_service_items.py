"""Items end to end: found by kind and day, under every other filter, and kept up to date."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

import pytest

from vaultmem.model.hit import Hit
from vaultmem.model.note import Item
from vaultmem.service.application import Clock, Memory, open_memory
from vaultmem.service.operations.index import IndexReply, IndexRequest, index
from vaultmem.service.operations.inspect import InspectRequest, inspect
from vaultmem.service.operations.read import ReadRequest, read
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.settings import load_settings

Open = Callable[..., Memory]
Canon = Callable[[Memory], list[str]]

MAY_3 = """\
# 2026-05-03

## Work

- met Mara about the index
  - decision:: keep one database file
    - because a copy is one copy
  - had lunch
- [ ] write the minutes [due:: 2026-05-10]

> [!error]- Clients refused
> The pool was exhausted at noon.

(memory:: Mara likes calls in the morning)
"""
CHANGELOG = """\
# Changelog

## [Unreleased]

- Glaze recipes.

## [1.2.0] - 2026-05-03

### Added

- A pyrometer for the kiln.

## [1.1.0] - 2026-04-01

### Fixed

- The kiln door.
- lesson:: Hinges need grease before winter.
"""
VAULT: Mapping[str, str] = {
    "Daily/2026-05-03.md": MAY_3,
    "Daily/2026-04-01.md": "lesson:: count the sessions first\n\nRained.\n\n> [!decision]\n"
    "> fire the kiln at night\n",
    "CHANGELOG.md": CHANGELOG,
    "Projects/Kiln.md": "---\ndate: 2025-01-02\ntags: [ceramics/raku]\nstatus: open\n---\n"
    "# Kiln\n\nAn oven for pots.\n\ndecision:: 2026-02-02 buy the small kiln\n\n"
    "# Power\n\n**Volts**:: 400\n\nStatus:: running\n\nerror:: the fuse blew\n",
    "Projects/Roof.md": "---\ntype: decision\ndate: 2024-07-08\n---\nTiles instead of slate.\n\n"
    "# Reasons\n\nSlate is dear.\n",
    "ADR/Windows.md": "---\ndate: 2024-06-01\n---\nTriple glazing for the north side.\n",
    "Ideas.md": "---\ndate: 2024-01-01\n---\nA decision about the kiln must be made.\n\n"
    "This error:: is prose, and std::vector is code. `decision:: no`\n",
    "Templates/Daily.md": "decision:: {{decision}}\n\n> [!error] kiln\n",
}
SETTINGS = {
    "VAULTMEM_KINDS_FOLDERS": "ADR=decision",
    "VAULTMEM_TEMPLATES_FOLDERS": "Templates",
}


@pytest.fixture
def vault(indexed: Open) -> Memory:
    return indexed(VAULT, environment=SETTINGS)


def ask(memory: Memory, query: str = "", **options: Any) -> tuple[Hit, ...]:
    return search(memory, SearchRequest(query, **options)).hits


def told(hits: tuple[Hit, ...]) -> list[tuple[str, str, str | None, tuple[int, int]]]:
    return [(hit.path, hit.kind, hit.date, hit.lines) for hit in hits]


# --- By kind -------------------------------------------------------------------------------------


def test_a_kind_alone_lists_its_items_newest_first(vault: Memory) -> None:
    assert told(ask(vault, kinds=("decision",))) == [
        ("Daily/2026-05-03.md", "decision", "2026-05-03", (6, 7)),
        ("Daily/2026-04-01.md", "decision", "2026-04-01", (5, 6)),
        ("Projects/Kiln.md", "decision", "2026-02-02", (10, 10)),
        ("Projects/Roof.md", "decision", "2024-07-08", (5, 5)),
        ("ADR/Windows.md", "decision", "2024-06-01", (4, 4)),
    ]


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (
            "error",
            [
                ("Daily/2026-05-03.md", "error", "2026-05-03", (11, 12)),
                ("Projects/Kiln.md", "error", "2025-01-02", (18, 18)),
            ],
        ),
        ("memory", [("Daily/2026-05-03.md", "memory", "2026-05-03", (14, 14))]),
        (
            "lesson",
            [
                ("CHANGELOG.md", "lesson", "2026-04-01", (18, 18)),
                ("Daily/2026-04-01.md", "lesson", "2026-04-01", (1, 1)),
            ],
        ),
        ("episode", [("CHANGELOG.md", "episode", "2026-05-03", (7, 7))]),
        ("idea", []),
        ("", []),
        ("decisions", []),
    ],
)
def test_each_kind_has_its_own(
    vault: Memory, kind: str, found: list[tuple[str, str, str | None, tuple[int, int]]]
) -> None:
    assert told(ask(vault, kinds=(kind,))) == found
    assert told(ask(vault, f"kind:{kind}")) == found or not kind


def test_every_passage_of_a_kind_is_listed_when_asked_for(vault: Memory) -> None:
    episodes = ask(vault, kinds=("episode",), passages=True)

    assert [(hit.date, hit.heading[-1], hit.lines) for hit in episodes] == [
        ("2026-05-03", "[1.2.0] - 2026-05-03", (7, 7)),
        ("2026-05-03", "Added", (9, 11)),
        ("2026-04-01", "[1.1.0] - 2026-04-01", (13, 13)),
        ("2026-04-01", "Fixed", (15, 17)),
        ("2026-04-01", "Fixed", (18, 18)),
    ]
    assert {hit.kind for hit in episodes} == {"episode"}
    assert len(ask(vault, kinds=("decision",), passages=True)) == 6


def test_kinds_are_asked_for_in_any_case_and_several_at_once(vault: Memory) -> None:
    assert told(ask(vault, kinds=("DECISION",))) == told(ask(vault, kinds=("decision",)))
    both = ask(vault, kinds=("error", "memory"), passages=True)

    assert [(hit.kind, hit.lines) for hit in both] == [
        ("error", (11, 12)),
        ("memory", (14, 14)),
        ("error", (18, 18)),
    ]


def test_words_rank_within_a_kind(vault: Memory) -> None:
    assert told(ask(vault, "database file", kinds=("decision",)))[0] == (
        "Daily/2026-05-03.md", "decision", "2026-05-03", (6, 7),
    )  # fmt: skip
    kiln = ask(vault, "kiln", kinds=("decision",))
    assert {hit.path for hit in kiln} == {"Daily/2026-04-01.md", "Projects/Kiln.md"}
    assert {hit.kind for hit in kiln} == {"decision"}
    assert told(ask(vault, "pyrometer kind:episode")) == [
        ("CHANGELOG.md", "episode", "2026-05-03", (9, 11))
    ]
    assert ask(vault, "slate kind:episode") == ()


def test_the_note_itself_may_be_of_the_kind(vault: Memory) -> None:
    slate = ask(vault, "slate", kinds=("decision",), passages=True)
    assert sorted(told(slate)) == [
        ("Projects/Roof.md", "decision", "2024-07-08", (5, 5)),
        ("Projects/Roof.md", "decision", "2024-07-08", (7, 9)),
    ]
    assert told(ask(vault, "glazing", kinds=("decision",))) == [
        ("ADR/Windows.md", "decision", "2024-06-01", (4, 4))
    ]


def test_without_a_filter_a_hit_tells_what_the_passage_is(vault: Memory) -> None:
    hits = ask(vault, "pool exhausted", passages=True)
    assert told(hits)[0] == ("Daily/2026-05-03.md", "error", "2026-05-03", (11, 12))
    assert {hit.kind for hit in ask(vault, "lunch", passages=True)} >= {"daily"}
    assert told(ask(vault, "oven for pots"))[0][:3] == ("Projects/Kiln.md", "note", "2025-01-02")


def test_prose_code_and_templates_hold_no_items(vault: Memory) -> None:
    for kind in ("decision", "error"):
        found = {hit.path for hit in ask(vault, "kiln", kinds=(kind,))}
        assert not found & {"Ideas.md", "Templates/Daily.md"}
    assert inspect(vault, InspectRequest("Ideas")).items == ()
    assert inspect(vault, InspectRequest("Templates/Daily.md")).items == ()


# --- By day --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"after": "2026-05"}, ["Daily/2026-05-03.md"]),
        ({"after": "2026-02-02", "before": "2026-02-02"}, ["Projects/Kiln.md"]),
        ({"before": "2025"}, ["Projects/Roof.md", "ADR/Windows.md"]),
        ({"after": "2025-01-01", "before": "2025-12-31"}, []),
        ({"after": "2026-02-03", "before": "2026-04"}, ["Daily/2026-04-01.md"]),
    ],
)
def test_the_day_of_the_item_counts_and_not_that_of_its_note(
    vault: Memory, options: dict[str, Any], found: list[str]
) -> None:
    hits = ask(vault, kinds=("decision",), **options)

    assert [hit.path for hit in hits] == found
    assert [hit.date for hit in hits] == sorted((str(hit.date) for hit in hits), reverse=True)


def test_the_entries_of_one_log_are_told_apart_by_day(vault: Memory) -> None:
    april = ask(vault, "kiln", kinds=("episode",), before="2026-04-30", passages=True)
    may = ask(vault, "kiln", kinds=("episode",), after="2026-05-01", passages=True)

    assert {(hit.date, hit.heading[-1]) for hit in april} >= {("2026-04-01", "Fixed")}
    assert {hit.date for hit in april} == {"2026-04-01"}
    assert {hit.date for hit in may} == {"2026-05-03"}
    assert ask(vault, kinds=("episode",), after="2026-05-04") == ()


def test_a_passage_within_two_items_answers_for_either_by_its_own_day(indexed: Open) -> None:
    memory = indexed(
        {"Log.md": "## 2026-05-03\n\n- fired\n- decision:: 2026-04-01: cool it slowly\n  - why\n"}
    )
    for query in ("slowly", ""):
        (entry,) = ask(memory, f"{query} kind:episode after:2026-05")
        (choice,) = ask(memory, f"{query} kind:decision before:2026-04")
        assert (entry.kind, entry.date) == ("episode", "2026-05-03")
        assert (choice.kind, choice.date, choice.lines) == ("decision", "2026-04-01", (4, 5))
        assert ask(memory, f"{query} kind:decision after:2026-05") == ()
        assert ask(memory, f"{query} kind:episode before:2026-04") == ()


def test_an_item_without_a_day_has_that_of_its_note(vault: Memory) -> None:
    (hit,) = ask(vault, "fuse", kinds=("error",), after="2025-01-02", before="2025-01-02")

    assert (hit.path, hit.date) == ("Projects/Kiln.md", "2025-01-02")


def test_days_count_without_a_kind_too(vault: Memory) -> None:
    late = ask(vault, paths=("Projects",), after="2026-02-01", passages=True)
    early = ask(vault, paths=("Projects",), after="2025", before="2025")

    assert told(late) == [("Projects/Kiln.md", "decision", "2026-02-02", (10, 10))]
    assert told(early) == [("Projects/Kiln.md", "note", "2025-01-02", (6, 8))]


# --- With other filters --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"paths": ("Projects",)}, ["Projects/Kiln.md", "Projects/Roof.md"]),
        ({"paths": ("Daily/*",), "after": "2026-05-01"}, ["Daily/2026-05-03.md"]),
        ({"tags": ("ceramics",)}, ["Projects/Kiln.md"]),
        ({"tags": ("ceramics",), "paths": ("Projects",)}, ["Projects/Kiln.md"]),
        ({"tags": ("ceramics",), "paths": ("Daily",)}, []),
        ({"tags": ("ceramics",), "after": "2026-02-03"}, []),
        ({"tags": ("ceramics/raku",), "before": "2026-02-02"}, ["Projects/Kiln.md"]),
        ({"paths": ("Projects",), "before": "2024"}, ["Projects/Roof.md"]),
        ({"limit": 1}, ["Daily/2026-05-03.md"]),
    ],
)
def test_kind_path_tag_and_day_hold_together(
    vault: Memory, options: dict[str, Any], found: list[str]
) -> None:
    assert [hit.path for hit in ask(vault, kinds=("decision",), **options)] == found


def test_filters_in_the_question_are_those_of_the_request(vault: Memory) -> None:
    written = ask(vault, "small kind:decision tag:ceramics path:Projects after:2026 before:2026-02")

    assert told(written) == [("Projects/Kiln.md", "decision", "2026-02-02", (10, 10))]
    assert ask(vault, "small kind:error tag:ceramics path:Projects after:2026") == ()


def test_phrases_and_exclusions_hold_beside_a_kind(vault: Memory) -> None:
    assert [h.path for h in ask(vault, '"one copy"', kinds=("decision",))] == [
        "Daily/2026-05-03.md"
    ]
    assert [h.path for h in ask(vault, "kiln -rained", kinds=("decision",))] == ["Projects/Kiln.md"]


def test_a_note_found_as_a_whole_is_shown_by_an_item_of_the_kind(vault: Memory) -> None:
    """`lunch` stands in no passage of that kind, and the note holds one."""
    (hit,) = ask(vault, "lunch", kinds=("error",))

    assert (hit.path, hit.kind, hit.lines) == ("Daily/2026-05-03.md", "error", (11, 12))
    ranked = [channel.channel for channel in hit.evidence.channels if channel.rank is not None]
    assert "passage" not in ranked
    assert ask(vault, "lunch", kinds=("lesson",)) == ()
    assert ask(vault, "lunch", kinds=("error",), after="2026-05-04") == ()


def test_a_note_asked_for_by_name_is_shown_by_an_item_of_the_kind(vault: Memory) -> None:
    hits = ask(vault, "Kiln", kinds=("error",))

    assert told(hits)[0] == ("Projects/Kiln.md", "error", "2025-01-02", (18, 18))


# --- By meaning ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """The vault with vectors, for tests that only ask."""
    folder = tmp_path_factory.mktemp("items")
    for path, text in VAULT.items():
        (folder / "vault" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "vault" / path).write_text(text, encoding="utf-8")
    memory = open_memory(
        load_settings(
            folder / "vault",
            folder / "cache",
            environment={**SETTINGS, "VAULTMEM_EMBEDDER_NAME": "minilm"},
        ),
        clock=Clock(now_ns=lambda: 10**18, elapsed=lambda: 0.0),
    )
    index(memory, IndexRequest())
    yield memory
    memory.close()


@pytest.mark.parametrize("mode", ["keyword", "hybrid", "semantic"])
@pytest.mark.parametrize(
    ("kind", "paths"),
    [
        ("decision", {"Daily/2026-05-03.md", "Daily/2026-04-01.md", "Projects/Kiln.md",
                      "Projects/Roof.md", "ADR/Windows.md"}),
        ("error", {"Daily/2026-05-03.md", "Projects/Kiln.md"}),
        ("lesson", {"Daily/2026-04-01.md", "CHANGELOG.md"}),
        ("memory", {"Daily/2026-05-03.md"}),
        ("episode", {"CHANGELOG.md"}),
    ],
)  # fmt: skip
def test_no_mode_leaves_the_kind(embedded: Memory, mode: str, kind: str, paths: set[str]) -> None:
    for query in ("kiln", "where do we store everything", "the power supply failed"):
        hits = ask(embedded, query, mode=mode, kinds=(kind,), passages=True)
        assert {hit.path for hit in hits} <= paths
        assert mode == "keyword" or {hit.path for hit in hits} == paths
        assert {hit.kind for hit in hits} <= {kind}


@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
@pytest.mark.parametrize(
    ("query", "kind", "place"),
    [
        ("where is all the data stored", "decision", ("Daily/2026-05-03.md", (6, 7))),
        ("circuit breaker tripped", "error", ("Projects/Kiln.md", (18, 18))),
        ("no capacity left for requests", "error", ("Daily/2026-05-03.md", (11, 12))),
        ("lubricate metal parts", "lesson", ("CHANGELOG.md", (18, 18))),
    ],
)
def test_an_item_is_found_by_meaning(
    embedded: Memory, mode: str, query: str, kind: str, place: tuple[str, tuple[int, int]]
) -> None:
    best = ask(embedded, query, mode=mode, kinds=(kind,))[0]

    assert (best.path, best.lines) == place
    assert best.kind == kind


@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
def test_days_and_tags_hold_by_meaning_too(embedded: Memory, mode: str) -> None:
    for query in ("purchase of an oven", "kiln"):
        hits = ask(
            embedded, query, mode=mode, kinds=("decision",), tags=("ceramics",), after="2026-01"
        )
        assert told(hits) == [("Projects/Kiln.md", "decision", "2026-02-02", (10, 10))]
        assert not ask(embedded, query, mode=mode, kinds=("decision",), after="2026-06")


# --- What is told of a note ----------------------------------------------------------------------


def test_why_lists_the_items_of_a_note(vault: Memory) -> None:
    reply = inspect(vault, InspectRequest("2026-05-03"))

    assert reply.items == (
        Item("decision", "2026-05-03", 6, 7, "keep one database file", "field"),
        Item("error", "2026-05-03", 11, 12, "Clients refused", "callout"),
        Item("memory", "2026-05-03", 14, 14, "Mara likes calls in the morning", "field"),
    )
    assert any("decision (1), error (1), memory (1)" in reason for reason in reply.reasons)
    assert (reply.kind, reply.date) == ("daily", "2026-05-03")


def test_why_says_nothing_of_items_where_there_are_none(vault: Memory) -> None:
    reply = inspect(vault, InspectRequest("Ideas"))

    assert reply.items == ()
    assert not any("items" in reason for reason in reply.reasons)


def test_the_entries_of_a_log_are_told(vault: Memory) -> None:
    items = inspect(vault, InspectRequest("CHANGELOG")).items

    assert [(item.kind, item.date, item.first, item.last) for item in items] == [
        ("episode", "2026-05-03", 7, 11),
        ("episode", "2026-04-01", 13, 18),
        ("lesson", "2026-04-01", 18, 18),
    ]


def test_fields_read_as_properties_and_the_frontmatter_wins(vault: Memory) -> None:
    reply = read(vault, ReadRequest("Projects/Kiln.md"))

    assert reply.frontmatter == {
        "date": "2025-01-02", "tags": ["ceramics/raku"], "status": "open",
    }  # fmt: skip
    assert reply.properties == {
        **reply.frontmatter,
        "decision": "2026-02-02 buy the small kiln",
        "Volts": "400",
        "error": "the fuse blew",
    }
    assert [(field.key, field.value, field.line) for field in reply.fields] == [
        ("decision", "2026-02-02 buy the small kiln", 10),
        ("Volts", "400", 14),
        ("Status", "running", 16),
        ("error", "the fuse blew", 18),
    ]
    assert reply.text == VAULT["Projects/Kiln.md"]


def test_a_field_given_again_is_a_list(indexed: Open) -> None:
    memory = indexed({"a.md": "up:: [[B]]\n\nup:: [[C]]\n\nmood:: fine\n", "b.md": "x\n"})

    assert read(memory, ReadRequest("a")).properties == {"up": ["[[B]]", "[[C]]"], "mood": "fine"}
    assert read(memory, ReadRequest("b")).properties == {}
    assert read(memory, ReadRequest("b")).fields == ()


def test_a_field_may_tell_the_kind_and_the_day_of_a_note(indexed: Open) -> None:
    memory = indexed({"a.md": "type:: meeting\ndate:: 2026-05-03\n\nWe met.\n"})

    (hit,) = ask(memory, kinds=("meeting",), after="2026-05-03", before="2026-05-03")
    assert (hit.path, hit.kind, hit.date) == ("a.md", "meeting", "2026-05-03")


def test_links_within_fields_count(indexed: Open) -> None:
    memory = indexed({"a.md": "up:: [[B]]\n\n[lead:: [[C]]]\n", "B.md": "b\n", "C.md": "c\n"})

    assert [link.resolved for link in read(memory, ReadRequest("a")).links] == ["B.md", "C.md"]


# --- Settings ------------------------------------------------------------------------------------

GERMAN = {
    "Heute.md": "Entscheidung:: ein Ofen reicht\n\ndecision:: one kiln will do\n",
    "Logbuch.md": "---\ndate: 2020-01-01\n---\n# Logbuch\n\n## 2026-05-03\n\nOfen repariert.\n\n"
    "## Ideen\n\n## Leute\n\n## Orte\n",
}
PROTOCOL = "---\ntype: protokoll\ndate: 2020-01-01\n---\n## 2026-05-03\n\nOfen.\n\n## A\n\n## B\n"


def test_other_names_of_items_are_taken_in_at_the_next_run(open_vault: Open) -> None:
    memory = open_vault(GERMAN)
    assert [hit.lines for hit in ask(memory, kinds=("decision",))] == [(3, 3)]
    assert ask(memory, kinds=("entscheidung",)) == ()
    memory.close()

    memory = open_vault(environment={"VAULTMEM_ITEMS_KINDS": "Entscheidung"})
    assert [hit.lines for hit in ask(memory, kinds=("entscheidung",))] == [(1, 1)]
    assert ask(memory, kinds=("decision",)) == ()
    memory.close()

    memory = open_vault(environment={"VAULTMEM_ITEMS_KINDS": ""})
    assert ask(memory, kinds=("entscheidung", "decision")) == ()
    assert ask(memory, "Ofen")


def test_other_kinds_of_logs_are_taken_in_at_the_next_run(open_vault: Open) -> None:
    memory = open_vault({"Protokoll.md": PROTOCOL})
    assert ask(memory, kinds=("episode",)) == ()
    memory.close()

    memory = open_vault(environment={"VAULTMEM_KINDS_LOGS": "Protokoll"})
    assert told(ask(memory, kinds=("episode",))) == [
        ("Protokoll.md", "episode", "2026-05-03", (5, 7))
    ]
    memory.close()

    memory = open_vault(environment={"VAULTMEM_KINDS_LOGS": "protokolle"})
    assert ask(memory, kinds=("episode",)) == ()


def test_the_settings_of_the_vault_itself_count(open_vault: Open, tmp_path: Path) -> None:
    memory = open_vault({**GERMAN, "Protokolle/a.md": "- 2026-05-03 Ofen\n- x\n- y\n- z\n"})
    assert ask(memory, kinds=("episode", "entscheidung"), paths=("Protokolle", "Heute")) == ()
    memory.close()
    config = tmp_path / "vault" / ".vaultmem" / "config.toml"
    config.parent.mkdir()
    config.write_text(
        '[items]\nkinds = ["entscheidung"]\n[kinds]\nlogs = ["protokoll"]\n'
        '[kinds.folders]\nProtokolle = "protokoll"\n'
    )

    memory = open_vault()
    hits = ask(memory, kinds=("episode", "entscheidung"))
    assert {(hit.path, hit.kind) for hit in hits} >= {
        ("Protokolle/a.md", "episode"),
        ("Heute.md", "entscheidung"),
    }


# --- Kept up to date -----------------------------------------------------------------------------


def rows(memory: Memory) -> list[tuple[object, ...]]:
    """Items, fields and what passages have of them, with paths for ids."""
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    found: list[tuple[object, ...]] = []
    for table, columns in (
        ("item", "t.kind, t.date, t.first_line, t.last_line, t.text, t.origin"),
        ("field", "t.name, t.value, t.line"),
        ("chunk", "t.items, t.date, t.first_line, t.last_line, t.trail, t.text"),
    ):
        found += [
            (table, *row)
            for row in sidecar.connection.execute(
                f"SELECT n.path, t.ordinal, {columns} FROM {table} t "
                "JOIN note n ON n.id = t.note ORDER BY n.path, t.ordinal"
            )
        ]
    found += [
        ("chunk_item", *row)
        for row in sidecar.connection.execute(
            "SELECT n.path, c.ordinal, t.ordinal, t.kind, t.date FROM chunk_item t "
            "JOIN chunk c ON c.id = t.chunk JOIN note n ON n.id = c.note "
            "ORDER BY n.path, c.ordinal, t.ordinal"
        )
    ]
    orphans = "SELECT count(*) FROM chunk_item WHERE chunk NOT IN (SELECT id FROM chunk)"
    assert sidecar.connection.execute(orphans).get == 0
    return found


def assert_as_rebuilt(memory: Memory, open_vault: Open, canon: Canon) -> None:
    index(memory, IndexRequest())
    fresh = open_vault(cache="fresh", clock=memory.clock, environment=SETTINGS)
    index(fresh, IndexRequest(rebuild=True))
    assert rows(memory) == rows(fresh)
    assert canon(memory) == canon(fresh)
    for kind in ("decision", "error", "lesson", "memory", "episode"):
        assert told(ask(memory, kinds=(kind,), passages=True, limit=100)) == told(
            ask(fresh, kinds=(kind,), passages=True, limit=100)
        )
    fresh.close()


def test_edits_of_items_leave_what_a_rebuild_would_make(
    vault: Memory, open_vault: Open, canon: Canon
) -> None:
    daily, log = vault.vault / "Daily/2026-05-03.md", vault.vault / "CHANGELOG.md"
    changelog = CHANGELOG.replace("2026-05-03", "2026-05-09")
    edits: list[Callable[[], object]] = [
        lambda: daily.write_text(MAY_3 + "\nlesson:: write it down\n"),
        lambda: daily.write_text("above\n\n" + MAY_3),
        lambda: daily.write_text(MAY_3.replace("decision::", "lesson::")),
        lambda: daily.write_text(MAY_3.replace("decision:: ", "decision: ")),
        lambda: daily.write_text(MAY_3.replace("# 2026-05-03", "# 2026-05-08")),
        lambda: daily.write_text(MAY_3.replace("  - decision", "- decision")),
        lambda: daily.write_text(MAY_3.replace("[!error]-", "[!memory]+")),
        lambda: log.write_text(changelog),
        lambda: log.write_text(changelog.replace("## [1.1.0] - 2026-04-01", "## [1.1.0]")),
        lambda: log.write_text(CHANGELOG + "\n## [1.0.0] - 2026-01-01\n\n- All.\n"),
        lambda: log.rename(log.with_name("Notes.md")),
        lambda: log.with_name("Notes.md").rename(vault.vault / "ADR" / "Log.md"),
        lambda: (vault.vault / "Projects/Kiln.md").rename(vault.vault / "ADR/Kiln.md"),
        lambda: daily.rename(vault.vault / "Templates" / "Old.md"),
        lambda: (vault.vault / "Templates/Daily.md").rename(vault.vault / "Filled.md"),
        lambda: (vault.vault / "Daily/2026-04-01.md").unlink(),
    ]
    seen = [rows(vault)]
    for edit in edits:
        edit()
        assert_as_rebuilt(vault, open_vault, canon)
        seen.append(rows(vault))
    assert all(before != after for before, after in pairwise(seen))


LINES = (
    "decision:: keep {n}", "- error:: lost {n}", "  - lesson:: look {n}", "> [!memory] M {n}",
    "> text {n}", "## 2026-05-{d:02}", "### 2026-04-{d:02} {n}", "# T", "- 2026-05-{d:02} x",
    "", "", "text {n}", "text {n}", "[mood:: {n}] (decision:: {n})", "```", "Paragraph {n}. " * 30,
)  # fmt: skip


def test_any_edits_of_a_note_with_items_leave_what_a_rebuild_would_make(
    vault: Memory, open_vault: Open, canon: Canon
) -> None:
    random = Random(11)
    file = vault.vault / "Work log.md"
    lines: list[str] = []

    def line() -> str:
        return random.choice(LINES).format(n=random.randrange(50), d=random.randrange(1, 29))

    for step in range(25):
        for _ in range(random.randrange(1, 6)):
            at = random.randrange(len(lines) + 1)
            change = random.choice(["add", "add", "add", "drop", "swap"]) if lines else "add"
            if change == "add":
                lines[at:at] = [line() for _ in range(random.randrange(1, 4))]
            elif change == "drop":
                del lines[at : at + 2]
            else:
                other = random.randrange(len(lines))
                lines[other], lines[at - 1] = lines[at - 1], lines[other]
        file.write_text("\n".join(lines))
        if step % 5 == 4:
            file.rename(file := file.with_name(random.choice(["Notes.md", f"{step} log.md"])))
        assert_as_rebuilt(vault, open_vault, canon)
    assert len(inspect(vault, InspectRequest(file.name)).items) > 3


def test_an_item_that_only_moves_keeps_its_passage(vault: Memory) -> None:
    file = vault.vault / "Daily/2026-05-03.md"

    def ids() -> dict[str, int]:
        sidecar = vault.open_sidecar()
        assert sidecar is not None
        return dict(sidecar.connection.execute("SELECT key, id FROM chunk WHERE items > 0"))

    before = ids()
    file.write_text(MAY_3.replace("# 2026-05-03\n", "# 2026-05-03\n\nA cold morning.\n"))
    index(vault, IndexRequest())
    assert ids() == before
    assert told(ask(vault, kinds=("error",)))[0][3] == (13, 14)


def test_a_passage_of_the_same_text_changes_its_kind(vault: Memory) -> None:
    """What surrounds a passage may turn it into an item without a change of its own text."""
    file = vault.vault / "Loose.md"
    file.write_text("## 2026-05-03\n\nfired\n\n## Ideas\n\nx\n\n## People\n\ny\n")
    index(vault, IndexRequest())
    assert {hit.kind for hit in ask(vault, "path:Loose.md", passages=True)} == {"note"}
    file.rename(file.with_name("Loose log.md"))
    index(vault, IndexRequest())

    hits = ask(vault, 'path:"Loose log.md"', passages=True)
    assert {(hit.kind, hit.date) for hit in hits} >= {("episode", "2026-05-03")}
    assert {hit.kind for hit in hits} == {"episode", "note"}


def test_a_search_takes_in_a_new_item(vault: Memory) -> None:
    (vault.vault / "New.md").write_text("> [!lesson] Ask twice\n")

    assert "New.md" in {hit.path for hit in ask(vault, "ask twice", kinds=("lesson",))}


def test_a_canvas_card_holds_items(vault: Memory) -> None:
    card = {"id": "a", "type": "text", "text": "# Plan\n\nlesson:: glue dries slowly", "x": 0}
    (vault.vault / "Board.canvas").write_text(json.dumps({"nodes": [card], "edges": []}))

    (hit,) = ask(vault, "glue", kinds=("lesson",))
    assert (hit.path, hit.kind) == ("Board.canvas", "lesson")


# --- Nothing is touched --------------------------------------------------------------------------


def look(folder: Path) -> dict[str, tuple[object, ...]]:
    seen: dict[str, tuple[object, ...]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        found = path.lstat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        seen[path.as_posix()] = (
            digest, found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns,
            found.st_ctime_ns, found.st_nlink, found.st_uid, found.st_gid,
        )  # fmt: skip
    return seen


def test_files_with_items_stay_as_they_are(open_vault: Open) -> None:
    memory = open_vault(VAULT, environment=SETTINGS)
    (memory.vault / "crlf.md").write_bytes(b"\xef\xbb\xbfdecision:: x\r\n\r\n> [!error] y\r\n> z")
    for path in memory.vault.rglob("*.md"):
        os.chmod(path, 0o444)
    before = look(memory.vault)

    index(memory, IndexRequest())
    for kind in ("decision", "error", "episode"):
        assert ask(memory, kinds=(kind,))
        assert ask(memory, "kiln pool", kinds=(kind,), passages=True)
    assert read(memory, ReadRequest("Kiln")).fields
    assert inspect(memory, InspectRequest("CHANGELOG")).items
    assert len(inspect(memory, InspectRequest("crlf")).items) == 2
    index(memory, IndexRequest(rebuild=True))

    assert look(memory.vault) == before


def test_a_run_without_changes_writes_nothing(
    vault: Memory, run_index: Callable[[Memory], IndexReply]
) -> None:
    before = rows(vault)
    reply = run_index(vault)

    assert (reply.notes.added, reply.notes.changed, reply.notes.removed) == (0, 0, 0)
    assert rows(vault) == before


@pytest.mark.parametrize("query", ["kiln", ""])
def test_a_kind_is_found_in_time_that_grows_with_the_items(indexed: Open, query: str) -> None:
    memory = indexed({"a.md": "".join(f"- decision:: kiln {n}\n" for n in range(3000))})
    start = process_time()
    hits = search(memory, SearchRequest(query, kinds=("decision",), passages=True)).hits
    assert process_time() - start < 0.5
    assert {hit.kind for hit in hits} == {"decision"}


def test_a_word_elsewhere_in_the_note_makes_a_weak_hit(indexed: Open) -> None:
    long = "# A\n\nglaze glaze\n\n" + "text " * 300 + "\n\ndecision:: use oak\n\n# B\n\nx\n"
    memory = indexed({"long.md": long, "other.md": "decision:: glaze them\n\n" + "x y " * 100})
    weak = {h.path: h.weak for h in search(memory, SearchRequest("glaze kind:decision")).hits}
    assert weak == {"other.md": False, "long.md": True}
