"""Links as vaultmem writes them: Obsidian's own text, and always one that leads back."""

import re
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vaultmem.model.note import Link
from vaultmem.vault.inline import find_links
from vaultmem.vault.links import VaultNames
from vaultmem.vault.linktext import (
    free_path,
    heading_for_link,
    link_text,
    markdown_link_text,
    wikilink_text,
)
from vaultmem.vault.obsidian import LinkFormat
from vaultmem.vault.parse import parse
from vaultmem.vault.paths import fold, is_note
from vaultmem.vault.subpath import comparable_heading, find_place

FORMATS = list(LinkFormat)


def only_link(text: str) -> Link:
    """The one link of a note that says `text`."""
    (link,) = parse("src.md", text.encode()).links
    return link


@pytest.mark.parametrize(
    ("target", "others", "source", "shortest", "absolute", "relative"),
    [
        # A name that only one file bears.
        ("Note.md", [], "src.md", "Note", "Note", "Note"),
        ("a/Note.md", [], "src.md", "Note", "a/Note", "a/Note"),
        ("a/x/Note.md", [], "a/src.md", "Note", "a/x/Note", "x/Note"),
        ("a/Note.md", [], "a/b/src.md", "Note", "a/Note", "../Note"),
        ("c/Note.md", [], "a/b/src.md", "Note", "c/Note", "../../c/Note"),
        ("Note.md", [], "a/b/src.md", "Note", "Note", "../../Note"),
        ("a/Note.md", [], "a/src.md", "Note", "a/Note", "Note"),
        ("ab/Note.md", [], "a/src.md", "Note", "ab/Note", "../ab/Note"),
        # `.md` of any case goes, any other ending stays.
        ("a/N.MD", [], "src.md", "N", "a/N", "a/N"),
        ("img/p.png", [], "src.md", "p.png", "img/p.png", "img/p.png"),
        ("x/b.canvas", [], "x/src.md", "b.canvas", "x/b.canvas", "b.canvas"),
        ("Note.1.md", [], "src.md", "Note.1", "Note.1", "Note.1"),
        ("a/d.excalidraw.md", [], "src.md", "d.excalidraw", "a/d.excalidraw", "a/d.excalidraw"),
        # A twin anywhere asks for the whole path.
        ("a/Note.md", ["b/Note.md"], "src.md", "a/Note", "a/Note", "a/Note"),
        ("a/Note.md", ["b/Note.md"], "a/src.md", "a/Note", "a/Note", "Note"),
        ("a/Note.md", ["b/note.md"], "src.md", "a/Note", "a/Note", "a/Note"),
        ("a/p.png", ["b/p.png"], "src.md", "a/p.png", "a/p.png", "a/p.png"),
        ("Note.md", ["a/Note.md"], "a/src.md", "Note", "Note", "../Note"),
        # A picture is no twin of a note.
        ("a/Fig.md", ["Fig.png"], "src.md", "Fig", "a/Fig", "a/Fig"),
        # Where Obsidian's text would lead elsewhere, the next one that does not.
        ("Note.1.md", ["Note.1"], "src.md", "Note.1.md", "Note.1.md", "Note.1.md"),
        ("a/Note.1.md", ["b/Note.1"], "src.md", "a/Note.1.md", "a/Note.1.md", "a/Note.1.md"),
        ("a/Note.1.md", ["Note.1"], "a/src.md", "a/Note.1.md", "a/Note.1.md", "Note.1.md"),
        ("a/Note.md", ["Note.md"], "a/src.md", "a/Note", "a/Note", "./Note"),
        ("a/x/N.md", ["x/N.md"], "a/src.md", "a/x/N", "a/x/N", "./x/N"),
        ("a/N.1.md", ["N.1", "N.1.md"], "a/src.md", "a/N.1.md", "a/N.1.md", "./N.1.md"),
        ("a/b.md", ["a/b.md.md"], "src.md", "b", "a/b", "a/b"),
        ("a/b.md.md", ["a/b.md"], "src.md", "a/b.md.md", "a/b.md.md", "a/b.md.md"),
        # A wikilink is read without the blanks at its ends.
        (" Note.md", ["Note.md"], "src.md", "/ Note", "/ Note", "./ Note"),
        ("Note .md", ["Note.md"], "src.md", "Note .md", "Note .md", "Note .md"),
        ("a/ Note.md", [], "src.md", "a/ Note", "a/ Note", "a/ Note"),
    ],
)
def test_a_file_is_called_as_obsidian_calls_it_or_longer(
    target: str, others: list[str], source: str, shortest: str, absolute: str, relative: str
) -> None:
    names = VaultNames([target, *others, source])

    assert link_text(names, target, source, "shortest") == shortest
    assert link_text(names, target, source, LinkFormat.ABSOLUTE) == absolute
    assert link_text(names, target, source, "relative") == relative
    assert names.resolve(shortest, source) == target
    assert names.resolve(absolute, source) == target
    assert names.resolve(relative, source) == target


