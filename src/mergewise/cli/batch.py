"""Many questions from standard input: one question or one JSON object per line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from mergewise.cli.output import say_error, say_json
from mergewise.errors import MergewiseError, UsageError
from mergewise.types import JsonDict, frozen

STANDARD_INPUT = "-"


@frozen
class QuestionLine:
    """A question with its line number. `id` and `where` come from a JSON object. An invalid line has an error."""

    line: int
    question: str
    id: object = None
    where: str | None = None
    error: UsageError | None = None

    @property
    def key(self) -> JsonDict:
        """The JSON fields that identify the question in the output."""
        return {"line": self.line, **({} if self.id is None else {"id": self.id})}


def questions(stream: BinaryIO | Iterable[bytes]) -> Iterator[QuestionLine]:
    """Yield the questions and the invalid lines in their order. Empty lines are skipped."""
    for number, raw in enumerate(stream, 1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            if line.startswith("{"):
                row = json.loads(line)
                question, where = row.get("question"), row.get("where")
                if not isinstance(question, str) or not question.strip():
                    raise ValueError('missing "question" (expected a text)')
                if where is not None and not isinstance(where, str):
                    raise ValueError('invalid "where" (expected a text)')
                yield QuestionLine(number, question, row.get("id"), where)
            elif line:
                yield QuestionLine(number, line)
        except (ValueError, RecursionError) as error:
            hint = "write one question or one JSON object per line"
            yield QuestionLine(number, "", error=UsageError(f"line {number}: invalid question: {error}", hint))


def ask_all(answer: Callable[[QuestionLine], bool], as_json: bool) -> bool:
    """Answer every question of standard input. Return True if all lines were valid and any question found something."""
    found = failed = asked = False
    for entry in questions(sys.stdin.buffer):
        asked = True
        try:
            if entry.error is not None:
                raise entry.error
            found |= answer(entry)
        except MergewiseError as error:
            failed = True
            if as_json:
                question = {"question": entry.question} if entry.error is None else {}
                say_json({**entry.key, **question, "error": error.message, "hint": error.hint}, indent=None)
            say_error(error.message, error.hint)
        sys.stdout.flush()
    if not asked:
        raise UsageError("no question on standard input", "write one question per line")
    return found and not failed
