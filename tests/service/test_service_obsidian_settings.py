"""Obsidian's own settings, end to end: what each changes, from one question to the next."""

import hashlib
import json
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from vaultmem.service.application import Clock, Memory
from vaultmem.service.operations.index import IndexReply, IndexRequest, index
from vaultmem.service.operations.inspect import InspectRequest, inspect
from vaultmem.service.operations.lint import LintRequest, lint
from vaultmem.service.operations.read import ReadRequest, read
from vaultmem.service.operations.related import RelatedRequest, related
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.operations.status import StatusRequest, status

Open = Callable[..., Memory]
Find = Callable[..., list[str]]
Run = Callable[[Memory], IndexReply]
Equal = Callable[[Memory], None]

APP, DAILY, TEMPLATES = "app.json", "daily-notes.json", "templates.json"

NOTES: Mapping[str, str | bytes] = {
    "Plan.md": "The kiln plan. See [[Clay]] and [[Secret]]. #pottery\n",
    "Clay.md": "Red clay from the river.\n",
    "Archive/Secret.md": "An old secret about glaze. [[Clay]]\n",
    "Meta/Templates/Review.md": (
        "---\ntags: [review]\n---\n"
        "Review of {{title}} on {{date}}: [[Clay]], [[{{title}}]], [[log]] #todo\n"
        "decision:: what was decided\n"
    ),
    "Meta/Templates/Board.canvas": json.dumps(
        {
            "nodes": [
                {"id": "t", "type": "text", "text": "[[Nowhere]] #board"},
                {"id": "f", "type": "file", "file": "Clay.md"},
            ]
        }
    ),
    "Meta/Day.md": "What happened: [[yesterday]] #daily\n",
    "Journal/05.2026/03 Sunday.md": "Fired the kiln.\n",
    "Journal/Remarks.md": "On days.\n",
    "x/log.md": "[[Plan]]\n",
    "y/log.md": "[[Plan]]\n",
}


def configure(memory: Memory, name: str, content: object, folder: str = ".obsidian") -> None:
    """Write one settings file; bytes stay as they are."""
    path = memory.vault / folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


def no_run(memory: Memory) -> None:
    """The next question takes the change in by itself."""


@pytest.fixture(params=["index", "question"])
def take_in(request: pytest.FixtureRequest) -> Callable[[Memory], object]:
    """What happens between a change and the next question: a run of index, or nothing at all."""
    return no_run if request.param == "question" else lambda m: index(m, IndexRequest())


Taking = Callable[[Memory], object]


@pytest.fixture
def pottery(indexed: Open, far_ahead: Clock) -> Memory:
    """No file is young, so only what changed is read: a setting must reach the others too."""
    return indexed(NOTES, clock=far_ahead)


def kinds(memory: Memory, kind: str) -> list[str]:
    return sorted(hit.path for hit in search(memory, SearchRequest(f"kind:{kind}")).hits)


def tagged(memory: Memory, tag: str) -> list[str]:
    return sorted(hit.path for hit in search(memory, SearchRequest("", tags=(tag,))).hits)


def backlinks(memory: Memory, note: str) -> set[str]:
    return {b.path for b in related(memory, RelatedRequest(note)).backlinks}


def unresolved(memory: Memory) -> set[tuple[str, str]]:
    return {(u.path, u.link) for u in lint(memory, LintRequest()).unresolved}


def problems(memory: Memory) -> list[tuple[str, str]]:
    return [(p.path, p.code) for p in lint(memory, LintRequest()).problems]


# Excluded files


@pytest.mark.parametrize("rule", ["Archive/", "Arch", "/^archive/", "/SECRET\\.md$/"])
def test_an_excluded_file_leaves_search_and_stays_a_target(
    rule: str, pottery: Memory, take_in: Taking, find: Find, assert_equals_rebuild: Equal
) -> None:
    assert find(pottery, "glaze") == ["Archive/Secret.md"]
    assert backlinks(pottery, "Clay") >= {"Plan.md", "Archive/Secret.md"}

    configure(pottery, APP, {"userIgnoreFilters": [rule]})
    take_in(pottery)
    assert find(pottery, "glaze") == []
    assert "Archive/Secret.md" not in backlinks(pottery, "Clay")
    assert ("Plan.md", "Secret") not in unresolved(pottery)
    answer = inspect(pottery, InspectRequest("Secret"))
    assert (answer.path, answer.indexed) == ("Archive/Secret.md", False)
    assert answer.excluded_by == f"Obsidian's excluded files: {rule}"
    assert_equals_rebuild(pottery)

    configure(pottery, APP, {"userIgnoreFilters": []})
    take_in(pottery)
    assert find(pottery, "glaze") == ["Archive/Secret.md"]
    assert "Archive/Secret.md" in backlinks(pottery, "Clay")
    assert_equals_rebuild(pottery)


