"""docs/reference.md says what the code says, and leaves nothing out."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path
from typing import Annotated, get_origin, get_type_hints

import pytest
from scripts import reference

import mergewise
from mergewise.designs import STRATEGIES

PAGE = reference.PATH.read_text(encoding="utf-8")


def test_the_page_is_what_the_code_makes_of_it() -> None:
    assert reference.reference() == PAGE, f"docs/reference.md is out of date: run `{reference.COMMAND}`"


def test_every_environment_variable_that_is_read_is_in_it() -> None:
    for path in Path(mergewise.__file__).parent.rglob("*.py"):
        for name in read_in(path.read_text(encoding="utf-8")):
            assert f"| `{name}` |" in PAGE, (name, path)


def read_in(source: str) -> set[str]:
    """Names of variables: what `os.environ` or `getenv` is asked for, and the options' own."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.keyword) and node.arg == "envvar":
            asked = node.value
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("environ.get", "getenv")):
            asked = node.args[0]
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("environ"):
            asked = node.slice
        else:
            continue
        if "variable" in ast.unparse(asked):
            # of an option or a setting that a record declares: the reference lists them from the records
            continue
        assert isinstance(asked, ast.Constant) and isinstance(asked.value, str), (
            f"{ast.unparse(node)}: write the name out, so that it can be found"
        )
        found.add(asked.value)
    return found


def test_variables_are_found_however_they_are_read() -> None:
    assert read_in("os.environ.get('A'), os.environ['B'], os.getenv('C', 1), Option(envvar='D')") == set("ABCD")


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_parameter_of_a_strategy_says_what_it_means(name: str) -> None:
    kind = type(STRATEGIES[name].parameters)
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        assert get_origin(hints[field.name]) is Annotated, field.name


def test_cells_and_code_stay_whole() -> None:
    assert reference.table(("a",), [["b|c"]]) == "| a |\n| --- |\n| b\\|c |\n"
    long = "word " * 18 + "`code that stays together`"
    assert reference.wrapped(long).splitlines() == [("word " * 18).strip(), "`code that stays together`"]
