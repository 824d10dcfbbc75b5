"""The watcher in the background: a systemd user unit, a launchd agent or a scheduled task.

`plan_background` says what would be done and does nothing; `install_background` and
`remove_background` do it. The only file written is the plan's own, never through a link and never
over a file without the line that marks it as vaultmem's.
"""

import os
import re
import shlex
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from unicodedata import normalize
from xml.sax.saxutils import escape

from vaultmem.model.errors import Refused, SettingsInvalid, StateUnavailable, UsageError
from vaultmem.service.settings import Settings

MARKER = "Made by vaultmem, which replaces this file and takes it away."

RESTART_SECONDS = 60  # a vault on a drive that comes late is met again; a fault costs little
STOP_SECONDS = 20  # below COMMAND_SECONDS: the command that stops it sees the end of it
COMMAND_SECONDS = 30

NO_ANSWER = 124  # the exit code of `timeout`
NOT_STARTED = 127  # the exit code of a shell that finds no such program

# launchd takes a job out after `bootout` has ended; until then `bootstrap` fails with one of these.
# macOS names them in errno.h: EIO, EALREADY.
_STILL_LEAVING = {5, 37}
_LEAVING = 36  # EINPROGRESS: bootout's own word for it
_BOOTSTRAP_TRIES = 10

# What XML cannot hold or a line of a unit would end at, and bytes of a name that are no UTF-8.
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# What the task scheduler puts something else in place of; it knows no way to quote them.
_REPLACED_IN_TASKS = re.compile(r"%[^%]+%|\$\(")
# What systemd refuses or replaces in the path of a program, however it is quoted.
_NO_PROGRAM = re.compile(r"[\"'\\$]")
_VARIABLE = re.compile("VAULTMEM_[A-Z0-9_]+")
_HOSTS = ("OLLAMA_HOST", "VAULTMEM_EMBEDDER_HOST")
_FILE_BYTES = 1 << 20  # nothing we make comes near it

Run = Callable[[Sequence[str]], tuple[int, str]]
"""Runs a command: argv -> (exit code, what it wrote on standard error)."""


class BackgroundKind(StrEnum):
    """What runs the watcher."""

    SYSTEMD = "systemd"
    LAUNCHD = "launchd"
    TASK_SCHEDULER = "task scheduler"


class Presence(StrEnum):
    """What is where the plan's file goes."""

    ABSENT = "absent"
    CURRENT = "current"  # the plan's text, to the byte
    OUTDATED = "outdated"  # vaultmem's own, with other text
    FOREIGN = "foreign"  # not vaultmem's, a link, or no file: left alone


class BackgroundAction(StrEnum):
    """What a reply is about."""

    INSTALL = "install"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class BackgroundPlan:
    """What would be done; doing it is `install_background` or `remove_background`."""

    kind: BackgroundKind
    name: str  # of the unit, the agent or the task: one a vault
    vault: Path
    path: Path  # of the file to be written
    text: str  # all of it
    encoding: str  # of the file
    marker: str  # the line of the file that says whose it is
    present: Presence
    install: tuple[tuple[str, ...], ...]  # commands, run once the file is there
    remove: tuple[tuple[str, ...], ...]  # commands, run before the file is deleted
    after_deletion: tuple[tuple[str, ...], ...]  # commands, run after that
    look: tuple[str, ...]  # ends with 0 as long as the agent or the task is known; () unused
    log: str  # where the watcher's lines are read: a command, or a file; "" nowhere
    folders: tuple[Path, ...]  # made besides the file's own
    notes: tuple[str, ...]  # what is not carried over, and what to do about it


@dataclass(frozen=True, slots=True)
class BackgroundReply:
    """What was done."""

    action: BackgroundAction
    kind: BackgroundKind
    name: str
    path: Path
    changed: bool  # whether the file was written or deleted
    done: bool  # whether every command did its work
    problem: str  # which one did not, and what to do by hand; "" when done
    log: str
    notes: tuple[str, ...]


