"""Canvases and drawings, end to end: found, read, linked, explained, taken in when they change."""

import json
from collections.abc import Callable, Iterable, Mapping

import pytest

from vaultmem.service.application import Clock, Memory
from vaultmem.service.indexing import NoteCounts
from vaultmem.service.operations.index import IndexReply, IndexRequest, index
from vaultmem.service.operations.inspect import InspectRequest, inspect
from vaultmem.service.operations.lint import LintRequest, lint
from vaultmem.service.operations.read import ReadRequest, read
from vaultmem.service.operations.related import RelatedRequest, related
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.operations.status import StatusRequest, status
from vaultmem.vault.paths import vault_path

Open = Callable[..., Memory]
Find = Callable[..., list[str]]
Run = Callable[[Memory], IndexReply]
Node = Mapping[str, object]


def text(name: str, content: str) -> Node:
    return {"id": name, "type": "text", "text": content, "x": 0, "y": -40, "width": 250}


def file(name: str, path: str, **more: object) -> Node:
    return {"id": name, "type": "file", "file": path, "x": 0, "y": 0, **more}


def edge(source: str, target: str, **more: object) -> Node:
    return {"id": f"{source}-{target}", "fromNode": source, "toNode": target, **more}


def canvas(nodes: Iterable[Node], edges: Iterable[Node] = ()) -> str:
    return json.dumps({"nodes": list(nodes), "edges": list(edges)}, indent="\t")


BOARD = canvas(
    [
        text("t", "# Raku\nQuench in sawdust #firing/raku\n\n- [ ] ask [[Mara]] ^ask"),
        file("w", "Notes/Wheel throwing.md"),
        file("g", "Notes/Glaze.md"),
        file("p", "pics/pot.png"),
        file("m", "Notes/Missing.md"),
        {"id": "l", "type": "link", "url": "https://example.org/kilnbuilding"},
        {"id": "r", "type": "group", "label": "Autumn workshop"},
        file("c", "Notes/Wheel throwing.md", subpath="#Centring"),
    ],
    [
        edge("w", "g", label="comes before"),
        edge("g", "p"),
        edge("t", "r", label="prepares"),
        edge("w", "m"),
    ],
)
BOARD_TEXT = """\
# Raku
Quench in sawdust #firing/raku

- [ ] ask [[Mara]] ^ask

![[Notes/Wheel throwing.md]]

![[Notes/Glaze.md]]

![[pics/pot.png]]

![[Notes/Missing.md]]

https://example.org/kilnbuilding

Autumn workshop

![[Notes/Wheel throwing.md#Centring]]

Notes/Wheel throwing → Notes/Glaze: comes before
# Raku Quench in sawdust #firing/raku - [ ] ask [[Mara]] ^a… → Autumn workshop: prepares
Notes/Glaze → pics/pot.png
Notes/Wheel throwing → Notes/Missing
"""
VAULT = {
    "Boards/Plan.canvas": BOARD,
    "Notes/Wheel throwing.md": "# Centring\nPress down.\n",
    "Notes/Glaze.md": "Ash and feldspar.\n",
    "Mara.md": "A potter.\n",
    "pics/pot.png": b"x",
}


@pytest.fixture
def board(indexed: Open) -> Memory:
    return indexed(VAULT)


def rewrite(memory: Memory, path: str, content: str) -> None:
    (memory.vault / path).write_text(content, encoding="utf-8")


def backlinks(memory: Memory, note: str) -> list[tuple[str, int, str]]:
    return [(b.path, b.line, b.text) for b in related(memory, RelatedRequest(note)).backlinks]


def arrows(memory: Memory, note: str) -> list[tuple[str, str | None, int, str | None, str | None]]:
    links = related(memory, RelatedRequest(note)).links
    return [(k.link, k.display, k.line, k.resolved, k.via) for k in links if k.via is not None]


