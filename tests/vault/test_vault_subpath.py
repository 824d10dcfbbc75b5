"""Where a link's `#Heading`, `#^block` or `#[^footnote]` leads within a note."""

import json

import pytest

from vaultmem.model.note import Note
from vaultmem.vault.parse import parse
from vaultmem.vault.subpath import Place, comparable_heading, find_place


def place(text: str, subpath: str) -> tuple[str, int, int | None] | None:
    found = find_place(parse("n.md", text.encode()), subpath)
    assert found is None or isinstance(found, Place)
    return None if found is None else (found.kind, found.first, found.last)


OUTLINE = """intro
# Alpha
text
## Beta
more
### Gamma
deep
## Delta: a (first) draft
# Omega
## Beta
last
"""


@pytest.mark.parametrize(
    ("subpath", "first", "last"),
    [
        ("#Alpha", 2, 8),
        ("#alpha", 2, 8),
        ("#Beta", 4, 7),
        ("#Gamma", 6, 7),
        ("#Delta: a (first) draft", 8, 8),
        ("#Delta a first draft", 8, 8),
        ("#delta   a first/draft", 8, 8),
        ("#Omega", 9, None),
        ("#Alpha#Beta", 4, 7),
        ("#Omega#Beta", 10, None),
        ("#Alpha#Beta#Gamma", 6, 7),
        ("#Alpha#Gamma", 6, 7),
    ],
)
def test_a_section_ends_before_the_next_heading_of_its_rank_or_higher(
    subpath: str, first: int, last: int | None
) -> None:
    assert place(OUTLINE, subpath) == ("heading", first, last)


@pytest.mark.parametrize(
    "subpath",
    [
        "#Missing",
        "#Beta#Alpha",
        "#Gamma#Beta",
        "#Alp",
        "",
        "#",
        "##",
        "# ",
        "#Omega#Gamma",
        "#Beta#Delta a first draft",
    ],
)
def test_what_no_heading_says_leads_nowhere(subpath: str) -> None:
    assert place(OUTLINE, subpath) is None


@pytest.mark.parametrize(
    ("heading", "subpath"),
    [
        ("# **Bold** and `code`", "#**Bold** and code"),
        ("# See [[Other|that]]", "#See Other that"),
        ("# snake_case-name", "#snake_case-name"),
        ("# 100% of C#", "#100 of C"),
        ("# Ünïcode 漢字", "#ünïcode 漢字"),
        ("# It's", "#it's"),
    ],
)
def test_headings_are_compared_without_punctuation_and_case(heading: str, subpath: str) -> None:
    assert place(f"{heading}\ntext\n", subpath) == ("heading", 1, None)


def test_dashes_and_underscores_are_no_punctuation() -> None:
    assert place("# a-b\n", "#a b") is None
    assert place("# a_b\n", "#a b") is None


def test_a_blank_subpath_does_not_mean_a_heading_of_punctuation_alone() -> None:
    assert place("# !!!\ntext\n", "# ") is None


def test_the_first_of_equal_headings_is_meant() -> None:
    assert place("# A\none\n# A\ntwo\n", "#A") == ("heading", 1, 2)


def test_lines_are_those_of_the_file_frontmatter_included() -> None:
    assert place("---\na: b\n---\n# A\ntext ^x\n", "#A") == ("heading", 4, None)
    assert place("---\na: b\n---\n# A\ntext ^x\n", "#^x") == ("block", 5, 5)


