"""evaluate: questions with known answers -> searches, in one way after another -> figures."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from random import Random
from typing import Annotated

from vaultmem.index.lookup import Lookup
from vaultmem.model.errors import NoteAmbiguous, NoteNotFound, Refused, UsageError
from vaultmem.model.operation import About, Reply, Request
from vaultmem.model.query import Mode
from vaultmem.retrieval.metrics import DEPTH, mean, measured, paired_differences
from vaultmem.service.application import Memory
from vaultmem.service.budget import fitted
from vaultmem.service.find_note import find_note
from vaultmem.service.mending import mended
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.refresh import make_ready
from vaultmem.service.settings import Value
from vaultmem.vault.read import read_file

QUESTION_BYTES = 64 * 1024 * 1024  # of a file of questions: some hundred thousand of them
SEED = 1  # of the draws behind the intervals, so that two runs give the same ones

# The name of a figure -> the measure of one question that it is the mean of.
MEASURES: Mapping[str, str] = {
    "mrr": "MRR@10",
    "hit@1": "hit@1",
    "hit@5": "hit@5",
    "hit@10": "hit@10",
    "ndcg@10": "nDCG@10",
}

# The ways of searching that are set side by side, and what can be left out of each.
CHANNELS: Mapping[Mode, tuple[str, ...]] = {
    Mode.KEYWORD: ("passage", "window", "note"),
    Mode.SEMANTIC: (),
    Mode.HYBRID: ("passage", "window", "note", "vector"),
}

FORM = '{"query": text, "relevant": [notes]}'


@dataclass(frozen=True, slots=True)
class EvaluateRequest(Request):
    """Questions, and how to ask them."""

    questions: Annotated[
        str, About(f'One JSON object a line: {FORM}, and optionally "kind": text.')
    ]
    source: Annotated[str, About("What messages call them.")] = "questions"
    mode: Annotated[str | None, About("Best there is if absent.", choices=tuple(Mode))] = None
    compare: Annotated[bool, About("Also in the other modes, and with each channel left out.")] = (
        True
    )


@dataclass(frozen=True, slots=True)
class Figures:
    """Means over questions, 0 to 1; the ten best notes of each answer count."""

    n: int  # questions
    mrr: float  # 1 / place of the first relevant note, 0 if there is none
    hit_1: float = field(metadata={"key": "hit@1"})  # share with a relevant note at the first place
    hit_5: float = field(metadata={"key": "hit@5"})  # … among the first five
    hit_10: float = field(metadata={"key": "hit@10"})
    ndcg_10: float = field(metadata={"key": "ndcg@10"})  # how far up all relevant notes stand


@dataclass(frozen=True, slots=True)
class Change:
    """What another way of searching changed, with its 95 % interval."""

    change: float  # the other way's figure minus that of the reply
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Variant:
    """One way of searching."""

    name: str
    mode: str | None  # None for the best there is
    without: tuple[str, ...] = ()  # channels left out


@dataclass(frozen=True, slots=True)
class Compared:
    """The same questions, asked in another way."""

    name: str
    mode: str
    without: tuple[str, ...]  # channels left out
    figures: Figures
    by_kind: dict[str, Figures]
    changes: dict[str, Change]  # figure -> change from the reply's own


@dataclass(frozen=True, slots=True)
class Remark:
    """What is wrong with a line of the questions."""

    line: int  # 1-based
    message: str  # what was found, and what to do


@dataclass(frozen=True, slots=True)
class EvaluateReply(Reply):
    """How well search answers the questions; the figures are those of `Figures`."""

    n: int
    mrr: float
    hit_1: float = field(metadata={"key": "hit@1"})
    hit_5: float = field(metadata={"key": "hit@5"})
    hit_10: float = field(metadata={"key": "hit@10"})
    ndcg_10: float = field(metadata={"key": "ndcg@10"})
    by_kind: dict[str, Figures]  # questions without a kind are in no kind
    mode: str  # what was used
    variants: tuple[Compared, ...]
    unavailable: dict[str, str]  # name of a variant that could not be asked for -> why
    source: str
    skipped: tuple[Remark, ...]  # lines that count nowhere
    missing: tuple[Remark, ...]  # notes named as relevant that the vault does not have
    seconds: float


@dataclass(frozen=True, slots=True)
class _Asked:
    line: int
    text: str
    notes: tuple[str, ...]  # as written
    kind: str


@dataclass(frozen=True, slots=True)
class _Question:
    text: str
    relevant: frozenset[str]  # vault paths
    kind: str  # "" for none


@dataclass(frozen=True, slots=True)
class _Answers:
    """Every question asked in one way, in order."""

    rows: tuple[Mapping[str, float], ...]  # measure -> value
    modes: tuple[str, ...]  # what was used
    reasons: tuple[frozenset[str], ...]  # what could not be done as asked

    @property
    def mode(self) -> str:
        """The mode that was used, in most questions if not in all."""
        return Counter(self.modes).most_common(1)[0][0]

    @property
    def always(self) -> frozenset[str]:
        """The reasons that every question met."""
        return frozenset.intersection(*self.reasons)


@fitted
@mended
def evaluate(memory: Memory, request: EvaluateRequest) -> EvaluateReply:
    """Ask every question and tell how far up the relevant notes were found.

    A line that is no question, and a relevant note that is not there, are told and not counted.
    Raises UsageError when no question is left, and what `search` raises.
    """
    started = memory.clock.elapsed()
    asked, skipped = _parsed(request.questions)
    degraded = make_ready(memory, vectors=True)
    with memory.guarded():
        questions, lost, missing = _resolved(memory, memory.lookup(), asked)
    skipped = sorted([*skipped, *lost], key=lambda remark: remark.line)
    if not questions:
        raise UsageError(_nothing_left(request.source, skipped))
    with _as_indexed(memory) as still:
        base = _answers(still, questions, Variant(request.mode or "best", request.mode))
        compared, unavailable, strayed = (
            _others(still, questions, base) if request.compare else ([], {}, ())
        )
    figures = _figures(base.rows)
    return EvaluateReply(
        n=figures.n,
        mrr=figures.mrr,
        hit_1=figures.hit_1,
        hit_5=figures.hit_5,
        hit_10=figures.hit_10,
        ndcg_10=figures.ndcg_10,
        by_kind=_by_kind(questions, base),
        mode=base.mode,
        variants=tuple(compared),
        unavailable=unavailable,
        source=request.source,
        skipped=tuple(skipped),
        missing=tuple(missing),
        degraded=(*degraded, *sorted(base.always), *_strayed(base.mode, base), *strayed),
        seconds=round(memory.clock.elapsed() - started, 3),
    )


def read_questions(file: str) -> str:
    """The text of a file of questions that a person named, wherever it lies.

    Raises UsageError if it cannot be had or is not UTF-8.
    """
    try:
        path = Path(file).expanduser().resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise UsageError(f"There is no file {file}. Name a file of lines {FORM}.") from None
    answer = read_file(path.parent, path.name, limit=QUESTION_BYTES)
    if not isinstance(answer, bytes):
        raise UsageError(f"{file} {_UNREAD.get(answer.code, _UNREAD['unreadable'])}")
    try:
        return answer.decode("utf-8")
    except UnicodeDecodeError as error:
        line = answer.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{file}:{line}: it is not UTF-8. Save the file as UTF-8.") from None


_UNREAD = {
    "missing": "is not there any more.",
    "not-a-file": "is not a regular file. Name a file of questions.",
    "too-large": f"has more than {QUESTION_BYTES:,} bytes. Split it.",
    "changing": "changed while it was read. Run it again.",
    "unreadable": "cannot be read. Check its permissions.",
}


# Questions


def _parsed(text: str) -> tuple[list[_Asked], list[Remark]]:
    asked: list[_Asked] = []
    skipped: list[Remark] = []
    # Not splitlines: a question may hold other characters that end a line.
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if not line.strip():
            continue
        question = _question(number, line)
        if isinstance(question, _Asked):
            asked.append(question)
        else:
            skipped.append(Remark(number, f"{question}; a line is {FORM}."))
    return asked, skipped


def _question(number: int, line: str) -> _Asked | str:
    """The question of a line, or what is wrong with it."""
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        return f"it is not JSON ({error.msg} at character {error.pos + 1})"
    except (ValueError, RecursionError):  # a number of thousands of digits, brackets as deep
        return "it is not JSON that can be read"
    if not isinstance(found, dict):
        return "it is JSON, but no object"
    text = found.get("query", found.get("q"))
    notes = found.get("relevant", found.get("paths"))
    kind = found.get("kind")
    if not isinstance(text, str) or not text.strip():
        return '"query" is missing or no text'
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        return '"relevant" is missing or no list of texts'
    if not notes:
        return '"relevant" names no note'
    if kind is not None and not isinstance(kind, str):
        return '"kind" is no text'
    return _Asked(number, text, tuple(notes), kind or "")


def _resolved(
    memory: Memory, lookup: Lookup, asked: Sequence[_Asked]
) -> tuple[list[_Question], list[Remark], list[Remark]]:
    """The questions with notes of the vault; lines without any; notes that are not there."""
    known: dict[str, str | None] = {}
    why: dict[str, str] = {}
    questions: list[_Question] = []
    skipped: list[Remark] = []
    missing: list[Remark] = []
    for question in asked:
        for note in question.notes:
            if note not in known:
                try:
                    known[note] = find_note(lookup, note, memory.vault)[0].path
                except (NoteNotFound, NoteAmbiguous, Refused) as error:
                    known[note], why[note] = None, str(error)
        paths = {known[note] for note in question.notes}
        relevant = frozenset(path for path in paths if path is not None)
        missing += [
            Remark(question.line, why[note])
            for note in dict.fromkeys(question.notes)
            if known[note] is None
        ]
        if relevant:
            questions.append(_Question(question.text, relevant, question.kind))
        else:
            skipped.append(
                Remark(question.line, f"None of its notes is there. {missing[-1].message}")
            )
    return questions, skipped, missing


def _nothing_left(source: str, skipped: Sequence[Remark]) -> str:
    if not skipped:
        return f"{source} holds no question. Write one a line: {FORM}."
    first = skipped[0]
    return (
        f"{source} holds no question that this vault can answer: {len(skipped)} "
        f"{'line was' if len(skipped) == 1 else 'lines were'} left out. "
        f"{source}:{first.line}: {first.message}"
    )


# Asking


@contextmanager
def _as_indexed(memory: Memory) -> Iterator[Memory]:
    """The same vault, not looked at any more: all questions are asked of one state of it."""
    values = {**memory.settings.values, "search.refresh": Value("never", "evaluate")}
    still = replace(memory, settings=replace(memory.settings, values=values))
    try:
        yield still
    finally:
        # What was opened meanwhile is closed by whoever closes the memory that was given.
        for part in fields(memory):
            if part.name != "settings":
                setattr(memory, part.name, getattr(still, part.name))


def _variants(mode: str) -> tuple[Variant, ...]:
    """The other modes, and this one with each of its channels left out in turn."""
    others = [Variant(other.value, other.value) for other in CHANNELS if other.value != mode]
    channels = CHANNELS.get(Mode(mode), ())
    return (*others, *(Variant(f"{mode} without {c}", mode, (c,)) for c in channels))


def _request(text: str, variant: Variant) -> SearchRequest:
    """The search that asks a question in one way."""
    return SearchRequest(text, limit=DEPTH, mode=variant.mode, without=variant.without)


def _answers(memory: Memory, questions: Sequence[_Question], variant: Variant) -> _Answers:
    """Every question, asked in one way."""
    meant = frozenset(make_ready(memory))  # that nobody looks at the vault
    rows: list[Mapping[str, float]] = []
    modes: list[str] = []
    reasons: list[frozenset[str]] = []
    for done, question in enumerate(questions):
        memory.progress.report(f"eval {variant.name}", done, len(questions))
        reply = search(memory, _request(question.text, variant))
        paths = list(dict.fromkeys(hit.path for hit in reply.hits))
        rows.append(measured(paths, question.relevant, names=tuple(MEASURES.values())))
        modes.append(reply.mode)
        reasons.append(frozenset(reply.degraded) - meant)
    memory.progress.report(f"eval {variant.name}", len(questions), len(questions))
    return _Answers(tuple(rows), tuple(modes), tuple(reasons))


def _others(
    memory: Memory, questions: Sequence[_Question], base: _Answers
) -> tuple[list[Compared], dict[str, str], tuple[str, ...]]:
    """The same questions in every other way; the ways there are not; what else to say."""
    compared: list[Compared] = []
    unavailable: dict[str, str] = {}
    strayed: tuple[str, ...] = ()
    for variant in _variants(base.mode):
        answers = _answers(memory, questions, variant)
        if not variant.without and variant.mode not in answers.modes:
            # Search did the next best: figures of that under this name would be false.
            unavailable[variant.name] = (
                " ".join(sorted(answers.always)) or f"Search used mode {answers.mode} instead."
            )
            continue
        compared.append(_compared(variant, questions, base, answers))
        strayed += _strayed(variant.name, answers)
    return compared, unavailable, strayed


def _strayed(name: str, answers: _Answers) -> tuple[str, ...]:
    """What to say when some of the questions were searched in another mode."""
    others = [mode for mode in answers.modes if mode != answers.mode]
    if not others:
        return ()
    return (
        f"{name}: {len(others)} of {len(answers.modes)} questions were searched in mode "
        f"{' or '.join(sorted(set(others)))}.",
    )


# Figures


def _figures(rows: Sequence[Mapping[str, float]]) -> Figures:
    means = [round(mean([row[name] for row in rows]), 6) for name in MEASURES.values()]
    return Figures(len(rows), *means)


def _by_kind(questions: Sequence[_Question], answers: _Answers) -> dict[str, Figures]:
    rows: dict[str, list[Mapping[str, float]]] = {}
    for question, row in zip(questions, answers.rows, strict=True):
        if question.kind:
            rows.setdefault(question.kind, []).append(row)
    return {kind: _figures(rows[kind]) for kind in sorted(rows)}


def _compared(
    variant: Variant, questions: Sequence[_Question], base: _Answers, answers: _Answers
) -> Compared:
    differences = paired_differences(
        {key: [row[name] for row in base.rows] for key, name in MEASURES.items()},
        {key: [row[name] for row in answers.rows] for key, name in MEASURES.items()},
        chance=Random(SEED),
    )
    changes = {
        key: Change(round(found.change, 6), round(found.low, 6), round(found.high, 6))
        for key, found in differences.items()
    }
    return Compared(
        name=variant.name,
        mode=answers.mode,
        without=variant.without,
        figures=_figures(answers.rows),
        by_kind=_by_kind(questions, answers),
        changes=changes,
    )
