"""What is heard of a folder: every way to change it, and nothing that is not a change."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vaultmem.vault.watch import FolderWatch

# Until what was done is heard of: seconds.
PATIENCE = 20.0

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="is about inotify")


class Ear:
    """Listens to a vault, and remembers what it heard."""

    def __init__(self, vault: Path) -> None:
        self.vault = vault
        self.said = threading.Condition()
        self.changed: list[str] = []
        self.settings = 0
        self.lost = 0
        self.fences = 0
        self.watch = FolderWatch(
            vault,
            changed=self._changed,
            lost=self._lost,
            settings=self._settings,
            is_settings=lambda path: path in (".vaultmem/config.toml", ".obsidian/app.json"),
        )

    def _changed(self, path: str) -> None:
        with self.said:
            self.changed.append(path)
            self.said.notify_all()

    def _settings(self) -> None:
        with self.said:
            self.settings += 1
            self.said.notify_all()

    def _lost(self) -> None:
        with self.said:
            self.lost += 1
            self.said.notify_all()

    def wait(self, holds: Callable[[], bool], seconds: float = PATIENCE) -> bool:
        with self.said:
            return self.said.wait_for(holds, seconds)

    def heard(self) -> set[str]:
        """All that was heard of since last asked: events come in order, so up to one of ours."""
        self.fences += 1
        fence = f"fence {self.fences}.md"
        (self.vault / fence).write_text("")
        assert self.wait(lambda: fence in self.changed), "it hears no more"
        with self.said:
            heard = {path for path in self.changed if not path.startswith("fence ")}
            self.changed.clear()
        return heard


def comes_true(condition: Callable[[], bool]) -> bool:
    """Whether something that nobody tells of becomes so in time."""
    until = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < until:
        threading.Event().wait(0.01)
    return condition()


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    vault = tmp_path / "vault"
    for path in ("note.md", "one/a.md", "one/deep/b.md", "two/c.md", "pot.png"):
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text("text")
    return vault


@pytest.fixture
def ear(vault: Path) -> Iterator[Ear]:
    ear = Ear(vault)
    yield ear
    ear.watch.close()


# Editors


def in_place(note: Path) -> None:
    with note.open("r+b") as stream:
        stream.write(b"new text")
        stream.truncate()


def emptied_and_written(note: Path) -> None:
    note.write_bytes(b"new text")


def beside_and_renamed(note: Path) -> None:
    beside = note.with_name(note.name + ".tmp")
    beside.write_bytes(b"new text")
    os.replace(beside, note)


def deleted_and_made(note: Path) -> None:
    note.unlink()
    note.write_bytes(b"new text")


def backup_and_written(note: Path) -> None:
    """As vim does it, with its probe and its swap file."""
    swap, probe = note.with_name(f".{note.name}.swp"), note.with_name("4913")
    backup = note.with_name(note.name + "~")
    swap.write_bytes(b"vim")
    probe.touch()
    probe.unlink()
    note.rename(backup)
    note.write_bytes(b"new text")
    backup.unlink()
    swap.unlink()


def appended(note: Path) -> None:
    with note.open("ab") as stream:
        stream.write(b" and more")


SAVES = [
    *(in_place, emptied_and_written, beside_and_renamed),
    *(deleted_and_made, backup_and_written, appended),
]


@pytest.mark.parametrize("save", SAVES, ids=lambda save: str(save.__name__))
@pytest.mark.parametrize("path", ["note.md", "one/deep/b.md"])
def test_a_save_is_heard_as_a_change_of_the_note_and_of_nothing_else(
    ear: Ear, save: Callable[[Path], None], path: str
) -> None:
    save(ear.vault / path)
    assert ear.heard() == {path}
    save(ear.vault / path)
    assert ear.heard() == {path}


def test_what_comes_goes_or_moves_is_heard_at_both_ends(ear: Ear, tmp_path: Path) -> None:
    (ear.vault / "new.md").write_text("new")
    assert ear.heard() == {"new.md"}
    (ear.vault / "new.md").rename(ear.vault / "one/newer.md")
    assert ear.heard() == {"new.md", "one/newer.md"}
    (ear.vault / "one/newer.md").rename(tmp_path / "out.md")
    assert ear.heard() == {"one/newer.md"}
    (tmp_path / "out.md").rename(ear.vault / "two/back.md")
    assert ear.heard() == {"two/back.md"}
    (ear.vault / "two/back.md").unlink()
    assert ear.heard() == {"two/back.md"}
    (ear.vault / "pot.png").rename(ear.vault / "jug.png")
    assert ear.heard() == {"pot.png", "jug.png"}


def test_a_swap_of_two_notes_is_heard_of_both(ear: Ear, tmp_path: Path) -> None:
    (ear.vault / "note.md").rename(tmp_path / "spare")
    (ear.vault / "two/c.md").rename(ear.vault / "note.md")
    (tmp_path / "spare").rename(ear.vault / "two/c.md")
    assert ear.heard() == {"note.md", "two/c.md"}


def test_a_folder_that_moves_is_heard_at_both_ends_and_what_is_in_it_afterwards(ear: Ear) -> None:
    (ear.vault / "one").rename(ear.vault / "three")
    assert {"one", "three"} <= ear.heard()
    (ear.vault / "three/deep/b.md").write_text("new")
    assert ear.heard() == {"three/deep/b.md"}


def test_a_folder_that_leaves_is_heard_of_and_is_none_of_the_vault_any_more(
    ear: Ear, tmp_path: Path
) -> None:
    (ear.vault / "one").rename(tmp_path / "out")
    assert "one" in ear.heard()


def test_a_folder_that_comes_in_is_heard_of_with_all_that_is_in_it(
    ear: Ear, tmp_path: Path
) -> None:
    for path in ("in/x.md", "in/deep/er/y.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("text")
    (tmp_path / "in").rename(ear.vault / "two/in")
    assert {"two/in", "two/in/x.md", "two/in/deep/er/y.md"} <= ear.heard()
    (ear.vault / "two/in/deep/er/z.md").write_text("new")
    assert ear.heard() == {"two/in/deep/er/z.md"}


def test_a_folder_that_goes_is_heard_of(ear: Ear) -> None:
    shutil.rmtree(ear.vault / "one")
    assert {"one", "one/a.md", "one/deep/b.md"} <= ear.heard()


@linux_only
def test_folders_made_all_at_once_are_heard_of_to_the_last_note_and_without_a_word(
    ear: Ear, capfd: pytest.CaptureFixture[str]
) -> None:
    paths = {f"new {n}/deep/er/still/note.md" for n in range(60)}
    for path in paths:
        (ear.vault / path).parent.mkdir(parents=True)
        (ear.vault / path).write_text("text")
    heard = ear.heard()
    assert paths <= heard
    for path in paths:
        (ear.vault / path).write_text("another")
    assert paths <= ear.heard()
    assert capfd.readouterr() == ("", "")


def test_a_program_is_not_told_of_what_watchdog_thinks(vault: Path) -> None:
    """It warns of folders that it meets twice, at a length that grows with the vault."""
    program = f"""
        import sys, threading
        from pathlib import Path
        from vaultmem.vault.watch import FolderWatch
        vault, heard = Path(sys.argv[1]), threading.Event()
        def changed(path):
            if path == "last.md":
                heard.set()
        watch = FolderWatch(vault, changed=changed, lost=print, settings=print,
                            is_settings=lambda path: False)
        for n in range(200):
            (vault / f"new {{n}}/deep/er/still").mkdir(parents=True)
            (vault / f"new {{n}}/deep/er/still/note.md").touch()
        (vault / "last.md").touch()
        assert heard.wait({PATIENCE})
        watch.close()
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(vault)],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr[:300]) == (0, "", "")


