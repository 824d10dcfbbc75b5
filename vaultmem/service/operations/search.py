"""search: query -> candidates per channel -> fusion -> evidence -> hits."""

from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated

from vaultmem.index.rows import FoundChunk, FoundNote
from vaultmem.index.store import damaged
from vaultmem.model.errors import UsageError
from vaultmem.model.hit import NO_EVIDENCE, Hit
from vaultmem.model.operation import About, Reply, Request
from vaultmem.model.query import Filters, Mode, Query
from vaultmem.retrieval.fusion import WEIGHTS, Fusion
from vaultmem.retrieval.query import parse_day, parse_query
from vaultmem.retrieval.search import Means, Ranked, Ranking, ranked_passages
from vaultmem.retrieval.snippet import snippet
from vaultmem.security.hidden import shown
from vaultmem.service.application import Memory
from vaultmem.service.budget import fitted
from vaultmem.service.find_note import refuse_outside
from vaultmem.service.meaning import open_meaning
from vaultmem.service.mending import mended
from vaultmem.service.note_text import NO_NOTE, is_indexed, read_note, shown_text
from vaultmem.service.refresh import gone_files, make_ready, renew
from vaultmem.service.uri import obsidian_uri
from vaultmem.vault.chunk import is_passage
from vaultmem.vault.items import EPISODE
from vaultmem.vault.read import Door, Unread

MAX_LIMIT = 1000
# A line for each hit, to choose from; or all that is known of it.
DETAILS = ("index", "full")
LINE_CHARS = 160


@dataclass(frozen=True, slots=True)
class SearchRequest(Request):
    """What to look for."""

    query: Annotated[
        str, About('Words, "a phrase", -word; also tag: path: kind: after: before: as filters.')
    ]
    limit: Annotated[int | None, About("Hits at most.", least=1, most=MAX_LIMIT)] = None
    mode: Annotated[str | None, About("Best there is if absent.", choices=tuple(Mode))] = None
    tags: Annotated[tuple[str, ...], About("All of them; a parent includes its children.")] = ()
    paths: Annotated[tuple[str, ...], About("Folders, notes or globs.")] = ()
    kinds: Annotated[tuple[str, ...], About("Such as decision, error, meeting, episode.")] = ()
    after: Annotated[str | None, About("2026-05-03, 2026-05 or 2026.")] = None
    before: str | None = None
    passages: Annotated[bool, About("Every passage, not only the best of each note.")] = False
    without: Annotated[tuple[str, ...], About("Channels left out.", choices=tuple(WEIGHTS))] = ()
    detail: Annotated[
        str | None, About("full: longer snippets, addresses, evidence.", choices=DETAILS)
    ] = None  # an index where the room for the reply is bounded, else full


@dataclass(frozen=True, slots=True)
class SearchReply(Reply):
    """Hits, best first."""

    query: str
    mode: str  # what was used
    repaired: dict[str, str]  # misspelt word -> the index term it was also looked for as
    hits: tuple[Hit, ...]
    left_out: int  # of a listing by filters alone: what else they select