def test_what_no_link_can_reach_is_called_by_its_path() -> None:
    names = VaultNames(["a/Note.md", "a/note.md", "LICENSE"])

    assert link_text(names, "a/note.md", "src.md", "shortest") == "a/note.md"
    assert link_text(names, "a/Note.md", "src.md", "shortest") == "a/Note"
    assert link_text(names, "LICENSE", "src.md", "relative") == "LICENSE"


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="longest"):
        link_text(VaultNames(["a.md"]), "a.md", "src.md", "longest")


VAULT = VaultNames(
    [
        "Note.md",
        "dir/Deep.md",
        "dir/Twin.md",
        "Twin.md",
        "img/p.png",
        "C# for all.md",
        "either|or.md",
        "a`b`c.md",
        "50%%.md",
        "x].md",
        "[x.md",
        "a[[b]].md",
        "new\nline.md",
        "src.md",
    ]
)


@pytest.mark.parametrize(
    ("target", "options", "written"),
    [
        ("Note.md", {}, "[[Note]]"),
        ("dir/Deep.md", {}, "[[Deep]]"),
        ("dir/Twin.md", {}, "[[dir/Twin]]"),
        ("img/p.png", {"embed": True}, "![[p.png]]"),
        ("img/p.png", {"embed": True, "display": "120x90"}, "![[p.png|120x90]]"),
        ("Note.md", {"display": "that"}, "[[Note|that]]"),
        ("Note.md", {"subpath": "#A b"}, "[[Note#A b]]"),
        ("Note.md", {"subpath": "A b"}, "[[Note#A b]]"),
        ("Note.md", {"subpath": "#A#B", "display": "that"}, "[[Note#A#B|that]]"),
        ("Note.md", {"subpath": "#^id"}, "[[Note#^id]]"),
        ("Note.md", {"subpath": "#"}, "[[Note]]"),
        # What is shown anyway needs no display.
        ("Note.md", {"display": "Note"}, "[[Note]]"),
        ("Note.md", {"display": "note"}, "[[Note|note]]"),
        ("Note.md", {"display": ""}, "[[Note]]"),
        ("Note.md", {"display": "  "}, "[[Note]]"),
        ("dir/Twin.md", {"display": "Twin"}, "[[dir/Twin|Twin]]"),
        ("dir/Twin.md", {"display": "dir/Twin"}, "[[dir/Twin]]"),
        ("Note.md", {"subpath": "#A#B", "display": "Note > A > B"}, "[[Note#A#B]]"),
        # A place of the note itself.
        ("src.md", {"subpath": "#A"}, "[[#A]]"),
        ("src.md", {"subpath": "#A", "display": "A"}, "[[#A]]"),
        ("src.md", {"subpath": "#^id", "embed": True}, "![[#^id]]"),
        ("src.md", {}, "[[src]]"),
        # In a table the bar is escaped.
        ("Note.md", {"display": "that", "in_table": True}, r"[[Note\|that]]"),
        ("Note.md", {"display": "a|b", "in_table": True}, r"[[Note\|a\|b]]"),
        ("Note.md", {"display": r"a\|b", "in_table": True}, r"[[Note\|a\|b]]"),
        ("Note.md", {"display": "a|b"}, "[[Note|a|b]]"),
        ("Note.md", {"in_table": True}, "[[Note]]"),
        # A display that would end the link, or hide it, is made harmless.
        ("Note.md", {"display": "a]]b"}, "[[Note|a] ]b]]"),
        ("Note.md", {"display": "a [[b]] c"}, "[[Note|a [ [b] ] c]]"),
        ("Note.md", {"display": "a[0]"}, "[[Note|a[0] ]]"),
        ("Note.md", {"display": "]]]]"}, "[[Note|] ] ] ] ]]"),
        ("Note.md", {"display": "one\ntwo\r\n\n three"}, "[[Note|one two three]]"),
        ("Note.md", {"display": "the `code` and ``"}, "[[Note|the 'code' and '']]"),
        ("Note.md", {"display": "50%% off %%%"}, "[[Note|50% % off % % %]]"),
        # So is a heading that ends with a bracket, and a footnote.
        ("Note.md", {"subpath": "#a[0]"}, "[[Note#a 0]]"),
        ("Note.md", {"subpath": "#a[0] b"}, "[[Note#a[0] b]]"),
        ("Note.md", {"subpath": "#a|b"}, "[[Note#a b]]"),
        ("Note.md", {"subpath": "#`x` 5%%"}, "[[Note#x 5]]"),
        ("Note.md", {"subpath": "#[^1]", "display": "that"}, "[[Note#[^1]|that]]"),
        ("Note.md", {"subpath": "#[^1]"}, "[[Note#[^1]]]"),
        # A name that no wikilink can hold is linked to in Markdown.
        ("C# for all.md", {}, "[C# for all](C%23%20for%20all.md)"),
        ("C# for all.md", {"subpath": "#A", "display": "x"}, "[x](C%23%20for%20all.md#A)"),
        ("either|or.md", {}, "[either|or](either%7Cor.md)"),
        ("either|or.md", {"in_table": True}, r"[either\|or](either%7Cor.md)"),
        ("either|or.md", {"embed": True}, "![](either%7Cor.md)"),
        ("a`b`c.md", {}, r"[a\`b\`c](a%60b%60c.md)"),
        ("50%%.md", {}, "[50% %](50%25%25.md)"),
        ("a[[b]].md", {}, r"[a\[\[b\]\]](a%5B[b]%5D.md)"),
        ("new\nline.md", {}, "[new line](new%0Aline.md)"),
        # Or takes a longer text, as long as there is one.
        ("x].md", {}, "[[x]|x] ]]"),
        ("[x.md", {}, "[[/[x]]"),
    ],
)
def test_a_wikilink_is_written_whole(
    target: str, options: dict[str, str | bool], written: str
) -> None:
    assert wikilink_text(VAULT, target, "src.md", "shortest", **options) == written  # type: ignore[arg-type]

    link = only_link(f"see {written} there")
    assert VAULT.resolve(link.target, "src.md") == target
    assert link.embed == bool(options.get("embed"))


