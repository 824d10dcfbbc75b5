"""Links follow when files come, go or move: those that it concerns, and no others."""

import json
import os
import posixpath
import random
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.service.application import Memory, Progress
from vaultmem.service.operations.index import IndexReply, IndexRequest, index
from vaultmem.vault.ignore import compile_rules
from vaultmem.vault.links import VaultNames, affected_keys, link_key
from vaultmem.vault.obsidian import read_obsidian
from vaultmem.vault.parse import parse
from vaultmem.vault.paths import fold, is_hidden, vault_path
from vaultmem.vault.read import read_file
from vaultmem.vault.scan import scan

Open = Callable[..., Memory]
Run = Callable[[Memory], IndexReply]
Links = Callable[[Memory], list[tuple[str, str, str | None]]]
Compare = Callable[[Memory], None]

QUIET = Progress()
MAX_BYTES = 1 << 20


# What a full resolve says, by the rule itself and without the index


def by_the_rule(files: Sequence[str], target: str, source: str) -> str | None:
    """Obsidian's rule as it is written down, over a plain list of files."""
    if not target:
        return source
    plain = unicodedata.normalize("NFC", target).replace("\u00a0", " ").replace("\u202f", " ")
    link = "/".join(part for part in plain.replace("\\", "/").split("/") if part)
    wanted = lower(link)
    named = [file for file in files if last(lower(file)) == last(wanted)]
    if "." not in last(link) or not named:
        wanted = lower(link + ".md")
        named = [file for file in files if last(lower(file)) == last(wanted)]
    folder = source.rpartition("/")[0]
    if not link or not named:
        return None
    if "/" not in link and not target.startswith("/") and len(named) == 1:
        return named[0]
    if link.split("/")[0] in (".", ".."):
        wanted = posixpath.normpath(posixpath.join(lower(folder), wanted))
    exact = [file for file in files if lower(file) == wanted]
    if exact or link.split("/")[0] in (".", "..") or target.startswith("/"):
        return min(exact, default=None)
    inside = lower(folder) + "/" if folder else ""
    fitting = [file for file in named if lower(file).endswith(wanted)]
    return min(
        fitting,
        key=lambda file: (not lower(file).startswith(inside), len(file), file),
        default=None,
    )


def lower(text: str) -> str:
    return unicodedata.normalize("NFC", text).lower()


def last(path: str) -> str:
    return path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Seen:
    """The vault as a walk sees it now, and where every link in it leads."""

    files: frozenset[tuple[str, bool]]  # (path, whether it is searched)
    links: tuple[tuple[str, int, str, bool, str | None], ...]  # (note, ordinal, target, exact, to)


def full_resolve(vault: Path) -> Seen:
    """Walk, read, parse and resolve everything, knowing nothing from before."""
    rules, _ = compile_rules(read_obsidian(vault), ())
    snapshot = scan(vault, rules, max_note_bytes=MAX_BYTES)
    assert not snapshot.unlisted
    files = (*snapshot.notes, *sorted(snapshot.files))
    names = VaultNames(files)
    found: list[tuple[str, int, str, bool, str | None]] = []
    for path, state in snapshot.notes.items():
        data = read_file(vault, state.disk_path, limit=MAX_BYTES)
        assert isinstance(data, bytes)
        for ordinal, link in enumerate(parse(path, data).links):
            target = "/" + link.target if link.exact else link.target
            resolved = names.resolve(target, path)
            assert resolved == by_the_rule(files, target, path), (files, target, path)
            found.append((path, ordinal, link.target, link.exact, resolved))
    return Seen(frozenset((path, path in snapshot.notes) for path in files), tuple(found))


def stored_links(memory: Memory) -> tuple[tuple[str, int, str, bool, str | None], ...]:
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    return tuple(
        (path, ordinal, target, bool(exact), resolved)
        for path, ordinal, target, exact, resolved in sidecar.connection.execute(
            "SELECT note.path, ordinal, target, exact, resolved FROM link "
            "JOIN note ON note.id = link.note ORDER BY note.path, ordinal"
        )
    )


