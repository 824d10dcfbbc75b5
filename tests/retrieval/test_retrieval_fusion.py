"""Channels on one scale: pure, bounded, and independent of row numbers."""

import dataclasses
import json
import os
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.retrieval.fusion import (
    ALL_WORDS_BONUS,
    WEIGHTS,
    Candidate,
    Channel,
    Complete,
    Fusion,
    Scored,
    fuse,
)
from vaultmem.service.application import Memory
from vaultmem.service.operations.search import SearchRequest, search

Open = Callable[..., Memory]

NOBODY = Complete(frozenset(), frozenset(), frozenset())


def candidate(
    chunk: int, *, note: int | None = None, lone: bool = False, only: bool = False
) -> Candidate:
    note = chunk if note is None else note
    return Candidate(chunk, note, chunk, f"n{note:03}.md", lone, only)


def rank(
    candidates: list[Candidate],
    passage: dict[int, float],
    window: dict[int, float],
    note: dict[int, float],
    complete: Complete = NOBODY,
) -> list[Scored]:
    return fuse(
        candidates,
        [
            Channel("passage", passage),
            Channel("window", window),
            Channel("note", note, by_note=True),
        ],
        complete=complete,
    )


def test_the_best_of_every_channel_comes_first_with_a_score_of_one_at_most() -> None:
    ranked = rank([candidate(1), candidate(2)], {1: 4, 2: 2}, {1: 9, 2: 3}, {1: 5, 2: 4})
    assert [s.candidate.chunk for s in ranked] == [1, 2]
    assert 0 < ranked[1].score < ranked[0].score <= 1
    assert [c.scaled for c in ranked[0].channels] == [1, 1, 1]
    assert [c.rank for c in ranked[1].channels] == [2, 2, 2]


def test_a_channel_that_did_not_find_a_passage_adds_nothing() -> None:
    (found,) = rank([candidate(1)], {1: 4}, {}, {})
    assert [(c.channel, c.rank, c.scaled) for c in found.channels] == [
        ("passage", 1, 1.0),
        ("window", None, 0.0),
        ("note", None, 0.0),
    ]
    assert found.score < 1


def test_a_lone_passage_lends_its_score_to_its_window() -> None:
    alone, ordinary = rank([candidate(1, lone=True), candidate(2)], {1: 4, 2: 4}, {}, {})
    assert alone.candidate.chunk == 1
    window = alone.channels[1]
    assert (window.scaled, window.lent, window.rank) == (1.0, True, None)
    assert not ordinary.channels[1].lent
    assert alone.score > ordinary.score


def test_the_only_passage_of_a_note_lends_its_score_to_the_note() -> None:
    (only,) = rank([candidate(1, only=True)], {1: 4}, {}, {1: 1})
    note = only.channels[2]
    assert (note.scaled, note.lent) == (1.0, True)


def test_a_lent_score_replaces_what_the_channel_said() -> None:
    short, other = candidate(1, lone=True, only=True), candidate(2)
    ranked = rank([short, other], {1: 1, 2: 4}, {2: 1}, {1: 8, 2: 1})
    assert [s.candidate.chunk for s in ranked] == [2, 1]
    assert [c.scaled for c in ranked[1].channels] == [0.25, 0.25, 0.25]


def test_ties_go_by_path_and_place() -> None:
    same = dict.fromkeys(range(9), 1.0)
    shuffled = [candidate(n) for n in range(9)]
    random.Random(3).shuffle(shuffled)
    assert [s.candidate.chunk for s in rank(shuffled, same, same, same)] == list(range(9))


