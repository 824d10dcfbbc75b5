"""Vaults and caches that cannot be written: searching works, writing says why, nothing moves."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import CommandLine, assert_one_line_error, listing, obeying_permissions, on_notes

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows folders have no permission bits to take away"
)

NOTES = {
    "Harbour/Berth.md": "---\naliases: [Quay]\n---\nThe ferry lies at the berth. [[Pier]]\n",
    "Harbour/Pier.md": "The pier is closed in winter. [[Nowhere]]\n",
}
ASKING = {
    "search": ("search", "ferry"),
    "read": ("read", "Berth"),
    "links": ("links", "Pier"),
    "lint": ("lint",),
    "status": ("status",),
    "why": ("why", "Berth"),
}
WRITING = (("index",), ("index", "--rebuild"))


@pytest.fixture
def notes(tmp_path: Path) -> CommandLine:
    return on_notes(tmp_path, NOTES)


@pytest.fixture
def frozen() -> Iterator[Callable[[Path], None]]:
    """Take the right to write from a folder and all below it; given back at the end."""
    frozen: list[Path] = []

    def freeze(folder: Path) -> None:
        for path in (folder, *folder.rglob("*")):
            frozen.append(path)
            path.chmod(0o555 if path.is_dir() else 0o444)

    yield freeze
    for path in frozen:
        path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.fixture
def read_only_mount(tmp_path: Path) -> Iterator[Callable[[Path, Callable[[], object]], None]]:
    """Move a folder to a file system of its own that is mounted read-only."""
    mount = shutil.which("mount")
    if sys.platform != "linux" or os.geteuid() != 0 or mount is None:
        pytest.skip("only root on Linux can mount a file system")
    mounted: list[Path] = []

    def remount(folder: Path, first: Callable[[], object]) -> None:
        aside = folder.rename(folder.with_name(folder.name + " aside"))
        folder.mkdir()
        made = subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=16m", "vaultmem-test", str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            pytest.skip(f"a tmpfs cannot be mounted here: {made.stderr.strip()}")
        mounted.append(folder)
        shutil.copytree(aside, folder, dirs_exist_ok=True)
        first()
        subprocess.run([mount, "-o", "remount,ro", str(folder)], check=True)

    yield remount
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


def make_read_only(
    way: str,
    folder: Path,
    request: pytest.FixtureRequest,
    first: Callable[[], object] = lambda: None,
) -> Callable[[], None] | None:
    """Make a folder read-only; what the child that is to obey has to do before it starts.

    first: done before nothing can be written any more.
    """
    if way == "mounted read-only":
        request.getfixturevalue("read_only_mount")(folder, first)
        return None
    obey = obeying_permissions()
    request.getfixturevalue("frozen")(folder)
    return obey


WAYS = pytest.mark.parametrize("way", ["mounted read-only", "mode 0555"])


@WAYS
def test_a_vault_that_cannot_be_written_is_indexed_and_searched(
    way: str, notes: CommandLine, request: pytest.FixtureRequest
) -> None:
    obey = make_read_only(way, notes.vault, request)
    before = listing(notes.vault)
    assert notes.run("index", preexec_fn=obey).code == 0
    for name, asked in ASKING.items():
        ended = notes.run(*asked, preexec_fn=obey)
        assert ended.code == int(name == "lint"), ended
        assert (ended.err, "!" in ended.out.split("\n")[0]) == ("", False)
    assert notes.paths("ferry", preexec_fn=obey) == ["Harbour/Berth.md"]
    assert listing(notes.vault) == before


@WAYS
def test_a_cache_that_cannot_be_written_answers_as_before_and_writing_says_why(
    way: str, notes: CommandLine, request: pytest.FixtureRequest
) -> None:
    notes.run("index")
    expected = [notes.run(*asked, "--json") for asked in ASKING.values()]
    obey = make_read_only(way, notes.cache, request)
    before = listing(notes.cache)
    assert [notes.run(*a, "--json", preexec_fn=obey) for a in ASKING.values()] == expected
    for asked in WRITING:
        ended = notes.run(*asked, preexec_fn=obey)
        assert_one_line_error(ended, 10, str(notes.cache), "--cache-dir")
    assert listing(notes.cache) == before


@WAYS
def test_a_cache_that_cannot_be_written_says_what_it_lacks(
    way: str, notes: CommandLine, request: pytest.FixtureRequest
) -> None:
    notes.run("index")
    obey = make_read_only(way, notes.cache, request)
    (notes.vault / "Harbour/Berth.md").write_text("The ferry has left.\n")
    (notes.vault / "New.md").write_text("A ferry on another day.\n")
    reply = notes.reply("search", "ferry", preexec_fn=obey)
    assert [(hit["path"], hit["stale"]) for hit in reply["hits"]] == [("Harbour/Berth.md", True)]
    (reason,) = reply["degraded"]
    assert "2 notes have changed" in reason
    assert "cannot be written" in reason


@WAYS
def test_without_an_index_a_cache_that_cannot_be_written_is_named_and_no_other_is_used(
    way: str, notes: CommandLine, request: pytest.FixtureRequest
) -> None:
    notes.cache.mkdir()
    obey = make_read_only(way, notes.cache, request)
    before = listing(notes.home), listing(notes.temporary), listing(notes.vault)
    for name in ("search", "read", "links", "lint"):
        ended = notes.run(*ASKING[name], preexec_fn=obey)
        assert_one_line_error(ended, 10, str(notes.cache), "--cache-dir")
    for asked in WRITING:
        ended = notes.run(*asked, preexec_fn=obey)
        assert_one_line_error(ended, 10, str(notes.cache), "--cache-dir")
    assert (listing(notes.home), listing(notes.temporary), listing(notes.vault)) == before


def leave_a_log(command_line: CommandLine) -> None:
    """Index one more note in a process that dies before its log is moved into the file."""
    (command_line.vault / "Late.md").write_text("A ferry that came late.\n")
    dying = (
        "import os, vaultmem.index.store as store\n"
        "from vaultmem.surfaces.cli import main\n"
        "store.Sidecar.checkpoint = lambda self: os._exit(9)\n"
        "main(['index'])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", dying], env=command_line.environment(), check=False
    )
    assert ended.returncode == 9
    (log,) = command_line.cache.rglob("index.db-wal")
    assert log.stat().st_size > 0


def digests(folder: Path) -> dict[str, object]:
    """Bytes alone: for root, SQLite hands its files to the owner of the database, as they are."""
    return {path: state[0] for path, state in listing(folder).items()}


@WAYS
def test_a_log_that_a_killed_process_left_is_read_where_nothing_can_be_written(
    way: str, notes: CommandLine, request: pytest.FixtureRequest
) -> None:
    notes.run("index")
    leave_a_log(notes)
    obey = make_read_only(way, notes.cache, request)
    before = digests(notes.cache)
    reply = notes.reply("search", "ferry late", preexec_fn=obey)
    assert reply["degraded"] == []
    assert {hit["path"] for hit in reply["hits"]} == {"Late.md", "Harbour/Berth.md"}
    assert digests(notes.cache) == before


WITHOUT_A_LOG = {"VAULTMEM_SIDECAR_JOURNAL": "delete"}


@WAYS
def test_a_cache_without_a_log_that_cannot_be_written_answers_as_before_and_writing_says_why(
    way: str, notes: CommandLine, request: pytest.FixtureRequest
) -> None:
    notes.run("index", environment=WITHOUT_A_LOG)
    expected = [notes.run(*a, "--json", environment=WITHOUT_A_LOG) for a in ASKING.values()]
    obey = make_read_only(way, notes.cache, request)
    before = listing(notes.cache)
    assert [
        notes.run(*asked, "--json", environment=WITHOUT_A_LOG, preexec_fn=obey)
        for asked in ASKING.values()
    ] == expected
    for asked in WRITING:
        ended = notes.run(*asked, environment=WITHOUT_A_LOG, preexec_fn=obey)
        assert_one_line_error(ended, 10, str(notes.cache), "--cache-dir")
    assert listing(notes.cache) == before


@WAYS
def test_a_cache_with_a_log_is_read_without_one_where_nothing_can_be_written(
    way: str, notes: CommandLine, request: pytest.FixtureRequest
) -> None:
    notes.run("index")
    expected = notes.run("search", "ferry", "--json")
    obey = make_read_only(way, notes.cache, request)
    before = listing(notes.cache)
    asked = notes.run("search", "ferry", "--json", environment=WITHOUT_A_LOG, preexec_fn=obey)
    assert asked == expected
    assert listing(notes.cache) == before


@WAYS
def test_a_log_that_is_not_safe_is_not_read_where_nothing_can_be_written(
    way: str, notes: CommandLine, request: pytest.FixtureRequest
) -> None:
    notes.run("index")
    leave_a_log(notes)
    obey = make_read_only(way, notes.cache, request)
    before = digests(notes.cache)
    ended = notes.run("search", "ferry", environment=WITHOUT_A_LOG, preexec_fn=obey)
    assert_one_line_error(ended, 10, str(notes.cache), "--cache-dir")
    assert digests(notes.cache) == before


OPEN_THE_CACHE = """
import sys
from pathlib import Path
from vaultmem.embedding.cache import Row, open_cache
from vaultmem.embedding.embedder import Space
folder, journal, create = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "create"
cache = open_cache(folder, create=create, journal=journal)
if create:
    space = cache.add(Space("maker", "model", "digest", 4, "", ""), "rules")
    cache.put(space.id, [Row(bytes(16), b"abcd", None)])
