"""Daily notes: reading and writing a day in Obsidian's (Moment's) date formats."""

import random
import time
from datetime import date

import pytest

from vaultmem.vault.daily import day_pattern, format_day

DAY = date(2026, 5, 3)  # a Sunday
NEW_YEARS_EVE = date(2024, 12, 30)  # a Monday in week 1 of 2025


def read(format: str, text: str) -> date | None:
    pattern = day_pattern(format)
    assert pattern is not None, format
    return pattern.day(text)


# What Moment itself writes for 3 May 2026.
WRITTEN = {
    "YYYY-MM-DD": "2026-05-03",
    "YYYY/MM-MMMM/YYYY-MM-DD dddd": "2026/05-May/2026-05-03 Sunday",
    "dddd, MMMM Do YYYY": "Sunday, May 3rd 2026",
    "ddd dd d do e E": "Sun Su 0 0th 0 7",
    "Mo M MM MMM Q Qo": "5th 5 05 May 2 2nd",
    "DDD DDDo DDDD": "123 123rd 123",
    "YY Y YYY YYYYY YYYYYY": "26 2026 262026 02026 +002026",
    "y yy yyy yyyy yo": "2026 2026 2026 2026 2026th",
    "w wo ww W Wo WW": "19 19th 19 18 18th 18",
    "g gg ggg gggg ggggg GG GGGG": "g 26 26g 2026 02026 26 2026",
    "H HH h hh k kk m mm s ss SSS": "0 00 12 12 24 24 0 00 0 00 000",
    "A a X x": "AM am 1777766400 1777766400000",
    "L l LL ll": "05/03/2026 5/3/2026 May 3, 2026 May 3, 2026",
    "NNNN N": "Anno Domini AD",
    "[Week] ww [of] YYYY": "Week 19 of 2026",
    "[a] D] Y": "a] D 2026",
    "[] [ D": " [ 3",
    "\\YYYYY \\[D\\]": "YYYYY [3]",
    "Tuft": "Tuft",
}


@pytest.mark.parametrize(("format", "text"), WRITTEN.items())
def test_a_day_is_written_as_moment_writes_it(format: str, text: str) -> None:
    assert format_day(format, DAY) == text


