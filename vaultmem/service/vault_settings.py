"""A vault's Obsidian settings, and what they last said where a file cannot be read just now.

Obsidian writes its settings in place, and a sync client may leave half a file. What such a file
kept out of search must not be let in by that, nor the index be made anew under other rules.
"""

import json
from dataclasses import asdict, fields, replace
from pathlib import Path

from vaultmem.embedding.journal_mode import Wish
from vaultmem.index.store import Sidecar, sidecar_errors, stored_meta
from vaultmem.vault.obsidian import LinkFormat, ObsidianSettings, read_obsidian

_KEY = "obsidian"

# Which of the settings stand in which file.
_FILES = {
    "app.json": ("excluded", "attachment_folder", "link_format", "markdown_links"),
    "daily-notes.json": ("daily_folder", "daily_format", "daily_template"),
    "templates.json": ("template_folder",),
}


def current_settings(vault: Path, folder: Path, journal: Wish = "auto") -> ObsidianSettings:
    """The settings of a vault.

    folder:  of its sidecar, which remembers those of the last run.
    journal: the setting sidecar.journal.

    Raises SidecarBusy and SidecarUnavailable when what they last said is asked for in vain.
    """
    now = read_obsidian(vault)
    broken = [problem.path.rpartition("/")[2] for problem in now.problems]
    if not broken:
        return now
    with sidecar_errors(folder):
        last = _load(stored_meta(folder, _KEY, journal=journal))
    if last is None:
        return now
    kept = {name: getattr(last, name) for file in broken for name in _FILES.get(file, ())}
    problems = tuple(
        replace(
            problem,
            message=f"Obsidian's {file} cannot be read just now; what it said last still holds.",
        )
        for problem, file in zip(now.problems, broken, strict=True)
    )
    # They come from these files all the same.
    read = now.read | {f"{now.folder}/{file}" for file in broken if file in _FILES}
    return replace(now, **kept, read=read, problems=problems)


def remember_settings(sidecar: Sidecar, settings: ObsidianSettings) -> None:
    """Keep the settings that a run goes by. Hold the writer lock."""
    values = {k: v for k, v in asdict(settings).items() if k not in ("read", "problems")}
    text = json.dumps(values, ensure_ascii=False, sort_keys=True)
    if sidecar.meta(_KEY) != text:
        with sidecar.transaction():
            sidecar.set_meta(_KEY, text)


def _load(text: str | None) -> ObsidianSettings | None:
    names = {field.name for field in fields(ObsidianSettings)} - {"read", "problems"}
    try:
        values = json.loads(text or "")
        if not isinstance(values, dict) or set(values) != names:
            return None
        values["excluded"] = tuple(values["excluded"])
        values["link_format"] = LinkFormat(values["link_format"])
    except (TypeError, ValueError):
        return None
    return ObsidianSettings(**values)
