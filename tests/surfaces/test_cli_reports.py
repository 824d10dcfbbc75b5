"""Failures that users of other tools reported, asked of the command line."""

import re
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import pytest
from command_line import REPOSITORY, CommandLine, on_notes, write_notes

REPORTS = REPOSITORY / "tests/data/reports"
OpenReport = Callable[[str], CommandLine]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> OpenReport:
    """A command line on a copy of a report's vault; one for all tests, which only ask."""
    opened: dict[str, CommandLine] = {}

    def open_report(name: str) -> CommandLine:
        if name not in opened:
            scratch = tmp_path_factory.mktemp("report")
            copytree(REPORTS / name / "vault", scratch / "vault")
            opened[name] = CommandLine(scratch, scratch / "vault")
        return opened[name]

    return open_report


# 04


@pytest.mark.parametrize(
    "query", ["write-back ingest lint", "state-of-the-art", "not-there", '"state-of-the-art"']
)
def test_report_04_no_message_mentions_columns_or_full_text_syntax(
    query: str, report: OpenReport
) -> None:
    shell = report("04-hyphenated-words")
    shown = shell.run("search", "--mode", "keyword", query, "--explain")
    told = shell.run("search", "--mode", "keyword", query, "--json")
    for ended in (shown, told):
        assert (ended.code, ended.err) == (0, "")
        said = re.sub("Column(%20| )trap", "", ended.out)  # a note of that name is found
        assert not re.search(r"column|fts|syntax|sqlite|match\b|error|no such", said, re.IGNORECASE)
    found = [hit["path"] for hit in told.json()["hits"]]
    assert told.json()["degraded"] == []
    if query == "not-there":
        assert (found, shown.out) == ([], "Nothing found.\n")
    else:
        assert found[0] == "Ingest lint.md"
        assert shown.out.startswith("1. Ingest lint.md:")


# 05


def test_report_05_an_option_of_another_program_is_searched_after_two_dashes(
    report: OpenReport,
) -> None:
    shell = report("05-punctuated-queries")
    ended = shell.run("search", "--json", "--", "--no-verify")
    assert (ended.code, ended.err) == (0, "")
    assert ended.json()["query"] == "--no-verify"
    assert [hit["path"] for hit in ended.json()["hits"]] == ["current.md"]
    assert shell.run("search", "--", "--no-verify").out.startswith("1. current.md:")


@pytest.mark.parametrize("query", ["", "{}[]'`;"])
def test_report_05_nothing_and_punctuation_are_answered_by_an_empty_list(
    query: str, report: OpenReport
) -> None:
    shell = report("05-punctuated-queries")
    ended = shell.run("search", "--json", query)
    assert (ended.code, ended.err) == (0, "")
    assert (ended.json()["query"], ended.json()["hits"]) == (query, [])
    plain = shell.run("search", query)
    assert (plain.code, plain.out, plain.err) == (0, "Nothing found.\n", "")


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("00-index.md",), "00-index.md"),
        (("Debian", "13.2"), "current.md"),
        (('"never', "again"), "Quotes.md"),
    ],
)
def test_report_05_what_a_shell_hands_over_is_found(
    words: tuple[str, ...], path: str, report: OpenReport
) -> None:
    assert report("05-punctuated-queries").paths(*words)[0] == path


# 06


@pytest.mark.parametrize("query", ["theoreme de konigsberg", "Konigsberg", "lampotila"])
def test_report_06_accents_are_printed(query: str, report: OpenReport) -> None:
    shell = report("06-diacritics")
    ended = shell.run("search", query, environment={"LC_ALL": "C"})
    first, title, snippet = ended.out.splitlines()
    assert first.startswith("1. Théorème de Königsberg.md:")
    assert title.split(" > ")[0].strip() == "Théorème de Königsberg"
    assert "Les sept ponts; Lämpötila nousee." in snippet


@pytest.mark.parametrize("query", ["caf\u00e9", "cafe\u0301", "cafe"])
def test_report_06_an_accent_may_be_typed_in_three_ways(query: str, report: OpenReport) -> None:
    (hit,) = report("06-diacritics").reply("search", query)["hits"]
    assert hit["path"] == "nfd.md"
    assert "café on Maple Lane" in unicodedata.normalize("NFC", hit["snippet"])


# 10


LOG = (REPORTS / "10-non-ascii-heading/vault/Bitácora.md").read_text("utf-8")
SECTIONS = {
    section.split("\n")[0].removeprefix("## "): section.rstrip("\n")
    for section in re.split(r"^(?=## )", LOG, flags=re.MULTILINE)[1:]
}


