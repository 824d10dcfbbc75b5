"""Nothing that reads a note takes longer than its length: no line can be written that hangs us."""

import time
from collections.abc import Callable
from zlib import crc32

import pytest

from vaultmem.model.chunk import Chunk
from vaultmem.vault import chunk as chunking
from vaultmem.vault.chunk import MAX_ITEMS, MAX_TRAIL_CHARS, MAX_WHOLE_TRAIL_CHARS, chunk_note
from vaultmem.vault.composed import normal_form
from vaultmem.vault.facts import KindRules, is_stub, note_date, note_kind
from vaultmem.vault.ignore import compile_rules
from vaultmem.vault.inline import (
    MAX_DISPLAY_CHARS,
    MAX_SUBPATH_CHARS,
    MAX_TAG_CHARS,
    MAX_TARGET_CHARS,
    MAX_VALUE_CHARS,
)
from vaultmem.vault.items import find_items
from vaultmem.vault.links import VaultNames
from vaultmem.vault.linktext import heading_for_link, markdown_link_text, wikilink_text
from vaultmem.vault.obsidian import LinkFormat, ObsidianSettings
from vaultmem.vault.parse import parse
from vaultmem.vault.paths import fold, vault_path
from vaultmem.vault.prose import prose
from vaultmem.vault.subpath import comparable_heading, find_place

RULES = KindRules({}, logs=("journal",), items=("decision", "lesson"))
SIZE = 60_000  # characters
SECONDS = 2.5  # of CPU; the slowest takes half a second, and what is not linear takes far longer

# What a text can be made of that an expression may read again and again.
PUMPS = {
    "openers of links": "[[",
    "openers with bars": "[[a|",
    "openers of Markdown links": "[a](",
    "destinations in brackets": "](a(b",
    "brackets": "[",
    "pairs of brackets": "[]",
    "round brackets": "(",
    "backticks": "`",
    "backticks apart": "`` ` ",
    "tildes": "~",
    "blanks": " ",
    "tabs": "\t",
    "line ends": "\n",
    "blank lines": " \n",
    "quote marks": "> ",
    "lines of a quote": "> a\n",
    "callouts": "> [!decision] x\n",
    "callouts and empty lines": "> [!decision]\n>\n",
    "fields within a line": "[decision:: ] ",
    "fields on lines": "decision:: x\n",
    "fields of one paragraph": "x [decision:: 2026-01-01] y\n",
    "hashes": "#",
    "nested tags": "#a/b ",
    "carets": "^a ",
    "block ids": "x ^a\n\n",
    "tasks": "- [ ] x\n",
    "marks of items": "- ",
    "numbers of items": "1. ",
    "headings": "# a\n",
    "headings with a line below": "a\n-\n",
    "bars": "|a",
    "rows of tables": "|a|b|\n|-|-|\n",
    "openers of HTML": "<a",
    "comments of HTML": "<!--",
    "formulas": "$$\n",
    "comments": "%%\n",
    "comments that never end": "%% a\n",
    "accents": "\u0301\u0323",
    "tags with accents": "#a\u0301\u0323",
    "names": "aB",
    "capitals": "A",
    "Chinese": "你",
    "NUL": "\0",
    "CR": "\r",
    "stars": "*",
    "days": "2026-01-01 ",
    "days in headings": "# 2026-01-01\nx\n",
    "exclamation marks": "!",
    "backslashes": "\\",
    "ampersands": "&a",
    "sentences": "a. ",
    "ends of sentences": '."',
    "addresses": "http://a",
    "footnotes": "[^a]: x\n",
    "rules": "---\n",
    "fences": "```\n",
    "code": "    a\n",
    "links": "[[a]] ",
    "Markdown links": "[a](b) ",
    "colons": "a:: ",
    "no width": "\u200b",
}


