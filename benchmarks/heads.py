"""weave's heads (`designs/weave/fitted.npz`): fitted on the first halves of all sets, for both embedders and none.

python -m benchmarks.heads fit          fit and write the heads
python -m benchmarks.heads folds        questions of the first halves, each with heads fitted on the other folds
python -m benchmarks.heads left-out     the second halves of each group, with heads fitted without the group
python -m benchmarks.heads test         the second halves, with the standing heads

The loss is a smooth form of what counts: for each budget, whether all of a gold fits. A sentence is reached when those with more
relevance per token are paid for. It needs torch (2.13.0), and takes minutes on two cores. A group counts as much as the root of
its number of questions. The manuals that are not in the data need --manuals DIR (benchmarks/manuals/README.md).
"""

from __future__ import annotations

import argparse
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks import sets
from benchmarks.fitting import BUDGETS, MODELS, AskedCase, groups_of
from mergewise.assemble.sentences import section_of
from mergewise.designs.weave import given
from mergewise.designs.weave.given import HEADS, Beside
from mergewise.designs.weave.parameters import Weave
from mergewise.designs.weave.place import HELD, clamped_log_odds, odds_and_features, place_features, relevance_in_place
from mergewise.designs.weave.place import fitted_weights as standing
from mergewise.designs.weave.selection import CONSIDERED, LENGTH_POWER, by_score, select
from mergewise.models.tokens import count_tokens
from mergewise.protocols import DoubleArray
from mergewise.text.blocks import heading_parts, path_levels

EMBEDDERS = ("minilm", "e5", "none")
FITTED_FOR = (100, 128, 210, 300, 450, 640)  # tokens
HIDDEN, SEEDS = 8, 4  # the networks of all seeds become one
RIDGE, DECAY = 1e-3, 5e-3  # of the linear part, and of the hidden layer
LIKELIHOOD = 0.03  # weight of the log-loss of sentences
APART = 0.5  # difference in the log of relevance per token that decides which of two sentences is taken first
EDGE = 0.35  # the same, for the log of a gold's place over the budget
SHARPNESS = 8.0  # of the largest of a gold's pieces, and of the smallest of the golds
JOINT = 2  # tokens between sentences
FOLDS = 5


class Row(NamedTuple):
    """A question's best candidates: features, log-odds that are not fitted, and for each gold its sentences by piece."""

    one: AskedCase
    best: list[int]
    relevance: DoubleArray
    features: DoubleArray
    held: DoubleArray
    golds: list[list[int]]
    worth: DoubleArray  # the log of length power over cost
    cost: DoubleArray


def row_of(one: AskedCase) -> Row:
    candidates = one.case.candidates
    relevance = relevance_in_place(candidates)
    best = by_score(relevance)[:CONSIDERED]
    held, features = (part[..., best].astype(float) for part in odds_and_features(candidates))
    beside = Beside(candidates, best)
    features = np.vstack([features, *beside.features(0, float(relevance[best[0]])).values()])
    sentences = [candidates.pool.sentences[i] for i in best]
    tokens = np.array([sentence.tokens for sentence in sentences], float)
    cost, seen = tokens + JOINT, set()
    for at, sentence in enumerate(sentences):
        # the first of a section pays its heading line
        if (key := section_of(sentence.leaf)) not in seen:
            seen.add(key)
            cost[at] += count_tokens([" ".join(heading_parts(path_levels(sentence.leaf.title, key[1])))])[0] + JOINT
    golds = sets.places(one.asked, [sentence.span for sentence in sentences], one.texts)
    worth = LENGTH_POWER * np.log(np.maximum(1, tokens)) - np.log(cost)
    return Row(one, best, relevance[best].astype(float), features, held, golds, worth, cost)


# -- fitting


class Net(torch.nn.Module):
    """A linear part, and a hidden layer with its outputs. Features are standardised."""

    def __init__(self, mean: torch.Tensor, spread: torch.Tensor) -> None:
        super().__init__()
        count = len(mean)
        self.mean, self.spread = mean, spread
        self.linear, self.hidden = torch.nn.Linear(count, 1), torch.nn.Linear(count, HIDDEN)
        self.out = torch.nn.Linear(HIDDEN, 1, bias=False)
        for weights in (self.linear.weight, self.linear.bias, self.out.weight):
            torch.nn.init.zeros_(weights)
        torch.nn.init.normal_(self.hidden.weight, std=count**-0.5)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        x = (features - self.mean) / self.spread
        return (self.linear(x) + self.out(torch.tanh(self.hidden(x))))[:, 0]

    def decay(self) -> torch.Tensor:
        squares = [(layer.weight**2).sum() for layer in (self.linear, self.hidden, self.out)]
        return RIDGE * squares[0] + DECAY * (squares[1] + squares[2])


