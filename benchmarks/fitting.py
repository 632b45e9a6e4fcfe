"""weave's weights: fitted on sets of several hops, single hops, manuals and languages together, and judged on the sets left out.

python -m benchmarks.fitting place             the weights of `place`, by likelihood, on the candidates of both embedders
python -m benchmarks.fitting place-left-out    the same, fitted without each group, on the second halves of that group
python -m benchmarks.fitting fit               `evidence.WEIGHTS`; with --text, `evidence.TEXT_WEIGHTS`
python -m benchmarks.fitting left-out          weights fitted without each group, on the second halves of that group

A group counts as one set, however many questions it has; for `place`, as much as the root of their number. With --text, questions
and documents have no vectors. The manuals that are not in the data need --manuals DIR (benchmarks/manuals/README.md) and are left
out without it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import manuals, sets
from benchmarks.manuals import Asked
from mergewise.designs import VIEWS
from mergewise.designs.weave import place as place_module
from mergewise.designs.weave.evidence import FEATURES, TEXT_WEIGHTS, WEIGHTS
from mergewise.designs.weave.parameters import Weave
from mergewise.designs.weave.place import odds_and_features
from mergewise.designs.weave.selection import select
from mergewise.evaluate.run import Split
from mergewise.evaluate.tuning.weights import Case, case_of, logistic, rows_of
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.protocols import DoubleArray
from mergewise.retrieve.hybrid import HybridReader

BUDGETS = (128, 300, 640)
MODELS = Models(count_tokens, stored_tokens=True)
NAMES = ("bias", *FEATURES)
GROUPS: Mapping[str, str] = {
    "several hops": "2wiki hotpotqa-long musique-long",
    "one hop": "squad covidqa",
    "manuals": "questions",
    "two places in manuals": "hops",
    "languages": "xquad-en xquad-de xquad-es xquad-zh xquad-tr xquad-ru",
}
PROJECTS, OTHER_MANUALS = "manuals of other projects", "manuals in other languages"
FACTORS = (1.4, 0.7)
PENALTY = 0.15
PLACE_RIDGE = 1e-3
HOLDS = 1e4
SHIPPED = ("minilm", "e5")


class AskedCase(NamedTuple):
    """A question with its gold, its candidates, and the texts that its gold lies in."""

    asked: Asked
    case: Case
    texts: dict[str, str]


Group = Sequence[AskedCase]


def cases_of(name: str, split: Split, options: argparse.Namespace, embedder: str = "minilm") -> Group:
    """Gather the candidates of a set's questions, by text alone or as a question does."""
    index, found = sets.opened(name, options.cache, options.manuals, embedder), []
    state = index.state()
    store = state.store
    for one in sets.asked(name, split, options.limit):
        own = state.for_question()
        reader = (
            HybridReader(store, None, VIEWS, None, index.search_settings, kind="text")
            if options.text
            else own.reader(None)
        )
        case = case_of(one.question, reader, store, models=None if options.text else own.models)
        if case is not None:
            texts = {span.doc_id: index.document(span.doc_id).text for gold in one.golds for span, _ in gold}
            # a gold of a manual may be a piece of a sentence, and any of several will do
            touched = sets.places(one, [sentence.span for sentence in case.candidates.pool.sentences], texts)
            case.gold[:] = 0
            case.gold[[at for gold in touched for at in gold]] = 1
            found.append(AskedCase(one, case, texts))
    return found


def groups_of(split: Split, options: argparse.Namespace, embedder: str = "minilm") -> dict[str, Group]:
    names = {group: list(of_group.split()) for group, of_group in GROUPS.items()}
    if options.manuals is not None:
        projects = ["projects", "tools", "postfix"]
        names |= {PROJECTS: projects, OTHER_MANUALS: [one for one in manuals.corpora() if one not in projects]}
    return {
        group: [case for name in of_group for case in cases_of(name, split, options, embedder)]
        for group, of_group in names.items()
    }


def shares(group: Group, weights: DoubleArray) -> DoubleArray:
    """Return the share of questions with all evidence selected at each budget."""
    held = []
    for asked, case, texts in group:
        relevance = 1 / (1 + np.exp(-(case.features @ weights[1:] + weights[0]))).astype(np.float32)
        candidates = replace(case.candidates, relevance=relevance)
        chosen = [select(candidates, budget, MODELS, Weave(), [])[0] for budget in BUDGETS]
        held.append([sets.holds(asked, [candidates.pool.sentences[i].span for i in one], texts) for one in chosen])
    return np.asarray(np.array(held, float).mean(axis=0))


def target(groups: Mapping[str, Group], weights: DoubleArray, floor: Mapping[str, DoubleArray]) -> float:
    """Return the mean share over the groups, less a penalty for each share below the floor."""
    found = {name: shares(group, weights) for name, group in groups.items()}
    lost = sum(float(np.maximum(0, floor[name] - share).sum()) for name, share in found.items())
    return float(np.mean(list(found.values()))) - PENALTY * lost


