"""A short, seeded share of the fuzzing lane, and for each target faults that it must notice.

Every input of the corpus and thousands of mutations, the same in every run; fuzz.py runs longer.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import process_time

import pytest
from fuzz import NAMES, seeds_of
from mutate import mutated
from secrets_target import check_secrets
from targets import (
    CANARY,
    TARGETS,
    Found,
    Taken,
    Target,
    check_frontmatter,
    check_growth,
    check_links,
    check_note,
    query_target,
    scan_text,
    take_in,
)

from vaultmem.index.rows import FoundNote
from vaultmem.model.errors import SidecarDamaged
from vaultmem.model.note import Frontmatter, Item, Problem
from vaultmem.security.mask import mask
from vaultmem.security.secrets import Secret, find_secrets
from vaultmem.service.application import Memory
from vaultmem.service.find_note import find_note
from vaultmem.service.operations.search import SearchReply, SearchRequest, search
from vaultmem.vault.frontmatter import read_frontmatter
from vaultmem.vault.linktext import wikilink_text
from vaultmem.vault.read import Unread

# Mutations of a target in a run of the tests; as many as take about two seconds.
SAMPLES = {
    "note": 1500,
    "frontmatter": 4000,
    "links": 2000,
    "query": 1000,
    "path": 3000,
    "growth": 0,  # one takes half a second
    "secrets": 400,
}
SEED = 20240305


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[str], Target]]:
    """Open a target in a folder of its own."""
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(TARGETS[name](tmp_path / name))


def test_every_target_has_a_corpus_and_a_sample() -> None:
    assert tuple(TARGETS) == NAMES == tuple(SAMPLES)
    assert all(seeds_of(name) for name in NAMES)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "growth"])
def test_no_input_of_the_corpus_breaks_a_promise(
    name: str, opened: Callable[[str], Target]
) -> None:
    check = opened(name)
    for data in seeds_of(name):
        check(data)


@pytest.mark.parametrize("name", [name for name, count in SAMPLES.items() if count])
def test_no_mutation_of_the_corpus_breaks_a_promise(
    name: str, opened: Callable[[str], Target]
) -> None:
    chance, seeds, check = random.Random(SEED), seeds_of(name), opened(name)
    for number in range(SAMPLES[name]):
        data = mutated(seeds, chance)
        try:
            check(data)
        except Exception as error:
            error.add_note(f"mutation {number}, {len(data):,} bytes: {data[:400]!r}")
            raise


@pytest.mark.parametrize("name", NAMES)
def test_no_input_of_the_corpus_is_a_credential(name: str) -> None:
    for data in seeds_of(name):
        assert find_secrets(data.decode("utf-8", "replace")) == ()


# A tenth of what the lane repeats: enough for what is far worse than linear.
def test_the_time_for_repeated_texts_grows_with_their_number() -> None:
    for data in seeds_of("growth"):
        check_growth(data, size=6400)


# Faults


def caught(check: Target, seeds: Sequence[bytes]) -> bool:
    """Whether one of the inputs breaks a promise, and not another way."""
    for data in seeds:
        try:
            check(data)
        except AssertionError:
            return True
    return False


def spin(seconds: float) -> None:
    """Take processor time."""
    until = process_time() + seconds
    while process_time() < until:
        pass


def without_last_chunk(taken: Taken) -> Taken:
    return replace(taken, chunks=taken.chunks[:-1] or taken.chunks)


def with_half_a_character(taken: Taken) -> Taken:
    return replace(taken, note=replace(taken.note, tags=("\ud800",)))


def with_a_late_line(taken: Taken) -> Taken:
    links = tuple(replace(link, line=link.line + 1) for link in taken.note.links)
    return replace(taken, note=replace(taken.note, links=links))


def with_large_chunks(taken: Taken) -> Taken:
    chunks = tuple(replace(chunk, pieces=chunk.pieces * 10) for chunk in taken.chunks)
    return replace(taken, chunks=chunks)


def with_shifted_chunks(taken: Taken) -> Taken:
    chunks = tuple(replace(c, start=c.start + 1, end=c.end + 1) for c in taken.chunks)
    return replace(taken, chunks=chunks)


def with_an_item_beyond(taken: Taken) -> Taken:
    last = len(taken.note.line_starts)
    return replace(taken, items=(Item("error", None, last, last + 1, "", "field"),))


@pytest.mark.parametrize(
    "fault",
    [
        without_last_chunk,
        with_half_a_character,
        with_a_late_line,
        with_large_chunks,
        with_shifted_chunks,
        with_an_item_beyond,
    ],
)
def test_a_fault_in_taking_a_note_in_is_noticed(fault: Callable[[Taken], Taken]) -> None:
    def taking(path: str, data: bytes, limit: int) -> Taken:
        return fault(take_in(path, data, limit))

    assert caught(partial(check_note, taking=taking), seeds_of("note"))


def test_taking_a_note_in_too_slowly_is_noticed() -> None:
    def taking(path: str, data: bytes, limit: int) -> Taken:
        spin(1.0)
        return take_in(path, data, limit)

    assert caught(partial(check_note, taking=taking), [b" text"])


def not_json(found: Frontmatter) -> Frontmatter:
    return replace(found, properties={**found.properties, "x": float("nan")})


def not_text_keys(found: Frontmatter) -> Frontmatter:
    return replace(found, properties={**found.properties, 7: "x"})  # type: ignore[dict-item]


def without_end(found: Frontmatter) -> Frontmatter:
    return replace(found, properties={"x": "y" * 2_000_000})


def half_escaped(found: Frontmatter) -> Frontmatter:
    return replace(found, properties={"x": "\ud83d"})


def too_far(found: Frontmatter) -> Frontmatter:
    return replace(found, end=found.end + 1)


@pytest.mark.parametrize("fault", [not_json, not_text_keys, without_end, half_escaped, too_far])
def test_a_fault_in_reading_properties_is_noticed(
    fault: Callable[[Frontmatter], Frontmatter],
) -> None:
    def reading(path: str, text: str) -> tuple[Frontmatter, tuple[Problem, ...]]:
        found, problems = read_frontmatter(path, text)
        return fault(found), problems

    assert caught(partial(check_frontmatter, reading=reading), [b"---\na: b\n---"])


def test_a_private_note_that_is_let_through_is_noticed() -> None:
    def withholding(text: str, switch: str) -> bool:
        return text.startswith("---\nprivate: true\n")

    faulty = partial(check_frontmatter, withholding=withholding)
    assert not caught(faulty, [b"private: true"])
    assert caught(faulty, [b"a: b\nprivate: true"])


def shorter(found: Found) -> Found:
    return replace(found, masked=found.masked[:-1])


def unmasked_line(found: Found) -> Found:
    return replace(found, masked=found.masked.replace("a", "b"))


def numbered_tags(found: Found) -> Found:
    return replace(found, tags=(*found.tags, "1984"))


def backwards(found: Found) -> Found:
    return replace(found, links=tuple(reversed(found.links)))


def line_by_line(found: Found) -> Found:
    return replace(found, tasks=tuple(replace(t, line=0) for t in found.tasks))


@pytest.mark.parametrize("fault", [shorter, unmasked_line, numbered_tags, backwards, line_by_line])
def test_a_fault_in_scanning_is_noticed(fault: Callable[[Found], Found]) -> None:
    def scanning(text: str) -> Found:
        return fault(scan_text(text))

    seeds = [*seeds_of("links"), b" [[a]] and\n[[b]]"]
    assert caught(partial(check_links, scanning=scanning), seeds)


def test_a_link_written_to_another_file_is_noticed() -> None:
    def writing(names: object, target: str, *others: object, **options: object) -> str:
        return f"[[{target}]]"  # as if no name had a bar in it

    text = b" a|b.md\nc.md"
    assert caught(partial(check_links, writing=writing), [text])
    assert not caught(partial(check_links, writing=wikilink_text), [text])


def test_a_fault_in_answering_is_noticed(opened: Callable[[str], Target]) -> None:
    def answering_nothing_it_knows(memory: Memory, request: SearchRequest) -> SearchReply:
        reply = search(memory, request)
        return replace(reply, hits=tuple(replace(hit, path="gone.md") for hit in reply.hits))

    def answering_too_much(memory: Memory, request: SearchRequest) -> SearchReply:
        reply = search(memory, request)
        return replace(reply, hits=reply.hits * 1001)

    def answering_without_bounds(memory: Memory, request: SearchRequest) -> SearchReply:
        reply = search(memory, request)
        return replace(reply, hits=tuple(replace(hit, score=1.5) for hit in reply.hits))

    check = opened("query")
    assert isinstance(check, partial)
    assert not caught(check, [b"\x02alpha"])
    for fault in (answering_nothing_it_knows, answering_too_much, answering_without_bounds):
        assert caught(partial(check, answering=fault), [b"\x02alpha"])


def test_a_question_that_writes_is_noticed_at_once_and_at_the_end(tmp_path: Path) -> None:
    def answering_and_writing(memory: Memory, request: SearchRequest) -> SearchReply:
        sidecar = memory.open_sidecar()
        assert sidecar is not None
        with sidecar.transaction() as db:
            db.execute("DELETE FROM tag")
        return search(memory, request)

    target = query_target(tmp_path)
    check = target.__enter__()
    assert isinstance(check, partial)

    assert caught(partial(check, answering=answering_and_writing), [b"\x02alpha"])
    with pytest.raises(AssertionError, match="questions changed"):
        target.__exit__(None, None, None)


def test_a_question_that_raises_is_noticed(opened: Callable[[str], Target]) -> None:
    def raw(memory: Memory, request: SearchRequest) -> SearchReply:
        with memory.guarded():
            memory.lookup()
            assert memory.sidecar is not None
            memory.sidecar.connection.execute(
                "SELECT rowid FROM passage_text WHERE passage_text MATCH ?", (request.query,)
            ).fetchall()
        return search(memory, request)

    check = opened("query")
    assert isinstance(check, partial)
    with pytest.raises(SidecarDamaged):
        check(b'\x02alpha "', answering=raw)


def test_a_door_that_follows_links_is_noticed(opened: Callable[[str], Target]) -> None:
    def following(vault: Path, path: str, limit: int) -> bytes | Unread:
        try:
            return (vault / path).read_bytes()
        except (OSError, ValueError):
            return Unread("missing", "The file is not there.")

    def climbing(vault: Path, path: str, limit: int) -> bytes | Unread:
        if (vault / path).is_symlink():
            return Unread("linked", "It is a link.")
        return following(vault, path, limit)

    def prefixed(vault: Path, path: str, limit: int) -> bytes | Unread:
        whole = (vault / path).resolve()
        inside = str(whole).startswith(str(vault)) and not (vault / path).is_symlink()
        return following(vault, path, limit) if inside else Unread("linked", "Outside.")

    check = opened("path")
    assert isinstance(check, partial)
    for opening, path in (
        (following, "out.md"),
        (following, "out/secret.md"),
        (climbing, "dir/up/outside/secret.md"),
        (climbing, "../outside/secret.md"),
        (prefixed, "../vault-twin/secret.md"),
    ):
        data = b"\x02" + path.encode()
        assert not caught(check, [data])
        assert caught(partial(check, opening=opening), [data])


def test_finding_what_nobody_named_is_noticed(opened: Callable[[str], Target]) -> None:
    def finding_too_much(memory: Memory, given: str) -> tuple[FoundNote, str]:
        found, subpath = find_note(memory.lookup(), given, memory.vault)
        return replace(found, path=CANARY), subpath

    def finding_without_a_mark(memory: Memory, given: str) -> tuple[FoundNote, str]:
        found, subpath = find_note(memory.lookup(), given, memory.vault)
        return found, subpath.lstrip("#")

    check = opened("path")
    assert isinstance(check, partial)
    for finding in (finding_too_much, finding_without_a_mark):
        assert caught(partial(check, finding=finding), [b"\x02Alpha.md#Alpha"])


def everything(text: str) -> tuple[Secret, ...]:
    return (Secret(0, len(text) + 1, "all"),)


def overlapping(text: str) -> tuple[Secret, ...]:
    return (Secret(0, 3, "one"), Secret(2, 4, "two"))


def joined(text: str, secrets: Sequence[Secret]) -> str:
    return mask(text, secrets).replace("\n", " ")


def unmasked(text: str, secrets: Sequence[Secret]) -> str:
    return text


def growing(text: str, secrets: Sequence[Secret]) -> str:
    return text + "."


@pytest.mark.parametrize("finding", [everything, overlapping])
def test_a_secret_found_in_no_place_is_noticed(
    finding: Callable[[str], tuple[Secret, ...]],
) -> None:
    assert caught(partial(check_secrets, finders=(finding,)), [b"text and more"])


@pytest.mark.parametrize("masking", [joined, unmasked, growing])
def test_a_secret_that_is_not_masked_is_noticed(
    masking: Callable[[str, Sequence[Secret]], str],
) -> None:
    def finding(text: str) -> tuple[Secret, ...]:
        return (Secret(0, 5, "first"),)

    faulty = partial(check_secrets, masking=masking, finders=(finding,))
    assert caught(faulty, [b"first line\nand more\n"])


def test_work_that_grows_with_the_square_is_noticed() -> None:
    def square(data: bytes) -> None:
        spin(len(data) ** 2 / 1e8)

    def even(data: bytes) -> None:
        spin(len(data) / 2e4)

    assert caught(partial(check_growth, works=(square,), size=8000), [b"\0a"])
    assert not caught(partial(check_growth, works=(even,), size=8000), [b"\0a"])
