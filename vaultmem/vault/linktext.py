"""The text of a link or a file name that vaultmem writes: Obsidian's own, as long as it leads back.

Where Obsidian's form would lead elsewhere, or be no link at all, the next longer one is taken.
Every form is tried on the resolver and the scanner that read links, so what is written is read.
"""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from vaultmem.vault.inline import MASK, find_links
from vaultmem.vault.links import VaultNames
from vaultmem.vault.obsidian import LinkFormat
from vaultmem.vault.paths import fold, is_note, vault_path
from vaultmem.vault.subpath import comparable_heading

_NOT_IN_A_HEADING_LINK = re.compile(r"%%|\[\[|\]\]|[:#|^\\]")
# Code and comments go before links, and the name of a file cannot be escaped.
_NOT_IN_A_WIKILINK = re.compile(r"[`\r\n]|%%")
_DOUBLED = re.compile(r"\[(?=\[)|\](?=\])|%(?=%)")
_BAR = re.compile(r"\\?\|")
# In a destination: what ends it, hides it or is undone by any Markdown reader (`&amp;`). A bar
# ends a table cell, and a backtick may pair with one that stands before the link.
_UNSAFE = re.compile(r"[\s\x00-\x1f\x7f%<>()\[\]\\`|]|&(?=#?\w+;)")
# In the path a `#` would begin the subpath, and a colon may end a scheme.
_UNSAFE_IN_A_PATH = re.compile(_UNSAFE.pattern + "|[#:]")
# Brackets may stay in plain pairs: one within another is more than every reader understands.
_PAIRS = (re.compile(r"\([^()]*\)"), re.compile(r"\[[^\[\]]*\]"))
# What is escaped already stays as it is, so that a display taken from a note is not doubled.
_DISPLAY_MARK = re.compile(r"\\[!-/:-@\[-`{-~]|\\\Z|[\[\]<`]")


def link_text(names: VaultNames, target: str, source: str, link_format: str) -> str:
    """The text between `[[` and `]]` that leads from the note `source` to the file `target`.

    names: the vault's files, with those that are about to be written.
    If none leads there (two files that differ in case only), it is the target's vault path. A name
    with a `#` or a bar fits in no wikilink whatever the text: `wikilink_text` knows what to do.
    """
    texts = list(_spellings(names, target, source, link_format, keep_ending=False))
    # A wikilink is read without the blanks at its ends.
    trimmed = [text for text in texts if text == text.strip()]
    return _leading(names, target, source, trimmed + texts)


def wikilink_text(
    names: VaultNames,
    target: str,
    source: str,
    link_format: str,
    *,
    subpath: str = "",
    display: str | None = None,
    embed: bool = False,
    in_table: bool = False,
) -> str:
    """The whole wikilink to `target`; a Markdown link where no wikilink can name the file.

    subpath:  "#Heading", "#^block" or ""; with one, a link within the note names no file.
    display:  plain text to show; left out when the link shows the same without it.
    in_table: it will stand in a table's cell.
    """
    place = _with_mark(subpath)
    texts = list(_spellings(names, target, source, link_format, keep_ending=False))
    if place and target == source:
        texts.insert(0, "")
    for text in texts:
        # As it is; with a heading that no bracket ends early; with a text to keep brackets apart.
        for written_place, always in ((place, False), (_plain(place), False), (place, True)):
            inner = text + written_place
            shown = _shown(text, written_place)
            if display is not None and display.strip() and display != shown:
                shown, always = display, True
            if always:
                inner += "|" + _wikilink_display(shown)
            if in_table:
                inner = _BAR.sub(r"\\|", inner)
            written = f"{'!' * embed}[[{inner}]]"
            if _reads_as(written, names, target, source, written_place, embed=embed):
                return written
    return markdown_link_text(
        names,
        target,
        source,
        link_format,
        display,
        subpath=subpath,
        embed=embed,
        in_table=in_table,
    )


def markdown_link_text(
    names: VaultNames,
    target: str,
    source: str,
    link_format: str,
    display: str | None = None,
    *,
    subpath: str = "",
    embed: bool = False,
    in_table: bool = False,
) -> str:
    """The whole Markdown link to `target`, percent-encoded no more than it must be.

    display: plain text, or Markdown whose brackets are escaped already; None for the file's name,
             or nothing in an embed.
    The other arguments are those of `wikilink_text`.
    """
    place = _with_mark(subpath)
    if place and target == source:
        text = ""
    else:
        texts = _spellings(names, target, source, link_format, keep_ending=True)
        text = _leading(names, target, source, texts)
    if display is None:
        name = _without_ending(target).rpartition("/")[2]
        display = "" if embed else _shown(name if text else "", place)
    destination = _encoded(text, _UNSAFE_IN_A_PATH) + _encoded(place, _UNSAFE)
    return f"{'!' * embed}[{_markdown_display(display, in_table=in_table)}]({destination})"


