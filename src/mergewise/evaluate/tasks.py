"""Question sets in the benchmark format: `corpus.jsonl.gz` and `questions.jsonl.gz` in one folder."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from mergewise.errors import UsageError
from mergewise.types import Document, Span

Evidence: TypeAlias = tuple[tuple[Span, str], ...]
"""Gold spans with their texts."""


@dataclass(frozen=True, slots=True)
class Question:
    """`evidence` is what a context must hold to answer; None where nobody marked it, so that it cannot be judged."""

    id: str
    text: str
    answers: tuple[str, ...]
    evidence: Evidence | None


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]


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
