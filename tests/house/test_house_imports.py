"""The shape of the code: who may import whom, and what a module may be called."""

import subprocess
import sys
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "vaultmem"

# Names that say nothing, and so collect everything.
NOTHING_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    script = (
        "import sys; from importlinter.cli import lint_imports; "
        "sys.exit(lint_imports(no_cache=True, no_logo=True))"
    )
    return subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )


def test_every_import_contract_is_kept() -> None:
    ended = lint_imports(REPOSITORY)
    assert ended.returncode == 0, ended.stdout
    assert "Contracts: 5 kept, 0 broken." in ended.stdout


def test_a_broken_import_contract_is_noticed(tmp_path: Path) -> None:
    # The same contracts over a package in which a value reaches for the surfaces.
    pyproject = (REPOSITORY / "pyproject.toml").read_text("utf-8")
    (tmp_path / "pyproject.toml").write_text(pyproject, "utf-8")
    for file in PACKAGE.rglob("*.py"):
        copy = tmp_path / "vaultmem" / file.relative_to(PACKAGE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    with (tmp_path / "vaultmem/model/note.py").open("a") as note:
        note.write("\nimport vaultmem.surfaces.text  # noqa\n")
    ended = lint_imports(tmp_path)
    assert ended.returncode == 1
    assert "1 broken." in ended.stdout


def test_the_contracts_name_every_package_that_exists() -> None:
    # Exhaustive layers break on an undeclared package; the bans must not forget one either.
    config = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    (layers,) = [contract for contract in contracts if contract["type"] == "layers"]
    assert layers["exhaustive"] is True
    (driver,) = [c for c in contracts if c.get("forbidden_modules") == ["apsw", "sqlite3"]]
    banned = {name.partition(".")[2] for name in driver["source_modules"]}
    packages = {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").is_file()}
    assert packages - banned == {"index", "embedding"}


def test_no_module_is_named_for_nothing() -> None:
    named = {path.stem.lower() for path in PACKAGE.rglob("*")}
    assert named & NOTHING_NAMES == set()
    assert "application" in named, "the walk must have seen something"


def test_no_package_holds_a_file_that_is_no_source() -> None:
    # A model's vocabulary and the rules for secrets lie beside the code that reads them, each with
    # its licence.
    strange = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc") and path.name != "py.typed"
    ]
    data = "embedding/minilm-vocabulary/"
    rules = "security/rules/"
    kept = ("LICENSE.gitleaks", "README.md", "VERSION", "gitleaks.toml", "own.toml")
    assert sorted(strange) == [
        *(data + name for name in ("LICENSE", "vocab.txt")),
        *(rules + name for name in kept),
    ]
