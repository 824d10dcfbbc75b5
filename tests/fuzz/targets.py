"""What is fuzzed: each target is a function of bytes that raises AssertionError where a promise
is broken, and whatever else the code under test raises.

The first byte of an input chooses among the target's settings, the rest is the text. The function
under test is a parameter, so that a fault can be put in its place: see test_fuzz_sample.py.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote

import apsw
from promises import (
    bounded_chunks,
    grows_evenly,
    in_time,
    one_line,
    ordered_lines,
    plain_properties,
    sound,
    sound_chunks,
    sound_items,
    sound_links,
    sound_mask,
    sound_note,
    sound_tags,
    spent,
)
from secrets_target import check_secrets, find_without_re2

from vaultmem.index.documents import documents, searched_fields
from vaultmem.index.rows import FoundNote
from vaultmem.model.chunk import Chunk
from vaultmem.model.errors import NoteAmbiguous, NoteNotFound, Refused
from vaultmem.model.note import (
    BlockId,
    Callout,
    Field,
    Frontmatter,
    Item,
    Link,
    Note,
    Problem,
    Task,
)
from vaultmem.retrieval.query import MAX_WORDS, parse_query
from vaultmem.service.application import Clock, Memory, open_memory
from vaultmem.service.find_note import find_note, refuse_traversal
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.read import ReadReply, ReadRequest, read
from vaultmem.service.operations.search import SearchReply, SearchRequest, search
from vaultmem.service.settings import load_settings
from vaultmem.surfaces.json_reply import to_json
from vaultmem.vault.blocks import block_structure
from vaultmem.vault.chunk import chunk_note
from vaultmem.vault.facts import (
    KindRules,
    is_stub,
    note_date,
    note_identity,
    note_kind,
)
from vaultmem.vault.frontmatter import read_frontmatter
from vaultmem.vault.inline import (
    find_block_ids,
    find_callouts,
    find_fields,
    find_links,
    find_tags,
    find_tasks,
    mask_code,
)
from vaultmem.vault.items import find_items
from vaultmem.vault.lines import line_offsets
from vaultmem.vault.links import VaultNames, affected_keys, link_key
from vaultmem.vault.linktext import (
    heading_for_link,
    link_text,
    markdown_link_text,
    wikilink_text,
)
from vaultmem.vault.obsidian import LinkFormat
from vaultmem.vault.parse import decode, parse
from vaultmem.vault.paths import (
    fold,
    is_canvas,
    is_note,
    is_searched,
    name_from_disk,
    vault_path,
)
from vaultmem.vault.private import is_private
from vaultmem.vault.prose import prose
from vaultmem.vault.read import Door, Unread, _read_by_path
from vaultmem.vault.screen import Screen, screened
from vaultmem.vault.subpath import comparable_heading, find_place

Target = Callable[[bytes], None]

LONG_AGO = Clock(now_ns=lambda: 10**18, elapsed=lambda: 0.0)


def chosen(data: bytes) -> tuple[int, bytes]:
    """The choice and the text of an input."""
    return (data[0], data[1:]) if data else (0, b"")


# Notes and canvases


@dataclass(frozen=True, slots=True)
class Taken:
    """All that indexing makes of one file."""

    note: Note
    items: tuple[Item, ...]
    chunks: tuple[Chunk, ...]


RULES = KindRules(
    folders={"Log": "log"},
    templates=("Templates",),
    logs=("changelog", "journal", "log"),
    items=("decision", "error", "lesson", "memory"),
)
NOTE_PATHS = ("n.md", "c.canvas", "d.excalidraw.md", "Log/2024-05-06.md")
LIMITS = (40, 90, 180, 1000)


def take_in(path: str, data: bytes, max_pieces: int) -> Taken:
    """What indexing does with a file before anything is stored."""
    note = parse(path, data)
    items = find_items(note, RULES, note_kind(note, RULES))
    return Taken(note, items, chunk_note(note, max_pieces=max_pieces, items=items))


def check_note(data: bytes, *, taking: Callable[[str, bytes, int], Taken] = take_in) -> None:
    """Any bytes are a note, whose passages hold all of it."""
    choice, body = chosen(data)
    path, limit = NOTE_PATHS[choice & 3], LIMITS[choice >> 2 & 3]
    found: list[Taken] = []
    in_time(spent(lambda: found.append(taking(path, body, limit))), len(body))
    taken = found[-1]
    note = taken.note
    sound_note(note)
    sound_items(taken.items, len(note.line_starts))
    sound_chunks(note, taken.chunks)
    bounded_chunks(note, taken.chunks, limit)
    declared = {(item.kind, item.date) for item in taken.items}
    assert all(declared.issuperset(chunk.items) for chunk in taken.chunks)
    _stored(note, taken.chunks)
    _places(note)


def _stored(note: Note, chunks: tuple[Chunk, ...]) -> None:
    """What is stored besides the passages."""
    fields = searched_fields(note)
    rows = documents(fields, chunks)
    assert len(rows.passages) == len(rows.windows) == len(chunks)
    sound(
        fields, rows, note_identity(note), note_kind(note, RULES), [prose(c.text) for c in chunks]
    )
    assert isinstance(note_date(note, RULES), date | None)
    assert isinstance(is_stub(note), bool)


def _places(note: Note) -> None:
    """Headings and blocks are found again by what a link calls them."""
    count = len(note.line_starts)
    for heading in note.headings[:4]:
        place = find_place(note, "#" + heading_for_link(heading.text))
        assert place is None or 1 <= place.first <= (place.last or count) <= count, place
    for block_id in note.block_ids[:4]:
        place = find_place(note, "#^" + block_id.id)
        assert place is not None, f"{block_id} leads nowhere"
        assert 1 <= place.first <= (place.last or count) <= count, place


# Properties

Properties = tuple[Frontmatter, tuple[Problem, ...]]


def check_frontmatter(
    data: bytes,
    *,
    reading: Callable[[str, str], Properties] = read_frontmatter,
    withholding: Callable[[str, str], bool] = is_private,
) -> None:
    """Any block of properties is plain values, or one problem; one that says private is heard."""
    text, _ = decode("n.md", data)
    if not text.startswith("---\n"):
        text = f"---\n{text}\n---\nbody\n"
    answers: list[Properties] = []
    in_time(spent(lambda: answers.append(reading("n.md", text))), len(text))
    found, problems = answers[-1]
    plain_properties(found.properties)
    sound(found, problems)
    lines = text.count("\n") + 1
    if not found.exists:
        assert (found.properties, found.end, found.lines, problems) == ({}, 0, 0, ())
        return
    assert found.text in text
    assert 4 <= found.end <= len(text)
    assert 2 <= found.lines <= lines
    assert text[: found.end].count("\n") in (found.lines - 1, found.lines)
    assert found.valid or problems
    # (But one whose letters are escaped, which only a program writes.)
    heard = "private" in found.text.lower()
    says = [value for key, value in found.properties.items() if heard and key.lower() == "private"]
    assert not any(value is True for value in says) or withholding(text, "private"), says
    for problem in problems:
        assert 1 <= problem.line <= lines, problem
        one_line(problem.message)


# Links, and what else stands in a line


@dataclass(frozen=True, slots=True)
class Found:
    """What the scanners find in a text."""

    masked: str
    links: tuple[Link, ...]
    without_links: str
    tags: tuple[str, ...]
    block_ids: tuple[BlockId, ...]
    tasks: tuple[Task, ...]
    callouts: tuple[Callout, ...]
    fields: tuple[Field, ...]


def scan_text(text: str) -> Found:
    """All scanners over one text."""
    starts = line_offsets(text)
    structure = block_structure(text, starts, 0)
    masked = mask_code(text, starts, structure.code, structure.inline)
    links, rest = find_links(masked, starts, 0, text)
    return Found(
        masked,
        tuple(links),
        rest,
        tuple(find_tags(rest, 0)),
        find_block_ids(rest, starts, 0),
        find_tasks(masked, starts, 0, text),
        find_callouts(masked, starts, 0, text),
        find_fields(masked, starts, 0, text),
    )


VAULT = (
    *("Alpha.md", "dir/Alpha.md", "dir/sub/Alpha.md", "dir/Deep.md", "Note.1.md", "Note.1"),
    *("img/p.png", "board.canvas", "Ärger/Übung.md", "ΟΔΟΣ.md", "C# x.md", "a[b].md", "x/src.md"),
)
SOURCES = ("x/src.md", "dir/sub/Alpha.md", "Alpha.md", "")
NAMES = VaultNames(VAULT)
WITHOUT = tuple((path, VaultNames(p for p in VAULT if p != path)) for path in VAULT)


def check_links(
    data: bytes,
    *,
    scanning: Callable[[str], Found] = scan_text,
    writing: Callable[..., str] = wikilink_text,
) -> None:
    """Any text is scanned, its links lead into the vault or nowhere, and links that are written
    are read again."""
    choice, body = chosen(data)
    text, _ = decode("n.md", body)
    scanned: list[Found] = []
    in_time(spent(lambda: scanned.append(scanning(text))), len(text))
    found = scanned[-1]
    count = text.count("\n") + 1
    sound_mask(text, found.masked)
    sound_mask(found.masked, found.without_links)
    sound_links(found.links, count)
    sound_tags(found.tags)
    for part in (found.block_ids, found.tasks, found.callouts, found.fields):
        ordered_lines([thing.line for thing in part], count)
    one_line(*(text for field in found.fields for text in (field.key, field.value)))
    one_line(*(task.text for task in found.tasks))
    one_line(*(text for c in found.callouts for text in (c.kind, c.title)))
    sound(found)
    for link in found.links[:8]:
        _leads_somewhere(link.target, SOURCES[choice & 3])
    _leads_somewhere(text[:80].replace("\n", ""), SOURCES[choice & 3])
    _written_and_read(text[:400], choice, writing)


def _leads_somewhere(target: str, source: str) -> None:
    """A link leads to a file of the vault or nowhere, and only files of its name decide."""
    to = NAMES.resolve(target, source)
    assert to is None or to in VAULT or (not target and to == source), to
    assert {*NAMES.candidates(target), *NAMES.meanings(target)} <= {*VAULT}
    for gone, names in WITHOUT:
        if names.resolve(target, source) != to:
            assert link_key(target) in affected_keys(gone), f"{target!a} depends on {gone!a}"


def _written_and_read(text: str, choice: int, writing: Callable[..., str]) -> None:
    """Links to files of any name are read as what they were meant to be.

    Of the text, the first lines are names of files, those behind them what is shown and the place.
    """
    lines = [*text.split("\n")[:6], *[""] * 5]
    paths = list(dict.fromkeys(filter(_may_be_a_file, map(vault_path, lines[:4]))))
    if not paths:
        return
    display, subpath = lines[4] or None, lines[5]
    form = list(LinkFormat)[choice % 3]
    names, source = VaultNames(paths), paths[-1]
    for target in filter(partial(_linkable, paths), paths):
        assert names.resolve(link_text(names, target, source, form), source) == target
        for write in (writing, markdown_link_text):
            written = write(
                names,
                target,
                source,
                form,
                display=display,
                subpath=subpath,
                embed=bool(choice & 8),
                in_table=bool(choice & 16),
            )
            one_line(written)
            links, rest = find_links(f"see {written} there", (0,), 0)
            read = [(names.resolve(link.target, source), link.embed) for link in links]
            assert read == [(target, bool(choice & 8))], f"{written!a} read as {links}"
            assert rest.replace("\u2060", " ").split() == ["see", "there"], f"left: {rest!a}"
            assert comparable_heading(links[0].subpath) == comparable_heading(subpath), written


def _may_be_a_file(path: str) -> bool:
    parts = path.split("/")
    return "\0" not in path and all(part.strip(".") for part in parts) and len(path) < 200


def _linkable(paths: list[str], target: str) -> bool:
    """Whether any link can lead to the file: alone with its path, and a note or with a dot."""
    name = target.rpartition("/")[2]
    same = [path for path in paths if fold(path) == fold(target)]
    return len(same) == 1 and (is_note(name) or "." in name)


# Time


def take_in_note(data: bytes) -> object:
    """A note and what is stored of it."""
    taken = take_in("n.md", data, 180)
    return [prose(c.text) for c in taken.chunks], documents(
        searched_fields(taken.note), taken.chunks
    )


GROWING: tuple[Callable[[bytes], object], ...] = (
    take_in_note,
    lambda data: take_in("Log/x.md", data, 40),
    lambda data: take_in("d.excalidraw.md", b"---\nexcalidraw-plugin: x\n---\n" + data, 180),
    lambda data: take_in("c.canvas", _card(data), 180),
    lambda data: read_frontmatter("n.md", f"---\n{decode('n.md', data)[0]}\n---\n"),
    lambda data: parse_query(as_typed(data)),
    lambda data: scan_text(decode("n.md", data)[0]),
    lambda data: _every_place(parse("n.md", data)),
    lambda data: screened("n.md", decode("n.md", data)[0], Screen()),
    lambda data: find_without_re2(decode("n.md", data)[0]),
)

PUMPED_BYTES = 64_000


def _card(data: bytes) -> bytes:
    card = {"type": "text", "id": "a", "text": decode("n.md", data)[0]}
    return json.dumps({"nodes": [card]}).encode()


def _every_place(note: Note) -> None:
    for subpath in ("#a", "#a#b", "#^a", "#[^a]"):
        find_place(note, subpath)


def check_growth(
    data: bytes, *, works: Sequence[Callable[[bytes], object]] = GROWING, size: int = PUMPED_BYTES
) -> None:
    """A text repeated four times as often takes about four times as long.

    The byte 255 parts what comes before and behind from what is repeated.
    """
    choice, body = chosen(data)
    before, unit, behind = (
        [*body.split(b"\xff", 2), b"", b""][:3]
        if b"\xff" in body
        else (
            b"",
            body,
            b"",
        )
    )
    if not unit:
        return
    work = works[choice % len(works)]
    grows_evenly(lambda size: work(before + unit * (size // len(unit)) + behind), size)


# A small vault with everything in it, links out of it, and what lies outside

# No text of a note, and put together here, so that no file of the project holds it.
CANARY = "canary-" + sha256(b"outside the vault").hexdigest()[:16]

NOTES: Mapping[str, str] = {
    "Alpha.md": "---\naliases: [First, .NET]\ntags: [project/x]\n---\n# Alpha\nSee [[Beta]]. ^a1\n",
    "dir/Alpha.md": "# Alpha\nThe other one, with `code_of_mine()` and Straße.\n",
    "dir/Beta.md": "---\ntype: log\n---\n## 2024-05-06\nMet Ada.\n\n## 2024-05-07\nWrote back.\n",
    "dir/sub/Gamma.md": "decision:: We keep SQLite (2024-03-01)\n\n> [!error] It broke\n> Again.\n",
    "C# x.md": "# C# and F#\nNode.js, C++ and e-mail: don't.\n",
    "日本語.md": "東京都に住んでいます。全文検索の試験。\n",
    "Übung.md": "# Übung\nKöln, café, naïve. #ärger\n",
    "board.canvas": '{"nodes":[{"id":"a","type":"text","text":"# Card\\nOn the board"}]}',
    "long.md": "".join(f"## Part {n}\n{'words and more words. ' * 40}\n" for n in range(6)),
    "empty.md": "",
}


def make_vault(folder: Path) -> Path:
    """The vault, with links out of it (and one within) where the system has links."""
    outside, vault = folder / "outside", folder / "vault"
    for path, text in {"secret.md": CANARY, "deep/secret.md": CANARY}.items():
        (outside / path).parent.mkdir(parents=True, exist_ok=True)
        (outside / path).write_text(text, "utf-8")
    (folder / "vault-twin").mkdir()
    (folder / "vault-twin" / "secret.md").write_text(CANARY, "utf-8")
    for path, text in NOTES.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text, "utf-8")
    (vault / ".hidden").mkdir()
    (vault / ".hidden" / "secret.md").write_text("hidden\n", "utf-8")
    if hasattr(os, "O_NOFOLLOW"):
        (vault / "out.md").symlink_to(outside / "secret.md")
        (vault / "out").symlink_to(outside, target_is_directory=True)
        (vault / "dir" / "twice.md").symlink_to("../out.md")
        (vault / "dir" / "up").symlink_to("../..", target_is_directory=True)
        (vault / "gone.md").symlink_to(outside / "none.md")
        (vault / "within.md").symlink_to("Alpha.md")
        (vault / "self.md").symlink_to("self.md")
        os.mkfifo(vault / "pipe.md")
    return vault


@contextmanager
def opened(folder: Path) -> Iterator[Memory]:
    """The small vault, indexed by words. Not looked at again: it does not change."""
    environment = {"VAULTMEM_EMBEDDER_NAME": "none", "VAULTMEM_SEARCH_REFRESH": "never"}
    settings = load_settings(make_vault(folder), folder / "cache", environment=environment)
    memory = open_memory(settings, clock=LONG_AGO)
    try:
        index(memory, IndexRequest())
        yield memory
    finally:
        memory.close()


class Untouched:
    """A sidecar's tables as they were; another connection sees whether anything was committed."""

    def __init__(self, memory: Memory) -> None:
        sidecar = memory.open_sidecar()
        assert sidecar is not None
        self._db = apsw.Connection(sidecar.connection.filename, flags=apsw.SQLITE_OPEN_READONLY)
        self._version = self._data_version()
        self._tables = self._all_rows()

    def _data_version(self) -> object:
        return self._db.execute("PRAGMA data_version").get

    def _all_rows(self) -> str:
        tables = self._db.execute(
            "SELECT name FROM sqlite_schema "
            "WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
        ).get
        assert isinstance(tables, list)
        digest = sha256(repr(self._db.execute("SELECT * FROM sqlite_schema").get).encode())
        for name in tables:
            digest.update(repr(self._db.execute(f'SELECT * FROM "{name}"').get).encode())
        return digest.hexdigest()

    def nothing_committed(self) -> None:
        """Cheap enough to ask after every question."""
        assert self._data_version() == self._version, "a question changed the sidecar"

    def close(self) -> None:
        """A last look at every row."""
        tables = self._all_rows()
        self._db.close()
        assert tables == self._tables, "questions changed the sidecar"