def test_report_10_the_headings_are_those_of_the_report() -> None:
    assert SECTIONS == {
        "Información del taller – lunes": "## Información del taller – lunes\n\n- uno",
        "待整理": "## 待整理\n\n- 一",
        "Yapılacaklar İÖÜÇĞ": "## Yapılacaklar İÖÜÇĞ\n\n- bir",
    }


@pytest.mark.parametrize("form", ["NFC", "NFD"], ids=["composed", "decomposed"])
@pytest.mark.parametrize("heading", SECTIONS)
def test_report_10_a_heading_of_any_letters_names_its_section(
    heading: str, form: Literal["NFC", "NFD"], report: OpenReport
) -> None:
    shell = report("10-non-ascii-heading")
    by_name = unicodedata.normalize(form, f"Bitácora#{heading}")
    by_path = unicodedata.normalize(form, f"Bitácora.md#{heading.lower()}")
    ended = shell.run("read", by_name)
    assert (ended.code, ended.out, ended.err) == (0, SECTIONS[heading] + "\n", "")
    reply = shell.reply("read", by_path)
    first = LOG[: LOG.index(SECTIONS[heading])].count("\n") + 1
    assert (reply["path"], reply["lines"]) == ("Bitácora.md", [first, first + 2])
    assert reply["text"].rstrip("\n") == SECTIONS[heading]


# 11: the text of each note is its own word.


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
    for given in (path, path.rsplit("/", 1)[1].removesuffix(".md")):
        reply = odd_paths.reply("read", given)
        assert (reply["path"], reply["text"]) == (path, PATHS[path])
    why = odd_paths.reply("why", path)
    assert (why["path"], why["indexed"]) == (path, True)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows allows no question mark in a name")
def test_report_11_a_hash_and_a_question_mark_in_a_name_are_part_of_it(
    odd_paths: CommandLine,
) -> None:
    for given in ("Area 51/x#y?z.md", "x#y?z"):
        reply = odd_paths.reply("read", given)
        assert (reply["path"], reply["text"]) == ("Area 51/x#y?z.md", "zeta\n")


def test_report_11_an_accent_may_be_typed_either_way(odd_paths: CommandLine) -> None:
    for spelling in ("Area 51/Caf\u00e9.md", "Area 51/Cafe\u0301.md"):
        assert odd_paths.reply("read", spelling)["text"] == "beta\n"


@pytest.mark.parametrize(
    "encoded",
    ["Area%2051/Test%20Note.md", "Area 51/a%2520b.md", "Area 51/50%25 plan.md", "Caf%C3%A9.md"],
)
def test_report_11_an_encoded_path_is_no_other_name_for_a_note(
    odd_paths: CommandLine, encoded: str
) -> None:
    ended = odd_paths.run("read", encoded)
    assert (ended.code, ended.out) == (7, "")
    assert encoded in ended.err


def test_report_11_each_word_leads_to_its_note_whose_address_is_encoded_once(
    odd_paths: CommandLine,
) -> None:
    found = odd_paths.reply("search", *PATHS.values())["hits"]
    for path, word in PATHS.items():
        (hit,) = [hit for hit in found if hit["evidence"]["matched"] == [word.strip()]]
        assert hit["path"] == path
        assert parse_qs(urlsplit(hit["uri"]).query, errors="strict")["file"] == [path]


# 12


FOUND = ["Inbox/Hello.md"]
UNSET: dict[str, str | None] = {"VAULTMEM_VAULT": None}


@pytest.fixture
def odd_vault(tmp_path: Path) -> CommandLine:
    """Report 12: a vault whose folder is named with spaces, brackets, a dash and an accent."""
    (source,) = (
        folder for folder in (REPORTS / "12-vault-path-with-spaces").iterdir() if folder.is_dir()
    )
    vault = tmp_path / source.name
    copytree(source, vault)
    (vault / ".obsidian").mkdir()
    assert set("()[] –é") <= set(vault.name)
    # What the name would mean as a glob, and as two arguments.
    decoys = (source.name.replace("[old]", "o"), "My", "My Vault (2026) – privé")
    for decoy in decoys:
        write_notes(tmp_path / decoy, {"Inbox/Decoy.md": "hello harbour, hello lighthouse\n"})
    return CommandLine(tmp_path / "scratch", vault)


