"""`train utility`: what is asked for, what is refused, what goes on; the model is given here, and no torch is needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.designs.aed.training.towns import TOWNS, reader, towns_index
from typer.testing import CliRunner

from mergewise.cli.main import app
from mergewise.designs.aed.training.labels import LabelStore
from mergewise.errors import MissingExtra, UsageError

RUNNER = CliRunner()
FEW = ["--passages", "2", "--triplets", "2", "--labels-only", "--half", "all"]


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


def run(place: Path, out: Path, *words: str) -> str:
    asked = ["train", "utility", str(place / "asked.jsonl"), "--index", str(place / "index"), "--out", str(out)]
    done = RUNNER.invoke(app, [*asked, *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_labels_are_made_and_go_on(place: Path, tmp_path: Path) -> None:
    assert "2 questions labelled" in run(place, tmp_path, "--chat", "hf:x", *FEW, "--limit", "2")
    assert "4 questions labelled" in run(place, tmp_path, "--chat", "hf:x", *FEW)
    found = LabelStore(tmp_path / "labels").read(["passages", "triplets", "generated"])
    assert {one.example.id for one in found} == TOWNS.keys()


def test_the_first_half_is_for_training_and_some_questions_for_nobody(place: Path, tmp_path: Path) -> None:
    (tmp_path / "not.txt").write_text("  who founded  ARDEN?\n", encoding="utf-8")
    words = ["--chat", "hf:x", "--passages", "1", "--triplets", "0", "--labels-only"]
    run(place, tmp_path, *words, "--labels", str(tmp_path / "own"), "--except", str(tmp_path / "not.txt"))
    found = LabelStore(tmp_path / "own").read(["passages", "generated"])
    assert {one.example.id for one in found} == {"Belford", "Corley"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (FEW, "causal model"),
        ([*FEW, "--chat", "hf:x", "--half", "third"], "unknown half"),
        ([*FEW, "--chat", "hf:x", "--except", "nowhere.txt"], "cannot be read"),
        (["--preset", "other"], "unknown preset"),
        (["--base", "none"], "unknown base"),
        (["--level", "high"], "level"),
        (["--rate", "0"], "rate"),
        ([*FEW, "--alpha", "-1"], "alpha"),
    ],
)
def test_what_cannot_be_is_refused(place: Path, tmp_path: Path, words: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        run(place, tmp_path, *words)
    assert not list(tmp_path.iterdir())


def test_labels_want_questions(tmp_path: Path) -> None:
    done = RUNNER.invoke(app, ["train", "utility", "--out", str(tmp_path), "--labels-only"])
    assert isinstance(done.exception, UsageError) and "no questions" in done.exception.message


def test_without_its_packages_training_says_so_before_it_labels(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mergewise.designs.aed.training.bases.find_spec", lambda name: None)
    with pytest.raises(MissingExtra) as told:
        run(place, tmp_path, "--chat", "hf:x")
    assert "mergewise[train]" in told.value.hint and not list(tmp_path.iterdir())


def test_gainrag_has_no_triplets(place: Path, tmp_path: Path) -> None:
    words = ["--chat", "hf:x", "--passages", "2", "--labels-only", "--preset", "gainrag", "--limit", "1"]
    run(place, tmp_path, *words)
    assert sorted(path.name for path in (tmp_path / "labels").iterdir()) == ["generated", "passages"]
