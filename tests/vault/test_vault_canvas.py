"""A canvas as text: cards, files, links between them, and whatever JSON a file may hold."""

import codecs
import json
from collections.abc import Iterable, Mapping
from datetime import date
from time import process_time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vaultmem.model.chunk import Chunk
from vaultmem.model.note import Arrow, Note, Screening
from vaultmem.vault.canvas import MAX_LABEL_CHARS, read_canvas
from vaultmem.vault.chunk import chunk_note
from vaultmem.vault.facts import KindRules, is_stub, note_date, note_identity, note_kind
from vaultmem.vault.items import find_items
from vaultmem.vault.lines import line_offsets
from vaultmem.vault.parse import parse, readable
from vaultmem.vault.paths import vault_path
from vaultmem.vault.subpath import Place, find_place

RULES = KindRules({}, items=("decision",))
Node = Mapping[str, object]


def text(name: str, content: object) -> Node:
    return {"id": name, "type": "text", "text": content}


def file(name: str, path: object, **more: object) -> Node:
    return {"id": name, "type": "file", "file": path, **more}


def edge(source: str, target: str, **more: object) -> Node:
    return {"id": f"{source}-{target}", "fromNode": source, "toNode": target, **more}


def canvas(nodes: Iterable[object], edges: Iterable[object] = ()) -> bytes:
    return json.dumps({"nodes": list(nodes), "edges": list(edges)}).encode()


def note(*nodes: object, edges: Iterable[object] = (), path: str = "Board.canvas") -> Note:
    return parse(path, canvas(nodes, edges))


def searched(found: Note) -> list[str]:
    return [found.text[start:end] for start, end in found.parts]


def codes(found: Note) -> list[str]:
    return [problem.code for problem in found.problems]


def passages(found: Note, *, max_pieces: int = 180) -> tuple[Chunk, ...]:
    return chunk_note(found, max_pieces=max_pieces, items=find_items(found, RULES, "canvas"))


@pytest.fixture(scope="module")
def board() -> Note:
    return note(
        {"id": "g", "type": "group", "label": "Autumn  firing"},
        text(
            "t", "# Kiln\nSee [[Clay#Red|red clay]] #pottery\n\n- [ ] buy cones\n- glaze:: celadon"
        ),
        file("f", "Notes/Wheel.md"),
        {"id": "l", "type": "link", "url": "https://example.org/kilns"},
        file("p", "pics/pot.png", subpath="#Use"),
        text("u", "## Later ^plan"),
        edges=[
            edge("f", "p"),
            edge("t", "u"),
            edge("f", "p", label="shows"),
            edge("t", "f", label="needs"),
        ],
        path="Boards/Board.canvas",
    )


BOARD_TEXT = """\
Autumn firing

# Kiln
See [[Clay#Red|red clay]] #pottery

- [ ] buy cones
- glaze:: celadon

![[Notes/Wheel.md]]

https://example.org/kilns

![[pics/pot.png#Use]]

## Later ^plan

Notes/Wheel → pics/pot.png#Use: shows
# Kiln See [[Clay#Red|red clay]] #pottery - [ ] buy cones -… → Notes/Wheel: needs
Notes/Wheel → pics/pot.png#Use
"""


def test_the_cards_stand_in_their_order_with_the_arrows_behind_them(board: Note) -> None:
    assert board.text == BOARD_TEXT
    assert board.title == "Board"
    assert board.problems == ()


def test_a_canvas_says_what_its_cards_say_at_the_lines_of_its_text(board: Note) -> None:
    assert [(h.level, h.text, h.line) for h in board.headings] == [
        (1, "Kiln", 3),
        (2, "Later ^plan", 15),
    ]
    assert [(k.target, k.subpath, k.display, k.embed, k.line, k.exact) for k in board.links] == [
        ("Clay", "#Red", "red clay", False, 4, False),
        ("Notes/Wheel.md", "", None, True, 9, True),
        ("pics/pot.png", "#Use", None, True, 13, True),
    ]
    assert board.tags == ("pottery",)
    assert [(task.line, task.text, task.done) for task in board.tasks] == [(6, "buy cones", False)]
    assert [(field.key, field.value, field.line) for field in board.fields] == [
        ("glaze", "celadon", 7)
    ]
    assert [(block.id, block.line) for block in board.block_ids] == [("plan", 15)]


