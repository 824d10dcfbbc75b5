"""Facts that follow from a note's text and place: kind, date, identity, stub."""

import json
from datetime import date
from pathlib import Path

import pytest

from vaultmem.model.note import Note
from vaultmem.vault.facts import (
    STUB_WORDS,
    KindRules,
    is_stub,
    kind_rules,
    note_date,
    note_identity,
    note_kind,
)
from vaultmem.vault.obsidian import read_obsidian
from vaultmem.vault.parse import parse

NO_RULES = KindRules({})


def note(text: str = "", path: str = "n.md") -> Note:
    return parse(path, text.encode())


def with_property(yaml: str, path: str = "n.md") -> Note:
    return note(f"---\n{yaml}\n---\ntext\n", path)


@pytest.mark.parametrize(
    ("yaml", "kind"),
    [
        ("type: decision", "decision"),
        ("type: ' Decision '", "decision"),
        ("type: 漢字", "漢字"),
        ("type: two  Words", "two words"),
        ("Type: Problem", "problem"),
        ('type: "[[Concept]]"', "concept"),
        ("type: a,b", "note"),
        ("type: ''", "note"),
        ("type: 7", "note"),
        ("type: [decision]", "decision"),
        (f"type: {'x' * 41}", "note"),
        ("kind: decision", "note"),
    ],
)
def test_a_note_says_its_kind(yaml: str, kind: str) -> None:
    assert note_kind(with_property(yaml), NO_RULES) == kind


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("Work/Meetings/a.md", "meeting"),
        ("Work/Meetings/deep/er/a.md", "meeting"),
        ("Work/a.md", "project"),
        ("Work/Other/a.md", "project"),
        ("Works/a.md", "note"),
        ("a/Work/a.md", "note"),
        ("Work.md", "note"),
    ],
)
def test_the_nearest_named_folder_gives_the_kind(path: str, kind: str) -> None:
    rules = KindRules({"Work": "project", "Work/Meetings": "meeting"})

    assert note_kind(note(path=path), rules) == kind


def test_what_a_note_says_beats_its_folder_and_its_folder_beats_its_name() -> None:
    rules = KindRules({"Log": "log"})

    assert note_kind(with_property("type: idea", "Log/2026-11-30.md"), rules) == "idea"
    assert note_kind(note(path="Log/2026-11-30.md"), rules) == "log"
    assert note_kind(note(path="2026-11-30.md"), rules) == "daily"


def test_whatever_stands_in_the_template_folder_is_a_template() -> None:
    rules = KindRules({"Templates": "other"}, ("Templates",))

    assert note_kind(with_property("type: decision", "Templates/a.md"), rules) == "template"
    assert note_kind(note(path="Templates/deep/a.md"), rules) == "template"
    assert note_kind(note(path="Templates2/a.md"), rules) == "note"


@pytest.mark.parametrize("name", ["2026-11-30 Meeting", "On 2026-11-30", "2026-11", "20261130"])
def test_only_a_name_that_is_a_day_makes_a_daily_note(name: str) -> None:
    assert note_kind(note(path=f"{name}.md"), NO_RULES) == "note"


@pytest.mark.parametrize(
    ("settings", "templates"),
    [
        ('{"folder": "Templates"}', "Templates"),
        ('{"folder": "/Meta/Templates/"}', "Meta/Templates"),
        ('\ufeff{"folder": "T"}', "T"),
        ('{"folder": ""}', None),
        ('{"folder": "/"}', None),
        ('{"folder": ".hidden"}', None),
        ('{"folder": 7}', None),
        ("{}", None),
        ("[]", None),
        ("{", None),
        ("[" * 5000, None),
        (None, None),
    ],
)
def test_the_template_folder_is_the_one_obsidian_uses(
    tmp_path: Path, settings: str | None, templates: str | None
) -> None:
    if settings is not None:
        (tmp_path / ".obsidian").mkdir()
        (tmp_path / ".obsidian/templates.json").write_text(settings, encoding="utf-8")

    rules = kind_rules(read_obsidian(tmp_path), {"A": "a"})

    assert rules.templates == ((templates,) if templates else ())
    assert rules.folders == {"A": "a"}


def test_rules_that_differ_have_different_fingerprints() -> None:
    rules = [
        NO_RULES,
        KindRules({"A": "a"}),
        KindRules({"A": "b"}),
        KindRules({"B": "a"}),
        KindRules({"A": "a"}, ("T",)),
    ]

    assert len({rule.fingerprint for rule in rules}) == len(rules)
    assert (
        KindRules({"A": "a", "B": "b"}).fingerprint == KindRules({"B": "b", "A": "a"}).fingerprint
    )


