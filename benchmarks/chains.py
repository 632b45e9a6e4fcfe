"""weave's chains: the effect of each part, the evidence among the candidates.

python -m benchmarks.chains parts      every part alone and together, all evidence held [--split test] [--limit N]
python -m benchmarks.chains ceiling    questions whose gold is among the candidates, and the share a perfect scorer would hold

Indexes of the question sets are cached in --cache DIR, shared with `benchmarks.weave`. `parts` and `ceiling` score the text of
the context, like `eval`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.fitting import AskedCase, cases_of
from benchmarks.sets import holds
from benchmarks.weave import BUDGETS, MODELS, SETS, opened
from mergewise.designs import weave
from mergewise.designs.weave import evidence, hops
from mergewise.designs.weave.selection import select
from mergewise.evaluate.run import Split, evaluate

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
        cases = cases_of(name, split, limit, cache, None)
        among = np.mean([_holds(one, range(len(one.case.candidates.sentences))) for one in cases])
        shares = [np.mean([_perfect(one, budget) for one in cases]) for budget in BUDGETS]
        print(f"| {name} | {among:.3f} | " + " | ".join(f"{share:.3f}" for share in shares) + " |", flush=True)


def _perfect(one: AskedCase, budget: int) -> bool:
    candidates = one.case.candidates
    candidates.relevance = np.where(one.case.gold > 0, 0.99, 0.001).astype(np.float32)
    return _holds(one, select(candidates, budget, MODELS, weave.Weave(), [])[0])


def _holds(one: AskedCase, chosen: Sequence[int]) -> bool:
    return holds(one.asked, [one.case.candidates.sentences[i].span for i in chosen], one.texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("parts", "ceiling"))
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--split", default="test")
    parser.add_argument("--limit", type=int, default=9999)
    parser.add_argument("--cache", type=Path, default=Path("weave.cache"))
    options = parser.parse_args()
    sets = options.sets.split(",")
    {"parts": parts, "ceiling": ceiling}[options.what](sets, options.cache, options.split, options.limit)


if __name__ == "__main__":
    main()
