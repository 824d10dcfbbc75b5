"""Which passage has which vector: the bridge from the sidecar to the cache of embeddings.

A passage is embedded as its headings and its text. The title is left out, since it may be the
file's name: a rename would then cost an embedding, and words find titles anyway.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import apsw

from vaultmem.index.store import Sidecar
from vaultmem.model.chunk import Chunk
from vaultmem.vault.prose import prose

# Bump when the text that is embedded changes: its vectors are then another space.
EMBEDDED_TEXT_VERSION = 1

_WORD = re.compile(r"[^\W_]")

_SERVING = "vectors"
_CENTROID = "centroid"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A text that has no vector yet."""

    text_hash: bytes
    text: str
    pieces: int  # estimated word pieces


def embedded_text(chunk: Chunk) -> str:
    """What is embedded of a passage: the trail of headings, and its text below them, as prose."""
    return prose(_source(chunk.trail, chunk.text[chunk.body :]))


def embedded_hash(chunk: Chunk) -> bytes:
    """The key of a passage's vector: 16 bytes of the SHA-256 of what the prose is made from.

    Making the prose takes as long as a sixth of indexing; it is done when it is needed.
    """
    source = _source(chunk.trail, chunk.text[chunk.body :])
    return sha256(source.encode("utf-8", "surrogatepass")).digest()[:16]


def speaks(chunk: Chunk) -> bool:
    """Whether a passage has words of its own below its headings."""
    return _WORD.search(chunk.text, chunk.body) is not None


def _source(trail: Sequence[str], body: str) -> str:
    return "\n".join([" > ".join(trail), body.strip()]).strip()


def forget_centroid(db: apsw.Connection) -> None:
    """Passages have come or gone: the mean of their vectors is no longer what is kept."""
    db.execute("DELETE FROM meta WHERE key = ?", (_CENTROID,))


