"""status: counts, freshness and problems; health checks and settings on request."""

from dataclasses import dataclass
from typing import Annotated

from vaultmem.index.lock import is_watched
from vaultmem.index.store import Sidecar
from vaultmem.index.update import stored_files
from vaultmem.index.vectors import PassageVectors
from vaultmem.index.watch_state import watch_state
from vaultmem.model.errors import (
    SidecarDamaged,
    SidecarUnavailable,
    VaultEmpty,
    VaultUnreadable,
)
from vaultmem.model.operation import About, Reply, Request
from vaultmem.model.watch_state import WatchState
from vaultmem.service.application import Memory
from vaultmem.service.budget import fitted
from vaultmem.service.doctor import Check, run_checks
from vaultmem.service.embedders import answering_space, vector_extension_live
from vaultmem.service.indexing import look
from vaultmem.service.mending import mended
from vaultmem.service.settings import SETTINGS
from vaultmem.vault.delta import count_waiting, first_look


@dataclass(frozen=True, slots=True)
class StatusRequest(Request):
    """How much to tell."""

    checks: Annotated[bool, About("Run the health checks too.")] = False
    settings: Annotated[bool, About("List every setting with its source.")] = False
    assistants: Annotated[
        bool,
        About("With checks: start the MCP server, look at assistants' files.", for_people=True),
    ] = False


@dataclass(frozen=True, slots=True)
class SettingValue:
    """A setting as it stands."""

    key: str
    value: object
    source: str  # who set it; for Obsidian's own, the file it comes from
    variable: str  # environment variable that overrides it; "" for Obsidian's own
    about: str


@dataclass(frozen=True, slots=True)
class VectorState:
    """What answers questions by meaning."""

    name: str  # of the model
    dim: int
    provider: str
    search: str  # what compares vectors: "numpy", or "numpy and sqlite-vec"


@dataclass(frozen=True, slots=True)
class StatusReply(Reply):
    """The state of a vault's index."""

    vault: str
    sidecar: str  # the file
    notes: int
    canvases: int
    chunks: int
    vectors: int
    embedder: VectorState | None  # None where no passage has a vector
    problems: int
    fresh: bool  # the vault looks as it did when it was indexed
    waiting: int  # notes that look different
    last_indexed: str | None  # UTC; when the index last took something in
    watching: bool  # a process keeps the index up to date
    watcher: (
        WatchState | None
    )  # what it says of itself; None when it says nothing, or there is none
    missing: int  # notes that are gone, and kept until that is certain
    checks: tuple[Check, ...]
    settings: tuple[SettingValue, ...]


@fitted
@mended
def status(memory: Memory, request: StatusRequest) -> StatusReply:
    """How things stand. Changes nothing, and raises nothing for a vault that is not indexed."""
    if not request.checks:
        return _status(memory, request, ())
    checks = run_checks(memory, assistants=request.assistants)
    try:
        return _status(memory, request, checks)
    except (SidecarDamaged, SidecarUnavailable):
        # Its check says so; the counts of a sidecar that cannot be asked are nought.
        memory.close()
        return _no_status(memory, checks)


def _status(memory: Memory, request: StatusRequest, checks: tuple[Check, ...]) -> StatusReply:
    from vaultmem.index.store import SIDECAR_NAME

    with memory.guarded():
        lookup = memory.lookup() if memory.settled_sidecar() is not None else None
        sidecar = memory.sidecar if lookup is not None else None  # the one that it reads
        waiting, missing = waiting_notes(memory)
        vectors = _vector_state(memory, sidecar)
        watcher = watch_state(memory.folder)
        return StatusReply(
            vault=str(memory.vault),
            sidecar=str(memory.folder / SIDECAR_NAME),
            notes=lookup.note_count() - lookup.canvas_count() if lookup else 0,
            canvases=lookup.canvas_count() if lookup else 0,
            chunks=lookup.chunk_count() if lookup else 0,
            vectors=lookup.vector_count() if lookup and vectors is not None else 0,
            embedder=vectors,
            problems=len(lookup.problems()) if lookup else 0,
            fresh=lookup is not None and waiting == 0,
            waiting=max(waiting, 0),
            last_indexed=sidecar.meta("last_indexed") if sidecar is not None else None,
            watching=is_watched(memory.folder),
            watcher=watcher,
            missing=watcher.missing if watcher is not None else missing,
            checks=checks,
            settings=_settings(memory) if request.settings else (),
        )