def rows_about_links(memory: Memory) -> list[tuple[object, ...]]:
    """Every row that has to do with links, without ids."""
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    db = sidecar.connection
    return [
        *db.execute("SELECT 'file', path FROM file ORDER BY path"),
        *db.execute("SELECT 'note', path, disk_path, folded_name FROM note ORDER BY path"),
        *db.execute(
            "SELECT path, ordinal, target, subpath, display, embed, line, property, key, exact, "
            "resolved FROM link JOIN note ON note.id = link.note ORDER BY path, ordinal"
        ),
        *db.execute(
            "SELECT path, ordinal, alias, folded FROM alias JOIN note ON note.id = alias.note "
            "ORDER BY path, ordinal"
        ),
    ]


# What a run does to the rows of links


@dataclass(frozen=True)
class Written:
    """One row of a link that was written."""

    what: str  # "insert", "delete" or "update"
    note: int
    ordinal: int
    key: str
    old: str | None
    new: str | None


class Watch:
    """Sees every row of a link that is written, through triggers on the connection that writes."""

    def __init__(self, memory: Memory) -> None:
        sidecar = memory.open_sidecar()
        assert sidecar is not None
        self.db = sidecar.connection
        self.db.execute("CREATE TEMP TABLE seen (what, note, ordinal, key, old, new)")
        for what, row, old, new in (
            ("insert", "new", "NULL", "new.resolved"),
            ("delete", "old", "old.resolved", "NULL"),
            ("update", "new", "old.resolved", "new.resolved"),
        ):
            self.db.execute(
                f"CREATE TEMP TRIGGER watch_{what} AFTER {what} ON main.link BEGIN INSERT INTO "
                f"seen VALUES ('{what}', {row}.note, {row}.ordinal, {row}.key, {old}, {new}); END"
            )

    def taken(self) -> list[Written]:
        """The rows written since this was asked last."""
        rows = [Written(*row) for row in self.db.execute("SELECT * FROM seen")]
        self.db.execute("DELETE FROM seen")
        return rows

    def notes(self) -> dict[int, tuple[str, str]]:
        """id -> (path, hash) of every note."""
        return {
            row: (path, sha256)
            for row, path, sha256 in self.db.execute("SELECT id, path, sha256 FROM note")
        }


# A person who edits at random

FOLDERS = ("one", "one/deep", "two", "Note", "Note.md", "é", "a b/É", "one/note")
STEMS = (
    *("Note", "note", "Note.1", "v1.2", "Note.md", "one", "a b", "a.b c", "Étude", "e\u0301tude"),
    *("ΟΔΟΣ", "οδος", "οδοσ", "x.ΟΔΟΣ", "x.οδος", "İstanbul", "istanbul", "ıstanbul"),
)
ENDINGS = (".md", ".md", ".md", ".md", ".MD", ".Md", "", ".png", ".canvas", ".CANVAS")
EXCLUDED: tuple[list[str], ...] = ([], [], ["one/"], ["Note/", "é/"], ["/note/"], ["/\\.1\\.md$/"])
FORMS = (
    *("{name}", "{name}", "{name}", "{name}", "{folder}/{name}", "{folder}/{name}", "{end}/{name}"),
    *("/{name}", "/{folder}/{name}", "./{name}", "../{name}", "../{folder}/{name}"),
    *("./{folder}/{name}", "{folder}\\{name}", "{folder}//{name}", "{folder}/../{name}"),
)


