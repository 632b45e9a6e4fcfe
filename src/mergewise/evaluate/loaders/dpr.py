"""Natural Questions, TriviaQA and WebQuestions with the passages of DPR (Karpukhin et al. 2020), in the three forms of its files.

- Lists of questions with `positive_ctxs`: the pool is all positive and negative passages, the positive ones are `gold_docs`.
- Lists or lines with `ctxs`, the passages that a retriever found: the pool is all of them. They say whether an answer stands in a
  passage, which is no judgement of the passage, so that nothing is gold.
- `NAME.qa.csv`, questions and lists of answers parted by tabs: the pool is `psgs*.tsv` beside it (id, text, title). Without that
  file the questions are asked of an index that stands.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterator
from pathlib import Path

from mergewise.evaluate.loaders.rows import BadRow, Loader, Pool, Record, Sample, SetReader, bare_name, open_text, texts
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.types import Document

_NEGATIVE = ("negative_ctxs", "hard_negative_ctxs")


def load(path: Path, rows: SetReader) -> QuestionSet:
    if _is_pairs(path):
        return _load_pairs(path, rows)
    pool = Pool()
    numbered = ((place, (place, row)) for place, row in rows.records(path))
    questions = tuple(rows.questions(path, numbered, lambda one: _question(*one, pool)))
    return rows.task(path, bare_name(path), pool.documents, questions)


def _question(place: str, row: Record, pool: Pool) -> Question:
    gold = tuple(dict.fromkeys(_add(one, pool) for one in row.get("positive_ctxs") or ()))
    for name in ("ctxs", *_NEGATIVE):
        for one in row.get(name) or ():
            _add(one, pool)
    own = str(row.get("id") or row.get("q_id") or place)
    return Question(own, row["question"], texts(row.get("answers") or row.get("answer")), None, gold_docs=gold)


def _add(passage: Record, pool: Pool) -> str:
    return pool.add(passage.get("title") or "", passage["text"])


def _load_pairs(path: Path, rows: SetReader) -> QuestionSet:
    beside = next(iter(sorted(path.parent.glob("psgs*.tsv*"))), None)
    documents = [] if beside is None else rows.converted(beside, _tabbed(beside, has_head=True), _document)
    asked = ((place, (place, row)) for place, row in _tabbed(path))
    return rows.task(path, bare_name(path), documents, rows.questions(path, asked, _pair))


def _tabbed(path: Path, has_head: bool = False) -> Iterator[tuple[str, list[str]]]:
    with open_text(path, newline="") as file:
        rows = csv.reader(file, delimiter="\t")
        for row in rows:
            if row and not (has_head and rows.line_num == 1):
                yield f"line {rows.line_num}", row


def _document(row: list[str]) -> Document:
    own, text, title = row
    return Document(own, text, title)


def _pair(one: tuple[str, list[str]]) -> Question:
    place, (text, answers) = one
    try:
        golds = texts(ast.literal_eval(answers))
    except (SyntaxError, RecursionError, MemoryError):
        raise BadRow("has no list of answers") from None
    return Question(place, text, golds, None)


def _is_pairs(path: Path) -> bool:
    """Whether a file has two columns without names, the second a list as Python writes it."""
    with open_text(path) as file:
        line = file.readline(10_000)
    cells = line.rstrip().split("\t")
    return len(cells) == 2 and cells[1].lstrip('"').startswith("[") and not line.startswith(("{", "["))


def _sniff(sample: Sample) -> bool:
    if sample.record:
        return "question" in sample.record and bool({"ctxs", "positive_ctxs"} & sample.record.keys())
    return sample.path.is_file() and _is_pairs(sample.path)


LOADER = Loader(_sniff, load, "NQ, TriviaQA and WebQ with the passages of DPR")