def plan_background(
    settings: Settings,
    *,
    embed: bool = True,
    platform: str = sys.platform,
    home: Path | None = None,
    environment: Mapping[str, str] | None = None,
    python: str | None = None,
) -> BackgroundPlan:
    """How `vaultmem watch` would run at every login. Writes nothing and runs nothing.

    home, environment, python: the user's home folder, the process's environment and interpreter
    where not given. Raises Refused for a name that no service file holds and for a file inside the
    vault, UsageError for a system without one of the three, SettingsInvalid, StateUnavailable.
    """
    home = Path.home() if home is None else home
    environment = os.environ if environment is None else environment
    python = sys.executable if python is None else python
    if not python:
        raise UsageError(
            "The Python that runs vaultmem does not know its own path. Start `vaultmem watch` at "
            "login by other means."
        )
    started = _Started(settings, os.path.abspath(python), _carried(settings, environment), embed)
    if platform == "win32":
        plan = _task(started, environment)
    elif platform == "darwin":
        plan = _agent(started, environment, home)
    elif platform.startswith("linux"):
        plan = _unit(started, environment, home)
    else:
        raise UsageError(
            f"vaultmem knows no background services on {platform}. Start `vaultmem watch` at login "
            "by other means."
        )
    if Path(os.path.realpath(plan.path.parent)).is_relative_to(settings.vault):
        raise Refused(
            f"{plan.path} would lie inside the vault {settings.vault}, where vaultmem writes "
            "nothing. Start `vaultmem watch` at login by other means."
        )
    return plan


def run_command(argv: Sequence[str]) -> tuple[int, str]:
    """Run a command: (exit code, standard error); NO_ANSWER and NOT_STARTED where it has none."""
    try:
        ended = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return NO_ANSWER, f"no answer within {COMMAND_SECONDS} s"
    except OSError as error:
        return NOT_STARTED, f"{argv[0]} cannot be started: {error.strerror}"
    return ended.returncode, ended.stderr


def install_background(
    plan: BackgroundPlan, run: Run = run_command, *, pause: Callable[[float], None] = time.sleep
) -> BackgroundReply:
    """Write the file and start the watcher; again, it starts the watcher anew.

    A command that fails leaves the file where it is. Raises Refused for a file that is not
    vaultmem's, StateUnavailable for a folder that cannot be written.
    """
    present = _presence(plan.path, plan.text.encode(plan.encoding), plan.marker)
    if present is Presence.FOREIGN:
        raise _foreign(plan.path, "written")
    for folder in plan.folders:
        _make_folder(folder)
    if present is not Presence.CURRENT:
        _write(plan)
    problem = ""
    for number, argv in enumerate(plan.install):
        code, said = run(argv)
        for _ in range(_BOOTSTRAP_TRIES):
            if argv[1] != "bootstrap" or code not in _STILL_LEAVING:
                break
            pause(1.0)
            code, said = run(argv)
        if code != 0 and argv[1] not in ("bootout", "/End"):  # these stop one that may not run
            left = ", then ".join(f"`{shown(plan.kind, rest)}`" for rest in plan.install[number:])
            problem = f"{_failure(plan, argv, code, said)} {plan.path} is written. By hand: {left}."
            break
    return _reply(BackgroundAction.INSTALL, plan, present is not Presence.CURRENT, problem)


