"""A damaged sidecar is noticed and made anew, or does no harm: never a fault, never a wrong text.

60 seeded cases, and 2,000 where FAULT_LANE=slow; DAMAGE_CASES=300 runs so many instead, and
DAMAGE_SEED=7 others than FAULT_SEED draws.
"""

import ast
import os
import random
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import apsw
import pytest
from lanes import SEED as LANE_SEED
from lanes import by_lane

from vaultmem.index.lock import writer_lock
from vaultmem.index.store import (
    SIDECAR_NAME,
    Sidecar,
    create,
    discard_damaged,
    driver,
    open_existing,
)
from vaultmem.model.errors import (
    NoteNotFound,
    SidecarBusy,
    SidecarDamaged,
    SidecarUnavailable,
)
from vaultmem.service import mending
from vaultmem.service.application import Clock, Memory, open_memory
from vaultmem.service.mending import REBUILT, REMOVED, mended
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.inspect import InspectRequest, inspect
from vaultmem.service.operations.lint import LintRequest, lint
from vaultmem.service.operations.read import ReadRequest, read
from vaultmem.service.operations.related import RelatedRequest, related
from vaultmem.service.operations.search import SearchReply, SearchRequest, search
from vaultmem.service.operations.status import StatusRequest, status
from vaultmem.service.settings import load_settings

CASES = int(os.environ.get("DAMAGE_CASES") or by_lane(fast=60, slow=2_000))
SEED = int(os.environ.get("DAMAGE_SEED") or LANE_SEED)
PAGE = 8192
MARK = "mark"  # how the keys of rows begin that only fill the log

Canon = Callable[[Memory], list[str]]
Files = dict[str, bytes]

_WORDS = """
kiln glaze clay slip cone ash bisque shard wheel hearth flue ember saggar grog celadon tenmoku raku
firing soak ramp damper shelf stilt crackle
""".split()  # noqa: SIM905 - a list of words


def notes() -> dict[str, str]:
    """Notes of every length, with all that a sidecar keeps of them."""
    chance = random.Random(99)
    written: dict[str, str] = {}
    for number in range(18):
        name = f"{_WORDS[number].title()} {number}"
        other = _WORDS[(number * 5 + 3) % 18].title()
        parts = [
            f"---\naliases: [alias {number}]\ntags: [pottery, t{number % 4}]\nrating: {number}\n"
            f"date: 2026-03-{number + 1:02}\n---\n# {name}\n"
        ]
        for section in range(1 + number % 5):
            words = " ".join(chance.choice(_WORDS) for _ in range(60 + 30 * (number % 7)))
            parts.append(f"## Part {section} of {name}\n\n{words}.\n\nheat:: cone {section}\n")
        parts.append(f"See [[{other} {(number * 5 + 3) % 18}]] and [[Nowhere {number}]]. #kilns\n")
        written[f"{'Log' if number % 3 else 'Deep/Down'}/{name}.md"] = "\n".join(parts)
    written["Log/long.md"] = "# Long\n\n" + "\n\n".join(
        " ".join(chance.choice(_WORDS) for _ in range(120)) for _ in range(60)
    )
    written["Decision.md"] = "---\ntype: decision\n---\n# Decision\n\nWe buy a kiln.\n"
    return written


@dataclass(frozen=True, slots=True)
class Golden:
    """A vault, its sidecar as it was written, and what is true of it."""

    vault: Path
    closed: Files  # the sidecar's files after everybody closed them
    open: Files  # while a process has them open and the log holds changes
    canon: list[str]  # its rows, sorted
    titles: Mapping[str, str]
    trails: Mapping[str, set[tuple[str, ...]]]
    properties: Mapping[str, dict[str, object]]


def far_ahead() -> Clock:
    """No file is young: nothing is read again merely because it is new."""
    return Clock(now_ns=lambda: 4 * 10**18, elapsed=lambda: 0.0)


def opened(vault: Path, cache: Path) -> Memory:
    settings = load_settings(vault, cache, environment={"VAULTMEM_EMBEDDER_NAME": "none"})
    return open_memory(settings, clock=far_ahead())


def files_of(folder: Path) -> Files:
    return {path.name: path.read_bytes() for path in folder.iterdir() if SIDECAR_NAME in path.name}


