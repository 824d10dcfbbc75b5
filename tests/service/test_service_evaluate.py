"""evaluate: figures of one's own questions, and nothing counted in silence."""

import json
import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path

import pytest

from vaultmem.model.errors import UsageError
from vaultmem.service.application import Clock, Memory, Progress, open_memory
from vaultmem.service.operations.evaluate import (
    Compared,
    EvaluateReply,
    EvaluateRequest,
    Figures,
    evaluate,
)
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.operations.status import StatusRequest, status
from vaultmem.service.settings import load_settings
from vaultmem.service.shipped import shipped_folder

Open = Callable[..., Memory]

WORDS_ONLY = {"VAULTMEM_EMBEDDER_NAME": "none"}
SAMPLE_QUESTIONS = (Path(__file__).parents[1] / "data" / "sample_questions.jsonl").read_text(
    encoding="utf-8"
)
QUESTIONS = [json.loads(line) for line in SAMPLE_QUESTIONS.splitlines()]

NOTES = {
    "Kiln.md": "The kiln burns clay at twelve hundred degrees.\n",
    "Wheel.md": "The wheel turns clay.\n",
    "Glaze.md": "---\naliases: [Enamel]\n---\nA glaze melts in the kiln.\n\n# Recipes\n\nAsh.\n",
    "Čtvrť/Město.md": "The town quarter.\n",
    "Old/Overview.md": "An overview of old things.\n",
    "New/Overview.md": "An overview of new things.\n",
}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """The sample vault, by words alone."""
    cache = tmp_path_factory.mktemp("cache")
    settings = load_settings(shipped_folder("sample_vault"), cache, environment=WORDS_ONLY)
    memory = open_memory(settings, clock=Clock(now_ns=lambda: 4 * 10**18))
    yield memory
    memory.close()


@pytest.fixture(scope="module")
def measured(sample: Memory) -> EvaluateReply:
    return evaluate(sample, EvaluateRequest(SAMPLE_QUESTIONS, "sample_questions.jsonl"))


@pytest.fixture
def pottery(indexed: Open) -> Memory:
    return indexed(NOTES, environment=WORDS_ONLY)


def line(query: str, *relevant: str, kind: str | None = None) -> str:
    asked = {"query": query, "relevant": list(relevant)} | ({"kind": kind} if kind else {})
    return json.dumps(asked, ensure_ascii=False) + "\n"


def ask(memory: Memory, *lines: str, compare: bool = False) -> EvaluateReply:
    return evaluate(memory, EvaluateRequest("".join(lines), "mine.jsonl", compare=compare))


# Figures, against a second way of working them out


def places(memory: Memory, question: dict[str, str], without: tuple[str, ...]) -> list[int]:
    """The places, from 1, of the acceptable notes among the ten best."""
    request = SearchRequest(question["q"], limit=10, mode="keyword", without=without)
    found = [hit.path for hit in search(memory, request).hits]
    return [place for place, path in enumerate(found, 1) if path in question["paths"]]


def worked_out(
    memory: Memory, kind: str | None = None, without: tuple[str, ...] = ()
) -> list[float]:
    """n, MRR, hit@1, hit@5, hit@10 and nDCG@10, each by its plain formula."""
    asked = [question for question in QUESTIONS if kind in (None, question["kind"])]
    found = [(places(memory, question, without), len(question["paths"])) for question in asked]
    first = [places[0] if places else math.inf for places, _ in found]
    gain = [
        sum(1 / math.log2(place + 1) for place in places)
        / sum(1 / math.log2(place + 1) for place in range(1, relevant + 1))
        for places, relevant in found
    ]
    total = len(asked)
    return [
        total,
        sum(1 / place for place in first) / total,
        *(sum(place <= k for place in first) / total for k in (1, 5, 10)),
        sum(gain) / total,
    ]


def values(figures: Figures | EvaluateReply) -> list[float]:
    return [getattr(figures, field.name) for field in fields(Figures)]


