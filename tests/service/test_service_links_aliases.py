"""An alias resolves no link, but whoever asks is told whose it is; spellings of names on disk."""

import json
import os
import unicodedata
from collections.abc import Callable

import pytest

from vaultmem.service.application import Memory
from vaultmem.service.operations.lint import LintRequest, lint
from vaultmem.service.operations.read import ReadRequest, read
from vaultmem.service.operations.related import LinkOut, RelatedRequest, related
from vaultmem.service.operations.search import SearchRequest, search

Open = Callable[..., Memory]

NFD = unicodedata.normalize("NFD", "Zoë")
ALIASES = ["Nick", "Zoë", "Big Nick", "people/Nick", ".NET", "v1.2", "AC\\DC"]
OWNER = f"---\naliases: {json.dumps(ALIASES, ensure_ascii=False)}\n---\nA person.\n"


def links(memory: Memory, note: str = "source.md") -> list[tuple[str | None, str | None]]:
    """(where it leads, whose alias it is) of each link of a note, in order."""
    return [(x.resolved, x.alias_of) for x in related(memory, RelatedRequest(note)).links]


def suggested(memory: Memory, note: str = "source.md") -> list[tuple[str, ...]]:
    """What `lint` suggests for each link of a note that leads nowhere, in order."""
    return [x.suggestions for x in lint(memory, LintRequest()).unresolved if x.path == note]


# One owner


@pytest.mark.parametrize(
    "written",
    [
        *("[[Nick]]", "[[NICK]]", "[[nick]]", "![[Nick]]", "[[Nick|him]]", "[[Nick#Early life]]"),
        *("[him](Nick)", "[him](nick#Early)", "[him](Big%20Nick)", "[him](<Big Nick>)"),
        *("[[Zoë]]", f"[[{NFD}]]", f"[[{NFD.upper()}]]", "[[ZOË]]", f"[x]({NFD})", "[x](Zo%C3%AB)"),
        *("[[Big\u00a0Nick]]", "[[people\\NICK]]", "[[nick.md]]", "[him](Big%20Nick.md)"),
        *("[[AC\\dc]]", "[[/nick]]"),
        *("[[people/Nick]]", "[[PEOPLE/nick]]", "[[.NET]]", "[[V1.2]]"),
        *('---\nfriend: "[[Nick]]"\n---', '---\nfriends: ["[[Zoë]]"]\n---'),
        '---\nfriend: "[him](Big%20Nick)"\n---',
    ],
)
def test_a_link_by_an_alias_leads_nowhere_and_tells_whose_it_is(
    written: str, indexed: Open
) -> None:
    memory = indexed({"source.md": written + "\n", "Nicholas.md": OWNER})
    assert links(memory) == [(None, "Nicholas.md")]
    assert suggested(memory) == [("Nicholas.md",)]
    (link,) = read(memory, ReadRequest("source")).links
    assert (link.resolved, link.alias_of) == (None, "Nicholas.md")
    # No edge: neither note is linked, from either side.
    assert related(memory, RelatedRequest("Nicholas.md")).backlinks == ()
    assert read(memory, ReadRequest("Nick")).backlinks == ()
    assert memory.lookup().orphans() == ["Nicholas.md", "source.md"]


@pytest.mark.parametrize(
    "written", ["[[Nic]]", "[[ick]]", "[[A person]]", "[[Nick Cave]]", "[[Nicholas Cave]]"]
)
def test_a_text_that_is_nobodys_alias_is_said_to_be_none(written: str, indexed: Open) -> None:
    owner = OWNER.replace("---\n", "---\ntitle: Nicholas Cave\n", 1)
    memory = indexed({"source.md": written, "Nicholas.md": owner})
    assert links(memory) == [(None, None)]


def test_a_property_link_by_an_alias_keeps_its_place(indexed: Open) -> None:
    memory = indexed({"source.md": '---\nfriend: "[[Nick]]"\n---\n', "Nicholas.md": OWNER})
    assert related(memory, RelatedRequest("source")).links == (
        LinkOut("Nick", None, "", False, 2, "friend", None, "Nicholas.md"),
    )


