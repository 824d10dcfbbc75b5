"""The searches that the retrieval evaluation can measure, behind one Protocol.

`python` calls vaultmem in this process, `cli` starts the command for each query (slow),
`bm25` is a plain full-text reference that needs only apsw.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Hit:
    """One search hit."""

    path: str  # vault path with "/"
    heading: tuple[str, ...]  # heading trail, outermost first; empty for a whole note
    lines: tuple[int, int]  # first and last line, from 1, inclusive
    score: float  # higher is better, comparable within one reply only


@dataclass(frozen=True, slots=True)
class Way:
    """One way of asking the same search."""

    name: str  # "" where there is only one
    mode: str | None = None  # None for the search's own choice
    without: tuple[str, ...] = ()  # channels left out


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search found."""

    hits: Sequence[Hit]  # best first
    instead: str = ""  # the mode that was used, where it is another than the one asked for


class Searcher(Protocol):
    """A search over one vault."""

    def search(self, query: str, limit: int, passages: bool, way: Way) -> Answer:
        """At most `limit` hits: every passage, or the best one of each note."""
        ...


class SearchError(Exception):
    """The search under test ended with an error; the message says which."""


Opener = Callable[[Path, Path], AbstractContextManager[Searcher]]  # vault, cache folder


# vaultmem in this process.


def steered(embedder: str) -> dict[str, str]:
    """The environment in which vaultmem runs, with its embedder named.

    The vault does not change between two queries, so it is not looked at before each.
    """
    wanted = {"VAULTMEM_SEARCH_REFRESH": "never", "VAULTMEM_EMBEDDER_NAME": embedder}
    return {**os.environ, **wanted}


def python_opener(embedder: str) -> Opener:
    """Opens vaults through vaultmem's Python interface; see `open_python`."""

    def opener(vault: Path, cache: Path) -> AbstractContextManager[Searcher]:
        return open_python(vault, cache, embedder=embedder)

    return opener


@contextmanager
def open_python(vault: Path, cache: Path, *, embedder: str) -> Iterator[Searcher]:
    """vaultmem's Python interface on an indexed (and, unless by "none", embedded) vault.

    Everything that depends on its shape stands in this function. Its own errors are not
    caught: their traceback is what one wants to see.
    """
    from vaultmem.service.application import open_memory
    from vaultmem.service.operations.index import IndexRequest, index
    from vaultmem.service.operations.search import SearchRequest, search
    from vaultmem.service.settings import load_settings

    memory = open_memory(load_settings(vault, cache, environment=steered(embedder)))

    def ask(query: str, limit: int, passages: bool, way: Way) -> Answer:
        request = SearchRequest(
            query=query, limit=limit, passages=passages, mode=way.mode, without=way.without
        )
        reply = search(memory, request)
        hits = [Hit(hit.path, hit.heading, hit.lines, hit.score) for hit in reply.hits]
        return Answer(hits, _instead(way, reply.mode))

    try:
        chunks = index(memory, IndexRequest()).chunks
        print(f"  {chunks.total:,} passages, {chunks.embedded:,} embedded", file=sys.stderr)
        yield _Function(ask)
    finally:
        memory.close()


@dataclass(frozen=True, slots=True)
class _Function:
    ask: Callable[[str, int, bool, Way], Answer]

    def search(self, query: str, limit: int, passages: bool, way: Way) -> Answer:
        return self.ask(query, limit, passages, way)


def _instead(way: Way, mode: str) -> str:
    """A search that cannot do as asked says so by the mode of its reply.

    With channels left out it may well call itself something else.
    """
    return mode if way.mode not in (None, mode) and not way.without else ""


# vaultmem's command line.


def cli_opener(command: str, embedder: str) -> Opener:
    """Opens vaults through `command`, a shell-like string such as "vaultmem"."""
    environment = steered(embedder)

    @contextmanager
    def open_cli(vault: Path, cache: Path) -> Iterator[Searcher]:
        words = (*shlex.split(command), "--vault", str(vault), "--cache-dir", str(cache))
        _output([*words, "index", "--json"], environment)
        yield _Cli(words, environment)

    return open_cli


@dataclass(frozen=True, slots=True)
class _Cli:
    words: tuple[str, ...]  # command with vault and cache folder
    environment: Mapping[str, str]

    def search(self, query: str, limit: int, passages: bool, way: Way) -> Answer:
        options = ["--json", "-k", str(limit), *(["--passages"] if passages else [])]
        options += ["--mode", way.mode] if way.mode else []
        for channel in way.without:
            options += ["--without", channel]
        # The query comes last, behind "--": it may begin with a dash.
        words = [*self.words, "search", *options, "--", query]
        reply = json.loads(_output(words, self.environment))
        hits = [
            Hit(
                path=hit["path"],
                heading=tuple(hit["heading"]),
                lines=(hit["lines"][0], hit["lines"][1]),
                score=hit["score"],
            )
            for hit in reply["hits"]
        ]
        return Answer(hits, _instead(way, reply["mode"]))


def _output(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """Standard output of a command. Raises SearchError with its error output."""
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, encoding="utf-8", check=False, env=environment
        )
    except FileNotFoundError as problem:
        raise SearchError(f"{words[0]} is not installed; name it with --command.") from problem
    if done.returncode != 0:
        raise SearchError(f"{shlex.join(words)}\nended with {done.returncode}: {done.stderr}")
    return done.stdout


