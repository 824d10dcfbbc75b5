"""What goes wrong is said in one line that names the thing and what to do, by its own exit code."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import (
    CommandLine,
    assert_one_line_error,
    listing,
    obeying_permissions,
    on_notes,
    on_sample,
    write_notes,
)

QUESTIONS = Path(__file__).parents[1] / "data" / "sample_questions.jsonl"

# Commands that need an index to answer from.
ASKING = [
    ("index",),
    ("search", "harbour"),
    ("read", "Home"),
    ("links", "Home"),
    ("lint",),
    ("eval", str(QUESTIONS)),
]
ALL = [*ASKING, ("status",), ("why", "Home"), ("doctor",), ("config",)]


def command(arguments: tuple[str, ...]) -> str:
    return arguments[0]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """The sample vault, indexed once; no error changes it."""
    command_line = on_sample(tmp_path_factory.mktemp("errors"))
    assert command_line.run("index").code == 0
    return command_line


# The vault


@pytest.mark.parametrize("arguments", ALL, ids=command)
def test_a_vault_that_is_not_there_is_named(
    sample: CommandLine, arguments: tuple[str, ...]
) -> None:
    ended = sample.run(*arguments, "--vault", "/no/such/vault")
    assert_one_line_error(ended, 4, "/no/such/vault", "--vault")


@pytest.mark.parametrize("arguments", ALL, ids=command)
def test_a_file_in_place_of_a_vault_is_named(
    sample: CommandLine, arguments: tuple[str, ...]
) -> None:
    ended = sample.run(*arguments, "--vault", str(sample.vault / "Home.md"))
    assert_one_line_error(ended, 4, "Home.md", "is a file")


@pytest.mark.parametrize("arguments", ASKING, ids=command)
def test_a_folder_without_notes_is_named(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    command_line = on_notes(tmp_path, {})
    assert_one_line_error(command_line.run(*arguments), 5, str(command_line.vault), "folder?")
    assert not command_line.cache.exists()


def test_a_vault_that_lost_all_its_notes_still_answers_from_what_was_indexed(
    tmp_path: Path,
) -> None:
    command_line = on_notes(tmp_path, {"a.md": "A berth.\n"})
    command_line.run("index")
    (command_line.vault / "a.md").unlink()
    assert_one_line_error(command_line.run("index"), 5, "kept")
    reply = command_line.reply("search", "berth")
    assert [hit["path"] for hit in reply["hits"]] == ["a.md"]
    assert reply["hits"][0]["stale"] is True
    assert any("no Markdown note" in reason for reason in reply["degraded"])


@pytest.mark.parametrize("mode", [0o000, 0o311], ids=["neither entered nor listed", "not listed"])
def test_a_vault_that_may_not_be_listed_is_named(tmp_path: Path, mode: int) -> None:
    obey = obeying_permissions()
    command_line = on_notes(tmp_path, {"a.md": "A berth.\n"})
    command_line.vault.chmod(mode)
    try:
        ended = command_line.run("search", "berth", preexec_fn=obey)
    finally:
        command_line.vault.chmod(0o755)
    assert_one_line_error(ended, 6, str(command_line.vault), "permission")


def test_a_vault_that_may_no_longer_be_listed_still_answers(tmp_path: Path) -> None:
    obey = obeying_permissions()
    command_line = on_notes(tmp_path, {"a.md": "A berth.\n"})
    command_line.run("index")
    command_line.vault.chmod(0o311)
    try:
        reply = command_line.reply("search", "berth", preexec_fn=obey)
    finally:
        command_line.vault.chmod(0o755)
    assert [hit["path"] for hit in reply["hits"]] == ["a.md"]
    assert any("cannot be listed" in reason for reason in reply["degraded"])


# The cache folder


@pytest.mark.parametrize("arguments", ASKING, ids=command)
def test_a_cache_path_that_is_a_file_is_named(
    sample: CommandLine, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    file = tmp_path / "cache"
    file.write_text("not a folder\n")
    ended = sample.run(*arguments, "--cache-dir", str(file))
    assert_one_line_error(ended, 10, str(file), "--cache-dir")
    assert file.read_text() == "not a folder\n"


@pytest.mark.parametrize("arguments", ASKING, ids=command)
def test_a_cache_folder_that_may_not_be_written_is_named(
    sample: CommandLine, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    obey = obeying_permissions()
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o555)
    ended = sample.run(*arguments, "--cache-dir", str(cache), preexec_fn=obey)
    assert_one_line_error(ended, 10, str(cache), "--cache-dir", "Permission denied")
    assert list(cache.iterdir()) == []


def test_a_sidecar_that_may_be_neither_opened_nor_replaced_is_named(tmp_path: Path) -> None:
    obey = obeying_permissions()
    command_line = on_notes(tmp_path, {"a.md": "A berth.\n"})
    command_line.run("index")
    (sidecar,) = command_line.cache.rglob("index.db")
    sidecar.chmod(0o000)
    sidecar.parent.chmod(0o555)
    try:
        ended = command_line.run("search", "berth", preexec_fn=obey)
    finally:
        sidecar.parent.chmod(0o755)
    assert_one_line_error(ended, 10, str(sidecar.parent))


@pytest.mark.skipif(sys.platform == "win32", reason="the lock is taken with flock")
def test_indexing_beside_another_indexer_is_refused_and_searching_is_not(tmp_path: Path) -> None:
    import fcntl

    command_line = on_notes(tmp_path, {"a.md": "A berth.\n"})
    command_line.run("index")
    (lock,) = command_line.cache.rglob("writer.lock")
    with lock.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert_one_line_error(command_line.run("index"), 11, "Another", "try again")
        reply = command_line.reply("search", "berth")
    assert [hit["path"] for hit in reply["hits"]] == ["a.md"]
    assert any("Another" in reason for reason in reply["degraded"])


def test_a_sidecar_that_is_no_database_is_built_anew(tmp_path: Path) -> None:
    command_line = on_notes(tmp_path, {"a.md": "A berth.\n"})
    command_line.run("index")
    (sidecar,) = command_line.cache.rglob("index.db")
    sidecar.write_bytes(b"no database at all" * 1000)
    assert command_line.paths("berth") == ["a.md"]


# A full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB; skips where one cannot be mounted."""
    folder = tmp_path / "small disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if sys.platform != "linux" or os.geteuid() != 0 or mount is None:
        pytest.skip("only root on Linux can mount a small file system")
    mounted = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=1m", "vaultmem-test", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_named_and_what_was_indexed_is_kept(
    tmp_path: Path, small_disk: Path
) -> None:
    command_line = on_sample(tmp_path / "world")
    vault = listing(command_line.vault)
    cache = ("--cache-dir", str(small_disk))
    assert_one_line_error(command_line.run("index", *cache), 13, "full", str(small_disk))
    kept = command_line.reply("status", *cache)["notes"]
    assert 0 < kept < 75

    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    counts = command_line.reply("index", *cache)["notes"]
    assert counts["added"] == 75 - kept
    assert counts["total"] == 75
    question = ("search", "ledger pooling", "-k", "30")
    assert command_line.reply(*question, *cache) == command_line.reply(*question)
    assert listing(command_line.vault) == vault


