"""Words of a text with their positions, tests for names, and quotations.

Names are recognised by their capitals. In German, where all nouns have one, only two adjacent ones count as names. Scripts
without capitals have no recognisable names.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from mergewise.text.alignment import TOKEN, words
from mergewise.text.names import without_accents
from mergewise.text.terms import STOP_WORDS

# Quotations of fewer words are not looked up.
FEW_WORDS = 3

_QUOTED = re.compile(r"“([^“”\n]+)”|„([^„“”\n]+)[“”]|«([^«»\n]+)»|「([^「」\n]+)」|(?<![^\W_])\"(?=\S)([^\"\n]+)\"")
_LEFT_OUT = re.compile(r"…|\.\.\.|\[[^\]\n]{0,40}\]")
_BEGINS = re.compile(r"(?:\A|[.:!?…\n]|[\"“„«‘(\[])[\W_]{0,12}\Z")
_GERMAN = frozenset(
    "der die das und ist nicht ein eine mit von den dem des auf für werden wurde sich auch zu im".split()
)
ENGLISH = re.compile(r"\b(?:the|of|was|were|is|and|by|has|from)\b", re.IGNORECASE)
# Words that often open a sentence and are not names there.
_COMMON = frozenset(
    "yes according additionally although answer based because currently finally first firstly furthermore generally given "
    "hence however instead like moreover note otherwise overall second secondly since specifically summary therefore thus "
    "together typically unlike use usually while researchers scientists authors experts people users patients participants "
    "subjects students children adults women men workers members residents studies results findings data evidence research "
    "researcher work methods models experiments tests trials analysis analyses examples critics officials doctors writers "
    "scholars observers visitors many most several some few others another more less being having using following including "
    "considering compared despite during among across within besides beyond alongside throughout once before after later "
    "earlier early today historically originally initially subsequently eventually ultimately recently notably importantly "
    "interestingly similarly likewise conversely nevertheless nonetheless meanwhile accordingly consequently particularly "
    "especially approximately about nearly almost over under around roughly half born known located founded established "
    "built made called named written people's one two three four five six seven eight nine ten january february march april "
    "may june july august september october november december".split()
)


class Word(NamedTuple):
    """A word of a text. `opens` is true at the start of a sentence, where words are always capitalised."""

    text: str
    start: int
    end: int
    opens: bool


def words_of(text: str) -> list[Word]:
    return [
        Word(match[0], *match.span(), _BEGINS.search(text, max(0, match.start() - 14), match.start()) is not None)
        for match in TOKEN.finditer(text)
    ]


def is_marked(word: str) -> bool:
    """Return true if the word looks like a name: with a capital, or with letters and digits."""
    return any(map(str.isupper, word)) or (any(map(str.isdigit, word)) and any(map(str.isalpha, word)))


def is_plain(word: str) -> bool:
    """Return true if a word that opens a sentence is an ordinary one."""
    return word.lower() in _COMMON or word.lower() in STOP_WORDS


def is_strange(word: str) -> bool:
    """Return true if it is not an ordinary noun: capitals within it, or digits."""
    return any(map(str.isupper, word[1:])) or any(map(str.isdigit, word))


def touch(text: str, one: Word, other: Word) -> bool:
    first, second = sorted((one, other), key=lambda word: word.start)
    between = text[first.end : second.start]
    return between in (" ", "-") or (len(between) <= 3 and between.strip() == "." and between != ".")


def base_form(word: str) -> str:
    """Return the word in lower case and without accents."""
    return without_accents(unicodedata.normalize("NFKC", word).casefold())


def initials(texts: Sequence[str]) -> frozenset[str]:
    """Return abbreviations of runs of capitalised words, such as WHO for World Health Organization."""
    runs: set[str] = set()
    for text in texts:
        tokens = [word for word in TOKEN.findall(text) if word.lower() not in ("of", "the", "and", "for", "de", "in")]
        runs.update("".join(token[0] if token[0].isupper() else " " for token in tokens).split())
    return frozenset(r[i:j] for r in runs for i in range(len(r)) for j in range(i + 2, min(len(r), i + 8) + 1))


DEMONYM = re.compile(r"(?:ians?|ans?|ese|ish|ic)$")
_VOWEL = re.compile(r"[aeiouy]{1,2}$")


def root(word: str) -> str:
    """Return the common part of a country and its people, as in Canada and Canadian, or "" if it is too short."""
    shared = _VOWEL.sub("", DEMONYM.sub("", word))
    return shared if len(shared) >= 4 else ""


def is_german(text: str) -> bool:
    return counts_as_german(*german_words(text))


def german_words(text: str) -> tuple[int, int]:
    """Count the words of the text, and the function words of German among them."""
    lowered = [word.lower() for word in TOKEN.findall(text)]
    return len(lowered), sum(word in _GERMAN for word in lowered)


def counts_as_german(count: int, german: int) -> bool:
    return count >= 4 and german >= 0.12 * count


# -- words in their order


class PlacedWord(NamedTuple):
    """A normalised word and its position."""

    form: str
    start: int
    end: int


def placed_words(text: str, offset: int = 0) -> list[PlacedWord]:
    """Return the normalised words in order."""
    return [
        PlacedWord(form, offset + match.start(), offset + match.end())
        for match in TOKEN.finditer(text)
        for form in words(match[0])
    ]


def forms(text: str) -> list[str]:
    return [word.form for word in placed_words(text)]


def quotations_in(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the texts in quotation marks with their offsets."""
    for match in _QUOTED.finditer(text):
        yield match.start(), match.end(), match[match.lastindex or 0]


def holds_quotation(quotation: str, texts: Collection[str]) -> bool:
    """Return true if one of the texts, in the form of `in_order`, holds the words. An ellipsis divides the quotation."""
    parts = [words(part) for part in _LEFT_OUT.split(quotation)]
    return all(any(in_order(part) in text for text in texts) for part in parts if len(part) >= FEW_WORDS)


def in_order(forms: Sequence[str]) -> str:
    """Join words into one string that can be searched for runs of words."""
    return f" {' '.join(forms)} "
