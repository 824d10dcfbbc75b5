"""One vault that a sync client carries between two devices, each with an index of its own."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest
from followed import Followed, Times

from vaultmem.index.update import stored_files
from vaultmem.service.application import Memory, open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.inspect import InspectRequest, inspect
from vaultmem.service.operations.lint import LintRequest, lint
from vaultmem.service.operations.read import ReadRequest, read
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.operations.status import StatusRequest, status
from vaultmem.service.settings import Settings, load_settings
from vaultmem.service.watching import Batch, SettingsRead

NOTES: Mapping[str, str] = {
    "Harbour.md": "The harbour is closed in winter. See [[Ferry]].\n",
    "Trips/Ferry.md": "The ferry leaves the harbour at nine, in twilight.\n",
    "Trips/Island.md": "The island has no harbour of its own.\n",
    "Drafts/Poem.md": "O harbour, my harbour.\n",
    "Trips/map.png": "not a note",
}
DAY = 86_400.0

# How a client puts a file into the folder: (path, bytes, modification time in nanoseconds).
Put = Callable[[Path, bytes, int], None]


@dataclass(slots=True)
class Device:
    """A folder, a cache, a state folder, a clock, a watcher, and a process that asks."""

    vault: Path
    times: Times
    memory: Memory
    followed: Followed

    def write(self, path: str, text: str) -> None:
        """Save a note as a person does, by this device's clock."""
        file = self.vault / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        os.utime(file, ns=(self.times.now_ns(), self.times.now_ns()))

    def files(self) -> dict[str, bytes]:
        """Everything in the folder."""
        found = (file for file in self.vault.rglob("*") if file.is_file())
        return {file.relative_to(self.vault).as_posix(): file.read_bytes() for file in found}

    def settled(self, *, without: tuple[str, ...] = ()) -> bool:
        """Whether the index holds the notes as their files are. without: those left out of it."""
        with self.memory.guarded():
            sidecar = self.memory.open_sidecar()
            known = {} if sidecar is None else stored_files(sidecar)
        indexed = {path: file.sha256 for path, file in known.items()}
        return indexed == {
            path: sha256(data).hexdigest()
            for path, data in self.files().items()
            if path.endswith(".md") and not path.startswith(without or "\0")
        }

    def found(self, query: str) -> list[str]:
        reply = search(self.memory, SearchRequest(query, limit=100))
        assert not any(hit.stale for hit in reply.hits)
        return sorted(hit.path for hit in reply.hits)

    def problems(self) -> list[tuple[str, str]]:
        """(path, code) of what the index lists as amiss; nothing is looked at for that."""
        with self.memory.guarded():
            return [(p.path, p.code) for p in self.memory.lookup().problems()]

    def sound(self) -> bool:
        return not self.problems()

    def reload(self) -> None:
        """Ask by the settings as a process that starts now finds them."""
        self.memory.close()
        self.memory.settings = self.followed.load()


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Callable[..., Device]]:
    """device(name, ahead=…): a device with an empty vault, which its watcher follows."""
    with ExitStack() as running:

        def open_device(
            name: str,
            notes: Mapping[str, str] = NOTES,
            *,
            ahead: float = 0.0,
            watched: bool = True,
        ) -> Device:
            vault = tmp_path / name / "Vault"
            vault.mkdir(parents=True)
            environment = {
                "VAULTMEM_EMBEDDER_NAME": "none",
                "VAULTMEM_STATE_DIR": str(tmp_path / name / "state"),
            }

            def load() -> Settings:
                return load_settings(vault, tmp_path / name / "cache", environment=environment)

            times = Times(ahead)
            memory = open_memory(load(), clock=times.clock)
            running.callback(memory.close)
            opened = Device(vault, times, memory, Followed(load, times))
            for path, text in notes.items():
                opened.write(path, text)
            if watched:
                running.enter_context(opened.followed.running())
            return opened

        yield open_device


# A sync client


def by_hidden_name(file: Path, data: bytes, mtime_ns: int) -> None:
    """Syncthing: `.syncthing.NAME.tmp`, the other device's time, then the name."""
    by_rename(file, file.with_name(f".syncthing.{file.name}.tmp"), data, mtime_ns)


def by_odd_name(file: Path, data: bytes, mtime_ns: int) -> None:
    """Syncthing on Windows."""
    by_rename(file, file.with_name(f"~syncthing~{file.name}.tmp"), data, mtime_ns)