def test_a_rebuild_that_fills_the_disk_names_it(tmp_path: Path, small_disk: Path) -> None:
    command_line = on_sample(tmp_path / "world")
    ended = command_line.run("index", "--rebuild", "--cache-dir", str(small_disk))
    assert_one_line_error(ended, 13, "full", str(small_disk))


def test_a_search_on_a_full_disk_answers_from_what_there_is_and_says_so(
    tmp_path: Path, small_disk: Path
) -> None:
    command_line = on_sample(tmp_path / "world")
    cache = ("--cache-dir", str(small_disk))
    command_line.run("index", *cache)
    reply = command_line.reply("search", "words", *cache)
    assert any("full" in reason for reason in reply["degraded"])


def test_a_demo_without_room_says_so_in_one_line(tmp_path: Path, small_disk: Path) -> None:
    command_line = on_sample(tmp_path / "world")
    (small_disk / "ballast").write_bytes(bytes(950_000))
    ended = command_line.run("demo", environment={"TMPDIR": str(small_disk)})
    assert_one_line_error(ended, 13, "full")
    assert [file.name for file in small_disk.iterdir()] == ["ballast"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of a file")
def test_a_file_that_may_not_grow_is_named(tmp_path: Path) -> None:
    import resource

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    command_line = on_sample(tmp_path)
    ended = command_line.run("index", preexec_fn=limit)
    # SQLite tells a limit on the file from a full disk no better than the system does.
    assert ended.code in (10, 13)
    assert_one_line_error(ended, ended.code, str(command_line.cache), "--cache-dir")
    assert command_line.reply("index")["notes"]["total"] == 75


# What was typed


def usage_errors() -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return [
        ("no command", (), ("COMMAND",)),
        ("unknown command", ("frobnicate",), ("frobnicate", "search")),
        ("unknown option", ("search", "x", "--frobnicate"), ("--frobnicate",)),
        ("abbreviated option", ("search", "x", "--pass"), ("--pass",)),
        ("missing argument", ("read",), ("note",)),
        ("-k is no number", ("search", "x", "-k", "many"), ("-k", "many")),
        ("-k is zero", ("search", "x", "-k", "0"), ("0", "at least 1")),
        ("-k is negative", ("search", "x", "-k", "-4"), ("-4", "at least 1")),
        ("unknown mode", ("search", "x", "--mode", "psychic"), ("psychic", "hybrid")),
        ("no date", ("search", "x", "--after", "someday"), ("after", "someday", "2026-05-03")),
        ("no such day", ("search", "x", "--before", "2026-02-30"), ("before", "2026-02-30")),
        ("negative size", ("read", "Home", "--max-tokens", "-5"), ("-5",)),
    ]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [case[1:] for case in usage_errors()],
    ids=[case[0] for case in usage_errors()],
)
def test_a_request_that_makes_no_sense_is_named(
    sample: CommandLine, arguments: tuple[str, ...], named: tuple[str, ...]
) -> None:
    assert_one_line_error(sample.run(*arguments), 2, *named)


