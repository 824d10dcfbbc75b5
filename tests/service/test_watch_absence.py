"""Absence is not deletion: what a watcher keeps, for how long, and what it says of that.

What a child process has to show, that folders may not be read, is in test_cli_absence.py.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from counted_embedder import Codes, Counted, kept_texts, use, vectors
from followed import Followed, Times

from vaultmem.index.lookup import Lookup
from vaultmem.model.errors import VaultUnreadable
from vaultmem.model.watch_state import Watching
from vaultmem.service import watching
from vaultmem.service.application import Clock, Memory, open_memory
from vaultmem.service.embedding_thread import Embedded
from vaultmem.service.indexing import Bounds, take_in
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.lint import LintRequest, lint
from vaultmem.service.operations.search import SearchReply, SearchRequest, search
from vaultmem.service.operations.status import StatusReply, StatusRequest, status
from vaultmem.service.settings import Settings, load_settings
from vaultmem.service.watching import Batch, Reachable, SettingsRead, Unreachable
from vaultmem.surfaces.render import render_status
from vaultmem.surfaces.render_watch import render_event
from vaultmem.vault.ignore import compile_rules
from vaultmem.vault.obsidian import read_obsidian
from vaultmem.vault.scan import scan

Open = Callable[..., Memory]
Write = Callable[[Path, Mapping[str, str]], None]

NOTES: Mapping[str, str] = {
    "Gate.md": "The gate is painted green. See [[Kiln]] and [[Barn]].\n",
    "Shed/Kiln.md": "The kiln stands behind the gate.\n",
    "Shed/Wheel.md": "The wheel stands beside the gate, near the [[Kiln]].\n",
    "Yard/Barn.md": "---\nid: barn-1\n---\nThe barn stands left of the gate.\n",
    "Yard/Well.md": "The well is dug below the gate.\n\n## Rope\n\nThe rope of the gate is new.\n",
    "Yard/Deep/Pump.md": "The pump stands far from the gate.\n",
}
MINUTE = 60.0


@dataclass(slots=True)
class Scene:
    """A vault that is indexed, embedded and followed, and what was known of it at first."""

    memory: Memory  # of another process, which asks
    followed: Followed
    embedder: Counted
    canon: Callable[[Memory], list[str]]
    rows: list[str] = field(default_factory=list)
    vectors: dict[bytes, Codes] = field(default_factory=dict)

    @property
    def vault(self) -> Path:
        return self.memory.vault

    @property
    def aside(self) -> Path:
        """A place beside the vault."""
        return self.vault.with_name("aside")

    def note_rows(self) -> list[str]:
        """All that is known of notes; not what the last look had to say, nor when it was."""
        return [row for row in self.canon(self.memory) if not row.startswith(("scan ", "meta "))]

    def remember(self) -> None:
        self.rows, self.vectors = self.note_rows(), vectors(self.memory)

    def assert_kept(self) -> None:
        """Every row is as it was, with its vector, and the cache of vectors too."""
        assert self.note_rows() == self.rows
        found = vectors(self.memory)
        assert found.keys() == self.vectors.keys()
        assert all((found[text] == codes).all() for text, codes in self.vectors.items())
        assert kept_texts(self.memory) >= self.vectors.keys()

    def assert_nothing_embedded_anew(self) -> None:
        known = len(self.embedder.texts)
        assert index(self.memory, IndexRequest()).chunks.waiting == 0
        assert len(self.embedder.texts) == known

    def paths(self) -> list[str]:
        """The notes in the index."""
        sidecar = self.memory.open_sidecar()
        assert sidecar is not None
        return sorted(Lookup(sidecar).all_paths())

    def search(self, query: str = "gate") -> SearchReply:
        return search(self.memory, SearchRequest(query, mode="keyword", limit=500))

    def found(self, query: str = "gate") -> list[str]:
        return sorted(hit.path for hit in self.search(query).hits)

    def status(self) -> StatusReply:
        return status(self.memory, StatusRequest())

    def problems(self, code: str) -> list[tuple[str, str]]:
        """(path, message) of the problems of a kind that `index` and `lint` list."""
        linted = lint(self.memory, LintRequest()).problems
        indexed = index(self.memory, IndexRequest(embed=False)).problems
        found = [[(p.path, p.message) for p in listed if p.code == code]
                 for listed in (linted, indexed)]  # fmt: skip
        assert found[0] == found[1]
        return found[0]


OpenScene = Callable[..., Scene]


@pytest.fixture
def scene(
    open_vault: Open, canon: Callable[[Memory], list[str]], tmp_path: Path
) -> Iterator[OpenScene]:
    """scene(notes, **options of Followed): an indexed vault with a watcher that has begun."""
    with ExitStack() as running:

        def open_scene(
            notes: Mapping[str, str] = NOTES, *, vectors: bool = True, **options: Any
        ) -> Scene:
            environment = {
                "VAULTMEM_EMBEDDER_NAME": "minilm" if vectors else "none",
                "VAULTMEM_STATE_DIR": str(tmp_path / "state"),
            }
            times = Times()
            memory = open_vault(notes, clock=times.clock, environment=environment)
            embedder = Counted() if vectors else Counted.__new__(Counted)
            if vectors:
                use(memory, embedder)
            index(memory, IndexRequest())

            def load() -> Settings:
                return load_settings(memory.vault, tmp_path / "cache", environment=environment)

            followed = Followed(load, times, **options)
            opened = Scene(memory, followed, embedder, canon)
            if vectors:
                opened.remember()
            running.enter_context(followed.running())
            return opened

        yield open_scene


# The whole vault


def gone(scene: Scene) -> Callable[[], object]:
    """A disk that is pulled out: there is no such folder."""
    scene.vault.rename(scene.aside)
    return lambda: scene.aside.rename(scene.vault)


def unmounted(scene: Scene) -> Callable[[], object]:
    """A disk that is unmounted: its mount point is an empty folder."""
    scene.vault.rename(scene.aside)
    scene.vault.mkdir()

    def mount() -> None:
        scene.vault.rmdir()
        scene.aside.rename(scene.vault)

    return mount


def emptied(scene: Scene) -> Callable[[], object]:
    """A sync client that starts over: the same folder, with nothing in it."""
    scene.aside.mkdir()
    for entry in sorted(scene.vault.iterdir()):
        entry.rename(scene.aside / entry.name)

    def fill() -> None:
        for entry in sorted(scene.aside.iterdir()):
            entry.rename(scene.vault / entry.name)

    return fill


def stand_ins(form: str) -> Callable[[Scene], Callable[[], object]]:
    """A sync service that frees space: in the place of each note there is something else."""

    def evict(scene: Scene) -> Callable[[], object]:
        moved: list[tuple[Path, Path, str]] = []
        for note in sorted(scene.vault.rglob("*.md")):
            stand_in = note.with_name(form.format(note.name))
            moved.append((note, stand_in, note.read_text("utf-8")))
            note.unlink()
            stand_in.write_bytes(b"bplist00")

        def fetch() -> None:
            for note, stand_in, text in moved:
                stand_in.unlink()
                note.write_text(text, "utf-8")

        return fetch

    return evict


AWAY: dict[str, tuple[Callable[[Scene], Callable[[], object]], str]] = {
    "gone": (gone, "cannot be listed"),
    "unmounted": (unmounted, "no Markdown note"),
    "emptied": (emptied, "no Markdown note"),
    "icloud": (stand_ins(".{}.icloud"), "a sync service keeps stand-ins"),
    "nextcloud": (stand_ins("{}.nextcloud"), "a sync service keeps stand-ins"),
}


@pytest.mark.parametrize("way", AWAY)
def test_a_vault_that_is_away_is_kept_for_as_long_as_it_is_and_everybody_is_told(
    scene: OpenScene, way: str
) -> None:
    take_away, reason = AWAY[way]
    opened = scene()
    followed = opened.followed
    bring_back = take_away(opened)
    followed.until(lambda: bool(followed.said(Unreachable)))
    for _ in range(3):
        followed.pass_by(1.5 * MINUTE)
        opened.assert_kept()
    (told,) = followed.said(Unreachable)  # once, not every time
    assert str(opened.vault) in told.reason
    assert reason in told.reason
    assert "kept" in told.reason
    assert render_event(told).startswith("! ")
    assert followed.said(SettingsRead) == []

    watcher = opened.status().watcher
    assert watcher is not None
    assert (watcher.state, watcher.missing) == (Watching.UNREACHABLE, 0)
    assert reason in watcher.problem
    shown = render_status(opened.status())
    assert "the vault is unreachable" in shown
    assert "waiting to be indexed" not in shown
    assert f"notes     {len(NOTES)} in" in shown

    reply = opened.search()
    assert sorted(hit.path for hit in reply.hits) == sorted(NOTES)
    assert all(hit.stale for hit in reply.hits)
    assert len(reply.degraded) == 1
    assert reason in reply.degraded[0]

    since = len(followed.events)
    bring_back()
    followed.until(lambda: bool(followed.said(Reachable)))
    followed.pass_by(3 * MINUTE)
    opened.assert_kept()
    assert [batch.notes.touched for batch in followed.said(Batch, since)] in ([], [0])
    reply = opened.search()
    assert (len(reply.hits), reply.degraded) == (len(NOTES), ())
    assert not any(hit.stale for hit in reply.hits)
    assert opened.status().fresh
    opened.assert_nothing_embedded_anew()
    # Who has seen it away sees that it is not any more.
    (opened.vault / "Yard/Well.md").unlink()
    assert opened.found() == sorted(NOTES.keys() - {"Yard/Well.md"})


def test_a_vault_that_comes_back_note_by_note_has_lost_none_of_them(scene: OpenScene) -> None:
    opened = scene()
    emptied(opened)
    opened.followed.until(lambda: bool(opened.followed.said(Unreachable)))
    opened.followed.pass_by(4 * MINUTE)
    (opened.aside / "Gate.md").rename(opened.vault / "Gate.md")
    opened.followed.until(lambda: bool(opened.followed.said(Reachable)))
    assert opened.followed.missing() == len(NOTES) - 1
    opened.followed.pass_by(MINUTE / 2)
    opened.assert_kept()
    (opened.aside / "Shed").rename(opened.vault / "Shed")
    opened.followed.pass_by(MINUTE / 4)
    (opened.aside / "Yard").rename(opened.vault / "Yard")
    opened.followed.until(lambda: opened.followed.missing() == 0)
    opened.followed.pass_by(3 * MINUTE)
    opened.assert_kept()
    opened.assert_nothing_embedded_anew()


def test_control_of_those_a_look_that_believes_at_once_loses_them(scene: OpenScene) -> None:
    opened = scene()
    emptied(opened)
    (opened.aside / "Gate.md").rename(opened.vault / "Gate.md")
    opened.assert_kept()
    take_in(opened.memory, bounds=Bounds(confirmed=None))
    assert opened.paths() == ["Gate.md"]
    with pytest.raises(AssertionError):
        opened.assert_kept()


def test_an_emptied_vault_that_is_restored_embeds_nothing_anew(scene: OpenScene) -> None:
    """The watcher's own embedding is at work here, which tells how many vectors it computed."""
    opened = scene(embed=True)
    followed = opened.followed
    bring_back = emptied(opened)
    followed.until(lambda: bool(followed.said(Unreachable)))
    followed.pass_by(3 * MINUTE)
    bring_back()
    followed.until(lambda: bool(followed.said(Reachable)))
    followed.pass_by(2 * MINUTE)
    opened.assert_kept()
    assert followed.said(Embedded) == []
    # Control: it does embed, and says so.
    (opened.vault / "New.md").write_text("A note that nobody has seen.\n")
    followed.until(lambda: bool(followed.said(Embedded)))
    (told,) = followed.said(Embedded)
    assert (told.embedded, told.waiting, told.problem) == (1, 0, "")


