"""Our own form: a folder with `corpus.jsonl` and `questions.jsonl`, packed with gzip or not. docs/evaluation.md describes it."""

from __future__ import annotations

from pathlib import Path

from mergewise.evaluate.loaders.rows import Loader, Record, Sample, SetReader, texts
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.types import Document, Span

CORPUS, QUESTIONS = ("corpus.jsonl.gz", "corpus.jsonl"), ("questions.jsonl.gz", "questions.jsonl")


def load(path: Path, rows: SetReader) -> QuestionSet:
    corpus, questions = _file(path, CORPUS), _file(path, QUESTIONS)
    documents = tuple(rows.converted(corpus, rows.records(corpus), _document))
    return rows.task(
        path, path.resolve().name, documents, rows.questions(questions, rows.records(questions), _question)
    )


def _file(folder: Path, names: tuple[str, ...]) -> Path:
    return next((folder / name for name in names if (folder / name).exists()), folder / names[0])


def _document(row: Record) -> Document:
    return Document(id=str(row["id"]), title=row.get("title") or "", text=row["text"])


def _question(row: Record) -> Question:
    marked = row.get("evidence") if row.get("gold_docs") else row["evidence"]
    evidence = None if marked is None else tuple((Span(e["doc"], e["start"], e["end"]), str(e["text"])) for e in marked)
    return Question(
        str(row["id"]),
        row["question"],
        tuple(row["answers"]),
        evidence,
        kind=str(row.get("type") or ""),
        hops=row.get("hops"),
        gold_docs=texts(row.get("gold_docs") or ()),
        scope=texts(row.get("scope") or ()),
        cluster=str(row.get("cluster") or ""),
    )


def _sniff(sample: Sample) -> bool:
    return all(sample.names & set(names) for names in (CORPUS, QUESTIONS))


LOADER = Loader(_sniff, load, "a folder with corpus.jsonl.gz and questions.jsonl.gz")
