"""`vaultmem connect` as a person and a script run it, on a home folder of its own."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import (
    MODULE,
    Ended,
    assert_one_line_error,
    obeying_permissions,
    on_notes,
    write_notes,
)

SECRET = "the-password-of-another-server"
CLINE = "globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"

# Files of each client as a person has them: other servers, comments, commas, their own layout.
JSONC = f"""\
{{
  // servers that I use
  "TABLE": {{ // all of them
    "files": {{
      "command": "npx", /* from npm */
      "args": ["-y", "server-files"],
      "env": {{ "TOKEN": "{SECRET}" }},
    }},
    "web": {{ "url": "https://example.org/{SECRET}" }}, // remote
  }},
  "theme": "dark", // {SECRET}
}}
"""
TOML = f"""\
model = "m" # {SECRET}

[mcp_servers.files]
command = "npx"
args = [
  "server-files", # [mcp_servers.vaultmem]
]
env = {{ TOKEN = "{SECRET}" }}

# the last one
[profiles.x]
model = "n\""""

CLIENTS: dict[str, tuple[str, str]] = {
    "claude-code": (".claude.json", json.dumps({"n": 1, "mcpServers": {"a": {"env": SECRET}}})),
    "claude-desktop": (
        ".config/Claude/claude_desktop_config.json",
        JSONC.replace("TABLE", "mcpServers").replace("\n", "\r\n"),
    ),
    "cursor": (".cursor/mcp.json", JSONC.replace("TABLE", "mcpServers").replace("  ", "\t")),
    "vscode": (".config/Code/User/mcp.json", JSONC.replace("TABLE", "servers")),
    "codex": (".codex/config.toml", TOML),
    "gemini": (".gemini/settings.json", JSONC.replace("TABLE", "other").removesuffix("\n")),
    "cline": (".cline/data/settings/cline_mcp_settings.json", '{\n  "mcpServers": {}\n}'),
    "windsurf": (
        ".codeium/windsurf/mcp_config.json",
        "\ufeff" + JSONC.replace("TABLE", "mcpServers"),
    ),
}

# A client may be installed where this runs; what moves its files may be set.
MOVING = dict.fromkeys(
    (
        *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"),
        *("CLINE_DIR", "CLINE_DATA_DIR", "CLINE_MCP_SETTINGS_PATH", "OLLAMA_HOST"),
    )
)

# The places in CLIENTS are those of Linux; tests/service has them for each system.
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the files lie elsewhere")


class Home:
    """A home folder with clients, and a shell in it."""

    def __init__(self, scratch: Path) -> None:
        self.shell = on_notes(scratch, {"a.md": "A.\n"})
        self.state = scratch / "state"
        self.environment: dict[str, str | None] = {
            **MOVING,
            "PATH": str(scratch / "programs"),
            "VAULTMEM_STATE_DIR": str(self.state),
            "VAULTMEM_CACHE_DIR": None,
        }

    def write(self, *clients: str) -> None:
        for name in clients or CLIENTS:
            path, text = CLIENTS[name]
            write_notes(self.shell.home, {path: text})

    def file(self, client: str) -> Path:
        return self.shell.home / CLIENTS[client][0]

    def run(self, *arguments: str, **options: Any) -> Ended:
        environment = {**self.environment, **options.pop("environment", {})}
        return self.shell.run("connect", *arguments, environment=environment, **options)

    def reply(self, *arguments: str, **options: Any) -> Any:
        ended = self.run(*arguments, "--json", **options)
        assert ended.code in (0, 1), ended
        return ended.json()

    def entry(self, client: str, name: str = "vaultmem") -> Any:
        text = self.file(client).read_bytes().decode("utf-8-sig")
        table = {"vscode": "servers", "codex": "mcp_servers"}.get(client, "mcpServers")
        loaded = tomllib.loads(text) if client == "codex" else json.loads(bare(text))
        return loaded[table][name]


def bare(text: str) -> str:
    """What is left of the files above without comments and trailing commas."""
    for comment in (" // servers that I use", " // all of them", " /* from npm */", " // remote"):
        text = text.replace(comment, "")
    text = text.replace("\t// servers that I use", "").replace(f" // {SECRET}", "")
    return ",".join(
        part if not part.lstrip().startswith(("}", "]")) else f"\0{part}"
        for part in text.split(",")
    ).replace(",\0", "")


