"""Questions that a chat model writes about sections.

Code checks each question: its quotation is in the section word for word, its answer is in the quotation, and it can be understood
on its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from mergewise import concurrency
from mergewise.errors import ModelError
from mergewise.evaluate.synthetic.records import MadeQuestion
from mergewise.evaluate.synthetic.sections import SourceSection
from mergewise.evaluate.words import normalise
from mergewise.extend import Fields, code_for, heading_path, object_schema, quotation, records_in, turn, warning
from mergewise.protocols import ChatModel
from mergewise.types import Span

AT_ONCE = 8
TOKENS = 300
LEAST, MOST = 200, 6_000
"""Minimum and maximum of characters shown to the model. Longer sections are truncated, shorter ones skipped."""
TRIES = 40
"""Number of questions in a row that may fail the checks before making stops."""
FIELDS: Fields = {"question": ("text", ()), "answer": ("text", ()), "quote": ("text", ("evidence", "quotation"))}
_TEXT = {"type": "string"}
SCHEMA = object_schema({"question": _TEXT, "answer": _TEXT, "quote": _TEXT})
TASK = """\
You write a question that somebody might ask who does not know the text below, and that it answers.

- Ask in the language of the text, and in other words than it uses, as somebody asks who has never seen it.
- Name what the question is about: it is read alone. Do not speak of "the text" or "the passage".
- "answer" is as short as it can be, in the words of the text.
- "quote" is the one sentence of the text that holds the answer, copied letter by letter.

Answer with a JSON object that has the fields "question", "answer" and "quote"."""
_ABOUT_THE_TEXT = re.compile(
    r"\b(?:the|this|le|ce|der|dieser|el|este) (?:\w+ )?(?:text|passage|excerpt|section|document|texte|extrait|abschnitt|texto)\b",
    re.IGNORECASE,
)


def written_questions(sections: Iterator[SourceSection], chat: ChatModel) -> Iterator[MadeQuestion]:
    """Yield the questions that pass the checks. Raises ModelError if too many in a row fail them."""
    failed = 0
    long_enough = (section for section in sections if len(section_text(section)[1]) >= LEAST)
    while batch := list(islice(long_enough, AT_ONCE)):
        asked = []
        for section in batch:
            _, text = section_text(section)
            name = heading_path(section.title, section.headings)
            code = code_for([text, name])
            messages = turn(f"{TASK}\n\n{warning()}", [quotation(name, text, code)], code)
            asked.append(chat.complete(messages, max_tokens=TOKENS, schema=SCHEMA))
        for section, reply in zip(batch, concurrency.run(concurrency.together(*asked)), strict=True):
            question = checked_question(reply.text, section, chat.spec)
            failed = 0 if question is not None else failed + 1
            if question is not None:
                yield question
        if failed >= TRIES:
            raise ModelError(
                f"invalid questions by {chat.spec}: {failed} in a row without a quotation of the text or without an answer",
                "name another chat model, or leave out --chat",
            )


def section_text(section: SourceSection) -> tuple[int, str]:
    """Return the offset of a section in its document, and the part of its text for the model."""
    start = section.leaves[0].body
    return start, section.text[start : min(section.leaves[-1].end, start + MOST)]


def checked_question(reply: str, section: SourceSection, spec: str) -> MadeQuestion | None:
    """Return the question of a reply, or None if it fails the checks."""
    record = next(iter(records_in(reply, FIELDS).items), None)
    if not isinstance(record, dict):
        return None
    text, answer, quote = (" ".join(str(record.get(name) or "").split()) for name in FIELDS)
    start, source = section_text(section)
    found = re.search(r"\s+".join(map(re.escape, quote.split())), source) if len(quote.split()) > 2 else None
    if found is None or not answer or normalise(answer) not in normalise(quote):
        return None
    if len(text.split()) < 3 or _ABOUT_THE_TEXT.search(text) or normalise(answer) in normalise(text):
        return None
    span = Span(section.doc_id, start + found.start(), start + found.end())
    return MadeQuestion(text, (answer,), ((span, found[0]),), "written", spec)
