"""The rows of the full-text index, and the door that texts and questions both go through."""

import unicodedata
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.index.documents import COLUMNS, WINDOW_PIECES, SearchedFields, documents
from vaultmem.index.lookup import Lookup
from vaultmem.index.text import camel_parts, normalize, prepare, unspaced_runs
from vaultmem.model.chunk import Chunk
from vaultmem.retrieval.query import parse_query
from vaultmem.service.application import Memory

Open = Callable[..., Memory]
Find = Callable[..., list[str]]

FIELDS = SearchedFields(
    "one/kiln.md",
    "Kiln",
    "oven",
    "pottery",
    "maker Ann",
)
TITLE, ALIASES, HEADINGS, TAGS, PROPERTIES, PATH, BODY = range(len(COLUMNS))


def passages(*texts: str, pieces: int = 10) -> list[Chunk]:
    """A passage for each text, each under a heading of its own."""
    return [
        Chunk(str(i), (f"Part {i}",), i, i, 0, 0, f"# Part {i}\n{text}", 9, pieces)
        for i, text in enumerate(texts)
    ]


def bodies(*texts: str, pieces: int = 10) -> list[str | None]:
    """The text of each passage's window; None where it is the passage itself."""
    rows = documents(FIELDS, passages(*texts, pieces=pieces)).windows
    return [None if row is None else row[BODY] for row in rows]


def test_the_first_passage_carries_what_is_said_about_the_whole_note() -> None:
    first, second = documents(FIELDS, passages("fired", "glazed")).passages
    assert first == ("Kiln", "oven", "Part 0", "pottery", "maker Ann", "one/kiln.md", "fired")
    assert second == ("Kiln", "", "Part 1", "", "", "", "glazed")


def test_the_note_row_holds_everything_once() -> None:
    note = documents(FIELDS, passages("fired", "glazed")).note
    assert note[HEADINGS] == "Part 0\nPart 1"
    assert note[BODY] == "fired\nglazed"
    assert (note[ALIASES], note[TAGS], note[PATH]) == ("oven", "pottery", "one/kiln.md")


def test_a_heading_is_no_part_of_the_body_it_opens() -> None:
    rows = documents(FIELDS, passages("fired"))
    assert "Part" not in rows.note[BODY]
    assert "Part" not in rows.passages[0][BODY]


def test_a_window_reaches_two_passages_to_each_side() -> None:
    assert bodies("a", "b", "c", "d", "e", "f") == [
        "a\nb\nc",
        "a\nb\nc\nd",
        "a\nb\nc\nd\ne",
        "b\nc\nd\ne\nf",
        "c\nd\ne\nf",
        "d\ne\nf",
    ]


def test_a_window_stops_growing_at_its_budget() -> None:
    third = WINDOW_PIECES // 3
    assert bodies("a", "b", "c", "d", pieces=third) == ["a\nb\nc", "a\nb\nc", "b\nc\nd", "b\nc\nd"]
    assert bodies("a", "b", "c", pieces=WINDOW_PIECES // 2 + 1) == [None, None, None]


def test_a_passage_alone_in_its_note_has_no_window() -> None:
    assert bodies("a") == [None]


def test_a_window_names_the_headings_of_its_neighbours() -> None:
    windows = documents(FIELDS, passages("a", "b")).windows
    assert [row and row[HEADINGS] for row in windows] == ["Part 0 Part 1", "Part 1 Part 0"]


def test_rows_are_the_same_every_time() -> None:
    assert documents(FIELDS, passages("a", "b")) == documents(FIELDS, passages("a", "b"))


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("TideGaugeReader", ["Tide", "Gauge", "Reader"]),
        ("camelCase", ["camel", "Case"]),
        ("HTTPServer", ["HTTP", "Server"]),
        ("parseJSON2Text", ["parse", "JSON", "2", "Text"]),
        ("Kiln", []),
        ("KILN", []),
        ("kiln", []),
        ("Müller", []),
        ("", []),
    ],
)
def test_a_camel_case_name_has_parts(word: str, parts: list[str]) -> None:
    assert camel_parts(word) == parts


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        ("the TideGaugeReader polls", "the TideGaugeReader polls\nTide Gauge Reader"),
        ("plain words", "plain words"),
        ("東京都庁へ", " 東京 京都 都庁 庁へ \nへ"),
        ("木", " 木 "),
        ("Tokyo東京", "Tokyo 東京 \n京"),
        ("ｆｕｌｌ　ｗｉｄｔｈ", "full width"),
        ("ﬁre", "fire"),
        ("cafe\u0301", "café"),
        ("C++ and C#", "C++ cpp  and C# csharp "),
        ("f# minor", "f# fsharp  minor"),
        ("abc# C+++ C##", "abc# C+++ C##"),
    ],
)
def test_text_is_prepared(text: str, prepared: str) -> None:
    assert prepare(text) == prepared


