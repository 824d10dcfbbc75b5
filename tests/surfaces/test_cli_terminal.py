"""The terminal: what notes may not do to it, readers that leave early, progress and Ctrl-C."""

import os
import random
import re
import signal
import subprocess
import sys
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import MODULE, CommandLine, on_notes, on_sample

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals and POSIX pipes")

ESC, BEL, CR, CSI = "\x1b", "\x07", "\r", "\x9b"
OVERRIDES = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
HOSTILE = f"{ESC}[31m{BEL}{ESC}]0;owned{BEL}{CSI}2J{OVERRIDES}"


def steering(text: str) -> list[str]:
    """Characters in an output that would steer a terminal."""
    return sorted(
        {
            repr(character)
            for character in text
            if (unicodedata.category(character) == "Cc" and character not in "\n\t")
            or character in OVERRIDES
        }
    )


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """A vault whose paths, titles, properties, headings, links and texts all try to steer."""
    title = "".join(f"\\x{ord(c):02x}" if ord(c) < 256 else f"\\u{ord(c):04x}" for c in HOSTILE)
    note = (
        f'---\ntitle: "Quay {title} end"\naliases: ["Wharf {title}"]\nkey: "{title}"\n---\n'
        f"# Heading {HOSTILE}\n\nA berth {HOSTILE} and {CR}overwritten.\n\n"
        f"[[Nowhere {HOSTILE}]] and [[Crane|{HOSTILE}]]\n"
    )
    notes = {
        f"Fol {HOSTILE} der/no {HOSTILE} te.md": note,
        "Crane.md": f"A crane. [[Wharf {HOSTILE}]]\n",
        f"Broken {HOSTILE}.md": f"---\na: [{HOSTILE}\n---\nA berth.\n",
    }
    return on_notes(tmp_path_factory.mktemp("hostile"), notes)


@pytest.mark.parametrize(
    "arguments",
    [
        ("index",),
        ("search", "berth", "--explain"),
        ("search", "berth", HOSTILE),
        ("read", f"Fol {HOSTILE} der/no {HOSTILE} te.md"),
        ("read", "Crane"),
        ("links", "Crane"),
        ("links", f"no {HOSTILE} te"),
        ("lint",),
        ("status",),
        ("doctor",),
        ("config",),
        ("why", f"Broken {HOSTILE}"),
        ("why", f"Nobody {HOSTILE}"),
        ("read", f"Nobody {HOSTILE}"),
        ("read", f"Fol {HOSTILE} der/no {HOSTILE} te.md#Nowhere"),
        (f"unknown {HOSTILE}",),
        ("status", f"--unknown{HOSTILE}"),
        ("search", "x", "-k", HOSTILE),
        ("search", "x", "--after", HOSTILE),
        ("status", "--vault", f"/nowhere/{HOSTILE}"),
    ],
    ids=lambda arguments: " ".join(arguments).encode("ascii", "ignore").decode()[:30],
)
def test_nothing_in_a_vault_or_a_request_reaches_the_terminal_raw(
    hostile: CommandLine, arguments: tuple[str, ...]
) -> None:
    ended = hostile.run(*arguments)
    assert steering(ended.out + ended.err) == []


def test_what_was_taken_out_is_shown_in_its_place(hostile: CommandLine) -> None:
    out = hostile.run("search", "berth").out
    assert "\\x1b[31m" in out
    assert "\\x202e" in out or "\\u202e" in out


def test_json_keeps_the_text_and_shows_what_is_hidden_in_it(hostile: CommandLine) -> None:
    path = f"Fol {HOSTILE} der/no {HOSTILE} te.md"
    reply = hostile.reply("read", path)
    # As in Obsidian, a carriage return ends a line; every other character stays.
    text = (hostile.vault / path).read_bytes().decode("utf-8")
    assert reply["path"] == path
    key = HOSTILE
    for sign in OVERRIDES:
        text = text.replace(sign, f"\\u{{{ord(sign):x}}}")
        key = key.replace(sign, f"\\u{{{ord(sign):x}}}")
    assert reply["text"].replace("\n", "") == text.replace("\r", "").replace("\n", "")
    assert reply["frontmatter"]["key"] == key
    assert path in hostile.paths("berth")