def by_rename(file: Path, temporary: Path, data: bytes, mtime_ns: int) -> None:
    with temporary.open("wb") as stream:
        for start in range(0, len(data), 16):  # in blocks, each of which is an event
            stream.write(data[start : start + 16])
            stream.flush()
    os.utime(temporary, ns=(mtime_ns, mtime_ns))
    temporary.replace(file)


def by_deletion(file: Path, data: bytes, mtime_ns: int) -> None:
    """Delete, then create."""
    file.unlink(missing_ok=True)
    in_place(file, data, mtime_ns)


def in_place(file: Path, data: bytes, mtime_ns: int) -> None:
    """Empty it, then write."""
    with file.open("wb") as stream:
        stream.flush()
        stream.write(data)
    os.utime(file, ns=(mtime_ns, mtime_ns))


WAYS = [by_hidden_name, by_odd_name, by_deletion, in_place]


@dataclass(slots=True)
class Client:
    """Carries files both ways; where both sides have changed one it keeps a copy of the second."""

    first: Device
    second: Device
    put: Put = by_hidden_name
    copy_name: str = "{0}.sync-conflict-20260301-101500-ABCDEFG.md"
    known: dict[str, bytes] = field(default_factory=dict)

    def carry(self) -> None:
        ours, theirs = self.first.files(), self.second.files()
        for path in sorted({*ours, *theirs, *self.known}):
            a, b, before = ours.get(path), theirs.get(path), self.known.get(path)
            if a == b:
                continue
            if a != before and b != before and a is not None and b is not None:
                copy = self.copy_name.format(path.removesuffix(".md"))
                for device in (self.first, self.second):
                    self.bring(self.second, device, path, copy)
                self.bring(self.first, self.second, path, path)
            elif b == before:
                self.bring(self.first, self.second, path, path)
            else:
                self.bring(self.second, self.first, path, path)
        self.known = self.first.files()
        assert self.known == self.second.files()

    def bring(self, source: Device, target: Device, path: str, name: str) -> None:
        """Make a file of the target what one of the source is."""
        file = target.vault / name
        if not (source.vault / path).exists():
            file.unlink()
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        data, state = (source.vault / path).read_bytes(), (source.vault / path).stat()
        self.put(file, data, state.st_mtime_ns)


@pytest.fixture
def pair(device: Callable[..., Device]) -> Callable[..., tuple[Device, Device, Client]]:
    """Two devices with the same notes, carried once; the second has begun with nothing."""

    def open_pair(
        put: Put = by_hidden_name, *, ahead: float = 0.0
    ) -> tuple[Device, Device, Client]:
        desk, laptop = device("desk"), device("laptop", {}, ahead=ahead)
        client = Client(desk, laptop, put)
        client.carry()
        settle(desk, laptop)
        return desk, laptop, client

    return open_pair


Pair = Callable[..., tuple[Device, Device, Client]]


def settle(*devices: Device, without: tuple[str, ...] = ()) -> None:
    """Wait until each index has followed."""
    for device in devices:
        device.followed.until(partial(device.settled, without=without))


# Each index follows


@pytest.mark.parametrize("put", WAYS)
def test_each_index_follows_what_the_other_device_does(pair: Pair, put: Put) -> None:
    desk, laptop, client = pair(put)
    assert laptop.found("harbour") == sorted(p for p in NOTES if p.endswith(".md"))

    desk.write("Trips/Ferry.md", "The ferry leaves the harbour at ten, by lantern light.\n")
    client.carry()
    settle(desk, laptop)
    assert laptop.found("lantern") == desk.found("lantern") == ["Trips/Ferry.md"]
    assert laptop.found("twilight") == []

    laptop.write("Trips/Lighthouse.md", "A lighthouse above the harbour.\n")
    laptop.write("Harbour.md", "The harbour is open all year, says the lighthouse keeper.\n")
    client.carry()
    settle(desk)
    assert desk.found("lighthouse") == ["Harbour.md", "Trips/Lighthouse.md"]

    (laptop.vault / "Trips/Island.md").unlink()
    client.carry()
    assert desk.found("island") == []  # is no hit at once, and forgotten in time
    desk.followed.until(lambda: desk.followed.missing() == 1)
    desk.followed.pass_by(120)
    assert desk.settled()


