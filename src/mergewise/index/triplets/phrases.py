"""Phrases that rules look for: dates, names, lists of names, places, and where what is said of something ends."""

from __future__ import annotations

import re

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
NAME = rf"[\"“‘]?\s?{_LETTER}{_PART}(?:\s+(?:(?:{_SMALL}|&)\s+){{0,2}}{_PART})*(?:,? (?:Jr|Sr)\.)?[\"”’]?"
_AND = r"(?:and|&|und|et|y|e|as well as)"
NAMES = rf"{NAME}(?:\s*,\s*(?!{_AND}\s){NAME})*(?:\s*,?\s+{_AND}\s+{NAME})?"
PLACE = rf"{NAME}(?:\s*,\s*(?!{_AND}\s){NAME}){{0,4}}"

BOUNDARY = re.compile(
    r"\s*(?:[;:.!?]\s|[.!?]?\Z|\s[–—-]\s|,?\s(?:who|which|whom|whose|that|where|when|while|but|because|although|though|if|so|"
    r"after|before|until|since|during|making|following|including|being|having|along|alongside|featuring|starring|making|"
    r"and\s+(?:is|was|are|were|has|had|stars?|starring|written|sung|[a-z]+ed|his|her|its)|or\s+[a-z]+ed)\b)"
)
_WORDS = 9  # of a phrase that is no name
_PREPOSITION = re.compile(r"\s(?:in|on|at|from|to|by|with|as|for|near|under|into|between|through)\s")
_ARTICLE = re.compile(r"(?:the|an?|his|her|its|their|one of the|some)\s+", re.IGNORECASE)
_EDGE = "\"“”‘’ ,.;:-–—«»*_`"

_dates = re.compile(DATE)
_names = re.compile(NAMES)
_name = re.compile(NAME)
_place = re.compile(PLACE)
_described = re.compile(rf"(?:[A-Z][\w-]+\s+){{0,2}}(?:[a-zà-ÿ][\w’'-]*\s+){{1,4}}(?={NAME})")
_LINKING = re.compile(rf"\b(?:{_SMALL}|and|or|by|at|with|from|as|is|was)\b")
_split = re.compile(rf"\s*,\s*(?:{_AND}\s+)?|\s+{_AND}\s+")
_tail_words = re.compile(rf"(?:\s+(?:{_SMALL}|and|&))+\Z")

_OF_PERSONS = frozenset("by with starring featuring of".split())
_OF_PLACES = frozenset("in at near from to on".split())


def trimmed(phrase: str) -> str:
    """The phrase on one line, without quotes and marks at its ends; a full stop stays behind an initial or "Jr"."""
    said = " ".join(phrase.split()).strip()
    kept = bool(re.search(r"(?:\b[A-Z]|Jr|Sr|Inc|Ltd|Co)\.\Z", said))
    return said.strip(_EDGE) + ("." if kept and not said.strip(_EDGE).endswith(".") else "")


def without_article(phrase: str) -> str:
    match = _ARTICLE.match(phrase)
    return phrase[match.end() :] if match and len(phrase) > match.end() else phrase


def objects(text: str, preposition: str = "") -> list[str]:
    """What a verb or preposition is followed by: a date, the names of a list, a place, or a short phrase; nothing if it is long."""
    text = text.lstrip()
    text = re.sub(r"\A(?:the|an?)\s+", "", text)
    date = _dates.match(text)
    if date and not re.match(r"\s+[A-Z]", text[date.end() :]):
        return [trimmed(date[0])]
    if preposition in _OF_PERSONS:
        described = _described.match(text)
        if described and not _LINKING.search(described[0]):
            text = text[described.end() :]
        names = _names.match(text)
        if names:
            return names_in(names[0])
    elif preposition in _OF_PLACES:
        place = _place.match(text)
        if place:
            return [trimmed(_tail_words.sub("", _without_date(place[0])))]
    return phrase(text)


def phrase(text: str) -> list[str]:
    """The phrase at the beginning of the text, if it is short."""
    end = BOUNDARY.search(text)
    said = text[: end.start()] if end else text
    cut = _PREPOSITION.search(said)
    said = said[: cut.start()] if cut and cut.start() else said
    said = trimmed(said.split(", ")[0] if not re.match(r"[^,]+(?:, [^,]+)+,? and ", said) else said)
    return [said] if said and len(said.split()) <= _WORDS else []


def names_in(listed: str) -> list[str]:
    """The names of a list."""
    parts = [trimmed(_tail_words.sub("", part)) for part in _split.split(listed)]
    return [part for part in parts if part and any(character.isalpha() for character in part)]


def _without_date(place: str) -> str:
    """A place without a year behind it."""
    return re.sub(rf"\s*,?\s+(?:in|on)?\s*{DATE}\Z", "", place)
