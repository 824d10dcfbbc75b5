"""Replies as text for people. Returns text; prints nothing.

Text from notes is shown without the characters that would steer a terminal.
"""

from collections.abc import Iterator

from vaultmem.model.hit import Evidence, Hit
from vaultmem.model.note import FoundSecret, Problem
from vaultmem.model.operation import Reply
from vaultmem.model.watch_state import Watching
from vaultmem.service.demo import DemoReply
from vaultmem.service.operations.index import IndexReply
from vaultmem.service.operations.inspect import InspectReply
from vaultmem.service.operations.lint import LintReply
from vaultmem.service.operations.read import ReadReply
from vaultmem.service.operations.related import LinkOut, RelatedReply
from vaultmem.service.operations.search import SearchReply
from vaultmem.service.operations.secrets import AllowReply, SecretsReply
from vaultmem.service.operations.status import StatusReply
from vaultmem.surfaces.text import visible, visible_line

MAX_LISTED = 20


def render_index(reply: IndexReply) -> str:
    """What indexing did."""
    notes, canvases = reply.notes, reply.canvases
    parts = [
        f"{count:,} {name}"
        for name, count in (
            ("added", notes.added + canvases.added),
            ("changed", notes.changed + canvases.changed),
            ("renamed", notes.renamed + canvases.renamed),
            ("removed", notes.removed + canvases.removed),
        )
        if count
    ]
    lines = _degraded(reply)
    lines += [
        f"{_documents(notes.total, canvases.total)} in {_count(reply.chunks.total, 'passage')}: "
        f"{', '.join(parts) or 'nothing changed'} ({reply.seconds:.1f} s)"
    ]
    lines += _verification(reply)
    lines += _embedding(reply)
    lines += _problems(reply.problems)
    return _joined(lines)


def _verification(reply: IndexReply) -> Iterator[str]:
    """What was compared, and what was found wrong."""
    verified = reply.verified
    if verified is None:
        return
    looked = f"{_count(verified.files, 'file')} read, {_count(verified.rows, 'row')} compared"
    if verified.vectors:
        looked += f", {_count(verified.vectors, 'vector')} looked up"
    if not verified.differences:
        yield f"Verified: {looked}; nothing differs"
        return
    outcome = "repaired" if verified.repaired else "NOT repaired"
    yield f"Verified: {looked}; {_count(verified.differences, 'difference')}, {outcome}"
    for difference in reply.differences[:MAX_LISTED]:
        place = visible_line(difference.path) or "the index"
        yield f"  {place}: {difference.table}: {difference.found}"
    more = verified.differences - len(reply.differences[:MAX_LISTED])
    if more > 0:
        yield f"  … and {more:,} more"


def _embedding(reply: IndexReply) -> Iterator[str]:
    """What became of the vectors."""
    use, chunks = reply.embedder, reply.chunks
    if use is None:
        return
    if use.name is not None:
        made = f"{_count(chunks.embedded, 'passage')} embedded" if chunks.embedded else "no work"
        left = f", {chunks.waiting:,} without a vector" if chunks.waiting else ""
        yield f"Vectors: {made}{left} ({use.name}, {use.dim} dimensions)"
    if use.failed:
        yield f"  {_count(use.failed, 'passage')} could not be embedded by the model"
    if use.truncated:
        yield f"  of {_count(use.truncated, 'passage')} the model saw only the beginning"
    if use.problem:
        yield ("! Not all passages are embedded: " if chunks.waiting else "! ") + use.problem
    if use.advice:
        yield f"! {use.advice}"


def render_search(reply: SearchReply, *, explain: bool) -> str:
    """Hits, best first."""
    lines = _degraded(reply)
    lines += [f"Also looked for {form} ({word})" for word, form in reply.repaired.items()]
    if not reply.hits:
        lines.append("Nothing found.")
    elif all(hit.weak for hit in reply.hits):
        what = "comes near this" if reply.mode == "semantic" else "holds most of these words"
        lines.append(f"No note {what}; the nearest are:")
    for number, hit in enumerate(reply.hits, 1):
        lines += _hit(number, hit)
        if explain:
            lines += _evidence(hit.evidence)
    if reply.left_out:
        lines.append(f"… and {reply.left_out:,} more (-k gives more)")
    return _joined(lines)


def _hit(number: int, hit: Hit) -> Iterator[str]:
    marks = [hit.kind] if hit.kind != "note" else []
    marks += [hit.date] if hit.item and hit.date else []
    marks += [name for name in ("weak", "stub", "stale") if getattr(hit, name)]
    first, last = hit.lines
    place = f"{hit.path}:{first}" + (f"-{last}" if last > first else "")
    yield f"{number}. {place}  {hit.score:.3f}" + (f"  [{', '.join(marks)}]" if marks else "")
    yield "   " + " > ".join((hit.title, *hit.heading))
    if hit.snippet:
        yield "   " + hit.snippet


