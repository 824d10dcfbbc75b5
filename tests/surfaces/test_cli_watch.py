"""`vaultmem watch` as a person and a script run it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import MODULE, CommandLine, assert_one_line_error, on_notes
from watcher_process import watched

NOTES = {"Gate.md": "The gate is green.\n", "Shed/Kiln.md": "The kiln is hot.\n"}


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    return on_notes(tmp_path, NOTES)


def test_an_edit_is_found_by_another_process_which_need_not_look(shell: CommandLine) -> None:
    with watched(shell) as watcher:
        (shell.vault / "Gate.md").write_text("The gate is a portcullis.\n")
        watcher.until(lambda: len(watcher.said("batch")) == 2)
        reply = shell.reply("search", "portcullis")
        assert [hit["path"] for hit in reply["hits"]] == ["Gate.md"]
        assert (reply["degraded"], reply["hits"][0]["stale"]) == ([], False)
        batch = watcher.said("batch")[-1]
        assert (batch["cause"], batch["notes"]["changed"], batch["marked"]) == ("events", 1, 1)


def test_a_search_right_after_a_save_waits_for_the_watcher(shell: CommandLine) -> None:
    with watched(shell):
        for word in ("portcullis", "drawbridge", "barbican"):
            (shell.vault / "Gate.md").write_text(f"The gate is a {word}.\n")
            assert shell.paths(word) == ["Gate.md"]


def test_status_of_another_process_tells_of_the_watcher(shell: CommandLine) -> None:
    assert shell.reply("status")["watching"] is False
    with watched(shell) as watcher:
        reply = shell.reply("status")
        assert reply["watching"] is True
        state = reply["watcher"]
        assert (state["pid"], state["state"], state["behind"]) == (
            watcher.process.pid,
            "watching",
            0,
        )
        assert state["since"].endswith("+00:00")
        assert f"process {watcher.process.pid}: up to date" in shell.run("status").out
        assert "A watcher runs since" in shell.run("doctor").out
    assert shell.reply("status")["watching"] is False


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_it_cleanly(name: str, shell: CommandLine) -> None:
    if signal.getsignal(getattr(signal, name)) is signal.SIG_IGN:
        pytest.skip("whoever runs these tests has it ignored, as nohup does")
    with watched(shell) as watcher:
        watcher.process.send_signal(getattr(signal, name))
        code = watcher.process.wait(20)
        assert watcher.process.stderr is not None
        assert (code, watcher.process.stderr.read()) == (0, "")
        watcher._listener.join(10)
        assert watcher.events[-1] == {"event": "stopped"}
    assert [file.name for file in shell.cache.rglob("*") if "watch.json" in file.name] == []
    assert [file.name for file in shell.cache.rglob("index.db-*")] == []


def test_one_that_is_killed_leaves_nothing_in_the_way(shell: CommandLine) -> None:
    with watched(shell) as watcher:
        watcher.process.kill()
        watcher.process.wait(20)
        assert shell.reply("status")["watching"] is False
        (shell.vault / "Gate.md").write_text("The gate is a portcullis.\n")
        assert shell.paths("portcullis") == ["Gate.md"]
        with watched(shell) as second:
            assert second.said("batch")[0]["notes"]["total"] == 2


def test_a_second_one_ends_with_a_line_that_says_why(shell: CommandLine) -> None:
    with watched(shell):
        assert_one_line_error(shell.run("watch"), 11, "watching this vault")


def test_what_it_says_to_a_person_is_a_line_each(shell: CommandLine) -> None:
    with subprocess.Popen(
        [*MODULE, "watch"],
        cwd=shell.elsewhere,
        env=shell.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"Watching {shell.vault}. Ctrl-C ends it.\n"
        assert "2 notes: 2 added" in process.stdout.readline()
        process.terminate()
        assert "Stopped." in process.stdout.readline()
        assert process.wait(20) == 0


def test_it_embeds_in_the_background(shell: CommandLine) -> None:
    environment = {"VAULTMEM_EMBEDDER_NAME": "minilm"}
    with watched(shell, environment=environment) as watcher:
        watcher.until(lambda: bool(watcher.said("embedded")))
        assert watcher.said("embedded")[-1]["waiting"] == 0
        (shell.vault / "Pets.md").write_text("The dog sleeps under the table.\n")
        watcher.until(lambda: len(watcher.said("embedded")) == 2)
        reply = shell.reply("search", "a puppy naps", "--mode", "semantic", environment=environment)
        assert reply["degraded"] == []
        assert reply["hits"][0]["path"] == "Pets.md"


def test_without_embedding_it_makes_no_vectors(shell: CommandLine) -> None:
    environment = {"VAULTMEM_EMBEDDER_NAME": "minilm"}
    with watched(shell, "--no-embed", environment=environment) as watcher:
        state = shell.reply("status", environment=environment)["watcher"]
        assert (state["embeds"], state["waiting"]) == (False, 2)
        watcher.process.terminate()
        assert watcher.process.wait(20) == 0
        watcher._listener.join(10)
        assert watcher.said("embedded") == []


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has priorities of threads")
def test_embedding_has_a_low_priority(shell: CommandLine) -> None:
    for number in range(60):
        (shell.vault / f"n{number}.md").write_text(f"Note {number} is about clay and glaze.\n")
    with watched(shell, environment={"VAULTMEM_EMBEDDER_NAME": "minilm"}) as watcher:
        pid = watcher.process.pid

        def niceness() -> set[int]:
            return {
                os.getpriority(os.PRIO_PROCESS, int(task))
                for task in os.listdir(f"/proc/{pid}/task")
            }

        watcher.until(lambda: niceness() >= {0, 15})


def test_it_writes_nothing_into_the_vault(shell: CommandLine) -> None:
    before = sorted(shell.vault.rglob("*"))
    with watched(shell):
        shell.reply("search", "gate")
    assert sorted(shell.vault.rglob("*")) == before
    assert list(shell.home.iterdir()) == []


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_installing_without_anybody_to_ask_shows_and_does_nothing(
    form: tuple[str, ...], shell: CommandLine
) -> None:
    ended = shell.run("watch", "--install", *form)
    assert (ended.code, ended.err) == (0, "")
    assert str(shell.vault) in ended.out
    if form:
        assert json.loads(ended.out)["present"] == "absent"
    else:
        assert "Add --yes to do it" in ended.out
    assert list(shell.home.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="systemd runs on Linux")
def test_installing_and_removing_does_what_was_shown(shell: CommandLine, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    said = tmp_path / "said"
    systemctl = programs / "systemctl"
    systemctl.write_text(f'#!/bin/sh\necho "$@" >> "{said}"\n')
    systemctl.chmod(0o755)
    environment = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    done = shell.run("watch", "--install", "--yes", "--json", environment=environment).json()
    assert (done["done"], done["changed"]) == (True, True)
    unit = Path(done["path"])
    assert str(shell.vault) in unit.read_text()
    assert "enable" in said.read_text()
    gone = shell.run("watch", "--uninstall", "--yes", "--json", environment=environment).json()
    assert (gone["done"], unit.exists()) == (True, False)


@pytest.mark.skipif(sys.platform != "linux", reason="systemd runs on Linux")
def test_a_service_that_cannot_be_started_is_no_success(shell: CommandLine, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    systemctl = programs / "systemctl"
    systemctl.write_text("#!/bin/sh\necho 'no bus' >&2\nexit 1\n")
    systemctl.chmod(0o755)
    environment = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    ended = shell.run("watch", "--install", "--yes", environment=environment)
    assert ended.code == 1
    assert "no bus" in ended.out