@pytest.mark.parametrize("put", WAYS)
def test_no_file_that_a_client_makes_for_a_moment_is_ever_a_note_or_a_hit(
    pair: Pair, put: Put
) -> None:
    desk, laptop, client = pair(put)
    known = set(NOTES)
    for number in range(3):
        desk.write("Trips/Ferry.md", f"The ferry leaves the harbour at {number} o'clock.\n" * 20)
        client.carry()
        settle(laptop)
        assert set(laptop.found("harbour")) <= known
    laptop.followed.pass_by(120)
    batches = laptop.followed.said(Batch)
    assert sum(batch.notes.removed for batch in batches) == 0
    assert sum(batch.notes.added for batch in batches) == sum(p.endswith(".md") for p in NOTES)
    assert laptop.settled()
    with laptop.memory.guarded():
        assert set(laptop.memory.lookup().all_files()) == {"Trips/map.png"}


def test_an_edit_of_the_same_size_that_comes_with_an_old_time_is_seen(pair: Pair) -> None:
    """A client sets the time that the file has on the other device: here, the one it had."""
    desk, laptop, client = pair()
    before = (laptop.vault / "Trips/Ferry.md").stat()
    file = desk.vault / "Trips/Ferry.md"
    file.write_text(file.read_text("utf-8").replace("nine", "four"), "utf-8")
    os.utime(file, ns=(before.st_mtime_ns, before.st_mtime_ns))
    client.carry()
    after = (laptop.vault / "Trips/Ferry.md").stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    settle(laptop)
    assert laptop.found('"at four"') == ["Trips/Ferry.md"]


@pytest.mark.parametrize("ahead", [DAY, -DAY, 400 * DAY])
def test_clocks_that_differ_do_no_harm(pair: Pair, ahead: float) -> None:
    desk, laptop, client = pair(ahead=ahead)
    for number, (here, there) in enumerate([(desk, laptop), (laptop, desk)] * 2):
        here.write("Trips/Ferry.md", f"The ferry was late, time {number}, at the harbour.\n")
        client.carry()
        settle(here, there)
        assert there.found(f'"time {number}"') == ["Trips/Ferry.md"]
    # A file of the future is no reason to take it in again and again.
    for device in (desk, laptop):
        device.followed.pass_by(10)
        since = len(device.followed.events)
        device.followed.pass_by(150)
        assert device.followed.said(Batch, since) == []
        assert index(device.memory, IndexRequest()).notes.touched == 0
        assert status(device.memory, StatusRequest()).fresh


def test_a_device_that_was_off_catches_up_when_its_watcher_starts(
    device: Callable[..., Device],
) -> None:
    desk, laptop = device("desk"), device("laptop", {}, watched=False)
    client = Client(desk, laptop)
    client.carry()
    with laptop.followed.running():
        assert laptop.settled()
    desk.write("Trips/Ferry.md", "The ferry runs aground in the harbour.\n")
    (desk.vault / "Trips/Island.md").unlink()
    client.carry()
    late = Followed(laptop.followed.load, laptop.times)
    with late.running():
        assert laptop.found("aground") == ["Trips/Ferry.md"]
        assert laptop.found("island") == []
        late.pass_by(120)
        assert laptop.settled()


# Conflict copies


COPIES = {
    "Syncthing": "{0}.sync-conflict-20260301-101500-ABCDEFG.md",
    "Dropbox": "{0} (Mara's conflicted copy 2026-03-01).md",
    "Dropbox, another language's quote": "{0} (Mara’s conflicted copy 2026-03-01).md",
    "Nextcloud": "{0} (conflicted copy 2026-03-01 101500).md",
    "Obsidian Sync": "{0} (Conflicted copy Laptop 202603011015).md",
    "Seafile": "{0} (SFConflict mara@example.org 2026-03-01-10-15-00).md",
}


@pytest.mark.parametrize("service", COPIES)
def test_a_conflict_copy_is_reported_on_both_devices_and_is_no_second_truth(
    pair: Pair, service: str
) -> None:
    desk, laptop, client = pair()
    client.copy_name = COPIES[service]
    desk.write("Trips/Ferry.md", "The ferry of the harbour is blue.\n")
    laptop.write("Trips/Ferry.md", "The ferry of the harbour is red.\n")
    client.carry()
    copy = COPIES[service].format("Trips/Ferry")
    for device in (desk, laptop):
        assert (device.vault / copy).is_file()
        settle(device, without=(copy,))
        device.followed.pass_by(120)
        assert device.found("ferry") == ["Harbour.md", "Trips/Ferry.md"]
        assert device.found("blue") == ["Trips/Ferry.md"]
        assert device.found("red") == []
        listed = [(p.path, p.code) for p in lint(device.memory, LintRequest()).problems]
        assert listed == [(copy, "conflict-copy")]
        problems = index(device.memory, IndexRequest()).problems
        assert [(p.path, p.code) for p in problems] == listed
        assert status(device.memory, StatusRequest()).problems == 1
        why = inspect(device.memory, InspectRequest(copy))
        assert not why.indexed
        assert "conflict copy" in why.reasons[0]
        assert read(device.memory, ReadRequest("Ferry")).path == "Trips/Ferry.md"
    (desk.vault / copy).unlink()
    client.carry()
    for device in (desk, laptop):
        device.followed.until(device.sound)
        assert lint(device.memory, LintRequest()).problems == ()


