"""Freshness: the index looks at the vault before it answers, or the answer says it did not."""

import time
from collections.abc import Collection
from contextlib import suppress

from vaultmem.index.lookup import Lookup
from vaultmem.index.requests import ask_for
from vaultmem.index.store import sidecar_errors
from vaultmem.index.update import stored_files
from vaultmem.index.watch_state import says_it_is_fresh, watch_state
from vaultmem.model.errors import (
    DiskFull,
    SidecarBusy,
    SidecarDamaged,
    SidecarUnavailable,
    VaultEmpty,
    VaultUnreadable,
)
from vaultmem.model.watch_state import WatchState
from vaultmem.service.application import Memory
from vaultmem.service.embed import embed_waiting
from vaultmem.service.indexing import COMPLETE, LOCK_SECONDS, Bounds, Taken, look, take_in
from vaultmem.service.settings import Settings
from vaultmem.vault.delta import count_waiting
from vaultmem.vault.paths import vault_path
from vaultmem.vault.read import is_bare

# An answer waits so long for changes to be looked for and taken in: seconds.
PATIENCE_SECONDS = 0.5
# ... for another process that does so at the moment,
LOCK_PATIENCE_SECONDS = 0.1
# ... and for a watcher that has seen a change and not yet taken it in.
WATCHER_PATIENCE_SECONDS = 0.4
# ... unless that was in vain a moment ago.
WAITED_SECONDS = 2.0
# Events may get lost: who hears of no change looks after so long all the same.
LOOK_SECONDS = 60.0

INCOMPLETE = "The index is not complete yet; notes are missing from it."
BUSY = (
    "Another vaultmem process is taking in changes just now; what it has not come to yet is not "
    "found."
)

# What an answer finds out of date it takes in within these bounds, and believes no deletion.
_A_MOMENT = Bounds(
    lock_seconds=LOCK_PATIENCE_SECONDS,
    seconds=PATIENCE_SECONDS,
    confirmed=lambda absent: frozenset(),
)

# So many passages are embedded before a search, in about half a second; more wait for `index`.
FEW_TEXTS = 8


def make_ready(memory: Memory, *, vectors: bool = False) -> tuple[str, ...]:
    """An index to answer from: made if there is none, refreshed as far as that is quick.

    vectors: whether the answer takes vectors; a just edited note then gets its own.

    Returns the reasons why the answer may be out of date; empty when it is not.
    Raises what `take_in` raises when there is nothing to answer from.
    """
    memory.unreachable = False
    if _first_build(memory):
        if vectors:
            _embed_few(memory)
        return ()
    with memory.guarded():
        sidecar = memory.open_sidecar_to_write()
        if sidecar is None:
            return ()  # it is being replaced at this moment; `lookup` waits for the new one
        partial = sidecar.meta(COMPLETE) is None
    missing = (INCOMPLETE,) if partial else ()
    wish = memory.settings["search.refresh"]
    if sidecar.read_only and wish != "never":
        return (*_not_taken_in(memory), *missing)
    if wish == "never":
        return ("The vault was not looked at (setting search.refresh is never).", *missing)
    watcher = relied_on(memory) if wish == "auto" and not partial else None
    if watcher is not None:
        behind = _caught_up(memory, watcher)
        if behind is not None:
            if vectors and not watcher.embeds:
                _embed_few(memory)
            return (*behind, *_missing(memory))
    if wish == "auto" and not partial and _heard_nothing(memory):
        if vectors:
            _embed_few(memory)
        return ()
    marks, began = memory.marks(), memory.clock.elapsed()
    memory.looked = None
    bounds = Bounds(
        lock_seconds=LOCK_PATIENCE_SECONDS,
        seconds=PATIENCE_SECONDS if wish == "auto" else None,
    )
    try:
        taken = take_in(memory, bounds=bounds)
    except SidecarBusy:
        return (BUSY, *missing)
    except (SidecarUnavailable, DiskFull) as error:
        return (str(error), *missing)
    except (VaultEmpty, VaultUnreadable) as error:
        memory.unreachable = True
        return (str(error), *missing)
    if marks is not None and not (taken.left or taken.cut_short or taken.missing):
        memory.looked = (marks, began)
    if vectors:
        _embed_few(memory)
    return (*_cut_short(taken), *_missing(memory))


def _heard_nothing(memory: Memory) -> bool:
    """Whether the last look left nothing to do, and nothing was heard of changes since."""
    if memory.looked is None:
        return False
    marks, began = memory.looked
    return marks == memory.marks() and memory.clock.elapsed() - began < LOOK_SECONDS


def _first_build(memory: Memory) -> bool:
    """Make an index where there is none; False where there is one, or another process makes it.

    What that one has made so far answers meanwhile.
    """
    until = time.monotonic() + LOCK_SECONDS
    while True:
        with memory.guarded():
            if memory.open_sidecar() is not None:
                return False
        try:
            take_in(memory, bounds=Bounds(lock_seconds=LOCK_PATIENCE_SECONDS))
        except SidecarBusy:
            if time.monotonic() >= until:
                raise
        else:
            return True


