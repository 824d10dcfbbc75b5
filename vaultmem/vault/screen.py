"""What of a note's text goes no further than its file: private parts and secrets.

Everything that is indexed, embedded or shown is text that has been through here, so a secret is in
no table, no cache and no answer.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vaultmem.model.note import Finding, Problem, Properties, Screening
from vaultmem.security.hidden import find_hidden
from vaultmem.security.mask import mask, report, with_repetitions
from vaultmem.security.secrets import Secret, apart, find_secrets, look_at
from vaultmem.vault.canvas import Canvas, read_canvas
from vaultmem.vault.frontmatter import frontmatter_block, read_frontmatter
from vaultmem.vault.lines import line_offsets
from vaultmem.vault.private import is_private, without_private

# At a text in which secrets were found, until none is left. At the last their whole lines go: what
# holds one behind the other without end is no note.
_LOOKS = 5

# Properties that say more when they are read than their text does: escapes, folded lines.
DECODED = re.compile(r"\\|:[ \t]*(?:[>|][-+]?)?\n[ \t]+[^\s-]")

# The code of that line.
SECRET = "secret"


@dataclass(frozen=True, slots=True)
class Screen:
    """What is kept out."""

    secrets: str = "mask"  # "mask", "report" (and leave in place), "off"
    allowed: frozenset[str] = frozenset()  # fingerprints of secrets that are none to the person
    key: Callable[[], bytes] = field(default=bytes)  # what fingerprints are made with
    switch: str = "private"  # the property that keeps a whole note out; "" for none


@dataclass(frozen=True, slots=True)
class Screened:
    """A text as it may go on."""

    text: str  # of as many lines as before, but for a note that is kept out as a whole
    screening: Screening
    findings: tuple[Finding, ...] = ()
    problems: tuple[Problem, ...] = ()
    markers: bool = False  # whether it may hold marks of managed blocks
    placeholders: frozenset[str] = frozenset()  # `secret`, `private`: what stands for what is gone


def screened(path: str, text: str, screen: Screen) -> Screened:
    """What of a note's text may go on, and what is to be said of the rest."""
    if is_private(text, screen.switch):
        return Screened("", Screening.WITHHELD)
    seen = look_at(text)
    block = frontmatter_block(text)
    decoded = block is not None and DECODED.search(block) is not None
    if not seen.present and not decoded and "\\_" not in text:
        return Screened(text, Screening.NOTHING)  # as nearly all notes are
    problems: tuple[Problem, ...] = ()
    hidden = find_hidden(text) if "hidden" in seen.signs else None
    if hidden is not None:
        line = text.count("\n", 0, hidden.start) + 1
        message = f"It holds {hidden.what} ({hidden.characters:,}); they are shown as escapes."
        problems = (Problem(path, line, "hidden-text", message),)
    placeholders: set[str] = set()
    if "private" in seen.signs:
        cut, more = without_private(path, text)
        if cut != text:
            placeholders.add("private")
            text = cut
            seen = look_at(text)
        problems += more
    findings: tuple[Finding, ...] = ()
    for look in range(_LOOKS if screen.secrets != "off" else 0):
        secrets = find_secrets(seen)
        if look == 0 and decoded:
            secrets = apart([*secrets, *_places(text, _in_properties(text))])
        found = report(text, secrets, screen.key, screen.allowed)
        masked = [s for s, finding in zip(secrets, found, strict=True) if not finding.allowed]
        # Lines stay, so what the first look found is where it was.
        findings += tuple(f for f in found if not findings or not f.allowed)
        if not masked or screen.secrets != "mask":
            break
        # A secret may have been all that hid the beginning of another.
        if look == _LOOKS - 1:
            masked = [_whole_line(text, secret) for secret in masked]
        text = mask(text, with_repetitions(text, masked))
        placeholders.add("secret")
        seen = look_at(text)
    findings = tuple(sorted(findings, key=lambda finding: finding.line))
    problem = secrets_problem(path, findings, screen)
    if problem is not None:
        problems += (problem,)
    screening = Screening.PARTS if placeholders else Screening.NOTHING
    return Screened(
        text, screening, findings, problems, "markers" in seen.signs, frozenset(placeholders)
    )


def _whole_line(text: str, secret: Secret) -> Secret:
    end = text.find("\n", secret.end)
    return secret._replace(
        start=text.rfind("\n", 0, secret.start) + 1, end=end if end >= 0 else len(text)
    )


