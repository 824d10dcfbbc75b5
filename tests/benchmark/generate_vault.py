"""Write a synthetic Obsidian vault whose shape resembles that of real ones.

    python tests/benchmark/generate_vault.py OUT --notes 10000 --seed 7

Every note, its folder and its modification time follow from the number of notes and the seed,
so two runs on one platform give the same vault byte by byte. Nothing is read from the clock,
and all chance comes from ``Random.random`` and ``Random.choices``, which have not changed
between Python releases.

The words are invented, so that no text is borrowed from anyone, with two exceptions: English
function words hold the top ranks, and a few dozen words common in notes follow them, so that a
plain English query has something to find.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import TypeVar

T = TypeVar("T")

INVENTED_WORDS = 30_000
# Zipf-Mandelbrot offset. The plain 1/rank law gives the first word too large a share.
ZIPF_OFFSET = 2.7

# Words of running text in a note: lognormal. The standard deviation is that of a distribution
# whose mean is 1.75 times its median. Headings, code, tables and frontmatter come on top, so
# the median over whole files is near 200 words and the mean near 350.
MEDIAN_WORDS = 168
SIGMA_WORDS = 1.06
MIN_WORDS = 5
MAX_WORDS = 10_000
HEADING_WORDS = 60

# The floor of an exponential variable of this mean has a mean of 4.
LINK_SCALE = 1 / math.log(1.25)
UNRESOLVED_SHARE = 0.02
# Share of the links that repeat the target of an earlier link; the rest choose evenly. This is
# preferential attachment without a weight table, and gives in-degrees a power-law tail.
ATTACHMENT_SHARE = 0.65
HUBS = 20

DAILY_SHARE = 0.08
DUPLICATE_TITLE_SHARE = 0.005
FRONTMATTER_SHARE = 0.6
BLOCK_ID_SHARE = 0.15
TOPIC_WORD_SHARE = 0.06
# Share of words that occur nowhere else: names, typing errors. Without them the number of terms
# would stop growing with the vault, which it never does.
UNIQUE_WORD_SHARE = 0.004
INLINE_TAG_SHARE = 0.3

LAST_DAY = date(2025, 6, 30).toordinal()
SPAN_DAYS = 3650
EPOCH_DAY = date(1970, 1, 1).toordinal()
SECONDS_A_DAY = 86_400


def split_words(text: str) -> tuple[str, ...]:
    """Return the words of ``text``; a list of quoted words would take several pages."""
    return tuple(text.split())


FUNCTION_WORDS = split_words(
    "the of and to a in is that it for was on with as be by at this not are from or have an "
    "but which you had they we were his all one has she their there been if can more when will "
    "would so no what about up out into than them then only its some could time these two may "
    "do first any my now such like our over me even most after also made did many before must "
    "through back years where much your way well down should because each just those how too "
    "here between both under while against never few since might again still though another "
    "without during however why until upon across rather often whether within every"
)
NOTE_WORDS = split_words(
    "note project meeting plan idea sync vault devices search index link file folder question "
    "answer result review draft budget team week month decision problem change system data "
    "example source reference summary backup setting version test error report book chapter "
    "person place travel recipe garden music language history model method design"
)
ONSETS = split_words("b br ch cl d dr f fl g gr h j k l m n p pl pr qu r s sh sl st t th tr v w z")
# A few accents, so that text is not all ASCII and case folding and tokenizers are exercised.
NUCLEI = (*split_words("a e i o u a e i o u a e o ai ea ou io") * 4, "é", "ö")
CODAS = ("", "", "", "", *split_words("n r l s t m ck nd rt st ng x"))

TOP_FOLDERS = ("Projects", "Areas", "Resources", "Archive", "Reference", "People", "Work", "Ideas")
NOTE_TYPES = ("note", "project", "meeting", "reference", "person", "idea")
CODE_LANGUAGES = ("python", "bash", "js", "sql", "yaml", "")
CALLOUTS = ("note", "tip", "warning", "info", "quote")


def pick(rng: Random, items: Sequence[T]) -> T:
    """Return one item, each as likely as the others. ``IndexError`` if there is none."""
    return items[int(rng.random() * len(items))]


def between(rng: Random, low: int, high: int) -> int:
    """Return an integer from ``low`` to ``high``, both included."""
    return low + int(rng.random() * (high - low + 1))


def standard_normal(rng: Random) -> float:
    """Return a standard normal variable (Box-Muller, from ``random`` alone)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - rng.random()))
    return radius * math.cos(2.0 * math.pi * rng.random())