@pytest.mark.parametrize(
    ("format", "day", "text"),
    [
        ("gggg ww GGGG WW E", NEW_YEARS_EVE, "2025 01 2025 01 1"),
        ("gggg ww GGGG WW", date(2023, 1, 1), "2023 01 2022 52"),
        ("gg w GG W", date(2027, 1, 1), "27 1 26 53"),
        ("gggg ww GGGG WW", date(9999, 12, 31), "10000 01 9999 52"),
        ("YYYY Y y GGGG", date(26, 1, 1), "0026 0026 26 0026"),
        ("Do DDDo", date(2026, 1, 11), "11th 11th"),
        ("Do DDDo", date(2026, 4, 22), "22nd 112th"),
        ("X", date(1969, 12, 31), "-86400"),
    ],
)
def test_weeks_years_and_endings_at_their_edges(format: str, day: date, text: str) -> None:
    assert format_day(format, day) == text


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("YYYY-MM-DD", "2026-05-03"),
        ("YYYYMMDD", "20260503"),
        ("D.M.YYYY", "3.5.2026"),
        ("YY-MM-DD", "26-05-03"),
        ("YYYY/MM-MMMM/YYYY-MM-DD dddd", "2026/05-May/2026-05-03 Sunday"),
        ("YYYY/MMMM/YYYY-MMM-DD", "2026/May/2026-May-03"),
        ("dddd, MMMM Do YYYY", "sunday, MAY 3rd 2026"),
        ("MMMM D, YYYY", "may 3, 2026"),
        ("LL", "May 3, 2026"),
        ("YYYY[-]DDDD", "2026-123"),
        ("GGGG-[W]WW-E", "2026-W18-7"),
        ("GGGG [week] W dddd", "2026 week 18 Sunday"),
        ("gggg-[w]ww-e", "2026-w19-0"),
        ("gg w ddd", "26 19 Sun"),
        ("YYYY/[Q]Q/MM/DD", "2026/Q2/05/03"),
        ("YYYY-MM-DD HHmm", "2026-05-03 1745"),
        ("YYYY-MM-DD h.mm A", "2026-05-03 5.45 pm"),
        ("YYYY-MM-DD X", "2026-05-03 1777800000"),
        ("[Daily] YYYY-MM-DD [log]", "daily 2026-05-03 LOG"),
        ("yyyy-MM-DD", "2026-05-03"),
        ("YYYY\u202f-MM-DD", "2026 -05-03"),
    ],
)
def test_a_text_in_its_format_names_its_day(format: str, text: str) -> None:
    assert read(format, text) == DAY


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("YYYY-MM-DD", "2026-05-03 and more"),
        ("YYYY-MM-DD", "on 2026-05-03"),
        ("YYYY-MM-DD", "2026-5-3"),
        ("YYYY-M-D", "2026-05-03"),
        ("YYYY-MM-DD", "26-05-03"),
        ("YYYY-MM-DD", "2026-05"),
        ("YYYY-MM-DD", "2026-05-"),
        ("YYYY-MM-DD", ""),
        ("YYYY-MM-DD", "2026-05-0³"),
        ("YYYY-MM-DD", "2026/05/03"),
        ("YYYY/MM/YYYY-MM-DD", "2026-05-03"),
        ("YYYY-MM-DD dddd", "2026-05-03"),
        ("MMMM D YYYY", "mai 3 2026"),
        ("MMMM D YYYY", "5 3 2026"),
        ("GGGG W dddd", "2026 18 dimanche"),
    ],
)
def test_a_text_in_another_format_names_no_day(format: str, text: str) -> None:
    assert read(format, text) is None


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("YYYY-MM-DD", "2026-02-30"),
        ("YYYY-MM-DD", "2026-13-01"),
        ("YYYY-MM-DD", "2026-00-10"),
        ("YYYY-MM-DD", "0000-01-01"),
        ("YYYY-DDDD", "2026-366"),
        ("YYYY-DDDD", "2026-000"),
        ("YYYY-DDDD", "9999-999"),
        ("GGGG-WW-E", "2025-53-1"),
        ("GGGG-WW-E", "2026-18-0"),
        ("GGGG-WW-E", "2026-18-8"),
        ("GGGG-WW-E", "9999-53-7"),
        ("YYYYYY-MM-DD", "+999999-05-03"),
        ("GGGGG-WW-E", "99999-18-7"),
        ("ggggg-ww-e", "99999-19-0"),
        ("gggg-ww-e", "2026-53-0"),
        ("gggg-ww-e", "2026-00-0"),
        ("gggg-ww-e", "2026-19-9"),
        ("gggg-ww-e", "0001-01-0"),
        ("gggg-ww-e", "9999-99-6"),
    ],
)
def test_a_day_that_there_is_not_is_none(format: str, text: str) -> None:
    assert read(format, text) is None


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("YYYY/YYYY-MM-DD", "2025/2026-05-03"),
        ("YYYY/MM/YYYY-MM-DD", "2026/04/2026-05-03"),
        ("YYYY/MM-MMMM/YYYY-MM-DD", "2026/05-June/2026-05-03"),
        ("YYYY/MM-MMM/YYYY-MM-DD", "2026/05-Jun./2026-05-03"),
        ("YYYY-MM-DD dddd", "2026-05-03 Monday"),
        ("YYYY-MM-DD ddd", "2026-05-03 mon"),
        ("YYYY-MM-DD E", "2026-05-03 1"),
        ("YYYY/[Q]Q/MM-DD", "2026/Q3/05-03"),
        ("YYYY-MM-DD DDD", "2026-05-03 124"),
        ("YYYY/YYMMDD", "2026/250503"),
        ("GGGG/WW/YYYY-MM-DD", "2026/19/2026-05-03"),
        ("ww/YYYY-MM-DD", "25/2026-05-03"),
        ("ww/ww/YYYY-MM-DD", "18/19/2026-05-03"),
    ],
)
def test_parts_that_contradict_each_other_name_no_day(format: str, text: str) -> None:
    assert read(format, text) is None


@pytest.mark.parametrize(
    "text",
    [
        *("2026-05-03 dimanche", "2026-05-03 domingo", "2026-05-03 Söndag", "2026-05-03 dim."),
        *("2026-05-03 воскресенье", "2026-05-03 रविवार", "2026-05-03 星期日", "2026-05-03 일요일"),
        *("2026-05-03 segunda-feira", "2026-05-03 chủ nhật", "2026-05-03 2ª", "2026-05-03 T2"),
        *("2026-05-03 یک\u200cشنبه", "٢٠٢٦-٠٥-٠٣ الأحد", "२०२६-०५-०३ रविवार"),
        # Two letters are a name of another day elsewhere.
        "2026-05-03 mo",
    ],
)
def test_names_of_any_language_stand_beside_numbers(text: str) -> None:
    assert read("YYYY-MM-DD dddd", text) == DAY


