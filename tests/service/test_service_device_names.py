"""Notes whose names begin like a device of Windows are found by name where there are such files."""

from pathlib import Path

import pytest

from vaultmem.model.errors import Refused
from vaultmem.service.application import open_memory
from vaultmem.service.operations.read import ReadRequest, read
from vaultmem.service.settings import load_settings


def test_a_note_that_is_there_is_found_by_name_and_a_device_is_not(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    (vault / "Grammar").mkdir(parents=True)
    (vault / "Grammar" / "Aux. verbs.md").write_text("have", "utf-8")
    (vault / "Con. law.md").write_text("Marbury", "utf-8")
    environment = {
        "VAULTMEM_STATE_DIR": str(tmp_path / "state"),
        "VAULTMEM_EMBEDDER_NAME": "none",
    }
    memory = open_memory(load_settings(vault, tmp_path / "cache", environment=environment))
    try:
        assert read(memory, ReadRequest("Con. law")).path == "Con. law.md"
        assert read(memory, ReadRequest("Aux. verbs")).path == "Grammar/Aux. verbs.md"
        for device in ("CON", "NUL.md", "Grammar/aux"):
            with pytest.raises(Refused):
                read(memory, ReadRequest(device))
    finally:
        memory.close()
