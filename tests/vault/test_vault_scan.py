"""What a walk over a vault sees, what it leaves alone, and what it reports."""

import os
import sys
import tempfile
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vaultmem.model.delta import Snapshot
from vaultmem.vault.ignore import compile_rules
from vaultmem.vault.obsidian import read_obsidian
from vaultmem.vault.scan import scan

NOBODY = 65534

posix_only = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files and permissions")
any_bytes_in_names = pytest.mark.skipif(
    sys.platform != "linux", reason="other systems change or refuse such names themselves"
)


def put(vault: Path, path: str, text: str = "text") -> Path:
    file = vault / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def look(vault: Path, *globs: str, limit: int = 1000) -> Snapshot:
    rules, _ = compile_rules(read_obsidian(vault), globs)
    return scan(vault, rules, max_note_bytes=limit)


def reported(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(problem.path, problem.code) for problem in snapshot.problems]


@contextmanager
def without_privileges() -> Iterator[None]:
    """Permissions bind nobody who is root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def public_vault() -> Iterator[Path]:
    """A vault that another user can enter, which pytest's own folders forbid."""
    with tempfile.TemporaryDirectory() as folder:
        vault = Path(folder)
        vault.chmod(0o755)
        yield vault
        vault.chmod(0o755)
        for below, folders, _ in os.walk(vault):
            for folder_name in folders:
                os.chmod(os.path.join(below, folder_name), 0o755)


def test_notes_and_canvases_are_told_from_other_files_at_any_depth(tmp_path: Path) -> None:
    for path in ("a.md", "deep/er/b.MD", "p.png", "c.canvas", "deep/readme"):
        put(tmp_path, path)

    snapshot = look(tmp_path)

    assert list(snapshot.notes) == ["a.md", "c.canvas", "deep/er/b.MD"]
    assert snapshot.files == {"p.png", "deep/readme"}
    assert snapshot.problems == ()
    assert snapshot.unlisted == ()


def test_the_first_look_at_a_note_is_what_the_file_system_says(tmp_path: Path) -> None:
    file = put(tmp_path, "sub/a.md", "12345")
    os.utime(file, ns=(1, 1_234_567_891))
    stat = file.stat()

    state = look(tmp_path).notes["sub/a.md"]

    assert state.size == 5
    assert state.mtime_ns == 1_234_567_891
    assert state.ctime_ns == stat.st_ctime_ns
    assert state.inode == stat.st_ino
    assert state.disk_path == "sub/a.md"


def test_an_empty_folder_is_an_empty_snapshot(tmp_path: Path) -> None:
    snapshot = look(tmp_path)

    assert (dict(snapshot.notes), snapshot.files, snapshot.unlisted) == ({}, frozenset(), ())


def test_a_folder_whose_name_ends_like_a_note_is_a_folder(tmp_path: Path) -> None:
    put(tmp_path, "odd.md/inside.md")

    assert list(look(tmp_path).notes) == ["odd.md/inside.md"]


@pytest.mark.parametrize(
    "path",
    [".hidden.md", ".obsidian/a.md", ".trash/a.md", "deep/.git/a.md", ".vaultmem/journal/a.md"],
)
def test_nothing_that_begins_with_a_dot_is_seen(tmp_path: Path, path: str) -> None:
    put(tmp_path, path)
    put(tmp_path, "seen.md")

    snapshot = look(tmp_path)

    assert list(snapshot.notes) == ["seen.md"]
    assert snapshot.files == frozenset()
    assert snapshot.problems == ()


@posix_only
def test_a_linked_note_is_not_followed_and_is_reported(tmp_path: Path) -> None:
    outside = put(tmp_path, "outside/secret.md")
    vault = tmp_path / "vault"
    put(vault, "own.md")
    (vault / "linked.md").symlink_to(outside)

    snapshot = look(vault)

    assert list(snapshot.notes) == ["own.md"]
    assert snapshot.files == frozenset()
    assert reported(snapshot) == [("linked.md", "linked")]


@posix_only
def test_a_linked_folder_is_not_followed_and_is_reported(tmp_path: Path) -> None:
    put(tmp_path, "outside/secret.md")
    vault = tmp_path / "vault"
    put(vault, "own.md")
    (vault / "linked").symlink_to(tmp_path / "outside", target_is_directory=True)

    snapshot = look(vault)

    assert list(snapshot.notes) == ["own.md"]
    assert reported(snapshot) == [("linked", "linked")]


