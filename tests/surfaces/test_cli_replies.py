"""Every command: text for people, one JSON value for programs, nothing else on stdout."""

import re
from pathlib import Path
from typing import Any

import pytest
from command_line import (
    VAULT_COMMANDS,
    CommandLine,
    misfits,
    on_notes,
    on_sample,
)

NUMBER = (int, float)
PROBLEM = {"path": str, "line": int, "code": str, "message": str}
BACKLINK = {"path": str, "line": int, "text": str}
LINK = {
    "link": str,
    "display": (str, None),
    "subpath": str,
    "embed": bool,
    "line": int,
    "resolved": (str, None),
    "alias_of": (str, None),
}
FIGURES = {"n": int} | dict.fromkeys(("mrr", "hit@1", "hit@5", "hit@10", "ndcg@10"), NUMBER)
CHANGE = dict.fromkeys(("change", "low", "high"), NUMBER)

# What the contract lists; fields may be added to it, never renamed or dropped.
SHAPES: dict[str, Any] = {
    "index": {
        "vault": str,
        "notes": dict.fromkeys(
            ("total", "added", "changed", "renamed", "removed", "unchanged"), int
        ),
        "chunks": dict.fromkeys(("total", "embedded", "reused"), int),
        "embedder": ({"name": str, "dim": int}, None),
        "problems": [PROBLEM],
        "seconds": NUMBER,
    },
    "search": {
        "query": str,
        "mode": str,
        "degraded": [str],
        "hits": [
            {
                "path": str,
                "title": str,
                "heading": [str],
                "lines": [int],
                "snippet": str,
                "score": NUMBER,
                "kind": str,
                "date": str,
                "weak": bool,
                "uri": str,
                "evidence": dict,
            }
        ],
    },
    "read": {
        "path": str,
        "title": str,
        "text": str,
        "frontmatter": dict,
        "properties": dict,
        "fields": [dict],
        "backlinks": [BACKLINK],
        "links": [LINK],
        "truncated": bool,
    },
    "links": {"path": str, "links": [LINK], "backlinks": [BACKLINK]},
    "lint": {
        "unresolved": [
            {"path": str, "line": int, "link": str, "suggestions": [str], "fix": (str, None)}
        ],
        "ambiguous": [{"path": str, "line": int, "link": str}],
        "orphans": [{"path": str, "line": int}],
        "problems": [PROBLEM],
    },
    "status": {
        "vault": str,
        "sidecar": str,
        "notes": int,
        "chunks": int,
        "vectors": int,
        "embedder": (dict, str, None),
        "problems": int,
        "fresh": bool,
        "last_indexed": str,
        "watching": bool,
    },
    "why": {
        "path": str,
        "indexed": bool,
        "reasons": [str],
        "excluded_by": (str, None),
        "problems": [PROBLEM],
        "chunks": int,
        "vectors": int,
    },
    "doctor": {"checks": [{"id": str, "ok": bool, "detail": str, "fix": str}]},
    "eval": {
        **FIGURES,
        "by_kind": {"typo": FIGURES},
        "mode": str,
        "variants": [{"name": str, "figures": FIGURES, "changes": {"mrr": CHANGE}}],
        "skipped": [dict],
        "missing": [dict],
    },
    "config": {"settings": [{"key": str, "source": str, "variable": str}]},
}

# Lists that must hold something on the sample vault, or their shape would prove nothing.
FILLED: dict[str, tuple[str, ...]] = {
    "index": ("problems",),
    "search": ("hits",),
    "read": ("backlinks", "links", "frontmatter"),
    "links": ("links", "backlinks"),
    "lint": ("unresolved", "ambiguous", "orphans", "problems"),
    "status": (),
    "why": ("reasons", "problems"),
    "doctor": ("checks",),
    "config": ("settings",),
    "eval": ("by_kind", "variants"),
}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """The sample vault, indexed once; no command changes it."""
    command_line = on_sample(tmp_path_factory.mktemp("replies"))
    assert command_line.run("index").code == 0
    return command_line


@pytest.mark.parametrize("name", SHAPES)
def test_json_is_one_value_with_every_key_of_the_contract(sample: CommandLine, name: str) -> None:
    ended = sample.run(*VAULT_COMMANDS[name], "--json")
    reply = ended.json()
    assert misfits(reply, SHAPES[name]) == []
    assert [key for key in FILLED[name] if not reply[key]] == []
    assert ended.err == ""