class Batch:
    """All rows as tensors: sentences, pairs of a gold's sentence with each of its question, golds, and questions."""

    def __init__(self, rows: Sequence[Row], weights: Sequence[float]) -> None:
        self.rows = [row for row in rows if row.golds]
        by_row = {id(row): weight for row, weight in zip(rows, weights, strict=True)}
        sizes = [len(row.best) for row in self.rows]
        firsts = np.cumsum([0, *sizes])
        self.features = _tensor(np.hstack([row.features for row in self.rows]).T)
        self.held, self.worth, self.cost = (
            _tensor(np.concatenate([getattr(row, name) for row in self.rows])) for name in ("held", "worth", "cost")
        )
        self.question = torch.tensor(np.repeat(np.arange(len(sizes)), sizes))
        share = np.array([by_row[id(row)] for row in self.rows])
        self.share = _tensor(share / share.sum())
        self.gold = torch.zeros(int(firsts[-1]))
        piece, other, gold_of_piece, row_of_gold = [], [], [], []
        for at, row in enumerate(self.rows):
            for gold in row.golds:
                self.gold[[int(firsts[at]) + i for i in gold]] = 1
                piece += [int(firsts[at]) + i for i in gold]
                other += [np.arange(firsts[at], firsts[at + 1]) for _ in gold]
                gold_of_piece += [len(row_of_gold)] * len(gold)
                row_of_gold.append(at)
        self.piece, self.gold_of_piece, self.row_of_gold = map(torch.tensor, (piece, gold_of_piece, row_of_gold))
        self.other = torch.tensor(np.concatenate(other))
        self.of_piece = torch.tensor(np.repeat(np.arange(len(piece)), [len(each) for each in other]))

    def loss(self, odds: torch.Tensor) -> torch.Tensor:
        """Return the mean share of budgets that a gold does not fit, with a part of the log-loss."""
        density = torch.nn.functional.logsigmoid(odds) + self.worth
        ahead = torch.sigmoid((density[self.other] - density[self.piece][self.of_piece]) / APART)
        place = torch.log1p(_sum(self.of_piece, self.cost[self.other] * ahead, len(self.piece)))
        last = torch.log(_sum(self.gold_of_piece, torch.exp(SHARPNESS * (place - 5)), len(self.row_of_gold)))
        last = last / SHARPNESS + 5  # a gold is held with its last piece
        first = 5 - torch.log(_sum(self.row_of_gold, torch.exp(-SHARPNESS * (last - 5)), len(self.rows))) / SHARPNESS
        missed = torch.stack([torch.sigmoid((first - np.log(budget)) / EDGE) for budget in FITTED_FOR]).mean(dim=0)
        entropy = torch.nn.functional.binary_cross_entropy_with_logits(odds, self.gold, reduction="none")
        return ((missed + LIKELIHOOD * _sum(self.question, entropy, len(self.rows))) * self.share).sum()


def _tensor(values: DoubleArray) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def _sum(groups: torch.Tensor, values: torch.Tensor, count: int) -> torch.Tensor:
    return torch.zeros(count).index_add(0, groups, values)


