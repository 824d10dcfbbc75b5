"""Health checks: each has a stable id, an opinion, and what to do about it."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from vaultmem.embedding.cache import extension_version
from vaultmem.embedding.journal_mode import journal, made_with
from vaultmem.index.lock import is_watched
from vaultmem.index.lookup import Lookup
from vaultmem.index.store import SIDECAR_NAME, driver, sidecar_errors
from vaultmem.index.watch_state import says_it_is_fresh, watch_state
from vaultmem.model.errors import EmbedderUnavailable, SidecarDamaged, VaultmemError
from vaultmem.model.watch_state import Watching
from vaultmem.security.engine import engine_name
from vaultmem.service.application import Memory
from vaultmem.service.budget import VARIES
from vaultmem.service.embedders import (
    WISH,
    advice,
    answering_space,
    chosen_name,
    end_outage,
    open_embedder,
    serving_space,
    vector_extension_live,
    wish,
)
from vaultmem.service.refresh import sight
from vaultmem.vault.delta import count_waiting


@dataclass(frozen=True, slots=True)
class Check:
    """One check's outcome."""

    id: str
    ok: bool
    detail: str = field(metadata={VARIES: True})
    fix: str = field(metadata={VARIES: True})  # "" when all is well


def run_checks(memory: Memory, *, assistants: bool = False) -> tuple[Check, ...]:
    """Every check, in order; one that fails never keeps the others from running.

    assistants: the MCP server and the files of its clients as well, which takes a second.
    """
    checks: list[Callable[[Memory], Check]] = [
        _python,
        _sqlite,
        _secrets,
        _vault,
        _cache_folder,
        _sidecar,
        _fresh,
        _watch,
        _embedder,
        _vectors,
        _vector_search,
        _problems,
    ]
    found = [_guarded(check, memory) for check in checks]
    return (*found, *_server(memory), *_clients(memory)) if assistants else tuple(found)


def _guarded(check: Callable[[Memory], Check], memory: Memory) -> Check:
    try:
        with memory.guarded():
            return check(memory)
    except VaultmemError as error:
        fix = _REBUILT_UNASKED if isinstance(error, SidecarDamaged) else ""
        return Check(check.__name__.lstrip("_").replace("_", "-"), False, str(error), fix)


_REBUILT_UNASKED = "Run `vaultmem index`; the next search makes it anew as well."


def _python(_: Memory) -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("python", True, f"Python {version}", "")


def _sqlite(memory: Memory) -> Check:
    version, has_fts5, wal_safe, pages_checked = driver()
    checked = "a checksum on each page" if pages_checked else "no checksums on pages"
    due = journal(memory.folder, memory.settings["sidecar.journal"])
    used = made_with(memory.folder / SIDECAR_NAME) or due.mode
    detail = f"SQLite {version} through apsw, {checked}, {_JOURNALS[used]}"
    why = f" ({due.why})" if due.why else ""
    if used != due.mode:
        detail = f"{detail}; the next one is to have a {_JOURNALS[due.mode]}{why}"
        fix = "Run `vaultmem index --rebuild`; it takes the vectors over."
        return Check("sqlite", has_fts5 and due.mode == "wal", detail, fix)
    # With a rollback journal an older SQLite is slower, not less safe.
    ok = has_fts5 and (wal_safe or used == "delete")
    fix = "" if has_fts5 and wal_safe else "Update the apsw package: `pip install -U apsw`."
    return Check("sqlite", ok, detail + why, fix)


_JOURNALS = {"wal": "write-ahead log", "delete": "rollback journal"}


def _secrets(memory: Memory) -> Check:
    wish = memory.settings["secrets.scan"]
    if wish == "off":
        return Check("secrets", True, "Secrets are not looked for (setting secrets.scan)", "")
    linear = engine_name() == "re2"
    on = "google-re2" if linear else "Python's own expressions, over short stretches"
    fix = "" if linear else "Faster and without bounds: `pip install 'vaultmem[re2]'`."
    done = "masked" if wish == "mask" else "reported"
    return Check("secrets", True, f"Secrets are {done}; looked for with {on}", fix)


def _vault(memory: Memory) -> Check:
    from vaultmem.service.indexing import look

    snapshot = look(memory)
    detail = f"{memory.vault}: {len(snapshot.notes):,} notes, {len(snapshot.files):,} other files"
    return Check("vault", True, detail, "")