def test_arrows_between_files_know_their_line_and_what_they_say(board: Note) -> None:
    assert board.arrows == (
        Arrow("Notes/Wheel.md", "pics/pot.png", "shows", 17),
        Arrow("Notes/Wheel.md", "pics/pot.png", "", 19),
    )


def test_every_card_is_searched_by_itself_and_of_the_arrows_those_that_say_something(
    board: Note,
) -> None:
    lines = BOARD_TEXT.split("\n")

    assert searched(board) == [
        "Autumn firing",
        "\n".join(lines[2:7]),
        "![[Notes/Wheel.md]]",
        "https://example.org/kilns",
        "![[pics/pot.png#Use]]",
        "## Later ^plan",
        "\n".join(lines[16:18]) + "\n",
    ]


def test_a_canvas_whose_arrows_say_nothing_is_searched_by_its_cards_alone() -> None:
    found = note(file("a", "A.md"), file("b", "B.md"), edges=[edge("a", "b")])

    assert searched(found) == ["![[A.md]]", "![[B.md]]"]
    assert found.text.endswith("A → B\n")


@pytest.mark.parametrize(
    "opened",
    [
        "```\ncode",
        "~~~~python\ncode",
        "%%\nremark",
        "$$\nx",
        "---\ntags: [x]",
        "<div>\n<pre>",
        "<!-- remark",
        "`code",
        "[[Unfinished",
        "[text](",
        "- item\n    - below",
        "> quoted",
        "| a | b |\n|---|---|",
        "a line that could be a heading",
        "# Above",
        "    indented code",
        "[^1]: footnote",
        "[",
        "\\",
    ],
    ids=lambda opened: opened.partition("\n")[0],
)
def test_what_one_card_leaves_open_reaches_into_no_other(opened: str) -> None:
    found = note(text("a", opened), text("b", "# Head\nthen [[Link]] and #tag\n===\n`b` ^id"))

    below = len(opened.split("\n")) + 1
    assert [(h.text, h.line) for h in found.headings if h.line > below] == [
        ("Head", below + 1),
        ("then [[Link]] and #tag", below + 2),
    ]
    assert [(link.target, link.line) for link in found.links] == [("Link", below + 2)]
    assert found.tags == ("tag",)
    assert [(block.id, block.line) for block in found.block_ids] == [("id", below + 4)]
    assert passages(found)[-1].trail == ("then [[Link]] and #tag",)
    check(found)


def test_a_card_has_no_properties() -> None:
    found = note(text("a", "---\ntags: [clay]\naliases: [Mud]\nid: 7\n---\ntext"))

    assert not found.frontmatter.exists
    assert (found.tags, found.aliases, note_identity(found)) == ((), (), None)
    assert "tags: [clay]" in searched(found)[0]


@pytest.mark.parametrize(
    ("path", "subpath"),
    [
        ("a]]b.md", ""),
        ("a|b.md", ""),
        ("C# and F#.md", ""),
        ("C# and F#.md", "#Use"),
        ("[[x]] #tag.md", "#^id"),
        ("`a` %%b%% ```.md", ""),
        ("/Absolute.md", ""),
        ("../Above.md", ""),
        ("../../../../etc/passwd", ""),
        ("C:\\Users\\me\\x.md", ""),
        ("https://example.org/x.md", ""),
        ("file:///etc/passwd", ""),
        ("a::b.md", ""),
        ("# Heading.md", "#"),
        ("x" * 1000 + ".md", ""),
    ],
    ids=lambda value: value[:12],
)
def test_the_name_of_a_file_is_one_link_whatever_it_holds(path: str, subpath: str) -> None:
    found = note(file("a", path, subpath=subpath), text("b", "after"))

    target = vault_path(path)
    assert [(k.target, k.subpath, k.line, k.exact) for k in found.links] == [
        (target, subpath, 1, True)
    ]
    assert (found.tags, found.headings, found.fields, found.block_ids) == ((), (), (), ())
    assert searched(found) == [f"![[{target}{subpath}]]", "after"]


