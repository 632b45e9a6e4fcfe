"""Question sets that people write: a CSV table or JSON lines with a question and its answer, asked of an index that stands.

Columns are found by name, in any case: `question` and `answer` (or `answers`), and if there are any `id` and `evidence`. Several
answers are a JSON list, or stand with `|` between them. `evidence` is the text that a context must hold, or a JSON list of
such texts; where a question has none, its evidence is not judged.

A question whose cell `answer` is empty, or whose list of answers is, has no answer in the documents, unless there is evidence. So
has one that is marked: `is_impossible` is true, as in SQuAD 2.0, or `answerable` is false. Answers may also be the object of
SQuAD, `{"text": [...]}`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mergewise.errors import UsageError
from mergewise.evaluate.tasks import Evidence, Question, Task
from mergewise.ranges import short_repr
from mergewise.types import Span

_ANSWERS = ("answer", "answers")
# what it means where such a column is true
_MARKS = {"answerable": True, "is_impossible": False}
_TRUE, _FALSE = {"true", "yes", "1"}, {"false", "no", "0"}
_NEEDED = "each line needs a question and an answer; an empty answer says that the documents have none"


def load_table(path: Path) -> Task:
    """The questions of one file; `UsageError` names the line that cannot be read."""
    try:
        rows = list(_json_lines(path) if path.suffix.lower() == ".jsonl" else _table(path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} cannot be read: {error}", "a CSV table or JSON lines, in UTF-8") from None
    if not rows:
        raise UsageError(f"{path} has no questions", "it needs the columns question and answer")
    return Task(path.stem, (), tuple(_question(path, line, row) for line, row in rows))


def _table(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else _delimiter(path))
        names = [name.strip().lower() for name in rows.fieldnames or ()]
        if "question" not in names or not set(_ANSWERS) & set(names):
            raise UsageError(
                f"{path} lacks the columns question and answer", f"it has: {', '.join(names) or 'nothing'}"
            )
        rows.fieldnames = names
        for row in rows:
            if any(value for value in row.values()):
                # a line that ends before a column says nothing of it
                yield rows.line_num, {name: value for name, value in row.items() if value is not None}


def _delimiter(path: Path) -> str:
    """A comma, or the semicolon that spreadsheets write where the comma is the decimal sign: whichever parts the header."""
    with path.open(encoding="utf-8-sig") as file:
        header = file.readline()
    return ";" if header.count(";") > header.count(",") else ","


def _json_lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with path.open(encoding="utf-8-sig") as file:
        for line, text in enumerate(file, 1):
            if text.strip():
                yield line, _object(path, line, text)


def _object(path: Path, line: int, text: str) -> Mapping[str, Any]:
    try:
        row = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{path}, line {line}: {error}", "each line is a JSON object") from None
    if not isinstance(row, dict):
        raise UsageError(f"{path}, line {line} is no JSON object", '{"question": "...", "answer": "..."}')
    return {str(key).lower(): value for key, value in row.items()}


def _question(path: Path, line: int, row: Mapping[str, Any]) -> Question:
    text = row.get("question")
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{path}, line {line} has no question", _NEEDED)
    answers = next((found for name in _ANSWERS if (found := _several(_texts(row.get(name)), "|"))), ())
    evidence = _evidence(row.get("evidence"))
    answerable = _is_answerable(path, line, row)
    if answerable is False:
        answers, evidence = (), None
    elif not answers and not evidence and (answerable or not set(_ANSWERS) & row.keys()):
        raise UsageError(f"{path}, line {line} has no answer", _NEEDED)
    return Question(str(row.get("id") or line), text.strip(), answers, evidence)


def _texts(value: object) -> object:
    """The texts of answers that come as SQuAD has them, with their offsets beside them."""
    return value.get("text") if isinstance(value, dict) else value


def _is_answerable(path: Path, line: int, row: Mapping[str, Any]) -> bool | None:
    """What the row says of itself; None where it says nothing."""
    for name, meaning in _MARKS.items():
        mark = "" if row.get(name) is None else str(row[name]).strip().lower()
        if mark and mark not in _TRUE | _FALSE:
            raise UsageError(f"{path}, line {line}: {name} is {short_repr(row[name])}", "write true or false")
        if mark:
            return (mark in _TRUE) is meaning
    return None


def _evidence(value: object) -> Evidence | None:
    """Gold texts; where one comes as the object of a question set, with its document and offsets, its text and document count."""
    pieces = value if isinstance(value, list) else _several(value, None)
    objects = [piece if isinstance(piece, dict) else {"text": piece} for piece in pieces]
    texts = [(str(piece.get("doc") or ""), str(piece.get("text", ""))) for piece in objects]
    found = tuple((Span(document, 0, len(text)), text) for document, text in texts if text.strip())
    return found or None


def _several(value: object, separator: str | None) -> tuple[str, ...]:
    """A JSON list, or one text, parted by the separator where there is one."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        # a text may begin with a bracket, too
        with suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, str):
        value = value.split(separator) if separator else [value]
    if not isinstance(value, list):
        value = [] if value is None else [value]
    return tuple(text for piece in value if (text := str(piece).strip()))