def test_notes_that_were_forgotten_and_come_back_have_their_vectors_still(scene: OpenScene) -> None:
    opened = scene()
    shutil.move(opened.vault / "Yard", opened.aside)
    opened.followed.until(lambda: opened.followed.missing() == 3)
    opened.followed.pass_by(2 * MINUTE)
    assert opened.paths() == ["Gate.md", "Shed/Kiln.md", "Shed/Wheel.md"]
    assert kept_texts(opened.memory) >= opened.vectors.keys()
    shutil.move(opened.aside, opened.vault / "Yard")
    opened.followed.until(lambda: opened.paths() == sorted(NOTES))
    opened.assert_nothing_embedded_anew()
    opened.assert_kept()


# The settings lie in the vault, too


SETTINGS = {
    ".vaultmem/config.toml": '[scan]\nignore = ["Private"]\n[chunk]\nmax_pieces = 120\n',
    ".obsidian/app.json": '{"userIgnoreFilters": ["Secret/"]}',
    ".obsidian/daily-notes.json": '{"folder": "Journal"}',
    "Private/Diary.md": "The gate of my heart.\n",
    "Secret/Plan.md": "The gate will be blown up.\n",
}


@pytest.mark.parametrize("way", ["gone", "unmounted", "emptied"])
def test_settings_that_are_away_with_the_vault_stay_in_force(scene: OpenScene, way: str) -> None:
    opened = scene({**NOTES, **SETTINGS})
    followed = opened.followed
    assert opened.found() == sorted(NOTES)
    bring_back = AWAY[way][0](opened)
    followed.until(lambda: bool(followed.said(Unreachable)))
    followed.pass_by(2 * MINUTE)
    # A process that starts now finds no settings, and still has an index to answer from.
    opened.memory.close()
    if way != "gone":  # where there is no folder at all, that is what it says
        opened.memory.settings = followed.load()
    reply = opened.search()
    assert sorted(hit.path for hit in reply.hits) == sorted(NOTES)
    assert len(reply.degraded) == 1
    assert opened.status().notes == len(NOTES)

    bring_back()
    opened.memory.close()
    opened.memory.settings = followed.load()
    use(opened.memory, opened.embedder)
    found: set[str] = set()

    def is_back() -> bool:
        found.update(opened.paths())
        return bool(followed.said(Reachable))

    followed.until(is_back)
    followed.pass_by(1.5 * MINUTE)
    assert found == set(NOTES)  # not for a moment was more in the index than may be
    opened.assert_kept()
    assert [event.problem for event in followed.said(SettingsRead)] in ([], [""])