@pytest.mark.parametrize("name", VAULT_COMMANDS)
def test_text_is_for_people_and_stderr_stays_silent(sample: CommandLine, name: str) -> None:
    ended = sample.run(*VAULT_COMMANDS[name])
    assert ended.code in (0, 1)
    assert ended.out.strip()
    assert ended.err == ""
    with pytest.raises(ValueError, match=r"Expecting|Extra"):
        ended.json()


def test_text_holds_no_spelling_that_only_python_knows(tmp_path: Path) -> None:
    notes = {
        "Areas/Quay.md": "---\naliases: [Wharf]\n---\n# Quay\n\nBerths, see [[Crane]].\n",
        "Crane.md": "# Crane\n\nLifts, says [[Quay]] and [[Nowhere]].\n",
    }
    command_line = on_notes(tmp_path, notes)
    environment = {
        "VAULTMEM_KINDS_FOLDERS": "Areas=reference",
        "VAULTMEM_SCAN_IGNORE": "*.draft.md,Old",
    }
    commands = {
        **VAULT_COMMANDS,
        "search": ("search", "berths", "lifts", "--explain"),
        "read": ("read", "Quay"),
        "links": ("links", "Crane"),
        "why": ("why", "Quay"),
    }
    python = re.compile(
        r"\b(None|True|False)\b|\{['\"]\w+['\"]: |\(['\"]|\(\)|<\w[\w. ]* object|\w+Path\(|"
        r"\b(datetime|frozenset|mappingproxy)\("
    )
    found = {
        name: python.findall(command_line.run(*arguments, environment=environment).out)
        for name, arguments in commands.items()
    }
    assert found == {name: [] for name in commands}


@pytest.mark.parametrize(
    "locale",
    [
        {"LANG": "C", "LC_ALL": "C"},
        {"PYTHONIOENCODING": "ascii"},
        {"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii:strict"},
    ],
    ids=["LANG=C", "PYTHONIOENCODING=ascii", "both"],
)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_output_is_utf8_whatever_the_locale_claims(
    sample: CommandLine, locale: dict[str, str], form: tuple[str, ...]
) -> None:
    ended = sample.run("search", "京都 銭湯", *form, environment=locale)
    assert ended.code == 0
    assert "Personal/京都の春.md" in ended.out


