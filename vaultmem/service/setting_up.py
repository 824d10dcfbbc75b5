"""`setup`: from an install to an assistant that knows the vault, in steps that can be repeated.

`plan_setup` looks and changes nothing; `carry_out_setup` does the steps in order. A step that has
nothing to do is skipped with the reason, and one that fails does not stop the others.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from vaultmem.index.vectors import PassageVectors
from vaultmem.model.errors import SettingsInvalid, UsageError, VaultmemError, VaultNotFound
from vaultmem.service.application import Memory
from vaultmem.service.clients import CLIENTS, Computer, this_computer
from vaultmem.service.connecting import (
    Change,
    ConnectionPlan,
    ConnectionState,
    Step,
    carry_out,
    connections,
    plan_connection,
)
from vaultmem.service.indexing import look
from vaultmem.service.obsidian_vaults import known_vaults
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.status import StatusRequest, status
from vaultmem.service.settings import (
    Settings,
    find_sidecar_folder,
    find_state_folder,
    load_settings,
)

# So many passages are embedded at once, in about a minute; more would keep a person waiting.
FEW_VECTORS = 2_000


class StepState(StrEnum):
    """What became of a step."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SetupStep:
    """One step's outcome."""

    id: str
    state: StepState
    detail: str  # what was done, or why it was not


@dataclass(frozen=True, slots=True)
class SetupPlan:
    """What would be done."""

    vault: Path
    vault_source: str  # who named it: flag, environment, found, obsidian
    notes: int
    indexed: bool
    connection: ConnectionPlan
    steps: tuple[str, ...]  # what would be done, in order, a sentence each


@dataclass(frozen=True, slots=True)
class SetupReply:
    """What was done, and what a person may do next."""

    vault: Path
    steps: tuple[SetupStep, ...]
    changes: tuple[Change, ...]  # of the clients' files
    next: tuple[str, ...]

    @property
    def done(self) -> bool:
        """Whether no step failed."""
        return all(step.state is not StepState.FAILED for step in self.steps)


def find_settings(
    vault: str | Path | None, cache_dir: str | Path | None, computer: Computer | None = None
) -> tuple[Settings, str]:
    """The settings of the vault that is meant, and who named it; never a guess between two.

    Raises VaultNotFound where none is known, UsageError where Obsidian knows several, and what
    `load_settings` raises.
    """
    try:
        settings = load_settings(vault, cache_dir)
    except VaultNotFound:
        if vault is not None or (computer or this_computer()).environment.get("VAULTMEM_VAULT"):
            raise
        known = known_vaults(computer or this_computer())
        if not known:
            raise
        if len(known) > 1:
            listed = ", ".join(str(path) for path in known)
            raise UsageError(
                f"Obsidian knows several vaults: {listed}. Choose one with --vault."
            ) from None
        return load_settings(known[0], cache_dir), "obsidian"
    return settings, settings.vault_source


def find_settings_anyhow(
    vault: str | Path | None, cache_dir: str | Path | None, computer: Computer | None = None
) -> Settings:
    """The settings by which entries of a vault are found and taken out, be it gone or broken.

    Raises VaultNotFound where none is named, and UsageError as `find_settings` does.
    """
    environment = (computer or this_computer()).environment
    try:
        return find_settings(vault, cache_dir, computer)[0]
    except (VaultNotFound, SettingsInvalid):
        named = environment.get("VAULTMEM_VAULT", "") if vault is None else str(vault)
        if not named:
            raise
    try:
        folder = Path(os.path.realpath(os.path.expanduser(named)))
    except ValueError:
        raise VaultNotFound(f"{named!a} is no name that a folder can have.") from None
    sidecar_folder, sidecar_source = find_sidecar_folder(folder, cache_dir, environment)
    return Settings(
        vault=folder,
        vault_source="environment" if vault is None else "flag",
        sidecar_folder=sidecar_folder,
        sidecar_source=sidecar_source,
        state_folder=find_state_folder(folder, environment),
        values={},
    )


def plan_setup(memory: Memory, source: str, computer: Computer | None = None) -> SetupPlan:
    """What setting up would do; nothing is changed. Raises VaultEmpty and VaultUnreadable."""
    computer = computer or this_computer()
    notes = len(look(memory).notes)
    with memory.guarded():
        indexed = memory.open_sidecar() is not None
    present = {
        connection.client
        for connection in connections(memory.settings, computer=computer)
        if connection.state is not ConnectionState.NOT_INSTALLED
    }
    clients = [client for client in CLIENTS if client.name in present]
    connection = plan_connection(memory.settings, clients, computer=computer)
    steps = [
        f"Use the vault {memory.vault} ({_source(source)}; {_count(notes, 'note')}).",
        "Bring its index up to date." if indexed else f"Index it, in {memory.folder}.",
        *(f"Connect {change.title}: {change.path}." for change in connection.to_do),
        "Check that all of it works.",
    ]
    return SetupPlan(memory.vault, source, notes, indexed, connection, tuple(steps))


