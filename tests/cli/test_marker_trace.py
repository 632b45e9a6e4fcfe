"""Markers on the command line: made by rules, used by a question, and shown in the trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.invoking import invoke as run

QUESTION = "Who built the mill?"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mill.md").write_text(
        "# Norrby Mill\n\nThe mill was built by Ella Stone, a mason from Bergen. It has two wheels.\n\n"
        "# Books\n\nHer brother Per kept the books until 1871.\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    run("index", "mill.md", "--views", "leaf,marker", "--embedder", "none")
    return tmp_path


def test_the_trace_shows_key_value_and_place(home: Path) -> None:
    shown = run("ask", QUESTION, "--strategy", "mrag", "--trace")
    assert "“The mill was built by Ella Stone, a mason from Bergen.”" in shown
    assert "marker: Norrby Mill" in shown and "made by rules, verbatim: mill.md:3" in shown
    assert "grounding: all sentences verbatim" in shown


def test_json_has_the_markers(home: Path) -> None:
    body = json.loads(run("context", QUESTION, "--strategy", "mrag", "--json"))
    markers = [step["marker"] for step in body["trace"] if "marker" in step]
    assert markers[0]["made"] == "rules" and markers[0]["sentences"][0]["supported"]
    (grounding,) = [step["grounding"] for step in body["trace"] if "grounding" in step]
    assert grounding["unsupported_share"] == 0 and grounding["written"] == 0
    assert all(passage["verbatim"] for passage in body["passages"])
