"""An opened vault: settings, sidecar and the clock, wired once and handed to every operation."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from vaultmem.embedding.cache import EmbeddingCache, open_cache
from vaultmem.embedding.embedder import Embedder
from vaultmem.index.lookup import Lookup
from vaultmem.index.store import (
    Sidecar,
    full_fingerprint,
    is_made_aside,
    open_existing,
    sidecar_errors,
    stored_meta,
)
from vaultmem.model.errors import SidecarUnavailable, StateUnavailable
from vaultmem.security.engine import engine_name
from vaultmem.security.rulebook import RULES_VERSION
from vaultmem.service.allowed_secrets import AllowedSecrets, Key, read_allowed
from vaultmem.service.settings import Settings
from vaultmem.service.vault_settings import current_settings
from vaultmem.vault.chunk import CHUNKER_VERSION
from vaultmem.vault.facts import KindRules, kind_rules
from vaultmem.vault.links import VaultNames
from vaultmem.vault.obsidian import ObsidianSettings
from vaultmem.vault.parse import PARSER_VERSION
from vaultmem.vault.read import is_bare
from vaultmem.vault.screen import Screen

if TYPE_CHECKING:
    from vaultmem.embedding.matrix import Matrix


# A sidecar that is put in another's place is not there for a moment; nobody waits longer for it.
SWAP_SECONDS = 1.0

_MONTH = 30 * 86_400  # seconds


@dataclass(frozen=True, slots=True)
class Clock:
    """Time as the application sees it; tests pass their own."""

    now_ns: Callable[[], int] = time.time_ns
    elapsed: Callable[[], float] = time.perf_counter

    def day(self, epoch_ns: int) -> date:
        """The local calendar day of a file time; the nearest there is for an impossible one."""
        try:
            return date.fromtimestamp(epoch_ns / 1e9)
        except (OverflowError, ValueError, OSError):
            return date(1970, 1, 1) if epoch_ns < 0 else date.max

    def zone(self) -> str:
        """A name for the rules by which `day` tells days: equal for zones that tell the same ones.

        (Zones of one name and offset have had others, and what a zone is called depends on the
        system.)
        """
        offsets = [time.localtime(second).tm_gmtoff for second in range(0, 2**31, _MONTH)]
        return sha256(repr(offsets).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Progress:
    """Told how far a long operation is; the default tells nobody."""

    report: Callable[[str, int, int], None] = lambda stage, done, total: None


@dataclass(slots=True)
class Memory:
    """One vault in use. Owns the sidecar's connection; close it when done."""

    settings: Settings
    clock: Clock = field(default_factory=Clock)
    progress: Progress = field(default_factory=Progress)
    sidecar: Sidecar | None = None
    cache: EmbeddingCache | None = None  # embeddings.db, once it was needed
    embedders: dict[str, Embedder] = field(default_factory=dict)  # by what was asked for
    matrix: "tuple[str, Matrix] | None" = None  # what it is of, and the vectors last searched
    # Every file of the vault, and the state of the sidecar that it goes with (Sidecar.state).
    names: tuple[object, VaultNames] | None = None
    # How many changes in the vault were heard of; None where nobody listens, or not to all of it.
    marks: Callable[[], int | None] = lambda: None
    looked: tuple[int, float] | None = None  # marks and time of a look that left nothing to do
    waited: float = -inf  # when it was last waited in vain for a watcher
    unreachable: bool = False  # the vault was, when it was last looked at
    notices: list[str] = field(default_factory=list)  # to be said beside an answer
    faults: set[str] = field(default_factory=set)  # that making the sidecar anew did not mend

    @property
    def vault(self) -> Path:
        """The vault's folder."""
        return self.settings.vault

    @property
    def folder(self) -> Path:
        """The folder that holds this vault's sidecar."""
        return self.settings.sidecar_folder

    @property
    def obsidian(self) -> ObsidianSettings:
        """The vault's own Obsidian settings, as they are now."""
        return current_settings(self.vault, self.folder, self.settings["sidecar.journal"])

    @property
    def kind_rules(self) -> KindRules:
        """What tells a note's kind and day when it does not say so itself."""
        settings = self.settings
        return kind_rules(
            self.obsidian,
            settings["kinds.folders"],
            templates=settings["templates.folders"],
            templates_apart=settings["templates.count"] == "no",
            logs=settings["kinds.logs"],
            items=settings["items.kinds"],
        )

    @property
    def screen(self) -> Screen:
        """What is kept out of everything but the notes themselves.

        Where it cannot be read what is allowed, nothing is, and that is said.
        """
        folder = self.settings.state_folder
        try:
            allowed = read_allowed(folder)
        except StateUnavailable as error:
            notice = f"No secret counts as allowed: {error}"
            if notice not in self.notices:
                self.notices.append(notice)
            allowed = AllowedSecrets(b"", frozenset())
        return Screen(
            secrets=self.settings["secrets.scan"],
            allowed=allowed.fingerprints,
            key=Key(folder, allowed.key),
            switch=self.settings["private.property"].strip(),
        )

    @property
    def fingerprint(self) -> str:
        """The rules this program would build a sidecar by, today.

        Where the vault is away, and its settings with it, those that made the sidecar there is.
        """
        code = f"parser {PARSER_VERSION}; chunker {CHUNKER_VERSION}; "
        guards = (
            f"secrets {self.settings['secrets.scan']} {RULES_VERSION} {engine_name()}; "
            f"private {self.settings['private.property']}"
        )
        if is_bare(self.vault):
            with sidecar_errors(self.folder):
                last = stored_meta(self.folder, "fingerprint") or ""
            last = last.removeprefix(full_fingerprint(""))
            # (What keeps text out must be what it would be today.)
            if last.startswith(code) and last.endswith(guards):
                return last
        return (
            f"{code}max_pieces {self.settings['chunk.max_pieces']}; "
            f"{self.kind_rules.fingerprint}; {guards}"
        )

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Failures of the sidecar inside become vaultmem's own errors.

        What `lookup` reads inside is one state of the index, whatever other processes do.
        """
        with sidecar_errors(self.folder):
            try:
                yield
            finally:
                if self.sidecar is not None:
                    self.sidecar.end_reading()

    def open_sidecar(self) -> Sidecar | None:
        """The sidecar, when there is one made by today's rules."""
        if self.sidecar is not None and self.sidecar.connection.in_transaction:
            return self.sidecar  # what is read here is one state, whoever replaces it meanwhile
        if self.sidecar is not None and not self.sidecar.made_by(self.fingerprint):
            self.close_sidecar()
        if self.sidecar is None:
            wish = self.settings["sidecar.journal"]
            self.sidecar = open_existing(self.folder, self.fingerprint, journal=wish)
        return self.sidecar

    def open_sidecar_to_write(self) -> Sidecar | None:
        """`open_sidecar`; one that could only be read is opened anew: there may be room now."""
        sidecar = self.sidecar
        if sidecar is not None and sidecar.read_only and not sidecar.connection.in_transaction:
            self.close_sidecar()
        return self.open_sidecar()

    def open_cache(self, *, create: bool = False) -> EmbeddingCache | None:
        """The cache of embeddings; None when there is none and none is to be made."""
        if self.cache is not None and not self.cache.still_there():
            self.cache.close()
            self.cache = None
        if self.cache is None:
            wish = self.settings["sidecar.journal"]
            self.cache = open_cache(self.folder, create=create, journal=wish)
        return self.cache

    def settled_sidecar(self) -> Sidecar | None:
        """`open_sidecar`, after a moment where one is being put in another's place."""
        until = time.monotonic() + SWAP_SECONDS
        while True:
            replaced = is_made_aside(self.folder)  # asked first: it goes when the other comes
            sidecar = self.open_sidecar()
            if sidecar is not None or not replaced or time.monotonic() >= until:
                return sidecar
            time.sleep(0.01)

    def lookup(self) -> Lookup:
        """Questions to the sidecar, which must exist by now."""
        sidecar = self.open_sidecar()
        until = time.monotonic() + SWAP_SECONDS
        while sidecar is None and time.monotonic() < until:
            time.sleep(0.01)
            sidecar = self.open_sidecar()
        if sidecar is None:
            raise SidecarUnavailable(
                f"There is no index of {self.vault} yet. Run `vaultmem index`."
            )
        sidecar.begin_reading()
        return Lookup(sidecar)

    def close_sidecar(self) -> None:
        """Let go of the sidecar alone: it is made anew, or somebody else has done so."""
        sidecar, self.sidecar = self.sidecar, None  # first: it may fail, and is closed all the same
        if sidecar is not None:
            sidecar.close()

    def close(self) -> None:
        """Let go of the sidecar, the cache and the models."""
        for embedder in self.embedders.values():
            embedder.close()
        self.embedders.clear()
        self.matrix = None
        if self.cache is not None:
            self.cache.close()
            self.cache = None
        self.close_sidecar()


def open_memory(
    settings: Settings, *, clock: Clock | None = None, progress: Progress | None = None
) -> Memory:
    """An opened vault. Nothing is read or written until an operation asks for it."""
    return Memory(settings, clock or Clock(), progress or Progress())
