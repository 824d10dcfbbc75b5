"""`vaultmem setup` as a person runs it, on a home folder of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import MODULE, CommandLine, Ended, on_notes

CURSOR = '{\n  // mine\n  "mcpServers": {\n    "files": {"command": "npx"}\n  }\n}\n'

# What moves a client's files may be set where this runs.
MOVING = dict.fromkeys(
    (
        *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"),
        *("CLINE_DIR", "CLINE_DATA_DIR", "CLINE_MCP_SETTINGS_PATH", "OLLAMA_HOST"),
    )
)

Setup = Callable[..., Ended]


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    """Two notes, and a home folder with Cursor and Codex in it."""
    shell = on_notes(tmp_path, {"kiln.md": "# Kiln\n\nFired on Sunday.\n", "clay.md": "[[kiln]]\n"})
    (shell.home / ".cursor").mkdir()
    (shell.home / ".cursor" / "mcp.json").write_text(CURSOR, "utf-8")
    (shell.home / ".codex").mkdir()
    return shell


@pytest.fixture
def setup(shell: CommandLine) -> Setup:
    """Runs `vaultmem setup` there."""

    def run(*arguments: str, vault: bool = True) -> Ended:
        changes: dict[str, str | None] = {**MOVING, "VAULTMEM_EMBEDDER_NAME": "none", "PATH": ""}
        if not vault:
            changes["VAULTMEM_VAULT"] = None
        return shell.run("setup", *arguments, environment=changes, python=MODULE)

    return run


def obsidian_knows(shell: CommandLine, *vaults: Path) -> None:
    folder = shell.home / ".config" / "obsidian"
    folder.mkdir(parents=True)
    told = {"vaults": {str(n): {"path": str(path), "ts": n} for n, path in enumerate(vaults)}}
    (folder / "obsidian.json").write_text(json.dumps(told), "utf-8")


def test_without_yes_it_shows_each_step_and_does_none(shell: CommandLine, setup: Setup) -> None:
    ended = setup()
    assert ended.code == 0, ended.err
    assert ended.out.index("1. Use the vault") < ended.out.index("2. Index it")
    assert "2 notes" in ended.out
    assert '+    "vaultmem": {' in ended.out
    assert "npx" not in ended.out
    assert "Nothing was done. Add --yes to do it." in ended.out
    assert (shell.home / ".cursor/mcp.json").read_text("utf-8") == CURSOR
    assert not (shell.home / ".codex/config.toml").exists()
    assert not shell.cache.exists()


def test_with_yes_it_indexes_connects_and_checks(shell: CommandLine, setup: Setup) -> None:
    ended = setup("--yes")
    assert ended.code == 0, ended.out + ended.err
    shown, done = ended.out.split("\n\ndone     vault: ")
    assert '+    "vaultmem": {' in shown
    lines = f"done     vault: {done}".splitlines()[:3]
    states = {line.split()[1].rstrip(":"): line.split()[0] for line in lines}
    assert states == {"vault": "done", "index": "done", "vectors": "skipped"}
    assert "done     connect cursor: " in ended.out
    assert "done     connect codex: " in ended.out
    assert "done     doctor: " in ended.out
    assert "Next:\n1. " in ended.out
    entry = json.loads((shell.home / ".cursor/mcp.json").read_text("utf-8").replace("// mine", ""))
    assert entry["mcpServers"]["files"] == {"command": "npx"}
    assert str(shell.vault.resolve()) in entry["mcpServers"]["vaultmem"]["args"]
    found = shell.run("search", "kiln", "--json", environment={"VAULTMEM_EMBEDDER_NAME": "none"})
    assert found.json()["hits"][0]["path"] == "kiln.md"


def test_doing_it_again_changes_nothing_and_says_so(shell: CommandLine, setup: Setup) -> None:
    setup("--yes")
    files = [shell.home / ".cursor/mcp.json", shell.home / ".codex/config.toml"]
    before = [path.read_bytes() for path in files]
    ended = setup("--yes")
    assert ended.code == 0
    assert "skipped  index: up to date, 2 notes" in ended.out
    assert ended.out.count("Already connected.") == 2
    assert [path.read_bytes() for path in files] == before


def test_the_one_vault_that_obsidian_knows_need_not_be_named(
    shell: CommandLine, setup: Setup
) -> None:
    obsidian_knows(shell, shell.vault, shell.home / "gone")
    ended = setup("--json", vault=False)
    assert ended.code == 0, ended.err
    plan = ended.json()
    assert plan["vault"] == str(shell.vault.resolve())
    assert plan["vault_source"] == "obsidian"
    assert plan["indexed"] is False


def test_between_two_vaults_it_does_not_choose(shell: CommandLine, setup: Setup) -> None:
    other = shell.home / "Other"
    other.mkdir()
    obsidian_knows(shell, shell.vault, other)
    ended = setup("--yes", vault=False)
    assert ended.code == 2
    assert str(other) in ended.err
    assert str(shell.vault) in ended.err
    assert "--vault" in ended.err
    assert not shell.cache.exists()


@pytest.mark.parametrize("told", ["", "[]", '{"vaults": 3}', '{"vaults": {"a": null}}', "{"])
def test_where_obsidian_says_nothing_of_use_the_vault_is_to_be_named(
    told: str, shell: CommandLine, setup: Setup
) -> None:
    obsidian_knows(shell)
    (shell.home / ".config/obsidian/obsidian.json").write_text(told, "utf-8")
    ended = setup(vault=False)
    assert ended.code == 4
    assert "--vault" in ended.err


@pytest.mark.parametrize("path", ["/" + "a" * 5000, "relative", "/no\x00thing", "/loop/a"])
def test_a_vault_of_obsidian_that_cannot_be_asked_about_is_none(
    path: str, shell: CommandLine, setup: Setup
) -> None:
    loop = shell.home / "loop"
    if sys.platform != "win32":
        loop.symlink_to(loop)
    (shell.elsewhere / "relative").mkdir()
    told = Path(str(loop) + path.removeprefix("/loop")) if path.startswith("/loop") else Path(path)
    obsidian_knows(shell, shell.vault, told)
    ended = setup("--json", vault=False)
    assert ended.code == 0, ended.err
    assert ended.json()["vault"] == str(shell.vault.resolve())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminals")
def test_a_client_that_wrote_its_file_meanwhile_is_connected_all_the_same(
    shell: CommandLine,
) -> None:
    import pty

    file = shell.home / ".cursor/mcp.json"
    terminal, end = pty.openpty()
    changes = {**MOVING, "VAULTMEM_EMBEDDER_NAME": "none", "PATH": ""}
    try:
        with subprocess.Popen(
            [*MODULE, "setup"],
            cwd=shell.elsewhere,
            env=shell.environment(changes),
            stdin=end,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stderr is not None
            assert process.stdout is not None
            asked = b""
            while not asked.endswith(b"Do this? [y/N] "):
                asked += process.stderr.read(1)
            file.write_text(CURSOR.replace("npx", "bunx"))
            os.write(terminal, b"y\n")
            said = process.stdout.read().decode()
            process.wait(60)
    finally:
        os.close(terminal)
        os.close(end)
    assert process.returncode == 0, said
    assert "done     connect cursor: " in said
    assert "bunx" in file.read_text()
    assert '"vaultmem"' in file.read_text()


def test_a_client_whose_file_cannot_be_parsed_fails_alone(shell: CommandLine, setup: Setup) -> None:
    (shell.home / ".cursor/mcp.json").write_text("{ nothing", "utf-8")
    ended = setup("--yes")
    assert ended.code == 1
    assert "failed   connect cursor: " in ended.out
    assert "done     connect codex: " in ended.out
    assert "done     index: " in ended.out
    assert (shell.home / ".cursor/mcp.json").read_text("utf-8") == "{ nothing"


def test_without_an_assistant_it_says_so_and_what_to_do(
    tmp_path: Path, setup: Setup, shell: CommandLine
) -> None:
    (shell.home / ".cursor/mcp.json").unlink()
    (shell.home / ".cursor").rmdir()
    (shell.home / ".codex").rmdir()
    ended = setup("--yes")
    assert ended.code == 0
    assert "skipped  connect: no assistant was found" in ended.out
    assert "vaultmem connect --print" in ended.out


def test_the_outcome_as_json_has_every_step(setup: Setup) -> None:
    reply = setup("--yes", "--json").json()
    steps = [step["id"] for step in reply["steps"]]
    assert steps == ["vault", "index", "vectors", "connect cursor", "connect codex", "doctor"]
    assert [change["client"] for change in reply["changes"]] == ["cursor", "codex"]
    assert all(change["diff"] for change in reply["changes"])
    assert reply["next"]


def test_few_passages_get_their_vectors_at_once(shell: CommandLine) -> None:
    changes = {**MOVING, "VAULTMEM_EMBEDDER_NAME": "minilm", "PATH": ""}
    ended = shell.run("setup", "--yes", environment=changes, python=MODULE)
    assert ended.code == 0, ended.out
    assert "done     vectors: 2 passages embedded" in ended.out
