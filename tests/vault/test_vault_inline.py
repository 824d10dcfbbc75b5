"""Links, tags, block ids, tasks and callouts in the body of a note."""

import pytest

from vaultmem.model.note import Link, Note
from vaultmem.vault.inline import distinct, markdown_link, wikilink
from vaultmem.vault.parse import parse


def note(text: str) -> Note:
    return parse("n.md", text.encode())


def links(text: str) -> list[str]:
    """Each link as `target#subpath|display`, with `!` before an embed."""
    return [
        ("!" if link.embed else "")
        + link.target
        + link.subpath
        + (f"|{link.display}" if link.display is not None else "")
        for link in note(text).links
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[[A]]", ["A"]),
        ("[[A.md]]", ["A.md"]),
        ("[[dir/A b]]", ["dir/A b"]),
        ("[[A|b c]]", ["A|b c"]),
        ("[[A|]]", ["A|"]),
        ("[[A|b|c]]", ["A|b|c"]),
        ("[[A#B]]", ["A#B"]),
        ("[[A#B#C|d]]", ["A#B#C|d"]),
        ("[[A#^id]]", ["A#^id"]),
        ("[[#B]]", ["#B"]),
        ("![[A.png|100x50]]", ["!A.png|100x50"]),
        ("\\![[A]]", ["A"]),
        ("[[ A ]]", ["A"]),
        ("[[a]b]]", ["a]b"]),
        ("[[a [[b]] c]]", ["b"]),
        ("[[[a]]]", ["a"]),
        ("[[A]][[B]]", ["A", "B"]),
        ("[[https://e.org]]", ["https://e.org"]),
        ("[[a\nb]]", []),
        ("[[a", []),
        ("a]]", []),
        ("[[]]", []),
        ("[[  ]]", []),
        ("[[A]] [[a\nb]] [[C]]", ["A", "C"]),
        ("[[Ä 漢 😀]]", ["Ä 漢 😀"]),
    ],
)
def test_wikilinks(text: str, found: list[str]) -> None:
    assert [name.removeprefix("[") for name in links(text)] == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[t](A)", ["A|t"]),
        ("[t](A.md)", ["A.md|t"]),
        ("[t](dir/A%20b.md#H%20x)", ["dir/A b.md#H x|t"]),
        ("[t](<A b.md>)", ["A b.md|t"]),
        ("[t](#H)", ["#H|t"]),
        ("[](A)", ["A|"]),
        ("![alt|100](x.png)", ["!x.png|alt|100"]),
        ("\\![t](A)", ["A|t"]),
        ('[t](A "title")', ["A|t"]),
        ("[t](A 'title')", ["A|t"]),
        ("[t]( A )", ["A|t"]),
        ("[t](A_(b))", ["A_(b)|t"]),
        ("[a [b] c](A)", ["A|a [b] c"]),
        ("[a\nb](A)", ["A|a\nb"]),
        ("[a](A)[b](B)", ["A|a", "B|b"]),
        ("[![i](p.png)](A)", ["A|![i](p.png)", "!p.png|i"]),
        ("[t](A b.md)", []),
        ("[t]()", []),
        ("[t](", []),
        ("](A)", []),
        ("\\[t](A)", []),
        ("[t\n\nu](A)", []),
        ("[t](https://example.org/a.md)", []),
        ("[t](mailto:a@example.org)", []),
        ("[t](obsidian://open?file=A)", []),
        ("[t](//example.org/a)", []),
    ],
)
def test_markdown_links(text: str, found: list[str]) -> None:
    assert links(text) == found


@pytest.mark.parametrize(
    ("written", "target", "subpath"),
    [
        ("A%20b.md", "A b.md", ""),
        ("A%2520b.md", "A%20b.md", ""),
        ("C%23.md", "C#.md", ""),
        ("C%23.md#D%2523", "C#.md", "#D%23"),
        ("100%.md", "100%.md", ""),
        ("%FF.md", "%FF.md", ""),
        ("%C3%A9.md", "é.md", ""),
        ("a+b.md", "a+b.md", ""),
    ],
)
def test_a_markdown_destination_is_percent_decoded_once(
    written: str, target: str, subpath: str
) -> None:
    assert markdown_link(written, "t", embed=False, line=1) == Link(target, subpath, "t", False, 1)


