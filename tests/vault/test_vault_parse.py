"""From the bytes of a file to a note: encodings, properties with a meaning, no exceptions."""

import codecs
from time import process_time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vaultmem.model.note import Note
from vaultmem.vault.lines import line_offsets
from vaultmem.vault.parse import MAX_TITLE_CHARS, decode, parse


def note(text: str, path: str = "n.md") -> Note:
    return parse(path, text.encode())


def codes(found: Note) -> list[str]:
    return [problem.code for problem in found.problems]


RICH = """---
title: A title
tags: [one]
aliases: [Other]
up: "[[Parent]]"
---
# Head
text [[Link#Part|shown]] #two ^block

- [x] task

> [!tip] Callout
"""


def test_one_parse_finds_everything_a_note_says() -> None:
    found = note(RICH, "folder/n.md")

    assert found.path == "folder/n.md"
    assert found.name == "n"
    assert found.title == "A title"
    assert found.tags == ("one", "two")
    assert found.aliases == ("Other",)
    assert [(h.level, h.text, h.line) for h in found.headings] == [(1, "Head", 7)]
    assert [(k.target, k.subpath, k.display, k.line, k.key) for k in found.links] == [
        ("Link", "#Part", "shown", 8, None),
        ("Parent", "", None, 5, "up"),
    ]
    assert [(b.id, b.line) for b in found.block_ids] == [("block", 8)]
    assert [(t.line, t.status, t.text, t.done) for t in found.tasks] == [(10, "x", "task", True)]
    assert [(c.line, c.kind, c.title) for c in found.callouts] == [(12, "tip", "Callout")]
    assert found.problems == ()


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_line_ends_of_other_systems_change_nothing(newline: str) -> None:
    expected = note(RICH)

    found = note(RICH.replace("\n", newline))

    assert found == expected
    assert "\r" not in found.text


@pytest.mark.parametrize(
    ("data", "problems"),
    [
        (codecs.BOM_UTF8 + RICH.encode(), []),
        (codecs.BOM_UTF16_LE + RICH.encode("utf-16-le"), ["encoding"]),
        (codecs.BOM_UTF16_BE + RICH.encode("utf-16-be"), ["encoding"]),
    ],
    ids=["UTF-8", "UTF-16 LE", "UTF-16 BE"],
)
def test_a_byte_order_mark_is_no_part_of_the_text(data: bytes, problems: list[str]) -> None:
    found = parse("n.md", data)

    assert found.text == RICH
    assert found.title == "A title"
    assert codes(found) == problems


def test_a_note_in_latin_1_is_readable_and_reported_with_its_line() -> None:
    text, problems = decode("n.md", "one\nzwei Äpfel für €5\n".encode("cp1252"))

    assert text == "one\nzwei Äpfel für €5\n"
    assert [(p.path, p.line, p.code) for p in problems] == [("n.md", 2, "encoding")]


def test_bytes_that_no_encoding_knows_become_replacement_characters() -> None:
    text, problems = decode("n.md", b"a \x81\x8d b")

    assert text == "a \ufffd\ufffd b"
    assert [p.code for p in problems] == ["encoding"]


def test_utf_16_that_is_cut_off_raises_nothing() -> None:
    _, problems = decode("n.md", codecs.BOM_UTF16_LE + b"a\x00b")

    assert [p.code for p in problems] == ["encoding"]


def test_valid_text_has_no_problem() -> None:
    assert decode("n.md", "é 漢 😀".encode()) == ("é 漢 😀", ())


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("", (0,)),
        ("a", (0,)),
        ("a\n", (0, 2)),
        ("a\nbc\n\nd", (0, 2, 5, 6)),
        ("a\u2028b\x0cc\x85d", (0,)),
    ],
)
def test_only_a_line_feed_ends_a_line(text: str, offsets: tuple[int, ...]) -> None:
    assert line_offsets(text) == offsets


@pytest.mark.parametrize(
    ("yaml", "title"),
    [
        ("title: Given", "Given"),
        ("title: '  two\n\n  lines '", "two lines"),
        ("title: 2024", "n"),
        ("title: ''", "n"),
        ("title: '   '", "n"),
        ("title: [a]", "n"),
        ("title: yes", "yes"),
        ("other: x", "n"),
        (f"title: {'x' * 500}", "x" * MAX_TITLE_CHARS),
    ],
)
def test_a_title_is_the_property_when_it_is_a_text_else_the_name(yaml: str, title: str) -> None:
    assert note(f"---\n{yaml}\n---\n").title == title


@pytest.mark.parametrize(
    ("path", "title"), [("a/B c.md", "B c"), ("N.MD", "N"), ("x.y.md", "x.y"), (".md", "")]
)
def test_the_name_of_a_note_is_its_file_without_folder_and_ending(path: str, title: str) -> None:
    assert note("text", path).title == title


