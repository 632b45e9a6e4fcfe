"""What a reranker adds to weave, topk and auto-merge: made-up ones from useless to all-knowing, or a real one.

python -m benchmarks.reranking                 a curve over the gain of a made-up reranker, a table a set
python -m benchmarks.reranking --reranker SPEC the same three strategies with a real one, and without

A made-up reranker knows the gold: its logit is `gain` for a text with gold evidence, 0 for others, plus `--noise` times a normal
variate that question and text determine. It is no result; it shows what the strategies make of a reranker that is as good. With
`--calibrate N` a calibration is fitted on N questions of the first half, where otherwise a question's own scores have to do.

Cells: the share of questions all of whose evidence is held at each budget. Indexes of the sets are kept in --cache DIR.
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
    """A `Reranker` whose logit is gain x gold + noise."""

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
        """Whether it holds a gold text, or its last line, a sentence, is most of one."""
        last = text.rpartition("\n")[2]
        return any(
            gold in text or (last in gold and 2 * len(last) > len(gold)) for gold in self._gold.get(question, ())
        )


def _variate(question: str, text: str) -> float:
    seed = int.from_bytes(blake2b(f"{question}\0{text}".encode(), digest_size=8).digest(), "big")
    return float(np.random.default_rng(seed).standard_normal())


def fitted_calibration(task: QuestionSet, index: Index, limit: int) -> Calibration:
    """Fitted on the first questions of the first half."""
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
    parser.add_argument("--strategies", default=STRATEGIES, help="separated by semicolons where they have parameters")
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
                fitted = fitted_calibration(task, index, options.calibrate)
                index = mergewise.open(options.cache / name, create=False, reranker=Calibrated(reranker, fitted))
                label = f"{label}, {fitted.slope:.2f} x {fitted.bias:+.2f}"
            print(row(label, index, task, strategies, options.split, options.limit), flush=True)

        show("none", None)
        if options.reranker:
            loaded = load_reranker(options.reranker)
            # no pair is scored again at the next budget
            show(options.reranker, loaded and RememberingReranker(loaded))
        else:
            for gain in map(float, options.gains.split(",")):
                show(f"gain {gain:g}", KnowsGold(task.questions, gain, options.noise))


if __name__ == "__main__":
    main()
