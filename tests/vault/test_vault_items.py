"""Items of a note: fields and callouts of chosen names, and the dated entries of a log."""

import json
from collections.abc import Callable
from datetime import date, timedelta
from itertools import combinations
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.model.note import Item, Note
from vaultmem.vault.facts import KindRules, note_kind
from vaultmem.vault.items import MAX_ITEM_CHARS, find_items
from vaultmem.vault.parse import parse

RULES = KindRules(
    {"logs": "log"},
    ("Templates",),
    logs=("changelog", "journal", "log"),
    items=("decision", "error", "lesson", "memory"),
)


def note(text: str, path: str = "n.md") -> Note:
    return parse(path, text.encode("utf-8", "surrogatepass"))


def items(text: str, path: str = "n.md", rules: KindRules = RULES) -> list[Item]:
    found = note(text, path)
    return list(find_items(found, rules, note_kind(found, rules)))


def places(text: str, path: str = "n.md") -> list[tuple[str, str | None, int, int]]:
    """(kind, day, first line, last line) of each item."""
    return [(item.kind, item.date, item.first, item.last) for item in items(text, path)]


def days(text: str, path: str = "n.md") -> list[str | None]:
    return [item.date for item in items(text, path)]


def shown(text: str, path: str = "n.md") -> list[str]:
    return [item.text for item in items(text, path)]


# --- Fields --------------------------------------------------------------------------------------


def test_a_field_of_a_chosen_name_is_an_item() -> None:
    (item,) = items("# Plan\n\ndecision:: keep one file\n")

    assert item == Item("decision", None, 3, 3, "keep one file", "field")


@pytest.mark.parametrize("name", ["decision", "error", "lesson", "memory"])
def test_every_chosen_name_makes_items(name: str) -> None:
    assert places(f"{name}:: x\n\n> [!{name}] y\n") == [(name, None, 1, 1), (name, None, 3, 3)]


@pytest.mark.parametrize("text", ["Decision:: x", "**DECISION**:: x", "> [!Decision] x"])
def test_names_are_chosen_in_any_case(text: str) -> None:
    assert [item.kind for item in items(text)] == ["decision"]


def test_the_names_are_those_of_the_settings() -> None:
    rules = KindRules({}, items=("entscheidung", "open question"))
    text = "Entscheidung:: ja\n\ndecision:: no\n\nOpen question:: why?\n\n> [!entscheidung] so\n"

    assert [item.kind for item in items(text, rules=rules)] == [
        "entscheidung",
        "open question",
        "entscheidung",
    ]


def test_without_names_there_are_none() -> None:
    assert items("decision:: x\n\n> [!error] y\n", rules=KindRules({})) == []


@pytest.mark.parametrize(
    "text",
    [
        "decision::",
        "decision: keep one file",
        "The decision: keep one file.",
        "The decision was hard:: very",
        "decisions:: x",
        "decision maker:: Mara",
        "`decision:: x`",
        "```\ndecision:: x\n```",
        "    decision:: x",
        "decision::before",
        "---\ndecision:: x\n---\n",
        "---\ndecision: x\n---\n",
        "# Decision\n\nWe keep one file.",
        "#decision",
        "- [ ] decision",
        "[[decision:: x",
        "[!decision] x",
        "> [decision] x",
        "> decision",
        "```\n> [!decision] x\n```",
        "> [!decisions] x",
        "> [!note] decision",
        "> text [!decision] x",
    ],
)
def test_what_only_speaks_of_one_is_no_item(text: str) -> None:
    assert items(text) == []


