"""Which notes are logs, what their entries hold, and which day an item has."""

from datetime import date
from time import process_time

import pytest

from vaultmem.model.note import Item, Note
from vaultmem.vault.chunk import chunk_note
from vaultmem.vault.facts import KindRules, note_date, note_kind
from vaultmem.vault.items import find_items
from vaultmem.vault.parse import parse

RULES = KindRules({}, logs=("log",), items=("decision", "error", "lesson"))


def note(text: str, path: str = "n.md") -> Note:
    return parse(path, text.encode())


def fields(text: str) -> list[tuple[str, str]]:
    return [(field.key, field.value) for field in note(text).fields]


def items(text: str, path: str = "n.md") -> list[Item]:
    found = note(text, path)
    return list(find_items(found, RULES, note_kind(found, RULES)))


def days(text: str, path: str = "n.md") -> list[str | None]:
    return [item.date for item in items(text, path)]


# 1. Code in a value, in a title


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("decision:: use `WAL` mode", [("decision", "use `WAL` mode")]),
        ("decision:: `WAL`", [("decision", "`WAL`")]),
        ("We use [mode:: `WAL`] here", [("mode", "`WAL`")]),
        ("a `code` decision:: x", []),
    ],
)
def test_code_stays_in_a_value(text: str, found: list[tuple[str, str]]) -> None:
    assert fields(text) == found


def test_code_stays_in_a_title() -> None:
    assert [c.title for c in note("> [!error] `npm ci` fails\n").callouts] == ["`npm ci` fails"]
    assert [item.text for item in items("decision:: `WAL`\n")] == ["`WAL`"]


def test_a_code_span_over_lines_moves_no_field() -> None:
    text = "`a\nb` said\n\n`a\nb` [k:: v]\nk:: w `c\nd`\n"
    assert [(f.key, f.line) for f in note(text).fields] == [("k", 5), ("k", 6)]


# 2. What people write around the colons


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("%%decision:: hidden%%", [("decision", "hidden")]),
        ("%% decision:: hidden %%", [("decision", "hidden")]),
        ("==Decision==:: x", [("Decision", "x")]),
        ("up::[[Home]]", [("up", "[[Home]]")]),
        ("- parents::[[Home]]", [("parents", "[[Home]]")]),
        ("決定::一つにする", [("決定", "一つにする")]),
        ("決定：：する", []),
        ("[決定::する]", [("決定", "する")]),
        ("decision:: x ^d1", [("decision", "x")]),
        ("decision:: x (by:: Mara)", [("decision", "x (by:: Mara)"), ("by", "Mara")]),
        ("decision:: x %%why%%", [("decision", "x %%why%%")]),
        ("[**key**:: v]", [("key", "v")]),
        ("std::vector", []),
        ("n::= term", []),
        ("Vault name. can be reduced to ::", []),
        ("What is the capital of France? :: Paris", []),
        ("First this, then that:: x", []),
        ("使い方。書式は key:: value", []),
        ("$f :: a$", []),
    ],
)
def test_what_is_a_field(text: str, found: list[tuple[str, str]]) -> None:
    assert fields(text) == found


# 3. Callouts


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("> [!error|right] T\n> x\n", (1, 2)),
        ("- > [!error] T\n  > x\n- > y\n", (1, 2)),
        ("1. > [!error]- T\n   > x\n\ny\n", (1, 2)),
    ],
)
def test_callouts(text: str, lines: tuple[int, int]) -> None:
    assert [(i.kind, i.text, (i.first, i.last)) for i in items(text)] == [("error", "T", lines)]


@pytest.mark.parametrize("line", ["Met (decision:: x) y\n", "a [decision:: x] b ", "> error:: x\n"])
def test_many_fields_of_one_paragraph_cost_little(line: str) -> None:
    found = note(line * 40_000)
    items = find_items(found, RULES, "note")
    start = process_time()
    assert len(chunk_note(found, max_pieces=180, items=items)) > 1000
    assert process_time() - start < 2


