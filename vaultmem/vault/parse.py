"""From the bytes of a file to a Note. Never raises, for any bytes."""

import codecs
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

from vaultmem.model.note import (
    Block,
    BlockId,
    Callout,
    Field,
    Frontmatter,
    Heading,
    Link,
    Note,
    Part,
    Problem,
    Properties,
    Screening,
    Task,
    note_name,
)
from vaultmem.security.mask import mask
from vaultmem.security.secrets import find_secrets
from vaultmem.vault.blocks import Structure, block_structure
from vaultmem.vault.canvas import Canvas
from vaultmem.vault.excalidraw import drawing_parts
from vaultmem.vault.frontmatter import ABSENT, read_frontmatter
from vaultmem.vault.inline import (
    distinct,
    find_block_ids,
    find_callouts,
    find_fields,
    find_links,
    find_tags,
    find_tasks,
    markdown_link,
    mask_code,
    wikilink,
)
from vaultmem.vault.lines import line_offsets
from vaultmem.vault.markers import find_markers, marker_fault
from vaultmem.vault.paths import is_canvas
from vaultmem.vault.screen import (
    DECODED,
    SECRET,
    Screen,
    Screened,
    screened,
    screened_canvas,
    screened_properties,
    secrets_problem,
)

# Bump when the meaning of a note changes, so that sidecars are rebuilt.
PARSER_VERSION = 6

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_WIDE = (
    ("utf-32", (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)),
    ("utf-16", (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)),
)

# A title is a line on a screen; what is longer is cut, never refused.
MAX_TITLE_CHARS = 300
# So is a tag or an alias; no file has a longer name.
MAX_NAME_CHARS = 300
# A note can give one block id a hundred thousand times. A person mends some and looks again.
MAX_DOUBLED_IDS = 50


# Nothing is allowed, and nothing is left in: what holds where nobody says otherwise.
STRICT = Screen()


def parse(
    path: str,
    data: bytes,
    screen: Screen | None = STRICT,
    *,
    clean: Screened | None = None,
) -> Note:
    """Understand one note, drawing or canvas.

    path:   its vault path.
    data:   the bytes of the file.
    screen: what is kept out of the note's text, and so out of everything that comes of it; None
            for a file of which it is known that there is nothing to keep out.
    clean:  what `screened_file` gave, where it was asked before.
    """
    whole, problems = decode(path, data)
    if is_canvas(path):
        canvas, of_cards = screened_canvas(path, whole, screen)
        # Lines are those of the cards' text, which a place in the file is none of.
        problems = tuple(replace(problem, line=0) for problem in problems)
        return _canvas_note(path, canvas, problems + of_cards.problems, of_cards)
    clean = clean or _clean(path, whole, screen)
    text = clean.text
    problems += clean.problems
    frontmatter, block_problems = read_frontmatter(path, text, placeholders=clean.placeholders)
    findings = clean.findings
    if screen is not None and screen.secrets != "off" and DECODED.search(frontmatter.text):
        cleaned, more = screened_properties(frontmatter.properties, screen)
        if more:
            frontmatter = replace(frontmatter, properties=cleaned)
            findings = (*more, *findings)
            summary = secrets_problem(path, findings, screen)
            problems = tuple(p for p in problems if p.code != SECRET)
            problems += (summary,) if summary else ()
            clean = replace(clean, findings=findings, screening=Screening.PARTS)
    starts = line_offsets(text)
    body = _read_body(path, text, starts, frontmatter, marked=clean.markers)
    links = (*body.links, *_property_links(frontmatter))
    if screen is not None and screen.secrets == "mask" and _ENCODED.search(text):
        links = tuple(map(_clean_link, links))
    properties = frontmatter.properties
    tags, tag_problems = _property_names(path, properties, "tags")
    aliases, alias_problems = _property_names(path, properties, "aliases")
    parts = drawing_parts(path, frontmatter, text)
    if parts is None:
        parts = (Part(frontmatter.end, len(text)),)
    problems += block_problems + tag_problems + alias_problems + body.problems
    return Note(
        path=path,
        title=_title(path, properties),
        text=text,
        line_starts=starts,
        frontmatter=frontmatter,
        headings=body.headings,
        blocks=body.blocks,
        links=links,
        tags=distinct([*filter(None, map(_tag_value, tags)), *body.tags]),
        aliases=aliases,
        block_ids=body.block_ids,
        tasks=body.tasks,
        callouts=body.callouts,
        fields=body.fields,
        parts=parts,
        arrows=(),
        problems=problems + _twice_given(path, body.block_ids),
        findings=clean.findings,
        screening=clean.screening,
    )