def read_all(text: str) -> tuple[Chunk, ...]:
    """Everything that is done with a note's text but storing it."""
    note = parse("log/2026 journal.md", text.encode("utf-8", "replace"))
    items = find_items(note, RULES, "journal")
    note_kind(note, RULES)
    note_date(note, RULES)
    is_stub(note)
    chunks = chunk_note(note, max_pieces=180, items=items)
    for chunk in chunks:
        prose(chunk.text)
    for subpath in ("#^zz", "#[^zz]", "#zz#a"):
        find_place(note, subpath)
    return chunks


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


@pytest.mark.parametrize("pump", PUMPS.values(), ids=list(PUMPS))
def test_a_note_of_nothing_but_one_thing_is_read_in_time(pump: str) -> None:
    # What comes last keeps an expression that looks for an end from finding the pump's.
    text = pump * (SIZE // len(pump)) + "\nx 2026-01-01"

    assert seconds(lambda: read_all(text)) < SECONDS


@pytest.mark.parametrize("pump", PUMPS.values(), ids=list(PUMPS))
def test_a_line_of_nothing_but_one_thing_is_read_aloud_in_time(pump: str) -> None:
    line = pump.replace("\n", " ") * (SIZE // len(pump))

    assert seconds(lambda: prose(line)) < SECONDS
    assert seconds(lambda: prose(line + "`x")) < SECONDS


@pytest.mark.parametrize("pump", PUMPS.values(), ids=list(PUMPS))
def test_a_name_of_nothing_but_one_thing_is_compared_and_written_in_time(pump: str) -> None:
    text = pump * (SIZE // len(pump))
    names = VaultNames(["a/b.md", "b.md", text])

    def all_of_it() -> None:
        fold(vault_path(comparable_heading(heading_for_link(text))))
        names.resolve(text, "a/c.md")
        names.meanings(text)
        for write in (wikilink_text, markdown_link_text):
            write(names, "b.md", "c.md", LinkFormat.SHORTEST, display=text, subpath="#" + text)

    # Each of two dozen spellings is tried on the scanner that reads links.
    assert seconds(all_of_it) < 2 * SECONDS


@pytest.mark.parametrize(
    "text",
    [
        "- " + " " * SIZE + "x\n2026-01-01",
        "# a:: b " + "[c:: d] " * 20_000 + "\n" * 100_000,
        "- x " + "[decision:: y] " * 20_000,
        "decision:: a" + " " * SIZE + "b",
        "~" * SIZE + "`",
        "[a](u" + "(v)" * 60_000,
    ],
    ids=[
        "an item of blanks",
        "fields of a heading before blank lines",
        "an item of fields",
        "a value of blanks",
        "a fence that is none",
        "a destination that never ends",
    ],
)
def test_what_only_a_whole_line_can_show_is_read_in_time(text: str) -> None:
    assert seconds(lambda: read_all(text)) < SECONDS
    assert seconds(lambda: prose(text)) < SECONDS


@pytest.mark.parametrize(
    "text",
    [
        "- " * 3000 + "x",
        "> " * 3000 + "x",
        "\n".join("> " * depth + "[!decision] x" for depth in range(1, 600)),
        "\n".join(" " * depth + "- decision:: x" for depth in range(1500)),
        "[" * 3000 + "x" + "]" * 3000 + "(y)",
        "[[" * 3000 + "x" + "]]" * 3000,
        "#" * 3000 + " x",
        "[a:: " * 3000 + "]" * 3000,
        "(" * 3000 + "[x](y" + "(" * 3000,
        "---\na: " + "[" * 3000 + "\n---\nx",
        "---\n" + "".join(" " * depth + "a:\n" for depth in range(300)) + "---\nx",
    ],
    ids=[
        *("items", "quotes", "callouts", "items on lines", "brackets", "wikilinks", "hashes"),
        *("fields", "round brackets", "lists of properties", "mappings"),
    ],
)
def test_nesting_without_end_is_read_and_nothing_of_it_lost(text: str) -> None:
    assert seconds(lambda: read_all(text)) < SECONDS
    assert any("x" in chunk.text for chunk in read_all(text + "\n\nx"))


# Whatever the line, a passage has an end.


def longest(text: str) -> int:
    return max(len(chunk.text) for chunk in read_all(text))


@pytest.mark.parametrize("pump", ["a", "a ", "你", "A1", "`", "\u0301", "[[a]] ", "|a"])
def test_a_passage_is_short_however_long_the_line(pump: str) -> None:
    assert longest(pump * (SIZE // len(pump))) < 2000


@pytest.mark.parametrize("underlined", [False, True], ids=["a line", "lines with a line below"])
def test_a_long_heading_is_cut_into_passages_and_all_of_it_is_kept(underlined: bool) -> None:
    words = [f"word{number}" for number in range(20_000)]
    text = "\n".join(words) + "\n---\n\nBelow." if underlined else f"# {' '.join(words)}\n\nBelow."

    chunks = read_all(text)

    assert max(len(chunk.text) for chunk in chunks) < 2000
    assert all(len("".join(chunk.trail)) <= MAX_TRAIL_CHARS for chunk in chunks)
    found = " ".join([*chunks[0].trail, *(chunk.text[chunk.body :] for chunk in chunks)]).split()
    assert set(words) - {words[13], words[14]} <= set(found)  # a trail may end within a word
    assert "Below." in chunks[-1].text


def test_long_headings_above_a_passage_are_shortened_the_outermost_most() -> None:
    headings = [f"{'#' * level} {chr(96 + level) * 300}" for level in range(1, 7)]

    chunks = read_all("\n\n".join([*headings, "Below."]))

    trail = chunks[-1].trail
    assert len("".join(trail)) == MAX_WHOLE_TRAIL_CHARS
    assert [len(heading) for heading in trail] == [80, 80, 80, 80, 80, 200]
    assert [heading[0] for heading in trail] == list("abcdef")


def test_headings_of_a_usual_length_stay_whole_in_a_trail() -> None:
    headings = [f"{'#' * level} {chr(96 + level) * 90}" for level in range(1, 7)]

    trail = read_all("\n\n".join([*headings, "Below."]))[-1].trail

    assert [len(heading) for heading in trail] == [90] * 6


def test_a_passage_remembers_so_many_items_and_no_more() -> None:
    days = [f"{2000 + n // 300}-{n % 12 + 1:02}-{n % 25 + 1:02}" for n in range(3000)]
    line = " ".join(f"[decision:: {day} and more]" for day in days)

    chunks = read_all(line)

    assert len(chunks) > 50
    assert {len(chunk.items) for chunk in chunks} == {MAX_ITEMS}


def test_a_passage_in_few_items_remembers_them_all() -> None:
    items = read_all("- x [decision:: a (2026-01-02)] and [lesson:: b (2026-01-03)]\n")[0].items

    assert items == (("decision", "2026-01-02"), ("lesson", "2026-01-03"))


def lines_whose_hashes_rise(count: int) -> list[str]:
    """Lines of which each wins against all behind it, which would be cut off one by one."""
    made = [f"{number:07}{'x' * 500}" for number in range(count)]
    return sorted(made, key=lambda line: (crc32(line[:48].encode()) * 2654435761) & 0xFFFFFFFF)


def test_lines_chosen_so_that_each_cut_takes_one_off_are_cut_in_time() -> None:
    lines = lines_whose_hashes_rise(20_000)

    taken = seconds(lambda: chunk_note(parse("a.md", "\n".join(lines).encode()), max_pieces=180))

    # Each cut used to look at all lines behind it: 200 million of them.
    assert taken < 8


def test_many_boundaries_are_cut_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    paragraphs = [f"{number % 7} word {number % 3}\n" for number in range(3000)]
    note = parse("a.md", "\n".join(paragraphs).encode())
    by_tree = chunk_note(note, max_pieces=40)

    monkeypatch.setattr(chunking, "_MANY", 1_000_000)

    assert chunk_note(note, max_pieces=40) == by_tree


# What is stored is cut, never refused.


def test_what_a_link_stores_is_cut() -> None:
    text = (
        f"[[{'a' * SIZE}#{'b' * SIZE}|{'c' * SIZE}]]\n\n[{'c' * SIZE}]({'a' * SIZE}#{'b' * SIZE})"
    )

    links = parse("n.md", text.encode()).links

    assert [(len(x.target), len(x.subpath), len(x.display or "")) for x in links] == [
        (MAX_TARGET_CHARS, MAX_SUBPATH_CHARS, MAX_DISPLAY_CHARS)
    ] * 2


def test_tags_and_values_of_fields_are_cut() -> None:
    note = parse("n.md", f"#{'t' * SIZE}\n\ndecision:: {'v ' * SIZE}\n[a:: {'w' * SIZE}]".encode())

    assert [len(tag) for tag in note.tags] == [MAX_TAG_CHARS]
    assert [len(field.value) for field in note.fields] == [MAX_VALUE_CHARS] * 2


def test_the_id_behind_a_value_is_no_part_of_it() -> None:
    note = parse("n.md", b"decision:: yes  ^id-1\n\nlesson:: x^2\n\nerror:: a ^ b\n")

    assert [field.value for field in note.fields] == ["yes", "x^2", "a ^ b"]


# Normal forms


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_a_million_accents_on_one_letter_are_composed_in_time(form: str) -> None:
    text = "a" + "\u0301\u0323" * 500_000

    assert seconds(lambda: normal_form(form, text)) < SECONDS  # type: ignore[arg-type]


def test_text_with_accents_is_composed_as_unicode_has_it() -> None:
    text = "Zo\u0308e \u1100\u1161 ﬁ " + "…" * 100 + "e\u0323\u0302"

    assert normal_form("NFC", text) == "Zöe 가 ﬁ " + "…" * 100 + "\u1ec7"
    assert normal_form("NFKC", text) == "Zöe 가 fi " + "..." * 100 + "\u1ec7"
    assert normal_form("NFC", "u\u0308" + "\u0301" * 99)[0] == "\u01d8"


# Links


def test_links_to_many_files_of_one_name_are_resolved_in_time() -> None:
    names = VaultNames([f"{folder}/deep/README.md" for folder in range(20_000)])

    def resolve() -> list[str | None]:
        return [names.resolve(f"{n}/deep/README", "a.md") for n in range(20_000)]

    assert seconds(resolve) < SECONDS
    assert resolve()[7] == "7/deep/README.md"


def test_of_files_that_end_as_a_link_does_the_one_in_the_own_folder_comes_first() -> None:
    names = VaultNames(["x/a/N.md", "long/way/x/a/N.md", "own/x/a/N.md", "b/N.md"])

    assert names.resolve("x/a/N", "n.md") == "x/a/N.md"
    assert names.resolve("a/N", "n.md") == "x/a/N.md"
    assert names.resolve("a/N", "own/n.md") == "own/x/a/N.md"
    assert sorted(names.meanings("a/N")) == ["long/way/x/a/N.md", "own/x/a/N.md", "x/a/N.md"]


# Rules of what stays out of search


@pytest.mark.parametrize(
    "path",
    [
        "(conflicted copy " + "1" * SIZE,
        "(conflicted copy 1111" + "(a)" * 60_000,
        "(conflicted copy) " * 10_000,
        "(SFConflict " + "1" * SIZE,
        "(" * SIZE,
        "('s " * 50_000,
    ],
)
def test_a_path_is_told_from_a_conflict_copy_in_time(path: str) -> None:
    rules, _ = compile_rules(ObsidianSettings(".obsidian"), ())

    assert seconds(lambda: rules.reason(path)) < SECONDS
    assert rules.reason(path) is None


@pytest.mark.parametrize("glob", ["*a" * 40 + "b", "*" * 60 + "b", "?*" * 40 + "b", "*a/" * 30])
def test_a_glob_of_many_stars_matches_in_time(glob: str) -> None:
    rules, _ = compile_rules(ObsidianSettings(".obsidian"), (glob,))

    assert seconds(lambda: rules.reason("a" * 20_000)) < SECONDS
