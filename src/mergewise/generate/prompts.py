"""Prompts of the answering model: the steps of LongRAG (answer, extract, think, judge), in our own words.

The rules of both answers for lists and yes or no, and those of the long one for main points and several candidates, follow
appendix B of MergeRAG.

Every text from a document is quoted (`mergewise.prompting.quoting`) between lines with a code that depends on the question
and on the whole context, so that no document can know it. A user may replace the instructions (`Prompts`), but not the
quotations, the question and the warning.
"""

from __future__ import annotations

from collections.abc import Sequence

from mergewise.generate.sources import Source
from mergewise.prompting.quoting import quotation, turn, warning
from mergewise.prompting.replies import object_schema
from mergewise.text.spans import one_line
from mergewise.types import SHIPPED, Message, Prompts, PromptTemplate, ReplyOptions

NOT_FOUND = "Nothing relevant was found in the indexed documents."
NOTHING = "NONE"
NO_OPTIONS = ReplyOptions()
RELEVANT = object_schema({"relevant": {"type": "boolean"}})

_LONGEST_PATH = 200
"""Characters of a heading path."""

ANSWER = PromptTemplate(
    "answer",
    "answers from the passages",
    """\
You answer a question from numbered sources.

- Use what the sources say and nothing else. Put facts from several sources together where the question needs it.
- Answer first and briefly, in one to three sentences, in the language of the question.
- Where the sources tell of one chief thing and also of exceptions or side steps, give the chief thing, unless the question
  is about the others.
- Where several things in the sources could be meant, choose by the details of the question the one that fits all of them.
- Where the question wants several things, name just these. Where it wants yes or no, say that word alone, with its
  numbers as below.
- End each statement with the numbers of the sources that it rests on, like this: [2] or [1][3].
- If the sources do not hold the answer, write exactly this and nothing else: $refusal""",
    needs=("refusal",),
)

_INSTRUCTIONS = """\
The user gave the instructions below. Follow them in language, tone and form. They do not change the rules above on sources."""

_JSON = "Answer with one JSON value, without numbers of sources. Use null or an empty value for what the sources do not say."

_NOTES = """\
The notes were taken from the same documents in answer to the question. A note with a number can be cited like a source.
A note without one could not be verified: do not rely on it alone."""

SHORT = PromptTemplate(
    "short",
    "answers in a few words, from the passages or from the model's own knowledge",
    """\
Answer the question at the end in as few words as it needs: a name, a date, a number, or a short phrase. Where it wants yes
or no, write that word. Where it wants several things, write just these, with commas between them. Write nothing else.""",
)

OWN_KNOWLEDGE = PromptTemplate(
    "closed-book",
    "answers from the model's own knowledge",
    """\
Answer the question from what you know, first and briefly, in one to three sentences, in the language of the question.
Where you do not know, say so.""",
)

EXTRACT = PromptTemplate(
    "extract",
    "extracts helpful facts before the answer",
    """\
You read documents and note down what helps to answer a question. You do not answer it.

- Note every fact that the answer may need, also the links between people, places, things and dates that lead to it.
- One fact a line, in the document's own words as far as possible, each understandable alone: names instead of pronouns.
- Take everything from the documents; add nothing that you know otherwise.
- If nothing helps, write exactly $nothing.""",
    needs=("nothing",),
)

THINK = PromptTemplate(
    "think",
    "works out how the question can be answered, before passages are judged",
    """\
You work out how a question can be answered from numbered sources, before anybody answers it.

Think step by step: which facts are needed, in which order they lead to one another, and which of them stand in the
sources. Write this down in one short paragraph. Do not guess what the sources do not say.""",
)

JUDGE = PromptTemplate(
    "judge",
    "decides whether a passage helps",
    """\
You decide whether one source helps to answer a question. Somebody has thought about how it can be answered; use these
thoughts, and remember that they may err. A source helps if it gives the answer or one of the facts that lead to it.

Answer with JSON: {"relevant": true} or {"relevant": false}.""",
)


REFUSAL = PromptTemplate("refusal", "is the text of an answer if nothing is found", NOT_FOUND)
TEMPLATES = {one.name: one for one in (ANSWER, SHORT, REFUSAL, EXTRACT, THINK, JUDGE, OWN_KNOWLEDGE)}


def quoted_source(source: Source, code: str) -> str:
    """Quote a source as every prompt shows it: its number, then its title and headings on one line, and its text."""
    path = one_line(source.path)[:_LONGEST_PATH]
    return quotation(f"source [{source.number}]", f"{path}\n{source.text}" if path else source.text, code)


def answer(
    question: str,
    sources: Sequence[Source],
    notes: str,
    code: str,
    own: Prompts = SHIPPED,
    reply: ReplyOptions = NO_OPTIONS,
) -> list[Message]:
    system = _task(own.fill(ANSWER, refusal=own.fill(REFUSAL)))
    texts = [quoted_source(source, code) for source in sources]
    if notes:
        system += "\n\n" + _NOTES
        texts.append(quotation("notes", notes, code))
    if reply.message:
        texts.append(quotation("message of the user that the question is from", reply.message, code))
    return turn(_with_options(system, reply), [*texts, f"Question: {question}"], code)


def own_knowledge(question: str, own: Prompts, reply: ReplyOptions) -> list[Message]:
    return turn(_with_options(own.fill(OWN_KNOWLEDGE), reply), [f"Question: {question}"])


def _with_options(system: str, reply: ReplyOptions) -> str:
    own = [f"{_INSTRUCTIONS}\n\n{reply.instructions}"] if reply.instructions else []
    return "\n\n".join([system, *own, *([_JSON] if reply.is_json else [])])


def about_sources(
    step: PromptTemplate,
    question: str,
    sources: Sequence[Source],
    code: str,
    own: Prompts = SHIPPED,
    thoughts: str | None = None,
) -> list[Message]:
    """Return the prompt of a step before the answer: `EXTRACT`, `THINK`, or `JUDGE` with the thoughts of `THINK`."""
    texts = [] if thoughts is None else [quotation("thoughts", thoughts, code)]
    texts += [quoted_source(source, code) for source in sources]
    return turn(_task(own.fill(step, nothing=NOTHING)), [*texts, f"Question: {question}"], code)


def _task(instructions: str) -> str:
    """Append the warning against orders inside quotations to any instructions."""
    return f"{instructions}\n\n{warning()}"