def unresolved(memory: Memory) -> list[tuple[str, int, str]]:
    return [(u.path, u.line, u.link) for u in lint(memory, LintRequest()).unresolved]


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ("quench sawdust", (1, 4)),
        ("raku", (1, 4)),
        ("glaze", (8, 8)),
        ("centring", (18, 18)),
        ("pot.png", (10, 10)),
        ("missing", (12, 12)),
        ("kilnbuilding", (14, 14)),
        ("autumn workshop", (16, 16)),
        ("comes before", (20, 20)),
    ],
)
def test_a_canvas_is_found_by_its_cards_its_files_and_what_its_arrows_say(
    query: str, lines: tuple[int, int], board: Memory
) -> None:
    hits = search(board, SearchRequest(query, passages=True, paths=("Boards",))).hits

    best = hits[0]
    assert best.path == "Boards/Plan.canvas"
    assert best.lines[0] <= lines[0] <= lines[1] <= best.lines[1]
    assert (best.title, best.kind, best.stale) == ("Plan", "canvas", False)


def test_a_hit_shows_the_words_of_the_card(board: Memory) -> None:
    (hit,) = search(board, SearchRequest("sawdust")).hits

    assert "Quench in sawdust" in hit.snippet
    assert hit.heading == ("Raku",)
    assert hit.lines == (1, 4)
    assert hit.uri.startswith("obsidian://open?vault=vault&file=Boards%2FPlan.canvas")


def test_a_canvas_is_found_by_tag_path_and_kind(board: Memory, find: Find) -> None:
    assert find(board, "tag:firing") == ["Boards/Plan.canvas"]
    assert find(board, "", tags=("firing/raku",)) == ["Boards/Plan.canvas"]
    assert find(board, "path:Boards/Plan.canvas") == ["Boards/Plan.canvas"]
    assert find(board, "kind:canvas") == ["Boards/Plan.canvas"]
    assert "Boards/Plan.canvas" not in find(board, "kind:note")


def test_a_canvas_is_read_as_its_text(board: Memory) -> None:
    reply = read(board, ReadRequest("Plan.canvas"))

    assert reply.text == BOARD_TEXT
    assert (reply.path, reply.title, reply.lines) == ("Boards/Plan.canvas", "Plan", (1, 23))
    assert (reply.tags, reply.frontmatter) == (("firing/raku",), {})


def test_a_card_is_read_by_its_heading_and_its_id(board: Memory) -> None:
    section = read(board, ReadRequest("Boards/Plan.canvas#Raku"))
    block = read(board, ReadRequest("Boards/Plan.canvas#^ask"))

    assert (section.lines, section.text[:6], section.text[-4:]) == ((1, 4), "# Raku", "^ask")
    assert (block.lines, block.text) == ((4, 4), "- [ ] ask [[Mara]] ^ask")


def test_the_lines_of_a_hit_are_those_that_reading_gives(board: Memory) -> None:
    lines = read(board, ReadRequest("Plan.canvas")).text.split("\n")

    for hit in search(board, SearchRequest("kind:canvas", passages=True)).hits:
        shown = " ".join(" ".join(lines[hit.lines[0] - 1 : hit.lines[1]]).split())
        assert hit.snippet.strip("… ")[:20] in shown


def test_backlinks_from_a_canvas_show_the_line_of_its_card_and_of_its_arrow(
    board: Memory,
) -> None:
    assert backlinks(board, "Mara") == [("Boards/Plan.canvas", 4, "- [ ] ask [[Mara]] ^ask")]
    assert backlinks(board, "Wheel throwing") == [
        ("Boards/Plan.canvas", 6, "![[Notes/Wheel throwing.md]]"),
        ("Boards/Plan.canvas", 18, "![[Notes/Wheel throwing.md#Centring]]"),
    ]
    assert backlinks(board, "Glaze") == [
        ("Boards/Plan.canvas", 8, "![[Notes/Glaze.md]]"),
        ("Boards/Plan.canvas", 20, "Notes/Wheel throwing → Notes/Glaze: comes before"),
    ]


def test_a_canvas_links_to_its_files_and_to_what_its_cards_link_to(board: Memory) -> None:
    links = related(board, RelatedRequest("Plan.canvas")).links

    assert [(k.link, k.subpath, k.embed, k.line, k.resolved, k.via) for k in links] == [
        ("Mara", "", False, 4, "Mara.md", None),
        ("Notes/Wheel throwing.md", "", True, 6, "Notes/Wheel throwing.md", None),
        ("Notes/Glaze.md", "", True, 8, "Notes/Glaze.md", None),
        ("pics/pot.png", "", True, 10, "pics/pot.png", None),
        ("Notes/Missing.md", "", True, 12, None, None),
        ("Notes/Wheel throwing.md", "#Centring", True, 18, "Notes/Wheel throwing.md", None),
    ]


