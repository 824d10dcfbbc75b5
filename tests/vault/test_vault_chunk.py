"""How a note is cut into passages, and that an edit moves only the cuts next to it."""

import random
from collections import Counter
from itertools import pairwise
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.model.chunk import Chunk
from vaultmem.model.note import Note
from vaultmem.vault.chunk import MAX_TRAIL_CHARS, MIN_TEXT_SHARE, chunk_note
from vaultmem.vault.parse import parse
from vaultmem.vault.pieces import estimate_pieces

MAX_PIECES = 180
SENTENCE = "The quick brown fox jumps over the lazy dog and runs away. "


def note(text: str) -> Note:
    return parse("n.md", text.encode("utf-8", "surrogatepass"))


def cut(text: str, *, max_pieces: int = MAX_PIECES) -> tuple[Chunk, ...]:
    return chunk_note(note(text), max_pieces=max_pieces)


def texts(text: str, *, max_pieces: int = MAX_PIECES) -> list[str]:
    return [chunk.text for chunk in cut(text, max_pieces=max_pieces)]


def words(seed: int, count: int) -> str:
    """Prose without any boundary inside: distinct for each seed."""
    return " ".join(f"word{seed}x{number}" for number in range(count))


# --- What a passage is ---------------------------------------------------------------------------


def test_a_short_note_is_one_passage() -> None:
    (chunk,) = cut("one\n\ntwo\n")

    assert chunk.text == "one\n\ntwo"
    assert (chunk.trail, chunk.first_line, chunk.last_line, chunk.body) == ((), 1, 3, 0)
    assert (chunk.start, chunk.end) == (0, 8)


@pytest.mark.parametrize("text", ["", "\n\n  \n", "---\na: b\n---\n", "---\na: b\n---"])
def test_a_note_without_text_has_one_empty_passage(text: str) -> None:
    (chunk,) = cut(text)

    assert chunk.text == ""
    assert chunk.start == chunk.end
    assert chunk.key


def test_frontmatter_is_in_no_passage() -> None:
    (chunk,) = cut("---\na: b\n---\ntext\n")

    assert (chunk.text, chunk.first_line) == ("text", 4)


def test_a_heading_always_opens_a_passage_and_its_trail_is_outermost_first() -> None:
    chunks = cut("intro\n# A\na\n## B\nb\n#### C\nc\n## D\nd\n# E\ne\n")

    assert [(chunk.text, chunk.trail) for chunk in chunks] == [
        ("intro", ()),
        ("# A\na", ("A",)),
        ("## B\nb", ("A", "B")),
        ("#### C\nc", ("A", "B", "C")),
        ("## D\nd", ("A", "D")),
        ("# E\ne", ("E",)),
    ]


def test_a_heading_without_text_is_a_passage_of_its_own() -> None:
    assert texts("# A\n## B\ntext\n") == ["# A", "## B\ntext"]


def test_the_body_of_a_passage_begins_behind_the_heading_it_opens_with() -> None:
    text = "# A\n" + "\n\n".join(words(n, 40) for n in range(6)) + "\n\nB\n===\nb\n"

    chunks = cut(text)

    assert len(chunks) > 2
    assert chunks[0].text[: chunks[0].body] == "# A\n"
    assert {chunk.body for chunk in chunks[1:-1]} == {0}
    assert chunks[-1].text[chunks[-1].body :] == "b"


def test_a_passage_without_a_heading_has_its_body_at_its_beginning() -> None:
    assert [chunk.body for chunk in cut("intro\n")] == [0]


def test_a_hash_line_in_code_opens_no_passage() -> None:
    assert len(cut("# A\n```\n# comment\n\n# more\n```\n")) == 1


def test_the_indentation_of_a_first_line_stays() -> None:
    text = "    code\n    more\n"

    (chunk,) = cut(text)

    assert chunk.text == "    code\n    more"


def test_long_headings_are_cut_in_the_trail_not_in_the_passage() -> None:
    (chunk,) = cut(f"# {'x' * 500}\ntext\n")

    assert chunk.trail == ("x" * MAX_TRAIL_CHARS,)
    assert chunk.text == f"# {'x' * 500}\ntext"


