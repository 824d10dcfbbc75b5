"""What is decided before an Ollama server is asked: its address, a model's row, a text's pieces."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ollama._client import _parse_host

from vaultmem.embedding.embedder import Languages
from vaultmem.embedding.ollama_host import read_host
from vaultmem.embedding.ollama_models import (
    DEFAULT_MODEL,
    KNOWN_MODELS,
    MOST_TOKENS,
    known_model,
    with_tag,
)
from vaultmem.embedding.ollama_window import budget, halves, most_tokens, pieces
from vaultmem.model.errors import EmbedderUnavailable

# Addresses


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_HOST", raising=False)


@pytest.mark.parametrize(
    "given",
    [
        "", "1.2.3.4", ":56789", "1.2.3.4:56789", "http://1.2.3.4", "https://1.2.3.4",
        "https://1.2.3.4:56789", "example.com", "example.com:56789", "http://example.com",
        "https://example.com", "example.com/", "example.com/path", "example.com:56789/path/",
        "https://example.com:56789/a/path", "[2001:db8::1]", "[2001:db8::1]:56789",
        "https://[2001:db8::1]:56789/path", "http://user:word@example.com:1",
    ],
)  # fmt: skip
def test_an_address_is_read_as_ollamas_client_reads_it(given: str) -> None:
    assert read_host(given).url == _parse_host(given)


@pytest.mark.parametrize(
    ("given", "url", "name", "loopback"),
    [
        ("", "http://127.0.0.1:11434", "127.0.0.1:11434", True),
        ("0.0.0.0", "http://127.0.0.1:11434", "127.0.0.1:11434", True),
        ("http://0.0.0.0:8080/", "http://127.0.0.1:8080", "127.0.0.1:8080", True),
        ("[::]:8080", "http://[::1]:8080", "[::1]:8080", True),
        ("::1", "http://[::1]:11434", "[::1]:11434", True),
        ("LOCALHOST:1", "http://localhost:1", "localhost:1", True),
        ("127.9.9.9", "http://127.9.9.9:11434", "127.9.9.9:11434", True),
        ("192.168.1.5", "http://192.168.1.5:11434", "192.168.1.5:11434", False),
        ("HTTPS://nas.example/ai", "https://nas.example:443/ai", "nas.example:443", False),
        ("https://me:word@nas.example", "https://nas.example:443", "nas.example:443", False),
    ],
)
def test_an_address_says_where_and_whether_it_is_here(
    given: str, url: str, name: str, loopback: bool
) -> None:
    host = read_host(given)
    assert (host.url, host.name, host.loopback) == (url, name, loopback)


def test_the_variable_counts_when_nothing_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", ' "nas.example:1" ')
    assert read_host("").url == "http://nas.example:1"
    assert read_host("other.example:2").url == "http://other.example:2"


@pytest.mark.parametrize(
    "given", ["ftp://nas.example", "nas.example:port", "http://[::1", "a:99999"]
)
def test_an_address_that_is_none_is_refused_by_its_name(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"^embedder\.host is not the address"):
        read_host(given)
    monkeypatch.setenv("OLLAMA_HOST", given)
    with pytest.raises(EmbedderUnavailable, match=r"^OLLAMA_HOST is not the address"):
        read_host("")


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(EmbedderUnavailable) as caught:
        read_host("http://me:hunter2@nas.example:port")
    assert "hunter2" not in str(caught.value)
    assert "nas.example:port" in str(caught.value)


# Models


def test_the_default_model_is_in_the_table() -> None:
    assert known_model(DEFAULT_MODEL) is KNOWN_MODELS[DEFAULT_MODEL]


@pytest.mark.parametrize("name", KNOWN_MODELS)
def test_a_row_can_be_used(name: str) -> None:
    row = KNOWN_MODELS[name]
    assert name == name.lower()
    assert row.dimension not in row.shorter
    assert 256 <= row.window <= MOST_TOKENS
    # The prefixes leave most of the window to the text.
    assert budget(row.window, row.query_prefix) > row.window / 2
    assert budget(row.window, row.document_prefix) > row.window / 2
    for prefix in (row.query_prefix, row.document_prefix):
        assert prefix == "" or prefix.endswith((": ", "Query:"))


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("bge-m3", "bge-m3"),
        ("BGE-M3:567m-fp16", "bge-m3"),
        ("granite-embedding:30m", "granite-embedding"),
        ("granite-embedding:278m", "granite-embedding:278m"),
        ("nomic-embed-text-v2-moe:latest", "nomic-embed-text-v2-moe"),
    ],
)
def test_a_name_finds_its_row(name: str, row: str) -> None:
    assert known_model(name) is KNOWN_MODELS[row]


@pytest.mark.parametrize("name", ["bge", "bge-m3-large", "somebody/bge-m3", ""])
def test_another_name_finds_none(name: str) -> None:
    assert known_model(name) is None


def test_models_of_many_languages_are_known_as_such() -> None:
    many = {name for name, row in KNOWN_MODELS.items() if row.languages is Languages.MANY}
    assert {"bge-m3", "embeddinggemma", "qwen3-embedding", "snowflake-arctic-embed2"} < many
    assert not many & {"nomic-embed-text", "all-minilm", "mxbai-embed-large"}


@pytest.mark.parametrize(
    ("name", "tagged"),
    [
        ("bge-m3", "bge-m3:latest"),
        ("bge-m3:567m", "bge-m3:567m"),
        ("host.example:5000/me/bge", "host.example:5000/me/bge:latest"),
        ("host.example:5000/me/bge:q4", "host.example:5000/me/bge:q4"),
    ],
)
def test_a_name_without_a_tag_means_the_latest(name: str, tagged: str) -> None:
    assert with_tag(name) == tagged


# Windows

# What MiniLM's own tokenizer makes of them.
COUNTED = [
    ("The quick brown fox jumps over the lazy dog.", 10),
    ("def open_vault(path: Path) -> Memory:", 13),
    ("9c07f1a2b3c4d5e6f708192a3b4c5d6e", 30),
    ("aGVsbG8gd29ybGQsIHRoaXMgaXMgYmFzZTY0", 24),
    ("Съешь ещё этих мягких французских булок", 33),
    ("这是一个关于数据库索引的句子", 14),
    ("한국어 문장을 나누는 시험", 29),
]


@pytest.mark.parametrize(("text", "counted"), COUNTED)
def test_tokens_are_estimated_from_above_but_not_wildly(text: str, counted: int) -> None:
    assert counted <= most_tokens(text) * 1.06 <= 2 * counted + 2


def test_a_text_that_fits_stays_whole() -> None:
    assert pieces("the kiln fires", 20) == ["the kiln fires"]
    assert pieces("", 20) == [""]


def test_a_text_is_cut_at_blanks() -> None:
    assert pieces("aaaa bbbb cccc dddd eeee", 2) == ["aaaa bbbb ", "cccc dddd ", "eeee"]


def test_a_run_without_a_blank_is_cut_where_it_is_full() -> None:
    found = pieces("x" * 1000, 40)
    assert "".join(found) == "x" * 1000
    assert 10 < len(found) < 60


def test_a_prefix_takes_its_share_of_the_window() -> None:
    assert budget(512, "search_document: ") < budget(512, "") < 512
    assert budget(64, "search " * 500) > 0


text = st.text(st.one_of(st.sampled_from("ab Z9 .\n"), st.characters(codec="utf-8")), max_size=300)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(text, st.integers(4, 60))
def test_pieces_fit_and_leave_nothing_out(text: str, most: int) -> None:
    found = pieces(text, most)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(most_tokens(piece) <= most for piece in found)
    assert len(found) == 1 or all(piece.strip() for piece in found)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(text)
def test_halves_are_the_text(text: str) -> None:
    first, second = halves(text)
    assert first + second == text
    if len(text) > 1:
        assert first
        assert second


def test_halves_meet_at_the_blank_nearest_to_the_middle() -> None:
    assert halves("one two three four") == ("one two ", "three four")
    assert halves("one\ntwothree") == ("one\n", "twothree")
    assert halves("undivided") == ("undi", "vided")