@pytest.mark.parametrize("text", ["2026-05-03 a team meeting", "2026-05-03 v21", "2026-05-03 -né"])
def test_a_title_is_no_name_of_a_weekday(text: str) -> None:
    assert read("YYYY-MM-DD dddd", text) is None


@pytest.mark.parametrize("text", ["2026/05-mai/03", "2026/05-5月/03", "2026/05-May./03"])
def test_a_numbered_month_may_be_called_anything(text: str) -> None:
    assert read("YYYY/MM-MMMM/DD", text) == DAY


def test_a_month_that_only_its_name_tells_must_be_english() -> None:
    assert read("D MMMM YYYY dddd", "3 May 2026 dimanche") == DAY
    assert read("D MMMM YYYY dddd", "3 mai 2026 dimanche") is None


@pytest.mark.parametrize("ending", ["rd", ".", "º", "e", "-го", "日", ":e", ""])
def test_ordinals_end_as_they_may(ending: str) -> None:
    assert read("Do/MM/YYYY", f"3{ending}/05/2026") == DAY


@pytest.mark.parametrize(
    "text",
    ["2026/W18/2026-05-03", "2026/W19/2026-05-03", "2024/W52/2024-12-29", "2025/W01/2024-12-29"],
)
def test_weeks_beside_a_date_may_be_counted_as_elsewhere(text: str) -> None:
    assert read("gggg/[W]ww/YYYY-MM-DD", text) == date.fromisoformat(text[-10:])


def test_weeks_that_name_the_day_begin_on_sunday() -> None:
    assert read("gggg-ww-dddd", "2025-01-Sunday") == date(2024, 12, 29)
    assert read("gggg-ww-dddd", "2025-01-Saturday") == date(2025, 1, 4)
    assert read("GGGG-WW-dddd", "2025-01-Sunday") == date(2025, 1, 5)


@pytest.mark.parametrize(("text", "year"), [("68", 2068), ("69", 1969), ("00", 2000), ("99", 1999)])
def test_short_years_are_of_the_hundred_from_1969(text: str, year: int) -> None:
    assert read("YY-MM-DD", f"{text}-05-03") == date(year, 5, 3)
    assert read("YYYY/YY-MM-DD", f"20{text}/{text}-05-03") == date(2000 + int(text), 5, 3)


def test_a_text_that_names_two_days_names_none() -> None:
    assert read("YYYYMD", "2026111") is None  # 11 January or 1 November
    assert read("YYYYMD", "202653") == DAY
    assert read("YYYYMD dddd", "2026121 Wednesday") == date(2026, 1, 21)


@pytest.mark.parametrize(
    "format",
    [
        *("", "YYYY-MM", "YYYY", "MM-DD", "gggg-[W]ww", "GGGG-WW", "YYYY-WW-E", "dddd", "HH.mm"),
        *("[YYYY-MM-DD]", "Hub", "\\YYYY-MM-DD", "X", "YYYY-[DDDD]", "DDDD", "YYYY MMMM", "[", "]"),
        # No file name has room for these.
        *(
            "YYYY-MM-DD" * 1000,
            "[" * 10_000,
            "D" * 10_000,
            "YYYYMMDD" * 20,
            "YYYY-MM-DD" + "-" * 500,
        ),
    ],
)
def test_a_format_that_names_no_day_is_refused(format: str) -> None:
    assert day_pattern(format) is None


SEPARATORS = (" ", "-", "/", ".", ", ", " [of] ", "[日]")
WAYS = (
    *(["YYYY", "MM", "DD"], ["Y", "M", "D"], ["yyyy", "Mo", "Do"], ["YYYYY", "MMMM", "Do"]),
    *(["MMM", "D", "YYYYYY"], ["YYYY", "DDD"], ["DDDo", "YYYY"], ["YYYY", "DDDD"], ["LL"], ["L"]),
    *(["GGGG", "WW", "E"], ["GGGG", "Wo", "dddd"], ["dd", "W", "GGGGG"], ["gggg", "ww", "e"]),
    *(["ggggg", "w", "ddd"], ["gggg", "wo", "do"], ["gggg", "ww", "E"]),
)
EXTRAS = (
    *(
        "YYYY",
        "MM",
        "Mo",
        "MMM",
        "MMMM",
        "DD",
        "DDDo",
        "d",
        "dd",
        "ddd",
        "dddd",
        "E",
        "e",
        "Q",
        "Qo",
    ),
    *("w", "ww", "wo", "W", "WW", "Wo", "gggg", "GGGG", "HH", "hh", "mm", "ss", "A", "a", "S", "k"),
)
SHORT_WAYS = (["YY", "MM", "DD"], ["D", "MMMM", "YY"], ["YY", "DDDD"], ["GG", "WW", "E"])


