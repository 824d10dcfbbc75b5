"""status and inspect: what is indexed, what waits, and why a note is or is not found."""

from collections.abc import Callable
from pathlib import Path

import pytest

from vaultmem.model.errors import NoteAmbiguous, Refused
from vaultmem.service.application import Memory
from vaultmem.service.operations.index import IndexReply
from vaultmem.service.operations.inspect import InspectReply, InspectRequest, inspect
from vaultmem.service.operations.status import StatusReply, StatusRequest, status

Open = Callable[..., Memory]
Run = Callable[[Memory], IndexReply]


def state(memory: Memory) -> StatusReply:
    return status(memory, StatusRequest())


def why(memory: Memory, note: str) -> InspectReply:
    return inspect(memory, InspectRequest(note))


def test_a_vault_that_was_never_indexed_waits_as_a_whole(open_vault: Open) -> None:
    reply = state(open_vault({"a.md": "kiln", "b.md": "clay"}))
    assert (reply.notes, reply.chunks, reply.fresh, reply.waiting) == (0, 0, False, 2)
    assert reply.last_indexed is None


def test_an_indexed_vault_is_fresh(indexed: Open) -> None:
    memory = indexed({"a.md": "# A\n\nkiln\n\n# B\n\nclay", "b.md": "---\nx: [\n---\n"})
    reply = state(memory)
    assert (reply.notes, reply.chunks, reply.problems) == (2, 3, 1)
    assert (reply.fresh, reply.waiting) == (True, 0)
    assert reply.last_indexed == "2001-09-09T00:00:00+00:00"
    assert reply.vault == str(memory.vault)
    assert Path(reply.sidecar) == memory.folder / "index.db"
    assert (reply.vectors, reply.embedder, reply.watching) == (0, None, False)


def test_what_was_changed_added_and_removed_is_waiting(indexed: Open, run_index: Run) -> None:
    memory = indexed({"a.md": "kiln", "b.md": "clay", "c.md": "glaze"})
    (memory.vault / "a.md").write_text("another text")
    (memory.vault / "b.md").unlink()
    (memory.vault / "d.md").write_text("new")
    reply = state(memory)
    assert (reply.fresh, reply.waiting, reply.notes) == (False, 3, 3)
    run_index(memory)
    assert (state(memory).fresh, state(memory).waiting) == (True, 0)


def test_an_emptied_vault_is_not_fresh_and_keeps_its_index(indexed: Open) -> None:
    memory = indexed({"a.md": "kiln"})
    (memory.vault / "a.md").unlink()
    reply = state(memory)
    assert (reply.fresh, reply.notes) == (False, 1)