def _evidence(evidence: Evidence) -> Iterator[str]:
    for channel in evidence.channels:
        rank = f"rank {channel.rank}" if channel.rank is not None else "not ranked"
        lent = ", lent by the passage's own" if channel.lent else ""
        weight = f" x {channel.weight:.2g}" if channel.weight != 1 else ""
        measure = "cosine" if channel.channel == "vector" else "bm25"
        yield (
            f"     {channel.channel}: {channel.scaled:.3f}{weight} "
            f"({rank}, {measure} {channel.raw:.3f}{lent})"
        )
    for name, value in evidence.boosts.items():
        yield f"     {name}: +{value:.2f}"
    yield f"     holds: {', '.join(evidence.matched) or 'none of the words'}"
    if evidence.missing:
        yield f"     lacks: {', '.join(evidence.missing)}"
    yield f"     coverage: {evidence.coverage:.2f}"


def render_read(reply: ReadReply) -> str:
    """The note's text, then what links here."""
    lines = _degraded(reply)
    lines = [visible_line(line) for line in lines] + [reply.text.rstrip("\n")]
    shown = len(lines)
    if reply.truncated:
        lines.append(f"… cut after line {reply.lines[1]}")
    if reply.backlinks:
        lines += ["", f"Linked from ({len(reply.backlinks)}):"]
        lines += [
            f"  {link.path}:{link.line}  {link.text}" for link in reply.backlinks[:MAX_LISTED]
        ]
        lines += _more(len(reply.backlinks))
    return visible("\n".join(lines[:shown] + [visible_line(line) for line in lines[shown:]]))


def render_links(reply: RelatedReply) -> str:
    """Links out and in."""
    lines = _degraded(reply)
    lines.append(f"{reply.path} links to ({len(reply.links)}):")
    lines += [f"  {_link(link)}" for link in reply.links] or ["  nothing"]
    lines.append(f"Linked from ({len(reply.backlinks)}):")
    lines += [f"  {link.path}:{link.line}  {link.text}" for link in reply.backlinks] or [
        "  nowhere"
    ]
    return _joined(lines)


def _link(link: LinkOut) -> str:
    written = ("!" if link.embed else "") + f"[[{link.link}{link.subpath}]]"
    where = f"line {link.line}" + (f", property {link.property}" if link.property else "")
    if link.via:
        label = f", {link.display}" if link.display else ""
        where = f"arrow in {link.via}, line {link.line}{label}"
    if link.resolved:
        return f"{written}  ->  {link.resolved}  ({where})"
    alias = f"; it is an alias of {link.alias_of}" if link.alias_of else ""
    return f"{written}  ->  no such note{alias}  ({where})"


def render_lint(reply: LintReply) -> str:
    """What is amiss, by kind."""
    lines = _degraded(reply)
    lines.append(f"Links to notes that do not exist: {len(reply.unresolved)}")
    for link in reply.unresolved:
        hint = f"  (perhaps {', '.join(link.suggestions)})" if link.suggestions else ""
        hint += f": {link.fix}" if link.fix else ""
        lines.append(f"  {link.path}:{link.line}  [[{link.link}]]{hint}")
    lines.append(f"Links that could mean several notes: {len(reply.ambiguous)}")
    for several in reply.ambiguous:
        others = [path for path in several.candidates if path != several.resolved]
        lines.append(
            f"  {several.path}:{several.line}  [[{several.link}]]  ->  {several.resolved}, "
            f"not {', '.join(others)}"
        )
    lines.append(f"Notes without any link: {len(reply.orphans)}")
    lines += [f"  {orphan.path}" for orphan in reply.orphans]
    if reply.secrets:
        lines.append(f"Secrets: {len(reply.secrets)}")
        lines += [f"  {_secret(secret)}" for secret in reply.secrets]
    lines += _problems(reply.problems, limit=None)
    return _joined(lines)


def render_secrets(reply: SecretsReply) -> str:
    """Each credential with what it can be allowed by."""
    lines = _degraded(reply)
    lines += [_secret(secret) for secret in reply.secrets] or ["No note holds a credential."]
    if any(secret.fingerprint and not secret.allowed for secret in reply.secrets):
        lines += ["", "`vaultmem secrets allow FINGERPRINT` lets text through that is no secret."]
    return _joined(lines)


def render_allowed(reply: AllowReply) -> str:
    """What is let through now."""
    lines = _degraded(reply)
    lines += [
        f"{_count(len(reply.changed), 'fingerprint')} changed, "
        f"{_count(reply.notes, 'note')} indexed again"
    ]
    return _joined([*lines, *(_secret(secret) for secret in reply.secrets)])


def _secret(secret: FoundSecret) -> str:
    shown = f"  {secret.shown}…" if secret.shown else ""
    name = secret.fingerprint or "no fingerprint: the state folder cannot be written"
    state = "  (allowed)" if secret.allowed else ""
    return f"{secret.path}:{secret.line}  {secret.kind}{shown}  {name}{state}"


