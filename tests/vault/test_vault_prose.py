"""Markdown's marks go, words and code stay."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.vault.prose import prose


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see [[Daily notes]]", "see Daily notes"),
        ("see [[Plugins/Daily notes#Setup|the plugin]]", "see the plugin"),
        ("![[kiln.png]]", "kiln.png"),
        ("a [guide](https://example.org/a/b?c=d#e) to it", "a guide to it"),
        ("a [guide](notes/kiln%20(1).md) to it", "a guide to it"),
        ("![a kiln](kiln.png)", "a kiln"),
        ("see https://example.org/a/long/path?q=1 there", "see example.org there"),
        ("**bold**, *slanted*, ~~gone~~ and ==marked==", "bold, slanted, gone and marked"),
        ("set `max_connections` to 5", "set max_connections to 5"),
        ("snake_case and _slanted_ stay", "snake_case and _slanted_ stay"),
        ("<b>kiln</b> at 5 < 6", "kiln at 5 < 6"),
        ("> quoted\n> > twice", "quoted\ntwice"),
        ("> [!warning]- Hot\n> very", "Hot\nvery"),
        ("| a | b |\n|---|:--|\n| c | d |", "a b\nc d"),
        ("- [ ] fire the kiln", "- [ ] fire the kiln"),
        ("x | y stays where no table is", "x | y stays where no table is"),
        ("one\n\n---\n\ntwo", "one\n\n\ntwo"),
        ("京都の[[銭湯|湯]]", "京都の湯"),
        (
            "the [`--flag`](https://example.com/a) and [[Note#Sec|the `foo` option]]",
            "the --flag and the foo option",
        ),
        ("call `__init__` and `a **b`", "call __init__ and a **b"),
        ("`git checkout <branch>` **now**", "git checkout <branch> now"),
        ("5*6*7 and a__b are no emphasis", "5*6*7 and a__b are no emphasis"),
    ],
)
def test_marks_go_and_words_stay(text: str, expected: str) -> None:
    assert prose(text) == expected


def test_code_is_left_as_it_is_and_named_by_its_language() -> None:
    code = "a = [b](c) | **d**  # https://example.org/x\n| not | a | table |\n---"
    assert prose(f"before\n```python\n{code}\n```\n**after**") == f"before\npython\n{code}\nafter"


@pytest.mark.parametrize("before", ["    ", "> ", "> > ", "\t"])
def test_code_in_lists_and_quotes_is_code(before: str) -> None:
    fenced = [f"{before}{line}" for line in ("```sh", "rm **/*.py", "```")]
    assert "rm **/*.py" in prose("\n".join(fenced))


def test_only_marks_as_long_as_the_first_end_the_code() -> None:
    assert prose("````\n```\n**x**\n````\n**y**") == "\n```\n**x**\ny"


def test_code_that_does_not_end_is_code_to_the_end() -> None:
    assert prose("~~~\n**x**") == "\n**x**"


@given(st.text(alphabet="[]()!`~|>*<=_-\n ahttps:/", max_size=60))
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
def test_no_text_is_an_error_and_none_grows(text: str) -> None:
    assert len(prose(text)) <= len(text)


@given(st.lists(st.sampled_from(["kiln", "clay", "glaze"]), min_size=1, max_size=8))
@settings(max_examples=50, deadline=None, derandomize=True, database=None)
def test_plain_words_are_left_alone(words: list[str]) -> None:
    assert prose(" ".join(words)) == " ".join(words)