print(cache and len(list(cache.rows(1, 0))), flush=True)
import os
os._exit(0)  # as a killed process does: what is in the log stays there
"""


@WAYS
@pytest.mark.parametrize(("first", "there"), [("wal", "None"), ("delete", "1")])
def test_vectors_in_a_log_that_is_not_safe_are_not_read_where_nothing_can_be_written(
    first: str, there: str, way: str, notes: CommandLine, request: pytest.FixtureRequest
) -> None:
    notes.cache.mkdir()

    def opened(journal: str, how: str, obey: Callable[[], None] | None = None) -> str:
        ended = subprocess.run(
            [sys.executable, "-c", OPEN_THE_CACHE, str(notes.cache), journal, how],
            env=notes.environment(),
            preexec_fn=obey,
            capture_output=True,
            text=True,
            check=True,
        )
        return ended.stdout.strip()

    assert opened(first, "create") == "1"
    (notes.cache / "embeddings.db-shm").unlink(missing_ok=True)
    obey = make_read_only(way, notes.cache, request)
    before = digests(notes.cache)
    assert opened("delete", "read", obey) == there
    assert digests(notes.cache) == before


def leave_half_a_commit(command_line: CommandLine) -> None:
    """Change the sidecar in a process that dies when half of a commit is in the file."""
    (sidecar,) = command_line.cache.rglob("index.db")
    dying = (
        "import os, sys, apsw\n"
        "connection = apsw.Connection(sys.argv[1])\n"
        "connection.execute('PRAGMA cache_size = 1').fetchall()\n"
        "connection.execute('PRAGMA cache_spill = 1').fetchall()\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
        "connection.execute('UPDATE chunk SET text = text || zeroblob(60000)')\n"
        "connection.execute(\"UPDATE note SET title = title || ' - half a commit'\")\n"
        "os._exit(9)\n"
    )
    before = sidecar.read_bytes()
    ended = subprocess.run([sys.executable, "-c", dying, str(sidecar)], check=False)
    assert ended.returncode == 9
    assert sidecar.read_bytes() != before
    assert sidecar.with_name("index.db-journal").stat().st_size > 0


@WAYS
def test_half_a_commit_is_not_shown_where_it_cannot_be_undone(
    way: str, notes: CommandLine, request: pytest.FixtureRequest
) -> None:
    notes.run("index", environment=WITHOUT_A_LOG)
    expected = notes.run("search", "ferry", "--json", environment=WITHOUT_A_LOG)
    leave_half_a_commit(notes)
    obey = make_read_only(way, notes.cache, request)
    before = digests(notes.cache)
    ended = notes.run("search", "ferry", environment=WITHOUT_A_LOG, preexec_fn=obey)
    assert_one_line_error(ended, 10, str(notes.cache), "--cache-dir")
    assert digests(notes.cache) == before
    # The control: where it can be undone, it is.
    written = notes.cache.with_name("written")
    shutil.copytree(notes.cache, written)
    for path in (written, *written.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    where = {**WITHOUT_A_LOG, "VAULTMEM_CACHE_DIR": str(written)}
    assert notes.run("search", "ferry", "--json", environment=where) == expected
    assert list(written.rglob("index.db-journal")) == []


@WAYS
def test_damage_in_a_cache_that_cannot_be_written_is_named_in_one_line(
    way: str, notes: CommandLine, request: pytest.FixtureRequest
) -> None:
    notes.run("index")
    (sidecar,) = notes.cache.rglob("index.db")
    data = sidecar.read_bytes()
    sidecar.write_bytes(data[:16384] + b"\xee" * (len(data) - 16384))
    obey = make_read_only(way, notes.cache, request)
    for name in ("search", "read"):
        ended = notes.run(*ASKING[name], preexec_fn=obey)
        assert_one_line_error(ended, 10, str(notes.cache), "damaged", "--cache-dir")


@WAYS
def test_meaning_is_found_in_a_cache_that_cannot_be_written(
    way: str, notes: CommandLine, request: pytest.FixtureRequest
) -> None:
    chosen = {"VAULTMEM_EMBEDDER_NAME": "minilm"}
    notes.run("index", environment=chosen)
    asked = ("search", "ship moored in port")
    expected = notes.reply(*asked, environment=chosen)
    assert expected["mode"] == "hybrid"
    # Where it was copied to, its vectors are to be found once more.
    obey = make_read_only(
        way, notes.cache, request, first=lambda: notes.run("index", environment=chosen)
    )
    assert notes.reply(*asked, environment=chosen, preexec_fn=obey) == expected


@WAYS
def test_vectors_that_are_damaged_where_nothing_can_be_written_are_no_fault(
    way: str, notes: CommandLine, request: pytest.FixtureRequest
) -> None:
    chosen = {"VAULTMEM_EMBEDDER_NAME": "minilm"}
    notes.run("index", environment=chosen)
    (vectors,) = notes.cache.rglob("embeddings.db")
    connection = sqlite3.connect(vectors)
    connection.execute("UPDATE space SET identity = '{}'")
    connection.commit()
    connection.close()
    obey = make_read_only(way, notes.cache, request)
    ended = notes.run("doctor", environment=chosen, preexec_fn=obey)
    assert "fault" not in ended.err
    assert "sidecar" in ended.out


def test_a_sidecar_of_somebody_else_is_read(notes: CommandLine) -> None:
    obey = obeying_permissions()
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    notes.run("index")
    for path in (notes.cache, *notes.cache.rglob("*")):
        os.chown(path, 65534, 65534)
        path.chmod(0o755 if path.is_dir() else 0o644)
    before = listing(notes.cache)
    assert notes.paths("ferry", preexec_fn=obey) == ["Harbour/Berth.md"]
    assert_one_line_error(notes.run("index", preexec_fn=obey), 10, "--cache-dir")
    assert listing(notes.cache) == before


def test_the_control_a_log_that_cannot_be_shared_keeps_sqlite_from_opening(
    notes: CommandLine, frozen: Callable[[Path], None]
) -> None:
    # What the tests above would meet if the sidecar were opened as it is everywhere else.
    obey = obeying_permissions()
    notes.run("index")
    (sidecar,) = notes.cache.rglob("index.db")
    with sqlite3.connect(sidecar) as plain:
        assert plain.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    plain.close()
    frozen(notes.cache)
    opening = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('SELECT 1 FROM note')"
    ended = subprocess.run(
        [sys.executable, "-c", opening, str(sidecar)],
        preexec_fn=obey,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "OperationalError" in ended.stderr
