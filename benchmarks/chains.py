"""weave's chains: the effect of each part, the evidence among the candidates, and weights fitted without a set.

python -m benchmarks.chains parts      every part alone and together, all evidence held [--split test] [--limit N]
python -m benchmarks.chains ceiling    questions whose gold is among the candidates, and the share a perfect scorer would hold
python -m benchmarks.chains left-out   weights fitted on four sets' first halves, tested on the second half of the fifth

Indexes of the question sets are cached in --cache DIR, shared with `benchmarks.weave`. `parts` and `ceiling` score the text of
the context, like `eval`. Fitting scores the selected sentences.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.weave import BUDGETS, MODELS, SETS, cases_of, climb, held, opened
from mergewise.designs import weave
from mergewise.designs.weave import evidence, hops
from mergewise.designs.weave.evidence import FEATURES, WEIGHTS
from mergewise.designs.weave.selection import select
from mergewise.evaluate.metrics import score_context
from mergewise.evaluate.run import Split, chosen_questions, evaluate
from mergewise.evaluate.tuning.weights import Array, Case, logistic, rows_of
from mergewise.models.tokens import count_tokens

# -- parts


def no_trust_in_named() -> AbstractContextManager[object]:
    """Turn off the trust in sentences of a section that the question names."""
    return patch.object(hops.Follower, "_as_named", lambda self, candidate, strength: float(strength[candidate]))


def no_words_of_relations() -> AbstractContextManager[object]:
    """Turn off the words that express a relation, such as "daughter of" for a father."""
    return patch.object(evidence, "telling_words", lambda words: [])


PARTS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "trust in what a named section says": no_trust_in_named,
    "words that tell a relation": no_words_of_relations,
}
SECOND = "the second search"


@contextmanager
def without(parts: Sequence[str]) -> Iterator[str]:
    """Yield the strategy without these parts."""
    with ExitStack() as stack:
        for part in parts:
            stack.enter_context(PARTS.get(part, nullcontext)())
        yield "weave(onward=0)" if SECOND in parts else "weave"


def parts(sets: Sequence[str], cache: Path, split: Split, limit: int) -> None:
    every = [*PARTS, SECOND]
    rows = {"none of them": every}
    rows |= {f"{part} alone": [other for other in every if other != part] for part in every}
    rows |= {f"all but {part}": [part] for part in every}
    rows["weave"] = []
    tasks = [opened(name, cache) for name in sets]
    print("| | " + " | ".join(sets) + " | mean |\n| --- |" + " --- |" * (len(sets) + 1))
    for label, left_out in rows.items():
        cells, shares = [], []
        for task, index in tasks:
            with without(left_out) as spec:
                found = [row.scores.get("all", 0.0) for row in evaluate(index, task, [spec], BUDGETS, split, limit)]
            cells.append(" ".join(f"{share:.3f}" for share in found))
            shares += found
        print(f"| {label} | " + " | ".join(cells) + f" | {np.mean(shares):.3f} |", flush=True)


# -- the ceiling


def ceiling(sets: Sequence[str], cache: Path, split: Split, limit: int) -> None:
    """Print the share held by a perfect scorer: gold sentences score 1, others 0, and weave selects as usual."""
    print("| set | gold among the candidates | a perfect scorer at " + " | ".join(map(str, BUDGETS)) + " |")
    print("| --- |" + " --- |" * (1 + len(BUDGETS)))
    for name in sets:
        task, index = opened(name, cache)
        cases = list(cases_of(task, index, limit, split))
        asked = len(chosen_questions(task, split, limit))
        among = sum(_all_there(case) for case in cases) / asked
        shares = [sum(_perfect(case, budget) for case in cases) / asked for budget in BUDGETS]
        print(f"| {name} | {among:.3f} | " + " | ".join(f"{share:.3f}" for share in shares) + " |", flush=True)


def _all_there(case: Case) -> bool:
    return _holds(case, range(len(case.candidates.sentences)))


def _perfect(case: Case, budget: int) -> bool:
    case.candidates.relevance = np.where(case.gold > 0, 0.99, 0.001).astype(np.float32)
    chosen, _ = select(case.candidates, budget, MODELS, weave.Weave(), [])
    return _holds(case, chosen)


def _holds(case: Case, chosen: Sequence[int]) -> bool:
    text = "\n".join(case.candidates.sentences[i].text for i in sorted(chosen))
    return bool(score_context(case.question, text, 1, count_tokens).all)


# -- weights fitted without a set


def left_out(sets: Sequence[str], cache: Path, limit: int) -> None:
    """Print, for the second half of each set, the current weights and weights fitted on the other sets."""
    first = {name: list(cases_of(*opened(name, cache), limit, "dev")) for name in sets}
    standing = np.array([WEIGHTS[name] for name in ("bias", *FEATURES)])
    print(
        "| left out | standing weights | fitted on the others | fitted on all |\n| --- | --- | --- | --- |", flush=True
    )
    of_all = _fit_weights(list(first.values()))
    for name in sets:
        others = _fit_weights([cases for other, cases in first.items() if other != name])
        second = [list(cases_of(*opened(name, cache), limit, "test"))]
        figures = [held(second, weights) for weights in (standing, others, of_all)]
        print(f"| {name} | " + " | ".join(f"{figure:.3f}" for figure in figures) + " |", flush=True)


def _fit_weights(sets: Sequence[Sequence[Case]]) -> Array:
    return climb(sets, logistic([rows_of(cases) for cases in sets]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("parts", "ceiling", "left-out"))
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--split", default="test")
    parser.add_argument("--limit", type=int, default=9999)
    parser.add_argument("--cache", type=Path, default=Path("weave.cache"))
    options = parser.parse_args()
    sets = options.sets.split(",")
    if options.what == "left-out":
        left_out(sets, options.cache, min(options.limit, 120))
    else:
        {"parts": parts, "ceiling": ceiling}[options.what](sets, options.cache, options.split, options.limit)


if __name__ == "__main__":
    main()
