"""Question sets: questions with what a right answer needs, and the documents that they are asked of.

`mergewise.evaluate.loaders` reads them from files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from mergewise.types import Document, Span

Evidence: TypeAlias = tuple[tuple[Span, str], ...]
"""Gold spans with their texts."""


@dataclass(frozen=True, slots=True)
class Question:
    """`evidence` is what a context must hold to answer; None where nobody marked it, so that it cannot be judged. Where there are
    neither answers, evidence nor gold documents, the documents have no answer.

    `gold_docs` are the ids of the documents that answer, where a set names whole documents; `grades` says how much each is worth,
    and is empty where all are worth the same. `scope` holds the ids of the documents that the question is asked of; it is empty
    where it is asked of all. `kind` and `hops` are what the set calls the question, and the number of facts that it needs.
    Questions of one `cluster` are not independent, whatever their documents are.
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
        """The gold documents: those that are named, else those of the marked evidence."""
        return frozenset(self.gold_docs) or frozenset(span.doc_id for span, _ in self.evidence or () if span.doc_id)

    @property
    def gains(self) -> Mapping[str, int]:
        """How much each gold document is worth."""
        return dict(zip(self.gold_docs, self.grades, strict=True)) if self.grades else dict.fromkeys(self.documents, 1)

    @property
    def where(self) -> Mapping[str, Any] | None:
        """The condition by which the question is asked of its scope alone; None where it is asked of all documents."""
        return {"type": "in", "key": "id", "value": list(self.scope)} if self.scope else None


@dataclass(frozen=True, slots=True)
class SkippedRow:
    """A row of a file that could not be read: its `place` ("line 3"), and the reason."""

    file: str
    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, {self.place} {self.reason}"


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """A question set. Without `documents` it is asked of an index that stands. `skipped` are the rows that were left out."""

    name: str
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]
    skipped: tuple[SkippedRow, ...] = ()


def clusters(questions: Sequence[Question]) -> list[int]:
    """For each question the number of its cluster: questions that share a gold document are not independent.

    Questions are in one cluster where gold documents, or clusters that the set names, lead from one to the other. A question
    without either is a cluster of its own.
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
