"""Channels on one scale: pure, bounded, and independent of row numbers."""

import dataclasses
import json
import os
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.retrieval.fusion import WEIGHTS, Candidate, Channel, Complete, Scored, fuse
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
        Channel("passage", passage),
        Channel("window", window),
        Channel("note", note),
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
    assert set(WEIGHTS) == {"passage", "window", "note"}
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