# 4. An item's own day


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("decision:: postpone the launch to 2026-09-01", "2026-05-03"),
        ("decision:: moved to [[2026-09-01]]", "2026-05-03"),
        ("> [!error]\n> since 2020-01-01 this fails", "2026-05-03"),
        ("> [!decision] Pay before 2026-09-01\n> x", "2026-05-03"),
        ("decision:: x [date:: 2026-05-04]", "2026-05-04"),
        ("decision:: x (date:: 2026-05-04)", "2026-05-04"),
        ("decision:: [2026-05-04] x", "2026-05-04"),
        ("decision:: x (2026-05-04).", "2026-05-04"),
        ("## Until 2026-12-31\n\ndecision:: x", "2026-12-31"),
        ("## 2026-12-31 is the last day\n\ndecision:: x", "2026-12-31"),
        ("## From 2026-12-01 on\n\ndecision:: x", "2026-05-03"),
    ],
)
def test_the_day_of_an_item_is_no_day_it_speaks_of(text: str, day: str) -> None:
    found = [item for item in items(f"# 2026-05-03\n\n{text}\n") if item.origin != "entry"]
    assert [item.date for item in found] == [day]


# 5. Logs


def test_a_withdrawn_version_is_an_entry() -> None:
    assert days("## [1.0.1] - 2026-05-03 [YANKED]\n\n- x\n", "CHANGELOG.md") == ["2026-05-03"]


def test_versions_of_several_ranks_are_entries() -> None:
    text = (
        "# [2.0.0](https://e.org/2) (2026-05-03)\n\n### Features\n\n* a\n\n"
        "## [1.1.0](https://e.org/1) (2026-04-01)\n\n### Bug Fixes\n\n* b\n"
    )
    assert [(i.date, i.first, i.last) for i in items(text, "CHANGELOG.md")] == [
        ("2026-05-03", 1, 5),
        ("2026-04-01", 7, 11),
    ]


@pytest.mark.parametrize("title", ["Changelog (last change 2026-05-09)", "Changes to 2026-05-09"])
def test_a_dated_title_is_no_entry(title: str) -> None:
    text = f"# {title}\n\n## 1.1.0 - 2026-05-03\n\na\n\n## 1.0.0 - 2026-04-01\n\nb\n"
    assert days(text, "CHANGELOG.md") == ["2026-05-03", "2026-04-01"]


@pytest.mark.parametrize("form", ["{}", "**{}**", "[[{}]]", "*{}*:"])
def test_what_follows_a_paragraph_that_is_a_day_belongs_to_it(form: str) -> None:
    text = "".join(
        f"{form.format(f'2026-05-0{n}')}\n\nFired.\n\n- a\n- b\n\nCooled.\n\n" for n in (3, 4, 5)
    )
    found = [(item.date, item.first, item.last) for item in items(text)]
    expected = [("2026-05-03", 1, 8), ("2026-05-04", 10, 17), ("2026-05-05", 19, 26)]
    assert found == expected


@pytest.mark.parametrize(
    "name", ["Tagebuch", "Logbuch", "Änderungsprotokoll", "更新日志", "🆕 本库更新日志", "変更履歴",
             "CHANGES"]
)  # fmt: skip
def test_names_of_logs(name: str) -> None:
    assert days("## 2026-05-03\n\nx\n\n## A\n\n## B\n", f"{name}.md") == ["2026-05-03"]


@pytest.mark.parametrize("heading", ["📅 2026-05-03 – Montag", '"2026-05-03" x', "1.0 2026-05-03:"])
def test_dated_headings(heading: str) -> None:
    assert days(f"## {heading}\n\nx\n", "Log.md") == ["2026-05-03"]


