"""A clock that goes wrong does no harm: nothing is lost, forgotten early, or believed for ever.

The clock is injected; times of files are the disk's own. What orders or ages anything by the wall
clock is listed at the end, so that a new use of it is thought about.
"""

import ast
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from canon import canon_lines
from clock import EXTREMES, HOUR, JUMPS, SECOND_NS, STAMPS, at, living_in, set_wall
from followed import Followed, Times

from vaultmem.index import watch_state
from vaultmem.index.requests import ask_for, requested, settle_requests
from vaultmem.model.delta import FileState
from vaultmem.model.watch_state import Watching, WatchState
from vaultmem.service import client_config_backups as backups
from vaultmem.service import refresh, watching
from vaultmem.service.application import Clock, Memory
from vaultmem.service.embedders import recent_outage, remember_outage
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.operations.status import StatusRequest, status
from vaultmem.service.refresh import relied_on
from vaultmem.service.settings import Settings, load_settings
from vaultmem.vault import delta as vault_delta
from vaultmem.vault import scan as vault_scan

Open = Callable[..., Memory]
Violations = list[str]

NOTES: Mapping[str, str] = {
    "Gate.md": "The gate is painted green. See [[Kiln]].\n",
    "Shed/Kiln.md": "---\ndate: 2026-03-01\n---\nThe kiln stands behind the gate.\n",
    "Shed/Wheel.md": "The wheel stands beside the gate.\n",
    "Log/2026-02-28.md": "Fired at the gate.\n",
}
MINUTE = 60.0

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no tzset")


# Indexing and searching


def untrue_of(memory: Memory, fresh: Memory, times: Times) -> Violations:
    """What is wrong with an index after a clock went wrong. fresh: another, not made yet."""
    wrong: Violations = []
    reply = index(memory, IndexRequest())
    if reply.notes.touched:
        wrong.append(f"a second run takes in {reply.notes}")
    for path in sorted(file.relative_to(memory.vault).as_posix() for file in files(memory.vault)):
        text = (memory.vault / path).read_text("utf-8")
        word = text.split()[-1].strip(".")
        found = [hit for hit in search(memory, SearchRequest(word)).hits if hit.path == path]
        if not found:
            wrong.append(f"{path} is not found by {word}")
        elif found[0].stale:
            wrong.append(f"{path} counts as out of date")
    index(fresh, IndexRequest(rebuild=True))
    ours, theirs = set(canon_lines(memory)), set(canon_lines(fresh))
    wrong += [f"in one of both alone: {line}" for line in sorted(ours ^ theirs)]
    seen = status(memory, StatusRequest())
    if not seen.fresh:
        wrong.append(f"it does not count as fresh: {seen}")
    return wrong


def files(vault: Path) -> list[Path]:
    return sorted(vault.rglob("*.md"))


def timed(
    open_vault: Open, times: Times, cache: str, notes: Mapping[str, str] | None = None
) -> Memory:
    return open_vault(notes, cache=cache, clock=times.clock)


def save(file: Path, text: str, times: Times) -> None:
    """Save a note on a machine whose clock goes like this one."""
    file.write_text(text, "utf-8")
    os.utime(file, ns=(times.now_ns(), times.now_ns()))


@pytest.mark.parametrize("jump", JUMPS)
def test_whenever_the_clock_jumps_each_edit_is_taken_in_once(jump: str, open_vault: Open) -> None:
    times = Times()
    memory = timed(open_vault, times, "cache", NOTES)
    for file in files(memory.vault):
        save(file, file.read_text("utf-8"), times)
    index(memory, IndexRequest())
    true_time = times.now_ns()
    set_wall(times, JUMPS[jump](true_time))
    save(memory.vault / "Gate.md", "The gate is painted scarlet.\n", times)
    save(memory.vault / "New.md", "A lantern.\n", times)
    reply = index(memory, IndexRequest())
    assert (reply.notes.added, reply.notes.changed) == (1, 1)
    (memory.vault / "Shed/Wheel.md").rename(memory.vault / "Wheel.md")
    assert index(memory, IndexRequest()).notes.renamed == 1
    # And it is put right again, which is a jump as well.
    set_wall(times, true_time + SECOND_NS)
    save(memory.vault / "Gate.md", "The gate is painted crimson.\n", times)
    assert index(memory, IndexRequest()).notes.changed == 1
    assert untrue_of(memory, timed(open_vault, times, "fresh"), times) == []


