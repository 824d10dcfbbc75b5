"""`vaultmem watch` where something is in its way: one line, the right code, and an end in time."""

import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import (
    MODULE,
    CommandLine,
    assert_one_line_error,
    obeying_permissions,
    on_notes,
    on_sample,
)
from ollama_server import Fault, OllamaServer
from watcher_process import DEADLINE_SECONDS, watched

NOTES = {"Gate.md": "The gate is green.\n", "Shed/Kiln.md": "The kiln is hot.\n"}
MINILM = {"VAULTMEM_EMBEDDER_NAME": "minilm"}

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")

# Much less than the work or the time-out that is not waited for.
SOON_SECONDS = 25.0


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    return on_notes(tmp_path, NOTES)


# Where it cannot begin


@pytest.mark.parametrize("there", [False, True], ids=["no folder yet", "a folder of its own"])
def test_a_cache_that_cannot_be_written_is_named_in_a_line(shell: CommandLine, there: bool) -> None:
    obey = obeying_permissions()
    if there:
        assert shell.run("index").code == 0
    shell.cache.mkdir(exist_ok=True)
    folders = [shell.cache, *(path for path in shell.cache.iterdir() if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        ended = shell.run("watch", preexec_fn=obey)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert_one_line_error(ended, 10, str(shell.cache), "--cache-dir")


def test_a_vault_that_is_not_there_is_named_in_a_line(shell: CommandLine) -> None:
    ended = shell.run("watch", "--vault", str(shell.vault / "gone"))
    assert_one_line_error(ended, 4, "gone")


def test_settings_that_cannot_be_used_at_the_start_are_named_in_a_line(shell: CommandLine) -> None:
    (shell.vault / ".vaultmem").mkdir()
    (shell.vault / ".vaultmem/config.toml").write_text("[scan\n")
    assert_one_line_error(shell.run("watch"), 3, "config.toml")


def test_an_index_by_other_rules_ends_it_with_a_line_that_says_so(shell: CommandLine) -> None:
    with watched(shell) as watcher:
        other = {"VAULTMEM_CHUNK_MAX_PIECES": "90"}
        assert shell.run("index", environment=other).code == 0
        (shell.vault / "Gate.md").write_text("The gate is a portcullis.\n")
        assert watcher.process.stderr is not None
        said = watcher.process.stderr.read()
        assert watcher.process.wait(DEADLINE_SECONDS) == 11
        assert said.count("\n") == 1
        assert "anew" in said
    assert shell.reply("status")["watching"] is False


def test_a_rebuild_by_the_same_rules_does_not(shell: CommandLine) -> None:
    with watched(shell) as watcher:
        assert shell.run("index", "--rebuild").code == 0
        (shell.vault / "Gate.md").write_text("The gate is a portcullis.\n")
        watcher.until(lambda: len(watcher.said("batch")) == 2)
        reply = shell.reply("search", "portcullis")
        assert (reply["degraded"], len(reply["hits"])) == ([], 1)
        assert watcher.stop() == (0, "")


# What it prints


def test_every_line_is_one_value_and_nothing_else_is_said_whatever_comes(
    shell: CommandLine, tmp_path: Path
) -> None:
    with watched(shell) as watcher:
        for n in range(40):
            folder = shell.vault / f"new {n}/deep/er/still"
            folder.mkdir(parents=True)
            (folder / "note.md").write_text(f"{n}\n")
        watcher.until(lambda: sum(b["notes"]["added"] for b in watcher.said("batch")) == 42)
        (shell.vault / "new 1").rename(tmp_path / "out")
        (shell.vault / ".vaultmem").mkdir()
        (shell.vault / ".vaultmem/config.toml").write_text("[scan\n")
        watcher.until(lambda: bool(watcher.said("settings")))
        (shell.vault / ".vaultmem/config.toml").unlink()
        shell.vault.rename(tmp_path / "elsewhere")
        watcher.until(lambda: bool(watcher.said("unreachable")))
        (tmp_path / "elsewhere").rename(shell.vault)
        watcher.until(lambda: bool(watcher.said("reachable")))
        # (A line that is no JSON object with an event ends the thread that reads them.)
        assert watcher.stop() == (0, "")
        assert watcher.events[0]["event"] == "started"
        assert watcher.events[-1] == {"event": "stopped"}


@posix_only
@pytest.mark.parametrize("lines", [1, 2])
def test_it_ends_without_a_word_when_its_reader_has_gone(shell: CommandLine, lines: int) -> None:
    """As in `vaultmem watch | head -1`; whoever of its threads speaks next."""
    with subprocess.Popen(
        [*MODULE, "watch"],
        cwd=shell.elsewhere,
        env=shell.environment(MINILM),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            for _ in range(lines):
                assert process.stdout.readline()
            process.stdout.close()
            until = time.monotonic() + DEADLINE_SECONDS
            n = 0
            while process.poll() is None and time.monotonic() < until:
                n += 1
                (shell.vault / "Gate.md").write_text(f"The gate is painted {n} times.\n")
                with suppress(subprocess.TimeoutExpired):
                    process.wait(1.0)
            assert (process.wait(1), process.stderr.read()) == (0, b"")
        finally:
            process.kill()


# Its end


@posix_only
def test_several_signals_are_one(shell: CommandLine) -> None:
    with watched(shell, environment=MINILM) as watcher:
        for _ in range(5):
            watcher.process.send_signal(signal.SIGTERM)
            watcher.process.send_signal(signal.SIGINT)
        assert watcher.stop() == (0, "")
        assert [event["event"] for event in watcher.events].count("stopped") == 1


@posix_only
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_it_in_the_middle_of_a_first_build_and_of_embedding(
    tmp_path: Path, name: str
) -> None:
    shell = on_sample(tmp_path)
    for n in range(400):
        text = f"# Note {n}\n\n" + "Words about kilns, clay and glaze. " * 60
        (shell.vault / f"n{n}.md").write_text(text)
    with subprocess.Popen(
        [*MODULE, "watch", "--json"],
        cwd=shell.elsewhere,
        env=shell.environment(MINILM),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert '"started"' in process.stdout.readline()
            began = time.monotonic()
            process.send_signal(getattr(signal, name))
            rest = process.stdout.read()
            assert (process.wait(DEADLINE_SECONDS), process.stderr.read()) == (0, "")
            assert time.monotonic() - began < SOON_SECONDS
            assert rest.endswith('{"event": "stopped"}\n'), rest
        finally:
            process.kill()
    with watched(shell, environment=MINILM) as watcher:
        watcher.until(lambda: bool(watcher.said("batch")))
        assert watcher.said("batch")[0]["notes"]["total"] == 475
        watcher.until(lambda: bool(list(shell.cache.rglob("embeddings.db"))))
        began = time.monotonic()
        watcher.process.send_signal(getattr(signal, name))
        assert watcher.stop() == (0, "")
        assert time.monotonic() - began < SOON_SECONDS


@posix_only
def test_a_model_server_that_hangs_does_not_keep_it_from_ending(shell: CommandLine) -> None:
    with OllamaServer() as server:
        environment = {
            "VAULTMEM_EMBEDDER_NAME": "ollama",
            "VAULTMEM_EMBEDDER_HOST": server.url,
            "VAULTMEM_EMBEDDER_TIMEOUT": "60",
        }
        server.faults["/api/embed"] = Fault.SLOW
        with watched(shell, environment=environment) as watcher:
            watcher.until(lambda: bool(server.asked("/api/embed")))
            began = time.monotonic()
            assert watcher.stop() == (0, "")
            assert time.monotonic() - began < SOON_SECONDS
    assert not list(shell.cache.rglob("watch.json*"))