def listing(folder: Path) -> dict[str, tuple[object, ...]]:
    """Bytes and state of every file below, all but the time of access."""
    seen: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        text = path.read_bytes() if path.is_file() else b""
        seen[str(path)] = (text, state.st_mode, state.st_ino, state.st_mtime_ns, state.st_ctime_ns)
    return seen


@pytest.fixture
def golden(made: Golden, canon: Canon) -> Golden:
    """What was made, with the rows of its sidecar, which are taken once."""
    if not made.canon:
        memory = opened(made.vault, made.vault.parent / "cache")
        made.canon.extend(canon(memory))
        memory.close()
    return made


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    folder = tmp_path_factory.mktemp("golden")
    vault = folder / "vault"
    for path, text in notes().items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)
    memory = opened(vault, folder / "cache")
    index(memory, IndexRequest())
    assert memory.sidecar is not None
    db = memory.sidecar.connection
    properties = {path: read(memory, ReadRequest(path)).properties for path in notes()}
    titles = dict(db.execute("SELECT path, title FROM note"))
    trails: dict[str, set[tuple[str, ...]]] = {}
    for path in notes():
        listed = search(memory, SearchRequest(f'path:"{path}"', passages=True, limit=999))
        trails[path] = {hit.heading for hit in listed.hits}
    # Changes that are in the log alone, and take nothing away from what is true.
    for number in range(40):
        memory.sidecar.set_meta(f"{MARK} {number}", "x" * 2000)
    for number in range(40):
        db.execute("DELETE FROM meta WHERE key = ?", (f"{MARK} {number}",))
    while_open = files_of(memory.folder)
    assert len(while_open[SIDECAR_NAME + "-wal"]) > 10 * PAGE
    memory.close()
    closed = files_of(memory.folder)
    assert list(closed) == [SIDECAR_NAME]
    return Golden(vault, closed, while_open, [], titles, trails, properties)


# What is done to the files


def flip_bits(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 1, 3, 40))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def flip_in_the_header(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(100)] ^= 1 << chance.randrange(8)


def flip_in_the_schema(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(100, min(len(data), PAGE))] ^= 1 << chance.randrange(8)


