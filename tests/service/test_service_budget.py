"""Replies keep to the room that they are given, and a cursor gets all that had none."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vaultmem.model.errors import NoteNotFound, UsageError
from vaultmem.model.operation import Operation, Reply, Request
from vaultmem.service.application import Memory
from vaultmem.service.budget import CUT, TOKEN_BYTES, fitted, tokens
from vaultmem.service.dispatch import MOST_REPLY_TOKENS, REPLY_TOKENS, within_room
from vaultmem.service.fence import fenced_reply, to_text
from vaultmem.service.operations import OPERATIONS
from vaultmem.service.operations.evaluate import EvaluateRequest
from vaultmem.service.operations.index import IndexRequest
from vaultmem.service.operations.inspect import InspectRequest
from vaultmem.service.operations.lint import LintRequest, lint
from vaultmem.service.operations.read import ReadReply, ReadRequest, read
from vaultmem.service.operations.related import RelatedRequest, related
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.operations.secrets import SecretsRequest
from vaultmem.service.operations.status import StatusRequest, status
from vaultmem.service.plain import plain

# Something is always given, or a cursor would lead nowhere: however little room there is, a reply
# about notes with ordinary names may take this much. In tokens.
LEAST = 400
# Replies longer than this are cut off by clients: tokens.
CUT_OFF = 25_000

Indexed = Callable[..., Memory]


@pytest.fixture(autouse=True, scope="module")
def no_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Health checks look at the assistants of a home that has none."""
    home = str(tmp_path_factory.mktemp("home"))
    with pytest.MonkeyPatch.context() as changed:
        for name in ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "XDG_CONFIG_HOME"):
            changed.setenv(name, home)
        yield


BY_NAME = {operation.name: operation for operation in OPERATIONS}


