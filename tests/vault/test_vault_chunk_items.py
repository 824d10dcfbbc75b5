"""Passages of a note with items: each item is its own, nothing is lost, edits stay local."""

import json
from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise
from random import Random
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.model.chunk import Chunk
from vaultmem.model.note import Item, Note
from vaultmem.vault.chunk import MAX_TRAIL_CHARS, chunk_note
from vaultmem.vault.facts import KindRules
from vaultmem.vault.items import find_items
from vaultmem.vault.parse import parse
from vaultmem.vault.pieces import estimate_pieces

MAX_PIECES = 180
RULES = KindRules({}, logs=("log",), items=("decision", "error", "lesson", "memory"))


def note(text: str, path: str = "n.md") -> Note:
    return parse(path, text.encode("utf-8", "surrogatepass"))


def found_in(parsed: Note) -> tuple[Item, ...]:
    return find_items(parsed, RULES, "note")


def cut(text: str, path: str = "n.md", *, max_pieces: int = MAX_PIECES) -> tuple[Chunk, ...]:
    parsed = note(text, path)
    return chunk_note(parsed, max_pieces=max_pieces, items=found_in(parsed))


def kind(chunk: Chunk) -> str | None:
    """That of the innermost item it is part of."""
    return chunk.items[0][0] if chunk.items else None


def day(chunk: Chunk) -> str | None:
    return chunk.items[0][1] if chunk.items else None


def passages(text: str, path: str = "n.md") -> list[tuple[str | None, str]]:
    """(kind, text) of each passage."""
    return [(kind(chunk), chunk.text) for chunk in cut(text, path)]


def words(seed: int, count: int) -> str:
    return " ".join(f"word{seed}x{number}" for number in range(count))


# --- What is a passage ---------------------------------------------------------------------------


def test_an_item_is_a_passage_between_those_around_it() -> None:
    assert passages("before\n\ndecision:: x\n\nafter\n") == [
        (None, "before"),
        ("decision", "decision:: x"),
        (None, "after"),
    ]


def test_items_side_by_side_are_passages_apart() -> None:
    text = "- decision:: a\n- error:: b\n  - why\n- c\n- d\n- lesson:: e\n"

    assert passages(text) == [
        ("decision", "- decision:: a"),
        ("error", "- error:: b\n  - why"),
        (None, "- c\n- d"),
        ("lesson", "- lesson:: e"),
    ]


def test_an_item_right_below_its_heading_takes_it_along() -> None:
    first, second = cut("# Pool\n\n> [!error] Full\n> x\n\nafter\n")

    assert first.text == "# Pool\n\n> [!error] Full\n> x"
    assert first.text[first.body :].strip() == "> [!error] Full\n> x"
    assert (kind(first), first.trail) == ("error", ("Pool",))
    assert (kind(second), second.trail, second.body) == (None, ("Pool",), 0)


def test_text_between_a_heading_and_an_item_keeps_the_heading() -> None:
    assert passages("# Pool\n\ntext\n\ndecision:: x\n") == [
        (None, "# Pool\n\ntext"),
        ("decision", "decision:: x"),
    ]


def test_the_trail_of_an_item_is_that_of_its_place() -> None:
    text = "# A\n\n## B\n\ntext\n\ndecision:: x\n\n# C\n\ntext\n\ndecision:: y\n"

    assert [chunk.trail for chunk in cut(text) if kind(chunk)] == [("A", "B"), ("C",)]


def test_a_passage_has_the_kind_and_the_day_of_the_innermost_item() -> None:
    text = (
        "# 2026-05-03\n\nfired\n\n- decision:: 2026-05-04 cool it\n  - (lesson:: slowly) now\n"
        "  - rest\n\nend\n"
    )
    found = [(kind(chunk), day(chunk), chunk.text) for chunk in cut(text, "Log.md")]

    assert found == [
        ("episode", "2026-05-03", "# 2026-05-03\n\nfired"),
        ("decision", "2026-05-04", "- decision:: 2026-05-04 cool it"),
        ("lesson", "2026-05-03", "  - (lesson:: slowly) now"),
        ("decision", "2026-05-04", "  - rest"),
        ("episode", "2026-05-03", "end"),
    ]


