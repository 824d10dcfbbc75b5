"""How editors and sync clients save a note: six ways, each in steps.

A step ends where another process may look at the disk: what is there then is what it sees. Each
way is a generator that does one step whenever it is asked for the next; after the last one the
note has its new text.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

Saving = Iterator[str]
Save = Callable[[Path, bytes], Saving]


def _half(data: bytes) -> int:
    return len(data) // 2


def in_place(file: Path, data: bytes) -> Saving:
    """Over the old text, and what is left of that cut off in the end."""
    with file.open("r+b", buffering=0) as note:
        note.write(data[: _half(data)])
        yield "half of the new text stands before the rest of the old"
        note.write(data[_half(data) :])
        yield "the end of the old text may stand behind the new"
        note.truncate(len(data))
    yield "saved"


def truncate_and_write(file: Path, data: bytes) -> Saving:
    """As `open(…, "w")` does: for a moment there is nothing."""
    with file.open("wb", buffering=0) as note:
        yield "empty"
        note.write(data[: _half(data)])
        yield "half of the new text"
        note.write(data[_half(data) :])
    yield "saved"


def temporary_and_rename(file: Path, data: bytes) -> Saving:
    """A file beside the note takes its place."""
    spare = file.with_name(f".{file.name}.tmp")
    with spare.open("wb", buffering=0) as note:
        note.write(data[: _half(data)])
        yield "half of the new text, elsewhere"
        note.write(data[_half(data) :])
    yield "all of it, elsewhere"
    spare.replace(file)
    yield "saved"


def delete_and_create(file: Path, data: bytes) -> Saving:
    """There is no note for a moment, and then another file of its name."""
    file.unlink()
    yield "gone"
    with file.open("xb", buffering=0) as note:
        yield "empty"
        note.write(data[: _half(data)])
        yield "half of the new text"
        note.write(data[_half(data) :])
    yield "saved"


def backup_and_rename(file: Path, data: bytes) -> Saving:
    """The old text is put aside, as Vim does, and removed when the new one is there."""
    backup = file.with_name(f"{file.name}~")
    file.rename(backup)
    yield "put aside"
    with file.open("xb", buffering=0) as note:
        yield "empty"
        note.write(data)
    yield "written, and the old text beside it"
    backup.unlink()
    yield "saved"


def append(file: Path, data: bytes) -> Saving:
    """What is new comes at the end; `data` begins with the old text."""
    with file.open("ab", buffering=0) as note:
        new = data[file.stat().st_size :]
        note.write(new[: _half(new)])
        yield "half of what is new"
        note.write(new[_half(new) :])
    yield "saved"


EDITORS: Mapping[str, Save] = {
    save.__name__: save
    for save in (
        *(in_place, truncate_and_write, temporary_and_rename),
        *(delete_and_create, backup_and_rename, append),
    )
}


def ticking(file: Path, saving: Saving) -> Saving:
    """The same steps, no two of them within one tick of the file system's clock.

    file: one beside the note, to read that clock by.
    """
    for step in saving:
        yield step
        tick(file)


def tick(file: Path) -> None:
    """Wait for the file system's clock, which goes on every few milliseconds."""
    file.touch()
    before = file.stat().st_mtime_ns
    while file.stat().st_mtime_ns == before:
        os.utime(file)
