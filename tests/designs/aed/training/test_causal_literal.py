"""The training of AED-RAG against a literal loop in double precision: Algorithm 1, lines 4 to 23, and appendix C."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mergewise.designs.aed.training.labels import LabelledQuestion, LabelStore
from mergewise.designs.aed.training.trainer import PRESETS, TrainSettings

torch = pytest.importorskip("torch", reason="the extra `hf` is not installed")
transformers = pytest.importorskip("transformers", reason="the extra `hf` is not installed")
pytest.importorskip("onnx", reason="the extra `train` is not installed")

from mergewise.designs.aed.training.trainer import train  # noqa: E402


def literal_weights(
    folder: Path, questions: list[LabelledQuestion], settings: TrainSettings
) -> tuple[dict[str, np.ndarray], list[float]]:
    """Train one pair at a time, with Adam, the clipping and the schedule written out. Return the weights and the losses."""
    network = transformers.AutoModelForSequenceClassification.from_pretrained(folder).double().train()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    weights = dict(network.named_parameters())
    first = {name: torch.zeros_like(value) for name, value in weights.items()}
    second = {name: torch.zeros_like(value) for name, value in weights.items()}
    per_epoch = math.ceil(len(questions) / settings.batch)
    steps, losses = settings.epochs * per_epoch, []
    rising = round(settings.warmup * steps)
    for step in range(steps):
        epoch, place = divmod(step, per_epoch)
        order = np.random.default_rng([settings.seed, 1, epoch]).permutation(len(questions))
        whole = torch.zeros((), dtype=torch.float64)
        batch = [questions[i] for i in order[place * settings.batch : (place + 1) * settings.batch]]
        for question in batch:
            # the candidates of highest utility have the lowest perplexity
            units = sorted(question.candidates, key=lambda one: one.cppl)[: settings.best]
            scores = []
            for unit in units:
                text = unit.candidate.predictor_text
                asked = tokenizer(question.example.text, text, truncation=True, max_length=settings.tokens)
                scores.append(network(**{k: torch.tensor([v]) for k, v in asked.items()}).logits[0, 0])  # Eq. 6
            wanted = [math.exp(-math.log(unit.cppl + 1)) for unit in units]
            wanted = [value / sum(wanted) for value in wanted]  # Eq. 7
            student = [score.exp() / sum(other.exp() for other in scores) for score in scores]  # Eq. 8
            loss = sum(p * torch.log(p / q) for p, q in zip(wanted, student, strict=True))  # Eq. 9
            whole = whole + loss / len(batch)
        losses.append(float(whole.detach()))
        grads = dict(zip(weights, torch.autograd.grad(whole, list(weights.values()), allow_unused=True), strict=True))
        norm = math.sqrt(sum(float((grad**2).sum()) for grad in grads.values() if grad is not None))
        rate = settings.rate * ((step + 1) / rising if step < rising else (steps - step) / (steps - rising))
        with torch.no_grad():
            for name, grad in grads.items():
                if grad is None:
                    continue
                grad = grad * min(1.0, 1 / norm)
                first[name] = 0.9 * first[name] + 0.1 * grad
                second[name] = 0.999 * second[name] + 0.001 * grad**2
                mean, square = first[name] / (1 - 0.9 ** (step + 1)), second[name] / (1 - 0.999 ** (step + 1))
                weights[name] -= rate * mean / (square.sqrt() + 1e-8)
    return {name: value.detach().numpy() for name, value in weights.items()}, losses


@pytest.mark.parametrize("best", [3, 32])
def test_training_equals_a_literal_loop(many_labels: LabelStore, base: str, tmp_path: Path, best: int) -> None:
    folder = tmp_path / "base"
    shutil.copytree(base.removeprefix("cross-encoder:"), folder)
    # dropout depends on the order of the pairs in a batch
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    start = transformers.AutoModelForSequenceClassification.from_pretrained(folder, **still).double()
    start.save_pretrained(folder)
    settings = replace(PRESETS["paper"], tokens=48, rate=3e-3, best=best)
    assert (settings.batch, settings.warmup, settings.epochs, settings.held_out) == (8, 0.1, 2, 0.0)
    questions = many_labels.read(["passages", "generated"])
    done = train(questions, f"cross-encoder:{folder}", settings, tmp_path / "out")
    wanted, losses = literal_weights(folder, questions, settings)
    assert done.history.losses == pytest.approx(losses, rel=1e-9)
    found = done.base.network.state_dict()
    for name, value in wanted.items():
        assert np.abs(found[name].numpy() - value).max() < 1e-7, name
    assert max(np.abs(start.state_dict()[name].numpy() - value).max() for name, value in wanted.items()) > 1e-2
