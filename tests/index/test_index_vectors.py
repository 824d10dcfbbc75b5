"""Which passage has which vector: slots come and go with the text, and the centroid with them."""

import os
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

import apsw
import pytest

from vaultmem.index.vectors import PassageVectors, Waiting, embedded_hash, embedded_text
from vaultmem.model.chunk import Chunk
from vaultmem.service.application import Memory
from vaultmem.service.operations.index import IndexReply, IndexRequest, index

Open = Callable[..., Memory]
Run = Callable[[Memory], IndexReply]
Write = Callable[[Path, Mapping[str, str | bytes]], None]

SPACE = "cache:1:1"
NOTES = {
    "a.md": "# Kiln\n\nfired on Mondays\n\n# Glaze\n\nmade of ash",
    "b.md": "# Kiln\n\nfired on Mondays",
    "c.md": "clay from the river",
}


def of(memory: Memory) -> PassageVectors:
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    return PassageVectors(sidecar)


def hash_of(text: str) -> bytes:
    return sha256(text.encode()).digest()[:16]


KILN, GLAZE, CLAY = (
    hash_of("Kiln\nfired on Mondays"),
    hash_of("Glaze\nmade of ash"),
    hash_of("clay from the river"),
)


def slots(memory: Memory) -> dict[str, list[int | None]]:
    """Note path -> slots of its passages, in order."""
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    found: dict[str, list[int | None]] = {}
    for path, slot in sidecar.connection.execute(
        "SELECT n.path, c.slot FROM chunk c JOIN note n ON n.id = c.note ORDER BY n.path, c.ordinal"
    ):
        found.setdefault(path, []).append(slot)
    return found


def urgent_texts(memory: Memory) -> list[str]:
    """What is embedded, the most urgent first."""
    vectors = of(memory)
    return [waiting.text for waiting in vectors.texts(vectors.urgent_first(vectors.hashes()))]


def attach_all(memory: Memory) -> PassageVectors:
    vectors = of(memory)
    vectors.serve(SPACE)
    vectors.attach(SPACE, {h: slot for slot, h in enumerate(sorted(vectors.hashes()))}.items())
    assert vectors.waiting_count() == 0
    return vectors


# What is embedded


def chunk(trail: tuple[str, ...], text: str, body: int = 0) -> Chunk:
    return Chunk("key", trail, 1, 1, 0, len(text), text, body, 1)


@pytest.mark.parametrize(
    ("passage", "expected"),
    [
        (chunk(("Kiln", "Cone 6"), "# Cone 6\n\nhot\n", 8), "Kiln > Cone 6\nhot"),
        (chunk((), "\n hot \n"), "hot"),
        (chunk(("Kiln",), "# Kiln", 6), "Kiln"),
        (chunk((), ""), ""),
    ],
)
def test_headings_and_the_text_below_them_are_embedded(passage: Chunk, expected: str) -> None:
    assert embedded_text(passage) == expected
    assert embedded_hash(passage) == hash_of(expected)


def test_a_text_that_is_no_unicode_has_a_hash() -> None:
    lone = chunk((), "a\udc80b")
    assert len(embedded_hash(lone)) == 16
    assert embedded_hash(lone) != embedded_hash(chunk((), "ab"))


def test_every_passage_is_stored_with_the_hash_of_what_is_embedded(indexed: Open) -> None:
    vectors = of(indexed(NOTES))
    assert sorted(vectors.hashes()) == sorted([KILN, GLAZE, CLAY])
    for text_hash in vectors.hashes():
        (waiting,) = vectors.texts([text_hash])
        assert waiting.text_hash == text_hash == hash_of(waiting.text)
        assert waiting.pieces > 0


def test_a_texts_hash_knows_neither_name_nor_place_of_its_note(
    open_vault: Open, run_index: Run
) -> None:
    memory = open_vault({"a.md": "clay from the river", "x/y.md": "\n\nclay from the river\n\n"})
    run_index(memory)
    assert of(memory).hashes() == [CLAY]
    (memory.vault / "a.md").rename(memory.vault / "Another title.md")
    run_index(memory)
    assert of(memory).hashes() == [CLAY]


