"""`python -m benchmarks.labels` on labels by a rule-based reader."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmarks import labels as benchmark

from mergewise.designs.aed.training.distilling import gains
from mergewise.designs.aed.training.labels import LabelStore


def test_helpful_candidates_have_the_best_labels(
    many_labels: LabelStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["labels", str(many_labels.folder)])
    benchmark.main()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    rows = {cells[0]: cells[1:] for cells in ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)}
    questions = many_labels.read(["passages", "generated"])
    assert rows["many"][0] == str(len(questions)) and rows["many"][1].startswith(
        "1.00"
    )  # only a passage names the founder
    assert rows["many"][5] == "1.00" > rows["many"][7]

    best = float(rows["the best one"][1])
    assert float(rows["holds the answer"][1].split()[0]) == best
    assert {"search", "cosine"} < set(rows)
    used = [max(gains([one.cppl for one in question.candidates], question.alone)) for question in questions]
    assert best == pytest.approx(sum(used) / len(used), abs=1e-3)


def test_gains_and_best_sources_are_counted(many_labels: LabelStore) -> None:
    questions = many_labels.read(["passages", "generated"])[:3]
    found = benchmark.uses(questions)
    assert len(found[True]) == 3 and sum(map(len, found.values())) == sum(len(one.candidates) for one in questions)
    assert min(found[True]) > max(found[False])
    assert benchmark.best_sources(questions) == {"passages": 3, "triplets": 0, "generated": 0}


def test_folder_without_labels_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["labels", str(tmp_path)])
    with pytest.raises(SystemExit):
        benchmark.main()
    assert "labels not found" in capsys.readouterr().err
