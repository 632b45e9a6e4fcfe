"""The command `eval --answers`, with a causal model that follows a rule."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.cli.invoking import invoke
from tests.evaluate.towns import QUESTIONS, Reader, WordReranker, saved_task

import mergewise.models
from mergewise.errors import UsageError
from mergewise.evaluate.runs.run_folder import open_run
from mergewise.models.causal_chat import CausalChat


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Reader:
    """Model that `--chat hf:reader` loads."""
    model = Reader()
    monkeypatch.setitem(mergewise.models.CHATS, "hf:PATH", lambda name, window: CausalChat(model, window))
    monkeypatch.setitem(mergewise.models.RERANKERS, "cross-encoder:PATH_OR_NAME", lambda name: WordReranker())
    return model


run = partial(invoke, "eval")


def lines_of(out: str) -> list[str]:
    """Return the lines of methods in the table of the set."""
    table = out[out.index("\n4,096 tokens\n") :].split("\n*")[0]
    return [line for line in table.splitlines()[2:] if not line.startswith(" ")]


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text())
    return rows


def test_methods_are_answered_kept_and_shown(tmp_path: Path, reader: Reader) -> None:
    bench, rows = str(saved_task(tmp_path / "towns")), tmp_path / "rows.json"
    given = [bench, "--answers", "--chat", "hf:reader", "--embedder", "none", "--json", str(rows)]
    settings = {"max_tokens": "30", "utility": "cross-encoder:words"}
    out = run(*given, "--methods", "naive,rag-1,aed-2", batch_size="2", **settings)
    assert [line.split()[0] for line in lines_of(out)] == ["naive", "rag-1", "aed-2"]
    naive, rag, aed = rows_of(rows)
    assert {"em", "f1", "relaxed_em", "accuracy", "input_tokens", "output_tokens", "seconds"} <= naive.keys()
    assert {
        "dataset",
        "strategy",
        "budget",
        "answer",
        "evidence",
        "all",
        "density",
        "tokens",
        "query_ms",
    } <= naive.keys()
    assert (naive["em"], rag["em"], aed["em"]) == (0.25, 1.0, 1.0)
    assert naive["evidence"] == 0.0 and rag["evidence"] == 1.0
    known = open_run(tmp_path / "rows.answers").rows()
    assert set(known["judge"].to_pylist()[4:]) == {"", "words"}
    assert known["method"].to_pylist() == [name for name in ("naive", "rag-1", "aed-2") for _ in QUESTIONS]
    reader.started.clear()
    again = run(*given, "--methods", "naive,rag-1,aed-2", **settings)
    # the seconds are the same too
    assert reader.started == [] and lines_of(again) == lines_of(out)


def test_any_strategy_in_any_mode(tmp_path: Path, reader: Reader) -> None:
    bench, rows = str(saved_task(tmp_path / "towns")), tmp_path / "rows.json"
    given = [bench, "--answers", "--embedder", "none", "--json", str(rows), "--out", str(tmp_path / "kept")]
    run(*given, "--chat", "hf:reader", "-s", "topk,sentence", "--mode", "short", "-b", "60", "-n", "2")
    assert [(row["strategy"], row["mode"], row["budget"], row["questions"]) for row in rows_of(rows)] == [
        ("topk", "short", 60, 2), ("sentence", "short", 60, 2),
    ]  # fmt: skip
    assert len(open_run(tmp_path / "kept").rows()) == 4 and not (tmp_path / "rows.answers").exists()
    run(*given, "-s", "topk", "-b", "60")
    (row,) = rows_of(rows)
    assert (row["mode"], row["output_tokens"], row["accuracy"]) == ("extractive", 0.0, 1.0)


def test_own_questions(tmp_path: Path, reader: Reader) -> None:
    bench = saved_task(tmp_path / "towns")
    index = tmp_path / "indexes"
    output = run(
        str(bench), "--answers", "--methods", "aed-1", "--chat", "hf:reader", "-e", "none", "--index", str(index),
        utility="cross-encoder:words",
    )  # fmt: skip
    assert "The answers will not be saved" in output
    table = tmp_path / "own.csv"
    table.write_text("question,answer\n" + "".join(f"{q.text},{q.answers[0]}\n" for q in QUESTIONS))
    rows = tmp_path / "rows.json"
    words = (str(table), "-i", str(index / "towns"), "-a", "--methods", "aed-1", "--chat", "hf:reader")
    run(*words, "--json", str(rows), utility="cross-encoder:words")
    (row,) = rows_of(rows)
    assert (row["dataset"], row["em"], row["evidence"]) == ("own", 1.0, None)


def test_conflicting_options_are_refused(tmp_path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = str(saved_task(tmp_path / "towns"))
    for words, settings, reason in (
        ((), {"workers": "2"}, "workers requires --out"),
        ((), {"ray": "local"}, "ray requires --out"),
        ((), {"reference": "dense"}, "unknown reference method: 'dense'"),
        (("--table", "nothing"), {}, "unknown table"),
        (("--table", "aed-1", "--methods", "naive"), {}, "--table and --methods exclude each other"),
        (("--mode", "short"), {}, "--mode requires --answers"),
        (("-a", "--methods", "naive", "--mode", "short"), {}, "--methods and --mode exclude each other"),
        (("--methods", "naive", "--mode", "short"), {}, "--methods and --mode exclude each other"),
        (("-a", "--methods", "nothing"), {}, "unknown method"),
        (("-a", "--mode", "short", "-s", "topk"), {}, "needs a chat model"),
    ):
        with pytest.raises(UsageError, match=reason):
            run(bench, "-e", "none", *words, **settings)
    monkeypatch.setenv("MERGEWISE_GPUS_PER_WORKER", "1")
    with pytest.raises(UsageError, match="GPUs per worker need a cluster"):
        run(bench, "-e", "none")
