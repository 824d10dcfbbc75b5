"""What of an Excalidraw drawing is text: its text elements, and what stands on its back.

The plugin keeps a drawing in a Markdown file: a warning, the person's own text (the back of the
drawing), then sections of its own, of which only the text elements say anything. The drawing
itself is a code block of up to a megabyte.
"""

import re
from collections.abc import Iterator

from vaultmem.model.note import Frontmatter, Part

_KEY = "excalidraw-plugin"
_ENDING = ".excalidraw.md"

# Headings of the plugin's own sections, at any level; a text element may hold other headings.
_SECTION = re.compile(
    r"^(?:#{1,6}[ \t]+(Excalidraw Data|Text Elements|Element Links|Embedded Files|Drawing)"
    r"|(%%))[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_WARNING = re.compile(r"^==⚠[^\n]*", re.MULTILINE)


def drawing_parts(path: str, frontmatter: Frontmatter, text: str) -> tuple[Part, ...] | None:
    """The stretches of a drawing's file that are searched; None for a file that is no drawing."""
    if _KEY not in frontmatter.properties and not path.lower().endswith(_ENDING):
        return None
    marks = list(_SECTION.finditer(text, frontmatter.end))
    if not any(mark.group(1) for mark in marks):
        return None  # nothing of the plugin's is in it
    parts = list(_back(text, frontmatter.end, marks[0].start()))
    for index, mark in enumerate(marks):
        if (mark.group(1) or "").lower() == "text elements":
            end = marks[index + 1].start() if index + 1 < len(marks) else len(text)
            parts.append(Part(mark.end(), end))
    return tuple(part for part in parts if text[part.start : part.end].strip())


def _back(text: str, start: int, end: int) -> Iterator[Part]:
    """The person's own text before the plugin's sections, less the plugin's warning."""
    at = start
    for warning in _WARNING.finditer(text, start, end):
        yield Part(at, warning.start())
        at = warning.end()
    yield Part(at, end)
