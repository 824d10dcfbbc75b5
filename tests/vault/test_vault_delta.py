"""From two listings to what has to be done."""

import os
import unicodedata
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.model.delta import FileState, Snapshot, StoredFile, Suspects
from vaultmem.vault.delta import YOUNG_NS, decide, first_look, match_renames
from vaultmem.vault.ignore import compile_rules
from vaultmem.vault.obsidian import read_obsidian
from vaultmem.vault.scan import scan

LONG_AGO = 1_000_000_000_000
READ = LONG_AGO + 10 * YOUNG_NS
LOOK = FileState(10, LONG_AGO, LONG_AGO, 7, "a.md")


def stored(
    state: FileState = LOOK, *, sha256: str = "h", read_ns: int = READ, identity: str | None = None
) -> StoredFile:
    return StoredFile(state, sha256, read_ns, identity)


def seen(notes: Mapping[str, FileState], *unlisted: str) -> Snapshot:
    return Snapshot(notes, frozenset(), {}, (), unlisted)


def known(**hashes: str) -> dict[str, StoredFile]:
    return {path: stored(sha256=sha256) for path, sha256 in hashes.items()}


def test_a_note_that_looks_the_same_is_not_read_again() -> None:
    suspects = first_look(seen({"a.md": LOOK}), {"a.md": stored()})

    assert suspects == Suspects(new=(), changed=(), missing=(), unchanged=1)


@pytest.mark.parametrize(
    "state",
    [
        LOOK._replace(size=11),
        LOOK._replace(mtime_ns=LONG_AGO + 1),
        LOOK._replace(mtime_ns=LONG_AGO - 1),
        LOOK._replace(ctime_ns=LONG_AGO + 1),
        LOOK._replace(inode=8),
        LOOK._replace(disk_path="a\u0301.md"),
    ],
    ids=["size", "newer mtime", "older mtime", "ctime", "inode", "spelling on disk"],
)
def test_a_note_that_looks_different_in_any_field_is_read(state: FileState) -> None:
    suspects = first_look(seen({"a.md": state}), {"a.md": stored()})

    assert suspects == Suspects(new=(), changed=("a.md",), missing=(), unchanged=0)


@pytest.mark.parametrize("stamp", ["modified", "changed"])
@pytest.mark.parametrize(("age", "read_again"), [(-5, True), (0, True), (1, False), (100, False)])
def test_a_file_that_was_young_when_it_was_read_is_read_again(
    stamp: str, age: int, read_again: bool
) -> None:
    """age: nanoseconds beyond the slack of file system stamps, when the bytes were read."""
    when = READ - YOUNG_NS - age + 1
    young = LOOK._replace(mtime_ns=when) if stamp == "modified" else LOOK._replace(ctime_ns=when)

    suspects = first_look(seen({"a.md": young}), {"a.md": stored(young)})

    assert suspects.changed == (("a.md",) if read_again else ())
    assert suspects.unchanged == (0 if read_again else 1)


def test_a_note_never_seen_before_is_new_and_one_gone_is_missing() -> None:
    suspects = first_look(seen({"new.md": LOOK}), {"old.md": stored()})

    assert suspects == Suspects(new=("new.md",), changed=(), missing=("old.md",), unchanged=0)


def test_missing_notes_are_sorted() -> None:
    suspects = first_look(seen({}), {path: stored() for path in ("c.md", "a.md", "b/a.md")})

    assert suspects.missing == ("a.md", "b/a.md", "c.md")


def test_absence_below_a_folder_that_could_not_be_listed_is_no_deletion() -> None:
    before = {
        path: stored()
        for path in ("locked/a.md", "locked/deep/b.md", "locked2/c.md", "locked.md", "d.md")
    }

    suspects = first_look(seen({}, "locked"), before)

    assert suspects.missing == ("d.md", "locked.md", "locked2/c.md")


def test_absence_in_a_vault_that_could_not_be_listed_is_no_deletion() -> None:
    suspects = first_look(seen({}, ""), {"a.md": stored(), "b/c.md": stored()})

    assert suspects.missing == ()


