"""The watcher in the background: what would be written, and what installing and removing do."""

import os
import plistlib
import shlex
import shutil
import stat
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from vaultmem.model.errors import Refused, SettingsInvalid, StateUnavailable, UsageError
from vaultmem.service import background
from vaultmem.service.background import (
    MARKER,
    NO_ANSWER,
    NOT_STARTED,
    BackgroundKind,
    BackgroundPlan,
    Presence,
    install_background,
    plan_background,
    remove_background,
    run_command,
    shown,
)
from vaultmem.service.settings import load_settings

HOSTILE = [
    "two  words",
    "tail ",
    'say "hi" it\'s',
    "100% %h %%n",
    "$HOME ${HOME} $$x",
    "Größe",
    "日本語 ノート",
    "a & b <c> ]]>",
    "-dash",
    "back\\slash\\",
    "semi ; colon",
    "#hash",
    "x\\x41y",
    "*?[g]",
    "\u2028line",
    "--",
]
WINDOWS_USER = {"USERNAME": "Mara", "USERDOMAIN": "DESK & CO"}
TASK = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"

posix = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows takes neither such names nor scripts of the shell"
)

# Stands in for systemctl: writes down what it is asked, links what it enables, and fails when told.
SYSTEMCTL = """\
#!/bin/sh
printf '%s\\n' "$*" >> "$RECORD"
if [ -f "$RECORD.failure" ]; then cat "$RECORD.failure" >&2; exit 5; fi
wanted="$UNITS/default.target.wants"
case "$2" in
enable)
    [ -f "$UNITS/$3" ] || { echo "no unit $3" >&2; exit 1; }
    mkdir -p "$wanted" && ln -sf "$UNITS/$3" "$wanted/$3" ;;
disable) rm -f "$wanted/$4" ;;
esac
"""


@dataclass(frozen=True)
class Computer:
    """A home folder, vaults, and a systemctl of its own."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def units(self) -> Path:
        return self.home / ".config" / "systemd" / "user"

    @property
    def record(self) -> Path:
        return self.folder / "record"

    def plan(
        self,
        platform: str = "linux",
        *,
        name: str = "Notes",
        cache_dir: Path | None = None,
        environment: Mapping[str, str] | None = None,
        python: str = sys.executable,
    ) -> BackgroundPlan:
        vault = self.folder / "vaults" / name
        vault.mkdir(parents=True, exist_ok=True)
        environment = {
            "VAULTMEM_STATE_DIR": str(self.folder / "state"),
            **(WINDOWS_USER if platform == "win32" else {}),
            **(environment or {}),
        }
        return plan_background(
            load_settings(vault, cache_dir, environment=environment),
            platform=platform,
            home=self.home,
            environment=environment,
            python=python,
        )

    def run(self, argv: Sequence[str]) -> tuple[int, str]:
        """What `run_command` does, with our systemctl first on PATH."""
        environment = {
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "RECORD": str(self.record),
            "UNITS": str(self.units),
        }
        ended = subprocess.run(
            list(argv), env=environment, capture_output=True, text=True, check=False
        )
        return ended.returncode, ended.stderr

    def asked(self) -> list[str]:
        """What systemctl was asked since the last call."""
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        self.record.unlink(missing_ok=True)
        return lines

    def fails_with(self, said: str) -> None:
        Path(f"{self.record}.failure").write_text(said)

    def tree(self) -> dict[str, tuple[object, ...]]:
        """Everything below the home folder: bytes or link, permissions, inode and time."""
        seen: dict[str, tuple[object, ...]] = {}
        for path in sorted(self.home.rglob("*")):
            state = path.lstat()
            content: object = ""
            if stat.S_ISLNK(state.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(state.st_mode):
                content = path.read_bytes()
            times = (state.st_ino, state.st_mtime_ns) if path.is_file() else ()
            seen[str(path.relative_to(self.home))] = (content, state.st_mode, *times)
        return seen


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    tmp_path = tmp_path.resolve()
    (tmp_path / "home").mkdir()
    systemctl = tmp_path / "bin" / "systemctl"
    systemctl.parent.mkdir()
    systemctl.write_text(SYSTEMCTL)
    systemctl.chmod(0o755)
    return Computer(tmp_path)


def lines_of(plan: BackgroundPlan, key: str) -> list[str]:
    """The values of a key of a unit."""
    lines = plan.text.split("\n")
    return [line.partition("=")[2] for line in lines if line.startswith(f"{key}=")]


def words(line: str, *, command: bool) -> list[str]:
    """A line of a unit as systemd takes it apart; the quotes it is written with are a shell's."""
    found = shlex.split(line)
    assert not any("%" in part.replace("%%", "") for part in found), "systemd would replace it"
    found = [part.replace("%%", "%") for part in found]
    return [part.replace("$$", "$") for part in found] if command else found


