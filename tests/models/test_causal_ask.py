"""`ask --strategy aed` on the command line, with a tiny random model from a folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.causal_models import saved

import mergewise
from mergewise.cli.main import run
from mergewise.types import Answer

pytest.importorskip("torch", reason="the extra `hf` is not installed")
pytest.importorskip("transformers", reason="the extra `hf` is not installed")

QUESTION = "Where did Larry Alcala study?"
DOCUMENTS = [
    mergewise.Document("alcala.md", "# Life\n\nLarry Alcala studied at the University of the Philippines.\n", "Alcala"),
    mergewise.Document("rice.md", "# Rice\n\nLarry Alcala ate rice with beans, garlic and lime.\n", "Rice"),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    mergewise.open(folder / "index", embedder="none").add(DOCUMENTS)
    saved(folder / "model", seed=8, max_position_embeddings=2048)
    return folder


def ask(home: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    command = ["mergewise", "ask", QUESTION, "--index", str(home / "index"), *words]
    monkeypatch.setenv("MERGEWISE_MAX_TOKENS", "6")
    monkeypatch.setattr(sys, "argv", command)
    return run()


@pytest.mark.parametrize("model", ["MERGEWISE_CHAT", "MERGEWISE_CAUSAL"])
def test_json_lists_the_streams(
    home: Path, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(model, f"hf:{home / 'model'}")
    assert ask(home, monkeypatch, "--strategy", "aed", "--json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["mode"] == "aed" and found["usage"]["calls"] == 2
    streams = found["streams"]
    assert set(streams) == {"weights", "utilities", "tokens"}
    assert set(streams["weights"]) == {"passages", "memory"}
    assert sum(streams["weights"].values()) == pytest.approx(1)
    assert 1 <= len(streams["tokens"]) <= 6
    for token in streams["tokens"]:
        assert set(token) == {"text", "stream", "agreement", "log_probs"}
        assert 0 < token["agreement"] <= 1 and set(token["log_probs"]) == {"passages", "memory"}
    assert found["context"]["strategy"] == "aed"


def test_other_modes_have_no_streams(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(home, monkeypatch, "--chat", f"hf:{home / 'model'}", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["mode"] == "r&b" and "streams" not in found


def test_replug_and_parameters_of_the_strategy(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = ["--chat", f"hf:{home / 'model'}"]
    assert ask(home, monkeypatch, "-s", "topk", "--mode", "replug", *chat, "--json") == 0
    assert set(json.loads(capsys.readouterr().out)["streams"]["weights"]) == {"[1]", "[2]"}
    assert ask(home, monkeypatch, "-s", "aed(m=1, memory=false)", *chat, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["streams"]["weights"] == {"passages": 1.0} and found["usage"]["calls"] == 1


def test_the_trace_names_the_stream_of_each_piece(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MERGEWISE_STREAM", "true")
    assert ask(home, monkeypatch, "-s", "aed", "--chat", f"hf:{home / 'model'}", "--trace") == 0
    out = capsys.readouterr().out
    assert "stream passages: weight 0." in out and "stream memory: weight 0." in out
    assert "no triplets in this index" in out and "agreement of the streams: mean 0." in out


def test_a_missing_causal_model_raises_an_error(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(home, monkeypatch, "-s", "aed", "--mode", "aed") == 2
    told = capsys.readouterr().err
    assert "needs a causal model" in told and "--mode aed-best" in told
    assert ask(home, monkeypatch, "-s", "aed", "--json") == 0
    assert json.loads(capsys.readouterr().out)["mode"] == "extractive"


def test_many_questions_of_the_library(home: Path) -> None:
    index = mergewise.open(home / "index", chat=f"hf:{home / 'model'}")
    questions = [QUESTION, "What was rice eaten with?", " "]
    first, second, empty = index.ask_many(questions, strategy="aed", max_tokens=5)
    assert isinstance(empty, mergewise.UsageError)
    for question, found in zip(questions, (first, second), strict=False):
        assert isinstance(found, Answer) and found.mode == "aed"
        assert found.text == index.ask(question, strategy="aed", max_tokens=5).text
    pieces = index.ask_stream(QUESTION, strategy="aed", max_tokens=5)
    assert "".join(pieces) == first.text == pieces.answer().text  # type: ignore[union-attr]
