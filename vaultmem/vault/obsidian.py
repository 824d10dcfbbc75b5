"""The vault's own Obsidian settings, as far as they say what a note is. Read, never written.

Every file may be missing, and unknown keys are ignored. The settings folder is `.obsidian` unless
the person has given it another name.
"""

import json
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from vaultmem.model.note import Problem
from vaultmem.vault.paths import is_hidden, vault_path
from vaultmem.vault.read import OBSIDIAN_FILE_BYTES, hidden_folders, read_file

USUAL_FOLDER = ".obsidian"
DAILY_FORMAT = "YYYY-MM-DD"

# A renamed settings folder is known by its files; no other program keeps these two together.
_MARKS = ("app.json", "core-plugins.json")
_FILES = frozenset((*_MARKS, "daily-notes.json", "templates.json"))


class LinkFormat(StrEnum):
    """How links spell their target: Obsidian's setting `newLinkFormat`."""

    SHORTEST = "shortest"  # the file's name while that is the only one, else the path
    RELATIVE = "relative"  # seen from the note
    ABSOLUTE = "absolute"  # the vault path


@dataclass(frozen=True, slots=True)
class ObsidianSettings:
    """What a vault's settings say. Folders are vault paths, "" for the vault's root."""

    folder: str  # the settings folder's own name
    excluded: tuple[str, ...] = ()  # "Excluded files": path prefixes and /expressions/
    attachment_folder: str = ""  # where new attachments go; "./x" is seen from the note
    link_format: LinkFormat = LinkFormat.SHORTEST
    markdown_links: bool = False  # whether new links are written as Markdown's
    daily_folder: str = ""
    daily_format: str = DAILY_FORMAT  # Moment's; may hold folders
    daily_template: str = ""  # the note that daily notes begin as, without ending
    template_folder: str | None = None
    read: frozenset[str] = frozenset()  # paths of the files that these come from
    problems: tuple[Problem, ...] = ()


def read_obsidian(vault: Path) -> ObsidianSettings:
    """The settings of a vault, with a problem for each file that cannot be understood."""
    folder = _settings_folder(vault)
    problems: list[Problem] = []
    read: set[str] = set()

    def file(name: str, loss: str) -> dict[str, object]:
        path = f"{folder}/{name}"
        settings = _read(vault, path, loss, problems)
        if settings is not None:
            read.add(path)
        return settings or {}

    app = file("app.json", "its excluded files are not honoured")
    daily = file("daily-notes.json", "daily notes are told by their names alone")
    templates = file("templates.json", "no folder of templates is known")
    filters = app.get("userIgnoreFilters")
    template_folder = vault_path(_text(templates, "folder"))
    written = _text(app, "newLinkFormat")
    return ObsidianSettings(
        folder=folder,
        excluded=tuple(_whole(entry) for entry in filters if isinstance(entry, str) and entry)
        if isinstance(filters, list)
        else (),
        attachment_folder=_attachment_folder(_text(app, "attachmentFolderPath")),
        link_format=LinkFormat(written) if written in set(LinkFormat) else LinkFormat.SHORTEST,
        markdown_links=app.get("useMarkdownLinks") is True,
        daily_folder=vault_path(_text(daily, "folder")),
        daily_format=_format(_text(daily, "format")),
        daily_template=vault_path(_text(daily, "template")),
        # A hidden one holds no notes that anybody sees.
        template_folder=template_folder
        if template_folder and not is_hidden(template_folder)
        else None,
        read=frozenset(read),
        problems=tuple(problems),
    )


def is_settings_file(path: str) -> bool:
    """Whether a vault's settings may come from a file, or do so from now on.

    path: below the vault.
    """
    folder, _, name = path.rpartition("/")
    return folder.startswith(".") and "/" not in folder and name in _FILES


def _settings_folder(vault: Path) -> str:
    folders = hidden_folders(vault)
    for folder in sorted(folders, key=lambda folder: folder != USUAL_FOLDER):
        found = [read_file(vault, f"{folder}/{name}", limit=OBSIDIAN_FILE_BYTES) for name in _MARKS]
        there = [isinstance(data, bytes) for data in found]
        # The usual name needs one mark, so that an emptied folder hides no renamed one.
        if all(there) or (folder == USUAL_FOLDER and any(there)):
            return folder
    return USUAL_FOLDER


def _read(vault: Path, path: str, loss: str, problems: list[Problem]) -> dict[str, object] | None:
    """One settings file; None if there is none that can be used, and a problem if there is one.

    loss: what follows from that.
    """
    name = path.rpartition("/")[2]
    answer = read_file(vault, path, limit=OBSIDIAN_FILE_BYTES)
    if not isinstance(answer, bytes):
        if answer.code != "missing":
            message = f"Obsidian's {name} cannot be used, so {loss}: {answer.message}"
            problems.append(Problem(path, 0, "obsidian-settings-unread", message))
        return None
    try:
        loaded = json.loads(answer.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        message = f"Obsidian's {name} is not readable JSON; {loss}."
        problems.append(Problem(path, 0, "obsidian-settings-invalid", message))
        return None
    return loaded if isinstance(loaded, dict) else {}


def _text(settings: dict[str, object], key: str) -> str:
    value = settings.get(key)
    return _whole(value) if isinstance(value, str) else ""


def _whole(text: str) -> str:
    """Without halves of characters, which JSON can name and no file or message can hold."""
    return text.encode("utf-8", "replace").decode()


def _format(written: str) -> str:
    return unicodedata.normalize("NFC", written).strip(" /") or DAILY_FORMAT


def _attachment_folder(written: str) -> str:
    """`/` and "" are the root; `./` and `./sub` stay, for they are seen from the note."""
    if written == "." or written.startswith("./"):
        return "./" + vault_path(written[2:])
    return vault_path(written)