def test_normalizing_twice_equals_normalizing_once() -> None:
    for text in ("ｆｕｌｌ", "cafe\u0301", "㍿", "Ⅷ", "plain"):
        assert normalize(normalize(text)) == normalize(text)


def test_unspaced_runs_are_those_of_scripts_without_blanks() -> None:
    assert unspaced_runs("Tokyo東京とParis ไทย") == ["東京と", "ไทย"]
    assert unspaced_runs("plain") == []


def holds(lookup: Lookup, text: str, form: str) -> bool:
    """Whether a note of this text would be found by this form."""
    terms, wanted = lookup.terms(prepare(text)), lookup.terms(form)
    return any(terms[i : i + len(wanted)] == wanted for i in range(len(terms)))


@pytest.fixture
def lookup(indexed: Open) -> Lookup:
    return indexed({"a.md": "kiln"}).lookup()


WORDS = [
    "TideGaugeReader::poll", "max_prepared_statements", "C++", "c#", "F#", "C++23", ".NET",
    "node.js", "state-of-the-art", "don't", "rock'n'roll", "O’Brien's", "user@example.test",
    "v1.2.3", "LDG-4223", "10.43.0.10:53", "error:0A000086", "HTTPServer", "iPhone", "x86_64",
    "ﬁre", "ｆｕｌｌ", "cafe\u0301", "Ünïcödé", "İstanbul", "straße", "ΟΔΟΣ", "京都", "木",
    "東京タワー2号", "한국어", "ไทย", "हिन्दी", "தமிழ்", "বাংলা", "עִבְרִית", "العَرَبِيَّة", "ру\u0301сский",
    "e\u0323\u0302x", "naïveApproach", "foo/bar-Baz_quxQuux", "½", "①", "x²", "A1B2c3", "don’t",
]  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_a_text_is_found_when_it_is_asked_for(word: str, lookup: Lookup) -> None:
    asked = parse_query(word).words
    assert asked
    for found in asked:
        assert any(holds(lookup, f"before {word} after", form) for form in found.forms), found


# What words are made of, and what stands between them; symbols have a test of their own.
LETTERS = st.characters(
    codec="utf-8", categories=["Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd", "Zs", "Pd", "Pc"]
)


@given(st.text(LETTERS, min_size=1, max_size=12))
@settings(max_examples=1000, deadline=None, derandomize=True, database=None)
def test_any_word_of_a_text_is_found_when_it_is_asked_for(shared_lookup: Lookup, text: str) -> None:
    quoting = set("\"“”„‟«»＂'‘’ʼ")
    if quoting & set(text) or text.startswith("-") or ":" in unicodedata.normalize("NFKC", text):
        return  # these have a meaning in a question
    for word in parse_query(text).words:
        assert any(holds(shared_lookup, text, form) for form in word.forms), word


@pytest.mark.parametrize(
    "text", ["🧠Brain", "⚠️Brain", "brain🫠", "a🥑brain", "✔️brain✔️", "🛠brain", "1️⃣brain"]
)
def test_an_emoji_next_to_a_word_does_not_hide_it(text: str, lookup: Lookup) -> None:
    assert holds(lookup, f"before {text} after", "brain")


@pytest.fixture(scope="module")
def shared_lookup(tmp_path_factory: pytest.TempPathFactory) -> Lookup:
    from vaultmem.index.store import create

    return Lookup(create(tmp_path_factory.mktemp("lookup"), "rules"))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("gauge", "code.md"),
        ("tidegaugereader", "code.md"),
        ("TideGaugeReader", "code.md"),
        ("csharp", "sharp.md"),
        ("C#", "sharp.md"),
        ("都庁", "tokyo.md"),
        ("full", "wide.md"),
        ("ＦＵＬＬ", "wide.md"),
        ("हिन्दी", "hindi.md"),
        ("தமிழ்", "tamil.md"),
    ],
)
def test_notes_are_found_by_identifiers_and_in_every_script(
    question: str, answer: str, indexed: Open, find: Find
) -> None:
    memory = indexed(
        {
            "code.md": "the TideGaugeReader polls",
            "sharp.md": "written in C#",
            "tokyo.md": "東京都庁へ",
            "wide.md": "ｆｕｌｌ width",
            "hindi.md": "हिन्दी में खोज",
            "tamil.md": "தமிழ் மொழி",
        }
    )
    assert find(memory, question)[:1] == [answer]


def test_neighbouring_windows_share_their_middle() -> None:
    rows = bodies("a", "b", "c", "d")
    for before, after in pairwise(rows):
        assert before
        assert after
        assert set(before.split()) & set(after.split())