def shared(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    differs = (
        number for number, pair in enumerate(zip(one, other, strict=False)) if len({*pair}) > 1
    )
    return next(differs, min(len(one), len(other)))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_is_connected_and_its_file_comes_back_to_the_byte(
    client: str, home: Home
) -> None:
    home.write(client)
    file = home.file(client)
    before = file.read_bytes()

    shown = home.run(client)
    assert (shown.code, shown.err) == (0, "")
    assert f"+++ {file}" in shown.out
    assert str(home.shell.vault) in shown.out
    assert SECRET not in shown.out
    assert "Nothing was done. Add --yes to do it." in shown.out
    assert file.read_bytes() == before

    done = home.run(client, "--yes")
    assert (done.code, done.err) == (0, "")
    entry = home.entry(client)
    assert entry["args"] == ["--vault", str(home.shell.vault), "mcp"]
    assert os.path.isabs(entry["command"])
    assert os.access(entry["command"], os.X_OK)
    assert entry["env"] == {
        "VAULTMEM_EMBEDDER_NAME": "none",
        "VAULTMEM_STATE_DIR": str(home.state),
    }
    # All that was there is there still, in its order, around one stretch that is new.
    after = file.read_bytes()
    assert shared(before, after) + shared(before[::-1], after[::-1]) >= len(before)

    again = home.run(client, "--yes")
    assert (again.code, "Already connected" in again.out) == (0, True)
    assert file.read_bytes() == after

    removal = home.run(client, "--remove")
    assert f"--- {file}" in removal.out
    assert SECRET not in removal.out
    assert home.run(client, "--remove", "--yes").code == 0
    assert file.read_bytes() == before


def test_what_was_connected_starts(home: Home) -> None:
    home.write("cursor")
    home.run("cursor", "--yes")
    entry = home.entry("cursor")
    ended = subprocess.run(
        [entry["command"], *entry["args"][:2], "status", "--json"],
        env={"PATH": os.environ["PATH"], "HOME": str(home.shell.home), **entry["env"]},
        capture_output=True,
        check=True,
    )
    assert json.loads(ended.stdout)["vault"] == str(home.shell.vault)


def test_without_a_client_it_shows_how_all_stand_and_changes_nothing(home: Home) -> None:
    home.write("cursor", "codex")
    ended = home.run()
    assert (ended.code, ended.err) == (0, "")
    lines = {line.split("  ")[-1].strip(): line.split()[:2] for line in ended.out.splitlines()}
    assert lines[str(home.file("cursor"))] == ["not", "connected"]
    assert lines["(gemini)"] == ["not", "installed"]
    assert "`vaultmem connect cursor codex`" in ended.out
    home.run("codex", "--yes")
    states = {c["client"]: c["state"] for c in home.reply()["connections"]}
    assert states == {
        **dict.fromkeys(CLIENTS, "not installed"),
        "cursor": "not connected",
        "codex": "connected",
    }
    assert home.file("cursor").read_text() == CLIENTS["cursor"][1]


def test_all_are_those_that_are_found(home: Home) -> None:
    home.write("cursor", "codex", "windsurf")
    ended = home.run("--all", "--yes")
    assert ended.code == 0
    assert "Not found on this computer: Claude Code, " in ended.out
    steps = {c["client"]: c["step"] for c in home.reply("--all")["changes"]}
    assert steps == {
        **dict.fromkeys(CLIENTS, "not installed"),
        **dict.fromkeys(("cursor", "codex", "windsurf"), "nothing"),
    }
    found = sorted(p for p in home.shell.home.rglob("*") if p.is_file())
    assert found == sorted(map(home.file, ("cursor", "codex", "windsurf")))
    assert home.run("--all", "--remove", "--yes").code == 0
    for client in ("cursor", "codex", "windsurf"):
        assert home.file(client).read_bytes().decode() == CLIENTS[client][1]


def test_a_client_that_is_not_there_is_told_of_and_no_folder_made(home: Home) -> None:
    ended = home.run("cursor", "--yes")
    assert (ended.code, "Cursor was not found" in ended.out) == (1, True)
    assert home.reply("cursor", "--yes")["changes"][0]["step"] == "not installed"
    assert home.run("--all", "--yes").code == 0
    assert list(home.shell.home.iterdir()) == []


def test_words_may_stand_behind_options(home: Home) -> None:
    home.write("cursor", "codex")
    reply = home.reply("--yes", "cursor", "--name", "mine", "codex")
    assert [(c["client"], c["step"]) for c in reply["changes"]] == [
        ("cursor", "add"),
        ("codex", "add"),
    ]
    assert home.entry("codex", "mine")


def test_what_is_copied_first_is_for_its_owner_alone(home: Home) -> None:
    home.write("cursor")
    (change,) = home.reply("cursor", "--yes")["changes"]
    backup = Path(change["backup"])
    assert backup.is_relative_to(home.state)
    assert backup.read_text() == CLIENTS["cursor"][1]
    assert backup.stat().st_mode & 0o777 == 0o600


def test_json_says_the_plan_and_then_what_was_done_and_no_secret(home: Home) -> None:
    home.write()
    plan = home.reply("--all")
    assert {change["step"] for change in plan["changes"]} == {"add"}
    assert all(change["diff"] for change in plan["changes"])
    assert SECRET not in json.dumps(plan)
    reply = home.reply("--all", "--yes")
    assert {change["step"] for change in reply["changes"]} == {"add"}
    assert SECRET not in json.dumps(reply)


def test_a_file_that_cannot_be_read_is_refused_and_the_others_go_on(home: Home) -> None:
    home.write("cursor", "codex")
    home.file("cursor").write_text('{"mcpServers": {')
    ended = home.run("cursor", "codex", "--yes")
    assert ended.code == 1
    assert f"! Cursor, {home.file('cursor')} is left as it is. It is not JSON" in ended.out
    assert "Codex is connected" in ended.out
    assert home.file("cursor").read_text() == '{"mcpServers": {'
    assert home.run("cursor").code == 1


@pytest.mark.parametrize("locked", ["file", "folder"])
def test_what_is_read_only_stays_as_it_is(locked: str, home: Home) -> None:
    home.write("cursor")
    file = home.file("cursor")
    place = file if locked == "file" else file.parent
    place.chmod(0o444 if locked == "file" else 0o555)
    try:
        ended = home.run("cursor", "--yes", preexec_fn=obeying_permissions())
    finally:
        place.chmod(0o755)
    assert ended.code == 1
    assert ("is read-only" if locked == "file" else "cannot be written") in ended.out
    assert file.read_text() == CLIENTS["cursor"][1]
    assert [entry.name for entry in file.parent.iterdir()] == ["mcp.json"]


def test_dotfiles_behind_a_link_stay_behind_it(home: Home, tmp_path: Path) -> None:
    home.write("cursor")
    dotfile = tmp_path / "dotfiles.json"
    home.file("cursor").rename(dotfile)
    home.file("cursor").symlink_to(dotfile)
    assert str(dotfile) in home.run("cursor").out
    home.run("cursor", "--yes")
    assert home.file("cursor").is_symlink()
    assert "vaultmem" in dotfile.read_text()
    home.run("cursor", "--yes", "--remove")
    assert dotfile.read_text() == CLIENTS["cursor"][1]


def test_by_hand_nothing_is_written_and_what_is_shown_works(home: Home) -> None:
    home.write("claude-code")
    ended = home.run("--print", "claude-code", "vscode", "codex")
    assert (ended.code, ended.err) == (0, "")
    assert f"# VS Code: {home.file('vscode')}" in ended.out
    assert "claude mcp add-json --scope user vaultmem '" in ended.out
    assert home.file("claude-code").read_text() == CLIENTS["claude-code"][1]
    assert not home.file("vscode").exists()
    snippets = home.reply("--print")["snippets"]
    assert [snippet["client"] for snippet in snippets] == list(CLIENTS)
    for snippet in snippets:
        write_notes(home.shell.home, {snippet["paths"][0]: snippet["text"]})
    states = {c["client"]: c["state"] for c in home.reply()["connections"]}
    assert states == dict.fromkeys(CLIENTS, "connected")


@pytest.mark.parametrize("name", ["two  words", 'it\'s "so"', "back\\slash", "Größe 日本語"])
def test_a_vault_of_any_name_can_be_connected(name: str, home: Home, tmp_path: Path) -> None:
    home.write()
    vault = tmp_path / name
    shutil.move(home.shell.vault, vault)
    home.environment["VAULTMEM_VAULT"] = None
    ended = home.run("--all", "--yes", "--vault", str(vault))
    assert ended.code == 0, ended
    for client in ("vscode", "codex", "claude-code"):
        assert home.entry(client)["args"] == ["--vault", str(vault), "mcp"]
    states = {c["state"] for c in home.reply("--vault", str(vault))["connections"]}
    assert states == {"connected"}


def test_the_cache_folder_goes_with_it(home: Home, tmp_path: Path) -> None:
    home.write("cursor")
    home.run("cursor", "--yes", "--cache-dir", str(tmp_path / "cache"))
    assert home.entry("cursor")["args"][2:4] == ["--cache-dir", str(tmp_path / "cache")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("emacs",), "Known are claude-code, "),
        (("cursor", "--name", "a b"), "--name"),
        (("--remove",), "--all"),
        (("--yes",), "--all"),
        (("--replace",), "--all"),
        (("cursor", "--print", "--remove"), "--print"),
        (("cursor", "--nope"), "--nope"),
    ],
)
def test_a_request_that_makes_no_sense_is_one_line(
    arguments: tuple[str, ...], said: str, home: Home
) -> None:
    home.write("cursor")
    assert_one_line_error(home.run(*arguments), 2, said)
    assert home.file("cursor").read_text() == CLIENTS["cursor"][1]


