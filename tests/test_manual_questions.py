"""Checks of the handmade questions over manuals: their gold spans match the text.

These checks apply to the rows of both files. `test_manual_hops` has further checks for questions that need two places.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from mergewise.evaluate.words import normalise
from mergewise.types import Document
from tests.support import read

QUESTIONS = Path(__file__).parents[1] / "benchmarks/manuals/questions.jsonl"
HOPS = QUESTIONS.with_name("hops.jsonl")
RESERVED = Path(__file__).parents[1] / "../shared/data/reserved-questions.txt"
PROJECTS = {"starlette", "httpx", "sqlite-utils", "txtai", "pydantic-ai"}
KINDS = {"value", "list", "table", "code", "how", "why", "what-if", "faq", "absent"}
FIELDS = {"id", "question", "answers", "parts", "evidence", "alternatives", "kind", "half"}
LONGEST = 130

Row = dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return read_rows(QUESTIONS)


@pytest.fixture(scope="module")
def all_rows(rows: list[Row]) -> list[Row]:
    return rows + read_rows(HOPS)


@pytest.fixture(scope="module")
def documents(all_rows: list[Row], manuals: Path) -> dict[str, Document]:
    return {name: read(manuals / name) for name in {span["doc"] for row in all_rows for span in spans(row)}}


def project(row: Row) -> str:
    return str(row["id"]).rpartition("-")[0]


def groups(row: Row) -> list[list[Row]]:
    return [row["evidence"], *row.get("alternatives", [])]


def spans(row: Row) -> list[Row]:
    return [span for group in groups(row) for span in group]


def headings(document: Document, start: int) -> str:
    """Return the titles above a place: the page's, then the last open heading of each level."""
    path: dict[int, str] = {}
    for heading in document.outline or ():
        if heading.start > start:
            break
        path = {level: title for level, title in path.items() if level < heading.level} | {heading.level: heading.title}
    return "\n".join([document.title, *path.values()])


def question_hash(question: str) -> str:
    plain = re.sub("[^a-z0-9]+", " ", question.lower()).strip()
    return hashlib.sha256(plain.encode()).hexdigest()[:16]


def test_ids_and_questions_are_unique(all_rows: list[Row]) -> None:
    assert len({row["id"] for row in all_rows}) == len(all_rows)
    assert len({question_hash(row["question"]) for row in all_rows}) == len(all_rows)


def test_rows_have_the_documented_fields(rows: list[Row]) -> None:
    for row in rows:
        assert set(row) <= FIELDS, row["id"]
        assert project(row) in PROJECTS, row["id"]
        assert row["kind"] in KINDS, row["id"]
        absent = row["kind"] == "absent"
        assert bool(row["answers"]) == bool(row["evidence"]) == (not absent), row["id"]
        assert all(span["doc"].startswith(f"{project(row)}/") for span in spans(row)), row["id"]
        assert all(0 < len(span["text"].split()) <= LONGEST for span in spans(row)), row["id"]


def test_every_kind_has_enough_questions(rows: list[Row]) -> None:
    kinds = Counter(row["kind"] for row in rows)
    assert len(rows) - kinds["absent"] >= 100
    assert kinds["absent"] >= 40
    assert kinds["value"] >= 40
    assert sum("parts" in row for row in rows) >= 25
    assert min(Counter(project(row) for row in rows if row["answers"]).values()) >= 20


def test_halves_have_the_same_mix(rows: list[Row]) -> None:
    halves: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in rows:
        halves[project(row), "absent" if row["kind"] == "absent" else "answered"][row["half"]] += 1
        halves["", row["kind"]][row["half"]] += 1
    for (name, sort), count in halves.items():
        assert set(count) == {"tune", "report"}, (name, sort)
        assert abs(count["tune"] - count["report"]) <= (0 if name else 1), (name, sort)


def test_no_question_is_reserved(all_rows: list[Row]) -> None:
    if not RESERVED.is_file():
        pytest.skip(f"missing file of reserved questions: {RESERVED}")
    reserved = set(RESERVED.read_text(encoding="utf-8").split())
    assert not [row["id"] for row in all_rows if question_hash(row["question"]) in reserved]


def test_spans_are_the_text_at_their_offsets(all_rows: list[Row], documents: dict[str, Document]) -> None:
    for row in all_rows:
        for span in spans(row):
            assert documents[span["doc"]].text[span["start"] : span["end"]] == span["text"], row["id"]


def test_evidence_contains_the_answers(rows: list[Row], documents: dict[str, Document]) -> None:
    for row in rows:
        texts = [
            [
                normalise(text)
                for span in group
                for text in (span["text"], headings(documents[span["doc"]], span["start"]))
            ]
            for group in groups(row)
        ]
        answers = [normalise(answer) for answer in row["answers"]]
        assert all(answer.strip() for answer in answers), row["id"]
        for answer in answers:
            assert any(answer in text for group in texts for text in group), (row["id"], answer)
        for group in texts if answers else []:
            assert any(answer in text for answer in answers for text in group), row["id"]
        for part in row.get("parts", []):
            assert any(normalise(part) in text for text in texts[0]), (row["id"], part)


def test_adversarial_questions_are_new_and_halved() -> None:
    rows = read_rows(QUESTIONS.with_name("adversarial.jsonl"))
    assert len({question_hash(row["question"]) for row in rows}) == len(rows)
    assert all(bool(row["answers"]) == (row["kind"] == "answerable") for row in rows)
    halves = Counter((row["language"], bool(row["answers"]), row["half"]) for row in rows)
    for language, least in {"en": (30, 15), "fr": (40, 35), "de": (25, 18)}.items():
        for answerable in (False, True):
            in_halves = [halves[language, answerable, half] for half in ("tune", "report")]
            assert min(in_halves) >= least[answerable] and abs(in_halves[0] - in_halves[1]) <= 3
    if RESERVED.is_file():
        reserved = set(RESERVED.read_text(encoding="utf-8").split())
        assert not [row["id"] for row in rows if question_hash(row["question"]) in reserved]
