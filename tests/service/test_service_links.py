"""related and lint: where links lead, which lead nowhere, and what stands alone."""

from collections.abc import Callable

import pytest

from vaultmem.model.errors import NoteAmbiguous, NoteNotFound, Refused
from vaultmem.service.application import Memory
from vaultmem.service.operations.lint import Ambiguous, LintRequest, Orphan, Unresolved, lint
from vaultmem.service.operations.related import RelatedRequest, related

Open = Callable[..., Memory]

SOURCE = """---
related: "[[Clay]]"
---
First [[kiln#Use|the oven]] and ![[pot.png]].

Then [clay](Clay.md), [[Töpfer]] and [[nowhere]].
Here [[#Own heading]].
"""


@pytest.fixture
def shed(indexed: Open) -> Memory:
    return indexed(
        {
            "source.md": SOURCE,
            "kiln.md": "[[source]]",
            "Clay.md": "---\naliases: [Töpfer]\n---\nred",
            "pot.png": b"x",
            "alone.md": "no links",
        }
    )


def test_links_come_in_source_order_with_where_they_lead(shed: Memory) -> None:
    links = related(shed, RelatedRequest("source")).links
    assert [(x.link, x.display, x.subpath, x.embed, x.line, x.resolved) for x in links[:5]] == [
        ("kiln", "the oven", "#Use", False, 4, "kiln.md"),
        ("pot.png", None, "", True, 4, "pot.png"),
        ("Clay.md", "clay", "", False, 6, "Clay.md"),
        ("Töpfer", None, "", False, 6, None),
        ("nowhere", None, "", False, 6, None),
    ]
    assert (links[5].subpath, links[5].resolved) == ("#Own heading", "source.md")
    assert (links[6].link, links[6].property, links[6].line) == ("Clay", "related", 2)
    assert [link.alias_of for link in links] == [None, None, None, "Clay.md", None, None, None]


def test_backlinks_show_the_lines_that_link_here(shed: Memory) -> None:
    reply = related(shed, RelatedRequest("Clay"))
    assert [(b.path, b.line, b.text) for b in reply.backlinks] == [
        ("source.md", 2, 'related: "[[Clay]]"'),
        ("source.md", 6, "Then [clay](Clay.md), [[Töpfer]] and [[nowhere]]."),
    ]
    assert reply.links == ()


def test_a_note_is_no_backlink_of_itself(shed: Memory) -> None:
    assert {b.path for b in related(shed, RelatedRequest("source")).backlinks} == {"kiln.md"}


def test_a_backlink_is_shown_as_it_stands_now(shed: Memory) -> None:
    (shed.vault / "kiln.md").write_text("Added a line.\n\n> now [[source]] here")
    (backlink,) = related(shed, RelatedRequest("source")).backlinks
    assert (backlink.line, backlink.text) == (3, "> now [[source]] here")


@pytest.mark.parametrize(
    ("note", "error"),
    [("nothing of the kind", NoteNotFound), ("../x", Refused), ("", Refused)],
)
def test_what_is_not_there_is_named(note: str, error: type[Exception], shed: Memory) -> None:
    with pytest.raises(error):
        related(shed, RelatedRequest(note))


def test_an_ambiguous_name_is_not_guessed(indexed: Open) -> None:
    with pytest.raises(NoteAmbiguous):
        related(indexed({"x/a.md": "", "y/a.md": ""}), RelatedRequest("a"))


def test_links_that_lead_nowhere_are_listed_with_suggestions(indexed: Open) -> None:
    memory = indexed(
        {
            "Potter's wheel.md": "---\naliases: [Töpferscheibe]\n---\n[[a]]",
            "a.md": "[[Potters wheel]]\n[[Töpferscheibe]]\n[[something else]]\n![[lost.png]]",
        }
    )
    assert lint(memory, LintRequest()).unresolved == (
        Unresolved("a.md", 1, "Potters wheel", ("Potter's wheel.md",), None),
        Unresolved(
            "a.md",
            2,
            "Töpferscheibe",
            ("Potter's wheel.md",),
            "[[Potter's wheel|Töpferscheibe]]",
        ),
        Unresolved("a.md", 3, "something else", (), None),
        Unresolved("a.md", 4, "lost.png", (), None),
    )


def test_links_by_a_name_that_several_files_have_are_listed(indexed: Open) -> None:
    memory = indexed({"x/log.md": "", "y/deep/log.md": "", "a.md": "[[log]] [[x/log]] [[a]]"})
    assert lint(memory, LintRequest()).ambiguous == (
        Ambiguous("a.md", 1, "log", "x/log.md", ("x/log.md", "y/deep/log.md")),
    )


def test_notes_without_any_link_are_orphans(shed: Memory) -> None:
    assert lint(shed, LintRequest()).orphans == (Orphan("alone.md", 1),)


def test_a_link_to_itself_saves_no_orphan(indexed: Open) -> None:
    memory = indexed({"a.md": "[[a]] [[#here]] [[nowhere]]", "b.md": "[[c]]", "c.md": ""})
    assert lint(memory, LintRequest()).orphans == (Orphan("a.md", 1),)


def test_problems_of_notes_and_of_the_scan_are_listed(indexed: Open) -> None:
    memory = indexed(
        {"a.md": "---\nx: [\n---\n", "b.md": "fine", ".obsidian/app.json": "{"},
    )
    (memory.vault / "link.md").symlink_to(memory.vault / "b.md")
    problems = lint(memory, LintRequest()).problems
    assert {(problem.path, problem.code) for problem in problems} == {
        ("a.md", "frontmatter-invalid"),
        (".obsidian/app.json", "obsidian-settings-invalid"),
        ("link.md", "linked"),
    }


def test_a_sound_vault_has_nothing_to_mend(indexed: Open) -> None:
    reply = lint(indexed({"a.md": "[[b]]", "b.md": "[[a]]"}), LintRequest())
    assert (reply.unresolved, reply.ambiguous, reply.orphans, reply.problems) == ((), (), (), ())
    assert reply.degraded == ()


def test_a_private_note_whose_links_are_not_known_is_no_orphan(indexed: Open) -> None:
    memory = indexed({"Priv.md": "---\nprivate: true\n---\n[[A]]\n", "A.md": "text\n"})
    assert "Priv.md" not in [orphan.path for orphan in lint(memory, LintRequest()).orphans]
