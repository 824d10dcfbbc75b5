"""Characters that nobody sees: which are told of, and which are of use."""

import pytest

from vaultmem.security.hidden import MANY_ZERO_WIDTH, find_hidden, shown
from vaultmem.security.secrets import look_at

TAGS = "".join(chr(0xE0000 + ord(sign)) for sign in "do this")
WALES = "\U0001f3f4" + "".join(chr(0xE0000 + ord(sign)) for sign in "gbwls") + "\U000e007f"


@pytest.mark.parametrize(
    ("text", "start", "characters"),
    [
        ("a \u202eb", 2, 1),
        ("a\u2066b\u2069", 1, 2),
        (f"ab{TAGS}c", 2, 7),
        ("a\ufe0f\ufe01\ufe02b", 1, 3),
        ("漢\U000e0100\U000e0101", 1, 2),
        ("w\u200bo\u200br\u200bd", 1, 3),
        ("w\u200d\u2060\ufeffo", 1, 3),
    ],
)
def test_what_hides_text_is_found_and_shown(text: str, start: int, characters: int) -> None:
    hidden = find_hidden(text)
    assert hidden is not None
    assert (hidden.start, hidden.characters) == (start, characters)
    assert "hidden" in look_at(text).signs
    visible = shown(text)
    assert visible.count("\\u{") == characters
    assert visible.isascii() or "漢" in visible


@pytest.mark.parametrize(
    "text",
    [
        "plain text",
        "می‌خواهم و نمی‌دانم، خانه‌ها را می‌بینم",
        "क्‍ष and ক্‍য and ශ්‍රී",
        "👩‍👩‍👧‍👦 👩🏽‍💻 🏳️‍🌈 🏴‍☠️ ❤️‍🔥",
        "✔️ ☀️ 1️⃣ #️⃣",
        f"{WALES} and 🇩🇪",
        "\ufeffA note with a mark before it",
        "zero\u200bwidth once",
        "漢\u200b字\u200b分\u200bか\u200bち",
        "العربية \u200f(mark)\u200e",
        "葛\U000e0100城市",
    ],
)
def test_what_is_of_use_in_writing_stays_as_it_is(text: str) -> None:
    assert find_hidden(text) is None
    assert shown(text) == text or "\u200b" in text


def test_a_few_invisible_characters_in_words_are_no_matter() -> None:
    few = "wo\u200brd " * (MANY_ZERO_WIDTH - 1)
    assert find_hidden(few) is None
    assert find_hidden(few + "wo\u200brd") is not None


def test_a_flag_without_its_end_hides_text() -> None:
    assert find_hidden(WALES[:-1]) is not None
    assert shown(WALES) == WALES


def test_what_is_hidden_is_named_in_words() -> None:
    hidden = find_hidden(f"a\u202e{TAGS}")
    assert hidden is not None
    assert "direction" in hidden.what
    assert "tag" in hidden.what


def test_an_escape_names_the_character() -> None:
    assert shown("a\u202eb\U000e0041") == "a\\u{202e}b\\u{e0041}"
