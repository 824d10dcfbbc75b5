"""What a command must not load: start-up time is paid at every call."""

import re
import sys
from pathlib import Path

import pytest
from command_line import CommandLine, on_sample

TIMED = (sys.executable, "-X", "importtime", "-m", "vaultmem")
HEAVY = {"mcp", "numpy", "networkx", "ollama", "apsw", "markdown_it", "yaml", "frontmatter"}
PARSING = {"markdown_it", "yaml", "frontmatter", "numpy"}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    command_line = on_sample(tmp_path_factory.mktemp("imports"))
    assert command_line.run("index").code == 0
    return command_line


def imported(command_line: CommandLine, *arguments: str) -> set[str]:
    """The top-level packages a command loads."""
    ended = command_line.run(*arguments, python=TIMED)
    assert ended.code == 0
    names = re.findall(r"^import time:.*\| +(\S+)$", ended.err, re.MULTILINE)
    assert "vaultmem" in names
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_load_nothing_heavy(sample: CommandLine, option: str) -> None:
    assert imported(sample, option) & HEAVY == set()


def test_version_loads_not_even_the_argument_parser(sample: CommandLine) -> None:
    assert imported(sample, "--version") & {"argparse", "json", "dataclasses", "pathlib"} == set()


@pytest.mark.parametrize(
    "arguments",
    [("search", "sourdough"), ("search", "sourdogh", "--json"), ("status",), ("config",)],
    ids=" ".join,
)
def test_a_question_to_a_fresh_index_parses_nothing(
    sample: CommandLine, arguments: tuple[str, ...]
) -> None:
    assert imported(sample, *arguments) & PARSING == set()


def test_the_measurement_sees_what_indexing_loads(tmp_path: Path) -> None:
    assert {"apsw", "markdown_it", "yaml"} <= imported(on_sample(tmp_path), "index")