def test_a_list_item_takes_what_stands_below_it() -> None:
    text = (
        "- met Bo\n"
        "  - decision:: keep one file\n"
        "    - it is easy to copy\n"
        "    - it is easy to back up\n"
        "\n"
        "      and to read\n"
        "\n"
        "  - and went home\n"
        "- lesson:: ask first\n"
    )

    assert places(text) == [("decision", None, 2, 6), ("lesson", None, 9, 9)]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("- decision:: x\n  goes on\n- y\n", (1, 2)),
        ("1. decision:: x\n   1. y\n2. z\n", (1, 2)),
        ("- [x] decision:: x\n\t- y\n- z\n", (1, 2)),
        ("> - decision:: x\n>   - y\n> - z\n", (1, 2)),
        ("- decision:: x\n  ```\n  code\n  ```\n", (1, 4)),
        ("- decision:: x\n\n\n\nparagraph\n", (1, 1)),
        ("- decision:: x", (1, 1)),
        ("- a\n- decision:: x\n  - b\n    - c\n- d\n", (2, 4)),
        ("- we agreed [decision:: x]\n  - y\n", (1, 2)),
        ("- a\n\n  decision:: x\n\n  b\n", (3, 3)),
        ("decision:: x\nbecause\n", (1, 2)),
        ("decision:: x\n\nnext\n", (1, 1)),
        ("text\ndecision:: x\ntext\n", (2, 3)),
        ("text\ndecision:: x\nmood:: y\ntext\n", (2, 2)),
        ("We met (decision:: x) and left.\n", (1, 1)),
        ("We met\n(decision:: x)\nand left.\n\nHome.\n", (1, 3)),
        ("| a | b |\n|---|---|\n| c | [decision:: x] |\n| d | e |\n\nx\n", (1, 4)),
    ],
)
def test_the_lines_of_a_field(text: str, lines: tuple[int, int]) -> None:
    assert [(item.first, item.last) for item in items(text)] == [lines]


def test_several_fields_of_one_line_are_several_items() -> None:
    found = items("- [x] ship [decision:: now] (lesson:: test it) [due:: 2026-05-03]\n")

    assert [(item.kind, item.text, item.first) for item in found] == [
        ("decision", "now", 1),
        ("lesson", "test it", 1),
    ]


def test_the_text_of_an_item_is_one_line_and_not_too_long() -> None:
    (item,) = items("decision::  keep \t one   file " + "and more " * 100)

    assert item.text.startswith("keep one file and more and")
    assert len(item.text) == MAX_ITEM_CHARS


# --- Callouts ------------------------------------------------------------------------------------


def test_a_callout_of_a_chosen_name_is_an_item() -> None:
    (item,) = items(
        "# Log\n\n> [!error] The pool is full\n> Restart it.\n>\n> Then count.\n\nend\n"
    )

    assert item == Item("error", None, 3, 6, "The pool is full", "callout")


@pytest.mark.parametrize(
    ("text", "title", "lines"),
    [
        ("> [!error]- Shut\n> x\n", "Shut", (1, 2)),
        ("> [!error]+ Open\n> x\n", "Open", (1, 2)),
        ("> [!error]\n> what happened\n> and why\n", "what happened and why", (1, 3)),
        ("> [!error]-\n> - what\n> - why\n", "- what - why", (1, 3)),
        ("> [!error] T", "T", (1, 1)),
        ("> [!error] T\n", "T", (1, 1)),
        ("> [!error] T\n> x", "T", (1, 2)),
        (">[!error]T\n>x\n", "T", (1, 2)),
        ("text\n\n> [!error] T\n> ```\n> # code\n> ```\n\ntext\n", "T", (3, 6)),
        ("- item\n  > [!error] T\n  > x\n- item\n", "T", (2, 3)),
        ("  > [!error] T\n  > x\n", "T", (1, 2)),
        ("> quote\n>\n> > [!error] T\n> > x\n>\n> quote\n", "T", (3, 4)),
        ("> [!note] N\n> x\n> > [!error] T\n> > > y\n> > z\n>\n> n\n", "T", (3, 5)),
        ("- > [!error] T\n  > x\n- y\n", "T", (1, 2)),
        ("> - > [!error] T\n>   > x\n> - y\n", "T", (1, 2)),
        ("> [!error|right] T\n> x\n", "T", (1, 2)),
        ("> [!error] `npm ci` fails\n> x\n", "`npm ci` fails", (1, 2)),
        ("> [!error] T\n> > [!note] N\n> > x\n> y\n", "T", (1, 4)),
        ("> [!error] エラー\n> 直した\n", "エラー", (1, 2)),
    ],
)
def test_the_title_and_the_lines_of_a_callout(
    text: str, title: str, lines: tuple[int, int]
) -> None:
    assert [(item.text, (item.first, item.last)) for item in items(text)] == [(title, lines)]