def render_status(reply: StatusReply) -> str:
    """How things stand."""
    if reply.last_indexed is None and not reply.notes:
        fresh = "not indexed yet"
    elif reply.fresh:
        fresh = "up to date"
    elif not reply.waiting:
        fresh = "unknown: there is no vault to look at"
    else:
        fresh = f"{_count(reply.waiting, 'note')} waiting to be indexed"
        if reply.missing:
            fresh += f", {reply.missing:,} of them missing from the vault"
    return _joined(
        [
            *_degraded(reply),
            f"vault     {reply.vault}",
            f"index     {reply.sidecar}",
            f"notes     {reply.notes:,}{_canvases(reply.canvases)} in "
            f"{_count(reply.chunks, 'passage')}",
            f"vectors   {_vectors(reply)}",
            f"state     {fresh}",
            f"last      {reply.last_indexed or 'never'}",
            f"problems  {reply.problems:,}",
            f"watch     {_watching(reply)}",
        ]
    )


def _watching(reply: StatusReply) -> str:
    """Whether a watcher runs, since when, and how far behind it is."""
    state = reply.watcher
    if state is None:
        return "running, and says nothing of itself" if reply.watching else "not running"
    said = f"since {state.since}, process {state.pid}: "
    if state.state is Watching.UNREACHABLE:
        return f"{said}the vault is unreachable. {state.problem}"
    if state.state is Watching.STARTING:
        return f"{said}looking at everything for the first time"
    parts = [f"{_count(state.behind, 'change')} behind" if state.behind else "up to date"]
    if state.behind:
        parts[0] += f" for {state.behind_seconds:.1f} s"
    if state.missing:
        parts.append(f"{_count(state.missing, 'note')} missing, kept for now")
    if state.waiting:
        parts.append(f"{_count(state.waiting, 'passage')} to embed")
    if not state.events:
        parts.append("the system reports no changes here, so it looks from time to time")
    if state.problem:
        parts.append(state.problem)
    return said + "; ".join(parts)


def _vectors(reply: StatusReply) -> str:
    use = reply.embedder
    if use is None:
        return "none"
    share = f" of {reply.chunks:,}" if reply.vectors < reply.chunks else ""
    return f"{reply.vectors:,}{share} ({use.name}, {use.dim} dimensions, compared by {use.search})"


def render_doctor(reply: StatusReply) -> str:
    """Each health check on a line, with its fix."""
    lines = _degraded(reply)
    for check in reply.checks:
        lines.append(f"{'ok  ' if check.ok else 'FAIL'}  {check.id}: {check.detail}")
        if check.fix:
            lines.append(f"      {check.fix}")
    return _joined(lines)


def render_config(reply: StatusReply) -> str:
    """Each setting with its value and where that comes from."""
    lines = _degraded(reply)
    for setting in reply.settings:
        where = "; ".join(filter(None, (setting.source, setting.variable)))
        lines.append(f"{setting.key} = {_value(setting.value)}  ({where})")
        lines.append(f"    {setting.about}")
    return _joined(lines)


def _value(value: object) -> str:
    """A setting's value as config.toml would hold it, quotes left away where it is one text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f'"{k}" = "{v}"' for k, v in value.items()) + " }" if value else "{}"
        )
    if isinstance(value, tuple):
        return "[" + ", ".join(f'"{part}"' for part in value) + "]"
    return str(value)


def render_why(reply: InspectReply) -> str:
    """Why a note is, or is not, found."""
    lines = [*_degraded(reply), reply.path]
    lines += [f"  {reason}" for reason in reply.reasons]
    if reply.indexed:
        lines.append(
            f"  kind {reply.kind}, date {reply.date}, {_count(reply.links, 'link')}, "
            f"{_count(reply.backlinks, 'backlink')}"
        )
    return _joined(lines)


def render_demo(reply: DemoReply) -> str:
    """A PASS line for each step."""
    lines = [f"vaultmem on a sample vault of {_count(reply.notes, 'note')}:"]
    for step in reply.steps:
        verdict = "PASS" if step.passed else "FAIL"
        lines.append(f"  {verdict}  {step.name:<22} {step.seconds:6.3f} s  {step.detail}")
    lines += ["", f"Next: {reply.next}"]
    return _joined(lines)


def _degraded(reply: Reply) -> list[str]:
    return [f"! {reason}" for reason in reply.degraded]


def _problems(problems: tuple[Problem, ...], limit: int | None = MAX_LISTED) -> list[str]:
    if not problems:
        return []
    lines = [f"Problems: {len(problems)}"]
    for problem in problems[:limit]:
        place = problem.path + (f":{problem.line}" if problem.line else "")
        lines.append(f"  {place}  {problem.message}")
    return lines + (_more(len(problems)) if limit is not None else [])


def _more(count: int) -> list[str]:
    return [f"  … and {count - MAX_LISTED:,} more (--json has all)"] if count > MAX_LISTED else []


def _documents(notes: int, canvases: int) -> str:
    return _count(notes, "note") + _canvases(canvases)


def _canvases(number: int) -> str:
    return f" and {number:,} {'canvas' if number == 1 else 'canvases'}" if number else ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _joined(lines: list[str]) -> str:
    return "\n".join(visible_line(line) for line in lines)
