"""Exit codes: one per kind of error, the same in the code, the help and the documentation."""

import re
from pathlib import Path

import pytest
from command_line import REPOSITORY, CommandLine, on_notes, on_sample

from vaultmem.model import errors
from vaultmem.model.errors import VaultmemError, all_errors

DONE, FOUND_PROBLEMS, INTERRUPTED = 0, 1, 130


@pytest.fixture(scope="module")
def help_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    command_line = on_notes(tmp_path_factory.mktemp("codes"), {"a.md": "A.\n"})
    return command_line.run("--help").out


def test_the_list_of_errors_holds_every_one_there_is() -> None:
    defined = {
        kind
        for kind in vars(errors).values()
        # A special case of a kind has its code.
        if isinstance(kind, type) and VaultmemError in kind.__bases__
    }
    assert set(all_errors()) == defined


def test_no_two_kinds_of_error_share_an_exit_code_or_a_name() -> None:
    kinds: list[type[VaultmemError]] = [*all_errors(), VaultmemError]
    codes = [kind.exit_code for kind in kinds]
    names = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)
    assert len(set(names)) == len(names)
    assert not set(codes) & {DONE, FOUND_PROBLEMS, INTERRUPTED}
    assert all(0 < code < 126 for code in codes), "shells use the codes from 126 on themselves"


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.code)
def test_help_lists_every_kind_of_error(help_text: str, kind: type[VaultmemError]) -> None:
    listed = re.search(rf"^ +{kind.exit_code}  {kind.code}: (.+)$", help_text, re.MULTILINE)
    assert listed is not None
    assert listed[1] == (kind.__doc__ or "").splitlines()[0]


@pytest.mark.parametrize("code", [DONE, FOUND_PROBLEMS, INTERRUPTED])
def test_help_lists_the_codes_that_are_no_errors(help_text: str, code: int) -> None:
    assert re.search(rf"^ +{code}  \w+", help_text, re.MULTILINE)


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.code)
def test_the_documentation_lists_every_kind_of_error(kind: type[VaultmemError]) -> None:
    page = (REPOSITORY / "docs/exit-codes.md").read_text("utf-8")
    lines = [line for line in page.splitlines() if re.search(rf"\b{kind.exit_code}\b", line)]
    assert any(kind.code in line for line in lines)


@pytest.mark.parametrize("code", [DONE, FOUND_PROBLEMS, INTERRUPTED])
def test_the_documentation_lists_the_codes_that_are_no_errors(code: int) -> None:
    page = (REPOSITORY / "docs/exit-codes.md").read_text("utf-8")
    assert re.search(rf"\b{code}\b", page)


# lint and doctor are asked to find problems, and say by their code whether they did


CLEAN = {"Quay.md": "Berths, see [[Crane]].\n", "Crane.md": "Lifts at the [[Quay]].\n"}


def test_lint_ends_with_0_when_nothing_is_amiss(tmp_path: Path) -> None:
    command_line = on_notes(tmp_path, CLEAN)
    ended = command_line.run("lint")
    assert (ended.code, ended.err) == (DONE, "")
    reply = command_line.reply("lint")
    assert [reply[key] for key in ("unresolved", "ambiguous", "orphans", "problems")] == [[]] * 4


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("Dead.md", "To [[Nowhere]] and [[Quay]].\n", "unresolved"),
        ("Old/Quay.md", "Another one, near [[Crane]].\n", "ambiguous"),
        ("Broken.md", "---\na: [\n---\nNear the [[Quay]].\n", "problems"),
    ],
)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_lint_ends_with_1_when_something_is(
    tmp_path: Path, path: str, text: str, kind: str, form: tuple[str, ...]
) -> None:
    command_line = on_notes(tmp_path, {**CLEAN, path: text})
    assert command_line.run("lint", *form).code == FOUND_PROBLEMS
    reply = command_line.reply("lint")
    assert [key for key in ("unresolved", "ambiguous", "problems") if reply[key]] == [kind]


def test_an_orphan_is_listed_and_is_no_problem(tmp_path: Path) -> None:
    command_line = on_notes(tmp_path, {**CLEAN, "Alone.md": "No link at all.\n"})
    assert command_line.reply("lint")["orphans"] == [{"path": "Alone.md", "line": 1}]
    assert command_line.run("lint").code == DONE


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_doctor_ends_with_0_right_after_a_healthy_vault_was_indexed(
    tmp_path: Path, form: tuple[str, ...]
) -> None:
    command_line = on_notes(tmp_path, CLEAN)
    command_line.run("index")
    ended = command_line.run("doctor", *form)
    assert "FAIL" not in ended.out
    assert ended.code == DONE


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_doctor_ends_with_1_when_nothing_is_indexed(tmp_path: Path, form: tuple[str, ...]) -> None:
    command_line = on_notes(tmp_path, CLEAN)
    ended = command_line.run("doctor", *form)
    assert (ended.code, ended.err) == (FOUND_PROBLEMS, "")


def failed(command_line: CommandLine) -> list[str]:
    """The checks that fail; doctor must end with 1 for them."""
    ended = command_line.run("doctor", "--json")
    assert ended.code == FOUND_PROBLEMS, ended
    return [check["id"] for check in ended.json()["checks"] if not check["ok"]]


def test_doctor_sees_a_note_with_a_problem(tmp_path: Path) -> None:
    command_line = on_sample(tmp_path)
    command_line.run("index")
    assert "problems" in failed(command_line)


def test_doctor_sees_an_index_that_is_behind(tmp_path: Path) -> None:
    command_line = on_notes(tmp_path, CLEAN)
    command_line.run("index")
    (command_line.vault / "New.md").write_text("New.\n")
    assert "fresh" in failed(command_line)


def test_doctor_sees_a_vault_without_notes(tmp_path: Path) -> None:
    assert "vault" in failed(on_notes(tmp_path, {}))


def test_doctor_sees_a_cache_folder_it_cannot_use(tmp_path: Path) -> None:
    command_line = on_notes(tmp_path, CLEAN)
    command_line.cache.write_text("a file\n")
    assert "cache-folder" in failed(command_line)


def test_doctor_sees_a_cache_folder_inside_the_vault(tmp_path: Path) -> None:
    command_line = on_notes(tmp_path, CLEAN)
    command_line.cache = command_line.vault / "cache"
    command_line.run("index")
    assert "cache-folder" in failed(command_line)


def test_doctor_reports_a_damaged_sidecar_among_its_checks(tmp_path: Path) -> None:
    # Whoever asks the doctor has a damaged sidecar already; an error in its place helps nobody.
    command_line = on_sample(tmp_path)
    command_line.run("index")
    (sidecar,) = command_line.cache.rglob("index.db")
    whole = sidecar.read_bytes()
    sidecar.write_bytes(whole[: 2 * 8192] + b"\xee" * (len(whole) - 2 * 8192))
    assert "sidecar" in failed(command_line)


def test_status_and_doctor_agree_on_what_is_fresh(tmp_path: Path) -> None:
    command_line = on_notes(tmp_path, CLEAN)
    command_line.run("index")
    checks = {check["id"]: check["ok"] for check in command_line.reply("doctor")["checks"]}
    assert command_line.reply("status")["fresh"] == checks["fresh"]
