"""What must hold of anything vaultmem makes of a text: questions that raise AssertionError."""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from itertools import pairwise
from math import isfinite
from time import process_time

from vaultmem.model.chunk import Chunk
from vaultmem.model.note import Heading, Item, Link, Note, Part, Screening
from vaultmem.vault.inline import MASK
from vaultmem.vault.paths import fold
from vaultmem.vault.pieces import estimate_pieces, measure_pieces

# Time: nobody's note comes near it, and what is worse than linear soon does.
LEAST_SECONDS = 0.3
SECONDS_A_CHARACTER = 100e-6
# A text four times as long may take this many times as long.
GROWTH = 8.0
# Below this, what a clock says of growth is noise.
TELLING_SECONDS = 0.15

# The estimate counts letters for more where a text has accents, so parts do not add up to the
# whole; nothing counts for twice as much.
PARTS_TO_WHOLE = 2.0

# Every character of a properties block escaped, and its quotes, commas and braces.
MAX_PROPERTIES_CHARS = 1_000_000
MAX_PROPERTIES_DEPTH = 21

_BLOCK_ID = re.compile(r"[A-Za-z0-9-]+")


def spent(work: Callable[[], object]) -> float:
    """The processor seconds that `work` takes."""
    started = process_time()
    work()
    return process_time() - started


def in_time(seconds: float, size: int) -> None:
    """No text takes longer than its length allows."""
    allowed = LEAST_SECONDS + SECONDS_A_CHARACTER * size
    assert seconds <= allowed, f"{seconds:.2f} s for a text of {size:,}, {allowed:.2f} s allowed"


