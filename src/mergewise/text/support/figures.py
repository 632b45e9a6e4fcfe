"""Numbers and dates in comparable forms: "1,234.50" and "1 234.5", "twelve" and "12", "5 million" and "5,000,000", "14 March
2020" and "2020-03-14".

Ambiguous texts have both readings: "1.234" in English and in German, "3/4/2020" by day and by month. Spelled out numbers are
read in English only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, product
from typing import NamedTuple

# -- numbers


def _values(words: str, first: int = 0) -> dict[str, int]:
    return {word: value for value, word in enumerate(words.split(), first)}


_UNITS = _values(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = {ten: 10 * value for ten, value in _values("twenty thirty forty fifty sixty seventy eighty ninety", 2).items()}
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}  # as powers of ten
_ORDINALS = _values(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth",
    1,
) | {name[:-1] + "ieth": value for name, value in _TENS.items()}
_NO_FIGURES = frozenset({"one", "first", "second"})  # alone they are seldom numbers
_POWERS = {
    2: "hundreds 百",
    3: "k thousands tausend mille mil mila 千",
    4: "万 萬 만",
    6: "m mio millions millionen millón millones milioni miljoen",
    8: "億 亿 억",
    9: "bn mrd billions milliarden milliard milliards miliardi miljard",
}
_WRITTEN_SCALES = {name: power for power, names in _POWERS.items() for name in names.split()} | _SCALES
_MAYBE_SCALES = frozenset("k m mil mille".split())  # they also mean metres, a thousand and a mile
_IMPLIED = {
    name: figures.split()
    for figures, names in {
        "2 50": "half halves",
        "4 25": "quarter",
        "0": "nil none no",
        "1": "once single",
        "2": "twice double doubled pair both",
        "3": "triple thrice",
        "10": "decade",
        "12": "dozen",
        "100": "century",
    }.items()
    for name in names.split()
}

_SPACES = " \u00a0\u202f\u2009'’"
_NUMBER = re.compile(rf"\d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)*")
_SCALE = re.compile(
    rf"(?:[^\S\n]|-)?(?P<scale>{'|'.join(sorted(map(re.escape, _WRITTEN_SCALES), key=len, reverse=True))})(?![^\W\d_])(?<!年)",
    re.IGNORECASE,
)
_CJK_SCALE = re.compile(r"[百千万萬億亿만억]")
_SPELLED = re.compile(r"(?<![^\W_])(?:" + "|".join([*_UNITS, *_TENS, *_SCALES, *_ORDINALS]) + r")(?![^\W_])", re.I)
_JOINS = re.compile(r"\s{1,3}(?:and\s{1,3})?|-")
_ROMAN = re.compile(
    r"(?<![^\W_])(?=[MDCLXVI]{1,12}(?![^\W_]))M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"
)
_HAN = re.compile(r"[〇零一二三四五六七八九十百千万萬億亿]{1,12}")
_WORD = re.compile(r"[^\W\d_]+")
_LONGEST = 16  # words of one spelled out number
_FORMS = str.maketrans({"，": ",", "．": ".", "٫": ".", "٬": ",", "−": "-"})


class Figure(NamedTuple):
    """A number at `start .. end`. `parts` are an alternative reading as several numbers."""

    start: int
    end: int
    readings: frozenset[str]
    parts: tuple[str, ...] = ()

    def held_by(self, known: frozenset[str]) -> bool:
        return not known.isdisjoint(self.readings) or (bool(self.parts) and known.issuperset(self.parts))


@lru_cache(4096)
def figures(text: str) -> tuple[Figure, ...]:
    """Return the numbers of a statement, in digits of any script or spelled out in English, in order."""
    text = _in_digits(text)
    found: list[Figure] = []
    for match in _NUMBER.finditer(text):
        forms, parts = _readings_of(match[0])
        scale = _CJK_SCALE.match(text, match.end()) or _SCALE.match(text, match.end())
        if scale is None:
            found.append(Figure(*match.span(), forms, parts))
            continue
        name = scale["scale"].lower() if scale.re is _SCALE else scale[0]
        scaled = frozenset(_with_point_moved(form, _WRITTEN_SCALES[name]) for form in forms)
        found.append(Figure(match.start(), scale.end(), scaled | forms if name in _MAYBE_SCALES else scaled, parts))
    places = {place for figure in found for place in range(figure.start, figure.end)}
    runs: list[list[re.Match[str]]] = []
    for match in _SPELLED.finditer(text):
        if runs and len(runs[-1]) < _LONGEST and _JOINS.fullmatch(text, runs[-1][-1].end(), match.start()):
            runs[-1].append(match)
        else:
            runs.append([match])
    # The words of a run may be several numbers.
    for run in runs:
        words = [match[0].lower() for match in run]
        if len(words) == 1 and (words[0] in _NO_FIGURES or words[0] in _SCALES):
            continue
        numbers = _numbers(words)
        values = numbers if len(numbers) == 1 else []
        if len(numbers) == 2 and all(10 <= number < 100 for number in numbers):  # a year: nineteen eighty-four
            values = [100 * numbers[0] + numbers[1]]
        if run[0].start() not in places:
            parts = tuple(map(str, numbers)) if len(numbers) > 1 else ()
            found.append(Figure(run[0].start(), run[-1].end(), frozenset(map(str, values)), parts))
    return tuple(sorted(found))


@lru_cache(4096)
def known_figures(text: str) -> frozenset[str]:
    """Return all readings of the numbers in a source: more than `figures`, also "twice" and "XIV"."""
    known: set[str] = set()
    for figure in figures(text):
        known.update(figure.readings, figure.parts)
    for match in _WORD.finditer(text):
        word = match[0].lower()
        known.update(_IMPLIED.get(word, ()))
        number = _UNITS.get(word, _ORDINALS.get(word))
        if number is not None:
            known.add(str(number))
    known.update(str(value) for match in _ROMAN.finditer(text) if (value := roman(match[0])))
    known.update(reading for match in _HAN.finditer(text) for reading in _han(match[0]))
    return frozenset(known)


def roman(numeral: str) -> int:
    """Return the value of a Roman numeral, or 0 if it is invalid."""
    if not numeral or _ROMAN.fullmatch(numeral) is None:
        return 0
    values = [{"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}[letter] for letter in numeral]
    return sum(-a if a < b else a for a, b in zip(values, [*values[1:], 0], strict=True))


def _in_digits(text: str) -> str:
    """Replace the digits of other scripts by ASCII digits, character for character."""
    if text.isascii():
        return text
    forms = {c: str(unicodedata.decimal(c)) for c in set(text) if not c.isascii() and c.isdecimal()}
    return text.translate(_FORMS | str.maketrans(forms))


def _readings_of(number: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the readings of a number in digits, and its parts if it may be several numbers."""
    groups = re.split(rf"[.,{_SPACES}]", number)
    marks = re.sub(r"\d", "", number)
    if not marks:
        return frozenset({_plain(number)}), ()
    grouped = all(len(group) == 3 for group in groups[1:]) and 1 <= len(groups[0]) <= 3 and groups[0][0] != "0"
    parts = tuple(_plain(group) for group in groups)
    if marks[0] in _SPACES:
        whole = "".join(groups[:-1]) + "." + groups[-1] if marks[-1] in ".," else "".join(groups)
        return frozenset({_plain(whole)}), parts
    if len(marks) == 1:
        whole, fraction = _plain("".join(groups)), _plain(f"{groups[0]}.{groups[1]}")
        if grouped and marks == "," and groups[1].endswith("0"):
            return frozenset({whole}), ()  # 10,000 is not ten
        return frozenset({whole, fraction} if grouped else {fraction}), ()
    if len(set(marks)) == 1:
        lakhs = marks[0] == "," and len(groups[-1]) == 3 and all(len(group) == 2 for group in groups[1:-1])
        if grouped or lakhs:
            return frozenset({_plain("".join(groups))}), ()
        return frozenset({number.replace(",", ".")}), parts
    if marks[-1] not in marks[:-1]:
        return frozenset({_plain("".join(groups[:-1]) + "." + groups[-1])}), ()
    return frozenset({number}), parts


