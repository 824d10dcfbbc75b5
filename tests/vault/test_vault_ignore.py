"""Which notes stay out of search: conflict copies, Obsidian's excluded files, the globs of ours."""

import json
from pathlib import Path

import pytest

from vaultmem.vault.ignore import compile_rules
from vaultmem.vault.obsidian import read_obsidian


def reason(vault: Path, path: str, *globs: str) -> str | None:
    rules, problems = compile_rules(read_obsidian(vault), globs)
    assert problems == ()
    return rules.reason(path)


def obsidian_excludes(vault: Path, *filters: object) -> None:
    settings = vault / ".obsidian" / "app.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps({"userIgnoreFilters": filters}), encoding="utf-8")


@pytest.mark.parametrize(
    "path",
    [
        "Note.sync-conflict-20261130-101500-ABCDEF7.md",
        "Note (conflicted copy 2026-11-30).md",
        "Note (Ann's conflicted copy 2026-11-30).md",
        "deep/Note (Conflicted copy Phone 202611301015).md",
    ],
)
def test_a_copy_made_by_a_sync_service_is_named_as_such(tmp_path: Path, path: str) -> None:
    assert reason(tmp_path, path) == "conflict copy made by a sync service"


@pytest.mark.parametrize(
    "path",
    [
        "Note.md",
        "How a conflicted copy comes about.md",
        "sync-conflict.md",
        "Note (copy).md",
        "Note (about conflicted copies).md",
    ],
)
def test_a_note_that_merely_sounds_like_a_conflict_copy_is_kept(tmp_path: Path, path: str) -> None:
    assert reason(tmp_path, path) is None


@pytest.mark.parametrize(
    ("glob", "path", "excluded"),
    [
        ("Archive", "Archive/a.md", True),
        ("Archive", "deep/Archive/er/a.md", True),
        ("Archive/", "Archive/a.md", True),
        ("Archive", "Archived/a.md", False),
        ("Archive", "My Archive/a.md", False),
        ("*.draft.md", "a.draft.md", True),
        ("*.draft.md", "deep/a.draft.md", True),
        ("*.draft.md", "a.md", False),
        ("a.md", "a.md", True),
        ("a.md", "deep/a.md", True),
        ("a.md", "ba.md", False),
        ("one/two", "one/two/a.md", True),
        ("one/two", "one/two/three/a.md", True),
        ("one/two", "zero/one/two/a.md", False),
        ("one/*.md", "one/a.md", True),
        ("one/*.md", "a.md", False),
        ("note?.md", "note1.md", True),
        ("note?.md", "note12.md", False),
        ("note[12].md", "note2.md", True),
        ("note[12].md", "note3.md", False),
        ("a+b (c).md", "a+b (c).md", True),
    ],
)
def test_a_glob_matches_a_path_a_name_or_a_folder(
    tmp_path: Path, glob: str, path: str, excluded: bool
) -> None:
    assert reason(tmp_path, path, glob) == (f"setting scan.ignore: {glob}" if excluded else None)


@pytest.mark.parametrize(
    ("source", "path", "excluded"),
    [
        ("Archive/", "Archive/a.md", True),
        ("Archive/", "deep/Archive/a.md", False),
        ("Arch", "Archive/a.md", True),
        ("secret.md", "secret.md", True),
        (r"/\.draft\.md$/", "deep/a.draft.md", True),
        (r"/\.DRAFT\.md$/", "a.draft.md", True),
        (r"/\.draft\.md$/", "a.draft.md/b.md", False),
        ("/^daily/", "daily/a.md", True),
        ("/^daily/", "my daily/a.md", False),
    ],
)
def test_obsidians_excluded_files_are_prefixes_or_expressions(
    tmp_path: Path, source: str, path: str, excluded: bool
) -> None:
    obsidian_excludes(tmp_path, source)

    found = reason(tmp_path, path)

    assert found == (f"Obsidian's excluded files: {source}" if excluded else None)


def test_an_excluded_files_rule_that_is_no_expression_is_reported_and_others_hold(
    tmp_path: Path,
) -> None:
    obsidian_excludes(tmp_path, "/[/", "Archive/")

    rules, problems = compile_rules(read_obsidian(tmp_path), ())

    assert [(problem.path, problem.code) for problem in problems] == [
        (".obsidian/app.json", "ignore-rule-invalid")
    ]
    assert "/[/" in problems[0].message
    assert rules.reason("Archive/a.md") is not None
    assert rules.reason("[.md") is None


@pytest.mark.parametrize(
    "data",
    [b"{", b"\xff\xfe\x00", b"[" * 5000],
    ids=["cut short", "no UTF-8", "nested without end"],
)
def test_settings_of_obsidian_that_are_no_json_are_reported_and_exclude_nothing(
    tmp_path: Path, data: bytes
) -> None:
    obsidian_excludes(tmp_path)
    (tmp_path / ".obsidian/app.json").write_bytes(data)

    rules, problems = compile_rules(read_obsidian(tmp_path), ())

    assert [problem.code for problem in problems] == ["obsidian-settings-invalid"]
    assert rules.reason("a.md") is None


@pytest.mark.parametrize(
    "text", ["[]", "{}", "3", '{"userIgnoreFilters": "Archive/"}', '{"userIgnoreFilters": null}']
)
def test_settings_of_an_unknown_shape_exclude_nothing(tmp_path: Path, text: str) -> None:
    obsidian_excludes(tmp_path)
    (tmp_path / ".obsidian/app.json").write_text(text, encoding="utf-8")

    assert reason(tmp_path, "Archive/a.md") is None


def test_an_entry_that_says_nothing_is_passed_over(tmp_path: Path) -> None:
    obsidian_excludes(tmp_path, 7, None, "", "/", "//", "Archive/")

    assert reason(tmp_path, "Archive/a.md") is not None
    assert reason(tmp_path, "a.md") is None


def test_settings_with_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    obsidian_excludes(tmp_path, "Archive/")
    file = tmp_path / ".obsidian/app.json"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())

    assert reason(tmp_path, "Archive/a.md") is not None


def test_a_vault_without_obsidian_excludes_nothing(tmp_path: Path) -> None:
    assert reason(tmp_path, "a.md") is None