def remove_background(plan: BackgroundPlan, run: Run = run_command) -> BackgroundReply:
    """Stop the watcher and delete the file; where there is neither, do nothing.

    The file goes even when the watcher cannot be stopped, so that no login starts it again.
    Raises Refused for a file that is not vaultmem's, StateUnavailable for one that cannot be
    deleted.
    """
    present = _presence(plan.path, plan.text.encode(plan.encoding), plan.marker)
    if present is Presence.FOREIGN:
        raise _foreign(plan.path, "removed")
    enabled = plan.path.parent / "default.target.wants" / plan.path.name  # systemctl's own link
    changed = present is not Presence.ABSENT or enabled.is_symlink()
    if plan.kind is BackgroundKind.SYSTEMD and not changed:
        return _reply(BackgroundAction.REMOVE, plan, False, "")
    problem = ""
    for argv in plan.remove:
        code, said = run(argv)
        if code != 0 and not _nothing_to_stop(plan, argv, code, run):
            problem = _failure(plan, argv, code, said)
            break
    try:
        if present is not Presence.ABSENT:
            plan.path.unlink(missing_ok=True)
        if enabled.is_symlink():
            enabled.unlink(missing_ok=True)
    except OSError as error:
        raise StateUnavailable(
            f"{plan.path} cannot be deleted: {error.strerror}. Delete it by hand."
        ) from None
    for argv in plan.after_deletion:
        code, said = run(argv)
        if code != 0 and not problem:
            problem = _failure(plan, argv, code, said)
    if problem:
        problem += f" {plan.path} is deleted. By hand: `{shown(plan.kind, _stopping(plan))}`."
    return _reply(BackgroundAction.REMOVE, plan, changed, problem)


def shown(kind: BackgroundKind, argv: Sequence[str]) -> str:
    """A command as a person would type it."""
    if kind is BackgroundKind.TASK_SCHEDULER:
        return subprocess.list2cmdline(argv)
    return shlex.join(argv)


# What all three have in common


@dataclass(frozen=True, slots=True)
class _Started:
    """What the service starts, and with what."""

    settings: Settings
    python: str  # absolute
    variables: Mapping[str, str]
    embed: bool

    @property
    def arguments(self) -> tuple[str, ...]:
        """Behind the interpreter. -P: no file of the working folder is taken for a module."""
        arguments = ["-P", "-m", "vaultmem", "--vault", str(self.settings.vault)]
        if self.settings.sidecar_source != "default":
            arguments += ["--cache-dir", str(self.settings.sidecar_folder.parent)]
        arguments += ["watch"] if self.embed else ["watch", "--no-embed"]
        return tuple(_fit(part, "The path") for part in arguments)

    @property
    def name(self) -> str:
        """A name of ASCII, as all three take it: readable, and no other vault's."""
        readable, _, digest = self.settings.state_folder.name.rpartition("-")
        ascii_only = normalize("NFKD", readable).encode("ascii", "ignore").decode()
        words = re.sub("[^A-Za-z0-9_]+", "-", ascii_only).strip("-")
        return "-".join(part for part in ("vaultmem-watch", words, digest) if part)


