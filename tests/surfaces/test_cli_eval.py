"""eval: a file of questions in, figures out."""

import json
import re
from pathlib import Path

import pytest
from command_line import (
    CommandLine,
    assert_one_line_error,
    listing,
    misfits,
    on_notes,
    on_sample,
)

QUESTIONS = Path(__file__).resolve().parents[1] / "data" / "sample_questions.jsonl"
NUMBER = (int, float)

FIGURES = {
    "n": int,
    "mrr": NUMBER,
    "hit@1": NUMBER,
    "hit@5": NUMBER,
    "hit@10": NUMBER,
    "ndcg@10": NUMBER,
}
CHANGE = {"change": NUMBER, "low": NUMBER, "high": NUMBER}
REMARK = {"line": int, "message": str}
VARIANT = {
    "name": str,
    "mode": str,
    "without": [str],
    "figures": FIGURES,
    "by_kind": dict,
    "changes": {key: CHANGE for key in FIGURES if key != "n"},
}
REPLY = {
    **FIGURES,
    "by_kind": {"paraphrase": FIGURES, "typo": FIGURES},
    "mode": str,
    "variants": [VARIANT],
    "unavailable": dict,
    "source": str,
    "skipped": [REMARK],
    "missing": [REMARK],
    "degraded": [str],
    "seconds": NUMBER,
}

NOTES = {"Kiln.md": "The kiln burns clay.\n", "Wheel.md": "The wheel turns.\n"}
ASKED = {"query": "kiln burns", "relevant": ["Kiln.md"]}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """The sample vault, indexed once, by words as everything here; no evaluation changes it."""
    command_line = on_sample(tmp_path_factory.mktemp("eval"))
    assert command_line.run("index").code == 0
    return command_line


@pytest.fixture
def pottery(tmp_path: Path) -> CommandLine:
    return on_notes(tmp_path, NOTES)


def write(folder: Path, *lines: object, name: str = "mine.jsonl") -> str:
    """A file of questions: texts as they are, everything else as JSON."""
    file = folder / name
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    file.write_bytes("".join(f"{text}\n" for text in texts).encode("utf-8"))
    return str(file)


def test_json_has_every_key_of_the_contract(sample: CommandLine) -> None:
    reply = sample.reply("eval", str(QUESTIONS))
    assert misfits(reply, REPLY) == []
    assert reply["n"] == 40
    assert sum(figures["n"] for figures in reply["by_kind"].values()) == 40
    assert len(reply["variants"]) == 3
    assert reply["skipped"] == reply["missing"] == reply["degraded"] == []


def test_the_figures_are_what_one_search_after_another_comes_to(sample: CommandLine) -> None:
    typos = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]
    typos = [asked for asked in typos if asked["kind"] in ("typo", "date")]
    found = [sample.paths(asked["q"], "-k", "10") for asked in typos]
    firsts = [
        min(place for place, path in enumerate(paths, 1) if path in asked["paths"])
        for asked, paths in zip(typos, found, strict=True)
    ]
    file = write(sample.elsewhere, *typos)
    reply = sample.reply("eval", file)
    Path(file).unlink()
    assert reply["mrr"] == pytest.approx(sum(1 / place for place in firsts) / len(firsts), abs=1e-6)
    assert reply["hit@1"] == pytest.approx(firsts.count(1) / len(firsts), abs=1e-6)


def test_text_is_a_table_by_kind_and_one_by_way_of_asking(sample: CommandLine) -> None:
    ended = sample.run("eval", str(QUESTIONS))
    assert (ended.code, ended.err) == (0, "")
    reply = sample.reply("eval", str(QUESTIONS))
    assert re.search(rf"^all +40 +{reply['mrr']:.3f} +{reply['hit@1']:.3f} ", ended.out, re.M)
    for kind, figures in reply["by_kind"].items():
        assert re.search(rf"^  {kind} +{figures['n']} +{figures['mrr']:.3f} ", ended.out, re.M)
    for other in reply["variants"]:
        change = other["changes"]["mrr"]
        assert (
            f"{other['figures']['mrr']:.3f} {change['change']:+.3f} "
            f"[{change['low']:+.3f}, {change['high']:+.3f}]"
        ) in ended.out
    assert "Not measured: semantic. " in ended.out


def test_a_mode_is_asked_for_and_comparing_left_away(sample: CommandLine) -> None:
    arguments = ("eval", str(QUESTIONS), "--no-compare", "--mode", "semantic")
    ended = sample.run(*arguments)
    assert ended.out.startswith("! ")
    assert "without" not in ended.out
    reply = sample.reply(*arguments)
    assert (reply["mode"], reply["variants"], reply["unavailable"]) == ("keyword", [], {})
    assert reply["degraded"] != []


def test_without_an_index_it_makes_one(pottery: CommandLine, tmp_path: Path) -> None:
    reply = pottery.reply("eval", write(tmp_path, ASKED))
    assert (reply["n"], reply["mrr"], reply["hit@10"]) == (1, 1, 1)


