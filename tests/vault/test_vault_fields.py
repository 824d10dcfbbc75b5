"""`key:: value` in the text of a note: what is a field, what is not, and what it says."""

import json
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.model.note import Note
from vaultmem.vault.parse import parse


def note(text: str, path: str = "n.md") -> Note:
    return parse(path, text.encode("utf-8", "surrogatepass"))


def fields(text: str) -> list[tuple[str, str]]:
    return [(field.key, field.value) for field in note(text).fields]


def lines(text: str) -> list[tuple[str, int]]:
    return [(field.key, field.line) for field in note(text).fields]


# --- A line of its own ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("decision:: use one file", ("decision", "use one file")),
        ("Decision:: use one file", ("Decision", "use one file")),
        ("decision::   use   one file  ", ("decision", "use   one file")),
        ("decision:: see http://e.org/a::b", ("decision", "see http://e.org/a::b")),
        ("address:: fe80::1", ("address", "fe80::1")),
        ("due date:: 2026-05-03", ("due date", "2026-05-03")),
        ("due  date:: 2026-05-03", ("due date", "2026-05-03")),
        ("due_date:: 2026-05-03", ("due_date", "2026-05-03")),
        ("next-step:: call Mara", ("next-step", "call Mara")),
        ("home/garden:: weeds", ("home/garden", "weeds")),
        ("12:: twelve", ("12", "twelve")),
        ("Stimmung:: müde, aber froh", ("Stimmung", "müde, aber froh")),
        ("Größe:: 1,80 m", ("Größe", "1,80 m")),
        ("決定:: 一つのファイルにする", ("決定", "一つのファイルにする")),
        ("решение:: один файл", ("решение", "один файл")),
        ("😀:: good", ("😀", "good")),
        ("🎯 goal:: ship", ("🎯 goal", "ship")),
        ("up:: [[Home]], [[Work|Office]]", ("up", "[[Home]], [[Work|Office]]")),
        ("source:: [a book](Books/a.md)", ("source", "[a book](Books/a.md)")),
        ("status:: #open", ("status", "#open")),
        ("rating:: 4: good", ("rating", "4: good")),
        ("rating::\tfour", ("rating", "four")),
    ],
)
def test_a_field_on_a_line_of_its_own(text: str, found: tuple[str, str]) -> None:
    assert fields(text) == [found]


@pytest.mark.parametrize(
    "text",
    [
        "- decision:: x",
        "* decision:: x",
        "+ decision:: x",
        "1. decision:: x",
        "12) decision:: x",
        "- [ ] decision:: x",
        "- [x] decision:: x",
        "> decision:: x",
        "> > decision:: x",
        "> - decision:: x",
        "- outer\n  - decision:: x",
        "- outer\n\n  decision:: x",
        "1. outer\n   - decision:: x",
        "> [!note]\n> decision:: x",
        "- q\n  > decision:: x",
        "- [!] decision:: x",
        "- [?] decision:: x",
    ],
)
def test_marks_of_lists_tasks_and_quotations_stand_before_a_field(text: str) -> None:
    assert fields(text) == [("decision", "x")]


@pytest.mark.parametrize(
    "text",
    [
        "**Decision**:: x",
        "**Decision::** x",
        "__Decision__:: x",
        "*Decision*:: x",
        "_Decision_:: x",
        "~~Decision~~:: x",
        "***Decision***:: x",
        "- **Decision**:: x",
        "> **Decision**:: x",
        "**Decision** :: x",
    ],
)
def test_emphasis_is_no_part_of_a_key(text: str) -> None:
    assert fields(text) == [("Decision", "x")]


@pytest.mark.parametrize("text", ["decision::", "decision:: ", "decision:: \t", "**decision**::"])
def test_a_field_may_have_no_value_yet(text: str) -> None:
    assert fields(text) == [("decision", "")]


def test_the_line_after_a_field_is_not_its_value() -> None:
    assert fields("decision:: one file\nbecause it is easy to copy\n") == [("decision", "one file")]