@pytest.mark.parametrize("subpath", ["Use", "", 7, None, ["#Use"], " "])
def test_a_subpath_begins_with_a_mark_or_is_none(subpath: object) -> None:
    (link,) = note(file("a", "A.md", subpath=subpath)).links

    assert link.subpath == ""


def test_the_name_of_a_group_and_an_address_are_no_markdown() -> None:
    found = note(
        {"id": "g", "type": "group", "label": "# Group [[A]] #tag\n- [ ] task"},
        {"id": "l", "type": "link", "url": "https://example.org/#part ^id"},
    )

    assert found.text == "# Group [[A]] #tag - [ ] task\n\nhttps://example.org/#part ^id\n\n"
    assert (found.headings, found.links, found.tags, found.tasks) == ((), (), (), ())
    assert found.block_ids == ()


@pytest.mark.parametrize(
    ("ends", "arrow"),
    [
        ({}, ("A.md", "B.md")),
        ({"fromEnd": "none", "toEnd": "arrow"}, ("A.md", "B.md")),
        ({"fromEnd": "none", "toEnd": "none"}, ("A.md", "B.md")),
        ({"fromEnd": "arrow", "toEnd": "none"}, ("B.md", "A.md")),
        ({"fromEnd": 1, "toEnd": ["none"]}, ("A.md", "B.md")),
    ],
)
def test_an_arrow_leads_where_its_head_is(ends: Node, arrow: tuple[str, str]) -> None:
    found = note(file("a", "A.md"), file("b", "B.md"), edges=[edge("a", "b", **ends)])

    assert [(a.source, a.target) for a in found.arrows] == [arrow]
    assert found.text.split("\n")[found.arrows[0].line - 1] == "A → B" or arrow[0] == "B.md"


def test_an_arrow_of_a_long_card_shows_its_beginning_on_one_line() -> None:
    found = note(
        text("a", "first\n\nsecond " + "word " * 200),
        text("b", "x" * MAX_LABEL_CHARS),
        edges=[edge("a", "b", label=" leads\nto ")],
    )

    (line,) = searched(found)[2:]
    shown, _, rest = line.partition(" → ")
    assert shown.startswith("first second word")
    assert (len(shown), shown[-1]) == (MAX_LABEL_CHARS, "…")
    assert rest == "x" * MAX_LABEL_CHARS + ": leads to\n"
    assert found.arrows == ()


@pytest.mark.parametrize(
    "strange",
    [
        edge("a", "nowhere", label="lost"),
        edge("nowhere", "a", label="lost"),
        {"id": "e", "label": "lost"},
        {"fromNode": None, "toNode": "a", "label": "lost"},
        {"fromNode": ["a"], "toNode": {"a": 1}, "label": "lost"},
        "lost",
        None,
        7,
        ["lost"],
    ],
)
def test_an_edge_that_leads_nowhere_is_passed_over(strange: object) -> None:
    found = note(text("a", "one"), text("b", "two"), edges=[strange, edge("a", "b", label="kept")])

    assert searched(found) == ["one", "two", "one → two: kept\n"]
    assert found.problems == ()


@pytest.mark.parametrize(
    "strange",
    [
        None,
        7,
        "lost",
        ["lost"],
        {},
        {"type": "text"},
        {"type": "text", "text": None},
        {"type": "text", "text": ["lost"]},
        {"type": "text", "text": " \n\t"},
        {"type": "file", "file": ""},
        {"type": "file", "file": 7},
        {"type": "file", "text": "lost"},
        {"type": "link", "url": {"lost": 1}},
        {"type": "group"},
        {"type": "portal", "text": "lost"},
        {"type": ["text"], "text": "lost"},
        {"text": "lost"},
        {"id": {"x": 1}, "type": "text", "x": 10**400, "text": False},
    ],
)
def test_a_node_that_says_nothing_is_passed_over(strange: object) -> None:
    found = note(text("a", "before"), strange, text("b", "after"))

    assert searched(found) == ["before", "after"]
    assert found.problems == ()