# Attaching


def test_at_first_no_space_serves_and_no_passage_has_a_vector(indexed: Open) -> None:
    memory = indexed(NOTES)
    vectors = of(memory)
    assert vectors.serving is None
    assert slots(memory) == {"a.md": [None, None], "b.md": [None], "c.md": [None]}
    assert (vectors.count(), vectors.waiting_count(), vectors.largest_slot()) == (0, 4, -1)
    assert sorted(vectors.unattached()) == sorted(vectors.hashes())
    assert vectors.centroid() is None


def test_every_passage_of_a_text_gets_its_slot_and_they_are_counted(indexed: Open) -> None:
    memory = indexed(NOTES)
    vectors = of(memory)
    vectors.serve(SPACE)
    assert vectors.attach(SPACE, {KILN: 7, hash_of("unknown"): 3}.items()) == 2
    assert slots(memory) == {"a.md": [7, None], "b.md": [7], "c.md": [None]}
    assert vectors.slots() == [7, 7]
    assert (vectors.count(), vectors.waiting_count(), vectors.largest_slot()) == (2, 2, 7)
    assert sorted(vectors.unattached()) == sorted([GLAZE, CLAY])
    assert vectors.attach(SPACE, [(GLAZE, 0), (CLAY, 4)]) == 2
    assert vectors.slots() == [0, 4, 7, 7]
    assert vectors.unattached() == []


def test_a_passage_that_has_a_slot_keeps_it(indexed: Open) -> None:
    memory = indexed(NOTES)
    vectors = attach_all(memory)
    before = slots(memory)
    assert vectors.attach(SPACE, [(KILN, 99), (CLAY, 98)]) == 0
    assert slots(memory) == before


def test_nothing_to_attach_is_no_change(indexed: Open) -> None:
    vectors = attach_all(indexed(NOTES))
    vectors.put_centroid([0.5], vectors.slots())
    assert vectors.attach(SPACE, []) == 0
    assert vectors.centroid() == [0.5]


@pytest.mark.parametrize("name", ["cache:1:2", "cache:2:1", "other:1:1", ""])
def test_slots_of_a_space_that_does_not_serve_are_not_attached(name: str, indexed: Open) -> None:
    memory = indexed(NOTES)
    vectors = of(memory)
    assert vectors.attach(name, [(KILN, 1)]) == 0
    vectors.serve(SPACE)
    assert vectors.attach(name, [(KILN, 1)]) == 0
    assert vectors.count() == 0
    vectors.serve(name)
    assert vectors.serving == name
    assert vectors.attach(SPACE, [(KILN, 1)]) == 0
    assert vectors.attach(name, [(KILN, 1)]) == 2


def test_another_space_begins_with_no_slots_and_no_centroid(indexed: Open) -> None:
    memory = indexed(NOTES)
    vectors = attach_all(memory)
    vectors.put_centroid([0.25, 0.5], vectors.slots())
    vectors.serve("cache:1:2")
    assert (vectors.count(), vectors.slots(), vectors.centroid()) == (0, [], None)
    assert sorted(vectors.unattached()) == sorted([KILN, GLAZE, CLAY])


def test_slots_outlive_the_process(indexed: Open) -> None:
    memory = indexed(NOTES)
    attach_all(memory).put_centroid([0.25], [0, 1, 2, 2])
    before = slots(memory)
    memory.close()
    assert slots(memory) == before
    assert of(memory).serving == SPACE


# Slots while notes change


