"""Which embedder a vault uses, and opening it."""

import json
import os
from hashlib import sha256

from vaultmem.embedding.cache import OUTAGE_NS, EmbeddingCache, StoredSpace
from vaultmem.embedding.embedder import Embedder, Options, Space
from vaultmem.embedding.providers import provider
from vaultmem.index.store import Sidecar, sidecar_errors
from vaultmem.index.vectors import EMBEDDED_TEXT_VERSION, PassageVectors
from vaultmem.model.errors import (
    EmbedderUnavailable,
    SidecarBusy,
    SidecarDamaged,
    SidecarUnavailable,
)
from vaultmem.service.application import Memory
from vaultmem.service.language import LEANING, english_share, multilingual_share
from vaultmem.service.settings import Settings
from vaultmem.vault.chunk import CHUNKER_VERSION

# How texts and vectors are made, besides the model: vectors made otherwise are another space.
RULES = f"int8 max-abs; chunker {CHUNKER_VERSION}; text {EMBEDDED_TEXT_VERSION}"

# The sidecar's meta value that says by which settings its passages were last fully embedded.
WISH = "embedder"


def chosen_name(memory: Memory, sidecar: Sidecar) -> str | None:
    """The provider that the settings ask for; None for no vectors.

    `auto` is the built-in model, or the multilingual one where it is installed and most of the
    vault is not English. It never means a server: nothing is asked over a socket unasked.
    """
    name = str(memory.settings["embedder.name"])
    if name == "none":
        return None
    if name != "auto":
        return name
    if not provider("multilingual").installed():
        return "minilm"
    serving = serving_space(memory, sidecar)
    now = serving.space.provider if serving is not None else ""
    leaning = {"minilm": LEANING, "multilingual": -LEANING}.get(now, 0.0)
    english = english_share(sidecar) + leaning >= 0.5
    return "minilm" if english or multilingual_share(sidecar) < 0.5 else "multilingual"


def advice(memory: Memory, sidecar: Sidecar) -> str:
    """What to install for a vault that the built-in model does not understand; "" for nothing."""
    if memory.settings["embedder.name"] != "auto" or provider("multilingual").installed():
        return ""
    if english_share(sidecar) >= 0.5 or multilingual_share(sidecar) < 0.5:
        return ""
    return (
        "Most of this vault is not English, which the built-in model does not understand well. "
        "`pip install 'vaultmem[multilingual]'` adds one for 16 languages."
    )


def options(settings: Settings) -> Options:
    """What the settings say about embedders."""
    query, document = settings["embedder.query_prefix"], settings["embedder.document_prefix"]
    return Options(
        model=settings["embedder.model"],
        model_path=settings["embedder.model_path"],
        host=settings["embedder.host"],
        host_from_vault=settings.values["embedder.host"].source == "config.toml",
        dimension=settings["embedder.dimension"],
        keep_alive=settings["embedder.keep_alive"],
        timeout=float(settings["embedder.timeout"]),
        query_prefix=None if query == "auto" else query,
        document_prefix=None if document == "auto" else document,
    )


def wish(settings: Settings) -> str:
    """The settings that decide the vector space, and what `auto` can choose from, as one text."""
    name = settings["embedder.name"]
    wanted: dict[str, object] = {"name": name, "rules": RULES}
    if name == "auto":
        wanted["multilingual"] = provider("multilingual").installed()
    if name == "ollama":
        for key in ("model", "dimension", "query_prefix", "document_prefix"):
            wanted[key] = settings[f"embedder.{key}"]
    return json.dumps(wanted, sort_keys=True, ensure_ascii=False)


def open_embedder(
    memory: Memory, name: str, wanted: Options | None = None, *, ask_again: bool = False
) -> Embedder:
    """The embedder of that name, opened once. Raises EmbedderUnavailable.

    A server that did not answer is not asked again for a minute, by any process.

    ask_again: ask it all the same.
    """
    key = f"{name} {wanted}" if wanted is not None else name
    opened = memory.embedders.get(key)
    if opened is not None:
        return opened
    down = recent_outage(memory, name)
    if down is not None and not ask_again:
        raise EmbedderUnavailable(down)
    try:
        embedder = provider(name).make(wanted or options(memory.settings))
    except EmbedderUnavailable as error:
        remember_outage(memory, name, str(error))
        raise
    memory.embedders[key] = embedder
    return embedder


