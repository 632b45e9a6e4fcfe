"""The two prompts of AED-RAG (Table 6), in our own words: a short answer from the quoted texts, and a background passage.

All streams of a question and all baselines use the same prompt. Only the quoted texts differ.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from mergewise.generate.prompts import NOTHING, quoted_source
from mergewise.generate.sources import Source
from mergewise.prompting.quoting import quotation, turn, warning
from mergewise.types import Message

BACKGROUND_TOKENS = 160
"""Maximum tokens of a background passage: a hundred words and a margin."""

_ANSWER = """\
Answer the question at the end in as few words as it needs: a name, a date, a number, or a short phrase. Write nothing else.

{data}"""

_ALONE = """\
Answer the question in as few words as it needs: a name, a date, a number, or a short phrase. Write nothing else."""

_BACKGROUND = """\
Write what one should know to answer the question below: about a hundred words of background, and nothing beside them.
Where you do not know, or are not sure, write N/A and nothing else."""

_SUMMARY = """\
Sum up, in one or two sentences, what the texts say that helps to answer the question at the end. Do not answer it.
Where nothing in them helps, write {nothing} and nothing else.

{data}"""

SUMMARY_TOKENS = 80
"""Maximum tokens of a summary."""

_NONE = re.compile(rf"[\W_]*{NOTHING}\b[\W_]*\Z")
_NOTHING = re.compile(r"[\W_]*n\s*/\s*a\b", re.IGNORECASE)


def answer(
    question: str, texts: Sequence[Source | str], code: str, written: Literal["background", "summary"] = "background"
) -> list[Message]:
    """Ask for an answer from passages and texts that a model has `written`, in this order. `texts` may be empty."""
    quoted = [quotation(written, text, code) if isinstance(text, str) else quoted_source(text, code) for text in texts]
    return turn(_ANSWER.format(data=warning(code)) if quoted else _ALONE, [*quoted, f"Question: {question}"])


def summary(question: str, sources: Sequence[Source], code: str) -> list[Message]:
    system = _SUMMARY.format(nothing=NOTHING, data=warning(code))
    return turn(system, [*(quoted_source(source, code) for source in sources), f"Question: {question}"])


def says_nothing(summary: str) -> bool:
    """Check whether a summary is empty or states that nothing helps."""
    return not summary.strip() or _NONE.match(summary) is not None


def background(question: str) -> list[Message]:
    return turn(_BACKGROUND, [f"Question: {question}"])


def knows_nothing(background: str) -> bool:
    """Check whether a background is empty or begins with "N/A"."""
    return not background.strip() or _NOTHING.match(background) is not None
