"""Questions over manuals: the sets of this folder, with the manuals that they are asked of."""

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
HALVES = {"dev": "tune", "test": "report"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its gold: any one of `golds` will do, each a list of spans with their texts; none where there is no answer.

    `parts` are the pieces of a full answer, where it is a whole list.
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
        """The score with the gold that the context holds best."""
        scores = (
            score_context(replace(self.question, evidence=gold), context.text, context.tokens, count_tokens)
            for gold in self.golds
        )
        return max(scores, key=lambda score: (score.all, score.evidence))


def load(name: str, split: Split) -> list[Asked]:
    """The questions of `questions` or `hops`, of the split `dev`, `test` or `all`."""
    lines = Path(__file__).with_name(f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    asked = [_asked(json.loads(line)) for line in lines]
    return [one for one in asked if split == "all" or one.half == HALVES[split]]


def opened(cache: Path, embedder: str = "minilm") -> Index:
    """An index of the manuals, made in `cache` if it is not there."""
    if not FOLDER.is_dir():
        sys.exit(f"the manuals are not at {FOLDER}: nothing to ask")
    index = mergewise.open(cache / f"manuals-{embedder}", embedder=embedder)
    documents = []
    for path in sorted(FOLDER.rglob("*")):
        if path.suffix in (".md", ".rst") and path.parent != FOLDER:
            documents.append(read_file(path, id=path.relative_to(FOLDER).as_posix()).document)
    index.add(documents)
    return index


def _asked(row: dict[str, Any]) -> Asked:
    golds = tuple(tuple(map(_span, gold)) for gold in (row["evidence"], *row.get("alternatives", ())) if gold)
    question = Question(row["id"], row["question"], tuple(row["answers"]), golds[0] if golds else ())
    return Asked(question, golds, tuple(row.get("parts", ())), row["kind"], row["half"])


def _span(piece: dict[str, Any]) -> tuple[Span, str]:
    return Span(piece["doc"], piece["start"], piece["end"]), piece["text"]
