"""The model of `Context.complete`, and the budget `auto` that it decides, each set judged by the weights of the others.

Evidence counts as held if the selected sentences cover it, apart from space and the marks of lists, tables and quotations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.sets import asked, opened
from mergewise.defaults import AUTO_BUDGET, AUTO_PRICE
from mergewise.designs import VIEWS
from mergewise.designs.weave import selection as weave_selection
from mergewise.designs.weave.completeness import COMPLETENESS_FEATURES, features
from mergewise.designs.weave.evidence import Candidates
from mergewise.designs.weave.parameters import Weave
from mergewise.designs.weave.selection import select
from mergewise.designs.weave.strategy import gather
from mergewise.designs.weave.submodular import Selection, maximise
from mergewise.engine import Index
from mergewise.evaluate.run import Split
from mergewise.evaluate.tuning.weights import logistic
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.protocols import DoubleArray
from mergewise.retrieve.hybrid import HybridReader
from mergewise.text.sentences import strip_span
from mergewise.types import Span

SETS = "squad,2wiki,covidqa,hotpotqa-long,musique-long,questions,xquad-de,xquad-es,xquad-zh"
BUDGETS = (128, 192, 256, 300, 384, 512, 640, AUTO_BUDGET)
SHOWN = (128, 300, 640)
SURE, UNSURE = 0.9, (0.3, 0.5, 0.6, 0.7, 0.8)
MARKS = " \n\t-*|#>`.,;:"
DRAWS = 2000
MODELS = Models(count_tokens, stored_tokens=True)


@dataclass(slots=True)
class Asked:
    """A question: features, tokens and completeness at each budget, and after each step of a selection of AUTO_BUDGET tokens."""

    at: dict[int, int] = field(default_factory=dict)  # rows by budget
    path: range = range(0)  # rows of the steps


@dataclass(slots=True)
class Rows:
    """The rows of a set's questions: `x` features, `held` 1 if all evidence is held, `tokens` used."""

    questions: list[Asked] = field(default_factory=list)
    x: list[DoubleArray] = field(default_factory=list)
    held: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def add(self, candidates: Candidates, golds: Sequence[Sequence[set[int] | None]]) -> None:
        asked = Asked()
        for budget in BUDGETS:
            with recorded() as selections:
                chosen, _ = select(candidates, budget, MODELS, Weave(), [])
            if not chosen:
                continue
            sizes, costs = selections[0].sizes, selections[0].costs
            asked.at[budget] = self._append(candidates, chosen, sizes[-1:], costs[-1:], golds).start
        asked.path = self._append(candidates, chosen, sizes, costs, golds)
        self.questions.append(asked)

    def _append(
        self,
        candidates: Candidates,
        chosen: Sequence[int],
        sizes: Sequence[int],
        costs: Sequence[int],
        golds: Sequence[Sequence[set[int] | None]],
    ) -> range:
        first = len(self.held)
        self.x += list(features(candidates, chosen, sizes))
        self.tokens += costs
        for size in sizes:
            taken = set(chosen[:size])
            self.held.append(float(any(all(n is not None and n <= taken for n in needed) for needed in golds)))
        return range(first, len(self.held))

    def at(self, budget: int) -> list[int]:
        return [asked.at[budget] for asked in self.questions if budget in asked.at]


@contextmanager
def recorded() -> Iterator[list[Selection]]:
    """Record the selections with their steps."""
    found: list[Selection] = []

    def recording(*args: Any) -> Selection:
        found.append(maximise(*args))
        return found[-1]

    with patch.object(weave_selection, "maximise", recording):
        yield found


def needed(candidates: Candidates, gold: Span, text: str) -> set[int] | None:
    """Return the candidates that must be held to hold the gold, or None if the candidates do not cover it."""
    at, end = strip_span(text, gold.start, gold.end)
    found = set()
    spans = ((sentence.span, i) for i, sentence in enumerate(candidates.pool.sentences))
    for span, i in sorted((span, i) for span, i in spans if span.doc_id == gold.doc_id):
        if span.start < end and span.end > at:
            found.add(i)
            at = at if text[at : span.start].strip(MARKS) else max(at, span.end)
    return None if text[at:end].strip(MARKS) else found


def rows_of(name: str, cache: Path, split: Split, limit: int) -> Rows:
    rows, index = Rows(), opened(name, cache)
    store = index.store.reader()
    for one in asked(name, split, limit):
        reader = HybridReader(store, index.embedder, VIEWS, None, index.search_settings)
        candidates = gather(one.question.text, reader, Weave(), [], models=MODELS)
        if candidates.pool.sentences:
            rows.add(candidates, [[needed(candidates, s, text_of(index, s)) for s, _ in gold] for gold in one.golds])
    return rows


def text_of(index: Index, span: Span) -> str:
    return index.document(span.doc_id).text


def fitted(sets: Iterable[Rows]) -> DoubleArray:
    """Fit bias and weights on the rows at fixed budgets. All sets have the same weight."""
    training = []
    for rows in sets:
        chosen = [i for budget in BUDGETS for i in rows.at(budget)]
        training.append((np.array(rows.x)[chosen], np.array(rows.held)[chosen], len(chosen)))
    return logistic(training)


