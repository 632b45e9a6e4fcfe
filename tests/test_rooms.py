"""What stands where: the rooms below the designs name none of them, and a wing is its own business."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import mergewise
from mergewise.designs import STRATEGIES, VIEWS
from tests.test_layers import LEVELS, level

SOURCE = Path(mergewise.__file__).parent
DESIGNS = SOURCE / "designs"
WINGS = sorted(path.name for path in DESIGNS.iterdir() if (path / "__init__.py").exists())


def strings_in(path: Path) -> set[str]:
    """All strings of a module but its docstrings, and those of the function that reads an older format."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "_upgrade":
            node.body = []
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@pytest.mark.parametrize("room", ["store", "retrieve", "index/pipeline.py", "cli/manage.py"])
def test_rooms_that_serve_all_views_name_none(room: str) -> None:
    names = {table.name for view in VIEWS.values() for table in view.tables(view.settings())} | VIEWS.keys()
    own = {"leaf"} if room in ("store", "cli/manage.py") else set()  # ids of leaves, and the option's default
    paths = (SOURCE / room).rglob("*.py") if (SOURCE / room).is_dir() else [SOURCE / room]
    for path in paths:
        assert not strings_in(path) & (names - own), path.name


def test_rooms_below_the_designs_name_none() -> None:
    below = [room for rooms in LEVELS[: level("designs")] for room in rooms]
    for room in below:
        for path in [SOURCE / f"{room}.py", *(SOURCE / room).rglob("*.py")]:
            if path.exists():
                assert "mergewise.designs" not in path.read_text(encoding="utf-8"), path


@pytest.mark.parametrize("wing", WINGS)
def test_no_wing_imports_a_wing(wing: str) -> None:
    for path in (DESIGNS / wing).rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"mergewise\.designs\.(\w+)", text):
            assert name in (wing, "design"), path
        assert "from mergewise.designs import" not in text, path


def test_every_strategy_says_in_a_line_what_it_does() -> None:
    for name, strategy in STRATEGIES.items():
        assert strategy.summary and "\n" not in strategy.summary, name


def test_a_class_name_means_one_thing() -> None:
    homes: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name.lstrip("_"), set()).add(path.relative_to(SOURCE).as_posix())
    assert not {name: paths for name, paths in homes.items() if len(paths) > 1}