@pytest.mark.parametrize("between", ["\n", "\n\n\n", "\ntext\n\n"])
def test_callouts_that_follow_each_other_are_apart(between: str) -> None:
    found = items(f"> [!error] A\n> a\n{between}> [!lesson] B\n> b\n")

    below = between.count("\n")
    assert [(item.kind, item.text, item.first, item.last) for item in found] == [
        ("error", "A", 1, 2),
        ("lesson", "B", 3 + below, 4 + below),
    ]


def test_a_mark_within_a_quotation_opens_no_callout() -> None:
    assert places("> [!error] A\n> a\n> [!lesson] B\n> b\n") == [("error", None, 1, 4)]
    assert places("> text\n> [!lesson] B\n") == []


def test_items_may_stand_within_each_other() -> None:
    text = "> [!error] Pool\n>\n> decision:: restart it\n>\n> > [!lesson] Count\n> > x\n>\n> end\n"

    assert places(text) == [
        ("error", None, 1, 8),
        ("decision", None, 3, 3),
        ("lesson", None, 5, 6),
    ]


# --- Days ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("decision:: 2026-05-03 keep one file", "2026-05-03"),
        ("decision:: 2026-05-03: keep one file", "2026-05-03"),
        ("decision:: [[2026-05-03]] keep one file", "2026-05-03"),
        ("decision:: keep one file (2026-05-03)", "2026-05-03"),
        ("> [!decision] 2026-05-03 Keep one file\n> x", "2026-05-03"),
        ("> [!decision] Keep one file (2026-05-03)\n> x", "2026-05-03"),
        ("> [!decision]\n> 2026-05-03: keep one file", "2026-05-03"),
        ("decision:: 2026-02-30 keep one file", None),
        ("decision:: 12026-05-03 keep one file", None),
        ("decision:: keep one file", None),
    ],
)
def test_an_item_may_give_its_own_day(text: str, day: str | None) -> None:
    assert days(text) == [day]


@pytest.mark.parametrize(
    ("above", "day"),
    [
        ("# 2026-05-03\n", "2026-05-03"),
        ("# 2026-05-03\n\n## Work\n", "2026-05-03"),
        ("# 2026-05-03\n\n## Work\n\n### Pool\n", "2026-05-03"),
        ("# Notes\n\n## Call (2026-05-03)\n", "2026-05-03"),
        ("# 2026-05-03\n\n# Other\n", None),
        ("# 2026-05-03\n\n## 2026-05-04\n", "2026-05-04"),
        ("# 2026-05-03\n\n## 2026-05-04\n\n## Rest\n", "2026-05-03"),
        ("## 2026-05-04\n\n# Rest\n", None),
        ("# 2026-13-03\n", None),
        ("", None),
    ],
)
@pytest.mark.parametrize("item", ["decision:: x\n", "> [!error] x\n", "- lesson:: x\n"])
def test_an_item_has_the_day_of_the_heading_above(above: str, day: str | None, item: str) -> None:
    found = [entry for entry in items(above + "\n" + item) if entry.origin != "entry"]

    assert [entry.date for entry in found] == [day]


def test_its_own_day_beats_that_of_the_heading() -> None:
    assert days("# 2026-05-04\n\ndecision:: 2026-05-03 x\n\nerror:: y\n") == [
        "2026-05-03",
        "2026-05-04",
    ]


