"""No operation writes into the vault, whatever it is asked."""

import hashlib
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from vaultmem.model.errors import VaultmemError
from vaultmem.service.application import Memory, open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.inspect import InspectRequest, inspect
from vaultmem.service.operations.lint import LintRequest, lint
from vaultmem.service.operations.read import ReadRequest, read
from vaultmem.service.operations.related import RelatedRequest, related
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.operations.status import StatusRequest, status
from vaultmem.service.settings import load_settings
from vaultmem.service.shipped import shipped_folder


def everything(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every file, folder and link with all that can be seen of it, but when it was last read."""
    seen: dict[str, tuple[object, ...]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        look = path.lstat()
        content = (
            hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(look.st_mode) else ""
        )
        seen[str(path.relative_to(folder))] = (
            content, look.st_mode, look.st_ino, look.st_nlink, look.st_uid, look.st_gid,
            look.st_size, look.st_mtime_ns, look.st_ctime_ns,
        )  # fmt: skip
    return seen


OPERATIONS: list[Callable[[Memory], object]] = [
    lambda memory: index(memory, IndexRequest()),
    lambda memory: index(memory, IndexRequest(rebuild=True)),
    lambda memory: search(memory, SearchRequest("too many clients", passages=True)),
    lambda memory: search(memory, SearchRequest("sourdogh tag:bread")),
    lambda memory: read(memory, ReadRequest("Home")),
    lambda memory: read(memory, ReadRequest("../outside.md")),
    lambda memory: related(memory, RelatedRequest("Mara Lindqvist")),
    lambda memory: lint(memory, LintRequest()),
    lambda memory: status(memory, StatusRequest(checks=True, settings=True)),
    lambda memory: inspect(memory, InspectRequest("Home.md")),
    lambda memory: inspect(memory, InspectRequest("nowhere.md")),
]


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "Sample vault"
    shutil.copytree(shipped_folder("sample_vault"), folder)
    os.chmod(folder / "Home.md", 0o444)
    (folder / "empty").mkdir()
    os.symlink(folder / "Home.md", folder / "link.md")
    (folder / "broken.md").write_bytes(b"---\nx: [\n---\n\xff\xfe")
    return folder


def run_all(memory: Memory) -> int:
    answered = 0
    for operation in OPERATIONS:
        try:
            operation(memory)
            answered += 1
        except VaultmemError:
            pass  # an honest refusal is an answer too; what counts is what it left behind
    return answered


def test_no_operation_touches_a_file_of_the_vault(vault: Path, tmp_path: Path) -> None:
    before = everything(vault)
    memory = open_memory(
        load_settings(vault, tmp_path / "cache", environment={"VAULTMEM_EMBEDDER_NAME": "none"})
    )
    for _ in range(2):
        assert run_all(memory) == len(OPERATIONS) - 1
    memory.close()
    assert everything(vault) == before
    assert (tmp_path / "cache").is_dir()


def test_no_operation_touches_a_vault_with_folders_that_cannot_be_written(
    vault: Path, tmp_path: Path
) -> None:
    folders = [vault, *(path for path in vault.rglob("*") if path.is_dir())]
    for folder in folders:
        os.chmod(folder, 0o555)
    before = everything(vault)
    try:
        memory = open_memory(
            load_settings(vault, tmp_path / "cache", environment={"VAULTMEM_EMBEDDER_NAME": "none"})
        )
        assert run_all(memory) == len(OPERATIONS) - 1
        memory.close()
        assert everything(vault) == before
    finally:
        for folder in folders:
            os.chmod(folder, 0o755)


def test_nothing_is_written_until_something_is_asked(vault: Path, tmp_path: Path) -> None:
    memory = open_memory(
        load_settings(vault, tmp_path / "cache", environment={"VAULTMEM_EMBEDDER_NAME": "none"})
    )
    status(memory, StatusRequest(checks=True))
    inspect(memory, InspectRequest("Home.md"))
    memory.close()
    assert not (tmp_path / "cache").exists()