# What is none of anybody's business


def test_reading_and_listing_is_not_heard_of(ear: Ear) -> None:
    for path in ("note.md", "one/a.md", "one/deep/b.md"):
        assert (ear.vault / path).read_text() == "text"
        os.stat(ear.vault / path)
    for _ in os.walk(ear.vault):
        pass
    assert ear.heard() == set()


@pytest.mark.parametrize(
    "path",
    [
        *(".trash/x.md", ".git/objects/ab/cd", ".obsidian/workspace.json", ".hidden.md"),
        *("one/.git/HEAD", "one/.x.md.swp", ".vaultmem/journal/x.md", "x.md~", "x.md.tmp"),
        *("one/4913", "x.md.crdownload", "x.md.part"),
    ],
)
def test_hidden_files_and_what_editors_leave_for_a_moment_are_not_heard_of(
    ear: Ear, path: str
) -> None:
    file = ear.vault / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x")
    file.write_text("y")
    file.unlink()
    assert ear.heard() == set()
    assert ear.settings == 0


@pytest.mark.parametrize("name", ["Room 4913", "Old~", "Parts.part", "Scratch.tmp"])
def test_a_folder_named_like_what_passes_is_a_folder_all_the_same(
    ear: Ear, tmp_path: Path, name: str
) -> None:
    (ear.vault / name).mkdir()
    (ear.vault / name / "x.md").write_text("x")
    assert f"{name}/x.md" in ear.heard()
    (ear.vault / name).rename(tmp_path / "out")
    assert name in ear.heard()