def test_a_scan_after_an_edit_that_keeps_size_and_mtime_is_suspicious(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("before", encoding="utf-8")
    os.utime(file, ns=(LONG_AGO, LONG_AGO))
    rules, _ = compile_rules(read_obsidian(tmp_path), ())
    first = scan(tmp_path, rules, max_note_bytes=100)
    state = first.notes["a.md"]
    # As if the bytes had been read long after the file was written.
    remembered = {"a.md": stored(state, read_ns=state.ctime_ns + 2 * YOUNG_NS)}

    replacement = tmp_path / "swap"
    replacement.write_text("after!", encoding="utf-8")
    os.replace(replacement, file)
    os.utime(file, ns=(LONG_AGO, LONG_AGO))
    second = scan(tmp_path, rules, max_note_bytes=100)

    assert first_look(first, remembered).changed == ()
    assert second.notes["a.md"].size == state.size
    assert second.notes["a.md"].mtime_ns == state.mtime_ns
    assert first_look(second, remembered).changed == ("a.md",)


def test_a_note_that_moves_with_its_bytes_is_renamed() -> None:
    pairs = match_renames(["old.md"], known(**{"old.md": "h1"}), {"new.md": "h1"}, {})

    assert pairs == (("old.md", "new.md"),)


def test_a_note_that_moves_and_is_edited_is_known_by_its_identity() -> None:
    before = {"old.md": stored(sha256="h1", identity="note-7")}

    pairs = match_renames(["old.md"], before, {"new.md": "h2"}, {"new.md": "note-7"})

    assert pairs == (("old.md", "new.md"),)


def test_other_bytes_and_no_identity_make_another_note() -> None:
    assert match_renames(["old.md"], known(**{"old.md": "h1"}), {"new.md": "h2"}, {}) == ()


def test_another_identity_makes_another_note() -> None:
    before = {"old.md": stored(sha256="h1", identity="note-7")}

    assert match_renames(["old.md"], before, {"new.md": "h2"}, {"new.md": "note-8"}) == ()


def test_a_note_that_is_still_there_was_copied_not_renamed() -> None:
    assert match_renames([], known(**{"old.md": "h1"}), {"copy.md": "h1"}, {}) == ()


def test_the_same_bytes_are_stronger_evidence_than_the_same_identity() -> None:
    before = {"old.md": stored(sha256="h1", identity="note-7")}

    pairs = match_renames(
        ["old.md"], before, {"a.md": "h2", "b.md": "h1"}, {"a.md": "note-7", "b.md": "note-7"}
    )

    assert pairs == (("old.md", "b.md"),)


def test_among_equal_notes_the_one_of_the_same_name_is_the_renamed_one() -> None:
    pairs = match_renames(
        ["in/x.md"], known(**{"in/x.md": "h"}), {"a/y.md": "h", "b/x.md": "h"}, {}
    )

    assert pairs == (("in/x.md", "b/x.md"),)


def test_among_equal_notes_of_other_names_the_first_path_is_taken() -> None:
    pairs = match_renames(["x.md"], known(**{"x.md": "h"}), {"b.md": "h", "a.md": "h"}, {})

    assert pairs == (("x.md", "a.md"),)


def test_two_equal_notes_that_move_together_keep_their_names() -> None:
    before = known(**{"in/x.md": "h", "in/y.md": "h"})

    pairs = match_renames(list(before), before, {"out/y.md": "h", "out/x.md": "h"}, {})

    assert pairs == (("in/x.md", "out/x.md"), ("in/y.md", "out/y.md"))


def test_a_note_of_the_same_name_is_not_given_to_an_equal_one_that_comes_first() -> None:
    before = known(**{"a/x.md": "h", "b/y.md": "h"})

    pairs = match_renames(list(before), before, {"c/y.md": "h", "d/z.md": "h"}, {})

    assert pairs == (("a/x.md", "d/z.md"), ("b/y.md", "c/y.md"))


def test_more_equal_notes_gone_than_come_leaves_the_rest_removed() -> None:
    before = known(**{"a.md": "h", "b.md": "h", "c.md": "h"})

    pairs = match_renames(list(before), before, {"d.md": "h"}, {})

    assert pairs == (("a.md", "d.md"),)


def test_the_order_in_which_missing_notes_are_named_decides_nothing() -> None:
    before = known(**{"a.md": "h", "b.md": "h"})

    assert match_renames(["b.md", "a.md"], before, {"c.md": "h"}, {}) == (("a.md", "c.md"),)


def test_renames_are_sorted_whatever_gave_them_away() -> None:
    before = {"a.md": stored(sha256="h1", identity="note-7"), "b.md": stored(sha256="h2")}

    pairs = match_renames(list(before), before, {"x.md": "h9", "y.md": "h2"}, {"x.md": "note-7"})

    assert pairs == (("a.md", "x.md"), ("b.md", "y.md"))


def test_the_delta_names_what_each_suspect_turned_out_to_be() -> None:
    suspects = Suspects(
        new=("added.md", "to.md"),
        changed=("edited.md", "touched.md"),
        missing=("from.md", "gone.md"),
        unchanged=3,
    )

    delta = decide(suspects, [("from.md", "to.md")], ["touched.md"])

    assert delta.added == ("added.md",)
    assert delta.changed == ("edited.md",)
    assert delta.renamed == (("from.md", "to.md"),)
    assert delta.removed == ("gone.md",)
    assert delta.touched == ("touched.md",)
    assert delta.unchanged == 4


paths = st.sampled_from([f"{folder}{name}.md" for folder in ("", "a/", "b/") for name in "xyz"])
states = st.builds(
    FileState,
    st.integers(0, 2),
    st.sampled_from([LONG_AGO, LONG_AGO + 1, READ]),
    st.just(LONG_AGO),
    st.integers(1, 2),
    st.just("p.md"),
)
hashes = st.sampled_from(["h1", "h2", "h3"])
identities = st.sampled_from([None, "i1", "i2"])
files = st.tuples(states, hashes, identities)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(paths, files), st.dictionaries(paths, files), st.sampled_from(["", "a"]))
def test_every_path_is_in_exactly_one_place(
    before: dict[str, tuple[FileState, str, str | None]],
    after: dict[str, tuple[FileState, str, str | None]],
    unlisted: str,
) -> None:
    remembered = {
        path: StoredFile(state, sha256, READ, identity)
        for path, (state, sha256, identity) in before.items()
    }
    hidden = [path for path in after if unlisted and path.startswith(unlisted + "/")]
    for path in hidden:
        del after[path]
    snapshot = seen(
        {path: state for path, (state, _, _) in sorted(after.items())},
        *([unlisted] if unlisted else []),
    )

    suspects = first_look(snapshot, remembered)
    renames = match_renames(
        suspects.missing,
        remembered,
        {path: after[path][1] for path in suspects.new},
        {path: mark for path in suspects.new if (mark := after[path][2])},
    )
    same = [path for path in suspects.changed if after[path][1] == remembered[path].sha256]
    delta = decide(suspects, renames, same)

    # What is there now: added, changed, renamed to, touched or unchanged.
    placed = [*delta.added, *delta.changed, *(new for _, new in delta.renamed), *delta.touched]
    untouched = delta.unchanged - len(delta.touched)
    assert len(placed) == len(set(placed))
    assert set(placed) <= set(after)
    assert len(placed) + untouched == len(after)
    # What was known: still there, renamed from, removed, or out of sight.
    left = [*delta.removed, *(old for old, _ in delta.renamed)]
    assert len(left) == len(set(left))
    assert set(left) == {
        path for path in before if path not in after and not (unlisted and path.startswith("a/"))
    }
    assert all(old in before and new not in before for old, new in delta.renamed)
    # And nothing with other bytes is passed over, unless it looks the same and is old enough.
    for path in set(after) & set(before):
        if after[path][1] != before[path][1] and after[path][0] != before[path][0]:
            assert path in delta.changed
    for listing in (delta.added, delta.changed, delta.removed, delta.touched):
        assert list(listing) == sorted(listing)
    assert list(delta.renamed) == sorted(delta.renamed)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(paths, files))
def test_a_vault_that_has_not_changed_has_an_empty_delta(
    notes: dict[str, tuple[FileState, str, str | None]],
) -> None:
    snapshot = seen({path: state for path, (state, _, _) in notes.items()})
    remembered = {
        path: StoredFile(state, sha256, READ + 2 * YOUNG_NS, identity)
        for path, (state, sha256, identity) in notes.items()
    }

    suspects = first_look(snapshot, remembered)

    assert suspects == Suspects((), (), (), len(notes))


def test_a_path_that_only_changes_its_spelling_on_disk_is_the_same_note() -> None:
    composed = LOOK._replace(disk_path="é.md")
    decomposed = LOOK._replace(disk_path=unicodedata.normalize("NFD", "é.md"))

    suspects = first_look(seen({"é.md": decomposed}), {"é.md": stored(composed)})

    assert (suspects.new, suspects.missing) == ((), ())
    assert suspects.changed == ("é.md",)
