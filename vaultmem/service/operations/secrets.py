"""secrets: the credentials that were found in notes, and which of them are none to their owner."""

from collections.abc import Collection
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

# Findings that a person is asked about at once, and characters: nobody reads more.
MOST_ASKED = 20
MOST_ASKED_CHARS = 2_400


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


def allow_question(memory: Memory, request: AllowRequest) -> str:
    """What a person is asked: which findings in which notes are meant, and nothing else.

    Raises UsageError for a fingerprint that no secret has.
    """
    found = secrets(memory, SecretsRequest()).secrets
    wanted = frozenset(request.fingerprints)
    folder = memory.settings.state_folder
    _refuse_strange(
        wanted, {secret.fingerprint for secret in found} | read_allowed(folder).fingerprints
    )
    places = [
        f"{secret.path}, line {secret.line}: {secret.kind} {secret.shown}…"
        for secret in found
        if secret.fingerprint in wanted
    ]
    listed = "\n".join(places)
    if len(places) > MOST_ASKED or len(listed) > MOST_ASKED_CHARS:
        raise UsageError(
            f"These are {len(places):,} findings, more than a person reads at once. Ask for fewer."
        )
    if request.revoke:
        return f"Keep these from assistants and from search again?\n{listed}"
    return (
        f"Show these to assistants and in search from now on, as no secrets?\n{listed}\n"
        "Agree only if you know that they are none."
    )


def _refuse_strange(wanted: frozenset[str], known: Collection[str]) -> None:
    if not wanted:
        raise UsageError("No fingerprint was given. `vaultmem secrets` lists them.")
    strange = sorted(wanted - frozenset(known) | wanted & {""})
    if strange:
        raise UsageError(
            f"No secret has the fingerprint {strange[0]}. `vaultmem secrets` lists them."
        )


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
    _refuse_strange(wanted, known | read_allowed(folder).fingerprints)
    with memory.guarded(), writer_lock(memory.folder):  # two who decide at once both do
        before = read_allowed(folder).fingerprints
        after = before - wanted if request.revoke else before | wanted
        if after != before:
            write_allowed(folder, after)
    notes = 0
    if after != before:
        notes = index(memory, IndexRequest(embed=False)).notes.changed
    with memory.guarded():
        found = tuple(memory.lookup().secrets())
    return AllowReply(tuple(sorted(before ^ after)), notes, found, degraded=listed.degraded)