def test_excluding_a_folder_counts_its_notes_as_removed(pottery: Memory) -> None:
    configure(pottery, APP, {"userIgnoreFilters": ["x/", "Meta/Templates/Board"]})

    reply = index(pottery, IndexRequest())

    assert (reply.notes.removed, reply.notes.unchanged) == (1, len(NOTES) - 2)
    assert (reply.canvases.removed, reply.canvases.total) == (1, 0)


# Templates


def templates_apart(memory: Memory) -> None:
    """The template folder's notes and canvases are searched, and nothing else."""
    assert kinds(memory, "template") == ["Meta/Templates/Board.canvas", "Meta/Templates/Review.md"]
    assert "Meta/Templates/Review.md" in [
        hit.path for hit in search(memory, SearchRequest("decided")).hits
    ]
    assert kinds(memory, "decision") == []
    assert tagged(memory, "review") == tagged(memory, "todo") == tagged(memory, "board") == []
    assert not any(path.startswith("Meta/Templates/") for path, _ in unresolved(memory))
    assert backlinks(memory, "Clay") == {"Plan.md", "Archive/Secret.md"}
    reply = lint(memory, LintRequest())
    assert not any(found.path.startswith("Meta/Templates/") for found in reply.ambiguous)
    assert not any(found.path.startswith("Meta/Templates/") for found in reply.orphans)
    reasons = inspect(memory, InspectRequest("Review")).reasons
    assert any("its tags and links do not count" in reason for reason in reasons)
    # What it holds is told of itself.
    assert read(memory, ReadRequest("Review")).tags == ("review", "todo")
    assert [link.link for link in related(memory, RelatedRequest("Review")).links] == [
        "Clay",
        "{{title}}",
        "log",
    ]


def templates_count(memory: Memory, kind: str) -> None:
    review, board = "Meta/Templates/Review.md", "Meta/Templates/Board.canvas"
    assert {review, board} & set(kinds(memory, "template")) == (
        {review, board} if kind == "template" else set()
    )
    assert kinds(memory, "decision") == [review]
    assert tagged(memory, "review") == tagged(memory, "todo") == [review]
    assert tagged(memory, "board") == [board]
    assert {(review, "{{title}}"), (board, "Nowhere")} <= unresolved(memory)
    assert backlinks(memory, "Clay") == {"Plan.md", "Archive/Secret.md", review, board}
    assert (review, "log") in [(a.path, a.link) for a in lint(memory, LintRequest()).ambiguous]


@pytest.mark.parametrize("written", ["Meta/Templates", "/Meta/Templates/"])
def test_the_template_folder_is_out_of_tags_items_and_links_from_the_next_run_on(
    written: str, pottery: Memory, take_in: Taking, assert_equals_rebuild: Equal
) -> None:
    templates_count(pottery, "note")

    configure(pottery, TEMPLATES, {"folder": written})
    take_in(pottery)
    templates_apart(pottery)
    assert_equals_rebuild(pottery)

    (pottery.vault / ".obsidian" / TEMPLATES).unlink()
    take_in(pottery)
    templates_count(pottery, "note")
    assert_equals_rebuild(pottery)


def test_another_template_folder_takes_the_place_of_the_first(
    pottery: Memory, take_in: Taking
) -> None:
    configure(pottery, TEMPLATES, {"folder": "x"})
    take_in(pottery)
    assert kinds(pottery, "template") == ["x/log.md"]

    configure(pottery, TEMPLATES, {"folder": "Meta/Templates"})
    take_in(pottery)
    templates_apart(pottery)


def test_templates_count_where_the_person_says_so(open_vault: Open) -> None:
    memory = open_vault(NOTES, environment={"VAULTMEM_TEMPLATES_COUNT": "yes"})
    configure(memory, TEMPLATES, {"folder": "Meta/Templates"})

    templates_count(memory, "template")
    reasons = inspect(memory, InspectRequest("Review")).reasons
    assert not any("do not count" in reason for reason in reasons)


