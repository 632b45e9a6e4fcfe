"""Question sets of long documents: the documents of a set concatenated, with the evidence of its questions moved along.

python -m benchmarks.joined --set hotpotqa-long --to DIR [--tokens 10000]

The result is deterministic. Documents are joined in the order of the set. A joined document is complete when it reaches
`--tokens`. The last one also gets the remaining documents. The output is a question set in the format of `mergewise eval`.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.corpus import bench_folder
from mergewise import Document, Span
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.question_sets import Evidence, Question, QuestionSet
from mergewise.models.tokens import count_tokens

BETWEEN = "\n\n"


def joined(task: QuestionSet, tokens: int) -> QuestionSet:
    """Return the question set over joined documents of at least `tokens` tokens. Every piece of evidence is verified."""
    documents, places = [], dict[str, tuple[str, int]]()
    for number, members in enumerate(_batches(task.documents, tokens)):
        name, start = f"{task.name}-{number:03}", 0
        for member in members:
            places[member.id] = name, start
            start += len(member.text) + len(BETWEEN)
        documents.append(Document(id=name, text=BETWEEN.join(member.text for member in members)))
    texts = {document.id: document.text for document in documents}
    questions = [replace(question, evidence=_move_evidence(question, places, texts)) for question in task.questions]
    return QuestionSet(f"{task.name}-{tokens}", tuple(documents), tuple(questions))


def _batches(documents: Sequence[Document], tokens: int) -> list[list[Document]]:
    batches, gathered, counted = list[list[Document]](), list[Document](), 0
    for document, count in zip(documents, count_tokens([document.text for document in documents]), strict=True):
        gathered.append(document)
        counted += count
        if counted >= tokens:
            batches.append(gathered)
            gathered, counted = [], 0
    if gathered and batches:
        batches[-1] += gathered
    return batches or [gathered]


def _move_evidence(question: Question, places: dict[str, tuple[str, int]], texts: dict[str, str]) -> Evidence | None:
    if question.evidence is None:
        return None
    pieces = []
    for span, text in question.evidence:
        name, start = places[span.doc_id]
        moved = Span(name, start + span.start, start + span.end)
        if texts[name][moved.start : moved.end] != text:
            raise ValueError(f"{question.id}: evidence mismatch in {span.doc_id} at {span.start} (expected {text!r})")
        pieces.append((moved, text))
    return tuple(pieces)


def write(task: QuestionSet, folder: Path) -> None:
    """Write `corpus.jsonl.gz` and `questions.jsonl.gz`, with the same bytes on each run."""
    folder.mkdir(parents=True, exist_ok=True)
    _lines(folder / "corpus.jsonl.gz", ({"id": d.id, "title": d.title, "text": d.text} for d in task.documents))
    _lines(folder / "questions.jsonl.gz", map(_row, task.questions))


def _row(question: Question) -> dict[str, object]:
    pieces = [
        {"doc": span.doc_id, "start": span.start, "end": span.end, "text": text}
        for span, text in question.evidence or ()
    ]
    row = {"id": question.id, "question": question.text, "answers": list(question.answers), "evidence": pieces}
    known = {"type": question.kind, "hops": question.hops, "gold_docs": list(question.gold_docs)}
    return {**row, **{name: value for name, value in known.items() if value}}


def _lines(path: Path, rows: Iterable[dict[str, object]]) -> None:
    encoded: Iterator[bytes] = (json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
    with path.open("wb") as file, gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as lines:
        lines.writelines(encoded)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="hotpotqa-long")
    parser.add_argument("--tokens", type=int, default=10_000)
    parser.add_argument("--to", type=Path, required=True)
    options = parser.parse_args()
    task = joined(load_question_set(bench_folder() / options.set), options.tokens)
    write(task, options.to)
    print(f"{len(task.documents)} documents and {len(task.questions)} questions at {options.to}")


if __name__ == "__main__":
    main()
