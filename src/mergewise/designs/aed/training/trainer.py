"""Training of a cross-encoder on labels, step by step: Algorithm 1 of AED-RAG, lines 4 to 23.

The whole state is saved after every step. Step n is seeded by (seed, n), so training resumes from any checkpoint with the same
weights. The optimizer is Adam without weight decay. Gradients are clipped to norm 1. The learning rate rises linearly over the
warmup and then falls to 0 at the last possible step. Each epoch ends with an evaluation on the held-out questions. The result has
the weights of the epoch with the lowest held-out KL.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from mergewise.designs.aed.training.bases import Base, load_base
from mergewise.designs.aed.training.distilling import gains, loss, teaches
from mergewise.designs.aed.training.judging import judge
from mergewise.designs.aed.training.labels import LabelledQuestion, write_whole
from mergewise.designs.aed.training.scoring import question_utilities, utilities
from mergewise.errors import ModelError, UsageError
from mergewise.models.causal.loading import quietly
from mergewise.models.cross_encoder import ONNXCrossEncoder
from mergewise.ranges import SHARE, CheckedFields, Range
from mergewise.text.spans import one_line
from mergewise.types import JsonDict, frozen

LONGEST_GRADIENT = 1.0
LEVEL_QUESTIONS = 64  # questions for setting the level of the utilities
STATE, BEST = "state.pt", "best.pt"

OnProgress = Callable[[int, int, str], None]
"""Callback with the finished steps, the total of steps, and a status line."""


Level = Literal["gain", "free"]


@frozen
class TrainSettings(CheckedFields):
    """Settings of the training. Defaults are AED-RAG's (appendix C) if the paper states them.

    AED-RAG does not state epochs, lengths and early stopping. GainRAG trains for two epochs. AED-RAG drops questions that every
    candidate answers for certain, and calls the rest solvable.
    """

    best: Annotated[int, Range(1, 1000), "Candidates with the lowest perplexity per question and step"] = 32
    batch: Annotated[int, Range(1, 1000), "Questions per step"] = 8
    epochs: Annotated[int, Range(1, 1000), "Maximum number of epochs"] = 10
    patience: Annotated[int, Range(0, 1000), "Epochs without a better held-out loss before stopping; 0 for never"] = 2
    rate: Annotated[float, Range(0, 1, above=True), "Peak learning rate"] = 6e-5
    warmup: Annotated[float, SHARE, "Share of steps with a rising learning rate"] = 0.1
    held_out: Annotated[float, Range(0, 0.9), "Share of questions held out for evaluation"] = 0.2
    tokens: Annotated[int, Range(8, 8192), "Maximum tokens of question and candidate together"] = 256
    level: Annotated[Level, "Zero of the utilities: no context (`gain`), or as trained (`free`)"] = "gain"
    seed: Annotated[int, Range(0, 2**31), "Random seed"] = 0


PRESETS: dict[str, TrainSettings] = {
    "aed": TrainSettings(),
    # for settings that AED-RAG does not state, GainRAG's code: two epochs, and the base's full input length
    "paper": TrainSettings(epochs=2, patience=0, held_out=0.0, tokens=512, level="free"),
}
"""`aed` has our defaults. `paper` has only parts that AED-RAG describes: no held-out questions, no chosen epoch, no level."""


@dataclass(slots=True)
class History:
    """The loss of each step, and the held-out KL after each epoch."""

    losses: list[float] = field(default_factory=list)
    held_out: list[float] = field(default_factory=list)

    @property
    def best(self) -> int | None:
        """The epoch with the lowest held-out KL, from 0."""
        return int(np.argmin(self.held_out)) if self.held_out else None

    def ends(self, patience: int) -> bool:
        """Check whether the last `patience` epochs brought no improvement."""
        best = self.best
        return patience > 0 and best is not None and len(self.held_out) - 1 - best >= patience


class Split(NamedTuple):
    """Questions to learn from, held-out questions, and the number of `dropped` questions, which had nothing to teach."""

    learnt: list[LabelledQuestion]
    held_out: list[LabelledQuestion]
    dropped: int


class Trained(NamedTuple):
    """The network with the best weights. `before` are the utilities of the held-out candidates by the untrained network."""

    base: Base
    history: History
    split: Split
    before: list[list[float]]
    shift: float


def split_questions(questions: Sequence[LabelledQuestion], settings: TrainSettings) -> Split:
    """Split the questions at random by the seed. Copies of a question in several sets stay together."""
    able = [one for one in questions if teaches([labelled.cppl for labelled in one.candidates])]
    keys = [one_line(one.example.text.lower()) for one in able]
    texts = sorted(set(keys))
    order = np.random.default_rng([settings.seed, 0]).permutation(len(texts))
    kept = {texts[i] for i in order[: round(settings.held_out * len(texts))]}
    learnt = [one for one, key in zip(able, keys, strict=True) if key not in kept]
    held_out = [one for one, key in zip(able, keys, strict=True) if key in kept]
    if not learnt:
        raise UsageError("no question to learn from", "label more questions")
    return Split(learnt, held_out, len(questions) - len(able))


def train(
    questions: Sequence[LabelledQuestion],
    spec: str,
    settings: TrainSettings,
    folder: Path,
    progress: OnProgress | None = None,
) -> Trained:
    """Train, or resume from the state in `folder`. Raise UsageError if the state is from another training."""
    training = _Training(split_questions(questions, settings), load_base(spec, settings.seed), settings, folder)
    training.begin({"base": spec, "labels": digest(questions), **asdict(settings)})
    history, epoch_steps = training.history, training.epoch_steps
    while training.step < training.steps:
        if training.step % epoch_steps == 0 and history.ends(settings.patience):
            break
        training.advance()
        if progress is not None:
            line = f"epoch {(training.step - 1) // epoch_steps + 1}, loss {history.losses[-1]:.4f}"
            line += f", held out {history.held_out[-1]:.4f}" if history.held_out else ""
            progress(training.step, training.steps, line)
    return training.result()


class _Training:
    """State of a training."""

    def __init__(self, data: Split, base: Base, settings: TrainSettings, folder: Path) -> None:
        import torch

        self.torch = torch
        self.split = data
        self.base = base
        self.settings = settings
        self.folder = folder
        self.history = History()
        self.before: list[list[float]] = []
        self.step = 0
        self.epoch_steps = -(-len(data.learnt) // settings.batch)
        self.steps = settings.epochs * self.epoch_steps
        base.network.to("cuda" if torch.cuda.is_available() else "cpu")
        self.optimizer = torch.optim.AdamW(base.network.parameters(), lr=settings.rate, weight_decay=0.0)

    def begin(self, parameters: JsonDict) -> None:
        """Load the state in the folder, or evaluate the untrained network."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file, made_with = self.folder / STATE, json.dumps(parameters, sort_keys=True)
        self.parameters = made_with
        if not file.exists():
            self.before = question_utilities(self.base, self.split.held_out, self.settings.tokens)
            return
        state = self._load(file)
        if state["parameters"] != made_with:
            raise UsageError(
                f"{self.folder} has a training with other parameters or labels",
                "choose another --out, or delete the folder",
            )
        self.base.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.before = state["step"], state["before"]
        self.history = History(**state["history"])

    def advance(self) -> None:
        """Run a step of Eq. 9 over a batch of questions, and evaluate at the end of an epoch."""
        epoch, place = divmod(self.step, self.epoch_steps)
        order = np.random.default_rng([self.settings.seed, 1, epoch]).permutation(len(self.split.learnt))
        settings = self.settings
        batch = [self.split.learnt[i] for i in order[place * settings.batch : (place + 1) * settings.batch]]
        self.torch.manual_seed(settings.seed * 1_000_003 + self.step)  # dropout
        for group in self.optimizer.param_groups:
            group["lr"] = settings.rate * pace(self.step, self.steps, settings.warmup)
        self.base.network.train()
        self.optimizer.zero_grad()
        total = 0.0
        for question in batch:
            cppl = [labelled.cppl for labelled in question.candidates]
            shown = sorted(sorted(range(len(cppl)), key=cppl.__getitem__)[: settings.best])
            texts = [question.candidates[i].candidate.predictor_text for i in shown]
            scores = utilities(self.base, question.example.text, texts, settings.tokens)
            own = loss([cppl[i] for i in shown], scores) / len(batch)
            own.backward()
            total += float(own.detach())
        self.torch.nn.utils.clip_grad_norm_(self.base.network.parameters(), LONGEST_GRADIENT)
        self.optimizer.step()
        self.history.losses.append(total)
        self.step += 1
        if self.step % self.epoch_steps == 0 and self.split.held_out:
            self.history.held_out.append(
                self._kl(question_utilities(self.base, self.split.held_out, self.settings.tokens))
            )
            if self.history.best == len(self.history.held_out) - 1:
                self._save(BEST, self.base.network.state_dict())
        self._save(
            STATE,
            {
                "parameters": self.parameters,
                "network": self.base.network.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "step": self.step,
                "before": self.before,
                "history": asdict(self.history),
            },
        )

    def result(self) -> Trained:
        if self.settings.patience and (self.folder / BEST).exists():
            self.base.network.load_state_dict(self._load(self.folder / BEST))
        shift = 0.0
        if self.settings.level == "gain":
            # The head's bias is shifted so that the mean utility equals the mean gain.
            questions = self.split.learnt[:LEVEL_QUESTIONS]
            found = question_utilities(self.base, questions, self.settings.tokens)
            wanted = [gains([c.cppl for c in one.candidates], one.alone) for one in questions]
            shift = float(np.mean(np.concatenate(wanted)) - np.mean(np.concatenate([np.array(row) for row in found])))
            layers = [m for m in self.base.network.modules() if isinstance(m, self.torch.nn.Linear)]
            heads = [m for m in layers if m.out_features == 1 and m.bias is not None]
            if not heads:
                raise UsageError("base model without a bias in its head", "train with --level free")
            with self.torch.no_grad():
                heads[-1].bias += shift
        return Trained(self.base, self.history, self.split, self.before, shift)

    def _kl(self, values: Sequence[Sequence[float]]) -> float:
        return judge(self.split.held_out, values)["kl"]

    def _save(self, name: str, state: Any) -> None:
        write_whole(self.folder / name, lambda part: self.torch.save(state, part))

    def _load(self, file: Path) -> Any:
        try:
            return self.torch.load(file, weights_only=True, map_location=self.base.network.device)
        # a damaged file can raise any error
        except Exception as error:
            raise UsageError(f"cannot read {file}: {error}", "delete the folder, and train again") from None


