"""Exact search over all vectors of a space: a file of codes, mapped into memory.

The file is a copy of the cache's rows in the order of their slots. The cache says which file it is
and how many of its rows are true, so that neither an older copy of the cache nor a power failure
lets a row pass for another; rows that it lacks are taken from the cache. A file that others may
have mapped only ever grows: cut short under them it would end their process. 100,000 vectors of
384 take 39 MB.
"""

import math
import os
import stat
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vaultmem.embedding.cache import EmbeddingCache, StoredSpace
from vaultmem.embedding.quantise import lengths, quantise, widened

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vaultmem.embedding.embedder import Vectors
    from vaultmem.embedding.quantise import Codes, Wide

    Rows = NDArray[np.void]

# Rows turned into float32 at a time: small enough for the processor's cache.
_BLOCK = 1024
# Rows that a thread takes at a time, and threads at most: 300,000 rows take one of them 35 ms.
_SHARE = 16 * _BLOCK
_MOST_THREADS = 4
# Parts of unit vectors are summed as whole multiples of this; a block of them stays below 2**53.
_FINE = 2.0**-40
# Codes are scaled so that the largest is 127, and no vector is shorter; one of zeros has no length,
# and is divided by this one.
_LEAST_LENGTH = np.float32(127)
_NO_LENGTH = np.float32(1e-6)


class Matrix:
    """The vectors of one space and generation, for similarities to questions."""

    def __init__(self, rows: "list[Rows]", dimension: int) -> None:
        self._parts = [part for part in rows if len(part)]
        self.dimension = dimension
        self.slots = sum(len(part) for part in self._parts)

    def similarities(self, query: "Vectors") -> "Vectors":
        """Cosine of the question with every slot: [dimension] -> [slots] float32."""
        found = np.empty(self.slots, np.float32)
        at = 0
        for part in self._parts:
            self._compare(query, part.__getitem__, found[at : at + len(part)])
            at += len(part)
        return found

    def similarities_of(self, query: "Vectors", slots: Sequence[int]) -> "Vectors":
        """Cosine of the question with some slots, in their order: [len(slots)] float32."""
        wanted = np.asarray(slots, np.int64)
        found = np.empty(len(wanted), np.float32)
        self._compare(query, lambda span: self._take(wanted[span]), found)
        return found

    def _compare(
        self, query: "Vectors", rows_in: "Callable[[slice], Rows]", out: "Vectors"
    ) -> None:
        """Cosines of the question with rows, several threads at a time where these are many."""
        wide, scale = _question(query)

        def compare(start: int) -> None:
            scratch = np.empty((_BLOCK, self.dimension), wide.dtype)
            for first in range(start, min(start + _SHARE, len(out)), _BLOCK):
                span = slice(first, min(first + _BLOCK, len(out)))
                _cosines(rows_in(span), wide, scale, out[span], scratch)

        starts = range(0, len(out), _SHARE)
        workers = min(_MOST_THREADS, os.cpu_count() or 1, len(starts))
        if workers > 1:
            with ThreadPoolExecutor(workers, thread_name_prefix="vectors") as pool:
                list(pool.map(compare, starts))
        else:
            for start in starts:
                compare(start)

    def similarity(self, query: "Vectors", other: "Vectors") -> float:
        """Product of the question, as it is compared, with another vector.

        Rounded: the last digits of a sum depend on where the numbers lie in memory.
        """
        wide, scale = _question(query)
        product = float(np.dot(wide.astype(np.float64), other.astype(np.float64)))
        return round(product * float(scale), 9)

    def best(
        self, similarities: "Vectors", limit: int, slots: Sequence[int] | None = None
    ) -> dict[int, float]:
        """slot -> similarity of the `limit` best, best first, and those that equal the last.

        similarities: [n] float32, of `slots`, or of every slot in order.
        """
        if len(similarities) > limit:
            least = np.partition(similarities, len(similarities) - limit)[-limit]
            chosen = np.flatnonzero(similarities >= least)
        else:
            chosen = np.arange(len(similarities))
        chosen = chosen[np.argsort(-similarities[chosen], kind="stable")]
        names = chosen if slots is None else np.asarray(slots, np.int64)[chosen]
        return dict(zip(names.tolist(), similarities[chosen].tolist(), strict=True))

    def among(self, listed: str) -> list[int]:
        """The slots that a text names, with commas between them: those that there are, once."""
        if not listed:
            return []
        named = np.zeros(self.slots, np.bool_)
        slots = np.fromstring(listed, np.int64, sep=",")
        named[slots[(slots >= 0) & (slots < self.slots)]] = True
        found: list[int] = np.flatnonzero(named).tolist()
        return found

    def centroid(self, slots: Sequence[int]) -> "NDArray[np.float64]":
        """Mean of the unit vectors of `slots`, a slot counted as often as it is named.

        slots: those that the matrix lacks are left out.
        [dimension]; it does not depend on the order of the rows, since whole numbers are summed.
        """
        total = np.zeros(self.dimension, np.int64)
        wanted = np.asarray(slots, np.int64)
        wanted = wanted[wanted < self.slots]
        for first in range(0, len(wanted), _BLOCK):
            rows = self._take(wanted[first : first + _BLOCK])
            parts = rows["codes"] / (rows["length"][:, None] * _FINE).astype(np.float64)
            total += np.rint(parts, out=parts).sum(axis=0).astype(np.int64)
        return np.round(total * (_FINE / max(1, len(wanted))), 9)

    def fertilities(self, slots: Sequence[int]) -> list[float]:
        """Word pieces per word of those slots for which it is known."""
        values = self._take(slots)["fertility"]
        return [float(value) for value in values if value > 0]

    def _take(self, slots: "Sequence[int] | NDArray[np.int64]") -> "Rows":
        wanted = np.asarray(slots, np.int64)
        if len(self._parts) == 1:
            return self._parts[0][wanted]
        if not self._parts:
            return np.empty(0, _row_type(self.dimension))
        taken = np.empty(len(wanted), _row_type(self.dimension))
        at = 0
        for part in self._parts:
            inside = (wanted >= at) & (wanted < at + len(part))
            taken[inside] = part[wanted[inside] - at]
            at += len(part)
        return taken