def _cache_folder(memory: Memory) -> Check:
    folder = memory.folder
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Check(
            "cache-folder",
            False,
            f"{folder} cannot be written: {error.strerror}",
            "Choose another place with --cache-dir or VAULTMEM_CACHE_DIR.",
        )
    if memory.folder.is_relative_to(memory.vault) and ".vaultmem" not in memory.folder.parts:
        return Check(
            "cache-folder",
            False,
            f"{memory.folder} lies inside the vault, where sync services would carry it along",
            "Choose a place outside the vault with --cache-dir.",
        )
    return Check("cache-folder", True, f"{memory.folder} can be written", "")


def _sidecar(memory: Memory) -> Check:
    with sidecar_errors(memory.folder):
        sidecar = memory.open_sidecar()
        if sidecar is None:
            return Check("sidecar", False, "There is no index yet", "Run `vaultmem index`.")
        verdict = sidecar.quick_check()
    if verdict != "ok":
        return Check("sidecar", False, f"The sidecar is damaged: {verdict}", _REBUILT_UNASKED)
    place = " and can only be read" if sidecar.read_only else ""
    return Check("sidecar", True, f"{sidecar.path} is sound{place}", "")


def _fresh(memory: Memory) -> Check:
    from vaultmem.index.update import stored_files
    from vaultmem.service.indexing import look

    sidecar = memory.open_sidecar()
    if sidecar is None:
        return Check("fresh", False, "Nothing is indexed", "Run `vaultmem index`.")
    waiting = count_waiting(look(memory), stored_files(sidecar))
    if waiting:
        return Check("fresh", False, f"{waiting:,} notes have changed", "Run `vaultmem index`.")
    return Check("fresh", True, "The index is up to date", "")


def _watch(memory: Memory) -> Check:
    state = watch_state(memory.folder)
    if state is None:
        if is_watched(memory.folder):
            fix = "Start `vaultmem watch` again; it may be another version's."
            return Check("watch", False, "A watcher runs, and says nothing of itself", fix)
        detail = "No watcher runs; the vault is looked at before each answer instead"
        return Check("watch", True, detail, "")
    since = f"A watcher runs since {state.since} (process {state.pid})"
    if state.problem:
        return Check("watch", False, f"{since}: {state.problem}", "")
    if not state.events:
        return Check(
            "watch",
            False,
            f"{since}, and is not told of all changes; it looks from time to time",
            "On Linux, raise fs.inotify.max_user_watches; on a network drive nothing helps.",
        )
    rules = sight(memory.settings, memory.fingerprint)
    if not says_it_is_fresh(state, rules, memory.clock.now_ns()):
        if state.state is not Watching.WATCHING:
            return Check("watch", True, f"{since} and is {state.state.value}", "")
        fix = "Start it again."
        return Check("watch", False, f"{since}, by other rules than today's, or is stuck", fix)
    return Check("watch", True, since, "")


def _embedder(memory: Memory) -> Check:
    name = memory.settings["embedder.name"]
    if name == "none":
        return Check("embedder", True, "Search by meaning is switched off (embedder.name)", "")
    sidecar = memory.open_sidecar()
    if sidecar is None:
        return Check("embedder", True, f"{name}; asked for when there is an index", "")
    chosen = chosen_name(memory, sidecar)
    assert chosen is not None
    try:
        # A person who asks wants to know how things are now, not how they were a minute ago.
        embedder = open_embedder(memory, chosen, ask_again=True)
        vector = embedder.embed_query("Is anybody there?")
    except EmbedderUnavailable as error:
        serving = answering_space(memory, sidecar)
        other = serving is not None and serving.space.provider != chosen
        answers = "the vectors there are go on answering" if other else "words answer alone"
        return Check("embedder", False, str(error), f"Until then, {answers}.")
    end_outage(memory, chosen)
    detail = f"{embedder.space.model} answers with {len(vector)} dimensions"
    serving = answering_space(memory, sidecar)
    if (
        serving is not None
        and serving.space.provider == embedder.space.provider
        and serving.space != embedder.space
    ):
        return Check("embedder", False, f"{detail}; the vectors are another model's", _REEMBED)
    better = advice(memory, sidecar)
    return Check("embedder", not better, better or detail, better and _MULTILINGUAL)


_MULTILINGUAL = (
    "Then run `vaultmem index`; or set embedder.name to minilm to keep the built-in one."
)


def _vectors(memory: Memory) -> Check:
    sidecar = memory.open_sidecar()
    if sidecar is None or memory.settings["embedder.name"] == "none":
        return Check("vectors", True, "No vectors are asked for", "")
    lookup = Lookup(sidecar)
    space = serving_space(memory, sidecar)
    total, there = lookup.chunk_count(), lookup.vector_count() if space is not None else 0
    model = f" by {space.space.model}" if space is not None else ""
    detail = f"{there:,} of {total:,} passages are embedded{model}"
    if there < total:
        return Check("vectors", False, detail, "Run `vaultmem index`; it goes on where it was.")
    if sidecar.meta(WISH) != wish(memory.settings):
        return Check("vectors", False, f"{detail}, not by the model of the settings", _REEMBED)
    return Check("vectors", True, detail, "")


