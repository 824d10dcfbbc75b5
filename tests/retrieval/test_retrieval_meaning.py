"""The vector channel over real vectors: nearest passages, under filters, from a true floor."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from vaultmem.embedding.embedder import Embedder, Languages
from vaultmem.embedding.matrix import open_matrix
from vaultmem.index.lookup import Lookup
from vaultmem.index.scope import Scope
from vaultmem.index.vectors import PassageVectors
from vaultmem.model.query import Filters
from vaultmem.retrieval.fusion import Channel
from vaultmem.retrieval.meaning import Meaning, Question
from vaultmem.service.application import Clock, Memory, open_memory
from vaultmem.service.embedders import chosen_name, open_embedder, serving_space
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.settings import load_settings

ENGLISH = (
    "The oven for pots climbs to twelve hundred degrees before the clay is hard.",
    "The cat sleeps at the window and purrs when somebody gives her milk.",
    "All papers about income must reach the office before the end of March.",
    "The bread rises in a cold kitchen at night and is baked with steam.",
    "The chain of the bicycle was changed and the brakes are quiet in the rain.",
    "On Tuesday the piano teacher comes, first for scales and then for a waltz.",
)
SPANISH = (
    "El horno de cerámica alcanza mil doscientos grados antes de endurecer el barro.",
    "La gata duerme junto a la ventana y ronronea cuando alguien le da leche.",
    "Los documentos de la renta deben entregarse antes de que termine marzo.",
    "El pan leva despacio durante la noche en una cocina fría y se hornea con vapor.",
)
GERMAN = (
    "Der Brennofen erreicht zwölfhundert Grad, bevor der Ton endgültig ausgehärtet ist.",
    "Die Katze schläft am Fenster und schnurrt, sobald jemand ihr etwas Milch gibt.",
    "Die Unterlagen zur Einkommensteuer müssen vor Ende März abgegeben werden.",
    "Das Brot geht über Nacht in der kalten Küche und wird mit Dampf gebacken.",
)
CHINESE = (
    "陶窑的温度要升到一千二百度，泥土才会变硬，然后慢慢冷却。",
    "猫睡在窗边，有人给它牛奶的时候，它就会发出呼噜声。",
    "所得税的文件很多，必须在三月底以前填好，交到税务局。",
    "面团整夜放在寒冷的厨房里发酵，第二天早上，用蒸汽烤熟。",
)
# Two notes of one text have one vector between them.
TWINS = {"Twins/one.md": "The moon was red over the harbour that night.\n"}
TWINS["Twins/two.md"] = TWINS["Twins/one.md"]

NOTES: Mapping[str, str] = {
    f"{folder}/{number}.md": text + "\n"
    for folder, texts in (
        ("English", ENGLISH),
        ("Spanish", SPANISH),
        ("German", GERMAN),
        ("Chinese", CHINESE),
    )
    for number, text in enumerate(texts)
} | TWINS

CAT = "a feline taking a nap"


@dataclass(frozen=True)
class Vault:
    """An embedded vault, and what answers questions to it."""

    memory: Memory
    embedder: Embedder

    @property
    def lookup(self) -> Lookup:
        return self.memory.lookup()

    def question(self, text: str) -> Question:
        sidecar, cache = self.memory.open_sidecar(), self.memory.open_cache()
        assert sidecar is not None
        assert cache is not None
        space = serving_space(self.memory, sidecar)
        assert space is not None
        matrix = open_matrix(cache, space)
        centroid = matrix.centroid(PassageVectors(sidecar).slots()).astype(np.float32)
        vector = self.embedder.embed_query(text)
        return Question(vector, matrix, cache, space, centroid, self.embedder.languages)

    def ask(self, text: str) -> Meaning:
        return Meaning(self.question(text), self.lookup)

    def chunks(self, folder: str) -> dict[str, int]:
        """Path -> the one passage of each note in a folder."""
        assert self.memory.sidecar is not None
        rows = self.memory.sidecar.connection.execute(
            "SELECT n.path, c.id FROM note n JOIN chunk c ON c.note = n.id "
            "WHERE n.path GLOB ? ORDER BY n.path",
            (f"{folder}*",),
        )
        return dict(rows)

    def scope(self, path: str) -> Scope:
        scope = self.lookup.scope(Filters(paths=(path,)), (), ())
        assert scope is not None
        return scope

    def cosines(self, text: str) -> dict[int, float]:
        """chunk -> cosine by the model's own vectors, without any code of ours in between."""
        paths = sorted(NOTES)
        vectors = self.embedder.embed_documents([NOTES[path].strip() for path in paths]).vectors
        found: NDArray[np.float32] = vectors @ self.embedder.embed_query(text)
        chunks = self.chunks("")
        return {chunks[path]: float(c) for path, c in zip(paths, found, strict=True)}


