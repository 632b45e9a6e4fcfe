"""Patterns of phrases: dates, names, lists of names, places, and the boundary of a statement."""

from __future__ import annotations

import re

from mergewise.text.spans import one_line

_MONTHS = (
    "jan(?:uary|uar|vier)?|feb(?:ruary|ruar)?|février|mar(?:ch|s)?|märz|apr(?:il)?|avril|may|mai|june?|juni|juin|july?|juli|juillet|"
    "aug(?:ust)?|août|sept?(?:ember|embre)?|oct(?:ober|obre)?|oktober|nov(?:ember|embre)?|dec(?:ember)?|dezember|décembre|"
    "enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre|gennaio|febbraio|aprile|maggio|"
    "giugno|luglio|settembre|ottobre|novembre|dicembre|janeiro|fevereiro|março|maio|junho|julho|setembro|outubro|novembro|dezembro"
)
_MONTH = rf"(?i:\b(?:{_MONTHS})\b\.?)"
DATE = (
    rf"(?:\d{{1,2}}(?:st|nd|rd|th|\.|er)?\s+(?:de\s+)?{_MONTH}(?:\s+de|,)?\s+\d{{3,4}}"
    rf"|{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?,?\s+\d{{3,4}}"
    rf"|{_MONTH}\s+\d{{4}}|\d{{4}}-\d\d-\d\d|\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}}|(?:c\.|circa|around|about)\s*\d{{3,4}}|\d{{3,4}}s?\b)"
)
_SMALL = r"(?:of|the|de|der|den|du|des|von|van|da|dos|la|le|el|al|bin|ibn|di|del|della|y|e|zu|af|av)"
_PART = r"(?:[A-Z0-9À-ÖØ-ÞĀ-ž][^\s,;:()\[\]\"“”|]*|(?:al|el|d'|l')-?[A-Z][^\s,;:()\"“”|]*)"
_LETTER = r"(?=[^\s]*[A-ZÀ-ÖØ-ÞĀ-ž])"
_RANKS = (
    r"(?:\d+\w+\s+)?(?:Count|Countess|Duke|Duchess|Earl|Prince|Princess|King|Queen|Baron|Baroness|Lord|Lady|Marquess|Elector|"
    r"Landgrave|Emperor|Empress|Holy\s+Roman\s+Emperor)\b"
)
_RANK = rf"(?:,\s+{_RANKS})?"
NAME = (
    rf"[\"“‘]?\s?{_LETTER}{_PART}(?:\s+(?:(?:{_SMALL}|&)\s+){{0,2}}{_PART}){{0,9}}(?:,? (?:Jr|Sr)\.)?{_RANK}"
    rf"(?:\s+(?:{_SMALL}\s+){{1,3}}{_PART})?[\"”’]?"
)
_AND = r"(?:and|&|und|et|y|e|as well as)"
NAMES = rf"{NAME}(?:\s*,\s*(?!{_AND}\s){NAME}){{0,19}}(?:\s*,?\s+{_AND}\s+{NAME})?"
PLACE = rf"{NAME}(?:\s*,\s*(?!{_AND}\s){NAME}){{0,4}}"

BOUNDARY = re.compile(
    r"\s*(?:[;:.!?]\s|[.!?]?\Z|\s[–—-]\s|,?\s(?:who|which|whom|whose|that|where|when|while|but|because|although|though|if|so|"
    r"after|before|until|since|during|making|following|including|being|having|along|alongside|featuring|starring|making|"
    r"and\s+(?:is|was|are|were|has|had|stars?|starring|written|sung|[a-z]+ed|his|her|its)|or\s+[a-z]+ed)\b)"
)
_WORDS = 9  # maximum number of words of a phrase without a name
_PREPOSITION = re.compile(r"\s(?:in|on|at|from|to|by|with|as|for|near|under|into|between|through)\s")
_EDGE = '"“”‘’ ,.;:-–—«»*_`'

