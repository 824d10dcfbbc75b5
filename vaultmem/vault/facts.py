"""Facts about a note that follow from its text and place: kind, date, identity, stub."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from vaultmem.model.note import Note
from vaultmem.vault.paths import is_hidden, vault_path
from vaultmem.vault.read import OBSIDIAN_FILE_BYTES, read_file

# Fewer words than this, and a note is a stub: marked as such, and ranked as it deserves.
STUB_WORDS = 12

_DAY = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
_DATE_KEYS = ("date", "created", "created_at", "created-at", "creation date")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_KIND = re.compile(r"[^\s,;]{1,40}")


@dataclass(frozen=True, slots=True)
class KindRules:
    """What tells a note's kind when it does not say so itself."""

    folders: Mapping[str, str]  # folder -> kind
    templates: str | None  # Obsidian's template folder

    @property
    def fingerprint(self) -> str:
        """Rules that stored rows depend on, as one text."""
        folders = ",".join(f"{folder}={kind}" for folder, kind in sorted(self.folders.items()))
        return f"kinds {folders}; templates {self.templates}"


def load_kind_rules(vault: Path, folders: Mapping[str, str]) -> KindRules:
    """The rules of the settings and of the vault's own Obsidian configuration."""
    answer = read_file(vault, ".obsidian/templates.json", limit=OBSIDIAN_FILE_BYTES)
    folder: object = None
    if isinstance(answer, bytes):
        try:
            loaded = json.loads(answer.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            loaded = None  # a convenience only: an unreadable file means no template folder
        folder = loaded.get("folder") if isinstance(loaded, dict) else None
    templates = vault_path(folder) if isinstance(folder, str) else ""
    usable = templates and not is_hidden(templates)
    return KindRules(dict(folders), templates if usable else None)


def note_kind(note: Note, rules: KindRules) -> str:
    """The note's `type`, else the kind of its folder, else template, daily or note."""
    stated = note.frontmatter.properties.get("type")
    if isinstance(stated, str) and _KIND.fullmatch(stated.strip()):
        kind = stated.strip().lower()
    else:
        kind = ""
    if rules.templates and note.path.startswith(rules.templates + "/"):
        return "template"  # whatever the notes made from it will say they are
    if kind:
        return kind
    parents = note.path.split("/")[:-1]
    for depth in range(len(parents), 0, -1):
        named = rules.folders.get("/".join(parents[:depth]))
        if named:
            return named
    return "daily" if _DAY.fullmatch(note.name) else "note"


def note_date(note: Note, modified: date) -> date:
    """The day a note is about: a date property, else its name, else when the file was modified."""
    properties = {key.lower(): value for key, value in note.frontmatter.properties.items()}
    for key in _DATE_KEYS:
        found = _day_in(properties.get(key))
        if found is not None:
            return found
    return _day_in(note.name) or modified


def _day_in(value: object) -> date | None:
    match = _DAY.search(value) if isinstance(value, str) else None
    if match is None:
        return None
    try:
        return date(*map(int, match.groups()))
    except ValueError:
        return None


def note_identity(note: Note) -> str | None:
    """The frontmatter `id`, which outlives a change of path and text."""
    value = note.frontmatter.properties.get("id")
    if isinstance(value, str) and value.strip():
        return value.strip()[:200]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def is_stub(note: Note) -> bool:
    """Whether a note has next to no text of its own, headings left out."""
    # Far more than a stub has; the rest of a long note need not be looked at.
    text = note.text[note.frontmatter.end : note.frontmatter.end + 4000]
    lines = [line for line in text.split("\n") if not _HEADING.match(line)]
    words = 0
    for line in lines:
        words += len(line.split())
        if words >= STUB_WORDS:
            return False
    # Scripts without blanks: a line of text is one "word" there.
    return sum(len(line.strip()) for line in lines) < STUB_WORDS * 6