@dataclass(frozen=True, slots=True)
class _Body:
    """What the Markdown of a note, or of one card of a canvas, holds."""

    headings: tuple[Heading, ...] = ()
    blocks: tuple[Block, ...] = ()
    links: tuple[Link, ...] = ()
    tags: tuple[str, ...] = ()
    block_ids: tuple[BlockId, ...] = ()
    tasks: tuple[Task, ...] = ()
    callouts: tuple[Callout, ...] = ()
    fields: tuple[Field, ...] = ()
    problems: tuple[Problem, ...] = ()


def _read_body(
    path: str,
    text: str,
    starts: tuple[int, ...],
    frontmatter: Frontmatter,
    *,
    marked: bool = False,
) -> _Body:
    """marked: whether there may be marks of managed blocks."""
    problems: tuple[Problem, ...] = ()
    try:
        structure = block_structure(text, starts, frontmatter.lines)
    except Exception as error:  # noqa: BLE001 - one odd text must not keep a vault from its index
        structure = Structure((), (), (), ())
        reason = (
            f"Its blocks cannot be told apart ({type(error).__name__}); it is searched as text."
        )
        problems = (Problem(path, 0, "structure-unread", reason),)
    masked = mask_code(text, starts, structure.code, structure.inline)
    fault = marker_fault(find_markers(masked)) if marked else None
    if fault is not None:
        message = (
            f"A mark of a managed block is out of place: {fault[1]}. The note is not written to."
        )
        problems += (Problem(path, fault[0], "markers", message),)
    start = frontmatter.end
    links, without_links = find_links(masked, starts, start, text)
    callouts = find_callouts(masked, starts, start, text)
    if callouts:
        # A callout is a quotation whose first line says so.
        quoted = {block.first + 1 for block in structure.blocks if block.kind == "quote"}
        callouts = tuple(callout for callout in callouts if callout.line in quoted)
    block_ids = find_block_ids(without_links, starts, start)
    if block_ids:
        # An id names a block at whose end it stands.
        last_lines = {after for _, after in structure.inline}
        block_ids = tuple(found for found in block_ids if found.line in last_lines)
    return _Body(
        structure.headings,
        structure.blocks,
        tuple(links),
        tuple(find_tags(without_links, start)),
        block_ids,
        find_tasks(masked, starts, start, text),
        callouts,
        find_fields(masked, starts, start, text),
        problems,
    )


# Signs of a token that a link can spell in hexadecimal; a blank (`%20`) is none.
_ENCODED = re.compile("%(?:2[BbDdEeFf]|3[0-9Dd]|[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff])")


def _clean_link(link: Link) -> Link:
    """A link whose target and subpath, once they were decoded, hold no secret."""
    target, subpath = find_secrets(link.target), find_secrets(link.subpath)
    if not target and not subpath:
        return link
    return replace(link, target=mask(link.target, target), subpath=mask(link.subpath, subpath))


def screened_file(path: str, data: bytes, screen: Screen) -> Screened | None:
    """What of a note's text may go on; None for a canvas, whose cards are screened one by one."""
    return None if is_canvas(path) else screened(path, decode(path, data)[0], screen)


def _clean(path: str, text: str, screen: Screen | None) -> Screened:
    return Screened(text, Screening.NOTHING) if screen is None else screened(path, text, screen)