_dates = re.compile(DATE)
_names = re.compile(NAMES)
_name = re.compile(NAME)
_place = re.compile(PLACE)
_described = re.compile(rf"(?:[A-Z][\w-]+\s+){{0,2}}(?:[a-zà-ÿ][\w’'-]*\s+){{1,4}}(?={NAME})")
_NATION = re.compile(
    rf"(?:[A-Z][\w-]+\s+){{1,2}}(?:(?!in\s|on\s|from\s|who\s|for\s|with\s)[a-z/-]+(?:,\s+|\s+)){{1,8}}(?={NAME})"
)
_LINKING = re.compile(rf"\b(?:{_SMALL}|and|or|by|at|with|from|as|is|was|to|for|in|on|about|[a-z]+ing|[a-z]+ed)\b")
NATION = (
    r"(?:(?:South|North|West|East|New|Austro|Anglo|Sri|Puerto|Costa|Hong|Saudi|Cape)[\s-]+)?"
    r"(?:[A-Z][a-z]+(?:an|ese|ish|iot|lean|vian)|French|Dutch|Greek|Swiss|Thai|Welsh|Czech|Iraqi|Israeli|Pakistani|Bangladeshi|"
    r"Omani|Yemeni|Kuwaiti|Qatari|Somali|Nepali|Filipino|Icelandic|Serb|Croat|Slovak|Afghan|Turk|Kong|Rican|Lankan|Soviet|Bengali|"
    r"Punjabi|Tamil|Uzbek|Kazakh|Lao|Malagasy|Monegasque|Basque|Manx|Luxembourgish|U\.S\.|US|UK|British)"
)
_nation = re.compile(NATION + r"\s+[a-z]")
_split = re.compile(rf"\s*,(?!\s*{_RANKS})\s*(?:{_AND}\s+)?|\s+{_AND}\s+")
_tail_words = re.compile(rf"(?:\s+(?:{_SMALL}|and|&))+\Z")

_OF_PERSONS = frozenset("by with starring featuring of".split())
_OF_PLACES = frozenset("in at near from to on".split())


def trim(phrase: str) -> str:
    """Return the phrase on one line, without quotes and marks at its ends. The full stop of an initial or "Jr" stays."""
    flat = one_line(phrase).strip()
    keeps_stop = bool(re.search(r"(?:\b[A-Z]|Jr|Sr|Inc|Ltd|Co)\.\Z", flat))
    return flat.strip(_EDGE) + ("." if keeps_stop and not flat.strip(_EDGE).endswith(".") else "")


def objects(text: str, preposition: str = "") -> list[str]:
    """Return the objects of a verb or preposition: a date, names, a place, or a short phrase. A long phrase is skipped."""
    text = re.sub(r"\A(?:the|an?)\s+", "", text.lstrip())
    date = _dates.match(text)
    if date and not re.match(r"\s+[A-Z]", text[date.end() :]):
        return [trim(date[0])]
    if preposition in _OF_PERSONS:
        # A person's description before the name, such as "the Welsh singer" or "country music artist".
        of_nation = _NATION.match(text) if _nation.match(text) else None
        described = of_nation or _described.match(text)
        if described and (of_nation or not _LINKING.search(described[0])):
            text = text[described.end() :]
        names = _names.match(text)
        if names:
            listed = names_in(names[0])
            # in "son of Ann Lee, Tom Lee ..." without "and", the second name begins a new statement
            return listed if preposition != "of" or re.search(rf"\s{_AND}\s", names[0]) else listed[:1]
    elif preposition in _OF_PLACES:
        place = _place.match(text)
        if place:
            # without a date after the place
            return [trim(_tail_words.sub("", re.sub(rf"\s*,?\s+(?:in|on)?\s*{DATE}\Z", "", place[0])))]
    return phrase(text)


def phrase(text: str) -> list[str]:
    """Return the phrase at the beginning of the text if it is short."""
    first = BOUNDARY.split(text, 1)[0]
    cut = _PREPOSITION.search(first)
    first = first[: cut.start()] if cut and cut.start() else first
    first = trim(first.split(", ")[0] if not re.match(r"[^,]+(?:, [^,]+)+,? and ", first) else first)
    return [first] if first and len(first.split()) <= _WORDS else []


def names_in(listed: str) -> list[str]:
    """Split a list of names."""
    parts = [trim(_tail_words.sub("", part)) for part in _split.split(listed)]
    return [part for part in parts if part and any(character.isalpha() for character in part)]
