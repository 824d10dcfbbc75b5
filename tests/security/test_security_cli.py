"""Secrets on the command line: listed, allowed, revoked, and never printed."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from variants import Chance

C = Chance(23)
TOKEN = "gh" + "p_" + C.some(36)
OTHER = "gh" + "p_" + C.some(36)

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    (folder / "Sub").mkdir(parents=True)
    (folder / "a.md").write_text(f"---\nlogin: {TOKEN}\n---\nkiln\n\nlogin {TOKEN}\n")
    (folder / "Sub" / "b.md").write_text(f"clay {OTHER}\n[[a]]\n")
    (folder / "Diary.md").write_text("---\nprivate: true\n---\nhyacinth\n")
    return folder


@pytest.fixture
def run(vault: Path, tmp_path: Path) -> Run:
    """Run one command on the vault."""

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("VAULTMEM_")}
        chosen = {
            "HOME": str(tmp_path / "home"),
            "VAULTMEM_VAULT": str(vault),
            "VAULTMEM_CACHE_DIR": str(tmp_path / "cache"),
            "VAULTMEM_STATE_DIR": str(tmp_path / "state"),
            "VAULTMEM_EMBEDDER_NAME": "none",
        }
        return subprocess.run(
            [sys.executable, "-m", "vaultmem", *arguments],
            env=kept | chosen,
            cwd=tmp_path,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )

    return command


def reply(run: Run, *arguments: str) -> Any:
    ended = run(*arguments, "--json")
    assert ended.returncode in (0, 1), ended
    return json.loads(ended.stdout)


COMMANDS = (
    ("index",),
    ("search", "login", "kiln"),
    ("search", "kiln", "--json"),
    ("read", "a"),
    ("read", "a", "--json"),
    ("read", "Sub/b.md"),
    ("links", "a"),
    ("links", "a", "--json"),
    ("lint",),
    ("lint", "--json"),
    ("why", "a.md"),
    ("status",),
    ("doctor",),
    ("secrets",),
    ("secrets", "list", "--json"),
)


def test_no_command_prints_a_secret_or_leaves_one_behind(run: Run, tmp_path: Path) -> None:
    for arguments in COMMANDS:
        ended = run(*arguments)
        assert ended.returncode in (0, 1), (arguments, ended)
        said = ended.stdout + ended.stderr
        for secret in (TOKEN, OTHER, "hyacinth"):
            assert secret not in said, arguments
            assert secret[5:] not in said, arguments
    assert "[secret:github-pat]" in run("read", "a").stdout
    kept = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any(file.name == "secrets.json" for file in kept)
    holding = {
        str(file.relative_to(tmp_path))
        for file in kept
        for secret in (TOKEN, TOKEN[4:].lower()[:-3], OTHER, "hyacinth")
        if secret.encode() in file.read_bytes()
    }
    assert holding == {"vault/a.md", "vault/Sub/b.md", "vault/Diary.md"}


def test_the_list_names_file_line_kind_and_fingerprint(run: Run) -> None:
    listed = reply(run, "secrets")["secrets"]
    assert [(s["path"], s["line"], s["kind"], s["allowed"]) for s in listed] == [
        ("Sub/b.md", 1, "github-pat", False),
        ("a.md", 2, "github-pat", False),
        ("a.md", 6, "github-pat", False),
    ]
    lines = run("secrets").stdout
    for secret in listed:
        assert f"{secret['path']}:{secret['line']}" in lines
        assert secret["fingerprint"] in lines
        assert len(secret["shown"]) <= 4
    assert "secrets allow" in lines


def test_lint_lists_what_is_not_allowed_and_fails(run: Run) -> None:
    ended = run("lint")
    assert ended.returncode == 1
    assert "a.md:2  github-pat" in ended.stdout
    assert len(reply(run, "lint")["secrets"]) == 3


def test_allow_and_revoke_change_what_is_read(run: Run) -> None:
    before = {s["path"]: s["fingerprint"] for s in reply(run, "secrets")["secrets"]}
    allowed = run("secrets", "allow", before["a.md"])
    assert allowed.returncode == 0, allowed
    assert TOKEN not in allowed.stdout
    assert TOKEN in run("read", "a").stdout
    assert OTHER not in run("read", "Sub/b.md").stdout
    assert [s["path"] for s in reply(run, "lint")["secrets"]] == ["Sub/b.md"]
    assert "(allowed)" in run("secrets", "list").stdout
    revoked = reply(run, "secrets", "revoke", before["a.md"])
    assert revoked["changed"] == [before["a.md"]]
    assert TOKEN not in run("read", "a").stdout


def test_a_wrong_fingerprint_and_none_are_one_line_and_an_exit_code(run: Run) -> None:
    for arguments in (("allow", "0" * 20), ("revoke", TOKEN), ("allow",)):
        ended = run("secrets", *arguments)
        assert ended.returncode == 2, ended
        assert ended.stdout == ""
        assert ended.stderr.count("\n") == 1
        assert "vaultmem secrets" in ended.stderr


def test_a_vault_without_secrets_says_so(run: Run, vault: Path) -> None:
    (vault / "a.md").write_text("kiln\n")
    (vault / "Sub" / "b.md").write_text("clay\n")
    ended = run("secrets")
    assert (ended.returncode, ended.stdout) == (0, "No note holds a credential.\n")


def test_what_is_hidden_is_shown_as_escapes_and_told_of(run: Run, vault: Path) -> None:
    (vault / "c.md").write_text("# Glaze\n\nred\u202eder and more\n", encoding="utf-8")
    for arguments in (("read", "c"), ("read", "c", "--json"), ("search", "glaze", "more")):
        ended = run(*arguments)
        assert "\u202e" not in ended.stdout
        assert "u{202e}" in ended.stdout
    problems = reply(run, "lint")["problems"]
    assert [p["line"] for p in problems if p["code"] == "hidden-text"] == [3]
