"""LongMemEval-S and HotpotQA as vaults: sets that others publish figures on.

Their files are large and each is named by itself on the command line:

    longmemeval_s_cleaned.json      a list of questions, each with a haystack of sessions
    hotpot_dev_distractor_v1.json   a list of questions, each with ten paragraphs

Neither file's text may be changed by what it is written as, so a note holds it whole; only code
fences and comments left open are closed, for they would hide what follows.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from retrieval_searchers import Hit
from retrieval_sets import DataError, Part, Query, Task, by_note, contained, notes_task, read

LONGMEMEVAL_MEASURES = ("any@5", "all@5", "nDCG@5", "nDCG'@5")
HOTPOTQA_MEASURES = ("both@5", "any@5", "R@10")
HOTPOTQA_QUESTIONS = 200

ABSTENTION = "_abs"  # in the id of a LongMemEval question that has no answer
ANSWERABLE = "without _abs"


def _loaded(file: Path, form: Sequence[str]) -> list[dict[str, Any]]:
    """The questions of a file. Raises DataError unless each has the fields of the form."""
    try:
        found = json.loads(read(file.parent, file.name))
    except ValueError as problem:
        raise DataError(f"{file} is not JSON: {problem}.") from problem
    if not isinstance(found, list) or not found:
        raise DataError(f"{file} is no list of questions.")
    for number, question in enumerate(found):
        lacking = [name for name in form if not isinstance(question, dict) or name not in question]
        if lacking:
            raise DataError(f"{file}: question {number} (from 0) lacks {', '.join(lacking)}.")
    return found


# LongMemEval: a vault for each question, a note for each session of its haystack.


LONGMEMEVAL_FORM = (
    "question_id",
    "question",
    "question_type",
    "answer_session_ids",
    "haystack_session_ids",
    "haystack_sessions",
)


def longmemeval(file: Path) -> Iterator[Part]:
    """A part a question, made when it is asked for: the haystacks are large.

    A session's note holds both speakers' turns and is named by its date: its id would tell, for
    the ids of the sessions sought begin with "answer". Groups: "type T", and "without _abs" for
    the questions that have an answer. A question whose answer's sessions are not in its haystack
    cannot be counted; the part has no query then.
    """
    questions = _loaded(file, LONGMEMEVAL_FORM)
    return (_haystack(number, question) for number, question in enumerate(questions))


def _haystack(number: int, question: Mapping[str, Any]) -> Part:
    ids = [str(session) for session in question["haystack_session_ids"]]
    sessions = question["haystack_sessions"]
    dates = question.get("haystack_dates") or [""] * len(ids)
    if not len(ids) == len(sessions) == len(dates):
        raise DataError(f"Question {question['question_id']} has sessions without id or date.")
    paths = _file_names(f"{date} session" if date else "session" for date in dates)
    id_of = dict(zip(paths, ids, strict=True))
    relevant = frozenset(map(str, question["answer_session_ids"])).intersection(ids)
    groups = [f"type {question['question_type']}"]
    if ABSTENTION not in question["question_id"]:
        groups.append(ANSWERABLE)
    queries = [Query(question["question"], relevant, tuple(groups))] if relevant else []

    def key(hit: Hit) -> str:
        # A session may stand in a haystack twice, and is one answer.
        return id_of.get(by_note(hit), hit.path)

    return Part(
        f"question-{number + 1:03}",
        {path: _session_text(turns) for path, turns in zip(paths, sessions, strict=True)},
        (Task("", tuple(queries), key, False, LONGMEMEVAL_MEASURES),),
        start=number,
    )


def _session_text(turns: Iterable[Mapping[str, str]]) -> str:
    return "\n".join(f"{turn['role']}: {contained(turn['content'].strip())}\n" for turn in turns)


# HotpotQA: one vault of the paragraphs of all questions, a note for each.


HOTPOTQA_FORM = ("question", "type", "supporting_facts", "context")


def hotpotqa(file: Path) -> list[Part]:
    """The paragraphs of the first 200 questions in one vault, distractors included.

    A note holds a paragraph and is named by its title; of equal titles the first stays. Counted
    is whether both titles of the supporting facts are found. Groups: "type bridge", "type
    comparison".
    """
    asked = _loaded(file, HOTPOTQA_FORM)[:HOTPOTQA_QUESTIONS]
    texts: dict[str, str] = {}
    for question in asked:
        for title, sentences in question["context"]:
            texts.setdefault(title, contained("".join(sentences).strip()) + "\n")
    path_of = dict(zip(texts, _file_names(texts), strict=True))
    queries = []
    for number, question in enumerate(asked):
        titles = {title for title, _ in question["supporting_facts"]}
        if len(titles) != 2 or not titles <= texts.keys():
            raise DataError(f"{file}: question {number} (from 0) has not two supporting titles.")
        relevant = frozenset(path_of[title] for title in titles)
        queries.append(Query(question["question"], relevant, (f"type {question['type']}",)))
    files = {path_of[title]: text for title, text in texts.items()}
    return [Part("hotpotqa", files, (notes_task("", queries, HOTPOTQA_MEASURES),))]


# Names of notes.


NOT_IN_NAMES = re.compile(r'[\\/:*?"<>|#^\[\]%\x00-\x1f]+')
NAME_CHARACTERS = 100


def _file_names(titles: Iterable[str]) -> list[str]:
    """A file name for each title, unlike all others even where letter case does not count."""
    taken: set[str] = set()
    names: list[str] = []
    for title in titles:
        plain = NOT_IN_NAMES.sub("-", unicodedata.normalize("NFC", title))
        stem = plain.strip(" .")[:NAME_CHARACTERS].strip(" .") or "untitled"
        name, count = stem, 1
        while name.lower() in taken:
            count += 1
            name = f"{stem} ({count})"
        taken.add(name.lower())
        names.append(f"{name}.md")
    return names