@pytest.mark.parametrize("identity", [None, 7, ["x"], ""])
def test_cards_without_a_name_are_all_there(identity: object) -> None:
    card = {"id": identity, "type": "text"}

    assert searched(note({**card, "text": "one"}, {**card, "text": "two"})) == ["one", "two"]


@pytest.mark.parametrize(
    "whole",
    [{}, {"nodes": []}, {"nodes": None, "edges": 7}, {"nodes": {}, "edges": "x"}, {"x": [1]}],
)
def test_a_canvas_without_cards_is_empty_and_no_problem(whole: object) -> None:
    found = parse("Board.canvas", json.dumps(whole).encode())

    assert (found.text, found.parts, found.problems) == ("", (), ())
    assert len(passages(found)) == 1


@pytest.mark.parametrize(
    "data", [b"", b" \n\t\r\n", codecs.BOM_UTF8], ids=["empty", "blank", "a mark alone"]
)
def test_an_empty_file_is_an_empty_canvas(data: bytes) -> None:
    found = parse("Board.canvas", data)

    assert (found.title, found.text, found.problems) == ("Board", "", ())
    assert is_stub(found)


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b'{"nodes": [{"id": "a", "type": "text", "text": "cut sho',
        b"# A note that was renamed",
        b"[]",
        b"7",
        b"null",
        b'"text"',
        b"[" * 100_000,
        b'{"nodes":' * 100_000,
        b'{"nodes": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}",
        b'{"nodes": [],}',
        b"{'nodes': []}",
    ],
    ids=lambda data: data[:16].decode(),
)
def test_a_canvas_that_is_no_canvas_is_one_problem_and_known_by_its_name(data: bytes) -> None:
    found = parse("Board.canvas", data)

    assert [(p.path, p.line, p.code) for p in found.problems] == [
        ("Board.canvas", 0, "canvas-invalid")
    ]
    assert (found.title, found.text, found.parts) == ("Board", "", ())
    assert len(passages(found)) == 1


@pytest.mark.parametrize("number", ["1e999", "-1E-999", "NaN", "-Infinity", "9" * 4000])
def test_no_number_is_too_large(number: str) -> None:
    source = f'{{"nodes": [{{"id": "a", "type": "text", "text": "kept", "x": {number}}}]}}'

    assert searched(parse("Board.canvas", source.encode())) == ["kept"]


def test_a_canvas_in_another_encoding_is_readable_and_reported() -> None:
    source = '{"nodes": [{"id": "a", "type": "text", "text": "Töpfe #Ton"}]}'

    for data, problems in (
        (codecs.BOM_UTF8 + source.encode(), []),
        (codecs.BOM_UTF16_LE + source.encode("utf-16-le"), ["encoding"]),
        (source.encode("cp1252"), ["encoding"]),
    ):
        found = parse("Board.canvas", data)
        assert (searched(found), found.tags, codes(found)) == (["Töpfe #Ton"], ("Ton",), problems)


def test_line_ends_of_other_systems_change_nothing() -> None:
    lines = ["# One", "two [[A]]", "", "- three ^x"]
    nodes = [text("a", "\n".join(lines)), file("b", "B.md")]
    plain = json.dumps({"nodes": nodes}, indent="\t")
    expected = parse("Board.canvas", plain.encode())

    for ending in ("\r\n", "\r"):
        written = json.dumps({"nodes": [text("a", ending.join(lines)), nodes[1]]}, indent="\t")
        assert parse("Board.canvas", written.replace("\n", ending).encode()) == expected
    assert [(link.target, link.line) for link in expected.links] == [("A", 2), ("B.md", 6)]