class Pen:
    """Writes names, links and texts from a few words, so that they often mean each other."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.stems = rng.sample(STEMS, 6)
        self.folders = ["", *rng.sample(FOLDERS, 4)]

    def spelled(self, text: str) -> str:
        """The same name as another program, or a hasty person, may spell it."""
        how = self.rng.randrange(9)
        changed = (
            *(text.upper(), text.lower(), text.swapcase(), unicodedata.normalize("NFD", text)),
            *(text.replace(" ", "\u00a0"), text.replace(" ", "\u202f")),
        )
        return changed[how] if how < len(changed) else text

    def name(self) -> str:
        return self.spelled(self.rng.choice(self.stems)) + self.rng.choice(ENDINGS)

    def folder(self) -> str:
        return self.spelled(self.rng.choice(self.folders))

    def target(self) -> str:
        folder = self.rng.choice(self.folders[1:])
        ending = self.rng.choice(("", "", "", "", ".md", ".MD", ".png", ".canvas", ".md.md"))
        form = self.rng.choice(FORMS)
        name = self.rng.choice(self.stems) + ending
        return self.spelled(form.format(name=name, folder=folder, end=last(folder)))

    def link(self) -> str:
        target = self.target()
        place = self.rng.choice(("", "", "#Heading", "#^block"))
        encoded = quote(quote(target)) if self.rng.random() < 0.05 else quote(target)
        return self.rng.choice(
            (
                f"[[{target}{place}]]",
                f"[[{target}{place}|shown]]",
                f"![[{target}]]",
                f"[shown]({encoded}{place})",
                f"[shown](<{target}{place}>)",
                f"![shown]({encoded})",
                "[[#Heading]]",
            )
        )

    def note(self, links: int) -> str:
        lines: list[str] = []
        if self.rng.random() < 0.4:
            aliases = json.dumps([self.spelled(self.rng.choice(self.stems))], ensure_ascii=False)
            related = json.dumps([f"[[{self.target()}]]"], ensure_ascii=False)
            lines = ["---", f"aliases: {aliases}", f"related: {related}", "---"]
        lines += [self.link() for _ in range(links)]
        return "\n".join([*lines, f"words {self.rng.random()}", ""])

    def canvas(self, links: int) -> str:
        nodes: list[dict[str, str]] = [
            {"id": f"f{n}", "type": "file", "file": self.target().lstrip("./")}
            for n in range(links)
        ]
        nodes.append({"id": "t", "type": "text", "text": self.link()})
        return json.dumps({"nodes": nodes, "edges": []})


class Person:
    """Does to the files of a vault what people and their programs do."""

    def __init__(self, vault: Path, rng: random.Random) -> None:
        self.vault = vault
        self.rng = rng
        self.pen = Pen(rng)
        self.done: Counter[str] = Counter()
        self.deeds: dict[str, Callable[[], bool]] = {
            "add": self.add,
            "rewrite": self.rewrite,
            "remove": self.remove,
            "rename": self.rename,
            "move": self.move,
            "respell": self.respell,
            "respell folder": self.respell_folder,
            "end otherwise": self.end_otherwise,
            "move folder": self.move_folder,
            "swap": self.swap,
            "exclude": self.exclude,
            "touch": self.touch,
        }

    def act(self) -> None:
        """One deed that the files as they are allow."""
        names = list(self.deeds)
        crowded = len(self.files()) > 36
        while True:
            deed = "remove" if crowded else self.rng.choice(names)
            if self.deeds[deed]():
                self.done[deed] += 1
                return

    def files(self) -> list[Path]:
        """Every file but the anchors, whose many links nobody edits."""
        found = (file for file in self.vault.rglob("*") if file.is_file())
        return sorted(f for f in found if f.name not in ("anchor.md", "app.json"))

    def folders(self) -> list[Path]:
        return sorted(f for f in self.vault.rglob("*") if f.is_dir() and f.name != ".obsidian")

    def place(self, name: str) -> Path:
        return self.vault / self.pen.folder() / name

    def free(self, path: Path) -> bool:
        """Whether a file can be put there."""
        above = (folder for folder in path.parents if self.vault in folder.parents)
        return not path.exists() and not any(folder.is_file() for folder in above)

    def put(self, path: Path, links: int | None = None) -> bool:
        links = self.rng.randrange(8) if links is None else links
        canvas = lower(path.name).endswith(".canvas")
        text = (self.pen.canvas if canvas else self.pen.note)(links)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return True

    def shift(self, old: Path, new: Path) -> bool:
        """Rename; a change of case alone is one even where case makes no difference."""
        same = new.exists() and new.samefile(old)
        if old == new or old in new.parents or not (same or self.free(new)):
            return False
        new.parent.mkdir(parents=True, exist_ok=True)
        os.rename(old, new)
        return True

    def any_file(self) -> Path | None:
        files = self.files()
        return self.rng.choice(files) if files else None

    def add(self) -> bool:
        path = self.place(self.pen.name())
        return self.free(path) and self.put(path)

    def rewrite(self) -> bool:
        file = self.any_file()
        return file is not None and self.put(file)

    def remove(self) -> bool:
        file = self.any_file()
        if file is not None:
            file.unlink()
        return file is not None

    def rename(self) -> bool:
        file = self.any_file()
        return file is not None and self.shift(file, file.with_name(self.pen.name()))

    def move(self) -> bool:
        file = self.any_file()
        return file is not None and self.shift(file, self.place(file.name))

    def respell(self) -> bool:
        file = self.any_file()
        return file is not None and self.shift(file, file.with_name(self.otherwise(file.name)))

    def respell_folder(self) -> bool:
        folders = self.folders()
        if not folders:
            return False
        folder = self.rng.choice(folders)
        return self.shift(folder, folder.with_name(self.otherwise(folder.name)))

    def otherwise(self, name: str) -> str:
        """Another spelling that Obsidian takes for the same name, or for the same in its links."""
        changed = (
            name.swapcase(),
            name.title(),
            unicodedata.normalize("NFD", name),
            unicodedata.normalize("NFC", name),
            name.replace(" ", "\u00a0"),
            name.replace("\u00a0", " ").replace("\u202f", " "),
        )
        return self.rng.choice([other for other in changed if other != name] or [name])

    def end_otherwise(self) -> bool:
        file = self.any_file()
        if file is None:
            return False
        return self.shift(file, file.with_name(file.stem + self.rng.choice(ENDINGS)))

    def move_folder(self) -> bool:
        folders = self.folders()
        if not folders:
            return False
        folder = self.rng.choice(folders)
        return self.shift(folder, self.place(self.rng.choice((folder.name, "Note", "moved"))))

    def swap(self) -> bool:
        files = self.files()
        if len(files) < 2:
            return False
        first, second = self.rng.sample(files, 2)
        spare = self.vault / ".spare"
        os.rename(first, spare)
        os.rename(second, first)
        os.rename(spare, second)
        return True

    def exclude(self) -> bool:
        """Set Obsidian's excluded files anew, often to nothing."""
        settings_file = self.vault / ".obsidian" / "app.json"
        settings_file.parent.mkdir(exist_ok=True)
        settings_file.write_text(json.dumps({"userIgnoreFilters": self.rng.choice(EXCLUDED)}))
        return True

    def touch(self) -> bool:
        file = self.any_file()
        if file is not None:
            os.utime(file, (1.7e9, 1.7e9 + self.rng.randrange(10**6)))
        return file is not None