def net_of(batch: Batch, seed: int) -> Net:
    torch.manual_seed(seed)
    net = Net(batch.features.mean(dim=0), batch.features.std(dim=0) + 1e-6)
    steps = torch.optim.LBFGS(net.parameters(), max_iter=60, history_size=20, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        steps.zero_grad()
        loss = batch.loss(batch.held + net(batch.features)) + net.decay()
        loss.backward()
        return loss

    steps.step(closure)
    return net


def arrays_of(nets: Sequence[Net]) -> dict[str, DoubleArray]:
    """Return the mean of some nets as the arrays of one head, for features that are not standardised."""
    linear, hidden, out = [], [], []
    for net in nets:
        mean, spread = net.mean.numpy(), net.spread.numpy()
        for layer, found in ((net.linear, linear), (net.hidden, hidden)):
            weights = layer.weight.detach().numpy() / spread
            found.append(np.column_stack([layer.bias.detach().numpy() - weights @ mean, weights]))
        out.append(net.out.weight.detach().numpy()[0] / len(nets))
    return {"linear": np.mean(linear, axis=0)[0], "hidden": np.vstack(hidden), "out": np.concatenate(out)}


def fitted(rows: Sequence[Row], weights: Sequence[float]) -> dict[str, DoubleArray]:
    """Fit the heads, each after the first beside the sentence that the one before it puts first."""
    found: dict[str, DoubleArray] = {}
    for number in range(1, HEADS + 1):
        batch = Batch(rows, weights)
        arrays = arrays_of([net_of(batch, seed) for seed in range(SEEDS)])
        found |= {f"{name}{number}": np.asarray(array, np.float32) for name, array in arrays.items()}
        standing().update(found)
        rows = [beside_next(row, number) for row in rows] if number < HEADS else rows
    return found


def beside_next(row: Row, number: int) -> Row:
    """Add the features beside the sentence that a head puts first among those not yet chosen."""
    judged = 1 / (1 + np.exp(-row.held - given.output(number, row.features.astype(np.float32))))
    at = int(np.argmax(np.where(np.arange(len(judged)) == 0, -1, judged)))
    beside = Beside(row.one.case.candidates, row.best).features(at, float(judged[at]))
    return row._replace(features=np.vstack([row.features, *beside.values(), clamped_log_odds(judged)]))


# -- reports


def held(row: Row) -> list[bool]:
    """Return whether a gold is selected, for each budget."""
    sentences = row.one.case.candidates.pool.sentences
    chosen = [select(row.one.case.candidates, budget, MODELS, Weave(), [])[0] for budget in BUDGETS]
    return [sets.holds(row.one.asked, [sentences[i].span for i in one], row.one.texts) for one in chosen]


Groups = dict[tuple[str, str], list[Row]]


def gathered(split: Any, options: argparse.Namespace) -> Groups:
    return {
        (group, embedder): [row_of(one) for one in cases if len(one.case.candidates.pool)]
        for embedder in EMBEDDERS
        for group, cases in groups_of(split, options, embedder).items()
    }


def weighted(groups: Groups, keep: Callable[[str, Row], bool]) -> tuple[list[Row], list[float]]:
    """Return the rows to keep, each with the weight that its group's size leaves it."""
    kept = [[row for row in rows if keep(name, row)] for (name, _), rows in groups.items()]
    return [row for rows in kept for row in rows], [len(rows) ** -0.5 for rows in kept for _ in rows]


def report(found: Mapping[tuple[str, str], Sequence[Sequence[bool]]]) -> None:
    print("| group | embedder | questions | held at " + " / ".join(map(str, BUDGETS)) + " |\n| --- | --- | --- | --- |")
    for (group, embedder), rows in found.items():
        shares = " / ".join(f"{share:.3f}" for share in np.array(rows, float).mean(axis=0)) if rows else ""
        print(f"| {group} | {embedder} | {len(rows)} | {shares} |", flush=True)


def fold_of(row: Row) -> int:
    return zlib.crc32(row.one.asked.question.text.encode()) % FOLDS


def folds(groups: Groups) -> Iterator[tuple[tuple[str, str], list[bool]]]:
    for fold in range(FOLDS):
        standing().update(fitted(*weighted(groups, lambda _, row, fold=fold: fold_of(row) != fold)))
        yield from ((key, held(row)) for key, rows in groups.items() for row in rows if fold_of(row) == fold)


def left_out(first: Groups, second: Groups) -> Iterator[tuple[tuple[str, str], list[bool]]]:
    for group in dict.fromkeys(name for name, _ in first):
        standing().update(fitted(*weighted(first, lambda name, _, group=group: name != group)))
        yield from ((key, held(row)) for key, rows in second.items() if key[0] == group for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("fit", "folds", "left-out", "test"))
    parser.add_argument("--limit", type=int, default=200, help="questions per set")
    parser.add_argument("--cache", type=Path, default=Path("weave.cache"))
    parser.add_argument("--manuals", type=Path)
    options = parser.parse_args()
    options.text = False
    first = {} if options.what == "test" else gathered("dev", options)
    if options.what == "fit":
        arrays = fitted(*weighted(first, lambda *_: True))
        candidates = next(row.one.case.candidates for rows in first.values() for row in rows)
        names = {
            "place_names": [name for name in place_features(candidates) if name not in HELD],
            "beside_names": list(Beside(candidates, [0]).features(0, 1.0)),
        }
        np.savez(Path(given.__file__).with_name("fitted.npz"), **{**standing(), **arrays, **names})
        return
    if options.what == "folds":
        results = folds(first)
    else:
        second = gathered("test", options)
        results = (
            left_out(first, second) if first else ((key, held(row)) for key, rows in second.items() for row in rows)
        )
    found: dict[tuple[str, str], list[list[bool]]] = defaultdict(list)
    for key, row in results:
        found[key].append(row)
    report(found)


if __name__ == "__main__":
    main()
