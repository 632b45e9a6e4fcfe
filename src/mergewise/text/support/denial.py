"""Negations and opposites in statements, by their words, in ten languages, best in English."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from mergewise.text.alignment import NEGATIONS, words
from mergewise.text.terms import content_terms

_NEGATIVE = NEGATIONS | frozenset(
    "nicht kein keine keinen keiner nie niemals ne pas jamais aucun aucune nunca jamás não nem niet geen nooit не нет ни никогда "
    "не́ inte ikke nie 不 没 沒 無 无 ない ません 않 없".split()
)
_NOT = re.compile(r"n['’]t\b|(?<!['’])\bn['’](?=\w)", re.IGNORECASE)
_DENIES = re.compile(
    r"\b(?:lack\w*|absen\w+|fail\w*|refus\w+|den(?:y|ies|ied)|prevent\w*|avoid\w*|exclud\w+|unable|hardly|few|little|free of|"
    r"instead|rather|reject\w*|stop\w*|cease\w*|abandon\w*|only|except\w*)\b",
    re.IGNORECASE,
)
_PREFIXED = re.compile(r"\b(?:un|in|im|il|ir|dis|non-?)(\w{4,})", re.IGNORECASE)
_NO_DENIAL = re.compile(
    r"\b(?:not (?:only|just|merely|simply)|(?:no|not) (?:more|less|fewer|later|earlier) than|not exceed\w*|no longer|"
    r"whether or not|if not|nothing but|not least)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[,;:—–]|\b(?:but|and|while|whereas|although|though|which|who|because)\b", re.IGNORECASE)
_OPPOSITES = [
    [frozenset(side.split()) for side in pair.split("/")]
    for pair in (
        "increas rise rose risen grew grow grown gain higher / decreas fall fell fallen drop declin reduc shrink lower; "
        "improv better / worsen wors deterior; posit / negat; succeed success / fail failur unsuccess; win won / lose lost; "
        "accept approv / reject refus; allow permit / forbid forbidden prohibit; enabl / disabl; includ / exclud; true / fals; "
        "benefit / harm; support / oppos; northern north / southern south; eastern east / western west; maximum / minimum; "
        "born / die; safe / danger unsaf; legal / illeg; possibl / imposs; open / close; start began / stop ceas; male / femal; "
        "always / never; oldest / youngest; largest / smallest; best / worst"
    ).split(";")
]
OPPOSED = [(a, b) for pair in _OPPOSITES for a, b in (pair, pair[::-1])]


def says_no(text: str) -> bool:
    plain = _NO_DENIAL.sub(" ", text)
    return not _NEGATIVE.isdisjoint(words(plain)) or _NOT.search(plain) is not None


def denies(text: str, other: str) -> bool:
    """Return true if the text may deny the other one without a negation: "failed", or "insufficient" for "sufficient"."""
    if _DENIES.search(text) is not None:
        return True
    denied = content_terms(" ".join(_PREFIXED.findall(text)))
    return bool(denied) and not denied.isdisjoint(content_terms(other))


def clauses(sentence: str) -> Iterator[str]:
    bounds = [0, *(match.start() for match in _CLAUSE.finditer(sentence)), len(sentence)]
    yield from (sentence[a:b] for a, b in pairwise(bounds) if a < b)
