"""Index that the frameworks search. Their telemetry is switched off."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import mergewise as mw

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
os.environ["LANGCHAIN_TRACING_V2"] = os.environ["LANGSMITH_TRACING"] = "false"

QUESTION = "Where was the inventor of the Quonset lamp born?"
TEXTS = {
    "lamp": "# The Quonset lamp\n\nThe lamp burns oil. It is old. The inventor of the Quonset lamp was Ada Brix.\n",
    "brix": "# Ada Brix\n\nAda Brix was a smith. She had a dog. She liked tea. Ada Brix, the inventor, was born in Delft.\n",
    "thorn": "# Carl Thorn\n\nCarl Thorn sold lamps.\n",
}
# the same condition in each of its forms
YEAR_1902 = ["year = 1902", {"type": "eq", "key": "year", "value": 1902}, ["year > 1901", "year < 1903"]]
every_where = pytest.mark.parametrize("where", YEAR_1902)


def fill(index: mw.Index) -> mw.Index:
    index.add(
        mw.Document(name, text, title=text[2:].partition("\n")[0], metadata={"year": 1900 + at, "lang": "en"})
        for at, (name, text) in enumerate(TEXTS.items())
    )
    return index


@pytest.fixture
def index(tmp_path: Path) -> mw.Index:
    return fill(mw.open(tmp_path / "index", embedder="none"))