def test_health_checks_of_a_sound_vault_all_pass(
    indexed: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for name, value in (("HOME", str(home)), ("USERPROFILE", str(home)), ("PATH", "")):
        monkeypatch.setenv(name, value)
    memory = indexed({"a.md": "kiln"})
    checks = status(memory, StatusRequest(checks=True, assistants=True)).checks
    fewer = status(memory, StatusRequest(checks=True)).checks
    assert {check.id for check in checks} - {check.id for check in fewer} == {
        "mcp-start", "mcp-handshake", "mcp-tools", "mcp-schema"
    }  # fmt: skip
    assert {check.id for check in checks} == {
        "python", "sqlite", "secrets", "vault", "cache-folder", "sidecar", "fresh", "watch",
        "embedder",
        "vectors", "vector-search", "problems",
        "mcp-start", "mcp-handshake", "mcp-tools", "mcp-schema",
    }  # fmt: skip
    assert [check for check in checks if not check.ok] == []
    assert all(check.fix == "" for check in checks)
    assert state(memory).checks == ()


def test_health_checks_name_what_is_wrong_and_what_to_do(open_vault: Open, run_index: Run) -> None:
    memory = open_vault({"a.md": "---\nx: [\n---\n"}, cache="vault/inside")
    before = {check.id: check for check in status(memory, StatusRequest(checks=True)).checks}
    assert not before["sidecar"].ok
    assert not before["fresh"].ok
    assert not before["cache-folder"].ok
    run_index(memory)
    (memory.vault / "b.md").write_text("new")
    after = {check.id: check for check in status(memory, StatusRequest(checks=True)).checks}
    assert after["sidecar"].ok
    assert not after["fresh"].ok
    assert not after["problems"].ok
    assert all(check.fix for check in after.values() if not check.ok)


def test_settings_are_listed_with_their_source(open_vault: Open) -> None:
    memory = open_vault(
        {"a.md": "kiln", ".vaultmem/config.toml": "[search]\nlimit = 5\n"},
        environment={"VAULTMEM_SEARCH_REFRESH": "never"},
    )
    settings = {s.key: s for s in status(memory, StatusRequest(settings=True)).settings}
    assert (settings["search.limit"].value, settings["search.limit"].source) == (5, "config.toml")
    assert settings["search.refresh"].source == "environment"
    assert settings["chunk.max_pieces"].source == "default"
    assert settings["cache_dir"].source == "flag"
    assert settings["search.limit"].variable == "VAULTMEM_SEARCH_LIMIT"
    assert all(setting.about for setting in settings.values())


def test_an_indexed_note_is_explained(indexed: Open) -> None:
    text = "---\ntitle: The Kiln\ntype: Tool\ndate: 2026-05-03\n---\n# A\n\n" + "word " * 20
    memory = indexed({"kiln.md": f"{text}\n\n# B\n\n[[x]] [[x]]", "x.md": "[[kiln]]"})
    reply = why(memory, "kiln.md")
    assert (reply.path, reply.indexed, reply.current) == ("kiln.md", True, True)
    assert reply.reasons == ("It is indexed, in 2 passages.",)
    assert (reply.title, reply.kind, reply.date) == ("The Kiln", "tool", "2026-05-03")
    assert (reply.chunks, reply.links, reply.backlinks) == (2, 2, 1)
    assert not reply.stub
    assert why(memory, "Kiln").path == "kiln.md"


def test_a_stub_and_a_problem_are_among_the_reasons(indexed: Open) -> None:
    reply = why(indexed({"a.md": "---\nx: [\n---\nfew words", "b.md": ""}), "a")
    assert reply.stub
    assert "next to no text" in reply.reasons[1]
    assert [problem.code for problem in reply.problems] == ["frontmatter-invalid"]
    assert reply.problems[0].message in reply.reasons


def test_a_changed_note_is_indexed_and_not_current(indexed: Open) -> None:
    memory = indexed({"a.md": "kiln", "b.md": "clay"})
    (memory.vault / "a.md").write_text("another text")
    reply = why(memory, "a.md")
    assert (reply.indexed, reply.current) == (True, False)
    assert "looks different" in reply.reasons[1]
    (memory.vault / "b.md").unlink()
    assert "gone from the vault" in why(memory, "b").reasons[1]


@pytest.mark.parametrize(
    ("path", "excluded_by", "reason"),
    [
        ("Old/a.md", "setting scan.ignore: Old", "kept out of search by a rule"),
        ("Private/a.md", "Obsidian's excluded files: Private/", "kept out of search by a rule"),
        ("draft.x.md", r"Obsidian's excluded files: /draft\..*/", "kept out of search by a rule"),
        (
            "a.sync-conflict-20260102-030405-ABCDEFG.md",
            "conflict copy made by a sync service",
            "kept out of search by a rule",
        ),
        ("big.md", "setting scan.max_note_bytes", "kept out of search by a rule"),
        (".hidden/a.md", None, "begins with a dot"),
        ("Old/.secret.md", None, "begins with a dot"),
        ("pic.png", None, "neither a Markdown note nor a canvas"),
        ("link.md", None, "symbolic link"),
        ("nowhere.md", None, "no such file"),
        ("nowhere", None, "no such file"),
        ("fresh.md", None, "not indexed yet"),
        ("fresh", None, "not indexed yet"),
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["never indexed", "indexed"])
def test_every_rule_that_keeps_a_note_out_is_named(
    path: str, excluded_by: str | None, reason: str, first: bool, open_vault: Open, run_index: Run
) -> None:
    memory = open_vault(
        {
            "kept.md": "kiln",
            "Old/a.md": "x",
            "Private/a.md": "x",
            "draft.x.md": "x",
            "a.sync-conflict-20260102-030405-ABCDEFG.md": "x",
            "big.md": "x" * 2_000,
            ".hidden/a.md": "x",
            "pic.png": b"x",
            ".obsidian/app.json": '{"userIgnoreFilters": ["Private/", "/draft\\\\..*/"]}',
        },
        environment={"VAULTMEM_SCAN_IGNORE": "Old", "VAULTMEM_SCAN_MAX_NOTE_BYTES": "1000"},
    )
    (memory.vault / "link.md").symlink_to(memory.vault / "kept.md")
    if not first:
        run_index(memory)
    (memory.vault / "fresh.md").write_text("x")
    reply = why(memory, path)
    assert not reply.indexed
    assert reply.excluded_by == excluded_by
    assert reason in reply.reasons[0]


@pytest.mark.parametrize("path", ["../x.md", "a/../../x.md", "a\0.md", "~/x"])
@pytest.mark.parametrize("first", [True, False], ids=["never indexed", "indexed"])
def test_a_path_out_of_the_vault_is_refused(
    path: str, first: bool, open_vault: Open, run_index: Run
) -> None:
    memory = open_vault({"a.md": "kiln"})
    if not first:
        run_index(memory)
    with pytest.raises(Refused):
        why(memory, path)


def test_an_ambiguous_name_is_not_guessed(indexed: Open) -> None:
    with pytest.raises(NoteAmbiguous):
        why(indexed({"x/a.md": "kiln", "y/a.md": "clay"}), "a")
