"""Mistakes that other programs were reported for, replayed from their inputs."""

import shutil
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vaultmem.model.errors import NoteNotFound
from vaultmem.service.application import Clock, Memory, open_memory
from vaultmem.service.find_note import find_note
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchReply, SearchRequest, search
from vaultmem.service.settings import load_settings
from vaultmem.surfaces.render import render_search

Open = Callable[..., Memory]
Find = Callable[..., list[str]]
OpenReport = Callable[[str], Memory]

REPORTS = Path(__file__).parents[1] / "data" / "reports"


@pytest.fixture
def report(tmp_path: Path, open_vault: Open) -> OpenReport:
    """Open a copy of a report's vault."""

    def open_report(name: str) -> Memory:
        shutil.copytree(REPORTS / name / "vault", tmp_path / "vault")
        memory = open_vault()
        index(memory, IndexRequest())
        return memory

    return open_report


@pytest.fixture(scope="module")
def embed() -> Iterator[Open]:
    """Open the vault in a folder, embedded by the built-in model: embed(folder, cache=…, KEY=…)."""
    opened: list[Memory] = []

    def embed_one(folder: Path, cache: str = "cache", **settings: str) -> Memory:
        environment = {"VAULTMEM_EMBEDDER_NAME": "minilm", **settings}
        memory = open_memory(
            load_settings(folder / "vault", folder / cache, environment=environment),
            clock=Clock(now_ns=lambda: 10**18, elapsed=lambda: 0.0),
        )
        opened.append(memory)
        index(memory, IndexRequest())
        return memory

    yield embed_one
    for memory in opened:
        memory.close()


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory, embed: Open) -> OpenReport:
    """Open a copy of a report's vault that is searched by meaning too; one for all tests."""
    opened: dict[str, Memory] = {}

    def open_report(name: str) -> Memory:
        if name not in opened:
            folder = tmp_path_factory.mktemp("report")
            shutil.copytree(REPORTS / name / "vault", folder / "vault")
            opened[name] = embed(folder)
        return opened[name]

    return open_report


def ask(memory: Memory, query: str, **options: object) -> SearchReply:
    return search(memory, SearchRequest(query, **options))  # type: ignore[arg-type]


def keyword(memory: Memory, query: str, **options: object) -> SearchReply:
    return ask(memory, query, mode="keyword", **options)


def paths(reply: SearchReply) -> list[str]:
    return [hit.path for hit in reply.hits]


# 04


HYPHENATED = ["write-back ingest lint", "state-of-the-art", '"state-of-the-art"']


@pytest.mark.parametrize("query", HYPHENATED)
def test_report_04_hyphenated_words_are_found(query: str, report: OpenReport) -> None:
    reply = keyword(report("04-hyphenated-words"), query)
    assert reply.hits[0].path == "Ingest lint.md"
    assert reply.degraded == ()


def test_report_04_hyphenated_stop_words_find_nothing_without_an_error(report: OpenReport) -> None:
    reply = keyword(report("04-hyphenated-words"), "not-there")
    assert (reply.hits, reply.degraded) == ((), ())


@pytest.mark.parametrize("query", HYPHENATED)
def test_report_04_meaning_never_has_to_answer_for_hyphenated_words_alone(
    query: str, embedded: OpenReport
) -> None:
    reply = ask(embedded("04-hyphenated-words"), query)
    assert (reply.mode, reply.degraded) == ("hybrid", ())
    (first, *_) = reply.hits
    assert first.path == "Ingest lint.md"
    ranks = {channel.channel: channel.rank for channel in first.evidence.channels}
    assert (ranks["passage"], ranks["note"]) == (1, 1)
    assert ranks["vector"] is not None


# 05


PUNCTUATED = (REPORTS / "05-punctuated-queries" / "queries.txt").read_text("utf-8").splitlines()
ONLY_PUNCTUATION = ["*", "^", "{}[]'`;", "#"]
NAMED = {
    "00-index.md": "00-index.md",
    "current.md": "current.md",
    "Debian 13.2": "current.md",
    "C++23": "current.md",
    "--no-verify": "current.md",
    '"never again': "Quotes.md",
    'never again"': "Quotes.md",
    "(twice": "Quotes.md",
}


