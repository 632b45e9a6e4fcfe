"""The commands `questions` and `tune`, and the configuration that they write."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mergewise
from mergewise.cli.main import app, configuration
from mergewise.cli.tuning import parse_time
from mergewise.designs.strategies import search_settings
from mergewise.designs.weave.evidence import WEIGHTS
from mergewise.errors import MergewiseError, UsageError
from mergewise.evaluate import tuning
from mergewise.evaluate.tuning import HeldOut, TuningReport, WeightsReport
from mergewise.evaluate.tuning.space import Point
from mergewise.retrieve.hybrid import SearchSettings
from mergewise.server.mcp import library
from mergewise.types import Document

TOWNS = tuple(
    f"{a}{b}" for a in ("Ar", "Bro", "Cor", "De", "El", "Fen", "Gar") for b in ("den", "ok", "in", "los", "wick", "ton")
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("towns")
    with mergewise.open(folder / "mine", embedder="none") as index:
        text = "{0} is a quiet river town. The tower of {0} was designed by Mason {0}y."
        index.add(Document(f"{town}.md", text.format(town), town) for town in TOWNS)
        # so that no name identifies a single place
        other = "Who walks about {}, a town with a tower, asks for the designer of its fair."
        index.add(Document(f"{town}-fair.md", other.format(town)) for town in TOWNS)
    return folder


@pytest.fixture
def folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(place)
    return place


def run(*words: str) -> str:
    done = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def asked(path: Path) -> None:
    rows = [{"question": f"Who designed the tower of {town}?", "answer": f"Mason {town}y"} for town in TOWNS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_tune_refuses_made_questions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = json.loads(run("questions", "mine", "-n", "12", "--out", "made.jsonl", "--json"))
    assert out["questions"] == 12 and sum(out["kinds"].values()) == 12
    monkeypatch.setattr(sys.modules["mergewise.evaluate.tuning.tune"], "FEWEST", 12)
    with pytest.raises(UsageError, match="made questions: 12 of 12") as caught:
        run("tune", "made.jsonl", "-i", "mine")
    assert "--trust-made" in str(caught.value.hint)
    with pytest.raises(UsageError, match=r"file exists: .*made.jsonl"):
        run("questions", "mine", "--out", "made.jsonl")
    with pytest.raises(UsageError, match="missing output file"):
        run("questions", "mine")


def test_tune_keeps_the_defaults_and_writes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(folder / "own.jsonl")
    words = ("tune", "own.jsonl", "-i", "mine", "-s", "topk", "-b", "40", "--metric", "answer", "--write", "new.toml")
    out = run(*words)
    assert "keep the defaults: " in out and not (folder / "new.toml").exists()
    report = json.loads(run(*words, "--json"))
    assert report["better"] is False and report["verdict"].startswith("keep the defaults")
    assert report["points"][0]["strategy"] == "topk"
    with pytest.raises(UsageError, match="too few questions to tune on: 0"):
        run("tune", "own.jsonl", "-i", "mine")


def better(more: Point) -> TuningReport:
    held_out = HeldOut(100, 0.6, 0.7, 380.0, 370.0, 0.1, (0.04, 0.16), 0.001, 0.05, 0)
    return TuningReport("weave", "evidence", 384, more, held_out, 150, 150, [])


def test_the_configuration_reproduces_the_result_of_tune(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    point = Point("weave", {"strategy": {"k": 90, "redundancy": False}, "search": {"weight": 0.5, "depth": 200}})
    monkeypatch.setattr(tuning, "tune", lambda *args, **options: better(point))
    asked(folder / "own.jsonl")
    out = run("tune", "own.jsonl", "-i", "mine", "--write", str(tmp_path / "mergewise.toml"))
    assert "better: evidence 0.700 instead of 0.600" in out
    monkeypatch.chdir(tmp_path)
    known = configuration()
    for command in ("ask", "context", "chat", "eval", "mcp"):
        assert known[command]["search"] == "weight=0.5, depth=200"
    assert known["context"]["strategy"] == "weave(k=90, redundancy=false)"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MERGEWISE_SEARCH", known["context"]["search"])
    options = ("-s", known["context"]["strategy"])
    context = json.loads(
        run("context", "Who designed the tower of Arden?", "-i", str(folder / "mine"), *options, "--json")
    )
    assert context["strategy"] == "weave(k=90, redundancy=false)" and "Mason Ardeny" in context["text"]


def test_fitted_weights_are_used_by_questions(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    weights = {**WEIGHTS, "cosine": 3.25}
    report = WeightsReport(
        better(Point("weave", {"weights": {"pull": 0.1}})), weights, "calibrated:1,-2:http:localhost"
    )
    monkeypatch.setattr(tuning, "fit_weights", lambda *args, **options: report)
    asked(folder / "own.jsonl")
    file = tmp_path / "weights.toml"
    out = run("tune", "own.jsonl", "-i", "mine", "--fit", str(file))
    assert tomllib.loads(out[out.index("# Found") :]) == {
        "strategy": "weave",
        "weights": str(file),
        "reranker": "calibrated:1,-2:http:localhost",
    }
    with mergewise.open(folder / "mine", weights=file, create=False) as index:
        assert index.models.weights == pytest.approx(weights, rel=1e-3)
    monkeypatch.setenv("MERGEWISE_WEIGHTS", str(file))
    run("context", "Who designed the tower of Arden?", "-i", "mine")
    served = []
    monkeypatch.setattr(library, "serve_index", lambda callers, *more, **options: served.append(callers.open().state()))
    monkeypatch.setenv("MERGEWISE_SEARCH", "weight=0.5")
    run("mcp", "-i", "mine")
    monkeypatch.delenv("MERGEWISE_SEARCH")
    assert served[0].models.weights == pytest.approx(weights, rel=1e-3) and served[0].settings.weight == 0.5
    with pytest.raises(UsageError, match="file exists"):
        run("tune", "own.jsonl", "-i", "mine", "--fit", str(file))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[weave]\ncosin = 1", "unknown feature of weave: cosin"),
        ("[weave]\ncosine = 1e9", "invalid cosine of .*: 1000000000.0"),
        ('[weave]\ncosine = "much"', "invalid cosine of .*: 'much'"),
        ("cosine = 1", r"missing table \[weave\]"),
        ("[weave", "cannot be read"),
    ],
)
def test_a_wrong_file_of_weights_is_named(folder: Path, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "w.toml").write_text(text)
    with pytest.raises(UsageError, match=message):
        mergewise.open(folder / "mine", weights=tmp_path / "w.toml", create=False)
    with pytest.raises(UsageError, match="cannot be read"):
        mergewise.open(folder / "mine", weights=tmp_path / "none.toml", create=False)


def test_search_settings_are_parsed() -> None:
    assert search_settings("", "search") == SearchSettings()
    assert search_settings("weight=0.5, depth=200", "search") == SearchSettings(weight=0.5, depth=200)
    for wrong in ("weight=2", "breadth=1", "weight"):
        with pytest.raises(MergewiseError):
            search_settings(wrong, "search")


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5400), ("30", 30)])
def test_times(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds
    for wrong in ("", "soon", "0m", "-5m", "99999h"):
        with pytest.raises(UsageError, match="invalid time"):
            parse_time(wrong)
