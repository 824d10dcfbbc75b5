"""Settings: flag, then environment, then `.vaultmem/config.toml` in the vault, then default."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from vaultmem.model.errors import SettingsInvalid, VaultNotFound
from vaultmem.vault.paths import vault_path
from vaultmem.vault.read import read_file

CONFIG_PATH = ".vaultmem/config.toml"
CONFIG_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its key in config.toml, its type, its default and what it does."""

    key: str
    kind: type
    default: object
    about: str
    least: int | None = None
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The environment variable that overrides it."""
        return "VAULTMEM_" + self.key.upper().replace(".", "_")


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "scan.max_note_bytes",
        int,
        16 * 1024 * 1024,
        "A larger note is reported and not indexed.",
        1,
    ),
    Setting(
        "scan.ignore",
        list,
        (),
        "Globs of notes to leave out of search, besides Obsidian's own excluded files.",
    ),
    Setting(
        "chunk.max_pieces",
        int,
        180,
        "Estimated word pieces of a passage, its headings included.",
        40,
    ),
    Setting(
        "secrets.scan",
        str,
        "mask",
        "What happens to credentials in notes: mask (a placeholder is indexed and shown instead), "
        "report (they stay), off.",
        choices=("mask", "report", "off"),
    ),
    Setting(
        "private.property",
        str,
        "private",
        "A note where this property is true is known by its name only; empty for no such property.",
    ),
    Setting("search.limit", int, 10, "Hits shown when no number is asked for.", 1),
    Setting(
        "search.refresh",
        str,
        "auto",
        "Take in changed notes before searching: auto (while looking for them is quick), always, "
        "never.",
        choices=("auto", "always", "never"),
    ),
    Setting(
        "search.fusion",
        str,
        "sum",
        "How words and meaning are put together: sum (of scores), rrf (of reciprocal ranks).",
        choices=("sum", "rrf"),
    ),
    Setting(
        "embedder.name",
        str,
        "auto",
        "What makes vectors: auto (built-in, or multilingual if installed and the vault is mostly "
        "not English), minilm, multilingual, ollama, none.",
        choices=("auto", "minilm", "multilingual", "ollama", "none"),
    ),
    Setting("embedder.model_path", str, "", "A copy of the built-in model's file to use instead."),
    Setting("embedder.model", str, "nomic-embed-text", "The model of the Ollama server."),
    Setting(
        "embedder.host",
        str,
        "",
        "The Ollama server; empty for OLLAMA_HOST or http://127.0.0.1:11434.",
    ),
    Setting(
        "embedder.dimension",
        int,
        0,
        "Shorter vectors, for models that can; 0 for the model's own.",
        0,
    ),
    Setting("embedder.keep_alive", str, "", "How long Ollama keeps the model loaded, such as 10m."),
    Setting("embedder.timeout", int, 120, "Seconds to wait for one answer of the server.", 1),
    Setting(
        "embedder.query_prefix", str, "auto", "Put before questions; auto for the model's own."
    ),
    Setting(
        "embedder.document_prefix", str, "auto", "Put before passages; auto for the model's own."
    ),
    Setting(
        "kinds.folders",
        dict,
        {},
        "Folder -> kind of the notes in it; a note's own `type` property wins.",
    ),
    Setting(
        "kinds.logs",
        list,
        ("changelog", "journal", "log"),
        "Kinds of notes whose dated entries are found as episodes, however few they are.",
    ),
    Setting(
        "items.kinds",
        list,
        ("decision", "error", "lesson", "memory"),
        "Fields (`decision:: …`) and callouts (`[!decision]`) of these names are items, found by "
        "kind and date.",
    ),
    Setting(
        "templates.folders",
        list,
        (),
        "Folders of templates, besides the one in Obsidian's own settings.",
    ),
    Setting(
        "sidecar.journal",
        str,
        "auto",
        "How SQLite keeps the sidecar whole: wal (a write-ahead log, for a local disk alone), "
        "delete (a rollback journal), auto (wal where that is safe).",
        choices=("auto", "wal", "delete"),
    ),
    Setting(
        "templates.count",
        str,
        "no",
        "Whether tags and links of templates count among those of the notes: no, yes.",
        choices=("no", "yes"),
    ),
)


@dataclass(frozen=True, slots=True)
class Value:
    """A setting's value and where it comes from."""

    value: Any
    source: str  # "default", "config.toml", "environment"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a run is governed by."""

    vault: Path  # absolute, links resolved
    vault_source: str  # "flag", "environment", "found"
    sidecar_folder: Path  # this vault's own folder
    sidecar_source: str  # "flag", "environment", "default"
    state_folder: Path  # what is the person's own and cannot be made again, outside the vault
    values: Mapping[str, Value]

    def __getitem__(self, key: str) -> Any:
        return self.values[key].value


