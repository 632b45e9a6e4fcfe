"""`python -m benchmarks.aed_sources` on a small set, with rule-based models."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import pytest
from benchmarks import aed_sources
from tests.evaluate.towns import QUESTIONS, Reader, saved_task

from mergewise.models.causal_chat import CausalChat
from mergewise.models.scripted_causal import ScriptedCausal


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    saved_task(tmp_path / "bench" / "towns")
    monkeypatch.setattr(aed_sources, "bench_folder", lambda: tmp_path / "bench")
    return argparse.Namespace(
        sets="towns", limit=2, cache=tmp_path / "cache", keep=tmp_path / "keep",
    )  # fmt: skip


def rows(out: str) -> dict[str, list[str]]:
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in cells}


class Certain(ScriptedCausal):
    """A model that finds the gold answer likely after its favourite source: passages, triplets, or its own text."""

    def __init__(self, favourite: str) -> None:
        self.favourite = favourite
        super().__init__(Reader().decode(range(96)), self.likely, end="\n", window=8000, spec=favourite)

    def likely(self, text: str) -> Mapping[str, float]:
        asked = text.index("?", text.rindex("Question: ")) + 1
        prompt, said = text[:asked], text[asked:]
        if "hundred words" in prompt:
            whole = "I know.\n"
            return {whole[len(said)]: 1e6} if len(said) < len(whole) else {"\n": 1e6}
        kind = "memory" if "I know." in prompt else "triplets" if " | " in prompt or "; " in prompt else "passage"
        gold = next(q.answers[0] for q in QUESTIONS if q.text in prompt)
        sure = 1e3 if kind == self.favourite else 2.0
        return {gold[len(said)]: sure} if len(said) < len(gold) else {"\n": 1.0}


@pytest.mark.parametrize(("favourite", "place"), [("passage", 1), ("memory", 3)])
def test_the_source_of_the_likeliest_answer_wins(
    favourite: str, place: int, options: argparse.Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # the second run reads the cache
        aed_sources.sources(CausalChat(Certain(favourite)), options)
        told = rows(capsys.readouterr().out)["towns"]
        assert told[0] == "2" and told[place].startswith("100.0 [")