class PassageVectors:
    """Reads and writes `chunk.slot` of one sidecar."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar
        self._db = sidecar.connection

    @property
    def serving(self) -> str | None:
        """The name of the space whose slots the passages carry; None for no space."""
        return self._sidecar.meta(_SERVING)

    def serve(self, name: str, slots: Iterable[tuple[bytes, int]] = ()) -> None:
        """Let the passages carry slots of another space: these, all at once, and no others."""
        with self._sidecar.transaction() as db:
            db.execute("UPDATE chunk SET slot = NULL WHERE slot IS NOT NULL")
            db.executemany(
                "UPDATE chunk SET slot = ? WHERE text_hash = ?",
                [(slot, text_hash) for text_hash, slot in slots],
            )
            forget_centroid(db)
            self._sidecar.set_meta(_SERVING, name)

    def attach(self, name: str, slots: Iterable[tuple[bytes, int]]) -> int:
        """Give the passages of these texts their slot; how many passages got one.

        name: the space that the slots are of. If another one serves by now, nothing is done.
        """
        with self._sidecar.transaction() as db:
            if self.serving != name:
                return 0
            before = db.total_changes()
            db.executemany(
                "UPDATE chunk SET slot = ? WHERE text_hash = ? AND slot IS NULL",
                [(slot, text_hash) for text_hash, slot in slots],
            )
            attached = db.total_changes() - before
            if attached:
                forget_centroid(db)
            return attached

    def unattached(self) -> list[bytes]:
        """Hashes of the texts whose passages have no slot."""
        return [
            h
            for (h,) in self._db.execute("SELECT DISTINCT text_hash FROM chunk WHERE slot IS NULL")
        ]

    def hashes(self) -> list[bytes]:
        """Hashes of every passage's text, each once."""
        return [h for (h,) in self._db.execute("SELECT DISTINCT text_hash FROM chunk")]

    def attached(self) -> list[tuple[int, bytes]]:
        """(slot, hash of the text) of every passage that has a vector; each pair once."""
        return list(
            self._db.execute("SELECT DISTINCT slot, text_hash FROM chunk WHERE slot IS NOT NULL")
        )

    def paths_with(self, slot: int) -> list[str]:
        """Paths of the notes with a passage that has this vector."""
        return [
            path
            for (path,) in self._db.execute(
                "SELECT DISTINCT n.path FROM chunk c JOIN note n ON n.id = c.note "
                "WHERE c.slot = ? ORDER BY n.path",
                (slot,),
            )
        ]

    def still_there(self, hashes: Iterable[bytes]) -> set[bytes]:
        """Those texts that some passage has."""
        return {
            text_hash
            for text_hash in hashes
            if self._db.execute("SELECT 1 FROM chunk WHERE text_hash = ?", (text_hash,)).get
        }

    def urgent_first(self, hashes: Iterable[bytes]) -> list[bytes]:
        """These texts, those of the newest and most linked notes first.

        A note's place is the sum of its places by date and by number of links that lead to it;
        equals share a place, so that where nothing is linked the date alone decides.
        """
        wanted = set(hashes)
        rows = self._db.execute(
            "SELECT c.text_hash, rank() OVER (ORDER BY n.date DESC) + "
            "rank() OVER (ORDER BY n.linked DESC) AS place FROM chunk c "
            "JOIN (SELECT id, path, date, (SELECT count(*) FROM link WHERE link.resolved = "
            "note.path AND link.note <> note.id) AS linked FROM note) n ON n.id = c.note "
            "ORDER BY place, n.date DESC, n.path, c.ordinal"
        )
        return list(dict.fromkeys(h for h, _ in rows if h in wanted))

    def texts(self, hashes: Sequence[bytes]) -> list[Waiting]:
        """What is to be embedded for each hash that some passage still has."""
        found: list[Waiting] = []
        for text_hash in hashes:
            row = self._db.execute(
                "SELECT trail, text, body, pieces FROM chunk WHERE text_hash = ? LIMIT 1",
                (text_hash,),
            ).fetchone()
            if row is not None:
                trail, text, body, pieces = row
                source = _source(json.loads(trail), text[body:])
                found.append(Waiting(text_hash, prose(source), pieces))
        return found

    def sample(self, count: int) -> list[str]:
        """Texts of passages, as good as chosen by lot, yet always the same ones; each once."""
        return [
            text
            for (text,) in self._db.execute(
                "SELECT text FROM chunk GROUP BY text_hash ORDER BY text_hash LIMIT ?", (count,)
            )
        ]

    def slots(self) -> list[int]:
        """The slot of every passage that has one, in ascending order."""
        return [
            s
            for (s,) in self._db.execute(
                "SELECT slot FROM chunk WHERE slot IS NOT NULL ORDER BY slot"
            )
        ]

    def waiting_count(self) -> int:
        """How many passages have no vector."""
        value = self._db.execute("SELECT count(*) FROM chunk WHERE slot IS NULL").get
        return value if isinstance(value, int) else 0

    def count(self) -> int:
        """How many passages have a vector."""
        value = self._db.execute("SELECT count(slot) FROM chunk").get
        return value if isinstance(value, int) else 0

    def largest_slot(self) -> int:
        """The largest slot that a passage has; -1 where none has one."""
        value = self._db.execute("SELECT max(slot) FROM chunk").get
        return value if isinstance(value, int) else -1

    def text_hash_at(self, slot: int) -> bytes | None:
        """The hash of the text of a passage that has this slot."""
        value = self._db.execute("SELECT text_hash FROM chunk WHERE slot = ? LIMIT 1", (slot,)).get
        return value if isinstance(value, bytes) else None

    def put_centroid(self, centroid: Sequence[float], slots: Sequence[int] | None = None) -> None:
        """Keep the mean of all passages' vectors.

        slots: what `slots` said when it was computed. If passages came or went since, it is the
               mean of others, and is not kept.
        """
        text = json.dumps([round(value, 9) for value in centroid])
        if self._sidecar.meta(_CENTROID) != text:
            with self._sidecar.transaction():
                if slots is None or self.slots() == list(slots):
                    self._sidecar.set_meta(_CENTROID, text)

    def centroid(self) -> list[float] | None:
        """The mean of all passages' vectors; None until it is known."""
        text = self._sidecar.meta(_CENTROID)
        return json.loads(text) if text is not None else None
