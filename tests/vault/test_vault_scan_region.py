"""A look at single places is the same part of a look at everything, and claims no more."""

import os
import shutil
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.model.delta import Snapshot, within
from vaultmem.vault.ignore import compile_rules
from vaultmem.vault.obsidian import read_obsidian
from vaultmem.vault.paths import is_hidden, vault_path
from vaultmem.vault.scan import scan

any_bytes_in_names = pytest.mark.skipif(
    sys.platform != "linux", reason="other systems change or refuse such names themselves"
)


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


# The last part tells what is made: a folder, a link, or a file.
LINKS = ("link.md", "linked")
FOLDERS = ("d", "é", nfd("é"), "d e", "d\u00a0e", "d.md", ".dot", "linked")
FILES = (
    *("a.md", "b.MD", "c.canvas", "p.png", "é.md", nfd("é.md"), "é.png", nfd("é.png")),
    *("a b.md", "a\u00a0b.md", "a\u202fb.md", "large.md", "link.md", "d", "é", nfd("é")),
    *("note (conflicted copy 2026-01-02).md", "x.sync-conflict-20260102-030405-ABC.md"),
    *("odd#.md", nfd("ö#.md"), "zero\u200bwidth.md", nfd("ß\u200bü.md"), "~$a.md"),
    *(".hidden.md", ".a.md.icloud", "a.md.nextcloud", "b.MD.owncloud", ".p.png.icloud"),
    *("." + nfd("é.md") + ".icloud", nfd("é.md") + ".nextcloud", "private.md"),
    os.fsdecode(b"caf\xe9.md"),
)
LARGE = 100

parts = st.sampled_from((*FOLDERS, *FILES))
folder_paths = st.lists(st.sampled_from(FOLDERS), max_size=2).map("/".join)
file_paths = (
    st.tuples(folder_paths, st.sampled_from(FILES)).map("/".join).map(lambda p: p.strip("/"))
)
# What events may tell of, of what is there or is not.
told_paths = st.one_of(
    file_paths,
    folder_paths,
    st.lists(parts, min_size=1, max_size=4).map("/".join),
    st.sampled_from(["", ".", "..", "../a.md", "d/../a.md", "/a.md", "d//a.md", "nowhere/b/c.md"]),
)


def make(vault: Path, paths: Iterable[str]) -> None:
    """Make what can be made of these: links, files and the folders they need."""
    for path in paths:
        folder, _, name = path.rpartition("/")
        here = vault
        for part in folder.split("/") if folder else ():
            here /= part
            if not os.path.lexists(here):
                here.symlink_to(vault.parent / "outside") if part in LINKS else here.mkdir()
            if here.is_symlink() or not here.is_dir():
                break
        else:
            file = here / name
            if os.path.lexists(file):
                continue
            if name in LINKS:
                file.symlink_to(vault.parent / "outside/a.md")
            else:
                file.write_bytes(b"x" * (LARGE + 1 if name == "large.md" else len(path)))


@pytest.fixture(scope="module")
def ground() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        outside = Path(folder, "outside")
        outside.mkdir()
        (outside / "a.md").write_text("outside")
        yield Path(folder)


def look(
    vault: Path,
    only: Sequence[str] | None = None,
    *,
    first: Sequence[str] = (),
    time_is_up: Callable[[], bool] | None = None,
) -> Snapshot:
    rules, _ = compile_rules(read_obsidian(vault), ["private.md"])
    return scan(vault, rules, max_note_bytes=LARGE, only=only, first=first, time_is_up=time_is_up)


# Only who is root can be somebody else for a moment.
as_root_only = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs to give up root's rights"
)


def everything(snapshot: Snapshot) -> set[str]:
    """Every path that a walk says something of."""
    return {
        *(*snapshot.notes, *snapshot.files, *snapshot.excluded, *snapshot.away),
        *(problem.path for problem in snapshot.problems),
    }


