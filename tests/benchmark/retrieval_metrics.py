"""Measures of one ranking, their means, and the difference between two runs.

A ranking is a list of distinct keys, best first; relevance is binary.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

Ranking = Sequence[str]
Relevant = frozenset[str]
Measure = Callable[[Ranking, Relevant], float]

DEPTH = 10  # No measure looks further down the ranking than this.


def recall(ranking: Ranking, relevant: Relevant, *, k: int) -> float:
    """Share of the relevant keys that stand among the first k, 0 to 1."""
    return len(relevant.intersection(ranking[:k])) / len(relevant)


def any_found(ranking: Ranking, relevant: Relevant, *, k: int) -> float:
    """1.0 if one relevant key or more stands among the first k, else 0.0."""
    return float(not relevant.isdisjoint(ranking[:k]))


def all_found(ranking: Ranking, relevant: Relevant, *, k: int) -> float:
    """1.0 if every relevant key stands among the first k, else 0.0.

    A query with more than k relevant keys can only get 0.0.
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
    gain = sum(1 / math.log2(i + 1) for i, key in enumerate(ranking[:k], 1) if key in relevant)
    ideal = sum(1 / math.log2(i + 1) for i in range(1, min(k, len(relevant)) + 1))
    return gain / ideal


MEASURES: Mapping[str, Measure] = {
    "R@5": partial(recall, k=5),
    "R@10": partial(recall, k=10),
    "nDCG@10": partial(ndcg, k=10),
    "MRR@10": partial(reciprocal_rank, k=10),
    "hit@1": partial(any_found, k=1),
    "hit@5": partial(any_found, k=5),
    "hit@10": partial(any_found, k=10),
    "any@5": partial(any_found, k=5),
    "all@5": partial(all_found, k=5),
}


def measured(ranking: Ranking, relevant: Relevant, *, names: Sequence[str]) -> dict[str, float]:
    """The named measures of one ranking.

    Raises ValueError if nothing is relevant (recall has no meaning then), KeyError for
    a name that is not in MEASURES.
    """
    if not relevant:
        raise ValueError("A query without a relevant key cannot be measured; leave it out.")
    return {name: MEASURES[name](ranking, relevant) for name in names}


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean; nan for no values."""
    return sum(values) / len(values) if values else math.nan


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
    draws: int = 5000,
    seed: int = 1,
) -> dict[str, Difference]:
    """Change of each measure with its 95 % percentile interval by paired bootstrap over queries.

    first, second: measure name -> one value a query, the same queries in the same order.
    All measures share one set of draws, so that their intervals belong together.
    Returns nothing for no queries. Raises ValueError if two lists differ in length.
    """
    changes = {
        name: [b - a for a, b in zip(values, second[name], strict=True)]
        for name, values in first.items()
    }
    count = len(next(iter(changes.values()), []))
    if count == 0:
        return {}
    means: dict[str, list[float]] = {name: [] for name in changes}
    generator = random.Random(seed)
    for _ in range(draws):
        chosen = generator.choices(range(count), k=count)
        for name, values in changes.items():
            means[name].append(sum(map(values.__getitem__, chosen)) / count)
    return {
        name: Difference(
            first=mean(first[name]),
            second=mean(second[name]),
            change=mean(values),
            low=percentile(means[name], 0.025),
            high=percentile(means[name], 0.975),
        )
        for name, values in changes.items()
    }
