"""Failures that users of other tools reported, asked of the command line."""

import sys
from pathlib import Path
from shutil import copytree

import pytest
from command_line import REPOSITORY, CommandLine, on_notes

REPORTS = REPOSITORY / "tests/data/reports"

# Report 11: the text of each note is its own word.
PATHS = {
    "Area 51/Test Note.md": "alpha\n",
    "Area 51/Café.md": "beta\n",
    "Area 51/50% plan.md": "gamma\n",
    "Area 51/a%20b.md": "delta\n",
    "Area 51/a b.md": "epsilon\n",
    "Area 51/100%zz.md": "eta\n",
    "Area 51/x#y.md": "theta\n",
}


@pytest.fixture(scope="module")
def odd_paths(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    windows = sys.platform == "win32"
    more = {} if windows else {"Area 51/x#y?z.md": "zeta\n"}  # Windows allows no question mark
    return on_notes(tmp_path_factory.mktemp("report 11"), PATHS | more)


@pytest.mark.parametrize("path", PATHS)
def test_report_11_a_path_with_space_percent_or_accent_is_taken_literally(
    odd_paths: CommandLine, path: str
) -> None:
    for given in (path, path.removesuffix(".md"), path.rsplit("/", 1)[1]):
        reply = odd_paths.reply("read", given)
        assert (reply["path"], reply["text"]) == (path, PATHS[path])


@pytest.mark.skipif(sys.platform == "win32", reason="Windows allows no question mark in a name")
def test_report_11_a_hash_and_a_question_mark_in_a_name_are_part_of_it(
    odd_paths: CommandLine,
) -> None:
    assert odd_paths.reply("read", "Area 51/x#y?z.md")["text"] == "zeta\n"


def test_report_11_an_accent_may_be_typed_either_way(odd_paths: CommandLine) -> None:
    for spelling in ("Area 51/Caf\u00e9.md", "Area 51/Cafe\u0301.md"):
        assert odd_paths.reply("read", spelling)["text"] == "beta\n"


def test_report_11_an_encoded_path_is_no_other_name_for_a_note(odd_paths: CommandLine) -> None:
    assert odd_paths.run("read", "Area%2051/Test%20Note.md").code == 7


@pytest.fixture
def odd_vault(tmp_path: Path) -> CommandLine:
    """Report 12: a vault whose folder is named with spaces, brackets, a dash and an accent."""
    (source,) = (
        folder for folder in (REPORTS / "12-vault-path-with-spaces").iterdir() if folder.is_dir()
    )
    vault = tmp_path / source.name
    copytree(source, vault)
    assert set("()[] –é") <= set(vault.name)
    return CommandLine(tmp_path / "scratch", vault)


FOUND = ["Inbox/Hello.md"]
UNSET = {"VAULTMEM_VAULT": None}


def test_report_12_as_one_argument(odd_vault: CommandLine) -> None:
    assert odd_vault.paths("harbour", "--vault", str(odd_vault.vault), environment=UNSET) == FOUND


def test_report_12_through_an_environment_variable(odd_vault: CommandLine) -> None:
    environment = {"VAULTMEM_VAULT": str(odd_vault.vault)}
    assert odd_vault.paths("harbour", environment=environment) == FOUND


@pytest.mark.parametrize("below", ["", "Inbox"])
def test_report_12_by_running_inside_it(odd_vault: CommandLine, below: str) -> None:
    (odd_vault.vault / ".obsidian").mkdir()
    here = odd_vault.vault / below
    assert odd_vault.paths("harbour", environment=UNSET, cwd=here) == FOUND


def test_report_12_with_a_trailing_slash(odd_vault: CommandLine) -> None:
    given = f"{odd_vault.vault}/"
    assert odd_vault.paths("harbour", "--vault", given, environment=UNSET) == FOUND


@pytest.mark.skipif(sys.platform == "win32", reason="making a link needs a privilege on Windows")
def test_report_12_through_a_link_without_spaces(odd_vault: CommandLine) -> None:
    link = odd_vault.elsewhere / "plain"
    link.symlink_to(odd_vault.vault, target_is_directory=True)
    assert odd_vault.paths("harbour", "--vault", str(link), environment=UNSET) == FOUND


def test_report_12_every_way_leads_to_one_sidecar(odd_vault: CommandLine) -> None:
    ways = [str(odd_vault.vault), f"{odd_vault.vault}/", f"{odd_vault.vault}/Inbox/.."]
    if sys.platform != "win32":
        link = odd_vault.elsewhere / "plain"
        link.symlink_to(odd_vault.vault, target_is_directory=True)
        ways.append(str(link))
    sidecars = {odd_vault.reply("status", "--vault", way)["sidecar"] for way in ways}
    assert len(sidecars) == 1


def test_report_12_every_command_takes_such_a_vault(odd_vault: CommandLine) -> None:
    given = ("--vault", str(odd_vault.vault))
    assert odd_vault.reply("index", *given, environment=UNSET)["notes"]["total"] == 1
    assert odd_vault.reply("read", "Hello", *given, environment=UNSET)["text"].strip()
    assert odd_vault.reply("why", "Hello", *given, environment=UNSET)["indexed"] is True
    assert odd_vault.reply("links", "Hello", *given, environment=UNSET)["path"] == FOUND[0]
    assert odd_vault.reply("status", *given, environment=UNSET)["fresh"] is True


def test_report_12_a_search_by_a_path_filter_takes_brackets_literally(tmp_path: Path) -> None:
    notes = {"Old [2026] (x)/Hello.md": "The harbour.\n", "Old 2/Hello.md": "The harbour.\n"}
    command_line = on_notes(tmp_path, notes)
    found = command_line.paths("harbour", "--path", "Old [2026] (x)")
    assert found == ["Old [2026] (x)/Hello.md"]