def carry_out_setup(
    memory: Memory, plan: SetupPlan, say: Callable[[SetupStep], None]
) -> SetupReply:
    """Do the steps, telling each one's outcome as it is known. Doing it twice changes nothing."""
    steps: list[SetupStep] = []

    def ended(id_: str, state: StepState, detail: str) -> None:
        steps.append(SetupStep(id_, state, detail))
        say(steps[-1])

    ended("vault", StepState.DONE, f"{plan.vault} ({_source(plan.vault_source)})")
    _index(memory, ended)
    _vectors(memory, ended)
    changes = _connect(plan, ended)
    _check(memory, ended)
    return SetupReply(plan.vault, tuple(steps), changes, _next(memory, plan))


Ended = Callable[[str, StepState, str], None]


def _index(memory: Memory, ended: Ended) -> None:
    try:
        reply = index(memory, IndexRequest(embed=False))
    except VaultmemError as error:
        ended("index", StepState.FAILED, str(error))
        return
    notes = reply.notes
    changed = notes.added + notes.changed + notes.renamed + notes.removed
    if changed:
        found = f"{_count(notes.total, 'note')} in {_count(reply.chunks.total, 'passage')}"
        ended("index", StepState.DONE, f"{found} ({reply.seconds:.1f} s)")
    else:
        ended("index", StepState.SKIPPED, f"up to date, {_count(notes.total, 'note')}")


def _vectors(memory: Memory, ended: Ended) -> None:
    if memory.settings["embedder.name"] == "none":
        ended("vectors", StepState.SKIPPED, "search by meaning is switched off (embedder.name)")
        return
    try:
        with memory.guarded():
            sidecar = memory.open_sidecar()
            waiting = PassageVectors(sidecar).waiting_count() if sidecar is not None else 0
        if not waiting:
            ended("vectors", StepState.SKIPPED, "every passage has its vector")
        elif waiting > FEW_VECTORS:
            ended(
                "vectors",
                StepState.SKIPPED,
                f"{waiting:,} passages take a while: an assistant's server or `vaultmem watch` "
                "makes them aside, `vaultmem index` at once. Search by words works now",
            )
        else:
            use = index(memory, IndexRequest()).embedder
            problem = use.problem if use is not None else ""
            made = f"{_count(waiting, 'passage')} embedded"
            ended("vectors", StepState.FAILED if problem else StepState.DONE, problem or made)
    except VaultmemError as error:
        ended("vectors", StepState.FAILED, str(error))


def _connect(plan: SetupPlan, ended: Ended) -> tuple[Change, ...]:
    if not plan.connection.changes:
        ended("connect", StepState.SKIPPED, "no assistant was found on this computer")
        return ()
    changes = carry_out(plan.connection).changes
    for change in changes:
        name = f"connect {change.client}"
        if change.step is Step.REFUSED:
            ended(name, StepState.FAILED, change.reason)
        elif change.step in (Step.NOTHING, Step.NOT_INSTALLED):
            ended(name, StepState.SKIPPED, change.reason)
        else:
            copy = f"; what was there before: {change.backup}" if change.backup else ""
            ended(name, StepState.DONE, f"{change.path}{copy}")
    return changes


def _check(memory: Memory, ended: Ended) -> None:
    try:
        checks = status(memory, StatusRequest(checks=True, assistants=True)).checks
    except VaultmemError as error:
        ended("doctor", StepState.FAILED, str(error))
        return
    # Notes with faults and vectors still to come are no fault of the setup.
    amiss = [check for check in checks if not check.ok and check.id not in ("problems", "vectors")]
    if amiss:
        told = "; ".join(f"{check.id}: {check.detail} {check.fix}".strip() for check in amiss)
        ended("doctor", StepState.FAILED, told)
    else:
        ended("doctor", StepState.DONE, f"{len(checks)} checks")


def _next(memory: Memory, plan: SetupPlan) -> tuple[str, ...]:
    steps = ["Try it: `vaultmem search` with words of one of your notes."]
    if plan.connection.changes:
        steps.append(
            "Start your assistant anew, and ask it what your notes say about something you know."
        )
    else:
        steps.append("`vaultmem connect --print` shows what to write into your assistant's file.")
    steps.append("`vaultmem watch --install` keeps the index fresh in the background.")
    return tuple(steps)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _source(source: str) -> str:
    return {
        "flag": "named with --vault",
        "environment": "named by VAULTMEM_VAULT",
        "found": "found at or above this folder",
        "obsidian": "the one vault that Obsidian knows",
    }[source]