# Any of the three


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_planning_writes_and_runs_nothing(computer: Computer, platform: str) -> None:
    before = computer.tree()
    plan = computer.plan(platform)
    assert plan.present is Presence.ABSENT
    assert computer.tree() == before
    assert not (computer.folder / "state").exists()
    assert computer.asked() == []


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_two_vaults_of_one_name_have_two_services(computer: Computer, platform: str) -> None:
    one, other = (computer.plan(platform, name=name) for name in ("a/Notes", "b/Notes"))
    assert one.name != other.name
    assert one.path != other.path
    assert one.name.startswith("vaultmem-watch-Notes-")
    assert computer.plan(platform, name="a/Notes") == one


@posix
@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_service_has_a_name_that_is_safe_anywhere(
    computer: Computer, name: str, platform: str
) -> None:
    plan = computer.plan(platform, name=name)
    assert plan.name.isascii()
    assert set(plan.name) - set("-_.") <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    )
    assert "--" not in plan.name
    assert plan.path.name.startswith("vaultmem-watch-")


def test_a_service_is_named_after_the_vault_as_far_as_ascii_goes(computer: Computer) -> None:
    assert computer.plan(name="Große Notizen é").name.startswith("vaultmem-watch-Groe-Notizen-e-")


@posix
@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
@pytest.mark.parametrize(
    "name", ["two\nlines", "tab\there", "red\x1b[31m", "\x85", "not utf-8 \udcff"]
)
def test_a_vault_whose_name_no_service_file_holds_is_refused(
    computer: Computer, name: str, platform: str
) -> None:
    try:
        (computer.folder / "vaults" / name).mkdir(parents=True)
    except OSError:
        pytest.skip("this file system takes no such name")
    with pytest.raises(Refused, match="cannot hold") as caught:
        computer.plan(platform, name=name)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_a_variable_that_no_service_file_holds_is_refused(
    computer: Computer, platform: str
) -> None:
    with pytest.raises(Refused, match="VAULTMEM_SCAN_IGNORE"):
        computer.plan(platform, environment={"VAULTMEM_SCAN_IGNORE": "a\nExecStart=/bin/evil"})


def test_a_system_without_a_manager_we_know_is_told_so(computer: Computer) -> None:
    with pytest.raises(UsageError, match="freebsd14"):
        computer.plan("freebsd14")


def test_an_interpreter_that_does_not_know_its_path_is_told_so(computer: Computer) -> None:
    with pytest.raises(UsageError, match="Python"):
        computer.plan(python="")


def test_no_service_file_is_written_into_a_vault(computer: Computer) -> None:
    environment = {"XDG_CONFIG_HOME": str(computer.folder / "vaults" / "Notes" / "config")}
    with pytest.raises(Refused, match="inside the vault"):
        computer.plan(environment=environment)


def test_the_cache_is_named_only_where_it_was_chosen(computer: Computer) -> None:
    chosen = computer.folder / "chosen"
    by_flag = computer.plan(cache_dir=chosen)
    by_variable = computer.plan(environment={"VAULTMEM_CACHE_DIR": str(chosen)})
    by_default = computer.plan()
    assert by_flag.text == by_variable.text
    assert words(lines_of(by_flag, "ExecStart")[0], command=True)[-3:] == [
        "--cache-dir",
        str(chosen),
        "watch",
    ]
    assert "--cache-dir" not in by_default.text


# systemd


