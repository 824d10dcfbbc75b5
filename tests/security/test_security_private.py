"""What a person keeps to themselves: `<private>` spans, and notes whose properties say so."""

import json

import pytest
from variants import Chance

from vaultmem.model.note import Note, Screening
from vaultmem.vault.parse import parse
from vaultmem.vault.private import is_private, without_private
from vaultmem.vault.screen import Screen

SECRET = "hyacinth"
TOKEN = "gh" + "p_" + Chance(3).some(36)


def note(text: str, path: str = "n.md", screen: Screen | None = None) -> Note:
    return parse(path, text.encode(), screen or Screen())


def canvas(*texts: str) -> str:
    nodes = [{"id": str(n), "type": "text", "text": text} for n, text in enumerate(texts)]
    return json.dumps({"nodes": nodes, "edges": []})


def hides(text: str, path: str = "n.md") -> bool:
    assert SECRET in text
    return SECRET not in repr(note(text, path))


# Spans


@pytest.mark.parametrize(
    "text",
    [
        "<private>hyacinth</private>",
        "before <private>hyacinth</private> behind",
        "<PRIVATE>hyacinth</Private>",
        "<private>a<private>hyacinth</private>hyacinth</private>",
        "<private>\n\n# hyacinth\n\nhyacinth\n</private>",
        "<private>\r\nhyacinth\r\n</private>\r\n",
        "- a\n- <private>hyacinth</private>\n- b",
        "- a\n  - <private>hyacinth\n  - hyacinth</private>",
        "1. a\n   <private>hyacinth</private>",
        "- [ ] <private>hyacinth</private> 📅 2026-01-02",
        "> <private>hyacinth</private>",
        "> [!note] <private>hyacinth</private>\n> text",
        "| a | b |\n|---|---|\n| <private>hyacinth</private> | b |",
        "# <private>hyacinth</private>",
        "key:: <private>hyacinth</private>",
        "(key:: <private>hyacinth</private>)",
        "text <private>#hyacinth</private>",
        "<private>[[hyacinth]]</private>",
        "[[Note|<private>hyacinth</private>]]",
        "%% <private>hyacinth</private> %%",
        "`<private>` <private>hyacinth</private>",
        "<private>a\n```\nhyacinth\n```\nb</private>",
        "---\ntitle: <private>hyacinth</private>\n---\ntext",
        "---\ntags:\n  - <private>hyacinth</private>\n---\ntext",
        "^[a note <private>hyacinth</private>]",
        "漢字<private>hyacinth</private>漢字",
    ],
)
def test_a_private_span_is_in_nothing_that_comes_of_a_note(text: str) -> None:
    assert hides(text)
    assert note(text).screening is Screening.PARTS
    assert note(text).problems == ()


def test_what_stands_around_a_span_stays_where_it_was() -> None:
    text = "one\n<private>two\nthree\n</private> four\nfive #tag"
    found = note(text)
    assert found.text == "one\n[private]\n\n four\nfive #tag"
    assert found.tags == ("tag",)


def test_an_unclosed_span_hides_the_rest_and_says_so() -> None:
    text = "one\ntwo <private>hyacinth\n\n# hyacinth\n"
    found = note(text)
    assert SECRET not in repr(found)
    (problem,) = found.problems
    assert (problem.code, problem.line) == ("private-unclosed", 2)
    assert found.text.startswith("one\ntwo [private]")


def test_a_closing_tag_alone_hides_nothing() -> None:
    assert without_private("n.md", "a</private>b") == ("a</private>b", ())


@pytest.mark.parametrize(
    "text",
    [
        "`<private>hyacinth</private>`",
        "```\n<private>hyacinth</private>\n```",
        "~~~html\n<private>\nhyacinth\n</private>\n~~~",
        "> ```\n> <private>hyacinth</private>\n> ```",
    ],
)
def test_tags_in_code_are_text_about_tags(text: str) -> None:
    assert not hides(text)
    assert note(text).screening is Screening.NOTHING


def test_a_tag_in_code_does_not_close_a_span() -> None:
    assert hides("<private>a `</private>` hyacinth</private>")


def test_a_secret_within_a_span_is_not_told_of() -> None:
    assert note(f"<private>{TOKEN}</private>").findings == ()
    (finding,) = note(f"<private>a\n{TOKEN}</private>\n{TOKEN}").findings
    assert finding.line == 3