# The comparison

# For a longer hunt: RELINK_SEEDS=100-200 RELINK_RUNS=500.
SEEDS = os.environ.get("RELINK_SEEDS", "1-6").split("-")
RUNS = int(os.environ.get("RELINK_RUNS", "40"))


@pytest.mark.parametrize("seed", range(int(SEEDS[0]), int(SEEDS[-1]) + 1))
def test_after_any_edits_every_link_leads_where_a_full_resolve_says(
    seed: int, open_vault: Open, run_index: Run
) -> None:
    """Each run writes the rows that its edits concern, and no other row of a link."""
    rng = random.Random(seed)
    memory = open_vault()
    person = Person(memory.vault, rng)
    for folder in person.pen.folders:
        person.put(memory.vault / folder / "anchor.md", links=30)
    for _ in range(30):
        person.add()
    run_index(memory)
    watch, before = Watch(memory), full_resolve(memory.vault)
    followed = 0
    for run in range(RUNS):
        for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
            person.act()
        watch.taken()
        known = watch.notes()
        in_one_go = rng.random() < 0.8
        if not in_one_go:
            interrupted(memory, rng.randrange(4))
            person.act()
        run_index(memory)
        now = full_resolve(memory.vault)
        assert stored_links(memory) == now.links, (seed, run, person.done)
        if in_one_go:
            moved = {path for path, _ in before.files ^ now.files}
            followed += check_rows(watch, known, moved)
        before = now
        if run % 8 == 7:
            fresh = open_vault(cache="fresh")
            index(fresh, IndexRequest(rebuild=True))
            assert rows_about_links(memory) == rows_about_links(fresh), (seed, run, person.done)
            fresh.close()
    # It would all be in vain if little had happened.
    assert followed > RUNS / 2
    assert len(person.done) == len(person.deeds)
    resolved = sum(link[-1] is not None for link in before.links)
    assert 0 < resolved < len(before.links)


def interrupted(memory: Memory, after: int) -> bool:
    """Whether a run was stopped at its `after`-th report of progress, if it came to that."""
    reports = iter(range(after + 1))

    def report(stage: str, done: int, total: int) -> None:
        if next(reports, after) == after:
            raise KeyboardInterrupt

    memory.progress = Progress(report)
    try:
        index(memory, IndexRequest())
    except KeyboardInterrupt:
        return True
    finally:
        memory.progress = QUIET
    return False