@pytest.mark.parametrize(
    ("complete", "nearer"),
    [
        (Complete(frozenset({2}), frozenset(), frozenset()), NOBODY),
        (Complete(frozenset(), frozenset({2}), frozenset()), NOBODY),
        (Complete(frozenset(), frozenset(), frozenset({2})), NOBODY),
    ],
)
def test_holding_all_of_the_words_is_worth_something(complete: Complete, nearer: Complete) -> None:
    same = {1: 1.0, 2: 1.0}
    both = [candidate(1), candidate(2)]
    assert [s.candidate.chunk for s in rank(both, same, same, same, nearer)] == [1, 2]
    assert [s.candidate.chunk for s in rank(both, same, same, same, complete)] == [2, 1]


def test_all_words_are_worth_more_the_closer_they_stand() -> None:
    complete = Complete(frozenset({1}), frozenset({1, 2}), frozenset({1, 2, 3}))
    shares = [complete.share(candidate(n)) for n in (1, 2, 3, 4)]
    assert shares == sorted(shares, reverse=True)
    assert (shares[0], shares[3]) == (1.0, 0.0)
    assert len(set(shares)) == 4


scores = st.dictionaries(st.integers(0, 9), st.floats(0.001, 50), max_size=10)


@given(scores, scores, scores, st.sets(st.integers(0, 9)), st.randoms())
@settings(max_examples=200, deadline=None, derandomize=True, database=None)
def test_scores_are_bounded_and_order_does_not_depend_on_ids_or_on_the_way_in(
    passage: dict[int, float],
    window: dict[int, float],
    note: dict[int, float],
    complete: set[int],
    chance: random.Random,
) -> None:
    candidates = [candidate(n, lone=n % 3 == 0, only=n % 4 == 0) for n in range(10)]
    holders = frozenset(complete)
    first = rank(candidates, passage, window, note, Complete(holders, holders, holders))
    assert all(0 <= s.score <= 1 for s in first)
    assert [s.score for s in first] == sorted((s.score for s in first), reverse=True)

    new = {n: 100 + place for place, n in enumerate(chance.sample(range(10), 10))}
    moved = [dataclasses.replace(c, chunk=new[c.chunk], note=new[c.note]) for c in candidates]
    chance.shuffle(moved)
    renumbered = frozenset(new[n] for n in complete)
    second = rank(
        moved,
        {new[n]: s for n, s in passage.items()},
        {new[n]: s for n, s in window.items()},
        {new[n]: s for n, s in note.items()},
        Complete(renumbered, renumbered, renumbered),
    )
    assert [(s.candidate.path, s.score) for s in second] == [
        (s.candidate.path, s.score) for s in first
    ]


def test_nothing_found_is_an_empty_list() -> None:
    assert rank([], {}, {}, {}) == []


def test_every_channel_has_a_weight() -> None:
    assert set(WEIGHTS) == {"passage", "vector", "window", "note"}
    assert all(weight > 0 for weight in WEIGHTS.values())


def reply_as_json(memory: Memory, query: str) -> str:
    reply = search(memory, SearchRequest(query, passages=True, limit=50))
    return json.dumps(dataclasses.asdict(reply), sort_keys=True)


def test_two_builds_in_another_order_of_creation_give_the_same_reply(
    indexed: Open, open_vault: Open
) -> None:
    notes = {
        f"n{i}.md": f"# A{i % 3}\n\nkiln clay\n\n# B\n\nkiln {'clay ' * (i % 4)}" for i in range(12)
    }
    first = indexed(notes, name="one")
    for path in notes:
        os.utime(first.vault / path, (1.7e9, 1.7e9))  # a note without a date has its file's
    queries = ("kiln clay", '"kiln clay"', "kilm", "clay -B", "kiln path:n1*")
    expected = [reply_as_json(first, query) for query in queries]
    first.close()
    for path in notes:
        (first.vault / path).unlink()
    for path, text in reversed(notes.items()):
        (first.vault / path).write_text(text)
        os.utime(first.vault / path, (1.7e9, 1.7e9))
    second = open_vault(name="one", cache="anew")
    assert [reply_as_json(second, query) for query in queries] == expected
    third = open_vault(name="one", cache="bit by bit")
    for path in reversed(notes):
        (third.vault / path).rename(third.vault.parent / path)
    for path in reversed(notes):
        (third.vault.parent / path).rename(third.vault / path)
        search(third, SearchRequest("kiln"))
    assert [reply_as_json(third, query) for query in queries] == expected


