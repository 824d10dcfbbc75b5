"""What the sidecar holds of a note is in proportion to it, and so are the answers about it."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict

import pytest

from vaultmem.index.documents import MAX_NAME_CHARS, searched_fields
from vaultmem.index.lookup import glob_expression
from vaultmem.index.text import name_parts, normalize, prepare
from vaultmem.model.query import Filters
from vaultmem.service.application import Memory
from vaultmem.service.operations.lint import MAX_CANDIDATES, LintRequest, lint
from vaultmem.service.operations.read import ReadRequest, read
from vaultmem.service.operations.related import RelatedRequest, related
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.vault.inline import MAX_DISPLAY_CHARS, MAX_TARGET_CHARS
from vaultmem.vault.parse import parse

Open = Callable[..., Memory]

# Passages have rows of their own in three full-text tables, and repeat their headings.
MOST_BYTES = 40  # of the sidecar for each byte of a note; usual notes have 5 to 8
LEAST_NOTE = 50_000  # an empty sidecar has this size as well


def days(count: int) -> str:
    made = (f"{2000 + n % 25}-{n // 25 % 12 + 1:02}-{n // 300 % 28 + 1:02}" for n in range(count))
    return " ".join(f"[decision:: {day}]" for day in made)


WORST = {
    "one heading": "# " + "x y " * 50_000 + "\n\ntext\n",
    "many headings": "".join(f"{'#' * (n % 6 + 1)} heading number {n}\n" for n in range(5000)),
    "nested headings": "".join(f"{'#' * level} {'w' * 400}\n" for level in range(1, 6))
    + f"###### {'words below it ' * 4}\n" * 1500,
    "one tag": "#" + "a" * 500_000 + " x\n",
    "many tags": " ".join(f"#t{n}" for n in range(20_000)),
    "aliases": "---\naliases:\n" + "".join(f"  - a{n}\n" for n in range(5000)) + "---\nx\n",
    "one value": "---\np: " + "a " * 30_000 + "\n---\n" + "text words here. " * 3000,
    "names of mappings": "---\n"
    + "\n".join(f"{'  ' * n}{'k' * 2500}{n}:" for n in range(15))
    + "\n"
    + "\n".join(f"{'  ' * 15}a{n}: x" for n in range(700))
    + "\n---\nx\n",
    "one target": f"[[{'a' * 500_000}]]\n",
    "many links": "".join(f"[[b{n}]] " for n in range(20_000)),
    "dated fields": days(5000),
    "a paragraph of dated fields": days(3000).replace(" [", "\n["),
    "one field": "decision:: " + "a b " * 100_000,
    "entries of a log": "".join(f"# 2026-01-{n % 28 + 1:02} did this\n" for n in range(3000)),
    "callouts": "> [!decision] a decision\n\n" * 3000,
}


def size_of(memory: Memory) -> int:
    assert memory.sidecar is not None
    pages = memory.sidecar.connection.execute("PRAGMA page_count").get
    size = memory.sidecar.connection.execute("PRAGMA page_size").get
    assert isinstance(pages, int)
    assert isinstance(size, int)
    return pages * size


def size_of_reply(reply: object) -> int:
    return len(json.dumps(asdict(reply), default=str))  # type: ignore[call-overload]


@pytest.mark.parametrize("text", WORST.values(), ids=list(WORST))
def test_a_sidecar_is_in_proportion_to_the_worst_note(text: str, indexed: Open) -> None:
    started = time.process_time()
    memory = indexed({"n.md": text, "other.md": "[[n]]"})

    assert size_of(memory) < MOST_BYTES * max(LEAST_NOTE, len(text))
    for reply in (
        related(memory, RelatedRequest("n.md")),
        lint(memory, LintRequest()),
        read(memory, ReadRequest("n.md")),
        search(memory, SearchRequest("words decision heading")),
    ):
        assert size_of_reply(reply) < MOST_BYTES * max(LEAST_NOTE, len(text))
    assert time.process_time() - started < 12


def rows(memory: Memory, statement: str) -> list[Sequence[object]]:
    assert memory.sidecar is not None
    return [tuple(row) for row in memory.sidecar.connection.execute(statement)]


def test_what_is_long_is_stored_by_its_beginning(indexed: Open) -> None:
    memory = indexed({"n.md": f"# {'h ' * 3000}\n\n[[{'a' * 9000}|{'b' * 9000}]]\n\nlast"})

    assert rows(memory, "SELECT length(target), length(display) FROM link") == [
        (MAX_TARGET_CHARS, MAX_DISPLAY_CHARS)
    ]
    trails = rows(memory, "SELECT max(length(trail)) FROM chunk")
    assert trails == [(204,)]  # 200 characters, as a list of one text
    assert rows(memory, "SELECT 1 FROM chunk WHERE length(text) > 2000") == []


def test_a_note_that_shrinks_leaves_nothing_of_its_long_rows(
    indexed: Open,
    run_index: Callable[[Memory], object],
    assert_equals_rebuild: Callable[[Memory], None],
) -> None:
    memory = indexed({"n.md": WORST["one heading"], "m.md": days(300)})
    for name in ("n.md", "m.md"):
        (memory.vault / name).write_text("short", encoding="utf-8")
    run_index(memory)

    assert rows(memory, "SELECT count(*) FROM chunk_item") == [(0,)]
    assert_equals_rebuild(memory)


def test_names_of_nested_properties_are_searched_by_their_beginning() -> None:
    block = "a:\n  " + "k" * 900 + ":\n    last: value\n"

    properties = searched_fields(parse("n.md", f"---\n{block}---\n".encode())).properties

    assert properties.endswith(" value")
    assert len(properties) == MAX_NAME_CHARS + len(" value")


def test_a_link_that_fits_many_files_names_some_of_them(indexed: Open) -> None:
    notes = {f"folder {number:03}/README.md": "x" for number in range(200)}
    memory = indexed({**notes, "zz/README.md": "x", "zz/n.md": "[[README]]"})

    found = lint(memory, LintRequest()).ambiguous

    assert [(len(a.candidates), a.resolved in a.candidates) for a in found] == [
        (MAX_CANDIDATES, True)
    ]
    assert found[0].resolved == "zz/README.md"


def test_a_fix_is_not_offered_for_a_text_that_was_cut(indexed: Open) -> None:
    memory = indexed(
        {
            "a.md": "---\naliases: [Nick]\n---\n",
            "n.md": f"[[Nick|short]]\n\n[[Nick|{'long ' * 900}]]",
        }
    )

    fixes = [link.fix for link in lint(memory, LintRequest()).unresolved]

    assert fixes == ["[[a|short]]", None]


def test_many_links_to_nowhere_are_listed_in_time(indexed: Open) -> None:
    names = {f"b{number:04} of some note.md": "x" for number in range(400)}
    text = " ".join(f"[[b{number} of same note]]" for number in range(12_000))
    memory = indexed({**names, "n.md": text})
    started = time.process_time()

    reply = lint(memory, LintRequest())

    assert time.process_time() - started < 15
    assert len(reply.unresolved) == 10_000
    assert any("10,000 findings" in reason for reason in reply.degraded)
    assert any("2,000 links" in reason for reason in reply.degraded)


# How text is prepared


@pytest.mark.parametrize(
    "pump", ["aB", "A", "A1", "As", "你", "\ufdfa", "\u0301\u0323", "c++ ", "#"]
)
def test_a_text_of_one_thing_is_prepared_in_time_and_in_proportion(pump: str) -> None:
    text = pump * (200_000 // len(pump))
    started = time.process_time()

    prepared = prepare(text)

    assert time.process_time() - started < 5
    assert len(prepared) <= 20 * len(text)


def test_accents_are_composed_for_search() -> None:
    assert normalize("e\u0301 ﬁ") == "é fi"
    assert len(normalize("e" + "\u0301\u0323" * 100_000)) > 100_000


def test_a_long_name_is_found_by_its_parts() -> None:
    assert name_parts("CamelCase" * 30) == " ".join(["Camel", "Case"] * 30)


# Filters by path


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("a*c", "a/b/c", True),
        ("a?c", "abc", True),
        ("a?c", "abbc", False),
        ("[a-c]x", "bx", True),
        ("[^a-c]x", "bx", False),
        ("[^a-c]x", "dx", True),
        ("[!a]x", "!x", True),
        ("[!a]x", "bx", False),
        ("[]]x", "]x", True),
        ("[^]]x", "]x", False),
        ("a", "ab", False),
    ],
)
def test_a_glob_means_what_it_means_in_sqlite(glob: str, path: str, fits: bool) -> None:
    assert (glob_expression(glob).match(path) is not None) is fits


@pytest.mark.parametrize("glob", ["*a" * 25_000 + "b", "*" * 60_000, "[" * 60_000, "a*" * 40 + "b"])
def test_a_glob_of_any_length_is_no_failure_and_takes_little_time(glob: str, indexed: Open) -> None:
    memory = indexed({f"{'a' * 200}.md": "kiln"})
    started = time.process_time()

    search(memory, SearchRequest("kiln", paths=(glob,)))

    assert time.process_time() - started < 5


def test_a_path_with_marks_finds_what_it_fits(indexed: Open) -> None:
    memory = indexed({"Pots/Kiln 1.md": "x", "Pots/Kiln [2].md": "x", "Kiln 3.md": "x"})
    lookup = memory.lookup()

    def selected(glob: str) -> set[str]:
        scope = lookup.scope(Filters(paths=(glob,)), (), ())
        assert scope is not None
        found = lookup.newest_in(scope, passages=False)
        return set(lookup.note_paths(note for _, note in found).values())

    assert selected("pots/kiln ?.md") == {"Pots/Kiln 1.md"}
    assert selected("pots/kiln [2]") == {"Pots/Kiln [2].md"}
    assert selected("*kiln*") == {"Pots/Kiln 1.md", "Pots/Kiln [2].md", "Kiln 3.md"}