@pytest.mark.parametrize("name", ["Scan 4913", "Flight 4913.md"])
def test_a_name_that_merely_ends_like_vims_probe_is_heard_of(ear: Ear, name: str) -> None:
    (ear.vault / name).write_text("x")
    assert ear.heard() == {name}


# Settings


@pytest.mark.parametrize("path", [".vaultmem/config.toml", ".obsidian/app.json"])
def test_settings_are_told_apart(ear: Ear, path: str, tmp_path: Path) -> None:
    file = ear.vault / path
    (tmp_path / "new").write_text("x")

    def comes_by_renaming() -> None:
        (tmp_path / "new").rename(file)

    def is_saved_beside() -> None:
        beside = file.with_suffix(".tmp")
        beside.write_text("z")
        os.replace(beside, file)

    file.parent.mkdir()
    for change in (
        *(lambda: file.write_text("x"), lambda: file.write_text("y"), is_saved_beside, file.unlink),
        *(comes_by_renaming, lambda: file.rename(tmp_path / "out")),
    ):
        before = ear.settings
        change()
        assert ear.heard() == set()
        assert ear.settings > before


@pytest.mark.parametrize("folder", [".vaultmem", ".obsidian"])
def test_settings_that_come_and_go_with_their_folder_are_heard_of(
    ear: Ear, tmp_path: Path, folder: str
) -> None:
    name = "config.toml" if folder == ".vaultmem" else "app.json"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_text("x")
    for old, new in (
        (tmp_path / "in", ear.vault / folder),
        (ear.vault / folder, ear.vault / ".elsewhere"),
        (ear.vault / ".elsewhere", ear.vault / folder),
        (ear.vault / folder, tmp_path / "out"),
    ):
        before = ear.settings
        old.rename(new)
        assert ear.heard() == set()
        assert ear.settings > before, f"{old.name} -> {new.name}"


@pytest.mark.parametrize("name", [".a.md.icloud", "a.md.nextcloud", "a.md.owncloud"])
def test_a_sync_service_s_stand_in_is_heard_of_as_its_folder(ear: Ear, name: str) -> None:
    """What is said of how much of a folder is elsewhere is said of all of it."""
    (ear.vault / "one" / name).write_text("x")
    assert ear.heard() == {"one"}
    (ear.vault / ".trash").mkdir()
    (ear.vault / ".trash" / name).write_text("x")
    assert ear.heard() == set()
    (ear.vault / name).write_text("x")
    assert ear.heard() == {""}


@linux_only
def test_a_name_that_is_no_text_is_heard_of_as_python_spells_it(ear: Ear) -> None:
    name = os.fsdecode(b"caf\xe9.md")
    (ear.vault / name).write_text("x")
    assert ear.heard() == {name}


# What it cannot hear, and its end


OVERFLOWED = """
    import os, sys, threading
    from pathlib import Path
    from vaultmem.vault.watch import FolderWatch
    vault, said = Path(sys.argv[1]), threading.Lock()
    def say(word):
        with said:
            print(word, flush=True)
    watch = FolderWatch(
        vault,
        changed=lambda path: say("after") if path == "after.md" else None,
        lost=lambda: say("lost"),
        settings=lambda: None,
        is_settings=lambda path: False,
    )
    say("ready")
    sys.stdin.read()
    watch.close()
"""


def save_again_and_again(note: Path, ended: threading.Event) -> None:
    while not ended.wait(0.02):
        note.write_text("x")


