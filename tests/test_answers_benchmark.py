"""`python -m benchmarks.answers_aed` on a small set, by models that follow rules."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import pytest
from benchmarks import answers_aed

from mergewise.models.causal_chat import CausalChat
from mergewise.models.scripted_causal import ScriptedCausal
from tests.evaluate.towns import QUESTIONS, Reader, saved_task


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    saved_task(tmp_path / "bench" / "towns")
    monkeypatch.setattr(answers_aed, "bench_folder", lambda: tmp_path / "bench")
    return argparse.Namespace(
        sets="towns", methods="table-1,table-2,beta-0,beta-50", limit=2, together=2, max_tokens=24,
        cache=tmp_path / "cache", keep=tmp_path / "keep",
    )  # fmt: skip


def models(reader: ScriptedCausal) -> answers_aed.CampaignModels:
    return answers_aed.CampaignModels(CausalChat(reader), None, None)


def rows(out: str) -> dict[str, list[str]]:
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in cells}


def test_a_campaign_goes_on_and_tells_what_it_knows(
    options: argparse.Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    answers_aed.tables(models(Reader()), options)
    assert "no question is answered" in capsys.readouterr().out
    reader = Reader()
    answers_aed.run(models(reader), options)
    out = capsys.readouterr().out
    assert "### towns, 2 questions" in out and "s an answer of gainrag-1\n" in out
    found = rows(out)
    assert len(found) == 13 + 4 + 2 + 2  # and the lines of the header
    assert found["naive"][0].startswith("0.0 [") and found["rag-5"][0].startswith("100.0 [")
    assert found["rag-5"][5] == "" and found["naive"][5] == "-100.0 [-100.0, -100.0] *"
    assert found["aed-2"][5] == "+0.0 [0.0, 0.0]"
    assert sum("hundred words" in text for text in reader.started) == 2  # of all methods together
    repeated = len(reader.started) - len(set(reader.started))
    assert repeated <= 4  # between modes; within one, every prompt is read once
    reader.started.clear()
    answers_aed.run(models(reader), options)
    again = capsys.readouterr().out
    assert reader.started == [] and "s an answer" not in again and rows(again) == found


def test_costs_share_nothing(options: argparse.Namespace, capsys: pytest.CaptureFixture[str]) -> None:
    options.methods = "naive,gainrag-1,aed-1"
    reader = Reader()
    answers_aed.costs(models(reader), options)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| towns")]
    assert [line.split(" | ")[1] for line in lines] == ["naive", "gainrag-1", "aed-1"]
    assert sum("hundred words" in text for text in reader.started) == 4
    assert not (options.keep / "answers").exists()


class Certain(ScriptedCausal):
    """Finds the gold answer likely behind passages, triplets or what it wrote itself, as it was told to."""

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
    options.methods = "naive"
    for _ in range(2):  # the second time from what is kept
        answers_aed.sources(models(Certain(favourite)), options)
        told = rows(capsys.readouterr().out)["towns"]
        assert told[0] == "2" and told[place].startswith("100.0 [")