def heading_for_link(text: str) -> str:
    """A heading's text as a link writes it behind `#`: Obsidian's rule for writing.

    The result leads back to the heading; it is empty for a heading of such marks alone, which
    no link can name.
    """
    return " ".join(_NOT_IN_A_HEADING_LINK.sub(" ", text).split())


def free_path(taken: Iterable[str], wanted: str) -> str:
    """`wanted`, or the first of `Name 1.md`, `Name 2.md`, … that no file and no folder bears.

    taken: vault paths of all files, as a VaultNames gives them.
    """
    path = vault_path(wanted)
    folder, slash, name = path.rpartition("/")
    beside = fold(folder + slash)
    used = {
        folded[len(beside) :].partition("/")[0]
        for folded in map(fold, taken)
        if folded.startswith(beside)
    }
    dot = name.rfind(".")
    if dot in (0, len(name) - 1):
        dot = -1  # a dot at either end begins no ending
    stem, ending = (name, "") if dot < 0 else (name[:dot], name[dot:])
    number = 0
    while fold(name) in used:
        number += 1
        name = f"{stem} {number}{ending}"
    return folder + slash + name


def _spellings(
    names: VaultNames, target: str, source: str, link_format: str, *, keep_ending: bool
) -> Iterator[str]:
    """Texts for `target`: first what Obsidian writes, then ever more explicit ones."""
    paths = (target,) if keep_ending else (_without_ending(target), target)
    match LinkFormat(link_format):
        case LinkFormat.SHORTEST:
            name = paths[0].rpartition("/")[2]
            if names.candidates(name) == [target]:
                yield name
        case LinkFormat.RELATIVE:
            near = [_relative(path, source.rpartition("/")[0]) for path in paths]
            yield from near
            yield from ("./" + path for path in near if not path.startswith("../"))
        case LinkFormat.ABSOLUTE:
            pass
    yield from paths
    yield from ("/" + path for path in paths)


def _leading(names: VaultNames, target: str, source: str, texts: Iterable[str]) -> str:
    return next((text for text in texts if names.resolve(text, source) == target), target)


def _reads_as(
    written: str, names: VaultNames, target: str, source: str, place: str, *, embed: bool
) -> bool:
    """Whether `written` is one link, and leads to the target and its place."""
    if _NOT_IN_A_WIKILINK.search(written):
        return False
    links, rest = find_links(written, (0,), 0)
    read = [(names.resolve(link.target, source), link.subpath, link.embed) for link in links]
    # A name that begins with a bracket would leave it outside.
    return read == [(target, place, embed)] and not rest.strip(MASK)


def _without_ending(path: str) -> str:
    return path[:-3] if is_note(path.rpartition("/")[2]) else path


def _relative(path: str, folder: str) -> str:
    """`path` as seen from `folder`."""
    there, here = path.split("/"), folder.split("/") if folder else []
    shared = 0
    while shared < min(len(there) - 1, len(here)) and there[shared] == here[shared]:
        shared += 1
    return "/".join([".."] * (len(here) - shared) + there[shared:])


def _with_mark(subpath: str) -> str:
    place = subpath.strip()
    if not place.strip("#"):
        return ""
    return place if place.startswith("#") else "#" + place


def _plain(place: str) -> str:
    """The same place with its headings spelled as they are compared, which holds no bracket."""
    parts = place.split("#")
    # Block ids and footnotes are no headings; one of punctuation alone has no other spelling.
    return "#".join(
        part if part.startswith(("^", "[^")) else comparable_heading(part) or part for part in parts
    )


def _shown(text: str, place: str) -> str:
    """What Obsidian shows for a wikilink without a display text."""
    return " > ".join(part for part in (text, *place.split("#")) if part)


def _one_line(display: str) -> str:
    lines = display.splitlines()
    if len(lines) < 2 and lines == [display]:
        return display
    return " ".join(line.strip() for line in lines if line.strip())


def _wikilink_display(display: str) -> str:
    """Without what a wikilink cannot hold: nothing can be escaped there."""
    shown = _DOUBLED.sub(r"\g<0> ", _one_line(display).replace("`", "'"))
    return shown + " " if shown.endswith("]") else shown


def _markdown_display(display: str, *, in_table: bool) -> str:
    shown = _DISPLAY_MARK.sub(
        lambda mark: mark.group() if len(mark.group()) == 2 else "\\" + mark.group(),
        _one_line(display),
    )
    shown = _DOUBLED.sub(r"\g<0> ", shown)
    return _BAR.sub(r"\\|", shown) if in_table else shown


def _encoded(text: str, unsafe: re.Pattern[str]) -> str:
    found = [pair for pairs in _PAIRS for pair in pairs.finditer(text)]
    paired = {at for pair in found for at in (pair.start(), pair.end() - 1)}
    return unsafe.sub(
        lambda mark: mark.group() if mark.start() in paired else quote(mark.group(), safe=""),
        text,
    )