def zipf_cumulative(size: int) -> list[float]:
    """Return cumulative weights of ``size`` ranks for ``Random.choices``."""
    return list(accumulate(1.0 / (rank + ZIPF_OFFSET) for rank in range(1, size + 1)))


def invent_word(rng: Random, syllables: int) -> str:
    """Return a pronounceable word of that many syllables."""
    parts = (pick(rng, ONSETS) + pick(rng, NUCLEI) for _ in range(syllables))
    return "".join(parts) + pick(rng, CODAS)


def invent_words(rng: Random, count: int) -> list[str]:
    """Return ``count`` distinct words, the shorter ones towards the frequent end."""
    taken = {*FUNCTION_WORDS, *NOTE_WORDS}
    words: list[str] = []
    while len(words) < count:
        syllables = 2 if len(words) < count // 10 else pick(rng, (2, 2, 3, 3, 3, 4))
        word = invent_word(rng, syllables)
        if word not in taken:
            taken.add(word)
            words.append(word)
    return words


class Vocabulary:
    """Words by rank, drawn with Zipfian frequencies."""

    def __init__(self, rng: Random) -> None:
        """Build the vocabulary. The generator is kept and drawn from afterwards."""
        self._rng = rng
        self._content = [*NOTE_WORDS, *invent_words(rng, INVENTED_WORDS)]
        self._all = [*FUNCTION_WORDS, *self._content]
        self._all_weights = zipf_cumulative(len(self._all))
        # Content words drawn by themselves (titles, tags) keep the flatter tail of their ranks.
        skipped = self._all_weights[len(FUNCTION_WORDS) - 1]
        self._content_weights = [w - skipped for w in self._all_weights[len(FUNCTION_WORDS) :]]

    def text(self, count: int) -> list[str]:
        """Return ``count`` words of running text."""
        return self._rng.choices(self._all, cum_weights=self._all_weights, k=count)

    def content(self, count: int) -> list[str]:
        """Return ``count`` words without function words."""
        return self._rng.choices(self._content, cum_weights=self._content_weights, k=count)

    def phrase(self, low: int, high: int) -> str:
        """Return ``low`` to ``high`` capitalised content words."""
        words = self.content(between(self._rng, low, high))
        return " ".join(word.capitalize() for word in words)


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the vault and the words its notes favour."""

    path: str
    topic: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is settled about a note before any is written, so that links can point ahead."""

    title: str
    folder: Folder
    words: int
    """Words of running text."""
    heading: str
    """Its first section heading; empty in a short note."""
    block_id: str
    """The id of its first paragraph; empty if it has none."""
    day: int
    """Day of creation, as a proleptic Gregorian ordinal."""
    daily: bool
    linked_by_path: bool
    """Another note had its title first, so a link needs the folder."""

    @property
    def target(self) -> str:
        """The path inside the vault without ``.md``, as a link spells it."""
        return f"{self.folder.path}/{self.title}"