# Plain BM25.


_STOP_WORD_CLASSES = (
    "a an the",
    "i me my you your he him his she her it its we us our they them their",
    "mine yours theirs",
    "this that these those some any each both few more most other such same own",
    "what which who whom when where why how",
    "am is are was were be been being do does did doing have has had having",
    "can could would should will",
    "of to in on for by with at as from into about over up out off down",
    "before after above below between through during until against",
    "and or if than then so because while no not only just very too",
    "again further once here there also all",
    "s t d m re ll ve don didn isn aren wasn weren doesn",  # what an apostrophe leaves
)
STOP_WORDS = frozenset(word for words in _STOP_WORD_CLASSES for word in words.split())

# Han, kana and hangul, which unicode61 would take as one long word.
UNSPACED_RUN = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")


def with_bigrams(text: str) -> str:
    """The text with every run of unspaced script as overlapping pairs of characters.

    A lone character stays as it is. Other text is not changed.
    """

    def pairs(run: re.Match[str]) -> str:
        characters = run[0]
        words = [characters[i : i + 2] for i in range(len(characters) - 1)] or [characters]
        return f" {' '.join(words)} "

    return UNSPACED_RUN.sub(pairs, text)


def match_expression(query: str) -> str:
    """An FTS5 query: the distinct words without stop words, quoted, joined by OR.

    All words, if all are stop words; "" if there is no word.
    """
    words = list(dict.fromkeys(re.findall(r"\w+", with_bigrams(query.lower()))))
    content = [word for word in words if word not in STOP_WORDS]
    return " OR ".join(f'"{word}"' for word in content or words)


@dataclass(frozen=True, slots=True)
class _Unit:
    hit: Hit  # score 0
    text: str  # what is indexed


def sections(path: str, text: str) -> Iterator[_Unit]:
    """The level-two sections of a note, without their heading lines.

    The headings are the keys of the sets, so they are no evidence and are left out. What
    stands before the first one is no unit.
    """
    heading, first, body, fenced = "", 0, [""], False
    lines = text.split("\n")
    for number, line in enumerate([*lines, "## "], 1):
        if line.startswith("```"):
            fenced = not fenced
        if number > len(lines) or (line.startswith("## ") and not fenced):
            if heading:
                yield _Unit(Hit(path, (heading,), (first, number - 1), 0.0), "\n".join(body))
            heading, first, body = line.removeprefix("## ").strip(), number, []
        else:
            body.append(line)


def whole_note(path: str, text: str) -> _Unit:
    """A note as one unit, its file name before its text."""
    name = path.rpartition("/")[2].removesuffix(".md")
    return _Unit(Hit(path, (), (1, text.count("\n") + 1), 0.0), f"{name}\n{text}")


# Expression and limit -> (position of the text, score), best first; ties by position.
FullText = Callable[[str, int], list[tuple[int, float]]]


def full_text(texts: Sequence[str]) -> FullText:
    """BM25 over the texts: an FTS5 table in memory, tokenizer `porter unicode61`.

    Raises SearchError without apsw.
    """
    try:
        import apsw  # Here, since only this reference needs it.
    except ImportError as problem:
        raise SearchError("The BM25 reference needs the package apsw.") from problem

    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE unit USING fts5(text, tokenize = 'porter unicode61')")
    connection.executemany(
        "INSERT INTO unit (rowid, text) VALUES (?, ?)",
        [(position, with_bigrams(text)) for position, text in enumerate(texts)],
    )

    def best(expression: str, limit: int) -> list[tuple[int, float]]:
        rows = connection.execute(
            "SELECT rowid, -bm25(unit) AS score FROM unit WHERE unit MATCH ?"
            " ORDER BY score DESC, rowid LIMIT ?",
            (expression, limit),
        )
        return [(int(str(position)), float(str(score))) for position, score in rows]

    return best


@dataclass(slots=True)
class Bm25:
    """Plain BM25 over sections, or over whole notes; each table is built when first asked."""

    files: Mapping[str, str]  # vault path -> text
    _tables: dict[bool, tuple[list[_Unit], FullText]] = field(default_factory=dict)

    def search(self, query: str, limit: int, passages: bool, way: Way) -> Answer:
        """Hits by section if `passages`, else by note; none for a query without a word."""
        units, table = self._table(passages)
        expression = match_expression(query)
        if not expression:
            return Answer([])
        return Answer(
            [
                replace(units[position].hit, score=score)
                for position, score in table(expression, limit)
            ]
        )

    def _table(self, passages: bool) -> tuple[list[_Unit], FullText]:
        if passages not in self._tables:
            units = [
                unit
                for path, text in self.files.items()
                for unit in (sections(path, text) if passages else [whole_note(path, text)])
            ]
            self._tables[passages] = units, full_text([unit.text for unit in units])
        return self._tables[passages]


@contextmanager
def open_bm25(vault: Path, cache: Path) -> Iterator[Searcher]:
    """Plain BM25 over the Markdown of a folder; the cache folder is not used."""
    files = sorted(vault.rglob("*.md"))
    yield Bm25({file.relative_to(vault).as_posix(): file.read_text("utf-8") for file in files})
