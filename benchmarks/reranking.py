"""Effect of a reranker on weave, topk and auto-merge: simulated rerankers from useless to perfect, or a real one.

python -m benchmarks.reranking                 a curve over the gain of a simulated reranker, one table per set
python -m benchmarks.reranking --reranker SPEC the same three strategies with and without a real reranker

A simulated reranker knows the gold: its logit is `gain` for a text with gold evidence and 0 for others, plus `--noise` times a
normal variate that depends on question and text. It is not a result; it shows how the strategies use a reranker of that quality.
`--calibrate N` fits a calibration on N questions of the first half. By default, the scores of each question are calibrated alone.

Cells: the share of questions with all evidence held at each budget. Indexes of the sets are cached in --cache DIR.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

import mergewise
from benchmarks.corpus import bench_folder
from mergewise.designs.weave.parameters import Weave
from mergewise.designs.weave.strategy import gather
from mergewise.designs.weave.weights import scored_sentences
from mergewise.engine import Index
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.evaluate.run import Split, chosen_questions, evaluate
from mergewise.models import load_reranker
from mergewise.models.calibration import Calibrated, Calibration, calibrate
from mergewise.models.scores import RememberingReranker
from mergewise.protocols import FloatArray, Reranker

SETS = "2wiki,hotpotqa-long,squad"
STRATEGIES = "weave,topk,auto-merge"
BUDGETS = (128, 384, 640)
GAINS = (0.0, 1.0, 2.0, 4.0, 8.0, -4.0)


class KnowsGold:
    """A `Reranker` with logits gain x gold + noise."""

    def __init__(self, questions: Sequence[Question], gain: float, noise: float) -> None:
        self.spec = f"gain {gain:g}, noise {noise:g}"
        self.texts = self.calls = 0
        self._gold: Mapping[str, list[str]] = {one.text: [text for _, text in one.evidence] for one in questions}
        self._gain, self._noise = gain, noise

    def logits(self, question: str, texts: Sequence[str]) -> FloatArray:
        self.calls += 1
        self.texts += len(texts)
        logits = [self._gain * self._is_gold(question, text) + self._noise * _variate(question, text) for text in texts]
        return np.array(logits, np.float32)

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        return np.asarray(1 / (1 + np.exp(-self.logits(question, texts))), np.float32)

    def _is_gold(self, question: str, text: str) -> bool:
        """Check that the text holds a gold text, or that its last line is most of a gold sentence."""
        last = text.rpartition("\n")[2]
        return any(
            gold in text or (last in gold and 2 * len(last) > len(gold)) for gold in self._gold.get(question, ())
        )


def _variate(question: str, text: str) -> float:
    seed = int.from_bytes(blake2b(f"{question}\0{text}".encode(), digest_size=8).digest(), "big")
    return float(np.random.default_rng(seed).standard_normal())


def fit_calibration(task: QuestionSet, index: Index, limit: int) -> Calibration:
    """Fit a calibration on the first questions of the first half."""
    scored = []
    for question in chosen_questions(task, "dev", limit):
        state = index.state().for_question()
        candidates = gather(question.text, state.reader(None), Weave(), [], models=state.models)
        if candidates.reranked is not None:
            scored.append(scored_sentences(candidates, [span for span, _ in question.evidence]))
    return calibrate(scored)


def row(label: str, index: Index, task: QuestionSet, strategies: Sequence[str], split: Split, limit: int) -> str:
    held = [[one.scores["all"] for one in evaluate(index, task, [spec], BUDGETS, split, limit)] for spec in strategies]
    return f"| {label} | " + " | ".join(" ".join(f"{share:.3f}" for share in shares) for shares in held) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--strategies", default=STRATEGIES, help="Strategies, separated by commas or semicolons")
    parser.add_argument("--split", default="test")
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--gains", default=",".join(f"{gain:g}" for gain in GAINS))
    parser.add_argument("--noise", type=float, default=1.0)
    parser.add_argument("--calibrate", type=int, default=0)
    parser.add_argument("--reranker")
    parser.add_argument("--cache", type=Path, default=Path("weave.cache"))
    options = parser.parse_args()
    strategies = options.strategies.split(";" if ";" in options.strategies else ",")
    for name in options.sets.split(","):
        task = load_question_set(bench_folder() / name)
        print(f"\n| {name} | " + " | ".join(strategies) + " |\n|" + " --- |" * (len(strategies) + 1))

        def show(label: str, reranker: Reranker | None, task: QuestionSet = task, name: str = name) -> None:
            index = mergewise.open(options.cache / name, create=False, reranker=reranker or "none")
            if options.calibrate and reranker is not None:
                fitted = fit_calibration(task, index, options.calibrate)
                index = mergewise.open(options.cache / name, create=False, reranker=Calibrated(reranker, fitted))
                label = f"{label}, {fitted.slope:.2f} x {fitted.bias:+.2f}"
            print(row(label, index, task, strategies, options.split, options.limit), flush=True)

        show("none", None)
        if options.reranker:
            loaded = load_reranker(options.reranker)
            # Do not score a pair again at the next budget.
            show(options.reranker, loaded and RememberingReranker(loaded))
        else:
            for gain in map(float, options.gains.split(",")):
                show(f"gain {gain:g}", KnowsGold(task.questions, gain, options.noise))


if __name__ == "__main__":
    main()
