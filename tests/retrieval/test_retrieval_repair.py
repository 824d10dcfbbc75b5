"""Typos are mended from the index's own words; words it knows are left alone."""

import random
import time
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.retrieval.query import parse_query
from vaultmem.retrieval.repair import damerau, repair
from vaultmem.service.application import Memory
from vaultmem.service.operations.search import SearchRequest, search

Open = Callable[..., Memory]
Find = Callable[..., list[str]]


def oracle(a: str, b: str) -> int:
    """Optimal string alignment by its definition: the cheapest way to make `b` out of `a`."""

    @cache
    def distance(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        best = min(
            distance(i - 1, j) + 1,
            distance(i, j - 1) + 1,
            distance(i - 1, j - 1) + (a[i - 1] != b[j - 1]),
        )
        if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
            best = min(best, distance(i - 2, j - 2) + 1)
        return best

    return distance(len(a), len(b))


short = st.text(alphabet="abc", max_size=7)


@given(short, short, st.integers(0, 4))
@settings(max_examples=1_500, deadline=None, derandomize=True, database=None)
def test_damerau_counts_edits_up_to_a_bound(a: str, b: str, most: int) -> None:
    assert damerau(a, b, most) == min(oracle(a, b), most + 1)


@pytest.mark.parametrize(
    ("a", "b", "edits"),
    [("kiln", "kiln", 0), ("klin", "kiln", 1), ("kil", "kiln", 1), ("", "ab", 2), ("ca", "abc", 3)],
)
def test_edits_between_words(a: str, b: str, edits: int) -> None:
    assert damerau(a, b, 5) == edits
    assert damerau(b, a, 5) == edits


@pytest.fixture
def shelf(indexed: Open) -> Memory:
    return indexed(
        {
            "Sourdough.md": "bread of rye",
            "b.md": "---\naliases: [Brotbacken]\ntags: [fermentation]\n---\nflour",
            "c.md": "# Hydration table\n\nwater and salt",
            "d.md": "the mixture is kneaded by machines; thin slices, policies, entries",
            "e.md": "Zürich and Ängström",
        }
    )


def repaired(memory: Memory, text: str) -> dict[str, str]:
    return repair(parse_query(text), memory.lookup())[1]


@pytest.mark.parametrize(
    ("typo", "path"),
    [
        ("sourdogh", "Sourdough.md"),
        ("sourdouhg", "Sourdough.md"),
        ("sourdoughh", "Sourdough.md"),
        ("aourdough", "Sourdough.md"),
        ("brotbaken", "b.md"),
        ("fermantation", "b.md"),
        ("hydraton", "c.md"),
        ("machnies", "d.md"),
        ("kneeded", "d.md"),
        ("flor", "b.md"),
        ("zurch", "e.md"),
        ("angstrm", "e.md"),
    ],
)
def test_a_typo_finds_a_title_an_alias_a_tag_a_heading_and_text(
    typo: str, path: str, shelf: Memory, find: Find
) -> None:
    assert typo in repaired(shelf, typo)
    assert find(shelf, typo)[0] == path


@pytest.mark.parametrize(
    "known",
    ["sourdough", "SOURDOUGH", "Zurich", "zürich", "machine", "kneading", "entry", "policy"],
)
def test_a_word_the_index_knows_is_left_alone(known: str, shelf: Memory) -> None:
    assert repaired(shelf, known) == {}


@pytest.mark.parametrize("word", ["this", "whose", "them", "the", "how", "only"])
def test_a_stop_word_is_left_alone(word: str, shelf: Memory) -> None:
    assert repaired(shelf, word) == {}


@pytest.mark.parametrize(
    "other",
    ['"sourdogh"', "123456", "x1234", "京都", "qq", "qwertzuiop", "foo-sourdogh", "-sourdogh rye"],
)
def test_phrases_numbers_and_what_resembles_nothing_are_left_alone(
    other: str, shelf: Memory
) -> None:
    assert "sourdough" not in repaired(shelf, other).values() or other == "foo-sourdogh"
    if other != "foo-sourdogh":
        assert repaired(shelf, other) == {}


def test_the_beginning_of_a_word_finds_it(shelf: Memory, find: Find) -> None:
    assert repaired(shelf, "ferm") == {"ferm": "ferm*"}
    assert find(shelf, "ferm") == ["b.md"]
    assert find(shelf, "fe") == []


def test_the_more_frequent_of_equally_near_words_wins(indexed: Open) -> None:
    memory = indexed({"a.md": "barrel", "b.md": "carrel", "c.md": "carrel"})
    assert repaired(memory, "xarrel")["xarrel"].split(", ")[0] == "carrel"
    assert repaired(memory, "barrelx") == {"barrelx": "barrel"}


def test_the_reply_says_what_was_also_looked_for(shelf: Memory) -> None:
    reply = search(shelf, SearchRequest("rye sourdogh"))
    assert reply.repaired == {"sourdogh": "sourdough"}
    assert reply.hits[0].path == "Sourdough.md"
    assert reply.hits[0].evidence.missing == ()


def test_a_repaired_word_still_finds_what_is_written_like_the_typo(indexed: Open) -> None:
    memory = indexed({"a.md": "sourdough", "b.md": "sour"})
    query, _ = repair(parse_query("sourdogh"), memory.lookup())
    assert query.words[0].forms == ("sourdogh", "sourdough")


def test_repair_is_the_same_every_time(shelf: Memory) -> None:
    text = "sourdogh fermantation hydraton machnies flor"
    assert len({str(repair(parse_query(text), shelf.lookup())) for _ in range(3)}) == 1


@pytest.fixture(scope="module")
def letters() -> Callable[[], str]:
    chance = random.Random(7)
    return lambda: "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(5, 11)))


def test_repair_stays_bounded_with_fifty_thousand_words(
    indexed: Open, letters: Callable[[], str]
) -> None:
    memory = indexed({f"n{n}.md": " ".join(letters() for _ in range(1_000)) for n in range(50)})
    started = time.process_time()
    repaired(memory, letters())
    assert time.process_time() - started < 1
    started = time.process_time()
    repaired(memory, " ".join(letters() for _ in range(64)))
    assert time.process_time() - started < 4