def _plain(number: str) -> str:
    """Normalise digits and a point, without redundant zeros."""
    whole, _, fraction = number.partition(".")
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def _with_point_moved(number: str, places: int) -> str:
    """Move the point of a number to the right."""
    whole, _, fraction = number.partition(".")
    fraction = fraction.ljust(places, "0")
    return _plain(f"{whole}{fraction[:places]}.{fraction[places:]}")


def _numbers(words: Sequence[str]) -> list[int]:
    """Parse numbers from words. A word that cannot continue the number before it begins a new one."""
    numbers: list[int] = []
    total = current = 0
    last = 0  # size of the last word: the next must be smaller, or a scale
    for word in words:
        if word in _SCALES and word not in _UNITS:
            size = 10 ** _SCALES[word]
            if size == 100:
                current = max(1, current) * size
            else:
                total, current = total + max(1, current) * size, 0
            last = size
            continue
        value = _UNITS.get(word, _TENS.get(word, _ORDINALS.get(word, 0)))
        if last and not (last >= 100 or (last >= 20 and 0 < value < 10)):
            numbers.append(total + current)
            total = current = 0
        current += value
        last = value or 1
    return [*numbers, total + current]


def _han(numeral: str) -> Iterator[str]:
    """Yield the values of a numeral in Han characters: by its places, and digit by digit."""
    if all(character in "〇零一二三四五六七八九" for character in numeral):
        yield _plain("".join(str(int(unicodedata.numeric(c, 0))) for c in numeral))
    total = section = digit = 0
    for character in numeral:
        value = int(unicodedata.numeric(character, 0))
        if value < 10:
            digit = value
        elif value < 10_000:
            section, digit = section + max(1, digit) * value, 0
        else:
            total, section, digit = total + max(1, section + digit) * value, 0, 0
    yield str(total + section + digit)