def test_an_arrow_is_a_link_from_one_file_to_the_other(board: Memory) -> None:
    plan = "Boards/Plan.canvas"
    assert arrows(board, "Wheel throwing") == [
        ("Notes/Glaze.md", "comes before", 20, "Notes/Glaze.md", plan),
        ("Notes/Missing.md", None, 23, None, plan),
    ]
    assert arrows(board, "Glaze") == [("pics/pot.png", None, 22, "pics/pot.png", plan)]
    assert arrows(board, "Mara") == []
    assert read(board, ReadRequest("Glaze")).links == related(board, RelatedRequest("Glaze")).links


def test_what_stands_on_a_canvas_is_no_orphan_and_a_canvas_is_none_either(indexed: Open) -> None:
    memory = indexed(
        {
            "Board.canvas": canvas([file("a", "a.md"), text("t", "[[b]]")]),
            "Bare.canvas": canvas([text("t", "alone")]),
            **dict.fromkeys(("a.md", "b.md", "c.md"), "words"),
        }
    )

    assert [orphan.path for orphan in lint(memory, LintRequest()).orphans] == ["c.md"]


def test_a_file_that_is_missing_is_a_link_that_leads_nowhere(board: Memory) -> None:
    assert unresolved(board) == [("Boards/Plan.canvas", 12, "Notes/Missing.md")]


def test_a_path_on_a_canvas_means_that_file_and_no_other_of_its_name(indexed: Open) -> None:
    memory = indexed(
        {
            "x/log.md": "one",
            "y/log.md": "two",
            "z/other.md": "three",
            "x/Board.canvas": canvas([file("a", "y/log.md"), file("b", "log.md")]),
            "y/Two.canvas": canvas([file("c", "other.md"), text("t", "[[log]] and [[other]]")]),
        }
    )

    found = {
        (k.link, k.embed): k.resolved
        for name in ("Board.canvas", "Two.canvas")
        for k in related(memory, RelatedRequest(name)).links
    }
    assert found == {
        ("y/log.md", True): "y/log.md",
        ("log.md", True): None,
        ("other.md", True): None,
        ("log", False): "y/log.md",
        ("other", False): "z/other.md",
    }
    assert [(a.path, a.link) for a in lint(memory, LintRequest()).ambiguous] == [
        ("y/Two.canvas", "log")
    ]


@pytest.mark.parametrize("name", ["a]]b.md", "a|b.md", "C#.md", "a%20b.md", "`a`.md", "ä ö.md"])
def test_a_file_is_linked_whatever_its_name_holds(name: str, indexed: Open, find: Find) -> None:
    memory = indexed(
        {
            name: "words",
            "B.md": "",
            "Board.canvas": canvas([file("a", name), file("b", "B.md")], [edge("a", "b")]),
        }
    )

    assert unresolved(memory) == []
    assert ("Board.canvas", 1, f"![[{name}]]") in backlinks(memory, name)
    assert [k.resolved for k in related(memory, RelatedRequest(name)).links] == ["B.md"]


@pytest.mark.parametrize(
    "path", ["../outside.md", "../../outside.md", "/etc/passwd", "https://example.org/a.md", "."]
)
def test_a_path_out_of_the_vault_leads_nowhere(path: str, indexed: Open) -> None:
    memory = indexed({"a.md": "", "Board.canvas": canvas([file("a", path)])})
    (memory.vault.parent / "outside.md").write_text("secret", encoding="utf-8")

    assert unresolved(memory) == [("Board.canvas", 1, vault_path(path))]


def test_a_canvas_may_show_a_canvas(indexed: Open, find: Find) -> None:
    memory = indexed(
        {
            "One.canvas": canvas([file("a", "Two.canvas"), text("t", "[[Two.canvas]]")]),
            "Two.canvas": canvas([text("t", "deep words")]),
            "Note.md": "![[Two.canvas]] and [[Two]]",
        }
    )

    assert [(path, line) for path, line, _ in backlinks(memory, "Two.canvas")] == [
        ("Note.md", 1),
        ("One.canvas", 1),
        ("One.canvas", 3),
    ]
    assert unresolved(memory) == [("Note.md", 1, "Two")]
    assert find(memory, "deep words")[0] == "Two.canvas"


