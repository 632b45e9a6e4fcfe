"""The guide's section on Python runs as printed, but for the parts that need a framework, which are tested with it."""

from __future__ import annotations

import asyncio
import re
import shutil
import textwrap
from pathlib import Path
from typing import Any

import pytest

from mergewise.defaults import AUTO_BUDGET, AUTO_STOP

ROOT = Path(__file__).parents[1]


def blocks() -> list[str]:
    guide = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    section = guide.partition("\n## In Python\n")[2].partition("\n## ")[0]
    found = re.findall(r"(?:^    .*\n(?:^\s*\n(?=    ))?)+", section, re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("architecture.md", "guide.md"):
        shutil.copy(ROOT / "docs" / name, tmp_path / "docs")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    code = [block for block in blocks() if "mergewise.integrations" not in block and "basicConfig" not in block]
    assert len(code) == 7
    opening, *others = code
    exec(opening, names)
    assert names["report"].failed == () and names["answer"].found
    names["index"] = names["mw"].open("my.index")
    for block in others:
        exec(block, names)
    assert asyncio.run(names["handler"]("What is a view?")).question == "What is a view?"
    assert names["own"].add(names["mw"].Document("d", "Cats eat fish.")).added == 1
    assert names["own"].context("What do cats eat?", budget=50).passages
    assert names["stream"].answer().text in capsys.readouterr().out
    assert names["prepared"].answer().found
    assert names["then"].context.question == "And how is it added? view"


def test_the_guide_says_what_an_automatic_budget_is() -> None:
    guide = " ".join((ROOT / "docs/guide.md").read_text(encoding="utf-8").split())
    assert f"falls below {AUTO_STOP} of the first one's, at {AUTO_BUDGET:,} tokens at the latest" in guide
