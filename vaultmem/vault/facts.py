"""Facts about a note that follow from its text and place: kind, date, identity, stub."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from vaultmem.model.note import Field, Note
from vaultmem.vault.daily import DayPattern, day_pattern
from vaultmem.vault.obsidian import DAILY_FORMAT, ObsidianSettings
from vaultmem.vault.paths import fold, is_canvas, is_note, vault_path

# Fewer words than this, and a note is a stub: marked as such, and ranked as it deserves.
STUB_WORDS = 12

_DAY = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
_DATE_KEYS = (
    *("date", "created", "created_at", "created-at", "createdat"),
    *("creation date", "creation-date", "date created", "date-created", "date_created"),
)
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_KIND = re.compile(r"[^\n,;]{1,40}")


@dataclass(frozen=True, slots=True)
class KindRules:
    """What tells a note's kind and day when it does not say so itself, and what items it holds."""

    folders: Mapping[str, str]  # folder -> kind
    templates: tuple[str, ...] = ()  # folders of templates, and single notes that are one
    templates_apart: bool = True  # their tags and links do not count
    daily_folder: str = ""
    daily_format: str = DAILY_FORMAT  # Moment's, of the path below that folder
    logs: tuple[str, ...] = ()  # kinds of notes whose dated entries are episodes
    items: tuple[str, ...] = ()  # names of fields and callouts that make items

    @property
    def fingerprint(self) -> str:
        """Rules that stored rows depend on, as one text."""
        folders = ",".join(f"{folder}={kind}" for folder, kind in sorted(self.folders.items()))
        return (
            f"kinds {folders}; templates {self.templates} {self.templates_apart}; "
            f"daily {self.daily_folder!r} {self.daily_format!r}; logs {self.logs}; "
            f"items {self.items}"
        )

    def is_template(self, path: str) -> bool:
        """Whether other notes are made from the note at `path`."""
        if not self.templates:
            return False
        folded = fold(path)
        return any(folded == t or folded.startswith(t + "/") for t in map(fold, self.templates))

    def daily_note(self, path: str) -> date | None:
        """The day whose daily note stands at `path`, by Obsidian's folder and format."""
        folder = self.daily_folder + "/" if self.daily_folder else ""
        if (folder and not fold(path).startswith(fold(folder))) or not is_note(path):
            return None
        pattern = _daily_pattern(self.daily_format)
        return pattern.day(path[len(folder) : -3]) if pattern is not None else None


@lru_cache(maxsize=8)
def _folded(folders: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return {fold(vault_path(folder)): kind for folder, kind in folders}


@lru_cache(maxsize=8)
def _daily_pattern(daily_format: str) -> DayPattern | None:
    return day_pattern(daily_format)


def kind_rules(
    obsidian: ObsidianSettings,
    folders: Mapping[str, str],
    *,
    templates: Iterable[str] = (),
    templates_apart: bool = True,
    logs: Iterable[str] = (),
    items: Iterable[str] = (),
) -> KindRules:
    """The rules of the settings and of the vault's own Obsidian configuration.

    templates: folders besides the one that Obsidian names.
    """
    found = [vault_path(folder) for folder in templates]
    if obsidian.template_folder:
        found.append(obsidian.template_folder)
    if obsidian.daily_template:
        daily = obsidian.daily_template
        found.append(daily if is_note(daily) else daily + ".md")
    return KindRules(
        dict(folders),
        tuple(sorted({folder for folder in found if folder})),
        templates_apart,
        obsidian.daily_folder,
        obsidian.daily_format,
        tuple(sorted({kind.lower() for kind in logs})),
        tuple(sorted({kind.lower() for kind in items})),
    )


def note_kind(note: Note, rules: KindRules) -> str:
    """The note's `type`, else the kind of its folder, else canvas, daily or note.

    What stands in a template folder is a template: its `type` is that of the notes made from it.
    """
    if rules.is_template(note.path):
        return "template"
    stated = _stated_kind(note)
    if stated:
        return stated
    if rules.folders:
        folders = _folded(tuple(rules.folders.items()))
        parents = fold(note.path).split("/")[:-1]
        for depth in range(len(parents), 0, -1):
            named = folders.get("/".join(parents[:depth]))
            if named:
                return named
    if is_canvas(note.path):
        return "canvas"
    daily = _DAY.fullmatch(note.name) or rules.daily_note(note.path) is not None
    return "daily" if daily else "note"


def _stated_kind(note: Note) -> str:
    """The kind that the note gives itself: by its frontmatter, else by a field in its text."""
    values: list[object] = []
    for key, value in note.frontmatter.properties.items():
        if key.lower() == "type":
            values += value if isinstance(value, list) else [value]
    values += [field.value for field in _own_fields(note) if field.key.lower() == "type"]
    for value in values:
        kind = " ".join(value.strip("[] ").split()).lower() if isinstance(value, str) else ""
        if _KIND.fullmatch(kind):
            return kind
    return ""


def note_date(note: Note, rules: KindRules | None = None) -> date | None:
    """The day a note is about: a date property, else its name; None where neither says one.

    Such a note has the day on which its file was modified.
    """
    properties = {key.lower(): value for key, value in note.frontmatter.properties.items()}
    for field in _own_fields(note):
        properties.setdefault(field.key.lower(), field.value)
    for key in _DATE_KEYS:
        found = day_in(properties.get(key))
        if found is not None:
            return found
    daily = rules.daily_note(note.path) if rules is not None else None
    return daily or day_in(note.name)


def _own_fields(note: Note) -> list[Field]:
    """Fields that speak of the whole note; one on a card of a canvas speaks of that card.

    What is given in several places speaks of each of them.
    """
    if is_canvas(note.path):
        return []
    given = Counter(field.key.lower() for field in note.fields if field.alone)
    return [field for field in note.fields if field.alone and given[field.key.lower()] == 1]


def day_in(value: object) -> date | None:
    """The first ISO day in a text; None for anything else, and for a day that there is not."""
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
    text = "\n".join([note.text[start : min(end, start + 4000)] for start, end in note.parts[:100]])
    lines = [line for line in text.split("\n") if not _HEADING.match(line)]
    words = 0
    for line in lines:
        words += len(line.split())
        if words >= STUB_WORDS:
            return False
    # Scripts without blanks: a line of text is one "word" there.
    return sum(len(line.strip()) for line in lines) < STUB_WORDS * 6
