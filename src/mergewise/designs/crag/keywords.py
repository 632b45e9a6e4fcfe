"""The keywords of CRAG's second search, three at most (section 4.5).

A chat model writes them. Without one, they are the names in the question, then its rarest terms: the terms that occur in the
fewest of the retrieved texts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from mergewise.concurrency import run
from mergewise.models.record import Models
from mergewise.prompting.quoting import turn
from mergewise.text.names import mentions, possible_names, words_of
from mergewise.text.terms import STOP_WORDS, content_terms, spelled_terms
from mergewise.types import PromptTemplate, Usage

MOST = 3
INSTRUCTIONS = PromptTemplate(
    "keywords",
    "writes keywords of the second search, in the strategy crag",
    """\
Name at most $most keywords by which a search engine would find texts that answer the question: names, and the thing that is
asked about them. Write the keywords alone, on one line, separated by commas.""",
    needs=("most",),
)
_TOKENS = 256  # enough for a model that thinks before it answers
_LONGEST = 100
_BETWEEN = re.compile(r"[,;\n]")


def keywords(question: str, found: Sequence[str], models: Models) -> tuple[list[str], Usage]:
    """Return the keywords and their usage. If the chat model's reply has no keywords, they come from the rules."""
    if models.chat is None:
        return by_rarity(question, found), Usage()
    asked = turn(models.prompts.fill(INSTRUCTIONS, most=str(MOST)), [f"Question: {question}"])
    reply = run(models.chat.complete(asked, max_tokens=min(_TOKENS, models.chat.window // 4)))
    named = [part.strip(' \t-*"“”.') for part in _BETWEEN.split(reply.text)]
    named = [name for name in dict.fromkeys(named) if 0 < len(name) <= _LONGEST][:MOST]
    return (named, reply.usage) if named else (by_rarity(question, found), reply.usage + Usage(unread=1))


def by_rarity(question: str, found: Sequence[str]) -> list[str]:
    words = words_of(question)
    marked = [
        (name, first, last)
        for name, first, last in possible_names(words)
        if words.marked[first] and words.marked[last - 1] and words.folded[first] not in STOP_WORDS
    ]
    names = [mention.name for mention in mentions(marked, {name for name, _, _ in marked})]
    spelled = spelled_terms(question)
    holding = Counter(term for text in found for term in content_terms(text) & spelled.keys())
    named = content_terms(" ".join(names))
    order = {term: place for place, term in enumerate(reversed(spelled))}
    rare = sorted(spelled.keys() - named, key=lambda term: (holding[term], order[term]))
    return [*names, *(spelled[term] for term in rare)][:MOST]


PROMPTS = {INSTRUCTIONS.name: INSTRUCTIONS}
