"""Reports of runs: tables of the papers, default tables, marks, headline and remarks, and exports."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.evaluate.measured_runs import COUNT, METHODS, SETS, question, row, saved_run, small_run

from mergewise.errors import UsageError
from mergewise.evaluate.exports import csv_table, markdown, svg_files
from mergewise.evaluate.layout import preset_tables
from mergewise.evaluate.measured import Measured, measured_runs
from mergewise.evaluate.presets import preset, read_preset
from mergewise.evaluate.report import evaluation_report, layouts
from mergewise.evaluate.report_records import EvaluationReport, ReportPair, ReportTable
from mergewise.evaluate.runs.run_plan import PlannedRows, plan_text


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured_runs([saved_run(tmp_path_factory.mktemp("runs") / "one")])


@pytest.fixture(scope="module")
def report(measured: Measured) -> EvaluationReport:
    return evaluation_report(measured, [preset("mrag-2"), preset("mergerag-1")])


def decode_blocks(report: EvaluationReport) -> dict[str, Any]:
    return {name: json.loads(gzip.decompress(base64.b64decode(data))) for name, data in report.data}


def figures(table: ReportTable) -> dict[tuple[str, str], list[float | None]]:
    return {
        (row.section, row.name): [None if c.value is None else round(c.value, 3) for c in row.cells]
        for row in table.rows
    }


def tables_of(report: EvaluationReport) -> dict[str, ReportTable]:
    return {table.key: table for part in report.parts for table in part.tables}


def test_default_tables_hold_means_and_mark_the_best(report: EvaluationReport) -> None:
    tables = tables_of(report)
    sets = tables["sets"]
    assert [column.label for column in sets.columns] == [*SETS, "mean"]
    assert figures(sets)["128 tokens", "weave"] == [0.95, 0.95, 0.95]
    assert figures(sets)["384 tokens", "topk"] == [0.6, 0.6, 0.6]
    marks = {(row.section, row.name): row.cells[2].mark for row in sets.rows}
    assert marks["128 tokens", "weave"] == "best"
    assert marks["128 tokens", "topk"] == "second" and marks["128 tokens", "dos"] == ""
    own = tables["set-towns"]
    assert [column.label for column in own.columns] == ["answer", "evidence", "all", "density", "tokens", "ms"]
    assert figures(own)["128 tokens", "dos"][:4] == [0.0, 0.0, 0.0, 0.25]
    assert all(row.cells[4].mark == "" for row in own.rows)
    assert figures(tables["costs"])["128 tokens", "topk"][1] == pytest.approx(30.0)


def test_milliseconds_are_medians(tmp_path: Path) -> None:
    """The mean of 10, 20 and 300 is 110, because of a single slow question."""
    taken = (0.010, 0.020, 0.300)
    rows = [
        replace(row("towns", "topk", number, 128), search_seconds=seconds, assembly_seconds=0.0)
        for number, seconds in enumerate(taken)
    ]
    run = small_run(tmp_path / "run", rows, {"towns": [question(number) for number in range(len(taken))]})
    tables = tables_of(evaluation_report(measured_runs([run])))
    table = tables["set-towns"]
    place = [column.label for column in table.columns].index("ms")
    assert "median" in table.columns[place].about
    assert (cell := table.rows[0].cells[place]).value == pytest.approx(20.0) and cell.interval is None


def test_the_headline_names_the_best_methods_and_the_smallest_detectable_difference(report: EvaluationReport) -> None:
    assert report.headline[0].startswith("At 128 tokens **weave** has the highest evidence: 0.950 (")
    assert report.headline[0].endswith("All 3 others are worse.")
    assert "mean of 2 sets" in report.headline[0]
    (seen,) = report.remarks
    assert "detects with 80 % power: 0." in seen and "on towns" in seen
    assert report.facts == "40 questions of 2 sets · 4 methods · budgets of 128, 384 tokens · compared with topk"
    assert report.warning == ""


def test_the_report_lists_all_pairs_with_their_differences(report: EvaluationReport) -> None:
    first = report.pairs[0]
    assert first.title == "mean of all sets, 384 tokens: evidence" and first.names[0] == "weave"
    assert first.cells[0][0] is None
    gain = first.cells[0][1]
    assert gain is not None and gain.difference == pytest.approx(1.0 - 0.6)
    assert gain.probability < 0.01 and gain.is_apart and (gain.better, gain.worse) == (16, 0)
    low, high = gain.interval
    assert 0.2 < low < gain.difference < high < 0.6
    back = first.cells[1][0]
    assert back == ReportPair(-gain.difference, (-high, -low), gain.probability, 0, 16)
    assert len(report.pairs) == 3 * 2


def test_questions_have_contexts_gold_and_the_stage_of_loss(report: EvaluationReport) -> None:
    data = decode_blocks(report)
    head = data["head"]
    assert head["methods"] == list(METHODS) and head["stages"] == ["a candidate that did not fit"]
    assert len(head["questions"]) == 2 * COUNT and report.left_out == 0
    place = next(i for i, q in enumerate(head["questions"]) if (q["set"], q["id"]) == (1, "q2"))
    assert head["questions"][place]["kind"] == "when" and head["questions"][place]["hops"] == 1
    column = METHODS.index("topk") * 2
    assert head["scores"]["evidence"][column][place] == 0
    own = data[f"q{head['questions'][place]['block']}"][str(place)]
    missed, kept = own["rows"][str(column)], own["rows"][str(METHODS.index("weave") * 2)]
    assert missed["lost"] == [[own["gold"][0][3], 0]] and "lost" not in kept
    document, start, end = own["gold"][0][:3]
    assert kept["passages"][0][1] == [document, 0, 28, document, start, end]
    name, title, block = head["documents"][document]
    assert (name, title) == ("d2", "Town <2>")
    pieces = data[f"t{block}"][str(document)]
    found = next(text[start - at : end - at] for at, text in pieces if at <= start and end <= at + len(text))
    assert found.startswith("Town 2 was founded")


def test_a_small_page_keeps_the_questions_on_which_methods_differ_most(measured: Measured) -> None:
    small = evaluation_report(measured, limit=3000)
    assert 0 < small.left_out <= 2 * COUNT
    assert sum(len(data) for name, data in small.data if name != "head") < 6000
    data = decode_blocks(evaluation_report(measured, limit=1))
    assert data.keys() == {"head"} and {q["block"] for q in data["head"]["questions"]} == {-1}
    assert evaluation_report(measured, limit=0).data == ()


def test_a_preset_without_answers_shows_scores_of_contexts(measured: Measured) -> None:
    first, own = layouts(measured, preset("mrag-2"))
    rows = figures(first)
    assert rows["", "DOS"] == [0.0, 0.2, None, 0.0, 0.2, None]
    assert [column.group for column in first.columns[::3]] == ["2WikiMultihopQA", "towns"]
    assert own.rows[0].cells[0].published == 6.6 and own.rows[0].cells[0].published_spread == 0.0
    assert not own.has_figures
    notes = {row.name: row.note for row in first.rows}
    assert notes["Fixed-Size"] == "not run" and notes["DOS"] == ""


def test_a_preset_shows_measured_next_to_published_numbers(tmp_path: Path) -> None:
    names = ("topk short", "dos short", "weave r&b", "weave fil")
    measured = measured_runs([saved_run(tmp_path / "run", names, (128,), ("2wiki",), repeats=2, mode="short")])
    shape = {
        "title": "T", "source": "S", "about": "A", "budgets": [128], "notes": ["N"],
        "groups": [{"label": "2Wiki", "sets": ["2wiki"]}, {"label": "NQ", "sets": ["nq"]}],
        "columns": [
            {"label": "EM", "metric": "relaxed_em"}, {"label": "F1", "metric": "f1"}, {"label": "Avg", "is_mean": True}
        ],
        "rows": [
            {"label": "Top", "strategy": "topk", "mode": "short", "published": [[1.0, 2.0, 1.5], [3.0, 4.0, 3.5]]},
            {"label": "DOS", "strategy": "dos", "mode": "short", "section": "more"},
            {"label": "Weave", "strategy": "weave", "modes": ["r&b", "fil"]},
            {"label": "Weave of both", "strategy": "weave", "modes": ["r&b", "short"]},
            {"label": "Other reader", "published": [[9.0, 9.0, 9.0], [9.0, 9.0, 9.0]]},
            {"label": "Other", "strategy": "topk", "mode": "short", "only": {"chat": "Big-1"}},
        ],
    }  # fmt: skip
    (table,) = preset_tables(measured, read_preset("own", shape))
    cells = {row.name: row.cells for row in table.rows}
    top = cells["Top"]
    # held questions have an F1 of 0.5 in the first repeat and 0.75 in the second, others 0 and 0.25
    assert [round(cell.value or 0, 4) for cell in top[:3]] == [0.5, 0.375, 0.4375]
    assert top[1].spread == pytest.approx(0.25 / 2**0.5)
    assert [cell.published for cell in top] == [1.0, 2.0, 1.5, 3.0, 4.0, 3.5] and top[3].value is None
    assert round(cells["Weave"][0].value or 0, 3) == 0.95 and cells["Weave of both"][0].value is None
    assert {row.name: row.note for row in table.rows}["Other"] == "needs a run with chat Big-1"
    assert cells["Weave"][0].mark == "best" and cells["Other reader"][0].value is None
    whole = evaluation_report(measured)
    assert "Answers" not in whole.title and whole.headline[0].startswith("At 128 tokens **weave")
    assert "seconds" in [column.label for column in tables_of(whole)["costs"].columns]


def test_runs_side_by_side(tmp_path: Path) -> None:
    one = saved_run(tmp_path / "a" / "run", ("topk", "weave"))
    two = saved_run(tmp_path / "b" / "run", ("weave", "dos"))
    measured = measured_runs([one, two], "dos")
    assert [method.name for method in measured.methods] == ["topk", "weave (a/run)", "weave (b/run)", "dos"]
    assert measured.reference == "dos" and len(measured.sets[0].questions) == COUNT
    assert [label for label, _ in evaluation_report(measured).provenance] == ["a/run", "b/run"]
    with pytest.raises(UsageError, match="unknown method: 'nobody'"):
        measured_runs([one], "nobody")
    with pytest.raises(UsageError, match="duplicate run folder"):
        measured_runs([one, one])


def test_methods_that_could_not_run_show_their_needs_and_scripted_models_are_marked(tmp_path: Path) -> None:
    run = saved_run(tmp_path / "run", ("topk", "weave"))
    plan = replace(
        run.plan,
        rows=(*run.plan.rows, PlannedRows("towns", "raptor", "", "needs the view raptor")),
        models={"chat": "openai:scripted"},
    )
    (tmp_path / "run" / "run.toml").write_text(plan_text(plan))
    report = evaluation_report(measured_runs([replace(run, plan=plan)]))
    rows = {row.name: row for row in tables_of(report)["set-towns"].rows}
    assert rows["raptor"].note == "needs the view raptor" and rows["raptor"].section == "could not run"
    assert report.warning == "plumbing, not quality" and any("raptor" in line for line in report.remarks)


def test_a_question_that_failed_counts_as_wrong(tmp_path: Path) -> None:
    asked = [question(number) for number in range(4)]
    rows = [row("towns", "weave", number, 128, mode="short") for number in range(1, 5)]
    rows = [replace(one, question=f"q{place}") for place, one in enumerate(rows)]
    rows[3] = replace(rows[3], error="no reply", scores={}, prediction=None)
    measured = measured_runs([small_run(tmp_path, rows, {"towns": asked})])
    em, evidence = (measured.scored("towns", "weave", 128, name) for name in ("em", "evidence"))
    assert em is not None and evidence is not None
    assert em.mean == 0.75 and evidence.mean == 1.0 and int(np.isfinite(evidence.by_set["towns"]).sum()) == 3


def test_markdown_and_csv_hold_all_figures(report: EvaluationReport) -> None:
    text = markdown(report)
    for part in text.split("\n\n"):
        if part.startswith("|"):
            lines = [line.replace("\\|", "") for line in part.splitlines()]
            assert len({line.count("|") for line in lines}) == 1
    assert "| weave | **0.950** |" in text and "(6.60 ± 0.00)" in text
    rows = list(csv.DictReader(io.StringIO(csv_table(report))))
    kept = {(row["table"], row["section"], row["method"], row["column"]): row for row in rows}
    cell = kept["All sets: evidence", "128 tokens", "weave", "mean"]
    assert float(cell["value"]) == pytest.approx(0.95) and cell["mark"] == "best" and float(cell["low"]) < 0.95


def test_names_cannot_break_an_export(tmp_path: Path) -> None:
    names = ("a|b*_&%$#{}~^\\", "=cmd()", "weave")
    run = saved_run(tmp_path / "x", ("topk", "dos", "weave"), (128,), ("2wiki",))
    found = evaluation_report(measured_runs([run]))
    table = next(table for part in found.parts for table in part.tables if table.key == "set-2wiki")
    rows = tuple(replace(row, name=name) for row, name in zip(table.rows, names, strict=True))
    hostile = replace(found, parts=(replace(found.parts[1], tables=(replace(table, rows=rows),)),))
    assert "| a\\|b\\*\\_&%$#{}~^\\\\ |" in markdown(hostile)
    assert ",'=cmd()," in csv_table(hostile)


def test_curves_are_whole_files(report: EvaluationReport) -> None:
    files = svg_files(report)
    assert list(files) == ["curves-mean-of-all-sets.svg", "curves-2wiki.svg", "curves-towns.svg"]
    for text in files.values():
        root = ElementTree.fromstring(text)
        names = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
        assert {*METHODS} <= set(names)