def question_codes(query: "Vectors") -> "Codes":
    """The question as it is compared: [dimension] float32 -> int8."""
    codes: Codes = quantise(query[None])[0]
    return codes


def open_matrix(cache: EmbeddingCache, space: StoredSpace) -> Matrix:
    """The matrix of a space: what the file holds, and from the cache what it lacks.

    It has fewer slots than the space when these have been numbered anew meanwhile.
    """
    mapped = _mapped(cache, space)
    parts = [mapped]
    if len(mapped) < space.slots:
        parts.append(_from_cache(cache, space, first=len(mapped), after=space.slots))
    return Matrix(parts, space.space.dimension)


def append_rows(cache: EmbeddingCache, space: StoredSpace) -> None:
    """Bring the file up to date with the cache. For one process at a time.

    A file is only ever appended to; in place of one with a row that was never written out another
    is begun.
    """
    whole = len(_mapped(cache, space))
    if whole == space.slots:
        return
    known = cache.file(space)
    name = known[0] if known is not None and whole else f"vectors-{space.id}-{uuid.uuid4().hex}.i8"
    first = whole
    with cache.path.with_name(name).open("r+b" if whole else "xb") as file:
        file.seek(whole * _row_type(space.space.dimension).itemsize)
        while first < space.slots:
            after = min(first + 4 * _BLOCK, space.slots)
            rows = _from_cache(cache, space, first=first, after=after)
            file.write(rows.tobytes())
            first += len(rows)
            if first < after:
                break  # numbered anew meanwhile: these are all there are
        file.flush()
        os.fsync(file.fileno())
    cache.put_file(space, name, first)
    if not whole:
        remove_strange_files(cache)


