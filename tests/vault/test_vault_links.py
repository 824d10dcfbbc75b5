"""Which file a link means: Obsidian's rule, case by case."""

import unicodedata

import pytest

from vaultmem.vault.links import VaultNames, affected_keys, link_key


def resolve(target: str, files: list[str], source: str = "src.md") -> str | None:
    return VaultNames([*files, source]).resolve(target, source)


@pytest.mark.parametrize(
    ("target", "files", "path"),
    [
        # The last part of the text is a file's name, with or without `.md`.
        ("Alpha", ["Alpha.md"], "Alpha.md"),
        ("Alpha.md", ["Alpha.md"], "Alpha.md"),
        ("alpha", ["Alpha.md"], "Alpha.md"),
        ("ALPHA.MD", ["Alpha.md"], "Alpha.md"),
        ("Ext.MD", ["Ext.md"], "Ext.md"),
        ("Ext", ["Ext.MD"], "Ext.MD"),
        ("Alpha", ["deep/er/Alpha.md"], "deep/er/Alpha.md"),
        ("Note.1", ["Note.1.md"], "Note.1.md"),
        ("Note.1", ["Note.1.md", "Note.1"], "Note.1"),
        ("Fig.png", ["img/Fig.png"], "img/Fig.png"),
        ("Fig", ["Fig.png"], None),
        ("Fig.PNG", ["Fig.png"], "Fig.png"),
        ("board.canvas", ["board.canvas"], "board.canvas"),
        ("Missing", ["Alpha.md"], None),
        ("lph", ["Alpha.md"], None),
        ("folder", ["folder/a.md"], None),
        ("folder", ["folder/folder.md"], "folder/folder.md"),
        ("Étude", ["étude.md"], "étude.md"),
        ("e\u0301tude", ["étude.md"], "étude.md"),
        ("a\u00a0b", ["a b.md"], "a b.md"),
        ("ΣΑΣ", ["ΣΑΣ.md"], "ΣΑΣ.md"),
        # A folder in the text narrows the choice.
        ("b/Note", ["a/Note.md", "b/Note.md"], "b/Note.md"),
        ("b/Note", ["a/Note.md"], None),
        ("b/Note", ["a/b/Note.md"], "a/b/Note.md"),
        ("B/note", ["a/b/Note.md"], "a/b/Note.md"),
        ("b\\Note", ["a/b/Note.md"], "a/b/Note.md"),
        ("b//Note", ["a/b/Note.md"], "a/b/Note.md"),
        ("B/fig.PNG", ["a/b/Fig.png", "Fig.png"], "a/b/Fig.png"),
        # An exact path wins.
        ("Note", ["Note.md", "a/Note.md"], "Note.md"),
        ("a/Note", ["x/a/Note.md", "a/Note.md"], "a/Note.md"),
        ("/Note", ["Note.md", "a/Note.md"], "Note.md"),
        ("/a/Note", ["a/Note.md"], "a/Note.md"),
        ("/Note", ["a/Note.md"], None),
        # Else the shortest path as a string.
        ("Note", ["aa/bb/Note.md", "aaaaaaaaaaaa/Note.md"], "aa/bb/Note.md"),
        ("Note", ["bb/Note.md", "a/Note.md"], "a/Note.md"),
        # No target, no file.
        ("", [], "src.md"),
        ("/", ["a.md"], None),
        (".", ["a.md"], None),
        ("..", ["a.md"], None),
    ],
)
def test_a_link_from_the_root(target: str, files: list[str], path: str | None) -> None:
    assert resolve(target, files) == path
    assert resolve(target, files[::-1]) == path


@pytest.mark.parametrize(
    ("target", "files", "path"),
    [
        ("Note", ["Note.md", "a/b/Note.md"], "Note.md"),
        ("Note", ["z/Note.md", "a/b/Note.md"], "a/b/Note.md"),
        ("Note", ["z/Note.md", "a/b/c/d/Note.md"], "a/b/c/d/Note.md"),
        ("Note", ["a/Note.md", "z/Note.md"], "a/Note.md"),
        ("Note", ["a/long/Note.md", "z/Note.md"], "z/Note.md"),
        ("./Note", ["a/b/Note.md", "Note.md"], "a/b/Note.md"),
        ("./Note", ["Note.md"], None),
        ("../Note", ["a/Note.md", "a/b/Note.md"], "a/Note.md"),
        ("../c/Note", ["a/c/Note.md", "c/Note.md"], "a/c/Note.md"),
        ("../../Note", ["Note.md"], "Note.md"),
        ("../../../Note", ["Note.md"], None),
        ("./c/../Note", ["a/b/Note.md"], "a/b/Note.md"),
        ("../Fig.png", ["a/Fig.png"], "a/Fig.png"),
        ("b/Note", ["b/Note.md", "a/b/Note.md"], "b/Note.md"),
        ("", [], "a/b/src.md"),
    ],
)
def test_a_link_from_a_folder(target: str, files: list[str], path: str | None) -> None:
    assert resolve(target, files, "a/b/src.md") == path


def test_the_own_folder_is_known_in_any_case() -> None:
    assert resolve("Note", ["AA/Note.md", "b/Note.md"], "aa/src.md") == "AA/Note.md"


def test_an_alias_never_resolves_a_link() -> None:
    """The resolver is given file names and nothing else."""
    assert resolve("Nick", ["Nicholas.md"]) is None


def test_an_empty_vault_resolves_nothing_but_the_source() -> None:
    names = VaultNames([])

    assert names.resolve("A", "src.md") is None
    assert names.resolve("", "src.md") == "src.md"


@pytest.mark.parametrize(
    "target",
    ["Alpha", "alpha.MD", "dir/Alpha", "/x/Alpha.md", "../Alpha", "dir\\Alpha", "./Alpha"],
)
def test_a_link_depends_on_the_files_that_bear_its_name(target: str) -> None:
    assert link_key(target) in affected_keys("anywhere/Alpha.md")
    assert link_key(target) not in affected_keys("Alpha/Beta.md")


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("Fig.png", "img/Fig.png"),
        ("Note.1", "a/Note.1.md"),
        ("Note.1", "Note.1"),
        ("é", unicodedata.normalize("NFC", "a/É.md")),
        ("e\u0301", "é.md"),
        ("a\u00a0b", "a b.md"),
        ("ΣΑΣ", "a/ΣΑΣ.md"),
        ("ΣΑΣ.md", "ΣΑΣ.md"),
        ("ΟΔΟΣ", "οδοσ.md"),
        ("ΟΔΟΣ", "b/ΟΔΟΣ.md"),
    ],
)
def test_a_file_that_comes_or_goes_is_known_to_affect_the_links_that_could_lead_to_it(
    target: str, path: str
) -> None:
    assert VaultNames([path]).resolve(target, "src.md") == path
    assert link_key(target) in affected_keys(path)


def test_a_file_that_is_no_note_affects_no_link_without_its_ending() -> None:
    assert affected_keys("img/Fig.png") == ("fig.png",)


def test_names_are_looked_up_in_a_large_vault_without_walking_it() -> None:
    names = VaultNames(f"folder {n % 100}/Note {n}.md" for n in range(20_000))

    assert names.candidates("Note 19999") == ["folder 99/Note 19999.md"]
    assert names.candidates("x/NOTE 7.md") == ["folder 7/Note 7.md"]
    assert names.candidates("Note") == []
