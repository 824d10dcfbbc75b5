"""Labelled retrieval sets as vaults: notes to write, queries, and how a hit is counted.

The data files come from a folder that the caller names. They are not part of this
repository, because the licences of two of them do not allow it:

    locomo10.json             snap-research/LoCoMo, CC BY-NC 4.0
    xquad.{en,es,de,ru,zh}.json  google-deepmind/xquad, CC BY-SA 4.0
    promdocs_knownitem.json   derived from prometheus/docs, Apache-2.0
    nl2bash.{nl,cm}.txt       TellinaTool/nl2bash, data folder, MIT

A set is a list of parts. A part is one vault with one task or more on it; what belongs to
a query is searched inside its own part only.
"""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

from retrieval_searchers import STOP_WORDS, UNSPACED_RUN, Hit


class DataError(Exception):
    """A data file, question file or vault is missing or of another form; the message names it."""


@dataclass(frozen=True, slots=True)
class Query:
    """One labelled query."""

    text: str  # as typed
    relevant: frozenset[str]  # keys, at least one
    groups: tuple[str, ...] = ()  # names under which its figures are also reported
    answer: str = ""  # where a set judges by the answer's words


Judge = Callable[["Query", Sequence[str]], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Task:
    """Queries on one vault, asked and counted in one way."""

    name: str  # "" where a set has one task only
    queries: tuple[Query, ...]
    key: Callable[[Hit], str]  # what a hit counts as; a key that nothing expects is a miss
    passages: bool  # True: every passage is a hit; False: one hit a note
    measures: tuple[str, ...]  # names in vaultmem.retrieval.metrics.MEASURES, or the judge's
    judge: Judge | None = None  # figures of a query and its ranking, in place of those measures


@dataclass(frozen=True, slots=True)
class Part:
    """One vault and its tasks."""

    name: str  # usable as a folder name
    files: Mapping[str, str]  # vault path -> text
    tasks: tuple[Task, ...]
    start: int = 0  # place of its first query, where a set is numbered through its parts


PASSAGE_MEASURES = ("R@5", "R@10", "nDCG@10", "MRR@10")
SESSION_MEASURES = ("any@5", "all@5", "MRR@10")
RULE = "rule@5"
NOTE_MEASURES = ("MRR@10", "hit@1", "hit@5", "hit@10")


def by_note(hit: Hit) -> str:
    """The note's path in NFC."""
    return unicodedata.normalize("NFC", hit.path)


def by_heading(known: frozenset[str]) -> Callable[[Hit], str]:
    """A key function: the innermost heading of the trail that is a known key.

    Innermost known, not simply the last: a document may have headings of its own. A hit
    outside all of them counts as its note, so that it takes a place and misses.
    """

    def key(hit: Hit) -> str:
        trail = (heading.strip() for heading in reversed(hit.heading))
        return next((heading for heading in trail if heading in known), by_note(hit))

    return key


def passages_task(name: str, queries: Sequence[Query], known: frozenset[str]) -> Task:
    """A task whose keys are headings."""
    return Task(name, tuple(queries), by_heading(known), True, PASSAGE_MEASURES)


def notes_task(name: str, queries: Sequence[Query], measures: tuple[str, ...]) -> Task:
    """A task whose keys are vault paths."""
    return Task(name, tuple(queries), by_note, False, measures)


def section(heading: str, body: str) -> str:
    """A level-two section, ending in one line feed."""
    return f"## {heading}\n\n{body.strip()}\n"


def read(data: Path, name: str) -> str:
    """Text of a data file. Raises DataError if it cannot be read."""
    try:
        return (data / name).read_text("utf-8")
    except OSError as problem:
        raise DataError(f"{data / name} cannot be read: {problem.strerror}.") from problem


def single_answer(text: str, key: str) -> Query:
    """A query that exactly one key answers."""
    return Query(text, frozenset({key}))


# LoCoMo: a vault for each dialogue, a note for each session, a section for each turn.


class _Turn(TypedDict, total=False):
    speaker: str
    dia_id: str
    text: str
    blip_caption: str


class _Question(TypedDict, total=False):
    question: str
    category: int
    evidence: list[str]


@dataclass(frozen=True, slots=True)
class _Session:
    title: str  # date and time as LoCoMo writes it, "1:56 pm on 8 May, 2023"
    turns: tuple[_Turn, ...]

    @property
    def path(self) -> str:
        """File name whose stem is the title; a colon is not allowed in one everywhere."""
        return self.title.replace(":", ".") + ".md"

    @property
    def text(self) -> str:
        """No heading for the title: the name is the title, and it would be a passage of its own."""
        return "\n".join(section(turn["dia_id"], _turn_text(turn)) for turn in self.turns)


ADVERSARIAL = 5  # LoCoMo's category of questions that have no answer
TUNED_DIALOGUES = 5  # weights were chosen on the first five dialogues


def locomo(data: Path) -> list[Part]:
    """Ten dialogues; tasks "turns" (passages) and "sessions" (notes), 1,536 queries each."""
    dialogues = json.loads(read(data, "locomo10.json"))
    return [
        _dialogue(
            f"dialogue-{number:02}",
            _sessions(dialogue["conversation"]),
            dialogue["qa"],
            group=_tuned_group(number),
        )
        for number, dialogue in enumerate(dialogues, 1)
    ]


def _tuned_group(number: int) -> str:
    return "dialogues 1-5" if number <= TUNED_DIALOGUES else "dialogues 6-10"


def _dialogue(
    name: str, sessions: Sequence[_Session], questions: Sequence[_Question], *, group: str
) -> Part:
    note_of_turn = {turn["dia_id"]: session.path for session in sessions for turn in session.turns}
    turn_queries = tuple(_turn_queries(questions, frozenset(note_of_turn), group=group))
    session_queries = tuple(
        replace(query, relevant=frozenset(note_of_turn[turn] for turn in query.relevant))
        for query in turn_queries
    )
    return Part(
        name,
        {session.path: session.text for session in sessions},
        (
            passages_task("turns", turn_queries, frozenset(note_of_turn)),
            notes_task("sessions", session_queries, SESSION_MEASURES),
        ),
    )


def _sessions(conversation: Mapping[str, object]) -> list[_Session]:
    """The sessions that have turns, in order of their numbers."""
    numbers = sorted(
        int(found[1]) for name in conversation if (found := re.fullmatch(r"session_(\d+)", name))
    )
    sessions = []
    for number in numbers:
        turns = conversation[f"session_{number}"]
        title = conversation[f"session_{number}_date_time"]
        if isinstance(turns, list) and turns:
            sessions.append(_Session(str(title), tuple(turns)))
    return sessions


def _turn_text(turn: _Turn) -> str:
    text = f"{turn['speaker']}: {turn['text']}"
    caption = turn.get("blip_caption")
    return f"{text} [shares {caption}]" if caption else text


def _turn_queries(
    questions: Sequence[_Question], turns: frozenset[str], *, group: str
) -> Iterator[Query]:
    """Questions with an answer whose evidence names at least one turn that exists."""
    for question in questions:
        evidence = turns.intersection(
            turn for text in question.get("evidence", []) for turn in turn_ids(text)
        )
        if question["category"] != ADVERSARIAL and evidence:
            yield Query(question["question"], evidence, (group,))


def turn_ids(evidence: str) -> list[str]:
    """Turn ids in an evidence string, as "D1:3".

    The strings are uneven: some hold several ids, some are written "D:11:26" or "D30:05".
    """
    return [f"D{int(a)}:{int(b)}" for a, b in re.findall(r"D:?(\d+):(\d+)", evidence)]


# LoCoMo by session summaries, judged as YourMemory does.


def locomo_summaries(data: Path) -> list[Part]:
    """Ten dialogues, a note for each session's summary; tasks "sessions" and "rule".

    sessions: 1,536 queries, counted by evidence, as in `locomo`.
    rule:     1,534 queries (a text as answer, not adversarial) by the rule of `answered`. It is
              there to be compared with published figures and says less than evidence does: the
              five longest summaries reach .41, the evidence itself .49.
    """
    dialogues = json.loads(read(data, "locomo10.json"))
    return [_summaries(number, dialogue) for number, dialogue in enumerate(dialogues, 1)]


def _summaries(number: int, dialogue: Mapping[str, Any]) -> Part:
    group = _tuned_group(number)
    files = {
        _summary_path(name.split("_")[1]): f"{text.strip()}\n"
        for name, text in dialogue["session_summary"].items()
    }
    turns = frozenset(
        turn["dia_id"] for session in _sessions(dialogue["conversation"]) for turn in session.turns
    )
    sessions = [
        replace(query, relevant=frozenset(map(_summary_of_turn, query.relevant)))
        for query in _turn_queries(dialogue["qa"], turns, group=group)
    ]
    judged = [
        Query(asked["question"], frozenset(), (group,), asked["answer"])
        for asked in dialogue["qa"]
        if asked["category"] != ADVERSARIAL and isinstance(asked.get("answer"), str)
    ]

    def judge(query: Query, ranking: Sequence[str]) -> Mapping[str, float]:
        return {RULE: answered(query.answer, [files[path] for path in ranking[:5]])}

    return Part(
        f"dialogue-{number:02}",
        files,
        (
            notes_task("sessions", sessions, SESSION_MEASURES),
            replace(notes_task("rule", judged, (RULE,)), judge=judge),
        ),
    )


def _summary_path(session: str) -> str:
    return f"s{int(session):02}.md"


def _summary_of_turn(turn: str) -> str:
    """The note of the session that a turn such as "D3:12" belongs to."""
    return _summary_path(turn[1:].partition(":")[0])


def answered(answer: str, texts: Sequence[str]) -> float:
    """YourMemory's rule: 1.0 if the texts hold the answer, or half of its words.

    The answer in small letters as one substring, or half or more of its words that have over
    three characters (punctuation attached), each as a substring.
    """
    text = " ".join(texts).lower()
    wanted = answer.lower()
    words = [word for word in wanted.split() if len(word) > 3]
    held = sum(word in text for word in words)
    return float(wanted in text or (bool(words) and 2 * held >= len(words)))


# XQuAD: a note for each article, a section for each paragraph.


def xquad(data: Path, language: str, *, asked_in: str | None = None) -> list[Part]:
    """240 paragraphs in a language ("en", "zh" ...), 1,190 questions in the same or another one.

    Paragraphs are numbered through the whole set in reading order, from "p0"; the files of all
    languages hold the same ones in the same order.
    """
    asked_in = asked_in or language
    paragraphs = _paragraphs(data, language)
    files: dict[str, list[str]] = {}
    for key, (title, paragraph) in paragraphs.items():
        files.setdefault(f"{title}.md", []).append(section(key, paragraph["context"]))
    queries = [
        single_answer(asked["question"], key)
        for key, (_, paragraph) in _paragraphs(data, asked_in).items()
        for asked in paragraph["qas"]
    ]
    task = passages_task("", queries, frozenset(paragraphs))
    name = f"xquad-{language}" if asked_in == language else f"xquad-{asked_in}-{language}"
    return [Part(name, {path: "\n".join(parts) for path, parts in files.items()}, (task,))]


def _paragraphs(data: Path, language: str) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Key -> (title of the article, paragraph)."""
    articles = json.loads(read(data, f"xquad.{language}.json"))["data"]
    found = [
        (article["title"].replace("_", " "), paragraph)
        for article in articles
        for paragraph in article["paragraphs"]
    ]
    return {f"p{number}": pair for number, pair in enumerate(found)}


# Prometheus documentation: the heading of a section is the query, its body the document.


PROMDOCS_CHARACTERS = 1200  # a document is cut after this many
PROMDOCS_RUN = 10  # documents in one note of the variant with sections


def promdocs(data: Path) -> list[Part]:
    """911 documents, a note each, 353 queries; hits count by note."""
    documents, queries = _promdocs(data)
    files = {_document_path(name): text + "\n" for name, text in documents.items()}
    asked = [
        replace(query, relevant=frozenset(map(_document_path, query.relevant))) for query in queries
    ]
    return [Part("promdocs", files, (notes_task("", asked, PASSAGE_MEASURES),))]


def promdocs_sections(data: Path) -> list[Part]:
    """The same documents as sections, ten consecutive ones to a note; hits count by section."""
    documents, queries = _promdocs(data)
    names = list(documents)
    files = {}
    for start in range(0, len(names), PROMDOCS_RUN):
        run = names[start : start + PROMDOCS_RUN]
        files[f"part-{start // PROMDOCS_RUN + 1:03}.md"] = "\n".join(
            section(f"s{name}", contained(documents[name])) for name in run
        )
    asked = [
        replace(query, relevant=frozenset(f"s{name}" for name in query.relevant))
        for query in queries
    ]
    task = passages_task("", asked, frozenset(f"s{name}" for name in names))
    return [Part("promdocs-sections", files, (task,))]


def _promdocs(data: Path) -> tuple[dict[str, str], list[Query]]:
    loaded = json.loads(read(data, "promdocs_knownitem.json"))
    documents = {name: text[:PROMDOCS_CHARACTERS] for name, text in loaded["docs"].items()}
    return documents, [Query(query["q"], frozenset(query["rel"])) for query in loaded["queries"]]


def _document_path(name: str) -> str:
    return f"doc-{int(name):04}.md"


FENCE = re.compile(r" {0,3}(?P<marks>`{3,}|~{3,})(?P<rest>.*)")
HIGH_HEADING = re.compile(r"( {0,3})#{1,2} ")


def contained(text: str) -> str:
    """The text such that it ends where its section ends.

    A document cut at 1,200 characters may leave a code fence or a comment open, which would
    swallow the sections after it; and a heading of level one or two would end its own
    section. So open blocks are closed and such headings become level three.
    """
    lines: list[str] = []
    prose: list[str] = []
    opened = ""  # marks of the open fence
    for line in text.split("\n"):
        fence = FENCE.match(line)
        if not opened and not fence:
            prose.append(HIGH_HEADING.sub(r"\1### ", line, count=1))
            lines.append(prose[-1])
            continue
        lines.append(line)
        if fence and not opened:
            opened = fence["marks"]
        elif fence and fence["marks"].startswith(opened) and not fence["rest"].strip():
            opened = ""
    if opened:
        lines.append(opened)
    outside = "\n".join(prose)
    if outside.count("<!--") > outside.count("-->"):
        lines.append("-->")
    if outside.count("<pre") > outside.count("</pre>"):
        lines.append("</pre>")
    return "\n".join(lines)


# nl2bash: a shell command a note, an English task as the query.


NL2BASH_COMMANDS = 1200
NL2BASH_QUERIES = 400
NL2BASH_SEED = 5  # the sample of the published figures


def nl2bash(data: Path) -> list[Part]:
    """1,200 unique commands, a note each, 400 queries (the first English line of a command)."""
    tasks = read(data, "nl2bash.nl.txt").split("\n")
    commands = read(data, "nl2bash.cm.txt").split("\n")
    task_of: dict[str, str] = {}
    for english, command in zip(tasks, commands, strict=False):
        if english.strip() and command.strip():
            task_of.setdefault(command.strip(), english.strip())
    sample = sorted(task_of)
    random.Random(NL2BASH_SEED).shuffle(sample)
    path_of = {
        command: f"cmd-{number:04}.md" for number, command in enumerate(sample[:NL2BASH_COMMANDS])
    }
    queries = [
        single_answer(task_of[command], path_of[command]) for command in sample[:NL2BASH_QUERIES]
    ]
    files = {path: f"```bash\n{command}\n```\n" for command, path in path_of.items()}
    return [Part("nl2bash", files, (notes_task("", queries, PASSAGE_MEASURES),))]


# Questions on a real vault.


def questions(pairs: Sequence[tuple[Path, Path]]) -> list[Part]:
    """A part for each pair of a question file and the vault that it asks about.

    A line of the file is {"q": text, "paths": [acceptable notes], "kind": text}, or the same
    with the keys that `vaultmem eval` has, "query" and "relevant". Groups: "kind K", and
    "vault V" if there are several. Only Markdown outside dot folders is
    taken, and it is copied: the search under test never sees the vault itself.

    Raises DataError, naming file and line, for a line of another form and for one none of
    whose notes exists; and for a missing file or vault.
    """
    parts = []
    for number, (file, vault) in enumerate(pairs, 1):
        if not vault.is_dir():
            raise DataError(f"{vault} is not a folder.")
        files = markdown_files(vault)
        groups = (f"vault {vault.name}",) if len(pairs) > 1 else ()
        queries = list(_questions(file, frozenset(files), groups=groups))
        task = notes_task("", queries, NOTE_MEASURES)
        parts.append(Part(f"{number:02}-{vault.name}", files, (task,)))
    return parts


def markdown_files(vault: Path) -> dict[str, str]:
    """Vault path in NFC -> text of every note; what is not UTF-8 is replaced."""
    files = {}
    for file in sorted(vault.rglob("*.md")):
        place = file.relative_to(vault)
        if file.is_file() and not any(name.startswith(".") for name in place.parts):
            path = unicodedata.normalize("NFC", place.as_posix())
            files[path] = file.read_bytes().decode("utf-8", errors="replace")
    return files


def _one_of(name: str, other: str, asked: Mapping[str, object]) -> str:
    return name if name in asked else other


def _questions(file: Path, notes: frozenset[str], *, groups: tuple[str, ...]) -> Iterator[Query]:
    for number, line in enumerate(read(file.parent, file.name).split("\n"), 1):
        if not line.strip():
            continue
        try:
            asked = json.loads(line)
            text, kind = str(asked[_one_of("query", "q", asked)]), str(asked["kind"])
            notes_named = asked[_one_of("relevant", "paths", asked)]
            paths = [unicodedata.normalize("NFC", str(path)) for path in notes_named]
        except (ValueError, KeyError, TypeError) as problem:
            raise DataError(f'{file}:{number}: expected "q", "paths", "kind".') from problem
        acceptable = notes.intersection(paths)
        if not acceptable:
            raise DataError(f"{file}:{number}: none of its notes is in the vault: {paths}.")
        yield Query(text, acceptable, (f"kind {kind}", *groups))


SETS: Mapping[str, Callable[[Path], list[Part]]] = {
    "locomo": locomo,
    "locomo-summaries": locomo_summaries,
    "xquad-en": lambda data: xquad(data, "en"),
    "xquad-es": lambda data: xquad(data, "es"),
    "xquad-de": lambda data: xquad(data, "de"),
    "xquad-ru": lambda data: xquad(data, "ru"),
    "xquad-zh": lambda data: xquad(data, "zh"),
    "xquad-es-en": lambda data: xquad(data, "en", asked_in="es"),
    "promdocs": promdocs,
    "promdocs-sections": promdocs_sections,
    "nl2bash": nl2bash,
}


# Typing errors.


TYPO_SEED = 5
TYPO_WORD = re.compile(r"[^\W\d_]{5,}")
COMMON_LETTERS = "etaoinsr"  # what a substituted letter of an ASCII word becomes


def with_typo(text: str, *, seed: int = TYPO_SEED) -> str:
    """The query with one letter wrong in one content word; unchanged if it has none.

    A content word has five letters or more and is no stop word. An inner letter is, by
    equal chance, swapped with the next, left out, replaced, or doubled; the first letter
    stays. Equal text and seed give the equal result, whatever else is asked in the run.
    """
    words = [
        found
        for found in TYPO_WORD.finditer(text)
        if found[0].lower() not in STOP_WORDS and not UNSPACED_RUN.search(found[0])
    ]
    if not words:
        return text
    generator = random.Random(f"{seed}:{text}")
    word = generator.choice(words)
    wrong = word[0]
    # Swapping two equal letters, or replacing a letter by itself, changes nothing: again.
    while wrong == word[0]:
        wrong = _one_letter_wrong(word[0], generator)
    return text[: word.start()] + wrong + text[word.end() :]


def _one_letter_wrong(word: str, generator: random.Random) -> str:
    place = generator.randrange(1, len(word) - 1)
    before, letter, after = word[:place], word[place], word[place + 1 :]
    match generator.choice(("transpose", "delete", "substitute", "double")):
        case "transpose":
            return before + after[0] + letter + after[1:]
        case "delete":
            return before + after
        case "substitute":
            letters = COMMON_LETTERS if word.isascii() else word.lower()
            return before + generator.choice(letters) + after
        case _:
            return before + letter + letter + after


def with_typos(task: Task) -> Task:
    """The same task with every query misspelt by with_typo."""
    queries = tuple(replace(query, text=with_typo(query.text)) for query in task.queries)
    return replace(task, queries=queries)
