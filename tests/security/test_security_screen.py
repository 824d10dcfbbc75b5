"""A secret is in nothing that comes of a note, wherever in the note it stands."""

import json

import pytest
from variants import Chance

from vaultmem.model.note import Note, Screening
from vaultmem.security.mask import fingerprint_of
from vaultmem.vault.chunk import chunk_note
from vaultmem.vault.facts import kind_rules
from vaultmem.vault.items import find_items
from vaultmem.vault.obsidian import ObsidianSettings
from vaultmem.vault.parse import parse, readable
from vaultmem.vault.screen import Screen

C = Chance(3)
TOKEN = "gh" + "p_" + C.some(36)
OTHER = "gh" + "p_" + C.some(36)
MASKED = "[secret:github-pat]"
KEY = b"k" * 32


def note(text: str, path: str = "n.md", screen: Screen | None = None) -> Note:
    return parse(path, text.encode(), screen or Screen())


PLACES = {
    "prose": "Some {} text.",
    "property": "---\nlogin: {}\n---\n",
    "quoted property": "---\nlogin: \"{}\"\nother: '{}'\n---\n",
    "nested property": "---\na:\n  b:\n    - c: {}\n---\n",
    "list property": "---\na: [x, {}]\nb:\n  - {}\n---\n",
    "block property": "---\na: |\n  one\n  {}\n---\n",
    "property name": "---\n{}: one\n---\n",
    "title": "---\ntitle: About {}\n---\n",
    "alias": "---\naliases: [x, {}]\n---\n",
    "tag property": "---\ntags:\n  - {}\n---\n",
    "date": "---\ndate: {}\n---\n",
    "id": "---\nid: {}\n---\n",
    "broken properties": "---\na: [\nlogin: {}\n---\n",
    "tag": "a #{} b",
    "heading": "# About {}\n\ntext",
    "wikilink": "[[{}]] and [[Note#{}]]",
    "display": "[[Note|see {}]]",
    "embed": "![[Note|{}]]",
    "link": '[{}](Note.md) [x](Note.md "{}")',
    "address": "[x](https://x.test/?t={}) <https://x.test/{}>",
    "property link": '---\nsee: "[[Note|{}]]"\n---\n',
    "task": "- [ ] change {}",
    "callout": "> [!warning] {}\n> text {}",
    "field": "login:: {}",
    "inline field": "text [login:: {}] and (login:: {})",
    "fence": "```yaml\nlogin: {}\n```",
    "fence name": "```{}\ncode\n```",
    "inline code": "`{}`",
    "maths": "$$ {} $$",
    "comment": "%% {} %%",
    "markup": '<!-- {} --> <b title="{}">x</b>',
    "table": "| a | b |\n|---|---|\n| x | {} |",
    "footnote": "a[^1]\n\n[^1]: {}",
    "block id": "text ^{}",
    "item": "## Decision: use {}\n\n- why: {}\n",
    "daily entry": "- 09:30 changed {} #work\n",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_is_in_no_part_of_what_a_note_becomes(place: str) -> None:
    text = PLACES[place].replace("{}", TOKEN)
    found = note(text)
    items = find_items(found, kind_rules(ObsidianSettings(".obsidian"), {}), "note")
    everything = (found, chunk_note(found, max_pieces=180, items=items), items)
    assert TOKEN not in repr(everything)
    assert TOKEN[4:] not in repr(everything)
    assert "secret:github-pat" in repr(everything)
    assert len(found.findings) == text.count(TOKEN)
    assert found.screening is Screening.PARTS
    assert found.text.count("\n") == text.count("\n")
    assert found.text == readable("n.md", text.encode())


def test_properties_with_a_secret_are_read_all_the_same() -> None:
    found = note(f"---\nlogin: {TOKEN}\ntags: [a, b]\nlist: [x, {TOKEN}]\n---\ntext")
    assert found.frontmatter.valid
    assert found.frontmatter.properties == {
        "login": MASKED,
        "tags": ["a", "b"],
        "list": ["x", MASKED],
    }
    assert found.tags == ("a", "b")


def test_a_link_keeps_its_target_where_its_display_held_a_secret() -> None:
    found = note(f"[[Note#Part|the {TOKEN} one]] [x {TOKEN}](Other.md) ![[Pic.png|{TOKEN}]]")
    assert [(link.target, link.subpath) for link in found.links] == [
        ("Note", "#Part"),
        ("Other.md", ""),
        ("Pic.png", ""),
    ]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_each_finding_names_its_line(newline: str) -> None:
    text = newline.join(("---", "a: 1", "---", "é 漢字", f"x {TOKEN}", "", f"{OTHER} y {TOKEN}"))
    found = note(text, screen=Screen(key=lambda: KEY))
    assert [finding.line for finding in found.findings] == [5, 7, 7]
    names = [fingerprint_of(token, KEY) for token in (TOKEN, OTHER, TOKEN)]
    assert [finding.fingerprint for finding in found.findings] == names
    (problem,) = found.problems
    assert (problem.code, problem.line) == ("secret", 5)
    assert "github-pat x 3" in problem.message


def test_lines_behind_a_key_of_many_lines_keep_their_numbers() -> None:
    body = "\n".join(C.some(64) for _ in range(20))
    key = f"-----BEGIN {'PRIVATE KEY'}-----\n{body}\n-----END {'PRIVATE KEY'}-----"
    text = f"one\n\n{key}\n\n# Behind\n\n- [ ] {TOKEN}\n"
    found = note(text)
    assert [finding.line for finding in found.findings] == [3, 28]
    assert [heading.line for heading in found.headings] == [26]
    assert [task.line for task in found.tasks] == [28]


def test_an_allowed_secret_stays_and_the_others_go() -> None:
    allowed = frozenset((fingerprint_of(TOKEN, KEY),))
    found = note(f"{TOKEN}\n{OTHER}", screen=Screen(allowed=allowed, key=lambda: KEY))
    assert found.text == f"{TOKEN}\n{MASKED}"
    assert [finding.allowed for finding in found.findings] == [True, False]
    (problem,) = found.problems
    assert problem.line == 2


def test_a_note_with_allowed_secrets_alone_has_no_problem() -> None:
    allowed = frozenset((fingerprint_of(TOKEN, KEY),))
    found = note(TOKEN, screen=Screen(allowed=allowed, key=lambda: KEY))
    assert found.problems == ()
    assert found.screening is Screening.NOTHING


@pytest.mark.parametrize(("setting", "told", "kept"), [("report", 1, True), ("off", 0, True)])
def test_secrets_stay_where_a_person_wants_them_to(setting: str, told: int, kept: bool) -> None:
    found = note(f"a {TOKEN}", screen=Screen(secrets=setting))
    assert (TOKEN in found.text) is kept
    assert len(found.findings) == told
    assert [problem.code for problem in found.problems] == ["secret"] * told


def test_what_hides_text_is_told_of_with_its_line() -> None:
    (problem,) = note("one\ntwo\nth\u202eree").problems
    assert (problem.code, problem.line) == ("hidden-text", 3)


# Canvases and drawings


def test_a_canvas_keeps_secrets_of_cards_groups_addresses_and_arrows_to_itself() -> None:
    board = {
        "nodes": [
            {"id": "a", "type": "text", "text": f"# One\n\n{TOKEN} here"},
            {"id": "b", "type": "text", "text": f"{OTHER}\n\n- [ ] task {TOKEN}"},
            {"id": "c", "type": "group", "label": f"group {TOKEN}"},
            {"id": "d", "type": "link", "url": f"https://x.test/?t={TOKEN}"},
            {"id": "e", "type": "file", "file": "Note.md", "subpath": f"#{TOKEN}"},
            {"id": "f", "type": "file", "file": "Other.md"},
        ],
        "edges": [
            {"id": "1", "fromNode": "a", "toNode": "b", "label": f"with {TOKEN}"},
            {"id": "2", "fromNode": "e", "toNode": "f", "label": f"by {OTHER}"},
        ],
    }
    found = note(json.dumps(board), "n.canvas")
    assert TOKEN not in repr(found)
    assert OTHER not in repr(found)
    assert "# One" in found.text
    assert found.text.count(MASKED) >= 7
    assert {finding.kind for finding in found.findings} == {"github-pat"}
    assert [problem.code for problem in found.problems] == ["secret"]
    assert found.text == readable("n.canvas", json.dumps(board).encode())


def test_a_secret_that_json_writes_with_escapes_is_found() -> None:
    text = json.dumps({"nodes": [{"id": "a", "type": "text", "text": "x"}]})
    escaped = "".join(f"\\u{ord(sign):04x}" for sign in TOKEN)
    found = note(text.replace('"x"', f'"{escaped}"'), "n.canvas")
    assert found.text.strip() == MASKED


def test_a_drawing_keeps_the_secrets_of_its_texts_and_its_back_to_itself() -> None:
    text = (
        "---\nexcalidraw-plugin: parsed\n---\n"
        f"On the back {OTHER}\n\n# Excalidraw Data\n\n## Text Elements\nlabel {TOKEN} ^abc\n\n"
        '%%\n## Drawing\n```json\n{"elements": [{"text": "label ' + TOKEN + '"}]}\n```\n%%\n'
    )
    found = note(text, "n.excalidraw.md")
    assert TOKEN not in repr(found)
    assert OTHER not in repr(found)
    searched = "".join(found.text[part.start : part.end] for part in found.parts)
    assert searched.count(MASKED) == 2
