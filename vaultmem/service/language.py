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
    verdicts = [is_english(text) for text in PassageVectors(sidecar).sample(SAMPLE)]
    judged = [verdict for verdict in verdicts if verdict is not None]
    return sum(judged) / len(judged) if judged else 1.0
