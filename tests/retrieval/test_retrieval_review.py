"""Questions that once got the wrong answer; each is a small vault and what must be found."""

from collections.abc import Callable, Mapping

import pytest

from vaultmem.service.application import Memory
from vaultmem.service.operations.search import SearchRequest, search

Indexed = Callable[[Mapping[str, str | bytes]], Memory]

NOTES = {
    "Actions.md": "We use GitHub actions and JavaScript modules.\n",
    "Plain.md": "Nothing of that kind stands here, only modules.\n",
    "staging.md": "---\ntags: [pg]\n---\nThe staging host.\n",
    "live.md": "---\ntags: [pg]\n---\nThe live host.\n",
    "Sourdough.md": "A sourdough starter wants feeding.\n",
    "éclairage.md": "Un éclairage doux.\n",
    "猫.md": "猫が好きです。犬も好き。鳥と魚\n",
    "CAFÉ/Lemon.md": "A lemon tree.\n",
    "Mara’s notes/Tree.md": "A lemon of hers.\n",
}


def paths(memory: Memory, query: str, **options: object) -> list[str]:
    return [hit.path for hit in search(memory, SearchRequest(query, **options)).hits]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ('"github actions"', "Actions.md"),
        ('"JavaScript modules"', "Actions.md"),
        ('"javascript modules"', "Actions.md"),
        ("sourdogh-starterr", "Sourdough.md"),
        ("éclair", "éclairage.md"),
        ("eclair", "éclairage.md"),
        ("犬", "猫.md"),
        ("魚", "猫.md"),
        ("lemon path:café", "CAFÉ/Lemon.md"),
        ('lemon path:"Mara’s notes"', "Mara’s notes/Tree.md"),
    ],
)
def test_the_note_that_was_meant_comes_first(indexed: Indexed, query: str, first: str) -> None:
    assert paths(indexed(NOTES), query)[:1] == [first]


def test_a_phrase_can_be_excluded_in_any_case(indexed: Indexed) -> None:
    assert paths(indexed(NOTES), 'modules -"github actions"') == ["Plain.md"]


def test_an_exclusion_beside_a_filter_excludes(indexed: Indexed) -> None:
    assert paths(indexed(NOTES), "tag:pg -staging") == ["live.md"]


def test_a_note_named_by_the_question_is_found_however_many_are_shorter(indexed: Indexed) -> None:
    many = {f"n{i:04}.md": "budget " * 6 for i in range(1100)}
    memory = indexed({**many, "Budget.md": "Money. " * 400 + "budget\n"})
    assert paths(memory, "budget")[:1] == ["Budget.md"]
