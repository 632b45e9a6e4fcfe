"""The benchmark of chunking baselines: its layout, and what it says of a strategy that there is not."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest
from benchmarks import chunkers

import mergewise
from mergewise.evaluate.rows import EvaluationRow
from mergewise.evaluate.tasks import Question, Task
from mergewise.types import Document
from tests.support import HashEmbedder

TASK = Task("towers", (), (Question("q", "Who built the tower?", ("mason",), None),))


def test_the_best_of_a_column_is_bold_and_the_second_underlined() -> None:
    column = [0.5, 0.25, 0.5, None]
    assert [chunkers._marked(value, column) for value in column] == ["**0.500**", "<u>0.250</u>", "**0.500**", "-"]


def test_a_strategy_that_there_is_not_is_a_row_that_says_so() -> None:
    rows = {"Fixed-Size": "fixed", "M": "unknown(order=position)"}
    cells = {("squad", "fixed", 128): EvaluationRow("squad", "fixed", 128, 0.5, 0.4, 0.3, 0.2, 100.0, 1.0)}
    table = chunkers._table("evidence", rows, {"M"}, ["squad"], [128], cells)
    assert table.splitlines()[-2:] == ["| Fixed-Size | **0.400** |", "| M | not in this version |"]


def test_finished_cells_are_not_worked_out_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = mergewise.open(tmp_path / "index", embedder=HashEmbedder(), views=("leaf", "fixed"))
    index.add(Document("d", "The tower was built by a mason. " * 9))
    options = Namespace(cache=tmp_path, half="all", limit=None)
    first = list(chunkers._cells(index, TASK, ["fixed"], [64, 128], options))
    lines = (tmp_path / "cells.jsonl").read_text().strip().splitlines()
    assert [row.answer for row in first] == [1.0, 1.0] and len(lines) == 2
    (tmp_path / "cells.jsonl").write_text(lines[0] + "\n" + lines[1][:20])  # a kill cut the second off
    asked: list[int] = []
    plain = chunkers.evaluate
    monkeypatch.setattr(chunkers, "evaluate", lambda *given: asked.append(given[3][0]) or plain(*given))
    again = list(chunkers._cells(index, TASK, ["fixed"], [64, 128], options))
    assert asked == [128] and again[0] == first[0]
    assert list(chunkers._cells(index, TASK, ["fixed"], [64, 128], options)) == again and asked == [128]
    assert json.loads(lines[0])["key"][:3] == ["towers", "fixed", 64]


def test_keys_of_the_papers_shape_are_the_beginnings_of_segments() -> None:
    assert (
        chunkers._beginning("The cats of Rome sleep. " * 9, 5) == "The cats of Rome sleep."[: len("The cats of Rome")]
    )