@posix_only
def test_a_link_to_its_own_folder_does_not_go_round_for_ever(tmp_path: Path) -> None:
    put(tmp_path, "a.md")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)

    assert list(look(tmp_path).notes) == ["a.md"]


@posix_only
def test_a_link_that_leads_nowhere_is_reported(tmp_path: Path) -> None:
    (tmp_path / "gone.md").symlink_to(tmp_path / "nothing")

    snapshot = look(tmp_path)

    assert not snapshot.notes
    assert reported(snapshot) == [("gone.md", "linked")]


@posix_only
def test_a_fifo_that_is_named_like_a_note_is_left_alone_and_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")

    snapshot = look(tmp_path)

    assert not snapshot.notes
    assert reported(snapshot) == [("pipe.md", "not-a-file")]


def test_a_note_above_the_size_limit_is_reported_and_still_a_link_target(tmp_path: Path) -> None:
    put(tmp_path, "fits.md", "x" * 100)
    put(tmp_path, "large.md", "x" * 101)

    snapshot = look(tmp_path, limit=100)

    assert list(snapshot.notes) == ["fits.md"]
    assert snapshot.files == {"large.md"}
    assert snapshot.excluded == {"large.md": "setting scan.max_note_bytes"}
    assert reported(snapshot) == [("large.md", "note-too-large")]
    assert "101" in snapshot.problems[0].message
    assert "scan.max_note_bytes" in snapshot.problems[0].message


def test_the_size_limit_is_for_notes_not_for_attachments(tmp_path: Path) -> None:
    put(tmp_path, "film.mp4", "x" * 500)

    snapshot = look(tmp_path, limit=100)

    assert snapshot.files == {"film.mp4"}
    assert snapshot.problems == ()