def variant(reply: EvaluateReply, name: str) -> Compared:
    (found,) = [variant for variant in reply.variants if variant.name == name]
    return found


def test_the_figures_are_those_of_the_formulas(sample: Memory, measured: EvaluateReply) -> None:
    assert measured.mode == "keyword"
    assert measured.n == len(QUESTIONS) == 40
    assert values(measured) == pytest.approx(worked_out(sample), abs=1e-6)
    assert 0.5 < measured.mrr < 1


def test_each_kind_has_figures_of_its_own(sample: Memory, measured: EvaluateReply) -> None:
    kinds = sorted({question["kind"] for question in QUESTIONS})
    assert list(measured.by_kind) == kinds
    for kind in kinds:
        expected = worked_out(sample, kind)
        assert values(measured.by_kind[kind]) == pytest.approx(expected, abs=1e-6)
    assert sum(figures.n for figures in measured.by_kind.values()) == measured.n
    assert len({figures.mrr for figures in measured.by_kind.values()}) > 1


def test_a_channel_left_out_changes_the_figures(sample: Memory, measured: EvaluateReply) -> None:
    names = [variant.name for variant in measured.variants]
    assert names == [f"keyword without {channel}" for channel in ("passage", "window", "note")]
    for channel in ("passage", "window", "note"):
        left_out = variant(measured, f"keyword without {channel}")
        expected = worked_out(sample, without=(channel,))
        assert (left_out.mode, left_out.without) == ("keyword", (channel,))
        assert values(left_out.figures) == pytest.approx(expected, abs=1e-6)
        assert list(left_out.by_kind) == list(measured.by_kind)
    assert variant(measured, "keyword without passage").figures.mrr != measured.mrr


def test_a_change_is_the_difference_of_the_figures_and_has_an_interval(
    measured: EvaluateReply,
) -> None:
    names = ["mrr", "hit@1", "hit@5", "hit@10", "ndcg@10"]
    for other in measured.variants:
        assert list(other.changes) == names
        differences = [
            there - here
            for there, here in zip(values(other.figures)[1:], values(measured)[1:], strict=True)
        ]
        changes = list(other.changes.values())
        assert [change.change for change in changes] == pytest.approx(differences, abs=2e-6)
        assert all(change.low <= change.change <= change.high for change in changes)
    mrr = variant(measured, "keyword without passage").changes["mrr"]
    assert mrr.low < mrr.high


def test_a_mode_that_cannot_be_had_is_said_and_not_made_up(measured: EvaluateReply) -> None:
    assert set(measured.unavailable) == {"semantic", "hybrid"}
    assert all(reason.endswith(".") for reason in measured.unavailable.values())
    assert {variant.mode for variant in measured.variants} == {"keyword"}


def test_equal_questions_have_equal_figures_and_intervals(
    sample: Memory, measured: EvaluateReply
) -> None:
    again = evaluate(sample, EvaluateRequest(SAMPLE_QUESTIONS, "sample_questions.jsonl"))
    assert replace(again, seconds=0.0) == replace(measured, seconds=0.0)


def test_without_comparing_only_the_figures_are_given(
    sample: Memory, measured: EvaluateReply
) -> None:
    request = EvaluateRequest(SAMPLE_QUESTIONS, compare=False)
    alone = evaluate(sample, request)
    assert (alone.variants, alone.unavailable) == ((), {})
    assert values(alone) == values(measured)


def test_both_spellings_of_the_keys_are_read(pottery: Memory) -> None:
    ours = ask(pottery, line("kiln burns", "Kiln.md", kind="word"), line("glaze", "Glaze.md"))
    theirs = ask(
        pottery,
        '{"q": "kiln burns", "paths": ["Kiln.md"], "kind": "word"}\n',
        '{"q": "glaze", "paths": ["Glaze.md"]}\n',
    )
    assert replace(ours, seconds=0.0) == replace(theirs, seconds=0.0)
    assert ours.n == 2
    assert ours.mrr == 1