@pytest.mark.parametrize(
    ("yaml", "day"),
    [
        ("date: 2026-11-30", date(2026, 11, 30)),
        ("date: '2026-11-30'", date(2026, 11, 30)),
        ("date: 2026-11-30T23:59:59", date(2026, 11, 30)),
        ("Date: 2026-11-30", date(2026, 11, 30)),
        ("created: 2026-11-30", date(2026, 11, 30)),
        ("created_at: 2026-11-30", date(2026, 11, 30)),
        ("created-at: 2026-11-30", date(2026, 11, 30)),
        ("creation date: 2026-11-30", date(2026, 11, 30)),
        ("created: 2025-01-01\ndate: 2026-11-30", date(2026, 11, 30)),
        ("date: soon\ncreated: 2026-11-30", date(2026, 11, 30)),
        ("date: 2026-02-30\ncreated: 2026-11-30", date(2026, 11, 30)),
        ("date: 2026-02-30", None),
        ("date: 0000-01-01", None),
        ("date: 20261130", None),
        ("date: 12026-11-30", None),
        ("date: [2026-11-30]", None),
        ("modified: 2026-11-30", None),
    ],
)
def test_a_date_property_tells_the_day_of_a_note(yaml: str, day: date | None) -> None:
    assert note_date(with_property(yaml)) == day


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("2026-11-30.md", date(2026, 11, 30)),
        ("Log/2026-11-30 Meeting.md", date(2026, 11, 30)),
        ("Meeting 2026-11-30.md", date(2026, 11, 30)),
        ("2026-11-30/a.md", None),
        ("2026-13-30.md", None),
        ("a.md", None),
    ],
)
def test_without_a_date_property_the_name_tells_the_day_and_then_the_file(
    path: str, day: date | None
) -> None:
    assert note_date(note("text 2020-01-01\n", path)) == day


def test_a_date_property_beats_the_name() -> None:
    assert note_date(with_property("date: 2026-11-30", "2025-01-01.md")) == date(2026, 11, 30)


@pytest.mark.parametrize(
    ("yaml", "identity"),
    [
        ("id: abc", "abc"),
        ("id: ' abc '", "abc"),
        ("id: 202611301200", "202611301200"),
        ("id: '007'", "007"),
        (f"id: {'x' * 300}", "x" * 200),
        ("id: ''", None),
        ("id: '  '", None),
        ("id:", None),
        ("id: true", None),
        ("id: 1.5", None),
        ("id: [abc]", None),
        ("uid: abc", None),
    ],
)
def test_the_identity_is_a_text_or_a_whole_number(yaml: str, identity: str | None) -> None:
    assert note_identity(with_property(yaml)) == identity


def test_an_identity_too_long_to_print_raises_nothing() -> None:
    note_identity(with_property("id: 0x" + "f" * 4000))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# Heading\n",
        "# A\n## B\n### C\n",
        "a few words only\n",
        "---\nsummary: " + "many words in the properties " * 10 + "\n---\nshort\n",
        "# " + "A heading of a good many words that says nothing more below " * 2 + "\n",
        "\n" * 200,
    ],
    ids=["empty", "heading", "headings", "few words", "properties", "long heading", "blank lines"],
)
def test_a_note_with_next_to_no_text_of_its_own_is_a_stub(text: str) -> None:
    assert is_stub(note(text))


@pytest.mark.parametrize(
    "text",
    [
        "word " * STUB_WORDS,
        "# Heading\n\n" + "word " * STUB_WORDS,
        "a b c\n" * 4,
        "这是一个没有空格的句子，说的是同一件事情。" * 5,
        "#tag " + "word " * STUB_WORDS,
    ],
    ids=["words", "below a heading", "over lines", "without blanks", "behind a tag"],
)
def test_a_note_with_text_is_no_stub(text: str) -> None:
    assert not is_stub(note(text))


def test_one_word_less_than_the_limit_makes_a_stub() -> None:
    assert is_stub(note("word " * (STUB_WORDS - 1)))


def test_facts_are_plain_values() -> None:
    found = with_property("id: 7\ntype: idea\ndate: 2026-11-30")

    json.dumps([note_kind(found, NO_RULES), note_identity(found), is_stub(found)])
