"""Sets of joined documents: sizes, moved evidence with the same text, and the same bytes on each run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.joined import joined, write

from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.models.tokens import count_tokens
from mergewise.types import Document, Span


def story(number: int) -> Document:
    lines = " ".join(f"In year {i} the river Nö{number} rose by {i} feet." for i in range(number % 3 + 2))
    return Document(f"d{number}", f"# Rivers {number}\n\n{lines}", title=f"Title {number}")


def made(count: int = 11) -> QuestionSet:
    documents = tuple(story(i) for i in range(count))
    questions = []
    for i, document in enumerate(documents):
        other = documents[(i + 5) % count]
        pieces = [(d, d.text[d.text.index("In year 1") :]) for d in (document, other)]
        evidence = tuple(
            (Span(d.id, d.text.index(piece), d.text.index(piece) + len(piece)), piece) for d, piece in pieces
        )
        questions.append(Question(str(i), f"How high did Nö{i} rise?", (f"{i} feet",), evidence))
    return QuestionSet("rivers", documents, (*questions, Question("open", "And then?", ("flood",), None)))


@pytest.mark.parametrize("tokens", [1, 60, 150, 10_000])
def test_documents_are_long_enough_and_hold_everything_in_order(tokens: int) -> None:
    task = made()
    long = joined(task, tokens)
    assert "\n\n".join(d.text for d in long.documents) == "\n\n".join(d.text for d in task.documents)
    sizes = count_tokens([d.text for d in long.documents])
    assert len(long.documents) == 1 or min(sizes) >= tokens
    assert len({d.id for d in long.documents}) == len(long.documents)
    assert long.name == f"rivers-{tokens}"


@pytest.mark.parametrize("tokens", [1, 60, 150])
def test_evidence_moves_with_its_document(tokens: int) -> None:
    task = made()
    long = joined(task, tokens)
    texts = {d.id: d.text for d in long.documents}
    for before, after in zip(task.questions, long.questions, strict=True):
        assert (before.id, before.text, before.answers) == (after.id, after.text, after.answers)
        if before.evidence is None:
            assert after.evidence is None
            continue
        assert after.evidence is not None and len(after.evidence) == len(before.evidence)
        for (_, piece), (span, moved) in zip(before.evidence, after.evidence, strict=True):
            assert piece == moved == texts[span.doc_id][span.start : span.end]


def test_batch_ends_when_it_is_long_enough() -> None:
    task = made()
    sizes = count_tokens([d.text for d in task.documents])
    long = joined(task, sizes[0] + sizes[1])
    assert long.documents[0].text == f"{task.documents[0].text}\n\n{task.documents[1].text}"


def test_evidence_mismatch_is_refused() -> None:
    task = made()
    assert task.questions[3].evidence is not None
    (span, text), other = task.questions[3].evidence
    shifted = replace(task.questions[3], evidence=((Span(span.doc_id, span.start + 1, span.end + 1), text), other))
    with pytest.raises(ValueError, match="d3"):
        joined(replace(task, questions=(shifted,)), 60)


def test_written_set_round_trips_and_is_deterministic(tmp_path: Path) -> None:
    long = joined(replace(made(), questions=made().questions[:-1]), 60)
    first, second = tmp_path / "a" / long.name, tmp_path / "b" / long.name
    write(long, first)
    write(long, second)
    assert load_question_set(first) == long
    for name in ("corpus.jsonl.gz", "questions.jsonl.gz"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_real_sets(bench: Path) -> None:
    for name in ("hotpotqa-long", "musique-long"):
        long = joined(load_question_set(bench / name), 10_000)
        assert len(long.documents) > 10
        assert min(count_tokens([d.text for d in long.documents])) >= 10_000
