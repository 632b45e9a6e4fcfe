"""The second search: for what the best evidence leaves open, by the names that it brings.

Links lead to sections that define a name. What names a place without defining it ("a hotel in Windhoek") is found by no link;
it is found by a search for the rest of the question together with the names in the evidence.
"""

from __future__ import annotations

import re

import numpy as np

from mergewise.designs.weave.evidence import Candidates
from mergewise.text.terms import STOP_WORDS, content_terms

LEADING = 3  # candidates whose names are searched for, the most relevant ones
ANSWERED_BY = 2  # of them, whose terms the question is taken to have got an answer for

_WORD = re.compile(r"[^\W_]+(?:['’.&-][^\W_]+)*")


def open_question(candidates: Candidates) -> str | None:
    """The question's words that the best evidence does not hold, and the names in it; None where either is lacking."""
    leading: list[int] = np.argsort(-candidates.relevance, kind="stable")[:LEADING].tolist()
    held = frozenset[str]().union(*(candidates.terms[i] for i in leading[:ANSWERED_BY]))
    rest = [word for word in _WORD.findall(candidates.asked.text) if not content_terms(word) & held]
    asked = {word.lower() for word in _WORD.findall(candidates.asked.text)}
    names = dict.fromkeys(
        word
        for i in leading
        for word in _WORD.findall(candidates.sentences[i].text)
        if not word[0].islower() and word.lower() not in STOP_WORDS and word.lower() not in asked
    )
    return " ".join([*rest, *names]) if names and any(map(content_terms, rest)) else None
