"""Settings of Obsidian that cannot be read, beside an index that cannot be asked."""

from collections.abc import Callable

import apsw
import pytest

from vaultmem.model.errors import SidecarBusy
from vaultmem.service.application import Memory
from vaultmem.service.operations.status import StatusRequest, status
from vaultmem.service.vault_settings import current_settings

Open = Callable[..., Memory]


def test_a_busy_index_is_said_to_be_busy(indexed: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = indexed({"a.md": "x"})
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    path = str(sidecar.path)
    memory.close()
    folder = memory.vault / ".obsidian"
    folder.mkdir()
    (folder / "app.json").write_text("{")
    monkeypatch.setattr("vaultmem.index.store.BUSY_TIMEOUT_MS", 10)
    other = apsw.Connection(path)
    other.execute("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").fetchall()
    try:
        with pytest.raises(SidecarBusy):
            current_settings(memory.vault, memory.folder)
    finally:
        other.close()


def test_what_holds_from_before_is_shown_with_its_file(indexed: Open) -> None:
    memory = indexed({"a.md": "x", ".obsidian/app.json": '{"userIgnoreFilters": ["Old/"]}'})
    (memory.vault / ".obsidian/app.json").write_text("{")

    settings = {s.key: s for s in status(memory, StatusRequest(settings=True)).settings}

    excluded = settings["obsidian.excluded_files"]
    assert (excluded.value, excluded.source) == (("Old/",), ".obsidian/app.json")