@any_bytes_in_names
def test_a_name_that_is_no_utf8_is_reported_and_does_not_stop_the_others(tmp_path: Path) -> None:
    for name in (b"caf\xe9.md", b"bad\xff"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("x", encoding="utf-8")
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/dir\xe9")
    os.mkdir(folder)
    put(Path(folder), "inside.md")
    put(tmp_path, "good.md")

    snapshot = look(tmp_path)

    assert list(snapshot.notes) == ["good.md"]
    assert snapshot.files == frozenset()
    assert {code for _, code in reported(snapshot)} == {"name-not-text"}
    assert len(snapshot.problems) == 3
    # What is reported can be printed and stored.
    assert all(path.encode("utf-8") for path, _ in reported(snapshot))


@any_bytes_in_names
def test_a_decomposed_name_gets_a_composed_path_and_keeps_its_spelling_on_disk(
    tmp_path: Path,
) -> None:
    decomposed = unicodedata.normalize("NFD", "Über/Café.md")
    put(tmp_path, decomposed)

    snapshot = look(tmp_path)

    assert list(snapshot.notes) == ["Über/Café.md"]
    assert snapshot.notes["Über/Café.md"].disk_path == decomposed


def test_a_no_break_space_in_a_name_is_a_space_in_its_path(tmp_path: Path) -> None:
    put(tmp_path, "A\u00a0B\u202fC.md")

    snapshot = look(tmp_path)

    assert list(snapshot.notes) == ["A B C.md"]
    assert snapshot.notes["A B C.md"].disk_path == "A\u00a0B\u202fC.md"


@any_bytes_in_names
def test_of_two_spellings_of_one_name_neither_is_lost(tmp_path: Path) -> None:
    put(tmp_path, unicodedata.normalize("NFC", "é.md"), "composed")
    put(tmp_path, unicodedata.normalize("NFD", "é.md"), "decomposed, and longer")
    put(tmp_path, unicodedata.normalize("NFC", "ä.png"))
    put(tmp_path, unicodedata.normalize("NFD", "ä.png"))

    first = look(tmp_path)

    decomposed = unicodedata.normalize("NFD", "é.md")
    assert {path: state.size for path, state in first.notes.items()} == {"é.md": 8, decomposed: 22}
    assert first.files == {"ä.png"}
    assert reported(first) == []
    assert look(tmp_path).notes == first.notes


@any_bytes_in_names
def test_two_spellings_of_one_folder_are_one_folder(tmp_path: Path) -> None:
    put(tmp_path, unicodedata.normalize("NFC", "é/a.md"))
    put(tmp_path, unicodedata.normalize("NFD", "é/b.md"))

    snapshot = look(tmp_path)

    assert list(snapshot.notes) == ["é/a.md", "é/b.md"]
    assert snapshot.problems == ()


@posix_only
def test_a_folder_that_cannot_be_listed_is_unlisted_and_the_rest_is_seen(
    public_vault: Path,
) -> None:
    put(public_vault, "locked/in.md")
    put(public_vault, "locked/deeper/in.md")
    put(public_vault, "open/out.md")
    (public_vault / "locked").chmod(0o000)

    with without_privileges():
        snapshot = look(public_vault)

    assert list(snapshot.notes) == ["open/out.md"]
    assert snapshot.unlisted == ("locked",)
    assert reported(snapshot) == [("locked", "folder-unreadable")]


@posix_only
def test_unlisted_folders_are_sorted(public_vault: Path) -> None:
    for name in ("b", "c", "a", "a/deep"):
        (public_vault / name).mkdir()
    for name in ("b", "c", "a/deep"):
        (public_vault / name).chmod(0o000)

    with without_privileges():
        snapshot = look(public_vault)

    assert snapshot.unlisted == ("a/deep", "b", "c")


@posix_only
def test_a_folder_whose_files_cannot_be_looked_at_counts_as_unlisted(public_vault: Path) -> None:
    """Its names can be read, their states cannot: absence from the notes proves nothing."""
    put(public_vault, "half/in.md")
    put(public_vault, "out.md")
    (public_vault / "half").chmod(0o444)

    with without_privileges():
        snapshot = look(public_vault)

    assert list(snapshot.notes) == ["out.md"]
    assert "half/in.md" in [path for path, _ in reported(snapshot)]
    assert snapshot.unlisted == ("half",)


@posix_only
def test_a_vault_that_cannot_be_listed_is_unlisted_as_a_whole(public_vault: Path) -> None:
    put(public_vault, "a.md")
    public_vault.chmod(0o000)

    with without_privileges():
        snapshot = look(public_vault)

    assert snapshot.unlisted == ("",)
    assert reported(snapshot) == [(".", "folder-unreadable")]


def test_a_vault_that_is_not_there_raises_nothing(tmp_path: Path) -> None:
    snapshot = look(tmp_path / "missing")

    assert snapshot.unlisted == ("",)
    assert not snapshot.notes


def test_a_conflict_copy_is_reported_kept_from_search_and_still_a_link_target(
    tmp_path: Path,
) -> None:
    copy = "Note (Conflicted copy Phone 202611301200).md"
    put(tmp_path, copy)
    put(tmp_path, "Note.md")

    snapshot = look(tmp_path)

    assert list(snapshot.notes) == ["Note.md"]
    assert snapshot.files == {copy}
    assert list(snapshot.excluded) == [copy]
    assert reported(snapshot) == [(copy, "conflict-copy")]


def test_an_excluded_note_is_a_link_target_with_the_rule_that_excludes_it(tmp_path: Path) -> None:
    put(tmp_path, "Archive/old.md")
    put(tmp_path, "new.md")

    snapshot = look(tmp_path, "Archive")

    assert list(snapshot.notes) == ["new.md"]
    assert snapshot.files == {"Archive/old.md"}
    assert snapshot.excluded == {"Archive/old.md": "setting scan.ignore: Archive"}
    assert snapshot.problems == ()


def test_two_walks_over_an_unchanged_vault_are_equal_and_leave_it_as_it_was(
    tmp_path: Path,
) -> None:
    for number in range(20):
        put(tmp_path, f"{number % 3}/{number}.md")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    first, second = look(tmp_path), look(tmp_path)

    assert first == second
    assert list(first.notes) == sorted(first.notes)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_deep_vault_is_walked_to_its_end(tmp_path: Path) -> None:
    deep = "/".join(["d"] * 200)
    put(tmp_path, f"{deep}/n.md")

    assert list(look(tmp_path).notes) == [f"{deep}/n.md"]
