"""A small question set about towers, and a causal model that answers it. Shared by tests of batch answers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.models.scripted_causal import ScriptedCausal
from mergewise.protocols import FloatArray
from mergewise.types import Document

TOWNS = ("Arden", "Brook", "Corin", "Delos")
DOCUMENTS = tuple(
    Document(f"{town}.md", f"# {town}\n\nThe tower of {town} was built by Mason {town}y. It is old.", town)
    for town in TOWNS
)
QUESTIONS = tuple(
    Question(str(i), f"Who built the tower of {town}?", (f"Mason {town}y",), None) for i, town in enumerate(TOWNS)
)
TASK = QuestionSet("towns", DOCUMENTS, QUESTIONS)
ALPHABET = "".join(map(chr, range(32, 127))) + "\n"


class WordReranker:
    """A reranker by the share of the question's words in a text."""

    spec = "words"

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        asked = set(question.lower().split())
        shares = [len(asked & set(text.lower().split())) / max(1, len(asked)) for text in texts]
        return np.array(shares, np.float32)


class Reader(ScriptedCausal):
    """A causal model that names the mason in the prompt, and knows the mason of Arden from memory."""

    def __init__(self) -> None:
        super().__init__(ALPHABET, self.rule, end="\n", window=8000, spec="reader")

    @staticmethod
    def rule(text: str) -> Mapping[str, float]:
        question = text.rindex("Question: ")
        end = text.index("?", question) + 1
        prompt, said = text[:end], text[end:]
        town = prompt.rsplit(" ", 1)[1][:-1]
        whole = f"Mason {town}y\n" if f"Mason {town}y" in prompt or town == "Arden" else "N/A\n"
        return {whole[len(said)]: 1e6} if len(said) < len(whole) else {"\n": 1e6}


def saved_task(folder: Path, documents: Sequence[Document] = DOCUMENTS) -> Path:
    """Write the set in the benchmark's format. The questions are about the first documents."""
    folder.mkdir(parents=True)
    corpus = [{"id": one.id, "title": one.title, "text": one.text} for one in documents]
    asked = [
        {"id": one.id, "question": one.text, "answers": list(one.answers), "evidence": [_evidence(document)]}
        for one, document in zip(QUESTIONS, documents, strict=False)
    ]
    for name, rows in (("corpus", corpus), ("questions", asked)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return folder


def _evidence(document: Document) -> dict[str, object]:
    start, end = document.text.index("The tower"), document.text.index(" It is old")
    return {"doc": document.id, "start": start, "end": end, "text": document.text[start:end]}
