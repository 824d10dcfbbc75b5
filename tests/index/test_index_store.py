"""The sidecar file: what is rebuilt, what is refused, and what stays whole."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from vaultmem.index.lock import writer_lock
from vaultmem.index.store import (
    SIDECAR_NAME,
    create,
    driver,
    full_fingerprint,
    make_folder,
    open_existing,
    sidecar_errors,
)
from vaultmem.model.errors import (
    DiskFull,
    SidecarBusy,
    SidecarDamaged,
    SidecarUnavailable,
    VaultmemError,
)
from vaultmem.service.application import Memory
from vaultmem.service.operations.index import IndexReply, IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search

Open = Callable[..., Memory]
Run = Callable[[Memory], IndexReply]
Find = Callable[..., list[str]]

NOTES = {"kiln.md": "The kiln is fired on Mondays.", "glaze.md": "Glaze for the [[kiln]]."}


def sidecar_file(memory: Memory) -> Path:
    return memory.folder / SIDECAR_NAME


def vault_bytes(memory: Memory) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in memory.vault.rglob("*") if p.is_file()}


def test_a_new_sidecar_is_an_empty_database_with_its_fingerprint(tmp_path: Path) -> None:
    sidecar = create(tmp_path, "rules one")
    assert sidecar.meta("fingerprint") == full_fingerprint("rules one")
    assert sidecar.connection.execute("SELECT count(*) FROM note").get == 0
    assert sidecar.connection.execute("PRAGMA journal_mode").get == "wal"
    assert sidecar.quick_check() == "ok"
    sidecar.close()
    sidecar.close()


def test_a_sidecar_is_opened_again_under_the_same_rules_only(tmp_path: Path) -> None:
    assert open_existing(tmp_path, "rules one") is None
    create(tmp_path, "rules one").close()
    again = open_existing(tmp_path, "rules one")
    assert again is not None
    again.close()
    assert open_existing(tmp_path, "rules two") is None


def test_creating_a_sidecar_replaces_the_one_before(tmp_path: Path) -> None:
    first = create(tmp_path, "rules")
    first.set_meta("mark", "old")
    first.close()
    second = create(tmp_path, "rules")
    assert second.meta("mark") is None
    second.close()


def test_a_changed_setting_rebuilds_the_index_and_an_equal_one_does_not(
    open_vault: Open, run_index: Run
) -> None:
    run_index(open_vault(NOTES))
    assert run_index(open_vault()).notes.unchanged == 2
    other = open_vault(environment={"VAULTMEM_CHUNK_MAX_PIECES": "60"})
    assert run_index(other).notes.added == 2
    kinds = open_vault(environment={"VAULTMEM_KINDS_FOLDERS": "Log=daily"})
    assert run_index(kinds).notes.added == 2


def test_a_sidecar_of_another_program_version_is_rebuilt(
    open_vault: Open, run_index: Run, find: Find
) -> None:
    memory = open_vault(NOTES)
    run_index(memory)
    assert memory.sidecar is not None
    known = memory.sidecar.meta("fingerprint")
    assert known is not None
    memory.sidecar.set_meta("fingerprint", known.replace("schema", "schema of tomorrow"))
    memory.close()
    assert find(memory, "fired") == ["kiln.md"]
    assert memory.sidecar is not None
    assert memory.sidecar.meta("fingerprint") == known


def spoil_with_text(file: Path) -> None:
    file.write_text("This was never a database.\n" * 50)


def spoil_with_nothing(file: Path) -> None:
    file.write_bytes(b"")


def spoil_with_zeros(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def spoil_by_cutting(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def spoil_the_tables(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[8192 * 2 :] = b"\xff" * (len(data) - 8192 * 2)
    file.write_bytes(data)


def spoil_the_schema(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[100:8192] = b"\x5a" * (8192 - 100)
    file.write_bytes(data)


def spoil_as_another_database(file: Path) -> None:
    file.unlink()
    connection = apsw.Connection(str(file))
    connection.execute("CREATE TABLE meta (something, other)")
    connection.close()


SPOILERS = [
    spoil_with_text,
    spoil_with_nothing,
    spoil_with_zeros,
    spoil_by_cutting,
    spoil_the_tables,
    spoil_the_schema,
    spoil_as_another_database,
]


@pytest.mark.parametrize("spoil", SPOILERS, ids=lambda spoil: spoil.__name__)
def test_a_damaged_sidecar_is_rebuilt_or_named_and_the_vault_is_not_touched(
    spoil: Callable[[Path], None], open_vault: Open, run_index: Run, find: Find
) -> None:
    memory = open_vault(NOTES)
    run_index(memory)
    memory.close()
    before = vault_bytes(memory)
    spoil(sidecar_file(memory))
    said: list[str] = []
    for attempt in (run_index, lambda m: search(m, SearchRequest("kiln"))):
        try:
            attempt(memory)
        except SidecarDamaged as error:
            said.append(str(error))
        memory.close()
    assert all("--rebuild" in message for message in said)
    index(memory, IndexRequest(rebuild=True))
    assert find(memory, "fired") == ["kiln.md"]
    assert vault_bytes(memory) == before


def test_a_damaged_log_beside_the_sidecar_does_not_outlive_a_rebuild(
    open_vault: Open, run_index: Run, find: Find
) -> None:
    memory = open_vault(NOTES)
    run_index(memory)
    memory.close()
    for suffix in ("-wal", "-shm"):
        Path(str(sidecar_file(memory)) + suffix).write_bytes(b"\x37\x7f\x06\x82" + b"junk" * 999)
    index(memory, IndexRequest(rebuild=True))
    assert find(memory, "fired") == ["kiln.md"]


def test_a_folder_in_place_of_the_sidecar_is_named_and_kept(
    open_vault: Open, run_index: Run
) -> None:
    memory = open_vault(NOTES)
    sidecar_file(memory).mkdir(parents=True)
    (sidecar_file(memory) / "mine.txt").write_text("kept")
    with pytest.raises(VaultmemError) as caught:
        run_index(memory)
    assert str(memory.folder) in str(caught.value)
    assert (sidecar_file(memory) / "mine.txt").read_text() == "kept"


def test_a_file_in_place_of_the_cache_folder_is_named(
    open_vault: Open, run_index: Run, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("not a folder")
    with pytest.raises(SidecarUnavailable):
        run_index(open_vault(NOTES))


HOLD_THE_LOCK = """
import sys
from pathlib import Path
from vaultmem.index.lock import writer_lock
with writer_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_indexing_while_another_process_does_is_refused_and_searching_goes_on(
    open_vault: Open, run_index: Run
) -> None:
    memory = open_vault(NOTES)
    run_index(memory)
    (memory.vault / "new.md").write_text("fired as well")
    command = [sys.executable, "-c", HOLD_THE_LOCK, str(memory.folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(SidecarBusy):
            run_index(memory)
        reply = search(memory, SearchRequest("fired"))
        other.stdin.close()
    assert [hit.path for hit in reply.hits] == ["kiln.md"]
    assert "Another vaultmem process" in reply.degraded[0]
    assert run_index(memory).notes.added == 1


def test_the_lock_is_free_again_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), writer_lock(tmp_path):
        raise ZeroDivisionError
    with writer_lock(tmp_path), pytest.raises(SidecarBusy), writer_lock(tmp_path):
        pass


def test_a_transaction_keeps_all_of_its_rows_or_none(tmp_path: Path) -> None:
    sidecar = create(tmp_path, "rules")
    with sidecar.transaction():
        sidecar.set_meta("kept", "yes")

    def fail_halfway() -> None:
        with sidecar.transaction():
            sidecar.set_meta("kept", "no")
            sidecar.set_meta("lost", "yes")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_halfway()
    assert not sidecar.connection.in_transaction
    assert (sidecar.meta("kept"), sidecar.meta("lost")) == ("yes", None)
    sidecar.close()


def test_a_batch_keeps_what_was_whole_when_something_fails_in_between(tmp_path: Path) -> None:
    sidecar = create(tmp_path, "rules")

    def fail_between() -> None:
        with sidecar.batch(100):
            for number in range(5):
                if number == 3:
                    raise ZeroDivisionError
                with sidecar.transaction():
                    sidecar.set_meta(str(number), "whole")

    with pytest.raises(ZeroDivisionError):
        fail_between()
    sidecar.close()
    again = open_existing(tmp_path, "rules")
    assert again is not None
    assert [again.meta(str(number)) for number in range(5)] == ["whole"] * 3 + [None] * 2
    again.close()


def test_a_batch_becomes_durable_by_weight(tmp_path: Path) -> None:
    sidecar = create(tmp_path, "rules")
    waiting: list[bool] = []
    with sidecar.batch(3):
        for key in ("a", "b"):
            with sidecar.transaction(weight=2):
                sidecar.set_meta(key, "1")
            waiting.append(sidecar.connection.in_transaction)
    assert waiting == [True, False]
    sidecar.close()


def test_the_cache_folder_is_marked_for_backup_programs(open_vault: Open, run_index: Run) -> None:
    memory = open_vault(NOTES)
    run_index(memory)
    tag = memory.folder / "CACHEDIR.TAG"
    assert tag.read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")
    tag.write_text("Signature: mine")
    make_folder(memory.folder)
    assert tag.read_text() == "Signature: mine"


def test_a_removed_word_is_nowhere_in_the_sidecars_bytes(
    open_vault: Open, run_index: Run, find: Find
) -> None:
    # Lower case and without an ending: the stemmer leaves it alone, so it would be found as it is.
    secret = "qwxzvk"
    notes = {f"n{i}.md": f"Filler about kilns {i}. " * 40 for i in range(30)}
    memory = open_vault({**notes, "secret.md": f"The {secret} word.\n", "keep.md": "kept"})
    run_index(memory)
    assert find(memory, secret) == ["secret.md"]
    (memory.vault / "secret.md").unlink()
    assert run_index(memory).notes.removed == 1
    for file in memory.folder.iterdir():
        assert secret.encode() not in file.read_bytes(), file.name
    assert find(memory, secret) == []


def test_a_word_edited_away_is_nowhere_in_the_sidecars_bytes(
    open_vault: Open, run_index: Run
) -> None:
    secret = "qwxzvk"
    text = f"# {secret}\n\nalias\n\n" + "A line about clay and water.\n" * 200
    memory = open_vault({"long.md": f"---\nalias: {secret}\ntags: [{secret}]\n---\n{text}"})
    run_index(memory)
    (memory.vault / "long.md").write_text(text.replace(secret, "other"))
    assert run_index(memory).notes.changed == 1
    for file in memory.folder.iterdir():
        assert secret.encode() not in file.read_bytes(), file.name


def test_a_rebuild_by_one_process_reaches_another_that_has_the_vault_open(
    open_vault: Open, run_index: Run, find: Find
) -> None:
    reader = open_vault(NOTES, environment={"VAULTMEM_SEARCH_REFRESH": "never"})
    run_index(reader)
    (reader.vault / "wheel.md").write_text("The wheel turns.")
    other = open_vault()
    index(other, IndexRequest(rebuild=True))
    assert find(reader, "wheel") == ["wheel.md"]


def test_closing_an_old_connection_leaves_a_rebuilt_sidecar_its_log(
    open_vault: Open, run_index: Run
) -> None:
    old = open_vault(NOTES)
    run_index(old)
    new = open_vault()
    index(new, IndexRequest(rebuild=True))
    assert new.sidecar is not None
    new.sidecar.set_meta("mark", "written after the rebuild")
    old.close()
    third = open_vault()
    sidecar = third.open_sidecar()
    assert sidecar is not None
    assert sidecar.meta("mark") == "written after the rebuild"


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (apsw.FullError("x"), DiskFull),
        (apsw.BusyError("x"), SidecarBusy),
        (apsw.LockedError("x"), SidecarBusy),
        (apsw.NotADBError("x"), SidecarDamaged),
        (apsw.CorruptError("x"), SidecarDamaged),
        (apsw.CantOpenError("x"), SidecarUnavailable),
        (apsw.ReadOnlyError("x"), SidecarUnavailable),
        (apsw.IOError("x"), SidecarUnavailable),
        (OSError(28, "No space left on device"), DiskFull),
        (PermissionError(13, "Permission denied"), SidecarUnavailable),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else type(value).__name__,
)
def test_every_failure_of_the_sidecar_has_a_name_and_says_where(
    raised: Exception, expected: type[VaultmemError], tmp_path: Path
) -> None:
    with pytest.raises(expected) as caught, sidecar_errors(tmp_path):
        raise raised
    assert str(tmp_path) in str(caught.value)


def test_the_driver_knows_full_text_and_safe_logs() -> None:
    version, has_full_text, safe, _ = driver()
    assert version
    assert (has_full_text, safe) == (True, True)