# Questions

CHANNELS = ("passage", "window", "note", "vector")
MODES = (None, "keyword", "graph", "hybrid")


def as_typed(data: bytes) -> str:
    """A text as a person or a program may hand it over: halves of characters among it."""
    return data.decode("utf-8", "surrogateescape")


def check_query(
    data: bytes,
    memory: Memory,
    untouched: Untouched,
    *,
    answering: Callable[[Memory, SearchRequest], SearchReply] = search,
) -> None:
    """Any question has an answer, and asking changes nothing."""
    choice, body = chosen(data)
    text = as_typed(body)
    _sound_query(text)
    query, *conditions = text.split("\n") if choice & 128 else (text,)
    request = SearchRequest(
        query,
        limit=(1, 3, 10, 1000)[choice & 3],
        mode=MODES[choice >> 2 & 3],
        tags=tuple(conditions[::3]),
        paths=tuple(conditions[1::3]),
        kinds=tuple(conditions[2::3]),
        passages=bool(choice & 16),
        without=CHANNELS[: choice >> 5 & 3],
    )
    replies: list[SearchReply] = []
    try:
        in_time(spent(lambda: replies.append(answering(memory, request))), len(text))
    except Refused as error:
        assert any(".." in unquote(path) or "~" in path or "\0" in path for path in request.paths)
        _says_nothing_of_outside(str(error), memory, text)
        return
    reply = replies[-1]
    assert len(reply.hits) <= (request.limit or 0)
    paths = [hit.path for hit in reply.hits]
    assert set(paths) <= NOTES.keys()
    assert request.passages or len(set(paths)) == len(paths), "a note twice"
    assert all(0 <= hit.score <= 1 for hit in reply.hits), [hit.score for hit in reply.hits]
    assert all(a.score >= b.score for a, b in zip(reply.hits, reply.hits[1:], strict=False))
    for hit in reply.hits:
        first, last = hit.lines
        lines = NOTES[hit.path].count("\n") + 1
        assert 1 <= first <= last <= lines or is_canvas(hit.path), hit.lines
        assert not hit.stale
        assert CANARY not in hit.snippet
    sound(
        [(hit.path, hit.title, hit.heading, hit.snippet, hit.kind, hit.uri) for hit in reply.hits]
    )
    to_json(reply)
    untouched.nothing_committed()