# A part of the vault


def test_a_note_is_forgotten_when_it_was_gone_at_two_looks_a_minute_apart_and_not_before(
    scene: OpenScene,
) -> None:
    opened = scene()
    (opened.vault / "Yard/Well.md").unlink()
    opened.followed.until(lambda: opened.followed.missing() == 1)
    gone_since = opened.followed.times.seconds
    assert render_event(opened.followed.said(Batch)[-1]).find("1 missing, kept for now") > 0
    reply = opened.status()
    assert reply.missing == 1
    assert "1 note missing, kept for now" in render_status(reply)
    assert "Yard/Well.md" not in opened.found()
    assert opened.search().degraded == ()
    opened.followed.pass_by(MINUTE - 5)
    opened.assert_kept()
    since = len(opened.followed.events)
    opened.followed.pass_by(gone_since + MINUTE + 3 - opened.followed.times.seconds)
    assert "Yard/Well.md" not in opened.paths()
    (batch,) = opened.followed.said(Batch, since)
    assert (batch.notes.removed, batch.missing, batch.cause) == (1, 0, "reconcile")
    assert opened.status().missing == 0
    with pytest.raises(AssertionError):
        opened.assert_kept()
    opened.followed.pass_by(3 * MINUTE)
    assert opened.followed.removed(since) == 1


