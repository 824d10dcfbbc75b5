"""WordPiece: the ids that the reference tokenizer gives, for any text, and fertility."""

import hashlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path

import pytest

from vaultmem.embedding.wordpiece import CACHED_WORDS, WordPiece, fertility, minilm_wordpiece

RECORDED = Path(__file__).with_name("recorded")
PASSAGES: dict[str, str] = json.loads((RECORDED / "passages.json").read_text("utf-8"))
ODD: dict[str, str] = json.loads((RECORDED / "odd_texts.json").read_text("utf-8"))
IDS: dict[str, list[int]] = json.loads((RECORDED / "wordpiece_ids.json").read_text("utf-8"))
TEXTS = {**PASSAGES, **ODD}

UNKNOWN, FIRST, LAST, MASK = 100, 101, 102, 103
SHIPPED = files("vaultmem.embedding").joinpath("minilm-vocabulary")


def vocabulary() -> list[str]:
    return SHIPPED.joinpath("vocab.txt").read_text("utf-8").rstrip("\n").split("\n")


def encode(text: str) -> list[int]:
    return minilm_wordpiece().encode(text)


@pytest.mark.parametrize("name", IDS)
def test_the_pieces_are_those_of_the_reference_tokenizer(name: str) -> None:
    assert encode(TEXTS[name]) == IDS[name]


def test_every_text_was_recorded() -> None:
    assert IDS.keys() == TEXTS.keys()
    assert len(IDS["window"]) == 254
    assert sum(map(len, IDS.values())) > 1_900


def test_a_text_of_all_texts_has_the_pieces_of_each() -> None:
    together = "\n".join(TEXTS.values())
    assert encode(together) == [id for name in TEXTS for id in IDS[name]]


def test_half_of_a_surrogate_pair_counts_as_a_control_character() -> None:
    assert encode("ki\ud800ln \udc00 fire\udfff") == encode("kiln fire")


def test_the_names_of_special_tokens_are_text_like_any_other() -> None:
    assert {FIRST, LAST, MASK, UNKNOWN} & set(encode("[CLS] [SEP] [MASK] [UNK]")) == set()


def test_a_word_of_a_hundred_characters_is_cut_and_a_longer_one_is_unknown() -> None:
    assert UNKNOWN not in encode("ab" * 50)
    assert encode("ab" * 50 + "a") == [UNKNOWN]
    # Accents do not count: they are gone before the word is measured.
    assert encode("áb" * 50) == encode("ab" * 50)


def test_the_pieces_spell_the_words() -> None:
    pieces = vocabulary()
    spelled = "".join(pieces[id].removeprefix("##") for id in encode("Wonderfully unspellable"))
    assert spelled == "wonderfullyunspellable"
    continues = minilm_wordpiece().continues
    assert [bool(continues[id]) for id in encode("unspellable")] == [False, True, True, True]


def test_words_that_fell_out_of_memory_are_cut_the_same_way_again() -> None:
    first = encode("unspellable Königsberg")
    for start in range(0, CACHED_WORDS + 1_000, 1_000):
        encode(" ".join(f"w{number}x" for number in range(start, start + 1_000)))
    assert encode("unspellable Königsberg") == first


def test_threads_cut_alike() -> None:
    fresh = WordPiece(vocabulary())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: [fresh.encode(text) for text in TEXTS.values()], range(16)))
    assert found == [[IDS[name] for name in TEXTS]] * 16


def test_the_vocabulary_is_that_of_the_model_and_has_its_licence_beside_it() -> None:
    shipped = SHIPPED.joinpath("vocab.txt").read_bytes()
    digest = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
    assert hashlib.sha256(shipped).hexdigest() == digest
    assert len(vocabulary()) == 30_522
    licence = SHIPPED.joinpath("LICENSE").read_text("utf-8")
    assert "Apache License" in licence
    assert "BERT base uncased" in licence.split("\n\n")[0]


def test_the_vocabulary_is_read_when_it_is_first_needed() -> None:
    script = (
        "from vaultmem.embedding.wordpiece import fertility, minilm_wordpiece as lazy\n"
        "before = lazy.cache_info().currsize\n"
        "fertility('three words here')\n"
        "print(before, lazy.cache_info().currsize)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert ended.stdout.split() == ["0", "1"]


# Fertility


def of_language(language: str) -> float:
    found = fertility("\n".join(text for name, text in PASSAGES.items() if language in name))
    assert found is not None
    return found


def test_fertility_tells_english_from_other_languages() -> None:
    assert 1.0 <= of_language("english") < 1.3
    assert 1.45 < of_language("spanish") < 2.1
    assert 1.8 < of_language("german") < 3
    for language in ("russian", "chinese", "japanese", "arabic", "korean"):
        assert of_language(language) > 3


def test_every_english_passage_is_below_every_other_one() -> None:
    found = {name: fertility(text) for name, text in PASSAGES.items()}
    english = [f for name, f in found.items() if f is not None and name.startswith("english")]
    others = [
        f
        for name, f in found.items()
        if f is not None and name.split(",")[0] in ("spanish", "german", "russian", "chinese")
    ]
    assert len(english) >= 9
    assert len(others) >= 7
    assert max(english) < min(others)


def test_digits_and_punctuation_do_not_count() -> None:
    plain = fertility("the kiln fires overnight")
    assert plain == 1.25  # ki ##ln
    assert fertility("1,240 °C: the kiln -- fires (overnight)! 2026-11-30 x_1") != plain
    assert fertility("1,240: the kiln -- fires (overnight)! 2026-11-30 €") == plain


def test_a_run_of_characters_without_spaces_is_one_word_of_one_piece_each() -> None:
    assert fertility("备份每天，凌晨三点，开始") == (4 + 4 + 2) / 3


def test_a_script_that_the_vocabulary_does_not_know_counts_its_letters() -> None:
    assert encode("ሰላም ለዓለም ሁሉ") == [UNKNOWN] * 3
    assert fertility("ሰላም ለዓለም ሁሉ") == (3 + 4 + 2) / 3


@pytest.mark.parametrize("text", ["", "one two", "2026 11 30", "… — !", "备份 每天"])
def test_fewer_than_three_words_say_nothing(text: str) -> None:
    assert fertility(text) is None


def test_three_words_are_enough() -> None:
    assert fertility("one two three") == 1
