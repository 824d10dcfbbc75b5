"""The small vault that `selftest` makes, and a hand that edits it by chance."""

import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

# Always there, so that the vault is never empty.
ANCHOR = "Home.md"
_PLACES = (
    ANCHOR,
    "Kiln.md",
    "Glaze.md",
    "Log/Firing log.md",
    "Log/2026-03-04.md",
    "Log/Glaze.md",  # a namesake
    "People/Søren Ødegård.md",
    "People/Zoë.md",
    "Recipes/Clay body.md",
    "Recipes/Old/Celadon.md",
    "京都/窯元.md",
    "京都/Kiln.md",  # a namesake
    "Recipes/Board.canvas",
)
_MORE_PLACES = ("Wheel.md", "Inbox/New.md", "Inbox/Ünsorted.md", "Log/Old/Kiln.md", "Map.canvas")
_FOLDERS = ("Log", "People", "Recipes", "Recipes/Old", "京都", "Inbox", "Archive")
_ATTACHMENTS = ("pot.png", "Recipes/pot.png", "Log/plan.pdf")

_NAMES = ("Kiln", "Glaze", "Firing log", "Zoë", "窯元", "Clay", "nowhere", "Log/Glaze", "./Kiln")
_WORD_LINE = "ash bisque clay cone crackle draw fire foot glaze kiln pot reduce slip throw wheel"
_WORDS = _WORD_LINE.split()
QUERIES = ("kiln", '"the kiln"', "glaze clay", "tag:pots slip", "京都", "kind:decision", "søren")

# Whether nobody may rename or replace what another process has open.
_HELD_WHILE_OPEN = sys.platform == "win32"

_EXCLUDED = (None, "Log/Old/", "Recipes/Old/", "Archive/")


def _sentence(chance: random.Random) -> str:
    return f"Of {' '.join(chance.choices(_WORDS, k=9))} and the kiln."


def _section(chance: random.Random) -> str:
    return f"# {chance.choice(_WORDS).title()}\n\n" + "\n\n".join(
        " ".join(_sentence(chance) for _ in range(6)) for _ in range(chance.randrange(1, 5))
    )


def _links(chance: random.Random) -> str:
    one, two, three = chance.choices(_NAMES, k=3)
    return f"See [[{one}]], [[{two}|the other]], ![[pot.png]] and [[{three}#Glaze]]. #pots/raku"


def _items(chance: random.Random) -> str:
    return (
        f"decision:: {_sentence(chance)}\n\n> [!error] Fuse\n> {_sentence(chance)}\n\n"
        f"- a pot [[{chance.choice(_NAMES)}]] (due:: 2026-04-0{chance.randrange(1, 9)})"
    )


def _log(chance: random.Random) -> str:
    return f"## 2026-03-0{chance.randrange(1, 9)}\n\n{_sentence(chance)}\n\n京都の窯で焼いた器"


_PIECES: tuple[Callable[[random.Random], str], ...] = (_sentence, _section, _links, _items, _log)
_HEADS = (
    "",
    "",
    "---\naliases: [Clay, 京都]\ntags: [pots]\n---\n",
    "---\ntype: recipe\ndate: 2025-01-02\nrelated: '[[Kiln]]'\n---\n",
    "---\nbroken: [yaml\n---\n",
)


def note_text(chance: random.Random) -> str:
    """A note's text: properties, sections, links, tags, fields; some with broken properties."""
    pieces = [chance.choice(_PIECES)(chance) for _ in range(chance.randrange(1, 5))]
    return chance.choice(_HEADS) + "\n\n".join(pieces) + "\n"


def canvas_text(chance: random.Random) -> str:
    """A canvas with a card of text, two notes and an arrow."""
    nodes = [
        {"id": "1", "type": "text", "text": _section(chance)},
        {"id": "2", "type": "file", "file": chance.choice(_PLACES)},
        {"id": "3", "type": "file", "file": chance.choice(_PLACES), "subpath": "#Glaze"},
    ]
    edges = [{"id": "e", "fromNode": "2", "toNode": "3", "label": _sentence(chance)}]
    return json.dumps({"nodes": nodes, "edges": edges}, ensure_ascii=False)


def make_vault(vault: Path, chance: random.Random) -> None:
    """A dozen notes and canvases, an attachment, names in several scripts."""
    for place in _PLACES:
        file = vault / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_text_for(place, chance).encode())
    (vault / _ATTACHMENTS[0]).write_bytes(b"\x89PNG")


def _text_for(place: str, chance: random.Random) -> str:
    return canvas_text(chance) if place.endswith(".canvas") else note_text(chance)