def _sound_query(text: str) -> None:
    query = parse_query(text)
    for words in (query.words, query.excluded):
        assert len(words) <= MAX_WORDS
        assert all(word.forms and all(form.strip() for form in word.forms) for word in words)
    sound([word.forms for word in (*query.words, *query.excluded)], query.name, query.filters)


@contextmanager
def query_target(folder: Path) -> Iterator[Target]:
    """Questions to the small vault."""
    with opened(folder) as memory:
        untouched = Untouched(memory)
        yield partial(check_query, memory=memory, untouched=untouched)
        untouched.close()


# Paths


def behind_the_door(vault: Path, path: str, limit: int) -> bytes | Unread:
    """A file of the vault through the door."""
    with Door(vault) as door:
        return door.read(path, limit=limit)


def check_path(
    data: bytes,
    memory: Memory,
    *,
    finding: Callable[[Memory, str], tuple[FoundNote, str]] = lambda memory, given: find_note(
        memory.lookup(), given, memory.vault
    ),
    opening: Callable[[Path, str, int], bytes | Unread] = behind_the_door,
) -> None:
    """Whatever is asked for, what is read lies in the vault; what is refused is refused plainly."""
    choice, body = chosen(data)
    text = as_typed(body)
    _sound_spelling(text)
    note: FoundNote | None = None
    try:
        with memory.guarded():
            note, subpath = finding(memory, text)
    except (NoteNotFound, NoteAmbiguous, Refused) as error:
        _says_nothing_of_outside(str(error), memory, text)
    else:
        assert note.path in NOTES, note.path
        assert not subpath or subpath[0] == "#"
    _read_whole(memory, text, choice, note)
    limit = (0, 20, 1 << 20, 1 << 20)[choice & 3]
    for look in (opening, _read_by_path):
        answer = look(memory.vault, text, limit)
        if isinstance(answer, Unread):
            assert answer.code
            _says_nothing_of_outside(answer.message, memory, text)
        else:
            assert CANARY.encode() not in answer, f"{text!a} leads out of the vault"
            assert len(answer) <= limit
            assert answer in {t.encode() for t in (*NOTES.values(), "hidden\n")}