def test_a_wikilink_takes_the_format_asked_for() -> None:
    names = VaultNames(["a/Note.md", "a/b/src.md"])

    def written(link_format: str) -> str:
        return wikilink_text(names, "a/Note.md", "a/b/src.md", link_format)

    assert [written(form) for form in FORMATS] == ["[[Note]]", "[[../Note]]", "[[a/Note]]"]


def test_a_wikilink_in_a_table_keeps_its_cell() -> None:
    written = wikilink_text(VAULT, "Note.md", "src.md", "shortest", display="a|b", in_table=True)
    text = f"| one | two |\n|---|---|\n| {written} | x |\n"
    row = text.split("\n")[2]

    assert len(re.findall(r"(?<!\\)\|", row)) == 3
    assert only_link(text).target == "Note"


@pytest.mark.parametrize(
    ("target", "options", "written"),
    [
        ("Note.md", {"display": "w"}, "[w](Note.md)"),
        ("a/Note.md", {"display": "w"}, "[w](a/Note.md)"),
        ("Note.md", {}, "[Note](Note.md)"),
        ("a/Note.md", {}, "[Note](a/Note.md)"),
        ("p.png", {"embed": True}, "![](p.png)"),
        ("p.png", {"embed": True, "display": "100"}, "![100](p.png)"),
        ("Note.md", {"display": "w", "subpath": "#A b#C (d)"}, "[w](Note.md#A%20b#C%20(d))"),
        ("Note.md", {"subpath": "#A#B"}, "[Note > A > B](Note.md#A#B)"),
        ("Note.md", {"display": "w", "subpath": "#^id"}, "[w](Note.md#^id)"),
        ("Note.md", {"display": "w", "subpath": "#[^1]"}, "[w](Note.md#[^1])"),
        ("src.md", {"display": "w", "subpath": "#A"}, "[w](#A)"),
        ("src.md", {"subpath": "#A"}, "[A](#A)"),
        # In the path only what needs it is encoded.
        ("Odd! (one).md", {"display": "w"}, "[w](Odd!%20(one).md)"),
        ("a (b.md", {"display": "w"}, "[w](a%20%28b.md)"),
        ("a) b.md", {"display": "w"}, "[w](a%29%20b.md)"),
        ("f(g(x)).md", {"display": "w"}, "[w](f%28g(x)%29.md)"),
        (")(.md", {"display": "w"}, "[w](%29%28.md)"),
        ("100%.md", {"display": "w"}, "[w](100%25.md)"),
        ("a%20b.md", {"display": "w"}, "[w](a%2520b.md)"),
        ("a#b.md", {"display": "w"}, "[w](a%23b.md)"),
        ("why?.md", {"display": "w"}, "[w](why?.md)"),
        ("a&b.md", {"display": "w"}, "[w](a&b.md)"),
        ("a&amp;b.md", {"display": "w"}, "[w](a%26amp;b.md)"),
        ("<a>.md", {"display": "w"}, "[w](%3Ca%3E.md)"),
        ("http: yes.md", {"display": "w"}, "[w](http%3A%20yes.md)"),
        ("a\tb\x7f.md", {"display": "w"}, "[w](a%09b%7F.md)"),
        ("été\u3000夏.md", {"display": "w"}, "[w](été%E3%80%80夏.md)"),
        ("[draft] x.md", {"display": "w"}, "[w]([draft]%20x.md)"),
        ("[[x]].md", {"display": "w"}, "[w](%5B[x]%5D.md)"),
        ("x].md", {"display": "w"}, "[w](x%5D.md)"),
        ("a`b|c.md", {"display": "w"}, "[w](a%60b%7Cc.md)"),
        ("\"a\" 'b'.md", {"display": "w"}, "[w](\"a\"%20'b'.md)"),
        # Brackets of the display are escaped, once.
        ("Note.md", {"display": "a [b] c"}, r"[a \[b\] c](Note.md)"),
        ("Note.md", {"display": "[[b]]"}, r"[\[\[b\]\]](Note.md)"),
        ("Note.md", {"display": r"a \[b\]"}, r"[a \[b\]](Note.md)"),
        ("Note.md", {"display": "a\\"}, r"[a\\](Note.md)"),
        ("Note.md", {"display": r"a\\"}, r"[a\\](Note.md)"),
        ("Note.md", {"display": r"C:\dir"}, r"[C:\dir](Note.md)"),
        ("Note.md", {"display": "](x)"}, r"[\](x)](Note.md)"),
        ("Note.md", {"display": "List<T> `x`"}, r"[List\<T> \`x\`](Note.md)"),
        ("Note.md", {"display": "a\n\nb"}, "[a b](Note.md)"),
        ("Note.md", {"display": "a%%b"}, "[a% %b](Note.md)"),
        ("Note.md", {"display": ""}, "[](Note.md)"),
        ("Note.md", {"display": "a|b"}, "[a|b](Note.md)"),
        ("Note.md", {"display": "a|b", "in_table": True}, r"[a\|b](Note.md)"),
    ],
)
def test_a_markdown_link_encodes_and_escapes_what_it_must(
    target: str, options: dict[str, str | bool], written: str
) -> None:
    names = VaultNames([target, "src.md"])

    assert markdown_link_text(names, target, "src.md", "absolute", **options) == written  # type: ignore[arg-type]

    link = only_link(f"see {written} there")
    assert link.target == ("" if written.endswith("(#A)") else target)
    assert link.embed == bool(options.get("embed"))
    assert link.subpath == options.get("subpath", "")


