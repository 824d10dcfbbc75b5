"""What a person types, taken apart. Any text is a query."""

import json
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.model.query import Filters, Query
from vaultmem.retrieval.query import MAX_WORDS, parse_day, parse_query
from vaultmem.service.application import Memory
from vaultmem.service.operations.search import SearchRequest, search

Open = Callable[..., Memory]
Find = Callable[..., list[str]]

HOSTILE: list[str] = json.loads(
    (Path(__file__).parents[1] / "data" / "hostile_queries.json").read_text(encoding="ascii")
)


def forms(text: str) -> list[tuple[str, ...]]:
    return [word.forms for word in parse_query(text).words]


def first_forms(text: str) -> list[str]:
    return [word.forms[0] for word in parse_query(text).words]


def excluded(text: str) -> list[str]:
    return [word.forms[0] for word in parse_query(text).excluded]


def filters(text: str) -> Filters:
    return parse_query(text).filters


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kiln clay", ["kiln", "clay"]),
        ("kiln KILN Kiln", ["kiln"]),
        ("what is a kiln?", ["kiln"]),
        ("what is this", ["what", "is", "this"]),
        ("how do I not", ["how", "do", "I", "not"]),
        ("50%?", ["50"]),
        ("", []),
        ("  \n\t ", []),
        ("?!… --- *", []),
        ("it's", ["it"]),
        ("Ann's kiln", ["Ann", "kiln"]),
        ("Ann’s kiln", ["Ann", "kiln"]),
        ("rock'n'roll", ["rock n roll", "rock", "roll"]),
        ("write-back", ["write back", "write", "back"]),
        ("state-of-the-art", ["state of the art", "state", "art"]),
        ("user@example.test", ["user example test", "user", "example", "test"]),
        ("v1.2", ["v1 2", "v1"]),
        ("C:\\x", ["C x"]),
        ("a AND NOT b", ["b"]),
        ("title:", ["title"]),
        ("NEAR(a b, 9)", ["NEAR a", "NEAR", "b", "9"]),
        ("京都市", ["京都", "都市"]),
        ("木", ["木"]),
        ("ｆｕｌｌ", ["full"]),
        ("\ud800", []),
    ],
)
def test_words_are_what_is_looked_for(text: str, words: list[str]) -> None:
    assert first_forms(text) == words


def test_an_identifier_is_looked_for_whole_and_by_its_parts() -> None:
    assert forms("TideGaugeReader") == [
        ("TideGaugeReader", "Tide Gauge Reader"),
        ("Tide",),
        ("Gauge",),
        ("Reader",),
    ]
    assert forms("max_conns") == [("max conns",), ("max",), ("conns",)]


def test_stop_words_are_dropped_only_where_others_remain() -> None:
    assert first_forms("who was there") == ["who", "was", "there"]
    assert first_forms("who was there with the kiln") == ["kiln"]
    assert first_forms('what is "the kiln"') == ["the kiln"]


def test_a_phrase_is_required_as_written() -> None:
    query = parse_query('clay "the kiln" “red glaze”')
    assert [word.forms[0] for word in query.required] == ["the kiln", "red glaze"]
    assert [word.phrase for word in query.words] == [True, True, False]


@pytest.mark.parametrize("text", ['"never again', 'never again"', 'never" again', '"""never again'])
def test_an_unbalanced_quote_is_left_out(text: str) -> None:
    query = parse_query(text)
    assert query.required == ()
    assert [word.forms[0] for word in query.words] == ["never", "again"][: len(query.words)]
    assert query.words


@pytest.mark.parametrize("text", ['""', '"" kiln', '"?!" kiln', '-"" kiln'])
def test_an_empty_phrase_asks_for_nothing(text: str) -> None:
    assert parse_query(text).required == ()
    assert parse_query(text).excluded == ()


@pytest.mark.parametrize(
    ("text", "words", "without"),
    [
        ("kiln -clay", ["kiln"], ["clay"]),
        ('kiln -"red clay"', ["kiln"], ["red clay"]),
        ('-"red clay" kiln', ["kiln"], ["red clay"]),
        ("-clay", ["clay"], []),
        ("-v", ["v"], []),
        ("-a -b", ["b"], []),
        ("--no-verify", ["no verify", "verify"], []),
        ("git --no-verify", ["git", "no verify", "verify"], []),
        ("kiln - clay", ["kiln", "clay"], []),
        ("write-back", ["write back", "write", "back"], []),
        ("kiln –clay", ["kiln", "clay"], []),
        ("kiln -京都市", ["kiln"], ["京都 都市"]),
        ("kiln -red-clay", ["kiln"], ["red clay"]),
    ],
)
def test_a_minus_before_a_word_excludes_it(text: str, words: list[str], without: list[str]) -> None:
    assert first_forms(text) == words
    assert excluded(text) == without


def test_filters_are_taken_out_of_the_text() -> None:
    query = parse_query('kiln tag:#pots path:"My Notes" KIND:daily after:2026-05 before:2026')
    assert [word.forms[0] for word in query.words] == ["kiln"]
    assert query.filters == Filters(
        ("#pots",), ("My Notes",), ("daily",), date(2026, 5, 1), date(2026, 12, 31)
    )


def test_filters_in_the_text_join_those_given_apart() -> None:
    given_apart = Filters(tags=("a",), after=date(2025, 1, 1))
    assert parse_query("x tag:b", given_apart).filters == Filters(
        ("a", "b"), after=date(2025, 1, 1)
    )


