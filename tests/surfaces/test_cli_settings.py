"""Where a setting, the vault and the cache folder come from: flag, environment, file, default."""

import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, assert_one_line_error, on_notes, write_notes


@pytest.fixture
def notes(tmp_path: Path) -> CommandLine:
    return on_notes(tmp_path, {f"berth {n}.md": f"Berth {n} of the harbour.\n" for n in range(12)})


def configure(vault: Path, text: str) -> None:
    (vault / ".vaultmem").mkdir(exist_ok=True)
    (vault / ".vaultmem/config.toml").write_text(text, encoding="utf-8")


def setting(command_line: CommandLine, key: str, *options: str, **more: Any) -> tuple[Any, str]:
    """(value, source) as `config` reports it."""
    settings = command_line.reply("config", *options, **more)["settings"]
    found = next(setting for setting in settings if setting["key"] == key)
    return found["value"], found["source"]


def test_a_setting_nobody_made_has_its_default(notes: CommandLine) -> None:
    assert setting(notes, "search.limit") == (10, "default")
    assert len(notes.paths("harbour")) == 10


def test_config_toml_beats_the_default(notes: CommandLine) -> None:
    configure(notes.vault, "[search]\nlimit = 3\n")
    assert setting(notes, "search.limit") == (3, "config.toml")
    assert len(notes.paths("harbour")) == 3


def test_the_environment_beats_config_toml(notes: CommandLine) -> None:
    configure(notes.vault, "[search]\nlimit = 3\n")
    environment = {"VAULTMEM_SEARCH_LIMIT": "4"}
    assert setting(notes, "search.limit", environment=environment) == (4, "environment")
    assert len(notes.paths("harbour", environment=environment)) == 4


def test_a_flag_beats_the_environment(notes: CommandLine) -> None:
    environment = {"VAULTMEM_SEARCH_LIMIT": "4"}
    assert len(notes.paths("harbour", "-k", "2", environment=environment)) == 2


@pytest.mark.parametrize(
    ("key", "toml", "variable", "expected"),
    [
        ("scan.ignore", '["Old", "*.draft.md"]', "Old, *.draft.md", ["Old", "*.draft.md"]),
        ("scan.max_note_bytes", "1000", "1000", 1000),
        ("chunk.max_pieces", "90", "90", 90),
        ("search.limit", "7", "7", 7),
        ("search.refresh", '"never"', "never", "never"),
        ("kinds.folders", '{ Days = "Daily" }', "Days=Daily", {"Days": "daily"}),
    ],
)
def test_every_setting_can_be_made_in_the_file_and_in_the_environment(
    notes: CommandLine, key: str, toml: str, variable: str, expected: object
) -> None:
    name = "VAULTMEM_" + key.upper().replace(".", "_")
    assert setting(notes, key, environment={name: variable}) == (expected, "environment")
    section, _, last = key.partition(".")
    configure(notes.vault, f"[{section}]\n{last} = {toml}\n")
    assert setting(notes, key) == (expected, "config.toml")


def test_an_ignored_folder_is_not_searched(notes: CommandLine) -> None:
    write_notes(notes.vault, {"Old/dusty.md": "A dusty harbour.\n"})
    assert notes.paths("dusty") == ["Old/dusty.md"]
    assert "Old/dusty.md" not in notes.paths("dusty", environment={"VAULTMEM_SCAN_IGNORE": "Old"})


def test_a_folder_gives_its_notes_their_kind(notes: CommandLine) -> None:
    write_notes(notes.vault, {"Calls/pilot.md": "The pilot rang.\n"})
    configure(notes.vault, '[kinds]\nfolders = { Calls = "meeting" }\n')
    hits = notes.reply("search", "pilot rang")["hits"]
    assert [(hit["path"], hit["kind"]) for hit in hits[:1]] == [("Calls/pilot.md", "meeting")]


def test_a_search_that_may_not_refresh_says_so(notes: CommandLine) -> None:
    notes.run("index")
    write_notes(notes.vault, {"new.md": "A newcomer.\n"})
    reply = notes.reply("search", "newcomer", environment={"VAULTMEM_SEARCH_REFRESH": "never"})
    assert reply["hits"] == []
    assert any("search.refresh" in reason for reason in reply["degraded"])