def test_emphasis_within_a_value_stays() -> None:
    assert fields("decision:: use **one** file") == [("decision", "use **one** file")]


# --- Within a line -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("We meet [due:: 2026-05-03] at noon", [("due", "2026-05-03")]),
        ("We meet (due:: 2026-05-03) at noon", [("due", "2026-05-03")]),
        ("- [ ] pay the rent [due:: 2026-05-03]", [("due", "2026-05-03")]),
        (
            "- [x] pay [due:: 2026-05-03] [paid:: 2026-05-02] (by:: Mara)",
            [("due", "2026-05-03"), ("paid", "2026-05-02"), ("by", "Mara")],
        ),
        ("with [lead:: [[Mara Lindqvist]] and Bo] there", [("lead", "[[Mara Lindqvist]] and Bo")]),
        ("with [lead:: [Mara](People/Mara.md)] there", [("lead", "[Mara](People/Mara.md)")]),
        ("a (note:: of (nested) brackets) b", [("note", "of (nested) brackets")]),
        ("[a:: 1][b:: 2]", [("a", "1"), ("b", "2")]),
        ("[due date:: 2026-05-03]", [("due date", "2026-05-03")]),
        ("[🎯:: ship it]", [("🎯", "ship it")]),
        ("[決定:: する]", [("決定", "する")]),
        ("- [empty:: ]", [("empty", "")]),
        ("## Kiln [status:: hot]", [("status", "hot")]),
        ("| who | [role:: cook] |", [("role", "cook")]),
    ],
)
def test_fields_within_a_line(text: str, found: list[tuple[str, str]]) -> None:
    assert fields(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "[due:: 2026-05-03",
        "(due:: 2026-05-03",
        "[due:: 2026-05-03)",
        "(due:: 2026-05-03]",
        "[due:: [2026-05-03]",
        "[due:: 2026\n05-03]",
        "[due: 2026-05-03]",
        "[::]",
        "[:: x]",
        "[due::2026-05-03]",
    ],
)
def test_a_bracket_that_is_not_closed_or_names_nothing_is_no_field(text: str) -> None:
    assert fields(text) == []


# --- What is none --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "std::vector",
        "std::vector<int> of std::pair",
        "Use std::move and std::forward here.",
        "System.out::println",
        "crate::vault::parse(path)",
        "Foo::Bar:: baz",
        "::",
        " :: ",
        ":: x",
        "::1",
        "- ::",
        "a ::: b",
        "a:::",
        "text::text",
        "fe80::1%eth0 is the router",
        "2001:db8::8a2e:370:7334",
        "see http://e.org/a::b for more",
        "see http://e.org/a::b:: for more",
        "12:30:: lunch",
        "time: 12:: x",
        "::before and ::after are pseudo-elements",
        "a = b[::2]",
        "a[1::2] and a[::-1]",
        "n ::= term",
        "n::= term",
        "Definition: a thing",
        "He said: no.",
        '"decision":: x',
        "<b>decision</b>:: x",
        "{decision}:: x",
        "#tag:: x",
        "| decision:: x | y |",
        "-:: x",
        "---:: x",
        "Press :smile:: to open",
        "\\decision:: x",
    ],
)
def test_two_colons_alone_make_no_field(text: str) -> None:
    assert fields(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "```\ndecision:: x\n```",
        "```dataview\nLIST decision:: x\n```",
        "~~~\ndecision:: x\n~~~",
        "    decision:: x",
        "\tdecision:: x",
        "- list\n\n  ```\n  decision:: x\n  ```",
        "> ```\n> decision:: x\n> ```",
        "`decision:: x`",
        "text `[decision:: x]` text",
        "``a ` decision:: x``",
        "---\nnote: 'decision:: x'\n---\n",
        "---\ndecision:: x\n---\n",
    ],
)
def test_nothing_in_code_or_properties_is_a_field(text: str) -> None:
    assert fields(text) == []


