"""SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018): articles of paragraphs, with questions and the places of their answers.

An article is one document, its paragraphs with a blank line between them. Evidence is the sentence in which the first annotator's
answer stands. Questions of one article are one cluster, also those of 2.0 that have no answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mergewise.evaluate.loaders.rows import (
    BETWEEN,
    BadRow,
    Loader,
    Record,
    Sample,
    SetReader,
    bare_name,
    read_json,
    sentence_at,
    texts,
)
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.types import Document


def load(path: Path, rows: SetReader) -> QuestionSet:
    articles = read_json(path, "SQuAD", lambda whole: whole["data"])
    named = [(f"article {number}", (number, article)) for number, article in enumerate(articles, 1)]
    documents: dict[str, Document] = {}
    asked: list[tuple[str, tuple[Document, int, Record]]] = []
    for document, questions in rows.converted(path, named, _article):
        documents[document.id] = document
        asked += questions
    return rows.task(path, bare_name(path), documents.values(), rows.questions(path, asked, _question))


def _article(numbered: tuple[int, Record]) -> tuple[Document, list[tuple[str, tuple[Document, int, Record]]]]:
    """An article as a document, and its questions with where their paragraph begins."""
    number, article = numbered
    title = str(article.get("title") or "")
    paragraphs = article["paragraphs"]
    text = BETWEEN.join(one["context"] for one in paragraphs)
    document = Document(str(number), text, title.replace("_", " "))
    return document, list(_questions(document, paragraphs))


def _questions(document: Document, paragraphs: Any) -> Iterator[tuple[str, tuple[Document, int, Record]]]:
    start = 0
    for number, paragraph in enumerate(paragraphs, 1):
        for place, question in enumerate(paragraph["qas"], 1):
            yield f"article {document.id}, paragraph {number}, question {place}", (document, start, question)
        start += len(paragraph["context"]) + len(BETWEEN)


def _question(one: tuple[Document, int, Record]) -> Question:
    document, start, row = one
    own, text = str(row["id"]), row["question"]
    if row.get("is_impossible"):
        return Question(own, text, (), None, cluster=document.id)
    answers = row["answers"]
    if not answers:
        raise BadRow("has no answer, and is not marked as impossible")
    first = answers[0]
    at = start + int(first["answer_start"])
    end = at + len(first["text"])
    if document.text[at:end] != first["text"]:
        raise BadRow(f"has its answer {first['text']!r} elsewhere in the paragraph")
    evidence = (sentence_at(document, at, end),)
    return Question(own, text, texts([one["text"] for one in answers]), evidence, cluster=document.id)


def _sniff(sample: Sample) -> bool:
    return sample.head.lstrip().startswith("{") and '"paragraphs"' in sample.head and '"qas"' in sample.head


LOADER = Loader(_sniff, load, "SQuAD 1.1 and 2.0, as JSON")
