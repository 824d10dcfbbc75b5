"""Mistakes that other programs were reported for, replayed from their inputs."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from vaultmem.service.application import Memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchReply, SearchRequest, search

Open = Callable[..., Memory]
Find = Callable[..., list[str]]

REPORTS = Path(__file__).parents[1] / "data" / "reports"


@pytest.fixture
def report(tmp_path: Path, open_vault: Open) -> Callable[[str], Memory]:
    """Open a copy of a report's vault."""

    def open_report(name: str) -> Memory:
        shutil.copytree(REPORTS / name / "vault", tmp_path / "vault")
        memory = open_vault()
        index(memory, IndexRequest())
        return memory

    return open_report


def keyword(memory: Memory, query: str, **options: tuple[str, ...] | str | int) -> SearchReply:
    return search(memory, SearchRequest(query, mode="keyword", **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "query", ["write-back ingest lint", "state-of-the-art", '"state-of-the-art"']
)
def test_report_04_hyphenated_words_are_found(query: str, report: Callable[[str], Memory]) -> None:
    reply = keyword(report("04-hyphenated-words"), query)
    assert reply.hits[0].path == "Ingest lint.md"
    assert reply.degraded == ()


def test_report_04_hyphenated_stop_words_find_nothing_without_an_error(
    report: Callable[[str], Memory],
) -> None:
    reply = keyword(report("04-hyphenated-words"), "not-there")
    assert (reply.hits, reply.degraded) == ((), ())


def test_report_05_no_punctuated_query_fails_and_names_find_their_note(
    report: Callable[[str], Memory], find: Find
) -> None:
    memory = report("05-punctuated-queries")
    text = (REPORTS / "05-punctuated-queries" / "queries.txt").read_text(encoding="utf-8")
    for query in ["", *text.splitlines()]:
        found = find(memory, query, mode="keyword")
        if not any(character.isalnum() for character in query):
            assert found == [], query
    assert find(memory, "00-index.md")[0] == "00-index.md"
    for query in ("current.md", "Debian 13.2", "C++23", "--no-verify"):
        assert find(memory, query)[0] == "current.md", query
    for query in ('"never again', 'never again"', "(twice"):
        assert find(memory, query)[0] == "Quotes.md", query


@pytest.mark.parametrize("query", ["theoreme de konigsberg", "Konigsberg", "lampotila"])
def test_report_06_accents_do_not_matter_for_finding_and_are_shown(
    query: str, report: Callable[[str], Memory]
) -> None:
    hit = keyword(report("06-diacritics"), query).hits[0]
    assert hit.path == "Théorème de Königsberg.md"
    assert hit.title == "Théorème de Königsberg"
    assert "Théorème de Königsberg" in hit.snippet
    assert "Lämpötila" in hit.snippet


@pytest.mark.parametrize("query", ["caf\u00e9", "cafe\u0301", "cafe", "CAFÉ"])
def test_report_06_composed_decomposed_and_plain_letters_are_one(
    query: str, report: Callable[[str], Memory], find: Find
) -> None:
    assert find(report("06-diacritics"), query) == ["nfd.md"]


def test_report_06_a_voicing_mark_makes_another_letter(
    report: Callable[[str], Memory], find: Find
) -> None:
    memory = report("06-diacritics")
    assert find(memory, "バカ")[0] == "バカ.md"
    assert find(memory, "ハカ")[0] == "ハカ.md"


NEAREST = "repairing a wooden rowing boat"
SHARING_A_STEM = {"Wanted/w2.md"}  # "boats"; the others share no word stem


@pytest.fixture
def noisy(indexed: Open) -> Memory:
    """200 near notes in Noise, and three wanted ones that are tagged and dated."""
    noise = f"---\ndate: 2019-01-01\n---\n{NEAREST}, part "
    wanted = (
        "caulking an old dinghy",
        "mending the skiff below the waterline",
        "varnish for small boats",
    )
    return indexed(
        {f"Noise/n{i}.md": f"{noise}{i}\n" for i in range(200)}
        | {
            f"Wanted/w{i}.md": f"---\ndate: 2026-05-0{i + 1}\ntags: [keep]\n---\n{text}\n"
            for i, text in enumerate(wanted)
        }
    )


@pytest.mark.parametrize(
    "condition",
    [
        {"paths": ("Wanted",)},
        {"tags": ("keep",)},
        {"after": "2026"},
        {"after": "2026-01-01", "before": "2026-12-31", "tags": ("keep",), "paths": ("Wanted",)},
    ],
    ids=["folder", "tag", "date", "all"],
)
def test_report_26_a_filter_is_applied_before_the_cut(
    condition: dict[str, tuple[str, ...] | str], noisy: Memory
) -> None:
    reply = keyword(noisy, NEAREST, limit=5, **condition)
    assert {hit.path for hit in reply.hits} == SHARING_A_STEM


def test_report_26_a_filter_written_into_the_question_does_the_same(
    noisy: Memory, find: Find
) -> None:
    for condition in ("path:Wanted", "tag:keep", "after:2026"):
        assert set(find(noisy, f"{NEAREST} {condition}", limit=5)) == SHARING_A_STEM


def test_report_26_nothing_of_an_excluded_folder_is_found(
    noisy: Memory, open_vault: Open, find: Find
) -> None:
    without = open_vault(environment={"VAULTMEM_SCAN_IGNORE": "Noise"}, cache="without")
    assert set(find(without, NEAREST, limit=5)) == SHARING_A_STEM


def test_report_26_nonsense_finds_nothing(noisy: Memory) -> None:
    assert len(keyword(noisy, NEAREST, limit=5).hits) == 5
    assert keyword(noisy, "xyzzy plugh", limit=5).hits == ()
