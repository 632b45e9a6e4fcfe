"""Questions over manuals: the question sets of this folder, with the manuals they ask about."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import mergewise
from mergewise import Span
from mergewise.engine import Index
from mergewise.evaluate.metrics import Score, score_context
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.run import Split
from mergewise.models.tokens import count_tokens
from mergewise.readers import read_file
from mergewise.types import Context

FOLDER = Path(__file__).parents[2] / "../shared/data/files/manuals"
LANGUAGES = Path(__file__).with_name("languages.jsonl")
OF_CORPORA = [Path(__file__).with_name(f"{name}.jsonl") for name in ("languages", "across", "more")]
SUFFIXES = (".md", ".rst", ".html")
HALVES = {"dev": "tune", "test": "report"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its gold: any item of `golds` suffices, each a list of spans with their texts. Empty if unanswerable.

    `parts` are the pieces of a full answer, if the answer is a whole list.
    """

    question: Question
    golds: tuple[tuple[tuple[Span, str], ...], ...]
    parts: tuple[str, ...]
    kind: str
    half: Literal["tune", "report"]

    @property
    def answerable(self) -> bool:
        return bool(self.golds)

    def score(self, context: Context) -> Score:
        """Return the best score over the golds."""
        scores = (
            score_context(replace(self.question, evidence=gold), context.text, context.tokens, count_tokens)
            for gold in self.golds
        )
        return max(scores, key=lambda score: (score.all, score.evidence))


def load(name: str, split: Split) -> list[Asked]:
    """Load the questions of `questions` or `hops`, or of a corpus of `OF_CORPORA`, for `dev`, `test` or `all`."""
    file = Path(__file__).with_name(f"{name}.jsonl")
    rows = _rows(file) if file.is_file() else _of_corpora()
    asked = [_asked(row) for row in rows if row.get("corpus", name) == name]
    return [one for one in asked if split == "all" or one.half == HALVES[split]]


def corpora() -> list[str]:
    """Return the names of the corpora of `OF_CORPORA`."""
    return list(dict.fromkeys(row["corpus"] for row in _of_corpora()))


def _of_corpora() -> list[dict[str, Any]]:
    return [row for file in OF_CORPORA for row in _rows(file)]


def _rows(file: Path) -> list[dict[str, Any]]:
    return list(map(json.loads, file.read_text(encoding="utf-8").splitlines()))


def load_adversarial(split: Split) -> list[dict[str, Any]]:
    """Load the rows of `adversarial` for a split: `question`, `answers` (none if adversarial), `kind`, `corpus`, `language`."""
    rows = _rows(LANGUAGES.with_name("adversarial.jsonl"))
    return [row for row in rows if split == "all" or row["half"] == HALVES[split]]


def opened(cache: Path, embedder: str = "minilm", folder: Path = FOLDER) -> Index:
    """Open the index of a folder of manuals in `cache`, building it if missing."""
    if not folder.is_dir():
        sys.exit(f"manuals not found: {folder}")
    index = mergewise.open(cache / f"{folder.name}-{embedder}", embedder=embedder)
    documents = []
    for path in sorted(folder.rglob("*")):
        if path.suffix in SUFFIXES and path.name != "SOURCE.md":
            documents.append(read_file(path, id=path.relative_to(folder).as_posix()).document)
    index.add(documents)
    return index


def _asked(row: dict[str, Any]) -> Asked:
    golds = tuple(tuple(map(_span, gold)) for gold in (row["evidence"], *row.get("alternatives", ())) if gold)
    question = Question(row["id"], row["question"], tuple(row["answers"]), golds[0] if golds else ())
    return Asked(question, golds, tuple(row.get("parts", ())), row["kind"], row["half"])


def _span(piece: dict[str, Any]) -> tuple[Span, str]:
    return Span(piece["doc"], piece["start"], piece["end"]), piece.get("text", "")
