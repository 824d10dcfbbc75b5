"""Measure searches in a process that has the index open, as a server has.

    python tests/benchmark/warm_search.py VAULT CACHE_DIR QUERY

The index must exist. The query is asked once to warm up, then 50 times, each time with another
word of it left out or in its place, so that no answer is a repetition. Prints one JSON line:
CPU milliseconds a search, median and 95th percentile. ``costs.py`` starts this for its last step.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path

from vaultmem.service.application import open_memory
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.settings import load_settings

SEARCHES = 50


def main(arguments: list[str]) -> int:
    """Run the command; returns 0, or 2 for a usage error."""
    if len(arguments) != 3:
        sys.stderr.write("usage: warm_search.py VAULT CACHE_DIR QUERY\n")
        return 2
    vault, cache, query = arguments
    # A server is told of changes by its watcher; looking at the vault is measured elsewhere.
    settings = {**os.environ, "VAULTMEM_SEARCH_REFRESH": "never"}
    memory = open_memory(load_settings(Path(vault), Path(cache), environment=settings))
    words = query.split()
    search(memory, SearchRequest(query))
    milliseconds = []
    for number in range(SEARCHES):
        turn = number % len(words)
        asked = " ".join([*words[turn:], *words[:turn], f"note{number}"])
        started = time.process_time()
        search(memory, SearchRequest(asked))
        milliseconds.append((time.process_time() - started) * 1000)
    memory.close()
    milliseconds.sort()
    print(
        json.dumps(
            {
                "median_ms": round(statistics.median(milliseconds), 2),
                "p95_ms": round(milliseconds[int(SEARCHES * 0.95)], 2),
            }
        )
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