@fitted
@mended
def search(memory: Memory, request: SearchRequest) -> SearchReply:
    """Find passages. Any query text gets an answer, if an empty one.

    Raises UsageError for a limit, mode or date that is none, and what making an index raises.
    """
    limit = _limit(memory, request)
    mode = _mode(memory, request)
    if request.detail not in (None, *DETAILS):
        raise UsageError(f"There is no detail {request.detail}; use {' or '.join(DETAILS)}.")
    degraded: tuple[str, ...] = ()
    if mode is Mode.GRAPH:
        mode = Mode.HYBRID
    if limit > MAX_LIMIT:
        degraded += (f"No more than {MAX_LIMIT:,} hits are given at once.",)
        limit = MAX_LIMIT
    filters = Filters(
        tags=request.tags,
        paths=request.paths,
        kinds=request.kinds,
        after=_day("after", request.after, last=False),
        before=_day("before", request.before, last=True),
    )
    for path in request.paths:
        refuse_outside(path)
    query = parse_query(request.query, filters)
    by_meaning = mode is not Mode.KEYWORD and bool(query.asked) and "vector" not in request.without
    degraded += make_ready(memory, vectors=by_meaning)
    asked = _Asked(request, query, mode, limit, by_meaning=by_meaning)
    answer = _answer(memory, asked)
    if answer.changed or answer.gone:
        # What ranked them is not what their files say any more.
        told = renew(memory, answer.changed, answer.gone)
        degraded += tuple(reason for reason in told if reason not in degraded)
        answer = _with_enough(memory, asked, limit + len(answer.gone))
    return SearchReply(
        request.query,
        answer.mode.value,
        answer.ranking.repaired,
        answer.hits[:limit],
        answer.ranking.left_out,
        degraded=degraded + answer.degraded + answer.ranking.degraded,
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request that has been understood."""

    request: SearchRequest
    query: Query
    mode: Mode
    limit: int
    by_meaning: bool


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the index says, held against the files."""

    mode: Mode  # what was used
    degraded: tuple[str, ...]
    ranking: Ranking
    hits: tuple[Hit, ...]
    changed: tuple[str, ...]  # files of hits that are not as they were indexed, as on disk
    gone: tuple[str, ...]  # files of what would have been hits


def _with_enough(memory: Memory, asked: _Asked, wanted: int) -> _Answer:
    """An answer in which what is gone takes no other hit's place."""
    while True:
        wanted = min(wanted, MAX_LIMIT)
        answer = _answer(memory, replace(asked, limit=wanted))
        enough = len(answer.hits) >= asked.limit or not answer.gone
        if enough or wanted == MAX_LIMIT or len(answer.ranking.hits) < wanted:
            return answer
        wanted = max(2 * wanted, asked.limit + len(answer.gone))


def _answer(memory: Memory, asked: _Asked) -> _Answer:
    request, query, mode = asked.request, asked.query, asked.mode
    degraded: tuple[str, ...] = ()
    with memory.guarded():
        lookup = memory.lookup()
        meaning = None
        if asked.by_meaning:
            meaning, degraded = open_meaning(
                memory, lookup, query.asked, alone=mode is Mode.SEMANTIC
            )
            if meaning is None:
                mode = Mode.KEYWORD
        if request.mode == Mode.GRAPH:
            used = "words" if meaning is None else "words and meaning"
            degraded = (f"There is no graph yet; searched by {used}.", *degraded)
        means = Means(
            meaning=meaning,
            words=mode is not Mode.SEMANTIC or meaning is None,
            without=frozenset(request.without),
            fusion=Fusion(memory.settings["search.fusion"]),
        )
        ranking = ranked_passages(
            query, lookup, means, limit=asked.limit, passages=request.passages
        )
        chunks = lookup.chunks(ranked.chunk for ranked in ranking.hits)
        notes = lookup.found_notes({ranked.note for ranked in ranking.hits})
    return _held_against_files(
        memory, mode, degraded, ranking, chunks, notes, full=_is_full(request)
    )


def _limit(memory: Memory, request: SearchRequest) -> int:
    if request.limit is None:
        return int(memory.settings["search.limit"])
    if not isinstance(request.limit, int) or isinstance(request.limit, bool):
        raise UsageError(f"The number of hits is {request.limit!r}; a whole number is needed.")
    if request.limit < 1:
        raise UsageError(f"The number of hits is {request.limit}; it must be at least 1.")
    return request.limit


def _mode(memory: Memory, request: SearchRequest) -> Mode:
    """What was asked for; without a wish, all that the vault's settings allow."""
    strange = [name for name in request.without if name not in WEIGHTS]
    if strange:
        raise UsageError(f"There is no channel {strange[0]}; there are {', '.join(WEIGHTS)}.")
    if request.mode == Mode.SEMANTIC and "vector" in request.without:
        raise UsageError("Semantic search is the vector channel; it cannot be left out of it.")
    if request.mode is None:
        return Mode.KEYWORD if memory.settings["embedder.name"] == "none" else Mode.HYBRID
    try:
        return Mode(request.mode)
    except ValueError:
        raise UsageError(
            f"There is no search mode {request.mode}; use hybrid, keyword, semantic or graph."
        ) from None


def _day(name: str, text: str | None, *, last: bool) -> date | None:
    if text is None:
        return None
    day = parse_day(text, last=last)
    if day is None:
        raise UsageError(f"{name} is {text!r}; a date such as 2026-05-03 or 2026-05 is needed.")
    return day


def _held_against_files(
    memory: Memory,
    mode: Mode,
    degraded: tuple[str, ...],
    ranking: Ranking,
    chunks: dict[int, FoundChunk],
    notes: dict[int, FoundNote],
    *,
    full: bool,
) -> _Answer:
    """The hits with the text that their files hold now, without those whose file is gone."""
    texts: dict[int, str | None] = {}
    changed: list[str] = []
    missing: list[str] = []
    with Door(memory.vault) as door:
        for note in dict.fromkeys(notes[ranked.note] for ranked in ranking.hits):
            data = read_note(memory, door, note)
            if isinstance(data, bytes) and is_indexed(note, data):
                texts[note.id] = shown_text(memory, note, data)
                continue
            texts[note.id] = None
            absent = isinstance(data, Unread) and data.code in NO_NOTE
            (missing if absent else changed).append(note.disk_path)
    gone = gone_files(memory, missing)
    hits = (
        _hit(memory, ranking, ranked, notes[ranked.note], chunks[ranked.chunk], texts[ranked.note])
        for ranked in ranking.hits
        if notes[ranked.note].disk_path not in gone
    )
    shown_hits = tuple(hits) if full else tuple(map(_line, hits))
    return _Answer(mode, degraded, ranking, shown_hits, tuple(changed), tuple(sorted(gone)))


def _is_full(request: SearchRequest) -> bool:
    """Whether all is told of a hit; who has little room chooses from an index first."""
    return request.detail == "full" or (request.detail is None and request.max_tokens is None)


def _line(hit: Hit) -> Hit:
    """The hit in an index: no more than one chooses by."""
    text = hit.snippet
    if len(text) > LINE_CHARS:
        text = text[: LINE_CHARS - 1].rstrip() + "…"
    return replace(hit, snippet=text, uri="", evidence=NO_EVIDENCE)


def _kind_and_day(note: FoundNote, chunk: FoundChunk, filters: Filters) -> tuple[str, str | None]:
    """Those of the item that was asked for; else of the note or the innermost item.

    As one of its note's kind, a passage has the day of its entry; what a lesson in a decision
    names is not the day of the decision.
    """
    asked = {kind.lower() for kind in filters.kinds}
    for kind, day in chunk.items:
        if kind in asked:
            return kind, day or note.date
    if note.kind in asked:
        entry = next((day for kind, day in chunk.items if kind == EPISODE), None)
        return note.kind, entry or note.date
    if not chunk.items:
        return note.kind, note.date
    kind, day = chunk.items[0]
    return kind, day or note.date


def _hit(
    memory: Memory,
    ranking: Ranking,
    ranked: Ranked,
    note: FoundNote,
    chunk: FoundChunk,
    text: str | None,
) -> Hit:
    # What is shown comes from the file, checked by its hash; the sidecar's copy only stands in.
    kind, day = _kind_and_day(note, chunk, ranking.query.filters)
    passage = text[chunk.start : chunk.end] if text is not None else chunk.text
    if not is_passage(chunk.key, chunk.trail, passage):
        passage = chunk.text  # it was cut from the text as it was shown then
        if not is_passage(chunk.key, chunk.trail, passage):
            raise damaged(memory.folder)
    return Hit(
        path=note.path,
        title=shown(note.title),
        heading=tuple(map(shown, chunk.trail)),
        lines=(chunk.first_line, chunk.last_line),
        snippet=shown(snippet(passage, ranking.query.words)),
        score=round(ranked.score, 6),
        kind=kind,
        date=day,
        item=bool(chunk.items),
        weak=ranked.weak,
        stub=note.stub,
        stale=text is None,
        uri=obsidian_uri(memory.vault, note.path, chunk.trail),
        evidence=ranked.evidence,
    )