@contextmanager
def stamps_of_two_seconds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A disk that knows neither when a file changed nor which one it is, as FAT."""

    def stamped(size: int, mtime_ns: int, ctime_ns: int, inode: int, disk_path: str) -> FileState:
        coarse = mtime_ns - mtime_ns % (2 * SECOND_NS)
        return FileState(size, coarse, coarse, 0, disk_path)

    with monkeypatch.context() as patch:
        patch.setattr(vault_scan, "FileState", stamped)
        yield


def unseen_edits(open_vault: Open, monkeypatch: pytest.MonkeyPatch) -> Violations:
    """Edits of the same size and time that an index does not notice after the clock went back."""
    missed: Violations = []
    with stamps_of_two_seconds(monkeypatch):
        for number, (name, jump) in enumerate(JUMPS.items()):
            times = Times()
            stamp = times.now_ns()
            if jump(stamp) > stamp:
                continue  # a file's time lies in the past then: as always
            memory = timed(open_vault, times, f"cache {number}", {"Gate.md": "painted green\n"})
            file = memory.vault / "Gate.md"
            save(file, "painted green\n", times)
            set_wall(times, jump(stamp))
            index(memory, IndexRequest())
            file.write_text("painted black\n")
            os.utime(file, ns=(stamp, stamp))
            reply = search(memory, SearchRequest("black"))
            if [hit.path for hit in reply.hits] != ["Gate.md"]:
                missed.append(name)
            memory.close()
    return missed


def test_a_file_of_the_future_is_young_and_looked_into(
    open_vault: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert unseen_edits(open_vault, monkeypatch) == []


def test_control_of_that_an_age_that_may_be_negative_misses_edits(
    open_vault: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def was_young(state: FileState, read_ns: int) -> bool:
        return 0 <= read_ns - max(state.mtime_ns, state.ctime_ns) < vault_delta.YOUNG_NS

    monkeypatch.setattr(vault_delta, "was_young", was_young)
    assert unseen_edits(open_vault, monkeypatch)


# Days


def wrong_days(open_vault: Open, days: Callable[[int], date] | None = None) -> Violations:
    """What is wrong with the days of notes whose files bear odd times."""
    times = Times()
    memory = timed(open_vault, times, "cache", {f"{name}.md": f"kiln {name}\n" for name in STAMPS})
    for name, (stamp, _) in STAMPS.items():
        os.utime(memory.vault / f"{name}.md", ns=(stamp, stamp))
    wrong: Violations = []
    assert index(memory, IndexRequest()).notes.total == len(STAMPS)
    for name, (_, day) in STAMPS.items():
        for query in ("kiln", "kiln after:{0}", "kiln before:{0}", "kiln after:{0} before:{0}"):
            reply = search(memory, SearchRequest(query.format(day), limit=50))
            dates = {hit.path: hit.date for hit in reply.hits}
            if dates.get(f"{name}.md") != day:
                wrong.append(f"{query.format(day)}: {name} has the day {dates.get(f'{name}.md')}")
    return wrong


@posix_only
def test_notes_have_the_day_of_their_files_time_from_1901_to_2100(open_vault: Open) -> None:
    with living_in("UTC"):
        assert wrong_days(open_vault) == []


@posix_only
def test_control_of_that_a_day_that_is_never_before_1970_is_noticed(
    open_vault: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def day(self: Clock, epoch_ns: int) -> date:
        return date.fromtimestamp(max(0, epoch_ns) / 1e9)

    monkeypatch.setattr(Clock, "day", day)
    with living_in("UTC"):
        assert wrong_days(open_vault)


@pytest.mark.parametrize("name", EXTREMES)
def test_a_time_that_no_integer_of_sqlite_holds_stops_no_other_note(
    name: str, open_vault: Open, find: Callable[..., list[str]]
) -> None:
    times = Times()
    memory = timed(open_vault, times, "cache", NOTES)
    index(memory, IndexRequest())
    assert memory.sidecar is not None
    made = memory.sidecar.path.stat().st_ino
    odd = memory.vault / "Odd.md"
    odd.write_text("A lantern.\n")
    os.utime(odd, ns=(EXTREMES[name], EXTREMES[name]))
    reply = index(memory, IndexRequest())
    assert (reply.notes.added, reply.notes.total) == (1, len(NOTES) + 1)
    assert find(memory, "lantern") == ["Odd.md"]
    for day in ("1000-01-01", "9999-12-31"):
        search(memory, SearchRequest(f"lantern after:{day}"))
    assert untrue_of(memory, timed(open_vault, times, "fresh"), times) == []
    odd.write_text("A torch..\n")
    os.utime(odd, ns=(EXTREMES[name], EXTREMES[name]))
    assert find(memory, "torch") == ["Odd.md"]
    assert (memory.notices, memory.sidecar.path.stat().st_ino) == ([], made)


@posix_only
@pytest.mark.parametrize(
    ("zone", "when", "day"),
    [
        # The hour that is left out, the hour that comes twice, and what is yesterday in UTC.
        ("Europe/Berlin", "2026-03-29T00:59:59+00:00", "2026-03-29"),
        ("Europe/Berlin", "2026-03-28T23:00:00+00:00", "2026-03-29"),
        ("Europe/Berlin", "2026-10-25T00:30:00+00:00", "2026-10-25"),
        ("Europe/Berlin", "2026-10-25T01:30:00+00:00", "2026-10-25"),
        ("Europe/Berlin", "2026-10-25T22:59:59+00:00", "2026-10-25"),
        ("Pacific/Auckland", "2028-02-28T11:30:00+00:00", "2028-02-29"),
        ("Pacific/Honolulu", "2028-03-01T05:00:00+00:00", "2028-02-29"),
        # A zone that left a day out.
        ("Pacific/Apia", "2011-12-30T10:30:00+00:00", "2011-12-31"),
    ],
)
def test_the_day_of_a_note_is_the_one_that_its_writer_had(
    zone: str, when: str, day: str, open_vault: Open
) -> None:
    with living_in(zone):
        times = Times()
        memory = timed(open_vault, times, "cache", {"Gate.md": "The gate.\n"})
        os.utime(memory.vault / "Gate.md", ns=(at(when), at(when)))
        index(memory, IndexRequest())
        (hit,) = search(memory, SearchRequest(f"gate after:{day} before:{day}")).hits
        assert hit.date == day


# The watcher


@pytest.fixture
def follow(open_vault: Open, tmp_path: Path) -> Iterator[Callable[..., tuple[Followed, Memory]]]:
    """follow(): a watcher that has begun, and the vault as another process has it open."""
    with ExitStack() as running:

        def begin() -> tuple[Followed, Memory]:
            times = Times()
            memory = open_vault(NOTES, clock=times.clock)
            environment = {
                "VAULTMEM_EMBEDDER_NAME": "none",
                "VAULTMEM_STATE_DIR": str(tmp_path / "state"),
            }

            def load() -> Settings:
                return load_settings(memory.vault, tmp_path / "cache", environment=environment)

            followed = Followed(load, times)
            running.enter_context(followed.running())
            followed.step()
            return followed, memory

        yield begin


Follow = Callable[..., tuple[Followed, Memory]]


def forgotten_early(follow: Follow, jump: Callable[[int], int]) -> Violations:
    """Whether a note that is gone is forgotten before it was gone for a minute, by any clock."""
    followed, memory = follow()
    (memory.vault / "Shed/Wheel.md").unlink()
    followed.until(lambda: followed.missing() == 1)
    began = followed.times.seconds
    wrong: Violations = []
    while followed.times.seconds - began < 45:
        # Again and again, since each jump makes it look at everything.
        set_wall(followed.times, jump(followed.times.now_ns()))
        followed.pass_by(5)
        if followed.removed():
            wrong.append(f"forgotten after {followed.times.seconds - began} s")
            break
    followed.pass_by(2 * MINUTE)
    if followed.removed() != 1:
        wrong.append(f"forgotten {followed.removed()} times")
    return wrong


@pytest.mark.parametrize(
    "jump", ["an hour back", "a day back", "back to 1970", "ten years forward"]
)
def test_a_jump_makes_no_absence_longer_or_shorter(jump: str, follow: Follow) -> None:
    assert forgotten_early(follow, JUMPS[jump]) == []


def test_control_of_that_a_minute_by_the_wall_clock_is_none(
    follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def confirmed(self: Any, absent: frozenset[str], *, everywhere: bool) -> frozenset[str]:
        now = self._clock.now_ns() / 1e9
        for path in absent:
            self._missing.setdefault(path, now)
        return frozenset(path for path in absent if now - self._missing[path] >= 60)

    monkeypatch.setattr(watching.Watcher, "_confirmed", confirmed)
    assert forgotten_early(follow, JUMPS["ten years forward"])


def unduly_believed(follow: Follow, jump: Callable[[int], int]) -> Violations:
    """What is wrong with who relies on a watcher, alive and then hung, when the clock jumps."""
    followed, memory = follow()
    times, wrong = followed.times, list[str]()
    if relied_on(memory) is None:
        wrong.append("a live one is not relied on")
    set_wall(times, jump(times.now_ns()))
    followed.pass_by(1)
    if relied_on(memory) is None:
        wrong.append("a live one is not relied on a second after the jump")
    # It hangs, the lock in its hands, and the clock jumps once more.
    said = watch_state.watch_state(followed.folder)
    assert said is not None
    times.seconds += 10
    set_wall(times, jump(times.now_ns()))
    step, believed = 1.0, 0.0
    for _ in range(int(2 * HOUR)):
        believed += step * vars(refresh)["says_it_is_fresh"](said, said.rules, times.now_ns())
        times.seconds += step
    if believed > 12:
        wrong.append(f"a hung one is relied on for {believed:g} s")
    return wrong


@pytest.mark.parametrize(
    "jump", ["an hour back", "a second back", "an hour forward", "back to 1970"]
)
def test_a_jump_makes_no_watcher_that_hangs_look_alive_and_no_live_one_dead(
    jump: str, follow: Follow
) -> None:
    assert unduly_believed(follow, JUMPS[jump]) == []


def test_control_of_that_an_age_that_may_be_negative_looks_fresh(
    follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def says_it_is_fresh(state: WatchState, rules: str, now_ns: int) -> bool:
        recent = now_ns - state.said_ns < watch_state.SILENCE_NS
        return state.state is Watching.WATCHING and state.rules == rules and recent

    monkeypatch.setattr(refresh, "says_it_is_fresh", says_it_is_fresh)
    assert unduly_believed(follow, JUMPS["an hour back"])


def test_a_watcher_that_has_ended_is_not_believed_whatever_the_time(follow: Follow) -> None:
    followed, memory = follow()
    said = watch_state.watch_state(followed.folder)
    assert said is not None
    followed._watcher._end()
    watch_state.put_state(followed.folder, said)  # as one leaves it that was killed
    # (The lock is still held by this test; a process that was killed has lost it.)
    followed.times.seconds += 10
    set_wall(followed.times, said.said_ns - 7 * SECOND_NS)
    assert relied_on(memory) is None
    set_wall(followed.times, said.said_ns + 7 * SECOND_NS)
    assert relied_on(memory) is None


def ages_out_of_range(follow: Follow) -> Violations:
    """Ages that the watcher tells while the clock jumps to and fro, and that cannot be."""
    followed, memory = follow()
    times, wrong = followed.times, list[str]()
    for name, jump in JUMPS.items():
        true_time, began = times.now_ns(), times.seconds
        (memory.vault / "Gate.md").write_text(f"The gate, and {name}.\n")
        followed.until(lambda: len(followed._watcher._dirty) > 0)
        set_wall(times, jump(true_time))
        followed.step()
        said = watch_state.watch_state(followed.folder)
        assert said is not None
        if not 0 <= said.behind_seconds <= times.seconds - began + 1:
            wrong.append(f"{name}: behind for {said.behind_seconds} s")
        set_wall(times, true_time + SECOND_NS)
        followed.pass_by(3)
        if status(memory, StatusRequest()).waiting:
            wrong.append(f"{name}: not taken in")
    return wrong


def test_whatever_the_clock_says_nothing_is_behind_for_a_negative_time(follow: Follow) -> None:
    assert ages_out_of_range(follow) == []


def test_control_of_that_an_age_by_the_wall_clock_is_noticed(
    follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked: list[int] = []

    def publish(self: watching.Watcher) -> None:
        wall = self._clock.now_ns()
        behind = len(self._dirty)
        marked[:] = marked or [wall] if behind else []
        age = (wall - marked[0]) / 1e9 if marked else 0.0
        said = replace(self._state, said_ns=wall, behind=behind, behind_seconds=age)
        watch_state.put_state(self._memory.folder, said)

    monkeypatch.setattr(watching.Watcher, "_publish", publish)
    assert ages_out_of_range(follow)


# Things that are remembered with a time


def remembered_for(memory: Memory, times: Times, after: Callable[[int], int]) -> float:
    """Seconds for which a server that did not answer is not asked again when the clock jumps."""
    remember_outage(memory, "ollama", "it does not answer")
    assert recent_outage(memory, "ollama") is not None
    set_wall(times, after(times.now_ns()))
    seconds, step = 0.0, 5.0
    while recent_outage(memory, "ollama") is not None and seconds < HOUR:
        times.seconds += step
        seconds += step
    return seconds


@pytest.mark.parametrize("jump", [name for name in JUMPS if "forward" not in name])
def test_a_clock_that_goes_back_makes_no_outage_of_a_server_longer(
    jump: str, open_vault: Open, tmp_path: Path
) -> None:
    times = Times()
    memory = timed(open_vault, times, "cache", NOTES)
    index(memory, IndexRequest())
    set_wall(times, at("2027-05-01T12:00:00"))
    assert remembered_for(memory, times, JUMPS[jump]) <= MINUTE + 5


def test_a_server_that_did_not_answer_is_left_alone_for_a_minute(open_vault: Open) -> None:
    times = Times()
    memory = timed(open_vault, times, "cache", NOTES)
    index(memory, IndexRequest())
    assert 55 <= remembered_for(memory, times, lambda now: now) <= 60


@pytest.mark.parametrize("tick", [0, -1, -SECOND_NS])
def test_a_request_that_is_made_anew_while_one_is_answered_stays_whatever_the_clock(
    tick: int, open_vault: Open
) -> None:
    """Also where the clock stands still, or comes to the same time again."""
    memory = open_vault(NOTES)
    index(memory, IndexRequest())
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    now = at("2027-05-01T12:00:00")
    ask_for(sidecar, ["Gate.md"], now)
    first = requested(sidecar)
    ask_for(sidecar, ["Gate.md"], now + tick)
    settle_requests(sidecar, first)
    assert [path for path, _ in requested(sidecar)] == ["Gate.md"]
    settle_requests(sidecar, requested(sidecar))
    assert requested(sidecar) == []


def copies_that_are_not_the_latest(tmp_path: Path, hours: list[int]) -> Violations:
    """Copies that are kept of a file, made as the clock went, and are not the ones made last."""
    folder, file = tmp_path / "backups", tmp_path / "client.json"
    made: list[bytes] = []
    for number, hour in enumerate(hours):
        made.append(b"copy %d" % number)
        when = datetime(2027, 5, 1, tzinfo=UTC).timestamp() + hour * HOUR
        backups.back_up(folder, "client", file, made[-1], datetime.fromtimestamp(when, UTC))
    kept = {path.read_bytes() for path in folder.iterdir()}
    return sorted(repr(copy) for copy in set(made[-backups.KEPT :]) ^ kept)


@pytest.mark.parametrize(
    "hours",
    [
        list(range(9)),
        [0, 1, 2, 3, 4, -24, -23, -22],  # put back by a day
        [0, 87_600, 87_601, 87_602, 87_603, 87_604, 1, 2, 3],  # ten years ahead for a while
        [0] * 8,  # it stands still
    ],
    ids=["as it should", "put back", "ahead for a while", "standing still"],
)
def test_the_copies_that_are_kept_are_the_last_whatever_the_clock_said(
    hours: list[int], tmp_path: Path
) -> None:
    assert copies_that_are_not_the_latest(tmp_path, hours) == []


def test_control_of_that_copies_in_the_order_of_the_clock_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def let_go(folder: Path, *_: str) -> None:
        names = sorted(os.listdir(folder))
        for name in names[: -backups.KEPT]:
            (folder / name).unlink()

    monkeypatch.setattr(backups, "_let_go", let_go)
    assert copies_that_are_not_the_latest(tmp_path, [0, 1, 2, 3, 4, -24, -23, -22])


# Where the wall clock is looked at


# What a wrong one does there, which the tests above show as far as it does anything.
READERS: Mapping[str, int] = {
    # What the clock is by default, which everything else in `service` gets from there; and the
    # rules of the time zone, at moments that are always the same.
    "service/application.py": 2,
    # When a server may be asked again: from when on, and until when.
    "service/embedders.py": 2,
    # Whether a note was young when it was read, three times; when the index was last made.
    "service/indexing.py": 4,
    # With which number a request is queued; whether a watcher said something lately.
    "service/refresh.py": 2,
    # The same, for the doctor.
    "service/doctor.py": 1,
    # Which vectors are computed again: others each day, whatever day it is.
    "service/verifying.py": 1,
    # Whether the machine slept, twice; when it last said something; the time of a batch.
    "service/watching.py": 4,
    # The names of copies of clients' files.
    "service/connecting.py": 1,
}
WALL_CLOCKS = {
    *("time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today"),
    *("date.today", "time.localtime", "time.gmtime", "time.strftime", "time.ctime"),
}


def readings(source: str) -> int:
    """How often a module looks at the wall clock, or hands it on."""
    found = 0
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            named = ast.unparse(node)
            found += named in WALL_CLOCKS or named.endswith(("clock.now_ns", ".getmtime"))
    return found


def test_every_place_that_looks_at_the_wall_clock_is_known() -> None:
    package = Path(__file__).resolve().parents[2] / "vaultmem"
    found = Counter[str]()
    for path in package.rglob("*.py"):
        found[path.relative_to(package).as_posix()] += readings(path.read_text("utf-8"))
    assert +found == READERS


@pytest.mark.parametrize(
    "source",
    [
        "import time\nage = time.time() - state.st_mtime",
        "when = datetime.now(UTC)",
        "now = self._clock.now_ns()",
        "age = os.path.getmtime(path)",
        "later(time.time_ns)",
    ],
)
def test_control_of_that_a_look_at_it_is_noticed(source: str) -> None:
    assert readings(source) == 1


def test_control_of_that_counting_seconds_is_none() -> None:
    assert readings("until = time.monotonic() + time.perf_counter() + clock.elapsed()") == 0