def test_the_setting_takes_effect_on_an_index_that_is_there(
    pottery: Memory, open_vault: Open
) -> None:
    configure(pottery, TEMPLATES, {"folder": "Meta/Templates"})
    templates_apart(pottery)

    templates_count(open_vault(environment={"VAULTMEM_TEMPLATES_COUNT": "yes"}), "template")
    templates_apart(open_vault())


def test_folders_of_templates_may_be_named_besides_obsidians(open_vault: Open) -> None:
    memory = open_vault(NOTES, environment={"VAULTMEM_TEMPLATES_FOLDERS": "/Meta/Templates/,y"})
    configure(memory, TEMPLATES, {"folder": "x"})

    assert kinds(memory, "template") == [
        "Meta/Templates/Board.canvas",
        "Meta/Templates/Review.md",
        "x/log.md",
        "y/log.md",
    ]
    assert backlinks(memory, "Plan") == set()
    assert tagged(memory, "review") == []


@pytest.mark.parametrize("written", ["Meta/Day", "/Meta/Day.md"])
def test_the_note_that_daily_notes_begin_as_is_a_template(
    written: str, pottery: Memory, take_in: Taking
) -> None:
    assert tagged(pottery, "daily") == ["Meta/Day.md"]
    assert ("Meta/Day.md", "yesterday") in unresolved(pottery)

    configure(pottery, DAILY, {"template": written})
    take_in(pottery)
    assert kinds(pottery, "template") == ["Meta/Day.md"]
    assert tagged(pottery, "daily") == []
    assert ("Meta/Day.md", "yesterday") not in unresolved(pottery)
    assert "Meta/Day.md" not in [orphan.path for orphan in lint(pottery, LintRequest()).orphans]


def test_a_template_is_still_a_target(pottery: Memory) -> None:
    configure(pottery, TEMPLATES, {"folder": "Meta/Templates"})
    (pottery.vault / "New.md").write_text("made from [[Review]]", encoding="utf-8")

    assert backlinks(pottery, "Review") == {"New.md"}
    assert ("New.md", "Review") not in unresolved(pottery)


def test_what_only_a_template_links_to_is_an_orphan(pottery: Memory, take_in: Taking) -> None:
    (pottery.vault / "Meta/Templates/Review.md").write_text("[[Remarks]]", encoding="utf-8")
    take_in(pottery)
    assert "Journal/Remarks.md" not in [o.path for o in lint(pottery, LintRequest()).orphans]

    configure(pottery, TEMPLATES, {"folder": "Meta/Templates"})
    take_in(pottery)
    assert "Journal/Remarks.md" in [o.path for o in lint(pottery, LintRequest()).orphans]


# Daily notes


def test_daily_notes_are_told_by_their_folder_and_format(
    pottery: Memory, take_in: Taking, assert_equals_rebuild: Equal
) -> None:
    day = "Journal/05.2026/03 Sunday.md"
    assert kinds(pottery, "daily") == []

    configure(pottery, DAILY, {"folder": "Journal", "format": "MM.YYYY/DD dddd"})
    take_in(pottery)
    (hit,) = search(pottery, SearchRequest("kind:daily")).hits
    assert (hit.path, hit.kind, hit.date) == (day, "daily", "2026-05-03")
    assert [h.path for h in search(pottery, SearchRequest("before:2026-05-04")).hits] == [day]
    assert_equals_rebuild(pottery)

    configure(pottery, DAILY, {"folder": "Elsewhere", "format": "MM.YYYY/DD dddd"})
    take_in(pottery)
    assert kinds(pottery, "daily") == []

    configure(pottery, DAILY, {"format": "[Journal]/MM.YYYY/DD dddd"})
    take_in(pottery)
    assert kinds(pottery, "daily") == [day]


def test_a_folder_of_ours_and_a_note_itself_go_before_the_daily_folder(open_vault: Open) -> None:
    memory = open_vault(
        {
            "Days/2026/05-03.md": "plain",
            "Days/2026/05-04.md": "---\ntype: Review\ndate: 2020-01-01\n---\nsays it itself",
            "Days/Work/2026/05-05.md": "in a folder of ours",
            "Days/2026/05-06.canvas": "{}",
        },
        environment={"VAULTMEM_KINDS_FOLDERS": "Days/Work=work"},
    )
    configure(memory, DAILY, {"folder": "Days", "format": "YYYY/MM-DD"})

    hits = search(memory, SearchRequest("path:Days")).hits
    assert {hit.path: (hit.kind, hit.date) for hit in hits if hit.kind != "canvas"} == {
        "Days/2026/05-03.md": ("daily", "2026-05-03"),
        "Days/2026/05-04.md": ("review", "2020-01-01"),
        "Days/Work/2026/05-05.md": ("work", hits[0].date),
    }
    assert kinds(memory, "canvas") == ["Days/2026/05-06.canvas"]


