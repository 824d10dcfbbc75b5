"""Bugs that users of other programs have reported, and that must not be ours.

Each folder of tests/data/reports holds a vault and expect.md, which says what is right and what
others did.
"""

import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from vaultmem.model.note import Note
from vaultmem.vault.ignore import compile_rules
from vaultmem.vault.links import VaultNames
from vaultmem.vault.obsidian import read_obsidian
from vaultmem.vault.parse import parse
from vaultmem.vault.scan import scan
from vaultmem.vault.subpath import Place, find_place

REPORTS = Path(__file__).parents[1] / "data" / "reports"
FORMS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")


def read_vault(report: str) -> dict[str, Note]:
    vault = REPORTS / report / "vault"
    rules, _ = compile_rules(read_obsidian(vault), ())
    snapshot = scan(vault, rules, max_note_bytes=1 << 20)
    assert snapshot.problems == ()
    return {
        path: parse(path, Path(os.path.join(vault, state.disk_path)).read_bytes())
        for path, state in snapshot.notes.items()
    }


@pytest.mark.parametrize(
    ("heading", "first", "last"),
    [
        ("Información del taller – lunes", 3, 6),
        ("INFORMACIÓN DEL TALLER – LUNES", 3, 6),
        ("待整理", 7, 10),
        ("Yapılacaklar İÖÜÇĞ", 11, None),
        ("yapılacaklar i\u0307öüçğ", 11, None),
    ],
)
def test_10_a_heading_is_found_in_whichever_form_its_letters_are_typed_or_stored(
    heading: str, first: int, last: int | None
) -> None:
    text = (REPORTS / "10-non-ascii-heading/vault/Bitácora.md").read_text("utf-8")
    for stored in FORMS:
        note = parse("Bitácora.md", unicodedata.normalize(stored, text).encode())
        for typed in FORMS:
            place = find_place(note, "#" + unicodedata.normalize(typed, heading))
            assert place == Place("heading", first, last)
            nested = find_place(note, unicodedata.normalize(typed, f"#bitácora#{heading}"))
            assert nested == Place("heading", first, last)


def test_10_another_letter_is_another_heading() -> None:
    (note,) = read_vault("10-non-ascii-heading").values()

    for heading in ("Informacion del taller – lunes", "待整", "Yapilacaklar İÖÜÇĞ"):
        assert find_place(note, "#" + heading) is None


def test_17_a_link_to_a_heading_is_no_tag() -> None:
    notes = read_vault("17-heading-link-is-no-tag")

    assert notes["Plan.md"].tags == ("garden/beds", "公共事务", "to-do", "a/b", "ff8800")
    assert notes["Other.md"].tags == ()


def test_17_the_links_beside_the_tags_are_links() -> None:
    plan = read_vault("17-heading-link-is-no-tag")["Plan.md"]

    assert [(link.target, link.subpath, link.display) for link in plan.links] == [
        ("", "#Front bed", None),
        ("Other", "#Rear bed", "rear"),
    ]
    assert plan.problems == ()


def test_17_the_task_keeps_its_link_and_its_tags_in_order() -> None:
    (task,) = read_vault("17-heading-link-is-no-tag")["Plan.md"].tasks

    assert task.text == "water [[#Front bed]] #公共事务 #to-do, #a/b."


def test_20_aliases_are_the_texts_that_yaml_1_2_makes_of_them() -> None:
    notes = read_vault("20-typed-alias-values")

    assert notes["Nan Okafor.md"].aliases == ("NaN", "Nan", "2026-05-04", "yes", 'say "hi"')
    assert notes["One.md"].aliases == ("just one, or two",)
    assert {type(alias) for note in notes.values() for alias in note.aliases} == {str}


def test_20_a_mapping_among_aliases_is_reported_and_skipped() -> None:
    problems = read_vault("20-typed-alias-values")["One.md"].problems

    assert [problem.code for problem in problems] == ["property-invalid"]


def test_20_unquoted_links_in_properties_are_lists_and_lead_nowhere() -> None:
    notes = read_vault("20-typed-alias-values")
    names = VaultNames(notes)

    found = [
        (link.key, link.target, names.resolve(link.target, "Links.md"))
        for link in notes["Links.md"].links
    ]

    assert found == [(None, "2022-05", "2022-05.md"), ("up", "One", "One.md")]
    assert notes["Links.md"].frontmatter.properties["prev"] == [["2022-05"]]
    assert notes["Links.md"].frontmatter.properties["next"] == [[["2022 - 05"]], [["2022_05"]]]


def test_20_no_value_becomes_a_date_or_no_number_at_all() -> None:
    notes = read_vault("20-typed-alias-values").values()

    values = [value for note in notes for value in leaves(note.frontmatter.properties)]

    assert {type(value) for value in values} == {str, int, float, type(None)}
    assert [value for value in values if isinstance(value, int | float)] == [7, 1.1]


def leaves(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from leaves(part)
    else:
        yield value