def check_rows(watch: Watch, known: dict[int, tuple[str, str]], moved: set[str]) -> int:
    """How many links followed, once it is sure that each row written had to be.

    known: the notes before the run.
    moved: files that came or went, or are searched now and were not, or the reverse.
    """
    now = watch.notes()
    keys = {key for path in moved for key in affected_keys(path)}
    followed = 0
    for row in watch.taken():
        if row.what == "update":
            assert row.old != row.new
            assert row.key in keys
            followed += 1
        else:
            assert known.get(row.note) != now.get(row.note)
    return followed


# Precisely


def big_vault(count: int) -> dict[str, str]:
    """Notes of ten links each; ten notes ask for `Wanted`, and as many for `n0001`."""
    notes = {
        f"n{i:04}.md": " ".join(f"[[n{(i * 7 + k) % count:04}]]" for k in range(8))
        + f" [[elsewhere {i}]] [[#Here]]"
        for i in range(count)
    }
    for i in range(10):
        notes[f"n{i + 10:04}.md"] += " [[Wanted]] [[wanted.md|again]] [[n0001]]"
    return notes


@pytest.fixture
def watched(open_vault: Open, run_index: Run) -> tuple[Memory, Watch]:
    memory = open_vault(big_vault(300))
    run_index(memory)
    assert len(stored_links(memory)) > 3_000
    return memory, Watch(memory)


def test_a_note_that_nobody_asks_for_writes_no_row_but_its_own(
    watched: tuple[Memory, Watch], run_index: Run
) -> None:
    memory, watch = watched
    (memory.vault / "Unrelated.md").write_text("[[n0001]] [[Wanted]]")
    run_index(memory)
    rows = watch.taken()
    assert [(row.what, row.key, row.new) for row in rows] == [
        ("insert", "n0001", "n0001.md"),
        ("insert", "wanted", None),
    ]
    assert {watch.notes()[row.note][0] for row in rows} == {"Unrelated.md"}


def test_only_the_links_that_waited_for_a_name_are_written(
    watched: tuple[Memory, Watch], run_index: Run
) -> None:
    memory, watch = watched
    waiting = [row for row in stored_links(memory) if fold(row[2]) in ("wanted", "wanted.md")]
    file = memory.vault / "WANTED.md"
    for there in (True, False):
        file.write_text("at last") if there else file.unlink()
        run_index(memory)
        rows = watch.taken()
        paths = {row: path for row, (path, _) in watch.notes().items()}
        assert {row.what for row in rows} == {"update"}
        assert sorted((paths[row.note], row.ordinal) for row in rows) == [
            (path, ordinal) for path, ordinal, *_ in waiting
        ]
        ends = (None, "WANTED.md") if there else ("WANTED.md", None)
        assert {(row.old, row.new) for row in rows} == {ends}
    assert len(waiting) == 20


def test_a_namesake_that_takes_no_link_writes_no_row(
    watched: tuple[Memory, Watch], run_index: Run
) -> None:
    memory, watch = watched
    twin = memory.vault / "far" / "away" / "n0001.md"
    twin.parent.mkdir(parents=True)
    twin.write_text("a namesake")
    run_index(memory)
    twin.unlink()
    run_index(memory)
    assert watch.taken() == []


def test_a_renamed_note_writes_its_own_rows_and_those_that_led_to_it(
    watched: tuple[Memory, Watch], run_index: Run
) -> None:
    memory, watch = watched
    led = sum(row[4] == "n0042.md" for row in stored_links(memory))
    (memory.vault / "n0042.md").rename(memory.vault / "Other.md")
    assert run_index(memory).notes.renamed == 1
    rows = watch.taken()
    names = {watch.notes()[row.note][0] for row in rows if row.what != "update"}
    assert names == {"Other.md"}
    updates = [row for row in rows if row.what == "update"]
    assert {(row.key, row.old, row.new) for row in updates} == {("n0042", "n0042.md", None)}
    assert led > 4
    assert led - len(updates) == sum(row.old == "n0042.md" for row in rows if row.what == "delete")


def test_a_namesake_in_another_folder_takes_the_links_of_that_folder_alone(
    open_vault: Open, run_index: Run
) -> None:
    sources = [f"{folder}/x{i}.md" for folder in ("a", "b", "c") for i in range(5)]
    memory = open_vault({"c/kiln.md": "", **dict.fromkeys(sources, "[[kiln]] [[c/kiln]]")})
    run_index(memory)
    watch = Watch(memory)
    (memory.vault / "b" / "kiln.md").write_text("a nearer one")
    run_index(memory)
    # From a/ both are as far, and their paths are as long: then the first by name.
    rows = watch.taken()
    paths = {row: path for row, (path, _) in watch.notes().items()}
    assert [(row.what, paths[row.note], row.ordinal, row.new) for row in rows] == [
        ("update", source, 0, "b/kiln.md") for source in sources[:10]
    ]


