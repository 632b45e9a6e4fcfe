"""Made questions, and their file: JSON lines for `eval` and `tune`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from mergewise.errors import UsageError
from mergewise.evaluate.question_sets import Evidence
from mergewise.extend import span_json
from mergewise.types import JsonDict, frozen

MADE = "made "
"""Prefix of the kind of a made question in a file."""


@frozen
class MadeQuestion:
    """A made question. `made` names its author: "rules", or the spec of the chat model. Heading questions have no `answers`."""

    text: str
    answers: tuple[str, ...]
    evidence: Evidence
    kind: Literal["slot", "definition", "heading", "written"]
    made: str = "rules"

    def as_dict(self, number: int) -> JsonDict:
        return {
            "id": f"made-{number:04}",
            "question": self.text,
            "answers": list(self.answers),
            "evidence": [{**span_json(span), "text": text} for span, text in self.evidence],
            "kind": f"{MADE}{self.kind}",
            "made": self.made,
        }


def write_questions(path: Path, questions: Sequence[MadeQuestion]) -> None:
    """Write questions to a file, one JSON object per line.

    Args:
        path: the file. An existing file is replaced.
        questions: the questions. Their ids are numbered from 1.

    Raises:
        UsageError: if the file cannot be written.
    """
    lines = (json.dumps(question.as_dict(number), ensure_ascii=False) for number, question in enumerate(questions, 1))
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "name a file in an existing folder") from None
