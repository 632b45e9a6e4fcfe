"""What stands where: the rooms below the views name none of them, and a strategy's folder is its own business."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import mergewise
from mergewise.assemble import STRATEGIES
from mergewise.index import VIEWS

SOURCE = Path(mergewise.__file__).parent
FOLDERS = [path for path in (SOURCE / "assemble").iterdir() if (path / "__init__.py").exists()]


def strings_in(path: Path) -> set[str]:
    """All strings of a module but its docstrings, and those of the function that reads an older format."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "_upgraded":
            node.body = []
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@pytest.mark.parametrize("room", ["store", "retrieve", "index/pipeline.py", "cli/manage.py"])
def test_rooms_that_serve_all_views_name_none(room: str) -> None:
    names = {table.name for view in VIEWS.values() for table in view.tables(view.settings())} | VIEWS.keys()
    own = {"leaf"} if room in ("store", "cli/manage.py") else set()  # ids of leaves, and the option's default
    paths = (SOURCE / room).rglob("*.py") if (SOURCE / room).is_dir() else [SOURCE / room]
    for path in paths:
        assert not strings_in(path) & (names - own), path.name


def test_a_view_is_one_line_of_the_registry() -> None:
    """Outside its room and the strategies that search it, nothing imports a view but the registry."""
    for name in VIEWS:
        room = VIEWS[name].build.__module__.split(".")[2]
        importing = {
            path.relative_to(SOURCE).as_posix()
            for path in SOURCE.rglob("*.py")
            for line in path.read_text(encoding="utf-8").splitlines()
            if f"mergewise.index.{room}" in line or f"from mergewise.index import {room}" in line
        }
        outside = {path for path in importing if not path.startswith((f"index/{room}/", "assemble/"))}
        if room == "tree":
            # the view that every index has: others use its columns, and the reader of questions is its reader too
            outside = {path for path in outside if not path.startswith("index/")} - {"retrieve/hybrid.py"}
        assert outside <= {"index/__init__.py"}, room


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_strategies_share_nothing_but_the_shared_room(folder: Path) -> None:
    others = {path.name for path in FOLDERS} - {folder.name, "shared"}
    for path in folder.rglob("*.py"):
        for other in others:
            assert f"mergewise.assemble.{other}" not in path.read_text(encoding="utf-8"), path


def test_every_strategy_says_in_a_line_what_it_does() -> None:
    for name, strategy in STRATEGIES.items():
        assert strategy.summary and "\n" not in strategy.summary, name