# The settings folder


def test_a_settings_folder_of_another_name_is_honoured(pottery: Memory, take_in: Taking) -> None:
    folder = ".obsidian-desktop"
    configure(pottery, "core-plugins.json", [], folder)
    configure(pottery, APP, {"userIgnoreFilters": ["Archive/"]}, folder)
    configure(pottery, TEMPLATES, {"folder": "x"}, folder)
    take_in(pottery)
    assert search(pottery, SearchRequest("glaze")).hits == ()
    assert kinds(pottery, "template") == ["x/log.md"]

    configure(pottery, APP, b"{", folder)
    take_in(pottery)
    assert problems(pottery) == [(f"{folder}/app.json", "obsidian-settings-invalid")]

    (pottery.vault / folder).rename(pottery.vault / ".obsidian")
    take_in(pottery)
    assert problems(pottery) == [(".obsidian/app.json", "obsidian-settings-invalid")]
    assert kinds(pottery, "template") == ["x/log.md"]


ALL: Mapping[str, object] = {
    APP: {"userIgnoreFilters": ["Archive/"]},
    DAILY: {"folder": "Journal", "format": "MM.YYYY/DD dddd", "template": "Meta/Day"},
    TEMPLATES: {"folder": "Meta/Templates"},
}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("data", [b"", b'{"folder": "x",', b"\xff\xfe", b"[" * 50_000])
def test_a_settings_file_that_breaks_is_one_problem_and_the_others_hold(
    name: str, data: bytes, pottery: Memory, take_in: Taking, find: Find
) -> None:
    for file, content in ALL.items():
        configure(pottery, file, content)
    configure(pottery, name, data)
    take_in(pottery)

    assert problems(pottery) == [(f".obsidian/{name}", "obsidian-settings-invalid")]
    assert (find(pottery, "glaze") == []) == (name != APP)
    assert (kinds(pottery, "daily") == []) == (name == DAILY)
    assert ("Meta/Day.md" in kinds(pottery, "template")) == (name != DAILY)
    assert ("Meta/Templates/Review.md" in kinds(pottery, "template")) == (name != TEMPLATES)
    assert find(pottery, "river") == ["Clay.md"]
    assert "Plan.md" in backlinks(pottery, "Clay")
    assert status(pottery, StatusRequest()).problems == 1
    reply = index(pottery, IndexRequest())
    assert [problem.path for problem in reply.problems] == [f".obsidian/{name}"]

    configure(pottery, name, ALL[name])
    take_in(pottery)
    assert problems(pottery) == []
    assert find(pottery, "glaze") == []
    assert kinds(pottery, "daily") == ["Journal/05.2026/03 Sunday.md"]
    templates = ["Meta/Day.md", "Meta/Templates/Board.canvas", "Meta/Templates/Review.md"]
    assert kinds(pottery, "template") == templates


def test_a_rule_that_is_no_expression_is_one_problem_and_the_others_hold(
    pottery: Memory, take_in: Taking, find: Find
) -> None:
    configure(pottery, APP, {"userIgnoreFilters": ["/[/", "Archive/"]})
    take_in(pottery)

    assert problems(pottery) == [(".obsidian/app.json", "ignore-rule-invalid")]
    assert find(pottery, "glaze") == []
    assert find(pottery, "river") == ["Clay.md"]


# Copies that sync services make


COPIES = [
    "Plan.sync-conflict-20261130-101500-ABCDEF7.md",
    "Plan (Conflicted copy Pixel 8 202611301015).md",
    "Plan (Ann's conflicted copy 2026-11-30).md",
    "deep/Plan (conflicted copy 2026-11-30 101500).md",
    "Board.sync-conflict-20261130-101500-ABCDEF7.canvas",
    "Board (Conflicted copy Ann's iPad 202611301015).canvas",
    "Board (Ann's conflicted copy 2026-11-30).canvas",
]


