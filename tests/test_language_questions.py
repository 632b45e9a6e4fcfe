"""Checks of the handmade questions over manuals in other languages: fields, halves, and spans of the French manual."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.support import read
from tests.test_manual_questions import FIELDS, KINDS, QUESTIONS, RESERVED, Row, question_hash, read_rows, spans

FRENCH = Path(__file__).parents[1] / "../shared/data/files/manuals-fr"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return read_rows(QUESTIONS.with_name("languages.jsonl"))


def test_questions_across_languages_have_their_gold_in_english(rows: list[Row]) -> None:
    across = read_rows(QUESTIONS.with_name("across.jsonl"))
    asked = {row["id"].removeprefix("fastapi-"): row for row in rows}
    assert len({row["id"] for row in across}) == len(across) > 50
    for row in across:
        assert (row["question"], row["half"]) == (asked[row["id"]]["question"], asked[row["id"]]["half"]), row["id"]
        [span] = row["evidence"]
        assert row["corpus"] == "fastapi-en" and row["answers"] == [span["text"]], row["id"]
        assert len(span["text"]) == span["end"] - span["start"], row["id"]


def test_ids_and_questions_are_unique(rows: list[Row]) -> None:
    assert len({row["id"] for row in rows}) == len(rows) > 150
    assert len({" ".join(row["question"].casefold().split()) for row in rows}) == len(rows)


def test_rows_have_the_documented_fields(rows: list[Row]) -> None:
    for row in rows:
        assert set(row) <= FIELDS | {"corpus"}, row["id"]
        assert row["kind"] in KINDS and row["half"] in {"tune", "report"}, row["id"]
        assert row["corpus"].endswith(row["id"].rpartition("-")[0]), row["id"]
        assert row["answers"] and row["evidence"], row["id"]
        # some manuals are not quoted, so their spans have no text
        sizes = [(span["end"] - span["start"], len(span["text"]) if "text" in span else None) for span in spans(row)]
        assert all(size > 0 and length in (size, None) for size, length in sizes), row["id"]


def test_halves_have_the_same_size(rows: list[Row]) -> None:
    halves: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        halves[row["corpus"]][row["half"]] += 1
    for corpus, count in halves.items():
        assert abs(count["tune"] - count["report"]) <= 2, corpus
    assert abs(sum(count["tune"] - count["report"] for count in halves.values())) <= 2


def test_halves_of_questions_over_unknown_projects_have_the_same_kinds() -> None:
    rows = read_rows(QUESTIONS.with_name("projects.jsonl"))
    assert len({row["question"] for row in rows}) == len({row["id"] for row in rows}) == 60
    tune, report = (
        Counter((row["id"].partition("-")[0], row["kind"]) for row in rows if row["half"] == half)
        for half in ("tune", "report")
    )
    assert tune == report
    for row in rows:
        assert set(row) <= FIELDS and row["kind"] in KINDS, row["id"]
        assert row["answers"] == list(dict.fromkeys(span["text"] for span in spans(row))), row["id"]
        assert all(len(span["text"]) == span["end"] - span["start"] for span in spans(row)), row["id"]


def test_no_question_is_reserved(rows: list[Row]) -> None:
    if not RESERVED.is_file():
        pytest.skip(f"missing file of reserved questions: {RESERVED}")
    reserved = set(RESERVED.read_text(encoding="utf-8").split())
    rows = [*rows, *read_rows(QUESTIONS.with_name("projects.jsonl"))]
    assert not [row["id"] for row in rows if question_hash(row["question"]) in reserved]


def test_spans_of_the_french_manual_are_the_text_at_their_offsets(rows: list[Row]) -> None:
    if not FRENCH.is_dir():
        pytest.skip(f"missing folder: {FRENCH}")
    french = [span for row in rows if row["corpus"] == "manuals-fr" for span in spans(row)]
    documents = {name: read(FRENCH / name).text for name in {span["doc"] for span in french}}
    assert french
    for span in french:
        assert documents[span["doc"]][span["start"] : span["end"]] == span["text"], span["doc"]
