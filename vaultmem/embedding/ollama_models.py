"""What is known about the embedding models in Ollama's library, which adds no prefix by itself."""

from collections.abc import Container
from dataclasses import dataclass

from vaultmem.embedding.embedder import Languages

DEFAULT_MODEL = "nomic-embed-text"

# Whatever a model's window, the server takes a text in one batch of so many tokens at most and
# cuts the rest without a word (DefaultEmbeddingNumBatch in its source; ollama issue 14259).
MOST_TOKENS = 2048

# Of a model that is not in the table: what every embedding model of the library can take.
UNKNOWN_WINDOW = 512


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One row: how a model wants to be used."""

    dimension: int  # should the server not tell
    shorter: Container[int]  # lengths its vectors may be cut to (Matryoshka)
    query_prefix: str
    document_prefix: str
    window: int  # tokens of a text, prefix included, that it surely sees
    languages: Languages


_PASSAGES = "Represent this sentence for searching relevant passages: "
_QWEN = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
)

# By the name before the tag; a name with its tag goes before. The sources are beside the rows:
# "card" is what the model card of its makers says, "mteb" what the registry of the MTEB benchmark
# says, each read there or as others quote it.
KNOWN_MODELS: dict[str, KnownModel] = {
    # v1.5. card: prefixes, 768 to 64 dimensions. Trained on 2,048 tokens: ollama issue 11214.
    "nomic-embed-text": KnownModel(
        768, (512, 256, 128, 64), "search_query: ", "search_document: ", 2048, Languages.ENGLISH
    ),
    # card: prefixes, 768 or 256 dimensions, 512 tokens, about 100 languages.
    "nomic-embed-text-v2-moe": KnownModel(
        768, range(256, 768), "search_query: ", "search_document: ", 512, Languages.MANY
    ),
    # card: prefixes, 768/512/256/128 dimensions, 2,048 tokens, 100 languages.
    "embeddinggemma": KnownModel(
        768,
        (512, 256, 128),
        "task: search result | query: ",
        "title: none | text: ",
        2048,
        Languages.MANY,
    ),
    # card: any dimension from 32 on, 32k tokens, 100 languages, no blank after "Query:". Without
    # a tag it is the 8b model, whose vectors have 4096 numbers; 0.6b has 1024 and 4b 2560.
    "qwen3-embedding": KnownModel(4096, range(32, 4096), _QWEN, "", MOST_TOKENS, Languages.MANY),
    # card: no prefixes, 384 dimensions, 256 tokens, English. The library sets num_ctx to 256.
    "all-minilm": KnownModel(384, (), "", "", 256, Languages.ENGLISH),
    # card: prefix of queries alone, 1024 dimensions, Matryoshka, 512 tokens, English; mteb agrees.
    "mxbai-embed-large": KnownModel(
        1024, (768, 512, 256, 128), _PASSAGES, "", 512, Languages.ENGLISH
    ),
    # card and mteb: prefix of queries alone, 512 tokens (but 2,048 of the 137m tag), English; 384
    # dimensions of the 22m and 33m tags, 768 of 110m and 137m, 1024 of the default.
    "snowflake-arctic-embed": KnownModel(1024, (), _PASSAGES, "", 512, Languages.ENGLISH),
    # card and mteb: prefix of queries alone, 1024 dimensions or 256, 8,192 tokens, 74 languages.
    "snowflake-arctic-embed2": KnownModel(1024, (256,), "query: ", "", MOST_TOKENS, Languages.MANY),
    # card: no prefixes, 1024 dimensions, 8,192 tokens, 100 languages; cut at 2,048 by the server.
    "bge-m3": KnownModel(1024, (), "", "", MOST_TOKENS, Languages.MANY),
    # v1.5. mteb: prefix of queries alone, 1024 dimensions, 512 tokens, English.
    "bge-large": KnownModel(1024, (), _PASSAGES, "", 512, Languages.ENGLISH),
    # mteb: no prefixes, 512 tokens; 30m is English with 384 dimensions, 278m knows 12 languages.
    "granite-embedding": KnownModel(384, (), "", "", 512, Languages.ENGLISH),
    "granite-embedding:278m": KnownModel(768, (), "", "", 512, Languages.MANY),
    # mteb: no prefixes, 768 dimensions, 512 tokens, 50 languages.
    "paraphrase-multilingual": KnownModel(768, (), "", "", 512, Languages.MANY),
}


def with_tag(name: str) -> str:
    """A model's name as the server lists it: without a tag it means `latest`."""
    # A colon before the last slash belongs to the address of a registry.
    return name if ":" in name.rpartition("/")[2] else name + ":latest"


def known_model(name: str) -> KnownModel | None:
    """The row of a model's name, with or without its tag; None for a model not in the table."""
    folded = name.lower()
    return KNOWN_MODELS.get(folded) or KNOWN_MODELS.get(folded.partition(":")[0])