def test_report_05_the_queries_are_those_of_the_report() -> None:
    assert set(PUNCTUATED) > {*ONLY_PUNCTUATION, *NAMED}
    assert [q for q in PUNCTUATED if not any(c.isalnum() for c in q)] == ONLY_PUNCTUATION
    assert len(PUNCTUATED) == 18


def test_report_05_no_punctuated_query_fails(report: OpenReport) -> None:
    memory = report("05-punctuated-queries")
    for query in ["", *PUNCTUATED]:
        reply = keyword(memory, query)
        assert (reply.query, reply.mode, reply.degraded) == (query, "keyword", ())


@pytest.mark.parametrize(("query", "path"), NAMED.items())
def test_report_05_the_note_that_holds_it_is_first(
    query: str, path: str, report: OpenReport
) -> None:
    assert paths(keyword(report("05-punctuated-queries"), query))[0] == path


@pytest.mark.parametrize("query", ["", *ONLY_PUNCTUATION])
def test_report_05_punctuation_alone_finds_nothing(query: str, report: OpenReport) -> None:
    assert keyword(report("05-punctuated-queries"), query).hits == ()


def test_report_05_no_punctuated_query_fails_where_meaning_is_asked_too(
    embedded: OpenReport,
) -> None:
    memory = embedded("05-punctuated-queries")
    for mode in ("hybrid", "semantic"):
        for query in ["", *PUNCTUATED]:
            reply = ask(memory, query, mode=mode)
            assert (reply.query, reply.mode, reply.degraded) == (query, mode, ())


@pytest.mark.parametrize(("query", "path"), NAMED.items())
def test_report_05_the_note_that_holds_it_is_first_where_meaning_is_asked_too(
    query: str, path: str, embedded: OpenReport
) -> None:
    reply = ask(embedded("05-punctuated-queries"), query)
    assert (reply.mode, paths(reply)[0]) == ("hybrid", path)


@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
@pytest.mark.parametrize("query", ["", *ONLY_PUNCTUATION])
def test_report_05_punctuation_alone_has_no_meaning_to_be_near_to(
    query: str, mode: str, embedded: OpenReport
) -> None:
    assert ask(embedded("05-punctuated-queries"), query, mode=mode).hits == ()


# 06


PLAIN = ["theoreme de konigsberg", "Konigsberg", "lampotila"]
CAFES = ["caf\u00e9", "cafe\u0301", "cafe", "CAFÉ"]


@pytest.mark.parametrize("query", PLAIN)
def test_report_06_accents_do_not_matter_for_finding_and_are_shown(
    query: str, report: OpenReport
) -> None:
    reply = keyword(report("06-diacritics"), query)
    (hit,) = reply.hits
    assert reply.repaired == {}  # a letter without its accent is no slip
    assert hit.path == "Théorème de Königsberg.md"
    assert hit.title == "Théorème de Königsberg"
    assert "Théorème de Königsberg" in hit.snippet
    assert "Lämpötila" in hit.snippet


@pytest.mark.parametrize("query", ["Théorème de Königsberg", "Königsberg", "Lämpötila"])
def test_report_06_accents_may_be_typed_in_either_form(query: str, report: OpenReport) -> None:
    memory = report("06-diacritics")
    for form in ("NFC", "NFD"):
        reply = keyword(memory, unicodedata.normalize(form, query))
        assert (paths(reply), reply.repaired) == (["Théorème de Königsberg.md"], {})


@pytest.mark.parametrize("query", CAFES)
def test_report_06_composed_decomposed_and_plain_letters_are_one(
    query: str, report: OpenReport
) -> None:
    reply = keyword(report("06-diacritics"), query)
    (hit,) = reply.hits
    assert (hit.path, reply.repaired) == ("nfd.md", {})
    assert "The café on Maple Lane." in unicodedata.normalize("NFC", hit.snippet)


