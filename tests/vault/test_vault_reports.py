"""Bugs that users of other programs have reported, and that must not be ours.

Each folder of tests/data/reports holds a vault and expect.md, which says what is right and what
others did.
"""

import os
from pathlib import Path

from vaultmem.model.note import Note
from vaultmem.vault.ignore import load_rules
from vaultmem.vault.links import VaultNames
from vaultmem.vault.parse import parse
from vaultmem.vault.scan import scan

REPORTS = Path(__file__).parents[1] / "data" / "reports"


def read_vault(report: str) -> dict[str, Note]:
    vault = REPORTS / report / "vault"
    rules, _ = load_rules(vault, ())
    snapshot = scan(vault, rules, max_note_bytes=1 << 20)
    assert snapshot.problems == ()
    return {
        path: parse(path, Path(os.path.join(vault, state.disk_path)).read_bytes())
        for path, state in snapshot.notes.items()
    }


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


def test_20_aliases_are_the_texts_that_yaml_1_2_makes_of_them() -> None:
    notes = read_vault("20-typed-alias-values")

    assert notes["Nan Okafor.md"].aliases == ("NaN", "Nan", "2026-05-04", "yes", 'say "hi"')
    assert notes["One.md"].aliases == ("just one, or two",)


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