def test_a_file_that_comes_back_is_linked_again(board: Memory, run_index: Run) -> None:
    plan = ("Boards/Plan.canvas", 12, "![[Notes/Missing.md]]")

    rewrite(board, "Notes/Missing.md", "here now")
    assert plan in backlinks(board, "Missing")
    assert unresolved(board) == []
    assert arrows(board, "Wheel throwing")[1][3] == "Notes/Missing.md"

    (board.vault / "Notes/Missing.md").unlink()
    assert unresolved(board) == [("Boards/Plan.canvas", 12, "Notes/Missing.md")]
    assert arrows(board, "Wheel throwing")[1][3] is None
    assert run_index(board).canvases == NoteCounts(1, 0, 0, 0, 0, 1)


@pytest.mark.parametrize("to", ["Notes/Glazing.md", "Recipes/Glaze.md"])
def test_a_file_that_moves_away_leaves_a_card_that_leads_nowhere(
    board: Memory, to: str, assert_equals_rebuild: Callable[[Memory], None]
) -> None:
    (board.vault / to).parent.mkdir(exist_ok=True)
    (board.vault / "Notes/Glaze.md").rename(board.vault / to)

    assert backlinks(board, to) == []
    assert arrows(board, to) == []
    assert ("Boards/Plan.canvas", 8, "Notes/Glaze.md") in unresolved(board)
    assert arrows(board, "Wheel throwing")[0][3] is None
    assert_equals_rebuild(board)

    rewrite(board, "Boards/Plan.canvas", BOARD.replace("Notes/Glaze.md", to))
    assert [line for _, line, _ in backlinks(board, to)] == [8, 20]
    assert arrows(board, "Wheel throwing")[0][3] == to
    assert_equals_rebuild(board)


def test_an_attachment_on_a_canvas_is_followed_too(board: Memory) -> None:
    (board.vault / "pics/pot.png").rename(board.vault / "pics/vase.png")
    assert ("Boards/Plan.canvas", 10, "pics/pot.png") in unresolved(board)
    assert arrows(board, "Glaze")[0][3] is None

    rewrite(board, "Boards/Plan.canvas", BOARD.replace("pot.png", "vase.png"))
    assert [link for _, _, link in unresolved(board)] == ["Notes/Missing.md"]


def test_a_canvas_that_moves_takes_its_links_along(
    board: Memory, find: Find, run_index: Run
) -> None:
    (board.vault / "Boards/Plan.canvas").rename(board.vault / "Sketch.canvas")

    assert run_index(board).canvases == NoteCounts(1, 0, 0, 1, 0, 0)
    assert find(board, "sawdust") == ["Sketch.canvas"]
    assert {path for path, _, _ in backlinks(board, "Glaze")} == {"Sketch.canvas"}
    assert {via for *_, via in arrows(board, "Wheel throwing")} == {"Sketch.canvas"}


def test_a_canvas_that_is_removed_takes_its_arrows_with_it(
    board: Memory, find: Find, run_index: Run
) -> None:
    (board.vault / "Boards/Plan.canvas").unlink()

    assert run_index(board).canvases == NoteCounts(0, 0, 0, 0, 1, 0)
    assert find(board, "sawdust") == []
    assert backlinks(board, "Glaze") == []
    assert arrows(board, "Wheel throwing") == []
    assert unresolved(board) == []
    assert status(board, StatusRequest()).canvases == 0


def test_an_edited_card_is_found_by_its_new_words_and_the_others_are_kept(
    board: Memory, find: Find, run_index: Run
) -> None:
    rewrite(board, "Boards/Plan.canvas", BOARD.replace("sawdust", "newspaper"))

    reply = run_index(board)
    assert reply.canvases == NoteCounts(1, 0, 1, 0, 0, 0)
    assert reply.chunks.reused == 9 - 2  # the card, and the arrow that shows its beginning
    assert find(board, "newspaper") == ["Boards/Plan.canvas"]
    assert find(board, "sawdust") == []