def test_an_item_within_an_entry_has_its_day() -> None:
    text = "- 2026-05-03 call\n  - decision:: x\n- 2026-05-04 call\n  - error:: y\n- lesson:: z\n"

    assert places(text, "Work log.md") == [
        ("episode", "2026-05-03", 1, 2),
        ("decision", "2026-05-03", 2, 2),
        ("episode", "2026-05-04", 3, 4),
        ("error", "2026-05-04", 4, 4),
        ("lesson", None, 5, 5),
    ]


# --- Logs: headings ------------------------------------------------------------------------------

CHANGELOG = """\
# Changelog

All notable changes to this project.

## [Unreleased]

- Nothing yet since 2026-05-03.

## [1.2.0] - 2026-05-03

### Added

- A kiln.

### Fixed

- The 2026-01-01 bug.

## [1.1.0] - 2026-04-01

### Removed

- The oven.

## [1.0.0] - 2026-01-09

- First release.

[1.2.0]: https://example.org/compare/v1.1.0...v1.2.0
"""


@pytest.mark.parametrize("path", ["CHANGELOG.md", "Versions.md"])
def test_the_versions_of_a_changelog_are_episodes(path: str) -> None:
    assert items(CHANGELOG, path) == [
        Item("episode", "2026-05-03", 9, 17, "[1.2.0] - 2026-05-03", "entry"),
        Item("episode", "2026-04-01", 19, 23, "[1.1.0] - 2026-04-01", "entry"),
        Item("episode", "2026-01-09", 25, 29, "[1.0.0] - 2026-01-09", "entry"),
    ]


@pytest.mark.parametrize(
    "heading",
    [
        "## [1.2.0] - 2026-05-03",
        "## 1.2.0 (2026-05-03)",
        "## v1.2.0 — 2026-05-03",
        "## Version 1.2.0, 2026-05-03",
        "## [1.2.0](https://example.org/v1.2.0) (2026-05-03)",
        "## 2026-05-03",
        "## 2026-05-03 Sunday",
        "## 2026-05-03: The pool",
        "## 2026-05-03 – Montag",
        "## 2026-05-03 10:30",
        "## 2026-05-03T10:30:00Z",
        "## [[2026-05-03]]",
        "## [[2026-05-03|Sunday]]",
        "## [2026-05-03]",
        "## (2026-05-03)",
        "## **2026-05-03**",
        "## Sunday, 2026-05-03",
        "## Call with Mara 2026-05-03",
        "## 📅 2026-05-03",
        "## 2026-05-03 修正",
        "## 2026-05-03 to 2026-05-09",
        "## 2026-05-03 ##",
        "2026-05-03\n----------",
    ],
)
def test_a_dated_heading_of_a_log_is_an_entry(heading: str) -> None:
    found = items(f"# Log\n\n{heading}\n\nThe pool was full.\n", "Log.md")

    assert [(item.kind, item.date, item.first) for item in found] == [("episode", "2026-05-03", 3)]
    assert found[0].last == 5 + heading.count("\n")


@pytest.mark.parametrize(
    "heading",
    [
        "## 1.2.0",
        "## May 2026",
        "## 2026-05",
        "## 2026-02-30",
        "## 20260503",
        "## 12026-05-03",
        "## 2026-05-031",
        "## Since 2026-05-03 the pool is full",
        "## Build x2026-05-03",
    ],
)
def test_a_heading_without_a_day_is_none(heading: str) -> None:
    assert items(f"# Log\n\n{heading}\n\nThe pool was full.\n", "Log.md") == []


