"""Which day a daily note is for: its path read by the Moment format Obsidian named it with.

A path names a day only if it is what Moment writes for that day, in any case of letters: `D` is
`3` and never `03`. Two things depend on the user's language, which the format does not tell:

- Names and ordinal endings. English names count and must agree with the rest. Where the day is
  known without them, names of any language are passed over, and English ones of two letters too.
- Locale weeks (`w`, `gg`, `e`). Where they alone name the day they are read as Moment's default
  locale writes them: weeks begin on Sunday, and week 1 is the one with 1 January in it. Beside
  other fields that name the day they may be any locale's, so one or two off is no contradiction.

The clock may show anything, and is written as at midnight UTC. `Z` is not a token here.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date
from typing import NamedTuple, TypeAlias

# Longer or richer formats are refused: no file name has room for them, and they cost time to read.
_FORMAT_CHARACTERS = 500
_FORMAT_TOKENS = 40
_READINGS = 64  # ways to read one text; a text with more of them says nothing certain

# How far another language's locale weeks may be from the default's, about New Year too.
_NEAR = {"g": (1,), "gg": (1, 99), "w": (1, 2, 50, 51, 52), "e": range(7)}
_EPOCH = date(1970, 1, 1).toordinal()
_MIDNIGHT = {"H": 0, "h": 12, "k": 24, "m": 0, "s": 0, "S": 0, "a": 0}

_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
# Tokens that stand for other tokens, and those that are the same text on every day.
_FORMS = dict(
    form.split("=")
    for form in (
        *("L=MM/DD/YYYY", "LL=MMMM D, YYYY", "LLL=MMMM D, YYYY h:mm A", "LT=h:mm A"),
        *("l=M/D/YYYY", "ll=MMM D, YYYY", "lll=MMM D, YYYY h:mm A", "LTS=h:mm:ss A"),
        *("LLLL=dddd, MMMM D, YYYY h:mm A", "llll=ddd, MMM D, YYYY h:mm A"),
    )
)
_TEXTS = {"z": "", "zz": "", **{"N" * size: "AD" for size in (1, 2, 3, 5)}, "NNNN": "Anno Domini"}
# Token -> its field, its fewest and its most digits; with more than the fewest, no leading zero.
_NUMBERS = {
    **{field * size: (field, size, 2) for field in "MDwWHhkms" for size in (1, 2)},
    **{field * size: (field, size, size) for field in "YGg" for size in (4, 5)},
    **{field * 2: (field * 2, 2, 2) for field in "YGg"},
    **{"y" * size: ("Y", size, 4) for size in range(1, 5)},
    **{"S" * size: ("S", size, size) for size in range(1, 10)},
    **{field: (field, 1, 1) for field in "QdeE"},
    "Y": ("Y", 4, 4),
    "YYYYYY": ("Y", 6, 6),
    "DDD": ("DDD", 1, 3),
    "DDDD": ("DDD", 3, 3),
    "X": ("X", 1, 12),
    "x": ("x", 1, 15),
}
_ORDINALS = {token + "o": token for token in ("M", "D", "DDD", "d", "Q", "w", "W", "y")}
# Token -> its field, and what is written for each value from 0 on.
_NAMES = {
    "MMMM": ("M", ("", *_MONTHS)),
    "MMM": ("M", ("", *(name[:3] for name in _MONTHS))),
    "dddd": ("d", _WEEKDAYS),
    **{"d" * size: ("d", tuple(name[:size] for name in _WEEKDAYS)) for size in (2, 3)},
    "A": ("a", ("AM", "PM")),
    "a": ("a", ("am", "pm")),
}
# Field -> its names in every length, and the value each stands for.
_READ: dict[str, dict[str, int]] = {
    field: {
        name.casefold(): value
        for named, names in _NAMES.values()
        if named == field
        for value, name in enumerate(names)
        if name
    }
    for field in "Mda"
}

# Patterns are left as texts: `re` compiles each when it is first used, which is seldom.
_ANY_TOKEN = "|".join(sorted([*_ORDINALS, *_NUMBERS, *_NAMES, *_TEXTS], key=len, reverse=True))
_TOKEN = rf"(?s)\[(?P<escaped>[^\[]*)\]|\\?(?:{_ANY_TOKEN}|.)"
_FORM = rf"\[[^\[]*\]|\\?(?:{'|'.join(sorted(_FORMS, key=len, reverse=True))})"
_RUN = r"(?:[a-z0-9.' -]|[^\x00-\x7f\s])+"  # the most that a name may take
_WORD = r"(?:[a-z0-9.'-]|[^\x00-\x7f\s])+"
# Digits and a blank only beside letters beyond ASCII ("5月", "thứ hai"), or as in "T2": an English
# title after the date should not pass for a name.
_NAME = (
    r"[a-z](?:\d|[a-z.'-]*[a-z.])?"
    rf"|(?![-'])(?=.*[^\W\d_])(?=.*[^\x00-\x7f]){_WORD}(?: {_WORD})?"
)
_ENDING = r"(?:[a-z.:'-]|[^\x00-\x7f\s\d])*"  # of an ordinal number

_Found: TypeAlias = tuple[tuple[str, int], ...]  # fields and their values, in the format's order
_State: TypeAlias = tuple[int, _Found]  # how far the text is read, and what it said so far


class _Literal(NamedTuple):
    text: str

    def write(self, values: Mapping[str, int]) -> str:
        return self.text

    def read(self, text: str, at: int, found: _Found) -> Iterator[_State]:
        # Obsidian writes a no-break space in a path as a plain one.
        wanted = self.text.replace("\u00a0", " ").replace("\u202f", " ").casefold()
        if text.startswith(wanted, at):
            yield at + len(wanted), found


class _Number(NamedTuple):
    field: str
    fewest: int
    most: int
    ordinal: bool

    def write(self, values: Mapping[str, int]) -> str:
        digits = str(values[self.field]).zfill(self.fewest)
        if not self.ordinal:
            return digits
        last = "" if digits[-2:-1] == "1" else digits[-1]
        return digits + {"1": "st", "2": "nd", "3": "rd"}.get(last, "th")

    def read(self, text: str, at: int, found: _Found) -> Iterator[_State]:
        for end in range(at + self.fewest, min(at + self.most, len(text)) + 1):
            digits = text[at:end]  # of any script: some languages write dates in their own
            if not digits.isdecimal() or (len(digits) > self.fewest and not int(digits[0])):
                return
            after = _with(found, self.field, int(digits))
            if after is not None:
                ending = re.match(_ENDING, text[end : end + 7]) if self.ordinal else None
                for more in range((ending.end() if ending else 0) + 1):
                    yield end + more, after


class _Name(NamedTuple):
    field: str
    names: tuple[str, ...]
    any_language: bool

    def write(self, values: Mapping[str, int]) -> str:
        return self.names[values[self.field]]

    def read(self, text: str, at: int, found: _Found) -> Iterator[_State]:
        run = re.match(_RUN, text[at : at + 32])
        for size in range(1, (run.end() if run else 0) + 1):
            name = text[at : at + size]
            # Names of two letters mean other days elsewhere ("su" is Sunday here, Saturday there).
            known = {} if self.any_language and size < 3 else _READ[self.field]
            value = known.get(name.rstrip(".") if self.any_language else name)
            if value is not None:
                after = _with(found, self.field, value)
                if after is not None:
                    yield at + size, after
            elif self.any_language and re.fullmatch(_NAME, name):
                yield at + size, found


_Step: TypeAlias = _Literal | _Number | _Name


class DayPattern:
    """A Moment format that names days, ready to read them."""

    __slots__ = ("_steps",)

    def __init__(self, steps: Iterable[_Step]) -> None:
        self._steps = tuple(steps)

    def day(self, text: str) -> date | None:
        """The day that `text`, a path below the daily folder without `.md`, names, or None."""
        text = text.casefold()
        # All readings side by side: one after the other, they could take exponential time.
        states: set[_State] = {(0, ())}
        for step in self._steps:
            states = {after for state in states for after in step.read(text, *state)}
            if not 0 < len(states) <= _READINGS:
                return None
        days = {_named_day(dict(found)) for at, found in states if at == len(text)} - {None}
        return days.pop() if len(days) == 1 else None


def day_pattern(format: str) -> DayPattern | None:
    """A Moment format compiled; None for one that does not name a day (`YYYY-MM`, plain text)."""
    steps = _steps(format) if len(format) <= _FORMAT_CHARACTERS else []
    numbers = [step.field for step in steps if isinstance(step, _Number)]
    names = [step.field for step in steps if isinstance(step, _Name)]
    if len(numbers) + len(names) > _FORMAT_TOKENS or not _way({*numbers, *names}):
        return None
    free = {field for field in names if _way({*numbers, *names} - ({field} - {*numbers}))}
    return DayPattern(
        step._replace(any_language=step.field in free) if isinstance(step, _Name) else step
        for step in steps
    )


def format_day(format: str, day: date) -> str:
    """The day as Moment writes it in this format, in English and at midnight UTC."""
    seconds = (day.toordinal() - _EPOCH) * 86400
    values = {**_fields(day), **_MIDNIGHT, "X": seconds, "x": seconds * 1000}
    return "".join(step.write(values) for step in _steps(format))


def _with(found: _Found, field: str, value: int) -> _Found | None:
    """What was found and this too, or None where it contradicts."""
    for known, other in found:
        if known == field:
            return found if other == value else None
    return (*found, (field, value))


def _way(fields: Collection[str]) -> str:
    """By which of its fields a day is named; empty where they name none."""
    weekday = "d" in fields or "E" in fields
    if "Y" in fields or "YY" in fields:
        if "M" in fields and "D" in fields:
            return "month"
        if "DDD" in fields:
            return "year"
    if ("G" in fields or "GG" in fields) and "W" in fields and weekday:
        return "ISO week"
    if ("g" in fields or "gg" in fields) and "w" in fields and (weekday or "e" in fields):
        return "locale week"
    return ""


def _named_day(found: Mapping[str, int]) -> date | None:
    """The day these fields name, unless there is no such day or they contradict each other."""
    way = _way(found)
    weekday = found.get("d", found.get("E", found.get("e", 0)) % 7)
    try:
        if way == "month":
            day = date(_year(found, "Y"), found["M"], found["D"])
        elif way == "year":
            day = date.fromordinal(_before(_year(found, "Y")) + found["DDD"])
        elif way == "ISO week":
            day = date.fromisocalendar(_year(found, "G"), found["W"], weekday or 7)
        elif way == "locale week":
            day = date.fromordinal(_first_sunday(_year(found, "g")) + found["w"] * 7 - 7 + weekday)
        else:
            return None
    except ValueError:
        return None
    fields = _fields(day)
    for field, value in found.items():
        off = abs(fields.get(field, value) - value)
        if off and (way == "locale week" or off not in _NEAR.get(field, ())):
            return None
    return day


def _year(found: Mapping[str, int], field: str) -> int:
    if field in found:
        return found[field]
    short = found[field * 2]
    return short + (1900 if short > 68 else 2000)


def _before(year: int) -> int:
    """The ordinal of the day before a year; unlike a date it is there for the year 10000 too."""
    past = year - 1
    return past * 365 + past // 4 - past // 100 + past // 400


def _first_sunday(week_year: int) -> int:
    """The ordinal of the day on which a locale's week 1 begins."""
    new_year = _before(week_year) + 1
    return new_year - new_year % 7