@pytest.mark.parametrize("copy", COPIES)
def test_a_conflict_copy_is_reported_once_never_found_and_still_a_target(
    copy: str, pottery: Memory, run_index: Run, find: Find
) -> None:
    board = {"nodes": [{"id": "t", "type": "text", "text": "quokka [[Clay]] [[Nowhere]] #quokka"}]}
    words = "quokka [[Clay]] [[Nowhere]] #quokka"
    file = pottery.vault / copy
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(board) if copy.endswith(".canvas") else words, encoding="utf-8")
    (pottery.vault / "Links.md").write_text(f"[[{copy}]] ![[{copy}]]", encoding="utf-8")

    for _ in range(2):
        reply = run_index(pottery)
        assert [(p.path, p.code) for p in reply.problems] == [(copy, "conflict-copy")]
        assert problems(pottery) == [(copy, "conflict-copy")]
    assert find(pottery, "quokka") == []
    assert tagged(pottery, "quokka") == []
    assert kinds(pottery, "canvas") == ["Meta/Templates/Board.canvas"]
    assert copy not in backlinks(pottery, "Clay")
    assert not any(path in (copy, "Links.md") for path, _ in unresolved(pottery))
    assert [link.resolved for link in related(pottery, RelatedRequest("Links")).links] == [copy] * 2
    answer = inspect(pottery, InspectRequest(copy))
    assert (answer.path, answer.indexed) == (copy, False)
    assert answer.excluded_by == "conflict copy made by a sync service"

    file.unlink()
    assert problems(pottery) == []
    assert ("Links.md", copy.removesuffix(".md")) in {
        (path, link.removesuffix(".md")) for path, link in unresolved(pottery)
    }


def test_a_conflict_copy_does_not_stand_in_for_the_note(pottery: Memory, find: Find) -> None:
    copy = "Clay (Ann's conflicted copy 2026-11-30).md"
    (pottery.vault / copy).write_text("Red clay from the river, and more.", encoding="utf-8")

    assert find(pottery, "river") == ["Clay.md"]
    assert read(pottery, ReadRequest("Clay")).path == "Clay.md"
    assert not any(copy in a.candidates for a in lint(pottery, LintRequest()).ambiguous)


# Bases


def test_a_base_is_a_target_and_is_not_searched(pottery: Memory, run_index: Run) -> None:
    base = 'filters:\n  and:\n    - file.hasTag("quokka")\nviews:\n  - type: table\n'
    (pottery.vault / "Tables").mkdir()
    (pottery.vault / "Tables/Pots.base").write_text(base, encoding="utf-8")
    (pottery.vault / "Links.md").write_text(
        "[[Pots.base]] ![[Tables/Pots.base#Table]] [[Pots]]", encoding="utf-8"
    )

    before = status(pottery, StatusRequest()).notes
    reply = run_index(pottery)
    assert (reply.notes.added, reply.canvases.added, reply.problems) == (1, 0, ())
    assert status(pottery, StatusRequest()).notes == before + 1
    assert search(pottery, SearchRequest("quokka")).hits == ()
    links = related(pottery, RelatedRequest("Links")).links
    assert [link.resolved for link in links] == ["Tables/Pots.base", "Tables/Pots.base", None]
    answer = inspect(pottery, InspectRequest("Tables/Pots.base"))
    assert (answer.indexed, answer.excluded_by) == (False, None)
    assert "a query over notes" in answer.reasons[0]

    (pottery.vault / "Tables/Pots.base").unlink()
    links = related(pottery, RelatedRequest("Links")).links
    assert [link.resolved for link in links] == [None] * 3


# Read only


