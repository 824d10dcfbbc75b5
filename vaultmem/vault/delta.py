"""From two listings to what has to be done: pure functions over values."""

from collections.abc import Iterable, Mapping

from vaultmem.model.delta import Delta, FileState, Snapshot, StoredFile, Suspects, unseen

# File systems stamp with up to two seconds of slack (FAT), and an editor can save twice within
# one tick: a file this young at the time it was read is hashed again next time.
YOUNG_NS = 2_000_000_000


def first_look(snapshot: Snapshot, stored: Mapping[str, StoredFile]) -> Suspects:
    """Compare size, times and inode. Cheap; decides only whom to read."""
    new: list[str] = []
    changed: list[str] = []
    unchanged = 0
    for path, state in snapshot.notes.items():
        known = stored.get(path)
        if known is None:
            new.append(path)
        elif known.state != state or was_young(state, known.read_ns):
            changed.append(path)
        else:
            unchanged += 1
    missing = [path for path in stored if path not in snapshot.notes]
    if snapshot.unlisted:
        # Absence is not deletion: a folder that could not be listed says nothing.
        unlisted = frozenset(snapshot.unlisted)
        missing = [path for path in missing if not unseen(path, unlisted, snapshot.listed)]
    if snapshot.away:
        missing = [path for path in missing if path not in snapshot.away]
    return Suspects(tuple(new), tuple(changed), tuple(sorted(missing)), unchanged)


def standing_files(snapshot: Snapshot, known: frozenset[str]) -> frozenset[str]:
    """The files that are no notes, with those known of folders that could not be listed."""
    if not snapshot.unlisted:
        return snapshot.files
    unlisted = frozenset(snapshot.unlisted)
    unknown = {path for path in known if unseen(path, unlisted, snapshot.listed)}
    return snapshot.files | (unknown - snapshot.notes.keys())


def count_waiting(snapshot: Snapshot, stored: Mapping[str, StoredFile]) -> int:
    """How many notes look different from what is stored; being young alone makes none different."""
    changed = sum(
        path not in stored or stored[path].state != state for path, state in snapshot.notes.items()
    )
    return changed + len(first_look(snapshot, stored).missing)


def was_young(state: FileState, read_ns: int) -> bool:
    """Whether a file read at `read_ns` had changed so shortly before that it may change unseen."""
    return max(state.mtime_ns, state.ctime_ns) > read_ns - YOUNG_NS


def match_renames(
    missing: Iterable[str],
    stored: Mapping[str, StoredFile],
    new_hashes: Mapping[str, str],
    new_identities: Mapping[str, str],
) -> tuple[tuple[str, str], ...]:
    """Pairs (old path, new path) of notes that moved.

    new_hashes:     SHA-256 of each new path; the same bytes elsewhere are the same note.
    new_identities: frontmatter `id` of new paths; it outlives an edit made with the move.
    Ties go to the pair with the same file name, then to the first path.
    """
    pairs: list[tuple[str, str]] = []
    taken: set[str] = set()
    old_hashes = {path: stored[path].sha256 for path in missing}
    old_identities = {path: known for path in old_hashes if (known := stored[path].identity)}
    for old_marks, new_marks in (
        (old_hashes, new_hashes),
        (old_identities, new_identities),
    ):
        by_mark: dict[str, list[str]] = {}
        for path, mark in sorted(new_marks.items()):
            if path not in taken:
                by_mark.setdefault(mark, []).append(path)
        done = {old for old, _ in pairs}
        # Two rounds: a namesake is not given away to an equal note that merely comes first.
        for namesakes in (True, False):
            for old, mark in sorted(old_marks.items()):
                if old in done:
                    continue
                name = old.rsplit("/", 1)[-1]
                candidates = by_mark.get(mark, [])
                found = next(
                    (p for p in candidates if not namesakes or p.rsplit("/", 1)[-1] == name), None
                )
                if found is None:
                    continue
                candidates.remove(found)
                done.add(old)
                taken.add(found)
                pairs.append((old, found))
    return tuple(sorted(pairs))


def decide(
    suspects: Suspects, renames: Iterable[tuple[str, str]], same_bytes: Iterable[str]
) -> Delta:
    """The delta, once the suspects have been read.

    same_bytes: those of `suspects.changed` whose SHA-256 is the stored one.
    """
    renamed = tuple(renames)
    moved_from = {old for old, _ in renamed}
    moved_to = {new for _, new in renamed}
    touched = frozenset(same_bytes)
    return Delta(
        added=tuple(path for path in suspects.new if path not in moved_to),
        changed=tuple(path for path in suspects.changed if path not in touched),
        renamed=renamed,
        removed=tuple(path for path in suspects.missing if path not in moved_from),
        touched=tuple(sorted(touched)),
        unchanged=suspects.unchanged + len(touched),
    )
