"""Health checks: each has a stable id, an opinion, and what to do about it."""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from vaultmem.index.lookup import Lookup
from vaultmem.index.store import driver, sidecar_errors
from vaultmem.model.errors import VaultmemError
from vaultmem.service.application import Memory
from vaultmem.vault.delta import count_waiting


@dataclass(frozen=True, slots=True)
class Check:
    """One check's outcome."""

    id: str
    ok: bool
    detail: str
    fix: str  # "" when all is well


def run_checks(memory: Memory) -> tuple[Check, ...]:
    """Every check, in order; one that fails never keeps the others from running."""
    checks: list[Callable[[Memory], Check]] = [
        _python,
        _sqlite,
        _vault,
        _cache_folder,
        _sidecar,
        _fresh,
        _problems,
    ]
    return tuple(_guarded(check, memory) for check in checks)


def _guarded(check: Callable[[Memory], Check], memory: Memory) -> Check:
    try:
        with memory.guarded():
            return check(memory)
    except VaultmemError as error:
        return Check(check.__name__.lstrip("_").replace("_", "-"), False, str(error), "")


def _python(_: Memory) -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("python", True, f"Python {version}", "")


def _sqlite(_: Memory) -> Check:
    version, has_fts5, wal_safe = driver()
    ok = has_fts5 and wal_safe
    fix = "" if ok else "Update the apsw package: `pip install -U apsw`."
    return Check("sqlite", ok, f"SQLite {version} through apsw", fix)


def _vault(memory: Memory) -> Check:
    from vaultmem.service.operations.index import look

    snapshot = look(memory)
    detail = f"{memory.vault}: {len(snapshot.notes):,} notes, {len(snapshot.files):,} other files"
    return Check("vault", True, detail, "")


def _cache_folder(memory: Memory) -> Check:
    folder = memory.folder
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Check(
            "cache-folder",
            False,
            f"{folder} cannot be written: {error.strerror}",
            "Choose another place with --cache-dir or VAULTMEM_CACHE_DIR.",
        )
    if memory.folder.is_relative_to(memory.vault) and ".vaultmem" not in memory.folder.parts:
        return Check(
            "cache-folder",
            False,
            f"{memory.folder} lies inside the vault, where sync services would carry it along",
            "Choose a place outside the vault with --cache-dir.",
        )
    return Check("cache-folder", True, f"{memory.folder} can be written", "")


def _sidecar(memory: Memory) -> Check:
    with sidecar_errors(memory.folder):
        sidecar = memory.open_sidecar()
        if sidecar is None:
            return Check("sidecar", False, "There is no index yet", "Run `vaultmem index`.")
        verdict = sidecar.quick_check()
    if verdict != "ok":
        return Check("sidecar", False, verdict, "Run `vaultmem index --rebuild`.")
    return Check("sidecar", True, f"{sidecar.path} is sound", "")


def _fresh(memory: Memory) -> Check:
    from vaultmem.index.update import stored_files
    from vaultmem.service.operations.index import look

    sidecar = memory.open_sidecar()
    if sidecar is None:
        return Check("fresh", False, "Nothing is indexed", "Run `vaultmem index`.")
    waiting = count_waiting(look(memory), stored_files(sidecar))
    if waiting:
        return Check("fresh", False, f"{waiting:,} notes have changed", "Run `vaultmem index`.")
    return Check("fresh", True, "The index is up to date", "")


def _problems(memory: Memory) -> Check:
    sidecar = memory.open_sidecar()
    found = Lookup(sidecar).problems() if sidecar is not None else []
    if not found:
        return Check("problems", True, "No note has a problem", "")
    first = found[0]
    return Check(
        "problems",
        False,
        f"{len(found)}; the first: {first.path}: {first.message}",
        "`vaultmem lint` lists them; the notes are found all the same.",
    )
