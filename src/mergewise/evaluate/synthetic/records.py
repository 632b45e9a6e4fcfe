"""A made question, and how a file of them is written: JSON lines as `eval` and `tune` read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from mergewise.errors import UsageError
from mergewise.evaluate.question_sets import Evidence, Question

QuestionKind: TypeAlias = Literal["slot", "definition", "heading", "written"]
BY_RULES = "rules"
MADE = "made "
"""How the kind of a question begins, in a file, that was made."""


@dataclass(frozen=True, slots=True)
class MadeQuestion:
    """`made` says by what: "rules", or the spec of the chat model. Without `answers`, the evidence as a whole is one."""

    text: str
    answers: tuple[str, ...]
    evidence: Evidence
    kind: QuestionKind
    made: str = BY_RULES

    def as_dict(self, number: int) -> dict[str, Any]:
        return {
            "id": f"made-{number:04}",
            "question": self.text,
            "answers": list(self.answers),
            "evidence": [
                {"doc": span.doc_id, "start": span.start, "end": span.end, "text": text} for span, text in self.evidence
            ],
            "kind": f"{MADE}{self.kind}",
            "made": self.made,
        }

    def as_question(self, number: int) -> Question:
        return Question(f"made-{number:04}", self.text, self.answers, self.evidence, kind=f"{MADE}{self.kind}")


def write_questions(path: Path, questions: Sequence[MadeQuestion]) -> None:
    """One JSON object a line. Raises UsageError where the file cannot be written."""
    lines = (json.dumps(question.as_dict(number), ensure_ascii=False) for number, question in enumerate(questions, 1))
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", "name a file in a folder that exists") from None