def test_a_note_in_second_place_counts_half(pottery: Memory) -> None:
    first, second = (hit.path for hit in search(pottery, SearchRequest("clay")).hits)
    reply = ask(pottery, line("clay", second))
    assert values(reply) == pytest.approx([1, 0.5, 0, 1, 1, 1 / math.log2(3)], abs=1e-6)
    both = ask(pottery, line("clay", second, first))
    assert values(both) == [1, 1, 1, 1, 1, 1]


def test_questions_without_a_kind_count_in_all_and_in_no_kind(pottery: Memory) -> None:
    reply = ask(pottery, line("clay", "Kiln"), line("glaze", "Glaze", kind="word"))
    assert reply.n == 2
    assert {kind: figures.n for kind, figures in reply.by_kind.items()} == {"word": 1}


def test_a_question_that_finds_nothing_is_a_miss(pottery: Memory) -> None:
    reply = ask(pottery, line("clay", "Kiln"), line("xyzzy plugh", "Kiln"))
    assert reply.n == 2
    assert reply.hit_10 == 0.5


# Which note is meant


@pytest.mark.parametrize(
    ("written", "query"),
    [
        ("Kiln.md", "twelve hundred degrees"),
        ("Kiln", "twelve hundred degrees"),
        ("kiln.md", "twelve hundred degrees"),
        ("/Kiln.md", "twelve hundred degrees"),
        ("Enamel", "glaze melts"),
        ("Glaze#Recipes", "glaze melts"),
        ("Město", "town quarter"),
        (unicodedata.normalize("NFD", "Čtvrť/Město.md"), "town quarter"),
        ("Čtvrť\\Město", "town quarter"),
        ("Old/Overview", "overview of old"),
    ],
)
def test_a_note_is_named_as_for_reading_it(pottery: Memory, written: str, query: str) -> None:
    reply = ask(pottery, line(query, written))
    assert (reply.n, reply.mrr) == (1, 1)
    assert reply.missing == ()


def test_a_note_that_is_not_there_is_told_and_the_others_count(pottery: Memory) -> None:
    reply = ask(pottery, line("glaze", "Glaze"), line("clay", "Kilm.md", "Kiln.md", "Wheel.md"))
    (remark,) = reply.missing
    assert remark.line == 2
    assert "Kilm.md" in remark.message
    assert "Near: Kiln.md" in remark.message
    # With the missing note among the relevant ones, nDCG could not be 1.
    assert (reply.n, reply.ndcg_10, reply.skipped) == (2, 1, ())


def test_a_question_none_of_whose_notes_is_there_is_left_out(pottery: Memory) -> None:
    reply = ask(pottery, line("clay", "Nowhere.md", "Neither.md"), line("glaze", "Glaze"))
    assert (reply.n, reply.mrr) == (1, 1)
    (remark,) = reply.skipped
    assert remark.line == 1
    assert "None of its notes" in remark.message
    assert [remark.line for remark in reply.missing] == [1, 1]


def test_a_name_of_several_notes_is_told_with_their_paths(pottery: Memory) -> None:
    reply = ask(pottery, line("overview", "Overview", "Kiln"))
    (remark,) = reply.missing
    assert "Old/Overview.md" in remark.message
    assert "New/Overview.md" in remark.message


@pytest.mark.parametrize("path", ["../outside.md", ".obsidian/app.json"])
def test_a_path_out_of_the_vault_or_into_hiding_is_told(pottery: Memory, path: str) -> None:
    reply = ask(pottery, line("clay", path, "Kiln"))
    assert path in reply.missing[0].message