def test_the_pieces_of_a_passage_include_its_trail() -> None:
    text = "# A heading of some words\n## Another one\ntext\n"

    last = cut(text)[-1]

    assert last.pieces == estimate_pieces(last.text) + estimate_pieces(
        "A heading of some words Another one"
    )


# --- Where it is cut -----------------------------------------------------------------------------


def test_a_long_section_is_cut_between_paragraphs() -> None:
    paragraphs = [words(n, 25) for n in range(12)]

    found = texts("\n\n".join(paragraphs))

    assert len(found) > 2
    assert [part for chunk in found for part in chunk.split("\n\n")] == paragraphs


def test_a_long_list_is_cut_between_items() -> None:
    items = [f"- {words(n, 15)}" for n in range(30)]

    found = texts("\n".join(items))

    assert len(found) > 3
    assert all(chunk.startswith("- ") for chunk in found)


def test_a_section_is_cut_at_its_strongest_boundaries_first() -> None:
    lists = ["\n".join(f"- {words(10 * n + m, 4)}" for m in range(6)) for n in range(4)]
    assert all(60 < estimate_pieces(written) < MAX_PIECES for written in lists)

    found = texts("\n\nbetween\n\n".join(lists))

    assert len(found) > 2
    assert all(any(written in chunk for chunk in found) for written in lists)


def test_what_stands_below_an_item_stays_with_it_where_it_fits() -> None:
    items = [f"- top {n}\n  - {words(n, 4)}\n  - {words(n + 100, 4)}" for n in range(20)]

    found = texts("\n".join(items))

    assert len(found) > 2
    assert all(chunk.startswith("- top") for chunk in found)


@pytest.mark.parametrize(
    "block",
    [
        "```py\n" + "\n\n".join(f"call_{n}()" for n in range(12)) + "\n```",
        "| a | b |\n|---|---|\n" + "\n".join(f"| row {n} | x |" for n in range(12)),
        "> [!note] Title\n" + "\n>\n".join(f"> line number {n}" for n in range(12)),
        "<div>\n" + "\n".join(f"line {n}" for n in range(20)) + "\n</div>",
    ],
    ids=["fence", "table", "callout", "html"],
)
@pytest.mark.parametrize("before", range(5))
def test_a_block_that_fits_is_never_cut(block: str, before: int) -> None:
    assert estimate_pieces(block) < MAX_PIECES
    around = [words(n, 30) for n in range(10)]
    text = "# Head\n\n" + "\n\n".join([*around[: before + 1], block, *around[before + 1 :]]) + "\n"

    found = texts(text)

    assert len(found) > 3
    assert sum(block in chunk for chunk in found) == 1


def test_a_fence_too_long_for_a_passage_is_cut_between_its_lines() -> None:
    lines = [f"    result_{n} = compute(value_{n})" for n in range(60)]

    found = texts("```py\n" + "\n".join(lines) + "\n```\n")

    assert len(found) > 3
    assert [line for chunk in found for line in chunk.split("\n")] == ["```py", *lines, "```"]


def test_a_table_too_long_for_a_passage_is_cut_between_its_rows() -> None:
    rows = [f"| row {n} | {words(n, 3)} |" for n in range(60)]

    found = texts("| a | b |\n|---|---|\n" + "\n".join(rows) + "\n")

    assert len(found) > 3
    assert all(line.startswith("|") and line.endswith("|") for c in found for line in c.split("\n"))


def test_a_paragraph_too_long_for_a_passage_is_cut_between_sentences() -> None:
    found = texts("".join(SENTENCE.replace("dog", f"dog{n}") for n in range(60)))

    assert len(found) > 3
    assert all(chunk.startswith("The quick") for chunk in found)
    assert all(chunk.endswith("away.") for chunk in found)


def test_a_sentence_too_long_for_a_passage_is_cut_between_words() -> None:
    written = words(1, 500)

    found = texts(written)

    assert len(found) > 3
    assert " ".join(found) == written


def test_chinese_sentences_are_boundaries_without_blanks() -> None:
    found = texts("".join(f"这是第{n}个句子，说的是同一件事情。" for n in range(60)))

    assert len(found) > 3
    assert all(chunk.endswith("。") for chunk in found)