def test_a_wikilink_is_not_percent_decoded() -> None:
    assert links("[[A%20b]]") == ["A%20b"]


def test_in_a_table_the_bar_of_a_link_is_escaped() -> None:
    assert links("| a | b |\n|---|---|\n| [[A\\|b]] | ![[p.png\\|50]] |\n") == ["A|b", "!p.png|50"]
    assert wikilink("A#H\\|b", embed=False, line=1) == Link("A", "#H", "b", False, 1)


@pytest.mark.parametrize(
    "text",
    [
        "`{}`",
        "`` ` {} ``",
        "``{}``",
        "`a\nx {} b`",
        "```\n{}\n```",
        "```md\n{}\n```",
        "~~~\n{}\n~~~",
        "````\n```\n{}\n```\n````",
        "```\n{}",
        "a\n\n    {}\n",
        "- a\n\n  ```\n  {}\n  ```\n",
        "> ```\n> {}\n> ```\n",
        "```mermaid\n{}\n```",
        "```query\n{}\n```",
        "| `{}` |\n|---|\n",
    ],
)
@pytest.mark.parametrize("inner", ["[[A]]", "[t](A)", " #tag ", "- [ ] task"])
def test_what_stands_in_code_is_none(text: str, inner: str) -> None:
    found = note(text.format(inner))

    assert (found.links, found.tags, found.tasks) == ((), (), ())


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "# {}",
        "> {}",
        "> [!note] {}",
        "> [!note]\n> {}",
        "- {}",
        "1. {}",
        "- [ ] {}",
        "%% {} %%",
        "%%\n{}\n%%",
        "| {} |\n|---|\n",
        "**{}**",
        "==a {} b==",
        "a `code` {} `code` b",
        "\\`{} \\`",
        "```\ncode\n```\n{}\n",
        "`{}",
        "- item\n    {}\n",
        "a\n    {}\n",
    ],
)
def test_links_count_everywhere_but_in_code(text: str) -> None:
    assert [link.target for link in note(text.format("[[A]]")).links] == ["A"]


def test_a_link_names_the_line_it_begins_on() -> None:
    text = "one [[A]]\n\n```\n[[no]]\n```\n[t](B) [[C]]\n`x` ![[D]]\n"

    found = [(link.target, link.line) for link in note(text).links]

    assert found == [("A", 1), ("B", 6), ("C", 6), ("D", 7)]


def test_links_of_both_kinds_are_in_the_order_of_the_text() -> None:
    assert links("[a](A) [[B]] [c](C) [[D]]") == ["A|a", "B", "C|c", "D"]


def test_a_link_around_an_image_hides_no_tag_behind_it() -> None:
    found = note("#s [![i](p.png#no)](A#no) #t\n#u\n")

    assert found.tags == ("s", "t", "u")


def test_code_in_the_cells_of_a_table_moves_nothing_behind_it() -> None:
    found = note("| `a` | `b` #c |\n|---|---|\n| [[D]] | `e` |\n\n#f [[G]] ^h\n")

    assert found.tags == ("c", "f")
    assert [(link.target, link.line) for link in found.links] == [("D", 3), ("G", 5)]
    assert [(block.id, block.line) for block in found.block_ids] == [("h", 5)]


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("#a", ("a",)),
        ("x #a y", ("a",)),
        ("x\t#a", ("a",)),
        ("#a #b", ("a", "b")),
        ("#a/b/c", ("a/b/c",)),
        ("#to-do #snake_case", ("to-do", "snake_case")),
        ("#a.", ("a",)),
        ("#a, #b; #c!", ("a", "b", "c")),
        ("#a:b", ("a",)),
        ("#公共事务 #étude #Ω #😀", ("公共事务", "étude", "Ω", "😀")),
        ("#2024goal #1a #y2024", ("2024goal", "1a", "y2024")),
        ("#a\u2014b", ("a",)),
        ("#Abc #abc #ABC", ("Abc",)),
        ("# #a", ("a",)),
        ("> #a", ("a",)),
        ("- [ ] #a", ("a",)),
        ("%% #a %%", ("a",)),
        ("#ff8800", ("ff8800",)),
        ("#123", ()),
        ("x#a", ()),
        ("\\#a", ()),
        ("#", ()),
        ("# a", ()),
        ("##", ()),
        ("https://example.org/#a", ()),
        ("[[A#b]] [t](A#b)", ()),
        ("[[#b]]", ()),
        ("####Nospace", ()),
    ],
)
def test_tags(text: str, tags: tuple[str, ...]) -> None:
    assert note(text).tags == tags


