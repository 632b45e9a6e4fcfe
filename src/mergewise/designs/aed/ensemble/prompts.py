"""The two prompts of AED-RAG (Table 6), in our own words: a short answer from the quoted texts, and a background passage.

All streams of a question and all baselines use the same prompt. Only the quoted texts differ.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

from mergewise.designs.aed.triplets.extract import RULES
from mergewise.generate.prompts import NOTHING, SHORT, quoted_source
from mergewise.generate.sources import Source
from mergewise.prompting.quoting import quotation, turn, warning
from mergewise.types import SHIPPED, Message, Prompts, PromptTemplate

Written: TypeAlias = Literal["background", "summary"]
BACKGROUND_TOKENS = 160
"""Maximum tokens of a background passage: a hundred words and a margin."""

BACKGROUND = PromptTemplate(
    "background",
    "writes what the model knows about the question (AED-RAG)",
    """\
Write what one should know to answer the question below: about a hundred words of background, and nothing beside them.
Where you do not know, or are not sure, write N/A and nothing else.""",
)
SUMMARY = PromptTemplate(
    "summary",
    "sums up the passages for the question (RECOMP)",
    """\
Sum up, in one or two sentences, what the texts say that helps to answer the question at the end. Do not answer it.
Where nothing in them helps, write $nothing and nothing else.""",
    needs=("nothing",),
)
PROMPTS = {one.name: one for one in (RULES, BACKGROUND, SUMMARY)}

SUMMARY_TOKENS = 80
"""Maximum tokens of a summary."""

_NONE = re.compile(rf"[\W_]*{NOTHING}\b[\W_]*\Z")
_NOTHING = re.compile(r"[\W_]*n\s*/\s*a\b", re.IGNORECASE)


def answer(
    question: str, texts: Sequence[Source | str], code: str, own: Prompts = SHIPPED, written: Written = "background"
) -> list[Message]:
    """Ask for an answer from passages and texts that a model has `written`, in this order. `texts` may be empty."""
    quoted = [quotation(written, text, code) if isinstance(text, str) else quoted_source(text, code) for text in texts]
    task = own.fill(SHORT)
    asked = f"Question: {question}"
    return turn(f"{task}\n\n{warning()}", [*quoted, asked], code) if quoted else turn(task, [asked])


def summary(question: str, sources: Sequence[Source], code: str, own: Prompts = SHIPPED) -> list[Message]:
    task = f"{own.fill(SUMMARY, nothing=NOTHING)}\n\n{warning()}"
    return turn(task, [*(quoted_source(source, code) for source in sources), f"Question: {question}"], code)


def says_nothing(summary: str) -> bool:
    """Check whether a summary is empty or states that nothing helps."""
    return not summary.strip() or _NONE.match(summary) is not None


def background(question: str, own: Prompts = SHIPPED) -> list[Message]:
    return turn(own.fill(BACKGROUND), [f"Question: {question}"])


def knows_nothing(background: str) -> bool:
    """Check whether a background is empty or begins with "N/A"."""
    return not background.strip() or _NOTHING.match(background) is not None
