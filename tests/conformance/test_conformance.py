"""vaultmem reads a vault as Obsidian does: the cases of obsidian.jsonl, through run.py."""

import json
from collections import Counter
from pathlib import Path

import pytest
from run import ADAPTERS, NOT_YET, Case, judge, load_cases, main

CASES = list(load_cases(Path(__file__).with_name("obsidian.jsonl")))

# Cases of ops that exist, which vaultmem does not answer yet.
GAPS = {
    "sub-018": "find_place knows headings and blocks; footnote places are not looked for",
}

ANSWERED = [case for case in CASES if case.op not in NOT_YET and case.id not in GAPS]


@pytest.mark.parametrize("case", ANSWERED, ids=lambda case: case.id)
def test_vaultmem_answers_as_obsidian_does(case: Case) -> None:
    verdict = judge(case)

    assert verdict.passed, verdict.why


@pytest.mark.parametrize(
    "case", [case for case in CASES if case not in ANSWERED], ids=lambda case: case.id
)
def test_a_case_listed_as_not_yet_does_fail(case: Case) -> None:
    assert not judge(case).passed, "it passes now: take it off the list"


def test_every_op_has_an_adapter_or_a_reason_why_not() -> None:
    ops = {case.op for case in CASES}

    assert ops == set(ADAPTERS) | set(NOT_YET)
    assert not set(ADAPTERS) & set(NOT_YET)


def test_ids_are_unique_and_every_area_is_there() -> None:
    areas = Counter(case.area for case in CASES)

    assert len({case.id for case in CASES}) == len(CASES) == 199
    assert areas == {
        "resolve": 39,
        "resolve-md": 9,
        "extract": 25,
        "extract-frontmatter": 5,
        "graph": 9,
        "tags": 28,
        "aliases": 6,
        "frontmatter": 25,
        "headings": 7,
        "subpath": 14,
        "blocks": 4,
        "heading-normalise": 3,
        "chunk": 10,
        "tasks": 3,
        "visibility": 5,
        "write-link": 7,
    }


def test_the_runner_names_what_failed_counts_it_and_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = {"id": "right", "area": "tags", "files": {"n.md": "#a"}, "source": "here"}
    ask = {"op": "tags", "path": "n.md"}
    cases = [
        {**right, "ask": ask, "expect": {"tags": ["a"]}},
        {**right, "id": "wrong", "ask": ask, "expect": {"tags": ["b"]}},
        {**right, "id": "no-code", "ask": {"op": "linktext"}, "expect": {"linktext": "n"}},
        {**right, "id": "unheard-of", "ask": {"op": "telepathy"}, "expect": {}},
    ]
    file = tmp_path / "cases.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")

    code = main([str(file)])

    printed = capsys.readouterr().out
    assert code == 1
    assert printed.endswith("1 passed, 3 failed\n")
    assert "right" not in printed
    assert all(name in printed for name in ("wrong", "no-code", "unheard-of"))


def test_the_runner_exits_with_0_when_all_pass_and_lists_them_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = {
        "id": "right",
        "area": "frontmatter",
        "files": {"n.md": "---\na: true\nb: 1\n---\n"},
        "ask": {"op": "frontmatter", "path": "n.md"},
        "expect": {"exists": True, "valid": True, "props": {"a": True, "b": 1}},
        "source": "here",
    }
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps(case), encoding="utf-8")

    assert main([str(file), "--list"]) == 0
    assert "right" in capsys.readouterr().out


def test_the_comparison_tells_true_from_1() -> None:
    case = Case(
        "typed",
        "frontmatter",
        {"n.md": "---\na: true\n---\n"},
        {"op": "frontmatter", "path": "n.md"},
        {"exists": True, "valid": True, "props": {"a": 1}},
    )

    assert not judge(case).passed