def test_days_below_months_are_the_entries() -> None:
    text = (
        "# Journal\n\n## May 2026\n\n### 2026-05-03 Sunday\n\na\n\n### 2026-05-04\n\nb\n\n"
        "## June 2026\n\n### 2026-06-01\n\nc\n\n#### Evening\n\nd\n"
    )

    assert places(text, "Journal.md") == [
        ("episode", "2026-05-03", 5, 7),
        ("episode", "2026-05-04", 9, 11),
        ("episode", "2026-06-01", 15, 21),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "Changelog", "CHANGELOG", "change log", "Project change-log", "Kiln changelog", "Log",
        "Work log", "work_log", "Kiln-Log", "Logbook", "Journal", "Garden Journal", "History",
        "Release notes", "release-notes",
    ],
)  # fmt: skip
def test_a_name_makes_a_log(name: str) -> None:
    text = "# T\n\n## 2026-05-03\n\nfired\n\n## Plans\n\n## Ideas\n\n## People\n"

    assert days(text, f"deep/er/{name}.md") == ["2026-05-03"]


@pytest.mark.parametrize(
    "name", ["Catalog", "Blog", "Dialog", "Logs", "Logic", "Prologue", "Journals", "Logo", "n"]
)
def test_other_names_do_not(name: str) -> None:
    text = "# T\n\n## 2026-05-03\n\nfired\n\n## Plans\n\n## Ideas\n\n## People\n"

    assert items(text, f"Log/{name}.md") == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("---\ntype: journal\n---\n# 2026-05-03\n\nx\n", "a.md"),
        ("---\ntype: ChangeLog\n---\n## 2026-05-03\n\nx\n", "a.md"),
        ("# 2026-05-03\n\nx\n", "Logs/a.md"),
        ("- 2026-05-03 x\n", "Logs/a.md"),
        ("2026-05-03 x\n", "Logs/a.md"),
    ],
)
def test_a_kind_makes_a_log(text: str, path: str) -> None:
    assert days(text, path) == ["2026-05-03"]
    assert items(text, path, KindRules({"logs": "log"}, logs=())) == []


# --- Logs: lists and paragraphs ------------------------------------------------------------------


def test_dated_list_items_are_entries_with_what_stands_below() -> None:
    text = (
        "# Kiln\n\n- 2026-05-03: fired at noon\n  - it held\n- **2026-05-04** – cooled\n\n"
        "  slowly\n- [[2026-05-05]] opened it\n"
    )

    assert places(text) == [
        ("episode", "2026-05-03", 3, 4),
        ("episode", "2026-05-04", 5, 7),
        ("episode", "2026-05-05", 8, 8),
    ]
    assert shown(text)[0] == "- 2026-05-03: fired at noon"


@pytest.mark.parametrize("marker", ["- ", "* ", "+ ", "1. ", "1) ", "- [x] "])
def test_any_list_may_hold_the_entries(marker: str) -> None:
    text = "".join(f"{marker}2026-05-0{n} fired\n" for n in (3, 4, 5))

    assert days(text) == ["2026-05-03", "2026-05-04", "2026-05-05"]


def test_dated_paragraphs_are_entries() -> None:
    text = "# Kiln\n\n2026-05-03 fired\nat noon\n\n2026-05-04 cooled\n\n**2026-05-05** opened\n"

    assert [day for _, day, _, _ in places(text)] == ["2026-05-03", "2026-05-04", "2026-05-05"]
    assert places(text)[0] == ("episode", "2026-05-03", 3, 4)


def test_headings_win_over_lists_and_lists_over_paragraphs() -> None:
    headings = "".join(f"## 2026-05-0{n}\n\n- 2026-01-0{n} x\n\n" for n in (3, 4, 5))
    lists = "2026-01-01 x\n\n- 2026-05-03 a\n- 2026-05-04 b\n- 2026-05-05 c\n"

    assert days(headings, "Log.md") == ["2026-05-03", "2026-05-04", "2026-05-05"]
    assert days(lists, "Log.md") == ["2026-05-03", "2026-05-04", "2026-05-05"]