def naming(way: str, shell: CommandLine) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Arguments, and options of the shell, that name a vault in one of the ways there are."""
    vault = str(shell.vault)
    link = shell.elsewhere / "plain"
    if "link" in way:
        link.symlink_to(vault, target_is_directory=True)
    named: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
        "one argument": (("--vault", vault), {"environment": UNSET}),
        "one argument with =": ((f"--vault={vault}",), {"environment": UNSET}),
        "a variable": ((), {"environment": {"VAULTMEM_VAULT": vault}}),
        "running inside": ((), {"environment": UNSET, "cwd": shell.vault}),
        "running below": ((), {"environment": UNSET, "cwd": shell.vault / "Inbox"}),
        "a trailing slash": (("--vault", f"{vault}/"), {"environment": UNSET}),
        "a link": (("--vault", str(link)), {"environment": UNSET}),
        "a link in a variable": ((), {"environment": {"VAULTMEM_VAULT": str(link)}}),
    }
    return named[way]


LINKS_NEED_A_PRIVILEGE = pytest.mark.skipif(
    sys.platform == "win32", reason="making a link needs a privilege on Windows"
)
WAYS = [
    "one argument",
    "a variable",
    "running inside",
    "a trailing slash",
    pytest.param("a link", marks=LINKS_NEED_A_PRIVILEGE),
]
MORE_WAYS = [
    "one argument with =",
    "running below",
    pytest.param("a link in a variable", marks=LINKS_NEED_A_PRIVILEGE),
]


@pytest.mark.parametrize("way", [*WAYS, *MORE_WAYS])
def test_report_12_search_finds_the_note_however_the_vault_is_named(
    odd_vault: CommandLine, way: str
) -> None:
    arguments, options = naming(way, odd_vault)
    assert odd_vault.paths("harbour", *arguments, **options) == FOUND


@pytest.mark.parametrize("way", WAYS)
def test_report_12_index_takes_the_note_and_its_edits_in(odd_vault: CommandLine, way: str) -> None:
    arguments, options = naming(way, odd_vault)
    reply = odd_vault.reply("index", *arguments, **options)
    assert (reply["notes"]["total"], reply["notes"]["added"], reply["problems"]) == (1, 1, [])
    write_notes(odd_vault.vault, {"Inbox/Hello.md": "hello lighthouse\n"})
    assert odd_vault.reply("index", *arguments, **options)["notes"]["changed"] == 1
    options["environment"] = {**options["environment"], "VAULTMEM_SEARCH_REFRESH": "never"}
    assert odd_vault.paths("lighthouse", *arguments, **options) == FOUND


@pytest.mark.parametrize("way", ["a variable", "a trailing slash"])
def test_report_12_every_command_answers_about_that_vault(odd_vault: CommandLine, way: str) -> None:
    write_notes(odd_vault.vault, {"Berth.md": "See [[Hello]] and [[Nowhere]].\n"})
    arguments, options = naming(way, odd_vault)

    def reply(*command: str) -> Any:
        return odd_vault.reply(*command, *arguments, **options)

    assert reply("read", "Inbox/Hello.md")["text"] == "hello harbour\n"
    assert [link["resolved"] for link in reply("links", "Berth")["links"]] == [*FOUND, None]
    lint = reply("lint")
    assert [link["link"] for link in lint["unresolved"]] == ["Nowhere"]
    assert (lint["ambiguous"], lint["orphans"], lint["problems"]) == ([], [], [])
    why = reply("why", "Hello")
    assert (why["path"], why["indexed"], why["current"]) == (FOUND[0], True, True)
    status = reply("status")
    assert (status["notes"], status["fresh"]) == (2, True)
    assert status["vault"] == str(odd_vault.vault.resolve())


def test_report_12_every_way_leads_to_one_sidecar(odd_vault: CommandLine) -> None:
    ways = [str(odd_vault.vault), f"{odd_vault.vault}/", f"{odd_vault.vault}/Inbox/.."]
    if sys.platform != "win32":
        link = odd_vault.elsewhere / "plain"
        link.symlink_to(odd_vault.vault, target_is_directory=True)
        ways.append(str(link))
    sidecars = {odd_vault.reply("status", "--vault", way)["sidecar"] for way in ways}
    assert len(sidecars) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows allows no such name")
def test_report_12_no_sign_in_the_name_of_a_vault_means_anything(tmp_path: Path) -> None:
    vault = tmp_path / "a*b?[c-d]{e,f} !g $HOME %20 'h'"
    write_notes(vault, {"Inbox/Hello.md": "hello harbour\n", "Inbox/Draft.md": "harbour\n"})
    write_notes(tmp_path / "axbycef !g", {"Inbox/Decoy.md": "hello harbour\n"})
    shell = CommandLine(tmp_path / "scratch", vault)
    assert shell.reply("index")["notes"]["total"] == 2
    assert sorted(shell.paths("harbour")) == ["Inbox/Draft.md", "Inbox/Hello.md"]
    assert shell.paths("harbour", "--path", "Inbox/H*") == FOUND
    assert shell.paths("harbour", environment={"VAULTMEM_SCAN_IGNORE": "Inbox/D*"}) == FOUND
    assert shell.reply("read", "Hello")["text"] == "hello harbour\n"
    assert shell.reply("why", "Inbox/Hello.md")["indexed"] is True


def test_report_12_a_search_by_a_path_filter_takes_brackets_literally(tmp_path: Path) -> None:
    notes = {"Old [2026] (x)/Hello.md": "The harbour.\n", "Old 2/Hello.md": "The harbour.\n"}
    command_line = on_notes(tmp_path, notes)
    found = command_line.paths("harbour", "--path", "Old [2026] (x)")
    assert found == ["Old [2026] (x)/Hello.md"]


# 17


def test_report_17_a_note_shows_its_tags_and_no_others(report: OpenReport) -> None:
    shell = report("17-heading-link-is-no-tag")
    assert shell.reply("read", "Plan")["tags"] == [
        "garden/beds",
        "公共事务",
        "to-do",
        "a/b",
        "ff8800",
    ]
    assert shell.reply("read", "Other")["tags"] == []


def test_report_17_a_tag_that_stands_behind_a_link_finds_the_note(report: OpenReport) -> None:
    shell = report("17-heading-link-is-no-tag")
    assert shell.paths("tag:公共事务", "water") == ["Plan.md"]
    assert shell.paths("water", "--tag", "#to-do") == ["Plan.md"]
    assert shell.paths("tag:Front", "water") == []
    assert shell.paths("water", "--tag", "Front bed") == []


# 20


def test_report_20_aliases_are_given_as_the_texts_they_are(report: OpenReport) -> None:
    shell = report("20-typed-alias-values")
    aliases = {
        name: shell.reply("read", name)["aliases"]
        for name in ("Nan Okafor.md", "One.md", "Links.md", "2022-05.md")
    }
    assert aliases == {
        "Nan Okafor.md": ["NaN", "Nan", "2026-05-04", "yes", 'say "hi"'],
        "One.md": ["just one, or two"],
        "Links.md": [],
        "2022-05.md": [],
    }


@pytest.mark.parametrize(
    ("alias", "path"), [("yes", "Nan Okafor.md"), ("just one, or two", "One.md")]
)
def test_report_20_a_note_is_read_by_its_alias(alias: str, path: str, report: OpenReport) -> None:
    assert report("20-typed-alias-values").reply("read", alias)["path"] == path


def test_report_20_a_number_is_nobodys_alias(report: OpenReport) -> None:
    for text in ("7", "1.1"):
        assert report("20-typed-alias-values").run("read", text).code == 7


def test_report_20_links_lead_to_the_texts_as_written(report: OpenReport) -> None:
    shell = report("20-typed-alias-values")
    reply = shell.reply("links", "Links")
    found = [(k["link"], k["resolved"], k["property"], k["line"]) for k in reply["links"]]
    assert found == [("2022-05", "2022-05.md", None, 6), ("One", "One.md", "up", 3)]
    backlinks = shell.reply("links", "2022-05.md")["backlinks"]
    assert [(b["path"], b["line"], b["text"]) for b in backlinks] == [
        ("Links.md", 6, "[[2022-05]]")
    ]


def test_report_20_unquoted_links_in_properties_are_lists_and_no_broken_links(
    report: OpenReport,
) -> None:
    shell = report("20-typed-alias-values")
    properties = shell.reply("read", "Links")["frontmatter"]
    assert properties == {
        "prev": [["2022-05"]],
        "up": "[[One]]",
        "next": [[["2022 - 05"]], [["2022_05"]]],
    }
    assert shell.reply("lint")["unresolved"] == []


def test_report_20_lint_reports_the_mapping_and_nothing_else(report: OpenReport) -> None:
    ended = report("20-typed-alias-values").run("lint", "--json")
    assert ended.code == 1
    (problem,) = ended.json()["problems"]
    assert (problem["path"], problem["code"]) == ("One.md", "property-invalid")
    assert "alias" in problem["message"]