def opened(folder: Path, notes: Mapping[str, str], name: str = "minilm") -> Vault:
    for path, text in notes.items():
        file = folder / "vault" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    settings = load_settings(
        folder / "vault", folder / "cache", environment={"VAULTMEM_EMBEDDER_NAME": name}
    )
    memory = open_memory(settings, clock=Clock(now_ns=lambda: 10**18, elapsed=lambda: 0.0))
    index(memory, IndexRequest())
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    chosen = chosen_name(memory, sidecar)
    assert chosen is not None
    return Vault(memory, open_embedder(memory, chosen))


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    found = opened(tmp_path_factory.mktemp("meaning"), NOTES)
    yield found
    found.memory.close()


def test_the_nearest_passages_are_those_of_the_models_own_vectors(vault: Vault) -> None:
    expected = vault.cosines(CAT)
    found = vault.ask(CAT).nearest(None, 1000)
    assert found.keys() == expected.keys()
    for chunk, cosine in found.items():
        assert cosine == pytest.approx(expected[chunk], abs=0.01)  # 8 bits a number
    assert max(found, key=lambda chunk: found[chunk]) == vault.chunks("English")["English/1.md"]


def test_passages_of_one_text_come_together_though_the_limit_falls_between(vault: Vault) -> None:
    twins = set(vault.chunks("Twins").values())
    assert len(twins) == 2
    found = vault.ask("a crimson moon above the port").nearest(None, 1)
    assert found.keys() == twins
    assert len(set(found.values())) == 1


def test_no_more_than_the_limit_and_they_are_the_best(vault: Vault) -> None:
    everything = vault.ask(CAT).nearest(None, 1000)
    best = sorted(everything, key=lambda chunk: -everything[chunk])[:3]
    assert vault.ask(CAT).nearest(None, 3) == {chunk: everything[chunk] for chunk in best}


@pytest.mark.parametrize("extension", [True, False], ids=["sqlite-vec", "numpy alone"])
@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_in_a_scope_the_nearest_are_those_inside(vault: Vault, extension: bool, limit: int) -> None:
    question = vault.question(CAT)
    there = question.cache.vector_extension
    assert there, "sqlite-vec is among the dependencies"
    everything = Meaning(question, vault.lookup).nearest(None, 1000)
    inside = {chunk: everything[chunk] for chunk in vault.chunks("German").values()}
    best = sorted(inside, key=lambda chunk: -inside[chunk])[:limit]
    question.cache.vector_extension = extension
    try:
        found = Meaning(question, vault.lookup).nearest(vault.scope("German"), limit)
    finally:
        question.cache.vector_extension = there
    assert found == {chunk: inside[chunk] for chunk in best}


def test_a_scope_takes_a_twin_without_the_other(vault: Vault) -> None:
    found = vault.ask("a crimson moon").nearest(vault.scope("Twins/two.md"), 10)
    assert list(found) == [vault.chunks("Twins")["Twins/two.md"]]


def test_a_scope_without_passages_has_no_nearest(vault: Vault) -> None:
    meaning = vault.ask(CAT)
    assert meaning.nearest(vault.scope("Nowhere"), 10) == {}
    assert meaning.floor == pytest.approx(vault.ask(CAT).floor)


def test_the_floor_is_the_mean_over_all_passages_those_of_one_text_counted_each(
    vault: Vault,
) -> None:
    everything = vault.ask(CAT).nearest(None, 1000)
    assert len(everything) == len(NOTES)
    mean = sum(everything.values()) / len(NOTES)
    assert vault.ask(CAT).floor == pytest.approx(mean, abs=1e-5)
    assert max(everything.values()) - mean > 0.2  # it stands below what is meant