def test_german_and_japanese_logs() -> None:
    german = "# Werkstatt\n\n- 2026-05-03: Ofen repariert\n- 2026-05-04: Töpfe glasiert\n"
    japanese = "# 作業\n\n- 2026-05-03 窯を直した\n- 2026-05-04 器を焼いた\n"
    more = "- 2026-05-05 …\n"

    assert items(german) == items(japanese) == []
    assert days(german + more) == days(japanese + more) == [
        "2026-05-03", "2026-05-04", "2026-05-05",
    ]  # fmt: skip


# --- What is no log ------------------------------------------------------------------------------


def sections(*names: str, level: int = 2) -> str:
    return "# Title\n\n" + "".join(f"{'#' * level} {name}\n\nSome text.\n\n" for name in names)


@pytest.mark.parametrize(
    "text",
    [
        sections("2026-05-03", "2026-05-04"),
        sections("2026-05-03", "Goals", "2026-05-10", "People", "2026-05-17", "Risks", "Budget"),
        sections("Since 2026-05-03", "Since 2026-05-04 again", "From 2026-05-05 on"),
        sections("Goals", "People", "Risks") + "Due 2026-05-03, 2026-05-04 and 2026-05-05.\n",
        "- Anna: 1980-03-04\n- Ben, 1982-01-02\n- Carla 2010-12-24\n",
        "- Anna was born on 1980-03-04\n- Ben on 1982-01-02\n- Carla on 2010-12-24\n",
        "- 2026-05-03 a\n- 2026-05-04 b\n",
        "- 2026-05-03 a\n- 2026-05-04 b\n- 2026-05-05 c\n- d\n- e\n- f\n- g\n",
        "- a\n  - 2026-05-03\n  - 2026-05-04\n  - 2026-05-05\n",
        "> - 2026-05-03 a\n> - 2026-05-04 b\n> - 2026-05-05 c\n",
        "```\n- 2026-05-03 a\n- 2026-05-04 b\n- 2026-05-05 c\n```\n",
        "```\n# 2026-05-03\n# 2026-05-04\n# 2026-05-05\n```\n",
        "| 2026-05-03 | a |\n|---|---|\n| 2026-05-04 | b |\n| 2026-05-05 | c |\n",
        "---\na: 2026-05-03\nb: 2026-05-04\nc: 2026-05-05\n---\ntext\n",
        "The call of 2026-05-03.\n\nThe call of 2026-05-04.\n\nThe call of 2026-05-05.\n",
        "2026-05-03 a\n\nb\n\nc\n\n2026-05-04 d\n\ne\n\nf\n\n2026-05-05 g\n\nh\n",
        "2026-05-03 a\n2026-05-04 b\n2026-05-05 c\n",
        "- from 2026-05-03\n- from 2026-05-04\n- from 2026-05-05\n",
        "- report-2026-05-03.pdf\n- report-2026-05-04.pdf\n- report-2026-05-05.pdf\n",
        "- 2026-02-30 a\n- 2026-02-31 b\n- 2026-13-01 c\n",
        "- 10:30 a\n- 11:30 b\n- 12:30 c\n",
        "- 3. Mai\n- 4. Mai\n- 5. Mai\n",
    ],
)
def test_a_note_that_speaks_of_days_is_no_log(text: str) -> None:
    assert items(text) == []


def test_a_daily_note_is_no_log_for_its_title() -> None:
    text = "# 2026-05-03\n\n## Work\n\nCall.\n\n## Home\n\nFired the kiln.\n"

    assert items(text, "2026-05-03.md") == []


def test_half_of_three_headings_of_a_rank_must_be_dated() -> None:
    dated = ("2026-05-03", "2026-05-04", "2026-05-05")

    assert days(sections(*dated, "A", "B", "C")) == list(dated)
    assert days(sections(*dated, "A", "B", "C", "D")) == []


def test_a_template_holds_no_items() -> None:
    text = "decision:: {{decision}}\n\n> [!error] {{title}}\n\n## 2026-05-03\n"

    assert items(text, "Templates/Changelog.md") == []
    counted = KindRules({}, ("Templates",), templates_apart=False, items=("decision",))
    assert [item.kind for item in items(text, "Templates/t.md", counted)] == ["decision"]