def _carried(settings: Settings, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that vaultmem reads: a service does not see those of a shell.

    The vault and the cache are flags of the command. Paths are made absolute.
    """
    carried = {
        name: value
        for name, value in environment.items()
        if _VARIABLE.fullmatch(name) and name not in ("VAULTMEM_VAULT", "VAULTMEM_CACHE_DIR")
    }
    if carried.get("VAULTMEM_STATE_DIR"):
        carried["VAULTMEM_STATE_DIR"] = str(settings.state_folder.parent)
    if model_path := carried.get("VAULTMEM_EMBEDDER_MODEL_PATH"):
        carried["VAULTMEM_EMBEDDER_MODEL_PATH"] = os.path.abspath(os.path.expanduser(model_path))
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        if os.path.isabs(environment.get(name, "")):
            carried[name] = environment[name]
    if environment.get("OLLAMA_HOST"):
        carried["OLLAMA_HOST"] = environment["OLLAMA_HOST"]
    for name in _HOSTS:
        if _holds_password(carried.get(name, "")):
            del carried[name]
    return {name: _fit(carried[name], f"The variable {name},") for name in sorted(carried)}


def _fit(text: str, what: str) -> str:
    """The text, if a service file can hold it."""
    found = _UNFIT.search(text)
    if found is not None:
        raise Refused(
            f"{what} {text!a} holds {found.group()!a}: a line break or another character "
            "that a service file cannot hold. Choose a name without it, or start `vaultmem watch` "
            "at login by other means."
        )
    return text


def _holds_password(host: str) -> bool:
    return "@" in host.partition("//")[2].partition("/")[0] or "@" in host.partition("/")[0]


def _notes(started: _Started, environment: Mapping[str, str]) -> tuple[str, ...]:
    left = tuple(
        f"{name} is not carried over, since it holds a password. The watcher sees it only if it is "
        "set for your whole session."
        for name in _HOSTS
        if _holds_password(environment.get(name, ""))
    )
    return (*left, *_key_notes(started, environment))


def _key_notes(started: _Started, environment: Mapping[str, str]) -> tuple[str, ...]:
    if started.settings["embedder.name"] == "ollama" and environment.get("OLLAMA_API_KEY"):
        return (
            "OLLAMA_API_KEY is not carried over, since it is a secret. The watcher sees it only if "
            "it is set for your whole session.",
        )
    return ()


# Linux


def _unit(started: _Started, environment: Mapping[str, str], home: Path) -> BackgroundPlan:
    configured = environment.get("XDG_CONFIG_HOME", "")
    config = Path(configured) if os.path.isabs(configured) else home / ".config"
    name = f"{started.name}.service"
    python = _fit(started.python, "The path")
    program = [_quoted(python)]
    if _NO_PROGRAM.search(python):
        # As an argument it is quoted like all the others; env takes NAME=value for a variable.
        if "=" in python:
            raise Refused(
                f"systemd cannot start {python}: a program's path must not hold quotes, $ or "
                "backslashes. Install vaultmem in another folder."
            )
        program = ["/usr/bin/env", _in_command(python)]
    command = " ".join([*program, *map(_in_command, started.arguments)])
    vault = started.settings.vault.name.replace("%", "%%") or "/"
    marker = f"# {MARKER}"
    lines = [
        marker,
        "# `vaultmem watch --uninstall` stops the watcher and deletes this file.",
        "[Unit]",
        f"Description=vaultmem: the index of {vault} kept up to date",
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={command}",
        *(f"Environment={_quoted(f'{key}={value}')}" for key, value in started.variables.items()),
        "Restart=on-failure",
        f"RestartSec={RESTART_SECONDS}",
        "KillSignal=SIGTERM",
        f"TimeoutStopSec={STOP_SECONDS}",
        "SuccessExitStatus=130 143",  # of a watcher that was told to end
        "Nice=10",
        "IOSchedulingClass=idle",
        "CPUWeight=20",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    path = config / "systemd" / "user" / name
    text = "\n".join(lines) + "\n"
    systemctl = ("systemctl", "--user")
    return BackgroundPlan(
        kind=BackgroundKind.SYSTEMD,
        name=name,
        vault=started.settings.vault,
        path=path,
        text=text,
        encoding="utf-8",
        marker=marker,
        present=_presence(path, text.encode(), marker),
        # Not `enable --now`: that leaves a watcher that runs by an older file as it is.
        install=(
            (*systemctl, "daemon-reload"),
            (*systemctl, "enable", name),
            (*systemctl, "restart", name),
        ),
        remove=((*systemctl, "disable", "--now", name),),
        after_deletion=((*systemctl, "daemon-reload"),),
        look=(),
        log=f"journalctl --user --unit {name}",
        folders=(),
        notes=_notes(started, environment),
    )


def _quoted(text: str) -> str:
    """One word of a unit: systemd.syntax(7) for quotes, systemd.unit(5) for %."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _in_command(text: str) -> str:
    """One word behind the program of ExecStart=: systemd.service(5), $ stands for variables."""
    return _quoted(text).replace("$", "$$")


# macOS


def _agent(started: _Started, environment: Mapping[str, str], home: Path) -> BackgroundPlan:
    import plistlib

    label = started.name
    state = started.settings.state_folder
    log = _fit(str(state / "watch.log"), "The path")
    agent: dict[str, object] = {
        "Label": label,
        "ProgramArguments": [_fit(started.python, "The path"), *started.arguments],
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": RESTART_SECONDS,
        "ExitTimeOut": STOP_SECONDS,
        "ProcessType": "Background",
        "LowPriorityIO": True,
        "Nice": 10,
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    if started.variables:
        agent["EnvironmentVariables"] = dict(started.variables)
    marker = f"<!-- {MARKER} -->"
    declaration, doctype, rest = plistlib.dumps(agent, sort_keys=False).decode().split("\n", 2)
    text = "\n".join([declaration, doctype, marker, rest])
    path = home / "Library" / "LaunchAgents" / f"{label}.plist"
    domain = f"gui/{os.getuid() if hasattr(os, 'getuid') else 0}"
    bootout = ("launchctl", "bootout", f"{domain}/{label}")
    return BackgroundPlan(
        kind=BackgroundKind.LAUNCHD,
        name=label,
        vault=started.settings.vault,
        path=path,
        text=text,
        encoding="utf-8",
        marker=marker,
        present=_presence(path, text.encode(), marker),
        install=(bootout, ("launchctl", "bootstrap", domain, str(path))),
        remove=(bootout,),
        after_deletion=(),
        look=("launchctl", "print", f"{domain}/{label}"),
        log=log,
        folders=(state,),  # launchd makes the log's file, not its folder
        notes=_notes(started, environment),
    )


# Windows

_TASK = """\
<?xml version="1.0" encoding="UTF-16"?>
{marker}
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo>
    <Description>{description}</Description>
  </RegistrationInfo>
  <Triggers>
    <LogonTrigger>
      <Enabled>true</Enabled>
      <UserId>{user}</UserId>
    </LogonTrigger>
  </Triggers>
  <Principals>
    <Principal id="Author">
      <UserId>{user}</UserId>
      <LogonType>InteractiveToken</LogonType>
      <RunLevel>LeastPrivilege</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <AllowHardTerminate>true</AllowHardTerminate>
    <StartWhenAvailable>true</StartWhenAvailable>
    <RunOnlyIfNetworkAvailable>false</RunOnlyIfNetworkAvailable>
    <AllowStartOnDemand>true</AllowStartOnDemand>
    <Enabled>true</Enabled>
    <RunOnlyIfIdle>false</RunOnlyIfIdle>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <Priority>7</Priority>
    <RestartOnFailure>
      <Interval>PT{restart}S</Interval>
      <Count>255</Count>
    </RestartOnFailure>
  </Settings>
  <Actions Context="Author">
    <Exec>
      <Command>{command}</Command>
      <Arguments>{arguments}</Arguments>
    </Exec>
  </Actions>
</Task>
"""


def _task(started: _Started, environment: Mapping[str, str]) -> BackgroundPlan:
    user = _fit(environment.get("USERNAME", ""), "The variable USERNAME,")
    if not user:
        raise SettingsInvalid(
            "USERNAME is not set, so the task cannot be made for one person. Run this in the "
            "session whose logins start the watcher."
        )
    if domain := _fit(environment.get("USERDOMAIN", ""), "The variable USERDOMAIN,"):
        user = f"{domain}\\{user}"
    windowless = Path(started.python).with_name("pythonw.exe")
    python = _fit(str(windowless if windowless.is_file() else started.python), "The path")
    for part in (python, *started.arguments):
        if found := _REPLACED_IN_TASKS.search(part):
            raise Refused(
                f"The task scheduler would put something else in place of {found.group()} in "
                f"{part}. Choose a name without it, or start `vaultmem watch` at login by other "
                "means."
            )
    marker = f"<!-- {MARKER} -->"
    text = _TASK.format(
        marker=marker,
        description=escape(f"vaultmem: the index of {started.settings.vault} kept up to date"),
        user=escape(user),
        restart=RESTART_SECONDS,
        command=escape(python),
        arguments=escape(subprocess.list2cmdline(started.arguments)),
    )
    notes = _notes(started, environment)
    if left := [name for name in started.variables if not name.startswith("XDG_")]:
        names, them = ", ".join(left), "it" if len(left) == 1 else "them"
        notes = (
            f"A task has no variables of its own: {names} reach the watcher only where you set "
            f"{them} for your account (`setx`). Settings can also go into .vaultmem/config.toml.",
            *notes,
        )
    name = started.name
    path = started.settings.state_folder / "watch.xml"
    schtasks = ("schtasks",)
    end = (*schtasks, "/End", "/TN", name)
    return BackgroundPlan(
        kind=BackgroundKind.TASK_SCHEDULER,
        name=name,
        vault=started.settings.vault,
        path=path,
        text=text,
        encoding="utf-16",  # schtasks takes a file without a byte order mark for another encoding
        marker=marker,
        present=_presence(path, text.encode("utf-16"), marker),
        install=(
            end,
            (*schtasks, "/Create", "/TN", name, "/XML", str(path), "/F"),
            (*schtasks, "/Run", "/TN", name),
        ),
        remove=(end, (*schtasks, "/Delete", "/TN", name, "/F")),
        after_deletion=(),
        look=(*schtasks, "/Query", "/TN", name),
        log="",
        folders=(),
        notes=notes,
    )


# Files and commands


def _presence(path: Path, content: bytes, marker: str) -> Presence:
    """What is at the path; nothing but a file of ours is opened for more than reading."""
    try:
        state = os.lstat(path)
        if not stat.S_ISREG(state.st_mode) or state.st_size > _FILE_BYTES:
            return Presence.FOREIGN
        found = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return Presence.ABSENT
    except OSError as error:
        raise StateUnavailable(f"{path} cannot be read: {error.strerror}.") from None
    if found == content:
        return Presence.CURRENT
    encoding = "utf-16" if found[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    lines = found.decode(encoding, "replace").splitlines()
    return Presence.OUTDATED if marker in lines else Presence.FOREIGN


def _foreign(path: Path, undone: str) -> Refused:
    what = "a link" if path.is_symlink() else "not a file that vaultmem made"
    return Refused(f"{path} is {what}. Nothing was {undone}. Move it away and repeat the command.")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StateUnavailable(
            f"The folder {folder} cannot be made: {error.strerror}. Make room for it, or start "
            "`vaultmem watch` at login by other means."
        ) from None


def _write(plan: BackgroundPlan) -> None:
    """Put the file in its place whole or not at all."""
    _make_folder(plan.path.parent)
    new = plan.path.with_name(f"{plan.path.name}.{os.getpid()}")
    try:
        new.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(new, flags, 0o600), "wb") as file:
            file.write(plan.text.encode(plan.encoding))
            file.flush()
            os.fsync(file.fileno())
        new.replace(plan.path)
    except OSError as error:
        with suppress(OSError):  # what matters is said below
            new.unlink(missing_ok=True)
        raise StateUnavailable(
            f"{plan.path} cannot be written: {error.strerror}. Make its folder writable, or start "
            "`vaultmem watch` at login by other means."
        ) from None


def _nothing_to_stop(plan: BackgroundPlan, argv: Sequence[str], code: int, run: Run) -> bool:
    """Whether a command failed because what it should stop is not there, or is on its way out.

    What launchctl and schtasks say of that depends on version and language, so they are asked.
    """
    if argv[1] == "/End" or (argv[1] == "bootout" and code == _LEAVING):
        return True
    return bool(plan.look) and run(plan.look)[0] not in (0, NOT_STARTED, NO_ANSWER)


def _stopping(plan: BackgroundPlan) -> tuple[str, ...]:
    """The command that ends a watcher whose file is gone."""
    if plan.kind is BackgroundKind.SYSTEMD:
        return ("systemctl", "--user", "stop", plan.name)
    return plan.remove[-1]


def _failure(plan: BackgroundPlan, argv: Sequence[str], code: int, said: str) -> str:
    first = next((line.strip() for line in said.splitlines() if line.strip()), "it said nothing")
    how = "" if code in (NOT_STARTED, NO_ANSWER) else f" with exit code {code}"
    return f"`{shown(plan.kind, argv)}` failed{how}: {first.rstrip('.')}."


def _reply(
    action: BackgroundAction, plan: BackgroundPlan, changed: bool, problem: str
) -> BackgroundReply:
    return BackgroundReply(
        action=action,
        kind=plan.kind,
        name=plan.name,
        path=plan.path,
        changed=changed,
        done=not problem,
        problem=problem,
        log=plan.log,
        notes=plan.notes,
    )
