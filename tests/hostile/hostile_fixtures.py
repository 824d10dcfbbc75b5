"""Fixtures: each hostile vault is made and asked everything once a session."""

import functools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hostile_vaults import NOBODY, VARIANTS, Asked, Child, listing, make_removable, note_of
from watch import read_record


@pytest.fixture(scope="session")
def scratch_folder() -> Iterator[Callable[[], Path]]:
    """Make scratch folders that another user can be given, with names short enough for the
    longest path."""
    made: list[Path] = []

    def make() -> Path:
        made.append(Path(os.path.realpath(tempfile.mkdtemp(prefix="hostile-"))))
        return made[-1]

    yield make
    for folder in made:
        make_removable(folder)
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def hostile_vault(scratch_folder: Callable[[], Path]) -> Callable[[str], Asked]:
    """One of the vaults by the name of its variant."""

    @functools.cache
    def ask(name: str) -> Asked:
        variant = VARIANTS[name]
        drops = variant.unprivileged and os.geteuid() == 0
        child = Child(scratch_folder(), NOBODY if drops else None)
        out = child.scratch / "out"
        child.run("generate", seed=variant.seed, only="")
        manifest = json.loads((out / "manifest.json").read_text("utf-8"))
        before = listing(out)
        record = child.scratch / "jobs" / "record" if variant.watched else None
        answers, printed = child.run(
            "everything",
            record=record,
            rows=[{**row, "path": note_of(row)} for row in manifest["rows"]],
            far_ahead=variant.thorough,
            thorough=variant.thorough,
        )
        return Asked(
            child=child,
            rows=tuple(manifest["rows"]),
            not_written=tuple(cid for cid, _ in manifest["not_written"]),
            answers=answers,
            printed=printed,
            events=tuple(read_record(record)) if record is not None else (),
            before=before,
            after=listing(out),
            reads_everything=os.geteuid() == 0 and not drops,
        )

    return ask


@pytest.fixture(scope="session")
def first(hostile_vault: Callable[[str], Asked]) -> Asked:
    """The vault of the first seed."""
    return hostile_vault("first")


@pytest.fixture(scope="session", params=list(VARIANTS))
def each(request: pytest.FixtureRequest, hostile_vault: Callable[[str], Asked]) -> Asked:
    """The vault of each seed."""
    return hostile_vault(request.param)