def test_a_card_of_a_canvas_that_uses_an_alias_tells_whose_it_is(indexed: Open) -> None:
    node = {"id": "1", "type": "text", "text": "[[Nick]]"}
    memory = indexed({"c.canvas": json.dumps({"nodes": [node]}), "Nicholas.md": OWNER})
    assert links(memory, "c.canvas") == [(None, "Nicholas.md")]
    assert suggested(memory, "c.canvas") == [("Nicholas.md",)]


def test_a_place_in_the_note_itself_is_no_alias(indexed: Open) -> None:
    memory = indexed({"source.md": "---\naliases: [Here]\n---\n[[#Here]] [[Here]]\n"})
    assert links(memory) == [("source.md", None), (None, "source.md")]


# Several owners, or none any more


def test_of_two_owners_none_is_guessed_and_both_are_suggested(indexed: Open) -> None:
    memory = indexed(
        {
            "source.md": "[[nick]]",
            "Dominick.md": "---\naliases: NICK\n---\n",
            "deep/Nicholas.md": OWNER,
        }
    )
    assert links(memory) == [(None, None)]
    assert suggested(memory) == [("Dominick.md", "deep/Nicholas.md")]
    (memory.vault / "Dominick.md").unlink()
    assert links(memory) == [(None, "deep/Nicholas.md")]
    assert suggested(memory) == [("deep/Nicholas.md",)]


def test_a_template_owns_no_alias(indexed: Open) -> None:
    memory = indexed(
        {
            "source.md": "[[Nick]] [[Zoe]]",
            "Nicholas.md": OWNER,
            "forms/person.md": "---\naliases: [Nick, Zoe]\n---\n",
            ".obsidian/templates.json": '{"folder": "forms"}',
        }
    )
    assert links(memory) == [(None, "Nicholas.md"), (None, None)]
    assert suggested(memory) == [("Nicholas.md",), ()]


def test_a_note_that_has_an_alias_in_two_spellings_is_one_owner(indexed: Open) -> None:
    aliases = json.dumps(["Zoë", NFD, "ZOË"], ensure_ascii=False)
    memory = indexed({"source.md": "[[zoë]]", "n.md": f"---\naliases: {aliases}\n---\n"})
    assert links(memory) == [(None, "n.md")]
    assert suggested(memory) == [("n.md",)]


def test_a_note_of_that_name_takes_the_link_and_gives_it_back(indexed: Open) -> None:
    memory = indexed({"source.md": "[[Nick]] and [[people/Nick]]", "Nicholas.md": OWNER})
    assert links(memory) == [(None, "Nicholas.md"), (None, "Nicholas.md")]
    (memory.vault / "people").mkdir()
    (memory.vault / "people" / "nick.md").write_text("another person")
    assert links(memory) == [("people/nick.md", None), ("people/nick.md", None)]
    assert suggested(memory) == []
    assert [b.path for b in related(memory, RelatedRequest("people/nick")).backlinks] == [
        "source.md"
    ]
    assert related(memory, RelatedRequest("Nicholas")).backlinks == ()
    (memory.vault / "people" / "nick.md").unlink()
    assert links(memory) == [(None, "Nicholas.md"), (None, "Nicholas.md")]
    assert suggested(memory) == [("Nicholas.md",), ("Nicholas.md",)]


def test_a_name_is_stronger_than_an_alias_of_that_text(indexed: Open) -> None:
    memory = indexed({"source.md": "[[v1.2]] [[Nick]]", "v1.2.md": "", "Nicholas.md": OWNER})
    assert links(memory) == [("v1.2.md", None), (None, "Nicholas.md")]


def test_an_alias_that_is_gone_or_has_moved_is_followed(indexed: Open) -> None:
    memory = indexed({"source.md": "[[Nick]]", "Nicholas.md": OWNER})
    (memory.vault / "Nicholas.md").rename(memory.vault / "Saint Nicholas.md")
    assert links(memory) == [(None, "Saint Nicholas.md")]
    (memory.vault / "other.md").write_bytes(OWNER.encode())
    (memory.vault / "Saint Nicholas.md").write_text("No alias any more.")
    assert links(memory) == [(None, "other.md")]
    assert suggested(memory) == [("other.md",)]
    (memory.vault / "other.md").unlink()
    assert links(memory) == [(None, None)]
    assert suggested(memory) == [()]