def zero_pages(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 2, 10))):
        at = chance.randrange(max(1, len(data) // PAGE)) * PAGE
        data[at : at + PAGE] = bytes(len(data[at : at + PAGE]))


def garble_pages(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(max(1, len(data) // PAGE)) * PAGE
    data[at : at + PAGE] = chance.randbytes(len(data[at : at + PAGE]))


def cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def cut_at_a_page(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(max(1, len(data) // PAGE)) * PAGE :]


def swap_pages(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 5))):
        one, two = (chance.randrange(max(1, len(data) // PAGE)) * PAGE for _ in range(2))
        first, second = data[one : one + PAGE], data[two : two + PAGE]
        if len(first) == len(second):
            data[one : one + PAGE], data[two : two + PAGE] = second, first


def copy_a_page_over_another(data: bytearray, chance: random.Random) -> None:
    one, two = (chance.randrange(max(1, len(data) // PAGE)) * PAGE for _ in range(2))
    if len(data[one : one + PAGE]) == len(data[two : two + PAGE]):
        data[two : two + PAGE] = data[one : one + PAGE]


def append_rubbish(data: bytearray, chance: random.Random) -> None:
    data += chance.randbytes(chance.randrange(1, 3 * PAGE))


KINDS: tuple[Callable[[bytearray, random.Random], None], ...] = (
    flip_bits,
    flip_in_the_header,
    flip_in_the_schema,
    zero_pages,
    garble_pages,
    cut,
    cut_at_a_page,
    swap_pages,
    copy_a_page_over_another,
    append_rubbish,
)


def damaged(case: int, golden: Golden) -> tuple[str, Files]:
    """What was done, and the files that came of it."""
    chance = random.Random(SEED * 1_000_003 + case)
    kind = KINDS[case % len(KINDS)]
    # Half of the cases hit the file itself, the others what a killed process leaves beside it.
    suffix = ("", "", "", "-wal", "", "-shm")[(case // len(KINDS)) % 6]
    files = dict(golden.open if suffix or chance.random() < 0.3 else golden.closed)
    data = bytearray(files[SIDECAR_NAME + suffix])
    kind(data, chance)
    files[SIDECAR_NAME + suffix] = bytes(data)
    return f"{kind.__name__} in {SIDECAR_NAME}{suffix}", files


# What is asked, and what may be answered


ASKED: dict[str, Callable[[Memory], Any]] = {
    "index": lambda m: index(m, IndexRequest()),
    "search": lambda m: search(m, SearchRequest("kiln glaze celadon", limit=50, passages=True)),
    "search by filter": lambda m: search(m, SearchRequest("tag:pottery after:2026-03-05")),
    "search for what is misspelt": lambda m: search(m, SearchRequest("celadom tenmoko")),
    "read": lambda m: read(m, ReadRequest("Celadon 14")),
    "related": lambda m: related(m, RelatedRequest("Kiln 0")),
    "lint": lambda m: lint(m, LintRequest()),
    "status": lambda m: status(m, StatusRequest()),
    "doctor": lambda m: status(m, StatusRequest(checks=True, settings=True)),
    "inspect": lambda m: inspect(m, InspectRequest("Decision.md")),
}


def untrue(reply: Any, golden: Golden, *, moved: bool = False) -> list[str]:
    """What a reply shows that no note says.

    moved: pages are whole, but in the wrong place. Then properties, which a reply takes from rows,
           may be another note's, and only a look at every page would tell.
    """
    wrong: list[str] = []
    if isinstance(reply, SearchReply):
        for hit in reply.hits:
            file = golden.vault / hit.path
            if hit.path not in golden.titles or not file.is_file():
                wrong.append(f"a hit in {hit.path!r}, which is no note")
                continue
            flat = " ".join(file.read_text().split())
            if hit.snippet.strip("…") not in flat:
                wrong.append(f"{hit.path}: {hit.snippet!r}")
            if hit.title != golden.titles[hit.path]:
                wrong.append(f"{hit.path}: the title {hit.title!r}")
            if hit.heading not in golden.trails[hit.path]:
                wrong.append(f"{hit.path}: the heading {hit.heading!r}")
    text = getattr(reply, "text", None)
    if text is not None and text != (golden.vault / reply.path).read_text():
        wrong.append(f"another text of {reply.path}")
    if text is not None and not moved and reply.properties != golden.properties[reply.path]:
        wrong.append(f"other properties of {reply.path}: {reply.properties}")
    return wrong


def said(reply: Any, memory: Memory) -> bool:
    """Whether a person was told of the damage."""
    return bool({REBUILT, REMOVED} & {*getattr(reply, "degraded", ()), *memory.notices})


def without_marks(rows: list[str]) -> list[str]:
    """A canon without the rows by which `made` fills the log: of a log that was cut some stay."""
    return [row for row in rows if f"'{MARK} " not in row]


@pytest.fixture
def place(tmp_path: Path, golden: Golden) -> Iterator[Callable[[Files], Memory]]:
    """Put files where the sidecar lies, and open the vault."""
    made: list[Memory] = []

    def put(files: Files) -> Memory:
        memory = opened(golden.vault, tmp_path / "cache")
        memory.folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (memory.folder / name).write_bytes(data)
        made.append(memory)
        return memory

    yield put
    for memory in made:
        memory.close()


@pytest.mark.parametrize("case", range(CASES))
def test_whatever_happens_to_its_bytes_a_sidecar_answers_or_is_rebuilt(
    case: int, golden: Golden, place: Callable[[Files], Memory], canon: Canon
) -> None:
    before = listing(golden.vault)
    done, files = damaged(case, golden)
    moved = done.startswith((swap_pages.__name__, copy_a_page_over_another.__name__))
    memory = place(files)
    chance = random.Random(case)
    noticed = False
    for name in chance.sample(list(ASKED), len(ASKED)):
        try:
            reply = ASKED[name](memory)
        except NoteNotFound:
            assert moved, done  # its row lies where no search for it leads
            continue
        assert untrue(reply, golden, moved=moved) == [], f"{done}: {name}"
        noticed |= said(reply, memory)
        if chance.random() < 0.5:
            memory.close()
    index(memory, IndexRequest())
    if not noticed:
        # What no look at what was asked for tells of is found by a look at everything.
        memory.close()
        index(memory, IndexRequest(verify=True))
    assert without_marks(canon(memory)) == without_marks(golden.canon), done
    assert listing(golden.vault) == before


@pytest.mark.skipif(not driver()[3], reason="this apsw checks no pages")
def test_every_letter_that_changes_in_the_file_is_noticed_where_it_is_read(
    golden: Golden, place: Callable[[Files], Memory], canon: Canon
) -> None:
    whole = golden.closed[SIDECAR_NAME]
    at = whole.index(b"Celadon 14")
    spoilt = bytearray(whole)
    while at >= 0:
        spoilt[at] ^= 0x20  # another letter, in every copy of the title
        at = whole.find(b"Celadon 14", at + 1)
    memory = place({SIDECAR_NAME: bytes(spoilt)})
    reply = search(memory, SearchRequest("celadon", limit=50))
    assert reply.degraded == (REBUILT,)
    assert untrue(reply, golden) == []
    assert canon(memory) == golden.canon


def test_a_sidecar_that_is_trusted_shows_what_no_note_says(
    golden: Golden, place: Callable[[Files], Memory]
) -> None:
    # The control: with the check switched off, what the tests above look for is there.
    whole = golden.closed[SIDECAR_NAME]
    memory = place({SIDECAR_NAME: whole.replace(b".mdCeladon 14", b".mdMona lisa!")})
    memory.sidecar = open_existing(memory.folder, memory.fingerprint, check=False)
    reply = search(memory, SearchRequest("celadon", limit=50))
    assert untrue(reply, golden)


# A value that cannot be, on pages that are whole


VALUES: tuple[tuple[str, object], ...] = (
    ("chunk.trail", "no JSON"),
    ("chunk.start", -5),
    ("chunk.end", 2**62),
    ("chunk.first_line", 2**62),
    ("chunk.note", 2**40),
    ("chunk.text", "what no note says"),
    ("note.properties", "[["),
    ("note.searched", "{}"),
    ("note.sha256", ""),
    ("note.disk_path", "a\0b"),
    ("note.date", "not a day"),
    ("link.line", -3),
    ("meta.value", "seventeen"),
)


@pytest.mark.parametrize(("column", "value"), VALUES, ids=[column for column, _ in VALUES])
def test_a_value_that_cannot_be_does_no_harm(
    column: str, value: object, golden: Golden, place: Callable[[Files], Memory]
) -> None:
    memory = place(golden.closed)
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    sidecar.connection.execute("PRAGMA foreign_keys = OFF")
    table, name = column.split(".")
    kept = "WHERE key <> 'fingerprint'" if table == "meta" else ""
    sidecar.connection.execute(f"UPDATE {table} SET {name} = ? {kept}", (value,))
    memory.close()
    for name, ask in ASKED.items():
        assert untrue(ask(memory), golden) == [], name


def test_what_a_changed_note_said_is_shown_only_as_it_was_said(
    tmp_path: Path, golden: Golden
) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "a.md").write_text("The kiln is hot.\n")
    memory = opened(vault, tmp_path / "cache")
    index(memory, IndexRequest())
    assert memory.sidecar is not None
    memory.sidecar.connection.execute("UPDATE chunk SET text = 'The kiln is cold.'")
    memory.close()
    (vault / "a.md").unlink()
    (vault / "b.md").write_text("Another one.\n")
    asking = {"VAULTMEM_EMBEDDER_NAME": "none", "VAULTMEM_SEARCH_REFRESH": "never"}
    settings = load_settings(vault, tmp_path / "cache", environment=asking)
    memory = open_memory(settings, clock=far_ahead())
    reply = search(memory, SearchRequest("kiln"))
    memory.close()
    assert all("cold" not in hit.snippet for hit in reply.hits)


# Something else in its place


def as_text(file: Path, outside: Path) -> None:
    file.write_text("This was never a database.\n" * 50)


def as_nothing(file: Path, outside: Path) -> None:
    file.write_bytes(b"")


def as_another_programs(file: Path, outside: Path) -> None:
    file.unlink()
    connection = apsw.Connection(str(file))
    connection.execute("CREATE TABLE meta (key, value); INSERT INTO meta VALUES ('a', 'b')")
    connection.close()


def as_an_empty_folder(file: Path, outside: Path) -> None:
    file.unlink()
    file.mkdir()


def as_a_link_to_nowhere(file: Path, outside: Path) -> None:
    file.unlink()
    file.symlink_to(outside / "nowhere")


def as_a_link_to_a_text(file: Path, outside: Path) -> None:
    file.unlink()
    file.symlink_to(outside / "letter.txt")


def as_a_link_to_another_sidecar(file: Path, outside: Path) -> None:
    file.rename(outside / "other.db")
    file.symlink_to(outside / "other.db")


def as_a_link_to_a_device(file: Path, outside: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/zero")


def as_a_pipe(file: Path, outside: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def with_a_linked_log(file: Path, outside: Path) -> None:
    Path(f"{file}-wal").symlink_to(outside / "letter.txt")


def with_linked_shared_memory(file: Path, outside: Path) -> None:
    Path(f"{file}-shm").symlink_to(outside / "nowhere")


def with_a_folder_for_a_log(file: Path, outside: Path) -> None:
    Path(f"{file}-wal").mkdir()


def with_a_linked_journal(file: Path, outside: Path) -> None:
    Path(f"{file}-journal").symlink_to(outside / "letter.txt")


INSTEAD = (
    as_text,
    as_nothing,
    as_another_programs,
    as_an_empty_folder,
    as_a_link_to_nowhere,
    as_a_link_to_a_text,
    as_a_link_to_another_sidecar,
    as_a_link_to_a_device,
    as_a_pipe,
    with_a_linked_log,
    with_linked_shared_memory,
    with_a_folder_for_a_log,
    with_a_linked_journal,
)


@pytest.mark.skipif(sys.platform == "win32", reason="making a link needs a privilege on Windows")
@pytest.mark.parametrize("ask", ["index", "search", "read", "related", "lint"])
@pytest.mark.parametrize("instead", INSTEAD, ids=lambda instead: instead.__name__)
def test_what_lies_in_its_place_is_replaced_and_never_written_through(
    instead: Callable[[Path, Path], None],
    ask: str,
    golden: Golden,
    place: Callable[[Files], Memory],
    tmp_path: Path,
    canon: Canon,
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "letter.txt").write_text("Dear reader,")
    memory = place(golden.closed)
    instead(memory.folder / SIDECAR_NAME, outside)
    before = listing(outside)
    reply = ASKED[ask](memory)
    assert untrue(reply, golden) == []
    assert said(reply, memory)
    assert listing(outside) == before
    assert not (memory.folder / SIDECAR_NAME).is_symlink()
    assert canon(memory) == golden.canon


@pytest.mark.parametrize("ask", ["status", "inspect"])
def test_who_only_asks_how_things_are_is_told_and_builds_nothing(
    ask: str, golden: Golden, place: Callable[[Files], Memory]
) -> None:
    memory = place({SIDECAR_NAME: b"no database"})
    ASKED[ask](memory)
    assert memory.notices == [REMOVED]
    assert not (memory.folder / SIDECAR_NAME).exists()
    assert search(memory, SearchRequest("kiln")).degraded == ()


def test_the_doctor_names_the_damage_and_its_remedy(
    golden: Golden, place: Callable[[Files], Memory]
) -> None:
    memory = place(golden.closed)
    spoil_the_middle(memory)
    reply = status(memory, StatusRequest(checks=True))
    (check,) = [check for check in reply.checks if check.id == "sidecar"]
    assert not check.ok
    assert "damaged" in check.detail
    assert "vaultmem index" in check.fix


def test_a_folder_with_things_in_it_is_kept_and_named(
    golden: Golden, place: Callable[[Files], Memory]
) -> None:
    memory = place({})
    folder = memory.folder / SIDECAR_NAME
    folder.mkdir()
    (folder / "mine.txt").write_text("kept")
    for name in ("index", "search", "read"):
        with pytest.raises(SidecarUnavailable) as caught:
            ASKED[name](memory)
        assert str(folder) in str(caught.value)
    assert (folder / "mine.txt").read_text() == "kept"


@pytest.mark.parametrize("fingerprint", ["schema 5, made long ago", "schema 999, not made yet", ""])
def test_a_sidecar_by_other_rules_is_made_anew_without_a_word(
    fingerprint: str, golden: Golden, place: Callable[[Files], Memory], canon: Canon
) -> None:
    memory = place(golden.closed)
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    sidecar.set_meta("fingerprint", fingerprint)
    memory.close()
    reply = search(memory, SearchRequest("kiln"))
    assert (reply.degraded, memory.notices) == ((), [])
    assert canon(memory) == golden.canon


# Once, and by one process


def spoil_the_middle(memory: Memory) -> None:
    """Change a letter on every page but the first, in place."""
    with (memory.folder / SIDECAR_NAME).open("r+b") as file:
        for at in range(PAGE + 4000, len(file.read()), PAGE):
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 1]))


def test_damage_that_comes_while_the_sidecar_is_open_is_mended(
    golden: Golden, place: Callable[[Files], Memory], canon: Canon
) -> None:
    memory = place(golden.closed)
    assert memory.open_sidecar() is not None
    spoil_the_middle(memory)
    reply = search(memory, SearchRequest("kiln"))
    assert (reply.degraded, untrue(reply, golden)) == ((REBUILT,), [])
    assert canon(memory) == golden.canon


def test_an_index_that_is_damaged_is_made_anew_by_indexing(
    golden: Golden, place: Callable[[Files], Memory], canon: Canon
) -> None:
    memory = place(golden.closed)
    spoil_the_middle(memory)
    reply = index(memory, IndexRequest())
    assert memory.notices == [REBUILT]
    assert reply.notes.added == len(golden.titles)
    assert canon(memory) == golden.canon


def test_a_sidecar_that_breaks_again_at_once_is_not_mended_for_ever(
    golden: Golden, place: Callable[[Files], Memory]
) -> None:
    memory = place({SIDECAR_NAME: b"no database"})
    builds: list[int] = []

    def spoil_when_built(stage: str, done: int, total: int) -> None:
        if done == total:
            builds.append(total)
            assert memory.sidecar is not None
            memory.sidecar.connection.execute("DROP TABLE chunk")

    memory.progress = replace(memory.progress, report=spoil_when_built)
    with pytest.raises(SidecarDamaged):
        search(memory, SearchRequest("kiln"))
    assert len(builds) <= 2


def test_a_fault_that_a_new_sidecar_does_not_cure_is_not_hidden(
    golden: Golden, place: Callable[[Files], Memory]
) -> None:
    memory = place(golden.closed)
    with pytest.raises((TypeError, AttributeError)):
        search(memory, SearchRequest(17))  # type: ignore[arg-type]


def test_a_damaged_sidecar_is_left_to_the_process_that_holds_the_lock(
    golden: Golden, place: Callable[[Files], Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = place({SIDECAR_NAME: b"no database"})
    # Nobody lets go of it, so there is nothing to wait for.
    monkeypatch.setattr(mending, "LOCK_SECONDS", 0.0)
    with writer_lock(memory.folder):
        for name in ("index", "search", "read", "status", "inspect"):
            with pytest.raises(SidecarBusy, match="Another vaultmem process"):
                ASKED[name](memory)
    assert (memory.folder / SIDECAR_NAME).read_bytes() == b"no database"
    assert said(search(memory, SearchRequest("kiln")), memory)


def test_a_sidecar_that_another_process_made_anew_is_not_thrown_away(tmp_path: Path) -> None:
    first = create(tmp_path, "rules")
    second = create(tmp_path, "rules")
    assert not discard_damaged(tmp_path, first)
    assert not discard_damaged(tmp_path, None)
    assert discard_damaged(tmp_path, second)
    assert not (tmp_path / SIDECAR_NAME).exists()
    for sidecar in (first, second):
        sidecar.close()


def test_who_has_the_old_sidecar_open_goes_on_with_the_new_one(
    golden: Golden, place: Callable[[Files], Memory]
) -> None:
    reader = place(golden.closed)
    expected = search(reader, SearchRequest("kiln"))
    other = place({})
    spoil_the_middle(other)
    assert said(search(other, SearchRequest("kiln")), other)
    assert search(reader, SearchRequest("kiln")).hits == expected.hits
    assert reader.sidecar is not None
    assert reader.sidecar.still_there()


# The vectors


def embedding_files(memory: Memory) -> list[Path]:
    files = [*memory.folder.glob("embeddings.db"), *memory.folder.glob("vectors-*.i8")]
    return sorted(file for file in files if file.is_file())


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    folder = tmp_path_factory.mktemp("embedded")
    (folder / "vault").mkdir()
    for number, word in enumerate(_WORDS[:6]):
        (folder / f"vault/{word}.md").write_text(f"Of {word} and {_WORDS[number + 6]}.\n")
    environment = {"VAULTMEM_EMBEDDER_NAME": "minilm"}
    settings = load_settings(folder / "vault", folder / "cache", environment=environment)
    memory = open_memory(settings, clock=far_ahead())
    index(memory, IndexRequest())
    assert len(embedding_files(memory)) == 2
    return memory


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("which", [0, 1], ids=["embeddings.db", "the file of vectors"])
def test_damaged_vectors_cost_no_answer(
    which: int, kind: Callable[[bytearray, random.Random], None], embedded: Memory
) -> None:
    embedded.close()
    index(embedded, IndexRequest())
    for name in ("", "-wal", "-shm"):
        embedded.close()
        file = embedding_files(embedded)[which]
        assert not name or not file.with_name(file.name + name).exists()
    data = bytearray(file.read_bytes())
    kind(data, random.Random(SEED))
    file.write_bytes(bytes(data))
    for _ in range(2):
        reply = search(embedded, SearchRequest("kiln"))
        assert "kiln.md" in [hit.path for hit in reply.hits]
        assert index(embedded, IndexRequest()).notes.total == 6
        embedded.close()


@pytest.mark.skipif(sys.platform == "win32", reason="making a link needs a privilege on Windows")
@pytest.mark.parametrize("which", [0, 1], ids=["embeddings.db", "the file of vectors"])
@pytest.mark.parametrize("instead", INSTEAD[:9], ids=lambda instead: instead.__name__)
def test_what_lies_in_place_of_vectors_is_never_written_through(
    instead: Callable[[Path, Path], None], which: int, embedded: Memory, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "letter.txt").write_text("Dear reader,")
    index(embedded, IndexRequest())
    embedded.close()
    instead(embedding_files(embedded)[which], outside)
    before = listing(outside)
    (embedded.vault / f"{instead.__name__} {which}.md").write_text("One more to be embedded.\n")
    reply = search(embedded, SearchRequest("kiln"))
    assert "kiln.md" in [hit.path for hit in reply.hits]
    done = index(embedded, IndexRequest())
    assert done.embedder is not None
    assert (done.embedder.problem, done.chunks.waiting) == ("", 0)
    assert listing(outside) == before
    (embedded.vault / f"{instead.__name__} {which}.md").unlink()


def test_a_vector_of_another_length_is_computed_anew(embedded: Memory) -> None:
    index(embedded, IndexRequest())
    embedded.close()
    database, matrix = embedding_files(embedded)
    matrix.unlink()
    connection = apsw.Connection(str(database))
    connection.execute("UPDATE vector SET codes = x'0102' WHERE slot = 0")
    connection.close()
    reply = search(embedded, SearchRequest("kiln"))
    assert reply.hits[0].path == "kiln.md"
    assert index(embedded, IndexRequest()).chunks.waiting == 0
    assert search(embedded, SearchRequest("kiln")).degraded == ()


def test_lengths_that_no_codes_have_make_a_file_of_vectors_worthless(embedded: Memory) -> None:
    index(embedded, IndexRequest())
    expected = search(embedded, SearchRequest("kiln"))
    embedded.close()
    matrix = embedding_files(embedded)[1]
    data = bytearray(matrix.read_bytes())
    data[384:388] = struct.pack("<f", 1e30)
    matrix.write_bytes(bytes(data))
    assert search(embedded, SearchRequest("kiln")).hits == expected.hits


# Nothing that is read can run


RUNNING = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}


def running(source: str) -> set[str]:
    """What in a module would turn stored bytes, or text, into code that runs."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names} & RUNNING
        if isinstance(node, ast.ImportFrom):
            found |= {(node.module or "").split(".")[0]} & RUNNING
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                found |= {node.func.id} & {"eval", "exec", "compile", "__import__"}
            found |= {k.arg for k in node.keywords if k.arg} & {"allow_pickle"}
            if ast.unparse(node.func) in ("yaml.load", "yaml.unsafe_load", "yaml.full_load"):
                found.add(ast.unparse(node.func))
    return found


def test_nothing_that_is_stored_is_ever_loaded_as_code() -> None:
    package = Path(__file__).resolve().parents[2] / "vaultmem"
    sources = sorted(package.rglob("*.py"))
    assert len(sources) > 40
    assert {path.name: running(path.read_text("utf-8")) for path in sources} == {
        path.name: set() for path in sources
    }


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import pickle", "pickle"),
        ("from marshal import loads", "marshal"),
        ("import shelve as s", "shelve"),
        ("eval(text)", "eval"),
        ("exec(text)", "exec"),
        ("np.load(path, allow_pickle=True)", "allow_pickle"),
        ("yaml.load(text)", "yaml.load"),
    ],
)
def test_what_would_run_stored_bytes_is_noticed(source: str, name: str) -> None:
    assert running(source) == {name}


def test_a_sidecar_that_is_replaced_while_it_is_opened_is_not_mixed_up_with_the_other(
    tmp_path: Path,
) -> None:
    create(tmp_path, "rules").close()
    others: list[Sidecar] = []

    def replace_it(_: apsw.Connection) -> None:
        apsw.connection_hooks.remove(replace_it)
        others.append(create(tmp_path, "rules"))
        others[0].set_meta("which", "the other")
        others[0].checkpoint()

    apsw.connection_hooks.append(replace_it)
    opened = open_existing(tmp_path, "rules")
    assert opened is not None
    assert opened.still_there()
    assert opened.meta("which") == "the other"
    for sidecar in (opened, *others):
        sidecar.close()


def test_what_a_new_sidecar_does_not_cure_costs_one_rebuild_and_not_one_a_question(
    golden: Golden, place: Callable[[Files], Memory]
) -> None:
    memory = place(golden.closed)
    builds: list[int] = []

    def spoil_when_built(stage: str, done: int, total: int) -> None:
        if done == total:
            builds.append(total)
            assert memory.sidecar is not None
            memory.sidecar.connection.execute("ALTER TABLE chunk RENAME COLUMN key TO other")

    sidecar = memory.open_sidecar()
    assert sidecar is not None
    sidecar.connection.execute("ALTER TABLE chunk RENAME COLUMN key TO other")
    memory.progress = replace(memory.progress, report=spoil_when_built)
    for _ in range(4):
        with pytest.raises(SidecarDamaged):
            search(memory, SearchRequest("kiln"))
        memory.close()
    assert len(builds) == 1


@pytest.mark.parametrize("asked", [17, None, b"kiln"])
def test_a_fault_of_ours_costs_one_rebuild_at_most(
    asked: object, golden: Golden, place: Callable[[Files], Memory]
) -> None:
    memory = place(golden.closed)
    builds: list[int] = []

    def count(stage: str, done: int, total: int) -> None:
        builds.extend([total] if done == total else [])

    memory.progress = replace(memory.progress, report=count)
    for _ in range(4):
        search(memory, SearchRequest("kiln"))
        with pytest.raises((TypeError, AttributeError)):
            search(memory, SearchRequest(asked))  # type: ignore[arg-type]
    assert len(builds) <= 1


def test_a_fault_of_a_model_costs_no_sidecar(tmp_path: Path, golden: Golden) -> None:
    from vaultmem.embedding.quantise import quantise

    @mended
    def ask(memory: Memory, request: SearchRequest) -> object:
        return quantise("no vectors")  # type: ignore[arg-type]

    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "a.md").write_text("kiln")
    memory = opened(vault, tmp_path / "cache")
    index(memory, IndexRequest())
    before = (memory.folder / "index.db").stat().st_ino

    with pytest.raises((TypeError, ValueError)):
        ask(memory, SearchRequest("kiln"))

    assert (memory.folder / "index.db").stat().st_ino == before
    assert memory.notices == []