def probabilities(rows: Rows, weights: DoubleArray) -> DoubleArray:
    return np.asarray(1 / (1 + np.exp(-(np.array(rows.x) @ weights[1:] + weights[0]))))


def auc(p: DoubleArray, held: DoubleArray) -> float:
    """Return the probability that a complete context has a higher p than an incomplete one."""
    over = p[held == 1][:, None] - p[held == 0][None, :]
    return float((over > 0).mean() + (over == 0).mean() / 2) if over.size else float("nan")


def report(names: Sequence[str], cache: Path, split: Split, limit: int) -> None:
    sets = {name: rows_of(name, cache, split, limit) for name in names}
    left_out = {name: fitted(rows for other, rows in sets.items() if other != name) for name in names}
    p = {name: probabilities(rows, left_out[name]) for name, rows in sets.items()}
    _report_calibration(sets, p)
    _report_remark(sets, p)
    _report_auto(sets, p)
    print("\nweights from all sets:\n")
    for name, weight in zip(("bias", *COMPLETENESS_FEATURES), fitted(sets.values()), strict=True):
        print(f'    "{name}": {weight:.3f},')


def _report_calibration(sets: Mapping[str, Rows], p: Mapping[str, DoubleArray]) -> None:
    print(
        f"Each set by the weights of the others. P is the mean probability; sure: P >= {SURE}; fifth: share of the incomplete"
    )
    print("contexts among the least sure fifth.\n")
    print("| set | tokens | complete | P | AUC | sure and complete | sure | fifth |\n" + "| --- " * 8 + "|")
    cells = []
    for name, rows in sets.items():
        held, every = np.array(rows.held), [i for budget in SHOWN for i in rows.at(budget)]
        for label, chosen in [*((str(budget), rows.at(budget)) for budget in SHOWN), ("all", every)]:
            own, true = p[name][chosen], held[chosen]
            sure = own >= SURE
            least = np.argsort(own, kind="stable")[: round(len(own) / 5)]
            fifth = (1 - true[least]).sum() / (1 - true).sum() if (1 - true).any() else float("nan")
            right = true[sure].mean() if sure.any() else float("nan")
            cells.append((label, true.mean(), own.mean(), auc(own, true), right, sure.mean(), fifth))
            print(f"| {name} | {label} |" + "".join(f" {value:.2f} |" for value in cells[-1][1:]))
    for label in (*map(str, SHOWN), "all"):
        means = np.nanmean([cell[1:] for cell in cells if cell[0] == label], axis=0)
        print(f"| mean | {label} |" + "".join(f" {value:.2f} |" for value in means))


def _report_remark(sets: Mapping[str, Rows], p: Mapping[str, DoubleArray]) -> None:
    print("\nThe remark at P < t and 640 tokens: share of contexts with it, and share of these that are incomplete.\n")
    print("| set | " + " | ".join(f"t = {t}" for t in UNSURE) + " |\n" + "| --- " * (len(UNSURE) + 1) + "|")
    for name, rows in sets.items():
        own, held = p[name][rows.at(640)], np.array(rows.held)[rows.at(640)]
        cells = [
            f"{(own < t).mean():.2f}: {(1 - held[own < t]).mean() if (own < t).any() else float('nan'):.2f}"
            for t in UNSURE
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")


def _report_auto(sets: Mapping[str, Rows], p: Mapping[str, DoubleArray], price: float = AUTO_PRICE) -> None:
    print(f"\nThe budget auto at a price of {price}, and a fixed budget with the same mean tokens over all sets.\n")
    auto = {
        name: [max(a.path, key=lambda i: p[name][i] - price * rows.tokens[i] / AUTO_BUDGET) for a in rows.questions]
        for name, rows in sets.items()
    }
    used = _mean(sets, auto, "tokens")
    fixed = {budget: {name: rows.at(budget) for name, rows in sets.items()} for budget in BUDGETS}
    places = [_mean(sets, fixed[budget], "tokens") for budget in BUDGETS]
    high = min(max(int(np.searchsorted(places, used)), 1), len(BUDGETS) - 1)
    share = (used - places[high - 1]) / (places[high] - places[high - 1])
    print("| set | tokens of auto | complete | complete of fixed |\n| --- | --- | --- | --- |")
    differences = []
    for name, rows in sets.items():
        held = np.array(rows.held)
        low, top = (held[fixed[BUDGETS[at]][name]] for at in (high - 1, high))
        other = low + share * (top - low)
        differences.append(held[auto[name]] - other)
        tokens = np.array(rows.tokens)[auto[name]].mean()
        print(f"| {name} | {tokens:.0f} | {held[auto[name]].mean():.3f} | {other.mean():.3f} |")
    draw = np.random.default_rng(0)
    means = [np.mean([d[draw.integers(0, len(d), len(d))].mean() for d in differences]) for _ in range(DRAWS)]
    low, top = np.percentile(means, [2.5, 97.5])
    gain = f"{np.mean([d.mean() for d in differences]):+.3f} [{low:+.3f}, {top:+.3f}]"
    print(f"| mean | {used:.0f} | {_mean(sets, auto, 'held'):.3f} | {gain} |")


def _mean(sets: Mapping[str, Rows], chosen: Mapping[str, Sequence[int]], column: str) -> float:
    return float(np.mean([np.array(getattr(rows, column))[chosen[name]].mean() for name, rows in sets.items()]))
