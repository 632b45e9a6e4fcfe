"""BEIR (Thakur et al. 2021): a folder with `corpus.jsonl`, `queries.jsonl` and judgements in `qrels/*.tsv`.

The judgements of the test part are read, else of dev, else of train. Documents above 0 are gold, each worth its grade. Queries
without judgements are none of the set. There are no answers.
"""

from __future__ import annotations

import csv
from pathlib import Path

from mergewise.errors import UsageError
from mergewise.evaluate.loaders.rows import Loader, Record, Sample, SetReader, open_text
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.types import Document

_PARTS = ("test", "dev", "train")


def load(path: Path, rows: SetReader) -> QuestionSet:
    judged = judgements(_qrels(path), rows)
    corpus, queries = _lines(path, "corpus"), _lines(path, "queries")
    documents = tuple(rows.converted(corpus, rows.records(corpus), _document))
    asked = ((place, row) for place, row in rows.records(queries) if str(row.get("_id")) in judged)
    questions = tuple(rows.questions(queries, asked, lambda row: _question(row, judged)))
    return rows.task(path, path.resolve().name, documents, questions)


def judgements(path: Path, rows: SetReader) -> dict[str, dict[str, int]]:
    """For each query that has some the documents above 0, with their grades."""
    judged: dict[str, dict[str, int]] = {}
    with open_text(path, newline="") as file:
        lines = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        named = [(f"line {lines.line_num}", row) for row in lines if row and row[-1] != "score"]
    for query, document, grade in rows.converted(path, named, _judgement):
        if grade > 0:
            judged.setdefault(query, {})[document] = grade
    return judged


def _judgement(row: list[str]) -> tuple[str, str, int]:
    query, document, grade = row
    return query, document, int(grade)


def _qrels(folder: Path) -> Path:
    found = sorted((folder / "qrels").glob("*.tsv*"), key=lambda one: _order(one.name.split(".")[0]))
    if not found:
        raise UsageError(f"{folder / 'qrels'} holds no judgements", "it needs qrels/test.tsv")
    return found[0]


def _order(part: str) -> int:
    return _PARTS.index(part) if part in _PARTS else len(_PARTS)


def _lines(folder: Path, name: str) -> Path:
    packed = folder / f"{name}.jsonl.gz"
    return packed if packed.exists() else folder / f"{name}.jsonl"


def _document(row: Record) -> Document:
    title = row.get("title") or ""
    return Document(str(row["_id"]), row["text"] or title, title)


def _question(row: Record, judged: dict[str, dict[str, int]]) -> Question:
    own = str(row["_id"])
    gold = judged[own]
    return Question(own, row["text"], (), None, gold_docs=tuple(gold), grades=tuple(gold.values()))


def _sniff(sample: Sample) -> bool:
    return "qrels" in sample.names and bool({"queries.jsonl", "queries.jsonl.gz"} & sample.names)


LOADER = Loader(_sniff, load, "BEIR: a folder with corpus.jsonl, queries.jsonl and qrels")