class Planner:
    """Draws up the notes of a vault: folders, titles, sizes and dates."""

    def __init__(self, rng: Random, vocabulary: Vocabulary, notes: int) -> None:
        """Lay out the folders for a vault of that many notes."""
        self._rng = rng
        self._vocabulary = vocabulary
        self._notes = notes
        self._folders = self._make_folders(max(6, int(1.5 * math.sqrt(notes))))
        self._folder_weights = zipf_cumulative(len(self._folders))
        self._titles: set[str] = set()
        self._daily_topic = tuple(vocabulary.content(30))

    def plan(self) -> list[Plan]:
        """Return the notes in the order in which they are written."""
        daily = int(self._notes * DAILY_SHARE)
        plans = [self._daily(LAST_DAY - index, index) for index in range(daily)]
        for index in range(daily, self._notes):
            if index > daily and self._rng.random() < DUPLICATE_TITLE_SHARE:
                plans.append(self._namesake(plans[between(self._rng, daily, index - 1)], index))
            else:
                plans.append(self._ordinary(self.fresh_title(), index))
        return plans

    def fresh_title(self) -> str:
        """Return a title that no note has, and that none will get later."""
        while True:
            title = self._vocabulary.phrase(2, 4)
            # Folded, since two titles that differ in case are one file on some systems.
            if title.casefold() not in self._titles:
                self._titles.add(title.casefold())
                return title

    def _make_folders(self, count: int) -> list[Folder]:
        """Return folders two or three levels deep, no path twice."""
        paths: dict[str, None] = {}
        parents: list[str] = []
        while len(paths) < count:
            if parents and self._rng.random() < 0.5:
                path = f"{pick(self._rng, parents)}/{self._vocabulary.phrase(1, 2)}"
            else:
                path = f"{pick(self._rng, TOP_FOLDERS)}/{self._vocabulary.phrase(1, 2)}"
                parents.append(path)
            paths[path] = None
        return [Folder(path, tuple(self._vocabulary.content(30))) for path in paths]

    def _any_folder(self) -> Folder:
        return self._rng.choices(self._folders, cum_weights=self._folder_weights)[0]

    def _draw_words(self) -> int:
        drawn = MEDIAN_WORDS * math.exp(SIGMA_WORDS * standard_normal(self._rng))
        return min(MAX_WORDS, max(MIN_WORDS, int(drawn)))

    def _ordinary(self, title: str, index: int) -> Plan:
        day = LAST_DAY - between(self._rng, 0, SPAN_DAYS)
        return self._build(title, self._any_folder(), index, day, daily=False, by_path=False)

    def _namesake(self, other: Plan, index: int) -> Plan:
        """Plan a note with the title of another one, if it lands in another folder."""
        folder = self._any_folder()
        # A third note of that title might meet the second in its folder; do not allow one.
        if other.linked_by_path or folder.path == other.folder.path:
            return self._ordinary(self.fresh_title(), index)
        marker = other.title.casefold() + "/"
        if marker in self._titles:
            return self._ordinary(self.fresh_title(), index)
        self._titles.add(marker)
        return self._build(other.title, folder, index, other.day, daily=False, by_path=True)

    def _daily(self, day: int, index: int) -> Plan:
        when = date.fromordinal(day)
        folder = Folder(f"Daily/{when.year}", self._daily_topic)
        return self._build(when.isoformat(), folder, index, day, daily=True, by_path=False)

    def _build(
        self, title: str, folder: Folder, index: int, day: int, *, daily: bool, by_path: bool
    ) -> Plan:
        words = self._draw_words()
        heading = self._vocabulary.phrase(1, 3) if words >= HEADING_WORDS else ""
        # Knuth's multiplicative hash: ids look random, are distinct, and cost no draw.
        block_id = f"{index * 2654435761 % 2**32:08x}"
        if self._rng.random() >= BLOCK_ID_SHARE:
            block_id = ""
        return Plan(title, folder, words, heading, block_id, day, daily, by_path)