# Lines


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("clay -> Kiln.md", "not JSON"),
        ('{"query": "clay", "relevant": ["Kiln.md"]', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("1" * 10_000, "not JSON"),
        ('["clay", "Kiln.md"]', "no object"),
        ('{"relevant": ["Kiln.md"]}', '"query" is missing'),
        ('{"query": 5, "relevant": ["Kiln.md"]}', '"query" is missing or no text'),
        ('{"query": " ", "relevant": ["Kiln.md"]}', '"query" is missing or no text'),
        ('{"query": "clay"}', '"relevant" is missing'),
        ('{"query": "clay", "relevant": "Kiln.md"}', "no list"),
        ('{"query": "clay", "relevant": [5]}', "no list of texts"),
        ('{"query": "clay", "relevant": []}', "names no note"),
        ('{"query": "clay", "relevant": ["Kiln.md"], "kind": 5}', '"kind" is no text'),
    ],
    ids=lambda text: text[:30],
)
def test_a_line_that_is_no_question_is_told_by_its_number(
    pottery: Memory, wrong: str, said: str
) -> None:
    reply = ask(pottery, line("clay", "Kiln"), "\n", f"{wrong}\n", line("glaze", "Glaze"))
    (remark,) = reply.skipped
    assert remark.line == 3
    assert said in remark.message
    assert '{"query": text, "relevant": [notes]}' in remark.message
    assert (reply.n, reply.source) == (2, "mine.jsonl")


def test_a_byte_order_mark_carriage_returns_and_strange_line_ends_do_no_harm(
    pottery: Memory,
) -> None:
    text = "\ufeff" + line("clay\u2028kiln", "Kiln").replace("\n", "\r\n") + "\r\n"
    reply = ask(pottery, text, line("glaze", "Glaze"))
    assert (reply.n, reply.skipped) == (2, ())


@pytest.mark.parametrize("text", ["", "\n \n", "\ufeff"])
def test_no_question_at_all_is_an_error(pottery: Memory, text: str) -> None:
    with pytest.raises(UsageError, match=r"mine\.jsonl holds no question\. Write one a line"):
        ask(pottery, text)


def test_no_question_that_can_be_measured_is_an_error_that_names_the_first_line(
    pottery: Memory,
) -> None:
    with pytest.raises(UsageError, match=r"2 lines were left out\. mine\.jsonl:1: .*Nowhere\.md"):
        ask(pottery, line("clay", "Nowhere.md"), "nonsense\n")


def test_a_mode_that_there_is_not_is_an_error(pottery: Memory) -> None:
    with pytest.raises(UsageError, match="no search mode fuzzy"):
        evaluate(pottery, EvaluateRequest(line("clay", "Kiln"), mode="fuzzy"))


def test_a_mode_that_cannot_be_had_is_degraded(pottery: Memory) -> None:
    reply = evaluate(pottery, EvaluateRequest(line("clay", "Kiln"), mode="semantic"))
    assert reply.mode == "keyword"
    assert reply.degraded != ()


def test_remarks_hold_no_text_of_a_note_and_no_question(pottery: Memory) -> None:
    reply = ask(
        pottery, line("twelve hundred degrees", "Nowhere", "Kiln"), '{"query": "ash", "x": 1}\n'
    )
    messages = " ".join(remark.message for remark in (*reply.missing, *reply.skipped))
    assert messages
    assert "twelve hundred" not in messages
    assert "ash" not in messages


# The vault meanwhile


def test_what_was_edited_a_moment_ago_is_measured(
    pottery: Memory, write: Callable[..., None]
) -> None:
    write(pottery.vault, {"Raku.md": "Raku is fired fast.\n"})
    assert ask(pottery, line("raku fired", "Raku")).mrr == 1


def test_all_questions_are_asked_of_one_state_of_the_vault(open_vault: Open) -> None:
    def meddle(stage: str, done: int, total: int) -> None:
        if stage.startswith("eval") and done == 1:
            (memory.vault / "Wheel.md").write_text("nothing of the kind")

    memory = open_vault(NOTES, progress=Progress(meddle), environment=WORDS_ONLY)
    lines = [line("kiln burns", "Kiln"), line("wheel turns", "Wheel"), line("wheel", "Wheel")]
    assert ask(memory, *lines).mrr == 1
    assert "wheel" not in (memory.vault / "Wheel.md").read_text()
    assert status(memory, StatusRequest()).waiting == 1  # not taken in between two questions