@pytest.mark.parametrize(("answer", "written"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_at_a_terminal_it_asks(answer: str, written: bool, home: Home) -> None:
    import pty

    home.write("cursor")
    terminal, end = pty.openpty()
    os.write(terminal, answer.encode())
    try:
        ended = subprocess.run(
            [*MODULE, "connect", "cursor"],
            cwd=home.shell.elsewhere,
            env=home.shell.environment(home.environment),
            stdin=end,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    finally:
        os.close(terminal)
        os.close(end)
    assert (ended.returncode, ended.stderr) == (0, "Do this? [y/N] ")
    assert ("Cursor is connected" in ended.stdout) is written
    assert ended.stdout.endswith("Nothing was done.\n") is not written
    assert (home.file("cursor").read_text() != CLIENTS["cursor"][1]) is written


def test_a_file_that_changes_while_it_asks_is_left_as_it_is(home: Home) -> None:
    import pty

    home.write("cursor")
    terminal, end = pty.openpty()
    try:
        with subprocess.Popen(
            [*MODULE, "connect", "cursor"],
            cwd=home.shell.elsewhere,
            env=home.shell.environment(home.environment),
            stdin=end,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stderr is not None
            assert process.stdout is not None
            assert process.stderr.read(len("Do this? [y/N] ")) == b"Do this? [y/N] "
            home.file("cursor").write_text("{}")
            os.write(terminal, b"y\n")
            said = process.stdout.read().decode()
            assert process.wait(20) == 1
    finally:
        os.close(terminal)
        os.close(end)
    assert "was changed since this was shown" in said
    assert home.file("cursor").read_text() == "{}"


def test_many_at_once_lose_no_server(home: Home) -> None:
    home.write("windsurf")
    before = home.file("windsurf").read_bytes()
    environment = home.shell.environment(home.environment)
    processes = [
        subprocess.Popen(
            [*MODULE, "connect", "windsurf", "--yes"],
            cwd=home.shell.elsewhere,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(4)
    ]
    codes = [process.wait(60) for process in processes]
    assert 0 in codes
    assert set(codes) <= {0, 1}  # 1: another one was faster, and this one says so
    assert home.run("windsurf", "--yes", "--remove").code == 0
    assert home.file("windsurf").read_bytes() == before


def test_what_is_done_without_asking_is_shown_as_well(home: Home) -> None:
    home.write("cursor", "codex")
    ended = home.run("cursor", "--yes")
    shown, done = ended.out.split("Cursor is connected: ")
    assert '+\t\t"vaultmem": {' in shown.splitlines()
    assert "Nothing was done" not in ended.out
    assert "what was there before: " in done
    (change,) = home.reply("codex", "--yes")["changes"]
    assert "+[mcp_servers.vaultmem]" in change["diff"]
    again = home.run("cursor", "--yes")
    assert again.out.count("Already connected.") == 1


def test_what_a_person_put_into_the_entry_is_not_shown(home: Home) -> None:
    home.write("cursor")
    home.file("cursor").write_text(
        '{"mcpServers": {"vaultmem": {"command": "vaultmem", "args": ["mcp"], '
        f'"env": {{"OPENAI_API_KEY": "{SECRET}"}}}}}}}}'
    )
    for options in ((), ("--json",), ("--remove",), ("--remove", "--json")):
        ended = home.run("cursor", *options)
        assert "OPENAI_API_KEY" in ended.out
        assert SECRET not in ended.out
    ended = home.run("cursor", "--yes", "--json")
    assert SECRET not in ended.out
    assert home.entry("cursor")["env"]["OPENAI_API_KEY"] == SECRET
    assert SECRET not in home.run("--json").out


def test_another_vaults_name_gives_way_only_if_that_is_said(home: Home, tmp_path: Path) -> None:
    home.write("cursor")
    drive = tmp_path / "drive"
    write_notes(drive, {"a.md": "A.\n"})
    home.run("cursor", "--yes", "--vault", str(drive))
    shutil.rmtree(drive)
    refused = home.run("cursor", "--yes")
    assert refused.code == 1
    assert "--replace" in refused.out
    assert home.entry("cursor")["args"][1] == str(drive)
    assert home.run("cursor", "--yes", "--replace").code == 0
    assert home.entry("cursor")["args"][1] == str(home.shell.vault)


def test_a_vault_that_is_gone_is_listed_and_taken_out(home: Home, tmp_path: Path) -> None:
    home.write("cursor", "codex")
    drive = tmp_path / "drive"
    write_notes(drive, {"a.md": "A.\n"})
    home.run("cursor", "codex", "--yes", "--vault", str(drive), "--name", "d")
    shutil.rmtree(drive)
    told = home.run()
    assert told.code == 0
    assert f"--vault {drive} connect cursor --remove --name d`" in told.out
    states = {
        (c["client"], c["name"]): c["state"]
        for c in home.reply("--vault", str(drive))["connections"]
    }
    assert states["cursor", "d"] == states["codex", "d"] == "vault gone"
    assert home.run("cursor", "--yes", "--vault", str(drive)).code == 4
    assert home.run("--all", "--remove", "--yes", "--vault", str(drive)).code == 0
    for client in ("cursor", "codex"):
        assert home.file(client).read_bytes().decode() == CLIENTS[client][1]


def test_all_servers_of_the_vault_are_taken_out_at_once(home: Home) -> None:
    home.write("cursor", "codex")
    home.run("cursor", "--yes", "--name", "two")
    home.run("codex", "--yes")
    shown = home.run("--all", "--remove")
    assert "Cursor: two would be taken out of" in shown.out
    assert home.run("--all", "--remove", "--yes").code == 0
    for client in ("cursor", "codex"):
        assert home.file(client).read_bytes().decode() == CLIENTS[client][1]


def test_nothing_a_name_holds_steers_the_terminal(home: Home, tmp_path: Path) -> None:
    home.write("cursor")
    vault = tmp_path / "no \x1b[31m tes\u202e"
    write_notes(vault, {"a.md": "A.\n"})
    runs: list[Callable[[], Ended]] = [
        lambda: home.run("--vault", str(vault)),
        lambda: home.run("cursor", "--vault", str(vault)),
        lambda: home.run("--print", "--vault", str(vault)),
        lambda: home.run("cursor", "--yes", "--vault", str(vault)),
    ]
    for run in runs:
        ended = run()
        assert ended.code == 0
        assert "\x1b" not in ended.out + ended.err
        assert "\u202e" not in ended.out + ended.err
    assert home.entry("cursor")["args"][1] == str(vault)