def test_cutting_a_span_out_does_not_hide_a_secret_behind_it() -> None:
    for text in (f"<private>x</private>{TOKEN}", f"{TOKEN}<private>x</private>"):
        assert TOKEN not in note(text).text


# Canvases


def test_a_private_span_of_a_card_is_kept_out() -> None:
    found = note(canvas("one", "two <private>hyacinth</private>", "three"), "n.canvas")
    assert SECRET not in repr(found)
    assert "three" in found.text
    assert "[private]" in found.text


def test_a_span_that_a_card_does_not_close_ends_with_the_card() -> None:
    found = note(canvas("<private>hyacinth", "two"), "n.canvas")
    assert SECRET not in repr(found)
    assert "two" in found.text
    assert [problem.code for problem in found.problems] == ["private-unclosed"]


def test_an_open_code_block_of_one_card_does_not_show_what_the_next_one_hides() -> None:
    assert hides(canvas("```\ncode", "<private>hyacinth</private>"), "n.canvas")


def test_labels_of_arrows_and_groups_are_kept_out_too() -> None:
    board = {
        "nodes": [
            {"id": "a", "type": "text", "text": "one"},
            {"id": "b", "type": "group", "label": "<private>hyacinth</private>"},
            {"id": "c", "type": "link", "url": "https://x.test/<private>hyacinth</private>"},
        ],
        "edges": [
            {"id": "e", "fromNode": "a", "toNode": "b", "label": "<private>hyacinth</private>"}
        ],
    }
    assert hides(json.dumps(board), "n.canvas")


# The switch


@pytest.mark.parametrize(
    "block",
    [
        "private: true",
        "private: True",
        "PRIVATE: TRUE",
        "private:   true   ",
        "private: true # for now",
        'private: "true"',
        "'private': yes",
        "private: on",
        "title: a\nprivate: true\ntags: [x]",
        "a: [\nprivate: true",
        "title: a: b: c\nprivate: true",
        "\tbroken\nprivate: true",
        "private: true\nprivate: false",
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_note_that_says_it_is_private_is_known_by_its_name_only(block: str, newline: str) -> None:
    text = f"---\n{block}\n---\n# hyacinth\n\nhyacinth #hyacinth [[hyacinth]]\n"
    found = note(text.replace("\n", newline), "Diary/One.md")
    assert SECRET not in repr(found)
    assert found.screening is Screening.WITHHELD
    assert (found.title, found.text, found.tags, found.links) == ("One", "", (), ())
    assert found.problems == ()


@pytest.mark.parametrize(
    "text",
    [
        "---\nprivate: false\n---\nhyacinth",
        "---\nprivate:\n---\nhyacinth",
        "---\nprivate: truely\n---\nhyacinth",
        "---\nnotprivate: true\n---\nhyacinth",
        "---\nprivate-ish: true\n---\nhyacinth",
        "---\na:\n  private: true\n---\nhyacinth",
        "private: true\n\nhyacinth",
        "hyacinth\n\n---\nprivate: true\n---\n",
        "---\ntitle: x\n---\n\nprivate: true\nhyacinth",
    ],
)
def test_a_note_that_does_not_say_so_is_read(text: str) -> None:
    assert not hides(text)
    assert not is_private(text, "private")


def test_a_note_with_a_byte_order_mark_or_of_another_encoding_can_be_private() -> None:
    text = "---\nprivate: true\n---\nhyacinth"
    for data in (b"\xef\xbb\xbf" + text.encode(), text.encode("utf-16")):
        assert parse("n.md", data, Screen()).screening is Screening.WITHHELD


def test_the_property_may_have_another_name_or_none() -> None:
    text = "---\nno.search: true\n---\nhyacinth"
    assert note(text, screen=Screen(switch="no.search")).screening is Screening.WITHHELD
    assert note(text.replace(".", "x"), screen=Screen(switch="no.search")).text != ""
    assert note("---\nprivate: true\n---\nhyacinth", screen=Screen(switch="")).text != ""


def test_spans_and_switch_hold_where_secrets_are_not_looked_for() -> None:
    for secrets in ("off", "report"):
        screen = Screen(secrets=secrets)
        assert SECRET not in note("a <private>hyacinth</private>", screen=screen).text
        assert note("---\nprivate: true\n---\nhyacinth", screen=screen).text == ""