@pytest.mark.parametrize("name", ["Forged\n1. Real.md:1  1.000\n", "Tab\tbed\n"])
def test_a_name_cannot_begin_a_line_of_the_answer(tmp_path: Path, name: str) -> None:
    command_line = on_notes(tmp_path, {f"{name}.md": "A berth.\n", "Plain.md": "A berth too.\n"})
    hits = len(command_line.reply("search", "berth")["hits"])
    lines = command_line.run("search", "berth").out.splitlines()
    assert len([line for line in lines if re.match(r"\d+\. ", line)]) == hits
    assert [line for line in lines if not re.match(r"\d+\. |   ", line)] == []


# Readers that leave early


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    command_line = on_sample(tmp_path_factory.mktemp("terminal"))
    assert command_line.run("index").code == 0
    return command_line


def closed_pipe() -> int:
    """The writing end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "harbour"),
        ("search", "harbour", "--json"),
        ("read", "Home"),
        ("status",),
        ("config", "--json"),
        ("demo",),
        ("--version",),
        ("--help",),
        ("search", "--help"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("buffered", [None, "1"], ids=["buffered", "unbuffered"])
def test_a_reader_that_has_gone_is_no_error(
    sample: CommandLine, arguments: tuple[str, ...], buffered: str | None
) -> None:
    writing = closed_pipe()
    try:
        ended = sample.run(*arguments, stdout=writing, environment={"PYTHONUNBUFFERED": buffered})
    finally:
        os.close(writing)
    assert (ended.code, ended.err) == (0, "")


def test_the_first_line_of_a_long_answer_can_be_taken_alone(sample: CommandLine) -> None:
    arguments = ("search", "ledger", "-k", "1000", "--passages", "--json")
    every = sample.run(*arguments).out
    assert len(every) > 65_536, "it must be longer than a pipe holds"
    command = [*MODULE, *arguments]
    with subprocess.Popen(
        command,
        env=sample.environment(),
        cwd=sample.elsewhere,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        first = child.stdout.readline().decode("utf-8")
        child.stdout.close()
        err = child.stderr.read()
    assert first == every.splitlines(keepends=True)[0]
    assert (child.returncode, err) == (0, b"")


def test_a_command_started_without_stdout_ends_quietly(sample: CommandLine) -> None:
    ended = sample.run("search", "harbour", preexec_fn=lambda: os.close(1))
    assert "Traceback" not in ended.err, ended.err


# Progress and Ctrl-C


NOTES = 3000
WORDS = [
    "harbour",
    "quay",
    "berth",
    "ledger",
    "tariff",
    "gateway",
    "pilot",
    "crane",
    "mooring",
    "tide",
    "invoice",
    "port",
]


@dataclass(frozen=True, slots=True)
class Shown:
    """A command with its stderr on a terminal."""

    code: int
    out: str
    screen: str


def show(command_line: CommandLine, *arguments: str, interrupt_at: int | None = None) -> Shown:
    """Run with stderr on a pseudo-terminal; press Ctrl-C once that many notes are done."""
    import pty

    terminal, end = pty.openpty()
    screen = b""
    pressed = interrupt_at is None
    with subprocess.Popen(
        [*MODULE, *arguments],
        env=command_line.environment(),
        cwd=command_line.elsewhere,
        stdout=subprocess.PIPE,
        stderr=end,
    ) as child:
        os.close(end)
        while part := _read(terminal):
            screen += part
            done = [int(n.replace(b",", b"")) for n in re.findall(rb"([\d,]+) of ", screen)]
            if not pressed and interrupt_at is not None and done and done[-1] >= interrupt_at:
                child.send_signal(signal.SIGINT)
                pressed = True
        assert child.stdout is not None
        out = child.stdout.read().decode("utf-8")
    os.close(terminal)
    assert pressed, "the run was over before it could be interrupted"
    return Shown(child.returncode, out, screen.decode("utf-8").replace("\r\n", "\n"))


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:
        # Linux says so when the last writer has closed its end.
        return b""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """3,000 notes of one passage each, the same in every run."""
    chance = random.Random(11)
    notes = {}
    for number in range(NOTES):
        words = " ".join(chance.choices(WORDS, k=60))
        link = f"[[note {chance.randrange(NOTES)}]]"
        notes[f"{number % 30:02}/note {number}.md"] = f"# Note {number}\n\n{words} {link}\n"
    return on_notes(tmp_path_factory.mktemp("large"), notes)


@pytest.fixture(scope="module")
def interrupted(large: CommandLine) -> Shown:
    """A first index with Ctrl-C pressed in the middle."""
    return show(large, "index", interrupt_at=600)


@pytest.fixture(scope="module")
def resumed(large: CommandLine, interrupted: Shown) -> dict[str, int]:
    """What status held after the interruption, and what the next index counted."""
    kept = large.reply("status")
    counts: dict[str, int] = large.reply("index")["notes"]
    return {"kept": kept["notes"], "kept_chunks": kept["chunks"], **counts}


def test_ctrl_c_ends_with_130_and_no_answer(interrupted: Shown) -> None:
    assert interrupted.code == 130
    assert interrupted.out == ""
    assert "Traceback" not in interrupted.screen


def test_ctrl_c_says_one_line_of_its_own(interrupted: Shown) -> None:
    # The counting line is wiped or ended first, or the two run into each other.
    line = re.search(r"(?:\n|\r\x1b\[K)(vaultmem: .*)\n\Z", interrupted.screen)
    assert line is not None, interrupted.screen
    assert line[1].startswith("vaultmem: Interrupted.")


def test_after_ctrl_c_only_whole_notes_are_kept(resumed: dict[str, int]) -> None:
    assert 0 < resumed["kept"] < NOTES
    assert resumed["kept_chunks"] == resumed["kept"]


def test_ctrl_c_keeps_every_note_that_the_counting_line_counted(
    interrupted: Shown, resumed: dict[str, int]
) -> None:
    # "Whole notes that were indexed are kept", the message says; so does `Sidecar.batch`.
    counted = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) of ", interrupted.screen)]
    assert resumed["kept"] >= counted[-1]


def test_after_ctrl_c_the_next_run_goes_on(resumed: dict[str, int]) -> None:
    assert resumed["added"] == NOTES - resumed["kept"]
    assert resumed["unchanged"] == resumed["kept"]
    assert resumed["total"] == NOTES


def test_an_interrupted_index_ends_up_equal_to_one_that_never_was(
    large: CommandLine, resumed: dict[str, int], tmp_path: Path
) -> None:
    fresh = ("--cache-dir", str(tmp_path / "fresh"))
    for question in (
        ("search", "pilot invoice", "-k", "200"),
        ("links", "note 7"),
        ("lint",),
    ):
        assert large.reply(*question) == large.reply(*question, *fresh)


def test_status_after_ctrl_c_counts_the_notes_that_wait(tmp_path: Path, large: CommandLine) -> None:
    cache = ("--cache-dir", str(tmp_path / "again"))
    assert show(large, "index", *cache, interrupt_at=600).code == 130
    reply = large.reply("status", *cache)
    assert reply["fresh"] is False
    assert reply["waiting"] == NOTES - reply["notes"]
    assert "waiting to be indexed" in large.run("status", *cache).out


def test_progress_counts_on_a_terminal_and_wipes_its_line(
    large: CommandLine, tmp_path: Path
) -> None:
    shown = show(large, "index", "--json", "--cache-dir", str(tmp_path / "shown"))
    assert shown.code == 0
    assert re.search(r"index: [\d,]+ of 3,000 notes", shown.screen)
    assert shown.screen.endswith("\r\x1b[K")
    assert shown.out.startswith("{")


def test_there_is_no_progress_where_no_terminal_is(large: CommandLine, tmp_path: Path) -> None:
    ended = large.run("index", "--cache-dir", str(tmp_path / "unseen"))
    assert (ended.code, ended.err) == (0, "")
