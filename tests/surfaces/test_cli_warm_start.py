"""A command that is forked does what one does that is started, or the tests would show little."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import MODULE, VAULT_COMMANDS, CommandLine, on_sample
from warm_start import WarmProcess, may_start_warm, run_warm

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or "VAULTMEM_TESTS_COLD" in os.environ,
    reason="every command is started here",
)

COMMANDS = {
    **VAULT_COMMANDS,
    "JSON": ("search", "pooling", "--json"),
    "version": ("--version",),
    "help": ("--help",),
    "no such command": ("nonsense",),
    "no such note": ("read", "no such note"),
    "bytes that are no text": ("search", b"caf\xe9"),
    "no vault": ("status", "--vault", "/no/such/vault"),
}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    command_line = on_sample(tmp_path_factory.mktemp("warm"))
    assert command_line.run("index", python=MODULE).code == 0
    return command_line


def untimed(text: str) -> str:
    """A text without the seconds that something took."""
    return re.sub(r"\d+\.\d+ s\b", "some s", text)


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_forked_says_what_is_said_by_what_is_started(
    sample: CommandLine, name: str
) -> None:
    cold = sample.run(*COMMANDS[name], python=MODULE)
    warm = sample.run(*COMMANDS[name])
    assert (warm.code, untimed(warm.out), warm.err) == (cold.code, untimed(cold.out), cold.err)
    assert warm.out or warm.err


def test_it_is_a_process_with_a_folder_an_environment_and_streams_of_its_own(
    sample: CommandLine, tmp_path: Path
) -> None:
    environment = sample.environment({"VAULTMEM_SEARCH_LIMIT": "1", "VAULTMEM_VAULT": "here"})
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "a.md").write_text("kiln\n")
    (tmp_path / "here" / "b.md").write_text("kiln\n")
    with WarmProcess(
        ["search", "kiln"], cwd=tmp_path, environment=environment, encoding="utf-8"
    ) as process:
        assert process.pid != os.getpid()
        assert process.stdout is not None
        assert process.stdout.read().count(".md") == 1
        assert process.wait(60) == 0


def test_a_signal_ends_it_and_is_its_exit_code(sample: CommandLine) -> None:
    with WarmProcess(
        ["mcp"], cwd=sample.elsewhere, environment=sample.environment(), stdin=subprocess.PIPE
    ) as process:
        assert process.poll() is None
        process.kill()
        assert process.wait(60) == -signal.SIGKILL
        assert process.poll() == -signal.SIGKILL


def test_what_takes_too_long_is_ended(sample: CommandLine) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_warm(["watch"], cwd=sample.elsewhere, environment=sample.environment(), seconds=0.0)
    assert sample.run("status").code == 0


def test_what_steers_the_interpreter_needs_a_start(sample: CommandLine) -> None:
    assert may_start_warm(sample.environment())
    for name in ("PYTHONUTF8", "PYTHONWARNINGS", "LC_ALL", "LANG", "LD_PRELOAD"):
        assert not may_start_warm(sample.environment({name: "C"}))
    ended = sample.run("search", "x", python=(sys.executable, "-X", "importtime", "-m", "vaultmem"))
    assert "import time:" in ended.err