def test_half_a_character_is_replaced_and_a_whole_one_kept() -> None:
    source = (
        '{"nodes": [{"id": "\\ud800", "type": "text", "text": "half \\ud83d, all \\ud83d\\ude00"},'
        '{"id": "f", "type": "file", "file": "\\udfff.md", "subpath": "#\\ud800"}],'
        '"edges": [{"fromNode": "f", "toNode": "f", "label": "\\ude00"}]}'
    )

    found = parse("Board.canvas", source.encode())

    assert searched(found)[:2] == ["half ?, all 😀", "![[?.md#?]]"]
    assert [arrow.label for arrow in found.arrows] == ["?"]
    found.text.encode("utf-8")


def test_cards_of_one_name_are_all_there_and_an_edge_leads_from_the_first() -> None:
    found = note(
        text("a", "first"),
        text("a", "second"),
        text("#3", "third"),
        {"type": "text", "text": "fourth"},
        edges=[edge("a", "#3", label="x")],
    )

    assert searched(found) == ["first", "second", "third", "fourth", "first → third: x\n"]


def test_equal_cards_are_passages_of_their_own() -> None:
    found = note(*(text(str(number), "the same") for number in range(3)))

    assert [chunk.text for chunk in passages(found)] == ["the same"] * 3
    assert len({chunk.key for chunk in passages(found)}) == 3
    assert [chunk.first_line for chunk in passages(found)] == [1, 3, 5]


def test_a_long_card_is_cut_and_a_short_neighbour_never_joined_to_it() -> None:
    found = note(text("a", "short"), text("b", "long words. " * 400), text("c", "short too"))

    chunks = passages(found)
    assert len(chunks) > 4
    assert (chunks[0].text, chunks[-1].text) == ("short", "short too")
    check(found)


def test_a_place_in_a_card_ends_with_the_card() -> None:
    found = note(
        text("a", "# One\ntext\n\n\n"),
        text("b", "below no heading ^b1"),
        text("c", "- x\n- y\n\n^b2"),
        text("d", "## Two\nmore"),
    )

    assert find_place(found, "#One") == Place("heading", 1, 4)
    assert find_place(found, "#^b1") == Place("block", 7, 7)
    assert find_place(found, "#^b2") == Place("block", 9, 10)
    assert find_place(found, "#Two") == Place("heading", 14, 15)


def test_an_item_of_a_card_ends_with_the_card() -> None:
    found = note(
        text("a", "> [!decision] Fire at cone 6\n> 2026-05-03"),
        text("b", "> not part of it"),
        text("c", "- decision:: use red clay\n  because"),
        text("d", "  not part of it either"),
    )

    items = find_items(found, RULES, "canvas")

    assert [(i.kind, i.date, i.first, i.last, i.text) for i in items] == [
        ("decision", "2026-05-03", 1, 2, "Fire at cone 6"),
        ("decision", None, 6, 7, "use red clay"),
    ]
    assert [(c.items, c.text) for c in passages(found)] == [
        ((("decision", "2026-05-03"),), "> [!decision] Fire at cone 6\n> 2026-05-03"),
        ((), "> not part of it"),
        ((("decision", None),), "- decision:: use red clay\n  because"),
        ((), "  not part of it either"),
    ]


def test_days_in_cards_make_no_log_of_a_canvas() -> None:
    days = [text(str(day), f"# 2026-05-{day:02}\nfired") for day in range(1, 9)]

    assert find_items(note(*days, path="Log.canvas"), RULES, "canvas") == ()


def test_a_canvas_is_of_a_kind_of_its_own_unless_its_folder_has_one() -> None:
    rules = KindRules({"plans": "plan"}, ("Templates",))

    assert note_kind(note(), rules) == "canvas"
    assert note_kind(note(path="Plans/2026/Board.canvas"), rules) == "plan"
    assert note_kind(note(path="Templates/Board.canvas"), rules) == "template"
    assert note_kind(note(path="2026-05-03.CANVAS"), rules) == "canvas"


def test_the_name_of_a_canvas_may_tell_its_day() -> None:
    assert note_date(note(path="Plan 2026-05-03.canvas")) == date(2026, 5, 3)
    assert note_date(note(text("a", "on 2026-05-03"))) is None