def test_an_edit_takes_the_slots_of_the_changed_passages_alone(
    open_vault: Open, run_index: Run, write: Write
) -> None:
    memory = open_vault(NOTES)
    run_index(memory)
    vectors = attach_all(memory)
    before = slots(memory)
    write(memory.vault, {"a.md": f"New first line.\n\n{NOTES['a.md']} and bone"})
    run_index(memory)
    after = slots(memory)
    assert after["a.md"] == [None, before["a.md"][0], None]
    assert (after["b.md"], after["c.md"]) == (before["b.md"], before["c.md"])
    assert sorted(vectors.unattached()) == sorted(
        [hash_of("New first line."), hash_of("Glaze\nmade of ash and bone")]
    )


def test_a_note_that_moves_keeps_its_slots_and_a_second_copy_gets_them_when_attached(
    open_vault: Open, run_index: Run, write: Write
) -> None:
    memory = open_vault(NOTES)
    run_index(memory)
    vectors = attach_all(memory)
    before = slots(memory)
    (memory.vault / "deep").mkdir()
    (memory.vault / "a.md").rename(memory.vault / "deep/z.md")
    write(memory.vault, {"copy.md": NOTES["c.md"]})
    run_index(memory)
    assert slots(memory)["deep/z.md"] == before["a.md"]
    assert slots(memory)["copy.md"] == [None]
    assert vectors.unattached() == [CLAY]
    clay = before["c.md"][0]
    assert clay is not None
    assert vectors.attach(SPACE, [(CLAY, clay)]) == 1
    assert slots(memory)["copy.md"] == slots(memory)["c.md"] == [clay]


def test_texts_whose_passages_are_gone_are_known_to_be(open_vault: Open, run_index: Run) -> None:
    memory = open_vault(NOTES)
    run_index(memory)
    vectors = of(memory)
    everything = [GLAZE, KILN, CLAY, hash_of("never there")]
    assert vectors.still_there(everything) == {GLAZE, KILN, CLAY}
    assert [w.text for w in vectors.texts(everything)] == [
        "Glaze\nmade of ash",
        "Kiln\nfired on Mondays",
        "clay from the river",
    ]
    (memory.vault / "a.md").unlink()
    run_index(memory)
    assert vectors.still_there(everything) == {KILN, CLAY}
    assert [w.text_hash for w in vectors.texts(everything)] == [KILN, CLAY]
    assert vectors.urgent_first(everything) == [KILN, CLAY]
    assert vectors.still_there([]) == set()
    assert vectors.texts([]) == []


def test_a_rebuilt_sidecar_has_the_same_texts_and_no_slots(indexed: Open) -> None:
    memory = indexed(NOTES)
    vectors = attach_all(memory)
    before = sorted(vectors.hashes())
    index(memory, IndexRequest(rebuild=True))
    assert sorted(of(memory).hashes()) == before
    assert (of(memory).serving, of(memory).count()) == (None, 0)


# Which first


def test_the_newest_and_most_linked_notes_are_the_most_urgent(
    open_vault: Open, run_index: Run
) -> None:
    notes = {
        "old hub.md": "---\ndate: 2020-01-01\n---\nold hub",
        "new hub.md": "---\ndate: 2026-01-02\n---\nnew hub",
        "new.md": "---\ndate: 2026-01-03\n---\nnew alone",
        "old.md": "---\ndate: 2019-01-01\n---\nold alone",
        **{
            f"l{n}.md": f"---\ndate: 2000-01-01\n---\nlink {n} [[new hub]] [[old hub]]"
            for n in range(4)
        },
    }
    memory = open_vault(notes)
    run_index(memory)
    first = ["new hub", "new alone", "old hub", "old alone"]
    urgent = urgent_texts(memory)
    assert urgent[:4] == first
    assert [text[:6] for text in urgent[4:]] == ["link 0", "link 1", "link 2", "link 3"]