def test_a_heading_in_code_is_no_place() -> None:
    assert place("```\n# A\n```\n", "#A") is None


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("one?two", "one two"),
        ("  a  b ", "a b"),
        ("a#b^c|d", "a b c d"),
        ("a-b_c'd", "a-b_c'd"),
        ("a\r\nb", "a b"),
        ("!!!", ""),
    ],
)
def test_a_comparable_heading_has_blanks_for_punctuation(text: str, written: str) -> None:
    assert comparable_heading(text) == written


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("one\ntwo ^x\n\nthree\n", 1, 2),
        ("zero\n\none ^x\n", 3, 3),
        ("- a\n- b ^x\n- c\n", 2, 2),
        ("- a ^x\n  - b\n  - c\n- d\n", 1, 3),
        ("- a\n  - b ^x\n- c\n", 2, 2),
        ("- a\n- b\n\n^x\n", 1, 2),
        ("zero\n\n> one\n> two\n\n^x\n", 3, 4),
        ("> [!note] t\n> one\n\n^x\n", 1, 2),
        ("zero\n\n| a |\n|---|\n| 1 |\n\n^x\n", 3, 5),
        ("```\ncode\n```\n\n^x\n", 1, 3),
        ("first\n\nsecond\n^x\n", 3, 4),
        ("para ^X\n", 1, 1),
        ("- a ^x\n\n- b\n", 1, 1),
        ("zero\n\n> one\n\n^x  \n", 3, 3),
    ],
)
def test_a_block_id_names_the_block_it_ends_or_follows(text: str, first: int, last: int) -> None:
    assert place(text, "#^x") == ("block", first, last)


def test_block_ids_are_looked_up_in_any_case_behind_any_heading() -> None:
    text = "# A\none ^Ab-1\n"

    assert place(text, "#^aB-1") == ("block", 2, 2)
    assert place(text, "#A#^ab-1") == ("block", 2, 2)
    assert place(text, "#^ab-1 ") == ("block", 2, 2)
    assert place(text, "#^ab") is None


def test_an_id_in_code_is_no_place() -> None:
    assert place("```\none ^x\n```\n", "#^x") is None


def test_a_block_id_in_a_heading_names_its_line() -> None:
    assert place("# A ^x\ntext\n", "#^x") == ("block", 1, 1)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        # An id behind a heading names the heading, not what stands before it.
        ("para\n\n# A\n\n^x\n\nmore\n", 3, 3),
        ("para\n\nA\n===\n\n^x\n", 3, 4),
        ("# A\n\npara\n\n^x\n", 3, 3),
        # Nothing above: the line itself.
        ("^x\n\nmore\n", 1, 1),
        ("---\na: b\n---\n\n^x\n", 5, 5),
    ],
)
def test_an_id_alone_names_what_stands_right_above_it(text: str, first: int, last: int) -> None:
    assert place(text, "#^x") == ("block", first, last)


def test_an_id_with_text_right_below_it_is_none() -> None:
    assert place("> one\n\n^x\nmore\n", "#^x") is None


def test_headings_are_compared_in_one_unicode_form() -> None:
    assert place("# Cafe\u0301\n", "#café") == ("heading", 1, None)


def test_a_path_of_headings_takes_the_first_that_fits_at_each_step() -> None:
    text = "# A\n## C\none\n# B\n## C\ntwo\n# A\n## C\nthree\n"

    assert place(text, "#A#C") == ("heading", 2, 3)
    assert place(text, "#B#C") == ("heading", 5, 6)
    assert place(text, "#C") == ("heading", 2, 3)


NOTES = """text[^1] and[^Long-id]

[^1]: the first
  goes on

  and on

[^Long-id]: the second
[^third]: right below
	a tab goes on

    so does more

not its own

[^4]: before a list
- item
[^5]: two
 one blank is no indent
"""


@pytest.mark.parametrize(
    ("subpath", "first", "last"),
    [
        ("#[^1]", 3, 6),
        ("#[^long-ID]", 8, 8),
        ("#[^third]", 9, 12),
        ("#[^4]", 16, 16),
        ("#[^5]", 18, 18),
        ("#[^1] ", 3, 6),
        ("#Any heading#[^1]", 3, 6),
        # What a wikilink without a display is read as: `[[Note#[^1]]]` ends at its first `]]`.
        ("#[^1", 3, 6),
    ],
)
def test_a_footnote_has_its_definition_and_the_lines_indented_under_it(
    subpath: str, first: int, last: int
) -> None:
    assert place(NOTES, subpath) == ("footnote", first, last)