@dataclass(frozen=True)
class Effort:
    """What SQLite did for the statements about links in one run."""

    steps: int  # of its virtual machine, which reads a row in a fixed number of them
    scanned: int  # rows that were come upon by reading a whole table


def effort(memory: Memory) -> Effort:
    """Index, and measure."""
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    counted: Counter[str] = Counter()

    def finished(event: dict[str, Any]) -> None:
        if re.search(r"\blink\b", event["sql"]):
            counted.update(event["stmt_status"])

    sidecar.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, finished)
    try:
        index(memory, IndexRequest())
    finally:
        sidecar.connection.trace_v2(0, None)
    return Effort(counted["SQLITE_STMTSTATUS_VM_STEP"], counted["SQLITE_STMTSTATUS_FULLSCAN_STEP"])


def test_only_links_of_the_name_are_looked_at_however_many_there_are(open_vault: Open) -> None:
    spent: list[dict[str, Effort]] = []
    for count in (60, 600):
        memory = open_vault(big_vault(count), name=f"v{count}", cache=f"c{count}")
        index(memory, IndexRequest())
        efforts: dict[str, Effort] = {}
        for name in ("Unrelated.md", "Wanted.md", "Unrelated.png"):
            (memory.vault / name).write_text("[[n0001]] and [[Wanted]]")
            efforts[f"{name} comes"] = effort(memory)
        for name in ("Unrelated.md", "Wanted.md", "Unrelated.png"):
            (memory.vault / name).unlink()
            efforts[f"{name} goes"] = effort(memory)
        spent.append(efforts)
    few, many = spent
    assert few == many
    assert {one.scanned for one in few.values()} == {0}
    assert 0 < few["Unrelated.png comes"].steps < few["Wanted.md comes"].steps


# No link is missed: what the choice of keys rests on

LETTERS = "aA1.ΣσςİIiıéÉ\u0301 \u00a0"
words = st.text(LETTERS, min_size=1, max_size=3).filter(lambda word: word.strip(". \u00a0"))