@pytest.mark.parametrize(
    ("yaml", "tags"),
    [
        ("tags: [a, b/c]", ("a", "b/c")),
        ("tags:\n  - a\n  - '#b'", ("a", "b")),
        ("tags: one", ("one",)),
        ("TAGS: [a]", ("a",)),
        ("Tags: [a]\ntags: [b]", ("a", "b")),
        ("tags: 'a, b'", ()),
        ("tags: [two words, ok]", ("ok",)),
        ("tags: [2024, true, null, 1.5, ok]", ("ok",)),
        ("tags: ['2024']", ()),
        ("tags: ['##a', '#', '', ' b ']", ("b",)),
        ("tags: [A, a, Ä, ä]", ("A", "Ä")),
        ("tags:", ()),
        ("tag: a", ()),
    ],
)
def test_tags_of_properties_are_texts_that_could_stand_in_the_body(
    yaml: str, tags: tuple[str, ...]
) -> None:
    assert note(f"---\n{yaml}\n---\n").tags == tags


def test_tags_of_properties_come_first_and_the_first_spelling_stays() -> None:
    assert note("---\ntags: [Two, one]\n---\n#three #ONE #two\n").tags == ("Two", "one", "three")


@pytest.mark.parametrize(
    ("yaml", "aliases"),
    [
        ("aliases: [A, B c]", ("A", "B c")),
        ("aliases: 'one, or two'", ("one, or two",)),
        ("Aliases: [A]", ("A",)),
        ("aliases: [7, 1.5, true, null, [x], A]", ("A",)),
        ("aliases: ['', '  ', ' A ']", ("A",)),
        ("alias: A", ()),
    ],
)
def test_aliases_are_texts_and_a_text_is_one_alias(yaml: str, aliases: tuple[str, ...]) -> None:
    assert note(f"---\n{yaml}\n---\n").aliases == aliases


def test_a_mapping_among_tags_is_skipped_without_a_word() -> None:
    found = note("---\ntags:\n  - a\n  - b: c\n---\n")

    assert (found.tags, codes(found)) == (("a",), [])


@pytest.mark.parametrize(
    ("key", "value"),
    [("aliases", "\n  - a\n  - b: c"), ("Aliases", "\n  - a\n  - b: c"), ("tags", "\n  b: c")],
)
def test_a_mapping_where_names_belong_is_reported_and_skipped(key: str, value: str) -> None:
    found = note(f"---\n{key}:{value}\n---\n#a" if key == "tags" else f"---\n{key}:{value}\n---\n")

    assert (*found.tags, *found.aliases) == ("a",)
    assert codes(found) == ["property-invalid"]
    assert key in found.problems[0].message


@pytest.mark.parametrize(
    ("yaml", "links"),
    [
        ('up: "[[A]]"', [("up", "A", "")]),
        ('up: "[[A#B|c]]"', [("up", "A", "#B")]),
        ('up: ["[[A]]", "[[B]]"]', [("up.0", "A", ""), ("up.1", "B", "")]),
        ('rel: {to: "[[A]]"}', [("rel.to", "A", "")]),
        ('up: "[t](A%20b.md)"', [("up", "A b.md", "")]),
        ('up: "[t](https://example.org)"', []),
        ("up: [[A]]", []),
        ('up: " [[A]] "', [("up", "A", "")]),
        ('up: "see [[A]]"', []),
        ('up: "[[A]] there"', []),
        ('up: "see [[A]] there"', []),
        ('up: "see [t](A)"', []),
        ('up: "[t](A) there"', []),
        ('up: "[[A]] and [[B]]"', []),
        ('up: "[[]]"', []),
        ("up: A", []),
    ],
)
def test_a_property_that_is_a_whole_link_is_a_link(
    yaml: str, links: list[tuple[str, str, str]]
) -> None:
    found = note(f"---\n{yaml}\n---\n").links

    assert [(link.key, link.target, link.subpath) for link in found] == links
    assert not any(link.embed for link in found)


def test_a_markdown_link_in_angle_brackets_is_a_link_in_a_property_too() -> None:
    (link,) = note('---\nup: "[t](<A b.md>)"\n---\n').links

    assert link.target == "A b.md"


def test_a_link_in_a_property_names_its_own_line_not_that_of_a_longer_key() -> None:
    (link,) = note('---\nupper: x\nup: "[[A]]"\n---\n').links

    assert link.line == 3


def test_links_of_properties_come_after_those_of_the_body() -> None:
    found = note('---\nup: "[[A]]"\n---\n[[B]]\n').links

    assert [link.target for link in found] == ["B", "A"]