# -- dates


class Date(NamedTuple):
    """A day, a month with its year, or a day of a month. Missing parts are 0."""

    year: int
    month: int
    day: int


class DateMention(NamedTuple):
    """A date at `start .. end`, with each of its readings."""

    start: int
    end: int
    readings: tuple[Date, ...]


_MONTHS = {
    1: "January Jan Januar Jänner janvier janv enero gennaio janeiro januari",
    2: "February Feb Februar février févr febrero febbraio fevereiro februari",
    3: "March Mar März mars marzo março maart", 4: "April Apr avril avr abril aprile",
    5: "May mai mayo maggio maio mei", 6: "June Jun Juni juin junio giugno junho",
    7: "July Jul Juli juillet juil julio luglio julho", 8: "August Aug août agosto augustus",
    9: "September Sept Sep septembre septiembre settembre setembro", 10: "October Oct Oktober octobre octubre ottobre outubro",
    11: "November Nov novembre noviembre novembro", 12: "December Dec Dezember décembre déc diciembre dicembre dezembro",
}  # fmt: skip
MONTH_OF = {name.lower(): month for month, names in _MONTHS.items() for name in names.split()}
_NAMES = sorted(
    {form for names in _MONTHS.values() for name in names.split() for form in (name, name.capitalize(), name.upper())},
    key=lambda name: (-len(name), name),
)
_MONTH = rf"(?P<month>{'|'.join(_NAMES)})(?![^\W_])\.?"
_DAY = r"(?<![\d.,])(?:(?P<from>\d{1,2})(?:st|nd|rd|th|\.)?\s?[-–—]\s?)?(?P<day>\d{1,2})(?:st|nd|rd|th|er|\.|º|ª)?"
_YEAR = r"(?P<year>\d{4})(?![\d])"
# Compiled at the first use.
_DATES = (
    rf"{_DAY}\s{{1,3}}(?:(?:of|de|d['’])\s?)?{_MONTH}(?:,?\s{{1,3}}(?:de[l]?[ \t])?{_YEAR})?",
    rf"(?<![^\W_]){_MONTH}\s{{1,3}}(?:the[ ])?(?:(?P<from>\d{{1,2}})(?:st|nd|rd|th)?\s?[-–—]\s?)?"
    rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?!\d)(?![.,]\d)(?:,?\s{{1,3}}{_YEAR})?",
    rf"(?<![^\W_]){_MONTH},?\s{{1,3}}(?:(?:of|de)[ \t])?{_YEAR}",
    r"(?<![\d./-])(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})(?![\d/-]|\.\d)",
    r"(?<![\d./-])(?P<first>\d{1,2})(?P<mark>[-/.])(?P<other>\d{1,2})(?P=mark)(?P<year>\d{4})(?![\d/-]|\.\d)",
    r"(?:(?P<year>\d{4})\s?[年년]\s?)?(?P<month>\d{1,2})\s?[月월](?:\s?(?P<day>\d{1,2})\s?[日號号일])?",
)


def dates(text: str) -> list[DateMention]:
    """Return the dates of a text that give at least two of day, month and year, in order."""
    text = _in_digits(text)
    mentions: list[DateMention] = []
    for pattern in _DATES:
        for match in re.finditer(pattern, text):
            groups = match.groupdict()
            year = int(groups["year"] or 0)
            if "first" in groups:
                first, other = int(groups["first"]), int(groups["other"])
                pairs = {(first, other), (other, first)}
            else:
                named = groups["month"].lower()
                month = MONTH_OF.get(named) or int(named if named.isdecimal() else 0)
                days = {int(day) for name in ("from", "day") if (day := groups.get(name))}
                pairs = {(day, month) for day in days or {0}}
            readings = tuple(
                Date(year, month, day)
                for day, month in sorted(pairs)
                if 1 <= month <= 12 and 0 <= day <= 31 and (day or year)
            )
            if readings and not any(match.start() < one.end and one.start < match.end() for one in mentions):
                mentions.append(DateMention(*match.span(), readings))
    return sorted(mentions)


def holds_date(mention: DateMention, known: Sequence[DateMention], numbers: frozenset[str]) -> bool:
    """Return true if a source with these dates and numbers holds the date. The year may be elsewhere in the source."""
    for date, other in product(mention.readings, chain.from_iterable(source.readings for source in known)):
        year = not date.year or date.year == other.year or (not other.year and str(date.year) in numbers)
        if year and date.month == other.month and (not date.day or date.day == other.day):
            return True
    return False
