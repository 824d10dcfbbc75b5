"""From the bytes of a file to a Note. Never raises, for any bytes."""

import codecs
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate

from vaultmem.model.note import Frontmatter, Link, Note, Problem, Properties, note_name
from vaultmem.vault.blocks import block_structure
from vaultmem.vault.frontmatter import read_frontmatter
from vaultmem.vault.inline import (
    distinct,
    find_block_ids,
    find_callouts,
    find_links,
    find_tags,
    find_tasks,
    markdown_link,
    mask_code,
    wikilink,
)

# Bump when the meaning of a note changes, so that sidecars are rebuilt.
PARSER_VERSION = 3

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_WIDE = (
    ("utf-32", (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)),
    ("utf-16", (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)),
)

# A title is a line on a screen; what is longer is cut, never refused.
MAX_TITLE_CHARS = 300


def parse(path: str, data: bytes) -> Note:
    """Understand one note.

    path: its vault path.
    data: the bytes of the file.
    """
    text, problems = decode(path, data)
    frontmatter, block_problems = read_frontmatter(path, text)
    problems += block_problems
    starts = line_offsets(text)
    structure = block_structure(text, starts, frontmatter.lines)
    masked = mask_code(text, starts, structure.code, structure.inline)
    links, without_links = find_links(masked, starts, frontmatter.end)
    properties = frontmatter.properties
    tags, tag_problems = _property_names(path, properties, "tags")
    aliases, alias_problems = _property_names(path, properties, "aliases")
    return Note(
        path=path,
        title=_title(path, properties),
        text=text,
        line_starts=starts,
        frontmatter=frontmatter,
        headings=structure.headings,
        blocks=structure.blocks,
        links=(*links, *_property_links(frontmatter)),
        tags=distinct(
            [tag for tag in map(_tag_value, tags) if tag]
            + find_tags(without_links, frontmatter.end)
        ),
        aliases=aliases,
        block_ids=find_block_ids(without_links, starts, frontmatter.end),
        tasks=find_tasks(masked, starts, frontmatter.end),
        callouts=find_callouts(masked, starts, frontmatter.end),
        problems=problems + tag_problems + alias_problems,
    )


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


def line_offsets(text: str) -> tuple[int, ...]:
    """Offset of the first character of each line."""
    lengths = map(len, text.split("\n"))
    starts = list(accumulate(lengths, lambda at, length: at + length + 1, initial=0))
    starts.pop()
    return tuple(starts)


def _title(path: str, properties: Properties) -> str:
    value = properties.get("title")
    if isinstance(value, str) and value.strip():
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
            names += [item.strip() for item in items if isinstance(item, str) and item.strip()]
        if any(isinstance(item, dict) for item in items):
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
    """A tag from a property: one `#` may lead; blanks or digits alone make it none."""
    tag = value[1:] if value.startswith("#") else value
    found = find_tags("#" + tag, 0)
    return tag if found == [tag] else None


def _property_links(frontmatter: Frontmatter) -> Iterator[Link]:
    """Links among the properties: a text that is a whole link, alone or in a list."""
    if "[[" not in frontmatter.text and "](" not in frontmatter.text:
        return
    text = frontmatter.text
    spans = _key_spans(text)
    for key, value in frontmatter.properties.items():
        at, end = spans.get(key, (0, len(text)))
        for link in _links_in(key, value, 1):
            # Links come in the order of the text, so each is at or behind the one before it.
            found = text.find(link.target, at, end)
            at = found if found >= 0 else at
            yield replace(link, line=text.count("\n", 0, at) + 2)


def _key_spans(text: str) -> dict[str, tuple[int, int]]:
    """Where each top-level key's lines begin and end in a properties block."""
    spans: dict[str, tuple[int, int]] = {}
    key, start, at = None, 0, 0
    for line in text.split("\n"):
        name, colon, _ = line.partition(":")
        if colon and not line[:1].isspace():
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
