"""Code size: rooms, commands and public names stay within 5 % of their budgets."""

from __future__ import annotations

import tomllib

from scripts import budgets


def test_code_stays_within_its_budgets() -> None:
    kept = tomllib.loads(budgets.PATH.read_text(encoding="utf-8"))
    over = budgets.overruns(budgets.sizes(), kept)
    assert not over, "\n".join(
        [*over, "to raise a budget: python -m scripts.budgets --write, and say why in the commit"]
    )


def test_overruns_are_reported() -> None:
    kept = {"rooms": {"store": 1000}, "options": {"ask": 20}, "names": {"mergewise": 60}}
    assert not budgets.overruns({"rooms": {"store": 1050}, "options": {"ask": 20}, "names": {"mergewise": 60}}, kept)
    over = budgets.overruns(
        {"rooms": {"store": 1051, "new": 1}, "options": {"ask": 22}, "names": {"mergewise": 64}}, kept
    )
    assert [line.partition(";")[0] for line in over] == [
        "rooms: store has 1051, budget 1000",
        "rooms: new has 1, budget None",
        "options: ask has 22, budget 20",
        "names: mergewise has 64, budget 60",
    ]


def test_lines_of_code_are_counted() -> None:
    source = '"""Doc."""\n\nimport os\n\n# why\nx = [\n    1,\n]\n\n\ndef f():\n    """Doc\n    more."""\n    return """a\nb"""\n'
    assert budgets.code_lines(source) == 5
