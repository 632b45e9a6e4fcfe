"""The pages of docs/reference match the code and leave nothing out."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path
from typing import Annotated, get_origin, get_type_hints

import pytest
from scripts import reference
from scripts.reference import markup

import mergewise
from mergewise.designs import STRATEGIES

CONFIGURATION = (reference.FOLDER / "configuration.md").read_text(encoding="utf-8")


def test_pages_match_the_code() -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in reference.FOLDER.iterdir()}
    made = reference.pages()
    assert written.keys() == made.keys()
    for name, text in made.items():
        assert written[name] == text, f"docs/reference/{name} is out of date: run `{reference.COMMAND}`"


def test_every_environment_variable_is_listed() -> None:
    for path in Path(mergewise.__file__).parent.rglob("*.py"):
        for name in read_in(path.read_text(encoding="utf-8")):
            assert f"| `{name}` |" in CONFIGURATION, (name, path)


def test_every_public_name_is_listed() -> None:
    page = (reference.FOLDER / "python.md").read_text(encoding="utf-8")
    errors = (reference.FOLDER / "errors.md").read_text(encoding="utf-8")
    for name in mergewise.__all__:
        assert f"`{name}`" in page + errors or name in ("open", "Index"), name


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
    assert markup.table(("a",), [["b|c"]]) == "| a |\n| --- |\n| b\\|c |\n"
    long = "word " * 18 + "`code that stays together`"
    assert markup.wrapped(long).splitlines() == [("word " * 18).strip(), "`code that stays together`"]


def test_docstring_sections_become_lists() -> None:
    def function(path: str) -> int:
        """Count the lines.

        An example:

            function("a")

        Args:
            path: File to read,
                in UTF-8.

        Returns:
            Number of lines.

        Raises:
            OSError: if the file is missing.
        """
        raise OSError(path)

    assert markup.documented(function) == (
        'Count the lines.\n\nAn example:\n\n```python\nfunction("a")\n```\n\n'
        "**Arguments**:\n\n- `path`: File to read, in UTF-8.\n\n**Returns**: Number of lines.\n\n"
        "**Raises**:\n\n- `OSError`: if the file is missing.\n"
    )
