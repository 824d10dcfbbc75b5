"""The fuzzing lane: one target for as long as it is told.

    python tests/fuzz/fuzz.py TARGET --seconds N [--folder FOLDER] [--seed N]

With atheris (`pip install atheris`, Linux and macOS) the inputs are led by what they make the
program do, and those that show something new join tests/fuzz/corpus/TARGET, as few and short as
will do. Without it they are mutations of the corpus by chance alone, and nothing joins.

An input that breaks a promise ends the run with exit code 77 (1 without atheris); it is kept as
FOLDER/crash-…, and `python tests/fuzz/fuzz.py TARGET --try FILE` runs it again.
"""

import argparse
import importlib
import importlib.util
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from hashlib import sha1
from pathlib import Path
from typing import Any

from mutate import MAX_BYTES, dictionary, mutated

HERE = Path(__file__).resolve().parent
CORPUS = HERE / "corpus"
NAMES = ("note", "frontmatter", "links", "query", "path", "growth", "secrets")

# What is repeated a thousand times does nothing that is not done for it once.
UNGUIDED = {"growth"}

# Larger inputs show nothing new and make the corpus large; time is tried on repeated ones.
MAX_KEPT_BYTES = 2000
INPUT_SECONDS = 25
MEMORY_MB = 3000


def main(arguments: Sequence[str]) -> int:
    """Run the lane; returns the exit code."""
    parser = argparse.ArgumentParser(description="Fuzz one target.")
    parser.add_argument("target", choices=NAMES)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where new inputs and crashes go")
    parser.add_argument("--try", type=Path, dest="tried", help="run one input and stop")
    parser.add_argument("--worker", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.tried is not None:
        return try_one(options.target, options.tried)
    if options.worker is not None:
        return work(options.target, options.worker)
    folder = options.folder or Path(tempfile.mkdtemp(prefix=f"fuzz-{options.target}-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"Inputs and crashes go to {folder}.", flush=True)
    guide = importlib.util.find_spec("atheris") is not None and options.target not in UNGUIDED
    if not guide:
        print("Mutations by chance, not led by coverage.", flush=True)
        return without_guidance(options.target, folder, options.seconds, options.seed)
    return guided(options.target, folder, options.seconds, options.seed)


def seeds_of(target: str) -> list[bytes]:
    """The corpus of a target, in a fixed order."""
    return [path.read_bytes() for path in sorted((CORPUS / target).iterdir())]


def try_one(target: str, file: Path) -> int:
    """One input, with the traceback of what it breaks."""
    targets = importlib.import_module("targets")
    with tempfile.TemporaryDirectory() as folder, targets.TARGETS[target](Path(folder)) as check:
        check(file.read_bytes())
    print("Every promise holds.")
    return 0


def without_guidance(target: str, folder: Path, seconds: int, seed: int) -> int:
    """Mutations of the corpus by chance, until the time is over or one breaks a promise."""
    targets = importlib.import_module("targets")
    chance, seeds = random.Random(seed), seeds_of(target)
    until, runs = time.monotonic() + seconds, 0
    with tempfile.TemporaryDirectory() as place, targets.TARGETS[target](Path(place)) as check:
        while time.monotonic() < until:
            data = mutated(seeds, chance)
            runs += 1
            try:
                check(data)
            except Exception:
                kept = folder / f"crash-{sha1(data, usedforsecurity=False).hexdigest()}"
                kept.write_bytes(data)
                print(f"{runs:,} inputs; the last one is {kept}.", flush=True)
                raise
    print(f"{runs:,} inputs, every promise holds.")
    return 0


def guided(target: str, folder: Path, seconds: int, seed: int) -> int:
    """A run of libFuzzer, then a second that takes what is new into the corpus."""
    words = folder / "words.dict"
    words.write_text(dictionary(), "ascii")
    found, kept = folder / "found", CORPUS / target
    found.mkdir(exist_ok=True)
    # libFuzzer starts itself again by the name that it was started by.
    worker = folder / f"fuzz-{target}"
    command = shlex.join([sys.executable, str(Path(__file__).resolve()), target, "--worker"])
    worker.write_text(f'#!/bin/sh\nexec {command} "$0" "$@"\n', "utf-8")
    worker.chmod(0o755)
    limits = [f"-timeout={INPUT_SECONDS}", f"-rss_limit_mb={MEMORY_MB}"]
    fuzzing = [
        *(f"-max_total_time={seconds}", f"-seed={seed}", f"-dict={words}", "-print_final_stats=1"),
        *(f"-max_len={MAX_BYTES}", f"-artifact_prefix={folder}/", str(found), str(kept)),
    ]
    code = subprocess.run([worker, *limits, *fuzzing], check=False).returncode
    # How often a line is run is worth an input while fuzzing, but not for ever.
    merging = ["-merge=1", "-use_counters=0", f"-max_len={MAX_KEPT_BYTES}", str(kept), str(found)]
    merged = subprocess.run([worker, *limits, *merging], check=False).returncode
    return code or merged


def work(target: str, arguments: Sequence[str]) -> int:
    """Be the process that libFuzzer runs in; it ends the process itself."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["vaultmem"]):
        targets = importlib.import_module("targets")
        # Imported where they are used: they must be instrumented before.
        for name in ("vaultmem.embedding.wordpiece", "vaultmem.retrieval.repair"):
            importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder, targets.TARGETS[target](Path(folder)) as check:
        atheris.Setup(list(arguments), check)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