@pytest.mark.parametrize("subpath", ["#[^2]", "#[^long]", "#[^]", "#[^1]x", "#[1]", "#^1"])
def test_what_no_definition_says_is_no_footnote(subpath: str) -> None:
    assert place(NOTES, subpath) is None


def test_a_footnote_is_no_heading_of_the_same_name() -> None:
    text = "# 1\n\n# [^2]\n\ntext[^1]\n"

    assert place(text, "#[^1]") is None
    assert place(text, "#[^2]") is None
    assert place(text, "#1") == ("heading", 1, 2)


@pytest.mark.parametrize(
    "text",
    [
        "```\n[^1]: x\n```\n",
        "~~~md\n[^1]: x\n\n[^1]: y\n~~~\n",
        "```\nnever closed\n\n[^1]: x\n",
        "text\n\n    [^1]: indented code\n",
        "> ```\n> [^1]: x\n> ```\n",
        "- item\n  ```\n  [^1]: x\n  ```\n",
        "%%\n```\n[^1]: x\n```\n%%\n",
        "<div>\n[^1]: x\n</div>\n",
        "---\na: |\n  [^1]: x\n---\n",
        "text `[^1]: x`\n",
        "a [^1]: in the middle\n",
        "[^1] : no colon\n",
        "[^a b]: x\n",
        "x[^1]\n",
        "^[1]: x\n",
    ],
)
def test_what_only_looks_like_a_definition_is_none(text: str) -> None:
    assert place(text, "#[^1]") is None
    assert place(f"{text}\n\nend\n", "#[^1]") is None


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("```\n[^1]: code\n```\n\n[^1]: real\n", 5, 5),
        ("[^1]: one\n\n[^1]: two\n", 1, 1),
        ("[^1]: see\n  ```\n  [^2]: code\n  ```\n  more\n", 1, 5),
        ("[^1]:\n  below\n", 1, 2),
        ("[^1]: end", 1, 1),
        ("[^1]: blanks follow\n\n\n", 1, 1),
        ("  [^1]: indented\n  beside\n    below\n", 1, 1),
        ("- a\n\n  [^1]: in an item\n    below\n", 3, 4),
        ("> [^1]: quoted\n>   below\n>\n>   more\n> beside\n", 1, 4),
        ("> [^1]: quoted\n\n  outside\n", 1, 1),
        ("[^1]: a\n  > a quote in it\n", 1, 2),
        ("---\na: b\n---\n[^1]: x\n", 4, 4),
        ("---\na: b\n---\n```\nx\n```\n[^1]: x\n", 7, 7),
        ("text\n[^1]: under a paragraph\n", 2, 2),
        ("%% a comment\n[^1]: in it\n%%\n", 2, 2),
        ("[^é]: x\n\n[^1]: y\n", 3, 3),
    ],
)
def test_where_a_definition_begins_and_ends(text: str, first: int, last: int) -> None:
    assert place(text, "#[^1]") == ("footnote", first, last)


def test_a_definition_is_found_behind_any_number_of_quote_marks() -> None:
    text = ">" * 200_000 + " [^1]: deep\n" + ">" * 200_000 + "   more\n[^2]: x\n"

    assert place(text, "#[^1]") == ("footnote", 1, 2)
    assert place(text, "#[^2]") == ("footnote", 3, 3)


def cards(*texts: str) -> Note:
    """A canvas with these texts on its cards."""
    nodes = [{"id": str(n), "type": "text", "text": text} for n, text in enumerate(texts)]
    return parse("board.canvas", json.dumps({"nodes": nodes}).encode())


def test_a_place_on_a_canvas_stays_on_its_card() -> None:
    note = cards("# A\none", "two\n\n# B\nthree", "^x", "```\nopen", "[^1]: note\n  more", "  end")
    rows = note.text.split("\n")

    def text(subpath: str) -> list[str]:
        found = find_place(note, subpath)
        assert found is not None
        return rows[found.first - 1 : found.last]

    assert text("#A") == ["# A", "one"]
    assert text("#B") == ["# B", "three"]
    assert text("#^x") == ["^x"]
    assert text("#[^1]") == ["[^1]: note", "  more"]