def test_a_new_arrow_is_there_with_the_next_question(board: Memory) -> None:
    loaded = json.loads(BOARD)
    loaded["edges"].append(edge("g", "w", label="again"))
    rewrite(board, "Boards/Plan.canvas", json.dumps(loaded))

    assert ("Notes/Wheel throwing.md", "again") in [(a[0], a[1]) for a in arrows(board, "Glaze")]
    assert any(shown.endswith(": again") for _, _, shown in backlinks(board, "Wheel throwing"))


def test_a_canvas_that_is_moved_about_on_the_screen_keeps_every_passage(
    board: Memory, run_index: Run, canon: Callable[[Memory], list[str]]
) -> None:
    def rows() -> list[str]:
        return [row for row in canon(board) if not row.startswith("note ")]

    before = rows()
    rewrite(board, "Boards/Plan.canvas", BOARD.replace('"y": -40', '"y": 1234'))

    assert run_index(board).canvases == NoteCounts(1, 0, 1, 0, 0, 0)
    assert rows() == before


@pytest.mark.parametrize("broken", ["{", BOARD[:200], "[]", "7"])
def test_a_canvas_that_breaks_is_a_problem_until_it_is_whole_again(
    board: Memory, find: Find, broken: str, assert_equals_rebuild: Callable[[Memory], None]
) -> None:
    rewrite(board, "Boards/Plan.canvas", broken)

    def problems() -> list[tuple[str, str]]:
        return [(p.path, p.code) for p in lint(board, LintRequest()).problems]

    assert problems() == [("Boards/Plan.canvas", "canvas-invalid")]
    assert find(board, "sawdust") == []
    assert find(board, "plan") == ["Boards/Plan.canvas"]
    assert backlinks(board, "Glaze") == []
    assert arrows(board, "Wheel throwing") == []
    assert any(
        "not readable JSON" in r for r in inspect(board, InspectRequest("Plan.canvas")).reasons
    )
    assert status(board, StatusRequest()).problems == 1
    assert_equals_rebuild(board)

    rewrite(board, "Boards/Plan.canvas", BOARD)
    assert problems() == []
    assert find(board, "sawdust") == ["Boards/Plan.canvas"]
    assert len(backlinks(board, "Glaze")) == 2
    assert_equals_rebuild(board)


@pytest.mark.parametrize("empty", ["", "\n", "{}", '{"nodes":[],"edges":[]}'])
def test_an_empty_canvas_is_known_by_its_name_and_no_problem(
    empty: str, indexed: Open, find: Find
) -> None:
    memory = indexed({"Fresh idea.canvas": empty})

    assert find(memory, "fresh idea") == ["Fresh idea.canvas"]
    reply = read(memory, ReadRequest("Fresh idea.canvas"))
    assert (reply.text, reply.links, reply.lines) == ("", (), (1, 1))
    answer = inspect(memory, InspectRequest("Fresh idea.canvas"))
    assert (answer.indexed, answer.stub, answer.chunks, answer.problems) == (True, True, 1, ())


def test_a_canvas_that_is_emptied_and_filled_again_loses_nothing(
    board: Memory, find: Find, run_index: Run
) -> None:
    rewrite(board, "Boards/Plan.canvas", "")
    assert run_index(board).canvases == NoteCounts(1, 0, 1, 0, 0, 0)
    assert find(board, "sawdust") == []
    rewrite(board, "Boards/Plan.canvas", BOARD)
    assert find(board, "sawdust") == ["Boards/Plan.canvas"]


def test_canvases_and_notes_are_counted_apart(open_vault: Open, far_ahead: Clock) -> None:
    memory = open_vault(VAULT, clock=far_ahead)
    assert status(memory, StatusRequest()).waiting == 4

    first = index(memory, IndexRequest())
    again = index(memory, IndexRequest())
    assert (first.notes, first.canvases) == (
        NoteCounts(3, 3, 0, 0, 0, 0),
        NoteCounts(1, 1, 0, 0, 0, 0),
    )
    assert (again.notes, again.canvases) == (
        NoteCounts(3, 0, 0, 0, 0, 3),
        NoteCounts(1, 0, 0, 0, 0, 1),
    )
    reply = status(memory, StatusRequest())
    assert (reply.notes, reply.canvases, reply.fresh, reply.waiting) == (3, 1, True, 0)

    rewrite(memory, "Boards/Plan.canvas", canvas([]))
    rewrite(memory, "Mara.md", "Another potter.")
    rewrite(memory, "Second.CANVAS", canvas([text("a", "b")]))
    assert status(memory, StatusRequest()).waiting == 3
    changed = index(memory, IndexRequest())
    assert changed.notes == NoteCounts(3, 0, 1, 0, 0, 2)
    assert changed.canvases == NoteCounts(2, 1, 1, 0, 0, 0)
    assert status(memory, StatusRequest()).canvases == 2

    rebuilt = index(memory, IndexRequest(rebuild=True))
    assert (rebuilt.notes.added, rebuilt.canvases.added) == (3, 2)


