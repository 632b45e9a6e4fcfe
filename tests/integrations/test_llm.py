"""The plugin of `llm`: fragments and tools, as its command loads them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("llm", reason="llm is not installed: `make clients` does it")

import llm
from click.testing import CliRunner
from llm.cli import cli
from llm.plugins import pm

import mergewise as mw
from mergewise.integrations.llm import Mergewise, fragments

QUESTION = "Where was the Aurora built?"


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# Fleet\n\nThe Aurora was built in Lyme in 1850. She carried slate.\n"
    (tmp_path / "fleet.md").write_text(text)
    with mw.open(tmp_path / "ships.index", embedder="none") as index:
        index.add(tmp_path / "fleet.md")
    monkeypatch.setenv("MERGEWISE_INDEX", str(tmp_path / "ships.index"))
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path / "llm"))


def test_fragments_name_their_documents_and_offsets(tmp_path: Path) -> None:
    (found,) = fragments(QUESTION)
    assert found.startswith("Fleet\nThe Aurora was built in Lyme")
    document, _, place = found.source.rpartition(":")
    start, end = map(int, place.split("-"))
    assert Path(document).name == "fleet.md" and (tmp_path / "fleet.md").read_text()[start:end] in found


def test_tools_search_and_read() -> None:
    tools = Mergewise()
    assert "built in Lyme" in tools.context(QUESTION)
    assert "carried slate" in tools.read("fleet.md") and "1850" in tools.grep("Aurora")


def test_the_program_loads_the_plugin() -> None:
    assert "mergewise" in llm.get_fragment_loaders()
    assert "Mergewise" in llm.get_tools()
    listed = CliRunner().invoke(cli, ["plugins"], catch_exceptions=False)
    assert "mergewise" in listed.output, pm.get_plugins()