@pytest.mark.parametrize(
    ("path", "title"),
    [("Board.canvas", "Board"), ("deep/Board.CANVAS", "Board"), ("a.canvas.canvas", "a.canvas")],
)
def test_a_canvas_is_told_by_its_ending(path: str, title: str) -> None:
    found = note(text("a", "card"), path=path)

    assert (found.title, found.text) == (title, "card\n\n")
    assert readable(path, canvas([text("a", "card")])) == "card\n\n"


def test_a_note_that_holds_the_json_of_a_canvas_is_a_note() -> None:
    source = canvas([text("a", "card")])

    assert readable("Board.canvas.md", source) == source.decode()
    assert parse("Board.canvas.md", source).parts == ((0, len(source)),)


def cards(count: int) -> bytes:
    return canvas(
        (text(str(n), f"# Card {n}\nwith [[Link {n}]] and #tag ^b{n}") for n in range(count)),
        (edge(str(n), str(n + 1), label="next") for n in range(count - 1)),
    )


def files(count: int) -> bytes:
    return canvas(
        (file(str(n), f"Notes/Note {n}.md") for n in range(count)),
        (edge(str(n), str(n * 7 % count)) for n in range(count)),
    )


def deep_quotes(count: int) -> bytes:
    return canvas(text(str(n), ">" * 40 + " [!x] ```") for n in range(count))


def unfinished(count: int) -> bytes:
    return canvas(text(str(n), "```\n%%\n$$\n[[\n`\n- [ ] x [a](\n<div>") for n in range(count))


@pytest.mark.parametrize(
    ("data", "seconds"),
    [
        (cards(20_000), 8),
        (files(50_000), 5),
        (deep_quotes(5_000), 5),
        (unfinished(5_000), 5),
        (canvas([text("a", "word " * 200_000)]), 5),
        (canvas([text("a", "one")] * 50_000, [edge("a", "a", label="x")] * 50_000), 5),
        (canvas([text("a", "")], [edge("a", "b")] * 100_000), 5),
    ],
    ids=["cards", "files", "quotations", "unfinished", "one long card", "one name", "no edge"],
)
def test_the_time_to_read_a_canvas_grows_no_faster_than_the_canvas(
    data: bytes, seconds: float
) -> None:
    start = process_time()

    found = parse("Board.canvas", data)
    chunks = passages(found)

    assert process_time() - start < seconds
    assert "".join(chunk.text for chunk in chunks) or not found.parts


def check(found: Note) -> None:
    """Every place of a canvas lies in its text, and within one part of it."""
    lines = found.text.split("\n")
    found.text.encode("utf-8")
    assert found.line_starts == line_offsets(found.text)
    ends = [0, *(edge for part in found.parts for edge in part), len(found.text)]
    assert ends == sorted(ends)
    for heading in found.headings:
        (part,) = [p for p in found.parts if p.start <= heading.start < p.end]
        assert heading.start == found.line_starts[heading.line - 1]
        assert heading.body == -1 or heading.start < heading.body <= part.end
    placed: list[int] = []
    for things in (found.tasks, found.callouts, found.block_ids, found.fields, found.arrows):
        placed += [thing.line for thing in things]
    for link in found.links:
        placed.append(link.line)
        if link.exact:
            shown = f"![[{link.target}{link.subpath}]]"
            assert lines[link.line - 1].split() == shown.split()
    assert all(1 <= line <= len(lines) for line in placed)
    for block in found.blocks:
        assert 0 <= block.first < block.after <= len(lines)
    for arrow in found.arrows:
        assert lines[arrow.line - 1].endswith(arrow.label)
        assert found.parts[-1].end > found.line_starts[arrow.line - 1] or not arrow.label
    items = find_items(found, RULES, note_kind(found, RULES))
    assert all(1 <= item.first <= item.last <= len(lines) for item in items)
    for heading in found.headings:
        find_place(found, f"#{heading.text}")
    for block_id in found.block_ids:
        place = find_place(found, f"#^{block_id.id}")
        assert place is not None
        assert 1 <= place.first <= (place.last or len(lines)) <= len(lines)
    for max_pieces in (40, 180):
        chunks = chunk_note(found, max_pieces=max_pieces, items=items)
        assert len({chunk.key for chunk in chunks}) == len(chunks)
        at = 0
        for chunk in chunks:
            assert at <= chunk.start <= chunk.end
            at = chunk.end
            assert chunk.text == found.text[chunk.start : chunk.end]
            if chunk.text:
                assert sum(p.start <= chunk.start <= chunk.end <= p.end for p in found.parts) == 1
                assert chunk.first_line == found.text.count("\n", 0, chunk.start) + 1
                assert chunk.last_line == chunk.first_line + chunk.text.count("\n")
    said = "".join("".join(searched(found)).split())
    assert "".join("".join(c.text for c in chunks).split()) == said


