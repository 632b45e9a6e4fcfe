"""The notebook `examples/evaluate.ipynb`: its cells run in order, and the run that it shows names both strategies."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_cell(code: str, names: dict[str, Any]) -> Any:
    """Run a cell and return the value of its last line, if that is an expression."""
    body = ast.parse(code).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None


def test_the_notebook_compares_two_strategies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    cells = json.loads((EXAMPLES / "evaluate.ipynb").read_text(encoding="utf-8"))["cells"]
    assert len(cells) == 10 and not any(cell.get("outputs") for cell in cells)
    names: dict[str, Any] = {}
    shown = [run_cell("".join(cell["source"]), names) for cell in cells if cell["cell_type"] == "code"]
    run = shown[2]
    page = run._repr_html_()
    assert page.startswith("<iframe") and all(f"&gt;{name}&lt;" in page for name in ("topk", "weave"))
    means = {(one.strategy, one.budget): one.scores["evidence"] for one in run.means()}
    assert means["weave", 60] == 1.0 and means["topk", 60] < 1.0
    assert shown[-1] == len(run.rows()) == 2 * 3 * 8
    assert "evidence 1.000" in capsys.readouterr().out