def test_a_markdown_link_takes_the_format_asked_for() -> None:
    names = VaultNames(["a/Note.md", "a/b/src.md"])

    def written(link_format: str) -> str:
        return markdown_link_text(names, "a/Note.md", "a/b/src.md", link_format, "w")

    assert [written(form) for form in FORMATS] == [
        "[w](Note.md)",
        "[w](../Note.md)",
        "[w](a/Note.md)",
    ]
    twins = VaultNames(["a/Note.md", "Note.md", "a/src.md"])
    assert markdown_link_text(twins, "a/Note.md", "a/src.md", "shortest", "w") == "[w](a/Note.md)"
    assert markdown_link_text(twins, "a/Note.md", "a/src.md", "relative", "w") == "[w](./Note.md)"


# Names that clash, and names that links have trouble with. No blanks that a vault path cannot hold.
ODD = " .#|[]()^%`<>&;:!?'\"*_~$@=+,-0aAéÉ夏Σς\t\u3000\U0001f600"
PART = st.one_of(
    st.sampled_from(["Note", "note", "a", "A", "Note.1", "x.png", "md", "Note.md", "ΟΔΟΣ"]),
    st.text(ODD, min_size=1, max_size=8),
).filter(lambda part: part.strip(".") != "")
ENDING = st.sampled_from([".md", ".md", ".md", ".MD", "", ".png", ".canvas", ".1"])
PATH = st.builds(
    lambda folders, name, ending: unicodedata.normalize("NFC", "/".join([*folders, name + ending])),
    st.lists(PART, max_size=3),
    PART,
    ENDING,
)


