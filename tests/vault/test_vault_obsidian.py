"""Obsidian's own settings as they stand in a vault: each key, and whatever else a file may hold."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from vaultmem.vault.facts import kind_rules
from vaultmem.vault.ignore import compile_rules
from vaultmem.vault.obsidian import (
    DAILY_FORMAT,
    USUAL_FOLDER,
    LinkFormat,
    ObsidianSettings,
    read_obsidian,
)
from vaultmem.vault.read import OBSIDIAN_FILE_BYTES

FILES = ("app.json", "daily-notes.json", "templates.json")
every_file = pytest.mark.parametrize("name", FILES)

# All that says anything, of one person.
APP = {
    "promptDelete": False,
    "userIgnoreFilters": ["Archive/", "/\\.draft\\.md$/"],
    "attachmentFolderPath": "Files/Pictures",
    "newLinkFormat": "relative",
    "useMarkdownLinks": True,
    "newFileLocation": "folder",
    "newFileFolderPath": "Inbox",
}
DAILY = {"folder": "Journal/Days", "format": "YYYY/MM/DD", "template": "Meta/Templates/Day"}
TEMPLATES = {"folder": "Meta/Templates", "dateFormat": "DD.MM.YYYY"}
ALL = {"app.json": APP, "daily-notes.json": DAILY, "templates.json": TEMPLATES}


def configure(vault: Path, files: Mapping[str, object], folder: str = USUAL_FOLDER) -> None:
    """Write settings files: name -> what stands in it; bytes stay as they are."""
    (vault / folder).mkdir(exist_ok=True)
    for name, content in files.items():
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (vault / folder / name).write_bytes(data)


def settings(vault: Path, name: str, content: object) -> ObsidianSettings:
    configure(vault, {name: content})
    found = read_obsidian(vault)
    assert found.problems == ()
    return found


def codes(found: ObsidianSettings) -> list[tuple[str, str]]:
    return [(problem.path, problem.code) for problem in found.problems]


def test_everything_that_a_vault_says_is_read(tmp_path: Path) -> None:
    configure(tmp_path, ALL)

    assert read_obsidian(tmp_path) == ObsidianSettings(
        folder=".obsidian",
        excluded=("Archive/", "/\\.draft\\.md$/"),
        attachment_folder="Files/Pictures",
        link_format=LinkFormat.RELATIVE,
        markdown_links=True,
        daily_folder="Journal/Days",
        daily_format="YYYY/MM/DD",
        daily_template="Meta/Templates/Day",
        template_folder="Meta/Templates",
        read=frozenset(f".obsidian/{name}" for name in FILES),
    )


@pytest.mark.parametrize("made", [False, True])
def test_a_vault_that_says_nothing_has_the_settings_of_a_new_one(
    tmp_path: Path, made: bool
) -> None:
    if made:
        configure(tmp_path, dict.fromkeys(FILES, b"{}"))

    found = read_obsidian(tmp_path)
    assert replace(found, read=frozenset()) == ObsidianSettings(folder=".obsidian")
    assert found.daily_format == DAILY_FORMAT == "YYYY-MM-DD"
    assert (len(found.read) == len(FILES)) == made


def test_a_vault_that_is_not_there_has_no_settings(tmp_path: Path) -> None:
    found = read_obsidian(tmp_path / "gone")

    assert (found.excluded, found.template_folder) == ((), None)
    assert {code for _, code in codes(found)} == {"obsidian-settings-unread"}


@pytest.mark.parametrize(
    ("written", "folder"),
    [
        ("/", ""),
        ("", ""),
        ("Files", "Files"),
        ("/Files/deep/", "Files/deep"),
        ("Files//deep", "Files/deep"),
        ("Anha\u0308nge", "Anhänge"),
        ("./", "./"),
        (".", "./"),
        ("./sub", "./sub"),
        ("./sub/deep/", "./sub/deep"),
        (".hidden", ".hidden"),
        (7, ""),
        (None, ""),
        (["Files"], ""),
    ],
)
def test_attachments_go_to_a_folder_of_the_vault_or_beside_the_note(
    tmp_path: Path, written: object, folder: str
) -> None:
    assert (
        settings(tmp_path, "app.json", {"attachmentFolderPath": written}).attachment_folder
        == folder
    )


@pytest.mark.parametrize(
    ("written", "link_format"),
    [
        ("shortest", LinkFormat.SHORTEST),
        ("relative", LinkFormat.RELATIVE),
        ("absolute", LinkFormat.ABSOLUTE),
        ("Absolute", LinkFormat.SHORTEST),
        ("another", LinkFormat.SHORTEST),
        ("\ud800", LinkFormat.SHORTEST),
        (1, LinkFormat.SHORTEST),
        (["absolute"], LinkFormat.SHORTEST),
    ],
)
def test_an_unknown_link_format_is_the_usual_one(
    tmp_path: Path, written: object, link_format: LinkFormat
) -> None:
    assert settings(tmp_path, "app.json", {"newLinkFormat": written}).link_format is link_format


@pytest.mark.parametrize(
    ("written", "markdown"), [(True, True), (False, False), ("true", False), (1, False)]
)
def test_markdown_links_are_wanted_by_a_true_alone(
    tmp_path: Path, written: object, markdown: bool
) -> None:
    assert settings(tmp_path, "app.json", {"useMarkdownLinks": written}).markdown_links is markdown


@pytest.mark.parametrize(
    ("daily", "folder", "written"),
    [
        ({"folder": "/Days/"}, "Days", DAILY_FORMAT),
        ({"folder": "/"}, "", DAILY_FORMAT),
        ({"folder": "Ta\u0308ge"}, "Täge", DAILY_FORMAT),
        ({"folder": 7, "format": 7}, "", DAILY_FORMAT),
        ({"format": ""}, "", DAILY_FORMAT),
        ({"format": "  "}, "", DAILY_FORMAT),
        ({"format": " DD.MM.YYYY "}, "", "DD.MM.YYYY"),
        ({"format": "/YYYY/[Tag] DD.MM/"}, "", "YYYY/[Tag] DD.MM"),
        ({"format": "[Ta\u0308glich] YYYY-MM-DD"}, "", "[Täglich] YYYY-MM-DD"),
        ({"format": "YYYY\ud800"}, "", "YYYY?"),
    ],
)
def test_daily_notes_have_a_folder_and_a_format(
    tmp_path: Path, daily: object, folder: str, written: str
) -> None:
    found = settings(tmp_path, "daily-notes.json", daily)

    assert (found.daily_folder, found.daily_format) == (folder, written)


@pytest.mark.parametrize(
    ("template", "note"),
    [
        ("Meta/Day", "Meta/Day.md"),
        ("/Meta/Day.md", "Meta/Day.md"),
        ("Day.MD", "Day.MD"),
        ("Day 1.0", "Day 1.0.md"),
        ("", None),
        ("/", None),
        (7, None),
    ],
)
def test_the_note_that_daily_notes_begin_as_is_a_template(
    tmp_path: Path, template: object, note: str | None
) -> None:
    found = settings(tmp_path, "daily-notes.json", {"template": template})

    rules = kind_rules(found, {})

    assert rules.templates == ((note,) if note else ())
    assert note is None or rules.is_template(note)
    assert not rules.is_template("Meta/Daybook.md")


def test_templates_are_those_of_obsidian_and_those_of_ours(tmp_path: Path) -> None:
    configure(
        tmp_path,
        {"templates.json": {"folder": "/T/"}, "daily-notes.json": {"template": "Day"}},
    )

    rules = kind_rules(read_obsidian(tmp_path), {}, templates=["Ours/", "T", "", "/"])

    assert rules.templates == ("Day.md", "Ours", "T")
    assert [
        path for path in ("T/a.md", "Ours/b/c.md", "Day.md", "To/a.md", "T.md", "x/T/a.md")
        if rules.is_template(path)
    ] == ["T/a.md", "Ours/b/c.md", "Day.md"]  # fmt: skip


@every_file
@pytest.mark.parametrize(
    "data",
    [b"", b"{", b'{"folder": "x"', b"\x00", b"\xff\xfe{}", b"[" * 100_000, b"{'folder': 1}"],
    ids=lambda data: repr(data[:12]),
)
def test_a_file_that_is_no_json_is_one_problem_and_the_others_hold(
    tmp_path: Path, name: str, data: bytes
) -> None:
    configure(tmp_path, ALL)
    (tmp_path / ".obsidian" / name).write_bytes(data)

    found = read_obsidian(tmp_path)

    assert codes(found) == [(f".obsidian/{name}", "obsidian-settings-invalid")]
    assert found.read == {f".obsidian/{other}" for other in FILES if other != name}
    assert name in found.problems[0].message
    assert (found.excluded == ()) == (name == "app.json")
    assert (found.link_format is LinkFormat.SHORTEST) == (name == "app.json")
    assert (found.daily_folder == "") == (name == "daily-notes.json")
    assert (found.template_folder is None) == (name == "templates.json")


@every_file
def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path, name: str) -> None:
    configure(tmp_path, ALL)
    expected = read_obsidian(tmp_path)

    configure(tmp_path, {name: b"\xef\xbb\xbf" + json.dumps(ALL[name]).encode()})

    assert read_obsidian(tmp_path) == expected


@every_file
@pytest.mark.parametrize("content", [[], 7, None, "text", {"folder": {}, "userIgnoreFilters": {}}])
def test_a_file_of_another_shape_says_nothing(tmp_path: Path, name: str, content: object) -> None:
    configure(tmp_path, {name: content})

    assert read_obsidian(tmp_path) == ObsidianSettings(
        folder=".obsidian", read=frozenset({f".obsidian/{name}"})
    )


@every_file
@pytest.mark.parametrize("kind", ["folder", "link", "pipe", "too large"])
def test_what_is_no_settings_file_is_not_read_and_said_so(
    tmp_path: Path, name: str, kind: str
) -> None:
    configure(tmp_path, ALL)
    file = tmp_path / ".obsidian" / name
    file.unlink()
    if kind == "folder":
        file.mkdir()
    elif kind == "link":
        (tmp_path / "elsewhere.json").write_text('{"folder": "x"}')
        file.symlink_to(tmp_path / "elsewhere.json")
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.write_bytes(b'{"folder": "x"}' + b" " * OBSIDIAN_FILE_BYTES)

    found = read_obsidian(tmp_path)

    assert codes(found) == [(f".obsidian/{name}", "obsidian-settings-unread")]
    assert (found.excluded == ()) == (name == "app.json")
    assert (found.daily_folder == "") == (name == "daily-notes.json")
    assert (found.template_folder is None) == (name == "templates.json")


def test_a_settings_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    configure(tmp_path, ALL, "elsewhere")
    (tmp_path / "vault/.obsidian").symlink_to(tmp_path / "elsewhere")

    found = read_obsidian(tmp_path / "vault")

    assert (found.excluded, found.template_folder) == ((), None)
    assert {code for _, code in codes(found)} == {"obsidian-settings-unread"}


def test_a_settings_folder_of_another_name_is_known_by_its_files(tmp_path: Path) -> None:
    configure(tmp_path, {"app.json": {}}, ".git")
    configure(tmp_path, {}, ".trash")
    configure(tmp_path, {**ALL, "core-plugins.json": []}, ".obsidian-desktop")
    configure(tmp_path, {"app.json": {}, "core-plugins.json": []}, "obsidian")

    found = read_obsidian(tmp_path)

    assert found.folder == ".obsidian-desktop"
    assert (found.excluded[0], found.template_folder) == ("Archive/", "Meta/Templates")


def test_a_problem_names_the_file_in_the_folder_of_another_name(tmp_path: Path) -> None:
    rules = {"userIgnoreFilters": ["/[/"]}
    files = {"app.json": rules, "core-plugins.json": [], "templates.json": b"{"}
    configure(tmp_path, files, ".config")

    found = read_obsidian(tmp_path)
    _, problems = compile_rules(found, ())

    assert [(problem.path, problem.code) for problem in problems] == [
        (".config/templates.json", "obsidian-settings-invalid"),
        (".config/app.json", "ignore-rule-invalid"),
    ]


def test_the_usual_folder_goes_before_one_of_another_name(tmp_path: Path) -> None:
    configure(tmp_path, {**ALL, "core-plugins.json": []}, ".a")
    configure(tmp_path, {"app.json": {}, "templates.json": {"folder": "B"}})

    assert read_obsidian(tmp_path).template_folder == "B"


def test_a_usual_folder_without_its_files_hides_none_of_another_name(tmp_path: Path) -> None:
    configure(tmp_path, {**ALL, "core-plugins.json": []}, ".a")
    configure(tmp_path, {"plugins.json": {}})

    assert read_obsidian(tmp_path).folder == ".a"


def test_a_hidden_folder_of_templates_holds_no_notes(tmp_path: Path) -> None:
    assert settings(tmp_path, "templates.json", {"folder": "Meta/.hidden"}).template_folder is None