def test_a_usage_error_speaks_of_no_python_type(sample: CommandLine) -> None:
    ended = sample.run("search", "x", "-k", "many")
    assert not re.search(r"\bint\b|\bstr\b|invalid \w+ value", ended.err)


def test_an_error_leaves_stdout_empty_for_programs_too(sample: CommandLine) -> None:
    assert_one_line_error(sample.run("read", "zzzzqqqq", "--json"), 7, "zzzzqqqq")


@pytest.mark.parametrize("verb", ["read", "links"])
def test_an_unknown_note_comes_with_what_is_near(sample: CommandLine, verb: str) -> None:
    ended = sample.run(verb, "Sourdogh log")
    assert_one_line_error(ended, 7, "Sourdogh log", "Personal/Sourdough log.md")


@pytest.mark.parametrize("verb", ["read", "links"])
@pytest.mark.parametrize("name", ["zzzzqqqq", "#Heading"])
def test_a_name_that_is_nobodys_is_said_to_be(sample: CommandLine, verb: str, name: str) -> None:
    assert_one_line_error(sample.run(verb, name), 7)


@pytest.mark.parametrize("verb", ["read", "links"])
@pytest.mark.parametrize("name", ["", "   ", "a\nb", "x" * 5000])
def test_what_can_be_no_name_is_refused(sample: CommandLine, verb: str, name: str) -> None:
    assert_one_line_error(sample.run(verb, name), 9)


@pytest.mark.parametrize("verb", ["read", "links", "why"])
def test_an_ambiguous_name_comes_with_its_candidates(sample: CommandLine, verb: str) -> None:
    ended = sample.run(verb, "Overview")
    assert_one_line_error(
        ended, 8, "Overview", "Projects/Harbor/Overview.md", "Projects/Ledger/Overview.md"
    )