def test_small_pieces_are_joined_while_they_fit() -> None:
    found = cut("\n\n".join(words(n, 4) for n in range(60)))

    sizes = [chunk.pieces for chunk in found]
    assert all(a + b > MAX_PIECES for a, b in pairwise(sizes))


# --- Limits --------------------------------------------------------------------------------------


def budget(chunk: Chunk, max_pieces: int) -> float:
    """Pieces the text of a passage may have: what its headings leave, half at the least."""
    trail = estimate_pieces(" ".join(chunk.trail)) if chunk.trail else 0
    return max(int(max_pieces * MIN_TEXT_SHARE), max_pieces - trail)


@pytest.mark.parametrize(
    "text",
    [
        words(1, 3000),
        SENTENCE * 300,
        "x" * 20_000,
        "0123456789" * 1000,
        "!?" * 3000,
        "漢" * 5000,
        "ж" * 5000,
        "é" * 5000,
        "😀" * 3000,
        "- item\n" * 3000,
        "|a|\n|-|\n" + "|b|\n" * 3000,
        "```\n" + "call()\n" * 3000 + "```\n",
        "data:image/png;base64," + "iVBORw0KGgo=" * 1000,
        "https://example.org/" + "a/b-c_d?e=f&" * 500,
    ],
    ids=lambda text: repr(text[:12]),
)
@pytest.mark.parametrize("max_pieces", [40, 180])
def test_no_passage_is_larger_than_the_limit(text: str, max_pieces: int) -> None:
    for chunk in cut(text, max_pieces=max_pieces):
        assert estimate_pieces(chunk.text) <= budget(chunk, max_pieces) + 1


def test_under_long_headings_the_text_keeps_half_of_a_passage() -> None:
    heading = "Many words make a heading that takes more than its share of a passage " * 3
    headings = "".join(f"{'#' * level} {heading}\n" for level in range(1, 7))
    text = headings + "\n\n" + "\n\n".join(words(n, 8) for n in range(60))

    chunks = cut(text)

    below = [estimate_pieces(chunk.text) for chunk in chunks[6:]]
    assert len(below) > 5
    assert max(below) <= MAX_PIECES * MIN_TEXT_SHARE + 1
    assert sum(below) / len(below) > MAX_PIECES * MIN_TEXT_SHARE / 2