def embedder_of(memory: Memory, space: Space) -> Embedder:
    """The embedder that makes vectors of this very space. Raises EmbedderUnavailable."""
    wanted = None  # the very one that `index` uses: a model is not loaded twice
    if space.provider == "ollama":
        chosen = options(memory.settings)
        wanted = Options(
            model=space.model,
            host=chosen.host,
            host_from_vault=chosen.host_from_vault,
            dimension=space.dimension,
            keep_alive=chosen.keep_alive,
            timeout=chosen.timeout,
            query_prefix=space.query_prefix,
            document_prefix=space.document_prefix,
        )
    known = list(memory.embedders.values())
    embedder = open_embedder(memory, space.provider, wanted)
    if embedder.space != space and embedder in known:
        # What a server has under this name may have changed since it was opened, like the vectors.
        let_go(memory, embedder)
        embedder = open_embedder(memory, space.provider, wanted)
    if embedder.space != space:
        raise EmbedderUnavailable(
            f"The model {space.model} is another one than the vectors were made with. "
            "`vaultmem index` embeds the vault anew."
        )
    return embedder


def let_go(memory: Memory, embedder: Embedder) -> None:
    """Close an embedder; whoever wants it opens it anew."""
    for key in [key for key, opened in memory.embedders.items() if opened is embedder]:
        del memory.embedders[key]
    embedder.close()


def recent_outage(memory: Memory, name: str) -> str | None:
    """Why a server is not asked again yet."""
    cache = memory.open_cache() if name == "ollama" else None
    if cache is None:
        return None
    return cache.outage(_server(memory, name), memory.clock.now_ns())


def remember_outage(memory: Memory, name: str, reason: str) -> None:
    """A server did not answer: spare the next questions the wait."""
    cache = memory.open_cache(create=memory.folder.is_dir()) if name == "ollama" else None
    if cache is not None:
        cache.put_outage(_server(memory, name), memory.clock.now_ns() + OUTAGE_NS, reason)


def end_outage(memory: Memory, name: str) -> None:
    """A server has answered: searches may ask it again."""
    cache = memory.open_cache() if name == "ollama" else None
    if cache is not None:
        cache.end_outage(_server(memory, name))


def _server(memory: Memory, name: str) -> str:
    """What an outage is of: another address is another server.

    Hashed, since an address may hold a password.
    """
    address = memory.settings["embedder.host"] or os.environ.get("OLLAMA_HOST", "")
    return f"{name} {sha256(address.encode('utf-8', 'replace')).hexdigest()[:16]}"


def serving_name(cache: EmbeddingCache, space: StoredSpace) -> str:
    """How the sidecar names the space whose slots its passages carry."""
    return f"{cache.id}:{space.id}:{space.generation}"


def serving_space(memory: Memory, sidecar: Sidecar) -> StoredSpace | None:
    """The space whose vectors answer questions now; None when there is none."""
    cache = memory.open_cache()
    vectors = PassageVectors(sidecar)
    # Read before the cache, in which rows are first: more slots than rows mean an older cache.
    name, largest = vectors.serving, vectors.largest_slot()
    if cache is None or name is None:
        return None
    try:
        spaces = cache.spaces()
    except SidecarDamaged:
        return None
    space = next((s for s in spaces if serving_name(cache, s) == name and s.slots > largest), None)
    if space is None or largest < 0:
        return space
    # A file that went its own way on another machine has other texts in the same rows.
    same = cache.text_hash_at(space.id, largest) == vectors.text_hash_at(largest)
    return space if same else None


def answering_space(memory: Memory, sidecar: Sidecar) -> StoredSpace | None:
    """`serving_space`, or None where the vectors are not to be used, or cannot be read."""
    if memory.settings["embedder.name"] == "none":
        return None
    try:
        with sidecar_errors(memory.folder):
            return serving_space(memory, sidecar)
    except (SidecarBusy, SidecarDamaged, SidecarUnavailable):
        return None


def vector_extension_live(memory: Memory, space: StoredSpace) -> bool:
    """Whether sqlite-vec is there and its copy of this space is complete."""
    cache = memory.open_cache()
    return cache is not None and cache.vector_extension and space.indexed == space.slots