def _canvas_note(path: str, canvas: Canvas, problems: tuple[Problem, ...], clean: Screened) -> Note:
    """A canvas as a note: each card is read by itself, so that nothing reaches into the next."""
    starts = line_offsets(canvas.text)
    bodies: list[_Body] = []
    parts: list[Part] = []
    for at, card in canvas.cards:
        line = bisect_right(starts, at) - 1
        parts.append(Part(at, at + len(card.text)))
        if card.markdown:
            bodies.append(
                _shifted(
                    _read_body(
                        path, card.text, line_offsets(card.text), ABSENT, marked=clean.markers
                    ),
                    line,
                    at,
                )
            )
        elif card.file:
            link = Link(card.file, card.subpath, None, embed=True, line=line + 1, exact=True)
            bodies.append(_Body(links=(link,)))
    began, ended = canvas.labelled
    if ended > began:
        parts.append(Part(began, ended))
    return Note(
        path=path,
        title=note_name(path)[: -len(".canvas")],
        text=canvas.text,
        line_starts=starts,
        frontmatter=ABSENT,
        headings=tuple(heading for body in bodies for heading in body.headings),
        blocks=tuple(block for body in bodies for block in body.blocks),
        links=tuple(link for body in bodies for link in body.links),
        tags=distinct([tag for body in bodies for tag in body.tags]),
        aliases=(),
        block_ids=tuple(block_id for body in bodies for block_id in body.block_ids),
        tasks=tuple(task for body in bodies for task in body.tasks),
        callouts=tuple(callout for body in bodies for callout in body.callouts),
        fields=tuple(field for body in bodies for field in body.fields),
        parts=tuple(parts),
        arrows=canvas.arrows,
        problems=problems + canvas.problems + tuple(p for body in bodies for p in body.problems),
        findings=clean.findings,
        screening=clean.screening,
    )


def _shifted(body: _Body, lines: int, offset: int) -> _Body:
    """What was found in a card, at the place the card has in the whole text."""
    return _Body(
        tuple(
            replace(h, line=h.line + lines, start=h.start + offset, body=h.body + offset)
            if h.body >= 0
            else replace(h, line=h.line + lines, start=h.start + offset)
            for h in body.headings
        ),
        tuple(Block(b.kind, b.depth, b.first + lines, b.after + lines) for b in body.blocks),
        tuple(replace(link, line=link.line + lines) for link in body.links),
        body.tags,
        tuple(replace(block_id, line=block_id.line + lines) for block_id in body.block_ids),
        tuple(replace(task, line=task.line + lines) for task in body.tasks),
        tuple(replace(callout, line=callout.line + lines) for callout in body.callouts),
        tuple(replace(field, line=field.line + lines) for field in body.fields),
        body.problems,
    )


def _twice_given(path: str, block_ids: tuple[BlockId, ...]) -> tuple[Problem, ...]:
    """A problem for each block id that a note gives again: links reach the first alone."""
    first: dict[str, int] = {}
    problems: list[Problem] = []
    for block_id in block_ids:
        line = first.setdefault(block_id.id.lower(), block_id.line)
        if line != block_id.line:
            message = (
                f"The block id ^{block_id.id[:60]} is given in line {line} already; "
                "links lead there and never here."
            )
            problems.append(Problem(path, block_id.line, "block-id-duplicate", message))
            if len(problems) == MAX_DOUBLED_IDS:
                break
    return tuple(problems)


def readable(path: str, data: bytes, screen: Screen | None = STRICT) -> str:
    """The text that lines and offsets of a note count in: the file's; of a canvas, its cards'.

    screen: see parse.
    """
    text = decode(path, data)[0]
    if is_canvas(path):
        return screened_canvas(path, text, screen)[0].text
    return _clean(path, text, screen).text


def decode(path: str, data: bytes) -> tuple[str, tuple[Problem, ...]]:
    """The text of a file: UTF-8, else what its bytes look most like, with a problem.

    The BOM is dropped and every line end becomes `\\n`. A file with NUL bytes that is no UTF-16 or
    UTF-32 holds no text: it is known by its name only.
    """
    text, problem = _decoded(path, data)
    if text.startswith("\ufeff"):
        text = text[1:]
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text, (problem,) if problem else ()


def _decoded(path: str, data: bytes) -> tuple[str, Problem | None]:
    for encoding, marks in _WIDE:
        if data.startswith(marks):
            message = f"The file is {encoding.upper()}; Obsidian expects UTF-8."
            return data.decode(encoding, errors="replace"), Problem(path, 0, "encoding", message)
    try:
        return data.decode("utf-8"), None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
    if b"\0" in data[:8192]:
        message = "The file holds no text; it is known by its name only."
        return "", Problem(path, 0, "binary", message)
    mended = data.decode("utf-8", errors="replace")
    sound = sum(character > "\x7f" for character in mended) - mended.count("\ufffd")
    if sound > mended.count("\ufffd"):
        message = "The file has bytes that are not UTF-8; they are left out."
        return mended, Problem(path, line, "encoding", message)
    message = "The file is not UTF-8; it is read as Windows-1252. Save it as UTF-8."
    return data.decode("cp1252", errors="replace"), Problem(path, line, "encoding", message)


