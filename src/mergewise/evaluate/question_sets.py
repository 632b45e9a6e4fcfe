"""Question sets: questions with their gold answers and evidence, and the documents to answer from.

`mergewise.evaluate.loaders` reads them from files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from mergewise.types import Document, Json, Span, frozen

Evidence: TypeAlias = tuple[tuple[Span, str], ...]
"""Gold spans with their texts."""


@frozen
class Question:
    """A question with its gold. A question without answers, evidence and gold documents is unanswerable.

    Attributes:
        id: the id of the question, unique in its set.
        text: the question.
        answers: the gold answers.
        evidence: the texts that a context must hold, or None if the set marks none, so that evidence is not judged.
        kind: the set's own category of the question.
        hops: the number of facts that an answer needs, or None if unknown.
        gold_docs: ids of the documents with an answer, if the set names whole documents.
        grades: the relevance of each gold document. Empty if all are equally relevant.
        scope: ids of the documents to search. Empty for all documents.
        cluster: questions of the same cluster are not independent, even without shared documents. Empty for none.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    evidence: Evidence | None
    kind: str = ""
    hops: int | None = None
    gold_docs: tuple[str, ...] = ()
    grades: tuple[int, ...] = ()
    scope: tuple[str, ...] = ()
    cluster: str = ""

    @property
    def has_answers(self) -> bool:
        return any(answer.strip() for answer in self.answers)

    @property
    def answerable(self) -> bool:
        return self.has_answers or bool(self.evidence) or bool(self.gold_docs)

    @property
    def documents(self) -> frozenset[str]:
        """The ids of the gold documents, or else of the documents with marked evidence."""
        return frozenset(self.gold_docs) or frozenset(span.doc_id for span, _ in self.evidence or () if span.doc_id)

    @property
    def gains(self) -> Mapping[str, int]:
        """The relevance of each gold document."""
        return dict(zip(self.gold_docs, self.grades, strict=True)) if self.grades else dict.fromkeys(self.documents, 1)

    @property
    def where(self) -> Json | None:
        """The condition that restricts the search to the question's scope, or None without a scope."""
        return {"type": "in", "key": "id", "value": list(self.scope)} if self.scope else None


@frozen
class SkippedRow:
    """A row of a file that was left out: its `place`, such as "line 3", and the reason."""

    file: str
    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, {self.place}: {self.reason}"


@frozen
class QuestionSet:
    """A question set. A set without `documents` needs an existing index. `skipped` lists the rows that were left out."""

    name: str
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]
    skipped: tuple[SkippedRow, ...] = ()


def clusters(questions: Sequence[Question]) -> list[int]:
    """Return the cluster number of each question. Questions of different clusters are independent.

    Clusters are the connected components of questions that share a gold document or a `cluster`. A question without either is a
    cluster of its own.
    """
    leaders: dict[str, str] = {}

    def leader(name: str) -> str:
        while (above := leaders.setdefault(name, name)) != name:
            leaders[name] = leaders[above]
            name = above
        return name

    for number, question in enumerate(questions):
        shared = [f"d{document}" for document in question.documents] + [f"c{question.cluster}"] * bool(question.cluster)
        for one in shared:
            leaders[leader(one)] = leader(f"q{number}")
    numbers: dict[str, int] = {}
    return [numbers.setdefault(leader(f"q{number}"), len(numbers)) for number in range(len(questions))]
