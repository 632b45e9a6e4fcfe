"""Training of a predictor, with torch on a tiny network: from labels to a folder that ranks better, with resumption."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mergewise.designs.aed.training.candidates import Kind
from mergewise.designs.aed.training.distilling import divergence, gains, loss, teacher
from mergewise.designs.aed.training.labels import LabelStore
from mergewise.designs.aed.training.trainer import TrainSettings
from mergewise.errors import UsageError
from mergewise.models import load_reranker
from mergewise.models.record import RerankerUtilities

torch = pytest.importorskip("torch", reason="the extra `hf` is not installed")
pytest.importorskip("transformers", reason="the extra `hf` is not installed")
pytest.importorskip("onnx", reason="the extra `train` is not installed")

from mergewise.designs.aed.training import trainer  # noqa: E402
from mergewise.designs.aed.training.bases import load_base  # noqa: E402
from mergewise.designs.aed.training.scoring import count_cut, question_utilities, utilities  # noqa: E402
from mergewise.designs.aed.training.trainer import train  # noqa: E402
from mergewise.designs.aed.training.utility import train_utility  # noqa: E402

KINDS: list[Kind] = ["passages", "generated"]
SETTINGS = TrainSettings(batch=8, epochs=10, rate=1e-2, tokens=48, held_out=0.3, patience=0)
SHORT = replace(SETTINGS, epochs=2, held_out=0.2)


def test_trained_predictor_ranks_held_out_candidates(many_labels: LabelStore, base: str, tmp_path: Path) -> None:
    progress: list[tuple[int, int, str]] = []
    report = train_utility(many_labels, KINDS, base, SETTINGS, tmp_path, lambda *args: progress.append(args))
    assert report.questions == {"learnt": 21, "held_out": 9, "dropped": 0}
    trained, untrained = (report.held_out[name] for name in ("trained", "untrained"))
    assert report.held_out.keys() == {"trained", "untrained", "search"}
    assert trained["rho"] > 0.8 > untrained["rho"] + 0.3
    assert trained["first"] > trained["best"] - 0.1  # the first is the best one, or nearly
    assert untrained["first"] < trained["best"] - 0.5
    assert trained["kl"] < 0.5 * untrained["kl"]
    assert [done for done, _, _ in progress] == list(range(1, 31)) and "held out" in progress[-1][2]

    labelled = [one.candidate for question in many_labels.read(KINDS) for one in question.candidates]
    assert report.candidates == {"all": len(labelled), "cut_for_reader": 0, "cut_by_predictor": 0}

    predictor = load_reranker(f"cross-encoder:{tmp_path}")  # by onnxruntime
    assert predictor is not None and type(predictor).__name__ == "ONNXCrossEncoder" and report.apart < 1e-4
    asked = trainer.split_questions(many_labels.read(KINDS), SETTINGS).held_out[0]
    texts = [candidate.candidate.predictor_text for candidate in asked.candidates]
    found = RerankerUtilities(predictor).utilities(asked.example.text, texts)
    assert np.argmax(found) == np.argmin([candidate.cppl for candidate in asked.candidates])
    assert max(found) > 0  # over no context, by the level
    long = " ".join(["rain"] * 500)  # cut by the settings of the tokenizer
    assert len(predictor.score(asked.example.text, [long])) == 1

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "config.json", "model.onnx", "model.safetensors", "tokenizer.json",
        "tokenizer_config.json", "training.json",
    ]  # fmt: skip
    before = (tmp_path / "model.onnx").stat().st_mtime_ns
    (tmp_path / "checkpoint").mkdir()  # a kill can leave it
    assert train_utility(many_labels, KINDS, base, SETTINGS, tmp_path) == report  # returned without training
    assert not (tmp_path / "checkpoint").exists()
    assert (tmp_path / "model.onnx").stat().st_mtime_ns == before
    with pytest.raises(UsageError, match="other labels or parameters"):
        train_utility(many_labels, KINDS, base, SHORT, tmp_path)


def weights(trained: trainer.Trained) -> dict[str, Any]:
    return {name: value.clone() for name, value in trained.base.network.state_dict().items()}


def test_interrupted_training_loses_a_step_and_gives_the_same_result(
    many_labels: LabelStore, base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = many_labels.read(KINDS)
    whole = train(questions, base, SHORT, tmp_path / "whole")

    def kill_at(step: int) -> Any:
        def progress(done: int, total: int, item: str) -> None:
            if done == step:
                raise KeyboardInterrupt

        return progress

    broken = tmp_path / "broken"
    for step in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            train(questions, base, SHORT, broken, kill_at(step))
    saved = torch.save

    def half(state: Any, path: Path) -> None:
        saved(state, path)
        path.write_bytes(path.read_bytes()[:1000])
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", half)  # a kill while the state is written
    with pytest.raises(KeyboardInterrupt):
        train(questions, base, SHORT, broken)
    monkeypatch.undo()
    steps: list[int] = []
    resumed = train(questions, base, SHORT, broken, lambda done, total, item: steps.append(done))
    assert steps == [4, 5, 6]
    assert resumed.history == whole.history and resumed.before == whole.before and resumed.shift == whole.shift
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(resumed)[name]), name
    with pytest.raises(UsageError, match="other parameters or labels"):
        train(questions, base, replace(SHORT, seed=1), broken)
    (broken / "state.pt").write_bytes(b"nothing")
    with pytest.raises(UsageError, match="cannot read"):
        train(questions, base, SHORT, broken)


def test_first_loss_matches_equation_9(many_labels: LabelStore, base: str, tmp_path: Path) -> None:
    """The loss of the untrained network without dropout, computed from its utilities in float64."""
    questions = many_labels.read(KINDS)
    settings = replace(SHORT, batch=100, epochs=1, best=3, held_out=0.0, level="free")
    network = load_base(base, 0)
    folder = tmp_path / "plain"
    network.network.config.hidden_dropout_prob = network.network.config.attention_probs_dropout_prob = 0.0
    network.network.save_pretrained(folder)
    network.tokenizer.save_pretrained(folder)
    trained = train(questions, f"cross-encoder:{folder}", settings, tmp_path / "state")
    expected = []
    for one, values in zip(
        questions, question_utilities(load_base(f"cross-encoder:{folder}", 0), questions, 48), strict=True
    ):
        cppl = [candidate.cppl for candidate in one.candidates]
        best = sorted(sorted(range(len(cppl)), key=lambda i: cppl[i])[:3])
        expected.append(divergence([cppl[i] for i in best], [values[i] for i in best]))
    assert trained.history.losses == pytest.approx([np.mean(expected)], rel=1e-4)
    assert trained.history.held_out == [] and trained.shift == 0.0


def test_level_only_shifts_utilities(many_labels: LabelStore, base: str, tmp_path: Path) -> None:
    questions = many_labels.read(KINDS)
    settings = replace(SHORT, epochs=1)
    free = train(questions, base, replace(settings, level="free"), tmp_path / "free")
    gain = train(questions, base, settings, tmp_path / "gain")
    moved, still = (np.concatenate(question_utilities(one.base, one.split.learnt, 48)) for one in (gain, free))
    np.testing.assert_allclose(moved - still, gain.shift, atol=1e-5)
    wanted = [gains([c.cppl for c in one.candidates], one.alone) for one in gain.split.learnt]
    assert moved.mean() == pytest.approx(np.concatenate(wanted).mean(), abs=1e-4)
    assert gain.history == free.history


def test_loss_in_torch_matches_the_loss_on_arrays() -> None:
    draw = np.random.default_rng(0)
    for n in (1, 2, 41):
        cppl, values = 1 + draw.exponential(50, n), torch.tensor(draw.normal(0, 5, n), requires_grad=True)
        found = loss(list(cppl), values)
        assert float(found.detach()) == pytest.approx(divergence(list(cppl), values.tolist()), abs=1e-12)
        found.backward()
        gradient = values.detach().softmax(-1).numpy() - teacher(list(cppl))
        np.testing.assert_allclose(values.grad.numpy(), gradient, atol=1e-12)
        assert float(values.grad.sum()) == pytest.approx(0, abs=1e-12)  # none along the level


def test_cut_candidates_are_counted(many_labels: LabelStore, base: str) -> None:
    """The exported predictor cuts at the same length."""
    questions, network = many_labels.read(KINDS)[:4], load_base(base, 0)
    for tokens in (12, 18, 24, 48):
        expected = sum(
            len(network.tokenizer(one.example.text, each.candidate.predictor_text)["input_ids"]) > tokens
            for one in questions
            for each in one.candidates
        )
        assert count_cut(network, questions, tokens) == expected
    assert count_cut(network, questions, 12) > count_cut(network, questions, 48) == 0 == count_cut(network, [], 12)


def test_batched_utilities_match_single_pairs(base: str) -> None:
    network = load_base(base, 0)
    network.network.eval()
    texts = ["A river.", "It rains in town on most days of the winter, and on some of the summer.", "Cheese", "x"] * 6
    with torch.inference_mode():
        found = utilities(network, "Who?", texts, 32).tolist()
        for text, value in list(zip(texts, found, strict=True))[:4]:
            encoded = network.tokenizer("Who?", text, truncation=True, max_length=32, return_tensors="pt")
            assert value == pytest.approx(float(network.network(**encoded).logits[0, 0]), abs=1e-5)


def test_unusable_bases_and_labels_are_rejected(base: str, tmp_path: Path, many_labels: LabelStore) -> None:
    for spec in ("minilm", "cross-encoder:", "http://x"):
        with pytest.raises(UsageError, match="unknown base"):
            load_base(spec, 0)
    with pytest.raises(UsageError, match="cannot load the base"):
        load_base(f"cross-encoder:{tmp_path}", 0)
    shutil.copytree(base.partition(":")[2], tmp_path / "two")
    config = json.loads((tmp_path / "two/config.json").read_text())
    config |= {"id2label": {"0": "a", "1": "b"}, "label2id": {"a": 0, "b": 1}}
    (tmp_path / "two/config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match="2 labels"):
        load_base(f"cross-encoder:{tmp_path / 'two'}", 0)
    with pytest.raises(UsageError, match="no question with labels"):
        train_utility(LabelStore(tmp_path / "none"), KINDS, base, SHORT, tmp_path / "out")