def test_one_line_of_two_megabytes_is_cut_in_two_seconds() -> None:
    parsed = note(SENTENCE * (2_000_000 // len(SENTENCE)))
    start = process_time()

    chunks = chunk_note(parsed, max_pieces=MAX_PIECES)

    assert process_time() - start < 2
    assert len(chunks) > 1500
    assert max(chunk.pieces for chunk in chunks) <= MAX_PIECES + 1


def test_two_megabytes_without_a_blank_are_cut_in_two_seconds() -> None:
    parsed = note("x" * 2_000_000)
    start = process_time()

    chunks = chunk_note(parsed, max_pieces=MAX_PIECES)

    assert process_time() - start < 2
    assert len(chunks) > 1500


@pytest.mark.parametrize(
    "line", ["equal line\n", "- equal item\n", "equal paragraph\n\n", "# equal heading\n", "word "]
)
def test_the_time_to_cut_equal_lines_grows_with_their_number(line: str) -> None:
    parsed = note(line * 20_000)
    start = process_time()

    chunks = chunk_note(parsed, max_pieces=MAX_PIECES)

    assert process_time() - start < 2
    assert len(chunks) > 50


def test_equal_lines_are_split_evenly() -> None:
    sizes = [chunk.pieces for chunk in cut("equal line of some words\n\n" * 500)]

    assert min(sizes[1:-1]) * 3 > max(sizes)


# --- Keys ----------------------------------------------------------------------------------------


def test_equal_passages_have_different_keys() -> None:
    keys = [chunk.key for chunk in cut("# A\nsame\n# A\nsame\n# A\nsame\n")]

    assert len(set(keys)) == 3


def test_the_same_text_under_other_headings_has_another_key() -> None:
    one, two = cut("# A\ntext\n")[0], cut("# B\ntext\n")[0]
    under_one, under_two = cut("# A\n## C\nx\n")[1], cut("# B\n## C\nx\n")[1]

    assert one.key != two.key
    assert under_one.text == under_two.text
    assert under_one.key != under_two.key


def test_a_key_does_not_depend_on_where_the_section_stands() -> None:
    alone = cut("# B\ntext\n")
    behind = cut("---\na: b\n---\nintro\n\n# A\nother\n\n# B\ntext\n")

    assert behind[-1].key == alone[0].key
    assert behind[-1].start != alone[0].start


def test_editing_one_section_leaves_the_keys_of_all_others() -> None:
    sections = {
        name: "\n\n".join(words(100 * n + m, 30) for m in range(12))
        for n, name in enumerate(("One", "Two", "Three"))
    }
    before = "".join(f"# {name}\n\n{text}\n\n" for name, text in sections.items())
    sections["Two"] = "now short"
    after = "".join(f"# {name}\n\n{text}\n\n" for name, text in sections.items())

    def keys(text: str, name: str) -> list[str]:
        return [chunk.key for chunk in cut(text) if chunk.trail == (name,)]

    assert len(keys(before, "One")) > 2
    assert keys(before, "One") == keys(after, "One")
    assert keys(before, "Three") == keys(after, "Three")
    assert not set(keys(before, "Two")) & set(keys(after, "Two"))


def test_a_changed_text_has_a_new_key() -> None:
    assert cut("one text")[0].key != cut("another text")[0].key


def test_keys_are_the_same_in_every_run() -> None:
    """They are stored; a change of theirs needs a new CHUNKER_VERSION."""
    assert [chunk.key for chunk in cut("# A\ntext\n# A\ntext\n")] == [
        "cd7d2b8ad9186426",
        "cd7d2b8ad9186426-1",
    ]


# --- An edit moves the cuts next to it and no others ---------------------------------------------

VOCABULARY = [
    "vault", "note", "index", "passage", "heading", "search", "memory", "decision", "project",
    "review", "deploy", "server", "budget", "meeting", "garden", "recipe", "train", "python",
    "sqlite", "token", "window", "chunk", "merge", "retry", "cache", "signal", "error",
]  # fmt: skip


def paragraph(chance: random.Random) -> str:
    sentences = []
    for _ in range(chance.randint(1, 5)):
        sentence = " ".join(chance.choices(VOCABULARY, k=chance.randint(5, 16)))
        sentences.append(sentence.capitalize() + ".")
    return " ".join(sentences)


def edited(paragraphs: list[str], chance: random.Random) -> list[str]:
    """One paragraph edited, inserted or deleted."""
    at = chance.randrange(len(paragraphs))
    match chance.choice(("edit", "insert", "delete")):
        case "edit":
            split = paragraphs[at].split(" ")
            split[chance.randrange(len(split))] = "edited" + chance.choice(VOCABULARY)
            return [*paragraphs[:at], " ".join(split), *paragraphs[at + 1 :]]
        case "insert":
            return [*paragraphs[:at], paragraph(chance), *paragraphs[at:]]
        case _:
            return [*paragraphs[:at], *paragraphs[at + 1 :]]


def new_passages(seed: int) -> tuple[int, int]:
    """How many passages are new after one edit, and how many there were."""
    chance = random.Random(seed)
    before = [paragraph(chance) for _ in range(chance.randint(20, 60))]
    after = edited(before, chance)
    known = {chunk.key for chunk in cut("# Heading\n\n" + "\n\n".join(before) + "\n")}
    found = {chunk.key for chunk in cut("# Heading\n\n" + "\n\n".join(after) + "\n")}
    return len(found - known), len(known)


def test_an_edit_of_one_paragraph_makes_few_new_passages() -> None:
    measured = [new_passages(seed) for seed in range(300)]

    new = Counter(count for count, _ in measured)
    assert sum(passages for _, passages in measured) / len(measured) > 8  # there is much to lose
    assert sum(count for many, count in new.items() if many > 3) <= 0.01 * len(measured), new
    assert max(new) <= 5, new


# --- For any note --------------------------------------------------------------------------------

lines = st.sampled_from(
    [
        "", "", "# Head", "## Sub", "###### Deep", "Setext\n===", "text", "a longer line of text.",
        "- item", "  - nested", "1. first", "- [ ] task", "> quote", "> [!note] callout", "```",
        "```py\ncode()\n\n# no heading\n```", "    indented", "| a | b |\n|---|---|\n| 1 | 2 |",
        "%%", "%% comment %%", "$$", "---", "***", "<div>", "</div>", "漢字" * 40, "😀 " * 20,
        "word " * 80, SENTENCE * 5, "x" * 450, "\t", " \u00a0 ", "\u2028", "a\x0bb\x0cc", "^id",
    ]
)  # fmt: skip
frontmatters = st.sampled_from(["", "", "---\na: b\n---\n", "---\nbroken: [\n---\n", "---\n---\n"])
notes = st.builds(
    lambda top, body, end: top + "\n".join(body) + end,
    frontmatters,
    st.lists(lines, max_size=40),
    st.sampled_from(["", "\n", "\n\n"]),
)


@settings(max_examples=250, deadline=None)
@given(notes, st.sampled_from([40, 90, 180]))
def test_passages_are_exact_ordered_disjoint_and_complete(text: str, limit: int) -> None:
    parsed = note(text)

    chunks = chunk_note(parsed, max_pieces=limit)

    # Exact: a passage is a slice of the note, and its lines are those of the slice.
    for chunk in chunks:
        assert parsed.text[chunk.start : chunk.end] == chunk.text
        if not chunk.text:
            assert len(chunks) == 1  # a note without text, which its one passage stands for
            continue
        assert chunk.first_line == parsed.text.count("\n", 0, chunk.start) + 1
        assert chunk.last_line == parsed.text.count("\n", 0, chunk.end) + 1
        assert 0 <= chunk.body <= len(chunk.text)
    # Ordered and disjoint.
    assert all(a.end <= b.start for a, b in pairwise(chunks))
    # Complete: nothing but blanks lies outside.
    at = parsed.frontmatter.end
    for chunk in chunks:
        assert at <= chunk.start
        assert not parsed.text[at : chunk.start].strip()
        at = chunk.end
    assert not parsed.text[at:].strip()
    # A heading opens a passage.
    for heading in parsed.headings:
        opened = next(chunk for chunk in chunks if chunk.end > heading.start)
        assert heading.start <= opened.start
        assert not parsed.text[heading.start : opened.start].strip()
    # Named apart.
    assert len({chunk.key for chunk in chunks}) == len(chunks)


@settings(max_examples=150, deadline=None)
@given(notes, st.sampled_from([40, 90, 180]))
def test_nothing_but_a_heading_line_takes_a_passage_beyond_the_limit(text: str, limit: int) -> None:
    # Letters beside an accent count more than without it: parts would not add up to the whole.
    plain = text.replace("\u00a0", " ").replace("\u2028", " ")

    for chunk in cut(plain, max_pieces=limit):
        heading = estimate_pieces(chunk.text[: chunk.body]) if chunk.body else 0
        assert estimate_pieces(chunk.text) <= budget(chunk, limit) + heading + 1


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300), st.sampled_from([40, 180]))
def test_any_text_is_cut_without_loss(text: str, limit: int) -> None:
    parsed = note(text)

    chunks = chunk_note(parsed, max_pieces=limit)

    inside = "".join(chunk.text for chunk in chunks)
    body = parsed.text[parsed.frontmatter.end :]
    assert "".join(inside.split()) == "".join(body.split())


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1000 + "!" * 200,
        "!" * 200 + "x" * 1000,
        ("x" * 150 + "!" * 50) * 40,
        "x" * 900 + "漢" * 300,
    ],
    ids=lambda text: f"{text[:2]}…{text[-2:]}",
)
def test_a_run_that_is_dense_in_parts_only_stays_within_the_limit(text: str) -> None:
    chunks = cut(text)

    assert "".join(chunk.text for chunk in chunks) == text
    assert max(chunk.pieces for chunk in chunks) <= MAX_PIECES + 1