class Hand:
    """Edits a vault as people, editors and file managers do; what, is left to chance.

    spare: a path on the same file system, outside the vault, for what is on its way.
    """

    def __init__(self, vault: Path, spare: Path, chance: random.Random) -> None:
        self._vault = vault
        self._spare = spare
        self._chance = chance
        self._edits: tuple[Callable[[], str], ...] = (
            *(self._write, self._append, self._shorten, self._delete, self._rename),
            *(self._rename_by_case, self._move_folder, self._swap, self._save_by_rename),
            *(self._edit_same_size, self._touch, self._attachment, self._exclude),
        )

    def edit(self, times: int) -> list[str]:
        """Do so many edits; a line for each."""
        done: list[str] = []
        while len(done) < times:
            try:
                told = self._chance.choice(self._edits)()
            except PermissionError:
                if not _HELD_WHILE_OPEN:
                    raise
                continue
            done += [told] if told else []
        return done

    def mark(self, number: int) -> tuple[str, str]:
        """Have one note say a word that no other says; its path and the word."""
        place = f"Marked/Note {number % 3}.md"
        word = "mark" + "".join(self._chance.choices("bdfgklmnprstvz", k=12))
        file = self._vault / place
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(f"# {word}\n\n{_sentence(self._chance)}\n".encode())
        return place, word

    # Each edit tells what it did; "" where something was in the way.

    def _notes(self) -> list[str]:
        return sorted(
            path.relative_to(self._vault).as_posix()
            for ending in ("*.md", "*.canvas")
            for path in self._vault.rglob(ending)
        )

    def _one(self) -> str:
        """A note that may go elsewhere."""
        return self._chance.choice([place for place in self._notes() if place != ANCHOR])

    def _free(self, like: str) -> str:
        """A place for a note; "" where there is one already."""
        ending = Path(like).suffix
        place = self._chance.choice([p for p in _PLACES + _MORE_PLACES if p.endswith(ending)])
        file = self._vault / place
        if os.path.lexists(file):
            return ""
        file.parent.mkdir(parents=True, exist_ok=True)
        return place

    def _write(self) -> str:
        place = self._chance.choice(_PLACES + _MORE_PLACES)
        file = self._vault / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_text_for(place, self._chance).encode())
        return f"write {place}"

    def _append(self) -> str:
        place = self._chance.choice(self._notes())
        with (self._vault / place).open("ab") as file:
            file.write(f"\n{self._chance.choice(_PIECES)(self._chance)}\n".encode())
        return f"append to {place}"

    def _shorten(self) -> str:
        place = self._chance.choice(self._notes())
        data = (self._vault / place).read_bytes()
        (self._vault / place).write_bytes(data[: len(data) * self._chance.randrange(10) // 10])
        return f"shorten {place}"

    def _delete(self) -> str:
        if len(self._notes()) < len(_PLACES) // 2:
            return ""
        place = self._one()
        (self._vault / place).unlink()
        return f"delete {place}"

    def _rename(self) -> str:
        old = self._one()
        new = self._free(old)
        if not new:
            return ""
        (self._vault / old).rename(self._vault / new)
        return f"rename {old} to {new}"

    def _rename_by_case(self) -> str:
        file = self._vault / self._one()
        other = file.with_name(file.stem.swapcase() + file.suffix)
        if other == file or (other.exists() and not other.samefile(file)):
            return ""
        file.rename(other)
        return f"rename {file.name} to {other.name}"

    def _move_folder(self) -> str:
        old, new = self._chance.sample(_FOLDERS, 2)
        if (
            not (self._vault / old).is_dir()
            or Path(new).is_relative_to(old)
            or os.path.lexists(self._vault / new)
        ):
            return ""
        (self._vault / new).parent.mkdir(parents=True, exist_ok=True)
        (self._vault / old).rename(self._vault / new)
        return f"move {old}/ to {new}/"

    def _swap(self) -> str:
        one, other = self._one(), self._one()
        if one == other:
            return ""
        (self._vault / one).replace(self._spare)
        (self._vault / other).rename(self._vault / one)
        self._spare.rename(self._vault / other)
        return f"swap {one} and {other}"

    def _save_by_rename(self) -> str:
        """As most editors save: another file takes the note's place."""
        place = self._chance.choice(self._notes())
        self._spare.write_bytes(_text_for(place, self._chance).encode())
        self._spare.replace(self._vault / place)
        return f"save {place} by renaming"

    def _edit_same_size(self) -> str:
        """Other words, as long; where the file system tells of it, with the old time put back."""
        place = self._chance.choice(self._notes())
        file = self._vault / place
        before = file.stat()
        file.write_bytes(file.read_bytes().translate(bytes.maketrans(b"aeiou", b"eioua")))
        if sys.platform != "win32":  # there it has no time of the last change of state
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        return f"change letters in {place}"

    def _touch(self) -> str:
        place = self._chance.choice(self._notes())
        day = self._chance.choice((400, 11_000, 20_000, 30_000))  # since 1970; up to 2052
        os.utime(self._vault / place, (day * 86_400,) * 2)
        return f"touch {place}"

    def _attachment(self) -> str:
        """A file that takes a name away from others, or gives it back."""
        place = self._chance.choice(_ATTACHMENTS)
        file = self._vault / place
        if file.exists():
            file.unlink()
            return f"delete {place}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"\x89PNG")
        return f"add {place}"

    def _exclude(self) -> str:
        """Obsidian's own setting of what to leave out, as it is saved there: all at once."""
        folder = self._chance.choice(_EXCLUDED)
        settings = {"userIgnoreFilters": [folder]} if folder else {}
        (self._vault / ".obsidian").mkdir(exist_ok=True)
        self._spare.write_text(json.dumps(settings), "utf-8")
        self._spare.replace(self._vault / ".obsidian" / "app.json")
        return f"exclude {folder}" if folder else "exclude nothing"


def seen(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything in a folder: path -> bytes, and what its file says but the time of reading."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted((folder, *folder.rglob("*"))):
        state = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        found[path.relative_to(folder).as_posix()] = (data, state.st_mode, state.st_mtime_ns)
    return found


def remove(folder: Path) -> None:
    """Remove a folder with everything in it, if it is there."""
    shutil.rmtree(folder, ignore_errors=True)


def copy(folder: Path, to: Path) -> None:
    """Copy a folder, in place of what is there; nothing, where it is not there."""
    remove(to)
    if folder.exists():
        shutil.copytree(folder, to)


def names(folder: Path) -> Sequence[str]:
    """What files and folders a folder holds, at any depth."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