def _fields(day: date) -> dict[str, int]:
    """What a day is called in each field but those of the clock."""
    ordinal = day.toordinal()
    weekday = ordinal % 7
    iso_year, iso_week, iso_weekday = day.isocalendar()
    week_year = day.year + (ordinal - weekday + 6 > _before(day.year + 1))
    week = (ordinal - _first_sunday(week_year)) // 7 + 1
    years = {"Y": day.year, "G": iso_year, "g": week_year}
    return {
        **years,
        **{field * 2: year % 100 for field, year in years.items()},
        "Q": (day.month + 2) // 3,
        "M": day.month,
        "D": day.day,
        "DDD": ordinal - _before(day.year),
        "W": iso_week,
        "w": week,
        "d": weekday,
        "e": weekday,
        "E": iso_weekday,
    }


def _steps(format: str) -> list[_Step]:
    """The format's tokens in order, as Moment splits it."""
    format = re.sub(_FORM, lambda match: _FORMS.get(match[0], match[0]), format)
    steps: list[_Step] = []
    for match in re.finditer(_TOKEN, format):
        token = match[0]
        number = _NUMBERS.get(_ORDINALS.get(token, token))
        if token == "YYYYYY":
            steps.append(_Literal("+"))
        if number is not None:
            steps.append(_Number(*number, ordinal=token in _ORDINALS))
        elif token in _NAMES:
            steps.append(_Name(*_NAMES[token], any_language=False))
        elif match["escaped"] is not None:
            steps.append(_Literal(match["escaped"]))
        else:
            steps.append(_Literal(_TEXTS.get(token, token.replace("\\", ""))))
    return steps