@pytest.mark.parametrize("text", [NOTES["Yard/Well.md"], "The gate and the well, another text.\n"])
def test_a_note_that_is_back_within_a_minute_was_never_away(scene: OpenScene, text: str) -> None:
    opened = scene()
    well = opened.vault / "Yard/Well.md"
    for _ in range(4):  # four minutes in all: its being gone does not add up
        well.unlink()
        opened.followed.until(lambda: opened.followed.missing() == 1)
        opened.followed.pass_by(MINUTE - 10)
        assert "Yard/Well.md" in opened.paths()
        well.write_text(text)
        opened.followed.until(lambda: opened.followed.missing() == 0)
        opened.followed.pass_by(5)
    opened.followed.pass_by(3 * MINUTE)
    assert opened.followed.removed() == 0
    assert opened.found("well") == ["Yard/Well.md"]
    if text == NOTES["Yard/Well.md"]:
        opened.assert_kept()


def test_control_of_those_a_watcher_that_waits_for_nothing_forgets_it(
    scene: OpenScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "GONE_SECONDS", 0.0)
    opened = scene()
    (opened.vault / "Yard/Well.md").unlink()
    opened.followed.until(lambda: opened.followed.removed() == 1)
    with pytest.raises(AssertionError):
        opened.assert_kept()


def test_a_minute_of_the_watcher_is_no_minute_of_the_wall_clock(scene: OpenScene) -> None:
    """A laptop that sleeps, or a clock that is set, makes nothing older than it is."""
    opened = scene()
    (opened.vault / "Yard/Well.md").unlink()
    opened.followed.until(lambda: opened.followed.missing() == 1)
    since = len(opened.followed.events)
    opened.followed.times.sleep(3600.0)
    opened.followed.pass_by(30)
    assert [batch.cause for batch in opened.followed.said(Batch, since)] in ([], ["wake"])
    opened.assert_kept()


MANY = 120
MANY_NOTES = {
    **{f"Here/{number:03}.md": f"note{number} of the gate\n" for number in range(40)},
    **{f"There/{number:03}.md": f"note{number} of the gate\n" for number in range(40, MANY)},
}


