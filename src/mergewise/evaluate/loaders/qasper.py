"""QASPER (Dasigi et al. 2021): papers by sections, with questions of several annotators; each question is asked of its own
paper.

A paper is a Markdown document: abstract, then sections under their headings (`:::` parts the levels). Questions of one paper
are one cluster. A question has no answer where most annotators found none. Else their answers are all gold: the spans with
commas between them, yes or no, or free text. Evidence are the paragraphs of the first annotator all of whose evidence stands
in the text; tables and figures do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from mergewise.evaluate.loaders.rows import (
    BETWEEN,
    BadRow,
    Loader,
    Record,
    Sample,
    SetReader,
    bare_name,
    piece_at,
    place_of,
    read_json,
    texts,
)
from mergewise.evaluate.question_sets import Evidence, Question, QuestionSet
from mergewise.types import Document


def load(path: Path, rows: SetReader) -> QuestionSet:
    papers = read_json(path, "QASPER", lambda whole: whole.items())
    named = [(f"paper {own}", (own, paper)) for own, paper in papers]
    read = list(rows.converted(path, named, lambda one: (_document(*one), one[1]["qas"])))
    asked = [
        (f"paper {document.id}, question {number}", (document, row))
        for document, questions in read
        for number, row in enumerate(questions, 1)
    ]
    documents = [document for document, _ in read]
    return rows.task(path, bare_name(path), documents, rows.questions(path, asked, _question))


def _document(own: str, paper: Record) -> Document:
    parts = ["# Abstract", paper.get("abstract") or ""]
    for section in paper["full_text"]:
        name = section.get("section_name") or ""
        if name:
            parts.append(f"{'#' * (1 + name.count(':::'))} {name.split(':::')[-1].strip()}")
        parts += section["paragraphs"]
    return Document(own, BETWEEN.join(part.strip() for part in parts if part and part.strip()), paper["title"] or "")


def _question(one: tuple[Document, Record]) -> Question:
    document, row = one
    annotated = [answer.get("answer", answer) for answer in row["answers"]]
    if not annotated:
        raise BadRow("has no annotation")
    known = [answer for answer in annotated if not answer.get("unanswerable")]
    own, text = str(row["question_id"]), row["question"]
    question = Question(own, text, (), None, kind="unanswerable", scope=(document.id,), cluster=document.id)
    if 2 * len(known) < len(annotated):
        return question
    evidence = next((found for answer in known if (found := _evidence(answer, document))), None)
    answers = texts([_text(answer) for answer in known])
    if not answers:
        raise BadRow("has no answer")
    return replace(question, answers=answers, evidence=evidence, kind=_kind(known[0]))


def _text(answer: Record) -> str:
    if answer.get("extractive_spans"):
        return ", ".join(answer["extractive_spans"])
    if answer.get("yes_no") is not None:
        return "Yes" if answer["yes_no"] else "No"
    return answer.get("free_form_answer") or ""


def _kind(answer: Record) -> str:
    if answer.get("extractive_spans"):
        return "extractive"
    return "abstractive" if answer.get("yes_no") is None else "yes-no"


def _evidence(answer: Record, document: Document) -> Evidence | None:
    """None where a piece is not in the text."""
    places = list(_places(answer.get("evidence") or (), document.text))
    if None in places:
        return None
    return tuple(piece_at(document, *place) for place in places if place) or None


def _places(pieces: object, text: str) -> Iterator[tuple[int, int] | None]:
    return (place_of(text, piece) for piece in texts(pieces))


def _sniff(sample: Sample) -> bool:
    return sample.head.lstrip().startswith("{") and '"full_text"' in sample.head and '"section_name"' in sample.head


LOADER = Loader(_sniff, load, "QASPER, as JSON")