def test_where_a_whole_scope_is_far_its_nearest_still_stands_out(vault: Vault) -> None:
    meaning = vault.ask(CAT)
    scope = vault.scope("Chinese")
    found = meaning.nearest(scope, 1000)
    corpus = vault.ask(CAT).floor
    assert max(found.values()) < corpus  # from there all of them would be worth nothing
    assert meaning.floor == pytest.approx(sum(found.values()) / len(found), abs=1e-6)
    scaled = Channel("vector", found, floor=meaning.floor).scaled
    assert max(scaled.values()) == 1.0
    assert scaled[max(found, key=lambda chunk: found[chunk])] == 1.0


def test_a_near_scope_is_measured_from_the_floor_of_the_corpus(vault: Vault) -> None:
    meaning = vault.ask(CAT)
    (cosine,) = meaning.nearest(vault.scope("English/1.md"), 10).values()
    assert meaning.floor == vault.ask(CAT).floor < cosine
    meaning.nearest(vault.scope("Chinese"), 10)
    meaning.nearest(None, 10)
    assert meaning.floor == vault.ask(CAT).floor  # each search has its own


def test_passages_found_by_words_get_the_similarity_they_have(vault: Vault) -> None:
    everything = vault.ask(CAT).nearest(None, 1000)
    wanted = [*vault.chunks("Spanish").values(), *vault.chunks("Twins").values()]
    expected = {chunk: everything[chunk] for chunk in wanted}
    assert vault.ask(CAT).of(wanted) == expected
    after_a_look_at_all = vault.ask(CAT)
    after_a_look_at_all.nearest(None, 1)
    assert after_a_look_at_all.of(wanted) == expected
    assert vault.ask(CAT).of([]) == {}
    assert vault.ask(CAT).of([10**9]) == {}


def test_vectors_whose_passages_are_gone_take_no_places(tmp_path: Path) -> None:
    numbers = [f"{n}.md" for n in range(9)]
    many = {path: f"The cat number {path[0]} sleeps.\n" for path in numbers}
    vault = opened(tmp_path, many | {"a.md": ENGLISH[3] + "\n", "b.md": ENGLISH[4] + "\n"})
    assert len(vault.ask("sleeping cat").nearest(None, 2)) == 2
    for path in numbers:
        (vault.memory.vault / path).unlink()
    index(vault.memory, IndexRequest())
    question = vault.question("sleeping cat")
    assert question.matrix.slots == 11  # their vectors are kept for a while
    found = Meaning(question, vault.lookup).nearest(None, 2)
    assert found.keys() == {c for path, c in vault.chunks("").items() if path in ("a.md", "b.md")}
    assert Meaning(question, vault.lookup).floor == pytest.approx(sum(found.values()) / 2, abs=1e-5)
    vault.memory.close()


# The language gate


@pytest.mark.parametrize(
    ("folder", "believed"),
    [("English", (1.0, 1.0)), ("Spanish", (0.05, 0.5)), ("German", (0.05, 0.5)),
     ("Chinese", (0.05, 0.3))],
)  # fmt: skip
def test_a_model_of_english_is_believed_less_about_other_languages(
    vault: Vault, folder: str, believed: tuple[float, float]
) -> None:
    least, most = believed
    chunks = list(vault.chunks(folder).values())
    assert least <= vault.ask(CAT).trust(chunks) <= most


def test_a_model_of_many_languages_is_believed_about_all(vault: Vault) -> None:
    question = replace(vault.question(CAT), languages=Languages.MANY)
    meaning = Meaning(question, vault.lookup)
    for folder in ("English", "Spanish", "German", "Chinese"):
        assert meaning.trust(list(vault.chunks(folder).values())) == 1.0


def test_the_language_is_judged_by_the_best_hits(vault: Vault) -> None:
    english, spanish = (list(vault.chunks(folder).values()) for folder in ("English", "Spanish"))
    meaning = vault.ask(CAT)
    few = (spanish * 6)[:20]
    assert meaning.trust(few) < 1.0
    assert meaning.trust(few + english * 100) < 1.0
    assert meaning.trust((english * 4)[:20] + spanish * 100) == 1.0


def test_without_hits_by_words_there_is_nothing_to_judge_by(vault: Vault) -> None:
    assert vault.ask(CAT).trust([]) == 1.0
