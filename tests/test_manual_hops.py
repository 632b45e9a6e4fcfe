"""Checks of the manual questions whose answers need two places."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from mergewise.evaluate.words import normalise

HOPS = Path(__file__).parents[1] / "benchmarks/manuals/hops.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in HOPS.read_text(encoding="utf-8").splitlines()]
PROJECTS = ("starlette", "httpx", "sqlite-utils", "txtai", "pydantic-ai")


def test_every_row_has_the_fields() -> None:
    assert len(ROWS) >= 70
    for row in ROWS:
        assert set(row) == {"id", "question", "answers", "evidence", "kind", "half"}, row["id"]
        assert row["question"].endswith("?") and row["answers"], row["id"]
        assert row["kind"] in ("bridge", "comparison", "combination"), row["id"]
        assert all(set(span) == {"doc", "start", "end", "text"} for span in row["evidence"]), row["id"]


def test_projects_and_halves_are_balanced() -> None:
    counts = Counter((row["id"].rsplit("-h", 1)[0], row["half"]) for row in ROWS)
    assert {project for project, _ in counts} == set(PROJECTS)
    assert {half for _, half in counts} == {"tune", "report"}
    for project in PROJECTS:
        tune, report = counts[project, "tune"], counts[project, "report"]
        assert abs(tune - report) <= 1 and tune + report >= 10, project
    assert abs(sum(1 if row["half"] == "tune" else -1 for row in ROWS)) <= 1


def test_evidence_contains_the_answers() -> None:
    for row in ROWS:
        for answer in row["answers"]:
            assert normalise(answer).strip(), row["id"]
            assert any(normalise(answer) in normalise(span["text"]) for span in row["evidence"]), (row["id"], answer)


def test_every_question_has_two_places_that_do_not_touch() -> None:
    for row in ROWS:
        spans = sorted((span["doc"], span["start"], span["end"]) for span in row["evidence"])
        assert len(spans) >= 2, row["id"]
        for (doc, _, end), (next_doc, next_start, _) in pairwise(spans):
            assert doc != next_doc or end < next_start, (row["id"], doc)