def load_settings(
    vault: str | Path | None = None,
    cache_dir: str | Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    working_folder: Path | None = None,
) -> Settings:
    """Find the vault and read its settings.

    Raises VaultNotFound and SettingsInvalid.
    """
    environment = os.environ if environment is None else environment
    folder, vault_source = find_vault(vault, environment, working_folder)
    sidecar_folder, source = find_sidecar_folder(folder, cache_dir, environment)
    return Settings(
        vault=folder,
        vault_source=vault_source,
        sidecar_folder=sidecar_folder,
        sidecar_source=source,
        state_folder=find_state_folder(folder, environment),
        values=_values(folder, environment),
    )


def find_vault(
    given: str | Path | None, environment: Mapping[str, str], working_folder: Path | None
) -> tuple[Path, str]:
    """The vault's folder, and who named it: as given, by VAULTMEM_VAULT, or the nearest above."""
    source = "flag"
    if given is None and environment.get("VAULTMEM_VAULT"):
        given, source = environment["VAULTMEM_VAULT"], "environment"
    if given == "":
        raise VaultNotFound("--vault is empty. Name the vault's folder.")
    if given is not None:
        path = Path(given).expanduser()
        try:
            resolved = path.resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            raise VaultNotFound(
                f"There is no folder {path}. Name the vault's folder with --vault."
            ) from None
        if not resolved.is_dir():
            raise VaultNotFound(
                f"{path} is a file, not a folder. Name the folder that holds the notes."
            )
        return resolved, source
    try:
        here = (working_folder or Path.cwd()).resolve()
    except OSError:
        raise VaultNotFound(
            "The working folder is gone. Name the vault with --vault or VAULTMEM_VAULT."
        ) from None
    for folder in (here, *here.parents):
        if (folder / ".obsidian").is_dir() or (folder / ".vaultmem").is_dir():
            return folder, "found"
    raise VaultNotFound(
        "No vault given. Use --vault PATH, set VAULTMEM_VAULT, or run inside a folder that holds "
        ".obsidian or .vaultmem."
    )


def find_sidecar_folder(
    vault: Path, given: str | Path | None, environment: Mapping[str, str]
) -> tuple[Path, str]:
    """This vault's folder for the sidecar, and who chose the place."""
    if given is not None:
        base, source = Path(given).expanduser(), "flag"
    elif environment.get("VAULTMEM_CACHE_DIR"):
        base, source = Path(environment["VAULTMEM_CACHE_DIR"]).expanduser(), "environment"
    else:
        from platformdirs import user_cache_path

        base, source = user_cache_path("vaultmem", appauthor=False), "default"
    return Path(os.path.abspath(base)) / _folder_name(vault), source


def find_state_folder(vault: Path, environment: Mapping[str, str]) -> Path:
    """This vault's folder for what a person decided and no note says."""
    if environment.get("VAULTMEM_STATE_DIR"):
        base = Path(environment["VAULTMEM_STATE_DIR"]).expanduser()
    else:
        from platformdirs import user_state_path

        base = user_state_path("vaultmem", appauthor=False)
    return Path(os.path.abspath(base)) / _folder_name(vault)


