"""The wheel: what it holds, and that it works where nothing else of the project is."""

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "vaultmem"
SAMPLE = REPOSITORY / "sample_vault"
TEMPLATES = REPOSITORY / "templates"
CLIENT = {"name": "test", "version": "0"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the checkout, built with the build backend that is installed here."""
    folder = tmp_path_factory.mktemp("wheel")
    # fmt: off
    command = [
        sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
        "--wheel-dir", str(folder), str(REPOSITORY),
    ]
    # fmt: on
    built = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("vaultmem-*.whl")
    return path


@pytest.fixture(scope="module")
def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("folder", [SAMPLE, TEMPLATES], ids=lambda folder: str(folder.name))
def test_the_wheel_holds_every_shipped_file_byte_for_byte(
    contents: dict[str, bytes], folder: Path
) -> None:
    place = f"vaultmem/shipped/{folder.name}/"
    shipped = {
        name.removeprefix(place): data for name, data in contents.items() if name.startswith(place)
    }
    there = files_below(folder)
    assert sorted(shipped) == sorted(there)
    assert [name for name in there if shipped[name] != there[name]] == []
    assert there


def test_the_wheel_holds_every_module_and_says_that_it_is_typed(
    contents: dict[str, bytes],
) -> None:
    modules = {
        path.relative_to(REPOSITORY).as_posix() for path in REPOSITORY.glob("vaultmem/**/*.py")
    }
    assert modules - contents.keys() == set()
    assert contents["vaultmem/py.typed"] == b""


def test_the_wheel_holds_nothing_else(contents: dict[str, bytes]) -> None:
    tops = {name.partition("/")[0] for name in contents}
    (information,) = tops - {"vaultmem"}
    assert information.endswith(".dist-info")
    unwanted = re.compile(r"(^|/)(tests?|docs|__pycache__)/|(^|/)(test_\w*|conftest)\.py$|\.pyc$")
    assert [name for name in contents if unwanted.search(name)] == []
    assert f"{information}/licenses/LICENSE" in contents


def name_of(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def test_the_wheel_declares_what_pyproject_does(contents: dict[str, bytes]) -> None:
    (name,) = [name for name in contents if name.endswith(".dist-info/METADATA")]
    metadata = message_from_string(contents[name].decode("utf-8"))
    needed = [
        name_of(requirement)
        for requirement in metadata.get_all("Requires-Dist", [])
        if "extra ==" not in requirement
    ]
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    assert sorted(needed) == sorted(name_of(wanted) for wanted in project["dependencies"])
    assert len(needed) <= 13, "an install should stay small"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"


def test_an_installed_wheel_passes_the_demo_from_anywhere(wheel: Path, tmp_path: Path) -> None:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("VAULTMEM_", "PYTHON"))
    }

    def run(*command: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(part) for part in command],
            cwd=tmp_path,
            env=environment,
            input=given,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    # The one test that needs a package index: the wheel's dependencies come from there. Whatever
    # is wrong with the wheel itself still fails, since it is installed without the index.
    wheels = tmp_path / "wheels"
    fetched = run(
        sys.executable, "-m", "pip", "download", "--quiet", "--dest", wheels, "--only-binary",
        ":all:", "--no-build-isolation", wheel,
    )  # fmt: skip
    if fetched.returncode != 0:
        last = (fetched.stderr.strip().splitlines() or ["no reason given"])[-1]
        pytest.skip(f"the dependencies cannot be had from a package index: {last}")

    place = tmp_path / "environment"
    venv.create(place, with_pip=False)
    scripts = place / ("Scripts" if sys.platform == "win32" else "bin")
    python = scripts / ("python.exe" if sys.platform == "win32" else "python")
    installed = run(
        sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index",
        "--find-links", wheels, "vaultmem",
    )  # fmt: skip
    assert installed.returncode == 0, installed.stderr

    where = run(python, "-c", "import vaultmem; print(vaultmem.__file__)")
    assert Path(where.stdout.strip()).is_relative_to(place), "the checkout is not what is tested"

    demo = run(scripts / "vaultmem", "demo")
    assert (demo.returncode, demo.stderr) == (0, "")
    assert demo.stdout.count("  PASS  ") >= 5
    assert "FAIL" not in demo.stdout

    place_of = ("--vault", SAMPLE, "--cache-dir", tmp_path / "cache")
    found = run(scripts / "vaultmem", *place_of, "search", "-k", "1", "sourdogh")
    assert "Personal/Sourdough log.md" in found.stdout

    # Everything at once, and then the end of the input: each request is answered all the same.
    asked = [
        ("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}),
        ("tools/list", {}),
        ("tools/call", {"name": "search", "arguments": {"query": "sourdogh", "limit": 1}}),
    ]
    messages = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(asked)
    ]
    served = run(scripts / "vaultmem", *place_of, "mcp", given="\n".join([*messages, ""]))
    assert (served.returncode, served.stderr) == (0, "")
    answers = {answer["id"]: answer for answer in map(json.loads, served.stdout.splitlines())}
    assert answers[0]["result"]["serverInfo"]["name"] == "vaultmem"
    assert {"search", "read"} <= {tool["name"] for tool in answers[1]["result"]["tools"]}
    (hit,) = answers[2]["result"]["structuredContent"]["content"]["hits"]
    assert hit["path"] == "Personal/Sourdough log.md"