def test_a_canvas_has_items_and_is_no_log() -> None:
    texts = ["decision:: one", "- a\n- error:: two\n  - why", "> [!lesson] L\n> l", "> not its own"]
    texts += [f"## 2026-05-0{n}\n\nx" for n in (3, 4, 5)]
    nodes = [
        {"id": str(n), "type": "text", "text": text, "x": 0, "y": n * 100}
        for n, text in enumerate(texts)
    ]
    data = json.dumps({"nodes": nodes, "edges": []})
    found = note(data, "Journal.canvas")
    rows = found.text.split("\n")

    assert [
        (item.kind, "\n".join(rows[item.first - 1 : item.last]))
        for item in find_items(found, RULES, "canvas")
    ] == [
        ("decision", "decision:: one"),
        ("error", "- error:: two\n  - why"),
        ("lesson", "> [!lesson] L\n> l"),
    ]


# --- Any text ------------------------------------------------------------------------------------

pieces = st.sampled_from(
    [
        "decision:: keep it", "- error:: lost", "  - lesson:: look", "> [!memory] M", ">> [!error]",
        "> text", ">> more", "## 2026-05-03", "### [1.0.0] - 2026-05-04", "# T", "- 2026-05-05 x",
        "  - 2026-05-06", "2026-05-07 y", "- [ ] t [decision:: d]", "```", "%%", "$$", "", "text",
        "    code", "1. a", "   b", "| a | (lesson:: c) |", "|---|---|", "<div>", "---", "===",
    ]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.lists(pieces, max_size=40).map("\n".join), st.sampled_from(["n.md", "Log.md", "Logs/n.md"])
)
def test_items_lie_in_the_note_in_order_and_do_not_cross(text: str, path: str) -> None:
    found = items(text, path)
    rows = text.split("\n")
    assert [item.first for item in found] == sorted(item.first for item in found)
    for item in found:
        assert 1 <= item.first <= item.last <= len(rows)
        assert rows[item.first - 1].strip()
        assert rows[item.last - 1].strip()
        assert item.date is None or date.fromisoformat(item.date)
        assert item.kind in ("episode", *RULES.items)
    for a, b in combinations([item for item in found if item.origin == "entry"], 2):
        assert a.last < b.first or b.last <= a.last


def day(number: int) -> str:
    return (date(2000, 1, 1) + timedelta(number)).isoformat()


@pytest.mark.parametrize(
    ("write", "count"),
    [
        (lambda n: "decision:: x\n\n", 10_000),
        (lambda n: "- decision:: x\n", 10_000),
        (lambda n: "> [!error] x\n> y\n\n", 10_000),
        (lambda n: ">> [!error] x\n\n" if n % 2 else "> [!lesson] y\n>\n", 10_000),
        (lambda n: f"## h{n}\n\ndecision:: x\n\n", 5_000),
        (lambda n: f"## {day(n)}\n\ndecision:: x\n\n", 5_000),
        (lambda n: f"- {day(n)} x\n  - decision:: y\n", 5_000),
        (lambda n: f"{day(n)} x\n\n", 10_000),
        (lambda n: "- decision:: x\n" if n == 0 else "  - lesson:: y\n", 10_000),
        (lambda n: "[decision:: x] ", 20_000),
        (lambda n: "  " * n + "- decision:: x\n", 600),
        (lambda n: "#" * (n % 6 + 1) + f" {day(n)}\n", 10_000),
    ],
    ids=lambda value: None if callable(value) else str(value),
)
def test_the_time_to_find_items_grows_with_their_number(
    write: Callable[[int], str], count: int
) -> None:
    found = note("".join(write(n) for n in range(count)))
    start = process_time()

    assert len(find_items(found, RULES, "note")) >= count // 6
    assert process_time() - start < 1
