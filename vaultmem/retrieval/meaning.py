"""The vector channel: how near each passage's meaning is to the question's."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vaultmem.embedding.cache import EmbeddingCache, StoredSpace
from vaultmem.embedding.embedder import Languages
from vaultmem.index.lookup import Lookup
from vaultmem.index.scope import Scope

if TYPE_CHECKING:
    from vaultmem.embedding.embedder import Vectors
    from vaultmem.embedding.matrix import Matrix

# A filter that leaves no more passages than this is answered by sqlite-vec's table.
SELECTIVE = 1000

# The language gate: by median word pieces per word of the best lexical hits, how far a model of
# English is believed. English has up to 1.3 (99th percentile), languages in the same letters from
# 1.5, of which it understands names and a little; beyond 3 it spells letter by letter. The trusts
# were chosen on the even questions of XQuAD es and zh.
TRUSTS = ((1.45, 1.0), (3.0, 0.2))
UNREADABLE_TRUST = 0.12
JUDGED_PASSAGES = 20


@dataclass(frozen=True, slots=True)
class Question:
    """What the vector channel needs to answer one question."""

    vector: "Vectors"  # [dimension], unit length
    matrix: "Matrix"
    cache: EmbeddingCache
    space: StoredSpace
    centroid: "Vectors"  # [dimension], mean of all passages' vectors
    languages: Languages


class Meaning:
    """Similarities of one question to the passages of one sidecar."""

    def __init__(self, question: Question, lookup: Lookup) -> None:
        self._question = question
        self._lookup = lookup
        self._all: Vectors | None = None  # of every slot, once it was asked for
        # The question's similarity to the mean of all passages.
        self.corpus_floor = question.matrix.similarity(question.vector, question.centroid)
        self._floor = self.corpus_floor

    @property
    def languages(self) -> Languages:
        """What texts the model understands."""
        return self._question.languages

    @property
    def floor(self) -> float:
        """The similarity that any passage has: `corpus_floor`.

        After `nearest` in a scope that is further from the question than the corpus is, it is the
        scope's: all of its passages would else be worth nothing.
        """
        return self._floor

    def nearest(self, scope: Scope | None, limit: int) -> dict[int, float]:
        """chunk id -> cosine of the passages in scope with the `limit` nearest vectors, or equals.

        Rows whose passages are gone do not count: it looks further down for as many others.
        """
        self._floor = self.corpus_floor
        asked = limit
        while True:
            if scope is not None:
                slots = self._question.matrix.among(self._lookup.slots_in(scope))
                found = self._nearest_of(slots, limit)
            else:
                found = self._question.matrix.best(self._similarities(), asked)
            chunks = self._lookup.chunks_at(found, scope)
            living = sorted({slot: found[slot] for _, slot in chunks}.values(), reverse=True)
            every = scope is not None or len(found) >= self._question.matrix.slots
            if len(living) >= limit or every:
                least = living[limit - 1] if len(living) >= limit else -1.0
                return {chunk: found[slot] for chunk, slot in chunks if found[slot] >= least}
            asked *= 4

    def of(self, chunks: Iterable[int]) -> dict[int, float]:
        """chunk id -> cosine of these passages, of those that have a vector."""
        slots = self._lookup.slots_of(chunks)
        slots = {c: s for c, s in slots.items() if s < self._question.matrix.slots}
        wanted = list(slots.values())
        if self._all is not None:
            values = [float(self._all[slot]) for slot in wanted]
        else:
            values = self._question.matrix.similarities_of(self._question.vector, wanted).tolist()
        return dict(zip(slots, values, strict=True))

    def trust(self, chunks: Sequence[int]) -> float:
        """How far the model may be believed about these passages, 0 to 1: the language gate.

        chunks: the best hits by words, best first.
        """
        if self._question.languages is not Languages.ENGLISH:
            return 1.0
        slots = self._lookup.slots_of(chunks[:JUDGED_PASSAGES])
        wanted = [slot for slot in slots.values() if slot < self._question.matrix.slots]
        fertilities = sorted(self._question.matrix.fertilities(wanted))
        if not fertilities:
            return 1.0
        median = fertilities[len(fertilities) // 2]
        return next((trust for most, trust in TRUSTS if median <= most), UNREADABLE_TRUST)

    def _nearest_of(self, slots: list[int], limit: int) -> dict[int, float]:
        """slot -> cosine of the nearest of these slots."""
        question = self._question
        chosen: Sequence[int] | None = None
        if slots and len(slots) <= SELECTIVE:
            from vaultmem.embedding.matrix import question_codes

            chosen = question.cache.nearest(question.space, question_codes(question.vector), slots)
        names = chosen or slots
        if len(names) > question.matrix.slots // 4:
            values = self._similarities()[names]  # in the order of the rows: half the time
        else:
            values = question.matrix.similarities_of(question.vector, names)
        if slots:
            # Sorted, since the order of the slots is another after a rebuild, and in sqlite-vec.
            ordered = values.copy()
            ordered.sort()
            mean = float(ordered.sum(dtype="float64")) / len(values)
            self._floor = min(self.corpus_floor, mean)
        return question.matrix.best(values, limit, names)

    def _similarities(self) -> "Vectors":
        if self._all is None:
            self._all = self._question.matrix.similarities(self._question.vector)
        return self._all
