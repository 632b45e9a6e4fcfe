"""The question q_t of a further round (MacRAG A.9, after IterDRAG and chain-of-RAG).

With a chat model, the model names the missing fact. Without one, the next search is for a name: the first capitalised name in
the best evidence that the question does not mention, with the words of the question that the sentence around the name does not
hold. "When was the director of Jaws born?" finds "Jaws was directed by Steven Spielberg", and the next search is "Steven
Spielberg director born".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import dropwhile

from mergewise.concurrency import run
from mergewise.generate.prompts import NOTHING, quoted_source
from mergewise.generate.sources import DocumentLookup, Source, base_sources, fit
from mergewise.models.record import Models
from mergewise.prompting.quoting import code_for, quotation, turn, warning
from mergewise.text.sentences import split_sentences
from mergewise.text.terms import STOP_WORDS, content_terms
from mergewise.types import Context, Message, Usage

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
    return None if wanted.strip(".`_ ").upper() == NOTHING or _same(wanted, asked) else wanted, reply.usage


def _prompt(question: str, asked: Sequence[str], sources: Sequence[Source], code: str) -> list[Message]:
    # A model wrote all searches but the first, and perhaps that one too.
    searched = quotation("already searched for", "\n".join(f"- {' '.join(q.split())}" for q in asked), code)
    texts = [*(quoted_source(source, code) for source in sources), searched, f"Question: {question}"]
    return turn(_PROMPT.format(nothing=NOTHING, data=warning(code)), texts)


def by_name(question: str, asked: Sequence[str], context: Context) -> str | None:
    """Return the next search for a name, or None if the evidence mentions no new name."""
    wanted = content_terms(question)
    known = {word.casefold() for text in (question, *asked) for word in _WORD.findall(text)}
    for sentence in _evidence(context, wanted):
        for name in _names(sentence):
            if not {word.casefold() for word in _WORD.findall(name)} <= known:
                # The name and the words of the question that its sentence does not hold.
                held = content_terms(sentence)
                words = _WORD.findall(question)
                left = [word for word in words if (terms := content_terms(word)) and not terms <= held]
                return " ".join([name, *left])
    return None


def _evidence(context: Context, wanted: frozenset[str]) -> list[str]:
    """Return the sentences with the most words of the question. Ties are in the order of the passages' scores."""
    ranked = sorted(context.passages, key=lambda passage: -passage.score)
    sentences = [passage.text[start:end] for passage in ranked for start, end in split_sentences(passage.text)]
    best = sorted(sentences, key=lambda sentence: -len(wanted & content_terms(sentence)))[:_SENTENCES]
    return [sentence for sentence in best if wanted & content_terms(sentence)]


def _names(sentence: str) -> Iterator[str]:
    """Yield the names in order. A single word that begins the sentence is always capitalised, so it does not count."""
    for match in _NAME.finditer(sentence):
        name = " ".join(dropwhile(lambda word: word.casefold() in STOP_WORDS, match.group().split()))
        if name and (match.start() > 0 or " " in name) and name.casefold() not in STOP_WORDS:
            yield name


def _same(wanted: str, asked: Sequence[str]) -> bool:
    return " ".join(wanted.casefold().split()) in {" ".join(q.casefold().split()) for q in asked}
