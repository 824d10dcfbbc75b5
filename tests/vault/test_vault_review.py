"""Notes that were once misread; each is a small text and what it says."""

import json
import unicodedata
from datetime import date
from pathlib import Path
from typing import Literal

import markdown_it
import pytest

from vaultmem.model.note import Note
from vaultmem.vault.facts import KindRules, kind_rules, note_date, note_kind
from vaultmem.vault.ignore import compile_rules
from vaultmem.vault.obsidian import read_obsidian
from vaultmem.vault.parse import parse

TODAY = date(2001, 2, 3)


def note(text: str, path: str = "n.md") -> Note:
    return parse(path, text.encode())


# What the Markdown library cannot take


@pytest.mark.parametrize("text", ["> - <!-- a\n>", ">-\t<script\n>", "> 1.\t<pre>\n> \n>"])
def test_a_quotation_without_a_last_line_end_is_understood(text: str) -> None:
    found = note(text)

    assert found.problems == ()
    assert "quote" in [block.kind for block in found.blocks]
    assert found.blocks == note(text + "\n").blocks


def test_a_text_that_the_library_falls_over_is_one_problem_and_keeps_its_links(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fall_over(*_: object) -> None:
        raise IndexError("secret words of the note")

    monkeypatch.setattr(markdown_it.MarkdownIt, "parse", fall_over)
    found = note("---\ntags: [a]\n---\n# A heading\n\nSee [[B]] and #b here\n")

    (problem,) = found.problems
    assert (problem.path, problem.code) == ("n.md", "structure-unread")
    assert "IndexError" in problem.message
    assert "secret" not in problem.message
    assert (found.headings, found.blocks) == ((), ())
    assert [link.target for link in found.links] == ["B"]
    assert found.tags == ("a", "b")


# What is glued to links and code


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("[[x]]#glued #free", ("free",)),
        ("[t](x)#glued #free", ("free",)),
        ("![[x]]#glued", ()),
        ("`code`#glued #free", ("free",)),
        ("a ``b ` c``#glued", ()),
        ("[[x]] #a `y` #b", ("a", "b")),
    ],
)
def test_what_is_glued_to_a_link_or_to_code_is_no_tag(text: str, tags: tuple[str, ...]) -> None:
    assert note(text).tags == tags


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("[[y]]^glued", []),
        ("[t](y)^glued", []),
        ("`y`^glued", []),
        ("[[y]] ^a\n\n`y` ^b", ["a", "b"]),
    ],
)
def test_what_is_glued_to_a_link_or_to_code_is_no_block_id(text: str, ids: list[str]) -> None:
    assert [block_id.id for block_id in note(text).block_ids] == ids


# What is shown keeps its code


@pytest.mark.parametrize(
    ("text", "display"),
    [
        ("[`a`](b.md)", "`a`"),
        ("[use `a` now](b.md)", "use `a` now"),
        ("[[b|the `a`]]", "the `a`"),
        ("| x |\n|---|\n| [`a`](b.md) |", "`a`"),
    ],
)
def test_code_stays_in_what_a_link_shows(text: str, display: str) -> None:
    assert [link.display for link in note(text).links] == [display]


def test_code_stays_in_the_text_of_a_task() -> None:
    found = note("- [ ] run `x`\n- [x] `y` and `z`\n").tasks

    assert [task.text for task in found] == ["run `x`", "`y` and `z`"]


# The lines of links among the properties


@pytest.mark.parametrize(
    ("yaml", "found"),
    [
        (
            'related:\n  - "[[Alpha Beta]]"\n  - "[[Alpha]]"\n  - "[[Alpha]]"',
            [("Alpha Beta", 3), ("Alpha", 4), ("Alpha", 5)],
        ),
        ('parents:\n- "[[e]]"\n- "[[f]]"', [("e", 3), ("f", 4)]),
        ('a: "[[x]]"\nb: "[[x]]"', [("x", 2), ("x", 3)]),
        ('related:\n  - "[t](A%20b.md)"\n  - "[t](C.md)"', [("A b.md", 3), ("C.md", 4)]),
        ('"quoted key": x\n"up": "[[x]]"', [("x", 3)]),
        ('parents:\n- "[[Ada|Ada: first]]"\n- "[[Bo]]"', [("Ada", 3), ("Bo", 4)]),
    ],
)
def test_each_link_of_a_property_names_its_own_line(
    yaml: str, found: list[tuple[str, int]]
) -> None:
    links = note(f"---\n{yaml}\n---\n").links

    assert [(link.target, link.line) for link in links] == found