def fitted(groups: Mapping[str, Group], standing: DoubleArray) -> DoubleArray:
    """Start from the standing weights, a logistic regression, or half of each; change each weight as long as more is held."""
    floor = {name: shares(group, standing) for name, group in groups.items()}
    found = logistic([rows_of([one.case for one in group]) for group in groups.values()])
    starts = [standing, found, (standing + found) / 2]
    values = [target(groups, weights, floor) for weights in starts]
    best = max(values)
    weights = starts[values.index(best)]
    print(f"starts: {values}", file=sys.stderr, flush=True)
    for i, name in enumerate(NAMES[1:], 1):
        for factor in FACTORS:
            tried = weights.copy()
            tried[i] *= factor
            value = target(groups, tried, floor)
            if value > best + 5e-4:
                best, weights = value, tried
                print(f"{name} times {factor}: {best:.4f}", file=sys.stderr, flush=True)
                break
    return weights


def fit(options: argparse.Namespace) -> None:
    groups = groups_of("dev", options)
    standing = np.array([(TEXT_WEIGHTS if options.text else WEIGHTS)[name] for name in NAMES])
    weights = fitted(groups, standing)
    for name, group in groups.items():
        print(
            f"{name}, {len(group)}: {shares(group, standing).round(3)} > {shares(group, weights).round(3)}", flush=True
        )
    print("".join(f'    "{name}": {weight:.2f},\n' for name, weight in zip(NAMES, weights, strict=True)))


def left_out(options: argparse.Namespace) -> None:
    first, second = groups_of("dev", options), groups_of("test", options)
    standing = np.array([(TEXT_WEIGHTS if options.text else WEIGHTS)[name] for name in NAMES])
    print("| left out | questions | standing weights | fitted on the others |\n| --- | --- | --- | --- |", flush=True)
    for name, group in second.items():
        others = fitted({other: cases for other, cases in first.items() if other != name}, standing)
        figures = [" / ".join(f"{share:.3f}" for share in shares(group, weights)) for weights in (standing, others)]
        print(f"| {name} | {len(group)} | " + " | ".join(figures) + " |", flush=True)


# -- the weights of a sentence's place


def place_fitted(groups: Iterable[Group]) -> DoubleArray:
    """Fit the weights by likelihood with a ridge, from those that leave the log-odds as they are. The bias comes first."""
    known = [group for group in ([one for one in group if one.case.gold.any()] for group in groups) if group]
    rows = [np.hstack([odds_and_features(one.case.candidates)[1] for one in group]).T.astype(float) for group in known]
    held = [np.concatenate([odds_and_features(one.case.candidates)[0] for one in group]) for group in known]
    spread = np.concatenate(rows).std(axis=0) + 1e-6
    labels = [np.concatenate([one.case.gold for one in group]) for group in known]
    # the ridge holds the weight of the log-odds that are not fitted
    parts = [
        (np.column_stack([row / spread, own / HOLDS]), label, len(group) ** 0.5)
        for row, own, label, group in zip(rows, held, labels, known, strict=True)
    ]
    ridge = PLACE_RIDGE * sum(len(group) ** 0.5 for group in known)
    bias, *weights, _ = logistic(parts, ridge, np.array([0.0, *np.zeros(len(spread)), HOLDS]))
    return np.array([bias, *(np.array(weights) / spread)])


def place_shares(group: Group, weights: DoubleArray) -> DoubleArray:
    """Return the share of questions with all evidence selected at each budget."""
    place_module.fitted_weights()["place"] = weights
    held = []
    for asked, case, texts in group:
        sentences = case.candidates.pool.sentences
        chosen = [select(case.candidates, budget, MODELS, Weave(), [])[0] for budget in BUDGETS]
        held.append([sets.holds(asked, [sentences[i].span for i in one], texts) for one in chosen])
    return np.asarray(np.array(held, float).mean(axis=0))


def place(options: argparse.Namespace, *, left_out: bool) -> None:
    """Print shares of the second halves with the standing weights and with fitted ones, and write the fitted weights."""
    first = {
        (name, embedder): group for embedder in SHIPPED for name, group in groups_of("dev", options, embedder).items()
    }
    standing, found = place_module.fitted_weights()["place"], place_fitted(first.values())
    print("| group | embedder | questions | standing weights | fitted |\n| --- | --- | --- | --- | --- |", flush=True)
    for embedder in SHIPPED:
        for name, group in groups_of("test", options, embedder).items():
            others = [own for (other, _), own in first.items() if other != name]
            own = place_fitted(others) if left_out else found
            figures = [" / ".join(f"{share:.3f}" for share in place_shares(group, each)) for each in (standing, own)]
            print(f"| {name} | {embedder} | {len(group)} | " + " | ".join(figures) + " |", flush=True)
    if not left_out:
        np.savez(
            Path(place_module.__file__).with_name("fitted.npz"), **{**place_module.fitted_weights(), "place": found}
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("place", "place-left-out", "fit", "left-out"))
    parser.add_argument("--text", action="store_true", help="without vectors")
    parser.add_argument("--limit", type=int, default=60, help="questions per set")
    parser.add_argument("--cache", type=Path, default=Path("weave.cache"))
    parser.add_argument("--manuals", type=Path)
    options = parser.parse_args()
    if options.what.startswith("place"):
        place(options, left_out=options.what == "place-left-out")
    else:
        (fit if options.what == "fit" else left_out)(options)


if __name__ == "__main__":
    main()
