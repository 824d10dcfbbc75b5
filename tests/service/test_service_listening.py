"""A server that hears of changes looks at the vault only when there were some."""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from vaultmem.embedding.file_system import FileSystem
from vaultmem.service import listening
from vaultmem.service.application import Clock
from vaultmem.service.dispatch import Dispatcher
from vaultmem.service.listening import Listening
from vaultmem.service.operations import OPERATIONS
from vaultmem.service.operations.search import SearchReply, SearchRequest
from vaultmem.service.refresh import LOOK_SECONDS
from vaultmem.service.settings import load_settings

(SEARCH,) = [operation for operation in OPERATIONS if operation.name == "search"]

DEADLINE = 20.0

# Which folders are listed, by whom ever, while somebody wants to know (there is no way back from
# an audit hook).
_listed: list[str] | None = None


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if _listed is not None and event == "os.scandir":
        _listed.append(str(arguments[0]))


sys.addaudithook(_note)


def soon(true: Callable[[], bool]) -> bool:
    """Whether it is so before the deadline."""
    until = time.monotonic() + DEADLINE
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


@dataclass
class Time:
    """A clock that a test moves."""

    offset: float = 0.0
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = Clock(elapsed=lambda: time.perf_counter() + self.offset)


@dataclass
class Served:
    """A vault behind a dispatcher that has warmed up."""

    vault: Path
    dispatcher: Dispatcher
    time: Time

    def find(self, query: str) -> list[str]:
        reply = self.dispatcher.run(SEARCH, SearchRequest(query))
        assert isinstance(reply, SearchReply)
        assert reply.degraded == ()
        return [hit.path for hit in reply.hits]

    def looks(self, query: str) -> bool:
        """Whether the vault's folders are listed for this search."""
        global _listed
        _listed = []
        try:
            self.find(query)
            return str(self.vault / "Deep") in _listed  # (the vault itself always is)
        finally:
            _listed = None


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    vault = tmp_path / "vault"
    (vault / "Deep").mkdir(parents=True)
    (vault / "Deep" / "clay.md").write_text("clay")
    (vault / "other.md").write_text("quartz")
    environment = {"VAULTMEM_EMBEDDER_NAME": "none"}
    moved = Time()
    dispatcher = Dispatcher(
        lambda: load_settings(vault, tmp_path / "cache", environment=environment),
        clock=moved.clock,
    )
    served = Served(vault, dispatcher, moved)
    served.find("clay")
    yield served
    dispatcher.close()


def warm(served: Served) -> None:
    served.dispatcher.warm_up()
    assert soon(lambda: not served.looks("clay")), "it goes on looking"


def test_before_it_listens_each_answer_looks(served: Served) -> None:
    assert served.looks("clay")
    assert served.looks("clay")


def test_while_nothing_is_heard_no_answer_looks(served: Served) -> None:
    warm(served)
    assert not any(served.looks("clay") for _ in range(5))


def test_what_was_written_a_moment_ago_is_found(served: Served) -> None:
    warm(served)
    for number in range(5):
        (served.vault / "Deep" / f"{number}.md").write_text(f"glaze{number}")
        assert soon(lambda number=number: served.find(f"glaze{number}") == [f"Deep/{number}.md"])  # type: ignore[misc]


def test_what_was_edited_or_deleted_is_noticed(served: Served) -> None:
    warm(served)
    (served.vault / "Deep" / "clay.md").write_text("kaolin")
    assert soon(lambda: served.find("kaolin") == ["Deep/clay.md"])
    (served.vault / "Deep" / "clay.md").unlink()
    assert soon(lambda: served.find("kaolin") == [])


def test_a_folder_that_comes_is_heard_of_with_what_is_in_it(served: Served) -> None:
    warm(served)
    made = served.vault.parent / "made"
    made.mkdir()
    (made / "cone.md").write_text("seger")
    made.rename(served.vault / "Cones")
    assert soon(lambda: served.find("seger") == ["Cones/cone.md"])
    (served.vault / "Cones" / "two.md").write_text("orton")
    assert soon(lambda: served.find("orton") == ["Cones/two.md"])


def test_settings_of_obsidian_count_at_once(served: Served) -> None:
    warm(served)
    (served.vault / ".obsidian").mkdir()
    (served.vault / ".obsidian" / "app.json").write_text('{"userIgnoreFilters": ["Deep/"]}')
    assert soon(lambda: served.find("clay") == [])


def test_after_a_minute_it_looks_all_the_same(served: Served) -> None:
    warm(served)
    served.time.offset += LOOK_SECONDS
    assert served.looks("clay")
    assert not served.looks("clay")


def test_changes_are_counted_and_after_the_end_unknown(tmp_path: Path) -> None:
    heard = Listening(tmp_path)
    before = heard.marks()
    assert before is not None
    (tmp_path / "a.md").write_text("a")
    assert soon(lambda: (heard.marks() or 0) > before)
    heard.close()
    assert heard.marks() is None


def test_a_vault_that_goes_away_is_heard_no_more(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    heard = Listening(vault)
    assert heard.marks() is not None
    vault.rmdir()
    assert soon(lambda: heard.marks() is None)
    heard.close()


def test_on_a_network_drive_nobody_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "file_system", lambda folder: FileSystem("nfs4", False))
    assert Listening(tmp_path).marks() is None


def test_what_obsidian_writes_at_every_click_is_no_change(tmp_path: Path) -> None:
    hidden = tmp_path / ".obsidian"
    (hidden / "plugins" / "recent").mkdir(parents=True)
    heard = Listening(tmp_path)
    before = heard.marks()
    (hidden / "workspace.json").write_text("{}")
    (hidden / "plugins" / "recent" / "data.json").write_text("{}")
    assert heard.marks() == before
    (hidden / "app.json").write_text("{}")
    assert heard.marks() != before
    heard.close()


def test_no_number_is_given_twice(tmp_path: Path) -> None:
    first = Listening(tmp_path)
    numbers = [first.marks()]
    (tmp_path / "a.md").write_text("a")
    numbers.append(first.marks())
    first.close()
    second = Listening(tmp_path)
    numbers.append(second.marks())
    (tmp_path / "b.md").write_text("b")
    numbers.append(second.marks())
    second.close()
    assert None not in numbers
    assert len(set(numbers)) == 4


def test_changed_settings_do_not_hide_a_note(served: Served) -> None:
    warm(served)
    (served.vault / ".vaultmem").mkdir()
    (served.vault / ".vaultmem" / "config.toml").write_text("[search]\nlimit = 5\n")
    served.find("clay")
    served.dispatcher.warm_up()
    for number in range(20):
        (served.vault / f"new{number}.md").write_text(f"seger{number}")
        assert served.find(f"seger{number}") == [f"new{number}.md"]
        served.dispatcher.warm_up()
