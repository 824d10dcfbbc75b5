"""The few lines that show why a passage was found."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.retrieval.query import parse_query
from vaultmem.retrieval.snippet import SNIPPET_CHARS, snippet

FILLER = "Some other words stand here for a while. " * 12


def shown(text: str, query: str) -> str:
    return snippet(text, parse_query(query).words)


def test_a_short_passage_is_shown_whole_with_blanks_folded() -> None:
    assert shown("The  kiln\n\n is\thot.\n", "kiln") == "The kiln is hot."


def test_case_and_accents_are_shown_as_they_are() -> None:
    text = FILLER + "Das Théorème von KÖNIGSBERG. " + FILLER
    assert "Théorème von KÖNIGSBERG" in shown(text, "theoreme konigsberg")


@pytest.mark.parametrize(
    ("written", "query"),
    [
        ("kiln", "kiln"),
        ("Kiln", "kiln"),
        ("kilns", "kiln"),
        ("kiln", "kilns"),
        ("indexing", "indexed"),
        ("Lämpötila", "lampotila"),
        ("cafe\u0301", "café"),
        ("max_prepared_statements", "max_prepared_statements"),
        ("TideGaugeReader::poll", "TideGaugeReader"),
        ("write-back", "write-back"),
        ("--no-verify", "--no-verify"),
        ("C++", "C++"),
        ("study", "studies"),
        ("run", "running"),
        ("京都", "京都"),
        ("हिन्दी", "हिन्दी"),
        ("ｋｉｌｎ", "kiln"),
    ],
)
def test_a_long_passage_is_shown_where_it_holds_the_word(written: str, query: str) -> None:
    assert written in shown(f"{FILLER}{written} {FILLER}", query)


@pytest.mark.parametrize("query", ["銭湯", "京都 銭湯", "タワー"])
def test_a_long_passage_without_blanks_is_shown_where_it_holds_the_word(query: str) -> None:
    filler = "春の朝は自転車で川沿いを走り小さな店で朝食を食べた。" * 14
    text = f"{filler}古い銭湯の隣にタワーがある。{filler}"
    found = shown(text, query)
    assert query.split()[-1] in found
    assert len(found) <= SNIPPET_CHARS + 2


def test_the_place_with_most_of_the_words_is_shown() -> None:
    text = f"kiln {FILLER} clay {FILLER} kiln and clay and glaze {FILLER}"
    assert "kiln and clay and glaze" in shown(text, "glaze kiln clay")


def test_a_passage_without_the_words_is_shown_from_its_beginning() -> None:
    found = shown(FILLER, "kiln")
    assert found.startswith("Some other words")
    assert found.endswith("…")


def test_what_was_cut_off_is_marked() -> None:
    assert shown(f"{FILLER}kiln {FILLER}", "kiln").startswith("…")
    assert shown(f"{FILLER}kiln {FILLER}", "kiln").endswith("…")
    assert not shown(f"{FILLER}kiln", "kiln").endswith("…")


def test_no_words_show_the_beginning() -> None:
    assert snippet(FILLER, ()).startswith("Some other words")
    assert snippet("", ()) == ""


@given(
    st.text(alphabet="ab ÄİßﬁA\u0301京都\n\t…😀", max_size=900),
    st.text(alphabet="abäi京都 ", max_size=12),
    st.integers(30, 300),
)
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
def test_a_snippet_is_a_bounded_piece_of_the_passage(text: str, query: str, size: int) -> None:
    found = snippet(text, parse_query(query).words, size=size)
    flat = " ".join(text.split())
    assert len(found) <= size + 2
    assert found.removeprefix("…").removesuffix("…") in flat or found in flat


def test_a_passage_without_any_blank_is_cut_hard() -> None:
    found = shown("x" * 5_000 + "kiln" + "y" * 5_000, "kiln")
    assert len(found) <= SNIPPET_CHARS + 2
