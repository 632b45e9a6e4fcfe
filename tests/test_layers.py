"""Structure of the code: imports point downwards, rooms on one level are independent, importing costs nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import budgets

import mergewise
from mergewise import extend

SOURCE = Path(mergewise.__file__).parent
LEVELS = [
    {"redaction", "lazy", "log", "grouping"},
    {"errors"},
    {"types", "defaults", "files", "plugins", "tracing"},
    {"protocols", "jsonable", "ranges", "concurrency"},
    {"query"},
    {"text", "prompting", "readers", "models", "page"},
    {"store", "inputs"},
    {"sources"},
    {"indexing"},
    {"index"},
    {"retrieve", "assemble", "generate"},
    {"designs"},
    {"rounds", "history", "async_api", "cluster"},
    {"asking"},
    {"engine"},
    {"opening"},
    {"extend"},
    {"evaluate", "scale", "agents"},
    {"server"},
    {"cli", "integrations"},
    {"__main__"},
]
# strings and spans, which all rooms above and on the same level may use
SHARED = {"text"}


# modules of the public names
PUBLIC_HOMES = {
    name: module
    for homes in (mergewise._HOMES, extend._HOMES)
    for module, names in homes.items()
    for name in names.split()
} | {**extend._MODULES, "lazy_names": "mergewise.lazy"}


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def level(name: str) -> int:
    return next(i for i, rooms in enumerate(LEVELS) if name in rooms)


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module in ("mergewise", "mergewise.extend"):
            found |= {PUBLIC_HOMES.get(alias.name, f"mergewise.{alias.name}") for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return {name for name in found if name.startswith("mergewise.")}


def test_imports_point_downwards() -> None:
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        own = parts[0]
        if own in ("__init__", "extend"):
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


@pytest.mark.parametrize("own", budgets.ON_THE_ENGINE)
def test_rooms_on_the_engine_import_public_names(own: str) -> None:
    """`mergewise`, `.types`, `.protocols`, `.errors` and `.extend` are all that they need of the engine, and nothing private."""
    for path in (SOURCE / own).rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not list(budgets.private_imports(tree)), path
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mergewise"):
                assert not any(alias.name.startswith("_") for alias in node.names if alias.name != "__version__"), path


def test_names_of_extend_are_those_of_their_modules() -> None:
    for name in extend.__all__:
        assert getattr(extend, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        extend.nothing  # noqa: B018