@pytest.mark.parametrize(
    "text", ["after:yesterday", "before:2026-13", "after:2026-02-30", "after:0000", "kiln after:"]
)
def test_a_date_that_is_none_is_searched_as_words(text: str) -> None:
    assert filters(text) == Filters()
    assert first_forms(text) != []


@pytest.mark.parametrize("text", ["x:tag:a", "mytag:a", "retag:b"])
def test_a_filter_begins_a_word(text: str) -> None:
    assert filters(text) == Filters()


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2026-05-03", date(2026, 5, 3), date(2026, 5, 3)),
        ("2026-5-3", date(2026, 5, 3), date(2026, 5, 3)),
        ("2024-02", date(2024, 2, 1), date(2024, 2, 29)),
        ("2026-12", date(2026, 12, 1), date(2026, 12, 31)),
        (" 2026 ", date(2026, 1, 1), date(2026, 12, 31)),
        ("9999-12", date(9999, 12, 1), date(9999, 12, 31)),
        ("2026-02-30", None, None),
        ("2026-00", None, None),
        ("0000", None, None),
        ("26", None, None),
        ("", None, None),
        ("2026-05-03T10:00", None, None),
        ("２０２６", date(2026, 1, 1), date(2026, 12, 31)),
    ],
)
def test_a_day_a_month_or_a_year_is_a_date(
    text: str, first: date | None, last: date | None
) -> None:
    assert parse_day(text, last=False) == first
    assert parse_day(text, last=True) == last


def test_a_long_question_is_cut_to_what_can_be_asked() -> None:
    query = parse_query(" ".join(f"word{i}" for i in range(5_000)))
    assert len(query.words) == MAX_WORDS
    assert query.words[0].text == "word0"


@given(st.text(max_size=60))
@settings(max_examples=500, deadline=None, derandomize=True, database=None)
def test_any_text_is_a_query(text: str) -> None:
    query = parse_query(text)
    assert isinstance(query, Query)
    assert query.text == text
    for word in (*query.words, *query.excluded):
        assert all(form.strip() for form in word.forms)
        assert '"' not in "".join(word.forms)


@pytest.fixture
def shelf(indexed: Open) -> Memory:
    return indexed({"a.md": "kiln C++ foo-bar node.js", "b.md": "漢字 a b c :x 🧠 title x"})


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_query_gets_an_answer(query: str, shelf: Memory) -> None:
    started = time.process_time()
    reply = search(shelf, SearchRequest(query))
    assert reply.query == query
    assert {hit.path for hit in reply.hits} <= {"a.md", "b.md"}
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "query",
    [
        "kiln tag:\ud800",
        "kiln path:\udfff",
        "kiln kind:\ud800",
        "kiln -\ud800x",
        "kiln tag:\x00",
        "kiln path:[a",
        "kiln path:[^]*?\\",
        'kiln path:"%" tag:"\' OR 1=1"',
        "kiln " + "tag:a " * 2_000,
        "kiln " + "path:a " * 2_000,
        "kiln " + "kind:a " * 2_000,
        "kiln " + "-x " * 2_000,
        '"a b" ' * 500,
        "a-" * 20_000,
        "ab" * 50_000,
        "京" * 20_000,
        "AbCd" * 10_000,
        "'" * 10_000,
        '"' + "ab " * 20_000 + '"',
    ],
    ids=range(19),
)
def test_a_query_hostile_to_our_own_syntax_gets_an_answer(query: str, shelf: Memory) -> None:
    started = time.process_time()
    assert search(shelf, SearchRequest(query)).query == query
    assert time.process_time() - started < 5


@pytest.mark.parametrize("value", ["\ud800", "\x00", "a" * 100_000])
def test_hostile_filters_given_apart_get_an_answer(value: str, shelf: Memory) -> None:
    request = SearchRequest("kiln", tags=(value,), paths=(value,), kinds=(value,))
    assert search(shelf, request).hits == ()


def test_a_question_of_five_thousand_words_is_answered_in_time(shelf: Memory) -> None:
    query = "kiln " + " ".join(f"unheard{i:x}of" for i in range(5_000))
    started = time.process_time()
    reply = search(shelf, SearchRequest(query))
    assert time.process_time() - started < 5
    assert [hit.path for hit in reply.hits] == ["a.md"]
    assert reply.degraded != ()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("kiln", {"kiln.md", "both.md"}),
        ("kiln -clay", {"kiln.md"}),
        ("-clay", {"clay.md", "both.md"}),
        ('"fired kiln"', {"kiln.md"}),
        ('kiln -"fired kiln"', {"both.md"}),
        ("kiln tag:pots", {"both.md"}),
        ("kiln kind:daily", set()),
        ('kiln "clay"', {"both.md", "clay.md"}),
    ],
)
def test_the_syntax_means_what_it_says(
    query: str, found: set[str], indexed: Open, find: Find
) -> None:
    memory = indexed(
        {"kiln.md": "a fired kiln", "clay.md": "red clay", "both.md": "kiln of clay #pots"}
    )
    assert set(find(memory, query)) == found


def test_a_phrase_that_no_note_holds_is_loosened_and_said_to_be(indexed: Open) -> None:
    memory = indexed({"kiln.md": "a fired kiln", "clay.md": "red clay"})
    reply = search(memory, SearchRequest('"kiln fired"'))
    assert [hit.path for hit in reply.hits] == ["kiln.md"]
    assert reply.degraded == (
        'No note holds "kiln fired" as written; its words were searched instead.',
    )
