"""Forms of nested JSON in which documents contain their questions: SQuAD and QASPER.

Questions of one document are one cluster.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mergewise.evaluate.loaders.rows import (
    BETWEEN,
    BadRow,
    SetReader,
    piece_at,
    place_of,
    read_json,
    sentence_at,
    texts,
)
from mergewise.evaluate.question_sets import Evidence, Question, QuestionSet
from mergewise.types import Document, Json

# -- SQuAD


def load_squad(path: Path, reader: SetReader) -> QuestionSet:
    """Load SQuAD 1.1 or 2.0 (Rajpurkar et al. 2016, 2018). An article is one document.

    Evidence is the sentence with the answer of the first annotator.
    """
    articles = read_json(path, "SQuAD", lambda whole: whole["data"])
    named = [(f"article {number}", (number, article)) for number, article in enumerate(articles, 1)]
    documents: dict[str, Document] = {}
    asked: list[tuple[str, tuple[Document, int, Json]]] = []
    for document, questions in reader.converted(path, named, _squad_article):
        documents[document.id] = document
        asked += questions
    return reader.question_set(path, documents.values(), asked, _squad_question)


def _squad_article(numbered: tuple[int, Json]) -> tuple[Document, list[tuple[str, tuple[Document, int, Json]]]]:
    """Return an article as a document, and its questions with the start of their paragraph."""
    number, article = numbered
    title = str(article.get("title") or "")
    paragraphs = article["paragraphs"]
    document = Document(str(number), BETWEEN.join(one["context"] for one in paragraphs), title.replace("_", " "))
    rows = []
    start = 0
    for position, paragraph in enumerate(paragraphs, 1):
        for place, question in enumerate(paragraph["qas"], 1):
            rows.append((f"article {number}, paragraph {position}, question {place}", (document, start, question)))
        start += len(paragraph["context"]) + len(BETWEEN)
    return document, rows


def _squad_question(one: tuple[Document, int, Json]) -> Question:
    document, start, row = one
    question = Question(str(row["id"]), row["question"], (), None, cluster=document.id)
    if row.get("is_impossible"):
        return question
    answers = row["answers"]
    if not answers:
        raise BadRow("missing answer, and not marked as impossible")
    first = answers[0]
    at = start + int(first["answer_start"])
    end = at + len(first["text"])
    if document.text[at:end] != first["text"]:
        raise BadRow(f"answer not at its offset in the paragraph: {first['text']!r}")
    evidence = (sentence_at(document, at, end),)
    return replace(question, answers=texts([one["text"] for one in answers]), evidence=evidence)


# -- QASPER


def load_qasper(path: Path, reader: SetReader) -> QuestionSet:
    """Load QASPER (Dasigi et al. 2021). The scope of each question is its own paper."""
    named = [(f"paper {own}", (own, paper)) for own, paper in read_json(path, "QASPER", lambda whole: whole.items())]
    read = list(reader.converted(path, named, lambda one: (_qasper_document(*one), one[1]["qas"])))
    asked = [
        (f"paper {document.id}, question {number}", (document, row))
        for document, questions in read
        for number, row in enumerate(questions, 1)
    ]
    return reader.question_set(path, [document for document, _ in read], asked, _qasper_question)


def _qasper_document(own: str, paper: Json) -> Document:
    """Return a paper as Markdown: the abstract, then sections with their headings (`:::` separates the levels)."""
    parts = ["# Abstract", paper.get("abstract") or ""]
    for section in paper["full_text"]:
        name = section.get("section_name") or ""
        if name:
            parts.append(f"{'#' * (1 + name.count(':::'))} {name.split(':::')[-1].strip()}")
        parts += section["paragraphs"]
    return Document(own, BETWEEN.join(part.strip() for part in parts if part and part.strip()), paper["title"] or "")


def _qasper_question(one: tuple[Document, Json]) -> Question:
    """Return a question, without an answer if most annotators found none. Otherwise the answers of the other annotators are gold.

    The evidence is that of the first annotator whose evidence is completely in the text. Tables and figures are not in the text.
    """
    document, row = one
    annotated = [answer.get("answer", answer) for answer in row["answers"]]
    if not annotated:
        raise BadRow("missing annotation")
    known = [answer for answer in annotated if not answer.get("unanswerable")]
    own, text = str(row["question_id"]), row["question"]
    question = Question(own, text, (), None, kind="unanswerable", scope=(document.id,), cluster=document.id)
    if 2 * len(known) < len(annotated):
        return question
    evidence = next((pieces for answer in known if (pieces := _qasper_evidence(answer, document))), None)
    answers = [_qasper_answer(answer) for answer in known]
    golds = texts([gold for _, gold in answers])
    if not golds:
        raise BadRow("missing answer")
    return replace(question, answers=golds, evidence=evidence, kind=answers[0][0])


def _qasper_answer(answer: Json) -> tuple[str, str]:
    """Return the kind and the text of an answer."""
    if answer.get("extractive_spans"):
        return "extractive", ", ".join(answer["extractive_spans"])
    if answer.get("yes_no") is not None:
        return "yes-no", "Yes" if answer["yes_no"] else "No"
    return "abstractive", answer.get("free_form_answer") or ""


def _qasper_evidence(answer: Json, document: Document) -> Evidence | None:
    """Return the pieces of evidence, or None if the text lacks a piece."""
    places = [place_of(document.text, piece) for piece in texts(answer.get("evidence") or ())]
    if None in places:
        return None
    return tuple(piece_at(document, *place) for place in places if place) or None
