"""secrets: the credentials that were found in notes, and which of them are none to their owner."""

from dataclasses import dataclass

from vaultmem.index.lock import writer_lock
from vaultmem.model.errors import UsageError
from vaultmem.model.note import FoundSecret
from vaultmem.service.allowed_secrets import make_key, read_allowed, write_allowed
from vaultmem.service.application import Memory
from vaultmem.service.mending import mended
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.refresh import make_ready


@dataclass(frozen=True, slots=True)
class SecretsRequest:
    """Nothing to choose."""


@dataclass(frozen=True, slots=True)
class SecretsReply:
    """What was found, and never what it is."""

    secrets: tuple[FoundSecret, ...]  # by path and line, the allowed ones too
    degraded: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AllowRequest:
    """What is no secret, or is one after all."""

    fingerprints: tuple[str, ...]
    revoke: bool = False  # they are secrets again


@dataclass(frozen=True, slots=True)
class AllowReply:
    """What came of it. The notes have been indexed again."""

    changed: tuple[str, ...]  # fingerprints
    notes: int  # that were taken in anew
    secrets: tuple[FoundSecret, ...]


@mended
def secrets(memory: Memory, request: SecretsRequest) -> SecretsReply:
    """List the credentials in the vault's notes; changes nothing."""
    degraded = make_ready(memory)
    with memory.guarded():
        return SecretsReply(tuple(memory.lookup().secrets()), degraded)


def allow_secret(memory: Memory, request: AllowRequest) -> AllowReply:
    """Let text through that looks like a secret, or no longer. For a person, not an assistant.

    Raises UsageError for a fingerprint that no secret has, StateUnavailable where the decision
    cannot be kept, and what `index` raises.
    """
    known = {secret.fingerprint for secret in secrets(memory, SecretsRequest()).secrets} - {""}
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
    return AllowReply(tuple(sorted(before ^ after)), notes, found)
