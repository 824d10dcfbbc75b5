"""What a person knows is there comes first, however near other notes' meanings are."""

from collections.abc import Callable

import pytest

from vaultmem.model.errors import UsageError
from vaultmem.service.application import Memory
from vaultmem.service.language import is_english, is_read_by_multilingual, multilingual_share
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.operations.status import StatusRequest, status

Open = Callable[..., Memory]

MEANING = {"VAULTMEM_EMBEDDER_NAME": "minilm"}
NOTES = {
    "Brakes.md": "Herr Meier changed the pads of the bicycle.",
    "Boiler.md": "The boiler was serviced and costs too much.",
    "Starter.md": "Feed the sourdough starter with rye flour before baking a loaf.",
    "Breaks.md": "We break the work into short pauses. A break every hour.",
    "Dentist.md": "Appointment with Doctor Keller about the tooth.",
    "Tenant.md": "The landlord wants to see the flat.",
    "Empty.md": "",
    "Only properties.md": "---\nstatus: open\n---\n",
    "Heading.md": "# Vault\n\n## Food\n\n## Mister Keller\n",
}


@pytest.fixture
def vault(indexed: Open) -> Memory:
    return indexed(NOTES, environment=MEANING)


def paths(memory: Memory, query: str, **options: object) -> list[str]:
    reply = search(memory, SearchRequest(query, **options))  # type: ignore[arg-type]
    return [hit.path for hit in reply.hits]


@pytest.mark.parametrize(
    ("word", "holder"),
    [("meier", "Brakes.md"), ("landlord", "Tenant.md"), ("appointment", "Dentist.md")],
)
def test_the_one_note_that_holds_a_word_is_first(vault: Memory, word: str, holder: str) -> None:
    assert paths(vault, word)[0] == paths(vault, word, mode="keyword")[0] == holder
    assert not search(vault, SearchRequest(word)).hits[0].weak


@pytest.mark.parametrize("query", ["pizza", "food", "holiday", "gym"])
def test_what_says_nothing_is_near_no_meaning(vault: Memory, query: str) -> None:
    silent = {"Empty.md", "Only properties.md", "Heading.md"}
    assert silent.isdisjoint(paths(vault, query, mode="semantic"))
    assert paths(vault, query, mode="semantic")


def test_what_says_nothing_is_embedded_all_the_same_and_found_by_its_words(vault: Memory) -> None:
    state = status(vault, StatusRequest())
    assert (state.vectors, state.chunks) == (state.chunks, state.chunks)
    assert paths(vault, "status open")[0] == "Only properties.md"


def test_a_word_spelt_right_is_answered_by_meaning_and_not_repaired(vault: Memory) -> None:
    reply = search(vault, SearchRequest("bread"))
    assert reply.repaired == {}
    assert reply.hits[0].path == "Starter.md"
    assert search(vault, SearchRequest("sourdogh")).repaired == {"sourdogh": "sourdough"}


def test_semantic_search_cannot_do_without_its_channel(vault: Memory) -> None:
    with pytest.raises(UsageError, match="cannot be left out"):
        search(vault, SearchRequest("kiln", mode="semantic", without=("vector",)))


def test_a_phrase_that_is_elsewhere_is_not_said_to_be_nowhere(vault: Memory) -> None:
    inside = search(vault, SearchRequest('"short pauses" path:Boiler.md'))
    assert "within these filters" in " ".join(inside.degraded)
    both = search(vault, SearchRequest('"short pauses" "no such phrase"'))
    assert '"short pauses"' not in " ".join(both.degraded)
    assert '"no such phrase"' in " ".join(both.degraded)


def test_evidence_says_what_a_channel_counts_for(vault: Memory) -> None:
    (first, *_) = search(vault, SearchRequest("landlord")).hits
    weights = {channel.channel: channel.weight for channel in first.evidence.channels}
    assert weights == {"passage": 1.0, "vector": 1.5, "window": 1.0, "note": 1.0}


def test_status_does_not_speak_of_vectors_that_are_switched_off(
    vault: Memory, open_vault: Open
) -> None:
    assert status(vault, StatusRequest()).embedder is not None
    off = open_vault(environment={"VAULTMEM_EMBEDDER_NAME": "none"})
    assert status(off, StatusRequest()).embedder is None


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Der Ofen ist nicht mehr zu gebrauchen und wird bald von uns verkauft.", True),
        ("El horno no se puede usar y la semana que viene lo vendemos.", True),
        ("Печь больше не работает, мы её скоро продадим.", True),
        ("窯はもう使えないので、もうすぐ売ります。", True),
        ("Uuni ei enää toimi, joten myymme sen pian pois naapurille.", False),
        ("Ο φούρνος δεν λειτουργεί πια και θα τον πουλήσουμε σύντομα.", False),
        ("התנור כבר לא עובד ולכן נמכור אותו בקרוב.", False),
        ("भट्टी अब काम नहीं करती, इसलिए हम इसे जल्द बेच देंगे।", False),
    ],
)
def test_the_multilingual_model_is_not_taken_for_one_of_every_language(
    text: str, read: bool
) -> None:
    assert is_english(text) is False
    assert is_read_by_multilingual(text) is read


def test_a_vault_in_a_language_that_no_model_reads_keeps_the_built_in_one(indexed: Open) -> None:
    greek = {f"{n}.md": f"Ο φούρνος {n} δεν λειτουργεί πια και θα πουληθεί." for n in range(4)}
    memory = indexed(greek, environment={"VAULTMEM_EMBEDDER_NAME": "auto"})
    assert memory.sidecar is not None
    assert multilingual_share(memory.sidecar) == 0
    use = index(memory, IndexRequest()).embedder
    assert use is not None
    assert (use.provider, use.advice) == ("minilm", "")


def test_a_vault_of_lists_is_judged_by_all_of_its_words(indexed: Open) -> None:
    lists = {
        f"{n}.md": f"- Haustier {n}\n- Katze und Hund\n- Futter kaufen\n- Tierarzt fragen\n"
        for n in range(6)
    }
    memory = indexed(lists, environment={"VAULTMEM_EMBEDDER_NAME": "auto"})
    use = index(memory, IndexRequest()).embedder
    assert use is not None
    assert use.provider == "multilingual"
