"""The two prompts of AED-RAG (Table 6), in our own words: a short answer from what stands before it, and a background passage.

All streams of a question, and what they are compared with, get the same prompt; only what is quoted in it differs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mergewise.generate.prompts import NOTHING, quoted_source
from mergewise.generate.sources import Source
from mergewise.prompting.quoting import quotation, turn, warning
from mergewise.types import Message

BACKGROUND_TOKENS = 160
"""What a background passage may take: a hundred words and some room."""

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
"""What a summary may take."""

_NONE = re.compile(rf"[\W_]*{NOTHING}\b[\W_]*\Z")
_NOTHING = re.compile(r"[\W_]*n\s*/\s*a\b", re.IGNORECASE)


def answer(question: str, sources: Sequence[Source], code: str) -> list[Message]:
    return _asking(question, [quoted_source(source, code) for source in sources], code)


def answer_from_background(question: str, background: str, code: str) -> list[Message]:
    return _asking(question, [quotation("background", background, code)], code)


def answer_from_all(question: str, texts: Sequence[Source | str], code: str) -> list[Message]:
    """From passages and backgrounds, in this order."""
    quoted = (
        quotation("background", text, code) if isinstance(text, str) else quoted_source(text, code) for text in texts
    )
    return _asking(question, list(quoted), code)


def answer_from_summary(question: str, summary: str, code: str) -> list[Message]:
    return _asking(question, [quotation("summary", summary, code)], code)


def summary(question: str, sources: Sequence[Source], code: str) -> list[Message]:
    system = _SUMMARY.format(nothing=NOTHING, data=warning(code))
    return turn(system, [*(quoted_source(source, code) for source in sources), f"Question: {question}"])


def says_nothing(summary: str) -> bool:
    """Whether a summary says that nothing helps, or is empty."""
    return not summary.strip() or _NONE.match(summary) is not None


def _asking(question: str, texts: Sequence[str], code: str) -> list[Message]:
    system = _ANSWER.format(data=warning(code)) if texts else _ALONE
    return turn(system, [*texts, f"Question: {question}"])


def background(question: str) -> list[Message]:
    return turn(_BACKGROUND, [f"Question: {question}"])


def knows_nothing(background: str) -> bool:
    """Whether the model says "N/A", also with an apology behind it, or nothing at all."""
    return not background.strip() or _NOTHING.match(background) is not None
