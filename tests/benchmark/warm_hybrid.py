"""Measure hybrid search in a process that has everything open, side by side with sqlite-vec alone.

    python tests/benchmark/warm_hybrid.py VAULT CACHE_DIR [--searches N]

The vault is indexed by words; its passages then get synthetic vectors (clustered, seeded, unit
length), since embedding 100,000 passages for real takes hours and costs the same to search. The
questions are encoded for real. Two words of a question come from the vault's own vocabulary of
frequent words, two of rarer ones. Prints one JSON line: milliseconds a search, median and 95th
percentile, CPU and wall, for hybrid, keyword and semantic search and for sqlite-vec's own nearest
200 of all vectors. Run it on an otherwise quiet machine, with a cache folder of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vaultmem.embedding.cache import EmbeddingCache, Row, StoredSpace
from vaultmem.embedding.quantise import quantise
from vaultmem.index.vectors import PassageVectors
from vaultmem.service.application import Memory, open_memory
from vaultmem.service.embed import embed_waiting
from vaultmem.service.embedders import RULES, open_embedder, serving_space
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.settings import load_settings

SEED = 7
CLUSTERS = 200
SPREAD = 1.2  # of a vector around its cluster's centre, against the centre's length of 1
BATCH = 4096


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("vault", type=Path)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--searches", type=int, default=50)
    arguments = parser.parse_args()
    memory = open_warm(arguments.vault, arguments.cache)
    try:
        passages = prepare(memory)
        questions = list(made_up_questions(memory, arguments.searches + 1))
        figures: dict[str, object] = {"passages": passages, "searches": arguments.searches}
        for mode in ("hybrid", "keyword", "semantic"):
            figures[mode] = timed(partial(ask, memory, mode), questions)
        figures["sqlite-vec alone"] = sqlite_vec_alone(memory, questions)
    finally:
        memory.close()
    print(json.dumps(figures))
    return 0


def open_warm(vault: Path, cache: Path) -> Memory:
    """The index, opened to be searched by words and vectors; nobody looks at the vault."""
    environment = {
        **os.environ,
        "VAULTMEM_SEARCH_REFRESH": "never",
        "VAULTMEM_EMBEDDER_NAME": "minilm",
    }
    return open_memory(load_settings(vault, cache, environment=environment))


def ask(memory: Memory, mode: str, text: str) -> None:
    """One search."""
    search(memory, SearchRequest(text, mode=mode))


def prepare(memory: Memory) -> int:
    """Index by words and give every passage a synthetic vector; how many passages there are."""
    index(memory, IndexRequest(embed=False))
    return put_vectors(memory)


def put_vectors(memory: Memory, most: int | None = None) -> int:
    """Give passages synthetic vectors, all or so many; how many have one."""
    cache = memory.open_cache(create=True)
    sidecar = memory.open_sidecar()
    assert cache is not None
    assert sidecar is not None
    space = cache.add(open_embedder(memory, "minilm").space, RULES)
    hashes = sorted(PassageVectors(sidecar).hashes())[:most]
    known = cache.known(space.id, hashes)
    missing = [text_hash for text_hash in hashes if text_hash not in known]
    generator = np.random.default_rng(SEED)
    centres = unit(generator.standard_normal((CLUSTERS, space.space.dimension)))
    for first in range(0, len(missing), BATCH):
        part = missing[first : first + BATCH]
        chosen = centres[generator.integers(0, CLUSTERS, len(part))]
        noise = unit(generator.standard_normal(chosen.shape)) * SPREAD
        codes = quantise(unit(chosen + noise).astype(np.float32))
        rows = [Row(h, codes[n].tobytes(), 1.2) for n, h in enumerate(part)]
        cache.put(space.id, rows)
    if most is None:
        reply = embed_waiting(memory)  # attaches them all; there is nothing left to compute
        assert reply.embedded == 0, reply
    else:
        embed_waiting(memory, share=0)  # attaches them, and computes none for the others
    return PassageVectors(sidecar).count()


def unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows at unit length."""
    lengths: NDArray[np.float64] = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / lengths


def made_up_questions(memory: Memory, count: int) -> Iterator[str]:
    """Questions of four words of the vault, the same ones for the same vault."""
    assert memory.sidecar is not None
    rows = memory.sidecar.connection.execute(
        "SELECT term FROM vocabulary WHERE length(term) BETWEEN 4 AND 12 ORDER BY doc DESC, term"
    )
    terms = [str(term) for (term,) in rows]
    generator = random.Random(SEED)
    for _ in range(count):
        common = generator.sample(terms[:100], 2)
        rare = generator.sample(terms[100:5000] or terms, 2)
        yield " ".join([*common, *rare])


def timed(run: Callable[[str], object], questions: Sequence[str]) -> dict[str, float]:
    """CPU and wall milliseconds of one call; the first call is not counted."""
    run(questions[0])
    cpu: list[float] = []
    wall: list[float] = []
    for question in questions[1:]:
        cpu_before, wall_before = time.process_time(), time.perf_counter()
        run(question)
        cpu.append((time.process_time() - cpu_before) * 1000)
        wall.append((time.perf_counter() - wall_before) * 1000)
    return {
        "cpu_p50": round(statistics.median(cpu), 2),
        "cpu_p95": round(sorted(cpu)[int(len(cpu) * 0.95)], 2),
        "wall_p50": round(statistics.median(wall), 2),
        "wall_p95": round(sorted(wall)[int(len(wall) * 0.95)], 2),
    }


def sqlite_vec_alone(memory: Memory, questions: Sequence[str]) -> dict[str, float] | str:
    """The nearest 200 of all vectors by sqlite-vec's table, questions encoded beforehand."""
    cache, sidecar = memory.open_cache(), memory.open_sidecar()
    assert cache is not None
    assert sidecar is not None
    space = serving_space(memory, sidecar)
    assert space is not None
    if not cache.vector_extension:
        return "sqlite-vec cannot be loaded here"
    embedder = open_embedder(memory, "minilm")
    codes = {text: quantise(embedder.embed_query(text)[None])[0].tobytes() for text in questions}
    return timed(lambda text: nearest(cache, space, codes[text]), questions)


def nearest(cache: EmbeddingCache, space: StoredSpace, codes: bytes) -> list[int]:
    """Slots of the nearest 200."""
    table = f"passage_vector_{space.id}_{space.generation}"
    statement = (
        f"SELECT slot FROM {table} WHERE embedding MATCH vec_int8(?) AND k = 200 ORDER BY distance"
    )
    return [int(str(slot)) for (slot,) in cache.query(statement, (codes,))]


if __name__ == "__main__":
    sys.exit(main())