def said_of(snapshot: Snapshot, path: str) -> tuple[object, ...]:
    """All that a walk says of one path."""
    return (
        snapshot.notes.get(path),
        path in snapshot.files,
        snapshot.excluded.get(path),
        path in snapshot.away,
        {problem for problem in snapshot.problems if problem.path == path},
    )


def printable(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode()


def assert_same_part(vault: Path, only: Sequence[str]) -> Snapshot:
    whole, part = look(vault), look(vault, only)
    assert part.region is not None
    for path in everything(whole) | everything(part):
        if part.speaks_of(path):
            assert said_of(part, path) == said_of(whole, path), path
        else:
            of_problems = {p for p in part.problems if p.path == path}
            assert said_of(part, path)[:4] == (None, False, None, False), path
            assert of_problems <= set(whole.problems), path
    for path in only:
        told = path.split("/")
        plain = path and not {"", ".", ".."}.intersection(told) and not is_hidden(path)
        folders = [vault.joinpath(*told[:n]) for n in range(1, len(told))]
        if plain and not any(folder.is_symlink() for folder in folders):
            here = {vault_path(path), path}
            assert all(part.speaks_of(printable(told)) for told in here), path
            below = [known for known in everything(whole) if within(known, here)]
            assert all(part.speaks_of(known) for known in below), path
    return part


@pytest.fixture
def vault(ground: Path) -> Iterator[Path]:
    folder = ground / "vault"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


@any_bytes_in_names
@given(st.lists(file_paths, max_size=14), st.lists(told_paths, max_size=5))
@settings(max_examples=400, deadline=None)
def test_a_look_at_some_places_is_the_same_part_of_a_look_at_everything(
    ground: Path, there: list[str], only: list[str]
) -> None:
    with tempfile.TemporaryDirectory(dir=ground) as folder:
        make(Path(folder), there)
        assert_same_part(Path(folder), only)


@any_bytes_in_names
@given(st.lists(file_paths, min_size=1, max_size=14), st.data())
@settings(max_examples=200, deadline=None)
def test_a_look_at_places_that_are_there_is_the_same_part(
    ground: Path, there: list[str], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory(dir=ground) as folder:
        vault = Path(folder)
        make(vault, there)
        found = sorted(path.relative_to(vault).as_posix() for path in vault.rglob("*"))
        assert_same_part(vault, data.draw(st.lists(st.sampled_from(found), max_size=4)))


@any_bytes_in_names
@given(st.lists(file_paths, max_size=14))
@settings(max_examples=100, deadline=None)
def test_looking_at_every_top_folder_is_looking_at_everything(
    ground: Path, there: list[str]
) -> None:
    with tempfile.TemporaryDirectory(dir=ground) as folder:
        vault = Path(folder)
        make(vault, there)
        # As they are heard of: a hidden file of iCloud's by the name of what it stands in for.
        names = [name[1:-7] if name.endswith(".icloud") else name for name in os.listdir(vault)]
        whole, part = look(vault), look(vault, names)
        assert (dict(part.notes), part.files) == (dict(whole.notes), whole.files)
        assert (dict(part.excluded), part.away) == (dict(whole.excluded), whole.away)
        # Of the vault's own folder only a look at all of it can tell how much is elsewhere.
        assert set(part.problems) == {p for p in whole.problems if p.path != "."}


# Places, one by one


def put(vault: Path, *paths: str) -> None:
    make(vault, paths)


def test_nothing_but_the_places_and_what_is_below_them_is_looked_at(vault: Path) -> None:
    put(vault, "a.md", "b.MD", "d/a.md", "d/d/b.MD", "d e/a.md")
    part = assert_same_part(vault, ["b.MD", "d"])
    assert list(part.notes) == ["b.MD", "d/a.md", "d/d/b.MD"]
    assert part.speaks_of("d/gone.md")
    assert not part.speaks_of("a.md")
    assert not part.speaks_of("d e/a.md")


def test_of_a_place_in_a_folder_that_is_gone_all_of_the_folder_is_gone(vault: Path) -> None:
    put(vault, "a.md")
    part = assert_same_part(vault, ["gone/deeper/a.md"])
    assert part.speaks_of("gone/deeper/b.md")
    assert part.speaks_of("gone/c.md")
    assert not part.notes


@any_bytes_in_names
def test_a_folder_and_a_note_in_it_are_one_place(vault: Path) -> None:
    folder = nfd("é")
    put(vault, f"{folder}/a.md", f"{folder}/note (conflicted copy 2026-01-02).md")
    part = assert_same_part(
        vault, [folder, f"{folder}/a.md", f"{folder}/note (conflicted copy 2026-01-02).md"]
    )
    assert list(part.notes) == ["é/a.md"]


@any_bytes_in_names
@pytest.mark.parametrize("told", ["é.md", nfd("é.md")])
@pytest.mark.parametrize("left", ["é.md", nfd("é.md"), None])
def test_a_place_is_every_file_that_its_vault_path_means(
    vault: Path, told: str, left: str | None
) -> None:
    put(vault, "é.md", nfd("é.md"))
    if left is not None:
        (vault / left).unlink()
    assert_same_part(vault, [told])


@any_bytes_in_names
def test_a_place_in_one_of_two_folders_of_one_name_is_looked_for_in_both(vault: Path) -> None:
    put(vault, "é/a.md", f"{nfd('é')}/a.md", f"{nfd('é')}/p.png", "é/p.png")
    (vault / nfd("é") / "p.png").unlink()
    part = assert_same_part(vault, [f"{nfd('é')}/a.md", f"{nfd('é')}/p.png"])
    assert sorted(part.notes) == sorted(["é/a.md", f"{nfd('é')}/a.md"])
    assert part.files == {"é/p.png"}


@any_bytes_in_names
def test_what_is_said_of_a_place_can_be_stored_whatever_its_name_is(vault: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    put(vault, f"{name}.md", "a.md")
    (vault / name).mkdir()
    put(vault, f"{name}/a.md")
    part = assert_same_part(vault, [f"{name}.md", f"{name}/a.md", f"{name}/gone.md"])
    assert part.region is not None
    for path in [*part.region, *everything(part)]:
        path.encode("utf-8")


def test_a_sync_services_stand_in_speaks_of_what_it_stands_in_for(vault: Path) -> None:
    put(vault, "a.md.nextcloud", "b.md")
    part = assert_same_part(vault, ["a.md.nextcloud"])
    assert part.away == {"a.md"}
    assert part.speaks_of("a.md")


def test_how_much_of_a_folder_is_elsewhere_is_said_by_who_saw_all_of_it(vault: Path) -> None:
    put(vault, "d/a.md.nextcloud", "d/b.MD.owncloud")
    assert not assert_same_part(vault, ["d/a.md"]).problems
    (problem,) = assert_same_part(vault, ["d"]).problems
    assert (problem.path, problem.message[:2]) == ("d", "2 ")


@pytest.mark.parametrize("path", ["", ".", "..", "../outside/a.md", ".dot/a.md", "link.md/x"])
def test_a_path_that_leads_nowhere_is_no_place(vault: Path, path: str) -> None:
    put(vault, "a.md", ".dot/a.md", "link.md")
    part = look(vault, [path])
    assert (dict(part.notes), part.files, part.region) == ({}, frozenset(), frozenset())


def test_a_folder_that_became_a_file_or_a_link_is_itself_the_place(vault: Path) -> None:
    put(vault, "d", "linked/x")
    part = assert_same_part(vault, ["d/a.md"])
    assert part.files == {"d"}
    assert part.speaks_of("d/b.md")
    part = assert_same_part(vault, ["linked"])
    assert [p.code for p in part.problems] == ["linked"]
    assert part.speaks_of("linked/a.md")


# Walks whose time is up


class Patience:
    """Time that is up after so many folders."""

    def __init__(self, folders: int) -> None:
        self.left = folders

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


def folders_of(vault: Path) -> set[str]:
    return {
        "/".join(path.relative_to(vault).parts)
        for path in [vault, *vault.rglob("*")]
        if path.is_dir() and not path.is_symlink() and not is_hidden(str(path.relative_to(vault)))
    }


trees = st.lists(
    st.lists(st.sampled_from(["d", "é", "e", "f"]), min_size=1, max_size=3).map("/".join),
    min_size=1,
    max_size=10,
)


@given(trees, st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_walks_that_go_on_where_the_last_one_ended_reach_every_folder(
    ground: Path, tree: list[str], folders: int
) -> None:
    with tempfile.TemporaryDirectory(dir=ground) as base:
        vault = Path(base)
        for folder in tree:
            put(vault, f"{folder}/a.md")
        put(vault, "a.md")
        whole = look(vault)
        below = folders_of(vault) - {"."}
        seen: set[str] = set()
        rest: tuple[str, ...] = ()
        for _ in range(len(below)):
            part = look(vault, first=rest, time_is_up=Patience(folders))
            seen |= part.notes.keys()
            for path in whole.notes:
                if part.speaks_of(path):
                    assert path in part.notes, "claimed to be absent"
            assert all(part.notes[path] == whole.notes[path] for path in part.notes)
            assert part.cut_short == (part.rest != ())
            assert len(part.rest) == len(set(part.rest)), "a folder has one turn"
            assert set(part.rest) <= below
            listed = {path.rpartition("/")[0] for path in part.notes}
            assert not listed & set(part.rest), "its turn is over"
            rest = part.rest
        assert seen == whole.notes.keys()


def test_what_is_gone_from_a_folder_is_noticed_even_if_no_walk_sees_everything(
    vault: Path,
) -> None:
    for name in "abcdefgh":
        put(vault, f"{name}/a.md")
    rest = look(vault, time_is_up=Patience(0)).rest
    (vault / "b/a.md").unlink()
    noticed = False
    for _ in range(8):
        part = look(vault, first=rest, time_is_up=Patience(0))
        noticed = noticed or (part.speaks_of("b/a.md") and "b/a.md" not in part.notes)
        rest = part.rest
    assert noticed


def test_a_walk_whose_time_is_up_lists_the_vault_and_one_folder(vault: Path) -> None:
    put(vault, "d/a.md", "d e/a.md", "é/a.md", "a.md")
    part = look(vault, time_is_up=lambda: True)
    assert len(part.notes) == 2
    assert len(part.rest) == 2
    assert {path for path in ("d/a.md", "d e/a.md", "é/a.md") if part.speaks_of(path)} == {
        path for path in part.notes if "/" in path
    }


def test_folders_that_are_gone_by_the_time_of_their_turn_are_no_matter(vault: Path) -> None:
    put(vault, "d/a.md", "a.md")
    part = look(vault, first=["gone", "d/gone", ".dot", "d"], time_is_up=lambda: False)
    assert part == look(vault)


def test_a_look_at_some_places_that_takes_too_long_claims_nothing_of_the_rest(vault: Path) -> None:
    put(vault, *(f"d/{name}/a.md" for name in ("d", "é", "d e")))
    part = look(vault, ["d"], time_is_up=lambda: True)
    assert part.cut_short
    whole = look(vault)
    for path in whole.notes:
        if part.speaks_of(path):
            assert path in part.notes


@any_bytes_in_names
@as_root_only
@pytest.mark.parametrize("folder", ["d", "é", nfd("é"), "d/d", "d/é"])
def test_nothing_is_absent_from_a_folder_that_cannot_be_listed(folder: str) -> None:
    with tempfile.TemporaryDirectory() as base:
        vault = Path(base, "vault")
        vault.mkdir()
        put(vault, f"{folder}/d/a.md")
        for place in (Path(base), vault, *vault.rglob("*")):
            place.chmod(0o755)
        closed = vault / folder
        closed.chmod(0)
        os.seteuid(65534)
        try:
            parts = [look(vault, [f"{folder}/d/a.md"]), look(vault, [folder])]
        finally:
            os.seteuid(0)
        for part in parts:
            assert not part.speaks_of(vault_path(f"{folder}/d/a.md"))
            assert "folder-unreadable" in {problem.code for problem in part.problems}