def everything(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every file and folder with all that can be seen of it, but when it was last read."""
    seen: dict[str, tuple[object, ...]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        look = path.lstat()
        regular = stat.S_ISREG(look.st_mode)
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if regular else ""
        seen[str(path)] = (
            digest, look.st_mode, look.st_ino, look.st_nlink, look.st_uid, look.st_gid,
            look.st_size, look.st_mtime_ns, look.st_ctime_ns,
        )  # fmt: skip
    return seen


@pytest.mark.parametrize("broken", [False, True])
def test_nothing_of_obsidian_is_ever_written(broken: bool, pottery: Memory, run_index: Run) -> None:
    for name, content in ALL.items():
        configure(pottery, name, b"{" if broken else content)
    configure(pottery, "workspace.json", {"main": {"id": "x"}})
    configure(pottery, "data.json", {"x": 1}, ".obsidian/plugins")
    before = everything(pottery.vault / ".obsidian")

    run_index(pottery)
    index(pottery, IndexRequest(rebuild=True))
    for query in ("glaze", "kind:daily", "tag:review"):
        search(pottery, SearchRequest(query))
    lint(pottery, LintRequest())
    status(pottery, StatusRequest(checks=True, settings=True))
    for note in ("Review", "Plan", "Board.canvas"):
        read(pottery, ReadRequest(note))
        related(pottery, RelatedRequest(note))
        inspect(pottery, InspectRequest(note))

    assert everything(pottery.vault / ".obsidian") == before
    assert not (pottery.vault / ".vaultmem").exists()


def test_what_lies_in_the_settings_folder_is_no_note(pottery: Memory, find: Find) -> None:
    configure(pottery, "note.md", b"quokka [[Clay]]")
    configure(pottery, "board.canvas", b'{"nodes":[{"id":"a","type":"text","text":"quokka"}]}')

    assert find(pottery, "quokka") == []
    assert backlinks(pottery, "Clay") >= {"Plan.md"}
    assert inspect(pottery, InspectRequest(".obsidian/note.md")).indexed is False


@pytest.mark.parametrize(
    ("rule", "codes", "found"),
    [
        ("/[\ud800/", ["ignore-rule-invalid"], ["Clay.md"]),
        ("/(a{9}){9000}/", ["ignore-rule-widened"], []),
        ("/a{4294967296}/", [], ["Clay.md"]),
        ("/" + "(" * 5000 + ")" * 5000 + "/", [], []),  # holds for every path, as it should
    ],
)
def test_a_rule_beyond_any_reason_is_one_problem_at_most(
    rule: str, codes: list[str], found: list[str], pottery: Memory, find: Find
) -> None:
    configure(pottery, APP, {"userIgnoreFilters": [rule, "Archive/", "\ud800"]})

    assert problems(pottery) == [(".obsidian/app.json", code) for code in codes]
    assert all(len(p.message) < 500 for p in lint(pottery, LintRequest()).problems)
    assert find(pottery, "glaze") == []
    assert find(pottery, "river") == found


def test_a_base_is_explained_by_its_name_alone(pottery: Memory) -> None:
    (pottery.vault / "x/Pots.base").write_text("views:\n", encoding="utf-8")

    answer = inspect(pottery, InspectRequest("Pots.base"))
    assert answer.path == "x/Pots.base"
    assert "a query over notes" in answer.reasons[0]


# Obsidian writes its settings in place: who reads may meet half a file.


def test_half_a_settings_file_lets_no_excluded_note_in(
    pottery: Memory, take_in: Taking, find: Find
) -> None:
    configure(pottery, APP, {"userIgnoreFilters": ["Archive/"]})
    index(pottery, IndexRequest())
    assert find(pottery, "glaze") == []

    configure(pottery, APP, b'{"userIgnoreFil')
    take_in(pottery)

    assert find(pottery, "glaze") == []
    (problem,) = lint(pottery, LintRequest()).problems
    assert (problem.path, problem.code) == (".obsidian/app.json", "obsidian-settings-invalid")
    assert "said last" in problem.message

    configure(pottery, APP, {})
    take_in(pottery)
    assert find(pottery, "glaze") == ["Archive/Secret.md"]


@pytest.mark.parametrize("rebuild", [False, True])
def test_half_a_settings_file_makes_no_other_index(pottery: Memory, rebuild: bool) -> None:
    configure(pottery, TEMPLATES, {"folder": "Meta/Templates"})
    configure(pottery, DAILY, {"folder": "Journal", "format": "MM.YYYY/DD dddd"})
    index(pottery, IndexRequest())
    sidecar = pottery.open_sidecar()
    assert sidecar is not None
    file = sidecar.path.stat().st_ino

    configure(pottery, TEMPLATES, b"")
    configure(pottery, DAILY, b"[[[")
    reply = index(pottery, IndexRequest(rebuild=rebuild))

    assert (reply.notes.changed, kinds(pottery, "daily")) == (0, ["Journal/05.2026/03 Sunday.md"])
    assert "Meta/Templates/Review.md" in kinds(pottery, "template")
    if not rebuild:
        assert sidecar.path.stat().st_ino == file