def test_a_code_span_beside_a_field_hides_nothing_else() -> None:
    assert fields("`std::vector` [note:: fast]") == [("note", "fast")]


def test_a_key_has_at_most_about_sixty_signs() -> None:
    assert fields("k" * 50 + ":: v") == [("k" * 50, "v")]
    assert fields("k" * 70 + ":: v") == []
    assert fields("[" + "k" * 70 + ":: v]") == []


@pytest.mark.parametrize("mark", ["%%", "$$"])
def test_a_field_in_a_block_that_readers_do_not_see_disturbs_no_other(mark: str) -> None:
    keys = [key for key, _ in fields(f"a:: 1\n\n{mark}\nhidden:: 2\n{mark}\n\nb:: 3\n")]

    assert (keys[0], keys[-1]) == ("a", "b")


# --- Lines ---------------------------------------------------------------------------------------


def test_a_field_names_its_line() -> None:
    text = "---\na: b\n---\n# T\n\none:: 1\n\n- two:: 2\n- x [three:: 3] (four:: 4)\n"

    assert lines(text) == [("one", 6), ("two", 8), ("three", 9), ("four", 9)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_by_any_line_end(end: str) -> None:
    assert lines(end.join(["one:: 1", "", "two:: 2", ""])) == [("one", 1), ("two", 3)]
    assert fields(end.join(["one:: 1", "two:: 2"])) == [("one", "1"), ("two", "2")]


def test_the_same_key_may_be_given_again() -> None:
    assert fields("up:: [[A]]\nup:: [[B]]\n") == [("up", "[[A]]"), ("up", "[[B]]")]


def test_fields_of_a_canvas_count_in_its_cards() -> None:
    cards = [
        {"id": "a", "type": "text", "text": "# A\n\ndecision:: one", "x": 0, "y": 0},
        {"id": "b", "type": "text", "text": "- error:: two", "x": 0, "y": 9},
    ]
    found = note(json.dumps({"nodes": cards, "edges": []}), "board.canvas")

    assert [(field.key, field.value) for field in found.fields] == [
        ("decision", "one"),
        ("error", "two"),
    ]
    for field in found.fields:
        assert f"{field.key}:: {field.value}" in found.text.split("\n")[field.line - 1]


# --- Any text ------------------------------------------------------------------------------------

pieces = st.sampled_from(
    ["decision", "::", ":: ", " ", "\n", "- ", "> ", "[", "]", "(", ")", "`", "**", "[[A]]", "x",
     "%%", "```\n", "漢字", "😀", "2026-05-03", "#", "|", "\t", "\\"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(pieces, max_size=30).map("".join))
def test_whatever_is_written_a_field_stands_in_its_line(text: str) -> None:
    found = note(text)
    rows = found.text.split("\n")
    for field in found.fields:
        row = rows[field.line - 1]
        assert "::" in row
        assert field.key == " ".join(field.key.split()) != ""
        assert all(word in row for word in field.key.split())
        assert field.value == field.value.strip()
        assert "\n" not in field.value
    assert [field.line for field in found.fields] == sorted(field.line for field in found.fields)


@pytest.mark.parametrize(
    "text",
    [
        "decision:: x\n" * 20_000,
        "- [ ] x [due:: 2026-05-03]\n" * 20_000,
        "[k:: v] " * 125_000,
        "[k:: v " * 125_000,
        "(k:: [" * 125_000,
        "a:: " * 250_000,
        "::" * 500_000,
        "::\n" * 60_000,
        "x" * 1_000_000 + ":: v",
        "*" * 1_000_000 + ":: v",
        "> " * 400_000 + "k:: v",
        ("[" + "x" * 60) * 16_000 + ":: ",
        " " * 1_000_000 + ":: v",
    ],
    ids=lambda text: repr(text[:12]),
)
def test_a_megabyte_of_colons_is_read_in_two_seconds(text: str) -> None:
    start = process_time()

    found = note(text).fields

    assert process_time() - start < 2
    assert all(field.key for field in found)