def pace(step: int, steps: int, warmup: float) -> float:
    """Return the factor of the learning rate at a step: linear warmup, then linear decay to 0 after the last step."""
    rising = round(warmup * steps)
    if step < rising:
        return (step + 1) / rising
    return (steps - step) / max(1, steps - rising)


def digest(questions: Sequence[LabelledQuestion]) -> str:
    """Return a digest that identifies the labels."""
    parts = [
        [one.example.text, [[c.candidate.kind, c.candidate.predictor_text, c.cppl] for c in one.candidates]]
        for one in questions
    ]
    return blake2b(json.dumps(parts).encode("utf-8", "replace"), digest_size=8).hexdigest()


ONNX = "model.onnx"
OPSET = 17
APART = 1e-3  # maximum difference between the utilities of the two forms


def export(base: Base, folder: Path, tokens: int, question: str, texts: Sequence[str]) -> float:
    """Export a trained predictor for `cross-encoder:PATH`: for transformers, and as ONNX for onnxruntime. Compare both forms.

    Returns:
        The largest difference between their utilities for these texts.

    Raises:
        ModelError: if the difference exceeds `APART`.
    """
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    base.network.to("cpu").eval()
    base.tokenizer.model_max_length = tokens
    with quietly():
        base.network.save_pretrained(folder)
    base.tokenizer.save_pretrained(folder)
    write_whole(folder / ONNX, lambda part: _write(base, part, question, texts[0]))
    with torch.inference_mode():
        expected = utilities(base, question, texts, tokens).numpy()
    apart = float(np.abs(ONNXCrossEncoder(folder, folder / ONNX).logits(question, texts) - expected).max())
    if not apart <= APART:
        raise ModelError(
            f"exported model in {folder} differs by {apart} (expected at most {APART})", "use another base"
        )
    return apart


def _write(base: Base, path: Path, question: str, text: str) -> None:
    import torch

    encoded = base.tokenizer([question] * 2, [text] * 2, return_tensors="pt", truncation=True, max_length=16)
    names = list(encoded)

    class Logits(torch.nn.Module):  # type: ignore[misc]
        """The network for the exporter: positional inputs, and only logits as output."""

        def __init__(self) -> None:
            super().__init__()
            self.network = base.network

        def forward(self, *given: Any) -> Any:
            return self.network(**dict(zip(names, given, strict=True))).logits

    # ignore warnings of the tracer, since `export` compares the results
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Logits().eval(),
            tuple(encoded[name] for name in names),
            str(path),
            input_names=names,
            output_names=["logits"],
            dynamic_axes={name: {0: "batch", 1: "sequence"} for name in names} | {"logits": {0: "batch"}},
            opset_version=OPSET,
            dynamo=False,
        )
