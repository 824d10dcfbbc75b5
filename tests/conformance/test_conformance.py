"""vaultmem reads a vault as Obsidian does: the cases of both files, through run.py."""

import json
from collections import Counter
from pathlib import Path

import pytest
from run import ADAPTERS, Case, judge, load_cases, main

CASES = list(load_cases(Path(__file__).with_name("obsidian.jsonl")))
MORE = list(load_cases(Path(__file__).with_name("more.jsonl")))


@pytest.mark.parametrize("case", [*CASES, *MORE], ids=lambda case: case.id)
def test_vaultmem_answers_as_obsidian_does(case: Case) -> None:
    verdict = judge(case)

    assert verdict.passed, verdict.why


def test_every_adapter_is_asked_for_and_every_op_has_one() -> None:
    assert {case.op for case in CASES} == set(ADAPTERS)


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
        {**right, "id": "incomplete", "ask": {"op": "linktext"}, "expect": {"linktext": "n"}},
        {**right, "id": "unheard-of", "ask": {"op": "telepathy"}, "expect": {}},
    ]
    file = tmp_path / "cases.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")

    code = main([str(file)])

    printed = capsys.readouterr().out
    assert code == 1
    assert printed.endswith("1 passed, 3 failed\n")
    assert "right" not in printed
    assert all(name in printed for name in ("wrong", "incomplete", "unheard-of"))


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


@pytest.mark.parametrize(
    ("links", "passes"),
    [
        ([{"link": "A"}, {"link": "B"}], True),
        ([{"link": "A", "display": "x"}, {"link": "B", "embed": True}], True),
        ([{"link": "A", "subpath": "#h", "line": 0}, {"link": "B", "unheard": 1}], False),
        ([{"link": "A"}, {"link": "C"}], False),
        ([{"link": "A"}], False),
        ([], False),
        ([{"link": "A", "display": "y"}, {"link": "B"}], False),
        ([{"link": "A"}, {"link": "B"}, {"link": "B"}], False),
    ],
)
def test_of_a_link_only_what_the_case_names_is_compared(
    links: list[dict[str, object]], passes: bool
) -> None:
    case = Case(
        "fields",
        "extract",
        {"n.md": "[[A#h|x]]\n![[B]]\n"},
        {"op": "links", "path": "n.md"},
        {"links": links, "note": "a comment"},
    )

    assert judge(case).passed == passes


def test_counts_and_properties_are_compared_whole() -> None:
    files = {"n.md": "---\na: 1\nb: 2\n---\n[[n]] [[x]]\n"}
    graph = {"op": "graph", "path": "n.md"}
    block = {"op": "frontmatter", "path": "n.md"}

    assert judge(Case("", "", files, graph, {"resolved": {"n.md": 1}})).passed
    assert not judge(Case("", "", files, graph, {"unresolved": {}})).passed
    assert judge(Case("", "", files, block, {"props": {"a": 1, "b": 2}})).passed
    assert not judge(Case("", "", files, block, {"props": {"a": 1}})).passed
    assert not judge(Case("", "", files, block, {"note": "asks nothing"})).passed


def test_a_file_of_cases_may_hold_more_and_less_than_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = [
        {
            "id": "more",
            "area": "tags",
            "files": {"n.md": "#a"},
            "ask": {"op": "tags", "path": "n.md", "why": "?"},
            "expect": {"tags": ["a"], "note": "one"},
            "source": "here",
            "weight": 3,
        },
        {
            "id": "less",
            "ask": {"op": "strip_heading_for_link", "text": "a: b"},
            "expect": {"text": "a b"},
        },
    ]
    file = tmp_path / "cases.jsonl"
    file.write_text("".join(f"{json.dumps(case)}\n\n" for case in cases), encoding="utf-8")

    assert main([str(file)]) == 0
    assert capsys.readouterr().out == "2 passed, 0 failed\n"


@pytest.mark.parametrize(
    ("configuration", "asked", "written"),
    [
        (None, {}, "Note"),
        ("{}", {}, "Note"),
        ('{"newLinkFormat": "absolute"}', {}, "a/Note"),
        ('{"newLinkFormat": "relative"}', {}, "../a/Note"),
        ('{"newLinkFormat": "relative"}', {"format": "absolute"}, "a/Note"),
    ],
)
def test_a_link_takes_the_format_asked_for_or_the_vaults_own(
    configuration: str | None, asked: dict[str, str], written: str
) -> None:
    files = {"a/Note.md": "", "b/src.md": ""}
    if configuration is not None:
        files[".obsidian/app.json"] = configuration
    link = {"target": "a/Note.md", "from": "b/src.md", **asked}

    text = judge(Case("", "", files, {"op": "linktext", **link}, {"linktext": written}))
    whole = judge(Case("", "", files, {"op": "markdown_link", **link, "display": "w"}, {}))

    assert text.passed, text.why
    assert f"[w]({written}.md)" in whole.why
