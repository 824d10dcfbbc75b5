"""Measures against values worked out by hand, and intervals that mean what they say."""

import math
import random
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaultmem.retrieval.metrics import (
    MEASURES,
    mean,
    measured,
    paired_differences,
    percentile,
)

LETTERS = "abcdefghijklmnop"


def figure(name: str, ranking: str, relevant: str) -> float:
    return measured(ranking, frozenset(relevant), names=[name])[name]


@pytest.mark.parametrize(
    ("name", "ranking", "relevant", "expected"),
    [
        # Two of three found, at places 2 and 5.
        ("R@5", "abcdef", "bex", 2 / 3),
        ("R@10", "abcdef", "bex", 2 / 3),
        ("MRR@10", "abcdef", "bex", 1 / 2),
        ("hit@1", "abcdef", "bex", 0),
        ("hit@5", "abcdef", "bex", 1),
        ("any@5", "abcdef", "bex", 1),
        ("all@5", "abcdef", "bex", 0),
        # 1/log2(3) + 1/log2(6) = 1.01778 of 1 + 1/log2(3) + 1/log2(4) = 2.13093
        ("nDCG@5", "abcdef", "bex", 0.477624),
        ("nDCG@10", "abcdef", "bex", 0.477624),
        # 1/log2(2) + 1/log2(5) = 1.43068 of 1 + 1/log2(2) + 1/log2(3) = 2.63093
        ("nDCG'@5", "abcdef", "bex", 0.543791),
        # The second place counts as the first for the authors of LongMemEval, not otherwise.
        ("nDCG'@5", "ab", "b", 1),
        ("nDCG@5", "ab", "b", 0.630930),
        # Behind the cut.
        ("hit@5", "abcdef", "f", 0),
        ("hit@10", "abcdef", "f", 1),
        ("R@5", "abcdef", "f", 0),
        ("R@10", "abcdef", "f", 1),
        ("MRR@10", "abcdef", "f", 1 / 6),
        ("MRR@10", LETTERS, "k", 0),
        ("hit@10", LETTERS, "k", 0),
        ("nDCG@10", LETTERS, "k", 0),
        ("nDCG@10", LETTERS, "j", 1 / math.log2(11)),
        # All of them.
        ("all@5", "abcde", "ae", 1),
        ("both@5", "abcde", "ae", 1),
        ("both@5", "abcdef", "af", 0),
        # More relevant than places: the best there can be is still 1, but for recall.
        ("nDCG@10", LETTERS, "abcdefghijkl", 1),
        ("R@10", LETTERS, "abcdefghijkl", 10 / 12),
        ("all@5", LETTERS, "abcdef", 0),
    ],
)
def test_a_measure_is_what_it_comes_to_by_hand(
    name: str, ranking: str, relevant: str, expected: float
) -> None:
    assert figure(name, ranking, relevant) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", MEASURES)
def test_nothing_found_is_nought(name: str) -> None:
    assert figure(name, "", "a") == 0
    assert figure(name, "bcd", "a") == 0


@given(st.permutations(LETTERS), st.sets(st.sampled_from(LETTERS), min_size=1))
def test_every_measure_lies_between_nought_and_one(ranking: list[str], relevant: set[str]) -> None:
    for value in measured(ranking, frozenset(relevant), names=list(MEASURES)).values():
        assert 0 <= value <= 1 + 1e-12


@given(st.sets(st.sampled_from(LETTERS), min_size=1, max_size=5))
def test_the_relevant_first_is_the_best_there_can_be(relevant: set[str]) -> None:
    ranking = sorted(LETTERS, key=lambda letter: letter not in relevant)
    values = measured(ranking, frozenset(relevant), names=list(MEASURES))
    assert {name: round(value, 9) for name, value in values.items()} == dict.fromkeys(MEASURES, 1)


def test_a_question_without_a_relevant_key_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be measured"):
        measured("abc", frozenset(), names=["R@5"])


def test_a_measure_that_there_is_not_is_refused() -> None:
    with pytest.raises(KeyError):
        measured("abc", frozenset("a"), names=["R@7"])


