"""Measures of a ranking, their means, and the difference between two ways of searching.

A ranking is a list of distinct keys, best first; relevance is binary. Pure: chance is handed in.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

Ranking = Sequence[str]
Relevant = frozenset[str]
Measure = Callable[[Ranking, Relevant], float]

DEPTH = 10  # No measure looks further down the ranking than this.

# Percentile intervals of 2,000 draws move by less than a tenth of their width with the seed.
DRAWS = 2000
INTERVAL = 0.95


def recall(ranking: Ranking, relevant: Relevant, *, k: int) -> float:
    """Share of the relevant keys that stand among the first k, 0 to 1."""
    return len(relevant.intersection(ranking[:k])) / len(relevant)


def any_found(ranking: Ranking, relevant: Relevant, *, k: int) -> float:
    """1.0 if one relevant key or more stands among the first k, else 0.0."""
    return float(not relevant.isdisjoint(ranking[:k]))


def all_found(ranking: Ranking, relevant: Relevant, *, k: int) -> float:
    """1.0 if every relevant key stands among the first k, else 0.0.

    A question with more than k relevant keys can only get 0.0.
    """
    return float(relevant.issubset(ranking[:k]))


def reciprocal_rank(ranking: Ranking, relevant: Relevant, *, k: int) -> float:
    """1 / place of the first relevant key, places counted from 1; 0.0 if none is in the first k."""
    return next((1 / place for place, key in enumerate(ranking[:k], 1) if key in relevant), 0.0)


def ndcg(ranking: Ranking, relevant: Relevant, *, k: int) -> float:
    """Normalised discounted cumulative gain with binary gain, 0 to 1.

    The discount of place i (from 1) is 1 / log2(i + 1). The ideal ranking holds the
    relevant keys first, as many as fit into k places.
    """
    return _normalised(ranking, relevant, k, lambda place: 1 / math.log2(place + 1))


def ndcg_longmemeval(ranking: Ranking, relevant: Relevant, *, k: int) -> float:
    """The nDCG of LongMemEval's authors: the discount of place i is 1 / log2(i), of the first 1.

    So the second place counts as much as the first; figures are higher than those of `ndcg`.
    """
    return _normalised(
        ranking, relevant, k, lambda place: 1 / math.log2(place) if place > 1 else 1.0
    )


def _normalised(
    ranking: Ranking, relevant: Relevant, k: int, discount: Callable[[int], float]
) -> float:
    gain = sum(discount(place) for place, key in enumerate(ranking[:k], 1) if key in relevant)
    ideal = sum(discount(place) for place in range(1, min(k, len(relevant)) + 1))
    return gain / ideal


MEASURES: Mapping[str, Measure] = {
    "R@5": partial(recall, k=5),
    "R@10": partial(recall, k=10),
    "nDCG@5": partial(ndcg, k=5),
    "nDCG@10": partial(ndcg, k=10),
    "nDCG'@5": partial(ndcg_longmemeval, k=5),
    "MRR@10": partial(reciprocal_rank, k=10),
    "hit@1": partial(any_found, k=1),
    "hit@5": partial(any_found, k=5),
    "hit@10": partial(any_found, k=10),
    "any@5": partial(any_found, k=5),
    "all@5": partial(all_found, k=5),
    "both@5": partial(all_found, k=5),  # where exactly two keys are relevant
}


def measured(ranking: Ranking, relevant: Relevant, *, names: Sequence[str]) -> dict[str, float]:
    """The named measures of one ranking.

    Raises ValueError if nothing is relevant (recall has no meaning then), KeyError for
    a name that is not in MEASURES.
    """
    if not relevant:
        raise ValueError("A question without a relevant key cannot be measured; leave it out.")
    return {name: MEASURES[name](ranking, relevant) for name in names}


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean; nan for no values."""
    return math.fsum(values) / len(values) if values else math.nan


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the sorted values lie, interpolated.

    Returns nan for no values.
    """
    if not values:
        return math.nan
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True, slots=True)
class Difference:
    """Second run minus first run, for one measure."""

    first: float  # mean of the first run
    second: float  # mean of the second run
    change: float  # second - first
    low: float  # lower end of the 95 % interval of the change
    high: float  # upper end of the 95 % interval of the change


def paired_differences(
    first: Mapping[str, Sequence[float]],
    second: Mapping[str, Sequence[float]],
    *,
    chance: Random,
    draws: int = DRAWS,
) -> dict[str, Difference]:
    """Change of each measure with its 95 % percentile interval, by paired bootstrap over questions.

    first, second: measure name -> one value a question, the same questions in the same order.
    chance:        seeded by the caller; equal seeds give equal intervals.
    All measures share one set of draws, so that their intervals belong together.
    Returns nothing for no questions. Raises ValueError if two lists differ in length.
    """
    changes = {
        name: [b - a for a, b in zip(values, second[name], strict=True)]
        for name, values in first.items()
    }
    count = len(next(iter(changes.values()), []))
    if count == 0:
        return {}
    # A measure that no question changed has the interval [0, 0]; drawing would only tell so again.
    means: dict[str, list[float]] = {name: [] for name, values in changes.items() if any(values)}
    for _ in range(draws if means else 0):
        chosen = chance.choices(range(count), k=count)
        for name, drawn in means.items():
            drawn.append(sum(map(changes[name].__getitem__, chosen)) / count)
    tail = (1 - INTERVAL) / 2
    return {
        name: Difference(
            first=mean(first[name]),
            second=mean(second[name]),
            change=mean(values),
            low=percentile(means.get(name, [0.0]), tail),
            high=percentile(means.get(name, [0.0]), 1 - tail),
        )
        for name, values in changes.items()
    }