def test_more_than_fifty_and_a_fifth_are_kept_until_a_person_says_that_they_are_gone(
    scene: OpenScene,
) -> None:
    opened = scene(MANY_NOTES, vectors=False)
    followed = opened.followed
    before = opened.note_rows()
    shutil.move(opened.vault / "There", opened.aside)
    followed.until(lambda: followed.missing() == 80)
    for _ in range(3):
        followed.pass_by(3 * MINUTE)
        assert opened.note_rows() == before
    ((path, message),) = opened.problems("notes-missing")
    assert path == "."
    assert message.startswith("80 of 120 notes are missing")
    assert "vaultmem index --accept-deletions" in message
    assert opened.status().missing == 80
    assert "80 notes missing, kept for now" in render_status(opened.status())
    reply = opened.search("note100")
    assert (reply.hits, reply.degraded) == ((), (message,))
    assert opened.search("note10").degraded == (message,)

    # Whoever indexes does not believe it either, however often; a person does.
    assert index(opened.memory, IndexRequest()).notes.removed == 0
    assert index(opened.memory, IndexRequest()).notes.removed == 0
    assert opened.note_rows() == before
    accepted = index(opened.memory, IndexRequest(accept_deletions=True))
    assert (accepted.notes.removed, accepted.problems) == (80, ())
    assert len(opened.paths()) == 40
    followed.pass_by(2 * MINUTE)
    assert opened.status().missing == 0
    assert opened.search("note10").degraded == ()


def test_control_of_that_half_as_many_are_believed(scene: OpenScene) -> None:
    opened = scene(MANY_NOTES, vectors=False)
    shutil.move(opened.vault / "Here", opened.aside)
    opened.followed.until(lambda: opened.followed.missing() == 40)
    opened.followed.pass_by(2 * MINUTE)
    assert len(opened.paths()) == 80


def test_without_a_watcher_it_is_said_as_well(open_vault: Open) -> None:
    memory = open_vault(MANY_NOTES)
    index(memory, IndexRequest())
    shutil.move(memory.vault / "There", memory.vault.with_name("aside"))
    for _ in range(2):
        reply = search(memory, SearchRequest("note100"))
        assert reply.hits == ()
        assert [text[:28] for text in reply.degraded] == ["80 of 120 notes are missing,"]
        found = status(memory, StatusRequest())
        assert (found.notes, found.missing) == (MANY, 80)
        assert "80 of them missing" in render_status(found)


def test_many_that_are_back_are_as_they_were(scene: OpenScene) -> None:
    opened = scene(MANY_NOTES, vectors=False)
    before = opened.canon(opened.memory)
    shutil.move(opened.vault / "There", opened.aside)
    opened.followed.until(lambda: opened.followed.missing() == 80)
    opened.followed.pass_by(3 * MINUTE)
    shutil.move(opened.aside, opened.vault / "There")
    opened.followed.until(lambda: opened.followed.missing() == 0)
    opened.followed.pass_by(2 * MINUTE)
    assert opened.canon(opened.memory) == before
    assert opened.search("note100").degraded == ()


# Another vault


@pytest.mark.parametrize("others", [5, 700])
def test_another_vault_in_its_place_does_not_push_it_out(
    scene: OpenScene, write: Write, others: int
) -> None:
    """700 notes more make 120 look like no large part; they are all of what there was."""
    opened = scene(MANY_NOTES, vectors=False)
    followed = opened.followed
    opened.vault.rename(opened.aside)
    write(opened.vault, {f"Other/{n:03}.md": f"of another vault {n}\n" for n in range(others)})
    followed.until(lambda: opened.status().notes == MANY + others)
    assert followed.missing() == MANY
    for _ in range(3):
        followed.pass_by(2 * MINUTE)
    assert index(opened.memory, IndexRequest()).notes.removed == 0
    assert len(opened.paths()) == MANY + others
    ((_, message),) = opened.problems("notes-missing")
    assert message.startswith(f"{MANY} of {MANY} notes are missing")
    assert message in opened.search("note7").degraded

    shutil.rmtree(opened.vault)
    opened.aside.rename(opened.vault)
    followed.until(lambda: followed.missing() == others)
    followed.pass_by(2 * MINUTE)
    assert set(MANY_NOTES) <= set(opened.paths())


def test_control_of_that_who_accepts_deletions_pushes_it_out(
    scene: OpenScene, write: Write
) -> None:
    opened = scene(MANY_NOTES, vectors=False)
    opened.vault.rename(opened.aside)
    write(opened.vault, {"Other.md": "of another vault\n"})
    take_in(opened.memory, bounds=Bounds(accept_deletions=True, confirmed=None))
    assert opened.paths() == ["Other.md"]


OTHER_RULES = {
    "vaultmem's": {".vaultmem/config.toml": "[chunk]\nmax_pieces = 120\n"},
    "Obsidian's": {".obsidian/daily-notes.json": '{"folder": "Journal"}'},
}


