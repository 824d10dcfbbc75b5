"""Texts on their way to an Ollama server and back: patience, batches, and what it refuses.

One bad text fails its whole batch there, so a refused batch is halved until the bad texts stand
alone; a text that is too long for the server against our estimate is cut in two and averaged.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy
from numpy.typing import NDArray

from vaultmem.embedding.ollama_connection import Busy, Connection, InputRefused, Returned
from vaultmem.embedding.ollama_models import MOST_TOKENS
from vaultmem.embedding.ollama_window import halves

Answer = TypeVar("Answer")
Sleep = Callable[[float], None]

# What a slow machine embeds well within the time-out.
BATCH_TEXTS = 16
BATCH_CHARACTERS = 16_000

# Seconds to wait before asking a busy server again.
DOCUMENT_WAITS = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
QUESTION_WAITS = (0.3, 0.7)

# How often a text that is too long for the server, against our estimate, is cut in two.
MOST_HALVINGS = 4
# Nothing is gained by cutting a text of fewer characters.
_LEAST_CHARACTERS = 16
# Where servers cut: a text that has exactly so many tokens was probably longer.
_CUTS = frozenset({256, 512, 1024, MOST_TOKENS, 4096, 8192})

# A text without a fault: if the server refuses this too, the fault is not the notes'.
_PROBE = "vaultmem"
_LEAST_NORM = 1e-9


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one text."""

    vector: NDArray[numpy.float64] | None  # unit length
    reason: str = ""  # why there is no vector
    truncated: bool = False


def unit_rows(returned: Returned) -> list[Row]:
    """The vectors at unit length; those that are none, with the reason."""
    rows: list[Row] = []
    for numbers in returned.rows:
        vector = numpy.asarray(numbers, numpy.float64)
        with numpy.errstate(all="ignore"):
            norm = float(numpy.sqrt(vector @ vector))
        if not numpy.isfinite(norm):
            rows.append(Row(None, "the model's vector holds no numbers (NaN)"))
        elif norm < _LEAST_NORM:
            rows.append(Row(None, "the model's vector is zero"))
        else:
            rows.append(Row(vector / norm))
    return rows


def average(texts: Sequence[str], rows: Sequence[Row]) -> Row:
    """The vector of a text from those of its pieces, each weighing as much as it is long."""
    good = [
        (len(text), row.vector)
        for text, row in zip(texts, rows, strict=True)
        if row.vector is not None
    ]
    if not good:
        return rows[0]
    total = numpy.sum([size * vector for size, vector in good], axis=0)
    norm = float(numpy.linalg.norm(total))
    if norm < _LEAST_NORM:
        return Row(None, "the vectors of its parts cancel each other out")
    partly = len(good) < len(rows) or any(row.truncated for row in rows)
    return Row(total / norm, truncated=partly)


class PatientServer:
    """A connection, asked with patience."""

    def __init__(self, connection: Connection, sleep: Sleep) -> None:
        self.connection = connection
        self._sleep = sleep

    def ask(self, call: Callable[[], Answer], waits: Sequence[float]) -> Answer:
        """The answer of `call`, asked again after each wait while the server is busy."""
        for wait in (*waits, None):
            try:
                return call()
            except Busy:
                if wait is None:
                    break
                self._sleep(wait)
        raise self.connection.unavailable(
            f"is busy and stayed so for {sum(waits):g} s", "Try again later."
        )

    def probe(self, prefix: str = "") -> int:
        """Embed a text without a fault and return its vector's length.

        Raises EmbedderUnavailable if there is no usable vector: then no text is at fault.
        """
        try:
            returned = self.ask(lambda: self.connection.embed([prefix + _PROBE]), DOCUMENT_WAITS)
        except InputRefused as refused:
            # No note was sent, so the server's own words cannot hold a note's.
            said = re.sub(r"[^\x20-\x7e]+", " ", refused.said)[:120].strip()
            raise self.connection.unavailable(
                f"refuses every text ({said or refused.reason})", "Look into Ollama's log."
            ) from None
        (row,) = unit_rows(returned)
        if row.vector is None:
            raise self.connection.unavailable(
                f"fails on every text: {row.reason}", "Restart Ollama, or choose another model."
            )
        return len(row.vector)


class Documents:
    """One call's texts on their way: batches, and what to do with those the server refuses.

    embed: the rows of some texts, and the tokens of all of them; raises InputRefused.
    probe: raises if the server refuses every text, so that no text is blamed for it.
    """

    def __init__(
        self,
        embed: Callable[[Sequence[str]], tuple[list[Row], int]],
        probe: Callable[[], object],
        window: int,
    ) -> None:
        self._embed = embed
        self._probe = probe
        self._cuts = _CUTS | {window}
        self._probed = False

    def rows(self, cut: Sequence[Sequence[str]]) -> Iterator[tuple[int, Row]]:
        """Index and outcome of every text, each given as its pieces."""
        whole = [index for index, found in enumerate(cut) if len(found) == 1]
        for batch in _batches(whole, [len(found[0]) for found in cut]):
            yield from zip(batch, self._batch([cut[index][0] for index in batch]), strict=True)
        for index, found in enumerate(cut):
            if len(found) > 1:
                yield index, self._one_by_one(found)

    def _batch(self, texts: Sequence[str]) -> list[Row]:
        if len(texts) == 1:
            return [self._one_by_one(texts)]
        try:
            rows, _ = self._embed(texts)
        except InputRefused:
            self._rule_out_the_server()
            middle = len(texts) // 2
            return [*self._batch(texts[:middle]), *self._batch(texts[middle:])]
        if any(row.vector is None for row in rows):
            self._rule_out_the_server()
        return rows

    def _one_by_one(self, found: Sequence[str]) -> Row:
        """The outcome of a text whose pieces are sent alone.

        Only then does the server's count of tokens tell of a cut.
        """
        parts = [part for piece in found for part in self._parts(piece)]
        return average([text for text, _ in parts], [row for _, row in parts])

    def _parts(self, text: str, halved: int = 0) -> Iterator[tuple[str, Row]]:
        try:
            (row,), tokens = self._embed([text])
        except InputRefused as refused:
            self._rule_out_the_server()
            row, too_long = Row(None, refused.reason), refused.too_long
        else:
            too_long = row.vector is not None and tokens in self._cuts
            if row.vector is None:
                self._rule_out_the_server()
        if too_long and halved < MOST_HALVINGS and len(text) >= _LEAST_CHARACTERS:
            for half in halves(text):
                yield from self._parts(half, halved + 1)
        else:
            yield text, replace(row, truncated=too_long and row.vector is not None)

    def _rule_out_the_server(self) -> None:
        if not self._probed:
            self._probed = True
            self._probe()


def _batches(indexes: Sequence[int], sizes: Sequence[int]) -> Iterator[list[int]]:
    batch: list[int] = []
    characters = 0
    for index in indexes:
        full = len(batch) == BATCH_TEXTS or characters + sizes[index] > BATCH_CHARACTERS
        if batch and full:
            yield batch
            batch, characters = [], 0
        batch.append(index)
        characters += sizes[index]
    if batch:
        yield batch