def some_format(rng: random.Random, way: list[str]) -> str:
    tokens = way + rng.sample(EXTRAS, rng.randint(0, 5))
    rng.shuffle(tokens)
    return "".join(token + rng.choice(SEPARATORS) for token in tokens)


@pytest.mark.parametrize(
    ("ways", "first", "last"),
    [(WAYS, date(1, 1, 8), date(9998, 12, 1)), (SHORT_WAYS, date(1969, 1, 8), date(2068, 12, 1))],
)
def test_what_is_written_is_read_again(
    ways: tuple[list[str], ...], first: date, last: date
) -> None:
    rng = random.Random(20260503)
    for _ in range(3000):
        format = some_format(rng, rng.choice(ways))
        day = date.fromordinal(rng.randint(first.toordinal(), last.toordinal()))
        text = format_day(format, day)
        assert read(format, text) == day, (format, text)
        assert read(format, text.upper()) == day, (format, text)


def test_every_day_about_new_year_is_read_again_in_every_way() -> None:
    for year in range(1995, 2030):
        for number in range(-10, 11):
            day = date.fromordinal(date(year, 1, 1).toordinal() + number)
            for format in ("YYYY-DDDD", "GGGG-WW-E", "gggg-ww-e", "GG W ddd", "gg w dddd"):
                assert read(format, format_day(format, day)) == day


def test_no_format_and_no_text_is_an_error() -> None:
    rng = random.Random(7)
    tokens = [*EXTRAS, *"YMDdwWgGeEQHhkmsSAaXxyoLlNzZ", "YY", "GG", "gg", "[", "]", "\\", " ", "\n"]
    tokens += ["é", "\u0301", "\ud800", "İ", "ß", "/", "-", "[x]"]
    letters = "0123456789 -/.[]aAmpMyż\u0301\ud800İßº²٣月'’\n"
    read_days = 0
    for _ in range(4000):
        format = "".join(rng.choices(tokens, k=rng.randint(0, 12))) + rng.choice(("", "YYYY-MM-DD"))
        day = date.fromordinal(rng.randint(1, date.max.toordinal()))
        text = format_day(format, day)
        pattern = day_pattern(format)
        if pattern is not None:
            read_days += pattern.day(text) is not None
            at = rng.randint(0, len(text))
            pattern.day(text[:at] + "".join(rng.choices(letters, k=3)) + text[at:])
            pattern.day("".join(rng.choices(letters, k=rng.randint(0, 60))))
    assert read_days > 1000


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("YYYY-MM-DD" + "D" * 37, "2026-05-03" + "1" * 500),
        ("YYYY-MM-DD" + "dddd" * 36, "2026-05-03" + "a" * 900),
        ("YYYY-MM-DD" + "dddd" * 36, "2026-05-03" + "é" * 900),
        ("YYYY-MM-DD" + " A" * 30, "2026-05-03" + " é" * 30 + "!"),
        ("YYYY-MM-DD" + "Do" * 30, "2026-05-03" + "3é" * 300),
        ("YYYY-MM-DD" + "wWHhmsk" * 5, "2026-05-03" + "1" * 500),
        ("YYYY-MM-DD" + "Xx" * 15, "2026-05-03" + "1" * 900),
        ("YYYY-MM-DD", "2" * 1_000_000),
        ("[x]" * 150 + "YYYY-MM-DD", "x" * 149 + "2026-05-03"),
        ("\\" * 480 + "YYYY-MM-DD", "\\" * 480 + "2026-05-03"),
    ],
)
def test_no_text_takes_long_to_refuse(format: str, text: str) -> None:
    begun = time.process_time()
    assert read(format, text) is None
    assert time.process_time() - begun < 1  # a hundred times what it takes


@pytest.mark.parametrize("piece", ["[", "[a", "\\", "L", "D", "MMMM", "[a]", "é"])
def test_long_formats_take_no_longer_than_they_are(piece: str) -> None:
    begun = time.process_time()
    assert format_day(piece * 12_000, DAY) == format_day(piece * 12, DAY) * 1000
    assert time.process_time() - begun < 2  # forty times what it takes