def test_a_unit_starts_the_watcher_at_login_and_lets_everything_else_go_first(
    computer: Computer,
) -> None:
    plan = computer.plan()
    assert plan.kind is BackgroundKind.SYSTEMD
    assert plan.path == computer.units / plan.name
    assert plan.name.endswith(".service")
    assert plan.marker in plan.text.splitlines()
    vault = str(computer.folder / "vaults" / "Notes")
    assert words(lines_of(plan, "ExecStart")[0], command=True) == [
        *(sys.executable, "-P", "-m", "vaultmem", "--vault", vault, "watch"),
    ]
    expected = {
        "Type": "exec",
        "Restart": "on-failure",
        "RestartSec": "60",
        "KillSignal": "SIGTERM",
        "Nice": "10",
        "IOSchedulingClass": "idle",
        "CPUWeight": "20",
        "WantedBy": "default.target",
    }
    assert {key: lines_of(plan, key) for key in expected} == {k: [v] for k, v in expected.items()}


@posix
@pytest.mark.parametrize("name", HOSTILE)
def test_a_unit_holds_any_name_of_a_vault(computer: Computer, name: str) -> None:
    cache = computer.folder / f"cache {name}"
    plan = computer.plan(name=name, cache_dir=cache, environment={"VAULTMEM_X": name})
    vault = str(computer.folder / "vaults" / name)
    (command,) = lines_of(plan, "ExecStart")
    assert words(command, command=True)[4:] == [
        "--vault",
        vault,
        "--cache-dir",
        str(cache),
        "watch",
    ]
    carried = [words(line, command=False) for line in lines_of(plan, "Environment")]
    assert [f"VAULTMEM_X={name}"] in carried
    (description,) = lines_of(plan, "Description")
    assert "%" not in description.replace("%%", "")
    assert description.replace("%%", "%") == f"vaultmem: the index of {name} kept up to date"
    # No line of a unit may end in a backslash: it would take the next one along.
    assert not any(line.endswith("\\") for line in plan.text.split("\n"))