def test_what_stands_in_the_properties_is_no_body() -> None:
    found = note("---\nx: '#no [[No]] text'\ny: '- [ ] no'\n# comment: 1\n---\n#yes\n")

    assert found.tags == ("yes",)
    assert (found.links, found.headings, found.tasks) == ((), (), ())


def test_broken_properties_leave_the_body_whole() -> None:
    found = note("---\nbad: [\n---\n# H\n\n[[A]] #t ^b\n")

    assert codes(found) == ["frontmatter-invalid"]
    assert [heading.line for heading in found.headings] == [4]
    assert [link.target for link in found.links] == ["A"]
    assert found.tags == ("t",)
    assert [block.id for block in found.block_ids] == ["b"]


def test_an_empty_file_is_an_empty_note() -> None:
    found = parse("n.md", b"")

    assert found.text == ""
    assert found.line_starts == (0,)
    assert (found.headings, found.blocks, found.links, found.problems) == ((), (), (), ())


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "]" * 100_000,
        "[[" * 50_000 + "a" + "]]" * 50_000,
        "> " * 50_000 + "a",
        "- " * 50_000 + "a",
        "*_" * 50_000,
        "`" * 100_000,
        "` `` ``` " * 20_000,
        "\\" * 100_000 + "[[a]] #b",
        "<a " * 30_000,
        "#" * 100_000,
        "# a\n" * 20_000,
        "%%\n" * 20_001,
        "$$\na\n" * 20_001,
        "| a " * 20_000 + "\n" + "|-" * 20_000 + "\n",
        "[a]: b\n" * 20_000,
        "[^a]: b\n" * 20_000,
        "^a " * 50_000,
        "- [ ] a\n" * 10_000,
        ">[!a] b\n" * 20_000,
        "\n" * 100_000,
        "a\n\n" + " " * 100_000 + "b",
        "\0" * 100_000,
    ],
    ids=lambda text: repr(text[:9]),
)
def test_a_hostile_note_is_parsed_within_two_seconds(text: str) -> None:
    start = process_time()

    found = note(text)

    assert process_time() - start < 2
    assert found.text == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("blanks behind a bracket", "[a](" + " " * 24_000 + "x"),
        ("brackets that close and never open", ("[" + "](a)" * 400) * 60),
        ("code in each of many cells", "|`a`" * 1600 + "|\n" + "|-" * 1600 + "|\n"),
        (
            "a link among many properties",
            '---\nz: "[[a]]"\n' + "".join(f"a{n}:\n" for n in range(7000)) + "---\n",
        ),
    ],
    ids=lambda value: value if len(value) < 50 else "",
)
def test_the_time_to_parse_grows_no_faster_than_the_note(name: str, text: str) -> None:
    start = process_time()

    note(text)

    assert process_time() - start < 1, name


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
@example(b"\xff\xfe")
@example(b"\xfe\xff\xd8\x00")
@example(b"\xef\xbb\xbf---\n---")
@example(b"---\r\n---\r")
@example(b"# \x00\n\x0b\x0c\x1c\xc2\x85\xe2\x80\xa8#a")
def test_no_bytes_raise(data: bytes) -> None:
    check_places(parse("n.md", data))


markdown_parts = [
    "# ", "## ", "\n", "\n\n", "- ", "1. ", "- [x] ", "> ", "> [!a] ", "```", "~~~", "    ",
    "\t", "`", "``", "%%", "$$", "|", "\n|-|-|\n", "---\n", "===\n", "[[", "]]", "![", "[",
    "](", ")", "<", ">", "#tag", "^id", "\\", "*", "a", "b c", "é", "漢", "😀", "\u2028",
    "\x0b", "<div>", "<!--", "-->", "a: b\n", ":", "%41", "\r\n",
]  # fmt: skip
markdown = st.lists(st.sampled_from(markdown_parts), max_size=60).map("".join)


@settings(max_examples=300, deadline=None)
@given(markdown)
def test_no_markdown_raises_and_every_place_lies_in_the_note(text: str) -> None:
    check_places(parse("n.md", text.encode()))


def check_places(found: Note) -> None:
    lines = found.text.count("\n") + 1
    assert len(found.line_starts) == lines
    assert 0 <= found.frontmatter.end <= len(found.text)
    named = [
        *(heading.line for heading in found.headings),
        *(link.line for link in found.links),
        *(task.line for task in found.tasks),
        *(callout.line for callout in found.callouts),
        *(block_id.line for block_id in found.block_ids),
    ]
    assert all(1 <= line <= lines for line in named)
    for heading in found.headings:
        assert heading.start == found.line_starts[heading.line - 1]
        assert found.frontmatter.end <= heading.start
    for block in found.blocks:
        assert 0 <= block.first < block.after <= lines
    assert [heading.line for heading in found.headings] == sorted(h.line for h in found.headings)
    assert all(tag and not tag.startswith("#") for tag in found.tags)
