"""Answers that were once wrong or incomplete; each is a small vault and what must be said of it."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import markdown_it
import pytest

from vaultmem.service.application import Memory
from vaultmem.service.operations.lint import LintRequest, Unresolved, lint
from vaultmem.service.operations.read import ReadRequest, read
from vaultmem.service.operations.related import RelatedRequest, related
from vaultmem.service.operations.search import SearchReply, SearchRequest, search
from vaultmem.service.operations.status import StatusRequest, status
from vaultmem.surfaces.render import render_search

Open = Callable[..., Memory]
Find = Callable[..., list[str]]

NICHOLAS = "---\naliases: [Nick]\n---\nA person.\n"


def ask(memory: Memory, query: str = "", **options: Any) -> SearchReply:
    return search(memory, SearchRequest(query, **options))


def dead(memory: Memory, note: str = "source.md") -> list[Unresolved]:
    """The links of a note that lead nowhere, in order."""
    return [link for link in lint(memory, LintRequest()).unresolved if link.path == note]


def codes(memory: Memory) -> list[tuple[str, int, str]]:
    return [(p.path, p.line, p.code) for p in lint(memory, LintRequest()).problems]


# What the Markdown library cannot take


def test_quotations_without_a_last_line_end_are_searched(indexed: Open, find: Find) -> None:
    memory = indexed(
        {
            "a.md": "A kiln.\n\n> - <!-- ember\n>",
            "b.md": "A wheel.\n\n>-\t<script ember\n>",
            "c.md": "A glaze.\n\n> 1.\t<pre>ember\n> \n>",
        }
    )
    assert codes(memory) == []
    assert sorted(find(memory, "ember")) == ["a.md", "b.md", "c.md"]


def test_a_note_that_the_library_falls_over_is_searched_and_keeps_nobody_out(
    open_vault: Open, find: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse = markdown_it.MarkdownIt.parse

    def fall_over(self: markdown_it.MarkdownIt, src: str, env: Any = None) -> Any:
        if "basalt" in src:
            raise IndexError
        return parse(self, src, env)

    monkeypatch.setattr(markdown_it.MarkdownIt, "parse", fall_over)
    memory = open_vault(
        {
            "a.md": "# First\n\nkiln\n",
            "m.md": "# Middle\n\nkiln of basalt\n",
            "z.md": "# Last\n\nkiln\n",
        }
    )
    assert sorted(find(memory, "kiln")) == ["a.md", "m.md", "z.md"]
    assert find(memory, "basalt") == ["m.md"]
    assert codes(memory) == [("m.md", 0, "structure-unread")]


# Places


@pytest.mark.parametrize("mark", ["$$", "%%"])
def test_an_id_behind_a_block_of_several_lines_names_that_block(mark: str, indexed: Open) -> None:
    block = f"{mark}\na = b\n# c\n{mark}"
    memory = indexed({"m.md": f"before\n\n{block}\n\n^mm\n\nafter\n"})

    reply = read(memory, ReadRequest("m#^mm"))
    assert (reply.lines, reply.text.strip()) == ((3, 6), block)


# Words of the properties


@pytest.mark.parametrize(
    ("yaml", "query"),
    [
        ('tags: "machinelearn, deeplearn"', "machinelearn"),
        ('tags: "machinelearn, deeplearn"', "deeplearn"),
        ("tags: [two words, ok]", "words"),
        ("aliases: {a: hiddenalias}", "hiddenalias"),
        ("aliases: [x, {a: hiddenalias}]", "hiddenalias"),
        ("title: 2024123", "2024123"),
        ("title: [listed]", "listed"),
        ("zip: 01234", "01234"),
        ("zips: [01234, 07]", "01234"),
        ("Title: Basalt", "basalt"),
    ],
)
def test_no_word_of_a_property_is_lost(yaml: str, query: str, indexed: Open, find: Find) -> None:
    memory = indexed({"a.md": f"---\n{yaml}\n---\nA kiln.\n", "b.md": "Another kiln.\n"})

    assert find(memory, query) == ["a.md"]


def test_what_is_a_tag_an_alias_or_a_title_is_no_property_too(indexed: Open) -> None:
    yaml = "Title: Basalt\ntags: ['#ember', no tag]\naliases: [Glow]\nkind: stone"
    memory = indexed({"a.md": f"---\n{yaml}\n---\nA kiln.\n"})
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    (searched,) = sidecar.connection.execute("SELECT searched FROM note").fetchall()[0]
    fields = json.loads(str(searched))
    assert fields["properties"].split("\n") == ["tags no tag", "kind stone"]
    assert (fields["title"], fields["tags"]) == ("Basalt\na", "ember")


@pytest.mark.parametrize("lines", [1200, 3000])
def test_a_broken_properties_block_is_searched_to_its_last_word(
    lines: int, indexed: Open, find: Find
) -> None:
    block = "".join(f"key{n}: some words of line {n}\n" for n in range(lines))
    memory = indexed({"a.md": f"---\n{block}broken: [\nlast: quokka\n---\nA kiln.\n"})

    assert find(memory, "quokka") == ["a.md"]
    ((path, _, code),) = codes(memory)
    assert (path, code.startswith("frontmatter-")) == ("a.md", True)


def test_a_note_that_calls_itself_a_template_counts_like_any_other(
    indexed: Open, find: Find
) -> None:
    memory = indexed(
        {
            "a.md": "type:: template\n\nA kiln, see [[c]] #ember\n",
            "b.md": "---\ntype: template\n---\nA wheel #ember\n",
            "c.md": "A glaze.\n",
        }
    )
    assert sorted(find(memory, "kind:template")) == sorted(find(memory, "tag:ember"))
    assert sorted(find(memory, "tag:ember")) == ["a.md", "b.md"]
    assert [b.path for b in related(memory, RelatedRequest("c")).backlinks] == ["a.md"]


# lint: what to mend, and how


@pytest.mark.parametrize(
    ("others", "fix"),
    [
        ({}, "[[Nicholas|Nick]]"),
        ({"Dominick.md": NICHOLAS}, None),
        ({"T/Person.md": NICHOLAS}, "[[Nicholas|Nick]]"),
    ],
)
def test_a_link_by_an_alias_is_mended_where_one_note_has_it(
    others: Mapping[str, str], fix: str | None, indexed: Open
) -> None:
    memory = indexed(
        {
            "source.md": "See [[Nick]].\n",
            "Nicholas.md": NICHOLAS,
            ".obsidian/templates.json": '{"folder": "T"}',
            **others,
        }
    )
    (link,) = dead(memory)
    assert link.fix == fix
    assert "T/Person.md" not in link.suggestions


def test_a_fix_for_a_table_keeps_its_cell(indexed: Open) -> None:
    text = "| who |\n|---|\n| [[Nick]] |\n\n> | who |\n> |---|\n> | [[Nick]] |\n\n[[Nick]]\n"
    memory = indexed({"source.md": text, "Nicholas.md": NICHOLAS})

    assert [link.fix for link in dead(memory)] == [
        r"[[Nicholas\|Nick]]",
        r"[[Nicholas\|Nick]]",
        "[[Nicholas|Nick]]",
    ]


def test_a_markdown_link_to_an_alias_is_told_with_its_owner(indexed: Open) -> None:
    memory = indexed({"source.md": "[x](Nick.md)\n", "Nicholas.md": NICHOLAS})

    (link,) = related(memory, RelatedRequest("source")).links
    assert (link.link, link.resolved, link.alias_of) == ("Nick.md", None, "Nicholas.md")
    assert dead(memory) == [
        Unresolved("source.md", 1, "Nick.md", ("Nicholas.md",), "[[Nicholas|x]]")
    ]


def test_a_note_is_never_suggested_for_a_link_of_its_own(indexed: Open) -> None:
    memory = indexed({"Kiln handbook.md": "[[Kiln handbok]]\n", "b.md": "[[Kiln handbok]]\n"})

    assert [link.suggestions for link in dead(memory, "Kiln handbook.md")] == [()]
    assert [link.suggestions for link in dead(memory, "b.md")] == [("Kiln handbook.md",)]


def test_a_template_is_suggested_for_no_slip(indexed: Open) -> None:
    memory = indexed(
        {
            "source.md": "[[Kiln handbok]] [[Wheel handbok]]\n",
            "T/Kiln handbook.md": "",
            "Wheel handbook.md": "",
            ".obsidian/templates.json": '{"folder": "T"}',
        }
    )
    assert [link.suggestions for link in dead(memory)] == [(), ("Wheel handbook.md",)]


@pytest.mark.parametrize(
    ("link", "suggestions"),
    [
        ("Kiln handbok", ("Kiln handbook.md",)),
        ("Kiln handbook.pdf", ()),
        ("Kiln handbok.png", ()),
        ("2026-W17", ()),
        ("Firing log 2026-W18", ()),
        ("Firing lgo 2026-W17", ("Firing log 2026-W17.md",)),
    ],
)
def test_a_paper_and_another_number_are_no_slip(
    link: str, suggestions: tuple[str, ...], indexed: Open
) -> None:
    memory = indexed(
        {
            "source.md": f"[[{link}]]\n",
            "Kiln handbook.md": "",
            "2025-W17.md": "",
            "Firing log 2026-W17.md": "",
        }
    )
    assert [dead_link.suggestions for dead_link in dead(memory)] == [suggestions]


def test_an_id_of_two_notes_is_told_with_its_line_in_each(indexed: Open) -> None:
    memory = indexed(
        {
            "a.md": "---\ntitle: A\nid: same\n---\n",
            "b.md": "---\nid: same\n---\n",
            "c.md": "---\nid: other\n---\n",
            "d.md": "one ^x\n\ntwo ^X\n",
        }
    )
    assert codes(memory) == [
        ("a.md", 3, "identity-duplicate"),
        ("b.md", 2, "identity-duplicate"),
        ("d.md", 3, "block-id-duplicate"),
    ]


# search: what is shown


def test_a_listing_says_how_many_are_left_out(indexed: Open) -> None:
    memory = indexed({f"2026-05-0{n}.md": f"one {n} #log\n" for n in range(1, 6)})

    reply = ask(memory, "tag:log", limit=2)
    assert (len(reply.hits), reply.left_out) == (2, 3)
    assert render_search(reply, explain=False).splitlines()[-1].startswith("… and 3 more")
    whole = ask(memory, "tag:log", limit=5)
    assert (len(whole.hits), whole.left_out) == (5, 0)
    assert "more" not in render_search(whole, explain=False)


def test_the_day_of_an_item_is_shown(indexed: Open) -> None:
    memory = indexed({"2026-05-03.md": "A kiln.\n\n- decision:: 2026-04-01: fire it slowly\n"})

    item = render_search(ask(memory, "kind:decision"), explain=False).splitlines()[0]
    assert "[decision, 2026-04-01" in item
    plain = render_search(ask(memory, "kiln kind:daily"), explain=False).splitlines()[0]
    assert "[daily" in plain
    assert "2026-04-01" not in plain


# Settings


def test_obsidians_own_settings_are_listed_with_their_file(open_vault: Open) -> None:
    memory = open_vault(
        {
            "a.md": "kiln",
            ".obsidian/app.json": '{"userIgnoreFilters": ["Old/"], "newLinkFormat": "relative"}',
            ".obsidian/templates.json": '{"folder": "T"}',
        }
    )
    listed = status(memory, StatusRequest(settings=True)).settings
    found = {s.key: (s.value, s.source) for s in listed if s.key.startswith("obsidian.")}
    assert found == {
        "obsidian.excluded_files": (("Old/",), ".obsidian/app.json"),
        "obsidian.link_format": ("relative", ".obsidian/app.json"),
        "obsidian.markdown_links": (False, ".obsidian/app.json"),
        "obsidian.attachment_folder": ("", ".obsidian/app.json"),
        "obsidian.daily_folder": ("", "default"),
        "obsidian.daily_format": ("YYYY-MM-DD", "default"),
        "obsidian.daily_template": ("", "default"),
        "obsidian.template_folder": ("T", ".obsidian/templates.json"),
    }
    assert all(s.variable == "" and s.about for s in listed if s.key in found)


# Arrows of canvases


def board(*edges: tuple[str, str]) -> str:
    files = [{"id": name, "type": "file", "file": f"{name}.md"} for name in "AB"]
    arrows = [{"id": f"{a}{b}", "fromNode": a, "toNode": b} for a, b in edges]
    return json.dumps({"nodes": files, "edges": arrows})


def test_a_backlink_by_an_arrow_tells_where_it_comes_from(indexed: Open) -> None:
    memory = indexed(
        {
            "A.md": "",
            "B.md": "",
            "Board.canvas": board(("A", "B")),
            "T/Form.canvas": board(("A", "B"), ("B", "A")),
            ".obsidian/templates.json": '{"folder": "T"}',
        }
    )
    for note, arrows in (("B", ["A.md"]), ("A", [])):
        backlinks = related(memory, RelatedRequest(note)).backlinks
        assert [b.arrow_from for b in backlinks if b.arrow_from is not None] == arrows
        assert {b.path for b in backlinks} == {"Board.canvas"}
        assert backlinks == read(memory, ReadRequest(note)).backlinks
    links = {note: related(memory, RelatedRequest(note)).links for note in "AB"}
    assert [(k.via, k.resolved) for k in links["A"]] == [("Board.canvas", "B.md")]
    assert links["B"] == ()


# Kinds and days


def test_a_passage_of_the_kind_of_its_note_has_the_day_of_the_note(indexed: Open) -> None:
    text = "---\ntype: decision\ndate: 2026-04-01\n---\nWAL.\n\nlesson:: (2026-09-01) cat\n"
    memory = indexed({"D.md": text})

    assert ask(memory, "kind:decision after:2026-06").hits == ()
    days = [(h.kind, h.date) for h in ask(memory, "kind:decision", passages=True).hits]
    assert days == [("decision", "2026-04-01")] * 2
    assert [h.date for h in ask(memory, "kind:lesson after:2026-06").hits] == ["2026-09-01"]


def test_entries_are_listed_newest_first_whatever_stands_in_them(indexed: Open) -> None:
    memory = indexed(
        {
            "Log.md": "## 2026-05-03\n\nrain\n\n- decision:: (2026-06-01) tiger\n",
            "Work log.md": "## 2026-05-20\n\nsun\n",
        }
    )

    days = [hit.date for hit in ask(memory, "kind:episode", passages=True).hits]
    assert days == ["2026-05-20", "2026-05-03", "2026-05-03"]


def test_a_log_with_a_line_a_day_has_an_entry_a_line(indexed: Open) -> None:
    memory = indexed(
        {"Garden log.md": "2026-05-03: apples\n2026-05-04: pears\n2026-05-05: plums\n"}
    )

    (hit,) = ask(memory, "plums", kinds=("episode",), after="2026-05-05").hits
    assert (hit.date, hit.lines) == ("2026-05-05", (3, 3))
    earlier = ask(memory, "plums", before="2026-05-04", passages=True).hits
    assert (3, 3) not in [hit.lines for hit in earlier]


def test_a_callout_may_name_its_day_in_a_field(indexed: Open) -> None:
    memory = indexed({"a.md": "> [!decision] Use WAL\n> date:: 2026-05-03\n> why\n"})

    assert [hit.date for hit in ask(memory, "kind:decision").hits] == ["2026-05-03"]


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("h | k\n--|--\nx | [[Nick]]\n", "[[Nicholas\\|Nick]]"),
        ("| no table [[Nick]]\n", "[[Nicholas|Nick]]"),
        ("[[Nick|a]] and [[Nick|b]]\n", "[[Nicholas|a]]"),
    ],
)
def test_the_bar_of_a_link_is_escaped_in_tables_alone(indexed: Open, text: str, fix: str) -> None:
    memory = indexed({"Nicholas.md": NICHOLAS, "source.md": text})

    assert dead(memory)[0].fix == fix