@posix
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_itself_finds_nothing_amiss_in_the_units(computer: Computer) -> None:
    paths: list[str] = []
    python = computer.folder / 'it\'s "mine" $HOME 100% b\\s' / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    for name in HOSTILE:
        for program in (sys.executable, str(python)):
            plan = computer.plan(name=name, environment={"VAULTMEM_X": name}, python=program)
            # Two programs, one vault, one name: verify wants two.
            plan = replace(plan, path=plan.path.with_name(f"{len(paths)}-{plan.name}"))
            assert install_background(plan, computer.run).changed
            paths.append(str(plan.path))
    ended = subprocess.run(
        ["systemd-analyze", "--user", "verify", *paths],
        env={**os.environ, "HOME": str(computer.home), "XDG_RUNTIME_DIR": str(computer.folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert len(paths) == 2 * len(HOSTILE)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_the_variables_that_vaultmem_reads_are_carried_over(computer: Computer) -> None:
    plan = computer.plan(
        environment={
            "VAULTMEM_VAULT": "../elsewhere",
            "VAULTMEM_CACHE_DIR": str(computer.folder / "cache"),
            "VAULTMEM_STATE_DIR": os.path.relpath(computer.folder / "state"),
            "VAULTMEM_EMBEDDER_MODEL_PATH": "models/weights.onnx",
            "VAULTMEM_EMBEDDER_HOST": "",
            "VAULTMEM_SEARCH_LIMIT": "7",
            "XDG_CACHE_HOME": str(computer.folder / "x cache"),
            "XDG_STATE_HOME": "not/absolute",
            "OLLAMA_HOST": "10.0.0.7",
            "LANG": "C",
            "VAULTMEM_": "no setting",
        }
    )
    assert [words(line, command=False) for line in lines_of(plan, "Environment")] == [
        ["OLLAMA_HOST=10.0.0.7"],
        ["VAULTMEM_EMBEDDER_HOST="],
        [f"VAULTMEM_EMBEDDER_MODEL_PATH={Path.cwd() / 'models' / 'weights.onnx'}"],
        ["VAULTMEM_SEARCH_LIMIT=7"],
        [f"VAULTMEM_STATE_DIR={computer.folder / 'state'}"],
        [f"XDG_CACHE_HOME={computer.folder / 'x cache'}"],
    ]


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_key_of_a_server_is_not_written_down(computer: Computer, platform: str) -> None:
    key = "never-to-be-" + "seen"
    ollama = {"VAULTMEM_EMBEDDER_NAME": "ollama", "OLLAMA_API_KEY": key}
    plan = computer.plan(platform, environment=ollama)
    assert key not in plan.text
    assert "OLLAMA_API_KEY" in plan.notes[-1]
    assert key not in "".join(plan.notes)
    assert not any("OLLAMA_API_KEY" in note for note in computer.plan(platform).notes)


def test_units_lie_where_xdg_says_if_it_says_a_whole_path(computer: Computer) -> None:
    config = computer.folder / "config"
    plan = computer.plan(environment={"XDG_CONFIG_HOME": str(config)})
    assert plan.path.parent == config / "systemd" / "user"
    plan = computer.plan(environment={"XDG_CONFIG_HOME": "config"})
    assert plan.path.parent == computer.units


@posix
@pytest.mark.parametrize("folder", ["it's mine", 'say "hi"', "$HOME", "back\\slash"])
def test_a_program_that_systemd_would_not_start_by_its_path_is_started_by_env(
    computer: Computer, folder: str
) -> None:
    plan = computer.plan(python=f"/opt/{folder}/bin/python")
    started = words(lines_of(plan, "ExecStart")[0], command=True)
    assert started[:3] == ["/usr/bin/env", f"/opt/{folder}/bin/python", "-P"]
    with pytest.raises(Refused, match="systemd cannot start"):
        computer.plan(python=f"/opt/{folder}=/bin/python")


@posix
def test_an_interpreter_keeps_its_name_though_it_is_a_link(computer: Computer) -> None:
    python = computer.folder / "100% venv" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    plan = computer.plan(python=str(python))
    assert words(lines_of(plan, "ExecStart")[0], command=True)[0] == str(python)


# Installing and removing


@posix
def test_installing_writes_the_file_and_starts_the_watcher(computer: Computer) -> None:
    plan = computer.plan()
    reply = install_background(plan, computer.run)
    assert (reply.done, reply.changed, reply.problem) == (True, True, "")
    assert plan.path.read_text("utf-8") == plan.text
    assert stat.S_IMODE(plan.path.stat().st_mode) == 0o600
    assert computer.asked() == [
        "--user daemon-reload",
        f"--user enable {plan.name}",
        f"--user restart {plan.name}",
    ]
    assert computer.plan().present is Presence.CURRENT
    # Nothing beside it: no half-written file is left.
    assert {path.name for path in computer.units.iterdir()} == {plan.name, "default.target.wants"}


@posix
def test_installing_twice_equals_installing_once(computer: Computer) -> None:
    install_background(computer.plan(), computer.run)
    once, asked = computer.tree(), computer.asked()
    reply = install_background(computer.plan(), computer.run)
    assert (reply.done, reply.changed) == (True, False)
    assert {**computer.tree(), **enabled(once)} == once
    assert computer.asked() == asked


def enabled(tree: Mapping[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    """The link that systemctl makes anew each time."""
    return {path: state for path, state in tree.items() if "default.target.wants/" in path}


@posix
def test_an_older_file_of_ours_is_replaced(computer: Computer) -> None:
    install_background(computer.plan(), computer.run)
    plan = computer.plan(environment={"VAULTMEM_SEARCH_LIMIT": "7"})
    assert plan.present is Presence.OUTDATED
    assert install_background(plan, computer.run).changed
    assert plan.path.read_text("utf-8") == plan.text


def a_file(path: Path) -> None:
    path.write_text("[Service]\nExecStart=/usr/bin/true\n# Made by hand\n")


def a_big_file(path: Path) -> None:
    path.write_text(f"# {MARKER}\n" + "# and more\n" * 200_000)


def a_link_to_a_file(path: Path) -> None:
    a_file(path.with_name("target"))
    path.symlink_to("target")


def a_mask(path: Path) -> None:
    path.symlink_to("/dev/null")


def a_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def a_folder(path: Path) -> None:
    path.mkdir()


def a_pipe(path: Path) -> None:
    if sys.platform != "win32":
        os.mkfifo(path)


@posix
@pytest.mark.parametrize(
    "make",
    [a_file, a_big_file, a_link_to_a_file, a_mask, a_dangling_link, a_folder, a_pipe],
)
@pytest.mark.parametrize("act", [install_background, remove_background])
def test_what_is_not_ours_is_left_alone(
    computer: Computer, make: Callable[[Path], None], act: Callable[..., object]
) -> None:
    plan = computer.plan()
    plan.path.parent.mkdir(parents=True)
    make(plan.path)
    before = computer.tree()
    assert computer.plan().present is Presence.FOREIGN
    with pytest.raises(Refused, match="Nothing was"):
        act(plan, computer.run)
    assert computer.tree() == before
    assert computer.asked() == []


@posix
def test_a_link_to_a_file_of_ours_is_not_followed(computer: Computer) -> None:
    plan = computer.plan()
    install_background(plan, computer.run)
    plan.path.rename(plan.path.with_name("elsewhere"))
    plan.path.symlink_to("elsewhere")
    changed = computer.plan(environment={"VAULTMEM_SEARCH_LIMIT": "7"})
    with pytest.raises(Refused, match="is a link"):
        install_background(changed, computer.run)
    assert plan.path.read_text("utf-8") == plan.text


@posix
def test_a_command_that_fails_leaves_the_file_and_says_what_to_do(computer: Computer) -> None:
    plan = computer.plan()
    computer.fails_with("\nFailed to connect to bus: No medium found.\nand more\n")
    pauses: list[float] = []
    reply = install_background(plan, computer.run, pause=pauses.append)
    assert (reply.done, reply.changed, pauses) == (False, True, [])
    assert "`systemctl --user daemon-reload` failed with exit code 5" in reply.problem
    assert "Failed to connect to bus: No medium found." in reply.problem
    assert "and more" not in reply.problem
    assert reply.problem.endswith(
        f"By hand: `systemctl --user daemon-reload`, then `systemctl --user enable {plan.name}`, "
        f"then `systemctl --user restart {plan.name}`."
    )
    assert computer.asked() == ["--user daemon-reload"]
    assert plan.path.read_text("utf-8") == plan.text


@posix
def test_a_system_without_systemctl_is_told_so(
    computer: Computer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(computer.home))
    plan = computer.plan()
    reply = install_background(plan)
    assert not reply.done
    assert "systemctl cannot be started: No such file or directory." in reply.problem
    assert plan.path.exists()
    reply = remove_background(plan)
    assert (reply.done, reply.changed) == (False, True)
    assert not plan.path.exists()
    assert remove_background(plan).done


@posix
def test_commands_are_run_for_what_they_end_with(
    computer: Computer, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = computer.folder / "program"
    program.write_text("#!/bin/sh\necho out; echo err >&2; exit 3\n")
    program.chmod(0o755)
    assert run_command((str(program),)) == (3, "err\n")
    assert run_command((str(computer.folder / "nothing"),))[0] == NOT_STARTED
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(background, "COMMAND_SECONDS", 0.1)
    assert run_command((str(program),))[0] == NO_ANSWER


@posix
def test_removing_stops_the_watcher_and_leaves_nothing(computer: Computer) -> None:
    plan = computer.plan()
    install_background(plan, computer.run)
    computer.asked()
    reply = remove_background(plan, computer.run)
    assert (reply.done, reply.changed) == (True, True)
    assert computer.asked() == [f"--user disable --now {plan.name}", "--user daemon-reload"]
    assert [path for path in computer.home.rglob("*") if not path.is_dir()] == []
    again = remove_background(computer.plan(), computer.run)
    assert (again.done, again.changed) == (True, False)
    assert computer.asked() == []


@posix
def test_a_watcher_that_cannot_be_stopped_is_not_started_again(computer: Computer) -> None:
    plan = computer.plan()
    install_background(plan, computer.run)
    computer.fails_with("Failed to connect to bus\n")
    reply = remove_background(plan, computer.run)
    assert (reply.done, reply.changed) == (False, True)
    assert "Failed to connect to bus" in reply.problem
    assert f"By hand: `systemctl --user stop {plan.name}`" in reply.problem
    assert [path for path in computer.home.rglob("*") if not path.is_dir()] == []


@posix
def test_a_manager_that_does_not_look_again_is_a_problem(computer: Computer) -> None:
    plan = computer.plan()
    install_background(plan, computer.run)

    def run(argv: Sequence[str]) -> tuple[int, str]:
        return (1, "Reload refused\n") if "daemon-reload" in argv else computer.run(argv)

    reply = remove_background(plan, run)
    assert (reply.done, reply.changed) == (False, True)
    assert "`systemctl --user daemon-reload` failed with exit code 1: Reload" in reply.problem
    assert not plan.path.exists()


@posix
def test_a_unit_whose_file_was_deleted_by_hand_is_removed_all_the_same(computer: Computer) -> None:
    plan = computer.plan()
    install_background(plan, computer.run)
    computer.asked()
    plan.path.unlink()
    assert remove_background(plan, computer.run).done
    assert computer.asked() == [f"--user disable --now {plan.name}", "--user daemon-reload"]
    assert [path for path in computer.home.rglob("*") if not path.is_dir()] == []


@posix
def test_a_folder_that_cannot_be_made_is_named(computer: Computer) -> None:
    (computer.home / ".config").write_text("a file")
    plan = computer.plan()
    assert plan.present is Presence.ABSENT
    with pytest.raises(StateUnavailable, match="systemd"):
        install_background(plan, computer.run)
    assert computer.asked() == []
    assert remove_background(plan, computer.run).done


# launchd


def agent(plan: BackgroundPlan) -> dict[str, object]:
    found = plistlib.loads(plan.text.encode(plan.encoding))
    assert isinstance(found, dict)
    return found


@posix
@pytest.mark.parametrize("name", ["Notes", *HOSTILE])
def test_an_agent_starts_the_watcher_at_login(computer: Computer, name: str) -> None:
    plan = computer.plan("darwin", name=name, environment={"VAULTMEM_X": name})
    assert plan.kind is BackgroundKind.LAUNCHD
    assert plan.path == computer.home / "Library" / "LaunchAgents" / f"{plan.name}.plist"
    assert plan.marker in plan.text.splitlines()
    state = computer.folder / "state"
    (log,) = {str(folder / "watch.log") for folder in plan.folders}
    vault = str(computer.folder / "vaults" / name)
    assert plan.folders[0].parent == state
    assert agent(plan) == {
        "Label": plan.name,
        "ProgramArguments": [
            *(sys.executable, "-P", "-m", "vaultmem", "--vault", vault, "watch"),
        ],
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 60,
        "ExitTimeOut": 20,
        "ProcessType": "Background",
        "LowPriorityIO": True,
        "Nice": 10,
        "StandardOutPath": log,
        "StandardErrorPath": log,
        "EnvironmentVariables": {"VAULTMEM_STATE_DIR": str(state), "VAULTMEM_X": name},
    }


class Launchctl:
    """Answers as launchctl does: exit codes by what is loaded, and slow to let a job go."""

    def __init__(self, *, loaded: bool, slow: int = 0) -> None:
        self.loaded = loaded
        self.slow = slow
        self.asked: list[str] = []
        self.pauses: list[float] = []

    def run(self, argv: Sequence[str]) -> tuple[int, str]:
        self.asked.append(argv[1])
        match argv[1]:
            case "bootout" if self.loaded:
                self.loaded = False
                return 0, ""
            case "bootout":
                return 3, "Boot-out failed: 3: No such process\n"
            case "bootstrap" if self.slow:
                self.slow -= 1
                return 5, "Bootstrap failed: 5: Input/output error\n"
            case "bootstrap":
                self.loaded = True
                return 0, ""
            case _:
                return (0, "") if self.loaded else (113, "Could not find service\n")


@posix
def test_an_agent_is_loaded_anew_each_time_it_is_installed(computer: Computer) -> None:
    plan = computer.plan("darwin")
    for loaded, slow in ((False, 0), (True, 3)):
        launchctl = Launchctl(loaded=loaded, slow=slow)
        reply = install_background(plan, launchctl.run, pause=launchctl.pauses.append)
        assert (reply.done, launchctl.loaded) == (True, True)
        assert launchctl.asked == ["bootout", "bootstrap", *["bootstrap"] * slow]
        assert len(launchctl.pauses) == slow
    assert plan.path.read_text("utf-8") == plan.text
    assert plan.folders[0].is_dir()  # of the log, which launchd does not make
    domain = plan.install[1][2]
    assert domain.removeprefix("gui/").isdecimal()
    assert plan.install == (
        ("launchctl", "bootout", f"{domain}/{plan.name}"),
        ("launchctl", "bootstrap", domain, str(plan.path)),
    )


def test_an_agent_that_never_loads_is_a_problem(computer: Computer) -> None:
    launchctl = Launchctl(loaded=False, slow=1000)
    plan = computer.plan("darwin")
    reply = install_background(plan, launchctl.run, pause=launchctl.pauses.append)
    assert not reply.done
    assert "Input/output error" in reply.problem
    assert "launchctl bootstrap gui/" in reply.problem
    assert len(launchctl.pauses) == 10


def test_an_agent_is_removed_whether_it_is_loaded_or_not(computer: Computer) -> None:
    plan = computer.plan("darwin")
    launchctl = Launchctl(loaded=False)
    install_background(plan, launchctl.run)
    for changed in (True, False):
        reply = remove_background(plan, launchctl.run)
        assert (reply.done, reply.changed, launchctl.loaded) == (True, changed, False)
        assert not plan.path.exists()


def test_an_agent_on_its_way_out_is_no_problem(computer: Computer) -> None:
    plan = computer.plan("darwin")
    install_background(plan, Launchctl(loaded=False).run)
    leaving = (36, "Boot-out failed: 36: Operation now in progress\n")
    reply = remove_background(plan, lambda argv: leaving if "bootout" in argv else (0, ""))
    assert (reply.done, reply.problem) == (True, "")


def test_removing_where_launchctl_is_missing_says_so(computer: Computer) -> None:
    plan = computer.plan("darwin")
    install_background(plan, Launchctl(loaded=False).run)
    reply = remove_background(plan, lambda argv: (NOT_STARTED, f"no {argv[0]}"))
    assert "failed: no launchctl." in reply.problem
    assert not plan.path.exists()


def test_a_folder_without_agents_has_none_to_remove(computer: Computer) -> None:
    (computer.home / "Library").write_text("a file")
    reply = remove_background(computer.plan("darwin"), Launchctl(loaded=False).run)
    assert (reply.done, reply.changed) == (True, False)


def test_an_agent_that_goes_on_is_a_problem(computer: Computer) -> None:
    plan = computer.plan("darwin")
    install_background(plan, Launchctl(loaded=False).run)

    def run(argv: Sequence[str]) -> tuple[int, str]:
        return (
            (1, "Boot-out failed: 1: Operation not permitted\n") if "bootout" in argv else (0, "")
        )

    reply = remove_background(plan, run)
    assert not reply.done
    assert "Operation not permitted" in reply.problem
    assert not plan.path.exists()


# Windows


def parsed(line: str) -> list[str]:
    """The arguments of a command line, by the rules of Microsoft's C runtime."""
    found: list[str] = []
    word, slashes, inside, begun = "", 0, False, False
    for letter in line + " ":
        if letter == "\\":
            slashes += 1
            begun = True
            continue
        if letter == '"':
            word += "\\" * (slashes // 2)
            if slashes % 2:
                word += '"'
            else:
                inside = not inside
            begun = True
        else:
            word += "\\" * slashes
            if letter in " \t" and not inside:
                if begun:
                    found.append(word)
                word, begun = "", False
            else:
                word += letter
                begun = True
        slashes = 0
    return found


def task(plan: BackgroundPlan) -> dict[str, str]:
    """Path of tags -> text, of every element with text; read as the bytes of the file."""
    found: dict[str, str] = {}

    def walk(element: ET.Element, above: str) -> None:
        path = f"{above}/{element.tag.removeprefix(TASK)}"
        if not len(element):
            assert path not in found
            found[path] = element.text or ""
        for part in element:
            walk(part, path)

    root = ET.fromstring(plan.text.encode(plan.encoding))
    assert root.tag == f"{TASK}Task"
    for part in root:
        walk(part, "")
    return found


def test_a_task_starts_the_watcher_at_this_persons_logon(computer: Computer) -> None:
    plan = computer.plan("win32")
    assert plan.kind is BackgroundKind.TASK_SCHEDULER
    assert plan.path.parent.parent == computer.folder / "state"
    assert plan.marker in plan.text.splitlines()
    found = task(plan)
    user = "DESK & CO\\Mara"
    expected = {
        "/Triggers/LogonTrigger/Enabled": "true",
        "/Triggers/LogonTrigger/UserId": user,
        "/Principals/Principal/UserId": user,
        "/Principals/Principal/LogonType": "InteractiveToken",
        "/Principals/Principal/RunLevel": "LeastPrivilege",
        "/Settings/MultipleInstancesPolicy": "IgnoreNew",
        "/Settings/DisallowStartIfOnBatteries": "false",
        "/Settings/StopIfGoingOnBatteries": "false",
        "/Settings/ExecutionTimeLimit": "PT0S",
        "/Settings/Priority": "7",
        "/Settings/RestartOnFailure/Interval": "PT60S",
        "/Settings/RestartOnFailure/Count": "255",
        "/Actions/Exec/Command": sys.executable,
    }
    assert {key: found.get(key) for key in expected} == expected
    assert parsed(found["/Actions/Exec/Arguments"]) == [
        *("-P", "-m", "vaultmem", "--vault", str(computer.folder / "vaults" / "Notes"), "watch"),
    ]


@posix
@pytest.mark.parametrize("name", [name for name in HOSTILE if "%" not in name])
def test_a_task_holds_any_name_of_a_vault(computer: Computer, name: str) -> None:
    plan = computer.plan("win32", name=name, cache_dir=computer.folder / f"cache {name}")
    arguments = parsed(task(plan)["/Actions/Exec/Arguments"])
    assert arguments[3:] == [
        *("--vault", str(computer.folder / "vaults" / name)),
        *("--cache-dir", str(computer.folder / f"cache {name}"), "watch"),
    ]


@posix
@pytest.mark.parametrize("name", ["my %TEMP% notes", "$(Arg0)"])
def test_a_name_that_the_task_scheduler_would_replace_is_refused(
    computer: Computer, name: str
) -> None:
    with pytest.raises(Refused, match="in place of"):
        computer.plan("win32", name=name)
    assert task(computer.plan("win32", name="100 % notes"))


def test_a_task_opens_no_window_where_python_can_do_without(computer: Computer) -> None:
    python = computer.folder / "venv" / "python.exe"
    python.parent.mkdir()
    python.touch()
    assert task(computer.plan("win32", python=str(python)))["/Actions/Exec/Command"] == str(python)
    windowless = python.with_name("pythonw.exe")
    windowless.touch()
    plan = computer.plan("win32", python=str(python))
    assert task(plan)["/Actions/Exec/Command"] == str(windowless)


def test_a_task_says_which_variables_it_cannot_carry(computer: Computer) -> None:
    cache = str(computer.folder / "cache")
    environment = {"VAULTMEM_SEARCH_LIMIT": "7", "VAULTMEM_CACHE_DIR": cache}
    plan = computer.plan("win32", environment=environment)
    (note,) = plan.notes
    assert "VAULTMEM_SEARCH_LIMIT, VAULTMEM_STATE_DIR" in note
    assert "VAULTMEM_CACHE_DIR" not in note  # it is a flag of the command
    assert cache in task(plan)["/Actions/Exec/Arguments"]


def test_a_task_needs_somebody_to_log_on(computer: Computer) -> None:
    with pytest.raises(SettingsInvalid, match="USERNAME"):
        computer.plan("win32", environment={"USERNAME": ""})


class Schtasks:
    """Answers as schtasks does: 0 or 1, and a task may be there whose file is not."""

    def __init__(self) -> None:
        self.tasks: set[str] = set()
        self.read: list[bytes] = []

    def run(self, argv: Sequence[str]) -> tuple[int, str]:
        name = argv[3]
        if argv[1] == "/Create":
            self.read.append(Path(argv[5]).read_bytes())
            self.tasks.add(name)
        elif argv[1] == "/End" or name not in self.tasks:  # nothing runs
            return 1, "FEHLER: Das System kann die angegebene Datei nicht finden.\n"
        elif argv[1] == "/Delete":
            self.tasks.remove(name)
        return 0, ""


def test_a_task_is_created_replaced_and_removed(computer: Computer) -> None:
    plan = computer.plan("win32")
    schtasks = Schtasks()
    for changed in (True, False):
        reply = install_background(computer.plan("win32"), schtasks.run)
        assert (reply.done, reply.changed, schtasks.tasks) == (True, changed, {plan.name})
    assert schtasks.read[0][:2] in (b"\xff\xfe", b"\xfe\xff")
    assert schtasks.read[0] == plan.text.encode("utf-16")
    older = computer.plan("win32", cache_dir=computer.folder / "cache")
    assert older.present is Presence.OUTDATED
    plan.path.unlink()  # the task does not need it any more
    for _ in range(2):
        assert remove_background(plan, schtasks.run).done
        assert schtasks.tasks == set()


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (BackgroundKind.SYSTEMD, "run 'a b' '$c'"),
        (BackgroundKind.TASK_SCHEDULER, 'run "a b" $c'),
    ],
)
def test_a_command_is_shown_as_it_would_be_typed(kind: BackgroundKind, line: str) -> None:
    assert shown(kind, ("run", "a b", "$c")) == line
