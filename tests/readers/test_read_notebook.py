"""Notebooks: cells in order, printed output, no pictures."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.readers.documents import Read, Refusal

from mergewise.readers import notebook


def made(*cells: dict[str, Any], **metadata: Any) -> str:
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def markdown(source: Any) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def code(source: Any, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": 1, "metadata": {}, "source": source, "outputs": list(outputs)}


def stream(text: Any) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def test_cells(read_bytes: Read) -> None:
    picture = {
        "output_type": "display_data",
        "data": {"image/png": "iVBOR" * 100, "text/plain": "<Figure size 640x480>"},
    }
    result = {"output_type": "execute_result", "data": {"text/plain": ["[1,\n", " 2]"], "text/html": "<b>1</b>"}}
    error = {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["\x1b[31mlong\x1b[0m"]}
    document = read_bytes(
        "a.ipynb",
        made(
            markdown(["# Über Enten\n", "\n", "Text ![duck](data:image/png;base64,AAAA) here.\n", "\n", "## Zählen"]),
            code("import x\nprint(1)", stream(["\x1b[1mone\x1b[0m\n", "two\n"]), picture, result, error),
            code("# not a heading"),
            markdown("### Deeper\n\n```\n# nor this\n```"),
            {"cell_type": "raw", "source": "raw text"},
            code(""),
            kernelspec={"language": "python", "name": "python3"},
            authors=[{"name": "Ann"}, {"name": "Bob"}],
        ),
    )
    assert document.text == (
        "# Über Enten\n\nText ![duck] here.\n\n## Zählen\n\n"
        "```python\nimport x\nprint(1)\n```\n\n```text\none\ntwo\n[1,\n 2]\nValueError: no\n```\n\n"
        "```python\n# not a heading\n```\n\n### Deeper\n\n```\n# nor this\n```\n\nraw text"
    )
    assert [(h.level, h.title, document.text[h.start : h.end]) for h in document.outline or ()] == [
        (1, "Über Enten", "# Über Enten"),
        (2, "Zählen", "## Zählen"),
        (3, "Deeper", "### Deeper"),
    ]
    assert document.title == "Über Enten"
    assert document.metadata == {"author": "Ann, Bob"}


def test_printed_output_is_limited(read_bytes: Read) -> None:
    text = read_bytes("a.ipynb", made(code("go()", stream("line of output\n" * 10_000)))).text
    assert len(text) < notebook.MAX_OUTPUT + 100
    assert text.endswith("line of output\n...\n```")


def test_a_fence_in_code_does_not_end_it(read_bytes: Read) -> None:
    assert read_bytes("a.ipynb", made(code("x = '```'"))).text == "~~~~\nx = '```'\n~~~~"


def test_version_3(read_bytes: Read) -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": "Ducks"},
        {"cell_type": "code", "input": "x", "outputs": []},
    ]
    source = json.dumps({"worksheets": [{"cells": cells}], "metadata": {"name": ""}, "nbformat": 3})
    document = read_bytes("a.ipynb", source)
    assert (document.text, document.title) == ("Ducks\n\n```\nx\n```", "Ducks")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"cells": [', "not a notebook: invalid JSON in line 1"),
        ("[]", "JSON, but not a notebook"),
        ('{"cells": 3}', "JSON, but not a notebook"),
        (made(code("")), "no text"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_other_json_is_refused(refusal: Refusal, content: str, reason: str) -> None:
    assert refusal("a.ipynb", content) == reason


def test_invalid_cells_are_skipped(read_bytes: Read) -> None:
    odd = [
        3,
        {"cell_type": "code", "source": 3, "outputs": 4},
        {"cell_type": "code", "source": "x", "outputs": [5, {"data": 1}]},
    ]
    assert read_bytes("a.ipynb", json.dumps({"cells": odd, "metadata": []})).text == "```\nx\n```"