MARKDOWN = [
    "# ", "## ", "\n", "\n\n", "- ", "1. ", "- [x] ", "> ", "> [!decision] ", "```", "~~~", "    ",
    "\t", "`", "%%", "$$", "|", "\n|-|-|\n", "---\n", "===\n", "[[", "]]", "![", "[", "](", ")",
    "#tag", " ^id", "\\", "a", "b c", "é", "漢", "😀", "\u2028", "\x0b", "\x00", "\x85", "<div>",
    "<!--", "-->", "decision:: ", "type:: ", "2026-05-03 ", "\r\n", "\r", "\ud800", "[^1]: ",
]  # fmt: skip
markdown = st.lists(st.sampled_from(MARKDOWN), max_size=25).map("".join)
strange = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | markdown,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(markdown, inner, max_size=3),
    max_leaves=4,
)
names = st.sampled_from(["a", "b", "c", "", "#0", "\ud800"])


def mostly(usual: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.one_of(usual, usual, usual, strange)


nodes = mostly(
    st.fixed_dictionaries(
        {"id": mostly(names), "type": mostly(st.sampled_from(["text", "file", "link", "group"]))},
        optional={
            "text": mostly(markdown),
            "file": mostly(markdown),
            "subpath": mostly(markdown.map("#".__add__)),
            "url": mostly(markdown),
            "label": mostly(markdown),
        },
    )
)
edges = mostly(
    st.fixed_dictionaries(
        {"fromNode": mostly(names), "toNode": mostly(names)},
        optional={
            "label": mostly(markdown),
            "fromEnd": mostly(st.sampled_from(["arrow", "none"])),
            "toEnd": mostly(st.sampled_from(["arrow", "none"])),
        },
    )
)
wholes = mostly(
    st.fixed_dictionaries(
        {
            "nodes": mostly(st.lists(nodes, max_size=6)),
            "edges": mostly(st.lists(edges, max_size=4)),
        }
    )
)


@settings(max_examples=300, deadline=None)
@given(wholes)
@example({"nodes": [text("a", "# x"), text("b", "y")], "edges": []})
@example({"nodes": [file("a", "a.md"), file("b", "b\n.md")], "edges": [edge("a", "b")]})
def test_whatever_a_canvas_holds_its_places_are_in_its_text(whole: object) -> None:
    data = json.dumps(whole).encode()

    found = parse("Board.canvas", data)

    assert found.text == readable("Board.canvas", data) == read_canvas("x", data.decode()).text
    check(found)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 60), st.integers(0, 60))
def test_no_bytes_raise(data: bytes, start: int, end: int) -> None:
    check(parse("Board.canvas", data))
    source = canvas([text("a", "# x"), file("b", "B.md")], [edge("a", "b", label="y")])
    check(parse("Board.canvas", source[:start] + data + source[start + end :]))


@pytest.mark.parametrize("path", ["会議　メモ.md", "A  B.md", " a.md", "a\u2003b.md", "a\tb.md"])
def test_the_blanks_of_a_name_are_part_of_it(path: str) -> None:
    found = note(file("a", path), file("b", "B.md"), edges=[edge("a", "b")])

    assert [link.target for link in found.links] == [path, "B.md"]
    assert [(arrow.source, arrow.target) for arrow in found.arrows] == [(path, "B.md")]


