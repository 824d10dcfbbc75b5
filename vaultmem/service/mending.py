"""A damaged sidecar is thrown away and made anew in the midst of an operation, once."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

from vaultmem.index.lock import writer_lock
from vaultmem.index.store import discard_damaged, lies_in, sidecar_errors, stored_meta
from vaultmem.model.errors import SidecarDamaged, SidecarUnavailable, VaultmemError
from vaultmem.service.application import Memory

REBUILT = "The sidecar was damaged and has been rebuilt; no note is affected."
REMOVED = (
    "The sidecar was damaged and has been removed; the next search or `vaultmem index` makes it "
    "anew. No note is affected."
)

# What a row that is not as it was written leads to further up: a text for a number, JSON that is
# none, a passage of no note.
_STRANGE = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, AssertionError)

_STORES = ("/embedding/cache.py", "/embedding/matrix.py")

# A process that writes to it finds the damage too, and does this itself; seconds to wait for it.
LOCK_SECONDS = 10.0

# What the sidecar remembers of a fault that making it anew did not mend.
_FAULT = "fault"

Request = TypeVar("Request")
Reply = TypeVar("Reply")


def mended(run: Callable[[Memory, Request], Reply]) -> Callable[[Memory, Request], Reply]:
    """An operation that starts over without the sidecar when that turns out to be damaged.

    What fails the second time fails: it is not the sidecar's doing, or the disk is broken. The
    person is told, in the reply's `degraded` where it has one, else in `Memory.notices`.
    """

    @wraps(run)
    def carefully(memory: Memory, request: Request) -> Reply:
        told = len(memory.notices)
        try:
            reply = run(memory, request)
        except (SidecarDamaged, *_STRANGE) as error:
            if REBUILT in memory.notices[told:] or not _may_be_damage(memory, error):
                raise
            thrown_away = _throw_away(memory)
            try:
                reply = run(memory, request)
            except (SidecarDamaged, *_STRANGE) as again:
                _remember(memory, again)
                raise
            if thrown_away and REBUILT not in memory.notices[told:]:
                memory.notices.append(REBUILT if memory.sidecar is not None else REMOVED)
        return _with_notices(reply, memory.notices[told:])

    return carefully


def _may_be_damage(memory: Memory, error: Exception) -> bool:
    """Whether the error may be the sidecar's doing.

    It is not where it came up once before and a new sidecar did not help: then it is a fault of
    ours, and making the index anew each time would only add to it.
    """
    if _place(error) in memory.faults:
        return False
    if not isinstance(error, SidecarDamaged) and _of_a_model(error):
        return False
    if not lies_in(memory.folder):
        return isinstance(error, SidecarDamaged)
    try:
        kept = stored_meta(memory.folder, _FAULT, journal=memory.settings["sidecar.journal"])
        return kept != _place(error)
    except (SidecarDamaged, SidecarUnavailable):
        return True


def _of_a_model(error: Exception) -> bool:
    """Whether the error came up in a model, which knows nothing of the sidecar."""
    at = error.__traceback__
    while at is not None:
        module = at.tb_frame.f_code.co_filename.replace("\\", "/")
        if "/vaultmem/embedding/" in module and not module.endswith(_STORES):
            return True
        at = at.tb_next
    return False


def _remember(memory: Memory, error: Exception) -> None:
    memory.faults.add(_place(error))  # there may be no sidecar to note it in by now
    with suppress(VaultmemError), sidecar_errors(memory.folder):  # the fault itself is raised
        sidecar = memory.open_sidecar()
        if sidecar is not None:
            sidecar.end_reading()
            with sidecar.transaction():
                sidecar.set_meta(_FAULT, _place(error))


def _place(error: Exception) -> str:
    """Where an error came up, as a name for it; of SidecarDamaged, what SQLite said."""
    if isinstance(error, SidecarDamaged) and isinstance(error.__context__, Exception):
        error = error.__context__
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno}" if at is not None else ""
    return f"{type(error).__name__} {where}"


def _throw_away(memory: Memory) -> bool:
    """Remove the sidecar; False when it is another one by now.

    Raises SidecarBusy while another process writes to it, and SidecarUnavailable.
    """
    known = memory.sidecar
    memory.close_sidecar()
    if known is not None and not known.still_there():
        return False
    try:
        with sidecar_errors(memory.folder), writer_lock(memory.folder, patience=LOCK_SECONDS):
            wish = memory.settings["sidecar.journal"]
            return discard_damaged(memory.folder, known, journal=wish)
    except SidecarUnavailable as error:
        raise SidecarUnavailable(f"The sidecar is damaged and must be made anew. {error}") from None


def _with_notices(reply: Reply, notices: list[str]) -> Reply:
    if not notices or not hasattr(reply, "degraded"):
        return reply
    answer: Any = reply
    told: Reply = replace(answer, degraded=(*dict.fromkeys(notices), *answer.degraded))
    return told
