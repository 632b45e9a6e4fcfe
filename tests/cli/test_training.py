"""The command `train utility`: labels, settings and errors. A stub replaces the model, so torch is not needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.designs.aed.training.towns import TOWNS, reader, towns_index
from typer.testing import CliRunner

from mergewise.cli.main import app
from mergewise.designs.aed.training.candidates import TrainCandidate, reader_prompt
from mergewise.designs.aed.training.labels import LabelStore
from mergewise.designs.aed.training.trainer import PRESETS, TrainSettings
from mergewise.designs.aed.training.utility import TrainingReport
from mergewise.errors import MissingExtra, UsageError, install_command

RUNNER = CliRunner()
BASE = ["--base", "cross-encoder:x"]
FEW = ["--labels-only", "--split", "all"]
TWO = "passages = 2\ntriplets = 2"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("training")
    towns_index(folder / "index").close()
    rows = [{"id": t, "question": f"Who founded {t}?", "answer": f} for t, f in TOWNS.items()]
    (folder / "asked.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mergewise.models.load_causal", lambda spec: reader())


def run(place: Path, out: Path, *words: str, settings: str = TWO) -> str:
    config = place / "training.toml"
    config.write_text(settings)
    asked = ["train", "utility", str(place / "asked.jsonl"), "--index", str(place / "index"), "--out", str(out)]
    asked += ["--config", str(config)]
    done = RUNNER.invoke(app, [*asked, *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_labelling_continues_where_it_stopped(place: Path, tmp_path: Path) -> None:
    assert "2 questions labelled" in run(place, tmp_path, "--chat", "hf:x", *FEW, "--limit", "2")
    assert "4 questions labelled" in run(place, tmp_path, "--chat", "hf:x", *FEW)
    found = LabelStore(tmp_path / "labels").read(["passages", "triplets", "generated"])
    assert {one.example.id for one in found} == TOWNS.keys()


def test_candidates_over_the_window_are_reported(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Belford is a town that was founded by Cole long ago."
    with_text = reader().prompt(
        reader_prompt("Who founded Belford?", TrainCandidate("passages", "Belford", (), text, 0.0))
    )
    monkeypatch.setattr("mergewise.models.load_causal", lambda spec: reader(window=len(with_text)))
    printed = " ".join(run(place, tmp_path / "cut", "--chat", "hf:x", *FEW).split())
    assert "6 questions labelled" in printed and "candidates exceed the window of scripted" in printed
    alone = reader().prompt(reader_prompt("Who founded Belford?", None))
    monkeypatch.setattr("mergewise.models.load_causal", lambda spec: reader(window=len(alone) + 2))
    printed = " ".join(run(place, tmp_path / "none", "--chat", "hf:x", *FEW).split())
    assert "0 questions labelled" in printed and "6 questions have no labels" in printed


def test_options_set_the_training_settings(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[TrainSettings] = []

    def train(labels: object, kinds: object, base: str, settings: TrainSettings, *rest: object) -> TrainingReport:
        given.append(settings)
        counts = {"all": 9, "cut_for_reader": 0, "cut_by_predictor": 4}
        questions = {"learnt": 3, "held_out": 0, "dropped": 0}
        return TrainingReport({"tokens": settings.tokens}, questions, counts, {}, {}, 0.0, 0.0)

    monkeypatch.setattr("mergewise.designs.aed.training.utility.train_utility", train)
    monkeypatch.setattr("mergewise.designs.aed.training.bases.check_packages", lambda: None)
    own = "best = 3\nwarmup = 0.25\npassages = 1\ntriplets = 0\n"
    printed = run(place, tmp_path, "--chat", "hf:x", *BASE, settings=own)
    assert "4 of 9 candidates are too long: the predictor reads only their first 256 tokens" in " ".join(
        printed.split()
    )
    assert given == [TrainSettings(best=3, warmup=0.25)]
    run(place, tmp_path, "--chat", "hf:x", *BASE, settings='preset = "paper"\npassages = 1\ntriplets = 0')
    assert given[1] == PRESETS["paper"]


def test_training_uses_the_dev_split(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--chat", "hf:x", "--labels-only"]
    monkeypatch.setenv("MERGEWISE_LABELS", str(tmp_path / "own"))
    run(place, tmp_path, *words, settings="passages = 1\ntriplets = 0")
    found = LabelStore(tmp_path / "own").read(["passages", "generated"])
    assert {one.example.id for one in found} == {"Arden", "Belford", "Corley"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (FEW, "causal model"),
        ([*FEW, "--chat", "hf:x", "--split", "third"], "invalid --split"),
        (["--base", "none"], "unknown base"),
        ([], "unknown base"),
        (["--config", "nowhere.toml"], "cannot be read"),
    ],
)
def test_invalid_options_are_refused(place: Path, tmp_path: Path, words: list[str], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        run(place, tmp_path, *words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('level = "high"', "level"),
        ('preset = "other"', "unknown preset: 'other'"),
        ("rate = 0", "rate"),
        ("warmup = 2", "warmup"),
        ("alpha = -1", "alpha"),
        ('seed = "x"', "seed"),
        ("rates = 1\nbest = 2", "unknown settings: rates"),
    ],
)
def test_settings_of_a_file_are_checked(place: Path, tmp_path: Path, line: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected) as raised:
        run(place, tmp_path / "out", "--chat", "hf:x", settings=line)
    if "unknown settings" in expected:
        assert "alpha, batch, best, epochs" in raised.value.hint
    assert not (tmp_path / "out").exists()


def test_labels_need_questions(tmp_path: Path) -> None:
    done = RUNNER.invoke(app, ["train", "utility", "--out", str(tmp_path), "--labels-only"])
    assert isinstance(done.exception, UsageError) and "no questions" in done.exception.message


def test_missing_packages_are_reported_before_labelling(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mergewise.designs.aed.training.bases.find_spec", lambda name: None)
    with pytest.raises(MissingExtra) as raised:
        run(place, tmp_path, "--chat", "hf:x", *BASE)
    assert raised.value.hint == install_command("train") and not list(tmp_path.iterdir())
