"""Several rounds of search for one question within one budget: iterative retrieval (MacRAG A.9).

C_1 = Retrieve(q), then C_t = Merge(C_(t-1), Retrieve(q_t)) until nothing is left to ask. `next_question` finds q_t, and `merge`
is Merge. Rounds differ from hops: `weave` follows names from section to section within one round.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import dropwhile, zip_longest
from typing import TypeVar

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Candidate, Fragment
from mergewise.concurrency import run
from mergewise.errors import UsageError
from mergewise.generate.prompts import NOTHING, quoted_source
from mergewise.generate.sources import DocumentLookup, Source, base_sources, fit
from mergewise.models.record import Models
from mergewise.prompting.quoting import code_for, quotation, turn, warning
from mergewise.text.blocks import SEPARATOR, render
from mergewise.text.sentences import split_sentences
from mergewise.text.spans import one_line, spans_of
from mergewise.text.terms import STOP_WORDS, content_terms
from mergewise.types import Context, Message, Passage, Step, Usage
from mergewise.types.answers import best_first

__all__ = ["in_rounds"]


def in_rounds(
    question: str, rounds: int, assemble: Callable[[str], Context], models: Models, document: DocumentLookup
) -> Context:
    """Return C_T of MacRAG A.9 for T up to `rounds`. `assemble(q_t)` is Retrieve(q_t), the context of one question."""
    context, asked = assemble(question), [question]
    while len(asked) < rounds:
        wanted, spent = next_question(question, asked, context, models, document)
        context = replace(context, usage=context.usage + spent)
        if wanted is None:
            break
        asked.append(wanted)
        context = merge(context, assemble(wanted), models)
    return context


Piece = TypeVar("Piece")

# Merge(C_(t-1), Retrieve(q_t)) of MacRAG A.9: two contexts become one on spans, within one budget.
#
# Scores of different questions are not comparable, but ranks are. So pieces of the old and the new context are taken in turn
# while they fit, best first in each context. Text that both hold is taken once. The n-th piece taken gets the score 1 / n, so
# that the next round sees the pieces in the same order.
#
# Only verbatim passages can be merged on spans. Sets of triplets accompany the passages that they were extracted from. They are
# kept whole, each once, within their share of the budget. Strategies whose passages are written by a model do not support several
# rounds.

# Share of the budget for sets of triplets.
SETS_SHARE = 0.4


def merge(old: Context, new: Context, models: Models) -> Context:
    """Return Merge(C_{t-1}, Retrieve(q_t)), within the budget of `old` and for its question."""
    ranked = [replace(piece, score=1 / turn) for turn, piece in enumerate(in_turn(_pieces(old), _pieces(new)), 1)]
    step = Step("round", new.question, tuple(spans_of(new)))
    # The sets of triplets of both contexts, best first and in turn, that fit into `SETS_SHARE` of the budget.
    both = [[p for p in context.passages if _is_triplet_set(p, context)] for context in (old, new)]
    kept: dict[str, Passage] = {}
    left = SETS_SHARE * old.budget
    for one in in_turn(*both):
        cost = models.count_tokens([render([one]) + SEPARATOR])[0]
        if one.text not in kept and cost <= left:
            kept[one.text], left = one, left - cost
    sets = list(kept.values())
    room = old.budget - sum(models.count_tokens([render([one]) + SEPARATOR for one in sets]) if sets else ())
    merged = pack(old.question, ranked, room, models, "document", [*old.trace, step])
    # Sets are dropped from the end until the rendered text fits the budget.
    for count in range(len(sets), 0, -1):
        passages = (*merged.passages, *sets[:count])
        text = render(passages)
        tokens = models.count_tokens([text])[0]
        if tokens <= old.budget:
            merged = replace(merged, passages=passages, text=text, tokens=tokens)
            break
    merged = replace(merged, budget=old.budget)
    return replace(merged, strategy=old.strategy, usage=old.usage + new.usage).merged_from([old, new])


def _is_triplet_set(passage: Passage, context: Context) -> bool:
    return context.reading is not None and not passage.verbatim


def in_turn(old: Sequence[Piece], new: Sequence[Piece]) -> Iterator[Piece]:
    return (piece for pair in zip_longest(old, new) for piece in pair if piece is not None)


def _pieces(context: Context) -> list[Candidate]:
    """Return the context's stretches of text as candidates, those of the best passage first."""
    ranked = best_first(p for p in context.passages if not _is_triplet_set(p, context))
    pieces: list[Candidate] = []
    for p in ranked:
        if not p.verbatim:
            problem = f"{context.strategy} writes its own passages, which cannot be merged over several rounds"
            raise UsageError(problem, "use one round, or a strategy that quotes the documents")
        for span, text in p.parts():
            fragment = Fragment(span.doc_id, p.title, p.headings, span.start, span.end, span.start, text)
            pieces.append(Candidate((fragment,), p.score))
    return pieces


