"""Question sets in the benchmark format: `corpus.jsonl.gz` and `questions.jsonl.gz` in one folder."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from mergewise.errors import UsageError
from mergewise.types import Document, Span

Evidence: TypeAlias = tuple[tuple[Span, str], ...]
"""Gold spans with their texts."""


@dataclass(frozen=True, slots=True)
class Question:
    """`evidence` is what a context must hold to answer; None where nobody marked it, so that it cannot be judged. Where there are
    neither answers nor evidence, the documents have no answer.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    evidence: Evidence | None

    @property
    def has_answers(self) -> bool:
        return any(answer.strip() for answer in self.answers)

    @property
    def answerable(self) -> bool:
        return self.has_answers or bool(self.evidence)

    @property
    def documents(self) -> frozenset[str]:
        """The documents of the marked evidence, where those are named."""
        return frozenset(span.doc_id for span, _ in self.evidence or () if span.doc_id)


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]


def clusters(questions: Sequence[Question]) -> list[int]:
    """For each question the number of its cluster: questions that share a document of their evidence are not independent.

    Questions are in one cluster where documents of their evidence lead from one to the other. A question without named documents
    is a cluster of its own.
    """
    leaders: dict[str, str] = {}

    def leader(name: str) -> str:
        while (above := leaders.setdefault(name, name)) != name:
            leaders[name] = leaders[above]
            name = above
        return name

    for number, question in enumerate(questions):
        for document in question.documents:
            leaders[leader(f"d{document}")] = leader(f"q{number}")
    numbers: dict[str, int] = {}
    return [numbers.setdefault(leader(f"q{number}"), len(numbers)) for number in range(len(questions))]


def find_tasks(folder: Path) -> list[Path]:
    """`folder` itself where it is a question set, else the sets in it."""
    files = [folder / "questions.jsonl.gz", *sorted(folder.glob("*/questions.jsonl.gz"))]
    tasks = [file.parent for file in files if file.exists()]
    if not tasks:
        raise UsageError(f"no question set in {folder}", "it needs corpus.jsonl.gz and questions.jsonl.gz")
    return tasks


def load_task(folder: Path) -> Task:
    try:
        documents = tuple(
            Document(id=row["id"], title=row.get("title", ""), text=row["text"])
            for row in _rows(folder / "corpus.jsonl.gz")
        )
        questions = tuple(_question(row) for row in _rows(folder / "questions.jsonl.gz"))
    except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{folder} is not a question set: {error}", "see docs/evaluation.md for the format") from None
    return Task(folder.name, documents, questions)


def _question(row: dict[str, Any]) -> Question:
    evidence = tuple((Span(e["doc"], e["start"], e["end"]), str(e["text"])) for e in row["evidence"])
    return Question(str(row["id"]), row["question"], tuple(row["answers"]), evidence)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