def _vector_state(memory: Memory, sidecar: Sidecar | None) -> VectorState | None:
    space = answering_space(memory, sidecar) if sidecar is not None else None
    if space is None or sidecar is None or not PassageVectors(sidecar).count():
        return None
    return VectorState(
        space.space.model,
        space.space.dimension,
        space.space.provider,
        "numpy and sqlite-vec" if vector_extension_live(memory, space) else "numpy",
    )


def _no_status(memory: Memory, checks: tuple[Check, ...]) -> StatusReply:
    from vaultmem.index.store import SIDECAR_NAME

    return StatusReply(
        vault=str(memory.vault),
        sidecar=str(memory.folder / SIDECAR_NAME),
        notes=0,
        canvases=0,
        chunks=0,
        vectors=0,
        embedder=None,
        problems=0,
        fresh=False,
        waiting=0,
        last_indexed=None,
        watching=is_watched(memory.folder),
        watcher=watch_state(memory.folder),
        missing=0,
        checks=checks,
        settings=(),
    )


def waiting_notes(memory: Memory) -> tuple[int, int]:
    """Notes that look different from what is indexed, and how many of them are gone.

    The first is -1 when the vault cannot be looked at.
    """
    try:
        snapshot = look(memory)
    except (VaultEmpty, VaultUnreadable):
        return -1, 0
    sidecar = memory.open_sidecar()
    if sidecar is None:
        return len(snapshot.notes), 0
    stored = stored_files(sidecar)
    return count_waiting(snapshot, stored), len(first_look(snapshot, stored).missing)


def _settings(memory: Memory) -> tuple[SettingValue, ...]:
    vault_and_sidecar = (
        SettingValue(
            "vault",
            str(memory.vault),
            memory.settings.vault_source,
            "VAULTMEM_VAULT",
            "The notes' folder.",
        ),
        SettingValue(
            "cache_dir",
            str(memory.folder.parent),
            memory.settings.sidecar_source,
            "VAULTMEM_CACHE_DIR",
            "Where the rebuildable index lies, one folder a vault.",
        ),
    )
    return (*vault_and_sidecar, *_own_settings(memory), *_obsidian_settings(memory))


def _own_settings(memory: Memory) -> tuple[SettingValue, ...]:
    return tuple(
        SettingValue(
            setting.key,
            memory.settings[setting.key],
            memory.settings.values[setting.key].source,
            setting.variable,
            setting.about,
        )
        for setting in SETTINGS
    )


def _obsidian_settings(memory: Memory) -> tuple[SettingValue, ...]:
    """What the vault's own Obsidian settings say, as they are understood here."""
    obsidian = memory.obsidian
    app, daily = f"{obsidian.folder}/app.json", f"{obsidian.folder}/daily-notes.json"
    templates = f"{obsidian.folder}/templates.json"
    rows: tuple[tuple[str, object, str, str], ...] = (
        ("excluded_files", obsidian.excluded, app, "Notes that stay out of search."),
        ("link_format", obsidian.link_format.value, app, "How links spell their target."),
        (
            "markdown_links",
            obsidian.markdown_links,
            app,
            "Whether links are written as Markdown's.",
        ),
        ("attachment_folder", obsidian.attachment_folder, app, "Where new attachments go."),
        ("daily_folder", obsidian.daily_folder, daily, "Where daily notes are."),
        ("daily_format", obsidian.daily_format, daily, "How daily notes are named."),
        ("daily_template", obsidian.daily_template, daily, "What daily notes begin as."),
        ("template_folder", obsidian.template_folder or "", templates, "Where templates are."),
    )
    return tuple(
        SettingValue(
            f"obsidian.{name}", value, file if file in obsidian.read else "default", "", about
        )
        for name, value, file, about in rows
    )