def test_where_nothing_is_linked_the_newest_come_first(open_vault: Open, run_index: Run) -> None:
    """Also in a journal, whose names are in the order of its days."""
    days = {
        f"2026-01-{day:02}.md": f"day {day:02}\n\n# More\n\nof {day:02}" for day in range(1, 20)
    }
    memory = open_vault(days)
    run_index(memory)
    urgent = urgent_texts(memory)
    assert [text[-2:] for text in urgent] == [f"{n:02}" for n in range(19, 0, -1) for _ in "ab"]
    assert urgent[:2] == ["day 19", "More\nof 19"]


def test_a_newer_date_or_another_link_brings_a_note_forward(
    open_vault: Open, run_index: Run, write: Write
) -> None:
    dates = {f"n{n}.md": f"---\ndate: 2026-01-0{n}\n---\ntext {n}" for n in range(1, 6)}
    memory = open_vault(dates)
    run_index(memory)

    def urgent() -> str:
        return "".join(text[-1] for text in urgent_texts(memory))

    assert urgent() == "54321"
    write(memory.vault, {"n2.md": "---\ndate: 2027-01-01\n---\ntext 2"})
    run_index(memory)
    assert urgent() == "25431"
    links = {4: "[[n3]] [[n1]]", 5: "[[n3]]"}
    write(
        memory.vault,
        {f"n{n}.md": f"---\ndate: 2026-01-0{n}\n---\n{link} text {n}" for n, link in links.items()},
    )
    run_index(memory)
    assert urgent() == "25341"


def test_a_notes_own_links_to_itself_do_not_count(open_vault: Open, run_index: Run) -> None:
    memory = open_vault(
        {
            "a.md": "---\ndate: 2026-01-01\n---\nlinked [[z]]",
            "b.md": "---\ndate: 2026-01-01\n---\nvain " + "[[b]] " * 9,
            "z.md": "---\ndate: 2026-01-01\n---\nalone",
        }
    )
    run_index(memory)
    assert [text.split()[0] for text in urgent_texts(memory)] == ["alone", "linked", "vain"]


def test_a_text_of_several_notes_is_as_urgent_as_its_most_urgent_note(
    open_vault: Open, run_index: Run
) -> None:
    memory = open_vault(
        {
            "a.md": "---\ndate: 2001-01-01\n---\nshared",
            "b.md": "---\ndate: 2026-01-01\n---\nshared",
            "c.md": "---\ndate: 2010-01-01\n---\nown",
        }
    )
    run_index(memory)
    vectors = of(memory)
    assert vectors.urgent_first(vectors.hashes()) == [hash_of("shared"), hash_of("own")]
    assert vectors.urgent_first([hash_of("own")]) == [hash_of("own")]
    assert vectors.urgent_first([]) == []