def file_is_true(cache: EmbeddingCache, space: StoredSpace) -> bool:
    """Whether the file, as far as it is trusted, holds what the cache holds."""
    mapped = _mapped(cache, space)
    for first in range(0, len(mapped), 4 * _BLOCK):
        block = mapped[first : first + 4 * _BLOCK]
        rows = _from_cache(cache, space, first=first, after=first + len(block))
        if rows.tobytes() != block.tobytes():
            return False
    return True


def remove_strange_files(cache: EmbeddingCache) -> None:
    """Remove the files that the cache knows nothing of: of other caches, spaces, generations."""
    known = [cache.file(space) for space in cache.spaces()]
    wanted = {file[0] for file in known if file is not None}
    for path in cache.path.parent.glob("vectors-*.i8"):
        if path.name not in wanted:
            _remove(path)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except (PermissionError, IsADirectoryError):
        return  # Windows keeps a mapped file; the next run removes it. A folder is not ours.


def _row_type(dimension: int) -> "np.dtype[np.void]":
    return np.dtype([("codes", np.int8, (dimension,)), ("length", "<f4"), ("fertility", "<f4")])


def _mapped(cache: EmbeddingCache, space: StoredSpace) -> "Rows":
    """The rows of the file that can be trusted; none when it is missing or has a gap."""
    row_type = _row_type(space.space.dimension)
    nothing: Rows = np.empty(0, row_type)
    known = cache.file(space)
    if known is None:
        return nothing
    path = cache.path.with_name(known[0])
    try:
        state = path.lstat()
        count = min(state.st_size // row_type.itemsize, known[1], space.slots)
        # A link is not followed: the file is appended to.
        if not stat.S_ISREG(state.st_mode) or count <= 0:
            return nothing
        rows: Rows = np.memmap(path, row_type, "r", shape=(count,))
    except (OSError, ValueError):
        return nothing
    # After a power failure a file may be longer than what reached the disk. Of a damaged one that
    # much is seen: lengths that no codes have, and numbers that are none.
    length, fertility = rows["length"], rows["fertility"]
    most = 128.0 * math.sqrt(space.space.dimension)
    possible = ((length >= _LEAST_LENGTH) & (length <= most)) | (length == _NO_LENGTH)
    sound = possible & (fertility >= 0) & (fertility < np.inf)
    return rows if sound.all() else nothing


def _from_cache(cache: EmbeddingCache, space: StoredSpace, *, first: int, after: int) -> "Rows":
    """Rows from slot `first` to before `after`, or as far as there are any without a gap."""
    rows = np.zeros(after - first, _row_type(space.space.dimension))
    count = 0
    for slot, codes, fertility in cache.rows(space.id, first, space.generation):
        if slot >= after or slot != first + count:
            break
        if len(codes) != space.space.dimension:
            raise cache.damaged()
        rows["codes"][count] = np.frombuffer(codes, np.int8)
        rows["fertility"][count] = fertility or 0.0
        count += 1
    rows = rows[:count]
    for start in range(0, count, _BLOCK):
        block = rows[start : start + _BLOCK]
        block["length"] = np.maximum(lengths(block["codes"]), _NO_LENGTH)
    return rows


def _question(query: "Vectors") -> "tuple[Wide, np.float32]":
    """The question's codes as floats, and what a product is multiplied with to be a cosine."""
    codes = question_codes(query)
    length = lengths(codes[None])[0]
    return widened(codes), np.float32(1.0 / length) if length > 0 else np.float32(0)


def _cosines(
    rows: "Rows", wide: "Wide", scale: np.float32, out: "Vectors", scratch: "Wide"
) -> None:
    """Cosines of rows with the question, one way for all: equal numbers then are equal bits.

    scratch: [at least len(rows), dimension], of the question's type; to take memory once.
    """
    block = scratch[: len(rows)]
    np.copyto(block, rows["codes"], casting="unsafe")  # as `widened`
    out[:] = block @ wide
    out *= scale / rows["length"]
