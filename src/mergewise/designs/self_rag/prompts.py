"""Prompts that replace Self-RAG's reflection tokens (Asai et al. 2024, Table 1), in our own words.

The model answers each with a word from a short list. The words of a list differ in their first token.
"""

from __future__ import annotations

from collections.abc import Mapping

from mergewise.generate.prompts import quoted_source
from mergewise.generate.sources import Source
from mergewise.prompting.quoting import quotation, turn, warning
from mergewise.prompting.replies import object_schema
from mergewise.types import Message

RETRIEVE: Mapping[str, float] = {"Yes": 1.0, "No": 0.0}
RELEVANT: Mapping[str, float] = {"Yes": 1.0, "No": 0.0}
SUPPORTED: Mapping[str, float] = {"Full": 1.0, "Part": 0.5, "None": 0.0}
USEFUL: Mapping[str, float] = {"1": -1.0, "2": -0.5, "3": 0.0, "4": 0.5, "5": 1.0}
"""Answer words of each prompt and their values: the critique scores of section 3.3."""

_ANSWER = "Answer the question at the end in as few words as it needs: a name, a date, a number, or a short phrase."
_ALONE = f"{_ANSWER} Write nothing else."
_FROM = f"{_ANSWER} Go by the source. Write nothing else."
_RETRIEVE = "Would documents help you to answer the question? Write Yes or No, and nothing else."
_RELEVANT = "Does the source say something that helps to answer the question? Write Yes or No, and nothing else."
_SUPPORTED = """\
How much of the answer does the source support? Write Full where it says all of it, Part where it says some of it, None where it
says nothing of it; and nothing else."""
_USEFUL = """\
How useful is the answer to somebody who asks the question? Write a number from 1 (no answer to it) to 5 (a full and fitting
answer), and nothing else."""
_GRADED = f"""\
{_ANSWER} Go by the source. Then judge: whether the source helps to answer it (relevant), how much of your answer the source
supports (support: full, part or none), and how useful your answer is (useful: from 1, no answer to it, to 5, a full and fitting
answer). Answer with JSON: {{"answer": "...", "relevant": true, "support": "full", "useful": 5}}"""

SCHEMA = object_schema(
    {
        "answer": {"type": "string"},
        "relevant": {"type": "boolean"},
        "support": {"type": "string", "enum": ["full", "part", "none"]},
        "useful": {"type": "integer", "enum": [1, 2, 3, 4, 5]},
    }
)


def retrieve(question: str) -> list[Message]:
    return turn(_RETRIEVE, [f"Question: {question}"])


def alone(question: str) -> list[Message]:
    return turn(_ALONE, [f"Question: {question}"])


def answer(question: str, source: Source, code: str) -> list[Message]:
    return _with_source(_FROM, source, code, f"Question: {question}")


def graded(question: str, source: Source, code: str) -> list[Message]:
    """Ask for the answer and its grades at once, for a model without readable probabilities."""
    return _with_source(_GRADED, source, code, f"Question: {question}")


def relevant(question: str, source: Source, code: str) -> list[Message]:
    return _with_source(_RELEVANT, source, code, f"Question: {question}")


def supported(question: str, source: Source, draft: str, code: str) -> list[Message]:
    return _with_source(_SUPPORTED, source, code, f"Question: {question}", quotation("answer", draft, code))


def useful(question: str, draft: str, code: str) -> list[Message]:
    return turn(f"{_USEFUL}\n\n{warning(code)}", [f"Question: {question}", quotation("answer", draft, code)])


def _with_source(task: str, source: Source, code: str, *texts: str) -> list[Message]:
    return turn(f"{task}\n\n{warning(code)}", [quoted_source(source, code), *texts])
