"""An answer is about the vault as it is now, and getting it changes the vault in nothing."""

import os
import sys
from pathlib import Path

import pytest
from command_line import (
    VAULT_COMMANDS,
    CommandLine,
    listing,
    obeying_permissions,
    on_sample,
    write_notes,
)


@pytest.fixture
def sample(tmp_path: Path) -> CommandLine:
    return on_sample(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """One sample vault for all commands; each must leave it as it was."""
    return on_sample(tmp_path_factory.mktemp("untouched"))


@pytest.mark.parametrize(
    "arguments",
    [("search", "sourdough"), ("read", "Home"), ("links", "Home"), ("lint",)],
    ids=lambda arguments: str(arguments[0]),
)
def test_the_first_question_to_a_vault_indexes_it(
    sample: CommandLine, arguments: tuple[str, ...]
) -> None:
    assert sample.reply("status")["last_indexed"] is None
    ended = sample.run(*arguments)
    assert ended.out.strip()
    assert ended.err == ""
    assert sample.reply("status")["notes"] == 75


def test_a_note_edited_between_two_searches_is_found_by_the_second(sample: CommandLine) -> None:
    note = sample.vault / "Personal/Sourdough log.md"
    assert sample.paths("quetzalcoatlus") == []
    note.write_text(note.read_text("utf-8") + "\nA quetzalcoatlus ate the starter.\n", "utf-8")
    assert sample.paths("quetzalcoatlus") == ["Personal/Sourdough log.md"]


def test_an_edit_that_keeps_size_and_time_is_found_all_the_same(sample: CommandLine) -> None:
    note = sample.vault / "Inbox/tick.md"
    write_notes(sample.vault, {"Inbox/tick.md": "The word is zyzzyva.\n"})
    state = note.stat()
    assert sample.paths("zyzzyva") == ["Inbox/tick.md"]
    note.write_text("The word is quokkas.\n", "utf-8")
    os.utime(note, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert sample.paths("quokkas") == ["Inbox/tick.md"]


def test_a_note_made_moved_or_deleted_between_two_searches_is_noticed(sample: CommandLine) -> None:
    assert sample.paths("zyzzyva") == []
    write_notes(sample.vault, {"Inbox/beetle.md": "A zyzzyva.\n"})
    assert sample.paths("zyzzyva") == ["Inbox/beetle.md"]
    (sample.vault / "Inbox/beetle.md").rename(sample.vault / "Areas/weevil.md")
    assert sample.paths("zyzzyva") == ["Areas/weevil.md"]
    (sample.vault / "Areas/weevil.md").unlink()
    assert sample.paths("zyzzyva") == []


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("name", VAULT_COMMANDS)
def test_no_command_writes_anything_but_the_cache(
    shared: CommandLine, name: str, form: tuple[str, ...]
) -> None:
    watched = (shared.vault, shared.home, shared.temporary, shared.elsewhere)
    before = [listing(folder) for folder in watched]
    ended = shared.run(*VAULT_COMMANDS[name], *form)
    assert ended.out
    assert [listing(folder) for folder in watched] == before


def test_a_command_run_inside_a_vault_writes_nothing_there(sample: CommandLine) -> None:
    before = listing(sample.vault)
    for arguments in VAULT_COMMANDS.values():
        assert sample.run(*arguments, cwd=sample.vault, environment={"VAULTMEM_VAULT": None}).out
    assert listing(sample.vault) == before


def test_a_rebuild_writes_only_the_cache(shared: CommandLine) -> None:
    before = listing(shared.vault)
    assert shared.reply("index", "--rebuild")["notes"]["added"] == 75
    assert listing(shared.vault) == before


def test_demo_leaves_home_working_and_temporary_folder_as_they_were(shared: CommandLine) -> None:
    watched = (shared.home, shared.elsewhere)
    before = [listing(folder) for folder in watched]
    assert shared.run("demo").code == 0
    assert [listing(folder) for folder in watched] == before
    assert list(shared.temporary.iterdir()) == []


def test_deleting_the_cache_costs_time_and_no_answer(sample: CommandLine) -> None:
    questions = [("search", "ledger pooling", "-k", "30"), ("links", "Home"), ("lint",)]
    before = [sample.reply(*question) for question in questions]
    for file in sorted(sample.cache.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    assert [sample.reply(*question) for question in questions] == before


def test_the_listing_that_guards_the_vault_notices_every_kind_of_change(tmp_path: Path) -> None:
    write_notes(tmp_path, {"a.md": "one\n", "Folder/b.md": "two\n"})
    start = listing(tmp_path)
    (tmp_path / "a.md").write_text("eno\n")
    assert listing(tmp_path) != start
    start = listing(tmp_path)
    (tmp_path / "Folder/b.md").chmod(0o600)
    assert listing(tmp_path) != start
    start = listing(tmp_path)
    (tmp_path / "Folder/c").mkdir()
    assert listing(tmp_path) != start
    start = listing(tmp_path)
    (tmp_path / "a.md").read_bytes()
    assert listing(tmp_path) == start


def test_every_command_works_on_a_vault_that_nobody_may_write(sample: CommandLine) -> None:
    obey = obeying_permissions()
    files = sorted(sample.vault.rglob("*"))
    modes = {file: file.stat().st_mode for file in (sample.vault, *files)}
    for file, mode in modes.items():
        file.chmod(mode & ~0o222)
    try:
        before = listing(sample.vault)
        probe = sample.run("-c", "open(r'probe', 'w')", cwd=sample.vault, preexec_fn=obey,
                           python=(sys.executable,))  # fmt: skip
        assert "Permission denied" in probe.err, "the vault can be written, so this proves nothing"
        for arguments in VAULT_COMMANDS.values():
            ended = sample.run(*arguments, preexec_fn=obey)
            assert ended.code in (0, 1), ended
            assert ended.err == ""
        assert listing(sample.vault) == before
    finally:
        for file, mode in modes.items():
            file.chmod(mode)