@pytest.mark.parametrize(
    "name", ["Trips/Ferry (copy 2).md", "Trips/Conflicted feelings.md", "Trips/sync-conflict.md"]
)
def test_control_of_that_a_note_of_such_a_name_is_a_note(pair: Pair, name: str) -> None:
    desk, laptop, client = pair()
    desk.write(name, "A zeppelin over the harbour.\n")
    client.carry()
    settle(laptop)
    assert laptop.found("zeppelin") == [name]


# What lies in the folder


def test_nothing_that_is_done_on_either_device_leaves_a_file_in_the_folder(pair: Pair) -> None:
    desk, laptop, client = pair()
    desk.write(".vaultmem/config.toml", '[scan]\nignore = ["Drafts"]\n')
    client.carry()
    before = desk.files()
    assert set(before) == {*NOTES, ".vaultmem/config.toml"}
    folders = sorted(path for path in desk.vault.rglob("*") if path.is_dir())
    for device in (desk, laptop):
        settle(device, without=("Drafts/",))
        device.reload()
        index(device.memory, IndexRequest())
        index(device.memory, IndexRequest(rebuild=True))
        assert device.found("harbour") == ["Harbour.md", "Trips/Ferry.md", "Trips/Island.md"]
        assert read(device.memory, ReadRequest("Ferry")).text == NOTES["Trips/Ferry.md"]
        lint(device.memory, LintRequest())
        status(device.memory, StatusRequest(checks=True, settings=True))
        device.followed.pass_by(150)
        assert device.files() == before
    assert sorted(path for path in desk.vault.rglob("*") if path.is_dir()) == folders


def test_settings_arrive_by_sync_and_are_in_force_on_both_devices(pair: Pair) -> None:
    desk, laptop, client = pair()
    assert "Drafts/Poem.md" in laptop.found("harbour")
    desk.write(".vaultmem/config.toml", '[scan]\nignore = ["Drafts"]\n')
    client.carry()
    for device in (desk, laptop):
        settle(device, without=("Drafts/",))
        assert [event.problem for event in device.followed.said(SettingsRead)] == [""]
        device.reload()
        assert device.found("harbour") == ["Harbour.md", "Trips/Ferry.md", "Trips/Island.md"]
    # They change, on the other device, and go.
    laptop.write(".vaultmem/config.toml", '[scan]\nignore = ["Trips"]\n')
    client.carry()
    for device in (desk, laptop):
        settle(device, without=("Trips/",))
        device.reload()
        assert device.found("harbour") == ["Drafts/Poem.md", "Harbour.md"]
    (laptop.vault / ".vaultmem/config.toml").unlink()
    client.carry()
    settle(desk, laptop)


def test_settings_that_arrive_broken_are_reported_and_those_before_go_on(pair: Pair) -> None:
    desk, laptop, client = pair()
    desk.write(".vaultmem/config.toml", '[scan]\nignore = ["Drafts"]\n')
    client.carry()
    settle(laptop, without=("Drafts/",))
    desk.write(".vaultmem/config.toml", '[scan]\nignore = ["Dra')
    client.carry()
    laptop.followed.until(lambda: len(laptop.followed.said(SettingsRead)) == 2)
    assert "config.toml" in laptop.followed.said(SettingsRead)[-1].problem
    watcher = status(laptop.memory, StatusRequest()).watcher
    assert watcher is not None
    assert "config.toml" in watcher.problem
    laptop.followed.pass_by(180)
    assert laptop.settled(without=("Drafts/",))
    assert len(laptop.followed.said(SettingsRead)) == 2
    desk.write(".vaultmem/config.toml", '[scan]\nignore = ["Trips"]\n')
    client.carry()
    settle(laptop, without=("Trips/",))


def test_obsidian_settings_arrive_by_sync_too(pair: Pair) -> None:
    desk, laptop, client = pair()
    desk.write(".obsidian/app.json", '{"userIgnoreFilters": ["Drafts/"]}')
    client.carry()
    for device in (desk, laptop):
        settle(device, without=("Drafts/",))
        assert device.found("poem") == []
