"""`eval --answers` with a tiny random model from a folder, in batches and one by one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.causal_models import saved
from tests.evaluate.towns import WordReranker, saved_task
from typer.testing import CliRunner

from mergewise.cli.main import app
from mergewise.evaluate import open_run

pytest.importorskip("torch", reason="the extra `hf` is not installed")
pytest.importorskip("transformers", reason="the extra `hf` is not installed")

METHODS = "naive,recomp-abstractive,replug,aed-2,aed-no-memory"


def test_batches_give_the_same_answers_as_single_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the methods of AED-RAG need a utility predictor
    predictors = {"none": None, "words": WordReranker()}
    monkeypatch.setattr("mergewise.evaluate.set_indexes._reranker", predictors.get)
    bench = saved_task(tmp_path / "towns")
    saved(tmp_path / "model", seed=8, max_position_embeddings=2048)
    answers = []
    for batch_size in ("1", "2"):
        folder = tmp_path / batch_size
        words = ["eval", str(bench), "-a", "--methods", METHODS, "--chat", f"hf:{tmp_path / 'model'}", "-e", "none"]
        words += ["-n", "2", "--json", str(tmp_path / "rows.json"), "--out", str(folder)]
        settings = {"MERGEWISE_MAX_TOKENS": "4", "MERGEWISE_BATCH_SIZE": batch_size, "MERGEWISE_UTILITY": "words"}
        done = CliRunner().invoke(app, words, env=settings, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        rows = json.loads((tmp_path / "rows.json").read_text())
        assert [row["strategy"] for row in rows] == METHODS.split(",")
        assert all(row["failed"] == 0 and row["output_tokens"] > 0 and row["seconds"] > 0 for row in rows)
        answers.append(open_run(folder).rows().column("prediction").to_pylist())
    assert answers[0] == answers[1] and len(answers[0]) == 2 * len(METHODS.split(","))
