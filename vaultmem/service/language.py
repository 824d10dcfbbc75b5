"""Whether a vault is mostly English, judged from the prose in a sample of its passages.

Code, links, tables and lists of names are left out of it: they hold words that no vocabulary
knows, whatever the language around them.
"""

import re

from vaultmem.embedding.wordpiece import fertility
from vaultmem.index.store import Sidecar
from vaultmem.index.vectors import PassageVectors

SAMPLE = 100
# Word pieces per word: English prose has about 1.2, other languages from 1.5.
ENGLISH_FERTILITY = 1.45
# Where so many words are English function words the text is English, whatever names stand in it.
ENGLISH_WORDS = 0.12
# Fewer words of prose tell nothing.
FEWEST_WORDS = 8
# A vault near the middle must not go back and forth between two models.
LEANING = 0.1

# None of them is a common word of another language, as `a`, `in`, `is`, `for` and `no` are.
_ENGLISH = frozenset(
    [
        *("the", "and", "of", "that", "this", "these", "with", "from", "by", "which", "when"),
        *("are", "were", "been", "have", "has", "had", "will", "would", "should", "can", "could"),
        *("it", "its", "they", "their", "there", "you", "your", "not", "than", "then", "into"),
    ]
)

# Of the other languages of the multilingual model that are written in Latin letters.
_FUNCTION_WORDS = _ENGLISH.union(
    *(
        words.split()
        for words in (
            "der die das und ist nicht ein eine mit auf für von zu den im sich wird bei",
            "el la los las de que en un una por con para es se del al no su",
            "le la les des et est une un dans pour que qui sur du au pas avec",
            "il di che la e un per non con una sono del della nel si",
            "de het een en van is niet met op voor dat te zijn aan",
            "i w na z nie się jest do to że od po za przez",
            "o a os as de que e do da em um uma para com não se",
            "ve bir bu için de da ile çok ne gibi daha olan",
        )
    )
)
# Cyrillic, Arabic, Thai, kana, Han and Hangul.
_READ_SCRIPTS = re.compile(
    "[\u0400-\u04ff\u0600-\u06ff\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)

_FENCED = re.compile(r"^ *(```|~~~).*?(?:^ *\1|\Z)", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"[^\W\d_]+")
# Five words or more with nothing but spaces and sentence marks between them.
_PROSE = re.compile(r"\b(?:[^\W\d_]+(?:['’][^\W\d_]+)?[,;:]?\s){4,}[^\W\d_]+")
_LETTER = re.compile(r"[^\W\d_]")
_LATIN = re.compile(r"[A-Za-zªºÀ-ɏḀ-ỿ]")


def is_english(text: str) -> bool | None:
    """Whether a text is English; None for one with too little prose to tell."""
    text = _FENCED.sub("\n", text)
    letters = len(_LETTER.findall(text))
    if letters >= FEWEST_WORDS and 2 * len(_LATIN.findall(text)) < letters:
        return False
    prose = "\n".join(_PROSE.findall(text))
    words = _WORD.findall(prose.lower())
    pieces_per_word = fertility(prose) if len(words) >= FEWEST_WORDS else None
    if pieces_per_word is None:
        return None
    if pieces_per_word <= ENGLISH_FERTILITY:
        return True
    return sum(word in _ENGLISH for word in words) >= ENGLISH_WORDS * len(words)


def english_share(sidecar: Sidecar) -> float:
    """The share of passages that are English, 0 to 1; 1 where no passage can be judged."""
    texts = PassageVectors(sidecar).sample(SAMPLE)
    judged = [verdict for verdict in map(is_english, texts) if verdict is not None]
    if not judged:
        # Lists and tables alone: all of their words together say what no single one does.
        words = " ".join(word for text in texts for word in _WORD.findall(_FENCED.sub("", text)))
        return float(is_english(words) is not False)
    return sum(judged) / len(judged)


def multilingual_share(sidecar: Sidecar) -> float:
    """The share of the passages in another language that the multilingual model reads, 0 to 1."""
    texts = PassageVectors(sidecar).sample(SAMPLE)
    foreign = [text for text in texts if is_english(text) is False]
    if not foreign:
        foreign = [" ".join(texts)]
    return sum(map(is_read_by_multilingual, foreign)) / len(foreign)


def is_read_by_multilingual(text: str) -> bool:
    """Whether a text seems to be in one of the model's sixteen languages."""
    letters = _LETTER.findall(text)
    if letters and 2 * len(_READ_SCRIPTS.findall(text)) >= len(letters):
        return True
    words = [word.lower() for word in _WORD.findall(_FENCED.sub("", text))]
    return sum(word in _FUNCTION_WORDS for word in words) >= ENGLISH_WORDS * max(1, len(words))