# With vectors


GAMMA = {"vector": WEIGHTS["vector"]}  # the words' channels weigh 1 each


def stage_one(
    found: Candidate,
    scaled: dict[str, dict[int, float]],
    weights: dict[str, float],
) -> float:
    """The recipe for one passage, B + gD + W + S, as a mean. The lone rule: (B + gD) / (1 + g)."""

    def own(name: str, key: int) -> float:
        return scaled[name].get(key, 0.0)

    if found.chunk not in scaled["vector"] and weights["vector"] < sum(weights.values()):
        weights = {**weights, "vector": 0.0}  # it has no vector: words alone
    words, meaning = weights["passage"], weights["vector"]
    b, d = own("passage", found.chunk), own("vector", found.chunk)
    w, s = own("window", found.chunk), own("note", found.note)
    if words + meaning > 0:
        lends = meaning / GAMMA["vector"]  # no more than a passage does, for all its weight
        lent = (words * b + lends * d) / (words + lends) if words else d
        w = lent if found.lone else w
        s = lent if found.only else s
    total = words * b + meaning * d + weights["window"] * w + weights["note"] * s
    return total / sum(weights.values())


def by_maximum(found: dict[int, float]) -> dict[int, float]:
    best = max(found.values(), default=1.0)
    return {key: raw / best for key, raw in found.items()}


def from_floor(cosines: dict[int, float], floor: float) -> dict[int, float]:
    best = max(cosines.values(), default=floor)
    if best <= floor:
        return dict.fromkeys(cosines, 0.0)
    return {key: min(1.0, max(0.0, (c - floor) / (best - floor))) for key, c in cosines.items()}


def expected_score(average: float) -> float:
    """What a weighted mean becomes where neither words stand together nor a name was asked for."""
    return average / (1 + ALL_WORDS_BONUS)


# Of grid points only, so that no two differ by what rounding makes of them.
cosines = st.dictionaries(
    st.integers(0, 9), st.integers(-100, 100).map(lambda n: n / 100), min_size=1, max_size=10
)
floors = st.integers(-100, 100).map(lambda n: n / 100 + 0.005)
kinds = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=10, max_size=10)


