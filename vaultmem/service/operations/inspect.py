"""inspect: why a note is, or is not, found."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from vaultmem.index.lookup import Lookup
from vaultmem.index.rows import FoundNote
from vaultmem.index.update import stored_files
from vaultmem.model.delta import Snapshot
from vaultmem.model.errors import NoteNotFound, Refused
from vaultmem.model.note import Item, Problem, Screening
from vaultmem.model.operation import About, Reply, Request
from vaultmem.security.hidden import shown
from vaultmem.service.application import Memory
from vaultmem.service.budget import fitted
from vaultmem.service.embedders import answering_space
from vaultmem.service.find_note import find_note, linked_name, refuse_traversal, refuse_unfit
from vaultmem.service.indexing import look
from vaultmem.service.mending import mended
from vaultmem.vault.paths import is_hidden, is_searched, vault_path


@dataclass(frozen=True, slots=True)
class InspectRequest(Request):
    """Which note to look into."""

    note: Annotated[str, About("A path in the vault, or a note's name.")]


@dataclass(frozen=True, slots=True)
class InspectReply(Reply):
    """A note's state in the index, and the reasons for it."""

    path: str
    indexed: bool
    reasons: tuple[str, ...]  # sentences; the first is the answer
    excluded_by: str | None  # the rule, when one keeps it out
    problems: tuple[Problem, ...]
    title: str | None
    kind: str | None
    date: str | None
    stub: bool
    chunks: int
    vectors: int
    links: int
    backlinks: int
    items: tuple[Item, ...]  # decisions, errors, entries of a log … that it holds
    current: bool  # the file is the one that was indexed


@fitted
@mended
def inspect(memory: Memory, request: InspectRequest) -> InspectReply:
    """Explain a note's place in the index. Looks at the vault, changes nothing.

    Raises NoteAmbiguous and Refused; a note that is not there is an answer, not an error.
    """
    snapshot = look(memory)
    if request.note not in snapshot.notes and (named := linked_name(request.note)):
        request = replace(request, note=named)
    there = request.note in snapshot.notes  # also where it is spelt as no path should be
    if not there:
        refuse_traversal(request.note)
    path = request.note if there else vault_path(request.note)
    hidden = not there and is_hidden(path)
    left_out = _excluded(snapshot, path)
    with memory.guarded():
        sidecar = memory.open_sidecar()
        lookup = memory.lookup() if sidecar is not None else None
        found = None if hidden or left_out else _found(lookup, request.note, memory.vault)
        if found is not None and lookup is not None and sidecar is not None:
            stored = stored_files(sidecar)[found.path]
            return _indexed(
                lookup,
                found,
                vectors=lookup.vector_count(found.id)
                if answering_space(memory, sidecar) is not None
                else 0,
                current=snapshot.notes.get(found.path) == stored.state,
                present=found.path in snapshot.notes,
                unlisted=any(
                    not folder or found.path.startswith(folder + "/")
                    for folder in snapshot.unlisted
                ),
            )
    known = path in snapshot.notes or path in snapshot.files
    if left_out:
        path = left_out
    elif not hidden and not known:
        path = _file(snapshot, path)
    excluded = snapshot.excluded.get(path)
    problems = tuple(problem for problem in snapshot.problems if problem.path == path)
    if hidden:
        reason = "A part of its path begins with a dot; Obsidian and vaultmem leave it alone."
    elif excluded:
        reason = f"It is kept out of search by a rule ({excluded})."
    elif problems:
        reason = problems[0].message
    elif path in snapshot.notes:
        reason = "It is in the vault and not indexed yet. Run `vaultmem index`."
    elif path.lower().endswith(".base") and path in snapshot.files:
        reason = "It is a base, a query over notes; it holds data and no text to search."
    elif path in snapshot.files:
        reason = "It is neither a Markdown note nor a canvas; only these are searched."
    else:
        refuse_unfit(request.note, memory.vault)
        reason = "There is no such file in the vault."
    return InspectReply(
        path, False, (reason,), excluded, problems, None, None, None, False, 0, 0, 0, 0, (), False
    )


def _file(snapshot: Snapshot, path: str) -> str:
    """The one file that `path` names by its name alone; else the note it would be."""
    named = [known for known in snapshot.files if known.endswith("/" + path)]
    if len(named) == 1:
        return named[0]
    return path if is_searched(path) else path + ".md"


def _excluded(snapshot: Snapshot, path: str) -> str | None:
    """The excluded note that `path` names, by path or, if no other note is called so, by name."""
    for spelling in (path, path + ".md"):
        if spelling in snapshot.excluded:
            return spelling
    endings = ("/" + path, "/" + path + ".md")
    if any(known.endswith(endings) or known in (path, path + ".md") for known in snapshot.notes):
        return None
    named = [known for known in snapshot.excluded if known.endswith(endings)]
    return named[0] if len(named) == 1 else None


def _found(lookup: Lookup | None, given: str, vault: Path) -> FoundNote | None:
    if lookup is None:
        return None
    try:
        return find_note(lookup, given, vault)[0]
    except (NoteNotFound, Refused):
        return None  # what is in the vault all the same is explained, and the rest refused later


def _indexed(
    lookup: Lookup,
    found: FoundNote,
    *,
    vectors: int,
    current: bool,
    present: bool,
    unlisted: bool,
) -> InspectReply:
    problems = tuple(lookup.problems(found.path))
    chunks = lookup.chunk_count(found.id)
    items = tuple(replace(item, text=shown(item.text)) for item in lookup.items_of(found.id))
    reasons = [f"It is indexed, in {chunks} passage{'' if chunks == 1 else 's'}."]
    if not present and unlisted:
        reasons.append("Its folder cannot be listed now; what is indexed is kept.")
    elif not present:
        reasons.append("Its file is gone from the vault; the next index run forgets it.")
    elif not current:
        reasons.append("Its file looks different now; the next index run takes it in.")
    if vectors:
        reasons.append(f"{vectors} of them can be found by meaning too.")
    if items:
        kinds = Counter(item.kind for item in items)
        listed = ", ".join(f"{kind} ({count})" for kind, count in sorted(kinds.items()))
        reasons.append(f"It holds items that are found by their own kind and day: {listed}.")
    if found.apart:
        reasons.append(
            "It is a template: it is searched, but its tags and links do not count "
            "(setting templates.count)."
        )
    if found.screening is Screening.WITHHELD:
        reasons.append("It is marked private: only its name is known (setting private.property).")
    elif found.screening is Screening.PARTS:
        reasons.append("Secrets or private spans of it are kept out of the index and of answers.")
    if found.stub:
        reasons.append("It has next to no text of its own.")
    reasons += [problem.message for problem in problems]
    return InspectReply(
        path=found.path,
        indexed=True,
        reasons=tuple(reasons),
        excluded_by=None,
        problems=problems,
        title=shown(found.title),
        kind=found.kind,
        date=found.date,
        stub=found.stub,
        chunks=chunks,
        vectors=vectors,
        links=len(lookup.links_from(found.id)),
        backlinks=len(lookup.links_to(found.path)),
        items=items,
        current=current,
    )