@pytest.mark.parametrize(
    "text",
    [
        "# P\n\n## Meetings\n\n- [[2026-05-03 Kickoff]]\n- [[2026-05-10 Review]]\n"
        "- [[2026-05-17 Retro]]\n",
        "- [[2026-05-03]]\n- [[2026-05-04]]\n- [[2026-05-05]]\n",
        "- ![[2026-05-03]]\n- ![[2026-05-04]]\n- ![[2026-05-05]]\n",
        "- [2026-05-03](D/2026-05-03.md)\n- [2026-05-04](D/2026-05-04.md)\n"
        "- [2026-05-05](D/2026-05-05.md)\n",
        "[[2026-05-03 A]]\n\n[[2026-05-04 B]]\n\n[[2026-05-05 C]]\n",
        "- [ ] 2026-06-01 pay\n- [ ] 2026-06-02 call\n- [ ] 2026-07-01 file\n",
        "# P\n\nOne.\n\nTwo.\n\nThree.\n\nFour.\n\n## Milestones\n\n- 2026-05-03 kickoff\n"
        "- 2026-06-03 beta\n- 2026-07-03 launch\n",
        "- 1982-01-02 Ben\n- 1980-03-04 Anna\n- 2010-12-24 Carla\n- 1950-01-01 Dora\n",
    ],
)
def test_what_is_no_log(text: str) -> None:
    assert items(text) == []


@pytest.mark.parametrize("said", ["82.4", "😀", "…", "–5 °"])
def test_a_few_signs_say_something(said: str) -> None:
    text = "".join(f"1. 2026-05-0{n} {said}\n" for n in (3, 4, 5))
    assert days(text) == ["2026-05-03", "2026-05-04", "2026-05-05"]
    assert days(text.replace(f" {said}", "")) == []


def test_a_link_with_something_below_it_is_an_entry() -> None:
    text = "".join(f"- [[2026-05-0{n}]]\n  - fired\n" for n in (3, 4, 5))
    assert days(text + "- [[2026-05-06]]\n") == ["2026-05-03", "2026-05-04", "2026-05-05"]


# 6. Fields of the note as a whole


@pytest.mark.parametrize(
    "text",
    [
        "- [ ] pay [created:: 2026-04-01] [due:: 2026-06-01]\n",
        "- [ ] created:: 2026-04-01\n",
        "Met (date:: 2026-04-01) at the kiln.\n",
        "# A\n\ndate:: 2026-04-01\n\n# B\n\ndate:: 2026-04-02\n",
    ],
)
def test_a_field_of_a_sentence_or_a_task_is_not_the_note_s_day(text: str) -> None:
    assert note_date(note(text, "2026-05-03.md")) == date(2026, 5, 3)


@pytest.mark.parametrize(
    "text", ["- [ ] pay [type:: chore]\n", "Kant (type:: book).\n", "type:: novel\n\ntype:: poem\n"]
)
def test_nor_its_kind(text: str) -> None:
    assert note_kind(note(text), RULES) == "note"


# 7. Items by their place


def test_an_empty_field_means_what_stands_below_it() -> None:
    text = "- decision::\n  - keep one file\n  - and copy it\n- error::\n"
    assert items(text) == [Item("decision", None, 1, 3, "keep one file", "field")]


def test_a_field_in_a_heading_is_of_its_text() -> None:
    text = "# A\n\n## Kiln [decision:: ship it]\n\n" + "word " * 400 + "\n\n### C\n\nx\n"
    found = note(text)
    (item,) = find_items(found, RULES, "note")
    assert (item.first, item.last) == (3, 5)
    chunks = chunk_note(found, max_pieces=180, items=(item,))
    kinds = [[kind for kind, _ in chunk.items] for chunk in chunks]
    assert kinds == [[], *[["decision"]] * (len(chunks) - 2), []]
    assert all(chunk.first_line <= item.last for chunk in chunks if chunk.items)


def test_a_heading_cut_off_from_its_item_is_none() -> None:
    text = "## A heading of some words\n\n- decision:: " + "many words are here " * 8
    found = note(text)
    chunks = chunk_note(found, max_pieces=40, items=find_items(found, RULES, "note"))
    assert "decision" not in chunks[0].text
    assert [bool(chunk.items) for chunk in chunks] == [False, *[True] * (len(chunks) - 1)]