# The vault


@pytest.fixture
def other(tmp_path: Path) -> Path:
    vault = tmp_path / "Other"
    write_notes(vault, {"other.md": "The other harbour.\n"})
    return vault


def test_the_flag_beats_the_variable_that_names_a_vault(notes: CommandLine, other: Path) -> None:
    assert notes.paths("other harbour", "--vault", str(other)) == ["other.md"]


def test_the_variable_beats_the_working_folder(notes: CommandLine, other: Path) -> None:
    (notes.vault / ".obsidian").mkdir()
    found = notes.paths(
        "other harbour", environment={"VAULTMEM_VAULT": str(other)}, cwd=notes.vault
    )
    assert found == ["other.md"]


@pytest.mark.parametrize("mark", [".obsidian", ".vaultmem"])
def test_the_vault_is_the_nearest_folder_above_with_a_mark(notes: CommandLine, mark: str) -> None:
    outer, inner = notes.vault, notes.vault / "Deep/Inner"
    write_notes(inner, {"Far/below/inner.md": "An inner harbour.\n"})
    (outer / ".obsidian").mkdir()
    (inner / mark).mkdir()
    here = inner / "Far/below"
    reply = notes.reply("status", environment={"VAULTMEM_VAULT": None}, cwd=here)
    assert Path(reply["vault"]) == inner.resolve()


def test_an_empty_variable_counts_as_unset(notes: CommandLine) -> None:
    (notes.vault / ".obsidian").mkdir()
    environment = {"VAULTMEM_VAULT": "", "VAULTMEM_CACHE_DIR": ""}
    reply = notes.reply("status", environment=environment, cwd=notes.vault)
    assert Path(reply["vault"]) == notes.vault.resolve()


def test_without_any_vault_the_error_names_the_three_ways(notes: CommandLine) -> None:
    ended = notes.run("search", "x", environment={"VAULTMEM_VAULT": None})
    assert_one_line_error(ended, 4, "--vault", "VAULTMEM_VAULT", ".obsidian", ".vaultmem")


def test_an_empty_vault_flag_is_no_vault_and_never_the_working_folder(
    notes: CommandLine, other: Path
) -> None:
    # `--vault "$NOTES"` with NOTES unset must not index whatever folder the person stands in.
    ended = notes.run("index", "--vault", "", environment={"VAULTMEM_VAULT": None}, cwd=other)
    assert_one_line_error(ended, 4, "--vault")


@pytest.mark.parametrize("way", ["flag", "environment", "found"])
def test_config_tells_who_named_the_vault(notes: CommandLine, way: str) -> None:
    (notes.vault / ".obsidian").mkdir()
    options = ("--vault", str(notes.vault)) if way == "flag" else ()
    named = str(notes.vault) if way == "environment" else None
    found = setting(
        notes, "vault", *options, environment={"VAULTMEM_VAULT": named}, cwd=notes.vault
    )
    assert found == (str(notes.vault.resolve()), way)


def test_a_tilde_stands_for_the_home_folder(notes: CommandLine) -> None:
    write_notes(notes.home / "Vault", {"home.md": "At home.\n"})
    assert notes.paths("home", "--vault", "~/Vault") == ["home.md"]


# The cache folder


def test_the_cache_folder_is_the_flags_then_the_variables(
    notes: CommandLine, tmp_path: Path
) -> None:
    flag = tmp_path / "by flag"
    assert setting(notes, "cache_dir", "--cache-dir", str(flag)) == (str(flag), "flag")
    assert setting(notes, "cache_dir") == (str(notes.cache), "environment")


def test_the_sidecar_lies_where_the_flag_says(notes: CommandLine, tmp_path: Path) -> None:
    flag = tmp_path / "by flag"
    sidecar = Path(notes.reply("status", "--cache-dir", str(flag))["sidecar"])
    notes.run("index", "--cache-dir", str(flag))
    assert sidecar.is_file()
    assert sidecar.is_relative_to(flag)
    assert not notes.cache.exists()


def test_by_default_the_sidecar_lies_in_the_users_cache_folder(notes: CommandLine) -> None:
    environment = {"VAULTMEM_CACHE_DIR": None}
    value, source = setting(notes, "cache_dir", environment=environment)
    assert source == "default"
    assert Path(value).is_relative_to(notes.home)
    notes.run("index", environment=environment)
    assert Path(notes.reply("status", environment=environment)["sidecar"]).is_file()
    assert len(list(Path(value).rglob("CACHEDIR.TAG"))) == 1