def test_report_06_a_voicing_mark_makes_another_letter(report: OpenReport, find: Find) -> None:
    memory = report("06-diacritics")
    for form in ("NFC", "NFD"):
        assert find(memory, unicodedata.normalize(form, "バカ")) == ["バカ.md"]
        assert find(memory, unicodedata.normalize(form, "ハカ")) == ["ハカ.md", "バカ.md"]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        *((query, "Théorème de Königsberg.md") for query in PLAIN),
        *((query, "nfd.md") for query in CAFES),
        ("バカ", "バカ.md"),
        ("ハカ", "ハカ.md"),
    ],
)
def test_report_06_words_decide_where_meaning_is_asked_too(
    query: str, path: str, embedded: OpenReport
) -> None:
    reply = ask(embedded("06-diacritics"), query)
    assert (reply.mode, reply.hits[0].path, reply.repaired) == ("hybrid", path, {})
    assert not reply.hits[0].weak


# 17


@pytest.mark.parametrize(
    "tag",
    ["garden/beds", "garden", "公共事务", "to-do", "a/b", "a", "ff8800", "#to-do", "GARDEN/Beds"],
)
def test_report_17_a_note_is_found_by_its_tags(tag: str, report: OpenReport) -> None:
    memory = report("17-heading-link-is-no-tag")
    assert paths(keyword(memory, f"tag:{tag}")) == ["Plan.md"]
    assert paths(keyword(memory, "water", tags=(tag,))) == ["Plan.md"]


@pytest.mark.parametrize(
    "tag",
    ["Front", "Front bed", "Rear", "Rear bed", "frag", "123", "no", "code", "id", "Four", "beds"],
)
def test_report_17_no_note_is_found_by_what_is_no_tag(tag: str, report: OpenReport) -> None:
    memory = report("17-heading-link-is-no-tag")
    assert paths(keyword(memory, f'tag:"{tag}"')) == []
    assert paths(keyword(memory, "bed", tags=(tag,))) == []
    assert set(paths(keyword(memory, "bed"))) == {"Plan.md", "Other.md"}


# 20


@pytest.mark.parametrize(
    ("alias", "path"),
    [
        *((alias, "Nan Okafor.md") for alias in ("Nan", "NaN", "nan", "2026-05-04", "yes", "YES")),
        ('say "hi"', "Nan Okafor.md"),
        ("just one, or two", "One.md"),
    ],
)
def test_report_20_an_alias_is_known_as_it_was_typed(
    alias: str, path: str, report: OpenReport
) -> None:
    memory = report("20-typed-alias-values")
    with memory.guarded():
        found, subpath = find_note(memory.lookup(), alias, memory.vault)
    assert (found.path, subpath) == (path, "")
    assert paths(keyword(memory, alias))[0] == path


@pytest.mark.parametrize(
    "text",
    ["7", "007", "1.1", "1.10", "True", "true", "~", "null", "None", "just one", "or two", "bad"],
)
def test_report_20_nobody_is_called_what_yaml_makes_no_text_of(
    text: str, report: OpenReport
) -> None:
    memory = report("20-typed-alias-values")
    with memory.guarded(), pytest.raises(NoteNotFound):
        find_note(memory.lookup(), text, memory.vault)


# 26


NEAREST = "repairing a wooden rowing boat"
NONSENSE = "xyzzy plugh"
TEXTS = (
    "caulking an old dinghy",
    "mending the skiff below the waterline",
    "varnish for small boats",
)
# 200 near notes in Noise, and three wanted ones that are tagged and dated.
NOISE = {f"Noise/n{i}.md": f"---\ndate: 2019-01-01\n---\n{NEAREST}, part {i}\n" for i in range(200)}
WANTED = {
    f"Wanted/w{i}.md": f"---\ndate: 2026-05-0{i + 1}\ntags: [keep]\n---\n{text}\n"
    for i, text in enumerate(TEXTS)
}
SHARING_A_STEM = {"Wanted/w2.md"}  # "boats"; the others share no word stem

CONDITIONS = pytest.mark.parametrize(
    "condition",
    [
        {"paths": ("Wanted",)},
        {"tags": ("keep",)},
        {"after": "2026"},
        {"after": "2026-01-01", "before": "2026-12-31", "tags": ("keep",), "paths": ("Wanted",)},
    ],
    ids=["folder", "tag", "date", "all"],
)
WRITTEN = pytest.mark.parametrize("condition", ["path:Wanted", "tag:keep", "after:2026"])
BY_MEANING = pytest.mark.parametrize("mode", ["semantic", "hybrid"])


@pytest.fixture
def noisy(indexed: Open) -> Memory:
    return indexed(NOISE | WANTED)