def crowd(alone: list[tuple[bool, bool]]) -> list[Candidate]:
    """Ten passages of five notes, alone in their window or note as told."""
    return [
        Candidate(n, n // 2, n % 2, f"n{n // 2}.md", lone, only)
        for n, (lone, only) in enumerate(alone)
    ]


@given(
    scores,
    scores,
    scores,
    cosines,
    floors,
    kinds,
    st.sampled_from([1.0, 0.2]),
    st.sampled_from([1.0, 0.3, 0.12]),
    st.sets(st.sampled_from(sorted(WEIGHTS)), max_size=3),
)
@settings(max_examples=400, deadline=None, derandomize=True, database=None)
def test_fusion_is_stage_one_of_the_recipe(
    passage: dict[int, float],
    window: dict[int, float],
    note: dict[int, float],
    cosine: dict[int, float],
    floor: float,
    alone: list[tuple[bool, bool]],
    words_trust: float,
    vector_trust: float,
    without: set[str],
) -> None:
    candidates = crowd(alone)
    channels = [
        Channel("passage", passage, trust=words_trust),
        Channel("vector", cosine, floor=floor, trust=vector_trust),
        Channel("window", window, trust=words_trust),
        Channel("note", note, trust=words_trust, by_note=True),
    ]
    ranked = fuse(candidates, [c for c in channels if c.name not in without], complete=NOBODY)
    trusts = dict.fromkeys(WEIGHTS, words_trust) | {"vector": vector_trust}
    weights = {n: 0.0 if n in without else GAMMA.get(n, 1.0) * trusts[n] for n in WEIGHTS}
    scaled = {
        "passage": by_maximum(passage),
        "vector": from_floor(cosine, floor),
        "window": by_maximum(window),
        "note": by_maximum(note),
    }
    expected = {c.chunk: stage_one(c, scaled, weights) for c in candidates}
    assert {s.candidate.chunk for s in ranked} == set(expected)
    for scored in ranked:
        assert scored.score == pytest.approx(expected_score(expected[scored.candidate.chunk]))
        assert 0 <= scored.score <= 1
    order = [expected[s.candidate.chunk] for s in ranked]
    assert order == pytest.approx(sorted(order, reverse=True))


def with_vectors(
    candidates: list[Candidate],
    cosine: dict[int, float],
    words: dict[int, float],
    *,
    floor: float = 0.0,
    trust: float = 1.0,
    words_trust: float = 1.0,
    fusion: Fusion = Fusion.SUM,
) -> list[Scored]:
    """Fuse where the three channels of words agree."""
    by_note = {c.note: words[c.chunk] for c in candidates if c.chunk in words}
    return fuse(
        candidates,
        [
            Channel("passage", words, trust=words_trust),
            Channel("vector", cosine, floor=floor, trust=trust),
            Channel("window", words, trust=words_trust),
            Channel("note", by_note, trust=words_trust, by_note=True),
        ],
        complete=NOBODY,
        fusion=fusion,
    )


def order(ranked: list[Scored]) -> list[int]:
    return [s.candidate.chunk for s in ranked]


@given(cosines, floors, scores, st.floats(0.01, 1), st.floats(-0.5, 0.9))
@settings(max_examples=200, deadline=None, derandomize=True, database=None)
def test_the_range_of_a_models_cosines_makes_no_difference(
    cosine: dict[int, float],
    floor: float,
    words: dict[int, float],
    spread: float,
    least: float,
) -> None:
    candidates = [candidate(n) for n in range(10)]
    wide = with_vectors(candidates, cosine, words, floor=floor)
    squeezed = {key: least + spread * c for key, c in cosine.items()}
    narrow = with_vectors(candidates, squeezed, words, floor=least + spread * floor)
    scores_of = {s.candidate.chunk: s.score for s in narrow}
    for scored in wide:
        assert scores_of[scored.candidate.chunk] == pytest.approx(scored.score, abs=1e-6)


def test_cosines_that_lie_close_together_still_tell_passages_apart_thanks_to_the_floor() -> None:
    # 1 answers in other words; 2 holds a common word of the question and is no nearer than any.
    cosine = {1: 0.80, 2: 0.71, 3: 0.70, 4: 0.72}
    words = {2: 1.0, 4: 4.0}
    four = [candidate(n) for n in (1, 2, 3, 4)]
    floor = sum(cosine.values()) / 4
    assert order(with_vectors(four, cosine, words, floor=floor)) == [4, 1, 2, 3]
    assert order(with_vectors(four, cosine, words, floor=0.0)) == [4, 2, 1, 3]


def test_a_vector_below_the_floor_is_worth_nothing_and_never_less() -> None:
    first, second = with_vectors([candidate(1), candidate(2)], {1: 0.9, 2: -0.9}, {}, floor=0.1)
    assert (first.parts[1], second.parts[1]) == (1.0, 0.0)
    assert second.score == 0.0
    (alone,) = with_vectors([candidate(1)], {1: 0.05}, {1: 2.0}, floor=0.1)
    assert alone.parts == (1.0, 0.0, 1.0, 1.0)


def test_a_channel_counts_for_as_much_as_it_is_trusted() -> None:
    both = [candidate(1), candidate(2)]
    cosine, words = {1: 0.9, 2: 0.0}, {2: 3.0}
    gamma = GAMMA["vector"]
    held, near = with_vectors(both, cosine, words)
    assert (held.candidate.chunk, near.candidate.chunk) == (2, 1)  # three channels against one
    assert held.score / near.score == pytest.approx(3 / gamma)
    near, held = with_vectors(both, cosine, words, words_trust=0.2)
    assert (near.candidate.chunk, held.candidate.chunk) == (1, 2)
    assert near.score / held.score == pytest.approx(gamma / 0.6)
    held, near = with_vectors(both, cosine, words, trust=0.2)
    assert held.score / near.score == pytest.approx(3 / (0.2 * gamma))


def test_a_passage_without_a_vector_is_scored_as_if_there_were_none() -> None:
    words = {1: 4.0, 2: 3.0, 3: 1.0}
    crowd_of_three = [candidate(1), candidate(2, lone=True, only=True), candidate(3)]
    by_words = {
        s.candidate.chunk: s
        for s in fuse(
            crowd_of_three,
            [
                Channel("passage", words),
                Channel("window", words),
                Channel("note", words, by_note=True),
            ],
            complete=NOBODY,
        )
    }
    half_way = with_vectors(crowd_of_three, {3: 0.8}, words)
    assert order(half_way) == [1, 2, 3]  # the vector of 3 outranks no better hit by words
    for scored in half_way[:2]:
        alone = by_words[scored.candidate.chunk]
        assert scored.score == alone.score
        passage, vector, window, note = scored.channels
        assert (passage, window, note) == alone.channels
        assert (vector.rank, vector.scaled) == (None, 0.0)
    assert half_way[2].score > by_words[3].score


def test_an_only_passage_lends_by_the_trust_of_its_channels() -> None:
    only = [candidate(1, lone=True, only=True), candidate(2)]
    ranked = with_vectors(only, {1: 0.8, 2: 0.4}, {1: 1.0, 2: 4.0}, words_trust=0.2, trust=0.6)
    parts = next(s.parts for s in ranked if s.candidate.chunk == 1)
    lent = (0.2 * 0.25 + 0.6 * 1.0) / (0.2 + 0.6)
    assert parts == pytest.approx((0.25, 1.0, lent, lent))


def test_a_passage_found_by_meaning_alone_lends_that_to_its_window_and_note() -> None:
    (found,) = with_vectors([candidate(1, lone=True, only=True)], {1: 0.8}, {}, floor=0.3)
    passage, vector, window, note = found.channels
    assert (passage.scaled, passage.rank, passage.lent) == (0.0, None, False)
    assert (vector.scaled, vector.rank, vector.raw, vector.lent) == (1.0, 1, 0.8, False)
    assert window.lent
    assert note.lent
    assert (window.scaled, note.scaled) == pytest.approx((0.5, 0.5))


@pytest.mark.parametrize("name", sorted(WEIGHTS))
def test_a_channel_that_is_left_out_counts_for_nothing(name: str) -> None:
    best = {name: {1: 9.0, 2: 1.0}}  # the channel is all for 1, the others for 2
    four = [
        Channel(other, best.get(other, {1: 1.0, 2: 2.0}), by_note=other == "note")
        for other in WEIGHTS
    ]
    alone = [channel for channel in four if channel.name == name]
    others = [channel for channel in four if channel.name != name]
    both = [candidate(1), candidate(2)]
    assert order(fuse(both, alone, complete=NOBODY)) == [1, 2]
    assert order(fuse(both, others, complete=NOBODY)) == [2, 1]
    (first, _) = fuse(both, others, complete=NOBODY)
    assert [channel.channel for channel in first.channels] == [c.name for c in others]
    assert first.score == pytest.approx(expected_score(1.0))  # of what is left, not of four


def test_with_every_channel_left_out_nothing_is_worth_anything() -> None:
    assert [s.score for s in fuse([candidate(2), candidate(1)], [], complete=NOBODY)] == [0, 0]


@given(scores, scores, scores, cosines, kinds, st.sampled_from([1.0, 0.2]))
@settings(max_examples=200, deadline=None, derandomize=True, database=None)
def test_reciprocal_ranks_ask_for_places_alone(
    passage: dict[int, float],
    window: dict[int, float],
    note: dict[int, float],
    cosine: dict[int, float],
    alone: list[tuple[bool, bool]],
    trust: float,
) -> None:
    def places(found: dict[int, float]) -> dict[int, float]:
        return {
            key: 11 / (11 + sum(other > raw for other in found.values()))
            for key, raw in found.items()
        }

    candidates = crowd(alone)
    channels = [
        Channel("passage", passage, trust=trust),
        Channel("vector", cosine, floor=0.9),
        Channel("window", window, trust=trust),
        Channel("note", note, trust=trust, by_note=True),
    ]
    ranked = fuse(candidates, channels, complete=NOBODY, fusion=Fusion.RRF)
    scaled = {
        "passage": places(passage),
        "vector": places(cosine),
        "window": places(window),
        "note": places(note),
    }
    weights = dict.fromkeys(WEIGHTS, trust) | GAMMA
    for scored in ranked:
        average = stage_one(scored.candidate, scaled, weights)
        assert scored.score == pytest.approx(expected_score(average))
    assert [s.score for s in ranked] == sorted((s.score for s in ranked), reverse=True)


def test_reciprocal_ranks_and_sums_order_differently() -> None:
    # By words 1 is ahead by a length and by meaning it is last; 2 is second everywhere.
    words = {1: 100.0, 2: 20.0, 3: 19.0, 4: 18.0}
    cosine = {3: 0.9, 2: 0.8, 4: 0.7, 1: 0.6}
    four = [candidate(n) for n in (1, 2, 3, 4)]
    assert order(with_vectors(four, cosine, words))[0] == 1
    gamma = GAMMA["vector"]
    sums = {
        n: 3 / (10 + place) + gamma / (10 + (3, 2, 4, 1).index(n) + 1)
        for place, n in enumerate((1, 2, 3, 4), 1)
    }
    by_place = order(with_vectors(four, cosine, words, fusion=Fusion.RRF))
    assert by_place == sorted(sums, key=lambda n: -sums[n])
    assert by_place != order(with_vectors(four, cosine, words))


def test_ties_go_by_path_and_place_whatever_the_channel() -> None:
    same = dict.fromkeys(range(9), 0.5)
    shuffled = [candidate(n) for n in range(9)]
    random.Random(5).shuffle(shuffled)
    for fusion in Fusion:
        ranked = fuse(shuffled, [Channel("vector", same)], complete=NOBODY, fusion=fusion)
        assert order(ranked) == list(range(9))


@given(
    scores,
    cosines,
    floors,
    kinds,
    st.sets(st.integers(0, 9)),
    st.sets(st.integers(0, 4)),
    st.sampled_from(list(Fusion)),
)
@settings(max_examples=200, deadline=None, derandomize=True, database=None)
def test_no_score_leaves_its_bounds_with_vectors_bonuses_and_names(
    words: dict[int, float],
    cosine: dict[int, float],
    floor: float,
    alone: list[tuple[bool, bool]],
    holders: set[int],
    named: set[int],
    fusion: Fusion,
) -> None:
    channels = [Channel("passage", words), Channel("vector", cosine, floor=floor)]
    whole = Complete(frozenset(holders), frozenset(holders), frozenset(holders))
    ranked = fuse(crowd(alone), channels, complete=whole, named=frozenset(named), fusion=fusion)
    assert all(0 <= s.score <= 1 for s in ranked)
    assert all(0 <= part <= 1 for s in ranked for part in s.parts)
    assert all(0 <= c.scaled <= 1 for s in ranked for c in s.channels)