def test_an_entry_reaches_over_the_headings_below_it() -> None:
    text = (
        "# Changelog\n\n## 1.1.0 - 2026-05-03\n\n### Added\n\n- a\n\n### Fixed\n\n- b\n\n"
        "## 1.0.0 - 2026-04-01\n\n- c\n"
    )

    assert [(kind(c), day(c), c.trail) for c in cut(text, "CHANGELOG.md")] == [
        (None, None, ("Changelog",)),
        ("episode", "2026-05-03", ("Changelog", "1.1.0 - 2026-05-03")),
        ("episode", "2026-05-03", ("Changelog", "1.1.0 - 2026-05-03", "Added")),
        ("episode", "2026-05-03", ("Changelog", "1.1.0 - 2026-05-03", "Fixed")),
        ("episode", "2026-04-01", ("Changelog", "1.0.0 - 2026-04-01")),
    ]


def test_a_long_item_is_several_passages_of_its_kind() -> None:
    text = "before\n\n> [!error] Pool\n" + "".join(f"> {words(n, 20)}\n>\n" for n in range(20))
    chunks = cut(text + "\nafter\n")

    assert len(chunks) > 4
    assert [kind(chunk) for chunk in chunks] == [None, *["error"] * (len(chunks) - 2), None]
    assert all(chunk.pieces <= MAX_PIECES + 1 for chunk in chunks)


def test_a_note_without_items_is_cut_as_before() -> None:
    parsed = note("# A\n\n" + "\n\n".join(words(n, 30) for n in range(12)))

    assert chunk_note(parsed, max_pieces=MAX_PIECES, items=()) == chunk_note(
        parsed, max_pieces=MAX_PIECES
    )
    assert {kind(chunk) for chunk in chunk_note(parsed, max_pieces=MAX_PIECES)} == {None}


@pytest.mark.parametrize("text", ["decision:: x", "decision:: x\n", "\n\ndecision:: x\n\n\n"])
def test_a_note_that_is_one_item_is_one_passage(text: str) -> None:
    assert passages(text) == [("decision", "decision:: x")]


@pytest.mark.parametrize("end", ["", "\n", "\n\n\n"])
def test_an_item_at_the_end_of_the_file_is_whole(end: str) -> None:
    assert passages(f"a\n\n> [!error] T\n> x{end}") == [(None, "a"), ("error", "> [!error] T\n> x")]


def test_properties_are_in_no_passage_of_an_item() -> None:
    (chunk,) = cut("---\na: b\n---\ndecision:: x\n")

    assert (chunk.text, kind(chunk), chunk.first_line) == ("decision:: x", "decision", 4)


def test_equal_items_have_different_keys() -> None:
    keys = [chunk.key for chunk in cut("decision:: x\n\ndecision:: x\n\ndecision:: x\n")]

    assert len(set(keys)) == 3


def test_the_kind_is_no_part_of_the_key() -> None:
    text = "decision:: x"
    plain = chunk_note(note(text), max_pieces=MAX_PIECES)

    assert [chunk.key for chunk in cut(text)] == [chunk.key for chunk in plain]


def test_cards_of_a_canvas_keep_their_items() -> None:
    texts = ["# A\n\ndecision:: one\n\nafter", "> [!error] E\n> e", "plain"]
    nodes = [{"id": t, "type": "text", "text": t, "x": 0, "y": n} for n, t in enumerate(texts)]
    found = passages(json.dumps({"nodes": nodes, "edges": []}), "board.canvas")

    assert found == [
        ("decision", "# A\n\ndecision:: one"),
        (None, "after"),
        ("error", "> [!error] E\n> e"),
        (None, "plain"),
    ]


def test_a_drawing_has_items_in_the_parts_that_are_searched() -> None:
    text = (
        "---\nexcalidraw-plugin: parsed\n---\n# Excalidraw Data\n\n## Text Elements\n"
        "decision:: one pool ^abcdefgh\n\nplain words here ^ijklmnop\n\n"
        "%%\n## Drawing\n```json\n{}\n```\n%%\n"
    )
    chunks = cut(text, "d.excalidraw.md")

    assert any(kind(chunk) == "decision" and "one pool" in chunk.text for chunk in chunks)
    assert all("Drawing" not in chunk.text for chunk in chunks)
    covers(note(text, "d.excalidraw.md"), chunks)


# --- Whatever is written -------------------------------------------------------------------------


def shown(text: str) -> str:
    return "".join(text.split())