@pytest.mark.parametrize("settings", OTHER_RULES.values(), ids=OTHER_RULES)
def test_another_vault_with_other_settings_has_no_index_made_in_the_place_of_this_one(
    scene: OpenScene, write: Write, settings: Mapping[str, str]
) -> None:
    """A mount point that is not quite empty, and holds no settings, is enough of one."""
    opened = scene({**MANY_NOTES, **settings}, vectors=False)
    followed = opened.followed
    before = opened.note_rows()
    opened.vault.rename(opened.aside)
    write(opened.vault, {"README.md": "The vault is mounted here.\n"})
    followed.until(lambda: bool(followed.said(Unreachable)))
    followed.pass_by(3 * MINUTE)
    (told,) = followed.said(Unreachable)
    assert "120 of 120 notes are missing" in told.reason
    assert "vaultmem index --accept-deletions" in told.reason
    stranger = open_memory(followed.load(), clock=followed.times.clock)
    for ask in (lambda: index(stranger, IndexRequest()),
                lambda: search(stranger, SearchRequest("note7"))):  # fmt: skip
        with pytest.raises(VaultUnreadable, match="120 of 120 notes are missing"):
            ask()
    stranger.close()

    shutil.rmtree(opened.vault)
    opened.aside.rename(opened.vault)
    since = len(followed.events)
    followed.until(lambda: bool(followed.said(Reachable)))
    followed.pass_by(2 * MINUTE)
    assert [batch.notes.touched for batch in followed.said(Batch, since)] in ([], [0])
    assert opened.note_rows() == before


def test_control_of_that_other_settings_alone_have_the_index_made_anew(
    scene: OpenScene, write: Write
) -> None:
    opened = scene(MANY_NOTES, vectors=False)
    write(opened.vault, {".vaultmem/config.toml": "[chunk]\nmax_pieces = 120\n"})
    for number in range(40, 90):  # as many as may go, and all others into another folder
        (opened.vault / f"There/{number:03}.md").unlink()
    (opened.vault / "Here").rename(opened.vault / "Elsewhere")
    opened.followed.until(lambda: bool(opened.followed.said(SettingsRead)))
    opened.followed.pass_by(MINUTE / 6)
    assert opened.followed.said(Unreachable) == []
    stranger = open_memory(opened.followed.load(), clock=opened.followed.times.clock)
    assert index(stranger, IndexRequest()).notes.total == MANY - 50
    stranger.close()


def test_a_small_vault_in_whose_place_there_is_another_is_kept_for_a_minute(
    scene: OpenScene, write: Write
) -> None:
    opened = scene()
    opened.vault.rename(opened.aside)
    write(opened.vault, {"Other.md": "of another vault\n"})
    opened.followed.until(lambda: opened.followed.missing() == len(NOTES))
    opened.followed.pass_by(MINUTE - 5)
    assert set(opened.paths()) == {*NOTES, "Other.md"}
    shutil.rmtree(opened.vault)
    opened.aside.rename(opened.vault)
    opened.followed.until(lambda: opened.followed.missing() == 1)
    opened.followed.pass_by(2 * MINUTE)
    opened.assert_kept()
    opened.assert_nothing_embedded_anew()


# Between the look and the reading


