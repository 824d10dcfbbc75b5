"""Nothing that is asked of a hostile vault leaves a mark on it, or beside it."""

import os
from pathlib import Path

import pytest
from hostile_vaults import Asked, bytes_below, listing, make_removable

pytest_plugins = ["hostile_fixtures"]


def test_every_file_and_folder_is_as_it_was(each: Asked) -> None:
    assert len(each.before) > 1000
    assert {"vault", "outside", "vault-evil", "outside/secret.md"} <= set(each.before)
    changed = {
        path
        for path in each.before.keys() | each.after.keys()
        if each.before.get(path) != each.after.get(path)
    }
    assert changed == set()


def test_no_text_of_a_note_was_run(each: Asked) -> None:
    for _, folders, files in os.walk(each.child.scratch):
        assert "PWNED" not in (*folders, *files)


def test_nothing_is_left_where_the_process_ran(each: Asked) -> None:
    assert os.listdir(each.child.scratch / "elsewhere") == []
    assert os.listdir(each.child.scratch / "temporary") == []
    folders = ["cache", "elsewhere", "home", "jobs", "out", "temporary"]
    assert sorted(os.listdir(each.child.scratch)) == folders
    for path, _ in bytes_below(each.child.scratch / "home"):
        assert "vaultmem" in path.parts


# The listing itself


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "a.md").write_text("bye"),
        lambda folder: os.utime(folder / "a.md", ns=(0, 1)),
        lambda folder: (folder / "a.md").chmod(0o600),
        lambda folder: (folder / "sub" / "new.md").write_text("x"),
        lambda folder: (folder / "sub").chmod(0o700),
        lambda folder: os.replace(folder / "a.md", folder / "b.md"),
        lambda folder: os.utime(folder / "link", ns=(0, 1), follow_symlinks=False),
    ],
    ids=["bytes", "time", "mode", "new", "folder", "rename", "link"],
)
def test_a_change_is_seen(tmp_path: Path, change: object) -> None:
    (tmp_path / "sub").mkdir(mode=0o755)
    (tmp_path / "a.md").write_text("hi!")
    (tmp_path / "a.md").chmod(0o644)
    (tmp_path / "link").symlink_to("a.md")
    before = listing(tmp_path)
    assert listing(tmp_path) == before
    assert callable(change)
    change(tmp_path)
    assert listing(tmp_path) != before


def test_a_closed_folder_can_be_removed_afterwards(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    make_removable(tmp_path)
    assert (tmp_path / "closed").stat().st_mode & 0o777 == 0o700
