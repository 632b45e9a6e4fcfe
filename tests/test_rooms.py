"""Boundaries of rooms: rooms below the designs do not name a design, and wings are independent."""

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
    """Return all strings of a module except docstrings and those of the function that reads an older format."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "_upgrade":
            node.body = []
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@pytest.mark.parametrize("room", ["store", "retrieve", "index/pipeline.py", "cli/manage.py"])
def test_shared_rooms_do_not_name_views(room: str) -> None:
    names = {table.name for view in VIEWS.values() for table in view.tables(view.settings())} | VIEWS.keys()
    own = {"leaf"} if room in ("store", "cli/manage.py") else set()  # ids of leaves, and the option's default
    paths = (SOURCE / room).rglob("*.py") if (SOURCE / room).is_dir() else [SOURCE / room]
    for path in paths:
        assert not strings_in(path) & (names - own), path.name


def test_rooms_below_the_designs_do_not_name_designs() -> None:
    below = [room for rooms in LEVELS[: level("designs")] for room in rooms]
    for room in below:
        for path in [SOURCE / f"{room}.py", *(SOURCE / room).rglob("*.py")]:
            if path.exists():
                assert "mergewise.designs" not in path.read_text(encoding="utf-8"), path


@pytest.mark.parametrize("wing", WINGS)
def test_wings_do_not_import_each_other(wing: str) -> None:
    for path in (DESIGNS / wing).rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"mergewise\.designs\.(\w+)", text):
            assert name in (wing, "design"), path
        assert "from mergewise.designs import" not in text, path


def test_every_strategy_has_a_one_line_description() -> None:
    for name, strategy in STRATEGIES.items():
        assert strategy.summary and "\n" not in strategy.summary, name


def test_a_class_name_means_one_thing() -> None:
    homes: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name.lstrip("_"), set()).add(path.relative_to(SOURCE).as_posix())
    assert not {name: paths for name, paths in homes.items() if len(paths) > 1}