@linux_only
def test_changes_that_the_system_had_no_room_for_are_known_to_be_lost(vault: Path) -> None:
    """A process that stands still meanwhile; the system keeps so many changes for it."""
    room = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if room > 100_000:
        pytest.skip("the system keeps very many changes here")
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OVERFLOWED), str(vault)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        in_time = threading.Timer(2 * PATIENCE, child.kill)
        in_time.start()
        again = threading.Event()
        try:
            assert child.stdout.readline() == "ready\n"
            child.send_signal(signal.SIGSTOP)
            os.waitpid(child.pid, os.WUNTRACED)
            # Equal changes in a row count once.
            for n in range(room // 2 + 100):
                os.utime(vault / "note.md", (n, n))
                os.utime(vault / "one/a.md", (n, n))
            child.send_signal(signal.SIGCONT)
            assert child.stdout.readline() == "lost\n"
            # What happens before it has found its way again is lost too.
            saving = threading.Thread(target=save_again_and_again, args=(vault / "after.md", again))
            saving.start()
            lines = iter(child.stdout.readline, "")
            heard = next((line for line in lines if line != "lost\n"), "")
            again.set()
            saving.join()
            assert heard == "after\n"
            child.stdin.close()
            assert child.wait(PATIENCE) == 0
        finally:
            in_time.cancel()
            again.set()
            child.kill()


def test_it_ends_when_the_folder_goes_away(ear: Ear) -> None:
    assert ear.watch.hears()
    shutil.rmtree(ear.vault)
    assert comes_true(lambda: not ear.watch.hears())


@linux_only
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_it_does_not_go_deaf_by_a_folder_that_left_and_was_deleted_elsewhere(
    ear: Ear, tmp_path: Path
) -> None:
    """Moved to the trash; another one of the name came and went; the trash is emptied."""
    (ear.vault / "one").rename(tmp_path / "trash")
    assert "one" in ear.heard()
    (ear.vault / "one").mkdir()
    assert "one" in ear.heard()
    (ear.vault / "one").rmdir()
    assert "one" in ear.heard()
    shutil.rmtree(tmp_path / "trash")
    (ear.vault / "after.md").write_text("x")
    assert comes_true(lambda: "after.md" in ear.changed or not ear.watch.hears())


@linux_only
def test_it_ends_well_when_folders_have_left(vault: Path, tmp_path: Path) -> None:
    ear = Ear(vault)
    (vault / "one").rename(tmp_path / "trash")
    (vault / "one").mkdir()
    ear.heard()
    (vault / "one").rmdir()
    ear.heard()
    ear.watch.close()
    assert not ear.watch.hears()


def test_nothing_is_heard_of_once_it_is_closed_and_closing_it_twice_is_no_matter(
    vault: Path,
) -> None:
    before = set(threading.enumerate())
    ear = Ear(vault)
    ear.heard()
    ear.watch.close()
    assert not ear.watch.hears()
    (vault / "after.md").write_text("x")
    ear.watch.close()
    left = set(threading.enumerate()) - before
    for thread in left:
        thread.join(PATIENCE)
    assert not [thread for thread in left if thread.is_alive()]
    assert ear.changed == []


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with pytest.raises(OSError, match="No such file"):
        Ear(tmp_path / "gone")
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_two_of_them_hear_each_of_its_own_vault(ear: Ear, tmp_path: Path) -> None:
    (tmp_path / "vault 2").mkdir()
    other = Ear(tmp_path / "vault 2")
    try:
        (ear.vault / "note.md").write_text("new")
        assert other.heard() == set()
        assert ear.heard() == {"note.md"}
    finally:
        other.watch.close()


LIMITED = """
    import sys
    from pathlib import Path
    from vaultmem.vault.watch import FolderWatch
    Path("/proc/sys/user/max_inotify_watches").write_text(sys.argv[2])
    watch = FolderWatch(Path(sys.argv[1]), changed=print, lost=print, settings=print,
                        is_settings=lambda path: False)
    print(watch.unheard() or "all of it")
    watch.close()
"""


@linux_only
@pytest.mark.parametrize(("watches", "said"), [(4, "all of it"), (3, "3 of 4 folders")])
def test_folders_beyond_what_the_system_watches_are_known_to_go_unheard(
    vault: Path, watches: int, said: str
) -> None:
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("needs unshare(1)")
    command = [unshare, "--user", "--map-root-user", sys.executable, "-c"]
    ended = subprocess.run(
        [*command, textwrap.dedent(LIMITED), str(vault), str(watches)],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    if "unshare" in ended.stderr or "max_inotify_watches" in ended.stderr:
        pytest.skip("this system gives nobody a limit of their own")
    assert ended.stderr == ""
    assert said in ended.stdout
