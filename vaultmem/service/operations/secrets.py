"""secrets: the credentials that were found in notes, and which of them are none to their owner."""

from dataclasses import dataclass
from typing import Annotated

from vaultmem.index.lock import writer_lock
from vaultmem.model.errors import UsageError
from vaultmem.model.note import FoundSecret
from vaultmem.model.operation import About, Reply, Request
from vaultmem.service.allowed_secrets import make_key, read_allowed, write_allowed
from vaultmem.service.application import Memory
from vaultmem.service.budget import fitted
from vaultmem.service.mending import mended
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.refresh import make_ready


@dataclass(frozen=True, slots=True)
class SecretsRequest(Request):
    """Nothing to choose."""


@dataclass(frozen=True, slots=True)
class SecretsReply(Reply):
    """What was found, and never what it is."""

    secrets: tuple[FoundSecret, ...]  # by path and line, the allowed ones too


@dataclass(frozen=True, slots=True)
class AllowRequest(Request):
    """What is no secret, or is one after all."""

    fingerprints: Annotated[tuple[str, ...], About("Of secrets, as `secrets` lists them.")]
    revoke: Annotated[bool, About("They are secrets again.")] = False


@dataclass(frozen=True, slots=True)
class AllowReply(Reply):
    """What came of it. The notes have been indexed again."""

    changed: tuple[str, ...]  # fingerprints
    notes: int  # that were taken in anew
    secrets: tuple[FoundSecret, ...]


@fitted
@mended
def secrets(memory: Memory, request: SecretsRequest) -> SecretsReply:
    """List the credentials in the vault's notes; changes nothing."""
    degraded = make_ready(memory)
    with memory.guarded():
        return SecretsReply(tuple(memory.lookup().secrets()), degraded=degraded)


@fitted
def allow_secret(memory: Memory, request: AllowRequest) -> AllowReply:
    """Let text through that looks like a secret, or no longer. For a person, not an assistant.

    Raises UsageError for a fingerprint that no secret has, StateUnavailable where the decision
    cannot be kept, and what `index` raises.
    """
    listed = secrets(memory, SecretsRequest())
    known = {secret.fingerprint for secret in listed.secrets} - {""}
    folder = memory.settings.state_folder
    make_key(folder)  # or say why nothing can be allowed
    wanted = frozenset(request.fingerprints)
    if not wanted:
        raise UsageError("No fingerprint was given. `vaultmem secrets` lists them.")
    with memory.guarded(), writer_lock(memory.folder):  # two who decide at once both do
        before = read_allowed(folder).fingerprints
        strange = sorted(wanted - known - before)
        if strange:
            raise UsageError(
                f"No secret has the fingerprint {strange[0]}. `vaultmem secrets` lists them."
            )
        after = before - wanted if request.revoke else before | wanted
        if after != before:
            write_allowed(folder, after)
    notes = 0
    if after != before:
        notes = index(memory, IndexRequest(embed=False)).notes.changed
    with memory.guarded():
        found = tuple(memory.lookup().secrets())
    return AllowReply(tuple(sorted(before ^ after)), notes, found, degraded=listed.degraded)