def test_a_name_with_a_line_end_is_shown_on_one_line() -> None:
    found = note(
        file("a", "one\ntwo.md", subpath="#x\ny"),
        file("b", "B.md"),
        edges=[edge("a", "b", label="z"), edge("b", "a")],
    )

    assert [(k.target, k.subpath, k.line) for k in found.links] == [
        ("one\ntwo.md", "#x y", 1),
        ("B.md", "", 3),
    ]
    assert [arrow.line for arrow in found.arrows] == [5, 6]
    assert found.text.endswith("one two#x y → B: z\nB → one two#x y\n")


def test_a_name_that_no_system_opens_is_no_file() -> None:
    found = note(file("a", "x" * 5000 + ".md"), file("b", " \n"), text("c", "kept"))

    assert (searched(found), found.links) == (["kept"], ())


def test_an_arrow_names_a_note_without_its_ending_before_its_place_too() -> None:
    found = note(
        file("a", "A.md", subpath="#Use"),
        file("b", "B.md"),
        edges=[edge("a", "b", label="x"), edge("b", "a")],
    )

    assert found.text.endswith("A#Use → B: x\nB → A#Use\n")


def test_an_arrow_with_two_heads_leads_both_ways() -> None:
    ends = {"fromEnd": "arrow", "toEnd": "arrow"}
    found = note(
        file("a", "A.md"),
        file("b", "B.md"),
        text("c", "card"),
        edges=[edge("a", "b", label="and", **ends), edge("c", "a", label="too", fromEnd="arrow")],
    )

    assert found.arrows == (Arrow("A.md", "B.md", "and", 7), Arrow("B.md", "A.md", "and", 7))
    assert found.text.endswith("A ↔ B: and\ncard ↔ A: too\n")


def test_an_integer_without_end_is_no_problem() -> None:
    source = f'{{"nodes": [{{"id": "a", "type": "text", "text": "kept", "x": {"9" * 5000}}}]}}'

    assert searched(parse("Board.canvas", source.encode())) == ["kept"]


def test_a_field_on_a_card_says_nothing_of_the_canvas() -> None:
    found = note(text("a", "type:: decision\ndate:: 1999-01-01"))

    assert note_kind(found, RULES) == "canvas"
    assert note_date(found) is None
    assert [field.key for field in found.fields] == ["type", "date"]


@pytest.mark.parametrize(
    "long",
    [text("hub", "word " * 160_000), file("hub", "x" * 800_000), text("hub", " " * 800_000 + "x")],
    ids=["card", "name", "blanks"],
)
def test_a_long_card_with_many_arrows_costs_its_length_once(long: Node) -> None:
    others = [file(str(number), f"{number}.md") for number in range(4000)]
    data = canvas([long, *others], [edge("hub", str(n), label="x") for n in range(4000)])
    start = process_time()

    found = parse("Board.canvas", data)

    assert process_time() - start < 4
    assert len(found.text) < 2 * len(data)


def test_an_edge_without_ends_leads_from_no_card_without_a_name() -> None:
    found = note({"type": "text", "text": "anonymous"}, edges=[{"label": "lost"}])

    assert searched(found) == ["anonymous"]


def test_bytes_that_are_not_utf8_name_no_line_of_a_canvas() -> None:
    found = parse("c.canvas", b'{\n\n\n"nodes": [{"id": "a", "type": "text", "text": "caf\xe9"}]}')

    assert found.text == "caf\u00e9\n\n"
    assert [(problem.code, problem.line) for problem in found.problems] == [("encoding", 0)]


def test_a_card_that_looks_like_a_private_note_is_a_card() -> None:
    token = "gh" + "p_" + "FMPd3W2XyygNdemkvdajgwb2Mjpvwh09CDfg"
    private = "---\nprivate: true\n---\nx"

    first = parse("c.canvas", canvas([text("a", private), text("b", token)]))
    second = parse("c.canvas", canvas([text("a", "one"), text("b", private), text("c", token)]))

    for found in (first, second):
        (finding,) = found.findings
        assert found.text.split("\n")[finding.line - 1] == "[secret:github-pat]"
        assert found.screening is Screening.PARTS