def test_an_error_is_utf8_too(sample: CommandLine) -> None:
    locale = {"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    ended = sample.run("read", "Zürich京都", environment=locale)
    assert "Zürich京都" in ended.err


@pytest.mark.parametrize("name", VAULT_COMMANDS)
def test_global_options_stand_before_or_after_the_command(
    sample: CommandLine, tmp_path: Path, name: str
) -> None:
    unset = {"VAULTMEM_VAULT": None, "VAULTMEM_CACHE_DIR": None}
    options = ("--vault", str(sample.vault), "--cache-dir", str(sample.cache), "--json")
    command, *rest = VAULT_COMMANDS[name]
    before = sample.run(*options, command, *rest, environment=unset).json()
    after = sample.run(command, *rest, *options, environment=unset).json()
    assert misfits(before, SHAPES[name]) == []
    for check in (*before.get("checks", ()), *after.get("checks", ())):
        if check["id"] == "mcp-handshake":
            check["detail"] = ""  # it says how long that took
    assert {**before, "seconds": 0} == {**after, "seconds": 0}


def test_of_an_option_given_twice_the_later_one_counts(sample: CommandLine, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    reply = sample.run("--vault", nowhere, "status", "--vault", str(sample.vault), "--json").json()
    assert Path(reply["vault"]) == sample.vault.resolve()


def test_version_is_plain_text(sample: CommandLine) -> None:
    ended = sample.run("--version")
    assert re.fullmatch(r"vaultmem \d+\.\d+\.\d+\S*\n", ended.out)
    assert (ended.code, ended.err) == (0, "")


def test_help_names_every_command(sample: CommandLine) -> None:
    ended = sample.run("--help")
    assert (ended.code, ended.err) == (0, "")
    missing = [name for name in (*VAULT_COMMANDS, "demo") if f"\n    {name} " not in ended.out]
    assert missing == []


@pytest.mark.parametrize("name", [*VAULT_COMMANDS, "demo"])
def test_every_command_has_its_own_help(sample: CommandLine, name: str) -> None:
    ended = sample.run(name, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert f"vaultmem {name}" in ended.out
    assert "--json" in ended.out


def test_demo_passes_every_step_and_says_what_to_try_next(sample: CommandLine) -> None:
    ended = sample.run("demo")
    assert (ended.code, ended.err) == (0, "")
    assert len(re.findall(r"^  PASS  .+ \d+\.\d+ s", ended.out, re.MULTILINE)) >= 5
    assert "FAIL" not in ended.out
    assert ended.out.splitlines()[-1].startswith("Next: vaultmem ")


def test_demo_in_json_tells_each_step_and_leaves_nothing_behind(sample: CommandLine) -> None:
    ended = sample.run("demo", "--json")
    step = {"name": str, "passed": bool, "seconds": NUMBER, "detail": str}
    reply = ended.json()
    assert misfits(reply, {"notes": int, "steps": [step], "next": str}) == []
    assert [step["name"] for step in reply["steps"] if not step["passed"]] == []
    assert list(sample.temporary.iterdir()) == []


def test_demo_needs_no_vault_and_no_settings(sample: CommandLine) -> None:
    environment = {"VAULTMEM_VAULT": "/nowhere", "VAULTMEM_SEARCH_LIMIT": "nonsense"}
    assert sample.run("demo", environment=environment).code == 0


# What the values mean


def test_a_hit_names_the_lines_that_hold_its_words(sample: CommandLine) -> None:
    hits = sample.reply("search", '"sorry, too many clients already"', "-k", "3")["hits"]
    assert hits[0]["path"] == "Errors/PostgreSQL - too many clients.md"
    for hit in hits:
        first, last = hit["lines"]
        lines = (sample.vault / hit["path"]).read_text("utf-8").splitlines()
        assert "too many clients already" in "\n".join(lines[first - 1 : last])
        assert hit["uri"].startswith("obsidian://open?vault=")


def test_hits_come_best_first_and_one_a_note(sample: CommandLine) -> None:
    hits = sample.reply("search", "ledger pooling", "-k", "50")["hits"]
    scores = [hit["score"] for hit in hits]
    paths = [hit["path"] for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert len(paths) == len(set(paths)) > 5


def test_passages_gives_every_passage_of_a_note(sample: CommandLine) -> None:
    found = sample.paths("pgbouncer pooling", "-k", "50", "--passages")
    assert len(found) > len(set(found))


def test_k_bounds_the_number_of_hits(sample: CommandLine) -> None:
    assert len(sample.paths("ledger", "-k", "2")) == 2
    assert len(sample.paths("ledger", "-k", "50")) > 10


def test_explain_shows_where_the_score_comes_from(sample: CommandLine) -> None:
    plain = sample.run("search", "sourdough", "-k", "1").out
    explained = sample.run("search", "sourdough", "-k", "1", "--explain").out
    assert "holds: sourdough" in explained
    assert "holds:" not in plain


def test_a_mode_that_is_not_there_yet_is_said_to_be_missing(sample: CommandLine) -> None:
    reply = sample.reply("search", "harbour", "--mode", "graph")
    assert reply["mode"] == "keyword"
    assert any("graph" in reason for reason in reply["degraded"])
    assert sample.run("search", "harbour", "--mode", "graph").out.startswith("! ")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--tag", "people"),
        ("--path", "Projects"),
        ("--kind", "meeting"),
        ("--after", "2026-06"),
        ("--before", "2026-03"),
    ],
)
def test_each_filter_leaves_some_hits_and_takes_others_away(
    sample: CommandLine, option: str, value: str
) -> None:
    every = set(sample.paths("ledger", "-k", "100"))
    some = set(sample.paths("ledger", "-k", "100", option, value))
    assert some
    assert some < every


def test_a_word_that_begins_with_a_dash_stands_behind_two_dashes(sample: CommandLine) -> None:
    every = set(sample.paths("pooling", "-k", "50"))
    ended = sample.run("search", "-k", "50", "--json", "--", "pooling", "-session")
    without = {hit["path"] for hit in ended.json()["hits"]}
    assert without
    assert without < every


def test_read_gives_the_text_of_the_file(sample: CommandLine) -> None:
    path = "Decisions/ADR-0007 Transaction pooling with PgBouncer.md"
    text = (sample.vault / path).read_text("utf-8")
    assert sample.reply("read", path)["text"] == text
    assert sample.run("read", path).out.startswith(text.rstrip("\n"))


def test_read_gives_one_section_for_a_heading(sample: CommandLine) -> None:
    reply = sample.reply("read", "PostgreSQL - too many clients#Root cause")
    assert reply["text"].splitlines()[0].endswith("Root cause")
    assert len(reply["text"]) < len(sample.reply("read", reply["path"])["text"])


def test_read_says_that_it_cut_a_long_text(sample: CommandLine) -> None:
    reply = sample.reply("read", "Home", "--max-tokens", "200")
    assert reply["truncated"] is True
    assert len(reply["text"]) <= 600
    assert sample.reply("read", "Home")["truncated"] is False
    assert "cut after line" in sample.run("read", "Home", "--max-tokens", "200").out


def test_read_gives_properties_of_every_type_as_json(tmp_path: Path) -> None:
    properties = (
        "day: 2026-05-03\nwhen: 2026-05-03T10:00:00\nbig: 123456789012345678901234567890\n"
        "share: 0.5\nhalf: .nan\nendless: .inf\nnothing:\nyes: true\nlist: [1, two, [three]]\n"
        "map: {a: {b: c}}\n1: number\n"
    )
    command_line = on_notes(tmp_path, {"a.md": f"---\n{properties}---\nText.\n"})
    found = command_line.reply("read", "a")["frontmatter"]
    assert found["day"] == "2026-05-03"
    assert found["share"] == 0.5
    assert found["yes"] is True
    assert found["nothing"] is None
    assert found["map"] == {"a": {"b": "c"}}


def test_links_tell_where_each_leads_and_whose_alias_a_dead_one_is(sample: CommandLine) -> None:
    links = {link["link"]: link for link in sample.reply("links", "Daily/2026-06-23")["links"]}
    assert links["Tomek"]["resolved"] is None
    assert links["Tomek"]["alias_of"] == "People/Tomasz Wilk.md"
    assert any(link["resolved"] for link in links.values())


def test_backlinks_quote_the_line_that_links(sample: CommandLine) -> None:
    backlinks = sample.reply("links", "Mara Lindqvist")["backlinks"]
    assert len(backlinks) > 5
    for link in backlinks:
        lines = (sample.vault / link["path"]).read_text("utf-8").splitlines()
        assert link["text"] == lines[link["line"] - 1].strip()
    assert "Mara Lindqvist" in backlinks[0]["text"]


def test_a_backlink_from_a_list_of_properties_quotes_the_entry_that_links(tmp_path: Path) -> None:
    meeting = '---\npeople:\n  - "[[Ada]]"\n  - "[[Bo]]"\n---\nWe met.\n'
    command_line = on_notes(tmp_path, {"Ada.md": "Ada.\n", "Bo.md": "Bo.\n", "Met.md": meeting})
    (backlink,) = command_line.reply("links", "Bo")["backlinks"]
    assert (backlink["line"], backlink["text"]) == (4, '- "[[Bo]]"')


def test_lint_names_the_dead_link_the_ambiguous_one_the_orphan_and_the_fault(
    sample: CommandLine,
) -> None:
    reply = sample.reply("lint")
    dead = {(link["path"], link["link"]): link for link in reply["unresolved"]}
    assert ("Projects/Tern/Tern.md", "Tide gauge calibration") in dead
    assert dead["Daily/2026-06-23.md", "Tomek"]["suggestions"] == ["People/Tomasz Wilk.md"]
    assert [link["link"] for link in reply["ambiguous"]] == ["Overview"]
    assert dead["Daily/2026-06-23.md", "Tomek"]["fix"] == "[[Tomasz Wilk|Tomek]]"
    assert {"path": "Personal/Velo-Service.md", "line": 1} in reply["orphans"]
    assert [problem["path"] for problem in reply["problems"]] == [
        "Inbox/Call with the UPS vendor.md"
    ]


def test_status_tells_a_fresh_index_from_one_that_waits(tmp_path: Path) -> None:
    command_line = on_notes(tmp_path, {"a.md": "One.\n"})
    command_line.run("index")
    assert command_line.reply("status")["fresh"] is True
    (command_line.vault / "b.md").write_text("Two.\n")
    reply = command_line.reply("status")
    assert (reply["fresh"], reply["notes"]) == (False, 1)


def test_index_counts_what_was_added_changed_renamed_and_removed(tmp_path: Path) -> None:
    texts = {f"{name}.md": f"The note of {name}.\n" for name in ("keep", "change", "move", "drop")}
    command_line = on_notes(tmp_path, texts)
    assert command_line.reply("index")["notes"]["added"] == 4
    vault = command_line.vault
    (vault / "change.md").write_text("Something else.\n")
    (vault / "move.md").rename(vault / "moved.md")
    (vault / "drop.md").unlink()
    (vault / "new.md").write_text("New.\n")
    assert command_line.reply("index")["notes"] == {
        "total": 4,
        "added": 1,
        "changed": 1,
        "renamed": 1,
        "removed": 1,
        "unchanged": 1,
    }


def test_rebuild_starts_from_nothing(tmp_path: Path) -> None:
    command_line = on_notes(tmp_path, {"a.md": "One.\n"})
    command_line.run("index")
    assert command_line.reply("index")["notes"]["added"] == 0
    assert command_line.reply("index", "--rebuild")["notes"]["added"] == 1


@pytest.mark.parametrize(
    ("path", "indexed", "reason"),
    [
        ("Quay.md", True, "indexed, in 1 passage"),
        ("Quay", True, "indexed, in 1 passage"),
        ("Old/Drawer.md", False, "setting scan.ignore: Old"),
        (".obsidian/app.json", False, "begins with a dot"),
        ("Plan.svg", False, "neither a Markdown note nor a canvas"),
        ("Nowhere.md", False, "no such file"),
        ("Late.md", False, "not indexed yet"),
    ],
)
def test_why_names_the_reason(tmp_path: Path, path: str, indexed: bool, reason: str) -> None:
    notes = {"Quay.md": "Berths.\n", "Old/Drawer.md": "Dust.\n", "Plan.svg": "<svg/>"}
    command_line = on_notes(tmp_path, notes)
    environment = {"VAULTMEM_SCAN_IGNORE": "Old"}
    command_line.run("index", environment=environment)
    (command_line.vault / "Late.md").write_text("Too late.\n")
    reply = command_line.reply("why", path, environment=environment)
    assert reply["indexed"] is indexed
    assert reason in reply["reasons"][0]


def test_why_gives_the_path_as_it_was_asked_for(sample: CommandLine) -> None:
    assert sample.reply("why", ".obsidian/app.json")["path"] == ".obsidian/app.json"


def test_config_lists_every_setting_with_its_variable(sample: CommandLine) -> None:
    settings = {setting["key"]: setting for setting in sample.reply("config")["settings"]}
    assert settings["search.limit"]["variable"] == "VAULTMEM_SEARCH_LIMIT"
    text = sample.run("config").out
    assert [key for key in settings if f"{key} = " not in text] == []


def test_doctor_gives_each_check_a_stable_id_and_a_failing_one_a_fix(sample: CommandLine) -> None:
    checks = sample.reply("doctor")["checks"]
    ids = [check["id"] for check in checks]
    assert ids == [
        *("python", "sqlite", "secrets", "vault", "cache-folder", "sidecar", "fresh", "watch"),
        *("embedder", "vectors", "vector-search", "problems"),
        *("mcp-start", "mcp-handshake", "mcp-tools", "mcp-schema"),
    ]
    assert [check["id"] for check in checks if check["ok"] == bool(check["fix"])] == []


def test_explain_shows_every_term_of_a_score(tmp_path: Path) -> None:
    notes = {"Tide gauge.md": "A tide gauge measures.\n", "Other.md": "A gauge of another kind.\n"}
    shown = on_notes(tmp_path, notes).run("search", "tide gauge", "--explain").out
    for term in ("passage:", "window:", "note:", "all words: +", "name: +", "holds:", "coverage:"):
        assert term in shown, term
