"""`--metric` of `eval` and `report`: any measure of rankings by name, computed from the stored rankings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.invoking import invoke
from tests.evaluate.towns import saved_task

from mergewise.errors import UsageError


def test_eval_and_report_show_any_measure(tmp_path: Path) -> None:
    rows, run = tmp_path / "rows.json", tmp_path / "run"
    given = [str(saved_task(tmp_path / "towns")), "--embedder", "none", "-s", "topk", "-b", "200", "--json", str(rows)]
    out = invoke("eval", *given, "--metric", "nDCG@20,P@5,AP,evidence", "--out", str(run))
    assert all(name in out for name in ("nDCG@20", "P@5", "AP", "evidence")) and "MRR" not in out
    (means,) = json.loads(rows.read_text())
    # the gold document is first, and the only one
    assert means["nDCG@20"] == means["AP"] == 1.0 and means["P@5"] == pytest.approx(0.2)
    assert means["P@5_interval"]
    # a run that was made without them
    out = invoke("report", str(run), "--metric", "Success@1,R@2")
    assert "Success@1" in out and "R@2" in out


def test_an_unknown_metric_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown score: 'NDCG@20'"):
        invoke("eval", str(tmp_path / "nowhere"), "--metric", "AP,NDCG@20")
