"""Question sets that people write: a CSV table or JSON lines with a question and its answer, asked of an index that stands.

Columns are found by name, in any case: `question` and `answer` (or `answers`), and if there are any `id`, `evidence`, `kind`,
`hops`, `cluster` and `gold_docs`. Several answers are a JSON list, or stand with `|` between them; so do several `gold_docs`.
`evidence` is the text that a context must hold, or a JSON list of such texts; where a question has none, its evidence is not
judged.

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
from mergewise.evaluate.loaders.rows import BadRow, Sample, SetReader, bare_name, is_lines, open_text
from mergewise.evaluate.question_sets import Evidence, Question, QuestionSet
from mergewise.ranges import short_repr
from mergewise.types import Span

_ANSWERS = ("answer", "answers")
# what it means where such a column is true
_MARKS = {"answerable": True, "is_impossible": False}
_TRUE, _FALSE = {"true", "yes", "1"}, {"false", "no", "0"}
_TABLES = (".csv", ".tsv")


def load_table(path: Path, reader: SetReader) -> QuestionSet:
    """The questions of one file."""
    try:
        lines = list(_table(path) if _is_table(path) else reader.records(path))
    except csv.Error as error:
        raise UsageError(f"{path} cannot be read: {error}", "a CSV table or JSON lines, in UTF-8") from None
    named = [(place, {"id": place.rsplit(" ", 1)[1], **_lower(row)}) for place, row in lines]
    return reader.question_set(path, bare_name(path), (), reader.converted(path, named, _question))


def _is_table(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(_TABLES)


def _lower(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with names in lower case, without an id that says nothing."""
    return {str(key).lower(): value for key, value in row.items() if str(key).lower() != "id" or value}


def _table(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    with open_text(path, newline="") as file:
        rows = csv.DictReader(file, delimiter=_delimiter(path))
        names = [name.strip().lower() for name in rows.fieldnames or ()]
        if "question" not in names or not set(_ANSWERS) & set(names):
            raise UsageError(
                f"{path} lacks the columns question and answer", f"it has: {', '.join(names) or 'nothing'}"
            )
        rows.fieldnames = names
        for row in rows:
            if any(value for value in row.values()):
                # a line that ends before a column says nothing of it
                yield f"line {rows.line_num}", {name: value for name, value in row.items() if value is not None}


def _delimiter(path: Path) -> str:
    """A comma, or the semicolon that spreadsheets write where the comma is the decimal sign: whichever parts the header."""
    if ".tsv" in path.name.lower():
        return "\t"
    with open_text(path) as file:
        header = file.readline()
    return ";" if header.count(";") > header.count(",") else ","


def _question(row: Mapping[str, Any]) -> Question:
    text = row.get("question")
    if not isinstance(text, str) or not text.strip():
        raise BadRow("has no question")
    answers = next((found for name in _ANSWERS if (found := _several(_texts(row.get(name)), "|"))), ())
    evidence, documents = _evidence(row.get("evidence")), _several(row.get("gold_docs"), "|")
    answerable = _is_answerable(row)
    if answerable is False:
        answers, evidence, documents = (), None, ()
    elif not answers and not evidence and not documents and (answerable or not set(_ANSWERS) & row.keys()):
        raise BadRow("has no answer; an empty answer says that the documents have none")
    return Question(
        str(row["id"]),
        text.strip(),
        answers,
        evidence,
        kind=str(row.get("kind") or row.get("type") or ""),
        hops=int(hops) if (hops := row.get("hops")) else None,
        gold_docs=documents,
        cluster=str(row.get("cluster") or ""),
    )


def _texts(value: object) -> object:
    """The texts of answers that come as SQuAD has them, with their offsets beside them."""
    return value.get("text") if isinstance(value, dict) else value


def _is_answerable(row: Mapping[str, Any]) -> bool | None:
    """What the row says of itself; None where it says nothing."""
    for name, meaning in _MARKS.items():
        mark = "" if row.get(name) is None else str(row[name]).strip().lower()
        if mark and mark not in _TRUE | _FALSE:
            raise BadRow(f"has {short_repr(row[name])} for {name}, which is true or false")
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


def is_table(sample: Sample) -> bool:
    """Check for a table or lines with questions. Also accept lines that begin with a broken one, so that it is named."""
    is_broken = not sample.record and is_lines(sample.path)
    return _is_table(sample.path) or is_broken or "question" in _lower(sample.record)
