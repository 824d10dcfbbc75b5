"""How a path is spelled inside the program, whatever the disk, a person or a link makes of it."""

import unicodedata

import pytest

from vaultmem.vault.paths import fold, is_hidden, is_note, name_from_disk, vault_path


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("a/b.md", "a/b.md"),
        ("/a/b.md", "a/b.md"),
        ("a//b///c.md", "a/b/c.md"),
        ("a\\b\\c.md", "a/b/c.md"),
        ("a/b/", "a/b"),
        ("a\u00a0b\u202fc.md", "a b c.md"),
        (unicodedata.normalize("NFD", "Ünal/é.md"), "Ünal/é.md"),
        ("", ""),
        ("//", ""),
        ("./a.md", "./a.md"),
        ("../a.md", "../a.md"),
    ],
)
def test_a_vault_path_is_composed_and_has_single_slashes(given: str, path: str) -> None:
    assert vault_path(given) == path
    assert vault_path(path) == path


def test_a_backslash_on_disk_is_part_of_the_name() -> None:
    assert name_from_disk("a\\b.md") == "a\\b.md"


def test_a_name_from_disk_is_composed_with_plain_spaces() -> None:
    assert name_from_disk(unicodedata.normalize("NFD", "é\u00a0.md")) == "é .md"


@pytest.mark.parametrize("name", ["a.md", "N.MD", "n2.Md", "two.parts.md", " .md"])
def test_markdown_files_are_notes_in_any_case(name: str) -> None:
    assert is_note(name)


@pytest.mark.parametrize("name", [".md", "md", "a.mdx", "a.markdown", "a.md.txt", "amd", ""])
def test_other_files_are_no_notes(name: str) -> None:
    assert not is_note(name)


@pytest.mark.parametrize("path", [".a.md", ".obsidian/app.json", "a/.b/c.md", "a/.b"])
def test_a_part_that_begins_with_a_dot_hides_a_path(path: str) -> None:
    assert is_hidden(path)


@pytest.mark.parametrize("path", ["a.md", "a/b.c/d.md", "a./b"])
def test_a_dot_elsewhere_hides_nothing(path: str) -> None:
    assert not is_hidden(path)


def test_folding_forgets_case_and_composition() -> None:
    assert fold(unicodedata.normalize("NFD", "ÉTÉ")) == fold("été") == "été"
    assert fold("a") != fold("b")


@pytest.mark.parametrize(
    ("capital", "small"), [("J\u030c", "\u01f0"), ("T\u0308", "\u1e97"), ("\u03aa\u0301", "\u0390")]
)
def test_a_capital_of_two_characters_folds_to_its_small_letter_of_one(
    capital: str, small: str
) -> None:
    assert unicodedata.normalize("NFC", capital) == capital
    assert fold(capital) == fold(small) == fold(fold(capital))
