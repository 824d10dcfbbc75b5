"""The block structure of a note: which lines are headings, code, lists and tables."""

import random
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

import pytest

from vaultmem.model.note import Block
from vaultmem.vault import blocks
from vaultmem.vault.blocks import Structure, block_structure
from vaultmem.vault.lines import line_offsets

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


def structure(text: str, skip_lines: int = 0) -> Structure:
    return block_structure(text, line_offsets(text), skip_lines)


def headings(text: str) -> list[tuple[int, str, int]]:
    return [(h.level, h.text, h.line) for h in structure(text).headings]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# A\n## B\n###### F\n", [(1, "A", 1), (2, "B", 2), (6, "F", 3)]),
        ("####### seven", []),
        ("#tag", []),
        ("#", [(1, "", 1)]),
        ("# A ##", [(1, "A", 1)]),
        ("   # A", [(1, "A", 1)]),
        ("    # A", []),
        ("A\n===\nB\n---\n", [(1, "A", 1), (2, "B", 3)]),
        ("# **A** `b` [[c|d]]", [(1, "**A** `b` [[c|d]]", 1)]),
        ("text\n# A", [(1, "A", 2)]),
        ("> # quoted", []),
        ("- # in an item", []),
        ("```\n# code\n```\n# A", [(1, "A", 4)]),
        ("```\n# never closed", []),
        ("<div>\n# html\n</div>\n\n# A", [(1, "A", 5)]),
        ("%%\n# comment\n%%\n# A", [(1, "A", 4)]),
        ("$$\n# formula\n$$\n# A", [(1, "A", 4)]),
        ("%% begins\n# comment\nends %%\n# A", [(1, "A", 4)]),
        ("%% begins\n# ends %%\n# A", [(1, "A", 3)]),
        ("> %%\n> # comment\n> %%\n# A", [(1, "A", 4)]),
        ("%%\n```\n%%\n# A", [(1, "A", 4)]),
        ("%%\nA\n---\n%%\n# B", [(1, "B", 5)]),
        ("%% one line %%\n# A", [(1, "A", 2)]),
        ("$$x$$\n# A", [(1, "A", 2)]),
        ("text %%\n# A\n%%", [(1, "A", 2)]),
        ("%%\n# A", [(1, "A", 2)]),
        ("$$\n# A", [(1, "A", 2)]),
        ("```\n%%\n```\n# A\n```\n%%\n```\n", [(1, "A", 4)]),
        ("`%%`\n# A\n`%%`", [(1, "A", 2)]),
        ("costs $$\n# A\nmore $$", [(1, "A", 2)]),
    ],
)
def test_headings(text: str, found: list[tuple[int, str, int]]) -> None:
    assert headings(text) == found


def test_a_heading_knows_where_it_and_its_body_begin() -> None:
    text = "intro\n\n# A\nbody\n\nB\n===\nmore\n"

    first, second = structure(text).headings

    assert text[first.start : first.body] == "# A\n"
    assert text[second.start : second.body] == "B\n===\n"


def test_frontmatter_lines_are_no_markdown() -> None:
    text = "---\na: b\n# c: d\n---\n# A\n"

    found = structure(text, skip_lines=4)

    assert [(h.text, h.line) for h in found.headings] == [("A", 5)]
    assert found.blocks == ()


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("one\ntwo\n\nthree\n", [("paragraph", 0, 0, 2), ("paragraph", 0, 3, 4)]),
        ("```\na\n\nb\n```\n", [("fence", 0, 0, 5)]),
        ("    code\n", [("fence", 0, 0, 1)]),
        ("---\n", [("other", 0, 0, 1)]),
        ("<div>\na\n</div>\n", [("html", 0, 0, 3)]),
    ],
)
def test_blocks_have_a_kind_a_depth_and_lines(
    text: str, blocks: list[tuple[str, int, int, int]]
) -> None:
    assert list(structure(text).blocks) == [Block(*block) for block in blocks]


def test_items_are_one_level_below_their_list() -> None:
    blocks = structure("- a\n- b\n  - c\n").blocks

    assert [(b.depth, b.first, b.after) for b in blocks if b.kind == "item"] == [
        (1, 0, 1),
        (1, 1, 3),
        (3, 2, 3),
    ]


def test_a_table_is_one_block() -> None:
    tables = [b for b in structure("| a |\n|---|\n| 1 |\n| 2 |\n").blocks if b.kind == "table"]

    assert tables == [Block("table", 0, 0, 4)]