def linkable(target: str, names: list[str]) -> bool:
    """Whether any link can lead to the file: alone with its path, and a note or with a dot."""
    name = target.rpartition("/")[2]
    same = [path for path in names if fold(path) == fold(target)]
    return len(same) == 1 and (is_note(name) or "." in name)


@given(paths=st.lists(PATH, min_size=2, max_size=8, unique=True), form=st.sampled_from(FORMATS))
@example(paths=["a/Note.md", "Note.md", "a/src.md"], form=LinkFormat.RELATIVE)
@example(paths=["Note.1.md", "Note.1", "b/Note.1"], form=LinkFormat.SHORTEST)
@example(paths=["x/ a .md", "x/a.md"], form=LinkFormat.RELATIVE)
@settings(deadline=None, max_examples=400)
def test_what_is_written_leads_back_in_any_vault(paths: list[str], form: LinkFormat) -> None:
    names = VaultNames(paths)
    source = paths[-1]
    for target in paths:
        if not linkable(target, paths):
            continue
        text = link_text(names, target, source, form)
        assert names.resolve(text, source) == target

        for written in (
            wikilink_text(names, target, source, form, display="d"),
            wikilink_text(names, target, source, form, subpath="#A (b)#c", embed=True),
            wikilink_text(names, target, source, form, subpath="#^id", in_table=True),
            markdown_link_text(names, target, source, form, "d"),
            markdown_link_text(names, target, source, form, subpath="#A (b)#c", embed=True),
        ):
            note = parse("src.md", f"see {written} there\n".encode())
            assert [names.resolve(link.target, source) for link in note.links] == [target]
            assert note.links[0].subpath in ("", "#A (b)#c", "#^id")
            assert note.tags == ()


@given(
    target=PATH.filter(lambda path: linkable(path, [path])),
    display=st.one_of(st.none(), st.text(ODD + "\\\n", max_size=12)),
    subpath=st.text(ODD + "\n", max_size=12).map(lambda text: "#" + text),
    embed=st.booleans(),
    in_table=st.booleans(),
)
@settings(deadline=None, max_examples=400)
def test_any_display_and_any_place_are_read_as_one_link(
    target: str, display: str | None, subpath: str, embed: bool, in_table: bool
) -> None:
    names = VaultNames([target, "src.md"])
    for write in (wikilink_text, markdown_link_text):
        written = write(
            names,
            target,
            "src.md",
            "shortest",
            subpath=subpath,
            display=display,
            embed=embed,
            in_table=in_table,
        )
        assert "\n" not in written
        links, rest = find_links(f"see {written} there", (0,), 0)
        assert [(names.resolve(link.target, "src.md"), link.embed) for link in links] == [
            (target, embed)
        ]
        assert rest.replace("\u2060", " ").split() == ["see", "there"]
        assert comparable_heading(links[0].subpath) == comparable_heading(subpath)


