"""However a person says that something is private, it is."""

import pytest

from vaultmem.vault.frontmatter import read_frontmatter
from vaultmem.vault.private import is_private
from vaultmem.vault.screen import Screen, screened


@pytest.mark.parametrize(
    "yaml",
    [
        "{private: true}",
        '{"private": true, "a": 1}',
        "private:\n  true",
        " private: true",
        "private: &a true",
        "a: &a true\nprivate: *a",
        "private: !!bool true",
        "? private\n: true",
    ],
)
def test_a_note_whose_properties_say_that_it_is_private_is_kept_out(yaml: str) -> None:
    text = f"---\n{yaml}\n---\nsecret\n"
    said = str(read_frontmatter("n.md", text)[0].properties["private"])
    assert said.strip().lower() == "true"

    assert is_private(text, "private")
    assert screened("n.md", text, Screen()).text == ""


@pytest.mark.parametrize(
    "yaml", ["private: false", "a: private", "b: {private: true}", "privates: 1"]
)
def test_a_note_that_only_holds_the_word_is_not(yaml: str) -> None:
    assert not is_private(f"---\n{yaml}\n---\ntext\n", "private")


def test_a_blank_in_a_tag_leaves_it_a_tag() -> None:
    found = screened("n.md", "a <private >b</private\t> c", Screen())

    assert found.text == "a [private] c"