def grows_evenly(work: Callable[[int], object], size: int) -> None:
    """The time that `work` takes for a size grows no faster than the size.

    What looks too slow is measured again, the lesser of two on both sides: what disturbs one
    measurement rarely disturbs both.
    """
    whole = spent(lambda: work(size))
    if whole < TELLING_SECONDS:
        return
    part = spent(lambda: work(size // 4))
    if whole > GROWTH * part:
        whole = min(whole, spent(lambda: work(size)))
        part = max(part, spent(lambda: work(size // 4)))
    assert whole <= GROWTH * part + TELLING_SECONDS, (
        f"{size // 4:,} bytes take {part:.2f} s, {size:,} take {whole:.2f} s"
    )


def sound(*values: object) -> None:
    """No text among the values, however deep, holds half of a character."""
    for text in texts_of(values):
        assert text.isascii() or text.encode("utf-8", "replace").decode() == text, (
            f"a lone surrogate in {text[:80]!a}"
        )


def texts_of(value: object) -> Iterable[str]:
    """Every text within a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from texts_of(key)
            yield from texts_of(part)
    elif isinstance(value, tuple | list | set | frozenset):
        for part in value:
            yield from texts_of(part)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from texts_of(getattr(value, field.name))


def plain_properties(properties: Mapping[str, object]) -> None:
    """Properties are JSON values and nothing else, and not many."""
    _plain(properties, 0)
    written = json.dumps(properties, allow_nan=False, ensure_ascii=False)
    assert len(written) <= MAX_PROPERTIES_CHARS, f"{len(written):,} characters of properties"
    sound(written)


def _plain(value: object, depth: int) -> None:
    assert depth <= MAX_PROPERTIES_DEPTH, "properties too deep"
    if isinstance(value, dict):
        for key, part in value.items():
            assert type(key) is str, f"a key is a {type(key).__name__}"
            _plain(part, depth + 1)
    elif isinstance(value, list):
        for part in value:
            _plain(part, depth + 1)
    else:
        known = value is None or type(value) in (str, int, float, bool)
        assert known, f"a property is a {type(value).__name__}"
        assert type(value) is not float or isfinite(value), f"a property is {value}"


def sound_note(note: Note) -> None:
    """Places lie in the text and in order, and what was found has the form that it must have."""
    text, starts = note.text, note.line_starts
    count = len(starts)
    assert starts == (0, *(at + 1 for at, c in enumerate(text) if c == "\n")), "lines"
    assert "\r" not in text
    assert 0 < len(note.title) <= 300
    assert 0 <= note.frontmatter.end <= len(text)
    assert 0 <= note.frontmatter.lines <= count
    plain_properties(note.frontmatter.properties)
    ordered_lines([heading.line for heading in note.headings], count)
    for heading in note.headings:
        _sound_heading(heading, note)
    for block in note.blocks:
        assert 0 <= block.first < block.after <= count, f"{block} of {count} lines"
    assert all(a.first <= b.first for a, b in pairwise(note.blocks)), "blocks out of order"
    sound_links([link for link in note.links if link.key is None], count)
    for link in note.links:
        assert 1 <= link.line <= count
    assert len({fold(tag) for tag in note.tags}) == len(note.tags), "a tag twice"
    sound_tags(note.tags)
    assert all(alias == alias.strip() != "" for alias in note.aliases)
    for found in (note.block_ids, note.tasks, note.callouts, note.fields):
        ordered_lines([part.line for part in found], count)
    assert all(_BLOCK_ID.fullmatch(found.id) for found in note.block_ids)
    assert all(len(task.status) == 1 for task in note.tasks)
    one_line(*(task.text for task in note.tasks))
    one_line(*(text for c in note.callouts for text in (c.kind, c.title)))
    one_line(*(text for f in note.fields for text in (f.key, f.value)))
    assert all(field.key.strip() for field in note.fields), "a field without a key"
    _sound_parts(note.parts, len(text))
    for problem in note.problems:
        assert problem.path == note.path
        assert problem.code
        assert problem.message
        # Of a note that is kept out as a whole, lines are those of the file.
        assert 0 <= problem.line <= count or note.screening is Screening.WITHHELD, problem
    assert all(1 <= finding.line <= count for finding in note.findings), note.findings
    for arrow in note.arrows:
        assert 1 <= arrow.line <= count, arrow
    sound(note.title, text, note.frontmatter, note.headings, note.links, note.tags, note.aliases)
    sound(note.block_ids, note.tasks, note.callouts, note.fields, note.arrows, note.problems)


def _sound_heading(heading: Heading, note: Note) -> None:
    assert 1 <= heading.level <= 6
    assert heading.start == note.line_starts[heading.line - 1], heading
    assert heading.body == -1 or heading.start < heading.body <= len(note.text), heading
    assert heading.text == heading.text.strip()


def _sound_parts(parts: Sequence[Part], length: int) -> None:
    assert all(0 <= part.start <= part.end <= length for part in parts), parts
    assert all(a.end <= b.start for a, b in pairwise(parts)), parts


def sound_links(links: Sequence[Link], lines: int) -> None:
    """Links come in order, and wherever one leads, it says so on a line."""
    ordered_lines([link.line for link in links], lines)
    for link in links:
        assert not link.subpath or link.subpath[0] == "#", link
        assert link.target or link.subpath or link.display is not None, link


def sound_tags(tags: Iterable[str]) -> None:
    """Tags are words, and none is a number."""
    for tag in tags:
        assert len(tag.split()) == 1, f"a tag of blanks: {tag!a}"
        assert not tag.isdigit()


def ordered_lines(lines: Sequence[int], count: int) -> None:
    """Lines are those of the text, in its order."""
    assert all(1 <= line <= count for line in lines), f"{lines} of {count}"
    assert all(a <= b for a, b in pairwise(lines)), f"{lines} out of order"


def one_line(*texts: str) -> None:
    """Texts that a list shows have no line end."""
    assert all("\n" not in text for text in texts), texts


def sound_mask(text: str, masked: str) -> None:
    """What is masked has the length of the text, and else its characters."""
    assert len(masked) == len(text), "masking changed the length"
    assert all(a in (b, MASK) for a, b in zip(masked, text, strict=True)), "masking changed text"


def sound_items(items: Sequence[Item], lines: int) -> None:
    """Items lie within the text, by their first line, and say when and what they are."""
    assert all(a.first <= b.first for a, b in pairwise(items)), "items out of order"
    for item in items:
        assert 1 <= item.first <= item.last <= lines, f"{item} of {lines} lines"
        assert item.kind
        assert len(item.text) <= 300
        one_line(item.text)
        assert item.date is None or date.fromisoformat(item.date)
    sound(items)


def sound_chunks(note: Note, chunks: Sequence[Chunk]) -> None:
    """Passages are slices of the note, apart from each other, that hold all there is to see."""
    text = note.text
    assert chunks, "a note without a passage"
    for chunk in chunks:
        assert text[chunk.start : chunk.end] == chunk.text, "not a slice"
        assert 0 <= chunk.body <= len(chunk.text)
        if chunk.text:
            assert chunk.first_line == bisect_right(note.line_starts, chunk.start), chunk
            assert chunk.last_line == bisect_right(note.line_starts, chunk.end), chunk
        else:
            assert len(chunks) == 1, "an empty passage beside others"
            assert 1 <= chunk.first_line <= chunk.last_line <= len(note.line_starts)
    assert all(a.end <= b.start for a, b in pairwise(chunks)), "passages overlap"
    assert len({chunk.key for chunk in chunks}) == len(chunks), "a key twice"
    at = 0
    for part in note.parts:
        end = part.start
        while at < len(chunks) and chunks[at].start < part.end:
            left = text[end : chunks[at].start]
            assert not left.strip(), f"in no passage: {left[:80]!a}"
            end = chunks[at].end
            at += 1
        assert end <= max(part.start, part.end), "a passage reaches out of its part"
        assert not text[end : part.end].strip(), f"in no passage: {text[end : part.end][:80]!a}"
    sound(chunks)


def bounded_chunks(note: Note, chunks: Sequence[Chunk], max_pieces: int) -> None:
    """Nothing but a heading's own lines takes a passage beyond the limit."""
    ends = [0, *(chunk.end for chunk in chunks)]
    begins = [*(chunk.start for chunk in chunks), len(note.text)]
    for number, chunk in enumerate(chunks):
        above = estimate_pieces(" ".join(chunk.trail)) if chunk.trail else 0
        room = max(max_pieces // 2, max_pieces - above)
        heading = PARTS_TO_WHOLE * measure_pieces(chunk.text[: chunk.body])
        # Blanks around it were cut with it, and may be lines of a heading that shows nothing.
        before = note.text[ends[number] : chunk.start]
        behind = note.text[chunk.end : begins[number + 1]]
        blanks = PARTS_TO_WHOLE * (measure_pieces(before) + measure_pieces(behind))
        assert chunk.pieces - above - 1 <= room + heading + blanks, (
            f"{chunk.pieces} pieces of {max_pieces} in {chunk.text[:80]!a}"
        )
        real = estimate_pieces(chunk.text)
        assert real <= PARTS_TO_WHOLE * room + heading + 1, f"{real} pieces of {max_pieces}"