def test_mean_and_percentile() -> None:
    assert mean([0.1] * 10) == pytest.approx(0.1)
    assert mean([1, 2, 6]) == 3
    assert percentile([40, 10, 20, 30], 0) == 10
    assert percentile([40, 10, 20, 30], 0.5) == 25
    assert percentile([40, 10, 20, 30], 0.9) == pytest.approx(37)
    assert percentile([40, 10, 20, 30], 1) == 40
    assert math.isnan(mean([]))
    assert math.isnan(percentile([], 0.5))


# Differences


def difference(first: list[float], second: list[float], *, seed: int = 1) -> tuple[float, ...]:
    found = paired_differences({"x": first}, {"x": second}, chance=Random(seed))["x"]
    return (found.change, found.low, found.high)


def noisy(count: int, *, shift: float = 0.0) -> tuple[list[float], list[float]]:
    """Two runs that differ by chance, and by `shift` on top."""
    chance = Random(7)
    first = [chance.random() for _ in range(count)]
    return first, [value + chance.gauss(shift, 0.2) for value in first]


def test_equal_runs_differ_by_nothing_for_sure() -> None:
    first, _ = noisy(50)
    assert difference(first, list(first)) == (0, 0, 0)


def test_runs_that_differ_by_chance_alone_have_zero_in_the_interval() -> None:
    change, low, high = difference(*noisy(200))
    assert change != 0
    assert low < 0 < high


def test_a_clear_difference_has_zero_outside_the_interval() -> None:
    change, low, high = difference(*noisy(200, shift=0.2))
    assert 0 < low < change < high
    change, low, high = difference(*reversed(noisy(200, shift=0.2)))
    assert low < change < high < 0


def test_the_interval_is_as_wide_as_theory_has_it() -> None:
    first, second = noisy(400)
    changes = [b - a for a, b in zip(first, second, strict=True)]
    middle = mean(changes)
    deviation = math.sqrt(mean([(change - middle) ** 2 for change in changes]))
    margin = 1.96 * deviation / math.sqrt(400)
    change, low, high = difference(first, second)
    assert change == pytest.approx(middle)
    assert low == pytest.approx(middle - margin, abs=margin / 10)
    assert high == pytest.approx(middle + margin, abs=margin / 10)


def test_questions_are_drawn_in_pairs() -> None:
    # The questions differ much, the change is the same for each: pairs leave nothing to chance.
    first = [place / 100 for place in range(100)]
    change, low, high = difference(first, [value + 0.25 for value in first])
    assert (change, low, high) == pytest.approx((0.25, 0.25, 0.25))


def test_equal_seeds_give_equal_intervals_and_others_nearly_so() -> None:
    first, second = noisy(60)
    once = difference(first, second, seed=3)
    assert difference(first, second, seed=3) == once
    other = difference(first, second, seed=4)
    assert other != once
    assert other == pytest.approx(once, abs=(once[2] - once[1]) / 5)


def test_measures_share_their_draws() -> None:
    first, second = noisy(60)
    doubled = [2 * value for value in first], [2 * value for value in second]
    found = paired_differences(
        {"x": first, "2x": doubled[0]}, {"x": second, "2x": doubled[1]}, chance=Random(1)
    )
    assert found["2x"].low == pytest.approx(2 * found["x"].low)
    assert found["2x"].high == pytest.approx(2 * found["x"].high)


def test_a_difference_names_the_means_it_is_between() -> None:
    found = paired_differences({"x": [0, 0, 1, 1]}, {"x": [0, 1, 1, 1]}, chance=Random(1))["x"]
    assert (found.first, found.second, found.change) == (0.5, 0.75, 0.25)
    assert 0 <= found.low <= found.high <= 0.75


def test_lists_of_unequal_length_are_no_pairs() -> None:
    with pytest.raises(ValueError, match="shorter"):
        paired_differences({"x": [1, 2, 3]}, {"x": [1, 2]}, chance=Random(1))


def test_no_questions_have_no_differences() -> None:
    assert paired_differences({"x": []}, {"x": []}, chance=Random(1)) == {}


def test_the_chance_of_everybody_else_is_left_alone() -> None:
    state = random.getstate()
    difference(*noisy(20))
    assert random.getstate() == state