# The kind and the day of a note


@pytest.mark.parametrize(
    ("yaml", "kind"),
    [
        ("TYPE: Idea", "idea"),
        ("type: [7, null, Two Words]", "two words"),
        ('type: ["[[Concept]]"]', "concept"),
    ],
)
def test_a_type_is_the_first_text_in_any_spelling(yaml: str, kind: str) -> None:
    assert note_kind(note(f"---\n{yaml}\n---\n"), KindRules({})) == kind


def test_a_title_is_known_in_any_case() -> None:
    assert [note(f"---\n{key}: X\n---\n").title for key in ("title", "Title", "TITLE")] == ["X"] * 3


@pytest.mark.parametrize("named", ["Büro/Besuche", "BÜRO/besuche", "/büro/BESUCHE/"])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_folders_that_mean_something_are_known_in_any_spelling(
    tmp_path: Path, named: str, form: Literal["NFC", "NFD"]
) -> None:
    folder = unicodedata.normalize(form, named)
    (tmp_path / ".obsidian").mkdir()
    daily = json.dumps({"folder": folder, "format": "DD.MM.YYYY"}, ensure_ascii=False)
    (tmp_path / ".obsidian/daily-notes.json").write_text(daily, encoding="utf-8")
    obsidian = read_obsidian(tmp_path)
    day, other = note("x", "Büro/Besuche/03.05.2026.md"), note("x", "Büro/03.05.2026.md")

    plain = kind_rules(obsidian, {})
    assert (note_kind(day, plain), note_date(day, plain)) == ("daily", date(2026, 5, 3))
    assert (note_kind(other, plain), note_date(other, plain)) == ("note", None)
    assert note_kind(day, kind_rules(obsidian, {folder: "visit"})) == "visit"
    assert note_kind(day, kind_rules(obsidian, {}, templates=[folder])) == "template"
    assert note_kind(other, kind_rules(obsidian, {folder: "a"}, templates=[folder])) == "note"


@pytest.mark.parametrize("key", ["date created", "Date Created", "date-created", "Creation Date"])
def test_the_day_a_note_was_made_has_many_names(key: str) -> None:
    assert note_date(note(f"---\n{key}: 2026-05-03\n---\n")) == date(2026, 5, 3)


# Copies of sync services


@pytest.mark.parametrize(
    ("path", "copy"),
    [
        ("Plan (Anna’s conflicted copy 2026-05-03).md", True),
        ("Plan (Anna's conflicted copy 2026-05-03).md", True),
        ("Plan (MacBook Pro (2)'s conflicted copy 2026-05-03).md", True),
        ("Plan (conflicted copy MacBook Pro (2) 202605031105).md", True),
        ("deep/Plan (SFConflict user 2026-05-03-11-05-00).md", True),
        ("How to merge (conflicted copy) 2024.md", False),
        ("SFConflict 2026.md", False),
        ("On (SFConflict names).md", False),
    ],
)
def test_a_copy_is_known_by_who_made_it_and_when(tmp_path: Path, path: str, copy: bool) -> None:
    rules, _ = compile_rules(read_obsidian(tmp_path), ())

    assert (rules.reason(path) is not None) == copy


# A block id given again


def test_a_block_id_given_again_is_a_problem_of_its_line() -> None:
    found = note("one ^a\n\ntwo ^b\n\nthree ^A\n")

    (problem,) = found.problems
    assert (problem.line, problem.code) == (5, "block-id-duplicate")
    assert "line 1 " in problem.message