def covers(parsed: Note, chunks: tuple[Chunk, ...]) -> None:
    """Every sign of the searched parts stands in one passage, and they come in order."""
    for chunk in chunks:
        assert chunk.text == parsed.text[chunk.start : chunk.end]
        if not chunk.text:
            assert len(chunks) == 1
            continue
        assert chunk.first_line == bisect_right(parsed.line_starts, chunk.start)
        last = max(chunk.start, chunk.end - 1)
        assert chunk.last_line == bisect_right(parsed.line_starts, last)
        assert 0 <= chunk.body <= len(chunk.text)
    assert all(a.end <= b.start for a, b in pairwise(chunks))
    assert shown("".join(chunk.text for chunk in chunks)) == shown(
        "".join(parsed.text[start:end] for start, end in parsed.parts)
    )


def trail_at(parsed: Note, offset: int) -> tuple[str, ...]:
    """The headings above an offset, by walking through all of them."""
    above: list[tuple[int, str]] = []
    for heading in parsed.headings:
        if heading.start <= offset:
            above = [*((level, text) for level, text in above if level < heading.level)]
            above.append((heading.level, heading.text[:MAX_TRAIL_CHARS]))
    return tuple(text for _, text in above)


def in_a_heading(parsed: Note, item: Item) -> bool:
    at = bisect_right([heading.line for heading in parsed.headings], item.first) - 1
    if at < 0 or item.origin == "entry":
        return False
    return not 0 <= parsed.headings[at].body <= parsed.line_starts[item.first - 1]


def belongs(parsed: Note, chunk: Chunk, items: tuple[Item, ...]) -> None:
    """A passage is part of its item, and no item begins or ends within it."""
    inside = [i for i in items if i.first <= chunk.last_line and i.last >= chunk.first_line]
    if kind(chunk) is None:
        assert not inside
        return
    assert (kind(chunk), day(chunk)) in {(item.kind, item.date) for item in inside}
    for item in inside:
        assert item.last >= chunk.last_line
        if item.first > chunk.first_line:  # but for the heading it stands right below
            between = parsed.text[chunk.start : parsed.line_starts[item.first - 1]]
            assert 0 < chunk.body <= len(between)
            assert not between[chunk.body :].strip()
    least = min(item.last - item.first for item in inside)
    assert (kind(chunk), day(chunk)) in {
        (item.kind, item.date) for item in inside if item.last - item.first == least
    }


pieces = st.sampled_from(
    [
        "decision:: keep it", "- error:: lost", "  - lesson:: look", "    - deeper", "- plain item",
        "> [!memory] M", ">> [!error] E", "> text", ">> more", "  > [!decision] in a list",
        "  > x", "## 2026-05-03", "### [1.0.0] - 2026-05-04", "# T", "T\n===", "#### U",
        "- 2026-05-05 x", "- 2026-05-06 y", "2026-05-07 z", "- [ ] t [decision:: d]", "```", "%%",
        "$$", "", "", "some text", "Some more text of a paragraph that goes on. " * 12,
        "    code", "1. a", "   b", "| a | (lesson:: c) |", "|---|---|", "<div>", "---",
        "漢字 decision:: 文", "😀 (memory:: 😀)", "\t", "  ",
    ]
)  # fmt: skip
texts = st.lists(pieces, max_size=40).map("\n".join)


@settings(max_examples=400, deadline=None)
@given(texts, st.sampled_from(["n.md", "Log.md"]), st.sampled_from([40, 180]))
def test_passages_with_items_cover_the_note_once_in_order(
    text: str, path: str, max_pieces: int
) -> None:
    parsed = note(text, path)
    items = found_in(parsed)
    chunks = chunk_note(parsed, max_pieces=max_pieces, items=items)

    covers(parsed, chunks)
    assert len({chunk.key for chunk in chunks}) == len(chunks)
    # One in a heading speaks for the text below it too, and one below a heading for the heading.
    plain = not any(in_a_heading(parsed, item) for item in items)
    for chunk in chunks:
        if chunk.text:
            assert chunk.trail == trail_at(parsed, chunk.start)
            if plain and chunk.text[chunk.body :].strip():
                belongs(parsed, chunk, items)


