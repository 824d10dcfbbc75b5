"""How many word pieces a text will be, by estimate."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.vault.pieces import estimate_pieces, measure_pieces


def test_no_text_counts_as_one_piece() -> None:
    assert estimate_pieces("") == 1


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("The quick brown fox jumps over the lazy dog", 7, 12),
        ("word " * 100, 70, 130),
        ("Der schnelle braune Fuchs springt über den faulen Hund und läuft", 15, 30),
        ("这是一个句子", 6, 7),
        ("Съешь ещё этих мягких французских булок", 20, 40),
        ("1234567890", 5, 11),
        ("(a) [b] {c}!", 7, 12),
        ("😀😀😀", 2, 6),
    ],
)
def test_the_estimate_is_near_what_a_vocabulary_gives(text: str, least: int, most: int) -> None:
    assert least <= estimate_pieces(text) <= most


def test_other_alphabets_cost_more_than_latin_letters() -> None:
    assert estimate_pieces("ж" * 100) > 3 * estimate_pieces("z" * 100)
    assert estimate_pieces("漢" * 100) > 5 * estimate_pieces("z" * 100)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80), st.text(max_size=80))
def test_a_longer_text_never_has_fewer_pieces(first: str, second: str) -> None:
    assert measure_pieces(first + second) >= 0.99 * measure_pieces(first) - 1e-9
    assert estimate_pieces(first) >= 1


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(alphabet="abc XYZ.,!?12\n", max_size=40), max_size=8))
def test_the_pieces_of_parts_add_up(parts: list[str]) -> None:
    assert measure_pieces("".join(parts)) == pytest.approx(sum(map(measure_pieces, parts)))