def test_two_vaults_of_one_name_have_two_sidecars(notes: CommandLine, tmp_path: Path) -> None:
    twin = tmp_path / "twin" / notes.vault.name
    write_notes(twin, {"twin.md": "A twin harbour.\n"})
    assert notes.paths("twin") == []
    assert notes.paths("twin", "--vault", str(twin)) == ["twin.md"]


# What cannot be used


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[search\nlimit = 3\n", ("config.toml", "TOML", "line 1")),
        ("[search]\nlimt = 3\n", ("config.toml", "search.limt")),
        ("[search]\nlimit = 'ten'\n", ("config.toml", "search.limit", "ten")),
        ("[search]\nlimit = 0\n", ("config.toml", "search.limit", "0", "at least 1")),
        ("[search]\nrefresh = 'often'\n", ("search.refresh", "often", "never")),
        ("[scan]\nignore = 'Old'\n", ("scan.ignore", "Old", "list")),
        ("[kinds]\nfolders = ['Old']\n", ("kinds.folders", "Old", "table")),
        ("limit = 3\n", ("config.toml", "limit,")),
        ("x = " + "[" * 20_000, ("config.toml",)),
        ("[search]\nlimit = 1" + "0" * 5000 + "\n", ("config.toml",)),
    ],
    ids=[
        "no TOML",
        "unknown key",
        "wrong type",
        "out of range",
        "no choice",
        "no list",
        "no table",
        "key without a section",
        "nested too deep",
        "number of 5,000 digits",
    ],
)
def test_a_config_toml_that_cannot_be_used_is_named(
    notes: CommandLine, text: str, named: tuple[str, ...]
) -> None:
    configure(notes.vault, text)
    assert_one_line_error(notes.run("search", "harbour"), 3, *named)


def test_a_config_toml_that_is_no_text_is_named(notes: CommandLine) -> None:
    configure(notes.vault, "")
    (notes.vault / ".vaultmem/config.toml").write_bytes(b"\xff\xfe\x00")
    assert_one_line_error(notes.run("config"), 3, "config.toml", "TOML")


@pytest.mark.parametrize(
    ("variable", "value", "need"),
    [
        ("VAULTMEM_SEARCH_LIMIT", "many", "whole number"),
        ("VAULTMEM_SEARCH_LIMIT", "0", "at least 1"),
        ("VAULTMEM_SEARCH_LIMIT", "-3", "at least 1"),
        ("VAULTMEM_SEARCH_LIMIT", "1.5", "whole number"),
        ("VAULTMEM_SEARCH_REFRESH", "sometimes", "never"),
        ("VAULTMEM_CHUNK_MAX_PIECES", "3", "at least 40"),
        ("VAULTMEM_SCAN_MAX_NOTE_BYTES", "x", "whole number"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(
    notes: CommandLine, variable: str, value: str, need: str
) -> None:
    ended = notes.run("status", environment={variable: value})
    assert_one_line_error(ended, 3, variable, value, need)


def test_a_limit_beyond_every_vault_is_no_failure(notes: CommandLine) -> None:
    for limit in ("100000", "9" * 25):
        assert len(notes.paths("harbour", environment={"VAULTMEM_SEARCH_LIMIT": limit})) == 12
        assert len(notes.paths("harbour", "-k", limit)) == 12


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not let a folder in use vanish")
def test_a_working_folder_that_is_gone_hinders_nobody_who_names_the_vault(
    notes: CommandLine,
) -> None:
    script = (
        "import os, runpy, sys; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone'); "
        "sys.argv = ['vaultmem', *sys.argv[1:]]; runpy.run_module('vaultmem', run_name='__main__')"
    )
    python = (sys.executable, "-c", script)
    ended = notes.run("search", "harbour", "--json", python=python)
    assert "Traceback" not in ended.err, ended.err
    assert len(ended.json()["hits"]) == 10
    unnamed = notes.run("status", environment={"VAULTMEM_VAULT": None}, python=python)
    assert_one_line_error(unnamed, 4, "--vault")
