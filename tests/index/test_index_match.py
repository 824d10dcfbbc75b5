"""Which rows a question of common words is scored on, in a vault in which many notes hold them."""

from collections.abc import Callable, Mapping

import pytest

from vaultmem.index import match
from vaultmem.index.lookup import Lookup
from vaultmem.index.match import narrowed
from vaultmem.model.query import Word
from vaultmem.service.application import Memory

Indexed = Callable[..., Memory]


def words(*texts: str) -> list[Word]:
    return [Word(text, (text,)) for text in texts]


def held(**counts: int) -> Mapping[Word, int]:
    return {Word(text, (text,)): count for text, count in counts.items()}


def test_a_question_that_few_notes_are_about_is_not_narrowed() -> None:
    assert narrowed(words("kiln", "ash"), held(kiln=4_000, ash=8_000)) == ()
    assert narrowed(words("kiln"), held(kiln=1_000_000)) == ()


def test_rows_are_asked_for_by_rare_words_pairs_and_what_is_called_so() -> None:
    asked = narrowed(words("the", "kiln", "ash"), held(the=90_000, kiln=10, ash=5_000))
    assert asked == (
        '"kiln"',
        '("ash") AND ("the")',
        '{title aliases} : ("ash" OR "the")',
    )


@pytest.fixture
def crowded(indexed: Indexed, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """A vault in which what counts as many is little."""
    monkeypatch.setattr(match, "FEW_HOLDERS", 10)
    monkeypatch.setattr(match, "FEW_HOLDERS_IN_ALL", 20)
    notes = {}
    for number in range(1300):
        said = ["status", "budget", "review"]
        kept = [word for place, word in enumerate(said) if number % 3 != place or number % 50 == 0]
        notes[f"n{number}.md"] = f"# Note {number}\n\n{' '.join(kept)} filler {number % 7}\n"
    notes["Review.md"] = "review\n"
    notes["Rare.md"] = "the celadon of the review\n"
    return indexed(notes)


def ranked(memory: Memory, *asked: str, plain: bool = False) -> list[tuple[int, float]]:
    assert memory.sidecar is not None
    with pytest.MonkeyPatch.context() as patch:
        if plain:
            patch.setattr("vaultmem.index.lookup.narrowed", lambda words, holders: ())
        return Lookup(memory.sidecar).notes(words(*asked), None, 500)


def test_the_best_rows_are_those_of_a_list_of_all(crowded: Memory) -> None:
    for asked in (["status", "budget"], ["celadon", "review", "status"], ["status", "review"]):
        all_rows = ranked(crowded, *asked, plain=True)
        rows = ranked(crowded, *asked)
        assert rows
        best = {row for row, _ in all_rows[:50]}
        assert len(best & {row for row, _ in rows}) >= 0.98 * len(best)
        scores = dict(all_rows)
        assert all(scores[row] == score for row, score in rows if row in scores)


def test_a_note_called_by_a_common_word_is_found(
    crowded: Memory, note_rows: Callable[[Memory], dict[str, int]]
) -> None:
    wanted = note_rows(crowded)["Review.md"]
    asked = ("status", "budget", "review")
    place = [row for row, _ in ranked(crowded, *asked, plain=True)].index(wanted)
    assert [row for row, _ in ranked(crowded, *asked)].index(wanted) <= place


def test_where_narrowing_leaves_too_little_all_rows_are_scored(crowded: Memory) -> None:
    asked = ("celadon", "filler")  # filler alone is in nearly every note, celadon in one
    assert len(ranked(crowded, *asked)) == len(ranked(crowded, *asked, plain=True)) > 400