@given(
    target=PATH.filter(lambda path: "." in path.rpartition("/")[2]),
    subpath=st.text(ODD + "\\", max_size=12).filter(lambda text: text.strip("# \t\u3000") != ""),
)
@settings(deadline=None, max_examples=400)
def test_a_markdown_destination_is_read_back_to_the_letter(target: str, subpath: str) -> None:
    names = VaultNames([target])

    written = markdown_link_text(names, target, "src.md", "absolute", "d", subpath="#" + subpath)

    link = only_link(f"see {written} there")
    assert link.target == target
    assert link.subpath == ("#" + subpath).strip()


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Plain", "Plain"),
        ("Keep (these) & 100%!", "Keep (these) & 100%!"),
        ("C# vs F#", "C vs F"),
        ("a: b|c^d\\e", "a b c d e"),
        ("see [[Other|that]] %%now%%", "see Other that now"),
        ("a[0] %", "a[0] %"),
        ("two  blanks\tand\nlines", "two blanks and lines"),
        ("  ends  ", "ends"),
        ("*so*, `it` is.", "*so*, `it` is."),
        ("###", ""),
    ],
)
def test_a_heading_loses_only_what_a_link_cannot_hold(text: str, written: str) -> None:
    assert heading_for_link(text) == written


@given(st.text(ODD + "\\{}/", min_size=1, max_size=20))
@example("[^1]")
@example("^id")
@example("a ]")
@settings(deadline=None, max_examples=400)
def test_a_written_heading_leads_back_to_it(text: str) -> None:
    note = parse("Note.md", f"before\n\n# Other\n\n# {text}\n\nlast\n".encode())
    heading = note.headings[-1]
    written = heading_for_link(heading.text)
    names = VaultNames(["Note.md", "src.md"])
    if not comparable_heading(written):
        return  # punctuation alone: headings of that kind are all the same to a link

    link = only_link(wikilink_text(names, "Note.md", "src.md", "shortest", subpath=f"#{written}"))

    for subpath in (f"#{written}", link.subpath):
        place = find_place(note, subpath)
        assert place is not None
        assert (place.kind, place.first) == ("heading", heading.line)


@pytest.mark.parametrize(
    ("taken", "wanted", "free"),
    [
        ([], "Note.md", "Note.md"),
        (["Other.md"], "Note.md", "Note.md"),
        (["Note.md"], "Note.md", "Note 1.md"),
        (["Note.md", "Note 1.md"], "Note.md", "Note 2.md"),
        (["Note.md", "Note 2.md"], "Note.md", "Note 1.md"),
        (["Note 1.md"], "Note 1.md", "Note 1 1.md"),
        (["note.MD"], "Note.md", "Note 1.md"),
        (["NOTE.md", "nOTE 1.md"], "Note.md", "Note 2.md"),
        (["ΟΔΟΣ.md"], "οδοσ.md", "οδοσ 1.md"),
        (["e\u0301.md"], "é.md", "é 1.md"),
        (["é.md"], "e\u0301.md", "é 1.md"),
        # Files without an ending, or whose dot begins or ends the name.
        (["LICENSE"], "LICENSE", "LICENSE 1"),
        (["LICENSE.md"], "LICENSE", "LICENSE"),
        ([".env"], ".env", ".env 1"),
        (["end."], "end.", "end. 1"),
        (["a.tar.gz"], "a.tar.gz", "a.tar 1.gz"),
        # The folder is part of the path, and dots in it begin no ending.
        (["Note.md"], "a/Note.md", "a/Note.md"),
        (["a/Note.md"], "a/Note.md", "a/Note 1.md"),
        (["A/note.md"], "a/Note.md", "a/Note 1.md"),
        (["a/b/Note.md"], "a/Note.md", "a/Note.md"),
        (["v1.2/LICENSE"], "v1.2/LICENSE", "v1.2/LICENSE 1"),
        # A folder takes a name as well as a file does.
        (["Projects/a.md"], "Projects", "Projects 1"),
        (["x/Note.md/a.md"], "x/note.md", "x/note 1.md"),
        # The path is made a vault path.
        (["a/Note.md"], "/a//Note.md", "a/Note 1.md"),
    ],
)
def test_a_taken_name_is_counted_on(taken: list[str], wanted: str, free: str) -> None:
    assert free_path(taken, wanted) == free
    assert free_path(VaultNames(taken), wanted) == free


def test_a_thousandth_name_is_found_too() -> None:
    taken = ["Note.md", *(f"Note {number}.md" for number in range(1, 1000))]

    assert free_path(iter(taken), "Note.md") == "Note 1000.md"


def test_the_names_of_a_vault_are_all_its_paths() -> None:
    paths = ["a/Note.md", "Note.md", "NOTE.md", "p.png"]

    assert sorted(VaultNames(paths)) == sorted(paths)
