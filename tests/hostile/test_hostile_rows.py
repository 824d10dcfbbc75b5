"""Each input of the hostile vault belongs to the class that its row says."""

import json
from collections.abc import Callable

import pytest
from hostile_vaults import VARIANTS, Asked, Row, all_rows, note_of, shown

pytest_plugins = ["hostile_fixtures"]

# How many problem lines may name a file of each class.
LINES = {
    "index": (0,),
    "index_warn": (1,),
    "skip_warn": (1,),
    "skip": (0,),
    "no_follow": (0, 1),
}
# UTF-16 and UTF-32 may be decoded by their byte order mark or left out; both are reported.
DECODED_OR_NOT = ("enc-utf16le", "enc-utf16be", "enc-utf32")


def faults(asked: Asked, row: Row) -> list[str]:
    """In what a row's input does not belong to its class."""
    path, note = asked.spelled(row["path"]), asked.spelled(note_of(row))
    expect = row["expect"]
    lines = LINES[expect]
    if row.get("injection"):
        lines = (0, 1)  # what is flagged is counted, not demanded
    wrong = []
    named = asked.problems(path)
    if len(named) not in lines:
        wrong.append(f"{len(named)} problem lines: {named}")
    linted = [p["message"] for p in asked.answers["lint"]["problems"] if p["path"] == path]
    if linted != named:
        wrong.append(f"lint names it otherwise: {linted}")
    text = asked.answers["texts"].get(note)
    found = asked.answers["found"].get(row["id"], [])
    if expect in ("index", "index_warn"):
        if text is None:
            wrong.append("it is not in the index")
        if holds_needle(asked, row) and found[:1] != [[note, []]]:
            wrong.append(f"the first hit for its needle is {found[:1]}")
    elif expect == "skip_warn":
        if row["id"] not in DECODED_OR_NOT and text:
            wrong.append(f"{text} characters of it are in the index")
    elif text is not None or any(hit == note for hit, _ in found):
        wrong.append("it is in the index")
    return wrong


def holds_needle(asked: Asked, row: Row) -> bool:
    """Whether a row's file has its needle; an empty file has none."""
    if "needle" not in row:
        return False
    file = asked.vault / (note_of(row) if row["group"] == "special" else row["path"])
    return row["needle"].encode() in file.read_bytes()


def closed(asked: Asked, row: Row) -> bool:
    """Whether the row is about permissions, which root has all of."""
    return row["id"] == "sp-mode-000" and asked.reads_everything


@pytest.mark.parametrize("row", all_rows(), ids=lambda row: row["id"])
def test_an_input_belongs_to_the_class_of_its_row(first: Asked, row: Row) -> None:
    if row["id"] in first.not_written:
        pytest.skip("this file system refuses it")
    assert not closed(first, row)
    assert faults(first, row) == []


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "first"])
@pytest.mark.parametrize("expect", LINES)
def test_other_seeds_have_the_same_classes(
    hostile_vault: Callable[[str], Asked], name: str, expect: str
) -> None:
    asked = hostile_vault(name)
    rows = [row for row in asked.rows if row["expect"] == expect and not closed(asked, row)]
    assert len(rows) >= 9
    assert {row["id"]: faults(asked, row) for row in rows if faults(asked, row)} == {}


def test_every_problem_line_names_an_input(first: Asked) -> None:
    paths = {first.spelled(row["path"]) for row in first.rows}
    problems = first.answers["index"]["problems"]
    assert problems
    # What a sync service has not fetched is told of in one line a folder.
    folders = {path.rpartition("/")[0] for path in paths}
    away = [p for p in problems if p["code"] == "not-here"]
    assert [p["path"] in folders for p in away] == [True]
    assert [p for p in problems if p["path"] not in paths and p not in away] == []


def test_no_name_forges_a_line_of_the_report(first: Asked) -> None:
    problems = first.answers["lint"]["problems"]
    said = first.answers["commands"]["lint"]["out"].splitlines()
    (head,) = [number for number, line in enumerate(said) if line.startswith("Problems: ")]
    assert said[head] == f"Problems: {len(problems)}"
    assert len(said) == head + 1 + len(problems)


def test_a_reading_never_fails_on_an_indexed_input(first: Asked) -> None:
    replies = first.answers["read"] | first.answers["related"]
    assert len(replies) > 700
    # A name with backslashes is a path on another system, and is refused as one.
    failed = {path for path, reply in replies.items() if "error" in reply}
    assert failed <= {"names/..\\..\\escape.md"}


def test_a_letter_with_an_accent_is_found_however_it_is_put_together(first: Asked) -> None:
    for paths in first.answers["spelled"].values():
        assert {"encoding/enc-nfc.md", "encoding/enc-nfd.md"} <= set(paths)


def test_a_byte_order_mark_does_not_hide_the_properties(first: Asked) -> None:
    assert first.answers["read"]["frontmatter/fm-bom.md"]["title"] == "bom"
    assert first.answers["read"]["frontmatter/fm-crlf.md"]["title"] == "crlf"


def test_no_note_raises_its_own_rank(first: Asked) -> None:
    spoof = json.dumps(first.answers["read"]["frontmatter/fm-spoof-owned.md"])
    assert "constitutional" in spoof  # it is the user's text, and shown as that
    (hit, *_) = first.answers["found"]["fm-spoof-owned"]
    assert hit == ["frontmatter/fm-spoof-owned.md", []]


def test_how_many_injections_are_flagged_is_recorded(
    first: Asked, record_testsuite_property: Callable[[str, object], None]
) -> None:
    rows = [row for row in first.rows if row["group"] == "injection"]
    flagged = [row["id"] for row in rows if first.problems(shown(row["path"]))]
    injections = [row["id"] for row in rows if row["injection"]]
    assert len(injections) == 32
    record_testsuite_property("injections flagged, of 32", len(set(flagged) & set(injections)))
    print(f"{len(set(flagged) & set(injections))} of 32 injections are flagged: {flagged}")
    assert set(flagged) <= set(injections)


# The judgement itself


@pytest.mark.parametrize(
    ("expect", "taken_from"),
    [
        ("index", "fm-unclosed"),
        ("index", "nm-swp"),
        ("index_warn", "fm-empty"),
        ("skip_warn", "fm-unclosed"),
        ("skip", "fm-empty"),
        ("skip", "sp-fifo"),
        ("no_follow", "sp-inside-target"),
    ],
)
def test_an_input_of_another_class_is_noticed(first: Asked, expect: str, taken_from: str) -> None:
    (row,) = [row for row in first.rows if row["id"] == taken_from]
    assert faults(first, row) == []
    assert faults(first, {**row, "expect": expect}) != []
