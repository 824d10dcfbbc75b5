"""Every exception vaultmem raises on purpose, with its exit code and HTTP status.

    VaultmemError
    ├── UsageError            the request itself makes no sense
    ├── SettingsInvalid       a settings file or variable holds something unusable
    ├── VaultNotFound         no such folder, or not a folder
    ├── VaultEmpty            a folder without a single note
    ├── VaultUnreadable       the folder is there and cannot be listed
    ├── NoteNotFound          no note at that path or of that name
    ├── NoteAmbiguous         several notes of that name
    ├── Refused               a path that leads out of the vault, or into a hidden folder
    ├── SidecarUnavailable    the cache folder cannot be used
    ├── SidecarBusy           another process is indexing
    ├── SidecarDamaged        the sidecar is not what vaultmem wrote
    ├── DiskFull              no room for the sidecar
    ├── OutputFailed          the answer could not be written to where it goes
    ├── EmbedderUnavailable   the embedding model, or the server that runs it, cannot be used
    └── StateUnavailable      the folder of the user's own decisions cannot be used

Expected outcomes are values (`Note.problems`, `Hit.weak`); these are for broken promises and
broken machines. A message names the thing, says what was found and what to do next.
"""

from typing import ClassVar


class VaultmemError(Exception):
    """The root: catching it catches every failure vaultmem foresees."""

    exit_code: ClassVar[int] = 70
    http_status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"


class UsageError(VaultmemError):
    """The request makes no sense: an empty query, a number out of range, a bad date."""

    exit_code = 2
    http_status = 400
    code = "usage"


class SettingsInvalid(VaultmemError):
    """A settings file or an environment variable holds something that cannot be used."""

    exit_code = 3
    http_status = 500
    code = "settings-invalid"


class VaultNotFound(VaultmemError):
    """The vault's folder does not exist, or is a file."""

    exit_code = 4
    http_status = 404
    code = "vault-not-found"


class VaultEmpty(VaultmemError):
    """The folder holds no note; what an earlier index knows is kept."""

    exit_code = 5
    http_status = 404
    code = "vault-empty"


class VaultUnreadable(VaultmemError):
    """The folder exists and cannot be listed; what an earlier index knows is kept."""

    exit_code = 6
    http_status = 503
    code = "vault-unreadable"


class NoteNotFound(VaultmemError):
    """No note at that path or of that name."""

    exit_code = 7
    http_status = 404
    code = "note-not-found"


class NoteAmbiguous(VaultmemError):
    """Several notes answer to that name; the message lists them."""

    exit_code = 8
    http_status = 409
    code = "note-ambiguous"


class Refused(VaultmemError):
    """The request would leave the vault or enter a hidden folder."""

    exit_code = 9
    http_status = 403
    code = "refused"


class SidecarUnavailable(VaultmemError):
    """The cache folder cannot be created or written."""

    exit_code = 10
    http_status = 503
    code = "sidecar-unavailable"


class SidecarBusy(VaultmemError):
    """Another process holds the sidecar's writer lock."""

    exit_code = 11
    http_status = 503
    code = "sidecar-busy"


class SidecarDamaged(VaultmemError):
    """The sidecar's bytes are not those vaultmem wrote."""

    exit_code = 12
    http_status = 500
    code = "sidecar-damaged"


class DiskFull(VaultmemError):
    """No room left where the sidecar lies; nothing half-written remains."""

    exit_code = 13
    http_status = 507
    code = "disk-full"


class OutputFailed(VaultmemError):
    """The answer could not be written to standard output."""

    exit_code = 14
    http_status = 500
    code = "output-failed"


class EmbedderUnavailable(VaultmemError):
    """The embedding model or its server cannot be used; search by words goes on."""

    exit_code = 15
    http_status = 503
    code = "embedder-unavailable"


class StateUnavailable(VaultmemError):
    """The folder that keeps a person's decisions cannot be read or written."""

    exit_code = 16
    http_status = 503
    code = "state-unavailable"


class QuestionRefused(EmbedderUnavailable):
    """The model has no vector for this one question; others it answers."""


def all_errors() -> tuple[type[VaultmemError], ...]:
    """Every error kind, by exit code: the source of the help text and of docs/exit-codes.md."""
    return tuple(sorted(VaultmemError.__subclasses__(), key=lambda kind: kind.exit_code))