def renew(memory: Memory, changed: Collection[str], gone: Collection[str]) -> tuple[str, ...]:
    """Take in notes that an answer met and found changed, as far as that is quick.

    Returns why that cannot be, where the vault is away.

    changed, gone: their paths below the vault, as the disk spells them. That a note is gone is
    believed by whoever watches the vault, in time, and by the next look at all of it.
    """
    told: tuple[str, ...] = ()
    if memory.settings["search.refresh"] == "never":
        return told
    with memory.guarded():
        sidecar = memory.open_sidecar()
        if sidecar is None or sidecar.read_only:
            return told
        left = list(gone)
        if changed:
            try:
                take_in(memory, only=changed, bounds=_A_MOMENT)
            except (VaultEmpty, VaultUnreadable) as error:
                told, left = (str(error),), [*left, *changed]
            except (SidecarBusy, SidecarUnavailable, DiskFull):
                left += changed  # the hits say themselves that they are out of date
        sidecar = memory.open_sidecar()
        if left and sidecar is not None and watch_state(memory.folder) is not None:
            # The queue spares others a look; without it the answer is the same.
            with (
                suppress(SidecarBusy, SidecarUnavailable, DiskFull),
                sidecar_errors(memory.folder),
            ):
                ask_for(sidecar, left, memory.clock.now_ns())
    return told


def gone_files(memory: Memory, missing: Collection[str]) -> frozenset[str]:
    """Which of the files that could not be found are really gone.

    missing: paths below the vault, as the disk spells them. None is, where the vault cannot be
    reached, and one is not whose text a sync service keeps elsewhere.
    """
    if not missing or memory.unreachable or is_bare(memory.vault):
        return frozenset()
    try:
        seen = look(memory, only=missing)
    except VaultUnreadable:
        return frozenset()
    there = {state.disk_path for state in seen.notes.values()}
    return frozenset(
        path
        for path in missing
        if path not in there
        and seen.speaks_of(spelt := vault_path(path))
        and spelt not in seen.away
    )


def sight(settings: Settings, fingerprint: str) -> str:
    """What a watcher has in common with who relies on it: how notes are indexed, and which."""
    return f"{fingerprint}; {settings['scan.ignore']!r} {settings['scan.max_note_bytes']}"


def relied_on(memory: Memory) -> WatchState | None:
    """The watcher that keeps this very index fresh; None when there is none to rely on."""
    state = watch_state(memory.folder)
    if state is None:
        return None
    rules = sight(memory.settings, memory.fingerprint)
    fresh = says_it_is_fresh(state, rules, memory.clock.now_ns())
    return state if fresh else None


def _caught_up(memory: Memory, watcher: WatchState) -> tuple[str, ...] | None:
    """Wait a moment for a watcher that has something to take in.

    Returns what it has not come to; None when it is to be relied on no more: it ended, or it has
    lost sight of the vault.
    """
    now = time.monotonic()
    # One that has just been waited for in vain has more to do than a moment's work.
    patience = WATCHER_PATIENCE_SECONDS if now - memory.waited > WAITED_SECONDS else 0.0
    until = now + patience
    while watcher.behind:
        if time.monotonic() >= until:
            memory.waited = now if patience else memory.waited
            what = "1 change" if watcher.behind == 1 else f"{watcher.behind:,} changes"
            return (f"`vaultmem watch` is still taking in {what}.",)
        time.sleep(0.01)
        state = relied_on(memory)
        if state is None:
            return None
        watcher = state
    return ()


def _cut_short(taken: Taken) -> tuple[str, ...]:
    """What time did not suffice for."""
    how = "Run `vaultmem index`, or have `vaultmem watch` run in the background."
    if taken.left:
        notes = "1 changed note is" if taken.left == 1 else f"{taken.left:,} changed notes are"
        return (f"{notes} not taken in yet: a search waits {PATIENCE_SECONDS:g} s. {how}",)
    if taken.cut_short:
        return (
            f"Not all of the vault was looked at: a search waits {PATIENCE_SECONDS:g} s. {how}",
        )
    return ()


def _missing(memory: Memory) -> tuple[str, ...]:
    """That more notes are missing than is believed, which are no hits until they are back."""
    with memory.guarded():
        sidecar = memory.open_sidecar()
        return () if sidecar is None else tuple(Lookup(sidecar).scan_messages("notes-missing"))


def _not_taken_in(memory: Memory) -> tuple[str, ...]:
    """What an index that cannot be written lacks; empty when that is nothing."""
    try:
        with memory.guarded():
            sidecar = memory.open_sidecar()
            waiting = 0 if sidecar is None else count_waiting(look(memory), stored_files(sidecar))
    except (VaultEmpty, VaultUnreadable) as error:
        memory.unreachable = True
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