def test_modes_are_compared_where_there_are_vectors(pottery: CommandLine, tmp_path: Path) -> None:
    minilm = {"VAULTMEM_EMBEDDER_NAME": "minilm"}
    assert pottery.run("index", environment=minilm).code == 0
    reply = pottery.reply("eval", write(tmp_path, ASKED), environment=minilm)
    assert (reply["mode"], reply["unavailable"]) == ("hybrid", {})
    assert [variant["name"] for variant in reply["variants"]] == [
        "keyword",
        "semantic",
        "hybrid without passage",
        "hybrid without window",
        "hybrid without note",
        "hybrid without vector",
    ]


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_only_the_cache_is_written(sample: CommandLine, form: tuple[str, ...]) -> None:
    watched = (sample.vault, sample.home, sample.temporary, sample.elsewhere)
    before = [listing(folder) for folder in watched]
    assert sample.run("eval", str(QUESTIONS), *form).code == 0
    assert [listing(folder) for folder in watched] == before


# The file


def test_the_file_is_found_from_the_working_folder_and_the_home(pottery: CommandLine) -> None:
    write(pottery.elsewhere, ASKED)
    write(pottery.home, ASKED, name="there.jsonl")
    for file in ("mine.jsonl", "~/there.jsonl"):
        assert pottery.reply("eval", file)["n"] == 1


def test_a_link_to_the_file_is_followed_for_a_person_named_it(
    pottery: CommandLine, tmp_path: Path
) -> None:
    file = write(tmp_path, ASKED)
    (tmp_path / "link.jsonl").symlink_to(file)
    reply = pottery.reply("eval", str(tmp_path / "link.jsonl"))
    assert reply["n"] == 1


def test_a_file_that_is_not_there_is_named(pottery: CommandLine) -> None:
    ended = pottery.run("eval", "nowhere.jsonl")
    assert_one_line_error(ended, 2, "nowhere.jsonl", "query")


def test_a_folder_in_place_of_the_file_is_named(pottery: CommandLine) -> None:
    ended = pottery.run("eval", str(pottery.vault))
    assert_one_line_error(ended, 2, str(pottery.vault), "not a regular file")


def test_a_byte_order_mark_does_no_harm(pottery: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(ASKED).encode())
    reply = pottery.reply("eval", str(file))
    assert (reply["n"], reply["skipped"]) == (1, [])


def test_a_line_that_is_not_utf8_is_named(pottery: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_bytes(json.dumps(ASKED).encode() + b'\n{"query": "\xff"}\n')
    ended = pottery.run("eval", str(file))
    assert_one_line_error(ended, 2, f"{file}:2", "UTF-8")


def test_a_name_that_no_file_can_have_is_an_error_of_one_line(pottery: CommandLine) -> None:
    assert_one_line_error(pottery.run("eval", "x" * 5000), 2, "There is no file")


def test_a_file_without_a_question_is_an_error(pottery: CommandLine, tmp_path: Path) -> None:
    file = write(tmp_path)
    ended = pottery.run("eval", file)
    assert_one_line_error(ended, 2, file, "holds no question")


def test_a_file_about_another_vault_is_an_error(pottery: CommandLine, tmp_path: Path) -> None:
    file = write(tmp_path, {"query": "kiln", "relevant": ["Elsewhere.md"]})
    ended = pottery.run("eval", file)
    assert_one_line_error(ended, 2, f"{file}:1", "Elsewhere.md")


def test_lines_left_out_and_notes_missing_are_told_by_file_and_line(
    pottery: CommandLine, tmp_path: Path
) -> None:
    file = write(
        tmp_path,
        ASKED,
        "nonsense",
        {"query": "kiln", "relevant": ["Kiln", "Klin"]},
        {"query": "kiln", "relevant": ["Gone.md"]},
    )
    ended = pottery.run("eval", file)
    assert (ended.code, ended.err) == (0, "")
    assert f"! {file}:2: left out: it is not JSON" in ended.out
    assert f"! {file}:3: not in the vault: There is no note Klin" in ended.out
    assert (
        f"! {file}:4: left out: None of its notes is there. There is no note Gone.md" in ended.out
    )
    assert "2 questions of " in ended.out
    reply = pottery.reply("eval", file)
    assert [remark["line"] for remark in reply["skipped"]] == [2, 4]
    assert [remark["line"] for remark in reply["missing"]] == [3, 4]


def test_many_remarks_are_cut_in_text_and_whole_in_json(
    pottery: CommandLine, tmp_path: Path
) -> None:
    file = write(tmp_path, ASKED, *["nonsense"] * 30)
    ended = pottery.run("eval", file)
    assert ended.out.count("left out: it is not JSON") == 20
    assert "! 10 more left out (--json has all)" in ended.out
    assert len(pottery.reply("eval", file)["skipped"]) == 30


def test_a_kind_cannot_steer_the_terminal_nor_break_the_table(
    pottery: CommandLine, tmp_path: Path
) -> None:
    file = write(tmp_path, {**ASKED, "kind": "\x1b[31mred\nnew line"}, {**ASKED, "kind": "k" * 99})
    out = pottery.run("eval", file).out
    assert "\x1b" not in out
    assert r"\x1b[31mred\nnew line" in out
    assert "k" * 30 not in out
    assert "k…" in out
