"""Where a link's `#Heading` or `#^block` leads within a note."""

import pytest

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