@CONDITIONS
def test_report_26_a_filter_is_applied_before_the_cut(
    condition: dict[str, object], noisy: Memory
) -> None:
    assert all(path in NOISE for path in paths(keyword(noisy, NEAREST, limit=5)))
    reply = keyword(noisy, NEAREST, limit=5, **condition)
    assert set(paths(reply)) == SHARING_A_STEM


@WRITTEN
def test_report_26_a_filter_written_into_the_question_does_the_same(
    condition: str, noisy: Memory
) -> None:
    assert set(paths(keyword(noisy, f"{NEAREST} {condition}", limit=5))) == SHARING_A_STEM


def test_report_26_nothing_of_an_excluded_folder_is_found(noisy: Memory, open_vault: Open) -> None:
    without = open_vault(environment={"VAULTMEM_SCAN_IGNORE": "Noise"}, cache="without")
    assert set(paths(keyword(without, NEAREST, limit=5))) == SHARING_A_STEM
    assert keyword(without, NONSENSE, limit=5).hits == ()


def test_report_26_nonsense_finds_nothing(noisy: Memory) -> None:
    assert len(keyword(noisy, NEAREST, limit=5).hits) == 5
    assert keyword(noisy, NONSENSE, limit=5).hits == ()


@pytest.fixture(scope="module")
def boats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same vault, for searches by meaning."""
    folder = tmp_path_factory.mktemp("boats")
    for path, text in (NOISE | WANTED).items():
        file = folder / "vault" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def near(boats: Path, embed: Open) -> Memory:
    return embed(boats)


@pytest.fixture(scope="module")
def archived(boats: Path, near: Memory, embed: Open) -> Memory:
    """The same index after a rule has put away all of Noise, whose vectors are still there."""
    near.close()  # so that all of it is in the files; it is opened again when it is asked
    shutil.copytree(boats / "cache", boats / "archived")
    return embed(boats, "archived", VAULTMEM_SCAN_IGNORE="Noise")


def cosines(reply: SearchReply) -> list[float]:
    return [
        channel.raw
        for hit in reply.hits
        for channel in hit.evidence.channels
        if channel.channel == "vector"
    ]


@BY_MEANING
@CONDITIONS
def test_report_26_all_that_a_filter_allows_is_found_by_meaning(
    condition: dict[str, object], mode: str, near: Memory
) -> None:
    assert all(path in NOISE for path in paths(ask(near, NEAREST, mode=mode, limit=5)))
    reply = ask(near, NEAREST, mode=mode, limit=5, **condition)
    assert (reply.mode, reply.degraded) == (mode, ())
    assert sorted(paths(reply)) == sorted(WANTED)


@BY_MEANING
@WRITTEN
def test_report_26_all_that_a_written_filter_allows_is_found_by_meaning(
    condition: str, mode: str, near: Memory
) -> None:
    reply = ask(near, f"{NEAREST} {condition}", mode=mode, limit=5)
    assert sorted(paths(reply)) == sorted(WANTED)


@BY_MEANING
def test_report_26_all_that_is_not_put_away_is_found_by_meaning(
    mode: str, archived: Memory
) -> None:
    reply = ask(archived, NEAREST, mode=mode, limit=5)
    assert (reply.mode, reply.degraded) == (mode, ())
    assert sorted(paths(reply)) == sorted(WANTED)


def test_report_26_what_is_put_away_is_not_found_by_words_either(archived: Memory) -> None:
    assert set(paths(keyword(archived, NEAREST, limit=5))) == SHARING_A_STEM


@BY_MEANING
def test_report_26_nonsense_is_answered_otherwise_and_shown_to_be_weak(
    mode: str, near: Memory, archived: Memory
) -> None:
    for memory in (near, archived):
        asked, nonsense = (ask(memory, q, mode=mode, limit=5) for q in (NEAREST, NONSENSE))
        scored = [[(hit.path, hit.score) for hit in reply.hits] for reply in (asked, nonsense)]
        assert scored[0] != scored[1]
        assert all(hit.weak and hit.score < 1 for hit in nonsense.hits)
        assert max(cosines(nonsense)) < 0.25 < max(cosines(asked))
        assert render_search(nonsense, explain=False).startswith("No note ")
    assert not any(hit.weak for hit in ask(near, NEAREST, mode=mode, limit=5).hits)
