"""Code size stays within its budgets. Budgets fall by themselves and rise only with a reason."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

import pytest
from scripts import budgets


def test_code_stays_within_its_budgets() -> None:
    kept = tomllib.loads(budgets.PATH.read_text(encoding="utf-8"))
    over = budgets.overruns(budgets.sizes(), kept)
    assert not over, "\n".join([*over, "to raise a budget, add a rise with its reason to tests/budgets.toml"])


def test_overruns_are_reported() -> None:
    kept = {"tokens": {"store": 1000, "all": 1000}, "options": {"ask": 20}, "names": {"mergewise": 60}}
    assert not budgets.overruns({"tokens": {"store": 1020, "all": 1000}, "options": {"ask": 20}}, kept)
    now = {"tokens": {"store": 1021, "new": 1, "all": 1001}, "options": {"ask": 21}, "names": {"mergewise": 61}}
    assert [line.partition(";")[0] for line in budgets.overruns(now, kept)] == [
        "tokens: store has 1021, budget 1000",
        "tokens: new has 1, budget 0",
        "tokens: all has 1001, budget 1000",
        "options: ask has 21, budget 20",
        "names: mergewise has 61, budget 60",
    ]


def test_a_rise_needs_a_reason() -> None:
    rise = {"budget": "options.ask", "by": 2, "reason": "--language"}
    kept: dict[str, Any] = {"options": {"ask": 20}, "rises": [rise]}
    assert not budgets.overruns({"options": {"ask": 22}}, kept)
    assert budgets.overruns({"options": {"ask": 23}}, kept)
    with pytest.raises(ValueError, match=r"options\.ask has no reason"):
        budgets.overruns({"options": {"ask": 22}}, {**kept, "rises": [{**rise, "reason": ""}]})


def test_writing_only_lowers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "budgets.toml"
    path.write_text(
        '# Why.\n\n[tokens]\n"cli" = 9\n"text" = 5\n\n[[rises]]\nbudget = "tokens.text"\nby = 2\nreason = "more"\n'
    )
    monkeypatch.setattr(budgets, "PATH", path)
    for now, kept in (({"cli": 12, "text": 8}, (9, 5)), ({"cli": 7, "text": 6, "new": 3}, (7, 4))):
        text = budgets.lowered({"tokens": now}, tomllib.loads(path.read_text()))
        path.write_text(text)
        read = tomllib.loads(text)
        assert (read["tokens"]["cli"], read["tokens"]["text"]) == kept and len(read["rises"]) == 1
        assert text.startswith("# Why.\n")
    assert read["tokens"]["new"] == 0


def test_tokens_of_code_are_counted() -> None:
    source = (
        '"""Doc."""\n\nimport os\n\n# why\nx = [\n    1,\n]\n\n\ndef f():\n    """Doc\n    more."""\n    return x + 1\n'
    )
    assert budgets.count_tokens(source) == 15


def test_private_imports_are_counted() -> None:
    source = "from mergewise import errors\nfrom mergewise.query import Query\nfrom mergewise.evaluate.run import Run\n"
    assert list(budgets.private_imports(ast.parse(source))) == ["mergewise.query.Query"]