class Linker:
    """Chooses the targets of wikilinks and spells the links."""

    def __init__(self, rng: Random, plans: Sequence[Plan], unresolved: Callable[[], str]) -> None:
        """``unresolved`` returns a title that no note has."""
        self._rng = rng
        self._plans = plans
        self._unresolved = unresolved
        # Indices of past targets in four bytes each. It starts with a few notes of unequal
        # weight; started empty, it would make one single hub of whatever was linked first.
        self._past = array("I")
        for rank in range(1, HUBS + 1):
            hub = int(rng.random() * len(plans))
            self._past.extend([hub] * (2 * HUBS // rank))

    def link(self, source: int) -> str:
        """Return one wikilink to be written in note number ``source``."""
        if self._rng.random() < UNRESOLVED_SHARE:
            return f"[[{self._unresolved()}]]"
        index = self._choose(source)
        self._past.append(index)
        return self._spell(self._plans[index])

    def count(self) -> int:
        """Return how many links a note has."""
        return int(-LINK_SCALE * math.log(1.0 - self._rng.random()))

    def _choose(self, source: int) -> int:
        if self._rng.random() < ATTACHMENT_SHARE:
            index = pick(self._rng, self._past)
        else:
            index = int(self._rng.random() * len(self._plans))
        return index if index != source else (index + 1) % len(self._plans)

    def _spell(self, plan: Plan) -> str:
        by_path = plan.linked_by_path or self._rng.random() < 0.08
        name = plan.target if by_path else plan.title
        form = self._rng.random()
        if form < 0.12 and plan.heading:
            return f"[[{name}#{plan.heading}]]"
        if form < 0.16 and plan.block_id:
            return f"[[{name}#^{plan.block_id}]]"
        if form < 0.32:
            return f"[[{name}|{plan.title.split()[0].lower()}]]"
        return f"![[{name}]]" if form > 0.98 else f"[[{name}]]"


class Composer:
    """Turns plans into Markdown."""

    def __init__(self, rng: Random, vocabulary: Vocabulary, linker: Linker) -> None:
        """Choose the tags of the vault; everything else is drawn note by note."""
        self._rng = rng
        self._vocabulary = vocabulary
        self._linker = linker
        names = list(dict.fromkeys(vocabulary.content(200)))
        self._tags = [*names, *(f"{names[0]}/{name}" for name in names[1:30])]
        self._tag_weights = zipf_cumulative(len(self._tags))
        self._kinds: tuple[Callable[[list[str]], str], ...] = (
            self._paragraph,
            self._bullets,
            self._tasks,
            self._numbered,
            self._callout,
            self._code_and_text,
            self._table_and_text,
        )
        self._kind_weights = list(accumulate((65, 15, 5, 5, 5, 3, 2)))

    def compose(self, index: int, plan: Plan) -> str:
        """Return the whole text of note number ``index``."""
        words = self._running_text(index, plan)
        blocks: list[str] = []
        if self._rng.random() < FRONTMATTER_SHARE:
            blocks.append(self._frontmatter(plan))
        if self._rng.random() < 0.5:
            blocks.append(f"# {plan.title}")
        blocks.extend(self._body(plan, words))
        return "\n\n".join(blocks) + "\n"

    def _running_text(self, index: int, plan: Plan) -> list[str]:
        """Return the words of the note with topic words, tags and links put among them."""
        words = self._vocabulary.text(plan.words)
        for _ in range(int(plan.words * TOPIC_WORD_SHARE)):
            words[self._slot(words)] = pick(self._rng, plan.folder.topic)
        # Rounded by chance, so that short notes get their share as well.
        for _ in range(int(plan.words * UNIQUE_WORD_SHARE + self._rng.random())):
            words[self._slot(words)] = invent_word(self._rng, 4)
        if self._rng.random() < INLINE_TAG_SHARE:
            for tag in self._draw_tags(between(self._rng, 1, 3)):
                words[self._slot(words)] = f"#{tag}"
        # Last, so that nothing overwrites a link. Inserted, so that none displaces another.
        for _ in range(self._linker.count()):
            words.insert(self._slot(words), self._linker.link(index))
        return words

    def _slot(self, words: Sequence[str]) -> int:
        return int(self._rng.random() * len(words))

    def _draw_tags(self, count: int) -> list[str]:
        drawn = self._rng.choices(self._tags, cum_weights=self._tag_weights, k=count)
        return list(dict.fromkeys(drawn))

    def _frontmatter(self, plan: Plan) -> str:
        lines = ["---"]
        tags = self._draw_tags(between(self._rng, 0, 4))
        # Both spellings of a list are common, so both are written.
        if tags and self._rng.random() < 0.5:
            lines.append(f"tags: [{', '.join(tags)}]")
        elif tags:
            lines.extend(["tags:", *(f"  - {tag}" for tag in tags)])
        if self._rng.random() < 0.2:
            lines.extend(["aliases:", f"  - {self._vocabulary.phrase(1, 3)}"])
        lines.append(f"created: {date.fromordinal(plan.day).isoformat()}")
        lines.append(f"type: {'daily' if plan.daily else pick(self._rng, NOTE_TYPES)}")
        lines.append("---")
        return "\n".join(lines)

    def _body(self, plan: Plan, words: list[str]) -> list[str]:
        """Return the blocks after the title: a lead paragraph, then sections."""
        lead = min(40, len(words) // 2) if plan.heading else min(40, len(words))
        first = self._paragraph(words[:lead])
        blocks = [f"{first} ^{plan.block_id}" if plan.block_id else first]
        heading, position, left = plan.heading, lead, 0
        while position < len(words):
            if plan.heading and left <= 0:
                blocks.append(f"## {heading}" if heading else self._later_heading())
                heading, left = "", between(self._rng, 60, 240)
            size = between(self._rng, 15, 90)
            blocks.append(self._block(words[position : position + size]))
            position += size
            left -= size
        return blocks

    def _later_heading(self) -> str:
        marks = "###" if self._rng.random() < 0.35 else "##"
        return f"{marks} {self._vocabulary.phrase(1, 4)}"

    def _block(self, words: list[str]) -> str:
        kind = self._rng.choices(self._kinds, cum_weights=self._kind_weights)[0]
        return kind(words)

    def _sentence(self, words: Sequence[str]) -> str:
        text = " ".join(words)
        return text[:1].upper() + text[1:]

    def _paragraph(self, words: list[str]) -> str:
        sentences: list[str] = []
        position = 0
        while position < len(words):
            size = between(self._rng, 6, 22)
            part = words[position : position + size]
            if len(part) > 12:
                part[5] += ","
            sentences.append(self._sentence(part) + ".")
            position += size
        if self._rng.random() < 0.03:
            sentences.append(f"See https://example.org/{'-'.join(self._vocabulary.content(2))}.")
        return " ".join(sentences)

    def _items(self, words: list[str]) -> list[str]:
        items: list[str] = []
        position = 0
        while position < len(words):
            size = between(self._rng, 3, 12)
            items.append(self._sentence(words[position : position + size]))
            position += size
        return items

    def _bullets(self, words: list[str]) -> str:
        # The first item stays at the margin: an indented one would begin a code block.
        first, *others = self._items(words)
        rest = (f"{'    ' if self._rng.random() < 0.2 else ''}- {item}" for item in others)
        return "\n".join([f"- {first}", *rest])

    def _numbered(self, words: list[str]) -> str:
        return "\n".join(f"{n}. {item}" for n, item in enumerate(self._items(words), 1))

    def _tasks(self, words: list[str]) -> str:
        items = self._items(words)
        return "\n".join(f"- [{'x' if self._rng.random() < 0.6 else ' '}] {i}" for i in items)

    def _callout(self, words: list[str]) -> str:
        kind = pick(self._rng, CALLOUTS)
        return f"> [!{kind}] {self._vocabulary.phrase(1, 3)}\n> {self._paragraph(words)}"

    def _code_and_text(self, words: list[str]) -> str:
        """Return a code fence below a paragraph; links and tags stay out of the code."""
        lines = [f"```{pick(self._rng, CODE_LANGUAGES)}"]
        for _ in range(between(self._rng, 3, 14)):
            name, part, value = self._vocabulary.content(3)
            lines.append(f"{name}_{part} = {value}({between(self._rng, 0, 999)})")
        return f"{self._paragraph(words)}\n\n" + "\n".join([*lines, "```"])

    def _table_and_text(self, words: list[str]) -> str:
        """Return a table below a paragraph; a link in a cell would need its bar escaped."""
        columns = between(self._rng, 2, 4)
        rows = [self._vocabulary.content(columns), ["---"] * columns]
        rows.extend(self._vocabulary.content(columns) for _ in range(between(self._rng, 2, 8)))
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        return f"{self._paragraph(words)}\n\n{table}"


def write_note(out: Path, plan: Plan, text: str, made: set[str]) -> int:
    """Write one note and return its size in bytes. ``OSError`` if it cannot be written.

    The modification time is set from the plan. Left at the present, it would make every note
    look freshly edited, which an index may treat differently.
    """
    folder = out / plan.folder.path
    if plan.folder.path not in made:
        folder.mkdir(parents=True, exist_ok=True)
        made.add(plan.folder.path)
    data = text.encode()
    path = folder / f"{plan.title}.md"
    # Exclusive: two plans for one path would be a defect here, and must not pass unseen.
    with path.open("xb") as stream:
        stream.write(data)
    # The size serves as a time of day that differs from note to note.
    seconds = (plan.day - EPOCH_DAY) * SECONDS_A_DAY + len(data) % SECONDS_A_DAY
    os.utime(path, (seconds, seconds))
    return len(data)


def generate(out: Path, notes: int, seed: int) -> int:
    """Write a vault of ``notes`` notes and return their total size in bytes.

    ``out`` is created if need be. Notes go to disk one at a time; only their plans (a few
    hundred bytes each) are held in memory. ``OSError`` if a file cannot be written.
    """
    rng = Random(seed)
    vocabulary = Vocabulary(rng)
    planner = Planner(rng, vocabulary, notes)
    plans = planner.plan()
    composer = Composer(rng, vocabulary, Linker(rng, plans, planner.fresh_title))
    # Obsidian and tools that look for a vault recognise it by this folder.
    (out / ".obsidian").mkdir(parents=True, exist_ok=True)
    (out / ".obsidian" / "app.json").write_bytes(b"{}\n")
    made: set[str] = set()
    return sum(
        write_note(out, plan, composer.compose(index, plan), made)
        for index, plan in enumerate(plans)
    )


def positive(text: str) -> int:
    """Parse a positive integer. ``ValueError`` otherwise, which argparse reports."""
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line. Exits with code 2 on a usage error, as argparse does."""
    parser = argparse.ArgumentParser(description="Write a synthetic Obsidian vault.")
    parser.add_argument("out", type=Path, help="folder to write to; must be empty or absent")
    parser.add_argument("--notes", type=positive, default=10_000, help="number of notes")
    parser.add_argument("--seed", type=int, default=7, help="seed of the generator")
    return parser.parse_args(arguments)


def refusal(out: Path) -> str | None:
    """Return why ``out`` cannot be written to, or ``None`` if it can."""
    if out.exists() and not out.is_dir():
        return f"{out} is not a folder"
    if out.is_dir() and any(out.iterdir()):
        return f"{out} is not empty"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0, or 2 if the output folder is refused."""
    options = parse_arguments(arguments)
    reason = refusal(options.out)
    if reason is not None:
        sys.stderr.write(f"generate_vault: {reason}\n")
        return 2
    size = generate(options.out, options.notes, options.seed)
    print(json.dumps({"notes": options.notes, "bytes": size, "seed": options.seed}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