def test_distinct_names_keep_their_first_spelling_and_order() -> None:
    assert distinct(["b", "A", "a", "B", "É", "e\u0301"]) == ("b", "A", "É")


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("para ^a-1", ["a-1"]),
        ("para ^a  \nmore ^b", ["b"]),
        ("- item ^i\n  - sub ^s", ["i", "s"]),
        ("> quote\n\n^q\n", ["q"]),
        ("^alone", ["alone"]),
        ("para^a", []),
        ("para ^a and more", []),
        ("para ^a_b", []),
        ("para ^", []),
        ("`x ^a`", []),
        ("```\nx ^a\n```", []),
        ("[[A#^a]]", []),
    ],
)
def test_block_ids(text: str, ids: list[str]) -> None:
    assert [block.id for block in note(text).block_ids] == ids


def test_a_block_id_names_its_line() -> None:
    found = note("---\na: b\n---\none\n\ntwo ^x\n").block_ids

    assert [(block.id, block.line) for block in found] == [("x", 6)]


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("- [ ] a", [(" ", "a", False)]),
        ("- [x] a", [("x", "a", True)]),
        ("- [X] a", [("X", "a", True)]),
        ("- [-] a", [("-", "a", True)]),
        ("- [?] a", [("?", "a", True)]),
        ("* [ ] a\n+ [x] b", [(" ", "a", False), ("x", "b", True)]),
        ("1. [ ] a\n2) [x] b", [(" ", "a", False), ("x", "b", True)]),
        ("- a\n    - [x] b", [("x", "b", True)]),
        ("> - [ ] a", [(" ", "a", False)]),
        ("- [ ] [[A]] #b", [(" ", "[[A]] #b", False)]),
        ("- [ ]", [(" ", "", False)]),
        ("- [] a", []),
        ("- [xx] a", []),
        ("- [x]a", []),
        ("-[x] a", []),
        ("[x] a", []),
        ("- a [x] b", []),
    ],
)
def test_tasks(text: str, tasks: list[tuple[str, str, bool]]) -> None:
    assert [(task.status, task.text, task.done) for task in note(text).tasks] == tasks


def test_tasks_name_their_lines() -> None:
    found = note("# T\n\n- [ ] a\n- b\n- [x] c\n").tasks

    assert [task.line for task in found] == [3, 5]


@pytest.mark.parametrize(
    ("text", "callouts"),
    [
        ("> [!note]", [("note", "")]),
        ("> [!NOTE] Title", [("note", "Title")]),
        (">[!tip]+ Open", [("tip", "Open")]),
        ("> [! Tip ]  Wide  ", [("tip", "Wide")]),
        ("> [!tip]- Shut", [("tip", "Shut")]),
        ("> [!my-own] x", [("my-own", "x")]),
        ("> [!a] x\n>> [!b] y", [("a", "x"), ("b", "y")]),
        ("> [!a]\n> text\n\n> [!b]\n", [("a", ""), ("b", "")]),
        ("[!note] x", []),
        ("> [note] x", []),
        ("> text [!note]", []),
        ("> [!]", []),
        ("```\n> [!note] x\n```", []),
    ],
)
def test_callouts(text: str, callouts: list[tuple[str, str]]) -> None:
    assert [(callout.kind, callout.title) for callout in note(text).callouts] == callouts
