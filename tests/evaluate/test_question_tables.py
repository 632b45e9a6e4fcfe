"""Hand-written question sets, and `eval` on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mergewise
from mergewise.errors import UsageError
from mergewise.evaluate import evaluate
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.metrics import score_context
from mergewise.evaluate.question_sets import Question, clusters
from mergewise.models.tokens import count_tokens
from mergewise.types import Span


def table(tmp_path: Path, name: str, text: str) -> Path:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.csv", 'Question,Answer\n"How long, if at all, do cats sleep?",sixteen hours|16 hours\nWhat?,"[""a"", ""b""]"\n'),
        ("q.csv", "\ufeffQuestion;Answer\nHow long, if at all, do cats sleep?;sixteen hours | 16 hours\n\nWhat?;a|b\n"),
        ("q.tsv", "id\tquestion\tanswers\n\tHow long, if at all, do cats sleep?\tsixteen hours|16 hours\n\tWhat?\ta|b\n"),
        ("q.jsonl", '{"question": "How long, if at all, do cats sleep?", "answer": "sixteen hours|16 hours"}\n'
                    '\n{"question": "What?", "answers": ["a", "b"]}\n'),
    ],
)  # fmt: skip
def test_tables_are_read(tmp_path: Path, name: str, text: str) -> None:
    task = load_question_set(table(tmp_path, name, text))
    assert (task.name, task.documents) == ("q", ())
    first, second = task.questions
    assert (first.text, first.answers) == ("How long, if at all, do cats sleep?", ("sixteen hours", "16 hours"))
    assert (second.text, second.answers, second.evidence) == ("What?", ("a", "b"), None)


def test_evidence_may_be_marked(tmp_path: Path) -> None:
    rows = [
        {"question": "1", "answer": "x", "evidence": "One; with | in it."},
        {"question": "2", "answer": 16, "evidence": [{"doc": "d", "start": 0, "end": 4, "text": "Two."}, "Three."]},
        {"question": "3", "answer": "x", "evidence": []},
        {"question": "4", "evidence": "Four."},
    ]
    task = load_question_set(table(tmp_path, "q.jsonl", "".join(json.dumps(row) + "\n" for row in rows)))
    texts = [q.evidence and [text for _, text in q.evidence] for q in task.questions]
    assert texts == [["One; with | in it."], ["Two.", "Three."], None, ["Four."]]
    assert [q.answerable for q in task.questions] == [True] * 4 and not task.questions[3].has_answers
    assert task.questions[1].answers == ("16",)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.csv", "question,answer\nWho?,\nWhat?,x\n"),
        ("q.csv", "question,answer,answerable\nWho?,somebody,no\nWhat?,x,yes\n"),
        ("q.jsonl", '{"question": "Who?", "answers": []}\n{"question": "What?", "answers": ["x"]}\n'),
        ("q.jsonl", '{"question": "Who?", "answer": null}\n{"question": "What?", "answer": "x"}\n'),
        ("q.jsonl", '{"question": "Who?", "is_impossible": true, "answers": {"text": [], "answer_start": []}}\n'
                    '{"question": "What?", "is_impossible": false, "answers": {"text": ["x"], "answer_start": [3]}}\n'),
        ("q.jsonl", '{"question": "Who?", "is_impossible": true, "answers": ["plausible"], "evidence": "It."}\n'
                    '{"question": "What?", "answer": "x", "answerable": null}\n'),
    ],
)  # fmt: skip
def test_questions_may_have_no_answer(tmp_path: Path, name: str, text: str) -> None:
    without, with_one = load_question_set(table(tmp_path, name, text)).questions
    assert (without.text, without.answers, without.evidence, without.answerable) == ("Who?", (), None, False)
    assert (with_one.answers, with_one.answerable) == (("x",), True)


def test_evidence_names_its_document(tmp_path: Path) -> None:
    """Questions that share a document, directly or through others, are one cluster."""
    named = [["a"], ["b"], ["a", "c"], [], ["c"], []]
    rows = [
        {"question": "?", "answer": "x", "evidence": [{"doc": doc, "text": "One."} for doc in docs]} for docs in named
    ]
    questions = load_question_set(table(tmp_path, "q.jsonl", "".join(json.dumps(row) + "\n" for row in rows))).questions
    assert [sorted(question.documents) for question in questions] == named
    assert clusters(questions) == [0, 1, 0, 2, 0, 3]


@given(st.lists(st.frozensets(st.sampled_from("abcdef"), max_size=3), max_size=12))
def test_clusters_are_connected_by_shared_documents(named: list[frozenset[str]]) -> None:
    """The slow reference merges clusters until no two share a document."""
    questions = [
        Question(str(i), "?", ("x",), tuple((Span(d, 0, 1), "x") for d in sorted(docs))) for i, docs in enumerate(named)
    ]
    groups = [({i}, set(docs)) for i, docs in enumerate(named)]
    while pair := next(((a, b) for a in groups for b in groups if a is not b and a[1] & b[1]), None):
        groups = [one for one in groups if one not in pair] + [(pair[0][0] | pair[1][0], pair[0][1] | pair[1][1])]
    found = clusters(questions)
    assert {frozenset(i for i, c in enumerate(found) if c == cluster) for cluster in found} == {
        frozenset(own) for own, _ in groups
    }


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("q.csv", "frage,antwort\na,b\n", "missing columns question and answer"),
        ("q.csv", "", "missing columns"),
        ("q.csv", "question,answer\n", "no questions in "),
        ("q.csv", "question,answer\na,b\nc\n", "line 3: missing answer"),
        ("q.csv", "question,answer\n,b\n", "line 2: missing question"),
        ("q.jsonl", '{"question": "a", "answer": "b"}\n[1]\n', "line 2: not a JSON object"),
        ("q.jsonl", "{broken\n", "line 1"),
        ("q.jsonl", '{"question": "a"}\n', "line 1: missing answer"),
        ("q.jsonl", '{"question": "a", "answer": [], "answerable": true}\n', "line 1: missing answer"),
        ("q.csv", "question,answer,is_impossible\na,b,perhaps\n", "line 2: invalid is_impossible: 'perhaps'"),
    ],
)
def test_invalid_tables_are_reported(tmp_path: Path, name: str, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        load_question_set(table(tmp_path, name, text), is_strict=True)


def test_a_file_in_another_encoding_is_reported(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_bytes("question,answer\nWie heißt er?,Jörg\n".encode("latin-1"))
    with pytest.raises(UsageError, match="cannot read question set"):
        load_question_set(tmp_path / "q.csv")


def test_scores_without_marked_evidence() -> None:
    question = Question("1", "q", ("sixteen", "sixteen hours"), None)
    score = score_context(question, "Cats sleep sixteen hours.", 10, count_tokens)
    assert (score.answer, score.evidence, score.all) == (1.0, None, None)
    assert score.density == pytest.approx(count_tokens(["sixteen hours"])[0] / 10)
    assert score_context(question, "Nothing.", 10, count_tokens).density == 0.0


def test_a_run_without_documents_or_evidence(tmp_path: Path) -> None:
    index = mergewise.open(tmp_path / "index", embedder="none")
    index.add(mergewise.Document(id="d", text="Cats sleep sixteen hours a day. They eat fish."))
    text = "question,answer,evidence\nHow long do cats sleep?,16 hours|sixteen hours,\nWhat do cats eat?,meat,They eat fish.\n"
    (row,) = evaluate(table(tmp_path, "q.csv", text), "topk", 100, index=index).means()
    # only one question has evidence
    assert [row.scores[name] for name in ("answer", "evidence", "all")] == [0.5, 1.0, 1.0]
