"""A canvas as text: what its cards say, one after the other, and its arrows behind them.

JSON Canvas 1.0. A canvas has no lines of its own that a person knows; wherever vaultmem speaks of
lines of a canvas, it means those of this text, which is also what `read` shows.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from vaultmem.model.note import Arrow, Problem
from vaultmem.vault.paths import vault_path

# An arrow shows the beginnings of its cards: every arrow repeats them, and what is long and has
# many would make a text without end. No system opens a path longer than the second.
MAX_LABEL_CHARS = 60
MAX_PATH_CHARS = 1024


@dataclass(frozen=True, slots=True)
class Card:
    """One node of a canvas, as text."""

    text: str  # Markdown of a text card; what is shown of any other
    markdown: bool  # whether the text is Markdown to be read
    name: str  # what an arrow calls it
    file: str | None = None  # the file it shows: a vault path
    subpath: str = ""  # "#Heading" or "#^block" of that file


@dataclass(frozen=True, slots=True)
class Canvas:
    """What a canvas holds. `text` has the cards in their order, a blank line between them."""

    text: str
    cards: tuple[tuple[int, Card], ...]  # (offset in the text, card); those without text left out
    arrows: tuple[Arrow, ...]  # those between two files
    labelled: tuple[int, int]  # offsets of the lines of arrows that say something
    problems: tuple[Problem, ...] = ()


def _as_it_is(text: str) -> str:
    return text


def read_canvas(path: str, source: str, change: Callable[[str], str] = _as_it_is) -> Canvas:
    """Understand the JSON of a canvas. Never raises; an empty file is an empty canvas.

    change: what is done to each text before it is laid out with the others.
    """
    nodes: object = []
    edges: object = []
    problems: tuple[Problem, ...] = ()
    if source.strip():
        try:
            # Places on the screen are not needed, and Python refuses to read an int without end.
            loaded = json.loads(source, parse_int=float)
        except (ValueError, RecursionError):
            loaded = None
        if isinstance(loaded, dict):
            nodes, edges = loaded.get("nodes"), loaded.get("edges")
        else:
            message = "The canvas is not readable JSON; it is known by its name only."
            problems = (Problem(path, 0, "canvas-invalid", message),)
    cards: list[Card] = []
    by_id: dict[str, Card] = {}
    for node in nodes if isinstance(nodes, list) else []:
        card = _card(node, change) if isinstance(node, dict) else None
        if card is not None:
            cards.append(card)
            by_id.setdefault(_text(node, "id"), card)
    by_id.pop("", None)  # cards without a name, which no edge can mean
    return _laid_out(cards, _edges(edges, by_id, change), problems)


@dataclass(frozen=True, slots=True)
class _Edge:
    source: Card
    target: Card
    label: str
    both: bool  # has a head at either end


def _laid_out(cards: Sequence[Card], edges: list[_Edge], problems: tuple[Problem, ...]) -> Canvas:
    parts: list[str] = []
    placed: list[tuple[int, Card]] = []
    at = line = 0

    def add(text: str, gap: str) -> None:
        nonlocal at, line
        parts.append(text + gap)
        at += len(text) + len(gap)
        line += text.count("\n") + gap.count("\n")

    for card in cards:
        if card.text.strip():
            placed.append((at, card))
            add(card.text, "\n\n")
    arrows: list[Arrow] = []
    began = ended = at
    for edge in sorted(edges, key=lambda edge: not edge.label):
        if edge.source.file and edge.target.file:
            arrows.append(Arrow(edge.source.file, edge.target.file, edge.label, line + 1))
            if edge.both:
                arrows.append(Arrow(edge.target.file, edge.source.file, edge.label, line + 1))
        elif not edge.label:
            continue
        names = f"{edge.source.name} {'↔' if edge.both else '→'} {edge.target.name}"
        add(f"{names}: {edge.label}" if edge.label else names, "\n")
        if edge.label:
            ended = at
    return Canvas("".join(parts), tuple(placed), tuple(arrows), (began, ended), problems)


def _card(node: Mapping[str, object], change: Callable[[str], str]) -> Card | None:
    kind = node.get("type")
    if kind == "text":
        text = change(_text(node, "text"))
        return Card(text, markdown=True, name=_short(_line(text)))
    file = vault_path(_text(node, "file")) if kind == "file" else ""
    if file.strip() and len(file) <= MAX_PATH_CHARS:
        subpath = change(_line(_text(node, "subpath")))
        subpath = subpath if subpath.startswith("#") else ""
        shown, name = _line(f"![[{file}{subpath}]]"), _line(file).removesuffix(".md")
        return Card(shown, False, name + _short(subpath), file, subpath)
    if kind in ("link", "group"):
        text = change(_line(_text(node, "url" if kind == "link" else "label")))
        return Card(text, markdown=False, name=_short(text))
    return None


def _edges(edges: object, cards: Mapping[str, Card], change: Callable[[str], str]) -> list[_Edge]:
    found: list[_Edge] = []
    for edge in edges if isinstance(edges, list) else []:
        if not isinstance(edge, dict):
            continue
        source, target = cards.get(_text(edge, "fromNode")), cards.get(_text(edge, "toNode"))
        if source is not None and target is not None:
            back, on = edge.get("fromEnd") == "arrow", edge.get("toEnd") != "none"
            # An arrow head at the beginning alone points the other way.
            if back and not on:
                source, target = target, source
            label = change(_line(_text(edge, "label")))
            found.append(_Edge(source, target, label, both=back and on))
    return found


def _short(text: str) -> str:
    return text if len(text) <= MAX_LABEL_CHARS else text[: MAX_LABEL_CHARS - 1] + "…"


def _text(node: Mapping[str, object], key: str) -> str:
    value = node.get(key)
    if not isinstance(value, str):
        return ""
    # JSON can name half of a character, which no file can hold.
    text = value.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _line(text: str) -> str:
    return " ".join(text.split())