def _read_whole(memory: Memory, text: str, choice: int, note: FoundNote | None) -> None:
    """Reading names what finding does, and gives that note's own text."""
    request = ReadRequest(text, max_tokens=(None, 1, 70, 1000)[choice >> 2 & 3])
    try:
        reply: ReadReply = read(memory, request)
    except (NoteNotFound, NoteAmbiguous, Refused) as error:
        _says_nothing_of_outside(str(error), memory, text)
        return
    assert note is not None
    assert reply.path == note.path
    assert CANARY not in reply.text
    assert is_canvas(reply.path) or reply.text in NOTES[reply.path]
    assert request.max_tokens is None or len(reply.text) <= max(80, 3 * request.max_tokens)
    sound(reply)


def _says_nothing_of_outside(message: str, memory: Memory, text: str) -> None:
    assert message
    assert CANARY not in message
    folder = str(memory.vault.parent)
    assert folder in text or folder not in message, message


def _sound_spelling(text: str) -> None:
    """Spellings are settled at once, and what may be asked for cannot climb."""
    path = vault_path(text)
    assert vault_path(path) == path, f"{text!a} has two spellings"
    assert name_from_disk(name_from_disk(text)) == name_from_disk(text)
    assert fold(fold(text)) == fold(text), f"{text!a} folds twice"
    assert not (is_note(path) and is_canvas(path))
    assert is_searched(path) == (is_note(path) or is_canvas(path))
    try:
        refuse_traversal(text)
    except Refused:
        return
    assert "\0" not in path
    assert ".." not in path.split("/")


@contextmanager
def path_target(folder: Path) -> Iterator[Target]:
    """Paths into the small vault, and out of it."""
    with opened(folder) as memory:
        yield partial(check_path, memory=memory)


@contextmanager
def _pure(check: Target, _: Path) -> Iterator[Target]:
    yield check


# Name -> what opens the target in a folder of its own.
TARGETS: Mapping[str, Callable[[Path], AbstractContextManager[Target]]] = {
    "note": partial(_pure, check_note),
    "frontmatter": partial(_pure, check_frontmatter),
    "links": partial(_pure, check_links),
    "query": query_target,
    "path": path_target,
    "growth": partial(_pure, check_growth),
    "secrets": partial(_pure, check_secrets),
}