def test_urgency_does_not_depend_on_how_the_index_came_about(
    open_vault: Open, run_index: Run, write: Write
) -> None:
    notes = {f"n{n:02}.md": f"note {n} [[n{n * 7 % 20:02}]]\n\n# More\n\nof {n}" for n in range(20)}
    memory = open_vault(dict(list(notes.items())[::-2]))
    run_index(memory)
    write(memory.vault, notes)
    for number, path in enumerate(notes):
        os.utime(memory.vault / path, (1.7e9 + number // 3 * 90_000,) * 2)
    run_index(memory)
    fresh = open_vault(cache="fresh")
    index(fresh, IndexRequest(rebuild=True))
    hashes = of(memory).hashes()
    assert len(hashes) == 40
    assert of(memory).urgent_first(hashes) == of(fresh).urgent_first(hashes[::-1])
    assert of(memory).sample(15) == of(fresh).sample(15)
    assert len(set(of(memory).sample(15))) == 15


# The centroid


def test_the_centroid_is_kept_rounded_and_not_written_again(indexed: Open) -> None:
    memory = indexed(NOTES)
    vectors = attach_all(memory)
    vectors.put_centroid([1 / 3, -2e-10, 0.5])
    assert vectors.centroid() == [0.333333333, 0.0, 0.5]
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    before = sidecar.connection.total_changes()
    vectors.put_centroid([1 / 3, -2e-10, 0.5], vectors.slots())
    assert sidecar.connection.total_changes() == before


def test_the_centroid_of_passages_that_have_changed_since_is_not_kept(
    open_vault: Open, run_index: Run
) -> None:
    memory = open_vault(NOTES)
    run_index(memory)
    vectors = attach_all(memory)
    then = vectors.slots()
    (memory.vault / "c.md").unlink()
    run_index(memory)
    vectors.put_centroid([0.5], then)
    assert vectors.centroid() is None
    vectors.put_centroid([0.25], vectors.slots())
    assert vectors.centroid() == [0.25]


CHANGES: dict[str, Callable[[Path], object]] = {
    "a note goes": lambda vault: (vault / "c.md").unlink(),
    "a passage goes": lambda vault: (vault / "a.md").write_text(NOTES["b.md"]),
    "a passage changes": lambda vault: (vault / "c.md").write_text("clay from the lake"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_centroid_goes_in_the_same_transaction_as_a_passage(
    change: str, open_vault: Open, run_index: Run
) -> None:
    """Another process sees the passages with their centroid, or others without one."""
    memory = open_vault(NOTES)
    run_index(memory)
    vectors = attach_all(memory)
    vectors.put_centroid([0.5], vectors.slots())
    watcher = of(open_vault())
    before = watcher.slots()
    seen: list[tuple[list[int], list[float] | None]] = []

    def look(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        seen.append((watcher.slots(), watcher.centroid()))
        return True

    CHANGES[change](memory.vault)
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    sidecar.connection.exec_trace = look
    run_index(memory)
    sidecar.connection.exec_trace = None
    seen.append((watcher.slots(), watcher.centroid()))
    assert seen[0] == (before, [0.5])
    assert seen[-1][0] != before
    assert {centroid is None for found, centroid in seen if found != before} == {True}


def test_a_change_that_is_rolled_back_leaves_the_centroid(open_vault: Open, run_index: Run) -> None:
    memory = open_vault(NOTES)
    run_index(memory)
    vectors = attach_all(memory)
    vectors.put_centroid([0.5], vectors.slots())
    (memory.vault / "c.md").unlink()
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    stopped: list[str] = []

    def stop(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        if sql.startswith("DELETE FROM note"):
            stopped.append(sql)
            raise KeyboardInterrupt
        return True

    sidecar.connection.exec_trace = stop
    with pytest.raises(KeyboardInterrupt):
        run_index(memory)
    sidecar.connection.exec_trace = None
    assert len(stopped) == 1
    assert (len(vectors.slots()), vectors.centroid()) == (4, [0.5])
    run_index(memory)
    assert (len(vectors.slots()), vectors.centroid()) == (3, None)


@pytest.mark.parametrize("attached", [True, False])
def test_a_passage_that_comes_changes_the_centroid_when_it_gets_its_vector(
    attached: bool, open_vault: Open, run_index: Run, write: Write
) -> None:
    memory = open_vault(NOTES)
    run_index(memory)
    vectors = attach_all(memory)
    vectors.put_centroid([0.5], vectors.slots())
    write(memory.vault, {"new.md": "a new one"})
    run_index(memory)
    assert vectors.centroid() == [0.5]
    if attached:
        assert vectors.attach(SPACE, [(hash_of("a new one"), 9)]) == 1
        assert vectors.centroid() is None
    else:
        assert vectors.texts([hash_of("a new one")]) == [
            Waiting(
                hash_of("a new one"), "a new one", vectors.texts(vectors.unattached())[0].pieces
            )
        ]


def test_a_note_that_only_moves_keeps_the_centroid(open_vault: Open, run_index: Run) -> None:
    memory = open_vault(NOTES)
    run_index(memory)
    vectors = attach_all(memory)
    vectors.put_centroid([0.5], vectors.slots())
    (memory.vault / "c.md").rename(memory.vault / "d.md")
    run_index(memory)
    assert vectors.centroid() == [0.5]