def test_a_heading_that_is_not_there_comes_with_those_that_are(sample: CommandLine) -> None:
    ended = sample.run("read", "PostgreSQL - too many clients#Rot cause")
    assert_one_line_error(ended, 7, "#Rot cause", "Root cause")


@pytest.mark.parametrize("verb", ["read", "links", "why"])
@pytest.mark.parametrize(
    "path",
    ["../outside.md", "Projects/../../outside.md", "..\\outside.md", "~/outside.md", "../outside"],
)
def test_a_path_out_of_the_vault_is_refused(sample: CommandLine, verb: str, path: str) -> None:
    secret = sample.vault.parent / "outside.md"
    secret.write_text("the word is xyzzy\n")
    assert_one_line_error(sample.run(verb, path), 9, path)


@pytest.mark.parametrize("path", [".obsidian/app.json", "Projects/.git/config", ".hidden.md"])
def test_a_hidden_file_is_refused(sample: CommandLine, path: str) -> None:
    assert_one_line_error(sample.run("read", path), 9, path, "hidden")


@pytest.mark.skipif(sys.platform == "win32", reason="making a link needs a privilege on Windows")
def test_a_link_out_of_the_vault_is_not_followed(tmp_path: Path) -> None:
    command_line = on_notes(tmp_path, {"a.md": "A berth.\n"})
    write_notes(tmp_path / "outside", {"secret.md": "The word is xyzzy.\n"})
    (command_line.vault / "secret.md").symlink_to(tmp_path / "outside/secret.md")
    (command_line.vault / "Folder").symlink_to(tmp_path / "outside")
    assert command_line.paths("xyzzy") == []
    for name in ("secret", "secret.md", "Folder/secret"):
        assert_one_line_error(command_line.run("read", name), 9, name)


def hostile_words() -> list[str]:
    return [
        '"',
        '"unclosed',
        "''",
        "*",
        "a*b",
        "NEAR(a b)",
        "AND OR NOT",
        "col:umn",
        "title:",
        "tag:",
        "after:never",
        "before:",
        "path:[",
        "path:../..",
        "%s {} ${HOME} `id`",
        "'; DROP TABLE note; --",
        "(((((",
        "\\",
        "\t",
        "🙂",
        "x" * 10_000,
        " ".join(["word"] * 2000),
    ]


@pytest.mark.parametrize("query", hostile_words(), ids=lambda query: repr(query[:20]))
def test_any_words_get_an_answer(sample: CommandLine, query: str) -> None:
    ended = sample.run("search", "--json", "--", query)
    assert (ended.code, ended.err) == (0, "")
    assert ended.json()["query"] == query


@pytest.mark.skipif(sys.platform == "win32", reason="arguments on Windows are text to begin with")
@pytest.mark.parametrize("verb", ["read", "links"])
def test_a_name_that_is_no_text_is_nobodys(sample: CommandLine, verb: str) -> None:
    assert_one_line_error(sample.run(verb, b"caf\xe9"), 7)


@pytest.mark.skipif(sys.platform == "win32", reason="arguments on Windows are text to begin with")
def test_bytes_that_are_no_text_hinder_neither_search_nor_why(sample: CommandLine) -> None:
    found = sample.run("search", b"sourdough \xe9\xff", "--json")
    assert found.code == 0
    assert found.json()["hits"][0]["path"] == "Personal/Sourdough log.md"
    why = sample.run("why", b"caf\xe9.md", "--json")
    assert "Traceback" not in why.err
    assert why.json()["indexed"] is False


# Where the answer goes


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
@pytest.mark.parametrize("arguments", [*ALL, ("demo",), ("--version",), ("--help",)], ids=command)
def test_an_answer_that_cannot_be_written_is_an_error_in_one_line(
    sample: CommandLine, arguments: tuple[str, ...]
) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        ended = sample.run(*arguments, stdout=full)
    finally:
        os.close(full)
    assert "Traceback" not in ended.err, ended.err
    assert ended.code not in (0, 1), "a script must not take this for an answer"
    assert ended.err.count("\n") == 1, ended.err
    assert ended.err.startswith("vaultmem: "), ended.err