def test_text_nested_deeper_than_most_parsers_go_is_still_found() -> None:
    text = "".join("  " * depth + f"- item {depth}\n" for depth in range(40))

    deepest = max(structure(text).blocks, key=lambda block: block.depth)

    assert deepest.first == 39


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a\n```\nb\n```\nc\n", ((1, 4),)),
        ("~~~\na\n~~~\n", ((0, 3),)),
        ("a\n\n    b\n\nc\n", ((2, 3),)),
        ("```\nnever closed\n", ((0, 2),)),
        ("> ```\n> a\n> ```\n", ((0, 3),)),
        ("`inline`\n", ()),
    ],
)
def test_lines_of_code_are_known(text: str, code: tuple[tuple[int, int], ...]) -> None:
    assert structure(text).code == code


# A paragraph that is seen to be one by its first characters


SAMPLE = Path(__file__).resolve().parents[2] / "sample_vault"
PIECES = (
    *(
        "a",
        "text here",
        "é",
        "**b**",
        "_i_",
        "`c`",
        "$$",
        "%%",
        "\\- e",
        ": d",
        "=x",
        "1986",
        "2\\.",
    ),
    *(
        "- ",
        "* ",
        "+ ",
        "-",
        "*",
        "- [ ] t",
        "- - ",
        "-  wide",
        "-\t",
        "   - in",
        "    - c",
        "     - deep",
    ),
    *("1. q", "12) r", "3.", "> ", ">", "# H", "#", "#no", "---", "===", "* * *", "___", "--"),
    *("| a | b |", "|---|---|", "a | b", "- | -", "- -|-", ":-:|:-:", "--|--", "* | *"),
    *("```", "~~~", "<div>", "</div>", "<!-- c", "    code", "\t", "  ", "    ", "[l]: u"),
    *("\n", "\n", "\n", "\n\n", "- x\n", "text\n- x\n", "text\n  - y\n", "a\n* b\n"),
)


def block_tokens(markdown: "MarkdownIt", text: str) -> list[tuple[object, ...]]:
    """What the tokens say that anybody asks for: of texts, those of headings alone."""
    tokens = markdown.parse(text)
    before = ["", *(token.type for token in tokens)]
    return [
        (token.type, token.map, token.level, token.hidden, token.tag)
        + ((token.content,) if opener == "heading_open" else ())
        for token, opener in zip(tokens, before, strict=False)
    ]


def random_texts(count: int) -> list[str]:
    draw = random.Random(20261130)
    return [
        "".join(
            draw.choice(PIECES) + "\n" * (draw.random() < 0.5) for _ in range(draw.randrange(1, 16))
        )
        for _ in range(count)
    ]


@pytest.fixture
def parsers() -> tuple["MarkdownIt", "MarkdownIt"]:
    """The parser of notes, and the same without the look at first characters."""
    quick, whole = blocks._markdown.__wrapped__(), blocks._markdown.__wrapped__()
    whole.block.ruler.disable("plain_paragraph")
    return quick, whole


def test_the_look_at_first_characters_changes_no_structure(
    parsers: tuple["MarkdownIt", "MarkdownIt"],
) -> None:
    quick, whole = parsers
    notes = [path.read_text("utf-8") for path in sorted(SAMPLE.rglob("*.md"))]
    assert len(notes) > 50

    for text in [*notes, *random_texts(3000)]:
        assert block_tokens(quick, text) == block_tokens(whole, text), text


def test_the_look_at_first_characters_is_enough_for_most_paragraphs(
    parsers: tuple["MarkdownIt", "MarkdownIt"],
) -> None:
    quick, whole = parsers
    text = "one\ntwo\n\n- three\n- four\n\nfive\n- six\n"

    # What was seen at a look has kept no content.
    assert [t.content for t in quick.parse(text) if t.type == "inline"] == [""] * 5
    assert all(t.content for t in whole.parse(text) if t.type == "inline")


@pytest.mark.parametrize(
    "unit", ["> # a\nb\n", "> <div>\nb\n", "> -\nb\n", "> ***\nb\n", "> > # a\n> b\n", "> ```\nb\n"]
)
def test_quotations_that_end_at_once_take_time_by_their_number(unit: str) -> None:
    text = unit * (20_000 // len(unit))
    starts = line_offsets(text)
    started = process_time()

    structure = block_structure(text, starts, 0)

    assert process_time() - started < 2  # five times what it takes; it took ten
    assert sum(block.kind == "quote" for block in structure.blocks) >= 20_000 // len(unit) / 33


def test_a_few_quotations_that_end_at_once_are_as_the_library_reads_them() -> None:
    text = "> # a\nb\n" * 20 + "> c\nlazy\n" * 20
    structure = block_structure(text, line_offsets(text), 0)

    quotes = [(block.first, block.after) for block in structure.blocks if block.kind == "quote"]
    assert quotes == [*((n, n + 1) for n in range(0, 40, 2)), (40, 80)]