def test_an_excluded_note_owns_no_alias(indexed: Open) -> None:
    memory = indexed({"source.md": "[[Nick]] [[Nicholas]]", "old/Nicholas.md": OWNER})
    assert links(memory) == [(None, "old/Nicholas.md"), ("old/Nicholas.md", None)]
    (memory.vault / ".obsidian").mkdir()
    (memory.vault / ".obsidian" / "app.json").write_text('{"userIgnoreFilters": ["old/"]}')
    assert links(memory) == [(None, None), ("old/Nicholas.md", None)]
    (memory.vault / ".obsidian" / "app.json").unlink()
    assert links(memory) == [(None, "old/Nicholas.md"), ("old/Nicholas.md", None)]


def test_broken_frontmatter_takes_the_aliases_away_and_mending_brings_them_back(
    indexed: Open,
) -> None:
    memory = indexed({"source.md": "[[Nick]]", "Nicholas.md": OWNER})
    (memory.vault / "Nicholas.md").write_bytes(
        OWNER.replace("aliases:", "bad: [\naliases:").encode()
    )
    assert links(memory) == [(None, None)]
    (memory.vault / "Nicholas.md").write_bytes(OWNER.encode())
    assert links(memory) == [(None, "Nicholas.md")]


# Names as the disk spells them

DISK_NAMES = {
    "decomposed": (unicodedata.normalize("NFD", "Häuser/Zoë.md"), "Häuser/Zoë.md"),
    "no-break spaces": ("Big\u00a0house/a\u202fb.MD", "Big house/a b.MD"),
    "both": (unicodedata.normalize("NFD", "É\u00a0t/ü\u00a0x.1.md"), "É t/ü x.1.md"),
}


@pytest.mark.parametrize("case", DISK_NAMES)
def test_a_note_is_read_and_written_about_under_its_name_and_opened_under_the_disks(
    case: str, indexed: Open
) -> None:
    on_disk, path = DISK_NAMES[case]
    name = path.rpartition("/")[2][:-3]
    spaced = name.replace(" ", "\u00a0")
    memory = indexed(
        {
            on_disk: "# Kiln\n\nA kiln of red clay, see [[source]].\n",
            "source.md": f"[[{name}]]\n\n[[{on_disk[:-3]}]]\n\n[[{spaced.upper()}#Kiln]]\n",
        }
    )
    assert [link.resolved for link in related(memory, RelatedRequest("source")).links] == [path] * 3
    assert suggested(memory) == []
    for given in (name, path, on_disk, path.upper()):
        reply = read(memory, ReadRequest(given))
        assert (reply.path, reply.text.splitlines()[0]) == (path, "# Kiln")
    assert read(memory, ReadRequest(f"{name}#Kiln")).lines[0] == 1
    # Lines of a note are shown as its file has them now, whichever side of the link it is.
    (hit,) = search(memory, SearchRequest("clay")).hits
    assert (hit.path, "red clay" in hit.snippet) == (path, True)
    (back,) = related(memory, RelatedRequest("source")).backlinks
    assert (back.path, back.line, back.text) == (path, 3, "A kiln of red clay, see [[source]].")
    assert [b.line for b in related(memory, RelatedRequest(name)).backlinks] == [1, 3, 5]


@pytest.mark.parametrize("case", DISK_NAMES)
def test_another_spelling_on_disk_is_the_same_note_and_is_still_read(
    case: str, indexed: Open
) -> None:
    on_disk, path = DISK_NAMES[case]
    memory = indexed({on_disk: "A kiln.\n", "source.md": f"[[{path[:-3]}]]"})
    assert links(memory) == [(path, None)]
    folder = memory.vault / path.rpartition("/")[0]
    os.rename(memory.vault / on_disk.rpartition("/")[0], folder)
    os.rename(folder / on_disk.rpartition("/")[2], memory.vault / path)
    assert links(memory) == [(path, None)]
    assert read(memory, ReadRequest(path)).text == "A kiln.\n"
    (memory.vault / path).write_text("A wheel.\n")
    assert read(memory, ReadRequest(on_disk)).text == "A wheel.\n"
    assert [hit.path for hit in search(memory, SearchRequest("wheel")).hits] == [path]
    assert links(memory) == [(path, None)]
