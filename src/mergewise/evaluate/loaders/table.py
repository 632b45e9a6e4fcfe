"""Hand-written question sets: a CSV table or JSON lines with questions and answers about the documents of an existing index.

Columns are found by name, in any case:

- `question` and `answer` (or `answers`) are required. `id`, `evidence`, `kind`, `hops`, `cluster` and `gold_docs` are optional.
- Several answers are a JSON list, or are separated by `|`, and so are several `gold_docs`. Answers may also be an object as in
  SQuAD, `{"text": [...]}`.
- `evidence` is a text that a context must hold, or a JSON list of such texts. Without it, evidence is not judged.

A question is unanswerable if its answers are empty and it has no evidence and no `gold_docs`. It is also unanswerable if
`is_impossible` is true, as in SQuAD 2.0, or `answerable` is false.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mergewise.errors import UsageError
from mergewise.evaluate.loaders.rows import BadRow, Sample, SetReader, is_lines, open_text
from mergewise.evaluate.question_sets import Evidence, Question, QuestionSet
from mergewise.extend import short_repr
from mergewise.types import Json, JsonDict, Span

_ANSWERS = ("answer", "answers")
# columns that mark a question, and whether "true" means answerable
_MARKS = {"answerable": True, "is_impossible": False}
_TRUE, _FALSE = {"true", "yes", "1"}, {"false", "no", "0"}
_TABLES = (".csv", ".tsv")


def load_table(path: Path, reader: SetReader) -> QuestionSet:
    """Load the questions of a file."""
    try:
        lines = list(_table(path) if _is_table(path) else reader.records(path))
    except csv.Error as error:
        raise UsageError(f"cannot read {path}: {error}", "write a CSV table or JSON lines, in UTF-8") from None
    named = [(place, {"id": place.rsplit(" ", 1)[1], **_lower(row)}) for place, row in lines]
    return reader.question_set(path, (), named, _question, may_repeat_ids=True)


def _is_table(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(_TABLES)


def _lower(row: Json) -> JsonDict:
    """Return the row with names in lower case, without an empty id."""
    return {str(key).lower(): value for key, value in row.items() if str(key).lower() != "id" or value}


def _table(path: Path) -> Iterator[tuple[str, Json]]:
    with open_text(path, newline="") as file:
        header = file.readline()
        file.seek(0)
        # spreadsheets write a semicolon in locales with a decimal comma
        written = ";" if header.count(";") > header.count(",") else ","
        rows = csv.DictReader(file, delimiter="\t" if ".tsv" in path.name.lower() else written)
        names = [name.strip().lower() for name in rows.fieldnames or ()]
        if "question" not in names or not set(_ANSWERS) & set(names):
            raise UsageError(
                f"missing columns question and answer in {path}",
                f"add them to its columns: {', '.join(names) or 'none'}",
            )
        rows.fieldnames = names
        for row in rows:
            if any(value for value in row.values()):
                # a short line lacks its last columns, rather than leaving them empty
                yield f"line {rows.line_num}", {name: value for name, value in row.items() if value is not None}


def _question(row: Json) -> Question:
    text = row.get("question")
    if not isinstance(text, str):
        raise BadRow("missing question")
    # answers in SQuAD's form also hold offsets
    written = (row.get(name) for name in _ANSWERS)
    texts = (_several(one.get("text") if isinstance(one, dict) else one, "|") for one in written)
    answers = next(filter(None, texts), ())
    evidence, documents = _evidence(row.get("evidence")), _several(row.get("gold_docs"), "|")
    answerable = _is_answerable(row)
    if answerable is False:
        answers, evidence, documents = (), None, ()
    elif not answers and not evidence and not documents and (answerable or not set(_ANSWERS) & row.keys()):
        raise BadRow("missing answer (leave it empty if the documents have no answer)")
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


def _is_answerable(row: Json) -> bool | None:
    """Return whether the row is marked as answerable, or None without a mark."""
    for name, meaning in _MARKS.items():
        mark = "" if row.get(name) is None else str(row[name]).strip().lower()
        if mark and mark not in _TRUE | _FALSE:
            raise BadRow(f"invalid {name}: {short_repr(row[name])} (expected true or false)")
        if mark:
            return (mark in _TRUE) is meaning
    return None


def _evidence(value: object) -> Evidence | None:
    """Return the gold texts. Objects in the form of a question set give their text and document, but not their offsets."""
    pieces = value if isinstance(value, list) else _several(value, None)
    objects = [piece if isinstance(piece, dict) else {"text": piece} for piece in pieces]
    texts = [(str(piece.get("doc") or ""), str(piece.get("text", ""))) for piece in objects]
    return tuple((Span(document, 0, len(text)), text) for document, text in texts if text.strip()) or None


def _several(value: object, separator: str | None) -> tuple[str, ...]:
    """Return the texts of a list, of a JSON list, or of a text split at the separator."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        # an ordinary text may also begin with a bracket
        with suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, str):
        value = value.split(separator) if separator else [value]
    if not isinstance(value, list):
        value = [] if value is None else [value]
    return tuple(text for piece in value if (text := str(piece).strip()))


def is_table(sample: Sample) -> bool:
    """Check for a table or lines with questions. Accept lines with a broken first line too, so that the error names that line."""
    is_broken = not sample.record and is_lines(sample.path)
    return _is_table(sample.path) or is_broken or "question" in _lower(sample.record)