def test_why_tells_what_is_known_of_a_canvas(board: Memory) -> None:
    answer = inspect(board, InspectRequest("Boards/Plan.canvas"))

    assert (answer.path, answer.indexed, answer.title) == ("Boards/Plan.canvas", True, "Plan")
    assert (answer.kind, answer.chunks, answer.links, answer.backlinks) == ("canvas", 9, 6, 0)
    assert answer.current
    assert inspect(board, InspectRequest("Glaze")).backlinks == 2

    rewrite(board, "Boards/Plan.canvas", "{}")
    assert not inspect(board, InspectRequest("Plan.canvas")).current


def test_a_canvas_that_is_kept_out_is_told_so_and_still_linked_to(
    indexed: Open, find: Find
) -> None:
    memory = indexed(
        {
            "Private/Board.canvas": canvas([text("t", "secret words"), file("a", "a.md")]),
            "a.md": "[[Private/Board.canvas]] and ![[Board.canvas]]",
        },
        environment={"VAULTMEM_SCAN_IGNORE": "Private"},
    )

    assert find(memory, "secret words") == []
    assert backlinks(memory, "a") == []
    assert unresolved(memory) == []
    for name in ("Private/Board.canvas", "Board.canvas"):
        answer = inspect(memory, InspectRequest(name))
        assert (answer.indexed, answer.excluded_by) == (False, "setting scan.ignore: Private")
    assert status(memory, StatusRequest()).canvases == 0


def test_a_canvas_that_is_too_large_is_reported(indexed: Open) -> None:
    memory = indexed(
        {"a.md": "", "Board.canvas": canvas([text("t", "word " * 100)])},
        environment={"VAULTMEM_SCAN_MAX_NOTE_BYTES": "300"},
    )

    assert [(p.path, p.code) for p in lint(memory, LintRequest()).problems] == [
        ("Board.canvas", "note-too-large")
    ]
    assert status(memory, StatusRequest()).canvases == 0


def test_a_folder_may_give_its_canvases_a_kind(indexed: Open, find: Find) -> None:
    memory = indexed(VAULT, environment={"VAULTMEM_KINDS_FOLDERS": "Boards=plan"})

    assert find(memory, "kind:plan") == ["Boards/Plan.canvas"]
    assert status(memory, StatusRequest()).canvases == 1


def test_what_a_card_marks_as_a_decision_is_found_as_one(indexed: Open) -> None:
    memory = indexed(
        {
            "Board.canvas": canvas(
                [
                    text("a", "> [!decision] Fire at cone six\n> on 2026-05-03"),
                    text("b", "nothing decided about cones"),
                ]
            )
        }
    )

    (hit,) = search(memory, SearchRequest("cone kind:decision", passages=True)).hits
    assert (hit.kind, hit.date, hit.lines) == ("decision", "2026-05-03", (1, 2))
    (item,) = inspect(memory, InspectRequest("Board.canvas")).items
    assert (item.kind, item.first, item.last) == ("decision", 1, 2)


def test_a_card_with_a_nul_in_it_is_found(indexed: Open, find: Find) -> None:
    memory = indexed({"Board.canvas": canvas([text("a", "before\0after"), text("b", "beyond")])})

    assert find(memory, "before") == find(memory, "beyond") == ["Board.canvas"]


def test_a_canvas_alone_makes_a_vault(indexed: Open, find: Find) -> None:
    assert find(indexed({"Board.canvas": BOARD}), "sawdust") == ["Board.canvas"]


