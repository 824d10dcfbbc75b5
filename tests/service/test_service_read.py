"""read: the text that stands in the file now, by path, name, alias and place."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from vaultmem.model.errors import NoteAmbiguous, NoteNotFound, Refused, UsageError, VaultmemError
from vaultmem.service.application import Memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.read import ReadReply, ReadRequest, read

Open = Callable[..., Memory]

# Names that some file systems refuse; Windows allows none of them.
REFUSED_ELSEWHERE = {
    "Area 51/x#y?z.md": "zeta",
    'names/it\'s "quoted"; DROP TABLE files;--.md': "eta",
    "names/[a-z]*.md": "theta",
}
REPORT_11 = {
    "Area 51/50% plan.md": "gamma",
    "Area 51/Test Note.md": "alpha",
    "Area 51/Café.md": "beta",
    "Area 51/a%20b.md": "delta",
    "Area 51/a b.md": "epsilon",
} | ({} if os.name == "nt" else REFUSED_ELSEWHERE)

KILN = """---
title: The Kiln
aliases: [Oven, Der Ofen]
tags: [pottery]
---
Opening words. ^start

# Use

Daily.

## Firing

Fire it to 1200, see [[glaze]].

# Care

- brush it
- cover it ^cover
"""


@pytest.fixture
def shed(indexed: Open) -> Memory:
    return indexed(
        {
            "shed/Kiln.md": KILN,
            "glaze.md": "For the [[Kiln]]\nand [[Kiln#Use|again]] here.",
            "one/log.md": "first",
            "two/log.md": "second",
            "unique/deep/file name.md": "deep",
            "empty.md": "",
        }
    )


def text(memory: Memory, note: str) -> str:
    return read(memory, ReadRequest(note)).text


def test_a_note_comes_whole_with_what_belongs_to_it(shed: Memory) -> None:
    reply = read(shed, ReadRequest("shed/Kiln.md"))
    assert reply.text == KILN
    assert (reply.path, reply.title, reply.subpath) == ("shed/Kiln.md", "The Kiln", "")
    assert reply.lines == (1, 19)
    assert reply.frontmatter["aliases"] == ["Oven", "Der Ofen"]
    assert (reply.tags, reply.aliases) == (("pottery",), ("Oven", "Der Ofen"))
    assert [(link.link, link.resolved, link.line) for link in reply.links] == [
        ("glaze", "glaze.md", 14)
    ]
    assert [(b.path, b.line, b.text) for b in reply.backlinks] == [
        ("glaze.md", 1, "For the [[Kiln]]"),
        ("glaze.md", 2, "and [[Kiln#Use|again]] here."),
    ]
    assert (reply.truncated, reply.degraded) == (False, ())


@pytest.mark.parametrize(
    "name",
    [
        "shed/Kiln.md", "shed/Kiln", "Kiln", "kiln", "KILN.md", "Kiln.md", "Shed/kiln", "Oven",
        "oven", "der ofen", "/shed/Kiln.md", "shed\\Kiln.md", "shed//Kiln.md",
    ],
)  # fmt: skip
def test_a_note_is_named_by_path_name_or_alias(name: str, shed: Memory) -> None:
    assert read(shed, ReadRequest(name)).path == "shed/Kiln.md"


@pytest.mark.parametrize("name", ["deep/file name", "file name.md", "unique/deep/file name"])
def test_the_end_of_a_path_names_a_note(name: str, shed: Memory) -> None:
    assert text(shed, name) == "deep"


@pytest.mark.parametrize(
    ("subpath", "lines", "expected"),
    [
        ("#Use", (8, 15), "# Use\n\nDaily.\n\n## Firing\n\nFire it to 1200, see [[glaze]].\n"),
        ("#use#firing", (12, 15), "## Firing\n\nFire it to 1200, see [[glaze]].\n"),
        ("#Firing", (12, 15), "## Firing\n\nFire it to 1200, see [[glaze]].\n"),
        ("#Care", (16, 19), "# Care\n\n- brush it\n- cover it ^cover\n"),
        ("#^cover", (19, 19), "- cover it ^cover"),
        ("#^START", (6, 6), "Opening words. ^start"),
    ],
)
def test_a_section_or_a_block_is_read_alone(
    subpath: str, lines: tuple[int, int], expected: str, shed: Memory
) -> None:
    reply = read(shed, ReadRequest("Kiln" + subpath))
    assert reply.text.rstrip("\n") == expected.rstrip("\n")
    assert reply.subpath == subpath
    source = KILN.split("\n")
    assert reply.text.split("\n")[0] == source[reply.lines[0] - 1]
    assert reply.lines[0] == lines[0]
    shown = "\n".join(source[reply.lines[0] - 1 : reply.lines[1]])
    assert shown == reply.text.rstrip("\n")


@pytest.mark.parametrize("subpath", ["#Nowhere", "#Firing#Use", "#^nothing"])
def test_a_place_that_is_not_there_names_those_that_are(subpath: str, shed: Memory) -> None:
    with pytest.raises(NoteNotFound) as caught:
        read(shed, ReadRequest("Kiln" + subpath))
    for place in ("Use", "Firing", "Care", "^start", "^cover"):
        assert place in str(caught.value)


def test_a_note_without_places_says_so(shed: Memory) -> None:
    with pytest.raises(NoteNotFound, match="no headings"):
        read(shed, ReadRequest("empty#Use"))


def test_a_name_that_several_notes_have_is_never_guessed(shed: Memory) -> None:
    with pytest.raises(NoteAmbiguous) as caught:
        read(shed, ReadRequest("log"))
    assert "one/log.md" in str(caught.value)
    assert "two/log.md" in str(caught.value)
    assert text(shed, "two/log") == "second"


def test_an_alias_that_several_notes_have_is_never_guessed(indexed: Open) -> None:
    same = "---\naliases: [same]\n---\n"
    memory = indexed({"a.md": same, "b.md": same})
    with pytest.raises(NoteAmbiguous):
        read(memory, ReadRequest("same"))


def test_a_file_name_comes_before_an_alias(indexed: Open) -> None:
    memory = indexed({"a.md": "---\naliases: [b]\n---\n", "b.md": "the real one"})
    assert text(memory, "b") == "the real one"


def test_an_unknown_name_is_answered_with_what_is_near(shed: Memory) -> None:
    with pytest.raises(NoteNotFound, match=r"shed/Kiln\.md"):
        read(shed, ReadRequest("Kilm"))


@pytest.mark.parametrize(
    "path",
    [
        "../x", "../x.md", "a/../../x.md", "..", "..\\x.md", "shed/../glaze.md", "a/..", "~/x.md",
        ".obsidian/app.json", "shed/.hidden.md", ".git/config", "a\0.md", "\0",
    ],
)  # fmt: skip
def test_a_path_out_of_the_vault_or_into_hiding_is_refused(path: str, shed: Memory) -> None:
    with pytest.raises(Refused):
        read(shed, ReadRequest(path))


@pytest.mark.parametrize(
    "path",
    [
        "/etc/hostname", "C:\\Windows\\win.ini", "\\\\127.0.0.1\\share\\x.md", "file:///etc/hostname",
        "%2e%2e/x.md", "..%2Fx.md", "", " ", ".", "/", "#", "#Use", "CON", "nul.md", "x" * 5_000,
        "a\nb.md", "note.md::$DATA", "glaze.md/", "....//x.md", "\u2025/x", "\ud800", "shed",
    ],
    ids=ascii,
)  # fmt: skip
def test_whatever_else_is_asked_for_is_answered_or_refused_by_name(path: str, shed: Memory) -> None:
    try:
        answer = read(shed, ReadRequest(path)).path
    except VaultmemError as error:
        answer = str(error)
    assert answer == "glaze.md" or " " in answer


@pytest.mark.parametrize(
    "name",
    [
        "names/dot..md", "names/100% _under_ like.md", "names/🧠 memory 🧠.md", "names/~root.md",
        "~root.md", "a#b.md", "$HOME.md", "-rf.md", "x.MD",
    ],
)  # fmt: skip
def test_an_odd_name_is_read_as_it_is(name: str, indexed: Open) -> None:
    memory = indexed({name: "odd", "other.md": "ordinary"})
    assert text(memory, name) == "odd"


def test_a_link_out_of_the_vault_is_not_followed(indexed: Open, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "in.md").write_text("secret")
    memory = indexed({"a.md": "kiln", "real/b.md": "clay"})
    os.symlink(tmp_path / "secret.md", memory.vault / "link.md")
    os.symlink(tmp_path / "outside", memory.vault / "folder")
    for path in ("link.md", "folder/in.md"):
        with pytest.raises(Refused):
            read(memory, ReadRequest(path))


def test_a_note_replaced_by_a_link_is_not_followed(open_vault: Open, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    memory = open_vault(
        {"a.md": "kiln", "d/b.md": "clay"}, environment={"VAULTMEM_SEARCH_REFRESH": "never"}
    )
    index(memory, IndexRequest())
    (memory.vault / "a.md").unlink()
    os.symlink(tmp_path / "secret.md", memory.vault / "a.md")
    with pytest.raises(NoteNotFound):
        read(memory, ReadRequest("a.md"))


@pytest.mark.parametrize(("path", "word"), REPORT_11.items(), ids=ascii)
def test_report_11_a_literal_path_is_taken_literally(path: str, word: str, indexed: Open) -> None:
    memory = indexed(REPORT_11)
    assert text(memory, path) == word
    assert text(memory, path.removesuffix(".md")) == word
    assert text(memory, path.rpartition("/")[2]) == word


@pytest.mark.parametrize(
    ("path", "word"), [("Area 51/Cafe\u0301.md", "beta"), ("a%20b", "delta"), ("a b", "epsilon")]
)
def test_report_11_spellings_of_one_name_are_one_and_two_names_are_two(
    path: str, word: str, indexed: Open
) -> None:
    assert text(indexed(REPORT_11), path) == word


@pytest.mark.parametrize("path", ["Area 51/Test%20Note.md", "Area%2051/Test Note.md", "50%25 plan"])
def test_report_11_a_path_is_never_decoded(path: str, indexed: Open) -> None:
    with pytest.raises(NoteNotFound):
        read(indexed(REPORT_11), ReadRequest(path))


def test_a_long_note_is_cut_at_a_line_end_and_said_to_be(shed: Memory) -> None:
    reply = read(shed, ReadRequest("Kiln", max_tokens=1))
    assert reply.truncated
    assert KILN.startswith(reply.text)
    assert reply.text.endswith("\n")
    assert reply.lines == (1, reply.text.count("\n"))
    assert not read(shed, ReadRequest("Kiln", max_tokens=6000)).truncated


def test_a_long_line_is_cut_in_the_middle(indexed: Open) -> None:
    reply: ReadReply = read(indexed({"a.md": "x" * 100}), ReadRequest("a", max_tokens=1))
    assert (reply.text, reply.truncated) == ("x" * len(reply.text), True)
    assert 0 < len(reply.text) < 100


@pytest.mark.parametrize("number", [0, -1, -100])
def test_a_number_of_tokens_that_is_none_is_named(number: int, shed: Memory) -> None:
    with pytest.raises(UsageError):
        read(shed, ReadRequest("Kiln", max_tokens=number))


def test_the_text_is_that_of_the_file_now(shed: Memory) -> None:
    (shed.vault / "glaze.md").write_text("Changed just now.")
    assert text(shed, "glaze") == "Changed just now."
    (shed.vault / "brand new.md").write_text("not indexed yet")
    assert text(shed, "brand new") == "not indexed yet"


def test_a_note_that_is_gone_is_named(indexed: Open) -> None:
    memory = indexed(
        {"a.md": "kiln", "b.md": "x"}, environment={"VAULTMEM_SEARCH_REFRESH": "never"}
    )
    (memory.vault / "a.md").unlink()
    with pytest.raises(NoteNotFound, match=r"a\.md was indexed"):
        read(memory, ReadRequest("a"))


def test_line_ends_and_marks_of_the_file_do_not_show(indexed: Open) -> None:
    memory = indexed({"a.md": b"\xef\xbb\xbf# One\r\n\r\ntext\r\n", "b.md": "# T\n\n\n# U\n"})
    assert text(memory, "a") == "# One\n\ntext\n"
    assert read(memory, ReadRequest("b#T")).lines[0] == 1


def test_frontmatter_is_plain_data(indexed: Open) -> None:
    memory = indexed({"a.md": "---\nwhen: 2026-05-03\nn: .nan\nlist: [1, {a: no}]\n---\n"})
    properties = read(memory, ReadRequest("a")).frontmatter
    assert properties == {"when": "2026-05-03", "n": ".nan", "list": [1, {"a": "no"}]}
    assert json.dumps(properties, allow_nan=False)


@pytest.mark.parametrize(
    "given",
    [
        "[[Kiln]]",
        "[[kiln|the kiln]]",
        "![[Kiln]]",
        " [[Kiln]] ",
        "[[Kiln#Firing]]",
        "[[Kiln]]#Firing",
    ],
)
def test_a_link_as_it_stands_in_a_note_names_its_note(given: str, indexed: Open) -> None:
    memory = indexed({"Kiln.md": "# Kiln\n\n## Firing\n\nslowly\n"})
    if given == "[[Kiln]]#Firing":
        with pytest.raises(NoteNotFound):
            read(memory, ReadRequest(given))
        return
    reply = read(memory, ReadRequest(given))
    assert reply.path == "Kiln.md"
    assert "slowly" in reply.text


def test_a_note_whose_name_looks_like_a_link_comes_first(indexed: Open) -> None:
    memory = indexed({"[[a]].md": "odd", "a.md": "plain"})
    assert text(memory, "[[a]].md") == "odd"
    assert text(memory, "a") == "plain"
