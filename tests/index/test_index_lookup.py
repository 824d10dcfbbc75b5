"""Filters, conditions and bounded answers of the sidecar."""

import os
from collections.abc import Callable
from datetime import date

import pytest

from vaultmem.index.lookup import Lookup
from vaultmem.index.match import match_all, match_any, quote
from vaultmem.model.query import Filters, Word
from vaultmem.service.application import Memory

Open = Callable[..., Memory]
Find = Callable[..., list[str]]


def word(text: str) -> Word:
    return Word(text, (text,))


@pytest.fixture
def garden(indexed: Open) -> Memory:
    return indexed(
        {
            "Plots/tomato.md": "---\ntags: [garden/veg]\ndate: 2026-05-03\n---\nwater it",
            "Plots/Deep/leek.md": "---\ntags: [Garden]\ndate: 2026-04-30\n---\nwater it",
            "Plots.md": "---\ntags: [gardening]\n---\nwater it",
            "Plots extra/fern.md": "---\ntype: Plant\n---\nwater it",
            "Daily/2025-12-31.md": "water it #garden/veg/old",
            "[odd] folder/rose.md": "water it",
            "Café/herb.md": "water it",
        },
        environment={"VAULTMEM_KINDS_FOLDERS": "Plots=plot"},
    )


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (["garden"], {"Plots/tomato.md", "Plots/Deep/leek.md", "Daily/2025-12-31.md"}),
        (["#GARDEN"], {"Plots/tomato.md", "Plots/Deep/leek.md", "Daily/2025-12-31.md"}),
        (["garden/veg"], {"Plots/tomato.md", "Daily/2025-12-31.md"}),
        (["gard"], set()),
        (["garden", "gardening"], set()),
        (["gardening"], {"Plots.md"}),
    ],
)
def test_a_tag_filter_takes_the_tag_and_those_below_it(
    tags: list[str], expected: set[str], garden: Memory, find: Find
) -> None:
    assert set(find(garden, "water", tags=tuple(tags))) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("Plots", {"Plots/tomato.md", "Plots/Deep/leek.md", "Plots.md"}),
        ("Plots/", {"Plots/tomato.md", "Plots/Deep/leek.md", "Plots.md"}),
        ("Plots/Deep", {"Plots/Deep/leek.md"}),
        ("Plots/tomato.md", {"Plots/tomato.md"}),
        ("Plots/tomato", {"Plots/tomato.md"}),
        ("*/tomato.md", {"Plots/tomato.md"}),
        ("Daily/2025-*", {"Daily/2025-12-31.md"}),
        ("[odd] folder", {"[odd] folder/rose.md"}),
        ("Caf\u00e9", {"Café/herb.md"}),
        ("Cafe\u0301", {"Café/herb.md"}),
        ("Plots\\Deep", {"Plots/Deep/leek.md"}),
        ("nowhere", set()),
        ("%", set()),
        ("Plot", set()),
    ],
)
def test_a_path_filter_takes_a_folder_a_note_or_a_glob(
    path: str, expected: set[str], garden: Memory, find: Find
) -> None:
    assert set(find(garden, "water", paths=(path,))) == expected


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["plot"], {"Plots/tomato.md", "Plots/Deep/leek.md"}),
        (["PLANT"], {"Plots extra/fern.md"}),
        (["daily"], {"Daily/2025-12-31.md"}),
        (["plant", "daily"], {"Plots extra/fern.md", "Daily/2025-12-31.md"}),
        (["nothing"], set()),
    ],
)
def test_a_kind_filter_takes_any_of_its_kinds(
    kinds: list[str], expected: set[str], garden: Memory, find: Find
) -> None:
    assert set(find(garden, "water", kinds=tuple(kinds))) == expected


@pytest.mark.parametrize(
    ("after", "before", "expected"),
    [
        ("2026-05-03", "2026-05-03", {"Plots/tomato.md"}),
        ("2026-04", "2026-04", {"Plots/Deep/leek.md"}),
        ("2026-04-30", "2026-05", {"Plots/Deep/leek.md", "Plots/tomato.md"}),
        (None, "2025", {"Daily/2025-12-31.md"}),
        ("2026-05-04", "2026-05-05", set()),
    ],
)
def test_dates_are_taken_from_their_first_to_their_last_day(
    after: str | None, before: str | None, expected: set[str], garden: Memory, find: Find
) -> None:
    found = find(garden, "water", after=after, before=before)
    assert set(found) & {"Plots/tomato.md", "Plots/Deep/leek.md", "Daily/2025-12-31.md"} == expected


def test_a_note_without_a_date_has_that_of_its_file(indexed: Open, find: Find) -> None:
    memory = indexed({"a.md": "water"})
    os.utime(memory.vault / "a.md", (1_700_000_000, 1_700_000_000))
    memory.close()
    fresh = indexed({}, cache="other")
    day = date.fromtimestamp(1_700_000_000).isoformat()
    assert find(fresh, "water", after=day, before=day) == ["a.md"]


def test_filters_hold_together(garden: Memory, find: Find) -> None:
    found = find(garden, "water", tags=("garden",), paths=("Plots",), after="2026-05")
    assert found == ["Plots/tomato.md"]


def test_filters_apply_before_the_cut(indexed: Open, find: Find) -> None:
    noise = {f"Noise/n{i:04}.md": "water the rowing boat" for i in range(700)}
    memory = indexed({**noise, "Wanted/w.md": "a long text with but one word: boat " * 9})
    assert find(memory, "water rowing boat", paths=("Wanted",), limit=1) == ["Wanted/w.md"]


@pytest.mark.parametrize("count", [1, 3])
def test_no_more_hits_than_asked_for(count: int, garden: Memory, find: Find) -> None:
    assert len(find(garden, "water", limit=count)) == count


def test_no_condition_is_no_scope(garden: Memory) -> None:
    lookup = garden.lookup()
    assert lookup.scope(Filters(), (), ()) is None
    assert lookup.scope(Filters(kinds=("plot",)), (), ()) is not None


def test_terms_are_quoted_for_the_full_text_index() -> None:
    assert quote('say "x"') == '"say ""x"""'
    assert quote("kil*") == '"kil" *'
    assert match_any([Word("ab", ("ab", "a b")), word("c")]) == '"ab" OR "a b" OR "c"'
    assert match_all([Word("ab", ("ab", "a b")), word("c")]) == '("ab" OR "a b") AND ("c")'


def test_the_vocabulary_is_folded_and_stemmed(indexed: Open) -> None:
    lookup: Lookup = indexed({"a.md": "Théorèmes running"}).lookup()
    assert lookup.terms("Théorèmes running") == ["theorem", "run"]
    assert lookup.is_term("theorem")
    assert not lookup.is_term("théorèmes")
    assert lookup.terms_between("r", "s", shortest=3, longest=3) == [("run", 1)]


def test_frequencies_count_notes_not_passages(indexed: Open) -> None:
    lookup = indexed({"a.md": "# A\n\nkiln\n\n# B\n\nkiln", "kiln.md": "x"}).lookup()
    assert lookup.document_frequency(word("kilns")) == 2
    assert lookup.document_frequency(word("clay")) == 0
