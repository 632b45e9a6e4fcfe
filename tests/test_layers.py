"""Structure of the code: imports point downwards, rooms on one level are independent, importing costs nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mergewise

SOURCE = Path(mergewise.__file__).parent
LEVELS = [
    {"redaction", "lazy"},
    {"errors"},
    {"types", "defaults", "files", "plugins"},
    {"protocols", "jsonable", "ranges", "concurrency"},
    {"query"},
    {"text", "prompting", "readers", "models", "page"},
    {"store", "inputs"},
    {"indexing"},
    {"index"},
    {"retrieve", "assemble", "generate"},
    {"designs"},
    {"rounds", "history", "async_api", "cluster"},
    {"asking"},
    {"engine"},
    {"opening"},
    {"evaluate", "scale"},
    {"server"},
    {"cli", "integrations"},
    {"__main__"},
]
# strings and spans, which all rooms above and on the same level may use
SHARED = {"text"}
# strings, and quoting for prompts: all rooms may use their modules
GROUND_FLOOR = {"text", "prompting"}


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def level(name: str) -> int:
    return next(i for i, rooms in enumerate(LEVELS) if name in rooms)


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} if node.module != "mergewise" else {f"mergewise.{a.name}" for a in node.names}
    return {name for name in found if name.startswith("mergewise.")}


def test_imports_point_downwards() -> None:
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        own = parts[0]
        if own == "__init__":
            continue
        for name in imports_of(path):
            other = room(name)
            if other == own or (own == "cli" and name == "mergewise.__version__"):
                continue
            below = level(other) < level(own) or (other in SHARED and level(other) == level(own))
            assert below, f"{'/'.join(parts)} imports {name}"


def test_records_import_only_records() -> None:
    assert {room(name) for path in (SOURCE / "types").glob("*.py") for name in imports_of(path)} == {"types"}
    assert imports_of(SOURCE / "errors.py") == {"mergewise.redaction"}


@pytest.mark.parametrize("module", ["mergewise", "mergewise.designs", "mergewise.cli.main"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    heavy = {"lancedb", "pyarrow", "numpy", "onnxruntime", "tokenizers", "lxml", "docutils", "torch"}
    heavy |= {"fastapi", "uvicorn", "starlette", "mcp"}
    heavy |= {"rich", "typer"} if module != "mergewise.cli.main" else set()
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert heavy & set(loaded) == set()
    assert not any(name.startswith("mergewise.designs.") for name in set(loaded) - {"mergewise.designs.design"})


UPPER = ("server", "evaluate", "integrations", "cli")


@pytest.mark.parametrize("own", UPPER)
def test_rooms_on_the_engine_import_public_modules(own: str) -> None:
    """Imports are one level deep: a top module, or the `__init__` of a room or a wing."""
    for path in (SOURCE / own).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.module or not node.module.startswith("mergewise."):
                continue
            _, where, *deeper = node.module.split(".")
            if where in UPPER or where in GROUND_FLOOR:
                continue
            assert len(deeper) <= (where == "designs"), f"{path.name} imports {node.module}"
            assert not any(alias.name.startswith("_") for alias in node.names), f"{path.name} imports {node.module}"