@st.composite
def small_vaults(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """(files, link targets) from few names, so that files and links often share one."""
    names = draw(st.lists(words, min_size=1, max_size=3, unique=True))
    spellings = [
        changed
        for name in names
        for changed in (
            *(name, name.upper(), name.lower(), name.swapcase()),
            *(unicodedata.normalize("NFD", name), unicodedata.normalize("NFC", name)),
        )
    ]
    spelling = st.sampled_from(spellings)
    folder = st.sampled_from(["", "a/", "A/", "a/1/b/", "Σ/b/", "aΣ/a/"])
    ending = st.sampled_from(["", ".md", ".md", ".MD", ".md.md", ".png", ".ΟΔΟΣ"])
    # As a walk gives them: composed, with plain spaces, and nothing that is hidden.
    file = st.builds(lambda *parts: vault_path("".join(parts)), folder, spelling, ending)
    files = st.lists(file.filter(lambda path: not is_hidden(path)), min_size=1, max_size=6)
    form = st.sampled_from(["", "", "", "/", "./", "../", "b/", "a/b/", "A\\", "Σ/"])
    written = st.sampled_from(["", "", "", ".md", ".png", ".οδος", ".ΟΔΟΣ"])
    targets = st.lists(
        st.builds(lambda *parts: "".join(parts), form, spelling, written), min_size=1
    )
    return list(dict.fromkeys(draw(files))), draw(targets)


def test_a_file_that_comes_or_goes_changes_no_link_but_those_of_its_keys() -> None:
    changed: Counter[bool] = Counter()

    @settings(max_examples=600, deadline=None, derandomize=True, database=None)
    @given(small_vaults(), st.sampled_from(["src.md", "a/src.md", "A/b/src.md", "aς/src.md"]))
    def compare(vault: tuple[list[str], list[str]], source: str) -> None:
        files, targets = vault
        whole = VaultNames(files)
        for path in files:
            others = [file for file in files if file != path]
            without = VaultNames(others)
            for target in targets:
                with_it, before = whole.resolve(target, source), without.resolve(target, source)
                assert with_it == by_the_rule(files, target, source)
                assert before == by_the_rule(others, target, source)
                changed[with_it != before] += 1
                assert with_it == before or link_key(target) in affected_keys(path)

    compare()
    assert min(changed[True], changed[False]) > 200


# Runs that die between the notes and their links

FOUR = {
    "x.md": "[[Wanted]] [[kiln]] ![[pot.png]] [[shed/clay]] [[deep]]",
    "kiln.md": "fired",
    "pot.png": "x",
    "shed/clay.md": "red",
    "shed/deep/deep.md": "deep",
}
EDITS: dict[str, Callable[[Path], object]] = {
    "a note comes": lambda vault: (vault / "Wanted.md").write_text("at last"),
    "a note goes": lambda vault: (vault / "kiln.md").unlink(),
    "a note is renamed": lambda vault: (vault / "kiln.md").rename(vault / "wanted.md"),
    "an attachment goes": lambda vault: (vault / "pot.png").unlink(),
    "a folder moves": lambda vault: (vault / "shed").rename(vault / "house"),
}
INDEX_AND_DIE = """
import os, sys
from vaultmem.service.application import Progress, open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.settings import load_settings
progress = Progress(lambda stage, done, total: os._exit(9) if done == total else None)
settings = load_settings(sys.argv[1], sys.argv[2], environment={"VAULTMEM_EMBEDDER_NAME": "none"})
index(open_memory(settings, progress=progress), IndexRequest())
"""


@pytest.mark.parametrize("edit", EDITS)
def test_links_are_resolved_by_the_run_after_those_that_died(
    edit: str, open_vault: Open, run_index: Run, tmp_path: Path, assert_equals_rebuild: Compare
) -> None:
    memory = open_vault(FOUR)
    run_index(memory)
    before = [row for row in stored_links(memory) if row[0] == "x.md"]
    memory.close()
    EDITS[edit](memory.vault)
    command = [sys.executable, "-c", INDEX_AND_DIE, str(memory.vault), str(tmp_path / "cache")]
    for _ in range(2):  # the second finds all notes in their place already
        assert subprocess.run(command, check=False).returncode == 9
        assert [row for row in stored_links(memory) if row[0] == "x.md"] == before
        assert stored_links(memory) != full_resolve(memory.vault).links
        memory.close()
    run_index(memory)
    assert stored_links(memory) == full_resolve(memory.vault).links
    assert_equals_rebuild(memory)


@pytest.mark.parametrize("edit", EDITS)
def test_a_run_that_fails_while_it_writes_links_leaves_them_to_the_next(
    edit: str, open_vault: Open, run_index: Run, assert_equals_rebuild: Compare
) -> None:
    memory = open_vault({**FOUR, "y.md": FOUR["x.md"]})
    run_index(memory)
    before = stored_links(memory)
    EDITS[edit](memory.vault)
    assert memory.sidecar is not None
    db = memory.sidecar.connection
    second = db.execute("SELECT id FROM note WHERE path = 'y.md'").get
    db.execute(
        f"CREATE TEMP TRIGGER fail BEFORE UPDATE ON main.link WHEN new.note = {second} "
        "BEGIN SELECT RAISE(ABORT, 'no more'); END"
    )
    with pytest.raises(apsw.ConstraintError):
        run_index(memory)
    assert stored_links(memory) == before  # not even those of x.md
    db.execute("DROP TRIGGER fail")
    run_index(memory)
    assert stored_links(memory) == full_resolve(memory.vault).links != before
    assert_equals_rebuild(memory)


def test_what_came_back_before_the_next_run_is_led_to_again(
    open_vault: Open, run_index: Run, links: Links, assert_equals_rebuild: Compare
) -> None:
    memory = open_vault({"x.md": "[[kiln]] [[clay]]", "kiln.md": "fired"})
    run_index(memory)
    before = links(memory)
    for gone, there in (("kiln.md", "clay.md"), ("clay.md", "kiln.md")):
        (memory.vault / gone).unlink()
        (memory.vault / there).write_text(f"fired in {there}")
        assert interrupted(memory, 1)  # the one note is in
    run_index(memory)
    assert links(memory) == before == [("x.md", "kiln", "kiln.md"), ("x.md", "clay", None)]
    assert_equals_rebuild(memory)


def test_a_canvas_names_its_files_as_the_vault_does(
    open_vault: Open, run_index: Run, assert_equals_rebuild: Compare
) -> None:
    named = ["a  b.md", unicodedata.normalize("NFD", "é.md"), "c\u00a0d.md", "deep/C\u202fD.png"]
    nodes = [{"id": str(n), "type": "file", "file": file} for n, file in enumerate(named)]
    files = ["a  b.md", "é.md", "c d.md", "deep/C D.png"]
    memory = open_vault({"c.canvas": json.dumps({"nodes": nodes}), "a b.md": "", "z/é.md": ""})
    run_index(memory)
    assert [row[4] for row in stored_links(memory)] == [None] * 4
    for file in files:
        (memory.vault / file).parent.mkdir(exist_ok=True)
        (memory.vault / file).write_text("there")
    run_index(memory)
    assert [row[4] for row in stored_links(memory)] == files
    assert_equals_rebuild(memory)


# Files that are there for a moment, or cannot be had


def test_a_note_that_an_editor_takes_away_for_a_moment_keeps_its_links(
    open_vault: Open, run_index: Run, links: Links, assert_equals_rebuild: Compare
) -> None:
    memory = open_vault({"x.md": "[[kiln]]", "kiln.md": "fired"})
    run_index(memory)
    file = memory.vault / "kiln.md"
    file.write_text("fired twice")
    memory.progress = Progress(lambda stage, done, total: file.unlink(missing_ok=True))
    run_index(memory)
    memory.progress = QUIET
    file.write_text("fired twice")
    run_index(memory)
    assert links(memory) == [("x.md", "kiln", "kiln.md")]
    assert_equals_rebuild(memory)
    file.unlink()
    run_index(memory)
    assert links(memory) == [("x.md", "kiln", None)]


def test_a_note_that_could_never_be_read_is_linked_to_while_it_is_there(
    open_vault: Open, run_index: Run, links: Links, assert_equals_rebuild: Compare
) -> None:
    memory = open_vault({"x.md": "[[kiln]]", "kiln.md": "fired"})
    file = memory.vault / "kiln.md"

    def become_a_folder(stage: str, done: int, total: int) -> None:
        if file.is_file():
            file.unlink()
            file.mkdir()

    memory.progress = Progress(become_a_folder)
    reply = run_index(memory)
    assert [(p.path, p.code) for p in reply.problems] == [("kiln.md", "not-a-file")]
    assert links(memory) == [("x.md", "kiln", "kiln.md")]
    memory.progress = QUIET
    run_index(memory)
    assert links(memory) == [("x.md", "kiln", None)]
    assert_equals_rebuild(memory)
    file.rmdir()
    file.write_text("fired")
    run_index(memory)
    assert links(memory) == [("x.md", "kiln", "kiln.md")]
    assert_equals_rebuild(memory)


def test_files_of_a_folder_that_cannot_be_listed_are_still_linked_to(
    open_vault: Open, run_index: Run, links: Links, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_vault({"x.md": "[[kiln]] ![[pot.png]]", "shed/kiln.md": "", "shed/pot.png": "x"})
    run_index(memory)
    led = [("x.md", "kiln", "shed/kiln.md"), ("x.md", "pot.png", "shed/pot.png")]
    listing = os.scandir

    def locked(folder: Any) -> Any:
        if str(folder).endswith("shed"):
            raise PermissionError(13, "locked")
        return listing(folder)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", locked)
        assert [p.code for p in run_index(memory).problems] == ["folder-unreadable"]
        assert links(memory) == led
        (memory.vault / "shed" / "pot.png").unlink()
        run_index(memory)
        assert links(memory) == led
    run_index(memory)
    assert links(memory) == [led[0], ("x.md", "pot.png", None)]


def test_excluding_one_of_two_names_that_differ_in_case_moves_no_link(
    open_vault: Open, run_index: Run, links: Links
) -> None:
    memory = open_vault({"x.md": "[[a/kiln]]", "a/Kiln.md": "", "a/kiln.md": "", "b.md": ""})
    run_index(memory)
    before = links(memory)
    (memory.vault / ".obsidian").mkdir()
    (memory.vault / ".obsidian" / "app.json").write_text('{"userIgnoreFilters": ["a/Kiln"]}')
    run_index(memory)
    assert links(memory) == before