def _in_properties(text: str) -> dict[str, str]:
    """Secrets (value -> kind) that are known as such only when the properties have been read."""
    found: dict[str, str] = {}
    pending: list[tuple[str, object]] = list(read_frontmatter("", text)[0].properties.items())
    while pending:
        name, value = pending.pop()
        if isinstance(value, list):
            pending += [(name, part) for part in value]
        elif isinstance(value, dict):
            pending += value.items()
        elif isinstance(value, str):
            named = f"{name}: {value}"
            found |= {named[s.start : s.end]: s.kind for s in find_secrets(named)}
    return found


def _places(text: str, values: Mapping[str, str]) -> Iterator[Secret]:
    """Where these values stand in a text, word for word."""
    for value, kind in values.items():
        at = text.find(value)
        while at >= 0:
            yield Secret(at, at + len(value), kind)
            at = text.find(value, at + len(value))


def screened_properties(
    properties: Properties, screen: Screen
) -> tuple[Properties, tuple[Finding, ...]]:
    """Properties without the secrets that only reading YAML brings out: escaped, or folded."""
    findings: list[Finding] = []

    def clean(name: str, value: object) -> object:
        if isinstance(value, list):
            return [clean(name, part) for part in value]
        if isinstance(value, dict):
            return {key: clean(key, part) for key, part in value.items()}
        if not isinstance(value, str):
            return value
        named = f"{name}: {value}"
        secrets = find_secrets(named)
        found = report(named, secrets, screen.key, screen.allowed)
        findings.extend(replace(finding, line=1) for finding in found)
        kept = [s for s, finding in zip(secrets, found, strict=True) if not finding.allowed]
        return mask(named, kept)[len(name) + 2 :] if kept and screen.secrets == "mask" else value

    return {key: clean(key, value) for key, value in properties.items()}, tuple(findings)


def screened_canvas(path: str, source: str, screen: Screen | None) -> tuple[Canvas, Screened]:
    """A canvas with each of its texts screened by itself, and what is to be said of them."""
    whole = read_canvas(path, source)
    if screen is None:
        return whole, Screened(whole.text, Screening.NOTHING)
    screen = replace(screen, switch="")  # a card has no properties
    changed: list[Screened] = []

    def change(text: str) -> str:
        clean = screened(path, text, screen)
        changed.append(clean)
        return clean.text

    canvas = read_canvas(path, source, change)
    starts = line_offsets(canvas.text)
    findings: list[Finding] = []
    problems: list[Problem] = []
    placed: dict[str, list[int]] = {}
    for at, card in canvas.cards:
        text = card.subpath if card.file else " ".join(card.text.split())
        placed.setdefault(text, []).append(bisect_right(starts, at) - 1)
    for clean in changed:
        lines = placed.get(" ".join(clean.text.split()))
        above = lines.pop(0) if lines else 0  # labels of arrows are looked for at the top
        findings += [replace(finding, line=finding.line + above) for finding in clean.findings]
        problems += [
            replace(problem, line=problem.line + above)
            for problem in clean.problems
            if problem.code != SECRET
        ]
    summary = secrets_problem(path, sorted(findings, key=lambda f: f.line), screen)
    screening = Screening.NOTHING if canvas.text == whole.text else Screening.PARTS
    return canvas, Screened(
        canvas.text,
        screening,
        tuple(sorted(findings, key=lambda finding: finding.line)),
        (*problems, *((summary,) if summary else ())),
        any(clean.markers for clean in changed),
    )


def secrets_problem(path: str, findings: Sequence[Finding], screen: Screen) -> Problem | None:
    """One line for all secrets of a note; `lint` and `secrets` list each."""
    counted = [finding for finding in findings if not finding.allowed]
    if not counted:
        return None
    kinds = Counter(finding.kind for finding in counted)
    named = ", ".join(kind + (f" x {n}" if n > 1 else "") for kind, n in sorted(kinds.items()))
    what = "A secret is" if len(counted) == 1 else f"{len(counted)} secrets are"
    done = "kept out of the index" if screen.secrets == "mask" else "in the index as it is"
    message = f"{what} {done}: {named}. `vaultmem secrets` tells more."
    return Problem(path, counted[0].line, SECRET, message)