def test_the_memory_goes_on_looking_at_the_vault_afterwards(
    open_vault: Open, write: Callable[..., None], find: Callable[..., list[str]]
) -> None:
    memory = open_vault(NOTES, environment=WORDS_ONLY)
    settings = memory.settings
    ask(memory, line("clay", "Kiln"))
    assert memory.settings is settings
    write(memory.vault, {"Raku.md": "Raku is fired fast.\n"})
    assert find(memory, "raku") == ["Raku.md"]


def test_each_way_of_asking_reports_how_far_it_is(open_vault: Open) -> None:
    told: list[tuple[str, int, int]] = []
    memory = open_vault(
        NOTES, progress=Progress(lambda *report: told.append(report)), environment=WORDS_ONLY
    )
    ask(memory, line("clay", "Kiln"), line("glaze", "Glaze"), compare=True)
    assert [report for report in told if report[0] == "eval keyword without note"] == [
        ("eval keyword without note", done, 2) for done in range(3)
    ]


# Words and meaning


def test_modes_stand_side_by_side_where_there_are_vectors(
    indexed: Open, find: Callable[..., list[str]]
) -> None:
    notes = {
        "Kiln.md": "The kiln burns clay at twelve hundred degrees.\n",
        "Bread.md": "Knead the dough and bake it until the crust is brown.\n",
        "Tax.md": "The invoice is due in March, with the yearly return.\n",
    }
    memory = indexed(notes, environment={"VAULTMEM_EMBEDDER_NAME": "minilm"})
    lines = [line("how do I make a loaf", "Bread"), line("money for the state", "Tax")]
    reply = ask(memory, *lines, compare=True)
    assert (reply.mode, reply.unavailable) == ("hybrid", {})
    channels = ("passage", "window", "note", "vector")
    assert [variant.name for variant in reply.variants] == [
        "keyword",
        "semantic",
        *(f"hybrid without {channel}" for channel in channels),
    ]
    # No word of these questions is in the notes: only their meaning leads there.
    assert variant(reply, "semantic").figures.mrr == 1
    assert variant(reply, "keyword").figures.mrr < 1
    assert variant(reply, "hybrid without vector").figures.mrr < reply.mrr
    assert variant(reply, "keyword").changes["mrr"].change < 0


def test_questions_that_had_to_do_without_vectors_are_counted_and_told(
    open_vault: Open, indexed: Open
) -> None:
    def meddle(stage: str, done: int, total: int) -> None:
        if stage == "eval best" and done == 2:
            for file in memory.folder.glob("embeddings*"):
                file.unlink()

    vectors = {"VAULTMEM_EMBEDDER_NAME": "minilm", "VAULTMEM_SEARCH_REFRESH": "never"}
    indexed({"Kiln.md": "The kiln burns clay.\n"}, environment=vectors)
    memory = open_vault(progress=Progress(meddle), environment=vectors)
    reply = ask(memory, *[line("where is pottery fired", "Kiln")] * 3)
    assert reply.mode == "hybrid"
    assert "hybrid: 1 of 3 questions were searched in mode keyword." in reply.degraded


def test_what_an_evaluation_opens_belongs_to_the_memory_that_closes_it(
    open_vault: Open, indexed: Open
) -> None:
    vectors = {"VAULTMEM_EMBEDDER_NAME": "minilm"}
    indexed({"Kiln.md": "The kiln burns clay.\n"}, environment=vectors)
    memory = open_vault(environment={**vectors, "VAULTMEM_SEARCH_REFRESH": "never"})
    assert ask(memory, line("where is pottery fired", "Kiln")).mode == "hybrid"
    assert memory.cache is not None


def test_a_set_of_one_question_has_an_interval_of_one_point(pottery: Memory) -> None:
    reply = ask(pottery, line("clay", "Kiln"), compare=True)
    intervals: Sequence[tuple[float, float]] = [
        (change.change - change.low, change.high - change.change)
        for other in reply.variants
        for change in other.changes.values()
    ]
    assert intervals
    assert set(intervals) == {(0, 0)}
