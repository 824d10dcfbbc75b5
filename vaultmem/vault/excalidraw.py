"""What of an Excalidraw drawing is text: its text elements, and what stands on its back.

The plugin keeps a drawing in a Markdown file: a warning, the person's own text (the back of the
drawing), then sections of its own, of which only the text elements say anything. The drawing
itself is a code block of up to a megabyte; behind it there may be text of the person's again.
"""

import re
from collections.abc import Iterator

from vaultmem.model.note import Frontmatter, Part

_KEY = "excalidraw-plugin"
_ENDING = ".excalidraw.md"

# The plugin's own headings. A person may use such words too, on the back and in text elements: the
# plugin's part begins at the first of the one or the other, and a drawing is followed by its code,
# which had no fence at first.
_DATA = re.compile(r"^#{1,6}[ \t]+Excalidraw Data[ \t]*$", re.MULTILINE | re.IGNORECASE)
_TEXT = re.compile(r"^#{1,6}[ \t]+Text Elements[ \t]*$", re.MULTILINE | re.IGNORECASE)
_DRAWING = re.compile(
    r"^#{1,6}[ \t]+Drawing[ \t]*\n[ \t\n]*(?:(`{3,}|~{3,})(?:compressed-)?json[^\n]*$|\{\")",
    re.MULTILINE | re.IGNORECASE,
)
# What stands below them is named by keys; a text element of these words is not.
_OTHER = re.compile(
    r"^#{1,6}[ \t]+(?:Element Links|Embedded Files)[ \t]*$"
    r"(?=\s*(?:\Z|#{1,6}[ \t]|%%|[\w-]+:[ \t]))",
    re.MULTILINE | re.IGNORECASE,
)
# A person may highlight a warning of their own: the plugin's names its view.
_WARNING = re.compile(r"^==⚠[^\n]{0,40}\bEXCALIDRAW VIEW\b[^\n]*", re.MULTILINE)


def drawing_parts(path: str, frontmatter: Frontmatter, text: str) -> tuple[Part, ...] | None:
    """The stretches of a drawing's file that are searched; None for a file that is no drawing."""
    if _KEY not in frontmatter.properties and not path.lower().endswith(_ENDING):
        return None
    start = frontmatter.end
    drawing = _DRAWING.search(text, start)
    begins = [_DATA.search(text, start), _TEXT.search(text, start), drawing]
    first = min((mark.start() for mark in begins if mark is not None), default=None)
    if first is None:
        return None  # nothing of the plugin's is in it
    data_end = drawing.start() if drawing is not None else len(text)
    parts = list(_back(text, start, _before_comment_mark(text, start, first)))
    elements = _TEXT.search(text, first, data_end)
    if elements is not None:
        others = [found.start() for found in _OTHER.finditer(text, elements.end(), data_end)]
        end = others[0] if others else data_end
        parts.append(Part(elements.end(), _before_comment_mark(text, elements.end(), end)))
    if drawing is not None:
        parts.append(Part(_behind(text, drawing), len(text)))
    return tuple(part for part in parts if text[part.start : part.end].strip())


def _behind(text: str, drawing: re.Match[str]) -> int:
    """Offset behind the drawing's code, and behind the mark that ends the comment around it."""
    if drawing.group(1) is None:
        return len(text)
    fence = re.compile(rf"^{re.escape(drawing.group(1))}[ \t]*$(?:\s*^%%[ \t]*$)?", re.MULTILINE)
    closing = fence.search(text, drawing.end())
    return closing.end() if closing is not None else len(text)


def _before_comment_mark(text: str, start: int, end: int) -> int:
    """Where the person's text ends: the plugin hides its sections in a comment of their own."""
    trimmed = text[start:end].rstrip()
    line = trimmed.rfind("\n") + 1
    return start + line if trimmed[line:].strip() == "%%" else end


def _back(text: str, start: int, end: int) -> Iterator[Part]:
    """The person's own text before the plugin's sections, less the plugin's warning."""
    at = start
    for warning in _WARNING.finditer(text, start, end):
        yield Part(at, warning.start())
        at = warning.end()
    yield Part(at, end)