def size(reply: Reply) -> int:
    """Tokens of a reply: bytes of its lean JSON, three to one."""
    text = json.dumps(plain(reply, lean=True), ensure_ascii=False, separators=(",", ":"))
    return -(-len(text.encode("utf-8", "surrogatepass")) // TOKEN_BYTES)


def run(memory: Memory, request: Request) -> Reply:
    """The reply of the operation that the request is for."""
    (operation,) = [o for o in OPERATIONS if type(request) is o.request]
    reply: Reply = operation.run(memory, request)
    return reply


def walk(ask: Callable[[Request], Any], request: Request, *, most: int = 20_000) -> Iterator[Any]:
    """Reply after reply, each from the cursor of the one before."""
    for _ in range(most):
        reply = ask(request)
        yield reply
        if reply.next is None:
            return
        assert reply.next != request.cursor
        request = replace(request, cursor=reply.next)
    pytest.fail(f"no end after {most} replies")


def joined(replies: list[Any], name: str) -> Any:
    """A field's parts put together again."""
    parts = [getattr(reply, name) for reply in replies]
    if isinstance(parts[0], str):
        return "".join(parts)
    if isinstance(parts[0], dict):
        return [pair for part in parts for pair in part.items()]
    return [one for part in parts for one in part]


def whole(reply: Reply, name: str) -> Any:
    """The same of a reply that holds all."""
    value = getattr(reply, name)
    if isinstance(value, str):
        return value
    return list(value.items()) if isinstance(value, dict) else list(value)


def listed_fields(reply: Reply) -> list[str]:
    """Lists, mappings and texts that may be cut."""
    return [
        f.name
        for f in fields(reply)
        if not f.kw_only
        and f.name != "lines"
        and (isinstance(getattr(reply, f.name), tuple | dict) or CUT in f.metadata)
    ]


# A vault with much of everything


MANY = 300
PARAGRAPHS = "\n\n".join(f"Paragraph {n} about clay, glaze and the kiln." for n in range(400))
LONG: dict[str, str] = {
    "paragraphs.md": f"# Paragraphs\n\n{PARAGRAPHS}\n",
    "lines.md": "".join(f"line {n} of clay\n" for n in range(3000)),
    "one line.md": "clay " * 20_000,
    "line below a heading.md": "# Transcript\n\n" + "clay and " * 20_000,
    "chinese.md": "# 窑\n\n" + "黏土和釉料的记录。" * 4000,
    "emoji.md": "# Emoji\n\n" + "🏺🔥 clay\n" * 3000,
    "controls.md": "clay \x01\x02\x1b[8m\x7f" * 4000,
    "crlf.md": "clay\r\n\r\nglaze\r\n" * 2000,
    "blank.md": "\n" * 5000 + "clay\n" + "\n" * 5000,
    "properties.md": "---\n"
    + "".join(f"key {n}: value {n}\n" for n in range(1500))
    + "tags: ["
    + ", ".join(f"t{n}" for n in range(80))
    + "]\naliases: ["
    + ", ".join(f"other name {n}" for n in range(80))
    + "]\n---\nclay\n\n"
    + "\n".join(f"field{n}:: value {n}" for n in range(MANY))
    + "\n",
    "hub.md": "\n".join(f"- [[n{n}]] and [[nowhere {n}]]" for n in range(MANY)) + "\n",
    **{f"n{n}.md": f"clay {n} see [[hub]]\n" for n in range(MANY)},
    "a/twin.md": "clay\n",
    "b/twin.md": "clay [[twin]]\n",
}
QUESTIONS = "\n".join(
    json.dumps({"query": f"clay {n}", "relevant": [f"n{n}", f"gone {n}"], "kind": f"kind {n}"})
    for n in range(12)
)

REQUESTS: dict[str, Request] = {
    **{f"read {path}": ReadRequest(path) for path in LONG if not re.match(r"n\d|./twin", path)},
    "read n1": ReadRequest("n1.md"),
    "related hub": RelatedRequest("hub"),
    "search": SearchRequest("clay", limit=200),
    "search in full": SearchRequest("clay", limit=60, detail="full"),
    "search passages": SearchRequest("clay kiln", limit=60, passages=True),
    "lint": LintRequest(),
    "status": StatusRequest(),
    "status with settings": StatusRequest(settings=True),
    "status with checks": StatusRequest(checks=True, settings=True),
    "index": IndexRequest(embed=False),
    "inspect": InspectRequest("hub"),
    "secrets": SecretsRequest(),
    "evaluate": EvaluateRequest(QUESTIONS, mode="keyword"),
}
# Asking these takes a second or two each time.
SLOW = {"evaluate", "status with checks"}
ROOMS = (1, 40, 200, 400, 700, 1_000, 2_500, 6_000, 16_000)


@pytest.fixture(scope="module")
def long_vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """The vault, indexed once; the tests here only ask."""
    from vaultmem.service.application import open_memory
    from vaultmem.service.operations.index import index
    from vaultmem.service.settings import load_settings

    scratch = tmp_path_factory.mktemp("budget")
    for path, text in LONG.items():
        file = scratch / "vault" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    environment = {
        "VAULTMEM_EMBEDDER_NAME": "none",
        "VAULTMEM_STATE_DIR": str(scratch / "state"),
    }
    memory = open_memory(
        load_settings(scratch / "vault", scratch / "cache", environment=environment)
    )
    index(memory, IndexRequest())
    yield memory
    memory.close()


@pytest.mark.parametrize("name", REQUESTS)
def test_no_reply_takes_more_than_its_room(long_vault: Memory, name: str) -> None:
    rooms = ROOMS if name not in SLOW else (200, 1_000)
    for room in rooms:
        reply = run(long_vault, replace(REQUESTS[name], max_tokens=room))
        assert size(reply) <= max(room, LEAST), (name, room)
        assert tokens(reply) == size(reply)


@pytest.mark.parametrize("name", REQUESTS)
def test_no_reply_from_a_cursor_takes_more_than_its_room(long_vault: Memory, name: str) -> None:
    room = 700 if name not in SLOW else 2_000
    request = replace(REQUESTS[name], max_tokens=room)
    for number, reply in enumerate(walk(lambda asked: run(long_vault, asked), request)):
        assert size(reply) <= room, (name, number)
        if number == (30 if name not in SLOW else 4):
            break


@pytest.mark.parametrize("room", [800, 3_000])
@pytest.mark.parametrize("name", [name for name in REQUESTS if name not in SLOW])
def test_the_replies_of_a_walk_put_together_are_the_whole_one(
    long_vault: Memory, name: str, room: int
) -> None:
    request = REQUESTS[name]
    if isinstance(request, SearchRequest) and request.detail is None:
        request = replace(request, detail="index")
    everything = run(long_vault, request)
    replies = list(
        walk(lambda asked: run(long_vault, asked), replace(request, max_tokens=room), most=2_000)
    )
    for part in listed_fields(everything):
        assert joined(replies, part) == whole(everything, part), part
    assert [reply.degraded for reply in replies] == [everything.degraded] * len(replies)
    assert all(reply.omitted for reply in replies[:-1])
    assert replies[-1].omitted == ()


def test_an_evaluation_can_be_walked(long_vault: Memory) -> None:
    request = EvaluateRequest(QUESTIONS, mode="keyword", compare=False)
    everything: Any = run(long_vault, request)
    replies = list(
        walk(lambda asked: run(long_vault, asked), replace(request, max_tokens=400), most=20)
    )
    assert len(replies) > 2
    for part in ("by_kind", "variants", "unavailable", "skipped", "missing"):
        assert joined(replies, part) == whole(everything, part)
    assert {reply.degraded for reply in replies} == {everything.degraded}


def test_health_checks_can_be_walked_though_what_they_measure_differs(long_vault: Memory) -> None:
    request = StatusRequest(checks=True, max_tokens=300)
    replies = list(walk(lambda asked: run(long_vault, asked), request, most=12))
    assert len(replies) > 1
    checks = joined(replies, "checks")
    assert [check.id for check in checks] == list(dict.fromkeys(check.id for check in checks))
    assert len(checks) > 10
    assert {reply.degraded for reply in replies} == {()}


def test_a_walk_on_a_still_vault_never_says_that_the_answer_changed(long_vault: Memory) -> None:
    for name, request in REQUESTS.items():
        if name in SLOW:
            continue
        first = run(long_vault, replace(request, max_tokens=300))
        if first.next is not None:
            second = run(long_vault, replace(request, max_tokens=300, cursor=first.next))
            assert not [said for said in second.degraded if "cursor" in said], name


@pytest.mark.parametrize("room", [1_000, 6_000, 16_000])
@pytest.mark.parametrize("name", [name for name in REQUESTS if name not in SLOW])
def test_a_reply_that_leaves_something_out_has_used_its_room(
    long_vault: Memory, name: str, room: int
) -> None:
    reply = run(long_vault, replace(REQUESTS[name], max_tokens=room))
    if reply.next is not None:
        assert size(reply) >= room // 2


def test_text_is_cut_between_paragraphs(long_vault: Memory) -> None:
    text = read(long_vault, ReadRequest("paragraphs")).text
    request = ReadRequest("paragraphs", max_tokens=600)
    given = 0
    for reply in walk(lambda asked: run(long_vault, asked), request):
        given += len(reply.text)
        assert reply.text.endswith("\n\n") or given == len(text)
        assert reply.text.startswith(("Paragraph ", "# Paragraphs\n"))
    assert given == len(text)


def test_text_without_paragraphs_is_cut_between_lines(long_vault: Memory) -> None:
    request = ReadRequest("lines", max_tokens=500)
    for reply in walk(lambda asked: run(long_vault, asked), request):
        assert reply.text.endswith(" of clay\n")
        assert reply.text.startswith("line ")


@pytest.mark.parametrize("name", ["paragraphs", "lines", "chinese", "crlf", "blank", "properties"])
def test_lines_and_truncated_are_those_of_the_text_that_is_given(
    long_vault: Memory, name: str
) -> None:
    text = read(long_vault, ReadRequest(name)).text
    last_line = 1 + text.rstrip("\n").count("\n")
    start = 0
    for reply in walk(lambda asked: run(long_vault, asked), ReadRequest(name, max_tokens=900)):
        end = start + len(reply.text)
        if reply.text.strip("\n"):
            first = 1 + text.count("\n", 0, start)
            assert reply.lines == (first, first + reply.text.rstrip("\n").count("\n"))
        assert 1 <= reply.lines[0] <= reply.lines[1] <= max(last_line, reply.lines[0])
        assert reply.lines[0] <= text.count("\n") + 1
        assert reply.truncated is (end < len(text))
        start = end
    assert start == len(text)


def test_a_section_keeps_the_lines_of_its_file(indexed: Indexed) -> None:
    below = "".join(f"sentence {n}\n\n" for n in range(200))
    memory = indexed({"n.md": f"# One\n\nclay\n\n# Two\n\n{below}# Three\n"})
    file = (memory.vault / "n.md").read_text().split("\n")
    request = ReadRequest("n#Two", max_tokens=300)
    replies = list(walk(lambda asked: run(memory, asked), request))
    assert len(replies) > 3
    for reply in replies:
        given = [line for line in reply.text.rstrip("\n").split("\n") if reply.text]
        if given:
            assert given == file[reply.lines[0] - 1 : reply.lines[1]]


@pytest.mark.parametrize("name", ["read properties.md", "related hub", "lint"])
def test_what_is_left_out_is_counted(long_vault: Memory, name: str) -> None:
    everything = run(long_vault, REQUESTS[name])
    given: dict[str, int] = {}
    request = replace(REQUESTS[name], max_tokens=1_500)
    for reply in walk(lambda asked: run(long_vault, asked), request):
        for part in listed_fields(everything):
            given[part] = given.get(part, 0) + len(getattr(reply, part))
        said = dict(line.split(": ", 1) for line in reply.omitted)
        for part, count in given.items():
            left = len(getattr(everything, part)) - count
            if part != "text":
                assert said.get(part) == (f"{left:,} more" if left else None)
            else:
                assert (part in said) is bool(left)


# A changed answer


def test_an_answer_that_changed_is_said_to_have(indexed: Indexed) -> None:
    memory = indexed({"a.md": PARAGRAPHS})
    first = read(memory, ReadRequest("a", max_tokens=400))
    assert first.degraded == ()
    (memory.vault / "a.md").write_text("Something new.\n\n" + PARAGRAPHS)
    second = read(memory, ReadRequest("a", max_tokens=400, cursor=first.next))
    assert [said for said in second.degraded if "not what it was" in said]
    third = read(memory, ReadRequest("a", max_tokens=400, cursor=second.next))
    assert third.degraded == ()


def test_an_answer_that_became_short_ends_the_walk_and_says_so(indexed: Indexed) -> None:
    memory = indexed({"a.md": PARAGRAPHS})
    first = read(memory, ReadRequest("a", max_tokens=400))
    (memory.vault / "a.md").write_text("Short.")
    second = read(memory, ReadRequest("a", max_tokens=400, cursor=first.next))
    assert second.next is None
    assert [said for said in second.degraded if "not what it was" in said]


def test_an_answer_of_which_nothing_is_left_says_so(indexed: Indexed) -> None:
    memory = indexed({f"n{n}.md": "clay\n" for n in range(100)})
    first = search(memory, SearchRequest("clay", limit=100, max_tokens=400))
    for file in memory.vault.iterdir():
        file.write_text("glaze\n")
    second = search(memory, SearchRequest("clay", limit=100, max_tokens=400, cursor=first.next))
    assert (second.hits, second.next) == ((), None)
    assert [said for said in second.degraded if "not what it was" in said]


def test_a_walk_ends_while_the_vault_goes_on_changing(indexed: Indexed) -> None:
    memory = indexed({"a.md": PARAGRAPHS})

    def ask(request: Request) -> ReadReply:
        with (memory.vault / "a.md").open("a") as file:
            file.write("More.\n\n")
        reply = run(memory, request)
        assert isinstance(reply, ReadReply)
        return reply

    assert len(list(walk(ask, ReadRequest("a", max_tokens=1_000), most=60))) > 5


# Cursors


BAD_CURSORS = [
    "", " ", "0", "text", "text:", "text:5", "text:5~", "~00000000", "text:5~zzzzzzzz",
    "text:-1~00000000", "text:5~0000000", "text:5~000000000", "TEXT:5~00000000",
    "text:5,~00000000", ",text:5~00000000", "text:1234567890~00000000", "text:5~00000000\n",
    "\ntext:5~00000000", "text:5;links:3~00000000", "../../etc/passwd", "\0", "x" * 100_000,
    "text:٥~00000000", "text:²~00000000", "null", "None", "{}", '{"text": 5}',
]  # fmt: skip


@pytest.mark.parametrize("cursor", BAD_CURSORS)
def test_what_is_no_cursor_is_refused(long_vault: Memory, cursor: str) -> None:
    for request in (ReadRequest("paragraphs"), SearchRequest("clay"), LintRequest()):
        for room in (None, 500):
            with pytest.raises(UsageError) as raised:
                run(long_vault, replace(request, cursor=cursor, max_tokens=room))
            assert len(str(raised.value)) < 300
            assert "next" in str(raised.value)


@given(cursor=st.text(max_size=40) | st.from_regex(r"[a-z_]{1,9}:\d{1,9}~[0-9a-f]{8}"))
def test_any_text_as_a_cursor_is_refused_or_answered(long_vault: Memory, cursor: str) -> None:
    try:
        reply = related(long_vault, RelatedRequest("n1", cursor=cursor, max_tokens=400))
    except UsageError:
        return
    assert size(reply) <= LEAST


@pytest.mark.parametrize(
    "cursor",
    [
        "text:999999999~00000000",
        "text:0~00000000",
        "no_such:3~00000000",
        "text:5,text:9~00000000",
        "links:3~00000000",
        "text:4,frontmatter:0,properties:2,fields:1,tags:0,aliases:0,backlinks:1~0badcafe",
    ],
)
def test_a_cursor_to_a_place_of_another_answer_is_said_not_to_fit(
    long_vault: Memory, cursor: str
) -> None:
    first = read(long_vault, ReadRequest("paragraphs", max_tokens=400))
    key = str(first.next).rpartition("~")[2]
    asked = ReadRequest("paragraphs", cursor=f"{cursor}~{key}", max_tokens=400)
    reply = read(long_vault, asked)
    assert [said for said in reply.degraded if "not what it was" in said]
    assert reply.text or reply.links or reply.backlinks
    if cursor.startswith("text:999999999"):
        assert first.text.startswith(reply.text)
    assert size(reply) <= LEAST


def test_a_cursor_of_another_request_is_refused(long_vault: Memory) -> None:
    first = read(long_vault, ReadRequest("paragraphs", max_tokens=400))
    with pytest.raises(UsageError, match="another request"):
        read(long_vault, ReadRequest("lines", max_tokens=400, cursor=first.next))
    with pytest.raises(UsageError, match="another request"):
        related(long_vault, RelatedRequest("paragraphs", max_tokens=400, cursor=first.next))


@pytest.mark.parametrize("room", [0, -1, True, False, 1.5, "400", float("nan"), []])
def test_a_room_that_is_no_number_of_tokens_is_refused(long_vault: Memory, room: Any) -> None:
    for request in (ReadRequest("n1"), SearchRequest("clay"), LintRequest(), StatusRequest()):
        with pytest.raises(UsageError):
            run(long_vault, replace(request, max_tokens=room))


@pytest.mark.parametrize("name", BY_NAME)
def test_every_operation_refuses_a_room_of_nothing(long_vault: Memory, name: str) -> None:
    least = {"query": "clay", "note": "n1", "questions": QUESTIONS, "fingerprints": ("x",)}
    operation = BY_NAME[name]
    named = {f.name for f in fields(operation.request)}
    needed: dict[str, Any] = {key: given for key, given in least.items() if key in named}
    asked = operation.request(**needed)
    with pytest.raises(UsageError, match="number of tokens"):
        operation.run(long_vault, replace(asked, max_tokens=0))


# Any reply at all


@dataclass(frozen=True, slots=True)
class Row:
    """Something with a number."""

    number: int
    name: str


@dataclass(frozen=True, slots=True)
class Shelf(Reply):
    """A reply with a field of each sort."""

    title: str
    lines: tuple[int, int]
    text: str = field(metadata={CUT: ("lines", "truncated")})
    rows: tuple[Row, ...] = ()
    labels: dict[str, object] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    truncated: bool = False


def on_a_shelf(shelf: Shelf) -> Callable[[Request], Shelf]:
    """An operation that has just this to say."""

    def all_of_it(_: Memory, __: Request) -> Shelf:
        return shelf

    give = fitted(all_of_it)
    return lambda request: give(cast(Memory, None), request)


LINES = st.text(
    st.sampled_from('ab \n\n\n\t\r\\"é窑🏺\x00\x1b\u2028\u200b\U000e0041'), max_size=400
) | st.text(max_size=300)
SHORT = st.text(max_size=60)


@given(
    text=LINES,
    names=st.lists(SHORT, max_size=12),
    labels=st.dictionaries(SHORT, st.none() | st.integers() | SHORT, max_size=8),
    words=st.lists(SHORT, max_size=8),
    room=st.integers(1, 400),
)
@example(text="", names=[], labels={}, words=[], room=1)
@example(text="\n" * 300, names=["a"], labels={"": None}, words=[""], room=1)
@example(text="x" * 400, names=[], labels={}, words=[], room=1)
@example(text="a\n" + "x" * 400, names=["\x00" * 60] * 12, labels={}, words=[], room=90)
def test_a_walk_gives_every_item_once_and_the_text_to_the_byte(
    text: str, names: list[str], labels: dict[str, object], words: list[str], room: int
) -> None:
    rows = tuple(Row(number, name) for number, name in enumerate(names))
    lines = (3, 3 + text.rstrip("\n").count("\n"))
    shelf = Shelf("Title", lines, text, rows, labels, tuple(words))
    most = len(text) + len(rows) + len(labels) + len(words) + 1
    replies = list(walk(on_a_shelf(shelf), Request(max_tokens=room), most=most))
    for part in ("text", "rows", "labels", "words"):
        assert joined(replies, part) == whole(shelf, part)
    start = 0
    for reply in replies:
        assert reply.degraded == ()
        # One name of sixty characters, each written as an escape, is all there can be too much.
        assert size(reply) <= max(room, 340)
        if reply.text.strip("\n"):
            first = 3 + text.count("\n", 0, start)
            assert reply.lines == (first, first + reply.text.rstrip("\n").count("\n"))
        start += len(reply.text)
        assert reply.truncated is (start < len(text))
        assert (reply.next is None) is (reply.omitted == ())


def test_a_small_reply_is_given_as_it_is() -> None:
    shelf = Shelf("Title", (1, 1), "text", (Row(1, "a"),), {"a": None, "b": False}, ("w",))
    assert on_a_shelf(shelf)(Request(max_tokens=300)) == shelf
    assert on_a_shelf(shelf)(Request()) == shelf


def test_properties_that_begin_alike_are_told_apart() -> None:
    labels: dict[str, object] = {"k" * 200 + str(number): number for number in range(6)}
    shelf = Shelf("Title", (1, 1), "text", labels=labels)
    replies = list(walk(on_a_shelf(shelf), Request(max_tokens=200), most=20))
    assert [given for _, given in joined(replies, "labels")] == list(range(6))


@pytest.mark.parametrize(
    "labels",
    [
        {"a": "x" * 5_000},
        {"k" * 5_000: 1},
        {"a": {"k" * 5_000: 1}},
        {"a": ["word"] * 5_000},
        {"a": {f"k{n}": n for n in range(5_000)}},
        {"a": [["word"] * 50] * 50},
    ],
    ids=["text", "name", "name within", "list", "mapping", "lists"],
)
def test_an_item_too_large_for_the_room_is_shortened_and_said_to_be(
    labels: dict[str, object],
) -> None:
    shelf = Shelf("Title", (1, 1), "text", (Row(1, "row"),), labels, ("word",))
    replies = list(walk(on_a_shelf(shelf), Request(max_tokens=500), most=20))
    assert max(size(reply) for reply in replies) <= 500
    assert len(joined(replies, "labels")) == 1
    assert joined(replies, "rows") == [Row(1, "row")]
    said = [line for reply in replies for line in (*reply.omitted, *reply.degraded)]
    assert [line for line in said if "short" in line]


# Nasty notes, and the room that a server gives


FOLDERS = "/".join("窑" * 80 + str(n) for n in range(8))
TAG_CHARACTERS = "".join(chr(0xE0041 + n % 26) for n in range(60))
NASTY: dict[str, str] = {
    **{f"{n} {TAG_CHARACTERS}.md": f"clay {n} [[hub]]\n" for n in range(150)},
    **{f"{FOLDERS}/{'釉' * 80}{n}.md": f"# {'陶' * 400}\n\nclay\n[[hub]]\n" for n in range(60)},
    **{f"q/{n}{chr(34) * 200}.md": "clay [[hub]]\n" for n in range(60)},
    **{f"e/{n}{'🏺' * 58}.md": "clay [[hub]]\n" for n in range(60)},
    "hub.md": "# "
    + "H" * 200_000
    + "\n\nclay\n"
    + "".join(f"- [[{'n' * 300}{n}]] [[{n} {TAG_CHARACTERS}]]\n" for n in range(150))
    + "".join(f"## {'heading ' * 2000}{n}\n\nclay\n" for n in range(20)),
    "tags.md": "---\ntags: [" + ", ".join(f"{'陶' * 290}{n}" for n in range(60)) + "]\n---\nclay\n",
    "list.md": "---\nl: [" + ", ".join("🏺🏺🏺🏺" for _ in range(9_000)) + "]\n---\nclay\n",
    "key.md": "---\na:\n  ? " + "k" * 60_000 + "\n  : 1\n---\nclay\n",
    "title.md": "---\ntitle: " + "陶" * 20_000 + "\n---\nclay\n",
    "a/x.md": "clay\n",
    **{f"{FOLDERS}/{n}/twin.md": "clay\n" for n in range(30)},
    "links twin.md": "[[twin]]\n" * 200,
}
NASTY_KINDS = "\n".join(
    json.dumps({"query": "clay", "relevant": ["hub"], "kind": f"{n} {'陶' * 1_000}"})
    for n in range(40)
)
NASTY_REQUESTS: dict[str, Request] = {
    "search": SearchRequest("clay", limit=1_000),
    "search in full": SearchRequest("clay", limit=1_000, detail="full"),
    "search for a long text": SearchRequest("clay " * 60_000),
    "read hub": ReadRequest("hub"),
    "read tags": ReadRequest("tags"),
    "read list": ReadRequest("list"),
    "read key": ReadRequest("key"),
    "read title": ReadRequest("title"),
    "read a deep note": ReadRequest(f"{FOLDERS}/{'釉' * 80}1.md"),
    "related hub": RelatedRequest("hub"),
    "related of a deep note": RelatedRequest(f"{FOLDERS}/{'釉' * 80}1.md"),
    "lint": LintRequest(),
    "status": StatusRequest(checks=True, settings=True),
    "index": IndexRequest(embed=False),
    "inspect": InspectRequest("hub"),
    "inspect a deep note": InspectRequest(f"{FOLDERS}/{'釉' * 80}1.md"),
    "secrets": SecretsRequest(),
    "evaluate": EvaluateRequest(NASTY_KINDS, mode="keyword", source="s" * 100_000),
}


@pytest.fixture(scope="module")
def nasty_vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    from vaultmem.service.application import open_memory
    from vaultmem.service.operations.index import index
    from vaultmem.service.settings import load_settings

    scratch = tmp_path_factory.mktemp("nasty")
    write_below(scratch / "vault", NASTY)
    environment = {
        "VAULTMEM_EMBEDDER_NAME": "none",
        "VAULTMEM_STATE_DIR": str(scratch / "state"),
    }
    memory = open_memory(
        load_settings(scratch / "vault", scratch / "cache", environment=environment)
    )
    index(memory, IndexRequest())
    yield memory
    memory.close()


def write_below(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())


def tokens_of_a_model(text: str) -> float:
    """About what a model takes for a text: a low estimate for letters, a high one for marks."""
    of_ascii = sum(sign.isascii() for sign in text)
    return of_ascii / 2.5 + (len(text.encode()) - of_ascii) / 2


@pytest.mark.parametrize("room", [None, 10**9], ids=["default", "largest"])
@pytest.mark.parametrize("name", NASTY_REQUESTS)
def test_no_client_cuts_off_a_reply_about_nasty_notes(
    nasty_vault: Memory, name: str, room: int | None
) -> None:
    request = within_room(replace(NASTY_REQUESTS[name], max_tokens=room))
    assert request.max_tokens == (REPLY_TOKENS if room is None else MOST_REPLY_TOKENS)
    most = 5 if name not in ("evaluate", "status") else 2
    for number in range(most):
        reply = run(nasty_vault, request)
        told = to_text(fenced_reply(reply))
        assert tokens_of_a_model(told) < CUT_OFF, number
        assert size(reply) <= request.max_tokens, number
        if reply.next is None:
            break
        request = replace(request, cursor=reply.next)


def test_the_notes_of_the_nasty_vault_are_there(nasty_vault: Memory) -> None:
    hits = search(nasty_vault, SearchRequest("clay", limit=1_000)).hits
    assert len(hits) > 350
    assert lint(nasty_vault, LintRequest()).ambiguous
    assert status(nasty_vault, StatusRequest()).notes == len(NASTY)


def test_headings_are_named_where_a_section_is_not_found(indexed: Indexed) -> None:
    memory = indexed({"n.md": "# One\n\nclay\n\n## Two\n"})
    with pytest.raises(NoteNotFound, match="It has: One, Two"):
        read(memory, ReadRequest("n#Three", max_tokens=400))


def test_every_operation_keeps_to_its_room() -> None:
    for operation in OPERATIONS:
        assert isinstance(operation, Operation)
        assert hasattr(operation.run, "__wrapped__"), operation.name
