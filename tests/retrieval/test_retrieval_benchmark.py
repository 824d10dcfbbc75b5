"""The retrieval benchmark end to end, on small files of the forms that the public sets have.

All questions and texts are made up; by words alone, so that every figure can be told beforehand.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = REPOSITORY / "tests" / "benchmark" / "retrieval.py"
SAMPLE = REPOSITORY / "sample_vault"
SAMPLE_QUESTIONS = REPOSITORY / "tests" / "data" / "sample_questions.jsonl"

Reports = dict[str, Any]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("VAULTMEM_")}
    return subprocess.run(
        [sys.executable, str(PROGRAM), *map(str, arguments)],
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def reports(*arguments: str | Path) -> Reports:
    """Name -> what --json prints of it."""
    ended = run(*arguments, "--json")
    assert ended.returncode == 0, ended.stderr
    return {report["name"]: report for report in json.loads(ended.stdout)}


def figures(report: Mapping[str, Any], subset: str, *measures: str) -> list[float]:
    """The number of queries of a subset, then the means."""
    return [report["figures"][subset][name] for name in ("n", *measures)]


def written(folder: Path, content: object, name: str = "data.json") -> Path:
    file = folder / name
    file.write_text(json.dumps(content), "utf-8")
    return file


# LongMemEval


def session(*turns: str) -> list[dict[str, str]]:
    return [
        {"role": role, "content": text}
        for role, text in zip(("user", "assistant") * len(turns), turns, strict=False)
    ]


SESSIONS = {
    "answer_cat_1": session("My cat is called Fitzroy.", "What a fine name for a cat."),
    "answer_cat_2": session("Fitzroy the cat weighs four kilos.", "Quite a light cat."),
    "chat_1": session("Which bread is easy?", "Soda bread.\n```\nflour"),
    "chat_2": session("Plan a trip to Lisbon.", "Take the tram up the hill."),
    "chat_3": session("Explain photosynthesis.", "Leaves turn light into sugar."),
    "chat_4": session("How do I sharpen a chisel?", "On a whetstone, bevel down."),
    "chat_5": session("Write a poem about rain.", "It falls on roofs."),
}


def question(number: str, text: str, kind: str, answers: Sequence[str]) -> dict[str, Any]:
    return {
        "question_id": number,
        "question_type": kind,
        "question": text,
        "answer": "made up",
        "question_date": "2023/06/01 (Thu) 10:00",
        "haystack_dates": [f"2023/05/{day:02} (Sat) 02:21" for day in range(1, len(SESSIONS) + 1)],
        "haystack_session_ids": list(SESSIONS),
        "haystack_sessions": list(SESSIONS.values()),
        "answer_session_ids": list(answers),
    }


LONGMEMEVAL = [
    question("q1", "How heavy is Fitzroy?", "multi-session", ["answer_cat_1", "answer_cat_2"]),
    question("q2", "What stone sharpens a chisel?", "single-session-assistant", ["chat_4"]),
    question("q3", "Where does the tram go?", "single-session-assistant", ["chat_3", "chat_2"]),
    question("q4_abs", "What is the parrot called?", "single-session-user", ["chat_5"]),
]


def test_longmemeval_counts_sessions_by_type_and_with_and_without_abstention(
    tmp_path: Path,
) -> None:
    file = written(tmp_path, LONGMEMEVAL)
    (report,) = reports("--longmemeval", file, "--mode", "keyword").values()
    assert report["name"] == "longmemeval-s"
    measures = ("any@5", "all@5")
    # q1 and q2 find everything, q3 one session of two, q4 nothing.
    assert figures(report, "all", *measures) == [4, 0.75, 0.5]
    assert figures(report, "without _abs", *measures) == [3, 1, 0.6667]
    assert figures(report, "type multi-session", *measures) == [1, 1, 1]
    assert figures(report, "type single-session-assistant", *measures) == [2, 1, 0.5]
    assert figures(report, "type single-session-user", *measures) == [1, 0, 0]
    assert figures(report, "even", "any@5") == [2, 1]
    assert figures(report, "odd", "any@5") == [2, 0.5]


def test_longmemeval_gives_both_kinds_of_ndcg(tmp_path: Path) -> None:
    file = written(tmp_path, [LONGMEMEVAL[2]])
    (report,) = reports("--longmemeval", file, "--mode", "keyword").values()
    # One of two relevant sessions, in the first place: 1 of 1 + 1/log2(3), and 1 of 1 + 1.
    assert figures(report, "all", "nDCG@5", "nDCG'@5") == [1, 0.6131, 0.5]


def test_a_session_is_a_note_of_both_speakers_whose_name_does_not_tell(tmp_path: Path) -> None:
    file = written(tmp_path, LONGMEMEVAL)
    work = tmp_path / "work"
    reports("--longmemeval", file, "--mode", "keyword", "--work", work, "--first", "2")
    vaults = sorted(folder.name for folder in (work / "longmemeval-s").iterdir())
    assert vaults == ["question-001", "question-002"]
    notes = sorted((work / "longmemeval-s" / "question-001" / "vault").iterdir())
    assert len(notes) == len(SESSIONS)
    assert notes[0].name == "2023-05-01 (Sat) 02-21 session.md"
    assert [note.name for note in notes if "answer" in note.name or "chat" in note.name] == []
    texts = [note.read_text("utf-8") for note in notes]
    assert texts[0] == "user: My cat is called Fitzroy.\n\nassistant: What a fine name for a cat.\n"
    # A fence left open is closed, or the turns after it would be code.
    assert texts[2].endswith("```\nflour\n```\n")


def test_a_session_that_stands_in_the_haystack_twice_is_one_answer(tmp_path: Path) -> None:
    twice = question("q1", "How heavy is Fitzroy?", "multi-session", ["answer_cat_2"])
    for name, value in (
        ("haystack_session_ids", "answer_cat_2"),
        ("haystack_sessions", SESSIONS["answer_cat_2"]),
        ("haystack_dates", "2023/05/02 (Sat) 02:21"),
    ):
        twice[name].append(value)
    (report,) = reports("--longmemeval", written(tmp_path, [twice]), "--mode", "keyword").values()
    assert figures(report, "all", "any@5", "all@5", "nDCG@5") == [1, 1, 1, 1]


# HotpotQA


def hotpot(text: str, kind: str, titles: Sequence[str], **context: str) -> dict[str, object]:
    return {
        "_id": text[:5],
        "question": text,
        "answer": "made up",
        "type": kind,
        "level": "hard",
        "supporting_facts": [[title, 0] for title in titles],
        "context": [
            [title.replace("_", " "), [f"{part}." for part in sentences.split(".") if part]]
            for title, sentences in context.items()
        ],
    }


HOTPOTQA = [
    hotpot(
        "Which river runs by the town where Ada Quill was born?",
        "bridge",
        ["Ada Quill", "Nettleby"],
        Ada_Quill="Ada Quill was a printer born in Nettleby. She died old.",
        Nettleby="Nettleby is a town on the river Sorrel.",
        Brass="Brass is an alloy.",
    ),
    hotpot(
        "Who is older, Ada Quill or Bo Tamm?",
        "comparison",
        ["Ada Quill", "Bo Tamm"],
        Ada_Quill="Another text under a title that is there already.",
        Bo_Tamm="Bo Tamm is a singer.",
        Copper="Copper is a metal.",
    ),
    hotpot(
        "What metal is the bell of the singer made of?",
        "bridge",
        ["Brass", "Lute/Bell"],
        Tin="A metal bell. What metal is the bell of the singer made of.",
        Lead="A metal. Made of lead is the bell of the singer.",
        Zinc="Which metal is the bell made of. The singer knows.",
        Iron="Made of metal. The singer has a bell.",
        Gold="The singer is made of metal. So is the bell.",
        **{"Lute/Bell": "Kept silent."},
    ),
]


def test_hotpotqa_pools_the_paragraphs_and_counts_both_titles_by_type(tmp_path: Path) -> None:
    file = written(tmp_path, HOTPOTQA)
    work = tmp_path / "work"
    (report,) = reports("--hotpotqa", file, "--mode", "keyword", "--work", work).values()
    assert figures(report, "all", "both@5") == [3, 0.6667]
    assert figures(report, "type bridge", "both@5") == [2, 0.5]
    assert figures(report, "type comparison", "both@5") == [1, 1]
    notes = {note.name: note for note in (work / "hotpotqa" / "hotpotqa" / "vault").iterdir()}
    assert len(notes) == 11, "one note a title, from the paragraphs of all questions"
    assert "Lute-Bell.md" in notes
    text = notes["Ada Quill.md"].read_text("utf-8")
    assert text == "Ada Quill was a printer born in Nettleby. She died old.\n"


def test_titles_that_differ_in_case_alone_are_two_notes(tmp_path: Path) -> None:
    asked = hotpot(
        "Which is larger, ORE or Ore?", "comparison", ["ORE", "Ore"], ORE="ORE one.", Ore="Ore two."
    )
    file = written(tmp_path, [asked])
    work = tmp_path / "work"
    (report,) = reports("--hotpotqa", file, "--mode", "keyword", "--work", work).values()
    assert figures(report, "all", "both@5") == [1, 1]
    names = sorted(note.name for note in (work / "hotpotqa" / "hotpotqa" / "vault").iterdir())
    assert names == ["ORE.md", "Ore (2).md"]


@pytest.mark.parametrize(
    ("option", "content", "said"),
    [
        ("--longmemeval", [{"question_id": "q1", "question": "?"}], "lacks question_type"),
        ("--hotpotqa", [HOTPOTQA[0], {"question": "?"}], "question 1 (from 0) lacks type"),
        ("--hotpotqa", {"data": []}, "no list of questions"),
        ("--longmemeval", [], "no list of questions"),
        ("--hotpotqa", [{**HOTPOTQA[0], "supporting_facts": []}], "two supporting titles"),
    ],
)
def test_a_file_of_another_form_is_named_with_what_is_missing(
    tmp_path: Path, option: str, content: object, said: str
) -> None:
    ended = run(option, written(tmp_path, content), "--mode", "keyword")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr
    assert "data.json" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_file_that_is_not_there_or_no_json_is_named(tmp_path: Path) -> None:
    ended = run("--hotpotqa", tmp_path / "nowhere.json")
    assert (ended.returncode, "nowhere.json" in ended.stderr) == (2, True)
    (tmp_path / "broken.json").write_text("[{")
    ended = run("--longmemeval", tmp_path / "broken.json")
    assert (ended.returncode, "broken.json is not JSON" in ended.stderr) == (2, True)


# Sets from a folder of data


def turn(number: str, text: str) -> dict[str, str]:
    return {"speaker": "Ann", "dia_id": number, "text": text}


DIALOGUE = {
    "conversation": {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [turn("D1:1", "I adopted a greyhound."), turn("D1:2", "She is quick.")],
        "session_2_date_time": "2:00 pm on 9 May, 2023",
        "session_2": [turn("D2:1", "I baked a rhubarb cake.")],
    },
    "session_summary": {
        "session_1_summary": "Ann adopted a greyhound, which is quick.",
        "session_2_summary": "Ann baked a cake with rhubarb from the garden.",
    },
    "qa": [
        {"question": "What dog did Ann adopt?", "answer": "A Greyhound", "category": 1,
         "evidence": ["D1:1"]},
        {"question": "What rhubarb dish?", "answer": "cake, with cream; eaten", "category": 1,
         "evidence": ["D2:1"]},
        {"question": "Which rhubarb grows?", "answer": "garden variety", "category": 2,
         "evidence": []},
        {"question": "How many did Ann adopt?", "answer": 1, "category": 3, "evidence": ["D1:1"]},
        {"question": "Which cat?", "answer": "none", "category": 5, "evidence": ["D1:1"]},
    ],
}  # fmt: skip


def test_locomo_summaries_are_judged_by_evidence_and_by_the_published_rule(tmp_path: Path) -> None:
    written(tmp_path, [DIALOGUE], "locomo10.json")
    found = reports("--data", tmp_path, "--sets", "locomo-summaries", "--mode", "keyword")
    # By evidence: not the one without, nor the adversarial one.
    sessions = found["locomo-summaries sessions"]
    assert figures(sessions, "dialogues 1-5", "any@5", "all@5") == [3, 1, 1]
    # By the rule: those with a text as answer. The whole answer stands there; one word of "cake,",
    # "with", "cream;" and "eaten" does (punctuation stays with a word); one of two does.
    assert figures(found["locomo-summaries rule"], "all", "rule@5") == [3, 0.6667]


def test_locomo_still_counts_turns_and_sessions(tmp_path: Path) -> None:
    written(tmp_path, [DIALOGUE], "locomo10.json")
    found = reports("--data", tmp_path, "--sets", "locomo", "--mode", "keyword")
    assert set(found) == {"locomo turns", "locomo sessions"}
    assert figures(found["locomo turns"], "all", "R@5") == [3, 1]


def test_spanish_questions_are_asked_of_english_paragraphs(tmp_path: Path) -> None:
    english = ["The Sorrel flows past Nettleby.", "Ada Quill printed the almanac."]
    spanish = ["El Sorrel pasa por Nettleby.", "Ada Quill imprimió el almanaque."]
    asked = {"en": ["Where does it flow?", "Who printed?"],
             "es": ["¿Por dónde pasa el Sorrel?", "¿Qué imprimió Quill?"]}  # fmt: skip
    for language, texts in (("en", english), ("es", spanish)):
        paragraphs = [
            {"context": text, "qas": [{"id": f"{place}", "question": asked[language][place]}]}
            for place, text in enumerate(texts)
        ]
        articles = {"data": [{"title": "Made_up", "paragraphs": paragraphs}]}
        written(tmp_path, articles, f"xquad.{language}.json")
    work = tmp_path / "work"
    found = reports(
        "--data", tmp_path, "--sets", "xquad-es-en", "--mode", "keyword", "--work", work
    )  # fmt: skip
    # Only the names are shared by the languages.
    assert figures(found["xquad-es-en"], "all", "R@5", "MRR@10") == [2, 1, 1]
    (note,) = (work / "xquad-es-en" / "xquad-es-en" / "vault").iterdir()
    assert "flows past" in note.read_text("utf-8")


# Ways of asking


def test_channels_left_out_stand_beside_the_whole_with_intervals() -> None:
    arguments = ("--questions", SAMPLE_QUESTIONS, SAMPLE, "--mode", "keyword")
    found = reports(*arguments, "--without", "passage", "--without", "window+note")
    whole = found["questions [keyword]"]
    left_out = found["questions [keyword without passage]"]
    assert figures(whole, "all", "MRR@10") != figures(left_out, "all", "MRR@10")
    assert "questions [keyword without window+note]" in found
    changes = found["questions: keyword without passage - keyword"]["changes"]
    assert {"all", "even", "odd", "kind paraphrase"} <= set(changes)
    mrr = changes["all"]["MRR@10"]
    assert round(mrr["first"], 4) == whole["figures"]["all"]["MRR@10"]
    assert round(mrr["second"], 4) == left_out["figures"]["all"]["MRR@10"]
    assert mrr["interval"][0] < mrr["change"] < mrr["interval"][1]


def test_a_mode_that_was_not_to_be_had_is_marked() -> None:
    arguments = ("--questions", SAMPLE_QUESTIONS, SAMPLE, "--first", "4", "--embedder", "none")
    found = reports(*arguments, "--mode", "keyword,semantic")
    assert found["questions [semantic]"]["instead"] == 4
    assert found["questions [keyword]"]["instead"] == 0
    shown = run(*arguments, "--mode", "keyword,semantic").stdout
    assert "! 4 searches were done in mode keyword instead" in shown
    assert "questions: semantic - keyword" in shown


def test_the_measures_are_those_of_the_product(tmp_path: Path) -> None:
    report = reports("--questions", SAMPLE_QUESTIONS, SAMPLE, "--mode", "keyword")["questions"]
    ended = subprocess.run(
        [sys.executable, "-m", "vaultmem", "--vault", str(SAMPLE), "--cache-dir", str(tmp_path),
         "--json", "eval", str(SAMPLE_QUESTIONS), "--mode", "keyword", "--no-compare"],
        env={**os.environ, "VAULTMEM_EMBEDDER_NAME": "none"}, capture_output=True, check=True,
    )  # fmt: skip
    reply = json.loads(ended.stdout)
    assert report["figures"]["all"] == {
        "n": reply["n"],
        "MRR@10": round(reply["mrr"], 4),
        "hit@1": reply["hit@1"],
        "hit@5": reply["hit@5"],
        "hit@10": reply["hit@10"],
    }


def test_questions_may_have_the_keys_of_eval(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in SAMPLE_QUESTIONS.read_text("utf-8").splitlines()[:6]]
    file = tmp_path / "mine.jsonl"
    file.write_text(
        "".join(
            json.dumps({"query": line["q"], "relevant": line["paths"], "kind": line["kind"]}) + "\n"
            for line in lines
        )
    )
    ours = reports("--questions", file, SAMPLE, "--mode", "keyword")
    theirs = reports("--questions", SAMPLE_QUESTIONS, SAMPLE, "--mode", "keyword", "--first", "6")
    assert ours["questions"]["figures"] == theirs["questions"]["figures"]


def test_a_saved_run_is_compared_query_by_query(tmp_path: Path) -> None:
    saved = tmp_path / "run.json"
    arguments = ("--questions", SAMPLE_QUESTIONS, SAMPLE, "--mode", "keyword", "--save", saved)
    reports(*arguments)
    text = saved.read_text("utf-8")
    assert "too many clients" not in text, "ids and figures only"
    ended = run("--compare", saved, saved, "--json")
    change = json.loads(ended.stdout)["questions"]["all"]["MRR@10"]
    assert (change["change"], change["interval"]) == (0, [0, 0])
    assert change["first"] > 0.5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--sets", "nowhere"), "no set nowhere"),
        (("--sets", "locomo"), "needs --data"),
        ((), "Nothing to do"),
        (("--hotpotqa", "x.json", "--mode", "fuzzy"), "no mode fuzzy"),
        (("--hotpotqa", "x.json", "--searcher", "bm25", "--mode", "keyword"), "no modes"),
        (("--compare", "a.json", "b.json"), "not a run"),
    ],
)
def test_wrong_usage_ends_with_two_and_says_what_is_wrong(
    arguments: tuple[str, ...], said: str
) -> None:
    ended = run(*arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr


def test_words_alone_are_a_reference_without_an_index() -> None:
    found = reports("--questions", SAMPLE_QUESTIONS, SAMPLE, "--searcher", "bm25")
    assert figures(found["questions"], "all", "hit@10")[0] == 40
    assert 0.5 < found["questions"]["figures"]["all"]["MRR@10"] < 1
