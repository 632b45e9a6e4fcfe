"""Run folders: write and read back, rows of older settings, and runs in progress."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.evaluate.measured_runs import small_run, without_seconds
from tests.evaluate.towns import DOCUMENTS, QUESTIONS

from mergewise.errors import UsageError
from mergewise.evaluate.judged import FoundText, LostStage, LostText
from mergewise.evaluate.runs.digests import question_digest
from mergewise.evaluate.runs.lines import RowLines
from mergewise.evaluate.runs.run_folder import LINES, PLAN, ROWS_FILE, Run, open_run
from mergewise.evaluate.runs.run_plan import Machine, PlannedSet, RunPlan, plan_text, read_plan
from mergewise.evaluate.runs.run_row import RankedDocument, RunPassage, RunRow
from mergewise.evaluate.runs.run_schema import QUESTIONS as QUESTIONS_SCHEMA
from mergewise.evaluate.runs.run_schema import ROWS, TEXTS, scores_of
from mergewise.types import GAP, Span

TEXT_ROWS = [("towns", one.id, one.title, one.text) for one in DOCUMENTS]


def row(number: int, method: str = "topk", budget: int = 100) -> RunRow:
    question = QUESTIONS[number]
    passages = (RunPassage(0.5, (Span(DOCUMENTS[number].id, 0, 7), Span(DOCUMENTS[number].id, 9, 18))),)
    scores = {"answer": 1.0, "evidence": None}
    key = ("towns", question.id, question_digest(question, True), method, f"of {method}", budget)
    return RunRow(
        *key, tokens=9, passages=passages, ranking=(RankedDocument(DOCUMENTS[number].id, 0.5),), scores=scores
    )


def made_run(folder: Path, *rows: RunRow) -> Run:
    return small_run(folder, rows, {"towns": QUESTIONS}, TEXT_ROWS)


def test_a_run_folder_reads_back_as_written(tmp_path: Path) -> None:
    full = replace(
        row(1, "weave"),
        found=(FoundText("Arden.md", 3, None, "The tower"),),
        lost=(LostText("Mason", LostStage.SKIP),),
        mode="short",
        prediction="Mason",
        refused=False,
        sure=True,
        weights={"passages": 0.75},
        calls=2,
        input_tokens=30,
        search_seconds=0.125,
        assembly_seconds=0.25,
        scores={"answer": 0.0, "evidence": None, "em": 1.0},
    )
    generated = replace(row(2, "weave"), passages=(RunPassage(1.0, (), "What a model wrote."),), ranking=())
    failed = replace(row(3), tokens=None, passages=(), ranking=(), error="it broke", scores={})
    rows = [row(0), failed, full, generated]
    run = made_run(tmp_path / "run", *rows)
    known = list(run.run_rows())
    assert scores_of(run.rows()) == ["answer", "evidence", "em"] and run.rows().schema.names[: len(ROWS)] == ROWS.names
    assert [replace(one, scores={}) for one in known] == [replace(one, scores={}) for one in rows]
    assert known[2].scores == {"answer": 0.0, "evidence": None, "em": 1.0} and known[2].query_seconds == 0.375
    assert known[0].scores == {"answer": 1.0, "evidence": None, "em": None} and known[0].query_seconds is None
    assert run.set_questions("towns") == list(QUESTIONS) and run.questions().schema == QUESTIONS_SCHEMA
    assert run.texts().schema == TEXTS
    assert run.passage_text("towns", full.passages[0]) == f"# Brook{GAP}The tower"
    assert run.passage_text("towns", generated.passages[0]) == "What a model wrote."
    with pytest.raises(UsageError, match="text of none of towns missing"):
        run.span_text("towns", Span("none", 0, 1))


def test_a_plan_reads_back_as_written() -> None:
    plan = RunPlan(
        sets=(PlannedSet('a "b"\n\x7f', 3, 2, "c:\\d"),),
        budgets=(128, 384),
        tables=("aed-1",),
        models={"chat": "openai:é", "marker.examples": "none"},
        machine=Machine("Linux", "x", 2),
    )
    assert read_plan(plan_text(plan), "run.toml") == plan
    for broken in ("no toml", "format = 2", plan_text(plan).replace("384", '"many"'), "format = 1\nsets = [1]"):
        with pytest.raises(UsageError, match="invalid plan of a run"):
            read_plan(broken, "run.toml")


def test_a_run_in_progress_has_its_rows_so_far(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", row(0), row(1))
    (run.folder / ROWS_FILE).unlink()
    lines = RowLines(run.folder / LINES / "towns.jsonl")
    lines.add([row(1).as_dict(), row(0).as_dict()])
    # a method outside the plan, and a question that failed before it succeeded
    lines.add([row(0, "other").as_dict(), replace(row(2), error="it broke").as_dict(), row(2).as_dict()])
    assert [(one.question, one.error) for one in open_run(run.folder).run_rows()] == [("0", ""), ("1", ""), ("2", "")]


def test_a_truncated_line_is_skipped(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", row(0))
    (run.folder / ROWS_FILE).unlink()
    path = run.folder / LINES / "towns.jsonl"
    RowLines(path).add([row(0).as_dict()])
    whole = path.read_bytes()
    for left in range(1, len(whole) + 1, 61):
        path.write_bytes(whole + whole[:left])
        RowLines(path).add([row(1).as_dict()])
        assert {one.question for one in open_run(run.folder).run_rows()} == {"0", "1"}


def test_invalid_run_folders_raise_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run in "):
        open_run(tmp_path)
    run = made_run(tmp_path / "run", row(0))
    (run.folder / ROWS_FILE).write_bytes(b"no table")
    with pytest.raises(UsageError, match="cannot read"):
        open_run(run.folder).rows()
    (run.folder / ROWS_FILE).unlink()
    lines = run.folder / LINES / "towns.jsonl"
    lines.parent.mkdir()
    for broken in ({"budget": "many"}, {"passages": 3}, {"scores": {"answer": "much"}}):
        lines.write_text(json.dumps({**row(0).as_dict(), **broken}) + "\n")
        with pytest.raises(UsageError, match="invalid row in "):
            open_run(run.folder).rows()
    (run.folder / PLAN).unlink()
    (run.folder / PLAN).symlink_to(run.folder / "questions.parquet")
    with pytest.raises(UsageError, match="no run in "):
        open_run(run.folder)


def test_the_same_rows_give_the_same_bytes_except_for_seconds(tmp_path: Path) -> None:
    first = made_run(tmp_path / "one", row(0), row(1))
    second = made_run(tmp_path / "two", row(0), replace(row(1), search_seconds=3.0))
    assert (first.folder / "texts.parquet").read_bytes() == (second.folder / "texts.parquet").read_bytes()
    assert first.rows() != second.rows() and without_seconds(first.rows()).equals(without_seconds(second.rows()))
    assert pq.ParquetFile(first.folder / ROWS_FILE).metadata.row_group(0).column(0).compression == "ZSTD"
