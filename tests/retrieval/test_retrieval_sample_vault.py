"""The questions a person would ask of the sample vault."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vaultmem.service.application import Clock, Memory, open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.settings import load_settings
from vaultmem.service.shipped import shipped_folder

Find = Callable[..., list[str]]

QUESTIONS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "sample_questions.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
# Questions in plain sentences and paraphrases are the business of the retrieval benchmark.
BY_WORDS = [
    q for q in QUESTIONS if q["kind"] in ("exact", "alias", "code", "typo", "multi", "date")
]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    cache = tmp_path_factory.mktemp("cache")
    settings = load_settings(
        shipped_folder("sample_vault"), cache, environment={"VAULTMEM_EMBEDDER_NAME": "none"}
    )
    memory = open_memory(settings, clock=Clock(now_ns=lambda: 4 * 10**18))
    index(memory, IndexRequest())
    yield memory
    memory.close()


def test_there_are_questions_of_every_kind() -> None:
    assert len(BY_WORDS) >= 25
    assert len({question["kind"] for question in BY_WORDS}) == 6


@pytest.mark.parametrize("question", BY_WORDS, ids=lambda q: f"{q['kind']}: {q['q']}")
def test_an_acceptable_note_is_among_the_first_three(
    question: dict[str, list[str]], sample: Memory, find: Find
) -> None:
    found = find(sample, question["q"], limit=3)
    assert set(found) & set(question["paths"]), found


def test_every_acceptable_note_exists(sample: Memory) -> None:
    for question in QUESTIONS:
        for path in question["paths"]:
            assert (sample.vault / path).is_file(), path


@pytest.mark.parametrize(
    "query", ["certificate of the purple elephant parade", "zebra migration to the moon colony"]
)
def test_a_question_that_shares_one_common_word_gets_weak_hits(query: str, sample: Memory) -> None:
    hits = search(sample, SearchRequest(query)).hits
    assert hits
    assert all(hit.weak for hit in hits)


def test_a_question_that_is_answered_is_not_weak(sample: Memory) -> None:
    hits = search(sample, SearchRequest("sorry, too many clients already")).hits
    assert not hits[0].weak
    assert hits[0].evidence.coverage > 0.9
    assert hits[0].evidence.missing == ()


def test_nonsense_finds_nothing(sample: Memory, find: Find) -> None:
    assert find(sample, "xyzzy plugh") == []


def test_a_stub_is_marked(sample: Memory) -> None:
    hits = search(sample, SearchRequest("untitled")).hits
    stubs = {hit.path for hit in hits if hit.stub}
    assert "Inbox/Untitled.md" in stubs
    first = search(sample, SearchRequest("too many clients")).hits[0]
    assert not first.stub


def test_every_hit_can_be_found_where_it_says(sample: Memory) -> None:
    for question in BY_WORDS:
        for hit in search(sample, SearchRequest(question["q"], passages=True)).hits:
            lines = (sample.vault / hit.path).read_text(encoding="utf-8").split("\n")
            first, last = hit.lines
            assert 1 <= first <= last <= len(lines)
            passage = " ".join(" ".join(lines[first - 1 : last]).split())
            assert hit.snippet.strip("…") in passage
            assert not hit.stale
            assert 0 <= hit.score <= 1
