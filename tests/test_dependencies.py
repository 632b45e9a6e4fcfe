"""Each requirement of the base is imported by the source, and the source imports nothing that is not required."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
# requirements of FastAPI, MCP, LangChain and uvicorn
SHARED = {"h11", "mcp-types", "pydantic", "typing-extensions"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def imported() -> set[str]:
    """Return the packages that the source imports, by their top module."""
    found: set[str] = set()
    for path in (ROOT / "src/mergewise").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"mergewise"}


MODULES = packages_distributions()


@pytest.mark.parametrize("line", PROJECT["dependencies"])
def test_a_base_requirement_is_imported(line: str) -> None:
    name = normal(Requirement(line).name)
    assert any(name in map(normal, MODULES.get(module, ())) for module in imported()), f"nothing imports {name}"
    assert Requirement(line).specifier.contains(version(name))


def test_the_source_imports_only_what_is_required() -> None:
    required = {normal(Requirement(line).name) for line in [*PROJECT["dependencies"], *OPTIONAL]} | SHARED
    others = [module for module in imported() & MODULES.keys() if not required & set(map(normal, MODULES[module]))]
    assert not others, "imported, but not required"
