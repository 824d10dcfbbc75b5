"""What the documents say is what there is."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from vaultmem.model.errors import VaultmemError, all_errors

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "vaultmem"
README = (REPOSITORY / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
ERRORS: list[type[VaultmemError]] = [*all_errors(), VaultmemError]
SHELL = [line for language, block in BLOCKS if language == "sh" for line in block.splitlines()]


def vaultmem(
    *arguments: str, cache: Path, embedder: str = "auto"
) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("VAULTMEM_")}
    chosen = {"VAULTMEM_CACHE_DIR": str(cache), "VAULTMEM_EMBEDDER_NAME": embedder}
    return subprocess.run(
        [sys.executable, "-m", "vaultmem", *arguments],
        env=environment | chosen,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


# README


@pytest.mark.parametrize("last", ["vaultmem demo", "-m pytest"])
def test_readme_has_one_command_that_sets_everything_up_and_runs(last: str) -> None:
    commands = [line for line in SHELL if line.endswith(last)]
    assert len(commands) == 1
    steps = commands[0].split(" && ")
    assert "-m venv" in steps[0]
    assert "pip install" in steps[1]
    assert len(steps) == 3


def readme_calls() -> list[str]:
    return [line for line in SHELL if line.startswith("vaultmem ")]


def test_readme_shows_vaultmem_in_use() -> None:
    assert len(readme_calls()) >= 3


@pytest.mark.parametrize("line", readme_calls())
def test_every_command_of_the_readme_works(line: str, tmp_path: Path) -> None:
    arguments = [
        str(REPOSITORY / "sample_vault") if part.startswith("~/") else part
        for part in shlex.split(line, comments=True)[1:]
    ]
    # By words only: embedding the whole sample vault for each line would take minutes.
    ended = vaultmem(*arguments, cache=tmp_path, embedder="none")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.strip()


def test_readme_shows_the_demo_as_it_runs(tmp_path: Path) -> None:
    def steps(text: str) -> list[str]:
        return [
            re.sub(r"\d+\.\d+ s", "N s", line).rstrip()
            for line in text.splitlines()
            if line.startswith(("vaultmem on", "  PASS", "  FAIL"))
        ]

    (shown,) = [block for _, block in BLOCKS if "PASS" in block]
    assert steps(shown) == steps(vaultmem("demo", cache=tmp_path).stdout)


def test_readme_names_every_command(tmp_path: Path) -> None:
    helped = vaultmem("--help", cache=tmp_path).stdout
    commands = re.findall(r"^    (\w+)  ", helped, re.MULTILINE)
    assert len(commands) >= 10
    assert [name for name in commands if f"`{name}`" not in README] == []


@pytest.mark.parametrize("page", ["README.md", *sorted(os.listdir(REPOSITORY / "docs"))])
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    path = REPOSITORY / page if page == "README.md" else REPOSITORY / "docs" / page
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", path.read_text("utf-8"), flags=re.M | re.S)
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    dead = [t for t in targets if "://" not in t and not (path.parent / t).exists()]
    assert dead == []


# Exit codes


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: str(kind.code))
def test_each_kind_of_error_has_its_row_in_exit_codes(kind: type[VaultmemError]) -> None:
    page = (REPOSITORY / "docs/exit-codes.md").read_text("utf-8")
    assert f"| {kind.exit_code} | {kind.code} | {kind.http_status} |" in page


def test_exit_codes_lists_no_kind_that_there_is_not() -> None:
    page = (REPOSITORY / "docs/exit-codes.md").read_text("utf-8")
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    known = {kind.exit_code for kind in ERRORS}
    assert listed == known | {0, 1, 130}


# Architecture


def code_map() -> str:
    page = (REPOSITORY / "docs/architecture.md").read_text("utf-8")
    found = re.search(r"^```\n(vaultmem/\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_architecture_names_every_package_and_no_other() -> None:
    packages = {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").is_file()}
    assert set(re.findall(r"^  (\w+)/", code_map(), re.MULTILINE)) == packages


def test_architecture_names_no_module_that_there_is_not() -> None:
    modules = {path.name for path in PACKAGE.rglob("*.py")}
    named = set(re.findall(r"\b(\w+\.py)\b", code_map()))
    assert named
    assert named - modules == set()


def test_no_text_of_the_project_speaks_of_the_machine_it_was_written_on() -> None:
    pages = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    sources = sorted(PACKAGE.rglob("*.py"))
    absolute = re.compile(r"(?<![\w.~/])/(home|Users|root)/\w+")
    assert [str(p) for p in (*pages, *sources) if absolute.search(p.read_text("utf-8"))] == []
