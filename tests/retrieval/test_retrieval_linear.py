"""Any question is answered in time, however long it is, and told what of it was left out."""

import time
from collections.abc import Callable

import pytest

from vaultmem.retrieval.query import MAX_ASKED_CHARS, MAX_WORD_CHARS, MAX_WORDS, parse_query
from vaultmem.retrieval.snippet import SNIPPET_CHARS, snippet
from vaultmem.service.application import Memory
from vaultmem.service.operations.search import SearchRequest, search

Open = Callable[..., Memory]

SIZE = 300_000
PUMPS = {
    "words": "word ",
    "letters": "a",
    "one-letter words": "a ",
    "quotes": '"',
    "open phrases": ' "a',
    "exclusions": " -a",
    "filters": "tag:a ",
    "filters of open phrases": 'tag:"a ',
    "globs": "path:*a ",
    "brackets": "(",
    "brackets within brackets": "((a) ",
    "hyphens": "a-",
    "apostrophes": "a'",
    "names": "aB",
    "capitals": "A",
    "Chinese": "京",
    "Chinese among letters": "京a",
    "accents": "\u0301\u0323",
    "emoji": "🧠",
    "NUL": "\0",
    "line ends": "\n",
    "blanks": " ",
    "signs": "*",
    "NEAR": "NEAR(a b, 9) ",
    "days": "after:2026 ",
}


@pytest.fixture
def shelf(indexed: Open) -> Memory:
    return indexed({"a.md": "kiln word C++ foo-bar", "b.md": "漢字 京都 a b c title x"})


@pytest.mark.parametrize("pump", PUMPS.values(), ids=list(PUMPS))
def test_a_question_without_end_is_answered_in_time(pump: str, shelf: Memory) -> None:
    text = pump * (SIZE // len(pump))
    started = time.process_time()

    reply = search(shelf, SearchRequest(text))

    assert time.process_time() - started < 10  # one to four, where it is linear
    assert reply.query == text


def test_a_question_of_many_distinct_words_says_how_many_were_left_out(shelf: Memory) -> None:
    reply = search(shelf, SearchRequest("kiln " + " ".join(f"w{n:05}" for n in range(100_000))))

    assert [hit.path for hit in reply.hits] == ["a.md"]
    assert f"its last {100_001 - MAX_WORDS} words were left out" in reply.degraded[0]
    assert f"may have {MAX_WORDS}" in reply.degraded[0]


def test_five_thousand_brackets_around_a_word_find_it(shelf: Memory) -> None:
    reply = search(shelf, SearchRequest("(" * 5000 + "kiln" + ")" * 5000))

    assert [hit.path for hit in reply.hits] == ["a.md"]


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("kiln " + " ".join(f"-x{n}" for n in range(100)), 36),
        ("kiln " + " ".join(f"tag:x{n}" for n in range(100)), 36),
        ("kiln " + " ".join(f"path:x{n} kind:y{n}" for n in range(100)), 72),
        ('"' + "a b " * 50 + '"', 36),
        ("kiln " * 100, 0),
    ],
    ids=["exclusions", "tags", "paths and kinds", "a phrase", "one word again and again"],
)
def test_what_is_too_much_of_a_question_is_counted(text: str, left_out: int) -> None:
    assert parse_query(text).dropped == left_out


def test_words_and_the_question_as_a_whole_are_cut() -> None:
    query = parse_query("x" * 5000 + "-y " + "Z" * 5000 + " " + "word " * 5000)

    assert max(len(word.text) for word in query.words) == MAX_WORD_CHARS
    assert max(len(form) for word in query.words for form in word.forms) < 2 * MAX_WORD_CHARS + 9
    assert len(query.asked) == MAX_ASKED_CHARS


def test_runs_of_chinese_between_letters_are_told_apart() -> None:
    found = [word.text for word in parse_query("京x京都b").words]

    assert found == ["京", "京都", "x", "b"]


def test_a_long_word_is_not_compared_with_long_words_of_the_index(indexed: Open) -> None:
    memory = indexed({f"{n}.md": "a" * (20_000 + n) + "b" for n in range(5)})
    started = time.process_time()

    assert search(memory, SearchRequest("a" * 20_002 + "c")).hits == ()
    assert time.process_time() - started < 3


@pytest.mark.parametrize("pump", ["kiln ", "kilns", "a", "京都", "é ", "\u0301", "."])
def test_a_snippet_of_a_long_text_is_short_and_made_in_time(pump: str) -> None:
    text = pump * (2 * SIZE // len(pump)) + " kiln"
    words = parse_query("kiln 京都 running a").words
    started = time.process_time()

    shown = snippet(text, words)

    assert time.process_time() - started < 15
    assert len(shown) <= SNIPPET_CHARS + 2