_REEMBED = "Run `vaultmem index`; the old vectors serve until the new ones are complete."


def _vector_search(memory: Memory) -> Check:
    version = extension_version()
    if version is None:
        detail = "sqlite-vec cannot be loaded here; numpy compares vectors, with the same answers"
        return Check("vector-search", True, detail, "")
    sidecar = memory.open_sidecar()
    space = serving_space(memory, sidecar) if sidecar is not None else None
    if space is not None and not vector_extension_live(memory, space):
        detail = f"sqlite-vec {version}, whose copy of the vectors is not complete; numpy is live"
        return Check("vector-search", True, detail, "")
    live = "numpy, and sqlite-vec for selective filters"
    return Check("vector-search", True, f"{live} (sqlite-vec {version})", "")


def _problems(memory: Memory) -> Check:
    sidecar = memory.open_sidecar()
    found = Lookup(sidecar).problems() if sidecar is not None else []
    if not found:
        return Check("problems", True, "No note has a problem", "")
    first = found[0]
    return Check(
        "problems",
        False,
        f"{len(found)}; the first: {first.path}: {first.message}",
        "`vaultmem lint` lists them; the notes are found all the same.",
    )


# A session of an assistant begins with them, whether it uses them or not.
SCHEMA_TOKENS = 1_500


def _server(memory: Memory) -> Iterator[Check]:
    """The MCP server as a client would start it."""
    # (What is imported here is of no use to the server itself, which imports this module.)
    from vaultmem.service.clients import this_computer
    from vaultmem.service.own_server import own_server
    from vaultmem.service.server_check import CLIENTS_WAIT_SECONDS, try_server

    try:
        seen = try_server(own_server(memory.settings, this_computer()).entry)
    except VaultmemError as error:
        yield Check("mcp-start", False, str(error), "")
        return
    if seen.problem:
        fix = "Run `vaultmem mcp` in a terminal; what it writes there says more."
        yield Check("mcp-start", False, f"The MCP server does not start: {seen.problem}", fix)
        return
    yield Check("mcp-start", True, "The MCP server starts and answers", "")
    quick = seen.seconds < CLIENTS_WAIT_SECONDS
    slow = "Some assistants wait no longer than 10 s. Try again when the computer is less busy."
    detail = f"It greets a client {seen.seconds:.2f} s after its start"
    yield Check("mcp-handshake", quick, detail, "" if quick else slow)
    listed = f"{len(seen.tools)} tools: {', '.join(seen.tools)}"
    yield Check("mcp-tools", bool(seen.tools), listed, "")
    detail = f"They cost an assistant {seen.tokens:,} tokens a session"
    yield Check("mcp-schema", seen.tokens < SCHEMA_TOKENS, detail, "")


def _clients(memory: Memory) -> Iterator[Check]:
    """Each assistant that is installed, whether it knows this vault, and whether that works."""
    from vaultmem.service.connecting import ConnectionState, configured
    from vaultmem.service.own_server import DEFAULT_NAME, starts_directly
    from vaultmem.service.server_check import client_environment, try_server

    started: dict[str, str] = {}  # entry -> why it does not work
    try:
        found = configured(memory.settings)
    except VaultmemError as error:
        yield Check("clients", False, str(error), "")
        return
    for connection, entry in found:
        state = connection.state
        if state is ConnectionState.NOT_INSTALLED:
            continue
        # That one is not connected is a person's choice, and another vault of theirs too. What is
        # to be done about the other states, their detail says.
        ok = state not in (ConnectionState.COMMAND_MISSING, ConnectionState.UNREADABLE)
        detail = f"{connection.title}, {connection.path}: {state.value}"
        # (Only what is certain to be vaultmem is started: a file may name anything.)
        if state is ConnectionState.CONNECTED and entry is not None and starts_directly(entry):
            key = repr(entry)
            if key not in started:
                started[key] = try_server(entry, client_environment()).problem
            if started[key]:
                ok = False
                detail += f", but its server does not start: {started[key]}"
        if connection.detail:
            detail += f". {connection.detail}"
        waiting = not ok or state is ConnectionState.NOT_CONNECTED
        waiting = waiting and state is not ConnectionState.UNREADABLE
        fix = f"`vaultmem connect {connection.client}` connects it." if waiting else ""
        named = "" if connection.name in ("", DEFAULT_NAME) else f"-{connection.name}"
        yield Check(f"client-{connection.client}{named}", ok, detail, fix)