# The question q_t of a further round (MacRAG A.9, after IterDRAG and chain-of-RAG).
#
# With a chat model, the model names the missing fact. Without one, the next search is for a name: the first capitalised name in
# the best evidence that the question does not mention, with the words of the question that the sentence around the name does not
# hold. "When was the director of Jaws born?" finds "Jaws was directed by Steven Spielberg", and the next search is "Steven
# Spielberg director born".

_PROMPT = """\
You plan a search. A question is to be answered from documents, and some passages have been found. Say what to search for
next: one short question about the one fact that is missing and that the passages make it possible to ask for by name.
Write this question and nothing else. If the passages already hold all that is needed, write exactly {nothing}.

{data}"""
# The question is short, but a model may think first.
_TOKENS = 512
# Sentences with the most words of the question that are searched for names.
_SENTENCES = 12
_NAME = re.compile(r"[A-Z][\w’'-]*(?:\s+(?:(?:of|the|de|von|van|der|la|del|di|da)\s+){0,2}[A-Z][\w’'-]*)*")
_WORD = re.compile(r"[\w’'-]+")


def next_question(
    question: str, asked: Sequence[str], context: Context, models: Models, document: DocumentLookup
) -> tuple[str | None, Usage]:
    """Return q_t and the usage. q_t is None if nothing is left to ask. `asked` are q_1 to q_(t-1)."""
    if models.chat is None:
        return by_name(question, asked, context), Usage()
    chat, count_tokens = models.chat, models.count_tokens
    code = code_for([question, *asked, context.text])
    limit = min(_TOKENS, chat.window // 4)
    frame = _prompt(question, asked, [], code)
    sources = fit(
        base_sources(context, document),
        int(0.95 * chat.window) - limit - sum(count_tokens([message.text for message in frame])),
        lambda sources: count_tokens([quoted_source(source, code) + "\n\n" for source in sources]) if sources else [],
    )
    reply = run(chat.complete(_prompt(question, asked, sources, code), max_tokens=limit))
    lines = [line.strip(' \t-*"“”') for line in reply.text.strip().splitlines() if line.strip()]
    if not lines:
        return None, reply.usage + Usage(unread=1)
    wanted = lines[0]
    repeated = one_line(wanted.casefold()) in {one_line(q.casefold()) for q in asked}
    return None if wanted.strip(".`_ ").upper() == NOTHING or repeated else wanted, reply.usage


def _prompt(question: str, asked: Sequence[str], sources: Sequence[Source], code: str) -> list[Message]:
    # A model wrote all searches but the first, and perhaps that one too.
    searched = quotation("already searched for", "\n".join(f"- {one_line(q)}" for q in asked), code)
    texts = [*(quoted_source(source, code) for source in sources), searched, f"Question: {question}"]
    return turn(_PROMPT.format(nothing=NOTHING, data=warning()), texts, code)


def by_name(question: str, asked: Sequence[str], context: Context) -> str | None:
    """Return the next search for a name, or None if the evidence mentions no new name."""
    wanted = content_terms(question)
    known = {word.casefold() for text in (question, *asked) for word in _WORD.findall(text)}
    # The sentences with the most words of the question. Ties are in the order of the passages' scores.
    ranked = best_first(context.passages)
    sentences = [passage.text[start:end] for passage in ranked for start, end in split_sentences(passage.text)]
    best = sorted(sentences, key=lambda sentence: -len(wanted & content_terms(sentence)))[:_SENTENCES]
    for sentence in (one for one in best if wanted & content_terms(one)):
        for match in _NAME.finditer(sentence):
            name = " ".join(dropwhile(lambda word: word.casefold() in STOP_WORDS, match.group().split()))
            # A single word that begins the sentence is always capitalised, so it does not count.
            if not name or (match.start() == 0 and " " not in name) or name.casefold() in STOP_WORDS:
                continue
            if not {word.casefold() for word in _WORD.findall(name)} <= known:
                # The name and the words of the question that its sentence does not hold.
                held = content_terms(sentence)
                words = _WORD.findall(question)
                left = [word for word in words if (terms := content_terms(word)) and not terms <= held]
                return " ".join([name, *left])
    return None