def _folder_name(vault: Path) -> str:
    """A name that tells a person which vault it is of, and is no other vault's."""
    digest = sha256(os.fsencode(vault)).hexdigest()[:12]
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in vault.name)[:40] or "vault"
    return f"{name}-{digest}"


def _values(vault: Path, environment: Mapping[str, str]) -> dict[str, Value]:
    config = _read_config(vault)
    values: dict[str, Value] = {}
    for setting in SETTINGS:
        value, source = setting.default, "default"
        section, _, name = setting.key.partition(".")
        table = config.get(section)
        if isinstance(table, dict) and name in table:
            value, source = table[name], "config.toml"
        raw = environment.get(setting.variable)
        if raw is not None:
            value, source = _from_text(setting, raw), "environment"
        values[setting.key] = Value(_checked(setting, value, source), source)
    return values


def _read_config(vault: Path) -> dict[str, Any]:
    answer = read_file(vault, CONFIG_PATH, limit=CONFIG_BYTES)
    if not isinstance(answer, bytes):
        if answer.code == "missing" or not os.access(vault, os.R_OK | os.X_OK):
            return {}  # a vault that cannot be listed is reported as that, by the walk
        raise SettingsInvalid(f"{CONFIG_PATH}: {answer.message}")
    try:
        config = tomllib.loads(answer.decode("utf-8-sig"))
    except RecursionError:
        raise SettingsInvalid(
            f"{CONFIG_PATH} nests too deep to be settings. Mend it or remove it."
        ) from None
    except ValueError as error:  # TOMLDecodeError, UnicodeDecodeError, a number without end
        raise SettingsInvalid(
            f"{CONFIG_PATH} is not valid TOML: {error}. Mend it or remove it."
        ) from None
    known = {setting.key for setting in SETTINGS}
    for section, table in config.items():
        names = [f"{section}.{name}" for name in table] if isinstance(table, dict) else [section]
        for name in names:
            if name not in known:
                raise SettingsInvalid(
                    f"{CONFIG_PATH} sets {name}, which is no setting. `vaultmem config` lists them."
                )
    return config


def _from_text(setting: Setting, raw: str) -> object:
    if setting.kind is int:
        try:
            return int(raw)
        except ValueError:
            raise SettingsInvalid(
                f"{setting.variable} is {raw!r}; a whole number is needed."
            ) from None
    if setting.kind is list:
        return [part.strip() for part in raw.split(",") if part.strip()]
    if setting.kind is dict:
        pairs = [part.partition("=") for part in raw.split(",") if part.strip()]
        return {key.strip(): value.strip() for key, _, value in pairs}
    return raw


def _checked(setting: Setting, value: object, source: str) -> object:
    where = setting.variable if source == "environment" else f"{CONFIG_PATH}, {setting.key}"
    if setting.kind is int:
        if not isinstance(value, int) or isinstance(value, bool) or value < (setting.least or 0):
            raise SettingsInvalid(
                f"{where} is {value!r}; a whole number of at least {setting.least or 0} is needed."
            )
        return value
    if setting.kind is list:
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            raise SettingsInvalid(f"{where} is {value!r}; a list of texts is needed.")
        return tuple(value)
    if setting.kind is dict:
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
            raise SettingsInvalid(f"{where} is {value!r}; a table of texts is needed.")
        return {vault_path(key): kind.lower() for key, kind in value.items()}
    if setting.choices and value not in setting.choices:
        *others, last = setting.choices
        raise SettingsInvalid(f"{where} is {value!r}; {', '.join(others)} or {last} is needed.")
    if not isinstance(value, str):
        raise SettingsInvalid(f"{where} is {value!r}; a text is needed.")
    return value