@settings(max_examples=100, deadline=None)
@given(texts, st.integers(0, 40), pieces)
def test_an_edit_leaves_the_items_above_it_alone(text: str, at: int, line: str) -> None:
    above = "# Alpha\n\n- decision:: one\n  - why\n\n> [!error] two\n> x\n\ntext\n\n# Beta\n\n"
    lines = text.split("\n")
    at %= len(lines) + 1
    before, after = cut(above + text), cut(above + "\n".join([*lines[:at], line, *lines[at:]]))

    assert [kind(chunk) for chunk in before[:3]] == ["decision", "error", None]
    assert before[:3] == after[:3]


def prose(random: Random, count: int) -> list[str]:
    lines: list[str] = []
    for number in range(count):
        text = words(random.randrange(10**6), random.randrange(4, 30))
        lines.append(
            random.choice(
                [
                    f"{text}\n",
                    f"- {text}",
                    f"- decision:: {text}\n  - {text}",
                    f"error:: {text}\n",
                    f"> [!lesson] {number}\n> {text}\n",
                    f"Met (memory:: {text}) there.\n",
                ]
            )
        )
    return lines


def edited(random: Random, lines: list[str]) -> list[str]:
    at = random.randrange(len(lines))
    change = random.choice(["add", "item", "drop", "change", "into"])
    fresh = words(random.randrange(10**6), 8)
    if change == "add":
        return [*lines[:at], f"{fresh}\n", *lines[at:]]
    if change == "item":
        return [*lines[:at], f"decision:: {fresh}\n", *lines[at:]]
    if change == "drop":
        return [*lines[:at], *lines[at + 1 :]]
    if change == "change":
        return [*lines[:at], lines[at].rstrip("\n") + f" {fresh}\n", *lines[at + 1 :]]
    return [*lines[:at], f"> [!error] {fresh}\n> {lines[at].split()[0]}\n", *lines[at + 1 :]]


def test_an_edit_changes_few_passages() -> None:
    """Of 300 edits of notes with items: how many passages are others afterwards."""
    random = Random(7)
    changed: list[int] = []
    for _ in range(60):
        lines = prose(random, 60)
        before = {chunk.key for chunk in cut("\n".join(lines))}
        for _ in range(5):
            after = {chunk.key for chunk in cut("\n".join(edited(random, lines)))}
            changed.append(len(after - before))

    assert len(before) > 30
    assert max(changed) <= 4
    assert sum(count > 2 for count in changed) <= len(changed) * 0.05


def test_a_mark_in_a_paragraph_makes_the_rest_of_it_other_passages_and_nothing_else() -> None:
    paragraphs = [words(n, 25) for n in range(40)]
    before = {chunk.key for chunk in cut("\n\n".join(paragraphs))}
    paragraphs[20] = "decision:: " + paragraphs[20]
    after = cut("\n\n".join(paragraphs))

    assert [kind(chunk) for chunk in after].count("decision") == 1
    assert len({chunk.key for chunk in after} - before) <= 5


# --- Limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("write", "count", "least"),
    [
        (lambda n: "decision:: x\n\n", 10_000, 10_000),
        (lambda n: "- decision:: x\n", 10_000, 10_000),
        (lambda n: "> [!error] x\n> y\n\n", 10_000, 10_000),
        (lambda n: "> [!error] x\n", 10_000, 500),
        (lambda n: f"## h{n}\n\ndecision:: x\n\n", 5_000, 5_000),
        (lambda n: "- decision:: x\n" if n == 0 else "  - lesson:: y\n", 10_000, 10_000),
        (lambda n: "  " * n + "- decision:: x\n", 600, 600),
        (lambda n: "[decision:: x] ", 20_000, 300),
        (lambda n: "a:: b ", 170_000, 1_000),
        (lambda n: "> [!lesson] y\n" if n == 0 else ">\n>> [!error] x\n", 10_000, 10_000),
        (lambda n: f"Met (decision:: {n})\n", 10_000, 500),
    ],
    ids=lambda value: None if callable(value) else str(value),
)
def test_the_time_to_cut_grows_with_the_length(
    write: Callable[[int], str], count: int, least: int
) -> None:
    parsed = note("".join(write(n) for n in range(count)))
    items = found_in(parsed)
    start = process_time()

    chunks = chunk_note(parsed, max_pieces=MAX_PIECES, items=items)

    assert process_time() - start < 2
    assert len(chunks) >= least
    assert all(estimate_pieces(chunk.text) <= MAX_PIECES + 1 for chunk in chunks[::97])