@pytest.fixture
def at_first_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Do something once, just before the next note is opened."""

    def arrange(do: Callable[[], object]) -> None:
        still_to_do = [do]
        plain = os.open

        def opening(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
            if still_to_do and str(path).endswith(".md"):
                still_to_do.pop()()
            return plain(path, flags, *arguments, **options)

        monkeypatch.setattr(os, "open", opening)

    return arrange


def test_half_a_vault_that_is_cut_away_between_look_and_reading_is_kept(
    scene: OpenScene, at_first_read: Callable[[Callable[[], object]], None]
) -> None:
    opened = scene()
    followed = opened.followed
    cut: list[bool] = []

    def cut_away() -> None:
        shutil.move(opened.vault / "Yard", opened.aside)
        cut.append(True)

    at_first_read(cut_away)
    for path, text in NOTES.items():
        (opened.vault / path).write_text(text + "\nEdited, the gatepost.\n")
    (opened.vault / "Yard/New.md").write_text("A new gatepost.\n")
    followed.until(lambda: followed.missing() == 3)
    assert cut
    assert opened.paths() == sorted(NOTES)  # all rows are there, and none of what nobody could read
    assert opened.found("gatepost") == ["Gate.md", "Shed/Kiln.md", "Shed/Wheel.md"]
    followed.pass_by(MINUTE / 2)
    assert opened.paths() == sorted(NOTES)
    shutil.move(opened.aside, opened.vault / "Yard")
    followed.until(lambda: len(opened.paths()) == len(NOTES) + 1)
    followed.until(lambda: followed.missing() == 0)
    assert opened.found("gatepost") == sorted([*NOTES, "Yard/New.md"])
    followed.pass_by(2 * MINUTE)
    assert followed.removed() == 0


def test_a_vault_that_goes_between_look_and_reading_is_kept(
    scene: OpenScene, at_first_read: Callable[[Callable[[], object]], None]
) -> None:
    opened = scene()
    at_first_read(lambda: opened.vault.rename(opened.aside))
    for path, text in NOTES.items():
        (opened.vault / path).write_text(text + "\nEdited.\n")
    opened.followed.until(lambda: bool(opened.followed.said(Unreachable)))
    opened.followed.pass_by(3 * MINUTE)
    opened.assert_kept()
    opened.aside.rename(opened.vault)
    opened.followed.until(lambda: bool(opened.followed.said(Reachable)))
    assert opened.found("edited") == sorted(NOTES)


# Stand-ins in a part of it


FORMS = [".{}.icloud", "{}.nextcloud", "{}.owncloud"]


@pytest.mark.parametrize("form", FORMS)
def test_notes_with_stand_ins_are_kept_and_counted_and_are_one_thing_only(
    scene: OpenScene, form: str
) -> None:
    opened = scene()
    followed = opened.followed

    def evict(path: str) -> Path:
        note = opened.vault / path
        note.unlink()
        followed.until(lambda: followed.missing() == 1)  # the client takes its time between both
        stand_in = note.with_name(form.format(note.name))
        stand_in.write_bytes(b"bplist00")
        followed.until(lambda: followed.missing() == 0)
        return stand_in

    first = evict("Yard/Well.md")
    followed.pass_by(5)
    assert "1 of its notes" in dict(said(opened))["Yard"]
    evict("Yard/Barn.md")
    followed.pass_by(5)
    assert [path for path, _ in said(opened)] == ["Yard"]
    assert "2 of its notes" in dict(said(opened))["Yard"]
    with opened.memory.guarded():
        files = opened.memory.lookup().all_files()
    assert not {"Yard/Well.md", "Yard/Barn.md"}.intersection(files)
    followed.pass_by(4 * MINUTE)
    assert opened.paths() == sorted(NOTES)
    hits = {hit.path: hit.stale for hit in opened.search().hits}
    assert hits == {path: path in ("Yard/Well.md", "Yard/Barn.md") for path in NOTES}
    assert opened.status().missing == 0
    first.unlink()
    (opened.vault / "Yard/Well.md").write_text(NOTES["Yard/Well.md"])
    followed.until(lambda: "1 of its notes" in dict(said(opened)).get("Yard", ""))
    assert followed.removed() == 0
    opened.assert_nothing_embedded_anew()


def said(opened: Scene) -> list[tuple[str, str]]:
    """What is said of stand-ins; nothing is looked at for that."""
    with opened.memory.guarded():
        sidecar = opened.memory.open_sidecar()
        assert sidecar is not None
        return [(p.path, p.message) for p in Lookup(sidecar).problems() if p.code == "not-here"]


# Files that are there by their names alone. No system lets a test make one, so what the system
# says of them is put in; what is done about it is real.

Flags = Mapping[str, int]

ELSEWHERE: Mapping[str, Flags] = {
    "offline": {"st_file_attributes": 0x1000},  # winnt.h
    "recall on open": {"st_file_attributes": 0x40000 | 0x20},
    "recall on data access": {"st_file_attributes": 0x400000},
    "dataless": {"st_flags": 0x40000000 | 0x20},  # sys/stat.h of macOS
}
ORDINARY: Mapping[str, Flags] = {
    "archive": {"st_file_attributes": 0x20},
    "tracked": {"st_flags": 0x40},
}


class FlaggedEntry:
    """A directory entry whose file has other flags."""

    def __init__(self, entry: "os.DirEntry[str]", flags: Flags) -> None:
        self._entry, self._flags = entry, flags

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)

    def stat(self, *, follow_symlinks: bool = True) -> SimpleNamespace:
        return flagged(self._entry.stat(follow_symlinks=follow_symlinks), self._flags)


def flagged(state: os.stat_result, flags: Flags) -> SimpleNamespace:
    names = [name for name in dir(state) if name.startswith("st_") and name not in flags]
    return SimpleNamespace(**{name: getattr(state, name) for name in names}, **flags)


@pytest.fixture
def flag(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, Flags]], list[str]]:
    """Let the system say of files, by name, that they have flags; which of them are opened."""

    def arrange(names: Mapping[str, Flags]) -> list[str]:
        opened: list[str] = []
        plain_scandir, plain_stat, plain_open = os.scandir, os.stat, os.open

        @contextmanager
        def scandir(path: Any) -> Iterator[Iterator[Any]]:
            with plain_scandir(path) as entries:
                yield (FlaggedEntry(e, names[e.name]) if e.name in names else e for e in entries)

        def stat(path: Any, *arguments: Any, **options: Any) -> Any:
            state = plain_stat(path, *arguments, **options)
            name = os.path.basename(path) if isinstance(path, str) else ""
            return flagged(state, names[name]) if name in names else state

        def opening(path: Any, *arguments: Any, **options: Any) -> int:
            if os.path.basename(str(path)) in names:
                opened.append(os.path.basename(str(path)))
            return plain_open(path, *arguments, **options)

        monkeypatch.setattr(os, "scandir", scandir)
        monkeypatch.setattr(os, "stat", stat)
        monkeypatch.setattr(os, "open", opening)
        return opened

    return arrange


Flag = Callable[[Mapping[str, Flags]], list[str]]


@pytest.mark.parametrize("flags", ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_note_whose_text_is_elsewhere_is_seen_and_not_taken_for_a_note_of_this_device(
    tmp_path: Path, write: Write, flag: Flag, flags: Flags
) -> None:
    write(tmp_path, {"a.md": "here", "x/b.md": "elsewhere", "x/c.md": "here"})
    opened = flag({"b.md": flags})
    rules, _ = compile_rules(read_obsidian(tmp_path), ())
    for only in (None, ["x/b.md"], ["x"]):
        snapshot = scan(tmp_path, rules, max_note_bytes=1000, only=only)
        assert "x/b.md" not in snapshot.notes
        assert snapshot.away == {"x/b.md"}
        if only != ["x/b.md"]:
            assert [(p.path, p.code) for p in snapshot.problems] == [("x", "not-here")]
    assert opened == []


@pytest.mark.parametrize("flags", ORDINARY.values(), ids=ORDINARY)
def test_control_of_that_other_flags_mean_nothing(
    tmp_path: Path, write: Write, flag: Flag, flags: Flags
) -> None:
    write(tmp_path, {"b.md": "here"})
    flag({"b.md": flags})
    rules, _ = compile_rules(read_obsidian(tmp_path), ())
    snapshot = scan(tmp_path, rules, max_note_bytes=1000)
    assert (set(snapshot.notes), snapshot.away) == ({"b.md"}, frozenset())


@pytest.mark.parametrize("name", ["recall on data access", "dataless"])
def test_notes_whose_text_is_elsewhere_are_kept_and_nothing_fetches_them(
    scene: OpenScene, flag: Flag, name: str
) -> None:
    opened = scene()
    fetched = flag(dict.fromkeys(("Well.md", "Pump.md"), ELSEWHERE[name]))
    opened.followed.pass_by(3 * MINUTE)
    opened.assert_kept()
    assert opened.status().missing == 0
    assert [path for path, _ in opened.problems("not-here")] == ["Yard", "Yard/Deep"]
    hits = {hit.path: hit.stale for hit in opened.search().hits}
    assert hits == {p: p in ("Yard/Well.md", "Yard/Deep/Pump.md") for p in NOTES}
    assert all(hit.snippet for hit in opened.search().hits)
    opened.assert_nothing_embedded_anew()
    assert fetched == []


def test_a_vault_of_which_nothing_is_here_is_unreachable(scene: OpenScene, flag: Flag) -> None:
    opened = scene()
    fetched = flag({path.rpartition("/")[2]: ELSEWHERE["dataless"] for path in NOTES})
    opened.followed.pass_by(3 * MINUTE)
    opened.assert_kept()
    (told,) = opened.followed.said(Unreachable)
    assert "on this device" in told.reason
    reply = opened.search()
    assert [hit.stale for hit in reply.hits] == [True] * len(NOTES)
    assert "on this device" in reply.degraded[0]
    assert fetched == []


def test_the_clock_of_these_tests_is_the_one_that_the_watcher_goes_by(scene: OpenScene) -> None:
    opened = scene(vectors=False)
    clock: Clock = opened.followed.times.clock
    before = clock.elapsed()
    opened.followed.pass_by(MINUTE)
    assert clock.elapsed() == before + MINUTE
    watcher = opened.status().watcher
    assert watcher is not None
    assert 0 <= clock.now_ns() - watcher.said_ns < 10e9