DRAWING = """---

excalidraw-plugin: parsed
tags: [excalidraw]

---
==⚠  Switch to EXCALIDRAW VIEW in the MORE OPTIONS menu of this document. ⚠==

The back of the drawing: a kiln from [[Mara]].

# Excalidraw Data

## Text Elements
Chimney of firebrick #building ^aB3dE6gH

## Embedded Files
0123456789abcdef0123456789abcdef01234567: [[pics/pot.png]]

%%
## Drawing
```json
{"type": "excalidraw", "elements": [{"type": "text", "text": "quokka [[Glaze]] #quokka"}]}
```
%%
"""


def test_a_drawing_is_found_by_its_words_and_linked_by_its_elements(
    indexed: Open, find: Find
) -> None:
    drawing = "Kiln.excalidraw.md"
    memory = indexed({**VAULT, drawing: DRAWING})

    (hit,) = search(memory, SearchRequest("chimney")).hits
    assert (hit.path, hit.lines, hit.kind, hit.heading) == (drawing, (14, 14), "note", ())
    assert find(memory, "back of the drawing")[0] == drawing
    assert find(memory, "tag:building") == find(memory, "tag:excalidraw") == [drawing]
    for hidden in ("quokka", "view in the more options menu", "tag:quokka"):
        assert drawing not in find(memory, hidden)
    assert (drawing, 9, "The back of the drawing: a kiln from [[Mara]].") in backlinks(
        memory, "Mara"
    )
    assert drawing not in [path for path, _, _ in backlinks(memory, "Glaze")]
    links = related(memory, RelatedRequest(drawing)).links
    assert [(k.link, k.line, k.resolved) for k in links] == [
        ("Mara", 9, "Mara.md"),
        ("pics/pot.png", 17, "pics/pot.png"),
    ]
    element = read(memory, ReadRequest(f"{drawing}#^aB3dE6gH"))
    assert (element.lines, element.text) == ((14, 14), "Chimney of firebrick #building ^aB3dE6gH")


def test_arrows_of_a_canvas_among_the_templates_do_not_count(indexed: Open) -> None:
    memory = indexed(
        {
            ".obsidian/templates.json": '{"folder": "T"}',
            "T/Board.canvas": canvas([file("a", "A.md"), file("b", "B.md")], [edge("a", "b")]),
            "A.md": "",
            "B.md": "",
        }
    )

    assert backlinks(memory, "B") == []
    assert arrows(memory, "A") == []
    assert [orphan.path for orphan in lint(memory, LintRequest()).orphans] == ["A.md", "B.md"]


def test_a_file_that_many_cards_show_has_each_arrow_once(indexed: Open) -> None:
    memory = indexed(
        {
            "A.md": "",
            "B.md": "",
            "Board.canvas": canvas(
                [file("a", "A.md"), file("a2", "A.md"), file("b", "B.md"), file("b2", "B.md")],
                [edge("a", "b"), edge("a2", "b2", label="x")],
            ),
        }
    )

    assert [a[:3] for a in arrows(memory, "A")] == [("B.md", "x", 9), ("B.md", None, 10)]
    assert [line for _, line, _ in backlinks(memory, "B")] == [5, 7, 9, 10]


def test_an_arrow_leads_where_the_cards_of_its_files_lead(indexed: Open) -> None:
    memory = indexed(
        {
            "Notes/Übung  1.md": "",
            "Notes/B.md": "",
            "Board.canvas": canvas(
                [
                    file("a", "notes/U\u0308bung  1.md"),
                    file("b", "/Notes/B.md"),
                    file("c", "Board.canvas"),
                ],
                [edge("a", "b"), edge("b", "a"), edge("b", "c")],
            ),
        }
    )

    assert unresolved(memory) == []
    assert [a[3] for a in arrows(memory, "Notes/Übung  1.md")] == ["Notes/B.md"]
    assert sorted(str(a[3]) for a in arrows(memory, "B")) == ["Board.canvas", "Notes/Übung  1.md"]
    assert [line for _, line, _ in backlinks(memory, "B")] == [3, 7]
    assert backlinks(memory, "Board.canvas") == []  # a canvas is no backlink of itself


def test_why_keeps_the_name_of_a_canvas_that_is_not_there(board: Memory) -> None:
    answer = inspect(board, InspectRequest("Gone.canvas"))

    assert (answer.path, answer.indexed) == ("Gone.canvas", False)