def _title(path: str, properties: Properties) -> str:
    for key, value in properties.items():
        if key.lower() == "title" and isinstance(value, str) and value.strip():
            return " ".join(value.split())[:MAX_TITLE_CHARS]
    return note_name(path)


_OLD_NAMES = {"tags": "tag", "aliases": "alias"}


def _property_names(
    path: str, properties: Properties, wanted: str
) -> tuple[tuple[str, ...], tuple[Problem, ...]]:
    """The texts under `tags` or `aliases` (any case); items of other types yield nothing."""
    names: list[str] = []
    problems: list[Problem] = []
    for key, value in properties.items():
        # `alias` and `tag` are ignored since Obsidian 1.9, but a mapping there is worth a word.
        if key.lower() not in (wanted, _OLD_NAMES[wanted]) or value is None:
            continue
        items = value if isinstance(value, list) else [value]
        if key.lower() == wanted:
            texts = [item.strip() for item in items if isinstance(item, str)]
            names += [text[:MAX_NAME_CHARS].rstrip() for text in texts if text]
        # A tag that is a mapping is one of many odd ones, and no name is lost by it.
        if any(isinstance(item, dict) for item in (items if wanted == "aliases" else [value])):
            problems.append(
                Problem(
                    path,
                    1,
                    "property-invalid",
                    f"The property {key} holds a mapping where names are expected; it is skipped.",
                )
            )
    return tuple(names), tuple(problems)


def _tag_value(value: str) -> str | None:
    """A tag from a property: one `#` may lead; blanks, commas or digits alone make it none.

    What else ends a tag in the text may stand here: `node.js`, `c++`.
    """
    tag = value[1:] if value.startswith("#") else value
    whole = len(tag.split()) == 1 and "," not in tag and not tag.startswith("#")
    return tag if whole and not tag.isdigit() else None


def _property_links(frontmatter: Frontmatter) -> Iterator[Link]:
    """Links among the properties: a text that is a whole link, alone or in a list.

    An unquoted `[[x]]` is a list of lists for YAML and no link, as in Obsidian.
    """
    if "[[" not in frontmatter.text and "](" not in frontmatter.text:
        return
    text = frontmatter.text
    spans = _key_spans(text)
    for key, value in frontmatter.properties.items():
        at, end = spans.get(key, (0, len(text)))
        for link in _links_in(key, value, 1):
            # Links come in the order of the text, so each is behind the one before it.
            found = text.find(f"[[{link.target}", at, end)
            if found < 0:
                found = text.find("](", at, end)  # its target may be percent-encoded
            begin = found if found >= 0 else at
            at = found + 2 if found >= 0 else at
            yield replace(link, line=text.count("\n", 0, begin) + 2)


def _key_spans(text: str) -> dict[str, tuple[int, int]]:
    """Where each top-level key's lines begin and end in a properties block."""
    spans: dict[str, tuple[int, int]] = {}
    key, start, at = None, 0, 0
    for line in text.split("\n"):
        name, colon, _ = line.partition(":")
        if colon and not line[:1].isspace() and not line.startswith("- "):
            if key is not None:
                spans.setdefault(key, (start, at))
            key, start = name.strip(" \t\"'"), at
        at += len(line) + 1
    if key is not None:
        spans.setdefault(key, (start, len(text)))
    return spans


def _links_in(key: str, value: object, line: int) -> Iterator[Link]:
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("[[") and text.endswith("]]") and "\n" not in text:
            inner = text[2:-2]
            if inner and "[[" not in inner and "]]" not in inner:
                yield wikilink(inner, embed=False, line=line, key=key)
        elif text.startswith("[") and text.endswith(")") and "](" in text:
            display, _, destination = text[1:-1].partition("](")
            bracketed = destination.startswith("<") and destination.endswith(">")
            if not bracketed and " " in destination:
                return
            link = markdown_link(
                destination[1:-1] if bracketed else destination,
                display,
                embed=False,
                line=line,
                key=key,
            )
            if link is not None:
                yield link
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _links_in(f"{key}.{index}", part, line)
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _links_in(f"{key}.{name}", part, line)
