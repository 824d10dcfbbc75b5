"""Freshness: the index looks at the vault before it answers, or the answer says it did not."""

from contextlib import suppress

from vaultmem.index.update import stored_files
from vaultmem.model.errors import (
    DiskFull,
    SidecarBusy,
    SidecarDamaged,
    SidecarUnavailable,
    VaultEmpty,
    VaultUnreadable,
)
from vaultmem.service.application import Memory
from vaultmem.service.embed import embed_waiting
from vaultmem.service.operations.index import (
    COMPLETE,
    PATIENCE_SECONDS,
    IndexRequest,
    index,
    look,
)
from vaultmem.vault.delta import count_waiting

# So many passages are embedded before a search, in about half a second; more wait for `index`.
FEW_TEXTS = 8


def make_ready(memory: Memory, *, vectors: bool = False) -> tuple[str, ...]:
    """An index to answer from: made if there is none, refreshed if that is quick.

    vectors: whether the answer takes vectors; a just edited note then gets its own.

    Returns the reasons why the answer may be out of date; empty when it is not.
    Raises what `index` raises when there is nothing to answer from.
    """
    with memory.guarded():
        sidecar = memory.open_sidecar()
        cost = float(sidecar.meta("look_seconds") or 0.0) if sidecar is not None else 0.0
        partial = sidecar is not None and sidecar.meta(COMPLETE) is None
    if sidecar is None:
        index(memory, IndexRequest(embed=False))
        if vectors:
            _embed_few(memory)
        return ()
    missing = ("The index is not complete yet; notes are missing from it.",) if partial else ()
    wish = memory.settings["search.refresh"]
    if sidecar.read_only and wish != "never":
        return (*_not_taken_in(memory), *missing)
    if wish == "never":
        return ("The vault was not looked at (setting search.refresh is never).", *missing)
    if wish == "auto" and cost > PATIENCE_SECONDS:
        return (
            f"The vault was not looked at, which takes {cost:.1f} s. Run `vaultmem index` to be "
            "sure, or set search.refresh to always.",
            *missing,
        )
    try:
        index(memory, IndexRequest(embed=False))
    except (SidecarBusy, SidecarUnavailable, DiskFull, VaultEmpty, VaultUnreadable) as error:
        return (str(error), *missing)
    if vectors:
        _embed_few(memory)
    return ()


def _not_taken_in(memory: Memory) -> tuple[str, ...]:
    """What an index that cannot be written lacks; empty when that is nothing."""
    try:
        with memory.guarded():
            sidecar = memory.open_sidecar()
            waiting = 0 if sidecar is None else count_waiting(look(memory), stored_files(sidecar))
    except (VaultEmpty, VaultUnreadable) as error:
        return (str(error),)
    if not waiting:
        return ()
    notes = "1 note has" if waiting == 1 else f"{waiting:,} notes have"
    return (
        f"{notes} changed since the vault was indexed, and the index in {memory.folder} cannot be "
        "written. Choose another place with --cache-dir or VAULTMEM_CACHE_DIR.",
    )


def _embed_few(memory: Memory) -> None:
    """Give a just edited note its vectors; a server is not waited for.

    Where vectors cannot be kept the search goes on; it says itself what it had to do without.
    """
    if memory.settings["embedder.name"] == "ollama":
        return
    with suppress(SidecarBusy, SidecarDamaged, SidecarUnavailable, DiskFull), memory.guarded():
        embed_waiting(memory, most=FEW_TEXTS)
