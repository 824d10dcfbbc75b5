"""What must not happen to vectors, questions and secrets."""

from collections.abc import Callable
from shutil import copyfile

from ollama_server import OllamaServer

from vaultmem.embedding.cache import CACHE_NAME
from vaultmem.service.application import Memory
from vaultmem.service.embedders import options, remember_outage
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search

Open = Callable[..., Memory]
MINILM = {"VAULTMEM_EMBEDDER_NAME": "minilm"}


def test_no_password_of_an_address_is_kept(open_vault: Open) -> None:
    settings = {
        "VAULTMEM_EMBEDDER_NAME": "ollama",
        "VAULTMEM_EMBEDDER_HOST": "http://me:hunter2@127.0.0.1:9",
    }
    memory = open_vault({"a.md": "kiln"}, environment=settings)
    index(memory, IndexRequest(embed=False))
    remember_outage(memory, "ollama", "no answer")
    memory.close()
    kept = [path for path in memory.folder.iterdir() if path.is_file()]
    assert (memory.folder / CACHE_NAME) in kept
    assert [path.name for path in kept if b"hunter2" in path.read_bytes()] == []


def test_a_copy_that_went_its_own_way_is_not_believed(open_vault: Open) -> None:
    ours = open_vault({"a.md": "A kiln for pots."}, environment=MINILM)
    theirs = open_vault({"a.md": "A kiln for pots."}, name="elsewhere", environment=MINILM)
    index(ours, IndexRequest())
    ours.close()
    theirs.folder.mkdir(parents=True)
    copyfile(ours.folder / CACHE_NAME, theirs.folder / CACHE_NAME)
    # From here on the second row is another text in each.
    for memory, text in ((ours, "A diesel engine of a lorry."), (theirs, "A loaf of bread.")):
        (memory.vault / "b.md").write_text(text)
        index(memory, IndexRequest())
        memory.close()
    (ours.folder / CACHE_NAME).write_bytes((theirs.folder / CACHE_NAME).read_bytes())
    index(ours, IndexRequest())
    hit = search(ours, SearchRequest("A loaf of bread.", mode="semantic", limit=1)).hits[0]
    assert hit.evidence.channels[0].raw < 0.7, "the lorry's note is not about bread"
    assert search(ours, SearchRequest("truck motor", limit=1)).hits[0].path == "b.md"


def test_the_default_settings_ask_no_server_that_was_used_once(open_vault: Open) -> None:
    with OllamaServer() as server:
        chosen = {
            "VAULTMEM_EMBEDDER_NAME": "ollama",
            "VAULTMEM_EMBEDDER_HOST": server.url,
        }
        once = open_vault({"a.md": "A kiln for pots."}, environment=chosen)
        assert index(once, IndexRequest()).chunks.waiting == 0
        once.close()
        asked = len(server.requests)
        assert asked
        host = {"VAULTMEM_EMBEDDER_NAME": "auto", "VAULTMEM_EMBEDDER_HOST": server.url}
        now = open_vault(environment=host)
        reply = search(now, SearchRequest("kiln"))
        assert [hit.path for hit in reply.hits] == ["a.md"]
        assert (reply.mode, len(server.requests)) == ("keyword", asked)
        assert "settings name no longer" in reply.degraded[0]
        index(now, IndexRequest())
        assert search(now, SearchRequest("kiln")).mode == "hybrid"
        assert len(server.requests) == asked


def test_a_host_of_the_vaults_own_file_is_known_as_such(open_vault: Open) -> None:
    config = {".vaultmem/config.toml": '[embedder]\nhost = "https://collector.example"\n'}
    files = {"a.md": "kiln", **config}
    assert options(open_vault(files).settings).host_from_vault
    named = {"VAULTMEM_EMBEDDER_HOST": "https://mine.example"}
    assert not options(open_vault(files, environment=named).settings).host_from_vault
    assert not options(open_vault({"a.md": "kiln"}, name="other").settings).host_from_vault
