"""What a person keeps to themselves: notes with a property that says so, `<private>` spans."""

import re
from collections.abc import Sequence

from vaultmem.model.note import Problem
from vaultmem.security.mask import placeholder
from vaultmem.vault.blocks import Structure, block_structure
from vaultmem.vault.frontmatter import (
    frontmatter_block,
    frontmatter_lines,
    read_frontmatter,
)
from vaultmem.vault.inline import mask_code
from vaultmem.vault.lines import line_offsets

PLACEHOLDER = "private"

# `<private key>` is what a person is to put there.
_TAG = re.compile(r"<(/?)private(?:\s{1,200}|\s[^<>\n]{0,200}=[^<>\n]{0,200})?>", re.IGNORECASE)


def is_private(text: str, switch: str) -> bool:
    """Whether a note's properties say `switch: true`; also where they are no valid YAML.

    switch: a property's name; "" for none.
    """
    if not switch or not text.startswith("---"):
        return False
    block = frontmatter_block(text)
    if block is None or switch.lower() not in block.lower():
        return False
    name = rf"[\"']?{re.escape(switch)}[\"']?"
    line = rf"^{name}[ \t]*:[ \t]*[\"']?(?:true|yes|on|1)[\"']?[ \t]*(?:#.*)?$"
    if re.search(line, block, re.IGNORECASE | re.MULTILINE) is not None:
        return True
    properties = read_frontmatter("", text)[0].properties
    return any(
        key.lower() == switch.lower() and str(value).lower() in ("true", "yes", "on", "1")
        for key, value in properties.items()
    )


def without_private(path: str, text: str) -> tuple[str, tuple[Problem, ...]]:
    """The text with `[private]` for each `<private>…</private>`; it keeps its number of lines.

    Tags in fences and code spans are text about tags. One that is never closed hides the rest of
    the note: what follows was meant to be hidden, and the problem says from where on.
    """
    starts = line_offsets(text)
    structure = _structure(text, starts)
    # What is indented is code as well, and is so by accident as often as not.
    fences = [
        (first, after)
        for first, after in structure.code
        if text.startswith(("```", "~~~"), _shown(text, starts[first]))
    ]
    masked = mask_code(text, starts, fences, structure.inline)
    spans: list[tuple[int, int]] = []
    depth = began = 0
    for tag in _TAG.finditer(masked):
        if not tag.group(1):
            began = tag.start() if depth == 0 else began
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                spans.append((began, tag.end()))
    problems: tuple[Problem, ...] = ()
    if depth:
        spans.append((began, len(text)))
        line = text.count("\n", 0, began) + 1
        message = "<private> is never closed; everything behind it is kept out of search."
        problems = (Problem(path, line, "private-unclosed", message),)
    parts: list[str] = []
    at = 0
    for start, end in spans:
        parts += (text[at:start], placeholder(text, start, end, PLACEHOLDER))
        at = end
    return "".join([*parts, text[at:]]), problems


def _shown(text: str, at: int) -> int:
    """Where the first character of a line stands that is no blank and no mark of a quotation."""
    while at < len(text) and text[at] in " \t>":
        at += 1
    return at


def _structure(text: str, line_starts: Sequence[int]) -> Structure:
    try:
        return block_structure(text, line_starts, frontmatter_lines(text))
    except Exception:  # noqa: BLE001 - where blocks cannot be told apart, no tag is one in code
        return Structure((), (), (), ())
