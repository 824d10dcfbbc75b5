"""What may be shown of a note's file: the text that was indexed, or what has become of it since."""

from hashlib import sha256

from vaultmem.index.rows import FoundNote
from vaultmem.model.note import Screening
from vaultmem.service.application import Memory
from vaultmem.vault.parse import readable
from vaultmem.vault.read import Door, Unread
from vaultmem.vault.screen import Screen

# Where a note was there may be nothing now, or a folder of its name, a file in place of its folder.
NO_NOTE = ("missing", "not-a-file", "linked")


def read_note(memory: Memory, door: Door, note: FoundNote) -> bytes | Unread:
    """The bytes of a note's file as it is now."""
    return door.read(note.disk_path, limit=memory.settings["scan.max_note_bytes"])


def shown_text(memory: Memory, note: FoundNote, data: bytes) -> str:
    """A note's text without what is kept out of it. data: the bytes of its file."""
    return readable(note.path, data, screen_for(memory, note, data))


def screen_for(memory: Memory, note: FoundNote, data: bytes) -> Screen | None:
    """What these bytes have to be looked through for.

    None for those that were looked through when they were indexed, and held nothing: looking again
    costs a short search a fifth of its time.
    """
    if note.screening is Screening.NOTHING and is_indexed(note, data):
        return None
    return memory.screen


def is_indexed(note: FoundNote, data: bytes) -> bool:
    """Whether these are the bytes that were indexed."""
    return sha256(data).hexdigest() == note.sha256
